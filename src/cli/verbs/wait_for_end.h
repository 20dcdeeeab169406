/* Waiting for the end of an execution: `weir wait` and `weir enqueue --wait`. Threads: one. */
#ifndef WEIR_CLI_VERBS_WAIT_FOR_END_H
#define WEIR_CLI_VERBS_WAIT_FOR_END_H

#include "cli/verbs/verb.h"

/* Waits for at most --timeout (0 = one read; not given = for ever). Returns WEIR_OK for COMPLETED, WEIR_FAILED for FAILED
 * and CANCELLED, WEIR_TIMED_OUT, WEIR_INTERRUPTED, or an error of the store. *ret_item: the last row of LIST_EXECUTIONS
 * that was read, at its end with "result" (any JSON value); NULL when none was. The caller releases it. */
WEIR_MUST_CHECK enum weir_status wait_for_execution_end(const struct invocation *invocation, struct store *store,
                                                        const char *id, json_t **ret_item, struct weir_error *error);
/* Whether the row is of an ended execution. Takes NULL. */
bool end_is_reached(const json_t *item);
/* The result of the row for a line of text; of a long one its size. NULL when there is none. In the output's arena. */
const char *end_result_text(struct output *output, const json_t *item);

#endif
