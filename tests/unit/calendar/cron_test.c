/* Expressions of cron: the accepted ones, and when they fire beside changes of the clocks. The comparison with another
 * implementation is in tests/interop/cron_test.py. */
#include "calendar/cron.h"

#include <string.h>

#include "base/clock.h"
#include "support/test.h"

static struct time_zone *open_zone(const char *name)
{
    struct time_zone *zone = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (time_zone_open(name, &zone, &error) != WEIR_OK) {
        fail_msg("%s: %s", name, error.message);
    }
    return zone;
}

static int64_t time_of(const char *text)
{
    int64_t time_us = 0;
    assert_int_equal(time_parse(text, 0, &time_us, NULL), WEIR_OK);
    return time_us;
}

/* The times of an expression behind `after`, in UTC. */
static void expect_times(const char *expression, const char *zone_name, const char *after, const char *const *wanted)
{
    struct cron cron;
    struct weir_error error = {.status = WEIR_OK};
    struct time_zone *zone = open_zone(zone_name);
    if (cron_read(expression, &cron, &error) != WEIR_OK) {
        fail_msg("%s: %s", expression, error.message);
    }
    int64_t at_us = time_of(after);
    for (size_t i = 0; wanted[i] != NULL; i++) {
        char text[TIME_TEXT_MAX];
        at_us = cron_next(&cron, zone, at_us);
        time_format(at_us, text);
        if (at_us != time_of(wanted[i])) {
            fail_msg("\"%s\" in %s: time %zu is %s, not %s", expression, zone_name, i, text, wanted[i]);
        }
    }
    time_zone_close(zone);
}

#define EXPECT(expression, zone, after, ...) expect_times(expression, zone, after, (const char *const[]){__VA_ARGS__, NULL})

static void fields_are_lists_ranges_steps_and_names(void **state)
{
    (void)state;
    EXPECT("5,10-12 * * * *", "UTC", "2026-11-26T10:00:00Z", "2026-11-26T10:05:00Z", "2026-11-26T10:10:00Z",
           "2026-11-26T10:11:00Z", "2026-11-26T10:12:00Z", "2026-11-26T11:05:00Z");
    EXPECT("5/20 0 * * *", "UTC", "2026-11-26T10:00:00Z", "2026-11-27T00:05:00Z", "2026-11-27T00:25:00Z",
           "2026-11-27T00:45:00Z", "2026-11-28T00:05:00Z");
    EXPECT("0 9 * * mon-FRI", "UTC", "2026-11-27T09:00:00Z", "2026-11-30T09:00:00Z");
    EXPECT("0 0 1 Jan,jul *", "UTC", "2026-11-27T09:00:00Z", "2027-01-01T00:00:00Z", "2027-07-01T00:00:00Z");
    EXPECT("0 0 * * 7", "UTC", "2026-11-26T00:00:00Z", "2026-11-29T00:00:00Z");
    EXPECT("  0\t12   * * 0 ", "UTC", "2026-11-26T00:00:00Z", "2026-11-29T12:00:00Z");
    EXPECT("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z");
}

static void aliases_stand_for_expressions(void **state)
{
    (void)state;
    EXPECT("@hourly", "UTC", "2026-11-26T10:00:00Z", "2026-11-26T11:00:00Z");
    EXPECT("@Daily", "UTC", "2026-11-26T10:00:00Z", "2026-11-27T00:00:00Z");
    EXPECT("@midnight", "UTC", "2026-11-26T10:00:00Z", "2026-11-27T00:00:00Z");
    EXPECT("@weekly", "UTC", "2026-11-26T10:00:00Z", "2026-11-29T00:00:00Z");
    EXPECT("@monthly", "UTC", "2026-11-26T10:00:00Z", "2026-12-01T00:00:00Z");
    EXPECT("@yearly", "UTC", "2026-11-26T10:00:00Z", "2027-01-01T00:00:00Z");
    EXPECT("@annually", "UTC", "2026-11-26T10:00:00Z", "2027-01-01T00:00:00Z");
}

static void one_of_two_limited_days_is_enough(void **state)
{
    (void)state;
    EXPECT("0 0 13 * fri", "UTC", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z",
           "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z", "2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z",
           "2026-12-13T00:00:00Z");
    EXPECT("0 0 */2 * mon", "UTC", "2026-10-04T00:00:00Z", "2026-10-05T00:00:00Z", "2026-10-07T00:00:00Z",
           "2026-10-09T00:00:00Z", "2026-10-11T00:00:00Z", "2026-10-12T00:00:00Z");
    EXPECT("0 0 30 2 mon", "UTC", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z");
}

/* Europe/Berlin, 2026-03-29: 02:00 is followed by 03:00, at 01:00 UTC. */
static void a_skipped_time_fires_once_when_the_clocks_are_set(void **state)
{
    (void)state;
    EXPECT("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z");
    EXPECT("15,30,45 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z");
    EXPECT("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z");
    EXPECT("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z");
    EXPECT("59 1 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T00:59:00Z", "2026-03-29T23:59:00Z");
    EXPECT("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T00:30:00Z");
    EXPECT("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z",
           "2026-03-29T01:30:00Z");
    /* The rest of a skipped time is not made up later: the schedule was made after the clocks were set. */
    EXPECT("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z");
}

/* Europe/Berlin, 2026-10-25: 03:00 is followed by 02:00, at 01:00 UTC. */
static void a_repeated_time_fires_once_and_an_even_schedule_goes_on(void **state)
{
    (void)state;
    EXPECT("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z");
    EXPECT("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z");
    EXPECT("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z");
    EXPECT("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z",
           "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z");
    EXPECT("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z",
           "2026-10-25T02:00:00Z");
}

static void clocks_are_set_at_midnight_by_half_an_hour_or_by_a_day(void **state)
{
    (void)state;
    /* Havana, 2026-03-08: 00:00 is followed by 01:00; 2026-11-01: 01:00 is followed by 00:00. */
    EXPECT("@daily", "America/Havana", "2026-03-07T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z");
    EXPECT("@daily", "America/Havana", "2026-10-31T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z");
    /* Lord Howe, 2026-10-04: 02:00 is followed by 02:30, at 15:30 UTC of the day before. */
    EXPECT("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z");
    /* Apia had no 2011-12-30. */
    EXPECT("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z");
    EXPECT("0 */6 * * *", "Pacific/Apia", "2011-12-30T03:00:00Z", "2011-12-30T04:00:00Z", "2011-12-30T10:00:00Z");
}

static void rules_of_zones_hold_far_behind_the_tables(void **state)
{
    (void)state;
    EXPECT("30 2 * * *", "Europe/Berlin", "2199-03-30T12:00:00Z", "2199-03-31T01:00:00Z", "2199-04-01T00:30:00Z");
    EXPECT("0 0 1 1 *", "America/Sao_Paulo", "2500-02-01T00:00:00Z", "2501-01-01T03:00:00Z");
    EXPECT("0 0 1 1 *", "Asia/Kathmandu", "2026-02-01T00:00:00Z", "2026-12-31T18:15:00Z");
}

static void there_is_no_time_behind_the_year_9999(void **state)
{
    (void)state;
    struct cron cron;
    struct time_zone *zone = open_zone("Europe/Berlin");
    assert_int_equal(cron_read("0 0 29 2 *", &cron, NULL), WEIR_OK);
    assert_true(cron_next(&cron, zone, time_of("9990-01-01T00:00:00Z")) < TIME_NEVER);
    assert_true(cron_next(&cron, zone, time_of("9998-01-01T00:00:00Z")) == TIME_NEVER);
    assert_true(cron_next(&cron, zone, TIME_NEVER - 1) == TIME_NEVER);
    assert_true(cron_next(&cron, zone, INT64_MIN) == time_of("1972-02-28T23:00:00Z"));
    time_zone_close(zone);
}

static void what_is_no_expression_is_refused_with_the_field(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "is not a cron expression"},
        {"* * * *", "is not a cron expression"},
        {"* * * * * *", "is not a cron expression"},
        {"@reboot", "is not a cron expression"},
        {"60 * * * *", "minute \"60\""},
        {"* 24 * * *", "hour \"24\""},
        {"* * 0 * *", "day of the month \"0\""},
        {"* * * 13 *", "month \"13\""},
        {"* * * * 8", "day of the week \"8\""},
        {"*/90 * * * *", "longer than the field"},
        {"* */25 * * *", "longer than the field"},
        {"* * * * */8", "longer than the field"},
        {"5-1 * * * *", "ends before it begins"},
        {"*/0 * * * *", "has the step 0"},
        {"1- * * * *", "cannot be read"},
        {"1,,2 * * * *", "cannot be read"},
        {"1, * * * *", "cannot be read"},
        {"*5 * * * *", "cannot be read"},
        {"-1 * * * *", "cannot be read"},
        {"1/ * * * *", "cannot be read"},
        {"00000000000000000001 * * * *", "cannot be read"},
        {"mon * * * *", "minute \"mon\""},
        {"* * * * monday", "cannot be read"},
        {"* * L * *", "cannot be read"},
        {"0 0 30 2 *", "is a day that no year has"},
        {"0 0 31 4,6,9,11 *", "is a day that no year has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cron cron;
        struct weir_error error = {.status = WEIR_OK};
        assert_int_equal(cron_read(cases[i][0], &cron, &error), WEIR_INVALID_ARGUMENT);
        if (strstr(error.message, cases[i][1]) == NULL || error.hint[0] == '\0') {
            fail_msg("\"%s\": %s (%s)", cases[i][0], error.message, error.hint);
        }
    }
    char longer[CRON_TEXT_MAX + 3];
    struct cron cron;
    memset(longer, ' ', sizeof longer);
    memcpy(longer, "* * * * *", 9);
    longer[CRON_TEXT_MAX + 1] = '\0';
    assert_int_equal(cron_read(longer, &cron, NULL), WEIR_INVALID_ARGUMENT);
    longer[CRON_TEXT_MAX] = '\0';
    assert_int_equal(cron_read(longer, &cron, NULL), WEIR_OK);
}

static void notations_of_other_programs_have_hints(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"0 9 * * sat-sun", "for sat-sun write 6-7"},
        {"0 22-5 * * *", "22-23,0-5"},
        {"0 9 * * monday", "three letters"},
        {"0 9 1 january *", "three letters"},
        {"0 0 9 * * *", "none for seconds"},
        {"0 0 9 * * * 2026", "none for seconds"},
        {"@every 5m", "--every 5m"},
        {"@every 1h 30m 0s and more", "--every 5m"},
        {"CRON_TZ=Europe/Berlin 0 9 * * *", "--zone Europe/Berlin"},
        {"TZ=UTC 0 9 * * *", "--zone Europe/Berlin"},
        {"0 9 L * *", "L, W, # and ?"},
        {"0 9 15W * *", "L, W, # and ?"},
        {"0 9 ? * mon", "L, W, # and ?"},
        {"0 9 * * mon#2", "L, W, # and ?"},
        {"0 9 * * 5L", "L, W, # and ?"},
        {"0 9 * * WED-", "the fields are"},
        {"*/90 * * * *", "--every 90m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cron cron;
        struct weir_error error = {.status = WEIR_OK};
        assert_int_equal(cron_read(cases[i][0], &cron, &error), WEIR_INVALID_ARGUMENT);
        if (strstr(error.hint, cases[i][1]) == NULL) {
            fail_msg("\"%s\": %s (%s)", cases[i][0], error.message, error.hint);
        }
    }
}

static void zones_that_differ_between_machines_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"localtime", "posixrules", "Factory", "LOCALTIME"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct time_zone *zone = NULL;
        struct weir_error error = {.status = WEIR_OK};
        assert_int_equal(time_zone_open(names[i], &zone, &error), WEIR_INVALID_ARGUMENT);
        assert_null(zone);
        assert_non_null(strstr(error.message, "not the same time zone on all machines"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_lists_ranges_steps_and_names),
        cmocka_unit_test(aliases_stand_for_expressions),
        cmocka_unit_test(one_of_two_limited_days_is_enough),
        cmocka_unit_test(a_skipped_time_fires_once_when_the_clocks_are_set),
        cmocka_unit_test(a_repeated_time_fires_once_and_an_even_schedule_goes_on),
        cmocka_unit_test(clocks_are_set_at_midnight_by_half_an_hour_or_by_a_day),
        cmocka_unit_test(rules_of_zones_hold_far_behind_the_tables),
        cmocka_unit_test(there_is_no_time_behind_the_year_9999),
        cmocka_unit_test(what_is_no_expression_is_refused_with_the_field),
        cmocka_unit_test(notations_of_other_programs_have_hints),
        cmocka_unit_test(zones_that_differ_between_machines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
