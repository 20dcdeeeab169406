/* The only file that names concrete stores and engines. The command line and the library call it in their own threads.
 *
 * A new driver is added to store_drivers, a new engine to assemble_engine(). Operations that one engine alone has (signals,
 * terminations, questions to a workflow) are opened here by the name of the engine; another engine is refused with a hint.
 * Nothing here may hold state.
 */
#include "assemble.h"

#include <string.h>

#include "base/error.h"
#include "engine/temporal/fields.h"
#include "store/driver.h"
#include "store/http/http_store.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite_store.h"

/* In the order in which a URL is offered to them; NULL ends the list. */
const struct store_driver *const store_drivers[] = {&sqlite_store_driver, &postgres_store_driver, &http_store_driver, NULL};

enum weir_status assemble_engine(const char *name, const struct engine_options *options, struct engine **ret_engine,
                                 struct weir_error *error)
{
    INVARIANT(name != NULL && options != NULL && ret_engine != NULL);
    if (strcmp(name, "in_process") == 0 && options->in_process != NULL) {
        return in_process_open(options->in_process, ret_engine, error);
    }
    if (strcmp(name, "temporal") == 0 && options->temporal != NULL) {
        return temporal_open(options->temporal, ret_engine, error);
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "there is no engine \"%s\"", name);
    error_hint(error, "the engines are in_process and temporal");
    return WEIR_INVALID_ARGUMENT;
}

/* The command line asks before it reads its input, so that a wrong engine is refused at once. */
enum weir_status assemble_require_operator(const char *name, const char *operation, struct weir_error *error)
{
    if (strcmp(name, "temporal") == 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "engine %s has no %s", name, operation);
    error_hint(error, "for executions on Temporal, set `engine: temporal` in weir.yaml");
    return WEIR_INVALID_ARGUMENT;
}

/* Each operation opens a client of its own, because the command line runs one of them and ends. */
static enum weir_status open_operator(const char *name, const struct engine_options *options, int64_t timeout_us,
                                      const char *operation, struct temporal_operator **ret_operator,
                                      struct weir_error *error)
{
    enum weir_status status = assemble_require_operator(name, operation, error);
    return status == WEIR_OK ? temporal_operator_open(options->temporal, timeout_us, ret_operator, error) : status;
}

enum weir_status assemble_signal(const char *name, const struct engine_options *options, int64_t timeout_us,
                                 const struct temporal_execution *execution, const char *signal, const char *input,
                                 const char *request_id, struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    enum weir_status status = open_operator(name, options, timeout_us, "signals", &operator, error);
    if (status == WEIR_OK) {
        status = temporal_signal(operator, execution, signal, input, request_id, error);
        temporal_operator_close(operator);
    }
    return status;
}

enum weir_status assemble_terminate(const char *name, const struct engine_options *options, int64_t timeout_us,
                                    const struct temporal_execution *execution, const char *reason, temporal_awaits *awaits,
                                    void *context, struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    enum weir_status status = open_operator(name, options, timeout_us, "terminations", &operator, error);
    if (status == WEIR_OK) {
        status = temporal_terminate(operator, execution, reason, awaits, context, error);
        temporal_operator_close(operator);
    }
    return status;
}

enum weir_status assemble_ask(const char *name, const struct engine_options *options, int64_t timeout_us,
                              const struct temporal_question *question, json_t **ret_answer, struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    enum weir_status status = open_operator(name, options, timeout_us, "workflows", &operator, error);
    if (status == WEIR_OK) {
        status = temporal_request(operator, question, ret_answer, error);
        temporal_operator_close(operator);
    }
    return status;
}

enum weir_status assemble_decode(const char *name, const struct engine_options *options, int64_t timeout_us,
                                 const json_t *payloads, json_t **ret_value, struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    enum weir_status status = open_operator(name, options, timeout_us, "payload codecs", &operator, error);
    if (status == WEIR_OK) {
        status = temporal_decode(operator, payloads, ret_value, error);
        temporal_operator_close(operator);
    }
    return status;
}

/* An engine inside of the node has no service, so there is nothing to examine. */
enum weir_status assemble_examine(const char *name, const struct engine_options *options, int64_t timeout_us,
                                  const char *const *queues, size_t count, temporal_finding *tell, void *context,
                                  struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    if (strcmp(name, "temporal") != 0) {
        return WEIR_OK;
    }
    enum weir_status status = temporal_operator_open(options->temporal, timeout_us, &operator, error);
    if (status == WEIR_OK) {
        temporal_examine(operator, queues, count, tell, context);
        temporal_operator_close(operator);
    }
    return status;
}

/* An engine inside of the node holds nothing up outside of it. */
enum weir_status assemble_hold_up(const char *name, const struct engine_options *options, int64_t timeout_us,
                                  const struct temporal_execution *execution, struct temporal_hold_up *ret_hold_up,
                                  struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    *ret_hold_up = (struct temporal_hold_up){.by = HELD_UP_BY_NOTHING};
    if (strcmp(name, "temporal") != 0) {
        return WEIR_OK;
    }
    enum weir_status status = temporal_operator_open(options->temporal, timeout_us, &operator, error);
    if (status == WEIR_OK) {
        status = temporal_hold_up(operator, execution, ret_hold_up, error);
        temporal_operator_close(operator);
    }
    return status;
}

/* The same id as a start would have: from the definition and the params, else the default one. A value that the definition
 * refuses is no error here: the start reports it. */
enum weir_status assemble_workflow_id(const struct engine_start *start, char *to, struct weir_error *error)
{
    struct definition *definition = NULL;
    struct start_fields fields = {.arguments = NULL};
    const char *code = NULL;
    _Static_assert((int)ASSEMBLE_WORKFLOW_ID_MAX == (int)WORKFLOW_ID_MAX, "the caller's buffer holds an id");
    enum weir_status status =
        definition_load(start->definition, strlen(start->definition), start->workflow, &definition, error);
    if (status == WEIR_OK && definition->temporal == NULL) {
        (void)fields_default_id(start->id, to);
    } else if (status == WEIR_OK) {
        status = fields_evaluate(definition, start, "", NULL, &fields, &code, error);
        memcpy(to, fields.workflow_id, sizeof fields.workflow_id);
        status = status == WEIR_FAILED ? WEIR_OK : status;
        fields_close(&fields);
    }
    definition_close(definition);
    return status;
}

enum weir_status assemble_find_execution(const char *name, const struct engine_options *options, int64_t timeout_us,
                                         const char *workflow_id, char *to, struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    enum weir_status status = open_operator(name, options, timeout_us, "workflow ids", &operator, error);
    if (status == WEIR_OK) {
        status = temporal_find_execution(operator, workflow_id, to, error);
        temporal_operator_close(operator);
    }
    return status;
}

enum weir_status assemble_set_up_service(const char *name, const struct engine_options *options, int64_t timeout_us,
                                         bool *ret_was_there, struct weir_error *error)
{
    struct temporal_operator *operator= NULL;
    enum weir_status status = open_operator(name, options, timeout_us, "search attributes", &operator, error);
    if (status == WEIR_OK) {
        status = temporal_add_workspace_attribute(operator, ret_was_there, error);
        temporal_operator_close(operator);
    }
    return status;
}

/* Inside of a transaction of the caller, on its connection. */
enum weir_status assemble_enqueue_on_sqlite(struct sqlite3 *database, const struct enqueue_request *requests, size_t count,
                                            struct enqueue_result *results, struct weir_error *error)
{
    return sqlite_store_enqueue_on(database, requests, count, results, error);
}

enum weir_status assemble_grant_role(struct store *store, const char *role, struct weir_error *error)
{
    return postgres_store_grant(store, role, error);
}

/* The same for PostgreSQL; the schema is the caller's choice. */
enum weir_status assemble_enqueue_on_postgres(struct pg_conn *connection, const char *schema,
                                              const struct enqueue_request *request, struct enqueue_result *ret_result,
                                              struct weir_error *error)
{
    return postgres_store_enqueue_on(connection, schema, request, ret_result, error);
}

/* Settings of the process that SQLite needs before its first use. */
void assemble_tune_process(void)
{
    sqlite_store_tune_process();
}
