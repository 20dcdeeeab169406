/* The heartbeat loop: renews the lease in store time, hears what operators want, and stands up again after a lost lease. It
 * has a store handle of its own and does nothing else, so it never waits behind other work. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/uuid.h"
#include "dispatch/heartbeat.h"
#include "dispatch/node_internal.h"

enum { BEATS_PER_LEASE = 3 };

/* The boot of the machine and the namespace of its process ids: only nodes with the same text look at each other's
 * processes. The proof that they run on one machine is life.h. */
void nodes_machine_id(char *to, size_t size)
{
    char boot[64] = "";
    struct stat facts;
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, boot, sizeof boot - 1);
    if (file >= 0) {
        (void)close(file);
    }
    if (got > 0 && stat("/proc/self/ns/pid", &facts) == 0) {
        boot[strcspn(boot, "\n")] = '\0';
        (void)snprintf(to, size, "%s:%lu", boot, (unsigned long)facts.st_ino);
    } else {
        uuid_make(clock_wall(clock_system()), boot);
        (void)snprintf(to, size, "unknown:%s", boot);
    }
}

/* Gone, or dead and only not yet waited for by its parent. */
static bool process_is_gone(long pid)
{
    char path[64];
    char text[256] = "";
    if (kill((pid_t)pid, 0) != 0) {
        return errno == ESRCH;
    }
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) {
        (void)close(file);
    }
    const char *state = got > 0 ? strrchr(text, ')') : NULL;
    return state != NULL && state[1] == ' ' && state[2] == 'Z';
}

bool nodes_is_gone(const struct node_neighbour *neighbour)
{
    return neighbour->pid > 0 && process_is_gone(neighbour->pid) &&
           (neighbour->keeper_pid <= 0 || process_is_gone(neighbour->keeper_pid)) && life_is_over(neighbour->life);
}

static int64_t keeper_margin(const struct node *node)
{
    int64_t part_us = node->settings.lease_us / KEEPER_MARGIN_PART;
    return part_us < KEEPER_MARGIN_US ? part_us : KEEPER_MARGIN_US;
}

static enum not_accepting not_accepting_of(struct node *node)
{
    if (atomic_load(&node->stop_kind) != 0) {
        return NOT_ACCEPTING_STOPPING;
    }
    if (node->settings.no_dispatch) {
        return NOT_ACCEPTING_NO_DISPATCH;
    }
    return atomic_load(&node->paused) ? NOT_ACCEPTING_PAUSED : NODE_ACCEPTING;
}

/* Whether the next heartbeat comes before its time, to tell what has changed. A stop with nothing to await ends before. */
static bool beats_early(struct node *node)
{
    enum not_accepting not_accepting = not_accepting_of(node);
    size_t capacity = dispatcher_capacity(node);
    if (not_accepting == node->reported_not_accepting && not_accepting == NODE_ACCEPTING) {
        return capacity == 0 ? node->reported_capacity > 0
                             : capacity > node->reported_capacity * 2 || capacity < node->reported_capacity / 2;
    }
    return not_accepting != node->reported_not_accepting &&
           (not_accepting != NOT_ACCEPTING_STOPPING || engine_running(node->engine) > 0);
}

static enum weir_status register_node(struct node *node, struct store *store, struct weir_error *error)
{
    char host[128] = "unknown";
    int64_t id = 0;
    int64_t began_us = node_now(node);
    bool has_target = engine_target(node->engine, &node->target);
    atomic_store(&node->has_target, has_target);
    (void)gethostname(host, sizeof host - 1);
    struct node_options options = {
        .name = node->name,
        .group = node->group,
        .host = host,
        .boot_id = node->boot_id,
        .life = node->life.name,
        .pid = (long)getpid(),
        .keeper_pid = engine_keeper_pid(node->engine),
        .version = WEIR_VERSION,
        .engine = engine_name(node->engine),
        .is_outlived = !engine_has(node->engine, ENGINE_DIES_WITH_NODE),
        .not_accepting = not_accepting_of(node),
        .capacity = dispatcher_capacity(node),
        .target = has_target ? &node->target : NULL,
        .lease_us = node->settings.lease_us,
    };
    enum weir_status status = store_node_start(store, &options, &id, error);
    if (status == WEIR_OK) {
        atomic_store(&node->id, id);
        node->reported_not_accepting = options.not_accepting;
        node->reported_capacity = options.capacity;
        node->beat_seen_us = 0;
        atomic_store(&node->lease_end_boot_us, time_add(began_us, node->settings.lease_us - keeper_margin(node)));
        engine_lease(node->engine, atomic_load(&node->lease_end_boot_us));
        struct event event = {.type = EVENT_NODE_STARTED, .node = node->name, .group = node->group, .count = id};
        event_emit(node->events, &event);
    }
    return status;
}

enum weir_status nodes_register(struct node *node, struct store *store, struct weir_error *error)
{
    return register_node(node, store, error);
}

/* Others own what this node held. Everything is dropped before the node comes back under a new id. `error`: why it gave its
 * lease up by itself, or NULL. */
static void lose_lease(struct node *node, const char *error)
{
    struct event event = {.type = EVENT_LEASE_LOST, .node = node->name, .error = error};
    pthread_mutex_lock(&node->start_lock); /* a start that was still allowed is abandoned with the others */
    atomic_store(&node->lease_lost, true);
    engine_abandon(node->engine, NULL, 0);
    pthread_mutex_lock(&node->lock);
    in_flight_clear(&node->in_flight);
    pthread_mutex_unlock(&node->lock);
    pthread_mutex_unlock(&node->start_lock);
    slot_demand_clear(&node->slot_demand);
    event_emit(node->events, &event);
}

static bool is_same_target(const struct engine_target *a, const struct engine_target *b)
{
    return strcmp(a->engine, b->engine) == 0 && strcmp(a->service, b->service) == 0 &&
           strcmp(a->namespace_name, b->namespace_name) == 0;
}

/* The store gets the engine's target as soon as it is known, before anything is assigned to this node. An engine that
 * reaches another service than before knows nothing of what this node holds: the claims are given up, so that only nodes of
 * the old target take them over, and the node comes back under a new id. */
static enum weir_status tell_target(struct node *node, bool *ret_has_moved, struct weir_error *error)
{
    struct engine_target target;
    *ret_has_moved = false;
    if (!engine_target(node->engine, &target)) {
        return WEIR_OK;
    }
    if (atomic_load(&node->has_target)) {
        *ret_has_moved = !is_same_target(&node->target, &target);
        return *ret_has_moved ? WEIR_STALE_FENCE : WEIR_OK;
    }
    enum weir_status status = store_node_target(node->stores[LOOP_HEARTBEAT], atomic_load(&node->id), &target, error);
    if (status == WEIR_OK) {
        node->target = target;
        atomic_store(&node->has_target, true);
        loop_wake(node, LOOP_DISPATCH);
    }
    return status;
}

static int64_t stand_up(struct node *node, int64_t now_us)
{
    struct weir_error error = {.status = WEIR_OK};
    pthread_mutex_lock(&node->register_lock);
    bool leaves = atomic_load(&node->leaves);
    enum weir_status status = leaves ? WEIR_OK : register_node(node, node->stores[LOOP_HEARTBEAT], &error);
    pthread_mutex_unlock(&node->register_lock);
    if (leaves) {
        return TIME_NEVER; /* nobody would take it from the list of nodes before its lease ends */
    }
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_HEARTBEAT, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_HEARTBEAT);
    atomic_store(&node->lease_lost, false);
    loop_wake(node, LOOP_DISPATCH);
    loop_wake(node, LOOP_RECORD);
    if (!node_reaches_engine(node)) { /* a new row says that it is */
        atomic_store(&node->next_beat_us, 0);
        return now_us;
    }
    return time_add(now_us, node->settings.lease_us / BEATS_PER_LEASE);
}

static void obey(struct node *node, enum desired_state desired_state)
{
    int before = atomic_exchange(&node->desired_state, (int)desired_state);
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

/* What the duties' loop would otherwise have to ask the store for. */
static void hear_of_others(struct node *node, const struct node_beat *beat, int64_t now_us)
{
    if ((store_features(node->stores[LOOP_HEARTBEAT]) & STORE_SHARED) == 0) {
        return;
    }
    pthread_mutex_lock(&node->lock);
    memcpy(node->neighbours, beat->neighbours, beat->neighbour_count * sizeof beat->neighbours[0]);
    node->neighbour_count = beat->neighbour_count;
    pthread_mutex_unlock(&node->lock);
    atomic_store(&node->told_of_others_us, now_us);
    if (beat->others_lost) {
        atomic_store(&node->others_lost, true);
        loop_wake(node, LOOP_DUTIES);
    }
}

/* When the breaker lets a probe through, the scheduler must know that there is room for one. */
static int64_t next_beat(struct node *node, int64_t now_us)
{
    pthread_mutex_lock(&node->lock);
    int64_t probe_us = breaker_next(&node->breaker);
    pthread_mutex_unlock(&node->lock);
    return earlier(atomic_load(&node->next_beat_us), probe_us > now_us ? probe_us : TIME_NEVER);
}

static enum weir_status send_beat(struct node *node, struct node_beat *ret_beat, struct weir_error *error)
{
    char engine_error[sizeof node->engine_error];
    pthread_mutex_lock(&node->lock);
    bool reachable = node->breaker.state == BREAKER_CLOSED;
    bool impaired = reachable && node->engine_impairment[0] != '\0';
    memcpy(engine_error, impaired ? node->engine_impairment : node->engine_error, sizeof engine_error);
    pthread_mutex_unlock(&node->lock);
    *ret_beat = (struct node_beat){.engine_reachable = reachable,
                                   .engine_impaired = impaired,
                                   .engine_error = engine_error[0] == '\0' ? NULL : engine_error,
                                   .keeper_pid = engine_keeper_pid(node->engine),
                                   .running = engine_running(node->engine),
                                   .stuck = atomic_load(&node->stuck),
                                   .not_accepting = not_accepting_of(node),
                                   .capacity = dispatcher_capacity(node),
                                   .seen_us = node->beat_seen_us};
    return store_node_beat(node->stores[LOOP_HEARTBEAT], atomic_load(&node->id), ret_beat, error);
}

int64_t nodes_step(struct node *node)
{
    int64_t now_us = node_now(node);
    int64_t next_us;
    struct weir_error error = {.status = WEIR_OK};
    if (atomic_load(&node->stopped)) {
        return TIME_NEVER;
    }
    if (loop_is_backing_off(node, LOOP_HEARTBEAT, now_us, &next_us)) {
        return next_us;
    }
    if (atomic_load(&node->lease_lost)) {
        return stand_up(node, now_us);
    }
    if (engine_take_lost_report(node->engine)) {
        /* It and the recorder no longer agree on what runs. The claims are handed over when the old id's lease ends. */
        lose_lease(node, "this node had no memory left, and gave up what it ran");
        return now_us;
    }
    if (now_us < atomic_load(&node->next_beat_us) && !beats_early(node)) {
        return next_beat(node, now_us);
    }
    /* Before anything is read: what changes while this one is on its way asks for the next one at once. */
    atomic_store(&node->next_beat_us, time_add(now_us, node->settings.lease_us / BEATS_PER_LEASE));
    struct node_beat beat;
    bool has_moved;
    enum weir_status status = tell_target(node, &has_moved, &error);
    if (status == WEIR_OK) {
        status = send_beat(node, &beat, &error);
    }
    if (status == WEIR_STALE_FENCE && atomic_load(&node->leaves)) {
        return TIME_NEVER;
    }
    if (status == WEIR_STALE_FENCE) {
        lose_lease(node, has_moved ? "its engine reaches another service than before" : NULL);
        return now_us;
    }
    if (status != WEIR_OK) {
        atomic_store(&node->next_beat_us, 0); /* nobody has heard it */
        return loop_failed(node, LOOP_HEARTBEAT, now_us, status, &error);
    }
    FAILPOINT("after_beat");
    life_touch(&node->life);
    node->reported_not_accepting = beat.not_accepting;
    node->reported_capacity = beat.capacity;
    node->beat_seen_us = beat.now_us;
    loop_succeeded(node, LOOP_HEARTBEAT);
    if (!lease_is_valid(node)) {
        /* The store was away, perhaps for all: who lives shall have the time to say so before we take him for dead. */
        atomic_store(&node->judges_from_us, time_add(now_us, node->settings.lease_us));
        loop_wake(node, LOOP_DISPATCH); /* it has held back since our lease was over */
    }
    atomic_store(&node->lease_end_boot_us, time_add(now_us, node->settings.lease_us - keeper_margin(node)));
    engine_lease(node->engine, atomic_load(&node->lease_end_boot_us));
    hear_of_others(node, &beat, now_us);
    obey(node, beat.desired_state);
    return next_beat(node, now_us);
}
