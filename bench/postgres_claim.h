/* What a claim of ten and a poll cost on PostgreSQL: time and buffers of one statement, always rolled back. */
#ifndef WEIR_BENCH_POSTGRES_CLAIM_H
#define WEIR_BENCH_POSTGRES_CLAIM_H

#include "postgres_scene.h"

/* Medians over rounds, after the session's caches of plans are warm. */
struct explained postgres_explain(const struct bench *bench, const struct postgres_scene *scene, const char *sql);
/* As a node asks that has looked before: it passes what it folded and where its lanes begin. */
struct explained postgres_explain_claim(const struct bench *bench, const struct postgres_scene *scene, int64_t node_id);

/* Behind full workspaces, and of a poll that finds nothing. */
void postgres_measure_claims(struct bench *bench, struct postgres_server *server);

#endif
