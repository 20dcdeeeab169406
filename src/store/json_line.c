/* Reads one line of `weir enqueue -` into a request.
 *
 * The JSON reader checks the whole line first. Then the fields are taken from the parsed object, except params: their
 * bytes are cut out of the line as they were written. The cut walks over text that is known to be valid JSON, so it looks
 * only for quotes, brackets and commas. Params must never be printed again from the parsed object: that would change
 * numbers and escapes.
 *
 * Pure; all texts are copied to the caller's arena.
 */
#include "store/json_line.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static const char *const keys[] = {"workspace",      "workflow",    "params", "idempotency_key", "priority", "run_at",
                                   "executor_group", "traceparent", "id",     "business_key",    "labels",   "key_mode",
                                   "debounce",       "debounce_max"};

/* --- the raw bytes of one value --- */

/* These walk text that the JSON reader has accepted, so they need not check it; they only never leave it. */
static size_t skip_blanks(const char *bytes, size_t length, size_t at)
{
    while (at < length && (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\r' || bytes[at] == '\n')) {
        at++;
    }
    return at;
}

/* Moves behind a string; a backslash takes the next byte with it. */
static size_t skip_string(const char *bytes, size_t length, size_t at)
{
    for (at++; at < length && bytes[at] != '"'; at++) {
        at += bytes[at] == '\\';
    }
    return at < length ? at + 1 : length;
}

/* Moves behind one value. The depth of brackets decides where a list or an object ends. */
static size_t skip_value(const char *bytes, size_t length, size_t at)
{
    size_t depth = 0;
    while (at < length) {
        char c = bytes[at];
        if (c == '"') {
            at = skip_string(bytes, length, at);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) {
                return at;
            }
            depth--;
            at++;
        } else if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
            return at;
        } else {
            at++;
            continue;
        }
        if (depth == 0) {
            return at;
        }
    }
    return length;
}

/* True when the quoted key text means `key`. Escapes in keys are rare; they are read by the JSON reader. */
static bool key_is(const char *quoted, size_t length, const char *key)
{
    if (memchr(quoted, '\\', length) == NULL) {
        return length == strlen(key) + 2 && memcmp(quoted + 1, key, length - 2) == 0;
    }
    json_t *value = NULL;
    if (json_read(quoted, length, &value, NULL) != WEIR_OK) {
        return false;
    }
    bool is_same = json_is_string(value) && strcmp(json_string_value(value), key) == 0;
    json_decref(value);
    return is_same;
}

/* The bytes of the value of `key` in the object text `bytes`, which json_read() has accepted; NULL when it is not there. */
static const char *json_line_find(const char *bytes, size_t length, const char *key, size_t *ret_length)
{
    size_t at = skip_blanks(bytes, length, 0) + 1; /* behind the brace */
    for (at = skip_blanks(bytes, length, at); at < length && bytes[at] == '"'; at = skip_blanks(bytes, length, at + 1)) {
        size_t key_at = at;
        size_t key_end = skip_string(bytes, length, at);
        size_t value_at = skip_blanks(bytes, length, skip_blanks(bytes, length, key_end) + 1); /* behind the colon */
        size_t value_end = skip_value(bytes, length, value_at);
        if (value_at < value_end && key_is(bytes + key_at, key_end - key_at, key)) {
            *ret_length = value_end - value_at;
            return bytes + value_at;
        }
        at = skip_blanks(bytes, length, value_end); /* the comma, or the closing brace */
    }
    return NULL;
}

/* --- the fields --- */

static enum weir_status take_line_text(const json_t *object, const char *key, struct arena *arena, const char **to,
                                       struct weir_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        return WEIR_OK;
    }
    if (!json_is_string(value)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be a string, not %s", key, json_type_name(value));
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s contains a NUL", key);
    }
    if (json_string_length(value) == 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is empty", key);
    }
    const char *copy = arena_copy(arena, json_string_value(value), json_string_length(value));
    if (copy == NULL) {
        return error_out_of_memory(error);
    }
    *to = copy;
    return WEIR_OK;
}

/* Reads the optional priority and checks its range. */
static enum weir_status take_line_priority(const json_t *object, struct enqueue_request *request, struct weir_error *error)
{
    const json_t *value = json_object_get(object, "priority");
    if (value == NULL || json_is_null(value)) {
        return WEIR_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < PRIORITY_LEAST || number > PRIORITY_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "priority must be a whole number from %d to %d", PRIORITY_LEAST,
                         PRIORITY_MOST);
    }
    request->priority = (int)number;
    return WEIR_OK;
}

/* Reads the optional start time. */
static enum weir_status take_line_run_at(const json_t *object, int64_t now_us, struct arena *arena,
                                         struct enqueue_request *request, struct weir_error *error)
{
    const char *text = NULL;
    enum weir_status status = take_line_text(object, "run_at", arena, &text, error);
    if (status == WEIR_OK && text != NULL) {
        status = time_parse(text, now_us, &request->run_at_us, error);
        if (status != WEIR_OK) {
            error_prefix(error, "run_at");
        }
    }
    return status;
}

/* Reads a duration of the debounce mode; one of 0 is refused, since it would count as left out. */
static enum weir_status take_line_duration(const json_t *object, const char *key, struct arena *arena, int64_t *to,
                                           struct weir_error *error)
{
    const char *text = NULL;
    enum weir_status status = take_line_text(object, key, arena, &text, error);
    if (status != WEIR_OK || text == NULL) {
        return status;
    }
    status = duration_parse(text, to, error);
    if (status != WEIR_OK) {
        error_prefix(error, "%s", key);
    } else if (*to == 0) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "%s is 0", key);
    }
    return status;
}

/* Reads the optional mode of the key and its window. */
static enum weir_status take_line_key_mode(const json_t *object, struct arena *arena, struct enqueue_request *request,
                                           const char **ret_key, struct weir_error *error)
{
    const char *mode = NULL;
    *ret_key = "key_mode";
    enum weir_status status = take_line_text(object, "key_mode", arena, &mode, error);
    if (status == WEIR_OK && mode != NULL) {
        status = key_mode_parse(mode, &request->key_mode, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "debounce";
        status = take_line_duration(object, *ret_key, arena, &request->debounce_us, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "debounce_max";
        status = take_line_duration(object, *ret_key, arena, &request->debounce_most_us, error);
    }
    return status;
}

/* Copies the raw bytes of the params into the request. */
static enum weir_status take_line_params(const char *line, size_t length, const json_t *object, struct arena *arena,
                                         struct enqueue_request *request, struct weir_error *error)
{
    const json_t *value = json_object_get(object, "params");
    if (value == NULL || json_is_null(value)) {
        return WEIR_OK;
    }
    if (!json_is_object(value)) {
        return error_set(error, WEIR_INVALID_PARAMS, "params must be an object, not %s", json_type_name(value));
    }
    size_t raw_length = 0;
    const char *raw = json_line_find(line, length, "params", &raw_length);
    INVARIANT(raw != NULL);
    if (raw_length > PARAMS_BYTES_MAX) {
        return error_set(error, WEIR_PARAMS_TOO_LARGE, "params are %zu bytes, the limit is %d", raw_length,
                         PARAMS_BYTES_MAX);
    }
    request->params = arena_copy(arena, raw, raw_length);
    request->params_length = raw_length;
    return request->params != NULL ? WEIR_OK : error_out_of_memory(error);
}

/* Copies the labels as the text of an object; the store checks them. Unlike params they may be printed again, since they
 * hold texts alone. */
static enum weir_status take_line_labels(const json_t *object, struct arena *arena, struct enqueue_request *request,
                                         struct weir_error *error)
{
    const json_t *value = json_object_get(object, "labels");
    if (value == NULL || json_is_null(value)) {
        return WEIR_OK;
    }
    if (!json_is_object(value)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "labels must be an object, not %s", json_type_name(value));
    }
    char *text = json_dumps(value, JSON_COMPACT);
    request->labels = text == NULL ? NULL : arena_copy_string(arena, text);
    free(text);
    return request->labels != NULL ? WEIR_OK : error_out_of_memory(error);
}

/* Refuses unknown keys: a misspelt key would otherwise have no effect. */
static enum weir_status check_line_keys(json_t *object, struct arena *arena, const char **ret_key, struct weir_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !is_known; i++) {
            is_known = strcmp(key, keys[i]) == 0;
        }
        if (!is_known) {
            const char *nearest = text_nearest(key, keys, sizeof keys / sizeof keys[0]);
            error_set(error, WEIR_INVALID_ARGUMENT, "unknown key \"%s\"", key);
            *ret_key = arena_copy_string(arena, key);
            error_hint(error,
                       nearest != NULL ? "did you mean \"%s\"?"
                                       : "keys: workspace workflow params idempotency_key priority run_at executor_group "
                                         "traceparent id business_key labels key_mode debounce debounce_max",
                       nearest);
            return WEIR_INVALID_ARGUMENT;
        }
    }
    return WEIR_OK;
}

/* Reads all fields of the object. Workspace and workflow must be there, or be defaults. */
static enum weir_status take_line_fields(const char *line, size_t length, json_t *object, int64_t now_us,
                                         struct arena *arena, struct enqueue_request *request, const char **ret_key,
                                         struct weir_error *error)
{
    const struct {
        const char *key;
        const char **to;
    } texts[] = {
        {"workspace", &request->workspace},
        {"workflow", &request->workflow},
        {"idempotency_key", &request->idempotency_key},
        {"executor_group", &request->group},
        {"traceparent", &request->traceparent},
        {"id", &request->id},
        {"business_key", &request->business_key},
    };
    enum weir_status status = check_line_keys(object, arena, ret_key, error);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == WEIR_OK; i++) {
        *ret_key = texts[i].key;
        status = take_line_text(object, texts[i].key, arena, texts[i].to, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "priority";
        status = take_line_priority(object, request, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "run_at";
        status = take_line_run_at(object, now_us, arena, request, error);
    }
    if (status == WEIR_OK) {
        status = take_line_key_mode(object, arena, request, ret_key, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "params";
        status = take_line_params(line, length, object, arena, request, error);
    }
    if (status == WEIR_OK) {
        *ret_key = "labels";
        status = take_line_labels(object, arena, request, error);
    }
    if (status == WEIR_OK && (request->workspace == NULL || request->workflow == NULL)) {
        *ret_key = request->workspace == NULL ? "workspace" : "workflow";
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s is missing", *ret_key);
    }
    return status;
}

enum weir_status json_line_read(const char *line, size_t length, int64_t now_us, struct arena *arena,
                                struct enqueue_request *request, const char **ret_key, struct weir_error *error)
{
    INVARIANT(request != NULL);
    struct enqueue_request read = *request;
    const char *key = NULL;
    json_t *object = NULL;
    if (length > JSON_LINE_BYTES_MAX) {
        return error_set(error, WEIR_PARAMS_TOO_LARGE, "the line is longer than %d bytes", JSON_LINE_BYTES_MAX);
    }
    /* Params are as deep here as anywhere; of the other keys only labels take an object. */
    enum weir_status status = json_read_below(line, length, 1, &object, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (!json_is_object(object)) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "a request must be a JSON object, not %s", json_type_name(object));
    } else {
        status = take_line_fields(line, length, object, now_us, arena, &read, &key, error);
    }
    json_decref(object);
    if (status == WEIR_OK) {
        *request = read;
    } else if (ret_key != NULL) {
        *ret_key = status == WEIR_OUT_OF_MEMORY ? NULL : key;
    }
    return status;
}

/* --- many of them in one text --- */

/* The limit is the caller's: it has room for so many. */
static enum weir_status refuse_many(size_t most, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "there are more than %zu items", most);
    error_hint(error, "send them in several requests");
    return WEIR_INVALID_ARGUMENT;
}

/* A line is not read here, so a wrong one is refused by itself later. */
static enum weir_status split_lines(const char *text, size_t length, struct json_slice *slices, size_t most,
                                    size_t *ret_count, struct weir_error *error)
{
    size_t count = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t line = end == NULL ? length - at : (size_t)(end - (text + at));
        if (skip_blanks(text + at, line, 0) < line) {
            if (count == most) {
                return refuse_many(most, error);
            }
            slices[count++] = (struct json_slice){.bytes = text + at, .length = line};
        }
        at += line + 1;
    }
    *ret_count = count;
    return WEIR_OK;
}

/* The value is a list that json_read() has accepted. */
static enum weir_status json_line_split_list(const char *list, size_t length, struct json_slice *slices, size_t most,
                                             size_t *ret_count, struct weir_error *error)
{
    size_t count = 0;
    size_t at = skip_blanks(list, length, 1); /* behind the bracket */
    while (at < length && list[at] != ']') {
        size_t end = skip_value(list, length, at);
        if (count == most) {
            return refuse_many(most, error);
        }
        slices[count++] = (struct json_slice){.bytes = list + at, .length = end - at};
        at = skip_blanks(list, length, end);
        at = at < length && list[at] == ',' ? skip_blanks(list, length, at + 1) : at;
    }
    *ret_count = count;
    return WEIR_OK;
}

enum weir_status json_line_split(const char *text, size_t length, bool is_lines, struct json_slice *slices, size_t most,
                                 size_t *ret_count, struct weir_error *error)
{
    INVARIANT(text != NULL && slices != NULL && ret_count != NULL);
    json_t *object = NULL;
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    if (is_lines) {
        status = split_lines(text, length, slices, most, &count, error);
    } else {
        status = json_read_below(text, length, 3, &object, error);
        bool is_right = status == WEIR_OK && json_is_object(object) && json_object_size(object) == 1 &&
                        json_is_array(json_object_get(object, "items"));
        size_t raw_length = 0;
        const char *raw = is_right ? json_line_find(text, length, "items", &raw_length) : NULL;
        if (raw != NULL) {
            status = json_line_split_list(raw, raw_length, slices, most, &count, error);
        } else if (status == WEIR_OK) {
            status = error_set(error, WEIR_INVALID_ARGUMENT, "the text must be {\"items\": [...]} and nothing else");
        }
        json_decref(object);
    }
    if (status == WEIR_OK && count == 0) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "there are no items");
    }
    if (status == WEIR_OK) {
        *ret_count = count;
    }
    return status;
}
