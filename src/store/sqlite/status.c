/* The status of the store: sums, ages and reasons, from one snapshot.
 *
 * The lanes are summed in C (status_sums.c), and the rest comes from queries that read few rows each. No query passes all
 * items, and none all lanes. Never writes. Runs in the thread of the handle, on the reading connection of that handle. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/item.h"
#include "store/reading.h"
#include "store/sqlite/archive.h"
#include "store/sqlite/row_json.h"
#include "store/sqlite/status_sums.h"

/* Which node schedules, and how old the oldest row of the news is that is not in the books. */
static enum weir_status add_scheduler(struct connection *connection, int64_t now_us, json_t *answer,
                                      struct weir_error *error)
{
    struct role_state role;
    int64_t oldest_us = now_us;
    char since[TIME_TEXT_MAX];
    char expires[TIME_TEXT_MAX];
    enum weir_status status = role_read(connection, now_us, &role, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &oldest_us, QUERY_OLDEST_NEWS, "");
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool is_held = role.node_id != 0;
    time_format(role.since_us, since);
    time_format(role.expires_us, expires);
    json_t *scheduler =
        json_pack("{s:s?, s:o, s:I, s:s?, s:s?, s:I, s:I, s:b}", "node", is_held ? role.node : NULL, "node_id",
                  is_held ? json_integer(role.node_id) : json_null(), "epoch", (json_int_t)role.epoch, "taken_at",
                  role.since_us > 0 ? since : NULL, "expires_at", is_held ? expires : NULL, "lag_us",
                  (json_int_t)(now_us > oldest_us ? now_us - oldest_us : 0), "takeovers_hour",
                  (json_int_t)role.takeovers_hour, "is_free", role.is_free);
    int64_t lock_awaited_us = 0;
    if (json_object_set_new(answer, "scheduler", scheduler) != 0) {
        return error_out_of_memory(error);
    }
    status = role_add_reason(connection, &role, scheduler, &lock_awaited_us, error);
    if (status == WEIR_OK) {
        time_format(lock_awaited_us, since);
        bool awaits_lock = lock_awaited_us > 0 && !role.is_free;
        (void)json_object_set_new(scheduler, "lock_awaited_since", awaits_lock ? json_string(since) : json_null());
    }
    return status;
}

/* The sums over all lanes, whether the queue is paused, and late schedules. */
static enum weir_status read_totals(struct status_sums *sums, int64_t now_us, json_t *status_json, struct weir_error *error)
{
    const struct lane_delta *total = &sums->total;
    sqlite3_stmt *statement = connection_bind(sums->connection, error, QUERY_STATUS_TOTALS, "i", now_us - SCHEDULE_LATE_US);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(sums->connection, statement, &status, error)) {
        json_t *totals = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I}", "pending", (json_int_t)total->runnable + total->waiting,
            "slots_used", (json_int_t)total->held, "completed", (json_int_t)total->completed, "failed",
            (json_int_t)total->failed, "cancelled", (json_int_t)total->cancelled, "workspace_count",
            (json_int_t)sums->workspace_count, "queue_paused", sqlite3_column_int(statement, 0), "schedules_late",
            (json_int_t)sqlite3_column_int64(statement, 1), "waiting", (json_int_t)total->parked);
        status = json_object_update(status_json, totals) == 0 ? WEIR_OK : error_out_of_memory(error);
        json_decref(totals);
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* The sums over the live nodes. */
static enum weir_status read_node_totals(struct connection *connection, int64_t now_us, json_t *status_json,
                                         struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_STATUS_NODES, "i", now_us);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        (void)json_object_set_new(status_json, "nodes", json_integer(sqlite3_column_int64(statement, 0)));
        (void)json_object_set_new(status_json, "running", json_integer(sqlite3_column_int64(statement, 1)));
        (void)json_object_set_new(status_json, "stuck", json_integer(sqlite3_column_int64(statement, 2)));
        (void)json_object_set_new(status_json, "engine_reachable", json_boolean(sqlite3_column_int(statement, 3) != 0));
        const char *engine_error = column_text(statement, 4);
        (void)json_object_set_new(status_json, "engine_error",
                                  engine_error == NULL ? json_null() : json_string(engine_error));
        (void)json_object_set_new(status_json, "engine_impaired_since", column_time_json(statement, 5));
        (void)json_object_set_new(status_json, "engine_unreachable_since", column_time_json(statement, 6));
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Counts the waiting items by the reason that holds them back. */
static enum weir_status read_reasons(struct status_sums *sums, int64_t now_us, json_t *status_json,
                                     struct weir_error *error)
{
    const char *kinds;
    enum weir_status status = status_sums_kinds(sums, &kinds, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(sums->connection, error, QUERY_STATUS_REASONS, "iiti", now_us,
                                              (int64_t)BACKING_OFF_COUNT_MOST, kinds, sums->total.waiting);
    json_t *counted = json_object();
    status = statement == NULL ? statement_failure(error) : WEIR_OK;
    while (status == WEIR_OK && connection_step(sums->connection, statement, &status, error)) {
        const char *reason = column_text(statement, 0);
        (void)json_object_set_new(counted, reason == NULL ? "" : reason, json_integer(sqlite3_column_int64(statement, 1)));
    }
    if (status == WEIR_OK) {
        status = counted == NULL ? error_out_of_memory(error) : reading_add_reasons(status_json, counted, error);
    }
    json_decref(counted);
    return status;
}

/* The executions that are stuck for the longest time, each with its steps. */
static enum weir_status add_stuck(struct connection *connection, json_t *status_json, struct weir_error *error)
{
    json_t *rows = NULL;
    json_t *row;
    size_t i;
    enum weir_status status = statement_rows_json(
        connection, connection_bind(connection, error, QUERY_STATUS_STUCK, "i", (int64_t)STATUS_STUCK_MOST), &rows, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_array_foreach(rows, i, row)
    {
        json_t *steps = NULL;
        const char *id = json_string_value(json_object_get(row, "id"));
        if (status == WEIR_OK) {
            status = statement_rows_json(connection, connection_bind(connection, error, QUERY_UNFINISHED_STEPS, "t", id),
                                         &steps, error);
        }
        if (status == WEIR_OK && json_object_set_new(row, "unfinished_steps", steps) != 0) {
            status = error_out_of_memory(error);
        }
    }
    if (json_object_set_new(status_json, "stuck_executions", rows) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* The age of the next items of the largest lanes, and of the rows that back off. */
static enum weir_status add_oldest(struct status_sums *sums, int64_t now_us, json_t *status_json, struct weir_error *error)
{
    int64_t oldest_us = INT64_MAX;
    int64_t backing_off_us = INT64_MAX;
    enum weir_status status = status_sums_oldest(sums, 0, &oldest_us, NULL, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(sums->connection, error, &backing_off_us, QUERY_OLDEST_BACKING_OFF, "i",
                                         (int64_t)BACKING_OFF_COUNT_MOST);
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    oldest_us = backing_off_us < oldest_us ? backing_off_us : oldest_us;
    (void)json_object_set_new(status_json, "oldest_pending_age_us",
                              json_integer(oldest_us == INT64_MAX ? 0 : now_us - oldest_us));
    return status;
}

/* The groups by name, each with the sum of its lanes and the age of the next items of the largest ones. */
static enum weir_status status_add_groups(struct status_sums *sums, int64_t now_us, json_t *status_json,
                                          struct weir_error *error)
{
    sqlite3_stmt *statement =
        connection_bind(sums->connection, error, QUERY_STATUS_GROUPS, "ii", (int64_t)STATUS_GROUPS_MOST, now_us);
    json_t *groups = json_array();
    enum weir_status status = statement == NULL ? statement_failure(error) : WEIR_OK;
    while (status == WEIR_OK && connection_step(sums->connection, statement, &status, error)) {
        int64_t oldest_us;
        struct lane_delta sum;
        status = status_sums_oldest(sums, sqlite3_column_int64(statement, 0), &oldest_us, &sum, error);
        if (status == WEIR_OK) {
            json_t *row =
                json_pack("{s:s, s:b, s:I, s:o, s:I, s:I}", "name", column_text(statement, 1), "paused",
                          sqlite3_column_int(statement, 2), "pending", (json_int_t)sum.runnable + sum.waiting,
                          "oldest_pending_age_us", oldest_us == INT64_MAX ? json_null() : json_integer(now_us - oldest_us),
                          "slots_used", (json_int_t)sum.held, "nodes_live", (json_int_t)sqlite3_column_int64(statement, 3));
            status = json_array_append_new(groups, row) == 0 ? WEIR_OK : error_out_of_memory(error);
        }
    }
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
    }
    if (json_object_set_new(status_json, "executor_groups", groups) != 0 && status == WEIR_OK) {
        status = error_out_of_memory(error);
    }
    return status;
}

static enum weir_status status_add_workspaces(struct status_sums *sums, size_t most, int64_t now_us, json_t *status_json,
                                              struct weir_error *error)
{
    json_t *workspaces = NULL;
    enum weir_status status = status_sums_workspaces(sums, most, now_us, &workspaces, error);
    if (status == WEIR_OK && json_object_set_new(status_json, "workspaces", workspaces) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

static enum weir_status add_unserved(struct connection *connection, int64_t now_us, json_t *status_json,
                                     struct weir_error *error)
{
    json_t *unserved = NULL;
    enum weir_status status =
        statement_rows_json(connection,
                            connection_bind(connection, error, QUERY_STATUS_UNSERVED, "iii", now_us,
                                            (int64_t)BACKING_OFF_COUNT_MOST, (int64_t)STATUS_UNSERVED_MOST),
                            &unserved, error);
    if (status == WEIR_OK && json_object_set_new(status_json, "no_worker", unserved) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

/* The parts of the status, in the order of the answer. */
static enum weir_status status_add_parts(struct status_sums *sums, size_t workspaces_max, int64_t now_us, json_t *answer,
                                         struct weir_error *error)
{
    struct connection *connection = sums->connection;
    enum weir_status status = read_totals(sums, now_us, answer, error);
    if (status == WEIR_OK) {
        status = read_node_totals(connection, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = read_reasons(sums, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = add_stuck(connection, answer, error);
    }
    if (status == WEIR_OK) {
        status = add_scheduler(connection, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = archive_add_status(connection, answer, error);
    }
    if (status == WEIR_OK) {
        status = add_oldest(sums, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = status_add_workspaces(sums, workspaces_max, now_us, answer, error);
    }
    if (status == WEIR_OK) {
        status = status_add_groups(sums, now_us, answer, error);
    }
    return status == WEIR_OK ? add_unserved(connection, now_us, answer, error) : status;
}

/* Reads all parts of the status from one snapshot. */
static enum weir_status read_status(struct store *store, struct connection *connection, size_t workspaces_max,
                                    json_t **ret_status, struct weir_error *error)
{
    int64_t now_us = 0;
    char now[TIME_TEXT_MAX];
    struct status_sums sums;
    json_t *answer = json_object();
    enum weir_status status = status_sums_open(&sums, connection, error);
    if (status == WEIR_OK) {
        status = answer == NULL ? error_out_of_memory(error) : connection_store_time(connection, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = status_add_parts(&sums, workspaces_max, now_us, answer, error);
    }
    status_sums_close(&sums);
    if (status != WEIR_OK) {
        json_decref(answer);
        return status;
    }
    time_format(now_us, now);
    (void)json_object_set_new(answer, "store", json_string(store->url));
    (void)json_object_set_new(answer, "schema", json_integer(SQLITE_MIGRATION_COUNT));
    (void)json_object_set_new(answer, "now_at", json_string(now));
    *ret_status = answer;
    return WEIR_OK;
}

enum weir_status sqlite_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    INVARIANT(ret_status != NULL);
    struct connection *connection;
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status == WEIR_OK) {
        lane_counters_keep(&connection->lane_counters);
        status = read_status(store, connection, workspaces_max, ret_status, error);
        lane_counters_forget(&connection->lane_counters);
        snapshot_end(connection);
    }
    return status;
}
