/* Room at the end of the write-ahead log, so that a commit costs one write to the disk.
 *
 * A commit that makes the log longer makes fdatasync() write the file's new length as well. That takes the file system
 * two to four times as long as the pages alone. The log is long before it is used again from its beginning (LOG_PAGES),
 * so nearly every commit of a node's first hours would pay for that. So a writer near the end of the log appends zeros
 * to it, in long strides. To SQLite they look like the end of a log that was used before: frames without the right
 * salt, where reading, also after a crash, ends.
 *
 * Bytes are only ever appended, and only in a write transaction, whose lock keeps every other process from appending too.
 */
#ifndef WEIR_STORE_SQLITE_WAL_PREALLOCATE_H
#define WEIR_STORE_SQLITE_WAL_PREALLOCATE_H

#include "store/sqlite/connection.h"

enum {
    PREALLOCATE_LEAST = 64 * 4096, /* bytes left at the end of the log: below that there is made more, ... */
    PREALLOCATE_STRIDE =
        1024 * 1024, /* ... this much, but never more than the log is long: a short life writes no zeros in vain */
    PREALLOCATE_FROM = 16 * 4096 /* bytes of the log before the first zeros */
};

/* Instead of SQLite's own automatic checkpoint: has the log copied back after LOG_PAGES, and notes where it ends. Makes the
 * guard of the log.
 * `writer` must stay where it is until it is closed. */
enum weir_status wal_preallocate_init(struct connection *writer, struct weir_error *error);
/* The file of the log, or NULL when SQLite has not opened it. */
sqlite3_file *wal_log_of(const struct connection *writer);
/* Right before a commit, inside its transaction. A failure (a full disk) changes nothing: the commit then makes the log
 * longer by itself, or reports why it cannot. */
void wal_preallocate_extend(struct connection *writer);

#endif
