/* The scheduler's role as a sentence: which node schedules, since when, and whether it is in order.
 *
 * Reads the object "scheduler" of store_status(): {"node", "node_id", "epoch", "taken_at", "expires_at",
 * "is_free", "lag_us", "takeovers_hour", "why", "lock_awaited_since", "lock_holder", "lock_until", "failing_since",
 * "error"}. Times are RFC 3339 text in store time. Pure; one thread.
 */
#ifndef WEIR_CLI_VERBS_ROLE_H
#define WEIR_CLI_VERBS_ROLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "cli/output/output.h"

/* From here on the books are behind. They are published once a second, so a few seconds are a slow store or scheduler. */
#define ROLE_BEHIND_US (5 * MICROSECONDS_PER_SECOND)
/* A role that is free for longer than a takeover lasts (limits.h: the lease, and one check of the other nodes) stays
 * free. */
#define ROLE_FREE_LONG_US (10 * MICROSECONDS_PER_SECOND)
/* More takeovers in one hour than restarts of nodes explain. */
enum { ROLE_MOVES_HOUR = 6 };

/* The first that applies. */
enum role_health {
    ROLE_IS_FREE,     /* no node schedules */
    ROLE_FAILS,       /* no round of its node succeeds */
    ROLE_AWAITS_LOCK, /* a node with dispatch.exclusive has it, and another holder has the lock */
    ROLE_MOVES,       /* more than ROLE_MOVES_HOUR takeovers in the last hour */
    ROLE_IS_BEHIND,   /* news is older than ROLE_BEHIND_US and not in the books */
    ROLE_IS_FINE
};
enum role_health role_health(const json_t *scheduler);
/* "node-1 for 3m12s, epoch 12, books 0.4s behind", or "none for 12s: the lease of node-1 is over". In the output's arena.
 */
const char *role_text(struct output *output, const json_t *scheduler, int64_t now_us);
/* How long the role has been free; 0 while a node has it, and when no node has ever scheduled. */
int64_t role_free_us(const json_t *scheduler, int64_t now_us);

#endif
