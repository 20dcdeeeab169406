/* How many items this node takes.
 *
 * Three bounds apply to a set: the free capacity of the engine, a third of its whole capacity, and the setting
 * dispatch.batch_size. The breaker then lets through all of it, one probe, or nothing. A node that may not start anything
 * has no capacity.
 *
 * The dispatch loop asks before each round and each read of the inbox. The heartbeat loop reports the total, so that the
 * scheduler on another node decides with it. The functions read atomic flags and take shared.lock for a moment; they never
 * call the store.
 */
#include "dispatch/capacity.h"

#include "base/error.h"
#include "dispatch/engine_health.h"
#include "dispatch/node_internal.h"
#include "dispatch/wake_up.h"

/* The time until the next check of an engine that is about to release ended executions. */
#define CAPACITY_POLL_US ((int64_t)500)

/* A set takes a part of the engine's capacity, so that the next set follows while this one is started, run and recorded. A
 * set that took all of it would leave the recorder without work until its own items end, and then the dispatcher. */
enum { CLAIM_PARTS = 3, CLAIM_PART_LEAST = 64 };

bool capacity_may_start(struct node *node)
{
    INVARIANT(node != NULL);
    return !atomic_load(&node->shared.paused) && atomic_load(&node->shared.desired_state) == NODE_RUN &&
           !atomic_load(&node->shared.lease_lost) && lease_is_valid(node) && atomic_load(&node->shared.stop_kind) == 0 &&
           atomic_load(&node->shared.has_target);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t capacity_free(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    if (!capacity_may_start(node)) {
        return 0;
    }
    size_t free_capacity = engine_free_capacity(node->engine);
    size_t part = (free_capacity + engine_running(node->engine)) / CLAIM_PARTS;
    free_capacity = smaller(free_capacity, part > CLAIM_PART_LEAST ? part : CLAIM_PART_LEAST);
    return engine_health_allowance(node, smaller(free_capacity, node->tuning.batch_size), now_us);
}

bool capacity_exceeds_set(struct node *node, size_t set)
{
    INVARIANT(node != NULL);
    size_t room = engine_free_capacity(node->engine);
    return room > set && room / (CLAIM_PARTS + 1) < set;
}

bool capacity_renews_soon(struct node *node, size_t ended)
{
    INVARIANT(node != NULL);
    size_t running = engine_running(node->engine);
    return ended >= running && ended >= (running + engine_free_capacity(node->engine)) / CLAIM_PARTS;
}

size_t capacity_total(struct node *node)
{
    INVARIANT(node != NULL);
    if (atomic_load(&node->shared.paused) || atomic_load(&node->shared.desired_state) != NODE_RUN ||
        atomic_load(&node->shared.stop_kind) != 0 || !atomic_load(&node->shared.has_target)) {
        return 0;
    }
    size_t allowance = engine_health_allowance(node, engine_free_capacity(node->engine), node_now(node));
    pthread_mutex_lock(&node->shared.lock);
    size_t held = node->shared.in_flight.count;
    pthread_mutex_unlock(&node->shared.lock);
    return held + allowance;
}

/* The recorder wakes the dispatcher after an answer to a start, and after the record of an end. Two cases need a time:
 *
 *   - The engine learns of the record of an end in a thread of its own, so it may still hold the execution when the
 *     dispatcher runs. No wake follows when it releases it.
 *   - An open breaker lets a probe through at a certain time.
 */
void capacity_await(struct node *node, int64_t now_us, int64_t *ret_next_us)
{
    INVARIANT(node != NULL && ret_next_us != NULL);
    size_t running = engine_running(node->engine);
    atomic_store(&node->shared.awaits_capacity, true);
    if (!capacity_may_start(node)) {
        return;
    }
    *ret_next_us = earlier(*ret_next_us, engine_health_probe_us(node, now_us));
    pthread_mutex_lock(&node->shared.lock);
    if (running > node->shared.in_flight.count) {
        *ret_next_us = earlier(*ret_next_us, time_add(now_us, CAPACITY_POLL_US));
    }
    pthread_mutex_unlock(&node->shared.lock);
}

void node_capacity_changed(struct node *node)
{
    INVARIANT(node != NULL);
    loop_wake(node, LOOP_HEARTBEAT);
    if (capacity_take_awaited(node)) {
        loop_wake(node, LOOP_DISPATCH);
    }
}

bool capacity_take_awaited(struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_exchange(&node->shared.awaits_capacity, false);
}
