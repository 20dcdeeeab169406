/* The engine runs out of memory at each of its own allocations in turn: it never ends its process. A node that gives up all
 * claims after a lost order gets every execution to its end. */
#include <jansson.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "engine/in_process/step_report.h"
#include "support/engine_fixture.h"
#include "support/failing_memory.h"
#include "support/test.h"
#include "weir/handler.h"

enum {
    FAILURES_IN_A_ROW = 25,
    ALLOCATIONS_MOST = 100000,
    DEADLINE_S = 120,
    OUTPUT_LEAST_BYTES = 500000, /* more than all else that is allocated */
    READER_BYTES = 16            /* the first allocation of jansson's reader */
};
#define SEND_AGAIN_US (2 * MICROSECONDS_PER_SECOND)

static const char definition[] =
    "{\"name\":\"t\",\"steps\":{"
    "\"a\":{\"handler\":\"done\",\"input\":{\"n\":\"${.input.n}\"}},"
    "\"b\":{\"needs\":[\"a\"],\"exec\":[\"echo\",\"${.input.n | . + 1 | tostring}\"],\"stdin\":\"${.steps.a.output}\"},"
    "\"c\":{\"needs\":[\"b\"],\"sleep\":\"1ms\"}},"
    "\"finally\":{\"d\":{\"handler\":\"done\",\"input\":[\"${.failure}\",\"${.steps.a.output}\"]}}}";

static char one[] = "1";
static bool is_handed_over; /* with its first step done */
static atomic_int readers;  /* of JSON, since one is to fail */
static pid_t own_pid;
static atomic_int failing_reader; /* 0 = none */

/* A reader that cannot begin fails; base/json_test refuses memory everywhere in a text. And only one of the engine's: an
 * evaluator has a limit of its own, and an expression that passes it fails. */
static void *allocate_for_json(size_t size)
{
    bool fails = size == READER_BYTES && getpid() == own_pid && atomic_load(&failing_reader) > 0 &&
                 atomic_fetch_add(&readers, 1) + 1 == atomic_load(&failing_reader);
    return fails ? NULL : failing_memory_real_malloc(size);
}

static void done(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, "1");
}

/* Acts as a node: repeats a start without an answer, and gives up everything after a lost order. True when the execution
 * has ended and its capacity is free. */
static bool drive(struct engine_fixture *fixture, struct engine_start *start, int64_t *again_us)
{
    int64_t now_us = clock_boot(clock_system());
    if (engine_take_lost_report(fixture->engine)) {
        engine_abandon(fixture->engine, NULL, 0);
        start->fence++;
        *again_us = now_us;
    }
    if (recorder_count(&fixture->recorder, REPORT_ENDED, NULL, NULL, -1) > 0) {
        return engine_running(fixture->engine) == 0;
    }
    if (now_us >= *again_us) {
        struct weir_error error;
        *again_us = now_us + SEND_AGAIN_US;
        if (engine_start(fixture->engine, start, &error) != WEIR_OK) {
            *again_us = now_us;
        }
    }
    return false;
}

/* The number of allocations that were made; the execution is at its end. */
static int run_with_failures(int first, int count)
{
    static const struct weir_handler handlers[] = {{.name = "done", .function = done}};
    const struct in_process_options options = {
        .allow_exec = true, .handlers = handlers, .handler_count = 1, .handler_threads = 1};
    struct engine_fixture fixture;
    engine_fixture_open(&fixture, &options);
    struct engine_start start = engine_fixture_start_of(1, definition, "{\"n\": 4}");
    start.definition_id = first;
    struct step_record ended = {.step = "a", .state = STEP_COMPLETED, .attempt = 1, .output = one, .output_length = 1};
    if (is_handed_over) {
        start.steps = &ended;
        start.step_count = 1;
        start.interruptions = 1;
    }
    int64_t again_us = 0;
    int64_t deadline_us = clock_boot(clock_system()) + DEADLINE_S * MICROSECONDS_PER_SECOND;
    failing_memory_aim(first, count);
    failing_memory.armed = count > 0;
    while (!drive(&fixture, &start, &again_us)) {
        struct timespec pause = {.tv_nsec = 200000};
        (void)nanosleep(&pause, NULL);
        if (clock_boot(clock_system()) > deadline_us) {
            recorder_print(&fixture.recorder);
            fail_msg("allocation %d: it did not come to its end", first);
        }
    }
    int made = failing_memory.calls;
    failing_memory.armed = false;
    const struct report *end = recorder_wait(&fixture.recorder, REPORT_ENDED, NULL, NULL, -1, 1);
    if (end->end_state != END_COMPLETED) {
        recorder_print(&fixture.recorder);
        fail_msg("allocation %d: %s: %s", first, end->error_code, end->error != NULL ? end->error : "");
    }
    const struct report *printed = recorder_wait(&fixture.recorder, REPORT_STEP, NULL, "b", STEP_COMPLETED, 1);
    assert_string_equal(printed->step.output, "5\n"); /* a number stays one, however short of memory its reader was */
    engine_fixture_close(&fixture);
    return made;
}

static void sweep(int count)
{
    int first = 1;
    while (first < ALLOCATIONS_MOST && run_with_failures(first, count) >= first) {
        first += 1;
    }
    assert_in_range(first, 20, ALLOCATIONS_MOST - 1);
}

static void an_engine_survives_one_failed_allocation(void **state)
{
    (void)state;
    sweep(1);
}

static void an_engine_survives_a_series_of_failed_allocations(void **state)
{
    (void)state;
    sweep(FAILURES_IN_A_ROW);
}

static void sweep_readers(void)
{
    int reader = 0;
    do {
        atomic_store(&readers, 0);
        atomic_store(&failing_reader, ++reader);
        (void)run_with_failures(1, 0);
    } while (atomic_load(&readers) >= reader);
    atomic_store(&failing_reader, 0);
    assert_in_range(reader, 4, 1000);
}

static void an_engine_survives_one_failed_allocation_of_json(void **state)
{
    (void)state;
    is_handed_over = false;
    sweep_readers();
}

static void a_start_with_steps_on_record_survives_failed_allocations(void **state)
{
    (void)state;
    is_handed_over = true;
    sweep_readers();
}

/* Each report has a longer delay, as for a step that waits for files and processes. */
static void a_step_without_memory_for_its_output_waits_longer_each_time(void **state)
{
    static const char printer[] =
        "{\"name\":\"t\",\"steps\":{\"a\":{\"exec\":[\"sh\",\"-c\",\"head -c 900000 /dev/zero | tr '\\\\0' x\"]}}}";
    struct engine_fixture fixture;
    (void)state;
    engine_fixture_open(&fixture, NULL);
    failing_memory.least_bytes = OUTPUT_LEAST_BYTES;
    failing_memory.armed = true;
    engine_fixture_start(&fixture, 1, printer, "{}");
    for (size_t n = 1; n <= 2; n++) {
        const struct report *waiting = engine_fixture_expect(&fixture, REPORT_STEP, 1, "a", STEP_WAITING, n);
        assert_string_equal(waiting->step.error_code, STEP_NODE_SHORT);
        assert_int_equal(waiting->step.failures, 0);
        assert_int_equal(waiting->step.due_in_us, STEP_SHORTAGE_FIRST_US * (int64_t)n);
    }
    failing_memory.armed = false;
    failing_memory.least_bytes = 0;
    const struct report *end = engine_fixture_expect_end(&fixture, 1, END_COMPLETED);
    assert_int_equal(end->step.output_length, 900002); /* as JSON text */
    engine_fixture_close(&fixture);
}

int main(void)
{
    own_pid = getpid();
    json_set_alloc_funcs(allocate_for_json, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_without_memory_for_its_output_waits_longer_each_time),
        cmocka_unit_test(an_engine_survives_one_failed_allocation),
        cmocka_unit_test(an_engine_survives_a_series_of_failed_allocations),
        cmocka_unit_test(an_engine_survives_one_failed_allocation_of_json),
        cmocka_unit_test(a_start_with_steps_on_record_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
