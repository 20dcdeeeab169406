#include "unit/store/postgres/scene.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { URL_SIZE = 256, ARENA_BYTES = 64 * 1024 * 1024, CAPACITY = 100000 };

struct postgres_server server;

int scene_open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, "max_prepared_transactions = 1\n", false);
    return 0;
}

int scene_close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

int64_t add_node(struct scene *scene, const char *name, const char *group)
{
    return add_node_with_engine(scene, name, group, "none");
}

int64_t add_node_with_engine(struct scene *scene, const char *name, const char *group, const char *engine)
{
    struct node_options options = {.name = name,
                                   .group = group,
                                   .host = "host",
                                   .boot_id = name,
                                   .pid = 1,
                                   .version = "test",
                                   .engine = engine,
                                   .capacity = CAPACITY,
                                   .lease_us = LEASE_US};
    int64_t node = 0;
    ok(store_node_start(scene->store, &options, &node, &scene->error));
    return node;
}

void add_workspace(struct scene *scene, const char *name, int64_t cap)
{
    struct workspace_change change = {.name = name, .max_concurrent = cap, .paused = -1, .create = true};
    ok(store_set_workspace(scene->store, &change, &scene->error));
}

int scene_open_with(void **state, int64_t acme_cap)
{
    struct scene *scene = calloc(1, sizeof *scene);
    char url[URL_SIZE];
    struct published published;
    assert_non_null(scene);
    arena_init(&scene->arena, ARENA_BYTES);
    (void)postgres_server_ask(&server, "postgres", "DROP SCHEMA IF EXISTS weir CASCADE");
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .create = true, .deadline_us = WAIT_US};
    ok(store_open(&options, &scene->store, &scene->error));
    ok(store_migrate(scene->store, NULL, &scene->error));
    ok(store_publish(scene->store, "hello", NULL,
                     "{\"name\":\"hello\",\"steps\":{\"one\":{\"exec\":[\"true\"]},\"ask\":{\"signal\":\"go\"}}}", NULL,
                     &published, &scene->error));
    add_workspace(scene, "acme", acme_cap);
    add_workspace(scene, "beta", 1);
    scene->node = add_node(scene, "node-1", "default");
    scene->a = postgres_server_connect(&server);
    scene->b = postgres_server_connect(&server);
    *state = scene;
    return 0;
}

int scene_open(void **state)
{
    return scene_open_with(state, 1);
}

int scene_close(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    PQfinish(scene->a);
    PQfinish(scene->b);
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

/* --- SQL in a given order --- */

static const char *result_of(PGconn *connection, PGresult *result, const char *sql)
{
    static char value[SQL_SIZE];
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    bool has = PQntuples(result) > 0 && !PQgetisnull(result, 0, 0);
    (void)snprintf(value, sizeof value, "%s", has ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

static void write_sql(char *sql, const char *format, va_list arguments) WEIR_PRINTF(2, 0);
static void write_sql(char *sql, const char *format, va_list arguments)
{
    int length = vsnprintf(sql, SQL_SIZE, format, arguments);
    assert_in_range(length, 1, SQL_SIZE - 1);
}

const char *run(PGconn *connection, const char *format, ...)
{
    char sql[SQL_SIZE];
    va_list arguments;
    va_start(arguments, format);
    write_sql(sql, format, arguments);
    va_end(arguments);
    return result_of(connection, PQexec(connection, sql), sql);
}

void run_into(PGconn *connection, const char *format, ...)
{
    char sql[SQL_SIZE];
    char waits[SQL_SIZE];
    va_list arguments;
    va_start(arguments, format);
    write_sql(sql, format, arguments);
    va_end(arguments);
    /* As programs send it. What runs at its commit sees another protocol than it would in a simple query. */
    assert_int_equal(PQsendQueryParams(connection, sql, 0, NULL, NULL, NULL, NULL, 0), 1);
    (void)snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                   PQbackendPID(connection));
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (strcmp(postgres_server_ask(&server, "postgres", waits), "1") != 0) {
        if (clock_boot(clock_system()) > end_us) {
            fail_msg("%s does not wait", sql);
        }
    }
}

void let_records_wait(struct scene *scene)
{
    (void)run(scene->a, "ALTER FUNCTION weir.record SET lock_timeout = '60s'");
}

const char *answer(PGconn *connection)
{
    const char *value = result_of(connection, PQgetResult(connection), "the one that waited");
    assert_null(PQgetResult(connection));
    return value;
}

const char *refusal(PGconn *connection, const char *format, ...)
{
    static char sqlstate[6];
    char sql[SQL_SIZE];
    va_list arguments;
    va_start(arguments, format);
    write_sql(sql, format, arguments);
    va_end(arguments);
    PGresult *result = PQexec(connection, sql);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(sqlstate, sizeof sqlstate, "%s", code == NULL ? "" : code);
    PQclear(result);
    return sqlstate;
}

long long number(const char *digits)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(digits, &end, 10);
    assert_true(errno == 0 && end != digits && *end == '\0');
    return value;
}

/* --- verbs --- */

const char *enqueue_for(struct scene *scene, const char *workspace, const char *group)
{
    struct enqueue_request request = {.workspace = workspace, .workflow = "hello", .group = group};
    struct enqueue_result result = {.status = WEIR_FAILED};
    ok(store_enqueue(scene->store, &request, 1, &result, &scene->error));
    assert_int_equal(result.status, WEIR_OK);
    return arena_copy_string(&scene->arena, result.id);
}

struct claim_result claim_as(struct scene *scene, int64_t node, const char *group, size_t limit)
{
    struct claim_request request = {.node_id = node, .group = group, .limit = limit};
    struct claim_result result = {0};
    ok(claim_through_scheduler(scene->store, &request, &scene->arena, &result, &scene->error));
    return result;
}

struct claim_result claim(struct scene *scene, size_t limit)
{
    return claim_as(scene, scene->node, "default", limit);
}

struct claimed_item claim_one(struct scene *scene, const char *id)
{
    struct claim_result result = claim(scene, 1);
    assert_int_equal(result.count, 1);
    assert_string_equal(result.items[0].id, id);
    return result.items[0];
}

struct record record_of(enum record_kind kind, const struct claimed_item *item)
{
    struct record record = {.kind = kind, .fence = item->fence};
    memcpy(record.id, item->id, sizeof record.id);
    return record;
}

enum weir_status record(struct scene *scene, enum record_kind kind, const struct claimed_item *item)
{
    struct record one = record_of(kind, item);
    struct record_summary summary = {0};
    ok(store_record(scene->store, scene->node, &one, 1, &summary, &scene->error));
    return one.status;
}

struct recover_result recover(struct scene *scene)
{
    struct recover_options options = {.limit = RECOVER_BATCH};
    struct recover_result result = {0};
    name_silent(scene, &options);
    ok(store_recover(scene->store, &options, &result, &scene->error));
    return result;
}

void end_lease(struct scene *scene)
{
    scene->silent = (struct silent_node){
        .id = scene->node,
        .beats = number(run(scene->b, "SELECT beats FROM weir.nodes WHERE id = %lld", (long long)scene->node))};
    text_copy(scene->server, sizeof scene->server, run(scene->b, "SELECT weir.server_identity()"));
}

void name_silent(struct scene *scene, struct recover_options *options)
{
    options->silent = &scene->silent;
    options->silent_count = scene->silent.id == 0 ? 0 : 1;
    options->server = scene->server;
}
