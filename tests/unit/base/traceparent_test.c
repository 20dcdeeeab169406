#include "base/traceparent.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "support/test.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define EXECUTION "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"

static void a_context_of_version_00_is_read_and_written_alike(void **state)
{
    (void)state;
    struct trace_context context;
    char text[TRACEPARENT_SIZE];
    assert_true(traceparent_parse("00-" TRACE "-" SPAN "-01", &context));
    assert_string_equal(context.trace_id, TRACE);
    assert_string_equal(context.span_id, SPAN);
    assert_true(context.sampled);
    traceparent_write(&context, text);
    assert_string_equal(text, "00-" TRACE "-" SPAN "-01");
    assert_true(traceparent_parse("00-" TRACE "-" SPAN "-02", &context));
    assert_false(context.sampled); /* only the lowest bit counts */
    assert_true(traceparent_parse("00-" TRACE "-" SPAN "-0b", &context));
    assert_true(context.sampled);
}

static void any_other_text_is_refused_with_an_example(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "x",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-01-x",
        "00-" TRACE "-" SPAN "-0g",
        "01-" TRACE "-" SPAN "-01",
        "ff-" TRACE "-" SPAN "-01",
        "00-4BF92f3577b34da6a3ce929d0e0e4736-" SPAN "-01",
        "00-" TRACE "-00F067aa0ba902b7-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
    };
    struct trace_context context = {.trace_id = "unchanged"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_error error = {.status = WEIR_OK};
        if (traceparent_parse(wrong[i], &context)) {
            fail_msg("accepted: %s", wrong[i]);
        }
        assert_int_equal(traceparent_check(wrong[i], &error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "is no traceparent of version 00"));
        assert_non_null(strstr(error.hint, "00-" TRACE));
    }
    assert_string_equal(context.trace_id, "unchanged");
}

static void a_refusal_shows_the_beginning_without_control_characters(void **state)
{
    (void)state;
    char text[300];
    struct weir_error error = {.status = WEIR_OK};
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[1] = '\033';
    assert_int_equal(traceparent_check(text, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "\"a?aaa"));
    assert_non_null(strstr(error.message, "...\""));
    assert_true(strlen(error.message) < 150);
}

static void an_execution_takes_the_context_of_its_caller(void **state)
{
    (void)state;
    struct trace_context context;
    traceparent_of_execution(EXECUTION, "00-" TRACE "-" SPAN "-00", 1.0, &context);
    assert_string_equal(context.trace_id, TRACE);
    assert_string_equal(context.span_id, SPAN);
    assert_false(context.sampled); /* the caller decides, not the ratio */
}

static void an_execution_without_a_context_has_its_id_as_the_trace(void **state)
{
    (void)state;
    struct trace_context context;
    traceparent_of_execution(EXECUTION, NULL, 1.0, &context);
    assert_string_equal(context.trace_id, "01939b7e7a5c7c3e8b3a2f1d4c5b6a79");
    assert_string_equal(context.span_id, "");
    assert_true(context.sampled);
    traceparent_of_execution(EXECUTION, NULL, 0.0, &context);
    assert_false(context.sampled);
}

/* By the last 52 bits of the id: the ids of one moment differ there alone. */
static void the_ratio_decides_by_the_id_and_each_node_alike(void **state)
{
    (void)state;
    int sampled = 0;
    for (unsigned i = 0; i < 256; i++) {
        char id[64];
        struct trace_context first;
        struct trace_context second;
        (void)snprintf(id, sizeof id, "01939b7e-7a5c-7c3e-8b3%x-%x2f100000000", i / 16, i % 16);
        traceparent_of_execution(id, NULL, 0.25, &first);
        traceparent_of_execution(id, NULL, 0.25, &second);
        assert_int_equal(first.sampled, second.sampled);
        sampled += first.sampled;
    }
    assert_true(sampled == 64);
}

static void ids_of_spans_are_the_same_on_each_node_and_differ_by_place(void **state)
{
    (void)state;
    char ids[5][SPAN_ID_LENGTH + 1];
    char again[SPAN_ID_LENGTH + 1];
    span_id_of_step(EXECUTION, "greet", 1, ids[0]);
    span_id_of_step(EXECUTION, "greet", 2, ids[1]);
    span_id_of_step(EXECUTION, "greet/1", 1, ids[2]);
    span_id_make(EXECUTION, "execution/1", ids[3]);
    span_id_of_step("01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a7a", "greet", 1, ids[4]);
    span_id_of_step(EXECUTION, "greet", 1, again);
    assert_string_equal(ids[0], again);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(strlen(ids[i]), SPAN_ID_LENGTH);
        assert_int_equal(strspn(ids[i], "0123456789abcdef"), SPAN_ID_LENGTH);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(ids[i], ids[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_of_version_00_is_read_and_written_alike),
        cmocka_unit_test(any_other_text_is_refused_with_an_example),
        cmocka_unit_test(a_refusal_shows_the_beginning_without_control_characters),
        cmocka_unit_test(an_execution_takes_the_context_of_its_caller),
        cmocka_unit_test(an_execution_without_a_context_has_its_id_as_the_trace),
        cmocka_unit_test(the_ratio_decides_by_the_id_and_each_node_alike),
        cmocka_unit_test(ids_of_spans_are_the_same_on_each_node_and_differ_by_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
