/* Listeners that speak HTTP/1.1, and the threads that answer.
 *
 * libmicrohttpd reads and writes in one thread for each address. A request that needs the store is answered by one of
 * HTTP_THREADS threads, each with its own handle; the connection sleeps meanwhile. What waits for them is bounded: beyond
 * it the answer is 503 with Retry-After, at once. Every connection has a deadline in each of its phases, which a thread of
 * its own enforces: a slow client costs a socket for that long and nothing else.
 *
 *     http_server_open() -> http_server_start() -> http_server_close()
 *
 * Owner: http_server_open() .. http_server_close(), one thread.
 */
#ifndef WEIR_SERVER_HTTP_SERVER_H
#define WEIR_SERVER_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/store.h"
#include "weir/status.h"

enum {
    HTTP_THREADS = 2,
    /* So that a thousand workers or streams may come back at once. */
    HTTP_WAITING_MAX = 1024,
    HTTP_SLOW_WAITING_MAX = 16, /* of them, requests that may take seconds */
    /* Of one address, and all together at most a quarter of the descriptors of the process. Further ones are closed. */
    HTTP_CONNECTIONS_MAX = 16384,
    HTTP_HEAD_BYTES_MAX = 16 * 1024,
    HTTP_BODY_BYTES_MAX = 16 * 1024 * 1024, /* of one request; each route has a limit of its own below it */
    HTTP_ANSWER_BYTES_MAX = 16 * 1024 * 1024,
    HTTP_ANSWER_BYTES_SHORT = 64 * 1024, /* given also when memory is short */
    /* Of the bodies of all requests and the longer answers that are under way; beyond it: 503. */
    HTTP_HELD_BYTES_MAX = 64 * 1024 * 1024,
    /* Beyond it memory is short: clients that are slower than this with a body or an answer are cut. */
    HTTP_HELD_BYTES_SHORT = HTTP_HELD_BYTES_MAX / 2,
    HTTP_BYTES_PER_SECOND_LEAST = 64 * 1024
};
#define HTTP_SLOW_GRACE_US (1 * MICROSECONDS_PER_SECOND)
/* No browser shall make anything of an answer that is data. */
#define HTTP_POLICY_OF_DATA "default-src 'none'; frame-ancestors 'none'"
/* From the connection or the line of the request to the end of the head. */
#define HTTP_HEAD_DEADLINE_US (10 * MICROSECONDS_PER_SECOND)
/* From the end of the head to the end of the body. */
#define HTTP_BODY_DEADLINE_US (60 * MICROSECONDS_PER_SECOND)
/* Between two requests of a connection. */
#define HTTP_IDLE_DEADLINE_US (75 * MICROSECONDS_PER_SECOND)
/* From the first byte of an answer to its last one. */
#define HTTP_WRITE_DEADLINE_US (30 * MICROSECONDS_PER_SECOND)

struct api;
struct http_server;

/* The settings under `http.`. Texts are copied or read while the server opens. */
struct http_server_options {
    const char *listen;           /* addresses: listen_address.h */
    const char *certificate_file; /* of the addresses with TLS; "" = none */
    const char *key_file;
    bool behind_proxy; /* a proxy in front of the addresses has TLS */
};

/* Opens the addresses and loads the library. `store` is only used to open further handles. `api` goes to the handlers of
 * route_table.c, and outlives the server. WEIR_INVALID_CONFIG, WEIR_SYSTEM, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status http_server_open(const struct http_server_options *options, struct store *store,
                                                  struct api *api, struct http_server **ret_server,
                                                  struct weir_error *error);
/* Starts to answer. The errors of opening a store, WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status http_server_start(struct http_server *server, struct weir_error *error);
/* Reads the certificate and the key again. New connections get the new one; those that are open end after their next
 * answer, so none is cut. After a failure all goes on with the old one. WEIR_INVALID_CONFIG, WEIR_SYSTEM,
 * WEIR_OUT_OF_MEMORY. The owner's thread. */
WEIR_MUST_CHECK enum weir_status http_server_reload(struct http_server *server, struct weir_error *error);
/* "127.0.0.1:7717, unix:/run/weir/http.sock", with the ports that the system chose. */
const char *http_server_addresses(const struct http_server *server);
/* Ends what is under way, closes all connections and frees the server. Takes NULL. */
void http_server_close(struct http_server *server);

#endif
