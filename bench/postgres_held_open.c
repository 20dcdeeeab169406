/* The cost of a claim beside a transaction that stays open, at a steady 1,000 executions per second. The server keeps every
 * row version that dies meanwhile, and every index its entry. On a machine that is too slow for that pace, the measurement
 * lasts until as many executions have ended. */
#include <stdio.h>

#include "base/text.h"
#include "postgres_load.h"

enum { PACE = 1000, WORKSPACES = 1000 };

/* Buffers are those of the load's own statements: a statement that is explained and undone repeatedly leaves dead rows of
 * its own, and the next one reads them. */
struct cost {
    struct postgres_load_times times;
    double enqueue; /* buffers, of ten executions */
    double claim;   /* all rounds of it */
    double record;
    double publish;
};

/* A repeatable read that has also written, as a program that enqueues and then forgets to commit: both its snapshot and
 * its own id keep dead rows. */
static PGconn *hold(const struct postgres_scene *scene)
{
    PGconn *holder = PQconnectdb(scene->url);
    BENCH_CHECK(PQstatus(holder) == CONNECTION_OK);
    PGresult *result = PQexec(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()");
    BENCH_CHECK(PQresultStatus(result) == PGRES_TUPLES_OK);
    PQclear(result);
    return holder;
}

static struct cost measure_cost(const struct postgres_scene *scene, struct postgres_load *load, size_t window)
{
    postgres_scene_count_anew(scene);
    struct cost cost = {.times = postgres_load_run(load, PACE, window)};
    cost.enqueue = 10 * postgres_scene_counted(scene, "%.enqueue_set(%", window);
    cost.claim = 10 * postgres_scene_counted(scene, "%.schedule(%", window);
    cost.record = 10 * postgres_scene_counted(scene, "%.record(%", window);
    cost.publish = 10 * postgres_scene_counted(scene, "%.publish_books(%", window);
    return cost;
}

static void report(struct bench *bench, const char *kind, const struct cost *before, const struct cost *after)
{
    const struct {
        const char *name;
        const char *unit;
        double before;
        double after;
        bool is_note;
    } figures[] = {{"p50", "us", before->times.p50_us, after->times.p50_us, false},
                   {"p99", "us", before->times.p99_us, after->times.p99_us, false},
                   {"enqueue ten", "buffers", before->enqueue, after->enqueue, false},
                   {"claim ten", "buffers", before->claim, after->claim, false},
                   {"record ten", "buffers", before->record, after->record, false},
                   /* Once a second, and at most a twentieth of the scheduler's time (dispatch/scheduling.c). */
                   {"publish ten", "buffers", before->publish, after->publish, true}};
    char name[FIGURE_NAME_MAX];
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        (void)snprintf(name, sizeof name, "pg held open, %s: %s", kind, figures[i].name);
        bench_report(bench, name, figures[i].after, figures[i].unit, figures[i].before,
                     figures[i].is_note ? GOAL_NONE : RATIO_AT_MOST, 2);
    }
    (void)snprintf(name, sizeof name, "pg held open, %s: rate", kind);
    bench_report(bench, name, after->times.per_second, "items/s", before->times.per_second, GOAL_NONE, 0);
}

static void measure(struct bench *bench, struct postgres_server *server, const char *kind, size_t workspaces)
{
    struct postgres_scene scene;
    struct postgres_load load;
    size_t window = bench->quick ? 200 : 10 * PACE;
    size_t held = bench->quick ? 1000 : (size_t)bench->hold_seconds * PACE;
    postgres_scene_open(&scene, server, "held_open", true);
    postgres_scene_set_relaxed(&scene, true);
    fixture_workspaces(scene.store, 0, workspaces, workspaces == 1 ? "enterprise" : NULL);
    postgres_scene_set_relaxed(&scene, false);
    postgres_load_open(&load, scene.store, postgres_scene_node(&scene), workspaces);
    (void)postgres_load_run(&load, PACE, window);
    struct cost before = measure_cost(&scene, &load, window);
    PGconn *holder = hold(&scene);
    (void)postgres_load_run(&load, PACE, held - window);
    struct cost after = measure_cost(&scene, &load, window);
    PQfinish(holder);
    (void)postgres_load_run(&load, PACE, 10); /* executions that were only enqueued */
    postgres_load_close(&load);
    postgres_scene_close(&scene);
    report(bench, kind, &before, &after);
}

void bench_postgres_held_open(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server_with(bench, "postgres-held-open", POSTGRES_COUNTING, &server)) {
        measure(bench, &server, "1000 workspaces", WORKSPACES);
        measure(bench, &server, "one workspace", 1);
        postgres_server_close(&server);
    }
}
