/* The short ways of an idle queue (migrations/0019): an enqueue of one, and a claim of one item that is all there is. They
 * must say and leave what the long ways do, and step back whenever anything is not as plain as that. */
#include <pthread.h>
#include <stdio.h>

#include "unit/store/postgres/scene.h"

enum { LONG_SQL_SIZE = 4000, CAP = 5 };

/* --- the scene: two workspaces whose lanes are there and empty, one item that waits for a time, one that runs --- */

/* As run(), of any length, and the answer lives as long as the scene. */
static const char *ask(struct scene *scene, PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    const char *value = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    value = arena_copy_string(&scene->arena, value);
    assert_non_null(value);
    PQclear(result);
    return value;
}

static void enqueue_far_ahead(struct scene *scene, const char *workspace)
{
    struct enqueue_request request = {
        .workspace = workspace, .workflow = "hello", .run_at_us = 4000000000 * MICROSECONDS_PER_SECOND};
    struct enqueue_result result = {.status = WEIR_FAILED};
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
}

static int open_scene(void **state)
{
    static const char *const names[] = {"acme", "beta"};
    (void)scene_open_with(state, CAP);
    struct scene *scene = *state;
    add_workspace(scene, "beta", CAP);
    for (size_t i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            struct claimed_item item = claim_one(scene, enqueue_for(scene, names[i], NULL));
            assert_int_equal(record(scene, RECORD_COMPLETED, &item), WEIR_OK);
        }
    }
    (void)claim_one(scene, enqueue_for(scene, "beta", NULL));
    enqueue_far_ahead(scene, "beta");
    assert_int_equal(claim(scene, 10).count, 0);
    return 0;
}

/* --- claim --- */

/* "claimed ID", or "left" to the claim that follows. */
static const char *claim_fresh(struct scene *scene, const char *group)
{
    char sql[LONG_SQL_SIZE];
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce('claimed ' || c.id, 'left') FROM weir.claim_fresh(%lld, '%s', '0', -1, 100) c",
                   (long long)scene->node, group);
    return ask(scene, scene->a, sql);
}

static void what_is_new_and_alone_is_claimed_at_once(void **state)
{
    struct scene *scene = *state;
    char wanted[LONG_SQL_SIZE];
    (void)snprintf(wanted, sizeof wanted, "claimed %s", enqueue_for(scene, "acme", NULL));
    assert_string_equal(claim_fresh(scene, "default"), wanted);
    assert_string_equal(ask(scene, scene->a, "SELECT count(*) FROM weir.lane_wakeups"), "0");
    assert_string_equal(claim_fresh(scene, "default"), "left");
}

/* Tables as text, but for what differs from claim to claim: fences, times, and `granted`, which only a claim reads. */
static const char *const state_sql =
    "SELECT jsonb_pretty(jsonb_build_array("
    "(SELECT jsonb_agg(to_jsonb(q) - 'fence' - 'claimed_at' ORDER BY q.id) FROM weir.workflow_execution_queue q),"
    "(SELECT jsonb_agg(to_jsonb(l) ORDER BY l.id) FROM weir.lanes l),"
    "(SELECT jsonb_agg(to_jsonb(w) - 'granted' ORDER BY w.id) FROM weir.workspaces w),"
    "(SELECT jsonb_agg(to_jsonb(g) ORDER BY g.id) FROM weir.executor_groups g),"
    "(SELECT jsonb_agg(to_jsonb(u) ORDER BY u.n) FROM weir.lane_wakeups u)))";

static void the_short_way_leaves_what_the_long_way_leaves(void **state)
{
    struct scene *scene = *state;
    static const char *const before[] = {
        "SELECT 1",
        "UPDATE weir.lanes SET pass = pass + 1000000000", /* the lane is ahead of its group */
        "UPDATE weir.executor_groups SET pass = pass + 1000000000",
        "UPDATE weir.lanes SET head_rank = 4000000000000000", /* the item is one of higher priority than those before */
        "UPDATE weir.workspaces SET weight = 3, slots_used = slots_max - 1",
        ("INSERT INTO weir.execution_params SELECT id, '{\"n\": 1}' FROM weir.workflow_execution_queue WHERE phase = 0;"
         "UPDATE weir.workflow_execution_queue SET has_params = true, attempts = 2, deferrals = 1 WHERE phase = 0"),
    };
    char claim_sql[LONG_SQL_SIZE];
    (void)snprintf(claim_sql, sizeof claim_sql,
                   "SELECT to_jsonb(c) - 'fence' - 'claimed_at' - 'seen' - 'left_over' FROM weir.freshen_lanes('0', 100),"
                   " LATERAL weir.claim(%lld, 'default', 10, '0', -1) c",
                   (long long)scene->node);
    char fresh_sql[LONG_SQL_SIZE];
    (void)snprintf(fresh_sql, sizeof fresh_sql,
                   "SELECT to_jsonb(c) - 'fence' - 'claimed_at' - 'seen' - 'left_over'"
                   " || '{\"lanes\": null, \"first_pass\": null}'"
                   " FROM weir.claim_fresh(%lld, 'default', '0', -1, 100) c",
                   (long long)scene->node);
    (void)enqueue_for(scene, "acme", NULL);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        (void)ask(scene, scene->a, "BEGIN");
        (void)ask(scene, scene->a, before[i]);
        const char *long_answer = ask(scene, scene->a, claim_sql);
        const char *long_state = ask(scene, scene->a, state_sql);
        (void)ask(scene, scene->a, "ROLLBACK; BEGIN");
        (void)ask(scene, scene->a, before[i]);
        const char *short_answer = ask(scene, scene->a, fresh_sql);
        const char *short_state = ask(scene, scene->a, state_sql);
        (void)ask(scene, scene->a, "ROLLBACK");
        assert_non_null(strstr(short_answer, "\"workflow\": \"hello\""));
        assert_string_equal(short_answer, long_answer);
        assert_string_equal(short_state, long_state);
    }
    assert_int_equal(claim(scene, 10).count, 1);
}

static void whatever_is_not_plain_is_left_to_the_claim(void **state)
{
    struct scene *scene = *state;
#define ACME "(SELECT id FROM weir.workspaces WHERE name = 'acme')"
    static const char *const before[] = {
        "UPDATE weir.nodes SET wish = 'pause'",
        "UPDATE weir.nodes SET dead_at = 1",
        "UPDATE weir.nodes SET stopped_at = 1",
        "UPDATE weir.store_state SET queue_paused = true",
        "UPDATE weir.executor_groups SET paused = true",
        "UPDATE weir.workspaces SET paused = true",
        "UPDATE weir.workspaces SET slots_used = slots_max",
        "UPDATE weir.lanes SET ready = true WHERE workspace_id <> " ACME,
        "UPDATE weir.lanes SET ready = true WHERE workspace_id = " ACME,
        "UPDATE weir.lanes SET ready = true, pass = -2 WHERE workspace_id = " ACME, /* below where the claim looks */
        "UPDATE weir.lanes SET runnable = 1 WHERE workspace_id = " ACME,
        "UPDATE weir.lane_wakeups SET runnable = 2",
        "UPDATE weir.lane_wakeups SET runnable = 0",
        "UPDATE weir.lane_wakeups SET waiting = 1",
        "INSERT INTO weir.lane_wakeups (lane_id) SELECT id FROM weir.lanes LIMIT 1",
        "UPDATE weir.workflow_execution_queue SET due_at = 1 WHERE phase = 1",
        "UPDATE weir.workflow_execution_queue SET node_id = 0 WHERE phase = 2",
        "DELETE FROM weir.lanes WHERE workspace_id = " ACME,
        "DELETE FROM weir.workflow_execution_queue WHERE phase = 0",
    };
    const char *id = enqueue_for(scene, "acme", NULL);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        (void)ask(scene, scene->a, "BEGIN");
        (void)ask(scene, scene->a, before[i]);
        const char *slots =
            ask(scene, scene->a, "SELECT string_agg(slots_used::text, ' ' ORDER BY id) FROM weir.workspaces");
        const char *said = claim_fresh(scene, "default");
        if (strcmp(said, "left") != 0) {
            fail_msg("%s: %s", before[i], said);
        }
        assert_string_equal(
            ask(scene, scene->a, "SELECT string_agg(slots_used::text, ' ' ORDER BY id) FROM weir.workspaces"), slots);
        (void)ask(scene, scene->a, "ROLLBACK");
    }
    (void)ask(scene, scene->a, "BEGIN; INSERT INTO weir.executor_groups (name) VALUES ('other')");
    assert_string_equal(claim_fresh(scene, "other"), "left");
    (void)ask(scene, scene->a, "ROLLBACK");
    struct claim_result claimed = claim(scene, 10);
    assert_int_equal(claimed.count, 1);
    assert_string_equal(claimed.items[0].id, id);
}

/* What another transaction holds is gone round, not waited for. */
static void what_another_holds_is_left_to_the_claim(void **state)
{
    struct scene *scene = *state;
    static const char *const held[] = {
        "SELECT 1 FROM weir.lanes FOR NO KEY UPDATE",
        "SELECT pg_advisory_xact_lock(hashtextextended('weir.freshen_lanes', 0))",
        "SELECT pg_advisory_xact_lock(hashtextextended('weir.claim default', 0))",
    };
    (void)enqueue_for(scene, "acme", NULL);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        (void)ask(scene, scene->b, "BEGIN");
        (void)ask(scene, scene->b, held[i]);
        (void)ask(scene, scene->a, "BEGIN; SET LOCAL lock_timeout = '10s'"); /* waiting ends the test */
        assert_string_equal(claim_fresh(scene, "default"), "left");
        (void)ask(scene, scene->a, "ROLLBACK");
        (void)ask(scene, scene->b, "ROLLBACK");
    }
    assert_int_equal(claim(scene, 10).count, 1);
}

/* --- claim: an answer that does not arrive --- */

struct lost_claim {
    struct scene *scene;
    enum weir_status status;
};

static void *claim_and_lose(void *context)
{
    struct lost_claim *lost = context;
    struct claim_options options = {.node_id = lost->scene->node, .group = "default", .limit = 10, .attempts_max = 3};
    struct claim_result result = {0};
    lost->status = store_claim(lost->scene->store, &options, &lost->scene->arena, &result, &lost->scene->error);
    return NULL;
}

/* What a short claim took whose answer was lost is asked for, as after a long one: another connection does here what the
 * one that dies might have done. */
static void a_claim_whose_answer_was_lost_is_asked_for_again(void **state)
{
    struct scene *scene = *state;
    struct lost_claim lost = {.scene = scene};
    pthread_t thread;
    const char *id = enqueue_for(scene, "acme", NULL);
    char wanted[LONG_SQL_SIZE];
    (void)snprintf(wanted, sizeof wanted, "claimed %s", id);
    (void)ask(scene, scene->b, "BEGIN; SELECT 1 FROM weir.workspaces FOR UPDATE");
    assert_int_equal(pthread_create(&thread, NULL, claim_and_lose, &lost), 0);
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (strcmp(postgres_server_ask(&server, "postgres",
                                      "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
                  "1") != 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
    (void)postgres_server_ask(&server, "postgres",
                              "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lost.status, WEIR_COMMIT_UNKNOWN);
    (void)ask(scene, scene->b, "ROLLBACK");
    assert_string_equal(claim_fresh(scene, "default"), wanted);
    struct claim_result again = claim(scene, 10);
    assert_int_equal(again.count, 1);
    assert_string_equal(again.items[0].id, id);
}

/* --- enqueue --- */

#define STORE_TIME "1800000000000000"
#define A_MOMENT_LATER "1800000000000001"
#define A_MOMENT_BEFORE "1799999999999999"

struct one {
    const char *before;
    const char *arguments[8]; /* workspace, workflow, content, key, group, priority, run_at, default group, as SQL */
};

/* Answer and rows of either function, in a transaction that is undone. */
static const char *enqueue_by(struct scene *scene, const struct one *one, const char *id, bool alone)
{
    static const char *const types[8] = {"text", "text", "bytea", "text", "text", "integer", "bigint", "text"};
    char sql[LONG_SQL_SIZE];
    size_t length = (size_t)snprintf(sql, sizeof sql, "SELECT to_jsonb(e) - 'place' FROM weir.%s(",
                                     alone ? "enqueue_one" : "enqueue_set");
    length += (size_t)snprintf(sql + length, sizeof sql - length, alone ? "'%s'" : "ARRAY['%s'::uuid], ARRAY[false]", id);
    for (size_t i = 0; i < 8; i++) {
        length += (size_t)snprintf(sql + length, sizeof sql - length, alone ? ", (%s)::%s" : ", ARRAY[(%s)::%s]",
                                   one->arguments[i], types[i]);
    }
    assert_in_range(snprintf(sql + length, sizeof sql - length, ") e"), 1, sizeof sql - length - 1);
    (void)ask(scene, scene->a, "BEGIN");
    (void)ask(scene, scene->a, one->before);
    const char *answer = ask(scene, scene->a, sql);
    const char *rows =
        ask(scene, scene->a,
            "SELECT jsonb_pretty(jsonb_build_array("
            "(SELECT jsonb_agg(to_jsonb(q) - 'lane_id' || jsonb_build_object('group', g.name) ORDER BY q.id)"
            " FROM weir.workflow_execution_queue q JOIN weir.executor_groups g ON g.id = q.lane_id >> 32),"
            "(SELECT jsonb_agg(to_jsonb(p) ORDER BY p.id) FROM weir.execution_params p),"
            "(SELECT jsonb_agg(to_jsonb(k) ORDER BY k.key) FROM weir.idempotency_keys k),"
            "(SELECT jsonb_agg(g.name ORDER BY g.name) FROM weir.executor_groups g),"
            "(SELECT jsonb_agg(to_jsonb(u) - 'n' - 'xid' - 'lane_id' || jsonb_build_object('group', g.name) ORDER BY u.n)"
            " FROM weir.lane_wakeups u JOIN weir.executor_groups g ON g.id = u.lane_id >> 32)))");
    (void)ask(scene, scene->a, "ROLLBACK");
    size_t size = strlen(answer) + strlen(rows) + 2;
    char *both = arena_allocate(&scene->arena, size);
    assert_non_null(both);
    (void)snprintf(both, size, "%s\n%s", answer, rows);
    return both;
}

static void one_request_is_answered_as_a_set_of_one(void **state)
{
    struct scene *scene = *state;
#define NEW_ID "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"
#define NONE "SELECT 1"
    static const struct one ones[] = {
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "'{\"n\": 1}'", "NULL", "NULL", "-7", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "'{\"n\": 1}'", "'new key'", "NULL", "100", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "'default'", "0", "NULL", "'never heard'"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "'never heard'", "0", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "'never heard'"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", A_MOMENT_LATER, "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", A_MOMENT_BEFORE, "NULL"}},
        {NONE, {"'nobody'", "'hello'", "NULL", "'new key'", "NULL", "0", "NULL", "NULL"}},
        {NONE, {"'acme'", "'nothing'", "NULL", "NULL", "NULL", "0", "NULL", "NULL"}},
        {"UPDATE weir.workflow_definitions SET workspace_id = (SELECT id FROM weir.workspaces WHERE name = 'beta')",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL"}},
        {"UPDATE weir.workflow_definitions SET executor_group = 'default'",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "'never heard'"}},
        /* The key is there, with the same request, and with another one. */
        {"SELECT weir.enqueue('acme', 'hello', '{\"n\": 1}', 'k', execution_id => '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a70')",
         {"'acme'", "'hello'", "'{\"n\": 1}'", "'k'", "NULL", "0", "NULL", "NULL"}},
        {"SELECT weir.enqueue('acme', 'hello', '{\"n\": 2}', 'k', execution_id => '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a70')",
         {"'acme'", "'hello'", "'{\"n\": 1}'", "'k'", "NULL", "0", "NULL", "NULL"}},
        /* The id is there. */
        {"SELECT weir.enqueue('acme', 'hello', execution_id => '" NEW_ID "')",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL"}},
        {"SELECT weir.enqueue('beta', 'hello', execution_id => '" NEW_ID "')",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL"}},
        {"SELECT weir.enqueue('acme', 'hello', execution_id => '" NEW_ID "')",
         {"'acme'", "'hello'", "NULL", "'new key'", "NULL", "0", "NULL", "NULL"}},
    };
    (void)ask(scene, scene->a,
              "CREATE OR REPLACE FUNCTION weir.store_time() RETURNS bigint LANGUAGE sql AS 'SELECT " STORE_TIME
              "::bigint'");
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        const char *alone = enqueue_by(scene, &ones[i], NEW_ID, true);
        const char *in_set = enqueue_by(scene, &ones[i], NEW_ID, false);
        if (strcmp(alone, in_set) != 0) {
            fail_msg("request %zu, alone: %s\nin a set: %s", i, alone, in_set);
        }
    }
}

static void one_request_tells_its_group(void **state)
{
    struct scene *scene = *state;
    (void)ask(scene, scene->b, "LISTEN weir");
    (void)enqueue_for(scene, "acme", NULL);
    (void)ask(scene, scene->b, "SELECT 1"); /* its answer comes after the notices */
    PGnotify *notice = PQnotifies(scene->b);
    assert_non_null(notice);
    assert_string_equal(notice->extra, "default");
    PQfreemem(notice);
    assert_int_equal(claim(scene, 10).count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_new_and_alone_is_claimed_at_once),
        TEST(the_short_way_leaves_what_the_long_way_leaves),
        TEST(whatever_is_not_plain_is_left_to_the_claim),
        TEST(what_another_holds_is_left_to_the_claim),
        TEST(a_claim_whose_answer_was_lost_is_asked_for_again),
        TEST(one_request_is_answered_as_a_set_of_one),
        TEST(one_request_tells_its_group),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
