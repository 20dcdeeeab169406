/* The scheduler of a node on a server learns of the ends of its own node by their records, a round before their news. While
 * these come quickly, it gives no other node what its own has room for. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/node.h"
#include "store/driver.h"
#include "support/postgres_server.h"
#include "support/scripted_engine/scripted.h"
#include "support/test.h"

/* A set takes a third of ROOM. Each of the workspaces has an item of a set, so that one round knows all heads. */
enum { URL_SIZE = 256, ROOM = 192, SET = ROOM / 3, MORE = 30, WORKSPACES = 2 * SET, STEPS_MOST = 200 };
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

/* The round that assigns does not read its own news, and nothing else happens. */
static void the_books_contain_a_last_assignment_after_seconds(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    for (int i = 0; i < 3; i++) { /* the books may be published at once */
        (void)node_step(scene->node);
        now_us += 2 * MICROSECONDS_PER_SECOND;
    }
    struct scripted_outcome endless = {.never_ends = true};
    scripted_world_push(scene->world, &endless);
    enqueue(scene, id);
    for (int i = 0; i < 30; i++) {
        (void)node_step(scene->node);
        now_us += MICROSECONDS_PER_SECOND / 10;
    }
    assert_int_equal(assigned, 1);
    assert_int_equal(number_of("SELECT count(*) FROM weir.news"), 0);
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

/* --- the other node --- */

/* It has capacity for all, and never reads its inbox. Returns its id. */
static int64_t start_other_node(struct scene *scene)
{
    struct node_options other = {.name = "other",
                                 .group = "default",
                                 .host = "",
                                 .boot_id = "",
                                 .version = "",
                                 .engine = "in_process",
                                 .capacity = (size_t)10 * ROOM,
                                 .lease_us = 3600 * MICROSECONDS_PER_SECOND};
    int64_t id = 0;
    assert_int_equal(store_node_start(scene->store, &other, &id, NULL), WEIR_OK);
    return id;
}

static int64_t held_by(int64_t node_id)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM weir.held_items q WHERE q.claim_node = %lld", (long long)node_id);
    return number_of(sql);
}

static void make_workspaces(const struct scene *scene)
{
    for (int i = 0; i < WORKSPACES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%d", i);
        struct workspace_change change = {.name = name, .max_concurrent = 10, .paused = -1, .create = true};
        assert_int_equal(store_set_workspace(scene->store, &change, NULL), WEIR_OK);
    }
}

/* One item for each of so many workspaces. */
static void enqueue_many(struct scene *scene, size_t count)
{
    static char names[WORKSPACES][16];
    static struct enqueue_request requests[WORKSPACES];
    static struct enqueue_result results[WORKSPACES];
    assert_in_range(count, 1, WORKSPACES);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "w%zu", i);
        requests[i] = (struct enqueue_request){.workspace = names[i], .workflow = "plain"};
    }
    assert_int_equal(store_enqueue(scene->store, requests, count, results, NULL), WEIR_OK);
}

/* Without time between the rounds. */
static void assign_all(struct scene *scene)
{
    static const char pending[] = "SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 0";
    for (int i = 0; i < STEPS_MOST && number_of(pending) > 0; i++) {
        (void)node_dispatch_step(scene->node);
    }
    assert_int_equal(number_of(pending), 0);
}

/* For `us`, in steps of 10 ms: a set is enqueued in each, and the own node ends it. */
static void end_sets(struct scene *scene, int64_t us)
{
    for (int64_t end_us = now_us + us; now_us < end_us; now_us += 10 * MICROSECONDS_PER_MS) {
        enqueue_many(scene, SET);
        assign_all(scene);
        for (int i = 0; i < 3; i++) {
            (void)scripted_world_pass_time(scene->world);
            (void)engine_step(scene->engine);
            (void)node_record_step(scene->node);
        }
        (void)node_heartbeat_step(scene->node);
    }
}

static void what_exceeds_a_set_goes_to_another_node(void **state)
{
    struct scene *scene = *state;
    int64_t other = start_other_node(scene);
    make_workspaces(scene);
    (void)node_step(scene->node);
    enqueue_many(scene, SET + MORE);
    assign_all(scene);
    assert_int_equal(held_by(other), MORE);
}

static void what_exceeds_a_set_waits_for_a_node_that_ends_its_sets_quickly(void **state)
{
    struct scene *scene = *state;
    int64_t other = start_other_node(scene);
    make_workspaces(scene);
    (void)node_step(scene->node);
    end_sets(scene, 250 * MICROSECONDS_PER_MS);
    assert_int_equal(held_by(other), 0);
    enqueue_many(scene, SET + MORE);
    assign_all(scene);
    assert_int_equal(held_by(other), 0);
    size_t room = engine_free_capacity(scene->engine);
    assert_in_range(room, 1, WORKSPACES - 1);
    enqueue_many(scene, WORKSPACES);
    assign_all(scene);
    assert_int_equal(held_by(other), WORKSPACES - room);
}

static void a_node_that_ended_quickly_before_a_pause_keeps_nothing_for_itself(void **state)
{
    struct scene *scene = *state;
    int64_t other = start_other_node(scene);
    make_workspaces(scene);
    (void)node_step(scene->node);
    end_sets(scene, 250 * MICROSECONDS_PER_MS);
    now_us += MICROSECONDS_PER_SECOND;
    (void)node_heartbeat_step(scene->node);
    enqueue_many(scene, SET + MORE);
    assign_all(scene);
    assert_int_equal(held_by(other), MORE);
}

static void a_node_whose_executions_take_long_keeps_nothing_for_itself(void **state)
{
    struct scene *scene = *state;
    int64_t other = start_other_node(scene);
    make_workspaces(scene);
    (void)node_step(scene->node);
    end_sets(scene, 250 * MICROSECONDS_PER_MS);
    for (int i = 0; i < 2; i++) { /* nothing ends any more */
        enqueue_many(scene, 10);
        assign_all(scene);
        now_us += 110 * MICROSECONDS_PER_MS;
    }
    enqueue_many(scene, SET + MORE);
    assign_all(scene);
    assert_int_equal(held_by(other), MORE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_slot_of_an_own_end_is_given_out_in_the_next_round),
        TEST(an_own_end_gives_its_slot_back_once),
        TEST(a_repeated_record_gives_nothing_back),
        TEST(the_books_contain_a_last_assignment_after_seconds),
        TEST(what_exceeds_a_set_goes_to_another_node),
        TEST(what_exceeds_a_set_waits_for_a_node_that_ends_its_sets_quickly),
        TEST(a_node_that_ended_quickly_before_a_pause_keeps_nothing_for_itself),
        TEST(a_node_whose_executions_take_long_keeps_nothing_for_itself),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
