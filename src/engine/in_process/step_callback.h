/* http steps with `callback`: the function answers 202, and reports its result later.
 *
 *     RUNNING on record, with the name of the report --> request with the header Weir-Callback
 *        --> 202: WAITING, without a slot --> report or timeout
 *
 * The name is on record before the request is sent, so the report may come before the answer 202, after the death of the
 * node, or while the execution is parked. A report is a signal (queue/signal.h): the store keeps it until a record of the
 * step names it, so it ends one attempt, once.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_CALLBACK_H
#define WEIR_ENGINE_IN_PROCESS_STEP_CALLBACK_H

#include "base/callback_token.h"
#include "engine/in_process/execution_state.h"

/* A report that the store has taken reaches the node that holds the step within a read of its inbox, so within
 * SCHEDULER_WATCH_US (queue/limits.h). The wait ends some time after that. */
#define STEP_CALLBACK_GRACE_US (3 * SCHEDULER_WATCH_US)

/* Of the attempt that this node has begun. */
struct step_callback {
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    char token[CALLBACK_TOKEN_MAX + 1];
};

/* Whether its function may report later. */
bool step_may_call_back(const struct step_run *run);
/* Makes the token of the attempt, before its start is reported. WEIR_OUT_OF_MEMORY, WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status step_callback_open(struct step_run *run, struct weir_error *error);
/* Takes NULL. */
void step_callback_free(struct step_callback *callback);
/* The function has answered 202: the step waits on record, or ends by the report that is there already. */
void step_callback_wait(struct step_run *run);
/* Ends the attempt, or the wait for the next one, by the report of its function, if that is there. True: the step has left
 * its phase. */
bool step_callback_consume(struct step_run *run);
/* The same before the step is stopped, because its execution ends. A failure is no failure of the step then, unless another
 * step has failed. False also where another claim goes on with the step. */
bool step_callback_consume_at_end(struct step_run *run);
/* When the timer of a step that waits on record is due: with STEP_CALLBACK_GRACE_US, unless this claim began after its time
 * and brought all reports. */
int64_t step_callback_due(const struct step_run *run);
/* The time for the report is over: the attempt has failed. */
void step_callback_time_out(struct step_run *run);

#endif
