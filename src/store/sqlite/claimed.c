/* Reads assigned items as an engine needs them: row, definition, params, and the steps on record.
 *
 * One statement reads the rows of a set through the table parameter_rows. The look-up of a round gives the rows of new
 * items to claimed_take_new(), so that these are not read twice. Params and steps are read only for items that have them.
 * Most items have no params beyond {}, and only an item that was interrupted has steps on record before it starts. Signals
 * are read for items that have got any. Names of definitions are cached for the call, because the items of a set share few
 * of them. Everything is copied into the arena of the caller.
 *
 * It only reads, inside the transaction of the caller, and never returns a part of a set. Runs in the dispatch thread
 * of a node.
 */
#include "store/sqlite/claimed.h"

#include <string.h>

#include "base/error.h"
#include "store/sqlite/signals.h"

enum { STEPS_FIRST = 8 };

/* Fills name and version of the definition, from the cache or from its row. */
static enum weir_status read_definition(struct claimed *claimed, struct claimed_item *item, struct weir_error *error)
{
    size_t at = (size_t)item->definition_id % CLAIMED_DEFINITIONS;
    if (claimed->definitions[at].id != item->definition_id) {
        sqlite3_stmt *statement =
            connection_bind(claimed->connection, error, QUERY_READ_DEFINITION, "i", item->definition_id);
        enum weir_status status = WEIR_OK;
        bool failed = false;
        if (statement == NULL) {
            return statement_failure(error);
        }
        claimed->definitions[at].id = item->definition_id;
        claimed->definitions[at].name = "";
        claimed->definitions[at].version = 0;
        if (connection_step(claimed->connection, statement, &status, error)) {
            claimed->definitions[at].name = column_copy(statement, 1, claimed->arena, &failed);
            claimed->definitions[at].version = sqlite3_column_int(statement, 3);
            (void)sqlite3_reset(statement);
        }
        if (status != WEIR_OK || failed) {
            return failed ? error_out_of_memory(error) : status;
        }
    }
    item->workflow = claimed->definitions[at].name;
    item->version = claimed->definitions[at].version;
    return WEIR_OK;
}

/* Reads the params of an item that has any. */
static enum weir_status read_params(struct claimed *claimed, struct claimed_item *item, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(claimed->connection, error, QUERY_READ_PARAMS, "t", item->id);
    enum weir_status status = WEIR_OK;
    bool failed = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    item->params = "";
    item->params_length = 0;
    if (connection_step(claimed->connection, statement, &status, error)) {
        item->params_length = (size_t)sqlite3_column_bytes(statement, 0);
        item->params = column_copy(statement, 0, claimed->arena, &failed);
        (void)sqlite3_reset(statement);
    }
    return failed ? error_out_of_memory(error) : status;
}

/* Copies one row of a step into the arena. */
static void read_step(const struct claimed *claimed, sqlite3_stmt *statement, struct step_record *step, bool *ret_failed)
{
    text_copy(step->step, sizeof step->step, column_text(statement, 0));
    if (!step_state_parse(column_text(statement, 1), &step->state)) {
        step->state = STEP_RUNNING;
    }
    step->attempt = sqlite3_column_int(statement, 2);
    step->failures = sqlite3_column_int(statement, 3);
    step->exit_code = sqlite3_column_type(statement, 4) == SQLITE_NULL ? -1 : sqlite3_column_int(statement, 4);
    step->due_us = sqlite3_column_int64(statement, 5);
    step->due_in_us = step->due_us > claimed->now_us ? step->due_us - claimed->now_us : 0;
    const char *signal = column_text(statement, 10);
    text_copy(step->signal, sizeof step->signal, signal == NULL ? "" : signal);
    if (signal != NULL && sqlite3_column_type(statement, 5) == SQLITE_NULL) {
        step->due_in_us = TIME_NEVER;
    }
    step->finished_us = sqlite3_column_int64(statement, 11);
    /* These strings are the arena's: the receiver copies them and never frees them. */
    step->output_length = (size_t)sqlite3_column_bytes(statement, 6);
    step->output = (char *)(uintptr_t)column_copy(statement, 6, claimed->arena, ret_failed);
    step->variables = (char *)(uintptr_t)column_copy(statement, 7, claimed->arena, ret_failed);
    const char *code = column_text(statement, 8);
    text_copy(step->error_code, sizeof step->error_code, code == NULL ? "" : code);
    step->error = (char *)(uintptr_t)column_copy(statement, 9, claimed->arena, ret_failed);
}

/* Reads the steps that an earlier claim has left on record. */
static enum weir_status read_steps(struct claimed *claimed, struct claimed_item *item, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(claimed->connection, error, QUERY_READ_STEPS, "t", item->id);
    enum weir_status status = WEIR_OK;
    struct step_record *steps = NULL;
    size_t count = 0;
    bool failed = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && connection_step(claimed->connection, statement, &status, error)) {
        steps = arena_grow(claimed->arena, steps, count, STEPS_FIRST, sizeof *steps);
        if (steps == NULL) {
            failed = true;
            break;
        }
        read_step(claimed, statement, &steps[count++], &failed);
    }
    (void)sqlite3_reset(statement);
    item->steps = steps;
    item->step_count = count;
    return failed ? error_out_of_memory(error) : status;
}

/* Copies the name of a workspace, which may be gone. */
static const char *copy_workspace(const struct claimed *claimed, sqlite3_stmt *statement, int column, bool *ret_failed)
{
    const char *workspace = column_copy(statement, column, claimed->arena, ret_failed);
    return workspace == NULL ? "" : workspace;
}

void claimed_take_new(const struct claimed *claimed, sqlite3_stmt *statement, struct claimed_item *item, bool *ret_failed)
{
    INVARIANT(claimed->arena != NULL && item != NULL && ret_failed != NULL);
    *item = (struct claimed_item){.definition_id = sqlite3_column_int64(statement, 2),
                                  .weight = sqlite3_column_int(statement, 8),
                                  .params = sqlite3_column_int(statement, 3) != 0 ? NULL : "{}", /* NULL: read later */
                                  .params_length = 2,
                                  .created_at_us = sqlite3_column_int64(statement, 4),
                                  .run_at_us = sqlite3_column_int64(statement, 5),
                                  .priority = sqlite3_column_int(statement, 6)};
    text_copy(item->id, sizeof item->id, column_text(statement, 1));
    item->traceparent = column_copy(statement, 9, claimed->arena, ret_failed);
    item->workspace = copy_workspace(claimed, statement, 7, ret_failed);
}

/* Fills an item from the present row of claimed_items. */
static void take_claimed_row(const struct claimed *claimed, sqlite3_stmt *statement, struct claimed_item *item,
                             bool *ret_failed)
{
    *item = (struct claimed_item){.definition_id = sqlite3_column_int64(statement, 1),
                                  .weight = sqlite3_column_int(statement, 14),
                                  .starts_refused = sqlite3_column_int(statement, 2),
                                  .deferrals = sqlite3_column_int(statement, 13),
                                  .interruptions = sqlite3_column_int(statement, 3),
                                  .interruptions_at_park = sqlite3_column_int(statement, 17),
                                  .woken_at_us = sqlite3_column_int64(statement, 18),
                                  .is_suspect = sqlite3_column_int(statement, 19) != 0,
                                  .lost_a_node = sqlite3_column_int(statement, 20) != 0,
                                  .signals_seen = sqlite3_column_int64(statement, 21),
                                  .assigned_before = sqlite3_column_int(statement, 16) != 0,
                                  .handed_over = sqlite3_column_int(statement, 3) > sqlite3_column_int(statement, 17),
                                  .params = sqlite3_column_int(statement, 4) != 0 ? NULL : "{}", /* NULL: read later */
                                  .params_length = 2,
                                  .cancel_requested = sqlite3_column_type(statement, 5) != SQLITE_NULL,
                                  .created_at_us = sqlite3_column_int64(statement, 6),
                                  .run_at_us = sqlite3_column_int64(statement, 7),
                                  .priority = sqlite3_column_int(statement, 9),
                                  .fence = sqlite3_column_int64(statement, 10),
                                  .claimed_at_us = sqlite3_column_int64(statement, 11)};
    text_copy(item->id, sizeof item->id, column_text(statement, 0));
    if (sqlite3_column_type(statement, 8) != SQLITE_NULL) {
        item->running_for_us = claimed->now_us - sqlite3_column_int64(statement, 8);
    }
    item->traceparent = column_copy(statement, 15, claimed->arena, ret_failed);
    item->workspace = copy_workspace(claimed, statement, 12, ret_failed);
}

enum weir_status claimed_read_rows(struct claimed *claimed, const int64_t *numbers, size_t count,
                                   struct claimed_item *items, struct weir_error *error)
{
    INVARIANT(claimed->connection != NULL && claimed->arena != NULL && items != NULL);
    struct connection *connection = claimed->connection;
    enum weir_status status = WEIR_OK;
    size_t found = 0;
    bool failed = false;
    struct parameter_row *rows = arena_allocate(claimed->arena, count * sizeof *rows);
    if (rows == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct parameter_row){.number = numbers[i]};
    }
    connection->parameter_rows = (struct parameter_rows){.rows = rows, .count = count};
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_CLAIMED_ITEMS, "");
    if (statement == NULL) {
        status = statement_failure(error);
    }
    while (statement != NULL && found < count && connection_step(connection, statement, &status, error)) {
        take_claimed_row(claimed, statement, &items[found++], &failed);
    }
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    if (status == WEIR_OK && !failed && found < count) {
        status = error_set(error, WEIR_STORE_CORRUPT, "a row of the queue vanished");
    }
    return failed ? error_out_of_memory(error) : status;
}

enum weir_status claimed_complete(struct claimed *claimed, struct claimed_item *items, size_t count,
                                  struct weir_error *error)
{
    INVARIANT(claimed->connection != NULL && claimed->arena != NULL && (items != NULL || count == 0));
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = read_definition(claimed, &items[i], error);
        if (status == WEIR_OK && items[i].params == NULL) {
            status = read_params(claimed, &items[i], error);
        }
        if (status == WEIR_OK && items[i].interruptions > 0) {
            status = read_steps(claimed, &items[i], error);
        }
        if (status == WEIR_OK && items[i].signals_seen > 0) {
            status = signals_read(claimed->connection, items[i].id, claimed->arena, &items[i].signals,
                                  &items[i].signal_count, error);
        }
    }
    return status;
}

enum weir_status claimed_read(struct claimed *claimed, const int64_t *numbers, size_t count, struct claimed_item *items,
                              struct weir_error *error)
{
    INVARIANT(claimed->connection != NULL && claimed->arena != NULL && (items != NULL || count == 0));
    enum weir_status status = count == 0 ? WEIR_OK : claimed_read_rows(claimed, numbers, count, items, error);
    return status == WEIR_OK ? claimed_complete(claimed, items, count, error) : status;
}
