/* A mutex that is handed over in the order of arrival, with a deadline. Any thread.
 *
 *   guard       protects the fields below, held for a few instructions
 *   held        a thread has the lock
 *   first ...   waiting threads, each with a condition of its own on its stack
 *   reserved    until then patient threads wait even for a free lock
 *
 * A release does not free the lock while a thread waits: it stays held and goes to the first waiter. So no later thread can
 * take it in between, and a waiter waits at most for those before it. A waiter whose deadline passes leaves the queue under
 * the guard, so a release never signals a condition that is gone.
 *
 * A release passes over patient waiters while another caller waits, and while the lock is reserved. If all waiters of a
 * reserved lock are patient, it frees the lock and wakes them. They sleep again until the reservation ends, and the first
 * of them takes the lock then, if it is still free. After PATIENCE_US of passes a waiter is patient no more, so that other
 * callers in a row cannot keep it away.
 */
#include "base/fifo_mutex.h"

#include <time.h>

#include "base/error.h"

enum { PATIENCE_US = 1000 };

struct turn_waiter {
    struct turn_waiter *next;
    pthread_cond_t given_to_me;
    bool has_it;
    bool is_patient;
    int64_t patient_until_us; /* since it was first passed over; 0 = never */
};

void fifo_mutex_init(struct fifo_mutex *lock)
{
    (void)pthread_mutex_init(&lock->guard, NULL);
    lock->held = false;
    lock->reserved_until_us = 0;
    lock->first = NULL;
    lock->last = &lock->first;
}

void fifo_mutex_close(struct fifo_mutex *lock)
{
    INVARIANT(!lock->held && lock->first == NULL);
    (void)pthread_mutex_destroy(&lock->guard);
}

static int64_t monotonic_us(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

/* The functions below run under the guard. */

/* A caller that is not patient waits. */
static bool others_wait(const struct fifo_mutex *lock)
{
    const struct turn_waiter *waiter = lock->first;
    while (waiter != NULL && waiter->is_patient) {
        waiter = waiter->next;
    }
    return waiter != NULL;
}

/* Whether the waiter has to let others pass. It counts from the first time. */
static bool must_let_pass(const struct fifo_mutex *lock, struct turn_waiter *waiter)
{
    bool has_others = waiter->is_patient && others_wait(lock);
    if (!waiter->is_patient || (!has_others && lock->reserved_until_us == 0)) {
        return false;
    }
    int64_t now_us = monotonic_us();
    if (!has_others && now_us >= lock->reserved_until_us) {
        return false;
    }
    if (waiter->patient_until_us == 0) {
        waiter->patient_until_us = now_us + PATIENCE_US;
    }
    return now_us < waiter->patient_until_us;
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

/* Hands a free lock to the first waiter that may have it. Patient waiters of a reserved lock wake to await its end. */
static void fifo_mutex_hand_over(struct fifo_mutex *lock)
{
    struct turn_waiter *next = lock->first;
    while (next != NULL && must_let_pass(lock, next)) {
        next = next->next;
    }
    lock->held = next != NULL;
    if (next != NULL) {
        fifo_mutex_leave(lock, next);
        next->has_it = true;
        (void)pthread_cond_signal(&next->given_to_me);
    } else {
        for (struct turn_waiter *waiter = lock->first; waiter != NULL; waiter = waiter->next) {
            (void)pthread_cond_signal(&waiter->given_to_me);
        }
    }
}

/* Until the free lock may be taken, or until the deadline. */
static int sleep_in_queue(struct fifo_mutex *lock, struct turn_waiter *me, int64_t deadline_us)
{
    int64_t free_us = me->patient_until_us < lock->reserved_until_us ? me->patient_until_us : lock->reserved_until_us;
    bool awaits_end = !lock->held && free_us < deadline_us;
    int64_t until_us = awaits_end ? free_us : deadline_us;
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000), .tv_nsec = (long)(until_us % 1000000) * 1000};
    int failed = pthread_cond_clockwait(&me->given_to_me, &lock->guard, CLOCK_MONOTONIC, &until);
    return awaits_end ? 0 : failed;
}

static bool wait_in_queue(struct fifo_mutex *lock, int64_t deadline_us, struct turn_waiter *me)
{
    int64_t until_us = monotonic_us() + deadline_us;
    (void)pthread_cond_init(&me->given_to_me, NULL);
    *lock->last = me;
    lock->last = &me->next;
    int failed = 0;
    while (!me->has_it && failed == 0) {
        failed = sleep_in_queue(lock, me, until_us);
        if (!lock->held && !me->has_it && !must_let_pass(lock, me)) {
            fifo_mutex_hand_over(lock);
        }
    }
    if (!me->has_it) {
        fifo_mutex_leave(lock, me);
    }
    (void)pthread_cond_destroy(&me->given_to_me);
    return me->has_it;
}

static bool take_in_turn(struct fifo_mutex *lock, int64_t deadline_us, bool is_patient)
{
    (void)pthread_mutex_lock(&lock->guard);
    struct turn_waiter me = {.next = NULL, .has_it = false, .is_patient = is_patient};
    bool taken = !lock->held && !(is_patient && lock->first != NULL) && !must_let_pass(lock, &me);
    if (taken) {
        lock->held = true;
    } else {
        taken = wait_in_queue(lock, deadline_us, &me);
    }
    (void)pthread_mutex_unlock(&lock->guard);
    return taken;
}

bool fifo_mutex_take(struct fifo_mutex *lock, int64_t deadline_us)
{
    return take_in_turn(lock, deadline_us, false);
}

bool fifo_mutex_take_patiently(struct fifo_mutex *lock, int64_t deadline_us)
{
    return take_in_turn(lock, deadline_us, true);
}

void fifo_mutex_release(struct fifo_mutex *lock)
{
    (void)pthread_mutex_lock(&lock->guard);
    INVARIANT(lock->held);
    fifo_mutex_hand_over(lock);
    (void)pthread_mutex_unlock(&lock->guard);
}

void fifo_mutex_release_reserved(struct fifo_mutex *lock, int64_t us)
{
    (void)pthread_mutex_lock(&lock->guard);
    INVARIANT(lock->held && us > 0);
    lock->reserved_until_us = monotonic_us() + us;
    fifo_mutex_hand_over(lock);
    (void)pthread_mutex_unlock(&lock->guard);
}

int64_t fifo_mutex_reserved_until_us(struct fifo_mutex *lock)
{
    (void)pthread_mutex_lock(&lock->guard);
    int64_t until_us = lock->reserved_until_us;
    (void)pthread_mutex_unlock(&lock->guard);
    return until_us;
}

size_t fifo_mutex_waiting(struct fifo_mutex *lock)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&lock->guard);
    for (const struct turn_waiter *waiter = lock->first; waiter != NULL; waiter = waiter->next) {
        count++;
    }
    (void)pthread_mutex_unlock(&lock->guard);
    return count;
}
