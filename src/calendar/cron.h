/* Times of schedules as cron writes them: "30 4 * * mon-fri" in a time zone.
 *
 * Five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). A field is a list of values,
 * ranges and stars, each with or without a step (5-50/15; 5/15 is 5-59/15). Months and weekdays have names of three
 * letters. Also @hourly, @daily or @midnight, @weekly, @monthly, @yearly or @annually. When the day of the month and
 * the day of the week are both limited, a day that fits one of them is enough. A star with a step counts as a limit,
 * too.
 *
 * When the clocks change:
 *   - An expression with a fixed time of day fires once for each local time. Of two equal ones it takes the first. For
 *     those that are skipped it fires once, at the moment at which the clocks are set.
 *   - One with a star, with or without a step, as minute or hour goes on evenly: at both of two equal local times, and not
 *     for those that are skipped.
 *
 * Threads: any, the functions are pure. Source of the rules: POSIX crontab for fields, the crons of Debian for clocks.
 */
#ifndef WEIR_CALENDAR_CRON_H
#define WEIR_CALENDAR_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "calendar/time_zone.h"

enum { CRON_TEXT_MAX = 256 };

struct cron {
    uint64_t minutes; /* bit n: the value n */
    uint32_t hours;
    uint32_t days;
    uint32_t months;
    uint32_t weekdays; /* 0 = Sunday */
    bool is_even;      /* it goes on evenly when the clocks change */
};

/* WEIR_INVALID_ARGUMENT names the field and the reason, also for a day that no year has. */
WEIR_MUST_CHECK enum weir_status cron_read(const char *text, struct cron *ret_cron, struct weir_error *error);
/* The first time after `after_us`, microseconds since 1970-01-01 UTC; TIME_NEVER behind the year 9999. */
int64_t cron_next(const struct cron *cron, const struct time_zone *zone, int64_t after_us);
/* The shortest time between two times, microseconds, while the clocks do not change. TIME_NEVER: it is longer than a day.
 */
int64_t cron_least_gap(const struct cron *cron);

#endif
