/* One node, stepped by hand on a virtual clock, over a real SQLite store and the scripted engine. */
#ifndef WEIR_TESTS_UNIT_DISPATCH_BENCH_H
#define WEIR_TESTS_UNIT_DISPATCH_BENCH_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dispatch/node.h"
#include "store/driver.h"
#include "support/scripted_engine/scripted.h"
#include "support/test.h"

#define SECOND MICROSECONDS_PER_SECOND
#define MINUTE (60 * SECOND)
#define START_WALL_US ((int64_t)1800000000 * SECOND)

enum { ROOM = 4, EVENTS_MOST = 4096 };

struct bench {
    struct clock clock;
    _Atomic int64_t now_us;
    char folder[64];
    char url[96];
    struct store *store;
    struct scripted_world *world;
    struct engine *engine;
    struct node *node;
    struct node_settings settings;
    struct event_bus events;
    pthread_mutex_t events_lock; /* one test has a second thread */
    int counts[EVENT_TYPE_COUNT];
    struct event last[EVENT_TYPE_COUNT];
    pthread_t thread;
    int steps;
};

static inline int64_t bench_boot(void *context)
{
    return ((struct bench *)context)->now_us;
}

static inline int64_t bench_wall(void *context)
{
    return START_WALL_US + ((struct bench *)context)->now_us;
}

static inline void count_event(void *context, const struct event *event)
{
    struct bench *bench = context;
    (void)pthread_mutex_lock(&bench->events_lock);
    bench->counts[event->type]++;
    bench->last[event->type] = *event; /* its strings are gone after the call; tests read the numbers alone */
    (void)pthread_mutex_unlock(&bench->events_lock);
}

static inline int open_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    (void)pthread_mutex_init(&bench->events_lock, NULL);
    bench->now_us = MINUTE;
    bench->clock = (struct clock){.wall_us = bench_wall, .boot_us = bench_boot, .context = bench};
    (void)snprintf(bench->folder, sizeof bench->folder, "%s/weir-node-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(bench->folder));
    (void)snprintf(bench->url, sizeof bench->url, "sqlite:%s/weir.db", bench->folder);
    assert_true(event_subscribe(&bench->events, count_event, bench));
    struct store_options options = {.url = bench->url, .create = true, .clock = &bench->clock};
    struct workspace_change solo = {.name = "solo", .plan = "free", .paused = -1, .create = true};
    struct workspace_change many = {.name = "many", .plan = "enterprise", .paused = -1, .create = true};
    struct published published;
    assert_int_equal(store_open(&options, &bench->store, NULL), WEIR_OK);
    assert_int_equal(store_migrate(bench->store, NULL, NULL), WEIR_OK);
    assert_int_equal(store_set_workspace(bench->store, &solo, NULL), WEIR_OK);
    assert_int_equal(store_set_workspace(bench->store, &many, NULL), WEIR_OK);
    assert_int_equal(store_publish(bench->store, "plain", NULL, "{\"name\":\"plain\"}", NULL, &published, NULL), WEIR_OK);
    assert_int_equal(store_publish(bench->store, "patient", NULL, "{\"name\":\"patient\",\"stuck_after\":\"10m\"}", NULL,
                                   &published, NULL),
                     WEIR_OK);
    bench->world = scripted_world_open(SCRIPTED_SHARED, &bench->clock, NULL, 1);
    assert_non_null(bench->world);
    assert_int_equal(scripted_open(bench->world, ROOM, &bench->engine, NULL), WEIR_OK);
    /* No poll falls into a test: each start follows a wake-up. */
    bench->settings =
        (struct node_settings){.name = "node", .poll_interval_us = 3600 * SECOND, .seed = 7, .clock = &bench->clock};
    *state = bench;
    return 0;
}

static inline void start_node(struct bench *bench)
{
    assert_int_equal(node_open(bench->store, bench->engine, &bench->events, &bench->settings, &bench->node, NULL), WEIR_OK);
}

static inline int close_bench(void **state)
{
    struct bench *bench = *state;
    char path[128];
    node_close(bench->node);
    engine_close(bench->engine);
    scripted_world_close(bench->world);
    store_close(bench->store);
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/weir.db%s", bench->folder, endings[i]);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/weir-archive.db%s", bench->folder, endings[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(bench->folder), 0);
    free(bench);
    return 0;
}

/* Lets the time pass as the node wants to be called, at least each second. */
static inline void pass(struct bench *bench, int64_t us)
{
    int64_t end_us = bench->now_us + us;
    for (;;) {
        (void)scripted_world_pass_time(bench->world);
        bench->steps++;
        int64_t next_us = bench->node == NULL ? TIME_NEVER : node_step(bench->node);
        if (bench->now_us >= end_us) {
            return;
        }
        int64_t soon_us = bench->now_us + SECOND < end_us ? bench->now_us + SECOND : end_us;
        int64_t ahead_us = scripted_next(bench->engine);
        next_us = ahead_us < next_us ? ahead_us : next_us;
        next_us = next_us < soon_us ? next_us : soon_us;
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us + 10;
    }
}

static inline void enqueue_at(struct bench *bench, const char *workspace, const char *workflow, int64_t run_at_us,
                              char *ret_id)
{
    struct enqueue_request request = {.workspace = workspace, .workflow = workflow, .run_at_us = run_at_us};
    struct enqueue_result result;
    assert_int_equal(store_enqueue(bench->store, &request, 1, &result, NULL), WEIR_OK);
    assert_int_equal(result.status, WEIR_OK);
    memcpy(ret_id, result.id, UUID_TEXT_MAX);
}

static inline void enqueue(struct bench *bench, const char *workspace, char *ret_id)
{
    enqueue_at(bench, workspace, "plain", 0, ret_id);
    if (bench->node != NULL) {
        node_wake(bench->node);
    }
}

static inline void push(struct bench *bench, struct scripted_outcome fate)
{
    scripted_world_push(bench->world, &fate);
}

/* "PENDING" ...; the answer lives until the next call. */
static inline const char *text_of(struct bench *bench, const char *id, const char *key)
{
    static char text[64];
    json_t *answer = NULL;
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_OK);
    const char *value = json_string_value(json_object_get(answer, key));
    (void)snprintf(text, sizeof text, "%s", value == NULL ? "" : value);
    json_decref(answer);
    return text;
}

static inline int runs_begun(struct bench *bench, const char *id)
{
    const struct scripted_entry *entry = scripted_world_entry(bench->world, id);
    return entry == NULL ? 0 : entry->runs_begun;
}

#endif
