/* The rate of starts against a service that takes so many a second, on a virtual clock. */
#include "support/test.h"

#include "engine/temporal/start_rate.h"

#define SECOND_US MICROSECONDS_PER_SECOND

/* A bucket with a second's burst, as the service has one. Returns what it took in the last `counted` of `seconds`. */
static double run_against(struct start_rate *limiter, double limit, int seconds, int counted)
{
    double tokens = limit;
    double taken = 0;
    int64_t now_us = 1000 * SECOND_US;
    int64_t end_us = now_us + seconds * SECOND_US;
    start_rate_init(limiter, 64, now_us);
    for (; now_us < end_us; now_us += MICROSECONDS_PER_MS) {
        tokens = tokens + limit / 1000 > limit ? limit : tokens + limit / 1000;
        for (int i = 0; i < 4 && start_rate_take_token(limiter, now_us);
             i++) { /* what the machine could do: 4,000 a second */
            if (tokens >= 1) {
                tokens -= 1;
                start_rate_note_accepted(limiter, now_us);
                taken += end_us - now_us <= counted * SECOND_US;
            } else {
                start_rate_note_throttled(limiter, now_us);
            }
        }
    }
    return taken / counted;
}

static void starts_settle_within_a_fifth_of_the_limit(void **state)
{
    static const double limits[] = {10, 50, 200, 1000};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct start_rate limiter;
        double rate = run_against(&limiter, limits[i], 60, 30);
        if (rate < 0.8 * limits[i] || rate > 1.01 * limits[i]) {
            fail_msg("limit %.0f: settled at %.1f", limits[i], rate);
        }
    }
}

static void few_starts_are_refused_once_it_has_settled(void **state)
{
    struct start_rate limiter;
    double tokens = 50;
    int refused = 0;
    int64_t now_us = 1000 * SECOND_US;
    (void)state;
    start_rate_init(&limiter, 64, now_us);
    for (int ms = 0; ms < 60000; ms++, now_us += MICROSECONDS_PER_MS) {
        tokens = tokens + 0.05 > 50 ? 50 : tokens + 0.05;
        while (start_rate_take_token(&limiter, now_us)) {
            if (tokens < 1) {
                start_rate_note_throttled(&limiter, now_us);
                refused += ms > 30000;
                break;
            }
            tokens -= 1;
            start_rate_note_accepted(&limiter, now_us);
        }
    }
    assert_true(refused < 30 * 5); /* 5 a second of 50 */
}

static void without_throttling_no_start_is_delayed(void **state)
{
    struct start_rate limiter;
    (void)state;
    start_rate_init(&limiter, 64, 0);
    for (int i = 0; i < 100000; i++) {
        assert_true(start_rate_take_token(&limiter, 1));
        start_rate_note_accepted(&limiter, 1);
    }
    assert_int_equal(start_rate_window(&limiter), 64);
}

static void the_limit_is_forgotten_after_a_quiet_minute(void **state)
{
    struct start_rate limiter;
    (void)state;
    start_rate_init(&limiter, 64, 0);
    start_rate_note_throttled(&limiter, SECOND_US);
    start_rate_note_throttled(&limiter, 3 * SECOND_US);
    assert_true(start_rate_window(&limiter) < 64);
    assert_false(start_rate_take_token(&limiter, 3 * SECOND_US));
    assert_true(start_rate_next_token(&limiter, 3 * SECOND_US) > 3 * SECOND_US);
    assert_true(start_rate_take_token(&limiter, 64 * SECOND_US));
    assert_int_equal(start_rate_window(&limiter), 64);
}

static void time_outs_shrink_the_window_and_answers_grow_it(void **state)
{
    struct start_rate limiter;
    (void)state;
    start_rate_init(&limiter, 64, 0);
    for (int i = 1; i < 20; i++) {
        start_rate_note_timeout(&limiter, i * 2 * SECOND_US);
    }
    assert_int_equal(start_rate_window(&limiter), 1);
    for (int i = 0; i < 3000; i++) {
        start_rate_note_accepted(&limiter, 100 * SECOND_US);
    }
    assert_int_equal(start_rate_window(&limiter), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_settle_within_a_fifth_of_the_limit),
        cmocka_unit_test(few_starts_are_refused_once_it_has_settled),
        cmocka_unit_test(without_throttling_no_start_is_delayed),
        cmocka_unit_test(the_limit_is_forgotten_after_a_quiet_minute),
        cmocka_unit_test(time_outs_shrink_the_window_and_answers_grow_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
