/* Puts a node together from concrete parts. src/assemble.c is the only file that names drivers: the rest of the program
 * knows stores and engines by their interfaces. Stores are found by the scheme of their URL: see store_drivers in
 * store/driver.h. */
#ifndef WEIR_ASSEMBLE_H
#define WEIR_ASSEMBLE_H

#include "engine/engine.h"
#include "engine/in_process/in_process.h"
#include "store/store.h"

struct pg_conn;
struct sqlite3;

/* "in_process"; WEIR_INVALID_ARGUMENT names the known engines. It may fork: before the process starts threads. */
WEIR_MUST_CHECK enum weir_status assemble_engine(const char *name, const struct in_process_options *options,
                                                 struct engine **ret_engine, struct weir_error *error);
/* The process that outlives a dead node for a moment (struct node_settings); 0 when the engine has none. */
long assemble_keeper_pid(const struct engine *engine);
/* Enqueues in the caller's own open transaction, see weir_enqueue_sqlite(). */
WEIR_MUST_CHECK enum weir_status assemble_enqueue_on_sqlite(struct sqlite3 *database,
                                                            const struct enqueue_request *requests, size_t count,
                                                            struct enqueue_result *results, struct weir_error *error);

/* Gives a database role what a node and the command line need of the store; WEIR_INVALID_ARGUMENT where stores have none.
 */
WEIR_MUST_CHECK enum weir_status assemble_grant_role(struct store *store, const char *role, struct weir_error *error);
/* The same on a PostgreSQL connection, one request; see weir_enqueue_pq(). */
WEIR_MUST_CHECK enum weir_status assemble_enqueue_on_postgres(struct pg_conn *connection, const char *schema,
                                                              const struct enqueue_request *request,
                                                              struct enqueue_result *ret_result, struct weir_error *error);

/* For our own programs, first thing in main(): settings of the libraries below that concern the whole process. */
void assemble_tune_process(void);

#endif
