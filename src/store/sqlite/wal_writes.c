/* Gathers the writes of a commit to the log, by methods of its own in the file of the log.
 *
 *   1. wal_writes_begin() puts its methods in the place of those of the file, and wal_writes_end() puts these back. Between
 *      the two runs one statement COMMIT.
 *   2. A write that continues the one before it is added to the bytes of that. Another one, or one without room, first
 *      writes these.
 *   3. Each other call that depends on the file first writes the gathered bytes. The sync does, too.
 *   4. The last page of a commit is written with all before it at once. Its header has the size of the database, which is 0
 *      in the headers of the other frames. SQLite shows a commit to readers after that page, and with synchronous=OFF
 *      without a sync in between. A copy of the log would take bytes that are not there yet.
 *   5. A failed write is the failure of the call that needed it, and the commit fails as with a write of its own.
 *
 * It never changes an order: what is written before a sync is on the disk with it, and nothing behind it is.
 */
#include "store/sqlite/wal_writes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct wal_writes {
    sqlite3_io_methods methods; /* first: the file names them, and so leads here */
    const sqlite3_io_methods *real;
    sqlite3_file *log; /* NULL: no commit runs */
    sqlite3_int64 at;  /* of the gathered bytes in the log */
    int gathered;
    bool is_last_page; /* the next write is that of the last page of a commit */
    char bytes[LOG_WRITE_BYTES];
};

static struct wal_writes *writes_of(sqlite3_file *log)
{
    return (struct wal_writes *)(uintptr_t)(const void *)log->pMethods;
}

static int write_gathered(struct wal_writes *writes)
{
    int length = writes->gathered;
    writes->gathered = 0;
    return length == 0 ? SQLITE_OK : writes->real->xWrite(writes->log, writes->bytes, length, writes->at);
}

static bool ends_commit(const char *bytes, int length)
{
    enum { SIZE_AT = 4 }; /* of the database, in the header of a frame: four bytes */
    static const char none[4];
    return length == FRAME_HEADER_BYTES && memcmp(bytes + SIZE_AT, none, sizeof none) != 0;
}

static int gather_write(sqlite3_file *log, const void *bytes, int length, sqlite3_int64 at)
{
    struct wal_writes *writes = writes_of(log);
    bool fits = at == writes->at + writes->gathered && length <= LOG_WRITE_BYTES - writes->gathered;
    int code = fits ? SQLITE_OK : write_gathered(writes);
    if (code != SQLITE_OK) {
        return code;
    }
    if (length > LOG_WRITE_BYTES) {
        return writes->real->xWrite(log, bytes, length, at);
    }
    if (writes->gathered == 0) {
        writes->at = at;
    }
    memcpy(writes->bytes + writes->gathered, bytes, (size_t)length);
    writes->gathered += length;
    bool is_last_page = writes->is_last_page;
    writes->is_last_page = ends_commit(bytes, length);
    return is_last_page ? write_gathered(writes) : SQLITE_OK;
}

static int read_behind_writes(sqlite3_file *log, void *bytes, int length, sqlite3_int64 at)
{
    struct wal_writes *writes = writes_of(log);
    int code = write_gathered(writes);
    return code == SQLITE_OK ? writes->real->xRead(log, bytes, length, at) : code;
}

static int sync_behind_writes(sqlite3_file *log, int flags)
{
    struct wal_writes *writes = writes_of(log);
    int code = write_gathered(writes);
    return code == SQLITE_OK ? writes->real->xSync(log, flags) : code;
}

static int truncate_behind_writes(sqlite3_file *log, sqlite3_int64 size)
{
    struct wal_writes *writes = writes_of(log);
    int code = write_gathered(writes);
    return code == SQLITE_OK ? writes->real->xTruncate(log, size) : code;
}

static int size_behind_writes(sqlite3_file *log, sqlite3_int64 *ret_size)
{
    struct wal_writes *writes = writes_of(log);
    int code = write_gathered(writes);
    return code == SQLITE_OK ? writes->real->xFileSize(log, ret_size) : code;
}

struct wal_writes *wal_writes_new(void)
{
    return calloc(1, sizeof(struct wal_writes));
}

void wal_writes_free(struct wal_writes *writes)
{
    INVARIANT(writes == NULL || writes->log == NULL);
    free(writes);
}

void wal_writes_begin(struct wal_writes *writes, sqlite3_file *log)
{
    if (writes == NULL || log == NULL) {
        return;
    }
    INVARIANT(writes->log == NULL && log->pMethods != NULL);
    writes->log = log;
    writes->real = log->pMethods;
    writes->gathered = 0;
    writes->is_last_page = false;
    writes->methods = *log->pMethods;
    writes->methods.xWrite = gather_write;
    writes->methods.xRead = read_behind_writes;
    writes->methods.xSync = sync_behind_writes;
    writes->methods.xTruncate = truncate_behind_writes;
    writes->methods.xFileSize = size_behind_writes;
    log->pMethods = &writes->methods;
}

void wal_writes_end(struct wal_writes *writes, bool is_committed)
{
    if (writes == NULL || writes->log == NULL) {
        return;
    }
    if (is_committed) { /* only checksums that a commit without a sync has written anew, and no copy reads these */
        (void)write_gathered(writes);
    }
    writes->log->pMethods = writes->real;
    writes->log = NULL;
}
