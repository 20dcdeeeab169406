/* Rows of a statement as JSON: the names of the columns are the keys. */
#ifndef WEIR_STORE_SQLITE_ROW_JSON_H
#define WEIR_STORE_SQLITE_ROW_JSON_H

#include "store/sqlite/sqlite_store.h"

/* One column of the present row. A computed column with the text "true" or "false" becomes a boolean. NULL: out of memory.
 */
json_t *column_json(sqlite3_stmt *statement, int column);
/* A column with microseconds since 1970 as a time in text; null stays null. NULL: out of memory. */
json_t *column_time_json(sqlite3_stmt *statement, int column);
/* All rows of a bound statement as an array of objects. `statement` may be NULL after a failed preparation: its failure is
 * then returned. The statement is reset. */
enum weir_status statement_rows_json(struct connection *connection, sqlite3_stmt *statement, json_t **ret_rows,
                                     struct weir_error *error);
/* The rows of the view `executions` of these ids, in their order; a driver hands it to the shared lists. `context`: the
 * struct connection. */
enum weir_status row_json_executions(void *context, const char *const *ids, size_t count, json_t **ret_rows,
                                     struct weir_error *error);

#endif
