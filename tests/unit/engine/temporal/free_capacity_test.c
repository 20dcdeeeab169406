/* The free capacity that the engine reports while starts are answered one by one. */
#include "support/test.h"

#include <stdio.h>

#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

enum { STARTS_MAX = 48, WORTH_IT = STARTS_MAX / CAPACITY_PARTS };

struct bench {
    struct clock clock;
    int64_t now_us;
    int64_t ordered_us; /* the starts */
    struct fake_temporal *service;
    struct engine *engine;
    size_t urgent; /* reports that the recorder may not collect */
};

static int64_t bench_now(void *context)
{
    return ((struct bench *)context)->now_us;
}

static void hear(void *context, struct report *report)
{
    ((struct bench *)context)->urgent += !report->may_wait;
    report_free(report);
}

/* All starts that may be under way are; the service has answered so many of them. */
static void open_answered(struct bench *bench, size_t answered)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "onboard",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\"}}",
                                 .params = "{}",
                                 .params_length = 2,
                                 .fence = 1,
                                 .start_number = 1};
    *bench = (struct bench){.now_us = 1000 * MICROSECONDS_PER_SECOND};
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    bench->service = fake_temporal_open(&bench->clock);
    struct temporal_wire wire = fake_temporal_wire(bench->service);
    struct temporal_options options = {.starts_max = STARTS_MAX, .clock = &bench->clock};
    assert_int_equal(temporal_open_on(&options, &wire, &bench->engine, NULL), WEIR_OK);
    engine_set_sink(bench->engine, (struct report_sink){.report = hear, .context = bench});
    assert_int_equal(engine_free_capacity(bench->engine), STARTS_MAX);
    for (size_t i = 0; i < STARTS_MAX; i++) {
        fake_temporal_push(bench->service, i < answered ? FAKE_FINE : FAKE_SLOW);
        (void)snprintf(start.id, sizeof start.id, "019aa000-0000-7000-8000-%012zu", i);
        assert_int_equal(engine_start(bench->engine, &start, NULL), WEIR_OK);
    }
    assert_int_equal(engine_free_capacity(bench->engine), 0);
    bench->ordered_us = bench->now_us;
    for (int turns = 0; turns < 100 && engine_running(bench->engine) < answered; turns++) {
        int64_t next_us = engine_step(bench->engine);
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us;
    }
    assert_int_equal(engine_running(bench->engine), answered);
    assert_true(bench->now_us < bench->ordered_us + CAPACITY_WAITS_US - 1);
}

static void close_bench(struct bench *bench)
{
    engine_close(bench->engine);
    fake_temporal_close(bench->service);
}

/* The service answers none of them. */
static void no_more_starts_are_under_way_than_the_setting_allows(void **state)
{
    struct bench bench;
    (void)state;
    open_answered(&bench, 0);
    bench.now_us += CAPACITY_WAITS_US;
    assert_int_equal(engine_free_capacity(bench.engine), 0);
    close_bench(&bench);
}

static void few_free_places_are_reported_after_a_wait(void **state)
{
    struct bench bench;
    (void)state;
    open_answered(&bench, WORTH_IT - 1);
    assert_int_equal(engine_free_capacity(bench.engine), 0);
    bench.now_us = bench.ordered_us + CAPACITY_WAITS_US - 1;
    assert_int_equal(engine_free_capacity(bench.engine), 0);
    bench.now_us++;
    assert_int_equal(engine_free_capacity(bench.engine), WORTH_IT - 1);
    close_bench(&bench);
}

static void several_free_places_are_reported_at_once(void **state)
{
    struct bench bench;
    (void)state;
    open_answered(&bench, WORTH_IT);
    assert_int_equal(engine_free_capacity(bench.engine), WORTH_IT);
    close_bench(&bench);
}

/* The report of its end never waits. */
static void the_report_of_a_start_may_wait(void **state)
{
    struct bench bench;
    (void)state;
    open_answered(&bench, WORTH_IT);
    assert_int_equal(bench.urgent, 0);
    fake_temporal_end(bench.service, "019aa000-0000-7000-8000-000000000000", RUN_STATUS_COMPLETED, "{}");
    for (int seconds = 0; seconds < 120 && bench.urgent == 0; seconds++) {
        bench.now_us += MICROSECONDS_PER_SECOND;
        (void)engine_step(bench.engine);
    }
    assert_int_equal(bench.urgent, 1);
    close_bench(&bench);
}

/* Nobody else's record would take it along. */
static void the_report_of_the_last_start_does_not_wait(void **state)
{
    struct bench bench;
    (void)state;
    open_answered(&bench, STARTS_MAX - 1);
    assert_int_equal(bench.urgent, 0);
    close_bench(&bench);
    open_answered(&bench, STARTS_MAX);
    assert_int_equal(bench.urgent, 1);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_starts_are_under_way_than_the_setting_allows),
        cmocka_unit_test(few_free_places_are_reported_after_a_wait),
        cmocka_unit_test(several_free_places_are_reported_at_once),
        cmocka_unit_test(the_report_of_a_start_may_wait),
        cmocka_unit_test(the_report_of_the_last_start_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
