/* The meaning of the answer to a start: the only place that turns transport and status into a decision. Pure.
 *
 * The rule behind every row: a start is released, refused or counted only when it is certain that nothing runs. A start
 * that may have arrived is sent again with the same bytes. Sources: the errors of Temporal's public API, gRPC's status
 * codes, and the observed answers of a real server (docs/temporal.md has the table for operators).
 */
#ifndef WEIR_ENGINE_TEMPORAL_OUTCOME_H
#define WEIR_ENGINE_TEMPORAL_OUTCOME_H

#include "engine/temporal/encode.h"
#include "grpc/grpc_client.h"

enum outcome_kind {
    OUTCOME_OK,          /* status 0 */
    OUTCOME_TAKEN,       /* the workflow id exists already: of an own start, or of another program */
    OUTCOME_PERMANENT,   /* not started, and never will be with these bytes */
    OUTCOME_UNREACHABLE, /* not started; the target is down or wrongly set up, for any execution */
    OUTCOME_OVERLOAD,    /* throttled: the same bytes again, slower */
    OUTCOME_UNKNOWN      /* it may be running: the same bytes again */
};

struct outcome {
    enum outcome_kind kind;
    const char *code; /* static text for `error_code`; "" for OUTCOME_OK */
    bool slow;        /* UNKNOWN for want of time: the service may be overloaded */
    struct detail detail;
};

/* Fills all of it. A result without a row is OUTCOME_UNKNOWN. */
void outcome_classify_start(const struct grpc_result *result, struct outcome *ret_outcome);

/* The result of a call that reads (describe, history, list) or requests a cancel. */
enum reply_kind {
    REPLY_OK,
    REPLY_NOT_FOUND, /* the service does not know the workflow */
    REPLY_THROTTLED, /* later */
    REPLY_REFUSED,   /* the request itself is wrong: a repetition cannot help */
    REPLY_FAILED     /* any other failure: later */
};
enum reply_kind outcome_classify_reply(const struct grpc_result *result);

/* The message of the service or of the transport, one line for people. */
const char *outcome_text(const struct grpc_result *result);

#endif
