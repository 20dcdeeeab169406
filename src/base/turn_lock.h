/* A mutual exclusion that is given in the order of asking, with a deadline.
 *
 * A pthread mutex may be taken again and again by the thread that just released it while others sleep; under load that
 * would let a node's heartbeat wait behind its own recorder. Here the lock is handed to the thread that has waited longest.
 * Threads: any. Owner: the thread that initialised it; no thread may hold or await it when it is closed.
 */
#ifndef WEIR_BASE_TURN_LOCK_H
#define WEIR_BASE_TURN_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct turn_waiter;

struct turn_lock {
    pthread_mutex_t guard;
    bool held;
    struct turn_waiter *first;
    struct turn_waiter **last;
};

void turn_lock_init(struct turn_lock *lock);
void turn_lock_close(struct turn_lock *lock);
/* False when it was not given within `deadline_us` from now. */
bool turn_lock_take(struct turn_lock *lock, int64_t deadline_us);
void turn_lock_release(struct turn_lock *lock);

#endif
