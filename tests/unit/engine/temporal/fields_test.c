/* The fields of a start, evaluated over the params: the value of each field, and the values that fit no field. */
#include "support/test.h"

#include "engine/temporal/fields.h"

#define ID "019aa000-0000-7000-8000-000000000001"

struct scene {
    struct definition *definition;
    struct start_fields fields;
    const char *code;
    struct weir_error error;
};

static enum weir_status evaluate_traced(struct scene *scene, const char *temporal, const char *params, const json_t *types,
                                        const char *traceparent)
{
    char text[2000];
    struct engine_start start = {.id = ID,
                                 .workspace = "acme",
                                 .workflow = "order",
                                 .version = 3,
                                 .params = params,
                                 .traceparent = traceparent,
                                 .params_length = strlen(params)};
    *scene = (struct scene){.code = NULL};
    (void)snprintf(text, sizeof text, "{\"name\":\"order\",\"temporal\":{%s}}", temporal);
    if (definition_load(text, strlen(text), "definition", &scene->definition, &scene->error) != WEIR_OK) {
        fail_msg("%s", scene->error.message);
    }
    return fields_evaluate(scene->definition, &start, "node-queue", types, &scene->fields, &scene->code, &scene->error);
}

static enum weir_status evaluate(struct scene *scene, const char *temporal, const char *params, const json_t *types)
{
    return evaluate_traced(scene, temporal, params, types, NULL);
}

static void close_scene(struct scene *scene)
{
    fields_close(&scene->fields);
    definition_close(scene->definition);
}

static void expect_json(json_t *value, const char *text)
{
    char *got = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(got);
    assert_string_equal(got, text);
    free(got);
}

static void every_field_may_be_an_expression(void **state)
{
    struct scene scene;
    (void)state;
    assert_int_equal(
        evaluate(
            &scene,
            "\"workflow_id\":\"order-${.input.order}-of-${.execution.workspace}\",\"task_queue\":\"q-${.input.region}\","
            "\"args\":[\"${.input.order}\",\"${.input.lines}\",{\"v\":\"${.execution.version}\"}],"
            "\"execution_timeout\":\"${.input.limit}\",\"run_timeout\":\"${.input.minutes}m\",\"task_timeout\":\"5s\","
            "\"start_delay\":\"${.input.delay}\",\"priority\":\"${.input.priority}\","
            "\"memo\":{\"note\":\"for ${.input.customer}\",\"lines\":\"${.input.lines}\"},"
            "\"search_attributes\":{\"Customer\":\"${.input.customer}\"},"
            "\"headers\":{\"_tracer-data\":{\"traceparent\":\"${.input.trace}\"}}",
            "{\"trace\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\",\"order\":17,\"region\":\"eu\","
            "\"lines\":[1,{\"a\":2}],\"limit\":\"2h\",\"minutes\":30,\"delay\":\"10s\","
            "\"priority\":2,\"customer\":\"Ann\"}",
            NULL),
        WEIR_OK);
    assert_string_equal(scene.fields.workflow_id, "order-17-of-acme");
    assert_string_equal(scene.fields.task_queue, "q-eu");
    expect_json(scene.fields.arguments, "[17,[1,{\"a\":2}],{\"v\":3}]");
    assert_int_equal(scene.fields.execution_timeout_us, 7200 * MICROSECONDS_PER_SECOND);
    assert_int_equal(scene.fields.run_timeout_us, 1800 * MICROSECONDS_PER_SECOND);
    assert_int_equal(scene.fields.task_timeout_us, 5 * MICROSECONDS_PER_SECOND);
    assert_int_equal(scene.fields.start_delay_us, 10 * MICROSECONDS_PER_SECOND);
    assert_int_equal(scene.fields.priority_key, 2);
    expect_json(scene.fields.memo, "{\"note\":\"for Ann\",\"lines\":[1,{\"a\":2}]}");
    expect_json(scene.fields.attributes, "{\"Customer\":\"Ann\"}");
    expect_json(scene.fields.headers,
                "{\"_tracer-data\":{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}}");
    close_scene(&scene);
}

static void an_expression_without_a_value_leaves_its_field_out(void **state)
{
    struct scene scene;
    (void)state;
    assert_int_equal(evaluate(&scene,
                              "\"task_queue\":\"${.input.queue}\",\"run_timeout\":\"${.input.limit}\","
                              "\"start_delay\":\"${.input.delay}\",\"priority\":\"${.input.priority}\","
                              "\"search_attributes\":{\"Customer\":\"${.input.customer}\",\"Kind\":\"x\"},"
                              "\"headers\":{\"_tracer-data\":\"${.input.trace}\",\"kind\":\"x\"}",
                              "{}", NULL),
                     WEIR_OK);
    assert_string_equal(scene.fields.workflow_id, "execution-" ID);
    assert_string_equal(scene.fields.task_queue, "node-queue");
    assert_int_equal(scene.fields.run_timeout_us, 0);
    assert_int_equal(scene.fields.start_delay_us, 0);
    assert_int_equal(scene.fields.priority_key, 0);
    expect_json(scene.fields.attributes, "{\"Kind\":\"x\"}");
    expect_json(scene.fields.headers, "{\"kind\":\"x\"}");
    close_scene(&scene);
}

static void a_definition_without_expressions_reads_no_params(void **state)
{
    struct scene scene;
    (void)state;
    assert_int_equal(evaluate(&scene, "\"task_queue\":\"q\",\"memo\":{\"a\":1}", "{oops", NULL), WEIR_OK);
    expect_json(scene.fields.memo, "{\"a\":1}");
    close_scene(&scene);
}

static void values_that_do_not_fit_are_named_with_their_field(void **state)
{
    static const struct {
        const char *temporal;
        const char *params;
        const char *code;
        const char *words;
    } rows[] = {
        {"\"run_timeout\":\"${.input.x}\"", "{\"x\":\"soon\"}", FIELD_INVALID, "run_timeout must be a duration"},
        {"\"run_timeout\":\"${.input.x}\"", "{\"x\":7}", FIELD_INVALID, "not '7'"},
        {"\"start_delay\":\"${.input.x}\"", "{\"x\":\"4000d\"}", FIELD_INVALID, "at most ten years"},
        {"\"priority\":\"${.input.x}\"", "{\"x\":6}", FIELD_INVALID, "priority must be an integer from 1 to 5, not '6'"},
        {"\"priority\":\"${.input.x}\"", "{\"x\":\"high\"}", FIELD_INVALID, "not 'high'"},
        {"\"task_queue\":\"${.input.x}\"", "{\"x\":[1]}", FIELD_INVALID, "task_queue must be text"},
        {"\"task_queue\":\"${.input.x}\"", "{\"x\":\"\"}", FIELD_INVALID, "task_queue is empty"},
        {"\"task_queue\":\"q-${.input.x}\"", "{}", EXPRESSION_ERROR_CODE, "task_queue: ${.input.x}: there is no value"},
        {"\"memo\":{\"a\":\"${.input.x.y}\"}", "{\"x\":7}", EXPRESSION_ERROR_CODE, "memo: ${.input.x.y}"},
        {"\"search_attributes\":{\"A\":\"${.input.x}\"}", "{\"x\":{\"y\":1}}", FIELD_INVALID,
         "the search attribute A does not take a value of the type object"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        assert_int_equal(evaluate(&scene, rows[i].temporal, rows[i].params, NULL), WEIR_FAILED);
        assert_string_equal(scene.code, rows[i].code);
        if (strstr(scene.error.message, rows[i].words) == NULL) {
            fail_msg("%s", scene.error.message);
        }
        close_scene(&scene);
    }
}

static void attributes_take_the_type_that_the_namespace_has(void **state)
{
    static const struct {
        enum attribute_type type;
        const char *value;
        const char *fitted; /* NULL: refused */
    } rows[] = {
        {ATTRIBUTE_KEYWORD, "17", "\"17\""},
        {ATTRIBUTE_KEYWORD, "0.1", "\"0.1\""},
        {ATTRIBUTE_TEXT, "true", "\"true\""},
        {ATTRIBUTE_INT, "\"17\"", "17"},
        {ATTRIBUTE_INT, "\"17x\"", NULL},
        {ATTRIBUTE_INT, "1.5", NULL},
        {ATTRIBUTE_DOUBLE, "\"1.5\"", "1.5"},
        {ATTRIBUTE_DOUBLE, "true", NULL},
        {ATTRIBUTE_BOOL, "\"true\"", "true"},
        {ATTRIBUTE_BOOL, "false", "false"},
        {ATTRIBUTE_BOOL, "1", NULL},
        {ATTRIBUTE_DATETIME, "\"2026-11-21T10:00:00Z\"", "\"2026-11-21T10:00:00Z\""},
        {ATTRIBUTE_DATETIME, "\"now\"", NULL},
        {ATTRIBUTE_DATETIME, "17", NULL},
        {ATTRIBUTE_KEYWORD_LIST, "[\"a\",2]", "[\"a\",\"2\"]"},
        {ATTRIBUTE_KEYWORD_LIST, "\"a\"", "[\"a\"]"},
        {ATTRIBUTE_KEYWORD_LIST, "[[1]]", NULL},
        {ATTRIBUTE_KEYWORD, "[\"a\"]", NULL},
        {ATTRIBUTE_UNKNOWN, "17", "17"},
        {ATTRIBUTE_UNKNOWN, "[\"a\"]", "[\"a\"]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        char params[100];
        char expected[100];
        json_t *types = json_pack("{s:i}", "A", (int)rows[i].type);
        (void)snprintf(params, sizeof params, "{\"x\":%s}", rows[i].value);
        (void)snprintf(expected, sizeof expected, "{\"A\":%s}", rows[i].fitted == NULL ? "" : rows[i].fitted);
        enum weir_status status = evaluate(&scene, "\"search_attributes\":{\"A\":\"${.input.x}\"}", params, types);
        if (status != (rows[i].fitted == NULL ? WEIR_FAILED : WEIR_OK)) {
            fail_msg("%s as %s: %s", rows[i].value, attribute_type_name(rows[i].type), scene.error.message);
        }
        if (rows[i].fitted != NULL) {
            expect_json(scene.fields.attributes, expected);
        }
        json_decref(types);
        close_scene(&scene);
    }
}

/* A header that the definition names goes before the context of the request. */
static void a_start_carries_the_trace_context(void **state)
{
    static const char caller[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    struct scene scene;
    (void)state;
    assert_int_equal(evaluate_traced(&scene, "\"task_queue\":\"q\"", "{}", NULL, caller), WEIR_OK);
    expect_json(scene.fields.headers,
                "{\"_tracer-data\":{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}}");
    close_scene(&scene);
    assert_int_equal(evaluate_traced(&scene, "\"headers\":{\"kind\":\"x\",\"_tracer-data\":{\"traceparent\":\"mine\"}}",
                                     "{}", NULL, caller),
                     WEIR_OK);
    expect_json(scene.fields.headers, "{\"kind\":\"x\",\"_tracer-data\":{\"traceparent\":\"mine\"}}");
    close_scene(&scene);
    assert_int_equal(evaluate_traced(&scene, "\"task_queue\":\"q\"", "{}", NULL, NULL), WEIR_OK);
    assert_null(scene.fields.headers);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_may_be_an_expression),
        cmocka_unit_test(an_expression_without_a_value_leaves_its_field_out),
        cmocka_unit_test(a_definition_without_expressions_reads_no_params),
        cmocka_unit_test(values_that_do_not_fit_are_named_with_their_field),
        cmocka_unit_test(attributes_take_the_type_that_the_namespace_has),
        cmocka_unit_test(a_start_carries_the_trace_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
