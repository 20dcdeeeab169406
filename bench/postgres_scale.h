/* The parts of the group postgres-scale, each in a file of its own. */
#ifndef WEIR_BENCH_POSTGRES_SCALE_H
#define WEIR_BENCH_POSTGRES_SCALE_H

#include "postgres_scene.h"

/* Rows of the queue, pending and consistent with its books, at a speed that no enqueue has: number n (from 1) belongs to the
 * n-th of the `workspaces` beginning with `first`, round and round. They become due one microsecond after another; `before`
 * rows were inserted by earlier calls. Folded when it returns. */
void postgres_backlog_fill(const struct postgres_scene *scene, const char *workflow, size_t first, size_t workspaces,
                           size_t before, size_t count);

/* A claim behind 1k to 10M pending rows. */
void postgres_measure_backlog(struct bench *bench, struct postgres_server *server);
/* Small workspaces beside one with a million rows that runs at its cap. */
void postgres_measure_neighbour(struct bench *bench, struct postgres_server *server);
/* Claims while somebody holds a transaction open. */
void postgres_measure_pinned(struct bench *bench, struct postgres_server *server);
/* What a node asks that has nothing to do. */
void postgres_measure_idle(struct bench *bench, struct postgres_server *server);

#endif
