/* Events as spans of OpenTelemetry, and spans as the JSON of OTLP (docs/tracing.md).
 *
 * An execution belongs to the trace of its caller, or has one of its own (base/traceparent.h):
 *
 *     (the caller's span)
 *     `- enqueue                send      when the execution was enqueued
 *        `- process_item        process   from the assignment to the start
 *        |  |- dispatch                   the call of the engine
 *        |  `- mark_dispatched            until the start is on record
 *        `- execution                     from the start to the end
 *           |- step NAME                  one for each run of a step
 *           `- settle           settle    until the end is on record
 *
 * Each set of assignments that a node gets is a trace of its own: queue_processing, with claim_batch in it.
 *
 * A span holds ids, names, times and the code of a failure: no params, no output, no message of an error.
 *
 * Pure. Any thread.
 */
#ifndef WEIR_OBSERVE_SPANS_H
#define WEIR_OBSERVE_SPANS_H

#include "base/random.h"
#include "base/text.h"
#include "base/traceparent.h"
#include "base/uuid.h"
#include "observe/event.h"
#include "queue/limits.h"

/* The numbers are those of OTLP. */
enum span_kind { SPAN_INTERNAL = 1, SPAN_CLIENT = 3, SPAN_PRODUCER = 4, SPAN_CONSUMER = 5 };

struct span {
    char trace_id[TRACE_ID_LENGTH + 1];
    char span_id[SPAN_ID_LENGTH + 1];
    char parent_id[SPAN_ID_LENGTH + 1]; /* "" = a root */
    enum span_kind kind;
    const char *name;      /* static */
    const char *operation; /* messaging.operation.type, static; NULL = none */
    const char *result;    /* of an execution, static: "success", "failure" or "cancellation"; NULL = none */
    bool failed;
    int64_t start_us; /* wall clock */
    int64_t end_us;
    int64_t fence;
    int64_t attempt;
    int64_t count;   /* of a set; 0 = no set */
    int64_t wait_us; /* in the queue; -1 = not told */
    char execution_id[UUID_TEXT_MAX];
    char workspace[WORKSPACE_NAME_MAX + 1];
    char workflow[WORKFLOW_NAME_MAX + 1];
    char node[NODE_NAME_MAX + 1];
    char step[STEP_ID_MAX + 1];
    char code[ERROR_CODE_MAX + 1];
};

enum {
    SPANS_OF_EVENT_MAX = 3,
    SPANS_BATCH_MAX = 512,
    SPANS_TEXT_BYTES_MAX = 8 * 1024 * 1024 /* of a batch in JSON */
};

/* The spans that the event ends, at most SPANS_OF_EVENT_MAX. Returns their number; 0 when the trace is not sampled.
 *   ratio   of the traces without a caller that are sampled, 0 to 1
 *   now_us  wall clock
 *   random  for the ids of sets */
size_t spans_of_event(const struct event *event, double ratio, int64_t now_us, struct random *random, struct span *to);

/* Appends the body of an OTLP request with these spans. WEIR_OUT_OF_MEMORY, or WEIR_FAILED when `to` is too small. */
WEIR_MUST_CHECK enum weir_status spans_write(const struct span *spans, size_t count, struct text *to);

#endif
