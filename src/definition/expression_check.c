/* Checks the references of expressions, after all steps of a definition were read. Runs in the caller's thread; programs
 * are compiled in a child process.
 *
 *   1. Each step that an expression refers to must exist and precede the step of the expression in the graph of needs. Else
 * its value would depend on timing.
 *   2. In definitions of users, paths that begin at the context must name existing keys. A wrong key is always null, and jq
 * does not report it.
 *   3. In definitions of users, all jq programs are compiled at once (jq_check()).
 *
 * A definition of a store skips 2 and 3: it was checked when it was written, and a later version may know more keys. Every
 * error has the line and column of the expression, and a hint with the likely spelling.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "definition/definition_internal.h"
#include "definition/graph.h"
#include "definition/jq.h"

/* --- steps that are referred to --- */

struct reference_check {
    struct definition_reader *reader;
    const struct definition *definition;
    const struct template_use *use;
};

/* `.steps.my-step` is a subtraction to jq: the hint names the right spelling. */
static bool is_subtraction(const struct reference_check *check, const struct template *template, size_t length,
                           size_t offset)
{
    const struct definition *definition = check->definition;
    if (offset + length >= template->source_length || template->source[offset + length] != '-') {
        return false;
    }
    for (size_t i = 0; i < definition->count; i++) {
        size_t id_length = strlen(definition->steps[i].id);
        if (id_length > length && offset + id_length <= template->source_length &&
            memcmp(template->source + offset, definition->steps[i].id, id_length) == 0) {
            error_hint(check->reader->error, "write .steps[\"%s\"]: in jq, - subtracts", definition->steps[i].id);
            return true;
        }
    }
    return false;
}

/* Step 1 of the overview. */
static enum weir_status check_reference(void *context, const struct template *template, const char *word, size_t length,
                                        size_t offset)
{
    const struct reference_check *check = context;
    struct definition_reader *reader = check->reader;
    const char *id = check->definition->steps[check->use->step].id;
    int found = reader_find_step(reader, word, length);
    if (found >= 0 && graph_precedes(check->definition->predecessors, (size_t)found, check->use->step)) {
        return WEIR_OK;
    }
    int shown = length > 64 ? 64 : (int)length;
    if (found >= 0 && (size_t)found == check->use->step) {
        return yaml_error_inside(&reader->source, check->use->node, offset, reader->error,
                                 "the step \"%s\" refers to its own result", id);
    }
    if (found >= 0) {
        yaml_error_inside(&reader->source, check->use->node, offset, reader->error,
                          "the step \"%s\" refers to the step \"%.*s\" without needing it", id, shown, word);
        error_hint(reader->error, "add \"%.*s\" to the \"needs\" of \"%s\"", shown, word, id);
        return reader->source.status;
    }
    yaml_error_inside(&reader->source, check->use->node, offset, reader->error,
                      "the expression refers to the step \"%.*s\", which does not exist", shown, word);
    if (!is_subtraction(check, template, length, offset)) {
        char name[STEP_ID_MAX + 1] = "";
        memcpy(name, word, (size_t)shown);
        reader_hint_step(reader, name);
    }
    return reader->source.status;
}

/* --- keys that do not exist --- */

/* "a, b and c". */
static void list_keys(const char *const *keys, size_t count, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        used += (size_t)snprintf(to + used, size - used, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " and ", keys[i]);
    }
}

/* Refuses `step` when the object has no such key, because its value would always be null. `owner` names the object;
 * `instead` is the path that holds the names of users. */
static enum weir_status check_key(const struct reference_check *check, const struct path_step *step, size_t offset,
                                  enum expression_object object, const char *owner, const char *instead)
{
    struct definition_reader *reader = check->reader;
    char word[STEP_ID_MAX + 1] = "";
    char list[80];
    size_t count = 0;
    const char *const *keys = expression_keys(object, &count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(keys[i]) == step->key_length && memcmp(keys[i], step->key, step->key_length) == 0) {
            return WEIR_OK;
        }
    }
    list_keys(keys, count, list, sizeof list);
    memcpy(word, step->key, step->key_length > STEP_ID_MAX ? STEP_ID_MAX : step->key_length);
    yaml_error_inside(&reader->source, check->use->node, offset, reader->error,
                      "the expression reads \"%s\", which is always null: %s has %s", word, owner, list);
    const char *nearest = text_nearest(word, keys, count);
    if (nearest != NULL) {
        error_hint(reader->error, "did you mean \"%s\"?", nearest);
    } else if (instead != NULL) {
        error_hint(reader->error, "did you mean \"%s.%s\"?", instead, word);
    }
    return reader->source.status;
}

/* Step 2 of the overview. */
static enum weir_status check_context_path(void *context, const struct path_step *steps, size_t count, size_t offset)
{
    const struct reference_check *check = context;
    if (steps[0].key == NULL) {
        return WEIR_OK; /* `.[0]` fails, but `.[0]? // 1` does not */
    }
    bool is_later = check->definition->steps[check->use->step].section != SECTION_STEPS;
    enum expression_object object = check->use->has_item && is_later ? CONTEXT_OF_ITEM_AFTER_FAILURE
                                    : check->use->has_item           ? CONTEXT_OF_ITEM
                                    : is_later                       ? CONTEXT_AFTER_FAILURE
                                                                     : CONTEXT_ITSELF;
    enum weir_status status = check_key(check, &steps[0], offset, object, "the context", ".input");
    if (status != WEIR_OK || count < 2) {
        return status;
    }
    if (strncmp(steps[0].key, "execution", steps[0].key_length) == 0 && steps[1].key != NULL) {
        return check_key(check, &steps[1], offset, CONTEXT_EXECUTION, ".execution", NULL);
    }
    if (strncmp(steps[0].key, "failure", steps[0].key_length) == 0 && steps[1].key != NULL) {
        return check_key(check, &steps[1], offset, CONTEXT_FAILURE, ".failure", NULL);
    }
    if (strncmp(steps[0].key, "steps", steps[0].key_length) == 0 && steps[1].key != NULL && count > 2 &&
        steps[2].key != NULL) {
        char output[STEP_ID_MAX + 32];
        (void)snprintf(output, sizeof output, ".steps.%.*s.output", (int)steps[1].key_length, steps[1].key);
        return check_key(check, &steps[2], offset, CONTEXT_STEP, "a step", output);
    }
    return WEIR_OK;
}

/* --- programs --- */

struct program_list {
    struct definition_reader *reader;
    const struct template_use *use;
    const char *programs[DEFINITION_PROGRAMS_MAX];
    const struct template_use *uses[DEFINITION_PROGRAMS_MAX];
    size_t offsets[DEFINITION_PROGRAMS_MAX];
    size_t count;
};

/* Each different program once, with the place of its first use. */
static enum weir_status collect_program(void *context, const struct template *template, const char *word, size_t length,
                                        size_t offset)
{
    struct program_list *list = context;
    (void)template;
    (void)length;
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->programs[i], word) == 0) {
            return WEIR_OK;
        }
    }
    if (list->count == DEFINITION_PROGRAMS_MAX) {
        yaml_error_inside(&list->reader->source, list->use->node, offset, list->reader->error,
                          "more than %d different expressions that are more than a path", DEFINITION_PROGRAMS_MAX);
        return list->reader->source.status;
    }
    list->programs[list->count] = word;
    list->uses[list->count] = list->use;
    list->offsets[list->count++] = offset;
    return WEIR_OK;
}

/* Step 3 of the overview; without a child process the definition is refused, not accepted unchecked. */
static enum weir_status check_programs(struct definition_reader *reader, bool is_from_people)
{
    struct program_list list = {.reader = reader};
    for (list.use = reader->uses; list.use != NULL; list.use = list.use->next) {
        enum weir_status status = template_each_program(list.use->template, collect_program, &list);
        if (status != WEIR_OK) {
            return status;
        }
    }
    if (!is_from_people || list.count == 0) {
        return WEIR_OK;
    }
    size_t wrong = 0;
    struct weir_error inner = {.status = WEIR_OK};
    enum weir_status status = jq_check(list.programs, list.count, &wrong, &inner);
    if (status == WEIR_INVALID_ARGUMENT) {
        yaml_error_inside(&reader->source, list.uses[wrong]->node, list.offsets[wrong], reader->error,
                          "bad expression ${%.80s}: %s", list.programs[wrong], inner.message);
        error_hint(reader->error, "expressions are jq 1.6; write $${ for a literal ${");
        return reader->source.status;
    }
    if (status != WEIR_OK && reader->error != NULL) {
        *reader->error = inner;
    }
    return status;
}

/* --- all of it --- */

enum weir_status expressions_check(struct definition_reader *reader, const struct definition *definition,
                                   bool is_from_people)
{
    for (const struct template_use *use = reader->uses; use != NULL; use = use->next) {
        struct reference_check check = {reader, definition, use};
        enum weir_status status = expression_references(use->template, check_reference, &check);
        if (status == WEIR_OK && is_from_people) {
            status = expression_paths(use->template, check_context_path, &check);
        }
        if (status != WEIR_OK) {
            return status;
        }
    }
    return check_programs(reader, is_from_people);
}
