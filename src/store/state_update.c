/* Updates of states: the checks that need no store, and the change of a machine as JSON.
 *
 * The SQLite driver uses state_update_apply(); on PostgreSQL functions/update_state.sql has the same rules, because callers
 * in SQL have no other code. Both answer with the outcomes that refusal_of_update() turns into texts. Pure; any thread.
 */
#include "store/states.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/state_changes.h"
#include "queue/name.h"
#include "store/call.h"
#include "store/driver.h"

/* The store reads no larger text on behalf of a caller. */
enum { UPDATE_BYTES_MAX = STATE_VARIABLES_BYTES_MAX + 1024 };

enum weir_status state_update_check(const struct state_update *update, char **ret_compact, struct weir_error *error)
{
    INVARIANT(update != NULL);
    json_t *variables = NULL;
    enum weir_status status = WEIR_OK;
    if (update->state == NULL && update->variables == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "an update needs a state or variables");
    }
    if (update->state != NULL && !name_is_valid(update->state)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.80s\" is not the name of a state", update->state);
    }
    if (update->if_state != NULL && !name_is_valid(update->if_state)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.80s\" is not the name of a state", update->if_state);
    }
    if (update->variables != NULL && strlen(update->variables) > UPDATE_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the variables are longer than %d bytes", STATE_VARIABLES_BYTES_MAX);
    }
    if (update->variables != NULL) {
        status =
            json_read_below(update->variables, strlen(update->variables), 1 - STATE_VARIABLE_LEVELS, &variables, error);
    }
    if (status == WEIR_OK && variables != NULL && !json_is_object(variables)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the variables must be a JSON object of names and values");
    } else if (status == WEIR_OK && variables != NULL && json_has_nul(variables)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the variables have the character U+0000");
    } else if (status == WEIR_OK && variables != NULL && ret_compact != NULL) {
        *ret_compact = json_make_text(variables, JSON_COMPACT);
        status = *ret_compact == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    json_decref(variables);
    return status;
}

enum weir_status store_update_state(struct store *store, const char *id, const struct state_update *update,
                                    struct updated_state *ret_updated, struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && update != NULL && ret_updated != NULL);
    char *compact = NULL;
    enum weir_status status = state_update_check(update, &compact, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct sent_signal sent = {.seq = 0};
    const struct state_update own = {.state = update->state, .variables = compact, .if_state = update->if_state};
    const struct signal_request request = {.id = id, .update = &own};
    struct call call = call_begin(store, "update_state", error);
    status = store->driver->signal(store, &request, &sent, &call.own);
    if (status == WEIR_OK) {
        memcpy(ret_updated->id, sent.id, sizeof sent.id);
        text_copy(ret_updated->state, sizeof ret_updated->state, sent.step);
        ret_updated->action = (int)sent.seq;
    }
    free(compact);
    return call_end(&call, status);
}

/* --- one machine --- */

/* Also after a refusal, and twice. */
void updated_machine_close(struct updated_machine *updated)
{
    INVARIANT(updated != NULL);
    free(updated->machine);
    free(updated->changes);
    updated->machine = NULL;
    updated->changes = NULL;
}

/* For a hint: as many names as fit. */
static void list_update_names(const json_t *object, struct update_refusal *refusal)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        size_t used = strlen(refusal->names);
        (void)snprintf(refusal->names + used, sizeof refusal->names - used, "%s%s", used == 0 ? "" : ", ", name);
    }
}

/* The name may be that of a caller, and longer than any of a definition: it is cut. */
static void set_update_refusal(struct update_refusal *refusal, const char *outcome, const char *name)
{
    refusal->outcome = outcome;
    text_copy(refusal->name, sizeof refusal->name, name);
}

/* By the name that the definition has (definition.h, enum variable_type). The SQLite extension has no reader of
 * definitions. */
static bool type_accepts(const char *type, const json_t *value)
{
    static const struct {
        const char *name;
        json_type first;
        json_type second;
    } types[] = {{"string", JSON_STRING, JSON_STRING},    {"number", JSON_INTEGER, JSON_REAL},
                 {"integer", JSON_INTEGER, JSON_INTEGER}, {"boolean", JSON_TRUE, JSON_FALSE},
                 {"object", JSON_OBJECT, JSON_OBJECT},    {"array", JSON_ARRAY, JSON_ARRAY}};
    for (size_t i = 0; type != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, type) == 0) {
            return json_typeof(value) == types[i].first || json_typeof(value) == types[i].second;
        }
    }
    return true;
}

/* The text of a value, if it is within the limit. The limit is that of the text as the store keeps it, so a value that is
 * short in memory and long as JSON counts as long. */
static bool is_short_enough(const json_t *value, size_t most, bool *ret_ran_out)
{
    struct text text = {.max = most};
    enum weir_status status = json_write(value, &text, NULL);
    text_close(&text);
    *ret_ran_out = status == WEIR_OUT_OF_MEMORY;
    return status == WEIR_OK;
}

/* Sets the values one by one. The first one at fault ends it, and the caller drops the machine with what was set. */
static enum weir_status set_all(const json_t *definition, json_t *variables, const json_t *changes,
                                struct update_refusal *refusal)
{
    const json_t *declared = json_object_get(definition, "variables");
    const char *name;
    json_t *value;
    bool ran_out = false;
    json_object_foreach((json_t *)(uintptr_t)changes, name, value)
    {
        const json_t *variable = json_object_get(declared, name);
        const char *type = json_string_value(json_object_get(variable, "type"));
        if (variable == NULL) {
            list_update_names(declared, refusal);
            set_update_refusal(refusal, "unknown_variable", name);
        } else if (!json_is_null(value) && !type_accepts(type, value)) {
            text_copy(refusal->names, sizeof refusal->names, type == NULL ? "any" : type);
            set_update_refusal(refusal, "wrong_type", name);
        } else if (!is_short_enough(value, STATE_VARIABLE_BYTES_MAX, &ran_out)) {
            set_update_refusal(refusal, "too_large", name);
        } else if (json_object_set(variables, name, value) != 0) {
            return WEIR_OUT_OF_MEMORY;
        }
        if (refusal->outcome[0] != '\0') {
            return ran_out ? WEIR_OUT_OF_MEMORY : WEIR_OK;
        }
    }
    if (!is_short_enough(variables, STATE_VARIABLES_BYTES_MAX, &ran_out)) {
        set_update_refusal(refusal, "too_large", "");
    }
    return ran_out ? WEIR_OUT_OF_MEMORY : WEIR_OK;
}

/* The machine of an execution that has not begun. */
static json_t *new_machine(const json_t *definition)
{
    json_t *variables = json_object();
    const char *name;
    json_t *variable;
    json_object_foreach(json_object_get(definition, "variables"), name, variable)
    {
        json_t *initial = json_object_get(variable, "initial");
        if (initial != NULL && json_object_set(variables, name, initial) != 0) {
            json_decref(variables);
            return NULL;
        }
    }
    return json_pack("{s:O?, s:o}", "state", json_object_get(definition, "initial"), "variables", variables);
}

/* NULL for no value, too: the caller knows which of both. */
static char *dump_json_value(const json_t *value)
{
    return value == NULL ? NULL : json_make_text(value, JSON_COMPACT);
}

/* Fills the result. The machine begins its state anew when the update names one: it waits for no signal any more, and the
 * count of states in a row begins at 0. The last failure stays, because it says why a person had to act. */
static enum weir_status finish_update(json_t *machine, const json_t *definition, const struct state_update *update,
                                      json_t *changes, struct updated_machine *updated)
{
    const char *from = json_string_value(json_object_get(machine, "state"));
    text_copy(updated->from, sizeof updated->from, from == NULL ? "" : from);
    text_copy(updated->state, sizeof updated->state, update->state == NULL ? updated->from : update->state);
    const json_t *state = json_object_get(json_object_get(definition, "states"), updated->state);
    const char *type = json_string_value(json_object_get(state, "type"));
    updated->is_manual = type != NULL && strcmp(type, "manual") == 0;
    updated->has_timeout = json_object_get(definition, "timeout") != NULL;
    if (update->state != NULL) {
        (void)json_object_del(machine, "signal");
        (void)json_object_del(machine, "in_a_row");
        if (json_object_set_new(machine, "state", json_string(update->state)) != 0) {
            return WEIR_OUT_OF_MEMORY;
        }
    }
    updated->machine = dump_json_value(machine);
    json_t *shown = changes == NULL ? NULL : state_changes_shown(changes);
    updated->changes = dump_json_value(shown);
    json_decref(shown);
    return updated->machine != NULL && (changes == NULL || updated->changes != NULL) ? WEIR_OK : WEIR_OUT_OF_MEMORY;
}

/* The checks go from the outside inwards: the workflow, the state, then each variable. The first problem is the answer. */
enum weir_status state_update_apply(const struct machine_row *row, const struct state_update *update,
                                    struct updated_machine *ret_updated, struct update_refusal *ret_refusal,
                                    struct weir_error *error)
{
    INVARIANT(row->definition != NULL && update != NULL && ret_updated != NULL && ret_refusal != NULL);
    json_t *definition = NULL;
    json_t *machine = NULL;
    json_t *changes = NULL;
    *ret_refusal = (struct update_refusal){.outcome = ""};
    *ret_updated = (struct updated_machine){.is_manual = false};
    enum weir_status status = json_read(row->definition, strlen(row->definition), &definition, error);
    const json_t *states = json_object_get(definition, "states");
    if (status == WEIR_OK && states == NULL) {
        set_update_refusal(ret_refusal, "no_states", "");
    } else if (status == WEIR_OK && update->state != NULL && json_object_get(states, update->state) == NULL) {
        list_update_names(states, ret_refusal);
        set_update_refusal(ret_refusal, "unknown_state", update->state);
    }
    if (status == WEIR_OK && ret_refusal->outcome[0] == '\0' && row->machine != NULL) {
        status = json_read(row->machine, strlen(row->machine), &machine, error);
    } else if (status == WEIR_OK && ret_refusal->outcome[0] == '\0') {
        machine = new_machine(definition);
        status = machine == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    const char *present = json_string_value(json_object_get(machine, "state"));
    if (machine != NULL && update->if_state != NULL && (present == NULL || strcmp(update->if_state, present) != 0)) {
        set_update_refusal(ret_refusal, "other_state", present == NULL ? "" : present);
    } else if (status == WEIR_OK && machine != NULL && update->variables != NULL) {
        status = json_read(update->variables, strlen(update->variables), &changes, error);
    }
    if (status == WEIR_OK && changes != NULL) {
        status = set_all(definition, json_object_get(machine, "variables"), changes, ret_refusal);
    }
    if (status == WEIR_OK && machine != NULL && ret_refusal->outcome[0] == '\0') {
        status = finish_update(machine, definition, update, changes, ret_updated);
    }
    json_decref(definition);
    json_decref(machine);
    json_decref(changes);
    return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(error) : status;
}
