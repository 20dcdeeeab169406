/* Figure 4: from the moment before the enqueue to the start of the handler, in a node that has nothing else to do. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "machine.h"
#include "starts.h"

enum { LATENCY_PAUSE_US = 15000 };

static void pause_a_little(void)
{
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)LATENCY_PAUSE_US * 1000};
    (void)nanosleep(&pause, NULL);
}

/* A host program's thread: it wakes its node itself. */
static void produce_here(struct starts *starts, struct store *store, struct node *node, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        starts_enqueue(starts, store, fixture_workspace(0), i);
        node_wake(node);
        starts_await(starts, i);
        pause_a_little();
    }
}

static struct store *open_store(const char *url)
{
    struct weir_error fault;
    struct store *store = NULL;
    struct store_options options = {.url = url};
    BENCH_OK(store_open(&options, &store, &fault), &fault);
    return store;
}

/* Another process, with a store handle of its own, that was there before the node. */
static pid_t fork_producer(struct bench *bench, struct starts *starts, const char *url, size_t first, size_t count,
                           int ready)
{
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child != 0) {
        return child;
    }
    char go = 0;
    (void)bench;
    struct store *store = open_store(url);
    BENCH_CHECK(read(ready, &go, 1) == 1);
    for (size_t i = first; i < first + count; i++) {
        starts_enqueue(starts, store, fixture_workspace(0), i);
        starts_await(starts, i);
        pause_a_little();
    }
    store_close(store);
    _exit(0);
}

static void report(struct bench *bench, const struct starts *starts, size_t first, size_t count, double fsync_us, bool here)
{
    double *delays = calloc(count, sizeof *delays);
    BENCH_CHECK(delays != NULL);
    starts_delays(starts, first, count, delays);
    double p50 = bench_percentile(delays, count, 0.5) / 1000;
    double p99 = bench_percentile(delays, count, 0.99) / 1000;
    if (here) {
        bench_report(bench, "start delay, same process: p50", p50, "ms", fsync_us / 1000, VALUE_AT_MOST,
                     1 + fsync_us / 1000);
        bench_note(bench, "start delay, same process: p99", p99, "ms");
    } else {
        bench_report(bench, "start delay, other process: p50", p50, "ms", fsync_us / 1000, VALUE_AT_MOST, 10);
        bench_note(bench, "start delay, other process: p99", p99, "ms");
    }
    free(delays);
}

void bench_latency(struct bench *bench)
{
    size_t count = bench->quick ? 20 : 400;
    struct fixture_node node = {0};
    struct starts *starts = starts_make();
    struct store *store = fixture_store(bench, "latency");
    int ready[2];
    int how = 0;
    char url[BENCH_PATH_MAX + 64];
    fixture_workspaces(store, 0, 1, "enterprise");
    (void)snprintf(url, sizeof url, "%s", store_url(store));
    BENCH_CHECK(pipe(ready) == 0);
    store_close(store); /* a child cannot open what its parent has open at the fork */
    pid_t producer = fork_producer(bench, starts, url, count, count, ready[0]);
    store = open_store(url);
    fixture_engine(&node, starts_handler, starts);
    fixture_start(&node, store);
    double before = machine_fsync_us(bench);
    produce_here(starts, store, node.node, 0, count);
    double between = machine_fsync_us(bench);
    BENCH_CHECK(write(ready[1], "g", 1) == 1);
    BENCH_CHECK(waitpid(producer, &how, 0) == producer && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    double after = machine_fsync_us(bench);
    fixture_stop(&node);
    report(bench, starts, 0, count, (before + between) / 2, true);
    report(bench, starts, count, count, (between + after) / 2, false);
    fixture_check(store);
    store_close(store);
}
