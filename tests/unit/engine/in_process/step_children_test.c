/* Steps that start other executions: their plan, their wait, and its ends. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "support/engine_fixture.h"
#include "support/test.h"

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)
#define EACH                                                                                                               \
    "{\"workflow\":\"c\",\"for_each\":\"${.input.list}\",\"params\":{\"n\":\"${.item.n}\",\"next\":\"${.index + 1}\"}"
#define DEFINITION(start) "{\"name\":\"t\",\"steps\":{\"go\":{\"start\":" start "}}}"

static struct engine_fixture fixture;

static int open_fixture(void **state)
{
    (void)state;
    engine_fixture_open(&fixture, NULL);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    return 0;
}

static const struct report *await_step(enum step_state state)
{
    return engine_fixture_expect(&fixture, REPORT_ENDED, 1, "go", (int)state, 1);
}

static const struct report *await_plan(const char *definition, const char *params)
{
    engine_fixture_start(&fixture, 1, definition, params);
    return engine_fixture_expect(&fixture, REPORT_STEP, 1, "go", STEP_WAITING, 1);
}

static void a_plan_names_workflow_and_params(void **state)
{
    (void)state;
    const struct report *report =
        await_plan(DEFINITION("{\"workflow\":\"c\",\"params\":{\"n\":\"${.input.n}\"},\"priority\":5}"), "{\"n\":7}");
    assert_string_equal(report->step.signal, "children:go");
    assert_true(report->step.due_in_us == TIME_NEVER);
    assert_string_equal(report->step.variables,
                        "{\"workflow\":\"c\",\"executor_group\":null,\"priority\":5,\"is_single\":1,\"waits_for_all\":1,"
                        "\"wanted\":1,\"max_parallel\":1,\"leaves\":0,\"children\":[{\"n\":7}]}");
}

/* The program reads the item, so an evaluator gives the values of all items at once. */
static void a_list_gives_the_params_of_each_child(void **state)
{
    (void)state;
    const struct report *report = await_plan(DEFINITION(EACH ",\"max_parallel\":2,\"wait\":2,\"on_parent_end\":\"leave\"}"),
                                             "{\"list\":[{\"n\":\"a\"},{\"n\":null},{}]}");
    assert_string_equal(report->step.variables,
                        "{\"workflow\":\"c\",\"executor_group\":null,\"priority\":null,\"is_single\":0,\"waits_for_all\":0,"
                        "\"wanted\":2,\"max_parallel\":2,\"leaves\":1,\"children\":[{\"n\":\"a\",\"next\":1},"
                        "{\"n\":null,\"next\":2},{\"n\":null,\"next\":3}]}");
}

static void a_plan_has_the_key_of_each_child(void **state)
{
    (void)state;
    const struct report *report = await_plan(DEFINITION(EACH ",\"key\":\"import-${.item.id}-${.index + 1}\"}"),
                                             "{\"list\":[{\"id\":\"a\"},{\"id\":7}]}");
    assert_string_equal(
        report->step.variables,
        "{\"workflow\":\"c\",\"executor_group\":null,\"priority\":null,\"is_single\":0,\"waits_for_all\":1,"
        "\"wanted\":2,\"max_parallel\":2,\"leaves\":1,\"keys\":[\"import-a-1\",\"import-7-2\"],\"children\":["
        "{\"n\":null,\"next\":1},{\"n\":null,\"next\":2}]}");
}

static void expect_failure(const char *definition, const char *params, const char *code)
{
    engine_fixture_start(&fixture, 1, definition, params);
    const struct report *report = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(report->error_code, code);
}

static void a_list_that_is_none_fails_the_step(void **state)
{
    (void)state;
    expect_failure(DEFINITION(EACH "}"), "{\"list\":7}", "children_invalid");
}

#define KEYED "{\"workflow\":\"c\",\"key\":\"${.input.key}\"}"

static void a_key_that_is_no_good_fails_the_step(void **state)
{
    char params[IDEMPOTENCY_KEY_MAX + 32];
    (void)state;
    expect_failure(DEFINITION(KEYED), "{\"key\":\"\"}", "children_invalid");
    (void)snprintf(params, sizeof params, "{\"key\":\"%0*d\"}", IDEMPOTENCY_KEY_MAX + 1, 0);
    engine_fixture_close(&fixture);
    engine_fixture_open(&fixture, NULL);
    expect_failure(DEFINITION(KEYED), params, "children_invalid");
    engine_fixture_close(&fixture);
    engine_fixture_open(&fixture, NULL);
    expect_failure(DEFINITION(KEYED), "{}", "expression_error");
}

static void params_that_are_no_object_fail_the_step(void **state)
{
    (void)state;
    expect_failure(DEFINITION("{\"workflow\":\"c\",\"params\":\"${.input.n}\"}"), "{\"n\":7}", "children_invalid");
}

static void a_program_with_several_values_fails_the_step(void **state)
{
    (void)state;
    expect_failure(
        DEFINITION("{\"workflow\":\"c\",\"for_each\":\"${.input.list}\",\"params\":{\"n\":\"${.item, .index}\"}}"),
        "{\"list\":[1]}", "expression_error");
}

static void more_children_than_a_step_may_have_fail_it(void **state)
{
    (void)state;
    expect_failure(DEFINITION("{\"workflow\":\"c\",\"for_each\":\"${[range(10001)]}\"}"), "{}", "children_too_many");
}

static void a_list_without_items_completes_at_once(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, DEFINITION(EACH "}"), "{\"list\":[]}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "[]");
}

/* Parked at once, for nothing but the signal. */
static void an_execution_that_waits_for_children_is_parked(void **state)
{
    (void)state;
    (void)await_plan(DEFINITION("\"c\""), "{}");
    const struct report *parked = engine_fixture_expect(&fixture, REPORT_PARKED, 1, NULL, -1, 1);
    assert_int_equal(parked->waiting_for, WAIT_CHILD);
    assert_true(parked->delay_us == TIME_NEVER);
}

/* The wait is on record from an earlier claim, and the claim brings the signal. */
static void restart(const char *definition, const char *data, int64_t due_in_us)
{
    struct step_record step = {.step = "go",
                               .state = STEP_WAITING,
                               .attempt = 1,
                               .exit_code = -1,
                               .due_in_us = due_in_us,
                               .signal = "children:go"};
    struct signal_record signal = {.seq = 4, .name = "children:go", .data = data, .data_length = strlen(data)};
    struct engine_start start = engine_fixture_start_of(1, definition, "{}");
    start.steps = &step;
    start.step_count = 1;
    start.signals = &signal;
    start.signal_count = data[0] == '\0' ? 0 : 1;
    start.signals_seen = 4;
    engine_fixture_start_with(&fixture, &start);
}

static void the_signal_of_the_store_has_the_output(void **state)
{
    (void)state;
    restart(DEFINITION("\"c\""), "{\"output\":{\"id\":\"x\",\"status\":\"COMPLETED\",\"output\":[1,2]}}", HOUR_US);
    const struct report *report = await_step(STEP_COMPLETED);
    assert_int_equal(report->step.signal_seq, 4);
    assert_string_equal(report->step.output, "{\"id\":\"x\",\"status\":\"COMPLETED\",\"output\":[1,2]}");
}

/* A number that is written anew may be longer than it was, and then the output would be too large. */
static void an_output_keeps_the_text_of_the_store(void **state)
{
    (void)state;
    struct text data = {.max = 1024 * 1024};
    assert_int_equal(text_add_string(&data, "{\"output\":[0"), WEIR_OK);
    for (int i = 0; i < 200000; i++) {
        assert_int_equal(text_add_string(&data, ",1e9"), WEIR_OK);
    }
    assert_int_equal(text_add_string(&data, "]}"), WEIR_OK);
    restart(DEFINITION("\"c\""), data.data, HOUR_US);
    const struct report *report = await_step(STEP_COMPLETED);
    assert_int_equal(strlen(report->step.output), data.length - strlen("{\"output\":}"));
    assert_memory_equal(report->step.output, "[0,1e9,", 7);
    text_close(&data);
}

/* The number fits neither 64 bits nor a double, so reading it would fail the step. */
static void an_output_for_no_other_step_is_not_read(void **state)
{
    (void)state;
    restart(DEFINITION("\"c\""), "{\"output\":[1e999]}", HOUR_US);
    assert_string_equal(await_step(STEP_COMPLETED)->step.output, "[1e999]");
}

/* An output may have 64 levels, and in the list of children it lies two levels deeper. */
static void outputs_that_are_too_deep_for_a_list_are_left_out(void **state)
{
    (void)state;
    struct text data = {.max = 1024};
    assert_int_equal(text_add_string(&data, "{\"output\":[{\"id\":\"x\",\"status\":\"COMPLETED\",\"output\":"), WEIR_OK);
    for (int i = 0; i < 2 * JSON_DEPTH_MAX; i++) {
        assert_int_equal(text_add_string(&data, i < JSON_DEPTH_MAX ? "[" : "]"), WEIR_OK);
    }
    assert_int_equal(text_add_string(&data, "}]}"), WEIR_OK);
    restart(DEFINITION("\"c\""), data.data, HOUR_US);
    assert_string_equal(await_step(STEP_COMPLETED)->step.output, "[{\"id\":\"x\",\"status\":\"COMPLETED\"}]");
    text_close(&data);
}

static void data_of_the_store_that_is_no_json_fails_the_step(void **state)
{
    (void)state;
    restart(DEFINITION("\"c\""), "{\"output\":[", HOUR_US);
    assert_string_equal(await_step(STEP_FAILED)->step.error_code, "children_invalid");
}

/* The store reads the plan of each tenant, so a plan has the bounds of an input. */
static void params_with_too_many_values_fail_the_step(void **state)
{
#define MANY "${[range(6500) | []]}"
    (void)state;
    expect_failure(DEFINITION("{\"workflow\":\"c\",\"for_each\":\"${[range(50)]}\",\"params\":{\"a\":\"" MANY
                              "\",\"b\":\"" MANY "\",\"c\":\"" MANY "\"}}"),
                   "{}", "children_too_large");
#undef MANY
}

static void params_larger_than_an_input_fail_the_step(void **state)
{
    (void)state;
    expect_failure(
        DEFINITION("{\"workflow\":\"c\",\"params\":{\"a\":\"${\\\"x\\\" * 600000}\",\"b\":\"${\\\"x\\\" * 600000}\"}}"),
        "{}", "children_too_large");
}

static void the_signal_of_the_store_may_fail_the_step(void **state)
{
    (void)state;
    restart(DEFINITION("\"c\""), "{\"code\":\"child_failed\",\"error\":\"child x is FAILED\"}", HOUR_US);
    const struct report *report = await_step(STEP_FAILED);
    assert_int_equal(report->step.signal_seq, 4);
    assert_string_equal(report->step.error_code, "child_failed");
    assert_string_equal(report->step.error, "child x is FAILED");
}

static void the_timeout_of_the_step_ends_the_wait(void **state)
{
    (void)state;
    restart("{\"name\":\"t\",\"steps\":{\"go\":{\"timeout\":\"1h\",\"start\":\"c\"}}}", "", 0);
    assert_string_equal(await_step(STEP_FAILED)->step.error_code, "children_timeout");
}

#define CHILDREN_TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHILDREN_TEST(a_plan_names_workflow_and_params),
        CHILDREN_TEST(a_list_gives_the_params_of_each_child),
        CHILDREN_TEST(a_plan_has_the_key_of_each_child),
        CHILDREN_TEST(a_key_that_is_no_good_fails_the_step),
        CHILDREN_TEST(a_list_that_is_none_fails_the_step),
        CHILDREN_TEST(params_that_are_no_object_fail_the_step),
        CHILDREN_TEST(a_program_with_several_values_fails_the_step),
        CHILDREN_TEST(more_children_than_a_step_may_have_fail_it),
        CHILDREN_TEST(a_list_without_items_completes_at_once),
        CHILDREN_TEST(an_execution_that_waits_for_children_is_parked),
        CHILDREN_TEST(the_signal_of_the_store_has_the_output),
        CHILDREN_TEST(the_signal_of_the_store_may_fail_the_step),
        CHILDREN_TEST(an_output_keeps_the_text_of_the_store),
        CHILDREN_TEST(an_output_for_no_other_step_is_not_read),
        CHILDREN_TEST(outputs_that_are_too_deep_for_a_list_are_left_out),
        CHILDREN_TEST(data_of_the_store_that_is_no_json_fails_the_step),
        CHILDREN_TEST(params_with_too_many_values_fail_the_step),
        CHILDREN_TEST(params_larger_than_an_input_fail_the_step),
        CHILDREN_TEST(the_timeout_of_the_step_ends_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
