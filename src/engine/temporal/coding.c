/* The payload codec of the engine.
 *
 * A start:
 *
 * 1. The arguments and the memo of the packed message are written as the codec's JSON (payloads.c).
 * 2. The codec encodes them. The run waits; it has no due time meanwhile.
 * 3. The answer must be a list of as many payloads. They replace the originals in the message, once for a claim: a codec
 * may give other bytes each time, and a repeated start must have the same ones.
 * 4. A codec that cannot be reached holds the start up as a service that is down does. A codec that refuses the payload
 *    fails the execution.
 *
 * An end:
 *
 * 1. The encoded payloads are kept with the bytes of the answer from which the end was read.
 * 2. The codec decodes them, and the end is read again from those bytes with the decoded payloads in place.
 * 3. After CODEC_PATIENCE_US, or when the codec refuses, the end is reported with the encoded payloads, because its slot is
 *    free in truth; `weir show` decodes them later.
 *
 * It must never hold a slot for long because of a codec. It runs in the engine's loop. */
#include "engine/temporal/coding.h"

#include <stdlib.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

#define CODEC_WRONG_ANSWER "the server is no payload codec: its answer is no list of as many payloads"

/* One call of the codec for a run. */
struct coding {
    struct temporal *engine;
    struct run *run;
    struct codec_call *call;
};

void coding_cancel(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && (run->coding == NULL || run->coding->run == run));
    if (run->coding != NULL) {
        engine->wire.codec.cancel(engine->wire.codec.context, run->coding->call);
        free(run->coding);
        run->coding = NULL;
    }
}

/* False when the call could not be sent. */
static bool send_to_codec(struct temporal *engine, struct run *run, enum codec_verb verb, const struct text *body,
                          codec_done *done)
{
    coding_cancel(engine, run);
    struct coding *coding = calloc(1, sizeof *coding);
    if (coding == NULL) {
        return false;
    }
    *coding = (struct coding){.engine = engine, .run = run};
    coding->call = engine->wire.codec.call(engine->wire.codec.context, verb, body->data, body->length, done, coding);
    if (coding->call == NULL) {
        free(coding);
        return false;
    }
    run->coding = coding;
    run_set_due(engine, run, TIME_NEVER);
    return true;
}

/* The call has ended: separates it from its run. */
static struct run *detach_codec_call(void *context, struct temporal **ret_engine)
{
    struct coding *coding = context;
    struct run *run = coding->run;
    *ret_engine = coding->engine;
    run->coding = NULL;
    free(coding);
    return run;
}

/* --- a start --- */

static void handle_encoded(void *context, const struct codec_result *result)
{
    struct temporal *engine;
    struct run *run = detach_codec_call(context, &engine);
    struct bytes message = {NULL, 0};
    if (result->outcome != CODEC_OK) {
        starts_handle_not_encoded(engine, run, result->outcome == CODEC_REFUSED, result->text);
        return;
    }
    enum weir_status status = payloads_into_start(run->message, result->body, result->length, &message);
    if (status == WEIR_FAILED) {
        starts_handle_not_encoded(engine, run, false, CODEC_WRONG_ANSWER);
    } else if (status != WEIR_OK) {
        run_set_due(engine, run, run_back_off(engine, run));
    } else {
        free(run->message.data);
        run->message = message;
        run->is_encoded = true;
        run_set_due(engine, run, temporal_now(engine));
    }
}

bool coding_encode_start(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state == RUN_WAITING);
    struct text body = {.max = 2 * PAYLOADS_BYTES_MAX};
    if (engine->wire.codec.call == NULL || run->is_encoded) {
        return false;
    }
    bool is_read = payloads_of_start(run->message, &body) == WEIR_OK;
    run->is_encoded = is_read && body.length == 0; /* there is nothing to encode */
    if (!run->is_encoded && (!is_read || !send_to_codec(engine, run, CODEC_ENCODE, &body, handle_encoded))) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
    text_close(&body);
    return !run->is_encoded;
}

/* --- an end --- */

static void handle_decoded(void *context, const struct codec_result *result)
{
    struct temporal *engine;
    struct run *run = detach_codec_call(context, &engine);
    const char *text = result->text;
    enum weir_status status = WEIR_OK;
    if (result->outcome == CODEC_OK) {
        status = close_event_decode(&run->closing, result->body, result->length);
        text = CODEC_WRONG_ANSWER;
    }
    int64_t now_us = temporal_now(engine);
    run->decoding_us = run->decoding_us == 0 ? now_us : run->decoding_us;
    bool is_done = result->outcome == CODEC_OK && status == WEIR_OK;
    bool is_over = result->outcome == CODEC_REFUSED || now_us - run->decoding_us >= CODEC_PATIENCE_US;
    if (is_done || is_over) {
        closing_report_decoded(engine, run, is_done ? NULL : text);
    } else {
        run_set_due(engine, run, run_back_off(engine, run)); /* the end is read again */
    }
}

bool coding_decode_end(struct temporal *engine, struct run *run, struct close_event *closing)
{
    INVARIANT(run != NULL && run->state != RUN_ENDED && closing != NULL);
    if (closing->encoded.length == 0) {
        return false;
    }
    call_detach(run->call, false);
    long_poll_remove_run(engine, run);
    close_event_close(&run->closing);
    run->closing = *closing;
    *closing = (struct close_event){.kind = CLOSE_NONE};
    run->state = RUN_CLOSING;
    if (!send_to_codec(engine, run, CODEC_DECODE, &run->closing.encoded, handle_decoded)) {
        run_set_due(engine, run, run_back_off(engine, run));
    }
    return true;
}

void coding_keep_payloads(struct temporal *engine, struct close_event *closing, const struct grpc_result *result)
{
    INVARIANT(closing != NULL && result != NULL);
    bool has_payloads = closing->kind == CLOSE_COMPLETED || closing->kind == CLOSE_FAILED;
    if (engine->wire.codec.call != NULL && has_payloads && closing->next_run_id[0] == '\0' &&
        !close_event_keep_encoded(closing, result->response, result->response_length)) {
        text_close(&closing->encoded); /* no memory: the end is reported without decoding */
    }
}
