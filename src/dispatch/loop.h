/* The state of a loop between its steps: failed calls of the store, and the pause that follows them. Thread: each loop for
 * itself. */
#ifndef WEIR_DISPATCH_LOOP_H
#define WEIR_DISPATCH_LOOP_H

#include "dispatch/node_internal.h"

#define LOOP_RETRY_FIRST_US ((int64_t)50000)
#define LOOP_RETRY_MOST_US ((int64_t)1000000)
/* Steps that fail for so long in a row are no incident any more, but the reason why nothing is scheduled or recorded. */
#define LOOP_FAILS_LEAST_US (2 * MICROSECONDS_PER_SECOND)
/* The shortest pause between two passes over the history. */
#define LOOP_PASS_LEAST_US (60 * MICROSECONDS_PER_SECOND)

/* True when the loop must wait after a failed call of the store; *ret_until_us is the end of the pause. */
bool loop_is_backing_off(struct node *node, enum loop loop, int64_t now_us, int64_t *ret_until_us);
/* A call of the store has failed: begins a pause, which doubles with each failure, and marks the node unhealthy when no
 * pause can help. Returns the end of the pause. */
int64_t loop_failed(struct node *node, enum loop loop, int64_t now_us, enum weir_status status,
                    const struct weir_error *error);
/* A step has made all its calls of the store: the next failure begins with the shortest pause. */
void loop_succeeded(struct node *node, enum loop loop);
/* A report of the record loop was refused. The loop goes on with the others. */
void loop_note_refusal(struct node *node, int64_t now_us, const char *refusal);
/* The record loop has no refused report any more. */
void loop_end_refusals(struct node *node);
/* For how long the loop has failed, for the report of a heartbeat, and the last error. 0 and "" when it does not fail, and
 * during the first LOOP_FAILS_LEAST_US. */
int64_t loop_read_failure(struct node *node, struct loop_failure *failure, char error[WEIR_ERROR_MESSAGE_MAX]);
/* The pause between two passes over what is older than `age_us`: a hundredth of it, one to ten minutes. */
int64_t loop_pass_pause_us(int64_t age_us);

#endif
