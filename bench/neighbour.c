/* Figure 7: one workspace has a large backlog; how long do the single executions of a hundred small ones wait? */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fixture.h"
#include "starts.h"

enum { NEIGHBOURS = 100, NOISY = 500, NEIGHBOUR_PAUSE_US = 4000 };

/* Each small workspace in turn gets one execution; nobody waits for its start. */
static void produce(struct starts *starts, struct store *store, struct node *node, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)NEIGHBOUR_PAUSE_US * 1000};
        starts_enqueue(starts, store, fixture_workspace(i % NEIGHBOURS), first + i);
        node_wake(node);
        (void)nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        starts_await(starts, first + i);
    }
}

static double delay(const struct starts *starts, size_t first, size_t count, double share)
{
    double *delays = calloc(count, sizeof *delays);
    BENCH_CHECK(delays != NULL);
    starts_delays(starts, first, count, delays);
    double value = bench_percentile(delays, count, share) / 1000;
    free(delays);
    return value;
}

void bench_neighbour(struct bench *bench)
{
    static const char left[] = "SELECT coalesce(sum(c.runnable + c.waiting), 0) "
                               "FROM lane_counters c JOIN workspaces w ON w.id = c.workspace_id WHERE w.name = 'w00500'";
    size_t count = bench->quick ? 100 : 1000;
    struct fixture_node node = {0};
    struct starts *starts = starts_make();
    struct store *store = fixture_store(bench, "neighbour");
    fixture_workspaces(store, 0, NEIGHBOURS, "pro");
    fixture_workspaces(store, NOISY, 1, "enterprise");
    fixture_engine(&node, starts_handler, starts);
    fixture_start(&node, store);
    produce(starts, store, node.node, 0, count);
    fixture_fill(store, NOISY, 1, bench->quick ? 2000 : 100000);
    int64_t left_before = fixture_count(store, left);
    produce(starts, store, node.node, count, count);
    int64_t left_after = fixture_count(store, left);
    fixture_stop(&node);
    bench_note(bench, "small workspaces, quiet node: start p50", delay(starts, 0, count, 0.5), "ms");
    bench_note(bench, "small workspaces, quiet node: start p99", delay(starts, 0, count, 0.99), "ms");
    bench_report(bench, "small workspaces, noisy neighbour: start p50", delay(starts, count, count, 0.5), "ms",
                 delay(starts, 0, count, 0.5), GOAL_NONE, 0);
    bench_report(bench, "small workspaces, noisy neighbour: start p99", delay(starts, count, count, 0.99), "ms",
                 delay(starts, 0, count, 0.99), GOAL_NONE, 0);
    bench_note(bench, "the neighbour's backlog, meanwhile drained from", (double)left_before, "items");
    bench_note(bench, "the neighbour's backlog, meanwhile drained to", (double)left_after, "items");
    store_close(store);
}
