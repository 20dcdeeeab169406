/* Ends of a set: rows of the queue move to the history, all of them with one INSERT and one DELETE.
 *
 *   1. Find the rows of all ends with one statement, by id and fence. A row that an earlier end of the set has taken
 *      is not found again, so that the second of two ends of one item finds no row.
 *   2. Keep the ends whose row may end so: a put-back row keeps its fence, and only its phase shows that it may no
 *      longer end.
 *   3. Read the steps on record of those that have any, and note each end in the news: its lane loses a counter, its node
 *      a held item. The times of the history row are computed here: a subquery for each row costs more.
 *   4. Insert the history rows, and delete the queue rows.
 *      Each statement reads the virtual table parameter_rows. That costs less than a statement for each item, because
 *      each run of a statement opens the cursors of all indexes.
 *
 * Steps with rows of their own and events are written by the caller. Runs inside the caller's write transaction; it
 * never commits.
 */
#include "store/sqlite/ends.h"
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/children.h"
#include "store/sqlite/hooks.h"
#include "store/sqlite/stream.h"
#include "store/sqlite/taken.h"

enum weir_status ends_open(struct ends *ends, size_t capacity, struct weir_error *error)
{
    INVARIANT(capacity > 0);
    *ends = (struct ends){.capacity = capacity};
    ends->items = calloc(capacity, sizeof *ends->items);
    ends->rows = calloc(capacity, sizeof *ends->rows);
    if (ends->items == NULL || ends->rows == NULL) {
        ends_close(ends);
        return error_out_of_memory(error);
    }
    return WEIR_OK;
}

void ends_close(struct ends *ends)
{
    free(ends->items);
    free(ends->rows);
    *ends = (struct ends){.count = 0};
}

void ends_add(struct ends *ends, struct record *record, enum item_state state, enum must_be must_be)
{
    INVARIANT(ends->count < ends->capacity);
    ends->items[ends->count++] = (struct end){.record = record, .state = state, .must_be = must_be};
}

bool ends_keeps_step(const struct end *end)
{
    const struct step_record *step = end->record->step;
    return step != NULL && !end->step_has_row && step_state_is_final(step->state);
}

/* Whether a row in this phase may be ended under the condition of its record. */
static bool may_end(enum must_be must_be, int phase, bool is_claimed)
{
    switch (must_be) {
    case MUST_BE_PENDING:
        return phase != 2;
    case MUST_BE_HELD:
        return phase == 2;
    case MUST_BE_CLAIMED:
        return phase == 2 && is_claimed;
    }
    return false;
}

/* Finds the rows of all ends with one statement, and decides which of them may end. */
static enum weir_status find_rows(struct ends *ends, struct write *write, struct weir_error *error)
{
    struct connection *connection = write->connection;
    struct taken taken;
    enum weir_status status = WEIR_OK;
    taken_begin(&taken, ends->count);
    for (size_t i = 0; i < ends->count; i++) {
        const struct record *record = ends->items[i].record;
        ends->rows[i] = (struct parameter_row){.id = record->id, .fence = record->fence};
    }
    connection->parameter_rows = (struct parameter_rows){.rows = ends->rows, .count = ends->count};
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIND_ENDS, "");
    if (statement == NULL) {
        status = statement_failure(error);
    }
    while (statement != NULL && connection_step(connection, statement, &status, error)) {
        struct end *end = &ends->items[sqlite3_column_int64(statement, 0)];
        int64_t number = sqlite3_column_int64(statement, 1);
        end->lane_id = sqlite3_column_int64(statement, 2);
        end->node_id = sqlite3_column_int64(statement, 3);
        end->phase = sqlite3_column_int(statement, 4);
        end->is_claimed = sqlite3_column_int(statement, 5) != 0;
        end->claimed_us = sqlite3_column_int64(statement, 6);
        end->dispatched_us = sqlite3_column_int64(statement, 7);
        end->was_interrupted = sqlite3_column_int(statement, 8) > 0;
        end->has_steps = sqlite3_column_int(statement, 9) != 0;
        bool fits = may_end(end->must_be, end->phase, end->is_claimed);
        end->number = fits && taken_mark(&taken, number) ? number : 0;
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status;
}

/* Reads what the times and the step of an end need of the steps on record. Most executions have none before they end. */
static enum weir_status find_steps(struct ends *ends, struct write *write, struct weir_error *error)
{
    struct connection *connection = write->connection;
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    for (size_t i = 0; i < ends->count; i++) {
        const struct record *record = ends->items[i].record;
        if (ends->items[i].number > 0 && ends->items[i].has_steps) {
            ends->rows[count++] = (struct parameter_row){
                .number = (int64_t)i, .id = record->id, .fence = record->fence, .step = record->step};
        }
    }
    if (count == 0) {
        return WEIR_OK;
    }
    connection->parameter_rows = (struct parameter_rows){.rows = ends->rows, .count = count};
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIND_STEPS_OF_ENDS, "");
    if (statement == NULL) {
        status = statement_failure(error);
    }
    while (statement != NULL && connection_step(connection, statement, &status, error)) {
        struct end *end = &ends->items[sqlite3_column_int64(statement, 0)];
        end->step_has_row = sqlite3_column_int(statement, 1) != 0;
        end->first_step_us = sqlite3_column_int64(statement, 2);
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status;
}

/* When its execution started, by the end's own report: never before the claim. */
static int64_t reported_start(const struct end *end, int64_t now_us)
{
    return time_later(now_us - end->record->started_ago_us, end->claimed_us);
}

/* The first start of the execution, not after the first step of this claim. 0 = it never started. */
static int64_t start_of_end(const struct end *end, int64_t now_us)
{
    if (end->dispatched_us != 0 || !end->record->dispatched_first) {
        return end->dispatched_us;
    }
    int64_t most_us = end->first_step_us != 0 ? end->first_step_us : now_us;
    int64_t start_us = reported_start(end, now_us);
    return time_earlier(start_us, most_us);
}

/* The start of the step that ends with its execution: not before the claim, and not before the start of the execution. */
static int64_t step_start_of_end(const struct end *end, int64_t now_us)
{
    const struct record *record = end->record;
    if (record->step_began_ago_us < 0) {
        return end->dispatched_us != 0 ? end->dispatched_us : reported_start(end, now_us);
    }
    int64_t start_us = time_later(now_us - record->step_began_ago_us, end->claimed_us);
    if (end->dispatched_us != 0) {
        return time_later(start_us, end->dispatched_us);
    }
    return record->dispatched_first ? time_later(start_us, now_us - record->started_ago_us) : start_us;
}

/* The start under the last claim, if that is neither the first start nor an event row; else 0. */
static int64_t restart_of_end(const struct end *end, int64_t now_us)
{
    bool is_restart = end->record->dispatched_first && end->is_claimed && end->was_interrupted && end->node_id != 0;
    return is_restart ? reported_start(end, now_us) : 0;
}

/* Notes an end in the news. */
static enum weir_status note_end(struct write *write, const struct end *end, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    struct lane_delta *delta =
        news_lane(&write->news, write->connection, NEWS_ENDED, end->node_id, end->lane_id, &status, error);
    if (status == WEIR_STORE_CORRUPT) {
        error_prefix(error, "execution %s", end->record->id);
    }
    delta->runnable -= end->phase == 0;
    delta->waiting -= end->phase == 1;
    delta->held -= end->phase == 2;
    delta->parked -= end->phase == 3;
    delta->completed += end->state == ITEM_COMPLETED;
    delta->failed += end->state == ITEM_FAILED;
    delta->cancelled += end->state == ITEM_CANCELLED;
    return status;
}

/* The rows of those that end, and their news. */
static enum weir_status collect_rows(struct ends *ends, struct write *write, size_t *ret_count, bool *ret_any_runnable,
                                     struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    *ret_any_runnable = false;
    for (size_t i = 0; i < ends->count && status == WEIR_OK; i++) {
        const struct end *end = &ends->items[i];
        if (end->number > 0) {
            ends->rows[count++] =
                (struct parameter_row){.number = end->number,
                                       .status = item_state_name(end->state),
                                       .error_code = end->record->error_code,
                                       .error = end->record->error,
                                       .step = ends_keeps_step(end) ? end->record->step : NULL,
                                       .dispatched_us = start_of_end(end, write->now_us),
                                       .started_us = restart_of_end(end, write->now_us),
                                       .step_started_us = ends_keeps_step(end) ? step_start_of_end(end, write->now_us) : 0,
                                       .refused = end->record->kind == RECORD_REFUSED};
            *ret_any_runnable |= end->phase == 0;
            status = note_end(write, end, error);
        }
    }
    *ret_count = count;
    return status;
}

/* The entries of the stream. The start of an execution that is recorded together with its end comes before it. */
static enum weir_status stream_ends(const struct ends *ends, struct write *write, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < ends->count && status == WEIR_OK; i++) {
        const struct end *end = &ends->items[i];
        if (end->number == 0) {
            continue;
        }
        if (end->is_claimed && end->record->dispatched_first) {
            status = stream_add(&write->news, write->connection, STREAM_DISPATCH, end->record->id,
                                lane_workspace_id(end->lane_id), error);
        }
        if (status == WEIR_OK) {
            status = stream_add(&write->news, write->connection, stream_kind_of_end(end->state), end->record->id,
                                lane_workspace_id(end->lane_id), error);
        }
    }
    return status;
}

enum weir_status ends_move(struct ends *ends, struct write *write, struct weir_error *error)
{
    INVARIANT(ends->count <= ends->capacity && write->connection != NULL);
    struct connection *connection = write->connection;
    size_t count = 0;
    bool any_runnable = false;
    enum weir_status status = find_rows(ends, write, error);
    if (status == WEIR_OK) {
        status = find_steps(ends, write, error);
    }
    if (status == WEIR_OK) {
        status = collect_rows(ends, write, &count, &any_runnable, error);
    }
    connection->parameter_rows = (struct parameter_rows){.rows = ends->rows, .count = count};
    if (status == WEIR_OK && count > 0) {
        status = connection_run(connection, error, NULL, QUERY_END_ITEMS, "i", write->now_us);
    }
    if (status == WEIR_OK && count > 0) {
        status = hooks_add_events(write, error);
    }
    if (status == WEIR_OK && count > 0) {
        status = children_note_ends(write, error);
    }
    if (status == WEIR_OK && any_runnable) {
        status = connection_run(connection, error, NULL, QUERY_FORGET_RUNNABLE, "");
    }
    if (status == WEIR_OK && count > 0) {
        status = connection_run(connection, error, NULL, QUERY_DELETE_ITEMS, "");
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status == WEIR_OK ? stream_ends(ends, write, error) : status;
}
