/* Tasks of workers over HTTP (docs/workers.md): executions per second, the delay of one, and the memory of a node with
 * many.
 *
 *     claim -> the ids of the tasks in the answer -> complete -> claim ...
 *
 * Each worker is a connection that stays open; all of them belong to one thread of this process, as a handler in C that
 * does nothing costs its process nothing. The floor of each figure is that handler in a node of this process, on a store of
 * the same kind. */
#include "http_tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"
#include "http_load.h"
#include "starts.h"

enum {
    WORKERS = 8,
    SET = 100, /* tasks of a claim */
    MANY_WORKERS = 1000,
    MANY_TASKS = 10000,
    REQUEST_BYTES = 64 * 1024,
    TASK_BYTES_MAX = 200, /* of a report: the id of a task, as JSON */
    EVENTS = 64,
    STALL_MS = 60000
};

static struct weir_error fault;

struct worker {
    int fd;
    size_t number;
    bool reports; /* the request under way is a report */
    size_t held;  /* tasks that it has claimed and not completed */
    char *tasks;  /* of a report: them */
    size_t tasks_length;
    struct http_load_answer answer;
};

struct workers {
    int poller;
    size_t count;
    size_t set;     /* the most that one holds */
    size_t claimed; /* in all */
    size_t ended;   /* likewise */
    bool keep;      /* their tasks instead of completing them */
    struct worker *list;
};

/* --- workers --- */

static void send_worker_request(struct worker *worker, const char *path, const char *body)
{
    static char request[REQUEST_BYTES];
    worker->answer = (struct http_load_answer){.bytes = worker->answer.bytes};
    http_load_send(worker->fd, request, http_load_request("POST", path, body, request, sizeof request));
}

static void send_claim(struct worker *worker, size_t most)
{
    char body[256];
    (void)snprintf(body, sizeof body, "{\"worker\":\"w%zu\",\"handlers\":[\"noop\"],\"max\":%zu,\"wait_us\":60000000}",
                   worker->number, most);
    worker->reports = false;
    send_worker_request(worker, "/v1/tasks:claim", body);
}

static void send_complete(struct worker *worker)
{
    static char body[REQUEST_BYTES / 2];
    int length = snprintf(body, sizeof body, "{\"worker\":\"w%zu\",\"tasks\":[%s]}", worker->number, worker->tasks);
    BENCH_CHECK(length > 0 && (size_t)length < sizeof body);
    worker->reports = true;
    send_worker_request(worker, "/v1/tasks:complete", body);
}

/* The ids of a claim's answer become a part of the next report. An id has no character that JSON escapes. */
static size_t take_tasks(const struct workers *workers, struct worker *worker)
{
    static const char mark[] = "\"task\":\"";
    size_t room = workers->set * TASK_BYTES_MAX;
    size_t before = worker->held;
    for (const char *at = worker->answer.bytes + worker->answer.body; (at = strstr(at, mark)) != NULL; worker->held++) {
        at += strlen(mark);
        worker->tasks_length +=
            (size_t)snprintf(worker->tasks + worker->tasks_length, room - worker->tasks_length, "%s{\"task\":\"%.*s\"}",
                             worker->held > 0 ? "," : "", (int)strcspn(at, "\""), at);
        BENCH_CHECK(worker->tasks_length < room);
    }
    return worker->held - before;
}

/* All tasks of the report must be accepted: a lost one would be counted as done. */
static void end_tasks(struct workers *workers, struct worker *worker)
{
    size_t accepted = 0;
    const char *at = worker->answer.bytes + worker->answer.body;
    for (; (at = strstr(at, "\"accepted\"")) != NULL; at++) {
        accepted++;
    }
    BENCH_CHECK(accepted == worker->held);
    workers->ended += accepted;
    worker->held = 0;
    worker->tasks_length = 0;
    worker->tasks[0] = '\0';
}

/* The next request of a worker whose answer is whole. A wait that has ended without a task begins again. */
static void go_on(struct workers *workers, struct worker *worker)
{
    BENCH_CHECK(worker->answer.length < HTTP_LOAD_ANSWER_MAX); /* it is read, so it must be whole */
    if (worker->reports) {
        end_tasks(workers, worker);
    } else {
        workers->claimed += take_tasks(workers, worker);
    }
    if (worker->held > 0 && !workers->keep) {
        send_complete(worker);
    } else if (worker->held < workers->set) {
        send_claim(worker, workers->set - worker->held);
    }
}

/* A worker makes itself known and waits for the answer before the next one comes: more requests at once than the server
 * lets wait would be refused. */
static void open_workers(struct workers *workers, int port, size_t count, size_t set)
{
    *workers = (struct workers){.poller = epoll_create1(EPOLL_CLOEXEC), .count = count, .set = set};
    workers->list = calloc(count, sizeof *workers->list);
    BENCH_CHECK(workers->poller >= 0 && workers->list != NULL);
    for (size_t i = 0; i < count; i++) {
        struct worker *worker = &workers->list[i];
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = worker};
        *worker = (struct worker){.fd = http_load_connect(port), .number = i, .tasks = calloc(set, TASK_BYTES_MAX)};
        worker->answer.bytes = malloc(HTTP_LOAD_ANSWER_MAX); /* pages that no answer needs take no memory */
        BENCH_CHECK(worker->tasks != NULL && worker->answer.bytes != NULL);
        send_claim(worker, 0);
        while (!http_load_read(worker->fd, &worker->answer)) {
        }
        BENCH_CHECK(epoll_ctl(workers->poller, EPOLL_CTL_ADD, worker->fd, &wanted) == 0);
        send_claim(worker, set);
    }
}

/* Handles the answers that are there, and waits for the first one. */
static void turn_workers(struct workers *workers)
{
    struct epoll_event ready[EVENTS];
    int count = epoll_wait(workers->poller, ready, EVENTS, STALL_MS);
    BENCH_CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        struct worker *worker = ready[i].data.ptr;
        if (http_load_read(worker->fd, &worker->answer)) {
            go_on(workers, worker);
        }
    }
}

static void close_workers(struct workers *workers)
{
    for (size_t i = 0; i < workers->count; i++) {
        (void)close(workers->list[i].fd);
        free(workers->list[i].tasks);
        free(workers->list[i].answer.bytes);
    }
    (void)close(workers->poller);
    free(workers->list);
}

/* --- figures --- */

/* Each workspace may run as many as its plan allows, so there are enough of them for full claims. */
static struct store *tasks_store(struct bench *bench, const char *name, size_t workspaces, size_t count)
{
    struct store *store = fixture_store(bench, name);
    fixture_workspaces(store, 0, workspaces, "enterprise");
    if (count > 0) {
        fixture_fill(store, 0, workspaces, count);
    }
    return store;
}

static void await_completed(const struct store *store, size_t count)
{
    double until = bench_now() + 600;
    while (fixture_count(store, FIXTURE_COMPLETED) < (int64_t)count) {
        BENCH_CHECK(bench_now() < until);
        bench_pause(0.005);
    }
}

/* Executions per second of a handler in C. */
static double drain_in_process(struct bench *bench, size_t workspaces, size_t count)
{
    struct fixture_node node = {0};
    struct store *store = tasks_store(bench, "tasks-floor", workspaces, count);
    fixture_engine(&node, fixture_no_op, NULL);
    double began = bench_now();
    fixture_start(&node, store);
    await_completed(store, count);
    double seconds = bench_now() - began;
    fixture_stop(&node);
    store_close(store);
    return (double)count / seconds;
}

static void measure_rate(struct bench *bench)
{
    size_t count = bench->quick ? 2000 : 100000;
    size_t workspaces = 100;
    struct daemon daemon;
    struct workers workers;
    int port = http_load_free_port();
    double floor = drain_in_process(bench, workspaces, count);
    struct store *store = tasks_store(bench, "tasks", workspaces, count);
    double began = bench_now();
    daemon_serve_http(bench, store_url(store), port, &daemon);
    open_workers(&workers, port, WORKERS, SET);
    while (workers.ended < count) {
        turn_workers(&workers);
    }
    await_completed(store, count);
    double seconds = bench_now() - began;
    close_workers(&workers);
    daemon_stop(&daemon);
    fixture_check(store);
    store_close(store);
    bench_report(bench, "http, tasks of 8 workers", (double)count / seconds, "items/s", floor, RATIO_AT_LEAST, 0.5);
}

/* From the enqueue to the start of the handler in a node of this process, median in milliseconds. */
static double start_in_process_ms(struct bench *bench, size_t count)
{
    struct fixture_node node = {0};
    struct starts *starts = starts_make();
    double *delays = calloc(count, sizeof *delays);
    struct store *store = tasks_store(bench, "tasks-start", 1, 0);
    BENCH_CHECK(delays != NULL);
    fixture_engine(&node, starts_handler, starts);
    fixture_start(&node, store);
    for (size_t i = 0; i < count; i++) {
        bench_pause(STARTS_PAUSE_SECONDS);
        starts_enqueue(starts, store, fixture_workspace(0), i);
        node_wake(node.node);
        starts_await(starts, i);
    }
    fixture_stop(&node);
    starts_delays(starts, 0, count, delays);
    double median = bench_percentile(delays, count, 0.5) / 1000;
    free(delays);
    store_close(store);
    return median;
}

/* A worker waits in a claim; from the enqueue until the answer with the task has come. */
static void measure_hop(struct bench *bench)
{
    size_t count = bench->quick ? 20 : 400;
    struct daemon daemon;
    struct workers workers;
    int port = http_load_free_port();
    double floor = start_in_process_ms(bench, count);
    double *delays = calloc(count, sizeof *delays);
    struct store *store = tasks_store(bench, "tasks-hop", 1, 0);
    struct enqueue_request request = {.workspace = fixture_workspace(0), .workflow = "noop"};
    struct enqueue_result result;
    BENCH_CHECK(delays != NULL);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    open_workers(&workers, port, 1, 1);
    bench_pause(0.5); /* the node has the handler on record */
    for (size_t i = 0; i < count; i++) {
        bench_pause(STARTS_PAUSE_SECONDS);
        double began = bench_now();
        BENCH_OK(store_enqueue(store, &request, 1, &result, &fault), &fault);
        while (workers.claimed == i) {
            turn_workers(&workers);
        }
        delays[i] = (bench_now() - began) * 1000;
        while (workers.ended == i) {
            turn_workers(&workers);
        }
    }
    close_workers(&workers);
    daemon_stop(&daemon);
    store_close(store);
    double median = bench_percentile(delays, count, 0.5);
    bench_note(bench, "http, task, enqueue to the worker: p50", median, "ms");
    bench_note(bench, "http, task, enqueue to the worker: p99", bench_percentile(delays, count, 0.99), "ms");
    bench_report(bench, "http, task, hop: p50 more than a handler in C", fmax(0, median - floor), "ms", 0, VALUE_AT_MOST,
                 2);
    free(delays);
}

/* All workers have their tasks, and keep them while the memory is read. Afterwards each completes them: a count of tasks
 * that cannot be ended would show nothing. */
static void measure_memory(struct bench *bench)
{
    size_t workers_count = bench->quick ? 50 : MANY_WORKERS;
    size_t count = bench->quick ? 500 : MANY_TASKS;
    size_t workspaces = 1 + count / 20; /* of the plan enterprise */
    struct daemon daemon;
    struct workers workers;
    int port = http_load_free_port();
    struct store *store = tasks_store(bench, "tasks-memory", workspaces, count);
    BENCH_CHECK(setenv("WEIR_EXECUTOR_MAX_RUNNING", "20000", 1) == 0 && setenv("WEIR_HTTP_TASK_LEASE", "10m", 1) == 0);
    daemon_serve_http(bench, store_url(store), port, &daemon);
    BENCH_CHECK(unsetenv("WEIR_EXECUTOR_MAX_RUNNING") == 0 && unsetenv("WEIR_HTTP_TASK_LEASE") == 0);
    double empty = daemon_status_mib(&daemon, "VmRSS:");
    open_workers(&workers, port, workers_count, count / workers_count);
    workers.keep = true; /* no answer has been handled yet */
    while (workers.claimed < count) {
        turn_workers(&workers);
    }
    double full = daemon_status_mib(&daemon, "VmRSS:");
    workers.keep = false;
    for (size_t i = 0; i < workers.count; i++) {
        send_complete(&workers.list[i]);
    }
    while (workers.ended < count) {
        turn_workers(&workers);
    }
    close_workers(&workers);
    daemon_stop(&daemon);
    store_close(store);
    bench_report(bench, "http, 1,000 workers with 10,000 tasks: RSS", full, "MiB", 0, VALUE_AT_MOST, 100);
    bench_note(bench, "http, 1,000 workers with 10,000 tasks: of it theirs", full - empty, "MiB");
}

void bench_http_tasks(struct bench *bench)
{
    measure_rate(bench);
    measure_hop(bench);
    measure_memory(bench);
}
