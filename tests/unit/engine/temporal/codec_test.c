/* The engine and its payload codec, on a virtual clock: a codec in memory turns the bytes of each payload over, or is away,
 * or refuses. */
#include "temporal_scene.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/text.h"

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
    bool is_empty;              /* the answer has no body */
    bool is_held;               /* calls wait */
    struct codec_call *calls[CODEC_CALLS_KEPT];
    size_t count; /* under way */
    size_t encoded;
    size_t decoded;
    bool is_closed;
};

/* Encoding puts three zero bytes before the data, decoding removes them. It works on the base64 text, which stays valid. */
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
                                      .body = codec->is_empty ? NULL : body,
                                      .length = codec->is_empty ? 0 : strlen(body)};
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

static void open_coded(struct scene *scene, struct fake_codec *codec)
{
    struct codec_wire wire = {
        .call = fake_call, .cancel = fake_cancel, .step = fake_step, .fd = fake_fd, .close = fake_close, .context = codec};
    open_scene_with(scene, (struct temporal_options){.starts_max = 64}, &wire);
}

/* --- the start --- */

static void an_input_is_encoded_once_and_sent_again_unchanged(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    start_one(&scene, ID_ONE);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(codec.encoded, 1);
    assert_true(fake_temporal_starts_are_equal(scene.service));
    struct text body = {.max = 4096};
    assert_int_equal(payloads_of_start(fake_temporal_start_of(scene.service, ID_ONE), &body), WEIR_OK);
    assert_non_null(strstr(body.data, "\"eGVub24=\""));
    assert_non_null(strstr(body.data, "\"AAAAeyJjdXN0b21lciI6IDd9\""));
    text_close(&body);
    close_scene(&scene);
    assert_true(codec.is_closed);
}

/* As turn_over() encodes it. */
static void assert_encoded(const TemporalApi__Payload *payload, const char *text)
{
    char encoded[64] = {0};
    size_t length = strlen(text);
    assert_true(length + 3 < sizeof encoded);
    memcpy(encoded + 3, text, length);
    assert_true(payload_has_encoding(payload, "xenon"));
    assert_int_equal(payload->data.len, length + 3);
    assert_memory_equal(payload->data.data, encoded, length + 3);
}

/* The service reads search attributes, and weir reads its own fields of the memo in each description. */
static void only_arguments_and_memo_of_a_start_are_encoded(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    struct engine_start start = start_of(ID_ONE);
    start.definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\", \"workflow_id\": "
                       "\"order-${.input.customer}\", \"args\": [\"${.input.customer}\", \"two\"], \"memo\": "
                       "{\"for\": \"${.input.customer}\"}, \"search_attributes\": {\"Customer\": \"c\"}}}";
    fake_attributes_add(fake_temporal_attributes(scene.service), "Customer", ATTRIBUTE_KEYWORD);
    fake_temporal_push(scene.service, FAKE_LOSE_ANSWER);
    assert_int_equal(engine_start(scene.engine, &start, NULL), WEIR_OK);
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(codec.encoded, 1);
    assert_true(fake_temporal_starts_are_equal(scene.service));
    TemporalApi__StartWorkflowExecutionRequest *request = read_sent_start(&scene, ID_ONE);
    assert_string_equal(request->workflow_id, "order-7");
    assert_int_equal(request->input->n_payloads, 2);
    assert_encoded(request->input->payloads[0], "7");
    assert_encoded(request->input->payloads[1], "\"two\"");
    assert_encoded(find_payload(request->memo, "for"), "7");
    assert_payload(find_payload(request->memo, "weir_execution"), "json/plain", "\"" ID_ONE "\"");
    assert_payload(find_payload(request->memo, "weir_workspace"), "json/plain", "\"acme\"");
    assert_payload(find_payload(request->search_attributes, "Customer"), "json/plain", "\"c\"");
    temporal_api__start_workflow_execution_request__free_unpacked(request, NULL);
    fake_temporal_encode_results(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\":7}");
    pass_time(&scene, 5 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "{\"n\":7}");
    close_scene(&scene);
}

/* Without arguments and memo there is nothing to encode. */
static void a_start_without_payloads_needs_no_codec(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_UNREACHABLE};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    struct engine_start start = start_of(ID_ONE);
    start.definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\", \"args\": []}}";
    assert_int_equal(engine_start(scene.engine, &start, NULL), WEIR_OK);
    pass_time(&scene, SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(codec.encoded, 0);
    close_scene(&scene);
}

static void an_unreachable_codec_holds_a_start_up_as_the_service_does(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_UNREACHABLE};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_one(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_UNREACHABLE)->error_code, "codec_unreachable");
    assert_string_equal(last_report(&scene, REPORT_UNREACHABLE)->error, "the payload codec: no");
    assert_false(last_report(&scene, REPORT_UNREACHABLE)->may_run);
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
    codec.outcome = CODEC_OK;
    codec.garbage = "<html>";
    start_one(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_non_null(strstr(last_report(&scene, REPORT_UNREACHABLE)->error, "no payload codec"));
    codec.garbage = "{\"payloads\": []}";
    start_one(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_UNREACHABLE), 3);
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
    close_scene(&scene);
}

static void a_start_that_may_run_keeps_its_slot_while_the_codec_is_down(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_UNREACHABLE};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    assert_int_equal(engine_start(scene.engine, &again, NULL), WEIR_OK);
    pass_time(&scene, 5 * SECOND_US);
    assert_true(last_report(&scene, REPORT_UNREACHABLE)->may_run);
    codec.outcome = CODEC_OK;
    pass_time(&scene, 10 * SECOND_US);
    assert_int_equal(count_reports(&scene, REPORT_STARTED), 1);
    assert_int_equal(fake_temporal_chains(scene.service, ID_ONE), 1);
    close_scene(&scene);
}

static void an_answer_without_a_body_is_repeated(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK, .is_empty = true};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_one(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_UNREACHABLE)->error_code, "codec_unreachable");
    codec.is_empty = false;
    start_and_follow(&scene, ID_TWO);
    codec.is_empty = true;
    fake_temporal_encode_results(scene.service, true);
    fake_temporal_end(scene.service, ID_TWO, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 2 * CODEC_PATIENCE_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.error_code, "result_encoded");
    close_scene(&scene);
}

static void an_input_that_the_codec_refuses_fails_permanently(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_REFUSED};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_one(&scene, ID_ONE);
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "codec_refused");
    assert_true(last_report(&scene, REPORT_REFUSED)->permanent);
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
    close_scene(&scene);
}

static void a_cancel_and_a_stop_do_not_wait_for_the_codec(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK, .is_held = true};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_one(&scene, ID_ONE);
    start_one(&scene, ID_TWO);
    pass_time(&scene, SECOND_US);
    assert_int_equal(codec.count, 2);
    engine_cancel(scene.engine, ID_ONE, 5);
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "cancelled");
    assert_int_equal(codec.count, 1);
    engine_stop(scene.engine, false);
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_REFUSED)->error_code, "stopping");
    assert_int_equal(codec.count, 0);
    codec.is_held = false;
    pass_time(&scene, SECOND_US);
    assert_int_equal(fake_temporal_calls(scene.service, FAKE_START), 0);
    close_scene(&scene);
}

/* --- the end --- */

static void a_result_is_decoded(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_encode_results(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\":7}");
    pass_time(&scene, 5 * SECOND_US);
    assert_int_equal(last_report(&scene, REPORT_ENDED)->end_state, END_COMPLETED);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "{\"n\":7}");
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.error_code, "");
    assert_int_equal(codec.decoded, 1);
    close_scene(&scene);
}

static void a_plain_result_needs_no_codec(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_and_follow(&scene, ID_ONE);
    codec.outcome = CODEC_UNREACHABLE;
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, 5 * SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "1");
    assert_int_equal(codec.decoded, 0);
    close_scene(&scene);
}

/* Its slot is free in truth. */
static void an_end_waits_for_an_unreachable_codec_for_a_bounded_time(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_and_follow(&scene, ID_ONE);
    start_and_follow(&scene, ID_TWO);
    codec.outcome = CODEC_UNREACHABLE;
    fake_temporal_encode_results(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\":7}");
    pass_time(&scene, CODEC_PATIENCE_US / 2);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 0);
    assert_true(codec.decoded > 1);
    codec.outcome = CODEC_OK;
    pass_time(&scene, 2 * RETRY_MAX_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.output, "{\"n\":7}");
    codec.outcome = CODEC_UNREACHABLE;
    fake_temporal_end(scene.service, ID_TWO, RUN_STATUS_COMPLETED, "{\"n\":8}");
    pass_time(&scene, 2 * CODEC_PATIENCE_US);
    assert_int_equal(count_reports(&scene, REPORT_ENDED), 2);
    const struct report *report = last_report(&scene, REPORT_ENDED);
    assert_int_equal(report->end_state, END_COMPLETED);
    assert_string_equal(report->step.output, "{\"encoded\":{\"payloads\":[{\"metadata\":{\"encoding\":\"eGVub24=\"},"
                                             "\"data\":\"AAAAeyJuIjo4fQ==\"}]}}");
    assert_string_equal(report->step.error_code, "result_encoded");
    assert_string_equal(report->step.error, "the payload codec: no");
    close_scene(&scene);
}

static void an_end_that_the_codec_refuses_is_reported_encoded(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_and_follow(&scene, ID_ONE);
    codec.outcome = CODEC_REFUSED;
    fake_temporal_encode_results(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->step.error_code, "result_encoded");
    close_scene(&scene);
}

static void the_message_of_a_failure_is_decoded(void **state)
{
    struct fake_codec codec = {.outcome = CODEC_OK};
    struct scene scene;
    (void)state;
    open_coded(&scene, &codec);
    start_and_follow(&scene, ID_ONE);
    fake_temporal_encode_results(scene.service, true);
    fake_temporal_end(scene.service, ID_ONE, RUN_STATUS_FAILED, "{\"message\":\"no money\",\"stack_trace\":\"\"}");
    pass_time(&scene, SECOND_US);
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error_code, "Broken");
    assert_string_equal(last_report(&scene, REPORT_ENDED)->error, "Broken: no money");
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_is_encoded_once_and_sent_again_unchanged),
        cmocka_unit_test(only_arguments_and_memo_of_a_start_are_encoded),
        cmocka_unit_test(a_start_without_payloads_needs_no_codec),
        cmocka_unit_test(an_unreachable_codec_holds_a_start_up_as_the_service_does),
        cmocka_unit_test(a_start_that_may_run_keeps_its_slot_while_the_codec_is_down),
        cmocka_unit_test(an_answer_without_a_body_is_repeated),
        cmocka_unit_test(an_input_that_the_codec_refuses_fails_permanently),
        cmocka_unit_test(a_cancel_and_a_stop_do_not_wait_for_the_codec),
        cmocka_unit_test(a_result_is_decoded),
        cmocka_unit_test(a_plain_result_needs_no_codec),
        cmocka_unit_test(an_end_waits_for_an_unreachable_codec_for_a_bounded_time),
        cmocka_unit_test(an_end_that_the_codec_refuses_is_reported_encoded),
        cmocka_unit_test(the_message_of_a_failure_is_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
