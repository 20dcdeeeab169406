/* What a caller's own transaction may do to others: one that stands at an old snapshot, one that stays open, one that is
 * prepared. Each order is forced: the caller's transaction is held open by hand. And who is told of what. */
#include <stdio.h>

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

/* The group is made where the resume does not see it, and its lane is closed because of the pause. */
static void a_resume_opens_the_lanes_of_groups_that_it_sees_or_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->b, "SELECT weir.pause_workspace('beta')");
    begin_standing_still(scene);
    int64_t node = add_node(scene, "node-2", "batch");
    const char *id = enqueue_for(scene, "beta", "batch");
    assert_int_equal(claim_as(scene, node, "batch", 10).count, 0);
    assert_string_equal(run(scene->b, "SELECT bool_or(ready) FROM weir.lanes WHERE executor_group = 'batch'"), "f");
    assert_string_equal(refusal(scene->a, "SELECT weir.resume_workspace('beta')"), "40001");
    (void)run(scene->a, "ROLLBACK");
    begin_standing_still(scene);
    (void)run(scene->a, "SELECT weir.resume_workspace('beta')");
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.executor_groups"), "2");
    struct claim_result result = claim_as(scene, node, "batch", 10);
    assert_int_equal(result.count, 1);
    assert_string_equal(result.items[0].id, id);
}

/* The slot is given back where the release does not see it. */
static void what_is_released_finds_room_that_its_transaction_does_not_see(void **state)
{
    struct scene *scene = *state;
    struct claimed_item first = claim_one(scene, enqueue(scene, "acme"));
    char later[UUID_TEXT_MAX];
    text_copy(later, sizeof later, run(scene->b, "SELECT weir.enqueue('acme', 'hello', run_at => now() + '1 hour')"));
    assert_int_equal(claim(scene, 10).count, 0); /* its lane has it */
    begin_standing_still(scene);
    assert_int_equal(record(scene, RECORD_COMPLETED, &first), WEIR_OK);
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "SELECT weir.release('%s')", later);
    (void)run(scene->a, "COMMIT");
    (void)claim_one(scene, later);
}

/* --- one request --- */

/* What it says in a transaction that stands still, beside one that has enqueued the same meanwhile. */
static void one_request_takes_the_short_way_and_says_what_the_long_one_says(void **state)
{
    struct scene *scene = *state;
    static const char *const calls_sql = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions "
                                         "WHERE funcname = 'enqueue_set'";
    static const char *const keyed_sql = "SELECT weir.enqueue('acme', 'hello', idempotency_key => 'k')";
    static const char *const grouped_sql = "SELECT weir.enqueue('acme', 'hello', executor_group => 'batch')";
    char first[UUID_TEXT_MAX];
    (void)run(scene->a, "SET track_functions = 'all'");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "%s", keyed_sql);
    (void)run(scene->a, "SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', run_at => '2100-01-01')");
    assert_string_equal(run(scene->a, "%s", calls_sql), "0");
    (void)run(scene->a, "ROLLBACK");
    begin_standing_still(scene);
    text_copy(first, sizeof first, run(scene->b, "%s", keyed_sql));
    assert_string_equal(refusal(scene->a, "%s", keyed_sql), "40001");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(run(scene->a, "%s", keyed_sql), first);
    assert_string_equal(refusal(scene->a, "SELECT weir.enqueue('acme', 'hello', '{\"b\": 1}', 'k')"), "WR012");
    begin_standing_still(scene);
    (void)run(scene->b, "%s", grouped_sql);
    assert_string_equal(refusal(scene->a, "%s", grouped_sql), "40001");
    (void)run(scene->a, "ROLLBACK");
    begin_standing_still(scene);
    (void)run(scene->a, "%s", grouped_sql);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue"), "3");
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

/* --- records --- */

/* Runs one of acme and one of beta, with another of acme behind; items[0] is acme's. */
static const char *run_two(struct scene *scene, struct claimed_item items[2])
{
    (void)enqueue(scene, "acme");
    (void)enqueue(scene, "beta");
    const char *waiting = enqueue(scene, "acme");
    struct claim_result result = claim(scene, 10);
    assert_int_equal(result.count, 2);
    size_t acmes = strcmp(result.items[0].workspace, "acme") == 0 ? 0 : 1;
    items[0] = result.items[acmes];
    items[1] = result.items[1 - acmes];
    return waiting;
}

static struct record_summary record_set(struct scene *scene, struct record *records, size_t count)
{
    struct record_summary summary = {0};
    ok(store_record(scene->store, scene->node, records, count, &summary, &scene->error));
    return summary;
}

/* In sets of both workspaces; twice, because the second set does not wait first. */
static void an_open_act_holds_up_no_other_workspaces_ends(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    const char *waiting = run_two(scene, items);
    const char *next = enqueue(scene, "beta");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", waiting);
    struct record ends[2] = {record_of(RECORD_COMPLETED, &items[0]), record_of(RECORD_COMPLETED, &items[1])};
    struct record_summary summary = record_set(scene, ends, 2);
    assert_int_equal(ends[0].status, WEIR_STORE_BUSY);
    assert_int_equal(ends[1].status, WEIR_OK);
    assert_int_equal(summary.changed, 1);
    assert_int_equal(summary.slots_freed, 1);
    items[1] = claim_one(scene, next);
    ends[1] = record_of(RECORD_COMPLETED, &items[1]);
    (void)record_set(scene, ends, 2);
    assert_int_equal(ends[0].status, WEIR_STORE_BUSY);
    assert_int_equal(ends[1].status, WEIR_OK);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(record(scene, RECORD_COMPLETED, &items[0]), WEIR_OK);
    assert_string_equal(run(scene->b, "SELECT sum(slots_used) FROM weir.workspaces"), "0");
}

/* The pause has the workspace and not its items: only what gives a slot back waits for it. */
static void what_runs_in_a_workspace_that_is_held_goes_on(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    (void)run_two(scene, items);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    assert_int_equal(record(scene, RECORD_COMPLETED, &items[0]), WEIR_STORE_BUSY);
    struct record words[2] = {record_of(RECORD_DISPATCHED, &items[0]), record_of(RECORD_STEP, &items[0])};
    words[1].step = &step;
    (void)record_set(scene, words, 2);
    assert_int_equal(words[0].status, WEIR_OK);
    assert_int_equal(words[1].status, WEIR_OK);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(record(scene, RECORD_COMPLETED, &items[0]), WEIR_OK);
}

/* All records of an item are left out together, also those that need not wait and those of a later round. */
static void records_of_a_held_item_keep_their_order(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    (void)run_two(scene, items);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", items[0].id); /* passed on to its engine */
    struct record words[4] = {record_of(RECORD_STEP, &items[0]), record_of(RECORD_DISPATCHED, &items[0]),
                              record_of(RECORD_CANCELLED, &items[0]), record_of(RECORD_COMPLETED, &items[1])};
    words[0].step = &step;
    struct record_summary summary = record_set(scene, words, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(words[i].status, WEIR_STORE_BUSY);
    }
    assert_int_equal(words[3].status, WEIR_OK);
    assert_int_equal(summary.changed, 1);
    (void)run(scene->a, "COMMIT");
    summary = record_set(scene, words, 3);
    assert_int_equal(summary.changed, 3);
    assert_string_equal(run(scene->b, "SELECT status FROM weir.workflow_executions WHERE status <> 'COMPLETED'"),
                        "CANCELLED");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_node_executions"), "1");
}

/* What its node's death makes poison gives its slot back, and waits for the caller with it; nothing else does. */
static void an_open_pause_holds_up_no_other_workspaces_recovery(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct recover_options options = {.handovers_max = 1, .limit = RECOVER_BATCH};
    struct recover_result result = {0};
    (void)run_two(scene, items);
    struct record begun = record_of(RECORD_STEP, &items[0]);
    begun.step = &step;
    (void)record_set(scene, &begun, 1);
    assert_int_equal(begun.status, WEIR_OK);
    end_lease(scene);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    ok(store_recover(scene->store, &options, &result, &scene->error));
    assert_int_equal(result.handed_over, 1);
    assert_int_equal(result.poisoned, 0);
    assert_true(result.more);
    (void)run(scene->a, "COMMIT");
    ok(store_recover(scene->store, &options, &result, &scene->error));
    assert_int_equal(result.handed_over, 0);
    assert_int_equal(result.poisoned, 1);
    assert_false(result.more);
}

/* Until what was sent waits for a lock, or has its answer: it may have waited long enough by the time that we look. */
static void await_wait_or_answer(PGconn *connection)
{
    char sql[SQL_SIZE];
    (void)snprintf(sql, sizeof sql, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %d",
                   PQbackendPID(connection));
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (strcmp(postgres_server_ask(&server, "postgres", sql), "t") != 0 && PQisBusy(connection) == 1) {
        assert_true(clock_boot(clock_system()) < end_us);
        assert_int_equal(PQconsumeInput(connection), 1);
    }
}

/* The set takes the later item first, because it is only dispatched; the cancel goes by the ids. It is the set that gives
 * way, before the server looks for those who wait for each other. */
static void a_cancel_of_many_never_fails_for_a_set_of_records(void **state)
{
    struct scene *scene = *state;
    char low[UUID_TEXT_MAX];
    char high[UUID_TEXT_MAX];
    struct claimed_item items[2];
    (void)run_two(scene, items);
    text_copy(low, sizeof low, run(scene->a, "SELECT min(id::text) FROM weir.workflow_execution_queue WHERE phase = 2"));
    text_copy(high, sizeof high, run(scene->a, "SELECT max(id::text) FROM weir.workflow_execution_queue WHERE phase = 2"));
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", low);
    char set[SQL_SIZE];
    (void)snprintf(set, sizeof set,
                   "SELECT weir.record(%lld, ARRAY['%s'::uuid, '%s'], ARRAY[%lld, %lld], ARRAY[6, 0], ARRAY[0, 0], "
                   "ARRAY[false, false], ARRAY[NULL, NULL], ARRAY[NULL, NULL], '{}', '{}', '{}', '{}', '{}', '{}', '{}', "
                   "'{}', '{}', '{}', '{}', '{}')",
                   (long long)scene->node, low, high, (long long)items[0].fence, (long long)items[1].fence);
    assert_int_equal(PQsendQuery(scene->b, set), 1);
    await_wait_or_answer(scene->b);
    (void)run(scene->a, "SELECT weir.cancel('%s')", high);
    (void)run(scene->a, "COMMIT");
    PGresult *result = PQgetResult(scene->b);
    assert_int_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
    assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "55P03");
    PQclear(result);
    assert_null(PQgetResult(scene->b));
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

/* --- why --- */

static void why_in_sql_names_who_has_the_lock_of_exclusive_dispatch(void **state)
{
    struct scene *scene = *state;
    char why[SQL_SIZE];
    struct lock_request lock = {.name = "processExecutionQueue", .holder = "riven", .at_most_us = LEASE_US};
    (void)snprintf(why, sizeof why, "SELECT w ->> 'pending_reason', w ->> 'lock_holder' FROM weir.why('%s') w",
                   enqueue(scene, "acme"));
    assert_string_equal(run(scene->a, "SELECT w.h FROM (%s) w (r, h)", why), "");
    ok(store_lock(scene->store, &lock, &scene->error));
    assert_string_equal(run(scene->a, "SELECT w.r FROM (%s) w (r, h)", why), "ready");
    assert_string_equal(run(scene->a, "SELECT w.h FROM (%s) w (r, h)", why), "riven");
    (void)run(scene->a, "ALTER TABLE weir.shedlock RENAME TO gone"); /* it may be anybody's */
    assert_string_equal(run(scene->a, "SELECT w.h FROM (%s) w (r, h)", why), "");
    (void)run(scene->a, "ALTER TABLE weir.gone RENAME TO shedlock");
}

/* But for the times that pass between the two questions. */
static void leave_out_durations(json_t *why)
{
    size_t i;
    json_t *holder;
    assert_true(json_is_integer(json_object_get(why, "waiting_us")));
    (void)json_object_del(why, "waiting_us");
    json_array_foreach(json_object_get(why, "slot_holders"), i, holder)
    {
        assert_true(json_is_integer(json_object_get(holder, "running_us")));
        (void)json_object_del(holder, "running_us");
    }
}

static void assert_same_why(struct scene *scene, const char *id, const char *status)
{
    json_t *by_library = NULL;
    json_t *by_sql = NULL;
    PGresult *result = NULL;
    char sql[SQL_SIZE];
    ok(store_why(scene->store, id, &by_library, &scene->error));
    assert_string_equal(json_string_value(json_object_get(by_library, "status")), status);
    (void)snprintf(sql, sizeof sql, "SELECT weir.why('%s')", id);
    result = PQexec(scene->a, sql); /* longer than what run() answers */
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    by_sql = json_loads(PQgetvalue(result, 0, 0), 0, NULL);
    PQclear(result);
    leave_out_durations(by_library);
    leave_out_durations(by_sql);
    if (!json_equal(by_library, by_sql)) {
        fail_msg("%s: %s\n%s", status, json_dumps(by_library, JSON_SORT_KEYS), json_dumps(by_sql, JSON_SORT_KEYS));
    }
    json_decref(by_library);
    json_decref(by_sql);
}

static void why_in_sql_says_what_the_library_says(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue(scene, "acme");
    assert_same_why(scene, id, "PENDING");
    struct claimed_item item = claim_one(scene, id);
    struct record retry = record_of(RECORD_RETRY, &item);
    struct record_summary summary;
    const char *waits = enqueue(scene, "acme");
    assert_same_why(scene, waits, "PENDING"); /* its workspace is full */
    retry.delay_us = 3600 * MICROSECONDS_PER_SECOND;
    ok(store_record(scene->store, scene->node, &retry, 1, &summary, &scene->error));
    assert_same_why(scene, id, "PENDING"); /* with a due time, which stays until its next start */
    item = claim_one(scene, waits);
    assert_int_equal(record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    (void)run(scene->a, "SELECT weir.release('%s')", id);
    item = claim_one(scene, id);
    assert_same_why(scene, id, "CLAIMED");
    assert_int_equal(record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_same_why(scene, id, "DISPATCHED");
    assert_int_equal(record(scene, RECORD_GIVEN_BACK, &item), WEIR_OK);
    assert_same_why(scene, id, "CLAIMED"); /* handed over */
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
        SCENE_TEST(a_resume_opens_the_lanes_of_groups_that_it_sees_or_is_refused),
        SCENE_TEST(what_is_released_finds_room_that_its_transaction_does_not_see),
        SCENE_TEST(one_request_takes_the_short_way_and_says_what_the_long_one_says),
        SCENE_TEST(a_lane_that_is_held_hides_no_other_ones_news),
        SCENE_TEST(a_lane_that_is_held_hides_no_other_ones_due_items),
        SCENE_TEST(a_backlog_of_one_workspace_leaves_the_others_their_turn),
        SCENE_TEST(an_open_pause_holds_up_no_other_workspace),
        SCENE_TEST(an_open_cancel_holds_up_no_other_group),
        SCENE_TEST(an_open_act_holds_up_no_other_workspaces_ends),
        SCENE_TEST(what_runs_in_a_workspace_that_is_held_goes_on),
        SCENE_TEST(records_of_a_held_item_keep_their_order),
        SCENE_TEST(an_open_pause_holds_up_no_other_workspaces_recovery),
        SCENE_TEST(a_cancel_of_many_never_fails_for_a_set_of_records),
        SCENE_TEST(what_a_prepared_transaction_enqueues_is_found_after_its_commit),
        SCENE_TEST(what_a_node_gives_back_is_told),
        SCENE_TEST(a_free_slot_is_told_to_other_groups_that_wait_for_it),
        SCENE_TEST(a_free_slot_is_told_to_other_nodes_while_one_stands_aside),
        SCENE_TEST(why_in_sql_names_who_has_the_lock_of_exclusive_dispatch),
        SCENE_TEST(why_in_sql_says_what_the_library_says),
        SCENE_TEST(a_key_whose_id_is_refused_stays_free),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
