/* Figure 4: from the moment before the enqueue to the start of the handler, in a node that has nothing else to do. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "machine.h"
#include "starts.h"

/* A host program's thread: it wakes its node itself. Between two starts it notes what one sync takes at that moment, after
 * a pause as long as that before a start: processor and disk have been asleep as long, so it is longer than one of several
 * in a row. */
static void produce_here(const struct bench *bench, struct starts *starts, struct store *store, struct node *node,
                         double *syncs, size_t count)
{
    struct sync_probe probe;
    sync_probe_open(&probe, bench);
    for (size_t i = 0; i < count; i++) {
        bench_pause(STARTS_PAUSE_SECONDS);
        starts_enqueue(starts, store, fixture_workspace(0), i);
        node_wake(node);
        starts_await(starts, i);
        bench_pause(STARTS_PAUSE_SECONDS);
        syncs[i] = sync_probe_once(&probe);
    }
    sync_probe_close(&probe);
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
static pid_t fork_producer(struct starts *starts, const char *url, size_t first, size_t count, int ready)
{
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child != 0) {
        return child;
    }
    char go = 0;
    struct store *store = open_store(url);
    BENCH_CHECK(read(ready, &go, 1) == 1);
    for (size_t i = first; i < first + count; i++) {
        starts_enqueue(starts, store, fixture_workspace(0), i);
        starts_await(starts, i);
        bench_pause(STARTS_PAUSE_SECONDS);
    }
    store_close(store);
    _exit(0);
}

static void report(struct bench *bench, const struct starts *starts, double *syncs, size_t count)
{
    double *delays = calloc(count, sizeof *delays);
    BENCH_CHECK(delays != NULL);
    double sync_ms = starts_report_syncs(bench, "sync beside the starts", syncs, count);
    starts_delays(starts, 0, count, delays);
    bench_report(bench, "start delay, same process: p50", bench_percentile(delays, count, 0.5) / 1000, "ms", sync_ms,
                 VALUE_AT_MOST, 1 + sync_ms);
    bench_note(bench, "start delay, same process: p99", bench_percentile(delays, count, 0.99) / 1000, "ms");
    starts_delays(starts, count, count, delays);
    bench_report(bench, "start delay, other process: p50", bench_percentile(delays, count, 0.5) / 1000, "ms", sync_ms,
                 VALUE_AT_MOST, 10);
    bench_note(bench, "start delay, other process: p99", bench_percentile(delays, count, 0.99) / 1000, "ms");
    free(delays);
}

void bench_latency(struct bench *bench)
{
    size_t count = bench->quick ? 20 : 400;
    struct fixture_node node = {0};
    struct starts *starts = starts_make();
    double *syncs = calloc(count, sizeof *syncs);
    struct store *store = fixture_store(bench, "latency");
    int ready[2];
    int how = 0;
    char url[BENCH_PATH_MAX + 64];
    BENCH_CHECK(syncs != NULL);
    fixture_workspaces(store, 0, 1, "enterprise");
    (void)snprintf(url, sizeof url, "%s", store_url(store));
    BENCH_CHECK(pipe(ready) == 0);
    store_close(store); /* a child cannot open what its parent has open at the fork */
    pid_t producer = fork_producer(starts, url, count, count, ready[0]);
    store = open_store(url);
    fixture_engine(&node, starts_handler, starts);
    fixture_start(&node, store);
    produce_here(bench, starts, store, node.node, syncs, count);
    BENCH_CHECK(write(ready[1], "g", 1) == 1);
    BENCH_CHECK(waitpid(producer, &how, 0) == producer && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    fixture_stop(&node);
    report(bench, starts, syncs, count);
    free(syncs);
    fixture_check(store);
    store_close(store);
}
