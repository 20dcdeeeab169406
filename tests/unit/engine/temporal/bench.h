/* An engine on a virtual clock and a service in memory, and the last report of each kind. One thread. For test programs of
 * one file: everything is static.
 */
#ifndef WEIR_TESTS_UNIT_ENGINE_TEMPORAL_BENCH_H
#define WEIR_TESTS_UNIT_ENGINE_TEMPORAL_BENCH_H

#include "support/test.h"

#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

enum { REPORT_KINDS = REPORT_ENGINE_SOUND + 1 };
#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define ID_TWO "019aa000-0000-7000-8000-000000000002"
#define SECOND_US MICROSECONDS_PER_SECOND
#define BENCH_PARAMS "{\"customer\": 7}"

struct bench {
    struct clock clock;
    int64_t now_us;
    struct fake_temporal *service;
    struct engine *engine;
    struct report *last[REPORT_KINDS];
    size_t counts[REPORT_KINDS];
};

static int64_t bench_now(void *context)
{
    return ((struct bench *)context)->now_us;
}

static void bench_hear(void *context, struct report *report)
{
    struct bench *bench = context;
    report_free(bench->last[report->kind]);
    bench->last[report->kind] = report;
    bench->counts[report->kind]++;
}

/* `codec`: NULL = the engine has none. */
static void open_bench_with(struct bench *bench, const struct codec_wire *codec)
{
    memset(bench, 0, sizeof *bench);
    bench->now_us = 1000 * SECOND_US;
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    bench->service = fake_temporal_open(&bench->clock);
    struct temporal_options options = {.starts_max = 64, .clock = &bench->clock};
    struct temporal_wire wire = fake_temporal_wire(bench->service);
    if (codec != NULL) {
        wire.codec = *codec;
    }
    assert_int_equal(temporal_open_on(&options, &wire, &bench->engine, NULL), WEIR_OK);
    engine_set_sink(bench->engine, (struct report_sink){bench_hear, bench});
}

static inline void open_bench(struct bench *bench)
{
    open_bench_with(bench, NULL);
}

static void close_bench(struct bench *bench)
{
    engine_close(bench->engine);
    fake_temporal_close(bench->service);
    for (size_t i = 0; i < REPORT_KINDS; i++) {
        report_free(bench->last[i]);
    }
}

/* Lets `us` pass, doing everything at its time. */
static void pass(struct bench *bench, int64_t us)
{
    int64_t end_us = bench->now_us + us;
    for (int64_t next_us = engine_step(bench->engine); next_us <= end_us; next_us = engine_step(bench->engine)) {
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us;
    }
    bench->now_us = end_us;
    (void)engine_step(bench->engine);
}

static struct engine_start start_of(const char *id)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "onboard",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\"}}",
                                 .params = BENCH_PARAMS,
                                 .params_length = strlen(BENCH_PARAMS),
                                 .fence = 5,
                                 .attempt = 1};
    memcpy(start.id, id, sizeof start.id);
    return start;
}

static void start_one(struct bench *bench, const char *id)
{
    struct engine_start start = start_of(id);
    assert_int_equal(engine_start(bench->engine, &start, NULL), WEIR_OK);
}

static size_t heard(const struct bench *bench, enum report_kind kind)
{
    return bench->counts[kind];
}

/* The last report of the kind; it must be there. */
static const struct report *last(const struct bench *bench, enum report_kind kind)
{
    if (bench->last[kind] == NULL) {
        fail_msg("no report of kind %d", (int)kind);
    }
    return bench->last[kind];
}

static void start_and_follow(struct bench *bench, const char *id)
{
    size_t before = heard(bench, REPORT_STARTED);
    start_one(bench, id);
    pass(bench, 10 * MICROSECONDS_PER_MS);
    assert_int_equal(heard(bench, REPORT_STARTED), before + 1);
}

#endif
