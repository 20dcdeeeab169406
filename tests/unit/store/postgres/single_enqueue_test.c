/* An enqueue of one request has a function of its own. It must answer and store the same as the function for sets. */
#include <inttypes.h>
#include <stdio.h>

#include "queue/item.h"
#include "queue/limits.h"
#include "support/seed.h"
#include "unit/store/postgres/scene.h"

enum { LONG_SQL_SIZE = 4000 };

/* Runs a statement of any length. The answer lives as long as the scene. */
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

#define STORE_TIME "1800000000000000"
#define A_MOMENT_LATER "1800000000000001"
#define A_MOMENT_BEFORE "1799999999999999"

struct one {
    const char *before;
    /* workspace, workflow, content, key, group, priority, run_at, default group, traceparent, as SQL */
    const char *arguments[9];
};

/* Answer and rows of either function, in a transaction that is undone. */
static const char *enqueue_by(struct scene *scene, const struct one *one, const char *id, bool alone)
{
    static const char *const types[9] = {"text", "text", "bytea", "text", "text", "integer", "bigint", "text", "text"};
    char sql[LONG_SQL_SIZE];
    size_t length = (size_t)snprintf(sql, sizeof sql, "SELECT to_jsonb(e) - 'place' FROM weir.%s(",
                                     alone ? "enqueue_one" : "enqueue_set");
    length +=
        (size_t)snprintf(sql + length, sizeof sql - length, alone ? "'%s', true" : "ARRAY['%s'::uuid], ARRAY[true]", id);
    for (size_t i = 0; i < 9; i++) {
        length += (size_t)snprintf(sql + length, sizeof sql - length, alone ? ", (%s)::%s" : ", ARRAY[(%s)::%s]",
                                   one->arguments[i], types[i]);
    }
    assert_in_range(snprintf(sql + length, sizeof sql - length, ") e"), 1, sizeof sql - length - 1);
    (void)ask(scene, scene->a, "BEGIN");
    (void)ask(scene, scene->a, one->before);
    const char *answer = ask(scene, scene->a, sql);
    const char *rows = ask(scene, scene->a,
                           "SELECT jsonb_pretty(jsonb_build_array("
                           "(SELECT jsonb_agg(to_jsonb(q) - 'lane_id' || jsonb_build_object('group', g.name) ORDER BY q.id)"
                           " FROM weir.workflow_execution_queue q JOIN weir.executor_groups g ON g.id = q.lane_id >> 47),"
                           "(SELECT jsonb_agg(to_jsonb(p) ORDER BY p.id) FROM weir.execution_params p),"
                           "(SELECT jsonb_agg(to_jsonb(k) ORDER BY k.key) FROM weir.idempotency_keys k),"
                           "(SELECT jsonb_agg(g.name ORDER BY g.name) FROM weir.executor_groups g),"
                           "(SELECT jsonb_agg(to_jsonb(n) - 'seq' - 'xid' - 'at' - 'lanes' || jsonb_build_object('group', "
                           "g.name) ORDER BY n.seq)"
                           " FROM weir.news n JOIN weir.executor_groups g ON g.id = n.lanes[1] >> 47)))");
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
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "'{\"n\": 1}'", "NULL", "NULL", "-7", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "'{\"n\": 1}'", "'new key'", "NULL", "100", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "'default'", "0", "NULL", "'never heard'", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "'never heard'", "0", "NULL", "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "'never heard'", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", A_MOMENT_LATER, "NULL", "NULL"}},
        {NONE, {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", A_MOMENT_BEFORE, "NULL", "NULL"}},
        {NONE, {"'nobody'", "'hello'", "NULL", "'new key'", "NULL", "0", "NULL", "NULL", "NULL"}},
        {NONE, {"'acme'", "'nothing'", "NULL", "NULL", "NULL", "0", "NULL", "NULL", "NULL"}},
        {"UPDATE weir.workflow_definitions SET workspace_id = (SELECT id FROM weir.workspaces WHERE name = 'beta')",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL", "NULL"}},
        {"UPDATE weir.workflow_definitions SET executor_group = 'default'",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "'never heard'", "NULL"}},
        /* The key is there, with the same request, and with another one. */
        {"SELECT weir.enqueue('acme', 'hello', '{\"n\": 1}', 'k', execution_id => '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a70')",
         {"'acme'", "'hello'", "'{\"n\": 1}'", "'k'", "NULL", "0", "NULL", "NULL"}},
        {"SELECT weir.enqueue('acme', 'hello', '{\"n\": 2}', 'k', execution_id => '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a70')",
         {"'acme'", "'hello'", "'{\"n\": 1}'", "'k'", "NULL", "0", "NULL", "NULL"}},
        /* The id is there. */
        {"SELECT weir.enqueue('acme', 'hello', execution_id => '" NEW_ID "')",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL", "NULL"}},
        {"SELECT weir.enqueue('beta', 'hello', execution_id => '" NEW_ID "')",
         {"'acme'", "'hello'", "NULL", "NULL", "NULL", "0", "NULL", "NULL", "NULL"}},
        {"SELECT weir.enqueue('acme', 'hello', execution_id => '" NEW_ID "')",
         {"'acme'", "'hello'", "NULL", "'new key'", "NULL", "0", "NULL", "NULL", "NULL"}},
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

static void one_request_wakes_the_scheduler(void **state)
{
    struct scene *scene = *state;
    (void)ask(scene, scene->b, "LISTEN weir");
    (void)enqueue_for(scene, "acme", NULL);
    (void)ask(scene, scene->b, "SELECT 1"); /* its answer comes after the notices */
    PGnotify *notice = PQnotifies(scene->b);
    assert_non_null(notice);
    assert_string_equal(notice->extra, "news");
    PQfreemem(notice);
    assert_int_equal(claim(scene, 10).count, 1);
}

/* The short way ends with the statement that waits for the disk. */
static bool went_the_short_way(struct scene *scene, const struct enqueue_request *request)
{
    struct enqueue_result result = {.status = WEIR_FAILED};
    ok(store_enqueue(scene->store, request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
    assert_false(result.duplicate);
    return strcmp(ask(scene, scene->a,
                      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'"
                      " AND query LIKE '%pg_logical_emit_message%' AND pid <> pg_backend_pid()"),
                  "1") == 0;
}

static void an_id_made_for_the_call_goes_the_short_way(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello"};
    assert_true(went_the_short_way(scene, &request));
    request.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a71";
    assert_false(went_the_short_way(scene, &request));
    request.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a72";
    request.id_is_new = true;
    assert_true(went_the_short_way(scene, &request));
    request.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a73";
    request.idempotency_key = "k";
    assert_false(went_the_short_way(scene, &request));
}

/* A program keeps the key in its open transaction. Without the limit the request would wait for most of WAIT_US. */
static void one_request_waits_a_short_time_for_its_key(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello", .idempotency_key = "k"};
    struct enqueue_result result = {.status = WEIR_FAILED};
    (void)ask(scene, scene->a, "BEGIN");
    (void)ask(scene, scene->a, "SELECT weir.enqueue('acme', 'hello', idempotency_key => 'k')");
    store_limit_enqueue_wait(scene->store, MICROSECONDS_PER_SECOND / 10);
    int64_t begin_us = clock_boot(clock_system());
    assert_int_equal(store_enqueue(scene->store, &request, 1, &result, &scene->error), WEIR_STORE_BUSY);
    assert_true(clock_boot(clock_system()) - begin_us < WAIT_US / 2);
    (void)ask(scene, scene->a, "COMMIT");
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
    assert_true(result.duplicate);
}

/* The order of starts is the same on both stores: item_rank() of the program, which SQLite uses, and the SQL function. */
static void a_rank_of_sql_is_the_rank_of_the_program(void **state)
{
    struct scene *scene = *state;
    struct random random;
    test_seed(&random, "rank in SQL");
    for (int i = 0; i < 300; i++) {
        int64_t run_at_us = i == 0 ? 0 : i == 1 ? RUN_AT_MOST_US : (int64_t)random_below(&random, RUN_AT_MOST_US);
        int priority = PRIORITY_LEAST + i % (PRIORITY_MOST - PRIORITY_LEAST + 1);
        const char *rank = run(scene->a, "SELECT weir.item_rank(%" PRId64 ", %d)", run_at_us, priority);
        assert_int_equal(number(rank), item_rank(run_at_us, priority));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(one_request_is_answered_as_a_set_of_one),    SCENE_TEST(one_request_wakes_the_scheduler),
        SCENE_TEST(one_request_waits_a_short_time_for_its_key), SCENE_TEST(an_id_made_for_the_call_goes_the_short_way),
        SCENE_TEST(a_rank_of_sql_is_the_rank_of_the_program),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
