/* The refusals of the store are for operators: they have names of all workspaces. Those of this file are made of the
 * request alone, so they are the same whether the thing is missing or another workspace's. */
#include "server/own_workspaces.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/uuid.h"
#include "definition/definition.h"

/* The store looks for the id in these workspaces alone. A row that is read and dropped here would take longer than a
 * missing one, so the time would tell that the execution of another workspace exists. */
enum weir_status own_workspaces_check_id(struct store *store, const struct principal *principal, const char *id,
                                         struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && !access_has_all_workspaces(principal));
    bool is_own = false;
    enum weir_status status = WEIR_OK;
    bool is_whole = uuid_is_valid(id);
    if (is_whole) {
        status = store_find_in_workspaces(store, id, principal->workspaces, principal->workspace_count, &is_own, error);
    }
    if (status != WEIR_OK || is_own) {
        return status;
    }
    error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
    if (!is_whole) {
        error_hint(error, "a token of some workspaces names executions by their whole ids");
    }
    return WEIR_EXECUTION_NOT_FOUND;
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

struct schedule_search {
    const char *workspace;
    const char *workflow;
    bool is_found;
};

/* A visitor of store_list_each(). `definition_name` is WORKSPACE/WORKFLOW. */
static bool find_schedule_of(void *context, const json_t *row)
{
    struct schedule_search *search = context;
    const char *name = json_string_value(json_object_get(row, "definition_name"));
    size_t length = strlen(search->workspace);
    search->is_found = name != NULL && strncmp(name, search->workspace, length) == 0 && name[length] == '/' &&
                       strcmp(name + length + 1, search->workflow) == 0;
    return !search->is_found;
}

enum weir_status own_workspaces_check_change(struct store *store, const struct principal *principal, const char *workspace,
                                             const char *workflow, struct weir_error *error)
{
    INVARIANT(store != NULL && workflow != NULL);
    if (access_has_all_workspaces(principal) || workspace == NULL) {
        return WEIR_OK;
    }
    struct schedule_search search = {.workspace = workspace, .workflow = workflow};
    const struct list_options options = {.kind = LIST_SCHEDULES, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, find_schedule_of, &search, error);
    if (status == WEIR_OK && search.is_found) {
        status = error_set(error, WEIR_NOT_PERMITTED,
                           "workflow \"%s\" has schedules: a token of some workspaces neither replaces nor deletes it",
                           workflow);
        error_hint(error, "use a token of all workspaces");
    }
    return status;
}

/* A step and its undo. Returns whether anything was taken out. */
static bool hide_start(const struct principal *principal, const json_t *step)
{
    bool is_changed = false;
    for (const json_t *each = step; each != NULL; each = json_object_get(each, "undo")) {
        json_t *start = json_object_get(each, "start");
        const char *workspace = json_string_value(json_object_get(start, "workspace"));
        if (workspace != NULL && !access_has_workspace(principal, workspace)) {
            (void)json_object_del(start, "workspace");
            is_changed = true;
        }
    }
    return is_changed;
}

/* The same for a whole definition. */
static bool hide_in_definition(const struct principal *principal, json_t *definition)
{
    static const char *const sections[] = {"steps", "on_failure", "finally"};
    bool is_changed = json_object_del(definition, "schedules") == 0;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const char *name;
        const json_t *step;
        json_object_foreach(json_object_get(definition, sections[i]), name, step)
        {
            is_changed = hide_start(principal, step) || is_changed;
        }
    }
    return is_changed;
}

enum weir_status own_workspaces_hide_definition(const struct principal *principal, json_t *row, struct weir_error *error)
{
    INVARIANT(row != NULL);
    /* One with an owner names no other workspace, and the token has its owner. */
    if (access_has_all_workspaces(principal) || json_is_string(json_object_get(row, "workspace"))) {
        return WEIR_OK;
    }
    struct text text = {.max = DEFINITION_MEMORY_BYTES_MAX};
    enum weir_status status = WEIR_OK;
    json_t *definition = json_load_text(json_string_value(json_object_get(row, "definition")), JSON_REJECT_DUPLICATES);
    if (definition == NULL) {
        return error_out_of_memory(error);
    }
    if (hide_in_definition(principal, definition)) {
        status = json_write(definition, &text, error);
        if (status == WEIR_OK && json_object_set_new(row, "definition", json_string(text.data)) != 0) {
            status = error_out_of_memory(error);
        }
        (void)json_object_del(row, "source");
    }
    json_decref(definition);
    text_close(&text);
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
