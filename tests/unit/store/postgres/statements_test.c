/* Every statement is one that the server understands, and every kind of argument arrives as it was given. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "base/uuid.h"
#include "store/postgres/link/parameters.h"
#include "store/store.h"
#include "support/postgres_server.h"
#include "support/test.h"

enum { URL_SIZE = 256 };

static struct postgres_server server;
static struct address *address;
static PGconn *connection;

static int open_server(void **state)
{
    char url[URL_SIZE];
    struct weir_error error = {0};
    struct store *store = NULL;
    struct published published;
    struct workspace_change change = {.name = "acme", .paused = -1, .create = true};
    (void)state;
    postgres_server_open(&server, "fsync = off\n", false);
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .create = true, .deadline_us = 60 * MICROSECONDS_PER_SECOND};
    if (store_open(&options, &store, &error) != WEIR_OK || store_migrate(store, NULL, &error) != WEIR_OK ||
        store_publish(store, "hello", NULL, "{\"name\":\"hello\",\"steps\":{\"one\":{\"exec\":[\"true\"]}}}", NULL,
                      &published, &error) != WEIR_OK ||
        store_set_workspace(store, &change, &error) != WEIR_OK ||
        address_parse(url + strlen("postgres:"), &address, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    store_close(store);
    connection = PQconnectdb(url);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    /* The setting of a link: a name without its schema is not found. */
    PQclear(PQexec(connection, "SET search_path = pg_catalog; SET client_min_messages = warning"));
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    PQfinish(connection);
    address_release(address);
    postgres_server_close(&server);
    return 0;
}

/* --- plans --- */

static void run(const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
}

/* Blocks that the server looks at for a statement that is explained with its buffers. */
static long blocks_of(const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    long blocks = -1;
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    for (int row = 0; row < PQntuples(result) && blocks < 0; row++) {
        const char *line = PQgetvalue(result, row, 0);
        const char *hit = strstr(line, "Buffers: shared hit=");
        blocks = hit != NULL                         ? strtol(hit + strlen("Buffers: shared hit="), NULL, 10)
                 : strncmp(line, "Planning", 8) == 0 ? 0 /* it has looked at none */
                                                     : -1;
    }
    PQclear(result);
    assert_true(blocks >= 0);
    return blocks;
}

/* Blocks that the server looks at for the record of one item that is not there, with the run of a step that failed when
 * `function` is the one for such. */
static long blocks_of_a_record(const char *function, int kind)
{
    char sql[768];
    bool tells = strcmp(function, "record_events") == 0;
    (void)snprintf(sql, sizeof sql,
                   "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT * FROM weir.%s(1, "
                   "ARRAY['00000000-0000-7000-8000-000000000000'::uuid], '{1}', '{%d}', '{0}', '{-1}', '{NULL}', '{NULL}', "
                   "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', %s%s)",
                   function, kind,
                   tells ? "'{1}', '{one}', '{WAITING}', '{2}', '{1}', '{3}', '{0}', '{-1}', '{f}', '{NULL}', '{NULL}', "
                           "'{NULL}', '{NULL}'"
                         : "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'",
                   tells ? ", '{t}', '{1}', '{one}', '{2}', '{FAILED}', '{3}', '{exit_3}', '{NULL}'" : "");
    return blocks_of(sql);
}

/* The plans are made while the queue is empty, and stay until the server looks at the table again. */
static void a_record_reads_its_set_and_no_backlog(void **state)
{
    static const int kinds[] = {0, 1, 4, 5, 6, 9, 10};
    static const struct {
        const char *name;
        long blocks_most;
    } functions[] = {{"record", 20}, {"record_events", 30}};
    enum { BACKLOG = 2000, KINDS = sizeof kinds / sizeof kinds[0] };
    (void)state;
    run("ALTER TABLE weir.workflow_execution_queue SET (autovacuum_enabled = off)");
    run("ALTER TABLE weir.workflow_node_executions SET (autovacuum_enabled = off)");
    run("ALTER TABLE weir.workflow_execution_events SET (autovacuum_enabled = off)");
    run("VACUUM ANALYZE weir.workflow_execution_queue, weir.workflow_node_executions, weir.workflow_execution_events");
    for (size_t i = 0; i < 2 * KINDS; i++) {
        (void)blocks_of_a_record(functions[i / KINDS].name, kinds[i % KINDS]);
    }
    run("SELECT count(weir.enqueue('acme', 'hello')) FROM generate_series(1, 2000)");
    run("INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at, node_id, "
        "fence)"
        " SELECT id, 'one', 'RUNNING', 1, 0, 1, 1, 1 FROM weir.workflow_execution_queue");
    run("INSERT INTO weir.workflow_execution_events (execution_id, at, event)"
        " SELECT id, 1, 'hand_over' FROM weir.workflow_execution_queue");
    for (size_t i = 0; i < 2 * KINDS; i++) {
        long blocks = blocks_of_a_record(functions[i / KINDS].name, kinds[i % KINDS]);
        if (blocks > functions[i / KINDS].blocks_most) {
            fail_msg("%s of kind %d looks at %ld blocks beside %d items that wait", functions[i / KINDS].name,
                     kinds[i % KINDS], blocks, BACKLOG);
        }
    }
    run("DELETE FROM weir.workflow_node_executions; DELETE FROM weir.workflow_execution_events");
}

#define ID_NONE "'00000000-0000-0000-0000-000000000000'"
#define ID_LAST "'ffffffff-ffff-ffff-ffff-ffffffffffff'"

/* The conditions of choose_executions() that no test here has; of the query bulk_ids also no labels. */
#define NO_OTHERS ", NULL, 0, NULL, 0, 0, 0, NULL"
#define NO_LABELS NO_OTHERS ", 0, '{}', '{}', '{}'"
#define TYPES_OF_CHOICE                                                                                                    \
    "uuid, text, integer, text, text, text, text, bigint, bigint, bigint, bigint, uuid, integer, integer, text, integer, " \
    "uuid, uuid, integer, text, bigint, bigint, bigint, text, integer, text[], text[], text[]"

/* One of the two tables is read and this one is not, whether or not the plan was made for these arguments. */
static void assert_unread(const char *plans, int states, const char *unread)
{
    char sql[512];
    int scans = 0;
    (void)snprintf(sql, sizeof sql, "SET plan_cache_mode = %s", plans);
    run(sql);
    (void)snprintf(sql, sizeof sql,
                   "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE chosen "
                   "(" ID_NONE ", NULL, %d, NULL, NULL, NULL, NULL, 0, 9, 9, 9, " ID_NONE
                   ", 0, 0, NULL, 0, " ID_LAST NO_LABELS ")",
                   states);
    PGresult *result = PQexec(connection, sql);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    for (int row = 0; row < PQntuples(result); row++) {
        const char *line = PQgetvalue(result, row, 0);
        bool is_of_table = strstr(line, " on workflow_execution_queue q") != NULL || /* not its index, of a bitmap scan */
                           strstr(line, " on workflow_executions h") != NULL;
        scans += is_of_table && strstr(line, "never executed") == NULL;
        if (strstr(line, unread) != NULL && strstr(line, "never executed") == NULL) {
            fail_msg("%s plan for the states %d: %s", plans, states, line);
        }
    }
    assert_int_equal(scans, 1);
    PQclear(result);
}

/* Retention reads ended executions beside any backlog. */
static void a_choice_by_state_reads_only_the_table_of_that_state(void **state)
{
    char sql[16384];
    (void)state;
    int length = snprintf(sql, sizeof sql, "PREPARE chosen (" TYPES_OF_CHOICE ") AS %s",
                          address_query(address, QUERY_BULK_IDS)->text);
    assert_true(length > 0 && (size_t)length < sizeof sql);
    run(sql);
    static const char *const plans[] = {"force_generic_plan", "force_custom_plan"};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        assert_unread(plans[i], 16 | 32 | 64, " on workflow_execution_queue");
        assert_unread(plans[i], 1 | 2 | 4 | 8, " on workflow_executions");
    }
    run("DEALLOCATE chosen");
    run("RESET plan_cache_mode");
}

/* --- beside parked items --- */

#define EXPLAIN "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "

/* Parks copies of the only item of its workspace, with the lowest ids, so that they are the oldest rows. */
static void add_parked_rows(const char *workspace, int count)
{
    char sql[768];
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO weir.workflow_execution_queue SELECT r.* FROM weir.workflow_execution_queue q JOIN "
        "weir.workspaces w ON w.id = q.workspace_id AND w.name = '%s' CROSS JOIN generate_series(1, %d) n CROSS "
        "JOIN jsonb_populate_record(q, jsonb_build_object('id', '00000000-0000-7000-8000-' || lpad(n::text, 12, "
        "'0'), 'phase', 3, 'status', 'WAITING', 'waiting_for', 'sleep', 'due_at', 9000000000000000 + n, 'fence', "
        "1)) r WHERE q.phase = 0",
        workspace, count);
    run(sql);
}

/* Of the same plans, which the server made while nothing was parked. */
static void parked_rows_are_passed_by_no_statement_that_is_repeated(void **state)
{
    static const struct {
        const char *name;
        const char *sql;
    } statements[] = {
        {"status", EXPLAIN "EXECUTE status_of (10, 10000, 100, 20, 20, 100, 0)"},
        {"next_due", EXPLAIN "SELECT weir.next_due()"},
        {"promote_due", EXPLAIN "SELECT * FROM weir.promote_due(1, 1000)"},
        {"a list of held ones",
         EXPLAIN "SELECT * FROM weir.choose_executions(" ID_LAST ", " ID_NONE ", " ID_LAST
                 ", NULL, 6, NULL, NULL, NULL, NULL, 0, 9000000000000000000, 9223372036854775807, 100, 0,"
                 " 0, NULL, 0" NO_OTHERS ")"},
        {"a choice of held ones",
         EXPLAIN "EXECUTE chosen_by_state (" ID_NONE ", NULL, 6, NULL, NULL, NULL, NULL, 0,"
                 " 9000000000000000000, 9223372036854775807, 100, " ID_NONE ", 0, 0, NULL, 0, " ID_LAST NO_LABELS ")"},
        {"a choice of ended ones",
         EXPLAIN "EXECUTE chosen_by_state (" ID_NONE ", NULL, 112, NULL, NULL, NULL, NULL, 0,"
                 " 9000000000000000000, 9223372036854775807, 100, " ID_NONE ", 0, 0, NULL, 0, " ID_LAST NO_LABELS ")"},
        {"the order of the queue", EXPLAIN "EXECUTE runnable_in_order ('sleepers', 0, " ID_NONE ", 100)"},
        {"those that are due later", EXPLAIN "EXECUTE delayed_in_order ('sleepers', 0, " ID_NONE ", 100)"},
        {"the slots of a workspace", EXPLAIN "EXECUTE held_of_timeline ('sleepers', 100)"},
        {"the deletion of another workspace",
         EXPLAIN "SELECT * FROM weir.remove_workspace('other', true, 1000, NULL, NULL, true)"},
    };
    enum { COUNT = sizeof statements / sizeof statements[0], PARKED = 5000, SLACK = 15 };
    long before[COUNT];
    char sql[20000];
    (void)state;
    run("SELECT weir.change_workspace('other', NULL, 1, NULL, true), weir.change_workspace('sleepers', NULL, 1, NULL, "
        "true)");
    run("SELECT weir.enqueue('sleepers', 'hello'), weir.enqueue('other', 'hello')");
    (void)snprintf(sql, sizeof sql, "PREPARE status_of (bigint, bigint, bigint, bigint, bigint, bigint, bigint) AS %s",
                   address_query(address, QUERY_STATUS)->text);
    run(sql);
    (void)snprintf(sql, sizeof sql, "PREPARE chosen_by_state (" TYPES_OF_CHOICE ") AS %s",
                   address_query(address, QUERY_BULK_IDS)->text);
    run(sql);
    (void)snprintf(sql, sizeof sql, "PREPARE runnable_in_order (text, bigint, uuid, bigint) AS %s",
                   address_query(address, QUERY_QUEUE_ORDER_RUNNABLE)->text);
    run(sql);
    (void)snprintf(sql, sizeof sql, "PREPARE held_of_timeline (text, bigint) AS %s",
                   address_query(address, QUERY_SLOT_TIMELINE_HELD)->text);
    run(sql);
    (void)snprintf(sql, sizeof sql, "PREPARE delayed_in_order (text, bigint, uuid, bigint) AS %s",
                   address_query(address, QUERY_QUEUE_ORDER_DELAYED)->text);
    run(sql);
    run("SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan"); /* those of schedule() */
    for (size_t i = 0; i < 2 * (size_t)COUNT; i++) { /* the second time, with all of the catalogue in memory */
        run("BEGIN");
        before[i % COUNT] = blocks_of(statements[i % COUNT].sql);
        run("ROLLBACK");
    }
    add_parked_rows("sleepers", PARKED);
    for (size_t i = 0; i < COUNT; i++) {
        run("BEGIN");
        long blocks = blocks_of(statements[i].sql);
        run("ROLLBACK");
        if (blocks > before[i] + SLACK) {
            fail_msg("%s looks at %ld blocks beside %d parked items, and at %ld without", statements[i].name, blocks,
                     PARKED, before[i]);
        }
    }
    run("RESET ALL; SET search_path = pg_catalog; SET client_min_messages = warning; DEALLOCATE ALL");
}

/* `weir failures` reads dead letters, of which there may be few in a long history. */
/* Each with the plans that the server makes for all arguments, and for these. */
static void choices_read_few_blocks_of_a_long_history(void **state)
{
#define LIST(states, dismissed)                                                                                            \
    EXPLAIN "SELECT * FROM weir.choose_executions(" ID_LAST ", " ID_NONE ", " ID_LAST ", NULL, " states                    \
            ", NULL, NULL, NULL, NULL, 0, 9000000000000000000, 9223372036854775807, 100, 0, 0, NULL, " dismissed NO_OTHERS \
            ")"
    static const char *const choices[] = {
        LIST("127", "0"),
        LIST("1", "0"),
        LIST("7", "0"),
        LIST("16", "0"),
        LIST("32", "2"),
        LIST("0", "0"),
        EXPLAIN "EXECUTE chosen_one (" ID_NONE ", NULL, 127, NULL, NULL, NULL, NULL, 0, 9000000000000000000,"
                " 9223372036854775807, 2, '00000000-0000-7000-8000-000000010000', 0, 0, NULL, 0,"
                " '00000000-0000-7000-8000-000000010000'" NO_LABELS ")"};
    static const char *const plans[] = {"force_generic_plan", "force_custom_plan"};
    char sql[16384];
    (void)state;
    run("SET enable_seqscan = off; SET jit = off");
    run("INSERT INTO weir.workflow_executions (id, lane_id, definition_id, run_at, fence, node_id, created_at, "
        "finished_at, "
        "workspace_id, starts_refused, deferrals, handovers, interruptions, priority, has_params, status) "
        "SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, 1, 1, 1, 1, 1, 2, 1, 0, 0, 0, 0, 0, "
        "false, "
        "CASE WHEN n <= 3 THEN 'FAILED' ELSE 'COMPLETED' END FROM generate_series(1, 20000) n");
    run("ANALYZE weir.workflow_executions, weir.workflow_execution_queue");
    (void)snprintf(sql, sizeof sql, "PREPARE chosen_one (" TYPES_OF_CHOICE ") AS %s",
                   address_query(address, QUERY_BULK_IDS)->text);
    run(sql);
    long most = 0;
    size_t worst = 0;
    for (size_t i = 0; i < 2 * sizeof choices / sizeof choices[0]; i++) {
        (void)snprintf(sql, sizeof sql, "SET plan_cache_mode = %s", plans[i % 2]);
        run(sql);
        (void)blocks_of(choices[i / 2]);
        long blocks = blocks_of(choices[i / 2]);
        worst = blocks > most ? i / 2 : worst;
        most = blocks > most ? blocks : most;
    }
    run("DELETE FROM weir.workflow_executions WHERE lane_id = 1 AND run_at = 1");
    run("RESET ALL; SET search_path = pg_catalog; SET client_min_messages = warning; DEALLOCATE ALL");
    if (most > 60) {
        fail_msg("%ld blocks: %s", most, choices[worst]);
    }
#undef LIST
}

/* Of one value in one workspace the index has the order of the list. */
static void a_list_by_a_label_reads_no_other_labels(void **state)
{
    enum { ROWS = 20000, BLOCKS_MOST = 200 };
    char sql[1024];
    (void)state;
    run("SELECT weir.enqueue('acme', 'hello', labels => '{\"tier\": \"gold\"}') FROM generate_series(1, 3)");
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO weir.execution_labels SELECT gen_random_uuid(), w.id, 'tier', v.value "
        "FROM weir.workspaces w, generate_series(1, %d) n, (VALUES ('gol'), ('goldx')) v(value) WHERE w.name = 'acme'",
        ROWS);
    run(sql);
    run("ANALYZE weir.execution_labels");
    static const char *const orders[] = {"false, " ID_LAST, "true, " ID_NONE};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        (void)snprintf(
            sql, sizeof sql,
            EXPLAIN "SELECT * FROM weir.choose_labelled(1, %s, " ID_NONE ", " ID_LAST
                    ", 'acme', 127, NULL, NULL, NULL, NULL, 0, 9000000000000000000, 9223372036854775807, 50, 0, 0, NULL, "
                    "0, NULL, 0, NULL, 0, 0, 0, NULL, '{tier}', '{gold}', '{gold}')",
            orders[i]);
        (void)blocks_of(sql); /* the plans are made */
        assert_true(blocks_of(sql) <= BLOCKS_MOST);
    }
    run("DELETE FROM weir.execution_labels l WHERE NOT EXISTS "
        "(SELECT 1 FROM weir.workflow_execution_queue q WHERE q.id = l.execution_id)");
}

static void collect_plan(void *context, const PGresult *notice)
{
    struct text *plans = context;
    assert_int_equal(text_add_string(plans, PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY)), WEIR_OK);
}

/* The rows of schedules have their params. */
static void late_schedules_are_counted_by_an_index(void **state)
{
    char sql[20000];
    bool searches = false;
    (void)state;
    (void)snprintf(sql, sizeof sql, "PREPARE late (bigint, bigint, bigint, bigint, bigint, bigint, bigint) AS %s",
                   address_query(address, QUERY_STATUS)->text);
    run(sql);
    run("SET enable_seqscan = off; SET jit = off");
    PGresult *result = PQexec(connection, "EXPLAIN EXECUTE late (10, 10000, 100, 20, 20, 100, 0)");
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    for (int row = 0; row + 1 < PQntuples(result); row++) {
        searches = searches || (strstr(PQgetvalue(result, row, 0), "schedules_due") != NULL &&
                                strstr(PQgetvalue(result, row + 1, 0), "Index Cond") != NULL);
    }
    PQclear(result);
    run("RESET ALL; SET search_path = pg_catalog; SET client_min_messages = warning; DEALLOCATE ALL");
    assert_true(searches);
}

/* Each row is compared with no other: a burst that is due together costs each of its rows once. */
static void what_is_due_is_joined_with_nothing(void **state)
{
    struct text plans = {.max = 1024 * 1024};
    (void)state;
    PQnoticeReceiver receiver = PQsetNoticeReceiver(connection, collect_plan, &plans);
    run("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on");
    run("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off");
    run("BEGIN; SET LOCAL client_min_messages = log");
    run("SELECT * FROM weir.promote_due(9100000000000000, 1000)");
    run("ROLLBACK");
    (void)PQsetNoticeReceiver(connection, receiver, NULL);
    assert_non_null(plans.data);
    assert_non_null(strstr(plans.data, "Update on workflow_execution_queue"));
    assert_null(strstr(plans.data, "Join Filter"));
    text_close(&plans);
    run("RESET ALL; SET search_path = pg_catalog; SET client_min_messages = warning");
}

/* Rows that the nodes of these plans made or dropped, in all their loops. */
static double rows_of_plans(const char *plans)
{
    static const char actual[] = "(actual rows=";
    static const char removed[] = "Rows Removed by ";
    double sum = 0;
    double loops = 1;
    for (const char *at = plans; *at != '\0'; at++) {
        if (strncmp(at, actual, strlen(actual)) == 0) {
            char *end = NULL;
            double rows = strtod(at + strlen(actual), &end);
            loops = strncmp(end, " loops=", 7) == 0 ? strtod(end + 7, NULL) : 1;
            sum += rows * loops;
        } else if (strncmp(at, removed, strlen(removed)) == 0) {
            sum += strtod(strchr(at, ':') + 1, NULL) * loops;
        }
    }
    return sum;
}

/* A retry of a set costs each of its steps a bounded number of rows, however large the set is, with undos and without. */
static void kept_steps_are_compared_with_those_of_their_execution_alone(void **state)
{
    enum { EXECUTIONS = 400, STEPS = 20, ROWS_PER_STEP_MOST = 60 };
    struct text plans = {.max = 1024 * 1024};
    (void)state;
    run("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;"
        "SET LOCAL jit = off");
    run("UPDATE weir.workflow_definitions SET definition = (SELECT '{\"name\":\"hello\",\"steps\":{' || "
        "string_agg('\"s' || n || '\":{' || CASE WHEN n > 1 THEN '\"needs\":[\"s' || n - 1 || '\"],' ELSE '' END || "
        "'\"exec\":[\"true\"]}', ',') || '}}' FROM generate_series(1, 20) n) WHERE id = 1");
    run("INSERT INTO weir.workflow_executions (id, lane_id, definition_id, run_at, fence, node_id, created_at, "
        "finished_at, workspace_id, starts_refused, deferrals, handovers, interruptions, priority, has_params, status) "
        "SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, 1, 1, 1, 1, 1, 2, 1, 0, 0, 0, 0, 0, "
        "false, 'FAILED' FROM generate_series(1, 400) n");
    run("INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at, "
        "finished_at, "
        "node_id, fence) SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, s, 'COMPLETED', 1, 0, 1, 2, "
        "1, 1 "
        "FROM generate_series(1, 400) n, (SELECT 's' || m FROM generate_series(1, 19) m UNION ALL SELECT 's18.undo') t "
        "(s)");
    PQnoticeReceiver receiver = PQsetNoticeReceiver(connection, collect_plan, &plans);
    run("LOAD 'auto_explain'; SET LOCAL auto_explain.log_min_duration = 0; SET LOCAL auto_explain.log_analyze = on;"
        "SET LOCAL auto_explain.log_timing = off; SET LOCAL auto_explain.log_nested_statements = on");
    run("SET LOCAL client_min_messages = log");
    run("SELECT weir.keep_steps(array_agg(('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid), "
        "array_agg(('00000000-0000-7000-9000-' || lpad(n::text, 12, '0'))::uuid), NULL) FROM generate_series(1, 400) n");
    (void)PQsetNoticeReceiver(connection, receiver, NULL);
    PGresult *kept = PQexec(connection, "SELECT count(*) FROM weir.workflow_node_executions WHERE execution_id >= "
                                        "'00000000-0000-7000-9000-000000000000'");
    assert_string_equal(PQgetvalue(kept, 0, 0), "6800"); /* s1 to s17 of each */
    PQclear(kept);
    run("ROLLBACK");
    assert_non_null(plans.data);
    double rows = rows_of_plans(plans.data);
    text_close(&plans);
    if (rows < EXECUTIONS * STEPS || rows > (double)EXECUTIONS * STEPS * ROWS_PER_STEP_MOST) {
        fail_msg("%.0f rows for %d steps of %d executions", rows, STEPS, EXECUTIONS);
    }
}

/* --- statements --- */

/* Statements of several commands are sent by the simple protocol, never prepared. */
static bool is_a_batch(enum postgres_query query)
{
    return query == QUERY_BEGIN_SNAPSHOT || query == QUERY_BEGIN_MIGRATION || query == QUERY_CREATE_LEDGER ||
           query == QUERY_CREATE_LEDGER_IN_SCHEMA;
}

/* The types of the parameters come with the arguments, so here the server has to guess, and sometimes cannot. */
static bool is_a_guess(const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return sqlstate != NULL && words != NULL &&
           (strcmp(sqlstate, "42P18") == 0 || strcmp(sqlstate, "42P08") == 0 || strcmp(sqlstate, "42725") == 0 ||
            (strcmp(sqlstate, "42883") == 0 && strncmp(words, "operator does not exist", 23) == 0));
}

static void a_query_is_made_at_its_first_use(void **state)
{
    struct address *fresh = NULL;
    int made = 0;
    (void)state;
    assert_int_equal(address_parse("//host/base?schema=own", &fresh, NULL), WEIR_OK);
    for (int i = 0; i < QUERY_COUNT; i++) {
        made += fresh->queries[i] != NULL;
    }
    assert_int_equal(made, 2); /* the ends of a transaction */
    assert_non_null(strstr(address_query(fresh, QUERY_STATUS)->text, "\"own\"."));
    assert_ptr_equal(address_query(fresh, QUERY_STATUS), fresh->queries[QUERY_STATUS]);
    address_release(fresh);
}

static void every_statement_is_one_of_the_server(void **state)
{
    int failures = 0;
    (void)state;
    for (enum postgres_query each = 0; each < QUERY_COUNT; each++) {
        if (is_a_batch(each)) {
            continue;
        }
        assert_null(strstr(address_query(address, each)->text, ":schema"));
        PGresult *result = PQprepare(connection, postgres_queries[each].name, address_query(address, each)->text, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK && !is_a_guess(result)) {
            print_error("%s: %s", postgres_queries[each].name, PQresultErrorMessage(result));
            failures++;
        }
        PQclear(result);
    }
    assert_int_equal(failures, 0);
}

/* --- the session that a migration waits for --- */

/* Each of the other sessions has a transaction that is older than that of the holder. */
static PGconn *begin(const char *name, const char *sql)
{
    char url[URL_SIZE];
    char all[URL_SIZE];
    postgres_server_url(&server, "postgres", url, sizeof url);
    PGconn *session = PQconnectdb(url);
    (void)snprintf(all, sizeof all, "SET application_name = '%s'; BEGIN; %s", name, sql);
    PGresult *result = PQexec(session, all);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(session));
    }
    PQclear(result);
    return session;
}

static void the_holder_of_a_lock_is_the_session_that_migrates(void **state)
{
    (void)state;
    run("CREATE TABLE public.schema_migrations (version integer)");
    PGconn *elsewhere = begin("elsewhere", "LOCK TABLE public.schema_migrations");
    PGconn *reads = begin("reads", "LOCK TABLE weir.workspaces IN ACCESS SHARE MODE");
    PGconn *migrates = begin("migrates", "LOCK TABLE weir.schema_migrations IN SHARE ROW EXCLUSIVE MODE");
    PGresult *holder = PQexec(connection, address_query(address, QUERY_FIND_LOCK_HOLDER)->text);
    assert_int_equal(PQresultStatus(holder), PGRES_TUPLES_OK);
    assert_int_equal(PQntuples(holder), 1);
    assert_non_null(strstr(PQgetvalue(holder, 0, 0), "(migrates)"));
    assert_non_null(strstr(PQgetvalue(holder, 0, 0), "has a lock on \"schema_migrations\""));
    assert_int_equal(strtol(PQgetvalue(holder, 0, 1), NULL, 10), PQbackendPID(migrates));
    PQclear(holder);
    PQfinish(migrates);
    PQfinish(reads);
    PQfinish(elsewhere);
    run("DROP TABLE public.schema_migrations");
}

/* --- arguments --- */

static PGresult *ask(const char *sql, const char *types, ...)
{
    struct text scratch = {.max = 1024 * 1024};
    struct parameters parameters;
    struct weir_error error = {0};
    va_list values;
    va_start(values, types);
    enum weir_status status = parameters_encode(&parameters, &scratch, types, values, &error);
    va_end(values);
    if (status != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    PGresult *result = PQexecParams(connection, sql, parameters.count, parameters.types, parameters.values,
                                    parameters.lengths, parameters.formats, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQresultErrorMessage(result));
    }
    text_close(&scratch);
    return result;
}

static void single_arguments_arrive(void **state)
{
    struct arena arena;
    bool failed = false;
    size_t length = 0;
    int64_t number = -7;
    (void)state;
    arena_init(&arena, 65536);
    PGresult *result = ask("SELECT $1, $2, $3, $4, $5, $6, $7, $8", "txuipdob", "it's \\ \"text\"", "cut here", (size_t)3,
                           "01a1fd35-85c1-7000-9d6c-9c973e18bc4f", INT64_MIN, &number, -42, 1, "a\0b", (size_t)3);
    assert_string_equal(result_text(result, 0, 0), "it's \\ \"text\"");
    assert_string_equal(result_text(result, 0, 1), "cut");
    assert_string_equal(result_text(result, 0, 2), "01a1fd35-85c1-7000-9d6c-9c973e18bc4f");
    assert_true(result_int(result, 0, 3) == INT64_MIN);
    assert_int_equal(result_int(result, 0, 4), -7);
    assert_int_equal(result_int(result, 0, 5), -42);
    assert_true(result_bool(result, 0, 6));
    assert_memory_equal(result_bytes(result, 0, 7, &arena, &length, &failed), "a\0b", 3);
    assert_int_equal(length, 3);
    assert_false(failed);
    PQclear(result);
    arena_close(&arena);
}

static void absent_arguments_are_null(void **state)
{
    (void)state;
    PGresult *result = ask("SELECT $1, $2, $3, $4, $5", "txupb", NULL, NULL, (size_t)0, NULL, NULL, NULL, (size_t)0);
    for (int i = 0; i < 5; i++) {
        assert_true(result_null(result, 0, i));
        assert_null(result_text(result, 0, i));
    }
    PQclear(result);
}

static void arrays_arrive_in_their_order(void **state)
{
    static const char *const texts[] = {"a,b", NULL, "{\"x\"}", ""};
    static const char *const ids[] = {"01a1fd35-85c1-7000-9d6c-9c973e18bc4f", NULL, NULL, NULL};
    static const int64_t numbers[] = {INT64_MAX, 0, -1, INT64_MIN};
    static const int small[] = {INT32_MAX, 0, -1, INT32_MIN};
    static const bool flags[] = {true, false, true, true};
    static const struct link_bytes bytes[] = {{"\0\1", 2}, {NULL, 0}, {"", 0}, {"x", 1}};
    static const struct link_bytes cut[] = {{"cut here", 3}, {NULL, 0}, {"", 0}, {"x", 1}};
    (void)state;
    PGresult *result = ask("SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)", "TUIDOBX", texts, (size_t)4, ids, (size_t)4,
                           numbers, (size_t)4, small, (size_t)4, flags, (size_t)4, bytes, (size_t)4, cut, (size_t)4);
    static const char *const expected[4][7] = {
        {"a,b", "01a1fd35-85c1-7000-9d6c-9c973e18bc4f", "9223372036854775807", "2147483647", "t", "\\x0001", "cut"},
        {NULL, NULL, "0", "0", "f", NULL, NULL},
        {"{\"x\"}", NULL, "-1", "-1", "t", "\\x", ""},
        {"", NULL, "-9223372036854775808", "-2147483648", "t", "\\x78", "x"}};
    assert_int_equal(PQntuples(result), 4);
    for (int row = 0; row < 4; row++) {
        for (int column = 0; column < 7; column++) {
            const char *text = result_text(result, row, column);
            if (expected[row][column] == NULL) {
                assert_null(text);
            } else {
                assert_non_null(text);
                assert_string_equal(text, expected[row][column]);
            }
        }
    }
    PQclear(result);
}

static void empty_arrays_are_empty(void **state)
{
    (void)state;
    PGresult *result = ask("SELECT cardinality($1), cardinality($2), cardinality($3), cardinality($4)", "TUIB", NULL,
                           (size_t)0, NULL, (size_t)0, NULL, (size_t)0, NULL, (size_t)0);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(result_text(result, 0, i), "0");
    }
    PQclear(result);
}

static enum weir_status encode(const char *types, ...)
{
    struct text scratch = {.max = 64};
    struct parameters parameters;
    struct weir_error error = {0};
    va_list values;
    va_start(values, types);
    enum weir_status status = parameters_encode(&parameters, &scratch, types, values, &error);
    va_end(values);
    text_close(&scratch);
    return status;
}

static void an_argument_that_cannot_be_sent_is_refused(void **state)
{
    static const char *const wrong[] = {"not-an-id"};
    static const int64_t numbers[20] = {0};
    (void)state;
    assert_int_equal(encode("u", "not-an-id"), WEIR_INVALID_ARGUMENT);
    assert_int_equal(encode("U", wrong, (size_t)1), WEIR_INVALID_ARGUMENT);
    assert_int_equal(encode("I", numbers, (size_t)20), WEIR_OUT_OF_MEMORY);
}

/* --- windows --- */

/* The last id of a window of three rows that begins behind `from`; "" = there are fewer. Static buffer. */
static const char *window_end(enum postgres_query query, const char *from, const char *states)
{
    static char end[UUID_TEXT_MAX];
    const char *const values[] = {from, "2", states};
    PGresult *result = PQexecParams(connection, address_query(address, query)->text, 3, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s", PQerrorMessage(connection));
    }
    text_copy(end, sizeof end, PQgetvalue(result, 0, 0));
    PQclear(result);
    return end;
}

static void read_ids(const char *table, char ids[static 5][UUID_TEXT_MAX])
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT id FROM %s ORDER BY id", table);
    PGresult *result = PQexec(connection, sql);
    assert_int_equal(PQntuples(result), 5);
    for (int i = 0; i < 5; i++) {
        text_copy(ids[i], UUID_TEXT_MAX, PQgetvalue(result, i, 0));
    }
    PQclear(result);
}

/* Five rows of the history, and five newer ones of the queue. */
static void a_window_ends_with_the_nearer_of_queue_and_history(void **state)
{
    char ended[5][UUID_TEXT_MAX];
    char queued[5][UUID_TEXT_MAX];
    (void)state;
    run("DELETE FROM weir.workflow_execution_queue");
    run("DELETE FROM weir.workflow_executions");
    run("SELECT count(weir.enqueue('acme', 'hello')) FROM generate_series(1, 10)");
    run("SELECT weir.move_to_history(ARRAY(SELECT id FROM weir.workflow_execution_queue ORDER BY id LIMIT 5),"
        " 'CANCELLED', NULL, NULL, weir.store_time())");
    read_ids("weir.workflow_executions", ended);
    read_ids("weir.workflow_execution_queue", queued);
    assert_string_equal(window_end(QUERY_WINDOW_DESCENDING, UUID_LAST, "127"), queued[2]);
    assert_string_equal(window_end(QUERY_WINDOW_ASCENDING, UUID_FIRST, "127"), ended[2]);
    /* Of the states of the history alone, behind a row; and of those of the queue alone. */
    assert_string_equal(window_end(QUERY_WINDOW_DESCENDING, ended[4], "112"), ended[1]);
    assert_string_equal(window_end(QUERY_WINDOW_ASCENDING, ended[0], "112"), ended[3]);
    assert_string_equal(window_end(QUERY_WINDOW_ASCENDING, UUID_FIRST, "9"), queued[2]);
    assert_string_equal(window_end(QUERY_WINDOW_DESCENDING, queued[0], "9"), "");
}

static void read_one_id(const char *table, char *to)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT id FROM %s ORDER BY id LIMIT 1 OFFSET 250", table);
    PGresult *result = PQexec(connection, sql);
    assert_int_equal(PQntuples(result), 1);
    text_copy(to, UUID_TEXT_MAX, PQgetvalue(result, 0, 0));
    PQclear(result);
}

/* Else the time of a refusal over HTTP would show a tenant that the execution of another one exists. The plans of links are
 * those for any arguments, or made for these. An id that is found costs one block more: that of its row, because its
 * workspace is compared. */
static void an_id_of_another_workspace_reads_the_blocks_of_a_missing_one(void **state)
{
    static const char *const plans[] = {"force_generic_plan", "force_custom_plan"};
    enum { MISSING, QUEUED, ENDED, IDS };
    char ids[IDS][UUID_TEXT_MAX] = {[MISSING] = "01a215fd-f18a-7002-b43c-a0d8f870aebd"};
    char sql[2048];
    (void)state;
    run("SELECT weir.change_workspace('own', NULL, 1, NULL, true), weir.change_workspace('own-2', NULL, 1, NULL, true)");
    run("DELETE FROM weir.workflow_execution_queue; DELETE FROM weir.workflow_executions");
    run("SELECT count(weir.enqueue('acme', 'hello')) FROM generate_series(1, 1000)");
    run("SELECT weir.move_to_history(ARRAY(SELECT id FROM weir.workflow_execution_queue ORDER BY id LIMIT 500),"
        " 'CANCELLED', NULL, NULL, weir.store_time())");
    run("VACUUM ANALYZE weir.workflow_execution_queue, weir.workflow_executions, weir.workspaces");
    (void)snprintf(sql, sizeof sql, "PREPARE of_workspaces (uuid, text[]) AS %s",
                   address_query(address, QUERY_EXECUTION_IN_WORKSPACES)->text);
    run(sql);
    read_one_id("weir.workflow_execution_queue", ids[QUEUED]);
    read_one_id("weir.workflow_executions", ids[ENDED]);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        long blocks[IDS];
        (void)snprintf(sql, sizeof sql, "SET plan_cache_mode = %s", plans[i]);
        run(sql);
        for (size_t j = 0; j < 2 * (size_t)IDS; j++) { /* the second time, with all of the catalogue in memory */
            (void)snprintf(sql, sizeof sql, EXPLAIN "EXECUTE of_workspaces ('%s', '{own,own-2}')", ids[j % IDS]);
            blocks[j % IDS] = blocks_of(sql);
        }
        print_message("# %s: missing %ld, queued %ld, ended %ld blocks\n", plans[i], blocks[MISSING], blocks[QUEUED],
                      blocks[ENDED]);
        assert_in_range(blocks[QUEUED], blocks[MISSING], blocks[MISSING] + 1);
        assert_in_range(blocks[ENDED], blocks[MISSING], blocks[MISSING] + 1);
    }
    run("DEALLOCATE of_workspaces");
    run("RESET plan_cache_mode");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_made_at_its_first_use),
        cmocka_unit_test(every_statement_is_one_of_the_server),
        cmocka_unit_test(a_record_reads_its_set_and_no_backlog),
        cmocka_unit_test(a_choice_by_state_reads_only_the_table_of_that_state),
        cmocka_unit_test(parked_rows_are_passed_by_no_statement_that_is_repeated),
        cmocka_unit_test(choices_read_few_blocks_of_a_long_history),
        cmocka_unit_test(late_schedules_are_counted_by_an_index),
        cmocka_unit_test(what_is_due_is_joined_with_nothing),
        cmocka_unit_test(kept_steps_are_compared_with_those_of_their_execution_alone),
        cmocka_unit_test(the_holder_of_a_lock_is_the_session_that_migrates),
        cmocka_unit_test(single_arguments_arrive),
        cmocka_unit_test(a_list_by_a_label_reads_no_other_labels),
        cmocka_unit_test(absent_arguments_are_null),
        cmocka_unit_test(arrays_arrive_in_their_order),
        cmocka_unit_test(empty_arrays_are_empty),
        cmocka_unit_test(an_argument_that_cannot_be_sent_is_refused),
        cmocka_unit_test(a_window_ends_with_the_nearer_of_queue_and_history),
        cmocka_unit_test(an_id_of_another_workspace_reads_the_blocks_of_a_missing_one),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
