/* The fields of a start that a definition may give by expressions.
 *
 * 1. The params are read once, and only if the definition has expressions.
 * 2. The workflow id comes first: a later fault is reported under the id that the workflow would have had.
 * 3. Each further field is evaluated and checked in the order of the section. The first fault ends the evaluation.
 * 4. Search attributes are converted to the types of the namespace, because params have numbers where the namespace has
 *    text, and the other way round.
 *
 * A fault of a value is WEIR_FAILED with a code: the execution fails for good. The evaluation must never depend on anything
 * that may differ between two nodes, because each node must send the same start.
 *
 * The functions are pure; any thread. */
#include "engine/temporal/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define TRACER_HEADER "_tracer-data"

/* The context of the expressions, and the place for a fault. */
struct evaluation {
    const json_t *context;
    const char **ret_code;
    struct weir_error *error;
};

#define FAIL(evaluation, code, ...)                                                                                        \
    (*(evaluation)->ret_code = (code), error_set((evaluation)->error, WEIR_FAILED, __VA_ARGS__))

const char *fields_default_id(const char *id, char *to)
{
    INVARIANT(id != NULL && to != NULL);
    (void)snprintf(to, WORKFLOW_ID_MAX, WORKFLOW_ID_PREFIX "%s", id);
    return to;
}

/* --- values --- */

/* `field` is the name in the message of a fault. */
static enum weir_status evaluate_template(const struct evaluation *evaluation, const struct template *template,
                                          const char *field, json_t **ret_value)
{
    enum weir_status status = template_evaluate(template, evaluation->context, NULL, NULL, ret_value, evaluation->error);
    if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
        *evaluation->ret_code = EXPRESSION_ERROR_CODE;
        error_prefix(evaluation->error, "%s", field);
        return WEIR_FAILED;
    }
    return status;
}

/* A text with at most `size` - 1 bytes. A number or a boolean counts as its text. *ret_has is false where a single
 * expression has no value. */
static enum weir_status evaluate_text(const struct evaluation *evaluation, const struct template *template,
                                      const char *field, const char *code, char *to, size_t size, bool *ret_has)
{
    json_t *value = NULL;
    struct text text = {.max = size - 1};
    *ret_has = false;
    if (template == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = evaluate_template(evaluation, template, field, &value);
    if (status != WEIR_OK || json_is_null(value)) {
        json_decref(value);
        return status;
    }
    if (json_is_object(value) || json_is_array(value)) {
        status = FAIL(evaluation, code, "%s must be text, and its value is of the type %s", field, json_type_name(value));
    } else {
        status = json_is_string(value) ? text_add(&text, json_string_value(value), json_string_length(value))
                                       : json_write(value, &text, NULL);
        status = status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(evaluation->error)
                 : status != WEIR_OK          ? FAIL(evaluation, code, "%s has more than %zu bytes", field, size - 1)
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

/* A number or a missing value is no id: it is a mistake in the params. An id of the default form belongs to the execution
 * that it names. */
static enum weir_status evaluate_workflow_id(const struct evaluation *evaluation, const struct template *template,
                                             const char *id, char *to)
{
    char own[WORKFLOW_ID_MAX];
    bool has_id = false;
    json_t *value = NULL;
    (void)fields_default_id(id, own);
    if (template == NULL) {
        memcpy(to, own, sizeof own);
        return WEIR_OK;
    }
    enum weir_status status = evaluate_template(evaluation, template, "workflow_id", &value);
    if (status == WEIR_OK && !json_is_string(value)) {
        status = FAIL(evaluation, WORKFLOW_ID_INVALID, "workflow_id must be a string, and its value is of the type %s: %s",
                      json_type_name(value), template->source);
    }
    json_decref(value);
    if (status == WEIR_OK) {
        status = evaluate_text(evaluation, template, "workflow_id", WORKFLOW_ID_INVALID, to, WORKFLOW_ID_MAX, &has_id);
    }
    if (status == WEIR_OK && to[0] == '\0') {
        return FAIL(evaluation, WORKFLOW_ID_INVALID, "workflow_id is empty: %s", template->source);
    }
    if (status == WEIR_OK && has_control(to)) {
        return FAIL(evaluation, WORKFLOW_ID_INVALID, "workflow_id contains a control character: %s", template->source);
    }
    if (status == WEIR_OK && strncmp(to, WORKFLOW_ID_PREFIX, strlen(WORKFLOW_ID_PREFIX)) == 0 && strcmp(to, own) != 0) {
        return FAIL(evaluation, WORKFLOW_ID_INVALID,
                    "workflow_id '%s' begins with " WORKFLOW_ID_PREFIX ", which weir reserves for its own ids", to);
    }
    return status;
}

/* `queue`: the task queue of the node, used when the definition gives none. */
static enum weir_status evaluate_task_queue(const struct evaluation *evaluation, const struct template *template,
                                            const char *queue, char *to)
{
    bool has_queue = false;
    enum weir_status status =
        evaluate_text(evaluation, template, "task_queue", FIELD_INVALID, to, TASK_QUEUE_NAME_MAX + 1, &has_queue);
    if (status == WEIR_OK && !has_queue) {
        text_copy(to, TASK_QUEUE_NAME_MAX + 1, queue);
    } else if (status == WEIR_OK && to[0] == '\0') {
        return FAIL(evaluation, FIELD_INVALID, "task_queue is empty: %s", template->source);
    }
    return status;
}

/* --- numbers --- */

static enum weir_status evaluate_duration(const struct evaluation *evaluation, const struct template *template,
                                          const char *field, int64_t *ret_us)
{
    char text[DURATION_TEXT_MAX] = "";
    bool has_value = false;
    enum weir_status status = evaluate_text(evaluation, template, field, FIELD_INVALID, text, sizeof text, &has_value);
    if (status == WEIR_OK && has_value &&
        (duration_parse(text, ret_us, NULL) != WEIR_OK || *ret_us > DEFINITION_DURATION_US_MAX)) {
        return FAIL(evaluation, FIELD_INVALID, "%s must be a duration as 10s, 1h30m or 2d, of at most ten years, not '%s'",
                    field, text);
    }
    return status;
}

static enum weir_status evaluate_priority_key(const struct evaluation *evaluation, const struct template *template,
                                              int *ret_priority)
{
    char text[JSON_NUMBER_TEXT_MAX] = "";
    bool has_value = false;
    enum weir_status status = evaluate_text(evaluation, template, "priority", FIELD_INVALID, text, sizeof text, &has_value);
    if (status != WEIR_OK || !has_value) {
        return status;
    }
    if (text[0] < '0' + TEMPORAL_PRIORITY_FIRST || text[0] > '0' + TEMPORAL_PRIORITY_LAST || text[1] != '\0') {
        return FAIL(evaluation, FIELD_INVALID, "priority must be an integer from %d to %d, not '%s'",
                    TEMPORAL_PRIORITY_FIRST, TEMPORAL_PRIORITY_LAST, text);
    }
    *ret_priority = text[0] - '0';
    return WEIR_OK;
}

/* --- payloads --- */

/* Arguments, memo, attributes or headers: a JSON value of at most `max` bytes. */
static enum weir_status evaluate_json_field(const struct evaluation *evaluation, const struct template *template,
                                            const char *field, size_t max, json_t **ret_tree)
{
    struct text text = {.max = max};
    if (template == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = evaluate_template(evaluation, template, field, ret_tree);
    if (status == WEIR_OK) {
        status = json_write(*ret_tree, &text, NULL);
        status = status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(evaluation->error)
                 : status != WEIR_OK          ? FAIL(evaluation, FIELD_INVALID, "%s is larger than %zu bytes", field, max)
                                              : WEIR_OK;
    }
    text_close(&text);
    return status;
}

/* The value in the form of the type, new; NULL when it does not fit. A number and its text are equal here. */
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
        /* time_parse() also accepts "now" and durations. */
        return string != NULL && strlen(string) > 4 && string[4] == '-' && time_parse(string, 0, &time_us, NULL) == WEIR_OK
                   ? json_string(string)
                   : NULL;
    case ATTRIBUTE_UNKNOWN:
    case ATTRIBUTE_KEYWORD_LIST:
        break;
    }
    return json_deep_copy(value);
}

/* A single value becomes a list of one. */
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

static json_t *fit_value(const json_t *value, enum attribute_type type)
{
    bool is_list = type == ATTRIBUTE_KEYWORD_LIST || (type == ATTRIBUTE_UNKNOWN && json_is_array(value));
    return is_list ? fit_list(value) : fit_scalar(value, type);
}

/* Step 4. An attribute without a value is left out. */
static enum weir_status fit_attributes(const struct evaluation *evaluation, const json_t *types, json_t *attributes)
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
        json_t *fitted = fit_value(value, type);
        if (fitted == NULL) {
            return FAIL(evaluation, FIELD_INVALID, "the search attribute %s%s%s does not take a value of the type %s", name,
                        type == ATTRIBUTE_UNKNOWN ? "" : ", of the type ", attribute_type_name(type),
                        json_type_name(value));
        }
        if (json_object_set_new(attributes, name, fitted) != 0) {
            return error_out_of_memory(evaluation->error);
        }
    }
    return WEIR_OK;
}

/* A header without a value is left out. */
static enum weir_status evaluate_headers(const struct evaluation *evaluation, const struct template *template,
                                         json_t **ret_headers)
{
    const char *name;
    const json_t *value;
    void *next;
    enum weir_status status = evaluate_json_field(evaluation, template, "headers", TEMPORAL_MAP_BYTES_MAX, ret_headers);
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

static enum weir_status make_params_context(const struct engine_start *start, json_t **ret_context,
                                            struct weir_error *error)
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

static enum weir_status evaluate_timeouts(const struct evaluation *evaluation, const struct definition_temporal *temporal,
                                          struct start_fields *fields)
{
    enum weir_status status =
        evaluate_duration(evaluation, temporal->execution_timeout, "execution_timeout", &fields->execution_timeout_us);
    status = status == WEIR_OK
                 ? evaluate_duration(evaluation, temporal->run_timeout, "run_timeout", &fields->run_timeout_us)
                 : status;
    status = status == WEIR_OK
                 ? evaluate_duration(evaluation, temporal->task_timeout, "task_timeout", &fields->task_timeout_us)
                 : status;
    return status == WEIR_OK ? evaluate_duration(evaluation, temporal->start_delay, "start_delay", &fields->start_delay_us)
                             : status;
}

/* Steps 2 to 4. */
static enum weir_status evaluate_fields(const struct evaluation *evaluation, const struct definition_temporal *temporal,
                                        const char *id, const char *queue, const json_t *types, struct start_fields *fields)
{
    enum weir_status status = evaluate_workflow_id(evaluation, temporal->workflow_id, id, fields->workflow_id);
    if (status != WEIR_OK) {
        (void)fields_default_id(id, fields->workflow_id);
        return status;
    }
    status = evaluate_task_queue(evaluation, temporal->task_queue, queue, fields->task_queue);
    status = status == WEIR_OK ? evaluate_timeouts(evaluation, temporal, fields) : status;
    status = status == WEIR_OK ? evaluate_priority_key(evaluation, temporal->priority, &fields->priority_key) : status;
    if (status == WEIR_OK) {
        status = evaluate_json_field(evaluation, temporal->arguments, "args", ARGUMENTS_BYTES_MAX, &fields->arguments);
    }
    if (status == WEIR_OK) {
        status = evaluate_json_field(evaluation, temporal->memo, "memo", TEMPORAL_MAP_BYTES_MAX, &fields->memo);
    }
    if (status == WEIR_OK) {
        status = evaluate_json_field(evaluation, temporal->search_attributes, "search_attributes", TEMPORAL_MAP_BYTES_MAX,
                                     &fields->attributes);
    }
    if (status == WEIR_OK) {
        status = evaluate_headers(evaluation, temporal->headers, &fields->headers);
    }
    return status == WEIR_OK ? fit_attributes(evaluation, types, fields->attributes) : status;
}

/* The header that the OpenTelemetry interceptors of Temporal's SDKs read. One that the definition names stays. */
static enum weir_status add_trace_header(const char *traceparent, struct start_fields *fields, struct weir_error *error)
{
    if (traceparent == NULL || json_object_get(fields->headers, TRACER_HEADER) != NULL) {
        return WEIR_OK;
    }
    if (fields->headers == NULL) {
        fields->headers = json_object();
    }
    json_t *header = json_pack("{s:s}", "traceparent", traceparent);
    return json_object_set_new(fields->headers, TRACER_HEADER, header) == 0 ? WEIR_OK : error_out_of_memory(error);
}

enum weir_status fields_evaluate(const struct definition *definition, const struct engine_start *start, const char *queue,
                                 const json_t *types, struct start_fields *ret_fields, const char **ret_code,
                                 struct weir_error *error)
{
    const struct definition_temporal *temporal = definition->temporal;
    json_t *context = NULL;
    enum weir_status status = WEIR_OK;
    INVARIANT(temporal != NULL && start != NULL && queue != NULL && ret_fields != NULL && ret_code != NULL);
    *ret_fields = (struct start_fields){.execution_timeout_us = definition->timeout_us,
                                        .retry = temporal->has_retry ? &temporal->retry : NULL};
    *ret_code = FIELD_INVALID;
    (void)fields_default_id(start->id, ret_fields->workflow_id);
    text_copy(ret_fields->task_queue, sizeof ret_fields->task_queue, queue);
    if (temporal->has_expressions) {
        status = make_params_context(start, &context, error);
    }
    struct evaluation evaluation = {context, ret_code, error};
    if (status == WEIR_OK) {
        status = evaluate_fields(&evaluation, temporal, start->id, queue, types, ret_fields);
    }
    if (status == WEIR_OK) {
        status = add_trace_header(start->traceparent, ret_fields, error);
    }
    json_decref(context);
    return status == WEIR_OK || status == WEIR_OUT_OF_MEMORY ? status : WEIR_FAILED;
}

void fields_close(struct start_fields *fields)
{
    INVARIANT(fields != NULL);
    json_decref(fields->arguments);
    json_decref(fields->memo);
    json_decref(fields->attributes);
    json_decref(fields->headers);
    fields->arguments = fields->memo = fields->attributes = fields->headers = NULL;
}
