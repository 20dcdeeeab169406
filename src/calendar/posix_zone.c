/* Rules of time zones in the form of POSIX.
 *
 * The text is read once: name, offset, and for summer time another name, perhaps an offset, and two days of the year with a
 * time. The days are kept as they are written. The changes of a year are computed when they are wanted: a rule holds for
 * ever, so there is no table that could end. A change may lie outside of its year, because its time reaches from -167 to
 * 167 hours, so each search looks at the years beside as well.
 */
#include "calendar/posix_zone.h"

#include "base/clock.h"
#include "base/error.h"

enum {
    MINUTE = 60,
    HOUR = 60 * MINUTE,
    DAY = 24 * HOUR,
    DAYS_PER_WEEK = 7,
    CHANGE_TIME_DEFAULT = 2 * HOUR,
    OFFSET_HOURS_MOST = 24,
    CHANGE_HOURS_MOST = 167,
    NAME_LENGTH_LEAST = 3
};

/* --- reading --- */

struct reader {
    const char *at;
    const char *end;
};

static bool take(struct reader *reader, char wanted)
{
    bool is_there = reader->at < reader->end && *reader->at == wanted;
    reader->at += is_there;
    return is_there;
}

static bool is_digit(const struct reader *reader)
{
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

static bool posix_is_letter(const struct reader *reader)
{
    return reader->at < reader->end &&
           ((*reader->at >= 'A' && *reader->at <= 'Z') || (*reader->at >= 'a' && *reader->at <= 'z'));
}

static bool posix_read_number(struct reader *reader, int least, int most, int *ret_number)
{
    int number = 0;
    if (!is_digit(reader)) {
        return false;
    }
    while (is_digit(reader) && number <= most) {
        number = number * 10 + (*reader->at++ - '0');
    }
    *ret_number = number;
    return number >= least && number <= most;
}

/* "CET", or "<+03>" for a name with other characters. */
static bool skip_name(struct reader *reader)
{
    const char *begin = reader->at;
    if (take(reader, '<')) {
        while (reader->at < reader->end && *reader->at != '>') {
            reader->at++;
        }
        return take(reader, '>');
    }
    while (posix_is_letter(reader)) {
        reader->at++;
    }
    return reader->at - begin >= NAME_LENGTH_LEAST;
}

/* [+-]hours[:minutes[:seconds]] */
static bool read_time(struct reader *reader, int hours_most, int32_t *ret_seconds)
{
    int sign = take(reader, '-') ? -1 : 1;
    int hours = 0;
    int minutes = 0;
    int seconds = 0;
    if (sign > 0) {
        (void)take(reader, '+');
    }
    bool is_right = posix_read_number(reader, 0, hours_most, &hours) &&
                    (!take(reader, ':') || (posix_read_number(reader, 0, 59, &minutes) &&
                                            (!take(reader, ':') || posix_read_number(reader, 0, 59, &seconds))));
    *ret_seconds = sign * (hours * HOUR + minutes * MINUTE + seconds);
    return is_right;
}

/* ",M3.5.0/2", ",J60", ",59" */
static bool posix_read_change(struct reader *reader, struct posix_change *ret_change)
{
    *ret_change = (struct posix_change){.time = CHANGE_TIME_DEFAULT};
    if (!take(reader, ',')) {
        return false;
    }
    bool is_right;
    if (take(reader, 'M')) {
        ret_change->kind = POSIX_DAY_OF_WEEK;
        is_right = posix_read_number(reader, 1, 12, &ret_change->month) && take(reader, '.') &&
                   posix_read_number(reader, 1, 5, &ret_change->week) && take(reader, '.') &&
                   posix_read_number(reader, 0, DAYS_PER_WEEK - 1, &ret_change->day);
    } else if (take(reader, 'J')) {
        ret_change->kind = POSIX_DAY_OF_YEAR_WITHOUT_LEAP;
        is_right = posix_read_number(reader, 1, 365, &ret_change->day);
    } else {
        ret_change->kind = POSIX_DAY_OF_YEAR;
        is_right = posix_read_number(reader, 0, 365, &ret_change->day);
    }
    return is_right && (!take(reader, '/') || read_time(reader, CHANGE_HOURS_MOST, &ret_change->time));
}

bool posix_zone_read(const char *text, size_t length, struct posix_zone *ret_zone)
{
    INVARIANT((text != NULL || length == 0) && ret_zone != NULL);
    struct reader reader = {.at = text, .end = text + length};
    int32_t west;
    *ret_zone = (struct posix_zone){.has_summer = false};
    if (length == 0 || !skip_name(&reader) || !read_time(&reader, OFFSET_HOURS_MOST, &west)) {
        return false;
    }
    ret_zone->standard = -west; /* POSIX counts to the west */
    if (reader.at == reader.end) {
        return true;
    }
    ret_zone->has_summer = true;
    ret_zone->summer = ret_zone->standard + HOUR;
    if (!skip_name(&reader)) {
        return false;
    }
    if (reader.at < reader.end && *reader.at != ',') {
        if (!read_time(&reader, OFFSET_HOURS_MOST, &west)) {
            return false;
        }
        ret_zone->summer = -west;
    }
    return posix_read_change(&reader, &ret_zone->summer_begins) && posix_read_change(&reader, &ret_zone->summer_ends) &&
           reader.at == reader.end;
}

/* --- the changes of a year --- */

static bool is_leap_year(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t floor_modulo(int64_t number, int64_t by)
{
    int64_t rest = number % by;
    return rest < 0 ? rest + by : rest;
}

/* Days since 1970. */
static int64_t day_of_change(const struct posix_change *change, int64_t year)
{
    if (change->kind == POSIX_DAY_OF_YEAR) {
        return days_from_date(year, 1, 1) + change->day;
    }
    if (change->kind == POSIX_DAY_OF_YEAR_WITHOUT_LEAP) {
        bool is_behind = change->day >= 60 && is_leap_year(year); /* 60 is the first of March */
        return days_from_date(year, 1, 1) + change->day - 1 + is_behind;
    }
    int64_t first = days_from_date(year, change->month, 1);
    int64_t next = change->month == 12 ? days_from_date(year + 1, 1, 1) : days_from_date(year, change->month + 1, 1);
    int64_t weekday = floor_modulo(first + 4, DAYS_PER_WEEK); /* 1970-01-01 was a Thursday */
    int64_t day = first + floor_modulo(change->day - weekday, DAYS_PER_WEEK) + (change->week - 1) * (int64_t)DAYS_PER_WEEK;
    return day < next ? day : day - DAYS_PER_WEEK;
}

static int64_t change_to_summer(const struct posix_zone *zone, int64_t year)
{
    return day_of_change(&zone->summer_begins, year) * DAY + zone->summer_begins.time - zone->standard;
}

static int64_t change_to_standard(const struct posix_zone *zone, int64_t year)
{
    return day_of_change(&zone->summer_ends, year) * DAY + zone->summer_ends.time - zone->summer;
}

static int64_t year_of(int64_t time)
{
    int64_t year;
    int month;
    int day;
    date_from_days((time - floor_modulo(time, DAY)) / DAY, &year, &month, &day);
    return year;
}

/* The times of changes may lie up to a week outside of their year. Where both changes fall together, as in a zone that has
 * summer time all the year, summer goes on. */
int32_t posix_zone_offset(const struct posix_zone *zone, int64_t time)
{
    INVARIANT(zone != NULL);
    int64_t latest = INT64_MIN;
    bool is_summer = false;
    if (!zone->has_summer) {
        return zone->standard;
    }
    int64_t year = year_of(time);
    for (int64_t y = year - 2; y <= year + 1; y++) {
        int64_t ends = change_to_standard(zone, y);
        int64_t begins = change_to_summer(zone, y);
        if (ends <= time && ends >= latest) {
            latest = ends;
            is_summer = false;
        }
        if (begins <= time && begins >= latest) {
            latest = begins;
            is_summer = true;
        }
    }
    return is_summer ? zone->summer : zone->standard;
}

int64_t posix_zone_next_change(const struct posix_zone *zone, int64_t time)
{
    INVARIANT(zone != NULL);
    int64_t next = INT64_MAX;
    if (!zone->has_summer) {
        return next;
    }
    int64_t year = year_of(time);
    for (int64_t y = year - 1; y <= year + 2; y++) {
        const int64_t changes[] = {change_to_summer(zone, y), change_to_standard(zone, y)};
        for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
            next = changes[i] > time && changes[i] < next ? changes[i] : next;
        }
    }
    return next;
}
