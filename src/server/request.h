/* A request with its whole head and body, and the answer to it, as the handlers of the routes see them.
 *
 * Owner: the exchange of http_server.c. Threads: one at a time, first that of the listener, then an answering thread. All
 * texts of a request live until its answer was sent.
 */
#ifndef WEIR_SERVER_REQUEST_H
#define WEIR_SERVER_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/uuid.h"
#include "server/request_target.h"
#include "server/task_hub.h"
#include "weir/status.h"

struct http_route;
struct principal;
struct sign_in;
struct stream;

/* The header fields that a handler can read; all other fields are ignored. Each may be there once. Lines of a field with a
 * joint are joined with it. */
#define HTTP_FIELD_LIST(X)                                                                                                 \
    X(FIELD_HOST, "Host")                                                                                                  \
    X(FIELD_AUTHORIZATION, "Authorization")                                                                                \
    X(FIELD_CONTENT_TYPE, "Content-Type")                                                                                  \
    X(FIELD_CONTENT_ENCODING, "Content-Encoding")                                                                          \
    X(FIELD_ACCEPT, "Accept")                                                                                              \
    X(FIELD_ACCEPT_ENCODING, "Accept-Encoding")                                                                            \
    X(FIELD_COOKIE, "Cookie")                                                                                              \
    X(FIELD_SESSION, "Weir-Session")                                                                                       \
    X(FIELD_IDEMPOTENCY_KEY, "Idempotency-Key")                                                                            \
    X(FIELD_IF_MATCH, "If-Match")                                                                                          \
    X(FIELD_IF_NONE_MATCH, "If-None-Match")                                                                                \
    X(FIELD_LAST_EVENT_ID, "Last-Event-ID")                                                                                \
    X(FIELD_ORIGIN, "Origin")                                                                                              \
    X(FIELD_TRACEPARENT, "traceparent")                                                                                    \
    X(FIELD_USER_AGENT, "User-Agent")                                                                                      \
    X(FIELD_REASON, "Weir-Reason")                                                                                         \
    X(FIELD_ACTOR, "Weir-Actor")

enum http_field {
#define HTTP_FIELD_ENUM(id, name) id,
    HTTP_FIELD_LIST(HTTP_FIELD_ENUM)
#undef HTTP_FIELD_ENUM
        HTTP_FIELDS
};
const char *http_field_name(enum http_field field);

/* Between the lines of a field that may be there several times: it is a list (RFC 9110, 5.3), or a proxy has split it (RFC
 * 9113, 8.2.3). NULL: it may be there once. */
const char *http_field_joint(enum http_field field);

enum { ROUTE_VALUES_MAX = 3 };

struct http_request {
    const struct http_route *route;
    char id[UUID_TEXT_MAX]; /* of this request, for the answer and the log */
    struct request_target target;
    const char *values[ROUTE_VALUES_MAX]; /* of the placeholders of the route, in their order; decoded, never empty */
    const char *fields[HTTP_FIELDS];      /* NULL = not there */
    struct text body;
    struct arena arena;                /* for the handler, too */
    const char *secret;                /* of the token that it shows; NULL = none was needed, or it is not read yet */
    const struct principal *principal; /* the caller; NULL = no token was needed, or it is not known yet */
    bool is_anonymous;                 /* no token is needed */
    bool is_head;                      /* HEAD: the answer is sent without its body */
    int connection_fd;                 /* for the address of the client */
    int64_t arrived_us;                /* boot clock: when it was whole */
    bool may_wait;                     /* false: the handler must answer at once, because the server ends */
    bool is_whole;                     /* false: no memory for a part of it */
    bool is_of_machine; /* only a process of this machine can have sent it: a local address, and no proxy before it */
    /* A handler that has to wait sets `is_held` and leaves the answer empty. Any thread then calls `again` once, also
     * before the handler has returned: the handler runs from its beginning. */
    bool is_held;
    bool is_again; /* it was held: its token may have ended meanwhile */
    void (*again)(struct http_request *request);
    struct task_waiter waiter; /* of a held claim of tasks */
    struct sign_in *sign_in;   /* under way; in the arena */
};

/* Starts with status 0 and an empty body; a handler fills it. */
struct http_answer {
    int status;
    const char *type;     /* of the body; constant */
    const char *location; /* field Location; in the request's arena; NULL = none */
    const char *link;     /* field Link */
    const char *etag;     /* field ETag */
    const char *allow;    /* field Allow, of 405 */
    const char *policy;   /* field Content-Security-Policy; NULL = nothing is allowed */
    const char *referrer; /* field Referrer-Policy; constant; NULL = no-referrer, if there is a policy */
    const char *keeping;  /* field Cache-Control; NULL = nobody may keep the answer */
    const char *encoding; /* field Content-Encoding; constant */
    const char *cookie;   /* field Set-Cookie */
    const char *cookie_2; /* another one */
    int retry_after_s;    /* field Retry-After; 0 = none, but 1 of 503 */
    /* No answer yet: the whole id of an execution. Its handler is called again when it has ended, or at `wait_until_us`
     * (boot clock). In the request's arena. Only if the request may wait. */
    const char *awaits;
    int64_t wait_until_us;
    struct stream *stream; /* instead of a body: what is written as it comes (stream_hub.h); NULL = none */
    struct text body;
    const unsigned char *constant; /* instead of it: bytes that are never freed; NULL = none */
    size_t constant_length;
};

/* The value of the placeholder {name} of the route. It must have one. */
const char *request_value(const struct http_request *request, const char *name);
/* The value of an argument of the query; "" when it has none; NULL when it is not there. */
const char *request_argument(const struct http_request *request, const char *name);
/* Whether the argument is there without a value, or with "true". WEIR_INVALID_ARGUMENT: it has another value. */
WEIR_MUST_CHECK enum weir_status request_switch(const struct http_request *request, const char *name, bool *ret_is_on,
                                                struct weir_error *error);
/* *ret_key: the field Idempotency-Key, without its quotation marks; NULL when it is not there. WEIR_INVALID_ARGUMENT: it is
 * no quoted string. */
WEIR_MUST_CHECK enum weir_status request_key(struct http_request *request, const char **ret_key, struct weir_error *error);
/* The field traceparent. NULL: it is not there, or is no trace context: then it has no effect, as W3C wants it, since it
 * may come from a proxy. */
const char *request_traceparent(const struct http_request *request);
/* For a path that acts anew on each request: WEIR_INVALID_ARGUMENT with the hint if there is the field Idempotency-Key. A
 * client that sends it repeats the request after a lost answer. */
WEIR_MUST_CHECK enum weir_status request_refuse_key(const struct http_request *request, const char *hint,
                                                    struct weir_error *error);
/* A whole number between `least` and `most`; `otherwise` when it is not there. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status request_number(const struct http_request *request, const char *name, int64_t least,
                                                int64_t most, int64_t otherwise, int64_t *ret_number,
                                                struct weir_error *error);
/* A duration like "30s", from 0 to `most_us`; `otherwise_us` when it is not there. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status request_duration(const struct http_request *request, const char *name, int64_t most_us,
                                                  int64_t otherwise_us, int64_t *ret_duration_us, struct weir_error *error);
/* The body as a JSON object; an empty body is {}. WEIR_INVALID_ARGUMENT. The caller releases it. */
WEIR_MUST_CHECK enum weir_status request_object(const struct http_request *request, json_t **ret_object,
                                                struct weir_error *error);

/* Refuses a key that is not in the list, which ends with NULL: a misspelt one would otherwise have no effect. *ret_key: the
 * unknown one, in the object. */
WEIR_MUST_CHECK enum weir_status request_check_keys(json_t *object, const char *const *keys, const char **ret_key,
                                                    struct weir_error *error);

/* --- answers --- */

/* The JSON value, of which it takes a reference over; NULL counts as no memory. */
void respond_json(struct http_answer *answer, int status, json_t *value);
/* A page of a list, as store_list() gives it. While there is a next page, the field Link has its address (RFC 8288). */
void respond_page(struct http_request *request, struct http_answer *answer, json_t *page);
/* The phrase of a status of a problem. */
const char *http_status_title(int status);
/* A problem (RFC 9457): "type", "title", "status", "code", "detail", "request_id", and what is not NULL of the others.
 * `code` is a name of the table in docs/http.md. */
void respond_problem(const struct http_request *request, struct http_answer *answer, int status, const char *code,
                     const char *detail, const char *hint, const char *pointer);
/* The problem of a path that no route has. */
void respond_no_path(const struct http_request *request, struct http_answer *answer);
/* The same as respond_error() with further members of the problem, of which it takes a reference over; NULL = none. */
void respond_refusal(const struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                     json_t *members);
/* The same as respond_error() for a key of the body; NULL = of none. */
void respond_body_error(struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                        const char *key);
/* The failure of a call of weir, by the table of weir/status.h. `pointer`: the part of the request that is at fault, a
 * JSON pointer into the body or the name of an argument of the query; NULL = none. */
void respond_error(const struct http_request *request, struct http_answer *answer, const struct weir_error *error,
                   const char *pointer);

#endif
