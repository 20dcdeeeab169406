/* The life of one step of one execution: begun, evaluated, recorded, run (step_exec.h, step_handler.h), retried, reported.
 * execution_state.h has the phases.
 *
 * After each call here the caller settles the execution (execution_settle()). Callbacks of processes, calls, timers and
 * evaluators do it themselves.
 *
 * Threads: the loop's. Owner: the execution.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_RUN_H
#define WEIR_ENGINE_IN_PROCESS_STEP_RUN_H

#include "engine/in_process/execution_state.h"

/* From the step's `record` of an earlier claim, before the execution begins. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status step_run_restore(struct step_run *run, const struct step_record *record);
/* IDLE, and all needs are done: begins its first attempt, or goes on with its sleep. */
void step_run_begin(struct step_run *run);
/* Begins the next attempt at once. */
void step_run_attempt(struct step_run *run);
/* The execution ends: stops the step for the reason execution->ending. */
void step_run_stop(struct step_run *run);
/* The store's answer to the last report of the step. */
void step_run_recorded(struct step_run *run, enum weir_status status);
/* Frees its parts. No process and no call of it may be running, except at the close of the engine. */
void step_run_close(struct step_run *run);

#endif
