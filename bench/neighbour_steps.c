/* Inside of a node: one workspace runs executions of many parallel steps; how long do those of a quiet one take beside it?
 *
 * Quiet and noisy rounds take turns, so that other load of the machine falls on both. Each figure is the median of its
 * rounds, so that a single stall of the disk changes one round and not the figure. The p99 of a round is its slowest
 * execution: half of the rounds of 70 executions have one that is slower than the 99th percentile of all. The way of each
 * quiet execution is divided into parts, to show where it waits:
 *
 *     before the enqueue -> committed -> assigned -> begins -> ends -> on record
 *
 * A function begins when it is called. A program begins when its attempt is reported, which is before its record, its fork
 * and its exec; it ends when nothing of it is left. Beside each execution two parts of the machine are measured alone: a
 * sync of the disk, and a program that this process starts itself. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/in_process/in_process.h"
#include "fixture.h"
#include "machine.h"
#include "observe/event.h"
#include "starts.h"

enum { QUIET = 0, NOISY = 500, PARALLEL_STEPS = 200, ROUNDS = 14, ASKS = 70, ENTRIES_MOST = 8192, WAIT_SECONDS_MOST = 120 };
enum { CALLS_WAITING = 10000, CALLS_OF_EXECUTION = 32, CALL_MS = 1 };

enum moment { ENQUEUED, COMMITTED, ASSIGNED, BEGAN, ENDED, RECORDED, MOMENT_COUNT };

struct rival {
    const char *file;     /* of its store */
    const char *noise;    /* what the noisy workspace does */
    const char *workflow; /* of the quiet workspace */
    enum moment judged;   /* the goal is about the time until then */
    size_t executions;    /* of the noisy workspace: as many as it may need in all rounds */
    size_t slots;         /* of the noisy workspace */
};

static const struct rival functions = {"functions", "200 parallel functions", "noop", BEGAN, 7000, 5};
static const struct rival calls = {
    "calls", "10,000 waiting calls", "noop", BEGAN, 5000, CALLS_WAITING / CALLS_OF_EXECUTION + 1};
static const struct rival programs = {"programs", "200 parallel programs", "program", RECORDED, 400, 5};

struct scene {
    const struct rival *rival;
    struct starts *starts;
    struct store *store;
    struct fixture_node node;
    struct event_bus events;
    struct sync_probe sync;
    _Atomic size_t current; /* the entry of the quiet execution that is under way */
    _Atomic double moments[ENTRIES_MOST][MOMENT_COUNT];
    double syncs[ENTRIES_MOST]; /* milliseconds */
    double spawns[ENTRIES_MOST];
    size_t round[ENTRIES_MOST]; /* the noisy ones are odd */
    size_t count;
    atomic_size_t noisy_steps; /* all of them */
    double counted_steps;      /* those of the noisy rounds */
    double noisy_seconds;
};

static struct scene scene;
static struct weir_error fault;

/* --- the way of a quiet execution --- */

/* In the threads of the node. */
static void note_event(void *context, const struct event *event)
{
    struct scene *it = context;
    if (event->workspace == NULL || strcmp(event->workspace, fixture_workspace(QUIET)) != 0) {
        (void)atomic_fetch_add(&it->noisy_steps, event->type == EVENT_STEP_ENDED);
        return;
    }
    _Atomic double *moments = it->moments[atomic_load(&it->current)];
    double now = bench_now();
    if (event->type == EVENT_EXECUTION_DISPATCHING) {
        atomic_store(&moments[ASSIGNED], now);
    } else if (event->type == EVENT_STEP_ENDED) {
        atomic_store(&moments[BEGAN], now - (double)event->began_ago_us / 1e6);
        atomic_store(&moments[ENDED], now - (double)event->ended_ago_us / 1e6);
    } else if (event->type == EVENT_EXECUTION_COMPLETED) {
        atomic_store(&moments[RECORDED], now);
    }
}

static void await_record(struct scene *it, size_t number)
{
    double end = bench_now() + WAIT_SECONDS_MOST;
    while (atomic_load(&it->moments[number][RECORDED]) == 0) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.0005);
    }
}

/* Milliseconds of a program that this process starts. */
static double spawn_once(void)
{
    char *words[] = {"true", NULL};
    pid_t child = 0;
    int how = 0;
    double began = bench_now();
    BENCH_CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) == 0);
    BENCH_CHECK(waitpid(child, &how, 0) == child && how == 0);
    return (bench_now() - began) * 1e3;
}

/* One execution after the other; in between the quiet workspace has nothing to do. */
static void ask_quietly(struct scene *it, size_t round, size_t count)
{
    char params[32];
    for (size_t i = 0; i < count; i++) {
        size_t number = it->count++;
        BENCH_CHECK(number < ENTRIES_MOST);
        int length = snprintf(params, sizeof params, "{\"n\": %zu}", number);
        struct enqueue_result result;
        struct enqueue_request request = {.workspace = fixture_workspace(QUIET),
                                          .workflow = it->rival->workflow,
                                          .params = params,
                                          .params_length = (size_t)length};
        atomic_store(&it->current, number);
        it->round[number] = round;
        atomic_store(&it->moments[number][ENQUEUED], bench_now());
        BENCH_OK(store_enqueue(it->store, &request, 1, &result, &fault), &fault);
        BENCH_OK(result.status, &result.error);
        atomic_store(&it->moments[number][COMMITTED], bench_now());
        node_wake(it->node.node);
        await_record(it, number);
        bench_pause(STARTS_PAUSE_SECONDS);
        it->syncs[number] = sync_probe_once(&it->sync) / 1e3;
        it->spawns[number] = spawn_once();
        double began = atomic_load(&it->starts->started[number]); /* of a function */
        if (began != 0) {
            atomic_store(&it->moments[number][BEGAN], began);
            atomic_store(&it->moments[number][ENDED], began);
        }
    }
}

/* --- the noisy workspace --- */

static void work_slowly(struct weir_call *call, void *context)
{
    struct starts *starts = context;
    bench_pause(CALL_MS / 1e3);
    (void)atomic_fetch_add(&starts->handled, 1);
    weir_done(call, NULL);
}

static void publish(struct store *store, const char *name, size_t steps, const char *step)
{
    struct text source = {.max = 65536};
    BENCH_OK(text_format(&source, "name: %s\nsteps:\n", name), &fault);
    for (size_t i = 0; i < steps; i++) {
        BENCH_OK(text_format(&source, "  s%zu:\n    %s\n", i, step), &fault);
    }
    fixture_publish(store, name, source.data);
    text_close(&source);
}

static int64_t noisy_items(const struct scene *it, const char *kind)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(sum(c.%s), 0) FROM lane_counters c JOIN workspaces w ON w.id = c.workspace_id "
                   "WHERE w.name = '%s'",
                   kind, fixture_workspace(NOISY));
    return fixture_count(it->store, sql);
}

static void make_noise(struct scene *it, bool noisy)
{
    struct workspace_change change = {.name = fixture_workspace(NOISY), .paused = noisy ? 0 : 1};
    int64_t slots = (int64_t)it->rival->slots;
    double end = bench_now() + WAIT_SECONDS_MOST;
    BENCH_OK(store_set_workspace(it->store, &change, &fault), &fault);
    node_wake(it->node.node);
    while (noisy ? noisy_items(it, "held") < slots && noisy_items(it, "runnable") > 0 : noisy_items(it, "held") > 0) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.05);
    }
}

/* --- measuring --- */

static void open_scene(struct bench *bench, struct scene *it, const struct rival *rival, struct starts *starts)
{
    size_t executions = bench->quick ? rival->executions / 10 : rival->executions;
    memset(it, 0, sizeof *it);
    it->rival = rival;
    it->starts = starts;
    memset(starts, 0, sizeof *starts);
    it->store = fixture_store(bench, rival->file);
    publish(it->store, "program", 1, "exec: [/bin/true]");
    bool is_program = rival->judged == RECORDED;
    bool has_calls = rival->slots * CALLS_OF_EXECUTION > CALLS_WAITING;
    publish(it->store, "noise", has_calls ? CALLS_OF_EXECUTION : PARALLEL_STEPS,
            is_program  ? "exec: [/bin/true]"
            : has_calls ? "handler: slow"
                        : "handler: noop");
    fixture_workspaces(it->store, QUIET, 1, "pro");
    fixture_workspaces(it->store, NOISY, 1, "pro");
    struct workspace_change change = {
        .name = fixture_workspace(NOISY), .paused = 1, .max_concurrent = (int64_t)rival->slots};
    BENCH_OK(store_set_workspace(it->store, &change, &fault), &fault);
    fixture_fill_with(it->store, "noise", NOISY, 1, executions);
    sync_probe_open(&it->sync, bench);
}

static void start_node(struct scene *it)
{
    struct weir_handler handlers[] = {{.name = "noop", .function = starts_handler, .context = it->starts},
                                      {.name = "slow", .function = work_slowly, .context = it->starts}};
    struct in_process_options options = {.handlers = handlers, .handler_count = 2, .allow_exec = true};
    BENCH_OK(in_process_open(&options, &it->node.engine, &fault), &fault);
    struct node_settings settings = {.name = "bench", .handlers = "[\"noop\",\"slow\"]"};
    BENCH_CHECK(event_subscribe(&it->events, note_event, it));
    BENCH_OK(node_open(it->store, it->node.engine, &it->events, &settings, &it->node.node, &fault), &fault);
    BENCH_OK(node_run_threads(it->node.node, &fault), &fault);
}

/* Milliseconds between two moments of the executions of a round, or the samples of a probe. */
static double percentile_of_round(const struct scene *it, size_t round, enum moment from, enum moment to,
                                  const double *probe, double share)
{
    static double samples[ENTRIES_MOST];
    size_t count = 0;
    for (size_t i = 0; i < it->count; i++) {
        if (it->round[i] == round) {
            double took = atomic_load(&it->moments[i][to]) - atomic_load(&it->moments[i][from]);
            samples[count++] = probe != NULL ? probe[i] : took < 0 ? 0 : took * 1e3;
        }
    }
    return bench_percentile(samples, count, share);
}

/* The median of the quiet or of the noisy rounds. */
static double percentile_of(const struct scene *it, bool is_noisy, enum moment from, enum moment to, const double *probe,
                            double share)
{
    double rounds[ROUNDS];
    size_t count = 0;
    for (size_t round = is_noisy ? 1 : 0; round < ROUNDS; round += 2) {
        rounds[count++] = percentile_of_round(it, round, from, to, probe, share);
    }
    return bench_percentile(rounds, count, 0.5);
}

static void report_time(struct bench *bench, const struct scene *it, const char *what, enum moment from, enum moment to,
                        const double *probe, bool is_judged)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50", 0.5}, {"p99", 0.99}};
    for (size_t i = 0; i < 2; i++) {
        char name[FIGURE_NAME_MAX];
        (void)snprintf(name, sizeof name, "%s, %s %s", it->rival->noise, what, shares[i].name);
        bool has_goal = is_judged && i == 1;
        bench_report(bench, name, percentile_of(it, true, from, to, probe, shares[i].share), "ms",
                     percentile_of(it, false, from, to, probe, shares[i].share), has_goal ? RATIO_AT_MOST : GOAL_NONE,
                     has_goal ? 2 : 0);
    }
}

/* The value of each figure is that of the noisy rounds, its floor that of the quiet ones. */
static void report(struct bench *bench, const struct scene *it)
{
    bool is_program = it->rival->judged == RECORDED;
    report_time(bench, it, is_program ? "to the end" : "to the start", ENQUEUED, it->rival->judged, NULL, true);
    report_time(bench, it, "enqueue", ENQUEUED, COMMITTED, NULL, false);
    report_time(bench, it, "assignment", COMMITTED, ASSIGNED, NULL, false);
    report_time(bench, it, "start", ASSIGNED, BEGAN, NULL, false);
    if (is_program) {
        report_time(bench, it, "program", BEGAN, ENDED, NULL, false);
    }
    report_time(bench, it, "record of the end", ENDED, RECORDED, NULL, false);
    report_time(bench, it, "a sync", ENQUEUED, ENQUEUED, it->syncs, false);
    report_time(bench, it, "a spawn", ENQUEUED, ENQUEUED, it->spawns, false);
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s, their rate", it->rival->noise);
    bench_note(bench, name, it->counted_steps / it->noisy_seconds, "steps/s");
    (void)snprintf(name, sizeof name, "%s, executions left", it->rival->noise);
    bench_note(bench, name, (double)noisy_items(it, "runnable"), "items");
}

static void measure(struct bench *bench, const struct rival *rival, struct starts *starts)
{
    struct scene *it = &scene;
    size_t asks = bench->quick ? 3 : ASKS;
    open_scene(bench, it, rival, starts);
    start_node(it);
    ask_quietly(it, 0, asks); /* everything is connected and read then */
    it->count = 0;
    memset(it->moments, 0, sizeof it->moments);
    memset(starts, 0, sizeof *starts);
    for (size_t round = 0; round < ROUNDS; round++) {
        bool is_noisy = round % 2 == 1;
        make_noise(it, is_noisy);
        double began = bench_now();
        size_t before = atomic_load(&it->noisy_steps);
        ask_quietly(it, round, asks);
        if (is_noisy) {
            it->counted_steps += (double)(atomic_load(&it->noisy_steps) - before);
            it->noisy_seconds += bench_now() - began;
        }
    }
    make_noise(it, false);
    report(bench, it);
    sync_probe_close(&it->sync);
    fixture_stop(&it->node);
    store_close(it->store);
}

void bench_neighbour_steps(struct bench *bench)
{
    measure(bench, &functions, starts_make());
}

void bench_neighbour_calls(struct bench *bench)
{
    measure(bench, &calls, starts_make());
}

void bench_neighbour_programs(struct bench *bench)
{
    measure(bench, &programs, starts_make());
}
