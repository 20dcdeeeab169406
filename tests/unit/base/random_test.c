#include "base/random.h"

#include "support/seed.h"
#include "support/test.h"

static void a_seed_replays(void **state)
{
    (void)state;
    struct random a;
    struct random b;
    random_seed(&a, 99);
    random_seed(&b, 99);
    for (int i = 0; i < 1000; i++) {
        assert_true(random_next(&a) == random_next(&b));
    }
}

/* The published first values of SplitMix64 for the seed 1234567. */
static void the_numbers_are_those_of_the_paper(void **state)
{
    (void)state;
    static const uint64_t expected[] = {6457827717110365317U, 3203168211198807973U, 9817491932198370423U};
    struct random random;
    random_seed(&random, 1234567);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(random_next(&random) == expected[i]);
    }
}

static void numbers_stay_below_and_are_even(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "random_below");
    assert_int_equal(random_below(&random, 0), 0);
    assert_int_equal(random_below(&random, 1), 0);
    int buckets[10] = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t value = random_below(&random, 10);
        assert_true(value < 10);
        buckets[value]++;
        assert_true(random_below(&random, UINT64_MAX) < UINT64_MAX);
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(buckets[i], 9300, 10700);
    }
}

static void the_system_gives_other_seeds_each_time(void **state)
{
    (void)state;
    struct random a;
    struct random b;
    random_seed_from_system(&a);
    random_seed_from_system(&b);
    assert_true(random_next(&a) != random_next(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_replays),
        cmocka_unit_test(the_numbers_are_those_of_the_paper),
        cmocka_unit_test(numbers_stay_below_and_are_even),
        cmocka_unit_test(the_system_gives_other_seeds_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
