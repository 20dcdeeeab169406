/* The loop of a scheduler for tests, which serves one node.
 *
 * One claim:
 * 1. Without an epoch: take the role and load all facts into an empty scheduler.
 * 2. One round that assigns nothing. It brings the news, and the items that became due.
 * 3. Rounds that record the assignments of the scheduler and read the heads that it requests, until the limit is reached or
 * it has nothing to do. Items that other transactions hold are left out, because their delay does not pass within a claim.
 *
 * Outcomes are settled first, then heads are read, then facts are learnt: the facts of an answer are newer than its heads.
 * After an error the epoch is forgotten. The memory is never repaired in place. */
#include "support/claiming.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/random.h"

enum {
    SCRATCH_BYTES = 256 * 1024 * 1024,
    ROUNDS_MOST = 100000, /* of one claim; a store that never comes to an end fails the test instead of its time limit */
    TAKEOVERS_MOST = 1000,
    WAIT_STEPS_MOST = 6, /* the longest delay after a lost role is 2^6 ms */
    PASSES_MOST = 10000
};
/* The room of the node: its limit is the limit of the claim. */
#define ROOM INT64_C(1000000000)
/* Tests let days pass between two claims, in which the role must not become free. */
#define ROLE_LEASE_US (INT64_C(315360000) * MICROSECONDS_PER_SECOND)

struct claimer {
    struct store *store;
    struct scheduler *scheduler;
    int64_t node_id;
    int64_t epoch;      /* 0 = none */
    unsigned needs;     /* of the next round */
    bool more_news;     /* the last round did not bring all */
    bool may_schedule;  /* the last attempt to take the role did not fail */
    int64_t now_us;     /* store time of the last round: the clock of the scheduler, which a scene can move */
    int64_t due_us;     /* when the next waiting item becomes due */
    struct arena facts; /* of rounds that assign nothing */
    struct random random;
    struct lane_read *reads;
    struct assignment *assignments;
    struct lane_pass *passes;
    struct claimed_item *items; /* of this claim */
    size_t item_count;
    size_t item_room;
    size_t handed_over;
};

/* --- the role --- */

enum weir_status take_role(struct store *store, int64_t node_id, int64_t *ret_epoch, struct weir_error *error)
{
    struct role_request take = {.act = ROLE_TAKE, .node_id = node_id, .lease_us = ROLE_LEASE_US, .why = "test"};
    struct role_request look = {.act = ROLE_READ};
    struct role_state state = {0};
    enum weir_status status = store_role(store, &take, &state, error);
    for (int i = 0; status == WEIR_CONFLICT && i < TAKEOVERS_MOST; i++) {
        status = store_role(store, &look, &state, error);
        if (status == WEIR_OK && state.node_id != 0) {
            struct role_request leave = {.act = ROLE_LEAVE, .node_id = state.node_id, .epoch = state.epoch};
            status = store_role(store, &leave, &state, error);
        }
        if (status == WEIR_OK) {
            status = store_role(store, &take, &state, error);
        }
    }
    if (status == WEIR_OK) {
        *ret_epoch = state.epoch;
    }
    return status;
}

/* Claimers that take the role from each other at once would never come to a claim. */
static void wait_after_lost_role(struct claimer *claimer, int losses)
{
    int step = losses < WAIT_STEPS_MOST ? losses : WAIT_STEPS_MOST;
    int64_t wait_us = (int64_t)random_below(&claimer->random, (uint64_t)MICROSECONDS_PER_MS << step);
    struct timespec wait = {.tv_nsec = (long)(wait_us * 1000)};
    (void)nanosleep(&wait, NULL);
}

/* --- rounds --- */

static enum weir_status learn(struct claimer *claimer, const struct schedule_fact *given)
{
    struct schedule_fact fact = *given;
    if (fact.kind == FACT_NODE && fact.node_id == claimer->node_id) {
        fact.capacity = ROOM;
    } else if (fact.kind == FACT_NODE) {
        fact.accepts = false;
    } else if (fact.kind == FACT_NEWS) {
        claimer->needs |= fact.flags;
    }
    return scheduler_learn(claimer->scheduler, &fact);
}

/* In reverse order: an undone assignment returns to the front of its lane. */
static void settle(struct claimer *claimer, const struct schedule_call *call, int64_t clock_us)
{
    for (size_t i = call->assignment_count; i-- > 0;) {
        scheduler_settle(claimer->scheduler, clock_us, &call->assignments[i]);
    }
}

static enum weir_status keep_items(struct claimer *claimer, const struct claim_result *claimed)
{
    if (claimed->count > claimer->item_room - claimer->item_count) {
        size_t room = (claimer->item_count + claimed->count) * 2;
        struct claimed_item *items = realloc(claimer->items, room * sizeof *items);
        if (items == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        claimer->items = items;
        claimer->item_room = room;
    }
    if (claimed->count > 0) {
        memcpy(claimer->items + claimer->item_count, claimed->items, claimed->count * sizeof *claimed->items);
    }
    claimer->item_count += claimed->count;
    claimer->handed_over += claimed->handed_over;
    return WEIR_OK;
}

static enum weir_status take_answer(struct claimer *claimer, const struct schedule_call *call,
                                    const struct schedule_answer *answer, int64_t clock_us, struct weir_error *error)
{
    enum weir_status status = keep_items(claimer, &answer->claimed);
    settle(claimer, call, clock_us);
    for (size_t i = 0; status == WEIR_OK && i < call->read_count; i++) {
        status = scheduler_take_heads(claimer->scheduler, &call->reads[i]);
    }
    for (size_t i = 0; status == WEIR_OK && i < answer->fact_count; i++) {
        status = learn(claimer, &answer->facts[i]);
    }
    claimer->needs |= scheduler_needs(claimer->scheduler);
    if (status != WEIR_OK) {
        return error_set(error, status, "the scheduler's memory does not fit the answer of the store");
    }
    claimer->now_us = answer->now_us;
    claimer->more_news = answer->more_news;
    if ((call->needs & NEED_DUE) != 0 || call->load) {
        claimer->due_us = answer->next_due_us;
    }
    if (claimer->due_us <= claimer->now_us) {
        claimer->needs |= NEED_DUE;
    }
    return WEIR_OK;
}

/* The parts of the call that are not set are the same in every round. */
static enum weir_status run_round(struct claimer *claimer, struct schedule_call call, struct arena *arena,
                                  struct weir_error *error)
{
    struct schedule_answer answer = {0};
    int64_t clock_us = claimer->now_us;
    call.node_id = claimer->node_id;
    call.epoch = claimer->epoch;
    call.needs |= claimer->needs;
    claimer->needs = 0;
    enum weir_status status = store_schedule(claimer->store, &call, arena, &answer, error);
    if (status == WEIR_OK) {
        status = take_answer(claimer, &call, &answer, clock_us, error);
    }
    if (status != WEIR_OK) {
        claimer->epoch = 0;
    }
    return status;
}

static enum weir_status load(struct claimer *claimer, struct weir_error *error)
{
    int64_t epoch = 0;
    enum weir_status status = take_role(claimer->store, claimer->node_id, &epoch, error);
    claimer->may_schedule = status == WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    claimer->epoch = epoch;
    claimer->needs = 0;
    claimer->due_us = TIME_NEVER;
    scheduler_clear(claimer->scheduler);
    arena_reset(&claimer->facts);
    return run_round(claimer, (struct schedule_call){.load = true}, &claimer->facts, error);
}

/* The assignments and requests of the scheduler. False: there are none. */
static bool prepare(struct claimer *claimer, size_t limit, int64_t *orphan, struct schedule_call *ret_call)
{
    int64_t clock_us = claimer->now_us;
    size_t most = limit < CLAIM_BATCH_MOST ? limit : CLAIM_BATCH_MOST;
    struct schedule_call call = {.assignments = claimer->assignments, .reads = claimer->reads, .orphans = orphan};
    size_t room = limit > 0 ? limit : (size_t)ROOM;
    call.assignment_count =
        scheduler_assign(claimer->scheduler, clock_us, claimer->node_id, room, claimer->assignments, most);
    call.read_count = scheduler_request_reads(claimer->scheduler, clock_us, claimer->reads, SCHEDULER_READS_MOST);
    call.orphan_count = scheduler_orphans(claimer->scheduler, orphan, 1);
    *ret_call = call;
    return call.assignment_count > 0 || call.read_count > 0 || call.orphan_count > 0 || claimer->needs != 0 ||
           claimer->more_news;
}

/* One epoch of a claim. With `limit` 0 it only brings the scheduler up to date. */
static enum weir_status run_rounds(struct claimer *claimer, size_t limit, struct arena *arena, struct weir_error *error)
{
    struct schedule_call call = {.needs = NEED_DUE};
    int64_t orphan = 0;
    enum weir_status status = claimer->epoch == 0 ? load(claimer, error) : run_round(claimer, call, &claimer->facts, error);
    for (int i = 0; status == WEIR_OK && (limit == 0 || claimer->item_count < limit); i++) {
        if (!prepare(claimer, limit - (limit == 0 ? 0 : claimer->item_count), &orphan, &call)) {
            return WEIR_OK;
        }
        if (i == ROUNDS_MOST) {
            return error_set(error, WEIR_FAILED, "the claim came to no end in %d rounds", ROUNDS_MOST);
        }
        arena_reset(&claimer->facts);
        status = run_round(claimer, call, call.assignment_count > 0 ? arena : &claimer->facts, error);
    }
    return status;
}

static enum weir_status run_epochs(struct claimer *claimer, size_t limit, struct arena *arena, struct weir_error *error)
{
    claimer->item_count = 0;
    claimer->handed_over = 0;
    for (int losses = 0;; losses++) {
        enum weir_status status = run_rounds(claimer, limit, arena, error);
        if (status == WEIR_OK || (status == WEIR_STALE_FENCE && claimer->item_count > 0)) {
            return WEIR_OK;
        }
        if (status != WEIR_STALE_FENCE || !claimer->may_schedule || losses == TAKEOVERS_MOST) {
            return status;
        }
        wait_after_lost_role(claimer, losses);
    }
}

/* --- claims --- */

enum weir_status claimer_open(struct store *store, int64_t node_id, struct claimer **ret_claimer, struct weir_error *error)
{
    struct claimer *claimer = calloc(1, sizeof *claimer);
    if (claimer == NULL) {
        return error_out_of_memory(error);
    }
    claimer->store = store;
    claimer->node_id = node_id;
    claimer->due_us = TIME_NEVER;
    arena_init(&claimer->facts, SCRATCH_BYTES);
    random_seed_from_system(&claimer->random);
    claimer->reads = calloc(SCHEDULER_READS_MOST, sizeof *claimer->reads);
    claimer->assignments = calloc(CLAIM_BATCH_MOST, sizeof *claimer->assignments);
    claimer->passes = calloc(PASSES_MOST, sizeof *claimer->passes);
    if (claimer->reads == NULL || claimer->assignments == NULL || claimer->passes == NULL ||
        scheduler_open(&claimer->scheduler) != WEIR_OK) {
        claimer_close(claimer);
        return error_out_of_memory(error);
    }
    *ret_claimer = claimer;
    return WEIR_OK;
}

void claimer_close(struct claimer *claimer)
{
    if (claimer == NULL) {
        return;
    }
    scheduler_close(claimer->scheduler);
    arena_close(&claimer->facts);
    free(claimer->reads);
    free(claimer->assignments);
    free(claimer->passes);
    free(claimer->items);
    free(claimer);
}

enum weir_status claimer_claim(struct claimer *claimer, size_t limit, struct arena *arena, struct claim_result *ret_result,
                               struct weir_error *error)
{
    if (limit == 0) {
        return error_set(error, WEIR_MISUSE, "a claim needs a limit");
    }
    enum weir_status status = run_epochs(claimer, limit, arena, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct claim_result result = {
        .count = claimer->item_count, .handed_over = claimer->handed_over, .now_us = claimer->now_us};
    if (result.count > 0) {
        result.items = arena_allocate(arena, result.count * sizeof *result.items);
        if (result.items == NULL) {
            return error_out_of_memory(error);
        }
        memcpy(result.items, claimer->items, result.count * sizeof *result.items);
    }
    *ret_result = result;
    return WEIR_OK;
}

enum weir_status claimer_look(struct claimer *claimer, struct work_ahead *ret_work, struct weir_error *error)
{
    struct inbox_position position = {.fence = INT64_MAX};
    struct inbox inbox = {0};
    enum weir_status status = run_epochs(claimer, 0, &claimer->facts, error);
    if (status == WEIR_OK) {
        arena_reset(&claimer->facts);
        status = store_inbox(claimer->store, claimer->node_id, &position, 0, &claimer->facts, &inbox, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    int64_t due_in_us = claimer->due_us == TIME_NEVER ? TIME_NEVER : claimer->due_us - claimer->now_us;
    int64_t clock_us = claimer->now_us;
    (void)scheduler_assign(claimer->scheduler, clock_us, claimer->node_id, (size_t)ROOM, claimer->assignments, 0);
    *ret_work = (struct work_ahead){.ready = scheduler_has_work(claimer->scheduler, clock_us),
                                    .requests = inbox.requests,
                                    .due_in_us = due_in_us > 0 ? due_in_us : 0};
    return WEIR_OK;
}

enum weir_status claimer_publish(struct claimer *claimer, struct weir_error *error)
{
    bool more = claimer->epoch != 0;
    enum weir_status status = WEIR_OK;
    while (more && status == WEIR_OK) {
        size_t count = scheduler_take_passes(claimer->scheduler, claimer->passes, PASSES_MOST);
        status =
            store_publish_books(claimer->store, claimer->node_id, claimer->epoch, claimer->passes, count, &more, error);
        more = more || count == PASSES_MOST;
    }
    if (status != WEIR_OK) {
        claimer->epoch = 0;
    }
    return status == WEIR_STALE_FENCE ? WEIR_OK : status;
}

int64_t claimer_epoch(const struct claimer *claimer)
{
    return claimer->epoch;
}

struct scheduler *claimer_scheduler(struct claimer *claimer)
{
    return claimer->scheduler;
}

/* --- one claim --- */

enum weir_status claim_through_scheduler(struct store *store, const struct claim_request *request, struct arena *arena,
                                         struct claim_result *ret_result, struct weir_error *error)
{
    struct claimer *claimer = NULL;
    struct claim_result result = {0};
    enum weir_status status = claimer_open(store, request->node_id, &claimer, error);
    if (status == WEIR_OK) {
        status = claimer_claim(claimer, request->limit, arena, &result, error);
    }
    if (status == WEIR_OK && result.count > 0) { /* else no pass has changed */
        status = claimer_publish(claimer, error);
    }
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    claimer_close(claimer);
    return status;
}

enum weir_status look_for_work(struct store *store, int64_t node_id, struct work_ahead *ret_work, struct weir_error *error)
{
    struct claimer *claimer = NULL;
    enum weir_status status = claimer_open(store, node_id, &claimer, error);
    if (status == WEIR_OK) {
        status = claimer_look(claimer, ret_work, error);
    }
    claimer_close(claimer);
    return status;
}
