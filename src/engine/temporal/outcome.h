/* What one call for a start means: the only place that turns transport and status into a decision. Pure.
 *
 * The rule behind every row: a start is released, refused or counted only when it is certain that nothing runs; whatever
 * may have arrived is sent again with the same bytes. Sources: the errors of Temporal's public API, gRPC's status codes,
 * and what a real server was seen to answer (docs/temporal.md has the table for people).
 */
#ifndef WEIR_ENGINE_TEMPORAL_OUTCOME_H
#define WEIR_ENGINE_TEMPORAL_OUTCOME_H

#include "engine/temporal/encode.h"
#include "grpc/grpc_client.h"

enum outcome_kind {
    OUTCOME_OK,          /* status 0 */
    OUTCOME_TAKEN,       /* the workflow id exists already: ours or somebody else's */
    OUTCOME_PERMANENT,   /* not started, and never will be with these bytes */
    OUTCOME_UNREACHABLE, /* not started; the target is away or wrongly set up, whatever the execution */
    OUTCOME_OVERLOAD,    /* throttled: the same bytes again, slower */
    OUTCOME_UNKNOWN      /* it may be running: the same bytes again */
};

struct outcome {
    enum outcome_kind kind;
    const char *code; /* static word for `error_code`; "" for OUTCOME_OK */
    bool slow;        /* UNKNOWN for want of time: the service may be overloaded */
    struct detail detail;
};

/* Fills all of it. What no row knows is unknown. */
void outcome_of_start(const struct grpc_result *result, struct outcome *ret_outcome);

/* What a call that only looks (describe, history, list) or asks (cancel) came to. */
enum look_kind {
    LOOK_OK,
    LOOK_NOT_FOUND, /* the service does not know the workflow */
    LOOK_THROTTLED, /* later */
    LOOK_REFUSED,   /* the request itself is wrong: asking again cannot help */
    LOOK_FAILED     /* later, whatever it was */
};
enum look_kind look_of(const struct grpc_result *result);

/* One line for people: what the service or the transport said. */
const char *outcome_text(const struct grpc_result *result);

#endif
