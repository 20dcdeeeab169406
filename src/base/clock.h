/* Time, passed in.
 *
 * No rule and no store reads the machine's clock by itself: it is given a struct clock. The real one is clock_system();
 * the simulation gives each node its own, wrong on purpose. All times are int64_t microseconds.
 */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#define MICROSECONDS_PER_MS ((int64_t)1000)
#define MICROSECONDS_PER_SECOND ((int64_t)1000000)
/* "No such time": later than every time. */
#define TIME_NEVER INT64_MAX

struct clock {
    /* Since 1970-01-01T00:00:00Z; may jump in both directions. For people, never for a decision. */
    int64_t (*wall_us)(void *context);
    /* Since the machine started, sleeping included; never goes back. For leases, deadlines and durations. */
    int64_t (*boot_us)(void *context);
    void *context;
    /* Of a simulated clock: which start of the simulated machine boot_us counts from. NULL = its only one. */
    const char *boot_id;
};

/* The clocks of this machine: CLOCK_REALTIME and CLOCK_BOOTTIME. Static, never freed. */
const struct clock *clock_system(void);

static inline int64_t clock_wall(const struct clock *clock)
{
    return clock->wall_us(clock->context);
}

static inline int64_t clock_boot(const struct clock *clock)
{
    return clock->boot_us(clock->context);
}

static inline int64_t time_earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static inline int64_t time_later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* Adds without overflow; TIME_NEVER stays TIME_NEVER. `duration_us` may be negative. */
int64_t time_add(int64_t time_us, int64_t duration_us);
/* A duration as poll() and epoll_wait() take it: not shorter than it is, 0 when it is negative, and INT_MAX (24 days)
 * at most. A plain cast of a longer one would give any other duration, or a wait for ever. */
int time_to_poll_ms(int64_t duration_us);

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar: month 1 to 12, day 1 to 31. */
int64_t days_from_date(int64_t year, int month, int day);
/* The inverse. */
void date_from_days(int64_t days, int64_t *year, int *month, int *day);

enum { TIME_TEXT_MAX = 48, DURATION_TEXT_MAX = 32 };

/* "2026-11-21T04:07:42.123456Z"; always UTC, microseconds. `to` holds TIME_TEXT_MAX bytes. */
void time_format(int64_t time_us, char *to);
/* Reads RFC 3339 ("2026-11-21T10:00:00Z", "...+01:00", fractions of a second, 't' or ' ' for 'T'), or "now", or a duration
 * from `now_us` ("+10m", "10m"). WEIR_INVALID_ARGUMENT gives the form of a time. */
WEIR_MUST_CHECK enum weir_status time_parse(const char *text, int64_t now_us, int64_t *ret_time_us,
                                            struct weir_error *error);
/* "1h30m", "250ms", "10s", "2d", "0"; parts in falling order of ms s m h d w. No sign, no bare number other than 0. */
WEIR_MUST_CHECK enum weir_status duration_parse(const char *text, int64_t *ret_duration_us, struct weir_error *error);
/* The shortest exact text ("1h30m"), down to the millisecond; smaller parts are cut. `to` holds DURATION_TEXT_MAX bytes. */
void duration_format(int64_t duration_us, char *to);
/* For tables: two significant parts at most, as "1.9s", "42s", "3m12s", "2h05m", "5d". */
void duration_format_short(int64_t duration_us, char *to);

#endif
