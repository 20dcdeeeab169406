/* Reading one answer: header fields, message bytes, trailers; then its meaning.
 *
 * Knows nothing of HTTP/2 frames: the connection hands in decoded fields and body bytes, and a fault that it finds ends the
 * call. Nothing that a peer announces is believed. Memory is taken for bytes that have arrived, within the call's
 * maximum and the client's (struct answer_limits, shared by all answers of a client).
 */
#ifndef WEIR_GRPC_ANSWER_H
#define WEIR_GRPC_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grpc/framing.h"
#include "grpc/grpc_client.h"

struct answer_limits {
    size_t message_bytes_max; /* of one answer */
    size_t arriving_bytes;    /* held now by all answers */
    size_t arriving_bytes_max;
};

struct answer {
    struct answer_limits *limits;
    int http_status;
    bool has_headers; /* the final (not 1xx) block has come */
    bool is_grpc;     /* by its content type */
    char content_type[64];
    size_t header_bytes;
    bool has_code;
    int code; /* -1: a grpc-status that is none */
    char *message;
    uint8_t *details;
    size_t details_length;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    size_t prefix_length;
    uint8_t *body;
    size_t body_length;
    size_t body_capacity;
    size_t announced; /* length in the prefix */
    enum grpc_cause fault;
    const char *fault_text; /* static */
};

void grpc_answer_init(struct answer *answer, struct answer_limits *limits);
void grpc_answer_close(struct answer *answer);

/* A field, pseudo-headers and trailers as well. False: `fault` is set, the call is over. */
WEIR_MUST_CHECK bool grpc_answer_take_field(struct answer *answer, const char *name, size_t name_length, const char *value,
                                            size_t value_length);
/* The end of a header block or of the trailers. False as above. */
WEIR_MUST_CHECK bool grpc_answer_take_headers_end(struct answer *answer);
/* Bytes of the body. False as above. */
WEIR_MUST_CHECK bool grpc_answer_take_body(struct answer *answer, const uint8_t *bytes, size_t length);

/* Judges an answer that has ended in good order, or has a fault. Fills outcome, cause and the answer's part of `result`
 * (which points into the answer), or `error` when there is no status. */
void grpc_answer_judge(const struct answer *answer, struct grpc_result *result, struct weir_error *error);

#endif
