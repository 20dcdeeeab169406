/* The scheduler's loop: the role, and rounds between the store and the decisions in memory (queue/scheduler.h).
 *
 * One node of all that share the store has the role. A round is one call of the store: it records the assignments that were
 * decided after the last round, and brings the news and the heads for the next decision.
 *
 *   1. Decide: scheduler_assign() takes slots in memory.
 *   2. store_schedule() records the assignments, conditional on the epoch.
 *   3. Settle the outcomes, then learn heads, then facts, in this order (queue/scheduler.h gives the reason).
 *   4. Start what was assigned to this node. Other nodes read their inboxes.
 *
 * Any failure of a round is doubt: the memory is cleared, and the role is taken again under a new epoch with all facts read
 * anew. The loop never repairs the memory and never assigns before all facts of its epoch are loaded.
 *
 * Runs in the dispatcher's thread and uses its store handle.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/heartbeat.h"
#include "dispatch/node_internal.h"

enum {
    PUBLISH_PART = 20, /* while there is work, books are folded at most this part of the time; else half of it */
    ROUNDS_MOST = 6    /* of one step */
};
/* Rows that other transactions held are not awaited for this long after the last one was met. */
#define SKIP_LOCKED_US (1 * MICROSECONDS_PER_SECOND)
/* Nodes are read this often beside the news: a lease ends without any. */
#define NODES_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)

enum weir_status scheduling_open(struct scheduling *scheduling, struct weir_error *error)
{
    enum weir_status status = scheduler_open(&scheduling->scheduler);
    scheduling->assignments = calloc(SCHEDULE_SET_MOST, sizeof *scheduling->assignments);
    scheduling->reads = calloc(SCHEDULER_READS_MOST, sizeof *scheduling->reads);
    scheduling->passes = calloc(SCHEDULE_SET_MOST, sizeof *scheduling->passes);
    scheduling->due_boot_us = TIME_NEVER;
    return status != WEIR_OK || scheduling->assignments == NULL || scheduling->reads == NULL || scheduling->passes == NULL
               ? error_out_of_memory(error)
               : WEIR_OK;
}

void scheduling_close(struct scheduling *scheduling)
{
    scheduler_close(scheduling->scheduler);
    free(scheduling->assignments);
    free(scheduling->reads);
    free(scheduling->passes);
    *scheduling = (struct scheduling){.epoch = 0};
}

/* --- the role --- */

static void forget(struct node *node)
{
    struct scheduling *s = &node->scheduling;
    scheduler_clear(s->scheduler);
    s->epoch = 0;
    s->is_loaded = false;
    s->needs = 0;
    s->due_boot_us = TIME_NEVER;
    s->has_news = false;
    node->inbox.is_due = true; /* an assignment to this node may have been committed without an answer */
    if (atomic_exchange(&node->schedules, false)) {
        store_wake_for(node->stores[LOOP_DISPATCH], atomic_load(&node->id), false);
    }
}

static void end_role(struct node *node, enum event_type type, const char *reason)
{
    struct event event = {.type = type, .node = node->name, .reason = reason};
    if (node->scheduling.epoch != 0) {
        forget(node);
        event_emit(node->events, &event);
    }
}

void scheduling_lose(struct node *node, const char *reason)
{
    end_role(node, EVENT_SCHEDULER_LOST, reason);
}

void scheduling_leave(struct node *node)
{
    struct role_request request = {.act = ROLE_LEAVE, .node_id = atomic_load(&node->id), .epoch = node->scheduling.epoch};
    struct role_state state;
    struct weir_error error;
    if (node->scheduling.epoch != 0) {
        enum weir_status status = store_role(node->stores[LOOP_DISPATCH], &request, &state, &error);
        (void)status; /* if it fails, the lease runs out by itself */
        end_role(node, EVENT_SCHEDULER_LEFT, "it stops");
    }
}

static bool may_schedule(const struct node *node)
{
    return !node->settings.no_dispatch && !atomic_load(&node->lease_lost) && lease_is_valid(node) &&
           atomic_load(&node->stop_kind) == 0;
}

/* The holder's id when this machine shows that its processes are gone; else 0. */
static int64_t gone_holder(struct node *node, int64_t holder)
{
    int64_t gone = 0;
    pthread_mutex_lock(&node->lock);
    for (size_t i = 0; i < node->neighbour_count && node->clock == clock_system(); i++) {
        const struct node_neighbour *neighbour = &node->neighbours[i];
        if (neighbour->id == holder && nodes_is_gone(neighbour)) {
            gone = holder;
        }
    }
    pthread_mutex_unlock(&node->lock);
    return gone;
}

enum weir_status scheduling_seek(struct node *node, const struct role_state *role, struct weir_error *error)
{
    struct scheduling *s = &node->scheduling;
    struct role_state state;
    int64_t id = atomic_load(&node->id);
    int64_t now_us = node_now(node);
    int64_t gone = role->is_free || role->node_id == id ? 0 : gone_holder(node, role->node_id);
    if (!may_schedule(node) || (!role->is_free && role->node_id != id && gone == 0)) {
        return WEIR_OK;
    }
    struct role_request request = {.act = ROLE_TAKE, .node_id = id, .lease_us = SCHEDULER_LEASE_US, .gone_node_id = gone};
    request.why = gone != 0             ? "its process is gone"
                  : role->node_id == id ? "it loads all facts again"
                  : role->node_id == 0  ? "nobody had the role"
                                        : "the lease or the node of the last one is over";
    enum weir_status status = store_role(node->stores[LOOP_DISPATCH], &request, &state, error);
    if (status == WEIR_CONFLICT || status == WEIR_STALE_FENCE) {
        return WEIR_OK; /* another node was faster, or this one is not alive for the store: its heartbeat finds that out */
    }
    if (status != WEIR_OK) {
        return status;
    }
    FAILPOINT("after_role");
    s->epoch = state.epoch;
    s->is_loaded = false;
    s->renewed_boot_us = now_us;
    s->publish_boot_us = now_us;
    atomic_store(&node->schedules, true);
    store_wake_for(node->stores[LOOP_DISPATCH], id, true);
    struct event event = {.type = EVENT_SCHEDULER_TAKEN, .node = node->name, .count = state.epoch, .reason = request.why};
    event_emit(node->events, &event);
    return WEIR_OK;
}

/* --- a round --- */

static void learn_news(struct scheduling *s, const struct schedule_fact *fact, int64_t store_ahead_us)
{
    s->needs |= fact->flags & ~(unsigned)NEED_DUE;
    if ((fact->flags & NEED_DUE) != 0) {
        s->due_boot_us = earlier(s->due_boot_us, fact->due_us - store_ahead_us);
    }
}

static enum weir_status learn_facts(struct scheduling *s, const struct schedule_answer *answer, int64_t store_ahead_us)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < answer->fact_count && status == WEIR_OK; i++) {
        enum schedule_fact_kind kind = answer->facts[i].kind;
        /* The state is read without news, too; these kinds come from a row of it. */
        s->has_news = s->has_news || kind == FACT_RUNNABLE || kind == FACT_HELD || kind == FACT_WORKSPACE ||
                      kind == FACT_WORKSPACES || kind == FACT_NEWS;
        if (kind == FACT_NEWS) {
            learn_news(s, &answer->facts[i], store_ahead_us);
        } else {
            struct schedule_fact fact = answer->facts[i];
            fact.since_us -= store_ahead_us;
            status = scheduler_learn(s->scheduler, &fact);
        }
    }
    s->needs |= scheduler_needs(s->scheduler);
    return status;
}

static enum weir_status learn(struct node *node, const struct schedule_call *call, const struct schedule_answer *answer,
                              int64_t now_us)
{
    struct scheduling *s = &node->scheduling;
    int64_t store_ahead_us = answer->now_us - now_us; /* rather too little than too much: the answer took a while */
    enum weir_status status = WEIR_OK;
    node->store_ahead_us = store_ahead_us;
    for (size_t i = call->assignment_count; i-- > 0;) { /* in reverse: what was undone goes back to the front */
        scheduler_settle(s->scheduler, now_us, &call->assignments[i]);
        if (call->assignments[i].outcome == ASSIGNMENT_LOCKED) {
            s->skip_locked_until_boot_us = time_add(now_us, SKIP_LOCKED_US);
        }
    }
    for (size_t i = 0; i < call->read_count && status == WEIR_OK; i++) {
        status = scheduler_take_heads(s->scheduler, &call->reads[i]);
    }
    if (call->load || (call->needs & NEED_DUE) != 0) {
        s->due_boot_us = answer->next_due_us == TIME_NEVER ? TIME_NEVER : answer->next_due_us - store_ahead_us;
    }
    if (status == WEIR_OK) {
        status = learn_facts(s, answer, store_ahead_us);
    }
    for (size_t i = 0; i < answer->news_read_count && status == WEIR_OK; i++) {
        status = scheduler_take_heads(s->scheduler, &answer->news_reads[i]);
    }
    s->has_news = s->has_news || call->load || answer->assigned > 0;
    return status;
}

/* !may_assign: another holder has the lock of dispatch.exclusive. */
static void plan_call(struct node *node, struct schedule_call *call, size_t own_room, bool may_assign, int64_t now_us)
{
    struct scheduling *s = &node->scheduling;
    *call = (struct schedule_call){.node_id = atomic_load(&node->id),
                                   .epoch = s->epoch,
                                   .assignments = s->assignments,
                                   .reads = s->reads,
                                   .load = !s->is_loaded,
                                   .awaits_lock = !may_assign};
    call->lease_us = now_us >= time_add(s->renewed_boot_us, SCHEDULER_RENEW_US) ? SCHEDULER_LEASE_US : 0;
    if (call->load) {
        return;
    }
    /* An act may have paused the queue or a node: its state is read before the next assignment is decided. */
    if (may_assign && (s->needs & NEED_STATE) == 0) {
        call->assignment_count =
            scheduler_assign(s->scheduler, now_us, call->node_id, own_room, s->assignments, SCHEDULE_SET_MOST);
    }
    call->read_count = scheduler_request_reads(s->scheduler, now_us, s->reads, SCHEDULER_READS_MOST);
    call->skip_locked = now_us < s->skip_locked_until_boot_us;
    call->needs = s->needs | (now_us >= s->due_boot_us ? (unsigned)NEED_DUE : 0U) |
                  (now_us >= s->nodes_boot_us ? (unsigned)NEED_STATE : 0U);
    call->orphan_count = scheduler_orphans(s->scheduler, s->orphans, ORPHANS_MOST);
    call->orphans = s->orphans;
}

/* *claimed: grows by what this node got. *ret_again: the next round has something to do, as far as this one shows. */
static enum weir_status run_round(struct node *node, size_t own_room, bool may_assign, size_t *claimed, bool *ret_again,
                                  struct weir_error *error)
{
    struct scheduling *s = &node->scheduling;
    struct schedule_call call;
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    struct claim_batch *batch = claim_batch_new();
    int64_t now_us = node_now(node);
    if (batch == NULL) {
        return error_out_of_memory(error);
    }
    plan_call(node, &call, own_room, may_assign, now_us);
    s->needs = 0;
    enum weir_status status = store_schedule(node->stores[LOOP_DISPATCH], &call, &batch->arena, &answer, error);
    if (status == WEIR_OK) {
        FAILPOINT("after_claim");
        inbox_passed(node, &answer.claimed);
        starter_start(node, call.node_id, batch, &answer.claimed);
        *claimed += answer.claimed.count;
        status = learn(node, &call, &answer, now_us);
        status = status == WEIR_OK ? WEIR_OK : error_set(error, status, "the scheduler's memory does not fit the store");
    }
    if (status == WEIR_OK) {
        s->is_loaded = true;
        s->renewed_boot_us = call.lease_us > 0 ? now_us : s->renewed_boot_us;
        if ((call.needs & NEED_STATE) != 0 || call.load) {
            s->nodes_boot_us = time_add(now_us, NODES_INTERVAL_US);
        }
        node->has_requests = node->has_requests || answer.requests;
        *ret_again = call.load || call.assignment_count > 0 || call.read_count > 0 || answer.more_news || s->needs != 0 ||
                     call.orphan_count > 0 || now_us >= s->due_boot_us ||
                     (answer.fact_count > 0 && scheduler_has_work(s->scheduler, now_us));
    }
    pthread_mutex_lock(&node->lock);
    claim_batch_release(batch);
    pthread_mutex_unlock(&node->lock);
    return status;
}

/* --- the books --- */

static enum weir_status publish(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct scheduling *s = &node->scheduling;
    bool more = false;
    if (!s->has_news || !s->is_loaded || now_us < s->publish_boot_us) {
        return WEIR_OK;
    }
    size_t count = scheduler_take_passes(s->scheduler, s->passes, SCHEDULE_SET_MOST);
    enum weir_status status =
        store_publish_books(node->stores[LOOP_DISPATCH], atomic_load(&node->id), s->epoch, s->passes, count, &more, error);
    if (status == WEIR_OK) {
        int64_t took_us = node_now(node) - now_us;
        int64_t rest_us = took_us * PUBLISH_PART > BOOKS_INTERVAL_US ? took_us * PUBLISH_PART : BOOKS_INTERVAL_US;
        bool is_idle = !scheduler_has_work(s->scheduler, now_us);
        s->has_news = more || count == SCHEDULE_SET_MOST;
        s->publish_boot_us = time_add(now_us, more && is_idle ? 2 * took_us : rest_us);
    }
    return status;
}

/* --- the step --- */

/* With dispatch.exclusive nothing is assigned without the lock of the specification. */
static bool holds_exclusive(struct node *node, int64_t now_us, int64_t *ret_next_us)
{
    if (!node->settings.exclusive || !scheduler_has_work(node->scheduling.scheduler, now_us)) {
        return true;
    }
    if (lock_hold(node, node->stores[LOOP_DISPATCH], &node->exclusive, now_us)) {
        return true;
    }
    *ret_next_us = earlier(*ret_next_us, node->exclusive.again_boot_us);
    return false;
}

/* False once the node has lost its lease during a round, or holds items for which it had no memory. */
static bool may_go_on(const struct node *node)
{
    return atomic_load(&node->id) == node->dispatch_id && !atomic_load(&node->lease_lost) && node->unkept.batch == NULL;
}

/* News, then heads, then an assignment: an item that was just enqueued takes three rounds, which one step makes. */
static enum weir_status run_rounds(struct node *node, int64_t now_us, size_t *ret_own_room, bool *ret_again,
                                   int64_t *ret_next_us, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t batch = node->tuning.claim_batch;
    size_t claimed = 0;
    *ret_again = true;
    for (int i = 0; i < ROUNDS_MOST && status == WEIR_OK && *ret_again && may_go_on(node) && claimed < batch; i++) {
        bool may_assign = holds_exclusive(node, now_us, ret_next_us);
        /* A round moves the inbox's position behind what it assigns: what is unread would be passed. */
        size_t room = node->inbox.is_due ? 0 : dispatcher_room(node, now_us);
        *ret_own_room = room;
        status = run_round(node, room < batch - claimed ? room : batch - claimed, may_assign, &claimed, ret_again, error);
    }
    return status;
}

static enum weir_status schedule(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    struct scheduling *s = &node->scheduling;
    bool again = false;
    size_t own_room = 0;
    enum weir_status status = run_rounds(node, now_us, &own_room, &again, ret_next_us, error);
    if (status == WEIR_OK) {
        status = publish(node, now_us, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (own_room == 0) {
        dispatcher_await_room(node, now_us, ret_next_us);
    }
    *ret_next_us = earlier(*ret_next_us, time_add(s->renewed_boot_us, SCHEDULER_IDLE_US));
    *ret_next_us = earlier(*ret_next_us, s->due_boot_us);
    *ret_next_us = earlier(*ret_next_us, scheduler_next_us(s->scheduler));
    *ret_next_us = earlier(*ret_next_us, s->has_news ? s->publish_boot_us : TIME_NEVER);
    if (again) {
        *ret_next_us = now_us;
    }
    return WEIR_OK;
}

enum weir_status scheduling_step(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    enum weir_status status = schedule(node, now_us, ret_next_us, error);
    if (status == WEIR_STALE_FENCE) {
        scheduling_lose(node, "another node has taken the role");
        return WEIR_OK;
    }
    if (status != WEIR_OK) {
        scheduling_lose(node, error->message);
    }
    return status;
}
