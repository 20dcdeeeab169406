/* `weir workspace delete`, `weir workflow disable`, `enable`, `delete`.
 *
 * The deletion of a workspace cannot be undone, so a person confirms it by its name, or gives --yes. The question names the
 * number of waiting executions. --dry-run reads the row of the workspace and changes nothing. The store itself refuses what
 * would hurt executions that run; this file only asks and reports. One thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* --- workspace delete --- */

static enum weir_status confirm_deletion(const struct invocation *invocation, const char *name, int64_t waiting,
                                         struct weir_error *error)
{
    struct output *output = invocation->output;
    char question[400];
    bool was_asked = false;
    if (invocation_has(invocation, "yes")) {
        return WEIR_OK;
    }
    (void)snprintf(
        question, sizeof question,
        "Workspace %s has %" PRId64 " waiting executions%s. Type its name to delete it: ", output_safe(output, name),
        waiting, invocation_has(invocation, "erase") ? ", and its history will be erased" : "");
    if (output_ask(output, question, name, &was_asked)) {
        return WEIR_OK;
    }
    if (was_asked) {
        return error_set(error, WEIR_STOPPED, "nothing was changed");
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "nothing was deleted, because there is no terminal to confirm the deletion");
    error_hint(error, "--yes deletes it without a question");
    return WEIR_INVALID_ARGUMENT;
}

/* Reads the numbers of a workspace. One that is deleted already has none: then only its history can be erased. */
static enum weir_status read_workspace_numbers(const struct invocation *invocation, struct store *store, const char *name,
                                               int64_t *ret_waiting, int64_t *ret_running, struct weir_error *error)
{
    json_t *page = NULL;
    enum weir_status status = page_read(store, LIST_WORKSPACES, name, &page, error);
    if (status == WEIR_OK && page_size(page) == 0 &&
        (invocation_is_dry_run(invocation) || !invocation_has(invocation, "erase"))) {
        status = store_require_name(store, LIST_WORKSPACES, name, WEIR_WORKSPACE_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        *ret_waiting = field_number(page_first(page), "pending", 0);
        *ret_running = field_number(page_first(page), "slots_used", 0);
    }
    json_decref(page);
    return status;
}

/* --dry-run: the refusal that the store would give now. */
static enum weir_status rehearse_deletion(const struct invocation *invocation, const char *name, int64_t waiting,
                                          int64_t running, struct weir_error *error)
{
    if (running == 0 && (waiting == 0 || invocation_has(invocation, "fail-waiting"))) {
        return WEIR_OK;
    }
    error_set(error, WEIR_ILLEGAL_STATE, "workspace \"%s\" has %" PRId64 " waiting and %" PRId64 " running executions",
              name, waiting, running);
    error_hint(error, running > 0 ? "pause it, then await or cancel the running ones" : "--fail-waiting ends them");
    return WEIR_ILLEGAL_STATE;
}

static enum weir_status delete_named_workspace(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    bool is_dry_run = invocation_is_dry_run(invocation);
    int64_t waiting = 0;
    int64_t running = 0;
    struct deletion_result result = {.failed = 0};
    struct workspace_deletion deletion = {.name = invocation_argument(invocation, 0),
                                          .fails_waiting = invocation_has(invocation, "fail-waiting"),
                                          .erases = invocation_has(invocation, "erase")};
    enum weir_status status = read_workspace_numbers(invocation, store, deletion.name, &waiting, &running, error);
    if (status == WEIR_OK) {
        status = is_dry_run ? rehearse_deletion(invocation, deletion.name, waiting, running, error)
                            : confirm_deletion(invocation, deletion.name, waiting, error);
    }
    if (status == WEIR_OK && !is_dry_run) {
        status = store_delete_workspace(store, &deletion, &result, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    int64_t failed = is_dry_run ? waiting : (int64_t)result.failed;
    output_report_sign(output, SIGN_FINE,
                       "workspace %s %sdeleted; waiting executions ended: %" PRId64 ", ended executions erased: %zu",
                       output_safe(output, deletion.name), is_dry_run ? "would be " : "is ", failed, result.erased);
    return verb_print_act(invocation,
                          json_pack("{s:s, s:I, s:I}", "name", deletion.name, "failed", (json_int_t)failed, "erased",
                                    (json_int_t)result.erased),
                          error);
}

enum weir_status verb_workspace_delete(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, delete_named_workspace, error);
}

/* --- workflow disable, enable, delete --- */

/* --dry-run: the workflow must exist with this owner; NULL = it is of all workspaces. */
static enum weir_status require_owned_workflow(struct store *store, const char *name, const char *workspace,
                                               struct weir_error *error)
{
    json_t *page = NULL;
    size_t i;
    json_t *row;
    bool found = false;
    const struct list_options options = {
        .kind = LIST_WORKFLOWS, .name = name, .filter.workspace = workspace, .limit = LIST_LIMIT_MOST};
    enum weir_status status = workspace == NULL
                                  ? WEIR_OK
                                  : store_require_name(store, LIST_WORKSPACES, workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = page_require_workflow(store, workspace, name, error);
    }
    if (status == WEIR_OK || status == WEIR_WORKFLOW_NOT_YOURS) {
        status = page_read_all(store, &options, &page, error);
    }
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        const char *owner = json_string_value(json_object_get(row, "workspace"));
        found = found || (owner == NULL ? workspace == NULL : workspace != NULL && strcmp(owner, workspace) == 0);
    }
    json_decref(page);
    if (status == WEIR_OK && !found) {
        error_set(error, WEIR_WORKFLOW_NOT_FOUND, "there is no workflow of %s \"%s\"",
                  workspace == NULL ? "all workspaces" : "this workspace", name);
        error_hint(error, "`weir workflow list` shows them, with their owners");
        status = WEIR_WORKFLOW_NOT_FOUND;
    }
    return status;
}

static enum weir_status act_on_workflow(struct invocation *invocation, struct store *store, enum workflow_state state,
                                        struct weir_error *error)
{
    static const char *const done[] = {"enabled", "disabled: new executions are refused, those in the queue go on",
                                       "deleted"};
    static const char *const names[] = {"enabled", "disabled", "deleted"};
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    const char *workspace = invocation_text(invocation, "workspace");
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run ? require_owned_workflow(store, name, workspace, error)
                                         : store_set_workflow_state(store, name, workspace, state, error);
    if (status != WEIR_OK) {
        return status;
    }
    output_report_sign(output, SIGN_FINE, "workflow %s %s%s", output_safe(output, name), is_dry_run ? "would be " : "is ",
                       done[state]);
    return verb_print_act(
        invocation, json_pack("{s:s, s:s?, s:s}", "name", name, "workspace", workspace, "state", names[state]), error);
}

static enum weir_status disable_workflow(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return act_on_workflow(invocation, store, WORKFLOW_DISABLED, error);
}

static enum weir_status enable_workflow(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return act_on_workflow(invocation, store, WORKFLOW_PUBLISHED, error);
}

static enum weir_status delete_workflow(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return act_on_workflow(invocation, store, WORKFLOW_DELETED, error);
}

enum weir_status verb_workflow_disable(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, disable_workflow, error);
}

enum weir_status verb_workflow_enable(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, enable_workflow, error);
}

enum weir_status verb_workflow_delete(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, delete_workflow, error);
}
