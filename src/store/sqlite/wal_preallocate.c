#include "store/sqlite/wal_preallocate.h"

enum { LOG_HEADER_BYTES = 32, FRAME_HEADER_BYTES = 24, ZEROS_BYTES = 64 * 1024 };

/* SQLite's own hook does the same and no more; its answer is not asked for there either: a reader that is in the way is no
 * failure of the commit, and the next commit tries again. */
static int note_commit(void *context, sqlite3 *database, const char *name, int frames)
{
    struct connection *writer = context;
    writer->log_bytes = LOG_HEADER_BYTES + (int64_t)frames * writer->frame_bytes;
    if (frames >= LOG_PAGES) {
        (void)sqlite3_wal_checkpoint_v2(database, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    }
    return SQLITE_OK;
}

enum weir_status log_room_watch(struct connection *writer, struct weir_error *error)
{
    int64_t page_bytes = 0;
    enum weir_status status = connection_read_integer(writer, error, &page_bytes, QUERY_PAGE_SIZE, "");
    if (status == WEIR_OK) {
        writer->frame_bytes = FRAME_HEADER_BYTES + page_bytes;
        (void)sqlite3_wal_hook(writer->database, note_commit, writer);
    }
    return status;
}

static sqlite3_file *log_of(const struct connection *writer)
{
    sqlite3_file *log = NULL;
    (void)sqlite3_file_control(writer->database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    return log == NULL || log->pMethods == NULL ? NULL : log;
}

void log_room_make(struct connection *writer)
{
    static const char zeros[ZEROS_BYTES];
    sqlite3_int64 size = 0;
    sqlite3_file *log = writer->log_bytes < LOG_ROOM_FROM ? NULL : log_of(writer);
    if (log == NULL || log->pMethods->xFileSize(log, &size) != SQLITE_OK || size - writer->log_bytes >= LOG_ROOM_LEAST) {
        return;
    }
    sqlite3_int64 end = size + (size < LOG_ROOM_STRIDE ? size : LOG_ROOM_STRIDE);
    for (sqlite3_int64 at = size; at < end; at += ZEROS_BYTES) {
        int length = end - at < ZEROS_BYTES ? (int)(end - at) : ZEROS_BYTES;
        if (log->pMethods->xWrite(log, zeros, length, at) != SQLITE_OK) {
            return;
        }
    }
}
