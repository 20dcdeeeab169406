/* The rows of a list in the order of the queue (store/queue_order.h).
 *
 * Equal ranks and equal due times are told apart by the number of the row, as the scheduler does. The number of a row that
 * has left the queue may be given out again, but never to a row in front of the cursor: only the highest one is.
 *
 * Never writes; each statement walks along an index of the queue. */
#include "store/sqlite/queue_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/queue_order.h"
#include "store/sqlite/row_json.h"

/* struct queue_order_rows, read. */
static enum weir_status sqlite_queue_entries(void *context, const char *workspace, bool delayed, int64_t key,
                                             const char *tie, size_t limit, struct queue_entry *ret_entries,
                                             size_t *ret_count, struct weir_error *error)
{
    struct connection *connection = context;
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    sqlite3_stmt *statement =
        connection_bind(connection, error, delayed ? QUERY_QUEUE_ORDER_DELAYED : QUERY_QUEUE_ORDER_RUNNABLE, "tiii",
                        workspace, key, (int64_t)strtoll(tie, NULL, 10), (int64_t)limit);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < limit && connection_step(connection, statement, &status, error)) {
        struct queue_entry *entry = &ret_entries[count++];
        const char *id = column_text(statement, 0);
        text_copy(entry->id, sizeof entry->id, id == NULL ? "" : id);
        entry->lane_id = sqlite3_column_int64(statement, 1);
        entry->key = sqlite3_column_int64(statement, 2);
        (void)snprintf(entry->tie, sizeof entry->tie, "%lld", (long long)sqlite3_column_int64(statement, 3));
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
}

/* struct queue_order_rows, count_ahead. */
static enum weir_status sqlite_queue_ahead(void *context, const struct queue_entry *entry, int64_t *ret_ahead,
                                           struct weir_error *error)
{
    return connection_read_integer(context, error, ret_ahead, QUERY_PLACE_IN_LANE, "iiti", entry->lane_id, entry->key,
                                   entry->id, (int64_t)QUEUE_PLACE_MOST);
}

/* A number of a row, in decimal. */
static bool tie_is_number(const char *tie)
{
    size_t length = strlen(tie);
    return length > 0 && length <= 18 && strspn(tie, "0123456789") == length;
}

enum weir_status sqlite_list_queue(struct connection *connection, const struct execution_rows *counted,
                                   const struct list_options *options, json_t **ret_page, struct weir_error *error)
{
    INVARIANT(connection != NULL && counted != NULL && options->order == ORDER_QUEUE && ret_page != NULL);
    const struct queue_order_rows rows = {.read = sqlite_queue_entries,
                                          .count_ahead = sqlite_queue_ahead,
                                          .show = row_json_executions,
                                          .context = connection,
                                          .first_tie = "0",
                                          .tie_is_valid = tie_is_number};
    return queue_order_list(&rows, counted, options, ret_page, error);
}
