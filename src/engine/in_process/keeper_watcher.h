/* The watcher: a process beside the keeper that acts when the keeper cannot.
 *
 *     node --- socket --- keeper ---> steps
 *                           | page shared in memory: the end of the lease, and up to which lease the keeper has killed
 *                         watcher
 *
 * The keeper kills the steps when the lease is over. A stopped keeper (SIGSTOP) cannot, and a stopped node cannot replace
 * it. So the watcher compares both numbers. It kills a keeper that has not enforced the end of the lease in time, at the
 * second poll that finds it late. The kernel then kills the leaders (PR_SET_PDEATHSIG). At the keeper's death, from any
 * cause, the watcher kills the processes with its mark and exits. The node does the same, but may be stopped or dead
 * itself.
 *
 * The watcher has no descriptor of the node or of the keeper but a pidfd, allocates nothing, and is forked when the first
 * step starts. When node, keeper and watcher are all stopped, nothing is left that could act.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_WATCHER_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_WATCHER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

/* A keeper is late when it has not enforced the end of the lease for so long. */
#define KEEPER_WATCHER_LATE_US (100 * MICROSECONDS_PER_MS)
/* The longest time between two polls: a lease may become shorter while the watcher waits for its end. */
#define KEEPER_WATCHER_POLL_US (1 * MICROSECONDS_PER_SECOND)

struct keeper_watched {
    _Atomic int64_t lease_end_us;    /* boot clock; TIME_NEVER: no lease */
    _Atomic int64_t enforced_end_us; /* the end of the lease at which the keeper has killed all steps */
};

/* The boot clock without locks, in microseconds. */
int64_t keeper_watcher_boot_now(void);
/* Memory that a forked watcher shares with its keeper; NULL when there is none. */
struct keeper_watched *keeper_watcher_map(void);
/* The time until the next poll; 0: the keeper is late. */
int64_t keeper_watcher_time_left(const struct keeper_watched *watched, int64_t now_us);
/* Forks the watcher. Returns its process id, or 0: it could not be forked. `watched` may be NULL. */
pid_t keeper_watcher_start(const struct keeper_watched *watched, pid_t keeper_pid, uint64_t mark);

#endif
