/* Steps that call a handler, a C function of the host's program, and the calls that http steps have in common with them.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_HANDLER_H
#define WEIR_ENGINE_IN_PROCESS_STEP_HANDLER_H

#include "engine/in_process/execution_state.h"
#include "engine/in_process/handler_pool.h"

/* A call for the next attempt, with the secrets of the step; its handler, lane and input are the caller's. Statuses of
 * step_secrets_read(). */
WEIR_MUST_CHECK enum weir_status step_call_new(struct step_run *run, struct weir_call **ret_call, struct weir_error *error);
/* Its input is prepared: gives the call to the handler pool. */
void step_handler_start(struct step_run *run);
/* The pool has handed back a call: takes the result, frees the call, settles the execution. */
void step_handler_finish(struct weir_call *call);

#endif
