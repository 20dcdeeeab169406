#include "postgres_backlog.h"

#include <stdio.h>

#include "postgres_claim.h"

enum { WORKSPACES = 1000 };

void postgres_backlog_fill(const struct postgres_scene *scene, const char *workflow, size_t first, size_t workspaces,
                           size_t before, size_t count)
{
    char sql[2048];
    /* Ids in the order of their making, as UUIDv7 are; 2020 in microseconds, so that all are due. */
    int length = snprintf(
        sql, sizeof sql,
        "WITH served AS MATERIALIZED (SELECT w.id, row_number() OVER (ORDER BY w.name) - 1 AS place FROM workspaces w "
        "                             WHERE w.name BETWEEN '%s' AND '%s'), "
        "item AS (SELECT n, s.id AS workspace_id, lane_id(g.id, s.id, d.demand) AS lane_id, 1577836800000000 + n AS at, "
        "                d.id AS definition_id "
        "         FROM generate_series(%zu, %zu) n JOIN served s ON s.place = (n - 1) %% %zu "
        "         CROSS JOIN executor_groups g CROSS JOIN workflow_definitions d WHERE d.name = '%s'), "
        "filled AS (INSERT INTO workflow_execution_queue (id, lane_id, definition_id, rank, run_at, created_at, "
        "workspace_id, "
        "                                                 priority, phase, status) "
        "           SELECT (lpad(to_hex(i.n), 12, '0') || '7000' || '8000' || lpad(to_hex(i.definition_id), 12, "
        "'0'))::uuid, "
        "                  i.lane_id, i.definition_id, i.at, i.at, i.at, i.workspace_id, 0, 0, 'PENDING' FROM item i) "
        "INSERT INTO news (at, kind, lanes, runnable, least_rank) "
        "SELECT store_time(), 1, array_agg(l.lane_id), array_agg(l.items), array_agg(l.least_rank) "
        "FROM (SELECT i.lane_id, count(*)::integer AS items, min(i.at) AS least_rank FROM item i GROUP BY 1) l",
        fixture_workspace(first), fixture_workspace(first + workspaces - 1), before + 1, before + count, workspaces,
        workflow);
    BENCH_CHECK(length > 0 && (size_t)length < sizeof sql);
    postgres_scene_run(scene, sql);
}

static void measure(struct bench *bench, struct postgres_server *server)
{
    static const struct {
        const char *name;
        size_t count;
        size_t quick;
    } levels[] = {{"1k pending", 1000, 1000},
                  {"100k pending", 100000, 2000},
                  {"1M pending", 1000000, 3000},
                  {"10M pending", 10000000, 4000}};
    struct postgres_scene scene;
    struct postgres_claim claim;
    struct explained least = {0};
    size_t filled = 0;
    postgres_scene_open(&scene, server, "backlog", true);
    postgres_claim_open(&claim, &scene);
    postgres_scene_set_relaxed(&scene, true);
    fixture_workspaces(scene.store, 0, WORKSPACES, "enterprise");
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        char name[32];
        size_t count = bench->quick ? levels[i].quick : levels[i].count;
        postgres_scene_set_relaxed(&scene, true);
        postgres_backlog_fill(&scene, "noop", 0, WORKSPACES, filled, count - filled);
        filled = count;
        postgres_scene_set_relaxed(&scene, false);
        struct explained explained = postgres_claim_explain(bench, &claim, 0, 10);
        least = i == 0 ? explained : least;
        filled += 10;
        (void)snprintf(name, sizeof name, ", %s", levels[i].name);
        postgres_claim_report(bench, name, &explained, &least);
    }
    postgres_claim_close(&claim);
    postgres_scene_close(&scene);
}

void bench_postgres_backlog(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-backlog", &server)) {
        measure(bench, &server);
        postgres_server_close(&server);
    }
}
