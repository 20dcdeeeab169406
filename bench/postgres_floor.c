#include "postgres_floor.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres_processor.h"

enum { FLOOR_CLIENTS = 2, NOTICE_MS_MAX = 60 * 1000 };

static const char tables[] =
    "CREATE TABLE jobs (id uuid NOT NULL PRIMARY KEY, state smallint NOT NULL, workspace integer NOT NULL, created_at "
    "bigint NOT NULL, "
    "                   started_at bigint) WITH (fillfactor = 80);"
    "CREATE INDEX jobs_waiting ON jobs (created_at) WHERE state = 0;"
    "CREATE INDEX jobs_running ON jobs (started_at) WHERE state = 1;"
    "CREATE TABLE history (id uuid NOT NULL PRIMARY KEY, workspace integer NOT NULL, created_at bigint NOT NULL, "
    "                      started_at bigint, ended_at bigint)";

static const char mark[] =
    "UPDATE jobs SET state = 1, started_at = 1 WHERE id = ANY (ARRAY("
    "    SELECT id FROM jobs WHERE state = 0 ORDER BY created_at LIMIT 500 FOR UPDATE SKIP LOCKED)) RETURNING id";

static const char move[] =
    "WITH ended AS (DELETE FROM jobs WHERE id = ANY ($1::uuid[]) RETURNING id, workspace, created_at, started_at) "
    "INSERT INTO history SELECT id, workspace, created_at, started_at, 2 FROM ended";

/* {"a","b" ...}; the caller frees it. */
static char *ids_of(const PGresult *result)
{
    size_t size = (size_t)PQntuples(result) * 40 + 3;
    char *ids = malloc(size);
    BENCH_CHECK(ids != NULL);
    size_t length = 0;
    ids[length++] = '{';
    for (int i = 0; i < PQntuples(result); i++) {
        length += (size_t)snprintf(ids + length, size - length, "%s%s", i == 0 ? "" : ",", PQgetvalue(result, i, 0));
    }
    (void)snprintf(ids + length, size - length, "}");
    return ids;
}

static void prepare(PGconn *connection, const char *name, const char *sql)
{
    PGresult *result = PQprepare(connection, name, sql, 0, NULL);
    BENCH_CHECK(PQresultStatus(result) == PGRES_COMMAND_OK);
    PQclear(result);
}

static PGconn *connect_to(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    BENCH_CHECK(PQstatus(connection) == CONNECTION_OK);
    return connection;
}

/* Until nothing is left. */
static _Noreturn void run_client(const char *url)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    PGconn *connection = connect_to(url);
    prepare(connection, "mark", mark);
    prepare(connection, "move", move);
    for (;;) {
        PGresult *marked = PQexecPrepared(connection, "mark", 0, NULL, NULL, NULL, 0);
        BENCH_CHECK(PQresultStatus(marked) == PGRES_TUPLES_OK);
        if (PQntuples(marked) == 0) {
            PQfinish(connection);
            _exit(0);
        }
        char *ids = ids_of(marked);
        const char *const values[] = {ids};
        PGresult *moved = PQexecPrepared(connection, "move", 1, values, NULL, NULL, 0);
        BENCH_CHECK(PQresultStatus(moved) == PGRES_COMMAND_OK);
        PQclear(moved);
        PQclear(marked);
        free(ids);
    }
}

struct postgres_floor postgres_floor_lifecycles(struct postgres_server *server, const char *name, size_t rows,
                                                enum floor_order order)
{
    /* The fixture's plans: of ten workspaces seven are free, two pro, one enterprise. */
    static const char *const turns[] = {
        [FLOOR_AS_INSERTED] = "n",
        [FLOOR_AS_CAPPED] = "n / 1000 / CASE WHEN n % 10 < 7 THEN 1 WHEN n % 10 < 9 THEN 5 ELSE 20 END * 1000"
                            " + n % 1000"};
    struct postgres_scene scene;
    char sql[512];
    pid_t clients[FLOOR_CLIENTS];
    postgres_scene_open(&scene, server, name, false);
    postgres_scene_run(&scene, tables);
    postgres_scene_set_relaxed(&scene, true);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO jobs SELECT gen_random_uuid(), 0, n %% 1000, %s FROM generate_series(1, %zu) n",
                   turns[order], rows);
    postgres_scene_run(&scene, sql);
    postgres_scene_set_relaxed(&scene, false);
    double server_us = postgres_processor_us(server);
    double began = bench_now();
    for (size_t i = 0; i < FLOOR_CLIENTS; i++) {
        fflush(NULL);
        clients[i] = fork();
        BENCH_CHECK(clients[i] >= 0);
        if (clients[i] == 0) {
            run_client(scene.url);
        }
    }
    for (size_t i = 0; i < FLOOR_CLIENTS; i++) {
        int how = 0;
        BENCH_CHECK(waitpid(clients[i], &how, 0) == clients[i] && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    double seconds = bench_now() - began;
    server_us = postgres_processor_us(server) - server_us;
    BENCH_CHECK(postgres_scene_number(&scene, "SELECT count(*) FROM history") == (int64_t)rows);
    postgres_scene_close(&scene);
    return (struct postgres_floor){.per_second = (double)rows / seconds, .server_us = server_us / (double)rows};
}

/* --- a start --- */

static void run_prepared(PGconn *connection, const char *name, const char *value)
{
    const char *const values[] = {value};
    PGresult *result = PQexecPrepared(connection, name, value == NULL ? 0 : 1, values, NULL, NULL, 0);
    BENCH_CHECK(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK);
    PQclear(result);
}

static void await_notice(PGconn *connection)
{
    for (PGnotify *notice = NULL; notice == NULL;) {
        struct pollfd socket = {.fd = PQsocket(connection), .events = POLLIN};
        BENCH_CHECK(poll(&socket, 1, NOTICE_MS_MAX) == 1 && PQconsumeInput(connection) == 1);
        notice = PQnotifies(connection);
        PQfreemem(notice);
    }
}

/* Writes the moment of each start to `channel`. */
static _Noreturn void run_starter(const char *url, size_t count, int channel)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    PGconn *connection = connect_to(url);
    PGresult *result = PQexec(connection, "LISTEN jobs");
    BENCH_CHECK(PQresultStatus(result) == PGRES_COMMAND_OK);
    PQclear(result);
    prepare(connection, "start", "UPDATE jobs SET state = 1, started_at = 1 WHERE state = 0 RETURNING id");
    double now = 0; /* it listens */
    BENCH_CHECK(write(channel, &now, sizeof now) == (ssize_t)sizeof now);
    for (size_t i = 0; i < count; i++) {
        await_notice(connection);
        run_prepared(connection, "start", NULL);
        now = bench_now();
        BENCH_CHECK(write(channel, &now, sizeof now) == (ssize_t)sizeof now);
    }
    PQfinish(connection);
    _exit(0);
}

static double read_moment(int channel)
{
    double moment = 0;
    BENCH_CHECK(read(channel, &moment, sizeof moment) == (ssize_t)sizeof moment);
    return moment;
}

void postgres_floor_starts(struct postgres_server *server, size_t count, double *ret_ms)
{
    struct postgres_scene scene;
    int channel[2];
    char place[32];
    int how = 0;
    postgres_scene_open(&scene, server, "floor_starts", false);
    postgres_scene_run(&scene, tables);
    BENCH_CHECK(pipe(channel) == 0);
    fflush(NULL);
    pid_t starter = fork();
    BENCH_CHECK(starter >= 0);
    if (starter == 0) {
        run_starter(scene.url, count, channel[1]);
    }
    prepare(scene.connection, "insert",
            "WITH job AS (INSERT INTO jobs VALUES (gen_random_uuid(), 0, 1, $1)) SELECT pg_notify('jobs', '')");
    (void)read_moment(channel[0]);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(place, sizeof place, "%zu", i);
        bench_pause(STARTS_PAUSE_SECONDS);
        double began = bench_now();
        run_prepared(scene.connection, "insert", place);
        ret_ms[i] = (read_moment(channel[0]) - began) * 1e3;
        bench_pause(STARTS_PAUSE_SECONDS);
    }
    BENCH_CHECK(waitpid(starter, &how, 0) == starter && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    (void)close(channel[0]);
    (void)close(channel[1]);
    postgres_scene_close(&scene);
}
