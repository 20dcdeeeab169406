/* The stop of a node. node.h declares the functions for its owner (node_begin_stop() and those that follow it); this is the
 * part of the dispatch loop. */
#ifndef WEIR_DISPATCH_SHUTDOWN_H
#define WEIR_DISPATCH_SHUTDOWN_H

#include "dispatch/node.h"

/* One step of a stop that has begun. Returns when the next one is due. */
int64_t shutdown_step(struct node *node, int64_t now_us, enum node_stop_kind kind);

#endif
