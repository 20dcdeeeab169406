/* Whether the service can be reached (service_health.c). The engine's loop owns it. */
#ifndef WEIR_ENGINE_TEMPORAL_SERVICE_HEALTH_H
#define WEIR_ENGINE_TEMPORAL_SERVICE_HEALTH_H

#include "engine/temporal/calls.h"
#include "weir/status.h"

/* Without an answer for this long, the service is probed. */
#define HEALTH_QUIET_US (10 * MICROSECONDS_PER_SECOND)
/* Answers do not show which service gave them: it is probed at least this often once its identity is known. */
#define HEALTH_IDENTITY_US (30 * MICROSECONDS_PER_SECOND)
/* While it may be down: work resumes within 2 s of its return, of which the next connection takes up to
 * GRPC_DIAL_EVERY_US. */
#define HEALTH_PROBE_INTERVAL_US (250 * MICROSECONDS_PER_MS)
#define HEALTH_PROBE_TIMEOUT_US (2 * MICROSECONDS_PER_SECOND)
/* A wanted confirmation that does not come for so long is reported, each time anew. */
#define HEALTH_UNCONFIRMED_US (10 * MICROSECONDS_PER_SECOND)
enum { HEALTH_FAILURES_MAX = 3 }; /* a failed call, then two failed probes: the service is down */

struct service_health {
    int failures; /* in a row; HEALTH_FAILURES_MAX: it is down */
    int64_t due_us;
    struct call *probe;
    int64_t probe_sent_us;
    /* Another service answers at the address: words for people. "": the expected one answered last. */
    char other[WEIR_ERROR_MESSAGE_MAX];
    int64_t other_us;     /* when that was seen last */
    int64_t wanted_us;    /* an answer of the expected service to a probe that is sent from then on is wanted */
    int64_t confirmed_us; /* when the last probe was sent that the expected service has answered */
    int64_t waits_us;     /* since when a confirmation is wanted, or when its lack was last reported */
    bool is_unconfirmed;  /* that was reported */
};

/* Takes every call's result, before its `done`. */
void service_health_note_result(struct temporal *engine, enum method method, bool is_probe,
                                const struct grpc_result *result);
/* NULL, or the words: no answer proves anything about a workflow. */
const char *service_health_other(const struct temporal *engine);
/* Whether the expected service has answered a probe that was sent at `since_us` or later, and no other one has since. If it
 * has not, a probe is sent soon. */
bool service_health_confirm(struct temporal *engine, int64_t since_us);
/* Sends a probe when one is due; returns when it wants to be called again. */
int64_t service_health_step(struct temporal *engine, int64_t now_us);

#endif
