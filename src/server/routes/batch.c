/* Many enqueues in one request, JSON or NDJSON, in one transaction.
 *
 *     split the body -> read each item -> store_enqueue() of the readable ones -> one result for each item, in their order
 *
 * A refused item changes no other one, unless the request asks for all or none. Such a request is answered with the first
 * refusal, and its pointer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "server/api.h"
#include "server/own_workspaces.h"
#include "server/routes/routes.h"
#include "store/json_line.h"

enum { BATCH_ITEMS_MAX = 1000 };

/* A set is as large as that of `weir enqueue -`. The struct is on the heap: its results hold the texts of a thousand
 * refusals. */
struct batch {
    struct json_slice slices[BATCH_ITEMS_MAX];
    struct enqueue_request requests[BATCH_ITEMS_MAX]; /* of the readable items */
    size_t places[BATCH_ITEMS_MAX];                   /* of each of them, its item */
    struct enqueue_result results[BATCH_ITEMS_MAX];   /* of the requests */
    struct enqueue_result answers[BATCH_ITEMS_MAX];   /* of the items */
    const struct principal *principal;
    size_t item_count;
    size_t request_count;
    bool all_or_none;
};

/* An item that cannot be read has its refusal as its answer. */
static void batch_read_items(struct batch *batch, struct http_request *request, int64_t now_us)
{
    const char *trace = request_traceparent(request);
    for (size_t i = 0; i < batch->item_count; i++) {
        struct enqueue_request *enqueue = &batch->requests[batch->request_count];
        struct enqueue_result *answer = &batch->answers[i];
        *enqueue = (struct enqueue_request){.default_group = request_argument(request, "default_executor_group")};
        answer->status = json_line_read(batch->slices[i].bytes, batch->slices[i].length, now_us, &request->arena, enqueue,
                                        NULL, &answer->error);
        if (answer->status == WEIR_OK) {
            answer->status = own_workspaces_check(request->principal, enqueue->workspace, &answer->error);
        }
        if (enqueue->traceparent == NULL) {
            enqueue->traceparent = trace;
        }
        if (answer->status == WEIR_OK) {
            batch->places[batch->request_count++] = i;
        }
    }
}

static json_t *item_json(const struct enqueue_result *answer)
{
    const char *hint = answer->error.hint[0] != '\0' ? answer->error.hint : NULL;
    return answer->status == WEIR_OK
               ? json_pack("{s:s, s:b, s:b}", "id", answer->id, "duplicate", answer->duplicate, "replaced",
                           answer->replaced)
               : json_pack("{s:i, s:s, s:s, s:s*}", "status", weir_status_http(answer->status), "code",
                           weir_status_name(answer->status), "detail", answer->error.message, "hint", hint);
}

/* 200: every item was enqueued before. 202: some are new, or refused. */
static void respond_batch(const struct batch *batch, struct http_answer *answer)
{
    json_t *items = json_array();
    bool is_lost = items == NULL;
    size_t refused = 0;
    size_t duplicates = 0;
    for (size_t i = 0; i < batch->item_count; i++) {
        refused += batch->answers[i].status != WEIR_OK;
        duplicates += batch->answers[i].status == WEIR_OK && batch->answers[i].duplicate;
        is_lost = json_array_append_new(items, item_json(&batch->answers[i])) != 0 || is_lost;
    }
    json_t *body = json_pack("{s:I, s:I, s:I, s:o}", "enqueued", (json_int_t)(batch->item_count - refused - duplicates),
                             "duplicates", (json_int_t)duplicates, "refused", (json_int_t)refused, "items", items);
    if (is_lost) {
        json_decref(body);
        body = NULL;
    }
    respond_json(answer, duplicates == batch->item_count ? 200 : 202, body);
}

/* All or none: the answer is the first refusal. True: there is one. */
static bool refuse_batch(const struct batch *batch, const struct http_request *request, struct http_answer *answer)
{
    char pointer[32];
    for (size_t i = 0; i < batch->item_count; i++) {
        struct weir_error error = batch->answers[i].error;
        if (batch->answers[i].status != WEIR_OK) {
            (void)snprintf(pointer, sizeof pointer, "/items/%zu", i);
            error.status = batch->answers[i].status;
            error_prefix(&error, "nothing was enqueued, because item %zu is refused", i);
            respond_error(request, answer, &error, pointer);
            return true;
        }
    }
    return false;
}

/* One transaction. Nothing is sent when an unreadable item alone refuses the whole set. A refusal by the store is in the
 * answers; every other failure is that of the request, and nothing was enqueued. */
static enum weir_status batch_send(struct batch *batch, struct store *store, struct weir_error *error)
{
    struct weir_error refusal = {.status = WEIR_OK};
    enum weir_status status = WEIR_OK;
    if (batch->request_count == 0 || (batch->all_or_none && batch->request_count < batch->item_count)) {
        return WEIR_OK;
    }
    if (batch->all_or_none) {
        status = store_enqueue_all(store, batch->requests, batch->request_count, batch->results, &refusal);
    } else {
        status = store_enqueue(store, batch->requests, batch->request_count, batch->results, &refusal);
    }
    bool is_refused = false;
    for (size_t i = 0; i < batch->request_count; i++) {
        own_workspaces_hide_refusal(batch->principal, &batch->requests[i], &batch->results[i]);
        batch->answers[batch->places[i]] = batch->results[i];
        is_refused = is_refused || batch->results[i].status != WEIR_OK;
    }
    if (status != WEIR_OK && !(batch->all_or_none && is_refused && weir_status_kind(status) == WEIR_KIND_PERMANENT)) {
        *error = refusal;
        return status;
    }
    return WEIR_OK;
}

/* The media type was checked with the head: it is one of the two. */
static bool has_lines(const struct http_request *request)
{
    const char *type = request->fields[FIELD_CONTENT_TYPE];
    return type != NULL && strncasecmp(type, "application/json", strlen("application/json")) != 0;
}

void answer_enqueue_batch(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct batch *batch = calloc(1, sizeof *batch);
    const char *at_fault = "atomic";
    int64_t now_us = 0;
    if (batch == NULL) {
        (void)error_out_of_memory(&error);
        respond_error(request, answer, &error, NULL);
        return;
    }
    batch->principal = request->principal;
    enum weir_status status = request_switch(request, "atomic", &batch->all_or_none, &error);
    if (status == WEIR_OK) {
        at_fault = NULL;
        status = request_refuse_key(request, "leave it out, and give each item its idempotency_key", &error);
    }
    if (status == WEIR_OK) {
        status = json_line_split(request->body.data == NULL ? "" : request->body.data, request->body.length,
                                 has_lines(request), batch->slices, BATCH_ITEMS_MAX, &batch->item_count, &error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, &error);
    }
    if (status == WEIR_OK) {
        batch_read_items(batch, request, now_us);
        status = batch_send(batch, store, &error);
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, at_fault);
    } else if (!batch->all_or_none || !refuse_batch(batch, request, answer)) {
        respond_batch(batch, answer);
    }
    free(batch);
}
