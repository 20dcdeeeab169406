/* Reads of the store that several verbs share.
 *
 * A list of the store comes in pages of LIST_LIMIT_MOST rows. page_read_all() follows the cursors and makes one page of
 * them, with the members of any other page. store_require_name() finds the nearest existing name for the hint when a
 * name is misspelt. Nothing here writes to the store or prints. Runs in the only thread of a command.
 */
#include "cli/verbs/store_pages.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/output/output.h"
#include "store/filter.h"

/* --- pages --- */

/* The rows that collect_row() has copied. */
struct collection {
    json_t *items;
    bool is_whole;
};

static bool collect_row(void *context, const json_t *row)
{
    struct collection *collection = context;
    collection->is_whole = json_array_append_new(collection->items, json_deep_copy(row)) == 0;
    return collection->is_whole;
}

enum weir_status page_read(struct store *store, enum store_list_kind kind, const char *name, json_t **ret_page,
                           struct weir_error *error)
{
    struct list_options options = {.kind = kind, .name = name, .limit = LIST_LIMIT_MOST};
    return page_read_all(store, &options, ret_page, error);
}

enum weir_status page_read_all(struct store *store, const struct list_options *options, json_t **ret_page,
                               struct weir_error *error)
{
    struct collection all = {.items = json_array(), .is_whole = true};
    enum weir_status status =
        all.items == NULL ? error_out_of_memory(error) : store_list_each(store, options, collect_row, &all, error);
    json_t *page = NULL;
    if (status == WEIR_OK && all.is_whole) {
        page = json_pack("{s:O, s:n, s:I, s:b}", "items", all.items, "next_cursor", "count",
                         (json_int_t)json_array_size(all.items), "count_is_exact", 1);
    }
    json_decref(all.items);
    if (status == WEIR_OK && page == NULL) {
        return error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        *ret_page = page;
    }
    return status;
}

const json_t *page_first(const json_t *page)
{
    return json_array_get(json_object_get(page, "items"), 0);
}

/* --- rows and ids --- */

enum weir_status execution_id_or_last(const struct invocation *invocation, struct store *store, char *to,
                                      const char **ret_id, struct weir_error *error)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 1};
    json_t *page = NULL;
    *ret_id = invocation_argument(invocation, 0);
    if ((*ret_id != NULL) == invocation_has(invocation, "last")) {
        return invocation_usage_error(invocation, error, "`weir %s` needs %s", invocation->command->name,
                                      *ret_id != NULL ? "either an id or --last, not both" : "an id, or --last");
    }
    if (*ret_id != NULL) {
        return WEIR_OK;
    }
    enum weir_status status = store_list(store, &options, &page, error);
    const char *id = json_string_value(json_object_get(page_first(page), "id"));
    if (status == WEIR_OK && id == NULL) {
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution");
        error_hint(error, "`weir enqueue` makes one");
    } else if (status == WEIR_OK) {
        text_copy(to, UUID_TEXT_MAX, id);
        *ret_id = to;
    }
    json_decref(page);
    return status;
}

bool row_is_held(const json_t *execution)
{
    return item_state_is_held(json_string_value(json_object_get(execution, "status")));
}

bool row_node_is_gone(const json_t *node)
{
    return json_is_string(json_object_get(node, "stopped_at")) || json_is_string(json_object_get(node, "recovered_at"));
}

bool row_node_is_live(const json_t *node)
{
    static const char *const gone[] = {"stopped", "dead", "expired"};
    const char *state = json_string_value(json_object_get(node, "state"));
    for (size_t i = 0; state != NULL && i < sizeof gone / sizeof gone[0]; i++) {
        if (strcmp(state, gone[i]) == 0) {
            return false;
        }
    }
    return state != NULL;
}

/* "running" is accepted for DISPATCHED; the hint gives the word that the answer has. */
static void hint_at_dispatched(const struct invocation *invocation, const char *where, const char *statuses)
{
    if ((where != NULL && filter_says_running(where, invocation->arena)) ||
        (statuses != NULL && filter_status_says_running(statuses))) {
        output_report(invocation->output, "hint: an execution that runs has the status DISPATCHED");
    }
}

/* The second look is for people who may see all workflows. A token of some workspaces gets the answer of the first one. */
enum weir_status page_require_workflow(struct store *store, const char *workspace, const char *name,
                                       struct weir_error *error)
{
    struct weir_error ignored;
    if (workspace == NULL) {
        return store_require_name(store, LIST_WORKFLOWS, name, WEIR_WORKFLOW_NOT_FOUND, error);
    }
    enum weir_status status = store_require_workflow(store, workspace, name, error);
    if (status == WEIR_WORKFLOW_NOT_FOUND &&
        store_require_name(store, LIST_WORKFLOWS, name, WEIR_WORKFLOW_NOT_FOUND, &ignored) == WEIR_OK) {
        return error_set(error, WEIR_WORKFLOW_NOT_YOURS, "workflow \"%s\" belongs to another workspace than \"%s\"", name,
                         workspace);
    }
    return status;
}

enum weir_status page_read_filter(const struct invocation *invocation, struct store *store,
                                  struct execution_filter *ret_filter, struct weir_error *error)
{
    struct execution_filter filter = {.id = NULL};
    const char *where = invocation_text(invocation, "where");
    const char *workspace = invocation_text(invocation, "workspace");
    bool has_status = invocation->command->run == verb_list && invocation_has(invocation, "status");
    const char *statuses = has_status ? invocation_text(invocation, "status") : NULL;
    int64_t now_us = 0;
    enum weir_status status = store_time(store, &now_us, error);
    if (status == WEIR_OK && where != NULL) {
        status = filter_parse(where, now_us, invocation->arena, &filter, error);
    }
    if (status == WEIR_OK && workspace != NULL) {
        status = filter_set_workspace(&filter, workspace, error);
    }
    if (status == WEIR_OK && statuses != NULL) {
        status = filter_set_statuses(&filter, statuses, error);
    }
    if (status == WEIR_OK) {
        hint_at_dispatched(invocation, where, statuses);
    }
    if (status == WEIR_OK && filter.workspace != NULL) {
        status = store_require_name(store, LIST_WORKSPACES, filter.workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK && filter.workflow != NULL) {
        status = page_require_workflow(store, filter.workspace, filter.workflow, error);
        status = status == WEIR_WORKFLOW_NOT_YOURS ? WEIR_OK : status; /* then nothing matches */
    }
    if (status == WEIR_OK) {
        *ret_filter = filter;
    }
    return status;
}
