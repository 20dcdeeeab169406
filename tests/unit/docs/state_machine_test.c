/* docs/state_machine.md is printed from the table in queue/item.c: `state_machine_test --print > docs/state_machine.md`. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "queue/item.h"
#include "support/test.h"

enum { DOCUMENT_BYTES_MAX = 64 * 1024 };

static const char *counter_name(enum item_counter counter)
{
    static const char *const names[] = {"-", "starts_refused", "deferrals", "handovers"};
    return names[counter];
}

static bool print_moves(struct text *to)
{
    size_t count;
    const struct item_move *moves = item_moves(&count);
    bool fine = text_add_string(to, "\n| from | to | because | spends |\n|---|---|---|---|\n") == WEIR_OK;
    for (size_t i = 0; i < count && fine; i++) {
        fine = text_format(to, "| %s | %s | %s | %s |\n", item_state_name(moves[i].from), item_state_name(moves[i].to),
                           moves[i].because, counter_name(moves[i].counter)) == WEIR_OK;
    }
    return fine;
}

static bool print_reasons(struct text *to)
{
    bool fine = text_add_string(to, "\n## Why an execution does not run\n\nExactly one reason, the first that applies:\n\n"
                                    "| pending_reason | meaning |\n|---|---|\n") == WEIR_OK;
    for (int reason = 0; reason < PENDING_REASON_COUNT && fine; reason++) {
        fine = text_format(to, "| `%s` | %s |\n", pending_reason_name((enum pending_reason)reason),
                           pending_reason_meaning((enum pending_reason)reason)) == WEIR_OK;
    }
    return fine;
}

static bool print_waits(struct text *to)
{
    bool fine = text_add_string(to, "\n## What a WAITING execution waits for\n\n"
                                    "| waiting_for | meaning |\n|---|---|\n") == WEIR_OK;
    for (int kind = 0; kind < WAIT_KIND_COUNT && fine; kind++) {
        fine = text_format(to, "| `%s` | %s |\n", wait_kind_name((enum wait_kind)kind),
                           wait_kind_meaning((enum wait_kind)kind)) == WEIR_OK;
    }
    return fine;
}

static bool print_document(struct text *to)
{
    return text_add_string(to,
                           "# The life of an execution\n\n"
                           "Printed from the table in `src/queue/item.c`; a test compares. Any other move is refused. "
                           "COMPLETED, FAILED and\n"
                           "CANCELLED are final: their rows are never rewritten. `weir retry` makes a new execution.\n") ==
               WEIR_OK &&
           print_moves(to) && print_reasons(to) && print_waits(to);
}

static void the_document_is_the_table(void **state)
{
    (void)state;
    struct text wanted = {.max = DOCUMENT_BYTES_MAX};
    assert_true(print_document(&wanted));
    const char *root = getenv("WEIR_SOURCE_ROOT");
    char path[1024];
    assert_non_null(root);
    (void)snprintf(path, sizeof path, "%s/docs/state_machine.md", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *found = calloc(1, DOCUMENT_BYTES_MAX);
    size_t length = fread(found, 1, DOCUMENT_BYTES_MAX - 1, file);
    found[length] = '\0';
    (void)fclose(file);
    assert_string_equal(found, wanted.data);
    free(found);
    text_close(&wanted);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        struct text document = {.max = DOCUMENT_BYTES_MAX};
        bool fine = print_document(&document) && fputs(document.data, stdout) >= 0;
        text_close(&document);
        return fine ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_document_is_the_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
