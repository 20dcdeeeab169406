/* weir as one of the queues that `./dev bench waiting` compares: the verbs of README.md about executions that wait, on a
 * PostgreSQL store. One node with the in-process engine, and a store handle of this program's own beside it, as another
 * program has one.
 *
 * It never counts an execution as parked or done before the store does. */
#include "waiting.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "verbs.h"
#include "waits.h"
#include "weir/weir.h"

enum { SET = 100, WARM_UP_ROUNDS = 3 };

static struct weir_error fault;

/* --- the scene --- */

/* The node's engine comes first: it forks, and stores start threads. */
static void open_scene(struct waits *waits, struct fixture_node *node)
{
    *waits = (struct waits){.on_postgres = true, .starts = starts_make()};
    fixture_engine(node, starts_handler, waits->starts);
}

static void connect_scene(struct waits *waits, const char *url, struct store *store)
{
    waits->scene.store = store;
    waits->scene.connection = PQconnectdb(url);
    BENCH_CHECK(PQstatus(waits->scene.connection) == CONNECTION_OK);
    postgres_scene_run(&waits->scene, "SET client_min_messages = error; SET search_path = weir, public");
}

static void make_store(const char *url, struct waits *waits)
{
    waits->scene.store = fixture_store_at(url);
    fixture_workspaces(waits->scene.store, 0, WAITS_WORKSPACES, NULL);
    waits_publish(waits, "nap", "sleep: {until: \"${.input.until}\"}");
    waits_publish(waits, "ask", "signal: go");
    waits_publish_family(waits);
}

static struct store *open_store(const char *url)
{
    struct store_options options = {.url = url};
    struct store *store = NULL;
    BENCH_OK(store_open(&options, &store, &fault), &fault);
    return store;
}

/* A node on a new store. */
static void start_anew(struct waits *waits, struct fixture_node *node, const char *url)
{
    open_scene(waits, node);
    make_store(url, waits);
    connect_scene(waits, url, waits->scene.store);
    fixture_start(node, open_store(url));
}

static _Noreturn void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The figures as members of the object. The node goes on until here: how long it takes to stop is no figure. */
static _Noreturn void report(const char *format, ...)
{
    va_list arguments;
    printf("{\"name\": \"weir\", \"version\": \"%s\", \"runtime\": \"C\", \"settings\": \"1 node, 1,000 workspaces, caps "
           "on\", ",
           weir_version());
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    printf("}\n");
    fflush(stdout);
    _exit(0);
}

/* --- timers --- */

static double number_of(const char *variable)
{
    const char *text = getenv(variable);
    BENCH_CHECK(text != NULL);
    return strtod(text, NULL);
}

/* The due time of an execution, on the clock of bench_now(). */
static double due_of(size_t number)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    double ahead = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - bench_now();
    return (number_of("WEIR_BENCH_DUE_MS") + (double)number * number_of("WEIR_BENCH_SPACING_MS")) / 1000 - ahead;
}

static void fill_timers(const char *url, size_t count)
{
    struct waits waits = {.on_postgres = true};
    make_store(url, &waits);
    struct store *store = waits.scene.store;
    double first = due_of(0);
    double spacing = number_of("WEIR_BENCH_SPACING_MS") / 1000;
    BENCH_CHECK(count % SET == 0);
    for (size_t done = 0; done < count; done += SET) {
        struct enqueue_request requests[SET] = {0};
        struct enqueue_result results[SET];
        char params[SET][96];
        char names[SET][16];
        for (size_t i = 0; i < SET; i++) {
            char at[WAITS_TEXT_MAX];
            waits_format_time(first + (double)(done + i) * spacing, at, sizeof at);
            text_copy(names[i], sizeof names[i], fixture_workspace((done + i) % WAITS_WORKSPACES));
            int length = snprintf(params[i], sizeof params[i], "{\"n\": %zu, \"until\": \"%s\"}", done + i, at);
            requests[i] = (struct enqueue_request){
                .workspace = names[i], .workflow = "nap", .params = params[i], .params_length = (size_t)length};
        }
        BENCH_OK(store_enqueue(store, requests, SET, results, &fault), &fault);
        for (size_t i = 0; i < SET; i++) {
            BENCH_OK(results[i].status, &results[i].error);
        }
    }
    store_close(store);
}

static void measure_timers(const char *url, size_t count)
{
    struct fixture_node node = {0};
    struct waits waits;
    double *late = calloc(count, sizeof *late);
    BENCH_CHECK(late != NULL && count > 0 && count <= STARTS_MAX);
    open_scene(&waits, &node);
    connect_scene(&waits, url, NULL);
    struct store *store = open_store(url);
    double first = due_of(0);
    double spacing = number_of("WEIR_BENCH_SPACING_MS") / 1000;
    for (size_t i = 0; i < count; i++) {
        atomic_store(&waits.starts->enqueued[i], first + (double)i * spacing);
    }
    double began = bench_now();
    fixture_start(&node, store);
    BENCH_CHECK(waits_await_parked(&waits, count, first - began));
    double parked = bench_now();
    BENCH_CHECK(parked < first);
    BENCH_CHECK(waits_await_completed(&waits, count, count, WAITS_SECONDS_MAX));
    double ended = bench_now();
    starts_delays(waits.starts, 0, count, late);
    report("\"jobs\": %zu, \"parks_per_s\": %.3f, \"wakes_per_s\": %.3f, \"both_per_s\": %.3f, \"late_p50_ms\": %.3f, "
           "\"late_p99_ms\": %.3f",
           count, (double)count / (parked - began), (double)count / (ended - first),
           (double)count / (parked - began + ended - first), bench_percentile(late, count, 0.5) / 1000,
           bench_percentile(late, count, 0.99) / 1000);
}

/* --- signals --- */

static void signal_once(struct waits *waits, size_t number)
{
    char params[32];
    struct enqueue_result result;
    struct sent_signal sent;
    int length = snprintf(params, sizeof params, "{\"n\": %zu}", number);
    struct enqueue_request request = {
        .workspace = fixture_workspace(0), .workflow = "ask", .params = params, .params_length = (size_t)length};
    BENCH_OK(store_enqueue(waits->scene.store, &request, 1, &result, &fault), &fault);
    BENCH_OK(result.status, &result.error);
    BENCH_CHECK(waits_await_parked(waits, 1, WAITS_SECONDS_MAX));
    bench_pause((20 + 7 * (double)(number % 10)) / 1000);
    struct signal_request signal = {.id = result.id, .name = "go"};
    atomic_store(&waits->starts->enqueued[number], bench_now());
    BENCH_OK(store_signal(waits->scene.store, &signal, &sent, &fault), &fault);
    starts_await(waits->starts, number);
}

static void measure_signals(const char *url, size_t rounds)
{
    struct fixture_node node = {0};
    struct waits waits;
    double *starts = calloc(rounds, sizeof *starts);
    double *signals = calloc(rounds, sizeof *signals);
    BENCH_CHECK(rounds > 0 && starts != NULL && signals != NULL && 2 * (rounds + WARM_UP_ROUNDS) <= STARTS_MAX);
    start_anew(&waits, &node, url);
    for (size_t i = 0; i < WARM_UP_ROUNDS + rounds; i++) {
        size_t at = i < WARM_UP_ROUNDS ? 0 : i - WARM_UP_ROUNDS;
        bench_pause((20 + 7 * (double)(i % 10)) / 1000);
        starts_enqueue(waits.starts, waits.scene.store, fixture_workspace(0), 2 * i);
        starts_await(waits.starts, 2 * i);
        signal_once(&waits, 2 * i + 1);
        starts_delays(waits.starts, 2 * i, 1, &starts[at]);
        starts_delays(waits.starts, 2 * i + 1, 1, &signals[at]);
    }
    report("\"jobs\": %zu, \"start_p50_ms\": %.4f, \"signal_p50_ms\": %.4f, \"signal_p99_ms\": %.4f", rounds,
           bench_percentile(starts, rounds, 0.5) / 1000, bench_percentile(signals, rounds, 0.5) / 1000,
           bench_percentile(signals, rounds, 0.99) / 1000);
}

/* --- children --- */

static void measure_children(const char *url, size_t count)
{
    struct fixture_node node = {0};
    struct waits waits;
    size_t completed = 0;
    start_anew(&waits, &node, url);
    (void)waits_plain_seconds(&waits, 1, &completed);
    double plain = waits_plain_seconds(&waits, count, &completed);
    double family = waits_family_seconds(&waits, count, &completed);
    report("\"jobs\": %zu, \"plain_per_s\": %.3f, \"children_per_s\": %.3f", count, (double)count / plain,
           (double)count / family);
}

static const struct peer_verb verbs[] = {
    {"fill-timers", fill_timers}, {"timers", measure_timers}, {"signals", measure_signals}, {"children", measure_children}};

int waiting_main(int argc, char **argv)
{
    return peer_verb_run("waiting", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}
