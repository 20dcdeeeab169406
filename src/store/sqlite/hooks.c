/* Hooks on SQLite: the table hooks, and their events in hook_outbox.
 *
 * Ends of executions pass ends.c alone, so events are inserted there, by one statement for the whole set. A store without
 * hooks pays one look-up. Changes of hooks are acts, and their rows in `audit` commit with them. Runs in the caller's
 * thread.
 */
#include "store/sqlite/hooks.h"

#include <stdio.h>

#include "base/error.h"
#include "store/refusal.h"

enum weir_status hooks_add_events(struct write *write, struct weir_error *error)
{
    int64_t any = 0;
    enum weir_status status = connection_read_integer(write->connection, error, &any, QUERY_HAS_HOOKS, "");
    return status == WEIR_OK && any != 0
               ? connection_run(write->connection, error, NULL, QUERY_INSERT_HOOK_EVENTS, "i", write->now_us)
               : status;
}

/* --- acts --- */

/* NULL has the id 0. */
static enum weir_status find_hook_workspace(struct write *write, const char *name, int64_t *ret_id,
                                            struct weir_error *error)
{
    *ret_id = 0;
    if (name == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = connection_read_integer(write->connection, error, ret_id, QUERY_FIND_WORKSPACE, "t", name);
    return status != WEIR_NOT_FOUND ? status
                                    : write_refuse_name(write, QUERY_WORKSPACE_NAMES, WEIR_WORKSPACE_NOT_FOUND, "workspace",
                                                        name, WORKSPACE_HOW, error);
}

static enum weir_status write_hook(struct write *write, const struct hook_request *request, bool is_new,
                                   struct weir_error *error)
{
    char on[64] = "[";
    size_t length = 1;
    int64_t count = 0;
    int64_t workspace_id = 0;
    int64_t start_workspace_id = 0;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < request->on_count; i++) {
        length += (size_t)snprintf(on + length, sizeof on - length, "\"%s\"%s", item_state_name(request->on[i]),
                                   i + 1 < request->on_count ? "," : "]");
    }
    if (is_new) {
        status = connection_read_integer(write->connection, error, &count, QUERY_COUNT_HOOKS, "");
    }
    if (status == WEIR_OK && count >= HOOKS_MOST) {
        return refusal_hooks_full(error);
    }
    if (status == WEIR_OK) {
        status = find_hook_workspace(write, request->workspace, &workspace_id, error);
    }
    if (status == WEIR_OK) {
        status = find_hook_workspace(write, request->start_workspace, &start_workspace_id, error);
    }
    return status == WEIR_OK
               ? connection_run(write->connection, error, NULL, QUERY_SET_HOOK, "ttititi", request->name, on, workspace_id,
                                request->workflow, start_workspace_id, request->start_workflow, write->now_us)
               : status;
}

enum weir_status sqlite_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                                 struct weir_error *error)
{
    INVARIANT(request != NULL && ret_is_new != NULL);
    struct write write;
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_read_integer(write.connection, error, &id, QUERY_FIND_HOOK, "t", request->name);
    bool is_new = status == WEIR_NOT_FOUND;
    if (status == WEIR_OK || is_new) {
        status = act_begin(&write, "hook set", "hook", request->name, NULL, error);
    }
    if (status == WEIR_OK) {
        status = write_hook(&write, request, is_new, error);
    }
    status = write_end(&write, status, error);
    *ret_is_new = status == WEIR_OK ? is_new : *ret_is_new;
    return status;
}

/* Opens the act on a hook that exists. The caller ends the write. */
static enum weir_status begin_change(struct write *write, const char *name, const char *act, int64_t *ret_id,
                                     struct weir_error *error)
{
    enum weir_status status = connection_read_integer(write->connection, error, ret_id, QUERY_FIND_HOOK, "t", name);
    if (status == WEIR_NOT_FOUND) {
        return write_refuse_name(write, QUERY_HOOK_NAMES, WEIR_NOT_FOUND, "hook", name, HOOK_HOW, error);
    }
    return status == WEIR_OK ? act_begin(write, act, "hook", name, NULL, error) : status;
}

enum weir_status sqlite_hook_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    INVARIANT(name != NULL);
    struct write write;
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = begin_change(&write, name, paused ? "hook pause" : "hook resume", &id, error);
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_PAUSE_HOOK, "ti", name, (int64_t)paused);
    }
    return write_end(&write, status, error);
}

enum weir_status sqlite_hook_delete(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(name != NULL);
    struct write write;
    int64_t id = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = begin_change(&write, name, "hook delete", &id, error);
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_DELETE_HOOK_EVENTS, "i", id);
    }
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_DELETE_HOOK, "i", id);
    }
    return write_end(&write, status, error);
}

/* --- the duty --- */

static enum weir_status read_events(struct connection *connection, struct arena *arena, struct hook_events *events,
                                    struct weir_error *error)
{
    int64_t now_us = 0;
    bool failed = false;
    enum weir_status status = connection_store_time(connection, &now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    events->events = arena_allocate(arena, HOOK_EVENTS_READ_MOST * sizeof *events->events);
    if (events->events == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_HOOK_EVENTS, "iii", now_us,
                                              (int64_t)HOOK_EVENTS_READ_MOST, (int64_t)HOOK_BACKLOG_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && events->count < HOOK_EVENTS_READ_MOST && connection_step(connection, statement, &status, error)) {
        struct hook_event *event = &events->events[events->count++];
        *event = (struct hook_event){.number = sqlite3_column_int64(statement, 0),
                                     .hook_id = sqlite3_column_int64(statement, 1),
                                     .hook = column_copy(statement, 2, arena, &failed),
                                     .workspace = column_copy(statement, 4, arena, &failed),
                                     .workflow = column_copy(statement, 5, arena, &failed),
                                     .params = column_copy(statement, 6, arena, &failed),
                                     .is_backlogged = sqlite3_column_int(statement, 7) != 0,
                                     .traceparent = column_copy(statement, 8, arena, &failed)};
        text_copy(event->id, sizeof event->id, column_text(statement, 3));
    }
    (void)sqlite3_reset(statement);
    return failed ? error_out_of_memory(error) : status;
}

enum weir_status sqlite_read_hook_events(struct store *store, struct arena *arena, struct hook_events *ret_events,
                                         struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_events != NULL);
    struct connection *connection;
    struct hook_events events = {.count = 0};
    int64_t has_events = 0;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_read_integer(connection, error, &has_events, QUERY_HAS_HOOK_EVENTS, "");
    if (status == WEIR_OK && has_events != 0) {
        events.has_events = true;
        status = read_events(connection, arena, &events, error);
    }
    snapshot_end(connection);
    if (status == WEIR_OK) {
        *ret_events = events;
    }
    return status;
}

/* The event stays, and all events of its hook wait for HOOK_RETRY_US. A hook that was deleted meanwhile has no row. */
static enum weir_status settle_failure(struct write *write, const struct hook_outcome *outcome, struct weir_error *error)
{
    return connection_run(write->connection, error, NULL, QUERY_NOTE_HOOK_FAILURE, "iitt", outcome->hook_id,
                          write->now_us + HOOK_RETRY_US, outcome->error_code, outcome->error);
}

/* Another node may have removed the event: then it is not counted again. */
static enum weir_status settle_success(struct write *write, const struct hook_outcome *outcome, struct weir_error *error)
{
    struct connection *connection = write->connection;
    int64_t removed = 0;
    enum weir_status status = connection_run(connection, error, &removed, QUERY_REMOVE_HOOK_EVENT, "i", outcome->number);
    if (status == WEIR_OK && removed > 0 && outcome->is_dropped) {
        status = connection_run(connection, error, NULL, QUERY_COUNT_DROPPED_HOOK_EVENT, "i", outcome->hook_id);
    }
    return status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_NOTE_HOOK_SUCCESS, "i", outcome->hook_id)
                             : status;
}

enum weir_status sqlite_settle_hook_events(struct store *store, const struct hook_outcome *outcomes, size_t count,
                                           struct weir_error *error)
{
    INVARIANT(outcomes != NULL && count <= HOOK_EVENTS_READ_MOST);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    /* Successes come first, because a success removes the error of its hook. A hook with an outcome of each kind waits, as
     * on PostgreSQL, where one statement decides for each hook. */
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (outcomes[i].error_code == NULL) {
            status = settle_success(&write, &outcomes[i], error);
        }
    }
    for (size_t i = count; i > 0 && status == WEIR_OK; i--) { /* the first error of a hook is written last, and stays */
        if (outcomes[i - 1].error_code != NULL) {
            status = settle_failure(&write, &outcomes[i - 1], error);
        }
    }
    return write_end(&write, status, error);
}

/* Deletes the rows, and then counts them in their hooks: a statement that returns rows must not see changes meanwhile. */
static enum weir_status drop_events(struct write *write, int64_t *ret_removed, struct weir_error *error)
{
    int64_t hooks[HOOK_EVENTS_TRIM_MOST];
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_DROP_HOOK_EVENTS, "iii", write->now_us - HOOK_EVENTS_KEEP_US,
                        (int64_t)HOOK_EVENTS_MOST, (int64_t)HOOK_EVENTS_TRIM_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(write->connection, statement, &status, error)) {
        INVARIANT(count < HOOK_EVENTS_TRIM_MOST);
        hooks[count++] = sqlite3_column_int64(statement, 0);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = connection_run(write->connection, error, NULL, QUERY_COUNT_DROPPED_HOOK_EVENT, "i", hooks[i]);
    }
    *ret_removed = (int64_t)count;
    return status;
}

enum weir_status sqlite_trim_hook_events(struct store *store, int64_t *ret_removed, struct weir_error *error)
{
    INVARIANT(ret_removed != NULL);
    struct write write;
    struct connection *reader;
    int64_t now_us = 0;
    int64_t any = 0;
    int64_t removed = 0;
    enum weir_status status = store_reader(store, &reader, error);
    if (status == WEIR_OK) {
        status = connection_store_time(reader, &now_us, error);
    }
    if (status == WEIR_OK) { /* a store without such events is not written */
        status = connection_read_integer(reader, error, &any, QUERY_HAS_HOOK_EVENTS_TO_DROP, "ii",
                                         now_us - HOOK_EVENTS_KEEP_US, (int64_t)HOOK_EVENTS_MOST);
    }
    if (status == WEIR_OK && any != 0) {
        status = write_open(store, &write, error);
        if (status != WEIR_OK) {
            return status;
        }
        status = write_end(&write, drop_events(&write, &removed, error), error);
    }
    *ret_removed = status == WEIR_OK ? removed : *ret_removed;
    return status;
}
