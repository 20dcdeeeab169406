/* The shedlock table: store time, at most, at least, one holder per acquisition. */
#include "conformance/scene.h"

static struct lock_request lock_of(const char *holder)
{
    return (struct lock_request){
        .name = "recoverStaleQueueItems", .holder = holder, .at_most_us = SECONDS(120), .at_least_us = SECONDS(30)};
}

static enum weir_status take(struct scene *scene, const char *holder)
{
    struct lock_request request = lock_of(holder);
    return store_lock(scene->store, &request, &scene->error);
}

static enum weir_status give(struct scene *scene, const char *holder)
{
    struct lock_request request = lock_of(holder);
    return store_unlock(scene->store, &request, &scene->error);
}

static enum weir_status extend(struct scene *scene, const char *holder)
{
    struct lock_request request = lock_of(holder);
    return store_lock_extend(scene->store, &request, &scene->error);
}

static void one_holder_at_a_time(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
    scene_pass(scene, SECONDS(120) - 1);
    assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
    scene_pass(scene, 1);
    scene_ok(scene, take(scene, "b"));
}

static void a_lost_answer_is_repeated_with_the_same_holder(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene_ok(scene, take(scene, "a"));
    assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
}

static void at_least_is_kept_after_the_unlock(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene_pass(scene, SECONDS(10));
    scene_ok(scene, give(scene, "a"));
    assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
    scene_pass(scene, SECONDS(20) - 1);
    assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
    scene_pass(scene, 1);
    scene_ok(scene, take(scene, "b"));
}

static void an_unlock_after_at_least_frees_at_once(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene_pass(scene, SECONDS(31));
    scene_ok(scene, give(scene, "a"));
    scene_ok(scene, take(scene, "b"));
}

/* The Java library's late unlock frees its successor's lock, because the holder is the host's name. */
static void a_late_unlock_never_frees_the_successors_lock(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "host/1"));
    scene_pass(scene, SECONDS(121));
    scene_ok(scene, take(scene, "host/2"));
    assert_int_equal(give(scene, "host/1"), WEIR_CONFLICT);
    assert_int_equal(take(scene, "host/3"), WEIR_CONFLICT);
    assert_int_equal(extend(scene, "host/1"), WEIR_CONFLICT);
    scene_ok(scene, extend(scene, "host/2"));
}

/* Also when no other holder has taken it: another one might have, so the work since its end had no lock. */
static void an_unlock_after_the_end_is_a_conflict(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene_pass(scene, SECONDS(120));
    assert_int_equal(give(scene, "a"), WEIR_CONFLICT);
    scene_ok(scene, take(scene, "b"));
}

static void an_extension_counts_from_now(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    for (int i = 0; i < 5; i++) {
        scene_pass(scene, SECONDS(100));
        scene_ok(scene, extend(scene, "a"));
        assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
    }
    scene_pass(scene, SECONDS(120));
    assert_int_equal(extend(scene, "a"), WEIR_CONFLICT); /* expired: perhaps somebody else worked already */
    scene_ok(scene, take(scene, "b"));
}

static void the_lock_of_a_dead_node_is_freed_when_it_is_found_dead(void **state)
{
    struct scene *scene = *state;
    struct recover_options options = {.node_id = scene->node, .group = "default", .limit = 100};
    struct recover_result result;
    struct lock_request other = lock_of("a program of another kind");
    char holder[96];
    int64_t dead = scene_add_node(scene, "gone", "default");
    other.name = "its own";
    other.at_most_us = 10 * SCENE_LEASE_US;
    (void)snprintf(holder, sizeof holder, "gone:%d:%lld:0123456789abcdef", 4711, (long long)dead);
    scene_pass(scene, SCENE_LEASE_US / 2);
    struct node_beat beat = {.engine_reachable = true};
    scene_ok(scene, store_node_beat(scene->store, scene->node, &beat, &scene->error));
    scene_ok(scene, take(scene, holder));
    scene_ok(scene, store_lock(scene->store, &other, &scene->error));
    scene_recover(scene, &options, &result);
    assert_int_equal(take(scene, "next"), WEIR_CONFLICT); /* it lives */
    scene_pass(scene, SCENE_LEASE_US / 2 + 1);
    scene_recover(scene, &options, &result);
    assert_int_equal(result.nodes, 1);
    scene_ok(scene, take(scene, "next"));
    other.holder = "next";
    assert_int_equal(store_lock(scene->store, &other, &scene->error), WEIR_CONFLICT);
    assert_int_equal(extend(scene, holder), WEIR_CONFLICT);
}

static void locks_of_other_names_do_not_meet(void **state)
{
    struct scene *scene = *state;
    struct lock_request other = lock_of("b");
    other.name = "processExecutionQueue";
    scene_ok(scene, take(scene, "a"));
    scene_ok(scene, store_lock(scene->store, &other, &scene->error));
}

static void the_row_is_never_deleted(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene_pass(scene, SECONDS(60));
    scene_ok(scene, give(scene, "a"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM shedlock"), 1);
    assert_string_equal(scene_text(scene, "SELECT locked_by FROM shedlock"), "a");
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_LOCKS};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *lock = json_array_get(json_object_get(page, "items"), 0);
    assert_string_equal(json_text_at(lock, "name"), "recoverStaleQueueItems");
    assert_string_equal(json_text_at(lock, "holder"), "a");
    assert_true(strlen(json_text_at(lock, "lock_until")) > 19);
    json_decref(page);
}

static json_int_t time_left(struct scene *scene)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_LOCKS};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    json_int_t left_us = json_number_at(json_array_get(json_object_get(page, "items"), 0), "left_us");
    json_decref(page);
    return left_us;
}

static void a_list_shows_the_time_that_is_left(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene_pass(scene, SECONDS(20));
    assert_int_equal(time_left(scene), SECONDS(100));
    scene_pass(scene, SECONDS(101));
    assert_int_equal(time_left(scene), 0);
}

static void an_unlock_of_what_was_never_locked_is_a_conflict(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(give(scene, "a"), WEIR_CONFLICT);
    assert_int_equal(extend(scene, "a"), WEIR_CONFLICT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM shedlock"), 0);
}

/* A node with a wall clock that is wrong by ten minutes neither steals nor keeps a lock. */
static void a_wrong_wall_clock_changes_nothing(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, take(scene, "a"));
    scene->driver.time.wall_us += SECONDS(600);
    assert_int_equal(take(scene, "b"), WEIR_CONFLICT);
    scene->driver.time.wall_us -= SECONDS(1200);
    scene_pass(scene, SECONDS(120));
    scene_ok(scene, take(scene, "b"));
}

static void wrong_requests_are_refused(void **state)
{
    struct scene *scene = *state;
    char name[LOCK_NAME_MAX + 2];
    memset(name, 'l', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct lock_request requests[5] = {lock_of("a"), lock_of("a"), lock_of(""), lock_of("a"), lock_of("a")};
    requests[0].name = name;
    requests[1].at_most_us = 0;
    requests[3].at_least_us = requests[3].at_most_us + 1;
    requests[4].at_most_us = LOCK_HELD_MOST_US + 1;
    for (size_t i = 0; i < 5; i++) {
        enum weir_status status = store_lock(scene->store, &requests[i], &scene->error);
        if (status != WEIR_INVALID_ARGUMENT && status != WEIR_MISUSE) {
            fail_msg("request %zu was answered %s", i, weir_status_name(status));
        }
    }
    assert_int_equal(store_lock_extend(scene->store, &requests[4], &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM shedlock"), 0);
    requests[4].at_most_us = LOCK_HELD_MOST_US;
    scene_ok(scene, store_lock(scene->store, &requests[4], &scene->error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(one_holder_at_a_time),
        SCENE_TEST(a_lost_answer_is_repeated_with_the_same_holder),
        SCENE_TEST(at_least_is_kept_after_the_unlock),
        SCENE_TEST(an_unlock_after_at_least_frees_at_once),
        SCENE_TEST(a_late_unlock_never_frees_the_successors_lock),
        SCENE_TEST(an_unlock_after_the_end_is_a_conflict),
        SCENE_TEST(an_extension_counts_from_now),
        SCENE_TEST(the_lock_of_a_dead_node_is_freed_when_it_is_found_dead),
        SCENE_TEST(locks_of_other_names_do_not_meet),
        SCENE_TEST(the_row_is_never_deleted),
        SCENE_TEST(a_list_shows_the_time_that_is_left),
        SCENE_TEST(an_unlock_of_what_was_never_locked_is_a_conflict),
        SCENE_TEST(a_wrong_wall_clock_changes_nothing),
        SCENE_TEST(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
