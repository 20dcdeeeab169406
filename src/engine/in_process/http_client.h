/* The HTTP client of the engine: sends the requests of `http` steps with libcurl, in one thread of its own.
 *
 * At most HTTP_REQUESTS_MAX requests are under way at once. The others wait, in the fair order of their workspaces. The
 * time of a request counts from its turn, not from its submission.
 *
 * base/address_rules.h decides which targets a request may reach, for its own URL and for the target of each redirect.
 * The host is checked before the name is resolved, the address just before the connection to it. Only http and https
 * are spoken. The environment's proxy, .netrc and cookies are never used.
 *
 * Threads: start, submit and set_weight by the loop; cancel by any thread. `done` is called in the client's thread, once
 * for each submitted request; it may free the request.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_HTTP_CLIENT_H
#define WEIR_ENGINE_IN_PROCESS_HTTP_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address_rules.h"
#include "base/clock.h"
#include "base/text.h"
#include "queue/fair_queue.h"
#include "queue/limits.h"
#include "weir/status.h"

enum {
    HTTP_REQUESTS_MAX = 256,
    HTTP_SPARE_PART = 8, /* one of so many places is only for workspaces without a request */
    HTTP_URL_BYTES_MAX = 8 * 1024,
    HTTP_HEADERS_BYTES_MAX = 128 * 1024,         /* of a request, and of an answer */
    HTTP_BODY_BYTES_MAX = STEP_OUTPUT_BYTES_MAX, /* of an answer */
    HTTP_TEXT_MAX = 512
};
/* The error code of a step whose node does not allow its request. */
#define HTTP_NOT_ALLOWED_CODE "http_not_allowed"
#define HTTP_CONNECT_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)

enum http_outcome {
    HTTP_ANSWERED,    /* `status`, `body` */
    HTTP_UNREACHABLE, /* no connection, TLS failed, or the answer broke off */
    HTTP_TIMED_OUT,
    HTTP_REFUSED, /* the rules do not allow the host or the address */
    HTTP_BAD_URL,
    HTTP_TOO_LARGE, /* the answer */
    HTTP_CANCELLED,
    HTTP_STARVED /* out of memory */
};

/* Valid inside of `done`. */
struct http_result {
    enum http_outcome outcome;
    int status;
    const char *body; /* NULL when it is empty; may hold NULs */
    size_t length;
    int64_t retry_after_us; /* -1: the answer names none */
    int64_t took_us;
    char text[HTTP_TEXT_MAX]; /* one line for people; "" for HTTP_ANSWERED */
};

struct http_client;
struct curl_slist;

/* The first part is filled by the caller; the texts belong to the request. */
struct http_request {
    struct fair_entry turn; /* first */
    struct fair_lane *lane; /* of its workspace */
    const char *method;     /* static */
    struct text url;
    /* Each line "Name: value" ends with a NUL. The public ones also go to another origin after a redirect. */
    struct text public_headers;
    struct text private_headers;
    struct text body;
    bool has_body;
    int redirects_max;
    int64_t timeout_us; /* of all hops together */
    void (*done)(struct http_request *request, const struct http_result *result);
    void *context;
    /* The client's own. */
    struct http_client *client;
    struct http_request *next; /* among all submitted requests */
    struct http_request **link;
    atomic_bool is_cancelled;
    void *easy; /* NULL: it waits */
    struct curl_slist *headers;
    struct text answer;
    size_t answer_headers;
    bool is_too_large;
    bool is_starved;
    int addresses_tried;
    int addresses_refused;
    char refused[64]; /* the last address that the rules refused */
    char host[HOST_NAME_MAX_BYTES + 1];
    char *origin;      /* "https://host:443" of the first URL */
    bool is_elsewhere; /* the last hop goes to another one, without the private headers; `done` may read it */
    int redirects;
    bool drops_body; /* a redirect turned it into a GET */
    int64_t began_us;
    char problem[256];
};
struct http_request *http_request_new(void);
/* Overwrites the headers. Takes NULL. */
void http_request_free(struct http_request *request);

struct http_client {
    const struct address_rules *rules;
    const struct clock *clock;
    pthread_t thread;
    bool has_thread;
    void *multi;
    pthread_mutex_t lock;
    struct fair_queue queue;       /* under the lock */
    struct http_request *requests; /* all; under the lock */
    size_t running;
    atomic_bool has_cancelled;
    bool closing; /* under the lock */
};

void http_client_init(struct http_client *client, const struct address_rules *rules, const struct clock *clock);
/* Cancels all requests and waits for the thread. */
void http_client_close(struct http_client *client);
/* Loads libcurl and starts the thread, the first time. WEIR_INVALID_CONFIG (no libcurl), WEIR_SYSTEM, WEIR_OUT_OF_MEMORY.
 */
WEIR_MUST_CHECK enum weir_status http_client_start(struct http_client *client, struct weir_error *error);
/* After http_client_start(). */
void http_client_submit(struct http_client *client, struct http_request *request);
/* Soon `done` is called with HTTP_CANCELLED, or with the answer if that was there before. The request must not be done. */
void http_request_cancel(struct http_request *request);
/* Sets the weight of a workspace's lane. */
void http_client_set_weight(struct http_client *client, struct fair_lane *lane, int weight);

#endif
