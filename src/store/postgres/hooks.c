/* Hooks on PostgreSQL: one SQL function per act, and one statement for each part of the duty.
 *
 * Events are inserted by write_hook_events() in the transactions that end executions. A repeated settlement changes nothing
 * that the first has not changed. It runs in the thread that has the handle.
 */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/name_suggestions.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

/* --- acts --- */

enum weir_status postgres_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                                   struct weir_error *error)
{
    INVARIANT(request != NULL && ret_is_new != NULL);
    PGresult *result = NULL;
    const char *on[HOOK_ENDS_MOST];
    char unknown[WORKSPACE_NAME_MAX + 1] = "";
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < request->on_count; i++) {
        on[i] = item_state_name(request->on[i]);
    }
    struct link *link = link_of(store);
    status = link_write(link, error, &result, QUERY_SET_HOOK, "tTttttdtt", request->name, on, request->on_count,
                        request->workspace, request->workflow, request->start_workspace, request->start_workflow,
                        (int)HOOKS_MOST, store_actor(store), store_reason(store));
    if (status != WEIR_OK) {
        return status;
    }
    status = status_parse_name(result_text(result, 0, 0));
    bool is_new = result_bool(result, 0, 1);
    text_copy(unknown, sizeof unknown, result_null(result, 0, 2) ? "" : result_text(result, 0, 2));
    PQclear(result);
    if (status == WEIR_ILLEGAL_STATE) {
        return refusal_hooks_full(error);
    }
    if (status != WEIR_OK) {
        return refuse_unknown_name(link, QUERY_WORKSPACE_NAMES, status, "workspace", unknown, WORKSPACE_HOW, error);
    }
    *ret_is_new = is_new;
    return WEIR_OK;
}

/* The answer of an act on a hook that may be unknown. Takes the result. */
static enum weir_status finish_act(struct link *link, PGresult *result, const char *name, struct weir_error *error)
{
    enum weir_status status = status_parse_name(result_text(result, 0, 0));
    PQclear(result);
    return status == WEIR_OK ? status
                             : refuse_unknown_name(link, QUERY_HOOK_NAMES, WEIR_NOT_FOUND, "hook", name, HOOK_HOW, error);
}

enum weir_status postgres_hook_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    INVARIANT(name != NULL);
    PGresult *result = NULL;
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link, error, &result, QUERY_PAUSE_HOOK, "tott", name, (int)paused, store_actor(store),
                            store_reason(store));
    }
    return status == WEIR_OK ? finish_act(link, result, name, error) : status;
}

enum weir_status postgres_hook_delete(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(name != NULL);
    PGresult *result = NULL;
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link, error, &result, QUERY_DELETE_HOOK, "ttt", name, store_actor(store), store_reason(store));
    }
    return status == WEIR_OK ? finish_act(link, result, name, error) : status;
}

/* --- the duty --- */

enum { NUMBER, HOOK_ID, HOOK, ID, WORKSPACE, WORKFLOW, PARAMS, IS_BACKLOGGED, TRACEPARENT, HAS_EVENTS };

enum weir_status postgres_read_hook_events(struct store *store, struct arena *arena, struct hook_events *ret_events,
                                           struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_events != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link_of(store), error, &result, QUERY_READ_HOOK_EVENTS, "dd",
                                        (int)HOOK_EVENTS_READ_MOST, (int)HOOK_BACKLOG_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    int rows = PQntuples(result);
    struct hook_events events = {.has_events = result_bool(result, 0, HAS_EVENTS),
                                 .events = arena_allocate(arena, (size_t)rows * sizeof *events.events)};
    bool failed = events.events == NULL;
    for (int i = 0; i < rows && !failed && !result_null(result, i, NUMBER); i++) {
        struct hook_event *event = &events.events[events.count++];
        *event = (struct hook_event){.number = result_int(result, i, NUMBER),
                                     .hook_id = result_int(result, i, HOOK_ID),
                                     .hook = result_copy(result, i, HOOK, arena, &failed),
                                     .workspace = result_copy(result, i, WORKSPACE, arena, &failed),
                                     .workflow = result_copy(result, i, WORKFLOW, arena, &failed),
                                     .params = result_copy(result, i, PARAMS, arena, &failed),
                                     .is_backlogged = result_bool(result, i, IS_BACKLOGGED),
                                     .traceparent = result_copy(result, i, TRACEPARENT, arena, &failed)};
        text_copy(event->id, sizeof event->id, result_text(result, i, ID));
    }
    PQclear(result);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_events = events;
    return WEIR_OK;
}

enum weir_status postgres_settle_hook_events(struct store *store, const struct hook_outcome *outcomes, size_t count,
                                             struct weir_error *error)
{
    INVARIANT(outcomes != NULL && count <= HOOK_EVENTS_READ_MOST);
    int64_t numbers[HOOK_EVENTS_READ_MOST];
    int64_t hooks[HOOK_EVENTS_READ_MOST];
    const char *codes[HOOK_EVENTS_READ_MOST];
    const char *errors[HOOK_EVENTS_READ_MOST];
    int64_t dropped[HOOK_EVENTS_READ_MOST];
    for (size_t i = 0; i < count; i++) {
        numbers[i] = outcomes[i].number;
        hooks[i] = outcomes[i].hook_id;
        codes[i] = outcomes[i].error_code;
        errors[i] = outcomes[i].error_code == NULL ? NULL : outcomes[i].error;
        dropped[i] = outcomes[i].is_dropped ? 1 : 0;
    }
    /* One statement for the set. A hook with an error waits, whatever its other outcomes are. */
    enum weir_status status = postgres_require_writable(store, error);
    return status == WEIR_OK ? link_run(link_of(store), error, NULL, QUERY_SETTLE_HOOK_EVENTS, "IITTIi", numbers, count,
                                        hooks, count, codes, count, errors, count, dropped, count, (int64_t)HOOK_RETRY_US)
                             : status;
}

enum weir_status postgres_trim_hook_events(struct store *store, int64_t *ret_removed, struct weir_error *error)
{
    INVARIANT(ret_removed != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_DROP_HOOK_EVENTS, "idd", (int64_t)HOOK_EVENTS_KEEP_US,
                            (int)HOOK_EVENTS_MOST, (int)HOOK_EVENTS_TRIM_MOST);
    }
    if (status == WEIR_OK) {
        *ret_removed = result_int(result, 0, 0);
        PQclear(result);
    }
    return status;
}
