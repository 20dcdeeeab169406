/* Figure 1: executions per second, from a filled queue to the history, beside the floor of the same run. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo_engine.h"
#include "engine/in_process/in_process.h"
#include "fixture.h"
#include "floor.h"
#include "machine.h"

enum { LIFECYCLE_WORKSPACES = 1000, DRAIN_SECONDS_MAX = 600 };
#define PAUSE_SECONDS 0.005

/* All have ended when the queue is empty. A sum over the news would take a tenth of the processor time of the drain. */
static void await_drain(const struct store *store)
{
    double end = bench_now() + DRAIN_SECONDS_MAX;
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    BENCH_CHECK(sqlite3_open_v2(fixture_path(store), &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    (void)sqlite3_busy_timeout(database, 10000);
    BENCH_CHECK(sqlite3_prepare_v2(database, "SELECT EXISTS (SELECT 1 FROM workflow_execution_queue)", -1, &statement,
                                   NULL) == SQLITE_OK);
    for (;;) {
        BENCH_CHECK(sqlite3_step(statement) == SQLITE_ROW);
        bool is_empty = sqlite3_column_int(statement, 0) == 0;
        (void)sqlite3_reset(statement);
        if (is_empty) {
            break;
        }
        BENCH_CHECK(bench_now() < end);
        bench_pause(PAUSE_SECONDS);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database);
}

/* Lifecycles per second of one drain. Engine NULL: the in-process one. */
static double drain(struct bench *bench, const char *name, struct engine *echo, size_t count, struct writer_counts *counts)
{
    struct fixture_node node = {.engine = echo};
    struct store *store = fixture_store(bench, name);
    fixture_workspaces(store, 0, LIFECYCLE_WORKSPACES, NULL);
    fixture_fill(store, 0, LIFECYCLE_WORKSPACES, count);
    if (echo == NULL) {
        fixture_engine(&node, fixture_no_op, NULL);
    }
    (void)fixture_writer_counts(store);
    double began = bench_now();
    fixture_start(&node, store);
    await_drain(store);
    double seconds = bench_now() - began;
    *counts = fixture_writer_counts(store);
    fixture_stop(&node);
    fixture_check(store);
    BENCH_CHECK(fixture_count(store, "SELECT count(*) FROM workflow_executions WHERE status = 'COMPLETED'") ==
                (int64_t)count);
    BENCH_CHECK(fixture_count(store, "SELECT count(*) FROM workflow_execution_queue") == 0);
    store_close(store);
    return (double)count / seconds;
}

void bench_lifecycle(struct bench *bench)
{
    size_t count = bench->quick ? 5000 : 100000;
    struct writer_counts counts;
    /* The floor before and after: what the neighbours on this machine do meanwhile shows in their difference. */
    double before = floor_lifecycles(bench, "floor-before", count);
    double alone = drain(bench, "lifecycle-echo", echo_engine_open(IN_PROCESS_RUNNING_DEFAULT), count, &counts);
    double whole = drain(bench, "lifecycle", NULL, count, &counts);
    double after = floor_lifecycles(bench, "floor-after", count);
    double floor = (before + after) / 2;
    bench_note(bench, "floor: mark 100, commit, move 100, commit", floor, "items/s");
    bench_note(bench, "floor: first run to second run", before / after, "x");
    bench_report(bench, "lifecycles, 1000 workspaces", whole, "items/s", floor, RATIO_AT_LEAST, 0.55);
    bench_report(bench, "lifecycles, engine that does nothing", alone, "items/s", floor, GOAL_NONE, 0);
    bench_note(bench, "of each: pages written to the log", (double)counts.pages_written / (double)count, "pages");
    bench_note(bench, "of each: statements of the writer", (double)counts.statements / (double)count, "runs");
    bench_note(bench, "of each: VM steps of the writer", (double)counts.vm_steps / (double)count, "steps");
}
