/* The dispatch loop of a node: it schedules if the node has the role, and starts the items that are assigned to the node.
 * Thread: the dispatch loop. */
#ifndef WEIR_DISPATCH_DISPATCHER_H
#define WEIR_DISPATCH_DISPATCHER_H

#include "dispatch/node.h"

/* Learns the distance of store time from the boot clock. The store read its time in a call that this node began at
 * `asked_us` and that has just ended. */
void dispatcher_learn_store_time(struct node *node, int64_t asked_us, int64_t store_now_us);
/* One step, which never waits. Returns when the next one is due. */
int64_t dispatcher_step(struct node *node);

#endif
