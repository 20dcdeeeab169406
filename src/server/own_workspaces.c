/* The refusals of the store are for operators: they have names of all workspaces. Those of this file are made of the
 * request alone, so they are the same whether the thing is missing or another workspace's. */
#include "server/own_workspaces.h"

#include "base/error.h"
#include "base/uuid.h"

/* Each workspace is asked for the id by itself. A row that is read and dropped here would take longer than a missing one,
 * so the time would tell that the execution of another workspace exists. */
enum weir_status own_workspaces_check_id(struct store *store, const struct principal *principal, const char *id,
                                         struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && !access_has_all_workspaces(principal));
    bool is_own = false;
    for (size_t i = 0; i < principal->workspace_count && !is_own && uuid_is_valid(id); i++) {
        json_t *page = NULL;
        const struct list_options options = {
            .kind = LIST_EXECUTIONS, .filter = {.id = id, .workspace = principal->workspaces[i]}, .limit = 1};
        enum weir_status status = store_list(store, &options, &page, error);
        if (status != WEIR_OK) {
            return status;
        }
        is_own = json_array_size(json_object_get(page, "items")) > 0;
        json_decref(page);
    }
    return is_own ? WEIR_OK : error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
}

enum weir_status own_workspaces_check(const struct principal *principal, const char *workspace, struct weir_error *error)
{
    INVARIANT(workspace != NULL);
    return access_has_workspace(principal, workspace)
               ? WEIR_OK
               : error_set(error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", workspace);
}

bool own_workspaces_has_schedule(const struct principal *principal, const json_t *row)
{
    INVARIANT(row != NULL);
    size_t i;
    const json_t *name;
    const json_t *names = json_object_get(row, "workspaces");
    if (access_has_all_workspaces(principal)) {
        return true;
    }
    bool is_own = json_array_size(names) > 0 && json_array_size(json_object_get(row, "workspaces_deleted")) == 0;
    json_array_foreach(names, i, name)
    {
        is_own = is_own && access_has_workspace(principal, json_string_value(name));
    }
    return is_own;
}

enum weir_status own_workspaces_check_schedule(struct store *store, const struct principal *principal, const char *name,
                                               struct weir_error *error)
{
    INVARIANT(store != NULL && name != NULL);
    json_t *page = NULL;
    const struct list_options options = {.kind = LIST_SCHEDULES, .name = name, .limit = 1};
    enum weir_status status = store_list(store, &options, &page, error);
    if (status == WEIR_OK) {
        const json_t *row = json_array_get(json_object_get(page, "items"), 0);
        status = row != NULL && own_workspaces_has_schedule(principal, row)
                     ? WEIR_OK
                     : error_set(error, WEIR_NOT_FOUND, "there is no schedule \"%s\"", name);
    }
    json_decref(page);
    return status;
}

void own_workspaces_hide_refusal(const struct principal *principal, const struct enqueue_request *request,
                                 struct enqueue_result *result)
{
    const char *group = request->group != NULL ? request->group : request->default_group;
    if (access_has_all_workspaces(principal)) {
        return;
    }
    switch (result->status) {
    case WEIR_WORKFLOW_NOT_YOURS:
    case WEIR_WORKFLOW_NOT_FOUND:
        result->status = error_set(&result->error, WEIR_WORKFLOW_NOT_FOUND, "workspace \"%s\" has no workflow \"%s\"",
                                   request->workspace, request->workflow);
        error_hint(&result->error, "GET /v1/workflows?workspace=... lists those that it may run");
        break;
    case WEIR_WORKSPACE_NOT_FOUND:
        result->status =
            error_set(&result->error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", request->workspace);
        break;
    case WEIR_NOT_FOUND: /* its text has the names of other groups */
        result->status = error_set(&result->error, WEIR_NOT_FOUND, "there is no executor group \"%s\"",
                                   group != NULL ? group : "default");
        break;
    default:
        break;
    }
}
