#include "cli/output/live_screen.h"

#include <locale.h>

#include "support/test.h"

static void assert_fits(const char *text, size_t columns, size_t rows, const char *expected)
{
    char copy[256];
    (void)snprintf(copy, sizeof copy, "%s", text);
    live_screen_fit(copy, columns, rows);
    assert_string_equal(copy, expected);
}

static void a_line_ends_at_the_last_column(void **state)
{
    (void)state;
    assert_fits("abcdef\nab\n", 4, 10, "abcd\nab\n");
    assert_fits("abcdef", 4, 10, "abcd");
    assert_fits("\nabc\n", 1, 10, "\na\n");
    assert_fits("", 1, 1, "");
    assert_fits("✓✓✓\n", 2, 10, "✓✓\n");
    assert_fits("a漢字\n", 2, 10, "a\n"); /* half of a wide one does not fit */
}

static void escape_codes_take_no_column_and_stay(void **state)
{
    (void)state;
    assert_fits("\033[1mabcdef\033[0m\nx\n", 3, 10, "\033[1mabc\033[0m\nx\n");
    assert_fits("abc\033[", 2, 10, "ab\033["); /* one that has no end */
}

static void the_last_line_stays_when_there_are_too_many(void **state)
{
    (void)state;
    assert_fits("1\n2\n3\n4\nkeys\n", 10, 3, "1\n2\nkeys\n");
    assert_fits("1\n2\nkeys\n", 10, 3, "1\n2\nkeys\n");
    assert_fits("1\n2\nkeys\n", 10, 1, "keys\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_ends_at_the_last_column),
        cmocka_unit_test(escape_codes_take_no_column_and_stay),
        cmocka_unit_test(the_last_line_stays_when_there_are_too_many),
    };
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
