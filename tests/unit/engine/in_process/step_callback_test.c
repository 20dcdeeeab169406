/* Reports of functions to http steps in the engine: which one ends the step, and what it leaves. On a clock that the test
 * sets. Each step is on record from an earlier claim, so no test sends a request. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/in_process/step_callback.h"
#include "support/engine_fixture.h"
#include "support/test.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define BEGIN_US 1000
#define SECRET "s3cret-value"
#define STEPS "{\"name\":\"t\",\"hold_slot\":true,\"steps\":{"
#define CALL                                                                                                               \
    "\"call\":{\"http\":{\"url\":\"https://weir.example/f\",\"method\":\"POST\",\"callback\":\"1h\"},"                     \
    "\"retry\":{\"attempts\":2,\"backoff\":\"1s\"}"
#define BEARER                                                                                                             \
    "\"call\":{\"http\":{\"url\":\"https://weir.example/f\",\"method\":\"POST\",\"callback\":\"1h\",\"bearer\":\"key\"}"

static int64_t now_us;
static struct engine_fixture fixture;
static struct engine_fixture folder; /* of the secrets */

static int64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

static void echo(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, weir_call_input(call));
}

static void break_down(struct weir_call *call, void *context)
{
    (void)context;
    weir_fail(call, "broken", "it broke");
}

static const char *secret_path(void)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/key", folder.directory);
    return path;
}

static void write_secret(void)
{
    FILE *file = fopen(secret_path(), "w");
    assert_non_null(file);
    assert_true(fputs(SECRET "\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int open_fixture(void **state)
{
    static const struct clock clock = {.wall_us = read_now, .boot_us = read_now};
    static const struct weir_handler handlers[] = {{"echo", echo, NULL}, {"fail", break_down, NULL}};
    static const char *const allowed[] = {"weir.example", NULL};
    (void)state;
    engine_fixture_make_directory(&folder);
    now_us = BEGIN_US;
    write_secret();
    engine_fixture_open_stepped(&fixture, &(struct in_process_options){.clock = &clock,
                                                                       .handlers = handlers,
                                                                       .handler_count = 2,
                                                                       .http_allow_list = allowed,
                                                                       .secrets_directory = folder.directory});
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    engine_fixture_close(&fixture);
    engine_fixture_close(&folder);
    return 0;
}

static void run_until_idle(void)
{
    for (int i = 0; i < 60; i++) {
        (void)engine_step(fixture.engine);
    }
}

static size_t count_of(const char *step, enum step_state state)
{
    return recorder_count(&fixture.recorder, REPORT_STEP, NULL, step, (int)state) +
           recorder_count(&fixture.recorder, REPORT_ENDED, NULL, step, (int)state);
}

/* The record of the step, perhaps together with the end of the execution. */
static const struct report *record_of(const char *step, enum step_state state)
{
    bool is_last = recorder_count(&fixture.recorder, REPORT_ENDED, NULL, step, (int)state) > 0;
    if (count_of(step, state) == 0) { /* the engine is stepped, so nothing more comes */
        recorder_print(&fixture.recorder);
        fail_msg("no record of %s", step);
    }
    return recorder_wait(&fixture.recorder, is_last ? REPORT_ENDED : REPORT_STEP, NULL, step, (int)state, 1);
}

static struct signal_record report_of(int64_t seq, int attempt, const char *data)
{
    struct signal_record signal = {.seq = seq, .data = data, .data_length = strlen(data)};
    (void)snprintf(signal.name, sizeof signal.name, "callback:call:%d:%032d", attempt, 0);
    return signal;
}

static void send_report(int64_t seq, int attempt, const char *data)
{
    struct signal_record signal = report_of(seq, attempt, data);
    engine_signal(fixture.engine, engine_fixture_id(1), 1, &signal);
    run_until_idle();
}

/* With these records, and `data` as the report of attempt 1; NULL = there is none. */
static void take_over(const char *definition, struct step_record *records, size_t count, const char *data)
{
    struct engine_start start = engine_fixture_start_of(1, definition, "{}");
    struct signal_record signal = report_of(1, 1, data == NULL ? "null" : data);
    start.steps = records;
    start.step_count = count;
    start.signals = &signal;
    start.signal_count = data == NULL ? 0 : 1;
    start.signals_seen = data == NULL ? 0 : 1;
    engine_fixture_start_with(&fixture, &start);
    run_until_idle();
}

/* `call` on record, in its first attempt. */
static struct step_record on_record(enum step_state state, const char *code, int64_t due_in_us)
{
    struct step_record record = {
        .step = "call", .state = state, .attempt = 1, .failures = *code != '\0', .exit_code = -1, .due_in_us = due_in_us};
    text_copy(record.error_code, sizeof record.error_code, code);
    return record;
}

/* --- the result --- */

static void secrets_of_the_step_are_hidden_in_its_report(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_RUNNING, "", 0);
    take_over(STEPS BEARER "}}}", &record, 1, "{\"output\":{\"said\":\"Bearer " SECRET "\"}}");
    const struct report *done = record_of("call", STEP_COMPLETED);
    assert_string_equal(done->step.output, "{\"said\":\"Bearer ***\"}");
    assert_int_equal(done->step.signal_seq, 1);
}

static void secrets_of_the_step_are_hidden_in_its_failure(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_RUNNING, "", 0);
    take_over(STEPS BEARER "}}}", &record, 1, "{\"error_code\":\"no-" SECRET "\",\"error\":\"refused Bearer " SECRET "\"}");
    const struct report *failed = record_of("call", STEP_FAILED);
    assert_string_equal(failed->step.error_code, "no-***");
    assert_string_equal(failed->step.error, "refused Bearer ***");
    assert_string_equal(failed->error, "refused Bearer ***");
}

static void a_report_waits_for_a_secret_that_its_node_has_lost(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "", 3600 * SECOND_US);
    take_over(STEPS BEARER "}}}", &record, 1, NULL);
    assert_int_equal(unlink(secret_path()), 0);
    send_report(1, 1, "{\"output\":\"" SECRET "\"}");
    const struct report *waits = record_of("call", STEP_WAITING);
    assert_string_equal(waits->step.error_code, "secret_missing");
    assert_int_equal(waits->step.signal_seq, 0);
    write_secret();
    now_us += 60 * SECOND_US;
    run_until_idle();
    const struct report *done = record_of("call", STEP_COMPLETED);
    assert_string_equal(done->step.output, "\"***\"");
    assert_int_equal(done->step.signal_seq, 1);
    assert_int_equal(done->step.attempt, 1);
}

static void code_and_error_of_a_report_are_made_safe(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_RUNNING, "", 0);
    take_over(STEPS CALL "}}}", &record, 1, "{\"error_code\":\"a\\u001b[31m\",\"error\":\"b\\u0007\\n\",\"retry\":false}");
    const struct report *failed = record_of("call", STEP_FAILED);
    assert_string_equal(failed->step.error_code, "a?[31m");
    assert_string_equal(failed->step.error, "b? ");
}

/* --- attempts --- */

#define FAILED_LATE "{\"error_code\":\"late\",\"error\":null}"

static void an_attempt_that_has_failed_does_not_fail_again_by_its_report(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "http_500", SECOND_US);
    take_over(STEPS CALL "}}}", &record, 1, FAILED_LATE);
    assert_int_equal(count_of("call", STEP_FAILED), 0);
    fixture.recorder.is_manual = true;
    now_us += SECOND_US;
    run_until_idle();
    const struct report *second = record_of("call", STEP_RUNNING);
    assert_int_equal(second->step.attempt, 2);
    assert_int_equal(second->step.failures, 1);
    assert_int_equal(second->step.signal_seq, 1); /* so the store passes it on no more */
}

static void a_final_failure_ends_the_wait_for_the_next_attempt(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "http_500", SECOND_US);
    take_over(STEPS CALL "}}}", &record, 1, "{\"error_code\":\"gone\",\"retry\":false}");
    const struct report *failed = record_of("call", STEP_FAILED);
    assert_string_equal(failed->step.error_code, "gone");
    assert_int_equal(failed->step.failures, 1);
}

static void a_failure_is_one_of_the_attempts(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_RUNNING, "", 0);
    take_over(STEPS CALL "}}}", &record, 1, FAILED_LATE);
    const struct report *waits = record_of("call", STEP_WAITING);
    assert_int_equal(waits->step.failures, 1);
    assert_string_equal(waits->step.error_code, "late");
    assert_int_equal(waits->step.signal_seq, 1);
}

static void a_result_that_is_known_stops_the_next_request(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "http_500", SECOND_US);
    take_over(STEPS CALL "}}}", &record, 1, NULL);
    fixture.recorder.is_manual = true;
    now_us += SECOND_US;
    run_until_idle();
    const struct report *second = record_of("call", STEP_RUNNING);
    send_report(1, 1, "{\"output\":7}");
    assert_int_equal(count_of("call", STEP_COMPLETED), 0);
    fixture.recorder.is_manual = false;
    recorder_answer(&fixture.recorder, second, WEIR_OK);
    run_until_idle();
    assert_string_equal(record_of("call", STEP_COMPLETED)->step.output, "7");
    (void)engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
}

/* --- the time --- */

static void a_report_that_was_taken_in_time_wins_over_the_timeout(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "", SECOND_US);
    take_over(STEPS CALL "}}}", &record, 1, NULL);
    now_us += SECOND_US;
    run_until_idle();
    assert_int_equal(count_of("call", STEP_WAITING), 0); /* no failed attempt */
    send_report(1, 1, "{\"output\":7}");
    assert_string_equal(record_of("call", STEP_COMPLETED)->step.output, "7");
}

static void without_a_report_the_attempt_fails_after_the_grace(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "", SECOND_US);
    take_over(STEPS CALL "}}}", &record, 1, NULL);
    now_us += SECOND_US + STEP_CALLBACK_GRACE_US - 1;
    run_until_idle();
    assert_int_equal(count_of("call", STEP_WAITING), 0);
    now_us += 1;
    run_until_idle();
    assert_string_equal(record_of("call", STEP_WAITING)->step.error_code, "callback_timeout");
}

/* Its claim has brought all reports. */
static void a_claim_after_the_time_needs_no_grace(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "", -1);
    take_over(STEPS CALL "}}}", &record, 1, NULL);
    assert_string_equal(record_of("call", STEP_WAITING)->step.error_code, "callback_timeout");
}

/* --- the end of the execution --- */

#define WITH_UNDO STEPS CALL ",\"undo\":{\"handler\":\"echo\",\"input\":\"${.steps.call.output}\"}}"

static void a_report_goes_before_the_failure_of_another_step(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "http_500", SECOND_US);
    take_over(WITH_UNDO ",\"nap\":{\"sleep\":\"1s\"},\"bad\":{\"needs\":[\"nap\"],\"handler\":\"fail\"}}}", &record, 1,
              NULL);
    fixture.recorder.is_manual = true;
    now_us += SECOND_US;
    run_until_idle();
    const struct report *second = record_of("call", STEP_RUNNING);
    send_report(1, 1, "{\"output\":\"booked\"}");
    recorder_answer(&fixture.recorder, record_of("nap", STEP_COMPLETED), WEIR_OK);
    run_until_idle();
    recorder_answer(&fixture.recorder, record_of("bad", STEP_FAILED), WEIR_OK);
    run_until_idle();
    fixture.recorder.is_manual = false;
    recorder_answer(&fixture.recorder, second, WEIR_OK);
    run_until_idle();
    assert_int_equal(count_of("call", STEP_CANCELLED), 0);
    assert_string_equal(record_of("call", STEP_COMPLETED)->step.output, "\"booked\"");
    assert_string_equal(record_of("call.undo", STEP_COMPLETED)->step.output, "\"booked\"");
    (void)engine_fixture_expect_end(&fixture, 1, END_FAILED);
}

/* As the next claim finds it on a node that has begun nothing. */
static void a_failed_execution_takes_the_report_that_its_claim_brings(void **state)
{
    (void)state;
    char text[] = "it broke";
    struct step_record records[] = {
        on_record(STEP_WAITING, "", 3600 * SECOND_US),
        {.step = "bad", .state = STEP_FAILED, .attempt = 1, .error_code = "broken", .error = text, .finished_us = 40}};
    take_over(WITH_UNDO ",\"bad\":{\"handler\":\"fail\"}}}", records, 2, "{\"output\":\"booked\"}");
    assert_string_equal(record_of("call", STEP_COMPLETED)->step.output, "\"booked\"");
    assert_string_equal(record_of("call.undo", STEP_COMPLETED)->step.output, "\"booked\"");
    (void)engine_fixture_expect_end(&fixture, 1, END_FAILED);
}

/* Its step is stopped, as one whose request is open. */
static void a_failure_of_a_cancelled_execution_is_no_failure_of_the_step(void **state)
{
    (void)state;
    struct step_record record = on_record(STEP_WAITING, "http_500", SECOND_US);
    take_over(STEPS CALL "}}}", &record, 1, NULL);
    fixture.recorder.is_manual = true;
    now_us += SECOND_US;
    run_until_idle();
    const struct report *second = record_of("call", STEP_RUNNING);
    send_report(1, 2, FAILED_LATE);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    run_until_idle();
    fixture.recorder.is_manual = false;
    recorder_answer(&fixture.recorder, second, WEIR_OK);
    run_until_idle();
    assert_int_equal(count_of("call", STEP_FAILED), 0);
    (void)engine_fixture_expect_end(&fixture, 1, END_CANCELLED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(secrets_of_the_step_are_hidden_in_its_report),
        TEST(secrets_of_the_step_are_hidden_in_its_failure),
        TEST(a_report_waits_for_a_secret_that_its_node_has_lost),
        TEST(code_and_error_of_a_report_are_made_safe),
        TEST(an_attempt_that_has_failed_does_not_fail_again_by_its_report),
        TEST(a_final_failure_ends_the_wait_for_the_next_attempt),
        TEST(a_failure_is_one_of_the_attempts),
        TEST(a_result_that_is_known_stops_the_next_request),
        TEST(a_report_that_was_taken_in_time_wins_over_the_timeout),
        TEST(without_a_report_the_attempt_fails_after_the_grace),
        TEST(a_claim_after_the_time_needs_no_grace),
        TEST(a_report_goes_before_the_failure_of_another_step),
        TEST(a_failed_execution_takes_the_report_that_its_claim_brings),
        TEST(a_failure_of_a_cancelled_execution_is_no_failure_of_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
