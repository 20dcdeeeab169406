/* The floor: the plainest batch loop that could be called a durable queue, in SQLite with the store's own settings.
 *
 * One table, one connection, no workspaces, no caps, no fairness, no fences: mark 100 rows, commit, move 100 rows to a
 * history table, commit. The time that weir takes beyond it is the price of its promises.
 */
#ifndef WEIR_BENCH_FLOOR_H
#define WEIR_BENCH_FLOOR_H

#include "bench.h"

/* Rows per second that went all the way; in a new file `name`.db. */
double floor_lifecycles(struct bench *bench, const char *name, size_t rows);
/* Rows per second inserted in sets of 1000, a commit each. */
double floor_enqueues(struct bench *bench, size_t rows);

#endif
