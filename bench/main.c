/* weir_bench: runs the groups, prints the table, writes the JSON list. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "assemble.h"
#include "base/text.h"
#include "bench.h"
#include "http_flood.h"
#include "http_foreign.h"
#include "http_hostile.h"
#include "machine.h"
#include "peers/handler.h"
#include "peers/waiting.h"
#include "peers/weir.h"

static const struct group {
    const char *name;
    const char *about;
    void (*run)(struct bench *bench);
} groups[] = {
    {"lifecycle", "executions per second from the queue to the history, through a real node", bench_lifecycle},
    {"enqueue", "in sets, one by one, and inside a caller's transaction", bench_enqueue},
    {"claim", "a claim of 10 behind full workspaces and large backlogs", bench_claim},
    {"latency", "from enqueue to the start of the handler in an idle node", bench_latency},
    {"neighbour", "the delay of a small workspace beside one with a large backlog", bench_neighbour},
    {"neighbour-steps", "the delay of a function of a workspace beside executions of 200 parallel functions of another",
     bench_neighbour_steps},
    {"neighbour-calls", "the same beside 10,000 calls of functions that wait for a thread", bench_neighbour_calls},
    {"neighbour-programs", "the delay of a program beside executions of 200 parallel programs", bench_neighbour_programs},
    {"idle", "writes and processor time of a node when there is nothing to do", bench_idle},
    {"memory", "of a node with a large backlog, and the time until it is ready", bench_memory},
    {"waits-park", "executions that park and are woken, beside lifecycles without a wait", bench_waits_park},
    {"waits-parked", "a thousand due each second beside a million parked ones", bench_waits_parked},
    {"waits-signals", "from a signal to the start of the next step", bench_waits_signals},
    {"waits-children", "a parent of ten thousand children beside as many enqueues", bench_waits_children},
    {"http", "enqueues over HTTP beside those in one process", bench_http},
    {"http-reads", "/metrics, one execution and its reason over HTTP, on a large store", bench_http_reads},
    {"http-hostile", "ordinary requests beside connections that are slow, silent or many", bench_http_hostile},
    {"http-flood", "requests of a tenant beside a token of another one that sends beyond its rate", bench_http_flood},
    {"http-foreign", "refused requests for ids of another workspace beside those for missing ids", bench_http_foreign},
    {"beanstalkd", "pushes to beanstalkd beside enqueues over HTTP", bench_beanstalkd},
    {"grpc", "the gRPC client against a scripted server: CPU and rate of unary calls", bench_grpc},
    {"postgres-lifecycles", "the same on a PostgreSQL server of its own", bench_postgres_lifecycles},
    {"postgres-nodes", "the same with 1, 2, 4 and 8 nodes in turn", bench_postgres_nodes},
    {"postgres-claims", "rounds of the scheduler behind full workspaces", bench_postgres_claims},
    {"postgres-latency", "from enqueue to the start of the handler in an idle node", bench_postgres_latency},
    {"postgres-backlog", "the same claim with a thousand and with ten million rows pending", bench_postgres_backlog},
    {"postgres-takeover", "a scheduler that ends, and the next start", bench_postgres_takeover},
    {"postgres-neighbour", "the delay of small workspaces beside one with a million rows", bench_postgres_neighbour},
    {"postgres-held-open", "claims while somebody holds a transaction open", bench_postgres_held_open},
    {"postgres-http", "enqueues over HTTP beside those in one process", bench_postgres_http},
    {"postgres-http-flood", "requests of a tenant beside a token of another one that sends beyond its rate",
     bench_postgres_http_flood},
    {"postgres-pg-boss", "jobs sent to pg-boss over its HTTP proxy beside enqueues over HTTP", bench_postgres_pg_boss},
    {"postgres-idle", "queries and writes of a node when there is nothing to do", bench_postgres_idle},
    {"postgres-memory", "of the node that schedules ten million executions", bench_postgres_memory},
    {"postgres-waits-park", "executions that park and are woken, beside lifecycles without a wait",
     bench_postgres_waits_park},
    {"postgres-waits-parked", "a thousand due each second beside a million parked ones", bench_postgres_waits_parked},
    {"postgres-waits-signals", "from a signal to the start of the next step", bench_postgres_waits_signals},
    {"postgres-waits-children", "a parent of ten thousand children beside as many enqueues", bench_postgres_waits_children},
    {"temporal", "starts on Temporal against a scripted server: the client alone, and through weir", bench_temporal},
    {"temporal-service", "starts through weir beside a plain loop of them, on a real Temporal server",
     bench_temporal_service},
    {"temporal-lone", "a lone execution beside a plain client, on a real Temporal server", bench_temporal_lone},
};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

/* --- measuring --- */

double bench_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_pause(double seconds)
{
    struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0) {
        (void)nanosleep(&pause, NULL);
    }
}

double bench_thread_cpu_us(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_percentile(double *samples, size_t count, double share)
{
    BENCH_CHECK(count > 0);
    qsort(samples, count, sizeof *samples, compare_doubles);
    size_t at = (size_t)(share * (double)count);
    return samples[at < count ? at : count - 1];
}

void bench_fail(const char *file, int line, const char *message)
{
    fprintf(stderr, "weir_bench: %s:%d: %s\n", file, line, message);
    fflush(NULL);
    _exit(1);
}

/* --- reporting --- */

void bench_report(struct bench *bench, const char *name, double value, const char *unit, double floor,
                  enum goal_kind goal_kind, double goal)
{
    BENCH_CHECK(bench->figures->count < FIGURES_MAX);
    struct figure *figure = &bench->figures->list[bench->figures->count++];
    *figure = (struct figure){.value = value, .floor = floor, .goal_kind = goal_kind, .goal = goal};
    text_copy(figure->name, sizeof figure->name, name);
    text_copy(figure->unit, sizeof figure->unit, unit);
}

void bench_note(struct bench *bench, const char *name, double value, const char *unit)
{
    bench_report(bench, name, value, unit, 0, GOAL_NONE, 0);
}

static double ratio_of(const struct figure *figure)
{
    return figure->floor == 0 ? 0 : figure->value / figure->floor;
}

static bool is_met(const struct figure *figure)
{
    switch (figure->goal_kind) {
    case VALUE_AT_LEAST:
        return figure->value >= figure->goal;
    case VALUE_AT_MOST:
        return figure->value <= figure->goal;
    case RATIO_AT_LEAST:
        return ratio_of(figure) >= figure->goal;
    case RATIO_AT_MOST:
        return ratio_of(figure) <= figure->goal;
    case GOAL_NONE:
        break;
    }
    return true;
}

static void describe_goal(const struct figure *figure, char *to, size_t size)
{
    static const char *const words[] = {"", "value >= ", "value <= ", "ratio >= ", "ratio <= "};
    to[0] = '\0';
    if (figure->goal_kind != GOAL_NONE) {
        (void)snprintf(to, size, "%s%g", words[figure->goal_kind], figure->goal);
    }
}

/* Three or four figures that count, without an exponent. */
static void format_number(double value, char *to, size_t size)
{
    double size_of_it = value < 0 ? -value : value;
    (void)snprintf(to, size, size_of_it >= 100 ? "%.0f" : size_of_it >= 1 ? "%.2f" : "%.4f", value);
}

static void print_figure(const struct figure *figure, bool quick)
{
    char value[32];
    char floor[32] = "";
    char ratio[32] = "";
    char goal[48];
    format_number(figure->value, value, sizeof value);
    if (figure->floor != 0) {
        format_number(figure->floor, floor, sizeof floor);
        (void)snprintf(ratio, sizeof ratio, "%.3f", ratio_of(figure));
    }
    describe_goal(figure, goal, sizeof goal);
    const char *met = figure->goal_kind == GOAL_NONE ? "" : is_met(figure) ? "yes" : quick ? "(quick)" : "NO";
    printf("%-46s %12s %-10s %10s %8s  %-16s %s\n", figure->name, value, figure->unit, floor, ratio, goal, met);
}

static void print_machine(const json_t *machine)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)machine, key, value)
    {
        if (json_is_string(value)) {
            printf("%s: %s\n", key, json_string_value(value));
        } else {
            printf("%s: %g\n", key, json_number_value(value));
        }
    }
    printf("\n%-46s %12s %-10s %10s %8s  %-16s %s\n", "name", "value", "unit", "floor", "ratio", "goal", "met");
}

static int write_json(const struct bench *bench, const json_t *machine, const char *path)
{
    json_t *list = json_array();
    for (size_t i = 0; i < bench->figures->count; i++) {
        const struct figure *figure = &bench->figures->list[i];
        char goal[48];
        describe_goal(figure, goal, sizeof goal);
        json_t *row = json_pack("{s:s, s:f, s:s}", "name", figure->name, "value", figure->value, "unit", figure->unit);
        (void)json_object_set_new(row, "floor", figure->floor == 0 ? json_null() : json_real(figure->floor));
        (void)json_object_set_new(row, "ratio", figure->floor == 0 ? json_null() : json_real(ratio_of(figure)));
        (void)json_object_set_new(row, "goal", figure->goal_kind == GOAL_NONE ? json_null() : json_string(goal));
        (void)json_object_set_new(
            row, "met", figure->goal_kind == GOAL_NONE || bench->quick ? json_null() : json_boolean(is_met(figure)));
        (void)json_object_set(row, "machine", (json_t *)(uintptr_t)machine);
        (void)json_array_append_new(list, row);
    }
    int failed = json_dump_file(list, path, JSON_INDENT(2));
    json_decref(list);
    if (failed != 0) {
        fprintf(stderr, "weir_bench: cannot write %s: %s\n", path, strerror(errno));
    }
    return failed;
}

/* --- running --- */

static bool run_group(struct bench *bench, const struct group *group)
{
    size_t before = bench->figures->count;
    fflush(NULL);
    pid_t child = fork();
    BENCH_CHECK(child >= 0);
    if (child == 0) {
        group->run(bench);
        fflush(NULL);
        _exit(0);
    }
    int how = 0;
    BENCH_CHECK(waitpid(child, &how, 0) == child);
    for (size_t i = before; i < bench->figures->count; i++) {
        print_figure(&bench->figures->list[i], bench->quick);
    }
    fflush(stdout);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        if (bench->figures->daemon > 0) {
            (void)kill(bench->figures->daemon, SIGKILL);
        }
        bench->figures->daemon = 0;
        fprintf(stderr, "weir_bench: the group %s failed\n", group->name);
        return false;
    }
    return true;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    (void)where;
    return remove(path);
}

static int usage(FILE *to, int code)
{
    fprintf(
        to,
        "usage: weir_bench [--quick] [--json FILE] [--dir FOLDER] [--hold SECONDS] [GROUP...]\n\n"
        "Measures weir on the disk of FOLDER (default /var/tmp). postgres-held-open holds a transaction open for SECONDS\n"
        "(10 to 3600, default 60). `weir_bench peer VERB URL COUNT` is for ./dev bench peers, `weir_bench waiting ...`\n"
        "for ./dev bench waiting, `weir_bench handler ...` for ./dev bench languages. --json writes a list of all figures\n"
        "that were measured: with the one group postgres-lifecycles, the entry \"pg lifecycles, 1000 workspaces\" is what\n"
        "one node drains with caps on.\n"
        "The groups, all of them when none is named:\n");
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        fprintf(to, "  %-24s %s\n", groups[i].name, groups[i].about);
    }
    return code;
}

struct choice {
    const char *json;
    const char *folder;
    double hold_seconds;
    bool wanted[GROUP_COUNT];
    bool quick;
};

static bool choose_group(struct choice *choice, const char *name)
{
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (strcmp(groups[i].name, name) == 0) {
            choice->wanted[i] = true;
            return true;
        }
    }
    return false;
}

static bool read_hold(struct choice *choice, const char *text)
{
    char *end = NULL;
    choice->hold_seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(choice->hold_seconds >= 10 && choice->hold_seconds <= 3600)) {
        fprintf(stderr, "weir_bench: --hold takes 10 to 3600 seconds, not \"%s\"\n", text);
        return false;
    }
    return true;
}

/* -1: go on; else the exit code. */
static int read_arguments(int argc, char **argv, struct choice *choice)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            choice->quick = true;
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            choice->json = argv[++i];
        } else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc) {
            choice->folder = argv[++i];
        } else if (strcmp(argv[i], "--hold") == 0 && i + 1 < argc) {
            if (!read_hold(choice, argv[++i])) {
                return usage(stderr, 2);
            }
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return usage(stdout, 0);
        } else if (choose_group(choice, argv[i])) {
            any = true;
        } else {
            fprintf(stderr, "weir_bench: \"%s\" is neither an option nor a group\n", argv[i]);
            return usage(stderr, 2);
        }
    }
    for (size_t i = 0; i < GROUP_COUNT && !any; i++) {
        choice->wanted[i] = true;
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct choice choice = {.folder = "/var/tmp", .hold_seconds = 60};
    struct bench bench = {0};
    if (argc > 1 && strcmp(argv[1], "peer") == 0) {
        assemble_tune_process(); /* as the daemon does */
        return peer_main(argc - 2, argv + 2);
    }
    if (argc > 1 && strcmp(argv[1], "waiting") == 0) {
        assemble_tune_process(); /* as the daemon does */
        return waiting_main(argc - 2, argv + 2);
    }
    if (argc > 1 && strcmp(argv[1], "handler") == 0) { /* not tuned: programs over libweir are not */
        return handler_main(argc - 2, argv + 2);
    }
    int code = read_arguments(argc, argv, &choice);
    if (code >= 0) {
        return code;
    }
    assemble_tune_process(); /* as the daemon does */
    (void)setlinebuf(stdout);
    bench.quick = choice.quick;
    bench.hold_seconds = choice.hold_seconds;
    (void)snprintf(bench.folder, sizeof bench.folder, "%s/weir-bench-XXXXXX", choice.folder);
    if (mkdtemp(bench.folder) == NULL) {
        fprintf(stderr, "weir_bench: cannot make a folder in %s: %s\n", choice.folder, strerror(errno));
        return 1;
    }
    bench.figures = mmap(NULL, sizeof *bench.figures, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BENCH_CHECK(bench.figures != MAP_FAILED);
    bench.fsync_us = machine_fsync_us(&bench);
    json_t *machine = machine_describe(&bench);
    print_machine(machine);
    bool fine = true;
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        fine = (!choice.wanted[i] || run_group(&bench, &groups[i])) && fine;
    }
    (void)nftw(bench.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    fine = (choice.json == NULL || write_json(&bench, machine, choice.json) == 0) && fine;
    json_decref(machine);
    return fine ? 0 : 1;
}
