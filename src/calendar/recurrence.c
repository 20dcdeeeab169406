/* Cron and even steps behind one function. The limits `from` and `until` are applied here, once for both. Nothing is kept
 * between calls, and no clock is read. */
#include "calendar/recurrence.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

static enum weir_status check_recurrence(const struct recurrence_text *text, struct weir_error *error)
{
    if ((text->cron == NULL) == (text->every_us == 0)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a schedule has either a cron expression or an interval");
        error_hint(error, "for example \"30 4 * * mon-fri\", or every 15m");
        return WEIR_INVALID_ARGUMENT;
    }
    if (text->cron == NULL && (text->every_us < RECURRENCE_EVERY_LEAST_US || text->every_us > RECURRENCE_EVERY_MOST_US ||
                               text->every_us % MICROSECONDS_PER_SECOND != 0)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the interval of a schedule is whole seconds, from 1s to 3650d");
        error_hint(error, "for example 15m");
        return WEIR_INVALID_ARGUMENT;
    }
    if (text->cron == NULL && text->zone != NULL) {
        error_set(error, WEIR_INVALID_ARGUMENT, "an interval has no time zone");
        error_hint(error, "leave the zone out, or use a cron expression");
        return WEIR_INVALID_ARGUMENT;
    }
    if (text->from_us < 0 || text->until_us < 0 || (text->until_us != 0 && text->until_us < text->from_us)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a schedule that ends before it begins has no times");
        error_hint(error, "give an end after its beginning");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

enum weir_status recurrence_open(const struct recurrence_text *text, struct recurrence *ret_recurrence,
                                 struct weir_error *error)
{
    INVARIANT(text != NULL && ret_recurrence != NULL);
    struct recurrence recurrence = {
        .is_cron = text->cron != NULL, .every_us = text->every_us, .from_us = text->from_us, .until_us = text->until_us};
    enum weir_status status = check_recurrence(text, error);
    if (status == WEIR_OK && recurrence.is_cron) {
        status = cron_read(text->cron, &recurrence.cron, error);
    }
    if (status == WEIR_OK && recurrence.is_cron) {
        status = time_zone_open(text->zone == NULL ? "UTC" : text->zone, &recurrence.zone, error);
    }
    if (status == WEIR_OK) {
        *ret_recurrence = recurrence;
    }
    return status;
}

void recurrence_close(struct recurrence *recurrence)
{
    INVARIANT(recurrence != NULL);
    time_zone_close(recurrence->zone);
    recurrence->zone = NULL;
}

/* Steps are counted from `from_us`; without it that is 1970. `after_us` is not before it. */
static int64_t next_step(const struct recurrence *recurrence, int64_t after_us)
{
    int64_t steps = (after_us - recurrence->from_us) / recurrence->every_us + 1;
    return time_add(recurrence->from_us, steps * recurrence->every_us);
}

int64_t recurrence_next(const struct recurrence *recurrence, int64_t after_us)
{
    INVARIANT(recurrence != NULL);
    int64_t next_us;
    if (after_us < recurrence->from_us) {
        after_us = recurrence->from_us - 1; /* the beginning counts */
    }
    if (recurrence->is_cron) {
        next_us = cron_next(&recurrence->cron, recurrence->zone, after_us);
    } else {
        next_us = after_us < recurrence->from_us ? recurrence->from_us : next_step(recurrence, after_us);
    }
    return recurrence->until_us != 0 && next_us > recurrence->until_us ? TIME_NEVER : next_us;
}

int64_t recurrence_least_gap(const struct recurrence *recurrence)
{
    INVARIANT(recurrence != NULL);
    return recurrence->is_cron ? cron_least_gap(&recurrence->cron) : recurrence->every_us;
}

/* Even steps are counted by division, because after a long outage there may be millions of them. */
int64_t recurrence_pass(const struct recurrence *recurrence, int64_t first_us, int64_t before_us, int64_t most,
                        int64_t *ret_passed)
{
    INVARIANT(recurrence != NULL && ret_passed != NULL && most >= 0);
    int64_t passed = 0;
    int64_t at_us = first_us;
    if (!recurrence->is_cron && at_us < before_us) {
        passed = (before_us - 1 - at_us) / recurrence->every_us; /* the last one is passed below, with the limits */
        passed = passed < most ? passed : most;
        at_us += passed * recurrence->every_us;
        if (recurrence->until_us != 0 && at_us > recurrence->until_us) {
            passed -= (at_us - recurrence->until_us - 1) / recurrence->every_us + 1;
            passed = passed < 0 ? 0 : passed;
            at_us = first_us + passed * recurrence->every_us;
        }
    }
    while (at_us < before_us && passed < most) {
        at_us = recurrence_next(recurrence, at_us);
        passed++;
    }
    *ret_passed = passed;
    return at_us;
}

/* The offsets of a few zones before 1972 have seconds, which RFC 3339 cannot show. They are cut from the offset and from
 * the time, so that the text stands for the same moment. */
void recurrence_format_local(const struct recurrence *recurrence, int64_t time_us, char *to)
{
    INVARIANT(recurrence != NULL && to != NULL && time_us != TIME_NEVER);
    enum { SECONDS_LENGTH = sizeof "2040-03-25T03:00:00" - 1 };
    int minutes = recurrence->is_cron ? time_zone_offset(recurrence->zone, time_us / MICROSECONDS_PER_SECOND) / 60 : 0;
    char text[TIME_TEXT_MAX];
    time_format(time_add(time_us, minutes * 60 * MICROSECONDS_PER_SECOND), text);
    (void)snprintf(to, TIME_TEXT_MAX, "%.*s%c%02d:%02d", SECONDS_LENGTH, text, minutes < 0 ? '-' : '+', abs(minutes) / 60,
                   abs(minutes) % 60);
}
