/* Whether the service can be reached (service_health.c). The engine's loop owns it. */
#ifndef WEIR_ENGINE_TEMPORAL_SERVICE_HEALTH_H
#define WEIR_ENGINE_TEMPORAL_SERVICE_HEALTH_H

#include "engine/temporal/calls.h"

/* Without an answer for this long, the service is probed. */
#define HEALTH_QUIET_US (10 * MICROSECONDS_PER_SECOND)
/* While it may be down: work resumes within 2 s of its return, of which the next connection takes up to
 * GRPC_DIAL_EVERY_US. */
#define HEALTH_PROBE_INTERVAL_US (250 * MICROSECONDS_PER_MS)
#define HEALTH_PROBE_TIMEOUT_US (2 * MICROSECONDS_PER_SECOND)
enum { HEALTH_FAILURES_MAX = 3 }; /* a failed call, then two failed probes: the service is down */

struct service_health {
    int failures; /* in a row; HEALTH_FAILURES_MAX: it is down */
    int64_t due_us;
    struct call *probe;
};

/* Takes every call's result, before its `done`. */
void service_health_note_result(struct temporal *engine, enum method method, bool is_probe,
                                const struct grpc_result *result);
/* Sends a probe when one is due; returns when it wants to be called again. */
int64_t service_health_step(struct temporal *engine, int64_t now_us);

#endif
