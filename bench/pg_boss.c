/* Jobs that are sent to pg-boss over its HTTP proxy, beside enqueues to `weir serve`, in turn on the same server.
 *
 * Both write to databases of one private PostgreSQL server with fsync and synchronous_commit on. Both get the same params
 * from the same load generator over connections that stay open, with one request under way on each. The proxy starts as its
 * documentation recommends: the command `pg-boss-proxy` with DATABASE_URL. Its log of each request is off, since weir has
 * none. Each round begins with requests that do not count, because the proxy compiles its code while it runs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_load.h"
#include "postgres_scene.h"

enum { CLIENTS = 64, ROUNDS = 3, REQUEST_MAX = 1024 };

static struct weir_error fault;

/* Whether the path of programs has it. */
static bool is_installed(const char *program)
{
    char path[DAEMON_PATH_MAX];
    const char *folder = getenv("PATH");
    while (folder != NULL && *folder != '\0') {
        size_t length = strcspn(folder, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, program);
        if (access(path, X_OK) == 0) {
            return true;
        }
        folder += length + (folder[length] == ':' ? 1 : 0);
    }
    return false;
}

static double post(int port, const char *path, const char *body, size_t connections, size_t count)
{
    char request[REQUEST_MAX];
    struct http_load load = {.port = port, .connections = connections, .count = count, .request = request};
    load.request_length = http_load_request("POST", path, body, request, sizeof request);
    return http_load_run(&load).per_second;
}

static double post_many(int port, const char *path, const char *body, size_t count)
{
    (void)post(port, path, body, CLIENTS, count / 5);
    return post(port, path, body, CLIENTS, count);
}

/* The proxy makes no schema: the command of pg-boss does. */
static pid_t start_proxy(struct bench *bench, const char *url, int port)
{
    static const char *const proxy[] = {"pg-boss-proxy", NULL};
    const char *const create[] = {"pg-boss", "create", "--connection-string", url, NULL};
    char number[16];
    (void)snprintf(number, sizeof number, "%d", port);
    pid_t child = daemon_spawn(create, "/dev/null");
    BENCH_CHECK(child > 0 && daemon_await_exit(child));
    BENCH_CHECK(setenv("DATABASE_URL", url, 1) == 0 && setenv("HOST", "127.0.0.1", 1) == 0);
    BENCH_CHECK(setenv("PORT", number, 1) == 0 && setenv("PGBOSS_PROXY_REQUEST_LOGGER", "false", 1) == 0);
    child = daemon_spawn(proxy, "/dev/null");
    BENCH_CHECK(child > 0);
    bench->figures->daemon = child;
    return child;
}

/* Jobs per second. */
static double measure_proxy(struct bench *bench, struct postgres_server *server, const char *name, size_t count)
{
    struct postgres_scene scene;
    int port = http_load_free_port();
    postgres_scene_open(&scene, server, name, false);
    pid_t child = start_proxy(bench, scene.url, port);
    (void)post(port, "/api/createQueue", "{\"name\":\"noop\"}", 1, 1);
    double rate = post_many(port, "/api/send", "{\"name\":\"noop\",\"data\":{\"n\": 1}}", count);
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM pgboss.job") == (int64_t)(count + count / 5));
    BENCH_CHECK(kill(child, SIGTERM) == 0 && waitpid(child, NULL, 0) == child);
    bench->figures->daemon = 0;
    postgres_scene_close(&scene);
    return rate;
}

/* The queue is paused: enqueues are measured, not the executions. */
static double measure_weir(struct bench *bench, struct postgres_server *server, const char *name, size_t count)
{
    struct daemon daemon;
    struct postgres_scene scene;
    int port = http_load_free_port();
    postgres_scene_open(&scene, server, name, true);
    fixture_workspaces(scene.store, 0, 1, NULL);
    BENCH_OK(store_set_paused(scene.store, NULL, true, &fault), &fault);
    daemon_serve_http(bench, scene.url, port, &daemon);
    double rate =
        post_many(port, "/v1/workspaces/w00000/executions", "{\"workflow\":\"noop\",\"params\":{\"n\": 1}}", count);
    daemon_stop(&daemon);
    postgres_scene_close(&scene);
    return rate;
}

void bench_postgres_pg_boss(struct bench *bench)
{
    struct postgres_server server;
    double sent[ROUNDS];
    double enqueued[ROUNDS];
    char name[SCENE_NAME_MAX];
    size_t count = bench->quick ? 500 : 20000;
    size_t rounds = bench->quick ? 1 : ROUNDS;
    if (!is_installed("pg-boss") || !is_installed("pg-boss-proxy")) {
        printf("postgres-pg-boss: left out: the programs pg-boss and pg-boss-proxy are not installed (npm: the packages "
               "pg-boss and @pg-boss/proxy)\n");
        return;
    }
    if (!postgres_scene_server(bench, "postgres-pg-boss", &server)) {
        return;
    }
    for (size_t round = 0; round < rounds; round++) {
        (void)snprintf(name, sizeof name, "pg_boss_%zu", round);
        sent[round] = measure_proxy(bench, &server, name, count);
        (void)snprintf(name, sizeof name, "beside_%zu", round);
        enqueued[round] = measure_weir(bench, &server, name, count);
    }
    double jobs = bench_percentile(sent, rounds, 0.5);
    bench_note(bench, "pg-boss, send over its proxy, 64 connections", jobs, "jobs/s");
    bench_report(bench, "weir beside it: pg enqueue over HTTP, 64 connections", bench_percentile(enqueued, rounds, 0.5),
                 "items/s", jobs, GOAL_NONE, 0);
    postgres_server_close(&server);
}
