/* store_why: the one reason for which an execution is not running, or what it does, with the numbers behind it. */
#include "conformance/scene.h"

static json_t *why(struct scene *scene, const char *id)
{
    json_t *answer = NULL;
    scene_ok(scene, store_why(scene->store, id, &answer, &scene->error));
    assert_string_equal(json_text_at(answer, "id"), id);
    return answer;
}

/* The reasons of queue/item.h, on each store. */
static void assert_meaning(const json_t *answer, const char *reason)
{
    for (int i = 0; i < PENDING_REASON_COUNT; i++) {
        if (strcmp(pending_reason_name((enum pending_reason)i), reason) == 0) {
            assert_string_equal(json_text_at(answer, "because"), pending_reason_meaning((enum pending_reason)i));
            return;
        }
    }
    fail_msg("%s is not in the list", reason);
}

/* By why and by the view. */
static void assert_reason(struct scene *scene, const char *id, const char *reason)
{
    json_t *answer = why(scene, id);
    assert_string_equal(json_text_at(answer, "pending_reason"), reason);
    assert_meaning(answer, reason);
    const char *in_view = scene_reason_of(scene, id);
    assert_non_null(in_view);
    assert_string_equal(in_view, reason);
    json_decref(answer);
}

static void a_ready_one_knows_its_place(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    const char *second = scene_enqueue(scene, "pro-co");
    assert_reason(scene, second, "ready");
    json_t *answer = why(scene, second);
    assert_int_equal(json_number_at(answer, "slots_max"), 5);
    assert_int_equal(json_number_at(answer, "slots_used"), 0);
    assert_int_equal(json_number_at(answer, "place"), 2);
    assert_true(json_is_true(json_object_get(answer, "place_is_exact")));
    json_decref(answer);
}

static void one_at_capacity_names_who_holds_the_slots(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item holder = scene_claim_one(scene);
    const char *id = scene_enqueue(scene, "free-co");
    scene_pass(scene, SECONDS(3));
    assert_reason(scene, id, "workspace_at_capacity");
    json_t *answer = why(scene, id);
    const json_t *holders = json_object_get(answer, "slot_holders");
    assert_int_equal(json_number_at(answer, "slots_used"), 1);
    assert_int_equal(json_number_at(answer, "slots_max"), 1);
    assert_int_equal(json_array_size(holders), 1);
    const json_t *first = json_array_get(holders, 0);
    assert_string_equal(json_text_at(first, "id"), holder.id);
    assert_string_equal(json_text_at(first, "status"), "CLAIMED");
    assert_string_equal(json_text_at(first, "node"), "node-1");
    assert_int_equal(json_number_at(first, "running_us"), SECONDS(3));
    json_decref(answer);
}

static void a_scheduled_one_knows_its_time(void **state)
{
    struct scene *scene = *state;
    int64_t due_us = scene_now(scene) + SECONDS(60);
    char due[TIME_TEXT_MAX];
    const char *id = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = due_us});
    assert_reason(scene, id, "scheduled");
    json_t *answer = why(scene, id);
    time_format(due_us, due);
    assert_string_equal(json_text_at(answer, "due_at"), due);
    json_decref(answer);
}

static void one_that_backs_off_knows_its_refused_starts_and_its_time(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct record record = scene_record_of(RECORD_RETRY, &item);
    char due[TIME_TEXT_MAX];
    record.delay_us = SECONDS(7);
    time_format(scene_now(scene) + SECONDS(7), due);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_reason(scene, id, "backing_off");
    json_t *answer = why(scene, id);
    assert_int_equal(json_number_at(answer, "starts_refused"), 1);
    assert_int_equal(json_number_at(answer, "starts_max"), STARTS_MAX_DEFAULT);
    assert_string_equal(json_text_at(answer, "due_at"), due);
    json_decref(answer);
}

static void assert_why(struct scene *scene, const char *id, const char *reason)
{
    json_t *answer = why(scene, id);
    assert_string_equal(json_text_at(answer, "pending_reason"), reason);
    json_decref(answer);
}

/* By why and by status; NULL: neither tells one. */
static void assert_engine_error(struct scene *scene, const char *id, const char *error)
{
    json_t *answer = why(scene, id);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    const json_t *told[] = {json_object_get(answer, "engine_error"), json_object_get(status, "engine_error")};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        assert_non_null(told[i]);
        assert_true(error == NULL ? json_is_null(told[i]) : json_is_string(told[i]));
        if (error != NULL) {
            assert_string_equal(json_string_value(told[i]), error);
        }
    }
    json_decref(answer);
    json_decref(status);
}

/* In the order of the list in queue/item.h: the first that applies is told. */
static void pauses_nodes_and_engines_are_reasons(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct node_beat beat = {.engine_reachable = false, .engine_error = "127.0.0.1:7233 refuses connections"};
    scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
    assert_reason(scene, id, "engine_unreachable");
    assert_engine_error(scene, id, beat.engine_error);
    scene_pass(scene, SCENE_LEASE_US + 1);
    assert_why(scene, id, "no_node_in_group"); /* by store time */
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    assert_reason(scene, id, "queue_paused");
    scene_pause_workspace(scene, "pro-co", true);
    assert_reason(scene, id, "workspace_paused");
    scene_pause_workspace(scene, "pro-co", false);
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    (void)scene_add_node(scene, "node-2", "default");
    assert_why(scene, id, "ready");
}

/* Each group has engines of its own, and only its live nodes speak for them. */
static void an_engine_that_is_away_is_that_of_the_group(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct node_beat own = {.engine_reachable = false, .engine_error = "a: the own one"};
    struct node_beat other = {.engine_reachable = false, .engine_error = "b: of the group payments"};
    struct node_beat stopped = {.engine_reachable = false, .engine_error = "c: of a node that has stopped"};
    int64_t payments = scene_add_node(scene, "payer", "payments");
    int64_t second = scene_add_node(scene, "second", "default");
    scene_ok(scene, store_node_beat(scene->store, second, &stopped, &scene->error));
    scene_ok(scene, store_node_stop(scene->store, second, true, &scene->error));
    scene_ok(scene, store_node_beat(scene->store, scene->node, &own, &scene->error));
    scene_ok(scene, store_node_beat(scene->store, payments, &other, &scene->error));
    assert_why(scene, id, "engine_unreachable");
    json_t *answer = why(scene, id);
    assert_string_equal(json_text_at(answer, "engine_error"), own.engine_error);
    json_decref(answer);
}

static void beat_with(struct scene *scene, bool reachable)
{
    struct node_beat beat = {.engine_reachable = reachable, .engine_error = "127.0.0.1:7233 refuses connections"};
    scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
}

/* TIME_NEVER: its engine can be reached. */
static void assert_away_since(struct scene *scene, const char *id, int64_t since_us)
{
    char since[TIME_TEXT_MAX] = "";
    json_t *answer = why(scene, id);
    assert_non_null(json_object_get(answer, "engine_unreachable_since"));
    if (since_us == TIME_NEVER) {
        assert_true(json_is_null(json_object_get(answer, "engine_unreachable_since")));
        assert_true(json_is_null(json_object_get(answer, "engine_error")));
    } else {
        time_format(since_us, since);
        assert_string_equal(json_text_at(answer, "engine_unreachable_since"), since);
        assert_string_equal(json_text_at(answer, "engine_error"), "127.0.0.1:7233 refuses connections");
    }
    json_decref(answer);
}

static void an_engine_that_is_away_is_told_with_since_when_to_what_waits_and_what_runs(void **state)
{
    struct scene *scene = *state;
    const char *first = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    const char *second = scene_enqueue(scene, "pro-co");
    for (int round = 0; round < 2; round++) {
        assert_away_since(scene, item.id, TIME_NEVER);
        assert_away_since(scene, second, TIME_NEVER);
        beat_with(scene, false);
        int64_t since_us = scene_now(scene);
        scene_pass(scene, SECONDS(3));
        beat_with(scene, false);
        assert_away_since(scene, item.id, since_us); /* its start has no answer yet */
        assert_why(scene, second, "engine_unreachable");
        assert_away_since(scene, second, since_us);
        beat_with(scene, true);
        if (round == 0) {
            assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
        }
    }
    assert_string_equal(first, item.id);
    assert_away_since(scene, first, TIME_NEVER);
}

/* It is reached, and starts: what waits is not held back, and what runs says since when its end may be seen late. */
static void an_engine_that_sees_ends_late_is_told_with_since_when(void **state)
{
    struct scene *scene = *state;
    struct node_beat impaired = {.engine_reachable = true, .engine_impaired = true, .engine_error = "the list: denied"};
    struct node_beat sound = {.engine_reachable = true, .capacity = SCENE_CAPACITY};
    char since[TIME_TEXT_MAX];
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    const char *second = scene_enqueue(scene, "pro-co");
    impaired.capacity = SCENE_CAPACITY;
    scene_ok(scene, store_node_beat(scene->store, scene->node, &impaired, &scene->error));
    time_format(scene_now(scene), since);
    scene_pass(scene, SECONDS(3));
    scene_ok(scene, store_node_beat(scene->store, scene->node, &impaired, &scene->error));
    for (int is_sound = 0; is_sound < 2; is_sound++) {
        json_t *answer = why(scene, item.id);
        json_t *status = NULL;
        scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
        assert_true(json_is_true(json_object_get(status, "engine_reachable")));
        assert_engine_error(scene, item.id, is_sound ? NULL : impaired.engine_error);
        const json_t *told[] = {answer, status};
        for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
            const json_t *at = json_object_get(told[i], "engine_impaired_since");
            assert_non_null(at);
            assert_true(is_sound ? json_is_null(at) : json_is_string(at));
            if (!is_sound) {
                assert_string_equal(json_string_value(at), since);
            }
            assert_true(json_is_null(json_object_get(told[i], "engine_unreachable_since")));
        }
        json_decref(answer);
        json_decref(status);
        assert_why(scene, second, "ready");
        scene_ok(scene, store_node_beat(scene->store, scene->node, &sound, &scene->error));
    }
}

/* By why, by the view and by status: no node claims, `live` are there, and `paused` is one to resume (NULL: none). */
static void assert_unserved(struct scene *scene, const char *id, int live, const char *paused)
{
    json_t *status = NULL;
    assert_reason(scene, id, "no_node_in_group");
    json_t *answer = why(scene, id);
    assert_int_equal(json_number_at(answer, "nodes_live"), live);
    assert_non_null(json_object_get(answer, "paused_node"));
    if (paused == NULL) {
        assert_true(json_is_null(json_object_get(answer, "paused_node")));
    } else {
        assert_string_equal(json_text_at(answer, "paused_node"), paused);
    }
    json_decref(answer);
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    const json_t *reasons = json_object_get(status, "pending_reasons");
    assert_int_equal(json_number_at(reasons, "no_node_in_group"), 1);
    assert_int_equal(json_number_at(reasons, "ready"), 0);
    json_decref(status);
}

static void nodes_that_are_told_to_claim_nothing_do_not_serve_their_group(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    static const enum desired_state wishes[] = {NODE_PAUSE, NODE_DRAIN, NODE_STOP};
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        scene_ok(scene, store_set_desired_state(scene->store, "node-1", wishes[i], &scene->error));
        assert_unserved(scene, id, 1, wishes[i] == NODE_STOP ? NULL : "node-1");
    }
    int64_t second = scene_add_node(scene, "node-2", "default");
    (void)scene_add_node(scene, "other", "batch"); /* of another group: it helps nobody here */
    assert_reason(scene, id, "ready");
    json_t *answer = why(scene, id);
    assert_true(json_is_null(json_object_get(answer, "nodes_live")));
    json_decref(answer);
    /* The claiming node decides: a paused node that reaches its engine is of no use. */
    struct node_beat beat = {.engine_reachable = false, .engine_error = "127.0.0.1:7233 refuses connections"};
    scene_ok(scene, store_node_beat(scene->store, second, &beat, &scene->error));
    assert_reason(scene, id, "engine_unreachable");
    scene_ok(scene, store_set_desired_state(scene->store, "node-2", NODE_PAUSE, &scene->error));
    assert_unserved(scene, id, 2, "node-2");
    scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_RUN, &scene->error));
    assert_reason(scene, id, "ready");
}

static json_t *node_facts(struct scene *scene, const char *name)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES, .name = name};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    json_t *facts = json_deep_copy(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return facts;
}

static void assert_node_state(struct scene *scene, const char *name, const char *state)
{
    json_t *facts = node_facts(scene, name);
    assert_string_equal(json_text_at(facts, "state"), state);
    json_decref(facts);
}

/* By its own decision: no operator can resume it. */
static void nodes_that_stand_aside_do_not_serve_their_group(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    static const enum not_accepting asides[] = {NOT_ACCEPTING_STOPPING, NOT_ACCEPTING_PAUSED};
    for (size_t i = 0; i < sizeof asides / sizeof asides[0]; i++) {
        struct node_beat beat = {.engine_reachable = true, .not_accepting = asides[i]};
        scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
        assert_unserved(scene, id, 1, NULL);
        assert_node_state(scene, "node-1", not_accepting_name(asides[i]));
    }
    /* An operator's pause is shown first, but resuming the node would not help. */
    scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_PAUSE, &scene->error));
    assert_unserved(scene, id, 1, NULL);
    assert_node_state(scene, "node-1", "paused");
    scene_ok(scene, store_set_desired_state(scene->store, "node-1", NODE_RUN, &scene->error));
    struct node_beat beat = {.engine_reachable = true, .capacity = SCENE_CAPACITY};
    scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
    assert_reason(scene, id, "ready");
    assert_node_state(scene, "node-1", "alive");
}

static void one_that_starts_aside_never_serves(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    struct node_options options = {.name = "producer",
                                   .group = "default",
                                   .host = "host",
                                   .boot_id = "boot",
                                   .version = "test",
                                   .engine = "scripted",
                                   .not_accepting = NOT_ACCEPTING_PAUSED,
                                   .lease_us = SCENE_LEASE_US};
    int64_t node = 0;
    scene_ok(scene, store_node_start(scene->store, &options, &node, &scene->error));
    assert_unserved(scene, id, 1, NULL);
    assert_node_state(scene, "producer", "paused");
}

static void a_handed_over_one_says_so(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    assert_reason(scene, id, "handed_over");
}

/* The slot of a workspace is held by an execution that no live node can take over: the answers name its group. */
static void a_slot_held_by_a_group_without_nodes_is_named(void **state)
{
    struct scene *scene = *state;
    scene_group(scene, "reports");
    const char *id = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "hello", .group = "reports"});
    int64_t node = scene_add_node(scene, "reporter", "reports");
    struct claimed_item item = scene_claim_as(scene, node, "reports", 1).items[0];
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, node, record), WEIR_OK);
    const char *other = scene_enqueue(scene, "free-co");
    for (int64_t live = 1; live >= 0; live--) {
        if (live > 0) {
            assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_GIVEN_BACK, &item)), WEIR_OK);
        } else {
            scene_ok(scene, store_node_stop(scene->store, node, true, &scene->error));
        }
        json_t *holder = why(scene, id);
        assert_string_equal(json_text_at(holder, "pending_reason"), "handed_over");
        assert_non_null(strstr(json_text_at(holder, "because"), "gave it back"));
        assert_string_equal(json_text_at(holder, "executor_group"), "reports");
        assert_int_equal(json_number_at(holder, "nodes_live"), live);
        const json_t *left = json_array_get(json_object_get(holder, "unfinished_steps"), 0);
        assert_string_equal(json_text_at(left, "status"), "INTERRUPTED");
        json_decref(holder);
        json_t *waiting = why(scene, other);
        assert_string_equal(json_text_at(waiting, "pending_reason"), "workspace_at_capacity");
        const json_t *slot = json_array_get(json_object_get(waiting, "slot_holders"), 0);
        assert_string_equal(json_text_at(slot, "id"), id);
        assert_string_equal(json_text_at(slot, "executor_group"), "reports");
        assert_int_equal(json_number_at(slot, "nodes_live"), live);
        json_decref(waiting);
    }
}

static void one_that_runs_names_its_node_and_has_no_reason(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    for (int i = 0; i < 3; i++) {
        json_t *answer = why(scene, id);
        assert_true(json_is_null(json_object_get(answer, "pending_reason")));
        assert_true(strlen(json_text_at(answer, "because")) > 0);
        if (i < 2) {
            assert_string_equal(json_text_at(answer, "node"), "node-1");
            assert_non_null(json_object_get(answer, "due_at"));
            assert_true(json_is_null(json_object_get(answer, "due_at"))); /* that was of the wait before its claim */
        }
        json_decref(answer);
        assert_int_equal(scene_record(scene, i == 0 ? RECORD_DISPATCHED : RECORD_COMPLETED, &item),
                         i == 2 ? WEIR_EXECUTION_NOT_FOUND : WEIR_OK);
    }
}

static void beat_as(struct scene *scene, int64_t node, size_t running, size_t capacity)
{
    struct node_beat beat = {.engine_reachable = true, .running = running, .capacity = capacity};
    scene_ok(scene, store_node_beat(scene->store, node, &beat, &scene->error));
}

/* By status. */
static void assert_counted(struct scene *scene, const char *reason, int64_t count)
{
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), reason), count);
    json_decref(status);
}

static void assert_full(struct scene *scene, const char *id, int64_t nodes, int64_t running, int64_t capacity)
{
    assert_reason(scene, id, "nodes_full");
    json_t *answer = why(scene, id);
    const json_t *full = json_object_get(answer, "full_nodes");
    assert_int_equal(json_number_at(full, "nodes"), nodes);
    assert_int_equal(json_number_at(full, "running"), running);
    assert_int_equal(json_number_at(full, "capacity"), capacity);
    json_decref(answer);
    assert_counted(scene, "nodes_full", 1);
    assert_counted(scene, "ready", 0);
}

static void assert_not_full(struct scene *scene, const char *id, const char *reason)
{
    assert_reason(scene, id, reason);
    json_t *answer = why(scene, id);
    assert_non_null(json_object_get(answer, "full_nodes"));
    assert_true(json_is_null(json_object_get(answer, "full_nodes")));
    json_decref(answer);
    assert_counted(scene, reason, 1);
    assert_counted(scene, "nodes_full", 0);
}

/* The nodes of another group, and those that accept no work, do not count. */
static void one_that_waits_for_room_on_a_node_names_the_full_nodes(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "free-co");
    int64_t second = scene_add_node(scene, "node-2", "default");
    (void)scene_add_node(scene, "node-3", "reports");
    beat_as(scene, scene->node, 2, 2);
    assert_not_full(scene, id, "ready");
    beat_as(scene, second, 3, 3);
    assert_full(scene, id, 2, 5, 5);
    beat_as(scene, second, 2, 3);
    assert_not_full(scene, id, "ready");
    scene_ok(scene, store_set_desired_state(scene->store, "node-2", NODE_PAUSE, &scene->error));
    assert_full(scene, id, 1, 2, 2);
    beat_as(scene, scene->node, 0, 0); /* its breaker lets nothing through */
    assert_full(scene, id, 1, 0, 0);
    scene_pause_workspace(scene, "free-co", true);
    assert_not_full(scene, id, "workspace_paused");
}

/* More capacity of the nodes would not start it. */
static void the_cap_of_the_workspace_is_named_before_full_nodes(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    const char *id = scene_enqueue(scene, "free-co");
    beat_as(scene, scene->node, 1, 1);
    assert_not_full(scene, id, "workspace_at_capacity");
}

/* It is ready all the same: whether it waits for the lock, only the nodes know. */
static void why_names_who_has_the_lock_of_exclusive_dispatch(void **state)
{
    struct scene *scene = *state;
    struct lock_request lock = {
        .name = "processExecutionQueue", .holder = "riven", .at_most_us = SECONDS(240), .at_least_us = SECONDS(10)};
    const char *id = scene_enqueue(scene, "free-co");
    for (int held = 0; held < 3; held++) { /* not yet, now, not any more */
        json_t *answer = why(scene, id);
        assert_string_equal(json_text_at(answer, "pending_reason"), "ready");
        if (held == 1) {
            assert_string_equal(json_text_at(answer, "lock_holder"), "riven");
            assert_non_null(json_text_at(answer, "lock_until"));
            scene_pass(scene, SECONDS(241));
            scene_beat(scene, scene->node);
        } else {
            assert_null(json_object_get(answer, "lock_holder"));
            assert_null(json_object_get(answer, "lock_until"));
        }
        if (held == 0) {
            scene_ok(scene, store_lock(scene->store, &lock, &scene->error));
        }
        json_decref(answer);
    }
}

/* Until somebody takes it over it would be wrong to say that it runs, or is about to be started. */
static void what_a_silent_node_holds_is_not_said_to_run(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    for (int i = 0; i < 2; i++) {
        json_t *before = why(scene, id);
        assert_null(strstr(json_text_at(before, "because"), "silent"));
        assert_true(json_is_null(json_object_get(before, "node_silent_since")));
        assert_true(json_is_null(json_object_get(before, "nodes_live")));
        json_decref(before);
        char heard[TIME_TEXT_MAX];
        time_format(scene_now(scene), heard);
        scene_pass(scene, SCENE_LEASE_US + 1);
        json_t *silent = why(scene, id);
        assert_non_null(strstr(json_text_at(silent, "because"), "its node is silent"));
        assert_true(json_is_null(json_object_get(silent, "pending_reason")));
        assert_string_equal(json_text_at(silent, "node"), "node-1");
        assert_string_equal(json_text_at(silent, "node_silent_since"), heard);
        assert_int_equal(json_number_at(silent, "nodes_live"), 0);
        json_decref(silent);
        beat_with(scene, true);
        if (i == 0) {
            assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
        }
    }
}

/* since_us 0: a node has the role. */
static void assert_no_scheduler_since(struct scene *scene, const char *id, int64_t since_us)
{
    char since[TIME_TEXT_MAX] = "";
    json_t *answer = why(scene, id);
    const json_t *told = json_object_get(answer, "scheduler_since");
    assert_non_null(told);
    assert_non_null(json_object_get(answer, "scheduler_why"));
    if (since_us == 0) {
        assert_true(json_is_null(told));
        assert_true(json_is_null(json_object_get(answer, "scheduler_why")));
    } else {
        time_format(since_us, since);
        assert_string_equal(json_text_at(answer, "scheduler_since"), since);
        assert_true(strlen(json_text_at(answer, "scheduler_why")) > 0);
    }
    json_decref(answer);
}

/* A node is alive and accepts work, but none has the role: also a full workspace is not what holds it back. */
static void what_waits_without_a_scheduler_has_that_reason(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    const char *full = scene_enqueue(scene, "free-co");
    const char *id = scene_enqueue(scene, "pro-co");
    struct role_state role;
    int64_t epoch = 0;
    scene_ok(scene, take_role(scene->store, scene->node, &epoch, &scene->error));
    assert_reason(scene, id, "ready");
    assert_reason(scene, full, "workspace_at_capacity");
    struct role_request leave = {.act = ROLE_LEAVE, .node_id = scene->node, .epoch = epoch};
    scene_ok(scene, store_role(scene->store, &leave, &role, &scene->error));
    assert_reason(scene, id, "no_scheduler");
    assert_reason(scene, full, "no_scheduler");
    assert_no_scheduler_since(scene, id, scene_now(scene));
    struct role_request take = {.act = ROLE_TAKE, .node_id = scene->node, .lease_us = SCHEDULER_LEASE_US};
    scene_ok(scene, store_role(scene->store, &take, &role, &scene->error));
    assert_reason(scene, id, "ready");
    assert_no_scheduler_since(scene, id, 0);
    scene_pass(scene, SCHEDULER_LEASE_US + SECONDS(2));
    assert_why(scene, id, "no_scheduler"); /* by store time */
    assert_no_scheduler_since(scene, id, scene_now(scene) - SECONDS(2));
    beat_with(scene, false);
    assert_why(scene, id, "engine_unreachable");
}

/* The first round loads; each one renews the role. */
static void round_that_awaits(struct scene *scene, int64_t epoch, bool load, bool awaits_lock)
{
    struct schedule_answer answer;
    struct schedule_call call = {
        .node_id = scene->node, .epoch = epoch, .load = load, .lease_us = SCHEDULER_LEASE_US, .awaits_lock = awaits_lock};
    scene_ok(scene, store_schedule(scene->store, &call, &scene->arena, &answer, &scene->error));
}

/* dispatch.exclusive: the scheduler is there and assigns nothing, from the first round that says so. */
static void a_scheduler_that_awaits_its_lock_counts_as_none(void **state)
{
    struct scene *scene = *state;
    struct lock_request lock = {.name = "processExecutionQueue", .holder = "gone:1", .at_most_us = SECONDS(240)};
    const char *id = scene_enqueue(scene, "pro-co");
    int64_t epoch = 0;
    scene_ok(scene, store_lock(scene->store, &lock, &scene->error));
    scene_ok(scene, take_role(scene->store, scene->node, &epoch, &scene->error));
    round_that_awaits(scene, epoch, true, false);
    assert_reason(scene, id, "ready");
    int64_t since_us = scene_now(scene);
    round_that_awaits(scene, epoch, false, true);
    scene_pass(scene, SECONDS(1));
    round_that_awaits(scene, epoch, false, true);
    assert_reason(scene, id, "no_scheduler");
    assert_no_scheduler_since(scene, id, since_us);
    json_t *answer = why(scene, id);
    assert_string_equal(json_text_at(answer, "scheduler_why"), "awaits the lock");
    assert_string_equal(json_text_at(answer, "scheduler_node"), "node-1");
    assert_string_equal(json_text_at(answer, "lock_holder"), "gone:1");
    json_decref(answer);
    round_that_awaits(scene, epoch, false, false);
    assert_reason(scene, id, "ready");
    assert_no_scheduler_since(scene, id, 0);
}

/* The heartbeat of a node whose steps of dispatch have all failed for so long; 0: they succeed. */
static void beat_failing(struct scene *scene, int64_t node, int64_t lasted_us)
{
    struct node_beat beat = {.engine_reachable = true,
                             .capacity = SCENE_CAPACITY,
                             .dispatch_failed_us = lasted_us,
                             .dispatch_error = lasted_us > 0 ? "disk full (store_full)" : NULL};
    scene_ok(scene, store_node_beat(scene->store, node, &beat, &scene->error));
}

/* The scheduler in the status, and the row of the node. since_us 0: no failure counts there. */
static void assert_failing(struct scene *scene, const char *node, int64_t role_since_us, int64_t node_since_us)
{
    char since[TIME_TEXT_MAX];
    json_t *status = NULL;
    json_t *page = NULL;
    struct list_options nodes = {.kind = LIST_NODES, .name = node};
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    scene_ok(scene, store_list(scene->store, &nodes, &page, &scene->error));
    const json_t *rows[] = {json_object_get(status, "scheduler"), json_array_get(json_object_get(page, "items"), 0)};
    const char *keys[][2] = {{"failing_since", "error"}, {"dispatch_failing_since", "dispatch_error"}};
    int64_t since_us[] = {role_since_us, node_since_us};
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(json_object_get(rows[i], keys[i][0]));
        assert_int_equal(json_is_string(json_object_get(rows[i], keys[i][0])), since_us[i] != 0);
        assert_int_equal(json_is_string(json_object_get(rows[i], keys[i][1])), since_us[i] != 0);
        if (since_us[i] != 0) {
            time_format(since_us[i], since);
            assert_string_equal(json_text_at(rows[i], keys[i][0]), since);
            assert_string_equal(json_text_at(rows[i], keys[i][1]), "disk full (store_full)");
        }
    }
    const json_t *reasons = json_object_get(status, "pending_reasons");
    assert_int_equal(json_number_at(reasons, "no_scheduler") > 0, role_since_us != 0);
    json_decref(status);
    json_decref(page);
}

/* It is alive and has the role, and each of its rounds fails. */
static void a_scheduler_whose_rounds_fail_counts_as_none(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    int64_t other = scene_add_node(scene, "node-2", "default");
    const char *id = scene_enqueue(scene, "pro-co");
    int64_t epoch = 0;
    scene_ok(scene, take_role(scene->store, scene->node, &epoch, &scene->error));
    beat_failing(scene, other, SECONDS(4)); /* the node that schedules is another one */
    assert_reason(scene, id, "ready");
    assert_failing(scene, "node-2", 0, scene_now(scene) - SECONDS(4));
    beat_failing(scene, other, 0);
    int64_t since_us = scene_now(scene) - SECONDS(3);
    beat_failing(scene, scene->node, SECONDS(3));
    scene_pass(scene, SECONDS(1));
    beat_failing(scene, scene->node, SECONDS(4));
    assert_reason(scene, id, "no_scheduler");
    assert_no_scheduler_since(scene, id, since_us);
    assert_failing(scene, "node-1", since_us, since_us);
    json_t *answer = why(scene, id);
    assert_string_equal(json_text_at(answer, "scheduler_why"), "its rounds fail");
    assert_string_equal(json_text_at(answer, "scheduler_node"), "node-1");
    assert_string_equal(json_text_at(answer, "scheduler_error"), "disk full (store_full)");
    json_decref(answer);
    struct role_request leave = {.act = ROLE_LEAVE, .node_id = scene->node, .epoch = epoch};
    scene_ok(scene, store_role(scene->store, &leave, &role, &scene->error));
    assert_no_scheduler_since(scene, id, scene_now(scene)); /* it cannot take the role again */
    answer = why(scene, id);
    assert_string_equal(json_text_at(answer, "scheduler_error"), "disk full (store_full)");
    json_decref(answer);
    scene_ok(scene, take_role(scene->store, scene->node, &epoch, &scene->error));
    beat_failing(scene, scene->node, 0);
    assert_reason(scene, id, "ready");
    assert_no_scheduler_since(scene, id, 0);
    assert_failing(scene, "node-1", 0, 0);
}

static void assert_records_fail(struct scene *scene, const char *id, bool fail, int64_t since_us)
{
    char since[TIME_TEXT_MAX];
    json_t *page = NULL;
    struct list_options nodes = {.kind = LIST_NODES, .name = "node-1"};
    scene_ok(scene, store_list(scene->store, &nodes, &page, &scene->error));
    json_t *answer = why(scene, id);
    const json_t *rows[] = {answer, json_array_get(json_object_get(page, "items"), 0)};
    time_format(since_us, since);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_non_null(json_object_get(rows[i], "record_failing_since"));
        assert_int_equal(json_is_string(json_object_get(rows[i], "record_failing_since")), fail);
        assert_int_equal(json_is_string(json_object_get(rows[i], "record_error")), fail);
        if (fail) {
            assert_string_equal(json_text_at(rows[i], "record_failing_since"), since);
            assert_string_equal(json_text_at(rows[i], "record_error"), "no history (failed)");
        }
    }
    json_decref(answer);
    json_decref(page);
}

/* Its last step may have ended: the node cannot write that. */
static void one_whose_node_holds_refused_reports_names_the_cause(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    const char *waiting = scene_enqueue(scene, "pro-co");
    struct node_beat beat = {.engine_reachable = true,
                             .capacity = SCENE_CAPACITY,
                             .record_failed_us = SECONDS(3),
                             .record_error = "no history (failed)"};
    int64_t since_us = scene_now(scene) - SECONDS(3);
    scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
    scene_pass(scene, SECONDS(1));
    beat.record_failed_us = SECONDS(4);
    scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
    assert_records_fail(scene, item.id, true, since_us);
    json_t *other = why(scene, waiting);
    assert_true(json_is_null(json_object_get(other, "record_failing_since"))); /* no node has it */
    assert_true(json_is_null(json_object_get(other, "record_error")));
    json_decref(other);
    beat_with(scene, true);
    assert_records_fail(scene, item.id, false, 0);
}

static void why_of_nothing_is_not_found(void **state)
{
    struct scene *scene = *state;
    json_t *answer = NULL;
    assert_int_equal(store_why(scene->store, "0198c2f1-0000-7000-8000-000000000001", &answer, &scene->error),
                     WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(store_why(scene->store, "no id", &answer, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_null(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_ready_one_knows_its_place),
        SCENE_TEST(one_at_capacity_names_who_holds_the_slots),
        SCENE_TEST(a_scheduled_one_knows_its_time),
        SCENE_TEST(one_that_backs_off_knows_its_refused_starts_and_its_time),
        SCENE_TEST(pauses_nodes_and_engines_are_reasons),
        SCENE_TEST(an_engine_that_is_away_is_told_with_since_when_to_what_waits_and_what_runs),
        SCENE_TEST(an_engine_that_is_away_is_that_of_the_group),
        SCENE_TEST(an_engine_that_sees_ends_late_is_told_with_since_when),
        SCENE_TEST(nodes_that_are_told_to_claim_nothing_do_not_serve_their_group),
        SCENE_TEST(nodes_that_stand_aside_do_not_serve_their_group),
        SCENE_TEST(one_that_starts_aside_never_serves),
        SCENE_TEST(a_handed_over_one_says_so),
        SCENE_TEST(a_slot_held_by_a_group_without_nodes_is_named),
        SCENE_TEST(one_that_runs_names_its_node_and_has_no_reason),
        SCENE_TEST(one_that_waits_for_room_on_a_node_names_the_full_nodes),
        SCENE_TEST(the_cap_of_the_workspace_is_named_before_full_nodes),
        SCENE_TEST(why_names_who_has_the_lock_of_exclusive_dispatch),
        SCENE_TEST(what_a_silent_node_holds_is_not_said_to_run),
        SCENE_TEST(what_waits_without_a_scheduler_has_that_reason),
        SCENE_TEST(a_scheduler_that_awaits_its_lock_counts_as_none),
        SCENE_TEST(a_scheduler_whose_rounds_fail_counts_as_none),
        SCENE_TEST(one_whose_node_holds_refused_reports_names_the_cause),
        SCENE_TEST(why_of_nothing_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
