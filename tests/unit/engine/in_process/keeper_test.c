/* Hostile processes, dead nodes, lost leases, a killed keeper: the abilities of a step, and that none of its processes
 * survives. */
#include "engine/in_process/keeper.h"

#include "engine/in_process/keeper_client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/traceparent.h"
#include "queue/suspicion.h"
#include "support/engine_fixture.h"
#include "support/test.h"

static struct engine_fixture fixture;

static int open_fixture(void **state)
{
    (void)state;
    engine_fixture_open(&fixture, NULL);
    return 0;
}

/* For tests with the engine in a process of its own: the test forks it while it has one thread. */
static int make_directory(void **state)
{
    (void)state;
    engine_fixture_make_directory(&fixture);
    return 0;
}

static int close_fixture(void **state)
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

/* One exec step `a` that runs this shell script, with '@' standing for the test's directory. `more` are further keys. */
static const char *script(const char *text, const char *more)
{
    static char definition[8192];
    char *to = definition +
               snprintf(definition, sizeof definition, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\",\"");
    for (; *text != '\0'; text++) {
        to += *text == '@'
                  ? snprintf(to, (size_t)(definition + sizeof definition - to), "%s", fixture.directory)
                  : snprintf(to, (size_t)(definition + sizeof definition - to), *text == '"' ? "\\%c" : "%c", *text);
    }
    (void)snprintf(to, (size_t)(definition + sizeof definition - to), "\"]%s}}}", more);
    return definition;
}

static const struct report *run_script(const char *text, const char *more, enum end_state end)
{
    engine_fixture_start(&fixture, 1, script(text, more), "{}");
    return engine_fixture_expect_end(&fixture, 1, end);
}

static void all_processes_of_a_step_are_dead_before_its_end_is_reported(void **state)
{
    (void)state;
    const struct report *end =
        run_script("setsid sh -c 'echo $$ > @/one; exec sleep 100' & "
                   "(setsid setsid sh -c 'trap \"\" TERM HUP; echo $$ > @/two; while :; do sleep 1; "
                   "done' &) ; (sleep 100 & echo $! > @/three) ; "
                   "until [ -s @/one ] && [ -s @/two ] && [ -s @/three ]; do sleep 0.01; done; echo ok",
                   "", END_COMPLETED);
    assert_string_equal(end->step.output, "\"ok\"");
    assert_false(is_alive(wait_for_pid_file(path_of("one"))));
    assert_false(is_alive(wait_for_pid_file(path_of("two"))));
    assert_false(is_alive(wait_for_pid_file(path_of("three"))));
}

static void orphan_of_a_running_step_survives_the_end_of_another_step(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         script("(setsid sh -c 'echo $$ > @/orphan; until [ -e @/go ]; do sleep 0.01; done; echo done > "
                                "@/done' &) ; until [ -e @/done ]; do sleep 0.01; done",
                                ",\"timeout\":\"60s\""),
                         "{}");
    pid_t orphan = wait_for_pid_file(path_of("orphan"));
    engine_fixture_start(&fixture, 2, script("true", ""), "{}");
    (void)engine_fixture_expect_end(&fixture, 2, END_COMPLETED);
    assert_true(is_alive(orphan));
    FILE *go = fopen(path_of("go"), "w");
    (void)fclose(go);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

/* Like ssh-agent: in a session of its own, and its environment cannot be read. */
static void helper_without_its_environment_survives_the_end_of_another_step(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         script("(env -i setsid sh -c 'echo $$ > @/helper; until [ -e @/go ]; do sleep 0.01; done; "
                                "echo done > @/done' &) ; until [ -e @/done ]; do sleep 0.01; done",
                                ",\"timeout\":\"100s\""),
                         "{}");
    pid_t helper = wait_for_pid_file(path_of("helper"));
    for (int i = 2; i <= 40; i++) {
        engine_fixture_start(&fixture, i, script("sleep 0.01 & true", ""), "{}");
    }
    for (int i = 2; i <= 40; i++) {
        (void)engine_fixture_expect_end(&fixture, i, END_COMPLETED);
    }
    assert_true(is_alive(helper));
    FILE *go = fopen(path_of("go"), "w");
    (void)fclose(go);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_false(is_alive(helper));
}

static void helper_without_its_environment_ends_with_its_own_step(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, script("echo $$ > @/older; exec sleep 300", ""), "{}");
    (void)wait_for_pid_file(path_of("older"));
    engine_fixture_start(&fixture, 2,
                         script("(env -i setsid sh -c 'echo $$ > @/helper; exec sleep 300' &) ; "
                                "until [ -s @/helper ]; do sleep 0.01; done",
                                ""),
                         "{}");
    (void)engine_fixture_expect_end(&fixture, 2, END_COMPLETED);
    assert_false(is_alive(wait_for_pid_file(path_of("helper"))));
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, engine_fixture_id(1), NULL, -1), 0);
}

/* Nothing shows any more which step it comes from. It began after two of the steps, so it is one of theirs. */
static void helper_without_brand_and_mark_ends_with_the_last_step_that_may_have_started_it(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, script("echo $$ > @/older; until [ -e @/go ]; do sleep 0.01; done", ""), "{}");
    (void)wait_for_pid_file(path_of("older"));
    engine_fixture_start(&fixture, 2,
                         script("(prlimit --locks=1:1 env -i setsid sh -c 'echo $$ > @/helper; exec sleep 300' &) ; "
                                "until [ -s @/helper ]; do sleep 0.01; done",
                                ""),
                         "{}");
    pid_t helper = wait_for_pid_file(path_of("helper"));
    (void)engine_fixture_expect_end(&fixture, 2, END_COMPLETED);
    assert_true(is_alive(helper));
    FILE *go = fopen(path_of("go"), "w");
    (void)fclose(go);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_false(is_alive(helper));
}

static void flood_of_output_stops_the_step(void **state)
{
    (void)state;
    const struct report *end = run_script("echo $$ > @/pid; exec yes flooooood", ",\"output_max\":100000", END_FAILED);
    assert_string_equal(end->error_code, "output_too_large");
    assert_false(is_alive(wait_for_pid_file(path_of("pid"))));
}

static void output_of_exactly_the_limit_is_stored(void **state)
{
    (void)state;
    const struct report *end =
        run_script("head -c 100000 /dev/zero | tr '\\\\0' x", ",\"output_max\":100000", END_COMPLETED);
    assert_int_equal(end->step.output_length, 100002);
}

static void flood_of_stderr_stores_its_end(void **state)
{
    (void)state;
    const struct report *end =
        run_script("i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done; exit 2", "", END_FAILED);
    assert_string_equal(end->error_code, "exit_2");
    assert_non_null(strstr(end->error, "line 19999"));
    assert_true(strlen(end->error) <= ERROR_TEXT_MAX);
}

static void step_that_ignores_term_is_killed_after_the_grace(void **state)
{
    (void)state;
    bool has_begun = false;
    /* On a busy machine the timeout may end a step before its shell runs: the next one has twice the time. */
    for (int i = 1; i <= 5 && !has_begun; i++) {
        char more[32];
        (void)snprintf(more, sizeof more, ",\"timeout\":\"%ds\"", 1 << i);
        engine_fixture_start(&fixture, i, script("trap '' TERM; echo $$ > @/pid; while :; do sleep 1; done", more), "{}");
        assert_string_equal(engine_fixture_expect_end(&fixture, i, END_FAILED)->error_code, "timeout");
        has_begun = access(path_of("pid"), F_OK) == 0;
    }
    assert_true(has_begun);
    assert_false(is_alive(wait_for_pid_file(path_of("pid"))));
}

static void stopped_step_can_be_ended(void **state)
{
    (void)state;
    const struct report *end = run_script("kill -STOP $$", ",\"timeout\":\"100ms\"", END_FAILED);
    assert_string_equal(end->error_code, "timeout");
}

static void program_that_does_not_exist_is_named_in_the_error(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"no-such-program\"]}}}", "{}");
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "exec_not_found");
    assert_non_null(strstr(end->error, "No such file"));
    engine_fixture_start(&fixture, 2, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"true\"],\"cwd\":\"/no/such\"}}}",
                         "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_FAILED)->error_code, "cwd_not_found");
    engine_fixture_start(&fixture, 3, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"/etc\"]}}}", "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 3, END_FAILED)->error_code, "exec_not_found");
}

static void step_killed_by_a_signal_names_the_signal(void **state)
{
    (void)state;
    assert_string_equal(run_script("kill -SEGV $$", "", END_FAILED)->error_code, "killed_by_signal_11");
}

static void step_that_closes_its_outputs_still_ends_when_it_exits(void **state)
{
    (void)state;
    const struct report *end = run_script("echo before; exec >&- 2>&- <&-; sleep 0.1; echo ran > @/ran", "", END_COMPLETED);
    assert_string_equal(end->step.output, "\"before\"");
    assert_string_equal(wait_for_file(path_of("ran")), "ran\n");
}

static void large_input_that_a_step_does_not_read_blocks_no_process(void **state)
{
    (void)state;
    enum { LENGTH = 900000 };
    static char params[LENGTH + 32] = "{\"big\":\"";
    size_t head = strlen(params);
    memset(params + head, 'x', LENGTH);
    memcpy(params + head + LENGTH, "\"}", 3);
    engine_fixture_start(&fixture, 1, script("true", ",\"stdin\":\"${.input.big}\""), params);
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    engine_fixture_start(&fixture, 2, script("wc -c", ",\"stdin\":\"${.input.big}\""), params);
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_COMPLETED)->step.output, "900000\n");
}

static void step_without_stdin_reads_the_end_at_once(void **state)
{
    (void)state;
    assert_string_equal(run_script("wc -c", "", END_COMPLETED)->step.output, "0\n");
}

static void step_sees_only_its_own_environment(void **state)
{
    (void)state;
    const struct report *end = run_script("env | sort", ",\"env\":{\"MINE\":\"a b\",\"HOME\":\"/own\"}", END_COMPLETED);
    const char *output = end->step.output;
    assert_null(strstr(output, "SECRET"));
    assert_non_null(strstr(output, "MINE=a b\\n"));
    assert_non_null(strstr(output, "HOME=/own\\n"));
    assert_non_null(strstr(output, "PATH=/"));
    assert_non_null(strstr(output, "WEIR_EXECUTION_ID=00000000-0000-7000-8000-000000000001\\n"));
    assert_non_null(strstr(output, "WEIR_STEP=a"));
    assert_non_null(strstr(output, "WEIR_ATTEMPT=1\\n"));
    assert_non_null(strstr(output, "WEIR_FENCE=1\\n"));
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define CALLER "00-" TRACE "-00f067aa0ba902b7-01"

static void step_passes_its_trace_context_on(void **state)
{
    (void)state;
    char span[SPAN_ID_LENGTH + 1];
    char wanted[TRACEPARENT_SIZE + 2];
    struct engine_start start = engine_fixture_start_of(1, script("echo $TRACEPARENT", ""), "{}");
    start.traceparent = CALLER;
    engine_fixture_start_with(&fixture, &start);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "\"" CALLER "\"");
    struct engine_start exported = engine_fixture_start_of(2, script("echo $TRACEPARENT", ""), "{}");
    exported.traceparent = CALLER;
    exported.has_step_spans = true;
    engine_fixture_start_with(&fixture, &exported);
    span_id_of_step(engine_fixture_id(2), "a", 1, span);
    (void)snprintf(wanted, sizeof wanted, "\"00-" TRACE "-%s-01\"", span);
    assert_string_equal(engine_fixture_expect_end(&fixture, 2, END_COMPLETED)->step.output, wanted);
    struct engine_start own =
        engine_fixture_start_of(3, script("echo $TRACEPARENT", ",\"env\":{\"TRACEPARENT\":\"mine\"}"), "{}");
    own.traceparent = CALLER;
    engine_fixture_start_with(&fixture, &own);
    assert_string_equal(engine_fixture_expect_end(&fixture, 3, END_COMPLETED)->step.output, "\"mine\"");
    engine_fixture_start(&fixture, 4, script("echo ${TRACEPARENT-unset}", ""), "{}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 4, END_COMPLETED)->step.output, "\"unset\"");
}

static void step_has_only_the_standard_file_descriptors(void **state)
{
    (void)state;
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec, and open while the keeper runs */
    const struct report *end = run_script("echo /proc/self/fd/*", "", END_COMPLETED);
    (void)close(leak);
    /* The shell that expands the pattern has the directory open as 3. */
    assert_string_equal(end->step.output, "\"/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\"");
}

static void arguments_reach_the_program_byte_for_byte(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1,
        "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"printf\",\"[%s]\",\"a b\",\"\",\"$(x) `y` ;*\",\"é\\n\","
        "\"${.input.q}\"]}}}",
        "{\"q\":\"'\\\"\\\\\"}");
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output,
                        "\"[a b][][$(x) `y` ;*][é\\n]['\\\"\\\\]\"");
}

static void step_has_default_signals_its_own_group_no_core_and_no_new_privileges(void **state)
{
    (void)state;
    const struct report *end =
        run_script("grep -E '^(SigBlk|SigIgn|NoNewPrivs):' /proc/self/status | tr -d '\\\\n\\\\t'; ulimit -c; "
                   "cut -d' ' -f5,6 /proc/$$/stat | tr ' ' '\\\\n' | grep -cx $$",
                   "", END_COMPLETED);
    assert_string_equal(end->step.output, "\"SigBlk:0000000000000000SigIgn:0000000000000000NoNewPrivs:10\\n2\"");
}

/* Until it has become that program: before, it has our environment. */
static void wait_for_name(pid_t pid, const char *name)
{
    char path[64];
    char text[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    for (int i = 0; i < 60000 && strncmp(text, name, strlen(name)) != 0; i++) {
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        (void)!fgets(text, sizeof text, file);
        (void)fclose(file);
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_true(strncmp(text, name, strlen(name)) == 0);
}

static void kill_keeper(void)
{
    assert_int_equal(kill((pid_t)engine_keeper_pid(fixture.engine), SIGKILL), 0);
}

/* All processes of the step are gone before it runs again, also those that have left its session. */
static void step_whose_keeper_is_killed_runs_again_without_an_attempt_spent(void **state)
{
    (void)state;
    long keeper = engine_keeper_pid(fixture.engine);
    engine_fixture_start(&fixture, 1,
                         script("if [ $WEIR_ATTEMPT = 1 ]; then trap '' TERM; setsid sleep 100 & echo $! > @/child; "
                                "sleep 100 & echo $! > @/other; echo $$ > @/pid; wait; fi; "
                                "for name in pid child other; do "
                                "state=$(awk '/^State:/ {print $2}' /proc/$(cat @/$name)/status 2>/dev/null); "
                                "case $state in ''|Z|X) ;; *) echo $name lives ;; esac; done",
                                ""),
                         "{}");
    pid_t child = wait_for_pid_file(path_of("child"));
    assert_true(wait_for_pid_file(path_of("other")) > 0);
    assert_true(wait_for_pid_file(path_of("pid")) > 0);
    kill_keeper();
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_string_equal(end->step.output, "\"\"");
    assert_int_equal(end->step.attempt, 2);
    assert_int_equal(end->step.failures, 0);
    assert_true(wait_until_dead(child));
    assert_int_not_equal(engine_keeper_pid(fixture.engine), keeper);
    const struct report *told = recorder_wait(&fixture.recorder, REPORT_INTERRUPTED, NULL, NULL, -1, 1);
    assert_non_null(told);
    assert_int_equal(told->count, 1);
    assert_string_equal(told->error_code, "keeper_lost");
    assert_non_null(strstr(told->error, "was killed by signal 9"));
}

/* It would enforce no timeout, and its steps would outlive their lease. */
static void stopped_keeper_is_replaced_and_its_steps_are_killed(void **state)
{
    (void)state;
    long keeper = engine_keeper_pid(fixture.engine);
    engine_fixture_start(&fixture, 1, script("if [ $WEIR_ATTEMPT = 1 ]; then echo $$ > @/still; exec sleep 100; fi", ""),
                         "{}");
    pid_t step = wait_for_pid_file(path_of("still"));
    assert_int_equal(kill((pid_t)keeper, SIGSTOP), 0);
    for (int i = 0; i < 12000 && engine_keeper_pid(fixture.engine) == keeper; i++) { /* as a node renews it */
        struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
        engine_lease(fixture.engine, clock_boot(clock_system()) + 15 * MICROSECONDS_PER_SECOND);
        (void)nanosleep(&pause, NULL);
    }
    engine_lease(fixture.engine, TIME_NEVER);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_int_equal(end->step.attempt, 2);
    assert_int_equal(end->step.failures, 0);
    assert_true(wait_until_dead(step));
    assert_int_not_equal(engine_keeper_pid(fixture.engine), keeper);
    const struct report *told = recorder_wait(&fixture.recorder, REPORT_INTERRUPTED, NULL, NULL, -1, 1);
    assert_non_null(told);
    assert_non_null(strstr(told->error, "did not answer"));
}

static void keeper_that_answers_is_left_alone(void **state)
{
    (void)state;
    long keeper = engine_keeper_pid(fixture.engine);
    for (int i = 0; i < 5; i++) {
        engine_lease(fixture.engine, clock_boot(clock_system()) + 60 * MICROSECONDS_PER_SECOND);
        engine_fixture_start(&fixture, i + 1, script("true", ""), "{}");
        (void)engine_fixture_expect_end(&fixture, i + 1, END_COMPLETED);
    }
    engine_lease(fixture.engine, TIME_NEVER);
    assert_int_equal(engine_keeper_pid(fixture.engine), keeper);
}

/* The step may be the reason of the kill: the scheduler decides beside which items it runs again. */
static void execution_that_loses_a_second_keeper_is_given_back(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, script("echo $$ > @/pid-$WEIR_ATTEMPT; exec sleep 100", ""), "{}");
    assert_true(wait_for_pid_file(path_of("pid-1")) > 0);
    kill_keeper();
    assert_true(wait_for_pid_file(path_of("pid-2")) > 0);
    kill_keeper();
    const struct report *report = recorder_wait(&fixture.recorder, REPORT_GIVEN_BACK, NULL, NULL, -1, 1);
    assert_non_null(report);
    assert_string_equal(report->error_code, SUSPICION_KEEPER_LOST_ALONE);
}

static void executions_that_lose_a_keeper_together_are_no_lone_suspects(void **state)
{
    (void)state;
    for (int i = 1; i <= 2; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "echo $$ > @/pid-%d-$WEIR_ATTEMPT; exec sleep 100", i);
        engine_fixture_start(&fixture, i, script(text, ""), "{}");
    }
    assert_true(wait_for_pid_file(path_of("pid-1-1")) > 0);
    assert_true(wait_for_pid_file(path_of("pid-2-1")) > 0);
    kill_keeper();
    assert_true(wait_for_pid_file(path_of("pid-1-2")) > 0);
    assert_true(wait_for_pid_file(path_of("pid-2-2")) > 0);
    kill_keeper();
    const struct report *report = recorder_wait(&fixture.recorder, REPORT_GIVEN_BACK, NULL, NULL, -1, 2);
    assert_non_null(report);
    assert_string_equal(report->error_code, SUSPICION_KEEPER_LOST);
}

static bool has_children(long pid)
{
    char path[64];
    char children[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, children, sizeof children);
    (void)close(file);
    return got > 0;
}

/* Evaluators die with the keeper: the expression is asked of another. */
static void expression_whose_evaluator_dies_with_the_keeper_is_sent_again(void **state)
{
    (void)state;
    const char *definition = "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"echo\",\"${[range(1000000)] | length}\"]}}}";
    engine_fixture_start(&fixture, 1, definition, "{}");
    for (int i = 0; i < 20000 && !has_children(engine_keeper_pid(fixture.engine)); i++) {
        struct timespec pause = {.tv_nsec = 1000000}; /* until the evaluator is there: it works on it for a while */
        (void)nanosleep(&pause, NULL);
    }
    kill_keeper();
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "1000000\n");
}

static void step_that_lost_its_lease_runs_again_with_the_next_attempt(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1, script("if [ $WEIR_ATTEMPT = 1 ]; then echo $$ > @/pid; exec sleep 100; fi; echo $WEIR_ATTEMPT", ""),
        "{}");
    pid_t pid = wait_for_pid_file(path_of("pid"));
    engine_lease(fixture.engine, clock_boot(clock_system()));
    assert_true(wait_until_dead(pid));
    engine_lease(fixture.engine, clock_boot(clock_system()) + 3600 * MICROSECONDS_PER_SECOND);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_true(strtol(end->step.output, NULL, 10) > 1);
    assert_int_equal(end->step.failures, 0);
}

static void thousand_sleeping_executions_use_no_processes(void **state)
{
    (void)state;
    const char *definition = "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{\"s\":{\"sleep\":\"1h\"}}}";
    for (int i = 0; i < 1000; i++) {
        struct engine_start start = engine_fixture_start_of(0, definition, "{}");
        (void)snprintf(start.id, sizeof start.id, "00000000-0000-7000-8000-%012d", i);
        start.definition_id = 1;
        engine_fixture_start_with(&fixture, &start);
    }
    assert_non_null(recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "s", STEP_WAITING, 1000));
    assert_int_equal(engine_running(fixture.engine), 1000);
    assert_false(has_children(engine_keeper_pid(fixture.engine)));
    for (int i = 0; i < 1000; i++) {
        char id[UUID_TEXT_MAX];
        (void)snprintf(id, sizeof id, "00000000-0000-7000-8000-%012d", i);
        engine_cancel(fixture.engine, id, 1);
    }
    assert_non_null(recorder_wait(&fixture.recorder, REPORT_ENDED, NULL, NULL, -1, 1000));
}

/* --- nodes that die or are stopped --- */

/* A node in a process of its own that runs one step; it writes the pids that matter and then lives on. `lease_us`: of the
 * lease that it renews as long as it is not stopped; 0 = it needs none. */
static pid_t fork_node(const char *definition, int64_t lease_us)
{
    pid_t node = test_fork();
    if (node != 0) {
        return node;
    }
    struct engine_fixture own;
    engine_fixture_open(&own, NULL);
    (void)rmdir(own.directory); /* it ends by a signal, and the script is the test's */
    FILE *file = fopen(path_of("keeper"), "w");
    (void)fprintf(file, "%ld\n", engine_keeper_pid(own.engine));
    (void)fclose(file);
    if (lease_us > 0) {
        engine_lease(own.engine, clock_boot(clock_system()) + lease_us);
    }
    engine_fixture_start(&own, 1, definition, "{}");
    for (;;) {
        struct timespec between = {.tv_nsec = 50 * 1000 * 1000};
        (void)nanosleep(&between, NULL);
        if (lease_us > 0) {
            engine_lease(own.engine, clock_boot(clock_system()) + lease_us);
        }
    }
}

static const char *const stubborn =
    "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; echo $$ > @/away; while :; do sleep "
    "1; done' & echo $$ > @/pid; while :; do sleep 1; done";

static void killed_node_leaves_no_process_and_no_keeper(void **state)
{
    (void)state;
    pid_t node = fork_node(script(stubborn, ""), 0);
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t away = wait_for_pid_file(path_of("away"));
    pid_t keeper = wait_for_pid_file(path_of("keeper"));
    assert_true(is_alive(leader) && is_alive(away) && is_alive(keeper));
    assert_int_equal(kill(node, SIGKILL), 0);
    assert_int_equal(waitpid(node, NULL, 0), node);
    assert_true(wait_until_dead(keeper));
    assert_false(is_alive(leader)); /* the keeper goes last */
    assert_false(is_alive(away));
}

static void killed_node_with_a_stopped_keeper_leaves_no_process(void **state)
{
    (void)state;
    pid_t node = fork_node(script(stubborn, ""), 0);
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t away = wait_for_pid_file(path_of("away"));
    pid_t keeper = wait_for_pid_file(path_of("keeper"));
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    assert_int_equal(kill(node, SIGKILL), 0);
    assert_int_equal(waitpid(node, NULL, 0), node);
    assert_true(wait_until_dead(keeper));
    assert_false(is_alive(leader));
    assert_false(is_alive(away));
}

static void stopped_node_loses_its_steps_when_the_lease_is_over(void **state)
{
    (void)state;
    pid_t node = fork_node(script(stubborn, ""), 4 * MICROSECONDS_PER_SECOND);
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t away = wait_for_pid_file(path_of("away"));
    pid_t keeper = wait_for_pid_file(path_of("keeper"));
    int64_t before_us = clock_boot(clock_system());
    assert_int_equal(kill(node, SIGSTOP), 0);
    assert_true(wait_until_dead(leader));
    assert_true(wait_until_dead(away));
    assert_true(clock_boot(clock_system()) - before_us < 60 * MICROSECONDS_PER_SECOND);
    assert_true(is_alive(keeper)); /* it waits for the node, or for its end */
    assert_int_equal(kill(node, SIGKILL), 0);
    assert_int_equal(waitpid(node, NULL, 0), node);
    assert_true(wait_until_dead(keeper));
}

static void signals_to_the_group_of_the_node_do_not_reach_the_keeper(void **state)
{
    (void)state;
    long keeper = engine_keeper_pid(fixture.engine);
    assert_int_not_equal(getpgid((pid_t)keeper), getpgid(0));
    assert_int_equal(kill((pid_t)keeper, SIGINT), 0);
    assert_int_equal(kill((pid_t)keeper, SIGTERM), 0);
    (void)run_script("true", "", END_COMPLETED);
    assert_int_equal(engine_keeper_pid(fixture.engine), keeper);
}

static void closing_kills_what_runs(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, script(stubborn, ""), "{}");
    pid_t leader = wait_for_pid_file(path_of("pid"));
    pid_t away = wait_for_pid_file(path_of("away"));
    pid_t keeper = (pid_t)engine_keeper_pid(fixture.engine);
    engine_fixture_close(&fixture);
    assert_false(is_alive(leader));
    assert_false(is_alive(away));
    assert_false(is_alive(keeper));
    engine_fixture_open(&fixture, NULL);
}

/* A host that forks and does not exec gives its child the node's end of the socket. */
static void keeper_ends_with_its_link_although_a_child_of_the_host_has_a_copy(void **state)
{
    (void)state;
    struct keeper_client link;
    struct weir_error error;
    int held[2];
    char byte;
    assert_int_equal(keeper_client_open(&link, &error), WEIR_OK);
    assert_int_equal(pipe(held), 0);
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(held[1]);
        (void)!read(held[0], &byte, 1); /* until the test is over */
        _exit(0);
    }
    keeper_client_close(&link);
    assert_true(WIFEXITED(link.wait_status)); /* by itself: it did not have to be killed */
    (void)close(held[0]);
    (void)close(held[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* As a process under a keeper in another container, with the process id of our keeper. */
static void a_process_of_another_keeper_with_the_same_process_id_is_left_alone(void **state)
{
    (void)state;
    char mark[64];
    (void)snprintf(mark, sizeof mark, "WEIR_RUN=%ld.1", engine_keeper_pid(fixture.engine));
    char *const argv[] = {"sleep", "300", NULL};
    char *const envp[] = {mark, "PATH=/usr/bin:/bin", NULL};
    pid_t other = test_fork();
    assert_true(other >= 0);
    if (other == 0) {
        (void)setsid();
        (void)execvpe("sleep", argv, envp);
        _exit(127);
    }
    wait_for_name(other, "sleep");
    kill_keeper();
    assert_non_null(recorder_wait(&fixture.recorder, REPORT_INTERRUPTED, NULL, NULL, -1, 1)); /* its sweep is over */
    assert_true(is_alive(other));
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

static void ignore_alarm(int number)
{
    (void)number;
}

/* The keeper is stopped, so that it has to be killed; alarms come faster than the wait for it is long. */
static void signals_do_not_make_the_wait_for_a_keeper_longer(void **state)
{
    (void)state;
    struct keeper_client link;
    struct weir_error error;
    struct sigaction before;
    struct sigaction handler = {.sa_handler = ignore_alarm};
    const struct itimerval often = {.it_interval = {.tv_usec = 50000}, .it_value = {.tv_usec = 50000}};
    const struct itimerval never = {.it_value = {.tv_usec = 0}};
    assert_int_equal(keeper_client_open(&link, &error), WEIR_OK);
    assert_int_equal(kill(link.pid, SIGSTOP), 0);
    assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    keeper_client_close(&link);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_true(WIFSIGNALED(link.wait_status) && WTERMSIG(link.wait_status) == SIGKILL);
}

static int set_secret(void **state)
{
    (void)state;
    return setenv("WEIR_TEST_SECRET", "SECRET", 1);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
#define CLAIM_ALONE(name) cmocka_unit_test_setup_teardown(name, make_directory, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(all_processes_of_a_step_are_dead_before_its_end_is_reported),
        CLAIM(orphan_of_a_running_step_survives_the_end_of_another_step),
        CLAIM(helper_without_its_environment_survives_the_end_of_another_step),
        CLAIM(helper_without_its_environment_ends_with_its_own_step),
        CLAIM(helper_without_brand_and_mark_ends_with_the_last_step_that_may_have_started_it),
        CLAIM(flood_of_output_stops_the_step),
        CLAIM(output_of_exactly_the_limit_is_stored),
        CLAIM(flood_of_stderr_stores_its_end),
        CLAIM(step_that_ignores_term_is_killed_after_the_grace),
        CLAIM(stopped_step_can_be_ended),
        CLAIM(program_that_does_not_exist_is_named_in_the_error),
        CLAIM(step_killed_by_a_signal_names_the_signal),
        CLAIM(step_that_closes_its_outputs_still_ends_when_it_exits),
        CLAIM(large_input_that_a_step_does_not_read_blocks_no_process),
        CLAIM(step_without_stdin_reads_the_end_at_once),
        CLAIM(step_sees_only_its_own_environment),
        CLAIM(step_passes_its_trace_context_on),
        CLAIM(step_has_only_the_standard_file_descriptors),
        CLAIM(arguments_reach_the_program_byte_for_byte),
        CLAIM(step_has_default_signals_its_own_group_no_core_and_no_new_privileges),
        CLAIM(step_whose_keeper_is_killed_runs_again_without_an_attempt_spent),
        CLAIM(stopped_keeper_is_replaced_and_its_steps_are_killed),
        CLAIM(keeper_that_answers_is_left_alone),
        CLAIM(execution_that_loses_a_second_keeper_is_given_back),
        CLAIM(executions_that_lose_a_keeper_together_are_no_lone_suspects),
        CLAIM(expression_whose_evaluator_dies_with_the_keeper_is_sent_again),
        CLAIM(step_that_lost_its_lease_runs_again_with_the_next_attempt),
        CLAIM(thousand_sleeping_executions_use_no_processes),
        CLAIM_ALONE(killed_node_leaves_no_process_and_no_keeper),
        CLAIM_ALONE(killed_node_with_a_stopped_keeper_leaves_no_process),
        CLAIM_ALONE(stopped_node_loses_its_steps_when_the_lease_is_over),
        CLAIM(signals_to_the_group_of_the_node_do_not_reach_the_keeper),
        CLAIM(closing_kills_what_runs),
        CLAIM_ALONE(keeper_ends_with_its_link_although_a_child_of_the_host_has_a_copy),
        CLAIM_ALONE(signals_do_not_make_the_wait_for_a_keeper_longer),
        CLAIM(a_process_of_another_keeper_with_the_same_process_id_is_left_alone),
    };
    return cmocka_run_group_tests(tests, set_secret, NULL);
}
