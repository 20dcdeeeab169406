/* Failures, grouped by error code, workflow and workspace: what breaks most, and an execution to look at. */
#ifndef WEIR_STORE_FAILURE_GROUPS_H
#define WEIR_STORE_FAILURE_GROUPS_H

#include <jansson.h>

#include "store/store.h"

enum { FAILURES_READ_MOST = 10000, FAILURE_GROUPS_MOST = 1000 };

/* Groups the newest FAILURES_READ_MOST failed executions that match, by pages of the list. The filter's own states are
 * replaced by FAILED. Where it does not name them, it gets retried=no and dismissed=no: the dead letters. *ret_page, owned
 * by the caller: {"items": [{"error_code", "workflow", "workspace", "count", "first_at", "last_at", "sample_id",
 * "sample_error"}], "executions_read", "is_whole"}, the largest groups first; "is_whole" is false when more would match.
 * The errors of store_list(). */
WEIR_MUST_CHECK enum weir_status failure_groups_read(struct store *store, const struct execution_filter *filter,
                                                     json_t **ret_page, struct weir_error *error);

#endif
