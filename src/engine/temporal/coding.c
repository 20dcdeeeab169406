/* The payload codec of the engine: encodes arguments and memo of a start before it leaves, decodes the end of a workflow
 * before it is reported.
 *
 * A codec that is away holds starts up as a service that is away does: what surely does not run goes back into the queue.
 * An end is not held up for long, because its slot is free in truth: after CODEC_PATIENCE_US it is reported with what the
 * workflow gave, still encoded, and `weir show` decodes that.
 *
 * A start is encoded once per claim: a codec may give other bytes each time, and what is sent again is what was sent.
 */
#include <stdlib.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

/* One call of the codec for a run. */
struct coding {
    struct temporal *engine;
    struct run *run;
    struct codec_call *call;
};

void coding_forget(struct temporal *engine, struct run *run)
{
    if (run->coding != NULL) {
        engine->wire.codec.cancel(engine->wire.codec.context, run->coding->call);
        free(run->coding);
        run->coding = NULL;
    }
}

/* False when it could not be begun. */
static bool coding_begin(struct temporal *engine, struct run *run, enum codec_verb verb, const struct text *body,
                         codec_done *done)
{
    coding_forget(engine, run);
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
    run_due(engine, run, TIME_NEVER);
    return true;
}

static struct run *coding_take(void *context, struct temporal **ret_engine)
{
    struct coding *coding = context;
    struct run *run = coding->run;
    *ret_engine = coding->engine;
    run->coding = NULL;
    free(coding);
    return run;
}

/* --- a start --- */

static void encoded(void *context, const struct codec_result *result)
{
    struct temporal *engine;
    struct run *run = coding_take(context, &engine);
    struct bytes message = {NULL, 0};
    if (result->outcome != CODEC_OK) {
        start_not_encoded(engine, run, result->outcome == CODEC_REFUSED, result->text);
        return;
    }
    enum weir_status status = payloads_into_start(run->message, result->body, result->length, &message);
    if (status == WEIR_FAILED) {
        start_not_encoded(engine, run, false, "this server is no payload codec: it gave no list of as many payloads");
    } else if (status != WEIR_OK) {
        run_due(engine, run, run_back_off(engine, run));
    } else {
        free(run->message.data);
        run->message = message;
        run->is_encoded = true;
        run_due(engine, run, temporal_now(engine));
    }
}

bool coding_encodes(struct temporal *engine, struct run *run)
{
    struct text body = {.max = 2 * PAYLOADS_BYTES_MAX};
    if (engine->wire.codec.call == NULL || run->is_encoded) {
        return false;
    }
    bool is_read = payloads_of_start(run->message, &body) == WEIR_OK;
    run->is_encoded = is_read && body.length == 0; /* it has neither arguments nor a memo */
    if (!run->is_encoded && (!is_read || !coding_begin(engine, run, CODEC_ENCODE, &body, encoded))) {
        run_due(engine, run, run_back_off(engine, run));
    }
    text_close(&body);
    return !run->is_encoded;
}

/* --- an end --- */

static void decoded(void *context, const struct codec_result *result)
{
    struct temporal *engine;
    struct run *run = coding_take(context, &engine);
    const char *text = result->text;
    enum weir_status status = WEIR_OK;
    if (result->outcome == CODEC_OK) {
        status = closing_decode(&run->closing, result->body, result->length);
        text = "this server is no payload codec: it gave no list of as many payloads";
    }
    int64_t now_us = temporal_now(engine);
    run->decoding_us = run->decoding_us == 0 ? now_us : run->decoding_us;
    bool is_done = result->outcome == CODEC_OK && status == WEIR_OK;
    bool is_over = result->outcome == CODEC_REFUSED || now_us - run->decoding_us >= CODEC_PATIENCE_US;
    if (is_done || is_over) {
        end_report_decoded(engine, run, is_done ? NULL : text);
    } else {
        run_due(engine, run, run_back_off(engine, run)); /* the end is read again */
    }
}

bool coding_decodes(struct temporal *engine, struct run *run, struct closing *closing)
{
    if (closing->encoded.length == 0) {
        return false;
    }
    call_forget(run->call, false);
    follow_end(engine, run);
    closing_close(&run->closing);
    run->closing = *closing;
    *closing = (struct closing){.kind = CLOSING_NONE};
    run->state = RUN_CLOSING;
    if (!coding_begin(engine, run, CODEC_DECODE, &run->closing.encoded, decoded)) {
        run_due(engine, run, run_back_off(engine, run));
    }
    return true;
}

void coding_keep(struct temporal *engine, struct closing *closing, const struct grpc_result *result)
{
    bool has_payloads = closing->kind == CLOSING_COMPLETED || closing->kind == CLOSING_FAILED;
    if (engine->wire.codec.call != NULL && has_payloads && closing->next_run_id[0] == '\0' &&
        !closing_keep_encoded(closing, result->response, result->response_length)) {
        text_close(&closing->encoded); /* no memory: it is reported as it is */
    }
}
