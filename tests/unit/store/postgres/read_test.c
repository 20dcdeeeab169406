/* Reading on PostgreSQL: one state per read, lost connections, and a check that finds broken rows. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/postgres/postgres.h"
#include "support/postgres_server.h"
#include "support/proxy.h"
#include "support/test.h"

#define PATIENT_US (60 * MICROSECONDS_PER_SECOND)
enum { URL_SIZE = 256 };

static struct postgres_server server;

struct scene {
    struct proxy *proxy;
    struct store *store;
    char id[UUID_TEXT_MAX]; /* one that waits, with params and a key */
    struct weir_error error;
};

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, NULL, true);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

static const char *ask(const char *sql)
{
    return postgres_server_ask(&server, "postgres", sql);
}

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    char url[URL_SIZE];
    assert_non_null(scene);
    (void)ask("DROP SCHEMA IF EXISTS weir CASCADE");
    scene->proxy = proxy_open(server.port);
    (void)snprintf(url, sizeof url, "postgres://weir@127.0.0.1:%d/postgres?sslmode=disable", proxy_port(scene->proxy));
    struct store_options options = {.url = url, .deadline_us = PATIENT_US};
    if (store_open(&options, &scene->store, &scene->error) != WEIR_OK) {
        fail_msg("%s", scene->error.message);
    }
    assert_int_equal(store_migrate(scene->store, NULL, &scene->error), WEIR_OK);
    (void)ask("SELECT weir.change_workspace('acme', NULL, 0, NULL, true)");
    (void)ask("SELECT weir.publish_definition('hello', NULL, '{}', 0, NULL, false)");
    text_copy(scene->id, sizeof scene->id, ask("SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', 'key')"));
    assert_true(uuid_is_valid(scene->id));
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    store_close(scene->store);
    proxy_close(scene->proxy);
    free(scene);
    return 0;
}

/* --- one state --- */

struct looking {
    struct scene *scene;
    enum weir_status status;
    json_t *shown;
};

static void *look(void *context)
{
    struct looking *looking = context;
    looking->status = store_show(looking->scene->store, looking->scene->id, &looking->shown, &looking->scene->error);
    return NULL;
}

static void run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
}

static void await_one_that_waits(void)
{
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    while (strcmp(ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), "1") != 0) {
        struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
        assert_true(clock_boot(clock_system()) < until_us);
        (void)nanosleep(&pause, NULL);
    }
}

/* It ends between two statements of the read: after its row was read, before its events are. */
static void a_read_shows_one_state_while_executions_end(void **state)
{
    struct scene *scene = *state;
    struct looking looking = {.scene = scene};
    char url[URL_SIZE];
    char sql[URL_SIZE];
    pthread_t thread;
    (void)snprintf(url, sizeof url, "postgres://weir@127.0.0.1:%d/postgres", server.port);
    PGconn *holder = PQconnectdb(url);
    assert_int_equal(PQstatus(holder), CONNECTION_OK);
    run(holder, "BEGIN");
    run(holder, "LOCK TABLE weir.execution_params IN ACCESS EXCLUSIVE MODE");
    assert_int_equal(pthread_create(&thread, NULL, look, &looking), 0);
    await_one_that_waits();
    (void)snprintf(sql, sizeof sql, "SELECT weir.cancel('%s')", scene->id);
    (void)ask(sql);
    run(holder, "ROLLBACK");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(looking.status, WEIR_OK);
    assert_string_equal(json_string_value(json_object_get(looking.shown, "status")), "PENDING");
    assert_int_equal(json_array_size(json_object_get(looking.shown, "events")), 1);
    json_decref(looking.shown);
    assert_int_equal(store_show(scene->store, scene->id, &looking.shown, &scene->error), WEIR_OK);
    assert_string_equal(json_string_value(json_object_get(looking.shown, "status")), "CANCELLED");
    assert_int_equal(json_array_size(json_object_get(looking.shown, "events")), 3);
    json_decref(looking.shown);
    PQfinish(holder);
}

static void a_read_with_a_lost_connection_is_repeated(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 3; i++) {
        json_t *answer = NULL;
        proxy_cut(scene->proxy);
        enum weir_status status = i == 0   ? store_show(scene->store, scene->id, &answer, &scene->error)
                                  : i == 1 ? store_why(scene->store, scene->id, &answer, &scene->error)
                                           : store_status(scene->store, 10, &answer, &scene->error);
        if (status != WEIR_OK) {
            fail_msg("%s", scene->error.message);
        }
        json_decref(answer);
    }
}

/* --- the check --- */

static size_t problems_with(struct scene *scene, const char *words)
{
    json_t *problems = NULL;
    size_t found = 0;
    size_t i;
    json_t *problem;
    assert_int_equal(store_check(scene->store, &problems, &scene->error), WEIR_OK);
    json_array_foreach(problems, i, problem)
    {
        found += strstr(json_string_value(problem), words) != NULL;
    }
    json_decref(problems);
    return found;
}

static void the_check_finds_each_row_that_was_broken_on_purpose(void **state)
{
    static const struct {
        const char *breaks;
        const char *words;
    } cases[] = {
        {"UPDATE weir.workspaces SET slots_max = 9", "slots_max is 9, its plan and its own limit give 1"},
        {"UPDATE weir.plans SET weight = 9", "its plan and its own limit give"},
        {"UPDATE weir.news SET runnable = '{2}'", "runnable is 2 of 1"},
        {"DELETE FROM weir.news", "runnable is 0 of 1, waiting is 0 of 0"},
        {"UPDATE weir.workflow_execution_queue SET phase = 1, due_at = 1", "waiting is 0 of 1"},
        {"INSERT INTO weir.books (lane_id, workspace_id, group_id, held) VALUES (weir.lane_id(1, 1, 0), 1, 1, 1)",
         "held is 1 of 0"},
        {"INSERT INTO weir.books (lane_id, workspace_id, group_id) VALUES (weir.lane_id(1, 1, 0), 2, 1)",
         "name workspace 2 and group 1"},
        {"UPDATE weir.workflow_execution_queue SET phase = 2, status = 'CLAIMED', fence = 7, node_id = 3",
         "claim 7 of node 3: holds 0, the rows show 1"},
        {"INSERT INTO weir.claims (node_id, fence, at, held, size, ids) VALUES (3, 7, 1, 1, 1, '{}')",
         "claim 7 of node 3: holds 1, the rows show 0"},
        {"WITH held AS (UPDATE weir.workflow_execution_queue SET phase = 2, status = 'CLAIMED', fence = 7, node_id = 3) "
         "INSERT INTO weir.claims (node_id, fence, at, held, size, ids) VALUES (3, 7, 1, 1, 0, '{}')",
         "is held by node 3 and in no claim"},
        {"DELETE FROM weir.scheduler", "the scheduler has 0 rows"},
        {"INSERT INTO weir.workflow_executions (id, lane_id, workspace_id, definition_id, status, priority, run_at, "
         "starts_refused,"
         " deferrals, handovers, interruptions, fence, node_id, has_params, created_at, finished_at)"
         " SELECT id, lane_id, workspace_id, definition_id, 'FAILED', 0, 1, 0, 0, 0, 0, 0, 0, true, 1, 1"
         " FROM weir.workflow_execution_queue",
         "is both in the queue and in the history"},
        {"UPDATE weir.workflow_execution_queue SET fence = 1000000", "has fence 1000000"},
        {"UPDATE weir.workflow_execution_queue SET lane_id = lane_id + 1", "refers to a row that does not exist"},
        {"UPDATE weir.workflow_execution_queue SET node_id = 9", "refers to a row that does not exist"},
        {"DELETE FROM weir.execution_params", "refers to a row that does not exist"},
        {"UPDATE weir.execution_params SET id = gen_random_uuid()", "belong to no execution"},
        {"UPDATE weir.idempotency_keys SET execution_id = gen_random_uuid()", "idempotency key key names no execution"},
        {"UPDATE weir.idempotency_keys SET key = 'other'", "idempotency key other names no execution of this key"},
        {"INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at, node_id, "
         "fence)"
         " VALUES (gen_random_uuid(), 'one', 'RUNNING', 1, 0, 1, 0, 0)",
         "step one of"},
        {"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'weir.queue_waiting'::regclass",
         "queue_waiting is not valid"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scene *scene = *state;
        assert_int_equal(problems_with(scene, ""), 0);
        (void)ask(cases[i].breaks);
        if (problems_with(scene, cases[i].words) == 0) {
            fail_msg("the check did not see: %s", cases[i].breaks);
        }
        assert_int_equal(close_scene(state), 0);
        assert_int_equal(open_scene(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_read_shows_one_state_while_executions_end, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_read_with_a_lost_connection_is_repeated, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(the_check_finds_each_row_that_was_broken_on_purpose, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
