/* The end of a node: what runs is awaited, then interrupted, then handed over, each with its own deadline, and the node
 * takes itself from the list of nodes. In the dispatcher's loop. */
#include "base/error.h"
#include "dispatch/node_internal.h"

static bool is_idle(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    bool idle = node->in_flight.count == 0;
    pthread_mutex_unlock(&node->lock);
    return idle && recorder_is_empty(node) && engine_running(node->engine) == 0;
}

static void begin_stop(struct node *node, int64_t now_us)
{
    struct event event = {.type = EVENT_NODE_STOPPING, .node = node->name, .count = (int64_t)engine_running(node->engine)};
    node->stop_began_boot_us = now_us;
    event_emit(node->events, &event);
    scheduling_leave(node); /* another node schedules on while this one awaits what runs */
    engine_stop(node->engine, false);
}

static void interrupt(struct node *node, int64_t now_us)
{
    node->interrupt_began_boot_us = now_us;
    if (engine_running(node->engine) > 0) {
        atomic_store(&node->interrupted, true);
    }
    engine_stop(node->engine, true);
}

static void note_at_work(void *context, struct in_flight *entry)
{
    bool *is_at_work = context;
    *is_at_work = *is_at_work || entry->words_waiting == 0;
}

/* All that is left waits for the store, which has taken no record for a while: it is away, and waiting longer would only
 * make the stop longer. Others take over when the lease ends, as from a node that died. */
static bool store_is_away(struct node *node, int64_t now_us)
{
    int64_t since_us = atomic_load(&node->records_fail_since_us);
    bool is_at_work = false;
    if (since_us == 0 || now_us - since_us < STOP_AWAY_US) {
        return false;
    }
    pthread_mutex_lock(&node->lock);
    in_flight_each(&node->in_flight, note_at_work, &is_at_work);
    pthread_mutex_unlock(&node->lock);
    return !is_at_work;
}

/* From here on the heartbeat's loop takes a lost lease for what it is: the node has left. */
static void leave(struct node *node)
{
    pthread_mutex_lock(&node->register_lock);
    atomic_store(&node->leaves, true);
    pthread_mutex_unlock(&node->register_lock);
}

/* What the node still holds is handed over now, or, when the store cannot be told, at the end of its lease: after that the
 * word is of no use. */
static int64_t finish_stop(struct node *node, int64_t now_us, bool is_away)
{
    struct weir_error error;
    bool graceful = !atomic_load(&node->interrupted);
    enum weir_status status = WEIR_STORE_UNREACHABLE;
    engine_abandon(node->engine, NULL, 0);
    leave(node);
    if (!is_away) {
        lock_drop(node, node->stores[LOOP_DISPATCH], &node->exclusive);
        status = store_node_stop(node->stores[LOOP_DISPATCH], atomic_load(&node->id), graceful, &error);
    }
    if (status != WEIR_OK && !is_away && lease_is_valid(node) &&
        now_us - node->stop_began_boot_us < node->tuning.stop_grace_us + STOP_LAST_US) {
        return loop_failed(node, LOOP_DISPATCH, now_us, status, &error);
    }
    struct event event = {.type = EVENT_NODE_STOPPED, .node = node->name, .reason = graceful ? "graceful" : "interrupted"};
    if (status != WEIR_OK) {
        pthread_mutex_lock(&node->lock);
        event.count = (int64_t)node->in_flight.count;
        pthread_mutex_unlock(&node->lock);
        event.reason = "store_away";
        event.error = "what it held is handed over when its lease ends";
        atomic_store(&node->left_behind, (size_t)event.count);
    }
    event_emit(node->events, &event);
    atomic_store(&node->stopped, true);
    for (int loop = 0; loop < LOOP_COUNT; loop++) {
        loop_wake(node, (enum loop)loop);
    }
    return TIME_NEVER;
}

int64_t stop_step(struct node *node, int64_t now_us, enum node_stop_kind kind)
{
    if (atomic_load(&node->stopped)) {
        return TIME_NEVER;
    }
    if (node->stop_began_boot_us == 0) {
        begin_stop(node, now_us);
    }
    int64_t interrupt_at_us =
        kind == NODE_STOP_INTERRUPT ? now_us : time_add(node->stop_began_boot_us, node->tuning.stop_grace_us);
    if (now_us >= interrupt_at_us && node->interrupt_began_boot_us == 0) {
        interrupt(node, now_us);
    }
    int64_t last_us =
        node->interrupt_began_boot_us == 0 ? TIME_NEVER : time_add(node->interrupt_began_boot_us, STOP_LAST_US);
    bool is_away = node->interrupt_began_boot_us != 0 && store_is_away(node, now_us);
    if (is_idle(node) || now_us >= last_us || is_away) {
        return finish_stop(node, now_us, is_away);
    }
    int64_t next_us = node->interrupt_began_boot_us == 0 ? interrupt_at_us : last_us;
    return earlier(next_us, time_add(now_us, LOOP_RETRY_FIRST_US));
}
