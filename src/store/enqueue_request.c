/* The parts that both stores share: checks of requests to enqueue, the stored form of a definition, pages of events. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "store/driver.h"

bool enqueue_has_no_params(const struct enqueue_request *request)
{
    return request->params == NULL || (request->params_length == 2 && memcmp(request->params, "{}", 2) == 0);
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

enum weir_status events_offset(const char *cursor, int64_t *ret_offset, struct weir_error *error)
{
    char *end = NULL;
    errno = 0;
    long long offset = cursor == NULL || cursor[0] == '\0' ? 0 : strtoll(cursor, &end, 10);
    if (errno != 0 || offset < 0 || (end != NULL && (*end != '\0' || !isdigit((unsigned char)cursor[0])))) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not a cursor", cursor);
        error_hint(error, "a cursor is the next_cursor of the page before");
        return WEIR_INVALID_ARGUMENT;
    }
    *ret_offset = offset;
    return WEIR_OK;
}

enum weir_status events_page(json_t *rows, int64_t offset, size_t limit, json_t **ret_page, struct weir_error *error)
{
    bool more = json_array_size(rows) > limit;
    if (more) {
        (void)json_array_remove(rows, limit);
    }
    json_t *next = more ? json_sprintf("%lld", (long long)offset + (long long)limit) : json_null();
    json_t *page = json_pack("{s:o, s:o, s:I, s:b}", "items", rows, "next_cursor", next, "count",
                             (json_int_t)json_array_size(rows), "count_is_exact", (int)(!more && offset == 0));
    if (page == NULL) {
        return error_out_of_memory(error);
    }
    *ret_page = page;
    return WEIR_OK;
}

enum weir_status events_show(json_t *execution, json_t *events, int64_t earlier, struct weir_error *error)
{
    bool is_set = json_object_set_new(execution, "events", events) == 0 &&
                  json_object_set_new(execution, "earlier_events", json_integer(earlier)) == 0;
    return is_set ? WEIR_OK : error_out_of_memory(error);
}

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

enum weir_status enqueue_request_check(const struct enqueue_request *request, struct weir_error *error)
{
    enum weir_status status = check_text("the workspace's name", request->workspace, WORKSPACE_NAME_MAX, error);
    if (status == WEIR_OK) {
        status = check_text("the workflow's name", request->workflow, WORKFLOW_NAME_MAX, error);
    }
    if (status == WEIR_OK && request->idempotency_key != NULL) {
        status = check_text("the idempotency key", request->idempotency_key, IDEMPOTENCY_KEY_MAX, error);
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
    return status == WEIR_OK ? check_params(request, error) : status;
}

void definition_facts_read(const char *text, struct definition_facts *ret_facts)
{
    json_t *value = NULL;
    *ret_facts = (struct definition_facts){.attempts_max = 0};
    if (json_read(text, strlen(text), &value, NULL) == WEIR_OK) {
        const char *group = json_string_value(json_object_get(value, "executor_group"));
        ret_facts->attempts_max = (int)json_integer_value(json_object_get(value, "attempts"));
        text_copy(ret_facts->executor_group, sizeof ret_facts->executor_group, group != NULL ? group : "");
        ret_facts->on_temporal = json_object_get(value, "temporal") != NULL;
        json_decref(value);
    }
}
