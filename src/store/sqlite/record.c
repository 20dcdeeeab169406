/* Record: writes the reports of engines. A set is one transaction, and each record has its own outcome.
 *
 *   1. Begin one write transaction for the whole set, because a commit costs a sync of the disk. A record costs little, but
 *      a set of many is long. So while an enqueue or a small round waits for the writer, the transaction ends after
 *      RECORDS_AT_ONCE records, and another one writes the rest behind that call.
 *   2. Refuse a record with an output that is too long. Its outcome says so; the other records go on.
 *   3. Collect steps, parks and ends of different executions (held_items.h, parks.h, ends.h). Each collection is written
 *      by a few statements for all of it.
 *   4. Records of different executions need no order. Before a record of an execution that has a collected one, write
 *      what was collected. The exception is a collected step, because steps are written before parks and ends.
 *   5. Write each record with a condition on id and fence. When no row matches, set_outcome_of_no_row() finds out why
 *      and sets the outcome: unknown, stale fence, illegal state, or a repetition. A repetition counts as done, because
 *      reports may arrive twice.
 *   6. A put-back for the same reason as the one before writes no event: an engine that is away for hours would fill
 *      the history.
 *   7. Before a claim ends, write its times as events, because the row keeps only the last claim.
 *   8. Note each change in the news, and insert the news before the commit. So the scheduler sees the change exactly
 *      when it is durable.
 *   9. Commit. Until then no outcome is reported, and a failure of the store undoes the transaction. If a part of the set
 *      is on record then, the outcome of the rest is WEIR_STORE_BUSY.
 *
 * It never writes to a row with another fence and never rewrites an ended execution. Runs in the thread of the handle: the
 * record thread of a node, its dispatch thread for items that it gives back, or a program that reports an end.
 */
#include <string.h>

#include "base/error.h"
#include "queue/suspicion.h"
#include "store/sqlite/children.h"
#include "store/sqlite/ends.h"
#include "store/sqlite/event_history.h"
#include "store/sqlite/filter_query.h"
#include "store/sqlite/parks.h"
#include "store/sqlite/signals.h"
#include "store/sqlite/states.h"
#include "store/sqlite/stream.h"

/* So many records are collected at most. While a short call waits, the transaction ends with them: it is long enough to be
 * worth its commit. */
enum { RECORDS_AT_ONCE = 64 };

/* Records that are collected, and written together. They are written in this order. */
enum collection { COLLECTED_NOT, COLLECTED_STEPS, COLLECTED_PARKS, COLLECTED_ENDS };

enum { COLLECTED_SLOTS = 2 * RECORDS_AT_ONCE }; /* a power of two. It is cleared for each RECORDS_AT_ONCE records. */

/* The executions of collected records. Open addressing. Small, because it is cleared often. */
struct collected {
    uint16_t slots[COLLECTED_SLOTS]; /* 1 + the index of a record, 0 = free */
    uint8_t last[COLLECTED_SLOTS];   /* the last collection that has a record of it */
};

/* A set while it is recorded. */
struct recording {
    struct write write;
    int64_t asked_boot_us; /* the beginning of the call */
    int64_t node_id;
    struct record *records;
    size_t record_count;
    struct held_items steps;
    struct held_items parks;
    struct ends ends;
    struct collected collected;
    size_t poisoned;
};

struct found_item {
    enum item_state state;
    int64_t fence;
    int64_t lane_id;
    int64_t workspace_id;
    int64_t node_id;
    int64_t rank;
    int phase;
    int deferrals;
    int64_t signals; /* so far */
    bool cancel_requested;
    bool taken_over; /* an earlier claim of it was lost or given back */
    char error_code[ERROR_CODE_MAX + 1];
};

/* WEIR_EXECUTION_NOT_FOUND when no live row has the id. */
static enum weir_status find_item(struct connection *connection, const char *id, struct found_item *ret_item,
                                  struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIND_ITEM, "t", id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? WEIR_EXECUTION_NOT_FOUND : status;
    }
    ret_item->fence = sqlite3_column_int64(statement, 1);
    ret_item->lane_id = sqlite3_column_int64(statement, 2);
    status = filter_parse_state(id, column_text(statement, 0), ret_item->lane_id, &ret_item->state, error);
    ret_item->workspace_id = sqlite3_column_int64(statement, 3);
    ret_item->phase = sqlite3_column_int(statement, 4);
    ret_item->cancel_requested = sqlite3_column_type(statement, 5) != SQLITE_NULL;
    ret_item->node_id = sqlite3_column_int64(statement, 6);
    const char *code = column_text(statement, 7);
    text_copy(ret_item->error_code, sizeof ret_item->error_code, code == NULL ? "" : code);
    ret_item->taken_over = sqlite3_column_int(statement, 8) > 0;
    ret_item->rank = sqlite3_column_int64(statement, 9);
    ret_item->deferrals = sqlite3_column_int(statement, 10);
    ret_item->signals = sqlite3_column_int64(statement, 11);
    (void)sqlite3_reset(statement);
    return status;
}

/* A conditional write changed no row: why is the outcome of the record. Only a failure of the store itself is returned. */
static enum weir_status set_outcome_of_no_row(struct write *write, struct record *record, struct weir_error *error)
{
    struct found_item item;
    enum weir_status status = find_item(write->connection, record->id, &item, error);
    if (status != WEIR_OK && status != WEIR_EXECUTION_NOT_FOUND) {
        return status;
    }
    bool put_back = record->kind == RECORD_RETRY || record->kind == RECORD_DEFERRED || record->kind == RECORD_PUT_BACK;
    bool done = status == WEIR_OK && ((record->kind == RECORD_DISPATCHED && item.state == ITEM_DISPATCHED) ||
                                      (record->kind == RECORD_PARKED && item.state == ITEM_WAITING) ||
                                      ((put_back || record->kind == RECORD_PARKED) && item.state == ITEM_PENDING));
    if (status == WEIR_EXECUTION_NOT_FOUND) {
        record->status = WEIR_EXECUTION_NOT_FOUND;
    } else if (item.fence != record->fence) {
        record->status = WEIR_STALE_FENCE;
    } else {
        record->status = done ? WEIR_OK : WEIR_ILLEGAL_STATE;
        write->repeated += done;
    }
    return WEIR_OK;
}

/* Inserts or updates the row of a step. */
static enum weir_status write_step_row(struct write *write, int64_t node_id, const struct record *record,
                                       struct weir_error *error)
{
    const struct step_record *step = record->step;
    bool final = step_state_is_final(step->state);
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_WRITE_STEP, "tttdddiidiibbttiti", record->id, step->step,
                        step_state_name(step->state), step->attempt, step->failures, step->exit_code,
                        time_add(write->asked_us, step->due_in_us - record->step_reported_ago_us), write->now_us,
                        final ? 1 : 0, node_id, record->fence, step->output, step->output_length, step->variables,
                        step->variables == NULL ? (size_t)0 : strlen(step->variables),
                        step->error_code[0] == '\0' ? NULL : step->error_code, step->error, record->step_began_ago_us,
                        step->signal[0] == '\0' ? NULL : step->signal, write->now_us - record->step_reported_ago_us);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (step->exit_code < 0) {
        (void)sqlite3_bind_null(statement, 6);
    }
    if (step->state != STEP_WAITING || step->due_in_us == TIME_NEVER) {
        (void)sqlite3_bind_null(statement, 7);
    }
    (void)connection_step(write->connection, statement, &status, error);
    return status;
}

/* Writes a step, and before it the attempt that the step replaces. */
static enum weir_status write_step(struct write *write, int64_t node_id, const struct record *record,
                                   struct weir_error *error)
{
    enum weir_status status = event_history_before_step(write, record, error);
    if (status == WEIR_OK) {
        status = write_step_row(write, node_id, record, error);
    }
    return status == WEIR_OK ? event_history_after_step(write, record, error) : status;
}

enum weir_status item_end(struct write *write, const struct ending *ending, struct weir_error *error)
{
    INVARIANT(item_is_terminal(ending->state));
    struct found_item item;
    enum weir_status status = find_item(write->connection, ending->id, &item, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct record record = {.kind = RECORD_CANCELLED,
                            .fence = item.fence,
                            .dispatched_first = ending->dispatched_first,
                            .error_code = ending->error_code,
                            .error = ending->error};
    text_copy(record.id, sizeof record.id, ending->id);
    struct end end;
    struct parameter_row row;
    struct ends ends = {.items = &end, .rows = &row, .capacity = 1};
    ends_add(&ends, &record, ending->state, item.phase == 2 ? MUST_BE_HELD : MUST_BE_PENDING);
    status = ends_move(&ends, write, error);
    if (status == WEIR_OK && end.number > 0 && item.taken_over) {
        row = (struct parameter_row){.id = ending->id, .fence = item.fence};
        status = event_history_close_steps(write, &row, 1, error);
    }
    return status;
}

enum weir_status item_end_if_cancelled(struct write *write, const char *id, struct weir_error *error)
{
    INVARIANT(id != NULL);
    int64_t is_cancelled = 0;
    enum weir_status status =
        connection_read_integer(write->connection, error, &is_cancelled, QUERY_LEFT_CANCELLED, "t", id);
    struct ending ending = {.id = id, .state = ITEM_CANCELLED};
    if (status == WEIR_OK && is_cancelled != 0) {
        return item_end(write, &ending, error);
    }
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

/* A worker has reported the end, which is an act. The item has ended by then: it has no setting before. */
static enum weir_status note_reported_end(struct write *write, const struct record *record, struct weir_error *error)
{
    enum weir_status status = act_begin(write, "complete", NULL, record->id, NULL, error);
    write->act.kind = "execution";
    write->act.affected = 1;
    return status;
}

/* The data of the end of an item beside its row. */
static enum weir_status complete_end(struct write *write, int64_t node_id, const struct end *end, struct weir_error *error)
{
    const struct record *record = end->record;
    enum weir_status status = WEIR_OK;
    if (record->step != NULL && !ends_keeps_step(end)) {
        status = write_step(write, node_id, record, error);
    }
    if (status == WEIR_OK) {
        status = states_record(write, node_id, record, error);
    }
    if (status == WEIR_OK) {
        status = signal_consume(write, record, error);
    }
    if (status == WEIR_OK && record->kind == RECORD_REFUSED) {
        status = event_history_add(write->connection, record->id, write->now_us, "refuse", node_id, record->fence, NULL,
                                   record->error_code, record->error, error);
    }
    if (status == WEIR_OK && record->actor != NULL) {
        status = event_history_add(write->connection, record->id, write->now_us, "report_end", node_id, record->fence,
                                   record->actor, record->error_code, item_state_name(end->state), error);
        if (status == WEIR_OK) {
            status = note_reported_end(write, record, error);
        }
    }
    return status;
}

/* The steps of ended items that an earlier claim may have left. */
static enum weir_status close_steps_of_ends(struct ends *ends, struct write *write, struct weir_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < ends->count; i++) {
        const struct record *record = ends->items[i].record;
        if (ends->items[i].number > 0 && (record->taken_over || record->kind == RECORD_PARKED)) {
            ends->rows[count++] = (struct parameter_row){.id = record->id, .fence = record->fence};
        }
    }
    return event_history_close_steps(write, ends->rows, count, error);
}

/* Ends the collected items. */
static enum weir_status flush_ends(struct recording *recording, struct weir_error *error)
{
    struct write *write = &recording->write;
    struct ends *ends = &recording->ends;
    enum weir_status status = ends->count > 0 ? ends_move(ends, write, error) : WEIR_OK;
    for (size_t i = 0; i < ends->count && status == WEIR_OK; i++) {
        const struct end *end = &ends->items[i];
        status = end->number > 0 ? complete_end(write, recording->node_id, end, error)
                                 : set_outcome_of_no_row(write, end->record, error);
    }
    if (status == WEIR_OK) {
        status = close_steps_of_ends(ends, write, error);
    }
    ends->count = 0;
    return status;
}

/* A put-back row keeps its last fence, so an end that comes after it differs from a legal one by the state alone; and only
 * a start can be refused. */
static void add_end(struct recording *recording, struct record *record)
{
    bool is_refused = record->kind == RECORD_REFUSED;
    ends_add(&recording->ends, record, is_refused ? ITEM_FAILED : record_end_state(record->kind),
             is_refused ? MUST_BE_CLAIMED : MUST_BE_HELD);
}

/* An engine that is away for hours gets a probe every few seconds, and an item that no node can run is deferred again
 * and again. So only the first put-back, and each change of its reason, is an event. After a handover the next one is
 * an event again. Without it the events would show the slot as taken until the next claim. */
static enum weir_status is_repeated(struct write *write, const struct record *record, const struct found_item *item,
                                    bool *ret_is_repeated, struct weir_error *error)
{
    int64_t was_put_back = 1;
    bool may_repeat = record->kind == RECORD_PUT_BACK || (record->kind == RECORD_DEFERRED && item->deferrals > 0);
    *ret_is_repeated = may_repeat && record->error_code != NULL && strcmp(record->error_code, item->error_code) == 0;
    if (!*ret_is_repeated || !item->taken_over) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(write->connection, error, &was_put_back, QUERY_WAS_PUT_BACK, "t", record->id);
    *ret_is_repeated = was_put_back != 0;
    return status;
}

/* Notes in the news that the item uses no slot and waits or is runnable. */
static enum weir_status note_put_back(struct write *write, const struct found_item *item, int64_t due_us, bool waits,
                                      struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    struct lane_delta *delta =
        news_lane(&write->news, write->connection, NEWS_PUT_BACK, item->node_id, item->lane_id, &status, error);
    delta->held--;
    if (waits) {
        news_add_waiting(&write->news, delta, due_us);
    } else {
        news_add_runnable(delta, item->rank);
    }
    return status;
}

/* The delay of a put-back. An item that another node can run is not held up for longer because this node cannot. */
static enum weir_status read_delay(struct write *write, const struct record *record, int64_t *ret_delay_us,
                                   struct weir_error *error)
{
    int64_t one = 0;
    *ret_delay_us = record->delay_us;
    if (record->kind != RECORD_DEFERRED || record->delay_us <= WORKER_ELSEWHERE_US || record->error_code == NULL ||
        strcmp(record->error_code, "unknown_handler") != 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        connection_read_integer(write->connection, error, &one, QUERY_ITEM_HAS_WORKER, "ti", record->id, write->now_us);
    if (status == WEIR_OK) {
        *ret_delay_us = WORKER_ELSEWHERE_US;
    }
    return status == WEIR_NOT_FOUND ? WEIR_OK : status;
}

static enum stream_kind put_back_kind(enum record_kind kind)
{
    return kind == RECORD_RETRY ? STREAM_RETRY : kind == RECORD_DEFERRED ? STREAM_DEFER : STREAM_PUT_BACK;
}

/* A requested cancel ends the item in the place of its put-back or park. */
static enum weir_status record_end_in_place(struct recording *recording, struct record *record, struct weir_error *error)
{
    ends_add(&recording->ends, record, ITEM_CANCELLED, MUST_BE_HELD);
    enum weir_status status = flush_ends(recording, error);
    record->is_cancelled = status == WEIR_OK && record->status == WEIR_OK;
    return status;
}

/* CLAIMED -> PENDING. */
static enum weir_status record_put_back(struct recording *recording, struct record *record, struct weir_error *error)
{
    struct write *write = &recording->write;
    struct found_item item;
    enum weir_status status = find_item(write->connection, record->id, &item, error);
    if (status == WEIR_EXECUTION_NOT_FOUND ||
        (status == WEIR_OK && (item.fence != record->fence || item.state != ITEM_CLAIMED))) {
        return set_outcome_of_no_row(write, record, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (item.cancel_requested) {
        return record_end_in_place(recording, record, error);
    }
    bool waits = record->delay_us > 0;
    bool repeated = false;
    int64_t delay_us = 0;
    int64_t changes = 0;
    status = read_delay(write, record, &delay_us, error);
    int64_t due_us = time_add(write->now_us, delay_us);
    if (status == WEIR_OK) {
        status = is_repeated(write, record, &item, &repeated, error);
    }
    if (status == WEIR_OK && !repeated) {
        status = event_history_add_claim(write, record->id, record->fence, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_run(write->connection, error, &changes, QUERY_PUT_BACK_ITEM, "tididdtt", record->id, record->fence,
                            waits ? 1 : 0, due_us, record->kind == RECORD_RETRY ? 1 : 0,
                            record->kind == RECORD_DEFERRED ? 1 : 0, record->error_code, record->error);
    if (status == WEIR_OK && !repeated) {
        status = event_history_add(write->connection, record->id, write->now_us, record_kind_name(record->kind),
                                   recording->node_id, record->fence, NULL, record->error_code, record->error, error);
    }
    if (status == WEIR_OK) {
        status = note_put_back(write, &item, due_us, waits, error);
    }
    return status == WEIR_OK ? stream_add(&write->news, write->connection, put_back_kind(record->kind), record->id,
                                          item.workspace_id, error)
                             : status;
}

/* CLAIMED -> DISPATCHED. */
static enum weir_status record_dispatched(struct write *write, struct record *record, struct weir_error *error)
{
    int64_t changes = 0;
    enum weir_status status = record->taken_over ? event_history_add_dispatch(write, record, error) : WEIR_OK;
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, &changes, QUERY_DISPATCH_ITEM, "tii", record->id, record->fence,
                                write->now_us - record->started_ago_us);
    }
    if (status == WEIR_OK && changes > 0) {
        return stream_add_of_id(&write->news, write->connection, STREAM_DISPATCH, record->id, error);
    }
    return status == WEIR_OK ? set_outcome_of_no_row(write, record, error) : status;
}

/* Writes the steps of held items that were collected. */
static enum weir_status flush_steps(struct recording *recording, struct weir_error *error)
{
    struct held_items *steps = &recording->steps;
    enum weir_status status = steps->count == 0 ? WEIR_OK : held_find(steps, &recording->write, error);
    if (status == WEIR_OK && steps->count > 0) {
        status = held_write_steps(steps, &recording->write, recording->node_id, error);
    }
    for (size_t i = 0; i < steps->count && status == WEIR_OK; i++) {
        if (steps->items[i].number == 0) {
            status = set_outcome_of_no_row(&recording->write, steps->items[i].record, error);
        }
    }
    steps->count = 0;
    return status;
}

/* CLAIMED or DISPATCHED -> WAITING, of those that were collected. The steps that wait end with a cancelled item. */
static enum weir_status flush_parks(struct recording *recording, struct weir_error *error)
{
    struct held_items *parks = &recording->parks;
    enum weir_status status = parks->count == 0 ? WEIR_OK : held_find(parks, &recording->write, error);
    for (size_t i = 0; i < parks->count && status == WEIR_OK; i++) {
        struct held_item *park = &parks->items[i];
        bool may_park = park->number > 0 && (!park->is_claimed || park->record->dispatched_first);
        if (!may_park) {
            status = set_outcome_of_no_row(&recording->write, park->record, error);
        } else if (park->cancel_requested) {
            status = record_end_in_place(recording, park->record, error);
        }
        park->number = may_park && !park->cancel_requested ? park->number : 0;
    }
    if (status == WEIR_OK && parks->count > 0) {
        status = parks_move(parks, &recording->write, recording->node_id, error);
    }
    parks->count = 0;
    return status;
}

/* Writes all that was collected. */
static enum weir_status flush_all(struct recording *recording, struct weir_error *error)
{
    enum weir_status status = flush_steps(recording, error);
    if (status == WEIR_OK) {
        status = flush_parks(recording, error);
    }
    memset(&recording->collected, 0, sizeof recording->collected);
    return status == WEIR_OK ? flush_ends(recording, error) : status;
}

/* The slot of the execution of a record. */
static size_t collected_slot(const struct recording *recording, const char *id)
{
    uint32_t hash = 2166136261U;
    for (const char *at = id; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 16777619U;
    }
    size_t slot = (hash ^ hash >> 16) % COLLECTED_SLOTS;
    while (recording->collected.slots[slot] != 0 &&
           strcmp(recording->records[recording->collected.slots[slot] - 1].id, id) != 0) {
        slot = (slot + 1) % COLLECTED_SLOTS;
    }
    return slot;
}

/* Collects a record that can be written behind those before it: of one execution steps come first, and one record of each
 * kind is the most. Else what was collected is written before. */
static enum weir_status collect(struct recording *recording, struct record *record, enum collection collection,
                                struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t slot = collected_slot(recording, record->id);
    if (recording->collected.last[slot] >= collection || recording->collected.last[slot] > COLLECTED_STEPS) {
        status = flush_all(recording, error);
        slot = collected_slot(recording, record->id);
    }
    recording->collected.slots[slot] = (uint16_t)(record - recording->records + 1);
    recording->collected.last[slot] = (uint8_t)collection;
    if (status == WEIR_OK && collection == COLLECTED_ENDS) {
        add_end(recording, record);
        return WEIR_OK;
    }
    struct held_items *held = collection == COLLECTED_PARKS ? &recording->parks : &recording->steps;
    return status == WEIR_OK ? held_add(held, record, RECORDS_AT_ONCE, error) : status;
}

/* A held item loses its node and stays CLAIMED; after the death of its keeper it is recovered. */
static enum weir_status record_given_back(struct recording *recording, struct record *record, struct weir_error *error)
{
    struct write *write = &recording->write;
    int64_t fence;
    struct found_item item;
    enum weir_status status = find_item(write->connection, record->id, &item, error);
    if (status == WEIR_EXECUTION_NOT_FOUND || (status == WEIR_OK && (item.fence != record->fence || item.phase != 2))) {
        return set_outcome_of_no_row(write, record, error);
    }
    bool is_alone = record->error_code != NULL && strcmp(record->error_code, SUSPICION_KEEPER_LOST_ALONE) == 0;
    if (status == WEIR_OK &&
        (is_alone || (record->error_code != NULL && strcmp(record->error_code, SUSPICION_KEEPER_LOST) == 0))) {
        return recover_from_keeper(write, record->id, record->fence, is_alone, &recording->poisoned, error);
    }
    if (status == WEIR_OK) {
        status = fence_take_next(write->connection, &fence, error);
    }
    if (status == WEIR_OK) {
        status = event_history_add_claim(write, record->id, record->fence, error);
    }
    if (status == WEIR_OK) {
        status =
            connection_run(write->connection, error, NULL, QUERY_GIVE_BACK_ITEM, "tii", record->id, record->fence, fence);
    }
    if (status == WEIR_OK) {
        status = event_history_add(write->connection, record->id, write->now_us, "give_back", recording->node_id,
                                   record->fence, NULL, record->error_code, record->error, error);
    }
    if (status == WEIR_OK) {
        status = news_hand_over(&write->news, write->connection, item.node_id, item.lane_id, error);
    }
    if (status == WEIR_OK) {
        status = stream_add(&write->news, write->connection, STREAM_GIVE_BACK, record->id, item.workspace_id, error);
    }
    return status == WEIR_OK ? item_end_if_cancelled(write, record->id, error) : status;
}

static enum collection collection_of(enum record_kind kind)
{
    switch (kind) {
    case RECORD_STEP:
        return COLLECTED_STEPS;
    case RECORD_PARKED:
        return COLLECTED_PARKS;
    case RECORD_REFUSED:
    case RECORD_COMPLETED:
    case RECORD_FAILED:
    case RECORD_CANCELLED:
        return COLLECTED_ENDS;
    default:
        return COLLECTED_NOT;
    }
}

/* Writes one record, or collects it. */
static enum weir_status record_one(struct recording *recording, struct record *record, struct weir_error *error)
{
    record->status = WEIR_OK;
    record->is_cancelled = false;
    if (record->step != NULL && record->step->output_length > STEP_OUTPUT_BYTES_MAX) {
        record->status = WEIR_INVALID_ARGUMENT;
        return WEIR_OK;
    }
    if (collection_of(record->kind) != COLLECTED_NOT) {
        return collect(recording, record, collection_of(record->kind), error);
    }
    bool is_next = recording->collected.slots[collected_slot(recording, record->id)] != 0;
    enum weir_status status = is_next ? flush_all(recording, error) : WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    switch (record->kind) {
    case RECORD_DISPATCHED:
        return record_dispatched(&recording->write, record, error);
    case RECORD_RETRY:
    case RECORD_DEFERRED:
    case RECORD_PUT_BACK:
        return record_put_back(recording, record, error);
    case RECORD_GIVEN_BACK:
        return record_given_back(recording, record, error);
    default:
        return error_set(error, WEIR_MISUSE, "no such kind of record");
    }
}

/* Writes records of a set in their order: all of them, or a first part while a short call waits. */
static enum weir_status record_first(struct recording *recording, size_t *ret_done, struct weir_error *error)
{
    struct sqlite_file *file = recording->write.store->file;
    size_t done = 0;
    size_t most = recording->record_count < RECORDS_AT_ONCE ? recording->record_count : RECORDS_AT_ONCE;
    enum weir_status status = ends_open(&recording->ends, most, error);
    bool goes_on = status == WEIR_OK;
    while (goes_on && done < recording->record_count) {
        status = record_one(recording, &recording->records[done++], error);
        bool is_full = done % RECORDS_AT_ONCE == 0;
        if (status == WEIR_OK && (is_full || done == recording->record_count)) {
            status = flush_all(recording, error);
        }
        goes_on = status == WEIR_OK && !(is_full && file != NULL && write_is_awaited(file));
    }
    held_close(&recording->steps);
    held_close(&recording->parks);
    ends_close(&recording->ends);
    *ret_done = done;
    return status;
}

/* One transaction. The summary grows by what it has recorded. */
static enum weir_status record_part(struct store *store, struct recording *recording, struct record_summary *summary,
                                    size_t *ret_done, struct weir_error *error)
{
    enum weir_status status = write_open_patiently(store, &recording->write, error);
    if (status != WEIR_OK) {
        return status;
    }
    int64_t waited_us = recording->write.connection->timed_boot_us - recording->asked_boot_us;
    recording->write.asked_us = recording->write.now_us - waited_us;
    recording->write.repeated = 0;
    recording->poisoned = 0;
    status = record_first(recording, ret_done, error);
    if (status != WEIR_OK) {
        write_undo(&recording->write);
        return status;
    }
    status = write_finish(&recording->write, error);
    if (status == WEIR_OK) {
        for (size_t i = 0; i < *ret_done; i++) {
            summary->changed += recording->records[i].status == WEIR_OK;
        }
        summary->changed -= recording->write.repeated;
        summary->slots_freed += (size_t)recording->write.news.slots_freed;
        summary->poisoned += recording->poisoned;
    }
    return status;
}

static void begin_recording(struct recording *recording, const struct store *store, int64_t node_id)
{
    recording->node_id = node_id;
    recording->asked_boot_us = clock_boot(store->clock);
    recording->steps = (struct held_items){.count = 0};
    recording->parks = (struct held_items){.count = 0};
    memset(&recording->collected, 0, sizeof recording->collected);
}

enum weir_status sqlite_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                               struct record_summary *ret_summary, struct weir_error *error)
{
    INVARIANT(count > 0 && count <= RECORD_BATCH_MOST && records != NULL && ret_summary != NULL);
    struct recording recording; /* its news are large, and write_open() sets them */
    struct record_summary summary = {0};
    enum weir_status status = WEIR_OK;
    size_t done = 0;
    begin_recording(&recording, store, node_id);
    while (done < count && status == WEIR_OK) {
        size_t part = 0;
        recording.records = records + done;
        recording.record_count = count - done;
        status = record_part(store, &recording, &summary, &part, error);
        done += status == WEIR_OK ? part : 0;
    }
    if (done == 0) {
        return status;
    }
    for (size_t i = done; i < count; i++) {
        records[i].status = WEIR_STORE_BUSY; /* the caller repeats them, and then the failure is that of a whole set */
    }
    summary.work_waits = summary.slots_freed > 0;
    *ret_summary = summary;
    return WEIR_OK;
}
