/* The scheduler's role: taking it, its rounds, and giving it up.
 *
 * One node of all that share the store has the role. A round is one call of the store. It records the assignments that
 * were decided after the last round, and brings the news and the heads for the next decision.
 *
 *   1. Decide. The slots of ends that this node has recorded are free at once (queue/early_ends.h). scheduler_assign()
 *      (queue/scheduler.h) takes slots in memory and gives them to items. While this node ends its executions quickly, it
 *      gets what it has room for within its next sets. The decision is left out while the facts are not loaded,
 *      while another holder has the lock of dispatch.exclusive, and while an operator's act is announced and not read.
 *      The act may have paused the queue or a node.
 *   2. Record. store_schedule() writes the assignments, conditional on the epoch. The same transaction reads the news, so
 *      the scheduler misses no change of another transaction.
 *   3. Start the items of this node at once. Other nodes read their inboxes. The own inbox is not read again.
 *   4. Settle the outcomes in reverse order, so that an item whose assignment was undone returns to the front of its
 *      lane.
 *   5. Learn heads, then facts, in this order (queue/scheduler.h gives the reason).
 *   6. Repeat while the answer leaves work, at most ROUNDS_MOST times in a step. An item that was just enqueued takes
 *      three rounds: news, heads, assignment. Mostly a few heads come with the news, so it takes two. On an idle node the
 *      call has an offer for such an item, and the store (PostgreSQL) assigns it in the call that reads its news. No round
 *      follows only to look for more news. It would delay the start of the item, and news wakes the loop.
 *   7. Publish the books, at most for a part of the time. They serve `status` and `why`; no assignment depends on them.
 *
 * Any failure of a round is doubt: an assignment may or may not be committed. The memory is cleared, and the role is
 * taken again under a new epoch with all facts read anew. The loop never repairs the memory and never assigns before all
 * facts of its epoch are loaded. Runs in the dispatch thread and uses its store handle.
 */
#include "dispatch/scheduling.h"
#include "dispatch/child_duty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/capacity.h"
#include "dispatch/dispatcher.h"
#include "dispatch/history_duty.h"
#include "dispatch/inbox.h"
#include "dispatch/neighbours.h"
#include "dispatch/node_internal.h"
#include "dispatch/shedlock.h"
#include "dispatch/starter.h"
#include "dispatch/unstartable_claims.h"

enum {
    PUBLISH_PART = 20, /* with work, books are published at most for this part of the time; else for half of it */
    ROUNDS_MOST = 6    /* of one step */
};
/* For this long after a locked row was met, rounds skip locked rows instead of waiting for them. */
#define SKIP_LOCKED_US (1 * MICROSECONDS_PER_SECOND)
/* Nodes are read this often beside the news: a lease ends without any. */
#define NODES_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)
/* Items that exceed a set of this node wait for its next one while it ends all that it runs within this time. So they wake
 * no other node. */
#define TURNOVER_US (MICROSECONDS_PER_SECOND / 10)

enum weir_status scheduling_open(struct scheduling *scheduling, struct weir_error *error)
{
    INVARIANT(scheduling != NULL && scheduling->scheduler == NULL);
    enum weir_status status = scheduler_open(&scheduling->scheduler);
    scheduling->assignments = calloc(SCHEDULE_SET_MOST, sizeof *scheduling->assignments);
    scheduling->reads = calloc(SCHEDULER_READS_MOST, sizeof *scheduling->reads);
    scheduling->passes = calloc(SCHEDULE_SET_MOST, sizeof *scheduling->passes);
    scheduling->due_us = TIME_NEVER;
    return status != WEIR_OK || scheduling->assignments == NULL || scheduling->reads == NULL || scheduling->passes == NULL
               ? error_out_of_memory(error)
               : WEIR_OK;
}

void scheduling_close(struct scheduling *scheduling)
{
    INVARIANT(scheduling != NULL);
    scheduler_close(scheduling->scheduler);
    free(scheduling->assignments);
    free(scheduling->reads);
    free(scheduling->passes);
    *scheduling = (struct scheduling){.epoch = 0};
}

/* --- the role --- */

/* Records that begin from now on are passed to the scheduler when they are durable, and no others. */
static void begin_ended_lanes(struct node *node, bool accepts)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    pthread_mutex_lock(&node->shared.lock);
    s->generation += accepts;
    node->shared.ended.generation = accepts ? s->generation : 0;
    node->shared.ended.count = 0;
    pthread_mutex_unlock(&node->shared.lock);
}

/* All that belongs to the epoch. An assignment to this node may have been committed without an answer: its inbox is due. */
static void forget_epoch(struct node *node)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    scheduler_clear(s->scheduler);
    s->epoch = 0;
    s->is_loaded = false;
    s->needs = 0;
    s->due_us = TIME_NEVER;
    s->has_news = false;
    s->turnover = (struct turnover){.since_boot_us = 0};
    begin_ended_lanes(node, false);
    early_ends_clear(&s->early);
    inbox_make_due(node);
    if (atomic_exchange(&node->shared.schedules, false)) {
        store_wake_for(node->stores[LOOP_DISPATCH], atomic_load(&node->shared.id), false);
    }
}

static void end_role(struct node *node, enum event_type type, const char *reason)
{
    struct event event = {.type = type, .node = node->name, .reason = reason};
    if (node->dispatcher.scheduling.epoch != 0) {
        forget_epoch(node);
        event_emit(node->events, &event);
    }
}

void scheduling_lose(struct node *node, const char *reason)
{
    INVARIANT(node != NULL && reason != NULL);
    end_role(node, EVENT_SCHEDULER_LOST, reason);
}

void scheduling_leave(struct node *node)
{
    INVARIANT(node != NULL);
    struct role_request request = {
        .act = ROLE_LEAVE, .node_id = atomic_load(&node->shared.id), .epoch = node->dispatcher.scheduling.epoch};
    struct role_state state;
    struct weir_error error;
    if (node->dispatcher.scheduling.epoch != 0) {
        enum weir_status status = store_role(node->stores[LOOP_DISPATCH], &request, &state, &error);
        (void)status; /* if it fails, the lease runs out by itself */
        end_role(node, EVENT_SCHEDULER_LEFT, "it stops");
    }
}

static bool may_schedule(const struct node *node)
{
    return !atomic_load(&node->shared.lease_lost) && lease_is_valid(node) && atomic_load(&node->shared.stop_kind) == 0;
}

/* Three reasons allow a takeover: the role is free; this node had it and must load all facts again; this machine shows
 * that the process of its holder is gone. The store decides between several nodes that try. */
enum weir_status scheduling_seek(struct node *node, const struct role_state *role, struct weir_error *error)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    struct role_state state;
    int64_t id = atomic_load(&node->shared.id);
    int64_t now_us = node_now(node);
    INVARIANT(role != NULL && s->epoch == 0);
    bool is_gone = !role->is_free && role->node_id != id && neighbours_node_is_gone(node, role->node_id);
    int64_t gone = is_gone ? role->node_id : 0;
    if (!may_schedule(node) || (!role->is_free && role->node_id != id && gone == 0)) {
        return WEIR_OK;
    }
    struct role_request request = {.act = ROLE_TAKE, .node_id = id, .lease_us = SCHEDULER_LEASE_US, .gone_node_id = gone};
    request.why = gone != 0             ? "its process is gone"
                  : role->node_id == id ? "it loads all facts again"
                  : role->node_id == 0  ? "no node had the role"
                                        : "the lease of its last holder is over, or the node";
    enum weir_status status = store_role(node->stores[LOOP_DISPATCH], &request, &state, error);
    if (status == WEIR_CONFLICT || status == WEIR_STALE_FENCE) {
        return WEIR_OK; /* another node was faster, or the lease of this node is over: its heartbeat detects that */
    }
    if (status == WEIR_OK && state.epoch <= 0) {
        status =
            error_set(error, WEIR_STORE_CORRUPT, "the row of the scheduler has the epoch %lld", (long long)state.epoch);
    }
    if (status != WEIR_OK) {
        return status;
    }
    FAILPOINT("after_role");
    s->epoch = state.epoch;
    s->is_loaded = false;
    s->renewed_boot_us = now_us;
    s->publish_boot_us = now_us;
    inbox_make_due(node); /* a round of a former epoch may have been committed: the takeover waited for it */
    atomic_store(&node->shared.schedules, true);
    store_wake_for(node->stores[LOOP_DISPATCH], id, true);
    struct event event = {.type = EVENT_SCHEDULER_TAKEN, .node = node->name, .count = state.epoch, .reason = request.why};
    event_emit(node->events, &event);
    return WEIR_OK;
}

/* --- a round --- */

/* When the next waiting item becomes due, by the boot clock. A store's clock that was set moves it: each round renews the
 * distance between the two. */
static int64_t due_boot_us(const struct node *node)
{
    int64_t due_us = node->dispatcher.scheduling.due_us;
    return due_us == TIME_NEVER ? TIME_NEVER : due_us - node->dispatcher.store_ahead_us;
}

/* News names the needs of the next round. */
static void learn_schedule_news(struct scheduling *s, const struct schedule_fact *fact)
{
    s->needs |= fact->flags & ~(unsigned)(NEED_DUE | NEED_NOTHING);
    if ((fact->flags & NEED_DUE) != 0) {
        s->due_us = earlier(s->due_us, fact->due_us);
    }
}

/* Slots of lanes that this node has ended by its own records: their news comes with a later round (queue/early_ends.h). */
static enum weir_status learn_ended_lanes(struct node *node)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    struct ended_lanes *ended = &node->shared.ended;
    enum weir_status status = WEIR_OK;
    pthread_mutex_lock(&node->shared.lock);
    for (size_t i = 0; i < ended->count && status == WEIR_OK; i++) {
        if (early_ends_record(&s->early, ended->lanes[i])) {
            struct schedule_fact fact = {.kind = FACT_HELD,
                                         .lane_id = ended->lanes[i],
                                         .node_id = node->dispatcher.node_id,
                                         .slots = -1,
                                         .node_held = -1};
            status = scheduler_learn(s->scheduler, &fact);
        }
    }
    s->turnover.ended += ended->count;
    ended->count = 0;
    pthread_mutex_unlock(&node->shared.lock);
    return status;
}

/* A pause of the rounds makes the time longer. Then it shows nothing of the present executions. */
static void note_turnover(struct node *node, int64_t now_us)
{
    struct turnover *turnover = &node->dispatcher.scheduling.turnover;
    int64_t age_us = now_us - turnover->since_boot_us;
    if (age_us >= TURNOVER_US) {
        bool is_recent = age_us < 2 * TURNOVER_US;
        *turnover = (struct turnover){.since_boot_us = now_us,
                                      .is_quick = is_recent && capacity_renews_soon(node, turnover->ended)};
    }
}

/* A new generation: once a second if lanes are behind, and at once if the table is full. The first one follows the load:
 * its facts contain no record that begins later. On SQLite the lane of an ended item is not known here. */
static void renew_ended_lanes(struct node *node, bool is_first, bool is_due)
{
    struct early_ends *early = &node->dispatcher.scheduling.early;
    bool is_shared = (store_features(node->stores[LOOP_DISPATCH]) & STORE_SHARED) != 0;
    if (is_shared && (is_first || early->is_full || (is_due && early->is_behind))) {
        begin_ended_lanes(node, true);
        early_ends_forget(early);
    }
}

/* The records of this node have given back a part of the slots that the news names. */
static void take_off_early_ends(struct node *node, struct schedule_fact *fact)
{
    if (node->dispatcher.scheduling.generation > 0 && fact->kind == FACT_HELD && fact->slots < 0 &&
        fact->node_id == node->dispatcher.node_id) {
        fact->slots = -early_ends_news(&node->dispatcher.scheduling.early, fact->lane_id, -fact->slots);
        fact->node_held = fact->slots;
    }
}

static enum weir_status learn_facts(struct node *node, const struct schedule_answer *answer)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    int64_t store_ahead_us = node->dispatcher.store_ahead_us;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < answer->fact_count && status == WEIR_OK; i++) {
        enum schedule_fact_kind kind = answer->facts[i].kind;
        /* Facts of other kinds also come without news. */
        s->has_news = s->has_news || kind == FACT_RUNNABLE || kind == FACT_HELD || kind == FACT_WORKSPACE ||
                      kind == FACT_WORKSPACES || kind == FACT_NEWS;
        if (kind == FACT_NEWS) {
            learn_schedule_news(s, &answer->facts[i]);
        } else {
            struct schedule_fact fact = answer->facts[i];
            fact.since_us -= store_ahead_us;
            take_off_early_ends(node, &fact);
            status = scheduler_learn(s->scheduler, &fact);
        }
    }
    s->needs |= scheduler_needs(s->scheduler);
    return status;
}

/* Step 4. */
static void settle_assignments(struct scheduling *s, const struct schedule_call *call, int64_t now_us)
{
    for (size_t i = call->assignment_count; i-- > 0;) {
        scheduler_settle(s->scheduler, now_us, &call->assignments[i]);
        if (call->assignments[i].outcome == ASSIGNMENT_LOCKED) {
            s->skip_locked_until_boot_us = time_add(now_us, SKIP_LOCKED_US);
        }
    }
}

/* The store has assigned a lone item by the offer of the call. The memory, which has learnt the item by now, decides the
 * same. Anything else is doubt, so the memory is given up, and all facts are loaded under a new epoch. */
static enum weir_status repeat_lone_item(struct scheduling *s, const struct schedule_call *call, size_t own_capacity,
                                         int64_t now_us)
{
    const struct assignment *made = &call->assignments[0];
    struct assignment same;
    size_t count = scheduler_assign(s->scheduler, now_us, call->node_id, own_capacity, &same, 1);
    if (count != 1 || memcmp(same.id, made->id, sizeof same.id) != 0 || same.lane_id != made->lane_id ||
        same.node_id != made->node_id || same.handed_over) {
        return WEIR_CONFLICT;
    }
    settle_assignments(s, call, now_us);
    return WEIR_OK;
}

/* Steps 4 and 5. */
static enum weir_status learn_answer(struct node *node, const struct schedule_call *call,
                                     const struct schedule_answer *answer, size_t own_capacity, int64_t now_us)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    bool had_news = s->has_news;
    bool is_lone = call->lone != NULL && call->assignment_count > 0;
    enum weir_status status = WEIR_OK;
    s->has_news = call->load;
    if (!is_lone) {
        settle_assignments(s, call, now_us);
    }
    for (size_t i = 0; i < call->read_count && status == WEIR_OK; i++) {
        status = scheduler_take_heads(s->scheduler, &call->reads[i]);
    }
    if (call->load || (call->needs & NEED_DUE) != 0) {
        s->due_us = answer->next_due_us;
    }
    if (status == WEIR_OK) {
        status = learn_facts(node, answer);
    }
    for (size_t i = 0; i < answer->news_read_count && status == WEIR_OK; i++) {
        status = scheduler_take_heads(s->scheduler, &answer->news_reads[i]);
    }
    if (is_lone && status == WEIR_OK) {
        status = repeat_lone_item(s, call, own_capacity, now_us);
    }
    if (s->has_news) { /* executions may have ended */
        atomic_store(&node->shared.hooks_due, true);
        atomic_store(&node->shared.schedules_due, true);
        child_duty_news(node);
    }
    bool has_promoted = (call->needs & NEED_DUE) != 0 && answer->fact_count > 0;
    s->has_own_news = call->load || answer->assigned > 0 || has_promoted;
    s->has_news = s->has_news || had_news || s->has_own_news;
    return status;
}

/* The offer for an item that the news of this round may bring, if there is nothing else to do. The lease and the nodes then
 * wait until the next round of an idle scheduler. */
static void plan_lone_item(struct scheduling *s, struct schedule_call *call, bool may_assign, int64_t now_us)
{
    bool may_wait = now_us < time_add(s->renewed_boot_us, SCHEDULER_IDLE_US) && s->needs == 0;
    bool is_quiet = call->assignment_count == 0 && call->read_count == 0 && call->orphan_count == 0 &&
                    (call->needs & ~(unsigned)NEED_STATE) == 0 && !call->skip_locked;
    if (!may_assign || !may_wait || !is_quiet) {
        return;
    }
    scheduler_offer_lone(s->scheduler, &s->lone);
    if (s->lone.node_id != 0) {
        call->lone = &s->lone;
        call->lease_us = 0;
        call->needs = 0;
    }
}

/* Step 1. !may_assign: another holder has the lock of dispatch.exclusive. */
static void plan_round(struct node *node, struct schedule_call *call, size_t own_capacity, bool may_assign, int64_t now_us)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    *call = (struct schedule_call){.node_id = atomic_load(&node->shared.id),
                                   .epoch = s->epoch,
                                   .assignments = s->assignments,
                                   .reads = s->reads,
                                   .load = !s->is_loaded,
                                   .awaits_lock = !may_assign};
    call->lease_us = now_us >= time_add(s->renewed_boot_us, SCHEDULER_RENEW_US) ? SCHEDULER_LEASE_US : 0;
    if (call->load) {
        return;
    }
    scheduler_keep_for_own(s->scheduler, s->turnover.is_quick && capacity_exceeds_set(node, own_capacity));
    if (may_assign && (s->needs & NEED_STATE) == 0) {
        call->assignment_count =
            scheduler_assign(s->scheduler, now_us, call->node_id, own_capacity, s->assignments, SCHEDULE_SET_MOST);
    }
    call->read_count = scheduler_request_reads(s->scheduler, now_us, s->reads, SCHEDULER_READS_MOST);
    call->skip_locked = now_us < s->skip_locked_until_boot_us;
    call->needs = s->needs | (now_us >= due_boot_us(node) ? (unsigned)NEED_DUE : 0U) |
                  (now_us >= s->nodes_boot_us ? (unsigned)NEED_STATE : 0U);
    call->orphan_count = scheduler_orphans(s->scheduler, s->orphans, ORPHANS_MOST);
    call->orphans = s->orphans;
    plan_lone_item(s, call, may_assign, now_us);
}

/* From `since_us` until `until_us`, at most `most_us`. */
static int64_t part_of_wait(int64_t since_us, int64_t until_us, int64_t most_us)
{
    return until_us > since_us ? earlier(until_us - since_us, most_us) : 0;
}

/* The wait of each item that was assigned for the first time, to whatever node. */
static void report_assignments(struct node *node, const struct schedule_call *call)
{
    int64_t now_us = node_now(node);
    for (size_t i = 0; i < call->assignment_count; i++) {
        const struct assignment *assignment = &call->assignments[i];
        if (assignment->outcome != ASSIGNMENT_TAKEN || assignment->since_us == 0) {
            continue;
        }
        int64_t since_us = assignment->since_us - node->dispatcher.store_ahead_us;
        struct event event = {.type = EVENT_EXECUTION_ASSIGNED, .node = node->name};
        event.duration_us = now_us > since_us ? now_us - since_us : 0;
        event.slot_wait_us = part_of_wait(since_us, assignment->slot_since_us, event.duration_us);
        event.pause_wait_us =
            part_of_wait(since_us + event.slot_wait_us, assignment->resumed_us, event.duration_us - event.slot_wait_us);
        history_count_start(&node->shared.history_counts, event.duration_us, event.slot_wait_us, event.pause_wait_us);
        event_emit(node->events, &event);
    }
}

static void report_orphans(struct node *node, const struct schedule_answer *answer)
{
    for (size_t i = 0; i < answer->orphan_count; i++) {
        char workspace[32];
        (void)snprintf(workspace, sizeof workspace, "number %lld", (long long)answer->orphans[i].workspace_id);
        struct event event = {.type = EVENT_WORKSPACE_NOT_FOUND,
                              .node = node->name,
                              .execution_id = answer->orphans[i].id,
                              .workspace = workspace,
                              .code = weir_status_name(WEIR_WORKSPACE_NOT_FOUND)};
        event_emit(node->events, &event);
    }
}

static enum weir_status refuse_memory(enum weir_status status, struct weir_error *error)
{
    error_set(error, status, "the scheduler's memory does not fit the store");
    if (status == WEIR_STORE_CORRUPT) {
        error_hint(error, "`weir store check` names the rows, if it is they that cannot be true");
    }
    return status;
}

/* Steps 1 to 5. *claimed grows by the items of this node. *ret_again: this round shows that the next one has work. */
static enum weir_status run_round(struct node *node, size_t own_capacity, bool may_assign, size_t *claimed, bool *ret_again,
                                  struct weir_error *error)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    struct schedule_call call;
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    struct assignment_batch *batch = assignment_batch_new();
    int64_t now_us = node_now(node);
    if (batch == NULL) {
        return error_out_of_memory(error);
    }
    INVARIANT(s->epoch != 0);
    batch->began_us = now_us;
    enum weir_status memory = learn_ended_lanes(node);
    note_turnover(node, now_us);
    plan_round(node, &call, own_capacity, may_assign, now_us);
    s->needs = 0;
    enum weir_status status = memory != WEIR_OK
                                  ? refuse_memory(memory, error)
                                  : store_schedule(node->stores[LOOP_DISPATCH], &call, &batch->arena, &answer, error);
    if (status == WEIR_OK) {
        FAILPOINT("after_claim");
        inbox_skip(node, &answer.claimed);
        dispatcher_learn_store_time(node, now_us, answer.now_us);
        report_assignments(node, &call);
        report_orphans(node, &answer);
        starter_start(node, call.node_id, batch, &answer.claimed);
        *claimed += answer.claimed.count;
        status = learn_answer(node, &call, &answer, own_capacity, now_us);
        status = status == WEIR_OK ? WEIR_OK : refuse_memory(status, error);
    }
    if (status == WEIR_OK) {
        s->is_loaded = true;
        s->renewed_boot_us = call.lease_us > 0 ? now_us : s->renewed_boot_us;
        if ((call.needs & NEED_STATE) != 0 || call.load) {
            s->nodes_boot_us = time_add(now_us, NODES_INTERVAL_US);
        }
        renew_ended_lanes(node, call.load, (call.needs & NEED_STATE) != 0);
        inbox_note_requests(node, answer.requests);
        bool has_changed = call.assignment_count > 0 || call.read_count > 0 || answer.fact_count > 0;
        *ret_again = call.load || answer.more_news || s->needs != 0 || call.orphan_count > 0 ||
                     now_us >= due_boot_us(node) || (has_changed && scheduler_has_work(s->scheduler, now_us));
    }
    pthread_mutex_lock(&node->shared.lock);
    assignment_batch_release(batch);
    pthread_mutex_unlock(&node->shared.lock);
    return status;
}

/* --- the books --- */

/* Step 7. A call that took long is followed by a long pause, so that publishing never takes the time of rounds. */
static enum weir_status publish_due_books(struct node *node, int64_t now_us, struct weir_error *error)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    bool more = false;
    if (!s->has_news || !s->is_loaded || now_us < s->publish_boot_us) {
        return WEIR_OK;
    }
    size_t count = scheduler_take_passes(s->scheduler, s->passes, SCHEDULE_SET_MOST);
    enum weir_status status = store_publish_books(node->stores[LOOP_DISPATCH], atomic_load(&node->shared.id), s->epoch,
                                                  s->passes, count, &more, error);
    if (status == WEIR_OK) {
        int64_t took_us = node_now(node) - now_us;
        int64_t rest_us = took_us * PUBLISH_PART > BOOKS_INTERVAL_US ? took_us * PUBLISH_PART : BOOKS_INTERVAL_US;
        bool is_idle = !scheduler_has_work(s->scheduler, now_us);
        s->has_news = more || count == SCHEDULE_SET_MOST || s->has_own_news;
        s->publish_boot_us = time_add(now_us, more && is_idle ? 2 * took_us : rest_us);
    }
    return status;
}

/* --- the step --- */

/* With dispatch.exclusive the scheduler assigns nothing without its lock in the table `shedlock`. */
static bool holds_exclusive(struct node *node, int64_t now_us, int64_t *ret_next_us)
{
    if (!node->settings.exclusive || !scheduler_has_work(node->dispatcher.scheduling.scheduler, now_us)) {
        return true;
    }
    if (shedlock_hold(node, node->stores[LOOP_DISPATCH], &node->dispatcher.exclusive, now_us)) {
        return true;
    }
    *ret_next_us = earlier(*ret_next_us, node->dispatcher.exclusive.again_boot_us);
    return false;
}

/* False once the node has lost its lease during a round, or holds items for which it had no memory. */
static bool may_continue(const struct node *node)
{
    return atomic_load(&node->shared.id) == node->dispatcher.node_id && !atomic_load(&node->shared.lease_lost) &&
           unstartable_is_empty(node);
}

/* Step 6. *ret_own_capacity: the free capacity of this node before the last round. */
static enum weir_status run_rounds(struct node *node, int64_t now_us, size_t *ret_own_capacity, bool *ret_again,
                                   int64_t *ret_next_us, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t batch = node->tuning.batch_size;
    size_t claimed = 0;
    *ret_again = true;
    for (int i = 0; i < ROUNDS_MOST && status == WEIR_OK && *ret_again && may_continue(node) && claimed < batch; i++) {
        bool may_assign = holds_exclusive(node, now_us, ret_next_us);
        /* A round moves the inbox's position behind the items that it assigns, and would skip unread ones. */
        size_t free_capacity = node->dispatcher.inbox.is_due ? 0 : capacity_free(node, now_us);
        *ret_own_capacity = free_capacity;
        size_t most = free_capacity < batch - claimed ? free_capacity : batch - claimed;
        status = run_round(node, most, may_assign, &claimed, ret_again, error);
    }
    return status;
}

/* All rounds of a step, and the time of the next step. */
static enum weir_status schedule_once(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    struct scheduling *s = &node->dispatcher.scheduling;
    bool again = false;
    size_t own_capacity = 0;
    enum weir_status status = run_rounds(node, now_us, &own_capacity, &again, ret_next_us, error);
    if (status == WEIR_OK) {
        status = publish_due_books(node, now_us, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (own_capacity == 0) {
        capacity_await(node, now_us, ret_next_us);
    }
    *ret_next_us = earlier(*ret_next_us, time_add(s->renewed_boot_us, SCHEDULER_IDLE_US));
    *ret_next_us = earlier(*ret_next_us, due_boot_us(node));
    *ret_next_us = earlier(*ret_next_us, scheduler_next_us(s->scheduler));
    *ret_next_us = earlier(*ret_next_us, s->has_news ? s->publish_boot_us : TIME_NEVER);
    if (again) {
        *ret_next_us = now_us;
    }
    return WEIR_OK;
}

enum weir_status scheduling_step(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    INVARIANT(node != NULL && ret_next_us != NULL && node->dispatcher.scheduling.epoch != 0);
    enum weir_status status = schedule_once(node, now_us, ret_next_us, error);
    if (status != WEIR_OK) {
        scheduling_lose(node, error->message);
    }
    return status == WEIR_STALE_FENCE ? WEIR_OK : status; /* the role is over, and the store is well */
}
