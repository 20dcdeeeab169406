/* Enqueueing from C on PostgreSQL: sets with a lost answer or a failed statement, and a caller's own connection. */
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/postgres/postgres.h"
#include "support/postgres_server.h"
#include "support/proxy.h"
#include "support/test.h"
#include "weir/weir.h"

#define PATIENT_US (60 * MICROSECONDS_PER_SECOND)
enum { URL_SIZE = 256, LARGE = 2500 };

static struct postgres_server server;

struct scene {
    struct proxy *proxy;
    struct store *store;
    PGconn *connection; /* a caller's own */
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

static void prepare(struct scene *scene)
{
    struct workspace_change workspace = {.name = "acme", .paused = -1, .create = true};
    struct published published;
    assert_int_equal(store_migrate(scene->store, NULL, &scene->error), WEIR_OK);
    assert_int_equal(store_set_workspace(scene->store, &workspace, &scene->error), WEIR_OK);
    assert_int_equal(store_publish(scene->store, "hello", NULL, "{\"name\":\"hello\"}", NULL, &published, &scene->error),
                     WEIR_OK);
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
    prepare(scene);
    (void)snprintf(url, sizeof url, "postgres://weir@127.0.0.1:%d/postgres?client_encoding=UTF8", server.port);
    scene->connection = PQconnectdb(url);
    assert_int_equal(PQstatus(scene->connection), CONNECTION_OK);
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    assert_int_equal(store_check(scene->store, &problems, &scene->error), WEIR_OK);
    assert_int_equal(json_array_size(problems), 0);
    json_decref(problems);
    PQfinish(scene->connection);
    store_close(scene->store);
    proxy_close(scene->proxy);
    free(scene);
    return 0;
}

/* --- sets --- */

struct sending {
    struct store *store;
    const struct enqueue_request *requests;
    struct enqueue_result *results;
    size_t count;
    enum weir_status status;
    struct weir_error error;
};

static void *send(void *context)
{
    struct sending *sending = context;
    sending->status = store_enqueue(sending->store, sending->requests, sending->count, sending->results, &sending->error);
    return NULL;
}

static void await_answer(const char *sql, const char *answer)
{
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    while (strcmp(ask(sql), answer) != 0) {
        struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
        if (clock_boot(clock_system()) > until_us) {
            fail_msg("%s never answered %s", sql, answer);
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void a_set_with_a_lost_answer_is_enqueued_once(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[] = {
        {.workspace = "acme", .workflow = "hello"},
        {.workspace = "acme", .workflow = "hello", .idempotency_key = "key", .params = "{\"a\":1}", .params_length = 7},
        {.workspace = "nobody", .workflow = "hello"},
    };
    struct enqueue_request others[] = {requests[0], requests[2]};
    struct enqueue_result results[3];
    struct sending sending = {.store = scene->store, .requests = requests, .results = results, .count = 3};
    /* Known to the connection from now on. */
    assert_int_equal(store_enqueue(scene->store, others, 2, results, &scene->error), WEIR_OK);
    pthread_t thread;
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS_ANSWERS);
    assert_int_equal(pthread_create(&thread, NULL, send, &sending), 0);
    await_answer("SELECT count(*) FROM weir.workflow_execution_queue", "3"); /* committed, and no client has the answer */
    /* One of them has even ended before it is sent again. */
    (void)ask("SELECT weir.cancel(q.id) FROM weir.workflow_execution_queue q WHERE q.idempotency_key IS NULL");
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    proxy_cut(scene->proxy);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sending.status, WEIR_OK);
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "3");
    for (int i = 0; i < 2; i++) {
        char sql[128];
        assert_int_equal(results[i].status, WEIR_OK);
        assert_false(results[i].duplicate);
        (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM weir.executions WHERE id = '%s'", results[i].id);
        assert_string_equal(ask(sql), "1");
    }
    assert_int_equal(results[2].status, WEIR_WORKSPACE_NOT_FOUND);
}

/* One alone is sent in another way than a set. */
static void a_request_with_a_lost_answer_is_enqueued_once(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello"};
    struct enqueue_result result;
    struct sending sending = {.store = scene->store, .requests = &request, .results = &result, .count = 1};
    assert_int_equal(store_enqueue(scene->store, &request, 1, &result, &scene->error), WEIR_OK);
    pthread_t thread;
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS_ANSWERS);
    assert_int_equal(pthread_create(&thread, NULL, send, &sending), 0);
    await_answer("SELECT count(*) FROM weir.workflow_execution_queue", "2");
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    proxy_cut(scene->proxy);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sending.status, WEIR_OK);
    assert_int_equal(result.status, WEIR_OK);
    assert_false(result.duplicate);
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "2");
}

/* With a mode too: the second send finds its own work, and replaces nothing. */
static void a_keyed_request_with_a_lost_answer_is_enqueued_once(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {
        .workspace = "acme", .workflow = "hello", .idempotency_key = "k", .key_mode = KEY_REPLACE};
    struct enqueue_result result;
    struct sending sending = {.store = scene->store, .requests = &request, .results = &result, .count = 1};
    assert_int_equal(store_enqueue(scene->store, &request, 1, &result, &scene->error), WEIR_OK);
    pthread_t thread;
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS_ANSWERS);
    assert_int_equal(pthread_create(&thread, NULL, send, &sending), 0);
    await_answer("SELECT count(*) FROM weir.executions", "2");
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    proxy_cut(scene->proxy);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sending.status, WEIR_OK);
    assert_int_equal(result.status, WEIR_OK);
    assert_false(result.duplicate);
    assert_string_equal(ask("SELECT string_agg(status, ' ' ORDER BY status) FROM weir.executions"), "CANCELLED PENDING");
    assert_string_equal(ask("SELECT execution_id FROM weir.idempotency_keys"), result.id);
}

/* --- items that nodes see before they are on disk --- */

/* Stops the process of the server that writes commits to disk when no session waits for them. */
static pid_t stop_log_writer(void)
{
    pid_t writer = (pid_t)strtol(ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"), NULL, 10);
    assert_true(writer > 0);
    assert_int_equal(kill(writer, SIGSTOP), 0);
    return writer;
}

/* A server that loses a process so forgets all that it had only in memory. */
static void crash_server(pid_t process)
{
    char database_url[URL_SIZE];
    char began[64];
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    static const char question[] = "SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    (void)snprintf(began, sizeof began, "%s", ask(question));
    postgres_server_url(&server, "postgres", database_url, sizeof database_url);
    assert_int_equal(kill(process, SIGKILL), 0);
    for (;;) {
        PGconn *connection = PQconnectdb(database_url);
        PGresult *result = PQstatus(connection) == CONNECTION_OK ? PQexec(connection, question) : NULL;
        bool is_back = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), began) != 0;
        PQclear(result);
        PQfinish(connection);
        if (is_back) {
            return;
        }
        assert_true(clock_boot(clock_system()) < until_us);
        struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
        (void)nanosleep(&pause, NULL);
    }
}

/* Starts this program as an enqueuer that stops at a failpoint and prints the id of its item. */
static int enqueue_as_child(const char *url, const char *key)
{
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello", .idempotency_key = key};
    struct enqueue_result result;
    struct store *store = NULL;
    struct weir_error error;
    struct store_options options = {.url = url, .deadline_us = PATIENT_US};
    if (store_open(&options, &store, &error) != WEIR_OK || store_enqueue(store, &request, 1, &result, &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    store_close(store);
    return result.status == WEIR_OK && !result.duplicate && puts(result.id) >= 0 ? 0 : 2;
}

static pid_t start_enqueuer(const char *failpoint, const char *parameter, const char *key, FILE **ret_output)
{
    char url[URL_SIZE];
    int how = 0;
    int ends[2];
    (void)snprintf(url, sizeof url, "postgres://weir@127.0.0.1:%d/postgres?%s", server.port, parameter);
    assert_int_equal(pipe(ends), 0);
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *arguments[] = {(char *)"enqueue_test", url, (char *)key, NULL};
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else a test that fails leaves it stopped */
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)setenv("WEIR_FAILPOINT", failpoint, 1);
        (void)execv("/proc/self/exe", arguments);
        _exit(127);
    }
    (void)close(ends[1]);
    *ret_output = fdopen(ends[0], "r");
    assert_non_null(*ret_output);
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
    return child;
}

static void finish_enqueuer(pid_t child, FILE *output, char id[UUID_TEXT_MAX + 1])
{
    int how = 0;
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_non_null(fgets(id, UUID_TEXT_MAX + 1, output));
    id[strcspn(id, "\n")] = '\0';
    (void)fclose(output);
}

/* The server crashes between the two statements: the visible item is lost. The enqueuer detects it and enqueues again. */
static void a_request_that_a_crash_undoes_before_its_confirmation_is_enqueued_again(void **state)
{
    char id[UUID_TEXT_MAX + 1];
    FILE *output = NULL;
    pid_t writer = stop_log_writer();
    (void)state;
    pid_t child = start_enqueuer("before_commit:stop:2", "pooler=none", NULL, &output);
    assert_string_equal(ask("SELECT count(*) FROM weir.workflow_execution_queue"), "1");
    crash_server(writer);
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "0");
    finish_enqueuer(child, output, id);
    assert_string_equal(ask("SELECT id FROM weir.executions"), id);
}

/* Of one that was started anew: in a container the first numbers come again. */
static void another_server_process_of_the_same_number_confirms_nothing(void **state)
{
    char id[UUID_TEXT_MAX + 1];
    FILE *output = NULL;
    (void)state;
    (void)ask("CREATE OR REPLACE FUNCTION pg_catalog.pg_backend_pid() RETURNS integer LANGUAGE sql STABLE AS 'SELECT 42'");
    pid_t writer = stop_log_writer();
    pid_t child = start_enqueuer("before_commit:stop:2", "pooler=none", NULL, &output);
    assert_string_equal(ask("SELECT count(*) FROM weir.workflow_execution_queue"), "1");
    crash_server(writer);
    finish_enqueuer(child, output, id);
    (void)ask("CREATE OR REPLACE FUNCTION pg_catalog.pg_backend_pid() RETURNS integer LANGUAGE internal STABLE STRICT"
              " PARALLEL RESTRICTED AS 'pg_backend_pid'");
    assert_string_equal(ask("SELECT id FROM weir.executions"), id);
}

/* No other process writes it to the disk. */
static void a_confirmed_request_outlives_a_crash(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello"};
    struct enqueue_result result;
    pid_t writer = stop_log_writer();
    assert_int_equal(store_enqueue(scene->store, &request, 1, &result, &scene->error), WEIR_OK);
    crash_server(writer);
    assert_string_equal(ask("SELECT id FROM weir.executions"), result.id);
}

/* The server crashes as soon as the enqueue has committed. */
static void assert_on_disk_when_seen(const char *parameter, const char *key)
{
    char id[UUID_TEXT_MAX + 1];
    FILE *output = NULL;
    pid_t writer = stop_log_writer();
    pid_t child = start_enqueuer("after_commit:stop:1", parameter, key, &output);
    crash_server(writer);
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "1");
    assert_string_equal(ask("SELECT idempotency_key FROM weir.executions"), key == NULL ? "" : key);
    finish_enqueuer(child, output, id);
    assert_string_equal(ask("SELECT id FROM weir.executions"), id);
}

/* Another caller could be answered with the duplicate. */
static void a_key_is_on_disk_before_it_is_seen(void **state)
{
    (void)state;
    assert_on_disk_when_seen("pooler=none", "key");
}

/* Another server process cannot confirm the commit. */
static void behind_a_pooler_it_is_on_disk_before_it_is_seen(void **state)
{
    (void)state;
    assert_on_disk_when_seen("pooler=transaction", NULL);
}

/* The function that writes to the log has one more argument since PostgreSQL 17. */
static void let_public_write_to_the_log(const char *act)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "DO $$ DECLARE f text; BEGIN "
                   "FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP "
                   "EXECUTE format('%s PUBLIC', f); END LOOP; END $$",
                   act);
    (void)ask(sql);
}

/* A server that refuses to confirm. */
static void a_request_without_confirmation_is_reported_as_unknown(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "acme", .workflow = "hello"};
    struct enqueue_result result;
    char url[URL_SIZE];
    struct store *store = NULL;
    (void)ask("DROP ROLE IF EXISTS confined");
    (void)ask("CREATE ROLE confined LOGIN; GRANT USAGE ON SCHEMA weir TO confined;"
              "GRANT ALL ON ALL TABLES IN SCHEMA weir TO confined; GRANT ALL ON ALL SEQUENCES IN SCHEMA weir TO confined");
    let_public_write_to_the_log("REVOKE EXECUTE ON FUNCTION %s FROM");
    (void)snprintf(url, sizeof url, "postgres://confined@127.0.0.1:%d/postgres?sslmode=disable", server.port);
    struct store_options options = {.url = url, .deadline_us = PATIENT_US};
    assert_int_equal(store_open(&options, &store, &scene->error), WEIR_OK);
    assert_int_equal(store_enqueue(store, &request, 1, &result, &scene->error), WEIR_COMMIT_UNKNOWN);
    assert_non_null(strstr(scene->error.message, "pg_logical_emit_message"));
    assert_non_null(strstr(scene->error.hint, "weir show ")); /* a repeated call would enqueue another */
    store_close(store);
    let_public_write_to_the_log("GRANT EXECUTE ON FUNCTION %s TO");
    (void)ask("DROP OWNED BY confined; DROP ROLE confined");
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "1");
}

static void a_large_set_is_one_transaction(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request *requests = calloc(LARGE, sizeof *requests);
    struct enqueue_result *results = calloc(LARGE, sizeof *results);
    assert_true(requests != NULL && results != NULL);
    for (size_t i = 0; i < LARGE; i++) {
        requests[i] = (struct enqueue_request){.workspace = "acme", .workflow = "hello"};
    }
    requests[7].workflow = "helo";
    requests[LARGE - 1].idempotency_key = "poison";
    (void)ask("CREATE FUNCTION weir.refuse_poison() RETURNS trigger LANGUAGE plpgsql AS"
              " $$ BEGIN RAISE check_violation USING MESSAGE = 'poison'; END $$;"
              "CREATE TRIGGER poison BEFORE INSERT ON weir.idempotency_keys FOR EACH ROW WHEN (NEW.key = 'poison')"
              " EXECUTE FUNCTION weir.refuse_poison()");
    assert_int_not_equal(store_enqueue(scene->store, requests, LARGE, results, &scene->error), WEIR_OK);
    assert_string_equal(ask("SELECT count(*) FROM weir.workflow_execution_queue"), "0");
    requests[LARGE - 1].idempotency_key = "sound";
    assert_int_equal(store_enqueue(scene->store, requests, LARGE, results, &scene->error), WEIR_OK);
    assert_string_equal(ask("SELECT count(*) FROM weir.workflow_execution_queue"), "2499");
    assert_int_equal(results[7].status, WEIR_WORKFLOW_NOT_FOUND);
    assert_string_equal(results[7].error.hint, "did you mean \"hello\"?");
    for (size_t i = 1; i < LARGE; i++) {
        assert_true(i == 7 || i == 8 || strcmp(results[i - 1].id, results[i].id) < 0);
    }
    free(requests);
    free(results);
}

/* --- a caller's own connection --- */

static void run(struct scene *scene, const char *sql)
{
    PGresult *result = PQexec(scene->connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(scene->connection));
    }
    PQclear(result);
}

static enum weir_status enqueue_pq(struct scene *scene, const char *schema, const char *params, char id[WEIR_ID_SIZE])
{
    struct weir_request request = {.workspace = "acme", .workflow = "hello", .params = params};
    return weir_enqueue_pq(scene->connection, schema, &request, id, &scene->error);
}

static void a_connection_that_cannot_carry_it_is_refused_and_left_alone(void **state)
{
    struct scene *scene = *state;
    char id[WEIR_ID_SIZE] = "untouched";
    struct weir_request request = {.workspace = "acme", .workflow = "hello"};
    assert_int_equal(weir_enqueue_pq(NULL, NULL, &request, id, &scene->error), WEIR_MISUSE);
    assert_int_equal(enqueue_pq(scene, NULL, NULL, id), WEIR_MISUSE); /* no transaction */
    assert_non_null(strstr(scene->error.hint, "BEGIN"));
    run(scene, "BEGIN");
    assert_int_equal(PQsetClientEncoding(scene->connection, "LATIN1"), 0);
    assert_int_equal(enqueue_pq(scene, NULL, NULL, id), WEIR_MISUSE);
    assert_non_null(strstr(scene->error.message, "LATIN1"));
    assert_int_equal(PQsetClientEncoding(scene->connection, "UTF8"), 0);
    assert_int_equal(PQenterPipelineMode(scene->connection), 1);
    assert_int_equal(enqueue_pq(scene, NULL, NULL, id), WEIR_MISUSE);
    assert_int_equal(PQexitPipelineMode(scene->connection), 1);
    static const char *const schemas[] = {
        "", "Weir", "9weir", "weir; DROP SCHEMA weir", "weir\"", "a_name_that_is_much_longer_than_a_schema_of_weir_may_be"};
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        assert_int_equal(enqueue_pq(scene, schemas[i], NULL, id), WEIR_INVALID_ARGUMENT);
    }
    request.workflow = NULL;
    assert_int_equal(weir_enqueue_pq(scene->connection, NULL, &request, id, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(id, "untouched");
    assert_int_equal(PQtransactionStatus(scene->connection), PQTRANS_INTRANS);
    assert_int_equal(enqueue_pq(scene, "weir", NULL, id), WEIR_OK);
    run(scene, "COMMIT");
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "1");
}

static void a_refusal_leaves_the_transaction_and_a_failure_ends_it(void **state)
{
    struct scene *scene = *state;
    char id[WEIR_ID_SIZE] = "untouched";
    run(scene, "BEGIN");
    assert_int_equal(enqueue_pq(scene, NULL, "[1]", id), WEIR_INVALID_PARAMS);
    struct weir_request request = {.workspace = "acm", .workflow = "hello"};
    assert_int_equal(weir_enqueue_pq(scene->connection, NULL, &request, id, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(scene->error.hint, "did you mean \"acme\"?");
    assert_int_equal(PQtransactionStatus(scene->connection), PQTRANS_INTRANS);
    assert_int_equal(enqueue_pq(scene, "no_such_schema", NULL, id), WEIR_SCHEMA_MISSING);
    assert_int_equal(PQtransactionStatus(scene->connection), PQTRANS_INERROR);
    assert_int_equal(enqueue_pq(scene, NULL, NULL, id), WEIR_MISUSE);
    run(scene, "ROLLBACK");
    assert_string_equal(id, "untouched");
    assert_string_equal(ask("SELECT count(*) FROM weir.executions"), "0");
}

static void all_of_a_request_arrives_also_without_blocking(void **state)
{
    struct scene *scene = *state;
    enum { SIZE = 1024 * 1024 };
    char id[WEIR_ID_SIZE];
    char first[WEIR_ID_SIZE];
    char *params = malloc(SIZE + 1);
    assert_non_null(params);
    memset(params, 'x', SIZE);
    memcpy(params, "{\"a\":\"", 6);
    memcpy(params + SIZE - 2, "\"}", 3);
    struct weir_request request = {.workspace = "acme",
                                   .workflow = "hello",
                                   .params = params,
                                   .idempotency_key = "it's \"key\" $1",
                                   .group = "batch",
                                   .priority = -7,
                                   .run_at_us = 4102444800000001};
    (void)ask("INSERT INTO weir.executor_groups (name) VALUES ('batch') RETURNING name");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(PQsetnonblocking(scene->connection, i), 0);
        run(scene, "BEGIN");
        assert_int_equal(weir_enqueue_pq(scene->connection, NULL, &request, i == 0 ? first : id, &scene->error), WEIR_OK);
        assert_int_equal(PQisnonblocking(scene->connection), i);
        run(scene, "COMMIT");
    }
    assert_string_equal(id, first); /* the same key */
    assert_string_equal(ask("SELECT idempotency_key || executor_group || priority || extract(epoch FROM run_at)"
                            " FROM weir.executions"),
                        "it's \"key\" $1batch-74102444800.000001");
    assert_string_equal(ask("SELECT length(params) FROM weir.execution_params"), "1048576");
    free(params);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return enqueue_as_child(argv[1], argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_with_a_lost_answer_is_enqueued_once, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_request_with_a_lost_answer_is_enqueued_once, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_keyed_request_with_a_lost_answer_is_enqueued_once, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_request_that_a_crash_undoes_before_its_confirmation_is_enqueued_again, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(another_server_process_of_the_same_number_confirms_nothing, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_confirmed_request_outlives_a_crash, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_key_is_on_disk_before_it_is_seen, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(behind_a_pooler_it_is_on_disk_before_it_is_seen, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_request_without_confirmation_is_reported_as_unknown, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_large_set_is_one_transaction, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_connection_that_cannot_carry_it_is_refused_and_left_alone, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_refusal_leaves_the_transaction_and_a_failure_ends_it, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(all_of_a_request_arrives_also_without_blocking, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
