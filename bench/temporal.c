/* The Temporal engine against the scripted frontend, which has a thread of its own: the cost
 * of a start in the client, and the number of starts per second through all of weir: from the queue to the record. */
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/temporal/temporal.h"
#include "postgres_scene.h"
#include "support/frontend.h"
#include "temporal_scene.h"

enum { STARTS = 50000, STARTS_QUICK = 1000, OPEN = 10000, WAIT_SECONDS_MAX = 300 };

static struct weir_error fault;

/* A healthy service: each workflow runs, and none ends. */
static void answer_call(void *context, const struct frontend_call *call, struct frontend_answer *ret_answer)
{
    /* run_id = 1, started = 3, status = 5 (RUNNING) */
    static const char started[] = "\x0a\x24"
                                  "00000000-0000-4000-8000-000000000001"
                                  "\x18\x01\x28\x01";
    /* namespace_info = 1 with state = 2 (REGISTERED): a node gets no items before its engine knows its target */
    static const char registered[] = "\x0a\x02\x10\x01";
    (void)context;
    if (strstr(call->path, "/DescribeNamespace") != NULL) {
        ret_answer->response = registered;
        ret_answer->response_length = sizeof registered - 1;
    } else if (strstr(call->path, "/StartWorkflowExecution") != NULL) {
        ret_answer->response = started;
        ret_answer->response_length = sizeof started - 1;
    } else if (strstr(call->path, "/GetWorkflowExecutionHistory") != NULL) {
        ret_answer->fate = FATE_HOLD;
    }
}

static struct frontend *open_frontend(void)
{
    struct frontend *frontend = frontend_open(&(struct frontend_options){.handler = answer_call});
    BENCH_CHECK(frontend != NULL && frontend_run(frontend) == 0);
    return frontend;
}

static struct engine *open_engine(const char *address, size_t starts, size_t polls_max)
{
    struct engine *engine = NULL;
    struct temporal_options options = {.address = address, .max_running = starts, .starts_max = 64, .polls_max = polls_max};
    BENCH_OK(temporal_open(&options, &engine, &fault), &fault);
    return engine;
}

/* --- the client alone, in this thread --- */

static void count_started(void *context, struct report *report)
{
    *(size_t *)context += report->kind == REPORT_STARTED;
    report_free(report);
}

static void run_starts(struct engine *engine, size_t *sent, const size_t *started, size_t until)
{
    double end = bench_now() + WAIT_SECONDS_MAX;
    while (*started < until) {
        for (size_t room = engine_free_capacity(engine); room > 0 && *sent < until; room--, (*sent)++) {
            struct engine_start start = {.workspace = "acme",
                                         .workflow = TEMPORAL_WORKFLOW,
                                         .version = 1,
                                         .definition_id = 1,
                                         .definition = TEMPORAL_DEFINITION,
                                         .params = "{\"customer\": 7}",
                                         .params_length = strlen("{\"customer\": 7}"),
                                         .fence = 1,
                                         .start_number = 1};
            (void)snprintf(start.id, sizeof start.id, "019aa000-0000-7000-8000-%012zu", *sent);
            BENCH_OK(engine_start(engine, &start, &fault), &fault);
        }
        int64_t wait_us = engine_step(engine) - clock_boot(clock_system());
        struct pollfd ready = {.fd = engine_fd(engine), .events = POLLIN};
        if (wait_us > 0 && *started < until && (*sent == until || engine_free_capacity(engine) == 0)) {
            (void)poll(&ready, 1, wait_us < MICROSECONDS_PER_SECOND ? (int)(wait_us / MICROSECONDS_PER_MS) + 1 : 1000);
        }
        BENCH_CHECK(bench_now() < end);
    }
}

static void measure_client(struct bench *bench, size_t starts)
{
    size_t sent = 0;
    size_t started = 0;
    size_t warm = starts / 10;
    struct frontend *frontend = open_frontend();
    struct engine *engine = open_engine(frontend_address(frontend), starts + warm, SIZE_MAX);
    engine_set_sink(engine, (struct report_sink){.report = count_started, .context = &started});
    run_starts(engine, &sent, &started, warm); /* connects, and fills the caches of header compression */
    double began = bench_now();
    double cpu_us = bench_thread_cpu_us();
    run_starts(engine, &sent, &started, warm + starts);
    cpu_us = bench_thread_cpu_us() - cpu_us;
    double seconds = bench_now() - began;
    bench_report(bench, "temporal: client CPU per start", cpu_us / (double)starts, "us", 0, VALUE_AT_MOST, 15);
    bench_note(bench, "temporal: starts of the client alone", (double)starts / seconds, "starts/s");
    engine_close(engine);
    frontend_close(frontend);
}

/* The frontend is a process of its own here, so that its memory and CPU do not count. Returns its pid. */
static pid_t fork_frontend(char *ret_address, size_t size)
{
    int port;
    int ends[2];
    BENCH_CHECK(pipe(ends) == 0);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct frontend *frontend = open_frontend();
        port = frontend_port(frontend);
        BENCH_CHECK(write(ends[1], &port, sizeof port) == sizeof port);
        for (;;) {
            (void)pause();
        }
    }
    BENCH_CHECK(read(ends[0], &port, sizeof port) == sizeof port);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)snprintf(ret_address, size, "127.0.0.1:%d", port);
    return child;
}

static void stop_frontend(pid_t child)
{
    (void)kill(child, SIGKILL);
    BENCH_CHECK(waitpid(child, NULL, 0) == child);
}

/* --- through weir --- */

/* Of all threads of this process. */
static double read_own_cpu_us(void)
{
    struct rusage used;
    BENCH_CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* `running` counts the rows that are on record as running. */
static void measure_with_store(struct bench *bench, struct store *store, const char *name, size_t starts, double goal,
                               int64_t (*running)(const void *context), const void *context)
{
    char figure[FIGURE_NAME_MAX];
    char address[32];
    struct temporal_scene scene;
    temporal_scene_prepare(store);
    fixture_fill_with(store, TEMPORAL_WORKFLOW, 0, TEMPORAL_WORKSPACES, starts);
    pid_t frontend = fork_frontend(address, sizeof address);
    double began = bench_now();
    double cpu_us = read_own_cpu_us();
    temporal_scene_start(&scene, store, open_engine(address, starts, 0));
    temporal_scene_await(&scene, starts);
    double seconds = bench_now() - began;
    cpu_us = read_own_cpu_us() - cpu_us;
    (void)snprintf(figure, sizeof figure, "temporal: starts through weir, %s", name);
    bench_report(bench, figure, (double)starts / seconds, "starts/s", 0, VALUE_AT_LEAST, goal);
    (void)snprintf(figure, sizeof figure, "temporal: CPU per start through weir, %s", name);
    bench_note(bench, figure, cpu_us / (double)starts, "us");
    BENCH_CHECK(running(context) == (int64_t)starts);
    temporal_scene_stop(&scene);
    stop_frontend(frontend);
}

#define COUNT_RUNNING "SELECT count(*) FROM workflow_execution_queue WHERE status = 'DISPATCHED'"

static int64_t count_running_in_sqlite(const void *context)
{
    return fixture_count(context, COUNT_RUNNING);
}

static int64_t count_running_in_postgres(const void *context)
{
    return postgres_scene_number(context, COUNT_RUNNING);
}

static void measure_sqlite(struct bench *bench, size_t starts)
{
    struct store *store = fixture_store(bench, "temporal");
    measure_with_store(bench, store, "SQLite", starts, 10000, count_running_in_sqlite, store);
    fixture_check(store);
    store_close(store);
}

static void measure_postgres(struct bench *bench, size_t starts)
{
    struct postgres_server server;
    struct postgres_scene database;
    char folder[BENCH_PATH_MAX];
    if (!postgres_server_is_installed()) {
        printf("temporal: left out: starts with PostgreSQL behind: it is not installed (Debian: the package postgresql)\n");
        return;
    }
    text_copy(folder, sizeof folder, bench->folder); /* beside it: the server's user cannot enter it */
    postgres_server_open_below(&server, dirname(folder), POSTGRES_SETTINGS, false);
    postgres_scene_open(&database, &server, "temporal", true);
    measure_with_store(bench, database.store, "PostgreSQL", starts, 5000, count_running_in_postgres, &database);
    postgres_scene_close(&database);
    postgres_server_close(&server);
}

/* --- many open workflows --- */

static double read_own_mib(void)
{
    double kib = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    BENCH_CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtod(line + 6, NULL);
        }
    }
    (void)fclose(file);
    BENCH_CHECK(kib > 0);
    return kib / 1024;
}

/* The growth of the process from the moment before the first start until all workflows are followed: engine, claims, their
 * records and the store's caches. */
static void measure_open_workflows(struct bench *bench, size_t starts)
{
    char address[32];
    struct temporal_scene scene;
    struct engine *engine = NULL;
    pid_t child = fork_frontend(address, sizeof address);
    struct store *store = fixture_store(bench, "open");
    temporal_scene_prepare(store);
    fixture_fill_with(store, TEMPORAL_WORKFLOW, 0, TEMPORAL_WORKSPACES, starts);
    struct temporal_options options = {.address = address, .max_running = starts};
    BENCH_OK(temporal_open(&options, &engine, &fault), &fault);
    double before_mib = read_own_mib();
    temporal_scene_start(&scene, store, engine);
    temporal_scene_await(&scene, starts);
    bench_report(bench, "temporal: RSS more with 10,000 open", read_own_mib() - before_mib, "MiB", 0, VALUE_AT_MOST, 30);
    temporal_scene_stop(&scene);
    store_close(store);
    stop_frontend(child);
}

void bench_temporal(struct bench *bench)
{
    size_t starts = bench->quick ? STARTS_QUICK : STARTS;
    measure_open_workflows(bench, bench->quick ? STARTS_QUICK : OPEN); /* first: nothing else has grown yet */
    measure_client(bench, starts);
    measure_sqlite(bench, starts);
    measure_postgres(bench, starts);
}
