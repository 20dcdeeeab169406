/* The logs of attempts: chunks of output, one row each; and their progress, a row for each step (queries/logs.sql).
 *
 * A set of chunks is one statement: it removes what falls out of the bound of an attempt, and inserts. It touches no row of
 * the queue and waits for none, so a transition never waits for it. A chunk of an execution that was purged meanwhile is
 * dropped. If a purge and a write cross, the chunk stays until the retention of logs removes it.
 *
 * The duties and the record thread of a node write; any thread with a handle reads.
 */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum weir_status postgres_write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                     struct weir_error *error)
{
    INVARIANT(chunks != NULL && count <= LOG_WRITE_MOST);
    const char *executions[LOG_WRITE_MOST];
    const char *steps[LOG_WRITE_MOST];
    int attempts[LOG_WRITE_MOST];
    int64_t positions[LOG_WRITE_MOST];
    int64_t offsets[LOG_WRITE_MOST];
    int64_t sizes[LOG_WRITE_MOST];
    struct link_bytes lines[LOG_WRITE_MOST];
    int64_t cut_from[LOG_WRITE_MOST];
    int64_t cut_to[LOG_WRITE_MOST];
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        executions[i] = chunks[i].execution_id;
        steps[i] = chunks[i].step;
        attempts[i] = chunks[i].attempt;
        positions[i] = chunks[i].position;
        offsets[i] = chunks[i].offset;
        sizes[i] = chunks[i].output_bytes;
        lines[i] = (struct link_bytes){.data = chunks[i].length == 0 ? "" : chunks[i].lines, .length = chunks[i].length};
        cut_from[i] = chunks[i].cut_from;
        cut_to[i] = chunks[i].cut_to;
    }
    return link_run(link_of(store), error, NULL, QUERY_WRITE_LOGS, "UTDIIIBII", executions, count, steps, count, attempts,
                    count, positions, count, offsets, count, sizes, count, lines, count, cut_from, count, cut_to, count);
}

enum weir_status postgres_list_logs(struct store *store, const char *id, struct arena *arena,
                                    struct log_attempt **ret_attempts, size_t *ret_count, struct weir_error *error)
{
    INVARIANT(id != NULL && arena != NULL && ret_attempts != NULL && ret_count != NULL);
    PGresult *result = NULL;
    enum weir_status status = link_read(link_of(store), error, &result, QUERY_LIST_LOGS, "ud", id, LOG_ATTEMPTS_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    size_t count = (size_t)PQntuples(result);
    struct log_attempt *attempts = arena_allocate(arena, (count + 1) * sizeof *attempts);
    bool failed = attempts == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        attempts[i] = (struct log_attempt){.step = arena_copy_string(arena, result_text(result, (int)i, 0)),
                                           .attempt = (int)result_int(result, (int)i, 1),
                                           .last_position = result_int(result, (int)i, 2)};
        failed = attempts[i].step == NULL;
    }
    PQclear(result);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_attempts = attempts;
    *ret_count = count;
    return WEIR_OK;
}

enum weir_status postgres_read_log(struct store *store, const char *id, const char *step, int attempt, int64_t after,
                                   struct arena *arena, struct log_chunk **ret_chunks, size_t *ret_count,
                                   struct weir_error *error)
{
    INVARIANT(id != NULL && step != NULL && arena != NULL && ret_chunks != NULL && ret_count != NULL);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_READ_LOG, "utdid", id, step, attempt, after, LOG_READ_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    size_t count = (size_t)PQntuples(result);
    struct log_chunk *chunks = arena_allocate(arena, (count + 1) * sizeof *chunks);
    bool failed = chunks == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        chunks[i] = (struct log_chunk){.position = result_int(result, (int)i, 0),
                                       .offset = result_int(result, (int)i, 1),
                                       .output_bytes = result_int(result, (int)i, 2)};
        chunks[i].lines = result_bytes(result, (int)i, 3, arena, &chunks[i].length, &failed);
    }
    PQclear(result);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_chunks = chunks;
    *ret_count = count;
    return WEIR_OK;
}

enum weir_status postgres_purge_logs(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                     struct weir_error *error)
{
    INVARIANT(limit <= LOG_PURGE_MOST && ret_removed != NULL);
    int64_t removed = 0;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_run(link_of(store), error, &removed, QUERY_PURGE_LOGS, "id", before_us, (int)limit);
    }
    *ret_removed = status == WEIR_OK ? removed : *ret_removed;
    return status;
}

enum weir_status postgres_write_progress(struct store *store, const struct progress_record *records, size_t count,
                                         struct weir_error *error)
{
    INVARIANT(records != NULL && count <= PROGRESS_WRITE_MOST);
    const char *executions[PROGRESS_WRITE_MOST];
    const char *steps[PROGRESS_WRITE_MOST];
    int attempts[PROGRESS_WRITE_MOST];
    int64_t fences[PROGRESS_WRITE_MOST];
    int64_t times[PROGRESS_WRITE_MOST];
    int parts[PROGRESS_WRITE_MOST];
    const char *texts[PROGRESS_WRITE_MOST];
    bool over[PROGRESS_WRITE_MOST];
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        executions[i] = records[i].execution_id;
        steps[i] = records[i].step;
        attempts[i] = records[i].attempt;
        fences[i] = records[i].fence;
        times[i] = records[i].at_us;
        parts[i] = records[i].parts;
        texts[i] = records[i].text;
        over[i] = records[i].is_over;
    }
    return link_run(link_of(store), error, NULL, QUERY_WRITE_PROGRESS, "UTDIIDTO", executions, count, steps, count,
                    attempts, count, fences, count, times, count, parts, count, texts, count, over, count);
}
