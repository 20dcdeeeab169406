/* The interface of the PostgreSQL driver for the rest of weir: its table, and functions beyond it. */
#ifndef WEIR_STORE_POSTGRES_POSTGRES_H
#define WEIR_STORE_POSTGRES_POSTGRES_H

#include "store/driver.h"

struct pg_conn; /* libpq's PGconn */

extern const struct store_driver postgres_store_driver;

/* Grants `role` (must exist) exactly the rights that a node and the command line need at run time, without rights to change
 * the schema. Repeating it changes nothing. WEIR_INVALID_ARGUMENT for a store of another driver; WEIR_NOT_FOUND without
 * such a role. */
enum weir_status postgres_store_grant(struct store *store, const char *role, struct weir_error *error);

/* Enqueues on the caller's own connection, inside the open transaction of the caller: rollback leaves nothing, commit
 * starts the work. `schema` NULL = "weir". A refusal is in `ret_result` and leaves the transaction as it was; an error of
 * the server ends it, as every error in PostgreSQL does. WEIR_MISUSE: no open transaction, pipeline mode, or another
 * client_encoding than UTF8. WEIR_TIMED_OUT after ENQUEUE_ON_DEADLINE_US: the connection still waits, and the
 * caller must close it. */
#define ENQUEUE_ON_DEADLINE_US (30 * MICROSECONDS_PER_SECOND)
enum weir_status postgres_store_enqueue_on(struct pg_conn *connection, const char *schema,
                                           const struct enqueue_request *request, struct enqueue_result *ret_result,
                                           struct weir_error *error);

#endif
