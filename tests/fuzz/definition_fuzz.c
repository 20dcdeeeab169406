/* The definition reader: never a crash, and what is accepted survives being written and read again. */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "definition/definition.h"
#include "definition/jq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libfyaml 0.7.12 forgets a kilobyte when a quoted text with many quotes in it has no end. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}

/* Takes the place of the real one: a child process for each input would be a fuzzer of fork(). */
enum weir_status jq_check(const char *const *programs, size_t count, size_t *ret_wrong, struct weir_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(programs[i], "wrong") != NULL) {
            *ret_wrong = i;
            return error_set(error, WEIR_INVALID_ARGUMENT, "wrong");
        }
    }
    return WEIR_OK;
}

static void check_same(const struct definition *definition, const struct text *canonical)
{
    struct text again = {.max = canonical->max};
    INVARIANT(definition_write(definition, &again, NULL) == WEIR_OK);
    INVARIANT(again.length == canonical->length && memcmp(again.data, canonical->data, again.length) == 0);
    text_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct definition *definition = NULL;
    struct definition *again = NULL;
    struct weir_error fault;
    enum weir_status status = definition_read((const char *)data, size, "fuzz", &definition, &fault);
    INVARIANT(status == WEIR_OK || (status == WEIR_INVALID_DEFINITION && fault.message[0] != '\0'));
    if (status != WEIR_OK) {
        return 0;
    }
    struct text canonical = {.max = 16 * 1024 * 1024};
    INVARIANT(definition_write(definition, &canonical, &fault) == WEIR_OK);
    check_same(definition, &canonical);
    INVARIANT(definition_load(canonical.data, canonical.length, "canonical", &again, &fault) == WEIR_OK);
    check_same(again, &canonical);
    definition_close(again);
    again = NULL;
    if (canonical.length <= DEFINITION_BYTES_MAX) {
        INVARIANT(definition_read(canonical.data, canonical.length, "canonical", &again, &fault) == WEIR_OK);
        check_same(again, &canonical);
        definition_close(again);
    }
    definition_close(definition);
    text_close(&canonical);
    return 0;
}
