/* Where executions run (engine_target): a held item keeps the target of its first node, and only nodes of that target take
 * it over. The answer names its target, and the targets of its group. */
#include <string.h>

#include "conformance/rounds.h"

static const struct engine_target billing = {
    .engine = "temporal", .service = "cluster-1", .namespace_name = "billing", .address = "a:7233"};
static const struct engine_target sales = {
    .engine = "temporal", .service = "cluster-1", .namespace_name = "sales", .address = "a:7233"};
static const struct engine_target inside = {.engine = "in_process"};

static int64_t add_node_with_engine(struct scene *scene, const char *name, const char *engine,
                                    const struct engine_target *target)
{
    struct node_options options = {.name = name,
                                   .group = "default",
                                   .host = "host",
                                   .boot_id = "boot",
                                   .pid = 4711,
                                   .version = "test",
                                   .engine = engine,
                                   .capacity = 100,
                                   .target = target,
                                   .lease_us = SCENE_LEASE_US};
    int64_t node = 0;
    scene_ok(scene, store_node_start(scene->store, &options, &node, &scene->error));
    return node;
}

static int64_t add_node(struct scene *scene, const char *name, const struct engine_target *target)
{
    return add_node_with_engine(scene, name, "test", target);
}

/* A request of a definition that an engine of the kind `temporal` runs. */
static const char *enqueue_on_temporal(struct scene *scene, const char *workspace)
{
    struct published published;
    const char *text = "{\"name\":\"invoice\",\"temporal\":{\"workflow_type\":\"Invoice\"}}";
    scene_ok(scene, store_publish(scene->store, "invoice", NULL, text, NULL, &published, &scene->error));
    return scene_enqueue_request(scene, &(struct enqueue_request){.workspace = workspace, .workflow = "invoice"});
}

static void stop(struct scene *scene, int64_t node)
{
    scene_ok(scene, store_node_stop(scene->store, node, false, &scene->error));
}

static int64_t target_of(struct scene *scene, const char *id)
{
    return scene_number(scene, "SELECT target_id FROM workflow_execution_queue WHERE id = '%s'", id);
}

static json_t *why_of(struct scene *scene, const char *id)
{
    json_t *why = NULL;
    scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
    return why;
}

static void nodes_of_one_target_share_its_number(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct engine_target elsewhere = billing;
    memcpy(elsewhere.address, "b:7233", sizeof "b:7233"); /* the same service by another address */
    int64_t nodes[] = {add_node(scene, "one", &billing), add_node(scene, "two", &elsewhere),
                       add_node(scene, "three", &sales), add_node(scene, "four", &inside), add_node(scene, "five", NULL)};
    seat_take(&seat, scene, scene->node);
    int64_t targets[5];
    for (size_t i = 0; i < 5; i++) {
        targets[i] = find_node(&seat.answer, nodes[i])->target_id;
    }
    assert_true(targets[0] > 0 && targets[2] > 0 && targets[3] > 0);
    assert_int_equal(targets[1], targets[0]);
    assert_true(targets[2] != targets[0] && targets[3] != targets[0] && targets[3] != targets[2]);
    assert_int_equal(targets[4], 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM engine_targets WHERE address = 'b:7233'"), 1);
}

static void a_node_that_learns_its_target_is_news(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t node = add_node(scene, "late", NULL);
    seat_take(&seat, scene, scene->node);
    assert_int_equal(find_node(&seat.answer, node)->target_id, 0);
    scene_ok(scene, store_node_target(scene->store, node, &billing, &scene->error));
    assert_true((news_flags(seat_news(&seat)) & NEED_STATE) != 0);
    seat_round(&seat, (struct schedule_call){.needs = NEED_STATE});
    assert_true(find_node(&seat.answer, node)->target_id > 0);
    /* Another target than before: nothing may be assigned by what was read before. */
    const char *id = scene_enqueue(scene, "free-co");
    (void)seat_news(&seat);
    scene_ok(scene, store_node_target(scene->store, node, &sales, &scene->error));
    assert_int_equal(seat_assign(&seat, id, node), ASSIGNMENT_UNDONE);
    assert_true(seat.answer.is_stale);
    stop(scene, node);
    assert_int_equal(store_node_target(scene->store, node, &billing, &scene->error), WEIR_STALE_FENCE);
    assert_int_equal(store_node_target(scene->store, 987654, &billing, &scene->error), WEIR_STALE_FENCE);
}

static void a_handed_over_item_goes_to_nodes_of_its_target_only(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t first = add_node(scene, "first", &billing);
    int64_t other = add_node(scene, "other", &sales);
    int64_t steps = add_node(scene, "steps", &inside);
    const char *id = scene_enqueue(scene, "free-co");
    seat_take(&seat, scene, scene->node);
    assert_int_equal(target_of(scene, id), 0);
    assert_int_equal(seat_assign(&seat, id, first), ASSIGNMENT_TAKEN);
    int64_t target = target_of(scene, id);
    assert_true(target > 0);
    stop(scene, first);
    seat_take(&seat, scene, scene->node);
    const struct schedule_fact *fact = find_fact(&seat.answer, FACT_HANDED_OVER, 0);
    assert_non_null(fact);
    assert_int_equal(fact->target_id, target);
    int64_t wrong[] = {other, steps, scene->node};
    for (size_t i = 0; i < 3; i++) {
        assert_int_not_equal(seat_hand_over(&seat, id, wrong[i]), ASSIGNMENT_TAKEN);
        assert_int_equal(scene_held(scene, "free-co"), 1);
    }
    int64_t again = add_node(scene, "again", &billing);
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat_hand_over(&seat, id, again), ASSIGNMENT_TAKEN);
    assert_int_equal(target_of(scene, id), target);
    scene_check(scene);
}

static void what_is_put_back_has_no_target(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t first = add_node(scene, "first", &billing);
    const char *id = scene_enqueue(scene, "free-co");
    seat_take(&seat, scene, first);
    assert_int_equal(seat_assign(&seat, id, first), ASSIGNMENT_TAKEN);
    struct record record = scene_record_of(RECORD_PUT_BACK, &seat.answer.claimed.items[0]);
    assert_int_equal(scene_record_full(scene, first, record), WEIR_OK);
    assert_string_equal(scene_status_of(scene, id), "PENDING");
    assert_int_equal(target_of(scene, id), 0);
}

static int64_t dead_node; /* its process has ended */

static bool is_dead(const struct node_neighbour *node)
{
    return node->id == dead_node;
}

/* It is dead before its lease ends. */
static void lose_node(struct scene *scene, int64_t node, int64_t finder)
{
    struct recover_options options = {
        .node_id = finder, .group = "default", .boot_id = "boot", .is_gone = is_dead, .limit = 10};
    struct recover_result result = {0};
    dead_node = node;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 1);
}

static void an_item_that_no_node_can_ask_for_says_where_it_was_started(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t first = add_node(scene, "first", &billing);
    const char *id = scene_enqueue(scene, "free-co");
    const char *next = scene_enqueue(scene, "free-co");
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat_assign(&seat, id, first), ASSIGNMENT_TAKEN);
    json_t *why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "target"), "temporal, namespace billing (cluster-1) at a:7233");
    json_decref(why);
    scene_pass(scene, SECONDS(1));
    scene_beat(scene, scene->node);
    stop(scene, first);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    assert_string_equal(scene_reason_of(scene, id), "handed_over"); /* no node at all: the next one may have any target */
    int64_t unknown = add_node(scene, "unknown", NULL);
    assert_string_equal(scene_reason_of(scene, id), "handed_over"); /* it may turn out to have this one */
    scene_ok(scene, store_node_target(scene->store, unknown, &sales, &scene->error));
    lose_node(scene, add_node(scene, "dead", &billing), unknown);
    assert_string_equal(scene_reason_of(scene, id), "no_node_for_engine");
    why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "pending_reason"), "no_node_for_engine");
    assert_string_equal(json_text_at(why, "target"), "temporal, namespace billing (cluster-1) at a:7233");
    assert_string_equal(json_string_value(json_array_get(json_object_get(why, "group_targets"), 0)),
                        "temporal, namespace sales (cluster-1) at a:7233");
    assert_int_equal(json_array_size(json_object_get(why, "group_targets")), 1);
    assert_non_null(json_text_at(why, "no_node_since"));
    json_decref(why);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), "no_node_for_engine"), 1);
    json_decref(status);
    assert_int_equal(scene_held(scene, "free-co"), 1);
    assert_string_equal(scene_status_of(scene, next), "PENDING");
}

/* Its lease is not over yet, and a part of its items is still its own. */
static void a_dead_node_is_none_of_its_group_before_all_its_items_are_handed_over(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t first = add_node(scene, "first", &billing);
    const char *ids[] = {scene_enqueue(scene, "big-co"), scene_enqueue(scene, "big-co")};
    seat_take(&seat, scene, scene->node);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(seat_assign(&seat, ids[i], first), ASSIGNMENT_TAKEN);
    }
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    struct recover_options options = {
        .node_id = add_node(scene, "other", &sales), .group = "default", .boot_id = "boot", .is_gone = is_dead, .limit = 1};
    struct recover_result result = {0};
    dead_node = first;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 1);
    assert_true(result.more);
    const char *id = scene_text(scene, "SELECT id FROM workflow_execution_queue WHERE node_id = 0");
    json_t *why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "pending_reason"), "no_node_for_engine");
    assert_int_equal(json_array_size(json_object_get(why, "group_targets")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(why, "group_targets"), 0)),
                        "temporal, namespace sales (cluster-1) at a:7233");
    json_decref(why);
}

static void expect_waits_for_an_engine(struct scene *scene, const char *id, const char *engine)
{
    assert_string_equal(scene_reason_of(scene, id), "no_node_for_engine");
    json_t *why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "pending_reason"), "no_node_for_engine");
    assert_string_equal(json_text_at(why, "engine_needed"), engine);
    assert_true(json_is_null(json_object_get(why, "target")));
    assert_non_null(json_text_at(why, "no_node_since"));
    json_decref(why);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), "no_node_for_engine"), 1);
    json_decref(status);
    assert_int_equal(scene_held(scene, "free-co"), 0);
    scene_check(scene);
}

static void an_item_goes_to_a_node_with_the_engine_that_its_definition_needs(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t temporal = add_node_with_engine(scene, "temporal", "temporal", &billing);
    const char *steps_id = scene_enqueue(scene, "free-co");
    const char *id = enqueue_on_temporal(scene, "free-co");
    seat_take(&seat, scene, scene->node);
    assert_true(find_node(&seat.answer, temporal)->on_temporal);
    assert_false(find_node(&seat.answer, scene->node)->on_temporal);
    int64_t lane = lane_of(scene, "free-co", "default");
    assert_non_null(find_fact(&seat.answer, FACT_RUNNABLE, lane));
    assert_non_null(find_fact(&seat.answer, FACT_RUNNABLE, lane | LANE_ON_TEMPORAL));
    assert_int_not_equal(seat_assign(&seat, id, scene->node), ASSIGNMENT_TAKEN);
    assert_int_not_equal(seat_assign(&seat, steps_id, temporal), ASSIGNMENT_TAKEN);
    assert_string_equal(scene_status_of(scene, id), "PENDING");
    assert_int_equal(seat_assign(&seat, id, temporal), ASSIGNMENT_TAKEN);
    assert_int_equal(seat_assign(&seat, steps_id, scene->node), ASSIGNMENT_TAKEN);
    assert_int_equal(scene_held(scene, "free-co"), 2);
    scene_check(scene);
}

static void an_item_whose_engine_no_node_of_its_group_has_says_so(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_on_temporal(scene, "free-co");
    expect_waits_for_an_engine(scene, id, "temporal");
    int64_t temporal = add_node_with_engine(scene, "temporal", "temporal", &billing);
    assert_string_not_equal(scene_reason_of(scene, id), "no_node_for_engine");
    stop(scene, temporal);
    expect_waits_for_an_engine(scene, id, "temporal");
    stop(scene, scene->node);
    assert_string_equal(scene_reason_of(scene, id), "no_node_in_group");
}

static void a_retry_needs_the_same_engine_again(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    const char *id = enqueue_on_temporal(scene, "free-co");
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_string_equal(scene_status_of(scene, id), "CANCELLED");
    result = (struct bulk_result){0};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    expect_waits_for_an_engine(scene, result.new_id, "temporal");
}

static void a_cancel_of_such_an_item_stays_a_request(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t first = add_node(scene, "first", &billing);
    (void)add_node(scene, "other", &sales);
    const char *id = scene_enqueue(scene, "free-co");
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat_assign(&seat, id, first), ASSIGNMENT_TAKEN);
    stop(scene, first);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_string_equal(scene_status_of(scene, id), "CLAIMED");
    json_t *why = why_of(scene, id);
    assert_true(json_is_true(json_object_get(why, "cancel_requested")));
    json_decref(why);
}

static void a_list_of_nodes_shows_their_targets(void **state)
{
    struct scene *scene = *state;
    json_t *page = NULL;
    (void)add_node(scene, "first", &billing);
    struct list_options options = {.kind = LIST_NODES, .name = "first"};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *node = json_array_get(json_object_get(page, "items"), 0);
    assert_string_equal(json_text_at(node, "engine_service"), "cluster-1");
    assert_string_equal(json_text_at(node, "engine_namespace"), "billing");
    assert_string_equal(json_text_at(node, "engine_address"), "a:7233");
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(nodes_of_one_target_share_its_number),
        SCENE_TEST(a_node_that_learns_its_target_is_news),
        SCENE_TEST(a_handed_over_item_goes_to_nodes_of_its_target_only),
        SCENE_TEST(what_is_put_back_has_no_target),
        SCENE_TEST(an_item_that_no_node_can_ask_for_says_where_it_was_started),
        SCENE_TEST(a_dead_node_is_none_of_its_group_before_all_its_items_are_handed_over),
        SCENE_TEST(an_item_goes_to_a_node_with_the_engine_that_its_definition_needs),
        SCENE_TEST(an_item_whose_engine_no_node_of_its_group_has_says_so),
        SCENE_TEST(a_retry_needs_the_same_engine_again),
        SCENE_TEST(a_cancel_of_such_an_item_stays_a_request),
        SCENE_TEST(a_list_of_nodes_shows_their_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
