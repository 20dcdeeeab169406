/* The dispatch loop of a node: it schedules if the node has the role, and starts the items that are assigned to the node.
 * Thread: the dispatch loop. */
#ifndef WEIR_DISPATCH_DISPATCHER_H
#define WEIR_DISPATCH_DISPATCHER_H

#include "dispatch/node.h"

/* One step, which never waits. Returns when the next one is due. */
int64_t dispatcher_step(struct node *node);

#endif
