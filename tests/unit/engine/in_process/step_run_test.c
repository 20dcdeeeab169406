/* Attempts: handlers, retries, timeouts, sleeps, and the engine driven by steps of its caller. */
#include "engine/in_process/step_run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/in_process/step_exec.h"
#include "support/engine_fixture.h"
#include "support/test.h"
#include "weir/handler.h"

static struct engine_fixture fixture;
static atomic_int calls;
static atomic_bool may_go;

static void echo(struct weir_call *call, void *context)
{
    (void)context;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"id\":\"%s\",\"workspace\":\"%s\",\"step\":\"%s\",\"attempt\":%d,\"fence\":%lld,\"input\":%s}",
                   weir_call_execution_id(call), weir_call_workspace(call), weir_call_step(call), weir_call_attempt(call),
                   (long long)weir_call_fence(call), weir_call_input(call));
    weir_done(call, text);
    weir_fail(call, "late", "the first answer counts");
}

static void tells_trace(struct weir_call *call, void *context)
{
    (void)context;
    char text[128];
    const char *traceparent = weir_call_traceparent(call);
    (void)snprintf(text, sizeof text, "\"%s\"", traceparent == NULL ? "none" : traceparent);
    weir_done(call, text);
}

static void done(struct weir_call *call, void *context)
{
    (void)context;
    atomic_fetch_add(&calls, 1);
    weir_done(call, NULL);
}

static void fails_twice(struct weir_call *call, void *context)
{
    (void)context;
    if (atomic_fetch_add(&calls, 1) < 2) {
        weir_retry(call, "busy", "not now");
    } else {
        weir_done(call, "\"third\"");
    }
}

static void fails(struct weir_call *call, void *context)
{
    (void)context;
    atomic_fetch_add(&calls, 1);
    weir_fail(call, "card_declined", "no money\x1b[31m");
}

static void retries(struct weir_call *call, void *context)
{
    (void)context;
    weir_retry(call, NULL, NULL);
}

static void says_nothing(struct weir_call *call, void *context)
{
    (void)call;
    (void)context;
}

static void says_nonsense(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, "{nonsense");
}

static void waits_for_cancel(struct weir_call *call, void *context)
{
    (void)context;
    atomic_fetch_add(&calls, 1);
    while (!weir_call_cancelled(call)) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
}

/* In the order in which threads took the calls. */
static atomic_char callers[64];
static atomic_int turns_allowed;

static void notes_its_workspace(struct weir_call *call, void *context)
{
    (void)context;
    int place = atomic_fetch_add(&calls, 1);
    atomic_store(&callers[place], weir_call_workspace(call)[0]);
    while (place >= atomic_load(&turns_allowed) && !atomic_load(&may_go)) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    weir_done(call, NULL);
}

static void waits_for_go(struct weir_call *call, void *context)
{
    (void)context;
    atomic_fetch_add(&calls, 1);
    while (!atomic_load(&may_go)) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    weir_done(call, "1");
}

static const struct weir_handler handlers[] = {
    {.name = "echo", .function = echo},
    {.name = "tells-trace", .function = tells_trace},
    {.name = "done", .function = done},
    {.name = "fails-twice", .function = fails_twice},
    {.name = "fails", .function = fails},
    {.name = "retries", .function = retries},
    {.name = "says-nothing", .function = says_nothing},
    {.name = "says-nonsense", .function = says_nonsense},
    {.name = "waits-for-cancel", .function = waits_for_cancel},
    {.name = "waits-for-go", .function = waits_for_go},
    {.name = "notes-its-workspace", .function = notes_its_workspace},
};

static const struct in_process_options options = {
    .allow_exec = true, .handlers = handlers, .handler_count = sizeof handlers / sizeof handlers[0], .handler_threads = 2};

static int open_fixture(void **state)
{
    (void)state;
    atomic_store(&calls, 0);
    atomic_store(&may_go, false);
    atomic_store(&turns_allowed, 0);
    engine_fixture_open(&fixture, &options);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    atomic_store(&may_go, true);
    engine_fixture_close(&fixture);
    return 0;
}

static const struct report *run(int number, const char *step, enum end_state end)
{
    char definition[1024];
    (void)snprintf(definition, sizeof definition, "{\"name\":\"t\",\"steps\":{\"a\":{%s}}}", step);
    engine_fixture_start(&fixture, number, definition, "{\"n\": 1}");
    return engine_fixture_expect_end(&fixture, number, end);
}

static void wait_for_calls(int count)
{
    for (int i = 0; i < 90000 && atomic_load(&calls) < count; i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_true(atomic_load(&calls) >= count);
}

static void handler_gets_its_input_and_gives_its_output(void **state)
{
    (void)state;
    assert_string_equal(
        run(1, "\"handler\":\"echo\"", END_COMPLETED)->step.output,
        "{\"id\":\"00000000-0000-7000-8000-000000000001\",\"workspace\":\"acme\",\"step\":\"a\",\"attempt\":1,"
        "\"fence\":1,\"input\":{\"n\": 1}}");
    assert_non_null(strstr(run(2, "\"handler\":\"echo\",\"input\":{\"m\":[\"${.input.n}\"]}", END_COMPLETED)->step.output,
                           "\"input\":{\"m\":[1]}"));
    /* One record for an execution of one handler. */
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, NULL, -1), 0);
}

static void handler_that_fails_is_not_retried(void **state)
{
    (void)state;
    const struct report *end = run(1, "\"handler\":\"fails\",\"retry\":{\"attempts\":5,\"backoff\":\"1ms\"}", END_FAILED);
    assert_string_equal(end->error_code, "card_declined");
    assert_string_equal(end->error, "no money?[31m");
    assert_int_equal(atomic_load(&calls), 1);
}

static void handler_that_answers_retry_is_retried_by_its_policy(void **state)
{
    (void)state;
    const struct report *end =
        run(1, "\"handler\":\"fails-twice\",\"retry\":{\"attempts\":5,\"backoff\":\"1ms\"}", END_COMPLETED);
    assert_string_equal(end->step.output, "\"third\"");
    assert_int_equal(end->step.attempt, 3);
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, 2);
    assert_int_equal(waiting->step.attempt, 2);
    assert_int_equal(waiting->step.failures, 2);
    assert_string_equal(waiting->step.error_code, "busy");
    assert_string_equal(waiting->step.error, "not now");
}

static void handler_without_a_policy_waits_a_minute_for_its_next_attempt(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"retries\"}}}", "{}");
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, 1);
    assert_true(waiting->step.due_in_us > 45 * MICROSECONDS_PER_SECOND);
    assert_true(waiting->step.due_in_us <= 60 * MICROSECONDS_PER_SECOND);
    assert_string_equal(waiting->step.error_code, "handler_failed");
}

static void handler_without_an_answer_or_with_invalid_json_fails(void **state)
{
    (void)state;
    assert_string_equal(run(1, "\"handler\":\"says-nothing\"", END_FAILED)->error_code, "handler_no_result");
    assert_string_equal(run(2, "\"handler\":\"says-nonsense\"", END_FAILED)->error_code, "handler_bad_output");
}

static void handler_is_cancelled_at_its_timeout(void **state)
{
    (void)state;
    const struct report *end =
        run(1, "\"handler\":\"waits-for-cancel\",\"timeout\":\"50ms\",\"retry\":{\"attempts\":2,\"backoff\":\"1ms\"}",
            END_FAILED);
    assert_string_equal(end->error_code, "timeout");
    assert_int_equal(end->step.attempt, 2);
}

static void handler_is_cancelled_with_its_execution(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"waits-for-cancel\"}}}", "{}");
    wait_for_calls(1);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    assert_int_equal(engine_fixture_expect_end(&fixture, 1, END_CANCELLED)->step.state, STEP_CANCELLED);
}

static void interrupted_handler_leaves_its_attempt_on_record(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"waits-for-cancel\"}}}", "{}");
    wait_for_calls(1);
    engine_stop(fixture.engine, true);
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 1, NULL, -1, 1);
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, 1);
    assert_int_equal(waiting->step.attempt, 1);
    assert_int_equal(waiting->step.failures, 0);
}

static void attempt_of_a_handler_grows_over_handovers(void **state)
{
    (void)state;
    struct engine_start start =
        engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"echo\"}}}", "{}");
    start.interruptions = 2;
    engine_fixture_start_with(&fixture, &start);
    assert_int_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.attempt, 3);
}

/* So that the next handover finds it running, should it end its node again. */
static void a_handler_that_was_handed_over_is_on_record_before_it_is_called(void **state)
{
    (void)state;
    fixture.recorder.is_manual = true;
    struct step_record record = {.step = "a", .state = STEP_RUNNING, .attempt = 7, .exit_code = -1};
    struct engine_start start =
        engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"done\"}}}", "{}");
    start.interruptions = 3;
    start.steps = &record;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    const struct report *running = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_RUNNING, 1);
    assert_int_equal(running->step.attempt, 8); /* each was on record: the last one has the number */
    engine_fixture_await_loop(&fixture);
    assert_int_equal(atomic_load(&calls), 0);
    recorder_answer(&fixture.recorder, running, WEIR_OK);
    assert_int_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.attempt, 8);
    assert_int_equal(atomic_load(&calls), 1);
}

/* A claim that was lost may have begun attempt 2 without a record, also before a park (docs/design/waiting.md). */
static void an_attempt_behind_a_wait_skips_those_without_a_record(void **state)
{
    (void)state;
    struct step_record record = {
        .step = "a", .state = STEP_WAITING, .attempt = 1, .failures = 1, .exit_code = -1, .error_code = "refused"};
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"done\",\"retry\":{\"attempts\":2}}}}", "{}");
    start.interruptions = 1;
    start.steps = &record;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    const struct report *running = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_RUNNING, 1);
    assert_int_equal(running->step.attempt, 3);
    assert_int_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.attempt, 3);
}

static void two_runs_of_a_handler_never_overlap_when_the_fence_grows(void **state)
{
    (void)state;
    struct engine_start start =
        engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"waits-for-go\"}}}", "{}");
    engine_fixture_start_with(&fixture, &start);
    wait_for_calls(1);
    start.fence = 2;
    engine_fixture_start_with(&fixture, &start);
    engine_fixture_await_loop(&fixture);
    assert_int_equal(atomic_load(&calls), 1);
    atomic_store(&may_go, true);
    assert_int_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->fence, 2);
    assert_int_equal(atomic_load(&calls), 2);
}

static void exec_is_retried_until_it_succeeds_but_not_on_named_codes(void **state)
{
    (void)state;
    const struct report *end = run(1,
                                   "\"exec\":[\"sh\",\"-c\",\"[ $WEIR_ATTEMPT = 3 ] || exit "
                                   "$WEIR_ATTEMPT\"],\"retry\":{\"attempts\":3,\"backoff\":\"1ms\"}",
                                   END_COMPLETED);
    assert_int_equal(end->step.attempt, 3);
    assert_int_equal(end->step.failures, 2);
    end = run(2,
              "\"exec\":[\"sh\",\"-c\",\"exit "
              "$WEIR_ATTEMPT\"],\"retry\":{\"attempts\":9,\"backoff\":\"1ms\",\"not_on\":[\"exit_2\"]}",
              END_FAILED);
    assert_int_equal(end->step.attempt, 2);
    assert_string_equal(end->error_code, "exit_2");
    end = run(3, "\"exec\":[\"false\"],\"retry\":{\"attempts\":4,\"backoff\":\"1ms\"}", END_FAILED);
    assert_int_equal(end->step.failures, 4); /* attempts: 4 is four runs */
}

static void sleep_is_on_record_with_its_delay_and_ends(void **state)
{
    (void)state;
    int64_t before_us = clock_boot(clock_system());
    (void)run(1, "\"sleep\":\"150ms\"", END_COMPLETED);
    assert_true(clock_boot(clock_system()) - before_us >= 150000);
    assert_int_equal(engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, 1)->step.due_in_us, 150000);
}

static void output_that_is_no_utf8_becomes_text(void **state)
{
    (void)state;
    assert_string_equal(run(1, "\"exec\":[\"printf\",\"a\\\\377b\"]", END_COMPLETED)->step.output, "\"a?b\"");
    assert_string_equal(run(2, "\"exec\":[\"printf\",\"a\\\\000b\"]", END_COMPLETED)->step.output, "\"a\\u0000b\"");
    assert_string_equal(run(3, "\"exec\":[\"true\"]", END_COMPLETED)->step.output, "\"\"");
}

/* --- without threads --- */

static int64_t now_us;

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static void engine_without_threads_runs_in_the_steps_of_its_caller(void **state)
{
    (void)state;
    const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    struct in_process_options stepped = options;
    struct engine_fixture own;
    stepped.clock = &clock;
    now_us = 1000;
    engine_fixture_open_stepped(&own, &stepped);
    engine_fixture_start(&own, 1,
                         "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{\"s\":{\"sleep\":\"1h\"},\"a\":{\"needs\":[\"s\"],"
                         "\"handler\":\"done\"}}}",
                         "{}");
    assert_int_equal(own.recorder.count, 0); /* start() reports nothing itself */
    int64_t next_us = 0;
    for (int i = 0; i < 10; i++) {
        next_us = engine_step(own.engine);
    }
    assert_true(next_us == 1000 + 3600 * MICROSECONDS_PER_SECOND);
    assert_int_equal(atomic_load(&calls), 0);
    now_us = next_us;
    for (int i = 0; i < 10; i++) {
        next_us = engine_step(own.engine);
    }
    assert_int_equal(atomic_load(&calls), 1);
    assert_int_equal(own.recorder.ended, 1);
    assert_true(next_us == TIME_NEVER);
    assert_int_equal(engine_running(own.engine), 0);
    engine_fixture_close(&own);
}

/* The step becomes due in the middle of a turn, at any of the turn's reads of the clock. */
static int looks_left;
static int64_t jumping_now_us;

static int64_t read_jumping(void *context)
{
    (void)context;
    if (looks_left > 0 && --looks_left == 0) {
        jumping_now_us += 2 * 3600 * MICROSECONDS_PER_SECOND;
    }
    return jumping_now_us;
}

static void retry_once(struct weir_call *call, void *context)
{
    (void)context;
    if (weir_call_attempt(call) == 1) {
        weir_retry(call, "later", NULL);
    } else {
        weir_done(call, NULL);
    }
}

static void timer_that_becomes_due_during_a_turn_fires_in_the_next_turn(void **state)
{
    (void)state;
    static const struct clock clock = {.wall_us = read_jumping, .boot_us = read_jumping};
    static const struct weir_handler handler = {"retry-once", retry_once, NULL};
    struct in_process_options jumping = {.clock = &clock, .handlers = &handler, .handler_count = 1};
    for (int look = 1; look < 12; look++) {
        struct engine_fixture own;
        int64_t next_us = 0;
        looks_left = 0;
        jumping_now_us = 1000;
        engine_fixture_open_stepped(&own, &jumping);
        engine_fixture_start(&own, 1,
                             "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{\"a\":{\"handler\":\"retry-once\",\"retry\":{"
                             "\"attempts\":2,\"backoff\":\"1h\"}}}}",
                             "{}");
        for (int i = 0; i < 10; i++) {
            next_us = engine_step(own.engine);
        }
        assert_true(next_us > jumping_now_us && next_us != TIME_NEVER);
        looks_left = look;
        do {
            next_us = engine_step(own.engine);
        } while (next_us <= jumping_now_us);
        looks_left = 0;
        if (next_us != TIME_NEVER) { /* the turn read the clock less often: then it is due now */
            jumping_now_us = next_us;
            for (int i = 0; i < 10; i++) {
                next_us = engine_step(own.engine);
            }
        }
        assert_int_equal(own.recorder.ended, 1);
        engine_fixture_close(&own);
    }
}

static void let_go(const struct engine_fixture *own, int number)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/go%d", own->directory, number);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void free_capacity_grows_only_after_durable_ends(void **state)
{
    (void)state;
    struct in_process_options small = options;
    struct engine_fixture own;
    small.max_running = 3;
    engine_fixture_open(&own, &small);
    own.recorder.is_manual = true;
    assert_int_equal(engine_free_capacity(own.engine), 3);
    engine_fixture_start(&own, 1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"done\"}}}", "{}");
    assert_int_equal(engine_free_capacity(own.engine), 2);
    const struct report *end = engine_fixture_expect_end(&own, 1, END_COMPLETED);
    assert_int_equal(engine_free_capacity(own.engine), 2);
    recorder_answer(&own.recorder, end, WEIR_OK);
    assert_int_equal(engine_free_capacity(own.engine), 3); /* at once: a dispatcher that wakes up now finds it */
    recorder_answer(&own.recorder, end, WEIR_OK);          /* twice frees nothing twice */
    engine_fixture_await_loop(&own);
    assert_int_equal(engine_free_capacity(own.engine), 3);
    engine_fixture_close(&own);
}

static void start_of_workspace(struct engine_fixture *own, int number, const char *workspace, const char *definition)
{
    struct engine_start start = engine_fixture_start_of(number, definition, "{}");
    start.workspace = workspace;
    engine_fixture_start_with(own, &start);
}

/* When this one has ended, which needs neither a process nor a thread, the engine has processed all starts before it. */
static void wait_for_all_before(struct engine_fixture *own, int number)
{
    engine_fixture_start(own, number, "{\"name\":\"t\",\"steps\":{\"a\":{\"sleep\":\"1ms\"}}}", "{}");
    (void)engine_fixture_expect_end(own, number, END_COMPLETED);
}

static void a_free_thread_serves_the_workspace_with_fewer_turns(void **state)
{
    (void)state;
    const char *definition = "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"notes-its-workspace\"}}}";
    for (int i = 1; i <= 20; i++) {
        start_of_workspace(&fixture, i, "noisy", definition);
    }
    wait_for_calls(2); /* there are two threads */
    start_of_workspace(&fixture, 21, "quiet", definition);
    wait_for_all_before(&fixture, 22);
    atomic_store(&turns_allowed, 1);
    wait_for_calls(3);
    atomic_store(&turns_allowed, 2);
    wait_for_calls(4);
    /* A call is counted before its caller is noted. */
    while (atomic_load(&callers[2]) == 0 || atomic_load(&callers[3]) == 0) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_true(atomic_load(&callers[2]) == 'q' || atomic_load(&callers[3]) == 'q');
    atomic_store(&may_go, true);
    for (int i = 1; i <= 21; i++) {
        (void)engine_fixture_expect_end(&fixture, i, END_COMPLETED);
    }
}

static const char *many_steps(const struct engine_fixture *own, int count)
{
    static struct text text;
    text_close(&text);
    text = (struct text){.max = 1000000};
    assert_int_equal(text_add_string(&text, "{\"name\":\"t\",\"steps\":{"), WEIR_OK);
    for (int i = 0; i < count; i++) {
        assert_int_equal(
            text_format(&text,
                        "%s\"s%d\":{\"exec\":[\"sh\",\"-c\",\"until [ -e $0/go%d ] || [ -e $0/go999 ]; do sleep "
                        "0.01; done\",\"%s\"]}",
                        i > 0 ? "," : "", i, i, own->directory),
            WEIR_OK);
    }
    assert_int_equal(text_add_string(&text, "}}"), WEIR_OK);
    return text.data;
}

/* Room for eight processes, one of which is for those that run no other. */
static void open_with_few_processes(struct engine_fixture *own, const struct in_process_options *with)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    engine_fixture_open(own, with);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static size_t begun(struct engine_fixture *own, int number)
{
    return recorder_count(&own->recorder, REPORT_STEP, engine_fixture_id(number), NULL, STEP_RUNNING);
}

/* An execution with 200 parallel steps holds up neither the first step of a neighbour nor the next one. */
static void a_workspace_beside_two_hundred_parallel_steps_starts_next(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct in_process_options with = options;
    with.max_parallel_steps = 200;
    open_with_few_processes(&own, &with);
    start_of_workspace(&own, 1, "noisy", many_steps(&own, 200));
    wait_for_all_before(&own, 2);
    assert_int_equal(begun(&own, 1), 7);
    start_of_workspace(&own, 3, "quiet", many_steps(&own, 1));
    (void)engine_fixture_expect(&own, REPORT_STEP, 3, "s0", STEP_RUNNING, 1);
    start_of_workspace(&own, 4, "third", many_steps(&own, 1));
    wait_for_all_before(&own, 5);
    assert_int_equal(begun(&own, 4), 0);
    assert_int_equal(begun(&own, 1), 7);
    let_go(&own, 1); /* one of `noisy` */
    (void)engine_fixture_expect(&own, REPORT_STEP, 4, "s0", STEP_RUNNING, 1);
    assert_int_equal(begun(&own, 1), 7);
    let_go(&own, 999);
    for (int i = 1; i <= 4; i++) {
        (void)engine_fixture_expect_end(&own, i, END_COMPLETED);
    }
    assert_int_equal(begun(&own, 1), 200);
    engine_fixture_close(&own);
}

/* However many processes there may be: records and the keeper serve in the order in which they are asked. */
static void a_workspace_waits_for_a_bounded_number_of_starts_of_another(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct in_process_options with = options;
    with.max_parallel_steps = 200;
    engine_fixture_open(&own, &with);
    own.recorder.is_manual = true;
    start_of_workspace(&own, 1, "noisy", many_steps(&own, 200));
    (void)engine_fixture_expect(&own, REPORT_STEP, 1, NULL, STEP_RUNNING, STEP_STARTS_MOST);
    start_of_workspace(&own, 2, "quiet", many_steps(&own, 1));
    (void)engine_fixture_expect(&own, REPORT_STARTED, 2, NULL, -1, 1);
    assert_int_equal(begun(&own, 1), STEP_STARTS_MOST);
    (void)engine_fixture_expect(&own, REPORT_STEP, 2, NULL, STEP_RUNNING, 1);
    assert_int_equal(begun(&own, 1), STEP_STARTS_MOST);
    /* Another one follows as soon as a process runs. */
    recorder_answer(&own.recorder, engine_fixture_expect(&own, REPORT_STEP, 1, NULL, STEP_RUNNING, 1), WEIR_OK);
    (void)engine_fixture_expect(&own, REPORT_STEP, 1, NULL, STEP_RUNNING, STEP_STARTS_MOST + 1);
    engine_fixture_close(&own);
}

static void parallel_steps_of_an_execution_are_bounded(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct in_process_options with = options;
    with.max_parallel_steps = 3;
    engine_fixture_open(&own, &with);
    engine_fixture_start(&own, 1, many_steps(&own, 10), "{}");
    wait_for_all_before(&own, 2);
    assert_int_equal(begun(&own, 1), 3);
    let_go(&own, 1);
    (void)engine_fixture_expect(&own, REPORT_STEP, 1, "s3", STEP_RUNNING, 1);
    wait_for_all_before(&own, 3);
    assert_int_equal(begun(&own, 1), 4);
    let_go(&own, 999);
    (void)engine_fixture_expect_end(&own, 1, END_COMPLETED);
    engine_fixture_close(&own);
}

static void a_step_that_waits_for_its_next_attempt_frees_its_place(void **state)
{
    (void)state;
    struct engine_fixture own;
    struct in_process_options with = options;
    with.max_parallel_steps = 1;
    engine_fixture_open(&own, &with);
    engine_fixture_start(&own, 1,
                         "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"fails-twice\",\"retry\":{\"attempts\":3,"
                         "\"backoff\":\"1ms\"}},\"b\":{\"handler\":\"waits-for-go\"}}}",
                         "{}");
    wait_for_calls(2); /* one of each */
    wait_for_all_before(&own, 2);
    assert_int_equal(recorder_count(&own.recorder, REPORT_STEP, engine_fixture_id(1), "a", STEP_WAITING), 1);
    assert_int_equal(atomic_load(&calls), 2);
    atomic_store(&may_go, true);
    const struct report *end = engine_fixture_expect_end(&own, 1, END_COMPLETED);
    assert_string_equal(end->step.step, "a");
    assert_int_equal(end->step.attempt, 2);
    engine_fixture_close(&own);
}

/* Nine steps and eight places, one step of another workspace: a step that waits for a process is not reported as running.
 */
static void a_step_without_a_place_for_its_process_is_not_on_record(void **state)
{
    (void)state;
    struct engine_fixture own;
    char definition[256];
    open_with_few_processes(&own, &options);
    for (int i = 1; i <= 9; i++) {
        (void)snprintf(definition, sizeof definition,
                       "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\","
                       "\"until [ -e $0/go%d ]; do sleep 0.01; done\",\"%s\"]}}}",
                       i > 1 && i < 9 ? 2 : i, own.directory);
        start_of_workspace(&own, i, i == 8 ? "other" : "acme", definition);
        if (i < 9) {
            (void)engine_fixture_expect(&own, REPORT_STEP, i, "a", STEP_RUNNING, 1);
        }
    }
    /* When the tenth has ended, which needs no process, the engine has processed the ninth. */
    engine_fixture_start(&own, 10, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"done\"}}}", "{}");
    (void)engine_fixture_expect_end(&own, 10, END_COMPLETED);
    assert_int_equal(recorder_count(&own.recorder, REPORT_STEP, engine_fixture_id(9), "a", -1), 0);
    let_go(&own, 1);
    (void)engine_fixture_expect_end(&own, 1, END_COMPLETED);
    (void)engine_fixture_expect(&own, REPORT_STEP, 9, "a", STEP_RUNNING, 1);
    let_go(&own, 9);
    (void)engine_fixture_expect_end(&own, 9, END_COMPLETED);
    /* A step that is cancelled while it waits is never reported and frees its place. */
    engine_fixture_start(&own, 11, definition, "{}");
    (void)engine_fixture_expect_end(&own, 11, END_COMPLETED);
    (void)snprintf(definition, sizeof definition, "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sleep\",\"300\"]}}}");
    engine_fixture_start(&own, 12, definition, "{}");
    (void)engine_fixture_expect(&own, REPORT_STEP, 12, "a", STEP_RUNNING, 1);
    engine_fixture_start(&own, 13, definition, "{}");
    engine_cancel(own.engine, engine_fixture_id(13), 1);
    (void)engine_fixture_expect_end(&own, 13, END_CANCELLED);
    assert_int_equal(recorder_count(&own.recorder, REPORT_STEP, engine_fixture_id(13), "a", STEP_RUNNING), 0);
    let_go(&own, 2);
    for (int i = 2; i < 9; i++) {
        (void)engine_fixture_expect_end(&own, i, END_COMPLETED);
    }
    engine_fixture_close(&own);
}

static void two_handlers_of_one_name_are_refused(void **state)
{
    (void)state;
    const struct weir_handler twins[] = {{.name = "x", .function = done}, {.name = "x", .function = fails}};
    const struct weir_handler nameless[] = {{.name = "A b", .function = done}};
    struct in_process_options wrong = {.handlers = twins, .handler_count = 2};
    struct engine *engine = NULL;
    struct weir_error error;
    assert_int_equal(in_process_open(&wrong, &engine, &error), WEIR_INVALID_ARGUMENT);
    wrong = (struct in_process_options){.handlers = nameless, .handler_count = 1};
    assert_int_equal(in_process_open(&wrong, &engine, &error), WEIR_INVALID_ARGUMENT);
    assert_null(engine);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

static void handler_reads_the_trace_context(void **state)
{
    (void)state;
    static const char definition[] = "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"tells-trace\"}}}";
    static const char caller[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    char span[SPAN_ID_LENGTH + 1];
    struct engine_start start = engine_fixture_start_of(1, definition, "{}");
    engine_fixture_start_with(&fixture, &start);
    assert_string_equal(engine_fixture_expect_end(&fixture, 1, END_COMPLETED)->step.output, "\"none\"");
    start = engine_fixture_start_of(2, definition, "{}");
    start.traceparent = caller;
    start.has_step_spans = true;
    engine_fixture_start_with(&fixture, &start);
    const char *output = engine_fixture_expect_end(&fixture, 2, END_COMPLETED)->step.output;
    span_id_of_step(engine_fixture_id(2), "a", 1, span);
    assert_non_null(strstr(output, "\"00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    assert_non_null(strstr(output, span));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(handler_gets_its_input_and_gives_its_output),
        CLAIM(handler_reads_the_trace_context),
        CLAIM(handler_that_fails_is_not_retried),
        CLAIM(handler_that_answers_retry_is_retried_by_its_policy),
        CLAIM(handler_without_a_policy_waits_a_minute_for_its_next_attempt),
        CLAIM(handler_without_an_answer_or_with_invalid_json_fails),
        CLAIM(handler_is_cancelled_at_its_timeout),
        CLAIM(handler_is_cancelled_with_its_execution),
        CLAIM(interrupted_handler_leaves_its_attempt_on_record),
        CLAIM(attempt_of_a_handler_grows_over_handovers),
        CLAIM(a_handler_that_was_handed_over_is_on_record_before_it_is_called),
        CLAIM(an_attempt_behind_a_wait_skips_those_without_a_record),
        CLAIM(two_runs_of_a_handler_never_overlap_when_the_fence_grows),
        CLAIM(exec_is_retried_until_it_succeeds_but_not_on_named_codes),
        CLAIM(sleep_is_on_record_with_its_delay_and_ends),
        CLAIM(output_that_is_no_utf8_becomes_text),
        CLAIM(engine_without_threads_runs_in_the_steps_of_its_caller),
        CLAIM(timer_that_becomes_due_during_a_turn_fires_in_the_next_turn),
        CLAIM(free_capacity_grows_only_after_durable_ends),
        CLAIM(a_free_thread_serves_the_workspace_with_fewer_turns),
        CLAIM(a_workspace_beside_two_hundred_parallel_steps_starts_next),
        CLAIM(a_workspace_waits_for_a_bounded_number_of_starts_of_another),
        CLAIM(parallel_steps_of_an_execution_are_bounded),
        CLAIM(a_step_that_waits_for_its_next_attempt_frees_its_place),
        CLAIM(a_step_without_a_place_for_its_process_is_not_on_record),
        CLAIM(two_handlers_of_one_name_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
