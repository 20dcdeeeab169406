#include "cli/help/help.h"

#include <stdio.h>

#include "cli/arguments/parse.h"
#include "cli/help/completion.h"
#include "cli/help/help_json.h"
#include "cli/help/help_pages.h"
#include "support/test.h"

/* Every line fits; no blanks at the end of one. */
static void check_lines(const char *what, const char *text)
{
    while (*text != '\0') {
        char line[512];
        size_t length = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)length, text);
        if (text_columns(line) > HELP_COLUMNS || (length > 0 && line[length - 1] == ' ')) {
            print_error("%s: |%s|\n", what, line);
        }
        assert_in_range(text_columns(line), 0, HELP_COLUMNS);
        assert_false(length > 0 && line[length - 1] == ' ');
        text += length + (text[length] == '\n');
    }
}

static void help_of_every_command_begins_with_an_example_and_fits(void **state)
{
    size_t count;
    const struct command *all = command_table(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct text text = {.max = HELP_BYTES_MAX};
        char begins[128];
        assert_int_equal(help_command(&all[i], &text), WEIR_OK);
        (void)snprintf(begins, sizeof begins, "example:\n  ");
        assert_memory_equal(text.data, begins, strlen(begins));
        (void)snprintf(begins, sizeof begins, "weir %s", all[i].name);
        assert_non_null(strstr(text.data, begins));
        check_lines(all[i].name, text.data);
        text_close(&text);
    }
}

static void every_row_of_the_table_is_complete(void **state)
{
    size_t count;
    const struct command *all = command_table(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_non_null(all[i].run);
        assert_non_null(all[i].section);
        size_t summary = strlen(all[i].summary);
        assert_true(summary > 0 && all[i].summary[summary - 1] != '.');
        assert_ptr_equal(command_find(all[i].name), &all[i]);
        for (size_t f = 0; f < COMMAND_FLAGS_MAX && all[i].flags[f].name != NULL; f++) {
            const struct flag *flag = &all[i].flags[f];
            assert_non_null(flag->help);
            assert_true((flag->type == VALUE_NONE) == (flag->value == NULL));
            assert_true((flag->type == VALUE_CHOICE) == (flag->choices != NULL));
        }
    }
}

static void overview_and_nouns_fit(void **state)
{
    static const char *const nouns[] = {"workflow", "workspace", "plan", "node", "lock", "temporal", "store", "config"};
    struct text text = {.max = HELP_BYTES_MAX};
    (void)state;
    assert_int_equal(help_overview(&text), WEIR_OK);
    check_lines("overview", text.data);
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; i++) {
        text_clear(&text);
        assert_int_equal(help_noun(nouns[i], &text), WEIR_OK);
        check_lines(nouns[i], text.data);
    }
    text_close(&text);
}

static void json_names_every_command(void **state)
{
    size_t count;
    (void)command_table(&count);
    json_t *json = help_json(NULL, NULL);
    (void)state;
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "commands")), count);
    assert_int_equal(json_array_size(json_object_get(json, "exit_codes")), 9);
    json_decref(json);
}

static void man_pages_begin_no_line_with_a_stray_request(void **state)
{
    struct text text = {.max = HELP_BYTES_MAX};
    (void)state;
    assert_int_equal(help_man(NULL, &text), WEIR_OK);
    for (const char *line = text.data; *line != '\0';) {
        if (line[0] == '.') {
            static const char *const requests[] = {".TH ", ".SH ", ".SS ", ".TP\n", ".PP\n", ".nf\n", ".fi\n"};
            bool is_known = false;
            for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
                is_known = is_known || strncmp(line, requests[i], strlen(requests[i])) == 0;
            }
            assert_true(is_known);
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    text_close(&text);
}

static void only_known_shells_are_completed(void **state)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    struct text text = {.max = HELP_BYTES_MAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        text_clear(&text);
        assert_int_equal(help_completion(shells[i], &text), WEIR_OK);
        assert_non_null(strstr(text.data, "idempotency-key"));
    }
    assert_int_equal(help_completion("tcsh", &text), WEIR_INVALID_ARGUMENT);
    text_close(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_of_every_command_begins_with_an_example_and_fits),
        cmocka_unit_test(every_row_of_the_table_is_complete),
        cmocka_unit_test(overview_and_nouns_fit),
        cmocka_unit_test(json_names_every_command),
        cmocka_unit_test(man_pages_begin_no_line_with_a_stray_request),
        cmocka_unit_test(only_known_shells_are_completed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
