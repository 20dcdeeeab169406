/* The scheduler of a node on a server learns of the ends of its own node by their records, a round before their news. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/node.h"
#include "store/driver.h"
#include "support/postgres_server.h"
#include "support/scripted_engine/scripted.h"
#include "support/test.h"

enum { URL_SIZE = 256, ROOM = 4, STEPS_MOST = 200 };
#define START_US (60 * MICROSECONDS_PER_SECOND)

static struct postgres_server server;
static int64_t now_us = START_US;
static _Atomic int rounds; /* threads that connect call the store, too */
static int assigned;
static int rounds_at_assignment;

static int64_t read_clock(void *context)
{
    (void)context;
    return now_us;
}

static const struct clock test_clock = {.wall_us = read_clock, .boot_us = read_clock};

static void note(void *context, const struct event *event)
{
    (void)context;
    bool is_round = event->type == EVENT_STORE_CALLED && strcmp(event->reason, "schedule") == 0;
    (void)atomic_fetch_add(&rounds, is_round);
    if (event->type == EVENT_EXECUTION_ASSIGNED) {
        assigned++;
        rounds_at_assignment = atomic_load(&rounds);
    }
}

struct scene {
    struct store *store;
    struct scripted_world *world;
    struct engine *engine;
    struct node *node;
    struct event_bus events;
};

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, "fsync = off\n", false);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

static int open_scene(void **state)
{
    static struct scene scene;
    char url[URL_SIZE];
    struct published published;
    scene = (struct scene){.store = NULL};
    assigned = 0;
    (void)postgres_server_ask(&server, "postgres", "DROP SCHEMA IF EXISTS weir CASCADE");
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .create = true};
    struct workspace_change solo = {.name = "solo", .max_concurrent = 1, .paused = -1, .create = true};
    assert_int_equal(store_open(&options, &scene.store, NULL), WEIR_OK);
    assert_int_equal(store_migrate(scene.store, NULL, NULL), WEIR_OK);
    assert_int_equal(store_set_workspace(scene.store, &solo, NULL), WEIR_OK);
    assert_int_equal(store_publish(scene.store, "plain", NULL, "{\"name\":\"plain\"}", NULL, &published, NULL), WEIR_OK);
    scene.world = scripted_world_open(SCRIPTED_SHARED, &test_clock, NULL, 1);
    assert_non_null(scene.world);
    assert_int_equal(scripted_open(scene.world, ROOM, &scene.engine, NULL), WEIR_OK);
    assert_true(event_subscribe(&scene.events, note, NULL));
    scene.store->events = &scene.events; /* the handles of the node's loops are copies */
    struct node_settings settings = {
        .name = "node", .poll_interval_us = 3600 * MICROSECONDS_PER_SECOND, .seed = 7, .clock = &test_clock};
    assert_int_equal(node_open(scene.store, scene.engine, &scene.events, &settings, &scene.node, NULL), WEIR_OK);
    *state = &scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    node_close(scene->node);
    engine_close(scene->engine);
    scripted_world_close(scene->world);
    store_close(scene->store);
    return 0;
}

static void enqueue(struct scene *scene, char *ret_id)
{
    struct enqueue_request request = {.workspace = "solo", .workflow = "plain"};
    struct enqueue_result result;
    assert_int_equal(store_enqueue(scene->store, &request, 1, &result, NULL), WEIR_OK);
    assert_int_equal(result.status, WEIR_OK);
    memcpy(ret_id, result.id, UUID_TEXT_MAX);
}

/* Until this many were assigned; then the engine runs, and all its reports are on record. */
static void run_until_recorded(struct scene *scene, int count)
{
    for (int i = 0; i < STEPS_MOST && assigned < count; i++) {
        (void)node_step(scene->node);
        now_us += MICROSECONDS_PER_MS;
    }
    assert_int_equal(assigned, count);
    for (int i = 0; i < STEPS_MOST; i++) {
        (void)scripted_world_pass_time(scene->world);
        (void)engine_step(scene->engine);
        (void)node_record_step(scene->node);
        now_us += MICROSECONDS_PER_MS;
    }
}

static void the_slot_of_an_own_end_is_given_out_in_the_next_round(void **state)
{
    struct scene *scene = *state;
    char ids[3][UUID_TEXT_MAX];
    for (int i = 0; i < 3; i++) {
        enqueue(scene, ids[i]);
    }
    run_until_recorded(scene, 1);
    for (int i = 2; i <= 3; i++) {
        atomic_store(&rounds, 0);
        (void)node_dispatch_step(scene->node);
        assert_int_equal(assigned, i);
        assert_int_equal(rounds_at_assignment, 1);
        run_until_recorded(scene, i);
    }
}

/* The news of ends that were passed gives nothing back again: with one slot, one runs at a time. */
static void an_own_end_gives_its_slot_back_once(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    int before = assigned;
    struct scripted_outcome endless = {.never_ends = true};
    enqueue(scene, id);
    run_until_recorded(scene, before + 1);
    scripted_world_push(scene->world, &endless);
    for (int i = 0; i < 3; i++) {
        enqueue(scene, id);
    }
    run_until_recorded(scene, before + 2);
    for (int i = 0; i < STEPS_MOST; i++) {
        (void)node_step(scene->node);
        now_us += 20 * MICROSECONDS_PER_MS;
    }
    assert_int_equal(assigned, before + 2);
    assert_string_equal(
        postgres_server_ask(&server, "postgres", "SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 2"),
        "1");
}

static int64_t number_of(const char *sql)
{
    return strtoll(postgres_server_ask(&server, "postgres", sql), NULL, 10);
}

/* As if the answer to the record had been lost, and the node had read its news in the meantime. */
static void a_repeated_record_gives_nothing_back(void **state)
{
    struct scene *scene = *state;
    char ids[3][UUID_TEXT_MAX];
    int before = assigned;
    struct scripted_outcome endless = {.never_ends = true};
    struct record_summary summary;
    for (int i = 0; i < 3; i++) {
        enqueue(scene, ids[i]);
    }
    for (int i = 0; i < STEPS_MOST && assigned == before; i++) {
        (void)node_dispatch_step(scene->node);
    }
    for (int i = 0; i < STEPS_MOST; i++) { /* its end is reported, and not recorded yet */
        (void)scripted_world_pass_time(scene->world);
        (void)engine_step(scene->engine);
        now_us += MICROSECONDS_PER_MS;
    }
    struct record end = {.kind = RECORD_COMPLETED,
                         .dispatched_first = true,
                         .fence = number_of("SELECT fence FROM weir.workflow_execution_queue WHERE phase = 2")};
    memcpy(end.id, ids[0], sizeof end.id);
    assert_int_equal(store_record(scene->store, number_of("SELECT max(id) FROM weir.nodes"), &end, 1, &summary, NULL),
                     WEIR_OK);
    assert_int_equal(summary.slots_freed, 1);
    scripted_world_push(scene->world, &endless);
    for (int i = 0; i < 3; i++) {
        (void)node_heartbeat_step(scene->node);
        (void)node_dispatch_step(scene->node);
        now_us += 2 * MICROSECONDS_PER_SECOND;
    }
    assert_int_equal(assigned, before + 2);
    (void)node_record_step(scene->node);
    for (int i = 0; i < 3; i++) {
        (void)node_step(scene->node);
        now_us += 2 * MICROSECONDS_PER_SECOND;
    }
    assert_int_equal(assigned, before + 2);
    assert_int_equal(number_of("SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 2"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_slot_of_an_own_end_is_given_out_in_the_next_round),
        TEST(an_own_end_gives_its_slot_back_once),
        TEST(a_repeated_record_gives_nothing_back),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
