/* Copies the log beside the writer.
 *
 *   COPY_NONE      nothing was copied yet. The commit that makes the log COPY_PAGES long starts a thread.
 *   COPY_RUNS      the thread copies, with SQLITE_CHECKPOINT_PASSIVE, which takes no lock that a writer or reader needs.
 *                  Commits go on. One that makes the log LOG_PAGES_MOST long waits for the thread.
 *   COPY_ENDED     the next COPY_PAGES start another thread. When the copy began at LOG_PAGES or behind, commits copy the
 *                  rest themselves until the log begins anew, which a reader can delay.
 *
 * SQLite syncs the log before a copy, and the database with the copy of the last frame of the log. The writer adds frames
 * meanwhile, so mostly the commit that copies the rest syncs the pages of all copies, and only then the log begins anew. A
 * failed copy leaves all to the commits. The thread uses nothing of the writer, so a holder of the writer can wait for it.
 */
#include "store/sqlite/wal_copier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"

enum copy_state { COPY_NONE, COPY_RUNS, COPY_ENDED };

struct wal_copier {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    enum copy_state state;
    int began_at;    /* frames of the log when the last copy of it began; 0 = none of this log */
    bool has_thread; /* to be joined */
    pthread_t thread;
    sqlite3 *database; /* NULL = not opened yet; the thread has it while it runs */
    char path[];
};

struct wal_copier *wal_copier_new(const char *path)
{
    INVARIANT(path != NULL);
    size_t length = strlen(path) + 1;
    struct wal_copier *copier = calloc(1, sizeof *copier + length);
    if (copier != NULL) {
        memcpy(copier->path, path, length);
        (void)pthread_mutex_init(&copier->lock, NULL);
        (void)pthread_cond_init(&copier->ended, NULL);
    }
    return copier;
}

static void *run_copy(void *context)
{
    struct wal_copier *copier = context;
    (void)sqlite3_wal_checkpoint_v2(copier->database, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    (void)pthread_mutex_lock(&copier->lock);
    copier->state = COPY_ENDED;
    (void)pthread_cond_signal(&copier->ended);
    (void)pthread_mutex_unlock(&copier->lock);
    return NULL;
}

/* The read opens the log. The last connection to close removes it, and that is to be the writer. */
static bool open_copy_connection(struct wal_copier *copier)
{
    if (copier->database != NULL) {
        return true;
    }
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    bool is_open =
        sqlite3_open_v2(copier->path, &copier->database, flags, NULL) == SQLITE_OK &&
        sqlite3_db_config(copier->database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK &&
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
    copier->has_thread = open_copy_connection(copier) && thread_start(&copier->thread, run_copy, copier) == 0;
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
