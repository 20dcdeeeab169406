/* From the moment before the enqueue to the start of the handler, in a node that has nothing else to do; the enqueuer is
 * another process. First the node that schedules starts it itself; then that node is paused by its operator, so it goes on
 * scheduling and another node starts what it assigns. */
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"
#include "postgres_floor.h"
#include "postgres_scene.h"

enum { WARM_STARTS = 10, NODES = 2, WAIT_SECONDS_MAX = 60 };

static struct weir_error fault;

struct samples {
    size_t count;
    double *delays;
    double *syncs;
    double *enqueues;
    double sync_ms; /* p50 */
};

static void open_samples(struct samples *samples, size_t count)
{
    *samples = (struct samples){.count = count,
                                .delays = calloc(count, sizeof(double)),
                                .syncs = calloc(count, sizeof(double)),
                                .enqueues = calloc(count, sizeof(double))};
    BENCH_CHECK(samples->delays != NULL && samples->syncs != NULL && samples->enqueues != NULL);
}

static void close_samples(struct samples *samples)
{
    free(samples->delays);
    free(samples->syncs);
    free(samples->enqueues);
}

/* One start after the other. The first ones are not counted: everything is connected and planned behind them. */
static void start_each(const struct bench *bench, const struct postgres_scene *scene, struct starts *starts, size_t first,
                       struct samples *samples)
{
    struct sync_probe probe;
    sync_probe_open(&probe, bench);
    for (size_t i = 0; i < samples->count + WARM_STARTS; i++) {
        size_t at = i < WARM_STARTS ? 0 : i - WARM_STARTS;
        bench_pause(STARTS_PAUSE_SECONDS);
        double began = bench_now();
        starts_enqueue(starts, scene->store, fixture_workspace(0), first + i);
        samples->enqueues[at] = (bench_now() - began) * 1e6;
        starts_await(starts, first + i);
        bench_pause(STARTS_PAUSE_SECONDS);
        samples->syncs[at] = sync_probe_once(&probe);
    }
    sync_probe_close(&probe);
    starts_delays(starts, first + WARM_STARTS, samples->count, samples->delays);
    samples->sync_ms = bench_percentile(samples->syncs, samples->count, 0.5) / 1000;
}

/* An operator pauses the node that schedules. Nothing is assigned to it from then on. */
static void pause_scheduler(const struct postgres_scene *scene)
{
    char name[32];
    int64_t node_id = 0;
    for (double end = bench_now() + WAIT_SECONDS_MAX; node_id == 0;) {
        BENCH_CHECK(bench_now() < end);
        node_id = postgres_scene_number(scene, "SELECT s.node_id FROM scheduler s");
        bench_pause(0.02);
    }
    (void)snprintf(name, sizeof name, "%lld", (long long)node_id);
    BENCH_OK(store_set_desired_state(scene->store, name, NODE_PAUSE, &fault), &fault);
}

static void measure_one(struct bench *bench, struct postgres_server *server, struct starts *starts, struct samples *own)
{
    struct postgres_scene scene;
    struct postgres_process node;
    postgres_scene_open(&scene, server, "starts", true);
    fixture_workspaces(scene.store, 0, 1, "enterprise");
    postgres_nodes_make(&scene, starts, &node, 1);
    postgres_nodes_go(&node, 1);
    start_each(bench, &scene, starts, 0, own);
    postgres_nodes_stop(&node, 1);
    postgres_scene_close(&scene);
}

/* *own is of the node that schedules, with the other one beside it. */
static void measure_two(struct bench *bench, struct postgres_server *server, struct starts *starts, struct samples *own,
                        struct samples *other)
{
    struct postgres_scene scene;
    struct postgres_process nodes[NODES];
    postgres_scene_open(&scene, server, "starts_elsewhere", true);
    fixture_workspaces(scene.store, 0, 1, "enterprise");
    postgres_nodes_make(&scene, starts, nodes, NODES);
    postgres_nodes_go(nodes, NODES);
    size_t first = own->count + WARM_STARTS;
    start_each(bench, &scene, starts, first, own);
    pause_scheduler(&scene);
    start_each(bench, &scene, starts, 2 * first, other);
    postgres_nodes_stop(nodes, NODES);
    postgres_scene_close(&scene);
}

static void report(struct bench *bench, const char *path, const struct samples *samples, double p50_most)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "pg start delay, %s: p50", path);
    bench_report(bench, name, bench_percentile(samples->delays, samples->count, 0.5) / 1000, "ms", samples->sync_ms,
                 VALUE_AT_MOST, p50_most);
    (void)snprintf(name, sizeof name, "pg start delay, %s: p99", path);
    bench_report(bench, name, bench_percentile(samples->delays, samples->count, 0.99) / 1000, "ms", samples->sync_ms,
                 VALUE_AT_MOST, 20);
}

void bench_postgres_latency(struct bench *bench)
{
    struct postgres_server server;
    struct starts *starts = starts_make();
    struct samples alone;
    struct samples own;
    struct samples other;
    size_t count = bench->quick ? 20 : 500;
    double *floor = calloc(count, sizeof *floor);
    BENCH_CHECK(floor != NULL);
    if (!postgres_scene_server(bench, "postgres-latency", &server)) {
        free(floor);
        return;
    }
    open_samples(&alone, count);
    open_samples(&own, count);
    open_samples(&other, count);
    postgres_floor_starts(&server, count, floor);
    measure_one(bench, &server, starts, &alone);
    measure_two(bench, &server, starts, &own, &other);
    (void)starts_report_syncs(bench, "pg sync beside the starts", alone.syncs, count);
    report(bench, "one node", &alone, 1 + 2 * alone.sync_ms);
    report(bench, "the scheduler of two", &own, 1 + 2 * own.sync_ms);
    report(bench, "not the scheduler", &other, bench_percentile(own.delays, count, 0.5) / 1000 + 1.5);
    bench_note(bench, "pg floor of a start: p50", bench_percentile(floor, count, 0.5), "ms");
    bench_note(bench, "pg start delay, one node: p50 to the floor",
               bench_percentile(alone.delays, count, 0.5) / 1000 / bench_percentile(floor, count, 0.5), "x");
    bench_note(bench, "pg enqueue of one: p50", bench_percentile(alone.enqueues, count, 0.5) / 1000, "ms");
    free(floor);
    close_samples(&alone);
    close_samples(&own);
    close_samples(&other);
    postgres_server_close(&server);
}
