/* The duty of the archive: off by default, its time, and a failure that stops nothing else. */
#include <unistd.h>

#include "base/error.h"
#include "unit/dispatch/bench.h"

static void old_executions_are_archived_where_it_is_set(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *status = NULL;
    bench->settings.archive_after_us = 3600 * SECOND;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    pass(bench, 3 * MINUTE);
    assert_int_equal(bench->counts[EVENT_ARCHIVE_MOVED], 0);
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(bench->counts[EVENT_ARCHIVE_MOVED], 1);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    assert_int_equal(store_status(bench->store, 1, &status, NULL), WEIR_OK);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(status, "archive"), "moved")), 1);
    json_decref(status);
}

static int64_t archived(struct bench *bench)
{
    json_t *shown = NULL;
    assert_int_equal(store_status(bench->store, 1, &shown, NULL), WEIR_OK);
    int64_t moved = json_integer_value(json_object_get(json_object_get(shown, "archive"), "moved"));
    json_decref(shown);
    return moved;
}

/* A pass begins where an earlier one has ended, so what ran for longer is left to the whole pass of a day. */
static void what_ran_for_long_is_archived_within_a_day(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.archive_after_us = 3600 * SECOND;
    push(bench, (struct scripted_outcome){.run_us = 3 * 3600 * SECOND});
    start_node(bench);
    enqueue_at(bench, "many", "plain", 0, id);
    pass(bench, 2 * 3600 * SECOND);
    push(bench, (struct scripted_outcome){.run_us = SECOND});
    enqueue_at(bench, "many", "plain", 0, id);
    pass(bench, 3 * 3600 * SECOND);
    assert_int_equal(archived(bench), 1); /* the second one */
    bench->now_us += 24 * 3600 * SECOND;
    pass(bench, 10 * MINUTE);
    assert_int_equal(archived(bench), 2);
}

static void the_retention_removes_archived_executions(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    json_t *answer = NULL;
    bench->settings.archive_after_us = 3600 * SECOND;
    bench->settings.retention_us = 2 * 3600 * SECOND;
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(bench->counts[EVENT_ARCHIVE_MOVED], 1);
    assert_int_equal(bench->counts[EVENT_RETENTION_PURGED], 0);
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(bench->counts[EVENT_RETENTION_PURGED], 1);
    assert_int_equal(store_why(bench->store, id, &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(store_check(bench->store, &answer, NULL), WEIR_OK);
    assert_int_equal(json_array_size(answer), 0);
    json_decref(answer);
}

static void archive_path(const struct bench *bench, char to[300])
{
    (void)snprintf(to, 300, "%.*s-archive.db", (int)(strlen(bench->url) - strlen("sqlite:") - strlen(".db")),
                   bench->url + strlen("sqlite:"));
}

/* The disk of the archive is away for a while. */
static void the_retention_reports_what_it_cannot_remove(void **state)
{
    struct bench *bench = *state;
    char ids[2][UUID_TEXT_MAX];
    char path[300];
    char kept[310];
    json_t *answer = NULL;
    bench->settings.archive_after_us = 3600 * SECOND;
    bench->settings.retention_us = 2 * 3600 * SECOND;
    archive_path(bench, path);
    (void)snprintf(kept, sizeof kept, "%s.kept", path);
    start_node(bench);
    for (size_t i = 0; i < 2; i++) {
        enqueue(bench, "solo", ids[i]);
        pass(bench, SECOND);
    }
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(rename(path, kept), 0);
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_true(bench->counts[EVENT_RETENTION_REFUSED] >= 1);
    assert_int_equal(bench->last[EVENT_RETENTION_REFUSED].count, 2);
    assert_int_equal(bench->counts[EVENT_RETENTION_PURGED], 0);
    assert_int_equal(store_why(bench->store, ids[0], &answer, NULL), WEIR_OK);
    json_decref(answer);
    assert_int_equal(rename(kept, path), 0);
    pass(bench, 15 * MINUTE);
    assert_true(bench->counts[EVENT_RETENTION_PURGED] >= 1);
    assert_int_equal(store_why(bench->store, ids[1], &answer, NULL), WEIR_EXECUTION_NOT_FOUND);
}

static void nothing_is_archived_by_default(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    bench->now_us += 13 * 24 * 3600 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    assert_int_equal(bench->counts[EVENT_ARCHIVE_MOVED], 0);
}

/* The file of another program has the name of the archive. */
static void a_failing_archive_stops_no_other_duty(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    char path[300];
    struct weir_error error = {.status = WEIR_OK};
    bench->settings.archive_after_us = 3600 * SECOND;
    archive_path(bench, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("this is no database, and long enough to be none beyond doubt: 0123456789 0123456789 0123456789\n",
                      file) > 0);
    assert_int_equal(fclose(file), 0);
    start_node(bench);
    enqueue(bench, "solo", id);
    pass(bench, SECOND);
    bench->now_us += 3700 * SECOND;
    pass(bench, 3 * MINUTE);
    assert_int_equal(bench->counts[EVENT_ARCHIVE_FAILED], 1);
    assert_int_equal(bench->counts[EVENT_LOOP_FAILED], 0);
    assert_true(node_is_healthy(bench->node, &error));
    assert_int_equal(unlink(path), 0);
}

static const struct store_driver *real_driver;
static int moves;

static enum weir_status count_moves(struct store *store, const struct archive_order *order, const char *below,
                                    struct archive_result *result, struct weir_error *error)
{
    moves++;
    return real_driver->archive(store, order, below, result, error);
}

/* No execution ended before the clock of the store began. */
static void an_age_beyond_the_clock_of_the_store_asks_for_no_move(void **state)
{
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    struct store_driver counting = *real_driver;
    counting.archive = count_moves;
    bench->store->driver = &counting;
    moves = 0;
    bench->settings.archive_after_us = 2 * START_WALL_US;
    start_node(bench);
    pass(bench, 3 * MINUTE);
    assert_int_equal(moves, 0);
    assert_int_equal(bench->counts[EVENT_STORE_FAILED], 0);
    bench->settings.archive_after_us = 3600 * SECOND;
    node_tune(bench->node, &bench->settings);
    pass(bench, 24 * 3600 * SECOND);
    assert_true(moves > 0);
    node_close(bench->node);
    bench->node = NULL;
    bench->store->driver = real_driver;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(old_executions_are_archived_where_it_is_set),
        TEST(what_ran_for_long_is_archived_within_a_day),
        TEST(the_retention_removes_archived_executions),
        TEST(nothing_is_archived_by_default),
        TEST(the_retention_reports_what_it_cannot_remove),
        TEST(a_failing_archive_stops_no_other_duty),
        TEST(an_age_beyond_the_clock_of_the_store_asks_for_no_move),
    };
#undef TEST
    return cmocka_run_group_tests_name("archive_duty", tests, NULL, NULL);
}
