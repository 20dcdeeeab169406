/* Dry runs that need the definition of an execution.
 *
 * 1. The versions of the workflow are read, and those kept that may be the one of the execution.
 * 2. Each is asked whether the act is possible.
 *
 * A version that cannot be read refuses nothing. A workflow without any version was deleted, so no retry of it is possible.
 * Runs in the thread of the caller, without a transaction: the store decides again when the act is done.
 */
#include "store/rehearsal.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "queue/item.h"
#include "store/refusal.h"

static const char *rehearsal_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* --- versions --- */

struct fitting {
    const char *workspace; /* NULL = any */
    json_int_t version;    /* 0 = any */
    json_t *definitions;   /* an array of texts */
    size_t open;           /* of them, those that take new executions */
    bool has_failed;       /* memory is short */
};

/* Keeps the text of a version that fits. One that the workspace owns goes before everybody's. */
static bool keep_fitting(void *context, const json_t *workflow)
{
    struct fitting *fitting = context;
    const char *owner = rehearsal_text(workflow, "workspace"); /* NULL: everybody's */
    json_t *definition = json_object_get(workflow, "definition");
    bool is_own = owner != NULL && fitting->workspace != NULL && strcmp(owner, fitting->workspace) == 0;
    bool is_version = fitting->version == 0 || json_integer_value(json_object_get(workflow, "version")) == fitting->version;
    if (json_is_string(definition) && is_version && (owner == NULL || fitting->workspace == NULL || is_own)) {
        size_t place = is_own ? 0 : json_array_size(fitting->definitions);
        fitting->has_failed = fitting->has_failed || json_array_insert(fitting->definitions, place, definition) != 0;
        fitting->open += !json_is_true(json_object_get(workflow, "disabled"));
    }
    return true;
}

/* The definitions are the caller's, also after a failure. */
static enum weir_status read_fitting(struct store *store, const char *workflow, struct fitting *fitting,
                                     struct weir_error *error)
{
    const struct list_options options = {.kind = LIST_WORKFLOWS, .name = workflow, .limit = LIST_LIMIT_MOST};
    fitting->definitions = json_array();
    enum weir_status status = fitting->definitions == NULL ? error_out_of_memory(error)
                                                           : store_list_each(store, &options, keep_fitting, fitting, error);
    return status == WEIR_OK && fitting->has_failed ? error_out_of_memory(error) : status;
}

/* The versions of which one is that of the execution, as store_show() has it. */
static struct fitting fitting_of(const json_t *execution)
{
    return (struct fitting){.workspace = rehearsal_text(execution, "workspace"),
                            .version = json_integer_value(json_object_get(execution, "version"))};
}

/* --- a retry --- */

static bool definition_has_step(const char *text, const char *step)
{
    json_t *definition = NULL;
    if (json_read(text, strlen(text), &definition, NULL) != WEIR_OK) {
        return true;
    }
    const json_t *steps = json_object_get(definition, "steps");
    bool has = step == NULL ? steps != NULL : json_object_get(steps, step) != NULL;
    json_decref(definition);
    return has;
}

/* Why none of them can be retried, as the drivers have it; WEIR_OK: one of them can. */
static enum weir_status judge_retry(const struct fitting *fitting, const struct act_order *order, const char **ret_why)
{
    size_t i;
    const json_t *text;
    bool has = !order->keeps_finished;
    json_array_foreach(fitting->definitions, i, text)
    {
        has = has || definition_has_step(json_string_value(text), order->from);
    }
    *ret_why = fitting->open == 0 ? REFUSAL_RETRY_DISABLED : REFUSAL_RETRY_NO_STEP;
    return fitting->open == 0 ? WEIR_WORKFLOW_DISABLED : has ? WEIR_OK : WEIR_INVALID_ARGUMENT;
}

enum weir_status rehearse_retry(struct store *store, const json_t *execution, const struct act_order *order,
                                struct weir_error *error)
{
    INVARIANT(store != NULL && execution != NULL && order != NULL);
    struct fitting fitting = fitting_of(execution);
    const char *why = REFUSAL_RETRY_NO_WORKSPACE;
    enum weir_status verdict = fitting.workspace == NULL ? WEIR_WORKSPACE_NOT_FOUND : WEIR_OK;
    enum weir_status status = read_fitting(store, rehearsal_text(execution, "workflow"), &fitting, error);
    if (status == WEIR_OK && verdict == WEIR_OK) {
        verdict = judge_retry(&fitting, order, &why);
    }
    json_decref(fitting.definitions);
    return status != WEIR_OK || verdict == WEIR_OK
               ? status
               : error_set(error, verdict, "execution %s is %s: %s", rehearsal_text(execution, "id"),
                           rehearsal_text(execution, "status"), why);
}

enum weir_status rehearse_retries(struct store *store, const struct execution_filter *filter, const struct act_order *order,
                                  bool *ret_any, struct weir_error *error)
{
    INVARIANT(store != NULL && filter != NULL && order != NULL && ret_any != NULL);
    struct fitting fitting = {.workspace = filter->workspace, .version = filter->version};
    const char *why;
    *ret_any = true;
    if (filter->workflow == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = read_fitting(store, filter->workflow, &fitting, error);
    *ret_any = status != WEIR_OK || judge_retry(&fitting, order, &why) == WEIR_OK;
    json_decref(fitting.definitions);
    return status;
}

/* --- an update --- */

/* The machine as JSON text, or NULL while the execution is in its initial state. */
static char *machine_of(const json_t *execution)
{
    json_t *state = json_object_get(execution, "state");
    json_t *machine = !json_is_string(state)
                          ? NULL
                          : json_pack("{s:O, s:O}", "state", state, "variables", json_object_get(execution, "variables"));
    char *text = machine == NULL ? NULL : json_make_text(machine, JSON_COMPACT);
    json_decref(machine);
    return text;
}

static enum weir_status try_update(const json_t *execution, const char *definition, const struct state_update *update,
                                   struct updated_state *updated, struct weir_error *error)
{
    struct updated_machine machine = {.is_manual = false};
    struct update_refusal refusal = {.outcome = ""};
    char *text = machine_of(execution);
    if (text == NULL && json_is_string(json_object_get(execution, "state"))) {
        return error_out_of_memory(error);
    }
    const struct machine_row row = {.definition = definition, .machine = text};
    enum weir_status status = state_update_apply(&row, update, &machine, &refusal, error);
    if (status == WEIR_OK && refusal.outcome[0] != '\0') {
        status = refusal_of_update(rehearsal_text(execution, "id"), &refusal, error);
    }
    text_copy(updated->state, sizeof updated->state, machine.state);
    updated_machine_close(&machine);
    free(text);
    return status;
}

/* An execution that has ended, or that a node holds, takes no update whatever it is. */
static enum weir_status refuse_by_status(const json_t *execution, struct weir_error *error)
{
    enum item_state state = ITEM_PENDING;
    const char *name = rehearsal_text(execution, "status");
    if (name == NULL || !item_state_parse(name, &state) || state == ITEM_PENDING || state == ITEM_WAITING) {
        return WEIR_OK;
    }
    const struct update_refusal refusal = {.outcome = item_is_terminal(state) ? name : "held"};
    return refusal_of_update(rehearsal_text(execution, "id"), &refusal, error);
}

enum weir_status rehearse_update(struct store *store, const char *id, const struct state_update *update,
                                 struct updated_state *ret_updated, struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && update != NULL && ret_updated != NULL);
    json_t *execution = NULL;
    struct fitting fitting = {.version = 0};
    size_t i;
    const json_t *text;
    enum weir_status status = state_update_check(update, NULL, error);
    if (status == WEIR_OK) {
        status = store_show(store, id, &execution, error);
    }
    if (status == WEIR_OK) {
        status = refuse_by_status(execution, error);
    }
    if (status == WEIR_OK) {
        fitting = fitting_of(execution);
        status = read_fitting(store, rehearsal_text(execution, "workflow"), &fitting, error);
    }
    bool goes_on = status == WEIR_OK;
    json_array_foreach(fitting.definitions, i, text)
    {
        status = goes_on ? try_update(execution, json_string_value(text), update, ret_updated, error) : status;
        goes_on = goes_on && status != WEIR_OK && status != WEIR_OUT_OF_MEMORY;
    }
    text_copy(ret_updated->id, sizeof ret_updated->id, id);
    json_decref(fitting.definitions);
    json_decref(execution);
    return status;
}
