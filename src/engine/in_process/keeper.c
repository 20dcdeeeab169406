/* The process that starts, watches and kills the processes of exec steps.
 *
 * The life of a step in the keeper:
 *
 *   1. KEEPER_START arrives with four file descriptors. After the end of the lease the keeper refuses. Else it forks the
 *      child and reports STARTED; the child becomes the step, or reports EXEC_FAILED itself (keeper_child.c).
 *   2. KEEPER_KILL: SIGTERM to the process group, SIGKILL when the grace is over. The keeper's own clock measures the
 *      grace, so a slow node delays no kill.
 *   3. The leader ends. The keeper kills its group before it reaps the leader: until then the group's id is not reused.
 *   4. It sweeps its children. As a subreaper it is the parent of every orphan. It kills each child without a running step,
 *      and repeats until a sweep finds none, because a killed process may have had children of its own.
 *   5. It reports ENDED. So the node knows at that moment that no process of the step is left.
 *
 * Deaths and stops:
 *
 *     the node dies         its socket ends: the keeper kills everything, sweeps until it has no child, and exits
 *     the node is stopped   no renewal arrives: at the end of the lease the keeper kills all steps
 *     the keeper dies       the kernel kills the leaders; the node and the watcher kill the rest (keeper_monitor.c)
 *     the keeper is stopped it does not answer renewals: the node kills it. If the node is stopped too, the watcher does
 *     the node is slow      reports wait in their slots until the socket has space; kills and leases do not wait
 *
 * Kill order: leader and group first, then everything that a sweep finds, evaluators only with the node. The keeper must
 * never allocate, take a lock or wait for the node, and must never signal a process id that it has reaped.
 */
#include "engine/in_process/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bare_fork.h"
#include "base/error.h"
#include "engine/in_process/keeper_child.h"
#include "engine/in_process/keeper_protocol.h"
#include "engine/in_process/keeper_search.h"
#include "engine/in_process/keeper_slots.h"
#include "engine/in_process/keeper_watcher.h"

/* Between two sweeps, when the last one found a process and no SIGCHLD arrives. */
#define SWEEP_INTERVAL_US (50 * MICROSECONDS_PER_MS)

/* The least time between two forks of a watcher. */
#define WATCHER_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)

/* Sweeps in a row before the keeper polls its socket again. */
enum { SWEEP_ROUNDS = 4, CHILDREN_TEXT_BYTES = 64 * 1024 };

/* One per process, because the keeper is a process of its own. Static, because the keeper must not allocate after fork. */
static struct {
    int socket;
    int signals;
    int timer;
    pid_t pid;
    pid_t node;
    uint64_t mark;
    bool node_is_gone;
    int64_t lease_end_us;
    struct keeper_watched *watched; /* NULL: no shared memory, and so no watcher */
    pid_t watcher;                  /* 0: there is none */
    bool wants_watcher;             /* a step was started */
    int64_t watcher_since_us;
    bool sweep_again;
    size_t unsent; /* reports that wait because the socket is full */
    struct keeper_slots slots;
    char children[CHILDREN_TEXT_BYTES];
} keeper;

/* --- reports --- */

/* False when the socket is full, because the node is slow or stopped. The report then stays in its slot. */
static bool send_report(const struct keeper_report *report)
{
    for (;;) {
        ssize_t sent = send(keeper.socket, report, sizeof *report, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            return true;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
            return false;
        }
        keeper.node_is_gone = true;
        return true;
    }
}

/* Sends the reports that the slot owes, in their order. Releases the slot after the last one. */
static void send_slot_reports(struct keeper_slot *slot)
{
    if (slot->started_unsent) {
        struct keeper_report report = {.kind = KEEPER_STARTED, .ticket = slot->ticket, .pid = slot->pid};
        if (!send_report(&report)) {
            keeper.unsent++;
            return;
        }
        slot->started_unsent = false;
    }
    if (slot->state == SLOT_ENDED || slot->state == SLOT_REFUSED) {
        struct keeper_report report = {.kind = slot->state == SLOT_ENDED ? KEEPER_ENDED : KEEPER_REFUSED,
                                       .ticket = slot->ticket,
                                       .pid = slot->pid,
                                       .value = slot->status,
                                       .lease_lost = slot->lease_lost,
                                       .cpu_us = slot->cpu_us,
                                       .memory_kib = slot->memory_kib};
        if (!send_report(&report)) {
            keeper.unsent++;
            return;
        }
        keeper_slots_release(&keeper.slots, slot);
    }
}

static void send_unsent_reports(void)
{
    keeper.unsent = 0;
    for (size_t i = 0; i < keeper.slots.used_below && keeper.unsent == 0; i++) {
        if (keeper.slots.all[i].state != SLOT_FREE) {
            send_slot_reports(&keeper.slots.all[i]);
        }
    }
}

/* --- starting --- */

/* Reports a start that failed. */
static void refuse_request(const struct keeper_request *request, int native, bool lease_lost)
{
    struct keeper_slot *slot = keeper_slots_take(&keeper.slots);
    if (slot != NULL) { /* the node has as many slots as the keeper */
        slot->state = SLOT_REFUSED;
        slot->ticket = request->ticket;
        slot->status = native;
        slot->lease_lost = lease_lost;
        send_slot_reports(slot);
    }
}

/* --- the watcher --- */

static void set_lease_end(int64_t lease_end_us)
{
    keeper.lease_end_us = lease_end_us;
    if (keeper.watched != NULL) {
        atomic_store(&keeper.watched->lease_end_us, lease_end_us);
    }
}

/* Runs a watcher from the first step until the node is gone. After that the keeper kills everything at once. */
static void maintain_watcher(void)
{
    if (keeper.node_is_gone && keeper.watcher > 0) {
        (void)kill(keeper.watcher, SIGKILL);
    }
    int64_t now_us = keeper_watcher_boot_now();
    if (keeper.wants_watcher && keeper.watcher == 0 && !keeper.node_is_gone &&
        now_us - keeper.watcher_since_us >= WATCHER_INTERVAL_US) {
        keeper.watcher = keeper_watcher_start(keeper.watched, keeper.pid, keeper.mark);
        keeper.watcher_since_us = now_us;
    }
}

/* Forks the child of a step or of an evaluator. After the end of the lease no step starts. */
static void start_child(const struct keeper_request *request, const int *fds)
{
    bool is_evaluator = request->kind == KEEPER_START_EVALUATOR;
    if (!is_evaluator && keeper_watcher_boot_now() >= keeper.lease_end_us) {
        refuse_request(request, ECANCELED, true);
        return;
    }
    struct keeper_slot *slot = keeper_slots_take(&keeper.slots);
    if (slot == NULL) {
        refuse_request(request, EAGAIN, false);
        return;
    }
    keeper.wants_watcher = keeper.wants_watcher || !is_evaluator;
    maintain_watcher(); /* before the step: its guard names the watcher */
    int64_t started_us = keeper_watcher_boot_now();
    pid_t pid = bare_fork();
    if (pid == 0) {
        if (is_evaluator) {
            keeper_child_run_evaluator(keeper.pid, fds);
        }
        struct keeper_guarded guarded = {.node = keeper.node, .keeper = keeper.pid, .watcher = keeper.watcher};
        keeper_child_run_step(keeper.pid, request->value == KEEPER_UNGUARDED ? NULL : &guarded, keeper.mark, keeper.socket,
                              request->ticket, fds);
    }
    if (pid < 0) {
        keeper_slots_release(&keeper.slots, slot);
        refuse_request(request, errno, false);
        return;
    }
    slot->state = SLOT_RUNNING;
    slot->is_evaluator = is_evaluator;
    slot->ticket = request->ticket;
    slot->started_us = started_us;
    slot->started_unsent = true;
    keeper_slots_register_leader(&keeper.slots, slot, pid);
    send_slot_reports(slot);
}

/* --- stopping --- */

static void signal_step(const struct keeper_slot *slot, int signal_number)
{
    if (slot->state == SLOT_RUNNING) {
        /* The leader is not reaped, so its id cannot belong to another process. Before its setsid() it has no group. */
        if (kill(-slot->pid, signal_number) != 0) {
            (void)kill(slot->pid, signal_number);
        }
    }
}

/* TERM now and KILL after the grace, or KILL now. */
static void stop_child(struct keeper_slot *slot, int64_t grace_us)
{
    if (slot->state != SLOT_RUNNING) {
        return;
    }
    if (grace_us <= 0) {
        signal_step(slot, SIGKILL);
        return;
    }
    signal_step(slot, SIGTERM);
    /* A stopped process receives its TERM only after SIGCONT. */
    signal_step(slot, SIGCONT);
    int64_t kill_at_us = time_add(keeper_watcher_boot_now(), grace_us);
    if (kill_at_us < slot->kill_at_us) {
        slot->kill_at_us = kill_at_us;
    }
}

/* Kills the leaders of all steps. Their ends start the sweeps. */
static void kill_all(bool lease_lost, bool evaluators_too)
{
    for (size_t i = 0; i < keeper.slots.used_below; i++) {
        struct keeper_slot *slot = &keeper.slots.all[i];
        if (slot->state == SLOT_RUNNING && (evaluators_too || !slot->is_evaluator)) {
            slot->lease_lost = slot->lease_lost || lease_lost;
            signal_step(slot, SIGKILL);
        }
    }
}

/* --- sweeping --- */

/* A process without a mark may come from any step that began before it. */
static bool may_belong_to_running_step(const struct keeper_owner *owner)
{
    for (size_t i = 0; i < keeper.slots.used_below; i++) {
        const struct keeper_slot *slot = &keeper.slots.all[i];
        if (slot->state == SLOT_RUNNING && !slot->is_evaluator && slot->started_us <= owner->started_us + KEEPER_TICK_US) {
            return true;
        }
    }
    return false;
}

/* Session, group, brand, mark: each of them names the step. */
static bool belongs_to_running_step(const struct keeper_owner *owner)
{
    const struct keeper_slot *slot = keeper_slots_find_leader(&keeper.slots, owner->session);
    slot = slot != NULL ? slot : keeper_slots_find_leader(&keeper.slots, owner->group);
    slot = slot == NULL && owner->has_ticket ? keeper_slots_find_ticket(&keeper.slots, owner->ticket) : slot;
    if (slot == NULL && !owner->has_ticket) {
        return may_belong_to_running_step(owner);
    }
    return slot != NULL && slot->state == SLOT_RUNNING;
}

/* Kills every child of the keeper that belongs to no running step. True when it found one, or one that it cannot read. */
static bool sweep_children(void)
{
    size_t length = keeper_search_list_children(keeper.pid, keeper.children, sizeof keeper.children);
    bool found = false;
    const char *at = keeper.children;
    const char *end = keeper.children + length;
    while (at < end) {
        pid_t pid = 0;
        while (at < end && *at >= '0' && *at <= '9') {
            pid = pid * 10 + (*at++ - '0');
        }
        at++;
        struct keeper_owner owner;
        if (pid <= 0 || pid == keeper.watcher || keeper_slots_find_leader(&keeper.slots, pid) != NULL) {
            continue;
        }
        if (!keeper_search_read_owner(pid, keeper.mark, &owner)) {
            found = true; /* no file descriptor is left: the next sweep may read it */
        } else if (owner.is_zombie) {
            (void)waitpid(pid, NULL, WNOHANG);
            found = true; /* its children may have become the keeper's after the list was made */
        } else if (!belongs_to_running_step(&owner)) {
            (void)kill(pid, SIGKILL);
            found = true;
        }
    }
    return found;
}

/* Sweeps until a round finds nothing, then reports the ends. Gives up after some rounds, and the timer repeats it. */
static void sweep_all(void)
{
    bool is_needed = keeper.node_is_gone;
    for (size_t i = 0; i < keeper.slots.used_below && !is_needed; i++) {
        is_needed = keeper.slots.all[i].state == SLOT_SWEEPING;
    }
    keeper.sweep_again = false;
    if (!is_needed) {
        return;
    }
    for (int round = 0; sweep_children(); round++) {
        if (round == SWEEP_ROUNDS) {
            keeper.sweep_again = true;
            return;
        }
    }
    for (size_t i = 0; i < keeper.slots.used_below; i++) {
        struct keeper_slot *slot = &keeper.slots.all[i];
        if (slot->state == SLOT_SWEEPING) {
            slot->state = SLOT_ENDED;
            send_slot_reports(slot);
        }
    }
}

/* A leader has ended: from here on its slot waits for the sweep. */
static void reap_leader(struct keeper_slot *slot, pid_t pid)
{
    INVARIANT(slot->state == SLOT_RUNNING && slot->pid == pid);
    /* The group first: until the leader is reaped, no other group can have this id. */
    (void)kill(-pid, SIGKILL);
    struct rusage usage;
    if (wait4(pid, &slot->status, WNOHANG, &usage) != pid) {
        return;
    }
    slot->cpu_us = ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * MICROSECONDS_PER_SECOND +
                   usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    slot->memory_kib = usage.ru_maxrss;
    keeper_slots_unregister_leader(&keeper.slots, slot);
    slot->state = SLOT_SWEEPING;
    slot->kill_at_us = TIME_NEVER;
}

static void reap_children(void)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
            return;
        }
        struct keeper_slot *slot = keeper_slots_find_leader(&keeper.slots, info.si_pid);
        if (slot != NULL) {
            reap_leader(slot, info.si_pid);
        } else {
            (void)waitpid(info.si_pid, NULL, WNOHANG);
            keeper.watcher = info.si_pid == keeper.watcher ? 0 : keeper.watcher;
        }
    }
}

/* --- the loop --- */

static void answer_renewal(void)
{
    struct keeper_report report = {.kind = KEEPER_ALIVE};
    (void)send_report(&report);
}

/* Receives one request and executes it. The end of the socket is the end of the node. */
static void receive_request(void)
{
    struct keeper_request request;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * KEEPER_FDS_MAX)];
    } control;
    struct iovec part = {.iov_base = &request, .iov_len = sizeof request};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t received = recvmsg(keeper.socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0) {
        keeper.node_is_gone = errno != EAGAIN && errno != EINTR && errno != EWOULDBLOCK;
        return;
    }
    if (received == 0) {
        keeper.node_is_gone = true;
        return;
    }
    int fds[KEEPER_FDS_MAX] = {-1, -1, -1, -1};
    size_t fd_count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), fd_count * sizeof(int));
        }
    }
    if ((size_t)received == sizeof request) {
        struct keeper_slot *slot;
        switch (request.kind) {
        case KEEPER_START:
        case KEEPER_START_EVALUATOR:
            if (fd_count == request.fd_count && fd_count == (request.kind == KEEPER_START ? 4 : 2)) {
                start_child(&request, fds);
            } else {
                refuse_request(&request, EMFILE, false); /* no file descriptor was left: the kernel dropped them */
            }
            break;
        case KEEPER_KILL:
            slot = keeper_slots_find_ticket(&keeper.slots, request.ticket);
            if (slot != NULL) {
                stop_child(slot, request.value);
            }
            break;
        case KEEPER_LEASE:
            set_lease_end(request.value);
            answer_renewal();
            break;
        default:
            break;
        }
    }
    for (size_t i = 0; i < fd_count; i++) {
        (void)close(fds[i]);
    }
}

/* Kills the steps whose grace is over, and all steps after the lease. Returns the time of the next kill. */
static int64_t kill_due(void)
{
    int64_t now_us = keeper_watcher_boot_now();
    int64_t next_us = TIME_NEVER;
    bool lease_is_over = now_us >= keeper.lease_end_us;
    for (size_t i = 0; i < keeper.slots.used_below; i++) {
        struct keeper_slot *slot = &keeper.slots.all[i];
        if (slot->state != SLOT_RUNNING) {
            continue;
        }
        if (now_us >= slot->kill_at_us) {
            signal_step(slot, SIGKILL);
            slot->kill_at_us = TIME_NEVER;
        }
        if (!slot->is_evaluator) {
            int64_t due_us = keeper.lease_end_us < slot->kill_at_us ? keeper.lease_end_us : slot->kill_at_us;
            next_us = !lease_is_over && due_us < next_us ? due_us : next_us;
        }
        next_us = slot->kill_at_us < next_us ? slot->kill_at_us : next_us;
    }
    if (lease_is_over || keeper.node_is_gone) {
        kill_all(lease_is_over, keeper.node_is_gone);
    }
    if (lease_is_over && keeper.watched != NULL) {
        atomic_store(&keeper.watched->enforced_end_us, keeper.lease_end_us);
    }
    return next_us;
}

static void arm_timer(int64_t next_us)
{
    /* Without its node the keeper exits after its last child. It polls for that, because no message announces it. */
    if (keeper.sweep_again || keeper.node_is_gone) {
        int64_t again_us = keeper_watcher_boot_now() + SWEEP_INTERVAL_US;
        next_us = again_us < next_us ? again_us : next_us;
    }
    if (keeper.wants_watcher && keeper.watcher == 0 && !keeper.node_is_gone && keeper.watched != NULL) {
        int64_t again_us = keeper.watcher_since_us + WATCHER_INTERVAL_US;
        next_us = again_us < next_us ? again_us : next_us;
    }
    struct itimerspec when = {.it_value = {0, 0}};
    if (next_us != TIME_NEVER) {
        when.it_value.tv_sec = next_us / MICROSECONDS_PER_SECOND;
        when.it_value.tv_nsec = next_us % MICROSECONDS_PER_SECOND * 1000 + 1;
    }
    (void)timerfd_settime(keeper.timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drain_fd(int fd, size_t size)
{
    char buffer[sizeof(struct signalfd_siginfo) * 16];
    while (read(fd, buffer, size < sizeof buffer ? size : sizeof buffer) > 0) {
    }
}

/* Own session, subreaper, signals, timer. */
static void set_up_process(void)
{
    (void)setsid();
    (void)prctl(PR_SET_NAME, "weir-keeper", 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* At the death of the node the kernel continues a stopped keeper, and the keeper kills its steps. */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (int i = 1; i < NSIG; i++) {
        (void)signal(i, i == SIGINT || i == SIGTERM || i == SIGHUP || i == SIGQUIT || i == SIGPIPE || i == SIGUSR1 ||
                                i == SIGUSR2 || i == SIGTTOU || i == SIGTTIN || i == SIGTSTP
                            ? SIG_IGN
                            : SIG_DFL);
    }
    sigset_t watched;
    (void)sigemptyset(&watched);
    (void)sigaddset(&watched, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &watched, NULL);
    keeper.signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
    keeper.timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
}

/* Keeps 0, 1, 2 (on /dev/null) and the socket. An open copy would keep the files and listeners of the node alive. */
static void close_foreign_fds(int socket)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && nothing >= 0; fd++) {
        if (fd != socket) {
            (void)dup2(nothing, fd);
        }
    }
    if (socket > 3) {
        (void)close_range(3, (unsigned)socket - 1, 0);
    }
    (void)close_range((unsigned)(socket > 2 ? socket + 1 : 3), ~0U, 0);
}

_Noreturn void keeper_main(int socket, uint64_t mark)
{
    close_foreign_fds(socket);
    memset(&keeper, 0, sizeof keeper);
    keeper_slots_init(&keeper.slots);
    keeper.socket = socket;
    keeper.pid = getpid();
    keeper.node = getppid();
    keeper.mark = mark;
    keeper.watched = keeper_watcher_map();
    keeper.watcher_since_us = INT64_MIN / 2;
    set_lease_end(TIME_NEVER);
    set_up_process();
    if (keeper.signals < 0 || keeper.timer < 0) {
        _exit(1);
    }
    struct keeper_report ready = {.kind = KEEPER_READY, .pid = keeper.pid};
    (void)send_report(&ready);
    for (;;) {
        arm_timer(kill_due());
        struct pollfd polled[] = {{.fd = keeper.node_is_gone ? -1 : socket, .events = POLLIN},
                                  {.fd = keeper.signals, .events = POLLIN},
                                  {.fd = keeper.timer, .events = POLLIN}};
        if (keeper.unsent > 0) {
            polled[0].events |= POLLOUT;
        }
        (void)poll(polled, 3, -1);
        drain_fd(keeper.timer, sizeof(uint64_t));
        drain_fd(keeper.signals, sizeof(struct signalfd_siginfo));
        if (!keeper.node_is_gone && (polled[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            receive_request();
        }
        if (keeper.node_is_gone) {
            kill_all(false, true);
        }
        maintain_watcher();
        if (keeper.unsent > 0 && (polled[0].revents & POLLOUT) != 0) {
            send_unsent_reports();
        }
        reap_children();
        sweep_all();
        if (keeper.node_is_gone && waitid(P_ALL, 0, &(siginfo_t){.si_pid = 0}, WEXITED | WNOHANG | WNOWAIT) != 0 &&
            errno == ECHILD) {
            _exit(0);
        }
    }
}
