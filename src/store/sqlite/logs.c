/* The logs of attempts: chunks of output, one row each; and their progress, a row for each step (queries/logs.sql).
 *
 * A set of chunks is one short write transaction that changes no row of the queue and makes no news. Chunks that fall out
 * of the bound of their attempt are removed in the same transaction. Reads go through the reader, so a follower never waits
 * for the writer.
 *
 * A chunk of an execution that was purged meanwhile is dropped. The duties and the record thread of a node write; any
 * thread with a handle reads.
 */
#include <string.h>

#include "base/error.h"
#include "store/sqlite/sqlite_store.h"

static enum weir_status write_chunk(struct write *write, const struct log_chunk *chunk, struct weir_error *error)
{
    struct connection *connection = write->connection;
    enum weir_status status = WEIR_OK;
    if (chunk->cut_from < chunk->cut_to) {
        status = connection_run(connection, error, NULL, QUERY_CUT_LOG, "ttdii", chunk->execution_id, chunk->step,
                                chunk->attempt, chunk->cut_from, chunk->cut_to);
    }
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_WRITE_LOG, "ttdiiiib", chunk->execution_id, chunk->step,
                                chunk->attempt, chunk->position, write->now_us, chunk->offset, chunk->output_bytes,
                                chunk->lines == NULL ? "" : chunk->lines, chunk->length);
    }
    return status;
}

enum weir_status sqlite_write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                   struct weir_error *error)
{
    INVARIANT(chunks != NULL && count <= LOG_WRITE_MOST);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = write_chunk(&write, &chunks[i], error);
    }
    return write_end(&write, status, error);
}

enum weir_status sqlite_list_logs(struct store *store, const char *id, struct arena *arena,
                                  struct log_attempt **ret_attempts, size_t *ret_count, struct weir_error *error)
{
    INVARIANT(id != NULL && arena != NULL && ret_attempts != NULL && ret_count != NULL);
    struct connection *connection;
    enum weir_status status = store_reader(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_LIST_LOGS, "td", id, LOG_ATTEMPTS_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    struct log_attempt *attempts = NULL;
    size_t count = 0;
    size_t room = 0;
    bool failed = false;
    while (!failed && connection_step(connection, statement, &status, error)) {
        if (count == room) {
            struct log_attempt *more = arena_allocate(arena, (room + 64) * 2 * sizeof *more);
            room = (room + 64) * 2;
            failed = more == NULL;
            if (more != NULL && count > 0) {
                memcpy(more, attempts, count * sizeof *more);
            }
            attempts = more != NULL ? more : attempts;
        }
        if (!failed) {
            attempts[count++] = (struct log_attempt){.step = column_copy(statement, 0, arena, &failed),
                                                     .attempt = sqlite3_column_int(statement, 1),
                                                     .last_position = sqlite3_column_int64(statement, 2)};
        }
    }
    (void)sqlite3_reset(statement);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_attempts = status == WEIR_OK ? attempts : *ret_attempts;
    *ret_count = status == WEIR_OK ? count : *ret_count;
    return status;
}

enum weir_status sqlite_read_log(struct store *store, const char *id, const char *step, int attempt, int64_t after,
                                 struct arena *arena, struct log_chunk **ret_chunks, size_t *ret_count,
                                 struct weir_error *error)
{
    INVARIANT(id != NULL && step != NULL && arena != NULL && ret_chunks != NULL && ret_count != NULL);
    struct connection *connection;
    enum weir_status status = store_reader(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_READ_LOG, "ttdid", id, step, attempt, after, LOG_READ_MOST);
    if (statement == NULL) {
        return statement_failure(error);
    }
    struct log_chunk *chunks = arena_allocate(arena, LOG_READ_MOST * sizeof *chunks);
    size_t count = 0;
    bool failed = chunks == NULL;
    while (!failed && connection_step(connection, statement, &status, error)) {
        size_t length = (size_t)sqlite3_column_bytes(statement, 3);
        const void *bytes = sqlite3_column_blob(statement, 3);
        const char *lines = arena_copy(arena, length == 0 ? "" : bytes, length);
        failed = lines == NULL;
        chunks[count++] = (struct log_chunk){.position = sqlite3_column_int64(statement, 0),
                                             .offset = sqlite3_column_int64(statement, 1),
                                             .output_bytes = sqlite3_column_int64(statement, 2),
                                             .lines = lines,
                                             .length = length};
    }
    (void)sqlite3_reset(statement);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_chunks = status == WEIR_OK ? chunks : *ret_chunks;
    *ret_count = status == WEIR_OK ? count : *ret_count;
    return status;
}

/* --- retention --- */

static enum weir_status purge_old_chunks(struct connection *connection, int64_t before_us, size_t limit, int64_t *removed,
                                         struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_OLD_LOGS, "ii", before_us, (int64_t)limit);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    /* Rows that the statement has passed may be deleted: it never comes back to them. */
    while (status == WEIR_OK && connection_step(connection, statement, &status, error)) {
        status =
            connection_run(connection, error, NULL, QUERY_PURGE_LOG, "ttdi", column_text(statement, 0),
                           column_text(statement, 1), sqlite3_column_int(statement, 2), sqlite3_column_int64(statement, 3));
        *removed += status == WEIR_OK;
    }
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status sqlite_purge_logs(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                   struct weir_error *error)
{
    INVARIANT(limit <= LOG_PURGE_MOST && ret_removed != NULL);
    struct write write;
    struct connection *reader;
    int64_t removed = 0;
    int64_t any = 0;
    enum weir_status status = store_reader(store, &reader, error);
    if (status == WEIR_OK) { /* a store without old logs is not written */
        status = connection_read_integer(reader, error, &any, QUERY_HAS_OLD_LOGS, "i", before_us);
    }
    if (status != WEIR_OK || any == 0) {
        *ret_removed = status == WEIR_OK ? 0 : *ret_removed;
        return status;
    }
    status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = purge_old_chunks(write.connection, before_us, limit, &removed, error);
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    *ret_removed = status == WEIR_OK ? removed : *ret_removed;
    return status;
}

/* --- progress --- */

static enum weir_status write_report(struct write *write, const struct progress_record *record, struct weir_error *error)
{
    if (record->is_over) {
        return connection_run(write->connection, error, NULL, QUERY_END_PROGRESS, "ttdi", record->execution_id,
                              record->step, record->attempt, record->fence);
    }
    return connection_run(write->connection, error, NULL, QUERY_WRITE_PROGRESS, "ttdiidt", record->execution_id,
                          record->step, record->attempt, record->fence, record->at_us, record->parts, record->text);
}

enum weir_status sqlite_write_progress(struct store *store, const struct progress_record *records, size_t count,
                                       struct weir_error *error)
{
    INVARIANT(records != NULL && count <= PROGRESS_WRITE_MOST);
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = write_report(&write, &records[i], error);
    }
    return write_end(&write, status, error);
}
