/* PostgreSQL: many nodes on one database, beside the plain SQL floor of the same run.
 *
 * Seconds depend on the machine and on who else uses it; buffers, commits, bytes of log and shares of HOT updates do not.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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
    double server_us; /* of processor */
    double node_us;
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

/* Fields of /proc/PID/stat. */
struct process_times {
    int parent;
    unsigned long own;   /* ticks */
    unsigned long ended; /* of children that have ended */
};

static struct process_times read_times(const char *pid)
{
    struct process_times times = {0};
    unsigned long ticks[4] = {0};
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return times; /* it has ended */
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    const char *rest = strrchr(text, ')'); /* a name may hold anything */
    if (rest != NULL && sscanf(rest, ") %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %lu %lu", &times.parent,
                               &ticks[0], &ticks[1], &ticks[2], &ticks[3]) == 5) {
        times.own = ticks[0] + ticks[1];
        times.ended = ticks[2] + ticks[3];
    }
    return times;
}

/* Ticks of processor of a server's processes, those that have ended and those that have not. */
static unsigned long count_ticks(const struct postgres_server *server, const char *pid,
                                 struct process_times *ret_postmaster)
{
    *ret_postmaster = read_times(pid);
    unsigned long ticks = ret_postmaster->own + ret_postmaster->ended;
    DIR *folder = opendir("/proc");
    BENCH_CHECK(folder != NULL && ticks > 0);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct process_times times = entry->d_name[0] > '9' ? (struct process_times){0} : read_times(entry->d_name);
        ticks += times.parent == (int)server->pid ? times.own : 0;
    }
    (void)closedir(folder);
    return ticks;
}

/* In microseconds. Counted again when a process ended meanwhile, since that one may be in neither count or in both. */
static double server_processor_us(const struct postgres_server *server)
{
    char pid[32];
    struct process_times before;
    unsigned long ticks;
    double end = bench_now() + 10;
    (void)snprintf(pid, sizeof pid, "%d", (int)server->pid);
    do {
        BENCH_CHECK(bench_now() < end);
        ticks = count_ticks(server, pid, &before);
    } while (read_times(pid).ended != before.ended);
    return (double)ticks * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

/* Of this process's children that have ended: the nodes. */
static double nodes_processor_us(void)
{
    struct rusage usage;
    BENCH_CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* What the server's counters stand at before a drain. */
static struct drain_counts begin_counts(const struct postgres_scene *scene)
{
    postgres_scene_run(scene, "SELECT pg_stat_reset()");
    return (struct drain_counts){.server_us = server_processor_us(scene->server),
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
    counts->server_us = (server_processor_us(scene->server) - before->server_us) / (double)count;
    counts->node_us = (nodes_processor_us() - before->node_us) / (double)count;
    counts->wal_bytes =
        ((double)postgres_scene_number(scene, "SELECT (pg_current_wal_lsn() - '0/0')::bigint") - before->wal_bytes) /
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
    struct drain_counts at_first = begin_counts(&scene);
    double began = bench_now();
    postgres_nodes_go(nodes, node_count);
    await_drain(&scene, count);
    double seconds = bench_now() - began;
    postgres_nodes_stop(nodes, node_count);
    count_drain(&scene, count, &at_first, counts);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM workflow_executions WHERE status = 'COMPLETED'") ==
                (int64_t)count);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM workflow_execution_queue") == 0);
    postgres_scene_close(&scene);
    return (double)count / seconds;
}

/* The floor before and after, so that a slow minute shows. */
void bench_postgres_lifecycles(struct bench *bench)
{
    struct postgres_server server;
    size_t count = bench->quick ? 2000 : 200000;
    struct drain_counts counts;
    struct drain_counts free_counts;
    if (!postgres_scene_server(bench, "postgres-lifecycles", &server)) {
        return;
    }
    double before = postgres_floor_lifecycles(&server, "floor_before", count);
    double capped = drain(&server, "capped", 1, true, count, &counts);
    double unlimited = drain(&server, "unlimited", 1, false, count, &free_counts);
    double after = postgres_floor_lifecycles(&server, "floor_after", count);
    bench_note(bench, "pg floor: mark 500, move 500, two clients", (before + after) / 2, "items/s");
    bench_note(bench, "pg floor: first run to second run", before / after, "x");
    bench_report(bench, "pg lifecycles, 1000 workspaces", capped, "items/s", (before + after) / 2, RATIO_AT_LEAST, 0.5);
    bench_report(bench, "pg lifecycles, caps against none", capped, "items/s", unlimited, RATIO_AT_LEAST, 0.8);
    bench_note(bench, "pg of each: processor of the server", counts.server_us, "us");
    bench_note(bench, "pg of each: processor of the node", counts.node_us, "us");
    bench_note(bench, "pg of each, no limits: processor of the server", free_counts.server_us, "us");
    bench_note(bench, "pg of each: commits", counts.commits, "commits");
    bench_note(bench, "pg of each: write-ahead log", counts.wal_bytes, "bytes");
    bench_note(bench, "pg HOT share of updates: queue", counts.hot_queue, "share");
    bench_note(bench, "pg HOT share of updates: lanes", counts.hot_lanes, "share");
    bench_note(bench, "pg HOT share of updates: workspaces", counts.hot_workspaces, "share");
    postgres_server_close(&server);
}

/* Each count of nodes has one drain in each round, and its median counts: one slow minute of the disk decides nothing. */
void bench_postgres_nodes(struct bench *bench)
{
    static const size_t node_counts[] = {1, 2, 4, 8};
    enum { COUNTS = sizeof node_counts / sizeof node_counts[0], ROUNDS = 3 };
    struct postgres_server server;
    size_t rounds = bench->quick ? 1 : ROUNDS;
    size_t count = bench->quick ? 2000 : 50000;
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
