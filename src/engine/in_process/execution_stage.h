/* The stages of an execution: the steps of `steps`, then after a failure the undos and the steps of `on_failure`, then
 * those of `finally`. A definition with `steps` alone stays in the first stage.
 *
 *     STAGE_STEPS --failed, or timed out--> STAGE_UNDO --> STAGE_ON_FAILURE --> STAGE_FINALLY --> STAGE_OVER
 *          +------------- all completed ----------------------------------------------^
 *
 * A cancel, and the loss of the claim, end an execution in any stage. The stage is on no record: it follows from the steps
 * on record, so the next node finds it again.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EXECUTION_STAGE_H
#define WEIR_ENGINE_IN_PROCESS_EXECUTION_STAGE_H

#include "engine/in_process/execution_state.h"

/* True when more than `steps` may run. */
bool execution_has_stages(const struct execution *execution);
/* STAGE_UNDO: index of the undo that comes next; -1 = none, or one runs. */
int execution_next_undo(const struct execution *execution);
/* True when the present stage, which is not STAGE_UNDO, lets the idle step begin, and the steps that it needs allow it. */
bool execution_stage_allows(const struct execution *execution, size_t index);
/* No step is in flight: goes to the next stage if the present one is over. True when steps may begin in it. */
bool execution_stage_advance(struct execution *execution);
/* The stage that goes on, or begins, when no step is in flight and all of the steps of STAGE_STEPS have ended or failed. */
enum execution_stage execution_following_stage(const struct execution *execution);
/* True when nothing of the execution is left to run. No step may be in flight. */
bool execution_is_complete(const struct execution *execution);
/* True when the end of the last step in flight completes the execution, as far as an end without failure does. */
bool execution_completes_with(const struct execution *execution);
/* True when the step does not count for the end that the execution has: it belongs to a later stage, which is to come. */
bool execution_spares_step(const struct execution *execution, size_t index);
/* Whether the failure of the step is a failure of its execution; its state need not be set. */
bool execution_fails_by(const struct execution *execution, size_t index);
/* Decides from the steps on record whether the execution has failed or was stopped: sets `ending` and the error. */
void execution_restore_ending(struct execution *execution);

#endif
