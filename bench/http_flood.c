/* A quota flood: one token enqueues into its workspace at FLOOD_PER_SECOND, and its rate is FLOOD_RATE. The server refuses
 * nearly all of it with 429. Several rounds of:
 *
 *     requests of the other tenant alone -> the flood begins -> the same requests -> the flood ends
 *
 * The figure is the p99 beside the flood, its floor the p99 alone, each the median of the rounds. The flood has a fixed
 * rate, since a flood without a limit measures the processor that the two clients and the server share. The queue is
 * paused, so that requests are measured and not executions. */
#include "http_flood.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_load.h"
#include "http_tenant.h"
#include "postgres_scene.h"

enum {
    FLOOD_CONNECTIONS = 64,
    FLOOD_PER_SECOND = 2000,
    FLOOD_RATE = 100,
    ORDINARY = 8, /* connections */
    ROUNDS = 7,
    REQUESTS = 4000,
    RECEIVE_BYTES = 4096,
    TICKS_PER_SECOND = 500
};

static struct weir_error fault;

struct flood {
    int port;
    char request[HTTP_TENANT_REQUEST_MAX];
    size_t request_length;
    int fds[FLOOD_CONNECTIONS];
    bool is_asked[FLOOD_CONNECTIONS]; /* a request without an answer */
    size_t accepted;
    size_t refused;
    atomic_bool is_over;
    pthread_t thread;
};

/* --- the flood --- */

/* An answer is small, so it comes as a whole. */
static void read_flood_answer(struct flood *flood, size_t i)
{
    char bytes[RECEIVE_BYTES];
    ssize_t got = recv(flood->fds[i], bytes, sizeof bytes - 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got <= 0) { /* the server has closed it: the flood goes on with another connection */
        (void)close(flood->fds[i]);
        flood->fds[i] = http_load_connect(flood->port);
        flood->is_asked[i] = false;
        return;
    }
    bytes[got] = '\0';
    bool is_refused = strncmp(bytes, "HTTP/1.1 429 ", strlen("HTTP/1.1 429 ")) == 0;
    if (!is_refused && strncmp(bytes, "HTTP/1.1 2", strlen("HTTP/1.1 2")) != 0) {
        bench_fail(__FILE__, __LINE__, bytes);
    }
    flood->refused += is_refused ? 1 : 0;
    flood->accepted += is_refused ? 0 : 1;
    flood->is_asked[i] = false;
}

static void *run_flood(void *context)
{
    struct flood *flood = context;
    double began = bench_now();
    size_t sent = 0;
    while (!atomic_load(&flood->is_over)) {
        size_t due = (size_t)((bench_now() - began) * FLOOD_PER_SECOND);
        for (size_t i = 0; i < FLOOD_CONNECTIONS; i++) {
            if (flood->is_asked[i]) {
                read_flood_answer(flood, i);
            }
            if (!flood->is_asked[i] && sent < due) {
                http_load_send(flood->fds[i], flood->request, flood->request_length);
                flood->is_asked[i] = true;
                sent++;
            }
        }
        bench_pause(1.0 / TICKS_PER_SECOND);
    }
    return NULL;
}

static void begin_flood(struct flood *flood)
{
    atomic_store(&flood->is_over, false);
    for (size_t i = 0; i < FLOOD_CONNECTIONS; i++) {
        flood->fds[i] = http_load_connect(flood->port);
        flood->is_asked[i] = false;
    }
    BENCH_CHECK(pthread_create(&flood->thread, NULL, run_flood, flood) == 0);
    bench_pause(1); /* the credit of a second is spent */
}

static void end_flood(struct flood *flood)
{
    atomic_store(&flood->is_over, true);
    BENCH_CHECK(pthread_join(flood->thread, NULL) == 0);
    for (size_t i = 0; i < FLOOD_CONNECTIONS; i++) {
        (void)close(flood->fds[i]);
    }
}

/* --- the other tenant --- */

struct other {
    char enqueue[HTTP_TENANT_REQUEST_MAX];
    char get[HTTP_TENANT_REQUEST_MAX];
    double enqueue_ms[ROUNDS];
    double get_ms[ROUNDS];
    double enqueue_beside_ms[ROUNDS];
    double get_beside_ms[ROUNDS];
};

static double p99_of(int port, const char *request, size_t count)
{
    struct http_load load = {
        .port = port, .connections = ORDINARY, .count = count, .request = request, .request_length = strlen(request)};
    return http_load_run(&load).p99_ms;
}

static void report(struct bench *bench, const char *prefix, const char *what, double *alone, double *beside, size_t rounds)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s, %s beside a token beyond its rate: p99", prefix, what);
    bench_report(bench, name, bench_percentile(beside, rounds, 0.5), "ms", bench_percentile(alone, rounds, 0.5),
                 RATIO_AT_MOST, 1.5);
}

static void run_rounds(struct bench *bench, struct flood *flood, struct other *other, const char *prefix)
{
    size_t rounds = bench->quick ? 1 : ROUNDS;
    size_t count = bench->quick ? 200 : REQUESTS;
    for (size_t round = 0; round < rounds; round++) {
        other->enqueue_ms[round] = p99_of(flood->port, other->enqueue, count);
        other->get_ms[round] = p99_of(flood->port, other->get, count);
        begin_flood(flood);
        other->enqueue_beside_ms[round] = p99_of(flood->port, other->enqueue, count);
        other->get_beside_ms[round] = p99_of(flood->port, other->get, count);
        end_flood(flood);
    }
    report(bench, prefix, "enqueue", other->enqueue_ms, other->enqueue_beside_ms, rounds);
    report(bench, prefix, "GET", other->get_ms, other->get_beside_ms, rounds);
}

/* In a new store without workspaces. `prefix` begins the names of the figures. */
static void measure_flood(struct bench *bench, struct store *store, const char *url, const char *prefix)
{
    static const char body[] = "{\"workflow\":\"noop\"}";
    char secret[TOKEN_SECRET_LENGTH + 1];
    char path[128];
    struct daemon daemon;
    struct enqueue_request request = {.workspace = "w00000", .workflow = "noop"};
    struct enqueue_result last;
    struct other *other = calloc(1, sizeof *other);
    struct flood *flood = calloc(1, sizeof *flood);
    BENCH_CHECK(other != NULL && flood != NULL);
    fixture_workspaces(store, 0, 2, NULL);
    BENCH_OK(store_set_paused(store, NULL, true, &fault), &fault);
    BENCH_OK(store_enqueue(store, &request, 1, &last, &fault), &fault);
    (void)snprintf(path, sizeof path, "/v1/executions/%s", last.id);
    http_tenant_token(store, "other", "w00000", 0, secret);
    (void)http_tenant_request(secret, "POST", "/v1/workspaces/w00000/executions", body, other->enqueue);
    (void)http_tenant_request(secret, "GET", path, NULL, other->get);
    http_tenant_token(store, "flood", "w00001", FLOOD_RATE, secret);
    flood->request_length = http_tenant_request(secret, "POST", "/v1/workspaces/w00001/executions", body, flood->request);
    flood->port = http_load_free_port();
    daemon_serve_http(bench, url, flood->port, &daemon);
    run_rounds(bench, flood, other, prefix);
    BENCH_CHECK(flood->accepted > 0 && flood->refused > flood->accepted); /* else there was no flood */
    daemon_stop(&daemon);
    free(flood);
    free(other);
}

void bench_http_flood(struct bench *bench)
{
    struct store *store = fixture_store(bench, "http-flood");
    measure_flood(bench, store, store_url(store), "http");
    fixture_check(store);
    store_close(store);
}

void bench_postgres_http_flood(struct bench *bench)
{
    struct postgres_server server;
    struct postgres_scene scene;
    if (postgres_scene_server(bench, "postgres-http-flood", &server)) {
        postgres_scene_open(&scene, &server, "http_flood", true);
        measure_flood(bench, scene.store, scene.url, "pg http");
        postgres_scene_close(&scene);
        postgres_server_close(&server);
    }
}
