/* Locks of the table `shedlock` that a node holds over several steps of a loop.
 *
 *   1. A free lock is taken in store time under a new holder name, so that a late answer to an earlier acquisition is not
 *      taken for this one.
 *   2. A held lock is extended after a third of its time. Two extensions may fail before it ends.
 *   3. The node counts its own deadline from before it sent the request, a tenth shorter than the store's. So it stops to
 *      use the lock before another node can take it.
 *   4. After a refused acquisition or a failed call the node tries again a second later. A node that finds its lock lost
 *      may take it anew at once.
 *
 * Runs in the loop that owns the lock, with that loop's store handle. It never waits for a lock.
 */
#include "dispatch/shedlock.h"

#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

static void draw_holder(struct node *node, struct shedlock *lock)
{
    pthread_mutex_lock(&node->shared.lock);
    uint64_t token = random_next(&node->shared.random);
    pthread_mutex_unlock(&node->shared.lock);
    (void)snprintf(lock->holder, sizeof lock->holder, "%s:%ld:%lld:%016llx", node->name, (long)getpid(),
                   (long long)atomic_load(&node->shared.id), (unsigned long long)token);
}

static struct lock_request request_for(const struct shedlock *lock)
{
    return (struct lock_request){
        .name = lock->name, .holder = lock->holder, .at_most_us = lock->at_most_us, .at_least_us = lock->at_least_us};
}

bool shedlock_hold(struct node *node, struct store *store, struct shedlock *lock, int64_t now_us)
{
    INVARIANT(node != NULL && store != NULL && lock != NULL && lock->name != NULL);
    struct weir_error error;
    if (now_us < lock->again_boot_us) {
        return lock->held && now_us < lock->until_boot_us;
    }
    enum weir_status status;
    if (lock->held) {
        struct lock_request request = request_for(lock);
        status = store_lock_extend(store, &request, &error);
        if (status == WEIR_CONFLICT) {
            struct event event = {.type = EVENT_LOCK_LOST, .reason = lock->name, .node = node->name};
            event_emit(node->events, &event);
            lock->held = false;
            return false;
        }
    } else {
        draw_holder(node, lock);
        struct lock_request request = request_for(lock);
        status = store_lock(store, &request, &error);
    }
    if (status == WEIR_OK) {
        lock->held = true;
        lock->until_boot_us = time_add(now_us, lock->at_most_us - lock->at_most_us / 10);
        lock->again_boot_us = time_add(now_us, lock->at_most_us / 3);
    } else {
        lock->again_boot_us = time_add(now_us, MICROSECONDS_PER_SECOND);
    }
    return lock->held && now_us < lock->until_boot_us;
}

void shedlock_drop(struct store *store, struct shedlock *lock)
{
    INVARIANT(store != NULL && lock != NULL);
    struct weir_error error;
    if (lock->held) {
        struct lock_request request = request_for(lock);
        enum weir_status status = store_unlock(store, &request, &error);
        (void)status; /* if it fails, the lock runs out by itself */
        lock->held = false;
        lock->again_boot_us = 0;
    }
}
