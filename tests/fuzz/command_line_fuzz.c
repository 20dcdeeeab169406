/* The words of a command line, one per line of the input: parsing, filters, states. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/arguments/parse.h"
#include "store/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_MAX = 64, MEMORY_MAX = 1024 * 1024 };

static void look_at(struct invocation *invocation)
{
    struct execution_filter filter = {.id = NULL};
    struct weir_error error;
    INVARIANT(invocation->wants_help || invocation->wants_version || invocation->command != NULL);
    if (invocation->command == NULL || invocation->wants_help) {
        return;
    }
    for (size_t i = 0; i < invocation->value_count; i++) {
        const struct flag_value *value = &invocation->values[i];
        INVARIANT(invocation_has(invocation, value->flag->name));
        INVARIANT(value->flag->type == VALUE_NONE || value->text[0] != '\0');
        if (strcmp(value->flag->name, "where") == 0) {
            (void)!filter_parse(value->text, 1000000, invocation->arena, &filter, &error);
        }
    }
    for (size_t i = 0; i < invocation->argument_count; i++) {
        INVARIANT(invocation_argument(invocation, i)[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *words[WORDS_MAX];
    size_t count = 0;
    struct arena arena;
    struct weir_error error = {.status = WEIR_OK};
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *word = text; word != NULL && count < WORDS_MAX;) {
        words[count++] = word;
        word = strchr(word, '\n');
        if (word != NULL) {
            *word++ = '\0';
        }
    }
    arena_init(&arena, MEMORY_MAX);
    struct invocation invocation = {.arena = &arena};
    enum weir_status status = command_parse(&invocation, count, words, &error);
    if (status == WEIR_OK) {
        look_at(&invocation);
    } else {
        INVARIANT(status == WEIR_OUT_OF_MEMORY || (status == WEIR_INVALID_ARGUMENT && error.message[0] != '\0'));
    }
    (void)command_asks_for_json(count, words);
    arena_close(&arena);
    free(text);
    return 0;
}
