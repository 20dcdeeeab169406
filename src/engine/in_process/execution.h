/* One execution inside the node: its start, the graph of its steps, its end. execution_state.h has the data and the phases.
 *
 * Calls go down: execution.c begins and stops steps (step_run.h); step_run.c starts processes and handlers (step_exec.h,
 * step_handler.h). Only two functions are called from below: execution_settle(), after a step has changed, and
 * step_run_attempt(), after the keeper's death.
 *
 * Threads: execution_new() in the caller of engine_start(); everything else in the loop. Owner: the table of executions,
 * until execution_free().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EXECUTION_H
#define WEIR_ENGINE_IN_PROCESS_EXECUTION_H

#include "engine/in_process/execution_state.h"

/* Copies the parts of `start` that it needs and reads the definition. If the definition cannot be read, execution_admit()
 * refuses the execution. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status execution_new(struct runner *runner, const struct engine_start *start,
                                               struct execution **ret_execution, struct weir_error *error);
/* Reports STARTED and begins the first steps, or refuses and frees the execution. */
void execution_admit(struct execution *execution);
/* Begins the steps whose needs are done; reports the end after the last one. May free the execution. */
void execution_settle(struct execution *execution);
/* Stops the execution for this reason, unless it has a stronger ending. May free the execution. */
void execution_end(struct execution *execution, enum ending ending);
/* The store's answer to a report. May free the execution. */
void execution_recorded(struct execution *execution, const struct recorded *recorded);
/* Frees everything but does not touch the runner's table or counters. Takes NULL. */
void execution_free(struct execution *execution);

#endif
