/* The children of the keeper between fork and exec: they become a step or an evaluator.
 *
 * The process of a step has:
 *   - exactly the argv, environment and directory of its command file
 *   - the file descriptors 0, 1, 2 and no other
 *   - a session and process group of its own
 *   - default signals, none blocked
 *   - no core dumps, and no new privileges (setuid programs run without)
 *   - a guard that protects its node and keeper (keeper_guard.h)
 *   - KILL when the keeper dies
 *   - two marks (keeper_mark.h)
 *
 * Only async-signal-safe calls, except in the evaluator, which allocates.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_CHILD_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "engine/in_process/keeper_guard.h"

/* fds: command, stdin, stdout, stderr. guarded NULL: without a guard. Sends KEEPER_EXEC_FAILED over `socket` when it cannot
 * become the step. */
_Noreturn void keeper_child_run_step(pid_t keeper_pid, const struct keeper_guarded *guarded, uint64_t mark, int socket,
                                     uint64_t ticket, const int *fds);
/* fds: requests, answers. */
_Noreturn void keeper_child_run_evaluator(pid_t keeper_pid, const int *fds);

#endif
