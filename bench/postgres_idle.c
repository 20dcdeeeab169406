/* The queries and writes of a node that schedules while there is nothing to do: the server logs each statement, and they
 * are counted. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "postgres_scene.h"

struct asked {
    double statements;
    double heartbeats;
    double rounds; /* of the scheduler; they renew its lease */
};

/* In the server's log from `offset` on; *offset moves to its end. */
static struct asked count_asked(const struct postgres_server *server, long *offset)
{
    char path[128];
    char line[4096];
    struct asked asked = {0};
    (void)snprintf(path, sizeof path, "%s/log", server->folder);
    FILE *log = fopen(path, "r");
    BENCH_CHECK(log != NULL && fseek(log, *offset, SEEK_SET) == 0);
    while (fgets(line, sizeof line, log) != NULL) {
        asked.statements += strstr(line, "LOG:  execute ") != NULL || strstr(line, "LOG:  statement: ") != NULL;
        asked.heartbeats += strstr(line, "LOG:  execute beat_node") != NULL;
        asked.rounds += strstr(line, "LOG:  execute schedule") != NULL;
    }
    *offset = ftell(log);
    BENCH_CHECK(*offset >= 0 && fclose(log) == 0);
    return asked;
}

static void measure(struct bench *bench, struct postgres_server *server)
{
    static const char next_transaction[] = "SELECT pg_snapshot_xmax(pg_current_snapshot())";
    double seconds = bench->quick ? 5 : 60;
    long offset = 0;
    struct postgres_scene scene;
    struct postgres_process node;
    postgres_scene_open(&scene, server, "idle", true);
    fixture_workspaces(scene.store, 0, 10, "enterprise");
    postgres_scene_run(&scene, "ALTER SYSTEM SET autovacuum = off"); /* it takes transaction ids as well */
    postgres_scene_run(&scene, "SELECT pg_reload_conf()");
    postgres_scene_run(&scene, "ALTER DATABASE idle SET log_statement = 'all'"); /* of connections from now on */
    postgres_nodes_make(&scene, NULL, &node, 1);
    postgres_nodes_go(&node, 1);
    for (double end = bench_now() + 60; count_asked(server, &offset).rounds == 0;) { /* until it schedules */
        BENCH_CHECK(bench_now() < end);
        bench_pause(1);
    }
    int64_t before = postgres_scene_number(&scene, next_transaction);
    bench_pause(seconds);
    struct asked asked = count_asked(server, &offset);
    int64_t writes = postgres_scene_number(&scene, next_transaction) - before;
    postgres_nodes_stop(&node, 1);
    postgres_scene_run(&scene, "ALTER SYSTEM RESET autovacuum");
    postgres_scene_run(&scene, "SELECT pg_reload_conf()");
    postgres_scene_close(&scene);
    bench_report(bench, "pg idle node: statements a minute", asked.statements / seconds * 60, "statements", 0,
                 VALUE_AT_MOST, 60);
    bench_note(bench, "pg idle node: of these heartbeats", asked.heartbeats / seconds * 60, "statements");
    bench_note(bench, "pg idle node: of these rounds of the scheduler", asked.rounds / seconds * 60, "statements");
    /* One of either kind may fall between the two readings. */
    bench_report(bench, "pg idle node: other writes", fmax(0, (double)writes - asked.heartbeats - asked.rounds - 2),
                 "writes", 0, VALUE_AT_MOST, 0);
}

void bench_postgres_idle(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-idle", &server)) {
        measure(bench, &server);
        postgres_server_close(&server);
    }
}
