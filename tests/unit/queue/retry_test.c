#include "queue/retry.h"

#include <math.h>

#include "base/clock.h"
#include "support/seed.h"
#include "support/test.h"

static const struct retry_policy default_policy = {3, MICROSECONDS_PER_SECOND, 2.0, 300 * MICROSECONDS_PER_SECOND};

/* The old algorithm compared before it counted and made four starts of three. */
static int runs_until_given_up(const struct retry_policy *policy)
{
    int runs = 0;
    do {
        runs++;
    } while (retry_allows(policy, runs));
    return runs;
}

static void attempts_max_n_means_exactly_n_runs(void **state)
{
    (void)state;
    for (int n = 1; n <= 20; n++) {
        struct retry_policy policy = default_policy;
        policy.attempts_max = n;
        assert_int_equal(runs_until_given_up(&policy), n);
    }
}

/* Of a damaged row. */
static void a_negative_count_allows_a_run_after_the_first_delay(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "retry_negative");
    assert_true(retry_allows(&default_policy, INT32_MIN));
    assert_true(retry_delay(&default_policy, INT32_MIN, &random) <= default_policy.backoff_us);
}

static void a_delay_doubles_until_its_ceiling(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "retry_delay");
    int64_t whole_us = default_policy.backoff_us;
    for (int run = 1; run <= 40; run++) {
        int64_t delay_us = retry_delay(&default_policy, run, &random);
        assert_true(delay_us <= whole_us);
        assert_true(delay_us >= whole_us - whole_us / 5);
        whole_us = whole_us * 2 > default_policy.max_us ? default_policy.max_us : whole_us * 2;
    }
}

/* nFlow has no jitter: items that fail together come back together. */
static void a_thousand_that_fail_together_spread_over_a_fifth_of_the_delay(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "retry_spread");
    int64_t least_us = INT64_MAX;
    int64_t most_us = 0;
    int buckets[10] = {0};
    for (int i = 0; i < 1000; i++) {
        int64_t delay_us = retry_delay(&default_policy, 5, &random);
        least_us = delay_us < least_us ? delay_us : least_us;
        most_us = delay_us > most_us ? delay_us : most_us;
        int64_t within_us = delay_us - 16 * MICROSECONDS_PER_SECOND * 4 / 5;
        buckets[within_us * 10 / (16 * MICROSECONDS_PER_SECOND / 5 + 1)]++;
    }
    assert_true(most_us - least_us >= 16 * MICROSECONDS_PER_SECOND * 19 / 100);
    for (int i = 0; i < 10; i++) {
        assert_in_range(buckets[i], 40, 180);
    }
}

static void a_delay_is_never_negative_under_any_policy(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "retry_any_policy");
    static const double factors[] = {1.0, 1.5, 2.0, 10.0, 1e300, INFINITY, NAN};
    for (int i = 0; i < 20000; i++) {
        struct retry_policy policy = {
            .attempts_max = 1 + (int)random_below(&random, 1000),
            .backoff_us = (int64_t)(random_next(&random) >> random_below(&random, 64)),
            .factor = factors[random_below(&random, sizeof factors / sizeof factors[0])],
            .max_us = (int64_t)(random_next(&random) >> (1 + random_below(&random, 62))),
        };
        int64_t delay_us = retry_delay(&policy, (int)random_below(&random, 2000), &random);
        assert_true(delay_us >= 0);
        assert_true(delay_us <= policy.max_us);
    }
}

static void the_same_seed_gives_the_same_delays(void **state)
{
    (void)state;
    struct random a;
    struct random b;
    random_seed(&a, 7);
    random_seed(&b, 7);
    for (int run = 1; run < 20; run++) {
        assert_int_equal(retry_delay(&default_policy, run, &a), retry_delay(&default_policy, run, &b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_max_n_means_exactly_n_runs),
        cmocka_unit_test(a_negative_count_allows_a_run_after_the_first_delay),
        cmocka_unit_test(a_delay_doubles_until_its_ceiling),
        cmocka_unit_test(a_thousand_that_fail_together_spread_over_a_fifth_of_the_delay),
        cmocka_unit_test(a_delay_is_never_negative_under_any_policy),
        cmocka_unit_test(the_same_seed_gives_the_same_delays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
