/* Holds a read transaction while the log is copied.
 *
 * The log begins anew only when no reader uses it. A read transaction of a connection of its own has one of two forms:
 *
 *   1. Some of the log is not copied yet: the reader uses the log. It cannot begin anew until the read ends.
 *   2. All of the log is copied: the reader uses the database alone. The log can begin anew, but no copy can write the
 *      database, nor note how far it is, before the read ends. There was nothing to copy.
 *
 * The read begins right before the copy, so it holds back no frame that was there.
 */
#include "store/sqlite/wal_guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct wal_guard {
    sqlite3 *reader; /* NULL = not opened yet */
    sqlite3_stmt *read;
    char path[];
};

struct wal_guard *wal_guard_new(const char *path)
{
    INVARIANT(path != NULL);
    size_t length = strlen(path) + 1;
    struct wal_guard *guard = calloc(1, sizeof *guard + length);
    if (guard != NULL) {
        memcpy(guard->path, path, length);
    }
    return guard;
}

static void close_reader(struct wal_guard *guard)
{
    (void)sqlite3_finalize(guard->read);
    (void)sqlite3_close(guard->reader);
    guard->read = NULL;
    guard->reader = NULL;
}

/* The last connection to close removes the log, and that is to be the writer. The statement needs no schema. */
bool wal_guard_open(struct wal_guard *guard)
{
    INVARIANT(guard != NULL);
    if (guard->reader != NULL) {
        return true;
    }
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    bool is_open = sqlite3_open_v2(guard->path, &guard->reader, flags, NULL) == SQLITE_OK &&
                   sqlite3_db_config(guard->reader, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK &&
                   sqlite3_prepare_v3(guard->reader, "PRAGMA data_version", -1, SQLITE_PREPARE_PERSISTENT, &guard->read,
                                      NULL) == SQLITE_OK;
    if (!is_open) {
        close_reader(guard);
    }
    return is_open;
}

int wal_guard_copy(struct wal_guard *guard, sqlite3 *database)
{
    INVARIANT(guard->reader != NULL && database != NULL);
    int copied = 0;
    if (sqlite3_step(guard->read) == SQLITE_ROW) {
        (void)sqlite3_wal_checkpoint_v2(database, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, &copied);
    }
    (void)sqlite3_reset(guard->read);
    return copied > 0 ? copied : 0;
}

void wal_guard_close(struct wal_guard *guard)
{
    if (guard != NULL) {
        close_reader(guard);
        free(guard);
    }
}
