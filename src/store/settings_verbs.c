/* The verbs of operators and of locks: bulk acts, plans, workspaces, pauses, definitions, locks.
 *
 * Each verb checks its arguments and calls the driver. The checks stand here, not in the drivers, so that a name that one
 * store refuses is refused by all. A verb that makes nothing new accepts blank names: rows with such names can exist in
 * stores that were made by older versions, and their settings must stay changeable. Runs in the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "observe/event.h"
#include "queue/name.h"
#include "store/bulk_act.h"
#include "store/call.h"

/* Drivers see only the options of their act, so that a forgotten one of another act changes nothing. */
enum weir_status store_bulk_ordered(struct store *store, enum bulk_act act, const struct act_order *order,
                                    const struct execution_filter *filter, const char *after, size_t limit,
                                    struct bulk_result *ret_result, struct weir_error *error)
{
    static const struct act_order plain = {.keeps_finished = false};
    INVARIANT(ret_result != NULL);
    struct act_order own = order == NULL ? plain : *order;
    order = &own;
    /* Options of other acts are dropped, so that no driver reads them. */
    if (act != BULK_RETRY) {
        own.keeps_finished = false;
        own.from = NULL;
    }
    if (act != BULK_SIGNAL) {
        own.signal_name = NULL;
        own.signal_data = NULL;
        own.signal_key = NULL;
    }
    if (act != BULK_MIGRATE) {
        own.to_version = 0;
        own.only_checks = false;
    }
    if (limit == 0 || limit > LIST_LIMIT_MOST || filter == NULL || after == NULL) {
        return error_set(error, WEIR_MISUSE, "a bulk act takes 1 to %d executions at a time", LIST_LIMIT_MOST);
    }
    if (order->from != NULL && !order->keeps_finished) {
        return error_set(error, WEIR_MISUSE, "a retry from a step keeps the finished steps before it");
    }
    if (order->from != NULL && !name_is_valid(order->from)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the name of a step", order->from);
    }
    if (act == BULK_WAKE && bulk_act_check_wait(order->waits_for, error) != WEIR_OK) {
        return WEIR_INVALID_ARGUMENT;
    }
    if (act == BULK_SIGNAL && bulk_act_check_signal(order, error) != WEIR_OK) {
        return WEIR_INVALID_ARGUMENT;
    }
    if (act == BULK_MIGRATE && bulk_act_check_migration(order, filter, error) != WEIR_OK) {
        return WEIR_INVALID_ARGUMENT;
    }
    CALL(store, bulk_act_name(act), error,
         store->driver->bulk(store, act, order, filter, after, limit, ret_result, detail));
}

enum weir_status store_bulk(struct store *store, enum bulk_act act, const struct execution_filter *filter,
                            const char *after, size_t limit, struct bulk_result *ret_result, struct weir_error *error)
{
    return store_bulk_ordered(store, act, NULL, filter, after, limit, ret_result, error);
}

enum weir_status store_bulk_one(struct store *store, enum bulk_act act, const struct act_order *order,
                                const struct execution_filter *filter, struct bulk_result *ret_result,
                                struct weir_error *error)
{
    INVARIANT(filter != NULL && filter->id != NULL);
    enum weir_status status = store_bulk_ordered(store, act, order, filter, "", 1, ret_result, error);
    if (status == WEIR_OK && ret_result->matched == 0) {
        return error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", filter->id);
    }
    if (status == WEIR_OK && ret_result->changed == 0) {
        if (error != NULL) {
            *error = ret_result->refusal;
        }
        return ret_result->first_refusal == WEIR_OK ? WEIR_ILLEGAL_STATE : ret_result->first_refusal;
    }
    return status;
}

static bool is_pending_limit(int64_t most)
{
    return most >= 0 && most <= MAX_PENDING_MOST;
}

static enum weir_status refuse_pending_limit(struct weir_error *error)
{
    return error_set(error, WEIR_INVALID_ARGUMENT, "max_pending must be 0 to %d; 0 = no limit", MAX_PENDING_MOST);
}

enum weir_status store_set_plan(struct store *store, const struct plan_change *change, struct weir_error *error)
{
    INVARIANT(change != NULL);
    enum weir_status status = call_check_name("plan", change->name, PLAN_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (call_is_unfit_name(change->name)) {
        return call_refuse_unfit("plan", change->name, error);
    }
    if (change->max_concurrent < 0 || change->max_concurrent > MAX_CONCURRENT_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "max_concurrent must be 1 to %d", MAX_CONCURRENT_MOST);
    }
    if (change->weight < 0 || change->weight > WEIGHT_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "weight must be 1 to %d", WEIGHT_MOST);
    }
    if (change->max_pending != PENDING_UNLIMITED && !is_pending_limit(change->max_pending)) {
        return refuse_pending_limit(error);
    }
    CALL(store, "set_plan", error, store->driver->set_plan(store, change, detail));
}

/* One of an older version goes on; no more are made. */
static enum weir_status change_unfit_workspace(struct store *store, const struct workspace_change *change,
                                               struct weir_error *error)
{
    struct workspace_change only_change = *change;
    only_change.create = false;
    struct call call = call_begin(store, "set_workspace", error);
    enum weir_status status = call_end(&call, store->driver->set_workspace(store, &only_change, &call.own));
    return status == WEIR_WORKSPACE_NOT_FOUND && change->create ? call_refuse_unfit("workspace", change->name, error)
                                                                : status;
}

enum weir_status store_set_workspace(struct store *store, const struct workspace_change *change, struct weir_error *error)
{
    INVARIANT(change != NULL);
    enum weir_status status = call_check_name("workspace", change->name, WORKSPACE_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (change->max_concurrent < -1 || change->max_concurrent > MAX_CONCURRENT_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "max_concurrent must be 1 to %d", MAX_CONCURRENT_MOST);
    }
    if (change->max_pending < PENDING_UNLIMITED || change->max_pending > MAX_PENDING_MOST) {
        return refuse_pending_limit(error);
    }
    if (call_is_unfit_name(change->name)) {
        return change_unfit_workspace(store, change, error);
    }
    CALL(store, "set_workspace", error, store->driver->set_workspace(store, change, detail));
}

/* A pause of the queue counts beside those of groups and workspaces: each must end before their work goes on. */
enum weir_status store_set_paused(struct store *store, const char *group, bool paused, struct weir_error *error)
{
    CALL(store, paused ? "pause" : "resume", error, store->driver->set_paused(store, group, paused, detail));
}

static enum weir_status publish(struct store *store, const struct publication *asked, struct published *ret_published,
                                struct weir_error *error)
{
    const char *name = asked->name;
    const char *workspace = asked->workspace;
    const char *text = asked->text;
    const char *source = asked->source;
    INVARIANT(text != NULL && ret_published != NULL);
    enum weir_status status = call_check_name("workflow", name, WORKFLOW_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] != '\0' || name[0] == '_' || name[0] == '-') {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the name of a workflow", name);
        error_hint(error, "a name has small letters, digits, _ and -, and begins with a letter or digit");
        return WEIR_INVALID_ARGUMENT;
    }
    if (source != NULL && strlen(source) > DEFINITION_SOURCE_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the source of a definition has at most %d bytes",
                         DEFINITION_SOURCE_BYTES_MAX);
    }
    struct definition_schedules schedules;
    status = definition_schedules_open(store, name, workspace, text, &schedules, error);
    if (status == WEIR_OK) {
        struct call call = call_begin(store, "publish", error);
        struct publication publication = *asked;
        publication.schedules = &schedules;
        status = call_end(&call, store->driver->publish(store, &publication, ret_published, &call.own));
        if (status == WEIR_OK && asked->only_try && !ret_published->unchanged) {
            ret_published->definition_id = 0; /* there is no such row */
        }
        definition_schedules_close(&schedules);
    }
    return status;
}

enum weir_status store_publish(struct store *store, const char *name, const char *workspace, const char *text,
                               const char *source, struct published *ret_published, struct weir_error *error)
{
    const struct publication publication = {.name = name, .workspace = workspace, .text = text, .source = source};
    return publish(store, &publication, ret_published, error);
}

enum weir_status store_try_publish(struct store *store, const char *name, const char *workspace, const char *text,
                                   const char *source, struct published *ret_published, struct weir_error *error)
{
    const struct publication publication = {
        .name = name, .workspace = workspace, .text = text, .source = source, .only_try = true};
    return publish(store, &publication, ret_published, error);
}

/* --- locks --- */

/* A lock needs a name, and a holder unless an operator frees it. */
static enum weir_status check_lock(const struct lock_request *request, bool needs_holder, struct weir_error *error)
{
    size_t length = request->name == NULL ? 0 : strlen(request->name);
    if (length == 0 || length > LOCK_NAME_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a lock's name has 1 to %d bytes", LOCK_NAME_MAX);
    }
    if (needs_holder && (request->holder == NULL || request->holder[0] == '\0' || strlen(request->holder) > 255)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a lock needs a holder of at most 255 bytes");
    }
    if (request->at_most_us < 0 || request->at_least_us < 0 ||
        (needs_holder && request->at_least_us > request->at_most_us)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the at-least time of a lock must not exceed its at-most time");
    }
    if (request->at_least_us > LOCK_HELD_MOST_US || request->at_most_us > LOCK_HELD_MOST_US) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a lock is taken for at most ten years (3650d)");
    }
    return WEIR_OK;
}

enum weir_status store_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL);
    enum weir_status status = check_lock(request, true, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (call_is_unfit_name(request->name)) {
        return call_refuse_unfit("lock", request->name, error);
    }
    struct call call = call_begin(store, "lock", error);
    status = store->driver->lock(store, request, &call.own);
    struct event event = {.type = status == WEIR_OK ? EVENT_LOCK_ACQUIRED : EVENT_LOCK_BUSY, .reason = request->name};
    if (status == WEIR_OK || status == WEIR_CONFLICT) {
        event_emit(store->events, &event);
    }
    return call_end(&call, status);
}

enum weir_status store_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL);
    enum weir_status status = check_lock(request, true, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "lock_extend", error, store->driver->lock_extend(store, request, detail));
}

enum weir_status store_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL);
    enum weir_status status = check_lock(request, false, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "unlock", error, store->driver->unlock(store, request, detail));
}
