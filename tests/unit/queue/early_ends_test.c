#include "queue/early_ends.h"

#include <stdlib.h>

#include "base/random.h"
#include "support/seed.h"
#include "support/test.h"

enum { LANE = 7, LANES = 5, TURNS = 20000 };

static struct early_ends ends;

static int clear(void **state)
{
    (void)state;
    early_ends_clear(&ends);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, clear)

static void the_record_gives_the_slot_back_and_its_news_does_not(void **state)
{
    (void)state;
    assert_true(early_ends_record(&ends, LANE));
    assert_true(early_ends_record(&ends, LANE));
    assert_int_equal(early_ends_news(&ends, LANE, 2), 0);
    assert_int_equal(ends.count, 0);
    assert_false(ends.is_behind);
}

static void the_news_gives_the_slot_back_and_its_record_does_not(void **state)
{
    (void)state;
    assert_int_equal(early_ends_news(&ends, LANE, 2), 2);
    assert_true(ends.is_behind);
    assert_false(early_ends_record(&ends, LANE));
    assert_false(early_ends_record(&ends, LANE));
    assert_true(early_ends_record(&ends, LANE));
    assert_int_equal(ends.count, 1);
}

static void news_gives_back_what_no_record_has_named(void **state)
{
    (void)state;
    assert_true(early_ends_record(&ends, LANE));
    assert_int_equal(early_ends_news(&ends, LANE, 3), 2);
    assert_int_equal(early_ends_news(&ends, LANE + 1, 1), 1);
}

/* A balance above zero stays: its news is still to come. */
static void a_new_generation_drops_the_lanes_below_zero_alone(void **state)
{
    (void)state;
    assert_true(early_ends_record(&ends, LANE));
    assert_int_equal(early_ends_news(&ends, LANE + 1, 1), 1);
    early_ends_forget(&ends);
    assert_false(ends.is_behind);
    assert_int_equal(ends.count, 1);
    assert_int_equal(early_ends_news(&ends, LANE, 1), 0);
    assert_true(early_ends_record(&ends, LANE + 1));
}

static void a_full_table_leaves_slots_to_the_news(void **state)
{
    (void)state;
    for (int64_t lane = 1; lane <= EARLY_ENDS_LANES_MOST; lane++) {
        assert_true(early_ends_record(&ends, lane << 20));
    }
    assert_false(ends.is_full);
    assert_false(early_ends_record(&ends, LANE));
    assert_true(ends.is_full);
    assert_int_equal(early_ends_news(&ends, LANE, 1), 1);
    early_ends_forget(&ends);
    assert_false(ends.is_full);
    assert_int_equal(ends.count, EARLY_ENDS_LANES_MOST);
    for (int64_t lane = 1; lane <= EARLY_ENDS_LANES_MOST; lane++) {
        assert_int_equal(early_ends_news(&ends, lane << 20, 1), 0);
    }
    assert_int_equal(ends.count, 0);
}

/* Both sources in any order, for lanes whose places collide: what is given back is the larger one of both sums. */
static void at_any_time_the_larger_sum_is_given_back(void **state)
{
    (void)state;
    struct random random;
    int64_t records[LANES] = {0};
    int64_t news[LANES] = {0};
    int64_t given[LANES] = {0};
    test_seed(&random, __func__);
    for (int turn = 0; turn < TURNS; turn++) {
        size_t at = (size_t)random_below(&random, LANES);
        int64_t lane = 1 + (int64_t)at * EARLY_ENDS_PLACES;
        if (random_below(&random, 2) == 0) {
            records[at]++;
            given[at] += early_ends_record(&ends, lane);
        } else {
            int64_t slots = 1 + (int64_t)random_below(&random, 2);
            slots = news[at] + slots > records[at] + 3 ? 1 : slots;
            news[at] += slots;
            given[at] += early_ends_news(&ends, lane, slots);
        }
        assert_int_equal(given[at], records[at] > news[at] ? records[at] : news[at]);
    }
}

/* Random lanes that come and go: an entry is found wherever the removal of others has moved it. */
static void balances_survive_the_removal_of_others(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static int64_t balances[MANY];
    struct random random;
    test_seed(&random, __func__);
    for (int turn = 0; turn < TURNS * 10; turn++) {
        size_t at = (size_t)random_below(&random, MANY);
        int64_t lane = 1 + (int64_t)at;
        if (balances[at] > 0) {
            assert_int_equal(early_ends_news(&ends, lane, 1), 0);
            balances[at]--;
        } else if (ends.count < EARLY_ENDS_LANES_MOST) {
            assert_true(early_ends_record(&ends, lane));
            balances[at]++;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_record_gives_the_slot_back_and_its_news_does_not),
        TEST(the_news_gives_the_slot_back_and_its_record_does_not),
        TEST(news_gives_back_what_no_record_has_named),
        TEST(a_new_generation_drops_the_lanes_below_zero_alone),
        TEST(a_full_table_leaves_slots_to_the_news),
        TEST(at_any_time_the_larger_sum_is_given_back),
        TEST(balances_survive_the_removal_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
