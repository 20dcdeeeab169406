/* Which programs steps may run, and with which limits of the node. */
#include "base/file_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/engine_fixture.h"
#include "support/test.h"

static struct engine_fixture fixture; /* a directory */

static int make_directory(void **state)
{
    (void)state;
    engine_fixture_make_directory(&fixture);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    return 0;
}

static char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
    return path;
}

static void exec_without_allow_exec_fails_as_exec_not_allowed(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct in_process_options options = {.allow_exec = false};
    engine_fixture_open(&own, &options);
    engine_fixture_start(&own, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 1, END_FAILED)->error_code, "exec_not_allowed");
    engine_fixture_close(&own);
}

static void allow_list_cannot_be_passed_by_the_environment(void **state)
{
    (void)state;
    struct engine_fixture own;
    const char *const list[] = {"true", NULL};
    struct in_process_options options = {.allow_exec = true, .exec_allow_list = list};
    engine_fixture_open(&own, &options);
    engine_fixture_start(&own, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", "{}");
    (void)engine_fixture_expect_end(&own, 1, END_COMPLETED);
    engine_fixture_start(&own, 2, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"/bin/true\"]}}}", "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 2, END_FAILED)->error_code, "exec_not_allowed");
    engine_fixture_start(&own, 3, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"],\"env\":{\"PATH\":\"/tmp\"}}}}",
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 3, END_FAILED)->error_code, "exec_not_allowed");
    engine_fixture_start(&own, 4, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"],\"env\":{\"LD_PRELOAD\":\"x\"}}}}",
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 4, END_FAILED)->error_code, "exec_not_allowed");
    engine_fixture_close(&own);
}

/* The node raises its soft limit for itself; programs that use select() need the one that they had. */
static void step_has_the_file_limit_that_the_node_was_started_with(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct rlimit limit;
    struct rlimit raised;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = 321, .rlim_max = limit.rlim_max};
    assert_true(limit.rlim_max > 321);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    file_limit_raise();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &raised), 0);
    assert_int_equal(raised.rlim_cur, limit.rlim_max);
    assert_int_equal(raised.rlim_max, limit.rlim_max);
    engine_fixture_open(&own, NULL);
    engine_fixture_start(&own, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\",\"ulimit -Sn\"]}}}", "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 1, END_COMPLETED)->step.output, "321\n");
    engine_fixture_close(&own);
    file_limit_restore();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &raised), 0);
    assert_int_equal(raised.rlim_cur, 321);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void write_program(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "#!/bin/bash\n%s\n", text);
    (void)fchmod(fileno(file), 0755);
    assert_int_equal(fclose(file), 0);
}

/* bash reads BASH_ENV before a script. */
static void allow_list_cannot_be_passed_by_files_that_an_allowed_script_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"BASH_ENV", "PERL5OPT", "PYTHONSTARTUP", "SHELLOPTS", "GIT_SSH_COMMAND"};
    struct engine_fixture own;
    char definition[512];
    char program[128];
    write_program(path_of("job"), "true");
    write_program(path_of("evil"), "touch $0.ran $BASH_ENV.ran");
    (void)snprintf(program, sizeof program, "%s/job", fixture.directory);
    const char *const list[] = {program, NULL};
    struct in_process_options options = {.allow_exec = true, .exec_allow_list = list};
    engine_fixture_open(&own, &options);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(definition, sizeof definition,
                       "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"%s\"],\"env\":{\"%s\":\"%s/evil\"}}}}", program,
                       names[i], fixture.directory);
        engine_fixture_start(&own, i + 1, definition, "{}");
        assert_string_equal(engine_fixture_expect_end(&own, i + 1, END_FAILED)->error_code, "exec_not_allowed");
    }
    assert_int_equal(access(path_of("evil.ran"), F_OK), -1);
    engine_fixture_close(&own);
}

/* Neither by an entry with a relative path nor by a relative part of PATH. */
static void allow_list_cannot_be_passed_by_the_directory_of_a_step(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct engine *engine = NULL;
    struct weir_error error;
    char definition[256];
    const char *const relative[] = {"true", "bin/job", NULL};
    struct in_process_options options = {.allow_exec = true, .exec_allow_list = relative};
    assert_int_equal(in_process_open(&options, &engine, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "bin/job"));
    write_program(path_of("weir-test-job"), "true");
    char *before = strdup(getenv("PATH"));
    char path[4096];
    (void)snprintf(path, sizeof path, ".::bin:%s:", before);
    assert_int_equal(setenv("PATH", path, 1), 0);
    const char *const named[] = {"weir-test-job", "sh", NULL};
    options.exec_allow_list = named;
    engine_fixture_open(&own, &options);
    (void)snprintf(definition, sizeof definition,
                   "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"weir-test-job\"],\"cwd\":\"%s\"}}}", fixture.directory);
    engine_fixture_start(&own, 1, definition, "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 1, END_FAILED)->error_code, "exec_not_found");
    engine_fixture_start(&own, 2, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\",\"echo $PATH\"]}}}", "{}");
    const struct report *end = engine_fixture_expect_end(&own, 2, END_COMPLETED);
    assert_int_equal(strncmp(end->step.output + 1, before, strlen(before)), 0);
    assert_string_equal(end->step.output + 1 + strlen(before), "\"");
    engine_fixture_close(&own);
    assert_int_equal(setenv("PATH", ".:", 1), 0); /* nothing is left of it */
    engine_fixture_open(&own, &options);
    engine_fixture_start(&own, 1, definition, "{}");
    assert_string_equal(engine_fixture_expect_end(&own, 1, END_FAILED)->error_code, "exec_not_found");
    engine_fixture_close(&own);
    assert_int_equal(setenv("PATH", before, 1), 0);
    free(before);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(exec_without_allow_exec_fails_as_exec_not_allowed),
        CLAIM(allow_list_cannot_be_passed_by_the_environment),
        CLAIM(allow_list_cannot_be_passed_by_files_that_an_allowed_script_reads),
        CLAIM(allow_list_cannot_be_passed_by_the_directory_of_a_step),
        CLAIM(step_has_the_file_limit_that_the_node_was_started_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
