/* The table lane_counters of our connections: one row per lane with its counters, which are the books plus all news.
 *
 * It is a virtual table, so that SQL can join and sum it while the news is added up in C: columns lane_id, workspace_id,
 * group_id, runnable, waiting, held, completed, failed, cancelled. With lane_id = ? only that lane is read from the books.
 * It reads the state of the transaction in which it is used. Read only.
 */
#ifndef WEIR_STORE_SQLITE_LANE_COUNTERS_H
#define WEIR_STORE_SQLITE_LANE_COUNTERS_H

#include <sqlite3.h>

/* SQLITE_OK, or the code of the failure. */
int lane_counters_register(sqlite3 *database);

#endif
