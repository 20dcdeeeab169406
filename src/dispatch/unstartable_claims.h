/* Assigned items that this node gives back instead of starting them. Thread: the dispatch loop. */
#ifndef WEIR_DISPATCH_UNSTARTABLE_CLAIMS_H
#define WEIR_DISPATCH_UNSTARTABLE_CLAIMS_H

#include "dispatch/node_internal.h"

/* Keeps assigned items until they are given back; needs no memory. All earlier ones must have been given back. */
void unstartable_add(struct node *node, int64_t node_id, struct assignment_batch *batch, const struct claimed_item *items,
                     size_t count, enum unstartable_reason reason);
/* Gives them back to the queue, so that they need not wait for the safety net; WEIR_OK when there are none. After an error
 * of the store the next call goes on with the rest. */
WEIR_MUST_CHECK enum weir_status unstartable_give_back(struct node *node, struct weir_error *error);
/* Forgets them: the claims are over, or the node is. */
void unstartable_drop(struct node *node);
bool unstartable_is_empty(const struct node *node);

#endif
