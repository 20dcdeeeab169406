/* The steps outside of `steps`: undos, `on_failure`, `finally`; and steps that may fail. On a clock that the test sets. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "support/engine_fixture.h"
#include "support/test.h"

#define BEGIN_US 1000
#define SECOND_US MICROSECONDS_PER_SECOND

static int64_t now_us;
static struct engine_fixture fixture;

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

/* Its output is its input. */
static void echo(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, weir_call_input(call));
}

static void break_down(struct weir_call *call, void *context)
{
    (void)context;
    weir_fail(call, "broken", "it broke");
}

static void again(struct weir_call *call, void *context)
{
    (void)context;
    weir_retry(call, "later", "not yet");
}

static int open_fixture(void **state)
{
    static const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    static const struct weir_handler handlers[] = {
        {"echo", echo, NULL}, {"fail", break_down, NULL}, {"again", again, NULL}};
    (void)state;
    now_us = BEGIN_US;
    engine_fixture_open_stepped(
        &fixture, &(struct in_process_options){
                      .clock = &clock, .park_after_us = 2 * SECOND_US, .handlers = handlers, .handler_count = 3});
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    return 0;
}

static void run_until_idle(void)
{
    for (int i = 0; i < 60; i++) {
        (void)engine_step(fixture.engine);
    }
}

/* The steps in the order in which they became final, as "a+ b- c0 d!": completed, failed, skipped, cancelled. Static. */
static const char *ends(void)
{
    static char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (const struct report *report = fixture.recorder.first; report != NULL; report = report->next) {
        const struct step_record *step = &report->step;
        bool is_end = report->has_step && step_state_is_final(step->state);
        char sign = step->state == STEP_COMPLETED ? '+' : step->state == STEP_FAILED ? '-' : '!';
        if (is_end && used < sizeof text) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%c", used == 0 ? "" : " ", step->step,
                                     step->state == STEP_SKIPPED ? '0' : sign);
        }
    }
    return text;
}

static const char *output_of(const char *step)
{
    for (const struct report *report = fixture.recorder.first; report != NULL; report = report->next) {
        if (report->has_step && strcmp(report->step.step, step) == 0 && report->step.state == STEP_COMPLETED) {
            return report->step.output;
        }
    }
    return "none";
}

static const struct report *run(const char *definition, enum end_state end_state)
{
    engine_fixture_start(&fixture, 1, definition, "{}");
    run_until_idle();
    return engine_fixture_expect_end(&fixture, 1, end_state);
}

/* With these steps on record, as after the death of a node. */
static void take_over(const char *definition, struct step_record *records, size_t count)
{
    struct engine_start start = engine_fixture_start_of(1, definition, "{}");
    start.interruptions = 1;
    start.steps = records;
    start.step_count = count;
    engine_fixture_start_with(&fixture, &start);
    run_until_idle();
}

#define STEPS "{\"name\":\"t\",\"steps\":{"
#define OK(id) "\"" id "\":{\"handler\":\"echo\",\"input\":\"" id "\"}"
#define OK_AFTER(id, needs) "\"" id "\":{\"needs\":[\"" needs "\"],\"handler\":\"echo\",\"input\":\"" id "\"}"
#define OK_UNDO(id, needs)                                                                                                 \
    "\"" id "\":{\"needs\":[" needs "],\"handler\":\"echo\",\"input\":\"" id "\",\"undo\":{\"handler\":\"echo\","          \
    "\"input\":[\"${.steps." id ".output}\",\"${.failure.code}\"]}}"
#define BAD_AFTER(id, needs) "\"" id "\":{\"needs\":[" needs "],\"handler\":\"fail\"}"

/* --- continue_on_error --- */

#define TOLERANT                                                                                                           \
    STEPS "\"a\":{\"handler\":\"fail\",\"continue_on_error\":true},"                                                       \
          "\"b\":{\"needs\":[\"a\"],\"handler\":\"echo\",\"input\":[\"${.steps.a.output}\",\"${.steps.a.error.code}\","    \
          "\"${.steps.a.error.message}\"]}}}"

static void an_execution_goes_on_behind_a_step_that_may_fail(void **state)
{
    (void)state;
    (void)run(TOLERANT, END_COMPLETED);
    assert_string_equal(ends(), "a- b+");
    assert_string_equal(output_of("b"), "[null,\"broken\",\"it broke\"]");
}

static void its_last_step_may_fail_too(void **state)
{
    (void)state;
    const struct report *end = run(STEPS "\"a\":{\"handler\":\"fail\",\"continue_on_error\":true}}}", END_COMPLETED);
    assert_int_equal(end->step.state, STEP_FAILED);
    assert_string_equal(end->error_code, "");
}

static void a_step_that_may_fail_uses_its_attempts_first(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         STEPS "\"a\":{\"handler\":\"again\",\"continue_on_error\":true,\"hold_slot\":true,"
                               "\"retry\":{\"attempts\":2,\"backoff\":\"5s\"}}}}",
                         "{}");
    run_until_idle();
    assert_string_equal(ends(), "");
    now_us += 60 * SECOND_US;
    run_until_idle();
    assert_int_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.attempt, 2);
}

static void the_error_of_a_step_is_null_when_it_has_not_failed(void **state)
{
    (void)state;
    (void)run(STEPS OK("a") ",\"b\":{\"needs\":[\"a\"],\"handler\":\"echo\",\"input\":[\"${.steps.a.error}\"]}}}",
              END_COMPLETED);
    assert_string_equal(output_of("b"), "[null]");
}

static void the_next_node_knows_a_step_that_was_allowed_to_fail(void **state)
{
    (void)state;
    char text[] = "it broke";
    struct step_record records[] = {
        {.step = "a", .state = STEP_FAILED, .attempt = 1, .exit_code = -1, .error_code = "broken", .error = text}};
    take_over(TOLERANT, records, 1);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_string_equal(output_of("b"), "[null,\"broken\",\"it broke\"]");
}

/* --- undo --- */

#define SAGA STEPS OK_UNDO("a", "") "," OK_UNDO("b", "\"a\"") "," OK_UNDO("c", "\"b\"") "," BAD_AFTER("d", "\"c\"") "}"

static void finished_steps_are_undone_in_the_reverse_order_of_their_ends(void **state)
{
    (void)state;
    const struct report *end = run(SAGA "}", END_FAILED);
    assert_string_equal(ends(), "a+ b+ c+ d- c.undo+ b.undo+ a.undo+");
    assert_string_equal(output_of("c.undo"), "[\"c\",\"broken\"]");
    assert_string_equal(end->error_code, "broken");
    assert_string_equal(end->error, "it broke");
}

static void steps_beside_each_other_are_undone_by_their_ends(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         STEPS "\"nap\":{\"sleep\":\"1s\"}," OK_UNDO("slow", "\"nap\"") "," OK_UNDO(
                             "fast", "") ","
                                         "\"wait\":{\"sleep\":\"2s\"}," BAD_AFTER("d", "\"wait\"") "}}",
                         "{}");
    for (int i = 0; i < 4; i++) {
        run_until_idle();
        now_us += SECOND_US;
    }
    (void)engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(ends(), "fast+ nap+ slow+ wait+ d- slow.undo+ fast.undo+");
}

static void only_completed_steps_are_undone(void **state)
{
    (void)state;
    (void)run(
        STEPS OK_UNDO("a", "") ",\"s\":{\"needs\":[\"a\"],\"when\":\"${.input.wanted}\",\"handler\":\"echo\",\"undo\":"
                               "{\"handler\":\"echo\"}},\"f\":{\"needs\":[\"s\"],\"handler\":\"fail\",\"undo\":"
                               "{\"handler\":\"echo\"}}," OK_UNDO("z", "\"f\"") "}}",
        END_FAILED);
    assert_string_equal(ends(), "a+ s0 f- a.undo+");
}

static void nothing_is_undone_when_all_is_well(void **state)
{
    (void)state;
    const struct report *end = run(STEPS OK_UNDO("a", "") "}}", END_COMPLETED);
    assert_string_equal(ends(), "a+");
    assert_true(end->has_step); /* no record more than without an undo */
}

static void an_undo_that_fails_leaves_the_first_error(void **state)
{
    (void)state;
    const struct report *end =
        run(STEPS OK_UNDO("a", "") ",\"b\":{\"needs\":[\"a\"],\"handler\":\"echo\",\"undo\":{\"handler\":\"again\","
                                   "\"retry\":{\"attempts\":1}}}," BAD_AFTER("d", "\"b\"") "}}",
            END_FAILED);
    assert_string_equal(ends(), "a+ b+ d- b.undo- a.undo+");
    assert_string_equal(end->error_code, "broken");
}

static void the_next_node_goes_on_with_the_undos(void **state)
{
    (void)state;
    char text[] = "it broke";
    char a[] = "\"a\"";
    char b[] = "\"b\"";
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .output = a, .output_length = 3, .finished_us = 10},
        {.step = "b", .state = STEP_COMPLETED, .attempt = 1, .output = b, .output_length = 3, .finished_us = 20},
        {.step = "c", .state = STEP_COMPLETED, .attempt = 1, .output = b, .output_length = 3, .finished_us = 30},
        {.step = "c.undo", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 50},
        {.step = "b.undo", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1},
        {.step = "d", .state = STEP_FAILED, .attempt = 1, .error_code = "broken", .error = text, .finished_us = 40},
    };
    take_over(SAGA "}", records, 6);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(ends(), "b.undo+ a.undo+");
    assert_string_equal(output_of("b.undo"), "[\"b\",\"broken\"]");
    assert_string_equal(end->error, "it broke");
    assert_int_equal(recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "b.undo", STEP_COMPLETED, 1)->step.attempt, 2);
}

static void a_step_is_undone_after_those_that_need_it_in_spite_of_the_times(void **state)
{
    (void)state;
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 90}, /* a clock was set back */
        {.step = "b", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 20},
        {.step = "c", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 20},
        {.step = "d", .state = STEP_FAILED, .attempt = 1, .error_code = "broken", .finished_us = 40},
    };
    take_over(SAGA "}", records, 4);
    assert_string_equal(ends(), "c.undo+ b.undo+ a.undo+");
}

/* --- on_failure --- */

#define REPORT_FAILURE                                                                                                     \
    "\"on_failure\":{\"tell\":{\"handler\":\"echo\",\"input\":\"${.failure}\"}," OK_AFTER("then", "tell") "}"

static void steps_of_on_failure_run_after_the_undos_and_read_the_failure(void **state)
{
    (void)state;
    const struct report *end = run(SAGA "," REPORT_FAILURE "}", END_FAILED);
    assert_string_equal(ends(), "a+ b+ c+ d- c.undo+ b.undo+ a.undo+ tell+ then+");
    assert_string_equal(output_of("tell"), "{\"step\":\"d\",\"code\":\"broken\",\"message\":\"it broke\"}");
    assert_string_equal(end->error_code, "broken");
}

static void steps_of_on_failure_do_not_run_without_a_failure(void **state)
{
    (void)state;
    (void)run(STEPS OK("a") "}," REPORT_FAILURE "}", END_COMPLETED);
    assert_string_equal(ends(), "a+");
}

static void a_failed_step_of_on_failure_holds_up_only_those_that_need_it(void **state)
{
    (void)state;
    const struct report *end = run(STEPS BAD_AFTER("a", "") "},\"on_failure\":{\"x\":{\"handler\":\"again\",\"retry\":"
                                                            "{\"attempts\":1}}," OK_AFTER("y", "x") "," OK("z") "}}",
                                   END_FAILED);
    assert_string_equal(ends(), "a- x- z+");
    assert_string_equal(end->error_code, "broken"); /* the first one */
}

static void running_steps_end_before_the_steps_of_on_failure(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, STEPS "\"long\":{\"sleep\":\"1h\"}," BAD_AFTER("a", "") "}," REPORT_FAILURE "}",
                         "{}");
    run_until_idle();
    (void)engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(ends(), "a- long! tell+ then+");
}

static void a_node_that_dies_before_on_failure_is_followed_by_one_that_runs_it(void **state)
{
    (void)state;
    char text[] = "it broke";
    struct step_record records[] = {
        {.step = "a", .state = STEP_CANCELLED, .attempt = 1, .finished_us = 20}, /* stopped beside the failed one */
        {.step = "b", .state = STEP_FAILED, .attempt = 1, .error_code = "second", .finished_us = 30},
        {.step = "c", .state = STEP_FAILED, .attempt = 1, .error_code = "first", .error = text, .finished_us = 10},
    };
    take_over(STEPS "\"a\":{\"sleep\":\"1h\"}," OK("b") "," OK("c") "}," REPORT_FAILURE "}", records, 3);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(ends(), "tell+ then+");
    assert_string_equal(output_of("tell"), "{\"step\":\"c\",\"code\":\"first\",\"message\":\"it broke\"}");
    assert_string_equal(end->error_code, "first");
}

/* --- finally --- */

#define CLEAN "\"finally\":{\"clean\":{\"handler\":\"echo\",\"input\":[\"${.failure}\",\"${.steps.a.output}\"]}}"

static void steps_of_finally_run_at_the_end_of_a_success(void **state)
{
    (void)state;
    (void)run(STEPS OK("a") "}," REPORT_FAILURE "," CLEAN "}", END_COMPLETED);
    assert_string_equal(ends(), "a+ clean+");
    assert_string_equal(output_of("clean"), "[null,\"a\"]");
}

static void and_at_the_end_of_a_failure(void **state)
{
    (void)state;
    (void)run(STEPS BAD_AFTER("a", "") "}," REPORT_FAILURE "," CLEAN "}", END_FAILED);
    assert_string_equal(ends(), "a- tell+ then+ clean+");
    assert_string_equal(output_of("clean"), "[{\"step\":\"a\",\"code\":\"broken\",\"message\":\"it broke\"},null]");
}

static void a_failed_step_of_finally_fails_a_success_and_undoes_nothing(void **state)
{
    (void)state;
    const struct report *end = run(
        STEPS OK_UNDO("a", "") "}," REPORT_FAILURE ",\"finally\":{\"x\":{\"handler\":\"fail\"}," OK("y") "}}", END_FAILED);
    assert_string_equal(ends(), "a+ x- y+");
    assert_string_equal(end->error_code, "broken");
    assert_string_equal(end->error, "it broke");
}

static void a_step_of_finally_may_be_allowed_to_fail(void **state)
{
    (void)state;
    (void)run(
        STEPS OK("a") "},\"finally\":{\"x\":{\"handler\":\"fail\",\"continue_on_error\":true}," OK_AFTER("y", "x") "}}",
        END_COMPLETED);
    assert_string_equal(ends(), "a+ x- y+");
}

static void the_next_node_keeps_the_failure_of_a_step_of_finally(void **state)
{
    (void)state;
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 20},
        {.step = "x", .state = STEP_FAILED, .attempt = 1, .error_code = "gone", .finished_us = 30},
    };
    take_over(STEPS OK("a") "}," REPORT_FAILURE ",\"finally\":{\"x\":{\"handler\":\"fail\"}," OK("y") "}}", records, 2);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "gone");
    assert_string_equal(ends(), "y+");
}

static void a_sleep_in_finally_parks_and_wakes(void **state)
{
    (void)state;
    const char *definition =
        STEPS BAD_AFTER("a", "") "},\"finally\":{\"nap\":{\"sleep\":\"1h\"}," OK_AFTER("y", "nap") "}}";
    engine_fixture_start(&fixture, 1, definition, "{}");
    run_until_idle();
    (void)engine_fixture_expect(&fixture, REPORT_PARKED, 1, NULL, -1, 1);
    struct step_record records[] = {
        {.step = "a", .state = STEP_FAILED, .attempt = 1, .error_code = "broken", .finished_us = 30},
        {.step = "nap", .state = STEP_WAITING, .attempt = 1, .due_in_us = 0},
    };
    struct engine_start start = engine_fixture_start_of(2, definition, "{}");
    start.steps = records;
    start.step_count = 2;
    engine_fixture_start_with(&fixture, &start);
    run_until_idle();
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_FAILED)->error_code, "broken");
    assert_string_equal(ends(), "a- nap+ y+");
}

/* An execution is stuck only while a step does something. */
static void steps_of_later_stages_do_not_end_the_sleep_of_an_execution(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        STEPS "\"nap\":{\"sleep\":\"1h\",\"hold_slot\":true}," OK_UNDO("a", "") "}," REPORT_FAILURE "," CLEAN "}", "{}");
    run_until_idle();
    const struct report *waits = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "nap", STEP_WAITING, 1);
    const struct report *done = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_COMPLETED, 1);
    assert_true((waits->sleeps_us > 3000 * SECOND_US) + (done->sleeps_us > 3000 * SECOND_US) >= 1);
    now_us += 3600 * SECOND_US;
    run_until_idle();
    const struct report *woke = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "nap", STEP_COMPLETED, 1);
    assert_true(woke->sleeps_us == 0); /* `clean` begins with this end */
}

/* --- the execution's timeout, a cancel, a stop of the node --- */

#define TIMED                                                                                                              \
    "{\"name\":\"t\",\"timeout\":\"10s\",\"hold_slot\":true,\"steps\":{" OK_UNDO("a", "") ",\"long\":{\"sleep\":\"1h\"}},"

static void a_timeout_of_the_execution_is_a_failure(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, TIMED REPORT_FAILURE "," CLEAN "}", "{}");
    run_until_idle();
    now_us += 11 * SECOND_US;
    run_until_idle();
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(ends(), "a+ long! a.undo+ tell+ then+ clean+");
    assert_string_equal(output_of("tell"), "{\"step\":null,\"code\":\"execution_timeout\",\"message\":"
                                           "\"the execution took longer than its timeout\"}");
    assert_string_equal(end->error_code, "execution_timeout");
}

static void the_timeout_does_not_end_what_runs_after_a_failure(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"timeout\":\"10s\",\"hold_slot\":true,\"steps\":{" BAD_AFTER(
                             "a", "") "},\"finally\":{\"nap\":{\"sleep\":\"1m\"}}}",
                         "{}");
    run_until_idle();
    now_us += 11 * SECOND_US;
    run_until_idle();
    assert_string_equal(ends(), "a-");
    now_us += 60 * SECOND_US;
    run_until_idle();
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "broken");
    assert_string_equal(ends(), "a- nap+");
}

static void the_timeout_does_not_end_a_park_after_a_failure(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"timeout\":\"10s\",\"steps\":{" BAD_AFTER("a", "") "},\"finally\":{\"nap\":{\"sleep\":\"1h\"}}}",
        "{}");
    run_until_idle();
    const struct report *parked = engine_fixture_expect(&fixture, REPORT_PARKED, 1, NULL, -1, 1);
    assert_true(parked->delay_us > 3000 * SECOND_US);
}

/* The failure is on record, so the next node would find it. */
static void a_timeout_after_a_failure_does_not_replace_it(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"timeout\":\"10s\",\"hold_slot\":true,\"steps\":{"
                         "\"long\":{\"sleep\":\"1h\"}," BAD_AFTER("a", "") "}," REPORT_FAILURE "}",
                         "{}");
    run_until_idle();
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "long", STEP_WAITING, 1),
                    WEIR_OK);
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_FAILED, 1), WEIR_OK);
    run_until_idle();
    const struct report *stopped = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "long", STEP_CANCELLED, 1);
    now_us += 11 * SECOND_US;
    run_until_idle();
    fixture.recorder.is_manual = false;
    recorder_answer(&fixture.recorder, stopped, WEIR_OK);
    run_until_idle();
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "broken");
    assert_string_equal(output_of("tell"), "{\"step\":\"a\",\"code\":\"broken\",\"message\":\"it broke\"}");
}

static void the_next_node_goes_on_after_a_timeout(void **state)
{
    (void)state;
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 10},
        {.step = "long", .state = STEP_CANCELLED, .attempt = 1, .finished_us = 20},
        {.step = "a.undo", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 30},
    };
    struct engine_start start = engine_fixture_start_of(1, TIMED REPORT_FAILURE "}", "{}");
    start.interruptions = 1;
    start.running_for_us = 12 * SECOND_US;
    start.steps = records;
    start.step_count = 3;
    engine_fixture_start_with(&fixture, &start);
    run_until_idle();
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "execution_timeout");
    assert_string_equal(ends(), "tell+ then+");
}

/* Past the timeout of the execution. */
static void take_over_late(const char *definition, struct step_record *records, size_t count)
{
    struct engine_start start = engine_fixture_start_of(1, definition, "{}");
    start.interruptions = 1;
    start.running_for_us = 12 * SECOND_US;
    start.steps = records;
    start.step_count = count;
    engine_fixture_start_with(&fixture, &start);
    run_until_idle();
}

#define NAP_THEN_TELL "\"on_failure\":{\"nap\":{\"sleep\":\"5s\"}," OK_AFTER("tell", "nap") "}"

static void an_undo_on_record_shows_that_the_execution_has_failed(void **state)
{
    (void)state;
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 10},
        {.step = "a.undo", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 30},
        {.step = "nap", .state = STEP_WAITING, .attempt = 1, .due_in_us = 0},
    };
    take_over_late("{\"name\":\"t\",\"timeout\":\"10s\",\"steps\":{" OK_UNDO("a", "") "}," NAP_THEN_TELL "}", records, 3);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "execution_timeout");
    assert_string_equal(ends(), "nap+ tell+");
}

static void no_step_begins_after_an_undo_on_record(void **state)
{
    (void)state;
    struct step_record records[] = {
        {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 10},
        {.step = "a.undo", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 30},
        {.step = "nap", .state = STEP_WAITING, .attempt = 1, .due_in_us = 0},
    };
    take_over_late(
        "{\"name\":\"t\",\"timeout\":\"10s\",\"steps\":{" OK_UNDO("a", "") "," OK_AFTER("b", "a") "}," NAP_THEN_TELL "}",
        records, 3);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "execution_timeout");
    assert_string_equal(ends(), "b! nap+ tell+");
    for (const struct report *report = fixture.recorder.first; report != NULL; report = report->next) {
        assert_false(report->has_step && strcmp(report->step.step, "b") == 0 && report->step.state == STEP_RUNNING);
    }
}

/* Without a timeout only a result that the store refused leaves no failed step. */
static void a_step_of_on_failure_on_record_shows_a_failure_without_a_timeout(void **state)
{
    (void)state;
    struct step_record records[] = {{.step = "tell", .state = STEP_COMPLETED, .attempt = 1, .finished_us = 30}};
    take_over(STEPS OK("a") "}," REPORT_FAILURE "}", records, 1);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "output_refused");
    assert_string_equal(ends(), "then+");
}

/* The step that runs at the timeout completes all the same, and its record is the last one of `steps`. */
static void time_out_beside_the_end_of_a(const char *definition)
{
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, definition, "{}");
    run_until_idle();
    const struct report *done = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_COMPLETED, 1);
    now_us += 11 * SECOND_US;
    run_until_idle();
    fixture.recorder.is_manual = false;
    recorder_answer(&fixture.recorder, done, WEIR_OK);
    run_until_idle();
}

static void a_timeout_after_the_last_step_is_no_failure(void **state)
{
    (void)state;
    time_out_beside_the_end_of_a("{\"name\":\"t\",\"timeout\":\"10s\",\"hold_slot\":true,\"steps\":{" OK_UNDO(
        "a", "") "}," REPORT_FAILURE "," CLEAN "}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->error_code, "");
    assert_string_equal(ends(), "a+ clean+");
    assert_string_equal(output_of("clean"), "[null,\"a\"]");
}

/* So that the next node finds the timeout, also without a record of the later stages. */
static void a_timeout_that_stopped_no_step_is_put_on_record(void **state)
{
    (void)state;
    time_out_beside_the_end_of_a("{\"name\":\"t\",\"timeout\":\"10s\",\"hold_slot\":true,\"steps\":{" OK_UNDO(
        "a", "") "," OK_AFTER("b", "a") "," OK_AFTER("c", "b") "}," REPORT_FAILURE "," CLEAN "}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "execution_timeout");
    assert_string_equal(ends(), "a+ b! a.undo+ tell+ then+ clean+");
}

static void a_node_that_stops_begins_no_stage_after_a_timeout(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, TIMED REPORT_FAILURE "," CLEAN "}", "{}");
    run_until_idle();
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_COMPLETED, 1),
                    WEIR_OK);
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "long", STEP_WAITING, 1),
                    WEIR_OK);
    run_until_idle();
    now_us += 11 * SECOND_US;
    run_until_idle();
    const struct report *stopped = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "long", STEP_CANCELLED, 1);
    engine_stop(fixture.engine, true);
    run_until_idle();
    fixture.recorder.is_manual = false;
    recorder_answer(&fixture.recorder, stopped, WEIR_OK);
    run_until_idle();
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 1, NULL, -1, 1);
    assert_string_equal(ends(), "a+ long!");
}

/* Its output never came, so an undo could only guess what there is to undo. */
static void a_step_that_ran_on_a_dead_node_beside_a_failed_one_is_not_undone(void **state)
{
    (void)state;
    struct step_record records[] = {
        {.step = "a", .state = STEP_FAILED, .attempt = 1, .error_code = "broken", .finished_us = 10},
        {.step = "b", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1},
    };
    take_over(STEPS BAD_AFTER("a", "") "," OK_UNDO("b", "") "}," REPORT_FAILURE "}", records, 2);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "broken");
    assert_string_equal(ends(), "b! tell+ then+");
}

/* An execution only sleeps, although other steps never run or run after the sleep. */
static void an_execution_that_only_sleeps_says_so_at_its_takeover(void **state)
{
    static const char failing[] = STEPS BAD_AFTER("a", "") "," OK_UNDO(
        "z", "\"a\"") "},\"on_failure\":{\"nap\":{\"sleep\":\"1h\",\"hold_slot\":true}," OK_AFTER("tell", "nap") "}," CLEAN
                                                                                                                 "}";
    static const char succeeding[] =
        STEPS OK_UNDO("a", "") "}," REPORT_FAILURE ",\"finally\":{\"nap\":{\"sleep\":\"1h\",\"hold_slot\":true}}}";
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct step_record records[] = {
            {.step = "a", .state = i == 0 ? STEP_FAILED : STEP_COMPLETED, .attempt = 1, .finished_us = 10},
            {.step = "nap", .state = STEP_WAITING, .attempt = 1, .due_in_us = 3600 * SECOND_US},
        };
        struct engine_start start = engine_fixture_start_of(i + 1, i == 0 ? failing : succeeding, "{}");
        start.interruptions = 1;
        start.steps = records;
        start.step_count = 2;
        engine_fixture_start_with(&fixture, &start);
        run_until_idle();
        const struct report *started = engine_fixture_expect(&fixture, REPORT_STARTED, i + 1, NULL, -1, 1);
        assert_true(started->sleeps_us > 3000 * SECOND_US && started->sleeps_us < 4000 * SECOND_US);
    }
}

static void a_cancel_runs_none_of_them(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, TIMED REPORT_FAILURE "," CLEAN "}", "{}");
    run_until_idle();
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    run_until_idle();
    (void)engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
    assert_string_equal(ends(), "a+ long!");
}

static void a_cancel_ends_what_runs_after_a_failure(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{" BAD_AFTER(
                             "a", "") "},\"on_failure\":{\"nap\":{\"sleep\":\"1m\"}}," CLEAN "}",
                         "{}");
    run_until_idle();
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    run_until_idle();
    (void)engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
    assert_string_equal(ends(), "a- nap!");
}

static void a_node_that_stops_gives_back_what_runs_after_a_failure(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{" BAD_AFTER("a", "") "},\"finally\":{\"nap\":{\"sleep\":\"1m\"}}}",
        "{}");
    run_until_idle();
    engine_stop(fixture.engine, true);
    run_until_idle();
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 1, NULL, -1, 1);
    assert_string_equal(ends(), "a-");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_execution_goes_on_behind_a_step_that_may_fail),
        TEST(its_last_step_may_fail_too),
        TEST(a_step_that_may_fail_uses_its_attempts_first),
        TEST(the_error_of_a_step_is_null_when_it_has_not_failed),
        TEST(the_next_node_knows_a_step_that_was_allowed_to_fail),
        TEST(finished_steps_are_undone_in_the_reverse_order_of_their_ends),
        TEST(steps_beside_each_other_are_undone_by_their_ends),
        TEST(only_completed_steps_are_undone),
        TEST(nothing_is_undone_when_all_is_well),
        TEST(an_undo_that_fails_leaves_the_first_error),
        TEST(the_next_node_goes_on_with_the_undos),
        TEST(a_step_is_undone_after_those_that_need_it_in_spite_of_the_times),
        TEST(steps_of_on_failure_run_after_the_undos_and_read_the_failure),
        TEST(steps_of_on_failure_do_not_run_without_a_failure),
        TEST(a_failed_step_of_on_failure_holds_up_only_those_that_need_it),
        TEST(running_steps_end_before_the_steps_of_on_failure),
        TEST(a_node_that_dies_before_on_failure_is_followed_by_one_that_runs_it),
        TEST(steps_of_finally_run_at_the_end_of_a_success),
        TEST(and_at_the_end_of_a_failure),
        TEST(a_failed_step_of_finally_fails_a_success_and_undoes_nothing),
        TEST(a_step_of_finally_may_be_allowed_to_fail),
        TEST(the_next_node_keeps_the_failure_of_a_step_of_finally),
        TEST(a_sleep_in_finally_parks_and_wakes),
        TEST(steps_of_later_stages_do_not_end_the_sleep_of_an_execution),
        TEST(a_timeout_of_the_execution_is_a_failure),
        TEST(the_timeout_does_not_end_what_runs_after_a_failure),
        TEST(the_timeout_does_not_end_a_park_after_a_failure),
        TEST(a_timeout_after_a_failure_does_not_replace_it),
        TEST(the_next_node_goes_on_after_a_timeout),
        TEST(an_undo_on_record_shows_that_the_execution_has_failed),
        TEST(no_step_begins_after_an_undo_on_record),
        TEST(a_step_of_on_failure_on_record_shows_a_failure_without_a_timeout),
        TEST(a_timeout_after_the_last_step_is_no_failure),
        TEST(a_timeout_that_stopped_no_step_is_put_on_record),
        TEST(a_node_that_stops_begins_no_stage_after_a_timeout),
        TEST(a_step_that_ran_on_a_dead_node_beside_a_failed_one_is_not_undone),
        TEST(an_execution_that_only_sleeps_says_so_at_its_takeover),
        TEST(a_cancel_runs_none_of_them),
        TEST(a_cancel_ends_what_runs_after_a_failure),
        TEST(a_node_that_stops_gives_back_what_runs_after_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
