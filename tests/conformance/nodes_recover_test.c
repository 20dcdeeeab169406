/* Nodes, leases, recovery in chunks, poison, cancel requests. */
#include "conformance/scene.h"

#include "observe/event.h"
#include "queue/suspicion.h"
#include "store/driver.h"

static struct recover_result recover_as(struct scene *scene, int64_t node, size_t limit)
{
    struct recover_options options = {.node_id = node, .group = "default", .limit = limit};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    return result;
}

/* Lets the scene's node die and returns a living one. */
static int64_t let_node_die(struct scene *scene)
{
    scene_pass(scene, SCENE_LEASE_US + 1);
    return scene_add_node(scene, "node-2", "default");
}

static enum weir_status try_beat(struct scene *scene, int64_t node, struct node_beat *beat)
{
    beat->engine_reachable = true;
    return store_node_beat(scene->store, node, beat, &scene->error);
}

static void a_node_is_registered_with_all_that_is_known_of_it(void **state)
{
    struct scene *scene = *state;
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *node = json_array_get(json_object_get(page, "items"), 0);
    assert_int_equal(json_number_at(node, "id"), scene->node);
    assert_string_equal(json_text_at(node, "name"), "node-1");
    assert_string_equal(json_text_at(node, "host"), "host");
    assert_int_equal(json_number_at(node, "pid"), 4242);
    static const char *const keys[] = {"started_at", "seen_at", "expires_at", "stopped_at", "recovered_at"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (json_object_get(node, keys[i]) == NULL) {
            fail_msg("a node has no \"%s\"", keys[i]);
        }
    }
    json_decref(page);
}

static void a_beat_renews_the_lease_in_store_time(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 10; i++) {
        struct node_beat beat = {0};
        scene_pass(scene, SCENE_LEASE_US - 1);
        assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
        assert_int_equal(beat.now_us, scene_now(scene));
        assert_int_equal(beat.desired_state, NODE_RUN);
        assert_false(beat.queue_paused);
        assert_int_equal(recover_as(scene, scene->node, 100).nodes, 0);
    }
}

static void a_beat_to_an_older_row_finds_the_lease_lost(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {0};
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    beat.seen_beats = beat.beats;
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    beat.seen_beats = beat.beats + 1; /* as if that heartbeat had come after a backup */
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_STALE_FENCE);
}

static void numbers_of_nodes_and_fences_begin_with_the_time(void **state)
{
    struct scene *scene = *state;
    int64_t epoch = 0;
    assert_true(scene->node >= scene_now(scene) / MICROSECONDS_PER_SECOND * 10000 - 10000);
    scene_ok(scene, take_role(scene->store, scene->node, &epoch, &scene->error));
    (void)scene_enqueue(scene, "pro-co");
    int64_t before_us = scene_now(scene);
    struct claimed_item item = scene_claim_one(scene);
    assert_true(item.fence >= before_us - SCENE_LEASE_US && item.fence <= scene_now(scene) + 1000);
}

/* Where it spares the nodes the asking; elsewhere nothing is said. */
static void a_beat_on_a_shared_store_tells_of_the_other_nodes_of_its_group(void **state)
{
    struct scene *scene = *state;
    bool tells = (store_features(scene->store) & STORE_SHARED) != 0;
    struct node_beat beat = {0};
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_int_equal(beat.neighbour_count, 0); /* it is no neighbour of itself */
    int64_t other = scene_add_node(scene, "node-2", "default");
    (void)scene_add_node(scene, "node-3", "another");
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_false(beat.others_lost);
    assert_int_equal(beat.neighbour_count, tells ? 1 : 0);
    if (tells) {
        assert_int_equal(beat.neighbours[0].id, other);
        assert_int_equal(beat.neighbours[0].pid, 4242);
    }
    scene_pass(scene, SCENE_LEASE_US + 1); /* late, but only a node that has watched it may declare it dead */
    assert_int_equal(try_beat(scene, other, &beat), WEIR_OK);
    assert_false(beat.others_lost);
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_int_equal(beat.neighbour_count, tells ? 1 : 0);
    scene_pass(scene, SCENE_LEASE_US / 2);
    scene_ok(scene, store_node_stop(scene->store, other, true, &scene->error));
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_false(beat.others_lost); /* it left nothing behind */
    assert_int_equal(beat.neighbour_count, 0);
}

static void a_live_nodes_claims_are_left_alone(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 3);
    struct claim_result claim = scene_claim(scene, 3);
    int64_t other = scene_add_node(scene, "node-2", "default");
    scene_pass(scene, SCENE_LEASE_US - 1);
    struct recover_result result = recover_as(scene, other, 100);
    assert_int_equal(result.handed_over, 0);
    assert_int_equal(result.nodes, 0);
    scene_complete(scene, &claim);
}

static void a_dead_nodes_items_are_handed_over_with_their_slots(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 8);
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 5);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &claim.items[0]), WEIR_OK);
    int64_t alive = let_node_die(scene);
    struct recover_result result = recover_as(scene, alive, 100);
    assert_int_equal(result.handed_over, 5);
    assert_int_equal(result.nodes, 1);
    assert_string_equal(result.dead[0], "node-1");
    assert_int_equal(result.poisoned, 0);
    assert_false(result.more);
    scene_check(scene);
    assert_string_equal(scene_reason_of(scene, claim.items[0].id), "handed_over");
    struct claim_result again = scene_claim_as(scene, alive, "default", 10);
    assert_int_equal(again.count, 5);
    assert_int_equal(again.handed_over, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(again.items[i].handed_over);
        assert_true(again.items[i].fence > claim.items[i].fence);
        assert_int_equal(again.items[i].interruptions, 1);
        assert_int_equal(again.items[i].starts_refused, 0);
        assert_int_equal(
            scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'hand_over'",
                         again.items[i].id),
            1);
    }
    assert_int_equal(scene_claim_as(scene, alive, "default", 10).count, 0);
}

static void a_zombies_late_words_change_nothing(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item old = scene_claim_one(scene);
    struct node_beat beat = {0};
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &old), WEIR_OK);
    int64_t alive = let_node_die(scene);
    (void)recover_as(scene, alive, 100);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        assert_int_equal(scene_record(scene, (enum record_kind)kind, &old), WEIR_STALE_FENCE);
    }
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_STALE_FENCE);
    struct claim_result again = scene_claim_as(scene, alive, "default", 1);
    assert_int_equal(again.count, 1);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        assert_int_equal(scene_record(scene, (enum record_kind)kind, &old), WEIR_STALE_FENCE);
    }
    assert_int_equal(scene_record_full(scene, alive, scene_record_of(RECORD_COMPLETED, &again.items[0])), WEIR_OK);
    assert_string_equal(scene_status_of(scene, id), "COMPLETED");
    assert_int_equal(scene_record(scene, RECORD_FAILED, &old), WEIR_EXECUTION_NOT_FOUND);
    assert_string_equal(scene_status_of(scene, id), "COMPLETED");
}

static void a_node_that_beats_in_time_after_a_long_pause_has_lost_its_lease(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {.desired_state = NODE_DRAIN};
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    int64_t alive = let_node_die(scene);
    (void)recover_as(scene, alive, 100);
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_STALE_FENCE);
    assert_int_equal(beat.desired_state, NODE_DRAIN); /* untouched */
    int64_t reborn = scene_add_node(scene, "node-1", "default");
    assert_true(reborn > scene->node);
    assert_int_equal(try_beat(scene, reborn, &beat), WEIR_OK);
}

static void recovery_goes_in_chunks_and_says_when_there_is_more(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "big-co", 100);
    scene_enqueue_many(scene, "big-co", 25);
    assert_int_equal(scene_claim(scene, 100).count, 25);
    int64_t alive = let_node_die(scene);
    size_t handed_over = 0;
    for (int i = 0; i < 3; i++) {
        struct recover_result result = recover_as(scene, alive, 10);
        assert_true(result.handed_over <= 10);
        handed_over += result.handed_over;
        assert_int_equal(result.more, i < 2);
        struct node_beat beat = {0};
        assert_int_equal(try_beat(scene, alive, &beat), WEIR_OK); /* nothing holds a heartbeat up */
        scene_check(scene);
    }
    assert_int_equal(handed_over, 25);
    assert_int_equal(recover_as(scene, alive, 10).handed_over, 0);
    assert_int_equal(scene_claim_as(scene, alive, "default", 100).count, 25);
}

static void two_recoverers_hand_each_item_over_once(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 10);
    assert_int_equal(scene_claim(scene, 100).count, 10);
    int64_t alive = let_node_die(scene);
    int64_t also_alive = scene_add_node(scene, "node-3", "default");
    size_t handed_over = recover_as(scene, alive, 4).handed_over + recover_as(scene, also_alive, 4).handed_over +
                         recover_as(scene, alive, 4).handed_over + recover_as(scene, also_alive, 4).handed_over;
    assert_int_equal(handed_over, 10);
    assert_int_equal(scene_number(scene, "SELECT max(handovers) FROM executions"), 1);
}

static void a_group_recovers_only_its_own_nodes(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    scene_pass(scene, SCENE_LEASE_US + 1);
    int64_t other = scene_add_node(scene, "node-2", "batch");
    struct recover_options options = {.node_id = other, .group = "batch", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 0);
    assert_int_equal(result.nodes, 0);
    int64_t alive = scene_add_node(scene, "node-3", "default");
    assert_int_equal(recover_as(scene, alive, 10).handed_over, 1);
}

static bool is_gone(const struct node_neighbour *node)
{
    assert_int_equal(node->pid, 4242);
    assert_int_equal(node->keeper_pid, 0);
    assert_string_equal(node->life, "weir-node-0");
    return true;
}

static bool is_not_gone(const struct node_neighbour *node)
{
    return node->pid == 0;
}

static void a_handed_over_item_stays_in_its_group(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    int64_t other = scene_add_node(scene, "node-2", "batch");
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    (void)scene_enqueue_request(scene,
                                &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .group = "batch"});
    struct claim_result claim = scene_claim_as(scene, other, "batch", 10);
    assert_int_equal(claim.count, 1);
    assert_int_equal(claim.handed_over, 0);
    assert_string_equal(claim.items[0].workspace, "pro-co");
    assert_int_equal(scene_claim(scene, 10).handed_over, 1);
}

static void a_node_whose_process_is_gone_is_dead_before_its_lease_ends(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item old = scene_claim_one(scene);
    int64_t alive = scene_add_node(scene, "node-2", "default");
    struct recover_options options = {
        .node_id = alive, .group = "default", .boot_id = "other", .is_gone = is_gone, .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 0); /* of another machine: without proof */
    options.boot_id = "boot";
    options.is_gone = is_not_gone;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 0);
    options.is_gone = is_gone;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 1);
    assert_int_equal(result.handed_over, 1);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &old), WEIR_STALE_FENCE);
    scene_beat(scene, alive);
}

/* --- poison --- */

static void record_step(struct scene *scene, int64_t node, const struct claimed_item *item, const char *name,
                        enum step_state state)
{
    struct step_record step = {.state = state, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(86400)};
    struct record record = scene_record_of(RECORD_STEP, item);
    (void)snprintf(step.step, sizeof step.step, "%s", name);
    static char moved[] = "{\"action\":7,\"state\":\"a\",\"outcome\":\"next\",\"ran_us\":0}";
    step.action = state == STEP_WAITING && strcmp(name, "state") == 0 ? moved : NULL;
    record.step = &step;
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
}

static void dispatch(struct scene *scene, int64_t node, const struct claimed_item *item)
{
    assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_DISPATCHED, item)), WEIR_OK);
}

enum { CLAIMS_MOST = 400 };

/* A scheduler that goes on from claim to claim lets the node rest after a quarantine. */
static struct claimed_item claim_as(struct scene *scene, int64_t node)
{
    struct claim_result claim = scene_claim_as(scene, node, "default", 1);
    for (int i = 0; claim.count == 0 && i < CLAIMS_MOST; i++) {
        scene_pass(scene, SCENE_LEASE_US / 2);
        scene_beat(scene, node);
        claim = scene_claim_as(scene, node, "default", 1);
    }
    assert_int_equal(claim.count, 1);
    return claim.items[0];
}

/* Only `*node` dies; the next one takes over what it held. What is in quarantine has waited long enough afterwards. */
static struct recover_result die(struct scene *scene, int64_t *node)
{
    scene_pass(scene, SCENE_LEASE_US + 1);
    *node = scene_add_node(scene, "node-n", "default");
    struct recover_result result = recover_as(scene, *node, 100);
    for (int64_t passed_us = 0; passed_us < suspicion_delay_us(SUSPICION_QUARANTINE + HANDOVERS_MAX);
         passed_us += SCENE_LEASE_US / 2) {
        scene_pass(scene, SCENE_LEASE_US / 2);
        scene_beat(scene, *node);
    }
    return result;
}

enum { MANY_DEATHS = 20 };

static void an_item_that_kills_its_node_too_often_is_poison(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    const char *next = scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    for (int death = 1; death <= HANDOVERS_MAX; death++) {
        struct claimed_item item = claim_as(scene, node);
        assert_string_equal(item.id, id);
        dispatch(scene, node, &item);
        record_step(scene, node, &item, "one", STEP_RUNNING);
        struct recover_result result = die(scene, &node);
        assert_int_equal(result.poisoned, death == HANDOVERS_MAX);
        assert_int_equal(result.handed_over, death < HANDOVERS_MAX);
        char detail[64];
        (void)snprintf(detail, sizeof detail, "%d of %d while it ran one; suspicion %d", death, HANDOVERS_MAX, death);
        assert_int_equal(scene_number(scene,
                                      "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = '%s'"
                                      " AND detail = '%s'",
                                      id, death < HANDOVERS_MAX ? "hand_over" : "poison", detail),
                         1);
    }
    assert_string_equal(scene_status_of(scene, id), "FAILED");
    assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", id), "poison");
    assert_string_equal(
        scene_text(scene, "SELECT error FROM executions WHERE id = '%s'", id),
        "its node died 5 times while it ran alone, and no step of it ended in between; it is not tried again");
    assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions WHERE id = '%s'", id), 0);
    assert_int_equal(scene_number(scene, "SELECT handovers FROM executions WHERE id = '%s'", id), HANDOVERS_MAX);
    assert_string_equal(claim_as(scene, node).id, next); /* its slot is free again */
}

static int64_t suspicion_of(struct scene *scene, const char *id)
{
    return scene_number(scene, "SELECT suspicion FROM workflow_execution_queue WHERE id = '%s'", id);
}

/* All of them run when the node dies, again and again: the death is counted against none, but each is suspected. */
static void a_death_is_not_counted_against_an_item_beside_another(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 3);
    int64_t node = scene->node;
    struct claim_result claim = {0};
    for (int death = 1; death < SUSPICION_QUARANTINE; death++) {
        claim = scene_claim_as(scene, node, "default", 10);
        assert_int_equal(claim.count, 3);
        for (size_t i = 0; i < 3; i++) {
            dispatch(scene, node, &claim.items[i]);
            record_step(scene, node, &claim.items[i], "one", STEP_RUNNING);
        }
        scene_pass(scene, SCENE_LEASE_US + 1);
        node = scene_add_node(scene, "node-n", "default");
        /* Not in one call, so that the last one finds a single item. */
        for (int call = 0; call < 3; call++) {
            assert_int_equal(recover_as(scene, node, 1).poisoned, 0);
        }
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(suspicion_of(scene, claim.items[i].id), death);
        }
    }
    assert_int_equal(scene_number(scene, "SELECT max(handovers_counted) FROM workflow_execution_queue"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE suspected_at IS NULL"), 0);
}

/* A step that kills every process of its machine kills nodes on which an innocent one is alone. */
static void a_death_is_not_counted_when_another_node_of_the_machine_died_with_its_items(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 2);
    int64_t other = scene_add_node(scene, "node-2", "default");
    struct claimed_item items[2] = {claim_as(scene, scene->node), claim_as(scene, other)};
    for (size_t i = 0; i < 2; i++) {
        int64_t node = i == 0 ? scene->node : other;
        dispatch(scene, node, &items[i]);
        record_step(scene, node, &items[i], "one", STEP_RUNNING);
    }
    int64_t node = other;
    assert_int_equal(die(scene, &node).handed_over, 2);
    assert_int_equal(scene_number(scene, "SELECT max(handovers_counted) FROM workflow_execution_queue"), 0);
    assert_int_equal(scene_number(scene, "SELECT min(suspicion) FROM workflow_execution_queue"), 1);
}

/* The executions that the metric of poison counts. */
static void count_poisoned(void *context, const struct event *event)
{
    int64_t *poisoned = context;
    *poisoned += event->type == EVENT_EXECUTION_POISONED ? event->count : 0;
}

/* The keeper of its steps was killed: its node gives it back and says whether others ran beside it.
 * The end as poison is an event in both ways. */
static void the_death_of_a_keeper_counts_as_that_of_a_node(void **state)
{
    struct scene *scene = *state;
    struct event_bus events = {.count = 0};
    int64_t poisoned = 0;
    assert_true(event_subscribe(&events, count_poisoned, &poisoned));
    scene->store->events = &events;
    const char *id = scene_enqueue(scene, "free-co");
    for (int death = 1; death <= HANDOVERS_MAX + 2; death++) {
        bool is_alone = death > 2;
        struct claimed_item item = claim_as(scene, scene->node);
        dispatch(scene, scene->node, &item);
        record_step(scene, scene->node, &item, "one", STEP_RUNNING);
        struct record record = scene_record_of(RECORD_GIVEN_BACK, &item);
        record.error_code = is_alone ? SUSPICION_KEEPER_LOST_ALONE : SUSPICION_KEEPER_LOST;
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        if (death < HANDOVERS_MAX + 2) {
            assert_string_equal(scene_reason_of(scene, id), death < SUSPICION_QUARANTINE ? "handed_over" : "quarantined");
            assert_int_equal(suspicion_of(scene, id), death);
            assert_int_equal(scene_number(scene, "SELECT handovers_counted FROM workflow_execution_queue"),
                             is_alone ? death - 2 : 0);
            /* Its slot stays taken while it waits. */
            assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_STALE_FENCE);
            assert_int_equal(poisoned, 0);
        }
        for (int64_t passed_us = 0; passed_us < SECONDS(60); passed_us += SCENE_LEASE_US / 2) {
            scene_pass(scene, SCENE_LEASE_US / 2);
            scene_beat(scene, scene->node);
        }
        scene_check(scene);
    }
    scene->store->events = NULL;
    assert_int_equal(poisoned, 1);
    assert_string_equal(scene_status_of(scene, id), "FAILED");
    assert_string_equal(scene_text(scene, "SELECT error_code FROM executions WHERE id = '%s'", id), "poison");
    assert_int_equal(
        scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND event = 'claim'", id),
        HANDOVERS_MAX + 2);
}

static void suspicion_begins_anew_when_a_step_has_ended(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    for (int death = 1; death <= 3; death++) {
        struct claimed_item item = claim_as(scene, node);
        dispatch(scene, node, &item);
        record_step(scene, node, &item, "one", STEP_RUNNING);
        assert_int_equal(die(scene, &node).handed_over, 1);
        assert_int_equal(suspicion_of(scene, id), death);
    }
    struct claimed_item item = claim_as(scene, node);
    record_step(scene, node, &item, "one", STEP_COMPLETED);
    record_step(scene, node, &item, "two", STEP_RUNNING);
    assert_int_equal(die(scene, &node).handed_over, 1);
    assert_int_equal(suspicion_of(scene, id), 1);
    item = claim_as(scene, node);
    record_step(scene, node, &item, "two", STEP_COMPLETED);
    assert_int_equal(die(scene, &node).handed_over, 1); /* nothing ran */
    assert_int_equal(suspicion_of(scene, id), 0);
    for (int death = 1; death <= 3; death++) { /* a change of state counts, too: such a step ends with its execution */
        item = claim_as(scene, node);
        assert_true(item.is_suspect == (death > 2));
        if (death > 2) {
            record_step(scene, node, &item, "state", STEP_WAITING);
        }
        record_step(scene, node, &item, "state", STEP_RUNNING);
        assert_int_equal(die(scene, &node).handed_over, 1);
        assert_int_equal(suspicion_of(scene, id), death > 2 ? 1 : death);
    }
}

static void an_item_that_was_only_claimed_is_never_poison(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    for (int death = 0; death < MANY_DEATHS; death++) {
        (void)claim_as(scene, node);
        assert_int_equal(die(scene, &node).handed_over, 1);
    }
    assert_int_equal(scene_number(scene, "SELECT handovers FROM executions WHERE id = '%s'", id), MANY_DEATHS);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE detail IS NOT NULL"), 0);
}

/* Sleeping, waiting for the next attempt or a signal, and between two steps: no step runs. */
static void an_item_that_sleeps_or_waits_is_never_poison(void **state)
{
    struct scene *scene = *state;
    const char *sleeps = scene_enqueue(scene, "free-co");
    const char *between = scene_enqueue(scene, "pro-co");
    int64_t node = scene->node;
    for (int death = 0; death < MANY_DEATHS; death++) {
        struct claim_result claim = scene_claim_as(scene, node, "default", 2);
        assert_int_equal(claim.count, 2);
        for (size_t i = 0; i < 2; i++) {
            dispatch(scene, node, &claim.items[i]);
            if (strcmp(claim.items[i].id, sleeps) == 0) {
                record_step(scene, node, &claim.items[i], "one", STEP_WAITING);
            }
        }
        assert_int_equal(die(scene, &node).handed_over, 2);
    }
    assert_string_equal(scene_status_of(scene, sleeps), "CLAIMED");
    assert_string_equal(scene_status_of(scene, between), "CLAIMED");
}

/* A step that ran under an earlier claim proves nothing about this one. */
static void a_step_that_ran_under_an_earlier_claim_does_not_count(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    struct claimed_item item = claim_as(scene, node);
    dispatch(scene, node, &item);
    record_step(scene, node, &item, "one", STEP_RUNNING);
    for (int death = 0; death < MANY_DEATHS; death++) {
        assert_int_equal(die(scene, &node).handed_over, 1);
        item = claim_as(scene, node);
        dispatch(scene, node, &item);
    }
    assert_int_equal(
        scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s' AND detail IS NOT NULL", id),
        1);
}

static void an_item_that_makes_progress_between_deaths_is_never_poison(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    int64_t node = scene->node;
    for (int death = 0; death < MANY_DEATHS; death++) {
        char step[16];
        struct claimed_item item = claim_as(scene, node);
        dispatch(scene, node, &item);
        /* Four deaths in each step, and then it ends. */
        (void)snprintf(step, sizeof step, "step-%d", death / (HANDOVERS_MAX - 1));
        record_step(scene, node, &item, step, STEP_RUNNING);
        if (death % (HANDOVERS_MAX - 1) == HANDOVERS_MAX - 2) {
            record_step(scene, node, &item, step, STEP_COMPLETED);
            record_step(scene, node, &item, "next", STEP_RUNNING);
        }
        assert_int_equal(die(scene, &node).handed_over, 1);
    }
    assert_string_equal(scene_status_of(scene, id), "CLAIMED");
    assert_int_equal(scene_number(scene, "SELECT handovers FROM executions WHERE id = '%s'", id), MANY_DEATHS);
}

/* An execution in an engine outside of the node goes on. To end it would free the slot of a running one. */
static void what_outlives_its_node_is_never_poison(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct node_options options = {.name = "outlived",
                                   .group = "default",
                                   .host = "host",
                                   .boot_id = "boot",
                                   .pid = 4242,
                                   .version = "0",
                                   .engine = "scripted",
                                   .is_outlived = true,
                                   .lease_us = SCENE_LEASE_US};
    for (int death = 0; death < MANY_DEATHS; death++) {
        int64_t node = 0;
        scene_ok(scene, store_node_start(scene->store, &options, &node, &scene->error));
        struct claimed_item item = claim_as(scene, node);
        dispatch(scene, node, &item);
        record_step(scene, node, &item, "workflow", STEP_RUNNING);
        assert_int_equal(die(scene, &node).handed_over, 1);
    }
    assert_string_equal(scene_status_of(scene, id), "CLAIMED");
}

/* Given back by a graceful stop is no death: an item must survive any number of restarts. */
static void a_graceful_give_back_is_never_poison(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    for (int i = 0; i < HANDOVERS_MAX + 3; i++) {
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
        record_step(scene, scene->node, &item, "one", STEP_RUNNING);
        if (i % 2 == 0) {
            assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
        } else {
            scene_ok(scene, store_node_stop(scene->store, scene->node, false, &scene->error));
            scene->node = scene_add_node(scene, "node-1", "default");
        }
    }
    assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions"), 0);
    assert_int_equal(scene_number(scene, "SELECT handovers FROM executions"), 0);
}

static bool knows_all(void *context, const char *id, int64_t fence)
{
    (void)context;
    return id != NULL && fence > 0;
}

static void the_safety_net_hands_over_claims_that_are_too_old(void **state)
{
    struct scene *scene = *state;
    const char *stale = scene_enqueue(scene, "big-co");
    struct claimed_item old = scene_claim_one(scene);
    (void)scene_enqueue(scene, "big-co");
    struct claimed_item running = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &running), WEIR_OK);
    int64_t other = scene_add_node(scene, "node-2", "default");
    for (int64_t passed_us = 0; passed_us <= STALE_CLAIM_US; passed_us += SECONDS(5)) {
        scene_pass(scene, SECONDS(5));
        scene_beat(scene, scene->node);
        scene_beat(scene, other);
    }
    (void)scene_enqueue(scene, "big-co");
    struct claimed_item fresh = scene_claim_one(scene);
    struct recover_options options = {.node_id = other, .group = "default", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 0);
    options.stale_claim_us = STALE_CLAIM_US;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 0); /* its holder lives: another node must not take it */
    options.node_id = scene->node;
    options.knows = knows_all;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 0);
    options.knows = NULL;
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 1);
    assert_string_equal(scene_reason_of(scene, stale), "handed_over");
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &old), WEIR_STALE_FENCE);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &running), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &fresh), WEIR_OK);
}

static void the_safety_net_minds_only_its_group(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "big-co");
    struct claimed_item old = scene_claim_one(scene);
    int64_t other = scene_add_node(scene, "node-2", "batch");
    for (int64_t passed_us = 0; passed_us <= STALE_CLAIM_US; passed_us += SECONDS(5)) {
        scene_pass(scene, SECONDS(5));
        scene_beat(scene, scene->node);
        scene_beat(scene, other);
    }
    struct recover_options options = {.node_id = other, .group = "batch", .stale_claim_us = STALE_CLAIM_US, .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.handed_over, 0);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &old), WEIR_OK);
}

static void a_stopping_node_leaves_nothing_behind(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 2);
    struct claim_result claim = scene_claim(scene, 2);
    struct node_beat beat = {0};
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &claim.items[0]), WEIR_OK);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    scene_check(scene);
    assert_string_equal(scene_reason_of(scene, claim.items[0].id), "handed_over");
    assert_string_equal(scene_reason_of(scene, claim.items[1].id), "handed_over"); /* its start may have left already */
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_STALE_FENCE);
    int64_t second = scene_add_node(scene, "node-2", "default");
    struct claim_result again = scene_claim_as(scene, second, "default", 10);
    assert_int_equal(again.count, 2);
    assert_int_equal(again.handed_over, 2);
    assert_int_equal(scene_number(scene, "SELECT max(starts_refused + deferrals) FROM executions"), 0);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error)); /* twice is safe */
    assert_int_equal(recover_as(scene, second, 10).nodes, 0);
}

/* The story of an execution names the nodes that had it. */
static void a_node_that_is_gone_is_on_record_for_a_year(void **state)
{
    struct scene *scene = *state;
    int64_t gone = scene_add_node(scene, "gone", "default");
    scene_ok(scene, store_node_stop(scene->store, gone, true, &scene->error));
    (void)recover_as(scene, scene->node, 10);
    assert_int_equal(scene_number(scene, "SELECT count(recovered_at) FROM nodes WHERE name = 'gone'"), 1);
    scene_pass(scene, NODE_ROW_KEPT_US - SECONDS(3600));
    (void)scene_add_node(scene, "second", "default");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM nodes WHERE name = 'gone'"), 1);
    scene_pass(scene, SECONDS(3600) + 1);
    (void)scene_add_node(scene, "third", "default");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM nodes WHERE name = 'gone'"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM nodes WHERE name = 'node-1'"), 1); /* not recovered yet */
}

static void a_wish_reaches_its_node_by_name_or_number(void **state)
{
    struct scene *scene = *state;
    static const enum desired_state wishes[] = {NODE_PAUSE, NODE_DRAIN, NODE_STOP, NODE_RUN};
    char number[24];
    (void)snprintf(number, sizeof number, "%lld", (long long)scene->node);
    for (size_t i = 0; i < 4; i++) {
        struct node_beat beat = {0};
        scene_ok(scene, store_set_desired_state(scene->store, i % 2 == 0 ? "node-1" : number, wishes[i], &scene->error));
        assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
        assert_int_equal(beat.desired_state, wishes[i]);
    }
}

/* One process may be nodes of several groups, and a program that embeds it may give them one name. */
static void a_node_that_stands_up_again_keeps_no_namesakes_wish(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {0};
    char number[24];
    int64_t other = scene_add_node(scene, "node-1", "batch");
    (void)snprintf(number, sizeof number, "%lld", (long long)other);
    scene_ok(scene, store_set_desired_state(scene->store, number, NODE_DRAIN, &scene->error));
    scene_pass(scene, SCENE_LEASE_US + 1);
    assert_int_equal(try_beat(scene, scene_add_node(scene, "node-1", "default"), &beat), WEIR_OK);
    assert_int_equal(beat.desired_state, NODE_RUN);
    assert_int_equal(try_beat(scene, scene_add_node(scene, "node-1", "batch"), &beat), WEIR_OK);
    assert_int_equal(beat.desired_state, NODE_DRAIN);
}

static void a_wish_for_nobody_names_those_who_are_there(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(store_set_desired_state(scene->store, "node-l", NODE_PAUSE, &scene->error), WEIR_NOT_FOUND);
    assert_true(strstr(scene->error.hint, "node-1") != NULL || strstr(scene->error.message, "node-1") != NULL);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    assert_int_equal(store_set_desired_state(scene->store, "node-1", NODE_PAUSE, &scene->error), WEIR_NOT_FOUND);
}

static void a_beat_tells_that_the_queue_is_paused(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {0};
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_true(beat.queue_paused);
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, "default", true, &scene->error));
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_true(beat.queue_paused);
    scene_ok(scene, store_set_paused(scene->store, "default", false, &scene->error));
    assert_int_equal(try_beat(scene, scene->node, &beat), WEIR_OK);
    assert_false(beat.queue_paused);
}

static void a_cancel_is_passed_on_once_and_only_to_its_node(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    int64_t other = scene_add_node(scene, "node-2", "default");
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_true(scene_look(scene).requests);
    (void)scene_take_requests(scene, other, 0);
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_string_equal(requests[0].id, id);
    assert_int_equal(requests[0].fence, item.fence);
    (void)scene_take_requests(scene, scene->node, 0);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    assert_string_equal(scene_status_of(scene, id), "CANCELLED");
}

/* Asked for while its node was dying: the next node must hear of it. */
static void a_cancel_survives_a_handover(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    (void)scene_take_requests(scene, scene->node, 1);
    int64_t alive = let_node_die(scene);
    (void)recover_as(scene, alive, 10);
    struct claim_result claim = scene_claim_as(scene, alive, "default", 10);
    if (claim.count == 0) {
        assert_string_equal(scene_status_of(scene, id), "CANCELLED");
        return;
    }
    assert_true(claim.items[0].cancel_requested);
}

static void a_cancel_that_comes_after_a_handover_reaches_the_new_node(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    int64_t second = scene_add_node(scene, "node-2", "default");
    struct claim_result claim = scene_claim_as(scene, second, "default", 1);
    assert_int_equal(claim.handed_over, 1);
    assert_false(claim.items[0].cancel_requested);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    struct node_request *requests = scene_take_requests(scene, second, 1);
    assert_int_equal(requests[0].fence, claim.items[0].fence);
}

/* A start that was refused after the cancel was asked for must not bring the item back. */
static void a_cancelled_item_that_is_put_back_ends_cancelled(void **state)
{
    struct scene *scene = *state;
    static const enum record_kind kinds[] = {RECORD_RETRY, RECORD_DEFERRED, RECORD_PUT_BACK};
    for (size_t i = 0; i < 3; i++) {
        const char *id = scene_enqueue(scene, "free-co");
        struct claimed_item item = scene_claim_one(scene);
        struct execution_filter filter = {.id = id};
        struct bulk_result result = {0};
        scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
        assert_int_equal(scene_record(scene, kinds[i], &item), WEIR_OK);
        assert_string_equal(scene_status_of(scene, id), "CANCELLED");
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_node_is_registered_with_all_that_is_known_of_it),
        SCENE_TEST(a_beat_renews_the_lease_in_store_time),
        SCENE_TEST(a_beat_to_an_older_row_finds_the_lease_lost),
        SCENE_TEST(numbers_of_nodes_and_fences_begin_with_the_time),
        SCENE_TEST(a_beat_on_a_shared_store_tells_of_the_other_nodes_of_its_group),
        SCENE_TEST(a_live_nodes_claims_are_left_alone),
        SCENE_TEST(a_dead_nodes_items_are_handed_over_with_their_slots),
        SCENE_TEST(a_zombies_late_words_change_nothing),
        SCENE_TEST(a_node_that_beats_in_time_after_a_long_pause_has_lost_its_lease),
        SCENE_TEST(recovery_goes_in_chunks_and_says_when_there_is_more),
        SCENE_TEST(two_recoverers_hand_each_item_over_once),
        SCENE_TEST(a_group_recovers_only_its_own_nodes),
        SCENE_TEST(a_handed_over_item_stays_in_its_group),
        SCENE_TEST(a_node_whose_process_is_gone_is_dead_before_its_lease_ends),
        SCENE_TEST(an_item_that_kills_its_node_too_often_is_poison),
        SCENE_TEST(a_death_is_not_counted_against_an_item_beside_another),
        SCENE_TEST(a_death_is_not_counted_when_another_node_of_the_machine_died_with_its_items),
        SCENE_TEST(the_death_of_a_keeper_counts_as_that_of_a_node),
        SCENE_TEST(suspicion_begins_anew_when_a_step_has_ended),
        SCENE_TEST(an_item_that_was_only_claimed_is_never_poison),
        SCENE_TEST(an_item_that_sleeps_or_waits_is_never_poison),
        SCENE_TEST(a_step_that_ran_under_an_earlier_claim_does_not_count),
        SCENE_TEST(an_item_that_makes_progress_between_deaths_is_never_poison),
        SCENE_TEST(what_outlives_its_node_is_never_poison),
        SCENE_TEST(a_graceful_give_back_is_never_poison),
        SCENE_TEST(the_safety_net_hands_over_claims_that_are_too_old),
        SCENE_TEST(the_safety_net_minds_only_its_group),
        SCENE_TEST(a_stopping_node_leaves_nothing_behind),
        SCENE_TEST(a_node_that_is_gone_is_on_record_for_a_year),
        SCENE_TEST(a_wish_reaches_its_node_by_name_or_number),
        SCENE_TEST(a_node_that_stands_up_again_keeps_no_namesakes_wish),
        SCENE_TEST(a_wish_for_nobody_names_those_who_are_there),
        SCENE_TEST(a_beat_tells_that_the_queue_is_paused),
        SCENE_TEST(a_cancel_is_passed_on_once_and_only_to_its_node),
        SCENE_TEST(a_cancel_survives_a_handover),
        SCENE_TEST(a_cancel_that_comes_after_a_handover_reaches_the_new_node),
        SCENE_TEST(a_cancelled_item_that_is_put_back_ends_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
