/* A mutex that is handed over in the order of arrival, with a deadline. Any thread.
 *
 *   guard       protects the fields below, held for a few instructions
 *   held        a thread has the lock
 *   first ...   waiting threads, each with a condition of its own on its stack
 *
 * A release does not free the lock while a thread waits: it stays held and goes to the first waiter. So no later thread can
 * take it in between, and a waiter waits at most for those before it. A waiter whose deadline passes leaves the queue under
 * the guard, so a release never signals a condition that is gone.
 */
#include "base/fifo_mutex.h"

#include <time.h>

#include "base/error.h"

struct turn_waiter {
    struct turn_waiter *next;
    pthread_cond_t given_to_me;
    bool has_it;
};

void fifo_mutex_init(struct fifo_mutex *lock)
{
    (void)pthread_mutex_init(&lock->guard, NULL);
    lock->held = false;
    lock->first = NULL;
    lock->last = &lock->first;
}

void fifo_mutex_close(struct fifo_mutex *lock)
{
    INVARIANT(!lock->held && lock->first == NULL);
    (void)pthread_mutex_destroy(&lock->guard);
}

static struct timespec monotonic_in(int64_t us)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(us / 1000000);
    at.tv_nsec += (long)(us % 1000000) * 1000;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_nsec -= 1000000000L;
        at.tv_sec += 1;
    }
    return at;
}

static void fifo_mutex_leave(struct fifo_mutex *lock, struct turn_waiter *me)
{
    struct turn_waiter **at = &lock->first;
    while (*at != me) {
        at = &(*at)->next;
    }
    *at = me->next;
    if (lock->last == &me->next) {
        lock->last = at;
    }
}

static bool wait_in_queue(struct fifo_mutex *lock, int64_t deadline_us)
{
    struct turn_waiter me = {.next = NULL, .has_it = false};
    struct timespec until = monotonic_in(deadline_us);
    (void)pthread_cond_init(&me.given_to_me, NULL);
    *lock->last = &me;
    lock->last = &me.next;
    int failed = 0;
    while (!me.has_it && failed == 0) {
        failed = pthread_cond_clockwait(&me.given_to_me, &lock->guard, CLOCK_MONOTONIC, &until);
    }
    if (!me.has_it) {
        fifo_mutex_leave(lock, &me);
    }
    (void)pthread_cond_destroy(&me.given_to_me);
    return me.has_it;
}

bool fifo_mutex_take(struct fifo_mutex *lock, int64_t deadline_us)
{
    (void)pthread_mutex_lock(&lock->guard);
    bool taken = !lock->held;
    if (taken) {
        lock->held = true;
    } else {
        taken = wait_in_queue(lock, deadline_us);
    }
    (void)pthread_mutex_unlock(&lock->guard);
    return taken;
}

void fifo_mutex_release(struct fifo_mutex *lock)
{
    (void)pthread_mutex_lock(&lock->guard);
    INVARIANT(lock->held);
    struct turn_waiter *next = lock->first;
    if (next == NULL) {
        lock->held = false;
    } else {
        /* It stays held and goes to the next waiter: no other thread can take it in between. */
        lock->first = next->next;
        if (lock->first == NULL) {
            lock->last = &lock->first;
        }
        next->has_it = true;
        (void)pthread_cond_signal(&next->given_to_me);
    }
    (void)pthread_mutex_unlock(&lock->guard);
}
