/* A transaction that somebody keeps open while work goes on: the server keeps every row version that dies meanwhile, and
 * every index its entry. What nodes look at must not grow with them. Entries that a look reads are counted, never time.
 * Rows are found by the places of their newest versions for that, so one that is changed between look and update is met
 * here as well, in a forced order. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "store/store.h"
#include "support/postgres_server.h"
#include "support/test.h"

enum { SQL_SIZE = 1000, URL_SIZE = 256, ARENA_BYTES = 16 * 1024 * 1024, ROUNDS = 60, MANY = 60, VERSIONS = 300 };

static struct postgres_server server;

struct scene {
    struct store *store;
    PGconn *holder; /* in a transaction that has written */
    PGconn *onlooker;
    PGconn *many[MANY]; /* of one test */
    int64_t node;
    struct arena arena;
    struct weir_error error;
};

#define ok(call)                                                                                                           \
    do {                                                                                                                   \
        if ((call) != WEIR_OK) {                                                                                           \
            fail_msg("%s: %s (%s)", #call, scene->error.message, scene->error.hint);                                       \
        }                                                                                                                  \
    } while (false)

/* The first column of the first row; static buffer. */
static const char *run(PGconn *connection, const char *sql)
{
    static char value[SQL_SIZE];
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    (void)snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

static void await_lock(PGconn *connection)
{
    char waits[SQL_SIZE];
    (void)snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                   PQbackendPID(connection));
    int64_t end_us = clock_boot(clock_system()) + 60 * MICROSECONDS_PER_SECOND;
    while (strcmp(postgres_server_ask(&server, "postgres", waits), "1") != 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
}

/* Starts it and returns when the server says that it waits for a lock. */
static void run_into(PGconn *connection, const char *sql)
{
    assert_int_equal(PQsendQuery(connection, sql), 1);
    await_lock(connection);
}

/* What that one answers in the end; static buffer. */
static const char *answer(PGconn *connection)
{
    static char value[SQL_SIZE];
    PGresult *result = PQgetResult(connection);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("the one that waited: %s", PQerrorMessage(connection));
    }
    (void)snprintf(value, sizeof value, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    assert_null(PQgetResult(connection));
    return value;
}

static void add_workspace(struct scene *scene, const char *name, int64_t cap)
{
    struct workspace_change change = {.name = name, .max_concurrent = cap, .paused = -1, .create = true};
    ok(store_set_workspace(scene->store, &change, &scene->error));
}

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    char url[URL_SIZE];
    struct published published;
    struct node_options node = {.name = "node",
                                .group = "default",
                                .host = "",
                                .boot_id = "",
                                .version = "",
                                .engine = "none",
                                .lease_us = 3600000000};
    struct workspace_change change = {.name = "acme", .plan = "enterprise", .paused = -1, .create = true};
    assert_non_null(scene);
    arena_init(&scene->arena, ARENA_BYTES);
    (void)postgres_server_ask(&server, "postgres", "DROP SCHEMA IF EXISTS weir CASCADE");
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .create = true, .deadline_us = 20 * MICROSECONDS_PER_SECOND};
    ok(store_open(&options, &scene->store, &scene->error));
    ok(store_migrate(scene->store, NULL, &scene->error));
    ok(store_publish(scene->store, "hello", NULL, "{\"name\":\"hello\",\"steps\":{\"one\":{\"handler\":\"noop\"}}}",
                     &published, &scene->error));
    ok(store_set_workspace(scene->store, &change, &scene->error));
    ok(store_node_start(scene->store, &node, &scene->node, &scene->error));
    scene->holder = postgres_server_connect(&server);
    scene->onlooker = postgres_server_connect(&server);
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    PQfinish(scene->holder);
    PQfinish(scene->onlooker);
    for (int i = 0; i < MANY; i++) {
        PQfinish(scene->many[i]); /* takes NULL */
    }
    ok(store_check(scene->store, &problems, &scene->error));
    if (json_array_size(problems) > 0) {
        fail_msg("%s", json_string_value(json_array_get(problems, 0)));
    }
    json_decref(problems);
    store_close(scene->store);
    arena_close(&scene->arena);
    free(scene);
    return 0;
}

static void enqueue_for(struct scene *scene, const char *workspace)
{
    struct enqueue_request request = {.workspace = workspace, .workflow = "hello"};
    struct enqueue_result result = {.status = WEIR_FAILED};
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
}

static void enqueue(struct scene *scene)
{
    enqueue_for(scene, "acme");
}

static size_t claim_and_end(struct scene *scene)
{
    struct claim_options options = {.node_id = scene->node, .group = "default", .limit = 10, .attempts_max = 3};
    struct claim_result claim = {0};
    struct record_summary summary = {0};
    ok(store_claim(scene->store, &options, &scene->arena, &claim, &scene->error));
    for (size_t i = 0; i < claim.count; i++) {
        struct record record = {.kind = RECORD_COMPLETED, .fence = claim.items[i].fence, .dispatched_first = true};
        memcpy(record.id, claim.items[i].id, sizeof record.id);
        ok(store_record(scene->store, scene->node, &record, 1, &summary, &scene->error));
        assert_int_equal(record.status, WEIR_OK);
    }
    return claim.count;
}

static void run_rounds(struct scene *scene)
{
    for (int i = 0; i < ROUNDS; i++) {
        enqueue(scene);
        assert_int_equal(claim_and_end(scene), 1);
    }
}

/* Entries of an index that one statement reads, undone. */
static long entries_read(struct scene *scene, const char *index, const char *sql)
{
    char count[SQL_SIZE];
    (void)snprintf(count, sizeof count, "SELECT pg_stat_get_xact_tuples_returned('weir.%s'::regclass)", index);
    (void)run(scene->onlooker, "BEGIN");
    long before = strtol(run(scene->onlooker, count), NULL, 10);
    (void)run(scene->onlooker, sql);
    long after = strtol(run(scene->onlooker, count), NULL, 10);
    (void)run(scene->onlooker, "ROLLBACK");
    return after - before;
}

/* --- claims --- */

static void wake_ups_that_died_are_not_looked_at_again(void **state)
{
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    (void)run(scene->holder, "BEGIN; SELECT pg_current_xact_id()");
    run_rounds(scene);
    const char *seen =
        arena_copy_string(&scene->arena, run(scene->onlooker, "SELECT seen FROM weir.freshen_lanes('0', 1000)"));
    enqueue(scene);
    (void)snprintf(sql, sizeof sql, "SELECT weir.freshen_lanes('0', 1000)");
    assert_true(entries_read(scene, "lane_wakeups_pkey", sql) >= ROUNDS); /* they are all there still */
    (void)snprintf(sql, sizeof sql, "SELECT weir.freshen_lanes('%s', 1000)", seen);
    assert_in_range(entries_read(scene, "lane_wakeups_pkey", sql), 1, 10);
    (void)snprintf(sql, sizeof sql, "SELECT weir.look(%lld, 'default', '%s', 0)", (long long)scene->node, seen);
    assert_in_range(entries_read(scene, "lane_wakeups_pkey", sql), 1, 10);
    assert_int_equal(claim_and_end(scene), 1);
}

/* A look that began before it ended has to come back to it; until then there is nothing to be seen. */
static void wake_ups_of_a_transaction_that_runs_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    char looks[4][SQL_SIZE];
    enqueue(scene);
    (void)run(scene->holder, "BEGIN; INSERT INTO weir.lane_wakeups (lane_id) SELECT 1 FROM generate_series(1, 300)");
    assert_int_equal(claim_and_end(scene), 1); /* so that others began after it */
    const char *seen = arena_copy_string(&scene->arena, run(scene->onlooker, "SELECT pg_current_snapshot()"));
    (void)snprintf(looks[0], sizeof looks[0], "SELECT weir.look(%lld, 'default', '%s', 0)", (long long)scene->node, seen);
    (void)snprintf(looks[1], sizeof looks[1], "SELECT weir.freshen_lanes('%s', 1000)", seen);
    (void)snprintf(looks[2], sizeof looks[2], "SELECT weir.fold_wakeups('%s', 1000)", seen);
    (void)snprintf(looks[3], sizeof looks[3], "SELECT weir.claim_fresh(%lld, 'default', '%s', 0, 1000)",
                   (long long)scene->node, seen);
    for (int i = 0; i < 4; i++) {
        assert_in_range(entries_read(scene, "lane_wakeups_pkey", looks[i]), 0, 10);
    }
    (void)run(scene->holder, "COMMIT");
    assert_true(entries_read(scene, "lane_wakeups_pkey", looks[2]) >= 300);
    (void)run(scene->onlooker, "DELETE FROM weir.lane_wakeups");
}

/* As many as stand in one round, none at the place of another: what was opened later stands behind what was served. */
static void lanes_that_had_their_turn_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    char name[32];
    (void)run(scene->holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ROUNDS; i++) {
            (void)snprintf(name, sizeof name, "w%02d", i);
            if (round == 0) {
                add_workspace(scene, name, 1);
            }
            enqueue_for(scene, name);
            if (i % 2 == 1) {
                assert_int_equal(claim_and_end(scene), 2);
            }
        }
    }
    const char *pass = arena_copy_string(&scene->arena, run(scene->onlooker, "SELECT pass FROM weir.executor_groups"));
    enqueue(scene);
    enqueue_for(scene, "w00");
    (void)run(scene->onlooker, "SELECT weir.freshen_lanes('0', 1000)");
    (void)snprintf(sql, sizeof sql, "SELECT weir.claim(%lld, 'default', 10, '0', -1)", (long long)scene->node);
    assert_true(entries_read(scene, "lanes_ready", sql) > ROUNDS); /* they are all there still */
    (void)snprintf(sql, sizeof sql, "SELECT weir.claim(%lld, 'default', 10, '0', %s)", (long long)scene->node, pass);
    assert_in_range(entries_read(scene, "lanes_ready", sql), 1, 10);
    assert_int_equal(claim_and_end(scene), 2);
}

static void versions_of_a_lane_that_died_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    run_rounds(scene);
    enqueue(scene);
    assert_string_equal(run(scene->holder, "SELECT count(*) FROM weir.lanes"), "0"); /* as it was when this one began */
    assert_in_range(entries_read(scene, "lanes_newest", "SELECT weir.freshen_lanes('0', 1000)"), 1, 20);
    assert_int_equal(claim_and_end(scene), 1);
}

static void what_an_old_transaction_enqueued_is_found_when_it_commits(void **state)
{
    struct scene *scene = *state;
    (void)run(scene->holder, "BEGIN; SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    (void)run(scene->onlooker, "BEGIN; SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    run_rounds(scene);
    (void)run(scene->onlooker, "COMMIT");
    assert_int_equal(claim_and_end(scene), 1);
    run_rounds(scene);
    (void)run(scene->holder, "COMMIT");
    struct next_work next = {0};
    ok(store_next_work(scene->store, scene->node, "default", &next, &scene->error));
    assert_true(next.ready);
    assert_int_equal(claim_and_end(scene), 1);
}

/* A node remembers 48 of them; of more, the oldest stands for all. */
static void many_open_transactions_are_seen_as_well(void **state)
{
    struct scene *scene = *state;
    static const char remembered[] = "WITH s AS (SELECT '1:100:' || string_agg(n::text, ',' ORDER BY n) AS list FROM "
                                     "generate_series(1, %d) n) SELECT weir.snapshot_text(list::pg_snapshot) = %s FROM s";
    char sql[SQL_SIZE];
    (void)snprintf(sql, sizeof sql, remembered, 48, "list");
    assert_string_equal(run(scene->onlooker, sql), "t");
    (void)snprintf(sql, sizeof sql, remembered, 49, "'1:1:'");
    assert_string_equal(run(scene->onlooker, sql), "t");
    for (int i = 0; i < MANY; i++) {
        scene->many[i] = postgres_server_connect(&server);
        (void)run(scene->many[i], "BEGIN; SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')");
    }
    run_rounds(scene);
    for (int i = MANY - 1; i >= 0; i--) {
        (void)run(scene->many[i], "COMMIT");
        assert_int_equal(claim_and_end(scene), 1);
    }
}

/* --- lanes --- */

/* Nothing but make_lanes() keeps a lane from having two rows. */
static void two_that_make_one_lane_make_one_row(void **state)
{
    struct scene *scene = *state;
    const char *make =
        "SELECT weir.make_lanes(ARRAY[weir.lane_id(g.id, w.id)], true) FROM weir.executor_groups g, weir.workspaces w";
    (void)run(scene->holder, "BEGIN");
    (void)run(scene->holder, make);
    run_into(scene->onlooker, make);
    (void)run(scene->holder, "COMMIT");
    (void)answer(scene->onlooker);
    assert_string_equal(run(scene->onlooker, "SELECT count(*) FROM weir.lanes"), "1");
}

/* --- workspaces and groups --- */

/* Every update makes an entry. Those of others, made later, fill the page: then the server packs equal ones, if it is let.
 */
static void make_versions(struct scene *scene)
{
    char sql[SQL_SIZE];
    add_workspace(scene, "beta", 1);
    (void)run(scene->onlooker, "INSERT INTO weir.executor_groups (name) VALUES ('batch')");
    (void)run(scene->onlooker, "CREATE INDEX ON weir.workspaces (granted); CREATE INDEX ON weir.executor_groups (pass)");
    (void)snprintf(sql, sizeof sql,
                   "DO $$ BEGIN FOR i IN 1 .. %d LOOP UPDATE weir.workspaces SET granted = i WHERE (id = 1) = (i <= %d); "
                   "UPDATE weir.executor_groups SET pass = i WHERE (id = 1) = (i <= %d); END LOOP; END $$",
                   2 * VERSIONS, VERSIONS, VERSIONS);
    (void)run(scene->onlooker, sql);
    (void)run(scene->onlooker, "SET enable_seqscan = off");
    assert_true(entries_read(scene, "workspaces_pkey", "SELECT 1 FROM weir.workspaces WHERE id = 1") > VERSIONS);
    assert_true(entries_read(scene, "executor_groups_pkey", "SELECT 1 FROM weir.executor_groups WHERE id = 1") > VERSIONS);
    (void)run(scene->onlooker, "RESET enable_seqscan");
}

static void versions_of_workspaces_and_groups_that_died_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    char claim[SQL_SIZE];
    const char *const fold = "SELECT weir.freshen_lanes('0', 1000)";
    const char *const add = "SELECT weir.enqueue(workspace => 'acme', workflow => 'hello')";
    const char *const give_back = "SELECT weir.free_slots(ARRAY[1], ARRAY['PENDING'])";
    (void)snprintf(claim, sizeof claim, "SELECT weir.claim(%lld, 'default', 10, '0', -1)", (long long)scene->node);
    add_workspace(scene, "acme", 2);
    (void)run(scene->holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    make_versions(scene);
    assert_in_range(entries_read(scene, "workspaces_name_key", add), 1, 3);
    assert_in_range(entries_read(scene, "executor_groups_name_key", add), 1, 3);
    enqueue(scene);
    (void)run(scene->onlooker, "SELECT weir.make_lanes(ARRAY[weir.lane_id(1, 1)], false)");
    assert_in_range(entries_read(scene, "workspaces_pkey", fold), 1, 3);
    assert_in_range(entries_read(scene, "executor_groups_pkey", fold), 1, 3);
    assert_int_equal(claim_and_end(scene), 1);
    enqueue(scene);
    enqueue(scene);
    (void)run(scene->onlooker, fold);
    assert_in_range(entries_read(scene, "workspaces_pkey", claim), 1, 5);
    assert_in_range(entries_read(scene, "executor_groups_pkey", claim), 1, 3); /* the lane's pass moves the group's */
    assert_in_range(entries_read(scene, "executor_groups_name_key", claim), 1, 5);
    (void)run(scene->onlooker, claim);
    assert_in_range(entries_read(scene, "workspaces_pkey", give_back), 1, 3);
    assert_in_range(entries_read(scene, "executor_groups_pkey", give_back), 1, 3); /* the lane is opened */
    (void)run(scene->onlooker, "UPDATE weir.lanes SET ready = true");
    assert_in_range(entries_read(scene, "workspaces_pkey", claim), 1, 7); /* it is closed again */
    (void)run(scene->onlooker, claim);
    assert_string_equal(run(scene->onlooker, "SELECT ready FROM weir.lanes"), "f");
}

/* --- a row that moves between look and update --- */

static const char *const slots_sql = "SELECT string_agg(slots_used::text, ' ' ORDER BY id) FROM weir.workspaces";
/* As an act of the last version did, or one on a plan: without the lanes, which the claim has. */
static const char *const lower_cap_sql = "UPDATE weir.workspaces SET max_concurrent = 2, slots_max = 2 WHERE name = 'acme'";

/* A claim that has looked at workspaces and waits for its fence, which the holder keeps from it. */
static void stop_a_claim(struct scene *scene)
{
    char sql[SQL_SIZE];
    (void)run(scene->onlooker, "SELECT weir.freshen_lanes('0', 1000)");
    (void)run(scene->holder, "BEGIN; ALTER SEQUENCE weir.fences INCREMENT 1");
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(id) || ' ' || bool_or(more AND id IS NULL) FROM weir.claim(%lld, 'default', 10, '0', -1)",
                   (long long)scene->node);
    run_into(scene->onlooker, sql);
}

static void a_workspace_that_was_changed_after_the_look_is_found_again(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 3; i++) {
        enqueue(scene);
    }
    stop_a_claim(scene);
    (void)postgres_server_ask(&server, "postgres", lower_cap_sql);
    (void)run(scene->holder, "ROLLBACK");
    assert_string_equal(answer(scene->onlooker), "2 false");
    assert_string_equal(run(scene->onlooker, slots_sql), "2");
}

/* It has the slots of another one by then, so it must not wait. */
static void a_workspace_that_somebody_holds_by_then_is_left_to_the_next_claim(void **state)
{
    struct scene *scene = *state;
    add_workspace(scene, "beta", 5);
    for (int i = 0; i < 3; i++) {
        enqueue(scene);
    }
    enqueue_for(scene, "beta");
    scene->many[0] = postgres_server_connect(&server);
    stop_a_claim(scene);
    (void)run(scene->many[0], lower_cap_sql);
    (void)run(scene->many[0], "BEGIN; UPDATE weir.workspaces SET granted = 0 WHERE name = 'acme'");
    (void)run(scene->holder, "ROLLBACK");
    assert_string_equal(answer(scene->onlooker), "1 true");
    (void)run(scene->many[0], "COMMIT");
    assert_string_equal(run(scene->onlooker, slots_sql), "0 1");
    assert_int_equal(claim_and_end(scene), 2);
}

static void a_slot_is_given_back_when_the_claim_that_it_waited_for_is_there(void **state)
{
    struct scene *scene = *state;
    char sql[SQL_SIZE];
    char claim[SQL_SIZE];
    const char *const held =
        "SELECT format('ARRAY[''%s''::uuid], ARRAY[%s]', id, fence) FROM weir.workflow_execution_queue "
        "WHERE phase = 2";
    (void)snprintf(claim, sizeof claim, "SELECT count(id) FROM weir.claim(%lld, 'default', 1, '0', -1)",
                   (long long)scene->node);
    enqueue(scene);
    enqueue(scene);
    (void)run(scene->onlooker, "SELECT weir.freshen_lanes('0', 1000)");
    assert_string_equal(run(scene->onlooker, claim), "1");
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(max(r.outcome), 'done') FROM weir.record(%lld, %s, ARRAY[6], ARRAY[0], ARRAY[false], "
                   "ARRAY[NULL], ARRAY[NULL], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}') r",
                   (long long)scene->node, run(scene->onlooker, held));
    (void)run(scene->holder, "BEGIN");
    assert_string_equal(run(scene->holder, claim), "1");
    run_into(scene->onlooker, sql);
    (void)run(scene->holder, "COMMIT");
    assert_string_equal(answer(scene->onlooker), "done");
    assert_string_equal(run(scene->onlooker, slots_sql), "1");
}

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, NULL, false);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(wake_ups_that_died_are_not_looked_at_again),
        SCENE_TEST(wake_ups_of_a_transaction_that_runs_are_not_looked_at),
        SCENE_TEST(lanes_that_had_their_turn_are_not_looked_at),
        SCENE_TEST(versions_of_a_lane_that_died_are_not_looked_at),
        SCENE_TEST(what_an_old_transaction_enqueued_is_found_when_it_commits),
        SCENE_TEST(many_open_transactions_are_seen_as_well),
        SCENE_TEST(two_that_make_one_lane_make_one_row),
        SCENE_TEST(versions_of_workspaces_and_groups_that_died_are_not_looked_at),
        SCENE_TEST(a_workspace_that_was_changed_after_the_look_is_found_again),
        SCENE_TEST(a_workspace_that_somebody_holds_by_then_is_left_to_the_next_claim),
        SCENE_TEST(a_slot_is_given_back_when_the_claim_that_it_waited_for_is_there),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
