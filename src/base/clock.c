/* The clocks of the machine, and times and durations as text. Pure but for the two clocks; any thread.
 *
 *   wall clock   may jump; for people alone
 *   boot clock   never goes back and counts during sleep; for leases, deadlines and durations
 *
 * Calendar dates are computed, not taken from the C library: its functions depend on the time zone and the locale. Years
 * are counted from March, so that the leap day is the last of its year (days_from_date()). Sums saturate at TIME_NEVER: a
 * deadline never wraps around into the past. Parsers accept only exact values, and the hint of an error shows the form.
 */
#include "base/clock.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"

#define SECOND MICROSECONDS_PER_SECOND
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define WEEK (7 * DAY)

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0) {
        return 0;
    }
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec / 1000;
}

static int64_t system_wall_us(void *context)
{
    (void)context;
    return read_clock(CLOCK_REALTIME);
}

static int64_t system_boot_us(void *context)
{
    (void)context;
    return read_clock(CLOCK_BOOTTIME);
}

const struct clock *clock_system(void)
{
    static const struct clock system = {.wall_us = system_wall_us, .boot_us = system_boot_us};
    return &system;
}

int64_t time_add(int64_t time_us, int64_t duration_us)
{
    int64_t sum;
    if (time_us == TIME_NEVER || __builtin_add_overflow(time_us, duration_us, &sum)) {
        return duration_us < 0 && time_us != TIME_NEVER ? INT64_MIN : TIME_NEVER;
    }
    return sum;
}

int time_to_poll_ms(int64_t duration_us)
{
    int64_t ms = duration_us / MICROSECONDS_PER_MS + (duration_us % MICROSECONDS_PER_MS > 0);
    return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

int64_t days_from_date(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

void date_from_days(int64_t days, int64_t *year, int *month, int *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month_from_march = (int)((5 * day_of_year + 2) / 153);
    *day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    *year = year_of_era + era * 400 + (*month <= 2 ? 1 : 0);
}

void time_format(int64_t time_us, char *to)
{
    int64_t days = time_us / DAY;
    int64_t rest = time_us % DAY;
    if (rest < 0) {
        rest += DAY;
        days -= 1;
    }
    int64_t year;
    int month;
    int day;
    date_from_days(days, &year, &month, &day);
    (void)snprintf(to, TIME_TEXT_MAX, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d.%06dZ", year, month, day, (int)(rest / HOUR),
                   (int)(rest / MINUTE % 60), (int)(rest / SECOND % 60), (int)(rest % SECOND));
}

/* Reads exactly `digits` digits; returns the place after them, or NULL. */
static const char *read_digits(const char *at, int digits, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < digits; i++) {
        if (at == NULL || at[i] < '0' || at[i] > '9') {
            return NULL;
        }
        value = value * 10 + (at[i] - '0');
    }
    *ret_value = value;
    return at + digits;
}

/* Also passes a NULL of a former step on, so that one check at the end is enough. */
static const char *skip_one_of(const char *at, const char *one_of)
{
    return at != NULL && *at != '\0' && strchr(one_of, *at) != NULL ? at + 1 : NULL;
}

static const char *read_fraction(const char *at, int64_t *ret_us)
{
    int64_t us = 0;
    int64_t unit = SECOND / 10;
    const char *start = at;
    while (*at >= '0' && *at <= '9') {
        us += (*at - '0') * unit;
        unit /= 10;
        at++;
    }
    *ret_us = us;
    return at > start ? at : NULL;
}

static const char *read_zone(const char *at, int64_t *ret_offset_us)
{
    if (at != NULL && (*at == 'Z' || *at == 'z')) {
        *ret_offset_us = 0;
        return at + 1;
    }
    int sign = at != NULL && *at == '-' ? -1 : 1;
    int hours;
    int minutes;
    at = read_digits(skip_one_of(at, "+-"), 2, &hours);
    at = read_digits(skip_one_of(at, ":"), 2, &minutes);
    if (at == NULL || hours > 23 || minutes > 59) {
        return NULL;
    }
    *ret_offset_us = sign * (hours * HOUR + minutes * MINUTE);
    return at;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static bool read_rfc3339(const char *text, int64_t *ret_time_us)
{
    int year = 0;
    int month = 0;
    int day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
    int64_t fraction_us = 0;
    int64_t offset_us = 0;
    const char *at = read_digits(text, 4, &year);
    at = read_digits(skip_one_of(at, "-"), 2, &month);
    at = read_digits(skip_one_of(at, "-"), 2, &day);
    at = read_digits(skip_one_of(at, "Tt "), 2, &hour);
    at = read_digits(skip_one_of(at, ":"), 2, &minute);
    at = read_digits(skip_one_of(at, ":"), 2, &second);
    if (at != NULL && *at == '.') {
        at = read_fraction(at + 1, &fraction_us);
    }
    at = read_zone(at, &offset_us);
    if (at == NULL || *at != '\0' || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 60) {
        return false;
    }
    *ret_time_us =
        days_from_date(year, month, day) * DAY + hour * HOUR + minute * MINUTE + second * SECOND + fraction_us - offset_us;
    return true;
}

enum weir_status time_parse(const char *text, int64_t now_us, int64_t *ret_time_us, struct weir_error *error)
{
    if (strcmp(text, "now") == 0) {
        *ret_time_us = now_us;
        return WEIR_OK;
    }
    int64_t duration_us;
    if (duration_parse(text[0] == '+' ? text + 1 : text, &duration_us, NULL) == WEIR_OK) {
        *ret_time_us = time_add(now_us, duration_us);
        return WEIR_OK;
    }
    if (read_rfc3339(text, ret_time_us)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a time", text);
    error_hint(error,
               "a time looks like 2026-11-21T10:00:00Z or 2026-11-21T10:00:00+01:00; +10m means ten minutes from now");
    return WEIR_INVALID_ARGUMENT;
}

static const struct duration_unit {
    const char *name;
    int64_t us;
} duration_units[] = {{"w", WEEK}, {"d", DAY}, {"h", HOUR}, {"m", MINUTE}, {"s", SECOND}, {"ms", MICROSECONDS_PER_MS}};

enum { DURATION_UNITS = sizeof duration_units / sizeof duration_units[0] };

static size_t read_unit(const char *at, size_t *ret_index)
{
    size_t length = 0;
    while (at[length] >= 'a' && at[length] <= 'z') {
        length++;
    }
    for (size_t i = 0; i < DURATION_UNITS; i++) {
        if (strlen(duration_units[i].name) == length && memcmp(duration_units[i].name, at, length) == 0) {
            *ret_index = i;
            return length;
        }
    }
    return 0;
}

/* Units must fall: "1h30m", never "30m1h" or "1m1m". */
static bool scan_duration(const char *at, int64_t *ret_us)
{
    int64_t total = 0;
    size_t next_unit = 0;
    if (strcmp(at, "0") == 0) {
        *ret_us = 0;
        return true;
    }
    do {
        int64_t value = 0;
        const char *start = at;
        for (; *at >= '0' && *at <= '9'; at++) {
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at - '0', &value)) {
                return false;
            }
        }
        size_t unit = 0;
        size_t length = at > start ? read_unit(at, &unit) : 0;
        if (length == 0 || unit < next_unit || __builtin_mul_overflow(value, duration_units[unit].us, &value) ||
            __builtin_add_overflow(total, value, &total)) {
            return false;
        }
        next_unit = unit + 1;
        at += length;
    } while (*at != '\0');
    *ret_us = total;
    return true;
}

enum weir_status duration_parse(const char *text, int64_t *ret_duration_us, struct weir_error *error)
{
    if (scan_duration(text, ret_duration_us)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a duration", text);
    error_hint(error, "a duration looks like 250ms, 10s, 1h30m or 2d");
    return WEIR_INVALID_ARGUMENT;
}

void duration_format(int64_t duration_us, char *to)
{
    size_t used = 0;
    int64_t rest = duration_us < 0 ? 0 : duration_us;
    to[0] = '0';
    to[1] = '\0';
    for (size_t i = 1; i < DURATION_UNITS; i++) { /* days are the largest part: "14d" reads better than "2w" */
        int64_t count = rest / duration_units[i].us;
        rest %= duration_units[i].us;
        if (count > 0 && used < DURATION_TEXT_MAX) {
            used += (size_t)snprintf(to + used, DURATION_TEXT_MAX - used, "%" PRId64 "%s", count, duration_units[i].name);
        }
    }
}

void duration_format_short(int64_t duration_us, char *to)
{
    int64_t us = duration_us < 0 ? 0 : duration_us;
    if (us < SECOND) {
        (void)snprintf(to, DURATION_TEXT_MAX, "%" PRId64 "ms", us / MICROSECONDS_PER_MS);
    } else if (us < 10 * SECOND) {
        (void)snprintf(to, DURATION_TEXT_MAX, "%" PRId64 ".%" PRId64 "s", us / SECOND, us % SECOND / (SECOND / 10));
    } else if (us < MINUTE) {
        (void)snprintf(to, DURATION_TEXT_MAX, "%" PRId64 "s", us / SECOND);
    } else if (us < HOUR) {
        (void)snprintf(to, DURATION_TEXT_MAX, "%" PRId64 "m%02ds", us / MINUTE, (int)(us % MINUTE / SECOND));
    } else if (us < DAY) {
        (void)snprintf(to, DURATION_TEXT_MAX, "%" PRId64 "h%02dm", us / HOUR, (int)(us % HOUR / MINUTE));
    } else {
        (void)snprintf(to, DURATION_TEXT_MAX, "%" PRId64 "d", us / DAY);
    }
}
