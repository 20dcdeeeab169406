/* The outcome of an execution: its first failure, and the report of its end.
 *
 * Threads: the loop's; execution_set_error() also in execution_new().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_EXECUTION_OUTCOME_H
#define WEIR_ENGINE_IN_PROCESS_EXECUTION_OUTCOME_H

#include "engine/in_process/execution_state.h"

/* Keeps the first failure and ignores the rest. `error` may be NULL. */
void execution_set_error(struct execution *execution, const char *code, const char *error);
/* No failure is known any more. */
void execution_clear_error(struct execution *execution);
/* The failure is that the execution took longer than its timeout; it replaces another one. */
void execution_set_timeout_error(struct execution *execution);
/* Marks the end as reported, and writes end state and failure into the report. `report` may be NULL: no memory for one. */
void execution_fill_end(struct execution *execution, struct report *report);
/* Reports the end, or the give-back of an unfinished execution because the node stops. */
void execution_report_end(struct execution *execution);

#endif
