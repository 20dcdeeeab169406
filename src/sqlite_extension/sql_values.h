/* Arguments and answers of the SQL functions of the extension. Threads: that of the connection. */
#ifndef WEIR_SQLITE_EXTENSION_SQL_VALUES_H
#define WEIR_SQLITE_EXTENSION_SQL_VALUES_H

#include <jansson.h>
#include <stdint.h>

#include "sqlite_extension/api.h"
#include "weir/status.h"

struct store;

/* Ends the statement with the text "status: message; hint", cut if it is longer: status and message come first. */
void sql_answer_error(sqlite3_context *context, enum weir_status status, const struct weir_error *error);
/* SQLite copies the text, because the store handle that owns it is closed before the statement reads it. */
void sql_answer_text(sqlite3_context *context, const char *text);
/* Releases `value`. */
void sql_answer_json(sqlite3_context *context, json_t *value);

/* The text lives until the statement ends; NULL for an argument that is NULL or was not given. WEIR_INVALID_ARGUMENT for a
 * blob and for a NUL in it; WEIR_OUT_OF_MEMORY. */
enum weir_status sql_take_text(int count, sqlite3_value **values, int at, const char *name, const char **ret_text,
                               struct weir_error *error);
/* The same for an argument that must be there. */
enum weir_status sql_need_text(int count, sqlite3_value **values, int at, const char *name, const char **ret_text,
                               struct weir_error *error);
/* NULL leaves the time as it is: now. A duration counts from the time of the store. */
enum weir_status sql_take_time(struct store *store, const char *text, int64_t *ret_time_us, struct weir_error *error);
/* NULL after the error was answered. The handle lives for one call: a statement that it kept would keep the host from
 * closing the connection. */
struct store *sql_open_store(sqlite3_context *context);

#endif
