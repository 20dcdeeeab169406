/* The verb of the archive: checks its arguments and calls the driver. Runs in the caller's thread. */
#include <string.h>

#include "base/error.h"
#include "store/call.h"

enum weir_status store_archive(struct store *store, const struct archive_order *order, struct archive_result *ret_result,
                               struct weir_error *error)
{
    INVARIANT(store != NULL && order != NULL && ret_result != NULL);
    if (order->limit == 0 || order->limit > ARCHIVE_BATCH) {
        return error_set(error, WEIR_MISUSE, "a call moves 1 to %d executions", ARCHIVE_BATCH);
    }
    memset(ret_result, 0, sizeof *ret_result);
    CALL(store, "archive", error, store->driver->archive(store, order, ret_result, detail));
}
