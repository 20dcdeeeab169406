/* Enqueue: a set is one request, with a line of JSON for each execution, and one transaction in the server.
 *
 * 1. Every execution has an id, the caller's or one that is made here. So a request with a lost answer is sent once
 * more, and finds the execution that the first one has enqueued.
 * 2. Params are sent as they were written, never parsed and printed again.
 * 3. The server answers for each line in turn. A line that was refused here before is not sent.
 *
 * A set in which two executions have different default groups, or that does not fit in a request, is several requests. One
 * thread. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "store/http/http_verbs.h"

enum { LINES_MAX = 1000, SET_BYTES_MAX = 12 * 1024 * 1024, SENDS_MAX = 2 };

struct http_set {
    struct store *store;
    const struct enqueue_request *requests;
    struct enqueue_result *results;
    char (*ids)[UUID_TEXT_MAX];
    size_t places[LINES_MAX]; /* of the lines of the open request, in `requests` */
    size_t count;
    const char *default_group; /* of the open request; NULL = none */
};

/* Adds JSON text without its line breaks: a line has none. Outside of strings a blank means the same, and inside of them
 * JSON has no line break. */
static void add_one_line(struct remote_client *client, const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = 0;
        while (at + length < size && strchr("\r\n", text[at + length]) == NULL) {
            length++;
        }
        remote_client_add_body(client, text + at, length);
        remote_client_add_body(client, " ", at + length < size ? 1 : 0);
        at += length + 1;
    }
}

/* The mode of the key and its window, unless it is the mode of all. */
static void add_line_key_mode(struct remote_client *client, const struct enqueue_request *request)
{
    char text[DURATION_TEXT_MAX];
    if (request->key_mode == KEY_ONCE) {
        return;
    }
    remote_client_add_member(client, "key_mode", key_mode_name(request->key_mode));
    if (request->debounce_us != 0) {
        duration_format(request->debounce_us, text);
        remote_client_add_member(client, "debounce", text);
    }
    if (request->debounce_most_us != 0) {
        duration_format(request->debounce_most_us, text);
        remote_client_add_member(client, "debounce_max", text);
    }
}

/* The members that have a value, in the form of `weir enqueue -`. */
static void enqueue_add_line(struct remote_client *client, const struct enqueue_request *request, const char *id)
{
    char text[TIME_TEXT_MAX];
    remote_client_add_body(client, "{\"id\":", strlen("{\"id\":"));
    remote_client_add_body_text(client, id);
    remote_client_add_member(client, "workspace", request->workspace);
    remote_client_add_member(client, "workflow", request->workflow);
    remote_client_add_member(client, "idempotency_key", request->idempotency_key);
    add_line_key_mode(client, request);
    remote_client_add_member(client, "executor_group", request->group);
    remote_client_add_member(client, "traceparent", request->traceparent);
    remote_client_add_member(client, "business_key", request->business_key);
    if (request->labels != NULL) {
        remote_client_add_body(client, ",\"labels\":", strlen(",\"labels\":"));
        add_one_line(client, request->labels, strlen(request->labels));
    }
    if (request->run_at_us != 0) {
        time_format(request->run_at_us, text);
        remote_client_add_member(client, "run_at", text);
    }
    if (request->priority != 0) {
        int length = snprintf(text, sizeof text, ",\"priority\":%d", request->priority);
        remote_client_add_body(client, text, (size_t)length);
    }
    if (request->params != NULL) {
        remote_client_add_body(client, ",\"params\":", strlen(",\"params\":"));
        add_one_line(client, request->params, request->params_length);
    }
    remote_client_add_body(client, "}\n", 2);
}

/* `is_new`: no other call has used the id, so an execution that has it already is of this call: its answer was lost. */
static enum weir_status take_line_result(const json_t *item, const char *id, bool is_new, struct enqueue_result *result,
                                         struct weir_error *error)
{
    const char *given = json_string_value(json_object_get(item, "id"));
    if (given != NULL) {
        text_copy(result->id, sizeof result->id, given);
        result->duplicate = json_is_true(json_object_get(item, "duplicate")) && !(is_new && strcasecmp(given, id) == 0);
        result->replaced = json_is_true(json_object_get(item, "replaced"));
        return WEIR_OK;
    }
    result->status = remote_client_read_refusal(item, &result->error);
    if (result->status != WEIR_OK) {
        return WEIR_OK;
    }
    return http_refuse_answer("items", error);
}

/* Sends the open request; its lines are in the body. */
static enum weir_status send_set(struct http_set *set, struct weir_error *error)
{
    json_t *answer = NULL;
    enum weir_status status = WEIR_COMMIT_UNKNOWN;
    int sends = 0;
    if (set->count == 0) {
        return WEIR_OK;
    }
    for (; sends < SENDS_MAX && status == WEIR_COMMIT_UNKNOWN; sends++) {
        status = remote_change_as(set->store, "POST", "application/x-ndjson", &answer, error);
    }
    const json_t *items = json_object_get(answer, "items");
    if (status == WEIR_OK && json_array_size(items) != set->count) {
        status = http_refuse_answer("items", error);
    }
    for (size_t i = 0; i < set->count && status == WEIR_OK; i++) {
        size_t at = set->places[i];
        bool is_new = set->requests[at].id == NULL || set->requests[at].id_is_new;
        status = take_line_result(json_array_get(items, i), set->ids[at], is_new, &set->results[at], error);
    }
    json_decref(answer);
    set->count = 0;
    return status;
}

/* Both may be NULL. */
static bool is_same_group(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Sends the open request first when this one does not fit in it. */
static enum weir_status add_to_set(struct http_set *set, size_t at, struct weir_error *error)
{
    struct remote_client *client = client_of(set->store);
    const struct enqueue_request *request = &set->requests[at];
    enum weir_status status = WEIR_OK;
    if (set->count == LINES_MAX || client->body.length + request->params_length > SET_BYTES_MAX ||
        !is_same_group(set->default_group, request->default_group)) {
        status = send_set(set, error);
    }
    if (status == WEIR_OK && set->count == 0) {
        set->default_group = request->default_group;
        remote_client_target(client, "/v1/executions:batch", NULL);
        remote_client_argument(client, "default_executor_group", request->default_group);
    }
    if (status == WEIR_OK) {
        enqueue_add_line(client, request, set->ids[at]);
        set->places[set->count++] = at;
    }
    return status;
}

enum weir_status http_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                              struct enqueue_result *results, struct weir_error *error)
{
    INVARIANT(store != NULL && requests != NULL && count > 0 && results != NULL);
    struct http_set set = {
        .store = store, .requests = requests, .results = results, .ids = calloc(count + 1, sizeof *set.ids)};
    enum weir_status status = set.ids == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (results[i].status != WEIR_OK) {
            continue;
        }
        if (requests[i].id != NULL) {
            text_copy(set.ids[i], sizeof set.ids[i], requests[i].id);
        } else {
            uuid_make(clock_wall(store->clock), set.ids[i]);
        }
        status = add_to_set(&set, i, error);
    }
    if (status == WEIR_OK) {
        status = send_set(&set, error);
    }
    free(set.ids);
    return status;
}
