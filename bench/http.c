/* Requests over HTTP to `weir serve`, beside the same calls in this process on the same kind of store. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "fixture.h"
#include "http_idle.h"
#include "http_load.h"
#include "http_streams.h"
#include "http_tasks.h"
#include "postgres_scene.h"

enum { CLIENTS = 64, REQUEST_MAX = 4096, READ_WORKSPACES = 10000, READ_ROWS = 1000000 };

static struct weir_error fault;

struct caller {
    struct store *store;
    size_t count;
};

static void *enqueue_one_by_one(void *context)
{
    struct caller *caller = context;
    struct weir_error error;
    struct enqueue_request request = {
        .workspace = "w00000", .workflow = "noop", .params = "{\"n\": 1}", .params_length = 8};
    struct enqueue_result result;
    for (size_t i = 0; i < caller->count; i++) {
        BENCH_OK(store_enqueue(caller->store, &request, 1, &result, &error), &error);
    }
    return NULL;
}

/* As many threads as the server has clients, each with a handle of its own. */
static double enqueue_in_process(struct store *store, size_t threads_count, size_t count)
{
    pthread_t threads[CLIENTS];
    struct caller callers[CLIENTS];
    for (size_t i = 0; i < threads_count; i++) {
        callers[i].count = count / threads_count;
        BENCH_OK(store_open_again(store, &callers[i].store, &fault), &fault);
    }
    double began = bench_now();
    for (size_t i = 0; i < threads_count; i++) {
        BENCH_CHECK(pthread_create(&threads[i], NULL, enqueue_one_by_one, &callers[i]) == 0);
    }
    for (size_t i = 0; i < threads_count; i++) {
        BENCH_CHECK(pthread_join(threads[i], NULL) == 0);
    }
    double seconds = bench_now() - began;
    for (size_t i = 0; i < threads_count; i++) {
        store_close(callers[i].store);
    }
    return (double)(count / threads_count * threads_count) / seconds;
}

static struct http_load_result ask(int port, const char *method, const char *path, const char *body, size_t connections,
                                   size_t count)
{
    char request[REQUEST_MAX];
    struct http_load load = {.port = port, .connections = connections, .count = count, .request = request};
    load.request_length = http_load_request(method, path, body, request, sizeof request);
    return http_load_run(&load);
}

/* The times are those that pass for the client. Each workspace has a lane with waiting items, which is the most that the
 * state of a queue can have to sum. The queue is paused, so that all of them stay there. Each request is answered before
 * the next one is sent. */
void bench_http_reads(struct bench *bench)
{
    size_t workspaces = bench->quick ? 200 : READ_WORKSPACES;
    size_t rows = bench->quick ? 2000 : READ_ROWS;
    size_t scrapes = bench->quick ? 5 : 100;
    struct daemon daemon;
    int port = http_load_free_port();
    struct store *store = fixture_store(bench, "http-reads");
    char path[128];
    struct enqueue_request request = {
        .workspace = "w00000", .workflow = "noop", .params = "{\"n\": 1}", .params_length = 8};
    struct enqueue_result last;
    fixture_workspaces(store, 0, workspaces, NULL);
    BENCH_OK(store_set_paused(store, NULL, true, &fault), &fault);
    fixture_publish(store, "true", "name: \"true\"\nsteps:\n  run:\n    exec: [\"true\"]\n");
    fixture_fill_with(store, "true", 0, workspaces, rows);
    BENCH_OK(store_enqueue(store, &request, 1, &last, &fault), &fault);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    struct http_load_result metrics = ask(port, "GET", "/metrics", NULL, 1, scrapes);
    (void)snprintf(path, sizeof path, "/v1/executions/%s", last.id);
    struct http_load_result one = ask(port, "GET", path, NULL, 1, scrapes * 10);
    (void)snprintf(path, sizeof path, "/v1/executions/%s/why", last.id);
    struct http_load_result why = ask(port, "GET", path, NULL, 1, scrapes * 10);
    bench_report(bench, "http, /metrics, 10k workspaces: p50", metrics.p50_ms, "ms", 0, VALUE_AT_MOST, 20);
    bench_note(bench, "http, /metrics, 10k workspaces: p99", metrics.p99_ms, "ms");
    bench_report(bench, "http, GET of one execution at 1M rows: p99", one.p99_ms, "ms", 0, VALUE_AT_MOST, 5);
    bench_report(bench, "http, why of one execution at 1M rows: p99", why.p99_ms, "ms", 0, VALUE_AT_MOST, 5);
    daemon_stop(&daemon);
    store_close(store);
}

/* Sets of 1,000 in one request each, beside the same sets in this process. */
static void measure_batches(struct bench *bench, struct store *store, int port, const char *name, enum goal_kind kind,
                            double goal)
{
    enum { BATCH = 1000, ITEM_BYTES = 64 };
    size_t batches = bench->quick ? 2 : 200;
    size_t size = (size_t)BATCH * ITEM_BYTES + REQUEST_MAX;
    char *body = malloc(size);
    char *request = malloc(size + REQUEST_MAX);
    BENCH_CHECK(body != NULL && request != NULL);
    size_t length = (size_t)snprintf(body, size, "{\"items\":[");
    for (size_t i = 0; i < BATCH; i++) {
        length += (size_t)snprintf(body + length, size - length, "%s{\"workspace\":\"w00000\",\"workflow\":\"noop\"}",
                                   i == 0 ? "" : ",");
    }
    (void)snprintf(body + length, size - length, "]}");
    struct http_load load = {.port = port, .connections = 4, .count = batches, .request = request};
    load.request_length = http_load_request("POST", "/v1/executions:batch", body, request, size + REQUEST_MAX);
    double began = bench_now();
    fixture_fill(store, 0, 1, batches * BATCH);
    double direct = (double)(batches * BATCH) / (bench_now() - began);
    struct http_load_result result = http_load_run(&load);
    bench_report(bench, name, result.per_second * BATCH, "items/s", direct, kind, goal);
    free(body);
    free(request);
}

/* The queue is paused: enqueues are measured, not the executions. */
static void measure_enqueues(struct bench *bench)
{
    static const char path[] = "/v1/workspaces/w00000/executions";
    static const char body[] = "{\"workflow\":\"noop\",\"params\":{\"n\": 1}}";
    size_t count = bench->quick ? 2000 : 100000;
    size_t singles = bench->quick ? 100 : 2000;
    struct daemon daemon;
    int port = http_load_free_port();
    struct store *store = fixture_store(bench, "http");
    fixture_workspaces(store, 0, 1, NULL);
    BENCH_OK(store_set_paused(store, NULL, true, &fault), &fault);
    double direct = enqueue_in_process(store, CLIENTS, count);
    double direct_single = enqueue_in_process(store, 1, singles);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    struct http_load_result alive = ask(port, "GET", "/livez", NULL, CLIENTS, count);
    struct http_load_result many = ask(port, "POST", path, body, CLIENTS, count);
    struct http_load_result single = ask(port, "POST", path, body, 1, singles);
    bench_note(bench, "http, requests without the store, 64 connections", alive.per_second, "requests/s");
    bench_report(bench, "http, enqueue, 64 connections", many.per_second, "items/s", direct, RATIO_AT_LEAST, 0.5);
    bench_report(bench, "http, enqueue, 64 connections: rate", many.per_second, "items/s", 0, VALUE_AT_LEAST, 10000);
    bench_note(bench, "http, enqueue, 64 connections: p99", many.p99_ms, "ms");
    double library_ms = 1000 / direct_single;
    bench_report(bench, "http, enqueue, 1 connection: p50 (floor: the library)", single.p50_ms, "ms", library_ms,
                 VALUE_AT_MOST, library_ms + 0.3);
    measure_batches(bench, store, port, "http, enqueue, batches of 1,000", VALUE_AT_LEAST, 100000);
    bench_note(bench, "http, memory of the node", daemon_status_mib(&daemon, "VmRSS:"), "MiB");
    bench_http_streams(bench, store, port, &daemon);
    daemon_stop(&daemon);
    fixture_check(store);
    store_close(store);
}

void bench_http(struct bench *bench)
{
    measure_enqueues(bench);
    bench_http_idle(bench);
    bench_http_tasks(bench);
}

/* The queue is paused, as above. */
static void measure_postgres_enqueues(struct bench *bench, struct postgres_server *server)
{
    static const char path[] = "/v1/workspaces/w00000/executions";
    static const char body[] = "{\"workflow\":\"noop\",\"params\":{\"n\": 1}}";
    size_t count = bench->quick ? 2000 : 50000;
    struct daemon daemon;
    struct postgres_scene scene;
    int port = http_load_free_port();
    postgres_scene_open(&scene, server, "http", true);
    fixture_workspaces(scene.store, 0, 1, NULL);
    BENCH_OK(store_set_paused(scene.store, NULL, true, &fault), &fault);
    double direct = enqueue_in_process(scene.store, CLIENTS, count);
    daemon_serve_http(bench, scene.url, port, &daemon);
    struct http_load_result many = ask(port, "POST", path, body, CLIENTS, count);
    bench_report(bench, "pg http, enqueue, 64 connections", many.per_second, "items/s", direct, RATIO_AT_LEAST, 0.5);
    measure_batches(bench, scene.store, port, "pg http, enqueue, batches of 1,000", RATIO_AT_LEAST, 0.7);
    daemon_stop(&daemon);
    postgres_scene_close(&scene);
}

void bench_postgres_http(struct bench *bench)
{
    struct postgres_server server;
    if (postgres_scene_server(bench, "postgres-http", &server)) {
        measure_postgres_enqueues(bench, &server);
        postgres_server_close(&server);
    }
}
