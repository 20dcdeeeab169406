/* Reading a start step: the workflow of its children, their params, and how the step waits. Part of step_read().
 *
 *   1. A name alone means one child without params. A map has the rest.
 *   2. `for_each` is one expression. Only with it `params` may read `.item` and `.index`, and the wait may count.
 *   3. A child with a `key` belongs to its key, and is not cancelled with its parent: other steps and programs may wait for
 *      the same execution.
 *   4. The name of the signal that ends the wait has a prefix (queue/signal.h), so no caller and no definition can have it.
 *
 * The workflow and the workspace are fixed names: input must not choose the program that runs, and not the tenant for whom
 * it runs. A workflow with an owner may have been published by that tenant, so its children start in no other workspace.
 * Runs in the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "definition/definition_internal.h"
#include "queue/signal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

static enum weir_status read_for_each(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                      struct step_start *start)
{
    return reader_take_expression(reader, index, node, "\"for_each\"", ", which gives a list",
                                  "write for_each: ${.input.urls}", &start->for_each);
}

/* `all`, `any`, `none`, or a number of completed children. */
static enum weir_status read_children_wait(struct definition_reader *reader, const struct yaml_node *node,
                                           struct step_start *start)
{
    int64_t wanted = 0;
    if (node->kind == YAML_INTEGER) {
        enum weir_status status = reader_take_integer(reader, node, "\"wait\"", 1, (int64_t)CHILDREN_OF_STEP_MOST, &wanted);
        start->wait = (int)wanted;
        if (status == WEIR_OK && start->for_each == NULL) {
            status = FAIL(reader, node, "\"wait\" has a number, and there is one child: a number needs \"for_each\"");
        }
        return status;
    }
    const char *word = node->kind == YAML_STRING ? node->text : "";
    bool is_any = strcmp(word, "any") == 0;
    start->wait = is_any ? 1 : strcmp(word, "none") == 0 ? 0 : START_WAITS_FOR_ALL;
    if (is_any && start->for_each == NULL) {
        return FAIL(reader, node, "\"wait: any\" needs \"for_each\": there is one child");
    }
    if (is_any || start->wait == 0 || strcmp(word, "all") == 0) {
        return WEIR_OK;
    }
    FAIL(reader, node, "\"wait\" must be all, any, none or a number of children");
    error_hint(reader->error, "without \"wait\" the step waits for all");
    return reader->source.status;
}

/* Behind `for_each`. Children with one fixed key would all be one execution. */
static enum weir_status read_child_key(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                       struct step_start *start)
{
    reader->has_item = start->for_each != NULL;
    enum weir_status status = reader_take_template(reader, index, node, "\"key\"", &start->key);
    reader->has_item = false;
    if (status == WEIR_OK && start->for_each != NULL && template_is_constant(start->key)) {
        FAIL(reader, node, "\"key\" is the same for each item, so all children would be one execution");
        error_hint(reader->error, "name the item in it, for example key: \"import-${.item.id}\"");
        return reader->source.status;
    }
    start->leaves = true;
    return status;
}

static enum weir_status read_parent_end(struct definition_reader *reader, const struct yaml_node *node,
                                        struct step_start *start)
{
    const char *word = node->kind == YAML_STRING ? node->text : "";
    if (start->key != NULL && strcmp(word, "cancel") == 0) {
        FAIL(reader, node, "\"on_parent_end: cancel\" is not allowed beside \"key\"");
        error_hint(reader->error, "others may wait for the execution of the key; cancel it with a step of its own");
        return reader->source.status;
    }
    start->leaves = strcmp(word, "leave") == 0;
    return start->leaves || strcmp(word, "cancel") == 0 ? WEIR_OK
                                                        : FAIL(reader, node, "\"on_parent_end\" must be cancel or leave");
}

/* A text with an expression is refused as such: as a name it would be refused only when the step begins. */
static enum weir_status read_child_workspace(struct definition_reader *reader, const struct yaml_node *node,
                                             struct step_start *start)
{
    enum weir_status status = reader_take_label(reader, node, "\"workspace\"", WORKSPACE_NAME_MAX, &start->workspace);
    if (status != WEIR_OK) {
        return status;
    }
    if (strstr(start->workspace, "${") != NULL) {
        FAIL(reader, node, "\"workspace\" of a start step is a fixed name, no expression");
        error_hint(reader->error, "input must not choose the tenant; write a step for each workspace");
        return reader->source.status;
    }
    if (reader->owner != NULL) {
        FAIL(reader, node, "a workflow of the workspace \"%.80s\" starts its children there", reader->owner);
        error_hint(reader->error, "take \"workspace\" out of the step, or out of the definition");
        return reader->source.status;
    }
    return WEIR_OK;
}

static enum weir_status read_place(struct definition_reader *reader, const struct yaml_node *node, struct step_start *start)
{
    const struct yaml_node *workspace = yaml_get(node, "workspace");
    const struct yaml_node *group = yaml_get(node, "executor_group");
    const struct yaml_node *priority = yaml_get(node, "priority");
    const struct yaml_node *parallel = yaml_get(node, "max_parallel");
    int64_t number = 0;
    enum weir_status status = workspace == NULL ? WEIR_OK : read_child_workspace(reader, workspace, start);
    if (status == WEIR_OK && group != NULL) {
        status = reader_take_label(reader, group, "\"executor_group\"", GROUP_NAME_MAX, &start->executor_group);
    }
    if (status == WEIR_OK && priority != NULL) {
        status = reader_take_integer(reader, priority, "\"priority\"", PRIORITY_LEAST, PRIORITY_MOST, &number);
        start->priority = (int)number;
        start->has_priority = true;
    }
    if (status == WEIR_OK && parallel != NULL) {
        status = reader_take_integer(reader, parallel, "\"max_parallel\"", 1, (int64_t)CHILDREN_OF_STEP_MOST, &number);
        start->max_parallel = (int)number;
        if (status == WEIR_OK && start->for_each == NULL) {
            status = FAIL(reader, parallel, "\"max_parallel\" needs \"for_each\": there is one child");
        }
    }
    return status;
}

static enum weir_status name_signal(struct definition_reader *reader, struct step *step)
{
    size_t size = sizeof CHILDREN_SIGNAL + strlen(step->id);
    char *name = arena_allocate(reader->arena, size);
    if (name == NULL) {
        return error_out_of_memory(reader->error);
    }
    (void)snprintf(name, size, CHILDREN_SIGNAL "%s", step->id);
    step->start.signal = name;
    return WEIR_OK;
}

static enum weir_status read_map(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                 struct step_start *start)
{
    static const char *const keys[] = {"workflow",      "params",         "for_each", "max_parallel", "wait",
                                       "on_parent_end", "executor_group", "priority", "workspace",    "key"};
    enum weir_status status =
        yaml_check_keys(&reader->source, node, "\"start\"", keys, sizeof keys / sizeof keys[0], reader->error);
    const struct yaml_node *workflow = yaml_get(node, "workflow");
    const struct yaml_node *params = yaml_get(node, "params");
    const struct yaml_node *for_each = yaml_get(node, "for_each");
    const struct yaml_node *key = yaml_get(node, "key");
    const struct yaml_node *wait = yaml_get(node, "wait");
    const struct yaml_node *parent_end = yaml_get(node, "on_parent_end");
    if (status == WEIR_OK && workflow == NULL) {
        FAIL(reader, node, "\"start\" has no \"workflow\"");
        error_hint(reader->error, "write start: {workflow: NAME, params: {...}}");
        return reader->source.status;
    }
    status = status == WEIR_OK ? reader_take_name(reader, workflow, "\"workflow\"", &start->workflow) : status;
    if (status == WEIR_OK && for_each != NULL) {
        status = read_for_each(reader, index, for_each, start);
    }
    if (status == WEIR_OK && params != NULL) {
        reader->has_item = for_each != NULL;
        status = reader_take_tree(reader, index, params, "\"params\"", &start->params);
        reader->has_item = false;
    }
    if (status == WEIR_OK && params != NULL && params->kind != YAML_MAP && !template_is_expression(start->params)) {
        status = FAIL(reader, params, "\"params\" must be a map, or one expression");
    }
    status = status == WEIR_OK && key != NULL ? read_child_key(reader, index, key, start) : status;
    status = status == WEIR_OK ? read_place(reader, node, start) : status;
    status = status == WEIR_OK && wait != NULL ? read_children_wait(reader, wait, start) : status;
    return status == WEIR_OK && parent_end != NULL ? read_parent_end(reader, parent_end, start) : status;
}

enum weir_status start_read(struct definition_reader *reader, size_t index, const struct yaml_node *node, struct step *step)
{
    step->kind = STEP_START;
    step->hold_slot = false; /* its children need slots, and the workspace may have one alone */
    step->start = (struct step_start){.wait = START_WAITS_FOR_ALL};
    enum weir_status status = node->kind == YAML_MAP ? read_map(reader, index, node, &step->start)
                                                     : reader_take_name(reader, node, "\"start\"", &step->start.workflow);
    return status == WEIR_OK ? name_signal(reader, step) : status;
}
