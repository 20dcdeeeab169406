/* The duty of children (store/children.h), which the node that schedules has. It starts the children of other executions,
 * and counts their ends. It ends the waits of their parents, and cancels the children of parents that have ended.
 *
 * Each call of the store is a whole step of it, in one transaction. So a node that dies between two calls leaves nothing
 * half done, and two nodes that do the duty at once, at a change of the scheduler, do nothing twice.
 *
 * Thread: the loop of the duties (maintenance.h).
 */
#ifndef WEIR_DISPATCH_CHILD_DUTY_H
#define WEIR_DISPATCH_CHILD_DUTY_H

#include "dispatch/node_internal.h"

/* Does what can be done, when there was news or its time has come. */
WEIR_MUST_CHECK enum weir_status child_duty_step(struct node *node, int64_t now_us, struct weir_error *error);
/* A record of this node that begins a wait for children is committed: news of it is on its way, or was read. Any thread. */
void child_duty_expect(struct node *node);
/* The scheduler has read news. Any thread. */
void child_duty_news(struct node *node);

#endif
