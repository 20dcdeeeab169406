/* The graph, the durability protocol, handover, fences, cancel, and how executions end. */
#include "engine/engine.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The definition with the test's directory in place of each '@'. Static storage. */
static const char *in_directory(const char *definition)
{
    static char text[8192];
    char *to = text;
    for (; *definition != '\0'; definition++) {
        to += *definition == '@' ? snprintf(to, (size_t)(text + sizeof text - to), "%s", fixture.directory)
                                 : (*to = *definition, 1);
    }
    *to = '\0';
    return text;
}

static char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
    return path;
}

static const struct report *expect_step(int number, const char *step, enum step_state state)
{
    return engine_fixture_expect(&fixture, REPORT_STEP, number, step, (int)state, 1);
}

static void answer(const struct report *report, enum weir_status status)
{
    recorder_answer(&fixture.recorder, report, status);
}

/* The keeper reports the end of a process; on a busy machine the loop turns very often before that. */
static void wait_until_none_runs(void)
{
    for (int i = 0; i < 60000 && engine_running(fixture.engine) > 0; i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_int_equal(engine_running(fixture.engine), 0);
}

#define DIAMOND                                                                                                            \
    "{\"name\":\"t\",\"steps\":{"                                                                                          \
    "\"a\":{\"exec\":[\"printf\",\"{\\\"n\\\": 20}\"]},"                                                                   \
    "\"b\":{\"needs\":[\"a\"],\"exec\":[\"echo\",\"b${.steps.a.output.n}\"]},"                                             \
    "\"c\":{\"needs\":[\"a\"],\"exec\":[\"cat\"],\"stdin\":\"${.steps.a.output}\"},"                                       \
    "\"d\":{\"needs\":[\"b\",\"c\"],\"exec\":[\"echo\",\"${.steps.b.output}-${.steps.c.output.n}\"]}}}"

static void steps_run_in_the_order_of_their_needs_and_read_earlier_outputs(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, DIAMOND, "{}");
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_true(end->has_step); /* the last result travels with the end */
    assert_string_equal(end->step.step, "d");
    assert_string_equal(end->step.output, "\"b20-20\"");
    assert_int_equal(end->step.exit_code, 0);
    assert_string_equal(expect_step(1, "a", STEP_COMPLETED)->step.output, "{\"n\": 20}"); /* byte for byte */
    assert_int_equal(fixture.recorder.first->kind, REPORT_STARTED);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, engine_fixture_id(1), NULL, STEP_RUNNING), 4);
}

static void independent_steps_run_at_the_same_time(void **state)
{
    (void)state;
    /* Each waits for the other's pipe: one after the other they would never end. */
    engine_fixture_start(&fixture, 1,
                         in_directory("{\"name\":\"t\",\"steps\":{"
                                      "\"p\":{\"exec\":[\"sh\",\"-c\",\"mkfifo @/x; until [ -p @/y ]; do :; done; "
                                      "echo hi > @/x; cat @/y\"],\"timeout\":\"60s\"},"
                                      "\"q\":{\"exec\":[\"sh\",\"-c\",\"mkfifo @/y; until [ -p @/x ]; do :; done; "
                                      "cat @/x; echo ho > @/y\"],\"timeout\":\"60s\"}}}"),
                         "{}");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

static void process_starts_only_after_its_attempt_is_durable(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, in_directory("{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"touch\",\"@/ran\"]}}}"),
                         "{}");
    const struct report *running = expect_step(1, "a", STEP_RUNNING);
    assert_int_equal(running->step.attempt, 1);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(access(path_of("ran"), F_OK), -1);
    answer(running, WEIR_OK);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_int_equal(access(path_of("ran"), F_OK), 0);
    assert_int_equal(engine_running(fixture.engine), 1); /* until its end is durable */
    answer(end, WEIR_OK);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(engine_running(fixture.engine), 0);
}

static void successor_begins_only_after_the_result_is_durable(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]},"
                         "\"b\":{\"needs\":[\"a\"],\"exec\":[\"true\"]}}}",
                         "{}");
    answer(expect_step(1, "a", STEP_RUNNING), WEIR_OK);
    const struct report *done = expect_step(1, "a", STEP_COMPLETED);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "b", -1), 0);
    answer(done, WEIR_OK);
    (void)expect_step(1, "b", STEP_RUNNING);
}

static void stale_fence_stops_the_step_without_a_report(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1,
                         in_directory("{\"name\":\"t\",\"steps\":{"
                                      "\"a\":{\"exec\":[\"sh\",\"-c\",\"echo $$ > @/pid; exec sleep 100\"]},"
                                      "\"b\":{\"exec\":[\"true\"]}}}"),
                         "{}");
    answer(expect_step(1, "a", STEP_RUNNING), WEIR_OK);
    pid_t pid = wait_for_pid_file(path_of("pid"));
    answer(expect_step(1, "b", STEP_RUNNING), WEIR_STALE_FENCE);
    assert_true(wait_until_dead(pid));
    wait_until_none_runs();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, engine_fixture_id(1), NULL, -1), 0);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, NULL, STEP_COMPLETED), 0);
}

static void cancel_sends_term_then_kill_to_the_whole_group(void **state)
{
    (void)state;
    bool got_term = false;
    /* A shell that stands still for the whole grace is killed before its trap runs: then once more. */
    for (int i = 1; i <= 5 && !got_term; i++) {
        (void)unlink(path_of("pid"));
        engine_fixture_start(&fixture, i,
                             in_directory("{\"name\":\"t\",\"steps\":{"
                                          "\"a\":{\"exec\":[\"sh\",\"-c\",\"trap 'echo t > @/term' TERM; "
                                          "(trap '' TERM; exec sleep 100) & echo $! > @/pid; while :; do wait; done\"]},"
                                          "\"z\":{\"needs\":[\"a\"],\"exec\":[\"true\"]}}}"),
                             "{}");
        pid_t child = wait_for_pid_file(path_of("pid"));
        engine_cancel(fixture.engine, engine_fixture_id(i), 2); /* another fence: not this claim */
        engine_fixture_await_loop(&fixture);
        assert_true(is_alive(child));
        engine_cancel(fixture.engine, engine_fixture_id(i), 1);
        const struct report *end = engine_fixture_expect_end(&fixture, i, END_CANCELLED);
        assert_false(is_alive(child));
        assert_string_equal(end->step.step, "a");
        assert_int_equal(end->step.state, STEP_CANCELLED);
        got_term = access(path_of("term"), F_OK) == 0; /* and the shell went on */
    }
    assert_true(got_term);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "z", -1), 0);
}

static void failed_step_lets_its_siblings_finish_and_starts_nothing_new(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         in_directory("{\"name\":\"t\",\"steps\":{"
                                      "\"bad\":{\"exec\":[\"sh\",\"-c\",\"echo why >&2; exit 7\"]},"
                                      "\"slow\":{\"exec\":[\"sh\",\"-c\",\"until [ -e @/go ]; do sleep 0.01; done\"]},"
                                      "\"long\":{\"sleep\":\"1h\"},"
                                      "\"next\":{\"needs\":[\"slow\"],\"exec\":[\"true\"]}}}"),
                         "{}");
    const struct report *bad = expect_step(1, "bad", STEP_FAILED);
    assert_string_equal(bad->step.error_code, "exit_7");
    assert_string_equal(bad->step.error, "exit code 7: why");
    assert_int_equal(bad->step.exit_code, 7);
    assert_int_equal(bad->step.failures, 1);
    (void)expect_step(1, "long", STEP_CANCELLED);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, engine_fixture_id(1), NULL, -1), 0);
    FILE *go = fopen(path_of("go"), "w");
    (void)fclose(go);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "exit_7");
    assert_string_equal(end->error, "exit code 7: why");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "next", -1), 0);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "slow", STEP_COMPLETED) +
                         (end->has_step && strcmp(end->step.step, "slow") == 0),
                     1);
}

static void skipped_step_counts_as_finished_with_null_as_output(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{"
                         "\"a\":{\"when\":\"${.input.wanted}\",\"exec\":[\"true\"]},"
                         "\"b\":{\"needs\":[\"a\"],\"exec\":[\"cat\"],\"stdin\":[\"${.steps.a.output}\"]}}}",
                         "{\"wanted\":false}");
    (void)expect_step(1, "a", STEP_SKIPPED);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_string_equal(end->step.output, "[null]");
}

static void finished_steps_are_not_run_again_after_a_handover(void **state)
{
    (void)state;
    struct engine_start start = engine_fixture_start_of(
        1,
        in_directory(
            "{\"name\":\"t\",\"steps\":{"
            "\"a\":{\"exec\":[\"touch\",\"@/a-ran\"]},"
            "\"b\":{\"exec\":[\"sh\",\"-c\",\"echo $WEIR_ATTEMPT\"]},"
            "\"w\":{\"sleep\":\"1h\"},"
            "\"c\":{\"needs\":[\"a\",\"b\",\"w\"],\"exec\":[\"echo\",\"${.steps.a.output.x} ${.steps.b.output}\"]}}}"),
        "{}");
    char output[] = "{\"x\":5}";
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0, .output = output, .output_length = 7},
        {.step = "b", .state = STEP_RUNNING, .attempt = 4, .exit_code = -1},
        {.step = "w", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = 1000},
    };
    start.interruptions = 1;
    start.start_number = 2;
    start.steps = records;
    start.step_count = 3;
    engine_fixture_start_with(&fixture, &start);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_string_equal(end->step.output, "\"5 5\"");
    assert_int_equal(access(path_of("a-ran"), F_OK), -1);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "a", -1), 0);
    assert_int_equal(expect_step(1, "b", STEP_RUNNING)->step.attempt, 5);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "w", STEP_WAITING), 0);
}

static void handed_over_execution_with_a_failed_step_ends_as_failed(void **state)
{
    (void)state;
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]},\"s\":{\"sleep\":\"1h\"}}}", "{}");
    char text[] = "it broke";
    struct step_record records[] = {
        {.step = "a", .state = STEP_FAILED, .attempt = 1, .exit_code = 3, .error_code = "exit_3", .error = text},
        {.step = "s", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = 3600000000},
    };
    start.interruptions = 1;
    start.steps = records;
    start.step_count = 2;
    engine_fixture_start_with(&fixture, &start);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "exit_3");
    assert_string_equal(end->error, "it broke");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "s", STEP_CANCELLED) +
                         (end->has_step && end->step.state == STEP_CANCELLED),
                     1);
}

/* A row of the store may have been altered. */
static void counts_out_of_range_on_record_do_not_end_the_node(void **state)
{
    (void)state;
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"false\"]},\"b\":{\"exec\":[\"false\"]}}}", "{}");
    struct step_record records[] = {
        {.step = "a", .state = STEP_RUNNING, .attempt = -5, .failures = -9, .exit_code = -1},
        {.step = "b", .state = STEP_RUNNING, .attempt = INT_MAX, .failures = INT_MAX, .exit_code = -1},
    };
    start.interruptions = INT_MAX;
    start.steps = records;
    start.step_count = 2;
    engine_fixture_start_with(&fixture, &start);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "exit_1");
    assert_int_equal(expect_step(1, "a", STEP_RUNNING)->step.attempt, 1);
}

static void repeated_start_is_answered_and_not_run_again(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    struct engine_start start =
        engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", "{}");
    engine_fixture_start_with(&fixture, &start);
    engine_fixture_start_with(&fixture, &start);
    (void)engine_fixture_expect(&fixture, REPORT_STARTED, 1, NULL, -1, 2);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_RUNNING), 1);
    assert_int_equal(engine_running(fixture.engine), 1);
}

static void later_fence_takes_over_only_after_the_old_process_is_dead(void **state)
{
    (void)state;
    const char *definition = in_directory("{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\","
                                          "\"if [ $WEIR_FENCE = 2 ]; then kill -0 $(cat @/pid) && exit 9; exit 0; fi; "
                                          "echo $$ > @/pid; exec sleep 100\"]}}}");
    struct step_record record = {.step = "a", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct engine_start start = engine_fixture_start_of(1, definition, "{}");
    engine_fixture_start_with(&fixture, &start);
    assert_true(wait_for_pid_file(path_of("pid")) > 0);
    start.fence = 2;
    start.interruptions = 1;
    start.steps = &record;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_int_equal(end->fence, 2);
    assert_int_equal(end->step.attempt, 2);
    start.fence = 1; /* a late start of the old claim */
    engine_fixture_start_with(&fixture, &start);
    engine_fixture_await_loop(&fixture);
}

static void invalid_definition_is_refused_permanently(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exce\":[]}}}", "{}");
    const struct report *refused = engine_fixture_expect(&fixture, REPORT_REFUSED, 1, NULL, -1, 1);
    assert_true(refused->permanent);
    assert_string_equal(refused->error_code, "definition_invalid");
    assert_non_null(strstr(refused->error, "exce"));
    assert_int_equal(engine_running(fixture.engine), 0);
}

static void handler_that_this_node_lacks_refuses_the_start_without_an_attempt(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]},\"b\":{\"needs\":[\"a\"],\"handler\":\"nobody\"}}}", "{}");
    const struct report *refused = engine_fixture_expect(&fixture, REPORT_REFUSED, 1, NULL, -1, 1);
    assert_false(refused->permanent);
    assert_false(refused->spends_start);
    assert_int_equal(refused->delay_us, IN_PROCESS_REFUSAL_DELAY_US);
    assert_string_equal(refused->error_code, "unknown_handler");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, NULL, -1), 0);
}

static void execution_timeout_counts_from_the_first_dispatch(void **state)
{
    (void)state;
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"timeout\":\"1h\",\"steps\":{\"a\":{\"exec\":[\"sleep\",\"100\"]}}}", "{}");
    start.running_for_us = 3600 * MICROSECONDS_PER_SECOND - 50000;
    engine_fixture_start_with(&fixture, &start);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "execution_timeout");
    assert_int_equal(end->step.state, STEP_CANCELLED);
}

static void stopping_node_refuses_starts_and_lets_running_steps_finish(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         in_directory("{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\","
                                      "\"echo $$ > @/pid; until [ -e @/go ]; do sleep 0.01; done\"]}}}"),
                         "{}");
    assert_true(wait_for_pid_file(path_of("pid")) > 0);
    engine_stop(fixture.engine, false);
    assert_int_equal(engine_free_capacity(fixture.engine), 0);
    engine_fixture_start(&fixture, 2, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", "{}");
    const struct report *refused = engine_fixture_expect(&fixture, REPORT_REFUSED, 2, NULL, -1, 1);
    assert_false(refused->spends_start);
    FILE *go = fopen(path_of("go"), "w");
    (void)fclose(go);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

static void interrupted_node_gives_back_after_its_processes_are_dead(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         in_directory("{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\","
                                      "\"echo $$ > @/pid; exec sleep 100\"]},\"s\":{\"sleep\":\"1h\"}}}"),
                         "{}");
    pid_t pid = wait_for_pid_file(path_of("pid"));
    (void)expect_step(1, "s", STEP_WAITING);
    engine_stop(fixture.engine, true);
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 1, NULL, -1, 1);
    assert_false(is_alive(pid));
    engine_fixture_await_loop(&fixture);
    assert_int_equal(engine_running(fixture.engine), 0);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, NULL, STEP_CANCELLED), 0);
}

static void abandoned_executions_end_without_a_report(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         in_directory("{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\","
                                      "\"trap '' TERM; echo $$ > @/pid; while :; do sleep 1; done\"]}}}"),
                         "{}");
    pid_t pid = wait_for_pid_file(path_of("pid"));
    size_t before = fixture.recorder.count;
    engine_abandon(fixture.engine, NULL, 0);
    assert_true(wait_until_dead(pid));
    wait_until_none_runs();
    engine_fixture_await_loop(&fixture);
    assert_int_equal(fixture.recorder.count - before, recorder_count(&fixture.recorder, REPORT_REFUSED, NULL, NULL, -1));
}

static void cancel_before_the_start_runs_no_step(void **state)
{
    (void)state;
    struct engine_start start =
        engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", "{}");
    start.cancel_requested = true;
    engine_fixture_start_with(&fixture, &start);
    (void)engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, NULL, -1), 0);
}

static void result_that_the_store_refuses_fails_the_step(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"x\"]}}}", "{}");
    answer(expect_step(1, "a", STEP_RUNNING), WEIR_OK);
    answer(engine_fixture_expect(&fixture, REPORT_ENDED, 1, NULL, -1, 1), WEIR_INVALID_ARGUMENT);
    const struct report *end = engine_fixture_expect(&fixture, REPORT_ENDED, 1, NULL, -1, 2);
    assert_int_equal(end->end_state, END_FAILED);
    assert_string_equal(end->error_code, "output_refused");
    assert_null(end->step.output);
    answer(end, WEIR_OK);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(engine_running(fixture.engine), 0);
}

static void end_that_the_store_refuses_twice_is_reported_without_the_step(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"x\"]}}}", "{}");
    answer(expect_step(1, "a", STEP_RUNNING), WEIR_OK);
    answer(engine_fixture_expect(&fixture, REPORT_ENDED, 1, NULL, -1, 1), WEIR_INVALID_ARGUMENT);
    answer(engine_fixture_expect(&fixture, REPORT_ENDED, 1, NULL, -1, 2), WEIR_INVALID_ARGUMENT);
    const struct report *end = engine_fixture_expect(&fixture, REPORT_ENDED, 1, NULL, -1, 3);
    assert_false(end->has_step);
    assert_int_equal(end->end_state, END_FAILED);
    assert_string_equal(end->error_code, "output_refused");
    answer(end, WEIR_OK);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(engine_running(fixture.engine), 0);
}

static void answers_that_come_twice_change_nothing(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", "{}");
    const struct report *running = expect_step(1, "a", STEP_RUNNING);
    answer(running, WEIR_OK);
    answer(running, WEIR_OK);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    answer(end, WEIR_OK);
    answer(end, WEIR_OK);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(engine_running(fixture.engine), 0);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, NULL, NULL, -1), 1);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(steps_run_in_the_order_of_their_needs_and_read_earlier_outputs),
        CLAIM(independent_steps_run_at_the_same_time),
        CLAIM(process_starts_only_after_its_attempt_is_durable),
        CLAIM(successor_begins_only_after_the_result_is_durable),
        CLAIM(stale_fence_stops_the_step_without_a_report),
        CLAIM(cancel_sends_term_then_kill_to_the_whole_group),
        CLAIM(failed_step_lets_its_siblings_finish_and_starts_nothing_new),
        CLAIM(skipped_step_counts_as_finished_with_null_as_output),
        CLAIM(finished_steps_are_not_run_again_after_a_handover),
        CLAIM(handed_over_execution_with_a_failed_step_ends_as_failed),
        CLAIM(counts_out_of_range_on_record_do_not_end_the_node),
        CLAIM(repeated_start_is_answered_and_not_run_again),
        CLAIM(later_fence_takes_over_only_after_the_old_process_is_dead),
        CLAIM(invalid_definition_is_refused_permanently),
        CLAIM(handler_that_this_node_lacks_refuses_the_start_without_an_attempt),
        CLAIM(execution_timeout_counts_from_the_first_dispatch),
        CLAIM(stopping_node_refuses_starts_and_lets_running_steps_finish),
        CLAIM(interrupted_node_gives_back_after_its_processes_are_dead),
        CLAIM(abandoned_executions_end_without_a_report),
        CLAIM(cancel_before_the_start_runs_no_step),
        CLAIM(result_that_the_store_refuses_fails_the_step),
        CLAIM(end_that_the_store_refuses_twice_is_reported_without_the_step),
        CLAIM(answers_that_come_twice_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
