/* The role of the scheduler: one row with epoch, node and lease.
 *
 *   1. TAKE reads the row and changes it in one write transaction, which is alone on SQLite. It is refused while
 *      another live node has the role, unless the caller has seen that the process of that node is gone.
 *   2. TAKE increments the epoch. Every write of a scheduler checks the epoch in its own transaction (role_check()),
 *      so that a scheduler that was replaced writes nothing.
 *   3. TAKE also raises the fence to the store time, if it is lower. So a store that is restored from a backup gives
 *      no fence out a second time.
 *   4. LEAVE ends the lease. READ changes nothing and needs no writer.
 *
 * The lease decides only when another node may take the role; it protects nothing. TAKE and LEAVE run in the dispatch
 * thread of a node; READ, in any thread with its handle.
 */
#include <string.h>

#include "base/error.h"
#include "store/sqlite/row_json.h"

enum weir_status role_check(struct connection *connection, int64_t epoch, int64_t *cookie, struct weir_error *error)
{
    INVARIANT(epoch > 0 && cookie != NULL);
    int64_t present = 0;
    int64_t present_cookie = 0;
    enum weir_status status = connection_read_integer(connection, error, &present_cookie, QUERY_SCHEMA_COOKIE, "");
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &present, QUERY_READ_EPOCH, "");
    }
    if (status == WEIR_NOT_FOUND) {
        return error_set(error, WEIR_STORE_CORRUPT, "the row of the scheduler is missing");
    }
    if (status == WEIR_OK && present != epoch) {
        return error_set(error, WEIR_STALE_FENCE, "epoch %lld is over: another node has taken the role, epoch %lld",
                         (long long)epoch, (long long)present);
    }
    if (status == WEIR_OK && *cookie != 0 && *cookie != present_cookie) {
        return error_set(error, WEIR_STALE_FENCE, "the store was restored from a backup, or its schema changed");
    }
    *cookie = present_cookie;
    return status;
}

enum weir_status role_read(struct connection *connection, int64_t now_us, struct role_state *ret_state,
                           struct weir_error *error)
{
    INVARIANT(ret_state != NULL);
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_ROLE, "i", now_us);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? error_set(error, WEIR_STORE_CORRUPT, "the row of the scheduler is missing") : status;
    }
    *ret_state = (struct role_state){.epoch = sqlite3_column_int64(statement, 0),
                                     .node_id = sqlite3_column_int64(statement, 1),
                                     .since_us = sqlite3_column_int64(statement, 3),
                                     .expires_us = sqlite3_column_int64(statement, 4),
                                     .now_us = now_us,
                                     .takeovers_hour = sqlite3_column_int64(statement, 5),
                                     .is_free = sqlite3_column_int(statement, 6) != 0};
    text_copy(ret_state->node, sizeof ret_state->node, column_text(statement, 2));
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

/* Why the role changed hands last, since when its holder awaits the lock of dispatch.exclusive (0: it does not), and since
 * when and why no round succeeds. While a node has the role, only its own failure counts. */
enum weir_status role_add_reason(struct connection *connection, const struct role_state *role, json_t *scheduler,
                                 int64_t *ret_lock_awaited_us, struct weir_error *error)
{
    INVARIANT(connection != NULL && role != NULL && ret_lock_awaited_us != NULL);
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_WHY_OF_ROLE, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        (void)json_object_set_new(scheduler, "why", column_json(statement, 0));
        *ret_lock_awaited_us = sqlite3_column_int64(statement, 1);
        bool fails = role->is_free || sqlite3_column_int(statement, 4) != 0;
        (void)json_object_set_new(scheduler, "failing_since", fails ? column_time_json(statement, 2) : json_null());
        (void)json_object_set_new(scheduler, "error", fails ? column_json(statement, 3) : json_null());
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Takes the role if it is free, and increments the epoch. */
static enum weir_status take_role(struct write *write, const struct role_request *request, struct weir_error *error)
{
    struct role_state state;
    int64_t one;
    struct connection *connection = write->connection;
    enum weir_status status =
        connection_read_integer(connection, error, &one, QUERY_NODE_MAY_SCHEDULE, "i", request->node_id);
    if (status == WEIR_NOT_FOUND) {
        return error_set(error, WEIR_STALE_FENCE, "node %lld has lost its lease", (long long)request->node_id);
    }
    if (status == WEIR_OK) {
        status = role_read(connection, write->now_us, &state, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool is_gone = request->gone_node_id != 0 && request->gone_node_id == state.node_id;
    if (!state.is_free && !is_gone && state.node_id != request->node_id) {
        return error_set(error, WEIR_CONFLICT, "node %s schedules", state.node);
    }
    status = connection_run(connection, error, NULL, QUERY_TAKE_ROLE, "iiit", request->node_id, write->now_us,
                            request->lease_us, request->why);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_RAISE_FENCE, "i", write->now_us);
    }
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_NOTE_TAKEOVER, "i", write->now_us);
    }
    return status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_FORGET_TAKEOVERS, "") : status;
}

/* Takes or leaves the role, then reads it. */
static enum weir_status change_role(struct write *write, const struct role_request *request, struct role_state *state,
                                    struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (request->act == ROLE_TAKE) {
        status = take_role(write, request, error);
    } else {
        status = connection_run(write->connection, error, NULL, QUERY_LEAVE_ROLE, "iii", request->node_id, request->epoch,
                                write->now_us);
    }
    return status == WEIR_OK ? role_read(write->connection, write->now_us, state, error) : status;
}

/* Reads the role without a write. */
static enum weir_status read_role_state(struct store *store, struct role_state *ret_state, struct weir_error *error)
{
    struct connection *connection;
    int64_t now_us = 0;
    enum weir_status status = store_reader(store, &connection, error);
    if (status == WEIR_OK) {
        status = connection_store_time(connection, &now_us, error);
    }
    return status == WEIR_OK ? role_read(connection, now_us, ret_state, error) : status;
}

enum weir_status sqlite_role(struct store *store, const struct role_request *request, struct role_state *ret_state,
                             struct weir_error *error)
{
    INVARIANT(request->act == ROLE_READ || request->node_id > 0);
    struct write write;
    struct role_state state;
    if (request->act == ROLE_READ) {
        return read_role_state(store, ret_state, error);
    }
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = change_role(&write, request, &state, error);
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        *ret_state = state;
    }
    return status;
}
