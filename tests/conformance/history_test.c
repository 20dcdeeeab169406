/* The history: the counters of a sample, and which rows are kept. */
#include "conformance/scene.h"

#define DAY SECONDS(24 * 3600)

static struct history_rows read_behind(struct scene *scene, int64_t since_us, bool not_folded)
{
    struct history_query query = {
        .since_us = since_us, .until_us = INT64_MAX, .not_folded = not_folded, .most = HISTORY_ROWS_MOST};
    struct history_rows rows = {.count = 0};
    scene_ok(scene, store_read_history(scene->store, &query, &scene->arena, &rows, &scene->error));
    return rows;
}

static void write_row(struct scene *scene, int64_t at_us, const char *facts)
{
    struct history_row row = {.at_us = at_us, .span_us = SECONDS(60), .facts = facts, .length = strlen(facts)};
    scene_ok(scene, store_write_history(scene->store, &row, 0, &scene->error));
}

static void assert_facts(const struct history_row *row, const char *facts)
{
    assert_int_equal(row->length, strlen(facts));
    assert_memory_equal(row->facts, facts, row->length);
}

static void a_sample_has_the_ends_so_far_and_the_busy_workspaces(void **state)
{
    struct scene *scene = *state;
    struct history_sample sample = {.now_us = 0};
    scene_enqueue_many(scene, "pro-co", 3);
    struct claim_result claim = scene_claim(scene, 3);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &claim.items[0]), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &claim.items[1]), WEIR_OK);
    scene_enqueue_many(scene, "big-co", 2);
    scene_ok(scene, store_sample_history(scene->store, &scene->arena, &sample, &scene->error));
    assert_int_equal(sample.now_us, scene_now(scene));
    assert_int_equal(sample.completed, 1);
    assert_int_equal(sample.failed, 1);
    assert_int_equal(sample.cancelled, 0);
    assert_int_equal(sample.workspace_count, 2); /* free-co is idle */
    assert_true(sample.workspaces[0].id < sample.workspaces[1].id);
    assert_int_equal(sample.workspaces[0].id, scene_number(scene, "SELECT id FROM workspaces WHERE name = 'pro-co'"));
    assert_int_equal(sample.workspaces[0].slots_used, 1);
    assert_int_equal(sample.workspaces[0].slots_max,
                     scene_number(scene, "SELECT slots_max FROM workspaces WHERE name = 'pro-co'"));
    assert_int_equal(sample.workspaces[0].pending, 0);
    assert_int_equal(sample.workspaces[1].slots_used, 0);
    assert_int_equal(sample.workspaces[1].pending, 2);
}

static void a_row_is_read_as_it_was_written_and_once(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    write_row(scene, now_us - SECONDS(60), "first");
    write_row(scene, now_us, "second");
    write_row(scene, now_us, "another with the same end");
    struct history_rows rows = read_behind(scene, 0, false);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.rows[0].at_us, now_us - SECONDS(60));
    assert_int_equal(rows.rows[0].span_us, SECONDS(60));
    assert_false(rows.rows[0].is_folded);
    assert_facts(&rows.rows[0], "first");
    assert_facts(&rows.rows[1], "second");
    assert_int_equal(read_behind(scene, now_us - SECONDS(60), false).count, 1);
    struct history_query query = {.until_us = now_us - 1, .most = 1, .workspace = "pro-co"};
    scene_ok(scene, store_read_history(scene->store, &query, &scene->arena, &rows, &scene->error));
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.workspace_id, scene_number(scene, "SELECT id FROM workspaces WHERE name = 'pro-co'"));
    query.workspace = "nobody";
    assert_int_equal(store_read_history(scene->store, &query, &scene->arena, &rows, &scene->error),
                     WEIR_WORKSPACE_NOT_FOUND);
}

static void a_sum_takes_the_place_of_its_parts(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    struct history_row sum = {
        .at_us = now_us - SECONDS(60), .span_us = SECONDS(120), .is_folded = true, .facts = "sum", .length = 3};
    for (int i = 3; i >= 0; i--) {
        write_row(scene, now_us - SECONDS(60 * i), "part");
    }
    for (int i = 0; i < 2; i++) { /* another node that folds the same rows changes nothing */
        scene_ok(scene, store_write_history(scene->store, &sum, now_us - SECONDS(60 * 3), &scene->error));
        struct history_rows rows = read_behind(scene, 0, false);
        assert_int_equal(rows.count, 3);
        assert_facts(&rows.rows[0], "part");
        assert_facts(&rows.rows[1], "sum");
        assert_true(rows.rows[1].is_folded);
        assert_facts(&rows.rows[2], "part");
        assert_int_equal(read_behind(scene, 0, true).count, 2);
    }
}

static void rows_of_more_than_a_day_ago_and_ahead_of_the_clock_are_removed(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    write_row(scene, now_us - DAY - SECONDS(1), "old");
    write_row(scene, now_us + HISTORY_AHEAD_US + SECONDS(1), "ahead");
    write_row(scene, now_us - DAY, "kept");
    write_row(scene, now_us + HISTORY_AHEAD_US, "kept, too");
    write_row(scene, now_us, "now");
    struct history_rows rows = read_behind(scene, 0, false);
    assert_int_equal(rows.count, 3);
    assert_facts(&rows.rows[0], "kept");
    assert_facts(&rows.rows[1], "now");
    assert_facts(&rows.rows[2], "kept, too");
}

static void more_rows_than_a_day_has_push_the_oldest_out(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    for (int i = 1; i <= HISTORY_ROWS_MOST + 3; i++) {
        write_row(scene, now_us - DAY / 2 + SECONDS(i), "x");
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM history"), HISTORY_ROWS_MOST);
    assert_int_equal(read_behind(scene, 0, false).rows[0].at_us, now_us - DAY / 2 + SECONDS(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_sample_has_the_ends_so_far_and_the_busy_workspaces),
        SCENE_TEST(a_row_is_read_as_it_was_written_and_once),
        SCENE_TEST(a_sum_takes_the_place_of_its_parts),
        SCENE_TEST(rows_of_more_than_a_day_ago_and_ahead_of_the_clock_are_removed),
        SCENE_TEST(more_rows_than_a_day_has_push_the_oldest_out),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
