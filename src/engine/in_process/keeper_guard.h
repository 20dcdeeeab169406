/* The guard of a step: its processes cannot signal their node, its keeper or the keeper's watcher.
 *
 * All processes of the step inherit a filter of system calls. It refuses with EPERM each call that names one of these
 * processes, their process groups, or every process (-1). Such calls are kill and its like, opening a pidfd, ptrace,
 * writing their memory, changing their limits. Other processes of the same user can be signalled.
 *
 * It does not stop three things (SECURITY.md):
 *   - signals to a thread of the node by the thread's own id
 *   - programs of another architecture's table (32 bit)
 *   - other means than calls on a process: the memory of the machine, files
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_GUARD_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

/* Process ids; watcher 0 = there is none. */
struct keeper_guarded {
    pid_t node;
    pid_t keeper;
    pid_t watcher;
};

/* For the calling process, which must have no_new_privs, and all processes that it starts. False, without an effect, where
 * the kernel or the architecture has no filters. Async-signal-safe. */
bool keeper_guard_install(const struct keeper_guarded *guarded);

#endif
