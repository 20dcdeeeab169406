/* Selecting executions by a filter, page by page, in the order of their ids; shared by lists and bulk acts. */
#ifndef WEIR_STORE_SQLITE_FILTER_QUERY_H
#define WEIR_STORE_SQLITE_FILTER_QUERY_H

#include "store/sqlite/sqlite_store.h"

struct selection {
    char (*ids)[UUID_TEXT_MAX]; /* malloc'ed by filter_select_ids(), freed by the caller */
    size_t count;
    int64_t workspace_id;     /* of the filter; 0 = any, or an unknown one */
    bool more;                /* the limit or the window cut it off */
    char next[UUID_TEXT_MAX]; /* if so, where the next selection goes on: its `after` */
};

/* At most `limit` ids of one window behind `after` ("" = from the start), newest first or oldest first. An unknown
 * workspace or workflow gives none. A filter by reason is not looked at here: the caller looks at the rows. */
enum weir_status filter_select_ids(struct connection *connection, const struct execution_filter *filter, const char *after,
                                   bool descending, size_t limit, struct selection *ret_selection,
                                   struct weir_error *error);
/* Sorts behind each id: behind every hex digit and dash. */
#define ID_BOUND_NEWEST "~"
/* Moves the end of a window behind `after` to that of one table, if this one is nearer; "" = it has no end yet. `query`
 * finds the end of the table. */
enum weir_status filter_end_window(struct connection *connection, enum sqlite_query query, const char *after,
                                   bool descending, char end[UUID_TEXT_MAX], struct weir_error *error);

/* The whole id that begins with `prefix`; WEIR_EXECUTION_NOT_FOUND, or WEIR_INVALID_ARGUMENT when several do or it is no
 * id. */
enum weir_status filter_find_id(struct connection *connection, const char *prefix, char *ret_id, struct weir_error *error);

/* Whether the execution waits for this reason. The reason is computed from the row, so it is read for one at a time. */
enum weir_status filter_has_reason(struct connection *connection, const char *id, const char *reason, bool *ret_has,
                                   struct weir_error *error);

/* The state and lane of a row of the queue. WEIR_STORE_CORRUPT names the row when they cannot have been written by weir. */
enum weir_status filter_parse_state(const char *id, const char *status_text, int64_t lane_id, enum item_state *ret_state,
                                    struct weir_error *error);

#endif
