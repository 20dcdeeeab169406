/* The archive on PostgreSQL: monthly tables, in the transactions of the server (functions/archive_items.sql).
 *
 *   1. One statement moves a set. The row of archive_state is its lock, so of two nodes at once the second one moves
 *      nothing.
 *   2. When nothing is left to move, a second statement removes the months of which no execution is left. It is a
 *      transaction of its own, because it keeps readers of the archive out until it commits.
 *
 * It never waits for a reader: what is in use stays for the next call. Runs in the thread that has the handle.
 */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"
#include "store/reading.h"

static enum weir_status drop_months(struct link *link, int64_t ended_before_us, int64_t *ret_dropped,
                                    struct weir_error *error)
{
    PGresult *result = NULL;
    char until[UUID_TEXT_MAX];
    reading_first_id(ended_before_us, until);
    enum weir_status status = link_write(link, error, &result, QUERY_DROP_ARCHIVE_MONTHS, "u", until);
    if (status == WEIR_OK) {
        *ret_dropped = result_int(result, 0, 0);
        PQclear(result);
    }
    return status;
}

enum weir_status postgres_archive(struct store *store, const struct archive_order *order, const char *below,
                                  struct archive_result *ret_result, struct weir_error *error)
{
    INVARIANT(order != NULL && below != NULL && ret_result != NULL && order->limit <= ARCHIVE_BATCH);
    PGresult *rows = NULL;
    struct archive_result result = {.moved = 0};
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    status =
        link_write(link_of(store), error, &rows, QUERY_ARCHIVE_ITEMS, "iuudd", order->ended_before_us,
                   order->after[0] == '\0' ? UUID_FIRST : order->after, below, (int)order->limit, (int)ARCHIVE_LOOK_ROWS);
    if (status != WEIR_OK) {
        return status;
    }
    const char *last_id = result_text(rows, 0, 1);
    result.moved = result_int(rows, 0, 0);
    text_copy(result.last_id, sizeof result.last_id, last_id == NULL ? "" : last_id);
    result.more = result_bool(rows, 0, 2);
    PQclear(rows);
    if (!result.more) {
        status = drop_months(link_of(store), order->ended_before_us, &result.dropped, error);
    }
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}
