/* Arguments and answers of the SQL functions. All calls of SQLite go to the library of the host (api.h). */
#include "sqlite_extension/sql_values.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "sqlite_extension/api.h"
#include "store/sqlite/borrowed_store.h"

enum { ANSWER_BYTES_MAX = 64 * 1024 * 1024 };

/* --- answers --- */

/* The text is cut if it is longer; status and message come first. */
void sql_answer_error(sqlite3_context *context, enum weir_status status, const struct weir_error *error)
{
    char text[2 * WEIR_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s: %s%s%s", weir_status_name(status), error->message,
                   error->hint[0] == '\0' ? "" : "; ", error->hint);
    sqlite3_result_error(context, text, -1);
}

/* SQLite copies the text, because the store handle that owns it is closed before the statement reads it. */
void sql_answer_text(sqlite3_context *context, const char *text)
{
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* Releases `value`. */
void sql_answer_json(sqlite3_context *context, json_t *value)
{
    struct text text = {.max = ANSWER_BYTES_MAX};
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = json_write(value, &text, &error);
    json_decref(value);
    if (status == WEIR_OK) {
        sql_answer_text(context, text.data);
    } else {
        sql_answer_error(context, status, &error);
    }
    text_close(&text);
}

/* --- arguments --- */

/* NULL for an argument that is NULL or was not given. */
enum weir_status sql_take_text(int count, sqlite3_value **values, int at, const char *name, const char **ret_text,
                               struct weir_error *error)
{
    *ret_text = NULL;
    if (at >= count || sqlite3_value_type(values[at]) == SQLITE_NULL) {
        return WEIR_OK;
    }
    if (sqlite3_value_type(values[at]) == SQLITE_BLOB) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be a text, not a blob", name);
    }
    const char *text = (const char *)sqlite3_value_text(values[at]);
    if (text == NULL) {
        return error_out_of_memory(error);
    }
    if (strlen(text) != (size_t)sqlite3_value_bytes(values[at])) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s has a NUL in it", name);
    }
    *ret_text = text;
    return WEIR_OK;
}

/* The same for an argument that must be there. */
enum weir_status sql_need_text(int count, sqlite3_value **values, int at, const char *name, const char **ret_text,
                               struct weir_error *error)
{
    enum weir_status status = sql_take_text(count, values, at, name, ret_text, error);
    if (status == WEIR_OK && *ret_text == NULL) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "%s must not be NULL", name);
    }
    return status;
}

/* NULL leaves the time as it is: now. A duration counts from the time of the store. */
enum weir_status sql_take_time(struct store *store, const char *text, int64_t *ret_time_us, struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = text == NULL ? WEIR_OK : store_time(store, &now_us, error);
    if (status == WEIR_OK && text != NULL) {
        status = time_parse(text, now_us, ret_time_us, error);
        if (status != WEIR_OK) {
            error_prefix(error, "run_at");
        }
    }
    return status;
}

/* NULL after the error was answered. The handle lives for one call: a statement that it kept would keep the host from
 * closing the connection. */
struct store *sql_open_store(sqlite3_context *context)
{
    struct store *store = NULL;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = borrowed_store_open(sqlite3_context_db_handle(context), &store, &error);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
        return NULL;
    }
    return store;
}
