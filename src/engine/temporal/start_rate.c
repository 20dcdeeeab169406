#include "engine/temporal/start_rate.h"

#include "base/error.h"

#define SECONDS(us) ((double)(us) / (double)MICROSECONDS_PER_SECOND)
#define BURST_SECONDS 0.1

void pace_init(struct pace *pace, size_t window_most, int64_t now_us)
{
    INVARIANT(window_most > 0);
    *pace = (struct pace){.window_most = window_most,
                          .window = (double)window_most,
                          .tokens_us = now_us,
                          .cut_us = -PACE_CUT_EVERY_US,
                          .shrunk_us = -PACE_CUT_EVERY_US,
                          .counted_us = now_us};
}

size_t pace_window(const struct pace *pace)
{
    double window = pace->window;
    /* What would only wait for its turn is better left in the queue, where its workspace can still be paused. */
    if (pace->rate > 0 && pace->rate < window) {
        window = pace->rate;
    }
    return window < 1 ? 1 : (size_t)window;
}

/* Tokens since the last look, and the slow growth of the rate. */
static void pass_time(struct pace *pace, int64_t now_us)
{
    double seconds = now_us > pace->tokens_us ? SECONDS(now_us - pace->tokens_us) : 0;
    pace->tokens_us = now_us;
    if (pace->rate <= 0) {
        return;
    }
    if (now_us - pace->throttled_us >= PACE_FREE_AFTER_US) {
        pace->rate = 0;
        return;
    }
    /* The longer nothing was refused, the further below its limit it may be. */
    double quiet = SECONDS(now_us - pace->cut_us);
    pace->rate +=
        pace->rate * PACE_GROWTH * (quiet < PACE_GROWTH_MOST ? quiet : PACE_GROWTH_MOST) * (seconds < 1 ? seconds : 1);
    double most = pace->rate * BURST_SECONDS > 1 ? pace->rate * BURST_SECONDS : 1;
    pace->tokens += pace->rate * seconds;
    pace->tokens = pace->tokens < most ? pace->tokens : most;
}

bool pace_take(struct pace *pace, int64_t now_us)
{
    pass_time(pace, now_us);
    if (pace->rate <= 0) {
        return true;
    }
    if (pace->tokens < 1) {
        return false;
    }
    pace->tokens -= 1;
    return true;
}

int64_t pace_next(const struct pace *pace, int64_t now_us)
{
    if (pace->rate <= 0 || pace->tokens >= 1) {
        return now_us;
    }
    int64_t wait_us = (int64_t)((1 - pace->tokens) / pace->rate * (double)MICROSECONDS_PER_SECOND) + 1;
    return time_add(now_us, wait_us);
}

static void count(struct pace *pace, int64_t now_us)
{
    int64_t age_us = now_us - pace->counted_us;
    if (age_us >= MICROSECONDS_PER_SECOND) {
        pace->accepted_before = pace->accepted / SECONDS(age_us);
        pace->accepted = 0;
        pace->counted_us = now_us;
    }
}

/* What the service takes, as far as the last second or two can tell. */
static double measured(const struct pace *pace, int64_t now_us)
{
    double age = SECONDS(now_us - pace->counted_us);
    double now = age >= 0.2 ? pace->accepted / age : pace->accepted;
    return now > pace->accepted_before ? now : pace->accepted_before;
}

void pace_accepted(struct pace *pace, int64_t now_us)
{
    count(pace, now_us);
    pace->accepted += 1;
    if (pace->window < (double)pace->window_most) {
        pace->window += 1 / pace->window;
    }
}

void pace_throttled(struct pace *pace, int64_t now_us)
{
    pass_time(pace, now_us);
    count(pace, now_us);
    pace->throttled_us = now_us;
    if (now_us - pace->cut_us < PACE_CUT_EVERY_US) {
        return;
    }
    double accepted = measured(pace, now_us);
    double rate = pace->rate * PACE_CUT;
    if (pace->rate <= 0) {
        /* Refusals are answered faster than starts: what was accepted so far says little yet. */
        rate = accepted > (double)pace->window_most ? accepted : (double)pace->window_most;
    } else if (accepted < rate) {
        rate = accepted > pace->rate / 2 ? accepted : pace->rate / 2;
    }
    pace->rate = rate > PACE_RATE_LEAST ? rate : PACE_RATE_LEAST;
    pace->tokens = 0;
    pace->cut_us = now_us;
}

void pace_timed_out(struct pace *pace, int64_t now_us)
{
    if (now_us - pace->shrunk_us >= PACE_CUT_EVERY_US) {
        pace->window = pace->window / 2 > 1 ? pace->window / 2 : 1;
        pace->shrunk_us = now_us;
    }
}
