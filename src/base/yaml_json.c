/* JSON text as the tree of yaml.h, so that one reader of definitions serves both.
 *
 * jansson parses the text (json_read()), and this file copies its values into nodes. Stores keep definitions as JSON with
 * any character, some of which YAML forbids, so yaml_read() cannot read them.
 *
 * jansson does not report the place of a value. Nodes have the place 1:1, and only a fault of the text itself has line and
 * column. Files of users therefore go to yaml_read() first, which accepts nearly all JSON and knows every place.
 *
 * Runs in the caller's thread; the arena of the caller owns the tree. The depth is bounded by json_read().
 */
#include "base/yaml_json.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static struct yaml_node *node_from_json(const json_t *value, struct arena *arena);

/* The text of a scalar as YAML has it; NULL when memory ran out. */
static const char *copy_scalar_text(const json_t *value, struct arena *arena, size_t *ret_length)
{
    char number[JSON_NUMBER_TEXT_MAX] = "null";
    const char *text = number;
    switch (json_typeof(value)) {
    case JSON_STRING:
        *ret_length = json_string_length(value);
        return arena_copy(arena, json_string_value(value), *ret_length);
    case JSON_INTEGER:
        (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        if (json_format_number(json_real_value(value), number) != WEIR_OK) {
            return NULL;
        }
        break;
    case JSON_TRUE:
        text = "true";
        break;
    case JSON_FALSE:
        text = "false";
        break;
    default:
        break;
    }
    *ret_length = strlen(text);
    return arena_copy_string(arena, text);
}

/* Keys and values in the order of jansson, which keeps that of the text. */
static bool fill_items(struct yaml_node *node, const json_t *value, struct arena *arena)
{
    node->count = node->kind == YAML_MAP ? json_object_size(value) : json_array_size(value);
    const struct yaml_node **values = arena_allocate(arena, (node->count + 1) * sizeof *values);
    const struct yaml_node **keys = arena_allocate(arena, (node->count + 1) * sizeof *keys);
    if (values == NULL || keys == NULL) {
        return false;
    }
    node->values = values;
    node->keys = node->kind == YAML_MAP ? keys : NULL;
    void *at = node->kind == YAML_MAP ? json_object_iter((json_t *)(uintptr_t)value) : NULL;
    for (size_t i = 0; i < node->count; i++) {
        const json_t *item = at == NULL ? json_array_get(value, i) : json_object_iter_value(at);
        values[i] = node_from_json(item, arena);
        if (at != NULL) {
            struct yaml_node *key = arena_allocate(arena, sizeof *key);
            const char *text = arena_copy_string(arena, json_object_iter_key(at));
            if (key == NULL || text == NULL) {
                return false;
            }
            *key = (struct yaml_node){
                .kind = YAML_STRING, .line = 1, .column = 1, .is_quoted = true, .text = text, .length = strlen(text)};
            keys[i] = key;
            at = json_object_iter_next((json_t *)(uintptr_t)value, at);
        }
        if (values[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* NULL when memory ran out. The depth was bounded by json_read(). */
static struct yaml_node *node_from_json(const json_t *value, struct arena *arena)
{
    static const enum yaml_kind kinds[] = {
        [JSON_OBJECT] = YAML_MAP,  [JSON_ARRAY] = YAML_LIST,   [JSON_STRING] = YAML_STRING, [JSON_INTEGER] = YAML_INTEGER,
        [JSON_REAL] = YAML_NUMBER, [JSON_TRUE] = YAML_BOOLEAN, [JSON_FALSE] = YAML_BOOLEAN, [JSON_NULL] = YAML_NULL};
    struct yaml_node *node = arena_allocate(arena, sizeof *node);
    if (node == NULL) {
        return NULL;
    }
    node->kind = kinds[json_typeof(value)];
    node->line = 1;
    node->column = 1;
    if (node->kind == YAML_LIST || node->kind == YAML_MAP) {
        return fill_items(node, value, arena) ? node : NULL;
    }
    node->text = copy_scalar_text(value, arena, &node->length);
    node->is_quoted = node->kind == YAML_STRING;
    node->boolean = json_is_true(value);
    node->integer = json_integer_value(value);
    node->number = json_number_value(value);
    return node->text == NULL ? NULL : node;
}

enum weir_status yaml_read_json(const char *bytes, size_t length, const struct yaml_source *source, struct arena *arena,
                                const struct yaml_node **ret_root, struct weir_error *error)
{
    json_t *value = NULL;
    enum weir_status status = json_read(bytes, length, &value, error);
    if (status == WEIR_INVALID_ARGUMENT) {
        error_prefix(error, "%s", source->name);
        if (error != NULL) {
            error->status = source->status;
        }
        return source->status;
    }
    if (status == WEIR_OK) {
        const struct yaml_node *root = node_from_json(value, arena);
        status = root == NULL ? error_out_of_memory(error) : WEIR_OK;
        *ret_root = root == NULL ? *ret_root : root;
        json_decref(value);
    }
    return status;
}
