/* The scene of executions that wait (waits.h): stores of both drivers behind the same calls, and the process of the node.
 *
 * Times of the store's clock are those of this machine: store and bench run on one. They are given as the bench's own
 * monotonic seconds, and become a time of day only as text of a definition or of params.
 */
#include "waits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "daemon.h"

#define ASK_SECONDS 0.005
enum { CLOCK_READS = 20 };

static struct weir_error fault;

bool waits_open(struct waits *waits, struct bench *bench, const char *group, bool on_postgres)
{
    *waits = (struct waits){.bench = bench, .on_postgres = on_postgres};
    if (on_postgres && !postgres_scene_server(bench, group, &waits->server)) {
        return false;
    }
    waits->starts = starts_make();
    return true;
}

void waits_close(struct waits *waits)
{
    if (waits->on_postgres) {
        postgres_server_close(&waits->server);
    }
}

/* --- the store --- */

void waits_begin_store(struct waits *waits, const char *name)
{
    memset(waits->starts, 0, sizeof *waits->starts);
    if (waits->on_postgres) {
        postgres_scene_open(&waits->scene, &waits->server, name, true);
    } else {
        waits->scene = (struct postgres_scene){.store = fixture_store(waits->bench, name)};
        text_copy(waits->scene.url, sizeof waits->scene.url, store_url(waits->scene.store));
    }
    waits_set_relaxed(waits, true);
    fixture_workspaces(waits->scene.store, 0, WAITS_WORKSPACES, NULL);
    waits_set_relaxed(waits, false);
}

void waits_end_store(struct waits *waits)
{
    BENCH_CHECK(waits->node.pid == 0);
    if (waits->on_postgres) {
        postgres_scene_close(&waits->scene);
    } else {
        fixture_check(waits->scene.store);
        store_close(waits->scene.store);
    }
    waits->scene = (struct postgres_scene){0};
}

void waits_set_relaxed(struct waits *waits, bool relaxed)
{
    if (waits->on_postgres) {
        postgres_scene_set_relaxed(&waits->scene, relaxed);
    }
}

/* --- the node --- */

static void reopen_store(struct waits *waits)
{
    struct store_options options = {.url = waits->scene.url};
    BENCH_OK(store_open(&options, &waits->scene.store, &fault), &fault);
}

void waits_start_node(struct waits *waits)
{
    BENCH_CHECK(waits->node.pid == 0);
    if (!waits->on_postgres) {
        store_close(waits->scene.store); /* a child cannot open what its parent has open at the fork */
    }
    postgres_nodes_make(&waits->scene, waits->starts, &waits->node, 1);
    if (!waits->on_postgres) {
        reopen_store(waits);
    }
    postgres_nodes_go(&waits->node, 1);
}

void waits_stop_node(struct waits *waits)
{
    postgres_nodes_stop(&waits->node, 1);
    waits->node = (struct postgres_process){0};
}

double waits_node_mib(const struct waits *waits, const char *field)
{
    struct daemon process = {.child = waits->node.pid};
    return daemon_status_mib(&process, field);
}

double waits_node_processor_us(const struct waits *waits)
{
    clockid_t clock;
    struct timespec used;
    BENCH_CHECK(clock_getcpuclockid(waits->node.pid, &clock) == 0 && clock_gettime(clock, &used) == 0);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/* --- counters --- */

int64_t waits_completed(const struct waits *waits)
{
    return waits->on_postgres ? postgres_scene_completed(&waits->scene)
                              : fixture_count(waits->scene.store, FIXTURE_COMPLETED);
}

int64_t waits_parked(const struct waits *waits)
{
    static const char postgres[] =
        "SELECT coalesce((SELECT sum(b.parked) FROM books b), 0) + "
        "coalesce((SELECT sum(p.items) FROM news n CROSS JOIN LATERAL unnest(n.parked) p (items)), 0)";
    static const char sqlite[] = "SELECT coalesce(sum(parked), 0) FROM lane_counters";
    return waits->on_postgres ? postgres_scene_number(&waits->scene, postgres) : fixture_count(waits->scene.store, sqlite);
}

/* With much news a question takes the server some 10 ms. So the next one follows after ten times as long: the questions
 * belong to the figures of the server. */
static bool await_count(const struct waits *waits, int64_t (*read)(const struct waits *), size_t count, double seconds_max)
{
    double began = bench_now();
    double asked = began;
    while (read(waits) != (int64_t)count) {
        double answered = bench_now();
        if (answered > began + seconds_max) {
            return false;
        }
        bench_pause(fmax(ASK_SECONDS, fmin(0.1, 10 * (answered - asked))));
        asked = bench_now();
    }
    return true;
}

bool waits_await_completed(const struct waits *waits, size_t count, size_t handled, double seconds_max)
{
    double end = bench_now() + seconds_max;
    while (atomic_load(&waits->starts->handled) < handled) { /* costs the store nothing */
        if (bench_now() > end) {
            return false;
        }
        bench_pause(ASK_SECONDS / 5);
    }
    return await_count(waits, waits_completed, count, end - bench_now());
}

bool waits_await_parked(const struct waits *waits, size_t count, double seconds_max)
{
    return await_count(waits, waits_parked, count, seconds_max);
}

/* --- workflows --- */

double waits_store_ahead(const struct waits *waits)
{
    double ahead = 0;
    double shortest = -1;
    for (int i = 0; i < CLOCK_READS; i++) {
        int64_t now_us = 0;
        double before = bench_now();
        BENCH_OK(store_time(waits->scene.store, &now_us, &fault), &fault);
        double took = bench_now() - before;
        if (shortest < 0 || took < shortest) {
            shortest = took;
            ahead = (double)now_us / 1e6 - before - took / 2;
        }
    }
    return ahead;
}

void waits_format_time(double at, char *to, size_t size)
{
    struct tm parts;
    char seconds[24];
    double us = at * 1e6;
    time_t whole = (time_t)(us / 1e6);
    BENCH_CHECK(gmtime_r(&whole, &parts) != NULL && strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts) > 0);
    (void)snprintf(to, size, "%s.%06dZ", seconds, (int)(us - (double)whole * 1e6));
}

void waits_publish(struct waits *waits, const char *name, const char *wait)
{
    char source[256];
    int length = snprintf(source, sizeof source,
                          "name: %s\nsteps:\n  wait:\n    %s\n  run:\n    needs: [wait]\n    handler: noop\n", name, wait);
    BENCH_CHECK(length > 0 && (size_t)length < sizeof source);
    fixture_publish(waits->scene.store, name, source);
}
