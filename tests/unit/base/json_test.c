#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/seed.h"
#include "support/test.h"

static void a_value_of_any_type_is_read_and_written_back(void **state)
{
    (void)state;
    static const char *const values[] = {"{}",
                                         "[]",
                                         "null",
                                         "true",
                                         "-12",
                                         "1.5",
                                         "\"\\u0000\"",
                                         "{\"b\":1,\"a\":[2,{\"c\":null}]}",
                                         "\"\xF0\x9F\x98\x80\""};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        json_t *value = NULL;
        struct text text = {.max = 1000};
        assert_int_equal(json_read(values[i], strlen(values[i]), &value, NULL), WEIR_OK);
        assert_int_equal(json_write(value, &text, NULL), WEIR_OK);
        assert_string_equal(text.data, values[i]);
        text_close(&text);
        json_decref(value);
    }
}

static void a_text_that_is_no_json_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        " ",
                                        "{",
                                        "{\"a\":1,}",
                                        "[1 2]",
                                        "{} {}",
                                        "nul",
                                        "'a'",
                                        "{\"a\":1,\"a\":2}",
                                        "\"\xFF\"",
                                        "\"\xED\xA0\x80\"",
                                        "01",
                                        "NaN",
                                        "\"a\nb\"",
                                        "1e999",
                                        "[\"\\ud800\"]",
                                        "\xEF\xBB\xBF{}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        json_t *value = NULL;
        struct weir_error error;
        assert_int_equal(json_read(wrong[i], strlen(wrong[i]), &value, &error), WEIR_INVALID_ARGUMENT);
        assert_null(value);
        assert_non_null(strstr(error.message, "line "));
        assert_non_null(strstr(error.message, "column "));
    }
}

static void the_place_is_the_right_one(void **state)
{
    (void)state;
    json_t *value = NULL;
    struct weir_error error;
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": x\n}";
    assert_int_equal(json_read(text, sizeof text - 1, &value, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "line 3 "));
}

static void a_nul_byte_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        const char *place;
    } wrong[] = {
        {"1\0", 2, "line 1 column 2"},
        {"true\0", 5, "line 1 column 5"},
        {"{\"a\":1\0}", 8, "line 1 column 7"},
        {"[1,\n null\0]", 11, "line 2 column 6"},
        {"\0", 1, "line 1 column 1"},
        {"\"\0\"", 3, "line 1 column 2"},
        {"\"\xC3\xA9\"\0", 5, "line 1 column 4"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        json_t *value = NULL;
        struct weir_error error;
        assert_int_equal(json_read(wrong[i].text, wrong[i].length, &value, &error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "a NUL byte at "));
        assert_non_null(strstr(error.message, wrong[i].place));
    }
}

static enum weir_status read_nested_below(int depth, int levels, struct weir_error *error)
{
    char *text = malloc((size_t)depth * 2 + 1);
    assert_non_null(text);
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    json_t *value = NULL;
    enum weir_status status = json_read_below(text, (size_t)depth * 2, levels, &value, error);
    json_decref(value);
    free(text);
    return status;
}

static enum weir_status read_nested(int depth)
{
    return read_nested_below(depth, 0, NULL);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(read_nested(JSON_DEPTH_MAX), WEIR_OK);
    assert_int_equal(read_nested(JSON_DEPTH_MAX + 1), WEIR_INVALID_ARGUMENT);
    assert_int_equal(read_nested(1000000), WEIR_INVALID_ARGUMENT);
    struct weir_error error;
    assert_int_equal(read_nested_below(JSON_DEPTH_MAX + 2, 2, NULL), WEIR_OK);
    assert_int_equal(read_nested_below(JSON_DEPTH_MAX + 3, 2, &error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(error.message, "JSON is nested deeper than 64 levels at line 1 column 67");
    json_t *value = NULL;
    char brackets[400];
    int length = snprintf(brackets, sizeof brackets, "\"%0*d\\\"[[[[\"", 300, 0);
    assert_int_equal(json_read(brackets, (size_t)length, &value, NULL), WEIR_OK);
    json_decref(value);
}

/* [{},{},...] of `length` bytes, or of other values. */
static enum weir_status read_many(const char *value, size_t length, struct weir_error *error)
{
    char *text = malloc(length);
    assert_non_null(text);
    size_t end = (length - 2) / strlen(value) * strlen(value);
    memset(text, ' ', length);
    for (size_t i = 1; i < end; i++) {
        text[i] = value[(i - 1) % strlen(value)];
    }
    text[0] = '[';
    text[length - 1] = ']';
    json_t *read = NULL;
    enum weir_status status = json_read(text, length, &read, error);
    json_decref(read);
    free(text);
    return status;
}

/* No text of 1 MiB is refused: that is the limit of params and outputs. */
static bool balanced(const char *text)
{
    return json_is_balanced(text, strlen(text), 0);
}

static void brackets_are_balanced_or_not(void **state)
{
    (void)state;
    static const char *const right[] = {"[]", "{}", "{\"a\":[1,{\"b\":\"}\\\"]\"}]}", "[1e999]"};
    static const char *const wrong[] = {"",     "1",   "]",         "[",          "[]]",
                                        "[][]", "[] ", "{\"a\":[}", "{\"a\":\"}", "{\"a\":\"\\\"}"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(balanced(right[i]));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(balanced(wrong[i]));
    }
    assert_false(json_is_balanced("[\0]", 3, 0));
    assert_true(json_is_balanced("[[]]", 4, 2 - JSON_DEPTH_MAX));
    assert_false(json_is_balanced("[[]]", 4, 1 - JSON_DEPTH_MAX));
}

static void values_are_bounded(void **state)
{
    (void)state;
    static const char *const dense[] = {"{},", "[],", "1,", "{\"\":1},"};
    for (size_t i = 0; i < sizeof dense / sizeof dense[0]; i++) {
        struct weir_error error;
        assert_int_equal(read_many(dense[i], 1024 * 1024, NULL), WEIR_OK);
        assert_int_equal(read_many(dense[i], 16 * 1024 * 1024, &error), WEIR_INVALID_ARGUMENT);
        assert_memory_equal(error.message, "JSON has too many values at line 1 column ", 42);
    }
    assert_int_equal(read_many("\"{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\",", 16 * 1024 * 1024, NULL),
                     WEIR_OK);
}

static void a_text_that_is_too_small_stays_as_it_was(void **state)
{
    (void)state;
    struct text text = {.max = 10};
    assert_int_equal(text_add_string(&text, "abc"), WEIR_OK);
    json_t *value = json_pack("{s:[i,i,i,i]}", "a", 1, 2, 3, 4);
    assert_int_equal(json_write(value, &text, NULL), WEIR_FAILED);
    assert_int_equal(text.length, 3);
    assert_string_equal(text.data, "abc");
    json_decref(value);
    text_close(&text);
}

static void a_string_is_written_as_its_value_is(void **state)
{
    (void)state;
    static const char *const strings[] = {"",     "plain ~ text/",      "a \"quote\"",     "a \\ back", "line\nnext\x01",
                                          "\x7f", "gr\xC3\xBC\xC3\x9F", "\xF0\x9F\x98\x80"};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        struct text written = {.max = 100};
        struct text wanted = {.max = 100};
        json_t *value = json_string(strings[i]);
        assert_int_equal(json_write(value, &wanted, NULL), WEIR_OK);
        assert_int_equal(json_write_string(strings[i], &written, NULL), WEIR_OK);
        assert_string_equal(written.data, wanted.data);
        json_decref(value);
        text_close(&written);
        text_close(&wanted);
    }
    struct text text = {.max = 10};
    assert_int_equal(text_add_string(&text, "abc"), WEIR_OK);
    assert_int_equal(json_write_string("too long", &text, NULL), WEIR_FAILED);
    assert_int_equal(json_write_string("too l\"ng", &text, NULL), WEIR_FAILED);
    assert_int_equal(text.length, 3);
    assert_string_equal(text.data, "abc");
    text_close(&text);
}

/* Computed ones have more digits than their spelling needs: 0.1 + 0.25 is 0.35, and 0.1 + 0.2 is not 0.3. Texts that look
 * like numbers stay as they are. */
static void numbers_are_written_with_as_few_digits_as_it_takes(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } numbers[] = {{0.1 + 0.25, "0.35"},
                   {0.1 + 0.2, "0.30000000000000004"},
                   {-1.1, "-1.1"},
                   {1.0 / 3, "0.3333333333333333"},
                   {2.0, "2.0"},
                   {1.1e-7, "1.1e-7"},
                   {-1.2345678901234567e300, "-1.2345678901234567e300"},
                   {5e-324, "4.94065645841247e-324"},
                   {1.7976931348623157e308, "1.7976931348623157e308"}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct text written = {.max = 1000};
        struct text wanted = {.max = 1000};
        json_t *value = json_pack("{s:[f, s, I]}", "1.1000000000000001", numbers[i].number, "0.34999999999999998",
                                  (json_int_t)INT64_MIN);
        assert_int_equal(text_format(&wanted, "{\"1.1000000000000001\":[%s,\"0.34999999999999998\",-9223372036854775808]}",
                                     numbers[i].text),
                         WEIR_OK);
        assert_int_equal(json_write(value, &written, NULL), WEIR_OK);
        assert_string_equal(written.data, wanted.data);
        char *text = json_make_text(value, JSON_COMPACT);
        assert_string_equal(text, wanted.data);
        free(text);
        json_decref(value);
        text_close(&written);
        text_close(&wanted);
    }
    assert_null(json_make_text(NULL, JSON_COMPACT));
}

static void a_random_number_reads_back_the_same(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "json_numbers");
    for (int round = 0; round < 20000; round++) {
        uint64_t bits = random_next(&random);
        double number;
        memcpy(&number, &bits, sizeof number);
        json_t *value = json_real(number); /* NULL for what is no number of JSON */
        if (value != NULL) {
            char *text = json_make_text(value, JSON_COMPACT);
            json_t *back = NULL;
            assert_non_null(text);
            assert_int_equal(json_read(text, strlen(text), &back, NULL), WEIR_OK);
            assert_true(json_real_value(back) == number);
            json_decref(back);
            free(text);
        }
        json_decref(value);
    }
}

static void damaged_json_never_crashes_the_reader(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "json_read");
    static const char whole[] = "{\"a\":[1,2.5e3,\"x\\u00e9\\n\"],\"b\":{\"c\":null,\"d\":[true,false]}}";
    for (int round = 0; round < 20000; round++) {
        char text[sizeof whole];
        memcpy(text, whole, sizeof whole);
        for (uint64_t k = random_below(&random, 4); k > 0; k--) {
            text[random_below(&random, sizeof whole - 1)] = (char)random_below(&random, 256);
        }
        json_t *value = NULL;
        if (json_read(text, random_below(&random, sizeof whole), &value, NULL) == WEIR_OK) {
            json_decref(value);
        } else {
            assert_null(value);
        }
    }
}

static void types_have_names(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"{}", "object"},  {"[]", "array"},     {"\"\"", "string"},   {"1", "integer"},
                                           {"1.0", "number"}, {"true", "boolean"}, {"false", "boolean"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        json_t *value = NULL;
        assert_int_equal(json_read(pairs[i][0], strlen(pairs[i][0]), &value, NULL), WEIR_OK);
        assert_string_equal(json_type_name(value), pairs[i][1]);
        json_decref(value);
    }
}

static int fail_from = -1; /* allocations of jansson that are granted before ... */
static int fail_count;     /* ... so many are refused */

static void *refusing_malloc(size_t size)
{
    if (fail_from > 0) {
        fail_from--;
    } else if (fail_from == 0 && fail_count > 0) {
        fail_count--;
        return NULL;
    }
    return malloc(size);
}

static void one_text_without_memory(const char *bytes, size_t length, int count)
{
    enum { CALLS_MOST = 10000 };
    for (int from = 0; from < CALLS_MOST; from++) {
        struct weir_error error;
        json_t *value = NULL;
        fail_from = from;
        fail_count = count;
        enum weir_status status = json_read(bytes, length, &value, &error);
        bool reached = fail_count < count;
        fail_from = -1;
        if (!reached) {
            assert_int_equal(status, WEIR_OK);
            json_decref(value);
            assert_in_range(from, 1, CALLS_MOST);
            return;
        }
        assert_int_equal(status, WEIR_OUT_OF_MEMORY);
        assert_null(value);
    }
    fail_msg("no end of allocations");
}

/* A token grows its buffer when it has 16, 32, 64 ... bytes. */
static void refused_memory_ends_no_process(void **state)
{
    (void)state;
    enum { LENGTH = 3000 };
    static const char *const texts[] = {
        "{\"n\":123456789012345678}", "[-1234567890.12345678901234567890e-10,[],{},[{\"a\":[]}]]",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        "{\"a key that is longer than the buffer\":\"and so is its value, by far\",\"b\":1.5}"};
    char *large = malloc(LENGTH + 2);
    assert_non_null(large);
    for (int count = 1; count <= 1000; count *= 10) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            one_text_without_memory(texts[i], strlen(texts[i]), count);
        }
        memset(large, 'x', LENGTH);
        large[0] = large[LENGTH - 1] = '"';
        one_text_without_memory(large, LENGTH, count);
        memset(large, '1', LENGTH);
        large[1] = '.';
        one_text_without_memory(large, LENGTH, count);
    }
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_of_any_type_is_read_and_written_back),
        cmocka_unit_test(a_text_that_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(the_place_is_the_right_one),
        cmocka_unit_test(a_nul_byte_is_refused_wherever_it_stands),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(brackets_are_balanced_or_not),
        cmocka_unit_test(values_are_bounded),
        cmocka_unit_test(a_text_that_is_too_small_stays_as_it_was),
        cmocka_unit_test(a_string_is_written_as_its_value_is),
        cmocka_unit_test(numbers_are_written_with_as_few_digits_as_it_takes),
        cmocka_unit_test(a_random_number_reads_back_the_same),
        cmocka_unit_test(damaged_json_never_crashes_the_reader),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(refused_memory_ends_no_process),
    };
    json_set_alloc_funcs(refusing_malloc, free); /* before the first text is read */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
