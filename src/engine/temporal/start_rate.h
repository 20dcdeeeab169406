/* The rate of starts and their number at once, for one namespace: additive increase, multiplicative decrease.
 *
 * There are two limits. The rate (starts per second) does not exist until the service throttles. The window (starts under
 * way) shrinks when answers take longer than their deadline, and grows with every answer. start_rate.c has the algorithm.
 * Pure; time is an argument (boot clock). The engine's loop owns it.
 */
#ifndef WEIR_ENGINE_TEMPORAL_START_RATE_H
#define WEIR_ENGINE_TEMPORAL_START_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define START_RATE_CUT 0.85        /* of the rate, when throttled */
#define START_RATE_GROWTH 0.03     /* of the rate, per second, for each second without throttling ... */
#define START_RATE_GROWTH_MAX 10.0 /* ... up to so many */
#define START_RATE_MIN 1.0 /* starts per second: some starts must leave to find out that the service has recovered */
#define START_RATE_CUT_INTERVAL_US (1 * MICROSECONDS_PER_SECOND) /* one burst of refusals is one cut */
#define START_RATE_FREE_AFTER_US (60 * MICROSECONDS_PER_SECOND)  /* without throttling: no rate limit any more */

struct start_rate {
    size_t window_max;
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

void start_rate_init(struct start_rate *limits, size_t window_max, int64_t now_us);
/* Starts that may be under way at once now; at least 1. */
size_t start_rate_window(const struct start_rate *limits);
/* True when one may be sent now; takes its token. */
bool start_rate_take_token(struct start_rate *limits, int64_t now_us);
/* When start_rate_take_token() may return true next; `now_us` when it would now. */
int64_t start_rate_next_token(const struct start_rate *limits, int64_t now_us);
/* An answer other than throttling came. */
void start_rate_note_accepted(struct start_rate *limits, int64_t now_us);
void start_rate_note_throttled(struct start_rate *limits, int64_t now_us);
/* The deadline of a start passed: the window shrinks. */
void start_rate_note_timeout(struct start_rate *limits, int64_t now_us);

#endif
