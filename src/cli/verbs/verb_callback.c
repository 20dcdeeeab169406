/* `weir callback complete` and `weir callback fail`: the report of a function that an `http` step has called.
 *
 * The token names the execution and its attempt, and is the right to report. So it may come from a file or from stdin, and
 * no message has it. The store checks it, and takes the same report once. One thread.
 */
#include <string.h>

#include "base/callback_token.h"
#include "base/error.h"
#include "cli/arguments/input.h"
#include "cli/verbs/verb.h"

/* A line end behind the token, as an editor leaves it, is no part of it. */
static enum weir_status read_token(const struct invocation *invocation, struct text *to, struct weir_error *error)
{
    enum weir_status status = input_read_value(invocation_argument(invocation, 0), to, error);
    if (status == WEIR_PARAMS_TOO_LARGE) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the token is longer than a token can be");
    }
    while (status == WEIR_OK && to->length > 0 && (to->data[to->length - 1] == '\n' || to->data[to->length - 1] == '\r')) {
        to->data[--to->length] = '\0';
    }
    if (status == WEIR_OK && (to->length == 0 || memchr(to->data, '\0', to->length) != NULL)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the token is empty, or contains a NUL");
    }
    return status;
}

/* For --dry-run. Whether the token is right is checked with the report alone. */
static enum weir_status check_form(const char *token, char *ret_id, struct weir_error *error)
{
    char hash[CALLBACK_HASH_LENGTH + 1];
    return callback_token_read(token, ret_id, hash)
               ? WEIR_OK
               : error_set(error, WEIR_INVALID_ARGUMENT, "this is no token of Weir-Callback");
}

static enum weir_status report_by_command(struct invocation *invocation, struct callback *callback,
                                          struct weir_error *error)
{
    struct store *store = NULL;
    struct sent_signal sent = {.seq = 0};
    struct text token = {.max = CALLBACK_TOKEN_MAX + 2, .wipes = true};
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = read_token(invocation, &token, error);
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, is_dry_run ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        callback->token = token.data;
        status = is_dry_run ? check_form(token.data, sent.id, error) : store_call_back(store, callback, &sent, error);
    }
    if (status == WEIR_OK) {
        output_report(invocation->output, "the report for %s %s", sent.id,
                      is_dry_run       ? "would be sent"
                      : sent.duplicate ? "was taken before"
                                       : "is taken");
        status =
            verb_print_act(invocation, json_pack("{s:s, s:b}", "id", sent.id, "duplicate", (int)sent.duplicate), error);
    }
    text_close(&token);
    store_close(store);
    return status;
}

enum weir_status verb_callback_complete(struct invocation *invocation, struct weir_error *error)
{
    struct text output = {.max = CALLBACK_OUTPUT_MAX};
    struct callback callback = {.token = NULL};
    const char *given = invocation_text(invocation, "result");
    enum weir_status status = given == NULL ? WEIR_OK : input_read_json(given, "the output", &output, error);
    if (status == WEIR_PARAMS_TOO_LARGE) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the output has more than %d bytes", CALLBACK_OUTPUT_MAX);
        error_hint(error, "store the data elsewhere and pass a reference to it");
    }
    if (status == WEIR_OK) {
        callback.output = output.data;
        status = report_by_command(invocation, &callback, error);
    }
    text_close(&output);
    return status;
}

enum weir_status verb_callback_fail(struct invocation *invocation, struct weir_error *error)
{
    const char *code = invocation_text(invocation, "error-code");
    struct callback callback = {.error_code = code == NULL ? "callback_failed" : code,
                                .error = invocation_text(invocation, "error"),
                                .is_final = invocation_has(invocation, "final")};
    return report_by_command(invocation, &callback, error);
}
