/* Connections that stay open and do nothing: the memory of each before its first request, at once after it, and some
 * seconds later (server/idle_pools.h). The memory of the kernel, mostly buffers of sockets, is not counted. */
#include "http_idle.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_load.h"
#include "server/idle_pools.h"

enum { IDLE_CONNECTIONS = 10000, IDLE_CONNECTIONS_QUICK = 500, REQUEST_MAX = 256, IDLE_SECONDS = 3 };

static void ask_once(int fd, struct http_load_answer *answer)
{
    char request[REQUEST_MAX];
    *answer = (struct http_load_answer){.bytes = answer->bytes};
    http_load_send(fd, request, http_load_request("GET", "/livez", NULL, request, sizeof request));
    while (!http_load_read(fd, answer)) {
    }
}

void bench_http_idle(struct bench *bench)
{
    size_t count = http_load_connections_possible(bench->quick ? IDLE_CONNECTIONS_QUICK : IDLE_CONNECTIONS);
    struct daemon daemon;
    struct http_load_answer answer = {.bytes = malloc(HTTP_LOAD_ANSWER_MAX)};
    int *fds = calloc(count, sizeof *fds);
    int port = http_load_free_port();
    struct store *store = fixture_store(bench, "http-idle");
    BENCH_CHECK(answer.bytes != NULL && fds != NULL);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    int first = http_load_connect(port);
    ask_once(first, &answer); /* pages of the process that every connection shares are there */
    double before = daemon_status_mib(&daemon, "VmRSS:");
    for (size_t i = 0; i < count; i++) {
        fds[i] = http_load_connect(port);
    }
    ask_once(first, &answer); /* the listener has accepted them: it does so in order */
    double silent = daemon_status_mib(&daemon, "VmRSS:");
    for (size_t i = 0; i < count; i++) {
        ask_once(fds[i], &answer);
    }
    double asked = daemon_status_mib(&daemon, "VmRSS:");
    (void)sleep(IDLE_SECONDS);
    for (size_t given = 0; given < count + IDLE_POOLS_AT_ONCE; given += IDLE_POOLS_AT_ONCE) {
        ask_once(first, &answer); /* its end is the occasion to give pages back, */
    }
    ask_once(first, &answer); /* which is over when the next answer comes */
    double idle = daemon_status_mib(&daemon, "VmRSS:");
    for (size_t i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
    (void)close(first);
    daemon_stop(&daemon);
    store_close(store);
    free(fds);
    free(answer.bytes);
    bench_note(bench, "http, memory of a connection without a request", (silent - before) * 1024 / (double)count, "KiB");
    bench_note(bench, "http, memory of a connection after a request", (asked - before) * 1024 / (double)count, "KiB");
    bench_report(bench, "http, memory of an idle connection", (idle - before) * 1024 / (double)count, "KiB", 0,
                 VALUE_AT_MOST, 10);
}
