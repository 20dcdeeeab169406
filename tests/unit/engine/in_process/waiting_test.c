/* When an execution gives its slot back: REPORT_PARKED, and what comes after it. On a clock that the test sets. */
#include <stdio.h>
#include <string.h>

#include "support/engine_fixture.h"
#include "support/test.h"

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)
#define BEGIN_US 1000

static int64_t now_us;
static int calls;
static int last_attempt;
static struct engine_fixture fixture;
static struct engine_fixture folder; /* of the secrets */

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static void done(struct weir_call *call, void *context)
{
    (void)context;
    calls++;
    last_attempt = weir_call_attempt(call);
    weir_done(call, NULL);
}

static void retry(struct weir_call *call, void *context)
{
    (void)context;
    calls++;
    weir_retry(call, "later", NULL);
}

static void lost(struct weir_call *call, void *context)
{
    (void)context;
    calls++;
    weir_interrupted(call, "its worker has gone");
}

static int open_fixture(void **state)
{
    static const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    static const struct weir_handler handlers[] = {{"done", done, NULL}, {"retry", retry, NULL}, {"lost", lost, NULL}};
    (void)state;
    struct in_process_options options = {.clock = &clock, .handlers = handlers, .handler_count = 3};
    engine_fixture_make_directory(&folder);
    options.secrets_directory = folder.directory;
    now_us = BEGIN_US;
    calls = 0;
    last_attempt = 0;
    engine_fixture_open_stepped(&fixture, &options);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    engine_fixture_close(&folder);
    return 0;
}

/* Lets the engine do all that is due. Returns when it wants to go on. */
static int64_t run_until_idle(void)
{
    int64_t next_us = 0;
    for (int i = 0; i < 20; i++) {
        next_us = engine_step(fixture.engine);
    }
    return next_us;
}

static size_t count_of(enum report_kind kind)
{
    return recorder_count(&fixture.recorder, kind, NULL, NULL, -1);
}

/* The execution has left the engine, with this report and no end. */
static void assert_parked(int64_t delay_us, enum wait_kind waiting_for)
{
    assert_int_equal(count_of(REPORT_PARKED), 1);
    assert_int_equal(count_of(REPORT_ENDED), 0);
    assert_int_equal(count_of(REPORT_GIVEN_BACK), 0);
    const struct report *report = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    assert_true(report->delay_us == delay_us);
    assert_int_equal(report->waiting_for, waiting_for);
    assert_int_equal(engine_running(fixture.engine), 0);
}

static void assert_not_parked(void)
{
    assert_int_equal(count_of(REPORT_PARKED), 0);
    assert_int_equal(engine_running(fixture.engine), 1);
}

static void a_long_sleep_gives_the_slot_back(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"}}}", "{}");
    assert_true(run_until_idle() == TIME_NEVER);
    assert_parked(HOUR_US, WAIT_SLEEP);
    /* One report has the beginning of the wait and the park. */
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_PARKED, NULL, "s", STEP_WAITING), 1);
    assert_int_equal(count_of(REPORT_STEP), 0);
}

static void a_short_sleep_keeps_it(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1s\"}}}", "{}");
    assert_true(run_until_idle() == BEGIN_US + PARK_AFTER_US);
    assert_not_parked();
    now_us += PARK_AFTER_US;
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_ENDED), 1);
}

static void hold_slot_keeps_it(void **state)
{
    (void)state;
    static const char *const definitions[] = {
        "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{\"s\":{\"sleep\":\"1h\"}}}",
        "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\",\"hold_slot\":true},\"u\":{\"sleep\":\"2h\"}}}",
        ("{\"name\":\"t\",\"hold_slot\":true,\"steps\":{\"a\":{\"handler\":\"retry\","
         "\"retry\":{\"attempts\":2,\"backoff\":\"1h\"}}}}")};
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++) {
        engine_fixture_start(&fixture, (int)i + 1, definitions[i], "{}");
        assert_true(run_until_idle() <= now_us + HOUR_US);
        assert_not_parked();
        engine_cancel(fixture.engine, engine_fixture_id((int)i + 1), 1);
        (void)run_until_idle();
        assert_int_equal(engine_running(fixture.engine), 0);
    }
    assert_int_equal(count_of(REPORT_ENDED), 3);
}

static void a_long_delay_of_an_attempt_gives_it_back(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"retry\","
                         "\"retry\":{\"attempts\":2,\"backoff\":\"1h\"}}}}",
                         "{}");
    (void)run_until_idle();
    const struct report *waits = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_WAITING, 1);
    assert_string_equal(waits->step.error_code, "later");
    assert_parked(waits->step.due_in_us, WAIT_RETRY);
    assert_int_equal(calls, 1);
}

/* The first of several waits counts, and a step that may begin is begun. */
static void it_waits_for_the_first_of_its_steps(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{\"late\":{\"sleep\":\"2h\"},\"soon\":{\"sleep\":\"1h\"},"
                         "\"a\":{\"handler\":\"done\"},\"b\":{\"needs\":[\"a\",\"late\"],\"handler\":\"done\"}}}",
                         "{}");
    (void)run_until_idle();
    assert_parked(HOUR_US, WAIT_SLEEP);
    assert_int_equal(calls, 1);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_COMPLETED), 1);
}

/* As the next claim finds it: the first sleep is over, and the second one is not. */
static void a_woken_execution_goes_on_and_waits_again(void **state)
{
    (void)state;
    struct engine_start start = engine_fixture_start_of(1,
                                                        "{\"name\":\"t\",\"steps\":{\"late\":{\"sleep\":\"2h\"},"
                                                        "\"soon\":{\"sleep\":\"1h\"},"
                                                        "\"a\":{\"needs\":[\"soon\"],\"handler\":\"done\"}}}",
                                                        "{}");
    struct step_record records[] = {
        {.step = "late", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = HOUR_US},
        {.step = "soon", .state = STEP_WAITING, .attempt = 1, .exit_code = -1}};
    start.steps = records;
    start.step_count = 2;
    start.running_for_us = HOUR_US;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "soon", STEP_COMPLETED), 1);
    assert_int_equal(calls, 1);
    assert_int_equal(last_attempt, 1); /* a park skips no number */
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_RUNNING), 0);
    assert_parked(HOUR_US, WAIT_SLEEP);
}

static void the_timeout_of_the_execution_ends_the_wait(void **state)
{
    (void)state;
    static const char definition[] = "{\"name\":\"t\",\"timeout\":\"30m\",\"steps\":{\"s\":{\"sleep\":\"1h\"}}}";
    engine_fixture_start(&fixture, 1, definition, "{}");
    (void)run_until_idle();
    assert_parked(HOUR_US / 2, WAIT_SLEEP);
    struct engine_start start = engine_fixture_start_of(2, definition, "{}");
    struct step_record record = {
        .step = "s", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = HOUR_US / 2};
    start.steps = &record;
    start.step_count = 1;
    start.running_for_us = HOUR_US / 2;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_PARKED), 1);
    const struct report *end = engine_fixture_expect_end(&fixture, 2, END_FAILED);
    assert_string_equal(end->error_code, "execution_timeout");
}

/* A step ended before this claim, so another one could begin. */
static void no_step_begins_when_the_time_of_the_execution_is_over(void **state)
{
    (void)state;
    struct engine_start start =
        engine_fixture_start_of(1,
                                "{\"name\":\"t\",\"timeout\":\"30m\",\"steps\":{\"late\":{\"sleep\":"
                                "\"2h\"},\"soon\":{\"sleep\":\"1s\"},"
                                "\"a\":{\"needs\":[\"soon\"],\"handler\":\"done\"}}}",
                                "{}");
    struct step_record records[] = {
        {.step = "late", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = HOUR_US},
        {.step = "soon", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1}};
    start.steps = records;
    start.step_count = 2;
    start.running_for_us = HOUR_US / 2;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(calls, 0);
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_FAILED);
    assert_string_equal(end->error_code, "execution_timeout");
    assert_string_equal(end->step.step, "late");
    assert_int_equal(end->step.state, STEP_CANCELLED);
}

static void a_step_gives_up_the_slot_that_its_workflow_keeps(void **state)
{
    (void)state;
    engine_fixture_start(
        &fixture, 1, "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{\"s\":{\"sleep\":\"1h\",\"hold_slot\":false}}}", "{}");
    (void)run_until_idle();
    assert_parked(HOUR_US, WAIT_SLEEP);
}

/* A wait for something of the node keeps the slot, and is over with the next attempt that begins. */
static void a_shortage_that_is_over_keeps_no_slot(void **state)
{
    (void)state;
    char path[300];
    engine_fixture_start(&fixture, 1,
                         "{\"name\":\"t\",\"steps\":{\"a\":{\"when\":\"${.input.wanted}\",\"secrets\":[\"key\"],"
                         "\"handler\":\"retry\",\"retry\":{\"attempts\":2,\"backoff\":\"1h\"}}}}",
                         "{\"wanted\":true}");
    int64_t next_us = run_until_idle();
    const struct report *waits = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_WAITING, 1);
    assert_string_equal(waits->step.error_code, "secret_missing");
    assert_not_parked();
    (void)snprintf(path, sizeof path, "%s/key", folder.directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "value\n");
    assert_int_equal(fclose(file), 0);
    now_us = next_us;
    (void)run_until_idle();
    assert_int_equal(calls, 1);
    assert_int_equal(count_of(REPORT_PARKED), 1);
    assert_int_equal(engine_running(fixture.engine), 0);
}

/* The losses of an earlier claim that made a failure are still counted. */
static void lost_workers_are_counted_across_a_wait(void **state)
{
    (void)state;
    struct engine_start start = engine_fixture_start_of(1,
                                                        "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"lost\","
                                                        "\"retry\":{\"attempts\":3,\"backoff\":\"1h\"}}}}",
                                                        "{}");
    struct step_record record = {
        .step = "a", .state = STEP_WAITING, .attempt = 3, .failures = 1, .exit_code = -1, .error_code = STEP_WORKER_LOST};
    start.steps = &record;
    start.step_count = 1;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(calls, 1);
    const struct report *waits = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_WAITING, 1);
    assert_int_equal(waits->step.failures, 2);
    assert_int_equal(waits->step.attempt, 4);
    assert_parked(waits->step.due_in_us, WAIT_RETRY);
}

/* Else a handler that kills its nodes between its failures would never be suspected. */
static void an_attempt_after_a_lost_node_and_a_park_is_on_record_first(void **state)
{
    (void)state;
    struct engine_start start =
        engine_fixture_start_of(1, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"done\"}}}", "{}");
    struct step_record record = {.step = "a", .state = STEP_WAITING, .attempt = 2, .failures = 1, .exit_code = -1};
    start.steps = &record;
    start.step_count = 1;
    start.lost_a_node = true;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "a", STEP_RUNNING), 1);
    assert_int_equal(last_attempt, 3);
}

/* After a park it would start beside others, which may die with it. */
static void a_suspect_keeps_it_until_a_step_of_it_ends(void **state)
{
    (void)state;
    static const char *const definitions[] = {
        "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"}}}",
        "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"},\"a\":{\"handler\":\"done\"}}}"};
    for (int i = 0; i < 2; i++) {
        struct engine_start start = engine_fixture_start_of(i + 1, definitions[i], "{}");
        start.is_suspect = true;
        engine_fixture_start_with(&fixture, &start);
        (void)run_until_idle();
        if (i == 0) {
            assert_not_parked();
            engine_cancel(fixture.engine, engine_fixture_id(1), 1);
            (void)run_until_idle();
        }
    }
    assert_int_equal(count_of(REPORT_PARKED), 1);
    assert_int_equal(engine_running(fixture.engine), 0);
}

/* Beside a step that is to go on soon, a sleep is on record by itself, and the park follows when that step has ended. */
static void a_sleep_beside_a_short_one_is_on_record_at_once(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"},\"b\":{\"sleep\":\"1s\"}}}",
                         "{}");
    now_us = run_until_idle();
    assert_not_parked();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "s", STEP_WAITING), 1);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "b", STEP_WAITING), 1);
    (void)run_until_idle();
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_STEP, NULL, "b", STEP_COMPLETED), 1);
    assert_parked(HOUR_US - MICROSECONDS_PER_SECOND, WAIT_SLEEP);
}

/* As the next claim finds a sleep that is over. */
static void resume_after_sleep(const struct signal_record *signal)
{
    struct engine_start start = engine_fixture_start_of(
        1, "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"},\"a\":{\"needs\":[\"s\"],\"handler\":\"done\"}}}", "{}");
    struct step_record record = {.step = "s", .state = STEP_WAITING, .attempt = 1, .exit_code = -1};
    start.steps = &record;
    start.step_count = 1;
    start.signals = signal;
    start.signal_count = signal != NULL;
    fixture.recorder.is_manual = true;
    engine_fixture_start_with(&fixture, &start);
    (void)run_until_idle();
}

/* Any node would end the sleep alike, so its record may come with the next one. */
static void the_step_after_a_sleep_does_not_wait_for_its_record(void **state)
{
    (void)state;
    resume_after_sleep(NULL);
    const struct report *slept = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "s", STEP_COMPLETED, 1);
    assert_true(slept->may_wait);
    assert_int_equal(calls, 1);
    assert_int_equal(recorder_count(&fixture.recorder, REPORT_ENDED, NULL, "a", STEP_COMPLETED), 1);
}

/* The output shows that an act has ended the sleep: no step reads it before it is durable. */
static void the_step_after_a_woken_sleep_waits_for_its_record(void **state)
{
    (void)state;
    struct signal_record wake = {.name = "wake:s", .seq = 1, .data = "1", .data_length = 1};
    resume_after_sleep(&wake);
    const struct report *slept = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "s", STEP_COMPLETED, 1);
    assert_false(slept->may_wait);
    assert_int_equal(calls, 0);
    recorder_answer(&fixture.recorder, slept, WEIR_OK);
    (void)run_until_idle();
    assert_int_equal(calls, 1);
}

/* The store decides between a cancel and a park: the engine makes no second report. */
static void a_cancel_after_the_report_changes_nothing(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"}}}", "{}");
    fixture.recorder.is_manual = true;
    (void)run_until_idle();
    const struct report *parked = recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    engine_stop(fixture.engine, true);
    (void)run_until_idle();
    assert_int_equal(count_of(REPORT_ENDED) + count_of(REPORT_GIVEN_BACK), 0);
    assert_int_equal(engine_running(fixture.engine), 1);
    recorder_answer(&fixture.recorder, parked, WEIR_OK);
    (void)run_until_idle();
    assert_parked(HOUR_US, WAIT_SLEEP);
}

static void a_park_of_a_lost_claim_leaves_the_engine(void **state)
{
    (void)state;
    engine_fixture_start(&fixture, 1, "{\"name\":\"t\",\"steps\":{\"s\":{\"sleep\":\"1h\"}}}", "{}");
    fixture.recorder.is_manual = true;
    (void)run_until_idle();
    recorder_answer(&fixture.recorder, recorder_wait(&fixture.recorder, REPORT_PARKED, NULL, NULL, -1, 1),
                    WEIR_STALE_FENCE);
    (void)run_until_idle();
    assert_int_equal(engine_running(fixture.engine), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_sleep_gives_the_slot_back, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_short_sleep_keeps_it, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_sleep_beside_a_short_one_is_on_record_at_once, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(the_step_after_a_sleep_does_not_wait_for_its_record, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(the_step_after_a_woken_sleep_waits_for_its_record, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(hold_slot_keeps_it, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_long_delay_of_an_attempt_gives_it_back, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(it_waits_for_the_first_of_its_steps, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_woken_execution_goes_on_and_waits_again, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(the_timeout_of_the_execution_ends_the_wait, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(no_step_begins_when_the_time_of_the_execution_is_over, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_step_gives_up_the_slot_that_its_workflow_keeps, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_shortage_that_is_over_keeps_no_slot, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(lost_workers_are_counted_across_a_wait, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(an_attempt_after_a_lost_node_and_a_park_is_on_record_first, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(a_suspect_keeps_it_until_a_step_of_it_ends, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_cancel_after_the_report_changes_nothing, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_park_of_a_lost_claim_leaves_the_engine, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
