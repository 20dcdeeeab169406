/* The SQL functions that enqueue. Threads: that of the connection. */
#ifndef WEIR_SQLITE_EXTENSION_SQL_ENQUEUE_H
#define WEIR_SQLITE_EXTENSION_SQL_ENQUEUE_H

#include "sqlite_extension/api.h"

enum { ENQUEUE_ARGUMENTS_MOST = 14 };

/* weir_enqueue(workspace, workflow, ...): the id of the execution, or an error of the statement. */
void sql_enqueue(sqlite3_context *context, int count, sqlite3_value **values);
/* weir_enqueue_many(requests): a JSON array of answers, in the order of the requests. */
void sql_enqueue_many(sqlite3_context *context, int count, sqlite3_value **values);

#endif
