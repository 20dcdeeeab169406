/* Reports about items that nodes hold: finds their rows, and writes the rows of their steps.
 *
 *   1. One statement finds the rows of a set by id and fence, through the virtual table parameter_rows. A report whose
 *      item has another fence, or no node, has no row, and its caller finds out why.
 *   2. An attempt of a step that is followed by another one is kept, before its row is overwritten.
 *   3. One INSERT writes the rows of all steps. Their times are reckoned here, so it reads no row of the queue.
 *   4. What a few of the steps bring with them follows one by one: children, actions of states, a consumed signal.
 *
 * A statement that runs once for each item costs as much for its start as for its row. Runs inside the caller's write
 * transaction; it never commits.
 */
#include "store/sqlite/held_items.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/children.h"
#include "store/sqlite/event_history.h"
#include "store/sqlite/signals.h"
#include "store/sqlite/states.h"

void held_close(struct held_items *held)
{
    free(held->items);
    free(held->rows);
    *held = (struct held_items){.count = 0};
}

enum weir_status held_add(struct held_items *held, struct record *record, size_t capacity, struct weir_error *error)
{
    INVARIANT(held != NULL && record != NULL && capacity > held->count);
    if (held->items == NULL) {
        held->items = malloc(capacity * sizeof *held->items);
        held->rows = malloc(capacity * sizeof *held->rows);
        held->capacity = capacity;
        if (held->items == NULL || held->rows == NULL) {
            held_close(held);
            return error_out_of_memory(error);
        }
    }
    INVARIANT(held->count < held->capacity);
    held->items[held->count++] = (struct held_item){.record = record};
    return WEIR_OK;
}

static void read_held(sqlite3_stmt *statement, struct held_item *item)
{
    item->number = sqlite3_column_int64(statement, 1);
    item->lane_id = sqlite3_column_int64(statement, 2);
    item->node_id = sqlite3_column_int64(statement, 3);
    item->rank = sqlite3_column_int64(statement, 4);
    item->is_claimed = sqlite3_column_int(statement, 5) != 0;
    item->claimed_us = sqlite3_column_int64(statement, 6);
    item->dispatched_us = sqlite3_column_int64(statement, 7);
    item->cancel_requested = sqlite3_column_int(statement, 8) != 0;
    item->signals = sqlite3_column_int64(statement, 9);
    item->was_interrupted = sqlite3_column_int(statement, 10) != 0;
    item->has_dispatch_event = sqlite3_column_int(statement, 11) != 0;
    item->first_step_us =
        sqlite3_column_type(statement, 12) == SQLITE_NULL ? TIME_NEVER : sqlite3_column_int64(statement, 12);
    item->has_wake = sqlite3_column_int(statement, 13) != 0;
}

enum weir_status held_find(struct held_items *held, struct write *write, struct weir_error *error)
{
    INVARIANT(held != NULL && write->connection != NULL);
    struct connection *connection = write->connection;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < held->count; i++) {
        const struct record *record = held->items[i].record;
        held->rows[i] =
            (struct parameter_row){.id = record->id, .fence = record->fence, .dispatched = record->kind == RECORD_PARKED};
    }
    connection->parameter_rows = (struct parameter_rows){.rows = held->rows, .count = held->count};
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIND_HELD, "");
    if (statement == NULL) {
        status = statement_failure(error);
    }
    while (statement != NULL && connection_step(connection, statement, &status, error)) {
        read_held(statement, &held->items[sqlite3_column_int64(statement, 0)]);
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status;
}

/* --- steps --- */

static bool writes_step(const struct held_item *item)
{
    return item->number > 0 && item->record->step != NULL;
}

/* An attempt never begins or ends before its claim. It may have begun with the execution. */
static struct parameter_row row_of_step(const struct write *write, const struct held_item *item)
{
    const struct record *record = item->record;
    const struct step_record *step = record->step;
    bool is_final = step_state_is_final(step->state);
    bool is_due = step->state == STEP_WAITING && step->due_in_us != TIME_NEVER;
    int64_t now_us = write->now_us;
    int64_t began_us = time_later(now_us - record->step_began_ago_us, time_later(item->claimed_us, item->dispatched_us));
    if (record->step_began_ago_us < 0) {
        began_us = item->dispatched_us != 0 ? item->dispatched_us : now_us;
    }
    int64_t ended_us = item->claimed_us == 0 ? now_us : time_later(now_us - record->step_reported_ago_us, item->claimed_us);
    return (struct parameter_row){
        .id = record->id,
        .fence = record->fence,
        .step = step,
        .step_started_us = began_us,
        .step_finished_us = is_final ? ended_us : 0,
        .step_due_us = is_due ? time_add(write->asked_us, step->due_in_us - record->step_reported_ago_us) : 0};
}

/* The rows that a step brings with it beside its own. */
static enum weir_status complete_step(struct write *write, int64_t node_id, const struct record *record,
                                      struct weir_error *error)
{
    enum weir_status status = event_history_after_step(write, record, error);
    if (status == WEIR_OK) {
        status = children_plan(write, record, error);
    }
    if (status == WEIR_OK) {
        status = states_record(write, node_id, record, error);
    }
    return status == WEIR_OK ? signal_consume(write, record, error) : status;
}

enum weir_status held_write_steps(struct held_items *held, struct write *write, int64_t node_id, struct weir_error *error)
{
    INVARIANT(held != NULL && write->connection != NULL);
    struct connection *connection = write->connection;
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    for (size_t i = 0; i < held->count && status == WEIR_OK; i++) {
        if (writes_step(&held->items[i])) {
            held->rows[count++] = row_of_step(write, &held->items[i]);
            status = event_history_before_step(write, held->items[i].record, error);
        }
    }
    connection->parameter_rows = (struct parameter_rows){.rows = held->rows, .count = count};
    if (status == WEIR_OK && count > 0) {
        status = connection_run(connection, error, NULL, QUERY_WRITE_STEPS, "i", node_id);
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    for (size_t i = 0; i < held->count && status == WEIR_OK; i++) {
        if (writes_step(&held->items[i])) {
            status = complete_step(write, node_id, held->items[i].record, error);
        }
    }
    return status;
}
