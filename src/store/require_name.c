/* Finds out whether a thing of this name exists.
 *
 * 1. One row is read by the name, which is nearly always there.
 * 2. Only a refusal reads further names, for its hint.
 *
 * The names of workflows can be held to those that one workspace may run. A hint must not name the workflow of another
 * workspace to a token that may not see it. */
#include "base/error.h"
#include "base/text.h"
#include "store/store.h"

/* Among the first LIST_LIMIT_MOST names: a hint may miss one, and must not read a million. */
static const char *nearest_in(const json_t *page, const char *name)
{
    const char *names[LIST_LIMIT_MOST];
    size_t count = 0;
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        if (count < LIST_LIMIT_MOST) {
            names[count++] = json_string_value(json_object_get(item, "name"));
        }
    }
    return text_nearest(name, names, count);
}

/* One row is read when the name exists, which is nearly always so. `workspace`: of workflows; NULL = all. */
static enum weir_status require_name(struct store *store, enum store_list_kind kind, const char *workspace,
                                     const char *name, enum weir_status missing, struct weir_error *error)
{
    static const char *const kinds[] = {
        [LIST_WORKSPACES] = "workspace", [LIST_PLANS] = "plan", [LIST_WORKFLOWS] = "workflow",
        [LIST_NODES] = "node",           [LIST_LOCKS] = "lock", [LIST_GROUPS] = "group",
        [LIST_TOKENS] = "token",         [LIST_HOOKS] = "hook", [LIST_SCHEDULES] = "schedule"};
    json_t *page = NULL;
    struct list_options options = {.kind = kind, .filter.workspace = workspace, .name = name, .limit = 1};
    enum weir_status status = store_list(store, &options, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool is_there = json_array_size(json_object_get(page, "items")) > 0;
    json_decref(page);
    if (is_there) {
        return WEIR_OK;
    }
    options = (struct list_options){.kind = kind, .filter.workspace = workspace, .limit = LIST_LIMIT_MOST};
    status = store_list(store, &options, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    const char *nearest = nearest_in(page, name);
    error_set(error, missing, "there is no %s \"%s\"", kinds[kind], name);
    if (nearest != NULL) {
        error_hint(error, "did you mean \"%s\"?", nearest);
    } else if (kind == LIST_GROUPS) {
        error_hint(error, "`weir node list` shows the groups of nodes, `weir status --json` all");
    } else {
        error_hint(error, "`weir %s list` shows them", kinds[kind]);
    }
    json_decref(page);
    return missing;
}

enum weir_status store_require_name(struct store *store, enum store_list_kind kind, const char *name,
                                    enum weir_status missing, struct weir_error *error)
{
    return require_name(store, kind, NULL, name, missing, error);
}

enum weir_status store_require_workflow(struct store *store, const char *workspace, const char *name,
                                        struct weir_error *error)
{
    return require_name(store, LIST_WORKFLOWS, workspace, name, WEIR_WORKFLOW_NOT_FOUND, error);
}
