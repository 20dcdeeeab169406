#include "postgres_claim.h"

#include <stdio.h>

#include "base/text.h"

enum { ROUNDS_MAX = 50 };

static struct weir_error fault;

/* Every slot is taken by an item that stays claimed. */
static void fill_slots(const struct postgres_scene *scene, int64_t node_id)
{
    struct claim_options options = {.node_id = node_id, .group = "default", .limit = CLAIM_BATCH_MOST, .attempts_max = 3};
    struct claim_result result = {0};
    do {
        struct arena arena;
        arena_init(&arena, 64 * 1024 * 1024);
        BENCH_OK(store_claim(scene->store, &options, &arena, &result, &fault), &fault);
        arena_close(&arena);
    } while (result.count > 0 || result.more);
}

/* `full` workspaces of one slot that is taken, with `pending` rows behind, and `small` ones with free slots and a thousand
 * rows. */
static int64_t open_full(struct postgres_scene *scene, struct postgres_server *server, const char *name, size_t full,
                         size_t pending, size_t small)
{
    postgres_scene_open(scene, server, name, true);
    postgres_scene_hurry(scene, true);
    int64_t node_id = postgres_scene_node(scene);
    if (full > 0) {
        fixture_workspaces(scene->store, 0, full, "free");
        fixture_fill(scene->store, 0, full, pending);
        fill_slots(scene, node_id);
    }
    if (small > 0) {
        fixture_workspaces(scene->store, 90000, small, "enterprise");
        fixture_fill(scene->store, 90000, small, 1000);
    }
    postgres_scene_run(scene, "SELECT freshen_lanes('0', 1000000)");
    postgres_scene_hurry(scene, false);
    return node_id;
}

struct explained postgres_explain(const struct bench *bench, const struct postgres_scene *scene, const char *sql)
{
    size_t rounds = bench->quick ? 5 : ROUNDS_MAX;
    double times[ROUNDS_MAX];
    double buffers[ROUNDS_MAX];
    for (size_t i = 0; i < 10; i++) {
        (void)postgres_scene_explain(scene, sql);
    }
    for (size_t i = 0; i < rounds; i++) {
        struct explained one = postgres_scene_explain(scene, sql);
        times[i] = one.us;
        buffers[i] = one.buffers;
    }
    return (struct explained){.us = bench_percentile(times, rounds, 0.5),
                              .buffers = bench_percentile(buffers, rounds, 0.5)};
}

struct explained postgres_explain_claim(const struct bench *bench, const struct postgres_scene *scene, int64_t node_id)
{
    char sql[256];
    char seen[32];
    text_copy(seen, sizeof seen,
              postgres_scene_text(scene, "SELECT pg_snapshot_xmax(seen::pg_snapshot) FROM freshen_lanes('0', 1000)"));
    (void)snprintf(sql, sizeof sql, "SELECT first_pass FROM claim(%lld, 'default', 10, '%s', %lld) WHERE id IS NULL",
                   (long long)node_id, seen, (long long)INT64_MIN);
    postgres_scene_run(scene, "BEGIN");
    int64_t first_pass = postgres_scene_number(scene, sql);
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM claim(%lld, 'default', 10, '%s', %lld) WHERE id IS NOT NULL",
                   (long long)node_id, seen, (long long)first_pass);
    postgres_scene_run(scene, "ROLLBACK");
    postgres_scene_run(scene, "BEGIN");
    BENCH_CHECK(postgres_scene_number(scene, sql) == 10);
    postgres_scene_run(scene, "ROLLBACK");
    return postgres_explain(bench, scene, sql);
}

static struct explained measure_claim(struct bench *bench, struct postgres_server *server, const char *name, size_t full,
                                      size_t pending, size_t small)
{
    struct postgres_scene scene;
    int64_t node_id = open_full(&scene, server, name, full, pending, small);
    struct explained explained = postgres_explain_claim(bench, &scene, node_id);
    postgres_scene_close(&scene);
    return explained;
}

static struct explained measure_poll(struct bench *bench, struct postgres_server *server, size_t full)
{
    struct postgres_scene scene;
    char sql[128];
    int64_t node_id = open_full(&scene, server, "poll_full", full, 3 * full, 0);
    (void)snprintf(sql, sizeof sql, "SELECT * FROM look(%lld, 'default', '%s', %lld)", (long long)node_id,
                   postgres_scene_text(&scene, "SELECT pg_current_snapshot()"), (long long)INT64_MIN);
    struct explained explained = postgres_explain(bench, &scene, sql);
    postgres_scene_close(&scene);
    return explained;
}

/* What is claimed lies in ten workspaces, an item of each, or in one: each workspace that a claim serves is locked, looked
 * at and written. */
void postgres_measure_claims(struct bench *bench, struct postgres_server *server)
{
    size_t shrink = bench->quick ? 100 : 1;
    struct explained base = measure_claim(bench, server, "claim_small", 0, 0, 10);
    struct explained full = measure_claim(bench, server, "claim_full", 1, 300000 / shrink, 10);
    struct explained one = measure_claim(bench, server, "claim_one", 1, 300000 / shrink, 1);
    struct explained poll = measure_poll(bench, server, 20000 / shrink);
    bench_note(bench, "pg claim of 10, small queue: time", base.us, "us");
    bench_note(bench, "pg claim of 10, small queue: buffers", base.buffers, "buffers");
    bench_report(bench, "pg claim of 10, 300k of a full one: time", full.us, "us", base.us, VALUE_AT_MOST, 2000);
    bench_report(bench, "pg claim of 10, 300k of a full one: buffers", full.buffers, "buffers", base.buffers, VALUE_AT_MOST,
                 200);
    bench_report(bench, "pg claim of 10 of one, 300k behind: time", one.us, "us", 0, VALUE_AT_MOST, 2000);
    bench_report(bench, "pg claim of 10 of one, 300k behind: buffers", one.buffers, "buffers", 0, VALUE_AT_MOST, 200);
    bench_report(bench, "pg poll, 20k full ones: time", poll.us, "us", 0, VALUE_AT_MOST, 500);
    bench_report(bench, "pg poll, 20k full ones: buffers", poll.buffers, "buffers", 0, VALUE_AT_MOST, 10);
}
