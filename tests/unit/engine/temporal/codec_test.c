/* The engine and its payload codec, on a virtual clock: a codec in memory turns the bytes of each payload over, or is away,
 * or refuses. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/decode.h"

enum { CODEC_CALLS_KEPT = 64 };

struct codec_call {
    enum codec_verb verb;
    struct text answer;
    codec_done *done;
    void *context;
};

struct fake_codec {
    enum codec_outcome outcome; /* of each call */
    const char *garbage;        /* in place of the answer */
    bool is_held;               /* calls wait */
    struct codec_call *calls[CODEC_CALLS_KEPT];
    size_t count; /* under way */
    size_t encoded;
    size_t decoded;
    bool is_closed;
};

/* "x" + data: what is encoded differs from what was, and comes back. The JSON is taken as text: its base64 stays valid. */
static void turn_over(enum codec_verb verb, const char *body, size_t length, struct text *answer)
{
    json_t *json = NULL;
    size_t i;
    json_t *payload;
    assert_int_equal(json_read(body, length, &json, NULL), WEIR_OK);
    json_array_foreach(json_object_get(json, "payloads"), i, payload)
    {
        const char *data = json_string_value(json_object_get(payload, "data"));
        char *other = NULL;
        if (verb == CODEC_ENCODE) {
            assert_true(asprintf(&other, "AAAA%s", data) > 0);
            (void)json_object_set_new(payload, "metadata", json_pack("{s:s}", "encoding", "eGVub24=")); /* xenon */
        } else {
            assert_int_equal(strncmp(data, "AAAA", 4), 0);
            assert_true(asprintf(&other, "%s", data + 4) > 0);
            (void)json_object_set_new(payload, "metadata", json_pack("{s:s}", "encoding", "anNvbi9wbGFpbg=="));
        }
        (void)json_object_set_new(payload, "data", json_string(other));
        free(other);
    }
    assert_int_equal(json_write(json, answer, NULL), WEIR_OK);
    json_decref(json);
}

static struct codec_call *fake_call(void *context, enum codec_verb verb, const char *body, size_t length, codec_done *done,
                                    void *done_context)
{
    struct fake_codec *codec = context;
    struct codec_call *call = calloc(1, sizeof *call);
    assert_true(call != NULL && codec->count < CODEC_CALLS_KEPT);
    *call =
        (struct codec_call){.verb = verb, .answer = {.max = CODEC_BODY_BYTES_MAX}, .done = done, .context = done_context};
    turn_over(verb, body, length, &call->answer);
    codec->calls[codec->count++] = call;
    *(verb == CODEC_ENCODE ? &codec->encoded : &codec->decoded) += 1;
    return call;
}

static void drop(struct fake_codec *codec, size_t i)
{
    text_close(&codec->calls[i]->answer);
    free(codec->calls[i]);
    codec->calls[i] = codec->calls[--codec->count];
}

static void fake_cancel(void *context, struct codec_call *call)
{
    struct fake_codec *codec = context;
    size_t i = 0;
    while (codec->calls[i] != call) {
        assert_true(++i < codec->count);
    }
    drop(codec, i);
}

static int64_t fake_step(void *context)
{
    struct fake_codec *codec = context;
    while (codec->count > 0 && !codec->is_held) {
        struct codec_call call = *codec->calls[0];
        bool is_fine = codec->outcome == CODEC_OK;
        const char *body = codec->garbage != NULL ? codec->garbage : call.answer.data;
        struct codec_result result = {.outcome = codec->outcome,
                                      .text = is_fine ? "" : "the payload codec: no",
                                      .body = body,
                                      .length = strlen(body)};
        free(codec->calls[0]);
        codec->calls[0] = codec->calls[--codec->count];
        call.done(call.context, &result);
        text_close(&call.answer);
    }
    return TIME_NEVER;
}

static int fake_fd(void *context)
{
    (void)context;
    return -1;
}

static void fake_close(void *context)
{
    struct fake_codec *codec = context;
    while (codec->count > 0) {
        drop(codec, 0);
    }
    codec->is_closed = true;
}

static void open_coded(struct bench *bench, struct fake_codec *codec)
{
    struct codec_wire wire = {
        .call = fake_call, .cancel = fake_cancel, .step = fake_step, .fd = fake_fd, .close = fake_close, .context = codec};
    open_bench_with(bench, &wire);
}

/* --- the start --- */

static void an_input_is_encoded_once_and_sent_again_as_it_is(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(codec.encoded, 1);
    assert_true(fake_temporal_starts_are_equal(bench.service));
    struct text body = {.max = 4096};
    assert_int_equal(payloads_of_start(fake_temporal_start_of(bench.service, ID_ONE), &body), WEIR_OK);
    assert_non_null(strstr(body.data, "\"eGVub24=\""));
    assert_non_null(strstr(body.data, "\"AAAAeyJjdXN0b21lciI6IDd9\""));
    text_close(&body);
    close_bench(&bench);
    assert_true(codec.is_closed);
}

static const TemporalApi__Payload *field(const TemporalApi__PayloadMap *map, const char *key)
{
    for (size_t i = 0; i < map->n_fields; i++) {
        if (strcmp(map->fields[i]->key, key) == 0) {
            return map->fields[i]->value;
        }
    }
    fail_msg("no field %s", key);
    return NULL;
}

static void expect_payload(const TemporalApi__Payload *payload, const char *encoding, const char *text)
{
    static const uint8_t zeros[3];
    bool is_encoded = strcmp(encoding, "xenon") == 0;
    size_t skip = is_encoded ? sizeof zeros : 0;
    assert_true(payload_has_encoding(payload, encoding));
    assert_int_equal(payload->data.len, skip + strlen(text));
    assert_memory_equal(payload->data.data, zeros, skip);
    assert_memory_equal(payload->data.data + skip, text, strlen(text));
}

/* The service reads search attributes, and weir reads its own fields of the memo in each description. */
static void arguments_and_memo_are_encoded_and_the_rest_of_a_start_is_not(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    struct engine_start start = start_of(ID_ONE);
    start.definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\", \"workflow_id\": "
                       "\"order-${.input.customer}\", \"args\": [\"${.input.customer}\", \"two\"], \"memo\": "
                       "{\"for\": \"${.input.customer}\"}, \"search_attributes\": {\"Customer\": \"c\"}}}";
    fake_attributes_add(fake_temporal_attributes(bench.service), "Customer", ATTRIBUTE_KEYWORD);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    assert_int_equal(engine_start(bench.engine, &start, NULL), WEIR_OK);
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(codec.encoded, 1);
    assert_true(fake_temporal_starts_are_equal(bench.service));
    struct bytes sent = fake_temporal_start_of(bench.service, ID_ONE);
    TemporalApi__StartWorkflowExecutionRequest *request =
        temporal_api__start_workflow_execution_request__unpack(NULL, sent.length, sent.data);
    assert_non_null(request);
    assert_string_equal(request->workflow_id, "order-7");
    assert_int_equal(request->input->n_payloads, 2);
    expect_payload(request->input->payloads[0], "xenon", "7");
    expect_payload(request->input->payloads[1], "xenon", "\"two\"");
    expect_payload(field(request->memo, "for"), "xenon", "7");
    expect_payload(field(request->memo, "weir_execution"), "json/plain", "\"" ID_ONE "\"");
    expect_payload(field(request->memo, "weir_workspace"), "json/plain", "\"acme\"");
    expect_payload(field(request->search_attributes, "Customer"), "json/plain", "\"c\"");
    temporal_api__start_workflow_execution_request__free_unpacked(request, NULL);
    fake_temporal_encode_results(bench.service, true);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\":7}");
    pass(&bench, 5 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "{\"n\":7}");
    close_bench(&bench);
}

/* Without arguments and memo there is nothing to encode. */
static void a_start_without_payloads_needs_no_codec(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_UNREACHABLE};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    struct engine_start start = start_of(ID_ONE);
    start.definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\", \"args\": []}}";
    assert_int_equal(engine_start(bench.engine, &start, NULL), WEIR_OK);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(codec.encoded, 0);
    close_bench(&bench);
}

static void a_codec_that_is_away_holds_up_a_start_as_the_service_does(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_UNREACHABLE};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_one(&bench, ID_ONE);
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_UNREACHABLE)->error_code, "codec_unreachable");
    assert_string_equal(last(&bench, REPORT_UNREACHABLE)->error, "the payload codec: no");
    assert_false(last(&bench, REPORT_UNREACHABLE)->may_run);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
    codec.outcome = CODEC_OK;
    codec.garbage = "<html>";
    start_one(&bench, ID_ONE);
    pass(&bench, SECOND_US);
    assert_non_null(strstr(last(&bench, REPORT_UNREACHABLE)->error, "no payload codec"));
    codec.garbage = "{\"payloads\": []}";
    start_one(&bench, ID_ONE);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, REPORT_UNREACHABLE), 3);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
    close_bench(&bench);
}

static void a_start_that_may_run_keeps_its_slot_while_the_codec_is_away(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_UNREACHABLE};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, 5 * SECOND_US);
    assert_true(last(&bench, REPORT_UNREACHABLE)->may_run);
    codec.outcome = CODEC_OK;
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void an_input_that_the_codec_refuses_fails_for_good(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_REFUSED};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_one(&bench, ID_ONE);
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "codec_refused");
    assert_true(last(&bench, REPORT_REFUSED)->permanent);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
    close_bench(&bench);
}

static void a_cancel_and_a_stop_do_not_wait_for_the_codec(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK, .is_held = true};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_one(&bench, ID_ONE);
    start_one(&bench, ID_TWO);
    pass(&bench, SECOND_US);
    assert_int_equal(codec.count, 2);
    engine_cancel(bench.engine, ID_ONE, 5);
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "cancelled");
    assert_int_equal(codec.count, 1);
    engine_stop(bench.engine, false);
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "stopping");
    assert_int_equal(codec.count, 0);
    codec.is_held = false;
    pass(&bench, SECOND_US);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
    close_bench(&bench);
}

/* --- the end --- */

static void a_result_is_decoded(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_encode_results(bench.service, true);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\":7}");
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "{\"n\":7}");
    assert_string_equal(last(&bench, REPORT_ENDED)->step.error_code, "");
    assert_int_equal(codec.decoded, 1);
    close_bench(&bench);
}

static void what_is_not_encoded_needs_no_codec(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_and_follow(&bench, ID_ONE);
    codec.outcome = CODEC_UNREACHABLE;
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, 5 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "1");
    assert_int_equal(codec.decoded, 0);
    close_bench(&bench);
}

/* Its slot is free in truth. */
static void an_end_waits_for_a_codec_that_is_away_and_not_for_long(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_and_follow(&bench, ID_ONE);
    start_and_follow(&bench, ID_TWO);
    codec.outcome = CODEC_UNREACHABLE;
    fake_temporal_encode_results(bench.service, true);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\":7}");
    pass(&bench, CODEC_PATIENCE_US / 2);
    assert_int_equal(heard(&bench, REPORT_ENDED), 0);
    assert_true(codec.decoded > 1);
    codec.outcome = CODEC_OK;
    pass(&bench, 2 * RETRY_MOST_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "{\"n\":7}");
    codec.outcome = CODEC_UNREACHABLE;
    fake_temporal_end(bench.service, ID_TWO, RUN_STATUS_COMPLETED, "{\"n\":8}");
    pass(&bench, 2 * CODEC_PATIENCE_US);
    assert_int_equal(heard(&bench, REPORT_ENDED), 2);
    const struct report *report = last(&bench, REPORT_ENDED);
    assert_int_equal(report->end_state, END_COMPLETED);
    assert_string_equal(report->step.output, "{\"encoded\":{\"payloads\":[{\"metadata\":{\"encoding\":\"eGVub24=\"},"
                                             "\"data\":\"AAAAeyJuIjo4fQ==\"}]}}");
    assert_string_equal(report->step.error_code, "result_encoded");
    assert_string_equal(report->step.error, "the payload codec: no");
    close_bench(&bench);
}

static void an_end_that_the_codec_refuses_is_told_as_it_is(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_and_follow(&bench, ID_ONE);
    codec.outcome = CODEC_REFUSED;
    fake_temporal_encode_results(bench.service, true);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->step.error_code, "result_encoded");
    close_bench(&bench);
}

static void the_words_of_a_failure_are_decoded(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct bench bench;
    (void)state;
    open_coded(&bench, &codec);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_encode_results(bench.service, true);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_FAILED, "{\"message\":\"no money\",\"stack_trace\":\"\"}");
    pass(&bench, SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->error_code, "Broken");
    assert_string_equal(last(&bench, REPORT_ENDED)->error, "Broken: no money");
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_is_encoded_once_and_sent_again_as_it_is),
        cmocka_unit_test(arguments_and_memo_are_encoded_and_the_rest_of_a_start_is_not),
        cmocka_unit_test(a_start_without_payloads_needs_no_codec),
        cmocka_unit_test(a_codec_that_is_away_holds_up_a_start_as_the_service_does),
        cmocka_unit_test(a_start_that_may_run_keeps_its_slot_while_the_codec_is_away),
        cmocka_unit_test(an_input_that_the_codec_refuses_fails_for_good),
        cmocka_unit_test(a_cancel_and_a_stop_do_not_wait_for_the_codec),
        cmocka_unit_test(a_result_is_decoded),
        cmocka_unit_test(what_is_not_encoded_needs_no_codec),
        cmocka_unit_test(an_end_waits_for_a_codec_that_is_away_and_not_for_long),
        cmocka_unit_test(an_end_that_the_codec_refuses_is_told_as_it_is),
        cmocka_unit_test(the_words_of_a_failure_are_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
