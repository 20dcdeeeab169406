#include "fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "definition/definition.h"
#include "engine/in_process/in_process.h"
#include "store/sqlite/lane_counters.h"
#include "store/sqlite/sqlite_store.h"

/* A check of ten million rows takes its time. */
#define DEADLINE_US (30 * 60 * MICROSECONDS_PER_SECOND)

static struct weir_error fault;

/* --- stores --- */

void fixture_publish(struct store *store, const char *name, const char *source)
{
    struct definition *definition = NULL;
    struct text text = {.max = 65536};
    struct published published;
    BENCH_OK(definition_read(source, strlen(source), name, &definition, &fault), &fault);
    BENCH_OK(definition_write(definition, &text, &fault), &fault);
    BENCH_OK(store_publish(store, name, NULL, text.data, NULL, &published, &fault), &fault);
    text_close(&text);
    definition_close(definition);
}

struct store *fixture_store(struct bench *bench, const char *name)
{
    char url[BENCH_PATH_MAX + 64];
    (void)snprintf(url, sizeof url, "sqlite:%s/%s.db", bench->folder, name);
    return fixture_store_at(url);
}

struct store *fixture_store_at(const char *url)
{
    struct store *store = NULL;
    int applied = 0;
    struct store_options options = {.url = url, .create = true, .deadline_us = DEADLINE_US};
    BENCH_OK(store_open(&options, &store, &fault), &fault);
    BENCH_OK(store_migrate(store, &applied, &fault), &fault);
    fixture_publish(store, "noop", "name: noop\nsteps:\n  run:\n    handler: noop\n");
    return store;
}

const char *fixture_path(const struct store *store)
{
    return strchr(store_url(store), ':') + 1;
}

const char *fixture_workspace(size_t number)
{
    static _Thread_local char names[8][32];
    static _Thread_local size_t next;
    char *name = names[next++ % 8];
    (void)snprintf(name, sizeof names[0], "w%05zu", number);
    return name;
}

void fixture_hurry(struct store *store, bool hurry)
{
    struct connection *writer = NULL;
    if (strncmp(store_url(store), "sqlite:", strlen("sqlite:")) != 0) {
        return;
    }
    struct sqlite_file *file = sqlite_of(store)->file;
    BENCH_OK(write_reserve(file, STORE_DEADLINE_US, &writer, &fault), &fault);
    BENCH_OK(connection_execute(writer, hurry ? "PRAGMA synchronous=OFF" : "PRAGMA wal_checkpoint(TRUNCATE)", &fault),
             &fault);
    BENCH_OK(connection_execute(writer, hurry ? "PRAGMA cache_size=-65536" : "PRAGMA synchronous=FULL", &fault), &fault);
    if (!hurry) {
        char cache[64];
        (void)snprintf(cache, sizeof cache, "PRAGMA cache_size=-%d", (int)WRITER_CACHE_KIB);
        BENCH_OK(connection_execute(writer, cache, &fault), &fault);
        BENCH_OK(connection_execute(writer, "PRAGMA shrink_memory", &fault), &fault);
    }
    write_cancel(file);
}

void fixture_workspaces(struct store *store, size_t first, size_t count, const char *plan)
{
    fixture_hurry(store, true);
    for (size_t i = first; i < first + count; i++) {
        const char *mixed = i % 10 < 7 ? "free" : i % 10 < 9 ? "pro" : "enterprise";
        struct workspace_change change = {
            .name = fixture_workspace(i), .plan = plan == NULL ? mixed : plan, .paused = -1, .create = true};
        BENCH_OK(store_set_workspace(store, &change, &fault), &fault);
    }
    fixture_hurry(store, false);
}

void fixture_fill(struct store *store, size_t first, size_t workspaces, size_t count)
{
    fixture_fill_with(store, "noop", first, workspaces, count);
}

void fixture_fill_with(struct store *store, const char *workflow, size_t first, size_t workspaces, size_t count)
{
    char(*names)[32] = calloc(workspaces, sizeof *names);
    struct enqueue_request *requests = calloc(FIXTURE_BATCH, sizeof *requests);
    struct enqueue_result *results = calloc(FIXTURE_BATCH, sizeof *results);
    BENCH_CHECK(names != NULL && requests != NULL && results != NULL);
    for (size_t i = 0; i < workspaces; i++) {
        text_copy(names[i], sizeof names[i], fixture_workspace(first + i));
    }
    fixture_hurry(store, true);
    for (size_t done = 0; done < count;) {
        size_t set = count - done < FIXTURE_BATCH ? count - done : FIXTURE_BATCH;
        for (size_t i = 0; i < set; i++) {
            requests[i] = (struct enqueue_request){.workspace = names[(done + i) % workspaces], .workflow = workflow};
        }
        BENCH_OK(store_enqueue(store, requests, set, results, &fault), &fault);
        for (size_t i = 0; i < set; i++) {
            BENCH_OK(results[i].status, &results[i].error);
        }
        done += set;
    }
    fixture_hurry(store, false);
    free(names);
    free(requests);
    free(results);
}

int64_t fixture_count(const struct store *store, const char *sql)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    BENCH_CHECK(sqlite3_open_v2(fixture_path(store), &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    (void)sqlite3_busy_timeout(database, 10000);
    BENCH_CHECK(lane_counters_register(database, NULL) == SQLITE_OK);
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK) {
        bench_fail(__FILE__, __LINE__, sqlite3_errmsg(database));
    }
    BENCH_CHECK(sqlite3_step(statement) == SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database);
    return value;
}

struct writer_counts fixture_writer_counts(struct store *store)
{
    struct writer_counts counts = {0};
    struct connection *writer = NULL;
    struct sqlite_file *file = sqlite_of(store)->file;
    int written = 0;
    int high = 0;
    BENCH_OK(write_reserve(file, STORE_DEADLINE_US, &writer, &fault), &fault);
    (void)sqlite3_db_status(writer->database, SQLITE_DBSTATUS_CACHE_WRITE, &written, &high, 1);
    counts.pages_written = written;
    for (int i = 0; i < QUERY_COUNT; i++) {
        sqlite3_stmt *statement = writer->statements[i];
        if (statement != NULL) {
            counts.vm_steps += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
            counts.statements += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_RUN, 1);
        }
    }
    write_cancel(file);
    return counts;
}

void fixture_check(struct store *store)
{
    json_t *problems = NULL;
    BENCH_OK(store_check(store, &problems, &fault), &fault);
    if (json_array_size(problems) > 0) {
        bench_fail(__FILE__, __LINE__, json_string_value(json_array_get(problems, 0)));
    }
    json_decref(problems);
}

/* --- nodes --- */

void fixture_no_op(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, NULL);
}

void fixture_engine(struct fixture_node *node, weir_handler_function *handler, void *context)
{
    struct weir_handler handlers[] = {{.name = "noop", .function = handler, .context = context}};
    struct in_process_options options = {.handlers = handlers, .handler_count = 1};
    BENCH_OK(in_process_open(&options, &node->engine, &fault), &fault);
}

void fixture_offer_handlers(struct store *store, int64_t node_id)
{
    bool more = false;
    BENCH_OK(store_node_handlers(store, node_id, &(struct node_handlers){.names = "[\"noop\"]"}, &more, &fault), &fault);
}

void fixture_start(struct fixture_node *node, struct store *store)
{
    struct node_settings settings = {.name = "bench", .handlers = "[\"noop\"]"};
    BENCH_OK(node_open(store, node->engine, NULL, &settings, &node->node, &fault), &fault);
    BENCH_OK(node_run_threads(node->node, &fault), &fault);
}

void fixture_stop(struct fixture_node *node)
{
    node_begin_stop(node->node, NODE_STOP_GRACEFUL);
    BENCH_OK(node_await_stop(node->node, 60 * MICROSECONDS_PER_SECOND, NULL, &fault), &fault);
    node_close(node->node);
    engine_close(node->engine);
}
