/* store_inbox: the items that a node gets from a scheduler elsewhere. */
#include "conformance/rounds.h"

static struct inbox read_inbox(struct scene *scene, int64_t node, struct inbox_position *position, size_t limit)
{
    struct inbox inbox = {.more = true};
    scene_ok(scene, store_inbox(scene->store, node, position, limit, &scene->arena, &inbox, &scene->error));
    return inbox;
}

/* All at once, from the start. */
static struct inbox whole_inbox(struct scene *scene, int64_t node)
{
    struct inbox_position position = {.fence = 0};
    return read_inbox(scene, node, &position, 100);
}

static void an_empty_inbox_names_the_scheduler(void **state)
{
    struct scene *scene = *state;
    struct inbox_position position = {.fence = 0};
    int64_t other = scene_add_node(scene, "node-2", "default");
    int64_t epoch = 0;
    scene_ok(scene, take_role(scene->store, other, &epoch, &scene->error));
    for (size_t limit = 0; limit < 2; limit++) {
        struct inbox inbox = read_inbox(scene, scene->node, &position, limit);
        assert_int_equal(inbox.claimed.count, 0);
        assert_int_equal(inbox.claimed.now_us, scene_now(scene));
        assert_false(inbox.more);
        assert_false(inbox.requests);
        assert_int_equal(inbox.role.node_id, other);
        assert_string_equal(inbox.role.node, "node-2");
        assert_int_equal(inbox.role.epoch, epoch);
        assert_false(inbox.role.is_free);
        assert_int_equal(position.fence, 0);
        assert_string_equal(position.id, "");
    }
    struct role_state role;
    struct role_request leave = {.act = ROLE_LEAVE, .node_id = other, .epoch = epoch};
    scene_ok(scene, store_role(scene->store, &leave, &role, &scene->error));
    assert_true(whole_inbox(scene, scene->node).role.is_free);
}

static void a_node_reads_only_what_was_assigned_to_it(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t other = scene_add_node(scene, "node-2", "default");
    const char *ids[4];
    for (int i = 0; i < 4; i++) {
        ids[i] = scene_enqueue_request(
            scene, &(struct enqueue_request){.workspace = "pro-co",
                                             .workflow = "hello",
                                             .params = "{\"a\":[1]}",
                                             .params_length = 9,
                                             .priority = 4,
                                             .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    }
    scene_pass(scene, SECONDS(2));
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat_assign(&seat, ids[0], other), ASSIGNMENT_TAKEN);
    assert_int_equal(seat_assign(&seat, ids[1], scene->node), ASSIGNMENT_TAKEN);
    struct claimed_item direct = seat.answer.claimed.items[0];
    assert_int_equal(seat_assign(&seat, ids[2], other), ASSIGNMENT_TAKEN);
    scene_pass(scene, SECONDS(1));
    struct inbox theirs = whole_inbox(scene, other);
    assert_int_equal(theirs.claimed.count, 2);
    assert_string_equal(theirs.claimed.items[0].id, ids[0]);
    assert_string_equal(theirs.claimed.items[1].id, ids[2]);
    struct inbox own = whole_inbox(scene, scene->node);
    assert_int_equal(own.claimed.count, 1);
    const struct claimed_item *item = &own.claimed.items[0]; /* the same as the round brought it */
    assert_string_equal(item->id, direct.id);
    assert_string_equal(item->workspace, direct.workspace);
    assert_int_equal(item->weight, direct.weight);
    assert_string_equal(item->workflow, direct.workflow);
    assert_int_equal(item->version, direct.version);
    assert_int_equal(item->definition_id, direct.definition_id);
    assert_int_equal(item->params_length, direct.params_length);
    assert_memory_equal(item->params, direct.params, direct.params_length);
    assert_string_equal(item->traceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_string_equal(item->traceparent, direct.traceparent);
    assert_int_equal(item->fence, direct.fence);
    assert_int_equal(item->priority, 4);
    assert_int_equal(item->created_at_us, direct.created_at_us);
    assert_int_equal(item->run_at_us, direct.run_at_us);
    assert_int_equal(item->claimed_at_us, direct.claimed_at_us);
    assert_int_equal(item->step_count, 0);
    assert_false(item->handed_over);
    assert_int_equal(own.claimed.now_us, direct.claimed_at_us + SECONDS(1));
}

static void set_weight_of_pro(struct scene *scene, int weight)
{
    struct plan_change change = {.name = "pro", .weight = weight};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
}

/* Also one that has changed since the last item of the workspace, and whichever way the item comes. */
static void an_item_brings_the_present_weight_of_its_workspace(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "node-2", "default");
    const int weights[] = {3, 7};
    for (int i = 0; i < 2; i++) {
        struct seat seat;
        set_weight_of_pro(scene, weights[i]);
        const char *theirs = scene_enqueue(scene, "pro-co");
        const char *own = scene_enqueue(scene, "pro-co");
        seat_take(&seat, scene, scene->node);
        assert_int_equal(seat_assign(&seat, theirs, other), ASSIGNMENT_TAKEN);
        assert_int_equal(seat_assign(&seat, own, scene->node), ASSIGNMENT_TAKEN);
        assert_int_equal(seat.answer.claimed.items[0].weight, weights[i]);
        struct inbox inbox = whole_inbox(scene, other);
        assert_int_equal(inbox.claimed.items[inbox.claimed.count - 1].weight, weights[i]);
    }
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    const char *before = scene_enqueue(scene, "pro-co");
    assert_int_equal(seat_assign(&seat, before, scene->node), ASSIGNMENT_TAKEN);
    assert_int_equal(seat.answer.claimed.items[0].weight, 7);
    set_weight_of_pro(scene, 2);
    const char *after = scene_enqueue(scene, "pro-co");
    (void)seat_news(&seat); /* the scheduler learns of the change */
    struct lane_read read = {.lane_id = assignment_of(scene, after, 0).lane_id, .most = 10};
    (void)seat_round(&seat, (struct schedule_call){.reads = &read, .read_count = 1});
    assert_int_equal(read.weight, 2);
    assert_int_equal(seat_assign(&seat, after, scene->node), ASSIGNMENT_TAKEN);
    assert_int_equal(seat.answer.claimed.items[0].weight, 2);
}

static void an_inbox_goes_on_behind_its_position(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    enum { SETS = 3, SET = 4, LIMIT = 5 };
    const char *ids[SETS * SET];
    int64_t other = scene_add_node(scene, "node-2", "default");
    seat_take(&seat, scene, scene->node);
    for (int set = 0; set < SETS; set++) { /* each set has one fence */
        struct assignment assignments[SET];
        for (int i = 0; i < SET; i++) {
            ids[set * SET + i] = scene_enqueue(scene, "big-co");
            assignments[i] = assignment_of(scene, ids[set * SET + i], other);
        }
        const struct schedule_answer *answer =
            seat_round(&seat, (struct schedule_call){.assignments = assignments, .assignment_count = SET});
        assert_int_equal(answer->assigned, SET);
        assert_int_equal(answer->claimed.count, 0);
    }
    struct inbox_position position = {.fence = 0};
    size_t seen = 0;
    int64_t last_fence = 0;
    for (int round = 0; round < 3; round++) {
        struct inbox_position before = position;
        struct inbox inbox = read_inbox(scene, other, &position, LIMIT);
        assert_int_equal(inbox.claimed.count, round < 2 ? LIMIT : SETS * SET - 2 * LIMIT);
        assert_int_equal(inbox.more, round < 2);
        for (size_t i = 0; i < inbox.claimed.count; i++, seen++) {
            assert_string_equal(inbox.claimed.items[i].id, ids[seen]);
            assert_true(inbox.claimed.items[i].fence >= last_fence);
            last_fence = inbox.claimed.items[i].fence;
        }
        assert_int_equal(position.fence, last_fence);
        struct inbox again = read_inbox(scene, other, &before, LIMIT); /* its answer was lost */
        assert_int_equal(again.claimed.count, inbox.claimed.count);
        assert_memory_equal(again.claimed.items[0].id, inbox.claimed.items[0].id, UUID_TEXT_MAX);
        assert_int_equal(before.fence, position.fence);
    }
    struct inbox nothing = read_inbox(scene, other, &position, LIMIT);
    assert_int_equal(nothing.claimed.count, 0);
    assert_false(nothing.more);
    assert_int_equal(position.fence, last_fence);
    const char *late = scene_enqueue(scene, "pro-co"); /* a later set comes behind every position */
    assert_int_equal(seat_assign(&seat, late, other), ASSIGNMENT_TAKEN);
    struct inbox more = read_inbox(scene, other, &position, LIMIT);
    assert_int_equal(more.claimed.count, 1);
    assert_string_equal(more.claimed.items[0].id, late);
}

static void an_inbox_read_with_limit_zero_returns_requests_and_role(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct inbox_position position = {.fence = 0};
    const char *id = scene_enqueue(scene, "free-co");
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat_assign(&seat, id, scene->node), ASSIGNMENT_TAKEN);
    assert_false(seat.answer.requests);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    struct inbox inbox = read_inbox(scene, scene->node, &position, 0);
    assert_int_equal(inbox.claimed.count, 0);
    assert_true(inbox.requests);
    assert_int_equal(inbox.role.node_id, scene->node);
    assert_int_equal(position.fence, 0);
    assert_true(seat_news(&seat)->requests);
    (void)scene_take_requests(scene, scene->node, 1);
    assert_false(read_inbox(scene, scene->node, &position, 0).requests);
    assert_false(seat_news(&seat)->requests);
}

static void ended_and_released_items_leave_the_inbox(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 5);
    struct claim_result claim = scene_claim(scene, 5);
    static const enum record_kind kinds[] = {RECORD_COMPLETED, RECORD_PUT_BACK, RECORD_GIVEN_BACK};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(scene_record(scene, kinds[i], &claim.items[i]), WEIR_OK);
    }
    struct inbox inbox = whole_inbox(scene, scene->node);
    assert_int_equal(inbox.claimed.count, 2);
    for (size_t i = 0; i < 2; i++) {
        bool known = strcmp(inbox.claimed.items[i].id, claim.items[3].id) == 0 ||
                     strcmp(inbox.claimed.items[i].id, claim.items[4].id) == 0;
        assert_true(known);
    }
    scene_pass(scene, SCENE_LEASE_US + 1);
    int64_t alive = scene_add_node(scene, "node-2", "default");
    struct recover_options options = {.node_id = alive, .group = "default", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 2);
    assert_int_equal(whole_inbox(scene, scene->node).claimed.count, 0);
}

/* No counter grows with PUT_BACK. The span of the enqueue and the event of the first assignment must not come twice. */
static void an_item_that_was_put_back_is_not_assigned_for_the_first_time(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *ids[2];
    struct assignment assignments[2];
    int64_t other = scene_add_node(scene, "node-2", "default");
    for (int i = 0; i < 2; i++) {
        ids[i] = scene_enqueue(scene, "pro-co");
        scene_pass(scene, SECONDS(1));
    }
    struct claim_result first = scene_claim(scene, 2);
    assert_int_equal(first.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_false(first.items[i].assigned_before);
        struct record record = scene_record_of(RECORD_PUT_BACK, &first.items[i]);
        record.error_code = "unreachable";
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        assignments[i] = assignment_of(scene, ids[i], i == 0 ? scene->node : other);
    }
    seat_take(&seat, scene, scene->node);
    const struct schedule_answer *answer =
        seat_round(&seat, (struct schedule_call){.assignments = assignments, .assignment_count = 2});
    assert_int_equal(answer->assigned, 2);
    assert_int_equal(assignments[0].since_us, 0);
    assert_int_equal(assignments[1].since_us, 0);
    assert_int_equal(answer->claimed.count, 1);
    assert_true(answer->claimed.items[0].assigned_before);
    struct inbox inbox = whole_inbox(scene, other);
    assert_int_equal(inbox.claimed.count, 1);
    assert_true(inbox.claimed.items[0].assigned_before);
}

/* A takeover comes with the steps that are on record, and with a cancel that was asked for. */
static void an_item_of_a_dead_node_says_so(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item old = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &old), WEIR_OK);
    scene_pass(scene, SCENE_LEASE_US + 1);
    int64_t other = scene_add_node(scene, "node-2", "default");
    struct recover_options options = {.node_id = other, .group = "default", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 1);
    seat_take(&seat, scene, other);
    assert_int_equal(seat_hand_over(&seat, id, other), ASSIGNMENT_TAKEN);
    struct inbox inbox = whole_inbox(scene, other);
    assert_int_equal(inbox.claimed.count, 1);
    assert_true(inbox.claimed.items[0].lost_a_node);
}

static void a_handed_over_item_comes_with_its_steps(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item old = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &old), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_STEP, &old), WEIR_OK);
    scene_pass(scene, SECONDS(2));
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &old), WEIR_OK);
    int64_t other = scene_add_node(scene, "node-2", "default");
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat_hand_over(&seat, id, other), ASSIGNMENT_TAKEN);
    struct inbox inbox = whole_inbox(scene, other);
    assert_int_equal(inbox.claimed.count, 1);
    assert_int_equal(inbox.claimed.handed_over, 1);
    const struct claimed_item *item = &inbox.claimed.items[0];
    assert_true(item->handed_over);
    assert_false(item->lost_a_node); /* which gave it back */
    assert_true(item->fence > old.fence);
    assert_int_equal(item->running_for_us, SECONDS(2));
    assert_int_equal(item->step_count, 1);
    assert_string_equal(item->steps[0].step, "one");
    struct record end = scene_record_of(RECORD_COMPLETED, item);
    assert_int_equal(scene_record_full(scene, other, end), WEIR_OK);
}

/* Items that do not fit into the caller's memory are read again from the same position. */
static void an_inbox_without_memory_keeps_its_position(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 10);
    assert_int_equal(scene_claim(scene, 10).count, 10);
    struct arena small;
    struct inbox_position position = {.fence = 0};
    struct inbox inbox = {.claimed = {.count = 42}};
    arena_init(&small, 200);
    assert_int_equal(store_inbox(scene->store, scene->node, &position, 100, &small, &inbox, &scene->error),
                     WEIR_OUT_OF_MEMORY);
    assert_int_equal(inbox.claimed.count, 42);
    assert_int_equal(position.fence, 0);
    arena_close(&small);
    assert_int_equal(whole_inbox(scene, scene->node).claimed.count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_empty_inbox_names_the_scheduler),
        SCENE_TEST(a_node_reads_only_what_was_assigned_to_it),
        SCENE_TEST(an_item_brings_the_present_weight_of_its_workspace),
        SCENE_TEST(an_inbox_goes_on_behind_its_position),
        SCENE_TEST(an_inbox_read_with_limit_zero_returns_requests_and_role),
        SCENE_TEST(ended_and_released_items_leave_the_inbox),
        SCENE_TEST(an_item_that_was_put_back_is_not_assigned_for_the_first_time),
        SCENE_TEST(an_item_of_a_dead_node_says_so),
        SCENE_TEST(a_handed_over_item_comes_with_its_steps),
        SCENE_TEST(an_inbox_without_memory_keeps_its_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
