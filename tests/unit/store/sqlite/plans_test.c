/* Every statement of the driver by its plan: none of them may read a table of executions from end to end. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "conformance/scene.h"
#include "sqlite_queries.h"
#include "store/sqlite/lane_counters.h"
#include "store/sqlite/parameter_rows.h"
#include "store/sqlite/sqlite_store.h"

/* Statements that may, and why. A name that ends with '*' stands for all that begin so. */
static const struct {
    const char *name;
    const char *reason;
} allowed[] = {
    {"check_*", "weir store check reads everything, and says so"},
    {"items_of_node", "reads what is held, never what waits; when a node is gone"},
    {"find_dead", "reads what is held, never what waits; when a node is dead"},
    {"mark_gone", "the same"},
    {"stale_items", "reads what is held, never what waits; once a minute"},
    {"needs_recovery", "reads what is held, never what waits, and only for the safety net"},
    {"held_by_lane", "reads what is held, never what waits; once per epoch"},
    {"handed_over_items", "reads what is held, never what waits; when something was handed over"},
    {"inbox_items", "reads what is held, never what waits"},
    {"has_requests", "reads what is held and has a signal that its node has not got"},
    {"take_signalled", "the same"},
    {"signal_names", "sorts the steps of one definition"},
    {"list_nodes", "reads what is held, never what waits; for people"},
    {"beat_node", "only of a draining node that runs nothing: reads what is held, never what waits"},
    {"list_workspaces", "groups lanes by their workspace; for people"},
    {"slot_holders", "reads what is held, never what waits; for people"},
    {"read_step_rows", "sorts the steps of one execution; for people"},
    {"read_event_rows", "sorts the events of one execution; for people"},
    {"count_event_rows", "the same"},
    {"migration_problems", "sorts the steps of one execution that do not fit"},
    {"status_reasons", "groups lanes by a handful of reasons; for people and for the scrape of metrics"},
    {"missing_worker", "sorts nodes, not executions; for people"},
    {"status_unserved", "groups a bounded number of waiting items by workflow; for people and for the scrape of metrics"},
    {"sample_history_workspaces", "groups lanes by their workspace; once a minute"},
    {"living_of_workflow", "reads the queue once, when a workflow is deleted"},
    {"held_ids_*", "sorts what is held, never what waits; for people"},
    {"place_in_lane", "counts a bounded number of entries of one lane's index; for people"},
    {"queue_order_*", "sorts at most two pages of each lane of one workspace; for people"},
    {"slot_timeline_held", "sorts what is held, never what waits; for people"},
    {"slot_moves", "sorts a bounded number of events of one execution; for people"},
    {"labelled_few_*", "sorts at most LABEL_WINDOW_ROWS entries of the index"},
    {"has_hook_events", "stops at the first row"},
    {"has_child_notes", "the same"},
    {"read_child_notes", "reads the oldest ones, and stops"},
    {"child_outcomes", "sorts the steps of one child after the other"},
    {"erase_hook_events", "reads the waiting events once, when a deleted workspace is erased"},
    {"read_hook_events", "sorts the events of hooks that it returns, which are at most a thousand"},
    {"has_waiting_firings", "stops at the first row"},
    {"read_schedule_firings", "sorts the oldest firing of each schedule and workspace that waits, from an index of these"},
    {"node_handler_sets", "it groups the handlers of nodes and of definitions, which are few"},
};

static const char *const large_tables[] = {"workflow_execution_queue",
                                           "queue_runnable",
                                           "workflow_executions",
                                           "workflow_node_executions",
                                           "workflow_execution_events",
                                           "execution_params",
                                           "signals",
                                           "idempotency_keys",
                                           "hook_outbox",
                                           "schedule_firings",
                                           "books",
                                           "children",
                                           "child_notes",
                                           "execution_labels"};

static bool is_allowed(const char *name)
{
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        size_t length = strlen(allowed[i].name);
        if (allowed[i].name[length - 1] == '*' ? strncmp(name, allowed[i].name, length - 1) == 0
                                               : strcmp(name, allowed[i].name) == 0) {
            return true;
        }
    }
    return false;
}

static sqlite3 *migrated_database(void)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(":memory:", &database), SQLITE_OK);
    static const struct parameter_rows none;
    assert_int_equal(lane_counters_register(database, NULL), SQLITE_OK);
    assert_int_equal(parameter_rows_register(database, &none), SQLITE_OK);
    for (int i = 0; i < SQLITE_MIGRATION_COUNT; i++) {
        assert_int_equal(sqlite3_exec(database, sqlite_migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    }
    for (int i = 0; i < SQLITE_VIEW_COUNT; i++) {
        assert_int_equal(sqlite3_exec(database, sqlite_views[i].sql, NULL, NULL, NULL), SQLITE_OK);
    }
    return database;
}

/* The table that a statement's alias stands for, as the text of the statement says: "FROM lanes l", "JOIN lanes l ON". */
static bool alias_is_of(const char *sql, const char *alias, const char *table)
{
    char pattern[2][128];
    (void)snprintf(pattern[0], sizeof pattern[0], "%s %s", table, alias);
    (void)snprintf(pattern[1], sizeof pattern[1], "%s AS %s", table, alias);
    for (int i = 0; i < 2; i++) {
        for (const char *at = strstr(sql, pattern[i]); at != NULL; at = strstr(at + 1, pattern[i])) {
            char after = at[strlen(pattern[i])];
            if (after == '\0' || strchr(" \n,);", after) != NULL) {
                return true;
            }
        }
    }
    return false;
}

static bool scans_large_table(const char *sql, const char *step)
{
    char name[64] = "";
    if (sscanf(step, "SCAN %63s", name) != 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof large_tables / sizeof large_tables[0]; i++) {
        if (strcmp(name, large_tables[i]) == 0 || alias_is_of(sql, name, large_tables[i])) {
            return true;
        }
    }
    return false;
}

/* NULL when the plan is fine, else the step that is not. Lives until the next call. */
static const char *bad_step(sqlite3 *database, const char *sql)
{
    static char bad[200];
    char *explain = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sql);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database, explain, -1, &statement, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    }
    bad[0] = '\0';
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(statement, 3);
        if (scans_large_table(sql, step) || strstr(step, "USE TEMP B-TREE") != NULL) {
            text_copy(bad, sizeof bad, step);
        }
    }
    (void)sqlite3_finalize(statement);
    sqlite3_free(explain);
    return bad[0] == '\0' ? NULL : bad;
}

static void no_statement_scans_or_sorts_a_table_of_executions(void **state)
{
    (void)state;
    sqlite3 *database = migrated_database();
    int bad = 0;
    for (int i = 0; i < QUERY_COUNT; i++) {
        const char *step = bad_step(database, sqlite_queries[i].sql);
        if (step != NULL && !is_allowed(sqlite_queries[i].name)) {
            print_error("%s: %s\n", sqlite_queries[i].name, step);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
    (void)sqlite3_close(database);
}

/* The rows of schedules have their params. */
static void late_schedules_are_counted_by_an_index(void **state)
{
    (void)state;
    sqlite3 *database = migrated_database();
    sqlite3_stmt *statement = NULL;
    bool searches = false;
    char *explain = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sqlite_queries[QUERY_STATUS_TOTALS].sql);
    assert_int_equal(sqlite3_prepare_v2(database, explain, -1, &statement, NULL), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(statement, 3);
        searches = searches || strstr(step, "SEARCH s USING INDEX schedules_due") != NULL;
    }
    assert_true(searches);
    (void)sqlite3_finalize(statement);
    sqlite3_free(explain);
    (void)sqlite3_close(database);
}

/* `weir failures` reads dead letters, of which there may be few in a long history. */
static void failed_ones_are_found_by_their_index(void **state)
{
    static const int queries[] = {QUERY_FAILED_IDS_DESCENDING, QUERY_FAILED_IDS_ASCENDING};
    (void)state;
    sqlite3 *database = migrated_database();
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        sqlite3_stmt *statement = NULL;
        bool searches = false;
        char *explain = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sqlite_queries[queries[i]].sql);
        assert_int_equal(sqlite3_prepare_v2(database, explain, -1, &statement, NULL), SQLITE_OK);
        while (sqlite3_step(statement) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(statement, 3);
            searches = searches || (strstr(step, "SEARCH workflow_executions USING") != NULL &&
                                    strstr(step, "executions_failed") != NULL);
        }
        assert_true(searches);
        (void)sqlite3_finalize(statement);
        sqlite3_free(explain);
    }
    (void)sqlite3_close(database);
}

static void every_exception_is_still_needed(void **state)
{
    (void)state;
    sqlite3 *database = migrated_database();
    for (size_t k = 0; k < sizeof allowed / sizeof allowed[0]; k++) {
        bool used = false;
        size_t length = strcspn(allowed[k].name, "*");
        for (int i = 0; i < QUERY_COUNT; i++) {
            used = used || (strncmp(sqlite_queries[i].name, allowed[k].name, length) == 0 &&
                            bad_step(database, sqlite_queries[i].sql) != NULL);
        }
        if (!used && strcmp(allowed[k].name, "place_in_lane") != 0) {
            fail_msg("%s needs no exception (%s)", allowed[k].name, allowed[k].reason);
        }
    }
    (void)sqlite3_close(database);
}

/* Pages that a look-up of the steps of an execution reads. */
static int pages_to_find_steps(sqlite3 *database, const char *id)
{
    int pages = 0;
    int high = 0;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(database,
                                        "SELECT EXISTS (SELECT 1 FROM workflow_node_executions e"
                                        " WHERE e.execution_id = ?1)",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC), SQLITE_OK);
    (void)sqlite3_db_status(database, SQLITE_DBSTATUS_CACHE_HIT, &pages, &high, 1);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_db_status(database, SQLITE_DBSTATUS_CACHE_HIT, &pages, &high, 1), SQLITE_OK);
    return pages;
}

/* Each end looks for steps on record. With the outputs in the keys it would read the large one of a neighbour. */
static void a_large_output_slows_no_look_up_beside_it(void **state)
{
    (void)state;
    sqlite3 *database = migrated_database();
    static const char insert[] = "INSERT INTO workflow_node_executions"
                                 " (execution_id, step, status, attempt, failures, started_at, node_id, fence, output)"
                                 " VALUES ('b', 'go', 'COMPLETED', 1, 0, 1, 1, 1, zeroblob(1000000))";
    assert_int_equal(sqlite3_exec(database, insert, NULL, NULL, NULL), SQLITE_OK);
    assert_in_range(pages_to_find_steps(database, "a"), 1, 5);
    assert_in_range(pages_to_find_steps(database, "c"), 1, 5);
    (void)sqlite3_close(database);
}

/* The check itself must be able to fail: the claim of Riven has no index, nFlow's order has none that fits. */
static void the_old_claims_fail_this_check(void **state)
{
    (void)state;
    sqlite3 *database = migrated_database();
    assert_non_null(bad_step(
        database, "SELECT id FROM workflow_execution_queue WHERE status = 'PENDING' ORDER BY created_at LIMIT 10"));
    assert_non_null(bad_step(database, "SELECT q.id FROM workflow_execution_queue q WHERE q.starts_refused = 0"));
    assert_non_null(bad_step(database, "SELECT id FROM workflow_execution_queue WHERE node_id = 0 AND run_at <= 5"
                                       " ORDER BY priority DESC, run_at LIMIT 8"));
    assert_null(bad_step(database, "SELECT id FROM workflow_execution_queue WHERE id = 'x'"));
    (void)sqlite3_close(database);
}

/* Of the statements of the reader since the last call. */
static int64_t take_reader_steps(struct scene *scene)
{
    struct connection *reader = &sqlite_of(scene->store)->reader;
    int64_t steps = 0;
    for (int k = 0; k < QUERY_COUNT; k++) {
        if (reader->statements[k] != NULL) {
            steps += sqlite3_stmt_status(reader->statements[k], SQLITE_STMTSTATUS_VM_STEP, 1);
        }
    }
    return steps;
}

static int64_t steps_of_why(struct scene *scene, const char *id)
{
    int64_t steps = 0;
    json_t *why = NULL;
    for (int i = 0; i < 2; i++) { /* the first call prepares */
        scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
        json_decref(why);
        steps = take_reader_steps(scene);
    }
    return steps;
}

/* Also by a beginning of its id, and whether it came first or last. */
static void one_execution_is_found_at_once_whatever_waits(void **state)
{
    struct scene *scene = *state;
    char first[UUID_TEXT_MAX];
    char last[UUID_TEXT_MAX];
    (void)snprintf(first, sizeof first, "%s", scene_enqueue(scene, "pro-co"));
    int64_t alone = steps_of_why(scene, first);
    scene_enqueue_many(scene, "big-co", 5000);
    (void)snprintf(last, sizeof last, "%s", scene_enqueue(scene, "free-co"));
    print_message("# alone %lld, first %lld, last %lld steps\n", (long long)alone, (long long)steps_of_why(scene, first),
                  (long long)steps_of_why(scene, last));
    assert_in_range(steps_of_why(scene, first), 1, alone + 100);
    assert_in_range(steps_of_why(scene, last), 1, alone + 100);
}

static int64_t steps_to_find(struct scene *scene, const char *id)
{
    static const char *const own[] = {"pro-co", "free-co"};
    int64_t steps = 0;
    for (int i = 0; i < 2; i++) { /* the first call prepares */
        bool is_there = true;
        scene_ok(scene, store_find_in_workspaces(scene->store, id, own, 2, &is_there, &scene->error));
        assert_false(is_there);
        steps = take_reader_steps(scene);
    }
    return steps;
}

/* Else the time of the refusal would show a tenant that the execution of another one exists. */
static void an_id_of_another_workspace_takes_the_steps_of_a_missing_one(void **state)
{
    enum { STEPS_OF_A_COMPARISON = 6 }; /* of the workspace of the row that is found, for each of the two names */
    struct scene *scene = *state;
    int64_t missing = steps_to_find(scene, "01a215fd-f18a-7002-b43c-a0d8f870aebd");
    const char *foreign = scene_enqueue(scene, "big-co");
    int64_t waiting = steps_to_find(scene, foreign);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    int64_t ended = steps_to_find(scene, foreign);
    print_message("# missing %lld, waiting %lld, ended %lld steps\n", (long long)missing, (long long)waiting,
                  (long long)ended);
    assert_in_range(waiting, missing, missing + (int64_t)2 * STEPS_OF_A_COMPARISON);
    assert_in_range(ended, missing, missing + (int64_t)2 * STEPS_OF_A_COMPARISON);
}

/* The duty of hooks asks once a minute, and between its calls nothing else of the maintenance runs. */
static void a_trim_reads_each_waiting_event_of_a_hook_at_most_once(void **state)
{
    enum { EVENTS = 9900, STEPS_OF_AN_EVENT = 10 };
    struct scene *scene = *state;
    int64_t removed = -1;
    struct hook_request hook = {
        .name = "all", .on = {ITEM_FAILED}, .on_count = 1, .start_workspace = "big-co", .start_workflow = "hello"};
    scene_ok(scene, store_hook_set(scene->store, &hook, NULL, &scene->error));
    json_decref(scene_rows(scene, "INSERT INTO hook_outbox (hook_id, execution_id, workspace_id, at, params)"
                                  " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 9900)"
                                  " SELECT (SELECT id FROM hooks), '00000000-0000-7000-8000-000000000000', 1,"
                                  " 9000000000000000 + n, '{}' FROM n"));
    (void)take_reader_steps(scene);
    scene_ok(scene, store_trim_hook_events(scene->store, &removed, &scene->error));
    assert_int_equal(removed, 0);
    assert_in_range(take_reader_steps(scene), 1, EVENTS * STEPS_OF_AN_EVENT);
}

/* store_lock() looks first, and another caller of the same moment finds the lock free as well: then the statement decides.
 */
static int taken_at(sqlite3 *database, const char *holder, int64_t now_us)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(database, sqlite_queries[QUERY_TAKE_LOCK].sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(statement, 1, "duty", -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_bind_int64(statement, 2, now_us), SQLITE_OK);
    assert_int_equal(sqlite3_bind_int64(statement, 3, 60), SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(statement, 4, holder, -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    return sqlite3_changes(database);
}

static void the_statement_itself_takes_no_lock_that_is_held(void **state)
{
    (void)state;
    sqlite3 *database = migrated_database();
    assert_int_equal(taken_at(database, "one", 1000), 1);
    assert_int_equal(taken_at(database, "two", 1000), 0);
    assert_int_equal(taken_at(database, "two", 1059), 0);
    assert_int_equal(taken_at(database, "two", 1060), 1);
    (void)sqlite3_close(database);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_statement_scans_or_sorts_a_table_of_executions),
        cmocka_unit_test(the_statement_itself_takes_no_lock_that_is_held),
        SCENE_TEST(one_execution_is_found_at_once_whatever_waits),
        SCENE_TEST(an_id_of_another_workspace_takes_the_steps_of_a_missing_one),
        SCENE_TEST(a_trim_reads_each_waiting_event_of_a_hook_at_most_once),
        cmocka_unit_test(late_schedules_are_counted_by_an_index),
        cmocka_unit_test(failed_ones_are_found_by_their_index),
        cmocka_unit_test(a_large_output_slows_no_look_up_beside_it),
        cmocka_unit_test(every_exception_is_still_needed),
        cmocka_unit_test(the_old_claims_fail_this_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
