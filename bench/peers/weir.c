/* weir as one of the queues that `./dev bench peers` compares: the verbs of README.md, on a store of either driver.
 *
 * The scene is that of the groups lifecycle and postgres-lifecycles: 1,000 workspaces with the plans of the specification,
 * the workflow "noop" of one step, one node with the in-process engine. Only store.h, the fixture, and the names of two
 * tables are used, so that this file does not depend on how a store schedules.
 *
 * It never counts a job as done before the store has it in its history. */
#include "weir.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "starts.h"
#include "verbs.h"
#include "weir/weir.h"

enum {
    WORKSPACES = 1000,
    FULL_TENANT = 90000, /* number of its workspace; the light ones are 0 to 9 */
    LIGHT_COUNT = 10,
    WARM_UP_ROUNDS = 3,
    ROUNDS_MIN = 3,
    MEASURE_SECONDS = 60, /* after which no round begins, once there are ROUNDS_MIN */
    DRAIN_SECONDS_MAX = 600
};

static struct weir_error fault;

/* --- the store as SQL shows it --- */

struct view {
    const struct store *store;
    PGconn *connection; /* NULL: SQLite */
};

static void view_open(struct view *view, const struct store *store)
{
    *view = (struct view){.store = store};
    if (strncmp(store_url(store), "sqlite:", strlen("sqlite:")) != 0) {
        view->connection = PQconnectdb(store_url(store));
        PQclear(PQexec(view->connection, "SET search_path = weir, public"));
        BENCH_CHECK(PQstatus(view->connection) == CONNECTION_OK);
    }
}

static int64_t view_count(const struct view *view, const char *sql)
{
    if (view->connection == NULL) {
        return fixture_count(view->store, sql);
    }
    PGresult *result = PQexec(view->connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        bench_fail(__FILE__, __LINE__, PQerrorMessage(view->connection));
    }
    int64_t value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return value;
}

static void view_close(struct view *view)
{
    PQfinish(view->connection); /* takes NULL */
}

/* --- verbs --- */

static void fill(const char *url, size_t count)
{
    struct store *store = fixture_store_at(url);
    fixture_workspaces(store, 0, WORKSPACES, NULL);
    fixture_fill(store, 0, WORKSPACES, count);
    store_close(store);
}

static void count_run(struct weir_call *call, void *context)
{
    (void)atomic_fetch_add_explicit((_Atomic size_t *)context, 1, memory_order_relaxed);
    weir_done(call, NULL);
}

static struct store *open_filled(const char *url)
{
    struct store *store = NULL;
    struct store_options options = {.url = url};
    BENCH_OK(store_open(&options, &store, &fault), &fault);
    return store;
}

/* Until all handlers have run, and then until the store holds nothing unfinished. */
static void await_drain(const struct view *view, const _Atomic size_t *runs, size_t count)
{
    double end = bench_now() + DRAIN_SECONDS_MAX;
    while (atomic_load_explicit(runs, memory_order_relaxed) < count) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.001);
    }
    while (view_count(view, "SELECT count(*) FROM workflow_execution_queue") > 0) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.001);
    }
}

static void drain(const char *url, size_t count)
{
    static _Atomic size_t runs;
    struct fixture_node node = {0};
    struct view view;
    fixture_engine(&node, count_run, &runs);
    struct store *store = open_filled(url);
    view_open(&view, store);
    double began = bench_now();
    fixture_start(&node, store);
    await_drain(&view, &runs, count);
    double seconds = bench_now() - began;
    fixture_stop(&node);
    int64_t ended = view_count(&view, "SELECT count(*) FROM workflow_executions WHERE status = 'COMPLETED'");
    BENCH_CHECK(ended == (int64_t)count);
    fixture_check(store);
    printf("{\"name\": \"weir%s\", \"version\": \"%s\", \"runtime\": \"C\", \"settings\": \"1 node, 1,000 workspaces, caps "
           "on\", "
           "\"jobs\": %" PRId64 ", \"seconds\": %.6f, \"lifecycles_per_s\": %.3f}\n",
           view.connection == NULL ? ", SQLite" : "", weir_version(), ended, seconds, (double)count / seconds);
    view_close(&view);
    store_close(store);
}

static void make_workspace(struct store *store, size_t number)
{
    struct workspace_change change = {
        .name = fixture_workspace(number), .plan = "free", .max_concurrent = 1, .paused = -1, .create = true};
    BENCH_OK(store_set_workspace(store, &change, &fault), &fault);
}

static void fill_full_tenant(const char *url, size_t count)
{
    struct store *store = fixture_store_at(url);
    fixture_publish(store, "hold", "name: hold\nhold_slot: true\nsteps:\n  run:\n    sleep: 1h\n");
    make_workspace(store, FULL_TENANT);
    for (size_t i = 0; i < LIGHT_COUNT; i++) {
        make_workspace(store, i);
    }
    fixture_fill_with(store, "hold", FULL_TENANT, 1, count + 1);
    store_close(store);
}

/* Milliseconds from the call that enqueues ten to the start of the tenth. */
static double start_ten_once(struct starts *starts, struct store *store, size_t round)
{
    struct enqueue_request requests[LIGHT_COUNT] = {0};
    struct enqueue_result results[LIGHT_COUNT];
    char names[LIGHT_COUNT][32];
    char params[LIGHT_COUNT][32];
    double delays[LIGHT_COUNT];
    size_t first = round * LIGHT_COUNT;
    for (size_t i = 0; i < LIGHT_COUNT; i++) {
        text_copy(names[i], sizeof names[i], fixture_workspace(i));
        int length = snprintf(params[i], sizeof params[i], "{\"n\": %zu}", first + i);
        requests[i] = (struct enqueue_request){
            .workspace = names[i], .workflow = "noop", .params = params[i], .params_length = (size_t)length};
    }
    double began = bench_now();
    for (size_t i = 0; i < LIGHT_COUNT; i++) {
        atomic_store(&starts->enqueued[first + i], began);
    }
    BENCH_OK(store_enqueue(store, requests, LIGHT_COUNT, results, &fault), &fault);
    for (size_t i = 0; i < LIGHT_COUNT; i++) {
        BENCH_OK(results[i].status, &results[i].error);
        starts_await(starts, first + i);
    }
    starts_delays(starts, first, LIGHT_COUNT, delays);
    return bench_percentile(delays, LIGHT_COUNT, 1) / 1000;
}

static void await_full_tenant(const struct view *view)
{
    double end = bench_now() + DRAIN_SECONDS_MAX;
    while (view_count(view, "SELECT count(*) FROM workflow_execution_queue WHERE status <> 'PENDING'") == 0) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.001);
    }
}

static void start_ten(const char *url, size_t rounds)
{
    struct fixture_node node = {0};
    struct view view;
    struct starts *starts = starts_make();
    double *delays = calloc(rounds, sizeof *delays);
    BENCH_CHECK(delays != NULL && (rounds + WARM_UP_ROUNDS) * LIGHT_COUNT <= STARTS_MAX);
    fixture_engine(&node, starts_handler, starts);
    struct store *store = open_filled(url);
    struct store *producer = open_filled(url); /* a handle of its own, as another program has one */
    view_open(&view, store);
    fixture_start(&node, store);
    await_full_tenant(&view);
    size_t measured = 0;
    double end = bench_now() + MEASURE_SECONDS;
    for (size_t round = 0; measured < rounds && (measured < ROUNDS_MIN || bench_now() < end); round++) {
        double delay = start_ten_once(starts, producer, round);
        if (round >= WARM_UP_ROUNDS) {
            delays[measured++] = delay;
        }
        bench_pause((200 + 7 * (double)(round % 10)) / 1000);
    }
    int64_t running = view_count(&view, "SELECT count(*) FROM workflow_execution_queue WHERE status <> 'PENDING'");
    printf("{\"name\": \"weir\", \"version\": \"%s\", \"settings\": \"1 node, cap 1 of each workspace\", \"rounds\": %zu, "
           "\"start_of_ten_ms\": %.3f, \"start_of_ten_worst_ms\": %.3f, \"full_tenant_running\": %" PRId64 "}\n",
           weir_version(), measured, bench_percentile(delays, measured, 0.5), bench_percentile(delays, measured, 1),
           running);
    fflush(stdout);
    _exit(0); /* the full tenant's execution never ends */
}

static const struct peer_verb verbs[] = {
    {"fill", fill}, {"drain", drain}, {"fill-full-tenant", fill_full_tenant}, {"start-ten", start_ten}};

int peer_main(int argc, char **argv)
{
    return peer_verb_run("peer", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}
