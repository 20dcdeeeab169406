/* The end of a sleep is recorded with the next report of its execution, after 10 ms at most. */
#include "dispatch/node.h"

#include "engine/engine.h"
#include "unit/dispatch/bench.h"

#define MS MICROSECONDS_PER_MS

static struct engine_operations inside;

/* An execution that does nothing by itself, on record as started. */
static void start_idle_execution(struct bench *bench, char *ret_id)
{
    push(bench, (struct scripted_outcome){.never_ends = true});
    enqueue(bench, "many", ret_id);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, ret_id, "status"), "DISPATCHED");
}

static void start_node_inside(struct bench *bench)
{
    inside = *bench->engine->operations;
    inside.features |= ENGINE_DIES_WITH_NODE;
    bench->engine->operations = &inside;
    start_node(bench);
}

static struct report *make_step_end(struct bench *bench, const char *id, const char *step, bool may_wait)
{
    struct report *report = report_new(REPORT_STEP, id, scripted_world_entry(bench->world, id)->fence_begun);
    assert_non_null(report);
    report->has_step = true;
    report->may_wait = may_wait;
    text_copy(report->step.step, sizeof report->step.step, step);
    report->step.state = STEP_COMPLETED;
    report->step.attempt = 1;
    return report;
}

static void end_execution(struct bench *bench, const char *id)
{
    struct report *report = report_new(REPORT_ENDED, id, scripted_world_entry(bench->world, id)->fence_begun);
    assert_non_null(report);
    report->end_state = END_COMPLETED;
    engine_report(bench->engine, report);
    engine_abandon(bench->engine, id, report->fence);
}

static void the_end_of_a_sleep_waits_for_the_next_report_of_its_execution(void **state)
{
    struct bench *bench = *state;
    char slept[UUID_TEXT_MAX];
    char other[UUID_TEXT_MAX];
    start_node_inside(bench);
    start_idle_execution(bench, slept);
    start_idle_execution(bench, other);
    engine_report(bench->engine, make_step_end(bench, slept, "wait", true));
    engine_report(bench->engine, make_step_end(bench, other, "run", false));
    pass(bench, 2 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 1); /* the one that does not wait */
    end_execution(bench, slept);
    pass(bench, 2 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 2);
    assert_string_equal(text_of(bench, slept, "status"), "COMPLETED");
    assert_int_equal(bench->counts[EVENT_STALE_WRITE_REFUSED], 0);
}

static void the_end_of_a_sleep_is_recorded_alone_after_a_moment(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_inside(bench);
    start_idle_execution(bench, id);
    engine_report(bench->engine, make_step_end(bench, id, "wait", true));
    pass(bench, 8 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 0);
    pass(bench, 4 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 1);
    end_execution(bench, id);
    pass(bench, 2 * MS);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
}

/* Its next report must not come before it, so neither waits. */
static void a_second_sleep_that_ends_takes_the_first_along(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node_inside(bench);
    start_idle_execution(bench, id);
    engine_report(bench->engine, make_step_end(bench, id, "first", true));
    engine_report(bench->engine, make_step_end(bench, id, "second", true));
    pass(bench, 2 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 2);
    engine_report(bench->engine, make_step_end(bench, id, "third", true)); /* all before it are on record: it waits */
    pass(bench, 2 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 2);
    pass(bench, 10 * MS);
    assert_int_equal(bench->counts[EVENT_STEP_ENDED], 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_end_of_a_sleep_waits_for_the_next_report_of_its_execution),
        TEST(the_end_of_a_sleep_is_recorded_alone_after_a_moment),
        TEST(a_second_sleep_that_ends_takes_the_first_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
