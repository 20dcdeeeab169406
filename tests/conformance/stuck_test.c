/* Stuck executions: a mark of a node is on record with since when, is found by lists, status, why and acts, and ends with
 * the claim. */
#include <string.h>

#include "conformance/rounds.h"

/* An item that runs, with a step that has begun. */
static struct claimed_item run_one(struct scene *scene, const char *workspace)
{
    (void)scene_enqueue(scene, workspace);
    struct claimed_item item = scene_claim_one(scene);
    struct step_record running = {.step = "charge", .state = STEP_RUNNING, .attempt = 2, .exit_code = -1};
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &running;
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    return item;
}

static void mark(struct scene *scene, const struct claimed_item *item, int64_t fence, int64_t stuck_for_us)
{
    struct stuck_mark mark = {.fence = fence, .stuck_for_us = stuck_for_us};
    memcpy(mark.id, item->id, sizeof mark.id);
    scene_ok(scene, store_mark_stuck(scene->store, &mark, 1, &scene->error));
}

static json_t *why_of(struct scene *scene, const char *id)
{
    json_t *why = NULL;
    scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
    return why;
}

static json_t *status_of(struct scene *scene)
{
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    return status;
}

static json_t *list_of(struct scene *scene, enum filter_condition stuck)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.stuck = stuck}, .count = true};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_number_at(page, "count"), json_array_size(json_object_get(page, "items")));
    return page;
}

static size_t count_of(struct scene *scene, enum filter_condition stuck)
{
    json_t *page = list_of(scene, stuck);
    size_t count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

static void assert_not_stuck(struct scene *scene, const char *id)
{
    json_t *why = why_of(scene, id);
    json_t *status = status_of(scene);
    assert_true(json_is_null(json_object_get(why, "stuck_since")));
    assert_int_equal(json_number_at(status, "stuck"), 0);
    assert_int_equal(json_array_size(json_object_get(status, "stuck_executions")), 0);
    assert_int_equal(count_of(scene, CONDITION_YES), 0);
    json_decref(status);
    json_decref(why);
}

static void assert_step(const json_t *answer)
{
    const json_t *step = json_array_get(json_object_get(answer, "unfinished_steps"), 0);
    assert_string_equal(json_text_at(step, "step"), "charge");
    assert_string_equal(json_text_at(step, "status"), "RUNNING");
    assert_int_equal(json_number_at(step, "attempt"), 2);
    assert_non_null(json_text_at(step, "started_at"));
}

static void why_names_since_when_step_and_node(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = run_one(scene, "pro-co");
    json_t *why = why_of(scene, item.id);
    assert_string_equal(json_text_at(why, "because"), "it is running");
    assert_step(why);
    json_decref(why);
    assert_not_stuck(scene, item.id);
    char since[TIME_TEXT_MAX];
    scene_pass(scene, SECONDS(100));
    scene_beat(scene, scene->node);
    time_format(scene_now(scene) - SECONDS(40), since);
    mark(scene, &item, item.fence, SECONDS(40));
    why = why_of(scene, item.id);
    assert_string_equal(json_text_at(why, "because"), "it is stuck: it runs longer than its stuck_after");
    assert_true(strncmp(json_text_at(why, "stuck_since"), since, strlen("2026-01-01T00:00:00")) == 0);
    assert_string_equal(json_text_at(why, "node"), "node-1");
    assert_true(json_is_null(json_object_get(why, "pending_reason")));
    assert_step(why);
    json_decref(why);
}

static void status_lists_the_longest_first_and_counts_all(void **state)
{
    struct scene *scene = *state;
    struct claimed_item last = {.fence = 0};
    scene_cap(scene, "big-co", 10);
    scene_cap(scene, "pro-co", 10);
    scene_pass(scene, SECONDS(100));
    scene_beat(scene, scene->node);
    for (int i = 0; i < STATUS_STUCK_MOST + 2; i++) {
        last = run_one(scene, i % 2 == 0 ? "big-co" : "pro-co");
        mark(scene, &last, last.fence, SECONDS(10 + i));
    }
    json_t *status = status_of(scene);
    const json_t *rows = json_object_get(status, "stuck_executions");
    const json_t *first = json_array_get(rows, 0);
    assert_int_equal(json_number_at(status, "stuck"), STATUS_STUCK_MOST + 2);
    assert_int_equal(json_array_size(rows), STATUS_STUCK_MOST);
    assert_string_equal(json_text_at(first, "id"), last.id);
    assert_string_equal(json_text_at(first, "workspace"), "big-co");
    assert_string_equal(json_text_at(first, "workflow"), last.workflow);
    assert_string_equal(json_text_at(first, "node"), "node-1");
    assert_non_null(json_text_at(first, "stuck_since"));
    assert_step(first);
    json_decref(status);
}

static void lists_and_acts_choose_by_stuck(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = run_one(scene, "pro-co");
    struct claimed_item done = run_one(scene, "pro-co");
    (void)run_one(scene, "big-co");
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &done), WEIR_OK);
    mark(scene, &item, item.fence, 0);
    assert_int_equal(count_of(scene, CONDITION_ANY), 3);
    assert_int_equal(count_of(scene, CONDITION_NO), 2); /* an ended one is not stuck */
    json_t *page = list_of(scene, CONDITION_YES);
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    assert_int_equal(json_number_at(page, "count"), 1);
    assert_string_equal(json_text_at(row, "id"), item.id);
    assert_non_null(json_text_at(row, "stuck_since"));
    json_decref(page);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE stuck_since IS NOT NULL"), 1);
    struct bulk_result result;
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &(struct execution_filter){.stuck = CONDITION_YES}, "", 10,
                               &result, &scene->error));
    assert_int_equal(result.matched, 1);
    assert_string_equal(result.last_id, item.id);
}

static void a_mark_is_taken_back(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = run_one(scene, "pro-co");
    mark(scene, &item, item.fence, SECONDS(1));
    assert_int_equal(count_of(scene, CONDITION_YES), 1);
    mark(scene, &item, item.fence, -1);
    assert_not_stuck(scene, item.id);
}

static void a_mark_under_another_fence_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = run_one(scene, "pro-co");
    mark(scene, &item, item.fence + 1000, SECONDS(1));
    assert_not_stuck(scene, item.id);
}

static void a_mark_ends_with_the_claim(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = run_one(scene, "pro-co");
    mark(scene, &item, item.fence, SECONDS(1));
    assert_int_equal(count_of(scene, CONDITION_YES), 1);
    scene_ok(scene, store_node_stop(scene->store, scene->node, true, &scene->error));
    assert_string_equal(scene_reason_of(scene, item.id), "handed_over");
    assert_not_stuck(scene, item.id);
    scene_check(scene);
}

static void a_mark_ends_with_the_execution(void **state)
{
    struct scene *scene = *state;
    struct claimed_item item = run_one(scene, "pro-co");
    mark(scene, &item, item.fence, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    assert_not_stuck(scene, item.id);
    mark(scene, &item, item.fence, SECONDS(1)); /* late */
    assert_not_stuck(scene, item.id);
}

static void more_marks_than_one_call_takes_are_refused(void **state)
{
    struct scene *scene = *state;
    static struct stuck_mark marks[STUCK_MARKS_MOST + 1];
    assert_int_equal(store_mark_stuck(scene->store, marks, STUCK_MARKS_MOST + 1, &scene->error), WEIR_MISUSE);
    assert_non_null(strstr(scene->error.message, "64"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(why_names_since_when_step_and_node),
        SCENE_TEST(status_lists_the_longest_first_and_counts_all),
        SCENE_TEST(lists_and_acts_choose_by_stuck),
        SCENE_TEST(a_mark_is_taken_back),
        SCENE_TEST(a_mark_under_another_fence_changes_nothing),
        SCENE_TEST(a_mark_ends_with_the_claim),
        SCENE_TEST(a_mark_ends_with_the_execution),
        SCENE_TEST(more_marks_than_one_call_takes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
