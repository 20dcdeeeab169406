/* The verbs that delete, rename and disable: workspaces and workflows.
 *
 * A deletion is repeated in bounded transactions until the driver reports that no execution waits, and an erasure until the
 * history has no further row. Each transaction is a call with a deadline of its own. After a failure in between, the caller
 * repeats the verb: what is done stays done, and the rest is found again. A rename is one transaction, and its repetition
 * finds no workspace of the old name. The checks of names stand here, so that all
 * drivers refuse the same. Runs in the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "observe/event.h"
#include "store/call.h"

static enum weir_status check_deletion_name(const char *what, const char *name, size_t most, struct weir_error *error)
{
    size_t length = name == NULL ? 0 : strlen(name);
    if (length == 0 || length > most || !text_is_utf8(name, length)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name must have 1 to %zu bytes of UTF-8", what, most);
    }
    return WEIR_OK;
}

/* Between two transactions the listener may stop the call; what is done stays done. */
static enum weir_status report_between_steps(const struct store *store, size_t done, struct weir_error *error)
{
    if (store_report_progress(store, (int64_t)done, 0, NULL) == WEIR_OK) {
        return WEIR_OK;
    }
    return error_set(error, WEIR_INTERRUPTED, "interrupted after %zu executions; the same call goes on with the rest",
                     done);
}

/* --- workspaces --- */

static enum weir_status delete_in_steps(struct store *store, const struct workspace_deletion *deletion, size_t *ret_failed,
                                        struct weir_error *error)
{
    struct deletion_step step = {.more = true};
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && step.more) {
        struct call call = call_begin(store, "delete_workspace", error);
        status = call_end(&call, store->driver->delete_workspace(store, deletion, &step, &call.own));
        *ret_failed += status == WEIR_OK ? step.failed : 0;
        if (status == WEIR_OK && step.more) {
            status = report_between_steps(store, *ret_failed, error);
        }
    }
    return status;
}

/* A living workspace of the name would be suggested as the nearest one. */
static enum weir_status refuse_erasure(struct store *store, const char *name, struct weir_error *error)
{
    json_t *row = NULL;
    struct weir_error ignored;
    if (store_usage(store, name, &row, &ignored) == WEIR_OK) {
        json_decref(row);
        error_set(error, WEIR_WORKSPACE_NOT_FOUND, "no deleted workspace \"%s\" has left a history", name);
        error_hint(error, "the existing workspace keeps its history: delete it first, with `weir workspace delete`");
    }
    return WEIR_WORKSPACE_NOT_FOUND;
}

enum weir_status store_erase_workspace(struct store *store, const char *name, size_t *ret_erased, struct weir_error *error)
{
    INVARIANT(ret_erased != NULL);
    struct erasure_step step = {.more = true};
    size_t erased = 0;
    enum weir_status status = check_deletion_name("workspace", name, WORKSPACE_NAME_MAX, error);
    while (status == WEIR_OK && step.more) {
        struct call call = call_begin(store, "erase_workspace", error);
        status = call_end(&call, store->driver->erase_workspace(store, name, &step, &call.own));
        erased += status == WEIR_OK ? step.erased : 0;
        if (status == WEIR_OK && step.more) {
            status = report_between_steps(store, erased, error);
        }
    }
    if (status == WEIR_OK) {
        *ret_erased = erased;
    }
    return status == WEIR_WORKSPACE_NOT_FOUND ? refuse_erasure(store, name, error) : status;
}

enum weir_status store_delete_workspace(struct store *store, const struct workspace_deletion *deletion,
                                        struct deletion_result *ret_result, struct weir_error *error)
{
    INVARIANT(deletion != NULL && ret_result != NULL);
    struct deletion_result result = {.failed = 0};
    enum weir_status status = check_deletion_name("workspace", deletion->name, WORKSPACE_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = delete_in_steps(store, deletion, &result.failed, error);
    if (status == WEIR_OK) {
        struct event event = {.type = EVENT_WORKSPACE_DELETED,
                              .workspace = deletion->name,
                              .count = (int64_t)result.failed,
                              .reason = store_reason(store)};
        event_emit(store->events, &event);
    }
    /* The erasure finds whether a deleted workspace had the name. */
    if (deletion->erases && (status == WEIR_OK || status == WEIR_WORKSPACE_NOT_FOUND)) {
        status = store_erase_workspace(store, deletion->name, &result.erased, error);
    }
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}

/* 1. The old name is checked as that of a deletion, so that a name which no new workspace may have can be replaced.
 * 2. The new name is checked as that of a new workspace.
 * 3. The driver finds the workspace and changes its row, or refuses.
 * 4. The event has both names, because a log has lines of both. */
enum weir_status store_rename_workspace(struct store *store, const char *name, const char *new_name,
                                        struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = check_deletion_name("workspace", name, WORKSPACE_NAME_MAX, error);
    if (status == WEIR_OK) {
        status = call_check_name("workspace", new_name, WORKSPACE_NAME_MAX, error);
    }
    if (status == WEIR_OK && call_is_unfit_name(new_name)) {
        status = call_refuse_unfit("workspace", new_name, error);
    }
    if (status == WEIR_OK && strcmp(name, new_name) == 0) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is the name of the workspace already", name);
    }
    if (status != WEIR_OK) {
        return status;
    }
    struct call call = call_begin(store, "rename_workspace", error);
    status = call_end(&call, store->driver->rename_workspace(store, name, new_name, &call.own));
    if (status == WEIR_OK) {
        char change[2 * WORKSPACE_NAME_MAX + 8];
        (void)snprintf(change, sizeof change, "%s -> %s", name, new_name);
        struct event event = {.type = EVENT_WORKSPACE_RENAMED, .workspace = new_name, .reason = change};
        event_emit(store->events, &event);
    }
    return status;
}

/* --- workflows --- */

enum weir_status store_set_workflow_state(struct store *store, const char *name, const char *workspace,
                                          enum workflow_state state, struct weir_error *error)
{
    static const char *const verbs[] = {"enable_workflow", "disable_workflow", "delete_workflow"};
    INVARIANT((unsigned)state < sizeof verbs / sizeof verbs[0]);
    enum weir_status status = check_deletion_name("workflow", name, WORKFLOW_NAME_MAX, error);
    if (status == WEIR_OK && workspace != NULL) {
        status = check_deletion_name("workspace", workspace, WORKSPACE_NAME_MAX, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, verbs[state], error, store->driver->set_workflow_state(store, name, workspace, state, detail));
}
