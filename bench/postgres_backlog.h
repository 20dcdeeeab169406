/* Does a claim of ten cost more when ten million rows wait instead of a thousand? One database, filled further and further,
 * at a speed that no enqueue has. */
#ifndef WEIR_BENCH_POSTGRES_BACKLOG_H
#define WEIR_BENCH_POSTGRES_BACKLOG_H

#include "postgres_scene.h"

/* Pending rows of the queue, consistent with its books: number n (from 1) belongs to the n-th of the `workspaces` beginning
 * with `first`, round and round. They became due one microsecond after another; `before` rows were inserted by earlier
 * calls. One row of news names all lanes, as an enqueue of the whole set would. */
void postgres_backlog_fill(const struct postgres_scene *scene, const char *workflow, size_t first, size_t workspaces,
                           size_t before, size_t count);

#endif
