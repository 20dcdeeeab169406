/* Claims through the scheduler, store_read_definition: order, fences, due times, groups. */
#include "conformance/scene.h"

static const char *enqueue_at(struct scene *scene, int priority, int64_t run_at_us)
{
    return scene_enqueue_request(
        scene, &(struct enqueue_request){
                   .workspace = "big-co", .workflow = "hello", .priority = priority, .run_at_us = run_at_us});
}

static void assert_claimed_in_order(struct scene *scene, const char *const *ids, size_t count)
{
    struct claim_result claim = scene_claim(scene, count + 5);
    assert_int_equal(claim.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(claim.items[i].id, ids[i]);
    }
}

static void a_claimed_item_carries_what_its_start_needs(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    int64_t enqueued_us = scene_now(scene);
    scene_pass(scene, SECONDS(3));
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 1);
    assert_int_equal(claim.handed_over, 0);
    assert_int_equal(claim.now_us, enqueued_us + SECONDS(3));
    const struct claimed_item *item = &claim.items[0];
    assert_string_equal(item->id, id);
    assert_string_equal(item->workspace, "pro-co");
    assert_string_equal(item->workflow, "hello");
    assert_int_equal(item->version, 1);
    assert_true(item->fence > 0);
    assert_int_equal(item->starts_refused, 0);
    assert_int_equal(item->interruptions, 0);
    assert_false(item->handed_over);
    assert_false(item->cancel_requested);
    assert_int_equal(item->created_at_us, enqueued_us);
    assert_int_equal(item->run_at_us, enqueued_us);
    assert_int_equal(item->claimed_at_us, claim.now_us);
    assert_int_equal(item->running_for_us, 0);
    assert_int_equal(item->step_count, 0);
    struct definition_text definition = {0};
    scene_ok(scene, store_read_definition(scene->store, item->definition_id, &scene->arena, &definition, &scene->error));
    assert_string_equal(definition.name, "hello");
    assert_int_equal(definition.version, 1);
    assert_null(definition.workspace);
    assert_non_null(strstr(definition.text, "true"));
}

static void a_claim_is_committed_with_owner_and_fence_when_it_returns(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct store *other = driver_open(&scene->driver, NULL);
    json_t *shown = NULL;
    scene_ok(scene, store_show(other, id, &shown, &scene->error));
    assert_string_equal(json_text_at(shown, "status"), "CLAIMED");
    assert_string_equal(json_text_at(shown, "node"), "node-1");
    assert_int_equal(json_number_at(shown, "fence"), item.fence);
    json_decref(shown);
    store_close(other);
}

static void the_same_item_is_never_claimed_twice(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 5);
    assert_int_equal(scene_claim(scene, 10).count, 5);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    int64_t second = scene_add_node(scene, "node-2", "default");
    assert_int_equal(scene_claim_as(scene, second, "default", 10).count, 0);
}

static void order_is_priority_then_run_time_then_id(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    const char *late = enqueue_at(scene, 0, now_us - 100);
    const char *low = enqueue_at(scene, -1, now_us - 500);
    const char *early = enqueue_at(scene, 0, now_us - 200);
    const char *high = enqueue_at(scene, 5, now_us - 100);
    const char *early_too = enqueue_at(scene, 0, now_us - 200);
    const char *expected[] = {high, early, early_too, late, low};
    assert_claimed_in_order(scene, expected, 5);
}

/* The same order when a claim takes less than there is: the head must be picked, not only sorted. */
static void the_head_goes_first_also_one_by_one(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    const char *late = enqueue_at(scene, 0, now_us - 100);
    const char *low = enqueue_at(scene, -1, now_us - 500);
    const char *early = enqueue_at(scene, 0, now_us - 200);
    const char *high = enqueue_at(scene, 5, now_us - 100);
    const char *early_too = enqueue_at(scene, 0, now_us - 200);
    const char *expected[] = {high, early, early_too, late, low};
    for (int i = 0; i < 5; i++) {
        struct claim_result claim = scene_claim(scene, 1);
        assert_int_equal(claim.count, 1);
        assert_string_equal(claim.items[0].id, expected[i]);
    }
}

static void first_in_is_first_out(void **state)
{
    struct scene *scene = *state;
    const char *ids[20];
    for (int i = 0; i < 20; i++) {
        ids[i] = scene_enqueue(scene, "big-co");
        scene_pass(scene, i % 3 == 0 ? 0 : 1);
    }
    assert_claimed_in_order(scene, ids, 20);
}

/* Priority decides, and nothing of low priority starves: an hour of waiting is worth a level. */
static void an_old_item_of_low_priority_overtakes_a_new_one_of_high(void **state)
{
    struct scene *scene = *state;
    const char *low = enqueue_at(scene, 0, 0);
    scene_pass(scene, PRIORITY_AGEING_US - SECONDS(1));
    scene->node = scene_add_node(scene, "node-2", "default");
    const char *high = enqueue_at(scene, 1, 0);
    scene_pass(scene, SECONDS(2));
    const char *too_late = enqueue_at(scene, 1, 0);
    const char *expected[] = {high, low, too_late};
    assert_claimed_in_order(scene, expected, 3);
}

static void a_claim_stops_at_its_limit_and_the_rest_waits(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 15);
    assert_int_equal(scene_claim(scene, 10).count, 10);
    assert_true(scene_look(scene).ready);
    assert_int_equal(scene_claim(scene, 10).count, 5);
    assert_false(scene_look(scene).ready);
}

static void fences_only_grow(void **state)
{
    struct scene *scene = *state;
    int64_t last = 0;
    for (int i = 0; i < 10; i++) {
        scene_enqueue(scene, "pro-co");
        struct claimed_item item = scene_claim_one(scene);
        assert_true(item.fence > last);
        last = item.fence;
        enum record_kind kind = i % 2 == 0 ? RECORD_PUT_BACK : RECORD_COMPLETED;
        assert_int_equal(scene_record(scene, kind, &item), WEIR_OK);
        if (kind == RECORD_PUT_BACK) {
            struct claimed_item again = scene_claim_one(scene);
            assert_true(again.fence > last);
            last = again.fence;
            assert_int_equal(scene_record(scene, RECORD_COMPLETED, &again), WEIR_OK);
        }
    }
}

static void a_future_item_starts_at_its_time_and_not_before(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    const char *id = enqueue_at(scene, PRIORITY_MOST, now_us + SECONDS(3));
    assert_string_equal(scene_reason_of(scene, id), "scheduled");
    assert_int_equal(scene_claim(scene, 10).count, 0);
    struct work_ahead work = scene_look(scene);
    assert_false(work.ready);
    assert_int_equal(work.due_in_us, SECONDS(3));
    scene_pass(scene, SECONDS(3) - 1);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    scene_pass(scene, 1);
    assert_true(scene_look(scene).ready);
    assert_string_equal(scene_claim_one(scene).id, id);
}

static void many_that_become_due_at_once_are_all_promoted(void **state)
{
    struct scene *scene = *state;
    enum { MANY = PROMOTE_BATCH + 100 };
    int64_t due_us = scene_now(scene) + SECONDS(2);
    struct enqueue_request *requests = calloc(MANY, sizeof *requests);
    struct enqueue_result *results = calloc(MANY, sizeof *results);
    for (int i = 0; i < MANY; i++) {
        requests[i] = (struct enqueue_request){.workspace = "big-co", .workflow = "hello", .run_at_us = due_us};
    }
    scene_cap(scene, "big-co", 5000);
    scene_ok(scene, store_enqueue(scene->store, requests, MANY, results, &scene->error));
    scene_pass(scene, SECONDS(3));
    size_t claimed = 0;
    for (int i = 0; i < 5 && claimed < MANY; i++) {
        claimed += scene_claim(scene, CLAIM_BATCH_MOST).count;
    }
    assert_int_equal(claimed, MANY);
    free(requests);
    free(results);
}

static void an_idle_queue_is_told_from_a_busy_one(void **state)
{
    struct scene *scene = *state;
    struct work_ahead work = scene_look(scene);
    assert_false(work.ready);
    assert_false(work.requests);
    assert_int_equal(work.due_in_us, TIME_NEVER);
    scene_enqueue(scene, "free-co");
    assert_true(scene_look(scene).ready);
    (void)scene_claim_one(scene);
    scene_enqueue(scene, "free-co");
    assert_false(scene_look(scene).ready); /* its only slot is taken */
}

static void a_group_sees_only_its_own_items(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "node-2", "batch");
    const char *id = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .group = "batch"});
    assert_false(scene_look(scene).ready);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    struct claim_result claim = scene_claim_as(scene, other, "batch", 10);
    assert_int_equal(claim.count, 1);
    assert_string_equal(claim.items[0].id, id);
}

static void groups_share_the_slots_of_a_workspace(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "node-2", "batch");
    for (int i = 0; i < 4; i++) {
        scene_enqueue(scene, "pro-co");
        (void)scene_enqueue_request(
            scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .group = "batch"});
    }
    struct claim_result first = scene_claim(scene, 10);
    struct claim_result second = scene_claim_as(scene, other, "batch", 10);
    assert_int_equal(first.count, 4);
    assert_int_equal(second.count, 1);
    scene_complete(scene, &first);
    assert_int_equal(scene_claim_as(scene, other, "batch", 10).count, 3);
}

static void a_paused_draining_or_stopping_node_gets_nothing(void **state)
{
    struct scene *scene = *state;
    scene_enqueue(scene, "pro-co");
    static const enum desired_state wishes[] = {NODE_PAUSE, NODE_DRAIN, NODE_STOP};
    for (size_t i = 0; i < 3; i++) {
        scene_ok(scene, store_set_desired_state(scene->store, "node-1", wishes[i], &scene->error));
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_RUN, &scene->error));
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

static void assert_cannot_claim(struct scene *scene, int64_t node)
{
    struct claim_request request = {.node_id = node, .group = "default", .limit = 10};
    struct claim_result result = {.count = 42};
    assert_int_equal(claim_through_scheduler(scene->store, &request, &scene->arena, &result, &scene->error),
                     WEIR_STALE_FENCE);
    assert_int_equal(result.count, 42);
}

/* The items of a dead node would stay unknown to recovery. */
static void a_node_that_is_unknown_stopped_or_dead_gets_nothing(void **state)
{
    struct scene *scene = *state;
    scene_enqueue(scene, "pro-co");
    assert_cannot_claim(scene, 987654);
    int64_t stopped = scene_add_node(scene, "node-2", "default");
    scene_ok(scene, store_node_stop(scene->store, stopped, true, &scene->error));
    assert_cannot_claim(scene, stopped);
    scene_pass(scene, SCENE_LEASE_US + SECONDS(1));
    int64_t alive = scene_add_node(scene, "node-3", "default");
    struct recover_options options = {.node_id = alive, .group = "default", .limit = RECOVER_BATCH};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_cannot_claim(scene, scene->node);
    assert_int_equal(scene_claim_as(scene, alive, "default", 10).count, 1);
}

static void handed_over_items_go_first_and_keep_their_slot(void **state)
{
    struct scene *scene = *state;
    const char *taken = scene_enqueue(scene, "free-co");
    struct claimed_item old = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &old), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_STEP, &old), WEIR_OK);
    scene_enqueue(scene, "free-co");
    scene_enqueue(scene, "pro-co");
    scene_pass(scene, SECONDS(2));
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &old), WEIR_OK);
    assert_string_equal(scene_reason_of(scene, taken), "handed_over");
    int64_t second = scene_add_node(scene, "node-2", "default");
    struct claim_result claim = scene_claim_as(scene, second, "default", 10);
    assert_int_equal(claim.count, 2);
    assert_int_equal(claim.handed_over, 1);
    const struct claimed_item *item = &claim.items[0];
    assert_string_equal(item->id, taken);
    assert_true(item->handed_over);
    assert_true(item->fence > old.fence);
    assert_int_equal(item->running_for_us, SECONDS(2));
    assert_int_equal(item->step_count, 1);
    assert_string_equal(item->steps[0].step, "one");
    assert_int_equal(scene_count_of(&claim, "free-co"), 1);
}

static void what_waits_follows_the_handed_over_items(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 5);
    struct claim_result held = scene_claim(scene, 5);
    for (size_t i = 0; i < held.count; i++) {
        assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &held.items[i]), WEIR_OK);
    }
    scene_enqueue_many(scene, "big-co", 5);
    struct claim_result first = scene_claim(scene, 5);
    assert_int_equal(first.count, 5);
    assert_int_equal(first.handed_over, 5);
    assert_true(scene_look(scene).ready);
    assert_int_equal(scene_claim(scene, 6).count, 5);
}

static void a_claim_of_nothing_changes_nothing(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "free-co", 2);
    (void)scene_claim_one(scene);
    json_t *before = scene_rows(scene, "SELECT * FROM workflow_execution_queue ORDER BY id");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    json_t *after = scene_rows(scene, "SELECT * FROM workflow_execution_queue ORDER BY id");
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
}

static void a_definition_that_is_gone_is_said_to_be_gone(void **state)
{
    struct scene *scene = *state;
    struct definition_text definition = {.id = 77};
    assert_int_equal(store_read_definition(scene->store, 123456, &scene->arena, &definition, &scene->error),
                     WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(definition.id, 77);
}

/* Items that do not fit into the caller's memory are not claimed at all. */
static void a_claim_without_memory_claims_nothing(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 20);
    struct arena small;
    arena_init(&small, 200);
    struct claim_request request = {.node_id = scene->node, .group = "default", .limit = 20};
    struct claim_result result = {.count = 42};
    assert_int_equal(claim_through_scheduler(scene->store, &request, &small, &result, &scene->error), WEIR_OUT_OF_MEMORY);
    assert_int_equal(result.count, 42);
    arena_close(&small);
    assert_int_equal(scene_held(scene, "big-co"), 0);
    assert_int_equal(scene_claim(scene, 20).count, 20);
}

/* The store's time is its own: a wall clock that jumps by ten minutes changes nothing. */
static void a_wall_clock_that_jumps_changes_no_order_and_no_due_time(void **state)
{
    struct scene *scene = *state;
    int64_t before_us = scene_now(scene);
    const char *first = scene_enqueue(scene, "big-co");
    const char *later = enqueue_at(scene, 0, before_us + SECONDS(60));
    scene->driver.time.wall_us += SECONDS(600);
    struct store *ahead = driver_open(&scene->driver, NULL);
    int64_t ahead_us = 0;
    scene_ok(scene, store_time(ahead, &ahead_us, &scene->error));
    assert_int_equal(ahead_us, before_us);
    scene->driver.time.wall_us -= SECONDS(1200);
    scene_pass(scene, 1);
    const char *second = scene_enqueue(scene, "big-co");
    const char *expected[] = {first, second};
    assert_claimed_in_order(scene, expected, 2);
    assert_int_equal(scene_now(scene), before_us + 1);
    assert_string_equal(scene_status_of(scene, later), "PENDING");
    store_close(ahead);
}

static void a_past_time_is_no_priority_without_a_limit(void **state)
{
    struct scene *scene = *state;
    const char *old = enqueue_at(scene, 0, 1);
    const char *urgent = enqueue_at(scene, 30, 0); /* thirty hours, and the past counts for a day */
    const char *older = enqueue_at(scene, 0, scene_now(scene) - SECONDS(3600));
    const struct enqueue_request set[] = {{.workspace = "big-co", .workflow = "hello", .run_at_us = 2},
                                          {.workspace = "big-co", .workflow = "hello", .run_at_us = 3}};
    struct enqueue_result results[2]; /* a driver may have another way for a set */
    scene_ok(scene, store_enqueue(scene->store, set, 2, results, &scene->error));
    struct claim_result claim = scene_claim(scene, 5);
    assert_int_equal(claim.count, 5);
    assert_string_equal(claim.items[0].id, urgent);
    assert_string_equal(claim.items[1].id, old);
    assert_int_equal(claim.items[1].run_at_us, 1);
    assert_string_equal(claim.items[2].id, results[0].id);
    assert_string_equal(claim.items[3].id, results[1].id);
    assert_string_equal(claim.items[4].id, older);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_past_time_is_no_priority_without_a_limit),
        SCENE_TEST(a_claimed_item_carries_what_its_start_needs),
        SCENE_TEST(a_claim_is_committed_with_owner_and_fence_when_it_returns),
        SCENE_TEST(the_same_item_is_never_claimed_twice),
        SCENE_TEST(order_is_priority_then_run_time_then_id),
        SCENE_TEST(the_head_goes_first_also_one_by_one),
        SCENE_TEST(first_in_is_first_out),
        SCENE_TEST(an_old_item_of_low_priority_overtakes_a_new_one_of_high),
        SCENE_TEST(a_claim_stops_at_its_limit_and_the_rest_waits),
        SCENE_TEST(fences_only_grow),
        SCENE_TEST(a_future_item_starts_at_its_time_and_not_before),
        SCENE_TEST(many_that_become_due_at_once_are_all_promoted),
        SCENE_TEST(an_idle_queue_is_told_from_a_busy_one),
        SCENE_TEST(a_group_sees_only_its_own_items),
        SCENE_TEST(groups_share_the_slots_of_a_workspace),
        SCENE_TEST(a_paused_draining_or_stopping_node_gets_nothing),
        SCENE_TEST(a_node_that_is_unknown_stopped_or_dead_gets_nothing),
        SCENE_TEST(handed_over_items_go_first_and_keep_their_slot),
        SCENE_TEST(what_waits_follows_the_handed_over_items),
        SCENE_TEST(a_claim_of_nothing_changes_nothing),
        SCENE_TEST(a_definition_that_is_gone_is_said_to_be_gone),
        SCENE_TEST(a_claim_without_memory_claims_nothing),
        SCENE_TEST(a_wall_clock_that_jumps_changes_no_order_and_no_due_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
