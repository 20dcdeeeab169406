/* Finds the id of the Temporal workflow of an execution.
 *
 * The id that a node has recorded with the step is used first. Before there is one, the workflow id is evaluated from the
 * definition and the params, exactly as the node does it. For that, all versions of the workflow are read; a version that
 * belongs to the workspace goes before one for all workspaces. It never calls the Temporal service. One thread.
 */
#include "cli/verbs/temporal_workflow.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "store/store.h"

static const char *text_of_field(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* The id that a node has recorded with the step of the workflow; NULL = none yet. */
static const char *recorded_workflow_id(const json_t *execution)
{
    size_t i;
    const json_t *step;
    const char *id = NULL;
    json_array_foreach(json_object_get(execution, "steps"), i, step)
    {
        const char *own = text_of_field(json_object_get(step, "variables"), "workflow_id");
        id = own != NULL ? own : id;
    }
    return id;
}

struct search {
    const char *workspace;
    json_int_t version;
    char *definition; /* owned */
    bool is_own;
};

/* A workspace's own workflow goes before everybody's of the same name, as at the enqueue. */
static bool take_version(void *context, const json_t *workflow)
{
    struct search *search = context;
    const char *owner = text_of_field(workflow, "workspace");
    bool is_own = owner != NULL && search->workspace != NULL && strcmp(owner, search->workspace) == 0;
    if (json_integer_value(json_object_get(workflow, "version")) == search->version && (owner == NULL || is_own) &&
        !search->is_own && text_of_field(workflow, "definition") != NULL) {
        free(search->definition);
        search->definition = strdup(text_of_field(workflow, "definition"));
        search->is_own = is_own;
    }
    return true;
}

/* Evaluates the id as the node does it, from the definition and the params. */
static enum weir_status evaluate_own_workflow_id(const json_t *execution, const struct search *search, char *to,
                                                 struct weir_error *error)
{
    char *params = json_make_text(json_object_get(execution, "params"), JSON_COMPACT);
    struct engine_start start = {.workspace = search->workspace == NULL ? "" : search->workspace,
                                 .workflow = text_of_field(execution, "workflow"),
                                 .version = (int)search->version,
                                 .definition = search->definition,
                                 .params = params,
                                 .params_length = params == NULL ? 0 : strlen(params)};
    text_copy(start.id, sizeof start.id, text_of_field(execution, "id"));
    enum weir_status status = params == NULL ? error_out_of_memory(error) : assemble_workflow_id(&start, to, error);
    free(params);
    return status;
}

enum weir_status temporal_workflow_of(struct store *store, const json_t *execution, struct temporal_workflow *ret_workflow,
                                      struct weir_error *error)
{
    const char *recorded = recorded_workflow_id(execution);
    struct search search = {.workspace = text_of_field(execution, "workspace"),
                            .version = json_integer_value(json_object_get(execution, "version"))};
    struct list_options options = {
        .kind = LIST_WORKFLOWS, .name = text_of_field(execution, "workflow"), .limit = LIST_LIMIT_MOST};
    *ret_workflow = (struct temporal_workflow){.execution = {.id = text_of_field(execution, "id")}};
    if (recorded != NULL) {
        ret_workflow->execution.workflow_id = recorded;
        return WEIR_OK;
    }
    enum weir_status status = store_list_each(store, &options, take_version, &search, error);
    if (status == WEIR_OK && search.definition != NULL) {
        status = evaluate_own_workflow_id(execution, &search, ret_workflow->workflow_id, error);
        ret_workflow->execution.workflow_id = ret_workflow->workflow_id;
    }
    free(search.definition);
    return status;
}
