/* The dispatch loop: schedules for all nodes if this one has the role, and starts what was assigned to this node.
 *
 *   scheduling.c  the role and its rounds          inbox.c    assignments by another node's scheduler, cancels
 *   starter.c     gives items to the engine        unstartable_claims.c   gives back what is not started
 *
 * One step does what is due and never waits. No transaction is open while the engine is called.
 */
#include "base/error.h"
#include "dispatch/node_internal.h"

bool dispatcher_may_start(struct node *node)
{
    return !node->settings.no_dispatch && !atomic_load(&node->paused) && atomic_load(&node->desired_state) == NODE_RUN &&
           !atomic_load(&node->lease_lost) && lease_is_valid(node) && atomic_load(&node->stop_kind) == 0 &&
           atomic_load(&node->has_target);
}

/* A set takes a part of what the engine can hold: while it is started, run and recorded, the next ones follow. One that
 * took all of it would leave the recorder without work until its own comes back, and then the dispatcher. */
enum { CLAIM_PARTS = 3, CLAIM_PART_LEAST = 64 };

size_t dispatcher_room(struct node *node, int64_t now_us)
{
    if (!dispatcher_may_start(node)) {
        return 0;
    }
    size_t room = engine_free_capacity(node->engine);
    size_t part = (room + engine_running(node->engine)) / CLAIM_PARTS;
    part = part > CLAIM_PART_LEAST ? part : CLAIM_PART_LEAST;
    room = room < part ? room : part;
    size_t batch = node->tuning.claim_batch;
    room = room < batch ? room : batch;
    pthread_mutex_lock(&node->lock);
    int64_t allowed = breaker_peek_starts(&node->breaker, (int64_t)room, now_us);
    pthread_mutex_unlock(&node->lock);
    return (size_t)allowed;
}

size_t dispatcher_capacity(struct node *node)
{
    if (node->settings.no_dispatch || atomic_load(&node->paused) || atomic_load(&node->desired_state) != NODE_RUN ||
        atomic_load(&node->stop_kind) != 0 || !atomic_load(&node->has_target)) {
        return 0;
    }
    size_t room = engine_free_capacity(node->engine);
    pthread_mutex_lock(&node->lock);
    size_t capacity = node->in_flight.count + (size_t)breaker_peek_starts(&node->breaker, (int64_t)room, node_now(node));
    pthread_mutex_unlock(&node->lock);
    return capacity;
}

/* No room: an answer to a start wakes us, or the record of an end, when it has given some back. The engine hears of that
 * record in a thread of its own, so it may not have let go yet what has ended; nobody wakes us when it has. An open
 * breaker names the time. */
void dispatcher_await_room(struct node *node, int64_t now_us, int64_t *ret_next_us)
{
    size_t running = engine_running(node->engine);
    atomic_store(&node->awaits_room, true);
    if (!dispatcher_may_start(node)) {
        return;
    }
    pthread_mutex_lock(&node->lock);
    int64_t probe_us = breaker_next(&node->breaker);
    *ret_next_us = earlier(*ret_next_us, probe_us > now_us ? probe_us : TIME_NEVER);
    if (running > node->in_flight.count) {
        *ret_next_us = earlier(*ret_next_us, time_add(now_us, ROOM_LOOK_US));
    }
    pthread_mutex_unlock(&node->lock);
}

/* The base under all wake-ups, at a random distance (nFlow), so that nodes do not poll in step. Each step of the scheduler
 * is a poll, and the next one counts from it. */
static int64_t next_poll(struct node *node, int64_t now_us)
{
    int64_t interval_us = node->tuning.poll_interval_us;
    if (node->scheduling.epoch != 0 || now_us >= node->next_poll_boot_us ||
        node->next_poll_boot_us > time_add(now_us, interval_us)) {
        pthread_mutex_lock(&node->lock);
        int64_t half_us = interval_us / 2;
        node->next_poll_boot_us = time_add(now_us, half_us + (int64_t)random_below(&node->random, (uint64_t)half_us + 1));
        pthread_mutex_unlock(&node->lock);
    }
    return node->next_poll_boot_us;
}

/* The node has come back under a new id: its old claims and its role belong to the old one. */
static void notice_new_id(struct node *node)
{
    int64_t id = atomic_load(&node->id);
    if (node->dispatch_id != id) {
        scheduling_lose(node, "the node has a new id");
        inbox_reset(node);
        store_wake_for(node->stores[LOOP_DISPATCH], id, false);
        node->dispatch_id = id;
    }
}

/* Without memory the next set waits a little. */
static enum weir_status give_back(struct node *node, struct weir_error *error)
{
    bool is_short = node->unkept.batch != NULL && node->unkept.reason == UNKEPT_OUT_OF_MEMORY;
    enum weir_status status = unkept_give_back(node, error);
    return status == WEIR_OK && is_short ? error_out_of_memory(error) : status;
}

static enum weir_status work(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    enum weir_status status = unkept_give_back(node, error);
    if (status == WEIR_OK && (node->inbox.is_due || node->scheduling.epoch == 0)) {
        status = inbox_step(node, now_us, ret_next_us, error);
    }
    if (status == WEIR_OK && node->inbox.is_due && node->scheduling.epoch != 0) {
        status = inbox_step(node, now_us, ret_next_us, error); /* a role that was just taken */
    }
    if (status == WEIR_OK) {
        status = give_back(node, error);
    }
    if (status == WEIR_OK && node->scheduling.epoch != 0) {
        status = scheduling_step(node, now_us, ret_next_us, error);
    }
    if (status == WEIR_OK) {
        status = give_back(node, error);
    }
    return status == WEIR_OK ? inbox_pass_requests(node, error) : status;
}

int64_t dispatcher_step(struct node *node)
{
    int64_t now_us = node_now(node);
    int64_t next_us;
    struct weir_error error = {.status = WEIR_OK};
    int stop = atomic_load(&node->stop_kind);
    if (loop_is_backing_off(node, LOOP_DISPATCH, now_us, &next_us)) {
        return next_us;
    }
    if (stop != 0) {
        return stop_step(node, now_us, (enum node_stop_kind)(stop - 1)); /* shutdown.c */
    }
    if (atomic_load(&node->lease_lost)) {
        scheduling_lose(node, "the node's lease was lost");
        inbox_reset(node);
        return TIME_NEVER; /* the heartbeat loop registers anew and wakes us */
    }
    notice_new_id(node);
    next_us = next_poll(node, now_us);
    enum weir_status status = work(node, now_us, &next_us, &error);
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_DISPATCH, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_DISPATCH);
    return earlier(next_us, starter_send_again(node, now_us));
}
