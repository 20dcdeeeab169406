/* How the scheduler chooses nodes by their handlers, and shares turns among lanes that need different ones. */
#include <stdio.h>

#include "scheduler_fixture.h"

enum { WORKER = NODE + 1, OTHER_WORKER = NODE + 2 };

/* The lane of a workspace for items that need the handlers of a set. */
static int64_t lane_with(int64_t workspace_id, int64_t handler_set)
{
    return lane_for_demand(lane(workspace_id), demand_of(handler_set, false));
}

static void learn_handlers(struct fixture *f, int64_t node_id, int64_t handler_set)
{
    learn(f, (struct schedule_fact){.kind = FACT_NODE_HANDLERS, .node_id = node_id, .handler_set = handler_set});
}

/* A complete list: NODE without handlers, WORKER with the set 1, and OTHER_WORKER with `others_set` if it is not 0. */
static void learn_workers(struct fixture *f, int64_t capacity, int64_t others_set)
{
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, NODE, GROUP, 1000);
    learn_node(f, WORKER, GROUP, capacity);
    learn_handlers(f, WORKER, 1);
    if (others_set != 0) {
        learn_node(f, OTHER_WORKER, GROUP, capacity);
        learn_handlers(f, OTHER_WORKER, others_set);
    }
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
}

static size_t count_of_lane(const struct fixture *f, int64_t lane_id)
{
    size_t count = 0;
    for (size_t i = 0; i < f->set_count; i++) {
        count += f->set[i].lane_id == lane_id ? 1 : 0;
    }
    return count;
}

static size_t count_of_node(const struct fixture *f, int64_t node_id)
{
    size_t count = 0;
    for (size_t i = 0; i < f->set_count; i++) {
        count += f->set[i].node_id == node_id ? 1 : 0;
    }
    return count;
}

static void an_item_goes_only_to_a_node_with_its_handlers(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 3, 0);
    enqueue(f, lane_with(1, 1), 5);
    read_all(f);
    assert_int_equal(assign_own(f, NODE, 1000, 10), 3); /* the own node has place, and lacks them */
    assert_int_equal(count_of_node(f, WORKER), 3);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(take(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn_end(f, lane_with(1, 1), WORKER);
    assert_int_equal(take(f, 10), 1);
    assert_set(f, 4);
}

static void an_item_that_no_node_can_run_delays_no_other_and_takes_no_slot(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    learn_workers(f, 10, 0);
    enqueue(f, lane_with(1, 2), 3); /* the oldest items of the workspace */
    enqueue(f, lane(1), 1);
    enqueue(f, lane_with(2, 1), 1);
    assert_int_equal(take(f, 10), 2);
    assert_int_equal(count_of_lane(f, lane(1)), 1);
    assert_int_equal(count_of_lane(f, lane_with(2, 1)), 1);
    assert_int_equal(held(f), 2);
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn_end(f, lane(1), f->set[0].lane_id == lane(1) ? f->set[0].node_id : f->set[1].node_id);
    assert_false(scheduler_has_work(f->scheduler, 0));
}

static void a_node_that_comes_with_the_handlers_gets_the_waiting_items_at_once(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 10, 0);
    enqueue(f, lane_with(1, 2), 3);
    assert_int_equal(take(f, 10), 0);
    learn_workers(f, 10, 2);
    assert_true(scheduler_has_work(f->scheduler, 0));
    assert_int_equal(take(f, 10), 3);
    assert_int_equal(count_of_node(f, OTHER_WORKER), 3);
}

static void a_node_that_lost_its_handlers_gets_nothing_more_of_them(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 10, 0);
    enqueue(f, lane_with(1, 1), 6);
    enqueue(f, lane(1), 1);
    read_all(f);
    assert_int_equal(assign(f, 2), 2);
    settle(f, ASSIGNMENT_TAKEN);
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 10);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    (void)take(f, 10);
    assert_int_equal(count_of_lane(f, lane_with(1, 1)), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
}

static void a_full_worker_delays_no_item_of_another_one(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 2, 2);
    enqueue(f, lane_with(1, 1), 20);
    enqueue(f, lane_with(1, 2), 20);
    enqueue(f, lane(1), 4);
    assert_int_equal(take(f, 50), 8);
    assert_int_equal(count_of_node(f, WORKER), 2);
    assert_int_equal(count_of_node(f, OTHER_WORKER), 2);
    assert_int_equal(count_of_lane(f, lane(1)), 4);
}

/* Both sets are served by the same nodes, so the order of the workspace's items counts, not the set. */
static void the_items_of_a_workspace_start_in_their_order_whatever_they_need(void **state)
{
    struct fixture *f = *state;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 100);
    for (int64_t set = 1; set <= 3; set++) {
        learn_handlers(f, WORKER, set);
    }
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    enqueue(f, lane_with(1, 3), 2);
    enqueue(f, lane_with(1, 1), 1);
    enqueue(f, lane_with(1, 2), 1);
    enqueue(f, lane_with(1, 3), 1);
    enqueue(f, lane(1), 1);
    assert_int_equal(take(f, 10), 6);
    assert_set(f, 1, 2, 3, 4, 5, 6);
}

/* The fact of an earlier item comes before its read. Until then the workspace waits, and other workspaces do not. */
static void a_lane_waits_for_the_read_of_an_earlier_item_of_its_workspace(void **state)
{
    struct fixture *f = *state;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 100);
    learn_handlers(f, WORKER, 1);
    learn_handlers(f, WORKER, 2);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    f->limits[1].slots_max = f->limits[2].slots_max = 100;
    enqueue_at(f, lane_with(1, 1), 50);
    enqueue_at(f, lane_with(1, 1), 70);
    enqueue_at(f, lane_with(2, 1), 90);
    read_all(f);
    enqueue_at(f, lane_with(1, 2), 60);
    assert_int_equal(assign(f, 10), 2); /* the item of rank 50, and the other workspace */
    assert_set(f, 1, 3);
    settle(f, ASSIGNMENT_TAKEN);
    assert_true(scheduler_has_work(f->scheduler, 0));
    assert_int_equal(take(f, 10), 2);
    assert_set(f, 4, 2);
    assert_false(scheduler_has_work(f->scheduler, 0));
}

/* No node can serve the earlier item, so no read of it follows. */
static void a_lane_does_not_wait_for_one_of_another_share(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 10, 0);
    enqueue_at(f, lane_with(1, 1), 70);
    read_all(f);
    enqueue_at(f, lane_with(1, 2), 60);
    enqueue_at(f, lane(1), 65);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 1);
}

static void a_workspace_gets_no_more_turns_by_using_more_handlers(void **state)
{
    struct fixture *f = *state;
    size_t of_first = 0;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 1000);
    for (int64_t set = 1; set <= 5; set++) {
        learn_handlers(f, WORKER, set);
        enqueue(f, lane_with(1, set), 20);
    }
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    f->limits[1].slots_max = f->limits[2].slots_max = 1000;
    enqueue(f, lane_with(2, 1), 100);
    for (int turn = 0; turn < 40; turn++) {
        assert_int_equal(take(f, 1), 1);
        of_first += lane_workspace_id(f->set[0].lane_id) == 1 ? 1 : 0;
    }
    assert_in_range(of_first, 19, 21);
}

/* The first workspace is served well by NODE. Only that must not keep it from WORKER. */
static void turns_on_one_node_cost_none_on_another(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 1, 0);
    f->limits[1].slots_max = f->limits[2].slots_max = 1000;
    enqueue(f, lane(1), 300);
    enqueue(f, lane_with(1, 1), 20);
    enqueue(f, lane_with(2, 1), 20);
    size_t of_first = 0;
    for (int round = 0; round < 20; round++) {
        int64_t lane_id = 0;
        read_all(f);
        (void)assign(f, 10);
        settle(f, ASSIGNMENT_TAKEN);
        for (size_t i = 0; i < f->set_count; i++) {
            lane_id = f->set[i].node_id == WORKER && lane_handler_set(f->set[i].lane_id) == 1 ? f->set[i].lane_id : lane_id;
            if (f->set[i].node_id == WORKER) {
                learn_end(f, f->set[i].lane_id, WORKER);
            }
        }
        of_first += lane_id != 0 && lane_workspace_id(lane_id) == 1 ? 1 : 0;
    }
    assert_in_range(of_first, 8, 12);
}

static void a_node_with_the_same_handlers_changes_no_turn(void **state)
{
    struct fixture *f = *state;
    struct lane_pass passes[10];
    size_t of_first = 0;
    f->limits[1].slots_max = f->limits[2].slots_max = 1000;
    learn_workers(f, 1000, 0);
    enqueue(f, lane_with(1, 1), 100);
    for (int turn = 0; turn < 30; turn++) {
        assert_int_equal(take(f, 1), 1);
    }
    enqueue(f, lane_with(2, 1), 100);
    (void)scheduler_take_passes(f->scheduler, passes, 10);
    learn_workers(f, 1000, 1);
    assert_int_equal(scheduler_take_passes(f->scheduler, passes, 10), 0); /* the books stay as they are */
    for (int turn = 0; turn < 20; turn++) {
        assert_int_equal(take(f, 1), 1);
        of_first += f->set[0].lane_id == lane_with(1, 1) ? 1 : 0;
    }
    assert_in_range(of_first, 9, 11);
}

/* The sets 1 and 2 have nodes of their own at first, then WORKER alone has both. */
static void lanes_that_come_to_share_their_nodes_take_fair_turns(void **state)
{
    struct fixture *f = *state;
    size_t of_first = 0;
    f->limits[1].slots_max = f->limits[2].slots_max = 1000;
    learn_workers(f, 1000, 2);
    enqueue(f, lane_with(1, 1), 200);
    for (int turn = 0; turn < 60; turn++) {
        assert_int_equal(take(f, 1), 1);
    }
    enqueue(f, lane_with(2, 2), 200);
    for (int turn = 0; turn < 10; turn++) {
        assert_int_equal(take(f, 2), 2); /* one on each */
    }
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 1000);
    learn_handlers(f, WORKER, 1);
    learn_handlers(f, WORKER, 2);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    for (int turn = 0; turn < 20; turn++) {
        assert_int_equal(take(f, 1), 1);
        of_first += f->set[0].lane_id == lane_with(1, 1) ? 1 : 0;
    }
    assert_in_range(of_first, 9, 11);
}

static void a_handed_over_item_goes_to_a_node_with_its_handlers(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 10, 0);
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane_with(1, 2), .slots = 2});
    learn_handed_over(f, lane_with(1, 2), 70);
    learn_handed_over(f, lane_with(1, 1), 71);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 71);
    assert_int_equal(f->set[0].node_id, WORKER);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(assign(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn_workers(f, 10, 2);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 70);
    assert_int_equal(f->set[0].node_id, OTHER_WORKER);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_suspect_goes_to_a_node_with_its_handlers(void **state)
{
    struct fixture *f = *state;
    learn_workers(f, 10, 0);
    for (int64_t suspicion = 2; suspicion <= 4; suspicion += 2) {
        struct schedule_fact fact = {.kind = FACT_HANDED_OVER, .lane_id = lane_with(suspicion, 1), .suspicion = suspicion};
        set_id(fact.id, (uint64_t)suspicion);
        learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = fact.lane_id, .slots = 1});
        learn(f, fact);
        f->now_us += INT64_C(3600) * 1000000;
        assert_int_equal(assign(f, 10), 1);
        assert_int_equal(f->set[0].node_id, WORKER);
        settle(f, ASSIGNMENT_TAKEN);
        learn_end(f, fact.lane_id, WORKER); /* an item in quarantine needs an empty node */
        learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
        learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
    }
}

static void passes_of_lanes_with_handlers_survive_a_takeover(void **state)
{
    struct fixture *f = *state;
    struct lane_pass passes[10];
    learn_workers(f, 1000, 0);
    enqueue(f, lane_with(1, 1), 50);
    enqueue(f, lane_with(2, 1), 50);
    for (int turn = 0; turn < 7; turn++) { /* the first has had one more */
        assert_int_equal(take(f, 1), 1);
    }
    size_t count = scheduler_take_passes(f->scheduler, passes, 10);
    assert_int_equal(count, 2);
    scheduler_clear(f->scheduler);
    learn_workers(f, 1000, 0);
    for (size_t i = 0; i < count; i++) {
        learn(f, (struct schedule_fact){.kind = FACT_PASS, .lane_id = passes[i].lane_id, .pass = passes[i].pass});
        learn_runnable(f, passes[i].lane_id, INT64_MIN);
    }
    assert_int_equal(take(f, 1), 1);
    assert_int_equal(f->set[0].lane_id, lane_with(2, 1));
}

static void facts_of_handlers_that_cannot_be_are_refused(void **state)
{
    struct fixture *f = *state;
    const int64_t sets[] = {0, -1, HANDLER_SET_MOST + 1};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct schedule_fact fact = {.kind = FACT_NODE_HANDLERS, .node_id = NODE, .handler_set = sets[i]};
        assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    }
    struct schedule_fact unlisted = {.kind = FACT_NODE_HANDLERS, .node_id = NODE + 50, .handler_set = 1};
    assert_int_equal(scheduler_learn(f->scheduler, &unlisted), WEIR_OK);
    learn_handlers(f, NODE, HANDLER_SET_MOST);
    enqueue(f, lane_with(1, HANDLER_SET_MOST), 1);
    enqueue(f, lane_with(1, HANDLER_SET_MOST - 1), 1);
    assert_int_equal(take(f, 10), 1);
    assert_set(f, 1);
}

static void an_id_of_a_lane_keeps_its_parts(void **state)
{
    (void)state;
    int64_t id = lane_for_demand(lane_id_of(GROUP_ID_MOST, INT32_MAX), demand_of(HANDLER_SET_MOST, true));
    assert_true(id > 0);
    assert_int_equal(lane_group_id(id), GROUP_ID_MOST);
    assert_int_equal(lane_workspace_id(id), INT32_MAX);
    assert_int_equal(lane_handler_set(id), HANDLER_SET_MOST);
    assert_true(lane_is_on_temporal(id));
    assert_int_equal(lane_pool_id(id), pool_id_of(GROUP_ID_MOST, true));
    id = lane_for_demand(lane_id_of(1, 1), demand_of(1, false));
    assert_int_equal(lane_handler_set(id), 1);
    assert_false(lane_is_on_temporal(id));
}

/* One node serves both shares, the other one of them, and each has one place. */
static void shares_with_a_node_in_common_take_turns_when_places_return_one_by_one(void **state)
{
    struct fixture *f = *state;
    size_t of_second = 0;
    f->limits[1].slots_max = f->limits[2].slots_max = 1000;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 1);
    learn_handlers(f, WORKER, 1);
    learn_node(f, OTHER_WORKER, GROUP, 1);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    enqueue(f, lane(1), 300);
    enqueue(f, lane_with(2, 1), 20);
    int64_t on_worker = 0;
    int64_t on_other = 0;
    for (int round = 0; round < 100; round++) {
        read_all(f);
        (void)assign(f, 10);
        settle(f, ASSIGNMENT_TAKEN);
        for (size_t i = 0; i < f->set_count; i++) {
            *(f->set[i].node_id == WORKER ? &on_worker : &on_other) = f->set[i].lane_id;
            of_second += lane_handler_set(f->set[i].lane_id) == 1 ? 1 : 0;
        }
        learn_end(f, round % 2 == 0 ? on_worker : on_other, round % 2 == 0 ? WORKER : OTHER_WORKER);
    }
    assert_true(of_second > 10);
}

/* Its former share has left it behind: it has no claim to the turns that it did not want. */
static void an_idle_lane_that_moves_to_another_share_brings_no_turns(void **state)
{
    struct fixture *f = *state;
    size_t of_first = 0;
    for (int i = 1; i <= 9; i++) {
        f->limits[i].slots_max = 10000;
    }
    learn_workers(f, 10000, 2);
    enqueue(f, lane(9), 1);
    assert_int_equal(take(f, 10), 1);
    learn_end(f, lane(9), f->set[0].node_id);
    enqueue(f, lane_with(1, 2), 1);
    assert_int_equal(take(f, 10), 1);
    learn_end(f, lane_with(1, 2), f->set[0].node_id);
    enqueue(f, lane_with(2, 2), 500);
    for (int turn = 0; turn < 500; turn++) {
        assert_int_equal(take(f, 1), 1);
    }
    enqueue(f, lane_with(1, 1), 600);
    enqueue(f, lane_with(3, 1), 600);
    for (int turn = 0; turn < 500; turn++) {
        assert_int_equal(take(f, 1), 1);
    }
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, NODE, GROUP, 1000);
    learn_node(f, WORKER, GROUP, 10000);
    learn_handlers(f, WORKER, 1);
    learn_handlers(f, WORKER, 2);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    for (int turn = 0; turn < 300; turn++) {
        assert_int_equal(take(f, 1), 1);
        of_first += f->set[0].lane_id == lane_with(1, 1) ? 1 : 0;
    }
    assert_in_range(of_first, 140, 160);
}

/* Others hold its first items, so it is not read for a moment. */
static void a_lane_does_not_wait_for_one_that_rests(void **state)
{
    struct fixture *f = *state;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 1000);
    learn_handlers(f, WORKER, 1);
    learn_handlers(f, WORKER, 2);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    enqueue(f, lane_with(1, 1), 20 * LANE_LOCKED_RUN_MOST);
    do {
        read_all(f);
        (void)assign(f, 1000);
        settle(f, ASSIGNMENT_LOCKED);
    } while (f->set_count > 0);
    enqueue(f, lane_with(1, 2), 1);
    read_all(f);
    assert_int_equal(assign(f, 1000), 1);
    assert_int_equal(f->set[0].lane_id, lane_with(1, 2));
}

/* The first workspace has one turn of fifty and has just had it, by its lane of the set 1. WORKER then gets the set 2. */
static void a_lane_that_moves_to_another_share_brings_its_workspace_no_earlier_turn(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = f->limits[2].slots_max = 1000;
    f->limits[2].weight = 50;
    learn_workers(f, 1000, 2);
    enqueue(f, lane_with(1, 1), 20);
    enqueue(f, lane_with(2, 1), 100);
    assert_int_equal(take(f, 1), 1);
    assert_int_equal(f->set[0].lane_id, lane_with(1, 1));
    enqueue(f, lane_with(1, 2), 20);
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, WORKER, GROUP, 1000);
    learn_handlers(f, WORKER, 1);
    learn_handlers(f, WORKER, 2);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    for (int turn = 0; turn < 40; turn++) {
        assert_int_equal(take(f, 1), 1);
        assert_int_equal(f->set[0].lane_id, lane_with(2, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rule(an_item_goes_only_to_a_node_with_its_handlers),
        rule(an_item_that_no_node_can_run_delays_no_other_and_takes_no_slot),
        rule(a_node_that_comes_with_the_handlers_gets_the_waiting_items_at_once),
        rule(a_node_that_lost_its_handlers_gets_nothing_more_of_them),
        rule(a_full_worker_delays_no_item_of_another_one),
        rule(the_items_of_a_workspace_start_in_their_order_whatever_they_need),
        rule(a_lane_waits_for_the_read_of_an_earlier_item_of_its_workspace),
        rule(a_lane_does_not_wait_for_one_of_another_share),
        rule(a_workspace_gets_no_more_turns_by_using_more_handlers),
        rule(turns_on_one_node_cost_none_on_another),
        rule(a_node_with_the_same_handlers_changes_no_turn),
        rule(lanes_that_come_to_share_their_nodes_take_fair_turns),
        rule(a_handed_over_item_goes_to_a_node_with_its_handlers),
        rule(a_suspect_goes_to_a_node_with_its_handlers),
        rule(passes_of_lanes_with_handlers_survive_a_takeover),
        rule(facts_of_handlers_that_cannot_be_are_refused),
        rule(an_id_of_a_lane_keeps_its_parts),
        rule(an_idle_lane_that_moves_to_another_share_brings_no_turns),
        rule(shares_with_a_node_in_common_take_turns_when_places_return_one_by_one),
        rule(a_lane_does_not_wait_for_one_that_rests),
        rule(a_lane_that_moves_to_another_share_brings_its_workspace_no_earlier_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
