/* The watcher's process.
 *
 *   1. It waits for the keeper's death with a pidfd, and at most until the keeper would be late.
 *   2. Late means: the lease is over for KEEPER_WATCHER_LATE_US, and the keeper has not written into the shared page that
 *      it has killed the steps of this lease.
 *   3. At the first late poll the watcher waits once more. A machine that was paused makes all processes late at once.
 *   4. At the second one it kills the keeper through the pidfd, which never names another process.
 *   5. After the keeper's death it kills the processes with the keeper's mark, until several sweeps in a row find none.
 *
 * It must not have the keeper's socket, and must not outlive the sweep. The keeper forks it again if it dies.
 */
#include "engine/in_process/keeper_watcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bare_fork.h"
#include "base/error.h"
#include "engine/in_process/keeper_search.h"

#define SWEEP_PAUSE_MS 10

enum { SWEEPS_MOST = 1000, PIDFD = 3 };

int64_t keeper_watcher_boot_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * MICROSECONDS_PER_SECOND + now.tv_nsec / 1000;
}

struct keeper_watched *keeper_watcher_map(void)
{
    struct keeper_watched *watched = mmap(NULL, sizeof *watched, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watched == MAP_FAILED) {
        return NULL;
    }
    atomic_store(&watched->lease_end_us, TIME_NEVER);
    atomic_store(&watched->enforced_end_us, 0);
    return watched;
}

/* The watcher has no table of leaders: it finds processes by their mark alone. */
static bool is_no_leader(const void *context, pid_t pid)
{
    (void)context;
    (void)pid;
    return false;
}

/* A scan can miss a process that is forked meanwhile, so several sweeps in a row must find nothing. */
static void sweep_marked(uint64_t mark)
{
    enum { QUIET_SWEEPS = 3 };
    for (int i = 0, quiet = 0; i < SWEEPS_MOST && quiet < QUIET_SWEEPS; i++) {
        quiet = keeper_search_kill_left(mark, is_no_leader, NULL) ? 0 : quiet + 1;
        (void)poll(NULL, 0, SWEEP_PAUSE_MS);
    }
}

int64_t keeper_watcher_time_left(const struct keeper_watched *watched, int64_t now_us)
{
    INVARIANT(watched != NULL);
    int64_t end_us = atomic_load(&watched->lease_end_us);
    if (end_us == TIME_NEVER || atomic_load(&watched->enforced_end_us) == end_us) {
        return KEEPER_WATCHER_POLL_US;
    }
    int64_t left_us = time_add(end_us, KEEPER_WATCHER_LATE_US) - now_us;
    return left_us <= 0 ? 0 : left_us < KEEPER_WATCHER_POLL_US ? left_us : KEEPER_WATCHER_POLL_US;
}

/* The loop of the watcher, until the keeper is dead. */
_Noreturn static void watch_keeper(const struct keeper_watched *watched, uint64_t mark)
{
    bool was_late = false; /* a second poll, because a pause of the whole machine makes the keeper late too */
    for (;;) {
        int64_t left_us = keeper_watcher_time_left(watched, keeper_watcher_boot_now());
        if (left_us == 0 && was_late) {
            (void)syscall(SYS_pidfd_send_signal, PIDFD, SIGKILL, NULL, 0);
        }
        was_late = left_us == 0;
        struct pollfd keeper = {.fd = PIDFD, .events = POLLIN};
        int64_t wait_us = left_us > 0 ? left_us : KEEPER_WATCHER_LATE_US;
        int got = poll(&keeper, 1, (int)(wait_us / 1000) + 1);
        if (got > 0 || (got < 0 && errno != EINTR)) {
            sweep_marked(mark);
            _exit(0);
        }
    }
}

pid_t keeper_watcher_start(const struct keeper_watched *watched, pid_t keeper_pid, uint64_t mark)
{
    INVARIANT(keeper_pid > 0);
    pid_t pid = watched != NULL ? bare_fork() : 0;
    if (watched == NULL || pid != 0) {
        return pid > 0 ? pid : 0;
    }
    (void)setsid();
    (void)prctl(PR_SET_NAME, "weir-watcher", 0, 0, 0);
    int keeper = (int)syscall(SYS_pidfd_open, keeper_pid, 0);
    if (keeper < 0 || getppid() != keeper_pid || (keeper != PIDFD && dup2(keeper, PIDFD) < 0)) {
        _exit(1);
    }
    (void)close_range(PIDFD + 1, ~0U,
                      0); /* also the keeper's socket: an open copy would hide the keeper's death from the node */
    watch_keeper(watched, mark);
}
