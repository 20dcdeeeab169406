/* The functions of weir/handler.h for handlers of states.
 *
 * A handler reads and sets variables, names children, and answers with the next state. All of it stays in the call until
 * the loop takes the answer (step_states.c), so a handler that is lost leaves nothing behind. The checks of names, types
 * and sizes are made here, in the thread of the handler, which can still do something about a refusal. Only an unknown next
 * state is judged by the loop: the definition says what follows from it.
 */
#include "engine/in_process/call_states.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/in_process/handler_pool.h"
#include "engine/in_process/step_children.h"

#define EXPORTED __attribute__((visibility("default")))

/* A delay or a timeout beyond this is cut. */
#define STATE_DELAY_MAX_US DEFINITION_DURATION_US_MAX

struct call_states *call_states_new(const struct definition_states *definition, const char *state, const json_t *variables)
{
    INVARIANT(definition != NULL && state != NULL && variables != NULL);
    struct call_states *states = calloc(1, sizeof *states);
    if (states == NULL) {
        return NULL;
    }
    states->definition = definition;
    states->state = state;
    states->variables = json_deep_copy(variables);
    states->changed = json_object();
    states->texts = json_object();
    if (states->variables == NULL || states->changed == NULL || states->texts == NULL) {
        call_states_free(states);
        return NULL;
    }
    return states;
}

static void free_plan(struct call_plan *plan)
{
    json_decref(plan->children);
    json_decref(plan->keys);
    free(plan);
}

void call_states_free(struct call_states *states)
{
    if (states == NULL) {
        return;
    }
    INVARIANT(states->definition != NULL);
    while (states->plans != NULL) {
        struct call_plan *plan = states->plans;
        states->plans = plan->next;
        free_plan(plan);
    }
    json_decref(states->variables);
    json_decref(states->changed);
    json_decref(states->texts);
    free(states->signal);
    free(states->failure);
    free(states);
}

/* --- what a handler reads --- */

EXPORTED const char *weir_call_state(const struct weir_call *call)
{
    INVARIANT(call != NULL);
    return call->states == NULL ? NULL : call->states->state;
}

EXPORTED const char *weir_call_signal(const struct weir_call *call)
{
    INVARIANT(call != NULL);
    return call->states == NULL ? NULL : call->states->signal;
}

EXPORTED const char *weir_call_failed_state(const struct weir_call *call)
{
    INVARIANT(call != NULL);
    return call->states == NULL || call->states->failed_state[0] == '\0' ? NULL : call->states->failed_state;
}

EXPORTED const char *weir_call_failure_code(const struct weir_call *call)
{
    INVARIANT(call != NULL);
    return weir_call_failed_state(call) == NULL ? NULL : call->states->failure_code;
}

EXPORTED const char *weir_call_failure(const struct weir_call *call)
{
    INVARIANT(call != NULL);
    return weir_call_failed_state(call) == NULL ? NULL : call->states->failure;
}

EXPORTED const char *weir_call_variable(struct weir_call *call, const char *name)
{
    INVARIANT(call != NULL);
    struct call_states *states = call->states;
    if (states == NULL || name == NULL || json_object_get(states->variables, name) == NULL) {
        return NULL;
    }
    const char *known = json_string_value(json_object_get(states->texts, name));
    struct text text = {.max = STATE_VARIABLE_BYTES_MAX + 1};
    if (known != NULL || json_write(json_object_get(states->variables, name), &text, NULL) != WEIR_OK) {
        text_close(&text);
        return known;
    }
    bool is_kept = json_object_set_new(states->texts, name, json_stringn(text.data, text.length)) == 0;
    text_close(&text);
    return is_kept ? json_string_value(json_object_get(states->texts, name)) : NULL;
}

/* --- what a handler sets --- */

/* The states of a call that may still be changed; NULL: the error says why. */
static struct call_states *open_states(struct weir_call *call, const char *what, struct weir_error *error)
{
    if (call->states == NULL) {
        (void)error_set(error, WEIR_MISUSE, "%s needs a workflow with \"states\", and this one has steps", what);
        return NULL;
    }
    if (call->result != CALL_NOTHING) {
        (void)error_set(error, WEIR_MISUSE, "%s comes after the answer of the handler", what);
        return NULL;
    }
    return call->states;
}

/* The bytes of all variables, with their names. */
static enum weir_status check_variables_size(const struct call_states *states, const char *name, const json_t *value,
                                             struct weir_error *error)
{
    struct text one = {.max = STATE_VARIABLE_BYTES_MAX};
    struct text all = {.max = STATE_VARIABLES_BYTES_MAX};
    json_t *copy = json_copy(states->variables);
    enum weir_status status = copy == NULL ? WEIR_OUT_OF_MEMORY : json_write(value, &one, NULL);
    if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the variable \"%s\" is longer than %d bytes", name,
                           STATE_VARIABLE_BYTES_MAX);
    } else if (status == WEIR_OK && json_object_set(copy, name, (json_t *)(uintptr_t)value) != 0) {
        status = WEIR_OUT_OF_MEMORY;
    } else if (status == WEIR_OK && (status = json_write(copy, &all, NULL)) != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "with the variable \"%s\" all variables are longer than %d bytes",
                           name, STATE_VARIABLES_BYTES_MAX);
    }
    text_close(&one);
    text_close(&all);
    json_decref(copy);
    return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(error) : status;
}

/* Takes over `value`. A NUL is refused here and in params of children. A store that reads no JSON with a NUL would fail
 * with the record of it, and with all others of its set. */
static enum weir_status set_variable(struct call_states *states, const struct state_variable *variable, json_t *value,
                                     struct weir_error *error)
{
    enum weir_status status = check_variables_size(states, variable->name, value, error);
    if (status == WEIR_OK && json_has_nul(value)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the variable \"%s\" has the character U+0000", variable->name);
    }
    if (status == WEIR_OK && !json_is_null(value) && !variable_accepts(variable->type, value)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the variable \"%s\" must be of the type %s, not %s",
                           variable->name, variable_type_name(variable->type), json_type_name(value));
    }
    if (status == WEIR_OK && (json_object_set(states->variables, variable->name, value) != 0 ||
                              json_object_set_new(states->changed, variable->name, json_true()) != 0)) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        (void)json_object_del(states->texts, variable->name);
    }
    json_decref(value);
    return status;
}

EXPORTED enum weir_status weir_call_set_variable(struct weir_call *call, const char *name, const char *value,
                                                 struct weir_error *error)
{
    INVARIANT(call != NULL);
    struct call_states *states = open_states(call, "weir_call_set_variable()", error);
    json_t *parsed = NULL;
    if (states == NULL) {
        return WEIR_MISUSE;
    }
    int index = name == NULL ? -1 : states_find_variable(states->definition, name);
    if (index < 0) {
        enum weir_status status =
            error_set(error, WEIR_INVALID_ARGUMENT, "the definition has no variable \"%.64s\"", name == NULL ? "" : name);
        error_hint(error, "list it under \"variables\" of the definition, with its type");
        return status;
    }
    const char *text = value == NULL ? "null" : value;
    enum weir_status status = json_read_below(text, strlen(text), -STATE_VARIABLE_LEVELS, &parsed, error);
    if (status == WEIR_OK) {
        status = set_variable(states, &states->definition->variables[index], parsed, error);
    }
    return status;
}

/* The plan for children of this workflow. */
static struct call_plan *plan_of(struct call_states *states, const char *workflow, bool leaves, bool has_keys)
{
    struct call_plan **end = &states->plans;
    while (*end != NULL) {
        if (strcmp((*end)->workflow, workflow) == 0 && (*end)->leaves == leaves && ((*end)->keys != NULL) == has_keys) {
            return *end;
        }
        end = &(*end)->next;
    }
    struct call_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return NULL;
    }
    text_copy(plan->workflow, sizeof plan->workflow, workflow);
    plan->leaves = leaves;
    plan->children = json_array();
    plan->keys = has_keys ? json_array() : NULL;
    if (plan->children == NULL || (has_keys && plan->keys == NULL)) {
        free_plan(plan);
        return NULL;
    }
    *end = plan;
    return plan;
}

/* Both or neither: the store wants a key for each child of such a plan. */
static bool add_to_plan(struct call_plan *plan, json_t *params, const char *key)
{
    if (key != NULL && json_array_append_new(plan->keys, json_string(key)) != 0) {
        return false;
    }
    if (json_array_append(plan->children, params) == 0) {
        return true;
    }
    (void)json_array_remove(plan->keys, json_array_size(plan->children));
    return false;
}

static enum weir_status check_child_key(const char *key, struct weir_error *error)
{
    if (key != NULL && !step_children_key_is_fit(key, strlen(key))) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the key of a child must be a text of 1 to %d bytes in UTF-8",
                         IDEMPOTENCY_KEY_MAX);
    }
    return WEIR_OK;
}

static enum weir_status name_child(struct weir_call *call, const char *what, const char *workflow, const char *params,
                                   const char *key, bool leaves, struct weir_error *error)
{
    struct call_states *states = open_states(call, what, error);
    json_t *parsed = NULL;
    const char *text = params == NULL ? "{}" : params;
    if (states == NULL) {
        return WEIR_MISUSE;
    }
    if (workflow == NULL || !name_is_valid(workflow)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s needs the name of a workflow", what);
    }
    if (states->child_count == STATE_CHILDREN_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "one action starts at most %d executions", STATE_CHILDREN_MOST);
    }
    if (strlen(text) > PARAMS_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the params are longer than %d bytes", PARAMS_BYTES_MAX);
    }
    if (states->child_bytes + strlen(text) > CHILDREN_PLAN_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the params of the children of one action are longer than %d bytes",
                         CHILDREN_PLAN_BYTES_MAX);
    }
    enum weir_status status = check_child_key(key, error);
    status = status == WEIR_OK ? json_read(text, strlen(text), &parsed, error) : status;
    if (status == WEIR_OK && !json_is_object(parsed)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the params must be a JSON object");
    }
    if (status == WEIR_OK && json_has_nul(parsed)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the params have the character U+0000");
    }
    struct call_plan *plan = status == WEIR_OK ? plan_of(states, workflow, leaves, key != NULL) : NULL;
    if (status == WEIR_OK && (plan == NULL || !add_to_plan(plan, parsed, key))) {
        status = error_out_of_memory(error);
    }
    states->child_count += status == WEIR_OK;
    states->child_bytes += status == WEIR_OK ? strlen(text) : 0;
    json_decref(parsed);
    return status;
}

EXPORTED enum weir_status weir_call_start_child(struct weir_call *call, const char *workflow, const char *params,
                                                const char *key, struct weir_error *error)
{
    INVARIANT(call != NULL);
    return name_child(call, "weir_call_start_child()", workflow, params, key, false, error);
}

EXPORTED enum weir_status weir_call_enqueue(struct weir_call *call, const char *workflow, const char *params,
                                            const char *key, struct weir_error *error)
{
    INVARIANT(call != NULL);
    return name_child(call, "weir_call_enqueue()", workflow, params, key, true, error);
}

/* --- the answer --- */

/* False: the call has no states, and has failed by that, or has its answer already. */
static bool may_answer(struct weir_call *call, const char *state)
{
    if (call->states == NULL) {
        weir_fail(call, "no_states", "the handler names a next state, and its workflow has steps");
        return false;
    }
    if (call->result != CALL_NOTHING) {
        return false;
    }
    text_copy(call->states->next, sizeof call->states->next, state == NULL ? call->states->state : state);
    return true;
}

static int64_t bounded_delay(int64_t delay_us)
{
    return delay_us < 0 ? 0 : delay_us < STATE_DELAY_MAX_US ? delay_us : STATE_DELAY_MAX_US;
}

EXPORTED void weir_next(struct weir_call *call, const char *state)
{
    INVARIANT(call != NULL);
    if (may_answer(call, state)) {
        call->states->is_immediate = true;
        handler_pool_answer_next(call);
    }
}

EXPORTED void weir_next_after(struct weir_call *call, const char *state, int64_t delay_us)
{
    INVARIANT(call != NULL);
    if (may_answer(call, state)) {
        call->states->delay_us = bounded_delay(delay_us);
        call->states->is_immediate = delay_us <= 0;
        handler_pool_answer_next(call);
    }
}

EXPORTED void weir_next_at(struct weir_call *call, const char *state, int64_t time_us)
{
    INVARIANT(call != NULL);
    int64_t now_us = time_add(clock_boot(call->engine->clock), call->store_ahead_us);
    weir_next_after(call, state, time_us <= now_us ? 0 : time_us - now_us);
}

EXPORTED void weir_next_on_signal(struct weir_call *call, const char *state, const char *signal, int64_t timeout_us)
{
    INVARIANT(call != NULL);
    if (!may_answer(call, state)) {
        return;
    }
    if (signal == NULL || states_find_signal(call->states->definition, signal) < 0) {
        weir_fail(call, "signal_unknown",
                  "the handler waits for a signal that \"signals\" of the definition does not list");
        return;
    }
    text_copy(call->states->awaits, sizeof call->states->awaits, signal);
    call->states->delay_us = timeout_us <= 0 ? TIME_NEVER : bounded_delay(timeout_us);
    handler_pool_answer_next(call);
}

EXPORTED void weir_next_on_children(struct weir_call *call, const char *state, int64_t timeout_us)
{
    INVARIANT(call != NULL);
    if (!may_answer(call, state)) {
        return;
    }
    size_t started = 0;
    for (const struct call_plan *plan = call->states->plans; plan != NULL; plan = plan->next) {
        started += !plan->leaves;
    }
    if (started != 1) {
        weir_fail(call, "children_invalid",
                  "a handler waits for the children that it has started, and these must be of one workflow, all with a key "
                  "or none");
        return;
    }
    call->states->awaits_children = true;
    call->states->delay_us = timeout_us <= 0 ? TIME_NEVER : bounded_delay(timeout_us);
    handler_pool_answer_next(call);
}
