/* The floor on PostgreSQL: the plainest batch loop that is a durable queue. One table with a partial index of the
 * waiting rows and one of the running rows, no workspaces, no caps, no fairness, no fences; two clients, each marks 500
 * rows, commits, moves 500 rows to a history table, commits. */
#ifndef WEIR_BENCH_POSTGRES_FLOOR_H
#define WEIR_BENCH_POSTGRES_FLOOR_H

#include "postgres_scene.h"

struct postgres_floor {
    double per_second; /* rows that went all the way */
    double server_us;  /* of processor, for each */
};
/* In which order rows are marked. */
enum floor_order {
    FLOOR_AS_INSERTED, /* neighbours in the order are neighbours on the page */
    FLOOR_AS_CAPPED    /* as 1,000 workspaces with plans let them go: in each turn a workspace has as many rows as slots */
};
/* In a database of its own. */
struct postgres_floor postgres_floor_lifecycles(struct postgres_server *server, const char *name, size_t rows,
                                                enum floor_order order);

/* The least that a start between two processes costs: one inserts a row and notifies; the other listens, marks the row, and
 * has the start when its commit is answered. No rules, no functions, one plain statement each. Milliseconds from before the
 * insert, one for each of `count` starts with the same pauses as `starts_enqueue()` has around it in the group
 * "postgres-latency". */
void postgres_floor_starts(struct postgres_server *server, size_t count, double *ret_ms);

#endif
