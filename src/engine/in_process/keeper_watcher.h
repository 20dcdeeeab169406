/* The watcher: a process beside the keeper that acts when the keeper cannot.
 *
 *     node --- socket --- keeper ---> steps
 *                           | page shared in memory: the end of the lease, and up to which lease the keeper has killed
 *                         watcher
 *
 * The keeper kills the steps when the lease is over. A stopped keeper (SIGSTOP) cannot, and a stopped node cannot replace
 * it. So the watcher compares both numbers: a keeper that has not killed KEEPER_WATCHER_LATE_US after the end of the lease,
 * and has not after a second look either, is killed. The kernel then kills the leaders (PR_SET_PDEATHSIG).
 * At the keeper's death, from whatever cause, the watcher kills what carries its mark and ends: the node does the same, but
 * may be stopped or dead itself.
 *
 * It holds no descriptor of the node or of the keeper but a pidfd, allocates nothing, and is forked when the first step
 * starts. When node, keeper and watcher are all stopped, nothing is left that could act. */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_WATCHER_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_WATCHER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

#define KEEPER_WATCHER_LATE_US (100 * MICROSECONDS_PER_MS)
/* The longest time between two looks: a lease may become shorter while the watcher waits for its end. */
#define KEEPER_WATCHER_LOOK_US (1 * MICROSECONDS_PER_SECOND)

struct keeper_watched {
    _Atomic int64_t lease_end_us;    /* boot clock; TIME_NEVER: no lease */
    _Atomic int64_t enforced_end_us; /* the end of the lease at which the keeper has killed all steps */
};

/* Memory that a forked watcher shares with its keeper; NULL when there is none. */
struct keeper_watched *keeper_watcher_map(void);
/* How long the next look may wait; 0: the keeper has missed the end of the lease. */
int64_t keeper_watcher_time_left(const struct keeper_watched *watched, int64_t now_us);
/* Forks the watcher. Its process id, or 0: it could not be forked. */
pid_t keeper_watcher_start(const struct keeper_watched *watched, pid_t keeper_pid, uint64_t mark);

#endif
