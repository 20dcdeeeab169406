/* The report of a function that an http step has called: its checks, and the data of the signal that it becomes.
 *
 * A file of its own, because the hash of the token needs OpenSSL, which the SQLite extension does not have. It never writes
 * a token into an error. Runs in the caller's thread. */
#include <string.h>

#include "base/callback_token.h"
#include "base/error.h"
#include "base/json.h"
#include "base/libssl.h"
#include "base/text.h"
#include "store/call.h"
#include "store/refusal.h"

/* Here, so that every driver refuses the same. The token is looked up later: a report that is too large must not tell
 * whether its token is right. */
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

/* The data of the signal. */
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
    char digest[CALLBACK_DIGEST_LENGTH + 1];
    struct text data = {.max = SIGNAL_DATA_BYTES_MAX};
    enum weir_status status = check_callback(callback, error);
    status = status == WEIR_OK ? libssl_load(error) : status;
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
    if (status == WEIR_OK && !callback_digest(data.data, data.length, digest)) {
        status = error_set(error, WEIR_SYSTEM, "OpenSSL cannot compute SHA-256");
    }
    if (status == WEIR_OK) {
        const struct signal_request request = {
            .id = id, .callback = hash, .report = callback, .data = data.data, .key = digest};
        struct call call = call_begin(store, "call_back", error);
        status = call_end(&call, store->driver->signal(store, &request, ret_sent, &call.own));
    }
    text_close(&data);
    return status;
}
