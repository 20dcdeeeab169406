/* Assignments and their outcomes, heads, items without a workspace: what store_schedule() writes. What it reads of changes
 * is tested in schedule_news_test.c, the role in role_test.c. */
#include "conformance/rounds.h"

/* --- assignments --- */

static void an_assigned_item_is_held_by_its_node_under_a_new_fence(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *ids[3];
    struct assignment assignments[3];
    int64_t other = scene_add_node(scene, "node-2", "default");
    for (int i = 0; i < 3; i++) {
        ids[i] = scene_enqueue_request(
            scene, &(struct enqueue_request){
                       .workspace = "pro-co", .workflow = "hello", .params = "{\"a\":1}", .params_length = 7});
        scene_pass(scene, SECONDS(1));
    }
    seat_take(&seat, scene, scene->node);
    for (int i = 0; i < 3; i++) {
        assignments[i] = assignment_of(scene, ids[2 - i], i == 1 ? other : scene->node);
    }
    const struct schedule_answer *answer =
        seat_round(&seat, (struct schedule_call){.assignments = assignments, .assignment_count = 3});
    assert_int_equal(answer->assigned, 3);
    assert_false(answer->is_stale);
    assert_int_equal(answer->now_us, scene_now(scene));
    assert_int_equal(answer->claimed.count, 2); /* in the order of the assignments, and only its own */
    assert_string_equal(answer->claimed.items[0].id, ids[2]);
    assert_string_equal(answer->claimed.items[1].id, ids[0]);
    for (size_t i = 0; i < 2; i++) {
        const struct claimed_item *item = &answer->claimed.items[i];
        assert_true(item->fence > 0);
        assert_string_equal(item->workspace, "pro-co");
        assert_string_equal(item->workflow, "hello");
        assert_memory_equal(item->params, "{\"a\":1}", 7);
        assert_int_equal(item->claimed_at_us, scene_now(scene));
        assert_int_equal(scene_number(scene, "SELECT fence FROM executions WHERE id = '%s'", item->id), item->fence);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(assignments[i].outcome, ASSIGNMENT_TAKEN);
        assert_int_equal(assignments[i].since_us, scene_now(scene) - SECONDS(1 + i)); /* ids[2 - i] was enqueued then */
        assert_string_equal(scene_status_of(scene, ids[i]), "CLAIMED");
        assert_string_equal(scene_text(scene, "SELECT node FROM executions WHERE id = '%s'", ids[i]),
                            i == 1 ? "node-2" : "node-1");
    }
    assert_int_equal(seat_assign(&seat, ids[0], scene->node), ASSIGNMENT_GONE); /* held already */
}

static void act_on(struct scene *scene, enum bulk_act act, const char *id)
{
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

/* Acts on single items are settled on the item's row: the scheduler need not have read of them. */
static void an_item_that_is_not_pending_any_more_is_gone(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *cancelled = scene_enqueue(scene, "pro-co");
    const char *held = scene_enqueue(scene, "pro-co");
    const char *ended = scene_enqueue(scene, "pro-co");
    const char *waiting = scene_enqueue(scene, "pro-co");
    const char *free_one = scene_enqueue(scene, "pro-co");
    seat_take(&seat, scene, scene->node);
    struct assignment assignments[] = {
        assignment_of(scene, cancelled, scene->node),
        assignment_of(scene, held, scene->node),
        assignment_of(scene, ended, scene->node),
        assignment_of(scene, waiting, scene->node),
        assignment_of(scene, "0198c2f1-0000-7000-8000-000000000001", scene->node),
        assignment_of(scene, free_one, scene->node),
    };
    assert_int_equal(seat_assign(&seat, held, scene->node), ASSIGNMENT_TAKEN);
    assert_int_equal(seat_assign(&seat, ended, scene->node), ASSIGNMENT_TAKEN);
    struct record end = scene_record_of(RECORD_COMPLETED, &seat.answer.claimed.items[0]);
    assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
    assert_int_equal(seat_assign(&seat, waiting, scene->node), ASSIGNMENT_TAKEN);
    struct record put_back = scene_record_of(RECORD_RETRY, &seat.answer.claimed.items[0]);
    put_back.delay_us = SECONDS(60);
    assert_int_equal(scene_record_full(scene, scene->node, put_back), WEIR_OK);
    act_on(scene, BULK_CANCEL, cancelled);
    const struct schedule_answer *answer =
        seat_round(&seat, (struct schedule_call){.assignments = assignments, .assignment_count = 6});
    assert_int_equal(answer->assigned, 1);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(assignments[i].outcome, i < 5 ? ASSIGNMENT_GONE : ASSIGNMENT_TAKEN);
    }
    assert_int_equal(answer->claimed.count, 1);
    assert_string_equal(answer->claimed.items[0].id, free_one);
    assert_string_equal(scene_status_of(scene, cancelled), "CANCELLED");
    assert_string_equal(scene_status_of(scene, waiting), "PENDING");
    assert_int_equal(scene_held(scene, "pro-co"), 2);
}

/* A decision is about one item: a later one of the same lane does not take its place. */
static void a_decision_never_meets_another_item(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct enqueue_request urgent = {.workspace = "pro-co", .workflow = "hello", .priority = 50};
    (void)scene_enqueue(scene, "pro-co");
    const char *cancelled = scene_enqueue_request(scene, &urgent);
    seat_take(&seat, scene, scene->node);
    struct assignment assignment = assignment_of(scene, cancelled, scene->node);
    act_on(scene, BULK_CANCEL, cancelled);
    urgent.priority = -50;
    const char *later = scene_enqueue_request(scene, &urgent);
    struct schedule_call call = {.assignments = &assignment, .assignment_count = 1};
    assert_int_equal(seat_round(&seat, call)->assigned, 0);
    assert_int_equal(assignment.outcome, ASSIGNMENT_GONE);
    assert_string_equal(scene_status_of(scene, later), "PENDING");
}

static void an_item_for_a_node_that_accepts_nothing_stays_pending(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = scene_enqueue(scene, "pro-co");
    int64_t stopped = scene_add_node(scene, "stopped", "default");
    int64_t paused = scene_add_node(scene, "paused", "default");
    int64_t dead = scene_add_node(scene, "dead", "default");
    scene_ok(scene, store_set_desired_state(scene->store, "paused", NODE_PAUSE, &scene->error));
    scene_ok(scene, store_node_stop(scene->store, stopped, true, &scene->error));
    scene_pass(scene, SCENE_LEASE_US / 2 + 1);
    scene_beat(scene, scene->node);
    scene_beat(scene, paused);
    scene_pass(scene, SCENE_LEASE_US / 2);
    struct recover_options options = {.node_id = scene->node, .group = "default", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 1);
    seat_take(&seat, scene, scene->node);
    int64_t nodes[] = {stopped, paused, dead, 987654};
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        assert_int_equal(seat_assign(&seat, id, nodes[i]), ASSIGNMENT_NO_NODE);
        struct assignment one = assignment_of(scene, id, nodes[i]);
        (void)seat_round(&seat, (struct schedule_call){.assignments = &one, .assignment_count = 1, .skip_locked = true});
        assert_int_not_equal(one.outcome, ASSIGNMENT_TAKEN);
        assert_string_equal(scene_status_of(scene, id), "PENDING");
    }
    assert_int_equal(seat_assign(&seat, id, scene->node), ASSIGNMENT_TAKEN);
}

/* A set may spread a lane over several nodes: a node that has died since must not let a later item go first. */
static void no_later_item_of_a_lane_goes_before_one_without_a_node(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *first = scene_enqueue(scene, "pro-co");
    const char *second = scene_enqueue(scene, "pro-co");
    const char *third = scene_enqueue(scene, "pro-co");
    const char *other = scene_enqueue(scene, "free-co");
    int64_t stopped = scene_add_node(scene, "stopped", "default");
    scene_ok(scene, store_node_stop(scene->store, stopped, true, &scene->error));
    seat_take(&seat, scene, scene->node);
    struct assignment set[] = {assignment_of(scene, first, scene->node), assignment_of(scene, second, stopped),
                               assignment_of(scene, other, scene->node), assignment_of(scene, third, scene->node)};
    for (int skips = 0; skips <= 1; skips++) {
        struct schedule_call call = {.assignments = set, .assignment_count = 4, .skip_locked = skips};
        assert_int_equal(seat_round(&seat, call)->assigned, skips ? 0 : 2);
        assert_int_equal(set[0].outcome, skips ? ASSIGNMENT_GONE : ASSIGNMENT_TAKEN);
        assert_int_equal(set[1].outcome, ASSIGNMENT_NO_NODE);
        assert_int_equal(set[2].outcome, skips ? ASSIGNMENT_GONE : ASSIGNMENT_TAKEN);
        assert_int_equal(set[3].outcome, ASSIGNMENT_BEHIND);
        assert_string_equal(scene_status_of(scene, third), "PENDING");
    }
    set[1].node_id = scene->node;
    assert_int_equal(seat_round(&seat, (struct schedule_call){.assignments = &set[1], .assignment_count = 1})->assigned, 1);
    assert_int_equal(seat_round(&seat, (struct schedule_call){.assignments = &set[3], .assignment_count = 1})->assigned, 1);
}

static void a_handed_over_item_is_assigned_once_and_keeps_its_slot(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item old = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &old), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &old), WEIR_OK);
    seat_take(&seat, scene, scene->node);
    const struct schedule_fact *fact = find_fact(&seat.answer, FACT_HANDED_OVER, lane_of(scene, "free-co", "default"));
    assert_non_null(fact);
    assert_string_equal(id_of_key(scene, fact->id), id);
    assert_int_equal(seat_hand_over(&seat, id, scene->node), ASSIGNMENT_TAKEN);
    const struct claimed_item *item = &seat.answer.claimed.items[0];
    assert_int_equal(seat.answer.claimed.handed_over, 1);
    assert_true(item->handed_over);
    assert_true(item->fence > old.fence);
    assert_int_equal(item->step_count, 1);
    assert_int_equal(scene_held(scene, "free-co"), 1);
    assert_int_equal(seat_hand_over(&seat, id, scene->node), ASSIGNMENT_GONE);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &old), WEIR_STALE_FENCE);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, item), WEIR_OK);
    assert_int_equal(seat_hand_over(&seat, id, scene->node), ASSIGNMENT_GONE);
}

/* Two processes that assume to have the role: the epoch decides inside the transaction of the assignment. */
static void only_the_newest_epoch_assigns(void **state)
{
    struct scene *scene = *state;
    struct seat first;
    struct seat second;
    struct store *store = driver_open(&scene->driver, NULL);
    int64_t other = scene_add_node(scene, "node-2", "default");
    const char *ids[2] = {scene_enqueue(scene, "free-co"), scene_enqueue(scene, "free-co")};
    seat_take(&first, scene, scene->node);
    struct assignment assignment = assignment_of(scene, ids[1], scene->node); /* decided before it lost the role */
    seat_take_on(&second, scene, store, other);
    assert_true(second.epoch > first.epoch);
    struct schedule_call late = {.assignments = &assignment, .assignment_count = 1};
    assert_int_equal(seat_try(&first, &late), WEIR_STALE_FENCE);
    assert_string_equal(scene_status_of(scene, ids[1]), "PENDING");
    assert_int_equal(seat_assign(&second, ids[0], other), ASSIGNMENT_TAKEN);
    assert_int_equal(seat_try(&first, &late), WEIR_STALE_FENCE);
    struct schedule_call reads_only = {.needs = NEED_STATE};
    assert_int_equal(seat_try(&first, &reads_only), WEIR_STALE_FENCE);
    bool more = true;
    assert_int_equal(store_publish_books(scene->store, first.node, first.epoch, NULL, 0, &more, &scene->error),
                     WEIR_STALE_FENCE);
    assert_int_equal(scene_held(scene, "free-co"), 1);
    seat_take(&first, scene, scene->node); /* and back again */
    assert_int_equal(sum_slots(&first.answer, 0), 1);
    assert_int_equal(seat_try(&second, &late), WEIR_STALE_FENCE);
    store_close(store);
}

static enum weir_status set_plan(struct scene *scene, int64_t max_concurrent)
{
    return store_set_plan(scene->store, &(struct plan_change){.name = "pro", .max_concurrent = max_concurrent},
                          &scene->error);
}

static void do_act(struct scene *scene, int act)
{
    switch (act) {
    case 0:
        scene_pause_workspace(scene, "pro-co", true);
        break;
    case 1:
        scene_cap(scene, "pro-co", 1);
        break;
    case 2:
        scene_ok(scene, set_plan(scene, 2));
        break;
    case 3:
        scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
        break;
    case 4:
        scene_ok(scene, store_set_paused(scene->store, "default", true, &scene->error));
        break;
    case 5:
        scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_PAUSE, &scene->error));
        break;
    default:
        scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_DRAIN, &scene->error));
    }
}

/* An acknowledged act takes effect at once: what was decided before it is not assigned after it. */
static void an_unread_act_undoes_the_whole_set(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t lane = lane_of(scene, "pro-co", "default");
    for (int act = 0; act < 7; act++) {
        const char *ids[2] = {scene_enqueue(scene, "pro-co"), scene_enqueue(scene, "big-co")};
        seat_take(&seat, scene, scene->node);
        struct assignment assignments[2] = {assignment_of(scene, ids[0], scene->node),
                                            assignment_of(scene, ids[1], scene->node)};
        struct lane_read read = {.lane_id = lane, .after_rank = INT64_MIN, .most = 20};
        json_t *before = scene_rows(scene, "SELECT * FROM workflow_execution_queue ORDER BY id");
        do_act(scene, act);
        const struct schedule_answer *answer = seat_round(
            &seat,
            (struct schedule_call){.assignments = assignments, .assignment_count = 2, .reads = &read, .read_count = 1});
        assert_true(answer->is_stale);
        assert_int_equal(answer->assigned, 0);
        assert_int_equal(answer->claimed.count, 0);
        assert_int_equal(assignments[0].outcome, ASSIGNMENT_UNDONE);
        assert_int_equal(assignments[1].outcome, ASSIGNMENT_UNDONE);
        json_t *after = scene_rows(scene, "SELECT * FROM workflow_execution_queue ORDER BY id");
        assert_true(json_equal(before, after));
        json_decref(before);
        json_decref(after);
        if (act < 2) {
            const struct schedule_fact *fact = find_fact(answer, FACT_WORKSPACE, 0);
            assert_non_null(fact);
            assert_int_equal(fact->workspace_id, lane_workspace_id(lane));
            assert_true(fact->exists);
            assert_int_equal(fact->paused, act == 0);
            assert_int_equal(fact->slots_max, act == 0 ? 5 : 1);
        } else if (act == 2) {
            assert_true(count_facts(answer, FACT_WORKSPACES) > 0 || find_fact(answer, FACT_WORKSPACE, 0) != NULL);
        } else {
            assert_true((news_flags(answer) & NEED_STATE) != 0);
            answer = seat_round(&seat, (struct schedule_call){.needs = NEED_STATE});
            assert_true(act != 3 || find_fact(answer, FACT_QUEUE, 0)->paused);
            assert_true(act != 4 || find_fact(answer, FACT_GROUP, 0)->paused);
            assert_true(act < 5 || !find_node(answer, scene->node)->accepts);
        }
        /* Read once, it hinders nothing more. What may be assigned now is the scheduler's decision. */
        assert_int_equal(seat_assign(&seat, ids[1], scene->node), act < 5 ? ASSIGNMENT_TAKEN : ASSIGNMENT_NO_NODE);
        scene_pause_workspace(scene, "pro-co", false);
        scene_cap(scene, "pro-co", -1);
        scene_ok(scene, set_plan(scene, 5));
        scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
        scene_ok(scene, store_set_paused(scene->store, "default", false, &scene->error));
        scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_RUN, &scene->error));
    }
}

/* A change that adds room or work, or that concerns single items, hinders no assignment. */
static void other_changes_undo_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *cancelled = scene_enqueue(scene, "big-co");
    struct claimed_item item = scene_claim_one(scene);
    const char *id = scene_enqueue(scene, "pro-co");
    seat_take(&seat, scene, scene->node);
    scene_enqueue_many(scene, "big-co", 3);
    act_on(scene, BULK_CANCEL, cancelled);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    (void)scene_add_node(scene, "node-2", "default");
    (void)scene_publish(scene, "hello", "pro-co");
    assert_int_equal(seat_assign(&seat, id, scene->node), ASSIGNMENT_TAKEN);
}

/* --- heads --- */

static void heads_come_in_order_behind_their_position(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    enum { ITEMS = 25, PART = 7 };
    const char *ids[ITEMS];
    int64_t now_us = scene_now(scene);
    int64_t lane = lane_of(scene, "pro-co", "default");
    for (int i = 0; i < ITEMS; i++) { /* three of each time; the first ones enqueued last */
        struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello", .run_at_us = now_us - 1 - i / 3};
        ids[i] = scene_enqueue_request(scene, &request);
        (void)scene_enqueue(scene, "big-co");
    }
    (void)scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = now_us + SECONDS(9)});
    seat_take(&seat, scene, scene->node);
    struct lane_read read = {.lane_id = lane, .after_rank = INT64_MIN, .most = PART};
    int seen = 0;
    for (int round = 0; round * PART < ITEMS; round++) {
        (void)seat_round(&seat, (struct schedule_call){.reads = &read, .read_count = 1});
        bool is_last = round == ITEMS / PART;
        assert_int_equal(read.count, is_last ? ITEMS % PART : PART);
        assert_int_equal(read.is_all, is_last);
        assert_true(read.workspace_exists);
        assert_false(read.workspace_paused);
        assert_int_equal(read.slots_max, 5);
        assert_int_equal(read.weight, 1);
        for (size_t i = 0; i < read.count; i++, seen++) {
            int from_the_end = ITEMS - 1 - seen; /* groups of three in reverse, each in the order of its ids */
            int group = from_the_end / 3;
            int place = seen == 0 ? 0 : (seen - 1) % 3; /* the last group has one item */
            assert_string_equal(id_of_key(scene, read.heads[i].id), ids[group * 3 + (group == 8 ? 0 : place)]);
            assert_int_equal(read.heads[i].rank, now_us - 1 - group);
        }
        read.after_rank = read.heads[read.count - 1].rank;
        memcpy(read.after_id, read.heads[read.count - 1].id, sizeof read.after_id);
    }
    assert_int_equal(seen, ITEMS);
    (void)seat_round(&seat, (struct schedule_call){.reads = &read, .read_count = 1});
    assert_int_equal(read.count, 0);
    assert_true(read.is_all);
}

static void a_position_is_good_when_its_item_is_gone(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t lane = lane_of(scene, "pro-co", "default");
    const char *ids[4];
    for (int i = 0; i < 4; i++) {
        ids[i] = scene_enqueue(scene, "pro-co"); /* all of one rank */
    }
    seat_take(&seat, scene, scene->node);
    struct lane_read read = {.lane_id = lane, .after_rank = INT64_MIN, .most = 2};
    (void)seat_round(&seat, (struct schedule_call){.reads = &read, .read_count = 1});
    assert_int_equal(read.count, 2);
    read.after_rank = read.heads[1].rank;
    memcpy(read.after_id, read.heads[1].id, sizeof read.after_id);
    act_on(scene, BULK_CANCEL, ids[1]);
    (void)seat_round(&seat, (struct schedule_call){.reads = &read, .read_count = 1});
    assert_int_equal(read.count, 2);
    assert_string_equal(id_of_key(scene, read.heads[0].id), ids[2]);
    assert_string_equal(id_of_key(scene, read.heads[1].id), ids[3]);
    assert_true(read.is_all);
}

static void heads_exclude_items_assigned_in_the_same_round(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *first = scene_enqueue(scene, "pro-co");
    const char *second = scene_enqueue(scene, "pro-co");
    seat_take(&seat, scene, scene->node);
    struct assignment assignment = assignment_of(scene, first, scene->node);
    struct lane_read reads[3] = {
        {.lane_id = assignment.lane_id, .after_rank = INT64_MIN, .most = 20},
        {.lane_id = lane_of(scene, "big-co", "default"), .after_rank = INT64_MIN, .most = 20},
        {.lane_id = lane_id_of(lane_group_id(assignment.lane_id), 987654), .after_rank = INT64_MIN, .most = 20},
    };
    scene_cap(scene, "big-co", 3);
    (void)seat_news(&seat);
    (void)seat_round(
        &seat, (struct schedule_call){.assignments = &assignment, .assignment_count = 1, .reads = reads, .read_count = 3});
    assert_int_equal(assignment.outcome, ASSIGNMENT_TAKEN);
    assert_int_equal(reads[0].count, 1);
    assert_string_equal(id_of_key(scene, reads[0].heads[0].id), second);
    assert_int_equal(reads[1].count, 0);
    assert_true(reads[1].is_all);
    assert_int_equal(reads[1].slots_max, 3);
    assert_int_equal(reads[2].count, 0);
    assert_false(reads[2].workspace_exists);
}

/* A load grows with the lanes that have items, and not with all that ever had one. */
static void a_load_has_no_pass_of_a_lane_without_items(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    bool more = true;
    const char *ended = scene_enqueue(scene, "pro-co");
    (void)scene_enqueue(scene, "big-co");
    struct lane_pass passes[2] = {{.lane_id = lane_of(scene, "pro-co", "default"), .pass = 41},
                                  {.lane_id = lane_of(scene, "big-co", "default"), .pass = 42}};
    seat_take(&seat, scene, scene->node);
    scene_ok(scene, store_publish_books(scene->store, seat.node, seat.epoch, passes, 2, &more, &scene->error));
    act_on(scene, BULK_CANCEL, ended);
    seat_take(&seat, scene, scene->node);
    assert_int_equal(count_facts(&seat.answer, FACT_PASS), 1);
    assert_int_equal(find_fact(&seat.answer, FACT_PASS, passes[1].lane_id)->pass, 42);
}

/* --- items without a workspace --- */

static void items_of_a_workspace_that_is_gone_end_failed(void **state)
{
    struct scene *scene = *state;
    enum { ITEMS = RECOVER_BATCH + 20 };
    const char *ids[3];
    int64_t now_us = scene_now(scene);
    scene_workspace(scene, "lost-co", "pro");
    scene_group(scene, "batch");
    ids[0] = scene_enqueue(scene, "lost-co");
    ids[1] = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "lost-co", .workflow = "hello", .group = "batch"});
    ids[2] = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "lost-co", .workflow = "hello", .run_at_us = now_us + SECONDS(5)});
    scene_enqueue_many(scene, "lost-co", ITEMS);
    const char *other = scene_enqueue(scene, "pro-co");
    json_decref(scene_rows(scene, "DELETE FROM workspaces WHERE name = 'lost-co'"));
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, other);
    scene_pass(scene, SECONDS(6));
    assert_int_equal(scene_claim(scene, 10).count, 0);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(scene_status_of(scene, ids[i]), "FAILED");
        assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", ids[i]),
                            "workspace_not_found");
        assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions WHERE id = '%s'", ids[i]), 0);
        assert_true(scene_number(scene,
                                 "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'fail'",
                                 ids[i]) == 1);
        json_t *shown = NULL;
        scene_ok(scene, store_show(scene->store, ids[i], &shown, &scene->error));
        assert_string_equal(json_text_at(shown, "status"), "FAILED");
        json_decref(shown);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'FAILED'"), ITEMS + 3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_assigned_item_is_held_by_its_node_under_a_new_fence),
        SCENE_TEST(an_item_that_is_not_pending_any_more_is_gone),
        SCENE_TEST(a_decision_never_meets_another_item),
        SCENE_TEST(an_item_for_a_node_that_accepts_nothing_stays_pending),
        SCENE_TEST(no_later_item_of_a_lane_goes_before_one_without_a_node),
        SCENE_TEST(a_handed_over_item_is_assigned_once_and_keeps_its_slot),
        SCENE_TEST(only_the_newest_epoch_assigns),
        SCENE_TEST(an_unread_act_undoes_the_whole_set),
        SCENE_TEST(other_changes_undo_nothing),
        SCENE_TEST(heads_come_in_order_behind_their_position),
        SCENE_TEST(a_position_is_good_when_its_item_is_gone),
        SCENE_TEST(heads_exclude_items_assigned_in_the_same_round),
        SCENE_TEST(a_load_has_no_pass_of_a_lane_without_items),
        SCENE_TEST(items_of_a_workspace_that_is_gone_end_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
