#include "observe/spans.h"

#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "support/test.h"

#define EXECUTION "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"
#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define CALLER "00-" TRACE "-00f067aa0ba902b7-01"
#define NOW_US ((int64_t)1700000000000000)

static struct random dice = {.state = 7};
static struct span made[SPANS_OF_EVENT_MAX];

static struct event event_of(enum event_type type)
{
    return (struct event){.type = type,
                          .execution_id = EXECUTION,
                          .workspace = "acme",
                          .workflow = "hello",
                          .node = "one",
                          .fence = 7,
                          .traceparent = CALLER};
}

static size_t make(const struct event *event)
{
    return spans_of_event(event, 1.0, NOW_US, &dice, made);
}

static void assert_span(const struct span *span, const char *name, const char *parent, int64_t start_us, int64_t end_us)
{
    assert_string_equal(span->name, name);
    assert_string_equal(span->trace_id, TRACE);
    assert_string_equal(span->parent_id, parent);
    assert_int_equal(span->start_us, start_us);
    assert_int_equal(span->end_us, end_us);
    assert_string_equal(span->execution_id, EXECUTION);
    assert_string_equal(span->workspace, "acme");
}

/* The spans of each event find their parents among those of other events. */
static void an_execution_is_one_tree_below_its_caller(void **state)
{
    (void)state;
    char enqueue[SPAN_ID_LENGTH + 1];
    char execution[SPAN_ID_LENGTH + 1];
    struct event event = event_of(EVENT_EXECUTION_DISPATCHING);
    event.age_us = 5000;
    assert_int_equal(make(&event), 1);
    assert_span(&made[0], "enqueue", "00f067aa0ba902b7", NOW_US - 5000, NOW_US - 5000);
    assert_string_equal(made[0].operation, "send");
    assert_int_equal(made[0].kind, SPAN_PRODUCER);
    memcpy(enqueue, made[0].span_id, sizeof enqueue);

    event = event_of(EVENT_EXECUTION_DISPATCHED);
    event.began_ago_us = 900;
    event.ended_ago_us = 400;
    event.duration_us = 77;
    event.is_start_alone = true;
    assert_int_equal(make(&event), 3);
    assert_span(&made[0], "process_item", enqueue, NOW_US - 900, NOW_US);
    assert_int_equal(made[0].wait_us, 77);
    assert_span(&made[1], "dispatch", made[0].span_id, NOW_US - 900, NOW_US - 400);
    assert_span(&made[2], "mark_dispatched", made[0].span_id, NOW_US - 400, NOW_US);

    event = event_of(EVENT_EXECUTION_COMPLETED);
    event.began_ago_us = 800;
    event.ended_ago_us = 100;
    assert_int_equal(make(&event), 2);
    assert_span(&made[0], "execution", enqueue, NOW_US - 800, NOW_US - 100);
    assert_string_equal(made[0].result, "success");
    assert_false(made[0].failed);
    assert_span(&made[1], "settle", made[0].span_id, NOW_US - 100, NOW_US);
    memcpy(execution, made[0].span_id, sizeof execution);
    char passed_on[SPAN_ID_LENGTH + 1];
    span_id_make(EXECUTION, SPAN_OF_EXECUTION, passed_on);
    assert_string_equal(execution, passed_on); /* the id that the node passes on */

    event = event_of(EVENT_STEP_ENDED);
    event.step = "greet";
    event.attempt = 2;
    event.code = "exit_1";
    event.began_ago_us = 700;
    event.ended_ago_us = 300;
    assert_int_equal(make(&event), 1);
    assert_span(&made[0], "step", execution, NOW_US - 700, NOW_US - 300);
    span_id_of_step(EXECUTION, "greet", 2, passed_on);
    assert_string_equal(made[0].span_id, passed_on);
    assert_true(made[0].failed);
    assert_string_equal(made[0].code, "exit_1");
}

static void a_start_that_ends_with_its_execution_has_no_record_of_its_own(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_EXECUTION_DISPATCHED);
    event.began_ago_us = 900;
    event.ended_ago_us = 400;
    assert_int_equal(make(&event), 2);
    assert_int_equal(made[0].end_us, NOW_US - 400);
}

static void a_later_claim_makes_no_second_enqueue(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_EXECUTION_DISPATCHING);
    assert_int_equal(make(&event), 0);
}

static void failures_have_their_code_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        enum event_type type;
        const char *result;
    } ends[] = {{EVENT_EXECUTION_FAILED, "failure"},
                {EVENT_EXECUTION_RETRYING, NULL},
                {EVENT_EXECUTION_DEFERRED, NULL},
                {EVENT_DISPATCH_FAILED, NULL}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct text text = {.max = SPANS_TEXT_BYTES_MAX};
        struct event event = event_of(ends[i].type);
        event.code = "card\ndeclined";
        event.error = "canary-of-a-message";
        event.reason = "canary-of-a-reason";
        size_t count = make(&event);
        assert_true(count > 0);
        assert_true(made[0].failed);
        assert_string_equal(made[0].code, "card declined");
        assert_int_equal(spans_write(made, count, &text), WEIR_OK);
        assert_null(strstr(text.data, "canary"));
        assert_non_null(strstr(text.data, "\"status\":{\"code\":2,\"message\":\"card declined\"}"));
        text_close(&text);
    }
    struct event cancelled = event_of(EVENT_EXECUTION_CANCELLED);
    assert_int_equal(make(&cancelled), 2);
    assert_false(made[0].failed);
    assert_string_equal(made[0].result, "cancellation");
}

static void the_caller_decides_about_sampling_else_the_ratio(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_EXECUTION_COMPLETED);
    event.traceparent = "00-" TRACE "-00f067aa0ba902b7-00";
    assert_int_equal(spans_of_event(&event, 1.0, NOW_US, &dice, made), 0);
    event.traceparent = CALLER;
    assert_int_equal(spans_of_event(&event, 0.0, NOW_US, &dice, made), 2);
    event.traceparent = NULL;
    assert_int_equal(spans_of_event(&event, 0.0, NOW_US, &dice, made), 0);
    assert_int_equal(spans_of_event(&event, 1.0, NOW_US, &dice, made), 2);
    assert_string_equal(made[0].trace_id, "01939b7e7a5c7c3e8b3a2f1d4c5b6a79");
}

static void a_set_of_assignments_is_a_trace_of_its_own(void **state)
{
    (void)state;
    struct event event = {.type = EVENT_BATCH_CLAIMED, .count = 12, .duration_us = 3000, .fence = 9};
    assert_int_equal(make(&event), 2);
    assert_string_equal(made[0].name, "queue_processing");
    assert_string_equal(made[0].parent_id, "");
    assert_int_equal(made[0].start_us, NOW_US - 3000);
    assert_string_equal(made[1].name, "claim_batch");
    assert_string_equal(made[1].parent_id, made[0].span_id);
    assert_string_equal(made[1].trace_id, made[0].trace_id);
    assert_string_equal(made[1].operation, "receive");
    assert_int_equal(made[1].count, 12);
    char first[TRACE_ID_LENGTH + 1];
    memcpy(first, made[0].trace_id, sizeof first);
    assert_int_equal(make(&event), 2);
    assert_string_not_equal(made[0].trace_id, first);
    assert_int_equal(spans_of_event(&event, 0.0, NOW_US, &dice, made), 0);
}

static void other_events_make_no_spans(void **state)
{
    (void)state;
    struct event stuck = event_of(EVENT_EXECUTION_STUCK);
    struct event set = {.type = EVENT_EXECUTION_ENQUEUED, .count = 100};
    assert_int_equal(make(&stuck), 0);
    assert_int_equal(make(&set), 0);
}

static const char *attribute(const json_t *span, const char *key, const char *type)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(span, "attributes"), i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "key")), key) == 0) {
            return json_string_value(json_object_get(json_object_get(entry, "value"), type));
        }
    }
    return NULL;
}

static void the_body_is_that_of_otlp(void **state)
{
    (void)state;
    struct text text = {.max = SPANS_TEXT_BYTES_MAX};
    struct event event = event_of(EVENT_EXECUTION_DISPATCHED);
    event.workspace = "m\xc3\xbcller \"x\"";
    event.began_ago_us = 5;
    event.duration_us = 77;
    assert_int_equal(spans_write(made, make(&event), &text), WEIR_OK);
    json_t *body = json_loadb(text.data, text.length, 0, NULL);
    assert_non_null(body);
    const json_t *resource = json_array_get(json_object_get(body, "resourceSpans"), 0);
    assert_string_equal(attribute(json_object_get(resource, "resource"), "service.name", "stringValue"), "weir");
    const json_t *spans = json_object_get(json_array_get(json_object_get(resource, "scopeSpans"), 0), "spans");
    assert_int_equal(json_array_size(spans), 2);
    const json_t *span = json_array_get(spans, 0);
    assert_string_equal(json_string_value(json_object_get(span, "name")), "process_item hello");
    assert_string_equal(json_string_value(json_object_get(span, "startTimeUnixNano")), "1699999999999995000");
    assert_string_equal(json_string_value(json_object_get(span, "endTimeUnixNano")), "1700000000000000000");
    assert_int_equal(json_integer_value(json_object_get(span, "kind")), SPAN_CONSUMER);
    assert_string_equal(attribute(span, "messaging.system", "stringValue"), "weir");
    assert_string_equal(attribute(span, "messaging.operation.type", "stringValue"), "process");
    assert_string_equal(attribute(span, "messaging.operation.name", "stringValue"), "process_item");
    assert_string_equal(attribute(span, "messaging.destination.name", "stringValue"), "hello");
    assert_string_equal(attribute(span, "messaging.message.id", "stringValue"), EXECUTION);
    assert_string_equal(attribute(span, "weir.workspace.id", "stringValue"), "m\xc3\xbcller \"x\"");
    assert_string_equal(attribute(span, "weir.queue_wait_us", "intValue"), "77");
    assert_string_equal(attribute(span, "weir.fence", "intValue"), "7");
    assert_null(json_object_get(span, "status"));
    json_decref(body);
    text_close(&text);
}

static void a_body_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct text text = {.max = 100};
    struct event event = event_of(EVENT_EXECUTION_COMPLETED);
    assert_int_equal(spans_write(made, make(&event), &text), WEIR_FAILED);
    text_close(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_execution_is_one_tree_below_its_caller),
        cmocka_unit_test(a_start_that_ends_with_its_execution_has_no_record_of_its_own),
        cmocka_unit_test(a_later_claim_makes_no_second_enqueue),
        cmocka_unit_test(failures_have_their_code_and_nothing_else),
        cmocka_unit_test(the_caller_decides_about_sampling_else_the_ratio),
        cmocka_unit_test(a_set_of_assignments_is_a_trace_of_its_own),
        cmocka_unit_test(other_events_make_no_spans),
        cmocka_unit_test(the_body_is_that_of_otlp),
        cmocka_unit_test(a_body_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
