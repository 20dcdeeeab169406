/* The offer for a lone item: when there is one, which nodes and slots it names, and that scheduler_assign() then decides
 * the same. */
#include "unit/queue/scheduler_fixture.h"

static struct lone_offer offer_of(struct fixture *f)
{
    struct lone_offer offer;
    assert_int_equal(want(f), 0);
    assert_int_equal(assign(f, 10), 0);
    scheduler_offer_lone(f->scheduler, &offer);
    check(f);
    return offer;
}

/* An item comes and is assigned; its demand is known from then on. */
static void run_one(struct fixture *f, int64_t lane_id)
{
    enqueue(f, lane_id, 1);
    assert_int_equal(take(f, 10), 1);
}

static int64_t kind_of(int64_t lane_id)
{
    return lane_id >> LANE_DEMAND_BIT;
}

static void an_idle_scheduler_offers_its_node_and_names_the_held_slots(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(offer_of(f).node_id, 0); /* no demand is known */
    run_one(f, lane(3));
    run_one(f, lane(3));
    run_one(f, lane(5));
    struct lone_offer offer = offer_of(f);
    assert_int_equal(offer.node_id, NODE);
    assert_int_equal(offer.kind_count, 1);
    assert_int_equal(offer.kinds[0], kind_of(lane(1)));
    assert_int_equal(offer.workspace_count, 2);
    int64_t held_of_3 = offer.workspaces[0] == 3 ? offer.held[0] : offer.held[1];
    assert_int_equal(held_of_3, 2);
    for (int i = 0; i < 3; i++) {
        learn_end(f, i < 2 ? lane(3) : lane(5), NODE);
    }
    assert_int_equal(offer_of(f).workspace_count, 0);
}

/* As the loop does it after the store has made use of the offer. */
static void the_memory_decides_as_the_offer_says(void **state)
{
    struct fixture *f = *state;
    run_one(f, lane(3));
    learn_node(f, OWN_NODE, GROUP, 5);
    assert_int_equal(assign_own(f, OWN_NODE, 1, 10), 0);
    struct lone_offer offer;
    scheduler_offer_lone(f->scheduler, &offer);
    assert_int_equal(offer.node_id, OWN_NODE);
    enqueue_at(f, lane(4), 50);
    answer(f, (struct lane_read){.lane_id = lane(4), .after_rank = 50, .most = 4});
    assert_int_equal(assign_own(f, OWN_NODE, 1, 1), 1);
    assert_set(f, 2);
    assert_int_equal(f->set[0].node_id, offer.node_id);
    assert_int_equal(f->set[0].lane_id, lane(4));
    settle(f, ASSIGNMENT_TAKEN);
    assert_int_equal(held(f), 2);
}

static void an_own_node_without_room_leaves_the_offer_to_another(void **state)
{
    struct fixture *f = *state;
    struct lone_offer offer;
    run_one(f, lane(3));
    learn_node(f, OWN_NODE, GROUP, 5);
    assert_int_equal(assign_own(f, OWN_NODE, 0, 10), 0);
    scheduler_offer_lone(f->scheduler, &offer);
    assert_int_equal(offer.node_id, NODE);
}

static void an_item_that_waits_or_may_wait_prevents_the_offer(void **state)
{
    struct fixture *f = *state;
    struct lone_offer offer;
    run_one(f, lane(3));
    f->limits[3].slots_max = 1;
    learn_limits(f, 3);
    enqueue(f, lane(3), 1); /* the workspace is full */
    assert_int_equal(offer_of(f).node_id, 0);
    f->limits[3].slots_max = 2;
    learn_limits(f, 3);
    scheduler_offer_lone(f->scheduler, &offer); /* not read yet */
    assert_int_equal(offer.node_id, 0);
    read_all(f);
    scheduler_offer_lone(f->scheduler, &offer); /* read, not assigned */
    assert_int_equal(offer.node_id, 0);
    assert_int_equal(take(f, 10), 1);
    assert_int_equal(offer_of(f).node_id, NODE);
}

static void an_item_that_was_handed_over_prevents_the_offer(void **state)
{
    struct fixture *f = *state;
    run_one(f, lane(3));
    assert_int_equal(offer_of(f).node_id, NODE);
    learn_handed_over_of_target(f, lane(3), 77, 900); /* no node has this target */
    assert_int_equal(offer_of(f).node_id, 0);
}

static void a_pause_prevents_the_offer(void **state)
{
    struct fixture *f = *state;
    run_one(f, lane(3));
    learn_node(f, NODE + 50, OTHER_GROUP, 10);
    run_one(f, lane_id_of(OTHER_GROUP, 3));
    learn(f, (struct schedule_fact){.kind = FACT_GROUP, .group_id = GROUP, .paused = true});
    struct lone_offer offer = offer_of(f);
    assert_int_equal(offer.node_id, NODE + 50);
    assert_int_equal(offer.kind_count, 1);
    assert_int_equal(offer.kinds[0], kind_of(lane_id_of(OTHER_GROUP, 1)));
    learn(f, (struct schedule_fact){.kind = FACT_QUEUE, .paused = true});
    assert_int_equal(offer_of(f).node_id, 0);
}

/* Kinds of lanes that another node gets are left out: an offer has one node. */
static void an_offer_names_the_kinds_of_one_node(void **state)
{
    struct fixture *f = *state;
    run_one(f, lane(3));
    learn_node(f, NODE + 50, OTHER_GROUP, 10);
    run_one(f, lane_id_of(OTHER_GROUP, 3));
    struct lone_offer offer = offer_of(f);
    assert_int_equal(offer.kind_count, 1);
    assert_int_equal(offer.node_id, offer.kinds[0] == kind_of(lane(1)) ? NODE : NODE + 50);
}

static void more_holders_than_an_offer_can_name_prevent_it(void **state)
{
    struct fixture *f = *state;
    run_one(f, lane(3));
    for (int64_t i = 1; i <= LONE_WORKSPACES_MOST; i++) {
        assert_int_equal(offer_of(f).workspace_count, i);
        learn(f, (struct schedule_fact){
                     .kind = FACT_HELD, .lane_id = lane(100 + i), .node_id = NODE, .slots = 1, .node_held = 1});
    }
    assert_int_equal(offer_of(f).node_id, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rule(an_idle_scheduler_offers_its_node_and_names_the_held_slots),
        rule(the_memory_decides_as_the_offer_says),
        rule(an_own_node_without_room_leaves_the_offer_to_another),
        rule(an_item_that_waits_or_may_wait_prevents_the_offer),
        rule(an_item_that_was_handed_over_prevents_the_offer),
        rule(a_pause_prevents_the_offer),
        rule(an_offer_names_the_kinds_of_one_node),
        rule(more_holders_than_an_offer_can_name_prevent_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
