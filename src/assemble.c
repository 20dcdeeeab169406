#include "assemble.h"

#include <string.h>

#include "base/error.h"
#include "store/driver.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite_store.h"

const struct store_driver *const store_drivers[] = {&sqlite_store_driver, &postgres_store_driver, NULL};

enum weir_status assemble_engine(const char *name, const struct in_process_options *options, struct engine **ret_engine,
                                 struct weir_error *error)
{
    if (strcmp(name, "in_process") == 0) {
        return in_process_open(options, ret_engine, error);
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "there is no engine \"%s\"", name);
    error_hint(error, "this build knows: in_process");
    return WEIR_INVALID_ARGUMENT;
}

long assemble_keeper_pid(const struct engine *engine)
{
    return strcmp(engine_name(engine), "in_process") == 0 ? in_process_keeper_pid(engine) : 0;
}

enum weir_status assemble_enqueue_on_sqlite(struct sqlite3 *database, const struct enqueue_request *requests, size_t count,
                                            struct enqueue_result *results, struct weir_error *error)
{
    return sqlite_store_enqueue_on(database, requests, count, results, error);
}

enum weir_status assemble_grant_role(struct store *store, const char *role, struct weir_error *error)
{
    return postgres_store_grant(store, role, error);
}

enum weir_status assemble_enqueue_on_postgres(struct pg_conn *connection, const char *schema,
                                              const struct enqueue_request *request, struct enqueue_result *ret_result,
                                              struct weir_error *error)
{
    return postgres_store_enqueue_on(connection, schema, request, ret_result, error);
}

void assemble_tune_process(void)
{
    sqlite_store_tune_process();
}
