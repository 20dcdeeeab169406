/* Rows of a statement as JSON, for the lists and answers that people read.
 *
 * SQLite has no booleans: a query computes the text 'true' or 'false', and column_json() turns it into a JSON boolean. It
 * does so only for computed columns, which have no declared type, because a stored text "true" must stay a text. A stored
 * text that is not UTF-8 was not written by weir; it is replaced by a note, so that one bad row does not make a list
 * unreadable. Runs in the thread of the handle. It never ends a statement early without a reset.
 */
#include "store/sqlite/row_json.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

json_t *column_json(sqlite3_stmt *statement, int column)
{
    INVARIANT(statement != NULL && column >= 0);
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return json_real(sqlite3_column_double(statement, column));
    case SQLITE_NULL:
        return json_null();
    default: {
        const char *text = column_text(statement, column);
        size_t length = (size_t)sqlite3_column_bytes(statement, column);
        if (length == 4 && memcmp(text, "true", 4) == 0 && sqlite3_column_decltype(statement, column) == NULL) {
            return json_true();
        }
        if (length == 5 && memcmp(text, "false", 5) == 0 && sqlite3_column_decltype(statement, column) == NULL) {
            return json_false();
        }
        return text_is_utf8(text, length) ? json_stringn(text, length) : json_string("(bytes that are not UTF-8)");
    }
    }
}

json_t *column_time_json(sqlite3_stmt *statement, int column)
{
    char text[TIME_TEXT_MAX];
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) {
        return json_null();
    }
    time_format(sqlite3_column_int64(statement, column), text);
    return json_string(text);
}

/* Columns of these names hold JSON as text. */
static bool is_json_column(const char *name)
{
    return strcmp(name, "on") == 0 || strcmp(name, "before") == 0 || strcmp(name, "after") == 0 ||
           strcmp(name, "handlers") == 0 || strcmp(name, "handlers_missing") == 0 || strcmp(name, "workspaces") == 0 ||
           strcmp(name, "workspaces_deleted") == 0 || strcmp(name, "group_nodes") == 0 || strcmp(name, "params") == 0 ||
           strcmp(name, "data") == 0 || strcmp(name, "labels") == 0 || strcmp(name, "progress") == 0;
}

/* A text that is no JSON was not written by weir, and counts as an empty array. */
static json_t *text_value(sqlite3_stmt *statement, int column)
{
    const char *text = column_text(statement, column);
    json_t *value = NULL;
    if (text == NULL) {
        return json_null();
    }
    return json_read(text, strlen(text), &value, NULL) == WEIR_OK ? value : json_array();
}

/* The present row as an object; NULL: out of memory. */
static json_t *row_json(sqlite3_stmt *statement)
{
    json_t *row = json_object();
    for (int i = 0; row != NULL && i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);
        json_t *value = is_json_column(name) ? text_value(statement, i) : column_json(statement, i);
        if (json_object_set_new_nocheck(row, name, value) != 0) {
            json_decref(row);
            row = NULL;
        }
    }
    return row;
}

enum weir_status statement_rows_json(struct connection *connection, sqlite3_stmt *statement, json_t **ret_rows,
                                     struct weir_error *error)
{
    INVARIANT(ret_rows != NULL);
    json_t *rows = json_array();
    enum weir_status status = WEIR_OK;
    if (statement == NULL || rows == NULL) {
        json_decref(rows);
        return statement == NULL ? statement_failure(error) : error_out_of_memory(error);
    }
    while (connection_step(connection, statement, &status, error)) {
        if (json_array_append_new(rows, row_json(statement)) != 0) {
            (void)sqlite3_reset(statement);
            json_decref(rows);
            return error_out_of_memory(error);
        }
    }
    if (status != WEIR_OK) {
        json_decref(rows);
        return status;
    }
    *ret_rows = rows;
    return WEIR_OK;
}

enum weir_status row_json_executions(void *context, const char *const *ids, size_t count, json_t **ret_rows,
                                     struct weir_error *error)
{
    INVARIANT(context != NULL && (ids != NULL || count == 0) && ret_rows != NULL);
    struct connection *connection = context;
    json_t *rows = json_array();
    enum weir_status status = rows == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        json_t *row = NULL;
        status = statement_rows_json(connection, connection_bind(connection, error, QUERY_READ_EXECUTION, "t", ids[i]),
                                     &row, error);
        if (status == WEIR_OK && json_array_extend(rows, row) != 0) {
            status = error_out_of_memory(error);
        }
        json_decref(row);
    }
    if (status != WEIR_OK) {
        json_decref(rows);
        return status;
    }
    *ret_rows = rows;
    return WEIR_OK;
}
