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
    *loop = (struct loop){.clock = clock, .poll_fd = -1, .bell_fd = -1};
    loop->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event bell = {.events = EPOLLIN, .data.ptr = NULL};
    if (loop->poll_fd < 0 || loop->bell_fd < 0 || epoll_ctl(loop->poll_fd, EPOLL_CTL_ADD, loop->bell_fd, &bell) != 0) {
        int native = errno;
        loop_close(loop);
        return error_set_native(error, WEIR_SYSTEM, native, "no epoll or eventfd could be had");
    }
    if (loop_reserve_timers(loop, TIMERS_FIRST) != WEIR_OK) {
        loop_close(loop);
        return error_out_of_memory(error);
    }
    return WEIR_OK;
}

void loop_close(struct loop *loop)
{
    if (loop->poll_fd >= 0) {
        (void)close(loop->poll_fd);
    }
    if (loop->bell_fd >= 0) {
        (void)close(loop->bell_fd);
    }
    free(loop->heap);
    loop->heap = NULL;
    loop->poll_fd = -1;
    loop->bell_fd = -1;
}

int64_t loop_now(const struct loop *loop)
{
    return clock_boot(loop->clock);
}

/* --- watches --- */

enum weir_status loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop->poll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return WEIR_SYSTEM;
    }
    watch->fd = fd;
    return WEIR_OK;
}

void loop_change(struct loop *loop, struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    INVARIANT(epoll_ctl(loop->poll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0);
}

void loop_unwatch(struct loop *loop, struct watch *watch)
{
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

static void heap_put(struct loop *loop, size_t place, struct timer *timer)
{
    loop->heap[place] = timer;
    timer->heap_place = place;
}

static void heap_settle(struct loop *loop, size_t place, struct timer *timer)
{
    while (place > 1 && loop->heap[place / 2]->due_us > timer->due_us) {
        heap_put(loop, place, loop->heap[place / 2]);
        place /= 2;
    }
    for (size_t child; (child = place * 2) <= loop->timer_count; place = child) {
        if (child < loop->timer_count && loop->heap[child + 1]->due_us < loop->heap[child]->due_us) {
            child++;
        }
        if (loop->heap[child]->due_us >= timer->due_us) {
            break;
        }
        heap_put(loop, place, loop->heap[child]);
    }
    heap_put(loop, place, timer);
}

void loop_set_timer(struct loop *loop, struct timer *timer, int64_t due_us)
{
    if (due_us == TIME_NEVER) {
        loop_clear_timer(loop, timer);
        return;
    }
    timer->due_us = due_us;
    if (timer->heap_place == 0) {
        INVARIANT(loop->timer_count + 1 < loop->timer_capacity);
        timer->heap_place = ++loop->timer_count;
    }
    heap_settle(loop, timer->heap_place, timer);
}

void loop_clear_timer(struct loop *loop, struct timer *timer)
{
    size_t place = timer->heap_place;
    if (place == 0) {
        return;
    }
    timer->heap_place = 0;
    struct timer *last = loop->heap[loop->timer_count--];
    if (last != timer) {
        heap_settle(loop, place, last);
    }
}

int64_t loop_next_due(const struct loop *loop)
{
    return loop->timer_count > 0 ? loop->heap[1]->due_us : TIME_NEVER;
}

int64_t loop_fire_timers(struct loop *loop)
{
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

void loop_ring(struct loop *loop)
{
    if (atomic_exchange(&loop->asleep, false)) {
        uint64_t one = 1;
        while (write(loop->bell_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

void loop_set_asleep(struct loop *loop, bool asleep)
{
    atomic_store(&loop->asleep, asleep);
}

static int wait_ms(const struct loop *loop, int64_t until_us)
{
    if (until_us == TIME_NEVER) {
        return -1;
    }
    return until_us == 0 ? 0 : time_to_poll_ms(until_us - loop_now(loop));
}

void loop_wait(struct loop *loop, int64_t until_us)
{
    struct epoll_event events[LOOP_EVENTS_MAX];
    int count = epoll_wait(loop->poll_fd, events, LOOP_EVENTS_MAX, wait_ms(loop, until_us));
    if (count <= 0) {
        return;
    }
    loop->ready_count = (size_t)count;
    for (size_t i = 0; i < loop->ready_count; i++) {
        loop->ready[i] = events[i].data.ptr;
        if (loop->ready[i] == NULL) {
            uint64_t rings;
            (void)!read(loop->bell_fd, &rings, sizeof rings);
        }
    }
    for (size_t i = 0; i < loop->ready_count; i++) {
        if (loop->ready[i] != NULL) {
            loop->ready[i]->ready(loop->ready[i], events[i].events);
        }
    }
    loop->ready_count = 0;
}
