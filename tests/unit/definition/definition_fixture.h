/* Definitions in tests: read, written back, refused. Each test program includes it once. */
#ifndef WEIR_TESTS_UNIT_DEFINITION_FIXTURE_H
#define WEIR_TESTS_UNIT_DEFINITION_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "definition/definition.h"
#include "support/test.h"

static struct weir_error fault;

static struct definition *read_fine(const char *text)
{
    struct definition *definition = NULL;
    if (definition_read(text, strlen(text), "f.yaml", &definition, &fault) != WEIR_OK) {
        fail_msg("%s | %s\n%s", fault.message, fault.hint, text);
    }
    return definition;
}

static char *write_text(const struct definition *definition)
{
    struct text text = {.max = 8 * 1024 * 1024};
    assert_int_equal(definition_write(definition, &text, &fault), WEIR_OK);
    return text.data;
}

static void expect_canonical(const char *source, const char *canonical)
{
    struct definition *definition = read_fine(source);
    char *text = write_text(definition);
    assert_string_equal(text, canonical);
    /* Once more through both readers: nothing changes any more. */
    struct definition *again = read_fine(text);
    struct definition *loaded = NULL;
    assert_int_equal(definition_load(text, strlen(text), "store", &loaded, &fault), WEIR_OK);
    char *text_again = write_text(again);
    char *text_loaded = write_text(loaded);
    assert_string_equal(text_again, canonical);
    assert_string_equal(text_loaded, canonical);
    free(text);
    free(text_again);
    free(text_loaded);
    definition_close(definition);
    definition_close(again);
    definition_close(loaded);
}

struct wrong {
    const char *text;
    const char *message;
    const char *hint; /* NULL: any */
};

static void expect_refusal(const struct wrong *wrong)
{
    struct definition *definition = NULL;
    enum weir_status status = definition_read(wrong->text, strlen(wrong->text), "f.yaml", &definition, &fault);
    if (status != WEIR_INVALID_DEFINITION || strcmp(fault.message, wrong->message) != 0 ||
        (wrong->hint != NULL && strcmp(fault.hint, wrong->hint) != 0)) {
        fail_msg("%s\ngot      %d %s | %s\nexpected   %s | %s", wrong->text, status, status == WEIR_OK ? "" : fault.message,
                 status == WEIR_OK ? "" : fault.hint, wrong->message, wrong->hint == NULL ? "" : wrong->hint);
    }
    assert_null(definition);
}

#define REFUSE_ALL(table)                                                                                                  \
    for (size_t i = 0; i < sizeof(table) / sizeof(table)[0]; i++) {                                                        \
        expect_refusal(&(table)[i]);                                                                                       \
    }

#endif
