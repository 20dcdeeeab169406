/* From the moment before the enqueue to the start of the handler, in a node that has nothing else to do; the enqueuer is
 * another process. */
#include <stdlib.h>

#include "postgres_scene.h"

static void measure(struct bench *bench, struct postgres_server *server)
{
    size_t count = bench->quick ? 20 : 500;
    struct postgres_scene scene;
    struct postgres_process node;
    struct starts *starts = starts_make();
    double *delays = calloc(count, sizeof *delays);
    BENCH_CHECK(delays != NULL);
    postgres_scene_open(&scene, server, "starts", true);
    fixture_workspaces(scene.store, 0, 1, "enterprise");
    postgres_nodes_make(&scene, starts, &node, 1);
    postgres_nodes_go(&node, 1);
    for (size_t i = 0; i < count + 10; i++) { /* the first ten: everything is connected and planned then */
        starts_enqueue(starts, scene.store, fixture_workspace(0), i);
        starts_await(starts, i);
        bench_pause(0.015);
    }
    postgres_nodes_stop(&node, 1);
    postgres_scene_close(&scene);
    starts_delays(starts, 10, count, delays);
    bench_report(bench, "pg start delay, other process: p50", bench_percentile(delays, count, 0.5) / 1000, "ms",
                 bench->fsync_us / 1000, VALUE_AT_MOST, 2);
    bench_report(bench, "pg start delay, other process: p99", bench_percentile(delays, count, 0.99) / 1000, "ms",
                 bench->fsync_us / 1000, VALUE_AT_MOST, 20);
    free(delays);
}

void bench_postgres_latency(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-latency", &server)) {
        measure(bench, &server);
        postgres_server_close(&server);
    }
}
