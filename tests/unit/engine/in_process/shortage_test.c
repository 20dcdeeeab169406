/* The machine is short of resources for a start: steps wait without spending an attempt, and go on after the shortage. */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "engine/in_process/shortage.h"
#include "engine/in_process/step_report.h"
#include "support/engine_fixture.h"
#include "support/test.h"

enum { NO_MORE_FILES = 3 /* those that are open stay so */ };

static const char one_exec[] = "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\",\"echo $WEIR_ATTEMPT\"]}}}";
static const char one_expression[] =
    "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${.input.n | . + 1 | tostring}\"]}}}";

static const char one_start[] = "{\"name\":\"t\",\"steps\":{\"a\":{\"timeout\":\"1h\",\"start\":{\"workflow\":\"t\","
                                "\"params\":{\"n\":\"${.input.n | . + 1 | tostring}\"}}}}}";

static struct engine_fixture fixture;
static struct rlimit enough;

/* Of this process, or of the keeper. */
static void limit_files(pid_t pid, rlim_t count)
{
    struct rlimit limit = {.rlim_cur = count, .rlim_max = enough.rlim_max};
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

static int open_fixture(void **state)
{
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &enough), 0);
    engine_fixture_open(&fixture, NULL);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    limit_files(0, enough.rlim_cur);
    engine_fixture_close(&fixture);
    return 0;
}

static void expect_that_it_waits(int number, const char *what_to_raise)
{
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, number, "a", STEP_WAITING, 1);
    assert_string_equal(waiting->step.error_code, STEP_NODE_SHORT);
    assert_non_null(strstr(waiting->step.error, what_to_raise));
    assert_int_equal(waiting->step.failures, 0);
    assert_true(waiting->step.due_in_us == STEP_SHORTAGE_FIRST_US);
    assert_string_equal(step_record_lost_attempt(&waiting->step), "INTERRUPTED");
}

static void expect_that_it_is_told(const char *what_to_raise)
{
    const struct report *told = recorder_wait(&fixture.recorder, REPORT_SHORTAGE, NULL, NULL, -1, 1);
    assert_non_null(told);
    assert_string_equal(told->error_code, STEP_NODE_SHORT);
    assert_non_null(strstr(told->error, what_to_raise));
}

static void expect_that_it_completes(int number)
{
    const struct report *end = engine_fixture_expect_end(&fixture, number, END_COMPLETED);
    assert_int_equal(end->step.failures, 0);
}

static void a_step_waits_while_its_node_has_no_file_descriptor(void **state)
{
    (void)state;
    limit_files(0, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_exec, "{}");
    expect_that_it_waits(1, "ulimit -n");
    expect_that_it_is_told("ulimit -n");
    (void)engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, 2);
    limit_files(0, enough.rlim_cur);
    expect_that_it_completes(1);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_SHORTAGE, NULL, NULL, -1), 1); /* not once per attempt */
}

static void a_step_waits_while_its_keeper_has_no_file_descriptor(void **state)
{
    (void)state;
    pid_t keeper = (pid_t)engine_keeper_pid(fixture.engine);
    limit_files(keeper, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_exec, "{}");
    expect_that_it_waits(1, "ulimit -n");
    expect_that_it_is_told("ulimit -n");
    limit_files(keeper, enough.rlim_cur);
    expect_that_it_completes(1);
}

/* The first start finds the shortage; the second is not even reported as running. */
static void a_shortage_delays_the_other_starts(void **state)
{
    (void)state;
    int64_t before_us = clock_boot(clock_system());
    limit_files(0, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_exec, "{}");
    expect_that_it_waits(1, "ulimit -n");
    engine_fixture_start(&fixture, 2, one_exec, "{}");
    engine_fixture_await_loop(&fixture);
    size_t told = recorder_count(&fixture.recorder, REPORT_STEP, engine_fixture_id(2), "a", STEP_RUNNING);
    bool is_over = clock_boot(clock_system()) - before_us >= SHORTAGE_US; /* the pause, on a busy machine */
    assert_true(is_over || told == 0);
    limit_files(0, enough.rlim_cur);
    expect_that_it_completes(1);
    expect_that_it_completes(2);
}

static void a_step_that_waits_for_files_can_be_cancelled(void **state)
{
    (void)state;
    limit_files(0, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_exec, "{}");
    expect_that_it_waits(1, "ulimit -n");
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    (void)engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
}

static void an_expression_waits_while_its_node_has_no_file_descriptor(void **state)
{
    (void)state;
    limit_files(0, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_expression, "{\"n\": 4}");
    expect_that_it_is_told("ulimit -n");
    limit_files(0, enough.rlim_cur);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "5\n");
}

static void an_expression_waits_while_its_keeper_has_no_file_descriptor(void **state)
{
    (void)state;
    pid_t keeper = (pid_t)engine_keeper_pid(fixture.engine);
    limit_files(keeper, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_expression, "{\"n\": 4}");
    expect_that_it_is_told("ulimit -n");
    limit_files(keeper, enough.rlim_cur);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "5\n");
}

/* The first report of a wait that brings a plan. Those before it are of the shortage. */
static void expect_a_plan(int number, size_t n)
{
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, number, "a", STEP_WAITING, n);
    while (strcmp(waiting->step.error_code, STEP_NODE_SHORT) == 0) {
        assert_string_equal(waiting->step.signal, "");
        assert_null(waiting->step.variables);
        waiting = engine_fixture_expect(&fixture, REPORT_STEP, number, "a", STEP_WAITING, ++n);
    }
    assert_string_equal(waiting->step.signal, "children:a");
    assert_non_null(strstr(waiting->step.variables, "\"n\":\"5\""));
    assert_int_equal(waiting->step.failures, 0);
}

static void a_start_of_children_waits_while_its_node_has_no_file_descriptor(void **state)
{
    (void)state;
    limit_files(0, NO_MORE_FILES);
    engine_fixture_start(&fixture, 1, one_start, "{\"n\": 4}");
    expect_that_it_is_told("ulimit -n");
    limit_files(0, enough.rlim_cur);
    expect_a_plan(1, 1);
}

/* A node that takes such a wait over plans the children, and does not take its end for that of the timeout. */
static void a_start_that_waited_for_another_node_goes_on(void **state)
{
    (void)state;
    struct step_record record = {
        .step = "a", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = 0, .error_code = STEP_NODE_SHORT};
    struct engine_start start = engine_fixture_start_of(1, one_start, "{\"n\": 4}");
    start.steps = &record;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    expect_a_plan(1, 1);
}

static void each_shortage_names_its_remedy(void **state)
{
    (void)state;
    static const struct {
        int native;
        const char *what;
    } shortages[] = {{EMFILE, "ulimit -n"}, {ENFILE, "fs.file-max"}, {EAGAIN, "pids.max"},
                     {ENOMEM, "memory"},    {ENOBUFS, "memory"},     {ENOSPC, "max_user_watches"}};
    for (size_t i = 0; i < sizeof shortages / sizeof shortages[0]; i++) {
        assert_true(shortage_is_cause(shortages[i].native));
        assert_non_null(strstr(shortage_text(shortages[i].native), shortages[i].what));
    }
    assert_false(shortage_is_cause(ENOENT) || shortage_is_cause(EACCES) || shortage_is_cause(E2BIG));
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(a_step_waits_while_its_node_has_no_file_descriptor),
        CLAIM(a_step_waits_while_its_keeper_has_no_file_descriptor),
        CLAIM(a_shortage_delays_the_other_starts),
        CLAIM(a_step_that_waits_for_files_can_be_cancelled),
        CLAIM(an_expression_waits_while_its_node_has_no_file_descriptor),
        CLAIM(an_expression_waits_while_its_keeper_has_no_file_descriptor),
        CLAIM(a_start_of_children_waits_while_its_node_has_no_file_descriptor),
        CLAIM(a_start_that_waited_for_another_node_goes_on),
        CLAIM(each_shortage_names_its_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
