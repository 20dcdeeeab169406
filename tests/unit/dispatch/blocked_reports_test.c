/* Reports that the store leaves out of a set because another transaction holds their rows: they wait, and nothing else
 * does. On PostgreSQL a caller's transaction holds it; here the answers are made up. */
#include "queue/limits.h"
#include "unit/dispatch/bench.h"

enum { CROWD = RECORD_BATCH_MOST + 100, STEPS = RECORD_BATCH_MOST + 1000 };

static const struct store_driver *real_driver;
static struct store_driver watched_driver;
static char held_id[UUID_TEXT_MAX]; /* "" = everything that is recorded is held ... */
static char free_id[UUID_TEXT_MAX]; /* ... but this one */
static bool is_held;
static int told; /* how many records of what is held came */
static int last_kind;

static bool holds(const struct record *record)
{
    return is_held && (held_id[0] == '\0' || strcmp(record->id, held_id) == 0) && strcmp(record->id, free_id) != 0;
}

/* Leaves out what is held, and gives the rest to the real one. */
static enum weir_status record_unheld(struct store *store, int64_t node_id, struct record *records, size_t count,
                                      struct record_summary *ret_summary, struct weir_error *error)
{
    struct record *rest = calloc(count, sizeof *rest);
    size_t rest_count = 0;
    assert_non_null(rest);
    for (size_t i = 0; i < count; i++) {
        if (!holds(&records[i])) {
            rest[rest_count++] = records[i];
            continue;
        }
        last_kind = (int)records[i].kind;
        told++;
    }
    enum weir_status status =
        rest_count == 0 ? WEIR_OK : real_driver->record(store, node_id, rest, rest_count, ret_summary, error);
    rest_count = 0;
    for (size_t i = 0; i < count; i++) {
        records[i].status = holds(&records[i]) ? WEIR_STORE_BUSY : rest[rest_count++].status;
    }
    free(rest);
    return status;
}

static void watch(struct bench *bench)
{
    real_driver = bench->store->driver;
    watched_driver = *real_driver;
    watched_driver.record = record_unheld;
    bench->store->driver = &watched_driver;
    held_id[0] = free_id[0] = '\0';
    is_held = true;
    told = 0;
}

static void blocked_reports_wait_and_all_others_go_on(void **state)
{
    struct bench *bench = *state;
    char other[UUID_TEXT_MAX];
    watch(bench);
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = SECOND});
    enqueue(bench, "solo", held_id);
    enqueue(bench, "many", other);
    pass(bench, 10 * SECOND);
    assert_string_equal(text_of(bench, other, "status"), "COMPLETED");
    assert_string_equal(text_of(bench, held_id, "status"), "CLAIMED");
    assert_in_range(told, 5, 150); /* each 200 ms and with each set, but not all the time */
    is_held = false;
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, held_id, "status"), "COMPLETED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_DISPATCHED], 2);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 2);
}

static void an_end_behind_a_blocked_start_emits_both_events(void **state)
{
    struct bench *bench = *state;
    watch(bench);
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 2 * SECOND});
    enqueue(bench, "solo", held_id);
    pass(bench, SECOND);
    assert_true(told > 1);
    assert_int_equal(last_kind, RECORD_DISPATCHED);
    pass(bench, 2 * SECOND);
    assert_int_equal(last_kind, RECORD_COMPLETED);
    is_held = false;
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, held_id, "status"), "COMPLETED");
    assert_true(text_of(bench, held_id, "dispatched_at")[0] != '\0');
    assert_int_equal(bench->counts[EVENT_EXECUTION_DISPATCHED], 1);
}

static void enqueue_crowd(struct bench *bench)
{
    struct enqueue_request request = {.workspace = "crowd", .workflow = "plain"};
    struct enqueue_result result;
    struct workspace_change crowd = {
        .name = "crowd", .plan = "free", .max_concurrent = CROWD, .paused = -1, .create = true};
    assert_int_equal(store_set_workspace(bench->store, &crowd, NULL), WEIR_OK);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(store_enqueue(bench->store, &request, 1, &result, NULL), WEIR_OK);
        assert_int_equal(result.status, WEIR_OK);
    }
}

/* Of more than a set holds, all are held. */
static void hold_crowd(struct bench *bench)
{
    watch(bench);
    engine_close(bench->engine);
    assert_int_equal(scripted_open(bench->world, CROWD + ROOM, &bench->engine, NULL), WEIR_OK);
    enqueue_crowd(bench);
    start_node(bench);
    pass(bench, 3 * SECOND);
    assert_true(told > RECORD_BATCH_MOST);
}

static void new_reports_are_recorded_however_many_are_blocked(void **state)
{
    struct bench *bench = *state;
    hold_crowd(bench);
    enqueue(bench, "solo", free_id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, free_id, "status"), "COMPLETED");
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], 1);
    is_held = false;
    pass(bench, SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], CROWD + 1);
}

static int attempts_kept;

/* Steps are held until the first set of a round has been left out, and are kept in their order or not at all. */
static enum weir_status record_steps(struct store *store, int64_t node_id, struct record *records, size_t count,
                                     struct record_summary *ret_summary, struct weir_error *error)
{
    if (records[0].kind != RECORD_STEP) {
        return real_driver->record(store, node_id, records, count, ret_summary, error);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].kind, RECORD_STEP);
        told += is_held;
        if (!is_held) {
            assert_int_equal(records[i].step->attempt, ++attempts_kept);
        }
        records[i].status = is_held ? WEIR_STORE_BUSY : WEIR_OK;
    }
    is_held = is_held && told < 2 * RECORD_BATCH_MOST; /* once as what is new, once in the round */
    return WEIR_OK;
}

static void a_holder_that_goes_during_a_round_changes_no_order(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    watch(bench);
    watched_driver.record = record_steps;
    attempts_kept = 0;
    start_node(bench);
    push(bench, (struct scripted_outcome){.run_us = 60 * MINUTE});
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "DISPATCHED");
    for (int attempt = 1; attempt <= STEPS; attempt++) {
        struct report *report = report_new(REPORT_STEP, id, scripted_world_entry(bench->world, id)->fence_begun);
        assert_non_null(report);
        report->has_step = true;
        report->step.attempt = attempt;
        engine_report(bench->engine, report);
    }
    pass(bench, 2 * SECOND);
    assert_false(is_held);
    assert_int_equal(told, 2 * RECORD_BATCH_MOST);
    assert_int_equal(attempts_kept, STEPS);
}

/* There is no reason to try them again and again. */
static void a_set_full_of_held_ones_is_not_looked_at_all_the_time(void **state)
{
    struct bench *bench = *state;
    hold_crowd(bench);
    bench->steps = 0;
    pass(bench, SECOND);
    assert_in_range(bench->steps, 5, 100);
    is_held = false;
    pass(bench, SECOND);
    assert_int_equal(bench->counts[EVENT_EXECUTION_COMPLETED], CROWD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(blocked_reports_wait_and_all_others_go_on),
        TEST(an_end_behind_a_blocked_start_emits_both_events),
        TEST(new_reports_are_recorded_however_many_are_blocked),
        TEST(a_holder_that_goes_during_a_round_changes_no_order),
        TEST(a_set_full_of_held_ones_is_not_looked_at_all_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
