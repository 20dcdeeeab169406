/* The verbs of signals: the checks of a signal, and the requests that wait for a node.
 *
 * The checks need no database, so that all drivers refuse the same signals with the same texts. The driver finds out
 * whether the execution takes the signal. It may have ended, wait for other names, or keep too many signals, or its
 * service has them (refusal.c). The service of Temporal takes other names and more data, so neither is checked here.
 *
 * The data is kept as text and never changed: the step has as its output what the caller has sent, byte for byte.
 * Runs in the caller's thread.
 */
#include <string.h>

#include "base/callback_token.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "queue/name.h"
#include "store/call.h"
#include "store/refusal.h"

/* Only the definition has the names that a node takes, and Temporal takes any. */
static enum weir_status check_signal_name(const char *name, struct weir_error *error)
{
    if (name != NULL && name[0] != '\0') {
        return WEIR_OK;
    }
    return error_set(error, WEIR_INVALID_ARGUMENT, "the name of the signal is missing");
}

/* Any JSON, which becomes the output of a step. It is parsed here once, so that no step fails by it later. */
static enum weir_status check_signal_data(const char *data, struct weir_error *error)
{
    size_t length = data == NULL ? 0 : strlen(data);
    json_t *value = NULL;
    if (data == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = json_read(data, length, &value, error);
    json_decref(value);
    if (status == WEIR_OK || status == WEIR_OUT_OF_MEMORY) {
        return status;
    }
    error_prefix(error, "the data of the signal");
    if (error != NULL) {
        error->status = WEIR_INVALID_ARGUMENT;
    }
    error_hint(error, "data is JSON, for example {\"by\": \"eve\"}");
    return WEIR_INVALID_ARGUMENT;
}

/* An empty key is refused: it would be the same for all callers that forgot theirs. */
static enum weir_status check_signal_key(const char *key, struct weir_error *error)
{
    size_t length = key == NULL ? 1 : strlen(key);
    if (length > 0 && length <= IDEMPOTENCY_KEY_MAX && (key == NULL || text_is_utf8(key, length))) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "the key of the signal is %s",
              length == 0                    ? "empty"
              : length > IDEMPOTENCY_KEY_MAX ? "too long"
                                             : "not UTF-8");
    error_hint(error, "a key has 1 to %d bytes", IDEMPOTENCY_KEY_MAX);
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status signal_request_check(const struct signal_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL);
    enum weir_status status = check_signal_name(request->name, error);
    if (status == WEIR_OK) {
        status = check_signal_data(request->data, error);
    }
    return status == WEIR_OK ? check_signal_key(request->key, error) : status;
}

enum weir_status store_signal(struct store *store, const struct signal_request *request, struct sent_signal *ret_sent,
                              struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && request->id != NULL && ret_sent != NULL);
    enum weir_status status = signal_request_check(request, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "signal", error, store->driver->signal(store, request, ret_sent, detail));
}

/* The decision goes the way of signals: the same locks, the same way to the node, the same end of a wait. The driver makes
 * its data, because only the store has the time and the actor that count. A step that does not wait yet takes none: nobody
 * approves what is not known. */
enum weir_status store_approve(struct store *store, const char *id, const struct approval *approval,
                               struct sent_signal *ret_sent, struct weir_error *error)
{
    INVARIANT(store != NULL && id != NULL && approval != NULL && ret_sent != NULL);
    const struct signal_request request = {.id = id, .approval = approval};
    const char *comment = approval->comment;
    if (approval->step != NULL && !name_is_valid(approval->step)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.80s\" is not the name of a step", approval->step);
    }
    if (comment != NULL && (strlen(comment) > APPROVAL_COMMENT_MAX || !text_is_utf8(comment, strlen(comment)))) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a comment is UTF-8 of at most %d bytes", APPROVAL_COMMENT_MAX);
    }
    CALL(store, "approve", error, store->driver->signal(store, &request, ret_sent, detail));
}

/* --- callbacks --- */

/* Here, so that a caller gets the same refusal from every driver, and before the token is looked up: a report that is too
 * large must not tell whether its token is right. */
static enum weir_status check_callback(const struct callback *callback, struct weir_error *error)
{
    json_t *value = NULL;
    const char *output = callback->output;
    enum weir_status status = WEIR_OK;
    if (output != NULL && strlen(output) > CALLBACK_OUTPUT_MAX) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the output is %zu bytes, the limit is %d", strlen(output),
                  CALLBACK_OUTPUT_MAX);
        error_hint(error, "store the data elsewhere and pass a reference to it");
        return WEIR_INVALID_ARGUMENT;
    }
    if (output != NULL) {
        status = json_read(output, strlen(output), &value, error);
        json_decref(value);
    }
    if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the output is no JSON");
    }
    if (callback->error_code != NULL &&
        (callback->error_code[0] == '\0' || strlen(callback->error_code) > ERROR_CODE_MAX)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "an error code has 1 to %d bytes", ERROR_CODE_MAX);
    }
    if (callback->error != NULL && strlen(callback->error) > CALLBACK_ERROR_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "an error has at most %d bytes", CALLBACK_ERROR_MAX);
    }
    return status;
}

/* The data of the signal. The output stays the text that it is, so that the numbers of the function are not respelt. */
static enum weir_status write_callback(const struct callback *callback, struct text *to)
{
    if (callback->error_code == NULL) {
        return text_format(to, "{\"output\":%s}", callback->output == NULL ? "null" : callback->output);
    }
    json_t *value = json_pack("{s:s, s:s?}", "error_code", callback->error_code, "error", callback->error);
    enum weir_status status =
        value == NULL || (callback->is_final && json_object_set_new(value, "retry", json_false()) != 0)
            ? WEIR_INVALID_ARGUMENT
            : json_write(value, to, NULL);
    json_decref(value);
    return status;
}

/* The token alone names the execution, so no id of a caller is compared with it. The name of the signal is for the driver
 * to find, under the lock of the item: it has the attempt that is on record. */
enum weir_status store_call_back(struct store *store, const struct callback *callback, struct sent_signal *ret_sent,
                                 struct weir_error *error)
{
    INVARIANT(store != NULL && callback != NULL && callback->token != NULL && ret_sent != NULL);
    char id[UUID_TEXT_MAX];
    char hash[CALLBACK_HASH_LENGTH + 1];
    struct text data = {.max = SIGNAL_DATA_BYTES_MAX};
    enum weir_status status = check_callback(callback, error);
    if (status == WEIR_OK && !callback_token_read(callback->token, id, hash)) {
        status = refusal_callback_unknown(error);
    }
    if (status == WEIR_OK) {
        status = write_callback(callback, &data);
        status = status == WEIR_OK ? status
                 : status == WEIR_OUT_OF_MEMORY
                     ? error_out_of_memory(error)
                     : error_set(error, WEIR_INVALID_ARGUMENT, "the report is not UTF-8, or too long");
    }
    if (status == WEIR_OK) {
        const struct signal_request request = {.id = id, .callback = hash, .data = data.data};
        struct call call = call_begin(store, "call_back", error);
        status = call_end(&call, store->driver->signal(store, &request, ret_sent, &call.own));
    }
    text_close(&data);
    return status;
}

enum weir_status store_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                     struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                     struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_requests != NULL && ret_count != NULL && ret_more != NULL);
    CALL(store, "take_requests", error,
         store->driver->take_requests(store, node_id, arena, ret_requests, ret_count, ret_more, detail));
}
