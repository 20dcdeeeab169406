/* The orders of other threads to the loop of the engine: start, cancel, signal, abandon, recorded.
 *
 * Each function that sends may be called from any thread. If memory for a command is missing, the engine reports lost
 * orders (engine_note_lost_report()), and the node gives up all its claims.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_RUNNER_COMMANDS_H
#define WEIR_ENGINE_IN_PROCESS_RUNNER_COMMANDS_H

#include "engine/in_process/runner.h"

/* --- any thread --- */

/* CANCEL or ABANDON of the execution with this id. */
void runner_send_named(struct runner *runner, enum command_kind kind, const char *id, int64_t fence);
/* Copies the signal. */
void runner_send_signal(struct runner *runner, const char *id, int64_t fence, const struct signal_record *signal);
/* All executions that were started before this call. */
void runner_send_abandon_all(struct runner *runner);
/* Copies the entries. Lowers `admitted` for durable ends before it returns. */
void runner_send_recorded(struct runner *runner, const struct recorded *recorded, size_t count);

/* --- the loop --- */

/* Executes all commands that are queued. */
void runner_execute_commands(struct runner *runner);
/* Gives each execution this ending, unless it has a stronger one. Frees those without running processes. */
void runner_end_all(struct runner *runner, enum ending ending);
/* Ends everything without a report. */
void runner_abandon_everything(struct runner *runner);
/* Frees the commands that the loop has not executed. At close. */
void runner_free_commands(struct runner *runner);

#endif
