/* The rules for items that may have killed their node, and how the scheduler places them. */
#include "queue/suspicion.h"

#include "queue/limits.h"
#include "scheduler_fixture.h"

enum { QUARANTINE = SUSPICION_QUARANTINE, NODES = 3 };
#define SECOND MICROSECONDS_PER_SECOND

/* --- the pure rules --- */

static void fewer_suspects_run_together_with_each_death(void **state)
{
    (void)state;
    int64_t before = INT64_MAX;
    assert_int_equal(suspicion_limit(0), INT64_MAX);
    assert_int_equal(suspicion_limit(1), INT64_MAX); /* one death may have any cause */
    for (int64_t suspicion = SUSPICION_LIMITED; suspicion <= QUARANTINE; suspicion++) {
        assert_true(suspicion_limit(suspicion) < before);
        before = suspicion_limit(suspicion);
    }
    assert_int_equal(suspicion_limit(QUARANTINE), 1);
    assert_int_equal(suspicion_limit(1000), 1);
}

static void trials_and_delays_double_up_to_a_bound(void **state)
{
    (void)state;
    assert_int_equal(suspicion_delay_us(QUARANTINE - 1), 0);
    assert_true(suspicion_delay_us(QUARANTINE) > 0);
    for (int64_t suspicion = QUARANTINE; suspicion < QUARANTINE + 8; suspicion++) {
        assert_int_equal(suspicion_delay_us(suspicion + 1), 2 * suspicion_delay_us(suspicion));
        assert_int_equal(suspicion_trial_us(suspicion + 1), 2 * suspicion_trial_us(suspicion));
    }
    assert_int_equal(suspicion_delay_us(1000), 300 * SECOND);
    assert_int_equal(suspicion_trial_us(1000), suspicion_trial_us(QUARANTINE + 13));
    assert_true(suspicion_trial_us(1000) > 3600 * SECOND);
}

/* --- placing --- */

static struct schedule_fact suspect(int64_t workspace_id, uint64_t number, int64_t suspicion, int64_t since_us)
{
    struct schedule_fact fact = {
        .kind = FACT_HANDED_OVER, .lane_id = lane(workspace_id), .suspicion = suspicion, .since_us = since_us};
    set_id(fact.id, number);
    return fact;
}

/* Items without a node hold their slots. */
static void learn_suspects(struct fixture *f, int64_t workspace_id, uint64_t first, size_t count, int64_t suspicion)
{
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(workspace_id), .slots = (int64_t)count});
    for (size_t i = 0; i < count; i++) {
        learn(f, suspect(workspace_id, first + i, suspicion, f->now_us));
    }
}

/* Settles the set as taken; the number of those on the node. */
static size_t place(struct fixture *f, int64_t node_id)
{
    size_t on_node = 0;
    (void)assign(f, SET_MOST);
    for (size_t i = 0; i < f->set_count; i++) {
        on_node += f->set[i].node_id == node_id;
    }
    for (size_t i = f->set_count; i-- > 0;) {
        f->set[i].outcome = ASSIGNMENT_TAKEN;
        scheduler_settle(f->scheduler, f->now_us, &f->set[i]);
        check(f);
    }
    return on_node;
}

/* All other items have ended: the list of suspects is empty. */
static void end_suspects(struct fixture *f, int64_t workspace_id, int64_t node_id, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        learn_end(f, lane(workspace_id), node_id);
    }
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
}

static void after_one_death_all_run_again_at_once(void **state)
{
    struct fixture *f = *state;
    learn_suspects(f, 1, 1, 50, 1);
    assert_int_equal(place(f, NODE), 50);
    assert_int_equal(scheduler_needs(f->scheduler), 0); /* they are no suspects that must be followed */
}

static void suspects_of_a_level_wait_for_each_other(void **state)
{
    struct fixture *f = *state;
    int64_t limit = suspicion_limit(SUSPICION_LIMITED);
    learn_suspects(f, 1, 1, 50, SUSPICION_LIMITED);
    assert_int_equal(place(f, NODE), limit);
    assert_int_equal(place(f, NODE), 0);
    learn_end(f, lane(1), NODE);
    assert_int_equal(scheduler_needs(f->scheduler), NEED_HANDED_OVER);
    /* One of them is listed no more, so another one has its place. */
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
    for (uint64_t number = 1; number <= 50; number++) {
        struct schedule_fact fact = suspect(1, number, SUSPICION_LIMITED, f->now_us);
        fact.kind = number <= (uint64_t)limit ? FACT_SUSPECT : FACT_HANDED_OVER;
        fact.node_id = fact.kind == FACT_SUSPECT ? NODE : 0;
        if (number != 1) {
            learn(f, fact);
        }
    }
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
    assert_int_equal(scheduler_needs(f->scheduler), 0);
    assert_int_equal(place(f, NODE), 1);
}

/* An item that runs for long has shown that it does not kill at once. */
static void a_trial_ends_by_time(void **state)
{
    struct fixture *f = *state;
    int64_t limit = suspicion_limit(SUSPICION_LIMITED + 1);
    learn_suspects(f, 1, 1, 50, SUSPICION_LIMITED + 1);
    assert_int_equal(place(f, NODE), limit);
    assert_int_equal(place(f, NODE), 0);
    int64_t end_us = f->now_us + suspicion_trial_us(SUSPICION_LIMITED + 1);
    assert_int_equal(scheduler_next_us(f->scheduler), end_us);
    f->now_us = end_us;
    assert_true(scheduler_has_work(f->scheduler, f->now_us));
    assert_int_equal(place(f, NODE), limit);
}

static void the_more_suspicious_one_limits_its_neighbours(void **state)
{
    struct fixture *f = *state;
    learn_suspects(f, 1, 1, 1, SUSPICION_LIMITED + 1);
    learn_suspects(f, 1, 2, 50, SUSPICION_LIMITED);
    assert_int_equal(place(f, NODE), suspicion_limit(SUSPICION_LIMITED + 1));
}

static void ordinary_items_run_beside_suspects(void **state)
{
    struct fixture *f = *state;
    learn_suspects(f, 1, 1000, 50, SUSPICION_LIMITED);
    enqueue(f, lane(2), 4);
    read_all(f);
    assert_int_equal(place(f, NODE), suspicion_limit(SUSPICION_LIMITED) + 4);
}

/* --- quarantine --- */

static void an_item_in_quarantine_has_an_empty_node_for_itself(void **state)
{
    struct fixture *f = *state;
    f->now_us = 100 * SECOND;
    learn_suspects(f, 1, 1000, 1, QUARANTINE);
    assert_int_equal(place(f, NODE), 0);
    assert_int_equal(scheduler_next_us(f->scheduler), f->now_us + suspicion_delay_us(QUARANTINE));
    enqueue(f, lane(2), 4);
    read_all(f);
    f->now_us += suspicion_delay_us(QUARANTINE);
    assert_int_equal(place(f, NODE), 1);
    assert_set(f, 1000);
    assert_int_equal(place(f, NODE), 0); /* the other items wait */
    end_suspects(f, 1, NODE, 1);
    assert_true(scheduler_has_work(f->scheduler, f->now_us));
    assert_int_equal(place(f, NODE), 4);
}

/* A step of it that ends is no news. */
static void the_others_come_back_within_a_second_when_its_suspicion_is_over(void **state)
{
    struct fixture *f = *state;
    f->now_us = 100 * SECOND;
    learn_suspects(f, 1, 1000, 1, QUARANTINE);
    enqueue(f, lane(2), 4);
    read_all(f);
    f->now_us += suspicion_delay_us(QUARANTINE);
    int64_t began_us = f->now_us;
    assert_int_equal(place(f, NODE), 1);
    for (int call = 0; call < 2; call++) {
        assert_int_equal(scheduler_needs(f->scheduler), 0);
        assert_true(scheduler_has_work(f->scheduler, f->now_us));
        assert_int_equal(place(f, NODE), 0);
        f->now_us = call == 0 ? scheduler_next_us(f->scheduler) : f->now_us;
    }
    assert_int_equal(f->now_us, began_us + SECOND);
    assert_int_equal(scheduler_needs(f->scheduler), NEED_HANDED_OVER);
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
    assert_int_equal(place(f, NODE), 4);
}

static void the_others_come_back_when_its_trial_is_over(void **state)
{
    struct fixture *f = *state;
    f->now_us = 100 * SECOND;
    learn_suspects(f, 1, 1000, 2, QUARANTINE);
    enqueue(f, lane(2), 4);
    read_all(f);
    f->now_us += suspicion_delay_us(QUARANTINE);
    assert_int_equal(place(f, NODE), 1);
    f->now_us += suspicion_trial_us(QUARANTINE) - 1;
    assert_int_equal(place(f, NODE), 0);
    f->now_us++;
    assert_int_equal(place(f, NODE), 4);
    /* The second one waits until other items had the node for some time; then it is emptied. */
    for (int i = 0; i < 4; i++) {
        learn_end(f, lane(2), NODE);
    }
    assert_int_equal(place(f, NODE), 0);
    enqueue(f, lane(2), 1);
    read_all(f);
    assert_int_equal(place(f, NODE), 1);
    f->now_us += 4 * suspicion_trial_us(QUARANTINE);
    enqueue(f, lane(2), 1);
    read_all(f);
    assert_int_equal(place(f, NODE), 0); /* it is emptied */
    learn_end(f, lane(2), NODE);
    assert_int_equal(place(f, NODE), 0); /* the first one still runs */
    end_suspects(f, 1, NODE, 1);
    learn(f, suspect(1, 1001, QUARANTINE, 0));
    assert_int_equal(place(f, NODE), 1);
    assert_set(f, 1001);
}

static void a_node_that_is_not_empty_in_time_is_given_up_and_has_longer_the_next_time(void **state)
{
    struct fixture *f = *state;
    int64_t closed_us[2];
    f->now_us = 100 * SECOND;
    enqueue(f, lane(2), 1);
    read_all(f);
    assert_int_equal(place(f, NODE), 1); /* and it never ends */
    learn_suspects(f, 1, 1000, 1, QUARANTINE);
    f->now_us += suspicion_delay_us(QUARANTINE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(place(f, NODE), 0);
        enqueue(f, lane(2), 1);
        read_all(f);
        int64_t began_us = f->now_us;
        while (place(f, NODE) == 0) {
            assert_true(scheduler_next_us(f->scheduler) > f->now_us);
            f->now_us = scheduler_next_us(f->scheduler);
        }
        closed_us[i] = f->now_us - began_us;
        assert_int_equal(scheduler_next_us(f->scheduler), f->now_us + 4 * closed_us[i]);
        f->now_us = scheduler_next_us(f->scheduler);
    }
    assert_int_equal(closed_us[1], 2 * closed_us[0]);
}

static void the_items_of_a_workspace_in_quarantine_wait_for_the_latest_of_them(void **state)
{
    struct fixture *f = *state;
    f->now_us = 100 * SECOND;
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .slots = 2});
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(2), .slots = 1});
    learn(f, suspect(1, 1000, QUARANTINE, 0)); /* long ago */
    learn(f, suspect(1, 1001, QUARANTINE + 3, f->now_us));
    learn(f, suspect(2, 1002, QUARANTINE, 0));
    assert_int_equal(place(f, NODE), 1);
    assert_set(f, 1002);
    end_suspects(f, 2, NODE, 1);
    assert_int_equal(place(f, NODE), 0);
    learn(f, suspect(1, 1000, QUARANTINE, 0));
    learn(f, suspect(1, 1001, QUARANTINE + 3, f->now_us));
    f->now_us += suspicion_delay_us(QUARANTINE + 3) - 1;
    assert_int_equal(place(f, NODE), 0);
    f->now_us++;
    assert_int_equal(place(f, NODE), 1);
}

static void one_node_of_several_is_emptied_and_not_the_schedulers_own(void **state)
{
    struct fixture *f = *state;
    learn_node(f, OWN_NODE, GROUP, 1000);
    learn_node(f, OWN_NODE + 1, GROUP, 1000);
    f->now_us = 100 * SECOND;
    learn_suspects(f, 1, 1000, 3, QUARANTINE);
    enqueue(f, lane(2), 4);
    read_all(f);
    f->now_us += suspicion_delay_us(QUARANTINE);
    assert_int_equal(assign_own(f, OWN_NODE, 2, SET_MOST), 5);
    size_t on_node[NODES] = {0};
    for (size_t i = 0; i < f->set_count; i++) {
        on_node[f->set[i].node_id - NODE]++;
        assert_true(f->set[i].handed_over == (f->set[i].node_id == NODE));
    }
    assert_int_equal(on_node[0], 1);
    assert_int_equal(on_node[OWN_NODE - NODE], 2);
    settle(f, ASSIGNMENT_TAKEN);
}

/* --- several nodes --- */

enum { FLEET = 8 };

/* NODE .. NODE + nodes - 1. One suspect of each workspace, 1 to `suspects`, is due. */
static void open_fleet(struct fixture *f, int nodes, int64_t suspects, int64_t suspicion)
{
    for (int64_t at = 0; at < nodes; at++) {
        learn_node(f, NODE + at, GROUP, 10);
    }
    f->now_us = 100 * SECOND;
    for (int64_t workspace_id = 1; workspace_id <= suspects; workspace_id++) {
        learn_suspects(f, workspace_id, 1000 + (uint64_t)workspace_id, 1, suspicion);
    }
    f->now_us += suspicion_delay_us(suspicion);
}

/* Assigns until nothing more is due in that time; how many began, each alone on its node. */
static size_t begin_until(struct fixture *f, int64_t end_us)
{
    size_t count = 0;
    while (true) {
        (void)assign(f, SET_MOST);
        for (size_t i = 0; i < f->set_count; i++) {
            const struct node *node = table_find(&f->scheduler->nodes, f->set[i].node_id);
            assert_int_equal(node->held, 1);
            count++;
        }
        settle(f, ASSIGNMENT_TAKEN);
        if (scheduler_next_us(f->scheduler) > end_us) {
            return count;
        }
        assert_true(scheduler_next_us(f->scheduler) > f->now_us);
        f->now_us = scheduler_next_us(f->scheduler);
    }
}

/* Ordinary work for all open nodes; how much they took. */
static size_t fill(struct fixture *f)
{
    size_t count = 0;
    enqueue(f, lane(9), 10 * FLEET);
    for (size_t more = take(f, SET_MOST); more > 0; more = take(f, SET_MOST)) {
        count += more;
    }
    return count;
}

static void half_of_the_nodes_are_in_quarantine_side_by_side(void **state)
{
    struct fixture *f = *state;
    open_fleet(f, FLEET, FLEET, QUARANTINE);
    assert_int_equal(begin_until(f, f->now_us), FLEET / 2);
    assert_int_equal(fill(f), 10 * FLEET / 2);
}

/* Killers that died together once must not go on so: deaths that are found together are counted against no item. */
static void repeated_trials_begin_at_a_distance_while_others_are_under_way(void **state)
{
    struct fixture *f = *state;
    open_fleet(f, FLEET, 3, QUARANTINE + 1);
    assert_int_equal(begin_until(f, f->now_us + 2 * RECOVERY_INTERVAL_US - 1), 1);
    assert_int_equal(begin_until(f, f->now_us + 2 * RECOVERY_INTERVAL_US), 1);
    assert_int_equal(begin_until(f, f->now_us + 2 * RECOVERY_INTERVAL_US), 1);
}

/* Other items that come all the time do not keep it from beginning. */
static void an_item_that_waits_for_its_distance_holds_back_those_behind_it(void **state)
{
    struct fixture *f = *state;
    open_fleet(f, FLEET, 1, QUARANTINE);
    assert_int_equal(begin_until(f, f->now_us), 1);
    int64_t began_us = f->now_us;
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(2), .slots = 1});
    learn(f, suspect(2, 2000, QUARANTINE + 1, 0));
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(3), .slots = 1});
    learn(f, suspect(3, 3000, QUARANTINE, 0));
    assert_int_equal(begin_until(f, began_us + 2 * RECOVERY_INTERVAL_US - 1), 0);
    f->now_us = began_us + 2 * RECOVERY_INTERVAL_US;
    assert_int_equal(assign(f, SET_MOST), 1);
    assert_set(f, 2000);
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(begin_until(f, began_us + 4 * RECOVERY_INTERVAL_US), 1);
}

static void after_a_trial_has_ended_the_next_one_begins_at_once(void **state)
{
    struct fixture *f = *state;
    open_fleet(f, FLEET, 5, QUARANTINE + 1);
    int64_t now_us = f->now_us;
    for (int64_t workspace_id = 1; workspace_id <= 5; workspace_id++) {
        assert_int_equal(begin_until(f, now_us), 1);
        assert_set(f, 1000 + workspace_id);
        int64_t node_id = f->set[0].node_id;
        learn_end(f, lane(workspace_id), node_id);
        learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
        for (int64_t other = workspace_id + 1; other <= 5; other++) {
            learn(f, suspect(other, 1000 + (uint64_t)other, QUARANTINE + 1, 100 * SECOND));
        }
        learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
    }
    assert_int_equal(f->now_us, now_us);
}

static void a_workspace_has_one_node_in_quarantine(void **state)
{
    struct fixture *f = *state;
    open_fleet(f, FLEET, 0, QUARANTINE);
    learn_suspects(f, 1, 1000, 5, QUARANTINE);
    learn_suspects(f, 2, 2000, 1, QUARANTINE);
    f->now_us += suspicion_delay_us(QUARANTINE);
    assert_int_equal(begin_until(f, f->now_us + suspicion_trial_us(QUARANTINE) - 1), 2);
    size_t quarantined = 0;
    for (int64_t at = 0; at < FLEET; at++) {
        const struct node *node = table_find(&f->scheduler->nodes, NODE + at);
        quarantined += node->is_closed;
    }
    assert_int_equal(quarantined, 2);
}

/* Handed-over items of a target have no other node. */
static void the_only_node_of_a_target_rests_after_a_quarantine(void **state)
{
    struct fixture *f = *state;
    struct schedule_fact facts[2];
    open_fleet(f, FLEET, 0, QUARANTINE);
    learn_node_of_target(f, NODE, 7, 10);
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .slots = 1});
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(2), .slots = 1});
    for (int64_t i = 0; i < 2; i++) {
        facts[i] = suspect(1 + i, 1000 + (uint64_t)i, QUARANTINE, 0);
        facts[i].target_id = 7;
        learn(f, facts[i]);
    }
    assert_int_equal(place(f, NODE), 1);
    f->now_us += SECOND;
    learn_end(f, lane(1), NODE);
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
    learn(f, facts[1]);
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
    assert_int_equal(place(f, NODE), 0);
    learn_handed_over_of_target(f, lane(3), 7, 3000);
    assert_int_equal(place(f, NODE), 1);
    assert_int_equal(scheduler_next_us(f->scheduler), f->now_us + 4 * SECOND);
}

/* While it takes other items, one node after the other is emptied, for longer each time. */
static void a_node_that_is_not_empty_in_time_rests_though_there_are_others(void **state)
{
    struct fixture *f = *state;
    int64_t closed_us[2] = {0};
    open_fleet(f, 2, 0, QUARANTINE);
    assert_int_equal(fill(f), 20); /* and they never end */
    learn_suspects(f, 1, 1000, 1, QUARANTINE);
    f->now_us += suspicion_delay_us(QUARANTINE);
    for (int i = 0; i < 2; i++) {
        const struct node *node = table_find(&f->scheduler->nodes, NODE + i);
        int64_t began_us = f->now_us;
        assert_int_equal(assign(f, SET_MOST), 0);
        assert_true(node->is_closed);
        while (node->is_closed) {
            assert_true(scheduler_next_us(f->scheduler) > f->now_us);
            f->now_us = scheduler_next_us(f->scheduler);
            assert_int_equal(assign(f, SET_MOST), 0);
        }
        closed_us[i] = f->now_us - began_us;
    }
    assert_int_equal(closed_us[1], 2 * closed_us[0]);
}

/* A set that was undone changes nothing: the item has its turn in the next round. */
static void an_item_in_quarantine_that_was_undone_is_assigned_again(void **state)
{
    struct fixture *f = *state;
    f->now_us = 100 * SECOND;
    learn_suspects(f, 1, 1000, 1, QUARANTINE);
    f->now_us += suspicion_delay_us(QUARANTINE);
    assert_int_equal(assign(f, SET_MOST), 1);
    settle(f, ASSIGNMENT_UNDONE);
    assert_int_equal(place(f, NODE), 1);
    assert_set(f, 1000);
}

/* A new scheduler finds an item in quarantine on its node. */
static void after_a_takeover_a_trial_goes_on(void **state)
{
    struct fixture *f = *state;
    struct schedule_fact fact = suspect(1, 1000, QUARANTINE, 100 * SECOND);
    f->now_us = 101 * SECOND;
    fact.kind = FACT_SUSPECT;
    fact.node_id = NODE;
    learn(f, (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane(1), .node_id = NODE, .slots = 1, .node_held = 1});
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS});
    learn(f, fact);
    learn(f, (struct schedule_fact){.kind = FACT_SUSPECTS_END});
    enqueue(f, lane(2), 3);
    read_all(f);
    assert_int_equal(place(f, NODE), 0);
    f->now_us = 100 * SECOND + suspicion_trial_us(QUARANTINE);
    assert_int_equal(place(f, NODE), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_suspects_run_together_with_each_death),
        cmocka_unit_test(trials_and_delays_double_up_to_a_bound),
        rule(after_one_death_all_run_again_at_once),
        rule(suspects_of_a_level_wait_for_each_other),
        rule(a_trial_ends_by_time),
        rule(the_more_suspicious_one_limits_its_neighbours),
        rule(ordinary_items_run_beside_suspects),
        rule(an_item_in_quarantine_has_an_empty_node_for_itself),
        rule(the_others_come_back_within_a_second_when_its_suspicion_is_over),
        rule(the_others_come_back_when_its_trial_is_over),
        rule(a_node_that_is_not_empty_in_time_is_given_up_and_has_longer_the_next_time),
        rule(the_items_of_a_workspace_in_quarantine_wait_for_the_latest_of_them),
        rule(one_node_of_several_is_emptied_and_not_the_schedulers_own),
        rule(half_of_the_nodes_are_in_quarantine_side_by_side),
        rule(repeated_trials_begin_at_a_distance_while_others_are_under_way),
        rule(an_item_that_waits_for_its_distance_holds_back_those_behind_it),
        rule(after_a_trial_has_ended_the_next_one_begins_at_once),
        rule(a_workspace_has_one_node_in_quarantine),
        rule(the_only_node_of_a_target_rests_after_a_quarantine),
        rule(a_node_that_is_not_empty_in_time_rests_though_there_are_others),
        rule(an_item_in_quarantine_that_was_undone_is_assigned_again),
        rule(after_a_takeover_a_trial_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
