#include "store/sqlite/given.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/step.h"
#include "store/sqlite/sqlite_store.h"

struct given_table {
    sqlite3_vtab base; /* first */
    const struct given *given;
};

struct given_cursor {
    sqlite3_vtab_cursor base; /* first */
    const struct given *given;
    size_t at;
};

enum given_column {
    GIVEN_AT,
    GIVEN_ID,
    GIVEN_FENCE,
    GIVEN_NUMBER,
    GIVEN_STATUS,
    GIVEN_DISPATCHED,
    GIVEN_REFUSED,
    GIVEN_ERROR_CODE,
    GIVEN_ERROR,
    GIVEN_STEP, /* from here on: of the step */
    GIVEN_STEP_STATUS,
    GIVEN_STEP_ATTEMPT,
    GIVEN_STEP_FAILURES,
    GIVEN_STEP_EXIT_CODE,
    GIVEN_STEP_OUTPUT,
    GIVEN_STEP_VARIABLES,
    GIVEN_STEP_ERROR_CODE,
    GIVEN_STEP_ERROR
};

static int connect_table(sqlite3 *database, void *context, int count, const char *const *arguments,
                         sqlite3_vtab **ret_table, char **ret_message)
{
    (void)count;
    (void)arguments;
    (void)ret_message;
    int code = sqlite3_declare_vtab(database, sqlite_queries[QUERY_DECLARE_GIVEN].sql);
    struct given_table *table = code == SQLITE_OK ? sqlite3_malloc(sizeof *table) : NULL;
    if (table == NULL) {
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    }
    *table = (struct given_table){.given = context};
    *ret_table = &table->base;
    return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int choose_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 10;
    info->estimatedRows = 10;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
    struct given_cursor *cursor = sqlite3_malloc(sizeof *cursor);
    if (cursor == NULL) {
        return SQLITE_NOMEM;
    }
    *cursor = (struct given_cursor){.given = ((struct given_table *)table)->given};
    *ret_cursor = &cursor->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *cursor, int index, const char *name, int count, sqlite3_value **values)
{
    (void)index;
    (void)name;
    (void)count;
    (void)values;
    ((struct given_cursor *)cursor)->at = 0;
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *cursor)
{
    ((struct given_cursor *)cursor)->at++;
    return SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *base)
{
    const struct given_cursor *cursor = (const struct given_cursor *)base;
    return cursor->at >= cursor->given->count;
}

static void give_text(sqlite3_context *context, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        sqlite3_result_text(context, text, -1, SQLITE_STATIC);
    }
}

static void give_bytes(sqlite3_context *context, const char *bytes, size_t length)
{
    if (bytes != NULL) {
        sqlite3_result_blob64(context, bytes, length, SQLITE_STATIC);
    }
}

static void give_step(sqlite3_context *context, const struct step_record *step, enum given_column column)
{
    switch (column) {
    case GIVEN_STEP:
        give_text(context, step->step);
        break;
    case GIVEN_STEP_STATUS:
        give_text(context, step_state_name(step->state));
        break;
    case GIVEN_STEP_ATTEMPT:
        sqlite3_result_int(context, step->attempt);
        break;
    case GIVEN_STEP_FAILURES:
        sqlite3_result_int(context, step->failures);
        break;
    case GIVEN_STEP_EXIT_CODE:
        if (step->exit_code >= 0) {
            sqlite3_result_int(context, step->exit_code);
        }
        break;
    case GIVEN_STEP_OUTPUT:
        give_bytes(context, step->output, step->output_length);
        break;
    case GIVEN_STEP_VARIABLES:
        give_bytes(context, step->variables, step->variables == NULL ? 0 : strlen(step->variables));
        break;
    case GIVEN_STEP_ERROR_CODE:
        give_text(context, step->error_code);
        break;
    default:
        INVARIANT(column == GIVEN_STEP_ERROR);
        if (step->error != NULL) {
            sqlite3_result_text(context, step->error, -1, SQLITE_STATIC);
        }
    }
}

static void give_row(sqlite3_context *context, const struct given_row *row, enum given_column column)
{
    switch (column) {
    case GIVEN_ID:
        give_text(context, row->id);
        break;
    case GIVEN_FENCE:
        sqlite3_result_int64(context, row->fence);
        break;
    case GIVEN_NUMBER:
        sqlite3_result_int64(context, row->number);
        break;
    case GIVEN_STATUS:
        give_text(context, row->status);
        break;
    case GIVEN_DISPATCHED:
        sqlite3_result_int(context, row->dispatched);
        break;
    case GIVEN_REFUSED:
        sqlite3_result_int(context, row->refused);
        break;
    case GIVEN_ERROR_CODE:
        if (row->error_code != NULL) {
            sqlite3_result_text(context, row->error_code, -1, SQLITE_STATIC);
        }
        break;
    case GIVEN_ERROR:
        if (row->error != NULL) {
            sqlite3_result_text(context, row->error, -1, SQLITE_STATIC);
        }
        break;
    default:
        if (row->step != NULL) {
            give_step(context, row->step, column);
        }
    }
}

/* A column that gives nothing is NULL. */
static int give_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct given_cursor *cursor = (const struct given_cursor *)base;
    if (column == GIVEN_AT) {
        sqlite3_result_int64(context, (int64_t)cursor->at);
    } else {
        give_row(context, &cursor->given->rows[cursor->at], (enum given_column)column);
    }
    return SQLITE_OK;
}

static int give_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
    *ret_rowid = (int64_t)((const struct given_cursor *)base)->at;
    return SQLITE_OK;
}

int given_register(sqlite3 *database, const struct given *given)
{
    static const sqlite3_module module = {.xConnect = connect_table,
                                          .xBestIndex = choose_index,
                                          .xDisconnect = disconnect_table,
                                          .xOpen = open_cursor,
                                          .xClose = close_cursor,
                                          .xFilter = filter,
                                          .xNext = next,
                                          .xEof = is_at_end,
                                          .xColumn = give_column,
                                          .xRowid = give_rowid};
    return sqlite3_create_module(database, "given", &module, (void *)(uintptr_t)given);
}

void given_unregister(sqlite3 *database)
{
    (void)sqlite3_create_module(database, "given", NULL, NULL);
}
