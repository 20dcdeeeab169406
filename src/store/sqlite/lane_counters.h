/* The table lane_counters of our connections: one row per lane with its counters, which are the books plus all news.
 *
 * It is a virtual table, so that SQL can join and sum it while the news is added up in C. Its columns are lane_id,
 * workspace_id, group_id, runnable, waiting, held, completed, failed, cancelled. With lane_id = ? only that lane is
 * read from the books. It reads the state of the transaction in which it is used. Read only.
 *
 * A verb with several statements in one snapshot may keep the sums for all of them. It must forget them before the
 * snapshot ends.
 */
#ifndef WEIR_STORE_SQLITE_LANE_COUNTERS_H
#define WEIR_STORE_SQLITE_LANE_COUNTERS_H

#include <sqlite3.h>
#include <stdbool.h>

struct lane_sums;

/* Part of a connection, zeroed at first. */
struct lane_counters {
    bool is_kept;           /* the first statement that reads all lanes makes `sums`, and the others read them */
    struct lane_sums *sums; /* NULL = not yet */
};

/* `counters`: NULL = sums are never kept. It must stay where it is until the database is closed or
 * lane_counters_unregister() is called. SQLITE_OK, or the code of the failure. */
int lane_counters_register(sqlite3 *database, struct lane_counters *counters);
/* No statement that uses the table may be left. */
void lane_counters_unregister(sqlite3 *database);
void lane_counters_keep(struct lane_counters *counters);
void lane_counters_forget(struct lane_counters *counters);
/* The kept sums themselves, in the order of the lanes' ids, until they are forgotten. A code of SQLite. */
int lane_counters_read(struct lane_counters *counters, sqlite3 *database, const struct lane_sums **ret_sums);

#endif
