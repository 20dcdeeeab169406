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

#include "engine/in_process/keeper_child.h"

#define SWEEP_PAUSE_MS 10

enum { SWEEPS_MOST = 1000, PIDFD = 3 };

static int64_t boot_now(void)
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

static bool is_no_leader(const void *context, pid_t pid)
{
    (void)context;
    (void)pid;
    return false;
}

/* A process that is forked during a look can be missed, so several looks in a row must find nothing. */
static void sweep(uint64_t mark)
{
    enum { QUIET_LOOKS = 3 };
    for (int i = 0, quiet = 0; i < SWEEPS_MOST && quiet < QUIET_LOOKS; i++) {
        quiet = keeper_child_kill_left(mark, is_no_leader, NULL) ? 0 : quiet + 1;
        (void)poll(NULL, 0, SWEEP_PAUSE_MS);
    }
}

int64_t keeper_watcher_time_left(const struct keeper_watched *watched, int64_t now_us)
{
    int64_t end_us = atomic_load(&watched->lease_end_us);
    if (end_us == TIME_NEVER || atomic_load(&watched->enforced_end_us) == end_us) {
        return KEEPER_WATCHER_LOOK_US;
    }
    int64_t left_us = time_add(end_us, KEEPER_WATCHER_LATE_US) - now_us;
    return left_us <= 0 ? 0 : left_us < KEEPER_WATCHER_LOOK_US ? left_us : KEEPER_WATCHER_LOOK_US;
}

_Noreturn static void watch(const struct keeper_watched *watched, uint64_t mark)
{
    bool doubts = false; /* after a pause of the whole machine the keeper is given a moment */
    for (;;) {
        int64_t left_us = keeper_watcher_time_left(watched, boot_now());
        if (left_us == 0 && doubts) {
            (void)syscall(SYS_pidfd_send_signal, PIDFD, SIGKILL, NULL, 0);
        }
        doubts = left_us == 0;
        struct pollfd keeper = {.fd = PIDFD, .events = POLLIN};
        int64_t wait_us = left_us > 0 ? left_us : KEEPER_WATCHER_LATE_US;
        int got = poll(&keeper, 1, (int)(wait_us / 1000) + 1);
        if (got > 0 || (got < 0 && errno != EINTR)) {
            sweep(mark);
            _exit(0);
        }
    }
}

pid_t keeper_watcher_start(const struct keeper_watched *watched, pid_t keeper_pid, uint64_t mark)
{
    pid_t pid = watched != NULL ? fork() : 0;
    if (watched == NULL || pid != 0) {
        return pid > 0 ? pid : 0;
    }
    (void)setsid();
    (void)prctl(PR_SET_NAME, "weir-watcher", 0, 0, 0);
    int keeper = (int)syscall(SYS_pidfd_open, keeper_pid, 0);
    if (keeper < 0 || getppid() != keeper_pid || (keeper != PIDFD && dup2(keeper, PIDFD) < 0)) {
        _exit(1);
    }
    (void)close_range(PIDFD + 1, ~0U, 0); /* the keeper's socket, too: the node shall see its end */
    watch(watched, mark);
}
