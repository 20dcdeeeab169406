/* The effects of a caller's own transaction on other sessions: one that stands at an old snapshot, one that stays open, one
 * that is prepared. Each order is forced: the caller's transaction is held open by hand. And which notices are sent. */
#include <stdio.h>

#include "unit/store/postgres/scene.h"

/* Begins a transaction with a snapshot of now: it sees nothing that is committed later. */
static void begin_standing_still(struct scene *scene)
{
    (void)run(scene->a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    (void)run(scene->a, "SELECT count(*) FROM weir.workspaces");
}

static const char *enqueue(struct scene *scene, const char *workspace)
{
    return enqueue_for(scene, workspace, NULL);
}

/* Each with news of its own. */
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

/* --- transactions with a fixed snapshot --- */

static void an_execution_that_was_retried_unseen_is_not_retried_again(void **state)
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
    begin_standing_still(scene); /* it may retry every execution that it sees */
    text_copy(second, sizeof second, run(scene->a, "SELECT weir.retry('%s')", second));
    (void)run(scene->a, "COMMIT");
    claim_and_end(scene, second, RECORD_COMPLETED);
}

static void an_id_that_ended_unseen_is_not_enqueued_again(void **state)
{
    struct scene *scene = *state;
    const char *id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79";
    const char *other = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a80";
    static const char sql[] = "SELECT weir.enqueue('acme', 'hello', execution_id => '%s')";
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

static void make_group(struct scene *scene)
{
    (void)run(scene->b, "INSERT INTO weir.executor_groups (name) VALUES ('batch')");
}

/* The items, and even the group of one, were made where the resume does not see them. */
static void a_resume_starts_items_that_its_transaction_does_not_see(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->b, "SELECT weir.pause_workspace('beta')");
    begin_standing_still(scene);
    int64_t node = add_node(scene, "node-2", "batch");
    const char *first = enqueue(scene, "beta");
    const char *second = enqueue_for(scene, "beta", "batch");
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "SELECT weir.resume_workspace('beta')");
    assert_int_equal(claim(scene, 10).count, 0); /* it is not committed yet */
    (void)run(scene->a, "COMMIT");
    claim_and_end(scene, first, RECORD_COMPLETED);
    struct claim_result result = claim_as(scene, node, "batch", 10);
    assert_int_equal(result.count, 1);
    assert_string_equal(result.items[0].id, second);
}

/* The slot is given back where the release does not see it. */
static void a_released_item_gets_a_slot_that_its_transaction_does_not_see(void **state)
{
    struct scene *scene = *state;
    struct claimed_item first = claim_one(scene, enqueue(scene, "acme"));
    char later[UUID_TEXT_MAX];
    text_copy(later, sizeof later, run(scene->b, "SELECT weir.enqueue('acme', 'hello', run_at => now() + '1 hour')"));
    assert_int_equal(claim(scene, 10).count, 0);
    begin_standing_still(scene);
    assert_int_equal(record(scene, RECORD_COMPLETED, &first), WEIR_OK);
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "SELECT weir.release('%s')", later);
    (void)run(scene->a, "COMMIT");
    (void)claim_one(scene, later);
}

/* Its snapshot lacks the set that was committed meanwhile, so both of them would fill the same places. */
static void a_large_set_counts_no_places_that_its_transaction_does_not_see(void **state)
{
    struct scene *scene = *state;
    static const char set_sql[] =
        "SELECT count(*) FROM weir.enqueue_many((SELECT jsonb_agg(jsonb_build_object('workspace', 'acme', 'workflow', "
        "'hello')) FROM generate_series(1, 20))) e WHERE e.code = 'ok'";
    struct workspace_change change = {.name = "acme", .max_pending = 40, .paused = -1};
    ok(store_set_workspace(scene->store, &change, &scene->error));
    assert_string_equal(run(scene->b, set_sql), "20"); /* makes the row that large sets lock */
    begin_standing_still(scene);
    assert_string_equal(run(scene->b, set_sql), "20");
    assert_string_equal(refusal(scene->a, set_sql), "40001");
    (void)run(scene->a, "ROLLBACK");
    assert_string_equal(run(scene->a, set_sql), "0");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue"), "40");
}

/* The program of one tenant keeps the transaction of a large set open. A duty has the events of all workspaces in one set.
 */
static void a_large_set_that_waits_in_vain_is_refused_alone(void **state)
{
    enum { LARGE = 20 };
    struct scene *scene = *state;
    struct enqueue_request requests[LARGE + 1];
    struct enqueue_result results[LARGE + 1];
    struct workspace_change change = {.name = "acme", .max_pending = 1000, .paused = -1};
    ok(store_set_workspace(scene->store, &change, &scene->error));
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a,
                            "SELECT count(*) FROM weir.enqueue_many((SELECT jsonb_agg(jsonb_build_object('workspace', "
                            "'acme', 'workflow', 'hello')) FROM generate_series(1, %d))) e WHERE e.code = 'ok'",
                            LARGE),
                        "20");
    for (size_t i = 0; i <= LARGE; i++) {
        requests[i] = (struct enqueue_request){.workspace = i < LARGE ? "acme" : "beta", .workflow = "hello"};
    }
    store_limit_enqueue_wait(scene->store, MICROSECONDS_PER_SECOND / 10);
    ok(store_enqueue(scene->store, requests, LARGE + 1, results, &scene->error));
    assert_int_equal(results[0].status, WEIR_QUEUE_FULL);
    assert_int_equal(results[LARGE].status, WEIR_OK);
    (void)run(scene->a, "COMMIT");
    ok(store_enqueue(scene->store, requests, LARGE, results, &scene->error));
    assert_int_equal(results[0].status, WEIR_OK);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.executions"), "41");
}

/* Without the limit this act would wait for most of an hour. */
static void an_act_waits_a_short_time_for_an_item_that_a_program_holds(void **state)
{
    struct scene *scene = *state;
    char url[256];
    struct store *store = NULL;
    struct bulk_result result = {0};
    char id[UUID_TEXT_MAX];
    text_copy(id, sizeof id, enqueue_for(scene, "acme", NULL));
    struct execution_filter filter = {.id = id};
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .deadline_us = 3600 * MICROSECONDS_PER_SECOND};
    struct store *first = NULL;
    ok(store_open(&options, &first, &scene->error));
    ok(store_open_again(first, &store, &scene->error));
    store_limit_lock_wait(store, MICROSECONDS_PER_SECOND / 10);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", id);
    static const enum bulk_act acts[] = {BULK_CANCEL, BULK_RELEASE, BULK_WAKE};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        assert_int_equal(store_bulk(store, acts[i], &filter, "", 1, &result, &scene->error), WEIR_STORE_BUSY);
    }
    (void)run(scene->a, "ROLLBACK");
    ok(store_bulk(store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    store_close(store);
    store_close(first);
}

static void an_id_of_a_time_to_come_is_refused_in_sql(void **state)
{
    struct scene *scene = *state;
    static const char late[] = "ffffffff-ffff-7000-8000-000000000001";
    assert_string_equal(refusal(scene->a, "SELECT weir.enqueue('acme', 'hello', execution_id => '%s')", late), "WR002");
    assert_string_equal(run(scene->a,
                            "SELECT code FROM weir.enqueue_many('[{\"workspace\": \"acme\", \"workflow\": \"hello\", "
                            "\"execution_id\": \"%s\"}]')",
                            late),
                        "invalid_argument");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.executions"), "0");
}

/* --- one request --- */

/* The answer in a transaction with a fixed snapshot, when another one has enqueued the same request meanwhile. */
static void one_request_takes_the_short_way_and_answers_as_the_long_one(void **state)
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
    make_group(scene);
    assert_string_equal(refusal(scene->a, "%s", grouped_sql), "WR007"); /* its snapshot is older than the group */
    (void)run(scene->a, "ROLLBACK");
    begin_standing_still(scene);
    (void)run(scene->a, "%s", grouped_sql);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue"), "2");
}

/* --- a transaction that stays open --- */

static void held_items_hide_no_runnable_items(void **state)
{
    struct scene *scene = *state;
    const char *held = enqueue(scene, "acme");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", held);
    enqueue_often(scene, "acme", 10);
    (void)enqueue(scene, "beta");
    struct claim_result result = claim(scene, 10);
    assert_int_equal(result.count, 2); /* one slot each */
    for (size_t i = 0; i < 2; i++) {
        assert_string_not_equal(result.items[i].id, held);
    }
    (void)run(scene->a, "ROLLBACK");
}

/* More of them are due than one round makes runnable. */
static void held_items_that_were_due_hide_no_due_items(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    (void)run(scene->b, "SELECT weir.enqueue('acme', 'hello', run_at => '2100-01-01') FROM generate_series(1, 1001)");
    text_copy(id, sizeof id, run(scene->b, "SELECT weir.enqueue('beta', 'hello', run_at => '2100-01-01')"));
    (void)run(scene->b, "UPDATE weir.workflow_execution_queue SET due_at = CASE WHEN id = '%s' THEN 2 ELSE 1 END", id);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel(id) FROM weir.workflow_execution_queue WHERE id <> '%s'", id);
    (void)claim_one(scene, id);
    (void)run(scene->a, "ROLLBACK");
}

/* It counts from its commit on, and holds up nothing before. */
static void an_open_pause_holds_up_nothing(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    struct claimed_item first = claim_one(scene, enqueue(scene, "acme"));
    assert_int_equal(record(scene, RECORD_COMPLETED, &first), WEIR_OK);
    (void)claim_one(scene, enqueue(scene, "beta"));
    const char *second = enqueue(scene, "acme");
    (void)run(scene->a, "COMMIT");
    assert_int_equal(claim(scene, 10).count, 0);
    (void)run(scene->a, "SELECT weir.resume_workspace('acme')");
    (void)claim_one(scene, second);
}

static void an_open_deletion_of_a_workspace_holds_up_no_other(void **state)
{
    struct scene *scene = *state;
    (void)enqueue(scene, "acme");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "SELECT weir.delete_workspace('acme', true, true)"), "1");
    claim_and_end(scene, enqueue(scene, "beta"), RECORD_COMPLETED);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workspaces WHERE name = 'acme'"), "0");
    claim_and_end(scene, enqueue(scene, "beta"), RECORD_COMPLETED);
}

/* The library deletes many waiting executions in several transactions. Only the first of them stops the rounds. */
static void the_deletion_of_a_paused_workspace_holds_up_no_other(void **state)
{
    struct scene *scene = *state;
    static const char *const step_sql =
        "SELECT status, failed, more FROM weir.remove_workspace('acme', true, 1, 'ann', NULL, true)";
    enqueue_often(scene, "acme", 3);
    assert_string_equal(run(scene->b, "%s", step_sql), "ok");
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "%s", step_sql), "ok");
    claim_and_end(scene, enqueue(scene, "beta"), RECORD_COMPLETED);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->b, "%s", step_sql), "ok");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workspaces WHERE name = 'acme'"), "0");
}

/* The execution was enqueued and assigned after the deletion had counted. */
static void a_workspace_with_an_execution_that_was_assigned_meanwhile_is_not_deleted(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "SELECT weir.delete_workspace('acme', true)"), "0");
    struct claimed_item item = claim_one(scene, enqueue(scene, "acme"));
    assert_string_equal(refusal(scene->a, "COMMIT"), "40001");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workspaces WHERE name = 'acme'"), "1");
    assert_string_equal(refusal(scene->a, "SELECT weir.delete_workspace('acme', true)"), "WR014");
    assert_int_equal(record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    assert_string_equal(run(scene->a, "SELECT weir.delete_workspace('acme')"), "0");
}

/* The same, and it has run and waits now: no round would find it before it is due. */
static void a_workspace_with_an_execution_that_was_parked_meanwhile_is_not_deleted(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "SELECT weir.delete_workspace('acme', true)"), "0");
    struct claimed_item item = claim_one(scene, enqueue(scene, "acme"));
    assert_int_equal(record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(record(scene, RECORD_PARKED, &item), WEIR_OK);
    assert_string_equal(refusal(scene->a, "COMMIT"), "40001");
    assert_string_equal(run(scene->a, "SELECT weir.delete_workspace('acme', true)"), "1");
    assert_string_equal(run(scene->a, "SELECT status FROM weir.executions WHERE id = '%s'", item.id), "FAILED");
}

static void an_open_cancel_holds_up_no_other_item_of_its_workspace(void **state)
{
    struct scene *scene = *state;
    char held[UUID_TEXT_MAX];
    make_group(scene);
    text_copy(held, sizeof held, run(scene->b, "SELECT weir.enqueue('acme', 'hello', executor_group => 'batch')"));
    const char *first = enqueue(scene, "acme");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", held);
    (void)claim_one(scene, first);
    (void)run(scene->a, "COMMIT");
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

static void an_open_act_on_a_pending_item_holds_up_no_ends(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    const char *waiting = run_two(scene, items);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.cancel('%s')", waiting);
    struct record ends[2] = {record_of(RECORD_COMPLETED, &items[0]), record_of(RECORD_COMPLETED, &items[1])};
    struct record_summary summary = record_set(scene, ends, 2);
    assert_int_equal(ends[0].status, WEIR_OK);
    assert_int_equal(ends[1].status, WEIR_OK);
    assert_int_equal(summary.changed, 2);
    assert_int_equal(summary.slots_freed, 2);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_execution_queue"), "0");
}

static void items_that_run_in_a_paused_workspace_end(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    (void)run_two(scene, items);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    struct record words[3] = {record_of(RECORD_DISPATCHED, &items[0]), record_of(RECORD_STEP, &items[0]),
                              record_of(RECORD_COMPLETED, &items[0])};
    words[1].step = &step;
    (void)record_set(scene, words, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(words[i].status, WEIR_OK);
    }
    (void)run(scene->a, "COMMIT");
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

static void an_open_pause_holds_up_no_recovery(void **state)
{
    struct scene *scene = *state;
    struct claimed_item items[2];
    struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct recover_options options = {.limit = RECOVER_BATCH};
    struct recover_result result = {0};
    (void)run_two(scene, items);
    struct record records[2] = {record_of(RECORD_STEP, &items[0]), record_of(RECORD_COMPLETED, &items[1])};
    records[0].step = &step;
    (void)record_set(scene, records, 2);
    assert_int_equal(records[0].status, WEIR_OK);
    assert_int_equal(records[1].status, WEIR_OK);
    (void)run(scene->b, "UPDATE weir.workflow_execution_queue SET handovers_counted = 4"); /* the next death is the last */
    end_lease(scene);
    name_silent(scene, &options);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    ok(store_recover(scene->store, &options, &result, &scene->error));
    assert_int_equal(result.handed_over, 0);
    assert_int_equal(result.poisoned, 1);
    assert_false(result.more);
    (void)run(scene->a, "COMMIT");
}

/* Until the statement waits for a lock or has its answer: its wait may be over before the test reads it. */
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
 * way, before the server searches for a deadlock. */
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
    (void)snprintf(
        set, sizeof set,
        "SELECT weir.record(%lld, ARRAY['%s'::uuid, '%s'], ARRAY[%lld, %lld], ARRAY[6, 0], ARRAY[0, 0], "
        "ARRAY[-1, -1], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', "
        "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
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

static void an_item_of_a_prepared_transaction_is_found_after_its_commit(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    (void)run(scene->a, "BEGIN; SET LOCAL weir.notify = 'off'");
    text_copy(id, sizeof id, run(scene->a, "SELECT weir.enqueue('acme', 'hello')"));
    (void)run(scene->a, "PREPARE TRANSACTION 'one'");
    (void)claim_one(scene, enqueue(scene, "beta")); /* is not held up by it */
    (void)run(scene->b, "COMMIT PREPARED 'one'");
    (void)claim_one(scene, id);
}

/* --- wake-ups --- */

static bool has_notice(PGconn *connection, const char *payload)
{
    assert_int_equal(PQconsumeInput(connection), 1);
    PGnotify *notice = PQnotifies(connection);
    bool is_it = notice != NULL && strcmp(notice->extra, payload) == 0;
    PQfreemem(notice);
    return is_it;
}

static void a_give_back_wakes_the_scheduler(void **state)
{
    struct scene *scene = *state;
    (void)claim_one(scene, enqueue(scene, "acme"));
    (void)run(scene->a, "LISTEN weir");
    ok(store_node_stop(scene->store, scene->node, true, &scene->error));
    (void)run(scene->a, "SELECT 1"); /* the notice comes before its answer */
    assert_true(has_notice(scene->a, "news"));
}

/* The node that schedules learns of its own ends by itself. */
static void an_end_wakes_the_scheduler_of_another_node(void **state)
{
    struct scene *scene = *state;
    int64_t epoch = 0;
    int64_t other = add_node(scene, "node-2", "default");
    for (int is_other = 0; is_other < 2; is_other++) {
        struct claimed_item item = claim_one(scene, enqueue(scene, "acme"));
        ok(take_role(scene->store, is_other == 1 ? other : scene->node, &epoch, &scene->error));
        (void)run(scene->a, "LISTEN weir");
        assert_int_equal(record(scene, RECORD_COMPLETED, &item), WEIR_OK);
        (void)run(scene->a, "SELECT 1"); /* notices come before its answer */
        assert_int_equal(has_notice(scene->a, "news"), is_other);
        (void)run(scene->a, "UNLISTEN *");
    }
}

static void an_assignment_and_a_cancel_wake_the_node(void **state)
{
    struct scene *scene = *state;
    char notice[32];
    int64_t epoch = 0;
    int64_t other = add_node(scene, "node-2", "default");
    const char *id = enqueue(scene, "acme");
    (void)snprintf(notice, sizeof notice, "node:%lld", (long long)other);
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    (void)run(scene->a, "LISTEN weir");
    (void)run(scene->b, ASSIGN_SQL, (long long)scene->node, (long long)epoch, id, (long long)other);
    (void)run(scene->a, "SELECT 1");
    assert_true(has_notice(scene->a, notice));
    (void)run(scene->b, "SELECT weir.cancel('%s')", id);
    (void)run(scene->a, "SELECT 1");
    assert_true(has_notice(scene->a, notice));
}

/* --- why --- */

static void why_in_sql_names_the_holder_of_the_lock_of_exclusive_dispatch(void **state)
{
    struct scene *scene = *state;
    char why[SQL_SIZE];
    struct lock_request lock = {.name = "processExecutionQueue", .holder = "riven", .at_most_us = LEASE_US};
    int64_t epoch = 0;
    (void)run(scene->a, "UPDATE weir.nodes SET handlers = (SELECT d.handlers FROM weir.workflow_definitions d LIMIT 1)");
    (void)snprintf(why, sizeof why, "SELECT w ->> 'pending_reason', w ->> 'lock_holder' FROM weir.why('%s') w",
                   enqueue(scene, "acme"));
    assert_string_equal(run(scene->a, "SELECT w.h FROM (%s) w (r, h)", why), "");
    ok(store_lock(scene->store, &lock, &scene->error));
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        assert_string_equal(run(scene->a, "SELECT w.r FROM (%s) w (r, h)", why), scheduled == 1 ? "ready" : "no_scheduler");
        assert_string_equal(run(scene->a, "SELECT w.h FROM (%s) w (r, h)", why), "riven");
        ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    }
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
    result = PQexec(scene->a, sql); /* longer than an answer of run() */
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

static void why_in_sql_answers_as_the_library(void **state)
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

/* --- the end, as the worker of a workflow outside of a node reports it --- */

/* From then on the scene's node is one that can run it. */
static const char *enqueue_outside(struct scene *scene)
{
    static const char text[] = "{\"name\":\"outside\",\"temporal\":{}}";
    struct published published;
    ok(store_publish(scene->store, "outside", NULL, text, NULL, &published, &scene->error));
    scene->node = add_node_with_engine(scene, "outside", "default", "temporal");
    return arena_copy_string(&scene->arena, run(scene->b, "SELECT weir.enqueue('acme', 'outside')"));
}

static void note_run(struct scene *scene, const struct claimed_item *item)
{
    char variables[] = "{\"run_id\":\"now\",\"first_run_id\":\"first\"}";
    struct step_record step = {
        .step = "workflow", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1, .variables = variables};
    struct record noted = record_of(RECORD_STEP, item);
    struct record_summary summary;
    noted.step = &step;
    ok(store_record(scene->store, scene->node, &noted, 1, &summary, &scene->error));
    assert_int_equal(noted.status, WEIR_OK);
}

static void a_worker_ends_its_own_run_in_sql_and_no_other(void **state)
{
    struct scene *scene = *state;
    static const char of_run[] = "SELECT weir.complete('execution-%s', '{\"n\": 1}', run_id => '%s')";
    const char *id = enqueue_outside(scene);
    assert_string_equal(refusal(scene->a, "SELECT weir.complete('%s')", id), "WR014"); /* not started */
    struct claimed_item item = claim_one(scene, id);
    assert_string_equal(refusal(scene->a, of_run, id, "now"), "WR020"); /* its run is not on record yet */
    note_run(scene, &item);
    assert_string_equal(refusal(scene->a, of_run, id, "another"), "WR013");
    (void)run(scene->a, of_run, id, "first");
    assert_string_equal(run(scene->b, "SELECT status FROM weir.executions WHERE id = '%s'", id), "COMPLETED");
    (void)run(scene->a, of_run, id, "now"); /* the same end again */
    assert_string_equal(refusal(scene->a, of_run, id, "another"), "WR013");
    assert_string_equal(refusal(scene->a, "SELECT weir.complete('%s', error_code => 'Declined')", id), "WR014");
    static const char *const told = "SELECT count(*) FROM weir.workflow_execution_events WHERE event = 'report_end'";
    assert_string_equal(run(scene->b, "%s", told), "1");
    assert_string_equal(
        run(scene->b, "SELECT convert_from(output, 'UTF8') FROM weir.execution_steps WHERE execution_id = '%s'", id),
        "{\"n\": 1}");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_execution_queue"), "0");
    assert_int_equal(record(scene, RECORD_FAILED, &item), WEIR_EXECUTION_NOT_FOUND);
}

static void a_worker_ends_no_item_that_runs_in_a_node(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue(scene, "acme");
    (void)claim_one(scene, id);
    assert_string_equal(refusal(scene->a, "SELECT weir.complete('%s')", id), "WR014");
    assert_string_equal(refusal(scene->a, "SELECT weir.complete('01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79')"), "WR010");
    const char *other = enqueue_outside(scene);
    (void)other; /* its workspace is full */
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.workflow_execution_queue"), "2");
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
             "SELECT e.code FROM weir.try_enqueue('acme', 'hello', idempotency_key => 'k', execution_id => '%s') e", id);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "conflict");
    assert_string_equal(
        run(scene->b, "SELECT e.duplicate FROM weir.try_enqueue('acme', 'hello', idempotency_key => 'k') e"), "f");
    assert_int_equal(claim(scene, 10).count, 2);
}

/* --- refusals --- */

static void acts_without_an_id_are_refused(void **state)
{
    static const char *const acts[] = {"weir.cancel(NULL)", "weir.release(NULL)", "weir.retry(NULL)", "weir.dismiss(NULL)",
                                       "weir.complete(NULL)"};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        (void)run(scene->a,
                  "DO $$ BEGIN PERFORM %s; RAISE 'it was not refused'; EXCEPTION WHEN OTHERS THEN "
                  "IF SQLERRM <> 'the execution''s id is missing' THEN RAISE; END IF; END $$",
                  acts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_worker_ends_its_own_run_in_sql_and_no_other),
        SCENE_TEST(a_worker_ends_no_item_that_runs_in_a_node),
        SCENE_TEST(an_execution_that_was_retried_unseen_is_not_retried_again),
        SCENE_TEST(an_id_that_ended_unseen_is_not_enqueued_again),
        SCENE_TEST(a_resume_starts_items_that_its_transaction_does_not_see),
        SCENE_TEST(a_released_item_gets_a_slot_that_its_transaction_does_not_see),
        SCENE_TEST(a_large_set_counts_no_places_that_its_transaction_does_not_see),
        SCENE_TEST(a_large_set_that_waits_in_vain_is_refused_alone),
        SCENE_TEST(an_act_waits_a_short_time_for_an_item_that_a_program_holds),
        SCENE_TEST(an_id_of_a_time_to_come_is_refused_in_sql),
        SCENE_TEST(one_request_takes_the_short_way_and_answers_as_the_long_one),
        SCENE_TEST(held_items_hide_no_runnable_items),
        SCENE_TEST(held_items_that_were_due_hide_no_due_items),
        SCENE_TEST(an_open_pause_holds_up_nothing),
        SCENE_TEST(an_open_deletion_of_a_workspace_holds_up_no_other),
        SCENE_TEST(the_deletion_of_a_paused_workspace_holds_up_no_other),
        SCENE_TEST(a_workspace_with_an_execution_that_was_assigned_meanwhile_is_not_deleted),
        SCENE_TEST(a_workspace_with_an_execution_that_was_parked_meanwhile_is_not_deleted),
        SCENE_TEST(an_open_cancel_holds_up_no_other_item_of_its_workspace),
        SCENE_TEST(an_open_act_on_a_pending_item_holds_up_no_ends),
        SCENE_TEST(items_that_run_in_a_paused_workspace_end),
        SCENE_TEST(records_of_a_held_item_keep_their_order),
        SCENE_TEST(an_open_pause_holds_up_no_recovery),
        SCENE_TEST(a_cancel_of_many_never_fails_for_a_set_of_records),
        SCENE_TEST(an_item_of_a_prepared_transaction_is_found_after_its_commit),
        SCENE_TEST(a_give_back_wakes_the_scheduler),
        SCENE_TEST(an_end_wakes_the_scheduler_of_another_node),
        SCENE_TEST(an_assignment_and_a_cancel_wake_the_node),
        SCENE_TEST(why_in_sql_names_the_holder_of_the_lock_of_exclusive_dispatch),
        SCENE_TEST(why_in_sql_answers_as_the_library),
        SCENE_TEST(a_key_whose_id_is_refused_stays_free),
        SCENE_TEST(acts_without_an_id_are_refused),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
