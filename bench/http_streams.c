/* A thousand open streams of changes: the cost of each, and the time until all of them have an event. The readers are one
 * thread of this process. The queue is paused, so that an enqueue is one event. */
#include "http_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_load.h"

enum { STREAMS = 1000, ROUNDS = 200, RECEIVE_BYTES = 16384, SINGLES = 5000 };

static struct weir_error fault;

struct reader {
    int fd;
    size_t events; /* ends of blocks */
    char last;     /* byte */
};

struct readers {
    int epoll_fd;
    size_t count;
    struct reader list[STREAMS];
};

static void open_readers(struct readers *readers, int port, size_t count)
{
    static const char request[] = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
    readers->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    readers->count = count;
    BENCH_CHECK(readers->epoll_fd >= 0);
    for (size_t i = 0; i < count; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = i};
        readers->list[i] = (struct reader){.fd = http_load_connect(port)};
        BENCH_CHECK(send(readers->list[i].fd, request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1);
        BENCH_CHECK(epoll_ctl(readers->epoll_fd, EPOLL_CTL_ADD, readers->list[i].fd, &wanted) == 0);
    }
}

static void close_readers(struct readers *readers)
{
    for (size_t i = 0; i < readers->count; i++) {
        (void)close(readers->list[i].fd);
    }
    (void)close(readers->epoll_fd);
}

/* The lines of heads and chunks end with CR LF, so two LF in a row are the end of a block. */
static size_t read_events(struct reader *reader)
{
    char bytes[RECEIVE_BYTES];
    ssize_t length = recv(reader->fd, bytes, sizeof bytes, 0);
    size_t before = reader->events;
    BENCH_CHECK(length > 0);
    for (ssize_t i = 0; i < length; i++) {
        reader->events += bytes[i] == '\n' && reader->last == '\n';
        reader->last = bytes[i];
    }
    return reader->events - before;
}

/* Until each reader has had `events`. `latencies`: of the readers in the order of their arrival; NULL = not wanted. */
static void await_events(struct readers *readers, size_t events, double began, double *latencies)
{
    struct epoll_event ready[64];
    size_t left = readers->count;
    while (left > 0) {
        int count = epoll_wait(readers->epoll_fd, ready, 64, 10000);
        BENCH_CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            struct reader *reader = &readers->list[ready[i].data.u64];
            if (read_events(reader) > 0 && reader->events >= events) {
                BENCH_CHECK(reader->events == events);
                left--;
                if (latencies != NULL) {
                    *latencies++ = bench_now() - began;
                }
            }
        }
    }
}

static double enqueue_rate(struct store *store, size_t count)
{
    struct enqueue_request request = {
        .workspace = "w00000", .workflow = "noop", .params = "{\"n\": 1}", .params_length = 8};
    struct enqueue_result result;
    double began = bench_now();
    for (size_t i = 0; i < count; i++) {
        BENCH_OK(store_enqueue(store, &request, 1, &result, &fault), &fault);
    }
    return (double)count / (bench_now() - began);
}

static int compare_seconds(const void *a, const void *b)
{
    double first = *(const double *)a;
    double second = *(const double *)b;
    return (first > second) - (first < second);
}

static void measure_latency(struct bench *bench, struct store *store, struct readers *readers, size_t rounds)
{
    double *latencies = calloc(rounds * readers->count, sizeof *latencies);
    BENCH_CHECK(latencies != NULL);
    for (size_t round = 0; round < rounds; round++) {
        double began = bench_now();
        (void)enqueue_rate(store, 1);
        await_events(readers, round + 2, began, &latencies[round * readers->count]);
    }
    size_t count = rounds * readers->count;
    qsort(latencies, count, sizeof *latencies, compare_seconds);
    bench_note(bench, "http, 1,000 streams, enqueue to event: p50", latencies[count / 2] * 1000, "ms");
    bench_report(bench, "http, 1,000 streams, enqueue to event: p99", latencies[count * 99 / 100] * 1000, "ms", 0,
                 VALUE_AT_MOST, 100);
    free(latencies);
}

void bench_http_streams(struct bench *bench, struct store *store, int port, struct daemon *daemon)
{
    size_t singles = bench->quick ? 100 : SINGLES;
    struct readers *readers = calloc(1, sizeof *readers);
    BENCH_CHECK(readers != NULL);
    double without = enqueue_rate(store, singles);
    open_readers(readers, port, 1);
    await_events(readers, 1, 0, NULL);
    double with = enqueue_rate(store, singles);
    bench_report(bench, "http, enqueue in process while a stream is read", with, "items/s", without, GOAL_NONE, 0);
    await_events(readers, 1 + singles, 0, NULL);
    close_readers(readers);
    double before = daemon_status_mib(daemon, "VmRSS:");
    open_readers(readers, port, STREAMS);
    await_events(readers, 1, 0, NULL); /* the reset */
    double each = (daemon_status_mib(daemon, "VmRSS:") - before) * 1024 / (double)readers->count;
    bench_report(bench, "http, memory of a stream", each, "KiB", 0, VALUE_AT_MOST, 20);
    measure_latency(bench, store, readers, bench->quick ? 5 : ROUNDS);
    close_readers(readers);
    free(readers);
}
