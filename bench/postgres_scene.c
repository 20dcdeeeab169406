#include "postgres_scene.h"

#include <jansson.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "fixture.h"

#define ASK_SECONDS 0.005

static struct weir_error fault;

bool postgres_scene_server_with(const struct bench *bench, const char *group, const char *settings,
                                struct postgres_server *ret_server)
{
    char folder[BENCH_PATH_MAX];
    if (!postgres_server_is_installed()) {
        printf("%s: left out: there is no PostgreSQL server here (Debian: the package postgresql)\n", group);
        return false;
    }
    /* Beside the run's own folder, which the server's user cannot enter. */
    text_copy(folder, sizeof folder, bench->folder);
    postgres_server_open_below(ret_server, dirname(folder), settings, false);
    return true;
}

bool postgres_scene_server(const struct bench *bench, const char *group, struct postgres_server *ret_server)
{
    return postgres_scene_server_with(bench, group, POSTGRES_SETTINGS, ret_server);
}

/* --- databases --- */

static PGresult *ask(const struct postgres_scene *scene, const char *sql)
{
    PGresult *result = PQexec(scene->connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY) {
        bench_fail(__FILE__, __LINE__, PQerrorMessage(scene->connection));
    }
    return result;
}

void postgres_scene_run(const struct postgres_scene *scene, const char *sql)
{
    PQclear(ask(scene, sql));
}

const char *postgres_scene_text(const struct postgres_scene *scene, const char *sql)
{
    static char text[256];
    PGresult *result = ask(scene, sql);
    BENCH_CHECK(PQntuples(result) == 1);
    text_copy(text, sizeof text, PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

int64_t postgres_scene_number(const struct postgres_scene *scene, const char *sql)
{
    return strtoll(postgres_scene_text(scene, sql), NULL, 10);
}

int64_t postgres_scene_completed(const struct postgres_scene *scene)
{
    return postgres_scene_number(
        scene, "SELECT coalesce((SELECT sum(b.completed) FROM books b), 0) + "
               "coalesce((SELECT sum(c.ended) FROM news n CROSS JOIN LATERAL unnest(n.completed) c (ended)), 0)");
}

int64_t postgres_scene_slots_used(const struct postgres_scene *scene, const char *workspace)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT u.slots_used FROM usage('%s') u", workspace);
    return postgres_scene_number(scene, sql);
}

void postgres_scene_await_completed(const struct postgres_scene *scene, const struct starts *starts, size_t count,
                                    double seconds_max)
{
    double end = bench_now() + seconds_max;
    while ((starts != NULL && atomic_load(&starts->handled) < count) || postgres_scene_completed(scene) < (int64_t)count) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(ASK_SECONDS);
    }
}

void postgres_scene_open(struct postgres_scene *scene, struct postgres_server *server, const char *name, bool has_store)
{
    char sql[128];
    *scene = (struct postgres_scene){.server = server};
    text_copy(scene->name, sizeof scene->name, name);
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s", name);
    (void)postgres_server_ask(server, "postgres", sql);
    postgres_server_url(server, name, scene->url, sizeof scene->url);
    scene->connection = PQconnectdb(scene->url);
    if (PQstatus(scene->connection) != CONNECTION_OK) {
        bench_fail(__FILE__, __LINE__, PQerrorMessage(scene->connection));
    }
    postgres_scene_run(scene, "SET client_min_messages = error; SET search_path = weir, public");
    scene->store = has_store ? fixture_store_at(scene->url) : NULL;
}

void postgres_scene_close(struct postgres_scene *scene)
{
    char sql[128];
    if (scene->store != NULL) {
        fixture_check(scene->store);
        store_close(scene->store);
    }
    PQfinish(scene->connection);
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", scene->name);
    (void)postgres_server_ask(scene->server, "postgres", sql);
}

void postgres_scene_set_relaxed(const struct postgres_scene *scene, bool relaxed)
{
    postgres_scene_run(scene, relaxed ? "ALTER SYSTEM SET fsync = off" : "ALTER SYSTEM RESET fsync");
    postgres_scene_run(scene, "SELECT pg_reload_conf()");
    if (!relaxed) {
        postgres_scene_run(scene, "VACUUM ANALYZE");
        /* Writes without a sync are on the disk before anything is measured. */
        sync();
        postgres_scene_run(scene, "CHECKPOINT");
        double end = bench_now() + 60;
        while (strcmp(postgres_scene_text(scene, "SHOW fsync"), "on") != 0) {
            BENCH_CHECK(bench_now() < end);
        }
    }
}

void postgres_scene_count_anew(const struct postgres_scene *scene)
{
    postgres_scene_run(scene, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public;"
                              "SELECT public.pg_stat_statements_reset()");
}

double postgres_scene_counted(const struct postgres_scene *scene, const char *pattern, size_t items)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint "
                   "FROM public.pg_stat_statements WHERE query LIKE '%s'",
                   pattern);
    int64_t buffers = postgres_scene_number(scene, sql);
    BENCH_CHECK(buffers > 0 && items > 0);
    return (double)buffers / (double)items;
}

int64_t postgres_scene_node(const struct postgres_scene *scene)
{
    struct node_options node = {.name = "bench",
                                .group = "default",
                                .host = "",
                                .boot_id = "",
                                .version = "",
                                .engine = "none",
                                .capacity = 1000000,
                                .lease_us = 3600000000};
    int64_t node_id = 0;
    BENCH_OK(store_node_start(scene->store, &node, &node_id, &fault), &fault);
    fixture_offer_handlers(scene->store, node_id);
    return node_id;
}

struct explained postgres_scene_explain(const struct postgres_scene *scene, const char *sql)
{
    struct explained explained;
    char whole[EXPLAINED_TEXT_MAX];
    json_error_t wrong;
    int length = snprintf(whole, sizeof whole, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) %s", sql);
    BENCH_CHECK(length > 0 && (size_t)length < sizeof whole);
    postgres_scene_run(scene, "BEGIN");
    PGresult *result = ask(scene, whole);
    json_t *explain_output = json_loads(PQgetvalue(result, 0, 0), 0, &wrong);
    json_t *top = json_array_get(explain_output, 0);
    const json_t *plan = json_object_get(top, "Plan");
    BENCH_CHECK(plan != NULL && json_is_number(json_object_get(top, "Execution Time")));
    explained.us = json_number_value(json_object_get(top, "Execution Time")) * 1000;
    explained.buffers = json_number_value(json_object_get(plan, "Shared Hit Blocks")) +
                        json_number_value(json_object_get(plan, "Shared Read Blocks"));
    json_decref(explain_output);
    PQclear(result);
    postgres_scene_run(scene, "ROLLBACK");
    return explained;
}

/* --- nodes --- */

static _Noreturn void run_node(const char *url, struct starts *starts, int channel)
{
    struct fixture_node node = {0};
    struct store *store = NULL;
    struct store_options options = {.url = url};
    char byte = 'r';
    fixture_engine(&node, starts == NULL ? fixture_no_op : starts_handler, starts);
    BENCH_OK(store_open(&options, &store, &fault), &fault);
    BENCH_CHECK(write(channel, &byte, 1) == 1);
    BENCH_CHECK(read(channel, &byte, 1) == 1);
    fixture_start(&node, store);
    (void)!read(channel, &byte, 1); /* its end: stop */
    fixture_stop(&node);
    store_close(store);
    _exit(0);
}

void postgres_nodes_make(const struct postgres_scene *scene, struct starts *starts, struct postgres_process *nodes,
                         size_t count)
{
    char byte = 0;
    for (size_t i = 0; i < count; i++) {
        int ends[2];
        BENCH_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        fflush(NULL);
        nodes[i].pid = fork();
        BENCH_CHECK(nodes[i].pid >= 0);
        if (nodes[i].pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (size_t k = 0; k < i; k++) {
                (void)close(nodes[k].channel); /* else their ends would not be seen */
            }
            (void)close(ends[0]);
            run_node(scene->url, starts, ends[1]);
        }
        (void)close(ends[1]);
        nodes[i].channel = ends[0];
    }
    for (size_t i = 0; i < count; i++) {
        BENCH_CHECK(read(nodes[i].channel, &byte, 1) == 1);
    }
}

void postgres_nodes_go(const struct postgres_process *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        BENCH_CHECK(write(nodes[i].channel, "g", 1) == 1);
    }
}

size_t postgres_nodes_find_scheduler(const struct postgres_scene *scene, const struct postgres_process *nodes, size_t count)
{
    int64_t pid = postgres_scene_number(
        scene,
        "SELECT coalesce((SELECT n.pid FROM scheduler s JOIN nodes n ON n.id = s.node_id WHERE s.partition = 0), 0)");
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].pid == (pid_t)pid) {
            return i;
        }
    }
    return count;
}

void postgres_nodes_kill(struct postgres_process *node)
{
    int how = 0;
    BENCH_CHECK(kill(node->pid, SIGKILL) == 0);
    BENCH_CHECK(waitpid(node->pid, &how, 0) == node->pid && WIFSIGNALED(how));
    (void)close(node->channel);
    *node = (struct postgres_process){.channel = -1};
}

void postgres_nodes_stop(struct postgres_process *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)close(nodes[i].channel);
    }
    for (size_t i = 0; i < count; i++) {
        int how = 0;
        BENCH_CHECK(waitpid(nodes[i].pid, &how, 0) == nodes[i].pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
}
