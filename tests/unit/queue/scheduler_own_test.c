/* Items that wait for the own node (scheduler_keep_for_own()): which ones do, and that the others go to other nodes. */
#include "unit/queue/scheduler_fixture.h"

static void learn_node_with_handlers(struct fixture *f, int64_t node_id, int64_t capacity, int64_t handler_set)
{
    learn_node(f, node_id, GROUP, capacity);
    learn(f, (struct schedule_fact){.kind = FACT_NODE_HANDLERS, .node_id = node_id, .handler_set = handler_set});
}

static void what_the_own_node_has_no_room_for_waits_for_it(void **state)
{
    struct fixture *f = *state;
    learn_node(f, OWN_NODE, GROUP, 500);
    enqueue(f, lane(1), 10);
    read_all(f);
    scheduler_keep_for_own(f->scheduler, true);
    assert_int_equal(assign_own(f, OWN_NODE, 1, 4), 1);
    assert_int_equal(f->set[0].node_id, OWN_NODE);
    settle(f, ASSIGNMENT_TAKEN);
    assert_true(scheduler_has_work(f->scheduler, 0)); /* so the next round follows */
    assert_int_equal(assign_own(f, OWN_NODE, 1, 4), 1);
    assert_int_equal(f->set[0].rank, 2); /* in the order of the lane */
    assert_int_equal(f->set[0].node_id, OWN_NODE);
    settle(f, ASSIGNMENT_TAKEN);
    scheduler_keep_for_own(f->scheduler, false);
    assert_int_equal(assign_own(f, OWN_NODE, 1, 2), 2);
    assert_int_equal(f->set[0].node_id, OWN_NODE);
    assert_int_equal(f->set[1].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
}

static void what_the_own_node_cannot_run_waits_for_no_node(void **state)
{
    struct fixture *f = *state;
    int64_t of_own = lane_for_demand(lane(1), demand_of(1, false));
    int64_t of_other = lane_for_demand(lane(2), demand_of(2, false));
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node_with_handlers(f, OWN_NODE, 500, 1);
    learn_node_with_handlers(f, NODE, 500, 2);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    enqueue(f, of_own, 3);
    enqueue(f, of_other, 3);
    read_all(f);
    scheduler_keep_for_own(f->scheduler, true);
    assert_int_equal(assign_own(f, OWN_NODE, 1, 10), 4);
    for (size_t i = 0; i < f->set_count; i++) {
        assert_int_equal(f->set[i].node_id, f->set[i].lane_id == of_own ? OWN_NODE : NODE);
    }
    settle(f, ASSIGNMENT_TAKEN);
}

static void nothing_waits_for_an_own_node_that_does_not_accept(void **state)
{
    struct fixture *f = *state;
    learn(f, (struct schedule_fact){.kind = FACT_NODE, .node_id = OWN_NODE, .group_id = GROUP, .capacity = 500});
    enqueue(f, lane(1), 3);
    read_all(f);
    scheduler_keep_for_own(f->scheduler, true);
    assert_int_equal(assign_own(f, OWN_NODE, 0, 10), 3);
    assert_int_equal(f->set[0].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
}

static void nothing_waits_for_an_own_node_of_another_group(void **state)
{
    struct fixture *f = *state;
    learn_node(f, OWN_NODE, OTHER_GROUP, 500);
    enqueue(f, lane(1), 3);
    read_all(f);
    scheduler_keep_for_own(f->scheduler, true);
    assert_int_equal(assign_own(f, OWN_NODE, 1, 10), 3);
    assert_int_equal(f->set[0].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_handed_over_item_of_another_target_does_not_wait(void **state)
{
    struct fixture *f = *state;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node_of_target(f, OWN_NODE, 1, 500);
    learn_node_of_target(f, NODE, 2, 500);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .slots = 2});
    learn_handed_over_of_target(f, lane(1), 1, 77);
    learn_handed_over_of_target(f, lane(1), 2, 78);
    scheduler_keep_for_own(f->scheduler, true);
    assert_int_equal(assign_own(f, OWN_NODE, 0, 10), 1);
    assert_int_equal(number_of(f->set[0].id), 78);
    assert_int_equal(f->set[0].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rule(what_the_own_node_has_no_room_for_waits_for_it),     rule(what_the_own_node_cannot_run_waits_for_no_node),
        rule(nothing_waits_for_an_own_node_that_does_not_accept), rule(nothing_waits_for_an_own_node_of_another_group),
        rule(a_handed_over_item_of_another_target_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
