/* Executions that other ones have started by `start` steps: their children.
 *
 * The record of a step that waits for children brings a plan: JSON text in the place of its variables. The name of
 * its signal begins with CHILDREN_SIGNAL. The store keeps a row for the step and, once the plan was
 * read, one for each child. Each end of a child or a parent leaves a note in an outbox, in its own transaction.
 * store_advance_children() works on these notes: it enqueues children, counts ends, ends the wait of a step by a signal,
 * and cancels the children of ended parents. Each call is one transaction, so no child starts twice and no end counts
 * twice, even when two nodes call at once.
 */
#ifndef WEIR_STORE_CHILDREN_H
#define WEIR_STORE_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/limits.h"
#include "weir/status.h"

struct store;

struct children_advance {
    size_t started;   /* children that were enqueued */
    size_t cancelled; /* children of ended parents, with the requests to their nodes */
    size_t settled;   /* waits that are over, and whose parents got the signal */
    bool again;       /* more can be done at once */
    bool waits;       /* notes are left: rows that another transaction has locked */
    bool exist;       /* some execution has or had children */
    size_t faults;    /* steps left out, because a row of theirs was altered. Their notes are kept for a later call */
    char fault[WEIR_ERROR_MESSAGE_MAX]; /* of the last such step, with the id of its parent */
};
/* Works on up to CHILD_WORK_BATCH steps, and counts, starts and cancels up to CHILD_STARTS_BATCH children; on PostgreSQL
 * CHILD_SET_BATCH. It only reads when there are no notes. */
WEIR_MUST_CHECK enum weir_status store_advance_children(struct store *store, struct children_advance *ret_advance,
                                                        struct weir_error *error);

#endif
