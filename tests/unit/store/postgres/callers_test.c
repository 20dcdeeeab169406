/* What a caller's own transaction may do to others: one that stands at an old snapshot, one that stays open, one that is
 * prepared. Each order is forced: the caller's transaction is held open by hand. And who is told of what. */
#include "unit/store/postgres/scene.h"

/* A transaction that sees what is there now, and nothing that comes later. */
static void begin_standing_still(struct scene *scene)
{
    (void)run(scene->a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    (void)run(scene->a, "SELECT count(*) FROM weir.workspaces");
}

static const char *enqueue(struct scene *scene, const char *workspace)
{
    return enqueue_for(scene, workspace, NULL);
}

/* Each with a wake-up of its own. */
static void enqueue_often(struct scene *scene, const char *workspace, int count)
{
    (void)run(scene->b, "DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM weir.enqueue('%s', 'hello'); END LOOP; END $$", count,
              workspace);
}

static void claim_and_end(struct scene *scene, const char *id, enum record_kind kind)
{
    struct claim_result result = claim(scene, 10);
    assert_int_equal(result.count, 1);
    assert_string_equal(result.items[0].id, id);
    assert_int_equal(record(scene, kind, &result.items[0]), WEIR_OK);
}

/* --- a transaction that does not see what came after it began --- */

static void a_lane_is_not_made_twice(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue(scene, "acme");
    begin_standing_still(scene);
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 100)"); /* makes the lane */
    assert_string_equal(refusal(scene->a, "SELECT weir.cancel('%s')", id), "40001");
    (void)run(scene->a, "ROLLBACK");
    (void)run(scene->a, "SELECT weir.cancel('%s')", id);
    assert_int_equal(claim(scene, 10).count, 0);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.lanes"), "1");
}

static void what_was_retried_unseen_is_not_retried_again(void **state)
{
    struct scene *scene = *state;
    char second[UUID_TEXT_MAX];
    const char *id = enqueue(scene, "acme");
    claim_and_end(scene, id, RECORD_FAILED);
    for (int ended = 0; ended < 2; ended++) { /* the retry of another one lives, or has ended */
        begin_standing_still(scene);
        text_copy(second, sizeof second, run(scene->b, "SELECT weir.retry('%s')", id));
        if (ended == 1) {
            claim_and_end(scene, second, RECORD_FAILED);
        }
        assert_string_equal(refusal(scene->a, "SELECT weir.retry('%s')", id), "40001");
        (void)run(scene->a, "ROLLBACK");
        assert_string_equal(refusal(scene->a, "SELECT weir.retry('%s')", id), "WR013");
        if (ended == 0) {
            claim_and_end(scene, second, RECORD_FAILED);
            id = arena_copy_string(&scene->arena, second);
        }
    }
    assert_int_equal(claim(scene, 10).count, 0);
    begin_standing_still(scene); /* what it sees all of it may retry */
    text_copy(second, sizeof second, run(scene->a, "SELECT weir.retry('%s')", second));
    (void)run(scene->a, "COMMIT");
    claim_and_end(scene, second, RECORD_COMPLETED);
}

static void an_id_that_ended_unseen_is_not_enqueued_again(void **state)
{
    struct scene *scene = *state;
    const char *id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79";
    const char *other = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a80";
    static const char *const sql = "SELECT weir.enqueue('acme', 'hello', execution_id => '%s')";
    begin_standing_still(scene);
    (void)run(scene->b, sql, id);
    claim_and_end(scene, id, RECORD_COMPLETED);
    assert_string_equal(refusal(scene->a, sql, id), "40001");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(run(scene->a, sql, id), id); /* and now it sees that it is done */
    assert_int_equal(claim(scene, 10).count, 0);
    begin_standing_still(scene);
    assert_string_equal(run(scene->a, sql, other), other);
    (void)run(scene->a, "COMMIT");
    claim_and_end(scene, other, RECORD_COMPLETED);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_executions"), "2");
}

/* Its lane was made and closed where the resume does not see it. */
static void a_resume_opens_every_lane_or_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->b, "SELECT weir.pause_workspace('beta')"); /* of beta no lane is there yet */
    (void)run(scene->b, "DELETE FROM weir.lanes; DELETE FROM weir.lane_ids");
    begin_standing_still(scene);
    const char *id = enqueue(scene, "beta");
    assert_int_equal(claim(scene, 10).count, 0);
    assert_string_equal(run(scene->b, "SELECT ready FROM weir.lanes"), "f");
    assert_string_equal(refusal(scene->a, "SELECT weir.resume_workspace('beta')"), "40001");
    (void)run(scene->a, "ROLLBACK");
    (void)run(scene->a, "SELECT weir.resume_workspace('beta')");
    (void)claim_one(scene, id);
}

/* --- a transaction that stays open --- */

/* It has a lane; more wake-ups than a fold takes belong to that lane. */
static void a_lane_that_is_held_hides_no_other_ones_news(void **state)
{
    struct scene *scene = *state;
    const char *held = enqueue(scene, "acme");
    assert_int_equal(claim(scene, 10).count, 1);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", held);
    enqueue_often(scene, "acme", 10);
    const char *id = enqueue(scene, "beta");
    assert_string_equal(run(scene->b, "SELECT f.left_over FROM weir.freshen_lanes('0', 5) f"), "t");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.lane_wakeups"), "10");
    (void)claim_one(scene, id);
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(run(scene->b, "SELECT f.left_over FROM weir.freshen_lanes('0', 100) f"), "f");
}

/* As many items of it are due as are looked at in one go. */
static void a_lane_that_is_held_hides_no_other_ones_due_items(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    (void)run(scene->b, "SELECT weir.enqueue('acme', 'hello', run_at => '2100-01-01') FROM generate_series(1, 1001)");
    text_copy(id, sizeof id, run(scene->b, "SELECT weir.enqueue('beta', 'hello', run_at => '2100-01-01')"));
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 10000)");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel(id) FROM weir.workflow_execution_queue ORDER BY id LIMIT 1");
    (void)run(scene->b,
              "UPDATE weir.workflow_execution_queue SET due_at = CASE WHEN id = '%s' THEN 2 ELSE 1 END "
              "WHERE id <> (SELECT q.id FROM weir.workflow_execution_queue q ORDER BY q.id LIMIT 1)",
              id);
    (void)claim_one(scene, id);
    (void)run(scene->a, "ROLLBACK");
}

/* What is not folded has no place in the order; a node with little room folds all the same. */
static void a_backlog_of_one_workspace_leaves_the_others_their_turn(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "acme", 1000);
    enqueue_often(scene, "acme", 1000);
    const char *id = enqueue(scene, "beta");
    bool served = false;
    for (int turn = 0; turn < 2; turn++) {
        struct claim_result result = claim(scene, 1);
        assert_int_equal(result.count, 1);
        served = served || strcmp(result.items[0].id, id) == 0;
    }
    assert_true(served);
}

/* It has the workspace; claims go round its lanes instead of waiting for it. */
static void an_open_pause_holds_up_no_other_workspace(void **state)
{
    struct scene *scene = *state;
    const char *first = enqueue(scene, "acme");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    const char *other = enqueue(scene, "beta");
    (void)run(scene->b, "SET lock_timeout = 1000"); /* of the server: what waits fails */
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 100)");
    assert_string_equal(
        run(scene->b, "SELECT id FROM weir.claim(%lld, 'default', 10, '0', -1) ORDER BY 1", (long long)scene->node), other);
    (void)run(scene->a, "ROLLBACK");
    (void)claim_one(scene, first);
}

/* The cancel counts in the workspace, whose other lane is another group's. */
static void an_open_cancel_holds_up_no_other_group(void **state)
{
    struct scene *scene = *state;
    char held[UUID_TEXT_MAX];
    text_copy(held, sizeof held, run(scene->b, "SELECT weir.enqueue('acme', 'hello', executor_group => 'batch')"));
    const char *first = enqueue(scene, "acme");
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 100)");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", held);
    const char *other = enqueue(scene, "beta");
    (void)run(scene->b, "SET lock_timeout = 1000");
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 100)");
    assert_string_equal(
        run(scene->b, "SELECT id FROM weir.claim(%lld, 'default', 10, '0', -1) ORDER BY 1", (long long)scene->node), other);
    (void)run(scene->a, "COMMIT");
    (void)claim_one(scene, first);
}

/* --- a transaction that is prepared --- */

static void what_a_prepared_transaction_enqueues_is_found_after_its_commit(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    (void)run(scene->a, "BEGIN; SET LOCAL weir.notify = 'off'");
    text_copy(id, sizeof id, run(scene->a, "SELECT weir.enqueue('acme', 'hello')"));
    (void)run(scene->a, "PREPARE TRANSACTION 'one'");
    (void)claim_one(scene, enqueue(scene, "beta")); /* folds, and sees past it */
    (void)run(scene->b, "COMMIT PREPARED 'one'");
    (void)claim_one(scene, id);
}

/* --- who is told --- */

static bool has_notice(PGconn *connection, const char *payload)
{
    assert_int_equal(PQconsumeInput(connection), 1);
    PGnotify *notice = PQnotifies(connection);
    bool is_it = notice != NULL && strcmp(notice->extra, payload) == 0;
    PQfreemem(notice);
    return is_it;
}

static void what_a_node_gives_back_is_told(void **state)
{
    struct scene *scene = *state;
    (void)claim_one(scene, enqueue(scene, "acme"));
    (void)run(scene->a, "LISTEN weir");
    ok(store_node_stop(scene->store, scene->node, true, &scene->error));
    (void)run(scene->a, "SELECT 1"); /* the notice comes before its answer */
    assert_true(has_notice(scene->a, "default"));
}

/* Ends the only one that runs and says whether the group was told of the slot. */
static bool an_end_is_told(struct scene *scene, const char *group, const struct claimed_item *item)
{
    (void)run(scene->a, "LISTEN weir");
    assert_int_equal(record(scene, RECORD_COMPLETED, item), WEIR_OK);
    (void)run(scene->a, "SELECT 1"); /* notices come before its answer */
    bool is_told = has_notice(scene->a, group);
    (void)run(scene->a, "UNLISTEN *");
    return is_told;
}

static void a_free_slot_is_told_to_other_groups_that_wait_for_it(void **state)
{
    struct scene *scene = *state;
    (void)enqueue(scene, "acme");
    (void)run(scene->b, "SELECT weir.enqueue('acme', 'hello', executor_group => 'batch')");
    (void)enqueue(scene, "beta");
    (void)enqueue(scene, "beta");
    (void)run(scene->b, "SELECT weir.freshen_lanes('0', 100)");
    struct claim_result result = claim(scene, 10);
    assert_int_equal(result.count, 2);
    for (size_t i = 0; i < 2; i++) { /* of beta nobody else waits */
        bool is_acme = strcmp(result.items[i].workspace, "acme") == 0;
        assert_int_equal(an_end_is_told(scene, "batch", &result.items[i]), is_acme);
    }
}

/* It may be the one that ended the execution: it takes no other. */
static void a_free_slot_is_told_to_other_nodes_while_one_stands_aside(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 3; i++) {
        (void)enqueue(scene, "acme");
    }
    struct claim_result result = claim(scene, 1);
    assert_false(an_end_is_told(scene, "default", &result.items[0]));
    result = claim(scene, 1);
    assert_int_equal(result.count, 1);
    (void)run(scene->b, "UPDATE weir.nodes SET aside = 'paused' WHERE id = %lld", (long long)scene->node);
    assert_true(an_end_is_told(scene, "default", &result.items[0]));
}

/* --- two at once --- */

/* The id is another workspace's, which is not to be seen when the key goes in. */
static void a_key_whose_id_is_refused_stays_free(void **state)
{
    struct scene *scene = *state;
    const char *id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79";
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.enqueue('beta', 'hello', execution_id => '%s')", id);
    run_into(scene->b,
             "SELECT e.status FROM weir.try_enqueue('acme', 'hello', idempotency_key => 'k', execution_id => '%s') e", id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "conflict");
    assert_string_equal(
        run(scene->b, "SELECT e.duplicate FROM weir.try_enqueue('acme', 'hello', idempotency_key => 'k') e"), "f");
    assert_int_equal(claim(scene, 10).count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_lane_is_not_made_twice),
        SCENE_TEST(what_was_retried_unseen_is_not_retried_again),
        SCENE_TEST(an_id_that_ended_unseen_is_not_enqueued_again),
        SCENE_TEST(a_resume_opens_every_lane_or_is_refused),
        SCENE_TEST(a_lane_that_is_held_hides_no_other_ones_news),
        SCENE_TEST(a_lane_that_is_held_hides_no_other_ones_due_items),
        SCENE_TEST(a_backlog_of_one_workspace_leaves_the_others_their_turn),
        SCENE_TEST(an_open_pause_holds_up_no_other_workspace),
        SCENE_TEST(an_open_cancel_holds_up_no_other_group),
        SCENE_TEST(what_a_prepared_transaction_enqueues_is_found_after_its_commit),
        SCENE_TEST(what_a_node_gives_back_is_told),
        SCENE_TEST(a_free_slot_is_told_to_other_groups_that_wait_for_it),
        SCENE_TEST(a_free_slot_is_told_to_other_nodes_while_one_stands_aside),
        SCENE_TEST(a_key_whose_id_is_refused_stays_free),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
