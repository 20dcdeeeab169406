/* weir_enqueue() and weir_enqueue_many() (docs/sql.md). The arguments of one request come in an order, those of many by
 * their names in a JSON array. Both become requests of store_enqueue(). Its refusal of one is an error of the statement,
 * and its refusals of many are answers by place. */
#include "sqlite_extension/sql_enqueue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "sqlite_extension/api.h"
#include "sqlite_extension/sql_values.h"
#include "store/store.h"

enum { REQUESTS_MOST = 10000, MEMBER_BYTES_MAX = 64 * 1024 * 1024 };

/* A duration as "5s"; NULL leaves it as it is. A request has 0 for one that was left out. So 0 would get the default
 * instead of the refusal that the other surfaces have. */
static enum weir_status take_duration(const char *text, const char *name, int64_t *ret_us, struct weir_error *error)
{
    if (text == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = duration_parse(text, ret_us, error);
    if (status != WEIR_OK) {
        error_prefix(error, "%s", name);
    } else if (*ret_us == 0) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "%s is 0", name);
    }
    return status;
}

/* The last three arguments of weir_enqueue(): the effect of a known key (docs/design/keys.md). Durations are texts here,
 * because SQLite has no type for them. store_enqueue() checks that they fit the mode, with the words that all surfaces
 * have. */
static enum weir_status read_key_mode(int count, sqlite3_value **values, struct enqueue_request *request,
                                      struct weir_error *error)
{
    const char *mode = NULL;
    const char *window = NULL;
    const char *longest = NULL;
    enum weir_status status = sql_take_text(count, values, 11, "key_mode", &mode, error);
    if (status == WEIR_OK && mode != NULL) {
        status = key_mode_parse(mode, &request->key_mode, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 12, "debounce", &window, error);
    }
    if (status == WEIR_OK) {
        status = take_duration(window, "debounce", &request->debounce_us, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 13, "debounce_max", &longest, error);
    }
    return status == WEIR_OK ? take_duration(longest, "debounce_max", &request->debounce_most_us, error) : status;
}

/* The arguments of weir_enqueue() in the order of docs/sql.md. The texts belong to the statement and live until it ends. */
static enum weir_status read_arguments(struct store *store, int count, sqlite3_value **values,
                                       struct enqueue_request *request, struct weir_error *error)
{
    const char *run_at = NULL;
    enum weir_status status = sql_need_text(count, values, 0, "workspace", &request->workspace, error);
    if (status == WEIR_OK) {
        status = sql_need_text(count, values, 1, "workflow", &request->workflow, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 2, "params", &request->params, error);
    }
    if (status == WEIR_OK) {
        request->params_length = request->params == NULL ? 0 : strlen(request->params);
        status = sql_take_text(count, values, 3, "idempotency_key", &request->idempotency_key, error);
    }
    if (status == WEIR_OK && count > 4 && sqlite3_value_type(values[4]) != SQLITE_NULL) {
        int64_t priority = sqlite3_value_int64(values[4]);
        bool fits = sqlite3_value_numeric_type(values[4]) == SQLITE_INTEGER && priority >= PRIORITY_LEAST &&
                    priority <= PRIORITY_MOST;
        request->priority = (int)priority;
        status = fits ? WEIR_OK
                      : error_set(error, WEIR_INVALID_ARGUMENT, "priority must be a whole number from %d to %d",
                                  PRIORITY_LEAST, PRIORITY_MOST);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 5, "run_at", &run_at, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_time(store, run_at, &request->run_at_us, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 6, "executor_group", &request->group, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 7, "execution_id", &request->id, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 8, "traceparent", &request->traceparent, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 9, "business_key", &request->business_key, error);
    }
    if (status == WEIR_OK) {
        status = sql_take_text(count, values, 10, "labels", &request->labels, error);
    }
    return status == WEIR_OK ? read_key_mode(count, values, request, error) : status;
}

/* A refusal of the request is an error of the statement, as in weir.enqueue() on PostgreSQL. */
void sql_enqueue(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct enqueue_request request = {.workspace = NULL};
    struct enqueue_result result = {.status = WEIR_OK};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = read_arguments(store, count, values, &request, &error);
    if (status == WEIR_OK) {
        status = store_enqueue(store, &request, 1, &result, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        sql_answer_error(context, status, &error);
    } else if (result.status != WEIR_OK) {
        sql_answer_error(context, result.status, &result.error);
    } else {
        sql_answer_text(context, result.id);
    }
}

/* The requests of an array, and the texts that they borrow. */
struct request_set {
    json_t *array;
    struct enqueue_request *requests;
    struct enqueue_result *results;
    struct text *params; /* of each: a request refers to the texts until the set is closed */
    struct text *labels; /* JSON objects, as params are */
    size_t count;
};

/* Takes a half-read set, too. */
static void close_set(struct request_set *set)
{
    for (size_t i = 0; set->params != NULL && i < set->count; i++) {
        text_close(&set->params[i]);
    }
    for (size_t i = 0; set->labels != NULL && i < set->count; i++) {
        text_close(&set->labels[i]);
    }
    free(set->labels);
    free(set->params);
    free(set->requests);
    free(set->results);
    json_decref(set->array);
}

/* One member of a request. An unknown key is refused: a misspelt one would be ignored otherwise. */
static enum weir_status read_key_argument(struct store *store, const char *key, const json_t *value,
                                          struct enqueue_request *request, struct text *params, struct text *labels,
                                          struct weir_error *error)
{
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"workspace", &request->workspace},
                 {"workflow", &request->workflow},
                 {"idempotency_key", &request->idempotency_key},
                 {"executor_group", &request->group},
                 {"execution_id", &request->id},
                 {"traceparent", &request->traceparent},
                 {"business_key", &request->business_key}};
    const char *text = json_string_value(value);
    if (json_is_null(value)) {
        return WEIR_OK;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(key, texts[i].key) == 0) {
            *texts[i].to = text;
            return text != NULL
                       ? WEIR_OK
                       : error_set(error, WEIR_INVALID_ARGUMENT, "%s must be a string, not %s", key, json_type_name(value));
        }
    }
    if (strcmp(key, "run_at") == 0 && text != NULL) {
        return sql_take_time(store, text, &request->run_at_us, error);
    }
    json_int_t number = json_integer_value(value);
    if (strcmp(key, "priority") == 0 && json_is_integer(value) && number >= PRIORITY_LEAST && number <= PRIORITY_MOST) {
        request->priority = (int)number;
        return WEIR_OK;
    }
    if (strcmp(key, "params") == 0 && json_is_object(value)) {
        enum weir_status status = json_write(value, params, error);
        request->params = params->data;
        request->params_length = params->length;
        return status;
    }
    /* The store takes labels as the text of an object, and checks them there for all surfaces alike. */
    if (strcmp(key, "labels") == 0 && json_is_object(value)) {
        enum weir_status status = json_write(value, labels, error);
        request->labels = labels->data;
        return status;
    }
    return error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is no parameter of weir_enqueue_many, or has a wrong value",
                     key);
}

/* Reads the whole array before anything is enqueued, so that a set with a malformed request changes nothing. */
static enum weir_status read_set(struct store *store, const char *text, struct request_set *set, struct weir_error *error)
{
    enum weir_status status = json_read(text, strlen(text), &set->array, error);
    if (status != WEIR_OK) {
        return status;
    }
    set->count = json_array_size(set->array);
    if (!json_is_array(set->array) || set->count > REQUESTS_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the requests must be an array of at most %d objects",
                         REQUESTS_MOST);
    }
    set->requests = calloc(set->count + 1, sizeof *set->requests);
    set->results = calloc(set->count + 1, sizeof *set->results);
    set->params = calloc(set->count + 1, sizeof *set->params);
    set->labels = calloc(set->count + 1, sizeof *set->labels);
    if (set->requests == NULL || set->results == NULL || set->params == NULL || set->labels == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < set->count && status == WEIR_OK; i++) {
        json_t *object = json_array_get(set->array, i);
        const char *key;
        json_t *value;
        set->params[i].max = MEMBER_BYTES_MAX;
        set->labels[i].max = MEMBER_BYTES_MAX;
        if (!json_is_object(object)) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "it must be an object, not %s", json_type_name(object));
        }
        json_object_foreach(object, key, value)
        {
            status = status == WEIR_OK
                         ? read_key_argument(store, key, value, &set->requests[i], &set->params[i], &set->labels[i], error)
                         : status;
        }
        if (status == WEIR_OK && (set->requests[i].workspace == NULL || set->requests[i].workflow == NULL)) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "it needs a workspace and a workflow");
        }
        if (status != WEIR_OK) {
            error_prefix(error, "request %zu", i + 1);
        }
    }
    return status;
}

/* The row of one request, with the columns of weir.enqueue_many() on PostgreSQL. */
static json_t *answer_of(const struct enqueue_result *result, size_t place)
{
    bool is_fine = result->status == WEIR_OK;
    const char *hint = is_fine || result->error.hint[0] == '\0' ? NULL : result->error.hint;
    return json_pack("{s:I, s:s, s:s?, s:b, s:s?, s:s?}", "place", (json_int_t)place, "code",
                     weir_status_name(result->status), "id", is_fine ? result->id : NULL, "duplicate",
                     (int)result->duplicate, "message", is_fine ? NULL : result->error.message, "hint", hint);
}

/* 1. Read all requests. 2. Enqueue them as one set. 3. Answer each. A refused request leaves the rest of its set alone. */
void sql_enqueue_many(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct request_set set = {.count = 0};
    struct weir_error error = {.status = WEIR_OK};
    const char *text = NULL;
    json_t *answers = NULL;
    struct store *store = sql_open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = sql_need_text(count, values, 0, "requests", &text, &error);
    if (status == WEIR_OK) {
        status = read_set(store, text, &set, &error);
    }
    if (status == WEIR_OK && set.count > 0) {
        status = store_enqueue(store, set.requests, set.count, set.results, &error);
    }
    store_close(store);
    if (status == WEIR_OK) {
        answers = json_array();
        status = answers == NULL ? error_out_of_memory(&error) : WEIR_OK;
    }
    for (size_t i = 0; i < set.count && status == WEIR_OK; i++) {
        if (json_array_append_new(answers, answer_of(&set.results[i], i + 1)) != 0) {
            status = error_out_of_memory(&error);
        }
    }
    close_set(&set);
    if (status == WEIR_OK) {
        sql_answer_json(context, answers);
    } else {
        json_decref(answers);
        sql_answer_error(context, status, &error);
    }
}
