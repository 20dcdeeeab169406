/* The PostgreSQL driver for the conformance suite: one server per program, one database per scene. The migrations make one
 * database, and the scenes' are copies of it: to migrate takes longer than what most scenes do.
 *
 * The server runs with fsync off: these programs test what the statements mean, and thousands of commits a second are what
 * makes them quick. What survives a crash is tested with fsync on, by programs of their own
 * (tests/end_to_end/postgres_chaos.py, postgres_faults_test.py).
 *
 * The virtual clock: store time is the server's, so :schema.store_time() is replaced, as soon as a migration makes it, by
 * one that reads the one row of a table. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/driver_under_test.h"
#include "support/postgres_server.h"
#include "support/test.h"

#define EMPTY "empty"
#define MIGRATED "migrated"
#define SCHEMA "scene"
#define LEAVING_DEADLINE_US (60 * MICROSECONDS_PER_SECOND)
#define CALL_US (60 * MICROSECONDS_PER_SECOND) /* what a call means is tested here, and not how long it takes */
enum { URL_MAX = 200, FIRST_WITH_STRATEGY = 150000 };

static struct postgres_server server;
static PGconn *inside;    /* the scene's database; there is one scene at a time */
static pthread_t insider; /* the thread that may use it */

/* --- the server --- */

static const char *const preparations[] = {
    "CREATE TABLE public.clocks (now_us bigint NOT NULL)",
    /* Ours is replaced again and again: the trigger meets its own work, and knows it by its text. */
    "CREATE FUNCTION public.take_clock() RETURNS event_trigger LANGUAGE plpgsql AS $take$ "
    "DECLARE place text; "
    "BEGIN "
    "  FOR place IN SELECT n.nspname FROM pg_event_trigger_ddl_commands() d JOIN pg_proc p ON p.oid = d.objid "
    "    JOIN pg_namespace n ON n.oid = p.pronamespace "
    "    WHERE d.classid = 'pg_proc'::regclass AND p.proname = 'store_time' AND p.prosrc NOT LIKE '%public.clocks%' LOOP "
    "    EXECUTE format('CREATE OR REPLACE FUNCTION %I.store_time() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE "
    "      AS $body$ SELECT now_us FROM public.clocks $body$', place); "
    "  END LOOP; "
    "END $take$",
    "CREATE EVENT TRIGGER take_clock ON ddl_command_end EXECUTE FUNCTION public.take_clock()",
};

static PGresult *ask(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    return result;
}

static void run(PGconn *connection, const char *sql)
{
    PQclear(ask(connection, sql));
}

static PGconn *connect_to(const char *database)
{
    char url[URL_MAX];
    postgres_server_url(&server, database, url, sizeof url);
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK) {
        fail_msg("%s", PQerrorMessage(connection));
    }
    run(connection, "SET client_min_messages = warning");
    return connection;
}

static void store_url_of(const char *database, char *to, size_t size)
{
    char url[URL_MAX];
    postgres_server_url(&server, database, url, sizeof url);
    int length = snprintf(to, size, "%s&schema=" SCHEMA, url);
    assert_true(length > 0 && (size_t)length < size);
}

/* Only then may it be copied. */
static void await_nobody_in(const char *database)
{
    char sql[URL_MAX];
    int64_t until_us = clock_boot(clock_system()) + LEAVING_DEADLINE_US;
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = '%s'",
                   database);
    while (strcmp(postgres_server_ask(&server, "postgres", sql), "0") != 0) {
        assert_true(clock_boot(clock_system()) < until_us);
    }
}

static void copy_database(PGconn *connection, const char *from, const char *to)
{
    char sql[URL_MAX];
    /* File by file: the quicker way with so few pages, and before version 15 the only one. */
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE %s%s", to, from,
                   PQserverVersion(connection) >= FIRST_WITH_STRATEGY ? " STRATEGY file_copy" : "");
    run(connection, sql);
}

static void make_templates(PGconn *connection)
{
    char url[URL_MAX];
    char sql[URL_MAX];
    struct store_options options = {.url = url, .create = true, .deadline_us = CALL_US};
    struct store *store = NULL;
    struct weir_error error = {0};
    run(connection, "CREATE DATABASE " EMPTY);
    PGconn *within = connect_to(EMPTY);
    for (size_t i = 0; i < sizeof preparations / sizeof preparations[0]; i++) {
        run(within, preparations[i]);
    }
    (void)snprintf(sql, sizeof sql, "INSERT INTO public.clocks VALUES (%lld)", (long long)clock_wall(clock_system()));
    run(within, sql);
    PQfinish(within);
    await_nobody_in(EMPTY);
    copy_database(connection, EMPTY, MIGRATED);
    store_url_of(MIGRATED, url, sizeof url);
    if (store_open(&options, &store, &error) != WEIR_OK || store_migrate(store, NULL, &error) != WEIR_OK) {
        fail_msg("cannot migrate %s: %s", url, error.message);
    }
    store_close(store);
    await_nobody_in(MIGRATED);
}

static PGconn *owner(void)
{
    static PGconn *connection;
    if (server.guard == 0) {
        postgres_server_open(&server, "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n", false);
        connection = connect_to("postgres");
        make_templates(connection);
    }
    return connection;
}

/* --- the clock --- */

static int64_t read_wall(void *context)
{
    return ((struct virtual_clock *)context)->wall_us;
}

static int64_t read_boot(void *context)
{
    return ((struct virtual_clock *)context)->boot_us;
}

static void set_time(const struct driver_under_test *driver)
{
    char sql[100];
    (void)snprintf(sql, sizeof sql, "UPDATE public.clocks SET now_us = %lld", (long long)driver->time.wall_us);
    run(inside, sql);
}

void driver_set_clock(struct driver_under_test *driver, int64_t by_us)
{
    char sql[100];
    (void)driver;
    (void)snprintf(sql, sizeof sql, "UPDATE public.clocks SET now_us = now_us + %lld", (long long)by_us);
    run(inside, sql);
}

void driver_pass(struct driver_under_test *driver, int64_t duration_us)
{
    driver->time.wall_us += duration_us;
    driver->time.boot_us += duration_us;
    driver_set_clock(driver, duration_us);
}

/* --- the scene's database --- */

/* Bytes as text, also in a CAST: tests of what is stored read ASCII. */
static void prepare_to_look(PGconn *connection)
{
    run(connection, "SET search_path = " SCHEMA "; SET bytea_output = escape");
}

static void make_from(struct driver_under_test *driver, const char *database)
{
    static int count;
    PQfinish(inside); /* of a test that failed before its end */
    memset(driver, 0, sizeof *driver);
    driver->time.wall_us = clock_wall(clock_system());
    driver->time.boot_us = 1000000000;
    driver->time.clock = (struct clock){.wall_us = read_wall, .boot_us = read_boot, .context = &driver->time};
    (void)snprintf(driver->place, sizeof driver->place, "scene_%d", ++count);
    copy_database(owner(), database, driver->place);
    inside = connect_to(driver->place);
    insider = pthread_self();
    prepare_to_look(inside);
    set_time(driver);
    store_url_of(driver->place, driver->url, sizeof driver->url);
}

void driver_make(struct driver_under_test *driver)
{
    make_from(driver, EMPTY);
}

void driver_make_migrated(struct driver_under_test *driver)
{
    make_from(driver, MIGRATED);
}

void driver_remove(struct driver_under_test *driver)
{
    char sql[300];
    PQfinish(inside);
    inside = NULL;
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", driver->place);
    run(owner(), sql);
}

struct store *driver_open(struct driver_under_test *driver, struct event_bus *events)
{
    struct store_options options = {
        .url = driver->url, .create = true, .clock = &driver->time.clock, .events = events, .deadline_us = CALL_US};
    struct store *store = NULL;
    struct weir_error error = {0};
    if (store_open(&options, &store, &error) != WEIR_OK) {
        fail_msg("cannot open %s: %s", driver->url, error.message);
    }
    return store;
}

/* --- looking --- */

enum { TYPE_BOOL = 16, TYPE_BYTEA = 17, TYPE_INT8 = 20, TYPE_INT2 = 21, TYPE_INT4 = 23, TYPE_NUMERIC = 1700 };

static json_t *bytes_value(const char *text)
{
    size_t length = 0;
    unsigned char *bytes = PQunescapeBytea((const unsigned char *)text, &length);
    json_t *value = json_stringn_nocheck((const char *)bytes, length);
    PQfreemem(bytes);
    return value;
}

static json_t *column_value(const PGresult *result, int row, int column)
{
    const char *text = PQgetvalue(result, row, column);
    if (PQgetisnull(result, row, column) != 0) {
        return json_null();
    }
    switch (PQftype(result, column)) {
    case TYPE_BOOL:
        return json_integer(text[0] == 't'); /* as SQLite has it */
    case TYPE_INT2:
    case TYPE_INT4:
    case TYPE_INT8:
        return json_integer(strtoll(text, NULL, 10));
    case TYPE_NUMERIC: /* the sum of big integers */
        return strchr(text, '.') == NULL ? json_integer(strtoll(text, NULL, 10)) : json_real(strtod(text, NULL));
    case TYPE_BYTEA:
        return bytes_value(text);
    default:
        return json_stringn_nocheck(text, (size_t)PQgetlength(result, row, column));
    }
}

json_t *driver_rows(struct driver_under_test *driver, const char *sql)
{
    json_t *rows = json_array();
    bool is_insider = pthread_equal(insider, pthread_self()) != 0;
    PGconn *connection = is_insider ? inside : connect_to(driver->place);
    if (!is_insider) {
        prepare_to_look(connection);
    }
    PGresult *result = ask(connection, sql);
    for (int i = 0; i < PQntuples(result); i++) {
        json_t *row = json_object();
        for (int column = 0; column < PQnfields(result); column++) {
            (void)json_object_set_new_nocheck(row, PQfname(result, column), column_value(result, i, column));
        }
        (void)json_array_append_new(rows, row);
    }
    PQclear(result);
    if (!is_insider) {
        PQfinish(connection);
    }
    return rows;
}

int64_t driver_archived_steps(struct driver_under_test *driver)
{
    json_t *rows = driver_rows(driver, "SELECT count(*) AS count FROM " SCHEMA ".archived_steps");
    int64_t count = json_integer_value(json_object_get(json_array_get(rows, 0), "count"));
    json_decref(rows);
    return count;
}

/* Its id in binary form. */
void driver_item_key(struct driver_under_test *driver, const char *id, uint8_t *key)
{
    (void)driver;
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        unsigned byte = 0;
        id += *id == '-';
        assert_int_equal(sscanf(id, "%2x", &byte), 1);
        key[i] = (uint8_t)byte;
        id += 2;
    }
}

void driver_item_of_key(struct driver_under_test *driver, const uint8_t *key, char *id)
{
    (void)driver;
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        id += snprintf(id, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", key[i]);
    }
}

void driver_guard_caps(struct driver_under_test *driver)
{
    (void)driver;
    run(inside, "CREATE FUNCTION " SCHEMA ".guard_caps() RETURNS trigger LANGUAGE plpgsql AS $guard$ BEGIN "
                "  IF (SELECT count(*) FROM " SCHEMA ".workflow_execution_queue q "
                "      WHERE q.phase = 2 AND q.workspace_id = NEW.workspace_id) "
                "     > (SELECT w.slots_max FROM " SCHEMA ".workspaces w WHERE w.id = NEW.workspace_id) THEN "
                "    RAISE EXCEPTION 'more slots taken than there are'; END IF; "
                "  RETURN NULL; END $guard$; "
                /* Deferred to the end of the transaction, which sees every end that was committed before. */
                "CREATE CONSTRAINT TRIGGER guard_caps AFTER UPDATE OF phase ON " SCHEMA ".workflow_execution_queue "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.phase = 2 AND OLD.phase <> 2) "
                "EXECUTE FUNCTION " SCHEMA ".guard_caps()");
}

void driver_refuse(struct driver_under_test *driver, const char *id)
{
    (void)driver;
    static const struct {
        const char *name;
        const char *event;
        const char *column;
    } places[] = {{"refuse_change", "UPDATE ON " SCHEMA ".workflow_execution_queue", "id"},
                  {"refuse_step", "INSERT ON " SCHEMA ".workflow_node_executions", "execution_id"},
                  {"refuse_end", "INSERT ON " SCHEMA ".workflow_executions", "id"}};
    if (id == NULL) {
        run(inside, "DROP FUNCTION " SCHEMA ".refuse_row CASCADE");
        return;
    }
    run(inside, "CREATE FUNCTION " SCHEMA ".refuse_row() RETURNS trigger LANGUAGE plpgsql AS $refuse$ BEGIN "
                "  RAISE EXCEPTION 'not this one'; END $refuse$");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char sql[400];
        (void)snprintf(sql, sizeof sql,
                       "CREATE TRIGGER %s BEFORE %s FOR EACH ROW WHEN (NEW.%s = '%s') EXECUTE FUNCTION " SCHEMA
                       ".refuse_row()",
                       places[i].name, places[i].event, places[i].column, id);
        run(inside, sql);
    }
}
