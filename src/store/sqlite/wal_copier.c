/* Copies the log beside the writer.
 *
 *   COPY_NONE      nothing was copied yet. The commit that makes the log COPY_PAGES long starts a thread.
 *   COPY_RUNS      the thread copies, with SQLITE_CHECKPOINT_PASSIVE, which takes no lock that a writer or reader needs.
 *                  Commits go on. One that makes the log LOG_PAGES_MOST long waits for the thread.
 *   COPY_ENDED     the next COPY_PAGES start another thread. When the copy began at LOG_PAGES or behind, commits copy the
 *                  rest themselves until the log begins anew, which a reader can delay.
 *
 * SQLite syncs the log before a copy. It syncs the database only when the whole log is copied, and the writer prevents that
 * by its next commit. Then the commit that copies the rest of the log would wait for the pages of all copies. So the thread
 * syncs the database itself:
 *
 *   1. After each SYNC_PAGES pages, by a method of its own for writes to the database. A sync of many pages fills the queue
 *      of the disk, and each commit beside it waits for them.
 *   2. After the last page of a copy. A failed sync here is found by the commit that copies the rest: the system reports
 *      it to each open file.
 *   3. A full log is copied again while the writer has added more than REST_PAGES, at most PASSES_MOST times. So little is
 *      left to the commit.
 *
 * A failed copy leaves all to the commits. The thread uses nothing of the writer, so a holder of the writer can wait for
 * it.
 */
#include "store/sqlite/wal_copier.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/thread.h"

enum { SYNC_PAGES = 64, REST_PAGES = 64, PASSES_MOST = 4 };

enum copy_state { COPY_NONE, COPY_RUNS, COPY_ENDED };

struct wal_copier {
    sqlite3_io_methods methods;     /* first: the file names them during a copy, and so leads here */
    const sqlite3_io_methods *real; /* of the file of the database */
    int unsynced;                   /* pages that were written and not synced */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    enum copy_state state;
    int began_at;    /* frames of the log when the last copy of it began; 0 = none of this log */
    bool has_thread; /* to be joined */
    pthread_t thread;
    sqlite3 *database; /* NULL = not opened yet; the thread has it while it runs, and the guard, too */
    struct wal_guard *guard;
};

struct wal_copier *wal_copier_new(struct wal_guard *guard)
{
    INVARIANT(guard != NULL);
    struct wal_copier *copier = calloc(1, sizeof *copier);
    if (copier != NULL) {
        copier->guard = guard;
        (void)pthread_mutex_init(&copier->lock, NULL);
        (void)pthread_cond_init(&copier->ended, NULL);
    }
    return copier;
}

static int sync_pages(struct wal_copier *copier, sqlite3_file *file)
{
    copier->unsynced = 0;
    return copier->real->xSync(file, SQLITE_SYNC_NORMAL);
}

static int write_page(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 at)
{
    struct wal_copier *copier = (struct wal_copier *)(uintptr_t)(const void *)file->pMethods;
    int code = copier->real->xWrite(file, bytes, length, at);
    copier->unsynced++;
    return code == SQLITE_OK && copier->unsynced >= SYNC_PAGES ? sync_pages(copier, file) : code;
}

/* Returns the number of frames that are copied, of all that the log has. */
static int copy_frames(struct wal_copier *copier)
{
    sqlite3_file *file = NULL;
    (void)sqlite3_file_control(copier->database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (file == NULL || file->pMethods == NULL) {
        return 0;
    }
    copier->real = file->pMethods;
    copier->methods = *copier->real;
    copier->methods.xWrite = write_page;
    file->pMethods = &copier->methods;
    int copied = wal_guard_copy(copier->guard, copier->database);
    file->pMethods = copier->real;
    if (copier->unsynced > 0) {
        (void)sync_pages(copier, file);
    }
    return copied;
}

static void *run_copy(void *context)
{
    struct wal_copier *copier = context;
    int passes = copier->began_at >= LOG_PAGES ? PASSES_MOST : 1;
    int before = 0;
    int copied = copy_frames(copier);
    for (int i = 1; i < passes && copied - before > REST_PAGES; i++) {
        before = copied;
        copied = copy_frames(copier);
    }
    (void)pthread_mutex_lock(&copier->lock);
    copier->state = COPY_ENDED;
    (void)pthread_cond_signal(&copier->ended);
    (void)pthread_mutex_unlock(&copier->lock);
    return NULL;
}

/* The read opens the log. */
static bool open_copy_connection(struct wal_copier *copier)
{
    if (copier->database != NULL) {
        return true;
    }
    copier->database = wal_guard_connect(copier->guard);
    bool is_open =
        copier->database != NULL &&
        sqlite3_exec(copier->database, "PRAGMA synchronous=FULL; PRAGMA schema_version", NULL, NULL, NULL) == SQLITE_OK;
    if (!is_open) {
        (void)sqlite3_close(copier->database);
        copier->database = NULL;
    }
    return is_open;
}

static void join_copy(struct wal_copier *copier)
{
    if (copier->has_thread) {
        (void)pthread_join(copier->thread, NULL);
        copier->has_thread = false;
    }
}

/* Under the lock, and no thread runs. */
static void start_copy(struct wal_copier *copier, int frames)
{
    join_copy(copier);
    copier->state = COPY_RUNS;
    copier->began_at = frames;
    copier->has_thread = open_copy_connection(copier) && wal_guard_open(copier->guard) &&
                         thread_start(&copier->thread, run_copy, copier) == 0;
    if (!copier->has_thread) {
        copier->state = COPY_ENDED;
    }
}

bool wal_copier_note(struct wal_copier *copier, int frames)
{
    INVARIANT(copier != NULL && frames >= 0);
    (void)pthread_mutex_lock(&copier->lock);
    while (copier->state == COPY_RUNS && frames >= LOG_PAGES_MOST) {
        (void)pthread_cond_wait(&copier->ended, &copier->lock);
    }
    bool is_whole = copier->state == COPY_ENDED && copier->began_at >= LOG_PAGES;
    if (copier->state != COPY_RUNS && frames < copier->began_at) {
        copier->began_at = 0; /* the log has begun anew */
        is_whole = false;
    }
    if (copier->state != COPY_RUNS && !is_whole && (frames >= LOG_PAGES || frames >= copier->began_at + COPY_PAGES)) {
        start_copy(copier, frames);
        is_whole = copier->state == COPY_ENDED && frames >= LOG_PAGES; /* it could not start */
    }
    (void)pthread_mutex_unlock(&copier->lock);
    return is_whole;
}

void wal_copier_close(struct wal_copier *copier)
{
    if (copier != NULL) {
        join_copy(copier);
        (void)sqlite3_close(copier->database);
        (void)pthread_cond_destroy(&copier->ended);
        (void)pthread_mutex_destroy(&copier->lock);
        free(copier);
    }
}
