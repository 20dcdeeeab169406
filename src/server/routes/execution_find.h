/* The execution that the path of a request names. */
#ifndef WEIR_SERVER_ROUTES_EXECUTION_FIND_H
#define WEIR_SERVER_ROUTES_EXECUTION_FIND_H

#include "server/request.h"
#include "store/store.h"

/* The longest time of ?wait. */
#define EXECUTION_WAIT_MOST_US (300 * MICROSECONDS_PER_SECOND)

/* Reads the execution of the placeholder {id}, which may be its first characters, and writes its whole id to `to`,
 * UUID_TEXT_MAX bytes. One of a workspace that the caller may not see is missing. ret_execution: the answer of
 * store_show(), which the caller releases; NULL = it is not wanted. WEIR_EXECUTION_NOT_FOUND; errors of the store. */
WEIR_MUST_CHECK enum weir_status execution_find(struct store *store, const struct http_request *request, char *to,
                                                json_t **ret_execution, struct weir_error *error);

#endif
