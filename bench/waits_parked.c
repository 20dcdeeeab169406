/* Many executions that are parked for years, and a thousand each second that become due: how late these start, and how much
 * memory and time to start a node has beside the parked ones, compared with the same load without them.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "waits.h"

enum { PER_SECOND = 1000, SET = 100, RESTARTS = 5, FIRST_RESTART = STARTS_MAX - RESTARTS - 1 };

static struct weir_error fault;

struct parked {
    double late_p50_ms;
    double late_p99_ms;
    double rss_mib;
    double own_mib;
    double restart_ms; /* the longest: from the order to stop to the first start of the next node */
};

/* One of an executions that sleep until their moment, a thousand each second. `starts->enqueued` has the moments. */
static void enqueue_due(struct waits *waits, size_t count, double first)
{
    double ahead = waits_store_ahead(waits);
    for (size_t done = 0; done < count; done += SET) {
        struct enqueue_request requests[SET] = {0};
        struct enqueue_result results[SET];
        char params[SET][96];
        char names[SET][16];
        for (size_t i = 0; i < SET; i++) {
            size_t number = done + i;
            char at[WAITS_TEXT_MAX];
            double due = first + (double)number / PER_SECOND;
            waits_format_time(due + ahead, at, sizeof at);
            atomic_store(&waits->starts->enqueued[number], due);
            (void)snprintf(names[i], sizeof names[i], "%s", fixture_workspace(number % WAITS_WORKSPACES));
            int length = snprintf(params[i], sizeof params[i], "{\"n\": %zu, \"until\": \"%s\"}", number, at);
            requests[i] = (struct enqueue_request){
                .workspace = names[i], .workflow = "due", .params = params[i], .params_length = (size_t)length};
        }
        BENCH_OK(store_enqueue(waits->scene.store, requests, SET, results, &fault), &fault);
        for (size_t i = 0; i < SET; i++) {
            BENCH_OK(results[i].status, &results[i].error);
        }
    }
}

/* A new node has the work of the former one, and the first execution that is enqueued meanwhile. */
static double restart_ms(struct waits *waits, size_t number)
{
    double began = bench_now();
    waits_stop_node(waits);
    waits_start_node(waits);
    starts_enqueue(waits->starts, waits->scene.store, fixture_workspace(0), number);
    starts_await(waits->starts, number);
    return (atomic_load(&waits->starts->started[number]) - began) * 1000;
}

static void park_long(struct waits *waits, size_t count)
{
    waits_publish(waits, "long", "sleep: {until: \"2099-01-01T00:00:00Z\"}");
    waits_publish(waits, "due", "sleep: {until: \"${.input.until}\"}");
    waits_set_relaxed(waits, true);
    if (count > 0) {
        fixture_fill_with(waits->scene.store, "long", 0, WAITS_WORKSPACES, count);
        waits_start_node(waits);
        BENCH_CHECK(waits_await_parked(waits, count, WAITS_SECONDS_MAX));
        waits_stop_node(waits);
    }
    waits_set_relaxed(waits, false);
}

/* A server's clock and that of the bench may drift apart. None starts before its time by the store's
 * clock, so the earliest one shows by how much, and all are corrected by that. */
static void remove_drift(double *delays, size_t count)
{
    double least = 0;
    for (size_t i = 0; i < count; i++) {
        least = delays[i] < least ? delays[i] : least;
    }
    for (size_t i = 0; i < count; i++) {
        delays[i] -= least;
    }
}

static struct parked measure_beside(struct waits *waits, const char *name, size_t parked, size_t due)
{
    struct parked figures = {0};
    double *delays = calloc(due, sizeof *delays);
    BENCH_CHECK(delays != NULL && due <= (size_t)FIRST_RESTART && due % SET == 0);
    waits_begin_store(waits, name);
    park_long(waits, parked);
    (void)malloc_trim(0); /* a node begins as a copy of this process, with all that the former store has left in its heap */
    waits_start_node(waits);
    for (size_t i = 0; i < RESTARTS; i++) {
        double ms = restart_ms(waits, FIRST_RESTART + i);
        figures.restart_ms = ms > figures.restart_ms ? ms : figures.restart_ms;
    }
    enqueue_due(waits, due, bench_now() + 5 + (double)due / PER_SECOND);
    BENCH_CHECK(waits_await_parked(waits, parked + due, WAITS_SECONDS_MAX));
    BENCH_CHECK(bench_now() < atomic_load(&waits->starts->enqueued[0]));
    BENCH_CHECK(waits_await_completed(waits, due + RESTARTS, due + RESTARTS, WAITS_SECONDS_MAX));
    starts_delays(waits->starts, 0, due, delays);
    remove_drift(delays, due);
    figures.late_p50_ms = bench_percentile(delays, due, 0.5) / 1000;
    figures.late_p99_ms = bench_percentile(delays, due, 0.99) / 1000;
    figures.rss_mib = waits_node_mib(waits, "VmRSS:");
    figures.own_mib = waits_node_mib(waits, "RssAnon:");
    waits_stop_node(waits);
    waits_end_store(waits);
    free(delays);
    return figures;
}

static void report(struct bench *bench, const char *prefix, const char *what, double value, const char *unit, double floor,
                   enum goal_kind kind, double goal)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s%s", prefix, what);
    bench_report(bench, name, value, unit, floor, kind, goal);
}

static void measure(struct bench *bench, const char *group, bool on_postgres, const char *prefix)
{
    struct waits waits;
    size_t parked = bench->quick ? 1000 : 1000000;
    size_t due = bench->quick ? 500 : 30000;
    if (!waits_open(&waits, bench, group, on_postgres)) {
        return;
    }
    struct parked few = measure_beside(&waits, "parked_none", 0, due);
    struct parked many = measure_beside(&waits, "parked_many", parked, due);
    report(bench, prefix, "due 1,000/s: late, p50", few.late_p50_ms, "ms", 0, GOAL_NONE, 0);
    report(bench, prefix, "due 1,000/s: late, p99", few.late_p99_ms, "ms", 0, GOAL_NONE, 0);
    report(bench, prefix, "the same beside 1M parked: late, p50", many.late_p50_ms, "ms", few.late_p50_ms, GOAL_NONE, 0);
    report(bench, prefix, "the same beside 1M parked: late, p99", many.late_p99_ms, "ms", few.late_p99_ms, VALUE_AT_MOST,
           50);
    report(bench, prefix, "node beside 1M parked: RSS", many.rss_mib, "MiB", few.rss_mib, RATIO_AT_MOST, 1.1);
    report(bench, prefix, "node beside 1M parked: of it its own", many.own_mib, "MiB", few.own_mib, RATIO_AT_MOST, 1.1);
    report(bench, prefix, "restart beside 1M parked, to a start: most", many.restart_ms, "ms", few.restart_ms,
           VALUE_AT_MOST, 1000);
    waits_close(&waits);
}

void bench_waits_parked(struct bench *bench)
{
    measure(bench, "waits-parked", false, "");
}

void bench_postgres_waits_parked(struct bench *bench)
{
    measure(bench, "postgres-waits-parked", true, "pg ");
}
