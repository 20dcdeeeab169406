/* The order in which workspaces get places, and that none gets all of them. */
#include "queue/fair_queue.h"

#include <string.h>

#include "base/random.h"
#include "support/test.h"

enum { ENTRIES = 300 };

struct world {
    struct fair_queue queue;
    struct fair_lane noisy;
    struct fair_lane quiet;
    struct fair_lane third;
    struct fair_entry entries[ENTRIES];
    size_t used;
};

static void add(struct world *world, struct fair_lane *lane, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fair_queue_add(&world->queue, lane, &world->entries[world->used++]);
    }
}

/* The lane of the next turn, which holds its place when `holds`; NULL: there is none. */
static struct fair_lane *turn(struct world *world, bool holds)
{
    struct fair_entry *entry = fair_queue_next(&world->queue);
    if (entry == NULL) {
        return NULL;
    }
    struct fair_lane *lane = entry->lane;
    fair_queue_take(&world->queue, entry);
    assert_null(entry->lane);
    if (holds) {
        fair_queue_hold(&world->queue, lane);
    }
    return lane;
}

static void a_lane_with_one_entry_waits_for_one_turn_of_the_other(void **state)
{
    (void)state;
    struct world world = {.used = 0};
    fair_queue_init(&world.queue, 10, 0);
    add(&world, &world.noisy, 200);
    for (int i = 0; i < 50; i++) {
        assert_ptr_equal(turn(&world, false), &world.noisy);
    }
    add(&world, &world.quiet, 1);
    struct fair_lane *first = turn(&world, false);
    assert_true(first == &world.quiet || turn(&world, false) == &world.quiet);
    for (int i = 50; i < 199; i++) {
        assert_ptr_equal(turn(&world, false), &world.noisy);
    }
}

static void an_idle_lane_saves_no_turns(void **state)
{
    (void)state;
    struct world world = {.used = 0};
    fair_queue_init(&world.queue, 10, 0);
    add(&world, &world.noisy, 100);
    for (int i = 0; i < 40; i++) {
        (void)turn(&world, false);
    }
    add(&world, &world.quiet, 40);
    int of_quiet = 0;
    for (int i = 0; i < 40; i++) {
        of_quiet += turn(&world, false) == &world.quiet;
    }
    assert_in_range(of_quiet, 20, 21);
}

static void turns_follow_weights(void **state)
{
    (void)state;
    struct world world = {.noisy.weight = 1, .quiet.weight = 3};
    fair_queue_init(&world.queue, 10, 0);
    add(&world, &world.noisy, 100);
    add(&world, &world.quiet, 100);
    int of_quiet = 0;
    for (int i = 0; i < 80; i++) {
        of_quiet += turn(&world, false) == &world.quiet;
    }
    assert_in_range(of_quiet, 59, 61);
}

static void the_order_within_a_lane_is_that_of_arrival(void **state)
{
    (void)state;
    struct world world = {.used = 0};
    fair_queue_init(&world.queue, 10, 0);
    add(&world, &world.noisy, 4);
    struct fair_entry *first = fair_queue_next(&world.queue);
    assert_ptr_equal(first, &world.entries[0]);
    assert_true(fair_queue_remove(&world.queue, &world.entries[1]));
    assert_false(fair_queue_remove(&world.queue, &world.entries[1]));
    fair_queue_take(&world.queue, first);
    fair_queue_put_back(&world.queue, &world.noisy, first);
    for (size_t i = 0; i < 4; i += i == 0 ? 2 : 1) {
        assert_ptr_equal(fair_queue_next(&world.queue), &world.entries[i]);
        assert_true(fair_queue_remove(&world.queue, &world.entries[i]));
    }
    assert_null(fair_queue_next(&world.queue));
    assert_null(world.queue.first);
    assert_null(world.queue.last);
}

static void one_lane_never_holds_all_places(void **state)
{
    (void)state;
    struct world world = {.used = 0};
    fair_queue_init(&world.queue, 8, 1);
    add(&world, &world.noisy, 200);
    for (int i = 0; i < 7; i++) {
        assert_ptr_equal(turn(&world, true), &world.noisy);
    }
    assert_null(turn(&world, true));
    add(&world, &world.quiet, 1);
    assert_ptr_equal(turn(&world, true), &world.quiet);
    assert_null(turn(&world, true)); /* all are held */
    fair_queue_release(&world.queue, &world.noisy);
    assert_ptr_equal(turn(&world, true), &world.noisy); /* `quiet` holds the spare one, so this is none */
    add(&world, &world.third, 1);
    assert_null(turn(&world, true));
    fair_queue_release(&world.queue, &world.noisy);
    assert_ptr_equal(turn(&world, true), &world.third);
}

/* The only holder is no other one, so its place does not count as the spare one. */
static void the_spare_place_is_kept_from_the_only_holder(void **state)
{
    (void)state;
    struct world world = {.used = 0};
    fair_queue_init(&world.queue, 2, 1);
    add(&world, &world.noisy, 3);
    assert_ptr_equal(turn(&world, true), &world.noisy);
    assert_null(turn(&world, true));
    add(&world, &world.quiet, 1);
    assert_ptr_equal(turn(&world, true), &world.quiet);
}

static void a_single_place_is_never_spare(void **state)
{
    (void)state;
    struct world world = {.used = 0};
    fair_queue_init(&world.queue, 1, 5);
    add(&world, &world.noisy, 2);
    assert_ptr_equal(turn(&world, true), &world.noisy);
    assert_null(turn(&world, true));
    fair_queue_release(&world.queue, &world.noisy);
    assert_ptr_equal(turn(&world, true), &world.noisy);
}

/* The next lane by a walk over all of them, as the rule in fair_queue.c names it. */
static const struct fair_lane *find_by_rule(const struct fair_queue *queue)
{
    const struct fair_lane *found = NULL;
    for (const struct fair_lane *lane = queue->first; lane != NULL; lane = lane->next) {
        size_t others = queue->holders - (lane->held > 0);
        size_t in_spare = others < queue->spare ? others : queue->spare;
        bool may_hold = lane->held == 0 || queue->held - in_spare < queue->places - queue->spare;
        if (queue->held < queue->places && may_hold && (found == NULL || lane->pass < found->pass)) {
            found = lane;
        }
    }
    return found;
}

static void a_walk_that_ends_early_finds_the_same_lane(void **state)
{
    enum { LANES = 40, WAITING = 3 * LANES, STEPS = 20000 };
    (void)state;
    struct fair_lane lanes[LANES];
    struct fair_entry entries[WAITING];
    struct fair_queue queue;
    struct random random;
    random_seed(&random, 7);
    memset(lanes, 0, sizeof lanes);
    memset(entries, 0, sizeof entries);
    fair_queue_init(&queue, 12, 4);
    int turns = 0;
    for (int i = 0; i < STEPS; i++) {
        size_t place = (size_t)random_below(&random, WAITING);
        struct fair_lane *lane = &lanes[place % LANES];
        lane->weight = 1 + (int)(place % LANES % 3);
        const struct fair_lane *expected = find_by_rule(&queue);
        struct fair_entry *next = fair_queue_next(&queue);
        assert_ptr_equal(next == NULL ? NULL : next->lane, expected);
        if (random_below(&random, 3) == 0 && next != NULL) {
            struct fair_lane *taken = next->lane;
            fair_queue_take(&queue, next);
            fair_queue_hold(&queue, taken);
            turns++;
        } else if (lane->held > 0 && random_below(&random, 2) == 0) {
            fair_queue_release(&queue, lane);
        } else if (entries[place].lane != NULL) {
            assert_true(fair_queue_remove(&queue, &entries[place]));
        } else if (random_below(&random, 2) == 0) {
            fair_queue_add(&queue, lane, &entries[place]);
        } else {
            fair_queue_put_back(&queue, lane, &entries[place]);
        }
    }
    assert_in_range(turns, STEPS / 20, STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_with_one_entry_waits_for_one_turn_of_the_other),
        cmocka_unit_test(an_idle_lane_saves_no_turns),
        cmocka_unit_test(turns_follow_weights),
        cmocka_unit_test(the_order_within_a_lane_is_that_of_arrival),
        cmocka_unit_test(one_lane_never_holds_all_places),
        cmocka_unit_test(the_spare_place_is_kept_from_the_only_holder),
        cmocka_unit_test(a_single_place_is_never_spare),
        cmocka_unit_test(a_walk_that_ends_early_finds_the_same_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
