/* The settings claim.timeout and recovery.interval: a node hands over a claim of its own that it does not have in flight.
 */
#include <sqlite3.h>

#include "base/error.h"
#include "dispatch/child_duty.h"
#include "dispatch/node_internal.h"
#include "support/claiming.h"
#include "unit/dispatch/bench.h"

#define LONG_US (40 * SECOND)
#define SHORT_US (1 * SECOND)

static const struct store_driver *real_driver;
static struct store_driver lossy_driver;
static int lost_items;
static int64_t set_forward_us; /* the store's clock */
static int hook_looks;
static int advances;
static int advances_with_more; /* the first ones leave work over */
static enum weir_status status_of_advance;

/* The first items of an inbox are lost on their way to the node. */
static enum weir_status lossy_inbox(struct store *store, int64_t node_id, struct inbox_position *position, size_t limit,
                                    struct arena *arena, struct inbox *ret_inbox, struct weir_error *error)
{
    enum weir_status status = real_driver->inbox(store, node_id, position, limit, arena, ret_inbox, error);
    if (status == WEIR_OK && lost_items == 0) {
        lost_items = (int)ret_inbox->claimed.count;
        ret_inbox->claimed.count = 0;
    }
    return status;
}

static enum weir_status read_set_clock(struct store *store, int64_t *ret_now_us, struct weir_error *error)
{
    enum weir_status status = real_driver->time(store, ret_now_us, error);
    *ret_now_us += set_forward_us;
    return status;
}

/* All claims were made before the step. */
static enum weir_status recover_by_set_clock(struct store *store, const struct recover_options *options,
                                             struct recover_result *result, struct weir_error *error)
{
    struct recover_options changed = *options;
    if (changed.stale_claim_us > 0) {
        changed.stale_claim_us = changed.stale_claim_us > set_forward_us ? changed.stale_claim_us - set_forward_us : 1;
    }
    return real_driver->recover(store, &changed, result, error);
}

/* As a store that does not remove many executions before the deadline of a call. */
static enum weir_status slow_bulk(struct store *store, enum bulk_act act, const struct act_order *order,
                                  const struct execution_filter *filter, const char *after, size_t limit,
                                  struct bulk_result *result, struct weir_error *error)
{
    if (act == BULK_PURGE && limit > 100) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the deadline is over");
    }
    return real_driver->bulk(store, act, order, filter, after, limit, result, error);
}

static enum weir_status count_hook_looks(struct store *store, struct arena *arena, struct hook_events *events,
                                         struct weir_error *error)
{
    hook_looks++;
    return real_driver->read_hook_events(store, arena, events, error);
}

static enum weir_status count_advances(struct store *store, struct children_advance *advance, struct weir_error *error)
{
    (void)store;
    advances++;
    *advance = (struct children_advance){.again = advances <= advances_with_more, .exist = true};
    return status_of_advance == WEIR_OK ? WEIR_OK : error_set(error, status_of_advance, "by the test");
}

static int open_lossy(void **state)
{
    (void)open_bench(state);
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    lossy_driver = *real_driver;
    lossy_driver.inbox = lossy_inbox;
    lossy_driver.bulk = slow_bulk;
    lossy_driver.time = read_set_clock;
    lossy_driver.read_hook_events = count_hook_looks;
    lossy_driver.recover = recover_by_set_clock;
    bench->store->driver = &lossy_driver;
    lost_items = 0;
    set_forward_us = 0;
    hook_looks = 0;
    return 0;
}

/* The node starts, and loses the item that is assigned to it at the same time. */
static void start_node_that_loses_an_item(struct bench *bench, int64_t timeout_us, int64_t interval_us, char *ret_id)
{
    bench->settings.stale_claim_us = timeout_us;
    bench->settings.stale_check_us = interval_us;
    struct claim_request request = {.group = "default", .limit = 1};
    struct claim_result result = {0};
    struct arena arena;
    enqueue(bench, "solo", ret_id);
    start_node(bench);
    request.node_id = node_id(bench->node);
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(claim_through_scheduler(bench->store, &request, &arena, &result, NULL), WEIR_OK);
    assert_int_equal(result.count, 1);
    arena_close(&arena);
}

static void assert_starts_after(struct bench *bench, const char *id, int64_t us)
{
    pass(bench, us - 2 * SECOND);
    assert_int_equal(lost_items, 1);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    pass(bench, 4 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void a_claim_that_is_older_than_the_timeout_is_handed_over(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_that_loses_an_item(bench, LONG_US, SHORT_US, id);
    assert_starts_after(bench, id, LONG_US);
}

/* One node of the fleet looks for old claims at a time. */
static void an_old_claim_waits_for_the_lock(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct lock_request lock = {.name = "recoverStaleQueueItems", .holder = "another node", .at_most_us = 10 * MINUTE};
    start_node_that_loses_an_item(bench, LONG_US, SHORT_US, id);
    assert_int_equal(store_lock(bench->store, &lock, NULL), WEIR_OK);
    pass(bench, 2 * LONG_US);
    assert_int_equal(runs_begun(bench, id), 0);
    assert_int_equal(store_unlock(bench->store, &lock, NULL), WEIR_OK);
    pass(bench, 10 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

static void a_clock_that_is_set_forward_makes_no_claim_old(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_that_loses_an_item(bench, LONG_US, SHORT_US, id);
    pass(bench, 20 * SECOND);
    set_forward_us = 3600 * SECOND;
    assert_starts_after(bench, id, LONG_US); /* by the clock of the machine since the step */
}

static void a_clock_that_runs_apart_slowly_counts(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_that_loses_an_item(bench, LONG_US, SHORT_US, id);
    pass(bench, 20 * SECOND);
    set_forward_us = SECOND / 2;
    assert_starts_after(bench, id, LONG_US - 20 * SECOND);
}

static void old_claims_are_searched_once_in_an_interval(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_that_loses_an_item(bench, SHORT_US, LONG_US, id);
    assert_starts_after(bench, id, LONG_US);
}

static void a_shorter_interval_counts_while_the_node_runs(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_that_loses_an_item(bench, SHORT_US, 3600 * SECOND, id);
    pass(bench, LONG_US);
    assert_int_equal(runs_begun(bench, id), 0);
    bench->settings.stale_check_us = LONG_US;
    node_tune(bench->node, &bench->settings);
    assert_starts_after(bench, id, LONG_US);
}

static void a_purge_that_is_too_long_for_a_call_gets_shorter(void **state)
{
    struct bench *bench = *state;
    enum { EXECUTIONS = 20 };
    char ids[EXECUTIONS][UUID_TEXT_MAX];
    lost_items = 1; /* all items arrive */
    bench->settings.retention_us = 3600 * SECOND;
    start_node(bench);
    for (size_t i = 0; i < EXECUTIONS; i++) {
        enqueue(bench, "many", ids[i]);
    }
    pass(bench, 30 * SECOND);
    assert_string_equal(text_of(bench, ids[EXECUTIONS - 1], "status"), "COMPLETED");
    bench->now_us += 3700 * SECOND;
    pass(bench, 6 * MINUTE);
    for (size_t i = 0; i < EXECUTIONS; i++) {
        json_t *answer = NULL;
        assert_int_equal(store_why(bench->store, ids[i], &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
    }
}

static void the_first_purge_leaves_time_for_the_settlement_of_enqueues(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *answer = NULL;
    lost_items = 1; /* all items arrive */
    bench->settings.retention_us = 3600 * SECOND;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 30 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    node_close(bench->node);
    bench->now_us += 3700 * SECOND;
    start_node(bench);
    pass(bench, 14 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    pass(bench, 30 * SECOND);
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
}

static void by_default_the_ended_stay_for_two_weeks(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *answer = NULL;
    lost_items = 1; /* all items arrive */
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, 30 * SECOND);
    bench->now_us += RETENTION_US - 20 * MINUTE;
    pass(bench, 6 * MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    bench->now_us += 20 * MINUTE;
    pass(bench, 6 * MINUTE);
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
}

static struct stream_batch read_changes(struct bench *bench, struct stream_position after)
{
    struct stream_batch batch = {.count = 0};
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(store_read_stream(bench->store, &after, STREAM_READ_MOST, &arena, &batch, NULL), WEIR_OK);
    arena_close(&arena);
    return batch;
}

static void changes_that_are_older_than_the_stream_keeps_are_removed(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    lost_items = 1; /* all items arrive */
    start_node(bench);
    struct stream_batch begin = read_changes(bench, (struct stream_position){.since_us = 0});
    enqueue(bench, "solo", id);
    pass(bench, STREAM_KEEP_US / 2);
    struct stream_batch middle = read_changes(bench, begin.position);
    assert_true(middle.count > 0);
    pass(bench, STREAM_KEEP_US / 2 + MINUTE);
    struct stream_batch late = read_changes(bench, begin.position);
    assert_true(late.is_reset);
    assert_int_equal(late.position.since_us, begin.position.since_us);
    assert_false(read_changes(bench, middle.position).is_reset);
}

static size_t executions_of(struct bench *bench, const char *workspace)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.workspace = workspace}};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    size_t count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

static void an_end_starts_its_hook_within_two_seconds_and_an_idle_node_does_not_look(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct hook_request hook = {.name = "next",
                                .on = {ITEM_COMPLETED},
                                .on_count = 1,
                                .workspace = "solo",
                                .start_workspace = "many",
                                .start_workflow = "plain"};
    lost_items = 1; /* all items arrive */
    start_node(bench);
    assert_int_equal(store_hook_set(bench->store, &hook, NULL, NULL), WEIR_OK);
    pass(bench, 10 * SECOND);
    int looks = hook_looks;
    pass(bench, 40 * SECOND);
    assert_int_equal(hook_looks, looks);
    enqueue(bench, "solo", id);
    for (int i = 0; i < 60 && strcmp(text_of(bench, id, "status"), "COMPLETED") != 0; i++) {
        assert_int_equal(executions_of(bench, "many"), 0);
        pass(bench, SECOND / 2);
    }
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    pass(bench, 2 * SECOND);
    assert_int_equal(executions_of(bench, "many"), 1);
    pass(bench, 30 * SECOND); /* its end has no event */
    looks = hook_looks;
    pass(bench, 20 * SECOND);
    assert_int_equal(hook_looks, looks);
    assert_int_equal(executions_of(bench, "many"), 1);
}

static void set_failing_hook(struct bench *bench, const char *name, const char *workflow)
{
    struct hook_request hook = {.name = name,
                                .on = {ITEM_COMPLETED},
                                .on_count = 1,
                                .workspace = "solo",
                                .start_workspace = "many",
                                .start_workflow = workflow};
    assert_int_equal(store_hook_set(bench->store, &hook, NULL, NULL), WEIR_OK);
}

static int64_t hook_number(struct bench *bench, const char *name, const char *key)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_HOOKS, .name = name};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    int64_t number = json_integer_value(json_object_get(json_array_get(json_object_get(page, "items"), 0), key));
    json_decref(page);
    return number;
}

static void superfluous_events_are_dropped_in_one_step(void **state)
{
    struct bench *bench = *state;
    sqlite3 *database = NULL;
    lost_items = 1; /* all items arrive */
    start_node(bench);
    set_failing_hook(bench, "all", "plain");
    assert_int_equal(store_hook_pause(bench->store, "all", true, NULL), WEIR_OK);
    assert_int_equal(sqlite3_open(bench->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database,
                                  "INSERT INTO hook_outbox (hook_id, execution_id, workspace_id, at, params)"
                                  " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 14500)"
                                  " SELECT (SELECT id FROM hooks), '00000000-0000-7000-8000-000000000000', 1,"
                                  " 9000000000000000 + n, '{}' FROM n",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    for (int i = 0; i < 200 && hook_number(bench, "all", "dropped") == 0; i++) {
        pass(bench, SECOND / 2);
    }
    assert_int_equal(hook_number(bench, "all", "waiting"), HOOK_EVENTS_MOST);
    assert_int_equal(hook_number(bench, "all", "dropped"), 4500);
}

static void each_hook_that_is_refused_is_reported(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    lost_items = 1; /* all items arrive */
    start_node(bench);
    set_failing_hook(bench, "one", "missing");
    set_failing_hook(bench, "two", "missing");
    enqueue(bench, "solo", id);
    for (int i = 0; i < 60 && bench->counts[EVENT_HOOK_REFUSED] < 2; i++) {
        pass(bench, SECOND / 2);
    }
    assert_int_equal(bench->counts[EVENT_HOOK_REFUSED], 2);
    pass(bench, 25 * SECOND); /* tried again twice */
    assert_int_equal(bench->counts[EVENT_HOOK_REFUSED], 2);
}

/* A store with very much to do for children gets eight calls, and one that fails gets one. Then the other duties come. */
static void children_leave_time_to_the_other_duties(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {.status = WEIR_OK};
    lost_items = 1; /* all items arrive */
    lossy_driver.advance_children = count_advances;
    advances_with_more = 0;
    status_of_advance = WEIR_OK;
    start_node(bench);
    pass(bench, SECOND);
    advances_with_more = 100;
    advances = 0;
    child_duty_news(bench->node);
    assert_int_equal(child_duty_step(bench->node, bench->now_us, &error), WEIR_OK);
    assert_int_equal(advances, 8);
    assert_int_equal(child_duty_step(bench->node, bench->now_us, &error), WEIR_OK);
    assert_int_equal(advances, 16);
    status_of_advance = WEIR_STORE_UNREACHABLE;
    assert_int_equal(child_duty_step(bench->node, bench->now_us, &error), WEIR_STORE_UNREACHABLE);
    assert_int_equal(advances, 17);
    assert_int_equal(child_duty_step(bench->node, bench->now_us, &error), WEIR_OK); /* not before a second */
    status_of_advance = WEIR_OK;
    advances_with_more = 0;
    bench->now_us += 2 * SECOND;
    assert_int_equal(child_duty_step(bench->node, bench->now_us, &error), WEIR_OK);
    assert_int_equal(advances, 18);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_lossy, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(a_claim_that_is_older_than_the_timeout_is_handed_over),
        TEST(an_old_claim_waits_for_the_lock),
        TEST(a_clock_that_is_set_forward_makes_no_claim_old),
        TEST(a_clock_that_runs_apart_slowly_counts),
        TEST(old_claims_are_searched_once_in_an_interval),
        TEST(a_shorter_interval_counts_while_the_node_runs),
        TEST(a_purge_that_is_too_long_for_a_call_gets_shorter),
        TEST(the_first_purge_leaves_time_for_the_settlement_of_enqueues),
        TEST(by_default_the_ended_stay_for_two_weeks),
        TEST(changes_that_are_older_than_the_stream_keeps_are_removed),
        TEST(children_leave_time_to_the_other_duties),
        TEST(superfluous_events_are_dropped_in_one_step),
        TEST(each_hook_that_is_refused_is_reported),
        TEST(an_end_starts_its_hook_within_two_seconds_and_an_idle_node_does_not_look),
    };
#undef TEST
    return cmocka_run_group_tests_name("maintenance", tests, NULL, NULL);
}
