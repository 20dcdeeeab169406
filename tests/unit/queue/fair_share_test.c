#include "queue/fair_share.h"

#include <stdbool.h>
#include <stdlib.h>

#include "support/seed.h"
#include "support/test.h"

enum { LANES_MOST = 40 };

static const struct lane_share *find_lane(const struct lane_share *lanes, size_t count, int64_t lane_id)
{
    for (size_t i = 0; i < count; i++) {
        if (lanes[i].lane_id == lane_id) {
            return &lanes[i];
        }
    }
    fail_msg("lane %lld is gone", (long long)lane_id);
    return NULL;
}

static int by_pass_and_id(const void *a, const void *b)
{
    const struct lane_share *x = a;
    const struct lane_share *y = b;
    if (x->pass != y->pass) {
        return x->pass < y->pass ? -1 : 1;
    }
    return x->lane_id < y->lane_id ? -1 : x->lane_id > y->lane_id;
}

static void equal_weights_take_equal_turns(void **state)
{
    (void)state;
    struct lane_share lanes[3] = {{1, 0, 1, 100, 0}, {2, 0, 1, 100, 0}, {3, 0, 1, 100, 0}};
    assert_int_equal(fair_share_deal(lanes, 3, 30), 30);
    for (int64_t id = 1; id <= 3; id++) {
        assert_int_equal(find_lane(lanes, 3, id)->turns, 10);
        assert_int_equal(find_lane(lanes, 3, id)->pass, 10 * STRIDE_ONE);
    }
}

static void turns_follow_the_weights_exactly(void **state)
{
    (void)state;
    struct lane_share lanes[3] = {{1, 0, 1, 1000, 0}, {2, 0, 2, 1000, 0}, {3, 0, 4, 1000, 0}};
    assert_int_equal(fair_share_deal(lanes, 3, 70), 70);
    assert_int_equal(find_lane(lanes, 3, 1)->turns, 10);
    assert_int_equal(find_lane(lanes, 3, 2)->turns, 20);
    assert_int_equal(find_lane(lanes, 3, 3)->turns, 40);
}

static void a_tie_goes_to_the_smaller_lane(void **state)
{
    (void)state;
    struct lane_share lanes[3] = {{4, 5, 1, 9, 0}, {8, 5, 1, 9, 0}, {9, 5, 1, 9, 0}};
    assert_int_equal(fair_share_deal(lanes, 3, 1), 1);
    assert_int_equal(find_lane(lanes, 3, 4)->turns, 1);
}

static void a_lane_takes_no_more_than_its_room(void **state)
{
    (void)state;
    struct lane_share lanes[3] = {{1, 0, 1, 2, 0}, {2, 0, 1, 0, 0}, {3, 0, 1, -5, 0}};
    assert_int_equal(fair_share_deal(lanes, 3, 100), 2);
    assert_int_equal(find_lane(lanes, 3, 1)->turns, 2);
    assert_int_equal(find_lane(lanes, 3, 2)->turns, 0);
    assert_int_equal(find_lane(lanes, 3, 3)->turns, 0);
}

static void nothing_is_dealt_to_nobody(void **state)
{
    (void)state;
    assert_int_equal(fair_share_deal(NULL, 0, 10), 0);
    struct lane_share one = {1, 7, 1, 10, 3};
    assert_int_equal(fair_share_deal(&one, 1, 0), 0);
    assert_int_equal(one.turns, 0);
    assert_int_equal(one.pass, 7);
}

/* The definition, one turn at a time: what the heap does must equal this. */
static size_t deal_by_definition(struct lane_share *lanes, size_t count, size_t items)
{
    size_t dealt = 0;
    for (size_t i = 0; i < count; i++) {
        lanes[i].turns = 0;
    }
    for (; dealt < items; dealt++) {
        struct lane_share *next = NULL;
        for (size_t i = 0; i < count; i++) {
            if (lanes[i].turns < lanes[i].room && (next == NULL || by_pass_and_id(&lanes[i], next) < 0)) {
                next = &lanes[i];
            }
        }
        if (next == NULL) {
            break;
        }
        next->turns++;
        next->pass += STRIDE_ONE / next->weight;
    }
    return dealt;
}

static void draw_lanes(struct random *random, struct lane_share *lanes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lanes[i] = (struct lane_share){.lane_id = (int64_t)i + 1,
                                       .pass = (int64_t)random_below(random, 4) * STRIDE_ONE / 2,
                                       .weight = 1 + (int)random_below(random, 16),
                                       .room = (int64_t)random_below(random, 20)};
    }
    qsort(lanes, count, sizeof *lanes, by_pass_and_id);
}

static void a_deal_equals_one_turn_at_a_time(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "fair_share_deal");
    for (int round = 0; round < 3000; round++) {
        struct lane_share lanes[LANES_MOST];
        struct lane_share expected[LANES_MOST];
        size_t count = random_below(&random, LANES_MOST);
        size_t items = random_below(&random, 300);
        draw_lanes(&random, lanes, count);
        memcpy(expected, lanes, sizeof lanes);
        assert_int_equal(fair_share_deal(lanes, count, items), deal_by_definition(expected, count, items));
        for (size_t i = 0; i < count; i++) {
            const struct lane_share *lane = find_lane(lanes, count, expected[i].lane_id);
            assert_int_equal(lane->turns, expected[i].turns);
            assert_int_equal(lane->pass, expected[i].pass);
        }
    }
}

static void many_small_deals_are_as_fair_as_one_large(void **state)
{
    (void)state;
    struct lane_share lanes[3] = {{1, 0, 1, 1, 0}, {2, 0, 3, 1, 0}, {3, 0, 5, 1, 0}};
    int64_t turns[4] = {0};
    for (int i = 0; i < 900; i++) {
        qsort(lanes, 3, sizeof lanes[0], by_pass_and_id);
        for (size_t k = 0; k < 3; k++) {
            lanes[k].room = 1;
        }
        assert_int_equal(fair_share_deal(lanes, 3, 1), 1);
        for (size_t k = 0; k < 3; k++) {
            turns[lanes[k].lane_id] += lanes[k].turns;
        }
    }
    assert_in_range(turns[1], 99, 101);
    assert_in_range(turns[2], 299, 301);
    assert_in_range(turns[3], 499, 501);
}

static void what_is_given_back_was_never_charged(void **state)
{
    (void)state;
    for (int weight = 1; weight <= 1000; weight++) {
        struct lane_share lane = {1, 12345, weight, 50, 0};
        assert_int_equal(fair_share_deal(&lane, 1, 50), 50);
        assert_int_equal(fair_share_give_back(lane.pass, weight, 50), 12345);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_take_equal_turns),
        cmocka_unit_test(turns_follow_the_weights_exactly),
        cmocka_unit_test(a_tie_goes_to_the_smaller_lane),
        cmocka_unit_test(a_lane_takes_no_more_than_its_room),
        cmocka_unit_test(nothing_is_dealt_to_nobody),
        cmocka_unit_test(a_deal_equals_one_turn_at_a_time),
        cmocka_unit_test(many_small_deals_are_as_fair_as_one_large),
        cmocka_unit_test(what_is_given_back_was_never_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
