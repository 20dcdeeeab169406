/* Makes spans from events, and their JSON.
 *
 *   1. The event has the execution and the context of its caller. The trace, and whether it is sampled, follow from these.
 *   2. Ids of spans are computed from the execution and the place of the span. So the parent of a span need not be kept
 *      until the span ends, and another node computes the same id.
 *   3. The times are those of the wall clock: now, less the durations that the event brings.
 *
 * A span that ends twice would be exported twice. So each belongs to one event that comes once: the record of a start,
 * of an end, of a run of a step.
 */
#include "observe/spans.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define NANOSECONDS_PER_US 1000

enum { NAME_BYTES = 192 };

/* --- from events --- */

/* The common parts of the spans of one event. */
struct making {
    const struct event *event;
    struct trace_context context;
    int64_t now_us;
};

static void copy_name(char *to, size_t size, const char *from)
{
    text_copy(to, size, from == NULL ? "" : from);
}

/* Fills a span between two times before now. */
static struct span *make_span(const struct making *making, struct span *span, const char *name, enum span_kind kind,
                              int64_t began_ago_us, int64_t ended_ago_us)
{
    const struct event *event = making->event;
    *span = (struct span){.kind = kind,
                          .name = name,
                          .fence = event->fence,
                          .attempt = event->attempt,
                          .start_us = making->now_us - began_ago_us,
                          .end_us = making->now_us - ended_ago_us,
                          .wait_us = -1};
    span->start_us = span->start_us > span->end_us ? span->end_us : span->start_us;
    memcpy(span->trace_id, making->context.trace_id, sizeof span->trace_id);
    copy_name(span->execution_id, sizeof span->execution_id, event->execution_id);
    copy_name(span->workspace, sizeof span->workspace, event->workspace);
    copy_name(span->workflow, sizeof span->workflow, event->workflow);
    copy_name(span->node, sizeof span->node, event->node);
    copy_name(span->step, sizeof span->step, event->step);
    return span;
}

/* Gives the span a place in the execution, and its parent's. `fence` 0: the place is one over all claims. */
static void place_span(const struct making *making, const char *name, int64_t fence, char *to)
{
    char place[NAME_BYTES];
    if (fence == 0) {
        text_copy(place, sizeof place, name);
    } else {
        (void)snprintf(place, sizeof place, "%s/%" PRId64, name, fence);
    }
    span_id_make(making->event->execution_id, place, to);
}

static void fail_span(struct span *span, const char *code)
{
    span->failed = true;
    copy_name(span->code, sizeof span->code, code == NULL ? "_OTHER" : code);
    text_make_safe(span->code);
}

static size_t make_enqueue(const struct making *making, struct span *to)
{
    const struct event *event = making->event;
    if (event->age_us <= 0) {
        return 0; /* it was claimed before, and that claim has made the span */
    }
    struct span *span = make_span(making, to, "enqueue", SPAN_PRODUCER, event->age_us, event->age_us);
    span->operation = "send";
    span->fence = 0;
    place_span(making, "enqueue", 0, span->span_id);
    memcpy(span->parent_id, making->context.span_id, sizeof span->parent_id);
    return 1;
}

/* The start of a claim, up to `ended_ago_us`. */
static struct span *make_process_item(const struct making *making, struct span *to)
{
    const struct event *event = making->event;
    struct span *span = make_span(making, to, "process_item", SPAN_CONSUMER, event->began_ago_us, event->ended_ago_us);
    span->operation = "process";
    place_span(making, "process_item", event->fence, span->span_id);
    place_span(making, "enqueue", 0, span->parent_id);
    return span;
}

static size_t make_start(const struct making *making, struct span *to)
{
    const struct event *event = making->event;
    struct span *item = make_process_item(making, &to[0]);
    item->wait_us = event->duration_us;
    struct span *dispatch = make_span(making, &to[1], "dispatch", SPAN_CLIENT, event->began_ago_us, event->ended_ago_us);
    place_span(making, "dispatch", event->fence, dispatch->span_id);
    memcpy(dispatch->parent_id, item->span_id, sizeof dispatch->parent_id);
    if (!event->is_start_alone) {
        return 2;
    }
    struct span *mark = make_span(making, &to[2], "mark_dispatched", SPAN_CLIENT, event->ended_ago_us, 0);
    item->end_us = mark->end_us;
    place_span(making, "mark_dispatched", event->fence, mark->span_id);
    memcpy(mark->parent_id, item->span_id, sizeof mark->parent_id);
    return 3;
}

static size_t make_refused_start(const struct making *making, struct span *to)
{
    fail_span(make_process_item(making, to), making->event->code);
    return 1;
}

static size_t make_end(const struct making *making, const char *result, struct span *to)
{
    const struct event *event = making->event;
    struct span *execution =
        make_span(making, &to[0], "execution", SPAN_INTERNAL, event->began_ago_us, event->ended_ago_us);
    execution->result = result;
    place_span(making, SPAN_OF_EXECUTION, 0, execution->span_id);
    place_span(making, "enqueue", 0, execution->parent_id);
    if (event->type == EVENT_EXECUTION_FAILED) {
        fail_span(execution, event->code);
    }
    struct span *settle = make_span(making, &to[1], "settle", SPAN_CLIENT, event->ended_ago_us, 0);
    settle->operation = "settle";
    place_span(making, "settle", 0, settle->span_id);
    memcpy(settle->parent_id, execution->span_id, sizeof settle->parent_id);
    return 2;
}

static size_t make_step(const struct making *making, struct span *to)
{
    const struct event *event = making->event;
    struct span *step = make_span(making, to, "step", SPAN_INTERNAL, event->began_ago_us, event->ended_ago_us);
    span_id_of_step(event->execution_id, step->step, (int)event->attempt, step->span_id);
    place_span(making, SPAN_OF_EXECUTION, 0, step->parent_id);
    if (event->code != NULL) {
        fail_span(step, event->code);
    }
    return 1;
}

/* A set of assignments is a trace of its own. */
static size_t make_set(struct making *making, double ratio, struct random *random, struct span *to)
{
    const struct event *event = making->event;
    const uint64_t most = UINT64_C(1) << 53;
    if (event->fence == 0 || (double)random_below(random, most) >= ratio * (double)most) {
        return 0;
    }
    (void)snprintf(making->context.trace_id, sizeof making->context.trace_id, "%016" PRIx64 "%016" PRIx64,
                   random_next(random) | 1, random_next(random));
    struct span *flow = make_span(making, &to[0], "queue_processing", SPAN_INTERNAL, event->duration_us, 0);
    (void)snprintf(flow->span_id, sizeof flow->span_id, "%016" PRIx64, random_next(random) | 1);
    flow->count = event->count;
    struct span *claim = make_span(making, &to[1], "claim_batch", SPAN_CLIENT, event->duration_us, 0);
    (void)snprintf(claim->span_id, sizeof claim->span_id, "%016" PRIx64, random_next(random) | 1);
    memcpy(claim->parent_id, flow->span_id, sizeof claim->parent_id);
    claim->operation = "receive";
    claim->count = event->count;
    return 2;
}

size_t spans_of_event(const struct event *event, double ratio, int64_t now_us, struct random *random, struct span *to)
{
    INVARIANT(event != NULL && random != NULL && to != NULL);
    struct making making = {.event = event, .now_us = now_us};
    if (event->type == EVENT_BATCH_CLAIMED) {
        return make_set(&making, ratio, random, to);
    }
    if (event->execution_id == NULL) {
        return 0;
    }
    traceparent_of_execution(event->execution_id, event->traceparent, ratio, &making.context);
    if (!making.context.sampled) {
        return 0;
    }
    switch (event->type) {
    case EVENT_EXECUTION_DISPATCHING:
        return make_enqueue(&making, to);
    case EVENT_EXECUTION_DISPATCHED:
        return make_start(&making, to);
    case EVENT_EXECUTION_RETRYING:
    case EVENT_EXECUTION_DEFERRED:
    case EVENT_DISPATCH_FAILED:
        return make_refused_start(&making, to);
    case EVENT_STEP_ENDED:
        return make_step(&making, to);
    case EVENT_EXECUTION_COMPLETED:
        return make_end(&making, "success", to);
    case EVENT_EXECUTION_FAILED:
        return make_end(&making, "failure", to);
    case EVENT_EXECUTION_CANCELLED:
        return make_end(&making, "cancellation", to);
    default:
        return 0;
    }
}

/* --- as JSON --- */

/* The first failure of these stays with the list, as NULL members make json_array_append_new() fail. */
static bool add_text(json_t *attributes, const char *key, const char *value)
{
    return value == NULL || value[0] == '\0' ||
           json_array_append_new(attributes, json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value)) == 0;
}

static bool add_number(json_t *attributes, const char *key, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value); /* OTLP's JSON has 64-bit integers as text */
    return json_array_append_new(attributes, json_pack("{s:s, s:{s:s}}", "key", key, "value", "intValue", text)) == 0;
}

/* The attributes of a span; NULL when out of memory. */
static json_t *write_attributes(const struct span *span)
{
    json_t *attributes = json_array();
    bool is_fine = attributes != NULL && add_text(attributes, "messaging.system", "weir") &&
                   add_text(attributes, "messaging.operation.name", span->operation == NULL ? NULL : span->name) &&
                   add_text(attributes, "messaging.operation.type", span->operation) &&
                   add_text(attributes, "messaging.destination.name", span->workflow) &&
                   add_text(attributes, "messaging.message.id", span->execution_id) &&
                   add_text(attributes, "weir.workspace.id", span->workspace) &&
                   add_text(attributes, "weir.node", span->node) && add_text(attributes, "weir.step", span->step) &&
                   add_text(attributes, "weir.result", span->result) && add_text(attributes, "error.type", span->code) &&
                   (span->count == 0 || add_number(attributes, "messaging.batch.message_count", span->count)) &&
                   (span->attempt == 0 || add_number(attributes, "weir.attempt", span->attempt)) &&
                   (span->fence == 0 || add_number(attributes, "weir.fence", span->fence)) &&
                   (span->wait_us < 0 || add_number(attributes, "weir.queue_wait_us", span->wait_us));
    if (!is_fine) {
        json_decref(attributes);
        return NULL;
    }
    return attributes;
}

/* NULL when out of memory. The name has the workflow or the step in it: both are few. */
static json_t *write_span(const struct span *span)
{
    char name[NAME_BYTES];
    char start[32];
    char end[32];
    const char *subject = span->step[0] != '\0' ? span->step : span->workflow;
    (void)snprintf(name, sizeof name, "%s%s%s", span->name, subject[0] == '\0' ? "" : " ", subject);
    (void)snprintf(start, sizeof start, "%" PRId64, span->start_us * NANOSECONDS_PER_US);
    (void)snprintf(end, sizeof end, "%" PRId64, span->end_us * NANOSECONDS_PER_US);
    json_t *value = json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:o}", "traceId", span->trace_id, "spanId", span->span_id,
                              "name", name, "kind", (int)span->kind, "startTimeUnixNano", start, "endTimeUnixNano", end,
                              "attributes", write_attributes(span));
    bool is_fine = value != NULL;
    if (is_fine && span->parent_id[0] != '\0') {
        is_fine = json_object_set_new(value, "parentSpanId", json_string(span->parent_id)) == 0;
    }
    if (is_fine && span->failed) { /* 2: STATUS_CODE_ERROR */
        is_fine = json_object_set_new(value, "status", json_pack("{s:i, s:s}", "code", 2, "message", span->code)) == 0;
    }
    if (!is_fine) {
        json_decref(value);
        return NULL;
    }
    return value;
}

enum weir_status spans_write(const struct span *spans, size_t count, struct text *to)
{
    INVARIANT(to != NULL && (spans != NULL || count == 0));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, write_span(&spans[i])) != 0) {
            json_decref(list);
            return error_out_of_memory(NULL);
        }
    }
    json_t *resource = json_array();
    if (resource == NULL || !add_text(resource, "service.name", "weir") ||
        !add_text(resource, "service.version", WEIR_VERSION)) {
        json_decref(resource);
        resource = NULL;
    }
    json_t *body = json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans", "resource", "attributes",
                             resource, "scopeSpans", "scope", "name", "weir", "version", WEIR_VERSION, "spans", list);
    enum weir_status status = body == NULL ? error_out_of_memory(NULL) : json_write(body, to, NULL);
    json_decref(body);
    return status;
}
