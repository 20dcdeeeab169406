#include "assemble.h"

#include <string.h>

#include "base/error.h"
#include "store/driver.h"
#include "store/sqlite/sqlite_store.h"

const struct store_driver *const store_drivers[] = {&sqlite_store_driver, NULL};

enum weir_status assemble_engine(const char *name, const struct engine_options *options, struct engine **ret_engine,
                                 struct weir_error *error)
{
    if (strcmp(name, "in_process") == 0 && options->in_process != NULL) {
        return in_process_open(options->in_process, ret_engine, error);
    }
    if (strcmp(name, "temporal") == 0 && options->temporal != NULL) {
        return temporal_open(options->temporal, ret_engine, error);
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "there is no engine \"%s\"", name);
    error_hint(error, "this build knows: in_process, temporal");
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

void assemble_tune_process(void)
{
    sqlite_store_tune_process();
}
