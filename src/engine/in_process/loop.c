/* An event loop on epoll, a binary heap of timers, and an eventfd.
 *
 * The sleep without a lost wake-up:
 *
 *   1. The loop sets `asleep`, checks its queues once more, and only then waits.
 *   2. A producer adds to a queue first, then exchanges `asleep` for false. Only a producer that found true writes to the
 *      eventfd. So a busy loop costs producers no system call, and of many producers one writes.
 *   3. If the producer adds after the check, `asleep` is true already, and the eventfd ends the wait at once.
 *
 * The heap's array grows in loop_reserve_timers() alone, so setting a timer can never fail for want of memory.
 * A callback may remove a watch of the same wait. loop_unwatch() clears its entry, so that the loop does not call it.
 * The thread of the loop runs all of it, except loop_notify().
 */
#include "engine/in_process/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

enum { TIMERS_FIRST = 64 };

enum weir_status loop_init(struct loop *loop, const struct clock *clock, struct weir_error *error)
{
    INVARIANT(loop != NULL && clock != NULL);
    *loop = (struct loop){.clock = clock, .poll_fd = -1, .wake_fd = -1};
    loop->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = NULL};
    if (loop->poll_fd < 0 || loop->wake_fd < 0 || epoll_ctl(loop->poll_fd, EPOLL_CTL_ADD, loop->wake_fd, &wake) != 0) {
        int native = errno;
        loop_close(loop);
        return error_set_native(error, WEIR_SYSTEM, native, "the system refused an epoll instance or an eventfd");
    }
    if (loop_reserve_timers(loop, TIMERS_FIRST) != WEIR_OK) {
        loop_close(loop);
        return error_out_of_memory(error);
    }
    return WEIR_OK;
}

void loop_close(struct loop *loop)
{
    INVARIANT(loop != NULL);
    if (loop->poll_fd >= 0) {
        (void)close(loop->poll_fd);
    }
    if (loop->wake_fd >= 0) {
        (void)close(loop->wake_fd);
    }
    free(loop->heap);
    loop->heap = NULL;
    loop->poll_fd = -1;
    loop->wake_fd = -1;
}

int64_t loop_now(const struct loop *loop)
{
    return clock_boot(loop->clock);
}

/* --- watches --- */

enum weir_status loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events)
{
    INVARIANT(watch != NULL && fd >= 0);
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop->poll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return WEIR_SYSTEM;
    }
    watch->fd = fd;
    return WEIR_OK;
}

void loop_change(struct loop *loop, struct watch *watch, uint32_t events)
{
    INVARIANT(watch->fd >= 0);
    struct epoll_event event = {.events = events, .data.ptr = watch};
    INVARIANT(epoll_ctl(loop->poll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0);
}

void loop_unwatch(struct loop *loop, struct watch *watch)
{
    INVARIANT(loop != NULL && watch != NULL);
    if (watch->fd < 0) {
        return;
    }
    (void)epoll_ctl(loop->poll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->fd = -1;
    for (size_t i = 0; i < loop->ready_count; i++) {
        if (loop->ready[i] == watch) {
            loop->ready[i] = NULL;
        }
    }
}

/* --- timers: a binary heap --- */

enum weir_status loop_reserve_timers(struct loop *loop, size_t count)
{
    INVARIANT(loop != NULL);
    if (loop->heap != NULL && count < loop->timer_capacity) {
        return WEIR_OK;
    }
    size_t capacity = loop->timer_capacity * 2 > count + 1 ? loop->timer_capacity * 2 : count + 1;
    struct timer **heap = realloc(loop->heap, capacity * sizeof(struct timer *));
    if (heap == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    loop->heap = heap;
    loop->timer_capacity = capacity;
    return WEIR_OK;
}

static void put_timer(struct loop *loop, size_t place, struct timer *timer)
{
    loop->heap[place] = timer;
    timer->heap_place = place;
}

/* Puts the timer at its place: towards the root while it is due earlier, else towards the leaves. */
static void settle_timer(struct loop *loop, size_t place, struct timer *timer)
{
    while (place > 1 && loop->heap[place / 2]->due_us > timer->due_us) {
        put_timer(loop, place, loop->heap[place / 2]);
        place /= 2;
    }
    for (size_t child; (child = place * 2) <= loop->timer_count; place = child) {
        if (child < loop->timer_count && loop->heap[child + 1]->due_us < loop->heap[child]->due_us) {
            child++;
        }
        if (loop->heap[child]->due_us >= timer->due_us) {
            break;
        }
        put_timer(loop, place, loop->heap[child]);
    }
    put_timer(loop, place, timer);
}

void loop_set_timer(struct loop *loop, struct timer *timer, int64_t due_us)
{
    if (due_us == TIME_NEVER) {
        loop_clear_timer(loop, timer);
        return;
    }
    INVARIANT(timer->fire != NULL);
    timer->due_us = due_us;
    if (timer->heap_place == 0) {
        INVARIANT(loop->timer_count + 1 < loop->timer_capacity);
        timer->heap_place = ++loop->timer_count;
    }
    settle_timer(loop, timer->heap_place, timer);
}

void loop_clear_timer(struct loop *loop, struct timer *timer)
{
    size_t place = timer->heap_place;
    if (place == 0) {
        return;
    }
    INVARIANT(place <= loop->timer_count && loop->heap[place] == timer);
    timer->heap_place = 0;
    struct timer *last = loop->heap[loop->timer_count--];
    if (last != timer) {
        settle_timer(loop, place, last);
    }
}

int64_t loop_next_due(const struct loop *loop)
{
    INVARIANT(loop->timer_count < loop->timer_capacity || loop->timer_count == 0);
    return loop->timer_count > 0 ? loop->heap[1]->due_us : TIME_NEVER;
}

int64_t loop_fire_timers(struct loop *loop)
{
    INVARIANT(loop != NULL);
    if (loop->timer_count == 0) {
        return TIME_NEVER;
    }
    int64_t now_us = loop_now(loop);
    while (loop->timer_count > 0 && loop->heap[1]->due_us <= now_us) {
        struct timer *timer = loop->heap[1];
        loop_clear_timer(loop, timer);
        timer->fire(timer);
    }
    return loop_next_due(loop);
}

/* --- sleeping and waking --- */

void loop_notify(struct loop *loop)
{
    if (atomic_exchange(&loop->asleep, false)) {
        uint64_t one = 1;
        while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

void loop_set_asleep(struct loop *loop, bool asleep)
{
    atomic_store(&loop->asleep, asleep);
}

/* The timeout for epoll_wait(). */
static int get_wait_ms(const struct loop *loop, int64_t until_us)
{
    if (until_us == TIME_NEVER) {
        return -1;
    }
    return until_us == 0 ? 0 : time_to_poll_ms(until_us - loop_now(loop));
}

void loop_wait(struct loop *loop, int64_t until_us)
{
    struct epoll_event events[LOOP_EVENTS_MAX];
    int count = epoll_wait(loop->poll_fd, events, LOOP_EVENTS_MAX, get_wait_ms(loop, until_us));
    if (count <= 0) {
        return;
    }
    INVARIANT(loop->ready_count == 0); /* no wait inside of a wait */
    loop->ready_count = (size_t)count;
    for (size_t i = 0; i < loop->ready_count; i++) {
        loop->ready[i] = events[i].data.ptr;
        if (loop->ready[i] == NULL) {
            uint64_t wakes;
            (void)!read(loop->wake_fd, &wakes, sizeof wakes);
        }
    }
    for (size_t i = 0; i < loop->ready_count; i++) {
        if (loop->ready[i] != NULL) {
            loop->ready[i]->ready(loop->ready[i], events[i].events);
        }
    }
    loop->ready_count = 0;
}
