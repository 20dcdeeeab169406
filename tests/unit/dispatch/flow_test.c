/* The 16 scenarios of the flow of a queue item, in their order, on one node. Where weir differs from a dispatcher that
 * claims first and checks afterwards, the comment gives the reason. And two promises of the dispatcher beside the
 * scenarios: how it polls, and that nothing is locked while an engine is called. */
#include "base/error.h"
#include "unit/dispatch/bench.h"

enum { BATCH = 10, PENDING = 15, WIDE = 20 };

/* The tests count and break the calls between the node, its store and its engine. */
static const struct store_driver *real_driver;
static const struct engine_operations *real_operations;
static struct store_driver watched_driver;
static struct engine_operations watched_operations;
static int claims_to_fail;
static int starts_seen;
static int locked_starts;
static const char *database_path;
static char seen_params[256];
static char seen_workflow[64];
static int seen_version;

static enum weir_status watched_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                         struct schedule_answer *ret_answer, struct weir_error *error)
{
    if (claims_to_fail > 0 && call->assignment_count > 0) {
        claims_to_fail--;
        return error_set(error, WEIR_STORE_UNREACHABLE, "the connection is lost");
    }
    return real_driver->schedule(store, call, arena, ret_answer, error);
}

/* Another program tries to write to the store at once, without waiting. */
static bool is_locked(void)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(database_path, &database), SQLITE_OK);
    bool locked = sqlite3_exec(database, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) != SQLITE_OK;
    (void)sqlite3_close(database);
    return locked;
}

static enum weir_status watched_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    starts_seen++;
    locked_starts += is_locked();
    (void)snprintf(seen_params, sizeof seen_params, "%.*s", (int)start->params_length, start->params);
    (void)snprintf(seen_workflow, sizeof seen_workflow, "%s", start->workflow);
    seen_version = start->version;
    return real_operations->start(engine, start, error);
}

static int open_flow(void **state)
{
    (void)open_bench(state);
    struct bench *bench = *state;
    real_driver = bench->store->driver;
    watched_driver = *real_driver;
    watched_driver.schedule = watched_schedule;
    bench->store->driver = &watched_driver;
    engine_close(bench->engine);
    assert_int_equal(scripted_open(bench->world, WIDE, &bench->engine, NULL), WEIR_OK);
    real_operations = bench->engine->operations;
    watched_operations = *real_operations;
    watched_operations.start = watched_start;
    bench->engine->operations = &watched_operations;
    database_path = bench->url + strlen("sqlite:");
    claims_to_fail = starts_seen = locked_starts = seen_version = 0;
    bench->settings.batch_size = BATCH;
    return 0;
}

static int count_in(struct bench *bench, enum item_state state)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 100, .filter = {.states = 1U << state}};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    int count = (int)json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

/* Fifteen items wait, each would run for a minute; the node has started and made no step. */
static void fifteen_wait(struct bench *bench)
{
    char id[UUID_TEXT_MAX];
    for (int i = 0; i < PENDING; i++) {
        push(bench, (struct scripted_outcome){.run_us = MINUTE});
        enqueue_at(bench, "many", "plain", 0, id);
    }
    start_node(bench);
}

static void run_sql(const char *sql)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(database_path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

static int count_rows(const char *sql)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *row = NULL;
    assert_int_equal(sqlite3_open(database_path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int count = sqlite3_column_int(row, 0);
    (void)sqlite3_finalize(row);
    (void)sqlite3_close(database);
    return count;
}

/* --- happy path --- */

static void a_batch_of_ten_is_claimed_of_fifteen(void **state)
{
    struct bench *bench = *state;
    fifteen_wait(bench);
    (void)node_dispatch_step(bench->node);
    assert_int_equal(count_in(bench, ITEM_CLAIMED), BATCH);
    assert_int_equal(count_in(bench, ITEM_PENDING), PENDING - BATCH);
}

static void all_are_processed_while_there_is_capacity(void **state)
{
    struct bench *bench = *state;
    fifteen_wait(bench);
    pass(bench, 2 * MINUTE);
    assert_int_equal(count_in(bench, ITEM_COMPLETED), PENDING);
}

static void started_items_are_marked_dispatched(void **state)
{
    struct bench *bench = *state;
    fifteen_wait(bench);
    (void)node_dispatch_step(bench->node);
    (void)engine_step(bench->engine);
    (void)node_record_step(bench->node);
    assert_int_equal(count_in(bench, ITEM_DISPATCHED), BATCH);
}

static void the_engine_gets_the_input_that_was_enqueued(void **state)
{
    struct bench *bench = *state;
    static const char params[] = "{\"n\": [1,  2], \"text\":\"\\u00fc\"}";
    struct enqueue_request request = {
        .workspace = "many", .workflow = "plain", .params = params, .params_length = strlen(params)};
    struct enqueue_result result;
    struct published published;
    assert_int_equal(store_enqueue(bench->store, &request, 1, &result, NULL), WEIR_OK);
    /* An edit while it is queued changes nothing for it. */
    assert_int_equal(
        store_publish(bench->store, "plain", NULL, "{\"name\":\"plain\",\"starts_max\":2}", NULL, &published, NULL),
        WEIR_OK);
    start_node(bench);
    pass(bench, SECOND);
    assert_string_equal(seen_params, params);
    assert_string_equal(seen_workflow, "plain");
    assert_int_equal(seen_version, 1);
}

static void the_next_cycle_claims_the_other_five(void **state)
{
    struct bench *bench = *state;
    fifteen_wait(bench);
    (void)node_dispatch_step(bench->node);
    int64_t next_us = node_dispatch_step(bench->node); /* the first named no time but "now" */
    assert_int_equal(count_in(bench, ITEM_CLAIMED), PENDING);
    assert_int_equal(count_in(bench, ITEM_PENDING), 0);
    assert_true(next_us > bench->now_us);
}

/* --- edge cases --- */

static void an_empty_queue_is_looked_at_and_left(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    claims_to_fail = 1; /* would be noticed */
    for (int i = 0; i < 5; i++) {
        assert_true(node_dispatch_step(bench->node) > bench->now_us);
    }
    assert_int_equal(claims_to_fail, 1);
}

/* weir does not claim them at all, so it need not put them back. */
static void items_without_capacity_stay_pending(void **state)
{
    struct bench *bench = *state;
    char first[UUID_TEXT_MAX];
    char second[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = MINUTE});
    enqueue_at(bench, "solo", "plain", 0, first);
    enqueue_at(bench, "solo", "plain", 0, second);
    start_node(bench);
    pass(bench, SECOND);
    assert_string_equal(text_of(bench, first, "status"), "DISPATCHED");
    assert_string_equal(text_of(bench, second, "status"), "PENDING");
    assert_string_equal(text_of(bench, second, "pending_reason"), "workspace_at_capacity");
    pass(bench, 2 * MINUTE);
    assert_string_equal(text_of(bench, second, "status"), "COMPLETED");
}

static void a_second_start_has_the_id_of_the_first(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.answer = SCRIPTED_REFUSE});
    enqueue_at(bench, "many", "plain", 0, id);
    start_node(bench);
    pass(bench, MINUTE);
    const struct scripted_entry *entry = scripted_world_entry(bench->world, id);
    assert_non_null(entry);
    assert_int_equal(entry->starts_requested, 2);
    assert_null(scripted_world_entry_at(bench->world, 1)); /* no other id was ever used */
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
}

static bool check_names(struct bench *bench, const char *id)
{
    json_t *problems = NULL;
    assert_int_equal(store_check(bench->store, &problems, NULL), WEIR_OK);
    char *text = json_dumps(problems, JSON_COMPACT);
    bool named = text != NULL && strstr(text, id) != NULL;
    free(text);
    json_decref(problems);
    return named;
}

/* No verb deletes a workspace. One that was deleted by hand takes what it had along, and stops nobody else. */
static void a_deleted_workspace_stops_no_other(void **state)
{
    struct bench *bench = *state;
    char lost[UUID_TEXT_MAX];
    char other[UUID_TEXT_MAX];
    enqueue_at(bench, "solo", "plain", 0, lost);
    enqueue_at(bench, "many", "plain", 0, other);
    start_node(bench);
    run_sql("DELETE FROM workspaces WHERE name = 'solo'");
    bench->steps = 0;
    pass(bench, MINUTE);
    assert_true(bench->steps < 5000); /* and is not looked at without end */
    assert_string_equal(text_of(bench, other, "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, lost), 0);
    assert_true(node_is_healthy(bench->node, NULL));
    assert_string_equal(text_of(bench, lost, "status"), "FAILED");
    assert_string_equal(text_of(bench, lost, "error_code"), "workspace_not_found");
}

/* No verb deletes a definition either, and the views do not show what has none. */
static void a_deleted_definition_fails_its_item_and_no_other(void **state)
{
    struct bench *bench = *state;
    char lost[UUID_TEXT_MAX];
    char other[UUID_TEXT_MAX];
    enqueue_at(bench, "many", "patient", 0, lost);
    enqueue_at(bench, "many", "plain", 0, other);
    start_node(bench);
    run_sql("DELETE FROM workflow_definitions WHERE name = 'patient'");
    pass(bench, MINUTE);
    assert_int_equal(runs_begun(bench, lost), 0);
    assert_string_equal(text_of(bench, other, "status"), "COMPLETED");
    assert_int_equal(bench->counts[EVENT_DISPATCH_FAILED], 1);
    assert_int_equal(count_rows("SELECT count(*) FROM workflow_executions WHERE status = 'FAILED'"), 1);
    assert_true(check_names(bench, lost));
}

/* Without its params it would do something else. */
static void lost_params_fail_their_item_and_no_other(void **state)
{
    struct bench *bench = *state;
    char other[UUID_TEXT_MAX];
    struct enqueue_request request = {
        .workspace = "many", .workflow = "plain", .params = "{\"customer\":42}", .params_length = 15};
    struct enqueue_result lost;
    assert_int_equal(store_enqueue(bench->store, &request, 1, &lost, NULL), WEIR_OK);
    enqueue_at(bench, "many", "plain", 0, other);
    run_sql("DELETE FROM execution_params");
    start_node(bench);
    pass(bench, MINUTE);
    assert_int_equal(runs_begun(bench, lost.id), 0);
    assert_string_equal(text_of(bench, lost.id, "status"), "FAILED");
    assert_string_equal(text_of(bench, lost.id, "error_code"), "params_lost");
    assert_string_equal(text_of(bench, other, "status"), "COMPLETED");
}

static void hold_the_lock(struct bench *bench, int64_t at_most_us)
{
    struct lock_request request = {.name = "processExecutionQueue", .holder = "riven", .at_most_us = at_most_us};
    assert_int_equal(store_lock(bench->store, &request, NULL), WEIR_OK);
}

/* With dispatch.exclusive alone: weir needs no lock. */
static void without_the_lock_nothing_is_claimed_until_it_is_free(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    struct lock_request request = {.name = "processExecutionQueue", .holder = "riven", .at_most_us = 4 * MINUTE};
    bench->settings.exclusive = true;
    hold_the_lock(bench, 4 * MINUTE);
    start_node(bench);
    enqueue(bench, "many", id);
    pass(bench, MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    assert_int_equal(store_unlock(bench->store, &request, NULL), WEIR_OK);
    pass(bench, 5 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
}

/* --- injected failures --- */

/* An outage costs no attempt, however long it is. */
static void an_engine_that_is_down_fails_nothing(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    scripted_world_cut(bench->world, bench->now_us + 10 * MINUTE);
    enqueue_at(bench, "many", "plain", 0, id);
    start_node(bench);
    pass(bench, 9 * MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    assert_string_equal(text_of(bench, id, "pending_reason"), "engine_unreachable");
    pass(bench, 2 * MINUTE);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
}

static void a_claim_that_loses_its_connection_is_tried_again(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    claims_to_fail = 3;
    enqueue_at(bench, "many", "plain", 0, id);
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    pass(bench, 10 * SECOND);
    assert_int_equal(claims_to_fail, 0);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    assert_true(node_is_healthy(bench->node, NULL));
}

/* weir hands them over with their ids and slots as soon as the lease of the dead node is over. */
static void a_claim_of_a_dead_dispatcher_runs_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.answer = SCRIPTED_LOSE_REQUEST});
    enqueue_at(bench, "solo", "plain", 0, id);
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    node_close(bench->node); /* it dies: nothing is given back */
    bench->node = NULL;
    bench->settings.name = "second";
    start_node(bench);
    pass(bench, 20 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, id), 1);
}

static void an_item_that_cannot_be_recorded_delays_no_other(void **state)
{
    struct bench *bench = *state;
    char ids[3][UUID_TEXT_MAX];
    for (int i = 0; i < 3; i++) {
        push(bench, (struct scripted_outcome){.run_us = SECOND});
        enqueue_at(bench, "many", "plain", 0, ids[i]);
    }
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "CREATE TRIGGER refused BEFORE UPDATE ON workflow_execution_queue WHEN NEW.id = '%s' AND NEW.status ="
                   " 'DISPATCHED' BEGIN SELECT raise(ABORT, 'refused'); END",
                   ids[1]);
    run_sql(sql);
    (void)engine_step(bench->engine);
    (void)node_record_step(bench->node);
    assert_string_equal(text_of(bench, ids[0], "status"), "DISPATCHED");
    assert_string_equal(text_of(bench, ids[1], "status"), "CLAIMED");
    assert_string_equal(text_of(bench, ids[2], "status"), "DISPATCHED");
}

/* By their rows. */
static int nodes_with_refused_reports(struct bench *bench)
{
    int count = 0;
    size_t i;
    json_t *node;
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    json_array_foreach(json_object_get(page, "items"), i, node)
    {
        count += json_is_string(json_object_get(node, "record_failing_since"));
    }
    json_decref(page);
    return count;
}

/* Dropped, the end would keep its slot until the node stops, and the finished steps would run a second time. */
static void an_end_that_cannot_be_recorded_is_written_when_the_cause_is_gone(void **state)
{
    struct bench *bench = *state;
    char ids[3][UUID_TEXT_MAX];
    for (int i = 0; i < 3; i++) {
        push(bench, (struct scripted_outcome){.run_us = SECOND});
        enqueue_at(bench, "many", "plain", 0, ids[i]);
    }
    char sql[200];
    (void)snprintf(sql, sizeof sql,
                   "CREATE TRIGGER refused BEFORE INSERT ON workflow_executions WHEN NEW.id = '%s'"
                   " BEGIN SELECT raise(ABORT, 'refused'); END",
                   ids[1]);
    run_sql(sql);
    start_node(bench);
    pass(bench, 10 * MINUTE);
    assert_string_equal(text_of(bench, ids[0], "status"), "COMPLETED");
    assert_string_equal(text_of(bench, ids[1], "status"), "DISPATCHED");
    assert_string_equal(text_of(bench, ids[2], "status"), "COMPLETED");
    assert_in_range(bench->counts[EVENT_RECORD_REFUSED], 5, 12); /* at first, and then once a minute */
    assert_non_null(strstr(text_of(bench, ids[1], "record_error"), "refused (failed)"));
    assert_int_equal(nodes_with_refused_reports(bench), 1);
    run_sql("DROP TRIGGER refused");
    pass(bench, 2 * MINUTE);
    assert_int_equal(nodes_with_refused_reports(bench), 0);
    assert_string_equal(text_of(bench, ids[1], "status"), "COMPLETED");
    assert_int_equal(runs_begun(bench, ids[1]), 1);
}

static void a_lock_whose_holder_died_is_free_after_four_minutes(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.exclusive = true;
    hold_the_lock(bench, 4 * MINUTE);
    start_node(bench);
    enqueue(bench, "many", id);
    pass(bench, 4 * MINUTE - SECOND);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    pass(bench, 6 * SECOND);
    assert_string_equal(text_of(bench, id, "status"), "COMPLETED");
}

/* --- between the scenarios --- */

static void no_transaction_is_open_while_the_engine_is_called(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.answer = SCRIPTED_LOSE_ANSWER, .run_us = 5 * MINUTE}); /* so it is sent again */
    enqueue_at(bench, "many", "plain", 0, id);
    enqueue_at(bench, "many", "plain", 0, id);
    start_node(bench);
    pass(bench, 2 * MINUTE);
    assert_true(starts_seen > 2);
    assert_int_equal(locked_starts, 0);
    sqlite3 *other = NULL; /* a transaction would have been noticed */
    assert_int_equal(sqlite3_open(database_path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_true(is_locked());
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

/* When the node polls, over an idle time. */
static void collect_polls(struct bench *bench, int64_t *distances_us, int count)
{
    int64_t next_us = node_dispatch_step(bench->node);
    for (int i = 0; i < count; i++) {
        distances_us[i] = next_us - bench->now_us;
        bench->now_us = next_us;
        (void)node_heartbeat_step(bench->node);
        next_us = node_dispatch_step(bench->node);
    }
}

static void polls_come_at_random_distances(void **state)
{
    enum { POLLS = 200 };
    struct bench *bench = *state;
    int64_t first_us[POLLS];
    int64_t second_us[POLLS];
    int64_t least_us = TIME_NEVER;
    int64_t most_us = 0;
    int alike = 0;
    bench->settings.poll_interval_us = SECOND / 2; /* below all other reasons to look */
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    collect_polls(bench, first_us, POLLS);
    node_close(bench->node);
    bench->settings.seed = 8;
    start_node(bench);
    collect_polls(bench, second_us, POLLS);
    for (int i = 0; i < POLLS; i++) {
        least_us = first_us[i] < least_us ? first_us[i] : least_us;
        most_us = first_us[i] > most_us ? first_us[i] : most_us;
        alike += first_us[i] - second_us[i] < SECOND / 100 && second_us[i] - first_us[i] < SECOND / 100;
    }
    /* Between half the interval and all of it, and over most of that range; two nodes do not poll in step. */
    assert_true(least_us < 3 * SECOND / 10);
    assert_true(most_us <= SECOND / 2 && most_us > 9 * SECOND / 20);
    assert_true(alike < POLLS / 4);
}

/* One call of the store passes on the signals of a part of them; no time passes before the next part. */
static void signals_of_many_executions_are_passed_on_at_once(void **state)
{
    struct bench *bench = *state;
    enum { MANY = SIGNALLED_BATCH + 1 };
    static char ids[MANY][UUID_TEXT_MAX];
    struct published published;
    struct workspace_change many = {.name = "many", .max_concurrent = MANY, .paused = -1};
    engine_close(bench->engine);
    assert_int_equal(scripted_open(bench->world, MANY, &bench->engine, NULL), WEIR_OK);
    assert_int_equal(store_set_workspace(bench->store, &many, NULL), WEIR_OK);
    assert_int_equal(store_publish(bench->store, "ask", NULL, "{\"name\":\"ask\",\"steps\":{\"ask\":{\"signal\":\"go\"}}}",
                                   NULL, &published, NULL),
                     WEIR_OK);
    for (int i = 0; i < MANY; i++) {
        push(bench, (struct scripted_outcome){.never_ends = true});
        enqueue_at(bench, "many", "ask", 0, ids[i]);
    }
    start_node(bench);
    pass(bench, 10 * SECOND);
    assert_int_equal(count_in(bench, ITEM_DISPATCHED), MANY);
    for (int i = 0; i < MANY; i++) {
        struct signal_request request = {.id = ids[i], .name = "go"};
        struct sent_signal sent;
        assert_int_equal(store_signal(bench->store, &request, &sent, NULL), WEIR_OK);
    }
    assert_int_equal(count_rows("SELECT count(*) FROM workflow_execution_queue WHERE signals > signals_sent"), MANY);
    node_wake(bench->node);
    for (int i = 0; i < 10 && node_step(bench->node) <= bench->now_us; i++) {
    }
    assert_int_equal(count_rows("SELECT count(*) FROM workflow_execution_queue WHERE signals > signals_sent"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_flow, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_of_ten_is_claimed_of_fifteen),
        TEST(all_are_processed_while_there_is_capacity),
        TEST(started_items_are_marked_dispatched),
        TEST(the_engine_gets_the_input_that_was_enqueued),
        TEST(the_next_cycle_claims_the_other_five),
        TEST(an_empty_queue_is_looked_at_and_left),
        TEST(items_without_capacity_stay_pending),
        TEST(a_second_start_has_the_id_of_the_first),
        TEST(a_deleted_workspace_stops_no_other),
        TEST(a_deleted_definition_fails_its_item_and_no_other),
        TEST(lost_params_fail_their_item_and_no_other),
        TEST(without_the_lock_nothing_is_claimed_until_it_is_free),
        TEST(an_engine_that_is_down_fails_nothing),
        TEST(a_claim_that_loses_its_connection_is_tried_again),
        TEST(a_claim_of_a_dead_dispatcher_runs_once),
        TEST(an_item_that_cannot_be_recorded_delays_no_other),
        TEST(an_end_that_cannot_be_recorded_is_written_when_the_cause_is_gone),
        TEST(a_lock_whose_holder_died_is_free_after_four_minutes),
        TEST(no_transaction_is_open_while_the_engine_is_called),
        TEST(polls_come_at_random_distances),
        TEST(signals_of_many_executions_are_passed_on_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
