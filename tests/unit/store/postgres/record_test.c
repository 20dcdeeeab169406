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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_step_that_is_reported_twice_at_once_is_on_record_once),
        SCENE_TEST(an_end_waits_for_a_step_under_way_and_rewrites_it),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
