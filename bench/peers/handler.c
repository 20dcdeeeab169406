/* A no-op handler in C as one of the programs that `./dev bench languages` compares: the verbs of README.md, on a store of
 * either driver. Only the public interface (weir/weir.h) is used, as the packages for other languages use it.
 *
 * The scene is the same for all languages: 100 workspaces with a cap of 20, and the workflow "noop" of one step with
 * the handler "noop". `fill` makes it for the programs of the other languages as well. */
#include "handler.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "verbs.h"
#include "weir/weir.h"

enum {
    WORKSPACES = 100,
    CAP = 20,
    SET_MOST = 10000,
    WARM_UP_ROUNDS = 5,
    DRAIN_SECONDS_MAX = 600,
    WAIT_MS = 30000, /* for one function */
    THREADS = 8
};

static struct weir_error fault;
static const double LOOK_SECONDS = 0.0002;

static const char *workspace_name(size_t number)
{
    static char name[32];
    (void)snprintf(name, sizeof name, "workspace-%zu", number % WORKSPACES);
    return name;
}

static struct weir *make_scene(const char *url)
{
    static const char definition[] = "name: noop\nsteps:\n  run:\n    handler: noop\n";
    struct weir *weir = NULL;
    BENCH_OK(weir_migrate(url, NULL, &fault), &fault);
    BENCH_OK(weir_open(url, NULL, &weir, &fault), &fault);
    BENCH_OK(weir_set_plan(weir, "bench", CAP, 1, &fault), &fault);
    for (size_t i = 0; i < WORKSPACES; i++) {
        BENCH_OK(weir_set_workspace(weir, workspace_name(i), "bench", 0, &fault), &fault);
    }
    BENCH_OK(weir_publish_workflow(weir, definition, 0, "noop.yaml", NULL, &fault), &fault);
    return weir;
}

static void fill(const char *url, size_t count)
{
    static char names[WORKSPACES][32];
    struct weir *weir = make_scene(url);
    struct weir_request *requests = calloc(SET_MOST, sizeof *requests);
    struct weir_result *results = calloc(SET_MOST, sizeof *results);
    BENCH_CHECK(requests != NULL && results != NULL);
    for (size_t i = 0; i < WORKSPACES; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s", workspace_name(i));
    }
    for (size_t i = 0; i < SET_MOST; i++) {
        requests[i] = (struct weir_request){.workspace = names[i % WORKSPACES], .workflow = "noop"};
    }
    for (size_t first = 0; first < count; first += SET_MOST) {
        size_t size = count - first < SET_MOST ? count - first : SET_MOST;
        BENCH_OK(weir_enqueue_many(weir, requests, size, results, &fault), &fault);
        for (size_t i = 0; i < size; i++) {
            BENCH_OK(results[i].status, &results[i].error);
        }
    }
    free(requests);
    free(results);
    weir_close(weir);
}

/* --- workers --- */

struct runs {
    _Atomic size_t count;
    int pipe; /* gets a byte for each run; -1 = none */
};

static void run_noop(struct weir_call *call, void *context)
{
    struct runs *runs = context;
    (void)atomic_fetch_add_explicit(&runs->count, 1, memory_order_relaxed);
    if (runs->pipe >= 0) {
        BENCH_CHECK(write(runs->pipe, ".", 1) == 1);
    }
    weir_done(call, NULL);
}

static struct weir_node *start_worker(struct weir *weir, struct runs *runs, size_t threads)
{
    struct weir_handler handlers[] = {{.name = "noop", .function = run_noop, .context = runs}};
    struct weir_node_options options = {.handlers = handlers, .handler_count = 1, .handler_threads = threads};
    struct weir_node *node = NULL;
    BENCH_OK(weir_node_open(weir, &options, &node, &fault), &fault);
    BENCH_OK(weir_node_start(node, &fault), &fault);
    return node;
}

static void await_runs(const struct runs *runs, size_t count)
{
    double end = bench_now() + DRAIN_SECONDS_MAX;
    while (atomic_load_explicit(&runs->count, memory_order_relaxed) < count) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.001);
    }
}

static bool has_unfinished(struct weir *weir)
{
    char *json = NULL;
    struct weir_list_options options = {.kind = WEIR_LIST_EXECUTIONS, .limit = 1};
    options.filter.states = WEIR_STATE_PENDING | WEIR_STATE_CLAIMED | WEIR_STATE_DISPATCHED;
    BENCH_OK(weir_list(weir, &options, &json, &fault), &fault);
    bool found = strstr(json, "\"items\": []") == NULL && strstr(json, "\"items\":[]") == NULL;
    weir_free(json);
    return found;
}

static double used_us(void)
{
    struct rusage used;
    BENCH_CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static struct weir *open_filled(const char *url)
{
    struct weir *weir = NULL;
    BENCH_OK(weir_open(url, NULL, &weir, &fault), &fault);
    return weir;
}

static void drain(const char *url, size_t count)
{
    static struct runs runs = {.pipe = -1};
    struct weir *weir = open_filled(url);
    double began = bench_now();
    struct weir_node *node = start_worker(weir, &runs, THREADS);
    await_runs(&runs, count);
    double end = bench_now() + DRAIN_SECONDS_MAX;
    while (has_unfinished(weir)) {
        BENCH_CHECK(bench_now() < end);
        bench_pause(0.001);
    }
    double seconds = bench_now() - began;
    BENCH_OK(weir_node_stop(node, -1, NULL, &fault), &fault);
    weir_node_close(node);
    weir_close(weir);
    printf("{\"name\": \"weir, C\", \"version\": \"%s\", \"runtime\": \"C\", \"settings\": \"8 threads\", \"jobs\": %zu, "
           "\"seconds\": %.6f, \"lifecycles_per_s\": %.3f}\n",
           weir_version(), atomic_load(&runs.count), seconds, (double)count / seconds);
}

/* Processor time of the process, from the start of the worker until all ends are on record. One thread runs the handlers,
 * so that nothing of the difference to another language is spent on waiting for a lock. */
static void measure_processor(const char *url, size_t count)
{
    static struct runs runs = {.pipe = -1};
    struct weir *weir = open_filled(url);
    double before = used_us();
    struct weir_node *node = start_worker(weir, &runs, 1);
    await_runs(&runs, count);
    BENCH_OK(weir_node_stop(node, -1, NULL, &fault), &fault);
    double used = used_us() - before;
    weir_node_close(node);
    weir_close(weir);
    printf("{\"processor_us\": %.4f, \"jobs\": %zu}\n", used / (double)count, atomic_load(&runs.count));
}

/* --- one at a time --- */

/* The worker is a process of its own, as for the other languages. It ends with this one. */
static void work_in_child(const char *url, int pipe)
{
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child > 0) {
        return;
    }
    BENCH_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    struct runs runs = {.pipe = pipe};
    (void)start_worker(open_filled(url), &runs, THREADS);
    for (;;) {
        (void)pause();
    }
}

static void await_function(int pipe)
{
    char byte;
    struct pollfd readable = {.fd = pipe, .events = POLLIN};
    BENCH_CHECK(poll(&readable, 1, WAIT_MS) == 1 && read(pipe, &byte, 1) == 1);
}

static bool is_ended(struct weir *weir, const char *id)
{
    enum weir_status status = weir_wait(weir, id, 0, NULL, NULL, &fault);
    BENCH_CHECK(status == WEIR_OK || status == WEIR_TIMED_OUT);
    return status == WEIR_OK;
}

static void measure_latency(const char *url, size_t rounds)
{
    int pipes[2];
    BENCH_CHECK(rounds > 0 && pipe(pipes) == 0);
    double *functions = calloc(rounds, sizeof *functions);
    double *ends = calloc(rounds, sizeof *ends);
    BENCH_CHECK(functions != NULL && ends != NULL);
    work_in_child(url, pipes[1]);
    struct weir *weir = open_filled(url);
    for (size_t i = 0; i < WARM_UP_ROUNDS + rounds; i++) {
        char id[WEIR_ID_SIZE];
        struct weir_request request = {.workspace = workspace_name(i), .workflow = "noop"};
        double began = bench_now();
        BENCH_OK(weir_enqueue(weir, &request, id, &fault), &fault);
        await_function(pipes[0]);
        double function = bench_now();
        while (!is_ended(weir, id)) {
            bench_pause(LOOK_SECONDS);
        }
        if (i >= WARM_UP_ROUNDS) {
            functions[i - WARM_UP_ROUNDS] = (function - began) * 1000;
            ends[i - WARM_UP_ROUNDS] = (bench_now() - began) * 1000;
        }
        bench_pause((20 + 7 * (double)(i % 10)) / 1000);
    }
    printf(
        "{\"name\": \"weir, C\", \"version\": \"%s\", \"settings\": \"8 threads\", \"rounds\": %zu, \"function_p50_ms\": "
        "%.4f, \"end_p50_ms\": %.4f}\n",
        weir_version(), rounds, bench_percentile(functions, rounds, 0.5), bench_percentile(ends, rounds, 0.5));
    free(functions);
    free(ends);
    weir_close(weir);
}

static const struct peer_verb verbs[] = {
    {"fill", fill}, {"drain", drain}, {"processor", measure_processor}, {"latency", measure_latency}};

int handler_main(int argc, char **argv)
{
    return peer_verb_run("handler", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}
