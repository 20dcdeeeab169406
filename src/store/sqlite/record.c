/* Record: writes what engines reported, a set in one transaction, each record with its own outcome. */
#include <string.h>

#include "base/error.h"
#include "store/sqlite/story.h"

struct found_item {
    enum item_state state;
    int64_t fence;
    int64_t lane_id;
    int64_t workspace_id;
    int phase;
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
    INVARIANT(item_state_parse(column_text(statement, 0), &ret_item->state));
    ret_item->fence = sqlite3_column_int64(statement, 1);
    ret_item->lane_id = sqlite3_column_int64(statement, 2);
    ret_item->workspace_id = sqlite3_column_int64(statement, 3);
    ret_item->phase = sqlite3_column_int(statement, 4);
    ret_item->cancel_requested = sqlite3_column_type(statement, 6) != SQLITE_NULL;
    const char *code = column_text(statement, 10);
    text_copy(ret_item->error_code, sizeof ret_item->error_code, code == NULL ? "" : code);
    ret_item->taken_over = sqlite3_column_int(statement, 11) > 0;
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

/* A conditional write changed no row: why is the outcome of the record. Only a failure of the store itself is returned. */
static enum weir_status explain(struct write *write, struct record *record, struct weir_error *error)
{
    struct found_item item;
    enum weir_status status = find_item(write->connection, record->id, &item, error);
    if (status != WEIR_OK && status != WEIR_EXECUTION_NOT_FOUND) {
        return status;
    }
    bool put_back = record->kind == RECORD_RETRY || record->kind == RECORD_DEFERRED || record->kind == RECORD_RELEASED;
    bool done = status == WEIR_OK && ((record->kind == RECORD_DISPATCHED && item.state == ITEM_DISPATCHED) ||
                                      (put_back && item.state == ITEM_PENDING));
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

static enum weir_status write_step_row(struct write *write, int64_t node_id, const struct record *record,
                                       struct weir_error *error)
{
    const struct step_record *step = record->step;
    bool final = step_state_is_final(step->state);
    sqlite3_stmt *statement = connection_bind(
        write->connection, error, QUERY_WRITE_STEP, "tttdddiidiibbtt", record->id, step->step, step_state_name(step->state),
        step->attempt, step->failures, step->exit_code, time_add(write->now_us, step->due_in_us), write->now_us,
        final ? 1 : 0, node_id, record->fence, step->output, step->output_length, step->variables,
        step->variables == NULL ? (size_t)0 : strlen(step->variables),
        step->error_code[0] == '\0' ? NULL : step->error_code, step->error);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (step->exit_code < 0) {
        (void)sqlite3_bind_null(statement, 6);
    }
    if (step->state != STEP_WAITING) {
        (void)sqlite3_bind_null(statement, 7);
    }
    (void)connection_step(write->connection, statement, &status, error);
    return status;
}

static enum weir_status write_step(struct write *write, int64_t node_id, const struct record *record,
                                   struct weir_error *error)
{
    enum weir_status status = story_before_step(write, record, error);
    if (status == WEIR_OK) {
        status = write_step_row(write, node_id, record, error);
    }
    return status == WEIR_OK ? story_after_step(write, record, error) : status;
}

static enum weir_status note_end(struct write *write, int64_t workspace_id, enum item_state state, bool held,
                                 struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    struct workspace_counts *counts = lane_changes_workspace(&write->changes, write->connection, workspace_id,
                                                             held ? LOOK_IF_FILLS : LOOK_ALWAYS, &status, error);
    counts->slots -= held ? 1 : 0;
    counts->pending -= held ? 0 : 1;
    counts->completed += state == ITEM_COMPLETED;
    counts->failed += state == ITEM_FAILED;
    counts->cancelled += state == ITEM_CANCELLED;
    return status;
}

/* What a row must be to be ended; the numbers are those of the statement. */
enum must_be { MUST_BE_PENDING = 0, MUST_BE_HELD = 1, MUST_BE_CLAIMED = 2 };

/* The row that may be ended: its number and workspace; WEIR_NOT_FOUND without one. */
static enum weir_status find_row(struct connection *connection, const struct record *record, enum must_be must_be,
                                 int64_t *ret_row, int64_t *ret_workspace_id, struct weir_error *error)
{
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_MAY_END_ITEM, "tid", record->id, record->fence, (int)must_be);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    *ret_row = sqlite3_column_int64(statement, 0);
    *ret_workspace_id = sqlite3_column_int64(statement, 1);
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

/* Moves the row to the history when the fence is right; *ret_moved tells whether there was one. */
static enum weir_status move_to_history(struct write *write, const struct record *record, enum item_state state,
                                        enum must_be must_be, int64_t *ret_workspace_id, bool *ret_moved,
                                        struct weir_error *error)
{
    int64_t row = 0;
    enum weir_status status = find_row(write->connection, record, must_be, &row, ret_workspace_id, error);
    *ret_moved = status == WEIR_OK;
    if (status != WEIR_OK) {
        return status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    status = connection_run(write->connection, error, NULL, QUERY_END_ITEM, "itittdd", row, item_state_name(state),
                            write->now_us, record->error_code, record->error, record->dispatched_first ? 1 : 0,
                            record->kind == RECORD_REFUSED ? 1 : 0);
    return status == WEIR_OK ? connection_run(write->connection, error, NULL, QUERY_DELETE_ITEM, "i", row) : status;
}

enum weir_status item_end(struct write *write, const struct ending *ending, struct weir_error *error)
{
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
    int64_t workspace_id;
    bool moved = false;
    status = move_to_history(write, &record, ending->state, item.phase == 2 ? MUST_BE_HELD : MUST_BE_PENDING, &workspace_id,
                             &moved, error);
    if (status == WEIR_OK && moved && item.taken_over) {
        status = story_close_steps(write, ending->id, item.fence, error);
    }
    if (status != WEIR_OK || !moved) {
        return status;
    }
    if (item.phase != 2) {
        struct lane_change *lane = lane_changes_lane(&write->changes, write->connection, item.lane_id, &status, error);
        lane->runnable -= item.phase == 0;
        lane->waiting -= item.phase == 1;
    }
    enum weir_status noted = note_end(write, item.workspace_id, ending->state, item.phase == 2, error);
    return status == WEIR_OK ? noted : status;
}

static enum weir_status record_end(struct write *write, int64_t node_id, struct record *record, enum item_state state,
                                   struct weir_error *error)
{
    int64_t workspace_id;
    bool moved = false;
    /* A put-back row keeps its last fence, so an end that comes after it must be told from a legal one by the state; and
     * only a start can be refused. */
    enum must_be must_be = record->kind == RECORD_REFUSED ? MUST_BE_CLAIMED : MUST_BE_HELD;
    enum weir_status status = record->taken_over && record->dispatched_first
                                  ? story_tell_dispatch(write, record->id, record->fence, error)
                                  : WEIR_OK;
    if (status == WEIR_OK) {
        status = move_to_history(write, record, state, must_be, &workspace_id, &moved, error);
    }
    if (status == WEIR_OK && !moved) {
        return explain(write, record, error);
    }
    if (status == WEIR_OK && record->step != NULL) {
        status = write_step(write, node_id, record, error);
    }
    if (status == WEIR_OK && record->taken_over) {
        status = story_close_steps(write, record->id, record->fence, error);
    }
    if (status == WEIR_OK && record->kind == RECORD_REFUSED) {
        status = event_add(write->connection, record->id, write->now_us, "refuse", node_id, record->fence, NULL,
                           record->error_code, record->error, error);
    }
    if (status == WEIR_OK && record->actor != NULL) {
        status = event_add(write->connection, record->id, write->now_us, "tell_end", node_id, record->fence, record->actor,
                           record->error_code, item_state_name(state), error);
    }
    if (status == WEIR_OK) {
        status = note_end(write, workspace_id, state, true, error);
    }
    return status;
}

static enum weir_status record_put_back(struct write *write, int64_t node_id, struct record *record,
                                        struct weir_error *error)
{
    struct found_item item;
    enum weir_status status = find_item(write->connection, record->id, &item, error);
    if (status == WEIR_EXECUTION_NOT_FOUND ||
        (status == WEIR_OK && (item.fence != record->fence || item.state != ITEM_CLAIMED))) {
        return explain(write, record, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (item.cancel_requested) {
        return record_end(write, node_id, record, ITEM_CANCELLED, error);
    }
    bool waits = record->delay_us > 0;
    int64_t changes = 0;
    /* An engine that is away for hours sends a probe every few seconds: the first release tells the story. */
    bool told =
        record->kind == RECORD_RELEASED && record->error_code != NULL && strcmp(record->error_code, item.error_code) == 0;
    status = told ? WEIR_OK : story_tell_claim(write, record->id, record->fence, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_run(write->connection, error, &changes, QUERY_PUT_BACK_ITEM, "tididdtt", record->id, record->fence,
                            waits ? 1 : 0, time_add(write->now_us, record->delay_us), record->kind == RECORD_RETRY ? 1 : 0,
                            record->kind == RECORD_DEFERRED ? 1 : 0, record->error_code, record->error);
    if (status == WEIR_OK && !told) {
        status = event_add(write->connection, record->id, write->now_us, record_kind_name(record->kind), node_id,
                           record->fence, NULL, record->error_code, record->error, error);
    }
    struct lane_change *lane = lane_changes_lane(&write->changes, write->connection, item.lane_id, &status, error);
    lane->runnable += waits ? 0 : 1;
    lane->waiting += waits ? 1 : 0;
    struct workspace_counts *counts =
        lane_changes_workspace(&write->changes, write->connection, item.workspace_id, LOOK_ALWAYS, &status, error);
    counts->slots -= 1;
    counts->pending += 1;
    return status;
}

static enum weir_status record_dispatched(struct write *write, struct record *record, struct weir_error *error)
{
    int64_t changes = 0;
    enum weir_status status = record->taken_over ? story_tell_dispatch(write, record->id, record->fence, error) : WEIR_OK;
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, &changes, QUERY_DISPATCH_ITEM, "tii", record->id, record->fence,
                                write->now_us);
    }
    return status == WEIR_OK && changes == 0 ? explain(write, record, error) : status;
}

static enum weir_status record_step(struct write *write, int64_t node_id, struct record *record, struct weir_error *error)
{
    int64_t one;
    enum weir_status status =
        connection_read_integer(write->connection, error, &one, QUERY_HOLDS_ITEM, "ti", record->id, record->fence);
    if (status == WEIR_NOT_FOUND) {
        return explain(write, record, error);
    }
    return status == WEIR_OK ? write_step(write, node_id, record, error) : status;
}

static enum weir_status record_given_back(struct write *write, int64_t node_id, struct record *record,
                                          struct weir_error *error)
{
    int64_t fence;
    int64_t changes = 0;
    enum weir_status status = fence_next(write->connection, &fence, error);
    if (status == WEIR_OK) {
        status = story_tell_claim(write, record->id, record->fence, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(write->connection, error, &changes, QUERY_GIVE_BACK_ITEM, "tii", record->id, record->fence,
                                fence);
    }
    if (status == WEIR_OK && changes == 0) {
        return explain(write, record, error);
    }
    return status == WEIR_OK ? event_add(write->connection, record->id, write->now_us, "give_back", node_id, record->fence,
                                         NULL, record->error_code, record->error, error)
                             : status;
}

static enum weir_status record_one(struct write *write, int64_t node_id, struct record *record, struct weir_error *error)
{
    record->status = WEIR_OK;
    if (record->step != NULL && record->step->output_length > STEP_OUTPUT_BYTES_MAX) {
        record->status = WEIR_INVALID_ARGUMENT;
        return WEIR_OK;
    }
    switch (record->kind) {
    case RECORD_DISPATCHED:
        return record_dispatched(write, record, error);
    case RECORD_RETRY:
    case RECORD_DEFERRED:
    case RECORD_RELEASED:
        return record_put_back(write, node_id, record, error);
    case RECORD_REFUSED:
    case RECORD_FAILED:
        return record_end(write, node_id, record, ITEM_FAILED, error);
    case RECORD_COMPLETED:
        return record_end(write, node_id, record, ITEM_COMPLETED, error);
    case RECORD_CANCELLED:
        return record_end(write, node_id, record, ITEM_CANCELLED, error);
    case RECORD_STEP:
        return record_step(write, node_id, record, error);
    case RECORD_GIVEN_BACK:
        return record_given_back(write, node_id, record, error);
    case RECORD_KIND_COUNT:
        break;
    }
    return error_set(error, WEIR_MISUSE, "no such kind of record");
}

enum weir_status sqlite_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                               struct record_summary *ret_summary, struct weir_error *error)
{
    struct write write;
    struct record_summary summary = {0};
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    write.repeated = 0;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = record_one(&write, node_id, &records[i], error);
        summary.changed += status == WEIR_OK && records[i].status == WEIR_OK;
    }
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        summary.changed -= write.repeated;
        summary.slots_freed = (size_t)write.changes.slots_freed;
        summary.work_waits = summary.slots_freed > 0;
        *ret_summary = summary;
    }
    return status;
}
