/* The verbs of hooks, and the names of the ends for which they start.
 *
 * Each verb checks its arguments and calls the driver, so that all drivers refuse the same. The name of a hook is a part of
 * idempotency keys and of the names of workspaces, so its characters are those of a workflow. The verbs of the duty have no
 * actor: they are no acts, and are not on record. Runs in the caller's thread.
 */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "store/call.h"

/* Only ends have hooks: what begins or waits is in the stream. */
bool hook_end_parse(const char *name, enum item_state *ret_state)
{
    INVARIANT(ret_state != NULL);
    static const enum item_state ends[HOOK_ENDS_MOST] = {ITEM_COMPLETED, ITEM_FAILED, ITEM_CANCELLED};
    for (size_t i = 0; name != NULL && i < HOOK_ENDS_MOST; i++) {
        if (strcasecmp(name, item_state_name(ends[i])) == 0) {
            *ret_state = ends[i];
            return true;
        }
    }
    return false;
}

/* The name is a part of paths and of idempotency keys. */
enum weir_status hook_name_check(const char *name, struct weir_error *error)
{
    enum weir_status status = call_check_name("hook", name, HOOK_NAME_MAX, error);
    if (status == WEIR_OK &&
        (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != strlen(name) || name[0] == '-' || name[0] == '_')) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a name of a hook", name);
        error_hint(error, "a name has the characters a-z, 0-9, - and _, and begins with a letter or a digit");
        return WEIR_INVALID_ARGUMENT;
    }
    return status;
}

/* The order of the ends has no meaning. A hook for no end would never start. */
static enum weir_status check_ends(const struct hook_request *request, struct weir_error *error)
{
    bool is_fine = request->on_count > 0 && request->on_count <= HOOK_ENDS_MOST;
    for (size_t i = 0; i < request->on_count && is_fine; i++) {
        is_fine = item_is_terminal(request->on[i]);
        for (size_t j = 0; j < i && is_fine; j++) {
            is_fine = request->on[j] != request->on[i];
        }
    }
    if (!is_fine) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a hook is for one or more ends, each named once");
        error_hint(error, "the ends are completed, failed and cancelled");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

enum weir_status store_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                                struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL);
    bool is_new = false;
    bool *is_made = ret_is_new == NULL ? &is_new : ret_is_new;
    enum weir_status status = hook_name_check(request->name, error);
    if (status == WEIR_OK) {
        status = check_ends(request, error);
    }
    if (status == WEIR_OK && request->workspace != NULL) {
        status = call_check_name("workspace", request->workspace, WORKSPACE_NAME_MAX, error);
    }
    if (status == WEIR_OK && request->workflow != NULL) {
        status = call_check_name("workflow", request->workflow, WORKFLOW_NAME_MAX, error);
    }
    if (status == WEIR_OK) {
        status = call_check_name("workspace", request->start_workspace, WORKSPACE_NAME_MAX, error);
    }
    if (status == WEIR_OK) {
        status = call_check_name("workflow", request->start_workflow, WORKFLOW_NAME_MAX, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "hook_set", error, store->driver->hook_set(store, request, is_made, detail));
}

/* A paused hook keeps its events. */
enum weir_status store_hook_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = call_check_name("hook", name, HOOK_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "hook_pause", error, store->driver->hook_pause(store, name, paused, detail));
}

enum weir_status store_hook_delete(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = call_check_name("hook", name, HOOK_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "hook_delete", error, store->driver->hook_delete(store, name, detail));
}

enum weir_status store_read_hook_events(struct store *store, struct arena *arena, struct hook_events *ret_events,
                                        struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_events != NULL);
    CALL(store, "read_hook_events", error, store->driver->read_hook_events(store, arena, ret_events, detail));
}

enum weir_status store_settle_hook_events(struct store *store, const struct hook_outcome *outcomes, size_t count,
                                          struct weir_error *error)
{
    INVARIANT(store != NULL && (outcomes != NULL || count == 0));
    if (count > HOOK_EVENTS_READ_MOST) {
        return error_set(error, WEIR_MISUSE, "a call settles at most %d events of hooks", HOOK_EVENTS_READ_MOST);
    }
    if (count == 0) {
        return WEIR_OK;
    }
    CALL(store, "settle_hook_events", error, store->driver->settle_hook_events(store, outcomes, count, detail));
}

enum weir_status store_trim_hook_events(struct store *store, int64_t *ret_removed, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_removed != NULL);
    CALL(store, "trim_hook_events", error, store->driver->trim_hook_events(store, ret_removed, detail));
}
