/* Enqueueing: one request, a set in one transaction, or a request inside the caller's own SQLite or PostgreSQL transaction.
 *
 * Each public request is translated into the store's struct without copying its text. A set fails as a whole or has an
 * outcome per request. Inside a caller's transaction this file uses the caller's connection alone, and never begins,
 * commits or rolls back. After an enqueue of its own it wakes the nodes of this process, so that they need not wait for the
 * notice of the store. Any thread of the host runs it.
 */
#include <stdlib.h>
#include <string.h>

#include "assemble.h"
#include "base/error.h"
#include "base/text.h"
#include "library/library.h"

/* The largest set; its translation is in memory at once. */
enum { SET_MAX = 1000000 };

_Static_assert((int)WEIR_ID_SIZE == (int)UUID_TEXT_MAX, "the public size of an id is the internal one");
_Static_assert((int)WEIR_KEY_ONCE == (int)KEY_ONCE && (int)WEIR_KEY_REPLACE == (int)KEY_REPLACE &&
                   (int)WEIR_KEY_DEBOUNCE == (int)KEY_DEBOUNCE && (int)WEIR_KEY_ONE_ACTIVE == (int)KEY_ONE_ACTIVE,
               "the public modes are the internal ones");

/* WEIR_INVALID_ARGUMENT when a required member is missing. */
static enum weir_status check_public_request(const struct weir_request *request, struct weir_error *error)
{
    if (request == NULL || request->workspace == NULL || request->workflow == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a request needs a workspace and a workflow");
    }
    return WEIR_OK;
}

/* Its text is borrowed from the public request. */
static struct enqueue_request translate_request(const struct weir_request *request)
{
    size_t length = request->params_length;
    if (length == 0 && request->params != NULL) {
        length = strlen(request->params);
    }
    return (struct enqueue_request){.workspace = request->workspace,
                                    .workflow = request->workflow,
                                    .params = request->params,
                                    .params_length = length,
                                    .idempotency_key = request->idempotency_key,
                                    .group = request->group,
                                    .priority = request->priority,
                                    .run_at_us = request->run_at_us,
                                    .id = request->id,
                                    .traceparent = request->traceparent,
                                    .business_key = request->business_key,
                                    .labels = request->labels,
                                    .key_mode = (enum key_mode)request->key_mode,
                                    .debounce_us = request->debounce_us,
                                    .debounce_most_us = request->debounce_most_us};
}

/* The answer about one request: its own status when the set as a whole went through. */
static enum weir_status report_outcome(enum weir_status status, const struct enqueue_result *result, char *id,
                                       struct weir_error *error)
{
    if (status != WEIR_OK) {
        return status;
    }
    if (result->status == WEIR_OK) {
        text_copy(id, WEIR_ID_SIZE, result->id);
    } else if (error != NULL) {
        *error = result->error;
    }
    return result->status;
}

enum weir_status weir_enqueue(struct weir *weir, const struct weir_request *request, char id[WEIR_ID_SIZE],
                              struct weir_error *error)
{
    struct store *handle = NULL;
    struct enqueue_result result = {.status = WEIR_OK};
    enum weir_status status = check_public_request(request, error);
    if (status == WEIR_OK) {
        status = handle_borrow(weir, &handle, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    struct enqueue_request inner = translate_request(request);
    status = store_enqueue(handle, &inner, 1, &result, error);
    handle_give_back(weir, handle);
    library_wake_nodes(weir);
    return report_outcome(status, &result, id, error);
}

enum weir_status weir_enqueue_sqlite(struct sqlite3 *database, const struct weir_request *request, char id[WEIR_ID_SIZE],
                                     struct weir_error *error)
{
    struct enqueue_result result = {.status = WEIR_OK};
    if (database == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_enqueue_sqlite needs an open database");
    }
    enum weir_status status = check_public_request(request, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct enqueue_request inner = translate_request(request);
    status = assemble_enqueue_on_sqlite(database, &inner, 1, &result, error);
    return report_outcome(status, &result, id, error);
}

enum weir_status weir_enqueue_pq(struct pg_conn *connection, const char *schema, const struct weir_request *request,
                                 char id[WEIR_ID_SIZE], struct weir_error *error)
{
    struct enqueue_result result = {.status = WEIR_OK};
    if (connection == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_enqueue_pq needs an open connection");
    }
    enum weir_status status = check_public_request(request, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct enqueue_request inner = translate_request(request);
    status = assemble_enqueue_on_postgres(connection, schema, &inner, &result, error);
    return report_outcome(status, &result, id, error);
}

/* Translates a set and enqueues it in one transaction. */
static enum weir_status enqueue_translated(struct store *handle, const struct weir_request *requests, size_t count,
                                           struct weir_result *results, struct weir_error *error)
{
    struct enqueue_request *inner = calloc(count, sizeof *inner);
    struct enqueue_result *outcomes = calloc(count, sizeof *outcomes);
    enum weir_status status = inner == NULL || outcomes == NULL ? error_out_of_memory(error) : WEIR_OK;
    if (status == WEIR_OK) {
        for (size_t i = 0; i < count; i++) {
            inner[i] = translate_request(&requests[i]);
        }
        status = store_enqueue(handle, inner, count, outcomes, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        results[i] = (struct weir_result){.status = outcomes[i].status,
                                          .duplicate = outcomes[i].duplicate,
                                          .replaced = outcomes[i].replaced,
                                          .error = outcomes[i].error};
        text_copy(results[i].id, sizeof results[i].id, outcomes[i].id);
    }
    free(inner);
    free(outcomes);
    return status;
}

enum weir_status weir_enqueue_many(struct weir *weir, const struct weir_request *requests, size_t count,
                                   struct weir_result *results, struct weir_error *error)
{
    struct store *handle = NULL;
    if (count == 0) {
        return WEIR_OK;
    }
    if (requests == NULL || results == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_enqueue_many needs requests and a place for results");
    }
    if (count > SET_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%zu requests are more than the %d of one set", count, SET_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        enum weir_status status = check_public_request(&requests[i], error);
        if (status != WEIR_OK) {
            error_prefix(error, "request %zu", i);
            return status;
        }
    }
    enum weir_status status = handle_borrow(weir, &handle, error);
    if (status == WEIR_OK) {
        status = enqueue_translated(handle, requests, count, results, error);
        handle_give_back(weir, handle);
        library_wake_nodes(weir);
    }
    return status;
}
