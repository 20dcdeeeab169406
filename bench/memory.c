/* Figure 6: what the daemon itself takes: `weir serve` as it is installed, with a million executions waiting. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

enum { READY_TRIES = 7, DEMO_TRIES = 3, SERVE_SECONDS = 15, MEMORY_PATH_MAX = PATH_MAX + 128 };

extern char **environ;

static void pause_us(long us)
{
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&pause, NULL);
}

/* The binary of the same build: bench/weir_bench and weir lie in one build folder. */
static void find_binary(char *to, size_t size)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    BENCH_CHECK(length > 0);
    self[length] = '\0';
    (void)snprintf(to, size, "%s/weir", dirname(dirname(self)));
    BENCH_CHECK(access(to, X_OK) == 0);
}

/* Runs a program with its output in a file; the path of the program is looked up in PATH. */
static pid_t spawn(const char *const *words, const char *output)
{
    pid_t child = 0;
    posix_spawn_file_actions_t actions;
    BENCH_CHECK(posix_spawn_file_actions_init(&actions) == 0);
    BENCH_CHECK(posix_spawn_file_actions_addopen(&actions, 1, output, O_CREAT | O_TRUNC | O_WRONLY, 0600) == 0);
    BENCH_CHECK(posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0);
    int failed = posix_spawnp(&child, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed == 0 ? child : -1;
}

static bool await_exit(pid_t child)
{
    int how = 0;
    BENCH_CHECK(waitpid(child, &how, 0) == child);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static double stripped_mib(struct bench *bench, const char *binary)
{
    char target[MEMORY_PATH_MAX];
    struct stat facts;
    (void)snprintf(target, sizeof target, "%s/stripped", bench->folder);
    const char *const words[] = {"strip", "-o", target, binary, NULL};
    pid_t child = spawn(words, "/dev/null");
    if (child < 0 || !await_exit(child) || stat(target, &facts) != 0) {
        return 0; /* no binutils here */
    }
    return (double)facts.st_size / 1048576;
}

struct daemon {
    pid_t child;
    char output[MEMORY_PATH_MAX];
    double ready_ms;
};

/* Until its first line, which says that the node has started. */
static void serve(struct bench *bench, const char *binary, const struct store *store, struct daemon *daemon)
{
    const char *const words[] = {binary, "serve", "--store", store_url(store), NULL};
    struct stat facts = {0};
    (void)snprintf(daemon->output, sizeof daemon->output, "%s/serve.log", bench->folder);
    (void)unlink(daemon->output);
    double began = bench_now();
    daemon->child = spawn(words, daemon->output);
    BENCH_CHECK(daemon->child > 0);
    while (stat(daemon->output, &facts) != 0 || facts.st_size == 0) {
        BENCH_CHECK(bench_now() < began + 60 && waitpid(daemon->child, NULL, WNOHANG) == 0);
        pause_us(200);
    }
    daemon->ready_ms = (bench_now() - began) * 1000;
}

static void stop(struct daemon *daemon)
{
    BENCH_CHECK(kill(daemon->child, SIGTERM) == 0);
    BENCH_CHECK(await_exit(daemon->child));
}

/* A field of /proc/PID/status in MiB. */
static double status_mib(pid_t child, const char *field)
{
    char path[64];
    char line[256];
    double kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)child);
    FILE *file = fopen(path, "r");
    BENCH_CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            kib = strtod(line + strlen(field) + 1, NULL);
        }
    }
    (void)fclose(file);
    return kib / 1024;
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
    BENCH_CHECK(await_exit(child));
}

/* What a newcomer waits for: from the command to the end of the first execution, which takes a few syncs and processes.
 * Where one does not come within the bound, something had to wait for a poll. */
static double first_of_demo_ms(struct bench *bench, const char *binary)
{
    static const char *const script = "cd \"$0\" && exec \"$1\" demo --once -q";
    const char *const words[] = {"sh", "-c", script, bench->folder, binary, NULL};
    char url[MEMORY_PATH_MAX];
    struct store *store = NULL;
    struct timespec began;
    (void)clock_gettime(CLOCK_REALTIME, &began);
    BENCH_CHECK(await_exit(spawn(words, "/dev/null")));
    (void)snprintf(url, sizeof url, "sqlite:%s/weir-demo.db", bench->folder);
    struct store_options options = {.url = url};
    BENCH_CHECK(store_open(&options, &store, NULL) == WEIR_OK);
    double first_us = (double)fixture_count(store, "SELECT min(finished_at) FROM workflow_executions");
    store_close(store);
    return first_us / 1000 - ((double)began.tv_sec * 1000 + (double)began.tv_nsec / 1e6);
}

void bench_memory(struct bench *bench)
{
    char binary[MEMORY_PATH_MAX];
    double ready[READY_TRIES];
    double first[DEMO_TRIES];
    struct daemon daemon;
    find_binary(binary, sizeof binary);
    struct store *empty = fixture_store(bench, "ready");
    for (size_t i = 0; i < READY_TRIES; i++) {
        serve(bench, binary, empty, &daemon);
        ready[i] = daemon.ready_ms;
        stop(&daemon);
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
    serve(bench, binary, store, &daemon);
    pause_us(bench->quick ? 1000000 : (long)SERVE_SECONDS * 1000000);
    double now = status_mib(daemon.child, "VmRSS:");
    double peak = status_mib(daemon.child, "VmHWM:");
    double own = status_mib(daemon.child, "RssAnon:");
    for (double until = bench_now() + 60; fixture_count(store, "SELECT sum(completed) FROM workspaces") == 0;) {
        BENCH_CHECK(bench_now() < until); /* it does work; a second is not much on a busy machine */
        pause_us(10000);
    }
    stop(&daemon);
    bench_report(bench, "weir serve, 1M pending: RSS while it works", now, "MiB", 0, VALUE_AT_MOST, 20);
    bench_note(bench, "weir serve, 1M pending: of it its own memory", own, "MiB");
    bench_note(bench, "weir serve, 1M pending: most RSS", peak, "MiB");
    bench_note(bench, "weir serve, 1M pending: ready after", daemon.ready_ms, "ms");
    store_close(store);
}
