/* Two transactions that record steps of one execution, each order forced: the second one is seen to wait before the first
 * one ends. What it waited for is on record then, and it goes by that. */
#include "unit/store/postgres/scene.h"

#define STEP_SQL                                                                                                           \
    "SELECT coalesce(max(r.outcome), 'done') FROM weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[%d], ARRAY[0], " \
    "ARRAY[-1], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', ARRAY[1], ARRAY['one'], "          \
    "ARRAY['%s'], ARRAY[1], ARRAY[0], ARRAY[-1], ARRAY[0], ARRAY[-1], ARRAY[%s], '{}', '{}', '{}', '{}') r"
enum { A_STEP = 5, AN_END = 6 };

/* Both connections record the step "one" of an execution, the first one as running; the state that is left. */
static const char *record_both(struct scene *scene, int second_kind)
{
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    assert_int_equal(held.count, 1);
    const char *id = held.items[0].id;
    long long fence = (long long)held.items[0].fence;
    let_records_wait(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, STEP_SQL, (long long)scene->node, id, fence, A_STEP, "running", "false"), "done");
    run_into(scene->b, STEP_SQL, (long long)scene->node, id, fence, second_kind, "completed", "true");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "done");
    return run(scene->a, "SELECT string_agg(s.step || ' ' || s.status, ', ') FROM weir.workflow_node_executions s");
}

/* A node repeats a record without an answer while the server still runs the first try. */
static void a_step_that_is_reported_twice_at_once_is_on_record_once(void **state)
{
    assert_string_equal(record_both(*state, A_STEP), "one completed");
}

static void an_end_waits_for_a_step_under_way_and_rewrites_it(void **state)
{
    struct scene *scene = *state;
    assert_string_equal(record_both(scene, AN_END), "one completed");
    assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_executions"), "COMPLETED");
}

/* One record with the start that is not on record yet. */
static void record_with_start(struct scene *scene, enum record_kind kind, const struct claimed_item *item)
{
    struct record_summary summary;
    struct record record = record_of(kind, item);
    record.dispatched_first = true;
    record.taken_over = item->interruptions > 0;
    assert_int_equal(store_record(scene->store, scene->node, &record, 1, &summary, &scene->error), WEIR_OK);
    assert_int_equal(record.status, WEIR_OK);
}

/* The claim, its start and the wake have their times in the row of the park, of the item, and of the history. */
static void a_wait_has_one_event_row(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    for (int parks = 0; parks < 2; parks++) {
        struct claimed_item item = claim_one(scene, id);
        assert_int_equal(item.interruptions, parks);
        record_with_start(scene, RECORD_PARKED, &item);
        (void)run(scene->a, "SELECT p.lanes FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p");
        assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_execution_queue"), "PENDING");
    }
    struct claimed_item last = claim_one(scene, id);
    record_with_start(scene, RECORD_COMPLETED, &last);
    assert_string_equal(
        run(scene->a, "SELECT string_agg(e.event, ' ' ORDER BY e.seq) FROM weir.workflow_execution_events e"), "park park");
    assert_string_equal(run(scene->a, "SELECT string_agg(v.event, ' ' ORDER BY v.fence NULLS FIRST, array_position("
                                      "ARRAY['enqueue', 'claim', 'dispatch', 'park', 'wake', 'complete'], v.event))"
                                      " FROM weir.execution_events v"),
                        "enqueue claim dispatch park wake claim dispatch park wake claim dispatch complete");
}

#define STORY_SQL "SELECT string_agg(v.event, ' ') FROM (SELECT e.event FROM weir.execution_events e) v"

/* A clock with coarse steps gives the park and the end of the wait one time. */
static void a_wait_without_a_length_is_told_in_order(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    struct claimed_item item = claim_one(scene, id);
    record_with_start(scene, RECORD_PARKED, &item);
    (void)run(scene->a, "SELECT p.lanes FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p");
    (void)run(scene->a, "UPDATE weir.workflow_execution_queue q SET woken_at = e.at FROM weir.workflow_execution_events e"
                        " WHERE e.event = 'park' AND e.execution_id = q.id");
    assert_string_equal(run(scene->a, STORY_SQL), "enqueue claim dispatch park wake");
    item = claim_one(scene, id);
    record_with_start(scene, RECORD_COMPLETED, &item);
    assert_string_equal(run(scene->a, STORY_SQL), "enqueue claim dispatch park wake claim dispatch complete");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_step_that_is_reported_twice_at_once_is_on_record_once),
        SCENE_TEST(an_end_waits_for_a_step_under_way_and_rewrites_it),
        SCENE_TEST(a_wait_has_one_event_row),
        SCENE_TEST(a_wait_without_a_length_is_told_in_order),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
