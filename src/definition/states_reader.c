/* Reading the section `states`: a workflow whose handlers decide which state follows. Part of definition_read().
 *
 *   1. The names of all states, so that a state may name a later one.
 *   2. Each state: its type follows from `handler` or `type`. Keys without a meaning for the type are refused.
 *   3. The keys beside `states`: the initial state, the state after an error, the variables, the signals.
 *   4. One step, STATES_STEP, which the engine runs for all of them.
 *
 * Nothing here holds an expression: a state is chosen by code, and initial values are fixed. Runs in the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/definition_internal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

static const char *const type_names[] = {
    [STATE_NORMAL] = "normal", [STATE_MANUAL] = "manual", [STATE_END] = "end", [STATE_ERROR] = "error"};
static const char *const variable_names[] = {
    [VARIABLE_ANY] = "any",         [VARIABLE_STRING] = "string",   [VARIABLE_NUMBER] = "number",
    [VARIABLE_INTEGER] = "integer", [VARIABLE_BOOLEAN] = "boolean", [VARIABLE_OBJECT] = "object",
    [VARIABLE_ARRAY] = "array"};
enum { STATE_TYPES = sizeof type_names / sizeof type_names[0] };
enum { VARIABLE_TYPES = sizeof variable_names / sizeof variable_names[0] };

/* --- questions about a definition --- */

const char *state_type_name(enum state_type type)
{
    INVARIANT((unsigned)type < STATE_TYPES);
    return type_names[type];
}

const char *variable_type_name(enum variable_type type)
{
    INVARIANT((unsigned)type < VARIABLE_TYPES);
    return variable_names[type];
}

/* The tables are short, and a handler pays for the answer of a program, so a walk is enough. */
int states_find(const struct definition_states *states, const char *name)
{
    INVARIANT(states != NULL && name != NULL);
    for (size_t i = 0; i < states->count; i++) {
        if (strcmp(states->states[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int states_find_variable(const struct definition_states *states, const char *name)
{
    INVARIANT(states != NULL && name != NULL);
    for (size_t i = 0; i < states->variable_count; i++) {
        if (strcmp(states->variables[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int states_find_signal(const struct definition_states *states, const char *name)
{
    INVARIANT(states != NULL && name != NULL);
    for (size_t i = 0; i < states->signal_count; i++) {
        if (strcmp(states->signals[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* --- one state --- */

/* The state that `node` names, a key of the map. A name that is not there is most often a slip of the pen, so the hint has
 * the nearest one. */
static enum weir_status take_state(struct definition_reader *reader, const struct definition_states *states,
                                   const struct yaml_node *node, const char *field, int *ret_index)
{
    const char *name = NULL;
    const char *names[DEFINITION_STATES_MAX];
    enum weir_status status = reader_take_text(reader, node, field, &name);
    int index = status == WEIR_OK ? states_find(states, name) : -1;
    if (status != WEIR_OK || index >= 0) {
        *ret_index = index;
        return status;
    }
    FAIL(reader, node, "%s names the state \"%.64s\", which the definition does not have", field, name);
    for (size_t i = 0; i < states->count; i++) {
        names[i] = states->states[i].name;
    }
    const char *nearest = text_nearest(name, names, states->count);
    if (nearest != NULL) {
        error_hint(reader->error, "did you mean \"%s\"?", nearest);
    }
    return reader->source.status;
}

/* An empty list is a promise of its own: after this state only the end may come. */
static enum weir_status read_next(struct definition_reader *reader, const struct definition_states *states,
                                  const struct yaml_node *node, struct state *state)
{
    if (node->kind != YAML_LIST || node->count > states->count) {
        return FAIL(reader, node, "\"next\" must be a list of states, each once");
    }
    uint16_t *next = arena_allocate(reader->arena, (node->count + 1) * sizeof *next);
    if (next == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        int index = -1;
        enum weir_status status = take_state(reader, states, node->values[i], "\"next\"", &index);
        if (status != WEIR_OK) {
            return status;
        }
        next[i] = (uint16_t)index;
    }
    state->next = next;
    state->next_count = node->count;
    state->has_next = true;
    return WEIR_OK;
}

/* Keys that only a state with a handler has. In any other state they would have no effect, and their author would wait for
 * one. `next` of a manual state is allowed, because it documents the choice of the person. */
static enum weir_status refuse_keys_without_handler(struct definition_reader *reader, const struct yaml_node *node,
                                                    const struct state *state)
{
    static const char *const keys[] = {"retry", "timeout", "on_failure", "next"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct yaml_node *value = yaml_get(node, keys[i]);
        bool is_of_person = state->type == STATE_MANUAL && strcmp(keys[i], "next") == 0;
        if (value != NULL && state->handler == NULL && !is_of_person) {
            return FAIL(reader, value, "\"%s\" has no meaning in the state \"%s\", which has no handler", keys[i],
                        state->name);
        }
    }
    return WEIR_OK;
}

/* A state does one thing: its handler decides, a person does, or the execution ends. */
static enum weir_status read_type(struct definition_reader *reader, const struct yaml_node *node, struct state *state)
{
    const struct yaml_node *type = yaml_get(node, "type");
    const struct yaml_node *handler = yaml_get(node, "handler");
    enum weir_status status = WEIR_OK;
    if (type != NULL) {
        size_t i = 0;
        while (i < STATE_TYPES && (type->kind != YAML_STRING || strcmp(type->text, type_names[i]) != 0)) {
            i++;
        }
        if (i == STATE_TYPES) {
            return FAIL(reader, type, "\"type\" must be normal, manual, end or error");
        }
        state->type = (enum state_type)i;
    }
    if (handler != NULL) {
        status = reader_take_name(reader, handler, "\"handler\"", &state->handler);
    }
    if (status == WEIR_OK && handler == NULL && state->type == STATE_NORMAL) {
        FAIL(reader, node, "the state \"%s\" does nothing", state->name);
        error_hint(reader->error, "give it a handler, or a type: manual, end or error");
        return reader->source.status;
    }
    if (status == WEIR_OK && handler != NULL && (state->type == STATE_MANUAL || state->type == STATE_END)) {
        return FAIL(reader, handler, "a state of the type \"%s\" has no handler", type_names[state->type]);
    }
    return status;
}

/* The defaults of `retry` are those of a handler step, also for a state without one, where they have no effect. */
static enum weir_status read_one_state(struct definition_reader *reader, const struct definition_states *states,
                                       const struct yaml_node *node, struct state *state)
{
    static const char *const keys[] = {"handler", "type", "retry", "timeout", "on_failure", "next"};
    const struct yaml_node *retry = yaml_get(node, "retry");
    const struct yaml_node *timeout = yaml_get(node, "timeout");
    const struct yaml_node *on_failure = yaml_get(node, "on_failure");
    const struct yaml_node *next = yaml_get(node, "next");
    enum weir_status status =
        yaml_check_keys(&reader->source, node, "a state", keys, sizeof keys / sizeof keys[0], reader->error);
    status = status == WEIR_OK ? read_type(reader, node, state) : status;
    status = status == WEIR_OK ? refuse_keys_without_handler(reader, node, state) : status;
    state->retry = step_retry_default(STEP_HANDLER);
    state->on_failure = -1;
    if (status == WEIR_OK && retry != NULL) {
        status = reader_take_retry(reader, retry, &state->retry);
    }
    if (status == WEIR_OK && timeout != NULL) {
        status = reader_take_duration(reader, timeout, "\"timeout\"", &state->timeout_us);
    }
    if (status == WEIR_OK && on_failure != NULL) {
        status = take_state(reader, states, on_failure, "\"on_failure\"", &state->on_failure);
    }
    return status == WEIR_OK && next != NULL ? read_next(reader, states, next, state) : status;
}

/* Steps 1 and 2. */
static enum weir_status read_map_of_states(struct definition_reader *reader, const struct yaml_node *map,
                                           struct definition_states *states)
{
    if (map->kind != YAML_MAP || map->count == 0 || map->count > DEFINITION_STATES_MAX) {
        FAIL(reader, map, "\"states\" must be a map from names to 1 to %d states", DEFINITION_STATES_MAX);
        error_hint(reader->error, "write states: {check: {handler: check-order}, done: {type: end}}");
        return reader->source.status;
    }
    struct state *all = arena_allocate(reader->arena, map->count * sizeof *all);
    if (all == NULL) {
        return error_out_of_memory(reader->error);
    }
    enum weir_status status = WEIR_OK;
    memset(all, 0, map->count * sizeof *all);
    for (size_t i = 0; i < map->count && status == WEIR_OK; i++) {
        status = reader_take_name(reader, map->keys[i], "the name of a state", &all[i].name);
    }
    states->states = all;
    states->count = map->count;
    for (size_t i = 0; i < map->count && status == WEIR_OK; i++) {
        status = read_one_state(reader, states, map->values[i], &all[i]);
    }
    return status;
}

/* --- the keys beside `states` --- */

static enum weir_status read_variable_type(struct definition_reader *reader, const struct yaml_node *node,
                                           enum variable_type *ret_type)
{
    size_t i = 0;
    while (i < VARIABLE_TYPES && (node->kind != YAML_STRING || strcmp(node->text, variable_names[i]) != 0)) {
        i++;
    }
    if (i == VARIABLE_TYPES) {
        FAIL(reader, node, "the type of a variable is any, string, number, integer, boolean, object or array");
        error_hint(reader->error, "write variables: {amount: number, owner: {type: string, initial: none}}");
        return reader->source.status;
    }
    *ret_type = (enum variable_type)i;
    return WEIR_OK;
}

/* An integer of JSON is a number, too. null is not of any type here; a caller that allows it asks before. */
bool variable_accepts(enum variable_type type, const json_t *value)
{
    INVARIANT(value != NULL);
    switch (type) {
    case VARIABLE_ANY:
        return true;
    case VARIABLE_STRING:
        return json_is_string(value);
    case VARIABLE_NUMBER:
        return json_is_number(value);
    case VARIABLE_INTEGER:
        return json_is_integer(value);
    case VARIABLE_BOOLEAN:
        return json_is_boolean(value);
    case VARIABLE_OBJECT:
        return json_is_object(value);
    case VARIABLE_ARRAY:
        return json_is_array(value);
    }
    return false;
}

/* A fixed value of the right type, as JSON text. */
static enum weir_status read_initial(struct definition_reader *reader, const struct yaml_node *node,
                                     struct state_variable *variable)
{
    static const struct fixed_value_rules rules = {.what = "\"initial\"",
                                                   .instead = "the handler of the first state can set it",
                                                   .bytes_max = STATE_VARIABLE_BYTES_MAX};
    json_t *value = NULL;
    enum weir_status status = reader_take_fixed(reader, node, &rules, &value, &variable->initial);
    if (status == WEIR_OK && !variable_accepts(variable->type, value)) {
        status = FAIL(reader, node, "\"initial\" of the variable \"%s\" must be of the type %s", variable->name,
                      variable_names[variable->type]);
    }
    json_decref(value);
    return status;
}

/* As a member of an object in C, Python and JavaScript, so that every language reads it without quotes. */
static bool variable_name_is_valid(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t length = strlen(name);
    return length > 0 && length <= STATE_VARIABLE_NAME_MAX && strchr(first, name[0]) != NULL &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == length;
}

/* A type alone, or a map with the value that the variable has before it is set. */
static enum weir_status read_one_variable(struct definition_reader *reader, const struct yaml_node *key,
                                          const struct yaml_node *node, struct state_variable *variable)
{
    static const char *const keys[] = {"type", "initial"};
    enum weir_status status = reader_take_text(reader, key, "the name of a variable", &variable->name);
    if (status == WEIR_OK && !variable_name_is_valid(variable->name)) {
        FAIL(reader, key, "\"%.80s\" is no name of a variable", variable->name);
        error_hint(reader->error, "a name has 1 to %d letters, digits and _, and does not start with a digit",
                   STATE_VARIABLE_NAME_MAX);
        return reader->source.status;
    }
    if (status != WEIR_OK || node->kind != YAML_MAP) {
        return status == WEIR_OK ? read_variable_type(reader, node, &variable->type) : status;
    }
    status = yaml_check_keys(&reader->source, node, "a variable", keys, 2, reader->error);
    if (status == WEIR_OK && yaml_get(node, "type") != NULL) {
        status = read_variable_type(reader, yaml_get(node, "type"), &variable->type);
    }
    const struct yaml_node *initial = yaml_get(node, "initial");
    return status == WEIR_OK && initial != NULL ? read_initial(reader, initial, variable) : status;
}

/* A variable that the definition lacks is refused at run time, so a slip in a name does not go unseen. */
static enum weir_status read_state_variables(struct definition_reader *reader, const struct yaml_node *map,
                                             struct definition_states *states)
{
    if (map->kind != YAML_MAP || map->count > STATE_VARIABLES_MAX) {
        return FAIL(reader, map, "\"variables\" must be a map from at most %d names to types", STATE_VARIABLES_MAX);
    }
    struct state_variable *all = arena_allocate(reader->arena, (map->count + 1) * sizeof *all);
    if (all == NULL) {
        return error_out_of_memory(reader->error);
    }
    enum weir_status status = WEIR_OK;
    size_t bytes = 2;
    memset(all, 0, (map->count + 1) * sizeof *all);
    for (size_t i = 0; i < map->count && status == WEIR_OK; i++) {
        status = read_one_variable(reader, map->keys[i], map->values[i], &all[i]);
        bytes += status == WEIR_OK && all[i].initial != NULL ? strlen(all[i].name) + strlen(all[i].initial) + 4 : 0;
    }
    if (status == WEIR_OK && bytes > STATE_VARIABLES_BYTES_MAX) {
        return FAIL(reader, map, "the values of \"initial\" are longer than %d bytes together", STATE_VARIABLES_BYTES_MAX);
    }
    states->variables = all;
    states->variable_count = map->count;
    return status;
}

/* The names that the store takes signals for: a handler chooses one of them at run time. */
static enum weir_status read_signals(struct definition_reader *reader, const struct yaml_node *list,
                                     struct definition_states *states)
{
    if (list->kind != YAML_LIST || list->count > STATE_SIGNALS_MAX) {
        return FAIL(reader, list, "\"signals\" must be a list of at most %d names", STATE_SIGNALS_MAX);
    }
    const char **names = arena_allocate(reader->arena, (list->count + 1) * sizeof *names);
    if (names == NULL) {
        return error_out_of_memory(reader->error);
    }
    states->signals = names;
    for (size_t i = 0; i < list->count; i++) {
        enum weir_status status = reader_take_name(reader, list->values[i], "the name of a signal", &names[i]);
        if (status == WEIR_OK && states_find_signal(states, names[i]) >= 0) {
            status = FAIL(reader, list->values[i], "the signal \"%s\" is listed twice", names[i]);
        }
        if (status != WEIR_OK) {
            return status;
        }
        states->signal_count++;
    }
    return WEIR_OK;
}

/* Step 3. Without `initial` the first state of the file begins, as a reader of the file expects. */
static enum weir_status read_beside(struct definition_reader *reader, const struct yaml_node *root,
                                    struct definition_states *states)
{
    const struct yaml_node *initial = yaml_get(root, "initial");
    const struct yaml_node *on_error = yaml_get(root, "on_error");
    const struct yaml_node *variables = yaml_get(root, "variables");
    const struct yaml_node *signals = yaml_get(root, "signals");
    const struct yaml_node *unknown = yaml_get(root, "unknown_state");
    int index = 0;
    enum weir_status status = WEIR_OK;
    states->on_error = -1;
    if (initial != NULL) {
        status = take_state(reader, states, initial, "\"initial\"", &index);
    }
    states->initial = (size_t)(index < 0 ? 0 : index);
    if (status == WEIR_OK && on_error != NULL) {
        status = take_state(reader, states, on_error, "\"on_error\"", &states->on_error);
    }
    status = status == WEIR_OK && variables != NULL ? read_state_variables(reader, variables, states) : status;
    status = status == WEIR_OK && signals != NULL ? read_signals(reader, signals, states) : status;
    if (status == WEIR_OK && unknown != NULL) {
        const char *word = unknown->kind == YAML_STRING ? unknown->text : "";
        states->unknown_fails = strcmp(word, "error") == 0;
        if (!states->unknown_fails && strcmp(word, "wait") != 0) {
            return FAIL(reader, unknown, "\"unknown_state\" must be wait or error");
        }
        if (states->unknown_fails && states->on_error < 0) {
            return FAIL(reader, unknown, "\"unknown_state: error\" needs \"on_error\", the state that follows");
        }
    }
    return status;
}

/* Beside steps these keys would be read by no one, and their author would wait for an effect. */
enum weir_status states_refuse_keys(struct definition_reader *reader, const struct yaml_node *root)
{
    static const char *const keys[] = {"states", "initial", "on_error", "variables", "signals", "unknown_state"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct yaml_node *node = yaml_get(root, keys[i]);
        if (node != NULL) {
            FAIL(reader, node, "\"%s\" has no meaning beside \"%s\"", keys[i],
                 yaml_get(root, "steps") != NULL ? "steps" : "temporal");
            error_hint(reader->error, "a workflow has steps, or states");
            return reader->source.status;
        }
    }
    return WEIR_OK;
}

/* Step 4. The graph has one node. The step has no retry of its own: that of the present state counts, which the engine
 * reads from the state at each failure. */
static enum weir_status make_states_step(struct definition_reader *reader, struct definition *definition)
{
    struct step *step = arena_allocate(reader->arena, sizeof *step);
    uint16_t *order = arena_allocate(reader->arena, sizeof *order);
    if (step == NULL || order == NULL) {
        return error_out_of_memory(reader->error);
    }
    *step = (struct step){.id = STATES_STEP, .kind = STEP_STATES, .section = SECTION_STEPS, .undo = -1};
    step->retry = step_retry_default(STEP_HANDLER);
    *order = 0;
    definition->steps = step;
    definition->count = 1;
    definition->main_count = 1;
    definition->order = order;
    return WEIR_OK;
}

/* The keys of other kinds of workflows are refused first: their messages name what takes their place here. */
enum weir_status states_read(struct definition_reader *reader, const struct yaml_node *root, struct definition *definition)
{
    static const char *const foreign[] = {"on_failure", "finally", "hold_slot"};
    struct definition_states *states = arena_allocate(reader->arena, sizeof *states);
    if (states == NULL) {
        return error_out_of_memory(reader->error);
    }
    memset(states, 0, sizeof *states);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const struct yaml_node *node = yaml_get(root, foreign[i]);
        if (node != NULL) {
            FAIL(reader, node, "\"%s\" has no meaning beside \"states\"", foreign[i]);
            error_hint(reader->error, "a state has \"on_failure\", and the definition \"on_error\"");
            return reader->source.status;
        }
    }
    enum weir_status status = read_map_of_states(reader, yaml_get(root, "states"), states);
    status = status == WEIR_OK ? read_beside(reader, root, states) : status;
    definition->states = states;
    return status == WEIR_OK ? make_states_step(reader, definition) : status;
}
