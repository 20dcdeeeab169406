/* Workflows with states: what each answer of a handler makes of state, variables and history. On a clock that the test
 * sets, with handlers that run in the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "support/engine_fixture.h"
#include "support/test.h"
#include "weir/handler.h"

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)
#define BEGIN_US 1000

#define STATES(states) "{\"name\":\"t\",\"states\":{" states "},\"initial\":\"a\"" BESIDE "}"
#define BESIDE                                                                                                             \
    ",\"variables\":{\"n\":{\"type\":\"integer\",\"initial\":1},\"note\":{\"type\":\"string\"}},\"signals\":[\"go\"]"
#define A "\"a\":{\"handler\":\"act\"}"
#define B "\"b\":{\"handler\":\"act\"}"
#define END "\"done\":{\"type\":\"end\"}"

static int64_t now_us;
static struct engine_fixture fixture;
static void (*play)(struct weir_call *call); /* the handler of the test */
static int calls;
static char seen[1024]; /* by handlers */

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static void act(struct weir_call *call, void *context)
{
    (void)context;
    calls++;
    play(call);
}

static int open_fixture(void **state)
{
    static const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    static const struct weir_handler handlers[] = {{"act", act, NULL}};
    (void)state;
    now_us = BEGIN_US;
    calls = 0;
    seen[0] = '\0';
    engine_fixture_open_stepped(&fixture,
                                &(struct in_process_options){.clock = &clock, .handlers = handlers, .handler_count = 1});
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

static void start(const char *definition)
{
    engine_fixture_start(&fixture, 1, definition, "{\"amount\":5}");
    (void)run_until_idle();
}

static void send_signal(int64_t seq, const char *name, const char *data)
{
    struct signal_record signal = {.seq = seq, .data = data, .data_length = strlen(data)};
    text_copy(signal.name, sizeof signal.name, name);
    engine_signal(fixture.engine, engine_fixture_id(1), 1, &signal);
}

static size_t count_of(enum report_kind kind)
{
    return recorder_count(&fixture.recorder, kind, NULL, NULL, -1);
}

/* The n-th report that waits. */
static const struct report *waits(size_t n)
{
    return recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "state", STEP_WAITING, n);
}

static const struct report *ends(enum end_state end)
{
    return engine_fixture_expect_end(&fixture, 1, end);
}

/* A member of the action of a report, as text; "" = none. Lives until the next call. */
static const char *action(const struct report *report, const char *key)
{
    static char text[4096];
    json_t *root = NULL;
    assert_non_null(report->step.action);
    assert_int_equal(json_read(report->step.action, strlen(report->step.action), &root, NULL), WEIR_OK);
    json_t *value = json_object_get(root, key);
    char *dump = value == NULL || json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    text_copy(text, sizeof text, dump == NULL ? "" : dump);
    free(dump);
    json_decref(root);
    return text;
}

/* --- answers --- */

static void goes_to_b_and_ends(struct weir_call *call)
{
    struct weir_error error;
    if (strcmp(weir_call_state(call), "a") == 0) {
        assert_string_equal(weir_call_variable(call, "n"), "1");
        assert_null(weir_call_variable(call, "note"));
        assert_int_equal(weir_call_set_variable(call, "n", "2", &error), WEIR_OK);
        assert_string_equal(weir_call_variable(call, "n"), "2");
        weir_next(call, "b");
    } else {
        assert_string_equal(weir_call_variable(call, "n"), "2");
        assert_string_equal(weir_call_step(call), "b");
        assert_int_equal(weir_call_attempt(call), 2);
        assert_string_equal(weir_call_input(call), "{\"amount\":5}");
        weir_done(call, "{\"ok\":true}");
    }
}

static void a_next_state_runs_at_once_with_the_variables(void **state)
{
    (void)state;
    play = goes_to_b_and_ends;
    start(STATES(A "," B));
    const struct report *first = waits(1);
    assert_string_equal(first->step.variables, "{\"state\":\"b\",\"variables\":{\"n\":2},\"in_a_row\":1}");
    assert_true(first->step.due_in_us == 0);
    assert_int_equal(first->step.attempt, 1);
    assert_string_equal(action(first, "state"), "\"a\"");
    assert_string_equal(action(first, "next"), "\"b\"");
    assert_string_equal(action(first, "outcome"), "\"next\"");
    assert_string_equal(action(first, "variables"), "{\"n\":2}");
    const struct report *end = ends(END_COMPLETED);
    assert_string_equal(end->step.output, "{\"ok\":true}");
    assert_string_equal(action(end, "outcome"), "\"done\"");
    assert_string_equal(end->step.variables, "{\"state\":\"b\",\"variables\":{\"n\":2},\"in_a_row\":1}");
    assert_int_equal(calls, 2);
}

static void goes_to_done(struct weir_call *call)
{
    weir_next(call, "done");
}

static void an_end_state_completes_with_the_variables(void **state)
{
    (void)state;
    play = goes_to_done;
    start(STATES(A "," END));
    const struct report *end = ends(END_COMPLETED);
    assert_string_equal(end->step.output, "{\"n\":1}");
    assert_string_equal(action(end, "next"), "\"done\"");
    assert_int_equal(count_of(REPORT_STEP), 0); /* state and end are one record */
}

static void goes_to_the_past(struct weir_call *call)
{
    weir_next_at(call, "done", INT64_MIN);
}

static void a_time_in_the_past_is_at_once(void **state)
{
    (void)state;
    play = goes_to_the_past;
    start(STATES(A "," END));
    (void)ends(END_COMPLETED);
    assert_int_equal(count_of(REPORT_STEP), 0);
}

static void waits_an_hour(struct weir_call *call)
{
    if (weir_call_attempt(call) == 1) {
        weir_next_after(call, "b", HOUR_US);
    } else {
        weir_next(call, "done");
    }
}

static void a_delayed_state_is_parked(void **state)
{
    (void)state;
    play = waits_an_hour;
    start(STATES(A "," B "," END));
    assert_true(waits(1)->step.due_in_us == HOUR_US);
    const struct report *park = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_true(park->delay_us == HOUR_US);
    assert_int_equal(park->waiting_for, WAIT_SLEEP);
    assert_int_equal(calls, 1);
}

/* A suspect is not parked until it has made progress. Its one step ends with the execution, so a change of state is
 * progress. */
static void a_change_of_state_ends_the_suspicion(void **state)
{
    (void)state;
    play = waits_an_hour;
    struct engine_start suspect = engine_fixture_start_of(1, STATES(A "," B "," END), "{}");
    suspect.is_suspect = true;
    engine_fixture_start_with(&fixture, &suspect);
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_PARKED), 1);
}

static void takes_a_signal(struct weir_call *call)
{
    if (strcmp(weir_call_state(call), "a") == 0) {
        assert_null(weir_call_signal(call));
        weir_next_on_signal(call, "b", "go", HOUR_US);
    } else {
        text_copy(seen, sizeof seen, weir_call_signal(call) == NULL ? "none" : weir_call_signal(call));
        weir_next(call, "done");
    }
}

/* The claim after the park: the record of the wait, and perhaps a signal. */
static void claim_again(const char *definition, const struct report *record, const struct signal_record *signal,
                        int64_t due_in_us)
{
    struct step_record step = {.attempt = record->step.attempt,
                               .state = record->step.state,
                               .exit_code = -1,
                               .due_in_us = due_in_us,
                               .failures = record->step.failures,
                               .variables = record->step.variables};
    text_copy(step.step, sizeof step.step, "state");
    text_copy(step.signal, sizeof step.signal, record->step.signal);
    text_copy(step.error_code, sizeof step.error_code, record->step.error_code);
    struct engine_start again = engine_fixture_start_of(1, definition, "{}");
    again.fence = 2;
    again.steps = &step;
    again.step_count = 1;
    again.signals = signal;
    again.signal_count = signal == NULL ? 0 : 1;
    again.signals_seen = signal == NULL ? 0 : signal->seq;
    engine_fixture_start_with(&fixture, &again);
    (void)run_until_idle();
}

static void a_signal_reaches_the_next_state_and_is_consumed_by_its_record(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    play = takes_a_signal;
    start(definition);
    const struct report *wait = waits(1);
    assert_string_equal(wait->step.signal, "go");
    assert_true(wait->step.due_in_us == HOUR_US);
    assert_string_equal(action(wait, "outcome"), "\"wait\"");
    const struct report *park = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_int_equal(park->waiting_for, WAIT_SIGNAL);
    const struct signal_record signal = {.seq = 4, .name = "go", .data = "{\"by\":7}", .data_length = 8};
    claim_again(definition, wait, &signal, HOUR_US);
    assert_string_equal(seen, "{\"by\":7}");
    assert_int_equal(ends(END_COMPLETED)->step.signal_seq, 4);
}

static void a_wait_without_a_signal_ends_by_its_timeout(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    play = takes_a_signal;
    start(definition);
    claim_again(definition, waits(1), NULL, 0);
    assert_string_equal(seen, "none");
    assert_int_equal(ends(END_COMPLETED)->step.signal_seq, 0);
}

static void retries_with_a_signal(struct weir_call *call)
{
    if (strcmp(weir_call_state(call), "a") == 0) {
        weir_next_on_signal(call, "b", "go", 0);
    } else {
        text_copy(seen, sizeof seen, weir_call_signal(call) == NULL ? "none" : weir_call_signal(call));
        weir_retry_after(call, HOUR_US, "busy", NULL);
    }
}

static void waits_for_a_person_later(struct weir_call *call)
{
    weir_next_after(call, "m", HOUR_US);
}

static void a_delay_comes_before_a_manual_state(void **state)
{
    static const char definition[] = STATES(A ",\"m\":{\"type\":\"manual\"}");
    (void)state;
    play = waits_for_a_person_later;
    start(definition);
    assert_true(waits(1)->step.due_in_us == HOUR_US);
    assert_string_equal(waits(1)->step.signal, "");
    claim_again(definition, waits(1), NULL, 0);
    assert_string_equal(waits(2)->step.signal, "manual:state");
    assert_int_equal(calls, 1);
}

static void a_retry_gets_the_signal_again(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    play = retries_with_a_signal;
    start(definition);
    assert_true(waits(1)->step.due_in_us == TIME_NEVER);
    const struct signal_record signal = {.seq = 1, .name = "go", .data = "1", .data_length = 1};
    claim_again(definition, waits(1), &signal, TIME_NEVER);
    assert_string_equal(seen, "1");
    const struct report *retry = waits(2);
    assert_int_equal(retry->step.signal_seq, 0);
    assert_string_equal(retry->step.signal, ""); /* the signal must not end the delay */
    assert_string_equal(retry->step.error_code, "busy");
    assert_int_equal(retry->step.failures, 1);
    assert_string_equal(action(retry, "outcome"), "\"retry\"");
    assert_int_equal(recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 2)->waiting_for, WAIT_RETRY);
}

static void a_signal_in_the_node_ends_the_wait(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    play = takes_a_signal;
    fixture.recorder.is_manual = true; /* the record of the wait is not answered yet, so nothing is parked */
    engine_fixture_start(&fixture, 1, definition, "{}");
    (void)run_until_idle();
    send_signal(9, "go", "3");
    (void)run_until_idle();
    recorder_answer(&fixture.recorder, waits(1), WEIR_OK);
    (void)run_until_idle();
    assert_string_equal(seen, "3");
    const struct report *end = recorder_wait(&fixture.recorder, REPORT_ENDED, NULL, NULL, -1, 1);
    assert_int_equal(end->step.signal_seq, 9);
    recorder_answer(&fixture.recorder, end, WEIR_OK);
    (void)run_until_idle();
    fixture.recorder.is_manual = false;
}

/* --- failures --- */

static void fails_in_a(struct weir_call *call)
{
    struct weir_error error;
    if (strcmp(weir_call_state(call), "a") == 0) {
        assert_int_equal(weir_call_set_variable(call, "note", "\"tried\"", &error), WEIR_OK);
        weir_fail(call, "no_money", "the account is empty");
    } else {
        (void)snprintf(seen, sizeof seen, "%s %s %s %s", weir_call_failed_state(call), weir_call_failure_code(call),
                       weir_call_failure(call), weir_call_variable(call, "note"));
        weir_done(call, NULL);
    }
}

static void a_failure_goes_to_the_state_of_on_failure(void **state)
{
    (void)state;
    play = fails_in_a;
    start(STATES("\"a\":{\"handler\":\"act\",\"on_failure\":\"b\"}," B));
    assert_string_equal(seen, "a no_money the account is empty \"tried\"");
    assert_string_equal(action(waits(1), "outcome"), "\"failed\"");
    assert_string_equal(action(waits(1), "code"), "\"no_money\"");
    assert_string_equal(action(waits(1), "next"), "\"b\"");
    (void)ends(END_COMPLETED);
}

static void an_error_state_with_a_handler_ends_as_failed(void **state)
{
    (void)state;
    play = fails_in_a;
    start("{\"name\":\"t\",\"states\":{" A ",\"e\":{\"type\":\"error\",\"handler\":\"act\"}},\"on_error\":\"e\"" BESIDE
          "}");
    assert_string_equal(seen, "a no_money the account is empty \"tried\"");
    const struct report *end = ends(END_FAILED);
    assert_string_equal(end->error_code, "no_money");
    assert_string_equal(end->error, "the account is empty");
}

static void without_an_error_state_the_execution_fails(void **state)
{
    (void)state;
    play = fails_in_a;
    start(STATES(A));
    const struct report *end = ends(END_FAILED);
    assert_string_equal(end->error_code, "no_money");
    assert_string_equal(action(end, "outcome"), "\"failed\"");
    assert_string_equal(action(end, "next"), "");
}

static void always_retries(struct weir_call *call)
{
    weir_retry(call, "busy", "later");
}

static void retries_end_by_the_policy_of_the_state(void **state)
{
    (void)state;
    play = always_retries;
    start(STATES("\"a\":{\"handler\":\"act\",\"retry\":{\"attempts\":3,\"backoff\":\"1ms\"},\"on_failure\":\"m\"},"
                 "\"m\":{\"type\":\"manual\"}"));
    for (int i = 0; i < 5; i++) {
        now_us += MICROSECONDS_PER_SECOND;
        (void)run_until_idle();
    }
    assert_int_equal(calls, 3);
    const struct report *manual = waits(3);
    assert_string_equal(manual->step.signal, "manual:state");
    assert_int_equal(manual->step.failures, 0);
    const struct report *park = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_int_equal(park->waiting_for, WAIT_MANUAL);
    assert_true(park->delay_us == TIME_NEVER);
}

static void goes_nowhere(struct weir_call *call)
{
    weir_next(call, "nowhere");
}

static void an_unknown_state_is_put_back(void **state)
{
    (void)state;
    play = goes_nowhere;
    start(STATES(A));
    const struct report *wait = waits(1);
    assert_string_equal(wait->step.error_code, "unknown_state");
    assert_true(wait->step.due_in_us == HOUR_US);
    assert_int_equal(wait->step.failures, 0);
    assert_string_equal(wait->step.variables, "{\"state\":\"a\",\"variables\":{\"n\":1}}");
    assert_string_equal(action(wait, "outcome"), "\"unknown\"");
    assert_string_equal(action(wait, "next"), "\"nowhere\"");
    assert_int_equal(recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1)->waiting_for, WAIT_RETRY);
}

#define LONG_NAME "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void goes_to_a_longer_name(struct weir_call *call)
{
    weir_next(call, LONG_NAME "b");
}

static void a_name_that_is_cut_is_no_state(void **state)
{
    (void)state;
    play = goes_to_a_longer_name;
    start(STATES(A ",\"" LONG_NAME "\":{\"type\":\"end\"}"));
    assert_string_equal(waits(1)->step.error_code, "unknown_state");
}

static void an_unknown_state_is_an_error_by_setting(void **state)
{
    (void)state;
    play = goes_nowhere;
    start("{\"name\":\"t\",\"states\":{" A ",\"e\":{\"type\":\"error\"}},\"on_error\":\"e\",\"unknown_state\":\"error\"}");
    const struct report *end = ends(END_FAILED);
    assert_string_equal(end->error_code, "unknown_state");
}

static void start_with_machine(char *variables)
{
    struct step_record step = {
        .step = "state", .attempt = 4, .state = STEP_WAITING, .exit_code = -1, .variables = variables};
    struct engine_start again = engine_fixture_start_of(1, STATES(A "," END), "{}");
    again.steps = &step;
    again.step_count = 1;
    engine_fixture_start_with(&fixture, &again);
    (void)run_until_idle();
}

static void a_state_on_record_that_is_unknown_is_put_back(void **state)
{
    (void)state;
    play = goes_to_done;
    char variables[] = "{\"state\":\"gone\",\"variables\":{\"n\":3}}";
    start_with_machine(variables);
    assert_int_equal(calls, 0);
    assert_string_equal(waits(1)->step.error_code, "unknown_state");
    assert_string_equal(waits(1)->step.variables, "{\"state\":\"gone\",\"variables\":{\"n\":3}}");
    assert_int_equal(waits(1)->step.attempt, 5);
}

static void a_state_that_next_does_not_list_is_a_failure(void **state)
{
    (void)state;
    play = goes_to_done;
    start(STATES("\"a\":{\"handler\":\"act\",\"next\":[\"b\"]}," B "," END));
    assert_string_equal(ends(END_FAILED)->error_code, "transition_not_allowed");
}

static void a_machine_that_cannot_be_read_fails(void **state)
{
    (void)state;
    play = goes_to_done;
    char variables[] = "{\"state\":7}";
    start_with_machine(variables);
    assert_int_equal(calls, 0);
    assert_string_equal(ends(END_FAILED)->error_code, "variables_invalid");
}

/* --- bounds --- */

/* No report could bring it: the execution ends, and the node keeps its other claims. */
static void a_machine_that_is_too_large_fails(void **state)
{
    static char variables[STATE_VARIABLES_BYTES_MAX + 100];
    (void)state;
    play = goes_to_done;
    int head = snprintf(variables, sizeof variables, "{\"state\":\"a\",\"variables\":{\"note\":\"");
    memset(variables + head, 'x', STATE_VARIABLES_BYTES_MAX);
    memcpy(variables + head + STATE_VARIABLES_BYTES_MAX, "\"}}", 4);
    start_with_machine(variables);
    assert_int_equal(calls, 0);
    assert_string_equal(ends(END_FAILED)->error_code, "variables_invalid");
}

static void goes_round(struct weir_call *call)
{
    weir_next(call, NULL);
}

static void a_hundred_states_in_a_row_force_a_delay(void **state)
{
    (void)state;
    play = goes_round;
    start(STATES(A));
    for (int i = 0; i < 50; i++) {
        (void)run_until_idle();
    }
    assert_int_equal(calls, 100);
    assert_true(waits(100)->step.due_in_us == STATES_BUSY_DELAY_US);
    assert_true(waits(99)->step.due_in_us == 0);
    assert_int_equal(count_of(REPORT_PARKED), 1);
}

static void breaks_the_rules_of_variables(struct weir_call *call)
{
    struct weir_error error;
    static char large[STATE_VARIABLE_BYTES_MAX + 8];
    static char params[PARAMS_BYTES_MAX + 1];
    memset(large, 'x', sizeof large - 1);
    large[0] = '"';
    large[sizeof large - 2] = '"';
    assert_int_equal(weir_call_set_variable(call, "other", "1", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_set_variable(call, "n", "\"one\"", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_set_variable(call, "n", "1.5", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_set_variable(call, "n", "{", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_set_variable(call, "note", large, &error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(weir_call_variable(call, "n"), "1");
    assert_int_equal(weir_call_set_variable(call, "note", NULL, &error), WEIR_OK);
    assert_int_equal(weir_call_set_variable(call, "note", "\"a\\u0000b\"", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_enqueue(call, "other", "{\"a\":[\"\\u0000\"]}", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_enqueue(call, "No Name", NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_enqueue(call, "other", "[]", &error), WEIR_INVALID_ARGUMENT);
    memcpy(params, "{\"a\":\"", 6);
    memset(params + 6, 'x', PARAMS_BYTES_MAX - 8);
    memcpy(params + PARAMS_BYTES_MAX - 2, "\"}", 3);
    for (int i = 0; i <= CHILDREN_PLAN_BYTES_MAX / PARAMS_BYTES_MAX; i++) {
        enum weir_status expected = i < CHILDREN_PLAN_BYTES_MAX / PARAMS_BYTES_MAX ? WEIR_OK : WEIR_INVALID_ARGUMENT;
        assert_int_equal(weir_call_enqueue(call, "other", params, &error), expected);
    }
    weir_next(call, "done");
    assert_int_equal(weir_call_set_variable(call, "n", "1", &error), WEIR_MISUSE);
}

/* `depth` lists around nothing. */
static const char *nested(int depth)
{
    static char text[2 * JSON_DEPTH_MAX + 8];
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    text[2 * depth] = '\0';
    return text;
}

static void sets_a_deep_variable(struct weir_call *call)
{
    struct weir_error error;
    if (strcmp(weir_call_state(call), "a") == 0) {
        const char *read = weir_call_variable(call, "v");
        assert_int_equal(weir_call_set_variable(call, "v", nested(JSON_DEPTH_MAX - 1), &error), WEIR_INVALID_ARGUMENT);
        assert_int_equal(weir_call_set_variable(call, "v", "\"\\u0000\"", &error), WEIR_INVALID_ARGUMENT);
        assert_ptr_equal(weir_call_variable(call, "v"), read); /* a refused value leaves what was read */
        assert_string_equal(read, "0");
        assert_int_equal(weir_call_set_variable(call, "v", nested(JSON_DEPTH_MAX - 2), &error), WEIR_OK);
        weir_next_after(call, "b", HOUR_US);
    } else {
        assert_string_equal(weir_call_variable(call, "v"), nested(JSON_DEPTH_MAX - 2));
        weir_next(call, "done");
    }
}

/* The record has the variable two levels deeper, and must be read again. */
static void the_deepest_variable_is_read_again(void **state)
{
    static const char definition[] =
        "{\"name\":\"t\",\"states\":{" A "," B "," END "},\"variables\":{\"v\":{\"type\":\"any\",\"initial\":0}}}";
    (void)state;
    play = sets_a_deep_variable;
    start(definition);
    claim_again(definition, waits(1), NULL, 0);
    (void)ends(END_COMPLETED);
}

static void variables_are_typed_and_bounded(void **state)
{
    (void)state;
    play = breaks_the_rules_of_variables;
    start(STATES(A "," END));
    assert_string_equal(ends(END_COMPLETED)->step.output, "{\"n\":1,\"note\":null}");
}

/* --- children --- */

static void starts_children(struct weir_call *call)
{
    struct weir_error error;
    if (strcmp(weir_call_state(call), "a") == 0) {
        assert_int_equal(weir_call_enqueue(call, "mail", "{\"to\":\"eve\"}", &error), WEIR_OK);
        assert_int_equal(weir_call_start_child(call, "part", "{\"n\":1}", &error), WEIR_OK);
        assert_int_equal(weir_call_start_child(call, "part", NULL, &error), WEIR_OK);
        weir_next_on_children(call, "b", 0);
    } else {
        text_copy(seen, sizeof seen, weir_call_signal(call) == NULL ? "none" : weir_call_signal(call));
        weir_next(call, "done");
    }
}

static void children_are_planned_with_the_answer(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    play = starts_children;
    start(definition);
    const struct report *wait = waits(1);
    assert_string_equal(wait->step.signal, "children:state.1.1");
    assert_string_equal(action(wait, "plans"),
                        "[{\"workflow\":\"mail\",\"executor_group\":null,\"priority\":null,\"is_single\":0,"
                        "\"waits_for_all\":0,\"wanted\":0,\"max_parallel\":1,\"leaves\":1,\"children\":[{\"to\":\"eve\"}]},"
                        "{\"workflow\":\"part\",\"executor_group\":null,\"priority\":null,\"is_single\":0,"
                        "\"waits_for_all\":1,\"wanted\":2,\"max_parallel\":2,\"leaves\":0,\"children\":[{\"n\":1},{}]}]");
    assert_int_equal(recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1)->waiting_for, WAIT_CHILD);
    const struct signal_record signal = {
        .seq = 1, .name = "children:state.1.1", .data = "{\"output\":[]}", .data_length = 13};
    claim_again(definition, wait, &signal, TIME_NEVER);
    assert_string_equal(seen, "{\"output\":[]}");
    (void)ends(END_COMPLETED);
}

static void ends_behind_a_child(struct weir_call *call)
{
    struct weir_error error;
    assert_int_equal(weir_call_start_child(call, "part", NULL, &error), WEIR_OK);
    weir_next_on_children(call, "done", 0);
}

/* The end would cancel them. */
static void an_end_waits_for_the_children_of_the_answer(void **state)
{
    static const char definition[] = STATES(A "," END);
    static const struct signal_record signal = {.seq = 3, .name = "children:state.1.0", .data = "{}", .data_length = 2};
    (void)state;
    play = ends_behind_a_child;
    start(definition);
    assert_string_equal(waits(1)->step.signal, "children:state.1.0");
    assert_int_equal(count_of(REPORT_ENDED), 0);
    claim_again(definition, waits(1), &signal, TIME_NEVER);
    assert_int_equal(ends(END_COMPLETED)->step.signal_seq, 3);
    assert_int_equal(calls, 1);
}

static void retries_with_a_child(struct weir_call *call)
{
    struct weir_error error;
    assert_int_equal(weir_call_enqueue(call, "mail", NULL, &error), WEIR_OK);
    weir_retry(call, "busy", NULL);
}

static void a_retry_starts_nothing(void **state)
{
    (void)state;
    play = retries_with_a_child;
    start(STATES(A));
    assert_string_equal(action(waits(1), "plans"), "");
}

static void without_a_child(struct weir_call *call)
{
    weir_next_on_children(call, "b", 0);
}

static void a_wait_for_no_child_is_a_failure(void **state)
{
    (void)state;
    play = without_a_child;
    start(STATES(A "," B));
    assert_string_equal(ends(END_FAILED)->error_code, "children_invalid");
}

/* --- the node and its claim --- */

/* The store refuses the record: nothing goes on here. */
static void a_stale_fence_stops_the_machine(void **state)
{
    (void)state;
    play = goes_to_b_and_ends;
    fixture.recorder.is_manual = true;
    engine_fixture_start(&fixture, 1, STATES(A "," B), "{}");
    (void)run_until_idle();
    assert_int_equal(calls, 1);
    recorder_answer(&fixture.recorder, waits(1), WEIR_STALE_FENCE);
    (void)run_until_idle();
    assert_int_equal(calls, 1);
    assert_int_equal(count_of(REPORT_ENDED), 0);
    fixture.recorder.is_manual = false;
}

/* A node died in a run without a record: its number is not used again, and the next run is on record before it begins. */
static void a_lost_run_keeps_its_number(void **state)
{
    (void)state;
    play = goes_to_done;
    struct engine_start again = engine_fixture_start_of(1, STATES(A "," END), "{}");
    again.interruptions = 1;
    again.lost_a_node = true;
    engine_fixture_start_with(&fixture, &again);
    (void)run_until_idle();
    const struct report *running = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "state", STEP_RUNNING, 1);
    assert_int_equal(running->step.attempt, 2);
    assert_string_equal(running->step.variables, "{\"state\":\"a\",\"variables\":{\"n\":1}}");
    assert_null(running->step.action);
    assert_string_equal(action(ends(END_COMPLETED), "action"), "2");
}

static void answers_as_a_step(struct weir_call *call)
{
    struct weir_error error;
    assert_null(weir_call_state(call));
    assert_null(weir_call_variable(call, "n"));
    assert_int_equal(weir_call_set_variable(call, "n", "1", &error), WEIR_MISUSE);
    weir_next(call, "b");
}

static void a_step_has_no_next_state(void **state)
{
    (void)state;
    play = answers_as_a_step;
    start("{\"name\":\"t\",\"steps\":{\"s\":{\"handler\":\"act\"}}}");
    assert_string_equal(ends(END_FAILED)->error_code, "no_states");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_next_state_runs_at_once_with_the_variables),
        TEST(an_end_state_completes_with_the_variables),
        TEST(a_time_in_the_past_is_at_once),
        TEST(a_delayed_state_is_parked),
        TEST(a_change_of_state_ends_the_suspicion),
        TEST(a_signal_reaches_the_next_state_and_is_consumed_by_its_record),
        TEST(a_wait_without_a_signal_ends_by_its_timeout),
        TEST(a_delay_comes_before_a_manual_state),
        TEST(a_retry_gets_the_signal_again),
        TEST(a_signal_in_the_node_ends_the_wait),
        TEST(a_failure_goes_to_the_state_of_on_failure),
        TEST(an_error_state_with_a_handler_ends_as_failed),
        TEST(without_an_error_state_the_execution_fails),
        TEST(retries_end_by_the_policy_of_the_state),
        TEST(an_unknown_state_is_put_back),
        TEST(a_name_that_is_cut_is_no_state),
        TEST(an_unknown_state_is_an_error_by_setting),
        TEST(a_state_on_record_that_is_unknown_is_put_back),
        TEST(a_state_that_next_does_not_list_is_a_failure),
        TEST(a_machine_that_cannot_be_read_fails),
        TEST(a_hundred_states_in_a_row_force_a_delay),
        TEST(a_machine_that_is_too_large_fails),
        TEST(variables_are_typed_and_bounded),
        TEST(the_deepest_variable_is_read_again),
        TEST(children_are_planned_with_the_answer),
        TEST(an_end_waits_for_the_children_of_the_answer),
        TEST(a_retry_starts_nothing),
        TEST(a_wait_for_no_child_is_a_failure),
        TEST(a_stale_fence_stops_the_machine),
        TEST(a_lost_run_keeps_its_number),
        TEST(a_step_has_no_next_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
