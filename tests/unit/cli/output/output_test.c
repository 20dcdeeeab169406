#include "cli/output/output.h"

#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "support/test.h"

struct fixture {
    struct arena arena;
    struct output output;
    char *out;
    size_t out_size;
    char *talk;
    size_t talk_size;
    FILE *out_file;
    FILE *talk_file;
};

/* Streams in memory stand for pipes. */
static void open_fixture(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    arena_init(&fixture->arena, 1024 * 1024);
    output_open(&fixture->output, stdout, stderr, &fixture->arena);
    fixture->out_file = open_memstream(&fixture->out, &fixture->out_size);
    fixture->talk_file = open_memstream(&fixture->talk, &fixture->talk_size);
    fixture->output.out = fixture->out_file;
    fixture->output.messages = fixture->talk_file;
    fixture->output.columns = 40;
    fixture->output.out_is_terminal = false;
    fixture->output.out_colour = false;
    fixture->output.utf8 = true;
}

static void close_fixture(struct fixture *fixture)
{
    (void)fclose(fixture->out_file);
    (void)fclose(fixture->talk_file);
    free(fixture->out);
    free(fixture->talk);
    arena_close(&fixture->arena);
}

static void tables_shorten_ids_first_and_fit(void **state)
{
    static const struct column columns[] = {{.title = "ID", .least = ID_COLUMNS_LEAST, .is_id = true},
                                            {.title = "NAME", .least = 6},
                                            {.title = "N", .align = COLUMN_RIGHT}};
    struct fixture fixture;
    struct table table;
    (void)state;
    open_fixture(&fixture);
    fixture.output.out_is_terminal = true;
    table_open(&table, &fixture.output, columns, 3);
    table_cell(&table, "0198c2f1-7a3b-7c01-8000-000000000000");
    table_cell(&table, "a name that is much too long");
    table_cell(&table, "7");
    table_cell(&table, "0198c2f1-7a3b-7c02-8000-000000000000");
    table_cell(&table, NULL);
    table_cell(&table, "10");
    table_close(&table);
    (void)fflush(fixture.out_file);
    assert_string_equal(fixture.out, "ID                  NAME               N\n"
                                     "0198c2f1-7a3b-7c01  a name that is \xe2\x80\xa6   7\n"
                                     "0198c2f1-7a3b-7c02  -                 10\n");
    close_fixture(&fixture);
}

static void a_table_wider_than_the_terminal_gets_a_line_for_each_cell(void **state)
{
    static const struct column columns[] = {{.title = "ID", .least = ID_COLUMNS_LEAST, .is_id = true}, {.title = "STATE"}};
    static const char *const ids[] = {"0198c2f1-7a3b-7c01-8000-000000000000", "0198c2f1-7a3b-7c02-8000-000000000000"};
    static const char table_of_old[] = "ID                  STATE\n"
                                       "0198c2f1-7a3b-7c01  COMPLETED\n"
                                       "0198c2f1-7a3b-7c02  COMPLETED\n";
    static const char whole_table[] = "ID                                    STATE\n"
                                      "0198c2f1-7a3b-7c01-8000-000000000000  COMPLETED\n"
                                      "0198c2f1-7a3b-7c02-8000-000000000000  COMPLETED\n";
    static const char line_by_line[] = "ID     0198c2f1-7a3b-7c01-8000-000000000000\nSTATE  COMPLETED\n\n"
                                       "ID     0198c2f1-7a3b-7c02-8000-000000000000\nSTATE  COMPLETED\n";
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct fixture fixture;
        struct table table;
        open_fixture(&fixture);
        fixture.output.columns = 20;
        fixture.output.out_is_terminal = i > 0;
        fixture.output.is_cut = i == 2; /* a live picture: its lines are cut, and there are only so many */
        table_open(&table, &fixture.output, columns, 2);
        for (size_t k = 0; k < 2; k++) {
            table_cell(&table, ids[k]);
            table_cell(&table, "COMPLETED");
        }
        table_close(&table);
        (void)fflush(fixture.out_file);
        assert_string_equal(fixture.out, i == 0 ? whole_table : i == 1 ? line_by_line : table_of_old);
        close_fixture(&fixture);
    }
}

static void wide_characters_take_two_columns(void **state)
{
    struct fixture fixture;
    struct table table;
    (void)state;
    static const struct column columns[] = {{.title = "NAME", .least = 4}, {.title = "STATE"}};
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    open_fixture(&fixture);
    fixture.output.columns = 14;
    fixture.output.out_is_terminal = true;
    table_open(&table, &fixture.output, columns, 2);
    table_cell(&table, "acme");
    table_cell(&table, "open");
    table_cell(&table, "\xE6\x97\xA5\xE6\x9C\xAC");
    table_cell(&table, "open");
    table_cell(&table, "\xE6\x97\xA5\xE6\x9C\xAC\xE6\x97\xA5\xE6\x9C\xAC");
    table_cell(&table, "open");
    table_close(&table);
    (void)fflush(fixture.out_file);
    assert_string_equal(fixture.out, "NAME     STATE\n"
                                     "acme     open\n"
                                     "\xE6\x97\xA5\xE6\x9C\xAC     open\n"
                                     "\xE6\x97\xA5\xE6\x9C\xAC\xE6\x97\xA5\xE2\x80\xA6  open\n");
    close_fixture(&fixture);
}

static void foreign_text_cannot_control_the_terminal(void **state)
{
    struct fixture fixture;
    (void)state;
    open_fixture(&fixture);
    assert_string_equal(output_safe(&fixture.output, "a\033[31mb\xe2\x80\xae\n\xc2\x9b"
                                                     "2J"),
                        "a?[31mb? ?2J");
    assert_string_equal(output_safe(&fixture.output, NULL), "");
    fixture.output.out_is_terminal = true;
    json_t *value = json_pack("{s:s}", "k", "\xe2\x80\xae\xc2\x9b\x7f caf\xc3\xa9 \xf0\x9f\x98\x80");
    output_json(&fixture.output, value);
    (void)fflush(fixture.out_file);
    assert_string_equal(fixture.out, "{\n  \"k\": \"\\u202e\\u009b\\u007f caf\xc3\xa9 \xf0\x9f\x98\x80\"\n}\n");
    json_decref(value);
    close_fixture(&fixture);
}

static void errors_are_one_line_and_a_hint(void **state)
{
    struct fixture fixture;
    struct weir_error error = {.message = "no such thing", .hint = "look elsewhere"};
    (void)state;
    open_fixture(&fixture);
    output_error(&fixture.output, WEIR_NOT_FOUND, &error);
    (void)fflush(fixture.talk_file);
    assert_string_equal(fixture.talk, "weir: no such thing (not_found)\nhint: look elsewhere\n");
    close_fixture(&fixture);
    open_fixture(&fixture);
    fixture.output.format = OUTPUT_JSON;
    output_error(&fixture.output, WEIR_NOT_FOUND, &error);
    (void)fflush(fixture.talk_file);
    assert_string_equal(fixture.talk, "{\"error\":{\"code\":\"not_found\",\"message\":\"no such thing\",\"exit\":3,"
                                      "\"hint\":\"look elsewhere\"}}\n");
    close_fixture(&fixture);
}

static void quiet_prints_errors_and_no_other_message(void **state)
{
    struct fixture fixture;
    struct weir_error error = {.message = "bad"};
    (void)state;
    open_fixture(&fixture);
    fixture.output.quiet = true;
    output_report(&fixture.output, "hello");
    output_report_sign(&fixture.output, SIGN_FINE, "hello");
    output_error(&fixture.output, WEIR_FAILED, &error);
    (void)fflush(fixture.talk_file);
    assert_string_equal(fixture.talk, "weir: bad (failed)\n");
    close_fixture(&fixture);
}

static void pages_have_three_forms(void **state)
{
    struct fixture fixture;
    json_t *page = json_pack("{s:[{s:i},{s:i}], s:n}", "items", "a", 1, "a", 2, "next_cursor");
    (void)state;
    open_fixture(&fixture);
    assert_false(output_page(&fixture.output, page));
    fixture.output.format = OUTPUT_JSONL;
    assert_true(output_page(&fixture.output, page));
    (void)fflush(fixture.out_file);
    assert_string_equal(fixture.out, "{\"a\":1}\n{\"a\":2}\n");
    close_fixture(&fixture);
    json_decref(page);
}

static void progress_shows_after_a_second_and_the_time_left_after_ten(void **state)
{
    struct fixture fixture;
    (void)state;
    open_fixture(&fixture);
    fixture.output.messages_is_terminal = true;
    output_progress(&fixture.output, "retrying", 1, 100);
    (void)fflush(fixture.talk_file);
    assert_int_equal(fixture.talk_size, 0);
    fixture.output.progress_from_us = clock_boot(clock_system()) - 2 * MICROSECONDS_PER_SECOND;
    fixture.output.progress_last_us = 1;
    output_progress(&fixture.output, "retrying", 50, 100);
    (void)fflush(fixture.talk_file);
    assert_non_null(strstr(fixture.talk, "50/100  50 %"));
    assert_null(strstr(fixture.talk, "left"));
    fixture.output.progress_from_us = clock_boot(clock_system()) - 20 * MICROSECONDS_PER_SECOND;
    fixture.output.progress_last_us = 1;
    output_progress(&fixture.output, "retrying", 50, 100);
    output_report(&fixture.output, "done");
    (void)fflush(fixture.talk_file);
    assert_non_null(strstr(fixture.talk, " left"));
    assert_non_null(strstr(fixture.talk, "\rdone\n")); /* the line was cleared first */
    assert_null(strchr(fixture.talk, '\033'));
    close_fixture(&fixture);
}

static void progress_into_a_pipe_is_a_line_per_tenth(void **state)
{
    struct fixture fixture;
    size_t lines = 0;
    (void)state;
    open_fixture(&fixture);
    fixture.output.messages_is_terminal = false;
    fixture.output.progress_from_us = clock_boot(clock_system()) - 2 * MICROSECONDS_PER_SECOND;
    for (int64_t done = 0; done <= 1000; done++) {
        output_progress(&fixture.output, "retrying", done, 1000);
    }
    output_progress_end(&fixture.output);
    (void)fflush(fixture.talk_file);
    for (const char *at = fixture.talk; *at != '\0'; at++) {
        lines += *at == '\n';
        assert_int_not_equal(*at, '\r');
    }
    assert_int_equal(lines, 10);
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_shorten_ids_first_and_fit),
        cmocka_unit_test(a_table_wider_than_the_terminal_gets_a_line_for_each_cell),
        cmocka_unit_test(wide_characters_take_two_columns),
        cmocka_unit_test(foreign_text_cannot_control_the_terminal),
        cmocka_unit_test(errors_are_one_line_and_a_hint),
        cmocka_unit_test(quiet_prints_errors_and_no_other_message),
        cmocka_unit_test(pages_have_three_forms),
        cmocka_unit_test(progress_shows_after_a_second_and_the_time_left_after_ten),
        cmocka_unit_test(progress_into_a_pipe_is_a_line_per_tenth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
