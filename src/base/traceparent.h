/* The trace context of W3C Trace Context, version 00: the text `00-TRACE-SPAN-FLAGS` in lower-case hexadecimal digits.
 *
 * A context names a trace, the span that caused the work, and whether the trace is sampled. An execution without a context
 * of its caller has a trace of its own: the trace id is the execution id, whose last 62 bits are random. Ids of spans are
 * computed from the execution id and the place of the span in the execution. So each node computes the same ids, without
 * any state that nodes would have to share.
 *
 * Pure. Any thread.
 */
#ifndef WEIR_BASE_TRACEPARENT_H
#define WEIR_BASE_TRACEPARENT_H

#include <stdbool.h>

#include "weir/status.h"

enum {
    TRACE_ID_LENGTH = 32,
    SPAN_ID_LENGTH = 16,
    TRACEPARENT_LENGTH = sizeof "00-" - 1 + TRACE_ID_LENGTH + 1 + SPAN_ID_LENGTH + sizeof "-01" - 1,
    TRACEPARENT_SIZE /* with the closing NUL */
};

struct trace_context {
    char trace_id[TRACE_ID_LENGTH + 1];
    char span_id[SPAN_ID_LENGTH + 1]; /* "" = there is no parent */
    bool sampled;
};

/* False when the text is no context of version 00: another length or version, a digit that is none, or an id of zeros. */
WEIR_MUST_CHECK bool traceparent_parse(const char *text, struct trace_context *ret_context);
/* WEIR_INVALID_ARGUMENT with an example when the text is no context. */
WEIR_MUST_CHECK enum weir_status traceparent_check(const char *text, struct weir_error *error);
/* `context` must have a span id. */
void traceparent_write(const struct trace_context *context, char to[TRACEPARENT_SIZE]);

/* The context of an execution: that of its caller. When that is NULL, or a text that is none, it is a trace of its own
 * without a parent. Such a trace is sampled in `ratio` of all cases, by the trace id, so each node decides the same. */
void traceparent_of_execution(const char *execution_id, const char *traceparent, double ratio,
                              struct trace_context *ret_context);
/* The place of the span that covers the execution from its start to its end, over all nodes that run it. */
#define SPAN_OF_EXECUTION "execution"
/* The id of the span of an execution that `place` names: SPAN_OF_EXECUTION, or for example "process_item/7". */
void span_id_make(const char *execution_id, const char *place, char to[SPAN_ID_LENGTH + 1]);
/* The same for an attempt of a step: the parent of all spans that the step's program makes. */
void span_id_of_step(const char *execution_id, const char *step, int attempt, char to[SPAN_ID_LENGTH + 1]);

#endif
