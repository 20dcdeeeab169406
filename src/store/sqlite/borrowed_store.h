/* A store handle on a connection of the caller, inside the caller's own transaction.
 *
 * All verbs of store.h that act and read work on it as on any other handle. A write is one savepoint: on a failure it
 * leaves the caller's transaction as it was, and outside of a transaction it commits by itself. A read sees what the
 * transaction sees. The handle never ends the caller's transaction, and never closes the
 * connection. */
#ifndef WEIR_STORE_SQLITE_BORROWED_STORE_H
#define WEIR_STORE_SQLITE_BORROWED_STORE_H

#include <sqlite3.h>

#include "store/sqlite/sqlite_store.h"

/* The database "main" of the connection must be a store with the schema of this program. The caller closes the handle with
 * store_close() before the connection, in the same thread. Errors: WEIR_STORE_NOT_WEIR, WEIR_SCHEMA_OLDER, _NEWER,
 * WEIR_NOT_PERMITTED (a connection whose locks or log nodes could not share), WEIR_OUT_OF_MEMORY, and those of reading. */
WEIR_MUST_CHECK enum weir_status borrowed_store_open(sqlite3 *database, struct store **ret_store, struct weir_error *error);

/* Between write_open() and write_finish() or write_undo(). */
enum weir_status borrowed_store_begin(struct connection *connection, int64_t *ret_now_us, struct weir_error *error);
enum weir_status borrowed_store_finish(struct connection *connection, struct weir_error *error);
void borrowed_store_undo(struct connection *connection);

#endif
