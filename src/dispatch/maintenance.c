/* The loop of the duties: recovery of dead nodes, the safety net for old claims, stuck warnings, retention, and notices
 * of workspaces at capacity. Logs of attempts are written here too (node_logs.c), and events of hooks and times of
 * schedules become executions (hook_duty.c, schedule_duty.c).
 *
 * Recovery:
 *
 *   1. Guard: is the lease of this node valid? When the answers to its heartbeats are late, the leases of the other nodes
 *      prove nothing, until each has had the time to report (neighbours.c).
 *   2. Guard: is there a reason? A heartbeat's answer reported a lost node, or a node has been silent for its lease. Or
 *      this machine shows a dead process, or no answer has arrived for RECOVERY_FALLBACK_US. Or the store is not
 *      shared, or old claims are due. Without a reason a shared store gets no query.
 *   3. Old claims are due every recovery.interval. Old are claims of this node, or of nodes that do not live, that are
 *      CLAIMED for longer than claim.timeout, also by this machine's boot clock. A read without a lock searches them
 *      first. Only if there are any, the lock `recoverStaleQueueItems` is taken: an idle node writes nothing but its
 *      heartbeat.
 *   4. store_recover() hands over the items of dead nodes, and old claims if step 3 holds the lock, at most RECOVER_BATCH
 *      in a transaction. It needs no lock for dead nodes: two nodes may recover at once, and the fence of an item lets it
 *      be handed over once. A claim that this node has in flight is not old, however long its engine takes to answer.
 *   5. If more is left, the next call follows at once. If all of the rest is locked by other transactions, it waits.
 *   6. The dispatcher is woken for the items that were handed over.
 *
 * The other duties run under a lock of the table `shedlock` where one node of the fleet is enough. No correctness depends
 * on these locks. A step does at most one chunk of each duty, so that none waits long for another. The thread of this
 * loop runs it.
 */
#include "dispatch/maintenance.h"

#include <string.h>

#include "base/error.h"
#include "dispatch/archive_duty.h"
#include "dispatch/child_duty.h"
#include "dispatch/history_duty.h"
#include "dispatch/hook_duty.h"
#include "dispatch/loop.h"
#include "dispatch/neighbours.h"
#include "dispatch/node_internal.h"
#include "dispatch/node_logs.h"
#include "dispatch/node_progress.h"
#include "dispatch/schedule_duty.h"
#include "dispatch/shedlock.h"
#include "dispatch/wake_up.h"

#define CAPACITY_NOTICE_US (60 * MICROSECONDS_PER_SECOND)
/* By so much the clocks of two machines may part between two looks without having been set. */
#define CLOCK_STEP_US MICROSECONDS_PER_SECOND
/* After its start a node removes nothing for this time. Meanwhile the role of the scheduler is taken (ten seconds at
 * most), and its holder settles the firings that a former one has enqueued. The retention would remove the keys of
 * those executions. */
#define RETENTION_FIRST_US (15 * MICROSECONDS_PER_SECOND)
/* How often acts past their retention are searched. */
#define AUDIT_INTERVAL_US (3600 * MICROSECONDS_PER_SECOND)
#define STREAM_INTERVAL_US (STREAM_KEEP_US / 10)
#define STUCK_CHECK_US (1 * MICROSECONDS_PER_SECOND)

/* How often the retention looks at all executions. */
#define WHOLE_LOOK_FIRST_US (3600 * MICROSECONDS_PER_SECOND)
#define WHOLE_LOOK_INTERVAL_US (24 * 3600 * MICROSECONDS_PER_SECOND)
#define ID_CLOCK_AHEAD_US (24 * 3600 * MICROSECONDS_PER_SECOND)
enum { CAPACITY_WORKSPACES = 100 };

void maintenance_init(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    struct maintenance *m = &node->maintenance;
    m->stale_lock = (struct shedlock){.name = "recoverStaleQueueItems",
                                      .at_most_us = 120 * MICROSECONDS_PER_SECOND,
                                      .at_least_us = 30 * MICROSECONDS_PER_SECOND};
    m->retention_lock = (struct shedlock){.name = "weirRetention", .at_most_us = 60 * MICROSECONDS_PER_SECOND};
    m->purge_batch = PURGE_BATCH;
    m->steady_since_us = TIME_NEVER;
    m->next_stale_us = time_add(now_us, node->tuning.stale_check_us);
    m->next_capacity_us = time_add(now_us, CAPACITY_NOTICE_US);
    m->next_stream_us = time_add(now_us, STREAM_INTERVAL_US);
    m->next_retention_us = time_add(now_us, RETENTION_FIRST_US);
    m->next_whole_look_us = time_add(now_us, WHOLE_LOOK_FIRST_US);
    int64_t acts_kept_us = node->tuning.audit_retention_us;
    m->next_audit_us = time_add(now_us, acts_kept_us > 0 ? earlier(acts_kept_us, LOOP_PASS_LEAST_US) : 0);
    int64_t logs_kept_us = node->tuning.log_retention_us;
    node->logs.next_retention_us = time_add(now_us, logs_kept_us > 0 ? earlier(logs_kept_us, LOOP_PASS_LEAST_US) : 0);
}

size_t maintenance_stuck_count(struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_load(&node->maintenance.stuck_count);
}

/* --- recovery --- */

/* *ret_steady: the store's clock was not set forward within the last claim.timeout, by the boot clock of this machine. The
 * age of a claim is store time, so after such a step a claim of this moment would be an old one. */
static enum weir_status check_store_clock(struct node *node, int64_t now_us, bool *ret_steady, struct weir_error *error)
{
    struct maintenance *m = &node->maintenance;
    int64_t store_now_us = 0;
    enum weir_status status = store_time(node->stores[LOOP_MAINTENANCE], &store_now_us, error);
    *ret_steady = false;
    if (status != WEIR_OK) {
        return status;
    }
    int64_t ahead_us = store_now_us - now_us;
    if (m->steady_since_us == TIME_NEVER || ahead_us - m->store_ahead_us > CLOCK_STEP_US) {
        m->steady_since_us = now_us;
    }
    m->store_ahead_us = ahead_us;
    *ret_steady = now_us - m->steady_since_us >= node->tuning.stale_claim_us;
    return WEIR_OK;
}

/* Step 3. *ret_wants: old claims exist and this node holds their lock. *ret_nothing: there is nothing to recover at all. */
static enum weir_status find_old_claims(struct node *node, struct recover_options options, int64_t now_us, bool *ret_wants,
                                        bool *ret_nothing, struct weir_error *error)
{
    struct recover_result findings = {0};
    *ret_wants = false;
    *ret_nothing = false;
    bool is_due = now_us >= node->maintenance.next_stale_us;
    if (!is_due && node->maintenance.steady_since_us != TIME_NEVER) {
        return WEIR_OK;
    }
    bool is_steady;
    enum weir_status status = check_store_clock(node, now_us, &is_steady, error);
    if (status != WEIR_OK || !is_due || !is_steady) {
        return status;
    }
    options.stale_claim_us = node->tuning.stale_claim_us;
    options.look_only = true;
    status = store_recover(node->stores[LOOP_MAINTENANCE], &options, &findings, error);
    *ret_nothing = status == WEIR_OK && !findings.more;
    if (status == WEIR_OK && findings.more) {
        *ret_wants = shedlock_hold(node, node->stores[LOOP_MAINTENANCE], &node->maintenance.stale_lock, now_us);
    }
    return status;
}

/* The callback of step 4. */
static bool claim_is_in_flight(void *context, const char *id, int64_t fence)
{
    struct node *node = context;
    pthread_mutex_lock(&node->shared.lock);
    bool found = in_flight_find(&node->shared.in_flight, id, fence) != NULL;
    pthread_mutex_unlock(&node->shared.lock);
    return found;
}

/* Step 2. */
static bool has_reason_to_recover(struct node *node, int64_t now_us)
{
    struct maintenance *m = &node->maintenance;
    if (now_us < m->recovery_waits_until_us) {
        return false; /* other transactions hold the rest */
    }
    if (atomic_load(&node->neighbours.is_node_lost)) {
        return true;
    }
    if (now_us < m->next_recovery_us) {
        return false;
    }
    m->next_recovery_us = earlier(time_add(now_us, RECOVERY_INTERVAL_US), neighbours_next_silent_us(node, now_us));
    struct silent_node silent[NODE_NEIGHBOURS_MOST];
    char server[SERVER_IDENTITY_MAX];
    return (store_features(node->stores[LOOP_MAINTENANCE]) & STORE_SHARED) == 0 || now_us >= m->next_stale_us ||
           now_us >= time_add(atomic_load(&node->neighbours.others_reported_us), RECOVERY_FALLBACK_US) ||
           neighbours_silent(node, now_us, silent, server) > 0 || neighbours_any_is_gone(node);
}

/* Steps 5 and 6. `stale`: old claims were among the items. */
static void note_recovered(struct node *node, const struct recover_result *result, bool stale, int64_t now_us)
{
    struct maintenance *m = &node->maintenance;
    if (now_us >= m->next_stale_us && !(stale && result->more)) {
        shedlock_drop(node->stores[LOOP_MAINTENANCE], &m->stale_lock);
        m->next_stale_us = time_add(now_us, node->tuning.stale_check_us);
    }
    atomic_store(&node->neighbours.others_reported_us, now_us);
    bool moves = result->handed_over + result->poisoned + result->nodes > 0; /* else all of the rest is locked */
    m->next_recovery_us = time_add(now_us, !result->more ? RECOVERY_INTERVAL_US : moves ? 0 : LOOP_RETRY_FIRST_US);
    m->recovery_waits_until_us = result->more && !moves ? m->next_recovery_us : 0;
    if (result->more) {
        atomic_store(&node->neighbours.is_node_lost, true);
    }
    if (result->handed_over > 0) {
        loop_wake(node, LOOP_DISPATCH);
    }
}

/* Steps 3 to 6. */
static enum weir_status recover_dead(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct recover_result result = {0};
    bool stale = false;
    bool nothing = false;
    struct silent_node silent[NODE_NEIGHBOURS_MOST];
    char server[SERVER_IDENTITY_MAX];
    size_t silent_count = neighbours_silent(node, now_us, silent, server);
    struct recover_options options = {
        .node_id = atomic_load(&node->shared.id),
        .group = node->group,
        .boot_id = node->boot_id,
        .is_gone = node->clock == clock_system() ? neighbour_is_gone : NULL,
        .silent = silent,
        .silent_count = silent_count,
        .server = server,
        .trusted_machine = neighbours_trusted(node, now_us),
        .limit = RECOVER_BATCH,
        .knows = claim_is_in_flight,
        .knows_context = node,
    };
    atomic_store(&node->neighbours.is_node_lost, false); /* before the query: a heartbeat may report a loss meanwhile */
    enum weir_status status = find_old_claims(node, options, now_us, &stale, &nothing, error);
    if (status == WEIR_OK && !nothing) {
        options.stale_claim_us = stale ? node->tuning.stale_claim_us : 0;
        status = store_recover(node->stores[LOOP_MAINTENANCE], &options, &result, error);
    }
    if (status != WEIR_OK) {
        atomic_store(&node->neighbours.is_node_lost, true); /* perhaps: the next step asks again */
        return status;
    }
    note_recovered(node, &result, stale, now_us);
    return WEIR_OK;
}

/* --- stuck executions --- */

enum { STUCK_PER_CHECK = 64 };

/* The entries whose mark in the store is out of date. */
struct stuck_marks {
    size_t count;
    struct stuck_mark items[STUCK_MARKS_MOST];
};

struct stuck_check {
    struct stuck_marks *marks;
    int64_t now_us;
    size_t stuck;
    size_t due;
    struct {
        char id[UUID_TEXT_MAX];
        char workspace[WORKSPACE_NAME_MAX + 1];
        char workflow[WORKFLOW_NAME_MAX + 1];
        int64_t fence;
        int64_t age_us;
    } items[STUCK_PER_CHECK];
};

/* Under the node's lock. More marks than one call records are left to the next check. */
static void note_mark(struct stuck_marks *marks, const struct in_flight *entry, int64_t stuck_for_us)
{
    bool is_stuck = stuck_for_us >= 0;
    if (entry->is_marked_stuck != is_stuck && marks->count < STUCK_MARKS_MOST) {
        struct stuck_mark *mark = &marks->items[marks->count++];
        *mark = (struct stuck_mark){.fence = entry->fence, .stuck_for_us = is_stuck ? stuck_for_us : -1};
        memcpy(mark->id, entry->id, sizeof mark->id);
    }
}

/* Counts a stuck execution, and copies it if its warning is due. Under the node's lock. */
static void check_entry(void *context, struct in_flight *entry)
{
    struct stuck_check *check = context;
    bool has_slept = entry->slept_until_boot_us > entry->started_boot_us;
    int64_t age_us = check->now_us - (has_slept ? entry->slept_until_boot_us : entry->started_boot_us);
    bool is_stuck = entry->started && age_us >= entry->stuck_after_us;
    note_mark(check->marks, entry, is_stuck ? age_us - entry->stuck_after_us : -1);
    if (!is_stuck) {
        return;
    }
    check->stuck++;
    bool warned = entry->warned_boot_us != 0 && check->now_us - entry->warned_boot_us < entry->stuck_after_us;
    if (warned || check->due == STUCK_PER_CHECK) {
        return;
    }
    entry->warned_boot_us = check->now_us;
    memcpy(check->items[check->due].id, entry->id, UUID_TEXT_MAX);
    text_copy(check->items[check->due].workspace, sizeof check->items[0].workspace, entry->workspace);
    text_copy(check->items[check->due].workflow, sizeof check->items[0].workflow, entry->workflow);
    check->items[check->due].fence = entry->fence;
    check->items[check->due].age_us = age_us;
    check->due++;
}

/* Names every stuck execution in an event, once per period, and collects the marks that change. */
static void warn_of_stuck(struct node *node, int64_t now_us, struct stuck_marks *marks)
{
    struct stuck_check check = {.marks = marks, .now_us = now_us};
    pthread_mutex_lock(&node->shared.lock);
    in_flight_each(&node->shared.in_flight, check_entry, &check);
    size_t running = node->shared.in_flight.count;
    pthread_mutex_unlock(&node->shared.lock);
    atomic_store(&node->maintenance.stuck_count, check.stuck);
    for (size_t i = 0; i < check.due; i++) {
        struct event event = {.type = EVENT_EXECUTION_STUCK,
                              .execution_id = check.items[i].id,
                              .workspace = check.items[i].workspace,
                              .workflow = check.items[i].workflow,
                              .age_us = check.items[i].age_us,
                              .count = (int64_t)check.stuck,
                              .of = (int64_t)running,
                              .node = node->name,
                              .fence = check.items[i].fence};
        event_emit(node->events, &event);
    }
    node->maintenance.next_stuck_us = time_add(now_us, STUCK_CHECK_US);
}

/* Without the store the marks stay as they are, and the next check collects them again. */
static enum weir_status record_marks(struct node *node, const struct stuck_marks *marks, struct weir_error *error)
{
    enum weir_status status = store_mark_stuck(node->stores[LOOP_MAINTENANCE], marks->items, marks->count, error);
    if (status != WEIR_OK) {
        return status;
    }
    pthread_mutex_lock(&node->shared.lock);
    for (size_t i = 0; i < marks->count; i++) {
        const struct stuck_mark *mark = &marks->items[i];
        struct in_flight *entry = in_flight_find(&node->shared.in_flight, mark->id, mark->fence);
        if (entry != NULL) {
            entry->is_marked_stuck = mark->stuck_for_us >= 0;
        }
    }
    pthread_mutex_unlock(&node->shared.lock);
    return WEIR_OK;
}

/* --- retention --- */

/* Removes one chunk of the executions that ended before the retention time. */
static enum weir_status purge_chunk(struct node *node, int64_t now_us, size_t limit, struct bulk_result *result,
                                    struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    int64_t store_now_us = 0;
    int64_t retention_us = node->tuning.retention_us; /* read once: node_tune() may change it to "for ever" at any moment */
    enum weir_status status = store_time(store, &store_now_us, error);
    struct execution_filter filter = {
        .states = 1U << ITEM_COMPLETED | 1U << ITEM_FAILED | 1U << ITEM_CANCELLED,
        .finished_before_us = store_now_us - retention_us,
    };
    if (status != WEIR_OK || retention_us <= 0 || filter.finished_before_us <= 0) {
        return status;
    }
    /* Ids begin with their time, and an execution that was made later cannot have ended before. Without the bound each
     * look at a store with nothing to purge would pass its whole history. The clock of the program that made the id may
     * be ahead of the store's. If it is by more than a day, the execution is kept until the next look at all of
     * them. */
    filter.created_before_us = filter.finished_before_us;
    bool is_whole = now_us >= node->maintenance.next_whole_look_us;
    filter.ids_before_us = is_whole ? 0 : time_add(filter.finished_before_us, ID_CLOCK_AHEAD_US);
    status = store_bulk(store, BULK_PURGE, &filter, node->maintenance.purged_to, limit, result, error);
    if (status == WEIR_OK && result->changed > 0) {
        struct event event = {.type = EVENT_RETENTION_PURGED, .count = (int64_t)result->changed, .node = node->name};
        event_emit(node->events, &event);
    }
    return status;
}

/* Adds up the refusals of a pass, and reports them once at its end. */
static void report_kept(struct node *node, const struct bulk_result *result, bool is_last)
{
    struct maintenance *m = &node->maintenance;
    m->kept_count += (int64_t)result->refused;
    if (is_last && m->kept_count > 0) {
        struct event event = {.type = EVENT_RETENTION_REFUSED,
                              .count = m->kept_count,
                              .error = result->refused > 0 ? result->refusal.message : NULL,
                              .node = node->name};
        event_emit(node->events, &event);
    }
    m->kept_count = is_last ? 0 : m->kept_count;
}

/* Executions with long logs may be too many for the deadline of a call. */
static void fit_purge_batch(struct maintenance *m, enum weir_status status)
{
    size_t fitted = status == WEIR_OK ? m->purge_batch * 2 : m->purge_batch / 2;
    m->purge_batch = fitted < 1 ? 1 : fitted < PURGE_BATCH ? fitted : PURGE_BATCH;
}

/* One chunk per step. Until something is found it is small and without the lock: a store with nothing to purge is not
 * written. */
static enum weir_status purge_ended(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    struct bulk_result result = {0};
    bool first = !node->maintenance.retention_lock.held;
    node->maintenance.next_retention_us = time_add(now_us, loop_pass_pause_us(node->tuning.retention_us));
    if (!first && !shedlock_hold(node, store, &node->maintenance.retention_lock, now_us)) {
        return WEIR_OK;
    }
    enum weir_status status = purge_chunk(node, now_us, first ? 1 : node->maintenance.purge_batch, &result, error);
    if (!first) {
        fit_purge_batch(&node->maintenance, status);
    }
    report_kept(node, &result, status == WEIR_OK && !result.more);
    bool needs_lock = first && (result.changed > 0 || result.refused > 0);
    if (status == WEIR_OK && result.more &&
        (!needs_lock || shedlock_hold(node, store, &node->maintenance.retention_lock, now_us))) {
        text_copy(node->maintenance.purged_to, sizeof node->maintenance.purged_to, result.last_id);
        node->maintenance.next_retention_us = now_us;
    } else {
        node->maintenance.purged_to[0] = '\0';
        if (status == WEIR_OK && !result.more && now_us >= node->maintenance.next_whole_look_us) {
            node->maintenance.next_whole_look_us = time_add(now_us, WHOLE_LOOK_INTERVAL_US);
        }
        shedlock_drop(store, &node->maintenance.retention_lock);
    }
    return status;
}

/* --- workspaces at capacity --- */

/* A workspace at capacity has items on some node: an idle node that does not schedule makes no query. */
static bool holds_items(struct node *node)
{
    pthread_mutex_lock(&node->shared.lock);
    bool holds = node->shared.in_flight.count > 0;
    pthread_mutex_unlock(&node->shared.lock);
    return holds;
}

/* At most one notice a minute for each workspace, so that a busy tenant cannot flood the log. The node that schedules
 * gives it; the others only learn whose slots are wanted. */
static enum weir_status report_full_workspaces(struct node *node, int64_t now_us, struct weir_error *error)
{
    json_t *answer = NULL;
    size_t i;
    json_t *workspace;
    node->maintenance.next_capacity_us = time_add(now_us, CAPACITY_NOTICE_US);
    bool schedules = atomic_load(&node->shared.schedules);
    if (!schedules && !holds_items(node)) {
        return WEIR_OK;
    }
    enum weir_status status = store_status(node->stores[LOOP_MAINTENANCE], CAPACITY_WORKSPACES, &answer, error);
    json_array_foreach(status == WEIR_OK ? json_object_get(answer, "workspaces") : NULL, i, workspace)
    {
        int64_t used = json_integer_value(json_object_get(workspace, "slots_used"));
        int64_t most = json_integer_value(json_object_get(workspace, "slots_max"));
        int64_t pending = json_integer_value(json_object_get(workspace, "pending"));
        const char *name = json_string_value(json_object_get(workspace, "name"));
        if (name == NULL || pending == 0 || used < most) {
            continue;
        }
        slot_demand_reported(&node->slot_demand, name);
        if (schedules) {
            struct event event = {.type = EVENT_WORKSPACE_AT_CAPACITY,
                                  .count = pending,
                                  .slots_used = used,
                                  .slots_max = most,
                                  .workspace = name,
                                  .node = node->name,
                                  .plan = json_string_value(json_object_get(workspace, "plan"))};
            event_emit(node->events, &event);
        }
    }
    json_decref(answer);
    return status;
}

/* Removes acts past their retention, a set at a time. Nodes that do it at once skip each other's rows. */
static enum weir_status purge_acts(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    int64_t retention_us = node->tuning.audit_retention_us; /* read once: node_tune() may change it */
    int64_t store_now_us = 0;
    int64_t removed = 0;
    enum weir_status status = store_time(store, &store_now_us, error);
    if (status == WEIR_OK && retention_us > 0 && store_now_us > retention_us) {
        status = store_purge_audit(store, store_now_us - retention_us, AUDIT_PURGE_MOST, &removed, error);
    }
    int64_t pause_us = earlier(retention_us > 0 ? retention_us : AUDIT_INTERVAL_US, AUDIT_INTERVAL_US);
    node->maintenance.next_audit_us = time_add(now_us, removed == AUDIT_PURGE_MOST ? 0 : pause_us);
    return status;
}

/* Removes entries of the stream that no reader goes on behind any more. */
static enum weir_status purge_stream(struct node *node, int64_t now_us, struct weir_error *error)
{
    int64_t removed = 0;
    enum weir_status status = store_purge_stream(node->stores[LOOP_MAINTENANCE], STREAM_PURGE_MOST, &removed, error);
    node->maintenance.next_stream_us = time_add(now_us, removed == STREAM_PURGE_MOST ? 0 : STREAM_INTERVAL_US);
    return status;
}

/* --- the loop --- */

static int64_t next_duty(struct node *node)
{
    const struct maintenance *m = &node->maintenance;
    int64_t next_us = earlier(earlier(m->next_stuck_us, m->next_recovery_us), m->next_capacity_us);
    next_us = earlier(earlier(next_us, m->next_stream_us), earlier(m->next_hooks_us, m->next_children_us));
    next_us = earlier(earlier(next_us, m->next_schedules_us), node_logs_next(node));
    next_us = earlier(next_us, node_progress_next(node));
    next_us = earlier(next_us, m->history.folds ? 0 : m->history.next_us);
    next_us = earlier(next_us, archive_duty_next(node));
    if (node->tuning.audit_retention_us > 0) {
        next_us = earlier(next_us, m->next_audit_us);
    }
    return node->tuning.retention_us > 0 ? earlier(next_us, m->next_retention_us) : next_us;
}

/* Each duty has a status of its own, and one that fails keeps no other from its work. But the retention removes the keys of
 * earlier enqueues, so it comes behind the duties that repeat these, and waits while one of them fails. Returns the first
 * failure. */
static enum weir_status run_duties(struct node *node, int64_t now_us, struct weir_error *error)
{
    const struct maintenance *m = &node->maintenance;
    const struct {
        enum weir_status (*step)(struct node *node, int64_t now_us, struct weir_error *error);
        bool is_due;
        bool needs_success;
    } duties[] = {
        {child_duty_step, true, false},
        {hook_duty_step, true, false},
        {schedule_duty_step, true, false},
        {purge_ended, now_us >= m->next_retention_us && node->tuning.retention_us > 0, true},
        {archive_duty_step, true, false},
        {purge_acts, now_us >= m->next_audit_us && node->tuning.audit_retention_us > 0, false},
        {history_duty_step, true, false},
        {purge_stream, now_us >= m->next_stream_us, false},
        {node_logs_step, true, false},
        {node_progress_step, true, false},
        {report_full_workspaces, now_us >= m->next_capacity_us, false},
    };
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof duties / sizeof duties[0]; i++) {
        struct weir_error detail = {.status = WEIR_OK};
        if (!duties[i].is_due || (duties[i].needs_success && status != WEIR_OK)) {
            continue;
        }
        enum weir_status own = duties[i].step(node, now_us, &detail);
        if (own != WEIR_OK && status == WEIR_OK) {
            status = own;
            *error = detail;
        }
    }
    return status;
}

int64_t maintenance_step(struct node *node)
{
    INVARIANT(node != NULL);
    struct maintenance *m = &node->maintenance;
    int64_t now_us = node_now(node);
    int64_t next_us;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = WEIR_OK;
    struct stuck_marks marks = {.count = 0};
    if (atomic_load(&node->shared.stopped)) {
        return TIME_NEVER;
    }
    /* node_tune() may have made the interval shorter. */
    m->next_stale_us = earlier(m->next_stale_us, time_add(now_us, node->tuning.stale_check_us));
    if (now_us >= m->next_stuck_us) {
        warn_of_stuck(node, now_us, &marks);
    }
    if (loop_is_backing_off(node, LOOP_MAINTENANCE, now_us, &next_us) || atomic_load(&node->shared.lease_lost)) {
        return m->next_stuck_us;
    }
    if (!lease_is_valid(node)) { /* step 1 of recovery */
        m->next_recovery_us = time_add(now_us, RECOVERY_INTERVAL_US);
    } else if (has_reason_to_recover(node, now_us)) {
        status = recover_dead(node, now_us, &error);
    }
    if (status == WEIR_OK) {
        status = record_marks(node, &marks, &error);
    }
    if (status == WEIR_OK) {
        status = run_duties(node, now_us, &error);
    }
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_MAINTENANCE, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_MAINTENANCE);
    return next_duty(node);
}
