#include "http_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    WAIT_MS = 60000,
    DESCRIPTORS_OF_A_CLIENT = 5 /* the server takes a quarter for clients, and needs some others */
};

struct connection {
    int fd;
    double began;
    struct http_load_answer answer;
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

size_t http_load_connections_possible(size_t wanted)
{
    struct rlimit limit;
    BENCH_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    size_t needed = wanted * DESCRIPTORS_OF_A_CLIENT;
    struct rlimit raised = {.rlim_cur = needed, .rlim_max = limit.rlim_max > needed ? limit.rlim_max : needed};
    if (limit.rlim_cur < needed && setrlimit(RLIMIT_NOFILE, &raised) == 0) { /* root may pass the hard limit */
        limit = raised;
    } else if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        BENCH_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    size_t most = limit.rlim_cur / DESCRIPTORS_OF_A_CLIENT;
    return wanted < most ? wanted : most;
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

void http_load_send(int fd, const char *request, size_t length)
{
    size_t sent = 0;
    while (sent < length) {
        ssize_t now = send(fd, request + sent, length - sent, MSG_NOSIGNAL);
        BENCH_CHECK(now > 0);
        sent += (size_t)now;
    }
}

/* The head is searched again with each part: answers come in few of them, mostly in one. A body that is longer than the
 * buffer is counted: each further part is written over the one before. */
bool http_load_read(int fd, struct http_load_answer *answer)
{
    static const char field_name[] = "\r\ncontent-length: ";
    size_t at = answer->filled < HTTP_LOAD_ANSWER_MAX - 1 ? answer->filled : answer->body;
    ssize_t got = recv(fd, answer->bytes + at, HTTP_LOAD_ANSWER_MAX - 1 - at, 0);
    BENCH_CHECK(got > 0);
    answer->filled += (size_t)got;
    answer->bytes[at + (size_t)got] = '\0';
    char *end = answer->body == 0 ? strstr(answer->bytes, "\r\n\r\n") : NULL;
    if (end != NULL) {
        const char *field = strcasestr(answer->bytes, field_name);
        bool is_good = strncmp(answer->bytes, "HTTP/1.1 2", strlen("HTTP/1.1 2")) == 0;
        if (!is_good || field == NULL || field > end) {
            bench_fail(__FILE__, __LINE__, answer->bytes);
        }
        answer->body = (size_t)(end + 4 - answer->bytes);
        answer->length = answer->body + strtoul(field + strlen(field_name), NULL, 10);
    }
    return answer->body > 0 && answer->filled >= answer->length;
}

static void begin_request(struct connection *connection, const struct http_load *load)
{
    connection->answer = (struct http_load_answer){.bytes = connection->answer.bytes};
    connection->began = bench_now();
    http_load_send(connection->fd, load->request, load->request_length);
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
        connections[i].answer.bytes = malloc(HTTP_LOAD_ANSWER_MAX); /* pages that no answer needs take no memory */
        BENCH_CHECK(connections[i].answer.bytes != NULL);
        BENCH_CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event) == 0);
    }
    size_t sent = 0;
    double began = bench_now();
    for (size_t i = 0; i < load->connections && sent < load->count; i++, sent++) {
        begin_request(&connections[i], load);
    }
    for (size_t done = 0; done < load->count;) {
        struct epoll_event events[EVENTS_MAX];
        int ready = epoll_wait(poller, events, EVENTS_MAX, WAIT_MS);
        BENCH_CHECK(ready > 0);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (http_load_read(connection->fd, &connection->answer)) {
                times[done++] = bench_now() - connection->began;
                if (sent < load->count) {
                    sent++;
                    begin_request(connection, load);
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
        free(connections[i].answer.bytes);
    }
    (void)close(poller);
    free(times);
    free(connections);
    return result;
}
