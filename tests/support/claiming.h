/* Claims for tests of the store: the caller acts as the scheduler for one node.
 *
 *   role -> load -> { wants, assign -> store_schedule() -> settle, read, learn } -> publish_books
 *
 * A claim takes the scheduler's role for the node, also from another node that holds it, and assigns items to this node
 * only: all other nodes are learnt as nodes that accept nothing. The decision is made by queue/scheduler.c, as in a node.
 *
 * Two ways:
 * - claim_through_scheduler() loads everything for one claim and stores the passes at its end, so that fairness carries on.
 * - A struct claimer keeps the role and the scheduler's memory over many claims. Its memory follows the store by news only.
 *
 * When another claimer takes the role, the claim begins again with a new epoch, after a random delay. A claim that has
 * assigned items by then returns them instead.
 *
 * Threads: a claimer belongs to the thread of its store handle.
 */
#ifndef WEIR_TESTS_SUPPORT_CLAIMING_H
#define WEIR_TESTS_SUPPORT_CLAIMING_H

#include "store/store.h"

struct claim_request {
    int64_t node_id;
    const char *group; /* for the reader: the scheduler knows the node's group from its row */
    size_t limit;
};

/* The possible next actions of a node. */
struct work_ahead {
    bool ready;        /* the scheduler would assign something to the node now */
    bool requests;     /* a cancel waits for an execution of the node */
    int64_t due_in_us; /* until the next waiting item of any group becomes due; TIME_NEVER = none */
};

/* Up to `limit` items in the order in which they are to be started; `limit` may exceed CLAIM_BATCH_MOST. The items live in
 * `arena`. WEIR_STALE_FENCE: the node is unknown, stopped or dead. Items that were assigned before an error stay assigned.
 */
WEIR_MUST_CHECK enum weir_status claim_through_scheduler(struct store *store, const struct claim_request *request,
                                                         struct arena *arena, struct claim_result *ret_result,
                                                         struct weir_error *error);
/* Assigns nothing, but makes due items runnable as every load does. */
WEIR_MUST_CHECK enum weir_status look_for_work(struct store *store, int64_t node_id, struct work_ahead *ret_work,
                                               struct weir_error *error);

struct claimer;

/* Takes the role with the first claim. */
WEIR_MUST_CHECK enum weir_status claimer_open(struct store *store, int64_t node_id, struct claimer **ret_claimer,
                                              struct weir_error *error);
/* Takes NULL. Publishes nothing and keeps the role. */
void claimer_close(struct claimer *claimer);
/* As claim_through_scheduler(), without publishing. The errors are the same; after one, the next claim loads anew. */
WEIR_MUST_CHECK enum weir_status claimer_claim(struct claimer *claimer, size_t limit, struct arena *arena,
                                               struct claim_result *ret_result, struct weir_error *error);
WEIR_MUST_CHECK enum weir_status claimer_look(struct claimer *claimer, struct work_ahead *ret_work,
                                              struct weir_error *error);
/* Folds all news into the books and stores the passes. WEIR_OK also when the role was lost. */
WEIR_MUST_CHECK enum weir_status claimer_publish(struct claimer *claimer, struct weir_error *error);
/* 0 = it has no role. */
int64_t claimer_epoch(const struct claimer *claimer);
/* Owned by the claimer. */
struct scheduler *claimer_scheduler(struct claimer *claimer);

/* Takes the role for the node from its present holder; *ret_epoch is the new epoch. WEIR_STALE_FENCE: the node is unknown,
 * stopped or dead. */
WEIR_MUST_CHECK enum weir_status take_role(struct store *store, int64_t node_id, int64_t *ret_epoch,
                                           struct weir_error *error);

#endif
