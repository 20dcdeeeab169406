/* Two rules, each for what other programs do meanwhile.
 *
 * Copies of weir beside commits of any program: a read transaction is open meanwhile. The log begins anew only when no
 * reader uses it. A read has one of two forms:
 *
 *   1. Some of the log is not copied yet: the reader uses the log. It cannot begin anew until the read ends.
 *   2. All of the log is copied: the reader uses the database alone. The log can begin anew, but no copy can write the
 *      database, nor note how far it is, before the read ends. There was nothing to copy.
 *
 * The read begins right before the copy, so it holds back no frame that was there.
 *
 * Commits of weir beside copies of any program, as those of a program that has loaded the extension: a method of the file.
 *
 *   1. To begin the log anew SQLite takes all locks of readers but the first at once. Then the method first takes the lock
 *      of copies. If a program copies, the log goes on at its end, as if a reader were in the way.
 *   2. It gives that lock back after the others. It never waits.
 *   3. A copy of the same connection that empties the log has the lock already.
 *
 * The numbers of the locks are part of the format (https://sqlite.org/walformat.html).
 */
#include "store/sqlite/wal_guard.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    LOCK_OF_COPIES = 1,
    LOCK_OF_SECOND_READER = 4,
    LATER_READERS = SQLITE_SHM_NLOCK - LOCK_OF_SECOND_READER,
    METHODS_VERSION_LEAST = 2 /* the first one with locks of the log */
};

struct wal_guard {
    sqlite3_io_methods methods; /* first: the file of the writer names them, and so leads here */
    const sqlite3_io_methods *real;
    sqlite3_file *file; /* of the writer; NULL = its commits are not guarded */
    bool copies;        /* SQLite has the lock of copies for this connection, ... */
    bool begins_anew;   /* ... or the guard has it */
    sqlite3 *reader;    /* NULL = not opened yet */
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

static struct wal_guard *guard_of(sqlite3_file *file)
{
    return (struct wal_guard *)(uintptr_t)(const void *)file->pMethods;
}

static int begin_anew(struct wal_guard *guard)
{
    const int lock = SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE;
    int code = guard->real->xShmLock(guard->file, LOCK_OF_COPIES, 1, lock);
    if (code == SQLITE_OK) {
        code = guard->real->xShmLock(guard->file, LOCK_OF_SECOND_READER, LATER_READERS, lock);
        guard->begins_anew = code == SQLITE_OK;
        if (!guard->begins_anew) {
            (void)guard->real->xShmLock(guard->file, LOCK_OF_COPIES, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
        }
    }
    return code;
}

static int lock_log(sqlite3_file *file, int first, int count, int flags)
{
    struct wal_guard *guard = guard_of(file);
    bool locks = (flags & SQLITE_SHM_LOCK) != 0;
    bool is_beginning = first == LOCK_OF_SECOND_READER && count == LATER_READERS;
    if (is_beginning && locks && !guard->copies) {
        return begin_anew(guard);
    }
    int code = guard->real->xShmLock(file, first, count, flags);
    if (is_beginning && guard->begins_anew) {
        (void)guard->real->xShmLock(file, LOCK_OF_COPIES, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
        guard->begins_anew = false;
    }
    if (first == LOCK_OF_COPIES && count == 1) {
        guard->copies = locks && code == SQLITE_OK;
    }
    return code;
}

void wal_guard_commits(struct wal_guard *guard, sqlite3 *writer)
{
    INVARIANT(guard != NULL && guard->file == NULL && writer != NULL);
    sqlite3_file *file = NULL;
    (void)sqlite3_file_control(writer, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (file != NULL && file->pMethods != NULL && file->pMethods->iVersion >= METHODS_VERSION_LEAST) {
        guard->file = file;
        guard->real = file->pMethods;
        guard->methods = *file->pMethods;
        guard->methods.xShmLock = lock_log;
        file->pMethods = &guard->methods;
    }
}

static void close_reader(struct wal_guard *guard)
{
    (void)sqlite3_finalize(guard->read);
    (void)sqlite3_close(guard->reader);
    guard->read = NULL;
    guard->reader = NULL;
}

sqlite3 *wal_guard_connect(const struct wal_guard *guard)
{
    INVARIANT(guard != NULL);
    sqlite3 *database = NULL;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    bool is_open = sqlite3_open_v2(guard->path, &database, flags, NULL) == SQLITE_OK &&
                   sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK;
    if (!is_open) {
        (void)sqlite3_close(database);
        return NULL;
    }
    return database;
}

/* The statement needs no schema. */
bool wal_guard_open(struct wal_guard *guard)
{
    INVARIANT(guard != NULL);
    if (guard->reader != NULL) {
        return true;
    }
    guard->reader = wal_guard_connect(guard);
    bool is_open = guard->reader != NULL && sqlite3_prepare_v3(guard->reader, "PRAGMA data_version", -1,
                                                               SQLITE_PREPARE_PERSISTENT, &guard->read, NULL) == SQLITE_OK;
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
        if (guard->file != NULL) {
            INVARIANT(guard->file->pMethods == &guard->methods);
            guard->file->pMethods = guard->real;
        }
        free(guard);
    }
}
