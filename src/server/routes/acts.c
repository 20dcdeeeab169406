/* Acts on one execution: cancel, retry, release, wake, dismiss, complete, signal, approve, reject.
 *
 *     read the execution -> If-Match -> the act, which checks the state again in its transaction -> 202
 *
 * A refusal because of the state has the state and the acts that it allows, so that a client need not know the table of
 * states. If-Match compares what was read just before the act: it protects from acting on what a person saw some time ago,
 * and the store protects from everything else. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/entity_tag.h"
#include "server/routes/act_order.h"
#include "server/routes/body.h"
#include "server/routes/execution_find.h"
#include "server/routes/routes.h"
#include "store/bulk_act.h"
#include "store/complete.h"

/* --- refusals --- */

/* {"execution_status", "allowed_actions"}: `status` is that of HTTP (RFC 9457); NULL: it cannot be read. */
static json_t *state_members(struct store *store, const char *id)
{
    json_t *execution = NULL;
    enum item_state state;
    if (store_show(store, id, &execution, NULL) != WEIR_OK) {
        return NULL;
    }
    const char *name = json_string_value(json_object_get(execution, "status"));
    json_t *actions = json_array();
    static const enum bulk_act acts[] = {BULK_CANCEL, BULK_RETRY, BULK_RELEASE, BULK_DISMISS};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0] && name != NULL && item_state_parse(name, &state); i++) {
        if ((bulk_act_states(acts[i]) & (1U << state)) != 0) {
            (void)json_array_append_new(actions, json_string(bulk_act_name(acts[i])));
        }
    }
    if (name != NULL && item_state_parse(name, &state) && state == ITEM_WAITING) {
        (void)json_array_append_new(actions, json_string(bulk_act_name(BULK_WAKE)));
    }
    json_t *members = json_pack("{s:s?, s:o}", "execution_status", name, "allowed_actions", actions);
    json_decref(execution);
    return members;
}

/* The state is read again for the refusal: it may have changed since the act began. */
static void refuse_act(struct store *store, const struct http_request *request, struct http_answer *answer, const char *id,
                       const struct weir_error *error)
{
    respond_refusal(request, answer, error, error->status == WEIR_ILLEGAL_STATE ? state_members(store, id) : NULL);
}

/* Finds the execution and compares If-Match. False: the answer is filled. */
static bool begin_act(struct store *store, struct http_request *request, struct http_answer *answer, char *id,
                      json_t **ret_execution)
{
    struct weir_error error = {.status = WEIR_OK};
    json_t *execution = NULL;
    const char *wanted = request->fields[FIELD_IF_MATCH];
    if (execution_find(store, request, id, &execution, &error) != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
        return false;
    }
    const char *tag = wanted == NULL ? NULL : entity_tag_of(execution, &request->arena);
    if (wanted != NULL && (tag == NULL || !entity_tag_has_state(wanted, tag))) {
        answer->etag = tag;
        respond_problem(request, answer, 412, "precondition_failed",
                        "the execution has changed since the answer with the tag of If-Match",
                        "read it again, and repeat the act with its new ETag", NULL);
        json_decref(execution);
        return false;
    }
    *ret_execution = execution;
    return true;
}

/* --- cancel, retry, release, wake, dismiss, migrate --- */

/* The answer is the item of the command line's JSON. Nothing is repeated here after an unknown commit: the client reads the
 * execution and sees. */
static void answer_act(struct store *store, struct http_request *request, struct http_answer *answer, enum bulk_act act,
                       const struct act_order *order)
{
    struct weir_error error = {.status = WEIR_OK};
    struct bulk_result result = {.matched = 0};
    char id[UUID_TEXT_MAX];
    json_t *execution = NULL;
    if (!begin_act(store, request, answer, id, &execution)) {
        return;
    }
    json_decref(execution);
    const struct execution_filter filter = {.id = id};
    if (store_bulk_one(store, act, order, &filter, &result, &error) == WEIR_OK) {
        respond_json(answer, 202, bulk_act_item(act, &result));
    } else {
        refuse_act(store, request, answer, id, &error);
    }
}

void answer_cancel_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    answer_act(store, request, answer, BULK_CANCEL, NULL);
}

/* An act with options in its body: a retry, a wake, a migration. */
static void answer_act_with_order(struct store *store, struct http_request *request, struct http_answer *answer,
                                  enum bulk_act act, const struct body_member *members, size_t count)
{
    struct weir_error error = {.status = WEIR_OK};
    struct act_order order = {.from = NULL};
    const char *at_fault = NULL;
    json_t *body = NULL;
    enum weir_status status = body_read(request, members, count, &body, &at_fault, &error);
    if (status == WEIR_OK) {
        status = act_order_read(body, act, &order, &at_fault, &error);
    }
    if (status == WEIR_OK) {
        answer_act(store, request, answer, act, &order);
    } else {
        respond_error(request, answer, &error, at_fault);
    }
    json_decref(body);
}

void answer_retry_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    const json_t *option = NULL; /* read by act_order_read() */
    const struct body_member members[] = {{.name = "keep_finished", .kind = BODY_VALUE, .to = &option},
                                          {.name = "from_step", .kind = BODY_VALUE, .to = &option}};
    answer_act_with_order(store, request, answer, BULK_RETRY, members, 2);
}

void answer_release_execution(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    (void)api;
    answer_act(store, request, answer, BULK_RELEASE, NULL);
}

void answer_wake_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    const json_t *option = NULL;
    const struct body_member members[] = {{.name = "waiting_for", .kind = BODY_VALUE, .to = &option}};
    answer_act_with_order(store, request, answer, BULK_WAKE, members, 1);
}

void answer_dismiss_execution(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    (void)api;
    answer_act(store, request, answer, BULK_DISMISS, NULL);
}

void answer_migrate_execution(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    (void)api;
    const json_t *option = NULL;
    const struct body_member members[] = {{.name = "to_version", .kind = BODY_VALUE, .to = &option}};
    answer_act_with_order(store, request, answer, BULK_MIGRATE, members, 1);
}

/* --- complete --- */

/* A text of the body that may be missing. It lives as long as the body. */
static enum weir_status take_completion_text(const json_t *body, const char *key, const char **to, const char **ret_pointer,
                                             struct weir_error *error)
{
    const json_t *value = json_object_get(body, key);
    if (value == NULL || json_is_null(value)) {
        return WEIR_OK;
    }
    *ret_pointer = key;
    if (!json_is_string(value) || json_string_has_nul(value)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is a text without NUL, not %s", key, json_type_name(value));
    }
    *to = json_string_value(value);
    return WEIR_OK;
}

/* The name of an end, as `weir show` prints it. */
static enum weir_status read_end_status(const char *name, enum record_kind *ret_kind, struct weir_error *error)
{
    if (name == NULL || strcmp(name, "COMPLETED") == 0) {
        *ret_kind = RECORD_COMPLETED;
    } else if (strcmp(name, "FAILED") == 0) {
        *ret_kind = RECORD_FAILED;
    } else if (strcmp(name, "CANCELLED") == 0) {
        *ret_kind = RECORD_CANCELLED;
    } else {
        return error_set(error, WEIR_INVALID_ARGUMENT, "status is COMPLETED, FAILED or CANCELLED, not \"%s\"", name);
    }
    return WEIR_OK;
}

/* {"status", "result", "error_code", "error", "run_id", "fence"}: all may be missing. *result: JSON text. */
static enum weir_status read_completion(json_t *body, struct completion *completion, struct text *result,
                                        const char **ret_pointer, struct weir_error *error)
{
    const char *status_name = NULL;
    const char *const names[] = {"status", "error_code", "error", "run_id"};
    const char **const texts[] = {&status_name, &completion->error_code, &completion->error, &completion->run_id};
    const json_t *value = json_object_get(body, "result");
    const json_t *fence = json_object_get(body, "fence");
    static const char *const known[] = {"status", "error_code", "error", "run_id", "result", "fence", NULL};
    enum weir_status status = request_check_keys(body, known, ret_pointer, error);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && status == WEIR_OK; i++) {
        status = take_completion_text(body, names[i], texts[i], ret_pointer, error);
    }
    if (status == WEIR_OK) {
        *ret_pointer = "status";
        status = read_end_status(status_name, &completion->kind, error);
    }
    if (status == WEIR_OK && fence != NULL && (!json_is_integer(fence) || json_integer_value(fence) < 1)) {
        *ret_pointer = "fence";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "fence is a whole number from 1");
    }
    if (status != WEIR_OK) {
        return status;
    }
    completion->fence = json_integer_value(fence);
    *ret_pointer = "result";
    if (value != NULL) {
        status = json_write(value, result, error);
        completion->result = result->data;
    }
    return status;
}

void answer_complete_execution(struct api *api, struct store *store, struct http_request *request,
                               struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct text result = {.max = STEP_OUTPUT_BYTES_MAX + 1};
    char id[UUID_TEXT_MAX];
    struct completion completion = {.id = id};
    json_t *execution = NULL;
    json_t *body = NULL;
    const char *at_fault = NULL;
    enum weir_status status = request_object(request, &body, &error);
    if (status == WEIR_OK) {
        status = read_completion(body, &completion, &result, &at_fault, &error);
    }
    if (status != WEIR_OK) {
        respond_body_error(request, answer, &error, at_fault);
    } else if (begin_act(store, request, answer, id, &execution)) {
        json_decref(execution);
        if (store_complete(store, &completion, &error) == WEIR_OK) {
            const char *end = completion.kind == RECORD_FAILED      ? "FAILED"
                              : completion.kind == RECORD_CANCELLED ? "CANCELLED"
                                                                    : "COMPLETED";
            respond_json(answer, 202, json_pack("{s:s, s:s}", "id", id, "status", end));
        } else {
            refuse_act(store, request, answer, id, &error);
        }
    }
    json_decref(body);
    text_close(&result);
}

/* --- signal --- */

/* {"name", "data", "key"}. Texts live as long as the body, `data` as long as the text. */
static enum weir_status read_signal(json_t *body, struct signal_request *request, struct text *data,
                                    const char **ret_pointer, struct weir_error *error)
{
    static const char *const known[] = {"name", "data", "key", NULL};
    const json_t *value = json_object_get(body, "data");
    enum weir_status status = request_check_keys(body, known, ret_pointer, error);
    if (status == WEIR_OK) {
        status = take_completion_text(body, "name", &request->name, ret_pointer, error);
    }
    if (status == WEIR_OK && (request->name == NULL || request->name[0] == '\0')) {
        *ret_pointer = "name";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "name is missing: the name of the signal");
    }
    if (status == WEIR_OK) {
        status = take_completion_text(body, "key", &request->key, ret_pointer, error);
    }
    if (status == WEIR_OK && value != NULL) {
        *ret_pointer = "data";
        status = json_write(value, data, error);
        request->data = data->data;
    }
    return status;
}

/* The key may be a field of the head, as that of an enqueue. */
static enum weir_status take_key_of_field(struct http_request *request, struct signal_request *signal,
                                          struct weir_error *error)
{
    const char *key = NULL;
    enum weir_status status = request_key(request, &key, error);
    if (status == WEIR_OK && key != NULL && signal->key != NULL && strcmp(key, signal->key) != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the body has another key than the field Idempotency-Key");
    }
    signal->key = status == WEIR_OK && key != NULL ? key : signal->key;
    return status;
}

/* `seq` is left out of a signal that a service has. */
static json_t *signal_json(const char *id, const char *name, const struct sent_signal *sent)
{
    json_t *answer = json_pack("{s:s, s:s}", "id", id, "signal", name);
    if (answer != NULL && sent->seq > 0) {
        (void)json_object_set_new(answer, "seq", json_integer(sent->seq));
        (void)json_object_set_new(answer, "duplicate", json_boolean(sent->duplicate));
    }
    return answer;
}

void answer_signal_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct text data = {.max = PARAMS_BYTES_MAX};
    char id[UUID_TEXT_MAX];
    struct signal_request signal = {.id = id};
    struct sent_signal sent = {.seq = 0};
    json_t *execution = NULL;
    json_t *body = NULL;
    const char *at_fault = NULL;
    enum weir_status status = request_object(request, &body, &error);
    if (status == WEIR_OK) {
        status = read_signal(body, &signal, &data, &at_fault, &error);
    }
    if (status == WEIR_OK) {
        at_fault = NULL;
        status = take_key_of_field(request, &signal, &error);
    }
    if (status != WEIR_OK) {
        respond_body_error(request, answer, &error, at_fault);
    } else if (begin_act(store, request, answer, id, &execution)) {
        if (api->signal(api->signal_context, store, execution, &signal, &sent, &error) == WEIR_OK) {
            respond_json(answer, 202, signal_json(id, signal.name, &sent));
        } else {
            refuse_act(store, request, answer, id, &error);
        }
        json_decref(execution);
    }
    json_decref(body);
    text_close(&data);
}

/* --- approve, reject --- */

/* The store checks the right of the actor of the request. */
static void answer_decision(struct store *store, struct http_request *request, struct http_answer *answer, bool approved)
{
    struct weir_error error = {.status = WEIR_OK};
    struct approval approval = {.approved = approved};
    struct sent_signal sent = {.seq = 0};
    const struct body_member members[] = {{.name = "step", .kind = BODY_TEXT, .to = &approval.step},
                                          {.name = "comment", .kind = BODY_TEXT, .to = &approval.comment}};
    char id[UUID_TEXT_MAX];
    const char *at_fault = NULL;
    json_t *body = NULL;
    json_t *execution = NULL;
    if (body_read(request, members, 2, &body, &at_fault, &error) != WEIR_OK) {
        respond_error(request, answer, &error, at_fault);
        return;
    }
    if (begin_act(store, request, answer, id, &execution)) {
        json_decref(execution);
        if (store_approve(store, id, &approval, &sent, &error) == WEIR_OK) {
            respond_json(answer, 202,
                         json_pack("{s:s, s:s, s:s}", "id", id, "act", approved ? "approve" : "reject", "step", sent.step));
        } else {
            refuse_act(store, request, answer, id, &error);
        }
    }
    json_decref(body);
}

void answer_approve_execution(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    (void)api;
    answer_decision(store, request, answer, true);
}

void answer_reject_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    answer_decision(store, request, answer, false);
}

/* --- update --- */

void answer_update_execution(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct weir_error error = {.status = WEIR_OK};
    struct state_update update = {.state = NULL};
    struct updated_state updated = {.action = 0};
    const json_t *variables = NULL;
    const struct body_member members[] = {{.name = "state", .kind = BODY_TEXT, .to = &update.state},
                                          {.name = "variables", .kind = BODY_VALUE, .to = &variables},
                                          {.name = "if_state", .kind = BODY_TEXT, .to = &update.if_state}};
    struct text text = {.max = PARAMS_BYTES_MAX};
    char id[UUID_TEXT_MAX];
    const char *at_fault = NULL;
    json_t *body = NULL;
    json_t *execution = NULL;
    (void)api;
    enum weir_status status = body_read(request, members, 3, &body, &at_fault, &error);
    if (status == WEIR_OK && variables != NULL) {
        status = json_write(variables, &text, &error);
        update.variables = text.data;
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, at_fault);
    } else if (begin_act(store, request, answer, id, &execution)) {
        json_decref(execution);
        if (store_update_state(store, id, &update, &updated, &error) == WEIR_OK) {
            respond_json(answer, 200,
                         json_pack("{s:s, s:s, s:i}", "id", id, "state", updated.state, "seq", updated.action));
        } else {
            refuse_act(store, request, answer, id, &error);
        }
    }
    json_decref(body);
    text_close(&text);
}
