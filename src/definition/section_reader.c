/* The sections of a definition that has steps: `steps`, the `undo` of its steps, `on_failure` and `finally`. Part of
 * definition_read() (definition_reader.c).
 *
 *   1. sections_collect() puts the nodes of all steps into one map, in the order of the sections. So a step has one index,
 *      and the readers of a step need not know where it stands.
 *   2. section_check_step() refuses the keys that have no meaning in a section.
 *   3. sections_link() connects each step with its `undo`, and adds to the graph the edges that the order of the
 *      sections gives. A step of `on_failure` or `finally` may read every step of `steps`. An `undo` may read its own
 *      step and those before that.
 *
 * The id of an `undo` is the one of its step with `.undo`. A dot is in no id of a user, so the two never collide.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "definition/definition_internal.h"
#include "definition/graph.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

/* The map under construction. */
struct section_nodes {
    const struct yaml_node **keys;
    const struct yaml_node **values;
    struct step_place *places;
    size_t count;
};

const char *step_section_name(enum step_section section)
{
    static const char *const names[] = {"steps", "undo", "on_failure", "finally"};
    INVARIANT((size_t)section < sizeof names / sizeof names[0]);
    return names[section];
}

/* --- collecting --- */

static enum weir_status section_add_node(struct definition_reader *reader, struct section_nodes *nodes,
                                         const struct yaml_node *key, const struct yaml_node *value,
                                         struct step_place place)
{
    if (nodes->count == DEFINITION_STEPS_MAX) {
        return FAIL(reader, key, "more than %d steps", DEFINITION_STEPS_MAX);
    }
    for (size_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->keys[i]->text, key->text) == 0) {
            FAIL(reader, key, "the id \"%.64s\" is in \"%s\" and in \"%s\"", key->text,
                 step_section_name(nodes->places[i].section), step_section_name(place.section));
            error_hint(reader->error, "give one of both another id: ids are unique in the whole definition");
            return reader->source.status;
        }
    }
    nodes->keys[nodes->count] = key;
    nodes->values[nodes->count] = value;
    nodes->places[nodes->count++] = place;
    return WEIR_OK;
}

/* The keys of a map of steps, which must not be empty. */
static enum weir_status add_section(struct definition_reader *reader, const struct yaml_node *map,
                                    enum step_section section, struct section_nodes *nodes)
{
    const char *name = step_section_name(section);
    enum weir_status status = WEIR_OK;
    if (map->kind != YAML_MAP) {
        FAIL(reader, map, "\"%s\" must be a map from step ids to steps, not %s", name, yaml_kind_name(map->kind));
        error_hint(reader->error, "write %s: {first: {exec: [\"true\"]}}", name);
        return reader->source.status;
    }
    if (map->count == 0) {
        return FAIL(reader, map, "\"%s\" is empty", name);
    }
    for (size_t i = 0; i < map->count && status == WEIR_OK; i++) {
        status = section_add_node(reader, nodes, map->keys[i], map->values[i], (struct step_place){.section = section});
    }
    return status;
}

/* A key at the place of the word `undo`, for messages, with the id of the step. */
static enum weir_status add_undo(struct definition_reader *reader, size_t target, struct section_nodes *nodes)
{
    const struct yaml_node *value = yaml_get(nodes->values[target], "undo");
    const struct yaml_node *id = nodes->keys[target];
    if (value == NULL) {
        return WEIR_OK;
    }
    if (id->length + strlen(STEP_UNDO_SUFFIX) > STEP_ID_MAX) {
        return FAIL(reader, id, "the id of a step with \"undo\" has at most %zu bytes",
                    STEP_ID_MAX - strlen(STEP_UNDO_SUFFIX));
    }
    struct yaml_node *key = arena_allocate(reader->scratch, sizeof *key);
    char *text = arena_allocate(reader->scratch, STEP_ID_MAX + 1);
    if (key == NULL || text == NULL) {
        return error_out_of_memory(reader->error);
    }
    *key = *id;
    key->line = value->line;
    key->column = value->column;
    key->length = (size_t)snprintf(text, STEP_ID_MAX + 1, "%s%s", id->text, STEP_UNDO_SUFFIX);
    key->text = text;
    return section_add_node(reader, nodes, key, value,
                            (struct step_place){.section = SECTION_UNDO, .target = (uint16_t)target});
}

enum weir_status sections_collect(struct definition_reader *reader, const struct yaml_node *root)
{
    static const enum step_section later[] = {SECTION_ON_FAILURE, SECTION_FINALLY};
    struct yaml_node *all = arena_allocate(reader->scratch, sizeof *all);
    struct section_nodes nodes = {
        .keys = arena_allocate(reader->scratch, DEFINITION_STEPS_MAX * sizeof *nodes.keys),
        .values = arena_allocate(reader->scratch, DEFINITION_STEPS_MAX * sizeof *nodes.values),
        .places = arena_allocate(reader->scratch, DEFINITION_STEPS_MAX * sizeof *nodes.places),
    };
    if (all == NULL || nodes.keys == NULL || nodes.values == NULL || nodes.places == NULL) {
        return error_out_of_memory(reader->error);
    }
    enum weir_status status = add_section(reader, yaml_get(root, "steps"), SECTION_STEPS, &nodes);
    size_t main_count = nodes.count;
    for (size_t i = 0; i < main_count && status == WEIR_OK; i++) {
        status = add_undo(reader, i, &nodes);
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0] && status == WEIR_OK; i++) {
        const struct yaml_node *map = yaml_get(root, step_section_name(later[i]));
        status = map != NULL ? add_section(reader, map, later[i], &nodes) : WEIR_OK;
    }
    *all = *yaml_get(root, "steps");
    all->keys = nodes.keys;
    all->values = nodes.values;
    all->count = nodes.count;
    reader->step_nodes = all;
    reader->places = nodes.places;
    return status;
}

/* --- what a step of a section may have --- */

enum weir_status section_check_step(struct definition_reader *reader, size_t index, const char *kind)
{
    static const char *const not_of_undo[] = {"needs", "hold_slot", "undo", "continue_on_error"};
    const struct yaml_node *node = reader->step_nodes->values[index];
    enum step_section section = reader->places[index].section;
    for (size_t i = 0; i < node->count && section != SECTION_STEPS; i++) {
        const char *key = node->keys[i]->text;
        for (size_t j = 0; j < sizeof not_of_undo / sizeof not_of_undo[0] && section == SECTION_UNDO; j++) {
            if (strcmp(key, not_of_undo[j]) == 0) {
                FAIL(reader, node->keys[i], "\"%s\" has no meaning in \"undo\"", key);
                error_hint(reader->error,
                           "the undos of finished steps run one after the other, the last finished step first");
                return reader->source.status;
            }
        }
        if (strcmp(key, "undo") == 0) {
            FAIL(reader, node->keys[i], "\"undo\" has no meaning in \"%s\"", step_section_name(section));
            error_hint(reader->error, "only steps of \"steps\" are undone");
            return reader->source.status;
        }
    }
    /* One undo runs at a time, so one that waits would hold up all others for as long. */
    bool may_undo = strcmp(kind, "exec") == 0 || strcmp(kind, "http") == 0 || strcmp(kind, "handler") == 0;
    if (section == SECTION_UNDO && !may_undo) {
        FAIL(reader, node, "\"undo\" must be exec, http or handler, not %s", kind);
        error_hint(reader->error, "an undo waits for nothing: put the step into \"on_failure\"");
        return reader->source.status;
    }
    return WEIR_OK;
}

enum weir_status section_check_need(struct definition_reader *reader, size_t index, size_t need,
                                    const struct yaml_node *node)
{
    enum step_section section = reader->places[index].section;
    enum step_section other = reader->places[need].section;
    if (section == other) {
        return WEIR_OK;
    }
    FAIL(reader, node, "a step of \"%s\" cannot need \"%.64s\", which is a step of \"%s\"", step_section_name(section),
         reader->step_nodes->keys[need]->text, step_section_name(other));
    if (other == SECTION_STEPS) {
        error_hint(reader->error, "all steps of \"steps\" have ended before: take it out of \"needs\"");
    } else {
        error_hint(reader->error, "steps of \"%s\" run after those of \"%s\"", step_section_name(other),
                   step_section_name(section));
    }
    return reader->source.status;
}

/* --- links --- */

static void add_predecessor(uint64_t *sets, size_t before, size_t after)
{
    sets[after * GRAPH_WORDS_PER_NODE + before / 64] |= UINT64_C(1) << (before % 64);
}

void sections_add_predecessors(const struct definition *definition, uint64_t *sets)
{
    for (size_t i = definition->main_count; i < definition->count; i++) {
        const struct step *step = &definition->steps[i];
        for (size_t before = 0; before < definition->main_count; before++) {
            if (step->section != SECTION_UNDO || before == step->target || graph_precedes(sets, before, step->target)) {
                add_predecessor(sets, before, i);
            }
        }
    }
}

void sections_link(const struct definition_reader *reader, struct step *steps, struct definition *definition)
{
    for (size_t i = 0; i < definition->count; i++) {
        struct step *step = &steps[i];
        step->section = reader->places[i].section;
        step->target = reader->places[i].target;
        definition->main_count += step->section == SECTION_STEPS;
        definition->has_finally = definition->has_finally || step->section == SECTION_FINALLY;
        if (step->section == SECTION_UNDO) {
            INVARIANT(step->target < i);
            steps[step->target].undo = (int)i;
        }
    }
}
