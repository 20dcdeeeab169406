/* Copies the write-ahead log to the database beside the writer, so that no commit waits for it.
 *
 * A copy of a full log takes some ten milliseconds, a hundred times as long as a commit. So a short thread with a
 * connection of its own makes it, while the writer goes on behind the frames that are copied. The log begins anew when all
 * of it is copied. So the first commit after the copy copies what was written meanwhile, which is little.
 *
 * Threads: the holder of the writer calls these functions; wal_copier_close() before the writer is closed.
 */
#ifndef WEIR_STORE_SQLITE_WAL_COPIER_H
#define WEIR_STORE_SQLITE_WAL_COPIER_H

#include "store/sqlite/connection.h"
#include "store/sqlite/wal_guard.h"

enum {
    COPY_PAGES = LOG_PAGES / 4, /* new in the log: then a copy begins. A long copy would fill the queue of the disk */
    LOG_PAGES_MOST = LOG_PAGES / 2 * 3 /* of the log: then a commit waits for the copy, so that a log has a bound */
};

/* The copier of a store whose writer has this guard. NULL = no memory; then the commits copy. Commits use the
 * guard only when they copy themselves. */
struct wal_copier *wal_copier_new(struct wal_guard *guard);
/* After a commit that leaves so many frames in the log. True: the commit has to copy itself. The first copy opens the
 * connection, under the lock of the writer: it has found its files to be those that it opened. */
bool wal_copier_note(struct wal_copier *copier, int frames);
/* Waits for a copy. NULL is ignored. */
void wal_copier_close(struct wal_copier *copier);

#endif
