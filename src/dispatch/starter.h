/* Gives assigned items to the engine. Thread: the dispatch loop. */
#ifndef WEIR_DISPATCH_STARTER_H
#define WEIR_DISPATCH_STARTER_H

#include "dispatch/in_flight.h"
#include "dispatch/node.h"

/* Starts the items that were assigned under `node_id`; keeps a reference on the batch for each item until its start is
 * answered. Items of a former id of the node are dropped: another node may hold them. */
void starter_start(struct node *node, int64_t node_id, struct assignment_batch *batch, const struct claim_result *result);
/* Sends unanswered starts whose time has come again; returns when the next one is due. */
int64_t starter_send_again(struct node *node, int64_t now_us);
/* Frees the definitions that it keeps. */
void starter_close(struct node *node);

#endif
