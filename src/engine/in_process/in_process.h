/* The embedded engine: runs the steps of executions inside the node.
 *
 * One thread, the loop, drives everything that waits: the keeper's pipes, timers, the graph of each execution. Handlers run
 * in a small pool of threads; `exec` steps are children of the keeper. A sleeping step is a row with a due time, not a
 * thread. Without engine_run_threads() the same loop runs in the caller's engine_step(), handlers included.
 *
 * The engine starts an execution once. Two runs of a step never overlap. A finished step never runs again. A step that ran
 * when its node died runs again with a higher attempt number. For this an `exec` attempt is on record (STEP_RUNNING,
 * durable) before its process starts. A `handler` attempt is not, which saves a commit, until something interrupts the
 * execution: its attempt number grows by the number of interruptions instead, so no number is used twice. A park keeps the
 * interruptions that count for a step whose record is older than the claim that parks (docs/design/waiting.md). From then
 * on attempts of handlers are on record too (a park interrupts none): the store must find one that ended its node as
 * running (queue/suspicion.h).
 */
#ifndef WEIR_ENGINE_IN_PROCESS_H
#define WEIR_ENGINE_IN_PROCESS_H

#include "engine/engine.h"
#include "engine/in_process/in_process_options.h"

/* Forks the keeper, a small process with one thread. Call it while the process has one thread, or at least before the
 * node's threads. The child uses async-signal-safe calls only. Errors: WEIR_SYSTEM (fork, pipe), WEIR_INVALID_ARGUMENT
 * (duplicate handler name, allowed program with a relative path). */
WEIR_MUST_CHECK enum weir_status in_process_open(const struct in_process_options *options, struct engine **ret_engine,
                                                 struct weir_error *error);

#endif
