#include "queue/breaker.h"

#include "base/clock.h"
#include "support/seed.h"
#include "support/test.h"

static struct random random_numbers;

static void open_breaker(struct breaker *breaker, int64_t now_us)
{
    breaker_init(breaker);
    for (int i = 1; i < BREAKER_OPENS_AFTER; i++) {
        assert_false(breaker_unreachable(breaker, now_us, &random_numbers));
    }
    assert_true(breaker_unreachable(breaker, now_us, &random_numbers));
}

static void a_closed_breaker_lets_everything_through(void **state)
{
    (void)state;
    struct breaker breaker;
    breaker_init(&breaker);
    assert_int_equal(breaker_take_starts(&breaker, 1000, 0), 1000);
    assert_int_equal(breaker_take_starts(&breaker, 0, 0), 0);
    assert_int_equal(breaker_next(&breaker), TIME_NEVER);
    assert_false(breaker_reached(&breaker));
}

static void only_answers_in_a_row_open_it(void **state)
{
    (void)state;
    struct breaker breaker;
    breaker_init(&breaker);
    for (int i = 0; i < 100; i++) {
        assert_false(breaker_unreachable(&breaker, i, &random_numbers));
        assert_false(breaker_unreachable(&breaker, i, &random_numbers));
        assert_false(breaker_reached(&breaker));
    }
    assert_int_equal(breaker_take_starts(&breaker, 5, 200), 5);
}

static void an_open_breaker_starts_nothing_and_then_probes_with_one(void **state)
{
    (void)state;
    struct breaker breaker;
    open_breaker(&breaker, 1000);
    assert_int_equal(breaker.opened_at_us, 1000);
    int64_t next_us = breaker_next(&breaker);
    assert_in_range(next_us - 1000, BREAKER_FIRST_DELAY_US * 4 / 5 - 1, BREAKER_FIRST_DELAY_US);
    assert_int_equal(breaker_take_starts(&breaker, 50, next_us - 1), 0);
    assert_int_equal(breaker_take_starts(&breaker, 0, next_us), 0);
    assert_int_equal(breaker_take_starts(&breaker, 50, next_us), 1);
    assert_int_equal(breaker_take_starts(&breaker, 50, next_us), 0);
    assert_true(breaker_reached(&breaker));
    assert_int_equal(breaker_take_starts(&breaker, 50, next_us), 50);
}

static void a_failed_probe_waits_longer_up_to_the_ceiling(void **state)
{
    (void)state;
    struct breaker breaker;
    open_breaker(&breaker, 0);
    int64_t whole_us = BREAKER_FIRST_DELAY_US;
    for (int i = 0; i < 20; i++) {
        int64_t now_us = breaker_next(&breaker);
        assert_int_equal(breaker_take_starts(&breaker, 9, now_us), 1);
        assert_false(breaker_unreachable(&breaker, now_us, &random_numbers));
        whole_us = whole_us * 2 > BREAKER_MAX_DELAY_US ? BREAKER_MAX_DELAY_US : whole_us * 2;
        int64_t delay_us = breaker_next(&breaker) - now_us;
        assert_true(delay_us <= whole_us && delay_us >= whole_us * 4 / 5);
    }
    assert_int_equal(breaker.opened_at_us, 0);
}

static void late_answers_from_before_it_opened_change_nothing(void **state)
{
    (void)state;
    struct breaker breaker;
    open_breaker(&breaker, 0);
    int64_t next_us = breaker_next(&breaker);
    for (int i = 0; i < 100; i++) {
        assert_false(breaker_unreachable(&breaker, i, &random_numbers));
    }
    assert_int_equal(breaker_next(&breaker), next_us);
}

static void a_probe_without_an_answer_is_followed_by_another(void **state)
{
    (void)state;
    struct breaker breaker;
    open_breaker(&breaker, 0);
    int64_t now_us = breaker_next(&breaker);
    assert_int_equal(breaker_take_starts(&breaker, 1, now_us), 1);
    int64_t next_us = breaker_next(&breaker);
    assert_true(next_us <= now_us + BREAKER_SILENCE_US);
    assert_int_equal(breaker_take_starts(&breaker, 1, next_us), 1);
}

/* However long the outage was: the next probe is due at most a second after the last one failed. */
static void work_resumes_within_the_ceiling_after_any_outage(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct breaker breaker;
        int64_t now_us = 0;
        int64_t back_us = 3600 * MICROSECONDS_PER_SECOND + (int64_t)random_below(&random_numbers, 60000000);
        open_breaker(&breaker, 0);
        while ((now_us = breaker_next(&breaker)) < back_us) {
            assert_int_equal(breaker_take_starts(&breaker, 10, now_us), 1);
            assert_false(breaker_unreachable(&breaker, now_us, &random_numbers));
        }
        assert_true(now_us - back_us <= MICROSECONDS_PER_SECOND);
    }
}

static void the_engines_own_report_opens_it_at_once(void **state)
{
    (void)state;
    struct breaker breaker;
    breaker_init(&breaker);
    assert_true(breaker_open(&breaker, 1000));
    assert_false(breaker_open(&breaker, 2000));
    assert_int_equal(breaker.opened_at_us, 1000);
    assert_int_equal(breaker_take_starts(&breaker, 50, 2000 + BREAKER_SILENCE_US - 1), 0); /* since its last report */
    assert_int_equal(breaker_take_starts(&breaker, 50, 2000 + BREAKER_SILENCE_US), 1);     /* its result may never come */
    assert_false(breaker_open(&breaker, 2000));
    assert_true(breaker_reached(&breaker));
    assert_int_equal(breaker_take_starts(&breaker, 50, 3000), 50);
}

int main(void)
{
    test_seed(&random_numbers, "breaker");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_breaker_lets_everything_through),
        cmocka_unit_test(only_answers_in_a_row_open_it),
        cmocka_unit_test(an_open_breaker_starts_nothing_and_then_probes_with_one),
        cmocka_unit_test(a_failed_probe_waits_longer_up_to_the_ceiling),
        cmocka_unit_test(late_answers_from_before_it_opened_change_nothing),
        cmocka_unit_test(a_probe_without_an_answer_is_followed_by_another),
        cmocka_unit_test(work_resumes_within_the_ceiling_after_any_outage),
        cmocka_unit_test(the_engines_own_report_opens_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
