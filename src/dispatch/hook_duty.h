/* The duty of hooks (store/hooks.h): the node that schedules enqueues an execution for each event of the outbox.
 *
 *   1. Read the oldest events of all hooks.
 *   2. Enqueue their executions in one transaction. The idempotency key `hook/NAME/ID` names hook and ended execution, so a
 *      repetition after a crash makes no second execution.
 *   3. Remove the events that are enqueued. A refused one makes its hook wait for HOOK_RETRY_US.
 *
 * Thread: the loop of the duties (maintenance.h).
 */
#ifndef WEIR_DISPATCH_HOOK_DUTY_H
#define WEIR_DISPATCH_HOOK_DUTY_H

#include "dispatch/node_internal.h"

/* Does one set when it is time. */
WEIR_MUST_CHECK enum weir_status hook_duty_step(struct node *node, int64_t now_us, struct weir_error *error);

#endif
