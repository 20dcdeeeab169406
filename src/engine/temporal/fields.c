#include "engine/temporal/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* One evaluation: the context of the expressions, and where a fault goes. */
struct reading {
    const json_t *context;
    const char **ret_code;
    struct weir_error *error;
};

#define FAIL(reading, code, ...) (*(reading)->ret_code = (code), error_set((reading)->error, WEIR_FAILED, __VA_ARGS__))

const char *fields_default_id(const char *id, char *to)
{
    (void)snprintf(to, WORKFLOW_ID_MAX, WORKFLOW_ID_PREFIX "%s", id);
    return to;
}

/* --- values --- */

/* An error of the expression itself; `what` names the field in its message. */
static enum weir_status evaluate(const struct reading *reading, const struct template *template, const char *what,
                                 json_t **ret_value)
{
    enum weir_status status = template_evaluate(template, reading->context, NULL, NULL, ret_value, reading->error);
    if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
        *reading->ret_code = EXPRESSION_ERROR_CODE;
        error_prefix(reading->error, "%s", what);
        return WEIR_FAILED;
    }
    return status;
}

/* A text with at most `size` - 1 bytes. A number or a boolean counts as its text. *ret_has is false where a single
 * expression has no value. */
static enum weir_status take_text(const struct reading *reading, const struct template *template, const char *what,
                                  const char *code, char *to, size_t size, bool *ret_has)
{
    json_t *value = NULL;
    struct text text = {.max = size - 1};
    *ret_has = false;
    if (template == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = evaluate(reading, template, what, &value);
    if (status != WEIR_OK || json_is_null(value)) {
        json_decref(value);
        return status;
    }
    if (json_is_object(value) || json_is_array(value)) {
        status = FAIL(reading, code, "%s must be text, and its value is of the type %s", what, json_type_name(value));
    } else {
        status = json_is_string(value) ? text_add(&text, json_string_value(value), json_string_length(value))
                                       : json_write(value, &text, NULL);
        status = status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(reading->error)
                 : status != WEIR_OK          ? FAIL(reading, code, "%s has more than %zu bytes", what, size - 1)
                                              : WEIR_OK;
    }
    if (status == WEIR_OK) {
        text_copy(to, size, text.data == NULL ? "" : text.data);
        *ret_has = true;
    }
    text_close(&text);
    json_decref(value);
    return status;
}

/* --- ids and names --- */

static bool has_control(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return true;
        }
    }
    return false;
}

/* A number or a missing value is no id: it would stand for a mistake in the params. Ids of the default form belong to the
 * execution that they name. */
static enum weir_status take_workflow_id(const struct reading *reading, const struct template *template, const char *id,
                                         char *to)
{
    char own[WORKFLOW_ID_MAX];
    bool has_id = false;
    json_t *value = NULL;
    (void)fields_default_id(id, own);
    if (template == NULL) {
        memcpy(to, own, sizeof own);
        return WEIR_OK;
    }
    enum weir_status status = evaluate(reading, template, "workflow_id", &value);
    if (status == WEIR_OK && !json_is_string(value)) {
        status = FAIL(reading, WORKFLOW_ID_INVALID, "workflow_id must be a string, and its value is of the type %s: %s",
                      json_type_name(value), template->source);
    }
    json_decref(value);
    if (status == WEIR_OK) {
        status = take_text(reading, template, "workflow_id", WORKFLOW_ID_INVALID, to, WORKFLOW_ID_MAX, &has_id);
    }
    if (status == WEIR_OK && to[0] == '\0') {
        return FAIL(reading, WORKFLOW_ID_INVALID, "workflow_id is empty: %s", template->source);
    }
    if (status == WEIR_OK && has_control(to)) {
        return FAIL(reading, WORKFLOW_ID_INVALID, "workflow_id has a control character in it");
    }
    if (status == WEIR_OK && strncmp(to, WORKFLOW_ID_PREFIX, strlen(WORKFLOW_ID_PREFIX)) == 0 && strcmp(to, own) != 0) {
        return FAIL(reading, WORKFLOW_ID_INVALID,
                    "workflow_id '%s' begins with " WORKFLOW_ID_PREFIX ", which is weir's own", to);
    }
    return status;
}

static enum weir_status take_queue(const struct reading *reading, const struct template *template, const char *queue,
                                   char *to)
{
    bool has_queue = false;
    enum weir_status status =
        take_text(reading, template, "task_queue", FIELD_INVALID, to, TASK_QUEUE_NAME_MAX + 1, &has_queue);
    if (status == WEIR_OK && !has_queue) {
        text_copy(to, TASK_QUEUE_NAME_MAX + 1, queue);
    } else if (status == WEIR_OK && to[0] == '\0') {
        return FAIL(reading, FIELD_INVALID, "task_queue is empty: %s", template->source);
    }
    return status;
}

/* --- numbers --- */

static enum weir_status take_duration(const struct reading *reading, const struct template *template, const char *what,
                                      int64_t *ret_us)
{
    char text[DURATION_TEXT_MAX] = "";
    bool has_value = false;
    enum weir_status status = take_text(reading, template, what, FIELD_INVALID, text, sizeof text, &has_value);
    if (status == WEIR_OK && has_value &&
        (duration_parse(text, ret_us, NULL) != WEIR_OK || *ret_us > DEFINITION_DURATION_US_MAX)) {
        return FAIL(reading, FIELD_INVALID, "%s must be a duration as 10s, 1h30m or 2d, of at most ten years, not '%s'",
                    what, text);
    }
    return status;
}

static enum weir_status take_priority(const struct reading *reading, const struct template *template, int *ret_priority)
{
    char text[JSON_NUMBER_TEXT_MAX] = "";
    bool has_value = false;
    enum weir_status status = take_text(reading, template, "priority", FIELD_INVALID, text, sizeof text, &has_value);
    if (status != WEIR_OK || !has_value) {
        return status;
    }
    if (text[0] < '0' + TEMPORAL_PRIORITY_FIRST || text[0] > '0' + TEMPORAL_PRIORITY_LAST || text[1] != '\0') {
        return FAIL(reading, FIELD_INVALID, "priority must be an integer from %d to %d, not '%s'", TEMPORAL_PRIORITY_FIRST,
                    TEMPORAL_PRIORITY_LAST, text);
    }
    *ret_priority = text[0] - '0';
    return WEIR_OK;
}

/* --- payloads --- */

static enum weir_status take_tree(const struct reading *reading, const struct template *template, const char *what,
                                  size_t max, json_t **ret_tree)
{
    struct text text = {.max = max};
    if (template == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = evaluate(reading, template, what, ret_tree);
    if (status == WEIR_OK) {
        status = json_write(*ret_tree, &text, NULL);
        status = status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(reading->error)
                 : status != WEIR_OK          ? FAIL(reading, FIELD_INVALID, "%s is larger than %zu bytes", what, max)
                                              : WEIR_OK;
    }
    text_close(&text);
    return status;
}

/* The value as the type wants it, new; NULL where it does not fit. What the params have as text or as number is one and the
 * same to a person. */
static json_t *fit_scalar(const json_t *value, enum attribute_type type)
{
    char text[JSON_NUMBER_TEXT_MAX + 1] = "";
    char *end = text;
    int64_t time_us = 0;
    const char *string = json_string_value(value);
    if (json_is_object(value) || json_is_array(value)) {
        return NULL;
    }
    switch (type) {
    case ATTRIBUTE_TEXT:
    case ATTRIBUTE_KEYWORD:
        if (json_is_boolean(value)) {
            return json_string(json_is_true(value) ? "true" : "false");
        }
        if (json_is_integer(value)) {
            (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
            return json_string(text);
        }
        if (json_is_real(value)) {
            return json_format_number(json_real_value(value), text) == WEIR_OK ? json_string(text) : NULL;
        }
        break;
    case ATTRIBUTE_INT:
        if (string != NULL) {
            long long number = strtoll(string, &end, 10);
            return *string != '\0' && *end == '\0' ? json_integer(number) : NULL;
        }
        return json_is_integer(value) ? json_integer(json_integer_value(value)) : NULL;
    case ATTRIBUTE_DOUBLE:
        if (string != NULL) {
            double number = strtod(string, &end);
            return *string != '\0' && *end == '\0' ? json_real(number) : NULL;
        }
        return json_is_number(value) ? json_real(json_number_value(value)) : NULL;
    case ATTRIBUTE_BOOL:
        if (string != NULL) {
            return strcmp(string, "true") == 0 ? json_true() : strcmp(string, "false") == 0 ? json_false() : NULL;
        }
        return json_is_boolean(value) ? json_boolean(json_is_true(value)) : NULL;
    case ATTRIBUTE_DATETIME:
        /* time_parse() takes "now" and durations, too. */
        return string != NULL && strlen(string) > 4 && string[4] == '-' && time_parse(string, 0, &time_us, NULL) == WEIR_OK
                   ? json_string(string)
                   : NULL;
    case ATTRIBUTE_UNKNOWN:
    case ATTRIBUTE_KEYWORD_LIST:
        break;
    }
    return json_deep_copy(value);
}

static json_t *fit_list(const json_t *value)
{
    json_t *list = json_array();
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count && list != NULL; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_array_append_new(list, fit_scalar(item, ATTRIBUTE_KEYWORD)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *fit(const json_t *value, enum attribute_type type)
{
    bool is_list = type == ATTRIBUTE_KEYWORD_LIST || (type == ATTRIBUTE_UNKNOWN && json_is_array(value));
    return is_list ? fit_list(value) : fit_scalar(value, type);
}

/* An attribute without a value is left out. */
static enum weir_status fit_attributes(const struct reading *reading, const json_t *types, json_t *attributes)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(attributes, next, name, value)
    {
        enum attribute_type type = (enum attribute_type)json_integer_value(json_object_get(types, name));
        if (json_is_null(value)) {
            (void)json_object_del(attributes, name);
            continue;
        }
        json_t *fitted = fit(value, type);
        if (fitted == NULL) {
            return FAIL(reading, FIELD_INVALID, "the search attribute %s%s%s does not take a value of the type %s", name,
                        type == ATTRIBUTE_UNKNOWN ? "" : ", of the type ", attribute_type_name(type),
                        json_type_name(value));
        }
        if (json_object_set_new(attributes, name, fitted) != 0) {
            return error_out_of_memory(reading->error);
        }
    }
    return WEIR_OK;
}

/* A header without a value is left out. */
static enum weir_status take_headers(const struct reading *reading, const struct template *template, json_t **ret_headers)
{
    const char *name;
    const json_t *value;
    void *next;
    enum weir_status status = take_tree(reading, template, "headers", TEMPORAL_MAP_BYTES_MAX, ret_headers);
    if (status == WEIR_OK && template != NULL) {
        json_object_foreach_safe(*ret_headers, next, name, value)
        {
            if (json_is_null(value)) {
                (void)json_object_del(*ret_headers, name);
            }
        }
    }
    return status;
}

/* --- all of it --- */

static enum weir_status make_context(const struct engine_start *start, json_t **ret_context, struct weir_error *error)
{
    json_t *params = NULL;
    enum weir_status status = json_read(start->params, start->params_length, &params, error);
    if (status != WEIR_OK) {
        error_prefix(error, "the params cannot be read");
        return status;
    }
    *ret_context = json_pack("{s:o, s:{s:s, s:s, s:s, s:i}}", "input", params, "execution", "id", start->id, "workspace",
                             start->workspace, "workflow", start->workflow, "version", start->version);
    return *ret_context == NULL ? error_out_of_memory(error) : WEIR_OK;
}

static enum weir_status take_times(const struct reading *reading, const struct definition_temporal *temporal,
                                   struct start_fields *fields)
{
    enum weir_status status =
        take_duration(reading, temporal->execution_timeout, "execution_timeout", &fields->execution_timeout_us);
    status =
        status == WEIR_OK ? take_duration(reading, temporal->run_timeout, "run_timeout", &fields->run_timeout_us) : status;
    status = status == WEIR_OK ? take_duration(reading, temporal->task_timeout, "task_timeout", &fields->task_timeout_us)
                               : status;
    return status == WEIR_OK ? take_duration(reading, temporal->start_delay, "start_delay", &fields->start_delay_us)
                             : status;
}

static enum weir_status take_all(const struct reading *reading, const struct definition_temporal *temporal, const char *id,
                                 const char *queue, const json_t *types, struct start_fields *fields)
{
    enum weir_status status = take_workflow_id(reading, temporal->workflow_id, id, fields->workflow_id);
    if (status != WEIR_OK) {
        (void)fields_default_id(id, fields->workflow_id);
        return status;
    }
    status = take_queue(reading, temporal->task_queue, queue, fields->task_queue);
    status = status == WEIR_OK ? take_times(reading, temporal, fields) : status;
    status = status == WEIR_OK ? take_priority(reading, temporal->priority, &fields->priority_key) : status;
    if (status == WEIR_OK) {
        status = take_tree(reading, temporal->arguments, "args", ARGUMENTS_BYTES_MAX, &fields->arguments);
    }
    if (status == WEIR_OK) {
        status = take_tree(reading, temporal->memo, "memo", TEMPORAL_MAP_BYTES_MAX, &fields->memo);
    }
    if (status == WEIR_OK) {
        status = take_tree(reading, temporal->search_attributes, "search_attributes", TEMPORAL_MAP_BYTES_MAX,
                           &fields->attributes);
    }
    if (status == WEIR_OK) {
        status = take_headers(reading, temporal->headers, &fields->headers);
    }
    return status == WEIR_OK ? fit_attributes(reading, types, fields->attributes) : status;
}

enum weir_status fields_evaluate(const struct definition *definition, const struct engine_start *start, const char *queue,
                                 const json_t *types, struct start_fields *ret_fields, const char **ret_code,
                                 struct weir_error *error)
{
    const struct definition_temporal *temporal = definition->temporal;
    json_t *context = NULL;
    enum weir_status status = WEIR_OK;
    INVARIANT(temporal != NULL);
    *ret_fields = (struct start_fields){.execution_timeout_us = definition->timeout_us,
                                        .retry = temporal->has_retry ? &temporal->retry : NULL};
    *ret_code = FIELD_INVALID;
    (void)fields_default_id(start->id, ret_fields->workflow_id);
    text_copy(ret_fields->task_queue, sizeof ret_fields->task_queue, queue);
    if (temporal->has_expressions) {
        status = make_context(start, &context, error);
    }
    struct reading reading = {context, ret_code, error};
    if (status == WEIR_OK) {
        status = take_all(&reading, temporal, start->id, queue, types, ret_fields);
    }
    json_decref(context);
    return status == WEIR_OK || status == WEIR_OUT_OF_MEMORY ? status : WEIR_FAILED;
}

void fields_close(struct start_fields *fields)
{
    json_decref(fields->arguments);
    json_decref(fields->memo);
    json_decref(fields->attributes);
    json_decref(fields->headers);
    fields->arguments = fields->memo = fields->attributes = fields->headers = NULL;
}
