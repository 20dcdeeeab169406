/* The stream under two transactions, each order forced, and after the store was moved. What both stores have in common is
 * in tests/conformance/stream_test.c. */
#include "unit/store/postgres/scene.h"

#define KEEP_MARGIN "600000000, 60000000"

static struct stream_batch read_behind(struct scene *scene, struct stream_position after, size_t most)
{
    struct stream_batch batch = {.count = 0};
    ok(store_read_stream(scene->store, &after, most, &scene->arena, &batch, &scene->error));
    return batch;
}

/* A reader that begins, on a stream that has settled. */
static struct stream_position begin(struct scene *scene)
{
    struct stream_batch batch = read_behind(scene, (struct stream_position){.since_us = 0}, STREAM_READ_MOST);
    assert_true(batch.is_reset);
    assert_false(batch.more);
    for (int calls = 0; batch.is_settling && calls < 5; calls++) {
        batch = read_behind(scene, batch.position, STREAM_READ_MOST);
        assert_false(batch.is_reset);
    }
    assert_false(batch.is_settling);
    return batch.position;
}

/* Rows of `age_us`, each with the changes of `size` executions. */
static void write_rows(struct scene *scene, long long rows, long long size, long long age_us)
{
    (void)run(
        scene->a,
        "INSERT INTO weir.stream_entries (at, size, kind, ids, workspaces) "
        "SELECT weir.store_time() - %lld, %lld, 'enqueue', e.ids, e.workspaces "
        "FROM (SELECT array_agg(gen_random_uuid()) AS ids, array_agg(1) AS workspaces FROM generate_series(1, %lld)) e, "
        "generate_series(1, %lld)",
        age_us, size, size, rows);
}

static void lapse(struct scene *scene)
{
    (void)run(scene->a, "SELECT setval('weir.stream_written_until', weir.store_time() - 1)");
}

/* --- the beginning --- */

static void a_beginning_that_is_rolled_back_hides_no_change(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    lapse(scene);
    (void)enqueue_for(scene, "acme", NULL); /* without an entry */
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.stream_entries"), "0");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "SELECT is_reset FROM weir.read_stream(%lld, %lld, 10, 10, " KEEP_MARGIN ")",
                            (long long)position.since_us, (long long)position.number),
                        "t");
    (void)run(scene->a, "ROLLBACK");
    assert_true(read_behind(scene, position, 10).is_reset);
}

static void the_stream_of_a_reset_is_written(void **state)
{
    struct scene *scene = *state;
    struct stream_batch batch = read_behind(scene, (struct stream_position){.since_us = 0}, 10);
    const char *id = enqueue_for(scene, "acme", NULL);
    batch = read_behind(scene, batch.position, 10);
    assert_false(batch.is_reset);
    assert_int_equal(batch.count, 1);
    assert_string_equal(batch.entries[0].id, id);
}

static void a_transaction_id_of_another_server_does_not_keep_the_stream_from_settling(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    (void)run(scene->a, "UPDATE weir.stream_state SET settled_xid = (settled_xid::text::bigint + 1000000)::text::xid8");
    assert_true(read_behind(scene, position, 10).is_reset);
    assert_true(begin(scene).since_us > position.since_us);
}

static void a_position_ends_when_the_timeline_changes(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    (void)run(scene->a, "UPDATE weir.stream_state SET timeline = '000000FF ' || split_part(timeline, ' ', 2)");
    assert_true(read_behind(scene, position, 10).is_reset);
    assert_true(begin(scene).since_us > position.since_us);
}

/* --- retention --- */

static void a_purge_during_a_read_is_a_reset(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    write_rows(scene, 10, 1, 700000000);
    write_rows(scene, 10, 1, 0);
    assert_int_equal(read_behind(scene, position, 100).count, 20);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "DELETE FROM weir.stream_entries WHERE position <= %lld", (long long)position.number + 10);
    (void)run(scene->a, "UPDATE weir.stream_state SET purged_to = %lld", (long long)position.number + 10);
    (void)run(scene->a, "LOCK TABLE weir.workflow_definitions"); /* the read has seen the state when it waits for this */
    run_into(scene->b, "SELECT is_reset FROM weir.read_stream(%lld, %lld, 100, 100, " KEEP_MARGIN ") WHERE kind IS NULL",
             (long long)position.since_us, (long long)position.number);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "t");
}

static void rows_that_get_no_position_are_purged_and_delay_no_reader(void **state)
{
    struct scene *scene = *state;
    int64_t removed = 0;
    (void)begin(scene);
    write_rows(scene, 1500, 1, 0);
    lapse(scene);
    ok(store_purge_stream(scene->store, STREAM_PURGE_MOST, &removed, &scene->error));
    assert_int_equal(removed, STREAM_PURGE_MOST);
    struct stream_batch batch = read_behind(scene, (struct stream_position){.since_us = 0}, 10); /* begins anew */
    assert_true(batch.is_reset);
    assert_false(batch.more);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.stream_entries WHERE position IS NOT NULL"), "0");
    ok(store_purge_stream(scene->store, STREAM_PURGE_MOST, &removed, &scene->error));
    assert_int_equal(removed, 500);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.stream_entries"), "0");
}

static void a_call_numbers_a_bounded_part(void **state)
{
    struct scene *scene = *state;
    (void)begin(scene);
    write_rows(scene, 9 * STREAM_NUMBER_MOST, 1, 0);
    struct stream_batch batch = read_behind(scene, (struct stream_position){.since_us = 0}, 10);
    assert_true(batch.is_reset && batch.more); /* the end of the stream is not known yet */
    batch = read_behind(scene, (struct stream_position){.since_us = 0}, 10);
    assert_true(batch.is_reset && !batch.more);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.stream_entries WHERE position IS NULL"), "0");
}

static void rows_with_positions_are_passed_while_an_old_snapshot_keeps_them(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    (void)run(scene->b, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    (void)run(scene->b, "SELECT count(*) FROM weir.stream_entries");
    write_rows(scene, 12000, 1, 0);
    long long last = number(run(scene->a, "SELECT max(seq) FROM weir.stream_entries"));
    for (int calls = 0; calls < 16; calls++) {
        position = read_behind(scene, position, STREAM_READ_MOST).position;
    }
    assert_true(number(run(scene->a, "SELECT passed_seq FROM weir.stream_state")) >= last);
    (void)run(scene->b, "COMMIT");
    const char *id = enqueue_for(scene, "acme", NULL);
    struct stream_batch batch = read_behind(scene, position, 10);
    assert_int_equal(batch.count, 1);
    assert_string_equal(batch.entries[0].id, id);
}

static void a_row_that_commits_late_is_not_passed(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    (void)run(scene->b, "BEGIN");
    (void)run(scene->b, "SELECT weir.enqueue('acme', 'hello')");
    write_rows(scene, 12000, 1, 0);
    for (int calls = 0; calls < 16; calls++) {
        position = read_behind(scene, position, STREAM_READ_MOST).position;
    }
    assert_string_equal(run(scene->a, "SELECT passed_seq FROM weir.stream_state"), "0");
    (void)run(scene->b, "COMMIT");
    assert_int_equal(read_behind(scene, position, 10).count, 1);
}

/* --- pages --- */

/* A page takes apart the rows that it needs: the calls of pages read the same entries as one of all. */
static void pages_of_wide_rows_have_each_entry_once(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    write_rows(scene, 5, 7, 0);
    write_rows(scene, 5, 1, 0);
    struct stream_batch all = read_behind(scene, position, 100);
    assert_int_equal(all.count, 40);
    for (size_t most = 1; most < 12; most++) {
        struct stream_position at = position;
        size_t count = 0;
        for (struct stream_batch page = read_behind(scene, at, most); page.count > 0; page = read_behind(scene, at, most)) {
            for (size_t i = 0; i < page.count; i++) {
                assert_string_equal(page.entries[i].id, all.entries[count].id);
                assert_int_equal(page.entries[i].number, all.entries[count++].number);
            }
            at = page.position;
        }
        assert_int_equal(count, 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_beginning_that_is_rolled_back_hides_no_change),
        SCENE_TEST(the_stream_of_a_reset_is_written),
        SCENE_TEST(a_transaction_id_of_another_server_does_not_keep_the_stream_from_settling),
        SCENE_TEST(a_position_ends_when_the_timeline_changes),
        SCENE_TEST(a_purge_during_a_read_is_a_reset),
        SCENE_TEST(rows_that_get_no_position_are_purged_and_delay_no_reader),
        SCENE_TEST(a_call_numbers_a_bounded_part),
        SCENE_TEST(rows_with_positions_are_passed_while_an_old_snapshot_keeps_them),
        SCENE_TEST(a_row_that_commits_late_is_not_passed),
        SCENE_TEST(pages_of_wide_rows_have_each_entry_once),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
