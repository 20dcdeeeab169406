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

#include "engine/in_process/keeper_child.h"
#include "engine/in_process/keeper_watcher.h"

/* How often a sweep that found something to kill is repeated when no SIGCHLD comes in between. */
#define SWEEP_INTERVAL_US (50 * MICROSECONDS_PER_MS)

/* Between two watchers, for the case that something ends them. */
#define WATCHER_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)

/* Sweeps in a row before the keeper looks at its socket again. */
enum { SWEEP_ROUNDS = 4, BUCKETS = 4096, CHILDREN_TEXT_BYTES = 64 * 1024 };

enum slot_state {
    SLOT_FREE,
    SLOT_RUNNING,  /* its leader lives */
    SLOT_SWEEPING, /* its leader has ended, what it left behind is being killed */
    SLOT_ENDED,    /* all gone; the report has not been sent yet */
    SLOT_REFUSED   /* never started; the report has not been sent yet */
};

struct slot {
    enum slot_state state;
    bool is_evaluator;
    bool started_unsent;
    bool lease_lost;
    pid_t pid;
    int16_t next; /* in its bucket, or in the free list; -1 ends it */
    uint64_t ticket;
    int64_t started_us;
    int64_t kill_at_us; /* KILL follows TERM at this boot time; TIME_NEVER: no kill is due */
    int status;
    int64_t cpu_us;
    int64_t memory_kib;
};

/* The keeper is a process of its own: one of it per address space. Static, so that no malloc is needed after fork. */
static struct {
    int socket;
    int signals;
    int timer;
    pid_t pid;
    pid_t node;
    uint64_t mark;
    bool node_is_gone;
    int64_t lease_end_us;
    struct keeper_watched *watched; /* NULL: there is no memory to share, and no watcher */
    pid_t watcher;                  /* 0: there is none */
    bool wants_watcher;             /* a step was started */
    int64_t watcher_since_us;
    bool sweep_again;
    size_t unsent; /* reports that the socket had no room for */
    size_t in_use;
    size_t used_below; /* no slot from here on is in use: what a walk over the slots looks at */
    int16_t free_first;
    int16_t buckets[BUCKETS];
    struct slot slots[KEEPER_STEPS_MAX];
    char children[CHILDREN_TEXT_BYTES];
} keeper;

static int64_t boot_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * MICROSECONDS_PER_SECOND + now.tv_nsec / 1000;
}

/* --- table --- */

static void table_init(void)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        keeper.buckets[i] = -1;
    }
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        keeper.slots[i].next = i + 1 < KEEPER_STEPS_MAX ? (int16_t)(i + 1) : -1;
    }
    keeper.free_first = 0;
}

static struct slot *slot_take(void)
{
    if (keeper.free_first < 0) {
        return NULL;
    }
    struct slot *slot = &keeper.slots[keeper.free_first];
    keeper.free_first = slot->next;
    *slot = (struct slot){.state = SLOT_FREE, .next = -1, .kill_at_us = TIME_NEVER};
    keeper.in_use++;
    size_t above = (size_t)(slot - keeper.slots) + 1;
    keeper.used_below = above > keeper.used_below ? above : keeper.used_below;
    return slot;
}

static void slot_give_back(struct slot *slot)
{
    slot->state = SLOT_FREE;
    slot->next = keeper.free_first;
    keeper.free_first = (int16_t)(slot - keeper.slots);
    keeper.in_use--;
    while (keeper.used_below > 0 && keeper.slots[keeper.used_below - 1].state == SLOT_FREE) {
        keeper.used_below--;
    }
}

static int16_t *bucket_of(pid_t pid)
{
    return &keeper.buckets[(uint32_t)pid % BUCKETS];
}

static void slot_register(struct slot *slot, pid_t pid)
{
    slot->pid = pid;
    slot->next = *bucket_of(pid);
    *bucket_of(pid) = (int16_t)(slot - keeper.slots);
}

static void slot_unregister(struct slot *slot)
{
    int16_t *link = bucket_of(slot->pid);
    while (*link >= 0 && &keeper.slots[*link] != slot) {
        link = &keeper.slots[*link].next;
    }
    if (*link >= 0) {
        *link = slot->next;
    }
    slot->next = -1;
}

/* The slot whose living leader this is, or NULL. */
static struct slot *slot_of_leader(pid_t pid)
{
    for (int16_t i = *bucket_of(pid); i >= 0; i = keeper.slots[i].next) {
        if (keeper.slots[i].pid == pid) {
            return &keeper.slots[i];
        }
    }
    return NULL;
}

static struct slot *slot_of_ticket(uint64_t ticket)
{
    for (size_t i = 0; i < keeper.used_below; i++) {
        uint64_t other = keeper.slots[i].ticket ^ ticket;
        if (keeper.slots[i].state != SLOT_FREE && (other & KEEPER_TICKET_MASK) == 0) {
            return &keeper.slots[i];
        }
    }
    return NULL;
}

/* --- reports --- */

/* False when the socket is full: the node is slow or stopped, and the report stays in its slot. */
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

static void slot_flush(struct slot *slot)
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
        slot_give_back(slot);
    }
}

static void flush_unsent(void)
{
    keeper.unsent = 0;
    for (size_t i = 0; i < keeper.used_below && keeper.unsent == 0; i++) {
        if (keeper.slots[i].state != SLOT_FREE) {
            slot_flush(&keeper.slots[i]);
        }
    }
}

/* --- starting --- */

static void refuse(const struct keeper_request *request, int native, bool lease_lost)
{
    struct slot *slot = slot_take();
    if (slot != NULL) { /* the node never asks for more than the table holds */
        slot->state = SLOT_REFUSED;
        slot->ticket = request->ticket;
        slot->status = native;
        slot->lease_lost = lease_lost;
        slot_flush(slot);
    }
}

/* --- the watcher --- */

static void set_lease(int64_t lease_end_us)
{
    keeper.lease_end_us = lease_end_us;
    if (keeper.watched != NULL) {
        atomic_store(&keeper.watched->lease_end_us, lease_end_us);
    }
}

/* Has one from the first step until the node is gone: then nothing is renewed, and the keeper kills all at once. */
static void tend_watcher(void)
{
    if (keeper.node_is_gone && keeper.watcher > 0) {
        (void)kill(keeper.watcher, SIGKILL);
    }
    int64_t now_us = boot_now();
    if (keeper.wants_watcher && keeper.watcher == 0 && !keeper.node_is_gone &&
        now_us - keeper.watcher_since_us >= WATCHER_INTERVAL_US) {
        keeper.watcher = keeper_watcher_start(keeper.watched, keeper.pid, keeper.mark);
        keeper.watcher_since_us = now_us;
    }
}

/* --- starting --- */

static void start(const struct keeper_request *request, const int *fds)
{
    bool is_evaluator = request->kind == KEEPER_START_EVALUATOR;
    if (!is_evaluator && boot_now() >= keeper.lease_end_us) {
        refuse(request, ECANCELED, true);
        return;
    }
    struct slot *slot = slot_take();
    if (slot == NULL) {
        refuse(request, EAGAIN, false);
        return;
    }
    keeper.wants_watcher = keeper.wants_watcher || !is_evaluator;
    tend_watcher(); /* before the step, whose guard names the watcher */
    int64_t started_us = boot_now();
    pid_t pid = fork();
    if (pid == 0) {
        if (is_evaluator) {
            keeper_child_run_evaluator(keeper.pid, fds);
        }
        struct keeper_guarded guarded = {.node = keeper.node, .keeper = keeper.pid, .watcher = keeper.watcher};
        keeper_child_run_step(keeper.pid, request->value == KEEPER_UNGUARDED ? NULL : &guarded, keeper.mark, keeper.socket,
                              request->ticket, fds);
    }
    if (pid < 0) {
        slot_give_back(slot);
        refuse(request, errno, false);
        return;
    }
    slot->state = SLOT_RUNNING;
    slot->is_evaluator = is_evaluator;
    slot->ticket = request->ticket;
    slot->started_us = started_us;
    slot->started_unsent = true;
    slot_register(slot, pid);
    slot_flush(slot);
}

/* --- stopping --- */

static void signal_step(const struct slot *slot, int signal_number)
{
    if (slot->state == SLOT_RUNNING) {
        /* The leader is not reaped yet, so its id cannot belong to anybody else. Before its setsid() it has no group. */
        if (kill(-slot->pid, signal_number) != 0) {
            (void)kill(slot->pid, signal_number);
        }
    }
}

static void stop(struct slot *slot, int64_t grace_us)
{
    if (slot->state != SLOT_RUNNING) {
        return;
    }
    if (grace_us <= 0) {
        signal_step(slot, SIGKILL);
        return;
    }
    signal_step(slot, SIGTERM);
    /* A stopped process would get its TERM only when it goes on. */
    signal_step(slot, SIGCONT);
    int64_t kill_at_us = time_add(boot_now(), grace_us);
    if (kill_at_us < slot->kill_at_us) {
        slot->kill_at_us = kill_at_us;
    }
}

static void kill_all(bool lease_lost, bool evaluators_too)
{
    for (size_t i = 0; i < keeper.used_below; i++) {
        struct slot *slot = &keeper.slots[i];
        if (slot->state == SLOT_RUNNING && (evaluators_too || !slot->is_evaluator)) {
            slot->lease_lost = slot->lease_lost || lease_lost;
            signal_step(slot, SIGKILL);
        }
    }
}

/* --- sweeping --- */

/* Without a mark it may come from any step that began before it did. */
static bool may_be_of_running_step(const struct keeper_owner *owner)
{
    for (size_t i = 0; i < keeper.used_below; i++) {
        const struct slot *slot = &keeper.slots[i];
        if (slot->state == SLOT_RUNNING && !slot->is_evaluator && slot->started_us <= owner->started_us + KEEPER_TICK_US) {
            return true;
        }
    }
    return false;
}

static bool is_of_running_step(const struct keeper_owner *owner)
{
    const struct slot *slot = slot_of_leader(owner->session);
    slot = slot != NULL ? slot : slot_of_leader(owner->group);
    slot = slot == NULL && owner->has_ticket ? slot_of_ticket(owner->ticket) : slot;
    if (slot == NULL && !owner->has_ticket) {
        return may_be_of_running_step(owner);
    }
    return slot != NULL && slot->state == SLOT_RUNNING;
}

/* Kills every child of ours that belongs to no running step. True when there was one, or one that could not be read. */
static bool sweep_children(void)
{
    size_t length = keeper_child_list(keeper.pid, keeper.children, sizeof keeper.children);
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
        if (pid <= 0 || pid == keeper.watcher || slot_of_leader(pid) != NULL) {
            continue;
        }
        if (!keeper_child_owner(pid, keeper.mark, &owner)) {
            found = true; /* our table of file descriptors is full: the next sweep may read it */
        } else if (owner.is_zombie) {
            (void)waitpid(pid, NULL, WNOHANG);
            found = true; /* its own children may have become ours after the list was made */
        } else if (!is_of_running_step(&owner)) {
            (void)kill(pid, SIGKILL);
            found = true;
        }
    }
    return found;
}

static void sweep(void)
{
    bool is_needed = keeper.node_is_gone;
    for (size_t i = 0; i < keeper.used_below && !is_needed; i++) {
        is_needed = keeper.slots[i].state == SLOT_SWEEPING;
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
    for (size_t i = 0; i < keeper.used_below; i++) {
        struct slot *slot = &keeper.slots[i];
        if (slot->state == SLOT_SWEEPING) {
            slot->state = SLOT_ENDED;
            slot_flush(slot);
        }
    }
}

static void reap_leader(struct slot *slot, pid_t pid)
{
    /* Its group first: as long as the leader is not reaped, the group's id cannot be anybody else's. */
    (void)kill(-pid, SIGKILL);
    struct rusage usage;
    if (wait4(pid, &slot->status, WNOHANG, &usage) != pid) {
        return;
    }
    slot->cpu_us = ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * MICROSECONDS_PER_SECOND +
                   usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    slot->memory_kib = usage.ru_maxrss;
    slot_unregister(slot);
    slot->state = SLOT_SWEEPING;
    slot->kill_at_us = TIME_NEVER;
}

static void reap(void)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
            return;
        }
        struct slot *slot = slot_of_leader(info.si_pid);
        if (slot != NULL) {
            reap_leader(slot, info.si_pid);
        } else {
            (void)waitpid(info.si_pid, NULL, WNOHANG);
            keeper.watcher = info.si_pid == keeper.watcher ? 0 : keeper.watcher;
        }
    }
}

/* --- the loop --- */

static void answer_sign(void)
{
    struct keeper_report report = {.kind = KEEPER_ALIVE};
    (void)send_report(&report);
}

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
        struct slot *slot;
        switch (request.kind) {
        case KEEPER_START:
        case KEEPER_START_EVALUATOR:
            if (fd_count == request.fd_count && fd_count == (request.kind == KEEPER_START ? 4 : 2)) {
                start(&request, fds);
            } else {
                refuse(&request, EMFILE, false); /* our table of file descriptors was full: they were dropped on the way */
            }
            break;
        case KEEPER_KILL:
            slot = slot_of_ticket(request.ticket);
            if (slot != NULL) {
                stop(slot, request.value);
            }
            break;
        case KEEPER_LEASE:
            set_lease(request.value);
            answer_sign();
            break;
        default:
            break;
        }
    }
    for (size_t i = 0; i < fd_count; i++) {
        (void)close(fds[i]);
    }
}

static int64_t kill_what_is_due(void)
{
    int64_t now_us = boot_now();
    int64_t next_us = TIME_NEVER;
    bool lease_is_over = now_us >= keeper.lease_end_us;
    for (size_t i = 0; i < keeper.used_below; i++) {
        struct slot *slot = &keeper.slots[i];
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
    /* Without its node the keeper ends when its last child has: it looks for itself too, since nobody else would notice. */
    if (keeper.sweep_again || keeper.node_is_gone) {
        int64_t again_us = boot_now() + SWEEP_INTERVAL_US;
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

static void drain(int fd, size_t size)
{
    char buffer[sizeof(struct signalfd_siginfo) * 16];
    while (read(fd, buffer, size < sizeof buffer ? size : sizeof buffer) > 0) {
    }
}

static void take_signals_and_names(void)
{
    (void)setsid();
    (void)prctl(PR_SET_NAME, "weir-keeper", 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* At the death of the node the kernel lets a keeper that was stopped go on, and it kills what is left. */
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

/* Keeps 0, 1, 2 (on /dev/null) and the socket: a keeper that held the node's files or listeners would keep them alive. */
static void keep_only(int socket)
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
    keep_only(socket);
    memset(&keeper, 0, sizeof keeper);
    table_init();
    keeper.socket = socket;
    keeper.pid = getpid();
    keeper.node = getppid();
    keeper.mark = mark;
    keeper.watched = keeper_watcher_map();
    keeper.watcher_since_us = INT64_MIN / 2;
    set_lease(TIME_NEVER);
    take_signals_and_names();
    if (keeper.signals < 0 || keeper.timer < 0) {
        _exit(1);
    }
    struct keeper_report ready = {.kind = KEEPER_READY, .pid = keeper.pid};
    (void)send_report(&ready);
    for (;;) {
        arm_timer(kill_what_is_due());
        struct pollfd polled[] = {{.fd = keeper.node_is_gone ? -1 : socket, .events = POLLIN},
                                  {.fd = keeper.signals, .events = POLLIN},
                                  {.fd = keeper.timer, .events = POLLIN}};
        if (keeper.unsent > 0) {
            polled[0].events |= POLLOUT;
        }
        (void)poll(polled, 3, -1);
        drain(keeper.timer, sizeof(uint64_t));
        drain(keeper.signals, sizeof(struct signalfd_siginfo));
        if (!keeper.node_is_gone && (polled[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            receive_request();
        }
        if (keeper.node_is_gone) {
            kill_all(false, true);
        }
        tend_watcher();
        if (keeper.unsent > 0 && (polled[0].revents & POLLOUT) != 0) {
            flush_unsent();
        }
        reap();
        sweep();
        if (keeper.node_is_gone && waitid(P_ALL, 0, &(siginfo_t){.si_pid = 0}, WEXITED | WNOHANG | WNOWAIT) != 0 &&
            errno == ECHILD) {
            _exit(0);
        }
    }
}
