/* Secrets and variables of the node on their way into steps, and what comes back of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/engine_fixture.h"
#include "support/test.h"
#include "weir/handler.h"

#define VALUE "s3cret-\"value\""

static struct engine_fixture folder; /* of the secrets */
static struct engine_fixture fixture;

static void write_secret(const char *name, const char *value)
{
    char path[256];
    char fresh[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder.directory, name);
    (void)snprintf(fresh, sizeof fresh, "%s/.fresh", folder.directory);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    (void)fprintf(file, "%s\n", value);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

/* {"value": ..., "key": ...} by way of JSON, and the same values in errors. */
static void answers(struct weir_call *call, void *context)
{
    char output[512];
    (void)context;
    const char *key = weir_call_secret(call, "key");
    const char *pin = weir_call_secret(call, "pin");
    assert_null(weir_call_secret(call, "other"));
    assert_null(weir_call_secret(call, NULL));
    if (key == NULL) {
        weir_done(call, "\"no secrets\"");
    } else if (strcmp(weir_call_step(call), "done") == 0) {
        assert_string_equal(key, VALUE);
        weir_done(call, "{\"said\":\"s3cret-\\\"value\\\"!\",\"escaped\":\"s3cret-\\u0022value\\u0022\"}");
    } else if (strcmp(weir_call_step(call), "number") == 0) {
        (void)snprintf(output, sizeof output, "{\"pin\":%s}", pin);
        weir_done(call, output);
    } else {
        (void)snprintf(output, sizeof output, "bad key %s", key);
        weir_call_progress(call, 0.5, output);
        weir_fail(call, pin, output);
    }
}

static const struct weir_handler handlers[] = {{.name = "answers", .function = answers}};

static int open_engine(void **state)
{
    static const char *const env_from[] = {"WANTED", "UNSET", NULL};
    (void)state;
    assert_int_equal(setenv("WANTED", "for steps", 1), 0);
    assert_int_equal(setenv("UNWANTED", "for the node", 1), 0);
    engine_fixture_make_directory(&folder);
    assert_int_equal(setenv("TMPDIR", folder.directory, 1), 0);
    struct in_process_options options = {.allow_exec = true,
                                         .handlers = handlers,
                                         .handler_count = 1,
                                         .env_from_list = env_from,
                                         .secrets_directory = folder.directory};
    engine_fixture_open(&fixture, &options);
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0); /* a host may change its environment: the engine has a copy */
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    engine_fixture_close(&folder);
    return 0;
}

static const char *definition_params(void)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "{\"folder\":\"%s\"}", folder.directory);
    return text;
}

static const char *definition_of(const char *steps)
{
    static char text[1024];
    (void)snprintf(text, sizeof text, "{\"name\":\"t\",\"steps\":{%s}}", steps);
    return text;
}

/* The program compares its variable with the file; the file's name is an input. */
static void an_exec_step_has_the_secret_in_its_environment_and_not_in_argv(void **state)
{
    (void)state;
    write_secret("key", VALUE);
    engine_fixture_start(&fixture, 1,
                         definition_of("\"a\":{\"secrets\":{\"KEY\":\"key\"},\"exec\":[\"sh\",\"-c\","
                                       "\"printf '%s\\\\n' \\\"$KEY\\\" | cmp - $1/key; cat /proc/$$/cmdline | tr "
                                       "'\\\\0' ' '; env | grep -c ^KEY=s3\",\"sh\",\"${.input.folder}\"]}"),
                         definition_params());
    const char *output = engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output;
    assert_null(strstr(output, "s3cret"));
    assert_null(strstr(output, "differ"));
    assert_non_null(strstr(output, " 1\"")); /* env has it once */
}

static void values_in_outputs_and_failures_are_hidden(void **state)
{
    (void)state;
    write_secret("key", VALUE);
    engine_fixture_start(&fixture, 1,
                         definition_of("\"a\":{\"secrets\":{\"KEY\":\"key\"},\"exec\":[\"sh\",\"-c\",\"echo got $KEY\"]}"),
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "\"got ***\"");
    engine_fixture_start(&fixture, 2,
                         definition_of("\"a\":{\"secrets\":{\"KEY\":\"key\"},\"exec\":[\"sh\",\"-c\","
                                       "\"echo no access with $KEY >&2; exit 3\"]}"),
                         "{}");
    const struct report *end = engine_fixture_expect_end(&fixture, 2, END_FAILED);
    assert_string_equal(end->error, "exit code 3: no access with ***");
    assert_string_equal(end->step.error, "exit code 3: no access with ***");
    write_secret("key", "caf\xC3\xA9-key");
    engine_fixture_start(&fixture, 3,
                         definition_of("\"a\":{\"secrets\":{\"KEY\":\"key\"},\"exec\":[\"printf\",\"%s\","
                                       "\"{\\\"k\\\":\\\"caf\\\\u00e9-key\\\"}\"]}"),
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 3, END_COMPLETED)->step.output, "{\"k\":\"***\"}");
}

/* stderr keeps its last 4 KiB: the cut may go through the value. */
static void a_value_that_the_cut_of_stderr_splits_is_hidden(void **state)
{
    (void)state;
    write_secret("key", "0123456789abcdefghijklmnopqrstuvwxyz");
    engine_fixture_start(
        &fixture, 1,
        definition_of("\"a\":{\"secrets\":{\"KEY\":\"key\"},\"exec\":[\"sh\",\"-c\",\"for i in $(seq 600); "
                      "do printf '%s!' $KEY >&2; done; exit 1\"]}"),
        "{}");
    const char *error = engine_fixture_expect_end(&fixture, 1, END_FAILED)->error;
    assert_non_null(strstr(error, "***!***!"));
    assert_null(strstr(error, "wxyz"));
}

static void a_missing_secret_refuses_the_start_and_names_itself_and_the_node(void **state)
{
    (void)state;
    struct engine_start start =
        engine_fixture_start_of(1, definition_of("\"a\":{\"secrets\":[\"key\"],\"handler\":\"answers\"}"), "{}");
    start.node = "node-7";
    engine_fixture_start_with(&fixture, &start);
    const struct report *report = engine_fixture_expect(&fixture, REPORT_REFUSED, 1, NULL, -1, 1);
    assert_string_equal(report->error_code, "secret_missing");
    assert_non_null(strstr(report->error, "node node-7, step a: the secret \"key\" is missing"));
    assert_false(report->permanent);
    assert_false(report->spends_start);
    assert_true(report->delay_us > 0);
    write_secret("key", ""); /* an empty value is no value */
    start.fence = 2;
    engine_fixture_start_with(&fixture, &start);
    report = engine_fixture_expect(&fixture, REPORT_REFUSED, 1, NULL, -1, 2);
    assert_non_null(strstr(report->error, "is empty"));
}

/* A step with `when` may never need its secret. */
static void a_secret_of_a_skipped_step_may_be_missing(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        definition_of("\"a\":{\"when\":\"${.input.wanted}\",\"secrets\":{\"KEY\":\"key\"},\"exec\":[\"true\"]}"),
        "{\"wanted\":false}");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

static void a_step_waits_while_its_secret_is_missing_and_spends_no_attempt(void **state)
{
    (void)state;
    write_secret("key", "before");
    engine_fixture_start(
        &fixture, 1,
        definition_of(
            "\"a\":{\"exec\":[\"rm\",\"${.input.folder}/key\"]},\"b\":{\"needs\":[\"a\"],\"secrets\":{\"KEY\":\"key\"},"
            "\"exec\":[\"sh\",\"-c\",\"test \\\"$KEY\\\" = after\"]},\"c\":{\"needs\":[\"b\"],\"secrets\":[\"key\"],"
            "\"handler\":\"answers\"}"),
        definition_params());
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, 1, "b", STEP_WAITING, 1);
    assert_string_equal(waiting->step.error_code, "secret_missing");
    assert_non_null(strstr(waiting->step.error, "the secret \"key\" is missing"));
    assert_int_equal(waiting->step.failures, 0);
    write_secret("key", "after"); /* also: a changed file counts at the next start */
    write_secret("pin", "12345678");
    const struct report *done = engine_fixture_expect(&fixture, REPORT_STEP, 1, "b", STEP_COMPLETED, 1);
    assert_int_equal(done->step.failures, 0);
    (void)engine_fixture_expect_end(&fixture, 1, END_FAILED); /* c calls weir_fail() */
}

static void a_handler_has_its_secrets_and_its_answers_are_hidden(void **state)
{
    (void)state;
    write_secret("key", VALUE);
    write_secret("pin", "12345678");
    engine_fixture_start(&fixture, 1, definition_of("\"done\":{\"secrets\":[\"key\"],\"handler\":\"answers\"}"), "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output,
                        "{\"said\":\"***!\",\"escaped\":\"***\"}");
    engine_fixture_start(&fixture, 2, definition_of("\"number\":{\"secrets\":[\"key\",\"pin\"],\"handler\":\"answers\"}"),
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_COMPLETED)->step.output, "\"{\\\"pin\\\":***}\"");
    engine_fixture_start(&fixture, 3, definition_of("\"fail\":{\"secrets\":[\"pin\",\"key\"],\"handler\":\"answers\"}"),
                         "{}");
    const struct report *end = engine_fixture_expect_end(&fixture, 3, END_FAILED);
    assert_string_equal(end->error_code, "***");
    assert_string_equal(end->error, "bad key ***");
    assert_string_equal(fixture.recorder.progress, "bad key ***");
    assert_true(fixture.recorder.has_ended_progress);
    engine_fixture_start(&fixture, 4, definition_of("\"plain\":{\"handler\":\"answers\"}"), "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 4, END_COMPLETED)->step.output, "\"no secrets\"");
}

static void env_from_passes_the_variables_that_the_node_allows(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         definition_of("\"a\":{\"env_from\":[\"WANTED\",\"UNSET\"],\"exec\":[\"sh\",\"-c\","
                                       "\"echo $WANTED ${UNSET-unset} ${UNWANTED-unset}\"]}"),
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "\"for steps unset unset\"");
    engine_fixture_start(
        &fixture, 2, definition_of("\"a\":{\"retry\":{\"attempts\":3},\"env_from\":[\"UNWANTED\"],\"exec\":[\"true\"]}"),
        "{}");
    const struct report *end = engine_fixture_expect_end(&fixture, 2, END_FAILED);
    assert_string_equal(end->error_code, "env_not_allowed");
    assert_non_null(strstr(end->error, "exec.env_from of this node does not allow the variable UNWANTED"));
}

static void the_result_file_is_in_the_temporary_directory_of_the_start(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         definition_of("\"a\":{\"exec\":[\"sh\",\"-c\",\"dirname $WEIR_OUTPUT > $WEIR_OUTPUT\"]}"), "{}");
    const char *output = engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output;
    assert_non_null(strstr(output, folder.directory));
}

static void a_result_file_that_cannot_be_made_leaves_its_variable_unset(void **state)
{
    char blocked[256];
    (void)state;
    (void)snprintf(blocked, sizeof blocked, "%s.moved", folder.directory);
    assert_int_equal(rename(folder.directory, blocked), 0);
    engine_fixture_start(
        &fixture, 1, definition_of("\"a\":{\"exec\":[\"sh\",\"-c\",\"echo ${WEIR_OUTPUT-unset} $WEIR_STEP $WEIR_FENCE\"]}"),
        "{}");
    const char *output = engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output;
    assert_int_equal(rename(blocked, folder.directory), 0);
    assert_string_equal(output, "\"unset a 1\"");
}

static void the_result_file_is_empty_and_private(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, definition_of("\"a\":{\"exec\":[\"sh\",\"-c\",\"stat -c '%s %a %F' $WEIR_OUTPUT\"]}"),
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "\"0 600 regular empty file\"");
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(an_exec_step_has_the_secret_in_its_environment_and_not_in_argv),
        CLAIM(values_in_outputs_and_failures_are_hidden),
        CLAIM(a_value_that_the_cut_of_stderr_splits_is_hidden),
        CLAIM(a_missing_secret_refuses_the_start_and_names_itself_and_the_node),
        CLAIM(a_secret_of_a_skipped_step_may_be_missing),
        CLAIM(a_step_waits_while_its_secret_is_missing_and_spends_no_attempt),
        CLAIM(a_handler_has_its_secrets_and_its_answers_are_hidden),
        CLAIM(the_result_file_is_in_the_temporary_directory_of_the_start),
        CLAIM(a_result_file_that_cannot_be_made_leaves_its_variable_unset),
        CLAIM(the_result_file_is_empty_and_private),
        CLAIM(env_from_passes_the_variables_that_the_node_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
