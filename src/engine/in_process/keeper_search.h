/* The search for processes of steps in /proc: the children of the keeper, and the processes that a dead keeper has left.
 *
 * Any thread. Only async-signal-safe calls.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_SEARCH_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

/* Fills `to` with the ids of the keeper's children, separated by spaces; returns the bytes used. It cuts a list that does
 * not fit: the next call lists the rest, after these children are gone. */
size_t keeper_search_list_children(pid_t keeper_pid, char *to, size_t size);

struct keeper_owner {
    bool is_zombie;
    pid_t group;
    pid_t session;
    int64_t started_us; /* boot clock, rounded down to KEEPER_TICK_US at most */
    bool has_ticket;
    uint64_t ticket; /* masked */
};
#define KEEPER_TICK_US (20 * MICROSECONDS_PER_MS)
/* The origin of a child of the keeper. False when the child is gone or unreadable. */
bool keeper_search_read_owner(pid_t pid, uint64_t mark, struct keeper_owner *ret_owner);

/* Kills the processes that a dead keeper has left: those with its mark, and those in a group or session of a leader that
 * `is_leader` recognises. True when one of them had not ended yet: call again until it returns false. For the node's loop
 * and for the watcher. */
bool keeper_search_kill_left(uint64_t mark, bool (*is_leader)(const void *context, pid_t pid), const void *context);

#endif
