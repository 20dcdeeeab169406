/* libweir_sqlite: the SQL functions of weir for any program that has SQLite (docs/sql.md).
 *
 * Each call opens a store handle on the caller's own connection (borrowed_store.h), does one verb of store.h with it, and
 * closes it. So a function takes part in the caller's transaction, and keeps nothing that would outlive the connection.
 * A refusal becomes an SQL error, whose text is "status: message; hint". Nothing here may touch another connection, or call
 * an SQLite library by its name: api.h leads all calls to the host's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/actor.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "sqlite_extension/api.h"
#include "store/sqlite/borrowed_store.h"

SQLITE_EXTENSION_INIT1

enum { REQUESTS_MOST = 10000, ENQUEUE_ARGUMENTS_MOST = 14, ANSWER_BYTES_MAX = 64 * 1024 * 1024 };

/* The extension opens no store by a URL. */
const struct store_driver *const store_drivers[] = {&sqlite_store_driver, NULL};

/* --- answers --- */

/* The text is cut if it is longer; status and message come first. */
static void answer_error(sqlite3_context *context, enum weir_status status, const struct weir_error *error)
{
    char text[2 * WEIR_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s: %s%s%s", weir_status_name(status), error->message,
                   error->hint[0] == '\0' ? "" : "; ", error->hint);
    sqlite3_result_error(context, text, -1);
}

/* SQLite copies the text, because the store handle that owns it is closed before the statement reads it. */
static void answer_text(sqlite3_context *context, const char *text)
{
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* Releases `value`. */
static void answer_json(sqlite3_context *context, json_t *value)
{
    struct text text = {.max = ANSWER_BYTES_MAX};
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = json_write(value, &text, &error);
    json_decref(value);
    if (status == WEIR_OK) {
        answer_text(context, text.data);
    } else {
        answer_error(context, status, &error);
    }
    text_close(&text);
}

/* --- arguments --- */

/* NULL for an argument that is NULL or was not given. */
static enum weir_status take_text(int count, sqlite3_value **values, int at, const char *name, const char **ret_text,
                                  struct weir_error *error)
{
    *ret_text = NULL;
    if (at >= count || sqlite3_value_type(values[at]) == SQLITE_NULL) {
        return WEIR_OK;
    }
    if (sqlite3_value_type(values[at]) == SQLITE_BLOB) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be a text, not a blob", name);
    }
    const char *text = (const char *)sqlite3_value_text(values[at]);
    if (text == NULL) {
        return error_out_of_memory(error);
    }
    if (strlen(text) != (size_t)sqlite3_value_bytes(values[at])) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s has a NUL in it", name);
    }
    *ret_text = text;
    return WEIR_OK;
}

/* The same for an argument that must be there. */
static enum weir_status need_text(int count, sqlite3_value **values, int at, const char *name, const char **ret_text,
                                  struct weir_error *error)
{
    enum weir_status status = take_text(count, values, at, name, ret_text, error);
    if (status == WEIR_OK && *ret_text == NULL) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "%s must not be NULL", name);
    }
    return status;
}

/* NULL leaves the time as it is: now. A duration counts from the time of the store. */
static enum weir_status take_time(struct store *store, const char *text, int64_t *ret_time_us, struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = text == NULL ? WEIR_OK : store_time(store, &now_us, error);
    if (status == WEIR_OK && text != NULL) {
        status = time_parse(text, now_us, ret_time_us, error);
        if (status != WEIR_OK) {
            error_prefix(error, "run_at");
        }
    }
    return status;
}

/* NULL after the error was answered. The handle lives for one call: a statement that it kept would keep the host from
 * closing the connection. */
static struct store *open_store(sqlite3_context *context)
{
    struct store *store = NULL;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status = borrowed_store_open(sqlite3_context_db_handle(context), &store, &error);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
        return NULL;
    }
    return store;
}

/* --- enqueue --- */

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
    enum weir_status status = take_text(count, values, 11, "key_mode", &mode, error);
    if (status == WEIR_OK && mode != NULL) {
        status = key_mode_parse(mode, &request->key_mode, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 12, "debounce", &window, error);
    }
    if (status == WEIR_OK) {
        status = take_duration(window, "debounce", &request->debounce_us, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 13, "debounce_max", &longest, error);
    }
    return status == WEIR_OK ? take_duration(longest, "debounce_max", &request->debounce_most_us, error) : status;
}

/* The arguments of weir_enqueue() in the order of docs/sql.md. The texts belong to the statement and live until it ends. */
static enum weir_status read_arguments(struct store *store, int count, sqlite3_value **values,
                                       struct enqueue_request *request, struct weir_error *error)
{
    const char *run_at = NULL;
    enum weir_status status = need_text(count, values, 0, "workspace", &request->workspace, error);
    if (status == WEIR_OK) {
        status = need_text(count, values, 1, "workflow", &request->workflow, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 2, "params", &request->params, error);
    }
    if (status == WEIR_OK) {
        request->params_length = request->params == NULL ? 0 : strlen(request->params);
        status = take_text(count, values, 3, "idempotency_key", &request->idempotency_key, error);
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
        status = take_text(count, values, 5, "run_at", &run_at, error);
    }
    if (status == WEIR_OK) {
        status = take_time(store, run_at, &request->run_at_us, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 6, "executor_group", &request->group, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 7, "execution_id", &request->id, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 8, "traceparent", &request->traceparent, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 9, "business_key", &request->business_key, error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 10, "labels", &request->labels, error);
    }
    return status == WEIR_OK ? read_key_mode(count, values, request, error) : status;
}

/* A refusal of the request is an error of the statement, as in weir.enqueue() on PostgreSQL. */
static void enqueue_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct enqueue_request request = {.workspace = NULL};
    struct enqueue_result result = {.status = WEIR_OK};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = read_arguments(store, count, values, &request, &error);
    if (status == WEIR_OK) {
        status = store_enqueue(store, &request, 1, &result, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else if (result.status != WEIR_OK) {
        answer_error(context, result.status, &result.error);
    } else {
        answer_text(context, result.id);
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
        return take_time(store, text, &request->run_at_us, error);
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
        set->params[i].max = ANSWER_BYTES_MAX;
        set->labels[i].max = ANSWER_BYTES_MAX;
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
static void enqueue_many(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct request_set set = {.count = 0};
    struct weir_error error = {.status = WEIR_OK};
    const char *text = NULL;
    json_t *answers = NULL;
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "requests", &text, &error);
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
        answer_json(context, answers);
    } else {
        json_decref(answers);
        answer_error(context, status, &error);
    }
}

/* --- acts --- */

/* The argument `reason` of an act. The actor is the user of the process. */
static enum weir_status take_reason(struct store *store, int count, sqlite3_value **values, int at,
                                    struct weir_error *error)
{
    const char *reason = NULL;
    char actor[ACTOR_MAX + 1];
    enum weir_status status = take_text(count, values, at, "reason", &reason, error);
    if (status != WEIR_OK) {
        return status;
    }
    actor_write("sql", actor, sizeof actor);
    return store_act_as(store, actor, reason, error);
}

/* An act on one execution. A refusal is an error of the statement. `option`: the member of `order` that the second argument
 * sets; NULL = there is no such argument, and no order. */
static void act_with(sqlite3_context *context, int count, sqlite3_value **values, enum bulk_act what,
                     struct act_order *order, const char *name, const char **option)
{
    struct execution_filter filter = {.id = NULL};
    struct bulk_result result = {.matched = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "execution_id", &filter.id, &error);
    if (status == WEIR_OK && option != NULL) {
        status = take_text(count, values, 1, name, option, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, option == NULL ? 1 : 2, &error);
    }
    if (status == WEIR_OK) {
        status = store_bulk_one(store, what, order, &filter, &result, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else {
        answer_text(context, what == BULK_RETRY ? result.new_id : result.last_id);
    }
}

static void act(sqlite3_context *context, int count, sqlite3_value **values, enum bulk_act what)
{
    act_with(context, count, values, what, NULL, NULL, NULL);
}

static void cancel(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_CANCEL);
}

static void release(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_RELEASE);
}

static void dismiss(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_DISMISS);
}

static void retry(sqlite3_context *context, int count, sqlite3_value **values)
{
    act(context, count, values, BULK_RETRY);
}

/* weir_wake(execution_id, waiting_for, reason). A kind that is NULL, or not given: sleeps and waits for the next attempt.
 */
static void wake(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct act_order order = {.waits_for = NULL};
    act_with(context, count, values, BULK_WAKE, &order, "waiting_for", &order.waits_for);
}

/* weir_signal(execution_id, name, data, key, reason): the number of the signal. */
static void signal_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct signal_request request = {.id = NULL};
    struct sent_signal sent = {.seq = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "execution_id", &request.id, &error);
    if (status == WEIR_OK) {
        status = need_text(count, values, 1, "name", &request.name, &error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 2, "data", &request.data, &error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 3, "key", &request.key, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 4, &error);
    }
    if (status == WEIR_OK) {
        status = store_signal(store, &request, &sent, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else {
        sqlite3_result_int64(context, sent.seq);
    }
}

/* weir_approve(execution_id, step, comment, reason), weir_reject(...): the step. */
static void decide(sqlite3_context *context, int count, sqlite3_value **values, bool approved)
{
    struct approval approval = {.approved = approved};
    const char *id = NULL;
    struct sent_signal sent = {.seq = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "execution_id", &id, &error);
    if (status == WEIR_OK) {
        status = take_text(count, values, 1, "step", &approval.step, &error);
    }
    if (status == WEIR_OK) {
        status = take_text(count, values, 2, "comment", &approval.comment, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 3, &error);
    }
    if (status == WEIR_OK) {
        status = store_approve(store, id, &approval, &sent, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else {
        answer_text(context, sent.step);
    }
}

static void approve_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    decide(context, count, values, true);
}

static void reject_one(sqlite3_context *context, int count, sqlite3_value **values)
{
    decide(context, count, values, false);
}

/* A step that is NULL, or not given: no finished step runs again. */
static void retry_from(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct act_order order = {.keeps_finished = true};
    act_with(context, count, values, BULK_RETRY, &order, "from_step", &order.from);
}

/* Pauses or resumes the starts of a workspace. Running executions go on. */
static void set_paused(sqlite3_context *context, int count, sqlite3_value **values, int paused)
{
    struct workspace_change change = {.paused = paused};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "workspace", &change.name, &error);
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 1, &error);
    }
    if (status == WEIR_OK) {
        status = store_set_workspace(store, &change, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else {
        answer_text(context, change.name);
    }
}

static void sql_pause_workspace(sqlite3_context *context, int count, sqlite3_value **values)
{
    set_paused(context, count, values, 1);
}

static void sql_resume_workspace(sqlite3_context *context, int count, sqlite3_value **values)
{
    set_paused(context, count, values, 0);
}

/* --- deletion --- */

/* An argument that is a truth value: 0 or 1, or NULL for 0. */
static bool is_set(int count, sqlite3_value **values, int place)
{
    return place < count && sqlite3_value_type(values[place]) != SQLITE_NULL && sqlite3_value_int(values[place]) != 0;
}

/* weir_delete_workspace(workspace, fail_waiting, erase, reason): the number of executions that the deletion has ended. It
 * is part of the caller's transaction, so a rollback brings the workspace back. */
static void answer_deletion(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct workspace_deletion deletion = {.fails_waiting = is_set(count, values, 1), .erases = is_set(count, values, 2)};
    struct deletion_result result = {.failed = 0};
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "workspace", &deletion.name, &error);
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 3, &error);
    }
    if (status == WEIR_OK) {
        status = store_delete_workspace(store, &deletion, &result, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else {
        sqlite3_result_int64(context, (sqlite3_int64)result.failed);
    }
}

/* The three functions that disable, enable and delete a workflow take (workflow, owner, reason) and return the
 * name of the workflow. They differ in its new state alone. */
static void change_workflow(sqlite3_context *context, int count, sqlite3_value **values, enum workflow_state state)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *name = NULL;
    const char *owner = NULL;
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, "workflow", &name, &error);
    if (status == WEIR_OK) {
        status = take_text(count, values, 1, "owner", &owner, &error);
    }
    if (status == WEIR_OK) {
        status = take_reason(store, count, values, 2, &error);
    }
    if (status == WEIR_OK) {
        status = store_set_workflow_state(store, name, owner, state, &error);
    }
    store_close(store);
    if (status != WEIR_OK) {
        answer_error(context, status, &error);
    } else {
        answer_text(context, name);
    }
}

static void answer_disabled(sqlite3_context *context, int count, sqlite3_value **values)
{
    change_workflow(context, count, values, WORKFLOW_DISABLED);
}

static void answer_enabled(sqlite3_context *context, int count, sqlite3_value **values)
{
    change_workflow(context, count, values, WORKFLOW_PUBLISHED);
}

static void answer_deleted(sqlite3_context *context, int count, sqlite3_value **values)
{
    change_workflow(context, count, values, WORKFLOW_DELETED);
}

/* --- reading --- */

/* A verb of the store that reads one thing by its name or id. */
typedef enum weir_status read_function(struct store *store, const char *name, json_t **ret_value, struct weir_error *error);

/* Answers the JSON value of one execution or workspace. */
static void read_one(sqlite3_context *context, int count, sqlite3_value **values, const char *name, read_function *function)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *text = NULL;
    json_t *value = NULL;
    struct store *store = open_store(context);
    if (store == NULL) {
        return;
    }
    enum weir_status status = need_text(count, values, 0, name, &text, &error);
    if (status == WEIR_OK) {
        status = function(store, text, &value, &error);
    }
    store_close(store);
    if (status == WEIR_OK) {
        answer_json(context, value);
    } else {
        answer_error(context, status, &error);
    }
}

/* weir_why(execution_id), as `weir why --json` prints it. */
static void why(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "execution_id", store_why);
}

/* weir_show(execution_id), as `weir show --json` prints it. */
static void show(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "execution_id", store_show);
}

static void show_result(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "execution_id", store_read_result);
}

/* weir_usage(workspace), as a row of `weir workspace list --json`. */
static void usage(sqlite3_context *context, int count, sqlite3_value **values)
{
    read_one(context, count, values, "workspace", store_usage);
}

/* --- the door --- */

int sqlite3_extension_init(sqlite3 *database, char **ret_message, const sqlite3_api_routines *api);

/* Makes the functions known to the connection. SQLite has no optional arguments, so a function is made once for each number
 * of them. SQLITE_DIRECTONLY keeps them out of triggers and views: a file from elsewhere must not enqueue by being read. */
__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *database, char **ret_message,
                                                                  const sqlite3_api_routines *api)
{
    static const struct {
        const char *name;
        int least;
        int most;
        void (*function)(sqlite3_context *context, int count, sqlite3_value **values);
    } functions[] = {
        {"weir_enqueue", 2, ENQUEUE_ARGUMENTS_MOST, enqueue_one},
        {"weir_enqueue_many", 1, 1, enqueue_many},
        {"weir_cancel", 1, 2, cancel},
        {"weir_signal", 2, 5, signal_one},
        {"weir_release", 1, 2, release},
        {"weir_dismiss", 1, 2, dismiss},
        {"weir_retry", 1, 2, retry},
        {"weir_retry_from", 1, 3, retry_from},
        {"weir_wake", 1, 3, wake},
        {"weir_approve", 1, 4, approve_one},
        {"weir_reject", 1, 4, reject_one},
        {"weir_pause_workspace", 1, 2, sql_pause_workspace},
        {"weir_resume_workspace", 1, 2, sql_resume_workspace},
        {"weir_delete_workspace", 1, 4, answer_deletion},
        {"weir_disable_workflow", 1, 3, answer_disabled},
        {"weir_enable_workflow", 1, 3, answer_enabled},
        {"weir_delete_workflow", 1, 3, answer_deleted},
        {"weir_result", 1, 1, show_result},
        {"weir_usage", 1, 1, usage},
        {"weir_why", 1, 1, why},
        {"weir_show", 1, 1, show},
    };
    if (sqlite3_api != NULL && sqlite3_api != api) {
        /* Its functions would be called with the handles of the other. */
        *ret_message = api->mprintf("weir: another SQLite library of this process has loaded the extension already");
        return SQLITE_ERROR;
    }
    SQLITE_EXTENSION_INIT2(api)
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        for (int count = functions[i].least; count <= functions[i].most && code == SQLITE_OK; count++) {
            code = sqlite3_create_function_v2(database, functions[i].name, count, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL,
                                              functions[i].function, NULL, NULL, NULL);
        }
    }
    if (code != SQLITE_OK) {
        *ret_message = sqlite3_mprintf("weir: %s", sqlite3_errmsg(database));
    }
    return code;
}
