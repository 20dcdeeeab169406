/* Copies of the write-ahead log, and commits that begin it anew, that are safe beside other programs with each version of
 * SQLite.
 *
 * Before 3.51.3 SQLite has a defect (https://sqlite.org/wal.html#walresetbug). A copy reads how long the log is. If all of
 * it is copied already, a writer may begin the log anew at that moment. The copy then notes as many frames of the new log
 * as copied, and nobody copies these. Rows are lost, and the database is malformed. Two programs that copy beside one that
 * commits can meet it within seconds.
 *
 * Threads: that of the copy, or the holder of the writer; wal_guard_commits() and wal_guard_close() while no other runs.
 */
#ifndef WEIR_STORE_SQLITE_WAL_GUARD_H
#define WEIR_STORE_SQLITE_WAL_GUARD_H

#include <sqlite3.h>
#include <stdbool.h>

/* The guard of the database with this path. NULL = no memory. */
struct wal_guard *wal_guard_new(const char *path);
/* From now on commits of this connection begin the log anew only while no program copies it. Once. The connection is closed
 * after the guard. */
void wal_guard_commits(struct wal_guard *guard, sqlite3 *writer);
/* Opens the connection of the read, unless it is open. The holder of the writer calls it: it has found its files to be
 * those that it opened. False: no copy is made now. */
bool wal_guard_open(struct wal_guard *guard);
/* Opens another connection to the database, which leaves the log alone when it closes: the last connection to close removes
 * it, and that is to be the writer. NULL = it could not. The caller closes it. */
sqlite3 *wal_guard_connect(const struct wal_guard *guard);
/* Copies what it can of the log through `database`, beside readers and writers, and returns how many frames of the log are
 * copied in all. 0 = none, or the read was not possible. */
int wal_guard_copy(struct wal_guard *guard, sqlite3 *database);
/* NULL is ignored. */
void wal_guard_close(struct wal_guard *guard);

#endif
