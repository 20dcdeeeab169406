/* The virtual table parameter_rows: rows in memory as the parameter of one statement.
 *
 * SQLite calls the functions of the module. A cursor is an index into the rows of the connection. The table has no
 * index of its own, and its estimated cost is low. So the planner reads it first, and finds the rows of the queue by
 * their key. Texts are passed without a copy, because the caller keeps them until the statement has run.
 *
 * The rows must stay in place while a statement runs, and the caller takes them away afterwards. Read only. Runs in
 * the thread of the connection.
 */
#include "store/sqlite/parameter_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/step.h"
#include "store/sqlite/sqlite_store.h"

struct parameter_table {
    sqlite3_vtab base; /* first */
    const struct parameter_rows *rows;
};

struct parameter_cursor {
    sqlite3_vtab_cursor base; /* first */
    const struct parameter_rows *rows;
    size_t at;
};

enum parameter_column {
    PARAMETER_AT,
    PARAMETER_ID,
    PARAMETER_FENCE,
    PARAMETER_NUMBER,
    PARAMETER_STATUS,
    PARAMETER_DISPATCHED,
    PARAMETER_NODE_ID,
    PARAMETER_LANE_ID,
    PARAMETER_RANK,
    PARAMETER_DUE, /* from here on: times */
    PARAMETER_CLAIMED,
    PARAMETER_STARTED_FIRST,
    PARAMETER_STARTED,
    PARAMETER_STEP_DUE,
    PARAMETER_STEP_STARTED,
    PARAMETER_STEP_FINISHED, /* the last of them */
    PARAMETER_REFUSED,
    PARAMETER_ERROR_CODE,
    PARAMETER_ERROR,
    PARAMETER_STEP, /* from here on: of the step */
    PARAMETER_STEP_STATUS,
    PARAMETER_STEP_ATTEMPT,
    PARAMETER_STEP_FAILURES,
    PARAMETER_STEP_EXIT_CODE,
    PARAMETER_STEP_OUTPUT,
    PARAMETER_STEP_VARIABLES,
    PARAMETER_STEP_ERROR_CODE,
    PARAMETER_STEP_ERROR,
    PARAMETER_STEP_SIGNAL
};

/* Declares the columns; `context` holds the rows. */
static int parameters_connect(sqlite3 *database, void *context, int count, const char *const *arguments,
                              sqlite3_vtab **ret_table, char **ret_message)
{
    (void)count;
    (void)arguments;
    (void)ret_message;
    int code = sqlite3_declare_vtab(database, sqlite_queries[QUERY_DECLARE_PARAMETER_ROWS].sql);
    struct parameter_table *table = code == SQLITE_OK ? sqlite3_malloc(sizeof *table) : NULL;
    if (table == NULL) {
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    }
    *table = (struct parameter_table){.rows = context};
    *ret_table = &table->base;
    return SQLITE_OK;
}

static int parameters_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

/* The table has no index and is always read as a whole. */
static int parameters_choose_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 10;
    info->estimatedRows = 10;
    return SQLITE_OK;
}

static int parameters_open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
    struct parameter_cursor *cursor = sqlite3_malloc(sizeof *cursor);
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    *cursor = (struct parameter_cursor){.rows = ((struct parameter_table *)table)->rows};
    *ret_cursor = &cursor->base;
    return SQLITE_OK;
}

static int parameters_close_cursor(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int parameters_rewind(sqlite3_vtab_cursor *cursor, int index, const char *name, int count, sqlite3_value **values)
{
    (void)index;
    (void)name;
    (void)count;
    (void)values;
    ((struct parameter_cursor *)cursor)->at = 0;
    return SQLITE_OK;
}

static int parameters_next_row(sqlite3_vtab_cursor *cursor)
{
    ((struct parameter_cursor *)cursor)->at++;
    return SQLITE_OK;
}

static int parameters_is_at_end(sqlite3_vtab_cursor *base)
{
    const struct parameter_cursor *cursor = (const struct parameter_cursor *)base;
    return cursor->at >= cursor->rows->count;
}

/* An empty text becomes NULL. */
static void return_text(sqlite3_context *context, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        sqlite3_result_text(context, text, -1, SQLITE_STATIC);
    }
}

static void return_bytes(sqlite3_context *context, const char *bytes, size_t length)
{
    if (bytes != NULL) {
        sqlite3_result_blob64(context, bytes, length, SQLITE_STATIC);
    }
}

/* A column of the step that ends together with its execution. */
static void return_step(sqlite3_context *context, const struct step_record *step, enum parameter_column column)
{
    switch (column) {
    case PARAMETER_STEP:
        return_text(context, step->step);
        break;
    case PARAMETER_STEP_STATUS:
        return_text(context, step_state_name(step->state));
        break;
    case PARAMETER_STEP_ATTEMPT:
        sqlite3_result_int(context, step->attempt);
        break;
    case PARAMETER_STEP_FAILURES:
        sqlite3_result_int(context, step->failures);
        break;
    case PARAMETER_STEP_EXIT_CODE:
        if (step->exit_code >= 0) {
            sqlite3_result_int(context, step->exit_code);
        }
        break;
    case PARAMETER_STEP_OUTPUT:
        return_bytes(context, step->output, step->output_length);
        break;
    case PARAMETER_STEP_VARIABLES:
        return_bytes(context, step->variables, step->variables == NULL ? 0 : strlen(step->variables));
        break;
    case PARAMETER_STEP_ERROR_CODE:
        return_text(context, step->error_code);
        break;
    case PARAMETER_STEP_SIGNAL:
        return_text(context, step->signal);
        break;
    default:
        INVARIANT(column == PARAMETER_STEP_ERROR);
        if (step->error != NULL) {
            sqlite3_result_text(context, step->error, -1, SQLITE_STATIC);
        }
    }
}

/* A column with a time; 0 becomes NULL. */
static void return_time(sqlite3_context *context, const struct parameter_row *row, enum parameter_column column)
{
    const int64_t times[] = {row->due_us,      row->claimed_us,      row->dispatched_us,   row->started_us,
                             row->step_due_us, row->step_started_us, row->step_finished_us};
    int64_t at_us = times[column - PARAMETER_DUE];
    if (at_us != 0) {
        sqlite3_result_int64(context, at_us);
    }
}

/* A column of one row. */
static void return_row(sqlite3_context *context, const struct parameter_row *row, enum parameter_column column)
{
    switch (column) {
    case PARAMETER_ID:
        return_text(context, row->id);
        break;
    case PARAMETER_FENCE:
        sqlite3_result_int64(context, row->fence);
        break;
    case PARAMETER_NUMBER:
        sqlite3_result_int64(context, row->number);
        break;
    case PARAMETER_STATUS:
        return_text(context, row->status);
        break;
    case PARAMETER_NODE_ID:
        sqlite3_result_int64(context, row->node_id);
        break;
    case PARAMETER_LANE_ID:
        sqlite3_result_int64(context, row->lane_id);
        break;
    case PARAMETER_RANK:
        sqlite3_result_int64(context, row->rank);
        break;
    case PARAMETER_DISPATCHED:
        sqlite3_result_int(context, row->dispatched);
        break;
    case PARAMETER_REFUSED:
        sqlite3_result_int(context, row->refused);
        break;
    case PARAMETER_ERROR_CODE:
        if (row->error_code != NULL) {
            sqlite3_result_text(context, row->error_code, -1, SQLITE_STATIC);
        }
        break;
    case PARAMETER_ERROR:
        if (row->error != NULL) {
            sqlite3_result_text(context, row->error, -1, SQLITE_STATIC);
        }
        break;
    default:
        if (column >= PARAMETER_DUE && column <= PARAMETER_STEP_FINISHED) {
            return_time(context, row, column);
        } else if (row->step != NULL) {
            return_step(context, row->step, column);
        }
    }
}

/* A column that gives nothing is NULL. */
static int parameters_read_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct parameter_cursor *cursor = (const struct parameter_cursor *)base;
    if (column == PARAMETER_AT) {
        sqlite3_result_int64(context, (int64_t)cursor->at);
    } else {
        return_row(context, &cursor->rows->rows[cursor->at], (enum parameter_column)column);
    }
    return SQLITE_OK;
}

static int parameters_read_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
    *ret_rowid = (int64_t)((const struct parameter_cursor *)base)->at;
    return SQLITE_OK;
}

int parameter_rows_register(sqlite3 *database, const struct parameter_rows *rows)
{
    INVARIANT(database != NULL && rows != NULL);
    static const sqlite3_module module = {.xConnect = parameters_connect,
                                          .xBestIndex = parameters_choose_index,
                                          .xDisconnect = parameters_disconnect,
                                          .xOpen = parameters_open_cursor,
                                          .xClose = parameters_close_cursor,
                                          .xFilter = parameters_rewind,
                                          .xNext = parameters_next_row,
                                          .xEof = parameters_is_at_end,
                                          .xColumn = parameters_read_column,
                                          .xRowid = parameters_read_rowid};
    return sqlite3_create_module(database, "parameter_rows", &module, (void *)(uintptr_t)rows);
}

void parameter_rows_unregister(sqlite3 *database)
{
    (void)sqlite3_create_module(database, "parameter_rows", NULL, NULL);
}
