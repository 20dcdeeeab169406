/* The times of the schedules of a fleet, as docs/schedules.md describes them: this file does not use calendar/.
 *
 * A fleet begins shortly before the clocks of Berlin change, in spring or in autumn. An expression without a star has fixed
 * times of day: those that the clocks skip make one time, at the change, and of two equal local times the first one counts.
 * An expression with a star goes on evenly. */
#include "simulation/simulation.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (3600 * SECOND_US)
#define SPRING_US (1774746000 * SECOND_US) /* 2026-03-29 01:00 UTC: from 2:00 to 3:00 */
#define AUTUMN_US (1792890000 * SECOND_US) /* 2026-10-25 01:00 UTC: from 3:00 to 2:00 */

enum { DAYS_MOST = 3, MINUTES_MOST = DAYS_MOST * 24 * 60, HOUR_OF_CHANGE = 2 };

struct expression {
    const char *cron;
    int hour;      /* -1 = each */
    bool has_star; /* as minute or hour */
    bool each_minute;
    int minutes[4];
    int minute_count;
};

static const struct expression expressions[EXPRESSIONS] = {
    {.cron = "* * * * *", .hour = -1, .has_star = true, .each_minute = true},
    {.cron = "30 2 * * *", .hour = 2, .minutes = {30}, .minute_count = 1},
    {.cron = "* 2 * * *", .hour = 2, .has_star = true, .each_minute = true},
    {.cron = "0,1,58,59 2 * * *", .hour = 2, .minutes = {0, 1, 58, 59}, .minute_count = 4},
    {.cron = "0,1 3 * * *", .hour = 3, .minutes = {0, 1}, .minute_count = 2},
    {.cron = "0,59 * * * *", .hour = -1, .has_star = true, .minutes = {0, 59}, .minute_count = 2},
};

const char *expression_text(int expression)
{
    INVARIANT(expression >= 0 && expression < EXPRESSIONS);
    return expressions[expression].cron;
}

int64_t season_change_us(enum season season)
{
    return season == SEASON_AUTUMN ? AUTUMN_US : SPRING_US;
}

static int64_t local_of(int64_t at_us)
{
    bool is_summer = at_us >= SPRING_US && at_us < AUTUMN_US;
    return at_us + (is_summer ? 2 : 1) * HOUR_US;
}

static bool matches(const struct expression *expression, int hour, int minute)
{
    bool is_minute = expression->each_minute;
    for (int i = 0; i < expression->minute_count; i++) {
        is_minute = is_minute || expression->minutes[i] == minute;
    }
    return is_minute && (expression->hour < 0 || expression->hour == hour);
}

/* `at_us` is a whole minute. */
static bool is_time(const struct expression *expression, int64_t at_us)
{
    int hour = (int)(local_of(at_us) / HOUR_US % 24);
    int minute = (int)(local_of(at_us) / MINUTE_US % 60);
    bool is_match = matches(expression, hour, minute);
    if (expression->has_star) {
        return is_match;
    }
    for (int skipped = 0; at_us == SPRING_US && skipped < 60; skipped++) {
        is_match = is_match || matches(expression, HOUR_OF_CHANGE, skipped);
    }
    bool is_repeated = at_us >= AUTUMN_US && at_us < AUTUMN_US + HOUR_US;
    return is_match && !is_repeated;
}

int64_t schedule_time_from(const struct model_schedule *schedule, int64_t from_us)
{
    if (schedule->every_us > 0) {
        return (from_us + schedule->every_us - 1) / schedule->every_us * schedule->every_us;
    }
    int64_t at_us = (from_us + MINUTE_US - 1) / MINUTE_US * MINUTE_US;
    for (int i = 0; i < MINUTES_MOST; i++, at_us += MINUTE_US) {
        if (is_time(&expressions[schedule->expression], at_us)) {
            return at_us;
        }
    }
    return TIME_NEVER;
}
