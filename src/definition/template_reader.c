/* Reading values of steps that may hold expressions. Part of definition_read() (definition_reader.c).
 *
 *   1. Each text becomes a template, and is listed in reader->uses with its place, for the check of references.
 *   2. Lists and maps become templates with children, in which each text is one. Other values become constants.
 *
 * A template keeps no pointer into the tree of the file, which ends before the definition; only template_use does, and
 * lives as long as the tree.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/definition_internal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

/* The references of the template are checked when all steps are known. */
static enum weir_status note_template_use(struct definition_reader *reader, size_t step, const struct yaml_node *node,
                                          const struct template *template)
{
    struct template_use *use = arena_allocate(reader->scratch, sizeof *use);
    if (use == NULL) {
        return error_out_of_memory(reader->error);
    }
    *use = (struct template_use){.template = template, .node = node, .step = step, .has_item = reader->has_item};
    *reader->uses_end = use;
    reader->uses_end = &use->next;
    return WEIR_OK;
}

/* Any scalar but null: `[sleep, 5]` and `FLAG: true` mean the text as written. */
enum weir_status reader_take_template(struct definition_reader *reader, size_t step, const struct yaml_node *node,
                                      const char *field, const struct template **ret_template)
{
    if (node->kind == YAML_LIST || node->kind == YAML_MAP || node->kind == YAML_NULL) {
        return FAIL(reader, node, "%s must be text, not %s", field, yaml_kind_name(node->kind));
    }
    if (memchr(node->text, '\0', node->length) != NULL) {
        return FAIL(reader, node, "%s must not hold a NUL", field);
    }
    struct template_fault fault = {.offset = 0};
    struct weir_error inner = {.status = WEIR_OK};
    enum weir_status status = template_parse(node->text, node->length, reader->arena, ret_template, &fault, &inner);
    if (status == WEIR_INVALID_DEFINITION) {
        yaml_error_inside(&reader->source, node, fault.offset, reader->error, "%s: %s", field, inner.message);
        error_hint(reader->error, "%s", inner.hint);
        return status;
    }
    return status == WEIR_OK ? note_template_use(reader, step, node, *ret_template) : error_out_of_memory(reader->error);
}

enum weir_status reader_take_expression(struct definition_reader *reader, size_t step, const struct yaml_node *node,
                                        const char *field, const char *gives, const char *hint,
                                        const struct template **ret_template)
{
    enum weir_status status = WEIR_OK;
    if (node->kind == YAML_STRING) {
        status = reader_take_template(reader, step, node, field, ret_template);
        if (status == WEIR_OK && template_is_expression(*ret_template)) {
            return WEIR_OK;
        }
    }
    if (status == WEIR_OK) {
        FAIL(reader, node, "%s must be one expression%s", field, gives);
        error_hint(reader->error, "%s", hint);
        status = reader->source.status;
    }
    return status;
}

static enum weir_status take_constant(struct definition_reader *reader, const struct yaml_node *node,
                                      const struct template **ret_template)
{
    char number[JSON_NUMBER_TEXT_MAX];
    struct text text = {.max = sizeof number};
    const char *json = node->kind == YAML_NULL ? "null" : node->boolean ? "true" : "false";
    enum weir_status status = WEIR_OK;
    if (node->kind == YAML_INTEGER) {
        status = text_format(&text, "%lld", (long long)node->integer);
        json = text.data;
    } else if (node->kind == YAML_NUMBER) {
        status = json_format_number(node->number, number);
        json = number;
    }
    struct template *made = arena_allocate(reader->arena, sizeof *made);
    if (status != WEIR_OK || made == NULL) {
        text_close(&text);
        return error_out_of_memory(reader->error);
    }
    made->shape = TEMPLATE_CONSTANT;
    made->source = arena_copy_string(reader->arena, json);
    made->source_length = strlen(json);
    text_close(&text);
    *ret_template = made;
    return made->source == NULL ? error_out_of_memory(reader->error) : WEIR_OK;
}

static enum weir_status take_collection(struct definition_reader *reader, size_t step, const struct yaml_node *node,
                                        const char *field, const struct template **ret_template)
{
    struct template *made = arena_allocate(reader->arena, sizeof *made);
    const struct template **children = arena_allocate(reader->arena, (node->count + 1) * sizeof *children);
    const char **keys = arena_allocate(reader->arena, (node->count + 1) * sizeof *keys);
    if (made == NULL || children == NULL || keys == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = reader_take_tree(reader, step, node->values[i], field, &children[i]);
        if (status != WEIR_OK) {
            return status;
        }
        keys[i] = node->kind == YAML_MAP ? arena_copy_string(reader->arena, node->keys[i]->text) : "";
        if (keys[i] == NULL) {
            return error_out_of_memory(reader->error);
        }
    }
    made->shape = node->kind == YAML_MAP ? TEMPLATE_MAP : TEMPLATE_LIST;
    made->children = children;
    made->child_count = node->count;
    made->keys = node->kind == YAML_MAP ? keys : NULL;
    *ret_template = made;
    return WEIR_OK;
}

/* Any value; texts in it may hold expressions. The tree is at most YAML_DEPTH_MAX deep. */
enum weir_status reader_take_tree(struct definition_reader *reader, size_t step, const struct yaml_node *node,
                                  const char *field, const struct template **ret_template)
{
    switch (node->kind) {
    case YAML_STRING:
        return reader_take_template(reader, step, node, field, ret_template);
    case YAML_LIST:
    case YAML_MAP:
        return take_collection(reader, step, node, field, ret_template);
    default:
        return take_constant(reader, node, ret_template);
    }
}

/* --- fixed values --- */

/* The tree of templates is read and dropped: it gives the place of a fault within the value. The store keeps the value
 * itself, and each node reads it anew; there "$${" would be an expression. */
enum weir_status reader_take_fixed(struct definition_reader *reader, const struct yaml_node *node,
                                   const struct fixed_value_rules *rules, json_t **ret_value, const char **ret_text)
{
    INVARIANT(node != NULL && rules != NULL && ret_value != NULL && ret_text != NULL);
    const struct template *template = NULL;
    struct text text = {.max = rules->bytes_max};
    json_t *value = NULL;
    enum weir_status status = reader_take_tree(reader, 0, node, rules->what, &template);
    if (status == WEIR_OK && !template_is_constant(template)) {
        FAIL(reader, node, "%s must be a fixed value, without expressions", rules->what);
        error_hint(reader->error, "%s", rules->instead);
        return reader->source.status;
    }
    if (status == WEIR_OK) {
        status = template_evaluate(template, NULL, NULL, NULL, &value, reader->error);
    }
    if (status == WEIR_OK && json_write(value, &text, NULL) != WEIR_OK) {
        status = FAIL(reader, node, "%s is longer than %zu bytes", rules->what, rules->bytes_max);
    } else if (status == WEIR_OK && strstr(text.data, "${") != NULL) {
        FAIL(reader, node, "%s may not have ${ in a text", rules->what);
        error_hint(reader->error, "%s", rules->instead);
        status = reader->source.status;
    }
    const char *copy = status == WEIR_OK ? arena_copy(reader->arena, text.data, text.length) : NULL;
    text_close(&text);
    if (status == WEIR_OK && copy == NULL) {
        status = error_out_of_memory(reader->error);
    }
    if (status != WEIR_OK) {
        json_decref(value);
        return status;
    }
    *ret_value = value;
    *ret_text = copy;
    return WEIR_OK;
}
