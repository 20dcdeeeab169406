/* store_role: the role of the scheduler, its lease and its epochs. */
#include <pthread.h>

#include "conformance/rounds.h"

#define LEASE_US SECONDS(3)
#define LONG_US SECONDS(86400)

static enum weir_status ask_role(struct scene *scene, struct role_request request, struct role_state *state)
{
    *state = (struct role_state){.epoch = -1};
    enum weir_status status = store_role(scene->store, &request, state, &scene->error);
    assert_true(status == WEIR_OK || state->epoch == -1); /* untouched on failure */
    return status;
}

static struct role_state look(struct scene *scene)
{
    struct role_state state;
    scene_ok(scene, ask_role(scene, (struct role_request){.act = ROLE_READ}, &state));
    assert_int_equal(state.now_us, scene_now(scene));
    return state;
}

static enum weir_status take(struct scene *scene, int64_t node, int64_t lease_us, struct role_state *state)
{
    return ask_role(scene, (struct role_request){.act = ROLE_TAKE, .node_id = node, .lease_us = lease_us, .why = "test"},
                    state);
}

static enum weir_status renew(struct scene *scene, int64_t node, int64_t epoch)
{
    struct schedule_call call = {.node_id = node, .epoch = epoch, .load = true, .lease_us = LEASE_US};
    struct schedule_answer answer;
    return store_schedule(scene->store, &call, &scene->arena, &answer, &scene->error);
}

static void leave(struct scene *scene, int64_t node, int64_t epoch)
{
    struct role_state state;
    scene_ok(scene, ask_role(scene, (struct role_request){.act = ROLE_LEAVE, .node_id = node, .epoch = epoch}, &state));
}

/* The scene's node gives the role up. */
static void free_role(struct scene *scene)
{
    struct role_state state = look(scene);
    leave(scene, state.node_id, state.epoch);
    assert_true(look(scene).is_free);
}

static void a_new_store_has_no_scheduler(void **state)
{
    (void)state;
    struct driver_under_test driver;
    struct weir_error error = {0};
    struct role_state role = {.epoch = 9, .is_free = false};
    driver_make_migrated(&driver);
    struct store *store = driver_open(&driver, NULL);
    assert_int_equal(store_migrate(store, NULL, &error), WEIR_OK);
    assert_int_equal(store_role(store, &(struct role_request){.act = ROLE_READ}, &role, &error), WEIR_OK);
    assert_int_equal(role.epoch, 0);
    assert_int_equal(role.node_id, 0);
    assert_true(role.is_free);
    assert_int_equal(role.takeovers_hour, 0);
    assert_string_equal(role.node, "");
    store_close(store);
    driver_remove(&driver);
}

static void a_node_takes_the_free_role_and_every_look_shows_it(void **state)
{
    struct scene *scene = *state;
    struct role_state taken;
    free_role(scene);
    int64_t before = look(scene).epoch;
    scene_ok(scene, take(scene, scene->node, LEASE_US, &taken));
    struct role_state seen = look(scene);
    struct role_state states[] = {taken, seen};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(states[i].epoch, before + 1);
        assert_int_equal(states[i].node_id, scene->node);
        assert_string_equal(states[i].node, "node-1");
        assert_int_equal(states[i].since_us, scene_now(scene));
        assert_int_equal(states[i].expires_us, scene_now(scene) + LEASE_US);
        assert_false(states[i].is_free);
    }
}

static void a_held_role_is_refused_to_other_nodes(void **state)
{
    struct scene *scene = *state;
    struct role_state held;
    struct role_state other;
    int64_t second = scene_add_node(scene, "node-2", "batch");
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LEASE_US, &held));
    scene_pass(scene, LEASE_US - 1);
    assert_int_equal(take(scene, second, LEASE_US, &other), WEIR_CONFLICT);
    struct role_state seen = look(scene);
    assert_int_equal(seen.epoch, held.epoch);
    assert_int_equal(seen.node_id, scene->node);
    scene_ok(scene, take(scene, scene->node, LEASE_US, &other)); /* its own: all facts are to be loaded again */
    assert_int_equal(other.epoch, held.epoch + 1);
}

static void a_renewal_extends_the_lease_of_its_epoch_alone(void **state)
{
    struct scene *scene = *state;
    struct role_state first;
    struct role_state second;
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LEASE_US, &first));
    for (int i = 0; i < 5; i++) {
        scene_pass(scene, LEASE_US - 1);
        assert_false(look(scene).is_free);
        scene_ok(scene, renew(scene, scene->node, first.epoch));
        assert_int_equal(look(scene).expires_us, scene_now(scene) + LEASE_US);
    }
    assert_int_equal(look(scene).since_us, first.since_us);
    scene_ok(scene, take(scene, scene->node, LEASE_US, &second));
    scene_pass(scene, 1);
    assert_int_equal(renew(scene, scene->node, first.epoch), WEIR_STALE_FENCE);
    assert_int_equal(look(scene).expires_us, second.expires_us);
    assert_int_equal(renew(scene, scene->node, second.epoch + 1), WEIR_STALE_FENCE);
}

static void a_lease_that_is_over_frees_the_role(void **state)
{
    struct scene *scene = *state;
    struct role_state first;
    struct role_state second;
    int64_t other = scene_add_node(scene, "node-2", "default");
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LEASE_US, &first));
    scene_pass(scene, LEASE_US);
    assert_true(look(scene).is_free);
    scene_ok(scene, renew(scene, scene->node, first.epoch)); /* late, but no other node has taken it */
    assert_false(look(scene).is_free);
    scene_pass(scene, LEASE_US);
    scene_ok(scene, take(scene, other, LEASE_US, &second));
    assert_int_equal(second.epoch, first.epoch + 1);
    assert_string_equal(second.node, "node-2");
    assert_int_equal(renew(scene, scene->node, first.epoch), WEIR_STALE_FENCE);
    leave(scene, scene->node, first.epoch); /* it had lost the role: nothing changes */
    assert_int_equal(look(scene).node_id, other);
    assert_int_equal(look(scene).epoch, second.epoch);
}

static void a_node_that_leaves_frees_the_role_at_once(void **state)
{
    struct scene *scene = *state;
    struct role_state first;
    struct role_state second;
    int64_t other = scene_add_node(scene, "node-2", "default");
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LONG_US, &first));
    scene_pass(scene, SECONDS(1));
    leave(scene, scene->node, first.epoch);
    leave(scene, scene->node, first.epoch);
    struct role_state seen = look(scene);
    assert_true(seen.is_free);
    assert_int_equal(seen.node_id, 0);
    assert_int_equal(seen.since_us, scene_now(scene));
    assert_int_equal(renew(scene, scene->node, first.epoch), WEIR_STALE_FENCE);
    scene_ok(scene, take(scene, other, LONG_US, &second));
    assert_int_equal(second.epoch, first.epoch + 1);
}

/* Its node may have the role again by then. */
static void a_late_leave_frees_no_later_epoch(void **state)
{
    struct scene *scene = *state;
    struct role_state first;
    struct role_state second;
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LONG_US, &first));
    leave(scene, scene->node, first.epoch);
    scene_ok(scene, take(scene, scene->node, LONG_US, &second));
    leave(scene, scene->node, first.epoch);
    assert_int_equal(look(scene).node_id, scene->node);
    assert_int_equal(renew(scene, scene->node, second.epoch), WEIR_OK);
}

static void the_role_of_a_dead_or_stopped_node_is_free(void **state)
{
    struct scene *scene = *state;
    struct role_state held;
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LONG_US, &held));
    scene_pass(scene, SCENE_LEASE_US + 1);
    int64_t alive = scene_add_node(scene, "node-2", "default");
    struct recover_options options = {.node_id = alive, .group = "default", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 1);
    assert_true(look(scene).is_free);
    scene_ok(scene, take(scene, alive, LONG_US, &held));
    scene_ok(scene, store_node_stop(scene->store, alive, true, &scene->error));
    assert_true(look(scene).is_free);
    int64_t third = scene_add_node(scene, "node-3", "default");
    scene_ok(scene, take(scene, third, LONG_US, &held));
    assert_int_equal(look(scene).node_id, third);
}

/* The taker awaits neither the end of the lease nor that the node is declared dead. */
static void the_role_of_a_node_without_processes_is_taken_before_its_lease_ends(void **state)
{
    struct scene *scene = *state;
    struct role_state held;
    int64_t other = scene_add_node(scene, "node-2", "default");
    struct role_request request = {
        .act = ROLE_TAKE, .node_id = other, .lease_us = LEASE_US, .gone_node_id = other + 1, .why = "gone"};
    free_role(scene);
    scene_ok(scene, take(scene, scene->node, LONG_US, &held));
    assert_int_equal(ask_role(scene, request, &held), WEIR_CONFLICT);
    request.gone_node_id = scene->node;
    scene_ok(scene, ask_role(scene, request, &held));
    assert_int_equal(look(scene).node_id, other);
}

static void a_dead_stopped_or_unknown_node_takes_no_role(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    free_role(scene);
    assert_int_equal(take(scene, 987654, LEASE_US, &role), WEIR_STALE_FENCE);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    assert_int_equal(take(scene, scene->node, LEASE_US, &role), WEIR_STALE_FENCE);
    int64_t dead = scene_add_node(scene, "node-2", "default");
    scene_pass(scene, SCENE_LEASE_US + 1);
    struct recover_options options = {.group = "default", .limit = 10};
    struct recover_result result = {0};
    scene_recover(scene, &options, &result);
    assert_int_equal(take(scene, dead, LEASE_US, &role), WEIR_STALE_FENCE);
    assert_true(look(scene).is_free);
}

static void takeovers_of_the_last_hour_are_counted(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    scene_pass(scene, SECONDS(3601));
    scene_beat(scene, scene->node);
    assert_int_equal(look(scene).takeovers_hour, 0);
    for (int i = 1; i <= 3; i++) {
        scene_pass(scene, SECONDS(10));
        scene_ok(scene, take(scene, scene->node, LEASE_US, &role));
        scene_ok(scene, renew(scene, scene->node, role.epoch)); /* is none */
        assert_int_equal(look(scene).takeovers_hour, i);
    }
    scene_pass(scene, SECONDS(3600 - 15));
    assert_int_equal(look(scene).takeovers_hour, 2);
    scene_pass(scene, SECONDS(16));
    assert_int_equal(look(scene).takeovers_hour, 0);
}

enum { TAKERS = 4, TAKES = 50 };

struct taker {
    struct store *store;
    int64_t node;
    pthread_barrier_t *together;
    pthread_t thread;
    int64_t epochs[TAKES]; /* 0 = it did not get it */
    enum weir_status failure;
};

static void *run_taker(void *context)
{
    struct taker *taker = context;
    for (int i = 0; i < TAKES; i++) {
        struct role_request request = {.act = ROLE_TAKE, .node_id = taker->node, .lease_us = LONG_US};
        struct role_state role = {0};
        struct weir_error error = {0};
        (void)pthread_barrier_wait(taker->together);
        enum weir_status status = store_role(taker->store, &request, &role, &error);
        taker->failure = status == WEIR_OK || status == WEIR_CONFLICT ? taker->failure : status;
        taker->epochs[i] = status == WEIR_OK ? role.epoch : 0;
        (void)pthread_barrier_wait(taker->together);
        request.act = ROLE_LEAVE;
        request.epoch = role.epoch;
        if (status == WEIR_OK && store_role(taker->store, &request, &role, &error) != WEIR_OK) {
            taker->failure = error.status;
        }
    }
    return NULL;
}

static void concurrent_takers_of_the_free_role_get_it_once(void **state)
{
    struct scene *scene = *state;
    struct taker takers[TAKERS];
    pthread_barrier_t together;
    free_role(scene);
    int64_t epoch = look(scene).epoch;
    assert_int_equal(pthread_barrier_init(&together, NULL, TAKERS), 0);
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){.store = driver_open(&scene->driver, NULL), .together = &together};
        takers[i].node = scene_add_node(scene, "taker", "default");
    }
    for (int i = 0; i < TAKERS; i++) {
        assert_int_equal(pthread_create(&takers[i].thread, NULL, run_taker, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
        assert_int_equal(takers[i].failure, WEIR_OK);
        store_close(takers[i].store);
    }
    for (int round = 0; round < TAKES; round++) {
        int got = 0;
        for (int i = 0; i < TAKERS; i++) {
            got += takers[i].epochs[round] != 0;
            assert_true(takers[i].epochs[round] == 0 || takers[i].epochs[round] == epoch + 1);
        }
        assert_int_equal(got, 1);
        epoch++;
    }
    (void)pthread_barrier_destroy(&together);
}

/* A role that was given up, or whose lease is over, has still its epoch: nothing depends on the time. */
static void an_epoch_ends_with_the_next_one_and_not_with_its_lease(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct role_state role;
    const char *ids[2] = {scene_enqueue(scene, "pro-co"), scene_enqueue(scene, "pro-co")};
    seat_take(&seat, scene, scene->node);
    scene_ok(scene, renew(scene, scene->node, seat.epoch));
    assert_false(look(scene).is_free);
    scene_pass(scene, LEASE_US + 1);
    assert_true(look(scene).is_free);
    assert_int_equal(seat_assign(&seat, ids[0], scene->node), ASSIGNMENT_TAKEN);
    scene_ok(scene, take(scene, scene->node, LEASE_US, &role));
    struct assignment assignment = assignment_of(scene, ids[1], scene->node);
    struct schedule_call late = {.assignments = &assignment, .assignment_count = 1};
    assert_int_equal(seat_try(&seat, &late), WEIR_STALE_FENCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_store_has_no_scheduler),
        SCENE_TEST(a_node_takes_the_free_role_and_every_look_shows_it),
        SCENE_TEST(a_held_role_is_refused_to_other_nodes),
        SCENE_TEST(a_renewal_extends_the_lease_of_its_epoch_alone),
        SCENE_TEST(a_lease_that_is_over_frees_the_role),
        SCENE_TEST(a_node_that_leaves_frees_the_role_at_once),
        SCENE_TEST(a_late_leave_frees_no_later_epoch),
        SCENE_TEST(the_role_of_a_dead_or_stopped_node_is_free),
        SCENE_TEST(the_role_of_a_node_without_processes_is_taken_before_its_lease_ends),
        SCENE_TEST(a_dead_stopped_or_unknown_node_takes_no_role),
        SCENE_TEST(takeovers_of_the_last_hour_are_counted),
        SCENE_TEST(concurrent_takers_of_the_free_role_get_it_once),
        SCENE_TEST(an_epoch_ends_with_the_next_one_and_not_with_its_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
