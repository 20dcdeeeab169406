/* The states of a workflow: one step that runs the handler of the present state, again and again.
 *
 *   1. An attempt begins (step_states_begin()). A state without a handler ends the execution or waits for a person. Any
 *      other one is called as a handler step is, with the variables, and with the signal that it waited for.
 *   2. The answer decides (step_states_take_answer()). It changes the machine in memory and reports the step: WAITING with
 * a delay, without a time, or final. The report brings the machine and the action, so the store has all or nothing of it.
 *   3. The durable record makes the step sleep (step_states_sleep()). A state without a delay is due at once, so the next
 *      turn of the loop begins its attempt, under the same claim.
 *   4. A failure (step_states_fail()) is an attempt more, while the policy of the state allows one. Then the state of
 *      `on_failure` follows, else that of `on_error`, else the step and its execution fail.
 *
 * The machine changes before its record. That is safe: without the record the node has lost the claim, and nobody reads the
 * machine any more. A function here must not use its step after it has settled the execution; none of them settles.
 */
#include "engine/in_process/step_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/state_changes.h"
#include "engine/in_process/call_states.h"
#include "engine/in_process/handler_pool.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_signal.h"
#include "queue/retry.h"

#define UNKNOWN_STATE "unknown_state"
enum { ANSWERS_RECOVERED = 2 };
/* Beside the variables there are names and a text of at most ERROR_TEXT_MAX bytes, each of which JSON may write as six. */
enum {
    MACHINE_BYTES_MAX = STATE_VARIABLES_BYTES_MAX + 16 * 1024 + 6 * ERROR_TEXT_MAX,
    ACTION_BYTES_MAX = CHILDREN_PLAN_BYTES_MAX + 64 * 1024
};

static const struct definition_states *states_of(const struct step_run *run)
{
    return run->execution->definition->definition->states;
}

/* NULL: the definition does not have it. */
static const struct state *present_state(const struct step_run *run)
{
    int index = states_find(states_of(run), run->machine->state);
    return index < 0 ? NULL : &states_of(run)->states[index];
}

static void drop_arrived(struct state_machine *machine)
{
    kept_signal_free(machine->arrived);
    machine->arrived = NULL;
}

/* --- the machine on record --- */

/* A machine that no report could bring is refused when it is read. The execution fails then, and the node keeps its claims.
 * A text far below the limit is not measured: no number grows more than eightfold when it is written. */
static bool is_too_large(const json_t *variables, size_t bytes_read)
{
    struct text text = {.max = STATE_VARIABLES_BYTES_MAX};
    bool is_large = bytes_read > STATE_VARIABLES_BYTES_MAX / 8 && json_write(variables, &text, NULL) == WEIR_FAILED;
    text_close(&text);
    return is_large;
}

static enum weir_status begin_machine(struct state_machine *machine, const struct definition_states *states)
{
    text_copy(machine->state, sizeof machine->state, states->states[states->initial].name);
    machine->variables = json_object();
    bool is_fine = machine->variables != NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < states->variable_count && is_fine; i++) {
        const struct state_variable *variable = &states->variables[i];
        if (variable->initial != NULL) {
            json_t *value = NULL;
            is_fine = json_read(variable->initial, strlen(variable->initial), &value, NULL) == WEIR_OK &&
                      json_object_set_new(machine->variables, variable->name, value) == 0;
            bytes += strlen(variable->initial);
        }
    }
    return !is_fine ? WEIR_OUT_OF_MEMORY : is_too_large(machine->variables, bytes) ? WEIR_FAILED : WEIR_OK;
}

static void copy_field(char *to, size_t size, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    text_copy(to, size, text == NULL ? "" : text);
}

static enum weir_status restore_machine(struct state_machine *machine, const struct step_record *record)
{
    json_t *root = NULL;
    enum weir_status status = json_read(record->variables, strlen(record->variables), &root, NULL);
    const json_t *variables = json_object_get(root, "variables");
    const json_t *failure = json_object_get(root, "failure");
    const char *text = json_string_value(json_object_get(failure, "message"));
    if (status == WEIR_OK && (!json_is_object(variables) || !json_is_string(json_object_get(root, "state")) ||
                              is_too_large(variables, strlen(record->variables)))) {
        status = WEIR_FAILED;
    }
    if (status == WEIR_OK) {
        machine->variables = json_deep_copy(variables);
        machine->failure = text == NULL ? NULL : strdup(text);
        machine->in_a_row = (int)json_integer_value(json_object_get(root, "in_a_row"));
        copy_field(machine->state, sizeof machine->state, root, "state");
        copy_field(machine->signal, sizeof machine->signal, root, "signal");
        copy_field(machine->failed_state, sizeof machine->failed_state, failure, "state");
        copy_field(machine->failure_code, sizeof machine->failure_code, failure, "code");
        machine->answers_since = (int)json_integer_value(json_object_get(root, "answers_since"));
        machine->waits = record->state == STEP_WAITING && record->signal[0] != '\0';
        machine->is_retry = record->state == STEP_WAITING && record->error_code[0] != '\0';
        if (machine->waits) {
            text_copy(machine->signal, sizeof machine->signal, record->signal);
        }
        status = machine->variables == NULL || (text != NULL && machine->failure == NULL) ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    }
    json_decref(root);
    return status == WEIR_OK || status == WEIR_OUT_OF_MEMORY ? status : WEIR_FAILED;
}

enum weir_status step_states_open(struct step_run *run, const struct step_record *record)
{
    INVARIANT(run->machine == NULL && step_run_step(run)->kind == STEP_STATES);
    struct state_machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    run->machine = machine;
    enum weir_status status = record != NULL && record->variables != NULL ? restore_machine(machine, record)
                                                                          : begin_machine(machine, states_of(run));
    if (status == WEIR_FAILED) { /* the report of the failure leaves the machine out, and the store keeps its own */
        json_decref(machine->variables);
        machine->variables = NULL;
    }
    return status;
}

void step_states_close(struct step_run *run)
{
    INVARIANT(run != NULL);
    struct state_machine *machine = run->machine;
    if (machine != NULL) {
        drop_arrived(machine);
        json_decref(machine->variables);
        free(machine->failure);
        free(machine->action);
        free(machine);
        run->machine = NULL;
    }
}

/* malloc'ed; NULL when out of memory. */
static char *write_machine(const struct state_machine *machine)
{
    struct text text = {.max = MACHINE_BYTES_MAX};
    json_t *root = json_object();
    bool is_fine = root != NULL && json_object_set_new(root, "state", json_string(machine->state)) == 0 &&
                   json_object_set(root, "variables", machine->variables) == 0;
    if (is_fine && machine->in_a_row > 0) {
        is_fine = json_object_set_new(root, "in_a_row", json_integer(machine->in_a_row)) == 0;
    }
    if (is_fine && machine->signal[0] != '\0') {
        is_fine = json_object_set_new(root, "signal", json_string(machine->signal)) == 0;
    }
    if (is_fine && machine->failed_state[0] != '\0') {
        json_t *failure = json_pack("{s:s, s:s, s:s?}", "state", machine->failed_state, "code", machine->failure_code,
                                    "message", machine->failure);
        is_fine = json_object_set_new(root, "failure", failure) == 0 &&
                  json_object_set_new(root, "answers_since", json_integer(machine->answers_since)) == 0;
    }
    is_fine = is_fine && json_write(root, &text, NULL) == WEIR_OK;
    json_decref(root);
    if (!is_fine) {
        text_close(&text);
        return NULL;
    }
    return text.data;
}

enum weir_status step_states_fill_report(struct step_run *run, struct report *report)
{
    INVARIANT(run->machine != NULL && report->step.variables == NULL);
    if (run->machine->variables == NULL) {
        return WEIR_OK; /* its record cannot be read, and the execution ends by that */
    }
    report->step.variables = write_machine(run->machine);
    report->step.action = run->machine->action; /* which the report owns now */
    run->machine->action = NULL;
    return report->step.variables == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
}

/* --- the action on record --- */

struct ended_action {
    const char *state; /* that has run */
    const char *outcome;
    const char *next; /* NULL: none */
    const char *code; /* of a failure, or NULL */
    const char *error;
    const struct call_states *call; /* NULL: the handler gave no answer */
    bool starts_children;
    bool awaits_children;
};

/* The values of the changed variables, or their names where these are too long for a history. */
static json_t *changes_of(const struct call_states *call)
{
    json_t *changes = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(call->changed, name, value)
    {
        (void)json_object_set(changes, name, json_object_get(call->variables, name));
    }
    json_t *shown = changes == NULL ? NULL : state_changes_shown(changes);
    json_decref(changes);
    return shown;
}

/* As step_children.c writes the plan of a start step. Only the children that the next state waits for send a signal. Those
 * with keys go on behind the end of the execution, because others may wait for them. */
static json_t *plans_of(const struct ended_action *action)
{
    json_t *plans = json_array();
    for (const struct call_plan *plan = action->call->plans; plan != NULL; plan = plan->next) {
        json_int_t count = (json_int_t)json_array_size(plan->children);
        bool is_awaited = action->awaits_children && !plan->leaves;
        json_t *value =
            json_pack("{s:s, s:n, s:n, s:i, s:i, s:I, s:I, s:i, s:O}", "workflow", plan->workflow, "executor_group",
                      "priority", "is_single", 0, "waits_for_all", is_awaited, "wanted", is_awaited ? count : (json_int_t)0,
                      "max_parallel", count, "leaves", plan->leaves || plan->keys != NULL, "children", plan->children);
        bool has_keys = plan->keys == NULL || (value != NULL && json_object_set(value, "keys", plan->keys) == 0);
        if (json_array_append_new(plans, value) != 0 || !has_keys) {
            json_decref(plans);
            return NULL;
        }
    }
    return plans;
}

/* Keeps the action for the next report. False: memory ran out, or its children are too large. */
static bool note_action(struct step_run *run, const struct ended_action *action)
{
    struct text text = {.max = ACTION_BYTES_MAX};
    char next[STEP_ID_MAX + 1];
    char *error = action->error == NULL ? NULL : strdup(action->error);
    int64_t now_us = loop_now(&run->execution->runner->loop);
    int64_t ran_us = run->machine->began_us == 0 ? 0 : now_us - run->machine->began_us;
    text_copy(next, sizeof next, action->next == NULL ? "" : action->next);
    text_make_safe(next);
    if (error != NULL) {
        text_make_safe(error);
    }
    json_t *root = json_pack("{s:i, s:s, s:s, s:s?, s:s?, s:s?, s:I}", "action", run->attempt, "state", action->state,
                             "outcome", action->outcome, "next", action->next == NULL ? NULL : next, "code", action->code,
                             "error", error, "ran_us", (json_int_t)ran_us);
    bool is_fine = root != NULL && (action->error == NULL || error != NULL);
    free(error);
    if (is_fine && action->call != NULL && json_object_size(action->call->changed) > 0) {
        is_fine = json_object_set_new(root, "variables", changes_of(action->call)) == 0;
    }
    if (is_fine && action->starts_children && action->call->plans != NULL) {
        is_fine = json_object_set_new(root, "plans", plans_of(action)) == 0;
    }
    is_fine = is_fine && json_write(root, &text, NULL) == WEIR_OK;
    json_decref(root);
    free(run->machine->action);
    run->machine->action = is_fine ? text.data : NULL;
    run->machine->began_us = 0;
    if (!is_fine) {
        text_close(&text);
    }
    return is_fine;
}

/* --- entering a state --- */

/* The action of the record that follows is noted. */
static void wait_in_state(struct step_run *run, int64_t delay_us, const char *signal)
{
    struct state_machine *machine = run->machine;
    text_copy(machine->signal, sizeof machine->signal, signal);
    machine->waits = signal[0] != '\0';
    machine->is_retry = false;
    step_run_report_waiting(run, delay_us, NULL);
}

static void fail_execution(struct step_run *run, const char *code, const char *error)
{
    char own_code[ERROR_CODE_MAX + 1];
    char *own_error = error == NULL ? NULL : strdup(error);
    text_copy(own_code, sizeof own_code, code);
    struct step_outcome outcome = {.code = own_code, .error = own_error};
    run->failures += run->failures == 0;
    step_run_report_final(run, STEP_FAILED, &outcome);
    free(own_error);
}

/* The failure counts if the handler of the state behind it has led here, which may have cleaned up. With more states
 * between them it was dealt with. */
static void fail_in_error_state(struct step_run *run)
{
    const struct state_machine *machine = run->machine;
    bool is_failure = machine->failed_state[0] != '\0' && machine->answers_since < ANSWERS_RECOVERED;
    fail_execution(run, is_failure ? machine->failure_code : "error_state",
                   is_failure ? machine->failure : "the execution has reached an error state");
}

/* The output of an execution that reaches an `end` state is its variables. */
static void complete_with_variables(struct step_run *run)
{
    struct text text = {.max = STEP_OUTPUT_BYTES_MAX};
    if (json_write(run->machine->variables, &text, NULL) != WEIR_OK) {
        text_close(&text);
        engine_note_lost_report(&run->execution->runner->base); /* the next claim finds the state before */
        return;
    }
    struct step_outcome outcome = {.output = text.data, .output_length = text.length}; /* which the report owns now */
    step_run_report_final(run, STEP_COMPLETED, &outcome);
}

/* The state follows now, after `delay_us`, or after the signal. A state without a handler is entered for good when the wait
 * has ended: the children that the answer waits for must not be cancelled by an end. */
static void enter_state(struct step_run *run, const struct state *state, int64_t delay_us, const char *signal)
{
    struct state_machine *machine = run->machine;
    text_copy(machine->state, sizeof machine->state, state->name);
    run->failures = 0;
    if (run->execution->ending > ENDING_GIVEN_BACK) {
        machine->signal[0] = '\0';
        step_run_report_final(run, STEP_CANCELLED, NULL);
    } else if (delay_us != 0 || signal[0] != '\0') {
        wait_in_state(run, delay_us, signal);
    } else if (state->type == STATE_MANUAL) {
        machine->in_a_row = 0;
        wait_in_state(run, TIME_NEVER, MANUAL_SIGNAL STATES_STEP);
    } else if (state->type == STATE_END) {
        complete_with_variables(run);
    } else if (state->handler == NULL) {
        fail_in_error_state(run);
    } else {
        wait_in_state(run, delay_us, signal);
    }
}

/* The delay before a state that follows at once. One without a handler ends the row. */
static int64_t delay_of_next(struct state_machine *machine, const struct state *next)
{
    if (++machine->in_a_row < STATES_IN_A_ROW_MOST || next->handler == NULL) {
        return 0;
    }
    machine->in_a_row = 0;
    return STATES_BUSY_DELAY_US;
}

/* --- an attempt --- */

/* The signal of the state is used up with the record that follows. */
static void consume_arrived(struct step_run *run)
{
    if (run->machine->arrived != NULL) {
        run->signal_seq = run->machine->arrived->seq;
        drop_arrived(run->machine);
    }
}

/* The execution waits with the state, or fails by it. */
static void meet_unknown_state(struct step_run *run, const char *name, const struct call_states *call)
{
    char text[STEP_ID_MAX + 128];
    (void)snprintf(text, sizeof text, "the definition has no state \"%.64s\"", name);
    text_make_safe(text);
    struct step_outcome outcome = {.is_final = true, .code = UNKNOWN_STATE, .error = text};
    if (states_of(run)->unknown_fails) {
        run->failures++;
        step_states_fail(run, &outcome);
        return;
    }
    const struct ended_action action = {.state = run->machine->state,
                                        .outcome = "unknown",
                                        .next = name,
                                        .code = UNKNOWN_STATE,
                                        .error = text,
                                        .call = call};
    (void)note_action(run, &action);
    run->machine->is_retry = true;
    run->machine->waits = false;
    step_run_report_waiting(run, STATE_UNKNOWN_DELAY_US, &outcome);
}

bool step_states_begin(struct step_run *run)
{
    struct state_machine *machine = run->machine;
    INVARIANT(machine != NULL && run->attempt > 0);
    const struct state *state = present_state(run);
    machine->is_retry = false;
    if (state == NULL) {
        meet_unknown_state(run, machine->state, NULL);
        return false;
    }
    if (machine->signal[0] != '\0' && machine->arrived == NULL) {
        machine->waits = true;
        (void)step_states_take_signal(run);
    }
    machine->waits = false;
    if (state->handler == NULL) {
        consume_arrived(run);
        enter_state(run, state, 0, "");
    }
    return state->handler != NULL;
}

const struct weir_handler *step_states_handler(const struct step_run *run)
{
    const struct state *state = present_state(run);
    INVARIANT(state != NULL && state->handler != NULL);
    return run->execution->definition->handlers[state - states_of(run)->states];
}

int64_t step_states_timeout(const struct step_run *run)
{
    INVARIANT(run->machine != NULL);
    const struct state *state = present_state(run);
    return state == NULL ? 0 : state->timeout_us;
}

enum weir_status step_states_fill_call(struct step_run *run, struct weir_call *call)
{
    const struct state_machine *machine = run->machine;
    const struct state *state = present_state(run);
    INVARIANT(state != NULL && call->states == NULL);
    struct call_states *states = call_states_new(states_of(run), state->name, machine->variables);
    if (states == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    call->states = states;
    call->step = state->name;
    states->signal = machine->arrived == NULL ? NULL : strdup(machine->arrived->data);
    states->failure = machine->failure == NULL ? NULL : strdup(machine->failure);
    text_copy(states->failed_state, sizeof states->failed_state, machine->failed_state);
    text_copy(states->failure_code, sizeof states->failure_code, machine->failure_code);
    run->machine->began_us = loop_now(&run->execution->runner->loop);
    bool is_fine =
        (machine->arrived == NULL || states->signal != NULL) && (machine->failure == NULL || states->failure != NULL);
    return is_fine ? WEIR_OK : WEIR_OUT_OF_MEMORY;
}

/* --- waits --- */

const char *step_states_awaits(const struct step_run *run)
{
    INVARIANT(run->machine != NULL);
    return run->machine->waits ? run->machine->signal : NULL;
}

bool step_states_take_signal(struct step_run *run)
{
    INVARIANT(run->machine != NULL);
    struct state_machine *machine = run->machine;
    struct kept_signal **link = &run->execution->signals;
    while (machine->waits && *link != NULL && strcmp((*link)->name, machine->signal) != 0) {
        link = &(*link)->next;
    }
    if (!machine->waits || *link == NULL) {
        return false;
    }
    drop_arrived(machine);
    machine->arrived = *link;
    *link = machine->arrived->next;
    machine->arrived->next = NULL;
    machine->waits = false;
    run->resume_us = loop_now(&run->execution->runner->loop);
    return true;
}

void step_states_sleep(struct step_run *run)
{
    INVARIANT(run->phase != PHASE_DONE);
    (void)step_wake_take(run);
    (void)step_states_take_signal(run);
}

/* --- answers --- */

static bool may_follow(const struct state *state, const struct definition_states *states, const char *next)
{
    bool is_allowed = !state->has_next;
    for (size_t i = 0; i < state->next_count; i++) {
        is_allowed = is_allowed || strcmp(states->states[state->next[i]].name, next) == 0;
    }
    return is_allowed;
}

static void refuse_answer(struct step_run *run, const char *code, const char *error)
{
    struct step_outcome outcome = {.is_final = true, .code = code, .error = error};
    step_run_finish(run, &outcome);
}

static void follow_next(struct step_run *run, struct call_states *answer)
{
    struct state_machine *machine = run->machine;
    const struct definition_states *states = states_of(run);
    const struct state *from = present_state(run);
    char signal[SIGNAL_KEPT_NAME_MAX + 1] = "";
    INVARIANT(from != NULL);
    int next = states_find(states, answer->next);
    if (next < 0) {
        meet_unknown_state(run, answer->next, answer);
        return;
    }
    if (!may_follow(from, states, answer->next)) {
        refuse_answer(run, "transition_not_allowed", "the handler answers with a state that \"next\" does not list");
        return;
    }
    const struct ended_action action = {.state = from->name,
                                        .outcome = answer->awaits[0] != '\0' || answer->awaits_children ? "wait" : "next",
                                        .next = states->states[next].name,
                                        .call = answer,
                                        .starts_children = true,
                                        .awaits_children = answer->awaits_children};
    if (!note_action(run, &action)) {
        refuse_answer(run, "children_too_large", "the params of the children of one action are larger than 4 MiB");
        return;
    }
    if (answer->awaits_children) {
        int place = 0;
        for (const struct call_plan *plan = answer->plans; plan->leaves; plan = plan->next) {
            place++;
        }
        (void)snprintf(signal, sizeof signal, CHILDREN_SIGNAL STATES_STEP ".%d.%d", run->attempt, place);
    } else {
        text_copy(signal, sizeof signal, answer->awaits);
    }
    consume_arrived(run);
    machine->answers_since += machine->answers_since < ANSWERS_RECOVERED;
    int64_t delay_us = answer->delay_us;
    if (answer->is_immediate || delay_us < STATES_SHORT_DELAY_US) {
        int64_t busy_us = delay_of_next(machine, &states->states[next]);
        delay_us = answer->is_immediate || busy_us > 0 ? busy_us : delay_us;
    } else {
        machine->in_a_row = 0;
    }
    enter_state(run, &states->states[next], delay_us, signal);
}

/* weir_done(): the end, also without an `end` state. In an error state the failure stands. */
static void take_done(struct step_run *run, struct weir_call *call)
{
    const struct state *state = present_state(run);
    struct state_machine *machine = run->machine;
    const struct ended_action action = {
        .state = machine->state, .outcome = "done", .call = call->states, .starts_children = true};
    if (!note_action(run, &action)) {
        refuse_answer(run, "children_too_large", "the params of the children of one action are larger than 4 MiB");
        return;
    }
    consume_arrived(run);
    if (state != NULL && state->type == STATE_ERROR) {
        fail_in_error_state(run);
        return;
    }
    struct step_outcome outcome = {.output = call->output,
                                   .output_length = call->output == NULL ? 0 : strlen(call->output)};
    call->output = NULL;
    step_run_report_final(run, STEP_COMPLETED, &outcome);
}

bool step_states_take_answer(struct step_run *run, struct weir_call *call)
{
    struct call_states *answer = call->states;
    bool is_answer =
        call->result == CALL_NEXT || call->result == CALL_DONE || call->result == CALL_RETRY || call->result == CALL_FAILED;
    INVARIANT(run->machine != NULL);
    if (answer == NULL || !is_answer || run->execution->ending == ENDING_ABANDONED) {
        return false;
    }
    json_t *before = run->machine->variables;
    run->machine->variables = json_incref(answer->variables);
    json_decref(before);
    if (call->result == CALL_NEXT) {
        follow_next(run, answer);
    } else if (call->result == CALL_DONE) {
        take_done(run, call);
    } else {
        struct step_outcome outcome = {.is_final = call->result == CALL_FAILED,
                                       .has_delay = call->result == CALL_RETRY && call->retry_delay_us >= 0,
                                       .delay_us = call->retry_delay_us,
                                       .code = call->code,
                                       .error = call->error,
                                       .states = answer};
        step_run_finish(run, &outcome);
    }
    return true;
}

/* --- failures --- */

static bool may_retry(const struct step_run *run, const struct state *state, const struct step_outcome *outcome)
{
    const struct step_retry *retry = &state->retry;
    const struct retry_policy policy = {.attempts_max = retry->attempts};
    bool is_excluded = false;
    for (size_t i = 0; i < retry->not_on_count; i++) {
        is_excluded = is_excluded || strcmp(retry->not_on[i], outcome->code) == 0;
    }
    return !outcome->is_final && !is_excluded && retry_allows(&policy, run->failures);
}

static void keep_failure(struct step_run *run, const struct step_outcome *outcome)
{
    struct state_machine *machine = run->machine;
    char *text = outcome->error == NULL ? NULL : strdup(outcome->error);
    if (text != NULL) {
        text_make_safe(text); /* a part of JSON from here on */
    }
    free(machine->failure);
    machine->failure = text;
    machine->answers_since = 0;
    text_copy(machine->failed_state, sizeof machine->failed_state, machine->state);
    text_copy(machine->failure_code, sizeof machine->failure_code, outcome->code);
    text_make_safe(machine->failure_code);
}

/* The state after a failure, or NULL. A failure in the state of `on_error` ends the execution. */
static const struct state *state_after_failure(const struct step_run *run, const struct state *state)
{
    const struct definition_states *states = states_of(run);
    int next = state != NULL ? state->on_failure : -1;
    bool is_error_state = state != NULL && states->on_error == (int)(state - states->states);
    next = next < 0 && !is_error_state ? states->on_error : next;
    return next < 0 ? NULL : &states->states[next];
}

void step_states_fail(struct step_run *run, struct step_outcome *outcome)
{
    struct state_machine *machine = run->machine;
    const struct state *state = present_state(run);
    enum ending ending = run->execution->ending;
    bool goes_on = ending == ENDING_NONE || ending == ENDING_GIVEN_BACK;
    struct ended_action action = {
        .state = machine->state, .code = outcome->code, .error = outcome->error, .call = outcome->states};
    char state_name[STEP_ID_MAX + 1];
    INVARIANT(outcome->code != NULL && run->failures > 0);
    text_copy(state_name, sizeof state_name, machine->state);
    action.state = state_name;
    if (goes_on && state != NULL && may_retry(run, state, outcome)) {
        const struct retry_policy policy = {.attempts_max = state->retry.attempts,
                                            .backoff_us = state->retry.backoff_us,
                                            .factor = state->retry.factor,
                                            .max_us = state->retry.max_us};
        action.outcome = "retry";
        (void)note_action(run, &action);
        machine->is_retry = true;
        machine->waits = false;
        step_run_report_waiting(run,
                                outcome->has_delay ? outcome->delay_us
                                                   : retry_delay(&policy, run->failures, &run->execution->runner->random),
                                outcome);
        return;
    }
    const struct state *next = goes_on ? state_after_failure(run, state) : NULL;
    action.outcome = "failed";
    action.next = next == NULL ? NULL : next->name;
    (void)note_action(run, &action);
    consume_arrived(run);
    if (next == NULL) {
        step_run_report_final(run, STEP_FAILED, outcome);
        return;
    }
    keep_failure(run, outcome);
    enter_state(run, next, delay_of_next(machine, next), "");
}
