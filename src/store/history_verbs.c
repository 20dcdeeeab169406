/* The verbs of the history.
 *
 * Each verb checks its arguments and calls the driver. Runs in the caller's thread.
 */
#include "base/error.h"
#include "store/call.h"

/* The workspaces of the sample are in the arena. */
enum weir_status store_sample_history(struct store *store, struct arena *arena, struct history_sample *ret_sample,
                                      struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_sample != NULL);
    CALL(store, "sample_history", error, store->driver->sample_history(store, arena, ret_sample, detail));
}

enum weir_status store_write_history(struct store *store, const struct history_row *row, int64_t folds_from_us,
                                     struct weir_error *error)
{
    INVARIANT(store != NULL && row != NULL && row->facts != NULL && row->length <= HISTORY_FACTS_MAX);
    CALL(store, "write_history", error, store->driver->write_history(store, row, folds_from_us, detail));
}

/* The facts of each row are in the arena. */
enum weir_status store_read_history(struct store *store, const struct history_query *query, struct arena *arena,
                                    struct history_rows *ret_rows, struct weir_error *error)
{
    INVARIANT(store != NULL && query != NULL && arena != NULL && ret_rows != NULL);
    if (query->most == 0 || query->most > HISTORY_ROWS_MOST) {
        return error_set(error, WEIR_MISUSE, "a call reads 1 to %d rows of the history", HISTORY_ROWS_MOST);
    }
    CALL(store, "read_history", error, store->driver->read_history(store, query, arena, ret_rows, detail));
}
