/* The history on SQLite: a table of at most HISTORY_ROWS_MOST rows.
 *
 * A row is one short write transaction, which also removes what the table no longer keeps. Samples and reads go through the
 * reader, so they never wait for the writer. The duties thread of a node writes; any thread with a handle reads.
 */
#include "base/error.h"
#include "store/sqlite/sqlite_store.h"

enum { WORKSPACES_FIRST = 64 };

static enum weir_status read_busy_workspaces(struct connection *connection, struct arena *arena,
                                             struct history_sample *sample, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    bool failed = false;
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_SAMPLE_HISTORY_WORKSPACES, "d", HISTORY_WORKSPACES_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && connection_step(connection, statement, &status, error)) {
        struct history_workspace *more =
            arena_grow(arena, sample->workspaces, sample->workspace_count, WORKSPACES_FIRST, sizeof *more);
        failed = more == NULL;
        if (!failed) {
            sample->workspaces = more;
            more[sample->workspace_count++] = (struct history_workspace){.id = sqlite3_column_int64(statement, 0),
                                                                         .slots_used = sqlite3_column_int64(statement, 1),
                                                                         .slots_max = sqlite3_column_int64(statement, 2),
                                                                         .pending = sqlite3_column_int64(statement, 3)};
        }
    }
    (void)sqlite3_reset(statement);
    return failed ? error_out_of_memory(error) : status;
}

static enum weir_status read_history_totals(struct connection *connection, struct history_sample *sample,
                                            struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_SAMPLE_HISTORY_TOTALS, "");
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        sample->completed = sqlite3_column_int64(statement, 0);
        sample->failed = sqlite3_column_int64(statement, 1);
        sample->cancelled = sqlite3_column_int64(statement, 2);
        (void)sqlite3_reset(statement);
    }
    return status;
}

enum weir_status sqlite_sample_history(struct store *store, struct arena *arena, struct history_sample *ret_sample,
                                       struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_sample != NULL);
    struct connection *connection;
    struct history_sample sample = {.now_us = 0};
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_store_time(connection, &sample.now_us, error);
    status = status == WEIR_OK ? read_history_totals(connection, &sample, error) : status;
    status = status == WEIR_OK ? read_busy_workspaces(connection, arena, &sample, error) : status;
    snapshot_end(connection);
    *ret_sample = status == WEIR_OK ? sample : *ret_sample;
    return status;
}

enum weir_status sqlite_write_history(struct store *store, const struct history_row *row, int64_t folds_from_us,
                                      struct weir_error *error)
{
    INVARIANT(row != NULL);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (row->is_folded) {
        status =
            connection_run(write.connection, error, NULL, QUERY_DELETE_FOLDED_HISTORY, "ii", folds_from_us, row->at_us);
    }
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_INSERT_HISTORY, "iidb", row->at_us, row->span_us,
                                row->is_folded ? 1 : 0, row->facts, row->length);
    }
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_PURGE_HISTORY, "iid", write.now_us - HISTORY_KEEP_US,
                                write.now_us + HISTORY_AHEAD_US, HISTORY_ROWS_MOST);
    }
    return write_end(&write, status, error);
}

static enum weir_status read_history_rows(struct connection *connection, const struct history_query *query,
                                          struct arena *arena, struct history_rows *rows, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    rows->rows = arena_allocate(arena, query->most * sizeof *rows->rows);
    bool failed = rows->rows == NULL;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_HISTORY, "iidi", query->since_us,
                                              query->until_us, query->not_folded ? 1 : 0, (int64_t)query->most);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && connection_step(connection, statement, &status, error)) {
        size_t length = (size_t)sqlite3_column_bytes(statement, 3);
        const void *bytes = sqlite3_column_blob(statement, 3);
        const char *facts = arena_copy(arena, length == 0 ? "" : bytes, length);
        failed = facts == NULL;
        rows->rows[rows->count++] = (struct history_row){.at_us = sqlite3_column_int64(statement, 0),
                                                         .span_us = sqlite3_column_int64(statement, 1),
                                                         .is_folded = sqlite3_column_int(statement, 2) != 0,
                                                         .facts = facts,
                                                         .length = length};
    }
    (void)sqlite3_reset(statement);
    return failed ? error_out_of_memory(error) : status;
}

enum weir_status sqlite_read_history(struct store *store, const struct history_query *query, struct arena *arena,
                                     struct history_rows *ret_rows, struct weir_error *error)
{
    INVARIANT(query != NULL && arena != NULL && ret_rows != NULL);
    struct connection *connection;
    struct history_rows rows = {.count = 0};
    enum weir_status status = snapshot_begin(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (query->workspace != NULL) {
        status =
            connection_read_integer(connection, error, &rows.workspace_id, QUERY_FIND_WORKSPACE, "t", query->workspace);
        if (status == WEIR_NOT_FOUND) {
            status = error_set(error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", query->workspace);
        }
    }
    status = status == WEIR_OK ? read_history_rows(connection, query, arena, &rows, error) : status;
    snapshot_end(connection);
    *ret_rows = status == WEIR_OK ? rows : *ret_rows;
    return status;
}
