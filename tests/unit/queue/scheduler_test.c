/* The rules of the scheduler, one by one: reads, limits, pauses, nodes, outcomes. */
#include "scheduler_fixture.h"

/* --- facts and reads before assignments --- */

static void nothing_is_assigned_before_limits_and_heads_are_read(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 1);
    assert_true(scheduler_has_work(f->scheduler, 0));
    assert_int_equal(assign(f, 10), 0);
    assert_int_equal(want(f), 1);
    assert_int_equal(f->reads[0].lane_id, lane(1));
    assert_in_range(f->reads[0].most, 1, 4);
    assert_int_equal(want(f), 0); /* its read is under way */
    answer(f, (struct lane_read){.lane_id = lane(1), .after_rank = INT64_MIN, .most = 4});
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 1);
    assert_int_equal(f->set[0].node_id, NODE);
    assert_int_equal(held(f), 1);
    settle(f, ASSIGNMENT_TAKEN);
    assert_false(scheduler_has_work(f->scheduler, 0));
}

static void a_lane_is_served_by_rank_and_id(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 50);
    enqueue_at(f, lane(1), 20);
    enqueue_at(f, lane(1), 20);
    enqueue_at(f, lane(1), -7);
    read_all(f);
    assert_int_equal(assign(f, 10), 4);
    assert_set(f, 4, 2, 3, 1);
    settle(f, ASSIGNMENT_TAKEN);
}

static void an_item_of_lower_rank_goes_before_known_heads(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 100);
    enqueue_at(f, lane(1), 200);
    read_all(f);
    enqueue_at(f, lane(1), 150);
    enqueue_at(f, lane(1), 200);
    read_all(f);
    assert_int_equal(assign(f, 10), 4);
    assert_set(f, 1, 3, 2, 4);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_read_begins_at_the_first_new_item(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 3);
    assert_int_equal(take(f, 3), 3);
    enqueue(f, lane(1), 1);
    assert_int_equal(want(f), 1);
    assert_int_equal(f->reads[0].after_rank, 4);
    assert_int_equal(number_of(f->reads[0].after_id), 0);
    answer(f, f->reads[0]);
    learn_runnable(f, lane(1), INT64_MIN); /* for example at a load */
    assert_int_equal(want(f), 1);
    assert_int_equal(f->reads[0].after_rank, INT64_MIN);
    assert_int_equal(number_of(f->reads[0].after_id), 0);
}

static void a_fact_that_comes_while_a_read_is_under_way_is_not_lost(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 100);
    enqueue_at(f, lane(1), 300);
    assert_int_equal(want(f), 1);
    struct lane_read read = f->reads[0];
    /* The answer was made before row 3; its fact is learnt before the answer. */
    answer(f, read);
    assert_int_equal(want(f), 0);
    learn_runnable(f, lane(1), 100);
    assert_int_equal(want(f), 1);
    read = f->reads[0];
    f->rows[f->row_count++] = (struct row){.lane_id = lane(1), .head = {.rank = 200}, .state = ROW_GONE};
    set_id(f->rows[2].head.id, 3);
    learn_runnable(f, lane(1), 200);
    answer(f, read);
    f->rows[2].state = ROW_RUNNABLE;
    read_all(f);
    assert_int_equal(assign(f, 10), 3);
    assert_set(f, 1, 3, 2);
    settle(f, ASSIGNMENT_TAKEN);
}

static void heads_behind_a_gap_are_not_used(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 100);
    enqueue_at(f, lane(1), 300);
    read_all(f);
    struct lane_read late = {.lane_id = lane(1), .after_rank = 250, .most = 4};
    learn_runnable(f, lane(1), 50); /* now the lane is read up to 50 only */
    answer(f, late);
    assert_int_equal(assign(f, 10), 0);
    read_all(f);
    assert_int_equal(assign(f, 10), 2);
    assert_set(f, 1, 2);
    settle(f, ASSIGNMENT_TAKEN);
}

static void reads_grow_with_the_demand(void **state)
{
    struct fixture *f = *state;
    size_t most_seen = 0;
    f->limits[1].slots_max = 100000;
    learn_node(f, NODE, GROUP, 100000);
    enqueue(f, lane(1), 3000);
    for (int round = 0; round < 8; round++) {
        (void)want(f);
        for (size_t i = 0; i < f->read_count; i++) {
            most_seen = f->reads[i].most > most_seen ? f->reads[i].most : most_seen;
            answer(f, f->reads[i]);
        }
        (void)assign(f, SET_MOST);
        settle(f, ASSIGNMENT_TAKEN);
    }
    assert_int_equal(most_seen, SCHEDULER_LANE_HEADS_MOST);
    assert_int_equal(held(f), 3000);
}

static void reads_of_a_small_lane_stay_small(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    enqueue(f, lane(1), 300);
    for (int round = 0; round < 300; round++) {
        (void)want(f);
        for (size_t i = 0; i < f->read_count; i++) {
            assert_in_range(f->reads[i].most, 1, LANE_READ_SLOW_MOST);
            answer(f, f->reads[i]);
        }
        if (assign(f, 10) > 0) {
            assert_int_equal(f->set_count, 1);
            settle(f, ASSIGNMENT_TAKEN);
            learn_end(f, lane(1), NODE);
        }
    }
    struct scheduler_figures figures;
    scheduler_figures(f->scheduler, &figures);
    assert_in_range(figures.heads, 0, LANE_READ_SLOW_MOST * 3 / 2);
}

/* --- limits --- */

static void a_workspace_never_holds_more_than_its_cap(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 2;
    enqueue(f, lane(1), 5);
    read_all(f);
    assert_int_equal(assign(f, 10), 2);
    assert_false(f->set[0].others_wait);
    assert_true(f->set[1].others_wait);
    settle(f, ASSIGNMENT_TAKEN);
    assert_false(scheduler_has_work(f->scheduler, 0));
    assert_int_equal(assign(f, 10), 0);
    learn_end(f, lane(1), NODE);
    assert_true(scheduler_has_work(f->scheduler, 0));
    assert_int_equal(take(f, 10), 1);
    assert_set(f, 3);
    assert_int_equal(held(f), 2);
}

static void the_cap_counts_across_groups(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE + 5, OTHER_GROUP, 10);
    f->limits[1].slots_max = 3;
    enqueue(f, lane(1), 3);
    enqueue(f, lane_id_of(OTHER_GROUP, 1), 3);
    assert_int_equal(take(f, 10), 3);
    assert_int_equal(held(f), 3);
    learn_end(f, lane(1), NODE);
    assert_int_equal(take(f, 10), 1);
}

static void the_last_item_leaves_nobody_waiting(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 2;
    enqueue(f, lane(1), 2);
    read_all(f);
    assert_int_equal(assign(f, 10), 2);
    assert_false(f->set[1].others_wait);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_lowered_cap_is_obeyed_from_its_fact_on(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 4;
    enqueue(f, lane(1), 8);
    assert_int_equal(take(f, 3), 3);
    f->limits[1].slots_max = 1;
    learn_limits(f, 1);
    assert_int_equal(take(f, 10), 0);
    learn_end(f, lane(1), NODE);
    learn_end(f, lane(1), NODE);
    assert_int_equal(take(f, 10), 0);
    f->limits[1].slots_max = 2;
    learn_limits(f, 1);
    assert_int_equal(take(f, 10), 1);
    assert_set(f, 4);
}

static void an_assignment_tells_since_when_its_slot_was_free(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    enqueue(f, lane(1), 4);
    f->now_us = 1000;
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(f->set[0].slot_since_us, 0); /* it was never full */
    f->now_us = 2000;
    assert_int_equal(take(f, 10), 0);
    learn_end(f, lane(1), NODE);
    f->now_us = 3000;
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(f->set[0].slot_since_us, 2000);
    assert_int_equal(f->set[0].resumed_us, 0);
    f->now_us = 4000;
    assert_int_equal(take(f, 10), 0);
    f->limits[1].slots_max = 2; /* a larger plan is a free slot, too */
    learn_limits(f, 1);
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(f->set[0].slot_since_us, 4000);
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = true});
    learn_end(f, lane(1), NODE);
    f->now_us = 5000;
    assert_int_equal(take(f, 10), 0);
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = false});
    f->now_us = 6000;
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(f->set[0].resumed_us, 5000);
}

static void held_slots_count_before_the_limits_are_known(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 3;
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .node_id = 7, .slots = 2, .node_held = 2});
    enqueue(f, lane(1), 5);
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(held(f), 3);
}

static void a_count_below_zero_is_refused(void **state)
{
    struct fixture *f = *state;
    struct schedule_fact fact = {.kind = FACT_HELD, .lane_id = lane(1), .slots = -1};
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    fact = (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .node_id = NODE, .node_held = -1};
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    fact = (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .node_id = 5, .node_held = -1};
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    scheduler_clear(f->scheduler);
    assert_int_equal(held(f), 0);
}

/* Of damaged rows: their sum would overflow. */
static void a_count_that_no_rows_can_have_is_refused(void **state)
{
    struct fixture *f = *state;
    struct schedule_fact fact = {.kind = FACT_HELD, .lane_id = lane(1), .slots = INT64_MAX};
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    fact = (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .node_id = 5, .node_held = INT64_MAX};
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    enum weir_status status = WEIR_OK;
    for (int64_t workspace = 1; workspace <= 8 && status == WEIR_OK; workspace++) {
        fact = (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(workspace), .slots = INT64_MAX / 5};
        status = scheduler_learn(f->scheduler, &fact);
    }
    assert_int_equal(status, WEIR_STORE_CORRUPT);
    scheduler_clear(f->scheduler);
    assert_int_equal(held(f), 0);
}

static void a_lane_that_no_row_can_have_is_refused(void **state)
{
    struct fixture *f = *state;
    const int64_t lanes[] = {lane_id_of(0, 1), lane_id_of(GROUP, 0), -lane(1)};
    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
        struct schedule_fact fact = {.kind = FACT_RUNNABLE, .lane_id = lanes[i], .rank = 1};
        assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT);
    }
    assert_int_equal(take(f, 10), 0);
}

static void an_answer_out_of_order_is_refused(void **state)
{
    struct fixture *f = *state;
    struct schedule_head heads[2] = {{.rank = 2}, {.rank = 1}};
    enqueue(f, lane(1), 1);
    struct lane_read read = {.lane_id = lane(1), .heads = heads, .count = 2, .workspace_exists = true};
    assert_int_equal(scheduler_take_heads(f->scheduler, &read), WEIR_STORE_CORRUPT);
}

static void limits_are_read_again_after_a_change_of_any(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    enqueue(f, lane(1), 3);
    assert_int_equal(take(f, 10), 1);
    assert_false(scheduler_has_work(f->scheduler, 0));
    f->limits[1].slots_max = 2;
    learn(f, (struct schedule_fact){.kind = FACT_WORKSPACES});
    assert_int_equal(assign(f, 10), 0);
    assert_int_equal(want(f), 1);
    answer(f, f->reads[0]);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 2);
    settle(f, ASSIGNMENT_TAKEN);
}

/* --- pauses --- */

static void nothing_of_a_paused_workspace_is_assigned(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 2);
    enqueue(f, lane(2), 1);
    read_all(f);
    f->limits[1].paused = true;
    learn_limits(f, 1);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 3);
    settle(f, ASSIGNMENT_TAKEN);
    assert_false(scheduler_has_work(f->scheduler, 0));
    f->limits[1].paused = false;
    learn_limits(f, 1);
    assert_int_equal(take(f, 10), 2);
}

static void nothing_of_a_paused_group_or_queue_is_assigned(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE + 5, OTHER_GROUP, 10);
    enqueue(f, lane(1), 1);
    enqueue(f, lane_id_of(OTHER_GROUP, 2), 2);
    read_all(f);
    learn(f, (struct schedule_fact){.kind = FACT_GROUP, .group_id = GROUP, .paused = true});
    assert_int_equal(assign(f, 1), 1);
    assert_set(f, 2);
    settle(f, ASSIGNMENT_TAKEN);
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = true});
    assert_int_equal(take(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn(f, (struct schedule_fact){.kind = FACT_GROUP, .group_id = GROUP, .paused = false});
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = false});
    assert_int_equal(take(f, 10), 2);
}

static void handed_over_items_go_first_and_need_no_slot(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .slots = 1});
    enqueue(f, lane(1), 1);
    enqueue(f, lane(2), 1);
    read_all(f);
    learn_handed_over(f, lane(1), 77);
    learn_handed_over(f, lane(1), 77); /* reported twice, known once */
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = true});
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 77);
    assert_true(f->set[0].handed_over);
    settle(f, ASSIGNMENT_UNDONE);
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = false});
    assert_int_equal(assign(f, 10), 2);
    assert_set(f, 77, 2);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(held(f), 2);
}

static void an_item_waits_for_a_node_with_its_kind_of_engine(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 10);
    enqueue(f, lane(1) | LANE_ON_TEMPORAL, 2);
    enqueue(f, lane(2), 1);
    assert_int_equal(assign(f, 10), 0);
    read_all(f);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 3);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(assign(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, f->now_us));
    learn_node_on_temporal(f, OWN_NODE, 7, 10);
    read_all(f);
    assert_int_equal(assign(f, 10), 2);
    assert_set(f, 1, 2);
    assert_int_equal(f->set[0].node_id, OWN_NODE);
}

/* An item without a target was surely not started, but its definition still needs an engine of one kind. */
static void a_handed_over_item_waits_for_a_node_with_its_kind_of_engine(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 10);
    learn_handed_over(f, lane(1) | LANE_ON_TEMPORAL, 70);
    assert_int_equal(assign(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, f->now_us));
    learn_node_on_temporal(f, OWN_NODE, 7, 10);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 70);
    assert_int_equal(f->set[0].node_id, OWN_NODE);
}

static void the_pause_of_a_group_and_the_cap_hold_for_both_kinds_of_engine(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    learn_node(f, NODE, GROUP, 10);
    learn_node_on_temporal(f, OWN_NODE, 7, 10);
    enqueue(f, lane(1) | LANE_ON_TEMPORAL, 1);
    enqueue(f, lane(1), 1);
    learn(f, (struct schedule_fact){.kind = FACT_GROUP, .group_id = GROUP, .paused = true});
    read_all(f);
    assert_int_equal(assign(f, 10), 0);
    learn(f, (struct schedule_fact){.kind = FACT_GROUP, .group_id = GROUP, .paused = false});
    read_all(f);
    assert_int_equal(assign(f, 10), 1);
}

static void handed_over_items_wait_for_a_node_with_room(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 1);
    learn_handed_over(f, lane(1), 70);
    learn_handed_over(f, lane(1), 71);
    learn_handed_over(f, lane_id_of(OTHER_GROUP, 1), 72);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 70);
    settle(f, ASSIGNMENT_GONE);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 71);
    settle(f, ASSIGNMENT_LOCKED);
    assert_int_equal(assign(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, f->now_us));
    assert_int_equal(scheduler_next_us(f->scheduler), LOCKED_RETRY_US);
    f->now_us = LOCKED_RETRY_US;
    assert_true(scheduler_has_work(f->scheduler, f->now_us));
    assert_int_equal(assign(f, 10), 1);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(scheduler_next_us(f->scheduler), TIME_NEVER);
    assert_int_equal(assign(f, 10), 0);
}

static void a_handed_over_item_goes_to_a_node_of_its_target_only(void **state)
{
    struct fixture *f = *state;
    learn_node_of_target(f, NODE, 1, 10);
    learn_node_of_target(f, NODE + 1, 3, 10);
    learn_handed_over_of_target(f, lane(1), 2, 70);
    learn_handed_over_of_target(f, lane(1), 1, 71);
    learn_handed_over_of_target(f, lane(1), 0, 72); /* surely not started: anybody may have it */
    learn_handed_over_of_target(f, lane(1), 3, 73);
    assert_int_equal(assign(f, 10), 3); /* an item for the target of no node delays no other */
    assert_set(f, 71, 72, 73);
    assert_int_equal(f->set[0].node_id, NODE);
    assert_int_equal(f->set[2].node_id, NODE + 1);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(assign(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, f->now_us)); /* it waits for a fact, not for another call */
    learn_node_of_target(f, NODE + 2, 2, 10);
    assert_true(scheduler_has_work(f->scheduler, f->now_us));
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 70);
    assert_int_equal(f->set[0].node_id, NODE + 2);
    settle(f, ASSIGNMENT_TAKEN);
}

/* --- nodes --- */

static void the_own_node_is_preferred_while_it_has_room(void **state)
{
    struct fixture *f = *state;
    learn_node(f, OWN_NODE, GROUP, 500);
    enqueue(f, lane(1), 10);
    read_all(f);
    assert_int_equal(assign_own(f, OWN_NODE, 2, 4), 4);
    assert_int_equal(f->set[0].node_id, OWN_NODE);
    assert_int_equal(f->set[1].node_id, OWN_NODE);
    assert_int_equal(f->set[2].node_id, NODE);
    assert_int_equal(f->set[3].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
}

static void the_own_node_of_another_group_gets_nothing(void **state)
{
    struct fixture *f = *state;
    learn_node(f, OWN_NODE, OTHER_GROUP, 500);
    enqueue(f, lane(1), 1);
    read_all(f);
    assert_int_equal(assign_own(f, OWN_NODE, 50, 10), 1);
    assert_int_equal(f->set[0].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
}

static void an_end_on_the_own_node_is_room_for_the_next(void **state)
{
    struct fixture *f = *state;
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, OWN_NODE, GROUP, 5);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    enqueue(f, lane(1), 2);
    read_all(f);
    assert_int_equal(assign_own(f, OWN_NODE, 1, 10), 1);
    settle(f, ASSIGNMENT_TAKEN);
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn_node(f, OWN_NODE, GROUP, 5); /* its row has the same value: that of the engine is newer */
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn_end(f, lane(1), OWN_NODE);
    assert_true(scheduler_has_work(f->scheduler, 0));
    assert_int_equal(assign_own(f, OWN_NODE, 0, 10), 0); /* but its engine cannot be reached */
    assert_false(scheduler_has_work(f->scheduler, 0));
}

static void the_node_with_the_most_room_comes_next(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 2);
    learn_node(f, NODE + 1, GROUP, 3);
    learn_node(f, NODE + 2, GROUP, 0);
    enqueue(f, lane(1), 10);
    read_all(f);
    assert_int_equal(assign(f, 10), 4); /* the heads that were read */
    assert_int_equal(f->set[0].node_id, NODE + 1);
    assert_int_equal(f->set[1].node_id, NODE); /* a tie */
    assert_int_equal(f->set[2].node_id, NODE + 1);
    assert_int_equal(f->set[3].node_id, NODE);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(f->set[0].node_id, NODE + 1);
    assert_int_equal(take(f, 10), 0);
}

static void a_node_gets_a_quarter_of_its_capacity_in_a_row(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 9);
    learn_node(f, NODE + 1, GROUP, 9);
    enqueue(f, lane(1), 10);
    for (int set = 0; set < 2; set++) {
        read_all(f);
        assert_int_equal(assign(f, 3), 3);
        assert_int_equal(f->set[0].node_id, set == 0 ? NODE : NODE + 1); /* the next set goes by the most room again */
        assert_int_equal(f->set[1].node_id, f->set[0].node_id);
        assert_int_equal(f->set[2].node_id, set == 0 ? NODE + 1 : NODE);
        settle(f, ASSIGNMENT_TAKEN);
    }
}

static void a_turn_of_a_node_ends_when_the_node_is_full(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 8);
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .node_id = NODE, .node_held = 7});
    learn_node(f, NODE + 1, GROUP, 1);
    enqueue(f, lane(1), 3);
    read_all(f);
    assert_int_equal(assign(f, 3), 2); /* a quarter of the first one's capacity is two */
    assert_int_equal(f->set[0].node_id, NODE);
    assert_int_equal(f->set[1].node_id, NODE + 1);
    settle(f, ASSIGNMENT_TAKEN);
}

/* The items that come one by one join those that were read before, in memory that has room for all of them. */
static void heads_that_come_later_find_room_behind_the_others(void **state)
{
    struct fixture *f = *state;
    enum { BEFORE = 200, MORE = 20 };
    f->limits[1].slots_max = 1000;
    enqueue(f, lane(1), BEFORE); /* reads grow with them */
    for (size_t taken = 0; taken < BEFORE;) {
        taken += take(f, 20);
    }
    enqueue(f, lane(1), 3);
    for (int i = 3; i < MORE; i++) {
        read_all(f);
        enqueue(f, lane(1), 1);
    }
    read_all(f);
    const struct lane *first = table_find(&f->scheduler->lanes, lane(1));
    assert_true(first->first + first->count <= first->capacity);
    assert_int_equal(assign(f, BEFORE), MORE);
    for (int i = 0; i < MORE; i++) {
        assert_int_equal(number_of(f->set[i].id), BEFORE + 1 + i);
    }
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_node_that_does_not_accept_gets_nothing(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 2);
    read_all(f);
    learn(f, (struct schedule_fact){.kind = FACT_NODE, .node_id = NODE, .group_id = GROUP, .capacity = 10});
    assert_int_equal(assign(f, 10), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
    learn_node(f, NODE, GROUP, 10);
    assert_int_equal(assign(f, 10), 2);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_node_that_is_not_listed_is_forgotten_with_its_last_item(void **state)
{
    struct fixture *f = *state;
    struct scheduler_figures figures;
    enqueue(f, lane(1), 3);
    assert_int_equal(take(f, 1), 1);
    learn(f, (struct schedule_fact){.kind = FACT_NODES});
    learn_node(f, NODE + 1, GROUP, 1);
    learn(f, (struct schedule_fact){.kind = FACT_NODES_END});
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(f->set[0].node_id, NODE + 1);
    scheduler_figures(f->scheduler, &figures);
    assert_int_equal(figures.nodes, 2);
    learn_end(f, lane(1), NODE);
    scheduler_figures(f->scheduler, &figures);
    assert_int_equal(figures.nodes, 1);
}

static void items_of_any_lane_leave_their_node_and_keep_their_slots(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 2);
    enqueue(f, lane(1), 2);
    enqueue(f, lane(2), 2);
    assert_int_equal(take(f, 10), 2);
    assert_int_equal(take(f, 10), 0);
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .node_id = NODE, .node_held = -2});
    assert_int_equal(held(f), 2);
    assert_int_equal(take(f, 10), 2);
    struct schedule_fact fact = {.kind = FACT_HELD, .node_id = NODE, .slots = -1, .node_held = -1};
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_STORE_CORRUPT); /* a slot is of a lane */
}

/* --- outcomes --- */

static void an_item_that_is_gone_gives_slot_room_and_turn_back(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    learn_node(f, NODE, GROUP, 1);
    enqueue(f, lane(1), 2);
    enqueue(f, lane(2), 1);
    read_all(f);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 1);
    settle(f, ASSIGNMENT_GONE);
    assert_int_equal(held(f), 0);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 2); /* still this lane's turn */
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_set_that_was_undone_is_dealt_again_alike(void **state)
{
    struct fixture *f = *state;
    struct assignment before[SET_MOST];
    f->limits[1].slots_max = 2;
    f->limits[2].weight = 3;
    enqueue(f, lane(1), 4);
    enqueue(f, lane(2), 10);
    enqueue(f, lane(3), 2);
    read_all(f);
    size_t count = assign(f, 7);
    assert_int_equal(count, 7);
    memcpy(before, f->set, sizeof before);
    settle(f, ASSIGNMENT_UNDONE);
    assert_int_equal(held(f), 0);
    assert_int_equal(assign(f, 7), 7);
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(f->set[i].id, before[i].id, SCHEDULER_ID_BYTES);
        assert_int_equal(f->set[i].node_id, before[i].node_id);
    }
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_locked_item_is_read_again_after_a_delay(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    enqueue(f, lane(1), 3);
    read_all(f);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 1);
    settle(f, ASSIGNMENT_LOCKED);
    assert_int_equal(held(f), 0);
    assert_int_equal(take(f, 10), 1);
    assert_set(f, 2); /* the lane does not wait for it */
    learn_end(f, lane(1), NODE);
    assert_int_equal(scheduler_next_us(f->scheduler), LOCKED_RETRY_US);
    f->now_us = LOCKED_RETRY_US;
    assert_true(scheduler_has_work(f->scheduler, f->now_us));
    assert_int_equal(take(f, 10), 1);
    assert_set(f, 1);
    assert_int_equal(scheduler_next_us(f->scheduler), TIME_NEVER);
}

static void a_node_that_lives_no_more_changes_no_order(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 1);
    learn_node(f, NODE + 1, GROUP, 1);
    enqueue(f, lane(1), 3);
    read_all(f);
    assert_int_equal(assign(f, 10), 2);
    assert_set(f, 1, 2);
    settle(f, ASSIGNMENT_NO_NODE);
    assert_int_equal(held(f), 0);
    assert_int_equal(assign(f, 10), 0); /* both get nothing until they are listed again */
    learn_node(f, NODE, GROUP, 10);
    assert_int_equal(take(f, 10), 3);
    assert_set(f, 1, 2, 3);
}

static void a_lane_of_locked_items_rests(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 100);
    size_t locked = 0;
    for (int round = 0; round < 100; round++) {
        read_all(f);
        locked += assign(f, 10);
        settle(f, ASSIGNMENT_LOCKED);
    }
    assert_in_range(locked, LANE_LOCKED_RUN_MOST, LANE_LOCKED_RUN_MOST + 10);
    assert_int_equal(held(f), 0);
    f->now_us = LOCKED_RETRY_US;
    assert_int_equal(take(f, 1), 1);
    assert_set(f, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rule(nothing_is_assigned_before_limits_and_heads_are_read),
        rule(a_lane_is_served_by_rank_and_id),
        rule(an_item_of_lower_rank_goes_before_known_heads),
        rule(a_read_begins_at_the_first_new_item),
        rule(a_fact_that_comes_while_a_read_is_under_way_is_not_lost),
        rule(heads_behind_a_gap_are_not_used),
        rule(reads_grow_with_the_demand),
        rule(reads_of_a_small_lane_stay_small),
        rule(a_workspace_never_holds_more_than_its_cap),
        rule(the_cap_counts_across_groups),
        rule(the_last_item_leaves_nobody_waiting),
        rule(a_lowered_cap_is_obeyed_from_its_fact_on),
        rule(an_assignment_tells_since_when_its_slot_was_free),
        rule(held_slots_count_before_the_limits_are_known),
        rule(a_count_below_zero_is_refused),
        rule(a_count_that_no_rows_can_have_is_refused),
        rule(a_lane_that_no_row_can_have_is_refused),
        rule(an_answer_out_of_order_is_refused),
        rule(limits_are_read_again_after_a_change_of_any),
        rule(nothing_of_a_paused_workspace_is_assigned),
        rule(nothing_of_a_paused_group_or_queue_is_assigned),
        rule(handed_over_items_go_first_and_need_no_slot),
        rule(an_item_waits_for_a_node_with_its_kind_of_engine),
        rule(a_handed_over_item_waits_for_a_node_with_its_kind_of_engine),
        rule(the_pause_of_a_group_and_the_cap_hold_for_both_kinds_of_engine),
        rule(handed_over_items_wait_for_a_node_with_room),
        rule(a_handed_over_item_goes_to_a_node_of_its_target_only),
        rule(the_own_node_is_preferred_while_it_has_room),
        rule(the_own_node_of_another_group_gets_nothing),
        rule(an_end_on_the_own_node_is_room_for_the_next),
        rule(the_node_with_the_most_room_comes_next),
        rule(a_node_gets_a_quarter_of_its_capacity_in_a_row),
        rule(a_turn_of_a_node_ends_when_the_node_is_full),
        rule(heads_that_come_later_find_room_behind_the_others),
        rule(a_node_that_does_not_accept_gets_nothing),
        rule(a_node_that_is_not_listed_is_forgotten_with_its_last_item),
        rule(items_of_any_lane_leave_their_node_and_keep_their_slots),
        rule(an_item_that_is_gone_gives_slot_room_and_turn_back),
        rule(a_set_that_was_undone_is_dealt_again_alike),
        rule(a_locked_item_is_read_again_after_a_delay),
        rule(a_node_that_lives_no_more_changes_no_order),
        rule(a_lane_of_locked_items_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
