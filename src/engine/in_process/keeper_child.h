/* What the keeper's children do between fork and exec, and what the keeper can learn about its children from /proc.
 *
 * A step's process gets: exactly the argv, environment and directory of its command file; file descriptors 0, 1, 2 and no
 * other; a session and process group of its own; default signals, none blocked; no core dumps; no new privileges (setuid
 * programs run without) and a guard before its node and keeper (keeper_guard.h); KILL when the keeper dies. Two marks name
 * the step of a process that has left its session:
 *
 *     brand        the limit RLIMIT_LOCKS, which Linux does not enforce: <part of the mark> <part of the ticket>. Every
 *                  process inherits it, and /proc shows it even of a process that hides its environment (ssh-agent).
 *     environment  WEIR_RUN=<mark>.<ticket>, for where the limit could not be set
 *
 * Only async-signal-safe calls, but for the evaluator, which allocates.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_CHILD_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "engine/in_process/keeper_guard.h"

/* fds: command, stdin, stdout, stderr. guarded NULL: without a guard. Sends KEEPER_EXEC_FAILED over `socket` when it cannot
 * become the step. */
_Noreturn void keeper_child_run_step(pid_t keeper_pid, const struct keeper_guarded *guarded, uint64_t mark, int socket,
                                     uint64_t ticket, const int *fds);
/* fds: requests, answers. */
_Noreturn void keeper_child_run_evaluator(pid_t keeper_pid, const int *fds);

/* Fills `to` with the ids of the keeper's children, separated by spaces; returns the bytes used. A list that does not fit
 * is cut: the rest shows up when these are gone. */
size_t keeper_child_list(pid_t keeper_pid, char *to, size_t size);

/* The part of a ticket that a brand holds. No two steps that run at the same time have it in common. */
#define KEEPER_TICKET_MASK ((UINT64_C(1) << 28) - 1)

struct keeper_owner {
    bool is_zombie;
    pid_t group;
    pid_t session;
    int64_t started_us; /* boot clock, rounded down to KEEPER_TICK_US at most */
    bool has_ticket;
    uint64_t ticket; /* masked */
};
#define KEEPER_TICK_US (20 * MICROSECONDS_PER_MS)
/* Where a child of the keeper comes from; false when it is gone or unreadable. */
bool keeper_child_owner(pid_t pid, uint64_t mark, struct keeper_owner *ret_owner);

/* Kills what a dead keeper's steps have left: what carries its mark, and what is in a group or session that `is_leader`
 * knows. True when something was found that had not ended yet: call again until nothing is. For the
 * node's loop and for the watcher. */
bool keeper_child_kill_left(uint64_t mark, bool (*is_leader)(const void *context, pid_t pid), const void *context);

#endif
