/* The list of a workspace's pending executions in the order in which they start (list_options.order).
 *
 *     runnable ones, by rank and then by the order of enqueueing       place 1, 2, 3 ... in their lane
 *     scheduled ones and those that back off, by their due time        no place: what is enqueued meanwhile goes first
 *
 * A lane is the queue of one workspace in one executor group for one demand. The order holds within a lane: lanes of one
 * workspace are merged by rank here, but each is started by nodes of its own, at their own pace.
 *
 * The cursor names the last row of a page by its part, its key (the rank or the due time) and its tie. So no row is missed
 * or repeated when others start, end or come. The tie is the number of the row on SQLite and its id on PostgreSQL, because
 * the indexes end with these.
 *
 * This header has the part that does not depend on the database. It holds no state; any thread may call it.
 */
#ifndef WEIR_STORE_QUEUE_ORDER_H
#define WEIR_STORE_QUEUE_ORDER_H

#include "store/reading.h"

enum { QUEUE_PLACE_MOST = 10000 }; /* executions that are counted before a place; behind so many a row has no place */

/* One pending execution in this order. */
struct queue_entry {
    char id[UUID_TEXT_MAX];
    int64_t lane_id;
    int64_t key;             /* its rank, or its due time */
    char tie[UUID_TEXT_MAX]; /* among equal keys: the number of the row in decimal, or its id */
};

/* The rows of a driver. All functions run inside one state of the store. */
struct queue_order_rows {
    /* At most `limit` entries of the workspace behind (key, tie): of the runnable ones, or of the delayed ones. A workspace
     * that does not exist has none. */
    enum weir_status (*read)(void *context, const char *workspace, bool delayed, int64_t key, const char *tie, size_t limit,
                             struct queue_entry *ret_entries, size_t *ret_count, struct weir_error *error);
    /* How many of its lane go before it, counted up to QUEUE_PLACE_MOST. */
    enum weir_status (*count_ahead)(void *context, const struct queue_entry *entry, int64_t *ret_ahead,
                                    struct weir_error *error);
    /* The rows of the view `executions`, in the order of the ids. */
    enum weir_status (*show)(void *context, const char *const *ids, size_t count, json_t **ret_rows,
                             struct weir_error *error);
    void *context;
    const char *first_tie;                 /* sorts before every tie */
    bool (*tie_is_valid)(const char *tie); /* of a cursor, which a user gives */
};

/* Checks that the list is one of the pending executions of one workspace. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status queue_order_check(const struct list_options *options, struct weir_error *error);
/* One page. Each row has "place": its place in its lane, or null. `counted`: the rows for the count, if it is asked for.
 * WEIR_INVALID_ARGUMENT: the cursor is none of this order. */
WEIR_MUST_CHECK enum weir_status queue_order_list(const struct queue_order_rows *rows, const struct execution_rows *counted,
                                                  const struct list_options *options, json_t **ret_page,
                                                  struct weir_error *error);

#endif
