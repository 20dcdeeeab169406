/* Reports of functions that http steps have called: complete, fail (docs/definitions.md, "callback").
 *
 * The token of the attempt is in the body, because it is the right and names the execution. So a function needs no token
 * of the API, and no log of a proxy gets a secret. A wrong token has the answer of an attempt that is over. It does not
 * count as a guess of its address: a late report is no guess, and its address may be that of a proxy. A secret of 256
 * random bits cannot be guessed, and store_call_back() looks for the token without a lock. */
#include "base/error.h"
#include "base/json.h"
#include "server/routes/body.h"
#include "server/routes/routes.h"

static void report_callback(struct store *store, struct http_request *request, struct http_answer *answer,
                            const struct callback *callback)
{
    struct weir_error error = {.status = WEIR_OK};
    struct sent_signal sent = {.seq = 0};
    enum weir_status status = store_call_back(store, callback, &sent, &error);
    if (status == WEIR_OK) {
        respond_json(answer, 202, json_pack("{s:s, s:b}", "id", sent.id, "duplicate", (int)sent.duplicate));
    } else {
        respond_error(request, answer, &error, NULL);
    }
}

void answer_complete_callback(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct text output = {.max = CALLBACK_OUTPUT_MAX + 1};
    struct callback callback = {.token = NULL};
    const json_t *value = NULL;
    const struct body_member members[] = {
        {.name = "callback", .kind = BODY_TEXT, .to = &callback.token, .is_required = true},
        {.name = "output", .kind = BODY_VALUE, .to = &value}};
    const char *at_fault = NULL;
    json_t *body = NULL;
    (void)api;
    enum weir_status status = body_read(request, members, 2, &body, &at_fault, &error);
    if (status == WEIR_OK && value != NULL && json_write(value, &output, &error) != WEIR_OK) {
        at_fault = "/output";
        status = error_set(&error, WEIR_INVALID_ARGUMENT, "the output has more than %d bytes", CALLBACK_OUTPUT_MAX);
        error_hint(&error, "store the data elsewhere and pass a reference to it");
    }
    if (status == WEIR_OK) {
        callback.output = output.data;
        report_callback(store, request, answer, &callback);
    } else {
        respond_error(request, answer, &error, at_fault);
    }
    json_decref(body);
    text_close(&output);
}

void answer_fail_callback(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct callback callback = {.error_code = "callback_failed"};
    int may_retry = 1;
    const struct body_member members[] = {
        {.name = "callback", .kind = BODY_TEXT, .to = &callback.token, .is_required = true},
        {.name = "error_code", .kind = BODY_TEXT, .to = &callback.error_code},
        {.name = "error", .kind = BODY_TEXT, .to = &callback.error},
        {.name = "retry", .kind = BODY_SWITCH, .to = &may_retry}};
    const char *at_fault = NULL;
    json_t *body = NULL;
    (void)api;
    if (body_read(request, members, 4, &body, &at_fault, &error) != WEIR_OK) {
        respond_error(request, answer, &error, at_fault);
        return;
    }
    callback.is_final = may_retry == 0;
    report_callback(store, request, answer, &callback);
    json_decref(body);
}
