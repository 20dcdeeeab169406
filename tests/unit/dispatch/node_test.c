/* One node, stepped by hand on a virtual clock, over a real SQLite store and the scripted engine. The simulation does this
 * with whole fleets and at random; here each promise of the node has a test of its own. */
#include "dispatch/node.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/scripted/scripted.h"
#include "support/test.h"

#define SECOND MICROSECONDS_PER_SECOND
#define MINUTE (60 * SECOND)
#define START_WALL_US ((int64_t)1800000000 * SECOND)

enum { ROOM = 4, EVENTS_MOST = 4096 };

struct bench {
    struct clock clock;
    int64_t now_us;
    char folder[64];
    char url[96];
    struct store *store;
    struct scripted_world *world;
    struct engine *engine;
    struct node *node;
    struct node_settings settings;
    struct event_bus events;
    int counts[EVENT_TYPE_COUNT];
    struct event last[EVENT_TYPE_COUNT];
    int hooked;
    int steps;
};

static int64_t bench_boot(void *context)
{
    return ((struct bench *)context)->now_us;
}

static int64_t bench_wall(void *context)
{
    return START_WALL_US + ((struct bench *)context)->now_us;
}

static void count_event(void *context, const struct event *event)
{
    struct bench *bench = context;
    bench->counts[event->type]++;
    bench->last[event->type] = *event; /* its strings are gone after the call; only numbers are looked at */
}

static int open_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
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
    assert_int_equal(store_publish(bench->store, "plain", NULL, "{\"name\":\"plain\"}", &published, NULL), WEIR_OK);
    assert_int_equal(
        store_publish(bench->store, "patient", NULL, "{\"name\":\"patient\",\"stuck_after\":\"10m\"}", &published, NULL),
        WEIR_OK);
    bench->world = scripted_world_open(SCRIPTED_SHARED, &bench->clock, NULL, 1);
    assert_non_null(bench->world);
    assert_int_equal(scripted_open(bench->world, ROOM, &bench->engine, NULL), WEIR_OK);
    /* The poll is out of the way: what starts in a test was started by a wake-up. */
    bench->settings =
        (struct node_settings){.name = "node", .poll_interval_us = 3600 * SECOND, .seed = 7, .clock = &bench->clock};
    *state = bench;
    return 0;
}

static void start_node(struct bench *bench)
{
    assert_int_equal(node_open(bench->store, bench->engine, &bench->events, &bench->settings, &bench->node, NULL), WEIR_OK);
}

static int close_bench(void **state)
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
    }
    assert_int_equal(rmdir(bench->folder), 0);
    free(bench);
    return 0;
}

/* Lets the time pass as the node wants to be called, at least each second. */
static void pass(struct bench *bench, int64_t us)
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

static void enqueue_at(struct bench *bench, const char *workspace, const char *workflow, int64_t run_at_us, char *ret_id)
{
    struct enqueue_request request = {.workspace = workspace, .workflow = workflow, .run_at_us = run_at_us};
    struct enqueue_result result;
    assert_int_equal(store_enqueue(bench->store, &request, 1, &result, NULL), WEIR_OK);
    assert_int_equal(result.status, WEIR_OK);
    memcpy(ret_id, result.id, UUID_TEXT_MAX);
}

static void enqueue(struct bench *bench, const char *workspace, char *ret_id)
{
    enqueue_at(bench, workspace, "plain", 0, ret_id);
    if (bench->node != NULL) {
        node_wake(bench->node);
    }
}

static void push(struct bench *bench, struct scripted_fate fate)
{
    scripted_world_push(bench->world, &fate);
}

/* "PENDING" ...; the answer lives until the next call. */
static const char *text_of(struct bench *bench, const char *id, const char *key)
{
    static char text[64];
    json_t *answer = NULL;
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_OK);
    const char *value = json_string_value(json_object_get(answer, key));
    (void)snprintf(text, sizeof text, "%s", value == NULL ? "" : value);
    json_decref(answer);
    return text;
}

static int runs_begun(struct bench *bench, const char *id)
{
    const struct scripted_entry *entry = scripted_world_entry(bench->world, id);
    return entry == NULL ? 0 : entry->runs_begun;
}

/* --- starting --- */

static void a_freed_slot_starts_the_next_item_without_a_poll(void **state)
{
    struct bench *bench = *state;
    char first[UUID_TEXT_MAX];
    char second[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.run_us = 5 * SECOND});
    start_node(bench);
    enqueue(bench, "solo", first);
    enqueue(bench, "solo", second);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, first), 1);
    assert_int_equal(runs_begun(bench, second), 0);
    assert_string_equal(text_of(bench, second, "pending_reason"), "workspace_at_capacity");
    pass(bench, 4 * SECOND + SECOND / 20);
    assert_string_equal(text_of(bench, first, "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, second), 1);
}

static void a_claim_never_exceeds_the_engines_room(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    for (int i = 0; i < 10; i++) {
        push(bench, (struct scripted_fate){.run_us = (i + 1) * SECOND});
        enqueue(bench, "many", id);
    }
    for (int i = 0; i < 200; i++) {
        pass(bench, SECOND / 10);
        assert_true(scripted_world_open_runs(bench->world, NULL) <= ROOM);
        json_t *status = NULL;
        assert_int_equal(store_status(bench->store, 10, &status, NULL), WEIR_OK);
        assert_true(json_integer_value(json_object_get(status, "slots_used")) <= ROOM);
        json_decref(status);
    }
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 10);
}

static void a_future_item_starts_at_its_time_without_a_poll(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    enqueue_at(bench, "solo", "plain", bench_wall(bench) + 10 * SECOND, id);
    node_wake(bench->node);
    pass(bench, 10 * SECOND - SECOND / 20);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_string_equal(text_of(bench, id, "pending_reason"), "scheduled");
    pass(bench, SECOND / 10);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void a_process_that_does_not_dispatch_claims_nothing(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.no_dispatch = true;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, MINUTE);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    assert_true(bench->steps < 1000); /* and it sleeps: a loop that is always due would be stepped without end */
}

static void an_exclusive_node_waits_for_the_lock_of_the_specification(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct lock_request riven = {.name = "processExecutionQueue", .holder = "riven", .at_most_us = MINUTE};
    bench->settings.exclusive = true;
    assert_int_equal(store_lock(bench->store, &riven, NULL), WEIR_OK);
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 30 * SECOND);
    assert_int_equal(runs_begun(bench, id), 0);
    pass(bench, 35 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    assert_int_equal(store_lock(bench->store, &riven, NULL), WEIR_CONFLICT);
}

/* --- answers --- */

static void an_unanswered_start_is_sent_again_and_runs_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.answer = SCRIPTED_LOSE_ANSWER, .run_us = 10 * MINUTE});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, MINUTE);
    const struct scripted_entry *entry = scripted_world_entry(bench->world, id);
    assert_non_null(entry);
    assert_true(entry->starts_asked >= 2);
    assert_int_equal(entry->runs_begun, 1);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    assert_true(bench->counts[EVENT_START_UNKNOWN] >= 1);
}

static void a_refused_start_is_tried_exactly_three_times(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    for (int i = 0; i < 6; i++) {
        push(bench, (struct scripted_fate){.answer = SCRIPTED_REFUSE});
    }
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 10 * MINUTE);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_asked, ATTEMPTS_MAX_DEFAULT);
    assert_string_equal(text_of(bench, id, "status"), "FAILED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_RETRYING], ATTEMPTS_MAX_DEFAULT - 1);
    assert_int_equal(bench->counts[EVENT_DISPATCH_FAILED], 1);
}

static void a_permanent_refusal_fails_at_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.answer = SCRIPTED_REFUSE_FOR_GOOD});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_int_equal(scripted_world_entry(bench->world, id)->starts_asked, 1);
    assert_string_equal(text_of(bench, id, "status"), "FAILED");
}

static void an_engine_that_is_away_for_long_fails_nothing(void **state)
{
    struct bench *bench = *state;
    char ids[5][UUID_TEXT_MAX];
    scripted_world_cut(bench->world, bench->now_us + 30 * MINUTE);
    start_node(bench);
    for (int i = 0; i < 5; i++) {
        enqueue(bench, "many", ids[i]);
    }
    pass(bench, 10 * MINUTE);
    assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    assert_string_equal(text_of(bench, ids[4], "pending_reason"), "engine_unreachable");
    pass(bench, 20 * MINUTE + 6 * SECOND);
    assert_int_equal(bench->counts[EVENT_ENGINE_UP], 1);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 5);
    assert_int_equal(bench->counts[EVENT_DISPATCH_FAILED] + bench->counts[EVENT_EXECUTION_RETRYING], 0);
}

static void a_cancel_reaches_the_engine(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct bulk_result result;
    push(bench, (struct scripted_fate){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    struct execution_filter filter = {.id = id};
    assert_int_equal(store_bulk(bench->store, BULK_CANCEL, &filter, "", 10, "test", NULL, &result, NULL), WEIR_OK);
    node_wake(bench->node);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "CANCELLED");
    assert_int_equal(scripted_world_open_runs(bench->world, NULL), 0);
}

/* --- watching --- */

static void a_stuck_execution_is_named_once_a_period(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    char patient[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.never_ends = true});
    push(bench, (struct scripted_fate){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    enqueue_at(bench, "many", "patient", 0, patient);
    pass(bench, 59 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 0);
    pass(bench, 3 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].count, 1);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].of, 2);
    assert_true(bench->last[EVENT_EXECUTION_STUCK].age_us >= 60 * SECOND);
    pass(bench, 30 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 1);
    pass(bench, 31 * SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_STUCK], 2);
    /* The other one's definition says ten minutes. */
    pass(bench, 9 * MINUTE);
    assert_int_equal(bench->last[EVENT_EXECUTION_STUCK].count, 2);
}

static bool cancel_it(void *context, const char *execution_id, int64_t age_us)
{
    (void)execution_id;
    assert_true(age_us >= 60 * SECOND);
    ((struct bench *)context)->hooked++;
    return true;
}

static void the_stuck_hook_may_cancel(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.stuck_hook = cancel_it;
    bench->settings.stuck_context = bench;
    push(bench, (struct scripted_fate){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 65 * SECOND);
    assert_int_equal(bench->hooked, 1);
    assert_string_equal(text_of(bench, id, "status"), "CANCELLED");
}

/* --- pausing, stopping, dying --- */

static void a_paused_node_claims_nothing_and_keeps_its_lease(void **state)
{
    struct bench *bench = *state;
    char before[UUID_TEXT_MAX];
    char after[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.run_us = 10 * MINUTE});
    start_node(bench);
    enqueue(bench, "many", before);
    pass(bench, SECOND);
    node_pause(bench->node);
    enqueue(bench, "many", after);
    pass(bench, 5 * MINUTE);
    assert_int_equal(runs_begun(bench, after), 0);
    assert_string_equal(text_of(bench, before, "status"), "DISPATCHED");
    assert_int_equal(bench->counts[EVENT_LEASE_LOST] + bench->counts[EVENT_NODE_DEAD], 0);
    node_resume(bench->node);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, after), 1);
}

static void an_operators_wish_reaches_the_node(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    assert_int_equal(store_node_wish(bench->store, "node", NODE_PAUSE, NULL), WEIR_OK);
    pass(bench, 3 * SECOND);
    assert_int_equal(bench->counts[EVENT_NODE_PAUSED], 1);
    enqueue(bench, "solo", id);
    pass(bench, 3 * SECOND);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_int_equal(store_node_wish(bench->store, "node", NODE_RUN, NULL), WEIR_OK);
    pass(bench, 3 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

static int64_t number_of_node(struct bench *bench, const char *key)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    const json_t *value = json_object_get(json_array_get(json_object_get(page, "items"), 0), key);
    int64_t number = json_is_boolean(value) ? json_boolean_value(value) : json_integer_value(value);
    json_decref(page);
    return number;
}

static void a_graceful_stop_awaits_what_runs(void **state)
{
    struct bench *bench = *state;
    char running[UUID_TEXT_MAX];
    char waiting[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.run_us = 10 * SECOND});
    start_node(bench);
    enqueue(bench, "solo", running);
    enqueue(bench, "solo", waiting);
    pass(bench, SECOND);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, 5 * SECOND);
    assert_false(node_is_stopped(bench->node));
    pass(bench, 5 * SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_string_equal(text_of(bench, running, "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, waiting), 0);
    assert_int_equal(number_of_node(bench, "graceful"), 1);
}

static void a_stop_that_waited_long_enough_gives_back_what_runs(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.stop_grace_us = 5 * SECOND;
    push(bench, (struct scripted_fate){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass(bench, 4 * SECOND);
    assert_false(node_is_stopped(bench->node));
    pass(bench, 20 * SECOND);
    assert_true(node_is_stopped(bench->node));
    assert_int_equal(number_of_node(bench, "graceful"), 0);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    assert_string_equal(text_of(bench, id, "pending_reason"), "handed_over");
}

static void a_node_that_slept_past_its_lease_comes_back_under_a_new_id(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct recover_options options = {.handovers_max = 5, .limit = 10};
    struct recover_result result;
    push(bench, (struct scripted_fate){.run_us = 10 * MINUTE});
    start_node(bench);
    int64_t old_id = node_id(bench->node);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    bench->now_us += MINUTE;
    assert_int_equal(store_recover(bench->store, &options, &result, NULL), WEIR_OK);
    assert_int_equal(result.handed_over, 1);
    pass(bench, 10 * SECOND);
    assert_int_equal(bench->counts[EVENT_LEASE_LOST], 1);
    assert_true(node_id(bench->node) > old_id);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    assert_int_equal(scripted_world_entry(bench->world, id)->runs_begun, 1);
}

static void what_waiting_cannot_mend_makes_the_node_unhealthy(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {.status = WEIR_OK};
    sqlite3 *database = NULL;
    start_node(bench);
    pass(bench, SECOND);
    assert_true(node_is_healthy(bench->node, &error));
    assert_int_equal(sqlite3_open(bench->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "ALTER TABLE nodes RENAME TO was_nodes", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    pass(bench, 10 * SECOND);
    assert_false(node_is_healthy(bench->node, &error));
    assert_int_equal(error.status, WEIR_SCHEMA_MISSING);
    assert_true(bench->counts[EVENT_LOOP_FAILED] >= 1);
}

static void ended_executions_are_purged_after_their_time(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *answer = NULL;
    bench->settings.retention_us = 3600 * SECOND;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
    assert_true(bench->counts[EVENT_RETENTION_PURGED] >= 1);
}

static void a_full_workspace_is_noticed_once_a_minute(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_fate){.never_ends = true});
    start_node(bench);
    enqueue(bench, "solo", id);
    enqueue(bench, "solo", id);
    pass(bench, 3 * MINUTE + SECOND);
    assert_int_equal(bench->counts[EVENT_WORKSPACE_AT_CAPACITY], 3);
    assert_int_equal(bench->last[EVENT_WORKSPACE_AT_CAPACITY].slots_used, 1);
    assert_int_equal(bench->last[EVENT_WORKSPACE_AT_CAPACITY].slots_max, 1);
    json_t *status = node_status(bench->node);
    assert_int_equal(json_integer_value(json_object_get(status, "running")), 1);
    assert_string_equal(json_string_value(json_object_get(status, "state")), "running");
    json_decref(status);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(a_freed_slot_starts_the_next_item_without_a_poll),
        TEST(a_claim_never_exceeds_the_engines_room),
        TEST(a_future_item_starts_at_its_time_without_a_poll),
        TEST(a_process_that_does_not_dispatch_claims_nothing),
        TEST(an_exclusive_node_waits_for_the_lock_of_the_specification),
        TEST(an_unanswered_start_is_sent_again_and_runs_once),
        TEST(a_refused_start_is_tried_exactly_three_times),
        TEST(a_permanent_refusal_fails_at_once),
        TEST(an_engine_that_is_away_for_long_fails_nothing),
        TEST(a_cancel_reaches_the_engine),
        TEST(a_stuck_execution_is_named_once_a_period),
        TEST(the_stuck_hook_may_cancel),
        TEST(a_paused_node_claims_nothing_and_keeps_its_lease),
        TEST(an_operators_wish_reaches_the_node),
        TEST(a_graceful_stop_awaits_what_runs),
        TEST(a_stop_that_waited_long_enough_gives_back_what_runs),
        TEST(a_node_that_slept_past_its_lease_comes_back_under_a_new_id),
        TEST(what_waiting_cannot_mend_makes_the_node_unhealthy),
        TEST(ended_executions_are_purged_after_their_time),
        TEST(a_full_workspace_is_noticed_once_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
