/* The loop of the duties: recovery, stuck warnings, retention, notices of workspaces at capacity. Thread: its own, unless a
 * function names others. */
#ifndef WEIR_DISPATCH_MAINTENANCE_H
#define WEIR_DISPATCH_MAINTENANCE_H

#include "dispatch/node.h"

/* Sets the first times and names the locks. */
void maintenance_init(struct node *node, int64_t now_us);
/* One step. Returns when the next one is due. */
int64_t maintenance_step(struct node *node);
/* Executions of this node that run for longer than expected, as the last check found them. Any thread. */
size_t maintenance_stuck_count(struct node *node);

#endif
