/* Clocks that are set: the server's, and the wall clock of the machine. No item and no role is taken away because of them,
 * and none is kept by a node that is silent. */
#include "conformance/scene.h"

#define ROLE_LEASE_US SECONDS(3)

/* --- nodes --- */

static enum weir_status beat_of(struct scene *scene, int64_t node, struct node_beat *beat)
{
    beat->engine_reachable = true;
    return store_node_beat(scene->store, node, beat, &scene->error);
}

static struct recover_result recover_silent(struct scene *scene, int64_t node, struct silent_node silent,
                                            const char *server)
{
    struct recover_options options = {
        .node_id = node, .group = "default", .limit = 100, .silent = &silent, .silent_count = 1, .server = server};
    struct recover_result result = {0};
    scene_ok(scene, store_recover(scene->store, &options, &result, &scene->error));
    return result;
}

/* Of the scene's node, in the answer to another one: what that needs to watch it. A store of one machine needs no watch. */
static void expect_heartbeats(struct scene *scene, const struct node_beat *answer, int64_t count)
{
    bool tells = (store_features(scene->store) & STORE_SHARED) != 0;
    assert_int_equal(answer->neighbour_count, tells ? 1 : 0);
    assert_int_equal(answer->server[0] != '\0', tells);
    if (tells) {
        assert_int_equal(answer->neighbours[0].id, scene->node);
        assert_int_equal(answer->neighbours[0].beats, count);
        assert_int_equal(answer->neighbours[0].lease_us, SCENE_LEASE_US);
        assert_true(answer->neighbours[0].is_here);
    }
}

/* Its lease is over for a clock that was set forward, and does not end for one that was set back. */
static void a_clock_that_is_set_takes_no_item_away_and_keeps_none(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {0};
    struct silent_node silent = {.id = scene->node};
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    int64_t other = scene_add_node(scene, "node-2", "default");
    static const int64_t steps_us[] = {SECONDS(3600), -SECONDS(7200)};
    for (size_t i = 0; i < 2; i++) {
        driver_set_clock(&scene->driver, steps_us[i]);
        silent.beats = (int64_t)i;
        assert_int_equal(beat_of(scene, scene->node, &beat), WEIR_OK);
        assert_int_equal(beat.beats, i + 1);
        assert_int_equal(beat_of(scene, other, &beat), WEIR_OK);
        expect_heartbeats(scene, &beat, (int64_t)i + 1);
        driver_set_clock(&scene->driver, steps_us[i]);
        assert_int_equal(recover_silent(scene, other, silent, beat.server).nodes, 0); /* it has sent one since */
        driver_set_clock(&scene->driver, -steps_us[i]);
    }
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    driver_set_clock(&scene->driver, -SECONDS(7200));
    silent.beats = 2;
    scene_pass(scene, SCENE_LEASE_US);
    assert_int_equal(beat_of(scene, other, &beat), WEIR_OK);
    struct recover_result result = recover_silent(scene, other, silent, beat.server);
    assert_int_equal(result.nodes, 1);
    assert_int_equal(result.handed_over, 1);
}

/* Its rows may lack heartbeats of nodes that live. A store of one machine judges by its own clock alone. */
static void a_silence_that_was_watched_on_another_server_proves_nothing(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {0};
    bool is_shared = (store_features(scene->store) & STORE_SHARED) != 0;
    int64_t other = scene_add_node(scene, "node-2", "default");
    assert_int_equal(beat_of(scene, other, &beat), WEIR_OK);
    assert_int_equal(recover_silent(scene, other, (struct silent_node){.id = scene->node}, "another").nodes, 0);
    assert_int_equal(recover_silent(scene, other, (struct silent_node){.id = scene->node}, beat.server).nodes, is_shared);
}

/* Where leases decide: a node that could not renew its own lease believes the leases of the others. */
static void trusted_nodes_are_not_dead_because_of_their_lease(void **state)
{
    struct scene *scene = *state;
    if ((store_features(scene->store) & STORE_SHARED) != 0) {
        return; /* there the silence decides that the caller has seen */
    }
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    scene_pass(scene, SCENE_LEASE_US + 1);
    int64_t alive = scene_add_node(scene, "node-2", "default");
    struct recover_options options = {.node_id = alive, .group = "default", .limit = 10};
    struct recover_result result = {0};
    static const char *const trusted[] = {"", "boot"};
    for (size_t i = 0; i < sizeof trusted / sizeof trusted[0]; i++) {
        options.trusted_machine = trusted[i];
        options.look_only = true;
        scene_recover(scene, &options, &result);
        assert_false(result.more);
        options.look_only = false;
        scene_recover(scene, &options, &result);
        assert_int_equal(result.nodes, 0);
        assert_int_equal(result.handed_over, 0);
    }
    options.trusted_machine = "other";
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 1);
    assert_int_equal(result.handed_over, 1);
}

static int64_t start_process(struct scene *scene, long pid)
{
    struct node_options options = {.name = "node-1",
                                   .group = "default",
                                   .host = "host",
                                   .boot_id = "boot",
                                   .pid = pid,
                                   .version = "test",
                                   .engine = "test",
                                   .capacity = 100,
                                   .lease_us = SCENE_LEASE_US};
    int64_t node = 0;
    scene_ok(scene, store_node_start(scene->store, &options, &node, &scene->error));
    return node;
}

/* The server has a clock of its own. A store of one machine takes the wall clock when no node follows the old time: the
 * process of the machine's last node is another one. */
static void the_first_node_takes_a_wall_clock_that_is_ahead(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    driver_set_clock(&scene->driver, SECONDS(3600));
    int64_t before_us = scene_now(scene);
    (void)start_process(scene, 4712);
    bool is_shared = (store_features(scene->store) & STORE_SHARED) != 0;
    assert_int_equal(scene_now(scene) - before_us, is_shared ? 0 : SECONDS(3600));
}

/* It is no first node, as its wall clock may have jumped while it ran. */
static void a_process_that_stands_up_again_keeps_the_time_of_the_store(void **state)
{
    struct scene *scene = *state;
    scene_pass(scene, SCENE_LEASE_US + 1);
    driver_set_clock(&scene->driver, SECONDS(3600));
    int64_t before_us = scene_now(scene);
    (void)start_process(scene, scene_number(scene, "SELECT pid FROM nodes WHERE id = %lld", (long long)scene->node));
    assert_int_equal(scene_now(scene), before_us);
}

/* Each of so many nodes is watched by some, however many precede it. */
static void a_node_of_a_large_group_is_told_of_those_that_follow_it(void **state)
{
    struct scene *scene = *state;
    enum { NODES = NODE_NEIGHBOURS_MOST / 2 + 3 };
    int64_t nodes[NODES];
    struct node_beat beat = {0};
    bool tells = (store_features(scene->store) & STORE_SHARED) != 0;
    for (size_t i = 0; i < NODES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "many-%zu", i);
        nodes[i] = scene_add_node(scene, name, "default");
    }
    assert_int_equal(beat_of(scene, nodes[NODES - 2], &beat), WEIR_OK);
    assert_int_equal(beat.neighbour_count, tells ? NODE_NEIGHBOURS_MOST / 2 : 0);
    bool has_next = false;
    bool has_previous = false;
    for (size_t i = 0; i < beat.neighbour_count; i++) {
        has_next = has_next || beat.neighbours[i].id == nodes[NODES - 1];
        has_previous = has_previous || beat.neighbours[i].id == nodes[NODES - 3];
    }
    assert_int_equal(has_next, tells);
    assert_false(has_previous);
}

/* --- the role --- */

static struct role_state role_now(struct scene *scene)
{
    struct role_request read = {.act = ROLE_READ};
    struct role_state role = {0};
    scene_ok(scene, store_role(scene->store, &read, &role, &scene->error));
    return role;
}

static enum weir_status take_for(struct scene *scene, int64_t node, struct role_state *role)
{
    struct role_request take = {.act = ROLE_TAKE, .node_id = node, .lease_us = ROLE_LEASE_US, .why = "test"};
    return store_role(scene->store, &take, role, &scene->error);
}

static enum weir_status renew_for(struct scene *scene, int64_t node, int64_t epoch)
{
    struct schedule_call call = {.node_id = node, .epoch = epoch, .load = true, .lease_us = ROLE_LEASE_US};
    struct schedule_answer answer;
    return store_schedule(scene->store, &call, &scene->arena, &answer, &scene->error);
}

/* An hour forward would end each lease early, an hour back would keep a dead holder. */
static void a_clock_that_is_set_frees_no_role_and_keeps_none(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    int64_t other = scene_add_node(scene, "node-2", "default");
    scene_ok(scene, take_for(scene, scene->node, &role)); /* its own, with this lease from now on */
    static const int64_t steps_us[] = {SECONDS(3600), -SECONDS(7200)};
    for (size_t i = 0; i < 2; i++) {
        driver_set_clock(&scene->driver, steps_us[i]);
        assert_false(role_now(scene).is_free);
        assert_int_equal(take_for(scene, other, &role), WEIR_CONFLICT);
        scene_ok(scene, renew_for(scene, scene->node, role_now(scene).epoch));
        assert_false(role_now(scene).is_free);
    }
    bool watches = (store_features(scene->store) & STORE_SHARED) != 0;
    int64_t free_us = clock_boot(&scene->driver.time.clock) + ROLE_LEASE_US;
    assert_int_equal(role_now(scene).free_from_us, watches ? free_us : 0);
    scene_pass(scene, ROLE_LEASE_US - 1);
    assert_int_equal(take_for(scene, other, &role), WEIR_CONFLICT);
    scene_pass(scene, 1);
    assert_true(role_now(scene).is_free);
    scene_ok(scene, take_for(scene, other, &role));
}

/* Its step has failed and waits for its next attempt. */
static void record_failed_attempt(struct scene *scene, const struct claimed_item *item, int attempt)
{
    struct step_record step = {.step = "call",
                               .state = STEP_WAITING,
                               .attempt = attempt,
                               .failures = 1,
                               .exit_code = -1,
                               .due_in_us = SECONDS(5),
                               .error_code = "refused"};
    struct record waits = scene_record_of(RECORD_STEP, item);
    waits.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, waits), WEIR_OK);
}

static struct claimed_item park_and_claim(struct scene *scene, const struct claimed_item *item)
{
    struct record parked = scene_record_of(RECORD_PARKED, item);
    parked.delay_us = SECONDS(5);
    parked.waiting_for = WAIT_RETRY;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    scene_pass(scene, SECONDS(5));
    scene_beat(scene, scene->node);
    return scene_claim_one(scene);
}

static struct claimed_item start(struct scene *scene, const struct claimed_item *item)
{
    assert_int_equal(scene_record_full(scene, scene->node, scene_record_of(RECORD_DISPATCHED, item)), WEIR_OK);
    return *item;
}

/* The second claim begins attempt 2 of a handler, which is not on record, and is lost. A clock that went back, or that of
 * another node, lets the third claim park: the wait of attempt 1 is not over for it. Attempt 2 must not begin again. */
static void a_park_keeps_the_numbers_of_attempts_without_a_record(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    item = start(scene, &item);
    record_failed_attempt(scene, &item, 1);
    item = park_and_claim(scene, &item);
    assert_int_equal(item.interruptions - item.interruptions_at_park, 0);
    item = start(scene, &item);
    assert_int_equal(scene_record_full(scene, scene->node, scene_record_of(RECORD_GIVEN_BACK, &item)), WEIR_OK);
    item = scene_claim_one(scene);
    for (int parks = 0; parks < 2; parks++) {
        assert_int_equal(item.interruptions - item.interruptions_at_park, 1);
        assert_int_equal(item.steps[0].attempt, 1); /* so the next one is 3 */
        item = start(scene, &item);
        item = park_and_claim(scene, &item);
    }
    assert_int_equal(item.interruptions - item.interruptions_at_park, 1);
    item = start(scene, &item);
    record_failed_attempt(scene, &item, 3); /* all numbers are on record again */
    item = park_and_claim(scene, &item);
    assert_int_equal(item.interruptions - item.interruptions_at_park, 0);
    assert_false(item.handed_over);
    assert_int_equal(item.steps[0].attempt, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_park_keeps_the_numbers_of_attempts_without_a_record),
        SCENE_TEST(a_clock_that_is_set_takes_no_item_away_and_keeps_none),
        SCENE_TEST(a_silence_that_was_watched_on_another_server_proves_nothing),
        SCENE_TEST(trusted_nodes_are_not_dead_because_of_their_lease),
        SCENE_TEST(the_first_node_takes_a_wall_clock_that_is_ahead),
        SCENE_TEST(a_process_that_stands_up_again_keeps_the_time_of_the_store),
        SCENE_TEST(a_node_of_a_large_group_is_told_of_those_that_follow_it),
        SCENE_TEST(a_clock_that_is_set_frees_no_role_and_keeps_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
