/* How much of the rate of lifecycles is left when each execution waits once: it is started, parks, is woken by its timer,
 * and is started again for its one handler.
 *
 *   1. Lifecycles without a wait are drained; their rate is the floor.
 *   2. Executions that sleep until one common time are filled, and the node parks all of them.
 *   3. From that time on the node wakes them and runs their handlers.
 *
 * The processor of each part is counted beside it: its rate moves with all else that the machine does, and this does not.
 * The rate counts both parts and leaves out the wait between them. If the last one is parked after the common time, parks
 * and wakes overlap and the rate says nothing: then it is tried again with a later time.
 */
#include <stdio.h>

#include "postgres_processor.h"
#include "waits.h"

enum { TRIES = 4 };

/* Microseconds of a core. */
struct used {
    double server; /* on PostgreSQL */
    double node;
};

static struct used read_used(const struct waits *waits)
{
    return (struct used){.server = waits->on_postgres ? postgres_processor_us(&waits->server) : 0,
                         .node = waits_node_processor_us(waits)};
}

/* Of each execution since `before`. */
static struct used used_since(const struct waits *waits, struct used before, size_t count)
{
    struct used used = read_used(waits);
    return (struct used){.server = (used.server - before.server) / (double)count,
                         .node = (used.node - before.node) / (double)count};
}

static void note_used(struct bench *bench, const char *prefix, const char *part, struct used used)
{
    char name[FIGURE_NAME_MAX];
    if (used.server > 0) {
        (void)snprintf(name, sizeof name, "%s%s: processor of the server", prefix, part);
        bench_note(bench, name, used.server, "us");
    }
    (void)snprintf(name, sizeof name, "%s%s: processor of the node", prefix, part);
    bench_note(bench, name, used.node, "us");
}

static double drain_plain(struct waits *waits, const char *name, size_t count, struct used *ret_used)
{
    waits_begin_store(waits, name);
    waits_set_relaxed(waits, true);
    fixture_fill(waits->scene.store, 0, WAITS_WORKSPACES, count);
    waits_set_relaxed(waits, false);
    double began = bench_now();
    waits_start_node(waits);
    struct used before = read_used(waits);
    BENCH_CHECK(waits_await_completed(waits, count, count, WAITS_SECONDS_MAX));
    double lasted = bench_now() - began;
    *ret_used = used_since(waits, before, count);
    waits_stop_node(waits);
    waits_end_store(waits);
    return (double)count / lasted;
}

struct parks {
    double park_seconds;
    double wake_seconds;
    struct used park_used;
    struct used wake_used;
};

/* False: some were parked too late. */
static bool park_and_wake(struct waits *waits, const char *name, size_t count, double seconds, struct parks *parks)
{
    char at[WAITS_TEXT_MAX];
    char wait[2 * WAITS_TEXT_MAX];
    waits_begin_store(waits, name);
    waits_set_relaxed(waits, true);
    double due = bench_now() + seconds;
    waits_format_time(due + waits_store_ahead(waits), at, sizeof at);
    (void)snprintf(wait, sizeof wait, "sleep: {until: \"%s\"}", at);
    waits_publish(waits, "nap", wait);
    fixture_fill_with(waits->scene.store, "nap", 0, WAITS_WORKSPACES, count);
    waits_set_relaxed(waits, false);
    double began = bench_now();
    waits_start_node(waits);
    struct used before = read_used(waits);
    bool is_parked = waits_await_parked(waits, count, due - began);
    double parked = bench_now();
    parks->park_used = used_since(waits, before, count);
    before = read_used(waits);
    BENCH_CHECK(waits_await_completed(waits, count, count, WAITS_SECONDS_MAX));
    double ended = bench_now();
    parks->wake_used = used_since(waits, before, count);
    waits_stop_node(waits);
    waits_end_store(waits);
    parks->park_seconds = parked - began;
    parks->wake_seconds = ended - due;
    return is_parked && parked < due;
}

static void measure(struct bench *bench, const char *group, bool on_postgres, const char *prefix)
{
    struct waits waits;
    struct parks parks = {0};
    struct used plain_used;
    char name[FIGURE_NAME_MAX];
    size_t count = bench->quick ? 1000 : 100000;
    if (!waits_open(&waits, bench, group, on_postgres)) {
        return;
    }
    double before = drain_plain(&waits, "plain_before", count, &plain_used);
    double seconds = 4 + 4 * (double)count / before;
    bool is_valid = false;
    for (int i = 0; i < TRIES && !is_valid; i++) {
        (void)snprintf(name, sizeof name, "park_%d", i);
        is_valid = park_and_wake(&waits, name, count, seconds, &parks);
        seconds *= 2;
    }
    BENCH_CHECK(is_valid);
    double plain = (before + drain_plain(&waits, "plain_after", count, &plain_used)) / 2;
    (void)snprintf(name, sizeof name, "%slifecycles without a wait", prefix);
    bench_note(bench, name, plain, "items/s");
    note_used(bench, prefix, "lifecycle", plain_used);
    note_used(bench, prefix, "park", parks.park_used);
    note_used(bench, prefix, "wake", parks.wake_used);
    (void)snprintf(name, sizeof name, "%sparks", prefix);
    bench_report(bench, name, (double)count / parks.park_seconds, "items/s", plain, GOAL_NONE, 0);
    (void)snprintf(name, sizeof name, "%swakes, to the end", prefix);
    bench_report(bench, name, (double)count / parks.wake_seconds, "items/s", plain, GOAL_NONE, 0);
    (void)snprintf(name, sizeof name, "%spark and wake", prefix);
    bench_report(bench, name, (double)count / (parks.park_seconds + parks.wake_seconds), "items/s", plain, RATIO_AT_LEAST,
                 0.5);
    waits_close(&waits);
}

void bench_waits_park(struct bench *bench)
{
    measure(bench, "waits-park", false, "");
}

void bench_postgres_waits_park(struct bench *bench)
{
    measure(bench, "postgres-waits-park", true, "pg ");
}
