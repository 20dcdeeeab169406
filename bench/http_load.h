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

/* Every answer must have a status of 2xx. */
struct http_load_result http_load_run(const struct http_load *load);
/* A request with the Host and, of a body, its length and type: `to` holds `size` bytes. Returns its length. */
size_t http_load_request(const char *method, const char *path, const char *body, char *to, size_t size);
/* A connection to 127.0.0.1; waits until the port is served. */
int http_load_connect(int port);
/* A port of 127.0.0.1 that is free now. */
int http_load_free_port(void);

#endif
