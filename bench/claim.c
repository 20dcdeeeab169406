/* Figure 3: a claim of 10 costs the same with any backlog behind it.
 *
 * Time is the weakest witness here. Beside it stand the pages that the writer asked its cache for, and the steps of
 * SQLite's virtual machine: both are counts, the same on every machine and under any load. The pages grow only with the
 * depth of the trees. After each claim the items are released and made as ready as before, so all claims see the same
 * queue. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "store/sqlite/sqlite_store.h"
#include "support/claiming.h"

enum { CLAIM_ITEMS = 10, CLAIM_ROUNDS_MAX = 300 };

static struct weir_error fault;

struct scene {
    const char *name;
    struct store *store;
    int64_t node_id;
    struct claimer *claimer;
    double times[CLAIM_ROUNDS_MAX];
    double cold_times[CLAIM_ROUNDS_MAX];
    size_t rounds;
    double warm_us;
    double cold_us;
    double pages;      /* asked of the cache, per claim */
    double cold_reads; /* not found there after it was emptied, per claim */
    double vm_steps;
};

struct counts {
    int64_t hits;
    int64_t misses;
    int64_t steps;
};

static void count_connection(struct connection *connection, struct counts *counts)
{
    int value = 0;
    int high = 0;
    if (connection->database == NULL) {
        return;
    }
    (void)sqlite3_db_status(connection->database, SQLITE_DBSTATUS_CACHE_HIT, &value, &high, 1);
    counts->hits += value;
    (void)sqlite3_db_status(connection->database, SQLITE_DBSTATUS_CACHE_MISS, &value, &high, 1);
    counts->misses += value;
    for (int i = 0; i < QUERY_COUNT; i++) {
        if (connection->statements[i] != NULL) {
            counts->steps += sqlite3_stmt_status(connection->statements[i], SQLITE_STMTSTATUS_VM_STEP, 1);
        }
    }
}

/* The events since the last call, on the writer and on the handle's own reader. */
static struct counts take_counts(struct store *store, bool empty_caches)
{
    struct counts counts = {0};
    struct connection *writer = NULL;
    struct sqlite_store *self = sqlite_of(store);
    BENCH_OK(write_reserve(self->file, STORE_DEADLINE_US, &writer, &fault), &fault);
    count_connection(writer, &counts);
    count_connection(&self->reader, &counts);
    if (empty_caches) {
        BENCH_CHECK(sqlite3_db_release_memory(writer->database) == SQLITE_OK);
        if (self->reader.database != NULL) {
            BENCH_CHECK(sqlite3_db_release_memory(self->reader.database) == SQLITE_OK);
        }
    }
    write_cancel(self->file);
    return counts;
}

static double claim_once(struct scene *scene, struct record *records, size_t *ret_count)
{
    struct claim_result result = {0};
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    double began = bench_now();
    BENCH_OK(claimer_claim(scene->claimer, CLAIM_ITEMS, &arena, &result, &fault), &fault);
    double seconds = bench_now() - began;
    for (size_t i = 0; i < result.count; i++) {
        records[i] = (struct record){.kind = RECORD_PUT_BACK, .fence = result.items[i].fence};
        memcpy(records[i].id, result.items[i].id, sizeof records[i].id);
    }
    *ret_count = result.count;
    arena_close(&arena);
    return seconds * 1e6;
}

static void one_round(struct scene *scene, bool cold)
{
    struct record records[CLAIM_ITEMS];
    struct record_summary summary;
    size_t count = 0;
    (void)take_counts(scene->store, cold);
    double us = claim_once(scene, records, &count);
    struct counts counts = take_counts(scene->store, false);
    BENCH_CHECK(count == CLAIM_ITEMS);
    BENCH_OK(store_record(scene->store, scene->node_id, records, count, &summary, &fault), &fault);
    BENCH_CHECK(summary.changed == CLAIM_ITEMS);
    if (cold) {
        scene->cold_times[scene->rounds] = us;
        scene->cold_reads += (double)counts.misses;
    } else {
        scene->times[scene->rounds] = us;
        scene->pages += (double)(counts.hits + counts.misses);
        scene->vm_steps += (double)counts.steps;
    }
}

static void sum_up(struct scene *scene)
{
    double rounds = (double)scene->rounds;
    scene->warm_us = bench_percentile(scene->times, scene->rounds, 0.5);
    scene->cold_us = bench_percentile(scene->cold_times, scene->rounds, 0.5);
    scene->pages /= rounds;
    scene->cold_reads /= rounds;
    scene->vm_steps /= rounds;
}

static void open_scene(struct bench *bench, struct scene *scene, const char *name)
{
    *scene = (struct scene){.name = name, .store = fixture_store(bench, name)};
    struct node_options node = {.name = "bench",
                                .group = "default",
                                .host = "",
                                .boot_id = "",
                                .version = "",
                                .engine = "none",
                                .capacity = 1000000,
                                .lease_us = 3600000000};
    BENCH_OK(store_node_start(scene->store, &node, &scene->node_id, &fault), &fault);
    fixture_offer_handlers(scene->store, scene->node_id);
    BENCH_OK(claimer_open(scene->store, scene->node_id, &scene->claimer, &fault), &fault);
}

/* Every slot of these workspaces is taken by an item that stays claimed. */
static void fill_slots(struct scene *scene)
{
    for (;;) {
        struct claim_result result = {0};
        struct arena arena;
        arena_init(&arena, 64 * 1024 * 1024);
        BENCH_OK(claimer_claim(scene->claimer, CLAIM_BATCH_MOST, &arena, &result, &fault), &fault);
        arena_close(&arena);
        if (result.count == 0) {
            return;
        }
    }
}

/* Ten workspaces with work of their own, as in every scene: what is claimed. */
static void add_small_ones(struct scene *scene)
{
    fixture_workspaces(scene->store, 90000, 10, "enterprise");
    fixture_fill(scene->store, 90000, 10, 100);
}

static void report(struct bench *bench, const struct scene *scene, const struct scene *base)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "claim of 10, %s: time", scene->name);
    bench_report(bench, name, scene->warm_us, "us", base->warm_us, scene == base ? GOAL_NONE : RATIO_AT_MOST, 1.5);
    (void)snprintf(name, sizeof name, "claim of 10, %s: time, cold", scene->name);
    bench_report(bench, name, scene->cold_us, "us", base->cold_us, scene == base ? GOAL_NONE : RATIO_AT_MOST, 1.5);
    (void)snprintf(name, sizeof name, "claim of 10, %s: pages", scene->name);
    /* No goal: a tree of many rows is a level deeper than one of few, and each search passes every level. The rows
     * that are read count, and the work that is done. */
    bench_report(bench, name, scene->pages, "pages", base->pages, GOAL_NONE, 0);
    (void)snprintf(name, sizeof name, "claim of 10, %s: reads, cold", scene->name);
    bench_report(bench, name, scene->cold_reads, "pages", base->cold_reads, scene == base ? GOAL_NONE : RATIO_AT_MOST, 1.5);
    (void)snprintf(name, sizeof name, "claim of 10, %s: VM steps", scene->name);
    bench_report(bench, name, scene->vm_steps, "steps", base->vm_steps, scene == base ? GOAL_NONE : RATIO_AT_MOST, 1.5);
}

enum { SCENE_SMALL, SCENE_FULL, SCENE_MANY_FULL, SCENE_1K, SCENE_100K, SCENE_1M, SCENE_COUNT };

/* Behind one full workspace; behind many; and with backlogs that are ready themselves, over 100 workspaces. */
static void open_scenes(struct bench *bench, struct scene *scenes)
{
    size_t shrink = bench->quick ? 100 : 1;
    open_scene(bench, &scenes[SCENE_SMALL], "small queue");
    add_small_ones(&scenes[SCENE_SMALL]);

    open_scene(bench, &scenes[SCENE_FULL], "300k of a full one");
    fixture_workspaces(scenes[SCENE_FULL].store, 0, 1, "free");
    fixture_fill(scenes[SCENE_FULL].store, 0, 1, 300000 / shrink);
    fill_slots(&scenes[SCENE_FULL]);
    add_small_ones(&scenes[SCENE_FULL]);

    open_scene(bench, &scenes[SCENE_MANY_FULL], "20k full ones");
    fixture_workspaces(scenes[SCENE_MANY_FULL].store, 0, 20000 / shrink, "free");
    fixture_fill(scenes[SCENE_MANY_FULL].store, 0, 20000 / shrink, 60000 / shrink);
    fill_slots(&scenes[SCENE_MANY_FULL]);
    add_small_ones(&scenes[SCENE_MANY_FULL]);

    static const struct {
        const char *name;
        size_t count;
    } backlogs[] = {{"1k pending", 1000}, {"100k pending", 100000}, {"1M pending", 1000000}};
    for (size_t i = 0; i < sizeof backlogs / sizeof backlogs[0]; i++) {
        struct scene *scene = &scenes[SCENE_1K + i];
        open_scene(bench, scene, backlogs[i].name);
        fixture_workspaces(scene->store, 0, 100, "enterprise");
        fixture_fill(scene->store, 0, 100, bench->quick ? 1000 * (i + 1) : backlogs[i].count);
    }
}

enum { WHY_CALLS = 200 };

/* The queries of `weir why`, of executions all over the backlog. */
static void report_why(struct bench *bench, struct store *store)
{
    double *times = calloc(WHY_CALLS, sizeof *times);
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = WHY_CALLS};
    BENCH_CHECK(times != NULL);
    BENCH_OK(store_list(store, &options, &page, &fault), &fault);
    const json_t *items = json_object_get(page, "items");
    BENCH_CHECK(json_array_size(items) == WHY_CALLS);
    for (size_t i = 0; i < WHY_CALLS; i++) {
        json_t *why = NULL;
        const char *id = json_string_value(json_object_get(json_array_get(items, i), "id"));
        double began = bench_now();
        BENCH_OK(store_why(store, id, &why, &fault), &fault);
        times[i] = (bench_now() - began) * 1e3;
        json_decref(why);
    }
    bench_report(bench, "why, 1M pending: p50", bench_percentile(times, WHY_CALLS, 0.5), "ms", 0, VALUE_AT_MOST, 50);
    bench_note(bench, "why, 1M pending: p99", bench_percentile(times, WHY_CALLS, 0.99), "ms");
    json_decref(page);
    free(times);
}

void bench_claim(struct bench *bench)
{
    struct scene *scenes = calloc(SCENE_COUNT, sizeof *scenes);
    BENCH_CHECK(scenes != NULL);
    open_scenes(bench, scenes);
    size_t rounds = bench->quick ? 10 : CLAIM_ROUNDS_MAX;
    /* In turn, so that all scenes meet the same noise. */
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < SCENE_COUNT; i++) {
            scenes[i].rounds = round;
            one_round(&scenes[i], true);
            one_round(&scenes[i], false);
        }
    }
    for (size_t i = 0; i < SCENE_COUNT; i++) {
        scenes[i].rounds = rounds;
        sum_up(&scenes[i]);
    }
    for (size_t i = 0; i < SCENE_COUNT; i++) {
        report(bench, &scenes[i], &scenes[i < SCENE_1K ? SCENE_SMALL : SCENE_1K]);
    }
    report_why(bench, scenes[SCENE_1M].store);
    for (size_t i = 0; i < SCENE_COUNT; i++) {
        claimer_close(scenes[i].claimer);
        fixture_check(scenes[i].store);
        store_close(scenes[i].store);
    }
    free(scenes);
}
