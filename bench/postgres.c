/* PostgreSQL: many nodes on one database, beside the plain SQL floor of the same run.
 *
 * Seconds depend on the machine and on who else uses it; buffers, commits, bytes of log and shares of HOT updates do not.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "postgres_claim.h"
#include "postgres_floor.h"
#include "postgres_scene.h"

enum { WORKSPACES = 1000, DRAIN_SECONDS_MAX = 900, UNLIMITED = 1000000 };

static struct weir_error fault;

/* --- lifecycles --- */

static void await_drain(const struct postgres_scene *scene, size_t count)
{
    double end = bench_now() + DRAIN_SECONDS_MAX;
    while (postgres_scene_number(scene, "SELECT sum(completed) FROM workspaces") < (int64_t)count) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.02);
    }
}

/* What the server counted during a drain, per lifecycle. */
struct drain_counts {
    double commits;
    double wal_bytes;
    double hot_queue; /* shares of updates that stay on their page */
    double hot_lanes;
    double hot_workspaces;
    double deadlocks; /* in all */
};

static double hot_share(const struct postgres_scene *scene, const char *table)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "SELECT 1000000 * n_tup_hot_upd / greatest(n_tup_upd, 1) FROM pg_stat_user_tables WHERE relname = '%s'",
                   table);
    return (double)postgres_scene_number(scene, sql) / 1e6;
}

/* Counts of the nodes' connections are whole when these have ended. */
static void count_drain(const struct postgres_scene *scene, size_t count, int64_t wal_before, struct drain_counts *counts)
{
    static const char own[] = "SELECT pg_stat_clear_snapshot()";
    postgres_scene_run(scene, own);
    counts->wal_bytes =
        (double)(postgres_scene_number(scene, "SELECT (pg_current_wal_lsn() - '0/0')::bigint") - wal_before) /
        (double)count;
    counts->commits = (double)postgres_scene_number(
                          scene, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()") /
                      (double)count;
    counts->deadlocks =
        (double)postgres_scene_number(scene, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    counts->hot_queue = hot_share(scene, "workflow_execution_queue");
    counts->hot_lanes = hot_share(scene, "lanes");
    counts->hot_workspaces = hot_share(scene, "workspaces");
}

/* Lifecycles per second. `capped`: 1,000 workspaces with the plans of the specification; else one without a limit. */
static double drain(struct postgres_server *server, const char *name, size_t node_count, bool capped, size_t count,
                    struct drain_counts *counts)
{
    struct postgres_scene scene;
    struct postgres_process nodes[NODES_MAX];
    postgres_scene_open(&scene, server, name, true);
    postgres_scene_hurry(&scene, true);
    fixture_workspaces(scene.store, 0, capped ? WORKSPACES : 1, capped ? NULL : "enterprise");
    if (!capped) {
        struct workspace_change change = {.name = fixture_workspace(0), .max_concurrent = UNLIMITED, .paused = -1};
        BENCH_OK(store_set_workspace(scene.store, &change, &fault), &fault);
    }
    fixture_fill(scene.store, 0, capped ? WORKSPACES : 1, count);
    postgres_scene_hurry(&scene, false);
    postgres_nodes_make(&scene, NULL, nodes, node_count);
    postgres_scene_run(&scene, "SELECT pg_stat_reset()");
    int64_t wal_before = postgres_scene_number(&scene, "SELECT (pg_current_wal_lsn() - '0/0')::bigint");
    double began = bench_now();
    postgres_nodes_go(nodes, node_count);
    await_drain(&scene, count);
    double seconds = bench_now() - began;
    postgres_nodes_stop(nodes, node_count);
    count_drain(&scene, count, wal_before, counts);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM workflow_executions WHERE status = 'COMPLETED'") ==
                (int64_t)count);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM workflow_execution_queue") == 0);
    postgres_scene_close(&scene);
    return (double)count / seconds;
}

static void measure_lifecycles(struct bench *bench, struct postgres_server *server)
{
    size_t count = bench->quick ? 2000 : 200000;
    struct drain_counts counts;
    struct drain_counts ignored;
    double before = postgres_floor_lifecycles(server, "floor_before", count);
    double capped = drain(server, "capped", 1, true, count, &counts);
    double unlimited = drain(server, "unlimited", 1, false, count, &ignored);
    double after = postgres_floor_lifecycles(server, "floor_after", count);
    bench_note(bench, "pg floor: mark 500, move 500, two clients", (before + after) / 2, "items/s");
    bench_note(bench, "pg floor: first run to second run", before / after, "x");
    bench_report(bench, "pg lifecycles, 1000 workspaces", capped, "items/s", (before + after) / 2, RATIO_AT_LEAST, 0.5);
    bench_report(bench, "pg lifecycles, caps against none", capped, "items/s", unlimited, RATIO_AT_LEAST, 0.8);
    bench_note(bench, "pg of each: commits", counts.commits, "commits");
    bench_note(bench, "pg of each: write-ahead log", counts.wal_bytes, "bytes");
    bench_note(bench, "pg HOT share of updates: queue", counts.hot_queue, "share");
    bench_note(bench, "pg HOT share of updates: lanes", counts.hot_lanes, "share");
    bench_note(bench, "pg HOT share of updates: workspaces", counts.hot_workspaces, "share");
}

static void measure_nodes(struct bench *bench, struct postgres_server *server)
{
    static const size_t node_counts[] = {1, 2, 4, 8};
    enum { RUNS = sizeof node_counts / sizeof node_counts[0] };
    size_t count = bench->quick ? 2000 : 100000;
    double rates[RUNS];
    double best = 0;
    double deadlocks = 0;
    char name[FIGURE_NAME_MAX];
    for (size_t i = 0; i < RUNS; i++) {
        struct drain_counts counts;
        (void)snprintf(name, sizeof name, "nodes_%zu", node_counts[i]);
        rates[i] = drain(server, name, node_counts[i], true, count, &counts);
        best = fmax(best, rates[i]);
        deadlocks += counts.deadlocks;
    }
    for (size_t i = 0; i < RUNS; i++) {
        (void)snprintf(name, sizeof name, "pg lifecycles, nodes: %zu (floor: the best)", node_counts[i]);
        bench_report(bench, name, rates[i], "items/s", best, RATIO_AT_LEAST, 0.9);
    }
    bench_report(bench, "pg deadlocks of 1, 2, 4, 8 nodes", deadlocks, "deadlocks", 0, VALUE_AT_MOST, 0);
}

void bench_postgres(struct bench *bench)
{
    struct postgres_server server;
    if (!postgres_scene_server(bench, "postgres", &server)) {
        return;
    }
    measure_lifecycles(bench, &server);
    measure_nodes(bench, &server);
    postgres_measure_claims(bench, &server);
    postgres_server_close(&server);
}
