/* The duty of the archive (store/archive.h): the content of executions that ended before `archive.after` moves there, a set
 * in each step. Off unless the setting has a duration. docs/design/archive.md has the reasons.
 */
#ifndef WEIR_DISPATCH_ARCHIVE_DUTY_H
#define WEIR_DISPATCH_ARCHIVE_DUTY_H

#include "dispatch/node_internal.h"

/* When the duty is due next; TIME_NEVER while it is off. */
int64_t archive_duty_next(const struct node *node);
/* One set when it is time. A failure is reported as an event and no failure of the loop. Thread: the loop of the duties. */
WEIR_MUST_CHECK enum weir_status archive_duty_step(struct node *node, int64_t now_us, struct weir_error *error);

#endif
