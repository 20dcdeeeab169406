/* A gRPC client for unary calls: HTTP/2 by nghttp2, TLS by OpenSSL, the five bytes of gRPC framing by ourselves.
 *
 * It knows nothing of queues or of any service. Beside the calls of a library it answers one question: may the call be
 * sent again? Every call ends exactly once, in one of four outcomes:
 *
 *   GRPC_NOT_SENT   not one byte of it left this process
 *   GRPC_REFUSED    the server did not process it (REFUSED_STREAM, or above the last stream of a GOAWAY)
 *   GRPC_STATUS     the server answered: code, message, details, response
 *   GRPC_UNKNOWN    it left, and its outcome is not known: it may have been carried out
 *
 * The first two are safe to send again; the client itself does so up to GRPC_RESENDS_MAX times while the deadline lasts. It
 * never sends a call again after anything else.
 *
 * How it connects: each address that the targets resolve to gets one connection per class of call (enum grpc_class). It
 * is dialled when a call first wants it. Calls go to the connection with the fewest of them. A connection carries calls
 * only after the server's first SETTINGS frame, so a server without HTTP/2, or one that refuses our certificate, never
 * sees a call. The owner may examine it further (grpc_client_examine()). A connection that is about to age is replaced
 * before it ends; after a GOAWAY its calls run on while the next one is dialled.
 *
 * While no address can be reached, calls end at once as GRPC_NOT_SENT with the reason (unless `wait_for_connection`).
 * Dialling goes on with a growing, random distance for as long as calls come. A dial begins at most GRPC_DIAL_EVERY_US
 * after the one before has failed, or has begun and is not answered. So a returning server is found within that time.
 *
 * A silent connection is detected in three steps:
 *   1. After GRPC_UNHEARD_US without a byte since a call was sent, the client sends a PING. A slow server answers it.
 *   2. Without an answer to the PING, the connection takes no more calls, and the next one is dialled.
 *   3. When that one or another is open, the calls of the silent connection end as GRPC_UNKNOWN.
 *
 * Threads: none of its own but a short-lived one for each name lookup. All functions on one client are called by one thread
 * at a time. Nothing here blocks. `done` and `event` are called from inside grpc_client_step() and grpc_client_close()
 * only; from there everything may be called but these two.
 *
 * A loop: poll(grpc_client_fd()) until readable or until the time that the last grpc_client_step() returned; then step.
 * grpc_client_call() and grpc_client_cancel() only take note: step soon after them (many calls, then one step, is
 * cheapest).
 *
 * Rules: RFC 9113, RFC 7541, the gRPC protocol over HTTP/2 (PROTOCOL-HTTP2 of the gRPC project).
 */
#ifndef WEIR_GRPC_GRPC_CLIENT_H
#define WEIR_GRPC_GRPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "weir/status.h"

/* --- limits and defaults --- */

enum {
    GRPC_TARGETS_MAX = 16,                       /* host:port pairs */
    GRPC_ADDRESSES_MAX = 16,                     /* connected to at a time, per class of call; further ones are left out */
    GRPC_HOST_MAX = 253,                         /* bytes of a host name */
    GRPC_PATH_BYTES_MAX = 1024,                  /* of a method path */
    GRPC_HEADERS_MAX = 32,                       /* of a call, and as many of a client */
    GRPC_HEADER_BYTES_MAX = 8 * 1024,            /* one name or value */
    GRPC_REQUEST_HEADER_BYTES_MAX = 32 * 1024,   /* all of one call */
    GRPC_ANSWER_HEADER_BYTES_MAX = 64 * 1024,    /* all of one answer, trailers included, unpacked */
    GRPC_REQUEST_BYTES_MAX = 16 * 1024 * 1024,   /* one message out */
    GRPC_RESPONSE_BYTES_MAX = 128 * 1024 * 1024, /* one message in; see response_bytes_max */
    GRPC_CALLS_DEFAULT = 4096,                   /* waiting and under way; see calls_max */
    GRPC_RESENDS_MAX = 5,                        /* of one call that was refused */
    GRPC_UNCLEAR_MAX = 4,                        /* examinations of a connection that do not say which server answers */
    GRPC_SECRET_FILE_BYTES_MAX = 1024 * 1024     /* a certificate, key or API key file */
};

#define GRPC_CONNECT_TIMEOUT_US (5 * MICROSECONDS_PER_SECOND)    /* TCP, TLS and the first SETTINGS together */
#define GRPC_LOOKUP_TIMEOUT_US (5 * MICROSECONDS_PER_SECOND)     /* a name lookup; it goes on, but is reported as failed */
#define GRPC_LOOKUP_INTERVAL_US (30 * MICROSECONDS_PER_SECOND)   /* names are looked up again while calls come */
#define GRPC_KEEPALIVE_US (30 * MICROSECONDS_PER_SECOND)         /* PING when nothing was read for so long */
#define GRPC_KEEPALIVE_TIMEOUT_US (15 * MICROSECONDS_PER_SECOND) /* after it, a silent connection is lost */
#define GRPC_KEEPALIVE_MIN_US (10 * MICROSECONDS_PER_SECOND)     /* servers answer faster PINGs with GOAWAY */
#define GRPC_CONNECTION_AGE_US (270 * MICROSECONDS_PER_SECOND)   /* servers end connections after about 300 s */
/* The time without a byte after which a PING is sent, and the time that its answer may take. */
#define GRPC_UNHEARD_US (1 * MICROSECONDS_PER_SECOND)
/* The calls of a silent connection end so long after another connection is open. */
#define GRPC_SILENT_GRACE_US (500 * MICROSECONDS_PER_MS)
/* These times double, up to GRPC_UNHEARD_MAX_US, when a silent connection answers after all. The address keeps the longer
 * times for GRPC_HASTE_FORGOTTEN_US. Otherwise an overloaded server would get all calls again and again. A network that
 * loses all bytes gets no longer times, because no answer ever comes. */
#define GRPC_UNHEARD_MAX_US (8 * MICROSECONDS_PER_SECOND)
#define GRPC_HASTE_FORGOTTEN_US (60 * MICROSECONDS_PER_SECOND)
#define GRPC_BACKOFF_FIRST_US (200 * MICROSECONDS_PER_MS)
/* With its jitter (a fifth) below GRPC_DIAL_EVERY_US. */
#define GRPC_BACKOFF_MAX_US (800 * MICROSECONDS_PER_MS)
/* Work resumes within 2 s of a server's return; a dial each second from a node is nothing to a server. */
#define GRPC_DIAL_EVERY_US (1 * MICROSECONDS_PER_SECOND)
#define GRPC_SECRETS_INTERVAL_US (10 * MICROSECONDS_PER_SECOND) /* secret files are looked at for a change */

/* --- outcomes, causes and codes --- */

enum grpc_outcome { GRPC_NOT_SENT, GRPC_REFUSED, GRPC_STATUS, GRPC_UNKNOWN };

/* Why a call ended without a status, or an address was not reached. X(enum, name) */
#define GRPC_CAUSE_LIST(X)                                                                                                 \
    X(GRPC_CAUSE_NONE, "none")                       /* there is a status */                                               \
    X(GRPC_CAUSE_DEADLINE, "deadline")               /* the call's time ran out here */                                    \
    X(GRPC_CAUSE_CANCELLED, "cancelled")             /* by grpc_client_cancel() */                                         \
    X(GRPC_CAUSE_CLOSED, "closed")                   /* by grpc_client_close() */                                          \
    X(GRPC_CAUSE_LOOKUP, "lookup")                   /* a host name has no address, or the lookup took too long */         \
    X(GRPC_CAUSE_CONNECT, "connect")                 /* refused, no route, or no answer in time */                         \
    X(GRPC_CAUSE_TLS, "tls")                         /* handshake or certificate, ours or theirs */                        \
    X(GRPC_CAUSE_NOT_HTTP2, "not_http2")             /* the peer speaks something else, or ALPN chose no h2 */             \
    X(GRPC_CAUSE_SECRETS, "secrets")                 /* a certificate, key or API key file cannot be used */               \
    X(GRPC_CAUSE_CONNECTION_LOST, "connection_lost") /* ended or reset while the call was under way */                     \
    X(GRPC_CAUSE_SILENT, "silent")                   /* no answer to a keepalive PING: lost as well */                     \
    X(GRPC_CAUSE_PROTOCOL, "protocol")               /* the peer broke HTTP/2, or flooded us; lost as well */              \
    X(GRPC_CAUSE_NOT_EXPECTED, "not_expected")       /* the examination was not passed; lost as well */                    \
    X(GRPC_CAUSE_STREAM_RESET, "stream_reset")       /* RST_STREAM, other than REFUSED_STREAM */                           \
    X(GRPC_CAUSE_STREAM_REFUSED, "stream_refused")   /* REFUSED_STREAM or GOAWAY, more than GRPC_RESENDS_MAX times */      \
    X(GRPC_CAUSE_NO_STATUS, "no_status")             /* the answer ended without grpc-status */                            \
    X(GRPC_CAUSE_HTTP_STATUS, "http_status")         /* something in between answered, see http_status */                  \
    X(GRPC_CAUSE_BAD_ANSWER, "bad_answer")           /* content type, framing or status that is no gRPC */                 \
    X(GRPC_CAUSE_ANSWER_TOO_LARGE, "answer_too_large")                                                                     \
    X(GRPC_CAUSE_OUT_OF_MEMORY, "out_of_memory")

enum grpc_cause {
#define GRPC_CAUSE_ENUM(id, name) id,
    GRPC_CAUSE_LIST(GRPC_CAUSE_ENUM)
#undef GRPC_CAUSE_ENUM
        GRPC_CAUSE_COUNT
};
const char *grpc_cause_name(enum grpc_cause cause);

/* The status codes of gRPC. X(enum, number, name) */
#define GRPC_CODE_LIST(X)                                                                                                  \
    X(GRPC_OK, 0, "OK")                                                                                                    \
    X(GRPC_CANCELLED, 1, "CANCELLED")                                                                                      \
    X(GRPC_UNKNOWN_ERROR, 2, "UNKNOWN")                                                                                    \
    X(GRPC_INVALID_ARGUMENT, 3, "INVALID_ARGUMENT")                                                                        \
    X(GRPC_DEADLINE_EXCEEDED, 4, "DEADLINE_EXCEEDED")                                                                      \
    X(GRPC_NOT_FOUND, 5, "NOT_FOUND")                                                                                      \
    X(GRPC_ALREADY_EXISTS, 6, "ALREADY_EXISTS")                                                                            \
    X(GRPC_PERMISSION_DENIED, 7, "PERMISSION_DENIED")                                                                      \
    X(GRPC_RESOURCE_EXHAUSTED, 8, "RESOURCE_EXHAUSTED")                                                                    \
    X(GRPC_FAILED_PRECONDITION, 9, "FAILED_PRECONDITION")                                                                  \
    X(GRPC_ABORTED, 10, "ABORTED")                                                                                         \
    X(GRPC_OUT_OF_RANGE, 11, "OUT_OF_RANGE")                                                                               \
    X(GRPC_UNIMPLEMENTED, 12, "UNIMPLEMENTED")                                                                             \
    X(GRPC_INTERNAL, 13, "INTERNAL")                                                                                       \
    X(GRPC_UNAVAILABLE, 14, "UNAVAILABLE")                                                                                 \
    X(GRPC_DATA_LOSS, 15, "DATA_LOSS")                                                                                     \
    X(GRPC_UNAUTHENTICATED, 16, "UNAUTHENTICATED")

enum grpc_code {
#define GRPC_CODE_ENUM(id, number, name) id = (number),
    GRPC_CODE_LIST(GRPC_CODE_ENUM)
#undef GRPC_CODE_ENUM
        GRPC_CODE_COUNT
};
/* "NOT_FOUND"; "?" for a number that is no code. */
const char *grpc_code_name(int code);

/* --- the client --- */

struct grpc_client;

struct grpc_header {
    const char *name;  /* lower case; letters, digits, '-', '_', '.'; none that the protocol itself uses */
    const char *value; /* printable ASCII; binary values ("-bin" names) are the caller's to encode as base64 */
    bool secret;       /* kept out of the header compression's memory; "authorization" always is */
};

/* Changes for an operator, reported as they happen, at most once for each change. */
enum grpc_event_kind {
    GRPC_EVENT_CONNECTED,        /* to `address` */
    GRPC_EVENT_CONNECT_FAILED,   /* `error` has the reason; dialled again after a while */
    GRPC_EVENT_CONNECTION_LOST,  /* while calls were under way on it, or by a fault of the peer */
    GRPC_EVENT_CONNECTION_ENDED, /* in good order: aged, idle, or the server stops */
    GRPC_EVENT_LOOKUP_FAILED,
    GRPC_EVENT_SECRETS_LOADED,  /* again, after a change of the files; connections are being replaced */
    GRPC_EVENT_SECRETS_REFUSED, /* the changed files cannot be used; the old secrets stay in use */
    GRPC_EVENT_COUNT
};

struct grpc_event {
    enum grpc_event_kind kind;
    const char *address;            /* "10.0.0.7:7233", or the target list */
    enum grpc_cause cause;          /* GRPC_CAUSE_NONE when nothing is wrong */
    const struct weir_error *error; /* NULL when nothing is wrong; holds no secret */
};

/* How host names become addresses: getaddrinfo's contract. For tests; NULL is the system's own. Called in a thread. */
struct addrinfo;
typedef int grpc_lookup(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_addresses);

/* Texts are copied. Zero or NULL is the default. */
struct grpc_client_options {
    const char *targets;   /* "host:port", several with ',' between; IPv6 as "[::1]:7233". Needed */
    const char *authority; /* the :authority header; default: the target's host:port */

    bool tls;                     /* implied by the four that follow */
    const char *ca_file;          /* PEM; default: the system's own list of authorities */
    const char *certificate_file; /* PEM with the chain, for servers that want one of the client */
    const char *key_file;         /* PEM, not encrypted; wants certificate_file and the other way round */
    const char *server_name;      /* asked for (SNI) and verified instead of the target's host */

    const char *api_key_file;          /* or "env:NAME"; sent as "authorization: Bearer ..."; only with TLS */
    const struct grpc_header *headers; /* sent with every call */
    size_t header_count;
    const char *user_agent; /* default "weir/VERSION" */

    size_t calls_max;          /* waiting and under way: GRPC_CALLS_DEFAULT */
    size_t request_bytes_max;  /* of all of these together: 64 MiB */
    size_t response_bytes_max; /* of one message: GRPC_RESPONSE_BYTES_MAX */
    size_t answers_bytes_max;  /* of all answers that are arriving: 256 MiB */

    int64_t connect_timeout_us;
    int64_t keepalive_us; /* at least GRPC_KEEPALIVE_MIN_US; doubled when a server complains */
    int64_t keepalive_timeout_us;
    int64_t connection_age_us; /* TIME_NEVER: until the server ends it */
    int64_t backoff_first_us;
    int64_t backoff_max_us;

    void (*event)(void *context, const struct grpc_event *event); /* may be NULL */
    void *event_context;
    grpc_lookup *lookup; /* with lookup_free for its result; both or none */
    void (*lookup_free)(struct addrinfo *addresses);
    uint64_t seed; /* of the jitter; 0: from the system */
};

/* Checks and copies the options and reads the secret files; connects to nothing yet. `clock` is borrowed: its boot time is
 * that of every deadline. WEIR_INVALID_CONFIG (the option and its fault), WEIR_OUT_OF_MEMORY, WEIR_SYSTEM.
 */
WEIR_MUST_CHECK enum weir_status grpc_client_open(const struct grpc_client_options *options, const struct clock *clock,
                                                  struct grpc_client **ret_client, struct weir_error *error);
/* Ends the calls under way (`done` is called: GRPC_NOT_SENT or GRPC_UNKNOWN, GRPC_CAUSE_CLOSED), then frees. Takes NULL.
 * Never waits; a name lookup that is still running ends by itself and touches nothing of the client. */
void grpc_client_close(struct grpc_client *client);

/* For poll() or epoll: readable when step() has something to do. Owned by the client, the same for all its life. */
int grpc_client_fd(const struct grpc_client *client);
/* Makes all progress that is possible without waiting. Returns when to call it again (boot clock; may be in the past: at
 * once; TIME_NEVER: only when the fd is readable). */
int64_t grpc_client_step(struct grpc_client *client);

/* --- calls --- */

/* Which connections a call uses: a poll that waits for minutes must not delay short calls, or count
 * against their limits.
 */
enum grpc_class { GRPC_SHORT_CALL, GRPC_LONG_POLL, GRPC_CLASS_COUNT };

/* How a call ended. Lives until `done` returns. */
struct grpc_result {
    enum grpc_outcome outcome;
    enum grpc_cause cause;          /* GRPC_CAUSE_NONE with GRPC_STATUS */
    const struct weir_error *error; /* the event and the remedy; NULL with GRPC_STATUS. WEIR_ENGINE_UNREACHABLE,
                                       WEIR_TIMED_OUT, WEIR_INTERRUPTED, WEIR_STOPPED, WEIR_OUT_OF_MEMORY, WEIR_FAILED */
    int http_status;                /* of the answer; 0 when none came */

    /* With GRPC_STATUS: */
    int code;               /* enum grpc_code */
    const char *message;    /* grpc-message, decoded; one safe line of UTF-8, "" when there is none. Never NULL */
    const uint8_t *details; /* grpc-status-details-bin, decoded (a google.rpc.Status); NULL when there is none */
    size_t details_length;
    const uint8_t *response; /* with GRPC_OK: the message; never NULL then, but its length may be 0 */
    size_t response_length;

    int64_t sent_us; /* boot clock: when it was first written to a connection; TIME_NEVER when not */
    int resends;     /* how often it was refused and sent again */
};

typedef void grpc_done(void *context, const struct grpc_result *result);

struct grpc_request {
    const char *path;    /* "/package.Service/Method" */
    const void *message; /* encoded protobuf; NULL with length 0 is an empty message */
    size_t message_length;
    int64_t timeout_us; /* from now to its end, waiting included; also sent to the server. Needed, greater than 0 */
    enum grpc_class class;
    bool wait_for_connection; /* while nothing can be reached: wait for the deadline instead of ending at once */
    const struct grpc_header *headers;
    size_t header_count;
    grpc_done *done; /* needed; called exactly once when grpc_client_call() answers WEIR_OK, else never */
    void *context;
};

/* Identifies a call for grpc_client_cancel(); never 0, never used twice by one client. */
typedef uint64_t grpc_call_id;

/* Takes the call; everything is copied. Calls of a class leave in the order in which they were taken. `ret_id` may be NULL.
 * Errors: WEIR_INVALID_ARGUMENT (path, header, timeout, or larger than GRPC_REQUEST_BYTES_MAX). WEIR_QUEUE_FULL
 * (calls_max or request_bytes_max). WEIR_STOPPED (from inside grpc_client_close()). WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status grpc_client_call(struct grpc_client *client, const struct grpc_request *request,
                                                  grpc_call_id *ret_id, struct weir_error *error);
/* Ends the call with GRPC_CAUSE_CANCELLED, in the next step: GRPC_NOT_SENT, GRPC_REFUSED or GRPC_UNKNOWN. The stream
 * is reset. No effect on a call that has ended; one whose answer is already here keeps it. */
void grpc_client_cancel(struct grpc_client *client, grpc_call_id id);

/* --- examination --- */

enum grpc_verdict {
    GRPC_VERDICT_EXPECTED, /* the expected server answered */
    GRPC_VERDICT_OTHER,    /* another one did; fills the error */
    GRPC_VERDICT_UNCLEAR   /* the result does not say: no answer in time, throttled, refused; fills the error */
};

/* A call that each connection must answer as its owner expects before it carries other calls. So a server that takes
 * the place of the expected one never sees a call that was meant for that one. */
struct grpc_examination {
    const char *path;
    const void *message;
    size_t message_length;
    int64_t timeout_us;
    /* Judges a result of any outcome. Called from inside grpc_client_step(), and must not call the client. */
    enum grpc_verdict (*judge)(void *context, const struct grpc_result *result, struct weir_error *error);
    void *context;
};

/* Path and message are copied. From now on each connection is examined, those that are open too. Calls that are made
 * meanwhile wait, as they do for a connection; those under way go on. A connection to another server ends
 * (GRPC_CAUSE_NOT_EXPECTED): its calls under way are GRPC_UNKNOWN, and waiting ones are GRPC_NOT_SENT with the error of
 * `judge`. It is dialled anew as after any other failure. A connection whose server is unclear is asked again with a
 * growing distance. After GRPC_UNCLEAR_MAX tries waiting calls end in the same way; the connection ends then only if it
 * never carried a call. Once for each client. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status grpc_client_examine(struct grpc_client *client, const struct grpc_examination *examination,
                                                     struct weir_error *error);
/* Every open connection is examined once more. No effect before grpc_client_examine(). */
void grpc_client_examine_again(struct grpc_client *client);

/* --- facts --- */

struct grpc_client_facts {
    size_t connections; /* that carry new calls */
    size_t draining;    /* that end with their last call */
    size_t dialling;
    size_t calls_waiting;
    size_t calls_under_way;
    uint64_t calls_taken; /* since the client was opened, as all that follow */
    uint64_t calls_resent;
    uint64_t calls_unknown;
    uint64_t connects;
    uint64_t connects_failed;
    uint64_t connections_lost;
    uint64_t goaways;
    /* Why nothing can be reached and since when (boot clock); TIME_NEVER and WEIR_OK while something can, or was never
     * tried. */
    int64_t unreachable_since_us;
    enum grpc_cause unreachable_cause;
    struct weir_error unreachable;
};
void grpc_client_read_facts(const struct grpc_client *client, struct grpc_client_facts *ret_facts);
/* Short calls wait on a connection that answers neither them nor a PING, and no other one is open: the server is frozen, or
 * the network drops its packets. Known about 2 * GRPC_UNHEARD_US after a call was sent, long before that call's own
 * deadline.
 */
bool grpc_client_is_silent(const struct grpc_client *client);

#endif
