/* The section `temporal` of a definition: how its workflow is started on Temporal instead of as steps here. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "queue/definition_reader.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

enum { TEMPORAL_MAP_BYTES_MAX = 64 * 1024 };

static enum weir_status take_outer_name(struct definition_reader *reader, const struct yaml_node *node, const char *what,
                                        const char **ret_name)
{
    enum weir_status status = reader_take_text(reader, node, what, ret_name);
    if (status == WEIR_OK && ((*ret_name)[0] == '\0' || strlen(*ret_name) > TEMPORAL_NAME_BYTES_MAX)) {
        return FAIL(reader, node, "%s must have 1 to %d bytes", what, TEMPORAL_NAME_BYTES_MAX);
    }
    return status;
}

/* --- memo and search attributes: JSON as it stands --- */

/* The tree's own reader has bounded its depth. NULL when out of memory. */
static json_t *json_of(const struct yaml_node *node)
{
    json_t *value = NULL;
    switch (node->kind) {
    case YAML_MAP:
        value = json_object();
        for (size_t i = 0; value != NULL && i < node->count; i++) {
            if (json_object_set_new(value, node->keys[i]->text, json_of(node->values[i])) != 0) {
                json_decref(value);
                return NULL;
            }
        }
        return value;
    case YAML_LIST:
        value = json_array();
        for (size_t i = 0; value != NULL && i < node->count; i++) {
            if (json_array_append_new(value, json_of(node->values[i])) != 0) {
                json_decref(value);
                return NULL;
            }
        }
        return value;
    case YAML_STRING:
        return json_stringn(node->text, node->length);
    case YAML_INTEGER:
        return json_integer(node->integer);
    case YAML_NUMBER:
        return json_real(node->number);
    case YAML_BOOLEAN:
        return json_boolean(node->boolean);
    case YAML_NULL:
        return json_null();
    }
    return NULL;
}

static enum weir_status take_map(struct definition_reader *reader, const struct yaml_node *node, const char *what,
                                 const char **ret_text)
{
    struct text text = {.max = TEMPORAL_MAP_BYTES_MAX};
    if (node->kind != YAML_MAP) {
        return FAIL(reader, node, "%s must be a map, not %s", what, yaml_kind_name(node->kind));
    }
    if (node->count > TEMPORAL_FIELDS_MAX) {
        return FAIL(reader, node, "%s has more than %d entries", what, TEMPORAL_FIELDS_MAX);
    }
    json_t *value = json_of(node);
    enum weir_status status = value == NULL ? WEIR_OUT_OF_MEMORY : json_write(value, &text, reader->error);
    json_decref(value);
    if (status == WEIR_OK) {
        *ret_text = arena_copy(reader->arena, text.data, text.length);
        status = *ret_text == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    }
    text_close(&text);
    if (status == WEIR_OUT_OF_MEMORY) {
        return error_out_of_memory(reader->error);
    }
    return status == WEIR_OK ? WEIR_OK : FAIL(reader, node, "%s is larger than %d bytes", what, TEMPORAL_MAP_BYTES_MAX);
}

static enum weir_status refuse_own_memo(struct definition_reader *reader, const struct yaml_node *memo)
{
    for (size_t i = 0; i < memo->count; i++) {
        if (strncmp(memo->keys[i]->text, "weir_", strlen("weir_")) == 0) {
            return FAIL(reader, memo->keys[i], "memo fields that begin with weir_ are weir's own");
        }
    }
    return WEIR_OK;
}

/* --- the section --- */

static enum weir_status read_times(struct definition_reader *reader, const struct yaml_node *node,
                                   struct definition_temporal *temporal)
{
    const struct yaml_node *run = yaml_get(node, "run_timeout");
    const struct yaml_node *task = yaml_get(node, "task_timeout");
    const struct yaml_node *retry = yaml_get(node, "retry");
    enum weir_status status = WEIR_OK;
    if (run != NULL) {
        status = reader_take_duration(reader, run, "\"run_timeout\"", &temporal->run_timeout_us);
    }
    if (status == WEIR_OK && task != NULL) {
        status = reader_take_duration(reader, task, "\"task_timeout\"", &temporal->task_timeout_us);
    }
    if (status == WEIR_OK && retry != NULL) {
        temporal->retry = step_retry_default(STEP_EXEC);
        temporal->has_retry = true;
        status = reader_take_retry(reader, retry, &temporal->retry);
    }
    return status;
}

enum weir_status temporal_read(struct definition_reader *reader, const struct yaml_node *node,
                               struct definition *definition)
{
    static const char *const keys[] = {"workflow_type", "task_queue", "run_timeout",      "task_timeout",
                                       "retry",         "memo",       "search_attributes"};
    enum weir_status status =
        yaml_check_keys(&reader->source, node, "\"temporal\"", keys, sizeof keys / sizeof keys[0], reader->error);
    struct definition_temporal *temporal = status == WEIR_OK ? arena_allocate(reader->arena, sizeof *temporal) : NULL;
    if (status != WEIR_OK) {
        return status;
    }
    if (temporal == NULL) {
        return error_out_of_memory(reader->error);
    }
    const struct yaml_node *type = yaml_get(node, "workflow_type");
    const struct yaml_node *queue = yaml_get(node, "task_queue");
    const struct yaml_node *memo = yaml_get(node, "memo");
    const struct yaml_node *attributes = yaml_get(node, "search_attributes");
    temporal->execution_timeout_us = definition->timeout_us;
    if (type != NULL) {
        status = take_outer_name(reader, type, "\"workflow_type\"", &temporal->workflow_type);
    }
    if (status == WEIR_OK && queue != NULL) {
        status = take_outer_name(reader, queue, "\"task_queue\"", &temporal->task_queue);
    }
    if (status == WEIR_OK) {
        status = read_times(reader, node, temporal);
    }
    if (status == WEIR_OK && memo != NULL) {
        status = take_map(reader, memo, "\"memo\"", &temporal->memo);
        status = status == WEIR_OK ? refuse_own_memo(reader, memo) : status;
    }
    if (status == WEIR_OK && attributes != NULL) {
        status = take_map(reader, attributes, "\"search_attributes\"", &temporal->search_attributes);
    }
    definition->temporal = temporal;
    return status;
}
