/* From the moment before the enqueue to the start of the handler, in a node that has nothing else to do; the enqueuer is
 * another process. */
#include <stdlib.h>

#include "machine.h"
#include "postgres_scene.h"

static void measure(struct bench *bench, struct postgres_server *server)
{
    size_t count = bench->quick ? 20 : 500;
    struct postgres_scene scene;
    struct postgres_process node;
    struct starts *starts = starts_make();
    struct sync_probe probe;
    double *delays = calloc(count, sizeof *delays);
    double *syncs = calloc(count, sizeof *syncs);
    double *enqueues = calloc(count, sizeof *enqueues);
    BENCH_CHECK(delays != NULL && syncs != NULL && enqueues != NULL);
    sync_probe_open(&probe, bench);
    postgres_scene_open(&scene, server, "starts", true);
    fixture_workspaces(scene.store, 0, 1, "enterprise");
    postgres_nodes_make(&scene, starts, &node, 1);
    postgres_nodes_go(&node, 1);
    for (size_t i = 0; i < count + 10; i++) { /* the first ten: everything is connected and planned then */
        bench_pause(STARTS_PAUSE_SECONDS);
        double began = bench_now();
        starts_enqueue(starts, scene.store, fixture_workspace(0), i);
        enqueues[i < 10 ? 0 : i - 10] = bench_now() - began;
        starts_await(starts, i);
        bench_pause(STARTS_PAUSE_SECONDS);
        syncs[i < 10 ? 0 : i - 10] = sync_probe_once(&probe);
    }
    sync_probe_close(&probe);
    postgres_nodes_stop(&node, 1);
    postgres_scene_close(&scene);
    starts_delays(starts, 10, count, delays);
    double sync_ms = starts_report_syncs(bench, "pg sync beside the starts", syncs, count);
    bench_report(bench, "pg start delay, other process: p50", bench_percentile(delays, count, 0.5) / 1000, "ms", sync_ms,
                 VALUE_AT_MOST, 2);
    bench_report(bench, "pg start delay, other process: p99", bench_percentile(delays, count, 0.99) / 1000, "ms", sync_ms,
                 VALUE_AT_MOST, 20);
    bench_note(bench, "pg enqueue of one: p50", bench_percentile(enqueues, count, 0.5) * 1000, "ms");
    free(enqueues);
    free(delays);
    free(syncs);
}

void bench_postgres_latency(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-latency", &server)) {
        measure(bench, &server);
        postgres_server_close(&server);
    }
}
