/* How fast and how many at once: additive increase, multiplicative decrease, for one namespace.
 *
 * Two limits. The rate (starts per second) is unlimited until the service throttles; then it falls to a little less than
 * what was accepted, and grows, slowly at first, until the service throttles again. The window (starts under way) shrinks
 * when answers take longer than their deadline and grows with every answer. Pure; time is an argument (boot clock).
 */
#ifndef WEIR_ENGINE_TEMPORAL_START_RATE_H
#define WEIR_ENGINE_TEMPORAL_START_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define PACE_CUT 0.85         /* of the rate, when throttled */
#define PACE_GROWTH 0.03      /* of the rate, per second, for each second without throttling ... */
#define PACE_GROWTH_MOST 10.0 /* ... up to so many */
#define PACE_RATE_LEAST 1.0   /* starts per second: a service that is never asked cannot say that it is well */
#define PACE_CUT_EVERY_US (1 * MICROSECONDS_PER_SECOND)   /* one burst of refusals is one cut */
#define PACE_FREE_AFTER_US (60 * MICROSECONDS_PER_SECOND) /* without throttling: no rate limit any more */

struct pace {
    size_t window_most;
    double window;
    double rate;   /* per second; 0 = unlimited */
    double tokens; /* at most a tenth of a second's worth, or one */
    int64_t tokens_us;
    int64_t cut_us;         /* of the last cut of the rate */
    int64_t shrunk_us;      /* of the last cut of the window */
    int64_t throttled_us;   /* when the service last throttled */
    int64_t counted_us;     /* begin of the second that is being counted */
    double accepted;        /* in it */
    double accepted_before; /* in the one before, per second */
};

void pace_init(struct pace *pace, size_t window_most, int64_t now_us);
/* Starts that may be under way at once now; at least 1. */
size_t pace_window(const struct pace *pace);
/* Whether one may be sent now; takes its token. */
bool pace_take(struct pace *pace, int64_t now_us);
/* When pace_take() may say yes next; `now_us` when it would now. */
int64_t pace_next(const struct pace *pace, int64_t now_us);
/* An answer other than throttling came. */
void pace_accepted(struct pace *pace, int64_t now_us);
void pace_throttled(struct pace *pace, int64_t now_us);
/* A start's time ran out: fewer at once. */
void pace_timed_out(struct pace *pace, int64_t now_us);

#endif
