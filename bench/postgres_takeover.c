/* From the end of one scheduler to the next start.
 *
 * By the verbs: with 20,000 workspaces and a million rows pending, how long does a new scheduler take from the request for
 * the role to its first committed assignment?
 *
 * With processes: the node that schedules is killed or frozen. An execution is enqueued right after that, so only a new
 * scheduler can assign it. Its start ends the measurement. A killed node is replaced; a frozen one goes on afterwards, and
 * must have lost the role. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "postgres_backlog.h"
#include "support/claiming.h"

enum {
    VERB_TRIES = 9,
    VERB_WORKSPACES = 20000,
    VERB_ROWS = 1000000,
    CLAIM_ITEMS = 10,
    NODES = 3,
    TRIES_MAX = 20,
    WORKSPACES = 10,
    WARM_STARTS = 20,
    WAIT_SECONDS_MAX = 60
};

static struct weir_error fault;

/* --- by the verbs --- */

/* Each try is another scheduler: its memory is empty, and it takes the role from the one before it. */
static double take_over_us(const struct postgres_scene *scene, int64_t node_id)
{
    struct claimer *claimer = NULL;
    struct claim_result result = {0};
    struct arena arena;
    arena_init(&arena, 64 * 1024 * 1024);
    BENCH_OK(claimer_open(scene->store, node_id, &claimer, &fault), &fault);
    double began = bench_now();
    BENCH_OK(claimer_claim(claimer, CLAIM_ITEMS, &arena, &result, &fault), &fault);
    double us = (bench_now() - began) * 1e6;
    BENCH_CHECK(result.count == CLAIM_ITEMS);
    BENCH_OK(claimer_publish(claimer, &fault), &fault);
    claimer_close(claimer);
    arena_close(&arena);
    return us;
}

static void measure_verbs(struct bench *bench, struct postgres_server *server)
{
    struct postgres_scene scene;
    double times[VERB_TRIES];
    size_t shrink = bench->quick ? 100 : 1;
    postgres_scene_open(&scene, server, "takeover", true);
    postgres_scene_set_relaxed(&scene, true);
    fixture_workspaces(scene.store, 0, VERB_WORKSPACES / shrink, NULL);
    postgres_backlog_fill(&scene, "noop", 0, VERB_WORKSPACES / shrink, 0, VERB_ROWS / shrink);
    int64_t node_id = postgres_scene_node(&scene);
    (void)take_over_us(&scene, node_id);
    postgres_scene_set_relaxed(&scene, false);
    for (size_t i = 0; i < VERB_TRIES; i++) {
        times[i] = take_over_us(&scene, node_id);
    }
    postgres_scene_close(&scene);
    bench_report(bench, "pg takeover by the verbs, 20k workspaces: p50", bench_percentile(times, VERB_TRIES, 0.5) / 1e6,
                 "s", 0, VALUE_AT_MOST, 0.5);
    bench_note(bench, "pg takeover by the verbs, 20k workspaces: max", bench_percentile(times, VERB_TRIES, 1) / 1e6, "s");
}

/* --- with processes --- */

struct fleet {
    struct postgres_scene scene;
    struct starts *starts;
    struct postgres_process nodes[NODES];
    size_t done; /* executions enqueued so far */
};

static void start_one(struct fleet *fleet)
{
    starts_enqueue(fleet->starts, fleet->scene.store, fixture_workspace(fleet->done % WORKSPACES), fleet->done);
    starts_await(fleet->starts, fleet->done);
    fleet->done++;
}

/* All nodes are there and work, and one of them schedules. */
static size_t await_scheduler(const struct fleet *fleet)
{
    static const char living[] = "SELECT count(*) FROM nodes n WHERE n.dead_at IS NULL AND n.stopped_at IS NULL";
    double end = bench_now() + WAIT_SECONDS_MAX;
    for (;;) {
        size_t found = postgres_nodes_find_scheduler(&fleet->scene, fleet->nodes, NODES);
        if (found < NODES && postgres_scene_number(&fleet->scene, living) == NODES) {
            return found;
        }
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.02);
    }
}

/* `signal`: SIGKILL or SIGSTOP. Seconds. */
static double strike(struct fleet *fleet, int signal)
{
    size_t victim = await_scheduler(fleet);
    for (size_t i = 0; i < WARM_STARTS; i++) {
        start_one(fleet);
    }
    BENCH_CHECK(await_scheduler(fleet) == victim);
    double began = bench_now();
    BENCH_CHECK(kill(fleet->nodes[victim].pid, signal) == 0);
    start_one(fleet);
    double lasted = bench_now() - began;
    if (signal == SIGKILL) {
        postgres_nodes_kill(&fleet->nodes[victim]);
        postgres_nodes_make(&fleet->scene, fleet->starts, &fleet->nodes[victim], 1);
        postgres_nodes_go(&fleet->nodes[victim], 1);
    } else {
        BENCH_CHECK(postgres_nodes_find_scheduler(&fleet->scene, fleet->nodes, NODES) != victim);
        BENCH_CHECK(kill(fleet->nodes[victim].pid, SIGCONT) == 0);
        bench_pause(1);
    }
    return lasted;
}

static void measure_strikes(struct bench *bench, struct fleet *fleet, const char *event, int signal, size_t tries,
                            double p50_most, double most)
{
    double times[TRIES_MAX];
    char name[FIGURE_NAME_MAX];
    for (size_t i = 0; i < tries; i++) {
        times[i] = strike(fleet, signal);
    }
    (void)snprintf(name, sizeof name, "pg scheduler %s to the next start: p50", event);
    bench_report(bench, name, bench_percentile(times, tries, 0.5), "s", 0, p50_most > 0 ? VALUE_AT_MOST : GOAL_NONE,
                 p50_most);
    (void)snprintf(name, sizeof name, "pg scheduler %s to the next start: max", event);
    bench_report(bench, name, bench_percentile(times, tries, 1), "s", 0, VALUE_AT_MOST, most);
}

static void measure_processes(struct bench *bench, struct postgres_server *server)
{
    struct fleet fleet = {.starts = starts_make()};
    postgres_scene_open(&fleet.scene, server, "strikes", true);
    fixture_workspaces(fleet.scene.store, 0, WORKSPACES, "enterprise");
    postgres_nodes_make(&fleet.scene, fleet.starts, fleet.nodes, NODES);
    postgres_nodes_go(fleet.nodes, NODES);
    measure_strikes(bench, &fleet, "killed", SIGKILL, bench->quick ? 2 : 20, 1, 2);
    measure_strikes(bench, &fleet, "frozen", SIGSTOP, bench->quick ? 1 : 10, 0, 5);
    (void)await_scheduler(&fleet);
    postgres_nodes_stop(fleet.nodes, NODES);
    postgres_scene_close(&fleet.scene);
}

void bench_postgres_takeover(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-takeover", &server)) {
        measure_verbs(bench, &server);
        measure_processes(bench, &server);
        postgres_server_close(&server);
    }
}
