/* Two transactions that meet at one item or one node, each order forced: the second one is seen to wait before the first
 * one ends. What meets a round of the scheduler alone is in schedule_test.c. */
#include "unit/store/postgres/scene.h"

/* Takes the role for the scene's node. */
static long long take_epoch(struct scene *scene)
{
    int64_t epoch = 0;
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    return (long long)epoch;
}

/* --- ends and steps beside a handover --- */

static void an_end_that_comes_during_a_handover_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    let_records_wait(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, RECOVER_SQL, (long long)scene->node), "1");
    run_into(scene->b, COMPLETE_SQL, (long long)scene->node, held.items[0].id, (long long)held.items[0].fence);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "stale_fence");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_executions"), "0");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 2"), "1");
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
    (void)run(scene->a,
              "SELECT weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[5], ARRAY[0], ARRAY[-1], '{}', '{}', '{}', "
              "'{}', '{}', "
              "'{}', '{}', '{}', '{}', '{}', '{}', '{}', ARRAY[1], ARRAY['one'], ARRAY['completed'], ARRAY[1], ARRAY[0], "
              "ARRAY[-1], ARRAY[0], ARRAY[-1], ARRAY[true], '{}', '{}', '{}', '{}')",
              (long long)scene->node, held.items[0].id, (long long)held.items[0].fence);
    assert_int_equal(recover(scene).handed_over, 0);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(recover(scene).handed_over, 1);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_node_executions"), "1");
}

/* --- an assignment beside the death of its node --- */

static void a_node_is_not_declared_dead_during_an_assignment_to_it(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    long long node = (long long)scene->node;
    long long epoch = take_epoch(scene);
    end_lease(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ASSIGN_SQL, node, epoch, id, node), "1");
    assert_int_equal(recover(scene).nodes, 0);
    (void)run(scene->a, "COMMIT");
    struct recover_result after = recover(scene);
    assert_int_equal(after.nodes, 1);
    assert_int_equal(after.handed_over, 1);
}

static void an_assignment_to_a_node_that_is_declared_dead_meanwhile_takes_nothing(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    long long node = (long long)scene->node;
    long long epoch = take_epoch(scene);
    (void)run(scene->b, "ALTER FUNCTION weir.schedule SET lock_timeout = '60s'");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, RECOVER_SQL, node);
    run_into(scene->b, ASSIGN_SQL, node, epoch, id, node);
    (void)run(scene->a, "COMMIT");
    PGresult *result = PQgetResult(scene->b); /* the death is an act: the round is undone */
    assert_int_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
    assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "WR013");
    PQclear(result);
    assert_null(PQgetResult(scene->b));
    assert_string_equal(run(scene->a, "SELECT phase FROM weir.workflow_execution_queue WHERE id = '%s'", id), "0");
}

/* --- operators --- */

static void a_pause_awaits_the_round_that_assigns(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    long long node = (long long)scene->node;
    long long epoch = take_epoch(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ASSIGN_SQL, node, epoch, id, node), "1"); /* it has looked for acts */
    run_into(scene->b, "SELECT weir.pause_workspace('acme')");
    assert_string_equal(run(scene->a, "SELECT paused FROM weir.workspaces WHERE name = 'acme'"), "f");
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    assert_string_equal(run(scene->a, "SELECT paused FROM weir.workspaces WHERE name = 'acme'"), "t");
}

static void a_prepared_pause_and_the_rounds_do_not_wait_for_each_other(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "beta", NULL);
    long long node = (long long)scene->node;
    long long epoch = take_epoch(scene);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SET LOCAL weir.notify = 'off'");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    (void)run(scene->a, "PREPARE TRANSACTION 'pause'");
    assert_string_equal(run(scene->b, ASSIGN_SQL, node, epoch, id, node), "1");
    (void)run(scene->a, "COMMIT PREPARED 'pause'");
}

/* Any role that may connect can take such a lock and keep it. */
static void neither_rounds_nor_acts_use_advisory_locks(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_for(scene, "acme", NULL);
    long long node = (long long)scene->node;
    long long epoch = take_epoch(scene);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ASSIGN_SQL, node, epoch, id, node), "1");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    (void)run(scene->a, "SELECT weir.publish_definition('other', NULL, '{\"name\":\"other\"}', 0, NULL, false)");
    (void)run(scene->a, RECOVER_SQL, node);
    (void)run(scene->a, "SET CONSTRAINTS ALL IMMEDIATE"); /* the wait of the pause */
    assert_string_equal(run(scene->a, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
    (void)run(scene->a, "ROLLBACK");
}

static void publications_of_one_name_side_by_side_get_a_version_each(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.publish_definition('hello', NULL, '{\"n\":1}', 0, NULL, false)");
    run_into(scene->b, "SELECT weir.publish_definition('hello', NULL, '{\"n\":2}', 0, NULL, false)");
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    assert_string_equal(run(scene->a, "SELECT string_agg(version || definition, ' ' ORDER BY version) FROM "
                                      "weir.workflow_definitions WHERE name = 'hello' AND version > 1"),
                        "2{\"n\":1} 3{\"n\":2}");
}

static void a_cancel_under_way_keeps_its_item_from_assignments(void **state)
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

static void an_item_that_is_put_back_before_its_lock_is_still_cancelled(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a,
              "SELECT weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[3], ARRAY[0], ARRAY[-1], '{}', '{}', '{}', "
              "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', "
              "'{}', '{}', '{}', '{}')",
              (long long)scene->node, held.items[0].id, (long long)held.items[0].fence);
    run_into(scene->b, "SELECT c.outcome FROM weir.cancel_items(ARRAY['%s'::uuid], 'me', 'why') c", held.items[0].id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "changed");
    assert_int_equal(record(scene, RECORD_COMPLETED, &held.items[0]), WEIR_EXECUTION_NOT_FOUND);
    assert_string_equal(run(scene->a, "SELECT status FROM weir.workflow_executions"), "CANCELLED");
}

/* --- schedules --- */

#define SET_SCHEDULE_SQL                                                                                                   \
    "SELECT s.status FROM weir.set_schedule('often', NULL, NULL, 10000000, 0, 0, 0, 'hello', '{}', ARRAY['acme'], NULL, "  \
    "'skip', 60000000, 1, 10000, NULL, NULL) s"
#define ADVANCE_SQL                                                                                                        \
    "SELECT a.firings FROM weir.advance_schedule((SELECT id FROM weir.schedules), 1, 9223372036854775807, "                \
    "ARRAY[1::bigint], 20000000, 0, 0, NULL, NULL, 0, 5000, 1000) a"
/* execution or NULL; answers how many firings have one */
#define SETTLE_SQL                                                                                                         \
    "SELECT count(*) FROM weir.settle_schedule_firings(ARRAY[(SELECT id FROM weir.schedules)::bigint], "                   \
    "ARRAY[(SELECT id FROM weir.workspaces WHERE name = 'acme')::bigint], ARRAY[1::bigint], ARRAY[%s]::uuid[], "           \
    "ARRAY[false], ARRAY['queue_full'], ARRAY['full'])"

static void set_and_advance(struct scene *scene)
{
    assert_string_equal(run(scene->a, SET_SCHEDULE_SQL), "ok");
    assert_string_equal(run(scene->a, ADVANCE_SQL), "1");
}

#define PUBLISH_SQL                                                                                                        \
    "SELECT p.status FROM weir.publish_with_schedules('report', %s, '%s', 0, NULL, false, '[]', NULL, NULL, NULL, "        \
    "NULL, "                                                                                                               \
    "'%s', 10000) p"
#define SECTION                                                                                                            \
    "[{\"name\":\"night\",\"every_us\":10000000,\"jitter_us\":0,\"from_us\":0,\"until_us\":0,\"params\":\"{}\","           \
    "\"workspaces\":[\"acme\"],\"overlap\":\"skip\",\"catch_up_us\":60000000,\"due_us\":1}]"

/* The version of the second publication is the later one, so its schedules count: it has none. */
static void publications_set_their_schedules_in_the_order_of_their_versions(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, PUBLISH_SQL, "NULL", "first", SECTION), "ok");
    run_into(scene->b, PUBLISH_SQL, "NULL", "second", "[]");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "ok");
    assert_string_equal(run(scene->a, "SELECT max(version) FROM weir.workflow_definitions WHERE name = 'report'"), "2");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedules"), "0");
}

/* The firing is inserted while the deletion waits for the schedule. */
static void a_deletion_beside_a_firing_leaves_nothing(void **state)
{
    struct scene *scene = *state;
    assert_string_equal(run(scene->a, PUBLISH_SQL, "NULL", "first", SECTION), "ok");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ADVANCE_SQL), "1");
    run_into(scene->b, "SELECT c.status FROM weir.change_workflow('report', NULL, 2) c");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "ok");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedules"), "0");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedule_firings"), "0");
}

/* The owner of the definition is gone when its schedules are set; those of the workflow of all workspaces are others. */
static void a_publication_beside_the_deletion_of_its_owner_touches_no_other_schedule(void **state)
{
    struct scene *scene = *state;
    assert_string_equal(run(scene->a, PUBLISH_SQL, "NULL", "first", SECTION), "ok");
    assert_string_equal(run(scene->a, PUBLISH_SQL, "'beta'", "own", "[]"), "ok");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.remove_workspace('beta', true, 100, NULL, NULL, true)");
    run_into(scene->b, PUBLISH_SQL, "'beta'", "next", "[]");
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedules"), "1");
}

/* The settlement has locked the schedule when the act begins, and changes it afterwards. */
static void assert_waits_for_a_settlement(struct scene *scene, const char *act_sql)
{
    PGconn *third = postgres_server_connect(&server);
    set_and_advance(scene);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT 1 FROM weir.schedule_firings FOR UPDATE");
    run_into(scene->b, SETTLE_SQL, "NULL");
    run_into(third, "%s", act_sql);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "0");
    assert_string_equal(answer(third), "ok");
    PQfinish(third);
}

static void a_set_waits_for_a_settlement_and_neither_is_undone(void **state)
{
    struct scene *scene = *state;
    assert_waits_for_a_settlement(scene, SET_SCHEDULE_SQL);
    assert_string_equal(run(scene->a, "SELECT refused FROM weir.schedules"), "1");
}

static void a_pause_waits_for_a_settlement_and_neither_is_undone(void **state)
{
    struct scene *scene = *state;
    assert_waits_for_a_settlement(scene, "SELECT weir.pause_schedule('often', true, NULL, NULL)");
    assert_string_equal(run(scene->a, "SELECT refused FROM weir.schedules WHERE paused"), "1");
}

static void a_delete_waits_for_a_settlement_and_leaves_nothing(void **state)
{
    struct scene *scene = *state;
    assert_waits_for_a_settlement(scene, "SELECT d.status FROM weir.delete_schedule('often', NULL, NULL) d");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedule_refusals"), "0");
}

static void a_settlement_behind_a_delete_inserts_no_firing(void **state)
{
    struct scene *scene = *state;
    set_and_advance(scene);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.delete_schedule('often', NULL, NULL)");
    run_into(scene->b, SETTLE_SQL, "'00000000-0000-7000-8000-000000000001'");
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedule_firings"), "0");
}

static void a_time_that_two_nodes_advance_fires_once(void **state)
{
    struct scene *scene = *state;
    assert_string_equal(run(scene->a, SET_SCHEDULE_SQL), "ok");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ADVANCE_SQL), "1");
    run_into(scene->b, ADVANCE_SQL);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "0");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.schedule_firings"), "1");
}

/* The rows of one answer would else be the same at each call, and no other would ever come. */
static void locked_rows_with_signals_hold_up_no_other(void **state)
{
    struct scene *scene = *state;
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = false;
    add_workspace(scene, "wide", SIGNALLED_BATCH + 1);
    for (int i = 0; i <= SIGNALLED_BATCH; i++) {
        (void)enqueue_for(scene, "wide", NULL);
    }
    struct claim_result claimed = claim(scene, SIGNALLED_BATCH + 1);
    assert_int_equal(claimed.count, SIGNALLED_BATCH + 1);
    (void)run(scene->a, "UPDATE weir.workflow_execution_queue SET signals = 1");
    (void)run(scene->a, "INSERT INTO weir.signals (execution_id, seq, name, data, sent_at) "
                        "SELECT id, 1, 'go', '1', 1 FROM weir.workflow_execution_queue");
    const char *last = run(scene->a, "SELECT id FROM weir.workflow_execution_queue ORDER BY id DESC LIMIT 1");
    last = arena_copy_string(&scene->arena, last);
    (void)run(scene->a,
              "BEGIN; SELECT count(*) FROM (SELECT 1 FROM weir.workflow_execution_queue WHERE id <> '%s' FOR UPDATE) l",
              last);
    ok(store_take_requests(scene->store, scene->node, &scene->arena, &requests, &count, &more, &scene->error));
    assert_int_equal(count, 1);
    assert_false(more);
    assert_string_equal(requests[0].id, last);
    (void)run(scene->a, "COMMIT");
    ok(store_take_requests(scene->store, scene->node, &scene->arena, &requests, &count, &more, &scene->error));
    assert_int_equal(count, SIGNALLED_BATCH);
}

/* --- acts on a wait beside the record of its end --- */

/* `a` has recorded the end of the step `pay`, whose wait is on record, and has not committed. */
static const char *end_wait(struct scene *scene)
{
    (void)enqueue_for(scene, "acme", NULL);
    struct claim_result held = claim(scene, 10);
    (void)run(
        scene->a,
        "INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, due_at, started_at, "
        "node_id, fence, signal) SELECT id, 'pay', 'WAITING', 1, 0, 9000000000000000, 1, node_id, fence, 'approve:pay' "
        "FROM weir.workflow_execution_queue");
    (void)run(scene->a,
              "INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, due_at, "
              "started_at, node_id, fence) SELECT id, 'nap', 'WAITING', 1, 0, 9000000000000000, 1, node_id, fence "
              "FROM weir.workflow_execution_queue");
    (void)run(scene->a, "BEGIN");
    (void)run(
        scene->a,
        "SELECT weir.record(%lld, ARRAY['%s'::uuid, '%s'], ARRAY[%lld, %lld], ARRAY[5, 5], ARRAY[0, 0], ARRAY[-1, -1], "
        "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', ARRAY[1, 2], ARRAY['pay', 'nap'], "
        "ARRAY['COMPLETED', 'COMPLETED'], ARRAY[1, 1], ARRAY[0, 0], ARRAY[-1, -1], ARRAY[0, 0], ARRAY[-1, -1], "
        "ARRAY[true, true], '{}', '{}', '{}', '{}')",
        (long long)scene->node, held.items[0].id, held.items[0].id, (long long)held.items[0].fence,
        (long long)held.items[0].fence);
    return arena_copy_string(&scene->arena, held.items[0].id);
}

static void a_decision_waits_for_the_record_of_the_end_and_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = end_wait(scene);
    run_into(scene->b, "SELECT outcome FROM weir.decide_step('%s', 'pay', true, NULL, 'ann', NULL)", id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "none");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.signals"), "0");
}

static void a_wake_waits_for_the_record_of_the_end_and_is_refused(void **state)
{
    struct scene *scene = *state;
    const char *id = end_wait(scene);
    run_into(scene->b, "SELECT outcome || waits FROM weir.wake_steps(ARRAY['%s'::uuid], 'ann', NULL)", id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "waits0");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.signals"), "0");
}

/* The step `pay` waits for a report, instead of a decision. */
#define CALL_BACK_SQL(digit) "SELECT c.outcome FROM weir.call_back('%s', repeat('" digit "', 32), '1', 'digest of 1') c"

static void a_report_waits_for_the_record_of_the_end_and_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->b, "CREATE FUNCTION weir.as_callback() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                        "  IF NEW.signal IS NOT NULL THEN NEW.signal := 'callback:pay:1:' || repeat('0', 32); END IF; "
                        "  RETURN NEW; END $$; "
                        "CREATE TRIGGER as_callback BEFORE INSERT ON weir.workflow_node_executions "
                        "FOR EACH ROW EXECUTE FUNCTION weir.as_callback()");
    const char *id = end_wait(scene);
    /* A token of no step and no report takes no lock, also when there is a report with another one. */
    (void)run(scene->b, "SET lock_timeout = '10s'; INSERT INTO weir.signals (execution_id, seq, sent_at, name, data) "
                        "SELECT id, 1, 1, 'callback:ask:1:' || repeat('2', 32), '1' FROM weir.workflow_execution_queue");
    assert_string_equal(run(scene->b, CALL_BACK_SQL("1"), id), "none");
    (void)run(scene->b, "RESET lock_timeout; DELETE FROM weir.signals");
    run_into(scene->b, CALL_BACK_SQL("0"), id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "none");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.signals"), "0");
    (void)run(scene->a, "DROP FUNCTION weir.as_callback CASCADE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_end_that_comes_during_a_handover_is_refused),
        SCENE_TEST(an_end_under_way_is_not_handed_over),
        SCENE_TEST(a_step_under_way_is_on_record_before_the_handover),
        SCENE_TEST(a_node_is_not_declared_dead_during_an_assignment_to_it),
        SCENE_TEST(an_assignment_to_a_node_that_is_declared_dead_meanwhile_takes_nothing),
        SCENE_TEST(a_pause_awaits_the_round_that_assigns),
        SCENE_TEST(a_prepared_pause_and_the_rounds_do_not_wait_for_each_other),
        SCENE_TEST(neither_rounds_nor_acts_use_advisory_locks),
        SCENE_TEST(publications_of_one_name_side_by_side_get_a_version_each),
        SCENE_TEST(a_cancel_under_way_keeps_its_item_from_assignments),
        SCENE_TEST(an_item_that_is_put_back_before_its_lock_is_still_cancelled),
        SCENE_TEST(a_set_waits_for_a_settlement_and_neither_is_undone),
        SCENE_TEST(a_pause_waits_for_a_settlement_and_neither_is_undone),
        SCENE_TEST(publications_set_their_schedules_in_the_order_of_their_versions),
        SCENE_TEST(a_deletion_beside_a_firing_leaves_nothing),
        SCENE_TEST(a_publication_beside_the_deletion_of_its_owner_touches_no_other_schedule),
        SCENE_TEST(a_delete_waits_for_a_settlement_and_leaves_nothing),
        SCENE_TEST(a_settlement_behind_a_delete_inserts_no_firing),
        SCENE_TEST(a_time_that_two_nodes_advance_fires_once),
        SCENE_TEST(locked_rows_with_signals_hold_up_no_other),
        SCENE_TEST(a_decision_waits_for_the_record_of_the_end_and_is_refused),
        SCENE_TEST(a_wake_waits_for_the_record_of_the_end_and_is_refused),
        SCENE_TEST(a_report_waits_for_the_record_of_the_end_and_is_refused),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
