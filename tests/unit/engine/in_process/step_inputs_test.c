/* Expressions of steps: plain paths, jq in evaluator children, and expressions that fail or never end. */
#include "engine/in_process/step_inputs.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/engine_fixture.h"
#include "support/test.h"

static struct engine_fixture fixture;

static int open_fixture(void **state)
{
    (void)state;
    engine_fixture_open(&fixture, NULL);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    return 0;
}

static void jq_programs_are_answered_by_evaluators(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"steps\":{"
        "\"a\":{\"exec\":[\"echo\",\"${.input.list | add}\",\"${.input.list | length}\"],"
        "\"env\":{\"E\":\"${.input.list | max}\"},\"stdin\":\"${[.input.list[] * 2]}\"},"
        "\"b\":{\"needs\":[\"a\"],\"when\":\"${.steps.a.exit_code == 0 and (.input.list | length) == 3}\","
        "\"exec\":[\"cat\"],\"stdin\":\"${.execution | [.workspace, .workflow, .version, .start_number, .id]}\"}}}",
        "{\"list\":[1,2,3]}");
    assert_string_equal(engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_COMPLETED, 1)->step.output, "\"6 3\"");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output,
                        "[\"acme\",\"test\",3,1,\"00000000-0000-7000-8000-000000000001\"]");
}

static void expression_sees_only_the_steps_before_its_own(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]},"
                         "\"b\":{\"needs\":[\"a\"],\"exec\":[\"true\"]},"
                         "\"c\":{\"needs\":[\"a\"],\"exec\":[\"cat\"],\"stdin\":\"${[.steps[]] | length}\"},"
                         "\"d\":{\"needs\":[\"b\",\"c\"],\"exec\":[\"cat\"],\"stdin\":\"${[.steps[]] | length}\"}}}",
                         "{}");
    assert_string_equal(engine_fixture_expect(&fixture, REPORT_STEP, 1, "c", STEP_COMPLETED, 1)->step.output, "1");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "3");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The reader of definitions refuses all names outside of these lists, so the lists must be complete. */
static void expressions_read_input_steps_and_execution(void **state)
{
    (void)state;
    struct text expected = {.max = 1000};
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]},\"b\":{\"needs\":[\"a\"],\"exec\":[\"cat\"],"
        "\"stdin\":\"${[(., .steps.a, .execution) | keys]}\"},\"z\":{\"needs\":[\"b\"],\"exec\":[\"false\"]}},"
        "\"on_failure\":{\"c\":{\"exec\":[\"cat\"],\"stdin\":\"${.steps.b.output + [(., .failure) | keys]}\"}}}",
        "{}");
    static const enum expression_object objects[] = {CONTEXT_ITSELF, CONTEXT_STEP, CONTEXT_EXECUTION, CONTEXT_AFTER_FAILURE,
                                                     CONTEXT_FAILURE};
    for (size_t number = 0; number < sizeof objects / sizeof objects[0]; number++) {
        enum expression_object object = objects[number];
        const char *sorted[16];
        size_t count = 0;
        const char *const *keys = expression_keys(object, &count);
        assert_true(count > 0 && count <= sizeof sorted / sizeof sorted[0]);
        memcpy(sorted, keys, count * sizeof sorted[0]);
        qsort(sorted, count, sizeof sorted[0], by_name);
        for (size_t i = 0; i < count; i++) {
            const char *before = i > 0 ? "," : object == CONTEXT_ITSELF ? "[[" : "],[";
            assert_int_equal(text_format(&expected, "%s\"%s\"", before, sorted[i]), WEIR_OK);
        }
    }
    assert_int_equal(text_add_string(&expected, "]]"), WEIR_OK);
    assert_string_equal(engine_fixture_expect(&fixture, REPORT_STEP, 1, "c", STEP_COMPLETED, 1)->step.output,
                        expected.data);
    text_close(&expected);
}

static void failing_expression_fails_its_step_and_names_the_expression(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${.input | error(\\\"no way\\\")}\"],"
                         "\"retry\":{\"attempts\":3}}}}",
                         "{}");
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "expression_error");
    assert_non_null(strstr(end->error, "no way"));
    assert_int_equal(end->step.failures, 1); /* it would fail again */
    engine_fixture_start(&fixture, 2, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${.input.missing}\"]}}}",
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_FAILED)->error_code, "expression_error");
    engine_fixture_start(&fixture, 3, "{\"name\":\"t\",\"steps\":{\"a\":{\"sleep\":\"${.input.for}\"}}}",
                         "{\"for\":\"soon\"}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 3, END_FAILED)->error_code, "expression_error");
}

/* As a definition may name. */
static void sleep_of_an_expression_lasts_ten_years_at_most(void **state)
{
    (void)state;
    static const char definition[] = "{\"name\":\"t\",\"steps\":{\"a\":{\"sleep\":{\"for\":\"${.input.for}\"}}}}";
    engine_fixture_start(&fixture, 1, definition, "{\"for\":\"3651d\"}");
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "expression_error");
    assert_string_equal(end->error, "\"3651d\" is longer than ten years");
    engine_fixture_start(&fixture, 2, definition, "{\"for\":\"3650d\"}");
    (void)engine_fixture_expect(&fixture, REPORT_PARKED, 2, "a", STEP_WAITING, 1);
}

/* --- a library that makes its descriptors anew in each child of fork(), as libuv does --- */

static int library_pipe[2] = {-1, -1};

/* It knows the numbers of its own. Others may have them by now. */
static void make_library_pipe_anew(void)
{
    if (library_pipe[0] >= 0) {
        (void)close(library_pipe[0]);
        (void)close(library_pipe[1]);
        (void)!pipe(library_pipe);
    }
}

/* The numbers are among those that the descriptors of a step get in the keeper. */
static int open_fixture_beside_a_library(void **state)
{
    int padding[2] = {open("/dev/null", O_RDONLY | O_CLOEXEC), open("/dev/null", O_RDONLY | O_CLOEXEC)};
    assert_int_equal(pipe(library_pipe), 0);
    assert_int_equal(pthread_atfork(NULL, NULL, make_library_pipe_anew), 0);
    (void)open_fixture(state);
    (void)close(padding[0]);
    (void)close(padding[1]);
    return 0;
}

static int close_fixture_beside_a_library(void **state)
{
    (void)close(library_pipe[0]);
    (void)close(library_pipe[1]);
    library_pipe[0] = -1;
    return close_fixture(state);
}

static void steps_keep_their_descriptors_beside_a_library_that_closes_some(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"cat\"],\"stdin\":\"${.input.list | add}\"},"
        "\"b\":{\"needs\":[\"a\"],\"exec\":[\"sh\",\"-c\",\"cat; echo heard >&2\"],\"stdin\":\"${[.steps.a.output]}\"}}}",
        "{\"list\":[1,2,3]}");
    assert_string_equal(engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_COMPLETED, 1)->step.output, "6");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "[6]");
}

/* By the wall clock it would be years. */
static void sleep_until_a_time_ends_at_that_store_time(void **state)
{
    (void)state;
    int64_t until_us;
    int64_t boot_us = clock_boot(clock_system());
    assert_int_equal(time_parse("2100-01-01T00:00:00Z", 0, &until_us, NULL), WEIR_OK);
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"steps\":{\"a\":{\"sleep\":{\"until\":\"2100-01-01T00:00:00Z\"}}}}", "{}");
    start.store_ahead_us = until_us - boot_us - 100 * MICROSECONDS_PER_MS;
    engine_fixture_start_with(&fixture, &start);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_true(clock_boot(clock_system()) - boot_us >= 100 * MICROSECONDS_PER_MS);
}

static void runaway_expression_is_killed_and_the_next_one_is_answered(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++) { /* more than there are evaluators */
        engine_fixture_start(
            &fixture, i, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${[range(1e12)] | length}\"]}}}", "{}");
    }
    for (int i = 1; i <= 3; i++) {
        const struct report *end = engine_fixture_expect_end(&fixture, i, END_FAILED);
        assert_true(strcmp(end->error_code, "expression_timeout") == 0 || strcmp(end->error_code, "expression_error") == 0);
    }
    engine_fixture_start(&fixture, 4, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${1 + 1}\"]}}}", "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 4, END_COMPLETED)->step.output, "2\n");
}

static void expression_that_never_ends_fails_with_a_code_of_its_own(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${def f: f; f}\"]}}}", "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "expression_timeout");
}

static void execution_cancelled_while_it_evaluates_ends_at_once(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${def f: f; f}\"]}}}", "{}");
    (void)engine_fixture_expect(&fixture, REPORT_STARTED, 1, NULL, -1, 1);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
    assert_false(end->has_step); /* its step was never reported */
    engine_fixture_start(&fixture, 2, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${1 + 1}\"]}}}", "{}");
    (void)engine_fixture_expect_end(&fixture, 2, END_COMPLETED);
}

static void many_expressions_share_the_evaluators(void **state)
{
    (void)state;
    const char *definition = "{\"name\":\"t\",\"steps\":{\"a\":{\"when\":\"${.input.n * 2 < 0}\",\"exec\":[\"true\"]}}}";
    for (int i = 0; i < 300; i++) {
        char params[32];
        (void)snprintf(params, sizeof params, "{\"n\":%d}", i);
        struct engine_start start = engine_fixture_start_of(0, definition, params);
        (void)snprintf(start.id, sizeof start.id, "00000000-0000-7000-8000-%012d", i);
        start.definition_id = 1;
        engine_fixture_start_with(&fixture, &start);
    }
    assert_non_null(recorder_wait(&fixture.recorder, REPORT_ENDED, NULL, NULL, STEP_SKIPPED, 300));
}

/* The failures of others that were reported while this execution ran. */
static size_t failed_beside(int number)
{
    size_t count = 0;
    bool runs = false;
    (void)pthread_mutex_lock(&fixture.recorder.lock);
    for (const struct report *report = fixture.recorder.first; report != NULL; report = report->next) {
        bool is_own = strcmp(report->id, engine_fixture_id(number)) == 0;
        runs = is_own ? report->kind != REPORT_ENDED : runs;
        count += runs && report->kind == REPORT_ENDED && report->end_state == END_FAILED;
    }
    (void)pthread_mutex_unlock(&fixture.recorder.lock);
    return count;
}

/* Each expression of `noisy` takes a second of processor time, and there are more of them than evaluators. */
static void a_backlog_of_slow_expressions_delays_no_other_workspace(void **state)
{
    (void)state;
    for (int i = 1; i <= 8; i++) {
        struct engine_start start =
            engine_fixture_start_of(i, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${def f: f; f}\"]}}}", "{}");
        start.workspace = "noisy";
        engine_fixture_start_with(&fixture, &start);
    }
    engine_fixture_start(&fixture, 9, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${1 + 1}\"]}}}", "{}");
    (void)engine_fixture_expect_end(&fixture, 9, END_COMPLETED);
    /* Those that two evaluators may have given up meanwhile, or were about to. */
    assert_true(failed_beside(9) <= 4);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(jq_programs_are_answered_by_evaluators),
        CLAIM(expression_sees_only_the_steps_before_its_own),
        CLAIM(expressions_read_input_steps_and_execution),
        CLAIM(failing_expression_fails_its_step_and_names_the_expression),
        CLAIM(sleep_of_an_expression_lasts_ten_years_at_most),
        CLAIM(sleep_until_a_time_ends_at_that_store_time),
        CLAIM(runaway_expression_is_killed_and_the_next_one_is_answered),
        CLAIM(expression_that_never_ends_fails_with_a_code_of_its_own),
        CLAIM(execution_cancelled_while_it_evaluates_ends_at_once),
        CLAIM(many_expressions_share_the_evaluators),
        CLAIM(a_backlog_of_slow_expressions_delays_no_other_workspace),
        cmocka_unit_test_setup_teardown(steps_keep_their_descriptors_beside_a_library_that_closes_some,
                                        open_fixture_beside_a_library, close_fixture_beside_a_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
