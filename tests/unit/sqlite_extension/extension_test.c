/* The loadable extension, as a program with SQLite sees it. */
#include <sqlite3.h>
#include <weir/weir.h>

#include "support/folder.h"
#include "support/test.h"

#define SECOND_US ((int64_t)1000000)

static struct folder folder;
static char path[300];
static struct weir *weir;
static struct weir_error error;
static sqlite3 *database;
static char answer[4096]; /* the first column of the last statement's first row, or its error */

static sqlite3 *open_file(const char *file, const char *vfs)
{
    sqlite3 *opened = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open_v2(file, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs), SQLITE_OK);
    assert_int_equal(sqlite3_enable_load_extension(opened, 1), SQLITE_OK);
    if (sqlite3_load_extension(opened, getenv("WEIR_SQLITE_EXTENSION"), NULL, &message) != SQLITE_OK) {
        fail_msg("%s", message);
    }
    return opened;
}

static int set_up(void **state)
{
    (void)state;
    if (folder_make(&folder) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/weir.db", folder.path);
    if (weir_migrate(path, NULL, &error) != WEIR_OK || weir_open(path, NULL, &weir, &error) != WEIR_OK ||
        weir_set_workspace(weir, "acme", "pro", 0, &error) != WEIR_OK ||
        weir_publish_workflow(
            weir, "name: nap\nsteps:\n  only: {sleep: 1ms}\n  ask: {when: \"${.input.never == true}\", signal: go}\n", 0,
            NULL, NULL, &error) != WEIR_OK) {
        return -1;
    }
    database = open_file(path, NULL);
    (void)sqlite3_busy_timeout(database, 30000); /* a node writes at the same time */
    return sqlite3_exec(database, "CREATE TABLE orders (number INTEGER PRIMARY KEY, execution TEXT)", NULL, NULL, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    int code = sqlite3_close(database); /* SQLITE_BUSY if a call left a statement behind */
    weir_close(weir);
    folder_remove(&folder);
    return code == SQLITE_OK ? 0 : -1;
}

static bool try_on(sqlite3 *on, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    answer[0] = '\0';
    int code = sqlite3_prepare_v2(on, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL) {
            (void)snprintf(answer, sizeof answer, "%s", sqlite3_column_text(statement, 0));
        }
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        (void)snprintf(answer, sizeof answer, "%s", sqlite3_errmsg(on));
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

static const char *run(const char *sql)
{
    if (!try_on(database, sql)) {
        fail_msg("%s: %s", sql, answer);
    }
    return answer;
}

static void refused(const char *sql, const char *begin)
{
    if (try_on(database, sql) || strncmp(answer, begin, strlen(begin)) != 0) {
        fail_msg("%s: %s, not %s", sql, answer, begin);
    }
}

static int executions(void)
{
    return (int)strtol(run("SELECT count(*) FROM executions"), NULL, 10);
}

static void enqueue_in_a_transaction(const char *end)
{
    (void)run("BEGIN IMMEDIATE");
    (void)run("SELECT weir_enqueue('acme', 'nap', '{\"order\":42}', 'order-42')");
    assert_int_equal(strlen(answer), WEIR_ID_SIZE - 1);
    (void)run("INSERT INTO orders (number) VALUES (42)");
    assert_int_equal(executions(), 1); /* seen by the transaction itself */
    (void)run(end);
}

static void rollback_leaves_nothing_and_commit_enqueues(void **state)
{
    (void)state;
    enqueue_in_a_transaction("ROLLBACK");
    assert_int_equal(executions(), 0);
    enqueue_in_a_transaction("COMMIT");
    assert_int_equal(executions(), 1);
    assert_string_equal(run("SELECT count(*) FROM orders"), "1");
    assert_string_equal(run("SELECT idempotency_key FROM executions"), "order-42");
}

static void without_a_transaction_a_call_commits_by_itself(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    (void)snprintf(id, sizeof id, "%s", run("SELECT weir_enqueue('acme', 'nap')"));
    assert_int_equal(sqlite3_get_autocommit(database), 1);
    assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK);
    weir_free(json);
}

static void a_node_runs_what_was_committed(void **state)
{
    (void)state;
    struct weir_node *node = NULL;
    struct weir_node_options options = {.name = "tested", .poll_interval_us = 3600 * SECOND_US};
    char id[WEIR_ID_SIZE];
    enum weir_end end = WEIR_END_FAILED;
    assert_int_equal(weir_node_open(weir, &options, &node, &error), WEIR_OK);
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
    (void)snprintf(id, sizeof id, "%s", run("SELECT weir_enqueue('acme', 'nap')"));
    assert_int_equal(weir_wait(weir, id, 60 * SECOND_US, &end, NULL, &error), WEIR_OK);
    assert_int_equal(end, WEIR_END_COMPLETED);
    weir_node_close(node);
}

static void a_refusal_leaves_the_callers_transaction_as_it_was(void **state)
{
    (void)state;
    (void)run("BEGIN");
    (void)run("INSERT INTO orders (number) VALUES (1)");
    refused("SELECT weir_enqueue('acm', 'nap')", "workspace_not_found: there is no workspace \"acm\"");
    refused("SELECT weir_enqueue('acme', 'nap', '[]')", "params_invalid");
    (void)run("SELECT weir_enqueue('acme', 'nap')");
    (void)run("COMMIT");
    assert_string_equal(run("SELECT count(*) FROM orders"), "1");
    assert_int_equal(executions(), 1);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    refused("SELECT weir_enqueue(NULL, 'nap')", "invalid_argument: workspace must not be NULL");
    refused("SELECT weir_enqueue('acme', x'6e61')", "invalid_argument: workflow must be a text");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, 'a' || char(0) || 'b')",
            "invalid_argument: idempotency_key has a NUL");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, 101)", "invalid_argument: priority");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, 'high')", "invalid_argument: priority");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, 0, 'soon')", "invalid_argument: run_at");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, 0, NULL, 'nosuch')", "not_found");
    refused("SELECT weir_enqueue('acme')", "wrong number of arguments");
    refused("SELECT weir_cancel('zz')", "invalid_argument");
    refused("SELECT weir_cancel('01990000-0000-7000-8000-000000000000')", "execution_not_found");
    refused("SELECT weir_usage('nobody')", "workspace_not_found");
    assert_int_equal(executions(), 0);
    (void)run("SELECT weir_enqueue('acme', 'nap', '{}', 'k', 5, '2100-01-31T12:00:00Z', 'default', "
              "'01990000-0000-7000-8000-000000000001')");
    assert_string_equal(answer, "01990000-0000-7000-8000-000000000001");
    assert_string_equal(run("SELECT run_at FROM executions"), "2100-01-31T12:00:00.000000Z");
    assert_string_equal(run("SELECT priority FROM executions"), "5");
}

static void a_set_has_an_answer_for_each_request(void **state)
{
    (void)state;
    (void)run(
        "SELECT weir_enqueue_many('[{\"workspace\":\"acme\",\"workflow\":\"nap\",\"params\":{\"n\":1},\"priority\":3},"
        "{\"workspace\":\"acm\",\"workflow\":\"nap\"},"
        "{\"workspace\":\"acme\",\"workflow\":\"nap\",\"idempotency_key\":\"k\",\"run_at\":\"2100-01-01T00:00:00Z\"}]')");
    assert_non_null(strstr(answer, "{\"place\":1,\"code\":\"ok\",\"id\":\""));
    assert_non_null(strstr(answer, "{\"place\":2,\"code\":\"workspace_not_found\",\"id\":null"));
    assert_non_null(strstr(answer, "{\"place\":3,\"code\":\"ok\""));
    assert_int_equal(executions(), 2);
    assert_string_equal(
        run("SELECT json_extract(value, '$.duplicate') FROM json_each(weir_enqueue_many('[{\"workspace\":"
            "\"acme\",\"workflow\":\"nap\",\"idempotency_key\":\"k\",\"run_at\":\"2100-01-01T00:00:00Z\"}]'))"),
        "1");
    assert_string_equal(run("SELECT weir_enqueue_many('[]')"), "[]");
    refused("SELECT weir_enqueue_many('[1]')", "invalid_argument: request 1: it must be an object");
    refused("SELECT weir_enqueue_many('{}')", "invalid_argument: the requests must be an array");
    refused("SELECT weir_enqueue_many('[')", "invalid_argument");
    refused("SELECT weir_enqueue_many('[{\"workspace\":\"acme\"}]')", "invalid_argument: request 1: it needs a workspace");
    refused("SELECT weir_enqueue_many('[{\"workspace\":\"acme\",\"workflow\":\"nap\",\"prio\":1}]')",
            "invalid_argument: request 1: \"prio\" is no parameter");
    refused("SELECT weir_enqueue_many('[{\"workspace\":\"acme\",\"workflow\":7}]')",
            "invalid_argument: request 1: workflow");
    assert_int_equal(executions(), 2);
}

static void acts_belong_to_the_transaction_too(void **state)
{
    (void)state;
    char sql[200];
    char id[WEIR_ID_SIZE];
    (void)snprintf(id, sizeof id, "%s", run("SELECT weir_enqueue('acme', 'nap', NULL, NULL, 0, '2100-01-01T00:00:00Z')"));
    (void)run("BEGIN");
    (void)snprintf(sql, sizeof sql, "SELECT weir_cancel('%s', 'not wanted')", id);
    assert_string_equal(run(sql), id);
    assert_string_equal(run("SELECT status FROM executions"), "CANCELLED");
    (void)run("ROLLBACK");
    assert_string_equal(run("SELECT status FROM executions"), "PENDING");
    (void)snprintf(sql, sizeof sql, "SELECT weir_release('%s')", id);
    assert_string_equal(run(sql), id);
    (void)snprintf(sql, sizeof sql, "SELECT weir_retry('%s')", id);
    refused(sql, "illegal_state");
    (void)snprintf(sql, sizeof sql, "SELECT weir_cancel('%s')", id);
    (void)run(sql);
    (void)snprintf(sql, sizeof sql, "SELECT weir_dismiss('%s', 'by hand')", id);
    refused(sql, "illegal_state"); /* it was cancelled */
    (void)snprintf(sql, sizeof sql, "SELECT weir_retry('%s', 'again')", id);
    assert_string_not_equal(run(sql), id);
    assert_int_equal(executions(), 2);
    assert_string_equal(
        run("SELECT weir_signal((SELECT id FROM executions WHERE retry_of IS NOT NULL), 'go', '{\"n\":1}', 'k')"), "1");
    assert_string_equal(
        run("SELECT weir_signal((SELECT id FROM executions WHERE retry_of IS NOT NULL), 'go', '{\"n\":1}', 'k', 'why')"),
        "1");
    assert_string_equal(run("SELECT name || data || key FROM signals"), "go{\"n\":1}k");
    refused("SELECT weir_signal((SELECT id FROM executions WHERE retry_of IS NOT NULL), 'Go')", "invalid_argument");
    refused(sql, "conflict");
    refused("SELECT weir_approve(id) FROM executions WHERE retry_of IS NOT NULL", "illegal_state");
    refused("SELECT weir_reject(id, 'ask', 'no', 'why') FROM executions WHERE retry_of IS NOT NULL", "illegal_state");
    refused("SELECT weir_wake(id, 'sleep', 'why') FROM executions WHERE retry_of IS NOT NULL", "illegal_state");
    refused("SELECT weir_update(id, 'done', '{\"n\":1}', 'why') FROM executions WHERE retry_of IS NOT NULL",
            "illegal_state");
    refused("SELECT weir_update(id) FROM executions WHERE retry_of IS NOT NULL", "invalid_argument");
    refused("SELECT weir_update(id, 'done', NULL, NULL, 'No') FROM executions WHERE retry_of IS NOT NULL",
            "invalid_argument");
    refused("SELECT weir_wake(id, 'nap') FROM executions WHERE retry_of IS NOT NULL", "invalid_argument");
    refused("SELECT weir_migrate(id, 1, 'why') FROM executions WHERE retry_of IS NOT NULL", "illegal_state");
    refused("SELECT weir_migrate(id, '2') FROM executions WHERE retry_of IS NOT NULL", "invalid_argument");
    (void)run("SELECT weir_cancel(id) FROM executions WHERE retry_of IS NOT NULL");
    refused("SELECT weir_retry_from(id, 'no-step') FROM executions WHERE retry_of IS NOT NULL", "invalid_argument");
    (void)run("SELECT weir_retry_from(id, NULL, 'kept') FROM executions WHERE retry_of IS NOT NULL");
    assert_int_equal(executions(), 3);
    assert_string_equal(run("SELECT actor LIKE 'sql:%(%)@%' FROM execution_events WHERE event = 'cancel'"), "1");
    assert_string_equal(run("SELECT count(*) FROM audit WHERE act = 'retry' AND reason = 'again' AND affected = 1"), "1");
}

static void labels_are_a_part_of_the_transaction(void **state)
{
    (void)state;
    (void)run("BEGIN");
    (void)run(
        "SELECT weir_enqueue('acme', 'nap', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'order-17', '{\"tier\":\"gold\"}')");
    (void)run("ROLLBACK");
    assert_string_equal(run("SELECT count(*) FROM execution_labels"), "0");
    (void)run(
        "SELECT weir_enqueue('acme', 'nap', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'order-17', '{\"tier\":\"gold\"}')");
    (void)run("SELECT weir_enqueue_many('[{\"workspace\":\"acme\",\"workflow\":\"nap\",\"business_key\":\"order-18\","
              "\"labels\":{\"tier\":\"tin\"}}]')");
    assert_string_equal(run("SELECT group_concat(business_key || json_extract(labels, '$.tier'), ' ') FROM "
                            "(SELECT * FROM executions ORDER BY business_key)"),
                        "order-17gold order-18tin");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '')", "invalid_argument");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{\"Tier\":\"a\"}')",
            "invalid_argument");
    refused("SELECT weir_enqueue('acme', 'nap', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[1]')",
            "invalid_argument");
}

static void a_key_with_a_mode_is_a_part_of_the_transaction(void **state)
{
    (void)state;
#define KEYED(more) "SELECT weir_enqueue('acme', 'nap', NULL, 'doc-1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, " more ")"
    (void)run(KEYED("'replace'"));
    (void)run("BEGIN");
    (void)run(KEYED("'replace'"));
    assert_string_equal(run("SELECT count(*) FROM executions WHERE status = 'CANCELLED'"), "1");
    (void)run("ROLLBACK");
    assert_string_equal(run("SELECT count(*) FROM executions"), "1");
    assert_string_equal(run("SELECT count(*) FROM executions WHERE status = 'PENDING'"), "1");
    (void)run(KEYED("'debounce', '1h', '2h'"));
    (void)run(KEYED("'one_active'"));
    assert_string_equal(run("SELECT count(*) FROM executions"), "2");
    assert_string_equal(run("SELECT count(*) FROM executions WHERE status = 'CANCELLED'"), "1");
    refused(KEYED("'newest'"), "invalid_argument");
    refused(KEYED("'debounce', '0'"), "invalid_argument");
    refused(KEYED("NULL, '5s'"), "invalid_argument");
#undef KEYED
}

static void reading_sees_what_the_transaction_has_done(void **state)
{
    (void)state;
    (void)run("BEGIN");
    (void)run("SELECT weir_pause_workspace('acme', 'unpaid')");
    (void)run("INSERT INTO orders (execution) VALUES ('')");
    (void)run("SELECT weir_enqueue('acme', 'nap')");
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT json_extract(weir_why('%s'), '$.pending_reason')", answer);
    assert_string_equal(run(sql), "workspace_paused");
    assert_string_equal(run("SELECT json_extract(weir_usage('acme'), '$.pending')"), "1");
    assert_string_equal(run("SELECT json_extract(weir_show((SELECT id FROM executions)), '$.workspace')"), "acme");
    (void)run("SELECT weir_resume_workspace('acme')");
    (void)run("COMMIT");
    assert_string_equal(run("SELECT paused FROM workspaces"), "0");
    assert_string_equal(run("SELECT reason FROM audit WHERE act = 'workspace pause' AND subject = 'acme'"), "unpaid");
    assert_string_equal(run("SELECT count(*) FROM audit WHERE act = 'workspace resume' AND actor LIKE 'sql:%'"), "1");
}

static void workspaces_and_workflows_are_deleted_in_the_transaction(void **state)
{
    (void)state;
    char sql[200];
    (void)run("SELECT weir_disable_workflow('nap')");
    refused("SELECT weir_enqueue('acme', 'nap')", "workflow_disabled");
    (void)run("SELECT weir_enable_workflow('nap')");
    (void)run("SELECT weir_enqueue('acme', 'nap')");
    (void)snprintf(sql, sizeof sql, "SELECT weir_result('%s')", answer);
    refused(sql, "illegal_state");
    (void)run("UPDATE workspaces SET max_pending = 1, pending_max = 1");
    refused("SELECT weir_enqueue('acme', 'nap')", "queue_full");
    (void)run("UPDATE workspaces SET max_pending = NULL, pending_max = 0");
    refused("SELECT weir_delete_workflow('nap')", "illegal_state");
    refused("SELECT weir_delete_workspace('acme')", "illegal_state");
    (void)run("BEGIN");
    assert_string_equal(run("SELECT weir_delete_workspace('acme', 1, 0, 'left us')"), "1");
    refused("SELECT weir_enqueue('acme', 'nap')", "workspace_not_found");
    (void)run("ROLLBACK");
    assert_string_equal(run("SELECT status FROM executions"), "PENDING");
    assert_string_equal(run("SELECT weir_delete_workspace('acme', 1, 1)"), "1");
    assert_int_equal(executions(), 0);
    (void)run("SELECT weir_delete_workflow('nap')");
    refused("SELECT weir_enable_workflow('nap')", "workflow_not_found");
}

static void a_workspace_is_renamed_in_the_transaction(void **state)
{
    (void)state;
    (void)run("SELECT weir_enqueue('acme', 'nap')");
    refused("SELECT weir_rename_workspace('acm', 'x')", "workspace_not_found");
    refused("SELECT weir_rename_workspace('acme', '.')", "invalid_argument");
    refused("SELECT weir_rename_workspace('acme', NULL)", "invalid_argument");
    (void)run("BEGIN");
    assert_string_equal(run("SELECT weir_rename_workspace('acme', 'acme-eu', 'moved')"), "acme-eu");
    refused("SELECT weir_enqueue('acme', 'nap')", "workspace_not_found");
    assert_string_equal(run("SELECT workspace FROM executions"), "acme-eu");
    (void)run("ROLLBACK");
    assert_string_equal(run("SELECT workspace FROM executions"), "acme");
    assert_string_equal(run("SELECT weir_rename_workspace('acme', 'acme-eu')"), "acme-eu");
    assert_string_equal(run("SELECT subject || ' ' || coalesce(reason, '-') FROM audit WHERE act = 'workspace rename'"),
                        "acme -");
    (void)run("SELECT weir_rename_workspace('acme-eu', 'acme')");
}

/* Runs `act` at the start of the `at`th statement, also of those that a function runs. */
struct act_at {
    int at;
    int seen;
    void (*act)(void);
};

static int count_statement(unsigned type, void *context, void *statement, void *text)
{
    struct act_at *act_at = context;
    (void)type;
    (void)statement;
    (void)text;
    if (++act_at->seen == act_at->at) {
        act_at->act();
    }
    return 0;
}

static bool try_with_act(const char *sql, int at, void (*act)(void), bool *ret_has_acted)
{
    struct act_at act_at = {.at = at, .act = act};
    (void)sqlite3_trace_v2(database, SQLITE_TRACE_STMT, count_statement, &act_at);
    bool worked = try_on(database, sql);
    (void)sqlite3_trace_v2(database, 0, NULL, NULL);
    *ret_has_acted = act_at.seen >= at;
    return worked;
}

static void interrupt(void)
{
    sqlite3_interrupt(database);
}

static void an_interrupt_leaves_no_transaction_and_no_part_of_a_write(void **state)
{
    (void)state;
    int interrupted = 0;
    for (int i = 0; i < 2; i++) {
        bool has_acted = true;
        for (int at = 1; has_acted; at++) {
            (void)run(i == 0 ? "SELECT 1" : "BEGIN IMMEDIATE");
            int before = executions();
            bool worked = try_with_act("SELECT weir_enqueue('acme', 'nap')", at, interrupt, &has_acted);
            interrupted += !worked;
            assert_int_equal(executions(), before + worked);
            assert_true(i == 1 || sqlite3_get_autocommit(database) == 1);
            (void)run(sqlite3_get_autocommit(database) == 1 ? "SELECT 1" : "ROLLBACK");
        }
    }
    assert_true(interrupted > 10);
}

static char cancelled[WEIR_ID_SIZE];

static void cancel_elsewhere(void)
{
    if (weir_cancel(weir, cancelled, "not wanted", &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
}

static void a_call_that_reads_sees_one_state(void **state)
{
    (void)state;
    bool has_acted = true;
    char sql[100];
    for (int at = 2; has_acted; at++) {
        (void)snprintf(cancelled, sizeof cancelled, "%s", run("SELECT weir_enqueue('acme', 'nap')"));
        (void)snprintf(sql, sizeof sql, "SELECT weir_show('%s')", cancelled);
        assert_true(try_with_act(sql, at, cancel_elsewhere, &has_acted));
        bool is_pending = strstr(answer, "\"status\":\"PENDING\"") != NULL;
        bool has_event = strstr(answer, "not wanted") != NULL;
        assert_true(is_pending != has_event);
    }
}

static void a_transaction_that_was_overtaken_gets_the_hint(void **state)
{
    (void)state;
    struct weir_request request = {.workspace = "acme", .workflow = "nap"};
    char id[WEIR_ID_SIZE];
    (void)run("BEGIN");
    assert_int_equal(executions(), 0);
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
    refused("SELECT weir_enqueue('acme', 'nap')", "store_busy");
    assert_non_null(strstr(answer, "BEGIN IMMEDIATE"));
    (void)run("ROLLBACK");
    assert_int_equal(executions(), 1);
}

static void a_call_inside_a_statement_that_writes_is_refused(void **state)
{
    (void)state;
    refused("INSERT INTO orders SELECT 1, weir_enqueue('acme', 'nap')", "misuse: a statement that writes is running");
    assert_int_equal(executions(), 0);
    assert_string_equal(run("SELECT count(*) FROM orders"), "0");
    (void)run("CREATE TRIGGER t AFTER INSERT ON orders BEGIN SELECT weir_enqueue('acme', 'nap'); END");
    refused("INSERT INTO orders (number) VALUES (2)", "unsafe use of weir_enqueue()");
}

static void a_connection_that_nodes_could_not_share_is_refused(void **state)
{
    (void)state;
    char other[330];
    (void)snprintf(other, sizeof other, "%s/other.db", folder.path);
    sqlite3 *connection = open_file(other, NULL);
    assert_false(try_on(connection, "SELECT weir_enqueue('acme', 'nap')"));
    assert_non_null(strstr(answer, "is not a weir store"));
    assert_int_equal(sqlite3_close(connection), SQLITE_OK);
    connection = open_file(path, NULL);
    assert_true(try_on(connection, "PRAGMA locking_mode=exclusive"));
    assert_false(try_on(connection, "SELECT weir_enqueue('acme', 'nap')"));
    assert_non_null(strstr(answer, "locking_mode"));
    assert_int_equal(sqlite3_close(connection), SQLITE_OK);
    connection = open_file(path, NULL);
    assert_int_equal(sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL), SQLITE_OK);
    assert_false(try_on(connection, "SELECT weir_enqueue('acme', 'nap')"));
    assert_non_null(strstr(answer, "runs no triggers"));
    assert_int_equal(sqlite3_close(connection), SQLITE_OK);
    connection = open_file(other, "unix-dotfile");
    assert_true(try_on(connection, "PRAGMA application_id=0x77656972"));
    assert_false(try_on(connection, "SELECT weir_enqueue('acme', 'nap')"));
    assert_non_null(strstr(answer, "unix-dotfile"));
    assert_int_equal(sqlite3_close(connection), SQLITE_OK);
}

static void a_schema_of_another_version_is_refused(void **state)
{
    (void)state;
    (void)run("PRAGMA user_version=99");
    refused("SELECT weir_enqueue('acme', 'nap')", "schema_newer");
    (void)run("PRAGMA user_version=0");
    refused("SELECT weir_enqueue('acme', 'nap')", "schema_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rollback_leaves_nothing_and_commit_enqueues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_transaction_a_call_commits_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_runs_what_was_committed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_leaves_the_callers_transaction_as_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(arguments_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_has_an_answer_for_each_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acts_belong_to_the_transaction_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_are_a_part_of_the_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_key_with_a_mode_is_a_part_of_the_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reading_sees_what_the_transaction_has_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(workspaces_and_workflows_are_deleted_in_the_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_workspace_is_renamed_in_the_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_that_was_overtaken_gets_the_hint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_that_reads_sees_one_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_interrupt_leaves_no_transaction_and_no_part_of_a_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_inside_a_statement_that_writes_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_that_nodes_could_not_share_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_schema_of_another_version_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("sqlite_extension", tests, NULL, NULL);
}
