/* Waiting for the end of an execution: `weir wait` and `weir enqueue --wait`. */
#ifndef WEIR_CLI_VERBS_WAIT_FOR_END_H
#define WEIR_CLI_VERBS_WAIT_FOR_END_H

#include "cli/verbs/verb.h"

/* Waits, prints the end, and returns WEIR_OK for COMPLETED, WEIR_FAILED for FAILED and CANCELLED, WEIR_TIMED_OUT after
 * `timeout_us` (0 = after one read, less = never), WEIR_INTERRUPTED. `print_end`: the end goes to stdout as data, else
 * to stderr. */
WEIR_MUST_CHECK enum weir_status wait_for_execution_end(const struct invocation *invocation, struct store *store,
                                                        const char *id, int64_t timeout_us, bool print_end,
                                                        struct weir_error *error);

#endif
