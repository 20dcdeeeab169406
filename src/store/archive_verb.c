/* The verb of the archive: checks its arguments, bounds the ids, and calls the driver. Runs in the caller's thread.
 *
 * Ids begin with the time of the program that made them. So the bound of the ids ends the look at those that are too young.
 */
#include <string.h>

#include "base/error.h"
#include "store/call.h"
#include "store/reading.h"

static enum weir_status move_next(struct store *store, const struct archive_order *order, struct archive_result *ret_result,
                                  struct weir_error *error)
{
    char below[UUID_TEXT_MAX];
    struct archive_result result = {.moved = 0};
    reading_first_id(time_add(order->ended_before_us, order->is_whole ? ID_AHEAD_MOST_US : 0), below);
    enum weir_status status = store->driver->archive(store, order, below, &result, error);
    if (status == WEIR_OK && !result.more) {
        reading_first_id(order->ended_before_us, result.last_id);
    }
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}

enum weir_status store_archive(struct store *store, const struct archive_order *order, struct archive_result *ret_result,
                               struct weir_error *error)
{
    INVARIANT(store != NULL && order != NULL && ret_result != NULL);
    if (order->limit == 0 || order->limit > ARCHIVE_BATCH) {
        return error_set(error, WEIR_MISUSE, "a call moves 1 to %d executions", ARCHIVE_BATCH);
    }
    memset(ret_result, 0, sizeof *ret_result);
    CALL(store, "archive", error, move_next(store, order, ret_result, detail));
}
