/* The costs of a round of the scheduler on PostgreSQL: time and buffers of one statement, always rolled back. A claim of
 * ten is a round that assigns ten items, reads the next heads of their lanes, and reads one entry of news. */
#ifndef WEIR_BENCH_POSTGRES_CLAIM_H
#define WEIR_BENCH_POSTGRES_CLAIM_H

#include "postgres_scene.h"
#include "support/claiming.h"

/* Medians over rounds, after the session's caches of plans are warm. */
struct explained postgres_explain(const struct bench *bench, const struct postgres_scene *scene, const char *sql);

/* A scheduler on a scene, and the node that it serves. */
struct postgres_claim {
    const struct postgres_scene *scene;
    int64_t node_id;
    struct claimer *claimer;
};
void postgres_claim_open(struct postgres_claim *claim, const struct postgres_scene *scene);
void postgres_claim_close(struct postgres_claim *claim);
/* A claim of ten. The news names the `workspaces` (10, or 1) beginning with `first`, each with one more execution. */
struct explained postgres_claim_explain(const struct bench *bench, const struct postgres_claim *claim, size_t first,
                                        size_t workspaces);
/* Time and buffers of "pg claim of 10`suffix`" beside those of the base, with the goals: flat, and at most 200 buffers. */
void postgres_claim_report(struct bench *bench, const char *suffix, const struct explained *claim,
                           const struct explained *base);

/* Behind full workspaces, and rounds that find nothing. */
void postgres_measure_claims(struct bench *bench, struct postgres_server *server);

#endif
