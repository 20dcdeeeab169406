/* Figure 5: the work of a node while there is nothing to do. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fixture.h"

/* Everything that a node commits changes a row; these are neither its heartbeat nor the renewal of the scheduler's lease.
 */
static const char *const written =
    "SELECT (SELECT count(*) FROM workflow_execution_queue) + (SELECT count(*) FROM "
    "workflow_executions) + (SELECT count(*) FROM workflow_execution_events) + (SELECT fence "
    "FROM store_state) + (SELECT epoch FROM scheduler) + (SELECT "
    "coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'news')";

static double cpu_seconds(void)
{
    struct rusage usage;
    BENCH_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Commits so far: data_version of an onlooker changes with each, so it must look often enough. */
static int64_t count_commits(const struct store *store, double seconds)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t last = -1;
    int64_t changes = 0;
    BENCH_CHECK(sqlite3_open_v2(fixture_path(store), &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    BENCH_CHECK(sqlite3_prepare_v2(database, "PRAGMA data_version", -1, &statement, NULL) == SQLITE_OK);
    for (double end = bench_now() + seconds; bench_now() < end;) {
        BENCH_CHECK(sqlite3_step(statement) == SQLITE_ROW);
        int64_t version = sqlite3_column_int64(statement, 0);
        (void)sqlite3_reset(statement);
        changes += last >= 0 && version != last;
        last = version;
        bench_pause(0.02);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database);
    return changes;
}

void bench_idle(struct bench *bench)
{
    double seconds = bench->quick ? 2 : 12;
    struct fixture_node node = {0};
    struct store *store = fixture_store(bench, "idle");
    fixture_workspaces(store, 0, 1, "enterprise");
    fixture_engine(&node, fixture_no_op, NULL);
    fixture_start(&node, store);
    bench_pause(1);
    int64_t before = fixture_count(store, written);
    double cpu = cpu_seconds();
    double began = bench_now();
    bench_pause(seconds);
    cpu = cpu_seconds() - cpu;
    double lasted = bench_now() - began;
    int64_t rows = fixture_count(store, written) - before;
    int64_t commits = count_commits(store, seconds);
    double leases = seconds * 1e6 / (double)HEARTBEAT_INTERVAL_US + seconds * 1e6 / (double)SCHEDULER_IDLE_US;
    fixture_stop(&node);
    bench_report(bench, "idle node: CPU share of one core", cpu / lasted * 100, "%", 0, VALUE_AT_MOST, 0.1);
    bench_report(bench, "idle node: writes beside its leases", (double)rows, "rows", 0, VALUE_AT_MOST, 0);
    bench_report(bench, "idle node: commits (floor: its leases)", (double)commits, "commits", leases, RATIO_AT_MOST,
                 (leases + 2.5) / leases);
    store_close(store);
}
