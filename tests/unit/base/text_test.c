#include "base/text.h"

#include <locale.h>
#include <stdlib.h>

#include "support/seed.h"
#include "support/test.h"

static void text_grows_and_stays_terminated(void **state)
{
    (void)state;
    struct text text = {.max = 100000};
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(text_format(&text, "%d,", i % 10), WEIR_OK);
    }
    assert_int_equal(text.length, 20000);
    assert_int_equal(strlen(text.data), 20000);
    assert_int_equal(text_add(&text, "a\0b", 3), WEIR_OK);
    assert_memory_equal(text.data + 20000, "a\0b", 4);
    text_clear(&text);
    assert_int_equal(text.length, 0);
    assert_string_equal(text.data, "");
    text_close(&text);
    text_close(&text);
    text_close(NULL);
}

static void text_stops_at_its_ceiling_and_keeps_its_content(void **state)
{
    (void)state;
    struct text text = {.max = 5};
    assert_int_equal(text_add_string(&text, "abc"), WEIR_OK);
    assert_int_equal(text_add_string(&text, "def"), WEIR_FAILED);
    assert_int_equal(text_format(&text, "%s", "def"), WEIR_FAILED);
    assert_int_equal(text_add(&text, "x", SIZE_MAX), WEIR_FAILED);
    assert_string_equal(text.data, "abc");
    assert_int_equal(text_add_string(&text, "de"), WEIR_OK);
    assert_string_equal(text.data, "abcde");
    assert_int_equal(text_add_string(&text, ""), WEIR_OK);
    assert_int_equal(text.length, 5);
    text_close(&text);
}

static void a_value_of_a_url_begins_no_other_part(void **state)
{
    (void)state;
    struct text text = {.max = 64};
    assert_int_equal(text_add_string(&text, "?q="), WEIR_OK);
    assert_int_equal(text_add_url_value(&text, "a-Z_0.~/?#&=%+ <\xC3\xA4\0", 19), WEIR_OK);
    assert_string_equal(text.data, "?q=a-Z_0.~%2F%3F%23%26%3D%25%2B%20%3C%C3%A4%00");
    text.max = text.length + 4;
    assert_int_equal(text_add_url_value(&text, "b//", 3), WEIR_FAILED);
    assert_string_equal(text.data, "?q=a-Z_0.~%2F%3F%23%26%3D%25%2B%20%3C%C3%A4%00");
    text_close(&text);
}

static void only_valid_utf8_is_accepted(void **state)
{
    (void)state;
    static const char *const right[] = {
        "", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"};
    static const char *const wrong[] = {"\x80",
                                        "\xC0\xAF",
                                        "\xC1\xBF",
                                        "\xE0\x80\x80",
                                        "\xED\xA0\x80",
                                        "\xF0\x80\x80\x80",
                                        "\xF4\x90\x80\x80",
                                        "\xF5\x80\x80\x80",
                                        "\xC3",
                                        "\xE2\x82",
                                        "a\377b"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(text_is_utf8(right[i], strlen(right[i])));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(text_is_utf8(wrong[i], strlen(wrong[i])));
    }
    assert_true(text_is_utf8("a\0b", 3));
}

static void blanks_of_any_kind_are_blank(void **state)
{
    (void)state;
    static const char *const blank[] = {"", " ", "   ", "\xC2\xA0", " \xE3\x80\x80", "\xE2\x80\x8B", "\xE2\x80\x83 "};
    static const char *const seen[] = {"a", " a ", ".", "\xC3\xA9", " \xE6\x97\xA5", "\xFF", "\t"};
    for (size_t i = 0; i < sizeof blank / sizeof blank[0]; i++) {
        assert_true(text_is_blank(blank[i]));
    }
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        assert_false(text_is_blank(seen[i]));
    }
}

static void assert_made_safe(const char *from, const char *expected)
{
    char text[64];
    text_copy(text, sizeof text, from);
    text_make_safe(text);
    assert_string_equal(text, expected);
}

static void characters_that_change_a_terminal_become_question_marks(void **state)
{
    (void)state;
    assert_made_safe("caf\xC3\xA9 \xF0\x9F\x98\x80", "caf\xC3\xA9 \xF0\x9F\x98\x80");
    assert_made_safe("a\r\n\x1b[0m", "a  ?[0m");
    assert_made_safe("\xC2\x85\xC2\x9B", "??");
    assert_made_safe("\xE2\x80\xAEx\xE2\x81\xA6y\xEF\xBB\xBF", "?x?y?");
    assert_made_safe("a\x80"
                     "b",
                     "a?b");
}

/* A byte that is no UTF-8 near the end is not the same as a character that the end has split. */
static void only_a_split_character_is_cut_at_the_end(void **state)
{
    (void)state;
    assert_made_safe("caf\xE9!", "caf?!");
    assert_made_safe("ab\xFF", "ab?");
    assert_made_safe("ab\xC3"
                     "cd",
                     "ab?cd");
    assert_made_safe("ab\xE2\x82", "ab");
    assert_made_safe("ab\xC3", "ab");
    assert_made_safe("ab\xF0\x9F\x98", "ab");
    assert_made_safe("\xED\xA0", "??");
}

static void any_bytes_become_a_safe_line(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "text_make_safe");
    for (int round = 0; round < 20000; round++) {
        char text[33];
        size_t length = random_below(&random, 32);
        for (size_t i = 0; i < length; i++) {
            text[i] = (char)(1 + random_below(&random, 255));
        }
        text[length] = '\0';
        text_make_safe(text);
        assert_true(strlen(text) <= length);
        assert_true(text_is_utf8(text, strlen(text)));
        char again[33];
        memcpy(again, text, sizeof again);
        text_make_safe(again);
        assert_string_equal(again, text);
    }
}

static void columns_count_characters(void **state)
{
    (void)state;
    assert_int_equal(text_columns(""), 0);
    assert_int_equal(text_columns("abc"), 3);
    assert_int_equal(text_columns("\xC3\xA9\xE2\x82\xAC"), 2);
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    assert_int_equal(text_columns("\xC3\xA9\xE2\x82\xAC"), 2);
    assert_int_equal(text_columns("\xE6\x97\xA5\xE6\x9C\xAC"), 4);
    assert_int_equal(text_columns("e\xCC\x81"), 1);
    assert_int_equal(text_columns("\xF0\x9F\x9A\x80"), 2);
    assert_int_equal(text_columns("a\xFF"), 2);
}

static void a_cut_never_splits_a_character(void **state)
{
    size_t used = 0;
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    assert_int_equal(text_bytes_of_columns("\xE6\x97\xA5\xE6\x9C\xAC", 3, &used), 3);
    assert_int_equal(used, 2);
    assert_int_equal(text_bytes_of_columns("e\xCC\x81x", 1, &used), 3);
    assert_int_equal(used, 1);
    assert_int_equal(text_bytes_of_columns("abc", 9, &used), 3);
    assert_int_equal(used, 3);
}

static void the_nearest_name_is_suggested(void **state)
{
    (void)state;
    static const char *const words[] = {"enqueue", "list", NULL, "", "pause", "resume", "release"};
    size_t count = sizeof words / sizeof words[0];
    assert_string_equal(text_nearest("enqeue", words, count), "enqueue");
    assert_string_equal(text_nearest("lsit", words, count), "list");
    assert_string_equal(text_nearest("pausee", words, count), "pause");
    assert_null(text_nearest("xylophone", words, count));
    assert_null(text_nearest("", words, count));
    assert_null(text_nearest("enqueue", words, 0));
    char large[500];
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    const char *const larges[] = {large};
    assert_null(text_nearest(large, larges, 1));
}

static void a_copy_is_cut_and_terminated(void **state)
{
    (void)state;
    char to[4] = "zzz";
    text_copy(to, sizeof to, "abcdef");
    assert_string_equal(to, "abc");
    text_copy(to, 1, "abc");
    assert_string_equal(to, "");
    text_copy(to, 0, "abc");
    assert_string_equal(to, "");
}

static void blanks_at_both_ends_are_cut(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{" \t a b\r\n", "a b"}, {"", ""}, {" \n", ""}, {"a", "a"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[16];
        text_copy(text, sizeof text, pairs[i][0]);
        assert_string_equal(text_trim(text), pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_and_stays_terminated),
        cmocka_unit_test(text_stops_at_its_ceiling_and_keeps_its_content),
        cmocka_unit_test(a_value_of_a_url_begins_no_other_part),
        cmocka_unit_test(only_valid_utf8_is_accepted),
        cmocka_unit_test(blanks_of_any_kind_are_blank),
        cmocka_unit_test(characters_that_change_a_terminal_become_question_marks),
        cmocka_unit_test(only_a_split_character_is_cut_at_the_end),
        cmocka_unit_test(any_bytes_become_a_safe_line),
        cmocka_unit_test(columns_count_characters),
        cmocka_unit_test(a_cut_never_splits_a_character),
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(a_copy_is_cut_and_terminated),
        cmocka_unit_test(blanks_at_both_ends_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
