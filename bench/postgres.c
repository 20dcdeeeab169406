/* PostgreSQL: many nodes on one database, beside the plain SQL floor of the same run.
 *
 * Seconds depend on the machine and on who else uses it; buffers, commits, bytes of log and shares of HOT updates do not.
 */
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text.h"
#include "postgres_floor.h"
#include "postgres_scene.h"

enum { WORKSPACES = 1000, DRAIN_SECONDS_MAX = 900, ROUNDS_MAX = 50, UNLIMITED = 1000000 };

static struct weir_error fault;

static void pause_ms(long milliseconds)
{
    struct timespec pause = {.tv_sec = 0, .tv_nsec = milliseconds * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* --- lifecycles --- */

static void await_drain(const struct postgres_scene *scene, size_t count)
{
    double end = bench_now() + DRAIN_SECONDS_MAX;
    while (postgres_scene_number(scene, "SELECT sum(completed) FROM workspaces") < (int64_t)count) {
        BENCH_CHECK(bench_now() < end);
        pause_ms(20);
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

/* --- claims and polls --- */

static int64_t start_node(const struct postgres_scene *scene)
{
    struct node_options node = {.name = "bench",
                                .group = "default",
                                .host = "",
                                .boot_id = "",
                                .version = "",
                                .engine = "none",
                                .lease_us = 3600000000};
    int64_t node_id = 0;
    BENCH_OK(store_node_start(scene->store, &node, &node_id, &fault), &fault);
    return node_id;
}

/* Every slot is taken by an item that stays claimed. */
static void fill_slots(const struct postgres_scene *scene, int64_t node_id)
{
    struct claim_options options = {.node_id = node_id, .group = "default", .limit = CLAIM_BATCH_MOST, .attempts_max = 3};
    struct claim_result result = {0};
    do {
        struct arena arena;
        arena_init(&arena, 64 * 1024 * 1024);
        BENCH_OK(store_claim(scene->store, &options, &arena, &result, &fault), &fault);
        arena_close(&arena);
    } while (result.count > 0 || result.more);
}

/* `full` workspaces of one slot that is taken, with `pending` rows behind, and `small` ones with free slots and a thousand
 * rows. */
static int64_t open_full(struct postgres_scene *scene, struct postgres_server *server, const char *name, size_t full,
                         size_t pending, size_t small)
{
    postgres_scene_open(scene, server, name, true);
    postgres_scene_hurry(scene, true);
    int64_t node_id = start_node(scene);
    if (full > 0) {
        fixture_workspaces(scene->store, 0, full, "free");
        fixture_fill(scene->store, 0, full, pending);
        fill_slots(scene, node_id);
    }
    if (small > 0) {
        fixture_workspaces(scene->store, 90000, small, "enterprise");
        fixture_fill(scene->store, 90000, small, 1000);
    }
    postgres_scene_run(scene, "SELECT freshen_lanes('0', 1000000)");
    postgres_scene_hurry(scene, false);
    return node_id;
}

/* Medians over rounds, after the session's caches of plans are warm. */
static struct explained explain(const struct bench *bench, const struct postgres_scene *scene, const char *sql)
{
    size_t rounds = bench->quick ? 5 : ROUNDS_MAX;
    double times[ROUNDS_MAX];
    double buffers[ROUNDS_MAX];
    for (size_t i = 0; i < 10; i++) {
        (void)postgres_scene_explain(scene, sql);
    }
    for (size_t i = 0; i < rounds; i++) {
        struct explained one = postgres_scene_explain(scene, sql);
        times[i] = one.us;
        buffers[i] = one.buffers;
    }
    return (struct explained){.us = bench_percentile(times, rounds, 0.5),
                              .buffers = bench_percentile(buffers, rounds, 0.5)};
}

/* As a node asks that has looked before: it passes what it folded and where its lanes begin. */
static struct explained explain_claim(const struct bench *bench, const struct postgres_scene *scene, int64_t node_id)
{
    char sql[256];
    char seen[32];
    text_copy(seen, sizeof seen, postgres_scene_text(scene, "SELECT seen FROM freshen_lanes('0', 1000)"));
    (void)snprintf(sql, sizeof sql, "SELECT first_pass FROM claim(%lld, 'default', 10, '%s', %lld) WHERE id IS NULL",
                   (long long)node_id, seen, (long long)INT64_MIN);
    postgres_scene_run(scene, "BEGIN");
    int64_t first_pass = postgres_scene_number(scene, sql);
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM claim(%lld, 'default', 10, '%s', %lld) WHERE id IS NOT NULL",
                   (long long)node_id, seen, (long long)first_pass);
    postgres_scene_run(scene, "ROLLBACK");
    postgres_scene_run(scene, "BEGIN");
    BENCH_CHECK(postgres_scene_number(scene, sql) == 10);
    postgres_scene_run(scene, "ROLLBACK");
    return explain(bench, scene, sql);
}

static struct explained measure_claim(struct bench *bench, struct postgres_server *server, const char *name, size_t full,
                                      size_t pending, size_t small)
{
    struct postgres_scene scene;
    int64_t node_id = open_full(&scene, server, name, full, pending, small);
    struct explained explained = explain_claim(bench, &scene, node_id);
    postgres_scene_close(&scene);
    return explained;
}

static struct explained measure_poll(struct bench *bench, struct postgres_server *server, size_t full)
{
    struct postgres_scene scene;
    char sql[128];
    int64_t node_id = open_full(&scene, server, "poll_full", full, 3 * full, 0);
    (void)snprintf(sql, sizeof sql, "SELECT * FROM look(%lld, 'default', '%s', %lld)", (long long)node_id,
                   postgres_scene_text(&scene, "SELECT pg_snapshot_xmin(pg_current_snapshot())"), (long long)INT64_MIN);
    struct explained explained = explain(bench, &scene, sql);
    postgres_scene_close(&scene);
    return explained;
}

/* What is claimed lies in ten workspaces, an item of each, or in one: each workspace that a claim serves is locked, looked
 * at and written. */
static void measure_claims(struct bench *bench, struct postgres_server *server)
{
    size_t shrink = bench->quick ? 100 : 1;
    struct explained base = measure_claim(bench, server, "claim_small", 0, 0, 10);
    struct explained full = measure_claim(bench, server, "claim_full", 1, 300000 / shrink, 10);
    struct explained one = measure_claim(bench, server, "claim_one", 1, 300000 / shrink, 1);
    struct explained poll = measure_poll(bench, server, 20000 / shrink);
    bench_note(bench, "pg claim of 10, small queue: time", base.us, "us");
    bench_note(bench, "pg claim of 10, small queue: buffers", base.buffers, "buffers");
    bench_report(bench, "pg claim of 10, 300k of a full one: time", full.us, "us", base.us, VALUE_AT_MOST, 2000);
    bench_report(bench, "pg claim of 10, 300k of a full one: buffers", full.buffers, "buffers", base.buffers, VALUE_AT_MOST,
                 200);
    bench_report(bench, "pg claim of 10 of one, 300k behind: time", one.us, "us", 0, VALUE_AT_MOST, 2000);
    bench_report(bench, "pg claim of 10 of one, 300k behind: buffers", one.buffers, "buffers", 0, VALUE_AT_MOST, 200);
    bench_report(bench, "pg poll, 20k full ones: time", poll.us, "us", 0, VALUE_AT_MOST, 500);
    bench_report(bench, "pg poll, 20k full ones: buffers", poll.buffers, "buffers", 0, VALUE_AT_MOST, 10);
}

/* --- starts --- */

static void measure_starts(struct bench *bench, struct postgres_server *server)
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
        pause_ms(15);
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

void bench_postgres(struct bench *bench)
{
    struct postgres_server server;
    char folder[BENCH_PATH_MAX];
    if (!postgres_server_is_installed()) {
        printf("postgres: left out: there is no PostgreSQL server here (Debian: the package postgresql)\n");
        return;
    }
    /* Beside the run's own folder, which the server's user cannot enter. */
    text_copy(folder, sizeof folder, bench->folder);
    postgres_server_open_below(&server, dirname(folder), POSTGRES_SETTINGS, false);
    measure_lifecycles(bench, &server);
    measure_nodes(bench, &server);
    measure_claims(bench, &server);
    measure_starts(bench, &server);
    postgres_server_close(&server);
}
