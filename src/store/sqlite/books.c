/* The books: counters per lane, moved there from the news after the scheduler has read them (table books).
 *
 * Every transaction of the queue inserts news instead of updating counters, because a counter per lane would be
 * written twice per item. This file moves the sums over:
 *
 *   1. Check the epoch, as every write of a scheduler does.
 *   2. Read at most BOOKS_BATCH rows of the news, only up to the position that this handle has read. A later row must
 *      stay, because the scheduler learns of the change from it.
 *   3. Add the rows up per lane in memory (lane_sums.c). Many rows change one lane, so that few rows of books are
 *      written.
 *   4. Add the sums to the books and delete the rows of the news, in one transaction. So books + news does not change,
 *      and every reader of lane_counters sees the same totals before and after.
 *      The same transaction deletes the entries of queue_runnable that assignments have left at the heads of these lanes.
 *   5. Store the passes of the lanes, so that a scheduler that takes over continues in the same stride order.
 *
 * It never changes an item of the queue. The scheduler's node calls it in its dispatch thread, between rounds.
 */
#include "store/sqlite/sqlite_store.h"

#include "base/error.h"
#include "store/sqlite/lane_sums.h"

/* Sums the news up to the position per lane. *ret_last: the last row that was summed. */
static enum weir_status sum_rows(struct connection *connection, struct lane_sums *sums, int64_t position, size_t limit,
                                 int64_t *ret_last, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_NEWS_TO_MOVE, "ii", position, (int64_t)limit);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (status == WEIR_OK && connection_step(connection, statement, &status, error)) {
        *ret_last = sqlite3_column_int64(statement, 0);
        status = lane_sums_add_text(sums, column_text(statement, 1));
        if (status != WEIR_OK) {
            status = status == WEIR_OUT_OF_MEMORY
                         ? error_out_of_memory(error)
                         : error_set(error, status, "row %lld of the news is damaged", (long long)*ret_last);
        }
    }
    (void)sqlite3_reset(statement);
    return status;
}

/* Adds the sums to the rows of books, one statement per lane. A lane that has no news has no entries that an assignment
 * left since the last time. */
static enum weir_status add_sums(struct connection *connection, const struct lane_sums *sums, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sums->count && status == WEIR_OK; i++) {
        const struct lane_delta *sum = &sums->items[i];
        status = connection_run(connection, error, NULL, QUERY_ADD_TO_BOOKS, "iiiiiiii", sum->lane_id, sum->runnable,
                                sum->waiting, sum->held, sum->completed, sum->failed, sum->cancelled, sum->parked);
        if (status == WEIR_OK) {
            status = connection_run(connection, error, NULL, QUERY_FORGET_ASSIGNED, "i", sum->lane_id);
        }
    }
    return status;
}

/* Folds at most `limit` rows up to `position`; *ret_more: some are left. In the caller's write transaction. */
static enum weir_status move_news_to_books(struct connection *connection, int64_t position, size_t limit, bool *ret_more,
                                           struct weir_error *error)
{
    int64_t last = 0;
    int64_t left = 0;
    struct lane_sums sums = {.count = 0};
    enum weir_status status = sum_rows(connection, &sums, position, limit, &last, error);
    if (status == WEIR_OK) {
        status = add_sums(connection, &sums, error);
    }
    lane_sums_close(&sums);
    if (status == WEIR_OK && last > 0) {
        status = connection_run(connection, error, NULL, QUERY_DELETE_NEWS, "i", last);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &left, QUERY_NEWS_IS_LEFT, "i", position);
    }
    *ret_more = left != 0;
    return status;
}

/* Checks the epoch, moves sums and stores passes. *ret_changed: there was something to write. */
static enum weir_status publish_sums(struct write *write, int64_t epoch, const struct lane_pass *passes, size_t count,
                                     bool *ret_changed, bool *ret_more, struct weir_error *error)
{
    int64_t unread = 0;
    int64_t cookie = write->store->news_cookie;
    enum weir_status status = role_check(write->connection, epoch, &cookie, error);
    if (status == WEIR_OK && write->store->news_epoch != epoch) {
        status = error_set(error, WEIR_MISUSE, "books are published by the handle that has loaded the epoch");
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(write->connection, error, &unread, QUERY_NEWS_IS_LEFT, "i",
                                         write->store->news_position);
    }
    *ret_changed = unread != 0 || count > 0;
    if (status == WEIR_OK && unread != 0) {
        status = move_news_to_books(write->connection, write->store->news_position, BOOKS_BATCH, ret_more, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = connection_run(write->connection, error, NULL, QUERY_SET_PASS, "ii", passes[i].lane_id, passes[i].pass);
    }
    return status;
}

enum weir_status sqlite_publish_books(struct store *store, int64_t node_id, int64_t epoch, const struct lane_pass *passes,
                                      size_t count, bool *ret_more, struct weir_error *error)
{
    INVARIANT(store != NULL && epoch > 0 && (passes != NULL || count == 0));
    struct write write;
    bool more = false;
    bool changed = false;
    (void)node_id;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = publish_sums(&write, epoch, passes, count, &changed, &more, error);
    if (status == WEIR_OK && changed) {
        status = write_finish(&write, error);
    } else {
        write_undo(&write); /* an idle queue is not written */
    }
    if (status == WEIR_OK && ret_more != NULL) {
        *ret_more = more;
    }
    return status;
}
