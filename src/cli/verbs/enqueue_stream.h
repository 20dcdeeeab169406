/* `weir enqueue -`: JSON lines on stdin, one id a line out. */
#ifndef WEIR_CLI_VERBS_ENQUEUE_STREAM_H
#define WEIR_CLI_VERBS_ENQUEUE_STREAM_H

#include "cli/verbs/verb.h"

/* Enqueues in sets of up to ENQUEUE_SET, each one transaction. A set is closed early when stdin has nothing more for
 * now, so that a slow producer gets its ids at once. `defaults` fills missing keys of lines. Ends with WEIR_FAILED when
 * lines were refused, WEIR_INTERRUPTED after Ctrl-C, and prints its progress. */
enum { ENQUEUE_SET = 1000, ENQUEUE_SET_BYTES = 8 * 1024 * 1024 };
WEIR_MUST_CHECK enum weir_status enqueue_stream(struct invocation *invocation, struct store *store,
                                                const struct enqueue_request *defaults, struct weir_error *error);

#endif
