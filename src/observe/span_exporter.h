/* Sends the spans of this process to an OpenTelemetry collector: OTLP over HTTP, in JSON (docs/tracing.md).
 *
 * A subscriber of the events. It never waits. While the collector is away or slow, spans wait in a queue of
 * SPANS_QUEUED_MAX. A span that finds no place is dropped and counted by EVENT_SPANS_DROPPED. A thread of its own sends
 * batches with libcurl.
 *
 * Owner: span_exporter_open() .. span_exporter_close(). Threads: span_exporter_event() from any thread; the rest from the
 * owner's.
 */
#ifndef WEIR_OBSERVE_SPAN_EXPORTER_H
#define WEIR_OBSERVE_SPAN_EXPORTER_H

#include "base/clock.h"
#include "observe/event.h"
#include "weir/status.h"

enum {
    SPANS_QUEUED_MAX = 4096,
    SPANS_TRIES_MAX = 5, /* of one batch */
    SPANS_URL_BYTES_MAX = 2048
};
#define SPANS_WAIT_US MICROSECONDS_PER_SECOND               /* at most, for more spans of a batch */
#define SPANS_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)     /* of one request */
#define SPANS_BACKOFF_US (MICROSECONDS_PER_SECOND / 2)      /* after the first failure; doubled with each more */
#define SPANS_BACKOFF_MAX_US (30 * MICROSECONDS_PER_SECOND) /* of which up to a half is left out by chance */
#define SPANS_CLOSE_US (2 * MICROSECONDS_PER_SECOND)        /* for the last spans, when the process ends */

struct span_exporter;

struct span_exporter_options {
    const char *endpoint; /* http://host:port or https://...; /v1/traces is added unless it ends so. Copied */
    double ratio;         /* of the traces without a caller that are sampled, 0 to 1 */
    struct event_bus *events;
    const struct clock *clock; /* NULL = the machine's */
};

/* Begins to subscribe; must be called before the first event. Connects with the first batch. WEIR_INVALID_CONFIG (the URL,
 * or there is no libcurl), WEIR_OUT_OF_MEMORY, WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status span_exporter_open(const struct span_exporter_options *options,
                                                    struct span_exporter **ret_exporter, struct weir_error *error);
/* After the last event. Sends the spans that wait, for at most SPANS_CLOSE_US, and drops the rest. Takes NULL. */
void span_exporter_close(struct span_exporter *exporter);

#endif
