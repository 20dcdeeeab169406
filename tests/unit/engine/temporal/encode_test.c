/* Building requests and reading answers, good and hostile. That the bytes are those of the official schema is checked by
 * tests/end_to_end/temporal_bytes_test.py. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "engine/temporal/encode.h"
#include "engine/temporal/temporal.pb-c.h"

static void a_workspace_with_a_long_name_has_a_short_fairness_key(void **state)
{
    char key[FAIRNESS_KEY_MAX + 1];
    char other[FAIRNESS_KEY_MAX + 1];
    char name[101];
    (void)state;
    fairness_key("acme", key);
    assert_string_equal(key, "acme");
    memset(name, 'a', 100);
    name[100] = '\0';
    fairness_key(name, key);
    assert_true(strlen(key) <= FAIRNESS_KEY_MAX);
    name[99] = 'b';
    fairness_key(name, other);
    assert_string_not_equal(key, other);
}

static void priorities_keep_their_order(void **state)
{
    (void)state;
    assert_int_equal(priority_key(100), 1);
    assert_int_equal(priority_key(1), 2);
    assert_int_equal(priority_key(0), 0); /* the service's own middle, 3 */
    assert_int_equal(priority_key(-1), 4);
    assert_int_equal(priority_key(-100), 5);
}

static void the_same_start_has_the_same_bytes(void **state)
{
    struct start_fields fields = {.workflow_id = "order-7",
                                  .task_queue = "q",
                                  .run_timeout_us = 1500000,
                                  .memo = json_pack("{s:i, s:[b]}", "b", 1, "a", 1)};
    struct start_message start = {.namespace_name = "n",
                                  .execution_id = "019aa000-0000-7000-8000-000000000001",
                                  .workspace = "acme",
                                  .identity = "weir@host",
                                  .workflow_type = "T",
                                  .input = "{\"x\": 1}",
                                  .input_length = 8,
                                  .encoding = "json/plain",
                                  .fields = &fields};
    (void)state;
    struct bytes one = encode_start(&start);
    struct bytes two = encode_start(&start);
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.data, two.data, one.length);
    free(one.data);
    free(two.data);
    json_decref(fields.memo);
}

/* --- failures --- */

/* A failure with `depth` causes below it, packed. */
static struct bytes nested_failure(int depth)
{
    struct bytes inner = {NULL, 0};
    for (int i = 0; i <= depth; i++) {
        TemporalApi__Failure failure = TEMPORAL_API__FAILURE__INIT;
        TemporalApi__ApplicationFailureInfo info = TEMPORAL_API__APPLICATION_FAILURE_INFO__INIT;
        char message[32];
        (void)snprintf(message, sizeof message, "level %d", depth - i);
        failure.message = message;
        info.type = (char *)(uintptr_t) "Broken";
        if (i == 0) {
            failure.application_failure_info = &info;
        }
        failure.cause = (ProtobufCBinaryData){.len = inner.length, .data = inner.data};
        struct bytes outer = {.length = temporal_api__failure__get_packed_size(&failure)};
        outer.data = malloc(outer.length + 1);
        assert_non_null(outer.data);
        (void)temporal_api__failure__pack(&failure, outer.data);
        free(inner.data);
        inner = outer;
    }
    return inner;
}

static struct bytes failed_history(int depth)
{
    struct bytes packed = nested_failure(depth);
    TemporalApi__FailedAttributes failed = TEMPORAL_API__FAILED_ATTRIBUTES__INIT;
    TemporalApi__HistoryEvent event = TEMPORAL_API__HISTORY_EVENT__INIT;
    TemporalApi__HistoryEvent *events[1] = {&event};
    TemporalApi__History history = TEMPORAL_API__HISTORY__INIT;
    TemporalApi__GetWorkflowExecutionHistoryResponse reply = TEMPORAL_API__GET_WORKFLOW_EXECUTION_HISTORY_RESPONSE__INIT;
    failed.failure = temporal_api__failure__unpack(NULL, packed.length, packed.data);
    assert_non_null(failed.failure);
    event.event_type = 3;
    event.failed = &failed;
    history.events = events;
    history.n_events = 1;
    reply.history = &history;
    struct bytes bytes = {.length = temporal_api__get_workflow_execution_history_response__get_packed_size(&reply)};
    bytes.data = malloc(bytes.length + 1);
    assert_non_null(bytes.data);
    (void)temporal_api__get_workflow_execution_history_response__pack(&reply, bytes.data);
    temporal_api__failure__free_unpacked(failed.failure, NULL);
    free(packed.data);
    return bytes;
}

static void causes_are_listed_from_the_outermost_to_the_innermost(void **state)
{
    struct close_event closing;
    struct bytes bytes = failed_history(2);
    (void)state;
    assert_int_equal(decode_close_event(bytes.data, bytes.length, &closing), WEIR_OK);
    assert_string_equal(closing.error, "level 0; caused by: level 1; caused by: Broken: level 2");
    assert_string_equal(closing.error_code, "Broken");
    close_event_close(&closing);
    free(bytes.data);
}

static void causes_without_end_are_cut(void **state)
{
    struct close_event closing;
    struct bytes bytes = failed_history(3000);
    (void)state;
    assert_int_equal(decode_close_event(bytes.data, bytes.length, &closing), WEIR_OK);
    assert_true(strlen(closing.error) <= ERROR_TEXT_MAX);
    assert_non_null(strstr(closing.error, "level 15"));
    assert_null(strstr(closing.error, "level 16"));
    assert_string_equal(closing.error_code, "workflow_failed");
    close_event_close(&closing);
    free(bytes.data);
}

/* --- results --- */

static struct close_event closing_of(const char *encoding, const char *data, size_t length, size_t payloads)
{
    TemporalApi__MetadataEntry entry = TEMPORAL_API__METADATA_ENTRY__INIT;
    TemporalApi__MetadataEntry *entries[1] = {&entry};
    TemporalApi__Payload payload = TEMPORAL_API__PAYLOAD__INIT;
    TemporalApi__Payload *list[2] = {&payload, &payload};
    TemporalApi__Payloads result = TEMPORAL_API__PAYLOADS__INIT;
    TemporalApi__CompletedAttributes completed = TEMPORAL_API__COMPLETED_ATTRIBUTES__INIT;
    TemporalApi__HistoryEvent event = TEMPORAL_API__HISTORY_EVENT__INIT;
    TemporalApi__HistoryEvent *events[1] = {&event};
    TemporalApi__History history = TEMPORAL_API__HISTORY__INIT;
    TemporalApi__GetWorkflowExecutionHistoryResponse reply = TEMPORAL_API__GET_WORKFLOW_EXECUTION_HISTORY_RESPONSE__INIT;
    struct close_event closing;
    entry.key = (char *)(uintptr_t) "encoding";
    entry.value = (ProtobufCBinaryData){.len = strlen(encoding), .data = (uint8_t *)(uintptr_t)encoding};
    payload.metadata = entries;
    payload.n_metadata = 1;
    payload.data = (ProtobufCBinaryData){.len = length, .data = (uint8_t *)(uintptr_t)data};
    result.payloads = list;
    result.n_payloads = payloads;
    completed.result = &result;
    event.event_type = 2;
    event.completed = &completed;
    history.events = events;
    history.n_events = 1;
    reply.history = &history;
    size_t size = temporal_api__get_workflow_execution_history_response__get_packed_size(&reply);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    (void)temporal_api__get_workflow_execution_history_response__pack(&reply, bytes);
    assert_int_equal(decode_close_event(bytes, size, &closing), WEIR_OK);
    free(bytes);
    return closing;
}

static void results_of_any_encoding_become_json(void **state)
{
    static const struct {
        const char *encoding;
        const char *data;
        size_t length;
        size_t payloads;
        const char *result;
    } rows[] = {
        {"json/plain", "{\"a\": 1.50}", 11, 1, "{\"a\": 1.50}"}, /* byte for byte */
        {"json/plain", "[1]", 3, 2, "[[1],[1]]"},
        {"json/plain", "{oops", 5, 1, "{\"base64\":\"e29vcHM=\"}"},
        {"binary/null", "", 0, 1, "null"},
        {"binary/plain", "\x00\xff", 2, 1, "{\"base64\":\"AP8=\"}"},
        {"json/plain", "", 0, 0, "null"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct close_event closing = closing_of(rows[i].encoding, rows[i].data, rows[i].length, rows[i].payloads);
        assert_int_equal(closing.kind, CLOSE_COMPLETED);
        assert_string_equal(closing.result, rows[i].result);
        close_event_close(&closing);
    }
}

static void a_result_that_is_too_large_is_reported_by_its_size(void **state)
{
    size_t length = STEP_OUTPUT_BYTES_MAX + 10;
    char *data = malloc(length);
    (void)state;
    assert_non_null(data);
    memset(data, '1', length);
    struct close_event closing = closing_of("json/plain", data, length, 1);
    assert_null(closing.result);
    assert_int_equal(closing.result_bytes, length);
    close_event_close(&closing);
    closing = closing_of("binary/plain", data, STEP_OUTPUT_BYTES_MAX, 1); /* too large once it is spelled */
    assert_null(closing.result);
    assert_int_equal(closing.result_bytes, STEP_OUTPUT_BYTES_MAX);
    close_event_close(&closing);
    free(data);
}

/* --- bytes that are no message --- */

static void ignore_row(void *context, const struct list_row *row)
{
    (void)context;
    (void)row;
}

static void read_all(const uint8_t *data, size_t length)
{
    struct start_answer start;
    struct describe_answer description;
    struct list_answer list;
    struct close_event closing;
    struct namespace_answer space;
    struct detail detail;
    char version[SERVER_VERSION_MAX];
    struct pollers_answer pollers;
    char failure[200];
    (void)(decode_start(data, length, &start) == WEIR_OK);
    (void)(decode_describe(data, length, &description) == WEIR_OK);
    (void)(decode_namespace(data, length, &space) == WEIR_OK);
    (void)(decode_task_queue(data, length, &pollers) == WEIR_OK);
    (void)(decode_task_failure(data, length, failure, sizeof failure) == WEIR_OK);
    (void)(decode_system_info(data, length, version, sizeof version) == WEIR_OK);
    if (decode_list(data, length, ignore_row, NULL, &list) == WEIR_OK) {
        free(list.token.data);
    }
    if (decode_close_event(data, length, &closing) == WEIR_OK) {
        close_event_close(&closing);
    }
    decode_detail(data, length, &detail);
}

static void bytes_that_are_cut_or_changed_do_no_harm(void **state)
{
    struct random random;
    struct bytes bytes = failed_history(3);
    (void)state;
    random_seed(&random, 7);
    for (size_t length = 0; length <= bytes.length; length++) {
        read_all(bytes.data, length);
    }
    for (int i = 0; i < 20000; i++) {
        bytes.data[random_below(&random, bytes.length)] = (uint8_t)random_below(&random, 256);
        read_all(bytes.data, bytes.length);
    }
    free(bytes.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workspace_with_a_long_name_has_a_short_fairness_key),
        cmocka_unit_test(priorities_keep_their_order),
        cmocka_unit_test(the_same_start_has_the_same_bytes),
        cmocka_unit_test(causes_are_listed_from_the_outermost_to_the_innermost),
        cmocka_unit_test(causes_without_end_are_cut),
        cmocka_unit_test(results_of_any_encoding_become_json),
        cmocka_unit_test(a_result_that_is_too_large_is_reported_by_its_size),
        cmocka_unit_test(bytes_that_are_cut_or_changed_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
