/* Workflows with states: what each answer of a handler makes of state, variables and history. On a clock that the test
 * sets, with handlers that run in the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "support/states_fixture.h"
#include "support/test.h"
#include "weir/handler.h"

static char seen[1024]; /* by handlers */

static int open_test(void **state)
{
    (void)state;
    seen[0] = '\0';
    states_open();
    return 0;
}

static int close_test(void **state)
{
    (void)state;
    states_close();
    return 0;
}

static void send_signal(int64_t seq, const char *name, const char *data)
{
    struct signal_record signal = {.seq = seq, .data = data, .data_length = strlen(data)};
    text_copy(signal.name, sizeof signal.name, name);
    engine_signal(states_engine.engine, engine_fixture_id(1), 1, &signal);
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
    states_play = goes_to_b_and_ends;
    states_start(STATES(A "," B));
    const struct report *first = states_wait(1);
    assert_string_equal(first->step.variables, "{\"state\":\"b\",\"variables\":{\"n\":2},\"in_a_row\":1}");
    assert_true(first->step.due_in_us == 0);
    assert_int_equal(first->step.attempt, 1);
    assert_string_equal(states_action(first, "state"), "\"a\"");
    assert_string_equal(states_action(first, "next"), "\"b\"");
    assert_string_equal(states_action(first, "outcome"), "\"next\"");
    assert_string_equal(states_action(first, "variables"), "{\"n\":2}");
    const struct report *end = states_end(END_COMPLETED);
    assert_string_equal(end->step.output, "{\"ok\":true}");
    assert_string_equal(states_action(end, "outcome"), "\"done\"");
    assert_string_equal(end->step.variables, "{\"state\":\"b\",\"variables\":{\"n\":2},\"in_a_row\":1}");
    assert_int_equal(states_calls, 2);
}

static void goes_to_done(struct weir_call *call)
{
    weir_next(call, "done");
}

static void an_end_state_completes_with_the_variables(void **state)
{
    (void)state;
    states_play = goes_to_done;
    states_start(STATES(A "," END));
    const struct report *end = states_end(END_COMPLETED);
    assert_string_equal(end->step.output, "{\"n\":1}");
    assert_string_equal(states_action(end, "next"), "\"done\"");
    assert_int_equal(states_count(REPORT_STEP), 0); /* state and end are one record */
}

static void goes_to_the_past(struct weir_call *call)
{
    weir_next_at(call, "done", INT64_MIN);
}

static void a_time_in_the_past_is_at_once(void **state)
{
    (void)state;
    states_play = goes_to_the_past;
    states_start(STATES(A "," END));
    (void)states_end(END_COMPLETED);
    assert_int_equal(states_count(REPORT_STEP), 0);
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
    states_play = waits_an_hour;
    states_start(STATES(A "," B "," END));
    assert_true(states_wait(1)->step.due_in_us == HOUR_US);
    const struct report *park = recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_true(park->delay_us == HOUR_US);
    assert_int_equal(park->waiting_for, WAIT_SLEEP);
    assert_int_equal(states_calls, 1);
}

/* A suspect is not parked until it has made progress. Its one step ends with the execution, so a change of state is
 * progress. */
static void a_change_of_state_ends_the_suspicion(void **state)
{
    (void)state;
    states_play = waits_an_hour;
    struct engine_start suspect = engine_fixture_start_of(1, STATES(A "," B "," END), "{}");
    suspect.is_suspect = true;
    engine_fixture_start_with(&states_engine, &suspect);
    (void)states_run();
    assert_int_equal(states_count(REPORT_PARKED), 1);
}

/* An update by a person is no progress, and it moves no execution that a node holds. */
static void a_suspect_is_parked_in_a_manual_state(void **state)
{
    (void)state;
    struct step_record record = {.attempt = 4, .state = STEP_WAITING, .exit_code = -1, .due_in_us = TIME_NEVER};
    struct engine_start suspect = engine_fixture_start_of(1, STATES(A ",\"hold\":{\"type\":\"manual\"}," END), "{}");
    text_copy(record.step, sizeof record.step, "state");
    text_copy(record.signal, sizeof record.signal, "manual:state");
    char machine[] = "{\"state\":\"hold\",\"variables\":{\"n\":1}}";
    record.variables = machine;
    suspect.is_suspect = true;
    suspect.steps = &record;
    suspect.step_count = 1;
    engine_fixture_start_with(&states_engine, &suspect);
    (void)states_run();
    assert_int_equal(recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 1)->waiting_for, WAIT_MANUAL);
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

static void a_signal_reaches_the_next_state_and_is_consumed_by_its_record(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    states_play = takes_a_signal;
    states_start(definition);
    const struct report *wait = states_wait(1);
    assert_string_equal(wait->step.signal, "go");
    assert_true(wait->step.due_in_us == HOUR_US);
    assert_string_equal(states_action(wait, "outcome"), "\"wait\"");
    const struct report *park = recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_int_equal(park->waiting_for, WAIT_SIGNAL);
    const struct signal_record signal = {.seq = 4, .name = "go", .data = "{\"by\":7}", .data_length = 8};
    states_claim_again(definition, wait, &signal, HOUR_US);
    assert_string_equal(seen, "{\"by\":7}");
    assert_int_equal(states_end(END_COMPLETED)->step.signal_seq, 4);
}

static void a_wait_without_a_signal_ends_by_its_timeout(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    states_play = takes_a_signal;
    states_start(definition);
    states_claim_again(definition, states_wait(1), NULL, 0);
    assert_string_equal(seen, "none");
    assert_int_equal(states_end(END_COMPLETED)->step.signal_seq, 0);
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
    states_play = waits_for_a_person_later;
    states_start(definition);
    assert_true(states_wait(1)->step.due_in_us == HOUR_US);
    assert_string_equal(states_wait(1)->step.signal, "");
    states_claim_again(definition, states_wait(1), NULL, 0);
    assert_string_equal(states_wait(2)->step.signal, "manual:state");
    assert_int_equal(states_calls, 1);
}

static void a_retry_gets_the_signal_again(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    states_play = retries_with_a_signal;
    states_start(definition);
    assert_true(states_wait(1)->step.due_in_us == TIME_NEVER);
    const struct signal_record signal = {.seq = 1, .name = "go", .data = "1", .data_length = 1};
    states_claim_again(definition, states_wait(1), &signal, TIME_NEVER);
    assert_string_equal(seen, "1");
    const struct report *retry = states_wait(2);
    assert_int_equal(retry->step.signal_seq, 0);
    assert_string_equal(retry->step.signal, ""); /* the signal must not end the delay */
    assert_string_equal(retry->step.error_code, "busy");
    assert_int_equal(retry->step.failures, 1);
    assert_string_equal(states_action(retry, "outcome"), "\"retry\"");
    assert_int_equal(recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 2)->waiting_for, WAIT_RETRY);
}

static void a_signal_in_the_node_ends_the_wait(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    states_play = takes_a_signal;
    states_engine.recorder.is_manual = true; /* the record of the wait is not answered yet, so nothing is parked */
    engine_fixture_start(&states_engine, 1, definition, "{}");
    (void)states_run();
    send_signal(9, "go", "3");
    (void)states_run();
    recorder_answer(&states_engine.recorder, states_wait(1), WEIR_OK);
    (void)states_run();
    assert_string_equal(seen, "3");
    const struct report *end = recorder_wait(&states_engine.recorder, REPORT_ENDED, NULL, NULL, -1, 1);
    assert_int_equal(end->step.signal_seq, 9);
    recorder_answer(&states_engine.recorder, end, WEIR_OK);
    (void)states_run();
    states_engine.recorder.is_manual = false;
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
    states_play = fails_in_a;
    states_start(STATES("\"a\":{\"handler\":\"act\",\"on_failure\":\"b\"}," B));
    assert_string_equal(seen, "a no_money the account is empty \"tried\"");
    assert_string_equal(states_action(states_wait(1), "outcome"), "\"failed\"");
    assert_string_equal(states_action(states_wait(1), "code"), "\"no_money\"");
    assert_string_equal(states_action(states_wait(1), "next"), "\"b\"");
    (void)states_end(END_COMPLETED);
}

static void an_error_state_with_a_handler_ends_as_failed(void **state)
{
    (void)state;
    states_play = fails_in_a;
    states_start("{\"name\":\"t\",\"states\":{" A
                 ",\"e\":{\"type\":\"error\",\"handler\":\"act\"}},\"on_error\":\"e\"" BESIDE "}");
    assert_string_equal(seen, "a no_money the account is empty \"tried\"");
    const struct report *end = states_end(END_FAILED);
    assert_string_equal(end->error_code, "no_money");
    assert_string_equal(end->error, "the account is empty");
}

static void without_an_error_state_the_execution_fails(void **state)
{
    (void)state;
    states_play = fails_in_a;
    states_start(STATES(A));
    const struct report *end = states_end(END_FAILED);
    assert_string_equal(end->error_code, "no_money");
    assert_string_equal(states_action(end, "outcome"), "\"failed\"");
    assert_string_equal(states_action(end, "next"), "");
}

static void always_retries(struct weir_call *call)
{
    weir_retry(call, "busy", "later");
}

static void retries_end_by_the_policy_of_the_state(void **state)
{
    (void)state;
    states_play = always_retries;
    states_start(STATES("\"a\":{\"handler\":\"act\",\"retry\":{\"attempts\":3,\"backoff\":\"1ms\"},\"on_failure\":\"m\"},"
                        "\"m\":{\"type\":\"manual\"}"));
    for (int i = 0; i < 5; i++) {
        states_now_us += MICROSECONDS_PER_SECOND;
        (void)states_run();
    }
    assert_int_equal(states_calls, 3);
    const struct report *manual = states_wait(3);
    assert_string_equal(manual->step.signal, "manual:state");
    assert_int_equal(manual->step.failures, 0);
    const struct report *park = recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
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
    states_play = goes_nowhere;
    states_start(STATES(A));
    const struct report *wait = states_wait(1);
    assert_string_equal(wait->step.error_code, "unknown_state");
    assert_true(wait->step.due_in_us == HOUR_US);
    assert_int_equal(wait->step.failures, 0);
    assert_string_equal(wait->step.variables, "{\"state\":\"a\",\"variables\":{\"n\":1}}");
    assert_string_equal(states_action(wait, "outcome"), "\"unknown\"");
    assert_string_equal(states_action(wait, "next"), "\"nowhere\"");
    assert_int_equal(recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 1)->waiting_for, WAIT_RETRY);
}

#define LONG_NAME "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void goes_to_a_longer_name(struct weir_call *call)
{
    weir_next(call, LONG_NAME "b");
}

static void a_name_that_is_cut_is_no_state(void **state)
{
    (void)state;
    states_play = goes_to_a_longer_name;
    states_start(STATES(A ",\"" LONG_NAME "\":{\"type\":\"end\"}"));
    assert_string_equal(states_wait(1)->step.error_code, "unknown_state");
}

static void an_unknown_state_is_an_error_by_setting(void **state)
{
    (void)state;
    states_play = goes_nowhere;
    states_start("{\"name\":\"t\",\"states\":{" A
                 ",\"e\":{\"type\":\"error\"}},\"on_error\":\"e\",\"unknown_state\":\"error\"}");
    const struct report *end = states_end(END_FAILED);
    assert_string_equal(end->error_code, "unknown_state");
}

static void start_with_machine(char *variables)
{
    struct step_record step = {
        .step = "state", .attempt = 4, .state = STEP_WAITING, .exit_code = -1, .variables = variables};
    struct engine_start again = engine_fixture_start_of(1, STATES(A "," END), "{}");
    again.steps = &step;
    again.step_count = 1;
    engine_fixture_start_with(&states_engine, &again);
    (void)states_run();
}

static void a_state_on_record_that_is_unknown_is_put_back(void **state)
{
    (void)state;
    states_play = goes_to_done;
    char variables[] = "{\"state\":\"gone\",\"variables\":{\"n\":3}}";
    start_with_machine(variables);
    assert_int_equal(states_calls, 0);
    assert_string_equal(states_wait(1)->step.error_code, "unknown_state");
    assert_string_equal(states_wait(1)->step.variables, "{\"state\":\"gone\",\"variables\":{\"n\":3}}");
    assert_int_equal(states_wait(1)->step.attempt, 5);
}

static void a_state_that_next_does_not_list_is_a_failure(void **state)
{
    (void)state;
    states_play = goes_to_done;
    states_start(STATES("\"a\":{\"handler\":\"act\",\"next\":[\"b\"]}," B "," END));
    assert_string_equal(states_end(END_FAILED)->error_code, "transition_not_allowed");
}

static void a_machine_that_cannot_be_read_fails(void **state)
{
    (void)state;
    states_play = goes_to_done;
    char variables[] = "{\"state\":7}";
    start_with_machine(variables);
    assert_int_equal(states_calls, 0);
    assert_string_equal(states_end(END_FAILED)->error_code, "variables_invalid");
}

/* --- bounds --- */

/* No report could bring it: the execution ends, and the node keeps its other claims. */
static void a_machine_that_is_too_large_fails(void **state)
{
    static char variables[STATE_VARIABLES_BYTES_MAX + 100];
    (void)state;
    states_play = goes_to_done;
    int head = snprintf(variables, sizeof variables, "{\"state\":\"a\",\"variables\":{\"note\":\"");
    memset(variables + head, 'x', STATE_VARIABLES_BYTES_MAX);
    memcpy(variables + head + STATE_VARIABLES_BYTES_MAX, "\"}}", 4);
    start_with_machine(variables);
    assert_int_equal(states_calls, 0);
    assert_string_equal(states_end(END_FAILED)->error_code, "variables_invalid");
}

static void goes_round(struct weir_call *call)
{
    weir_next(call, NULL);
}

static void a_hundred_states_in_a_row_force_a_delay(void **state)
{
    (void)state;
    states_play = goes_round;
    states_start(STATES(A));
    for (int i = 0; i < 50; i++) {
        (void)states_run();
    }
    assert_int_equal(states_calls, 100);
    assert_true(states_wait(100)->step.due_in_us == STATES_BUSY_DELAY_US);
    assert_true(states_wait(99)->step.due_in_us == 0);
    assert_int_equal(states_count(REPORT_PARKED), 1);
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
    assert_int_equal(weir_call_enqueue(call, "other", "{\"a\":[\"\\u0000\"]}", NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_enqueue(call, "No Name", NULL, NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_enqueue(call, "other", "[]", NULL, &error), WEIR_INVALID_ARGUMENT);
    memcpy(params, "{\"a\":\"", 6);
    memset(params + 6, 'x', PARAMS_BYTES_MAX - 8);
    memcpy(params + PARAMS_BYTES_MAX - 2, "\"}", 3);
    for (int i = 0; i <= CHILDREN_PLAN_BYTES_MAX / PARAMS_BYTES_MAX; i++) {
        enum weir_status expected = i < CHILDREN_PLAN_BYTES_MAX / PARAMS_BYTES_MAX ? WEIR_OK : WEIR_INVALID_ARGUMENT;
        assert_int_equal(weir_call_enqueue(call, "other", params, NULL, &error), expected);
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
    states_play = sets_a_deep_variable;
    states_start(definition);
    states_claim_again(definition, states_wait(1), NULL, 0);
    (void)states_end(END_COMPLETED);
}

static void variables_are_typed_and_bounded(void **state)
{
    (void)state;
    states_play = breaks_the_rules_of_variables;
    states_start(STATES(A "," END));
    assert_string_equal(states_end(END_COMPLETED)->step.output, "{\"n\":1,\"note\":null}");
}

/* --- the node and its claim --- */

/* The store refuses the record: nothing goes on here. */
static void a_stale_fence_stops_the_machine(void **state)
{
    (void)state;
    states_play = goes_to_b_and_ends;
    states_engine.recorder.is_manual = true;
    engine_fixture_start(&states_engine, 1, STATES(A "," B), "{}");
    (void)states_run();
    assert_int_equal(states_calls, 1);
    recorder_answer(&states_engine.recorder, states_wait(1), WEIR_STALE_FENCE);
    (void)states_run();
    assert_int_equal(states_calls, 1);
    assert_int_equal(states_count(REPORT_ENDED), 0);
    states_engine.recorder.is_manual = false;
}

/* A node died in a run without a record: its number is not used again, and the next run is on record before it begins. */
static void a_lost_run_keeps_its_number(void **state)
{
    (void)state;
    states_play = goes_to_done;
    struct engine_start again = engine_fixture_start_of(1, STATES(A "," END), "{}");
    again.interruptions = 1;
    again.lost_a_node = true;
    engine_fixture_start_with(&states_engine, &again);
    (void)states_run();
    const struct report *running = recorder_wait(&states_engine.recorder, REPORT_STEP, NULL, "state", STEP_RUNNING, 1);
    assert_int_equal(running->step.attempt, 2);
    assert_string_equal(running->step.variables, "{\"state\":\"a\",\"variables\":{\"n\":1}}");
    assert_null(running->step.action);
    assert_string_equal(states_action(states_end(END_COMPLETED), "action"), "2");
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
    states_play = answers_as_a_step;
    states_start("{\"name\":\"t\",\"steps\":{\"s\":{\"handler\":\"act\"}}}");
    assert_string_equal(states_end(END_FAILED)->error_code, "no_states");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_test, close_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_next_state_runs_at_once_with_the_variables),
        TEST(an_end_state_completes_with_the_variables),
        TEST(a_time_in_the_past_is_at_once),
        TEST(a_delayed_state_is_parked),
        TEST(a_change_of_state_ends_the_suspicion),
        TEST(a_suspect_is_parked_in_a_manual_state),
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
        TEST(a_stale_fence_stops_the_machine),
        TEST(a_lost_run_keeps_its_number),
        TEST(a_step_has_no_next_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
