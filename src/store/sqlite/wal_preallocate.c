/* Extends the write-ahead log with zeros, so that a commit does not change the length of the file.
 *
 *   1. After each commit SQLite calls note_commit() with the number of frames in the log. The writer remembers where
 *      the log ends. After LOG_PAGES frames the copier checkpoints (wal_copier.h), or else the commit, as with SQLite's
 *      own hook.
 *   2. Before a commit, inside the transaction, wal_preallocate_extend() compares that end with the length of the
 *      file. The write lock keeps every other process from appending meanwhile.
 *   3. If little is left, it appends zeros, as much as the log is long, at most one stride. A short-lived store so
 *      writes few zeros.
 *   4. SQLite reads zeros as frames without the right salt, that is as the end of the log, also after a crash.
 *
 * It only appends and never writes before the end of the file. A failure is ignored: the commit then makes the log
 * longer itself, or reports the full disk. The holder of the writer runs it.
 */
#include "store/sqlite/wal_preallocate.h"

#include "base/error.h"
#include "store/sqlite/wal_copier.h"
#include "store/sqlite/wal_guard.h"

enum { LOG_HEADER_BYTES = 32, ZEROS_BYTES = 64 * 1024 };

/* SQLite's own hook does the same, but for the guard, and ignores the answer, too. A reader that is in the way is no
 * failure of the commit, and the next commit tries again. */
static int note_commit(void *context, sqlite3 *database, const char *name, int frames)
{
    (void)name; /* the writer has one database */
    struct connection *writer = context;
    writer->log_bytes = LOG_HEADER_BYTES + (int64_t)frames * writer->frame_bytes;
    bool copies = writer->copier == NULL ? frames >= LOG_PAGES : wal_copier_note(writer->copier, frames);
    if (copies && wal_guard_open(writer->guard)) {
        (void)wal_guard_copy(writer->guard, database);
    }
    return SQLITE_OK;
}

enum weir_status wal_preallocate_init(struct connection *writer, struct weir_error *error)
{
    INVARIANT(writer->database != NULL);
    int64_t page_bytes = 0;
    enum weir_status status = connection_read_integer(writer, error, &page_bytes, QUERY_PAGE_SIZE, "");
    if (status == WEIR_OK) {
        writer->guard = wal_guard_new(sqlite3_db_filename(writer->database, "main"));
        status = writer->guard == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    if (status == WEIR_OK) {
        wal_guard_commits(writer->guard, writer->database);
        writer->frame_bytes = FRAME_HEADER_BYTES + page_bytes;
        (void)sqlite3_wal_hook(writer->database, note_commit, writer);
    }
    return status;
}

sqlite3_file *wal_log_of(const struct connection *writer)
{
    INVARIANT(writer->database != NULL);
    sqlite3_file *log = NULL;
    (void)sqlite3_file_control(writer->database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    return log == NULL || log->pMethods == NULL ? NULL : log;
}

void wal_preallocate_extend(struct connection *writer)
{
    INVARIANT(writer != NULL);
    static const char zeros[ZEROS_BYTES];
    sqlite3_int64 size = 0;
    sqlite3_file *log = writer->log_bytes < PREALLOCATE_FROM ? NULL : wal_log_of(writer);
    if (log == NULL || log->pMethods->xFileSize(log, &size) != SQLITE_OK || size - writer->log_bytes >= PREALLOCATE_LEAST) {
        return;
    }
    sqlite3_int64 end = size + (size < PREALLOCATE_STRIDE ? size : PREALLOCATE_STRIDE);
    for (sqlite3_int64 at = size; at < end; at += ZEROS_BYTES) {
        int length = end - at < ZEROS_BYTES ? (int)(end - at) : ZEROS_BYTES;
        if (log->pMethods->xWrite(log, zeros, length, at) != SQLITE_OK) {
            return;
        }
    }
}
