/* Figure 2: enqueueing in sets, one by one, and inside a transaction of the caller's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "floor.h"
#include "machine.h"
#include "store/sqlite/sqlite_store.h"

enum { ENQUEUE_WORKSPACES = 100 };

static struct weir_error fault;

struct set {
    struct enqueue_request requests[FIXTURE_BATCH];
    struct enqueue_result results[FIXTURE_BATCH];
    char names[ENQUEUE_WORKSPACES][32];
};

/* Requests that go round the workspaces. */
static struct set *make_set(const char *params)
{
    struct set *set = calloc(1, sizeof *set);
    BENCH_CHECK(set != NULL);
    for (size_t i = 0; i < ENQUEUE_WORKSPACES; i++) {
        (void)snprintf(set->names[i], sizeof set->names[i], "%s", fixture_workspace(i));
    }
    for (size_t i = 0; i < FIXTURE_BATCH; i++) {
        set->requests[i] = (struct enqueue_request){.workspace = set->names[i % ENQUEUE_WORKSPACES],
                                                    .workflow = "noop",
                                                    .params = params,
                                                    .params_length = params == NULL ? 0 : strlen(params)};
    }
    return set;
}

static double in_sets(struct store *store, const char *params, size_t count)
{
    struct set *set = make_set(params);
    double began = bench_now();
    for (size_t done = 0; done < count; done += FIXTURE_BATCH) {
        BENCH_OK(store_enqueue(store, set->requests, FIXTURE_BATCH, set->results, &fault), &fault);
    }
    double seconds = bench_now() - began;
    BENCH_OK(set->results[0].status, &set->results[0].error);
    free(set);
    return (double)count / seconds;
}

static double one_by_one(struct store *store, size_t count)
{
    struct set *set = make_set(NULL);
    double began = bench_now();
    for (size_t i = 0; i < count; i++) {
        BENCH_OK(store_enqueue(store, &set->requests[i % FIXTURE_BATCH], 1, set->results, &fault), &fault);
    }
    double seconds = bench_now() - began;
    free(set);
    return (double)count / seconds;
}

static void run(sqlite3 *database, const char *sql)
{
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK) {
        bench_fail(__FILE__, __LINE__, sqlite3_errmsg(database));
    }
}

/* One execution, one row of the caller's, one commit: the work of a web request. */
static double in_own_transaction(struct store *store, size_t count)
{
    struct set *set = make_set(NULL);
    sqlite3 *database = NULL;
    BENCH_CHECK(sqlite3_open_v2(fixture_path(store), &database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    run(database, "PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total INTEGER)");
    double began = bench_now();
    for (size_t i = 0; i < count; i++) {
        run(database, "BEGIN IMMEDIATE; INSERT INTO orders (total) VALUES (42)");
        BENCH_OK(sqlite_store_enqueue_on(database, &set->requests[i % FIXTURE_BATCH], 1, set->results, &fault), &fault);
        run(database, "COMMIT");
    }
    double seconds = bench_now() - began;
    BENCH_CHECK(sqlite3_close(database) == SQLITE_OK);
    free(set);
    return (double)count / seconds;
}

void bench_enqueue(struct bench *bench)
{
    size_t count = bench->quick ? 5000 : 200000;
    size_t singles = bench->quick ? 100 : 2000;
    struct store *store = fixture_store(bench, "enqueue");
    fixture_workspaces(store, 0, ENQUEUE_WORKSPACES, NULL);
    double floor = floor_enqueues(bench, count);
    double sets = in_sets(store, NULL, count);
    double with_params = in_sets(store, "{\"customer\": 4711, \"plan\": \"gold\", \"items\": [1, 2, 3]}", count / 2);
    double before_us = machine_fsync_us(bench);
    double single = one_by_one(store, singles);
    double own = in_own_transaction(store, singles);
    double fsyncs = 2e6 / (before_us + machine_fsync_us(bench)); /* before and after: the disk has other users */
    bench_report(bench, "enqueue, sets of 1000", sets, "items/s", floor, VALUE_AT_LEAST, 100000);
    bench_report(bench, "enqueue, sets of 1000, with params", with_params, "items/s", floor, GOAL_NONE, 0);
    bench_note(bench, "fsyncs per second of this disk just now", fsyncs, "fsync/s");
    /* 2000/s asks for a disk that syncs twice as often; on a slower one, half of its syncs. */
    if (fsyncs >= 4000) {
        bench_report(bench, "enqueue, one by one", single, "items/s", fsyncs, VALUE_AT_LEAST, 2000);
    } else {
        bench_report(bench, "enqueue, one by one (slow disk)", single, "items/s", fsyncs, RATIO_AT_LEAST, 0.5);
    }
    bench_report(bench, "enqueue, in the caller's transaction", own, "items/s", fsyncs, GOAL_NONE, 0);
    fixture_check(store);
    store_close(store);
}
