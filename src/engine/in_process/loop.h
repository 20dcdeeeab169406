/* The loop of the in-process engine: watched file descriptors, timers, and a wake-up for other threads.
 *
 * One thread drives a loop (or the caller of engine_step()). Only loop_notify() may be called by other threads. Watches and
 * timers are members of their owners, so waiting allocates nothing except the array of the timers' heap. Times are those of
 * the clock that the owner passes in, so a simulation can drive the loop.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_LOOP_H
#define WEIR_ENGINE_IN_PROCESS_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "weir/status.h"

enum {
    LOOP_EVENTS_MAX = 256 /* of one wait */
};

struct timer {
    int64_t due_us;    /* boot clock */
    size_t heap_place; /* 1 is the root; 0: not set */
    void (*fire)(struct timer *timer);
    void *owner;
};

struct watch {
    int fd; /* -1: not watched */
    void (*ready)(struct watch *watch, uint32_t events);
    void *owner;
};

struct loop {
    const struct clock *clock;
    int poll_fd;
    int wake_fd;
    atomic_bool asleep;
    struct timer **heap; /* [1..timer_count] */
    size_t timer_count;
    size_t timer_capacity;
    struct watch *ready[LOOP_EVENTS_MAX]; /* of the present wait; a removed watch leaves NULL */
    size_t ready_count;
};

WEIR_MUST_CHECK enum weir_status loop_init(struct loop *loop, const struct clock *clock, struct weir_error *error);
void loop_close(struct loop *loop);
/* The boot clock, microseconds. */
int64_t loop_now(const struct loop *loop);

/* `events` as for epoll, level-triggered. WEIR_SYSTEM. Takes a watch that is not watched. */
WEIR_MUST_CHECK enum weir_status loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events);
/* Other events for a watch that is watched. */
void loop_change(struct loop *loop, struct watch *watch, uint32_t events);
/* Does not close the file descriptor. Takes a watch that is not watched. */
void loop_unwatch(struct loop *loop, struct watch *watch);

/* Space for so many timers; call it before loop_set_timer() can need it. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status loop_reserve_timers(struct loop *loop, size_t count);
/* Sets or moves. TIME_NEVER clears. */
void loop_set_timer(struct loop *loop, struct timer *timer, int64_t due_us);
void loop_clear_timer(struct loop *loop, struct timer *timer);
/* Fires the timers that are due; returns when the next one is, or TIME_NEVER. */
int64_t loop_fire_timers(struct loop *loop);
/* When the next one is due, or TIME_NEVER; fires nothing. */
int64_t loop_next_due(const struct loop *loop);

/* Any thread: wakes the loop if it sleeps, after the caller has added to one of its queues. */
void loop_notify(struct loop *loop);
/* The loop is about to sleep (true), or awake. Between this call and loop_wait() the caller checks its queues again. */
void loop_set_asleep(struct loop *loop, bool asleep);
/* Waits until a watch is ready, a thread wakes the loop, or `until_us`; calls the ready watches. `until_us` 0: does not
 * wait. */
void loop_wait(struct loop *loop, int64_t until_us);

#endif
