#include "base/clock.h"

#include <limits.h>

#include "support/test.h"

static void time_text_round_trips(void **state)
{
    (void)state;
    static const int64_t times[] = {0, 1, 1763700000123456, 951782400000000, 4102444800000000, -62135596800000000};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        char text[TIME_TEXT_MAX];
        int64_t back = -1;
        time_format(times[i], text);
        assert_int_equal(time_parse(text, 0, &back, NULL), WEIR_OK);
        assert_int_equal(back, times[i]);
    }
}

static void time_with_zone_is_turned_to_utc(void **state)
{
    (void)state;
    int64_t a = 0;
    int64_t b = 1;
    assert_int_equal(time_parse("2026-11-21T10:00:00+01:30", 0, &a, NULL), WEIR_OK);
    assert_int_equal(time_parse("2026-11-21 08:30:00.000Z", 0, &b, NULL), WEIR_OK);
    assert_int_equal(a, b);
}

static void a_text_that_is_no_time_is_refused_with_an_example(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "tomorrow",
                                        "2026-13-01T00:00:00Z",
                                        "2026-02-30T00:00:00Z",
                                        "2026-11-21",
                                        "2026-11-21T10:00:00",
                                        "2026-11-21T25:00:00Z",
                                        "2026-11-21T10:00:00Zx",
                                        "+10",
                                        "10mm"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t time_us = 42;
        struct weir_error error;
        assert_int_equal(time_parse(wrong[i], 0, &time_us, &error), WEIR_INVALID_ARGUMENT);
        assert_int_equal(time_us, 42);
        assert_non_null(strstr(error.hint, "2026-11-21T10:00:00Z"));
    }
}

static void duration_from_now_is_a_time(void **state)
{
    (void)state;
    int64_t time_us = 0;
    assert_int_equal(time_parse("+10m", 1000, &time_us, NULL), WEIR_OK);
    assert_int_equal(time_us, 1000 + 600 * MICROSECONDS_PER_SECOND);
}

static void durations_are_read_and_written(void **state)
{
    (void)state;
    int64_t us = 0;
    char text[DURATION_TEXT_MAX];
    assert_int_equal(duration_parse("1h30m", &us, NULL), WEIR_OK);
    assert_int_equal(us, 5400 * MICROSECONDS_PER_SECOND);
    duration_format(us, text);
    assert_string_equal(text, "1h30m");
    assert_int_equal(duration_parse("0", &us, NULL), WEIR_OK);
    assert_int_equal(us, 0);
    assert_int_equal(duration_parse("30m1h", &us, NULL), WEIR_INVALID_ARGUMENT);
    assert_int_equal(duration_parse("10", &us, NULL), WEIR_INVALID_ARGUMENT);
    assert_int_equal(duration_parse("99999999999999999999d", &us, NULL), WEIR_INVALID_ARGUMENT);
}

static void a_wait_of_any_length_fits_into_a_poll(void **state)
{
    (void)state;
    assert_int_equal(time_to_poll_ms(0), 0);
    assert_int_equal(time_to_poll_ms(1), 1); /* rounded down it would spin */
    assert_int_equal(time_to_poll_ms(1000), 1);
    assert_int_equal(time_to_poll_ms(1001), 2);
    assert_int_equal(time_to_poll_ms(-1), 0);
    assert_int_equal(time_to_poll_ms(INT64_MIN), 0);
    assert_int_equal(time_to_poll_ms(30 * 86400 * MICROSECONDS_PER_SECOND),
                     INT_MAX);                                             /* a cast makes it negative: for ever */
    assert_int_equal(time_to_poll_ms((INT64_C(1) << 32) * 1000), INT_MAX); /* and this 0 */
    assert_int_equal(time_to_poll_ms(TIME_NEVER), INT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_text_round_trips),
        cmocka_unit_test(time_with_zone_is_turned_to_utc),
        cmocka_unit_test(a_text_that_is_no_time_is_refused_with_an_example),
        cmocka_unit_test(duration_from_now_is_a_time),
        cmocka_unit_test(durations_are_read_and_written),
        cmocka_unit_test(a_wait_of_any_length_fits_into_a_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
