#include "http_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 * 1024, EVENTS_MAX = 256, WAIT_MS = 60000 };

struct connection {
    int fd;
    double began;
    size_t filled;
    size_t length; /* of the whole answer; 0 = its head is not whole yet */
    char answer[ANSWER_MAX];
};

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int http_load_free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BENCH_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    BENCH_CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

size_t http_load_request(const char *method, const char *path, const char *body, char *to, size_t size)
{
    int length = body == NULL ? snprintf(to, size, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", method, path)
                              : snprintf(to, size,
                                         "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                         "Content-Length: %zu\r\n\r\n%s",
                                         method, path, strlen(body), body);
    BENCH_CHECK(length > 0 && (size_t)length < size);
    return (size_t)length;
}

int http_load_connect(int port)
{
    struct sockaddr_in address = loopback(port);
    double until = bench_now() + 60;
    int one = 1;
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        BENCH_CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
            BENCH_CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
            return fd;
        }
        BENCH_CHECK(errno == ECONNREFUSED && bench_now() < until); /* the node starts */
        (void)close(fd);
        bench_pause(0.001);
    }
}

/* The requests are small, so a socket takes one whole. */
static void send_request(struct connection *connection, const struct http_load *load)
{
    connection->filled = 0;
    connection->length = 0;
    connection->began = bench_now();
    size_t sent = 0;
    while (sent < load->request_length) {
        ssize_t now = send(connection->fd, load->request + sent, load->request_length - sent, MSG_NOSIGNAL);
        BENCH_CHECK(now > 0);
        sent += (size_t)now;
    }
}

/* Whether the answer is whole. Of the body only the length counts, so it may be longer than the buffer: once the head is
 * read, each part is written over the one before. */
static bool read_answer(struct connection *connection)
{
    size_t at = connection->length == 0 ? connection->filled : 0;
    ssize_t got = recv(connection->fd, connection->answer + at, ANSWER_MAX - 1 - at, 0);
    BENCH_CHECK(got > 0);
    connection->filled += (size_t)got;
    connection->answer[at + (size_t)got] = '\0';
    char *end = connection->length == 0 ? strstr(connection->answer, "\r\n\r\n") : NULL;
    if (end != NULL) {
        const char *field = strcasestr(connection->answer, "\r\ncontent-length: ");
        bool is_good = strncmp(connection->answer, "HTTP/1.1 2", strlen("HTTP/1.1 2")) == 0;
        if (!is_good || field == NULL || field > end) {
            bench_fail(__FILE__, __LINE__, connection->answer);
        }
        connection->length =
            (size_t)(end + 4 - connection->answer) + strtoul(field + strlen("\r\ncontent-length: "), NULL, 10);
    }
    return connection->length > 0 && connection->filled >= connection->length;
}

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

struct http_load_result http_load_run(const struct http_load *load)
{
    struct connection *connections = calloc(load->connections, sizeof *connections);
    double *times = calloc(load->count, sizeof *times);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    BENCH_CHECK(connections != NULL && times != NULL && poller >= 0);
    for (size_t i = 0; i < load->connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        connections[i].fd = http_load_connect(load->port);
        BENCH_CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event) == 0);
    }
    size_t sent = 0;
    double began = bench_now();
    for (size_t i = 0; i < load->connections && sent < load->count; i++, sent++) {
        send_request(&connections[i], load);
    }
    for (size_t done = 0; done < load->count;) {
        struct epoll_event events[EVENTS_MAX];
        int ready = epoll_wait(poller, events, EVENTS_MAX, WAIT_MS);
        BENCH_CHECK(ready > 0);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (read_answer(connection)) {
                times[done++] = bench_now() - connection->began;
                if (sent < load->count) {
                    sent++;
                    send_request(connection, load);
                }
            }
        }
    }
    double seconds = bench_now() - began;
    qsort(times, load->count, sizeof *times, compare_times);
    struct http_load_result result = {.per_second = (double)load->count / seconds,
                                      .p50_ms = times[load->count / 2] * 1000,
                                      .p99_ms = times[load->count * 99 / 100] * 1000};
    for (size_t i = 0; i < load->connections; i++) {
        (void)close(connections[i].fd);
    }
    (void)close(poller);
    free(times);
    free(connections);
    return result;
}
