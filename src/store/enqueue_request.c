/* Checks of requests to enqueue, the refusal of an unknown group, and the columns of a definition.
 *
 * The checks need no database: lengths, UTF-8, ranges, and params that are a JSON object. store_enqueue() runs them once
 * for each request, so that all drivers refuse the same requests with the same texts. Whether workspace, workflow and group
 * exist is for the driver to find out. Nothing here keeps state; the functions run in the thread of the caller.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/traceparent.h"
#include "base/uuid.h"
#include "store/driver.h"
#include "store/labels.h"
#include "store/reading.h"

bool enqueue_has_no_params(const struct enqueue_request *request)
{
    return request->params == NULL || (request->params_length == 2 && memcmp(request->params, "{}", 2) == 0);
}

static const char *const key_modes[] = {
    [KEY_ONCE] = "once", [KEY_REPLACE] = "replace", [KEY_DEBOUNCE] = "debounce", [KEY_ONE_ACTIVE] = "one_active"};

const char *key_mode_name(enum key_mode mode)
{
    INVARIANT((size_t)mode < sizeof key_modes / sizeof key_modes[0]);
    return key_modes[mode];
}

enum weir_status key_mode_parse(const char *name, enum key_mode *ret_mode, struct weir_error *error)
{
    INVARIANT(name != NULL && ret_mode != NULL);
    for (size_t i = 0; i < sizeof key_modes / sizeof key_modes[0]; i++) {
        if (strcmp(name, key_modes[i]) == 0) {
            *ret_mode = (enum key_mode)i;
            return WEIR_OK;
        }
    }
    const char *nearest = text_nearest(name, key_modes, sizeof key_modes / sizeof key_modes[0]);
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a mode of a key", name);
    error_hint(error, nearest != NULL ? "did you mean \"%s\"?" : "the modes are once, replace, debounce and one_active",
               nearest);
    return WEIR_INVALID_ARGUMENT;
}

int64_t debounce_most_us(const struct enqueue_request *request)
{
    return request->debounce_most_us != 0 ? request->debounce_most_us : DEBOUNCE_WINDOWS * request->debounce_us;
}

enum { GROUPS_NAMED = 5 };

void group_hint(const char *name, const char *const *groups, size_t count, struct weir_error *error)
{
    const char *nearest = text_nearest(name, groups, count);
    error_hint(error, "%s%s%s" GROUP_HOW, nearest != NULL ? "did you mean \"" : "", nearest != NULL ? nearest : "",
               nearest != NULL ? "\"? " : "");
}

enum weir_status group_refuse(const char *name, const char *const *groups, size_t count, struct weir_error *error)
{
    INVARIANT(name != NULL && (groups != NULL || count == 0));
    char list[GROUPS_NAMED * (GROUP_NAME_MAX + sizeof "\"\", ")] = "";
    size_t length = 0;
    for (size_t i = 0; i < count && i < GROUPS_NAMED; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s\"%s\"", i == 0 ? "" : ", ", groups[i]);
    }
    error_set(error, WEIR_NOT_FOUND, "there is no executor group \"%s\"; there are: %s%s", name, list,
              count > GROUPS_NAMED ? " and others" : "");
    group_hint(name, groups, count, error);
    return WEIR_NOT_FOUND;
}

/* Params must be a JSON object of limited length. */
static enum weir_status check_params(const struct enqueue_request *request, struct weir_error *error)
{
    if (enqueue_has_no_params(request)) {
        return WEIR_OK;
    }
    if (request->params_length > PARAMS_BYTES_MAX) {
        error_set(error, WEIR_PARAMS_TOO_LARGE, "params are %zu bytes, the limit is %d", request->params_length,
                  PARAMS_BYTES_MAX);
        error_hint(error, "store the data elsewhere and pass a reference to it");
        return WEIR_PARAMS_TOO_LARGE;
    }
    json_t *value = NULL;
    enum weir_status status = json_read(request->params, request->params_length, &value, error);
    if (status == WEIR_OUT_OF_MEMORY) {
        return status;
    }
    if (status != WEIR_OK) {
        error_prefix(error, "params");
        if (error != NULL) {
            error->status = WEIR_INVALID_PARAMS;
        }
        error_hint(error, "params are a JSON object, for example {\"customer\": 42}");
        return WEIR_INVALID_PARAMS;
    }
    if (!json_is_object(value)) {
        status = error_set(error, WEIR_INVALID_PARAMS, "params are %s %s, not an object",
                           strchr("aeio", json_type_name(value)[0]) != NULL ? "an" : "a", json_type_name(value));
        error_hint(error, "params are a JSON object, for example {\"customer\": 42}");
    }
    json_decref(value);
    return status;
}

/* A name must be present, short enough and UTF-8. */
static enum weir_status check_text(const char *what, const char *text, size_t most, struct weir_error *error)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length > 0 && length <= most && text_is_utf8(text, length)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "%s %s", what,
              length == 0     ? "is missing"
              : length > most ? "is too long"
                              : "is not UTF-8");
    if (length > most) {
        error_hint(error, "at most %zu bytes", most);
    }
    return WEIR_INVALID_ARGUMENT;
}

static const struct {
    const char *prefix;
    const char *owners;
} reserved[] = {{HOOK_KEY_PREFIX, "hooks"}, {SCHEDULE_KEY_PREFIX, "schedules"}};

bool enqueue_key_is_reserved(const char *key)
{
    INVARIANT(key != NULL);
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (strncmp(key, reserved[i].prefix, strlen(reserved[i].prefix)) == 0) {
            return true;
        }
    }
    return false;
}

/* A key of a hook or a schedule that another request had used would make its duty drop an event or a firing. */
static enum weir_status check_reserved_key(const char *key, struct weir_error *error)
{
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (strncmp(key, reserved[i].prefix, strlen(reserved[i].prefix)) == 0) {
            error_set(error, WEIR_INVALID_ARGUMENT, "idempotency keys that begin with \"%s\" are those of %s",
                      reserved[i].prefix, reserved[i].owners);
            error_hint(error, "begin the key with another word");
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}

/* A window without its mode, or a start time that the window would move, has no effect, so it is refused. */
static enum weir_status check_key_mode(const struct enqueue_request *request, struct weir_error *error)
{
    bool has_window = request->debounce_us != 0 || request->debounce_most_us != 0;
    if (request->key_mode == KEY_ONCE && !has_window) {
        return WEIR_OK;
    }
    if ((unsigned)request->key_mode > KEY_ONE_ACTIVE) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%d is not a mode of a key", (int)request->key_mode);
    }
    if (request->key_mode != KEY_ONCE && request->idempotency_key == NULL) {
        error_set(error, WEIR_INVALID_ARGUMENT, "key_mode %s needs an idempotency key", key_mode_name(request->key_mode));
        error_hint(error, "give the key that the executions have in common");
        return WEIR_INVALID_ARGUMENT;
    }
    if (request->key_mode != KEY_DEBOUNCE && has_window) {
        error_set(error, WEIR_INVALID_ARGUMENT, "key_mode %s takes no debounce window", key_mode_name(request->key_mode));
        error_hint(error, "give key_mode debounce, or leave debounce and debounce_max out");
        return WEIR_INVALID_ARGUMENT;
    }
    if (request->key_mode != KEY_DEBOUNCE) {
        return WEIR_OK;
    }
    if (request->debounce_us < DEBOUNCE_LEAST_US || request->debounce_us > DEBOUNCE_MOST_US) {
        error_set(error, WEIR_INVALID_ARGUMENT, "key_mode debounce needs a window from 1ms to 1d");
        error_hint(error, "for example debounce 5s");
        return WEIR_INVALID_ARGUMENT;
    }
    if (request->debounce_most_us != 0 && (request->debounce_most_us < request->debounce_us ||
                                           request->debounce_most_us > DEBOUNCE_WINDOWS * DEBOUNCE_MOST_US)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "debounce_max is shorter than the window, or longer than 10d");
        error_hint(error, "leave it out for %d windows", DEBOUNCE_WINDOWS);
        return WEIR_INVALID_ARGUMENT;
    }
    if (request->run_at_us != 0) {
        error_set(error, WEIR_INVALID_ARGUMENT, "key_mode debounce takes no run_at: its window is the start time");
        error_hint(error, "leave run_at out");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

enum weir_status enqueue_request_check(const struct enqueue_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL);
    enum weir_status status = check_text("the workspace's name", request->workspace, WORKSPACE_NAME_MAX, error);
    if (status == WEIR_OK) {
        status = check_text("the workflow's name", request->workflow, WORKFLOW_NAME_MAX, error);
    }
    if (status == WEIR_OK && request->idempotency_key != NULL) {
        status = check_text("the idempotency key", request->idempotency_key, IDEMPOTENCY_KEY_MAX, error);
    }
    if (status == WEIR_OK && request->idempotency_key != NULL && !request->has_reserved_key) {
        status = check_reserved_key(request->idempotency_key, error);
    }
    if (status == WEIR_OK) {
        status = check_key_mode(request, error);
    }
    if (status == WEIR_OK && request->group != NULL) {
        status = check_text("the executor group's name", request->group, GROUP_NAME_MAX, error);
    }
    if (status == WEIR_OK && request->default_group != NULL) {
        status = check_text("the default executor group's name", request->default_group, GROUP_NAME_MAX, error);
    }
    if (status == WEIR_OK && request->id != NULL && !uuid_is_valid_v7(request->id)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not an execution id", request->id);
        error_hint(error, "an id is a UUIDv7, as 01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79");
    }
    if (status == WEIR_OK && (request->priority < PRIORITY_LEAST || request->priority > PRIORITY_MOST)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "priority %d is outside of %d to %d", request->priority,
                           PRIORITY_LEAST, PRIORITY_MOST);
    }
    if (status == WEIR_OK && request->run_at_us < 0) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "run_at is before 1970");
    }
    if (status == WEIR_OK && request->run_at_us > RUN_AT_MOST_US) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "run_at is after the year 9999");
    }
    if (status == WEIR_OK && request->traceparent != NULL) {
        status = traceparent_check(request->traceparent, error);
    }
    if (status == WEIR_OK && request->business_key != NULL) {
        status = check_text("the business key", request->business_key, BUSINESS_KEY_MAX, error);
    }
    if (status == WEIR_OK && request->labels != NULL) {
        status = labels_check(request->labels, error);
    }
    return status == WEIR_OK ? check_params(request, error) : status;
}

enum weir_status enqueue_id_check(const struct enqueue_request *request, int64_t now_us, struct weir_error *error)
{
    INVARIANT(request != NULL);
    char bound[UUID_TEXT_MAX];
    if (request->id == NULL || request->id_is_new) {
        return WEIR_OK;
    }
    reading_first_id(time_add(now_us, ID_AHEAD_MOST_US), bound);
    if (strcasecmp(request->id, bound) < 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "the time in the id %s is more than a day ahead of the store's clock",
              request->id);
    error_hint(error, "leave the id out, or make it with a clock that is right");
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status enqueue_requests_check(const struct enqueue_request *requests, size_t count,
                                        struct enqueue_result *results, size_t *ret_valid, struct weir_error *error)
{
    INVARIANT(count == 0 || (requests != NULL && results != NULL && ret_valid != NULL));
    size_t valid = 0;
    for (size_t i = 0; i < count; i++) {
        results[i] = (struct enqueue_result){.status = WEIR_OK};
        results[i].status = enqueue_request_check(&requests[i], &results[i].error);
        if (results[i].status == WEIR_OUT_OF_MEMORY) {
            return error_out_of_memory(error);
        }
        valid += results[i].status == WEIR_OK;
    }
    *ret_valid = valid;
    return WEIR_OK;
}

/* Adds the name unless the list has it already. */
static bool list_handler(json_t *handlers, const json_t *name)
{
    size_t i;
    json_t *listed;
    json_array_foreach(handlers, i, listed)
    {
        if (json_equal(listed, name)) {
            return true;
        }
    }
    return json_array_append(handlers, (json_t *)name) == 0;
}

/* For qsort(): by the bytes of the names. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

/* In ascending order, so that equal sets have equal texts. A new list; NULL when out of memory. */
static json_t *sort_handlers(const json_t *handlers)
{
    size_t count = json_array_size(handlers);
    json_t **names = calloc(count + 1, sizeof(json_t *));
    json_t *sorted = json_array();
    bool is_fine = names != NULL && sorted != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        names[i] = json_array_get(handlers, i);
    }
    if (is_fine) {
        qsort(names, count, sizeof(json_t *), compare_names);
    }
    for (size_t i = 0; i < count && is_fine; i++) {
        is_fine = json_array_append(sorted, names[i]) == 0;
    }
    free(names);
    if (!is_fine) {
        json_decref(sorted);
        return NULL;
    }
    return sorted;
}

/* Those of a step and of its undo. */
static bool list_handlers_of_step(json_t *handlers, const json_t *step)
{
    const json_t *name = json_object_get(step, "handler");
    const json_t *undo = json_object_get(json_object_get(step, "undo"), "handler");
    return (!json_is_string(name) || list_handler(handlers, name)) &&
           (!json_is_string(undo) || list_handler(handlers, undo));
}

/* The handlers of the states, or of the steps of all sections, each once, as JSON text; NULL when out of memory. */
static char *list_handlers(const json_t *definition)
{
    static const char *const sections[] = {"steps", "on_failure", "finally", "states"};
    const char *key;
    json_t *step;
    json_t *handlers = json_array();
    bool is_fine = handlers != NULL;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        json_object_foreach(json_object_get(definition, sections[i]), key, step)
        {
            is_fine = is_fine && list_handlers_of_step(handlers, step);
        }
    }
    json_t *sorted = is_fine ? sort_handlers(handlers) : NULL;
    char *text = sorted != NULL ? json_dumps(sorted, JSON_COMPACT) : NULL;
    json_decref(sorted);
    json_decref(handlers);
    return text;
}

enum weir_status definition_facts_read(const char *text, struct definition_facts *ret_facts, struct weir_error *error)
{
    INVARIANT(text != NULL && ret_facts != NULL);
    json_t *value = NULL;
    struct definition_facts facts = {.starts_max = 0};
    if (json_read(text, strlen(text), &value, NULL) == WEIR_OK) {
        const char *group = json_string_value(json_object_get(value, "executor_group"));
        facts.starts_max = (int)json_integer_value(json_object_get(value, "starts_max"));
        text_copy(facts.executor_group, sizeof facts.executor_group, group != NULL ? group : "");
        facts.on_temporal = json_object_get(value, "temporal") != NULL;
    }
    const json_t *labels = json_object_get(value, "labels");
    bool has_labels = json_object_size(labels) > 0;
    facts.handlers = list_handlers(value);
    facts.labels = has_labels ? json_dumps(labels, JSON_COMPACT) : NULL;
    json_decref(value);
    if (facts.handlers == NULL || (has_labels && facts.labels == NULL)) {
        definition_facts_close(&facts);
        return error_out_of_memory(error);
    }
    *ret_facts = facts;
    return WEIR_OK;
}

void definition_facts_close(struct definition_facts *facts)
{
    INVARIANT(facts != NULL);
    free(facts->handlers);
    free(facts->labels);
    facts->handlers = NULL;
    facts->labels = NULL;
}
