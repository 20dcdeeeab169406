/* The life of one step of one execution: begun, evaluated, recorded, run (step_exec.h, step_handler.h), retried, reported.
 * See execution.h for the phases.
 *
 * What happened is told to the store with a report, and the phase then waits for step_run_recorded(). After each call here
 * the caller settles the execution (execution_settle()); callbacks from processes, calls, timers and evaluators do it
 * themselves.
 *
 * Threads: the loop's. Owner: the execution.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_RUN_H
#define WEIR_ENGINE_IN_PROCESS_STEP_RUN_H

#include "engine/in_process/execution.h"

/* A step that could not be started for want of file descriptors, memory or processes waits so long, then twice that, up to
 * the most. */
#define STEP_SHORTAGE_FIRST_US (1 * MICROSECONDS_PER_SECOND)
#define STEP_SHORTAGE_MOST_US (30 * MICROSECONDS_PER_SECOND)

/* From `state` on record (handover), before the execution begins. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status step_run_restore(struct step_run *run, const struct step_record *record);
/* IDLE, and all needs are done: the first thing to do. Goes as far as it can without waiting. */
void step_run_begin(struct step_run *run);
/* The execution ends: stops what runs, forgets what waits, for the reason execution->ending. */
void step_run_stop(struct step_run *run);
void step_run_recorded(struct step_run *run, enum weir_status status);
/* Frees what hangs on it; nothing of it may be running. */
void step_run_close(struct step_run *run);

#endif
