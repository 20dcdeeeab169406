/* Reports of progress on their way to the store: the newest of each step, once in a round, and removed after the end. */
#include "dispatch/progress_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/driver.h"
#include "support/test.h"

#define ID "01a20f13-9a93-7000-97fe-9fb254035fba"

struct written {
    char step[STEP_ID_MAX + 1];
    int attempt;
    int64_t fence;
    int parts;
    bool is_over;
    char text[PROGRESS_TEXT_MAX + 1];
};

/* A store that keeps the reports of its last call, or refuses them. */
struct bench {
    struct store store; /* first */
    struct progress_buffer buffer;
    enum weir_status answer;
    void (*meanwhile)(struct bench *bench); /* what other threads do during the call */
    size_t calls;
    size_t count;
    struct written written[PROGRESS_WRITE_MOST];
};

static enum weir_status keep_progress(struct store *store, const struct progress_record *records, size_t count,
                                      struct weir_error *error)
{
    struct bench *bench = (struct bench *)(void *)store;
    bench->calls++;
    bench->count = count;
    for (size_t i = 0; i < count; i++) {
        struct written *kept = &bench->written[i];
        assert_string_equal(records[i].execution_id, ID);
        kept->attempt = records[i].attempt;
        kept->fence = records[i].fence;
        kept->parts = records[i].parts;
        kept->is_over = records[i].is_over;
        (void)snprintf(kept->step, sizeof kept->step, "%s", records[i].step);
        (void)snprintf(kept->text, sizeof kept->text, "%s", records[i].text);
    }
    if (bench->meanwhile != NULL) {
        bench->meanwhile(bench);
    }
    return bench->answer == WEIR_OK ? WEIR_OK : error_set(error, bench->answer, "by the test");
}

static const struct store_driver driver = {.scheme = "memory", .write_progress = keep_progress};

static int open_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->store.driver = &driver;
    bench->store.clock = clock_system();
    progress_buffer_init(&bench->buffer);
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    progress_buffer_close(&bench->buffer);
    free(bench);
    return 0;
}

static struct engine_progress report_of(const char *step, int64_t fence, int attempt, int parts, const char *text)
{
    return (struct engine_progress){
        .execution_id = ID, .step = step, .attempt = attempt, .fence = fence, .at_us = 1, .parts = parts, .text = text};
}

static bool add(struct bench *bench, const char *step, int64_t fence, int attempt, int parts)
{
    struct engine_progress report = report_of(step, fence, attempt, parts, "x");
    return progress_buffer_add(&bench->buffer, &report);
}

static bool end(struct bench *bench, const char *step, int64_t fence, int attempt)
{
    struct engine_progress report = report_of(step, fence, attempt, -1, NULL);
    return progress_buffer_end(&bench->buffer, &report);
}

/* Returns whether the round goes on. */
static bool write_once(struct bench *bench)
{
    struct weir_error error = {.status = WEIR_OK};
    bool more = false;
    bench->count = 0;
    assert_int_equal(progress_buffer_write(&bench->buffer, &bench->store, &more, &error), bench->answer);
    return more;
}

static void the_newest_report_of_a_step_is_written_once(void **state)
{
    struct bench *bench = *state;
    assert_true(add(bench, "a", 5, 1, 100));
    assert_false(add(bench, "a", 5, 1, 200));
    assert_false(add(bench, "b", 5, 1, 300));
    assert_false(write_once(bench));
    assert_int_equal(bench->count, 2);
    assert_string_equal(bench->written[0].step, "a");
    assert_int_equal(bench->written[0].parts, 200);
    assert_int_equal(bench->written[1].parts, 300);
    assert_false(progress_buffer_is_due(&bench->buffer));
    assert_false(write_once(bench));
    assert_int_equal(bench->count, 0);
    assert_true(add(bench, "a", 5, 1, 400));
}

static void a_report_of_an_earlier_claim_or_attempt_changes_nothing(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 2, 100);
    (void)add(bench, "a", 5, 1, 1);
    (void)add(bench, "a", 4, 9, 2);
    (void)end(bench, "a", 5, 1);
    (void)end(bench, "a", 4, 2);
    (void)write_once(bench);
    assert_int_equal(bench->count, 1);
    assert_int_equal(bench->written[0].parts, 100);
    (void)add(bench, "a", 6, 1, 3);
    (void)write_once(bench);
    assert_int_equal(bench->written[0].parts, 3);
    assert_int_equal(bench->written[0].fence, 6);
}

static void an_attempt_that_ends_before_its_write_leaves_nothing(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 1, 1);
    (void)add(bench, "b", 5, 1, 1);
    (void)add(bench, "c", 5, 1, 1);
    assert_false(end(bench, "b", 5, 1));
    (void)write_once(bench);
    assert_int_equal(bench->count, 2);
    assert_string_equal(bench->written[1].step, "c");
    assert_int_equal(bench->buffer.count, 2);
    (void)add(bench, "d", 5, 1, 1);
    assert_false(end(bench, "d", 5, 1));
    assert_false(progress_buffer_is_due(&bench->buffer));
}

static void the_end_of_an_attempt_removes_its_report_once(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 1, 1);
    (void)write_once(bench);
    assert_true(end(bench, "a", 5, 1));
    (void)write_once(bench);
    assert_int_equal(bench->count, 1);
    assert_true(bench->written[0].is_over);
    assert_int_equal(bench->buffer.count, 0);
    assert_false(end(bench, "a", 5, 1));
    assert_false(progress_buffer_is_due(&bench->buffer));
}

static void begin_next_attempt(struct bench *bench)
{
    (void)add(bench, "a", 5, 2, 7);
    bench->meanwhile = NULL;
}

static void a_new_attempt_during_the_removal_of_the_one_before_is_kept(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 1, 1);
    (void)write_once(bench);
    (void)end(bench, "a", 5, 1);
    bench->meanwhile = begin_next_attempt;
    assert_false(write_once(bench));
    assert_true(bench->written[0].is_over);
    assert_int_equal(bench->buffer.count, 1);
    (void)write_once(bench);
    assert_int_equal(bench->count, 1);
    assert_int_equal(bench->written[0].attempt, 2);
    assert_false(bench->written[0].is_over);
}

static void end_now(struct bench *bench)
{
    (void)end(bench, "a", 5, 1);
    bench->meanwhile = NULL;
}

static void an_end_during_the_write_of_a_report_removes_it(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 1, 1);
    bench->meanwhile = end_now;
    assert_false(write_once(bench));
    assert_true(progress_buffer_is_due(&bench->buffer));
    (void)write_once(bench);
    assert_true(bench->written[0].is_over);
    assert_int_equal(bench->buffer.count, 0);
}

static void report_all_again(struct bench *bench)
{
    char step[16];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(step, sizeof step, "s%02d", i);
        (void)add(bench, step, 5, 1, 2);
    }
}

static void a_round_has_several_sets_and_writes_each_step_once(void **state)
{
    struct bench *bench = *state;
    report_all_again(bench);
    bench->meanwhile = report_all_again;
    assert_true(write_once(bench));
    assert_int_equal(bench->count, PROGRESS_WRITE_MOST);
    assert_false(write_once(bench));
    assert_int_equal(bench->count, 100 - PROGRESS_WRITE_MOST);
    assert_string_equal(bench->written[0].step, "s64");
    assert_true(progress_buffer_is_due(&bench->buffer));
    bench->meanwhile = NULL;
    assert_true(write_once(bench));
    assert_string_equal(bench->written[0].step, "s00");
}

static void a_failure_that_may_pass_keeps_the_newest_reports(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 1, 1);
    bench->answer = WEIR_STORE_UNREACHABLE;
    assert_false(write_once(bench));
    (void)add(bench, "a", 5, 1, 2);
    bench->answer = WEIR_OK;
    (void)write_once(bench);
    assert_int_equal(bench->count, 1);
    assert_int_equal(bench->written[0].parts, 2);
    (void)end(bench, "a", 5, 1);
    bench->answer = WEIR_COMMIT_UNKNOWN;
    (void)write_once(bench);
    bench->answer = WEIR_OK;
    (void)write_once(bench);
    assert_true(bench->written[0].is_over);
    assert_int_equal(bench->buffer.count, 0);
}

static void another_failure_loses_the_reports_of_its_set(void **state)
{
    struct bench *bench = *state;
    (void)add(bench, "a", 5, 1, 1);
    bench->answer = WEIR_SYSTEM;
    assert_false(write_once(bench));
    assert_false(progress_buffer_is_due(&bench->buffer));
    bench->answer = WEIR_OK;
    (void)add(bench, "a", 5, 1, 2);
    (void)write_once(bench);
    assert_int_equal(bench->written[0].parts, 2);
}

static void attempts_beyond_the_bound_are_left_out(void **state)
{
    struct bench *bench = *state;
    char step[16];
    for (int i = 0; i < PROGRESS_ATTEMPTS_MAX + 2; i++) {
        (void)snprintf(step, sizeof step, "s%d", i);
        (void)add(bench, step, 5, 1, 1);
    }
    assert_int_equal(bench->buffer.count, PROGRESS_ATTEMPTS_MAX);
    assert_false(end(bench, step, 5, 1));
    assert_false(end(bench, "s0", 5, 1));
    (void)add(bench, step, 5, 1, 1);
    assert_int_equal(bench->buffer.count, PROGRESS_ATTEMPTS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_report_of_a_step_is_written_once, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(a_report_of_an_earlier_claim_or_attempt_changes_nothing, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(an_attempt_that_ends_before_its_write_leaves_nothing, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(the_end_of_an_attempt_removes_its_report_once, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(a_new_attempt_during_the_removal_of_the_one_before_is_kept, open_bench,
                                        close_bench),
        cmocka_unit_test_setup_teardown(an_end_during_the_write_of_a_report_removes_it, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(a_round_has_several_sets_and_writes_each_step_once, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(a_failure_that_may_pass_keeps_the_newest_reports, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(another_failure_loses_the_reports_of_its_set, open_bench, close_bench),
        cmocka_unit_test_setup_teardown(attempts_beyond_the_bound_are_left_out, open_bench, close_bench),
    };
    return cmocka_run_group_tests_name("progress_buffer", tests, NULL, NULL);
}
