/* The rate of starts and their number at once.
 *
 * The rate:
 *
 * 1. Without throttling there is no rate limit, because weir cannot know the limit of the service.
 * 2. The first throttled start sets the rate to the measured number of accepted starts per second, at least to the window.
 *    Throttled answers come faster than starts do, so the measurement is low at first.
 * 3. Each further second with throttling cuts the rate by 15 %, or to the measured number, but at most to half. A burst of
 *    refusals is one cut.
 * 4. Without throttling the rate grows, faster for each quiet second: the longer nothing was refused, the further below the
 *    limit it may be.
 * 5. After a minute without throttling the limit is removed.
 * 6. Tokens collect at the rate, for a tenth of a second at most: a larger burst would be throttled.
 *
 * The window is halved, at most once a second, when the deadline of a start passes, and grows by one for each window of
 * answers. A rate below the window also limits the window: a start that only waits is better left in the queue, where its
 * workspace can still be paused.
 *
 * A limit must never fall to 0, because only further starts show that the service has recovered. Pure; the engine's loop.
 */
#include "engine/temporal/start_rate.h"

#include "base/error.h"

#define SECONDS(us) ((double)(us) / (double)MICROSECONDS_PER_SECOND)
#define BURST_SECONDS 0.1

void start_rate_init(struct start_rate *limits, size_t window_max, int64_t now_us)
{
    INVARIANT(window_max > 0);
    *limits = (struct start_rate){.window_max = window_max,
                                  .window = (double)window_max,
                                  .tokens_us = now_us,
                                  .cut_us = -START_RATE_CUT_INTERVAL_US,
                                  .shrunk_us = -START_RATE_CUT_INTERVAL_US,
                                  .counted_us = now_us};
}

size_t start_rate_window(const struct start_rate *limits)
{
    INVARIANT(limits != NULL && limits->window_max > 0);
    double window = limits->window;
    if (limits->rate > 0 && limits->rate < window) {
        window = limits->rate;
    }
    return window < 1 ? 1 : (size_t)window;
}

/* Steps 4 to 6: the time since the last call. */
static void advance_time(struct start_rate *limits, int64_t now_us)
{
    double seconds = now_us > limits->tokens_us ? SECONDS(now_us - limits->tokens_us) : 0;
    limits->tokens_us = now_us;
    if (limits->rate <= 0) {
        return;
    }
    if (now_us - limits->throttled_us >= START_RATE_FREE_AFTER_US) {
        limits->rate = 0;
        return;
    }
    double quiet = SECONDS(now_us - limits->cut_us);
    limits->rate += limits->rate * START_RATE_GROWTH * (quiet < START_RATE_GROWTH_MAX ? quiet : START_RATE_GROWTH_MAX) *
                    (seconds < 1 ? seconds : 1);
    double most = limits->rate * BURST_SECONDS > 1 ? limits->rate * BURST_SECONDS : 1;
    limits->tokens += limits->rate * seconds;
    limits->tokens = limits->tokens < most ? limits->tokens : most;
}

bool start_rate_take_token(struct start_rate *limits, int64_t now_us)
{
    INVARIANT(limits != NULL && limits->window_max > 0);
    advance_time(limits, now_us);
    if (limits->rate <= 0) {
        return true;
    }
    if (limits->tokens < 1) {
        return false;
    }
    limits->tokens -= 1;
    return true;
}

int64_t start_rate_next_token(const struct start_rate *limits, int64_t now_us)
{
    INVARIANT(limits != NULL && limits->window_max > 0);
    if (limits->rate <= 0 || limits->tokens >= 1) {
        return now_us;
    }
    int64_t wait_us = (int64_t)((1 - limits->tokens) / limits->rate * (double)MICROSECONDS_PER_SECOND) + 1;
    return time_add(now_us, wait_us);
}

/* Begins a new second of the measurement when one has passed. */
static void count_second(struct start_rate *limits, int64_t now_us)
{
    int64_t age_us = now_us - limits->counted_us;
    if (age_us >= MICROSECONDS_PER_SECOND) {
        limits->accepted_before = limits->accepted / SECONDS(age_us);
        limits->accepted = 0;
        limits->counted_us = now_us;
    }
}

/* Starts per second that the service accepted in the last second or two. */
static double measure_accepted(const struct start_rate *limits, int64_t now_us)
{
    double age = SECONDS(now_us - limits->counted_us);
    double now = age >= 0.2 ? limits->accepted / age : limits->accepted;
    return now > limits->accepted_before ? now : limits->accepted_before;
}

void start_rate_note_accepted(struct start_rate *limits, int64_t now_us)
{
    INVARIANT(limits != NULL && limits->window_max > 0);
    count_second(limits, now_us);
    limits->accepted += 1;
    if (limits->window < (double)limits->window_max) {
        limits->window += 1 / limits->window;
    }
}

void start_rate_note_throttled(struct start_rate *limits, int64_t now_us)
{
    INVARIANT(limits != NULL && limits->window_max > 0);
    advance_time(limits, now_us);
    count_second(limits, now_us);
    limits->throttled_us = now_us;
    if (now_us - limits->cut_us < START_RATE_CUT_INTERVAL_US) {
        return;
    }
    double accepted = measure_accepted(limits, now_us);
    double rate = limits->rate * START_RATE_CUT;
    if (limits->rate <= 0) {
        /* step 2 */
        rate = accepted > (double)limits->window_max ? accepted : (double)limits->window_max;
    } else if (accepted < rate) {
        rate = accepted > limits->rate / 2 ? accepted : limits->rate / 2;
    }
    limits->rate = rate > START_RATE_MIN ? rate : START_RATE_MIN;
    limits->tokens = 0;
    limits->cut_us = now_us;
}

void start_rate_note_timeout(struct start_rate *limits, int64_t now_us)
{
    INVARIANT(limits != NULL && limits->window_max > 0);
    if (now_us - limits->shrunk_us >= START_RATE_CUT_INTERVAL_US) {
        limits->window = limits->window / 2 > 1 ? limits->window / 2 : 1;
        limits->shrunk_us = now_us;
    }
}
