/* What happens when two transactions meet, each order forced: one is held open by hand, the other one runs into it, and is
 * seen to wait, or to go round it, before the first one ends. */
#include <pthread.h>

#include "unit/store/postgres/scene.h"

/* --- claim against claim --- */

static void a_claim_goes_round_the_lanes_of_another_one(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    const char *other = enqueue_for(scene, "beta", NULL);
    struct claim_result second = claim(scene, 10); /* neither waits for long nor takes what is taken */
    assert_int_equal(second.count, 1);
    assert_string_equal(second.items[0].id, other);
    assert_true(second.more); /* a lane was passed over: come again */
    (void)run(scene->a, "COMMIT");
    assert_int_equal(claim(scene, 10).count, 0);
}

/* With time enough: the lane is open when the second one looks, so it finds both. */
static void claims_of_a_group_take_turns(void **state)
{
    struct scene *scene = *state;
    int64_t other = add_node(scene, "node-2", "default");
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "beta", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "ALTER FUNCTION weir.await_turn(text) SET lock_timeout = '60s'");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "2");
    run_into(scene->b, CLAIM_SQL, (long long)other, "default");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(answer(scene->b), "2");
}

/* Else what records open meanwhile is not found by the claims that follow: they begin where nothing older still runs. */
static void a_claim_that_waits_for_its_turn_has_not_begun_a_transaction(void **state)
{
    struct scene *scene = *state;
    int64_t other = add_node(scene, "node-2", "default");
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "beta", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "ALTER FUNCTION weir.await_turn(text) SET lock_timeout = '60s'");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(
        run(scene->a, "SELECT count(c.id) FROM weir.claim(%lld, 'default', 1, '0', -1) c", (long long)scene->node), "1");
    run_into(scene->b, CLAIM_SQL, (long long)other, "default");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND backend_xid IS NULL",
                            PQbackendPID(scene->b)),
                        "1");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "1");
}

/* The holder of a turn, as await_turn() asks for it, is what this answers; how often it asks is counted. */
static void replace_holder(struct scene *scene, const char *holder)
{
    (void)run(scene->a, "CREATE SEQUENCE IF NOT EXISTS public.asked");
    (void)run(scene->a, "SELECT setval('public.asked', 1, false)");
    (void)run(scene->a,
              "CREATE OR REPLACE FUNCTION weir.turn_holder(turn bigint) RETURNS text LANGUAGE sql VOLATILE AS $$ "
              "SELECT %s FROM nextval('public.asked') n $$",
              holder);
    (void)run(scene->a, "ALTER FUNCTION weir.await_turn(text) SET lock_timeout = '1ms'");
}

static void a_claim_waits_on_while_others_get_their_turn_but_not_for_ever(void **state)
{
    struct scene *scene = *state;
    int64_t other = add_node(scene, "node-2", "default");
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "beta", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    replace_holder(scene, "n::text");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.await_turn('default')");
    assert_string_equal(run(scene->b, CLAIM_SQL, (long long)other, "default"), "2");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(run(scene->a, "SELECT last_value FROM public.asked"), "10");
}

static void a_claim_goes_on_beside_one_that_keeps_its_turn(void **state)
{
    struct scene *scene = *state;
    int64_t other = add_node(scene, "node-2", "default");
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    replace_holder(scene, "left('the same', 8 + n::integer)");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.await_turn('default')");
    assert_string_equal(run(scene->b, CLAIM_SQL, (long long)other, "default"), "1");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(run(scene->a, "SELECT last_value FROM public.asked"), "2");
}

static void a_turn_tells_who_holds_it(void **state)
{
    struct scene *scene = *state;
    char turn[64];
    char first[64];
    (void)snprintf(turn, sizeof turn, "%s", run(scene->a, "SELECT hashtextextended('weir.claim default', 0)"));
    assert_string_equal(run(scene->b, "SELECT weir.turn_holder(%s)", turn), "");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.await_turn('default')");
    (void)snprintf(first, sizeof first, "%s", run(scene->b, "SELECT weir.turn_holder(%s)", turn));
    assert_string_not_equal(first, "");
    assert_string_equal(run(scene->b, "SELECT weir.turn_holder(%s)", turn), first);
    assert_string_equal(run(scene->b, "SELECT weir.turn_holder(%s + 1)", turn), "");
    (void)run(scene->a, "COMMIT");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.await_turn('default')");
    assert_string_not_equal(run(scene->b, "SELECT weir.turn_holder(%s)", turn), first);
    (void)run(scene->a, "ROLLBACK");
}

static void a_claim_that_is_undone_leaves_everything_to_the_next(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    struct claim_result between = claim(scene, 10);
    assert_int_equal(between.count, 0);
    assert_true(between.more);
    (void)run(scene->a, "ROLLBACK");
    struct claim_result after = claim(scene, 10);
    assert_int_equal(after.count, 1);
    assert_string_equal(after.items[0].id, id);
}

/* Two lanes of one workspace: the slots are one row, and the second claim waits for it. */
static void two_groups_never_take_one_slot_twice(void **state)
{
    struct scene *scene = *state;
    int64_t other = add_node(scene, "node-2", "batch");
    for (int round = 0; round < 2; round++) {
        bool undone = round == 0;
        (void)enqueue_for(scene, "acme", NULL);
        (void)enqueue_for(scene, "acme", "batch");
        (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
        (void)run(scene->a, "BEGIN");
        assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
        run_into(scene->b, CLAIM_SQL, (long long)other, "batch");
        (void)run(scene->a, undone ? "ROLLBACK" : "COMMIT");
        assert_string_equal(answer(scene->b), undone ? "1" : "0");
        assert_string_equal(run(scene->a, "SELECT slots_used FROM weir.workspaces WHERE name = 'acme'"), "1");
        if (undone) {
            (void)run(scene->a, "SELECT weir.cancel_items(ARRAY(SELECT id FROM weir.workflow_execution_queue), 'x', 'x')");
            (void)run(scene->a, COMPLETE_SQL, (long long)other,
                      run(scene->b, "SELECT id FROM weir.workflow_execution_queue WHERE phase = 2"),
                      number(run(scene->b, "SELECT fence FROM weir.workflow_execution_queue WHERE phase = 2")));
        }
    }
}

/* --- claim against enqueue --- */

/* The wake-up of an old transaction is found although younger ones were folded long before it was committed. */
static void a_long_enqueue_blocks_nobody_and_is_not_forgotten(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "acme", 10);
    (void)run(scene->a, "BEGIN");
    char late[UUID_TEXT_MAX];
    text_copy(late, sizeof late, run(scene->a, "SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')"));
    assert_int_equal(claim(scene, 10).count, 0);
    for (int i = 0; i < 3; i++) {
        const char *id = enqueue_for(scene, "acme", NULL);
        struct claim_result result = claim(scene, 10);
        assert_int_equal(result.count, 1);
        assert_string_equal(result.items[0].id, id);
    }
    (void)run(scene->a, "COMMIT");
    struct next_work next = {0};
    ok(store_next_work(scene->store, scene->node, "default", &next, &scene->error));
    assert_true(next.ready);
    struct claim_result last = claim(scene, 10);
    assert_int_equal(last.count, 1);
    assert_string_equal(last.items[0].id, late);
}

/* A claim reads its clock, and then waits for the workspace: what it finds there may have been enqueued since. */
static void the_story_of_what_came_during_a_claim_begins_with_its_enqueue(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request urgent = {.workspace = "acme", .workflow = "hello", .priority = 1};
    struct enqueue_result result = {.status = WEIR_FAILED};
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "UPDATE weir.lanes SET head_rank = -9223372036854775808"); /* its head is not known */
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT 1 FROM weir.workspaces WHERE name = 'acme' FOR NO KEY UPDATE");
    run_into(scene->b, CLAIM_SQL, (long long)scene->node, "default");
    ok(store_enqueue(scene->store, &urgent, 1, &result, &scene->error));
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "1");
    assert_string_equal(run(scene->a, "SELECT id FROM weir.executions WHERE status = 'CLAIMED'"), result.id);
    assert_string_equal(
        run(scene->a,
            "SELECT string_agg(e.event, ' ') FROM (SELECT event FROM weir.execution_events WHERE execution_id = '%s') e",
            result.id),
        "enqueue claim");
    assert_string_equal(
        run(scene->a, "SELECT claimed_at >= created_at FROM weir.workflow_execution_queue WHERE id = '%s'", result.id),
        "t");
}

/* One that was enqueued by a clock that went back afterwards, taken by each of the ways that a claim has. */
static void nothing_is_claimed_before_it_was_enqueued(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "acme", 2);
    for (int i = 0; i < 2; i++) {
        (void)run(scene->a, "BEGIN");
        (void)run(scene->a, "SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
        (void)run(scene->a, "UPDATE weir.workflow_execution_queue SET created_at = weir.store_time() + 3600000000 "
                            "WHERE status = 'PENDING'");
        (void)run(scene->a, "COMMIT");
        if (i == 0) {
            (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)"); /* else claim_fresh() takes it */
        }
        struct claim_result result = claim(scene, 10);
        assert_int_equal(result.count, 1);
        assert_true(result.items[0].claimed_at_us >= result.items[0].created_at_us);
    }
    assert_string_equal(run(scene->a, "SELECT bool_and(claimed_at >= created_at) FROM weir.workflow_execution_queue"), "t");
}

/* Whoever counts the executions between claimed_at and finished_at must not find that a cap was passed: a claim that waits
 * while a slot is freed, and then takes it, comes after that end. By each of the ways that a claim has. */
static void no_claim_is_dated_before_the_end_that_made_room(void **state)
{
    struct scene *scene = *state;
    for (int way = 0; way < 2; way++) {
        bool is_fresh = way == 1;
        const char *first = enqueue_for(scene, "acme", NULL);
        struct claimed_item item = claim_one(scene, first);
        const char *second = enqueue_for(scene, "acme", NULL);
        if (!is_fresh) {
            (void)enqueue_for(scene, "beta", NULL); /* else there is nothing to wait for */
            (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
        }
        (void)run(scene->a, "BEGIN");
        (void)run(scene->a, "SELECT 1 FROM weir.nodes WHERE id = %lld FOR UPDATE", (long long)scene->node);
        run_into(scene->b, is_fresh ? "SELECT count(c.id) FROM weir.claim_fresh(%lld, '%s', '0', -1, 100) c" : CLAIM_SQL,
                 (long long)scene->node, "default");
        assert_string_equal(run(scene->a, COMPLETE_SQL, (long long)scene->node, first, (long long)item.fence), "done");
        (void)run(scene->a, "COMMIT");
        assert_string_equal(answer(scene->b), is_fresh ? "1" : "2");
        assert_string_equal(run(scene->a,
                                "SELECT n.claimed_at >= e.finished_at FROM weir.workflow_execution_queue n, "
                                "weir.workflow_executions e WHERE n.id = '%s' AND e.id = '%s'",
                                second, first),
                            "t");
        (void)run(scene->a,
                  "SELECT weir.record(%lld, array_agg(q.id), array_agg(q.fence), array_agg(6), array_agg(0), "
                  "array_agg(false), array_agg(NULL::text), array_agg(NULL::text), '{}', '{}', '{}', '{}', '{}', '{}', "
                  "'{}', '{}', '{}', "
                  "'{}', '{}', '{}') FROM weir.workflow_execution_queue q",
                  (long long)scene->node);
    }
}

/* One that waits while another node claims, and dies: the story would tell of its claim before that one. */
static void a_takeover_is_dated_after_the_claim_that_it_takes_over(void **state)
{
    struct scene *scene = *state;
    int64_t other = add_node(scene, "node-2", "default");
    (void)enqueue_for(scene, "acme", NULL);
    assert_int_equal(claim_as(scene, other, "default", 10).count, 1);
    (void)run(scene->a, "UPDATE weir.nodes SET expires_at = 0 WHERE id = %lld", (long long)other);
    assert_int_equal(recover(scene).handed_over, 1); /* else there is nothing to wait for */
    const char *id = enqueue_for(scene, "beta", NULL);
    other = add_node(scene, "node-3", "default");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT 1 FROM weir.nodes WHERE id = %lld FOR UPDATE", (long long)scene->node);
    run_into(scene->b, CLAIM_SQL, (long long)scene->node, "default");
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)other, "default"), "2");
    (void)run(scene->a, "UPDATE weir.nodes SET expires_at = 0 WHERE id = %lld", (long long)other);
    (void)run(scene->a, "SELECT weir.recover(NULL, '{}', '{}', '{}', 5, 500)");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "2");
    assert_string_equal(
        run(scene->a,
            "SELECT q.claimed_at >= max(e.at) AND count(*) = 1 FROM weir.workflow_execution_queue q, "
            "weir.workflow_execution_events e WHERE q.id = '%s' AND e.execution_id = q.id AND e.event = 'claim' "
            "GROUP BY q.claimed_at",
            id),
        "t");
}

static void an_enqueue_that_is_undone_leaves_nothing(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "ROLLBACK");
    assert_int_equal(claim(scene, 10).count, 0);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.lane_wakeups"), "0");
}

/* A lane is opened where its group stood, and is not there yet when a claim finds that the group has gone on: that claim
 * must not be the measure of where the next one begins. */
static void a_lane_that_is_opened_slowly_is_found_at_once(void **state)
{
    struct scene *scene = *state;
    struct next_work next = {0};
    add_workspace(scene, "gamma", 1);
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result first = claim(scene, 10);
    assert_int_equal(first.count, 1);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a,
              "SELECT weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[6], ARRAY[0], ARRAY[true], ARRAY[NULL], "
              "ARRAY[NULL], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
              (long long)scene->node, first.items[0].id, (long long)first.items[0].fence);
    (void)run(scene->b, "UPDATE weir.executor_groups SET pass = pass + 10 * 720720");
    (void)enqueue_for(scene, "beta", NULL);
    (void)enqueue_for(scene, "gamma", NULL);
    assert_int_equal(claim(scene, 10).count, 2);
    (void)run(scene->a, "COMMIT");
    ok(store_next_work(scene->store, scene->node, "default", &next, &scene->error));
    assert_true(next.ready);
    assert_int_equal(claim(scene, 10).count, 1);
}

/* An enqueue is folded while the workspace looks full, though its slot is being freed. */
static void a_slot_freed_during_a_fold_opens_the_lane(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result first = claim(scene, 10);
    assert_int_equal(first.count, 1);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(
        run(scene->a, COMPLETE_SQL, (long long)scene->node, first.items[0].id, (long long)first.items[0].fence), "done");
    const char *next = enqueue_for(scene, "acme", NULL);
    assert_int_equal(claim(scene, 10).count, 0); /* folds; sees a full workspace */
    (void)run(scene->a, "COMMIT");
    struct claim_result second = claim(scene, 10);
    assert_int_equal(second.count, 1);
    assert_string_equal(second.items[0].id, next);
}

/* A large claim leaves the lane of a workspace that it fills ready; a small one closes it. */
static struct claim_result claim_many(struct scene *scene)
{
    return claim(scene, 64);
}

static const char *const ready_sql = "SELECT l.ready FROM weir.lanes l JOIN weir.workspaces w ON w.id = l.workspace_id "
                                     "WHERE w.name = 'acme'";

static void an_end_before_the_lanes_next_turn_needs_no_wake_up(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    const char *next = enqueue_for(scene, "acme", NULL);
    struct claim_result first = claim_many(scene);
    assert_int_equal(first.count, 1);
    assert_string_equal(run(scene->a, ready_sql), "t");
    assert_int_equal(record(scene, RECORD_COMPLETED, &first.items[0]), WEIR_OK);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.lane_wakeups"), "0");
    struct claim_result second = claim_many(scene);
    assert_int_equal(second.count, 1);
    assert_string_equal(second.items[0].id, next);
}

/* The claim has the workspace and sees it full; who frees the slot waits for the claim and then sees the lane closed. */
static void a_slot_freed_while_its_lane_is_closed_opens_it(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result first = claim_many(scene);
    assert_int_equal(first.count, 1);
    let_records_wait(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "0");
    assert_string_equal(run(scene->a, ready_sql), "f");
    run_into(scene->b, COMPLETE_SQL, (long long)scene->node, first.items[0].id, (long long)first.items[0].fence);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "done");
    assert_string_equal(run(scene->a, ready_sql), "t");
    assert_int_equal(claim(scene, 10).count, 1);
}

/* The slot is being freed while a claim finds the workspace full: the claim neither waits long nor closes the lane. */
static void a_lane_is_not_closed_while_its_slot_is_being_freed(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result first = claim_many(scene);
    assert_int_equal(first.count, 1);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(
        run(scene->a, COMPLETE_SQL, (long long)scene->node, first.items[0].id, (long long)first.items[0].fence), "done");
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->a, ready_sql), "t");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.lane_wakeups"), "0");
    assert_int_equal(claim(scene, 10).count, 1);
}

/* Who frees a slot waits for no lane: one that somebody holds gets a wake-up. */
static void a_slot_freed_while_its_lane_is_held_leaves_a_wake_up(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result first = claim(scene, 10);
    assert_int_equal(first.count, 1);
    assert_string_equal(run(scene->a, ready_sql), "f");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT id FROM weir.lanes FOR UPDATE");
    assert_int_equal(record(scene, RECORD_COMPLETED, &first.items[0]), WEIR_OK);
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.lane_wakeups"), "1");
    (void)run(scene->a, "COMMIT");
    assert_int_equal(claim(scene, 10).count, 1);
}

/* Nothing makes a lane count what is not there; should it be so, the slots go back and the claim comes to an end. */
static void slots_for_items_that_are_not_there_go_back(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "acme", 5);
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "UPDATE weir.lanes SET runnable = runnable + 3");
    assert_int_equal(claim(scene, 10).count, 1);
    assert_string_equal(run(scene->a, "SELECT slots_used FROM weir.workspaces WHERE name = 'acme'"), "1");
    assert_string_equal(run(scene->a, ready_sql), "f");
    (void)run(scene->a, "UPDATE weir.lanes SET runnable = runnable - 3");
}

/* --- caps --- */

static void a_cap_lowered_before_the_claim_reads_it_counts(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "acme", 5);
    for (int i = 0; i < 5; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN");
    /* As change_plan() does. Who changes one workspace has its lanes, so that no claim comes that far. */
    (void)run(scene->a, "UPDATE weir.workspaces SET slots_max = 2, max_concurrent = 2 WHERE name = 'acme'");
    run_into(scene->b, CLAIM_SQL, (long long)scene->node, "default");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "2");
}

static void a_cap_lowered_during_a_claim_waits_and_counts_afterwards(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "acme", 2);
    for (int i = 0; i < 5; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "2");
    run_into(scene->b, "SELECT weir.change_workspace('acme', NULL, 1, NULL, false)");
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, COMPLETE_SQL, (long long)scene->node,
              run(scene->b, "SELECT id FROM weir.workflow_execution_queue WHERE phase = 2 ORDER BY id LIMIT 1"),
              number(run(scene->b, "SELECT max(fence) FROM weir.workflow_execution_queue")));
    assert_int_equal(claim(scene, 10).count, 0); /* one runs still, and one is what the cap allows */
}

/* --- complete against recover --- */

static void an_end_that_comes_during_a_handover_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    end_lease(scene);
    let_records_wait(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "SELECT r.handed_over FROM weir.recover(NULL, '{}', '{}', '{}', 5, 500) r"), "1");
    run_into(scene->b, COMPLETE_SQL, (long long)scene->node, held.items[0].id, (long long)held.items[0].fence);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "stale_fence");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_executions"), "0");
    assert_string_equal(run(scene->a, "SELECT slots_used FROM weir.workspaces WHERE name = 'acme'"), "1");
}

static void an_end_under_way_is_not_handed_over(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    end_lease(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(
        run(scene->a, COMPLETE_SQL, (long long)scene->node, held.items[0].id, (long long)held.items[0].fence), "done");
    struct recover_result first = recover(scene);
    assert_int_equal(first.nodes, 1);
    assert_int_equal(first.handed_over, 0);
    assert_true(first.more); /* the node is not recovered while something of it may be left */
    (void)run(scene->a, "COMMIT");
    struct recover_result second = recover(scene);
    assert_int_equal(second.handed_over, 0);
    assert_false(second.more);
    assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_executions"), "COMPLETED");
}

static void a_step_under_way_is_on_record_before_the_handover(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    end_lease(scene);
    (void)run(scene->a, "BEGIN");
    (void)run(
        scene->a,
        "SELECT weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[5], ARRAY[0], ARRAY[false], ARRAY[NULL], "
        "ARRAY[NULL], ARRAY[1], ARRAY['one'], ARRAY['completed'], ARRAY[1], ARRAY[0], ARRAY[-1], ARRAY[-1], ARRAY[true], "
        "ARRAY[NULL::bytea], ARRAY[NULL::bytea], ARRAY[NULL], ARRAY[NULL])",
        (long long)scene->node, held.items[0].id, (long long)held.items[0].fence);
    assert_int_equal(recover(scene).handed_over, 0);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(recover(scene).handed_over, 1);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_node_executions"), "1");
}

/* --- a claim against the death of its node --- */

static void a_node_is_not_declared_dead_during_its_claim(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    end_lease(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    assert_int_equal(recover(scene).nodes, 0);
    (void)run(scene->a, "COMMIT");
    struct recover_result after = recover(scene);
    assert_int_equal(after.nodes, 1);
    assert_int_equal(after.handed_over, 1);
}

static void a_claim_of_a_node_that_is_declared_dead_meanwhile_takes_nothing(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    end_lease(scene);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.recover(NULL, '{}', '{}', '{}', 5, 500)");
    run_into(scene->b, CLAIM_SQL, (long long)scene->node, "default");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "0");
}

/* A heartbeat never waits for a claim. */
static void a_heartbeat_goes_on_during_a_claim(void **state)
{
    struct scene *scene = *state;
    struct node_beat beat = {.engine_reachable = true};
    (void)enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    (void)run(scene->b, "SET lock_timeout = 1000"); /* of the server: what waits fails */
    (void)run(scene->b, "UPDATE weir.nodes SET expires_at = expires_at + 1 WHERE id = %lld", (long long)scene->node);
    ok(store_node_beat(scene->store, scene->node, &beat, &scene->error));
    (void)run(scene->a, "COMMIT");
}

/* --- operators --- */

static void a_cancel_under_way_keeps_its_item_from_claims(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel_items(ARRAY['%s'::uuid], 'me', 'why')", id);
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "ROLLBACK");
    struct claim_result result = claim(scene, 10);
    assert_int_equal(result.count, 1);
    assert_string_equal(result.items[0].id, id);
}

static void a_cancel_waits_for_the_claim_and_is_passed_on(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    run_into(scene->b, "SELECT weir.cancel_items(ARRAY['%s'::uuid], 'me', 'why')", id);
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    struct node_request *requests = NULL;
    size_t count = 0;
    ok(store_take_requests(scene->store, scene->node, &scene->arena, &requests, &count, &scene->error));
    assert_int_equal(count, 1);
    assert_string_equal(requests[0].id, id);
}

/* The order of locks holds: a put-back and a cancel of the same workspace's items end, whoever is first. */
static void a_put_back_between_look_and_lock_is_still_cancelled(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a,
              "SELECT weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[3], ARRAY[0], ARRAY[false], ARRAY[NULL], "
              "ARRAY[NULL], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
              (long long)scene->node, held.items[0].id, (long long)held.items[0].fence);
    run_into(scene->b, "SELECT c.outcome FROM weir.cancel_items(ARRAY['%s'::uuid], 'me', 'why') c", held.items[0].id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "changed");
    assert_int_equal(record(scene, RECORD_COMPLETED, &held.items[0]), WEIR_EXECUTION_NOT_FOUND);
    assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_executions"), "CANCELLED");
}

/* --- lost answers --- */

struct lost_claim {
    struct scene *scene;
    enum weir_status status;
};

static void *claim_and_lose(void *argument)
{
    struct lost_claim *lost = argument;
    struct claim_options options = {.node_id = lost->scene->node, .group = "default", .limit = 10, .attempts_max = 3};
    struct claim_result result = {0};
    lost->status = store_claim(lost->scene->store, &options, &lost->scene->arena, &result, &lost->scene->error);
    return NULL;
}

static void await_waiting_claim(struct scene *scene)
{
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (number(run(scene->b, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")) == 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
}

/* The connection dies while a claim is under way. What a claim of that moment took, another connection does here; the node
 * must hear of it by itself, once, and go on. */
static void a_claim_whose_answer_was_lost_is_asked_for_again(void **state)
{
    struct scene *scene = *state;
    struct lost_claim lost = {.scene = scene};
    pthread_t thread;
    add_workspace(scene, "acme", 2);
    const char *first = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workspaces FOR UPDATE");
    assert_int_equal(pthread_create(&thread, NULL, claim_and_lose, &lost), 0);
    await_waiting_claim(scene);
    (void)run(scene->b, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lost.status, WEIR_COMMIT_UNKNOWN);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->a, CLAIM_SQL, (long long)scene->node, "default"), "1");
    struct next_work next = {0};
    ok(store_next_work(scene->store, scene->node, "default", &next, &scene->error));
    assert_true(next.ready);
    struct claim_result again = claim(scene, 10);
    assert_int_equal(again.count, 1);
    assert_string_equal(again.items[0].id, first);
    const char *second = enqueue_for(scene, "acme", NULL);
    struct claim_result next_claim = claim(scene, 10);
    assert_int_equal(next_claim.count, 1);
    assert_string_equal(next_claim.items[0].id, second);
    assert_int_equal(record(scene, RECORD_COMPLETED, &again.items[0]), WEIR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_claim_goes_round_the_lanes_of_another_one),
        SCENE_TEST(claims_of_a_group_take_turns),
        SCENE_TEST(a_claim_that_waits_for_its_turn_has_not_begun_a_transaction),
        SCENE_TEST(a_claim_waits_on_while_others_get_their_turn_but_not_for_ever),
        SCENE_TEST(a_claim_goes_on_beside_one_that_keeps_its_turn),
        SCENE_TEST(a_turn_tells_who_holds_it),
        SCENE_TEST(a_claim_that_is_undone_leaves_everything_to_the_next),
        SCENE_TEST(two_groups_never_take_one_slot_twice),
        SCENE_TEST(a_long_enqueue_blocks_nobody_and_is_not_forgotten),
        SCENE_TEST(the_story_of_what_came_during_a_claim_begins_with_its_enqueue),
        SCENE_TEST(nothing_is_claimed_before_it_was_enqueued),
        SCENE_TEST(a_lane_that_is_opened_slowly_is_found_at_once),
        SCENE_TEST(no_claim_is_dated_before_the_end_that_made_room),
        SCENE_TEST(a_takeover_is_dated_after_the_claim_that_it_takes_over),
        SCENE_TEST(an_enqueue_that_is_undone_leaves_nothing),
        SCENE_TEST(a_slot_freed_during_a_fold_opens_the_lane),
        SCENE_TEST(an_end_before_the_lanes_next_turn_needs_no_wake_up),
        SCENE_TEST(a_slot_freed_while_its_lane_is_closed_opens_it),
        SCENE_TEST(a_lane_is_not_closed_while_its_slot_is_being_freed),
        SCENE_TEST(a_slot_freed_while_its_lane_is_held_leaves_a_wake_up),
        SCENE_TEST(slots_for_items_that_are_not_there_go_back),
        SCENE_TEST(a_cap_lowered_before_the_claim_reads_it_counts),
        SCENE_TEST(a_cap_lowered_during_a_claim_waits_and_counts_afterwards),
        SCENE_TEST(an_end_that_comes_during_a_handover_is_refused),
        SCENE_TEST(an_end_under_way_is_not_handed_over),
        SCENE_TEST(a_step_under_way_is_on_record_before_the_handover),
        SCENE_TEST(a_node_is_not_declared_dead_during_its_claim),
        SCENE_TEST(a_claim_of_a_node_that_is_declared_dead_meanwhile_takes_nothing),
        SCENE_TEST(a_heartbeat_goes_on_during_a_claim),
        SCENE_TEST(a_cancel_under_way_keeps_its_item_from_claims),
        SCENE_TEST(a_cancel_waits_for_the_claim_and_is_passed_on),
        SCENE_TEST(a_put_back_between_look_and_lock_is_still_cancelled),
        SCENE_TEST(a_claim_whose_answer_was_lost_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
