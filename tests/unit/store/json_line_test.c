#include "store/json_line.h"

#include <stdlib.h>

#include "support/test.h"

static struct arena arena;
static const char *key_at_fault; /* of the last line */

static enum weir_status read_line(const char *line, struct enqueue_request *request, struct weir_error *error)
{
    arena_reset(&arena);
    *request = (struct enqueue_request){.group = "default"};
    key_at_fault = NULL;
    return json_line_read(line, strlen(line), 1000, &arena, request, &key_at_fault, error);
}

static void params_are_kept_byte_for_byte(void **state)
{
    static const char *const params[] = {
        "{}",
        "{ \"b\" : 1.50, \"a\":1e2,\t\"b2\":[ 1 ,2 ] }",
        "{\"q\":\"\\\"}{\\u00e9\\\\\",\"n\":{\"m\":{}}}",
        "{\"\\u0000x\":1}",
        "{\"text\":\"\xf0\x9f\x98\x80 \xe2\x80\xae\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++) {
        char line[512];
        struct enqueue_request request;
        struct weir_error error;
        (void)snprintf(line, sizeof line, " {\"workspace\":\"w\", \"par\\u0061ms\" : %s , \"workflow\":\"f\"}\r",
                       params[i]);
        enum weir_status status = read_line(line, &request, &error);
        if (i == 3) { /* a NUL in a key is what the JSON reader refuses */
            assert_int_equal(status, WEIR_INVALID_ARGUMENT);
            continue;
        }
        assert_int_equal(status, WEIR_OK);
        assert_int_equal(request.params_length, strlen(params[i]));
        assert_memory_equal(request.params, params[i], request.params_length);
    }
}

static void fields_are_read_and_defaults_kept(void **state)
{
    struct enqueue_request request;
    struct weir_error error;
    (void)state;
    assert_int_equal(read_line("{\"workspace\":\"w\",\"workflow\":\"f\",\"idempotency_key\":\"k\",\"priority\":-3,"
                               "\"run_at\":\"+1s\",\"params\":null,\"executor_group\":null}",
                               &request, &error),
                     WEIR_OK);
    assert_string_equal(request.workspace, "w");
    assert_string_equal(request.workflow, "f");
    assert_string_equal(request.idempotency_key, "k");
    assert_string_equal(request.group, "default");
    assert_int_equal(request.priority, -3);
    assert_int_equal(request.run_at_us, 1000 + MICROSECONDS_PER_SECOND);
    assert_null(request.params);
}

static void a_wrong_line_is_refused_with_its_fault(void **state)
{
    static const struct {
        const char *line;
        enum weir_status status;
        const char *message;
    } wrong[] = {
        {"{", WEIR_INVALID_ARGUMENT, "not JSON"},
        {"[]", WEIR_INVALID_ARGUMENT, "a request must be a JSON object, not array"},
        {"{} {}", WEIR_INVALID_ARGUMENT, "not JSON"},
        {"{\"workspace\":\"w\"}", WEIR_INVALID_ARGUMENT, "workflow is missing"},
        {"{\"workflow\":\"w\"}", WEIR_INVALID_ARGUMENT, "workspace is missing"},
        {"{\"workspace\":1,\"workflow\":\"f\"}", WEIR_INVALID_ARGUMENT, "workspace must be a string, not integer"},
        {"{\"workspace\":\"\",\"workflow\":\"f\"}", WEIR_INVALID_ARGUMENT, "workspace is empty"},
        {"{\"workspace\":\"a\\u0000b\",\"workflow\":\"f\"}", WEIR_INVALID_ARGUMENT, "NUL"},
        {"{\"workspace\":\"w\",\"workflow\":\"f\",\"params\":[1]}", WEIR_INVALID_PARAMS, "not array"},
        {"{\"workspace\":\"w\",\"workflow\":\"f\",\"params\":\"{}\"}", WEIR_INVALID_PARAMS, "not string"},
        {"{\"workspace\":\"w\",\"workflow\":\"f\",\"param\":{}}", WEIR_INVALID_ARGUMENT, "unknown key \"param\""},
        {"{\"workspace\":\"w\",\"workflow\":\"f\",\"priority\":101}", WEIR_INVALID_ARGUMENT, "-100 to 100"},
        {"{\"workspace\":\"w\",\"workflow\":\"f\",\"priority\":1.5}", WEIR_INVALID_ARGUMENT, "-100 to 100"},
        {"{\"workspace\":\"w\",\"workflow\":\"f\",\"run_at\":\"later\"}", WEIR_INVALID_ARGUMENT, "run_at"},
        {"{\"workspace\":\"w\",\"workspace\":\"v\",\"workflow\":\"f\"}", WEIR_INVALID_ARGUMENT, "not JSON"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct enqueue_request request;
        struct weir_error error;
        assert_int_equal(read_line(wrong[i].line, &request, &error), wrong[i].status);
        if (strstr(error.message, wrong[i].message) == NULL) {
            print_error("%s -> %s\n", wrong[i].line, error.message);
        }
        assert_non_null(strstr(error.message, wrong[i].message));
        assert_null(request.workspace); /* untouched */
    }
}

static void params_that_are_too_large_are_refused(void **state)
{
    size_t size = PARAMS_BYTES_MAX + 100;
    char *line = malloc(size + 100);
    struct enqueue_request request = {.group = "g"};
    struct weir_error error;
    (void)state;
    int used = snprintf(line, size, "{\"workspace\":\"w\",\"workflow\":\"f\",\"params\":{\"a\":\"");
    memset(line + used, 'x', size - (size_t)used);
    memcpy(line + size, "\"}}", 4);
    arena_reset(&arena);
    assert_int_equal(json_line_read(line, strlen(line), 0, &arena, &request, NULL, &error), WEIR_PARAMS_TOO_LARGE);
    free(line);
}

static void expect_split(const char *text, bool is_lines, const char *wanted)
{
    struct json_slice slices[3];
    struct weir_error error;
    struct text joined = {.max = 256};
    size_t count = 0;
    assert_int_equal(json_line_split(text, strlen(text), is_lines, slices, 3, &count, &error), WEIR_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(text_add(&joined, slices[i].bytes, slices[i].length), WEIR_OK);
        assert_int_equal(text_add_string(&joined, "|"), WEIR_OK);
    }
    assert_string_equal(joined.data, wanted);
    text_close(&joined);
}

static void many_items_are_split_without_a_change(void **state)
{
    (void)state;
    expect_split("{\"items\":[{\"a\" : 1.50}]}", false, "{\"a\" : 1.50}|");
    expect_split(" { \"it\\u0065ms\" : [ {} , {\"q\":\"]},\\\"[{\"} ,3] } ", false, "{}|{\"q\":\"]},\\\"[{\"}|3|");
    expect_split("{\"a\":1}\n\r\n  {\"b\":[]}\r\n{}", true, "{\"a\":1}|  {\"b\":[]}\r|{}|");
    expect_split("not read yet\n", true, "not read yet|");
}

static void a_text_that_is_no_list_of_items_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"items\":{}}",
                                        "{\"items\":[]}",
                                        "{\"items\":[{}],\"more\":1}",
                                        "{\"items\":[{}",
                                        "{\"items\":[{},{},{},{}]}",
                                        "{\"items\":[{}]} x",
                                        "{\"items\":[{}],\"items\":[{}]}"};
    static const char *const lines[] = {"", "\n \n", "{}\n{}\n{}\n{}"};
    struct json_slice slices[3];
    struct weir_error error;
    size_t count = 7;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(json_line_split(texts[i], strlen(texts[i]), false, slices, 3, &count, &error),
                         WEIR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(json_line_split(lines[i], strlen(lines[i]), true, slices, 3, &count, &error),
                         WEIR_INVALID_ARGUMENT);
    }
    assert_int_equal(count, 7);
}

static void a_refusal_names_its_key(void **state)
{
    static const struct {
        const char *line;
        const char *key;
    } refused[] = {{"{\"workspace\":\"w\"}", "workflow"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"key_mode\":1}", "key_mode"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"debounce_max\":\"x\"}", "debounce_max"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"other\":1}", "other"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"x\\\"y\":1}", "x\"y"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"run_at\":\"soon\"}", "run_at"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"key_mode\":\"twice\"}", "key_mode"},
                   {"{\"workspace\":\"w\",\"workflow\":\"f\",\"labels\":[]}", "labels"},
                   {"[]", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct enqueue_request request;
        struct weir_error error;
        assert_int_equal(read_line(refused[i].line, &request, &error), WEIR_INVALID_ARGUMENT);
        assert_string_equal(key_at_fault == NULL ? "none" : key_at_fault, refused[i].key == NULL ? "none" : refused[i].key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(params_are_kept_byte_for_byte),
        cmocka_unit_test(fields_are_read_and_defaults_kept),
        cmocka_unit_test(a_wrong_line_is_refused_with_its_fault),
        cmocka_unit_test(params_that_are_too_large_are_refused),
        cmocka_unit_test(many_items_are_split_without_a_change),
        cmocka_unit_test(a_text_that_is_no_list_of_items_is_refused),
        cmocka_unit_test(a_refusal_names_its_key),
    };
    arena_init(&arena, 16 * 1024 * 1024);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_close(&arena);
    return failed;
}
