/* The moves between the store and its archive (archive.h has their order).
 *
 * Rows are copied column by column, table by table (archive_tables): each statement fits both files. The archive has a
 * connection and a transaction of its own; it lives in the writing connection until write_finish() or write_undo(). So the
 * writer of the store never attaches the archive: an enqueue takes no lock there, and a damaged or missing archive stops no
 * write.
 *
 * A move is one transaction of at most ARCHIVE_BATCH executions. It looks at ARCHIVE_LOOK_ROWS rows of the history at most,
 * so its time is bounded also where few of them may move.
 */
#include "store/sqlite/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "store/sqlite/sqlite_store.h"

/* --- rows --- */

/* Prepares a statement of the store for either file; its first parameter is the id, if there is one. */
static enum weir_status prepare_for(sqlite3 *database, enum sqlite_query query, const char *id,
                                    sqlite3_stmt **ret_statement, struct weir_error *error)
{
    if (sqlite3_prepare_v2(database, sqlite_queries[query].sql, -1, ret_statement, NULL) != SQLITE_OK) {
        return archive_failure(database, "a row cannot be moved", error);
    }
    if (id != NULL) {
        (void)sqlite3_bind_text(*ret_statement, 1, id, -1, SQLITE_STATIC);
    }
    return WEIR_OK;
}

/* Puts all rows of an open statement into the other file. */
static enum weir_status copy_rows(sqlite3 *from, sqlite3_stmt *rows, sqlite3 *to, enum sqlite_query put,
                                  struct weir_error *error)
{
    sqlite3_stmt *insert = NULL;
    enum weir_status status = WEIR_OK;
    int code = sqlite3_step(rows);
    if (code == SQLITE_ROW) {
        status = prepare_for(to, put, NULL, &insert, error);
        INVARIANT(status != WEIR_OK || sqlite3_bind_parameter_count(insert) == sqlite3_column_count(rows));
    }
    while (status == WEIR_OK && code == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(rows); i++) {
            (void)sqlite3_bind_value(insert, i + 1, sqlite3_column_value(rows, i));
        }
        if (sqlite3_step(insert) != SQLITE_DONE) {
            status = archive_failure(to, "a row cannot be moved", error);
        }
        (void)sqlite3_reset(insert);
        code = status == WEIR_OK ? sqlite3_step(rows) : code;
    }
    if (status == WEIR_OK && code != SQLITE_DONE) {
        status = archive_failure(from, "a row cannot be read", error);
    }
    (void)sqlite3_finalize(insert);
    return status;
}

/* Copies what `query` finds of the execution from one file to the other. */
static enum weir_status copy_found(sqlite3 *from, enum sqlite_query query, const char *id, sqlite3 *to,
                                   enum sqlite_query put, struct weir_error *error)
{
    sqlite3_stmt *rows = NULL;
    enum weir_status status = prepare_for(from, query, id, &rows, error);
    if (status == WEIR_OK) {
        status = copy_rows(from, rows, to, put, error);
    }
    (void)sqlite3_finalize(rows);
    return status;
}

static enum weir_status erase_rows(sqlite3 *archive, const char *id, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < ARCHIVE_TABLES && status == WEIR_OK; i++) {
        sqlite3_stmt *statement = NULL;
        status = prepare_for(archive, archive_tables[i].remove, id, &statement, error);
        if (status == WEIR_OK && sqlite3_step(statement) != SQLITE_DONE) {
            status = archive_failure(archive, "cannot be written", error);
        }
        (void)sqlite3_finalize(statement);
    }
    return status;
}

/* --- the transaction of the archive --- */

/* Opens the archive with a transaction, once in a transaction of the store. connection->archive stays NULL where the file
 * is missing and not made. */
static enum weir_status begin_archive(struct connection *connection, bool makes, int64_t now_us, struct weir_error *error)
{
    if (connection->archive != NULL) {
        return WEIR_OK;
    }
    sqlite3 *archive = NULL;
    enum weir_status status = archive_open(connection, makes, now_us, &archive, error);
    if (status == WEIR_OK && archive != NULL && sqlite3_exec(archive, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        status = archive_failure(archive, "cannot be written", error);
        archive_close(archive);
        return status;
    }
    connection->archive = archive;
    return status;
}

enum weir_status archive_commit(struct connection *connection, sqlite3 **ret_archive, struct weir_error *error)
{
    INVARIANT(connection != NULL && ret_archive != NULL);
    *ret_archive = connection->archive;
    if (connection->archive == NULL) {
        return WEIR_OK;
    }
    if (sqlite3_exec(connection->archive, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        *ret_archive = NULL; /* archive_undo() closes it */
        return archive_failure(connection->archive, "cannot be written", error);
    }
    FAILPOINT("after_archive_commit");
    connection->archive = NULL;
    return WEIR_OK;
}

void archive_undo(struct connection *connection)
{
    INVARIANT(connection != NULL);
    archive_close(connection->archive);
    connection->archive = NULL;
}

void archive_close(sqlite3 *archive)
{
    (void)sqlite3_close(archive);
}

/* --- purge, bring back, compare --- */

/* The file of another store has nothing of this one, so that it counts as missing. Passes other failures on. */
static enum weir_status forgive_foreign(enum weir_status status, const struct weir_error *own, struct weir_error *error)
{
    if (status == WEIR_STORE_NOT_WEIR) {
        return WEIR_OK;
    }
    if (status != WEIR_OK && error != NULL) {
        *error = *own;
    }
    return status;
}

enum weir_status archive_erase(struct connection *connection, const char *id, bool *ret_is_away, struct weir_error *error)
{
    INVARIANT(connection != NULL && id != NULL && ret_is_away != NULL);
    struct archive_state state;
    struct weir_error own = {.status = WEIR_OK};
    int64_t archived = 0;
    *ret_is_away = false;
    enum weir_status status = archive_read_state(connection, &state, error);
    if (status != WEIR_OK || state.made == 0) {
        return status;
    }
    status = forgive_foreign(begin_archive(connection, false, 0, &own), &own, error);
    if (status == WEIR_OK && connection->archive != NULL) {
        return erase_rows(connection->archive, id, error);
    }
    if (status == WEIR_OK && !archive_is_given_up(connection)) {
        status = connection_read_integer(connection, error, &archived, QUERY_IS_ARCHIVED, "t", id);
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    *ret_is_away = archived != 0;
    return status;
}

/* The archive for reading; NULL when it is missing or not that of the store. */
static enum weir_status open_to_read(struct connection *connection, sqlite3 **ret_archive, struct weir_error *error)
{
    struct weir_error own = {.status = WEIR_OK};
    return forgive_foreign(archive_open(connection, false, 0, ret_archive, &own), &own, error);
}

static enum weir_status copy_back(struct connection *connection, sqlite3 *archive, const char *id, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < ARCHIVE_TABLES && status == WEIR_OK; i++) {
        status = copy_found(archive, archive_tables[i].read, id, connection->database, archive_tables[i].put, error);
    }
    return status;
}

enum weir_status archive_bring_back(struct connection *connection, const char *id, bool *ret_complete,
                                    struct weir_error *error)
{
    INVARIANT(connection != NULL && id != NULL && ret_complete != NULL);
    int64_t archived = 0;
    int64_t is_whole = 0;
    sqlite3 *archive = NULL;
    *ret_complete = true;
    enum weir_status status = connection_read_integer(connection, error, &archived, QUERY_IS_ARCHIVED, "t", id);
    if (status != WEIR_OK || archived == 0) {
        return status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    status = open_to_read(connection, &archive, error);
    if (status != WEIR_OK || archive == NULL) { /* it stays archived: the file may be put back, and then has the content */
        *ret_complete = false;
        return status;
    }
    status = copy_back(connection, archive, id, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &is_whole, QUERY_HAS_ITS_PARAMS, "t", id);
    }
    *ret_complete = is_whole != 0;
    archive_close(archive);
    return status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_MARK_BROUGHT_BACK, "t", id) : status;
}

/* Compares the params in the open archive. */
static enum weir_status compare_params(sqlite3 *archive, const char *id, const char *params, size_t length, bool *ret_has,
                                       struct weir_error *error)
{
    sqlite3_stmt *read = NULL;
    enum weir_status status = prepare_for(archive, QUERY_READ_PARAMS_TO_ARCHIVE, id, &read, error);
    int code = status == WEIR_OK ? sqlite3_step(read) : SQLITE_DONE;
    if (code == SQLITE_ROW) {
        const void *bytes = sqlite3_column_blob(read, 1);
        *ret_has = params != NULL && bytes != NULL && (size_t)sqlite3_column_bytes(read, 1) == length &&
                   memcmp(bytes, params, length) == 0;
    } else if (status == WEIR_OK && code == SQLITE_DONE) {
        *ret_has = params == NULL;
    } else if (status == WEIR_OK) {
        status = archive_failure(archive, "cannot be read", error);
    }
    (void)sqlite3_finalize(read);
    return status;
}

/* An enqueue fails with the whole set that it came in, also for other workspaces. So an archive that cannot be read counts
 * as missing. */
enum weir_status archive_has_params(struct connection *connection, const char *id, const char *params, size_t length,
                                    bool *ret_has, struct weir_error *error)
{
    INVARIANT(connection != NULL && id != NULL && ret_has != NULL);
    struct weir_error own = {.status = WEIR_OK};
    sqlite3 *archive = NULL;
    *ret_has = true;
    enum weir_status status = open_to_read(connection, &archive, &own);
    if (status == WEIR_OK && archive != NULL) {
        status = compare_params(archive, id, params, length, ret_has, &own);
    }
    archive_close(archive);
    return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(error) : WEIR_OK;
}

/* --- the move --- */

/* The column `archived` is set last: until then the rows of the store count. */
static enum weir_status move_one(struct write *write, const char *id, struct weir_error *error)
{
    struct connection *connection = write->connection;
    enum weir_status status = erase_rows(connection->archive, id, error); /* a copy that a crash or a retry has left */
    for (size_t i = 0; i < ARCHIVE_TABLES && status == WEIR_OK; i++) {
        const struct archive_table *table = &archive_tables[i];
        status = copy_found(connection->database, table->read, id, connection->archive, table->put, error);
        if (status == WEIR_OK && table->last != QUERY_COUNT) {
            status = copy_found(connection->database, table->last, id, connection->archive, table->put, error);
        }
        if (status == WEIR_OK) {
            status = connection_run(connection, error, NULL, table->remove, "t", id);
        }
    }
    return status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_MARK_ARCHIVED, "t", id) : status;
}

struct candidates {
    char ids[ARCHIVE_BATCH][UUID_TEXT_MAX];
    size_t count;
};

/* Reads the ids first: the moves change the index that the query reads. */
static enum weir_status read_candidates(struct connection *connection, const struct archive_order *order, const char *below,
                                        struct candidates *candidates, struct archive_result *result,
                                        struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_ARCHIVE_CANDIDATES, "ttii", order->after, below,
                                              order->ended_before_us, (int64_t)ARCHIVE_LOOK_ROWS);
    enum weir_status status = WEIR_OK;
    int64_t looked = 0;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (candidates->count < order->limit && connection_step(connection, statement, &status, error)) {
        text_copy(result->last_id, sizeof result->last_id, column_text(statement, 0));
        looked++;
        if (sqlite3_column_int(statement, 1) != 0) {
            text_copy(candidates->ids[candidates->count++], sizeof candidates->ids[0], result->last_id);
        }
    }
    (void)sqlite3_reset(statement);
    result->more = status == WEIR_OK && (candidates->count == order->limit || looked == ARCHIVE_LOOK_ROWS);
    return status;
}

enum weir_status sqlite_archive(struct store *store, const struct archive_order *order, const char *below,
                                struct archive_result *ret_result, struct weir_error *error)
{
    INVARIANT(store != NULL && order != NULL && below != NULL && ret_result != NULL && order->limit <= ARCHIVE_BATCH);
    struct write write;
    struct candidates candidates = {.count = 0};
    struct archive_result result = {.moved = 0};
    struct connection *reader;
    enum weir_status status = snapshot_begin(store, &reader, error); /* a store with nothing to move is not written */
    if (status != WEIR_OK) {
        return status;
    }
    status = read_candidates(reader, order, below, &candidates, &result, error);
    snapshot_end(reader);
    if (status != WEIR_OK || candidates.count == 0) {
        *ret_result = status == WEIR_OK ? result : *ret_result;
        return status;
    }
    status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    candidates.count = 0;
    status = read_candidates(write.connection, order, below, &candidates, &result, error);
    if (status == WEIR_OK && candidates.count > 0) {
        status = begin_archive(write.connection, true, write.now_us, error);
    }
    for (size_t i = 0; i < candidates.count && status == WEIR_OK && write.connection->archive != NULL; i++) {
        status = move_one(&write, candidates.ids[i], error);
        result.moved += status == WEIR_OK;
    }
    if (status == WEIR_OK && result.moved > 0) {
        status = connection_run(write.connection, error, NULL, QUERY_NOTE_ARCHIVE_MOVE, "ii", result.moved, write.now_us);
    }
    status = write_end(&write, status, error);
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}
