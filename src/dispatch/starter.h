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
/* The trace context that the work behind an execution gets; NULL = none. A node that exports spans passes on the id of the
 * execution's own span. Any other node passes on `traceparent`, the context of the caller, because children of a span that
 * does not exist have no place in the trace. `to` holds TRACEPARENT_SIZE bytes, in which the result may be. Any thread. */
const char *choose_context_to_pass(const struct node *node, const char *id, const char *traceparent, char *to);
/* Frees the definitions that it keeps. */
void starter_close(struct node *node);

#endif
