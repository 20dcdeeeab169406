/* A mutual exclusion that is given in the order of asking, with a deadline.
 *
 * A pthread mutex may be taken again and again by the thread that just released it while others sleep. Under load that
 * would let a node's heartbeat wait behind its own recorder. Here the lock is handed to the thread that has waited
 * longest. Threads: any. Owner: the thread that initialised it; no thread may hold or await it when it is closed.
 */
#ifndef WEIR_BASE_FIFO_MUTEX_H
#define WEIR_BASE_FIFO_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct turn_waiter;

struct fifo_mutex {
    pthread_mutex_t guard;
    bool held;
    struct turn_waiter *first;
    struct turn_waiter **last;
};

void fifo_mutex_init(struct fifo_mutex *lock);
void fifo_mutex_close(struct fifo_mutex *lock);
/* False when it was not given within `deadline_us` from now. */
bool fifo_mutex_take(struct fifo_mutex *lock, int64_t deadline_us);
void fifo_mutex_release(struct fifo_mutex *lock);

#endif
