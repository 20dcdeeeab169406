/* Supervision and replacement of the keeper.
 *
 * The answer to a renewal: the keeper answers each KEEPER_LEASE with KEEPER_ALIVE.
 *   1. A renewal starts the answer timer, unless it runs: it measures the oldest renewal without an answer.
 *   2. After a third of the lease the monitor reads the socket first. An answer that arrived counts, however late it is
 *      read.
 *   3. Without an answer the keeper gets a second chance of half a second, because a pause of the whole machine lets all
 *      timers expire at once.
 *   4. Then the monitor kills the keeper. Two thirds of the lease are left, less half a second, to end its steps.
 *
 * The replacement of a dead keeper:
 *   1. The kernel has killed the leaders of the steps (PR_SET_PDEATHSIG). The node kills their process groups at once.
 *   2. The node sweeps /proc for processes with the keeper's mark, until a sweep finds none. A helper may have left its
 *      group.
 *   3. Only then the steps end as interrupted and may begin their next attempt: two attempts never overlap.
 *   4. The node forks a new keeper and sends it the present lease. A keeper that dies at once (no memory) is not forked in
 *      a busy loop: forks are a second apart.
 *
 * Without a keeper nothing starts. The loop's thread runs all of it, and must not wait here for the end of a process,
 * except in keeper_client_close().
 */
#include "engine/in_process/keeper_monitor.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>

#include "base/error.h"

static void read_reports(struct keeper_monitor *monitor);
static void link_ready(struct watch *watch, uint32_t events);
static void replace_timer_fired(struct timer *timer);
static void answer_timer_fired(struct timer *timer);

/* --- the answer to a renewal --- */

static void stop_waiting_for_answer(struct keeper_monitor *monitor)
{
    monitor->awaits_answer = false;
    monitor->is_second_chance = false;
    loop_clear_timer(monitor->loop, &monitor->answer_timer);
}

void keeper_monitor_set_lease(struct keeper_monitor *monitor, int64_t lease_end_us)
{
    INVARIANT(monitor->loop != NULL);
    int64_t now_us = loop_now(monitor->loop);
    monitor->lease_end_us = lease_end_us;
    struct keeper_request request = {.kind = KEEPER_LEASE, .value = lease_end_us};
    if (!keeper_monitor_has_keeper(monitor)) {
        return;
    }
    keeper_monitor_send(monitor, &request, NULL);
    if (!monitor->awaits_answer && lease_end_us != TIME_NEVER && lease_end_us > now_us) {
        monitor->awaits_answer = true;
        loop_set_timer(monitor->loop, &monitor->answer_timer,
                       now_us + (lease_end_us - now_us) / KEEPER_MONITOR_SILENCE_PART);
    }
}

static void answer_timer_fired(struct timer *timer)
{
    struct keeper_monitor *monitor = timer->owner;
    read_reports(monitor);
    if (!monitor->awaits_answer || !keeper_monitor_has_keeper(monitor)) {
        return;
    }
    if (!monitor->is_second_chance) {
        monitor->is_second_chance = true;
        loop_set_timer(monitor->loop, &monitor->answer_timer,
                       time_add(loop_now(monitor->loop), KEEPER_MONITOR_SECOND_CHANCE_US));
        return;
    }
    monitor->was_silent = true;
    (void)kill(monitor->link.pid, SIGKILL); /* its socket ends, and read_reports() replaces it */
}

/* --- the replacement --- */

static enum weir_status watch_link(struct keeper_monitor *monitor, struct weir_error *error)
{
    monitor->link_watch = (struct watch){.fd = -1, .ready = link_ready, .owner = monitor};
    if (loop_watch(monitor->loop, &monitor->link_watch, monitor->link.socket, EPOLLIN) != WEIR_OK) {
        int native = errno;
        keeper_client_close(&monitor->link);
        return error_set_native(error, WEIR_SYSTEM, native, "the keeper's socket cannot be watched");
    }
    atomic_store(&monitor->pid, (int)monitor->link.pid);
    return WEIR_OK;
}

static void fork_keeper(struct keeper_monitor *monitor)
{
    struct weir_error error = {.message = ""};
    monitor->forked_us = loop_now(monitor->loop);
    enum weir_status status = keeper_client_open(&monitor->link, &error);
    if (status == WEIR_OK) {
        status = watch_link(monitor, &error);
    }
    if (status == WEIR_OK) {
        keeper_monitor_set_lease(monitor, monitor->lease_end_us);
        monitor->loss.pid = monitor->link.pid;
    } else {
        monitor->loss.error = error.message;
        loop_set_timer(monitor->loop, &monitor->replace_timer, time_add(loop_now(monitor->loop), KEEPER_MONITOR_RETRY_US));
    }
    if (status == WEIR_OK || !monitor->has_reported_absence) {
        monitor->callbacks->report_loss(monitor->owner, &monitor->loss);
    }
    monitor->has_reported_absence = status != WEIR_OK;
    monitor->loss = (struct keeper_loss){
        .old_pid = monitor->loss.old_pid, .wait_status = monitor->loss.wait_status, .was_silent = monitor->loss.was_silent};
}

/* The next step of the replacement: a sweep, then a new keeper. */
static void continue_replacement(struct keeper_monitor *monitor)
{
    int64_t now_us = loop_now(monitor->loop);
    int64_t fork_us = time_add(monitor->forked_us, KEEPER_MONITOR_RETRY_US);
    INVARIANT(!keeper_monitor_has_keeper(monitor));
    if (monitor->is_sweeping) {
        if (monitor->callbacks->kill_left(monitor->owner, monitor->link.mark)) {
            loop_set_timer(monitor->loop, &monitor->replace_timer, time_add(now_us, KEEPER_MONITOR_SWEEP_US));
            return;
        }
        monitor->is_sweeping = false;
        monitor->callbacks->end_interrupted(monitor->owner);
    }
    if (now_us < fork_us) {
        loop_set_timer(monitor->loop, &monitor->replace_timer, fork_us);
        return;
    }
    fork_keeper(monitor);
}

static void replace_timer_fired(struct timer *timer)
{
    continue_replacement(timer->owner);
}

static void begin_replacement(struct keeper_monitor *monitor)
{
    loop_unwatch(monitor->loop, &monitor->link_watch);
    size_t interrupted = monitor->callbacks->kill_groups(monitor->owner);
    atomic_store(&monitor->pid, 0);
    monitor->loss =
        (struct keeper_loss){.old_pid = monitor->link.pid, .interrupted = interrupted, .was_silent = monitor->was_silent};
    monitor->was_silent = false;
    stop_waiting_for_answer(monitor);
    keeper_client_close(&monitor->link);
    monitor->loss.wait_status = monitor->link.wait_status;
    monitor->is_sweeping = true;
    continue_replacement(monitor);
}

/* --- the socket --- */

static void read_reports(struct keeper_monitor *monitor)
{
    struct keeper_report report;
    int got;
    while ((got = keeper_client_receive(&monitor->link, &report)) == 1) {
        if (report.kind == KEEPER_ALIVE) {
            stop_waiting_for_answer(monitor);
        } else {
            monitor->callbacks->take_report(monitor->owner, &report);
        }
    }
    if (got < 0) {
        begin_replacement(monitor);
    }
}

static void link_ready(struct watch *watch, uint32_t events)
{
    struct keeper_monitor *monitor = watch->owner;
    if ((events & EPOLLOUT) != 0) {
        keeper_client_flush(&monitor->link);
        if (!keeper_client_has_queued(&monitor->link)) {
            loop_change(monitor->loop, watch, EPOLLIN);
        }
    }
    read_reports(monitor);
}

bool keeper_monitor_has_keeper(const struct keeper_monitor *monitor)
{
    return monitor->link.socket >= 0;
}

void keeper_monitor_send(struct keeper_monitor *monitor, const struct keeper_request *request, const int *fds)
{
    INVARIANT(monitor->loop != NULL && (request->fd_count == 0 || fds != NULL));
    (void)keeper_client_send(&monitor->link, request, fds);
    if (keeper_client_has_queued(&monitor->link)) {
        loop_change(monitor->loop, &monitor->link_watch, EPOLLIN | EPOLLOUT);
    }
}

/* --- life --- */

void keeper_monitor_init(struct keeper_monitor *monitor)
{
    *monitor = (struct keeper_monitor){.link = {.socket = -1},
                                       .link_watch = {.fd = -1},
                                       .replace_timer = {.fire = replace_timer_fired, .owner = monitor},
                                       .answer_timer = {.fire = answer_timer_fired, .owner = monitor},
                                       .forked_us = INT64_MIN / 2, /* the first keeper may be replaced at once */
                                       .lease_end_us = TIME_NEVER};
}

enum weir_status keeper_monitor_open(struct keeper_monitor *monitor, struct loop *loop,
                                     const struct keeper_monitor_callbacks *callbacks, void *owner,
                                     struct weir_error *error)
{
    INVARIANT(loop != NULL && callbacks != NULL && monitor->loop == NULL);
    monitor->loop = loop;
    monitor->callbacks = callbacks;
    monitor->owner = owner;
    enum weir_status status = keeper_client_open(&monitor->link, error);
    return status == WEIR_OK ? watch_link(monitor, error) : status;
}

void keeper_monitor_close(struct keeper_monitor *monitor)
{
    INVARIANT(monitor != NULL);
    if (monitor->loop == NULL) {
        return;
    }
    loop_clear_timer(monitor->loop, &monitor->replace_timer);
    stop_waiting_for_answer(monitor);
    loop_unwatch(monitor->loop, &monitor->link_watch);
    keeper_client_close(&monitor->link);
    monitor->loop = NULL;
}
