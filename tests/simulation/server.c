/* The store's database on a PostgreSQL server of the program's own, whose clock is ours.
 *
 * Each process starts one server with its first run: transactions of other databases of a server are in the snapshots that
 * weir keeps, so that a seed replays only without them. One database is migrated and observed; each run has a copy of it.
 *
 * The clock: after the migration, :schema.store_time() is replaced in that database by a function that reads a file. The
 * file is named after the database, and the run that the database belongs to writes its virtual time there. The function
 * costs no query, so that time may pass between any two calls. The uuids that the server draws come from a sequence, so
 * that a seed replays. Plans of children are read in parts of one to three rows. Nothing of weir but these functions is
 * another one than in production.
 *
 * Each node has a role of its own, by which its sessions are found: to end them, and to wait until they are gone. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "simulation/simulation.h"
#include "support/postgres_server.h"

#define MIGRATED "simulation_migrated"
enum { SQL_MAX = 512, SILENCE_TRIES_MOST = 60000, FIRST_WITH_STRATEGY = 150000 };

static struct postgres_server server;
static FILE *clock_file;

/* --- what the database has beside the schema --- */

static const char *const preparations[] = {
    "SET search_path = weir",
    "CREATE TABLE simulation_changes (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text NOT NULL, id text,"
    " status text, workspace_id bigint, lane_id bigint, node_id bigint, fence bigint, phase bigint, rank bigint,"
    " due_at bigint, run_at bigint, priority bigint, starts_refused bigint, deferrals bigint, handovers bigint,"
    " cancel_at bigint, waiting_for text, extra text)",
    "CREATE FUNCTION note_queue() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, status, workspace_id, lane_id, node_id, fence, phase, rank, due_at,"
    "  run_at, priority, starts_refused, deferrals, handovers, cancel_at, waiting_for, extra)"
    " VALUES ('queue' || TG_ARGV[0], r.id,"
    "  r.status, r.workspace_id, r.lane_id, r.node_id, r.fence, r.phase, r.rank, r.due_at, r.run_at, r.priority, "
    "r.starts_refused,"
    "  r.deferrals, r.handovers, r.cancel_at, r.waiting_for, CASE WHEN r.retry_of IS NULL THEN r.idempotency_key"
    "  ELSE 'retry of ' || r.retry_of END);"
    /* The end of a wait that is on record in the row alone. */
    " IF TG_OP = 'UPDATE' AND r.parked_fence IS NOT NULL AND r.woken_at IS NOT NULL AND OLD.woken_at IS NULL THEN"
    "  INSERT INTO weir.simulation_changes (what, id, node_id, fence, extra)"
    "  VALUES ('event+', r.id, 0, r.parked_fence, 'wake'); END IF;"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s1 AFTER INSERT ON workflow_execution_queue FOR EACH ROW EXECUTE FUNCTION note_queue('+')",
    "CREATE TRIGGER s2 AFTER UPDATE ON workflow_execution_queue FOR EACH ROW EXECUTE FUNCTION note_queue('=')",
    "CREATE TRIGGER s3 AFTER DELETE ON workflow_execution_queue FOR EACH ROW EXECUTE FUNCTION note_queue('-')",
    "CREATE FUNCTION note_history() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, status, workspace_id, fence, node_id, due_at, starts_refused,"
    "  handovers, extra) VALUES ('history' || TG_ARGV[0], r.id, r.status, r.workspace_id, r.fence, r.node_id, "
    "r.finished_at,"
    "  r.starts_refused, r.handovers, r.error_code);"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s4 AFTER INSERT ON workflow_executions FOR EACH ROW EXECUTE FUNCTION note_history('+')",
    "CREATE TRIGGER s5 AFTER UPDATE ON workflow_executions FOR EACH ROW EXECUTE FUNCTION note_history('=')",
    "CREATE TRIGGER s6 AFTER DELETE ON workflow_executions FOR EACH ROW EXECUTE FUNCTION note_history('-')",
    "CREATE FUNCTION note_setting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF TG_TABLE_NAME = 'workspaces' THEN"
    "  INSERT INTO weir.simulation_changes (what, id, workspace_id, rank, phase, priority)"
    "  VALUES ('workspace', NEW.name, NEW.id, NEW.slots_max, NEW.paused::integer, NEW.weight);"
    " ELSIF TG_TABLE_NAME = 'executor_groups' THEN"
    "  INSERT INTO weir.simulation_changes (what, id, phase) VALUES ('group', NEW.name, NEW.paused::integer);"
    " ELSE INSERT INTO weir.simulation_changes (what, phase) VALUES ('paused', NEW.queue_paused::integer);"
    " END IF; RETURN NULL; END $$",
    "CREATE TRIGGER s7 AFTER INSERT OR UPDATE ON workspaces FOR EACH ROW EXECUTE FUNCTION note_setting()",
    "CREATE TRIGGER s9 AFTER UPDATE OF paused ON executor_groups FOR EACH ROW EXECUTE FUNCTION note_setting()",
    "CREATE TRIGGER s10 AFTER UPDATE OF queue_paused ON store_state FOR EACH ROW EXECUTE FUNCTION note_setting()",
    "CREATE FUNCTION note_event() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, node_id, fence, extra)"
    " VALUES ('event' || TG_ARGV[0], r.execution_id, r.node_id, r.fence, r.event); RETURN NULL; END $$",
    "CREATE TRIGGER s11 AFTER INSERT ON workflow_execution_events FOR EACH ROW EXECUTE FUNCTION note_event('+')",
    "CREATE TRIGGER s12 AFTER UPDATE ON workflow_execution_events FOR EACH ROW EXECUTE FUNCTION note_event('=')",
    "CREATE TRIGGER s13 AFTER DELETE ON workflow_execution_events FOR EACH ROW EXECUTE FUNCTION note_event('-')",
    "CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO weir.simulation_changes (what, id, extra) VALUES ('step=', NEW.execution_id, NEW.step);"
    " RETURN NULL; END $$",
    /* The transaction of an end writes the starter of the attempt in a statement of its own. */
    "CREATE TRIGGER s14 AFTER UPDATE ON workflow_node_executions FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL"
    " AND (OLD.status, OLD.attempt, OLD.failures, OLD.finished_at, OLD.node_id, OLD.fence, OLD.output, OLD.variables,"
    "  OLD.error_code, OLD.error) IS DISTINCT FROM (NEW.status, NEW.attempt, NEW.failures, NEW.finished_at, NEW.node_id,"
    "  NEW.fence, NEW.output, NEW.variables, NEW.error_code, NEW.error))"
    " EXECUTE FUNCTION note_step()",
    "CREATE FUNCTION note_firing() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, status, workspace_id, rank, due_at, run_at, phase)"
    " VALUES ('firing' || TG_ARGV[0], r.planned_id, r.execution_id, r.workspace_id, r.schedule_id, r.due_at, r.created_at,"
    "  r.is_triggered::integer); RETURN NULL; END $$",
    "CREATE TRIGGER s15 AFTER INSERT ON schedule_firings FOR EACH ROW EXECUTE FUNCTION note_firing('+')",
    "CREATE TRIGGER s16 AFTER UPDATE ON schedule_firings FOR EACH ROW EXECUTE FUNCTION note_firing('=')",
    "CREATE TRIGGER s17 AFTER DELETE ON schedule_firings FOR EACH ROW EXECUTE FUNCTION note_firing('-')",
    "CREATE FUNCTION note_schedule() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO weir.simulation_changes (what, id, rank, due_at, phase, fence, node_id, lane_id, priority)"
    " VALUES ('schedule', NEW.name, NEW.id, NEW.due_at, NEW.paused::integer, NEW.fired, NEW.skipped, NEW.dropped,"
    "  NEW.refused); RETURN NULL; END $$",
    "CREATE TRIGGER s18 AFTER INSERT OR UPDATE ON schedules FOR EACH ROW EXECUTE FUNCTION note_schedule()",
    "CREATE FUNCTION as_json(b bytea) RETURNS json LANGUAGE sql AS $$ SELECT convert_from(b, 'UTF8')::json $$",
    "CREATE FUNCTION note_machine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO weir.simulation_changes (what, id, status, rank, fence, priority, due_at, waiting_for, extra)"
    " VALUES ('machine', NEW.execution_id, NEW.status, NEW.attempt, NEW.fence, NEW.failures, NEW.due_at, NEW.signal,"
    "  json_build_object('machine', weir.as_json(NEW.variables), 'output', weir.as_json(NEW.output))::text);"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s20 AFTER INSERT OR UPDATE ON workflow_node_executions FOR EACH ROW WHEN (NEW.step = 'state')"
    " EXECUTE FUNCTION note_machine()",
    "CREATE FUNCTION note_last_machine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO weir.simulation_changes (what, id, status, rank, fence, priority, extra)"
    " VALUES ('machine', NEW.id, NEW.step_status, NEW.step_attempt, NEW.fence, NEW.step_failures,"
    "  json_build_object('machine', weir.as_json(NEW.step_variables), 'output', weir.as_json(NEW.step_output))::text);"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s22 AFTER INSERT ON workflow_executions FOR EACH ROW WHEN (NEW.step = 'state')"
    " EXECUTE FUNCTION note_last_machine()",
    "CREATE FUNCTION note_action() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, status, rank, fence, node_id, extra)"
    " VALUES ('action' || TG_ARGV[0], r.execution_id, r.outcome, r.action, r.fence, r.node_id,"
    "  json_build_object('state', r.state, 'next', r.next_state, 'actor', r.actor)::text); RETURN NULL; END $$",
    "CREATE TRIGGER s23 AFTER INSERT ON workflow_actions FOR EACH ROW EXECUTE FUNCTION note_action('+')",
    "CREATE TRIGGER s24 AFTER UPDATE ON workflow_actions FOR EACH ROW EXECUTE FUNCTION note_action('=')",
    "CREATE TRIGGER s25 AFTER DELETE ON workflow_actions FOR EACH ROW EXECUTE FUNCTION note_action('-')",
    "CREATE FUNCTION note_signal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO weir.simulation_changes (what, id, status, rank, phase, extra)"
    " VALUES ('signal' || TG_ARGV[0], NEW.execution_id, NEW.name, NEW.seq,"
    "  CASE WHEN TG_OP = 'UPDATE' THEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)::integer END, NEW.data);"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s26 AFTER INSERT ON signals FOR EACH ROW EXECUTE FUNCTION note_signal('+')",
    "CREATE TRIGGER s27 AFTER UPDATE ON signals FOR EACH ROW EXECUTE FUNCTION note_signal('=')",
    "CREATE SEQUENCE simulation_ids",
    "DO $do$ DECLARE drawing oid; BEGIN"
    " FOR drawing IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'weir'::regnamespace AND p.prosrc ~ 'random' LOOP"
    "  EXECUTE replace(pg_get_functiondef(drawing), 'gen_random_uuid()',"
    "   'md5(nextval(''weir.simulation_ids'')::text)::uuid');"
    " END LOOP;"
    " IF NOT FOUND OR EXISTS (SELECT 1 FROM pg_proc p WHERE p.pronamespace = 'weir'::regnamespace AND p.prosrc ~ 'random')"
    " THEN RAISE 'a function draws otherwise'; END IF; END $do$",
};

/* Steps with children, and the waits of such steps: in fleets that have some. */
static const char *const children_preparations[] = {
    "CREATE FUNCTION note_family() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, status, fence, phase, rank, due_at, run_at, node_id, deferrals,"
    "  priority, lane_id, starts_refused, handovers, waiting_for, extra)"
    " VALUES ('family' || TG_ARGV[0], r.parent_id, r.step, r.count, r.is_settled::integer, r.started, r.ended, r.completed,"
    "  r.cancelled_to, r.depth, r.leaves::integer, r.wanted, r.max_parallel, r.waits_for_all::integer, r.problem,"
    "  r.planned || CASE WHEN r.rest IS NULL THEN '' ELSE ' with a rest' END);"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s30 AFTER INSERT ON child_steps FOR EACH ROW EXECUTE FUNCTION note_family('+')",
    "CREATE TRIGGER s31 AFTER UPDATE ON child_steps FOR EACH ROW EXECUTE FUNCTION note_family('=')",
    "CREATE TRIGGER s32 AFTER DELETE ON child_steps FOR EACH ROW EXECUTE FUNCTION note_family('-')",
    "CREATE FUNCTION note_child() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN"
    " IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;"
    " INSERT INTO weir.simulation_changes (what, id, status, rank, phase, waiting_for, extra)"
    " VALUES ('child' || TG_ARGV[0], r.parent_id, r.step, r.position, r.is_adopted::integer, r.status,"
    "  r.child_id || coalesce(' ' || r.error_code, '')); RETURN NULL; END $$",
    "CREATE TRIGGER s33 AFTER INSERT ON children FOR EACH ROW EXECUTE FUNCTION note_child('+')",
    "CREATE TRIGGER s34 AFTER UPDATE ON children FOR EACH ROW EXECUTE FUNCTION note_child('=')",
    "CREATE TRIGGER s35 AFTER DELETE ON children FOR EACH ROW EXECUTE FUNCTION note_child('-')",
    "CREATE FUNCTION note_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF NEW.signal LIKE 'children:%' OR EXISTS (SELECT 1 FROM weir.child_steps s WHERE s.parent_id = NEW.execution_id"
    "   AND s.step = NEW.step) THEN"
    "  INSERT INTO weir.simulation_changes (what, id, status, waiting_for, due_at, extra)"
    "  VALUES ('wait', NEW.execution_id, NEW.step, NEW.status, NEW.due_at, NEW.error_code);"
    " END IF; RETURN NULL; END $$",
    "CREATE TRIGGER s36 AFTER INSERT OR UPDATE ON workflow_node_executions FOR EACH ROW WHEN (NEW.step LIKE 'step-%')"
    " EXECUTE FUNCTION note_wait()",
    "CREATE FUNCTION note_last_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF EXISTS (SELECT 1 FROM weir.child_steps s WHERE s.parent_id = NEW.id AND s.step = NEW.step) THEN"
    "  INSERT INTO weir.simulation_changes (what, id, status, waiting_for, extra)"
    "  VALUES ('wait', NEW.id, NEW.step, NEW.step_status, NEW.step_error_code);"
    " END IF; RETURN NULL; END $$",
    "CREATE TRIGGER s38 AFTER INSERT ON workflow_executions FOR EACH ROW WHEN (NEW.step LIKE 'step-%')"
    " EXECUTE FUNCTION note_last_wait()",
};

/* Nodes, in fleets with different sets of handlers. */
static const char *const nodes_preparations[] = {
    "CREATE FUNCTION note_node() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO weir.simulation_changes (what, rank, phase, extra) VALUES"
    " ('node', NEW.id, (NEW.dead_at IS NOT NULL OR NEW.stopped_at IS NOT NULL)::integer, NEW.handlers);"
    " RETURN NULL; END $$",
    "CREATE TRIGGER s40 AFTER INSERT OR UPDATE OF handlers, dead_at, stopped_at ON nodes FOR EACH ROW"
    " EXECUTE FUNCTION note_node()",
};

/* --- asking --- */

static void run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        (void)fprintf(stderr, "simulation: %s: %s\n", sql, PQerrorMessage(connection));
        abort();
    }
    PQclear(result);
}

static PGconn *connect_to(const char *database)
{
    char url[SQL_MAX];
    postgres_server_url(&server, database, url, sizeof url);
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK) {
        (void)fprintf(stderr, "simulation: %s\n", PQerrorMessage(connection));
        abort();
    }
    run(connection, "SET client_min_messages = warning");
    return connection;
}

static PGconn *administrator(void)
{
    static PGconn *connection;
    if (connection == NULL) {
        connection = connect_to("postgres");
    }
    return connection;
}

static void await(const char *sql)
{
    for (int i = 0; i < SILENCE_TRIES_MOST; i++) {
        PGresult *result = PQexec(administrator(), sql);
        bool is_so = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "t") == 0;
        PQclear(result);
        if (is_so) {
            return;
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000 * 1000};
        (void)nanosleep(&pause, NULL);
    }
    (void)fprintf(stderr, "simulation: never came true: %s\n", sql);
    abort();
}

/* --- the database that all begin with --- */

static void replace_clock(PGconn *connection)
{
    char sql[SQL_MAX];
    (void)snprintf(sql, sizeof sql,
                   "CREATE OR REPLACE FUNCTION weir.store_time() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS"
                   " $$ SELECT pg_catalog.pg_read_file('%s/clock-' OPERATOR(pg_catalog.||) pg_catalog.current_database())"
                   "::bigint $$",
                   server.folder);
    run(connection, sql);
}

static void replace_child_part(struct simulation *simulation)
{
    char sql[SQL_MAX];
    (void)snprintf(sql, sizeof sql,
                   "CREATE OR REPLACE FUNCTION weir.child_part() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS"
                   " $$ SELECT %d $$",
                   (int)simulation->profile.child_part);
    run(simulation->reader_of_server, sql);
}

static void migrate(const char *url)
{
    struct weir_error error;
    struct store *store = NULL;
    struct store_options options = {.url = url, .create = true, .deadline_us = 60 * MICROSECONDS_PER_SECOND};
    if (store_open(&options, &store, &error) != WEIR_OK || store_migrate(store, NULL, &error) != WEIR_OK) {
        (void)fprintf(stderr, "simulation: %s\n", error.message);
        abort();
    }
    store_close(store);
}

static void begin(void)
{
    char url[SQL_MAX];
    char sql[SQL_MAX];
    postgres_server_open(&server,
                         "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nautovacuum = off\njit = off\n"
                         "max_connections = 300\nshared_buffers = 64MB\nmax_wal_size = 4GB\n",
                         false);
    PGconn *connection = connect_to("postgres");
    run(connection, "CREATE DATABASE " MIGRATED);
    for (int i = 0; i < NODES_MOST; i++) {
        (void)snprintf(sql, sizeof sql, "CREATE ROLE n%d LOGIN SUPERUSER", i);
        run(connection, sql);
    }
    postgres_server_url(&server, MIGRATED, url, sizeof url);
    migrate(url);
    PGconn *within = connect_to(MIGRATED);
    for (size_t i = 0; i < sizeof preparations / sizeof preparations[0]; i++) {
        run(within, preparations[i]);
    }
    replace_clock(within);
    PQfinish(within);
    PQfinish(connection);
}

/* --- one run's --- */

void server_make(struct simulation *simulation)
{
    static unsigned count;
    char text[SQL_MAX];
    if (count == 0) {
        begin();
    }
    (void)snprintf(simulation->database, sizeof simulation->database, "run_%ld_%u", (long)getpid(), ++count);
    (void)snprintf(text, sizeof text, "%s/clock-%s", server.folder, simulation->database);
    clock_file = fopen(text, "we");
    INVARIANT(clock_file != NULL);
    await("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '" MIGRATED "')");
    /* File by file: the quicker way with so few pages, and before version 15 the only one. */
    (void)snprintf(text, sizeof text, "CREATE DATABASE %s TEMPLATE " MIGRATED "%s", simulation->database,
                   PQserverVersion(administrator()) >= FIRST_WITH_STRATEGY ? " STRATEGY file_copy" : "");
    run(administrator(), text);
    simulation->reader_of_server = connect_to(simulation->database);
    run(simulation->reader_of_server, "SET search_path = weir");
    for (size_t i = 0;
         simulation->profile.has_children && i < sizeof children_preparations / sizeof children_preparations[0]; i++) {
        run(simulation->reader_of_server, children_preparations[i]);
    }
    if (simulation->profile.has_children) {
        replace_child_part(simulation);
    }
    for (size_t i = 0; simulation->profile.has_sets && i < sizeof nodes_preparations / sizeof nodes_preparations[0]; i++) {
        run(simulation->reader_of_server, nodes_preparations[i]);
    }
}

void server_remove(struct simulation *simulation)
{
    char text[SQL_MAX];
    PQfinish(simulation->reader_of_server);
    simulation->reader_of_server = NULL;
    (void)fclose(clock_file);
    (void)snprintf(text, sizeof text, "%s/clock-%s", server.folder, simulation->database);
    (void)unlink(text);
    (void)snprintf(text, sizeof text, "DROP DATABASE %s WITH (FORCE)", simulation->database);
    run(administrator(), text);
}

void server_end(void)
{
    postgres_server_close(&server);
}

void server_url(const struct simulation *simulation, int node, char *to, size_t size)
{
    char role[16] = "weir";
    if (node != OUTSIDE) {
        (void)snprintf(role, sizeof role, "n%d", node);
    }
    int length = snprintf(to, size, "postgres://%s@/%s?host=%s&port=%d&listen=off", role, simulation->database,
                          server.folder, server.port);
    INVARIANT(length > 0 && (size_t)length < size);
}

void server_set_clock(int64_t now_us)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%020lld", (long long)now_us);
    INVARIANT(pwrite(fileno(clock_file), text, (size_t)length, 0) == length);
}

void server_await_silence(struct simulation *simulation, int node)
{
    char sql[SQL_MAX];
    (void)snprintf(sql, sizeof sql,
                   "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'n%d' AND datname = '%s')", node,
                   simulation->database);
    await(sql);
}

/* A process leaves the server's list before its socket is closed, and the client must see the same each time. */
static void await_exit(pid_t pid)
{
    for (int i = 0; i < SILENCE_TRIES_MOST && (kill(pid, 0) == 0 || errno == EPERM); i++) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000 * 1000};
        (void)nanosleep(&pause, NULL);
    }
}

void server_hang_up(struct simulation *simulation, int node)
{
    char sql[SQL_MAX];
    (void)snprintf(sql, sizeof sql,
                   "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'n%d' AND datname = '%s'",
                   node, simulation->database);
    PGresult *ended = PQexec(administrator(), sql);
    INVARIANT(PQresultStatus(ended) == PGRES_TUPLES_OK);
    for (int i = 0; i < PQntuples(ended); i++) {
        await_exit((pid_t)strtol(PQgetvalue(ended, i, 0), NULL, 10));
    }
    PQclear(ended);
    server_await_silence(simulation, node);
}
