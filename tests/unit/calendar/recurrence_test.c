/* Times of schedules: the limits, even steps, and the times that are passed over after an outage. */
#include "calendar/recurrence.h"

#include "support/test.h"

#define MINUTE_US (60 * MICROSECONDS_PER_SECOND)
#define DAY_US (1440 * MINUTE_US)

static struct recurrence open_times(struct recurrence_text text)
{
    struct recurrence recurrence = {.zone = NULL};
    struct weir_error error = {.status = WEIR_OK};
    if (recurrence_open(&text, &recurrence, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return recurrence;
}

static void even_steps_count_from_1970_or_from_the_beginning(void **state)
{
    (void)state;
    struct recurrence even = open_times((struct recurrence_text){.every_us = 15 * MINUTE_US});
    assert_int_equal(recurrence_next(&even, 0), 15 * MINUTE_US);
    assert_int_equal(recurrence_next(&even, 15 * MINUTE_US - 1), 15 * MINUTE_US);
    assert_int_equal(recurrence_next(&even, 15 * MINUTE_US), 30 * MINUTE_US);
    struct recurrence later = open_times((struct recurrence_text){.every_us = 15 * MINUTE_US, .from_us = 100 * MINUTE_US});
    assert_int_equal(recurrence_next(&later, 0), 100 * MINUTE_US);
    assert_int_equal(recurrence_next(&later, 100 * MINUTE_US), 115 * MINUTE_US);
}

static void both_limits_are_times_that_count(void **state)
{
    (void)state;
    struct recurrence even = open_times(
        (struct recurrence_text){.every_us = 10 * MINUTE_US, .from_us = 20 * MINUTE_US, .until_us = 30 * MINUTE_US});
    assert_int_equal(recurrence_next(&even, 0), 20 * MINUTE_US);
    assert_int_equal(recurrence_next(&even, 20 * MINUTE_US), 30 * MINUTE_US);
    assert_int_equal(recurrence_next(&even, 30 * MINUTE_US), TIME_NEVER);
    struct recurrence daily =
        open_times((struct recurrence_text){.cron = "@daily", .from_us = 2 * DAY_US, .until_us = 3 * DAY_US});
    assert_int_equal(recurrence_next(&daily, 0), 2 * DAY_US);
    assert_int_equal(recurrence_next(&daily, 2 * DAY_US), 3 * DAY_US);
    assert_int_equal(recurrence_next(&daily, 3 * DAY_US), TIME_NEVER);
    recurrence_close(&daily);
}

/* By one step after the other, for each way of the function. */
static void assert_passes(const struct recurrence *recurrence, int64_t first_us, int64_t before_us, int64_t most)
{
    int64_t passed = 0;
    int64_t count = 0;
    int64_t at_us = first_us;
    while (at_us < before_us && count < most) {
        at_us = recurrence_next(recurrence, at_us);
        count++;
    }
    assert_int_equal(recurrence_pass(recurrence, first_us, before_us, most, &passed), at_us);
    assert_int_equal(passed, count);
}

static void times_before_a_limit_are_passed_and_counted(void **state)
{
    (void)state;
    const struct recurrence_text texts[] = {
        {.every_us = 10 * MINUTE_US},
        {.every_us = 10 * MINUTE_US, .until_us = 95 * MINUTE_US},
        {.every_us = 10 * MINUTE_US, .from_us = 3 * MINUTE_US, .until_us = 63 * MINUTE_US},
        {.cron = "*/10 * * * *"},
        {.cron = "*/10 * * * *", .until_us = 95 * MINUTE_US},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct recurrence recurrence = open_times(texts[i]);
        int64_t first_us = recurrence_next(&recurrence, 0);
        for (int64_t before = 0; before < 150; before++) {
            for (int64_t most = 0; most < 20; most += 3) {
                assert_passes(&recurrence, first_us, before * MINUTE_US, most);
                assert_passes(&recurrence, first_us, before * MINUTE_US + 1, most);
            }
        }
        recurrence_close(&recurrence);
    }
}

static void millions_of_steps_are_passed_at_once(void **state)
{
    (void)state;
    int64_t passed = 0;
    struct recurrence even = open_times((struct recurrence_text){.every_us = MICROSECONDS_PER_SECOND});
    int64_t before_us = 3650 * DAY_US;
    assert_int_equal(recurrence_pass(&even, MICROSECONDS_PER_SECOND, before_us, INT64_MAX, &passed), before_us);
    assert_int_equal(passed, 3650 * INT64_C(86400) - 1);
}

static void local_times_have_the_offset_of_their_zone(void **state)
{
    (void)state;
    static const struct {
        const char *zone; /* NULL: even steps */
        const char *time;
        const char *local;
    } cases[] = {
        {"Europe/Berlin", "2040-03-25T00:59:59.9Z", "2040-03-25T01:59:59+01:00"},
        {"Europe/Berlin", "2040-03-25T01:00:00Z", "2040-03-25T03:00:00+02:00"},
        {"America/St_Johns", "2026-01-01T00:00:00Z", "2025-12-31T20:30:00-03:30"},
        {"Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-01T05:45:00+05:45"},
        {"Africa/Monrovia", "1971-01-01T00:00:00Z", "1970-12-31T23:16:00-00:44"},
        {"UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00"},
        {NULL, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *zone = cases[i].zone;
        struct recurrence recurrence = open_times(zone == NULL ? (struct recurrence_text){.every_us = MINUTE_US}
                                                               : (struct recurrence_text){.cron = "@daily", .zone = zone});
        int64_t time_us = 0;
        char text[TIME_TEXT_MAX];
        assert_int_equal(time_parse(cases[i].time, 0, &time_us, NULL), WEIR_OK);
        recurrence_format_local(&recurrence, time_us, text);
        assert_string_equal(text, cases[i].local);
        recurrence_close(&recurrence);
    }
}

static void what_has_no_meaning_is_refused(void **state)
{
    (void)state;
    const struct recurrence_text bad[] = {
        {.cron = NULL},
        {.cron = "@daily", .every_us = MINUTE_US},
        {.every_us = 1},
        {.every_us = -MINUTE_US},
        {.every_us = RECURRENCE_EVERY_MOST_US + MICROSECONDS_PER_SECOND},
        {.every_us = MINUTE_US, .zone = "Europe/Berlin"},
        {.every_us = MINUTE_US, .from_us = -1},
        {.every_us = MINUTE_US, .until_us = -1},
        {.every_us = MINUTE_US, .from_us = 2, .until_us = 1},
        {.cron = "* * *"},
        {.cron = "@daily", .zone = "No/Where"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct recurrence recurrence = {.zone = NULL};
        struct weir_error error = {.status = WEIR_OK};
        assert_int_equal(recurrence_open(&bad[i], &recurrence, &error), WEIR_INVALID_ARGUMENT);
        assert_string_not_equal(error.message, "");
        assert_null(recurrence.zone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_steps_count_from_1970_or_from_the_beginning),
        cmocka_unit_test(both_limits_are_times_that_count),
        cmocka_unit_test(times_before_a_limit_are_passed_and_counted),
        cmocka_unit_test(millions_of_steps_are_passed_at_once),
        cmocka_unit_test(local_times_have_the_offset_of_their_zone),
        cmocka_unit_test(what_has_no_meaning_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
