/* When a schedule is due: the times of a cron expression in a time zone, or even steps, from one time until another.
 *
 * Even steps are counted from `from_us`, or without it from 1970-01-01 UTC, so "every 15 minutes" is at :00, :15, :30 and
 * :45 whenever the schedule was made. Changed clocks do not move them. All times are microseconds since 1970-01-01 UTC.
 *
 * Threads: any, the functions are pure but for recurrence_open(), which reads the file of the time zone.
 */
#ifndef WEIR_CALENDAR_RECURRENCE_H
#define WEIR_CALENDAR_RECURRENCE_H

#include "base/clock.h"
#include "calendar/cron.h"
#include "calendar/time_zone.h"

#define RECURRENCE_EVERY_LEAST_US (1 * MICROSECONDS_PER_SECOND)
#define RECURRENCE_EVERY_MOST_US (3650 * 86400 * MICROSECONDS_PER_SECOND)

/* As users write it. Exactly one of cron and every_us. */
struct recurrence_text {
    const char *cron; /* NULL = even steps */
    int64_t every_us; /* whole seconds; 0 = cron */
    const char *zone; /* of cron; NULL = "UTC" */
    int64_t from_us;  /* the first time that counts; 0 = no limit */
    int64_t until_us; /* the last one; 0 = no limit */
};

struct recurrence {
    bool is_cron;
    struct cron cron;
    struct time_zone *zone;
    int64_t every_us;
    int64_t from_us;
    int64_t until_us;
};

/* WEIR_INVALID_ARGUMENT names what is wrong. Afterwards: recurrence_close(). */
WEIR_MUST_CHECK enum weir_status recurrence_open(const struct recurrence_text *text, struct recurrence *ret_recurrence,
                                                 struct weir_error *error);
/* Takes a zeroed struct. */
void recurrence_close(struct recurrence *recurrence);

/* The first time after `after_us`; TIME_NEVER = none. */
int64_t recurrence_next(const struct recurrence *recurrence, int64_t after_us);
/* The shortest time between two times, whatever limits the recurrence has and while the clocks do not change; TIME_NEVER:
 * it is longer than a day. */
int64_t recurrence_least_gap(const struct recurrence *recurrence);
/* Passes over the times from `first_us`, which is one, that lie before `before_us`, at most `most` of them. Returns the
 * time behind them, or TIME_NEVER; *ret_passed is their number. */
int64_t recurrence_pass(const struct recurrence *recurrence, int64_t first_us, int64_t before_us, int64_t most,
                        int64_t *ret_passed);

/* "2040-03-25T03:00:00+02:00": in the zone of the expression, without parts of seconds; UTC for even steps. Not for
 * TIME_NEVER. `to` holds TIME_TEXT_MAX bytes. */
void recurrence_format_local(const struct recurrence *recurrence, int64_t time_us, char *to);

#endif
