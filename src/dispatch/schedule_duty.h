/* The duty of schedules (store/schedules.h): the node that schedules fires the times that have come.
 *
 *   1. Read the schedules that are due, and when the next one is.
 *   2. Compute for each one the time that fires, the next one, and those that are too old. Record this: one transaction
 *      moves the due times on and inserts the firings.
 *   3. Read the firings that may start. Request the cancels that their overlap policy demands.
 *   4. Enqueue the executions of the others in one transaction. The idempotency key `schedule/NAME/TIME` makes a repetition
 *      harmless.
 *   5. Give the firings their executions. A refused one is removed, and shown on its schedule.
 *
 * Thread: the loop of the duties (maintenance.h).
 */
#ifndef WEIR_DISPATCH_SCHEDULE_DUTY_H
#define WEIR_DISPATCH_SCHEDULE_DUTY_H

#include "dispatch/node_internal.h"

/* Does one set when it is time; then maintenance.next_schedules_us has the time of the next. */
WEIR_MUST_CHECK enum weir_status schedule_duty_step(struct node *node, int64_t now_us, struct weir_error *error);

#endif
