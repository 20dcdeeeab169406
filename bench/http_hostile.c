/* Ordinary requests beside connections that are slow, silent or many. For each kind, several rounds of:
 *
 *     ordinary requests alone -> open the hostile connections -> the same requests -> close them
 *
 * The figure of a kind is the p99 beside it, its floor the p99 alone, each the median of the rounds. A thread plays the
 * hostile clients: a slow one sends or reads a few bytes a second, and each comes back when the server has cut it. The
 * queue is paused, so that enqueues are measured and not the executions. */
#include "http_hostile.h"

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

enum {
    ORDINARY = 8, /* connections */
    ROUNDS = 7,
    REQUESTS = 4000,
    PAGE_ROWS = 1000,
    REQUEST_MAX = 512,
    SLICES_PER_SECOND = 20, /* a part of the connections acts in each */
    SECONDS_SILENT = 10,    /* between two looks at a connection that does nothing */
    RECEIVE_BYTES = 1024,
    SETTLE_REQUESTS = 50
};

static struct weir_error fault;

/* `opening` is sent `times` after the connect. Then, each second, `drip` is sent, or a few bytes are read. */
struct kind {
    const char *name;
    size_t connections;
    const char *opening;
    size_t times;
    const char *drip;
    bool reads;
    bool is_asked; /* the answer to `opening` is read before the measurement */
};

#define POST_OF_A_MEBIBYTE                                                                                                 \
    "POST /v1/workspaces/w00000/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"              \
    "Content-Length: 1048576\r\n\r\n{"

/* The pages of the slow readers are larger than a socket's buffers together, and stay below the memory that the server
 * gives to answers: further readers would be refused at once. */
static const struct kind kinds[] = {
    {"slow heads", 1000, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", 1, "a", false, false},
    {"slow bodies", 1000, POST_OF_A_MEBIBYTE, 1, " ", false, false},
    {"slow readers", 64, "GET /v1/executions?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n", 16, NULL, true, false},
    {"1,000 half-open", 1000, "GET /livez HTTP/1.1\r\nHost: local", 1, NULL, false, false},
    {"10,000 idle", 10000, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 1, NULL, false, true},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct hostile {
    const struct kind *kind;
    int port;
    size_t count;
    int *fds;
    size_t returned; /* connections that were cut and came back */
    atomic_bool is_over;
    pthread_t thread;
};

/* --- the hostile clients --- */

static int open_hostile(const struct hostile *hostile, struct http_load_answer *answer)
{
    int fd = http_load_connect(hostile->port);
    int small = 4096;
    if (hostile->kind->reads) {
        BENCH_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    }
    for (size_t i = 0; i < hostile->kind->times; i++) {
        http_load_send(fd, hostile->kind->opening, strlen(hostile->kind->opening));
    }
    if (hostile->kind->is_asked && answer != NULL) {
        *answer = (struct http_load_answer){.bytes = answer->bytes};
        while (!http_load_read(fd, answer)) {
        }
    }
    return fd;
}

/* A look costs the processor of this machine, too, so that silent clients have few of them. Whether it is still open. */
static bool act(const struct kind *kind, int fd)
{
    char bytes[RECEIVE_BYTES];
    if (kind->drip != NULL && send(fd, kind->drip, strlen(kind->drip), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        return errno == EAGAIN;
    }
    ssize_t got = recv(fd, bytes, kind->reads ? sizeof bytes : 1, MSG_DONTWAIT);
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void *play(void *context)
{
    struct hostile *hostile = context;
    bool is_silent = hostile->kind->drip == NULL && !hostile->kind->reads;
    size_t slices = (size_t)SLICES_PER_SECOND * (is_silent ? SECONDS_SILENT : 1);
    for (size_t slice = 0; !atomic_load(&hostile->is_over); slice = (slice + 1) % slices) {
        for (size_t i = slice; i < hostile->count; i += slices) {
            if (!act(hostile->kind, hostile->fds[i])) {
                (void)close(hostile->fds[i]);
                hostile->fds[i] = open_hostile(hostile, NULL);
                hostile->returned++;
            }
        }
        bench_pause(1.0 / SLICES_PER_SECOND);
    }
    return NULL;
}

static void begin_hostile(struct hostile *hostile, const struct kind *kind, int port, bool quick)
{
    struct http_load_answer answer = {.bytes = malloc(HTTP_LOAD_ANSWER_MAX)};
    size_t count = http_load_connections_possible(quick ? kind->connections / 20 : kind->connections);
    *hostile = (struct hostile){.kind = kind, .port = port, .count = count, .fds = calloc(count, sizeof(int))};
    BENCH_CHECK(answer.bytes != NULL && hostile->fds != NULL);
    for (size_t i = 0; i < count; i++) {
        hostile->fds[i] = open_hostile(hostile, &answer);
    }
    free(answer.bytes);
    BENCH_CHECK(pthread_create(&hostile->thread, NULL, play, hostile) == 0);
}

static void end_hostile(struct hostile *hostile)
{
    atomic_store(&hostile->is_over, true);
    BENCH_CHECK(pthread_join(hostile->thread, NULL) == 0);
    for (size_t i = 0; i < hostile->count; i++) {
        (void)close(hostile->fds[i]);
    }
    free(hostile->fds);
}

/* --- ordinary requests --- */

struct delays {
    double enqueue_ms[ROUNDS];
    double get_ms[ROUNDS];
};

static double p99_of(int port, const char *method, const char *path, const char *body, size_t count)
{
    char request[REQUEST_MAX];
    struct http_load load = {.port = port, .connections = ORDINARY, .count = count, .request = request};
    load.request_length = http_load_request(method, path, body, request, sizeof request);
    return http_load_run(&load).p99_ms;
}

static void ask_ordinary(int port, const char *id, size_t count, struct delays *delays, size_t round)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/v1/executions/%s", id);
    delays->enqueue_ms[round] = p99_of(port, "POST", "/v1/workspaces/w00000/executions", "{\"workflow\":\"noop\"}", count);
    delays->get_ms[round] = p99_of(port, "GET", path, NULL, count);
}

/* Requests are answered in order: when later ones are, the work of the connections' opening is over. */
static void settle(int port)
{
    (void)p99_of(port, "GET", "/v1/plans", NULL, SETTLE_REQUESTS);
    bench_pause(1);
}

static void report(struct bench *bench, const char *what, const struct kind *kind, double *alone, double *beside,
                   size_t rounds)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "http, %s beside %s: p99", what, kind->name);
    bench_report(bench, name, bench_percentile(beside, rounds, 0.5), "ms", bench_percentile(alone, rounds, 0.5),
                 RATIO_AT_MOST, 1.5);
}

static void measure_kind(struct bench *bench, const struct kind *kind, int port, const char *id)
{
    size_t rounds = bench->quick ? 1 : ROUNDS;
    size_t count = bench->quick ? 100 : REQUESTS;
    struct delays alone;
    struct delays beside;
    for (size_t round = 0; round < rounds; round++) {
        struct hostile hostile;
        ask_ordinary(port, id, count, &alone, round);
        begin_hostile(&hostile, kind, port, bench->quick);
        settle(port);
        ask_ordinary(port, id, count, &beside, round);
        end_hostile(&hostile);
        settle(port);
    }
    report(bench, "enqueue", kind, alone.enqueue_ms, beside.enqueue_ms, rounds);
    report(bench, "GET", kind, alone.get_ms, beside.get_ms, rounds);
}

void bench_http_hostile(struct bench *bench)
{
    struct daemon daemon;
    int port = http_load_free_port();
    struct store *store = fixture_store(bench, "http-hostile");
    struct enqueue_request request = {.workspace = "w00000", .workflow = "noop"};
    struct enqueue_result last;
    fixture_workspaces(store, 0, 1, NULL);
    BENCH_OK(store_set_paused(store, NULL, true, &fault), &fault);
    fixture_fill(store, 0, 1, PAGE_ROWS);
    BENCH_OK(store_enqueue(store, &request, 1, &last, &fault), &fault);
    (void)http_load_connections_possible(kinds[KINDS - 1].connections); /* the node inherits the limit */
    daemon_serve_http(bench, store_url(store), port, &daemon);
    for (size_t i = 0; i < KINDS; i++) {
        measure_kind(bench, &kinds[i], port, last.id);
    }
    daemon_stop(&daemon);
    fixture_check(store);
    store_close(store);
}
