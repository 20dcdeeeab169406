/* The duty of the history: a row each minute, sums of ten minutes behind an hour, and a change of the node that schedules.
 */
#include <sqlite3.h>

#include "base/error.h"
#include "unit/dispatch/bench.h"

static const struct store_driver *real_driver;
static struct store_driver failing_driver;
static bool writes_fail;
static struct arena arena;

static enum weir_status failing_write(struct store *store, const struct history_row *row, int64_t folds_from_us,
                                      struct weir_error *error)
{
    return writes_fail ? error_set(error, WEIR_STORE_UNREACHABLE, "by the test")
                       : real_driver->write_history(store, row, folds_from_us, error);
}

static int open_failing(void **state)
{
    (void)open_bench(state);
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    failing_driver = *real_driver;
    failing_driver.write_history = failing_write;
    bench->store->driver = &failing_driver;
    writes_fail = false;
    arena_init(&arena, 64 * 1024 * 1024);
    return 0;
}

static int close_failing(void **state)
{
    arena_close(&arena);
    return close_bench(state);
}

static struct history_rows read_rows(struct bench *bench)
{
    struct history_query query = {.until_us = INT64_MAX, .most = HISTORY_ROWS_MOST};
    struct history_rows rows = {.count = 0};
    assert_int_equal(store_read_history(bench->store, &query, &arena, &rows, NULL), WEIR_OK);
    return rows;
}

static struct history_point point_of(const struct history_row *row)
{
    struct history_point point = {.at_us = row->at_us, .span_us = row->span_us};
    assert_true(history_decode(row->facts, row->length, &arena, &point));
    return point;
}

static void each_minute_has_a_row_with_its_starts_waits_and_ends(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, 5 * SECOND);
    struct workspace_change pause = {.name = "solo", .paused = 1};
    struct bulk_result cancelled = {0};
    assert_int_equal(store_set_workspace(bench->store, &pause, NULL), WEIR_OK);
    enqueue(bench, "solo", id);
    struct execution_filter one = {.id = id};
    assert_int_equal(store_bulk(bench->store, BULK_CANCEL, &one, "", 1, &cancelled, NULL), WEIR_OK);
    for (int i = 0; i < 3; i++) {
        enqueue(bench, "many", id);
    }
    pass(bench, 70 * SECOND);
    struct history_rows rows = read_rows(bench);
    assert_int_equal(rows.count, 1);
    struct history_point point = point_of(&rows.rows[0]);
    assert_in_range(point.span_us, 60 * SECOND, 62 * SECOND);
    assert_int_equal(point.starts, 3);
    assert_int_equal(point.completed, 3);
    assert_int_equal(point.failed, 0);
    assert_int_equal(point.cancelled, 1);
    assert_in_range(history_percentile(point.waits[HISTORY_WAIT], 950), 0, 2 * SECOND);
    assert_int_equal(history_percentile(point.waits[HISTORY_CAPACITY], 950), 1000);
    assert_int_equal(point.workspace_count, 0); /* all have ended */
    pass(bench, MINUTE);
    rows = read_rows(bench);
    assert_int_equal(rows.count, 2);
    assert_int_equal(point_of(&rows.rows[1]).starts, 0);
    assert_int_equal(point_of(&rows.rows[1]).completed, 0);
}

static void the_wait_for_a_slot_is_a_phase_of_its_own(void **state)
{
    struct bench *bench = *state;
    char first[UUID_TEXT_MAX];
    char second[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 100 * SECOND});
    start_node(bench);
    pass(bench, 2 * SECOND);
    enqueue(bench, "solo", first);
    pass(bench, 3 * SECOND);
    enqueue(bench, "solo", second);
    pass(bench, 60 * SECOND);
    struct history_rows rows = read_rows(bench);
    assert_int_equal(rows.count, 1);
    struct history_point point = point_of(&rows.rows[0]);
    assert_int_equal(point.starts, 1);
    assert_int_equal(point.workspace_count, 1);
    assert_int_equal(point.workspaces[0].slots_used, 1);
    assert_int_equal(point.workspaces[0].slots_max, 1);
    assert_int_equal(point.workspaces[0].pending, 1);
    pass(bench, MINUTE);
    rows = read_rows(bench);
    point = point_of(&rows.rows[1]);
    assert_int_equal(point.starts, 1);
    assert_in_range(history_percentile(point.waits[HISTORY_CAPACITY], 500), 60 * SECOND, 132 * SECOND);
    assert_in_range(history_percentile(point.waits[HISTORY_DISPATCH], 500), 0, 2 * SECOND);
}

static void a_row_that_cannot_be_written_is_part_of_the_next_one(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, 5 * SECOND);
    enqueue(bench, "many", id);
    writes_fail = true;
    pass(bench, 70 * SECOND);
    assert_int_equal(read_rows(bench).count, 0);
    writes_fail = false;
    pass(bench, 70 * SECOND);
    struct history_rows rows = read_rows(bench);
    assert_int_equal(rows.count, 1);
    assert_in_range(rows.rows[0].span_us, 115 * SECOND, 150 * SECOND);
    assert_int_equal(point_of(&rows.rows[0]).starts, 1);
    assert_int_equal(point_of(&rows.rows[0]).completed, 1);
}

/* A row with one start for each seven minutes of a day, of a node that folded nothing. */
static void rows_of_more_than_an_hour_ago_are_folded(void **state)
{
    struct bench *bench = *state;
    enum { ROWS = 200 };
    struct history_point point = {.starts = 1};
    struct text facts = {.max = HISTORY_FACTS_MAX};
    int64_t starts = 0;
    int64_t fresh = 0;
    assert_int_equal(history_encode(&point, &facts), WEIR_OK);
    for (int64_t i = ROWS; i > 0; i--) {
        struct history_row row = {.at_us = START_WALL_US + bench->now_us - i * 7 * MINUTE,
                                  .span_us = MINUTE,
                                  .facts = facts.data,
                                  .length = facts.length};
        assert_int_equal(store_write_history(bench->store, &row, 0, NULL), WEIR_OK);
    }
    text_close(&facts);
    start_node(bench);
    pass(bench, 65 * SECOND);
    struct history_rows rows = read_rows(bench);
    for (size_t i = 0; i < rows.count; i++) {
        bool is_old = rows.rows[i].at_us < START_WALL_US + bench->now_us - 72 * MINUTE;
        assert_int_equal(rows.rows[i].is_folded || !is_old, true);
        starts += point_of(&rows.rows[i]).starts;
        fresh += rows.rows[i].is_folded ? 0 : 1;
    }
    assert_int_equal(starts, ROWS);
    assert_in_range(fresh, 9, 12);
    assert_in_range(rows.count, 130, 155);
}

static void a_new_scheduler_begins_an_interval_of_its_own(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, 65 * SECOND);
    enqueue(bench, "many", id);
    pass(bench, 10 * SECOND);
    int64_t closed_us = bench->now_us;
    node_close(bench->node);
    bench->node = NULL;
    pass(bench, 10 * SECOND);
    start_node(bench);
    pass(bench, 100 * SECOND);
    struct history_rows rows = read_rows(bench);
    assert_int_equal(rows.count, 2);
    assert_true(rows.rows[1].at_us - rows.rows[1].span_us >= START_WALL_US + closed_us);
    assert_int_equal(point_of(&rows.rows[1]).starts, 0); /* those of the other term lie in the gap */
    assert_int_equal(point_of(&rows.rows[1]).completed, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_failing, close_failing)
    const struct CMUnitTest tests[] = {
        TEST(each_minute_has_a_row_with_its_starts_waits_and_ends), TEST(the_wait_for_a_slot_is_a_phase_of_its_own),
        TEST(a_row_that_cannot_be_written_is_part_of_the_next_one), TEST(rows_of_more_than_an_hour_ago_are_folded),
        TEST(a_new_scheduler_begins_an_interval_of_its_own),
    };
#undef TEST
    return cmocka_run_group_tests_name("history_duty", tests, NULL, NULL);
}
