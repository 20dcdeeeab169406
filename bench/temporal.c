/* The Temporal engine against the scripted frontend, which has a thread of its own: what a start costs in the client, and
 * how many a second go through the whole of weir: enqueued, within their caps, sent, and on record as running. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/temporal/temporal.h"
#include "fixture.h"
#include "support/frontend.h"

enum {
    STARTS = 50000,
    STARTS_QUICK = 1000,
    TEMPORAL_WORKSPACES = 1000, /* with as many slots each as all starts need */
    SLOTS = 100,
    WAIT_SECONDS_MAX = 300
};
#define DEFINITION "{\"name\":\"outside\",\"temporal\":{\"task_queue\":\"q\"}}"

static struct weir_error fault;

/* What a healthy service says: it runs. Its end never comes. */
static void answer(void *context, const struct frontend_call *call, struct frontend_answer *ret_answer)
{
    /* run_id = 1, started = 3, status = 5 (RUNNING) */
    static const char started[] = "\x0a\x24"
                                  "00000000-0000-4000-8000-000000000001"
                                  "\x18\x01\x28\x01";
    (void)context;
    if (strstr(call->path, "/StartWorkflowExecution") != NULL) {
        ret_answer->response = started;
        ret_answer->response_length = sizeof started - 1;
    } else if (strstr(call->path, "/GetWorkflowExecutionHistory") != NULL) {
        ret_answer->fate = FATE_HOLD;
    }
}

static struct frontend *open_frontend(void)
{
    struct frontend *frontend = frontend_open(&(struct frontend_options){.handler = answer});
    BENCH_CHECK(frontend != NULL && frontend_run(frontend) == 0);
    return frontend;
}

static struct engine *open_engine(const struct frontend *frontend, size_t starts, size_t polls_max)
{
    struct engine *engine = NULL;
    struct temporal_options options = {
        .address = frontend_address(frontend), .max_running = starts, .starts_max = 64, .polls_max = polls_max};
    BENCH_OK(temporal_open(&options, &engine, &fault), &fault);
    return engine;
}

/* --- the client alone, in this thread --- */

static void count_started(void *context, struct report *report)
{
    *(size_t *)context += report->kind == REPORT_STARTED;
    report_free(report);
}

static void run_starts(struct engine *engine, size_t *sent, const size_t *started, size_t until)
{
    double end = bench_now() + WAIT_SECONDS_MAX;
    while (*started < until) {
        for (size_t room = engine_room(engine); room > 0 && *sent < until; room--, (*sent)++) {
            struct engine_start start = {.workspace = "acme",
                                         .workflow = "outside",
                                         .version = 1,
                                         .definition_id = 1,
                                         .definition = DEFINITION,
                                         .params = "{\"customer\": 7}",
                                         .params_length = strlen("{\"customer\": 7}"),
                                         .fence = 1,
                                         .attempt = 1};
            (void)snprintf(start.id, sizeof start.id, "019aa000-0000-7000-8000-%012zu", *sent);
            BENCH_OK(engine_start(engine, &start, &fault), &fault);
        }
        int64_t wait_us = engine_step(engine) - clock_boot(clock_system());
        struct pollfd ready = {.fd = engine_fd(engine), .events = POLLIN};
        if (wait_us > 0 && *started < until && (*sent == until || engine_room(engine) == 0)) {
            (void)poll(&ready, 1, wait_us < MICROSECONDS_PER_SECOND ? (int)(wait_us / MICROSECONDS_PER_MS) + 1 : 1000);
        }
        BENCH_CHECK(bench_now() < end);
    }
}

static void measure_client(struct bench *bench, size_t starts)
{
    size_t sent = 0;
    size_t started = 0;
    size_t warm = starts / 10;
    struct frontend *frontend = open_frontend();
    struct engine *engine = open_engine(frontend, starts + warm, SIZE_MAX);
    engine_set_sink(engine, (struct report_sink){count_started, &started});
    run_starts(engine, &sent, &started, warm); /* connects, and fills the caches of header compression */
    double began = bench_now();
    double cpu_us = bench_thread_cpu_us();
    run_starts(engine, &sent, &started, warm + starts);
    cpu_us = bench_thread_cpu_us() - cpu_us;
    double seconds = bench_now() - began;
    bench_report(bench, "temporal: client CPU per start", cpu_us / (double)starts, "us", 0, VALUE_AT_MOST, 15);
    bench_note(bench, "temporal: starts of the client alone", (double)starts / seconds, "starts/s");
    engine_close(engine);
    frontend_close(frontend);
}

/* --- through weir --- */

/* Told once it is on record. */
static void count_dispatched(void *context, const struct event *event)
{
    if (event->type == EVENT_EXECUTION_DISPATCHED) {
        atomic_fetch_add((atomic_size_t *)context, 1);
    }
}

static void await_dispatched(atomic_size_t *dispatched, size_t count)
{
    double end = bench_now() + WAIT_SECONDS_MAX;
    while (atomic_load(dispatched) < count) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000000};
        BENCH_CHECK(bench_now() < end);
        (void)nanosleep(&pause, NULL);
    }
}

static void measure_whole(struct bench *bench, size_t starts)
{
    struct store *store = fixture_store(bench, "temporal");
    struct plan_change plan = {.name = "wide", .max_concurrent = SLOTS};
    BENCH_OK(store_set_plan(store, &plan, &fault), &fault);
    fixture_publish(store, "outside", DEFINITION);
    fixture_workspaces(store, 0, TEMPORAL_WORKSPACES, plan.name);
    fixture_fill_with(store, "outside", 0, TEMPORAL_WORKSPACES, starts);
    struct frontend *frontend = open_frontend();
    struct engine *engine = open_engine(frontend, starts, 0);
    struct node_settings settings = {.name = "bench"};
    struct fixture_node node = {.engine = engine};
    struct event_bus events = {0};
    atomic_size_t dispatched = 0;
    BENCH_CHECK(event_subscribe(&events, count_dispatched, &dispatched));
    double began = bench_now();
    BENCH_OK(node_open(store, engine, &events, &settings, &node.node, &fault), &fault);
    BENCH_OK(node_run_threads(node.node, &fault), &fault);
    await_dispatched(&dispatched, starts);
    double seconds = bench_now() - began;
    bench_report(bench, "temporal: starts through weir, SQLite", (double)starts / seconds, "starts/s", 0, VALUE_AT_LEAST,
                 10000);
    BENCH_CHECK(fixture_count(store, "SELECT count(*) FROM workflow_execution_queue WHERE status = 'DISPATCHED'") ==
                (int64_t)starts);
    fixture_stop(&node);
    fixture_check(store);
    store_close(store);
    frontend_close(frontend);
}

void bench_temporal(struct bench *bench)
{
    size_t starts = bench->quick ? STARTS_QUICK : STARTS;
    measure_client(bench, starts);
    measure_whole(bench, starts);
}
