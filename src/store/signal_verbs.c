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

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "queue/name.h"
#include "store/call.h"

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

enum weir_status store_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                     struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                     struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_requests != NULL && ret_count != NULL && ret_more != NULL);
    CALL(store, "take_requests", error,
         store->driver->take_requests(store, node_id, arena, ret_requests, ret_count, ret_more, detail));
}
