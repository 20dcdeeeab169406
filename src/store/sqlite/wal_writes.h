/* Fewer writes to the write-ahead log: those of a commit are gathered, and written with its last page.
 *
 * SQLite writes each frame of the log with two calls of the system, one for its header of 24 bytes and one for its page.
 * The frames of a commit lie one behind the other, so a few large writes do.
 *
 * Threads: the holder of the writer.
 */
#ifndef WEIR_STORE_SQLITE_WAL_WRITES_H
#define WEIR_STORE_SQLITE_WAL_WRITES_H

#include "store/sqlite/connection.h"

enum { LOG_WRITE_BYTES = 64 * 1024 }; /* of one write */

/* NULL = no memory; then each write goes to the system. */
struct wal_writes *wal_writes_new(void);
void wal_writes_free(struct wal_writes *writes);
/* Around the statement COMMIT of a writer. NULL and a log that is not open are ignored. The rest of a failed commit is
 * dropped. */
void wal_writes_begin(struct wal_writes *writes, sqlite3_file *log);
void wal_writes_end(struct wal_writes *writes, bool is_committed);

#endif
