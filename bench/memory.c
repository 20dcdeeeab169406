/* Figure 6: the memory of the daemon itself: `weir serve` as it is installed, with a million executions waiting. */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "fixture.h"

enum { READY_TRIES = 7, DEMO_TRIES = 3, SERVE_SECONDS = 15 };

static double stripped_mib(struct bench *bench, const char *binary)
{
    char target[DAEMON_PATH_MAX];
    struct stat facts;
    (void)snprintf(target, sizeof target, "%s/stripped", bench->folder);
    const char *const words[] = {"strip", "-o", target, binary, NULL};
    pid_t child = daemon_spawn(words, "/dev/null");
    if (child < 0 || !daemon_await_exit(child) || stat(target, &facts) != 0) {
        return 0; /* no binutils here */
    }
    return (double)facts.st_size / 1048576;
}

/* In a process of its own: filling a million leaves its traces in memory. */
static void fill(struct bench *bench, size_t count)
{
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        struct store *store = fixture_store(bench, "memory");
        fixture_publish(store, "nap", "name: nap\nsteps:\n  run:\n    sleep: 1ms\n");
        fixture_workspaces(store, 0, 1000, NULL);
        fixture_fill_with(store, "nap", 0, 1000, count);
        store_close(store);
        _exit(0);
    }
    BENCH_CHECK(daemon_await_exit(child));
}

/* The time that a newcomer waits: from the command to the end of the first execution, which takes a few syncs and
 * processes. Where one does not come within the bound, something had to wait for a poll. */
static double first_of_demo_ms(struct bench *bench, const char *binary)
{
    static const char *const script = "cd \"$0\" && exec \"$1\" demo --once -q";
    const char *const words[] = {"sh", "-c", script, bench->folder, binary, NULL};
    char url[DAEMON_PATH_MAX];
    struct store *store = NULL;
    struct timespec began;
    (void)clock_gettime(CLOCK_REALTIME, &began);
    BENCH_CHECK(daemon_await_exit(daemon_spawn(words, "/dev/null")));
    (void)snprintf(url, sizeof url, "sqlite:%s/weir-demo.db", bench->folder);
    struct store_options options = {.url = url};
    BENCH_CHECK(store_open(&options, &store, NULL) == WEIR_OK);
    double first_us = (double)fixture_count(store, "SELECT min(finished_at) FROM workflow_executions");
    store_close(store);
    return first_us / 1000 - ((double)began.tv_sec * 1000 + (double)began.tv_nsec / 1e6);
}

void bench_memory(struct bench *bench)
{
    char binary[DAEMON_PATH_MAX];
    double ready[READY_TRIES];
    double first[DEMO_TRIES];
    struct daemon daemon;
    daemon_find_binary(binary, sizeof binary);
    struct store *empty = fixture_store(bench, "ready");
    for (size_t i = 0; i < READY_TRIES; i++) {
        daemon_serve(bench, binary, store_url(empty), &daemon);
        ready[i] = daemon.ready_ms;
        daemon_stop(&daemon);
    }
    store_close(empty);
    bench_report(bench, "weir serve: ready after", bench_percentile(ready, READY_TRIES, 0.5), "ms", 0, VALUE_AT_MOST, 50);
    for (size_t i = 0; i < DEMO_TRIES; i++) {
        first[i] = first_of_demo_ms(bench, binary);
    }
    bench_report(bench, "weir demo: first execution done after", bench_percentile(first, DEMO_TRIES, 0.5), "ms", 0,
                 VALUE_AT_MOST, 1000);
    bench_report(bench, "weir: size when stripped", stripped_mib(bench, binary), "MiB", 0, VALUE_AT_MOST, 5);

    fill(bench, bench->quick ? 5000 : 1000000);
    struct store *store = fixture_store(bench, "memory");
    daemon_serve(bench, binary, store_url(store), &daemon);
    bench_pause(bench->quick ? 1 : SERVE_SECONDS);
    double now = daemon_status_mib(&daemon, "VmRSS:");
    double peak = daemon_status_mib(&daemon, "VmHWM:");
    double own = daemon_status_mib(&daemon, "RssAnon:");
    for (double until = bench_now() + 60; fixture_count(store, FIXTURE_COMPLETED) == 0;) {
        BENCH_CHECK(bench_now() < until); /* it does work; a second is not much on a busy machine */
        bench_pause(0.01);
    }
    daemon_stop(&daemon);
    bench_report(bench, "weir serve, 1M pending: RSS while it works", now, "MiB", 0, VALUE_AT_MOST, 20);
    bench_note(bench, "weir serve, 1M pending: of it its own memory", own, "MiB");
    bench_note(bench, "weir serve, 1M pending: most RSS", peak, "MiB");
    bench_note(bench, "weir serve, 1M pending: ready after", daemon.ready_ms, "ms");
    store_close(store);
}
