/* From the moment before a signal to the start of the handler behind the wait, in a node that has nothing else to do. The
 * execution is parked. Beside each, in turn: an ordinary start, from the moment before the enqueue, and one commit of one
 * row in a plain table of the same store's kind. A signal may cost a start and one commit more.
 */
#include <stdio.h>
#include <stdlib.h>

#include "waits.h"

enum { WARM = 10 };

static struct weir_error fault;

/* One commit of one row. */
struct commits {
    const struct waits *waits;
    sqlite3 *file; /* on SQLite; NULL on PostgreSQL */
};

static void run_sqlite(sqlite3 *file, const char *sql)
{
    BENCH_CHECK(sqlite3_exec(file, sql, NULL, NULL, NULL) == SQLITE_OK);
}

static void open_commits(struct commits *commits, const struct waits *waits)
{
    static const char table[] = "CREATE TABLE plain (n integer)";
    char path[BENCH_PATH_MAX + 32];
    *commits = (struct commits){.waits = waits};
    if (waits->on_postgres) {
        postgres_scene_run(&waits->scene, table);
        return;
    }
    (void)snprintf(path, sizeof path, "%s/plain.db", waits->bench->folder);
    BENCH_CHECK(sqlite3_open(path, &commits->file) == SQLITE_OK);
    run_sqlite(commits->file, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    run_sqlite(commits->file, table);
}

static double commit_us(const struct commits *commits)
{
    static const char insert[] = "INSERT INTO plain VALUES (1)";
    double began = bench_now();
    if (commits->file == NULL) {
        postgres_scene_run(&commits->waits->scene, insert);
    } else {
        run_sqlite(commits->file, insert);
    }
    return (bench_now() - began) * 1e6;
}

static void enqueue_waiting(struct waits *waits, size_t number, char *ret_id, size_t size)
{
    char params[32];
    struct enqueue_result result;
    int length = snprintf(params, sizeof params, "{\"n\": %zu}", number);
    struct enqueue_request request = {
        .workspace = fixture_workspace(9), .workflow = "ask", .params = params, .params_length = (size_t)length};
    BENCH_OK(store_enqueue(waits->scene.store, &request, 1, &result, &fault), &fault);
    BENCH_OK(result.status, &result.error);
    (void)snprintf(ret_id, size, "%s", result.id);
    BENCH_CHECK(waits_await_parked(waits, 1, WAITS_SECONDS_MAX));
}

static void send_signal(struct waits *waits, size_t number, const char *id)
{
    struct signal_request request = {.id = id, .name = "go", .data = "{\"by\": \"bench\"}"};
    struct sent_signal sent;
    atomic_store(&waits->starts->enqueued[number], bench_now());
    BENCH_OK(store_signal(waits->scene.store, &request, &sent, &fault), &fault);
}

/* The first ones are not counted: everything is connected and planned behind them. Even entries of `starts` are ordinary
 * starts, odd ones signals. */
static void take_turns(struct waits *waits, size_t count, double *starts, double *signals, double *commits)
{
    struct commits plain;
    char id[UUID_TEXT_MAX];
    open_commits(&plain, waits);
    for (size_t i = 0; i < WARM + count; i++) {
        size_t at = i < WARM ? 0 : i - WARM;
        bench_pause(STARTS_PAUSE_SECONDS);
        starts_enqueue(waits->starts, waits->scene.store, fixture_workspace(9), 2 * i);
        starts_await(waits->starts, 2 * i);
        bench_pause(STARTS_PAUSE_SECONDS);
        commits[at] = commit_us(&plain);
        enqueue_waiting(waits, 2 * i + 1, id, sizeof id);
        bench_pause(STARTS_PAUSE_SECONDS);
        send_signal(waits, 2 * i + 1, id);
        starts_await(waits->starts, 2 * i + 1);
        starts_delays(waits->starts, 2 * i, 1, &starts[at]);
        starts_delays(waits->starts, 2 * i + 1, 1, &signals[at]);
    }
    if (plain.file != NULL) {
        (void)sqlite3_close(plain.file);
    }
}

static void report(struct bench *bench, const char *prefix, const char *what, double value_us, double floor_ms,
                   enum goal_kind kind, double goal)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s%s", prefix, what);
    bench_report(bench, name, value_us / 1000, "ms", floor_ms, kind, goal);
}

static void measure(struct bench *bench, const char *group, bool on_postgres, const char *prefix)
{
    struct waits waits;
    size_t count = bench->quick ? 10 : 300;
    double *starts = calloc(count, sizeof *starts);
    double *signals = calloc(count, sizeof *signals);
    double *commits = calloc(count, sizeof *commits);
    BENCH_CHECK(starts != NULL && signals != NULL && commits != NULL && 2 * (count + WARM) <= STARTS_MAX);
    if (waits_open(&waits, bench, group, on_postgres)) {
        waits_begin_store(&waits, "signals");
        waits_publish(&waits, "ask", "signal: go");
        waits_start_node(&waits);
        take_turns(&waits, count, starts, signals, commits);
        waits_stop_node(&waits);
        waits_end_store(&waits);
        double least_ms = (bench_percentile(starts, count, 0.5) + bench_percentile(commits, count, 0.5)) / 1000;
        report(bench, prefix, "commit beside the signals: p50", bench_percentile(commits, count, 0.5), 0, GOAL_NONE, 0);
        report(bench, prefix, "start beside the signals: p50", bench_percentile(starts, count, 0.5), 0, GOAL_NONE, 0);
        report(bench, prefix, "start beside the signals: p99", bench_percentile(starts, count, 0.99), 0, GOAL_NONE, 0);
        report(bench, prefix, "signal to the next step: p50", bench_percentile(signals, count, 0.5), least_ms,
               RATIO_AT_MOST, 1);
        report(bench, prefix, "signal to the next step: p99", bench_percentile(signals, count, 0.99), 0, GOAL_NONE, 0);
        waits_close(&waits);
    }
    free(starts);
    free(signals);
    free(commits);
}

void bench_waits_signals(struct bench *bench)
{
    measure(bench, "waits-signals", false, "");
}

void bench_postgres_waits_signals(struct bench *bench)
{
    measure(bench, "postgres-waits-signals", true, "pg ");
}
