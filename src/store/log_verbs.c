/* The verbs of logs, and of progress: what attempts show while they run.
 *
 * Each verb checks its arguments and calls the driver. A chunk or report that breaks a limit is a fault of the node, never
 * of the program that wrote it. Runs in the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "store/call.h"

/* The bounds that both drivers rely on; the rest is the node's matter. */
static bool chunk_is_right(const struct log_chunk *chunk)
{
    return chunk->execution_id != NULL && uuid_is_valid(chunk->execution_id) && chunk->step != NULL && chunk->attempt > 0 &&
           chunk->position >= 0 && chunk->offset >= 0 && chunk->output_bytes >= 0 && chunk->cut_from <= chunk->cut_to &&
           chunk->length <= LOG_CHUNK_BYTES_MAX && (chunk->lines != NULL || chunk->length == 0);
}

enum weir_status store_write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                  struct weir_error *error)
{
    INVARIANT(store != NULL && (chunks != NULL || count == 0));
    if (count > LOG_WRITE_MOST) {
        return error_set(error, WEIR_MISUSE, "a call writes at most %d chunks of logs", LOG_WRITE_MOST);
    }
    for (size_t i = 0; i < count; i++) {
        if (!chunk_is_right(&chunks[i])) {
            return error_set(error, WEIR_MISUSE, "chunk %zu of a log has no attempt, or is longer than %d bytes", i + 1,
                             LOG_CHUNK_BYTES_MAX);
        }
    }
    /* No call, so no measure of one. */
    if (count == 0) {
        return WEIR_OK;
    }
    CALL(store, "write_logs", error, store->driver->write_logs(store, chunks, count, detail));
}

enum weir_status store_list_logs(struct store *store, const char *id, struct arena *arena,
                                 struct log_attempt **ret_attempts, size_t *ret_count, struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_attempts != NULL && ret_count != NULL);
    if (id == NULL || !uuid_is_valid(id)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "logs are listed by the whole id of an execution");
    }
    char small[UUID_TEXT_MAX];
    uuid_write_small(id, small);
    CALL(store, "list_logs", error, store->driver->list_logs(store, small, arena, ret_attempts, ret_count, detail));
}

enum weir_status store_read_log(struct store *store, const char *id, const char *step, int attempt, int64_t after,
                                struct arena *arena, struct log_chunk **ret_chunks, size_t *ret_count,
                                struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_chunks != NULL && ret_count != NULL);
    if (id == NULL || !uuid_is_valid(id) || step == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a log is read by the whole id of an execution and a step");
    }
    char small[UUID_TEXT_MAX];
    uuid_write_small(id, small);
    CALL(store, "read_log", error,
         store->driver->read_log(store, small, step, attempt, after, arena, ret_chunks, ret_count, detail));
}

enum weir_status store_purge_logs(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                  struct weir_error *error)
{
    INVARIANT(store != NULL && ret_removed != NULL);
    if (limit == 0 || limit > LOG_PURGE_MOST) {
        return error_set(error, WEIR_MISUSE, "a call removes 1 to %d chunks of logs", LOG_PURGE_MOST);
    }
    CALL(store, "purge_logs", error, store->driver->purge_logs(store, before_us, limit, ret_removed, detail));
}

static bool progress_is_right(const struct progress_record *record)
{
    return record->execution_id != NULL && uuid_is_valid(record->execution_id) && record->step != NULL &&
           record->attempt > 0 && record->parts >= -1 && record->parts <= PROGRESS_PARTS && record->text != NULL &&
           strlen(record->text) <= PROGRESS_TEXT_MAX;
}

enum weir_status store_write_progress(struct store *store, const struct progress_record *records, size_t count,
                                      struct weir_error *error)
{
    INVARIANT(store != NULL && (records != NULL || count == 0));
    if (count > PROGRESS_WRITE_MOST) {
        return error_set(error, WEIR_MISUSE, "a call writes at most %d reports of progress", PROGRESS_WRITE_MOST);
    }
    for (size_t i = 0; i < count; i++) {
        if (!progress_is_right(&records[i])) {
            return error_set(error, WEIR_MISUSE, "report %zu of progress has no attempt, or breaks a limit", i + 1);
        }
    }
    if (count == 0) {
        return WEIR_OK;
    }
    CALL(store, "write_progress", error, store->driver->write_progress(store, records, count, detail));
}
