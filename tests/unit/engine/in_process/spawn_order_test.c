/* The order in which processes of recorded attempts start: workspaces take turns by weight, and few are on the way at once.
 * The test drives the engine by steps and reads its memory in between, so no timing decides. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/in_process/execution.h"
#include "engine/in_process/process.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_exec.h"
#include "support/engine_fixture.h"
#include "support/test.h"

enum { NOISY = 1, QUIET = 2, STEPS = 40, ORDER_MOST = 2 * STEPS };

static struct engine_fixture fixture;
static struct engine_fixture folder; /* of the result files */

/* The clock stands still, or is that of the machine. */
static bool is_still;
static int64_t still_us;

static int64_t boot_now(void *context)
{
    (void)context;
    return is_still ? still_us : clock_boot(clock_system());
}

static int64_t wall_now(void *context)
{
    (void)context;
    return clock_wall(clock_system());
}

static const struct clock test_clock = {.boot_us = boot_now, .wall_us = wall_now};

static int open_fixture(void **state)
{
    struct in_process_options options = {.allow_exec = true, .max_parallel_steps = 200, .clock = &test_clock};
    (void)state;
    is_still = false;
    engine_fixture_make_directory(&folder);
    assert_int_equal(setenv("TMPDIR", folder.directory, 1), 0);
    engine_fixture_open_stepped(&fixture, &options);
    fixture.recorder.is_manual = true;
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    engine_fixture_close(&folder);
    return 0;
}

static void start_program(int number, const char *workspace, int weight, int steps, const char *program)
{
    struct text text = {.max = 1000000};
    assert_int_equal(text_add_string(&text, "{\"name\":\"t\",\"steps\":{"), WEIR_OK);
    for (int i = 0; i < steps; i++) {
        assert_int_equal(text_format(&text, "%s\"s%d\":{\"exec\":[%s]}", i > 0 ? "," : "", i, program), WEIR_OK);
    }
    assert_int_equal(text_add_string(&text, "}}"), WEIR_OK);
    struct engine_start started = engine_fixture_start_of(number, text.data, "{}");
    started.workspace = workspace;
    started.weight = weight;
    engine_fixture_start_with(&fixture, &started);
    text_close(&text);
}

static void start(int number, const char *workspace, int weight, int steps)
{
    start_program(number, workspace, weight, steps, "\"true\"");
}

static void take_steps(int count)
{
    for (int i = 0; i < count; i++) {
        (void)engine_step(fixture.engine);
    }
}

/* The store has recorded all starts of this execution that are reported. */
static void answer_starts(int number)
{
    size_t count = recorder_count(&fixture.recorder, REPORT_STEP, engine_fixture_id(number), NULL, STEP_RUNNING);
    for (size_t i = 1; i <= count; i++) {
        recorder_answer(&fixture.recorder,
                        recorder_wait(&fixture.recorder, REPORT_STEP, engine_fixture_id(number), NULL, STEP_RUNNING, i),
                        WEIR_OK);
    }
}

static struct execution *execution_of(int number)
{
    return execution_table_find(&runner_of_engine(fixture.engine)->executions, engine_fixture_id(number));
}

static size_t spawning(int number)
{
    return execution_of(number)->tenant->spawns.held;
}

static void let_all_end(void)
{
    while (atomic_load(&fixture.recorder.ended) < 2) {
        struct pollfd polled = {.fd = engine_fd(fixture.engine), .events = POLLIN};
        (void)engine_step(fixture.engine);
        (void)poll(&polled, 1, 10);
    }
    take_steps(3);
    assert_int_equal(runner_of_engine(fixture.engine)->spawn_places.held, 0);
}

/* Adds the executions of the processes that have started since the last call, in the order of their starts. */
static size_t note_order(uint64_t *last, int *order, size_t count)
{
    uint64_t next = 0;
    do {
        int owner = 0;
        next = UINT64_MAX;
        for (int number = NOISY; number <= QUIET; number++) {
            const struct execution *execution = execution_of(number);
            for (size_t i = 0; execution != NULL && i < execution->step_count; i++) {
                const struct process *process = execution->steps[i].process;
                if (process != NULL && process->ticket > *last && process->ticket < next) {
                    next = process->ticket;
                    owner = number;
                }
            }
        }
        if (owner != 0) {
            assert_true(count < ORDER_MOST);
            order[count++] = owner;
            *last = next;
        }
    } while (next != UINT64_MAX);
    return count;
}

/* Until so many processes have started. */
static void note_starts(int *order, size_t most)
{
    uint64_t last = 0;
    for (size_t count = note_order(&last, order, 0); count < most; count = note_order(&last, order, count)) {
        struct pollfd polled = {.fd = engine_fd(fixture.engine), .events = POLLIN};
        (void)poll(&polled, 1, 10);
        (void)engine_step(fixture.engine);
    }
}

/* The keeper stands still first, so no process gets to its exec. */
static void a_start_behind_many_recorded_ones_of_another_workspace_goes_next(void **state)
{
    (void)state;
    int order[ORDER_MOST] = {0};
    size_t most = step_exec_spawns_most();
    start(NOISY, "noisy", 1, STEPS);
    start(QUIET, "quiet", 1, 1);
    take_steps(5);
    pid_t keeper = (pid_t)engine_keeper_pid(fixture.engine);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    answer_starts(NOISY);
    take_steps(3);
    answer_starts(QUIET);
    take_steps(3);
    assert_int_equal(spawning(NOISY), most);
    assert_int_equal(execution_of(QUIET)->steps[0].phase, PHASE_QUEUED);
    fixture.recorder.is_manual = false;
    assert_int_equal(kill(keeper, SIGCONT), 0);
    note_starts(order, STEP_STARTS_MOST + 1);
    for (size_t i = 0; i <= STEP_STARTS_MOST; i++) {
        assert_int_equal(order[i], i == most ? QUIET : NOISY);
    }
    let_all_end();
}

static void recorded_starts_follow_the_weights(void **state)
{
    (void)state;
    int order[ORDER_MOST] = {0};
    start(NOISY, "noisy", 1, STEP_STARTS_MOST);
    start(QUIET, "quiet", 3, STEP_STARTS_MOST);
    take_steps(5);
    answer_starts(NOISY);
    answer_starts(QUIET);
    fixture.recorder.is_manual = false;
    note_starts(order, 2 * STEP_STARTS_MOST);
    size_t of_quiet = 0;
    for (size_t i = 0; i < STEP_STARTS_MOST; i++) {
        of_quiet += order[i] == QUIET;
    }
    assert_in_range(of_quiet, STEP_STARTS_MOST * 3 / 4 - 2, STEP_STARTS_MOST * 3 / 4 + 2);
    let_all_end();
}

/* Steps of the engine until so many programs have begun, and some more. */
static void await_begun(const struct tenant *tenant, size_t running, size_t wanted)
{
    for (int i = 0; i < 1000 && !(tenant->processes.held == running && tenant->processes.starting == running - wanted);
         i++) {
        struct pollfd polled = {.fd = engine_fd(fixture.engine), .events = POLLIN};
        (void)poll(&polled, 1, 10);
        (void)engine_step(fixture.engine);
    }
    for (int i = 0; i < 10; i++) {
        struct pollfd polled = {.fd = engine_fd(fixture.engine), .events = POLLIN};
        (void)poll(&polled, 1, 5);
        (void)engine_step(fixture.engine);
    }
    assert_int_equal(tenant->processes.held, running);
    assert_int_equal(tenant->processes.starting, running - wanted);
}

static void a_program_that_has_just_begun_counts_as_a_start(void **state)
{
    (void)state;
    size_t most = step_exec_spawns_most();
    start_program(NOISY, "noisy", 1, STEP_STARTS_MOST, "\"sleep\",\"300\"");
    take_steps(5);
    still_us = clock_boot(clock_system());
    is_still = true;
    answer_starts(NOISY);
    const struct tenant *tenant = execution_of(NOISY)->tenant;
    await_begun(tenant, STEP_STARTS_MOST, most);
    still_us += STEP_SPAWN_HOLD_US - 1;
    await_begun(tenant, STEP_STARTS_MOST, most);
    assert_int_equal(tenant->spawns.held, most);
    still_us += 1;
    await_begun(tenant, STEP_STARTS_MOST, 2 * most);
    assert_int_equal(tenant->spawns.held, most);
}

static size_t count_result_files(void)
{
    size_t count = 0;
    DIR *directory = opendir(folder.directory);
    assert_non_null(directory);
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        count += strncmp(entry->d_name, "weir-output-", strlen("weir-output-")) == 0;
    }
    assert_int_equal(closedir(directory), 0);
    return count;
}

/* The loop is no place for a file system: 200 files would delay all other steps of the node. */
static void the_process_makes_its_result_file_and_the_loop_makes_none(void **state)
{
    (void)state;
    start_program(NOISY, "noisy", 1, 5, "\"sleep\",\"300\"");
    take_steps(5);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, engine_fixture_id(NOISY), NULL, STEP_RUNNING), 5);
    assert_int_equal(count_result_files(), 0);
    answer_starts(NOISY);
    await_begun(execution_of(NOISY)->tenant, 5, 5);
    for (int i = 0; i < 1000 && count_result_files() < 5; i++) {
        (void)poll(NULL, 0, 10);
    }
    assert_int_equal(count_result_files(), 5);
}

static void a_program_that_has_ended_frees_its_place_at_once(void **state)
{
    (void)state;
    start(NOISY, "noisy", 1, STEP_STARTS_MOST);
    start(QUIET, "quiet", 1, 1);
    take_steps(5);
    still_us = clock_boot(clock_system());
    is_still = true;
    answer_starts(NOISY);
    answer_starts(QUIET);
    fixture.recorder.is_manual = false;
    let_all_end();
    assert_int_equal(count_result_files(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_start_behind_many_recorded_ones_of_another_workspace_goes_next, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(recorded_starts_follow_the_weights, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_program_that_has_just_begun_counts_as_a_start, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(the_process_makes_its_result_file_and_the_loop_makes_none, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(a_program_that_has_ended_frees_its_place_at_once, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
