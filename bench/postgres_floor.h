/* The floor on PostgreSQL: the plainest batch loop that could be called a durable queue. One table with a partial index of
 * what waits and one of what runs, no workspaces, no caps, no fairness, no fences; two clients, each marks 500 rows,
 * commits, moves 500 rows to a history table, commits. */
#ifndef WEIR_BENCH_POSTGRES_FLOOR_H
#define WEIR_BENCH_POSTGRES_FLOOR_H

#include "postgres_scene.h"

struct postgres_floor {
    double per_second; /* rows that went all the way */
    double server_us;  /* of processor, for each */
};
/* In a database of its own. */
struct postgres_floor postgres_floor_lifecycles(struct postgres_server *server, const char *name, size_t rows);

#endif
