/* Reading in one snapshot, shared by read.c, why.c and check.c. The file that calls these functions owns the JSON values
 * that they return. */
#ifndef WEIR_STORE_POSTGRES_READ_H
#define WEIR_STORE_POSTGRES_READ_H

#include <jansson.h>

#include "store/postgres/link/link.h"

/* The statements of one read; `request` is the caller's. */
typedef enum weir_status (*snapshot_body)(struct link *link, const void *request, json_t **ret_value,
                                          struct weir_error *error);
/* Runs `body` in a REPEATABLE READ transaction that only reads, and ends that transaction. A read that was lost with its
 * connection is repeated once on a new one, as link_read() does for a single statement. */
WEIR_MUST_CHECK enum weir_status snapshot_read(struct link *link, snapshot_body body, const void *request,
                                               json_t **ret_value, struct weir_error *error);

/* The last id of the window (store/reading.h) that begins behind `from`, by window_descending or window_ascending; "" when
 * no more rows follow than a window has. `states`: bits as in execution_filter. */
WEIR_MUST_CHECK enum weir_status postgres_find_window_end(struct link *link, enum postgres_query query, const char *from,
                                                          unsigned states, char ret_end[UUID_TEXT_MAX],
                                                          struct weir_error *error);

/* The row of the view `executions` as an object; NULL without an error when there is none. */
WEIR_MUST_CHECK enum weir_status postgres_read_execution(struct link *link, const char *id, json_t **ret_execution,
                                                         struct weir_error *error);

/* The rows of the view `executions` of these ids, in their order; a driver hands it to the shared lists. `context`: the
 * struct link. */
WEIR_MUST_CHECK enum weir_status postgres_show_executions(void *context, const char *const *ids, size_t count,
                                                          json_t **ret_rows, struct weir_error *error);

#endif
