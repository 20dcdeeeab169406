/* Calls of handlers for tasks of other nodes: engine_call() of engine.h. They share the threads of the handler pool with
 * the steps of executions, and have neither an execution, a record nor a retry.
 *
 * Threads: task_call_start() and task_call_cancel() from any thread; the rest by the loop. Owner: the call is in the list
 * of the runner from its begin to its end.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_TASK_CALL_H
#define WEIR_ENGINE_IN_PROCESS_TASK_CALL_H

#include "engine/in_process/runner.h"

/* The operations of the engine. */
enum weir_status task_call_start(struct engine *engine, const struct engine_call *call, struct weir_error *error);
void task_call_cancel(struct engine *engine, void *owner, bool moves);

/* COMMAND_CALL: gives the call to the pool. */
void task_call_begin(struct command *command);
/* COMMAND_CALL that was not executed: ends the call without a result. */
void task_call_drop(struct command *command);
/* COMMAND_CANCEL_CALL. Does not free the command. */
void task_call_execute_cancel(struct runner *runner, const struct command *command);
/* Asks all handlers of tasks to end: their results are for another node to make. */
void task_call_cancel_all(struct runner *runner);
/* The pool has handed the call back: reports its end and frees it. */
void task_call_finish(struct weir_call *call);

#endif
