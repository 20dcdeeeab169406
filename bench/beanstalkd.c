/* Pushes to beanstalkd over connections that stay open, beside enqueues to `weir serve` of the same run.
 *
 * beanstalkd runs with its log of changes (-b) and a sync for each write (-f0). So a job that is acknowledged is on the
 * disk, as an execution of weir. Both get a body of the same size, and each connection has one request under way. The
 * protocol of beanstalkd is lines on TCP; an HTTP proxy before it would only slow it down. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_load.h"

enum { CLIENTS = 64, LINE_MAX_BYTES = 128, PEER_EVENTS = 64, PEER_WAIT_MS = 60000 };

static struct weir_error fault;
static const char job[] = "{\"n\": 1}";

struct pusher {
    int fd;
    size_t filled;
    char line[LINE_MAX_BYTES];
};

/* NULL: it is not installed. */
static const char *find_beanstalkd(void)
{
    static const char *const places[] = {"/usr/bin/beanstalkd", "/usr/sbin/beanstalkd", "/usr/local/bin/beanstalkd"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (access(places[i], X_OK) == 0) {
            return places[i];
        }
    }
    return NULL;
}

static void push(struct pusher *pusher)
{
    char request[LINE_MAX_BYTES];
    int length = snprintf(request, sizeof request, "put 0 0 60 %zu\r\n%s\r\n", strlen(job), job);
    pusher->filled = 0;
    http_load_send(pusher->fd, request, (size_t)length);
}

/* Whether the line of the answer is whole. It must be "INSERTED ID". */
static bool read_inserted(struct pusher *pusher)
{
    ssize_t got = recv(pusher->fd, pusher->line + pusher->filled, sizeof pusher->line - 1 - pusher->filled, 0);
    BENCH_CHECK(got > 0);
    pusher->filled += (size_t)got;
    pusher->line[pusher->filled] = '\0';
    if (strstr(pusher->line, "\r\n") == NULL) {
        return false;
    }
    BENCH_CHECK(strncmp(pusher->line, "INSERTED ", strlen("INSERTED ")) == 0);
    return true;
}

/* Pushes per second. */
static double push_to_beanstalkd(int port, size_t count)
{
    struct pusher pushers[CLIENTS];
    int poller = epoll_create1(EPOLL_CLOEXEC);
    size_t sent = 0;
    BENCH_CHECK(poller >= 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = &pushers[i]};
        pushers[i] = (struct pusher){.fd = http_load_connect(port)};
        BENCH_CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, pushers[i].fd, &wanted) == 0);
    }
    double began = bench_now();
    for (; sent < CLIENTS && sent < count; sent++) {
        push(&pushers[sent]);
    }
    for (size_t done = 0; done < count;) {
        struct epoll_event ready[PEER_EVENTS];
        int found = epoll_wait(poller, ready, PEER_EVENTS, PEER_WAIT_MS);
        BENCH_CHECK(found > 0);
        for (int i = 0; i < found; i++) {
            if (!read_inserted(ready[i].data.ptr)) {
                continue;
            }
            done++;
            if (sent < count) {
                sent++;
                push(ready[i].data.ptr);
            }
        }
    }
    double seconds = bench_now() - began;
    for (size_t i = 0; i < CLIENTS; i++) {
        (void)close(pushers[i].fd);
    }
    (void)close(poller);
    return (double)count / seconds;
}

static double measure_beanstalkd(struct bench *bench, const char *program, size_t count)
{
    char folder[DAEMON_PATH_MAX];
    char port[16];
    int number = http_load_free_port();
    (void)snprintf(folder, sizeof folder, "%s/beanstalkd", bench->folder);
    (void)snprintf(port, sizeof port, "%d", number);
    BENCH_CHECK(mkdir(folder, 0700) == 0);
    const char *const words[] = {program, "-l", "127.0.0.1", "-p", port, "-b", folder, "-f0", NULL};
    pid_t child = daemon_spawn(words, "/dev/null");
    BENCH_CHECK(child > 0);
    bench->figures->daemon = child;
    double rate = push_to_beanstalkd(number, count);
    BENCH_CHECK(kill(child, SIGTERM) == 0 && waitpid(child, NULL, 0) == child);
    bench->figures->daemon = 0;
    return rate;
}

/* The queue is paused: enqueues are measured, not the executions. */
static double measure_weir(struct bench *bench, size_t count)
{
    char request[1024];
    struct daemon daemon;
    int port = http_load_free_port();
    struct store *store = fixture_store(bench, "beside-beanstalkd");
    struct http_load load = {.port = port, .connections = CLIENTS, .count = count, .request = request};
    fixture_workspaces(store, 0, 1, NULL);
    BENCH_OK(store_set_paused(store, NULL, true, &fault), &fault);
    load.request_length = http_load_request("POST", "/v1/workspaces/w00000/executions",
                                            "{\"workflow\":\"noop\",\"params\":{\"n\": 1}}", request, sizeof request);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    struct http_load_result result = http_load_run(&load);
    daemon_stop(&daemon);
    store_close(store);
    return result.per_second;
}

void bench_beanstalkd(struct bench *bench)
{
    size_t count = bench->quick ? 1000 : 50000;
    const char *program = find_beanstalkd();
    if (program == NULL) {
        printf("beanstalkd: left out: the program is not installed (Debian: the package beanstalkd)\n");
        return;
    }
    double pushes = measure_beanstalkd(bench, program, count);
    bench_note(bench, "beanstalkd, put, 64 connections, -f0", pushes, "jobs/s");
    bench_report(bench, "weir beside it: enqueue over HTTP, 64 connections", measure_weir(bench, count), "items/s", pushes,
                 GOAL_NONE, 0);
}
