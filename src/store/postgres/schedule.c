/* Rounds of the scheduler: one call of schedule() (functions/schedule.sql), and the position in the news.
 *
 * Assignment, step by step. The numbers name the steps in functions/schedule.sql as well.
 * 1. The call names the node and its epoch. The server locks the row of `scheduler` and compares the epoch; with another
 *    epoch it writes nothing (`void`). A takeover increments the epoch under the same lock, so two schedulers never assign
 *    at the same time, however long one of them was frozen.
 * 2. The server reads the news that this handle has not seen, before it assigns. An act in it (a pause, a smaller limit)
 *    prevents the assignments of this round: the memory of the scheduler did not know it.
 * 3. It records the assignments (assign_items()): it locks the nodes FOR KEY SHARE by ascending id, then the items in the
 *    order of their start. The order scheduler, nodes, items, act_gate is the same in every function. Only two sets of
 *    items may be locked in different orders. A cycle of them does not last: a round waits 50 ms for a lock, less than the
 *    server's deadlock_timeout, and is then repeated without the locked rows.
 * 4. It reads heads, waiting items that are due, and the state, as the call wants.
 * 5. Last it locks act_gate and looks for acts that were committed since step 2. An act that commits later waits for the
 *    end of this transaction. So the scheduler assigns nothing once an act has returned to its caller.
 *
 * The position. The handle keeps the snapshot in which the last round read the news. The next round reads the news that
 * was committed between that snapshot and its own, each entry exactly once. A transaction that stays open for hours
 * delays its own news only. If more news is left than one round reads, the next rounds go on between the same two
 * snapshots. The load of a new epoch reads all facts and the first snapshot at once.
 *
 * A snapshot is of one server. So the position is forgotten after every failure and with the connection; a round never
 * moves to another connection by itself (keeps_session). The server compares the timeline, which changes when a standby is
 * promoted. Without a position there is no round: the caller takes a new epoch.
 *
 * This file repeats a round in two cases, with the same answer as if it had been the first try:
 *   55P03  a row was locked for longer than the round waits: once more, without the locked rows
 *   WR013  an act was committed during the round (step 5): once more, without assignments
 *
 * An offer for a lone item counts as an assignment in both cases, and the repetition is without it.
 *
 * It never repeats a round after a lost answer: the assignments may be recorded. It runs in the dispatch thread. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/schedule_answer.h"

enum { POSITION_TEXT_MAX = 16 * 1024 * 1024 };

/* --- the position --- */

void news_position_forget(struct news_position *position)
{
    INVARIANT(position != NULL);
    text_close(&position->timeline);
    text_close(&position->seen);
    text_close(&position->reading);
    text_close(&position->folded);
    text_close(&position->folding);
    *position = (struct news_position){.epoch = 0};
}

static enum weir_status set_position_text(struct text *to, const char *value, struct weir_error *error)
{
    text_clear(to);
    to->max = POSITION_TEXT_MAX;
    return text_add_string(to, value) == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
}

/* Refuses a round if the handle has no position in the news of this epoch. */
static enum weir_status require_position(const struct postgres_store *self, int64_t epoch, struct weir_error *error)
{
    const struct news_position *news = &self->news;
    if (news->epoch != epoch || news->seen.length == 0) {
        return error_set(error, WEIR_STALE_FENCE, "the facts of epoch %lld were not loaded", (long long)epoch);
    }
    if (news->drops != self->link.drops) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the connection of the last round was lost");
    }
    return WEIR_OK;
}

/* --- the arguments of a round --- */

struct arguments {
    uint8_t *ids;
    int64_t *nodes;
    bool *handed_over;
    int64_t *lanes;
    int64_t *ranks;
    uint8_t *after;
    int *mosts;
    struct claimed_item *items; /* for the items of this node: at most one per assignment */
};

static bool fill_schedule_arguments(const struct schedule_call *call, struct arena *arena, struct arguments *to)
{
    size_t items = call->assignment_count + 1;
    size_t reads = call->read_count + 1;
    *to = (struct arguments){.ids = arena_allocate(arena, items * SCHEDULER_ID_BYTES),
                             .nodes = arena_allocate(arena, items * sizeof *to->nodes),
                             .handed_over = arena_allocate(arena, items * sizeof *to->handed_over),
                             .lanes = arena_allocate(arena, reads * sizeof *to->lanes),
                             .ranks = arena_allocate(arena, reads * sizeof *to->ranks),
                             .after = arena_allocate(arena, reads * SCHEDULER_ID_BYTES),
                             .mosts = arena_allocate(arena, reads * sizeof *to->mosts),
                             .items = arena_allocate(arena, items * sizeof *to->items)};
    if (to->ids == NULL || to->nodes == NULL || to->handed_over == NULL || to->lanes == NULL || to->ranks == NULL ||
        to->after == NULL || to->mosts == NULL || to->items == NULL) {
        return false;
    }
    for (size_t i = 0; i < call->assignment_count; i++) {
        memcpy(to->ids + i * SCHEDULER_ID_BYTES, call->assignments[i].id, SCHEDULER_ID_BYTES);
        to->nodes[i] = call->assignments[i].node_id;
        to->handed_over[i] = call->assignments[i].handed_over;
    }
    for (size_t i = 0; i < call->read_count; i++) {
        to->lanes[i] = call->reads[i].lane_id;
        to->ranks[i] = call->reads[i].after_rank;
        memcpy(to->after + i * SCHEDULER_ID_BYTES, call->reads[i].after_id, SCHEDULER_ID_BYTES);
        to->mosts[i] = (int)call->reads[i].most;
    }
    return true;
}

static const int limits[] = {PROMOTE_BATCH, RECOVER_BATCH, NEWS_BATCH_MOST};
enum { LIMITS = sizeof limits / sizeof limits[0] };

/* Sends one round with the first `assignments` of the call. */
static enum weir_status call_schedule(struct postgres_store *self, const struct schedule_call *call,
                                      const struct arguments *a, size_t assignments, bool skip_locked,
                                      PGresult **ret_result, struct weir_error *error)
{
    const struct news_position *news = &self->news;
    bool goes_on = !call->load && news->reading.length > 0;
    self->link.keeps_session = !call->load;
    enum weir_status status = link_write(
        &self->link, error, ret_result, QUERY_SCHEDULE, "iiiottttiVIOoIIVDdID", call->node_id, call->epoch, call->lease_us,
        call->awaits_lock, call->load ? NULL : news->seen.data, call->load ? NULL : news->timeline.data,
        goes_on ? news->reading.data : NULL, goes_on ? news->read.xid : "0", goes_on ? news->read.seq : 0, a->ids,
        assignments, a->nodes, assignments, a->handed_over, assignments, skip_locked, a->lanes, call->read_count, a->ranks,
        call->read_count, a->after, call->read_count, a->mosts, call->read_count, (int)call->needs, call->orphans,
        call->orphan_count, limits, LIMITS);
    self->link.keeps_session = false;
    return status;
}

/* The same for a call that is nothing but an offer. */
static enum weir_status call_schedule_lone(struct postgres_store *self, const struct schedule_call *call,
                                           PGresult **ret_result, struct weir_error *error)
{
    const struct lone_offer *lone = call->lone;
    self->link.keeps_session = true;
    enum weir_status status =
        link_write(&self->link, error, ret_result, QUERY_SCHEDULE_LONE, "iittDiIII", call->node_id, call->epoch,
                   self->news.seen.data, self->news.timeline.data, limits, LIMITS, lone->node_id, lone->kinds,
                   lone->kind_count, lone->workspaces, lone->workspace_count, lone->held, lone->workspace_count);
    self->link.keeps_session = false;
    return status;
}

/* *ret_is_stale: an act was committed during the round, and the round was done again without its assignments. */
static enum weir_status call_schedule_with_repeats(struct postgres_store *self, const struct schedule_call *call,
                                                   const struct arguments *arguments, PGresult **ret_result,
                                                   bool *ret_is_stale, struct weir_error *error)
{
    size_t count = call->assignment_count;
    bool is_lone = call->lone != NULL && self->news.reading.length == 0;
    enum weir_status status = is_lone ? call_schedule_lone(self, call, ret_result, error)
                                      : call_schedule(self, call, arguments, count, call->skip_locked, ret_result, error);
    bool may_be_locked = (is_lone || count > 0) && !call->skip_locked;
    if (status != WEIR_OK && may_be_locked && strcmp(self->link.sqlstate, "55P03") == 0) {
        status = call_schedule(self, call, arguments, count, true, ret_result, error);
    }
    *ret_is_stale = status != WEIR_OK && (is_lone || count > 0) && strcmp(self->link.sqlstate, "WR013") == 0;
    return *ret_is_stale ? call_schedule(self, call, arguments, 0, false, ret_result, error) : status;
}

/* --- the assignments of this node --- */

/* Copies the items of this node into the answer, in the order of the assignments, with their names and their steps. */
static enum weir_status collect_own_items(struct postgres_store *self, struct round *round, struct weir_error *error)
{
    struct claim_result *claimed = &round->answer->claimed;
    int64_t *workspace_ids = arena_allocate(round->arena, (round->own_count + 1) * sizeof *workspace_ids);
    claimed->now_us = round->answer->now_us;
    if (workspace_ids == NULL || round->failed) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < round->call->assignment_count; i++) {
        const struct assignment *assignment = &round->call->assignments[i];
        struct claimed_item *item = &round->own[i];
        if (item->fence != 0) {
            workspace_ids[claimed->count] = lane_workspace_id(assignment->lane_id);
            claimed->items[claimed->count] = *item;
            claimed->items[claimed->count++].lane_id = assignment->lane_id;
            claimed->handed_over += assignment->handed_over;
        }
    }
    enum weir_status status =
        item_names_set(&self->names, &self->link, round->arena, claimed->items, workspace_ids, claimed->count, error);
    if (status == WEIR_OK) {
        status = claimed_read_steps(&self->link, round->arena, claimed, error);
    }
    return status == WEIR_OK ? claimed_read_signals(&self->link, round->arena, claimed, error) : status;
}

/* --- the verb --- */

/* The position moves after the rows were read, so that a failure before it loses no news. */
static enum weir_status advance_position(struct postgres_store *self, const struct round *round, struct weir_error *error)
{
    struct news_position *news = &self->news;
    if (round->more > 0) {
        int row = round->more - 1;
        text_copy(news->read.xid, sizeof news->read.xid, result_text(round->result, row, ROW_N1));
        news->read.seq = result_int(round->result, row, ROW_N2);
        return set_position_text(&news->reading, result_text(round->result, row, ROW_NAME), error);
    }
    INVARIANT(round->seen != NULL && (round->timeline != NULL || !round->call->load));
    text_clear(&news->reading);
    enum weir_status status = set_position_text(&news->seen, round->seen, error);
    if (status == WEIR_OK && round->call->load) {
        news->epoch = round->call->epoch;
        news->drops = self->link.drops;
        status = set_position_text(&news->timeline, round->timeline, error);
    }
    return status;
}

static enum weir_status accept_round(struct postgres_store *self, struct round *round, struct weir_error *error)
{
    if (!round_allocate(round)) {
        return error_out_of_memory(error);
    }
    round_read_rows(round);
    if (round->is_void) {
        return error_set(error, WEIR_STALE_FENCE,
                         "epoch %lld is over: another node has taken the role, or the server is another one",
                         (long long)round->call->epoch);
    }
    enum weir_status status = advance_position(self, round, error);
    return status == WEIR_OK ? collect_own_items(self, round, error) : status;
}

static bool is_nothing_else(const struct schedule_call *call)
{
    return call->assignment_count == 0 && call->read_count == 0 && call->orphan_count == 0 && call->needs == 0 &&
           call->lease_us == 0 && !call->load && !call->skip_locked && !call->awaits_lock;
}

enum weir_status postgres_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                   struct schedule_answer *ret_answer, struct weir_error *error)
{
    struct postgres_store *self = postgres_of(store);
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    struct round round = {.call = call, .answer = &answer, .arena = arena, .names = &self->names};
    struct arguments arguments;
    PGresult *result = NULL;
    INVARIANT(call != NULL && arena != NULL && ret_answer != NULL && call->node_id > 0);
    INVARIANT(!self->link.in_transaction && (call->lone == NULL || is_nothing_else(call)));
    link_start(&self->link);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK && call->load) {
        news_position_forget(&self->news);
        item_names_clear(&self->names);
    } else if (status == WEIR_OK) {
        status = require_position(self, call->epoch, error);
    }
    if (status == WEIR_OK && !fill_schedule_arguments(call, arena, &arguments)) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        status = call_schedule_with_repeats(self, call, &arguments, &result, &answer.is_stale, error);
    }
    if (status == WEIR_OK) {
        round.result = result;
        answer.claimed.items = arguments.items;
        status = accept_round(self, &round, error);
        PQclear(result);
    }
    if (status != WEIR_OK) {
        news_position_forget(&self->news);
        return status;
    }
    *ret_answer = answer;
    return WEIR_OK;
}
