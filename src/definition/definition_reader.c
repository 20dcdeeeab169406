/* Reading a definition: from bytes to a struct definition that is checked completely. Runs in the caller's thread; jq
 * programs are compiled in a child process.
 *
 *   1. The bytes become a tree with lines and columns (base/yaml.c). JSON is tried as JSON first, which costs less memory.
 * If anything is wrong with it, all steps are repeated with lines and columns. JSON that YAML forbids is read as JSON.
 *   2. Unknown keys are refused first, because a misspelt key would otherwise be ignored without a message.
 *   3. The head: name, workspace, group, times.
 *   4. Each step (section_reader.c, step_reader.c), or the section `temporal` (temporal_reader.c). Templates are parsed and
 * listed with their places, but their references are not checked: steps may refer to later ones.
 *   5. The graph of needs: an order, or the circle in the message.
 *   6. The references of all templates (expression_check.c), which need the graph.
 *
 * The first fault ends the reading. Each message begins with name:line:column and names the field; a hint shows the remedy.
 * The definition owns its arena; the tree lives in a scratch arena that ends with the call.
 *
 * A text of a store (is_from_people = false) takes the same way without the checks that a later version of weir may change.
 */
#include "definition/definition_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/yaml_json.h"
#include "definition/foreign_keys.h"
#include "definition/graph.h"
#include "queue/name.h"

_Static_assert((int)DEFINITION_STEPS_MAX <= (int)GRAPH_NODES_MAX, "every step is a node");

enum {
    SCRATCH_BYTES_MAX = 64 * 1024 * 1024,
    /* Escapes make the canonical text longer than the file was. */
    CANONICAL_BYTES_MAX = 4 * DEFINITION_BYTES_MAX,
    CYCLE_TEXT_MAX = 300
};

/* FORM_PLAIN_JSON: of people too, and fine; a fault has no place in it. */
enum definition_form { FORM_PLAIN_JSON, FORM_OF_PEOPLE, FORM_STORED };

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

/* --- shared pieces --- */

enum weir_status reader_take_text(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                  const char **ret_text)
{
    if (node->kind != YAML_STRING) {
        FAIL(reader, node, "%s must be text, not %s", field, yaml_kind_name(node->kind));
        if (node->text != NULL && node->kind != YAML_NULL) {
            error_hint(reader->error, "put it in quotes: \"%.64s\"", node->text);
        }
        return reader->source.status;
    }
    if (memchr(node->text, '\0', node->length) != NULL) {
        return FAIL(reader, node, "%s must not hold a NUL", field);
    }
    const char *text = arena_copy(reader->arena, node->text, node->length);
    if (text == NULL) {
        return error_out_of_memory(reader->error);
    }
    *ret_text = text;
    return WEIR_OK;
}

enum weir_status reader_take_name(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                  const char **ret_name)
{
    const char *name = NULL;
    enum weir_status status = reader_take_text(reader, node, field, &name);
    if (status == WEIR_OK && !name_is_valid(name)) {
        FAIL(reader, node, "%s \"%.80s\" is no valid name", field, name);
        error_hint(reader->error, "a name has 1 to 64 of a-z, 0-9, _ and -, and starts with a letter or digit");
        return reader->source.status;
    }
    *ret_name = status == WEIR_OK ? name : *ret_name;
    return status;
}

enum weir_status reader_take_duration(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                      int64_t *ret_us)
{
    struct weir_error inner = {.status = WEIR_OK};
    int64_t us = 0;
    /* `0` is an integer to YAML and a duration to us. */
    bool is_text = node->kind == YAML_STRING || node->kind == YAML_INTEGER;
    if (!is_text || duration_parse(node->text, &us, &inner) != WEIR_OK || strlen(node->text) != node->length) {
        FAIL(reader, node, "%s must be a duration, not %s%s%.40s%s", field, yaml_kind_name(node->kind),
             is_text ? " \"" : "", is_text ? node->text : "", is_text ? "\"" : "");
        error_hint(reader->error, "a duration looks like 250ms, 10s, 1h30m or 2d");
        return reader->source.status;
    }
    if (us > DEFINITION_DURATION_US_MAX) {
        return FAIL(reader, node, "%s is longer than ten years", field);
    }
    *ret_us = us;
    return WEIR_OK;
}

enum weir_status reader_take_integer(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                     int64_t least, int64_t most, int64_t *ret_integer)
{
    if (node->kind != YAML_INTEGER || node->integer < least || node->integer > most) {
        return FAIL(reader, node, "%s must be an integer from %lld to %lld", field, (long long)least, (long long)most);
    }
    *ret_integer = node->integer;
    return WEIR_OK;
}

enum weir_status reader_take_boolean(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                     bool *ret_boolean)
{
    if (node->kind != YAML_BOOLEAN) {
        return FAIL(reader, node, "%s must be true or false", field);
    }
    *ret_boolean = node->boolean;
    return WEIR_OK;
}

int reader_find_step(const struct definition_reader *reader, const char *id, size_t length)
{
    for (size_t i = 0; i < reader->step_nodes->count; i++) {
        const struct yaml_node *key = reader->step_nodes->keys[i];
        if (key->length == length && memcmp(key->text, id, length) == 0) {
            return (int)i;
        }
    }
    return -1;
}

void reader_hint_step(struct definition_reader *reader, const char *id)
{
    const char *ids[DEFINITION_STEPS_MAX];
    for (size_t i = 0; i < reader->step_nodes->count; i++) {
        ids[i] = reader->step_nodes->keys[i]->text;
    }
    const char *nearest = text_nearest(id, ids, reader->step_nodes->count);
    if (nearest != NULL) {
        error_hint(reader->error, "did you mean \"%s\"?", nearest);
    }
}

/* --- the graph --- */

/* Points at the need that closes the circle, and shows the whole circle. */
static enum weir_status refuse_cycle(struct definition_reader *reader, const struct definition *definition,
                                     const uint16_t *cycle, size_t length)
{
    char path[CYCLE_TEXT_MAX] = "";
    size_t used = 0;
    INVARIANT(reader->step_nodes != NULL);
    for (size_t i = 0; i < length && used < sizeof path; i++) {
        used +=
            (size_t)snprintf(path + used, sizeof path - used, "%s%s", i == 0 ? "" : " -> ", definition->steps[cycle[i]].id);
    }
    const struct yaml_node *needs = yaml_get(reader->step_nodes->values[cycle[0]], "needs");
    for (size_t i = 0; i < needs->count; i++) {
        if (strcmp(needs->values[i]->text, definition->steps[cycle[1]].id) == 0) {
            needs = needs->values[i];
            break;
        }
    }
    FAIL(reader, needs, "the steps need each other in a circle: %s", path);
    error_hint(reader->error, "take one of these out of \"needs\"");
    return reader->source.status;
}

/* Step 5. */
static enum weir_status build_graph(struct definition_reader *reader, struct definition *definition)
{
    struct graph_node nodes[DEFINITION_STEPS_MAX];
    uint16_t cycle[DEFINITION_STEPS_MAX + 1];
    size_t cycle_length = 0;
    INVARIANT(reader->step_nodes != NULL && definition->count > 0);
    for (size_t i = 0; i < definition->count; i++) {
        nodes[i] = (struct graph_node){definition->steps[i].needs, definition->steps[i].needs_count};
    }
    uint16_t *order = arena_allocate(reader->arena, definition->count * sizeof *order);
    uint64_t *sets = arena_allocate(reader->arena, definition->count * GRAPH_WORDS_PER_NODE * sizeof *sets);
    if (order == NULL || sets == NULL) {
        return error_out_of_memory(reader->error);
    }
    if (!graph_order(nodes, definition->count, order, cycle, &cycle_length)) {
        return refuse_cycle(reader, definition, cycle, cycle_length);
    }
    graph_predecessors(nodes, definition->count, order, sets);
    sections_add_predecessors(definition, sets);
    definition->order = order;
    definition->predecessors = sets;
    return WEIR_OK;
}

/* --- the file as a whole --- */

/* Names of workspaces and executor groups, which have no syntax here. */
enum weir_status reader_take_label(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                   int bytes_max, const char **ret_name)
{
    const char *name = NULL;
    enum weir_status status = reader_take_text(reader, node, field, &name);
    if (status == WEIR_OK && (node->length == 0 || node->length > (size_t)bytes_max)) {
        return FAIL(reader, node, "%s must have 1 to %d bytes", field, bytes_max);
    }
    *ret_name = status == WEIR_OK ? name : *ret_name;
    return status;
}

/* Fixed texts: an enqueue must not need an evaluation that can fail, and the store inserts the labels without a look at the
 * params. A value that looks like an expression is refused, because its author expects one. */
static enum weir_status read_one_label(struct definition_reader *reader, const struct yaml_node *key,
                                       const struct yaml_node *value, struct definition_label *label)
{
    char field[LABEL_NAME_MAX + 32];
    enum weir_status status = reader_take_text(reader, key, "the name of a label", &label->name);
    if (status == WEIR_OK && !label_name_is_valid(label->name)) {
        FAIL(reader, key, "\"%.80s\" is not the name of a label", label->name);
        error_hint(reader->error, "a name has 1 to %d of a-z, 0-9, _, - and .", LABEL_NAME_MAX);
        return reader->source.status;
    }
    if (status != WEIR_OK) {
        return status;
    }
    (void)snprintf(field, sizeof field, "the label \"%s\"", label->name);
    status = reader_take_text(reader, value, field, &label->value);
    if (status == WEIR_OK && (value->length == 0 || value->length > LABEL_VALUE_MAX)) {
        return FAIL(reader, value, "%s must have 1 to %d bytes", field, LABEL_VALUE_MAX);
    }
    if (status == WEIR_OK && !text_is_printable(label->value, value->length)) {
        return FAIL(reader, value, "%s must not hold a control character", field);
    }
    if (status == WEIR_OK && strstr(label->value, "${") != NULL) {
        FAIL(reader, value, "%s has a fixed value, no expression", field);
        error_hint(reader->error, "a label that depends on the params is given at the enqueue: --label %s=VALUE",
                   label->name);
        return reader->source.status;
    }
    return status;
}

/* The map of labels; its order is kept. An empty one is the same as none. The number is limited as that of a request, so an
 * execution has at most twice as many. */
static enum weir_status read_labels(struct definition_reader *reader, const struct yaml_node *node,
                                    struct definition *definition)
{
    if (node == NULL) {
        return WEIR_OK;
    }
    if (node->kind != YAML_MAP) {
        return FAIL(reader, node, "\"labels\" must be a map from names to texts, not %s", yaml_kind_name(node->kind));
    }
    if (node->count > LABELS_MAX) {
        return FAIL(reader, node->keys[LABELS_MAX], "more than %d labels", LABELS_MAX);
    }
    struct definition_label *labels = arena_allocate(reader->arena, (node->count + 1) * sizeof *labels);
    if (labels == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = read_one_label(reader, node->keys[i], node->values[i], &labels[i]);
        if (status != WEIR_OK) {
            return status;
        }
    }
    definition->labels = labels;
    definition->label_count = node->count;
    return WEIR_OK;
}

/* Step 3: every field but the steps. */
static enum weir_status read_head(struct definition_reader *reader, const struct yaml_node *root,
                                  struct definition *definition)
{
    const struct yaml_node *name = yaml_get(root, "name");
    const struct yaml_node *workspace = yaml_get(root, "workspace");
    const struct yaml_node *group = yaml_get(root, "executor_group");
    const struct yaml_node *timeout = yaml_get(root, "timeout");
    const struct yaml_node *stuck_after = yaml_get(root, "stuck_after");
    const struct yaml_node *starts_max = yaml_get(root, "starts_max");
    const struct yaml_node *hold_slot = yaml_get(root, "hold_slot");
    if (name == NULL) {
        return FAIL(reader, root, "the definition has no \"name\"");
    }
    enum weir_status status = reader_take_name(reader, name, "\"name\"", &definition->name);
    if (status == WEIR_OK && workspace != NULL) {
        status = reader_take_label(reader, workspace, "\"workspace\"", WORKSPACE_NAME_MAX, &definition->workspace);
        definition->workspace_line = workspace->line;
        definition->workspace_column = workspace->column;
    }
    if (status == WEIR_OK && group != NULL) {
        status = reader_take_label(reader, group, "\"executor_group\"", GROUP_NAME_MAX, &definition->executor_group);
    }
    if (status == WEIR_OK && timeout != NULL) {
        status = reader_take_duration(reader, timeout, "\"timeout\"", &definition->timeout_us);
    }
    if (status == WEIR_OK && stuck_after != NULL) {
        status = reader_take_duration(reader, stuck_after, "\"stuck_after\"", &definition->stuck_after_us);
    }
    if (status == WEIR_OK && starts_max != NULL) {
        int64_t count = 0;
        status = reader_take_integer(reader, starts_max, "\"starts_max\"", 1, DEFINITION_STARTS_MAX, &count);
        definition->starts_max = (int)count;
    }
    if (status == WEIR_OK && hold_slot != NULL) {
        status = reader_take_boolean(reader, hold_slot, "\"hold_slot\"", &definition->hold_slot);
    }
    reader->hold_slot = definition->hold_slot;
    reader->owner = definition->workspace;
    const struct yaml_node *schedules = yaml_get(root, "schedules");
    status = status == WEIR_OK && schedules != NULL ? schedules_read(reader, schedules, definition) : status;
    return status == WEIR_OK ? read_labels(reader, yaml_get(root, "labels"), definition) : status;
}

/* Step 4. */
static enum weir_status read_all_steps(struct definition_reader *reader, const struct yaml_node *root,
                                       struct definition *definition)
{
    const struct yaml_node *nodes = yaml_get(root, "steps");
    const struct yaml_node *temporal = yaml_get(root, "temporal");
    enum weir_status status = WEIR_OK;
    if (temporal != NULL && nodes != NULL) {
        FAIL(reader, temporal, "a definition has \"steps\" or \"temporal\", not both");
        error_hint(reader->error, "a workflow on Temporal has its steps in the code of its worker");
        return reader->source.status;
    }
    for (enum step_section section = SECTION_ON_FAILURE; temporal != NULL && section <= SECTION_FINALLY; section++) {
        const char *name = step_section_name(section);
        if (yaml_get(root, name) != NULL) {
            FAIL(reader, yaml_get(root, name), "\"%s\" has no effect beside \"temporal\"", name);
            error_hint(reader->error, "a workflow on Temporal handles its failures in the code of its worker");
            return reader->source.status;
        }
    }
    if (temporal != NULL) {
        status = states_refuse_keys(reader, root);
        return status == WEIR_OK ? temporal_read(reader, temporal, definition) : status;
    }
    if (nodes == NULL && yaml_get(root, "states") != NULL) {
        return states_read(reader, root, definition);
    }
    if (nodes == NULL) {
        return FAIL(reader, root, "the definition has no \"steps\"");
    }
    status = states_refuse_keys(reader, root);
    status = status == WEIR_OK ? sections_collect(reader, root) : status;
    size_t count = status == WEIR_OK ? reader->step_nodes->count : 0;
    struct step *steps = arena_allocate(reader->arena, (count + 1) * sizeof *steps);
    if (status == WEIR_OK && steps == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = step_read(reader, i, &steps[i]);
    }
    if (status == WEIR_OK) {
        definition->steps = steps;
        definition->count = count;
        sections_link(reader, steps, definition);
    }
    return status;
}

/* A number with a fraction keeps its spelling in YAML alone. */
static bool has_fraction(const struct yaml_node *node)
{
    bool found = node->kind == YAML_NUMBER;
    for (size_t i = 0; i < node->count && !found; i++) {
        found = has_fraction(node->values[i]);
    }
    return found;
}

/* The schedules and the workspace keep their places, for faults that are found later. */
static enum weir_status read_plain_json(struct definition_reader *reader, const char *bytes, size_t length,
                                        const struct yaml_node **ret_root)
{
    enum weir_status status = yaml_read_json(bytes, length, &reader->source, reader->scratch, ret_root, reader->error);
    bool needs_places = status == WEIR_OK && (yaml_get(*ret_root, "schedules") != NULL ||
                                              yaml_get(*ret_root, "workspace") != NULL || has_fraction(*ret_root));
    return needs_places ? WEIR_INVALID_DEFINITION : status;
}

/* JSON may hold characters that YAML forbids (raw DEL). The YAML reader goes first, because its nodes have places. */
static enum weir_status read_tree(struct definition_reader *reader, const char *bytes, size_t length,
                                  enum definition_form form, const struct yaml_node **ret_root)
{
    if (form == FORM_PLAIN_JSON) {
        return read_plain_json(reader, bytes, length, ret_root);
    }
    bool is_from_people = form == FORM_OF_PEOPLE;
    enum weir_status status =
        is_from_people ? yaml_read(bytes, length, &reader->source, reader->scratch, ret_root, reader->error)
                       : yaml_read_json(bytes, length, &reader->source, reader->scratch, ret_root, reader->error);
    if (status == WEIR_INVALID_DEFINITION && is_from_people && length > 0 && bytes[0] == '{' &&
        yaml_read_json(bytes, length, &reader->source, reader->scratch, ret_root, NULL) == WEIR_OK) {
        error_clear(reader->error);
        return WEIR_OK;
    }
    /* A brace without quotes opens a map to YAML, and its own messages do not mention expressions. */
    bool is_in_flow = status == WEIR_INVALID_DEFINITION && reader->error != NULL &&
                      ((strstr(reader->error->message, "flow") != NULL && memmem(bytes, length, "${", 2) != NULL) ||
                       (strstr(reader->error->message, "not a map") != NULL && memmem(bytes, length, "{{", 2) != NULL));
    if (is_in_flow) {
        error_hint(reader->error, "inside [ ] and { }, an expression needs quotes: \"${.input.name}\"");
    }
    return status;
}

static enum weir_status read_document(struct definition_reader *reader, const char *bytes, size_t length,
                                      enum definition_form form, struct definition *definition)
{
    /* The hint about an unknown key lists them in this order. */
    static const char *const keys[] = {"name",       "workspace", "executor_group", "timeout",  "stuck_after",
                                       "starts_max", "hold_slot", "steps",          "temporal", "on_failure",
                                       "finally",    "labels",    "states",         "initial",  "on_error",
                                       "variables",  "signals",   "unknown_state",  "schedules"};
    const struct yaml_node *root = NULL;
    enum weir_status status = read_tree(reader, bytes, length, form, &root);
    if (status == WEIR_OK) {
        status = yaml_check_keys(&reader->source, root, "a definition", keys, sizeof keys / sizeof keys[0], reader->error);
        if (status != WEIR_OK) {
            foreign_keys_hint(FOREIGN_IN_DEFINITION, root, reader->error);
        }
    }
    status = status == WEIR_OK ? read_head(reader, root, definition) : status;
    status = status == WEIR_OK ? read_all_steps(reader, root, definition) : status;
    if (status == WEIR_OK && definition->temporal != NULL && yaml_get(root, "starts_max") != NULL) {
        status = FAIL(reader, yaml_get(root, "starts_max"), "\"starts_max\" has no effect beside \"temporal\"");
        error_hint(reader->error, "Temporal repeats a workflow that fails: temporal: {retry: {attempts: 3}}");
    }
    if (status == WEIR_OK && definition->temporal != NULL && yaml_get(root, "hold_slot") != NULL) {
        status = FAIL(reader, yaml_get(root, "hold_slot"), "\"hold_slot\" has no effect beside \"temporal\"");
        error_hint(reader->error, "a run that is open on Temporal always has a slot");
    }
    if (status != WEIR_OK || definition->temporal != NULL || definition->states != NULL) {
        return status;
    }
    status = build_graph(reader, definition);
    return status == WEIR_OK ? expressions_check(reader, definition, reader->is_from_people) : status;
}

/* Keeps YAML as it was written. JSON has nothing that the canonical text loses, and text in UTF-16 is no string. */
static enum weir_status keep_source(struct definition *definition, const char *bytes, size_t length,
                                    struct weir_error *error)
{
    json_error_t fault;
    bool ran_out = false;
    json_t *json = json_load_bytes(bytes, length, JSON_DECODE_ANY, &fault, &ran_out);
    bool is_yaml = json == NULL && memchr(bytes, '\0', length) == NULL && text_is_utf8(bytes, length);
    json_decref(json);
    if (ran_out) {
        return error_out_of_memory(error);
    }
    if (is_yaml) {
        definition->source = arena_copy(&definition->arena, bytes, length);
    }
    return is_yaml && definition->source == NULL ? error_out_of_memory(error) : WEIR_OK;
}

static enum weir_status read_as(enum definition_form form, const char *bytes, size_t length, const char *source_name,
                                struct definition **ret_definition, struct weir_error *error)
{
    bool is_from_people = form != FORM_STORED;
    struct definition *definition = calloc(1, sizeof *definition);
    if (definition == NULL) {
        return error_out_of_memory(error);
    }
    struct arena scratch;
    arena_init(&scratch, SCRATCH_BYTES_MAX);
    arena_init(&definition->arena, DEFINITION_MEMORY_BYTES_MAX);
    struct definition_reader reader = {
        .source = {source_name, WEIR_INVALID_DEFINITION}, .arena = &definition->arena, .scratch = &scratch, .error = error};
    reader.uses_end = &reader.uses;
    reader.is_from_people = is_from_people;
    enum weir_status status = read_document(&reader, bytes, length, form, definition);
    arena_close(&scratch);
    if (status == WEIR_OK && form == FORM_OF_PEOPLE) {
        status = keep_source(definition, bytes, length, error);
    }
    if (status != WEIR_OK) {
        definition_close(definition);
        return status;
    }
    *ret_definition = definition;
    return WEIR_OK;
}

static enum weir_status refuse_length(size_t length, size_t length_max, const char *source_name, struct weir_error *error)
{
    return length <= length_max ? WEIR_OK
                                : error_set(error, WEIR_INVALID_DEFINITION,
                                            "%s:1:1: the definition is larger than %zu bytes", source_name, length_max);
}

/* Programs publish JSON without a fault, for which a process needs no memory for the YAML library. */
enum weir_status definition_read(const char *bytes, size_t length, const char *source_name,
                                 struct definition **ret_definition, struct weir_error *error)
{
    struct weir_error unused;
    enum weir_status status = refuse_length(length, DEFINITION_BYTES_MAX, source_name, error);
    if (status != WEIR_OK || (length > 0 && bytes[0] == '{' &&
                              read_as(FORM_PLAIN_JSON, bytes, length, source_name, ret_definition, &unused) == WEIR_OK)) {
        return status;
    }
    return read_as(FORM_OF_PEOPLE, bytes, length, source_name, ret_definition, error);
}

enum weir_status definition_load(const char *bytes, size_t length, const char *source_name,
                                 struct definition **ret_definition, struct weir_error *error)
{
    enum weir_status status = refuse_length(length, CANONICAL_BYTES_MAX, source_name, error);
    return status == WEIR_OK ? read_as(FORM_STORED, bytes, length, source_name, ret_definition, error) : status;
}
