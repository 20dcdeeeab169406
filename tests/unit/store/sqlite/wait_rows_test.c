/* The rows that a wait costs on SQLite: the item and the history have the times of its end and of the start behind it. The
 * events that are shown are tested for every driver in tests/conformance. */
#include "conformance/scene.h"

/* One record with the start that is not on record yet. */
static void record_with_start(struct scene *scene, enum record_kind kind, const struct claimed_item *item)
{
    struct record record = scene_record_of(kind, item);
    record.dispatched_first = true;
    record.taken_over = item->interruptions > 0;
    record.delay_us = kind == RECORD_PARKED ? SECONDS(10) : 0;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

static int64_t count_events(struct scene *scene, const char *id, const char *event)
{
    return scene_number(scene, "SELECT count(*) FROM workflow_execution_events WHERE execution_id = '%s' AND event = '%s'",
                        id, event);
}

/* An execution of free-co that has waited so often, and is held again. */
static struct claimed_item wait_often(struct scene *scene, int times)
{
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    for (int i = 0; i < times; i++) {
        record_with_start(scene, RECORD_PARKED, &item);
        scene_pass(scene, SECONDS(10));
        item = scene_claim_one(scene);
        scene_pass(scene, SECONDS(1));
    }
    return item;
}

static void one_wait_has_one_event_row(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = wait_often(scene, 1);
    scene_assert_events(scene, item.id, "enqueue claim dispatch park wake claim");
    record_with_start(scene, RECORD_COMPLETED, &item);
    assert_int_equal(count_events(scene, item.id, "park"), 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_events"), 1);
    scene_assert_events(scene, item.id, "enqueue claim dispatch park wake claim dispatch complete");
    /* The wake has the fence of the claim that was parked, and the second start its own time. */
    assert_int_equal(
        scene_number(scene, "SELECT count(DISTINCT fence) FROM execution_events WHERE event IN ('park', 'wake')"), 1);
    assert_int_equal(scene_number(scene, "SELECT count(DISTINCT at) FROM execution_events WHERE event = 'dispatch'"), 2);
}

static void the_next_park_keeps_the_wake_before_it(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = wait_often(scene, 2);
    assert_int_equal(count_events(scene, item.id, "wake"), 1);
    record_with_start(scene, RECORD_COMPLETED, &item);
    assert_int_equal(count_events(scene, item.id, "wake"), 1);
    assert_int_equal(count_events(scene, item.id, "dispatch"), 0);
    scene_assert_events(scene, item.id,
                        "enqueue claim dispatch park wake claim dispatch park wake claim dispatch complete");
}

/* A cancel in the second wait ends an execution, and its row has no wake that is off record. */
static void a_cancel_in_a_wait_shows_no_wake_twice(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = wait_often(scene, 1);
    record_with_start(scene, RECORD_PARKED, &item);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'wake'"), 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'park'"), 2);
}

/* A wake by a person has a row with the actor, and is shown once. */
static void a_wake_by_a_person_has_a_row(void **state)
{
    struct scene *scene = *state;
    struct step_record nap = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(3600)};
    struct claimed_item item = wait_often(scene, 1);
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    parked.dispatched_first = true;
    parked.step = &nap;
    parked.delay_us = SECONDS(3600);
    parked.waiting_for = WAIT_SLEEP;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = item.id};
    scene_ok(scene, store_bulk(scene->store, BULK_WAKE, &filter, "", 10, &result, &scene->error));
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_int_equal(count_events(scene, item.id, "wake"), 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'wake'"), 2);
    item = scene_claim_one(scene);
    record_with_start(scene, RECORD_COMPLETED, &item);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'wake'"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(one_wait_has_one_event_row),
        SCENE_TEST(the_next_park_keeps_the_wake_before_it),
        SCENE_TEST(a_cancel_in_a_wait_shows_no_wake_twice),
        SCENE_TEST(a_wake_by_a_person_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
