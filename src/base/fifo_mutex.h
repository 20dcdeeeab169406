/* A mutual exclusion that is given in the order of asking, with a deadline.
 *
 * A pthread mutex may be taken again and again by the thread that just released it while others sleep. Under load that
 * would let a node's heartbeat wait behind its own recorder. Here the lock is handed to the thread that has waited
 * longest.
 *
 * A patient caller lets others that wait go first. The holder may also reserve the lock for a caller that asks for it soon,
 * so that a patient caller does not get it in between.
 * Threads: any. Owner: the thread that initialised it; no thread may hold or await it when it is closed.
 */
#ifndef WEIR_BASE_FIFO_MUTEX_H
#define WEIR_BASE_FIFO_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct turn_waiter;

struct fifo_mutex {
    pthread_mutex_t guard;
    bool held;
    int64_t reserved_until_us; /* CLOCK_MONOTONIC; until then patient callers do not get it. 0 = not reserved */
    struct turn_waiter *first;
    struct turn_waiter **last;
};

void fifo_mutex_init(struct fifo_mutex *lock);
void fifo_mutex_close(struct fifo_mutex *lock);
/* False when it was not given within `deadline_us` from now. */
bool fifo_mutex_take(struct fifo_mutex *lock, int64_t deadline_us);
/* The same, but all other callers that wait go first, and those that ask while the lock is reserved. It is patient for a
 * millisecond from the first time at most. */
bool fifo_mutex_take_patiently(struct fifo_mutex *lock, int64_t deadline_us);
void fifo_mutex_release(struct fifo_mutex *lock);
/* Releases it, and reserves it for so many microseconds. */
void fifo_mutex_release_reserved(struct fifo_mutex *lock, int64_t us);
/* For tests: when the last reservation ends or has ended, 0 = there was none; the number of waiting threads. */
int64_t fifo_mutex_reserved_until_us(struct fifo_mutex *lock);
size_t fifo_mutex_waiting(struct fifo_mutex *lock);

#endif
