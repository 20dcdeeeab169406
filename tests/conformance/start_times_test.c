/* When something started: engines tell it late, in microseconds since then, and the store takes them off its own time. */
#include "conformance/scene.h"

/* The times of an execution and of its only step, in their legal order: created, claimed, dispatched, step started, step
 * finished, finished. Microseconds since it was created. */
enum { CLAIMED_AT = 1, DISPATCHED_AT, STEP_STARTED_AT, STEP_FINISHED_AT, FINISHED_AT, TIMES };

static void read_times(struct scene *scene, const char *id, int64_t times[static TIMES])
{
    static const char *const columns[TIMES] = {"created_at", "claimed_at",  "dispatched_at",
                                               "started_at", "finished_at", "finished_at"};
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    const json_t *step = json_array_get(json_object_get(shown, "steps"), 0);
    for (int i = 0; i < TIMES; i++) {
        const json_t *from = i == STEP_STARTED_AT || i == STEP_FINISHED_AT ? step : shown;
        scene_ok(scene, time_parse(json_text_at(from, columns[i]), 0, &times[i], &scene->error));
    }
    for (int i = TIMES - 1; i >= 0; i--) {
        times[i] -= times[0];
    }
    json_decref(shown);
}

static struct claimed_item claimed_after_a_second(struct scene *scene)
{
    (void)scene_enqueue(scene, "pro-co");
    scene_pass(scene, SECONDS(1));
    return scene_claim_one(scene);
}

/* The end of a short run, which brings its start along. */
static void record_short_run(struct scene *scene, const struct claimed_item *item, int64_t started_ago_us,
                             int64_t step_began_ago_us)
{
    struct step_record step = {.step = "one", .state = STEP_COMPLETED, .attempt = 1};
    struct record record = scene_record_of(RECORD_COMPLETED, item);
    record.step = &step;
    record.dispatched_first = true;
    record.started_ago_us = started_ago_us;
    record.step_began_ago_us = step_began_ago_us;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

static void assert_times(struct scene *scene, const struct claimed_item *item, int64_t dispatched_us,
                         int64_t step_started_us, int64_t finished_us)
{
    int64_t times[TIMES];
    read_times(scene, item->id, times);
    assert_int_equal(times[CLAIMED_AT], SECONDS(1));
    assert_int_equal(times[DISPATCHED_AT], dispatched_us);
    assert_int_equal(times[STEP_STARTED_AT], step_started_us);
    assert_int_equal(times[STEP_FINISHED_AT], finished_us);
    assert_int_equal(times[FINISHED_AT], finished_us);
}

static void a_start_that_is_recorded_with_the_end_keeps_its_time(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    scene_pass(scene, SECONDS(9));
    record_short_run(scene, &item, SECONDS(6), SECONDS(4));
    assert_times(scene, &item, SECONDS(4), SECONDS(6), SECONDS(10));
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, item.id, &shown, &scene->error));
    const json_t *events = json_object_get(shown, "events");
    int64_t told_us = 0;
    int64_t created_us = 0;
    scene_ok(scene, time_parse(json_text_at(json_array_get(events, 0), "at"), 0, &created_us, &scene->error));
    assert_string_equal(json_text_at(json_array_get(events, 2), "event"), "dispatch");
    scene_ok(scene, time_parse(json_text_at(json_array_get(events, 2), "at"), 0, &told_us, &scene->error));
    assert_int_equal(told_us - created_us, SECONDS(4));
    assert_null(json_string_value(json_object_get(json_array_get(events, 2), "reason")));
    json_decref(shown);
}

static void a_start_is_never_before_its_claim_nor_a_step_before_the_start(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    scene_pass(scene, SECONDS(9));
    record_short_run(scene, &item, SECONDS(3600), SECONDS(7200));
    assert_times(scene, &item, SECONDS(1), SECONDS(1), SECONDS(10));
    item = claimed_after_a_second(scene);
    scene_pass(scene, SECONDS(9));
    record_short_run(scene, &item, SECONDS(2), SECONDS(5));
    assert_times(scene, &item, SECONDS(8), SECONDS(8), SECONDS(10));
}

static void a_step_that_began_with_its_execution_has_the_time_of_the_start(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    scene_pass(scene, SECONDS(9));
    record_short_run(scene, &item, SECONDS(6), -1);
    assert_times(scene, &item, SECONDS(4), SECONDS(4), SECONDS(10));
}

/* The start, the step and the end in sets of their own. */
static void a_late_record_of_a_start_keeps_its_time(void **state)
{
    static const int64_t began_ago_us[] = {SECONDS(3), SECONDS(8), -1}; /* of the step, 10 s after it was enqueued */
    static const int64_t started_us[] = {SECONDS(7), SECONDS(4), SECONDS(4)};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof began_ago_us / sizeof began_ago_us[0]; i++) {
        struct claimed_item item = claimed_after_a_second(scene);
        struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
        struct record start = scene_record_of(RECORD_DISPATCHED, &item);
        struct record record = scene_record_of(RECORD_STEP, &item);
        scene_pass(scene, SECONDS(8));
        start.started_ago_us = SECONDS(5);
        assert_int_equal(scene_record_full(scene, scene->node, start), WEIR_OK);
        scene_pass(scene, SECONDS(1));
        record.step = &step;
        record.step_began_ago_us = began_ago_us[i];
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        record_short_run(scene, &item, 0, 0);
        assert_times(scene, &item, SECONDS(4), started_us[i], SECONDS(10));
    }
}

/* The time of the last start that the history lists. */
static int64_t last_dispatch_of(struct scene *scene, const char *id)
{
    int64_t at_us = 0;
    json_t *shown = NULL;
    json_t *event;
    size_t i;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    json_array_foreach(json_object_get(shown, "events"), i, event)
    {
        if (strcmp(json_text_at(event, "event"), "dispatch") == 0) {
            scene_ok(scene, time_parse(json_text_at(event, "at"), 0, &at_us, &scene->error));
        }
    }
    json_decref(shown);
    return at_us;
}

/* Starts wait longer for their set than steps do. */
static void a_start_is_not_after_a_step_that_is_on_record(void **state)
{
    struct scene *scene = *state;
    for (int with_end = 0; with_end < 2; with_end++) {
        struct claimed_item item = claimed_after_a_second(scene);
        struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
        struct record start = scene_record_of(RECORD_DISPATCHED, &item);
        struct record record = scene_record_of(RECORD_STEP, &item);
        scene_pass(scene, SECONDS(8));
        record.step = &step;
        record.step_began_ago_us = SECONDS(2);
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        scene_pass(scene, SECONDS(1));
        start.started_ago_us = SECONDS(1);
        if (!with_end) {
            assert_int_equal(scene_record_full(scene, scene->node, start), WEIR_OK);
        }
        record_short_run(scene, &item, SECONDS(1), SECONDS(1));
        assert_times(scene, &item, SECONDS(7), SECONDS(7), SECONDS(10));
        assert_int_equal(last_dispatch_of(scene, item.id), scene_now(scene) - SECONDS(3));
    }
}

static void a_start_and_an_end_in_one_set_keep_the_time_of_the_start(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    struct step_record step = {.step = "one", .state = STEP_COMPLETED, .attempt = 1};
    struct record records[] = {scene_record_of(RECORD_DISPATCHED, &item), scene_record_of(RECORD_COMPLETED, &item)};
    struct record_summary summary = {0};
    scene_pass(scene, SECONDS(9));
    records[0].started_ago_us = SECONDS(6);
    records[1].step = &step;
    records[1].step_began_ago_us = SECONDS(4);
    scene_ok(scene, store_record(scene->store, scene->node, records, 2, &summary, &scene->error));
    assert_times(scene, &item, SECONDS(4), SECONDS(6), SECONDS(10));
}

/* Its row keeps the first dispatch, so that the second has a place of its own. */
static void the_dispatch_after_a_handover_has_its_own_time(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    for (int ends = 0; ends < 2; ends++) {
        int64_t claimed_us = scene_now(scene);
        struct claimed_item next = scene_claim_one(scene);
        struct record record = scene_record_of(ends == 1 ? RECORD_COMPLETED : RECORD_DISPATCHED, &next);
        scene_pass(scene, SECONDS(9));
        record.taken_over = true;
        record.dispatched_first = ends == 1;
        record.started_ago_us = SECONDS(6);
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        assert_int_equal(last_dispatch_of(scene, item.id), claimed_us + SECONDS(3));
        if (ends == 0) {
            assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &next), WEIR_OK);
        }
    }
}

/* Alone and in a set. */
static void a_request_without_a_time_may_start_at_once(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    scene_enqueue_many(scene, "pro-co", 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE run_at = created_at"), 3);
}

/* It would be a start after a start. */
static void a_refused_record_leaves_no_event(void **state)
{
    static const enum record_kind kinds[] = {RECORD_RETRY, RECORD_DEFERRED, RECORD_PUT_BACK};
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(scene_record(scene, kinds[i], &item), WEIR_ILLEGAL_STATE);
    }
    scene_assert_events(scene, item.id, "enqueue claim dispatch");
}

static void an_exit_code_of_zero_is_on_record(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct step_record step = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_executions WHERE exit_code = 0"), 1);
}

/* Its execution was taken over, and is cancelled before another node has it. */
static void a_step_that_waited_at_its_end_ran_on_no_node(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = claimed_after_a_second(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct step_record step = {
        .step = "one", .state = STEP_WAITING, .attempt = 2, .exit_code = -1, .due_in_us = SECONDS(60)};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    struct execution_filter filter = {.id = item.id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_string_equal(scene_status_of(scene, item.id), "CANCELLED");
    assert_int_equal(scene_number(scene, "SELECT node_id FROM workflow_node_executions"), 0);
    assert_int_equal(scene_number(scene, "SELECT start_node_id FROM workflow_node_executions"), scene->node);
}

/* A set that brings two attempts of a step leaves no record of the begin of the first one. Steps of other executions have
 * attempts of the same number. */
static void an_attempt_without_a_begin_takes_that_of_no_other_execution(void **state)
{
    struct scene *scene = *state;
    struct record_summary summary = {0};
    struct step_record runs = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    for (int others = 0; others < 2; others++) {
        struct claimed_item other = claimed_after_a_second(scene);
        assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &other), WEIR_OK);
        struct record record = scene_record_of(RECORD_STEP, &other);
        record.step = &runs;
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    }
    struct claimed_item item = claimed_after_a_second(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(5));
    struct step_record waits = {
        .step = "one", .state = STEP_WAITING, .attempt = 1, .failures = 1, .exit_code = 3, .error_code = "exit_3"};
    struct step_record again = {.step = "one", .state = STEP_RUNNING, .attempt = 2, .failures = 1, .exit_code = -1};
    struct record records[] = {scene_record_of(RECORD_STEP, &item), scene_record_of(RECORD_STEP, &item)};
    records[0].step = &waits;
    records[1].step = &again;
    scene_ok(scene, store_record(scene->store, scene->node, records, 2, &summary, &scene->error));
    assert_int_equal(summary.changed, 2);
    json_t *shown = NULL;
    int64_t started_us = 0;
    scene_ok(scene, store_show(scene->store, item.id, &shown, &scene->error));
    const json_t *earlier = json_array_get(json_object_get(shown, "earlier_attempts"), 0);
    scene_ok(scene, time_parse(json_text_at(earlier, "started_at"), 0, &started_us, &scene->error));
    assert_int_equal(json_number_at(earlier, "attempt"), 1);
    assert_int_equal(started_us, scene_now(scene));
    json_decref(shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_start_that_is_recorded_with_the_end_keeps_its_time),
        SCENE_TEST(a_start_is_never_before_its_claim_nor_a_step_before_the_start),
        SCENE_TEST(a_step_that_began_with_its_execution_has_the_time_of_the_start),
        SCENE_TEST(a_late_record_of_a_start_keeps_its_time),
        SCENE_TEST(a_start_is_not_after_a_step_that_is_on_record),
        SCENE_TEST(a_start_and_an_end_in_one_set_keep_the_time_of_the_start),
        SCENE_TEST(the_dispatch_after_a_handover_has_its_own_time),
        SCENE_TEST(a_request_without_a_time_may_start_at_once),
        SCENE_TEST(a_refused_record_leaves_no_event),
        SCENE_TEST(an_exit_code_of_zero_is_on_record),
        SCENE_TEST(a_step_that_waited_at_its_end_ran_on_no_node),
        SCENE_TEST(an_attempt_without_a_begin_takes_that_of_no_other_execution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
