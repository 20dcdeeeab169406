/* The rows of a list in the order of the queue (store/queue_order.h).
 *
 * Equal ranks and equal due times are told apart by the id of the row, as the scheduler does. A page is one statement for
 * each part of the order, one for the rows, and one for each lane on the page, for its first place.
 *
 * Never writes; each statement walks along an index of the queue. */
#include "store/postgres/queue_order.h"

#include "base/error.h"
#include "base/uuid.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/read.h"
#include "store/queue_order.h"

/* struct queue_order_rows, read. */
static enum weir_status postgres_queue_entries(void *context, const char *workspace, bool delayed, int64_t key,
                                               const char *tie, size_t limit, struct queue_entry *ret_entries,
                                               size_t *ret_count, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        link_read(context, error, &result, delayed ? QUERY_QUEUE_ORDER_DELAYED : QUERY_QUEUE_ORDER_RUNNABLE, "tiui",
                  workspace, key, tie, (int64_t)limit);
    if (status != WEIR_OK) {
        return status;
    }
    size_t count = (size_t)PQntuples(result);
    INVARIANT(count <= limit); /* the LIMIT of the query */
    for (size_t i = 0; i < count; i++) {
        struct queue_entry *entry = &ret_entries[i];
        text_copy(entry->id, sizeof entry->id, result_text(result, (int)i, 0));
        text_copy(entry->tie, sizeof entry->tie, entry->id);
        entry->lane_id = result_int(result, (int)i, 1);
        entry->key = result_int(result, (int)i, 2);
    }
    PQclear(result);
    *ret_count = count;
    return WEIR_OK;
}

/* struct queue_order_rows, count_ahead. */
static enum weir_status postgres_queue_ahead(void *context, const struct queue_entry *entry, int64_t *ret_ahead,
                                             struct weir_error *error)
{
    return link_read_integer(context, error, ret_ahead, QUERY_QUEUE_ORDER_AHEAD, "iiui", entry->lane_id, entry->key,
                             entry->id, (int64_t)QUEUE_PLACE_MOST);
}

enum weir_status postgres_list_queue(struct link *link, const struct execution_rows *counted,
                                     const struct list_options *options, json_t **ret_page, struct weir_error *error)
{
    INVARIANT(link != NULL && counted != NULL && options->order == ORDER_QUEUE && ret_page != NULL);
    const struct queue_order_rows rows = {.read = postgres_queue_entries,
                                          .count_ahead = postgres_queue_ahead,
                                          .show = postgres_show_executions,
                                          .context = link,
                                          .first_tie = UUID_FIRST,
                                          .tie_is_valid = uuid_is_valid};
    return queue_order_list(&rows, counted, options, ret_page, error);
}
