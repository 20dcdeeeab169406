/* One workspace has a million executions and runs twenty of them all the while; a thousand small ones each want one now and
 * then. How much longer do they wait than beside a paused neighbour? Quiet and noisy rounds take turns, so that other
 * load of the machine falls on both. */
#include <stdio.h>
#include <stdlib.h>

#include "postgres_backlog.h"

enum { SMALL = 1000, NOISY = 90000, ROUNDS = 8, WAIT_SECONDS_MAX = 60 };

static struct weir_error fault;

struct neighbour {
    struct postgres_scene scene;
    struct starts *starts;
    size_t done;
    bool noisy;
    double slots; /* of the noisy one while it runs, sum of the looks */
    double looks;
};

static int64_t slots_used(const struct neighbour *it)
{
    return postgres_scene_slots_used(&it->scene, fixture_workspace(NOISY));
}

static void make_noise(struct neighbour *it, bool noisy)
{
    struct workspace_change change = {.name = fixture_workspace(NOISY), .paused = noisy ? 0 : 1};
    double end = bench_now() + WAIT_SECONDS_MAX;
    BENCH_OK(store_set_workspace(it->scene.store, &change, &fault), &fault);
    while (noisy ? slots_used(it) < 20 : slots_used(it) > 0) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.01);
    }
    it->noisy = noisy;
}

/* One start after the other, each of another small workspace; appends their delays. */
static void start_small_ones(struct neighbour *it, size_t count, double *delays)
{
    for (size_t i = 0; i < count; i++) {
        size_t number = it->done++;
        starts_enqueue(it->starts, it->scene.store, fixture_workspace(number % SMALL), number);
        starts_await(it->starts, number);
        if (it->noisy && i % 20 == 0) {
            it->slots += (double)slots_used(it);
            it->looks++;
        }
        bench_pause(0.002);
    }
    starts_delays(it->starts, it->done - count, count, delays);
}

static void report(struct bench *bench, const char *share_name, double share, double *quiet, double *noisy, size_t count)
{
    char name[FIGURE_NAME_MAX];
    double alone = bench_percentile(quiet, count, share) / 1000;
    (void)snprintf(name, sizeof name, "pg small workspaces, quiet: start %s", share_name);
    bench_note(bench, name, alone, "ms");
    (void)snprintf(name, sizeof name, "pg small workspaces, noisy: start %s", share_name);
    bench_report(bench, name, bench_percentile(noisy, count, share) / 1000, "ms", alone, RATIO_AT_MOST, 1.5);
}

static void measure(struct bench *bench, struct postgres_server *server)
{
    size_t count = bench->quick ? 10 : 250; /* of a round */
    struct neighbour it = {.starts = starts_make()};
    struct postgres_process node;
    double *delays[2] = {calloc(count * ROUNDS, sizeof(double)), calloc(count * ROUNDS, sizeof(double))};
    BENCH_CHECK(delays[0] != NULL && delays[1] != NULL);
    postgres_scene_open(&it.scene, server, "neighbour", true);
    postgres_scene_set_relaxed(&it.scene, true);
    fixture_publish(it.scene.store, "noisy", "name: noisy\nsteps:\n  run:\n    sleep: 100ms\n");
    fixture_workspaces(it.scene.store, 0, SMALL, "pro");
    fixture_workspaces(it.scene.store, NOISY, 1, "enterprise");
    postgres_backlog_fill(&it.scene, "noisy", NOISY, 1, 0, bench->quick ? 5000 : 1000000);
    postgres_scene_set_relaxed(&it.scene, false);
    make_noise(&it, false);
    postgres_nodes_make(&it.scene, it.starts, &node, 1);
    postgres_nodes_go(&node, 1);
    start_small_ones(&it, count, delays[0]); /* everything is connected and planned then */
    for (size_t round = 0; round < ROUNDS; round++) {
        make_noise(&it, round % 2 == 1);
        start_small_ones(&it, count, delays[round % 2] + round / 2 * count);
    }
    make_noise(&it, false);
    postgres_nodes_stop(&node, 1);
    postgres_scene_close(&it.scene);
    report(bench, "p50", 0.5, delays[0], delays[1], count * ROUNDS / 2);
    report(bench, "p99", 0.99, delays[0], delays[1], count * ROUNDS / 2);
    bench_report(bench, "pg noisy neighbour: slots in use", it.slots / it.looks, "slots", 20, GOAL_NONE, 0);
    free(delays[0]);
    free(delays[1]);
}

void bench_postgres_neighbour(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-neighbour", &server)) {
        measure(bench, &server);
        postgres_server_close(&server);
    }
}
