/* Steps that send an HTTP request. step_run.c describes the life of an attempt; this file makes the request and translates
 * its result.
 *
 *   1. The prepared URL, headers and body become a request. The headers of the definition and those with secrets are
 *      private: they do not go to another origin after a redirect.
 *   2. The client's thread calls request_done(). It decides by the outcome and the status: done, again, failed for good, or
 *      accepted (step_callback.h).
 *   3. The answer to the call brings the step back to the loop (step_handler_finish()).
 *
 * After the answer to a call the loop may free the execution, so request_done() must not touch it or its definition then.
 * No secret is in a message: the functions that answer a call hide them. */
#include "engine/in_process/step_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "base/libssl.h"
#include "engine/in_process/handler_pool.h"
#include "engine/in_process/http_client.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_callback.h"
#include "engine/in_process/step_handler.h"
#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"
#include "engine/in_process/step_secrets.h"
#include "weir/handler.h"

enum { SIGNATURE_BYTES = 32, CODE_MAX = 16 };

struct step_request {
    struct http_request *request;
    struct weir_call *call;
    const struct step_http *step; /* of the definition, which lives until the call is answered */
};

static void step_request_free(struct step_request *sent)
{
    if (sent != NULL) {
        http_request_free(sent->request);
        free(sent);
    }
}

/* --- the headers --- */

static enum weir_status add_line(struct text *lines, const char *name, const char *value)
{
    enum weir_status status = text_format(lines, "%s: %s", name, value);
    return status == WEIR_OK ? text_add(lines, "", 1) : status;
}

/* The headers that weir sets itself. They go to the target of a redirect as well. */
static enum weir_status add_own_headers(struct http_request *request, const struct step_run *run)
{
    const struct execution *execution = run->execution;
    const char *id = step_run_step(run)->id;
    char text[STEP_ID_MAX + UUID_TEXT_MAX + 32];
    struct text *lines = &request->public_headers;
    (void)snprintf(text, sizeof text, "%s-%s", execution->id, id);
    enum weir_status status = add_line(lines, "Idempotency-Key", text);
    status = status == WEIR_OK ? add_line(lines, "Weir-Execution", execution->id) : status;
    status = status == WEIR_OK ? add_line(lines, "Weir-Step", id) : status;
    (void)snprintf(text, sizeof text, "%d", run->attempt);
    status = status == WEIR_OK ? add_line(lines, "Weir-Attempt", text) : status;
    (void)snprintf(text, sizeof text, "%lld", (long long)execution->fence);
    status = status == WEIR_OK ? add_line(lines, "Weir-Fence", text) : status;
    char trace[TRACEPARENT_SIZE];
    step_write_traceparent(run, trace);
    status = status == WEIR_OK && trace[0] != '\0' ? add_line(lines, "traceparent", trace) : status;
    /* libcurl would wait for an answer before it sends a large body. */
    return status == WEIR_OK ? text_add(lines, "Expect:", sizeof "Expect:") : status;
}

/* The headers of the definition. Content-Type stays with the body, also after a redirect. */
static enum weir_status add_step_headers(struct http_request *request, const struct step_inputs *inputs)
{
    static const char type[] = "Content-Type:";
    enum weir_status status = WEIR_OK;
    bool has_type = false;
    for (size_t at = 0; at < inputs->headers.length && status == WEIR_OK; at += strlen(inputs->headers.data + at) + 1) {
        const char *line = inputs->headers.data + at;
        bool is_type = strncasecmp(line, type, sizeof type - 1) == 0;
        has_type = has_type || is_type;
        status = text_add(is_type ? &request->public_headers : &request->private_headers, line, strlen(line) + 1);
    }
    if (status == WEIR_OK && !has_type && strcmp(request->method, "GET") != 0) {
        const char *line = !inputs->has_input      ? type /* libcurl sends none then */
                           : inputs->input_is_json ? "Content-Type: application/json"
                                                   : "Content-Type: text/plain; charset=utf-8";
        status = text_add(&request->public_headers, line, strlen(line) + 1);
    }
    return status;
}

/* Weir-Signature: t=<seconds>,v1=<hex of HMAC-SHA256 over "t.body">. */
static enum weir_status add_signature(struct http_request *request, const struct step_run *run, const char *key)
{
    const struct execution *execution = run->execution;
    int64_t now_us = time_add(loop_now(&execution->runner->loop), execution->store_ahead_us);
    struct text signed_text = {.max = TEMPLATE_RESULT_BYTES_MAX + 32};
    unsigned char mac[SIGNATURE_BYTES];
    char hex[2 * SIGNATURE_BYTES + 1];
    char value[sizeof hex + 48];
    unsigned length = sizeof mac;
    long long seconds = (long long)(now_us / MICROSECONDS_PER_SECOND);
    enum weir_status status = text_format(&signed_text, "%lld.", seconds);
    if (status == WEIR_OK && request->body.length > 0) {
        status = text_add(&signed_text, request->body.data, request->body.length);
    }
    if (status == WEIR_OK && HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)signed_text.data,
                                  signed_text.length, mac, &length) == NULL) {
        status = WEIR_OUT_OF_MEMORY;
    }
    text_close(&signed_text);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof mac; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    }
    (void)snprintf(value, sizeof value, "t=%lld,v1=%s", seconds, hex);
    return add_line(&request->private_headers, "Weir-Signature", value);
}

/* The headers with secrets. WEIR_FAILED: a value cannot be in a header. */
static enum weir_status add_secret_headers(struct http_request *request, const struct step_run *run,
                                           const struct step_secrets *secrets)
{
    const struct step *step = step_run_step(run);
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < step->secret_count && status == WEIR_OK; i++) {
        const char *value = secrets->values[i].value;
        const char *header = step->secrets[i].variable;
        bool is_bearer =
            header == NULL && step->http.bearer != NULL && strcmp(step->secrets[i].name, step->http.bearer) == 0;
        for (const char *c = value; (header != NULL || is_bearer) && *c != '\0'; c++) {
            if ((unsigned char)*c < ' ' || *c == 127) {
                return WEIR_FAILED;
            }
        }
        if (header != NULL) {
            status = add_line(&request->private_headers, header, value);
        } else if (is_bearer) {
            status = text_add_string(&request->private_headers, "Authorization: Bearer ");
            status = status == WEIR_OK ? text_add(&request->private_headers, value, strlen(value) + 1) : status;
        }
    }
    if (status == WEIR_OK && run->callback != NULL) {
        const char *url = run->execution->runner->options.callback_url;
        status = add_line(&request->private_headers, "Weir-Callback", run->callback->token);
        status = status == WEIR_OK && url != NULL ? add_line(&request->private_headers, "Weir-Callback-Url", url) : status;
    }
    return status == WEIR_OK && step->http.sign != NULL
               ? add_signature(request, run, step_secrets_find(secrets, step->http.sign))
               : status;
}

/* --- the result --- */

static bool is_expected(const struct step_http *step, int status)
{
    for (size_t i = 0; i < step->expect_count; i++) {
        if (status >= step->expect[i].first && status <= step->expect[i].last) {
            return true;
        }
    }
    return step->expect_count == 0 && status >= 200 && status <= 299;
}

/* True when the same request may succeed later. */
static bool is_passing(int status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

/* {"status": 200, "body": "text"}; NULL: out of memory. */
static char *describe_text_answer(const struct http_result *result)
{
    struct text text = {.max = HTTP_BODY_BYTES_MAX};
    struct text written = {.max = 8 * HTTP_BODY_BYTES_MAX};
    bool is_fine = result->length == 0 || text_add(&text, result->body, result->length) == WEIR_OK;
    bool is_utf8 = is_fine && text_is_utf8(text.data == NULL ? "" : text.data, text.length);
    for (size_t i = 0; is_fine && i < text.length; i++) { /* stores take neither NULs nor bytes that are no UTF-8 */
        bool is_bad = text.data[i] == '\0' || (!is_utf8 && (unsigned char)text.data[i] >= 0x80);
        text.data[i] = is_bad ? '?' : text.data[i];
    }
    json_t *value = is_fine ? json_object() : NULL;
    is_fine = json_object_set_new(value, "status", json_integer(result->status)) == 0 &&
              json_object_set_new(value, "body", json_stringn(text.data == NULL ? "" : text.data, text.length)) == 0 &&
              json_write(value, &written, NULL) == WEIR_OK;
    json_decref(value);
    text_close(&text);
    if (!is_fine) {
        text_close(&written);
    }
    return written.data;
}

/* JSON is the output as it is. */
static void complete_call(struct weir_call *call, const struct http_result *result)
{
    json_t *value = NULL;
    enum weir_status status =
        result->length == 0 ? WEIR_INVALID_ARGUMENT : json_read(result->body, result->length, &value, NULL);
    json_decref(value);
    char *described = status == WEIR_OK ? NULL : describe_text_answer(result);
    if (status == WEIR_OUT_OF_MEMORY || (status != WEIR_OK && described == NULL)) {
        handler_pool_answer_starved(call);
    } else {
        weir_done(call, described != NULL ? described : result->body);
    }
    free(described);
}

/* An answer with another status than the step expects. */
static void reject_answer(struct weir_call *call, const struct http_result *result)
{
    char code[CODE_MAX];
    struct text error = {.max = HTTP_BODY_BYTES_MAX + 64};
    (void)snprintf(code, sizeof code, "http_%d", result->status);
    /* Without memory for the text the code alone has to do. */
    enum weir_status status = text_format(&error, "status %d%s", result->status, result->length > 0 ? ": " : "");
    status = status == WEIR_OK && result->length > 0 ? text_add(&error, result->body, result->length) : status;
    (void)status;
    int64_t wait_us =
        result->retry_after_us < STEP_HTTP_RETRY_AFTER_MAX_US ? result->retry_after_us : STEP_HTTP_RETRY_AFTER_MAX_US;
    if (!is_passing(result->status)) {
        weir_fail(call, code, error.data);
    } else if (wait_us >= 0) {
        weir_retry_after(call, wait_us, code, error.data);
    } else {
        weir_retry(call, code, error.data);
    }
    text_close(&error);
}

/* "POST https://api.example.com/orders: status 200, 12 bytes, 30 ms". Without the query, which may hold more than a log
 * should. */
static void log_request(const struct step_request *sent, const struct http_result *result)
{
    char line[HTTP_TEXT_MAX + 1024];
    const char *url = sent->request->url.data;
    size_t shown = strcspn(url, "?#");
    int length = snprintf(line, sizeof line, "%s %.*s: ", sent->request->method, shown < 1000 ? (int)shown : 1000, url);
    char *rest = line + length;
    size_t size = sizeof line - (size_t)length;
    if (result->outcome == HTTP_ANSWERED) {
        (void)snprintf(rest, size, "status %d, %zu bytes, %lld ms\n", result->status, result->length,
                       (long long)(result->took_us / MICROSECONDS_PER_MS));
    } else {
        (void)snprintf(rest, size, "%s\n",
                       result->outcome == HTTP_TIMED_OUT ? "no answer within the timeout" : result->text);
    }
    if (result->outcome != HTTP_CANCELLED && result->outcome != HTTP_STARVED) {
        weir_call_log(sent->call, line, strlen(line));
    }
}

/* Step 2, in the client's thread. */
static void request_done(struct http_request *request, const struct http_result *result)
{
    struct step_request *sent = request->context;
    struct weir_call *call = sent->call;
    log_request(sent, result);
    switch (result->outcome) {
    case HTTP_ANSWERED:
        if (result->status == 202 && sent->step->callback_us > 0 && request->is_elsewhere) {
            weir_fail(call, "http_202",
                      "status 202 of another origin, which a redirect led to without the token of the report");
        } else if (result->status == 202 && sent->step->callback_us > 0) {
            handler_pool_answer_accepted(call);
        } else if (is_expected(sent->step, result->status)) {
            complete_call(call, result);
        } else {
            reject_answer(call, result);
        }
        break;
    case HTTP_UNREACHABLE:
        weir_retry(call, "http_unreachable", result->text);
        break;
    case HTTP_TIMED_OUT:
        weir_retry(call, "timeout", "the request took longer than its timeout");
        break;
    case HTTP_REFUSED:
        weir_fail(call, HTTP_NOT_ALLOWED_CODE, result->text);
        break;
    case HTTP_BAD_URL:
        weir_fail(call, "http_bad_url", result->text);
        break;
    case HTTP_TOO_LARGE:
        weir_fail(call, "output_too_large", result->text);
        break;
    case HTTP_CANCELLED:
        weir_fail(call, "cancelled", "the request was cancelled");
        break;
    case HTTP_STARVED:
        handler_pool_answer_starved(call);
        break;
    }
    step_request_free(sent);
}

static void cancel_request(struct weir_call *call, void *context)
{
    (void)call;
    http_request_cancel(context);
}

/* --- the start --- */

/* Makes the request of the step from its inputs, which give up their body. */
static enum weir_status make_request(struct step_run *run, struct step_request *sent)
{
    const struct step *step = step_run_step(run);
    struct step_inputs *inputs = run->inputs;
    struct http_request *request = http_request_new();
    sent->request = request;
    if (request == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    request->method = step->http.method;
    request->redirects_max = step->http.redirects;
    request->timeout_us = step->timeout_us > 0 ? step->timeout_us : STEP_HTTP_TIMEOUT_US_DEFAULT;
    request->lane = &run->execution->tenant->requests;
    request->done = request_done;
    request->context = sent;
    request->url = inputs->url;
    inputs->url = (struct text){.max = 0};
    request->has_body = inputs->has_input;
    request->body = inputs->input;
    inputs->input = (struct text){.max = 0};
    enum weir_status status = add_own_headers(request, run);
    status = status == WEIR_OK ? add_step_headers(request, inputs) : status;
    return status == WEIR_OK ? add_secret_headers(request, run, sent->call->secrets) : status;
}

/* The request cannot be sent. */
static void step_http_refuse(struct step_run *run, enum weir_status status, const struct weir_error *error)
{
    if (status == WEIR_FAILED || status == WEIR_INVALID_CONFIG) {
        step_run_fail(run, "http_failed", error->message, status == WEIR_FAILED);
    } else {
        step_run_wait_for_resources(run, status == WEIR_SYSTEM ? EAGAIN : ENOMEM);
    }
}

void step_http_start(struct step_run *run)
{
    INVARIANT(run->inputs != NULL && run->phase == PHASE_RECORDING_START);
    struct runner *runner = run->execution->runner;
    struct weir_error error = {.message = ""};
    struct weir_call *call = NULL;
    if (run->inputs->url.length == 0) {
        step_run_fail(run, "http_bad_url", "the URL is empty", true);
        return;
    }
    enum weir_status status = step_call_new(run, &call, &error);
    if (status != WEIR_OK) {
        step_run_wait_for_secret(run, status, error.message);
        return;
    }
    struct step_request *sent = calloc(1, sizeof *sent);
    status = sent == NULL ? WEIR_OUT_OF_MEMORY : http_client_start(&runner->requests, &error);
    if (status == WEIR_OK) {
        *sent = (struct step_request){.call = call, .step = &step_run_step(run)->http};
        status = make_request(run, sent);
        if (status == WEIR_FAILED) {
            (void)error_set(&error, status, "a header is too large, or its secret holds a control character");
        }
    }
    if (status != WEIR_OK) {
        step_request_free(sent);
        weir_call_free(call);
        step_http_refuse(run, status, &error);
        return;
    }
    run->call = call;
    run->stop = STOP_NONE;
    step_run_drop_inputs(run);
    step_run_set_phase(run, PHASE_RUNNING);
    handler_pool_adopt(&runner->handlers, call);
    weir_call_on_cancel(call, cancel_request, sent->request);
    http_client_submit(&runner->requests, sent->request);
}
