/* The section `temporal` of a definition: how its workflow is started on Temporal instead of as steps of a node. Part of
 * definition_read(), in the thread of its caller.
 *
 * Its values are templates over the params. A constant is checked when the definition is read; the value of an expression
 * is checked at the start (engine/temporal/fields.c). A start must be the same each time it is sent, from each node. So an
 * expression is a plain path over values that never change; jq programs are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/definition_internal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

static enum weir_status read_outer_name(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                        const char **ret_name)
{
    enum weir_status status = reader_take_text(reader, node, field, ret_name);
    if (status == WEIR_OK && ((*ret_name)[0] == '\0' || strlen(*ret_name) > TEMPORAL_NAME_BYTES_MAX)) {
        return FAIL(reader, node, "%s must have 1 to %d bytes", field, TEMPORAL_NAME_BYTES_MAX);
    }
    return status;
}

/* --- one field each --- */

static enum weir_status read_task_queue(struct definition_reader *reader, const struct yaml_node *node,
                                        const struct template **ret_template)
{
    const char *name = NULL;
    enum weir_status status = reader_take_template(reader, 0, node, "\"task_queue\"", ret_template);
    if (status == WEIR_OK && template_is_constant(*ret_template)) {
        return read_outer_name(reader, node, "\"task_queue\"", &name);
    }
    return status;
}

/* A constant id would serve one execution only. */
static enum weir_status read_workflow_id_template(struct definition_reader *reader, const struct yaml_node *node,
                                                  const struct template **ret_template)
{
    enum weir_status status = reader_take_template(reader, 0, node, "\"workflow_id\"", ret_template);
    if (status == WEIR_OK && template_is_constant(*ret_template)) {
        FAIL(reader, node, "\"workflow_id\" is the same for each execution, but a workflow id is used once");
        error_hint(reader->error, "put a value of the params into it: \"order-${.input.order}\"");
        return reader->source.status;
    }
    return status;
}

/* Zero is no time-out and no delay: the field is left out. */
static enum weir_status read_start_duration(struct definition_reader *reader, const struct yaml_node *node,
                                            const char *field, const struct template **ret_template)
{
    int64_t us = 0;
    char shortest[DURATION_TEXT_MAX];
    enum weir_status status = reader_take_template(reader, 0, node, field, ret_template);
    if (status != WEIR_OK || !template_is_constant(*ret_template)) {
        return status;
    }
    status = reader_take_duration(reader, node, field, &us);
    if (status != WEIR_OK || us == 0) {
        *ret_template = NULL;
        return status;
    }
    duration_format(us, shortest);
    return template_make_verbatim(shortest, strlen(shortest), reader->arena, ret_template, reader->error);
}

static enum weir_status read_start_priority(struct definition_reader *reader, const struct yaml_node *node,
                                            const struct template **ret_template)
{
    int64_t priority = 0;
    enum weir_status status = reader_take_tree(reader, 0, node, "\"priority\"", ret_template);
    if (status == WEIR_OK && template_is_constant(*ret_template)) {
        return reader_take_integer(reader, node, "\"priority\"", TEMPORAL_PRIORITY_FIRST, TEMPORAL_PRIORITY_LAST,
                                   &priority);
    }
    return status;
}

/* --- memo, search attributes, arguments --- */

static enum weir_status check_size(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                   const struct template *template)
{
    struct text text = {.max = TEMPORAL_MAP_BYTES_MAX};
    json_t *value = NULL;
    enum weir_status status = template_evaluate(template, NULL, NULL, NULL, &value, reader->error);
    status = status == WEIR_OK ? json_write(value, &text, reader->error) : status;
    json_decref(value);
    text_close(&text);
    if (status == WEIR_OUT_OF_MEMORY) {
        return error_out_of_memory(reader->error);
    }
    return status == WEIR_OK ? WEIR_OK : FAIL(reader, node, "%s is larger than %d bytes", field, TEMPORAL_MAP_BYTES_MAX);
}

static enum weir_status read_payload_fields(struct definition_reader *reader, const struct yaml_node *node,
                                            const char *field, enum yaml_kind kind, const struct template **ret_template)
{
    if (node->kind != kind) {
        return FAIL(reader, node, "%s must be a %s, not %s", field, yaml_kind_name(kind), yaml_kind_name(node->kind));
    }
    if (node->count > TEMPORAL_FIELDS_MAX) {
        return FAIL(reader, node, "%s has more than %d entries", field, TEMPORAL_FIELDS_MAX);
    }
    enum weir_status status = reader_take_tree(reader, 0, node, field, ret_template);
    return status == WEIR_OK && template_is_constant(*ret_template) ? check_size(reader, node, field, *ret_template)
                                                                    : status;
}

static enum weir_status refuse_own_memo(struct definition_reader *reader, const struct yaml_node *memo)
{
    for (size_t i = 0; i < memo->count; i++) {
        if (strncmp(memo->keys[i]->text, TEMPORAL_OWN_PREFIX, strlen(TEMPORAL_OWN_PREFIX)) == 0) {
            return FAIL(reader, memo->keys[i], "memo fields that begin with weir_ are weir's own");
        }
    }
    return WEIR_OK;
}

static enum weir_status refuse_own_attribute(struct definition_reader *reader, const struct yaml_node *attributes)
{
    for (size_t i = 0; i < attributes->count; i++) {
        if (strcmp(attributes->keys[i]->text, TEMPORAL_WORKSPACE_ATTRIBUTE) == 0) {
            return FAIL(reader, attributes->keys[i],
                        "the search attribute " TEMPORAL_WORKSPACE_ATTRIBUTE " is weir's own: it is the workspace");
        }
    }
    return WEIR_OK;
}

/* --- expressions --- */

struct expression_rule {
    struct definition_reader *reader;
    const struct template_use *use;
};

static enum weir_status refuse_program(void *context, const struct template *template, const char *word, size_t length,
                                       size_t offset)
{
    const struct expression_rule *rule = context;
    (void)template;
    yaml_error_inside(&rule->reader->source, rule->use->node, offset, rule->reader->error,
                      "${%.*s} is more than a path: in \"temporal\" an expression is a path, as ${.input.order}",
                      length > 80 ? 80 : (int)length, word);
    error_hint(rule->reader->error, "put the wanted value into the params when the execution is enqueued");
    return rule->reader->source.status;
}

static bool is_key(const struct path_step *step, const char *key)
{
    return step->key != NULL && strlen(key) == step->key_length && memcmp(step->key, key, step->key_length) == 0;
}

static enum weir_status check_start_path(void *context, const struct path_step *steps, size_t count, size_t offset)
{
    static const char *const keys[] = {"id", "workspace", "workflow", "version"};
    const struct expression_rule *rule = context;
    bool is_known = is_key(&steps[0], "input") || (is_key(&steps[0], "execution") && count == 1);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && count > 1 && is_key(&steps[0], "execution"); i++) {
        is_known = is_known || is_key(&steps[1], keys[i]);
    }
    if (is_known) {
        return WEIR_OK;
    }
    yaml_error_inside(&rule->reader->source, rule->use->node, offset, rule->reader->error,
                      "an expression in \"temporal\" reads .input, or .execution with id, workspace, workflow and version");
    if (steps[0].key != NULL && !is_key(&steps[0], "execution") && !is_key(&steps[0], "steps")) {
        error_hint(rule->reader->error, "did you mean \".input.%.*s\"?",
                   steps[0].key_length > STEP_ID_MAX ? STEP_ID_MAX : (int)steps[0].key_length, steps[0].key);
    }
    return rule->reader->source.status;
}

/* Also for a definition of a store: no evaluator runs at a start. */
static enum weir_status check_expressions(struct definition_reader *reader, struct definition_temporal *temporal)
{
    enum weir_status status = WEIR_OK;
    for (const struct template_use *use = reader->uses; use != NULL && status == WEIR_OK; use = use->next) {
        struct expression_rule rule = {reader, use};
        temporal->has_expressions = temporal->has_expressions || !template_is_constant(use->template);
        status = template_each_program(use->template, refuse_program, &rule);
        status = status == WEIR_OK ? expression_paths(use->template, check_start_path, &rule) : status;
    }
    return status;
}

/* --- the section --- */

static enum weir_status read_ids(struct definition_reader *reader, const struct yaml_node *node,
                                 struct definition_temporal *temporal)
{
    const struct yaml_node *type = yaml_get(node, "workflow_type");
    const struct yaml_node *id = yaml_get(node, "workflow_id");
    const struct yaml_node *queue = yaml_get(node, "task_queue");
    const struct yaml_node *priority = yaml_get(node, "priority");
    enum weir_status status = WEIR_OK;
    if (type != NULL) {
        status = read_outer_name(reader, type, "\"workflow_type\"", &temporal->workflow_type);
    }
    if (status == WEIR_OK && id != NULL) {
        status = read_workflow_id_template(reader, id, &temporal->workflow_id);
    }
    if (status == WEIR_OK && queue != NULL) {
        status = read_task_queue(reader, queue, &temporal->task_queue);
    }
    return status == WEIR_OK && priority != NULL ? read_start_priority(reader, priority, &temporal->priority) : status;
}

static enum weir_status read_times(struct definition_reader *reader, const struct yaml_node *node,
                                   const struct definition *definition, struct definition_temporal *temporal)
{
    const struct {
        const char *key;
        const char *field;
        const struct template **place;
    } times[] = {{"execution_timeout", "\"execution_timeout\"", &temporal->execution_timeout},
                 {"run_timeout", "\"run_timeout\"", &temporal->run_timeout},
                 {"task_timeout", "\"task_timeout\"", &temporal->task_timeout},
                 {"start_delay", "\"start_delay\"", &temporal->start_delay}};
    const struct yaml_node *retry = yaml_get(node, "retry");
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof times / sizeof times[0] && status == WEIR_OK; i++) {
        const struct yaml_node *time = yaml_get(node, times[i].key);
        status = time == NULL ? WEIR_OK : read_start_duration(reader, time, times[i].field, times[i].place);
    }
    if (status == WEIR_OK && temporal->execution_timeout != NULL && definition->timeout_us > 0) {
        return FAIL(reader, yaml_get(node, "execution_timeout"),
                    "\"execution_timeout\" and the definition's \"timeout\" are the same: give one of them");
    }
    if (status == WEIR_OK && retry != NULL) {
        temporal->retry = step_retry_default(STEP_EXEC);
        temporal->has_retry = true;
        status = reader_take_retry(reader, retry, &temporal->retry);
    }
    return status;
}

static enum weir_status read_payloads(struct definition_reader *reader, const struct yaml_node *node,
                                      struct definition_temporal *temporal)
{
    const struct yaml_node *arguments = yaml_get(node, "args");
    const struct yaml_node *memo = yaml_get(node, "memo");
    const struct yaml_node *attributes = yaml_get(node, "search_attributes");
    const struct yaml_node *headers = yaml_get(node, "headers");
    enum weir_status status = WEIR_OK;
    if (arguments != NULL) {
        status = read_payload_fields(reader, arguments, "\"args\"", YAML_LIST, &temporal->arguments);
    }
    if (status == WEIR_OK && memo != NULL) {
        status = read_payload_fields(reader, memo, "\"memo\"", YAML_MAP, &temporal->memo);
        status = status == WEIR_OK ? refuse_own_memo(reader, memo) : status;
    }
    if (status == WEIR_OK && attributes != NULL) {
        status = read_payload_fields(reader, attributes, "\"search_attributes\"", YAML_MAP, &temporal->search_attributes);
        status = status == WEIR_OK ? refuse_own_attribute(reader, attributes) : status;
    }
    if (status == WEIR_OK && headers != NULL) {
        status = read_payload_fields(reader, headers, "\"headers\"", YAML_MAP, &temporal->headers);
    }
    return status;
}

enum weir_status temporal_read(struct definition_reader *reader, const struct yaml_node *node,
                               struct definition *definition)
{
    static const char *const keys[] = {"workflow_type", "workflow_id",       "task_queue",  "args",     "execution_timeout",
                                       "run_timeout",   "task_timeout",      "start_delay", "priority", "retry",
                                       "memo",          "search_attributes", "headers"};
    enum weir_status status =
        yaml_check_keys(&reader->source, node, "\"temporal\"", keys, sizeof keys / sizeof keys[0], reader->error);
    struct definition_temporal *temporal = status == WEIR_OK ? arena_allocate(reader->arena, sizeof *temporal) : NULL;
    if (status != WEIR_OK) {
        return status;
    }
    if (temporal == NULL) {
        return error_out_of_memory(reader->error);
    }
    status = read_ids(reader, node, temporal);
    status = status == WEIR_OK ? read_times(reader, node, definition, temporal) : status;
    status = status == WEIR_OK ? read_payloads(reader, node, temporal) : status;
    status = status == WEIR_OK ? check_expressions(reader, temporal) : status;
    definition->temporal = temporal;
    return status;
}
