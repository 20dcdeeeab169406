/* How long the namespace remembers closed workflows (retention.c). The engine's loop owns it. */
#ifndef WEIR_ENGINE_TEMPORAL_RETENTION_H
#define WEIR_ENGINE_TEMPORAL_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct temporal;

#define RETENTION_INTERVAL_US (300 * MICROSECONDS_PER_SECOND)
#define RETENTION_RETRY_US (10 * MICROSECONDS_PER_SECOND)
/* A start that is older than the retention less this part of it is not sent again. */
#define RETENTION_MARGIN_PART 10

struct retention {
    int64_t us;       /* TEMPORAL_RETENTION_LEAST_US until the service has answered */
    bool is_answered; /* the service has reported it, or has refused to */
    int64_t due_us;
    bool is_requested;
};

/* Requests the retention when that is due; returns when it wants to be called again. */
int64_t retention_step(struct temporal *engine, int64_t now_us);

#endif
