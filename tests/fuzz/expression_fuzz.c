/* Templates: any bytes are refused or evaluated, within their limits. */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "definition/expression.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_RESULT_BYTES_MAX = 4096 };

static enum weir_status answer(void *calls, const char *program, const json_t *input, json_t **ret_value,
                               struct weir_error *error)
{
    INVARIANT(program[0] != '\0');
    switch (++*(size_t *)calls % 3) {
    case 0:
        return error_set(error, WEIR_FAILED, "%s", program);
    case 1:
        *ret_value = json_string("value");
        return WEIR_OK;
    default:
        *ret_value = json_deep_copy(input);
        return WEIR_OK;
    }
}

static enum weir_status look(void *context, const struct template *template, const char *word, size_t length, size_t offset)
{
    (void)context;
    INVARIANT(word != NULL && offset + (length > 0) <= template->source_length);
    return WEIR_OK;
}

static enum weir_status look_at_path(void *context, const struct path_step *steps, size_t count, size_t offset)
{
    size_t size = *(size_t *)context;
    INVARIANT(count > 0 && count <= EXPRESSION_PATH_STEPS_MAX && offset < size);
    for (size_t i = 0; i < count; i++) {
        INVARIANT(steps[i].key == NULL || steps[i].key_length < size);
    }
    return WEIR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct weir_error fault;
    struct template_fault place = {.offset = 0};
    const struct template *template = NULL;
    arena_init(&arena, 4 * 1024 * 1024);
    enum weir_status status = template_parse((const char *)data, size, &arena, &template, &place, &fault);
    INVARIANT(status == WEIR_OK || (status == WEIR_INVALID_DEFINITION && place.offset <= size));
    if (status == WEIR_OK) {
        json_t *context =
            json_pack("{s:{s:[i,s,n,f]},s:{s:{s:s}}}", "input", "a", 1, "x", 0.5, "steps", "a", "output", "t");
        json_t *value = NULL;
        size_t calls = 0;
        bool is_true = false;
        struct text text = {.max = FUZZ_RESULT_BYTES_MAX};
        INVARIANT(context != NULL);
        status = template_evaluate_text(template, context, answer, &calls, &text, &fault);
        INVARIANT(status == WEIR_OK || (status == WEIR_FAILED && text.length == 0));
        status = template_evaluate_condition(template, context, answer, &calls, &is_true, &fault);
        INVARIANT(status == WEIR_OK || status == WEIR_FAILED || status == WEIR_OUT_OF_MEMORY);
        status = template_evaluate(template, context, answer, &calls, &value, &fault);
        json_decref(status == WEIR_OK ? value : NULL);
        INVARIANT(expression_references(template, look, NULL) == WEIR_OK);
        INVARIANT(expression_paths(template, look_at_path, &size) == WEIR_OK);
        INVARIANT(template_each_program(template, look, NULL) == WEIR_OK);
        text_close(&text);
        json_decref(context);
    }
    arena_close(&arena);
    return 0;
}
