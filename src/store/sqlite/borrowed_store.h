/* A store handle on a connection of the caller, inside the caller's own transaction.
 *
 * The verbs for enqueues, acts, settings and reading work on it as on any other handle. Those of the schema, of nodes and
 * of wake-ups need the file and its writer: this handle has neither. A write is one savepoint: on a failure it leaves the
 * caller's transaction as it was, and outside of a transaction it commits by itself. A read sees one state of the store,
 * which is that of the transaction if there is one.
 *
 * The handle never ends the caller's transaction and never closes the connection. The exception is an interrupt
 * (sqlite3_interrupt()) during a write: it rolls the whole transaction back, as SQLite does with a statement that writes.
 */
#ifndef WEIR_STORE_SQLITE_BORROWED_STORE_H
#define WEIR_STORE_SQLITE_BORROWED_STORE_H

#include <sqlite3.h>

#include "store/sqlite/sqlite_store.h"

/* The database "main" of the connection must be a store with the schema of this program. The caller closes the handle with
 * store_close() before the connection, in the same thread. Errors: WEIR_STORE_NOT_WEIR, WEIR_SCHEMA_OLDER, _NEWER,
 * WEIR_NOT_PERMITTED (a connection whose locks nodes could not share), WEIR_OUT_OF_MEMORY, and those of reading. */
WEIR_MUST_CHECK enum weir_status borrowed_store_open(sqlite3 *database, struct store **ret_store, struct weir_error *error);

/* Between write_open() and write_finish() or write_undo(). */
enum weir_status borrowed_store_begin(struct connection *connection, int64_t *ret_now_us, struct weir_error *error);
enum weir_status borrowed_store_finish(struct connection *connection, struct weir_error *error);
void borrowed_store_undo(struct connection *connection);

/* Between snapshot_begin() and snapshot_end(): the statements of a verb that reads see one state of the store. */
enum weir_status borrowed_store_begin_read(struct connection *connection, struct weir_error *error);
void borrowed_store_end_read(struct connection *connection);

#endif
