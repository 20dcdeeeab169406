/* A load generator for HTTP: one thread, many connections that stay open, one request at a time on each. */
#ifndef WEIR_BENCH_HTTP_LOAD_H
#define WEIR_BENCH_HTTP_LOAD_H

#include "bench.h"

struct http_load {
    int port; /* of 127.0.0.1 */
    size_t connections;
    size_t count;        /* of requests */
    const char *request; /* the same each time, whole */
    size_t request_length;
};

struct http_load_result {
    double per_second;
    double p50_ms;
    double p99_ms;
};

enum { HTTP_LOAD_ANSWER_MAX = 256 * 1024 }; /* of an answer that is kept; the rest of a longer one is only counted */

/* One answer, as far as it has come. */
struct http_load_answer {
    size_t filled;
    size_t body;   /* where the body begins; 0 = the head is not whole yet */
    size_t length; /* of head and body, once the head is whole; may be larger than the buffer */
    char *bytes;   /* HTTP_LOAD_ANSWER_MAX, of the caller; a NUL follows what is there */
};

/* Reads what the socket has. Whether the answer is whole. It must have a status of 2xx and a length. */
bool http_load_read(int fd, struct http_load_answer *answer);
/* Sends a whole request. The requests are small, so a socket takes one without waiting for its reader. */
void http_load_send(int fd, const char *request, size_t length);

/* Every answer must have a status of 2xx. */
struct http_load_result http_load_run(const struct http_load *load);
/* A request with the Host and, of a body, its length and type: `to` holds `size` bytes. Returns its length. */
size_t http_load_request(const char *method, const char *path, const char *body, char *to, size_t size);
/* A connection to 127.0.0.1; waits until the port is served. */
int http_load_connect(int port);
/* As many of `wanted` connections as a node takes that this process starts afterwards. The server takes a quarter of its
 * descriptors for clients, and inherits the limit of this process, which is raised as far as it may be. */
size_t http_load_connections_possible(size_t wanted);
/* A port of 127.0.0.1 that is free now. */
int http_load_free_port(void);

#endif
