/* The heartbeat loop: renews the lease of this node in store time, reports its state, and receives the orders of
 * operators.
 *
 * The loop has a store handle of its own and makes no other calls, so no heartbeat waits behind other work. A step:
 *
 *   1. A lost lease: register again, under a new id. The old id never comes back, because another node may hold its
 *      items.
 *   2. An engine that lost a report has another view than the recorder: the node gives its lease up.
 *   3. Send the heartbeat when it is due (three times a lease), when another loop requested it, or when the state has
 *      changed that the scheduler decides with.
 *   4. The engine's target is stored before the first heartbeat that has one; until then nothing is assigned to the node.
 *      An engine that reaches another service knows none of the held items: the node gives its lease up.
 *   5. The new end of the lease counts from before the heartbeat was sent, less a margin in which the keeper kills steps.
 *      So this node stops before another node takes its items over.
 *   6. Record the handlers after the registration. Once a minute a node with handlers also looks for items that wait for
 *      them: a node may have put one back while this one registered. Each call follows a heartbeat, so that neither a
 *      failure nor many waiting items end the lease.
 *
 * A lease is lost in one place, lose_lease(): all starts and runs are abandoned under start_lock, before the node
 * registers again. The loop never waits for another loop, except for a start that is under way. The heartbeat thread runs
 * it.
 */
#include "dispatch/heartbeat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/capacity.h"
#include "dispatch/engine_health.h"
#include "dispatch/loop.h"
#include "dispatch/maintenance.h"
#include "dispatch/neighbours.h"
#include "dispatch/node_internal.h"
#include "dispatch/wake_up.h"

/* The time before the end of a lease at which the keeper begins to kill steps. */
static int64_t keeper_margin(const struct node *node)
{
    return earlier(node->settings.lease_us / KEEPER_MARGIN_PART, KEEPER_MARGIN_US);
}

static enum not_accepting not_accepting_of(struct node *node)
{
    if (atomic_load(&node->shared.stop_kind) != 0) {
        return NOT_ACCEPTING_STOPPING;
    }
    return atomic_load(&node->shared.paused) ? NOT_ACCEPTING_PAUSED : NODE_ACCEPTING;
}

/* Whether the next heartbeat comes before its time, because its report would differ much from the last one. A stop without
 * running executions ends before a heartbeat would arrive. */
static bool beats_early(struct node *node)
{
    const struct heartbeat *last = &node->heartbeat;
    enum not_accepting not_accepting = not_accepting_of(node);
    size_t capacity = capacity_total(node);
    if (not_accepting == last->reported_not_accepting && not_accepting == NODE_ACCEPTING) {
        return capacity == 0 ? last->reported_capacity > 0
                             : capacity > last->reported_capacity * 2 || capacity < last->reported_capacity / 2;
    }
    return not_accepting != last->reported_not_accepting &&
           (not_accepting != NOT_ACCEPTING_STOPPING || engine_running(node->engine) > 0);
}

/* A call that was sent at `sent_us` has renewed the lease. */
static void extend_lease(struct node *node, int64_t sent_us)
{
    int64_t end_us = time_add(sent_us, node->settings.lease_us - keeper_margin(node));
    atomic_store(&node->shared.lease_end_boot_us, end_us);
    engine_lease(node->engine, end_us);
}

/* --- handlers --- */

static bool has_handlers(struct node *node)
{
    (void)pthread_mutex_lock(&node->shared.lock);
    bool has = node->handlers != NULL;
    (void)pthread_mutex_unlock(&node->shared.lock);
    return has;
}

static char *copy_handlers(struct node *node)
{
    (void)pthread_mutex_lock(&node->shared.lock);
    char *names = strdup(node->handlers);
    (void)pthread_mutex_unlock(&node->shared.lock);
    return names;
}

/* Step 6, one batch. Whatever is not done yet is repeated after the next heartbeat, and a failure is an event of the
 * store. */
static void offer_handlers(struct node *node)
{
    bool more = false;
    atomic_store(&node->shared.handlers_due, false); /* before the copy: a change after it is due again */
    char *names = copy_handlers(node);
    struct node_handlers handlers = {.language = node->language[0] == '\0' ? NULL : node->language, .names = names};
    if (names == NULL) {
        atomic_store(&node->shared.handlers_due, true); /* memory is short */
        return;
    }
    enum weir_status status =
        store_node_handlers(node->stores[LOOP_HEARTBEAT], atomic_load(&node->shared.id), &handlers, &more, NULL);
    free(names);
    if (status != WEIR_OK || more) {
        atomic_store(&node->shared.handlers_due, true);
    }
    if (status == WEIR_OK) {
        node->heartbeat.offered_us = node_now(node);
    }
    if (status == WEIR_OK && more) {
        loop_request_heartbeat(node);
    }
}

/* Whether the store must learn of the handlers, or items may wait for them. A paused node makes no item due, because
 * only the nodes that lack the handler would get it. */
static bool must_offer(struct node *node, int64_t now_us)
{
    bool accepts = not_accepting_of(node) == NODE_ACCEPTING && atomic_load(&node->shared.desired_state) == NODE_RUN;
    bool is_time = accepts && now_us - node->heartbeat.offered_us >= OFFER_AGAIN_US;
    return has_handlers(node) && (is_time || atomic_load(&node->shared.handlers_due));
}

/* --- registering --- */

enum weir_status heartbeat_register(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL && !atomic_load(&node->shared.leaves));
    struct heartbeat *heartbeat = &node->heartbeat;
    char host[128] = "unknown";
    int64_t id = 0;
    int64_t began_us = node_now(node);
    bool has_target = engine_target(node->engine, &heartbeat->target);
    atomic_store(&node->shared.has_target, has_target);
    (void)gethostname(host, sizeof host - 1);
    struct node_options options = {
        .name = node->name,
        .group = node->group,
        .host = host,
        .boot_id = node->boot_id,
        .life = heartbeat->life.name,
        .pid = (long)getpid(),
        .keeper_pid = engine_keeper_pid(node->engine),
        .version = WEIR_VERSION,
        .engine = engine_name(node->engine),
        .is_outlived = !engine_has(node->engine, ENGINE_DIES_WITH_NODE),
        .not_accepting = not_accepting_of(node),
        .starts_paused = node->settings.starts_paused,
        .capacity = capacity_total(node),
        .target = has_target ? &heartbeat->target : NULL,
        .lease_us = node->settings.lease_us,
    };
    enum weir_status status = store_node_start(node->stores[LOOP_HEARTBEAT], &options, &id, error);
    if (status == WEIR_OK && id <= 0) {
        status = error_set(error, WEIR_STORE_CORRUPT, "the store gave the node the id %lld", (long long)id);
    }
    if (status == WEIR_OK) {
        atomic_store(&node->shared.id, id);
        heartbeat->reported_not_accepting = options.not_accepting;
        heartbeat->reported_capacity = options.capacity;
        heartbeat->seen_beats = 0;
        extend_lease(node, began_us);
        neighbours_begin(node);
        struct event event = {.type = EVENT_NODE_STARTED, .node = node->name, .group = node->group, .count = id};
        event_emit(node->events, &event);
    }
    if (status == WEIR_OK && has_handlers(node)) {
        offer_handlers(node);
    }
    return status;
}

/* Step 1. */
static int64_t register_again(struct node *node, int64_t now_us)
{
    struct weir_error error = {.status = WEIR_OK};
    pthread_mutex_lock(&node->shared.register_lock);
    bool leaves = atomic_load(&node->shared.leaves);
    enum weir_status status = leaves ? WEIR_OK : heartbeat_register(node, &error);
    pthread_mutex_unlock(&node->shared.register_lock);
    if (leaves) {
        return TIME_NEVER; /* a new row would stay in the list of nodes until its lease ends */
    }
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_HEARTBEAT, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_HEARTBEAT);
    atomic_store(&node->shared.lease_lost, false);
    loop_wake(node, LOOP_DISPATCH);
    loop_wake(node, LOOP_RECORD);
    if (!node_reaches_engine(node)) { /* a new row shows the engine as reachable */
        atomic_store(&node->shared.next_beat_us, 0);
        return now_us;
    }
    return time_add(now_us, beat_interval(node));
}

/* Other nodes own the items that this node held. `error`: the reason if the node gives its lease up by itself, or NULL. */
static void lose_lease(struct node *node, const char *error)
{
    struct event event = {.type = EVENT_LEASE_LOST, .node = node->name, .error = error};
    pthread_mutex_lock(&node->shared.start_lock); /* a start that was still allowed is abandoned with the others */
    atomic_store(&node->shared.lease_lost, true);
    engine_abandon(node->engine, NULL, 0);
    pthread_mutex_lock(&node->shared.lock);
    in_flight_clear(&node->shared.in_flight);
    pthread_mutex_unlock(&node->shared.lock);
    pthread_mutex_unlock(&node->shared.start_lock);
    slot_demand_clear(&node->slot_demand);
    event_emit(node->events, &event);
}

/* --- the heartbeat --- */

static bool is_same_target(const struct engine_target *a, const struct engine_target *b)
{
    return strcmp(a->engine, b->engine) == 0 && strcmp(a->service, b->service) == 0 &&
           strcmp(a->namespace_name, b->namespace_name) == 0;
}

/* Step 4. WEIR_STALE_FENCE with *ret_has_moved: the engine reaches another service. Only nodes of the old target may take
 * over the items of this node, and it comes back under a new id. */
static enum weir_status send_target(struct node *node, bool *ret_has_moved, struct weir_error *error)
{
    struct engine_target target;
    *ret_has_moved = false;
    if (!engine_target(node->engine, &target)) {
        return WEIR_OK;
    }
    if (atomic_load(&node->shared.has_target)) {
        *ret_has_moved = !is_same_target(&node->heartbeat.target, &target);
        return *ret_has_moved ? WEIR_STALE_FENCE : WEIR_OK;
    }
    enum weir_status status =
        store_node_target(node->stores[LOOP_HEARTBEAT], atomic_load(&node->shared.id), &target, error);
    if (status == WEIR_OK) {
        node->heartbeat.target = target;
        atomic_store(&node->shared.has_target, true);
        loop_wake(node, LOOP_DISPATCH);
    }
    return status;
}

static enum weir_status send_heartbeat(struct node *node, struct node_beat *ret_beat, struct weir_error *error)
{
    struct engine_condition engine;
    char dispatch_error[WEIR_ERROR_MESSAGE_MAX];
    char record_error[WEIR_ERROR_MESSAGE_MAX];
    int64_t dispatch_failed_us = loop_read_failure(node, &node->dispatch_failure, dispatch_error);
    int64_t record_failed_us = loop_read_failure(node, &node->record_failure, record_error);
    engine_health_read(node, &engine);
    *ret_beat = (struct node_beat){.engine_reachable = engine.is_reachable,
                                   .engine_impaired = engine.is_impaired,
                                   .engine_error = engine.error[0] == '\0' ? NULL : engine.error,
                                   .dispatch_failed_us = dispatch_failed_us,
                                   .dispatch_error = dispatch_failed_us == 0 ? NULL : dispatch_error,
                                   .record_failed_us = record_failed_us,
                                   .record_error = record_failed_us == 0 ? NULL : record_error,
                                   .keeper_pid = engine_keeper_pid(node->engine),
                                   .running = engine_running(node->engine),
                                   .stuck = maintenance_stuck_count(node),
                                   .not_accepting = not_accepting_of(node),
                                   .capacity = capacity_total(node),
                                   .seen_beats = node->heartbeat.seen_beats};
    enum weir_status status = store_node_beat(node->stores[LOOP_HEARTBEAT], atomic_load(&node->shared.id), ret_beat, error);
    ret_beat->engine_error = NULL; /* they were of this function */
    ret_beat->dispatch_error = NULL;
    ret_beat->record_error = NULL;
    return status;
}

/* An operator's order. */
static void apply_desired_state(struct node *node, enum desired_state desired_state)
{
    int before = atomic_exchange(&node->shared.desired_state, (int)desired_state);
    if (before == (int)desired_state) {
        return;
    }
    struct event event = {.type = desired_state == NODE_RUN ? EVENT_NODE_RESUMED : EVENT_NODE_PAUSED,
                          .node = node->name,
                          .reason = desired_state_name(desired_state)};
    event_emit(node->events, &event);
    if (desired_state == NODE_STOP) {
        node_begin_stop(node, NODE_STOP_GRACEFUL);
    }
    loop_wake(node, LOOP_DISPATCH);
}

/* When the breaker lets a probe through, the scheduler must learn that the node has capacity for one. */
static int64_t next_heartbeat(struct node *node, int64_t now_us)
{
    return earlier(atomic_load(&node->shared.next_beat_us), engine_health_probe_us(node, now_us));
}

/* The heartbeat that was sent at now_us was answered. */
static void take_answer_of_beat(struct node *node, const struct node_beat *beat, int64_t now_us)
{
    struct heartbeat *heartbeat = &node->heartbeat;
    life_touch(&heartbeat->life);
    heartbeat->reported_not_accepting = beat->not_accepting;
    heartbeat->reported_capacity = beat->capacity;
    heartbeat->seen_beats = beat->beats;
    if (!lease_is_valid(node)) {
        loop_wake(node, LOOP_DISPATCH); /* it has started nothing since the end of the lease */
    }
    bool others_lost = neighbours_update(node, beat); /* it looks at the old lease */
    extend_lease(node, now_us);
    if (others_lost) {
        loop_wake(node, LOOP_MAINTENANCE);
    }
    apply_desired_state(node, beat->desired_state);
}

/* Steps 3 to 6. */
static int64_t beat_when_due(struct node *node, int64_t now_us)
{
    struct weir_error error = {.status = WEIR_OK};
    struct node_beat beat;
    bool has_moved;
    if (now_us < atomic_load(&node->shared.next_beat_us) && !beats_early(node)) {
        return next_heartbeat(node, now_us);
    }
    /* Set before anything is read: a change after this requests the next heartbeat. */
    atomic_store(&node->shared.next_beat_us, time_add(now_us, beat_interval(node)));
    enum weir_status status = send_target(node, &has_moved, &error);
    if (status == WEIR_OK) {
        status = send_heartbeat(node, &beat, &error);
    }
    if (status == WEIR_STALE_FENCE && atomic_load(&node->shared.leaves)) {
        return TIME_NEVER; /* shutdown.c has removed the row */
    }
    if (status == WEIR_STALE_FENCE) {
        lose_lease(node, has_moved ? "its engine reaches another service than before" : NULL);
        return now_us;
    }
    if (status != WEIR_OK) {
        atomic_store(&node->shared.next_beat_us, 0); /* the report has not arrived */
        return loop_failed(node, LOOP_HEARTBEAT, now_us, status, &error);
    }
    FAILPOINT("after_beat");
    loop_succeeded(node, LOOP_HEARTBEAT);
    take_answer_of_beat(node, &beat, now_us);
    if (must_offer(node, now_us)) {
        offer_handlers(node);
    }
    return next_heartbeat(node, now_us);
}

/* --- the loop --- */

int64_t heartbeat_step(struct node *node)
{
    INVARIANT(node != NULL);
    int64_t now_us = node_now(node);
    int64_t next_us;
    if (atomic_load(&node->shared.stopped)) {
        return TIME_NEVER;
    }
    if (loop_is_backing_off(node, LOOP_HEARTBEAT, now_us, &next_us)) {
        return next_us;
    }
    if (atomic_load(&node->shared.lease_lost)) {
        return register_again(node, now_us);
    }
    if (engine_take_lost_report(node->engine)) {
        /* Step 2. The claims are handed over when the lease of the old id ends. */
        lose_lease(node, "the node ran out of memory and gave up its executions");
        return now_us;
    }
    return beat_when_due(node, now_us);
}
