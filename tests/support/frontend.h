/* A scripted gRPC server: follows its script, and fails on request as no healthy server does.
 *
 * For each call it calls a handler (path and request bytes in), which chooses the call's fate (enum fate) and the bytes of
 * the answer. A call may be held and answered later by its token. Plaintext or TLS, loopback only, a free port.
 *
 * Threads: either the test drives it with frontend_step(), or frontend_run() gives it a thread of its own; then the handler
 * is called in that thread. Everything else may be called from any thread, the handler included.
 */
#ifndef WEIR_TESTS_SUPPORT_FRONTEND_H
#define WEIR_TESTS_SUPPORT_FRONTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fate {
    FATE_ANSWER,             /* code, message, details, response */
    FATE_HOLD,               /* nothing for now; frontend_answer() later */
    FATE_RESET,              /* RST_STREAM with reset_code, before any header */
    FATE_HEADERS_THEN_RESET, /* headers first */
    FATE_CUT,                /* the connection is reset (TCP) */
    FATE_CLOSE,              /* the connection is closed in good order (TCP), without a GOAWAY */
    FATE_GOAWAY_BELOW,       /* GOAWAY with reset_code and a last stream below this one: not processed */
    FATE_GOAWAY_THEN_ANSWER, /* GOAWAY that lets this one run on, then the answer */
    FATE_NO_TRAILERS,        /* headers, message, end */
    FATE_HEADERS_ONLY,       /* headers, end */
    FATE_RAW,                /* `raw` as it is */
    FATE_FREEZE              /* the connection is neither read nor written any more */
};

/* All pointers are copied before the handler's caller goes on. Zero is a plain, empty OK. */
struct frontend_answer {
    enum fate fate;
    int code;            /* grpc-status */
    const char *message; /* grpc-message, sent as it is */
    const char *details; /* grpc-status-details-bin, sent as it is (base64) */
    const void *response;
    size_t response_length;
    /* Departures from the rules; 0 or NULL: none. */
    const char *status_text;  /* instead of `code` */
    int http_status;          /* instead of 200 */
    const char *content_type; /* instead of application/grpc */
    bool in_full;             /* headers and trailers in two blocks also when there is an error */
    bool no_grpc;             /* no grpc-status at all */
    bool compressed;          /* the flag in the prefix */
    uint32_t announce_more;   /* added to the length in the prefix */
    size_t extra_bytes;       /* zeros after the message */
    bool twice;               /* the message two times */
    bool drip;                /* from now on one byte of the connection's output at each turn */
    uint32_t reset_code;
    const void *raw;
    size_t raw_length;
};

struct frontend_call {
    uint64_t token; /* for frontend_answer() */
    const char *path;
    const uint8_t *message; /* without its prefix; NULL when the framing was wrong */
    size_t message_length;
    int connection; /* 1, 2, ... in the order of accepting */
    int32_t stream_id;
    const void *stream; /* for frontend_header() */
};

typedef void frontend_handler(void *context, const struct frontend_call *call, struct frontend_answer *answer);

/* Its role when it is no HTTP/2 server. */
enum frontend_kind { FRONTEND_HTTP2, FRONTEND_HTTP1, FRONTEND_SILENT, FRONTEND_CLOSES, FRONTEND_RAW_GREETING };

struct frontend_options {
    frontend_handler *handler; /* NULL: an empty OK for each call */
    void *context;
    enum frontend_kind kind;
    const char *certificate_file; /* with key_file: TLS */
    const char *key_file;
    const char *client_ca_file; /* a client without a certificate of this authority is refused */
    int tls_version_most;       /* TLS1_1_VERSION for example; 0: the newest */
    const char *alpn;           /* "h2" when NULL; "" : none is chosen */
    uint32_t streams_max;       /* MAX_CONCURRENT_STREAMS; 0: none announced */
    uint32_t window_bytes;      /* INITIAL_WINDOW_SIZE; 0: the default */
    const void *greeting;       /* FRONTEND_RAW_GREETING: sent on accept, nothing is read */
    size_t greeting_length;
    int port; /* 0: a free one */
};

struct frontend_counts {
    int connections;
    int connections_open;
    int calls;
    int pings;
    int resets; /* RST_STREAM received */
    int goaways;
};

struct frontend;

/* NULL when it cannot listen or read the certificate (a message goes to stderr). Texts are copied or read at once. */
struct frontend *frontend_open(const struct frontend_options *options);
void frontend_close(struct frontend *frontend);
int frontend_port(const struct frontend *frontend);
/* "127.0.0.1:PORT" */
const char *frontend_address(const struct frontend *frontend);

/* One turn: waits at most so long for something to do. */
void frontend_step(struct frontend *frontend, int timeout_ms);
/* Turns in a thread of its own until it is closed. 0 on success. */
int frontend_run(struct frontend *frontend);

struct frontend_counts frontend_counts(struct frontend *frontend);
/* A request header of the call, valid inside the handler; NULL when absent. */
const char *frontend_header(const struct frontend_call *call, const char *name);
/* Gives a held call its fate. False when its stream is gone. */
bool frontend_answer(struct frontend *frontend, uint64_t token, const struct frontend_answer *answer);
/* Each connection: GOAWAY with the code, running calls may end. */
void frontend_goaway(struct frontend *frontend, uint32_t code);
/* Each connection that is open now is neither read nor written any more; new ones are as usual. */
void frontend_freeze_all(struct frontend *frontend);
/* All that are frozen go on. */
void frontend_thaw_all(struct frontend *frontend);
/* Each connection is reset; the server accepts no connection any more, or accepts them again. */
void frontend_cut_all(struct frontend *frontend);
void frontend_listen(struct frontend *frontend, bool listening);

/* Builds a frame into `to` (9 + length bytes); returns its size. For FATE_RAW. */
size_t frontend_frame(uint8_t *to, uint8_t type, uint8_t flags, int32_t stream_id, const void *payload, size_t length);

#endif
