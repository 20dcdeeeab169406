/* The reads of store_schedule(): all facts of a load, the news of every kind of change, due items. And the books: at every
 * point books + news = rows, which scene_check() compares, and in the end the books alone. */
#include "conformance/rounds.h"

static const struct enqueue_request *request_of(const char *workspace, const char *group, int64_t run_at_us)
{
    static struct enqueue_request request;
    request = (struct enqueue_request){.workspace = workspace, .workflow = "hello", .group = group, .run_at_us = run_at_us};
    return &request;
}

static void act_on(struct scene *scene, enum bulk_act act, const char *id)
{
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

static void record_as(struct scene *scene, enum record_kind kind, const struct claimed_item *item, int64_t delay_us)
{
    struct record record = scene_record_of(kind, item);
    record.delay_us = delay_us;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

static int64_t held_rows(struct scene *scene, int64_t lane, int64_t node)
{
    return scene_number(
        scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 2 AND lane_id = %lld AND node_id = %lld",
        (long long)lane, (long long)node);
}

static int64_t news_rows(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM news");
}

/* --- load --- */

/* Items in every phase, in lanes of two groups, held by two nodes and by none. */
static int64_t fill(struct scene *scene)
{
    int64_t now_us = scene_now(scene);
    int64_t batch = scene_add_node(scene, "batch-node", "batch");
    scene_group(scene, "later");
    scene_enqueue_many(scene, "pro-co", 9);
    scene_enqueue_many(scene, "free-co", 2);
    for (int i = 0; i < 4; i++) {
        (void)scene_enqueue_request(scene, request_of("pro-co", "batch", 0));
        (void)scene_enqueue_request(scene, request_of("big-co", "batch", 0));
        (void)scene_enqueue_request(scene, request_of("big-co", "later", now_us + SECONDS(100 + i)));
    }
    struct claim_result own = scene_claim(scene, 4);
    assert_int_equal(own.count, 4);
    struct claim_result others = scene_claim_as(scene, batch, "batch", 3);
    assert_int_equal(others.count, 3);
    record_as(scene, RECORD_GIVEN_BACK, &own.items[0], 0);
    record_as(scene, RECORD_GIVEN_BACK, &own.items[1], 0);
    record_as(scene, RECORD_COMPLETED, &own.items[2], 0);
    record_as(scene, RECORD_RETRY, &others.items[0], SECONDS(50));
    return batch;
}

static void assert_loads_what_is_held(struct scene *scene, const struct schedule_answer *answer)
{
    json_t *rows = scene_rows(scene, "SELECT lane_id, node_id, count(*) AS count FROM workflow_execution_queue"
                                     " WHERE phase = 2 GROUP BY lane_id, node_id");
    int64_t all = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t slots = 0;
        int64_t node_held = 0;
        for (size_t k = 0; k < answer->fact_count; k++) {
            const struct schedule_fact *fact = &answer->facts[k];
            if (fact->kind == FACT_HELD && fact->lane_id == json_number_at(row, "lane_id") &&
                fact->node_id == json_number_at(row, "node_id")) {
                slots += fact->slots;
                node_held += fact->node_held;
            }
        }
        assert_int_equal(slots, json_number_at(row, "count"));
        assert_int_equal(node_held, json_number_at(row, "node_id") == 0 ? 0 : slots);
        all += slots;
    }
    assert_int_equal(sum_slots(answer, 0), all);
    json_decref(rows);
}

static void assert_loads_what_is_runnable(struct scene *scene, const struct schedule_answer *answer)
{
    json_t *rows = scene_rows(scene, "SELECT DISTINCT lane_id FROM workflow_execution_queue WHERE phase = 0");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const struct schedule_fact *fact =
            find_fact(answer, FACT_RUNNABLE, json_number_at(json_array_get(rows, i), "lane_id"));
        assert_non_null(fact);
        assert_true(fact->rank <= scene_number(scene,
                                               "SELECT min(rank) FROM workflow_execution_queue"
                                               " WHERE phase = 0 AND lane_id = %lld",
                                               (long long)fact->lane_id));
    }
    assert_int_equal(count_facts(answer, FACT_RUNNABLE), json_array_size(rows));
    json_decref(rows);
}

static void assert_loads_what_is_handed_over(struct scene *scene, const struct schedule_answer *answer)
{
    size_t count = 0;
    for (size_t i = 0; i < answer->fact_count; i++) {
        const struct schedule_fact *fact = &answer->facts[i];
        if (fact->kind == FACT_HANDED_OVER) {
            count++;
            assert_int_equal(scene_number(scene,
                                          "SELECT count(*) FROM workflow_execution_queue"
                                          " WHERE id = '%s' AND lane_id = %lld AND phase = 2 AND node_id = 0",
                                          id_of_key(scene, fact->id), (long long)fact->lane_id),
                             1);
        }
    }
    assert_int_equal(count, scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"
                                                " WHERE phase = 2 AND node_id = 0"));
}

static void a_load_equals_the_rows(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t now_us = scene_now(scene);
    int64_t batch = fill(scene);
    seat_take(&seat, scene, scene->node);
    const struct schedule_answer *answer = &seat.answer;
    assert_loads_what_is_held(scene, answer);
    assert_loads_what_is_runnable(scene, answer);
    assert_loads_what_is_handed_over(scene, answer);
    assert_int_equal(count_facts(answer, FACT_HANDED_OVER), 2);
    assert_int_equal(sum_node_held(answer, scene->node), 1);
    assert_int_equal(sum_node_held(answer, batch), 2);
    assert_int_equal(answer->next_due_us, now_us + SECONDS(50));
    assert_false(answer->more_news);
    assert_false(answer->is_stale);
    assert_int_equal(count_facts(answer, FACT_QUEUE), 1);
    assert_int_equal(count_facts(answer, FACT_GROUP), 3);
    assert_int_equal(seat_news(&seat)->fact_count, 0); /* it begins behind the load */
}

static void a_load_of_an_empty_queue_brings_no_items(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    assert_int_equal(count_facts(&seat.answer, FACT_RUNNABLE) + count_facts(&seat.answer, FACT_HELD) +
                         count_facts(&seat.answer, FACT_HANDED_OVER),
                     0);
    assert_int_equal(seat.answer.next_due_us, TIME_NEVER);
    assert_int_equal(seat.answer.claimed.count, 0);
}

static const struct schedule_fact *read_node(struct seat *seat, int64_t node)
{
    return find_node(seat_round(seat, (struct schedule_call){.needs = NEED_STATE}), node);
}

static void beat(struct scene *scene, int64_t node, struct node_beat beat)
{
    scene_ok(scene, store_node_beat(scene->store, node, &beat, &scene->error));
}

/* The list of nodes is complete, and each one carries all that decides whether it is given anything. */
static void nodes_are_read_with_their_group_and_room(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t second = scene_add_node(scene, "node-2", "batch");
    struct node_beat wide = {.engine_reachable = true, .capacity = 7};
    seat_take(&seat, scene, scene->node);
    const struct schedule_answer *answers[2];
    struct schedule_answer loaded = seat.answer;
    answers[0] = &loaded;
    answers[1] = seat_round(&seat, (struct schedule_call){.needs = NEED_STATE});
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(count_facts(answers[i], FACT_NODES), 1);
        assert_int_equal(count_facts(answers[i], FACT_NODES_END), 1);
        assert_int_equal(count_facts(answers[i], FACT_NODE), 2);
        const struct schedule_fact *node = find_node(answers[i], second);
        assert_true(find_fact(answers[i], FACT_NODES, 0) < node && node < find_fact(answers[i], FACT_NODES_END, 0));
        assert_int_equal(node->group_id, row_id_of(scene, "executor_groups", "batch"));
        assert_int_equal(node->capacity, SCENE_CAPACITY);
        assert_true(node->accepts);
    }
    beat(scene, second, wide);
    assert_int_equal(read_node(&seat, second)->capacity, 7);
    wide.capacity = 0;
    beat(scene, second, wide);
    assert_int_equal(read_node(&seat, second)->capacity, 0);
}

static void a_node_that_accepts_nothing_is_read_as_such(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t node = scene_add_node(scene, "node-2", "default");
    static const enum desired_state wishes[] = {NODE_PAUSE, NODE_DRAIN, NODE_STOP};
    static const enum not_accepting asides[] = {NOT_ACCEPTING_PAUSED, NOT_ACCEPTING_STOPPING, NOT_ACCEPTING_PAUSED};
    seat_take(&seat, scene, scene->node);
    for (size_t i = 0; i < 3; i++) {
        scene_ok(scene, store_set_desired_state(scene->store, "node-2", wishes[i], &scene->error));
        assert_false(read_node(&seat, node)->accepts);
        scene_ok(scene, store_set_desired_state(scene->store, "node-2", NODE_RUN, &scene->error));
        assert_true(read_node(&seat, node)->accepts);
        beat(scene, node, (struct node_beat){.engine_reachable = true, .capacity = 9, .not_accepting = asides[i]});
        assert_false(read_node(&seat, node)->accepts);
        beat(scene, node, (struct node_beat){.engine_reachable = true, .capacity = 9});
        assert_true(read_node(&seat, node)->accepts);
    }
    beat(scene, node, (struct node_beat){.engine_error = "it is away", .capacity = 1});
    assert_true(read_node(&seat, node)->accepts); /* one item would probe whether the engine is there again */
    assert_int_equal(read_node(&seat, node)->capacity, 1);
    beat(scene, node, (struct node_beat){.engine_reachable = true, .capacity = 9});
    scene_pass(scene, SCENE_LEASE_US + 1);
    scene_beat(scene, scene->node);
    const struct schedule_fact *silent = read_node(&seat, node);
    assert_true(silent == NULL || !silent->accepts); /* its lease is over, but it was not declared dead */
    scene_ok(scene, store_node_stop(scene->store, node, true, &scene->error));
    const struct schedule_fact *stopped = read_node(&seat, node);
    assert_true(stopped == NULL || !stopped->accepts);
    assert_true(read_node(&seat, scene->node)->accepts);
}

static void pauses_are_read_with_the_state(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t group = row_id_of(scene, "executor_groups", "default");
    for (int paused = 1; paused >= 0; paused--) {
        scene_ok(scene, store_set_paused(scene->store, NULL, paused, &scene->error));
        scene_ok(scene, store_set_paused(scene->store, "default", paused, &scene->error));
        seat_take(&seat, scene, scene->node);
        assert_int_equal(find_fact(&seat.answer, FACT_QUEUE, 0)->paused, paused);
        assert_int_equal(find_fact(&seat.answer, FACT_GROUP, 0)->paused, paused);
        assert_int_equal(find_fact(&seat.answer, FACT_GROUP, 0)->group_id, group);
    }
}

/* --- news --- */

static void an_enqueue_is_news_of_its_lanes(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t now_us = scene_now(scene);
    struct enqueue_result results[4];
    struct enqueue_request requests[4] = {*request_of("pro-co", NULL, 0), *request_of("big-co", NULL, now_us - SECONDS(9)),
                                          *request_of("big-co", NULL, 0),
                                          *request_of("big-co", "batch", now_us + SECONDS(30))};
    (void)scene_add_node(scene, "node-2", "batch");
    seat_take(&seat, scene, scene->node);
    scene_ok(scene, store_enqueue(scene->store, requests, 4, results, &scene->error));
    const struct schedule_answer *answer = seat_news(&seat);
    assert_int_equal(count_facts(answer, FACT_RUNNABLE), 2);
    assert_true(find_fact(answer, FACT_RUNNABLE, lane_of(scene, "pro-co", "default"))->rank <= now_us);
    assert_true(find_fact(answer, FACT_RUNNABLE, lane_of(scene, "big-co", "default"))->rank <= now_us - SECONDS(9));
    assert_int_equal(news_flags(answer) & NEED_DUE, NEED_DUE);
    bool has_due = false;
    for (size_t i = 0; i < answer->fact_count; i++) {
        has_due = has_due || (answer->facts[i].kind == FACT_NEWS && (answer->facts[i].flags & NEED_DUE) != 0 &&
                              answer->facts[i].due_us == now_us + SECONDS(30));
    }
    assert_true(has_due);
    assert_int_equal(seat_news(&seat)->fact_count, 0); /* each entry is read once */
    scene_ok(scene, store_enqueue(scene->store, requests, 1, results, &scene->error));
    assert_int_equal(count_facts(seat_news(&seat), FACT_RUNNABLE), 1);
}

static void an_end_is_news_of_a_free_slot(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    static const enum record_kind ends[] = {RECORD_COMPLETED, RECORD_FAILED, RECORD_CANCELLED, RECORD_REFUSED};
    scene_enqueue_many(scene, "pro-co", 4);
    struct claim_result claim = scene_claim(scene, 4);
    int64_t lane = lane_of(scene, "pro-co", "default");
    seat_take(&seat, scene, scene->node);
    for (size_t i = 0; i < 4; i++) {
        record_as(scene, ends[i], &claim.items[i], 0);
        const struct schedule_answer *answer = seat_news(&seat);
        assert_int_equal(sum_slots(answer, lane), -1);
        assert_int_equal(sum_slots(answer, 0), -1);
        assert_int_equal(sum_node_held(answer, scene->node), -1);
        assert_int_equal(sum_node_held(answer, 0), -1);
        assert_null(find_fact(answer, FACT_RUNNABLE, 0));
    }
}

static void a_set_of_ends_frees_the_slots_of_all_its_lanes(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    scene_enqueue_many(scene, "pro-co", 3);
    scene_enqueue_many(scene, "big-co", 5);
    struct claim_result claim = scene_claim(scene, 10);
    seat_take(&seat, scene, scene->node);
    scene_complete(scene, &claim);
    const struct schedule_answer *answer = seat_news(&seat);
    assert_int_equal(sum_slots(answer, lane_of(scene, "pro-co", "default")), -3);
    assert_int_equal(sum_slots(answer, lane_of(scene, "big-co", "default")), -5);
    assert_int_equal(sum_node_held(answer, scene->node), -8);
}

static void a_put_back_item_is_news_of_its_slot_and_its_lane(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    static const enum record_kind kinds[] = {RECORD_RETRY, RECORD_DEFERRED, RECORD_PUT_BACK, RECORD_RETRY};
    int64_t lane = lane_of(scene, "free-co", "default");
    for (size_t i = 0; i < 4; i++) {
        bool waits = i == 3;
        (void)scene_enqueue(scene, "free-co");
        struct claimed_item item = scene_claim_one(scene);
        seat_take(&seat, scene, scene->node);
        record_as(scene, kinds[i], &item, waits ? SECONDS(5) : 0);
        const struct schedule_answer *answer = seat_news(&seat);
        assert_int_equal(sum_slots(answer, lane), -1);
        assert_int_equal(sum_node_held(answer, scene->node), -1);
        if (waits) {
            assert_null(find_fact(answer, FACT_RUNNABLE, lane));
            assert_int_equal(news_flags(answer) & NEED_DUE, NEED_DUE);
        } else {
            assert_true(find_fact(answer, FACT_RUNNABLE, lane)->rank <= item.run_at_us);
        }
        act_on(scene, BULK_CANCEL, item.id);
    }
}

static void a_handed_over_item_keeps_its_slot_and_leaves_its_node(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    for (int how = 0; how < 3; how++) { /* given back, its node stops, its node dies */
        char name[16];
        (void)snprintf(name, sizeof name, "holder-%d", how);
        const char *id = scene_enqueue(scene, "free-co");
        int64_t holder = scene_add_node(scene, name, "default");
        struct claim_result claim = scene_claim_as(scene, holder, "default", 1);
        assert_int_equal(claim.count, 1);
        seat_take(&seat, scene, scene->node);
        if (how == 0) {
            assert_int_equal(scene_record_full(scene, holder, scene_record_of(RECORD_GIVEN_BACK, &claim.items[0])),
                             WEIR_OK);
        } else if (how == 1) {
            scene_ok(scene, store_node_stop(scene->store, holder, true, &scene->error));
        } else {
            struct recover_options options = {.node_id = scene->node, .group = "default", .limit = 10};
            struct recover_result result = {0};
            scene_pass(scene, SCENE_LEASE_US + 1);
            scene_beat(scene, scene->node);
            scene_recover(scene, &options, &result);
            assert_int_equal(result.handed_over, 1);
        }
        const struct schedule_answer *answer = seat_news(&seat);
        assert_int_equal(sum_slots(answer, 0), 0);
        assert_int_equal(sum_node_held(answer, holder), -1);
        assert_int_equal(news_flags(answer) & NEED_HANDED_OVER, NEED_HANDED_OVER);
        answer = seat_round(&seat, (struct schedule_call){.needs = NEED_HANDED_OVER});
        assert_int_equal(count_facts(answer, FACT_HANDED_OVER), 1);
        assert_string_equal(id_of_key(scene, find_fact(answer, FACT_HANDED_OVER, 0)->id), id);
        assert_int_equal(seat_hand_over(&seat, id, scene->node), ASSIGNMENT_TAKEN);
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &seat.answer.claimed.items[0]), WEIR_OK);
    }
}

static void a_scheduler_goes_on_with_news_of_handed_over_items_of_several_lanes(void **state)
{
    struct scene *scene = *state;
    int64_t holder = scene_add_node(scene, "holder", "default");
    scene->keeps_claimers = true;
    scene_enqueue_many(scene, "pro-co", 2);
    scene_enqueue_many(scene, "big-co", 2);
    assert_int_equal(scene_claim_as(scene, holder, "default", 10).count, 4);
    struct claim_result claim = scene_claim(scene, 10); /* its scheduler loads what the other node holds */
    assert_int_equal(claim.count, 0);
    scene_ok(scene, store_node_stop(scene->store, holder, true, &scene->error));
    claim = scene_claim(scene, 10);
    assert_int_equal(claim.handed_over, 4);
    scene_complete(scene, &claim);
    scene_enqueue_many(scene, "pro-co", 1);
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

static void a_poisoned_item_is_news_of_a_free_slot(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct recover_options options = {.group = "default", .limit = 10};
    struct recover_result result = {0};
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    json_decref(scene_rows(scene, "UPDATE workflow_execution_queue SET handovers_counted = 4")); /* the next is the last */
    int64_t holder = scene->node;
    scene_pass(scene, SCENE_LEASE_US + 1);
    seat_take(&seat, scene, scene->node = scene_add_node(scene, "node-2", "default"));
    scene_recover(scene, &options, &result);
    assert_int_equal(result.poisoned, 1);
    const struct schedule_answer *answer = seat_news(&seat);
    assert_int_equal(sum_slots(answer, 0), -1);
    assert_int_equal(sum_node_held(answer, holder), -1);
    assert_int_equal(count_facts(seat_round(&seat, (struct schedule_call){.needs = NEED_HANDED_OVER}), FACT_HANDED_OVER),
                     0);
}

/* It did not kill its node alone, so the node may take other items. */
static void a_suspect_is_on_trial_until_a_step_of_it_has_ended(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct recover_options options = {.group = "default", .limit = 10};
    struct recover_result result = {0};
    static const struct step_record ended = {.step = "one", .state = STEP_COMPLETED, .attempt = 1};
    (void)scene_enqueue(scene, "free-co");
    for (int death = 0; death < 2; death++) {
        char name[16];
        struct claimed_item lost = scene_claim_one(scene);
        assert_int_equal(scene_record(scene, RECORD_STEP, &lost), WEIR_OK);
        scene_pass(scene, SCENE_LEASE_US + 1);
        (void)snprintf(name, sizeof name, "node-%d", 2 + death);
        scene->node = scene_add_node(scene, name, "default");
        scene_recover(scene, &options, &result);
        assert_int_equal(result.handed_over, 1);
    }
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    seat_take(&seat, scene, scene->node);
    const struct schedule_answer *answer = seat_round(&seat, (struct schedule_call){.needs = NEED_HANDED_OVER});
    assert_int_equal(count_facts(answer, FACT_SUSPECT), 1);
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &ended;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    answer = seat_round(&seat, (struct schedule_call){.needs = NEED_HANDED_OVER});
    assert_int_equal(count_facts(answer, FACT_SUSPECT), 0);
}

static void acts_on_items_are_news(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t lane = lane_of(scene, "pro-co", "default");
    const char *scheduled = scene_enqueue_request(scene, request_of("pro-co", NULL, scene_now(scene) + SECONDS(60)));
    seat_take(&seat, scene, scene->node);
    act_on(scene, BULK_RELEASE, scheduled);
    const struct schedule_answer *answer = seat_news(&seat);
    assert_non_null(find_fact(answer, FACT_RUNNABLE, lane));
    act_on(scene, BULK_CANCEL, scheduled);
    answer = seat_news(&seat);
    assert_int_equal(sum_slots(answer, 0), 0);
    assert_false(answer->is_stale);
    act_on(scene, BULK_RETRY, scheduled);
    answer = seat_news(&seat);
    assert_non_null(find_fact(answer, FACT_RUNNABLE, lane));
    /* A cancel of a held one frees nothing; a handed over one that is cancelled ends. */
    struct claimed_item item = scene_claim_one(scene);
    seat_take(&seat, scene, scene->node);
    act_on(scene, BULK_CANCEL, item.id);
    assert_int_equal(sum_slots(seat_news(&seat), 0), 0);
    assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &item), WEIR_OK); /* ends CANCELLED */
    answer = seat_news(&seat);
    assert_int_equal(sum_slots(answer, lane), -1);
    assert_int_equal(sum_node_held(answer, scene->node), -1);
    assert_null(find_fact(answer, FACT_RUNNABLE, lane));
}

static void changes_that_add_room_are_news_of_the_state(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_PAUSE, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, "default", true, &scene->error));
    seat_take(&seat, scene, scene->node);
    for (int what = 0; what < 5; what++) {
        struct node_beat more = {.engine_reachable = true, .capacity = 2 * SCENE_CAPACITY};
        if (what == 0) {
            (void)scene_add_node(scene, "node-2", "default");
        } else if (what == 1) {
            scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_RUN, &scene->error));
        } else if (what == 2) {
            scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
        } else if (what == 3) {
            scene_ok(scene, store_set_paused(scene->store, "default", false, &scene->error));
        } else {
            beat(scene, scene->node, more);
        }
        if ((news_flags(seat_news(&seat)) & NEED_STATE) == 0) {
            fail_msg("change %d is no news", what);
        }
        assert_int_equal(seat_news(&seat)->fact_count, 0);
    }
    for (int i = 0; i < 3; i++) { /* a heartbeat that changes nothing is none */
        scene_pass(scene, SECONDS(1));
        beat(scene, scene->node, (struct node_beat){.engine_reachable = true, .capacity = 2 * SCENE_CAPACITY});
        assert_int_equal(seat_news(&seat)->fact_count, 0);
    }
}

/* Its limits come with its heads, so a new workspace itself is none; its first item is. */
static void a_new_workspace_and_a_resumed_one_are_learnt(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    scene_pause_workspace(scene, "pro-co", true);
    seat_take(&seat, scene, scene->node);
    scene_pause_workspace(scene, "pro-co", false);
    const struct schedule_answer *answer = seat_news(&seat);
    const struct schedule_fact *fact = find_fact(answer, FACT_WORKSPACE, 0);
    assert_true(count_facts(answer, FACT_WORKSPACES) > 0 ||
                (fact != NULL && !fact->paused && fact->workspace_id == row_id_of(scene, "workspaces", "pro-co")));
    scene_workspace(scene, "new-co", "pro");
    (void)scene_enqueue(scene, "new-co");
    assert_non_null(find_fact(seat_news(&seat), FACT_RUNNABLE, lane_of(scene, "new-co", "default")));
}

/* The scheduler knows what it has assigned and what it has made runnable: only its counters go into the news. */
static void assignments_are_no_news_to_their_scheduler(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t other = scene_add_node(scene, "node-2", "default");
    const char *ids[3] = {scene_enqueue(scene, "pro-co"), scene_enqueue(scene, "pro-co"), scene_enqueue(scene, "pro-co")};
    seat_take(&seat, scene, scene->node);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seat_assign(&seat, ids[i], i == 1 ? other : scene->node), ASSIGNMENT_TAKEN);
        assert_int_equal(sum_slots(&seat.answer, 0), 0);
        scene_check(scene);
    }
    assert_int_equal(seat_news(&seat)->fact_count, 0);
}

/* More than a round reads: nothing is lost or read twice. */
static void a_round_reads_one_batch_and_reports_that_more_waits(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    enum { MANY = NEWS_BATCH_MOST + NEWS_BATCH_MOST / 2 };
    scene_cap(scene, "big-co", MANY);
    scene_enqueue_many(scene, "big-co", MANY);
    struct claim_result claim = scene_claim(scene, MANY);
    assert_int_equal(claim.count, MANY);
    seat_take(&seat, scene, scene->node);
    for (size_t i = 0; i < MANY; i++) {
        record_as(scene, RECORD_COMPLETED, &claim.items[i], 0);
    }
    const struct schedule_answer *first = seat_round(&seat, (struct schedule_call){.needs = 0});
    assert_true(first->more_news);
    int64_t freed = sum_slots(first, 0);
    assert_true(freed < 0 && freed > -MANY);
    freed += sum_slots(seat_news(&seat), 0);
    assert_int_equal(freed, -MANY);
    assert_int_equal(seat_news(&seat)->fact_count, 0);
}

/* An act among so much news: nothing is assigned before it is read. */
static void an_act_behind_a_full_round_of_news_is_not_overtaken(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = scene_enqueue(scene, "pro-co");
    seat_take(&seat, scene, scene->node);
    for (int i = 0; i < NEWS_BATCH_MOST + 10; i++) {
        (void)scene_enqueue(scene, "big-co");
    }
    scene_pause_workspace(scene, "pro-co", true);
    for (int i = 0; i < 10; i++) {
        struct assignment assignment = assignment_of(scene, id, scene->node);
        struct schedule_call call = {.assignments = &assignment, .assignment_count = 1};
        const struct schedule_answer *answer = seat_round(&seat, call);
        assert_true(answer->is_stale);
        assert_int_equal(assignment.outcome, ASSIGNMENT_UNDONE);
        const struct schedule_fact *fact = find_fact(answer, FACT_WORKSPACE, 0);
        if (fact != NULL || count_facts(answer, FACT_WORKSPACES) > 0) {
            assert_true(fact == NULL || fact->paused);
            assert_true(i > 0 || !answer->more_news || fact != NULL);
            return;
        }
        assert_true(answer->more_news);
    }
    fail_msg("the pause was never read");
}

/* News of another handle, and of the one that schedules, in the order of their commits. */
static void news_of_every_handle_is_read(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct store *other = driver_open(&scene->driver, NULL);
    struct enqueue_request request = *request_of("pro-co", NULL, 0);
    struct enqueue_result result;
    seat_take(&seat, scene, scene->node);
    for (int i = 0; i < 10; i++) {
        struct store *store = i % 2 == 0 ? other : scene->store;
        scene_ok(scene, store_enqueue(store, &request, 1, &result, &scene->error));
        assert_int_equal(count_facts(seat_news(&seat), FACT_RUNNABLE), 1);
    }
    store_close(other);
}

/* --- due items --- */

static void due_items_become_runnable_and_the_next_one_is_named(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t start_us = scene_now(scene);
    int64_t lane = lane_of(scene, "pro-co", "default");
    for (int i = 1; i <= 3; i++) {
        (void)scene_enqueue_request(scene, request_of("pro-co", NULL, start_us + SECONDS(10 * i)));
    }
    seat_take(&seat, scene, scene->node);
    assert_int_equal(seat.answer.next_due_us, start_us + SECONDS(10));
    scene_pass(scene, SECONDS(20));
    const struct schedule_answer *answer = seat_round(&seat, (struct schedule_call){.needs = 0});
    assert_null(find_fact(answer, FACT_RUNNABLE, lane)); /* the round did not ask for them */
    answer = seat_round(&seat, (struct schedule_call){.needs = NEED_DUE});
    assert_true(find_fact(answer, FACT_RUNNABLE, lane)->rank <= start_us + SECONDS(10));
    assert_int_equal(answer->next_due_us, start_us + SECONDS(30));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 0"), 2);
    scene_check(scene);
    scene_pass(scene, SECONDS(10));
    seat_take(&seat, scene, scene->node); /* a load does the same */
    assert_int_equal(seat.answer.next_due_us, TIME_NEVER);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 0"), 3);
    assert_non_null(find_fact(&seat.answer, FACT_RUNNABLE, lane));
}

static void many_due_items_take_several_rounds(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    enum { MANY = PROMOTE_BATCH + PROMOTE_BATCH / 2 };
    struct enqueue_request *requests = calloc(MANY, sizeof *requests);
    struct enqueue_result *results = calloc(MANY, sizeof *results);
    assert_non_null(requests);
    assert_non_null(results);
    for (int i = 0; i < MANY; i++) {
        requests[i] = *request_of("big-co", NULL, scene_now(scene) + SECONDS(1));
    }
    seat_take(&seat, scene, scene->node);
    scene_ok(scene, store_enqueue(scene->store, requests, MANY, results, &scene->error));
    scene_pass(scene, SECONDS(2));
    const struct schedule_answer *answer = seat_round(&seat, (struct schedule_call){.needs = NEED_DUE});
    int64_t runnable = scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 0");
    assert_in_range(runnable, 1, PROMOTE_BATCH);
    assert_true(answer->next_due_us <= answer->now_us);
    answer = seat_round(&seat, (struct schedule_call){.needs = NEED_DUE});
    assert_int_equal(answer->next_due_us, TIME_NEVER);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 0"), MANY);
    free(requests);
    free(results);
}

/* --- the books --- */

/* The books alone equal the rows: nothing is left in the news. */
static void assert_books_are_full(struct scene *scene)
{
    assert_int_equal(news_rows(scene), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM"
                                         " (SELECT lane_id, sum(CASE phase WHEN 0 THEN 1 ELSE 0 END) AS runnable,"
                                         "  sum(CASE phase WHEN 1 THEN 1 ELSE 0 END) AS waiting,"
                                         "  sum(CASE phase WHEN 2 THEN 1 ELSE 0 END) AS held"
                                         "  FROM workflow_execution_queue GROUP BY lane_id) r"
                                         " LEFT JOIN books b ON b.lane_id = r.lane_id"
                                         " WHERE b.lane_id IS NULL OR b.runnable <> r.runnable OR b.waiting <> r.waiting"
                                         " OR b.held <> r.held"),
                     0);
    assert_int_equal(scene_number(scene, "SELECT coalesce(sum(runnable + waiting + held), 0) FROM books"),
                     scene_number(scene, "SELECT count(*) FROM workflow_execution_queue"));
    assert_int_equal(scene_number(scene, "SELECT coalesce(sum(completed + failed + cancelled), 0) FROM books"),
                     scene_number(scene, "SELECT count(*) FROM workflow_executions"));
}

static void books_and_news_equal_the_rows_at_every_point(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    (void)fill(scene);
    scene_check(scene);
    seat_take(&seat, scene, scene->node);
    scene_check(scene);
    seat_publish(&seat); /* all of it was committed before the load */
    assert_books_are_full(scene);
    scene_check(scene);
    scene_enqueue_many(scene, "free-co", 2);
    assert_int_equal(news_rows(scene) > 0, true);
    scene_check(scene);
    (void)seat_news(&seat);
    scene_check(scene);
    seat_publish(&seat);
    assert_books_are_full(scene);
    scene_check(scene);
    struct execution_filter all = {.states = 1U << ITEM_PENDING};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &all, "", 100, &result, &scene->error));
    (void)seat_news(&seat);
    seat_publish(&seat);
    assert_books_are_full(scene);
}

/* Ended ones stay counted when they are purged. */
static void a_purge_changes_no_counter(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    scene_enqueue_many(scene, "pro-co", 3);
    struct claim_result claim = scene_claim(scene, 3);
    scene_complete(scene, &claim);
    struct execution_filter all = {.workspace = "pro-co"};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &all, "", 100, &result, &scene->error));
    assert_int_equal(result.changed, 3);
    scene_check(scene);
    for (int i = 0; i < 2; i++) {
        json_t *status = NULL;
        scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
        assert_int_equal(json_number_at(status, "completed"), 3);
        json_decref(status);
        seat_take(&seat, scene, scene->node);
        seat_publish(&seat);
        assert_int_equal(news_rows(scene), 0);
    }
    assert_int_equal(scene_number(scene, "SELECT sum(completed) FROM books"), 3);
}

/* News that the scheduler has not read may not be folded: it would never learn of it. */
static void publishing_does_not_lose_unread_news(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    scene_enqueue_many(scene, "pro-co", 2);
    struct claim_result claim = scene_claim(scene, 1);
    seat_take(&seat, scene, scene->node);
    scene_complete(scene, &claim);
    scene_pause_workspace(scene, "pro-co", true);
    seat_publish(&seat);
    scene_check(scene);
    const struct schedule_answer *answer = seat_news(&seat);
    assert_int_equal(sum_slots(answer, lane_of(scene, "pro-co", "default")), -1);
    assert_true(find_fact(answer, FACT_WORKSPACE, 0)->paused);
    seat_publish(&seat);
    assert_books_are_full(scene);
}

static void published_passes_come_back_with_the_load_of_their_lanes(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    bool more = true;
    (void)scene_enqueue(scene, "pro-co");
    (void)scene_enqueue(scene, "big-co");
    struct lane_pass passes[2] = {{.lane_id = lane_of(scene, "pro-co", "default"), .pass = 41},
                                  {.lane_id = lane_of(scene, "big-co", "default"), .pass = INT64_MAX / 3}};
    seat_take(&seat, scene, scene->node);
    for (int round = 0; round < 2; round++) {
        scene_ok(scene, store_publish_books(scene->store, seat.node, seat.epoch, passes, 2, &more, &scene->error));
        seat_take(&seat, scene, scene->node);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(find_fact(&seat.answer, FACT_PASS, passes[i].lane_id)->pass, passes[i].pass);
        }
        passes[0].pass += 7;
    }
    struct store *other = driver_open(&scene->driver, NULL);
    struct seat next;
    seat_take_on(&next, scene, other, scene->node);
    more = true;
    assert_int_equal(store_publish_books(scene->store, seat.node, seat.epoch, passes, 1, &more, &scene->error),
                     WEIR_STALE_FENCE);
    assert_true(more);
    store_close(other);
    seat_take(&seat, scene, scene->node);
    assert_int_equal(find_fact(&seat.answer, FACT_PASS, passes[0].lane_id)->pass, 48);
    assert_int_equal(held_rows(scene, passes[0].lane_id, scene->node), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_load_equals_the_rows),
        SCENE_TEST(a_load_of_an_empty_queue_brings_no_items),
        SCENE_TEST(nodes_are_read_with_their_group_and_room),
        SCENE_TEST(a_node_that_accepts_nothing_is_read_as_such),
        SCENE_TEST(pauses_are_read_with_the_state),
        SCENE_TEST(an_enqueue_is_news_of_its_lanes),
        SCENE_TEST(an_end_is_news_of_a_free_slot),
        SCENE_TEST(a_set_of_ends_frees_the_slots_of_all_its_lanes),
        SCENE_TEST(a_put_back_item_is_news_of_its_slot_and_its_lane),
        SCENE_TEST(a_handed_over_item_keeps_its_slot_and_leaves_its_node),
        SCENE_TEST(a_scheduler_goes_on_with_news_of_handed_over_items_of_several_lanes),
        SCENE_TEST(a_poisoned_item_is_news_of_a_free_slot),
        SCENE_TEST(a_suspect_is_on_trial_until_a_step_of_it_has_ended),
        SCENE_TEST(acts_on_items_are_news),
        SCENE_TEST(changes_that_add_room_are_news_of_the_state),
        SCENE_TEST(a_new_workspace_and_a_resumed_one_are_learnt),
        SCENE_TEST(assignments_are_no_news_to_their_scheduler),
        SCENE_TEST(a_round_reads_one_batch_and_reports_that_more_waits),
        SCENE_TEST(an_act_behind_a_full_round_of_news_is_not_overtaken),
        SCENE_TEST(news_of_every_handle_is_read),
        SCENE_TEST(due_items_become_runnable_and_the_next_one_is_named),
        SCENE_TEST(many_due_items_take_several_rounds),
        SCENE_TEST(books_and_news_equal_the_rows_at_every_point),
        SCENE_TEST(a_purge_changes_no_counter),
        SCENE_TEST(publishing_does_not_lose_unread_news),
        SCENE_TEST(published_passes_come_back_with_the_load_of_their_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
