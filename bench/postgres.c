/* PostgreSQL: many nodes on one database, beside the plain SQL floor of the same run.
 *
 * Seconds depend on the machine and on the other programs on it; buffers, commits, bytes of log and shares of HOT updates
 * do not.
 */
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/text.h"
#include "postgres_claim.h"
#include "postgres_floor.h"
#include "postgres_processor.h"
#include "postgres_scene.h"

enum { WORKSPACES = 1000, DRAIN_SECONDS_MAX = 900, UNLIMITED = 1000000 };

static struct weir_error fault;

/* --- lifecycles --- */

/* Counted by the server during a drain, per lifecycle. */
struct drain_counts {
    double server_us; /* of processor */
    double node_us;
    double commits;
    double wal_bytes;
    double news_rows;
    double hot_queue; /* shares of updates that stay on their page */
    double hot_books;
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

/* Of this process's children that have ended: the nodes. */
static double nodes_processor_us(void)
{
    struct rusage usage;
    BENCH_CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* The server's counters before a drain. */
static struct drain_counts begin_counts(const struct postgres_scene *scene)
{
    postgres_scene_run(scene, "SELECT pg_stat_reset()");
    return (struct drain_counts){.server_us = postgres_processor_us(scene->server),
                                 .node_us = nodes_processor_us(),
                                 .wal_bytes =
                                     (double)postgres_scene_number(scene, "SELECT (pg_current_wal_lsn() - '0/0')::bigint")};
}

/* Counts of the nodes' connections are whole when these have ended. */
static void count_drain(const struct postgres_scene *scene, size_t count, const struct drain_counts *before,
                        struct drain_counts *counts)
{
    static const char own[] = "SELECT pg_stat_clear_snapshot()";
    postgres_scene_run(scene, own);
    counts->server_us = (postgres_processor_us(scene->server) - before->server_us) / (double)count;
    counts->node_us = (nodes_processor_us() - before->node_us) / (double)count;
    counts->wal_bytes =
        ((double)postgres_scene_number(scene, "SELECT (pg_current_wal_lsn() - '0/0')::bigint") - before->wal_bytes) /
        (double)count;
    counts->commits = (double)postgres_scene_number(
                          scene, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()") /
                      (double)count;
    counts->deadlocks =
        (double)postgres_scene_number(scene, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    counts->news_rows =
        (double)postgres_scene_number(scene, "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'news'") /
        (double)count;
    counts->hot_queue = hot_share(scene, "workflow_execution_queue");
    counts->hot_books = hot_share(scene, "books");
}

/* Lifecycles per second. `capped`: 1,000 workspaces with the plans of the specification; else one without a limit. */
static double drain(struct postgres_server *server, const char *name, size_t node_count, bool capped, size_t count,
                    struct drain_counts *counts)
{
    struct postgres_scene scene;
    struct postgres_process nodes[NODES_MAX];
    struct starts *starts = starts_make();
    postgres_scene_open(&scene, server, name, true);
    postgres_scene_set_relaxed(&scene, true);
    fixture_workspaces(scene.store, 0, capped ? WORKSPACES : 1, capped ? NULL : "enterprise");
    if (!capped) {
        struct workspace_change change = {.name = fixture_workspace(0), .max_concurrent = UNLIMITED, .paused = -1};
        BENCH_OK(store_set_workspace(scene.store, &change, &fault), &fault);
    }
    fixture_fill(scene.store, 0, capped ? WORKSPACES : 1, count);
    postgres_scene_set_relaxed(&scene, false);
    postgres_nodes_make(&scene, starts, nodes, node_count);
    struct drain_counts at_first = begin_counts(&scene);
    double began = bench_now();
    postgres_nodes_go(nodes, node_count);
    postgres_scene_await_completed(&scene, starts, count, DRAIN_SECONDS_MAX);
    double seconds = bench_now() - began;
    postgres_nodes_stop(nodes, node_count);
    count_drain(&scene, count, &at_first, counts);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM workflow_executions WHERE status = 'COMPLETED'") ==
                (int64_t)count);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM workflow_execution_queue") == 0);
    postgres_scene_close(&scene);
    return (double)count / seconds;
}

/* The floor before and after, so that a slow minute shows. Drains with caps and without take turns. The median of their
 * rates and processor times counts, and the other counts are of the last drain. */
void bench_postgres_lifecycles(struct bench *bench)
{
    enum { ROUNDS = 3 };
    struct postgres_server server;
    size_t count = bench->quick ? 2000 : 200000;
    size_t rounds = bench->quick ? 2 : ROUNDS;
    struct drain_counts counts[2];
    double rates[2][ROUNDS];
    double server_us[2][ROUNDS];
    char name[FIGURE_NAME_MAX];
    if (!postgres_scene_server(bench, "postgres-lifecycles", &server)) {
        return;
    }
    struct postgres_floor before = postgres_floor_lifecycles(&server, "floor_before", count, FLOOR_AS_INSERTED);
    for (size_t i = 0; i < 2 * rounds; i++) {
        size_t capped = (i + 1) / 2 % 2 == 0; /* with, without, without, with ... */
        (void)snprintf(name, sizeof name, "%s_%zu", capped ? "capped" : "unlimited", i / 2);
        rates[capped][i / 2] = drain(&server, name, 1, capped, count, &counts[capped]);
        server_us[capped][i / 2] = counts[capped].server_us;
    }
    struct postgres_floor after = postgres_floor_lifecycles(&server, "floor_after", count, FLOOR_AS_INSERTED);
    struct postgres_floor as_capped = postgres_floor_lifecycles(&server, "floor_as_capped", count, FLOOR_AS_CAPPED);
    double floor = (before.per_second + after.per_second) / 2;
    bench_note(bench, "pg floor: mark 500, move 500, two clients", floor, "items/s");
    bench_note(bench, "pg floor: first run to second run", before.per_second / after.per_second, "x");
    bench_note(bench, "pg floor: in the order of caps to in order", as_capped.per_second / floor, "x");
    bench_note(bench, "pg floor: in the order of caps, processor", as_capped.server_us, "us");
    double capped = bench_percentile(rates[1], rounds, 0.5);
    bench_report(bench, "pg lifecycles, 1000 workspaces", capped, "items/s", floor, RATIO_AT_LEAST, 0.5);
    bench_report(bench, "pg lifecycles, caps against none", capped, "items/s", bench_percentile(rates[0], rounds, 0.5),
                 RATIO_AT_LEAST, 0.85);
    bench_report(bench, "pg of each: processor of the server", bench_percentile(server_us[1], rounds, 0.5), "us",
                 (before.server_us + after.server_us) / 2, VALUE_AT_MOST, 25);
    bench_note(bench, "pg of each: processor of the node", counts[1].node_us, "us");
    bench_note(bench, "pg of each, no limits: processor of the server", bench_percentile(server_us[0], rounds, 0.5), "us");
    bench_note(bench, "pg of each: commits", counts[1].commits, "commits");
    bench_note(bench, "pg of each: write-ahead log", counts[1].wal_bytes, "bytes");
    bench_note(bench, "pg of each: rows of news", counts[1].news_rows, "rows");
    bench_note(bench, "pg HOT share of updates: queue", counts[1].hot_queue, "share");
    bench_note(bench, "pg HOT share of updates: books", counts[1].hot_books, "share");
    postgres_server_close(&server);
}

/* Each count of nodes has one drain in each round, and its median counts: one slow minute of the disk decides nothing. */
void bench_postgres_nodes(struct bench *bench)
{
    static const size_t node_counts[] = {1, 2, 4, 8};
    enum { COUNTS = sizeof node_counts / sizeof node_counts[0], ROUNDS = 3 };
    struct postgres_server server;
    size_t rounds = bench->quick ? 1 : ROUNDS;
    size_t count = bench->quick ? 2000 : 200000;
    double rates[COUNTS][ROUNDS];
    double medians[COUNTS];
    double best = 0;
    double deadlocks = 0;
    char name[FIGURE_NAME_MAX];
    if (!postgres_scene_server(bench, "postgres-nodes", &server)) {
        return;
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < COUNTS; i++) {
            struct drain_counts counts;
            (void)snprintf(name, sizeof name, "nodes_%zu_%zu", node_counts[i], round);
            rates[i][round] = drain(&server, name, node_counts[i], true, count, &counts);
            deadlocks += counts.deadlocks;
        }
    }
    for (size_t i = 0; i < COUNTS; i++) {
        medians[i] = bench_percentile(rates[i], rounds, 0.5);
        best = fmax(best, medians[i]);
    }
    for (size_t i = 0; i < COUNTS; i++) {
        (void)snprintf(name, sizeof name, "pg lifecycles, nodes: %zu (floor: the best)", node_counts[i]);
        bench_report(bench, name, medians[i], "items/s", best, RATIO_AT_LEAST, 0.9);
    }
    bench_report(bench, "pg deadlocks of 1, 2, 4, 8 nodes", deadlocks, "deadlocks", 0, VALUE_AT_MOST, 0);
    postgres_server_close(&server);
}

void bench_postgres_claims(struct bench *bench)
{
    struct postgres_server server;
    if (!postgres_scene_server(bench, "postgres-claims", &server)) {
        return;
    }
    postgres_measure_claims(bench, &server);
    postgres_server_close(&server);
}
