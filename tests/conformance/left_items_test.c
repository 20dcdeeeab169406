/* Items that no node has, because they were given back or handed over, and data that an item has lost. */
#include <string.h>

#include "conformance/scene.h"

static struct bulk_result cancel(struct scene *scene, const char *id)
{
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    return result;
}

/* The ways in which an item loses its node. */
enum loss { LOSS_GIVE_BACK, LOSS_STOP, LOSS_DEATH, LOSSES };

static void lose_node(struct scene *scene, enum loss loss, int64_t node, const struct claimed_item *item)
{
    if (loss == LOSS_GIVE_BACK) {
        assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_GIVEN_BACK, item)), WEIR_OK);
    } else if (loss == LOSS_STOP) {
        scene_ok(scene, store_node_stop(scene->store, node, false, &scene->error));
    } else {
        scene_pass(scene, SCENE_LEASE_US / 2);
        scene_beat(scene, scene->node);
        scene_pass(scene, SCENE_LEASE_US / 2 + 1);
        struct recover_options options = {.node_id = scene->node, .limit = 100};
        struct recover_result result = {0};
        scene_recover(scene, &options, &result);
        assert_int_equal(result.handed_over, 1);
    }
}

/* An item that the only node of its group has claimed. */
static struct claimed_item claim_report(struct scene *scene, int64_t *ret_node)
{
    (void)scene_enqueue_request(scene,
                                &(struct enqueue_request){.workspace = "free-co", .workflow = "hello", .group = "reports"});
    *ret_node = scene_add_node(scene, "reporter", "reports");
    return scene_claim_as(scene, *ret_node, "reports", 1).items[0];
}

/* The group of the item has no other node, so only the act itself can end it. */
static void a_cancel_of_what_was_given_back_frees_its_slot_without_a_node(void **state)
{
    struct scene *scene = *state;
    scene_group(scene, "reports");
    for (enum loss loss = LOSS_GIVE_BACK; loss < LOSSES; loss++) {
        int64_t node = 0;
        struct claimed_item item = claim_report(scene, &node);
        assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_DISPATCHED, &item)), WEIR_OK);
        lose_node(scene, loss, node, &item);
        assert_int_equal(scene_held(scene, "free-co"), 1);
        struct bulk_result result = cancel(scene, item.id);
        assert_int_equal(result.changed, 1);
        assert_int_equal(result.requested, 0);
        assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
        assert_int_equal(scene_held(scene, "free-co"), 0);
        assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_COMPLETED, &item)),
                         WEIR_EXECUTION_NOT_FOUND);
        const char *next = scene_enqueue(scene, "free-co");
        struct claimed_item started = scene_claim_one(scene);
        assert_string_equal(started.id, next);
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &started), WEIR_OK);
        scene_check(scene);
    }
}

/* A request that its node had not carried out. */
static void a_cancel_before_its_node_is_lost_ends_it_without_another_node(void **state)
{
    struct scene *scene = *state;
    scene_group(scene, "reports");
    for (enum loss loss = LOSS_GIVE_BACK; loss < LOSSES; loss++) {
        int64_t node = 0;
        struct claimed_item item = claim_report(scene, &node);
        assert_int_equal(cancel(scene, item.id).requested, 1);
        lose_node(scene, loss, node, &item);
        assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
        assert_int_equal(scene_held(scene, "free-co"), 0);
        scene_check(scene);
    }
}

/* It was stopped by the stop of its node, long before the cancel, and did not run at the time of the end. */
static void a_step_that_its_node_gave_back_ended_there(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    int64_t given_back_us = scene_now(scene);
    scene_pass(scene, SECONDS(30));
    assert_int_equal(cancel(scene, id).requested, 0);
    assert_string_equal(scene_text(scene, "SELECT status || ': ' || error_code FROM workflow_node_executions"),
                        "CANCELLED: interrupted");
    assert_int_equal(scene_number(scene, "SELECT finished_at FROM workflow_node_executions"), given_back_us);
    assert_int_equal(scene_number(scene, "SELECT node_id FROM workflow_node_executions"), scene->node);
}

/* Not as {}: its node refuses the start. */
static void lost_params_reach_the_claim_as_lost(void **state)
{
    struct scene *scene = *state;
    const char *params = "{\"customer\":42}";
    (void)scene_enqueue_request(
        scene, &(struct enqueue_request){
                   .workspace = "pro-co", .workflow = "hello", .params = params, .params_length = strlen(params)});
    json_decref(scene_rows(scene, "DELETE FROM execution_params"));
    for (int i = 0; i < 2; i++) { /* with the round, and from the inbox after a handover */
        struct claimed_item item = scene_claim_one(scene);
        assert_non_null(item.params);
        assert_int_equal(item.params_length, 0);
        assert_int_equal(scene_record(scene, i == 0 ? RECORD_GIVEN_BACK : RECORD_COMPLETED, &item), WEIR_OK);
    }
}

/* A slow node that reports its stop after it was declared dead stays dead: its end is not made a graceful one. */
static void a_stop_after_the_death_of_a_node_is_not_on_record(void **state)
{
    struct scene *scene = *state;
    int64_t node = 0;
    scene_group(scene, "reports");
    struct claimed_item item = claim_report(scene, &node);
    lose_node(scene, LOSS_DEATH, node, &item);
    scene_ok(scene, store_node_stop(scene->store, node, true, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM nodes WHERE dead_at IS NOT NULL AND stopped_at IS NULL"), 1);
}

/* Rows that a recovery of their nodes has passed: only the nodes' rows show that the claims have no holder. */
static void the_safety_net_takes_claims_of_nodes_that_are_gone(void **state)
{
    static const char *const ends[] = {"dead_at", "stopped_at", "expires_at"};
    struct scene *scene = *state;
    const char *ids[3];
    int64_t nodes[3];
    for (size_t i = 0; i < 3; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "gone-%zu", i);
        ids[i] = scene_enqueue(scene, "big-co");
        nodes[i] = scene_add_node(scene, name, "default");
        assert_int_equal(scene_claim_as(scene, nodes[i], "default", 1).count, 1);
    }
    for (int64_t passed_us = 0; passed_us <= STALE_CLAIM_US; passed_us += SECONDS(5)) {
        scene_pass(scene, SECONDS(5));
        scene_beat(scene, scene->node);
    }
    for (size_t i = 0; i < 3; i++) {
        char sql[200];
        (void)snprintf(sql, sizeof sql, "UPDATE nodes SET %s = 1, recovered_at = 1 WHERE id = %lld", ends[i],
                       (long long)nodes[i]);
        json_decref(scene_rows(scene, sql));
    }
    struct recover_options options = {
        .node_id = scene->node, .group = "default", .stale_claim_us = STALE_CLAIM_US, .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 2);
    assert_string_equal(scene_reason_of(scene, ids[0]), "handed_over");
    assert_string_equal(scene_reason_of(scene, ids[1]), "handed_over");
    assert_string_equal(scene_status_of(scene, ids[2]), "CLAIMED"); /* neither dead nor stopped */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_cancel_of_what_was_given_back_frees_its_slot_without_a_node),
        SCENE_TEST(a_cancel_before_its_node_is_lost_ends_it_without_another_node),
        SCENE_TEST(a_step_that_its_node_gave_back_ended_there),
        SCENE_TEST(a_stop_after_the_death_of_a_node_is_not_on_record),
        SCENE_TEST(the_safety_net_takes_claims_of_nodes_that_are_gone),
        SCENE_TEST(lost_params_reach_the_claim_as_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
