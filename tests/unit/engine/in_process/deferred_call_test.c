/* Handlers that answer later, from another thread, and that are called when they shall end; and calls that are cancelled
 * while they wait for a thread. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/in_process/handler_pool.h"
#include "support/engine_fixture.h"
#include "support/test.h"
#include "weir/handler.h"

enum { HELD_MOST = 64, WAIT_MS_MOST = 90000 };

static struct engine_fixture fixture;
static _Atomic(struct weir_call *) held[HELD_MOST]; /* deferred, not answered */
static atomic_int held_count;
static atomic_int cancels;
static atomic_bool may_return;

static void rest(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    (void)nanosleep(&pause, NULL);
}

static void wait_for(atomic_int *counter, int count)
{
    for (int i = 0; i < WAIT_MS_MOST && atomic_load(counter) < count; i++) {
        rest();
    }
    assert_int_equal(atomic_load(counter), count);
}

static void hold(struct weir_call *call)
{
    int place = atomic_load(&held_count);
    atomic_store(&held[place], call);
    atomic_fetch_add(&held_count, 1);
}

static void defers(struct weir_call *call, void *context)
{
    (void)context;
    weir_call_defer(call);
    weir_call_defer(call); /* once is enough */
    hold(call);
}

/* The answer may overtake the return. */
static void defers_and_stays(struct weir_call *call, void *context)
{
    defers(call, context);
    while (!atomic_load(&may_return)) {
        rest();
    }
}

static void *answer_at_once(void *argument)
{
    weir_done(argument, "\"from another thread\"");
    return NULL;
}

/* The other thread has ended before the handler returns. */
static void is_overtaken(struct weir_call *call, void *context)
{
    (void)context;
    pthread_t thread;
    weir_call_defer(call);
    assert_int_equal(pthread_create(&thread, NULL, answer_at_once, call), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void answers_and_defers(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, "1");
    weir_call_defer(call);
}

static void note_cancel(struct weir_call *call, void *context)
{
    assert_true(weir_call_cancelled(call));
    atomic_fetch_add((atomic_int *)context, 1);
}

static void defers_until_cancelled(struct weir_call *call, void *context)
{
    weir_call_on_cancel(call, note_cancel, &cancels);
    defers(call, context);
}

static void retries_after(struct weir_call *call, void *context)
{
    weir_retry_after(call, *(const int64_t *)context, "busy", NULL);
}

static atomic_int begun;

static void counts(struct weir_call *call, void *context)
{
    (void)context;
    atomic_fetch_add(&begun, 1);
    weir_done(call, NULL);
}

static int64_t an_hour_us = 3600 * MICROSECONDS_PER_SECOND;
static int64_t for_ever_us = INT64_MAX;
static int64_t as_policy_us = -1;

static const struct weir_handler handlers[] = {
    {.name = "defers", .function = defers},
    {.name = "defers-and-stays", .function = defers_and_stays},
    {.name = "is-overtaken", .function = is_overtaken},
    {.name = "answers-and-defers", .function = answers_and_defers},
    {.name = "defers-until-cancelled", .function = defers_until_cancelled},
    {.name = "counts", .function = counts},
    {.name = "after-an-hour", .function = retries_after, .context = &an_hour_us},
    {.name = "after-for-ever", .function = retries_after, .context = &for_ever_us},
    {.name = "after-its-policy", .function = retries_after, .context = &as_policy_us},
};

static const struct in_process_options options = {
    .handlers = handlers, .handler_count = sizeof handlers / sizeof handlers[0], .handler_threads = 1};

static int open_fixture(void **state)
{
    (void)state;
    atomic_store(&held_count, 0);
    atomic_store(&cancels, 0);
    atomic_store(&begun, 0);
    atomic_store(&may_return, false);
    engine_fixture_open(&fixture, &options);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    atomic_store(&may_return, true);
    engine_fixture_close(&fixture);
    return 0;
}

static void start(int number, const char *handler, const char *more)
{
    char definition[256];
    (void)snprintf(definition, sizeof definition, "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"%s\"%s}}}", handler,
                   more);
    engine_fixture_start(&fixture, number, definition, "{}");
}

static const struct report *end_of(int number, enum end_state end)
{
    return engine_fixture_expect_end(&fixture, number, end);
}

static void one_thread_carries_many_deferred_calls(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    for (int i = 1; i <= COUNT; i++) {
        start(i, "defers", "");
    }
    wait_for(&held_count, COUNT); /* none of them holds the thread */
    for (int i = 0; i < COUNT; i++) {
        weir_done(atomic_load(&held[i]), i % 2 == 0 ? "{\"n\":1}" : NULL);
    }
    for (int i = 1; i <= COUNT; i++) {
        (void)end_of(i, END_COMPLETED);
    }
}

static void each_kind_of_answer_may_come_later(void **state)
{
    (void)state;
    start(1, "defers", ",\"retry\":{\"attempts\":2,\"backoff\":\"1ms\"}");
    wait_for(&held_count, 1);
    weir_retry(atomic_load(&held[0]), "busy", "not now");
    wait_for(&held_count, 2);
    weir_fail(atomic_load(&held[1]), "card_declined", "no money");
    assert_string_equal(end_of(1, END_FAILED)->error_code, "card_declined");
    start(2, "defers", "");
    wait_for(&held_count, 3);
    weir_done(atomic_load(&held[2]), "{nonsense");
    assert_string_equal(end_of(2, END_FAILED)->error_code, "handler_bad_output");
}

static void an_answer_may_come_before_the_return_of_the_handler(void **state)
{
    (void)state;
    start(1, "is-overtaken", "");
    assert_string_equal(end_of(1, END_COMPLETED)->step.output, "\"from another thread\"");
    start(2, "defers-and-stays", "");
    wait_for(&held_count, 1);
    weir_done(atomic_load(&held[0]), "2");
    atomic_store(&may_return, true);
    assert_string_equal(end_of(2, END_COMPLETED)->step.output, "2");
}

static void a_call_with_an_answer_is_not_deferred(void **state)
{
    (void)state;
    start(1, "answers-and-defers", "");
    assert_string_equal(end_of(1, END_COMPLETED)->step.output, "1");
}

static void a_step_has_run_since_its_handler_was_called(void **state)
{
    (void)state;
    start(1, "defers", "");
    wait_for(&held_count, 1);
    int64_t since_us = clock_boot(clock_system());
    while (clock_boot(clock_system()) < since_us + 2000) {
        rest();
    }
    weir_done(atomic_load(&held[0]), "1");
    assert_true(end_of(1, END_COMPLETED)->step.ran_us >= 2000);
}

static void a_timeout_calls_the_cancel_function_of_a_deferred_call(void **state)
{
    (void)state;
    int number = 0;
    while (atomic_load(&held_count) == 0 && number < 6) { /* on a busy machine it may be over before its begin: once more */
        char more[64];
        (void)snprintf(more, sizeof more, ",\"timeout\":\"%dms\",\"retry\":{\"attempts\":1}", 20 << 2 * number);
        start(++number, "defers-until-cancelled", more);
        while (atomic_load(&held_count) == 0 &&
               recorder_count(&fixture.recorder, REPORT_ENDED, engine_fixture_id(number), NULL, -1) == 0) {
            rest();
        }
    }
    wait_for(&held_count, 1);
    wait_for(&cancels, 1);
    struct weir_call *call = atomic_load(&held[0]);
    weir_call_on_cancel(call, note_cancel, &cancels); /* too late to be called later: called here */
    assert_int_equal(atomic_load(&cancels), 2);
    weir_done(call, NULL);
    assert_string_equal(end_of(number, END_FAILED)->error_code, "timeout");
    assert_int_equal(atomic_load(&cancels), 2);
}

static void a_cancel_calls_the_cancel_function_of_a_deferred_call(void **state)
{
    (void)state;
    start(1, "defers-until-cancelled", "");
    wait_for(&held_count, 1);
    engine_cancel(fixture.engine, engine_fixture_id(1), 1);
    wait_for(&cancels, 1);
    weir_retry(atomic_load(&held[0]), "cancelled", NULL);
    (void)end_of(1, END_CANCELLED);
}

/* The only thread is in the handler of this execution until let_thread_go(). */
static void occupy_thread(int number)
{
    start(number, "defers-and-stays", "");
    wait_for(&held_count, 1);
    weir_done(atomic_load(&held[0]), NULL);
}

static void let_thread_go(int number)
{
    atomic_store(&may_return, true);
    (void)end_of(number, END_COMPLETED);
}

static void a_call_that_is_cancelled_in_the_queue_is_not_begun(void **state)
{
    (void)state;
    occupy_thread(1);
    start(2, "counts", "");
    engine_cancel(fixture.engine, engine_fixture_id(2), 1);
    start(3, "counts", ",\"timeout\":\"1ms\",\"retry\":{\"attempts\":1}");
    engine_fixture_start(&fixture, 4, "{\"name\":\"t\",\"steps\":{\"a\":{\"sleep\":\"20ms\"}}}", "{}");
    (void)end_of(4, END_COMPLETED); /* the engine has passed the cancel and the timeout */
    let_thread_go(1);
    (void)end_of(2, END_CANCELLED);
    assert_string_equal(end_of(3, END_FAILED)->error_code, "timeout");
    assert_int_equal(atomic_load(&begun), 0);
}

static void an_interrupt_begins_no_call_of_the_queue(void **state)
{
    (void)state;
    start(1, "defers-until-cancelled", "");
    wait_for(&held_count, 1);
    start(2, "defers-and-stays", "");
    wait_for(&held_count, 2);
    start(3, "counts", "");
    (void)engine_fixture_expect(&fixture, REPORT_STARTED, 3, NULL, -1, 1);
    engine_stop(fixture.engine, true);
    wait_for(&cancels, 1);
    start(4, "counts", "");
    (void)engine_fixture_expect(&fixture, REPORT_REFUSED, 4, NULL, -1, 1); /* in a later turn than all cancels */
    weir_done(atomic_load(&held[0]), NULL);
    weir_done(atomic_load(&held[1]), NULL);
    atomic_store(&may_return, true);
    (void)engine_fixture_expect(&fixture, REPORT_GIVEN_BACK, 3, NULL, -1, 1);
    const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, 3, "a", STEP_WAITING, 1);
    assert_int_equal(waiting->step.failures, 0);
    assert_int_equal(atomic_load(&begun), 0);
}

/* --- calls for tasks of other nodes --- */

enum { TASKS_MOST = 4 };
static atomic_int task_ends;
static enum engine_call_end ends_of_tasks[TASKS_MOST]; /* the place of a task is its owner */

static void note_task_end(void *context, const struct engine_called *called)
{
    (void)context;
    *(enum engine_call_end *)called->owner = called->end;
    assert_true(called->end != ENGINE_CALL_RETRY || strcmp(called->code, "cancelled") == 0);
    atomic_fetch_add(&task_ends, 1);
}

static void call_for_task(struct engine *engine, size_t place, const char *handler)
{
    struct engine_call call = {.owner = &ends_of_tasks[place],
                               .execution_id = "e",
                               .workspace = "acme",
                               .step = "a",
                               .handler = handler,
                               .input = "{}",
                               .attempt = 1,
                               .fence = 1,
                               .timeout_us = TIME_NEVER};
    struct weir_error error;
    assert_int_equal(engine_call(engine, &call, &error), WEIR_OK);
}

static void a_task_that_is_lost_in_the_queue_is_not_begun(void **state)
{
    (void)state;
    atomic_store(&task_ends, 0);
    engine_set_sink(fixture.engine, (struct report_sink){.called = note_task_end});
    call_for_task(fixture.engine, 0, "defers-until-cancelled");
    wait_for(&held_count, 1);
    call_for_task(fixture.engine, 3, "defers-and-stays");
    wait_for(&held_count, 2);
    call_for_task(fixture.engine, 1, "counts");
    call_for_task(fixture.engine, 2, "counts");
    engine_cancel_call(fixture.engine, &ends_of_tasks[1], true);
    engine_cancel_call(fixture.engine, &ends_of_tasks[2], false);
    engine_cancel_call(fixture.engine, &ends_of_tasks[0], true);
    wait_for(&cancels, 1); /* the engine has passed all three */
    weir_done(atomic_load(&held[0]), NULL);
    weir_done(atomic_load(&held[1]), NULL);
    atomic_store(&may_return, true);
    wait_for(&task_ends, TASKS_MOST);
    assert_int_equal(atomic_load(&begun), 0);
    assert_int_equal(ends_of_tasks[1], ENGINE_CALL_DROPPED);
    assert_int_equal(ends_of_tasks[2], ENGINE_CALL_RETRY);
}

static void *answer_after_cancel(void *argument)
{
    (void)argument;
    wait_for(&cancels, 2);
    for (int i = 0; i < 2; i++) {
        weir_done(atomic_load(&held[i]), NULL);
    }
    return NULL;
}

static void closing_awaits_deferred_calls(void **state)
{
    (void)state;
    struct engine_fixture own;
    pthread_t thread;
    engine_fixture_open(&own, &options);
    const char *definition = "{\"name\":\"t\",\"steps\":{\"a\":{\"handler\":\"defers-until-cancelled\"}}}";
    engine_fixture_start(&own, 1, definition, "{}");
    engine_fixture_start(&own, 2, definition, "{}");
    wait_for(&held_count, 2);
    assert_int_equal(pthread_create(&thread, NULL, answer_after_cancel, NULL), 0);
    engine_fixture_close(&own); /* under a sanitizer: nothing is used after it, and nothing leaks */
    assert_int_equal(atomic_load(&cancels), 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_retry_delay_replaces_the_delay_of_the_policy(void **state)
{
    (void)state;
    const char *policy = ",\"retry\":{\"attempts\":2,\"backoff\":\"10ms\"}";
    start(1, "after-an-hour", policy);
    const struct report *wait = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, 1);
    assert_int_equal(wait->step.due_in_us, an_hour_us);
    assert_string_equal(wait->step.error_code, "busy");
    start(2, "after-for-ever", policy);
    wait = engine_fixture_expect(&fixture, REPORT_STEP, 2, "a", STEP_WAITING, 1);
    assert_int_equal(wait->step.due_in_us, (int64_t)365 * 86400 * MICROSECONDS_PER_SECOND);
    start(3, "after-its-policy", policy);
    wait = engine_fixture_expect(&fixture, REPORT_STEP, 3, "a", STEP_WAITING, 1);
    assert_true(wait->step.due_in_us <= 10000);
    (void)end_of(3, END_FAILED);
    start(4, "after-an-hour", ",\"retry\":{\"attempts\":1}"); /* no run is left */
    assert_string_equal(end_of(4, END_FAILED)->error_code, "busy");
}

static enum log_stream last_stream;

static void keep_output(void *context, const struct engine_output *output)
{
    assert_string_equal(output->step, "a");
    assert_int_equal(output->attempt, 7);
    last_stream = output->stream;
    assert_true(output->at_us > 0);
    assert_int_equal(text_add(context, output->bytes, output->length), WEIR_OK);
}

static void log_lines_of_a_handler_have_their_stream_and_a_newline(void **state)
{
    (void)state;
    struct text text = {.max = 100};
    struct engine engine = {.clock = clock_system()};
    struct weir_call *call = weir_call_new();
    weir_call_log(call, "a call without an engine", 3);
    engine_set_sink(&engine, (struct report_sink){.context = &text, .output = keep_output});
    call->engine = &engine;
    call->execution_id = "x";
    call->step = "a";
    call->attempt = 7;
    weir_call_log(call, "one", 3);
    assert_int_equal(last_stream, LOG_HANDLER);
    weir_call_output(call, WEIR_STREAM_STDOUT, "two\nthree\n", 10);
    assert_int_equal(last_stream, LOG_STDOUT);
    weir_call_output(call, WEIR_STREAM_STDERR, "", 0);
    assert_int_equal(last_stream, LOG_STDOUT);
    weir_call_output(call, WEIR_STREAM_STDERR, "four", 4);
    assert_int_equal(last_stream, LOG_STDERR);
    weir_call_output(call, (enum weir_stream)9, "five", 4);
    assert_int_equal(last_stream, LOG_HANDLER);
    assert_int_equal(text.length, 24);
    assert_memory_equal(text.data, "one\ntwo\nthree\nfour\nfive\n", 24);
    weir_call_free(call);
    text_close(&text);
}

/* --- progress --- */

static int progress_count;
static int last_parts;
static bool last_is_end;
static char last_text[PROGRESS_TEXT_MAX + 1];

static void keep_progress(void *context, const struct engine_progress *progress)
{
    (void)context;
    assert_string_equal(progress->step, "a");
    assert_int_equal(progress->attempt, 7);
    assert_int_equal(progress->fence, 9);
    assert_true(progress->at_us > 0);
    progress_count++;
    last_parts = progress->parts;
    last_is_end = progress->text == NULL;
    (void)snprintf(last_text, sizeof last_text, "%s", last_is_end ? "" : progress->text);
}

static void assert_progress(struct weir_call *call, double fraction, const char *text, int parts, const char *kept)
{
    int before = progress_count;
    weir_call_progress(call, fraction, text);
    assert_int_equal(progress_count, before + 1);
    assert_int_equal(last_parts, parts);
    assert_string_equal(last_text, kept);
}

static void progress_of_any_number_and_text_is_made_fit(void **state)
{
    (void)state;
    char text[300];
    char kept[201];
    struct engine engine = {.clock = clock_system()};
    struct weir_call *call = weir_call_new();
    weir_call_progress(call, 0.5, "a call without an engine");
    engine_set_sink(&engine, (struct report_sink){.progress = keep_progress});
    call->engine = &engine;
    call->execution_id = "x";
    call->step = "a";
    call->attempt = 7;
    call->fence = 9;
    handler_pool_end_progress(call);
    assert_int_equal(progress_count, 0); /* it has reported nothing */
    assert_progress(call, 0.4, "400 of 1000", 4000, "400 of 1000");
    assert_progress(call, 0.3333, NULL, 3333, "");
    assert_progress(call, (double)NAN, "unknown", -1, "unknown");
    assert_progress(call, -0.1, "", 0, "");
    assert_progress(call, 1.5, "", PROGRESS_PARTS, "");
    assert_progress(call, (double)INFINITY, "", PROGRESS_PARTS, "");
    assert_progress(call, -(double)INFINITY, "", 0, "");
    assert_progress(call, 1, "a\nb\x1b[31mc\xff", PROGRESS_PARTS, "a b?[31mc?");
    memset(text, 'x', sizeof text);
    memcpy(text + 199, "\xc3\xa9", 2); /* the cut would be inside of this character */
    text[sizeof text - 1] = '\0';
    memset(kept, 'x', sizeof kept);
    kept[199] = '\0';
    assert_progress(call, 0, text, 0, kept);
    handler_pool_end_progress(call);
    assert_true(last_is_end);
    weir_call_free(call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_thread_carries_many_deferred_calls, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(each_kind_of_answer_may_come_later, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(an_answer_may_come_before_the_return_of_the_handler, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_call_with_an_answer_is_not_deferred, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_step_has_run_since_its_handler_was_called, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_timeout_calls_the_cancel_function_of_a_deferred_call, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(a_cancel_calls_the_cancel_function_of_a_deferred_call, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_call_that_is_cancelled_in_the_queue_is_not_begun, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(an_interrupt_begins_no_call_of_the_queue, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_task_that_is_lost_in_the_queue_is_not_begun, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(closing_awaits_deferred_calls, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_retry_delay_replaces_the_delay_of_the_policy, open_fixture, close_fixture),
        cmocka_unit_test(log_lines_of_a_handler_have_their_stream_and_a_newline),
        cmocka_unit_test(progress_of_any_number_and_text_is_made_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
