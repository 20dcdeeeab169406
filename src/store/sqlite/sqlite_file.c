/* A SQLite file that is open in this process, with its one writer.
 *
 * All handles of a process share one writer connection, behind a mutex that serves threads in their order. The order
 * of a transaction:
 *
 *   1. Take the mutex, at most until the deadline. A set of records lets other calls that wait, and an expected round of
 *      the scheduler, go first.
 *   2. BEGIN IMMEDIATE takes the write lock of the file at once. A transaction that reads first and writes later could
 *      fail in between.
 *   3. Check that the three files are still those that were opened (file_identity.c), under the lock: then no process
 *      can replace them in the ordinary way.
 *   4. Read the store time, once for the whole transaction.
 *   5. Before the commit, extend the log with zeros when it is near its end (wal_preallocate.c), so that the sync does
 *      not have to write a new file length.
 *   6. Commit. Its writes to the log are gathered (wal_writes.c), and a long log is copied beside it (wal_copier.c). A
 *      failed sync leaves the commit unknown: the pages may be in the log. The writer is given back in each case.
 *
 * A child of fork() never uses the files of its parent, because SQLite's locks do not survive the fork. The first
 * opener looks for damage in the log before SQLite overwrites it. Any thread may call these functions; the list of
 * files has a lock of its own.
 */
#include "store/sqlite/sqlite_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/fifo_mutex.h"
#include "store/sqlite/file_identity.h"
#include "store/sqlite/new_file.h"
#include "store/sqlite/wal_copier.h"
#include "store/sqlite/wal_damage.h"
#include "store/sqlite/wal_preallocate.h"
#include "store/sqlite/wal_writes.h"

/* An expected round asks for the writer within a tenth of a millisecond. A set of records waits this long for it. */
enum { ROUND_WAIT_US = 300 };

struct sqlite_file {
    struct sqlite_file *next;
    dev_t device;
    ino_t inode;
    int references;
    struct fifo_mutex writer_lock;
    atomic_int short_calls; /* that wait for writer_lock */
    struct connection writer;
    struct wal_writes *writes;
    struct file_identity identity; /* guarded by writer_lock */
    atomic_bool has_scheduler;     /* its rounds run in this process */
    bool expects_round;            /* guarded by writer_lock: after the commit */
    bool in_transaction;
    bool read_only; /* then its writer cannot write, and is shared by such handles alone */
    int making;     /* guarded by writer_lock: the lock of a new file (new_file.h), until it has its schema */
    char path[];
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sqlite_file *files;
static struct sqlite_file *inherited; /* in a child of fork(): the files that its parents had open then; only looked at */

/* A child of fork() must not touch the parent's connections (SQLite's rule); it starts with an empty list. */
static void forget_files_in_child(void)
{
    struct sqlite_file **last = &inherited;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = files;
    files = NULL;
    (void)pthread_mutex_init(&files_lock, NULL);
}

/* SQLite believes that the child holds the locks of its parent. So the files of the child have none. The parent's end
 * removes the log while the child writes it. A lock of the parent at the fork stays locked for the child for ever. */
static enum weir_status require_not_inherited(const char *path, struct weir_error *error)
{
    struct stat facts;
    bool found = false;
    if (stat(path, &facts) == 0) {
        for (const struct sqlite_file *file = inherited; file != NULL && !found; file = file->next) {
            found = file->device == facts.st_dev && file->inode == facts.st_ino;
        }
    }
    if (!found) {
        return WEIR_OK;
    }
    (void)error_set(error, WEIR_MISUSE, "the store %s was open in the process from which this one was forked", path);
    error_hint(error, "SQLite's locks do not survive fork(): fork before the store is opened, or let the child exec()");
    return WEIR_MISUSE;
}

/* Registers the handler for children of fork(). */
static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_files_in_child);
}

/* The open file of this path, by device and inode. */
static struct sqlite_file *find_file(const struct connection_options *options)
{
    struct stat facts;
    if (stat(options->path, &facts) != 0) {
        return NULL;
    }
    for (struct sqlite_file *file = files; file != NULL; file = file->next) {
        if (file->device == facts.st_dev && file->inode == facts.st_ino && file->writer.clock == options->clock &&
            file->read_only == options->read_only) {
            return file;
        }
    }
    return NULL;
}

/* Whether a handle of this process has the file open. It waits for none, because its maker may be this thread. */
static bool is_open_here(const char *path)
{
    struct stat facts;
    bool found = false;
    if (stat(path, &facts) != 0) {
        return false;
    }
    (void)pthread_mutex_lock(&files_lock);
    for (const struct sqlite_file *file = files; file != NULL && !found; file = file->next) {
        found = file->device == facts.st_dev && file->inode == facts.st_ino;
    }
    (void)pthread_mutex_unlock(&files_lock);
    return found;
}

/* A process without its files must not clean up either: the log under that name may be another database's by now. */
static enum weir_status check_files(struct sqlite_file *file, struct weir_error *error)
{
    sqlite3 *database = file->writer.database;
    enum weir_status status =
        file_identity_check(&file->identity, file->path, sqlite3_db_filename(database, "main"), error);
    if (status != WEIR_OK && file->identity.known) {
        (void)sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    return status;
}

/* Keeps the lock of a new file until its schema is made; of a file that has one, releases it. */
static void keep_making(struct sqlite_file *file, int making)
{
    int64_t version = 0;
    file->making = making;
    if (making != NEW_FILE_NO_LOCK) {
        bool is_read = connection_read_integer(&file->writer, NULL, &version, QUERY_READ_SCHEMA_VERSION, "") == WEIR_OK;
        if (is_read && version > 0) {
            sqlite_file_made(file);
        } else {
            FAILPOINT("store_created");
        }
    }
}

/* Opens the writer and checks the log for damage. Takes the lock of a new file on WEIR_OK. */
static enum weir_status open_file(const struct connection_options *options, int making, struct sqlite_file **ret_file,
                                  struct weir_error *error)
{
    size_t length = strlen(options->path) + 1;
    struct sqlite_file *file = calloc(1, sizeof *file + length);
    if (file == NULL) {
        return error_out_of_memory(error);
    }
    memcpy(file->path, options->path, length);
    bool is_first = !options->read_only && !wal_is_in_use(options->path);
    enum weir_status status = connection_open(options, &file->writer, error);
    struct stat facts;
    if (status == WEIR_OK && !options->read_only && (status = wal_preallocate_init(&file->writer, error)) != WEIR_OK) {
        connection_close(&file->writer);
    }
    if (status == WEIR_OK && stat(options->path, &facts) != 0) {
        status = error_set_native(error, WEIR_STORE_UNREACHABLE, errno, "the store %s vanished", options->path);
        connection_close(&file->writer);
    }
    if (status != WEIR_OK) {
        free(file);
        return status;
    }
    if (is_first) {
        wal_damage_check(&file->writer, options->path, options->events);
    }
    file->read_only = options->read_only;
    if (!options->read_only && options->clock == clock_system()) { /* a simulation repeats its seeds: it has no thread */
        file->writer.copier = wal_copier_new(file->writer.guard);
    }
    file->writes = wal_writes_new();
    file->device = facts.st_dev;
    file->inode = facts.st_ino;
    file->references = 1;
    fifo_mutex_init(&file->writer_lock);
    (void)check_files(file, NULL); /* notes them; of a new store the log comes with the first write */
    keep_making(file, making);
    file->next = files;
    files = file;
    *ret_file = file;
    return WEIR_OK;
}

/* SQLite names the log after the file: a process that opens another hard link of it gets a second log, does not
 * see the first and overwrites it. Checked only when a store is opened: a copy by a hard link stops no running node. */
static enum weir_status require_one_name(const char *path, struct weir_error *error)
{
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink < 2) {
        return WEIR_OK;
    }
    (void)error_set(error, WEIR_STORE_UNREACHABLE, "the store %s has %lu names (hard links)", path,
                    (unsigned long)facts.st_nlink);
    error_hint(error, "each name would get a log of its own: remove the others (find FOLDER -samefile FILE shows them), "
                      "link with ln -s, copy with weir store backup");
    return WEIR_STORE_UNREACHABLE;
}

enum weir_status sqlite_file_open(const struct connection_options *options, struct sqlite_file **ret_file,
                                  struct weir_error *error)
{
    INVARIANT(options != NULL && ret_file != NULL);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    enum weir_status status = require_one_name(options->path, error);
    if (status == WEIR_OK) {
        status = require_not_inherited(options->path, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    /* Before the lock of the list, so that a wait for another process does not keep this one from its other stores. */
    int making = NEW_FILE_NO_LOCK;
    if (!is_open_here(options->path)) {
        making = new_file_await(options->path, options->create, STORE_DEADLINE_US);
    }
    (void)pthread_mutex_lock(&files_lock);
    struct sqlite_file *file = find_file(options);
    if (file != NULL) {
        file->references++;
        *ret_file = file;
    } else {
        status = open_file(options, making, ret_file, error);
    }
    if (file != NULL || status != WEIR_OK) {
        new_file_release(making);
    }
    (void)pthread_mutex_unlock(&files_lock);
    return status;
}

void sqlite_file_made(struct sqlite_file *file)
{
    INVARIANT(file != NULL);
    new_file_release(file->making);
    file->making = NEW_FILE_NO_LOCK;
}

struct sqlite_file *sqlite_file_share(struct sqlite_file *file)
{
    (void)pthread_mutex_lock(&files_lock);
    INVARIANT(file->references > 0);
    file->references++;
    (void)pthread_mutex_unlock(&files_lock);
    return file;
}

void sqlite_file_release(struct sqlite_file *file)
{
    INVARIANT(file != NULL);
    (void)pthread_mutex_lock(&files_lock);
    file->references--;
    if (file->references == 0) {
        struct sqlite_file **at = &files;
        while (*at != NULL && *at != file) {
            at = &(*at)->next;
        }
        if (*at == file) {
            *at = file->next;
        }
        wal_copier_close(file->writer.copier);
        connection_close(&file->writer);
        wal_writes_free(file->writes);
        sqlite_file_made(file);
        fifo_mutex_close(&file->writer_lock);
        free(file);
    }
    (void)pthread_mutex_unlock(&files_lock);
}

enum weir_status sqlite_file_check(const struct sqlite_file *file, struct weir_error *error)
{
    return file_identity_read(file->path, file->device, file->inode, error);
}

static enum weir_status take_writer(struct sqlite_file *file, int64_t deadline_us, bool is_patient,
                                    struct connection **ret_connection, struct weir_error *error)
{
    int64_t end_us = time_add(clock_boot(clock_system()), deadline_us);
    bool is_taken = is_patient ? fifo_mutex_take_patiently(&file->writer_lock, deadline_us)
                               : fifo_mutex_take(&file->writer_lock, deadline_us);
    if (!is_taken) {
        error_set(error, WEIR_STORE_BUSY, "the store's writer was busy in this process until the deadline");
        error_hint(error, "%s", "the disk may be very slow; raise --timeout");
        return WEIR_STORE_BUSY;
    }
    file->writer.deadline_boot_us = end_us;
    *ret_connection = &file->writer;
    return WEIR_OK;
}

enum weir_status write_reserve(struct sqlite_file *file, int64_t deadline_us, struct connection **ret_connection,
                               struct weir_error *error)
{
    INVARIANT(file != NULL && ret_connection != NULL);
    return take_writer(file, deadline_us, false, ret_connection, error);
}

void write_set_scheduler(struct sqlite_file *file, bool has_scheduler)
{
    INVARIANT(file != NULL);
    atomic_store(&file->has_scheduler, has_scheduler);
}

void write_expect_round(struct sqlite_file *file)
{
    INVARIANT(file->in_transaction);
    file->expects_round = atomic_load(&file->has_scheduler);
}

void write_announce(struct sqlite_file *file, bool waits)
{
    int before = atomic_fetch_add(&file->short_calls, waits ? 1 : -1);
    INVARIANT(before >= (waits ? 0 : 1));
}

size_t write_waiting(struct sqlite_file *file)
{
    INVARIANT(file != NULL);
    return fifo_mutex_waiting(&file->writer_lock);
}

int64_t write_reserved_until_us(struct sqlite_file *file)
{
    INVARIANT(file != NULL);
    return fifo_mutex_reserved_until_us(&file->writer_lock);
}

bool write_is_awaited(struct sqlite_file *file)
{
    INVARIANT(file != NULL);
    return atomic_load_explicit(&file->short_calls, memory_order_relaxed) > 0;
}

enum weir_status write_begin(struct sqlite_file *file, int64_t deadline_us, bool is_patient,
                             struct connection **ret_connection, int64_t *ret_now_us, struct weir_error *error)
{
    INVARIANT(deadline_us > 0);
    struct connection *connection;
    enum weir_status status = take_writer(file, deadline_us, is_patient, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_begin(connection, QUERY_BEGIN_IMMEDIATE, error);
    if (status == WEIR_OK) {
        file->in_transaction = true;
        status = check_files(file, error);
    }
    if (status == WEIR_OK) {
        status = connection_store_time(connection, ret_now_us, error);
    }
    if (status != WEIR_OK) {
        write_cancel(file);
        return status;
    }
    *ret_connection = connection;
    return WEIR_OK;
}

enum weir_status write_commit(struct sqlite_file *file, struct weir_error *error)
{
    INVARIANT(file->in_transaction);
    FAILPOINT("before_commit");
    wal_preallocate_extend(&file->writer);
    wal_writes_begin(file->writes, wal_log_of(&file->writer));
    enum weir_status status = connection_run(&file->writer, error, NULL, QUERY_COMMIT, "");
    wal_writes_end(file->writes, status == WEIR_OK);
    if (status == WEIR_OK) {
        FAILPOINT("after_commit");
        if (file->writer.clock_marking_us != 0) {
            file->writer.clock_marked_us = file->writer.clock_marking_us;
        }
        file->writer.clock_marking_us = 0;
        file->in_transaction = false;
        if (file->expects_round) {
            file->expects_round = false;
            fifo_mutex_release_reserved(&file->writer_lock, ROUND_WAIT_US);
        } else {
            fifo_mutex_release(&file->writer_lock);
        }
        return WEIR_OK;
    }
    /* The last pages may be in the log although the disk did not confirm them. This process has forgotten them, but a
     * crash before the next commit would bring them back (unknown, not failed). */
    int code = sqlite3_extended_errcode(file->writer.database);
    if (status != WEIR_STORE_FULL && (code & 0xFF) == SQLITE_IOERR) {
        status = error_set_native(error, WEIR_COMMIT_UNKNOWN, code, "the disk did not confirm a commit: %s",
                                  sqlite3_errmsg(file->writer.database));
        error_hint(error, "check whether it was done before you repeat it, and check the disk");
    }
    write_cancel(file);
    return status;
}

void write_cancel(struct sqlite_file *file)
{
    connection_rollback(&file->writer);
    file->writer.clock_marking_us = 0;
    file->in_transaction = false;
    file->expects_round = false;
    fifo_mutex_release(&file->writer_lock);
}
