/* The meaning of rows of nFlow and Riven: values of variables, times, states, and the place of a row that has begun. */
#include <string.h>

#include "base/json.h"
#include "cli/verbs/import_row.h"
#include "support/test.h"

static struct arena arena;
static struct enqueue_request request;
static struct import_choice choice;

/* Reads a row with these columns and data; NULL data = none. */
static void read_row(enum import_system system, bool takes_begun, const char *columns, const char *data)
{
    static const char *const maps[] = {"a=first", "ab=second", "a=third"};
    struct import_rules rules = {.system = system,
                                 .system_name = system == IMPORT_NFLOW ? "nflow" : "riven",
                                 .workspace = system == IMPORT_NFLOW ? "acme" : NULL,
                                 .maps = maps,
                                 .map_count = 3,
                                 .takes_begun = takes_begun};
    struct import_row row = {.id = "17",
                             .columns = columns,
                             .columns_length = strlen(columns),
                             .data = data,
                             .data_length = data == NULL ? 0 : strlen(data),
                             .data_bytes = data == NULL ? 0 : (int64_t)strlen(data)};
    arena_reset(&arena);
    assert_int_equal(import_row_read(&row, &rules, &arena, &request, &choice, NULL), WEIR_OK);
}

#define NFLOW "\"status\": \"created\", \"type\": \"hello\", \"next_activation\": \"2026-01-02T03:04:05+00:00\""
#define RIVEN                                                                                                              \
    "\"status\": \"PENDING\", \"workflow_definition_id\": \"ab\", \"workspace_id\": \"tiny\","                             \
    " \"created_at\": \"2026-01-02T03:04:05\""

static void a_variable_is_json_only_where_no_text_is_lost(void **state)
{
    static const char *const texts[][2] = {
        {"42", "42"},
        {"-7", "-7"},
        {"007", "\"007\""},
        {"+1", "\"+1\""},
        {"-0", "\"-0\""},
        {"1.0", "\"1.0\""},
        {"1e3", "\"1e3\""},
        {"true", "true"},
        {"null", "null"},
        {"True", "\"True\""},
        {"[1,2]", "[1,2]"},
        {"[1,", "\"[1,\""},
        {"\\\"x\\\"", "\"x\""},
        {"", "\"\""},
        {" 1", "\" 1\""},
        {"9007199254740993", "\"9007199254740993\""},
        {"9007199254740992", "9007199254740992"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char data[128];
        char wanted[128];
        (void)snprintf(data, sizeof data, "{\"v\": \"%s\"}", texts[i][0]);
        (void)snprintf(wanted, sizeof wanted, "{\"v\":%s}", texts[i][1]);
        read_row(IMPORT_NFLOW, false, "{" NFLOW "}", data);
        assert_int_equal(choice.outcome, IMPORT_ENQUEUED);
        assert_string_equal(request.params, wanted);
    }
}

static void the_last_map_of_the_whole_type_counts(void **state)
{
    (void)state;
    read_row(IMPORT_NFLOW, false,
             "{\"status\": \"created\", \"type\": \"a\", \"next_activation\": \"2026-01-02 03:04:05\"}", NULL);
    assert_string_equal(request.workflow, "third");
    assert_string_equal(request.idempotency_key, "import:nflow:17");
    assert_int_equal(request.run_at_us, INT64_C(1767323045000000)); /* without a zone it is UTC */
    read_row(IMPORT_RIVEN, false, "{" RIVEN "}", NULL);
    assert_string_equal(request.workflow, "second");
    assert_string_equal(request.workspace, "tiny");
    assert_int_equal(request.run_at_us, INT64_C(1767323045000000));
}

static void a_column_of_another_type_refuses_the_row(void **state)
{
    static const char *const columns[] = {
        "{\"status\": 1, \"type\": \"hello\"}",
        "{\"status\": \"created\", \"type\": 7}",
        "{\"status\": \"created\", \"type\": \"hello\", \"next_activation\": 5}",
        "{\"status\": \"created\", \"type\": \"hello\", \"next_activation\": \"10m\"}",
        "{\"status\": \"created\", \"type\": \"hello\", \"next_activation\": \"now\"}",
        "{" NFLOW ", \"priority\": \"high\"}",
        "{" NFLOW ", \"retries\": 1.5}",
        "[1]",
        "{",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        read_row(IMPORT_NFLOW, true, columns[i], NULL);
        assert_int_equal(choice.outcome, IMPORT_REFUSED);
        assert_int_equal(choice.reason, IMPORT_UNREADABLE);
    }
}

static void the_place_of_a_row_that_has_begun_is_its_first_param(void **state)
{
    (void)state;
    read_row(IMPORT_RIVEN, false, "{" RIVEN ", \"execution_id\": \"e\"}", "{\"b\": 1.50}");
    assert_int_equal(choice.outcome, IMPORT_STAYS);
    assert_int_equal(choice.reason, IMPORT_BEGUN);
    read_row(IMPORT_RIVEN, true, "{" RIVEN ", \"execution_id\": \"e\"}", "{\"b\": 1.50}");
    assert_int_equal(choice.outcome, IMPORT_ENQUEUED);
    assert_memory_equal(request.params, "{\"import\":{\"system\":\"riven\",\"id\":\"17\"", 37);
    assert_string_equal(request.params + request.params_length - 12, "},\"b\": 1.50}");
    read_row(IMPORT_RIVEN, true, "{" RIVEN ", \"execution_id\": \"e\"}", "{}");
    assert_string_equal(request.params + request.params_length - 2, "}}");
    read_row(IMPORT_RIVEN, true, "{" RIVEN ", \"execution_id\": \"e\"}", "[1]");
    assert_string_equal(request.params, "[1]"); /* refused by the store */
    read_row(IMPORT_RIVEN, true, "{" RIVEN "}", "{\"b\": 1.50}");
    assert_string_equal(request.params, "{\"b\": 1.50}"); /* it has not begun */
    read_row(IMPORT_RIVEN, true, "{" RIVEN "}", "null");
    assert_int_equal(request.params_length, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_is_json_only_where_no_text_is_lost),
        cmocka_unit_test(the_last_map_of_the_whole_type_counts),
        cmocka_unit_test(a_column_of_another_type_refuses_the_row),
        cmocka_unit_test(the_place_of_a_row_that_has_begun_is_its_first_param),
    };
    arena_init(&arena, 64 * 1024 * 1024);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_close(&arena);
    return failed;
}
