/* The duties' loop: recovery of dead nodes, the safety net for stale claims, stuck warnings, retention, at-capacity
 * notices.
 *
 * Recovery of dead nodes runs on every node without a lock: it is one guarded transaction, and whoever comes first does it.
 * What should happen once for all nodes is done under a lock of the shedlock table; correctness does not depend on it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "dispatch/heartbeat.h"
#include "dispatch/node_internal.h"

#define CAPACITY_NOTICE_US (60 * MICROSECONDS_PER_SECOND)
/* Retention is applied each hundredth of its time, between these two. */
#define RETENTION_INTERVAL_US (60 * MICROSECONDS_PER_SECOND)
#define RETENTION_INTERVAL_MOST_US (600 * MICROSECONDS_PER_SECOND)
#define STUCK_LOOK_US (1 * MICROSECONDS_PER_SECOND)

enum { CAPACITY_WORKSPACES = 100, RETENTION_PART = 100 };

/* --- locks --- */

static void new_holder(struct node *node, struct held_lock *lock)
{
    pthread_mutex_lock(&node->lock);
    uint64_t token = random_next(&node->random);
    pthread_mutex_unlock(&node->lock);
    (void)snprintf(lock->holder, sizeof lock->holder, "%s:%ld:%lld:%016llx", node->name, (long)getpid(),
                   (long long)atomic_load(&node->id), (unsigned long long)token);
}

bool lock_hold(struct node *node, struct store *store, struct held_lock *lock, int64_t now_us)
{
    struct weir_error error;
    struct lock_request request = {
        .name = lock->name, .holder = lock->holder, .at_most_us = lock->at_most_us, .at_least_us = lock->at_least_us};
    if (now_us < lock->again_boot_us) {
        return lock->held && now_us < lock->until_boot_us;
    }
    enum weir_status status;
    if (lock->held) {
        status = store_lock_extend(store, &request, &error);
        if (status == WEIR_CONFLICT) {
            struct event event = {.type = EVENT_LOCK_LOST, .reason = lock->name, .node = node->name};
            event_emit(node->events, &event);
            lock->held = false;
            return false;
        }
    } else {
        new_holder(node, lock);
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

void lock_drop(struct node *node, struct store *store, struct held_lock *lock)
{
    struct weir_error error;
    struct lock_request request = {
        .name = lock->name, .holder = lock->holder, .at_most_us = lock->at_most_us, .at_least_us = lock->at_least_us};
    (void)node;
    if (lock->held) {
        enum weir_status status = store_unlock(store, &request, &error);
        (void)status; /* if it fails, the lock runs out by itself */
        lock->held = false;
        lock->again_boot_us = 0;
    }
}

/* --- recovery --- */

/* The safety net of the spec is looked at each minute and takes its lock only when there is something to do: an idle node
 * writes nothing but its heartbeat. */
static enum weir_status wants_stale(struct node *node, struct recover_options options, int64_t now_us, bool *ret_wants,
                                    bool *ret_nothing, struct weir_error *error)
{
    struct recover_result look = {0};
    *ret_wants = false;
    *ret_nothing = false;
    if (now_us < node->next_stale_us) {
        return WEIR_OK;
    }
    options.stale_claim_us = node->tuning.stale_claim_us;
    options.look_only = true;
    enum weir_status status = store_recover(node->stores[LOOP_DUTIES], &options, &look, error);
    *ret_nothing = status == WEIR_OK && !look.more;
    if (status == WEIR_OK && look.more) {
        *ret_wants = lock_hold(node, node->stores[LOOP_DUTIES], &node->stale_lock, now_us);
    }
    return status;
}

/* What is in flight here is no stale claim, however long the engine takes: the same ids are sent again. */
static bool knows_claim(void *context, const char *id, int64_t fence)
{
    struct node *node = context;
    pthread_mutex_lock(&node->lock);
    bool known = in_flight_find(&node->in_flight, id, fence) != NULL;
    pthread_mutex_unlock(&node->lock);
    return known;
}

static bool neighbour_is_gone(struct node *node)
{
    bool gone = false;
    pthread_mutex_lock(&node->lock);
    for (size_t i = 0; i < node->neighbour_count && !gone && node->clock == clock_system(); i++) {
        gone = nodes_is_gone(&node->neighbours[i]);
    }
    pthread_mutex_unlock(&node->lock);
    return gone;
}

/* Whose own lease is over has not reached the store for as long, and so may not have all others. Were they taken for dead,
 * then an outage of the store would count as so many deaths, and make poison of what takes long. */
static bool may_judge(struct node *node, int64_t now_us)
{
    return lease_is_valid(node) && now_us >= atomic_load(&node->judges_from_us);
}

/* A store that is shared is not asked again and again: the heartbeat's answers tell. What can be seen on this machine is
 * looked at all the same. */
static bool should_recover(struct node *node, int64_t now_us)
{
    if (now_us < node->recovery_waits_until_us) {
        return false; /* other transactions hold what is left */
    }
    if (atomic_load(&node->others_lost)) {
        return true;
    }
    if (now_us < node->next_recovery_us) {
        return false;
    }
    node->next_recovery_us = time_add(now_us, RECOVERY_INTERVAL_US);
    return (store_features(node->stores[LOOP_DUTIES]) & STORE_SHARED) == 0 || now_us >= node->next_stale_us ||
           now_us >= time_add(atomic_load(&node->told_of_others_us), RECOVERY_FALLBACK_US) || neighbour_is_gone(node);
}

static enum weir_status recover(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_DUTIES];
    struct recover_result result = {0};
    bool stale = false;
    bool nothing = false; /* not even a stale claim: the look has answered for both */
    struct recover_options options = {
        .node_id = atomic_load(&node->id),
        .group = node->group,
        .boot_id = node->boot_id,
        .is_gone = node->clock == clock_system() ? nodes_is_gone : NULL,
        .handovers_max = node->settings.handovers_max,
        .limit = RECOVER_BATCH,
        .knows = knows_claim,
        .knows_context = node,
    };
    atomic_store(&node->others_lost, false); /* before the look: a heartbeat may report a loss while it is under way */
    enum weir_status status = wants_stale(node, options, now_us, &stale, &nothing, error);
    if (status == WEIR_OK && !nothing) {
        options.stale_claim_us = stale ? node->tuning.stale_claim_us : 0;
        status = store_recover(store, &options, &result, error);
    }
    if (status != WEIR_OK) {
        atomic_store(&node->others_lost, true); /* or it may be: it is looked at again */
        return status;
    }
    if (now_us >= node->next_stale_us && !(stale && result.more)) {
        lock_drop(node, store, &node->stale_lock);
        node->next_stale_us = time_add(now_us, node->tuning.stale_check_us);
    }
    atomic_store(&node->told_of_others_us, now_us);
    bool moves = result.handed_over + result.poisoned + result.nodes > 0; /* else somebody holds what is left */
    node->next_recovery_us = time_add(now_us, !result.more ? RECOVERY_INTERVAL_US : moves ? 0 : LOOP_RETRY_FIRST_US);
    node->recovery_waits_until_us = result.more && !moves ? node->next_recovery_us : 0;
    if (result.more) {
        atomic_store(&node->others_lost, true);
    }
    if (result.handed_over > 0) {
        loop_wake(node, LOOP_DISPATCH);
    }
    return WEIR_OK;
}

/* --- stuck executions --- */

enum { STUCK_PER_LOOK = 64 };

struct stuck_look {
    int64_t now_us;
    size_t stuck;
    size_t due;
    struct {
        char id[UUID_TEXT_MAX];
        char workspace[WORKSPACE_NAME_MAX + 1];
        char workflow[WORKFLOW_NAME_MAX + 1];
        int64_t fence;
        int64_t age_us;
    } items[STUCK_PER_LOOK];
};

static void look_at(void *context, struct in_flight *entry)
{
    struct stuck_look *look = context;
    int64_t age_us = entry->started ? look->now_us - entry->started_boot_us : 0;
    if (!entry->started || age_us < entry->stuck_after_us) {
        return;
    }
    look->stuck++;
    bool warned = entry->warned_boot_us != 0 && look->now_us - entry->warned_boot_us < entry->stuck_after_us;
    if (warned || look->due == STUCK_PER_LOOK) {
        return;
    }
    entry->warned_boot_us = look->now_us;
    memcpy(look->items[look->due].id, entry->id, UUID_TEXT_MAX);
    text_copy(look->items[look->due].workspace, sizeof look->items[0].workspace, entry->workspace);
    text_copy(look->items[look->due].workflow, sizeof look->items[0].workflow, entry->workflow);
    look->items[look->due].fence = entry->fence;
    look->items[look->due].age_us = age_us;
    look->due++;
}

/* Every stuck item is named, once per period; the hook may cancel it (nFlow: handlePotentiallyStuck). */
static void warn_of_stuck(struct node *node, int64_t now_us)
{
    struct stuck_look look = {.now_us = now_us};
    pthread_mutex_lock(&node->lock);
    in_flight_each(&node->in_flight, look_at, &look);
    size_t running = node->in_flight.count;
    pthread_mutex_unlock(&node->lock);
    atomic_store(&node->stuck, look.stuck);
    for (size_t i = 0; i < look.due; i++) {
        struct event event = {.type = EVENT_EXECUTION_STUCK,
                              .execution_id = look.items[i].id,
                              .workspace = look.items[i].workspace,
                              .workflow = look.items[i].workflow,
                              .age_us = look.items[i].age_us,
                              .count = (int64_t)look.stuck,
                              .of = (int64_t)running,
                              .node = node->name,
                              .fence = look.items[i].fence};
        event_emit(node->events, &event);
        if (node->settings.stuck_hook != NULL &&
            node->settings.stuck_hook(node->settings.stuck_context, look.items[i].id, look.items[i].age_us)) {
            engine_cancel(node->engine, look.items[i].id, look.items[i].fence);
        }
    }
    node->next_stuck_us = time_add(now_us, STUCK_LOOK_US);
}

/* --- retention --- */

/* Removes one chunk of what ended before the retention time. */
static enum weir_status purge_chunk(struct node *node, size_t limit, struct bulk_result *result, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_DUTIES];
    int64_t store_now_us = 0;
    int64_t retention_us = node->tuning.retention_us; /* once: it may become "for ever" at any moment */
    enum weir_status status = store_time(store, &store_now_us, error);
    struct execution_filter filter = {
        .states = 1U << ITEM_COMPLETED | 1U << ITEM_FAILED | 1U << ITEM_CANCELLED,
        .finished_before_us = store_now_us - retention_us,
    };
    if (status != WEIR_OK || retention_us <= 0 || filter.finished_before_us <= 0) {
        return status;
    }
    /* Ids begin with their time: nothing that was made later can have ended before. */
    filter.created_before_us = filter.finished_before_us;
    status = store_bulk(store, BULK_PURGE, &filter, node->purged_to, limit, node->name, "retention", result, error);
    if (status == WEIR_OK && result->changed > 0) {
        struct event event = {.type = EVENT_RETENTION_PURGED, .count = (int64_t)result->changed, .node = node->name};
        event_emit(node->events, &event);
    }
    return status;
}

static int64_t retention_interval_us(int64_t retention_us)
{
    int64_t interval_us = retention_us / RETENTION_PART;
    return interval_us < RETENTION_INTERVAL_US ? RETENTION_INTERVAL_US : earlier(interval_us, RETENTION_INTERVAL_MOST_US);
}

/* One chunk per step, so that nothing waits behind it. The first one is small and without the lock: a store with nothing to
 * purge is not written. */
static enum weir_status purge(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_DUTIES];
    struct bulk_result result = {0};
    bool first = !node->retention_lock.held;
    node->next_retention_us = time_add(now_us, retention_interval_us(node->tuning.retention_us));
    if (!first && !lock_hold(node, store, &node->retention_lock, now_us)) {
        return WEIR_OK;
    }
    enum weir_status status = purge_chunk(node, first ? 1 : PURGE_BATCH, &result, error);
    if (status == WEIR_OK && result.more && (!first || lock_hold(node, store, &node->retention_lock, now_us))) {
        text_copy(node->purged_to, sizeof node->purged_to, result.last_id);
        node->next_retention_us = now_us;
    } else {
        node->purged_to[0] = '\0';
        lock_drop(node, store, &node->retention_lock);
    }
    return status;
}

/* --- workspaces at capacity --- */

/* A workspace at capacity has items on some node, and that node gives the notice: an idle node asks the store for nothing.
 */
static bool holds_items(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    bool holds = node->in_flight.count > 0;
    pthread_mutex_unlock(&node->lock);
    return holds;
}

/* The spec's notice, at most one a minute for each, so that a busy tenant cannot flood the log. */
static enum weir_status notice_capacity(struct node *node, int64_t now_us, struct weir_error *error)
{
    json_t *answer = NULL;
    size_t i;
    json_t *workspace;
    node->next_capacity_us = time_add(now_us, CAPACITY_NOTICE_US);
    if (!holds_items(node)) {
        return WEIR_OK;
    }
    enum weir_status status = store_status(node->stores[LOOP_DUTIES], CAPACITY_WORKSPACES, &answer, error);
    json_array_foreach(status == WEIR_OK ? json_object_get(answer, "workspaces") : NULL, i, workspace)
    {
        int64_t used = json_integer_value(json_object_get(workspace, "slots_used"));
        int64_t most = json_integer_value(json_object_get(workspace, "slots_max"));
        int64_t pending = json_integer_value(json_object_get(workspace, "pending"));
        if (pending > 0 && used >= most) {
            slot_demand_told(&node->slot_demand, json_string_value(json_object_get(workspace, "name")));
            struct event event = {.type = EVENT_WORKSPACE_AT_CAPACITY,
                                  .count = pending,
                                  .slots_used = used,
                                  .slots_max = most,
                                  .workspace = json_string_value(json_object_get(workspace, "name")),
                                  .plan = json_string_value(json_object_get(workspace, "plan"))};
            event_emit(node->events, &event);
        }
    }
    json_decref(answer);
    return status;
}

/* --- the loop --- */

int64_t duties_step(struct node *node)
{
    int64_t now_us = node_now(node);
    int64_t next_us;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = WEIR_OK;
    if (atomic_load(&node->stopped)) {
        return TIME_NEVER;
    }
    node->next_stale_us = earlier(node->next_stale_us, time_add(now_us, node->tuning.stale_check_us)); /* node_tune() */
    if (now_us >= node->next_stuck_us) {
        warn_of_stuck(node, now_us);
    }
    if (loop_is_backing_off(node, LOOP_DUTIES, now_us, &next_us) || atomic_load(&node->lease_lost)) {
        return node->next_stuck_us;
    }
    if (!may_judge(node, now_us)) {
        node->next_recovery_us = time_add(now_us, RECOVERY_INTERVAL_US);
    } else if (!node->settings.no_dispatch && should_recover(node, now_us)) {
        status = recover(node, now_us, &error);
    }
    if (status == WEIR_OK && now_us >= node->next_retention_us && node->tuning.retention_us > 0) {
        status = purge(node, now_us, &error);
    }
    if (status == WEIR_OK && now_us >= node->next_capacity_us) {
        status = notice_capacity(node, now_us, &error);
    }
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_DUTIES, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_DUTIES);
    next_us = node->next_stuck_us;
    if (!node->settings.no_dispatch) {
        next_us = earlier(next_us, node->next_recovery_us);
    }
    if (node->tuning.retention_us > 0) {
        next_us = earlier(next_us, node->next_retention_us);
    }
    return earlier(next_us, node->next_capacity_us);
}
