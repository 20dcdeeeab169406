/* Reads expressions of cron and finds the times that fit them.
 *
 * A search goes from one change of the clocks to the next. Between two of them local time is UTC with one offset, and days
 * that do not fit are passed over as a whole. An expression with a fixed time of day also looks at the local times that a
 * change skips, and passes over those that it repeats.
 */
#include "calendar/cron.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, DAYS_PER_WEEK = 7, NAME_LENGTH = 3 };
/* A 29 February comes again after eight years at the latest. */
#define SEARCH_SECONDS_MOST ((int64_t)9 * 366 * DAY)
/* Clocks were set by up to a day. A search begins before the last change that may matter. */
enum { CHANGE_REACH = 2 * DAY };
static const int64_t year_10000 = INT64_C(253402300800);

/* --- reading --- */

struct field {
    const char *name;
    int least;
    int most;
    int values;               /* different ones, the longest step */
    const char *const *names; /* of `least` and the following; ends with NULL */
};

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

enum { FIELD_MINUTE, FIELD_HOUR, FIELD_DAY, FIELD_MONTH, FIELD_WEEKDAY, FIELD_COUNT };
static const struct field fields[FIELD_COUNT] = {
    [FIELD_MINUTE] = {.name = "minute", .least = 0, .most = 59, .values = 60},
    [FIELD_HOUR] = {.name = "hour", .least = 0, .most = 23, .values = 24},
    [FIELD_DAY] = {.name = "day of the month", .least = 1, .most = 31, .values = 31},
    [FIELD_MONTH] = {.name = "month", .least = 1, .most = 12, .values = 12, .names = month_names},
    [FIELD_WEEKDAY] = {.name = "day of the week", .least = 0, .most = 7, .values = 7, .names = weekday_names},
};

static const char reason_backward[] = "ends before it begins";
static const char reason_long_step[] = "has a step longer than the field";

/* One element of a list. Without an end, a step reaches to the end of the field. */
struct element {
    int first;
    int last;
    int step;
};

/* A name like "monday": more letters in a row than a name has. */
static bool has_long_name(const char *text)
{
    size_t letters = 0;
    for (; *text != '\0' && letters <= NAME_LENGTH; text++) {
        bool is_letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
        letters = is_letter ? letters + 1 : 0;
    }
    return letters > NAME_LENGTH;
}

/* A notation of another program that cron lacks has a hint of its own. */
static const char *field_hint(const struct field *field, const char *text, const char *reason)
{
    if (reason == reason_backward) {
        return field == &fields[FIELD_WEEKDAY]
                   ? "a range goes up, and Sunday is 0 or 7: for sat-sun write 6-7, for fri-mon write fri,sat,sun,mon"
                   : "a range goes up; for one beyond the end write two: 22-23,0-5";
    }
    if (reason == reason_long_step) {
        return "a step counts within its field; for other intervals use --every, like --every 90m";
    }
    if (field->names != NULL && has_long_name(text)) {
        return "names have three letters: jan, feb; mon, tue";
    }
    if ((field == &fields[FIELD_DAY] && strpbrk(text, "LW?") != NULL) ||
        (field == &fields[FIELD_WEEKDAY] && strpbrk(text, "L#?") != NULL)) {
        return "L, W, # and ? are not supported; write * for any day, and the numbers of days otherwise";
    }
    return "the fields are minute hour day month weekday, like `30 4 * * mon-fri` or `*/15 * * * *`";
}

static enum weir_status refuse_field(const struct field *field, const char *text, const char *reason,
                                     struct weir_error *error)
{
    (void)error_set(error, WEIR_INVALID_ARGUMENT, "the %s \"%s\" of the cron expression %s", field->name, text, reason);
    error_hint(error, "%s", field_hint(field, text, reason));
    return WEIR_INVALID_ARGUMENT;
}

/* count: of the fields, as split() returns it. */
static enum weir_status refuse_expression(const char *text, int count, struct weir_error *error)
{
    const char *hint = "it has five fields: minute hour day month weekday, like `30 4 * * mon-fri`; or it is @hourly, "
                       "@daily, @weekly, @monthly or @yearly";
    if (strncasecmp(text, "@every", 6) == 0) {
        hint = "an interval is given by --every, like --every 5m, and not as a cron expression";
    } else if (strncmp(text, "CRON_TZ=", 8) == 0 || strncmp(text, "TZ=", 3) == 0) {
        hint = "the time zone is given by --zone, like --zone Europe/Berlin";
    } else if (count > FIELD_COUNT) {
        hint = "it has five fields: minute hour day month weekday; there is none for seconds or years, but --every 10s "
               "has seconds";
    }
    (void)error_set(error, WEIR_INVALID_ARGUMENT, "\"%.*s\" is not a cron expression", CRON_TEXT_MAX, text);
    error_hint(error, "%s", hint);
    return WEIR_INVALID_ARGUMENT;
}

/* A number of at most three digits. NULL: there is none. */
static const char *cron_read_number(const char *at, int *ret_number)
{
    int digits = 0;
    *ret_number = 0;
    while (at[digits] >= '0' && at[digits] <= '9' && digits < 4) {
        *ret_number = *ret_number * 10 + (at[digits] - '0');
        digits++;
    }
    return digits == 0 || digits > 3 ? NULL : at + digits;
}

/* A number or a name. NULL: neither. */
static const char *read_value(const struct field *field, const char *at, int *ret_value)
{
    for (int i = 0; field->names != NULL && field->names[i] != NULL; i++) {
        if (strncasecmp(at, field->names[i], NAME_LENGTH) == 0) {
            *ret_value = field->least + i;
            return at + NAME_LENGTH;
        }
    }
    return cron_read_number(at, ret_value);
}

/* NULL, or the reason why the element is refused. */
static const char *read_element(const struct field *field, const char *at, struct element *ret_element)
{
    bool has_end = true;
    *ret_element = (struct element){.first = field->least, .last = field->most, .step = 1};
    if (*at == '*') {
        at++;
    } else {
        at = read_value(field, at, &ret_element->first);
        has_end = at != NULL && *at == '-';
        if (has_end) {
            at = read_value(field, at + 1, &ret_element->last);
        }
    }
    bool has_step = at != NULL && *at == '/';
    if (has_step) {
        at = cron_read_number(at + 1, &ret_element->step);
    }
    if (at == NULL || *at != '\0') {
        return "cannot be read";
    }
    if (!has_end && !has_step) {
        ret_element->last = ret_element->first;
    }
    if (ret_element->first < field->least || ret_element->first > field->most || ret_element->last > field->most) {
        return "is out of range";
    }
    if (ret_element->last < ret_element->first) {
        return reason_backward;
    }
    if (ret_element->step > field->values) {
        return reason_long_step;
    }
    return ret_element->step == 0 ? "has the step 0" : NULL;
}

/* `*ret_is_whole`: an element is `*`, with or without a step. */
static enum weir_status read_field(const struct field *field, char *text, uint64_t *ret_values, bool *ret_is_whole,
                                   struct weir_error *error)
{
    char whole[CRON_TEXT_MAX + 1];
    char *rest = text;
    text_copy(whole, sizeof whole, text);
    *ret_values = 0;
    *ret_is_whole = false;
    while (rest != NULL) {
        const char *item = strsep(&rest, ",");
        struct element element;
        const char *reason = read_element(field, item, &element);
        if (reason != NULL) {
            return refuse_field(field, whole, reason, error);
        }
        for (int value = element.first; value <= element.last; value += element.step) {
            *ret_values |= UINT64_C(1) << value;
        }
        *ret_is_whole = *ret_is_whole || item[0] == '*';
    }
    return WEIR_OK;
}

static const char *find_alias(const char *text)
{
    static const char *const aliases[][2] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
        {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (strcasecmp(text, aliases[i][0]) == 0) {
            return aliases[i][1];
        }
    }
    return NULL;
}

#define ALL_DAYS UINT32_C(0xfffffffe)
#define ALL_WEEKDAYS UINT32_C(0x7f)

/* When days and weekdays are both limited, one of them is enough, as in POSIX crontab. A list of all values is no limit,
 * and a star with a step is one. The cron of Debian differs: there both must fit when a field begins with a star. */
static bool limits_days(const struct cron *cron)
{
    return cron->days != ALL_DAYS;
}

static bool limits_weekdays(const struct cron *cron)
{
    return cron->weekdays != ALL_WEEKDAYS;
}

/* "0 0 30 2 *" is no day of any year. */
static bool has_a_day(const struct cron *cron)
{
    static const int lengths[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (int month = 1; month <= 12; month++) {
        uint32_t fitting = (uint32_t)(UINT64_C(1) << (lengths[month - 1] + 1)) - 1;
        if ((cron->months >> month & 1) != 0 && (cron->days & fitting) != 0) {
            return true;
        }
    }
    return limits_weekdays(cron);
}

/* Splits at spaces and tabs. The number of fields, FIELD_COUNT + 1 = more. */
static int split(char *text, char **ret_parts)
{
    int count = 0;
    char *rest = text;
    while (rest != NULL && count <= FIELD_COUNT) {
        char *part = strsep(&rest, " \t");
        if (part[0] != '\0') {
            if (count < FIELD_COUNT) {
                ret_parts[count] = part;
            }
            count++;
        }
    }
    return count;
}

enum weir_status cron_read(const char *text, struct cron *ret_cron, struct weir_error *error)
{
    INVARIANT(text != NULL && ret_cron != NULL);
    char copy[CRON_TEXT_MAX + 1];
    char *parts[FIELD_COUNT];
    uint64_t values[FIELD_COUNT];
    bool is_whole[FIELD_COUNT];
    const char *alias = find_alias(text);
    text_copy(copy, sizeof copy, alias == NULL ? text : alias);
    int count = split(copy, parts);
    if (strlen(text) > CRON_TEXT_MAX || count != FIELD_COUNT) {
        return refuse_expression(text, count, error);
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        enum weir_status status = read_field(&fields[i], parts[i], &values[i], &is_whole[i], error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    uint64_t sunday = values[FIELD_WEEKDAY] >> DAYS_PER_WEEK & 1;
    *ret_cron = (struct cron){.minutes = values[FIELD_MINUTE],
                              .hours = (uint32_t)values[FIELD_HOUR],
                              .days = (uint32_t)values[FIELD_DAY],
                              .months = (uint32_t)values[FIELD_MONTH],
                              .weekdays = (uint32_t)((values[FIELD_WEEKDAY] | sunday) & ALL_WEEKDAYS),
                              .is_even = is_whole[FIELD_MINUTE] || is_whole[FIELD_HOUR]};
    if (!has_a_day(ret_cron)) {
        return refuse_field(&fields[FIELD_DAY], text, "is a day that no year has", error);
    }
    return WEIR_OK;
}

/* --- searching --- */

/* `day` since 1970. */
static bool fits_day(const struct cron *cron, int64_t day)
{
    int64_t year;
    int month;
    int of_month;
    date_from_days(day, &year, &month, &of_month);
    if ((cron->months >> month & 1) == 0) {
        return false;
    }
    int64_t weekday = (day % DAYS_PER_WEEK + DAYS_PER_WEEK + 4) % DAYS_PER_WEEK; /* 1970-01-01 was a Thursday */
    bool fits = (cron->days >> of_month & 1) != 0;
    bool fits_weekday = (cron->weekdays >> weekday & 1) != 0;
    return limits_days(cron) && limits_weekdays(cron) ? fits || fits_weekday : fits && fits_weekday;
}

/* The first fitting second of a day from `from` on; DAY = none. */
static int64_t first_of_day(const struct cron *cron, int64_t from)
{
    for (int64_t hour = from / HOUR; hour < 24; hour++) {
        int64_t minute = hour == from / HOUR ? (from % HOUR + MINUTE - 1) / MINUTE : 0;
        for (; (cron->hours >> hour & 1) != 0 && minute < 60; minute++) {
            if ((cron->minutes >> minute & 1) != 0) {
                return hour * HOUR + minute * MINUTE;
            }
        }
    }
    return DAY;
}

/* The last fitting second of a day. */
static int64_t last_of_day(const struct cron *cron)
{
    int64_t last = first_of_day(cron, 0);
    for (int64_t next = last; next < DAY; next = first_of_day(cron, next + 1)) {
        last = next;
    }
    return last;
}

/* After 28 years days have the same weekdays again. */
static bool has_two_days_in_a_row(const struct cron *cron)
{
    enum { DAYS_OF_28_YEARS = 28 * 365 + 7 };
    for (int64_t day = 0; day < DAYS_OF_28_YEARS; day++) {
        if (fits_day(cron, day) && fits_day(cron, day + 1)) {
            return true;
        }
    }
    return false;
}

/* Two times of different days are more than a day apart, unless the days follow each other. */
int64_t cron_least_gap(const struct cron *cron)
{
    INVARIANT(cron != NULL);
    int64_t first = first_of_day(cron, 0);
    int64_t least = has_two_days_in_a_row(cron) ? DAY - last_of_day(cron) + first : INT64_MAX;
    int64_t before = first;
    for (int64_t at = first_of_day(cron, first + 1); at < DAY; at = first_of_day(cron, at + 1)) {
        least = time_earlier(least, at - before);
        before = at;
    }
    return least == INT64_MAX ? TIME_NEVER : least * MICROSECONDS_PER_SECOND;
}

/* The first fitting local time in [from, until); INT64_MAX = none. */
static int64_t first_local(const struct cron *cron, int64_t from, int64_t until)
{
    int64_t day = from >= 0 ? from / DAY : -((DAY - 1 - from) / DAY);
    for (; day * DAY < until; day++) {
        int64_t of_day = fits_day(cron, day) ? first_of_day(cron, from > day * DAY ? from - day * DAY : 0) : DAY;
        if (of_day < DAY) {
            return day * DAY + of_day < until ? day * DAY + of_day : INT64_MAX;
        }
    }
    return INT64_MAX;
}

/* A part of time with one offset. */
struct span {
    int64_t begin;
    int64_t end;
    int32_t offset;
    int64_t shown; /* the clocks have shown all local times before this one until `begin` */
};

/* The first time behind `after` in the span; INT64_MAX = none. */
static int64_t first_of_span(const struct cron *cron, const struct span *span, int64_t after)
{
    int64_t local_begin = span->begin + span->offset;
    int64_t from = time_later(local_begin, after + 1 + span->offset);
    if (!cron->is_even) {
        bool skips = first_local(cron, span->shown, local_begin) != INT64_MAX;
        if (skips && span->begin > after) {
            return span->begin;
        }
        from = time_later(from, span->shown);
    }
    int64_t local = first_local(cron, from, span->end + span->offset);
    return local == INT64_MAX ? INT64_MAX : local - span->offset;
}

int64_t cron_next(const struct cron *cron, const struct time_zone *zone, int64_t after_us)
{
    INVARIANT(cron != NULL && zone != NULL);
    int64_t after = after_us < 0 ? -1 : after_us / MICROSECONDS_PER_SECOND;
    int64_t limit = time_earlier(after, year_10000) + SEARCH_SECONDS_MOST;
    struct span span = {.begin = after - CHANGE_REACH};
    span.shown = span.begin + time_zone_offset(zone, span.begin);
    for (; span.begin < limit; span.begin = span.end) {
        span.offset = time_zone_offset(zone, span.begin);
        span.end = time_earlier(time_zone_next_change(zone, span.begin), limit);
        int64_t at = first_of_span(cron, &span, after);
        if (at != INT64_MAX) {
            return at >= year_10000 ? TIME_NEVER : at * MICROSECONDS_PER_SECOND;
        }
        span.shown = time_later(span.shown, span.end + span.offset);
    }
    return TIME_NEVER;
}
