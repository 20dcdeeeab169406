/* Steps that wait for a signal: what ends the wait, and which signals are kept. On a clock that the test sets. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/in_process/step_report.h"
#include "support/engine_fixture.h"
#include "support/failing_memory.h"
#include "support/test.h"

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)
#define BEGIN_US 1000

/* The slot is kept, so that a signal meets the step in its node. */
#define HELD "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{"
#define ASK "\"ask\":{\"signal\":{\"name\":\"approved\",\"timeout\":\"1h\"}}"

static int64_t now_us;
static struct engine_fixture fixture;

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static void echo(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, weir_call_input(call));
}

static void fail_once(struct weir_call *call, void *context)
{
    (void)context;
    if (weir_call_attempt(call) == 1) {
        weir_retry(call, "busy", "not now");
    } else {
        weir_done(call, "7");
    }
}

static int open_fixture(void **state)
{
    static const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    static const struct weir_handler handlers[] = {{"echo", echo, NULL}, {"fail_once", fail_once, NULL}};
    (void)state;
    now_us = BEGIN_US;
    engine_fixture_open_stepped(&fixture,
                                &(struct in_process_options){.clock = &clock, .handlers = handlers, .handler_count = 2});
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    return 0;
}

static int64_t run_until_idle(void)
{
    int64_t next_us = 0;
    for (int i = 0; i < 20; i++) {
        next_us = engine_step(fixture.engine);
    }
    return next_us;
}

static size_t count_of(enum report_kind kind)
{
    return recorder_count(&fixture.recorder, kind, NULL, NULL, -1);
}

static void send_signal(int number, int64_t seq, const char *name, const char *data)
{
    struct signal_record signal = {.seq = seq, .data = data, .data_length = strlen(data)};
    text_copy(signal.name, sizeof signal.name, name);
    engine_signal(fixture.engine, engine_fixture_id(number), 1, &signal);
}

/* The report of the end of a step, perhaps together with that of the execution. */
static const struct report *ended(const char *step, enum step_state state)
{
    bool is_last = recorder_count(&fixture.recorder, REPORT_ENDED, NULL, step, (int)state) > 0;
    return recorder_wait(&fixture.recorder, is_last ? REPORT_ENDED : REPORT_STEP, NULL, step, (int)state, 1);
}

static void assert_consumed(const char *step, int64_t seq, const char *output)
{
    const struct report *report = ended(step, STEP_COMPLETED);
    assert_int_equal(report->step.signal_seq, seq);
    assert_string_equal(report->step.output, output);
    assert_int_equal(report->step.output_length, strlen(output));
    assert_string_equal(report->step.signal, "");
}

static void a_signal_ends_the_step_with_its_data(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK "}}", "{}");
    assert_true(run_until_idle() == BEGIN_US + HOUR_US);
    const struct report *waits = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "ask", STEP_WAITING, 1);
    assert_string_equal(waits->step.signal, "approved");
    assert_true(waits->step.due_in_us == HOUR_US);
    assert_int_equal(waits->step.signal_seq, 0);
    send_signal(1, 1, "approved", "{\"by\":\"eve\"}");
    (void)run_until_idle();
    assert_consumed("ask", 1, "{\"by\":\"eve\"}");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

static void a_later_step_reads_the_data(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1, HELD ASK ",\"e\":{\"needs\":[\"ask\"],\"handler\":\"echo\",\"input\":\"${.steps.ask.output.by}\"}}}",
        "{}");
    (void)run_until_idle();
    send_signal(1, 1, "approved", "{\"by\":\"eve\"}");
    (void)run_until_idle();
    assert_string_equal(ended("e", STEP_COMPLETED)->step.output, "\"eve\"");
}

static void a_signal_before_the_step_is_kept(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD "\"nap\":{\"sleep\":\"1s\"},\"ask\":{\"needs\":[\"nap\"],\"signal\":\"go\"}}}",
                         "{}");
    (void)run_until_idle();
    send_signal(1, 1, "go", "1");
    send_signal(1, 2, "go", "2");
    (void)run_until_idle();
    now_us += MICROSECONDS_PER_SECOND;
    (void)run_until_idle();
    assert_consumed("ask", 1, "1");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "ask", STEP_WAITING), 0);
}

static void one_that_comes_while_the_wait_is_recorded_is_kept(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK "}}", "{}");
    fixture.recorder.is_manual = true;
    (void)run_until_idle();
    send_signal(1, 1, "approved", "1");
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_ENDED), 0);
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "ask", STEP_WAITING, 1),
                    WEIR_OK);
    (void)run_until_idle();
    assert_consumed("ask", 1, "1");
}

static void the_timeout_fails_the_step(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK "}}", "{}");
    (void)run_until_idle();
    now_us += HOUR_US;
    (void)run_until_idle();
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "signal_timeout");
    assert_string_equal(end->step.error_code, "signal_timeout");
    assert_non_null(strstr(end->error, "\"approved\""));
    assert_int_equal(end->step.signal_seq, 0);
}

static void the_timeout_gives_the_default(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         HELD
                         "\"ask\":{\"signal\":{\"name\":\"approved\",\"timeout\":\"1h\",\"default\":{\"by\":\"clock\"}}},"
                         "\"e\":{\"needs\":[\"ask\"],\"handler\":\"echo\",\"input\":\"${.steps.ask.output.by}\"}}}",
                         "{}");
    (void)run_until_idle();
    now_us += HOUR_US;
    (void)run_until_idle();
    assert_consumed("ask", 0, "{\"by\":\"clock\"}");
    assert_string_equal(ended("e", STEP_COMPLETED)->step.output, "\"clock\"");
}

/* In one turn of the loop the signal is a command and the timeout a timer: one of both ends the wait, and only one. */
static void a_signal_at_the_time_of_the_timeout_ends_it_once(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK ",\"nap\":{\"sleep\":\"2h\"}}}", "{}");
    (void)run_until_idle();
    now_us += HOUR_US;
    send_signal(1, 1, "approved", "1");
    (void)run_until_idle();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "ask", STEP_COMPLETED) +
                         recorder_count(&fixture.recorder, REPORT_STEP, NULL, "ask", STEP_FAILED),
                     1);
    assert_consumed("ask", 1, "1");
}

static void a_signal_after_the_timeout_is_consumed_by_nothing(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK "}}", "{}");
    fixture.recorder.is_manual = true;
    (void)run_until_idle();
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "ask", STEP_WAITING, 1),
                    WEIR_OK);
    (void)run_until_idle();
    now_us += HOUR_US;
    (void)run_until_idle(); /* the end is with the recorder */
    send_signal(1, 1, "approved", "1");
    (void)run_until_idle();
    const struct report *end = recorder_wait(&fixture.recorder, REPORT_ENDED, NULL, "ask", STEP_FAILED, 1);
    assert_int_equal(count_of(REPORT_ENDED), 1);
    assert_int_equal(end->step.signal_seq, 0);
    recorder_answer(&fixture.recorder, end, WEIR_OK);
    (void)run_until_idle();
    assert_int_equal(engine_running(fixture.engine), 0);
}

/* Each signal goes to one step: the first of the definition that waits. */
static void two_steps_that_wait_for_one_name_get_one_each(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD "\"first\":{\"signal\":\"go\"},\"second\":{\"signal\":\"go\"}}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "other", "0");
    send_signal(1, 2, "go", "1");
    (void)run_until_idle();
    assert_consumed("first", 2, "1");
    assert_int_equal(count_of(REPORT_ENDED), 0);
    assert_int_equal(engine_running(fixture.engine), 1);
    send_signal(1, 3, "go", "2");
    (void)run_until_idle();
    assert_consumed("second", 3, "2");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

static void a_signal_that_comes_twice_counts_once(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD "\"first\":{\"signal\":\"go\"},\"second\":{\"signal\":\"go\"}}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "go", "1");
    send_signal(1, 1, "go", "1");
    (void)run_until_idle();
    send_signal(1, 1, "go", "1");
    (void)run_until_idle();
    assert_consumed("first", 1, "1");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "second", STEP_COMPLETED), 0);
    assert_int_equal(count_of(REPORT_ENDED), 0);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    (void)run_until_idle();
    (void)engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
}

static void one_for_an_execution_that_has_left_has_no_effect(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK "}}", "{}");
    (void)run_until_idle();
    struct signal_record stale = {.seq = 1, .name = "approved", .data = "1", .data_length = 1};
    engine_signal(fixture.engine, engine_fixture_id(1), 2, &stale); /* another fence */
    engine_signal(fixture.engine, engine_fixture_id(9), 1, &stale);
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_ENDED), 0);
    engine_signal(fixture.engine, engine_fixture_id(1), 1, &stale); /* not carried out before the close */
}

static void an_execution_that_waits_for_a_signal_is_parked(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"ask\":{\"signal\":\"go\"}}}", "{}");
    assert_true(run_until_idle() == TIME_NEVER);
    const struct report *parked = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, "ask", STEP_WAITING, 1);
    assert_true(parked->step.due_in_us == TIME_NEVER);
    assert_true(parked->delay_us == TIME_NEVER);
    assert_int_equal(parked->waiting_for, WAIT_SIGNAL);
    assert_int_equal(parked->signals_seen, 0);
    assert_int_equal(engine_running(fixture.engine), 0);
}

/* A person must act for the signal, however soon the sleep ends. */
static void the_park_names_the_signal_and_the_first_time(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"nap\":{\"sleep\":\"30m\"}," ASK "}}", "{}");
    struct signal_record other = {.seq = 7, .name = "other", .data = "1", .data_length = 1};
    engine_signal(fixture.engine, engine_fixture_id(1), 1, &other);
    (void)run_until_idle();
    const struct report *parked = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_true(parked->delay_us == HOUR_US / 2);
    assert_int_equal(parked->waiting_for, WAIT_SIGNAL);
    assert_int_equal(parked->signals_seen, 7);
}

/* The record that the next claim finds. */
static struct engine_start restart(struct step_record *step, const struct signal_record *signals, size_t count)
{
    struct engine_start start = engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{" ASK "}}", "{}");
    *step = (struct step_record){
        .step = "ask", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .signal = "approved", .due_in_us = HOUR_US};
    start.steps = step;
    start.step_count = 1;
    start.signals = signals;
    start.signal_count = count;
    start.signals_seen = count > 0 ? signals[count - 1].seq : 0;
    return start;
}

static void the_next_claim_brings_the_signal(void **state)
{
    (void)state;
    static const struct signal_record signals[] = {{.seq = 2, .name = "other", .data = "0", .data_length = 1},
                                                   {.seq = 4, .name = "approved", .data = "1", .data_length = 1},
                                                   {.seq = 5, .name = "approved", .data = "2", .data_length = 1}};
    struct step_record step;
    struct engine_start start = restart(&step, signals, 3);
    step.due_in_us = 0; /* a signal that was sent before this claim wins over a timeout that passed meanwhile */
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_consumed("ask", 4, "1");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

/* The transaction of the signal ended the step, so nothing is recorded before the next one begins. */
static void the_next_claim_goes_on_behind_an_ended_wait(void **state)
{
    (void)state;
    char output[] = "{\"by\":\"eve\"}";
    struct step_record step = {.step = "ask",
                               .state = STEP_COMPLETED,
                               .attempt = 1,
                               .exit_code = -1,
                               .finished_us = 7,
                               .output = output,
                               .output_length = sizeof output - 1};
    struct engine_start start = engine_fixture_start_of(
        1, HELD ASK ",\"e\":{\"needs\":[\"ask\"],\"handler\":\"echo\",\"input\":\"${.steps.ask.output.by}\"}}}", "{}");
    start.steps = &step;
    start.step_count = 1;
    start.signals_seen = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_STEP), 0);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_string_equal(end->step.step, "e");
    assert_string_equal(end->step.output, "\"eve\"");
    step.output = output;
    start = engine_fixture_start_of(2, HELD ASK "}}", "{}"); /* it was the last one */
    start.steps = &step;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_false(engine_fixture_expect_end(&fixture, 2, END_COMPLETED)->has_step);
}

/* The time of the execution is over as well: the signal is used, and nothing begins behind it. */
static void a_signal_is_used_when_the_time_of_the_execution_is_over(void **state)
{
    (void)state;
    static const struct signal_record early = {.seq = 4, .name = "approved", .data = "1", .data_length = 1};
    struct step_record step = {.step = "ask", .state = STEP_WAITING, .attempt = 1, .exit_code = -1};
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"timeout\":\"1h\",\"steps\":{" ASK ",\"e\":{\"needs\":[\"ask\"],\"handler\":\"echo\"}}}",
        "{}");
    start.steps = &step;
    start.step_count = 1;
    start.signals = &early;
    start.signal_count = 1;
    start.running_for_us = HOUR_US;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_consumed("ask", 4, "1");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "e", -1), 0);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "execution_timeout");
}

static void the_next_claim_waits_for_the_rest_of_the_time(void **state)
{
    (void)state;
    struct step_record step;
    struct engine_start start = restart(&step, NULL, 0);
    step.due_in_us = HOUR_US / 4;
    start.signals_seen = 3; /* consumed ones */
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    const struct report *parked = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_true(parked->delay_us == HOUR_US / 4);
    assert_int_equal(parked->signals_seen, 3);
}

static void unreadable_data_fails_the_step(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        HELD ASK
        ",\"pay\":{\"needs\":[\"ask\"],\"when\":\"${.steps.ask.output.by != \\\"nobody\\\"}\",\"handler\":\"echo\"}}}",
        "{}");
    (void)run_until_idle();
    send_signal(1, 1, "approved", "{\"by\":\"nobody\",\"n\":9223372036854775808}");
    (void)run_until_idle();
    assert_int_equal(ended("ask", STEP_FAILED)->step.signal_seq, 1);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "signal_invalid");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "pay", -1), 0);
}

static void an_unreadable_output_on_record_fails_the_execution(void **state)
{
    (void)state;
    struct step_record step = {
        .step = "ask", .state = STEP_COMPLETED, .attempt = 1, .output = "{\"by\":", .output_length = 6};
    struct engine_start start = engine_fixture_start_of(
        1, HELD ASK ",\"pay\":{\"needs\":[\"ask\"],\"handler\":\"echo\",\"input\":\"${.steps.ask.output}\"}}}", "{}");
    start.steps = &step;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "output_invalid");
}

/* For the watch of stuck executions: the time until something happens, if nothing happens now. */
static void reports_tell_for_how_long_all_steps_sleep(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         HELD "\"nap\":{\"sleep\":\"1h\",\"hold_slot\":true}," ASK
                              ",\"other\":{\"signal\":\"other\",\"hold_slot\":true}}}",
                         "{}");
    (void)run_until_idle();
    send_signal(1, 1, "approved", "1");
    (void)run_until_idle();
    assert_true(ended("ask", STEP_COMPLETED)->sleeps_us == HOUR_US);
    engine_fixture_start(&fixture, 2, HELD "\"wait\":{\"signal\":\"go\"},\"work\":{\"handler\":\"echo\"}}}", "{}");
    (void)run_until_idle();
    assert_int_equal(recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "wait", STEP_WAITING, 1)->sleeps_us, 0);
    assert_true(ended("work", STEP_COMPLETED)->sleeps_us == TIME_NEVER);
}

static void the_next_claim_tells_for_how_long_all_steps_sleep(void **state)
{
    (void)state;
    struct step_record step;
    struct engine_start start = restart(&step, NULL, 0);
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_true(recorder_wait(&fixture.recorder, REPORT_STARTED, NULL, NULL, -1, 1)->sleeps_us == HOUR_US);
}

static void a_skipped_step_consumes_nothing(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         HELD "\"a\":{\"when\":\"${.input.wanted}\",\"signal\":\"go\"},\"b\":{\"signal\":\"go\"}}}",
                         "{\"wanted\":false}");
    (void)run_until_idle();
    send_signal(1, 1, "go", "1");
    (void)run_until_idle();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_SKIPPED), 1);
    assert_consumed("b", 1, "1");
}

/* --- wakes --- */

#define NAP "\"nap\":{\"sleep\":\"1h\"}"

static void a_wake_finishes_a_sleep_early(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         HELD NAP ",\"e\":{\"needs\":[\"nap\"],\"handler\":\"echo\",\"input\":\"${.steps.nap.output}\"}}}",
                         "{}");
    assert_true(run_until_idle() == BEGIN_US + HOUR_US);
    send_signal(1, 1, "wake:other", "1");
    send_signal(1, 2, "wake:nap", "1");
    (void)run_until_idle();
    assert_consumed("nap", 2, "{\"woken\":true}");
    assert_string_equal(ended("e", STEP_COMPLETED)->step.output, "{\"woken\":true}");
}

static void a_sleep_that_ends_by_itself_has_no_output(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD NAP "}}", "{}");
    (void)run_until_idle();
    now_us += HOUR_US;
    (void)run_until_idle();
    const struct report *report = ended("nap", STEP_COMPLETED);
    assert_int_equal(report->step.signal_seq, 0);
    assert_null(report->step.output);
}

static void a_wake_that_comes_while_the_wait_is_recorded_is_kept(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD NAP "}}", "{}");
    fixture.recorder.is_manual = true;
    (void)run_until_idle();
    send_signal(1, 1, "wake:nap", "1");
    (void)run_until_idle();
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "nap", STEP_WAITING, 1),
                    WEIR_OK);
    (void)run_until_idle();
    assert_consumed("nap", 1, "{\"woken\":true}");
}

static void a_wake_begins_the_next_attempt_and_is_named_once(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         HELD "\"h\":{\"handler\":\"fail_once\",\"retry\":{\"attempts\":3,\"backoff\":\"1h\"}}," NAP "}}",
                         "{}");
    (void)run_until_idle();
    (void)recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "h", STEP_WAITING, 1);
    (void)run_until_idle();
    send_signal(1, 1, "wake:h", "1");
    (void)run_until_idle();
    const struct report *report = ended("h", STEP_COMPLETED);
    assert_int_equal(report->step.attempt, 2);
    assert_int_equal(report->step.signal_seq, 1);
    assert_string_equal(report->step.output, "7");
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "nap", STEP_COMPLETED), 0);
}

/* Its wait is over, so it must not end the next one. */
static void a_wake_of_another_attempt_ends_nothing(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD NAP "}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "wake:nap", "2");
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_ENDED), 0);
    send_signal(1, 2, "wake:nap", "1");
    (void)run_until_idle();
    assert_consumed("nap", 2, "{\"woken\":true}");
}

static void a_wake_of_a_wait_for_a_signal_is_its_timeout(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD ASK "}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "wake:ask", "1");
    (void)run_until_idle();
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "signal_timeout");
    assert_int_equal(end->step.signal_seq, 1);
}

/* --- approvals --- */

#define DECIDED(word) "{\"approved\":" word ",\"by\":\"eve\",\"comment\":\"no\",\"at\":\"2026-01-01T00:00:00Z\"}"

static void a_decision_is_the_output_of_its_step(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        HELD
        "\"pay\":{\"approve\":{\"by\":[\"eve\"]}},\"e\":{\"needs\":[\"pay\"],\"when\":\"${.steps.pay.output.approved}\","
        "\"handler\":\"echo\"}}}",
        "{}");
    (void)run_until_idle();
    assert_string_equal(recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "pay", STEP_WAITING, 1)->step.signal,
                        "approve:pay");
    send_signal(1, 1, "approve:pay", DECIDED("false"));
    (void)run_until_idle();
    assert_consumed("pay", 1, DECIDED("false"));
    (void)ended("e", STEP_SKIPPED);
}

static void a_rejection_may_fail_the_step(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD "\"pay\":{\"approve\":{\"on_reject\":\"fail\"}}}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "approve:pay", DECIDED("false"));
    (void)run_until_idle();
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "rejected");
    assert_string_equal(end->error, "rejected by eve: no");
    assert_int_equal(end->step.signal_seq, 1);
}

/* The text of an error is a line of UTF-8 of a bounded length, whatever the comment is. */
static void a_long_comment_of_a_rejection_is_cut_at_a_character(void **state)
{
    struct text data = {.max = 2000};
    (void)state;
    assert_int_equal(text_add_string(&data, "{\"approved\":false,\"by\":\"eve\",\"comment\":\"a\\nb\\t"), WEIR_OK);
    for (int i = 0; i < 600; i++) {
        assert_int_equal(text_add_string(&data, "я"), WEIR_OK);
    }
    assert_int_equal(text_add_string(&data, "\",\"at\":\"2026-01-01T00:00:00Z\"}"), WEIR_OK);
    engine_fixture_start(&fixture, 1, HELD "\"pay\":{\"approve\":{\"on_reject\":\"fail\"}}}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "approve:pay", data.data);
    text_close(&data);
    (void)run_until_idle();
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_true(strncmp(end->error, "rejected by eve: a b я", strlen("rejected by eve: a b я")) == 0);
    assert_in_range(strlen(end->error), 400, WEIR_ERROR_MESSAGE_MAX);
    assert_true(text_is_utf8(end->error, strlen(end->error)));
}

static void an_approval_passes_where_a_rejection_fails(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, HELD "\"pay\":{\"approve\":{\"on_reject\":\"fail\"}}}}", "{}");
    (void)run_until_idle();
    send_signal(1, 1, "approve:pay", DECIDED("true"));
    (void)run_until_idle();
    assert_consumed("pay", 1, DECIDED("true"));
}

static void the_timeout_of_an_approval_decides(void **state)
{
    static const char *const endings[] = {"", ",\"default\":\"approve\"", ",\"default\":\"reject\"",
                                          ",\"default\":\"reject\",\"on_reject\":\"fail\""};
    char text[300];
    (void)state;
    for (int i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof text,
                       "{\"name\":\"t%d\",\"hold_slot\":true,\"steps\":{\"pay\":{\"approve\":{\"timeout\":"
                       "\"1h\"%s}}}}",
                       i, endings[i]);
        engine_fixture_start(&fixture, i + 1, text, "{}");
        (void)run_until_idle();
    }
    now_us += HOUR_US;
    (void)run_until_idle();
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_FAILED)->error_code, "approval_timeout");
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_COMPLETED)->step.output,
                        "{\"approved\":true,\"by\":null,\"comment\":null,\"at\":null}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 3, END_COMPLETED)->step.output,
                        "{\"approved\":false,\"by\":null,\"comment\":null,\"at\":null}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 4, END_FAILED)->error_code, "rejected");
}

static void an_execution_that_waits_for_an_approval_is_parked(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{" ASK ",\"pay\":{\"approve\":{\"timeout\":\"2h\"}}}}",
                         "{}");
    (void)run_until_idle();
    assert_int_equal(recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1)->waiting_for, WAIT_APPROVAL);
}

/* --- waits for something of the node --- */

#define PAY_WANTED                                                                                                         \
    "{\"name\":\"t\",\"steps\":{\"pay\":{\"when\":\"${.input.wanted}\",\"approve\":{\"timeout\":\"1h\",\"default\":"       \
    "\"approve\"}}}}"

/* One allocation fails in turn. True: that was one of the inputs of the step, which must not wait for a decision yet. */
static bool waits_after_a_shortage(int number)
{
    const char *id = engine_fixture_id(number);
    engine_fixture_start(&fixture, number, PAY_WANTED, "{\"wanted\":true}");
    failing_memory_aim(number, 1);
    failing_memory.armed = true;
    (void)run_until_idle();
    failing_memory.armed = false;
    if (engine_take_lost_report(fixture.engine)) {
        engine_abandon(fixture.engine, NULL, 0);
    }
    if (recorder_count(&fixture.recorder, REPORT_STEP, id, "pay", STEP_WAITING) == 0) {
        return false;
    }
    const struct report *waits = recorder_wait(&fixture.recorder, REPORT_STEP, id, "pay", STEP_WAITING, 1);
    if (strcmp(waits->step.error_code, STEP_NODE_SHORT) != 0) {
        return false;
    }
    assert_string_equal(waits->step.signal, "");
    now_us += STEP_SHORTAGE_FIRST_US;
    (void)run_until_idle();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, id, NULL, -1), 0);
    waits = recorder_wait(&fixture.recorder, REPORT_PARKED, id, "pay", STEP_WAITING, 1);
    assert_string_equal(waits->step.signal, "approve:pay");
    assert_true(waits->step.due_in_us == HOUR_US);
    assert_int_equal(waits->waiting_for, WAIT_APPROVAL);
    return true;
}

static void a_shortage_of_memory_decides_nothing(void **state)
{
    int shortages = 0;
    (void)state;
    for (int i = 1; i < 60; i++) {
        shortages += waits_after_a_shortage(i) ? 1 : 0;
    }
    assert_true(shortages > 0);
}

static struct step_record short_of_memory(const char *step)
{
    struct step_record record = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .error_code = STEP_NODE_SHORT};
    text_copy(record.step, sizeof record.step, step);
    return record;
}

static void the_next_claim_after_a_shortage_begins_the_step(void **state)
{
    (void)state;
    static const struct signal_record early = {.seq = 1, .name = "approved", .data = "1", .data_length = 1};
    struct step_record pay = short_of_memory("pay");
    struct engine_start start = engine_fixture_start_of(1, PAY_WANTED, "{\"wanted\":true}");
    start.steps = &pay;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_string_equal(recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, "pay", STEP_WAITING, 1)->step.signal,
                        "approve:pay");
    struct step_record nap = short_of_memory("nap");
    start = engine_fixture_start_of(2, HELD NAP "}}", "{}");
    start.steps = &nap;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_true(recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "nap", STEP_WAITING, 1)->step.due_in_us == HOUR_US);
    struct step_record ask = short_of_memory("ask"); /* its `when` is not evaluated yet */
    start = engine_fixture_start_of(
        3, "{\"name\":\"t\",\"steps\":{\"ask\":{\"when\":\"${.input.wanted}\",\"signal\":\"approved\"}}}",
        "{\"wanted\":false}");
    start.steps = &ask;
    start.step_count = 1;
    start.signals = &early;
    start.signal_count = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(ended("ask", STEP_SKIPPED)->step.signal_seq, 0);
}

int main(void)
{
#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    static const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_signal_ends_the_step_with_its_data),
        FIXTURE_TEST(a_later_step_reads_the_data),
        FIXTURE_TEST(a_signal_before_the_step_is_kept),
        FIXTURE_TEST(one_that_comes_while_the_wait_is_recorded_is_kept),
        FIXTURE_TEST(the_timeout_fails_the_step),
        FIXTURE_TEST(the_timeout_gives_the_default),
        FIXTURE_TEST(a_signal_at_the_time_of_the_timeout_ends_it_once),
        FIXTURE_TEST(a_signal_after_the_timeout_is_consumed_by_nothing),
        FIXTURE_TEST(two_steps_that_wait_for_one_name_get_one_each),
        FIXTURE_TEST(a_signal_that_comes_twice_counts_once),
        FIXTURE_TEST(one_for_an_execution_that_has_left_has_no_effect),
        FIXTURE_TEST(an_execution_that_waits_for_a_signal_is_parked),
        FIXTURE_TEST(the_park_names_the_signal_and_the_first_time),
        FIXTURE_TEST(the_next_claim_brings_the_signal),
        FIXTURE_TEST(the_next_claim_goes_on_behind_an_ended_wait),
        FIXTURE_TEST(a_signal_is_used_when_the_time_of_the_execution_is_over),
        FIXTURE_TEST(the_next_claim_waits_for_the_rest_of_the_time),
        FIXTURE_TEST(unreadable_data_fails_the_step),
        FIXTURE_TEST(an_unreadable_output_on_record_fails_the_execution),
        FIXTURE_TEST(reports_tell_for_how_long_all_steps_sleep),
        FIXTURE_TEST(the_next_claim_tells_for_how_long_all_steps_sleep),
        FIXTURE_TEST(a_skipped_step_consumes_nothing),
        FIXTURE_TEST(a_wake_finishes_a_sleep_early),
        FIXTURE_TEST(a_sleep_that_ends_by_itself_has_no_output),
        FIXTURE_TEST(a_wake_that_comes_while_the_wait_is_recorded_is_kept),
        FIXTURE_TEST(a_wake_begins_the_next_attempt_and_is_named_once),
        FIXTURE_TEST(a_wake_of_another_attempt_ends_nothing),
        FIXTURE_TEST(a_wake_of_a_wait_for_a_signal_is_its_timeout),
        FIXTURE_TEST(a_decision_is_the_output_of_its_step),
        FIXTURE_TEST(a_rejection_may_fail_the_step),
        FIXTURE_TEST(a_long_comment_of_a_rejection_is_cut_at_a_character),
        FIXTURE_TEST(an_approval_passes_where_a_rejection_fails),
        FIXTURE_TEST(the_timeout_of_an_approval_decides),
        FIXTURE_TEST(an_execution_that_waits_for_an_approval_is_parked),
        FIXTURE_TEST(a_shortage_of_memory_decides_nothing),
        FIXTURE_TEST(the_next_claim_after_a_shortage_begins_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
