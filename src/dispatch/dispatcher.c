/* The dispatch loop: one step does all that is due for the scheduler's role and for the items of this node.
 *
 *   scheduling.c  the role and its rounds          inbox.c               items from another node's scheduler, cancels
 *   starter.c     gives items to the engine        unstartable_claims.c  gives items back that are not started
 *
 * A step:
 *
 *   1. Give back the items that an earlier step could not start. They hold slots.
 *   2. Read the inbox, if this node does not schedule or the inbox is due. The answer shows whether the role is free.
 *   3. Run rounds, if this node has the role.
 *   4. Give back what steps 2 and 3 could not start.
 *   5. Pass cancels and signals to the engine.
 *   6. Send unanswered starts again.
 *
 * A step never waits, and no transaction is open while the engine is called. After a failed call of the store the next
 * step begins anew after a pause. The dispatch thread runs it, or the caller of node_step().
 */
#include "dispatch/dispatcher.h"

#include "base/error.h"
#include "dispatch/inbox.h"
#include "dispatch/loop.h"
#include "dispatch/node_internal.h"
#include "dispatch/scheduling.h"
#include "dispatch/shutdown.h"
#include "dispatch/starter.h"
#include "dispatch/unstartable_claims.h"

/* The true distance lies between those from the beginning and from the end of the call, which may have waited for a lock
 * meanwhile. The last one is kept while it lies between them, so short calls decide. Else it is that from the end: a sleep
 * that ends at a time must not end before it. */
void dispatcher_learn_store_time(struct node *node, int64_t asked_us, int64_t store_now_us)
{
    INVARIANT(node != NULL);
    int64_t most_us = store_now_us - asked_us;
    int64_t least_us = store_now_us - node_now(node);
    int64_t kept_us = node->dispatcher.store_ahead_us;
    node->dispatcher.store_ahead_us = kept_us >= least_us && kept_us <= most_us ? kept_us : least_us;
}

/* Polls find work where no wake-up arrives. Their distance is random, so that nodes do not poll in step. Each step of the
 * scheduler is a poll, and the next one counts from it. */
static int64_t next_poll(struct node *node, int64_t now_us)
{
    struct dispatcher *dispatcher = &node->dispatcher;
    int64_t interval_us = node->tuning.poll_interval_us;
    if (dispatcher->scheduling.epoch != 0 || now_us >= dispatcher->next_poll_boot_us ||
        dispatcher->next_poll_boot_us > time_add(now_us, interval_us)) {
        pthread_mutex_lock(&node->shared.lock);
        int64_t half_us = interval_us / 2;
        int64_t random_us = (int64_t)random_below(&node->shared.random, (uint64_t)half_us + 1);
        dispatcher->next_poll_boot_us = time_add(now_us, half_us + random_us);
        pthread_mutex_unlock(&node->shared.lock);
    }
    return dispatcher->next_poll_boot_us;
}

/* The claims and the role of this node belong to its old id. */
static void adopt_new_id(struct node *node)
{
    int64_t id = atomic_load(&node->shared.id);
    if (node->dispatcher.node_id != id) {
        scheduling_lose(node, "the node has a new id");
        inbox_reset(node);
        store_wake_for(node->stores[LOOP_DISPATCH], id, false);
        node->dispatcher.node_id = id;
    }
}

/* A node without memory is not assigned the next set at once: the error makes the loop pause. */
static enum weir_status give_back_unstartable(struct node *node, struct weir_error *error)
{
    bool is_short = !unstartable_is_empty(node) && node->dispatcher.unstartable.reason == UNSTARTABLE_OUT_OF_MEMORY;
    enum weir_status status = unstartable_give_back(node, error);
    return status == WEIR_OK && is_short ? error_out_of_memory(error) : status;
}

/* The answer also shows a role that has become free. */
static enum weir_status read_assignments(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    struct role_state role;
    enum weir_status status = inbox_step(node, now_us, ret_next_us, &role, error);
    if (status == WEIR_OK && node->dispatcher.scheduling.epoch == 0) {
        status = scheduling_seek(node, &role, error);
    }
    return status;
}

/* Steps 1 to 5. */
static enum weir_status dispatch_once(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    const struct dispatcher *dispatcher = &node->dispatcher;
    enum weir_status status = unstartable_give_back(node, error);
    if (status == WEIR_OK && (dispatcher->inbox.is_due || dispatcher->scheduling.epoch == 0)) {
        status = read_assignments(node, now_us, ret_next_us, error);
    }
    if (status == WEIR_OK) {
        status = give_back_unstartable(node, error);
    }
    if (status == WEIR_OK && dispatcher->inbox.is_due && dispatcher->scheduling.epoch != 0) {
        status = read_assignments(node, now_us, ret_next_us, error); /* the node has just taken the role */
    }
    if (status == WEIR_OK) {
        status = give_back_unstartable(node, error);
    }
    if (status == WEIR_OK && dispatcher->scheduling.epoch != 0) {
        status = scheduling_step(node, now_us, ret_next_us, error);
    }
    if (status == WEIR_OK) {
        status = give_back_unstartable(node, error);
    }
    if (status == WEIR_OK) {
        status = inbox_pass_requests(node, error);
    }
    if (status == WEIR_OK && dispatcher->inbox.has_requests) {
        *ret_next_us = now_us; /* one call passes on a part of them */
    }
    return status;
}

int64_t dispatcher_step(struct node *node)
{
    INVARIANT(node != NULL);
    int64_t now_us = node_now(node);
    int64_t next_us;
    struct weir_error error = {.status = WEIR_OK};
    int stop = atomic_load(&node->shared.stop_kind);
    if (loop_is_backing_off(node, LOOP_DISPATCH, now_us, &next_us)) {
        return next_us;
    }
    if (stop != 0) {
        return shutdown_step(node, now_us, (enum node_stop_kind)(stop - 1));
    }
    if (atomic_load(&node->shared.lease_lost)) {
        scheduling_lose(node, "the node's lease was lost");
        inbox_reset(node);
        return TIME_NEVER; /* the heartbeat loop registers the node anew and wakes this loop */
    }
    adopt_new_id(node);
    next_us = next_poll(node, now_us);
    enum weir_status status = dispatch_once(node, now_us, &next_us, &error);
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_DISPATCH, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_DISPATCH);
    return earlier(next_us, starter_send_again(node, now_us));
}
