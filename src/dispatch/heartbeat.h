/* The heartbeat loop of a node: its row in the registry, its lease, and the orders of operators. Thread: the heartbeat
 * loop. */
#ifndef WEIR_DISPATCH_HEARTBEAT_H
#define WEIR_DISPATCH_HEARTBEAT_H

#include "dispatch/node.h"

/* Puts the node into the registry under a new id and gives the engine its lease. */
WEIR_MUST_CHECK enum weir_status heartbeat_register(struct node *node, struct weir_error *error);
/* One step. Returns when the next one is due. */
int64_t heartbeat_step(struct node *node);

#endif
