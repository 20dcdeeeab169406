/* A payload codec by URL: Temporal's remote codec protocol. POST <url>/encode and <url>/decode carry {"payloads": [...]} in
 * both directions, with the namespace in X-Namespace; metadata and data of a payload are base64.
 *
 * libcurl speaks HTTP and TLS (libcurl.h). Nothing blocks but the read of the token file. A proxy of the environment
 * (https_proxy, no_proxy) is used; redirects are not followed.
 *
 * Threads: all functions on one codec are called by one thread at a time. `done` is called from inside step() only.
 * A loop: poll(fd()) until readable or until the time that the last step() returned; then step().
 */
#ifndef WEIR_ENGINE_TEMPORAL_CODEC_H
#define WEIR_ENGINE_TEMPORAL_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "weir/status.h"

enum {
    CODEC_BODY_BYTES_MAX = 16 * 1024 * 1024, /* of a request or an answer */
    CODEC_CALLS_MAX = 4096,                  /* waiting and under way */
    CODEC_CONNECTIONS_MAX = 16,
    CODEC_URL_BYTES_MAX = 2048
};
#define CODEC_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND) /* of one call, with its wait for a connection */
#define CODEC_CONNECT_TIMEOUT_US (5 * MICROSECONDS_PER_SECOND)

enum codec_verb { CODEC_ENCODE, CODEC_DECODE };
enum codec_outcome {
    CODEC_OK,
    CODEC_UNREACHABLE, /* down, or wrongly set up, for any payload: later */
    CODEC_REFUSED      /* it does not take this payload (4xx) */
};
/* `text` is one line for people, "" for CODEC_OK; `body` of CODEC_OK, NULL when it is empty. Valid inside of `done`. */
struct codec_result {
    enum codec_outcome outcome;
    const char *text;
    const char *body;
    size_t length;
};
typedef void codec_done(void *context, const struct codec_result *result);
struct codec_call; /* under way */

/* How calls leave: codec_open(), or a test's script. */
struct codec_wire {
    /* Copies `body`. NULL: there is no memory, or CODEC_CALLS_MAX are under way; `done` is not called then. */
    struct codec_call *(*call)(void *context, enum codec_verb verb, const char *body, size_t length, codec_done *done,
                               void *done_context);
    /* `done` is not called any more. */
    void (*cancel)(void *context, struct codec_call *call);
    int64_t (*step)(void *context);
    int (*fd)(void *context);
    /* Cancels the calls under way. */
    void (*close)(void *context);
    void *context;
};

/* Texts are copied. */
struct codec_options {
    const char *url;            /* http:// or https://; "{namespace}" in it stands for the namespace */
    const char *namespace_name; /* for X-Namespace */
    const char *token_file;     /* sent as a bearer token; read for each call. Or "env:NAME". NULL = none */
    const char *ca_file;        /* authorities to trust (PEM); NULL = the system's */
    const struct clock *clock;
};
/* WEIR_INVALID_CONFIG, WEIR_OUT_OF_MEMORY, WEIR_SYSTEM. Connects with the first call. */
WEIR_MUST_CHECK enum weir_status codec_open(const struct codec_options *options, struct codec_wire *ret_wire,
                                            struct weir_error *error);

#endif
