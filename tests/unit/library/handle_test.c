/* The public interface without a node: the view of a program that only enqueues and reads. Links the shared library alone.
 */
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <weir/weir.h>

#include "support/folder.h"
#include "support/test.h"

#define UNKNOWN_ID "01990000-0000-7000-8000-000000000000"

static struct folder folder;
static char store_path[300];
static struct weir *weir;
static struct weir_error error;
static atomic_int events_seen;
static atomic_int lists_seen;

static const char workflow[] =
    "name: greet\nsteps:\n  greet: {handler: greet}\n  go: {when: \"${.input.never == true}\", signal: go}\n";

static void count_event(void *context, const struct weir_event *event)
{
    (void)context;
    assert_non_null(event->name);
    assert_non_null(event->message);
    events_seen += strcmp(event->name, "execution.enqueued") == 0;
    lists_seen += strcmp(event->name, "store.called") == 0 && event->reason != NULL && strcmp(event->reason, "list") == 0;
}

static int set_up(void **state)
{
    (void)state;
    struct weir_options options = {.on_event = count_event};
    events_seen = 0;
    if (folder_make(&folder) != 0) {
        return -1;
    }
    (void)snprintf(store_path, sizeof store_path, "%s/weir.db", folder.path);
    return weir_migrate(store_path, NULL, &error) == WEIR_OK && weir_open(store_path, &options, &weir, &error) == WEIR_OK &&
                   weir_set_workspace(weir, "acme", "free", 0, &error) == WEIR_OK &&
                   weir_publish_workflow(weir, workflow, 0, NULL, NULL, &error) == WEIR_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    weir_close(weir);
    weir = NULL;
    folder_remove(&folder);
    return 0;
}

static struct weir_request greet(void)
{
    return (struct weir_request){.workspace = "acme", .workflow = "greet", .params = "{\"name\":\"Ada\"}"};
}

static void versions_agree(void **state)
{
    (void)state;
    assert_string_equal(weir_version(), WEIR_VERSION);
}

static void a_failed_open_names_the_fault(void **state)
{
    (void)state;
    char path[400];
    struct weir *none = NULL;
    (void)snprintf(path, sizeof path, "%s/missing.db", folder.path);
    assert_int_equal(weir_open(path, NULL, &none, &error), WEIR_STORE_UNREACHABLE);
    assert_int_equal(weir_open(folder.path, NULL, &none, &error), WEIR_STORE_UNREACHABLE);
    assert_int_equal(weir_open("mysql://here/db", NULL, &none, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_open(NULL, NULL, &none, &error), WEIR_MISUSE);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 200; i++) {
        (void)fputs("this is no database at all\n", file);
    }
    (void)fclose(file);
    assert_int_equal(weir_open(path, NULL, &none, &error), WEIR_STORE_NOT_WEIR);
    assert_true(error.message[0] != '\0');
    assert_null(none);
    weir_close(NULL);
    weir_free(NULL);
}

static void migrating_twice_applies_nothing_the_second_time(void **state)
{
    (void)state;
    char path[400];
    int applied = 0;
    (void)snprintf(path, sizeof path, "sqlite:%s/new.db", folder.path);
    assert_int_equal(weir_migrate(path, &applied, &error), WEIR_OK);
    assert_true(applied > 0);
    assert_int_equal(weir_migrate(path, &applied, &error), WEIR_OK);
    assert_int_equal(applied, 0);
}

static void an_enqueued_execution_can_be_shown_and_explained(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    struct weir_request request = greet();
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    assert_int_equal(strlen(id), WEIR_ID_SIZE - 1);
    assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK);
    assert_non_null(strstr(json, "\"status\":\"PENDING\""));
    assert_non_null(strstr(json, "\"params\":{\"name\":\"Ada\"}"));
    weir_free(json);
    assert_int_equal(weir_why(weir, id, &json, &error), WEIR_OK);
    assert_non_null(strstr(json, "\"pending_reason\":\"no_node_in_group\""));
    weir_free(json);
    assert_true(events_seen >= 1);
}

static void refusals_differ_by_their_status(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE] = "untouched";
    static const char owned[] = "name: private\nworkspace: acme\nsteps:\n  a: {handler: a}\n";
    assert_int_equal(weir_publish_workflow(weir, owned, 0, NULL, NULL, &error), WEIR_OK);
    assert_int_equal(weir_set_workspace(weir, "other", "pro", 0, &error), WEIR_OK);
    const struct {
        struct weir_request request;
        enum weir_status status;
    } cases[] = {
        {{.workspace = "nobody", .workflow = "greet"}, WEIR_WORKSPACE_NOT_FOUND},
        {{.workspace = "acme", .workflow = "grete"}, WEIR_WORKFLOW_NOT_FOUND},
        {{.workspace = "other", .workflow = "private"}, WEIR_WORKFLOW_NOT_YOURS},
        {{.workspace = "acme", .workflow = "greet", .params = "[1]"}, WEIR_INVALID_PARAMS},
        {{.workspace = "acme", .workflow = "greet", .params = "{"}, WEIR_INVALID_PARAMS},
        {{.workspace = "acme", .workflow = "greet", .id = "no id"}, WEIR_INVALID_ARGUMENT},
        {{.workspace = "acme", .workflow = "greet", .priority = 101}, WEIR_INVALID_ARGUMENT},
        {{.workspace = "acme"}, WEIR_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum weir_status status = weir_enqueue(weir, &cases[i].request, id, &error);
        assert_string_equal(weir_status_name(status), weir_status_name(cases[i].status));
        assert_int_equal(error.status, status);
        assert_string_equal(id, "untouched");
    }
    assert_int_equal(weir_enqueue(weir, NULL, id, NULL), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_enqueue(weir, &cases[0].request, id, NULL), WEIR_WORKSPACE_NOT_FOUND);
}

static void an_idempotency_key_gives_the_first_id_again(void **state)
{
    (void)state;
    char first[WEIR_ID_SIZE];
    char second[WEIR_ID_SIZE];
    struct weir_request request = greet();
    request.idempotency_key = "order-7";
    assert_int_equal(weir_enqueue(weir, &request, first, &error), WEIR_OK);
    assert_int_equal(weir_enqueue(weir, &request, second, &error), WEIR_OK);
    assert_string_equal(first, second);
    request.params = "{\"name\":\"Grace\"}";
    assert_int_equal(weir_enqueue(weir, &request, second, &error), WEIR_IDEMPOTENCY_KEY_REUSED);
}

static void a_refused_request_leaves_the_rest_of_its_set_alone(void **state)
{
    (void)state;
    struct weir_request requests[] = {greet(), greet(), greet()};
    struct weir_result results[3];
    requests[1].workflow = "nosuch";
    assert_int_equal(weir_enqueue_many(weir, requests, 3, results, &error), WEIR_OK);
    assert_int_equal(results[0].status, WEIR_OK);
    assert_int_equal(results[1].status, WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(results[2].status, WEIR_OK);
    assert_true(strcmp(results[0].id, results[2].id) < 0);
    assert_int_equal(weir_enqueue_many(weir, NULL, 0, NULL, &error), WEIR_OK);
    assert_int_equal(weir_enqueue_many(weir, NULL, 1, NULL, &error), WEIR_MISUSE);
    requests[2].workspace = NULL;
    assert_int_equal(weir_enqueue_many(weir, requests, 3, results, &error), WEIR_INVALID_ARGUMENT);
}

/* --- inside the caller's own transaction --- */

static sqlite3 *open_own(void)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(store_path, &database), SQLITE_OK);
    (void)sqlite3_busy_timeout(database, 2000);
    assert_int_equal(sqlite3_exec(database, "CREATE TABLE IF NOT EXISTS orders (n INTEGER)", NULL, NULL, NULL), SQLITE_OK);
    return database;
}

static void run_sql(sqlite3 *database, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
}

static bool exists(const char *id)
{
    char *json = NULL;
    enum weir_status status = weir_show(weir, id, &json, &error);
    weir_free(json);
    assert_true(status == WEIR_OK || status == WEIR_EXECUTION_NOT_FOUND);
    return status == WEIR_OK;
}

static void rollback_leaves_nothing_and_commit_enqueues(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    struct weir_request request = greet();
    sqlite3 *database = open_own();
    assert_int_equal(weir_enqueue_sqlite(database, &request, id, &error), WEIR_MISUSE);
    run_sql(database, "BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)");
    assert_int_equal(weir_enqueue_sqlite(database, &request, id, &error), WEIR_OK);
    assert_false(exists(id)); /* nobody else sees it yet */
    run_sql(database, "ROLLBACK");
    assert_false(exists(id));
    run_sql(database, "BEGIN IMMEDIATE; INSERT INTO orders VALUES (2)");
    assert_int_equal(weir_enqueue_sqlite(database, &request, id, &error), WEIR_OK);
    run_sql(database, "COMMIT");
    assert_true(exists(id));
    (void)sqlite3_close(database);
}

static void a_refusal_leaves_the_callers_transaction_as_it_was(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    struct weir_request bad = {.workspace = "acme", .workflow = "nosuch"};
    struct weir_request good = greet();
    sqlite3 *database = open_own();
    run_sql(database, "BEGIN; INSERT INTO orders VALUES (1)");
    assert_int_equal(weir_enqueue_sqlite(database, &bad, id, &error), WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(weir_enqueue_sqlite(database, &good, id, &error), WEIR_OK);
    run_sql(database, "COMMIT");
    assert_true(exists(id));
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(database, "SELECT count(*) FROM orders", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), 1);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database);
}

static void expect_group(const char *id, const char *group)
{
    char wanted[96];
    char *json = NULL;
    (void)snprintf(wanted, sizeof wanted, "\"executor_group\":\"%s\"", group);
    assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK);
    assert_non_null(strstr(json, wanted));
    weir_free(json);
}

static void a_request_without_a_group_goes_where_its_definition_says(void **state)
{
    (void)state;
    static const char bill[] = "{name: bill, executor_group: billing, steps: {s: {sleep: 1s}}}";
    static const char mine[] = "{name: mine, executor_group: mine, steps: {s: {sleep: 1s}}}";
    char id[WEIR_ID_SIZE];
    struct weir_request request = {.workspace = "acme", .workflow = "bill"};
    assert_int_equal(weir_publish_workflow(weir, bill, sizeof bill - 1, "bill.yaml", NULL, &error), WEIR_OK);
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    expect_group(id, "billing");
    sqlite3 *database = open_own();
    run_sql(database, "BEGIN IMMEDIATE");
    assert_int_equal(weir_enqueue_sqlite(database, &request, id, &error), WEIR_OK);
    run_sql(database, "COMMIT");
    expect_group(id, "billing");
    (void)sqlite3_close(database);
    request.group = "mine";
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_NOT_FOUND);
    assert_non_null(strstr(error.message, "\"mine\""));
    assert_int_equal(weir_publish_workflow(weir, mine, sizeof mine - 1, "mine.yaml", NULL, &error), WEIR_OK);
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    expect_group(id, "mine");
}

static void a_database_that_is_no_store_is_refused(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    struct weir_request request = greet();
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(":memory:", &database), SQLITE_OK);
    run_sql(database, "BEGIN");
    enum weir_status status = weir_enqueue_sqlite(database, &request, id, &error);
    assert_true(status != WEIR_OK);
    assert_true(error.message[0] != '\0');
    assert_true(weir_enqueue_sqlite(database, &request, id, NULL) != WEIR_OK);
    run_sql(database, "ROLLBACK");
    (void)sqlite3_close(database);
    assert_int_equal(weir_enqueue_sqlite(NULL, &request, id, &error), WEIR_MISUSE);
}

/* --- settings --- */

static void a_wrong_definition_is_refused_with_its_place(void **state)
{
    (void)state;
    struct weir_published published;
    static const char bad[] = "name: x\nsteps:\n  a: {handlr: a}\n";
    assert_int_equal(weir_publish_workflow(weir, bad, 0, "x.yaml", NULL, &error), WEIR_INVALID_DEFINITION);
    assert_non_null(strstr(error.message, "x.yaml:3:"));
    static const char strange[] = "name: x\nworkspace: nobody\nsteps:\n  a: {handler: a}\n";
    assert_int_equal(weir_publish_workflow(weir, strange, 0, "x.yaml", NULL, &error), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(error.message, "x.yaml:2:12: there is no workspace \"nobody\"");
    assert_int_equal(weir_publish_workflow(weir, workflow, 0, NULL, &published, &error), WEIR_OK);
    assert_true(published.unchanged && published.version == 1);
    static const char other[] = "name: greet\nsteps:\n  hello: {handler: greet}\n";
    assert_int_equal(weir_publish_workflow(weir, other, sizeof other - 1, NULL, &published, &error), WEIR_OK);
    assert_true(!published.unchanged && published.version == 2);
}

static void plans_and_workspaces_are_data(void **state)
{
    (void)state;
    assert_int_equal(weir_set_plan(weir, "gold", 50, 4, &error), WEIR_OK);
    assert_int_equal(weir_set_workspace(weir, "acme", "gold", 7, &error), WEIR_OK);
    assert_int_equal(weir_set_workspace(weir, "acme", NULL, -1, &error), WEIR_OK);
    assert_int_equal(weir_set_workspace(weir, "acme", "nosuch", 0, &error), WEIR_PLAN_NOT_FOUND);
    assert_int_equal(weir_pause_workspace(weir, "acme", true, &error), WEIR_OK);
    assert_int_equal(weir_pause_workspace(weir, "nobody", true, &error), WEIR_WORKSPACE_NOT_FOUND);
    char id[WEIR_ID_SIZE];
    char *why = NULL;
    struct weir_request request = greet();
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    assert_int_equal(weir_why(weir, id, &why, &error), WEIR_OK);
    assert_non_null(strstr(why, "\"pending_reason\":\"workspace_paused\""));
    weir_free(why);
}

/* --- looking, waiting, cancelling --- */

static void unknown_ids_are_not_found(void **state)
{
    (void)state;
    char *json = NULL;
    assert_int_equal(weir_show(weir, UNKNOWN_ID, &json, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_why(weir, UNKNOWN_ID, &json, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_cancel(weir, UNKNOWN_ID, NULL, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_signal(weir, UNKNOWN_ID, &(struct weir_signal_request){.name = "go"}, NULL, &error),
                     WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_signal(weir, UNKNOWN_ID, NULL, NULL, &error), WEIR_MISUSE);
    assert_int_equal(weir_decide(weir, UNKNOWN_ID, &(struct weir_decision){.approved = 1}, &error),
                     WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_decide(weir, UNKNOWN_ID, NULL, &error), WEIR_MISUSE);
    const struct weir_callback wrong = {.token = "no-token"};
    assert_int_equal(weir_call_back(weir, &wrong, NULL, &error), WEIR_NOT_FOUND);
    assert_int_equal(weir_call_back(weir, &(struct weir_callback){.output = "1"}, NULL, &error), WEIR_MISUSE);
    assert_int_equal(weir_call_back(weir, NULL, NULL, &error), WEIR_MISUSE);
    assert_int_equal(weir_wake_execution(weir, UNKNOWN_ID, NULL, NULL, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_wake_execution(weir, UNKNOWN_ID, "nap", NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_wake_execution(weir, NULL, NULL, NULL, &error), WEIR_MISUSE);
    assert_int_equal(weir_complete(weir, UNKNOWN_ID, NULL, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_complete(weir, NULL, NULL, &error), WEIR_MISUSE);
    assert_int_equal(weir_wait(weir, UNKNOWN_ID, 0, NULL, NULL, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(weir_show(weir, "zz", &json, &error), WEIR_INVALID_ARGUMENT);
    assert_null(json);
}

/* The beginning of an id means the one that has it now, or nobody; never whichever comes first. */
static void waiting_is_for_one_execution_and_no_other(void **state)
{
    (void)state;
    char ids[2][WEIR_ID_SIZE];
    char upper[WEIR_ID_SIZE];
    char start[7];
    enum weir_end end = WEIR_END_COMPLETED;
    struct weir_request request = greet();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_enqueue(weir, &request, ids[i], &error), WEIR_OK);
    }
    int64_t number = 0;
    const struct weir_signal_request go = {.name = "go", .data = "{}", .key = "k", .reason = "because"};
    assert_int_equal(weir_signal(weir, ids[1], &go, NULL, &error), WEIR_OK);
    assert_int_equal(weir_signal(weir, ids[1], &go, &number, &error), WEIR_OK);
    assert_int_equal(number, 1);
    assert_int_equal(weir_wake_execution(weir, ids[1], NULL, "because", &error), WEIR_ILLEGAL_STATE); /* no step waits */
    assert_int_equal(weir_cancel(weir, ids[1], NULL, &error), WEIR_OK);
    assert_int_equal(weir_signal(weir, ids[1], &(struct weir_signal_request){.name = "go"}, NULL, &error),
                     WEIR_ILLEGAL_STATE);
    (void)snprintf(start, sizeof start, "%s", ids[0]); /* of both: they were made within hours */
    const char *const wrong[] = {"", "0", "%", start, "no id at all"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(weir_wait(weir, wrong[i], 0, &end, NULL, &error), WEIR_INVALID_ARGUMENT);
        assert_true(error.hint[0] != '\0');
    }
    for (int i = 0; i < WEIR_ID_SIZE; i++) {
        upper[i] = (char)toupper((unsigned char)ids[1][i]);
    }
    assert_int_equal(weir_wait(weir, upper, 0, &end, NULL, &error), WEIR_OK);
    assert_int_equal(end, WEIR_END_CANCELLED);
    upper[WEIR_ID_SIZE - 2] = '\0';
    assert_int_equal(weir_wait(weir, upper, 0, &end, NULL, &error), WEIR_OK);
}

/* No descriptor is left, and so none by which to hear of changes: then it looks now and then, not all the time. */
static void a_wait_that_cannot_watch_the_file_does_not_look_all_the_time(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    struct rlimit before;
    struct weir_request request = greet();
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK); /* opens what a look needs */
    weir_free(json);
    int lowest_free = dup(0);
    assert_true(lowest_free > 0);
    (void)close(lowest_free);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)lowest_free, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    lists_seen = 0;
    enum weir_status status = weir_wait(weir, id, 1000000, NULL, NULL, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, WEIR_TIMED_OUT);
    assert_in_range(lists_seen, 1, 16); /* after 4 ms, 10, 19, 32 ..., at last one each 200 ms */
}

struct cancelling {
    char id[WEIR_ID_SIZE];
    enum weir_status status;
};

static void *cancel_later(void *context)
{
    struct cancelling *cancelling = context;
    (void)nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    cancelling->status = weir_cancel(weir, cancelling->id, "changed our mind", NULL);
    return NULL;
}

static void waiting_ends_with_the_execution_or_the_timeout(void **state)
{
    (void)state;
    pthread_t thread;
    struct cancelling cancelling;
    enum weir_end end = WEIR_END_COMPLETED;
    char *json = NULL;
    struct weir_request request = greet();
    assert_int_equal(weir_enqueue(weir, &request, cancelling.id, &error), WEIR_OK);
    assert_int_equal(weir_wait(weir, cancelling.id, 0, NULL, NULL, &error), WEIR_TIMED_OUT);
    assert_int_equal(weir_wait(weir, cancelling.id, 20000, NULL, NULL, &error), WEIR_TIMED_OUT);
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &cancelling), 0);
    assert_int_equal(weir_wait(weir, cancelling.id, 90 * 1000000LL, &end, &json, &error), WEIR_OK);
    (void)pthread_join(thread, NULL);
    assert_int_equal(cancelling.status, WEIR_OK);
    assert_int_equal(end, WEIR_END_CANCELLED);
    assert_non_null(strstr(json, "changed our mind"));
    weir_free(json);
    assert_int_equal(weir_cancel(weir, cancelling.id, NULL, &error), WEIR_ILLEGAL_STATE);
    assert_true(error.message[0] != '\0');
}

/* --- threads --- */

enum { THREADS = 8, PER_THREAD = 50 };

static void *enqueue_many_times(void *context)
{
    atomic_int *enqueued = context;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    struct weir_request request = greet();
    for (int i = 0; i < PER_THREAD; i++) {
        if (weir_enqueue(weir, &request, id, NULL) == WEIR_OK && weir_show(weir, id, &json, NULL) == WEIR_OK) {
            weir_free(json);
            *enqueued += 1;
        }
    }
    return NULL;
}

static void one_handle_serves_many_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    atomic_int enqueued = 0;
    char *text = NULL;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, enqueue_many_times, &enqueued), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    assert_int_equal(enqueued, THREADS * PER_THREAD);
    assert_int_equal(weir_metrics(weir, &text, &error), WEIR_OK);
    assert_non_null(strstr(text, "weir_executions_enqueued_total 400\n"));
    assert_non_null(strstr(text, "weir_workspace_pending{workspace=\"acme\"} 400\n"));
    assert_non_null(strstr(text, "weir_pending{reason=\"no_node_in_group\"} 400\n"));
    weir_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_agree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_open_names_the_fault, set_up, tear_down),
        cmocka_unit_test_setup_teardown(migrating_twice_applies_nothing_the_second_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_enqueued_execution_can_be_shown_and_explained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_differ_by_their_status, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_idempotency_key_gives_the_first_id_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_request_leaves_the_rest_of_its_set_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rollback_leaves_nothing_and_commit_enqueues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_leaves_the_callers_transaction_as_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_without_a_group_goes_where_its_definition_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_database_that_is_no_store_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_definition_is_refused_with_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_and_workspaces_are_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_ids_are_not_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiting_is_for_one_execution_and_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wait_that_cannot_watch_the_file_does_not_look_all_the_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiting_ends_with_the_execution_or_the_timeout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_handle_serves_many_threads, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
