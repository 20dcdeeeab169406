/* Puts a node together from concrete parts. src/assemble.c is the only file that names drivers: the rest of the program
 * knows stores and engines by their interfaces. Stores are found by the scheme of their URL: see store_drivers in
 * store/driver.h. */
#ifndef WEIR_ASSEMBLE_H
#define WEIR_ASSEMBLE_H

#include "definition/definition.h"
#include "engine/engine.h"
#include "engine/in_process/in_process.h"
#include "engine/temporal/operator_client.h"
#include "engine/temporal/temporal.h"
#include "store/store.h"

struct pg_conn;
struct sqlite3;

/* The options of each engine; only those of the requested engine are read, and must be there. */
struct engine_options {
    const struct in_process_options *in_process;
    const struct temporal_options *temporal;
};
/* "in_process" or "temporal"; WEIR_INVALID_ARGUMENT names the known engines. It may fork: before the process starts
 * threads. */
WEIR_MUST_CHECK enum weir_status assemble_engine(const char *name, const struct engine_options *options,
                                                 struct engine **ret_engine, struct weir_error *error);
/* Whether the engine of this name takes orders of operators to a running workflow; `operation` names the order in the
 * refusal, WEIR_INVALID_ARGUMENT. Makes no call. */
WEIR_MUST_CHECK enum weir_status assemble_require_operator(const char *name, const char *operation,
                                                           struct weir_error *error);
/* Direct queries of people to the engine, outside of any node. WEIR_INVALID_ARGUMENT when this engine has no such thing.
 * `timeout_us` of the call. See engine/temporal/operator_client.h for the rest. */
WEIR_MUST_CHECK enum weir_status assemble_signal(const char *name, const struct engine_options *options, int64_t timeout_us,
                                                 const struct temporal_execution *execution, const char *signal,
                                                 const char *input, const char *request_id, struct weir_error *error);
WEIR_MUST_CHECK enum weir_status assemble_terminate(const char *name, const struct engine_options *options,
                                                    int64_t timeout_us, const struct temporal_execution *execution,
                                                    const char *reason, temporal_awaits *awaits, void *context,
                                                    struct weir_error *error);
WEIR_MUST_CHECK enum weir_status assemble_ask(const char *name, const struct engine_options *options, int64_t timeout_us,
                                              const struct temporal_question *question, json_t **ret_answer,
                                              struct weir_error *error);
/* The value of payloads that the engine's codec has not decoded. WEIR_ENGINE_UNREACHABLE, WEIR_FAILED. */
WEIR_MUST_CHECK enum weir_status assemble_decode(const char *name, const struct engine_options *options, int64_t timeout_us,
                                                 const json_t *payloads, json_t **ret_value, struct weir_error *error);
/* Reports the state of the engine's service; nothing for an engine without one. */
WEIR_MUST_CHECK enum weir_status assemble_examine(const char *name, const struct engine_options *options,
                                                  int64_t timeout_us, const char *const *queues, size_t count,
                                                  temporal_finding *tell, void *context, struct weir_error *error);
/* The reason why an execution on the engine's service waits; HELD_UP_BY_NOTHING for an engine without one. */
WEIR_MUST_CHECK enum weir_status assemble_hold_up(const char *name, const struct engine_options *options,
                                                  int64_t timeout_us, const struct temporal_execution *execution,
                                                  struct temporal_hold_up *ret_hold_up, struct weir_error *error);
/* Writes the workflow id that a start of this execution has: of `start`, id, workspace, workflow, version, definition and
 * params are read. `to` holds ASSEMBLE_WORKFLOW_ID_MAX bytes. The default one where the definition does not run on
 * Temporal, or gives no id: such a start is refused. */
enum { ASSEMBLE_WORKFLOW_ID_MAX = TEMPORAL_NAME_BYTES_MAX + 1 };
WEIR_MUST_CHECK enum weir_status assemble_workflow_id(const struct engine_start *start, char *to, struct weir_error *error);
/* temporal_find_execution(); WEIR_INVALID_ARGUMENT for an engine without workflow ids. */
WEIR_MUST_CHECK enum weir_status assemble_find_execution(const char *name, const struct engine_options *options,
                                                         int64_t timeout_us, const char *workflow_id, char *to,
                                                         struct weir_error *error);
/* temporal_add_workspace_attribute(); WEIR_INVALID_ARGUMENT for an engine without search attributes. */
WEIR_MUST_CHECK enum weir_status assemble_set_up_service(const char *name, const struct engine_options *options,
                                                         int64_t timeout_us, bool *ret_was_there, struct weir_error *error);
/* Enqueues in the caller's own open transaction, see weir_enqueue_sqlite(). */
WEIR_MUST_CHECK enum weir_status assemble_enqueue_on_sqlite(struct sqlite3 *database,
                                                            const struct enqueue_request *requests, size_t count,
                                                            struct enqueue_result *results, struct weir_error *error);

/* Gives a database role the rights of a node and of the command line in the store; WEIR_INVALID_ARGUMENT where stores have
 * none.
 */
WEIR_MUST_CHECK enum weir_status assemble_grant_role(struct store *store, const char *role, struct weir_error *error);
/* The same on a PostgreSQL connection, one request; see weir_enqueue_pq(). */
WEIR_MUST_CHECK enum weir_status assemble_enqueue_on_postgres(struct pg_conn *connection, const char *schema,
                                                              const struct enqueue_request *request,
                                                              struct enqueue_result *ret_result, struct weir_error *error);

/* For our own programs, first thing in main(): settings of the libraries below that concern the whole process. */
void assemble_tune_process(void);

#endif
