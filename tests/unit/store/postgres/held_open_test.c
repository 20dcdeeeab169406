/* A transaction that somebody keeps open while work goes on: the server keeps every row version that dies meanwhile, and
 * every index its entry. What nodes look at must not grow with them. Entries that a look reads are counted, never time. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "store/store.h"
#include "support/postgres_server.h"
#include "support/test.h"

enum { SQL_SIZE = 1000, URL_SIZE = 256, ARENA_BYTES = 16 * 1024 * 1024, ROUNDS = 60, MANY = 60 };

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

static void enqueue(struct scene *scene)
{
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello"};
    struct enqueue_result result = {.status = WEIR_FAILED};
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
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
    assert_int_equal(PQsendQuery(scene->onlooker, make), 1);
    char waits[SQL_SIZE];
    (void)snprintf(waits, sizeof waits,
                   "SELECT count(*) FROM pg_locks WHERE pid = %d AND locktype = 'advisory' AND NOT granted",
                   PQbackendPID(scene->onlooker));
    int64_t end_us = clock_boot(clock_system()) + 60 * MICROSECONDS_PER_SECOND;
    while (strcmp(postgres_server_ask(&server, "postgres", waits), "1") != 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
    (void)run(scene->holder, "COMMIT");
    PGresult *result = PQgetResult(scene->onlooker);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    assert_null(PQgetResult(scene->onlooker));
    assert_string_equal(run(scene->onlooker, "SELECT count(*) FROM weir.lanes"), "1");
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
        SCENE_TEST(versions_of_a_lane_that_died_are_not_looked_at),
        SCENE_TEST(what_an_old_transaction_enqueued_is_found_when_it_commits),
        SCENE_TEST(many_open_transactions_are_seen_as_well),
        SCENE_TEST(two_that_make_one_lane_make_one_row),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
