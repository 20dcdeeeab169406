/* A steady load on a PostgreSQL store without a node: the verbs of a dispatcher at a fixed pace, each claim timed.
 *
 * One thread goes round a hundred times a second: it enqueues a set, claims until all of it is claimed, and records the
 * ends. Once a second and at its end it publishes the books, as a scheduler does. So nothing but the store is measured, and
 * the pace does not depend on the cost of a claim, as long as the machine keeps up. */
#ifndef WEIR_BENCH_POSTGRES_LOAD_H
#define WEIR_BENCH_POSTGRES_LOAD_H

#include "postgres_scene.h"
#include "support/claiming.h"

struct postgres_load {
    struct store *store;
    int64_t node_id;
    struct claimer *claimer;
    double published;  /* when the books were published last, by bench_now() */
    size_t workspaces; /* served in turn, beginning with the first of fixture_workspaces() */
    size_t next;       /* the workspace of the next item */
};

struct postgres_load_times {
    double p50_us; /* of a claim: the rounds that read the news and the heads, and the one that assigns */
    double p99_us;
    double per_second; /* executions that ended */
};

/* For the node, which takes the scheduler's role with the first claim. */
void postgres_load_open(struct postgres_load *load, struct store *store, int64_t node_id, size_t workspaces);
void postgres_load_close(struct postgres_load *load);
/* One set of `count` (at most 100) is enqueued and left. */
void postgres_load_enqueue(struct postgres_load *load, size_t count);
/* `count` executions from end to end, `per_second` of them each second, as far as the machine keeps up; 0 = no pace. */
struct postgres_load_times postgres_load_run(struct postgres_load *load, size_t per_second, size_t count);

#endif
