/* One statement is measured: the call of schedule() as the driver sends it, with the assignments of a scheduler on this
 * store.
 *
 *   1. A claimer (tests/support/claiming.h) takes the role and learns all facts, heads and news.
 *   2. Its scheduler deals ten items. They become the statement's assignments; each of their lanes is also read, behind
 *      the item that was dealt. In memory the assignments are undone, so the claimer stays as it was.
 *   3. Ten executions are enqueued after the snapshot from which the statement reads news: it reads one entry.
 *   4. The statement runs in transactions that are rolled back. */
#include "postgres_claim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    ROUNDS_MAX = 50,
    CLAIM_ITEMS = 10,
    HEADS_OF_FEW = 4,  /* a read of a lane without history */
    HEADS_OF_ONE = 64, /* a read of a lane that is served in each round */
    ARGUMENT_MAX = 4096
};

static struct weir_error fault;

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

/* --- the statement --- */

struct round {
    struct assignment assignments[CLAIM_ITEMS];
    size_t assignment_count;
    struct lane_read reads[CLAIM_ITEMS];
    size_t read_count;
    char since[ARGUMENT_MAX]; /* a snapshot */
};

static void add_id(struct text *to, const uint8_t *id)
{
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        BENCH_CHECK(text_format(to, "%02x", id[i]) == WEIR_OK);
    }
}

static void add_assignments(struct text *to, const struct round *round)
{
    BENCH_CHECK(text_add_string(to, "'{") == WEIR_OK);
    for (size_t i = 0; i < round->assignment_count; i++) {
        BENCH_CHECK(text_add_string(to, i == 0 ? "" : ",") == WEIR_OK);
        add_id(to, round->assignments[i].id);
    }
    BENCH_CHECK(text_add_string(to, "}', '{") == WEIR_OK);
    for (size_t i = 0; i < round->assignment_count; i++) {
        BENCH_CHECK(text_format(to, "%s%lld", i == 0 ? "" : ",", (long long)round->assignments[i].node_id) == WEIR_OK);
    }
    BENCH_CHECK(text_add_string(to, "}', '{") == WEIR_OK);
    for (size_t i = 0; i < round->assignment_count; i++) {
        BENCH_CHECK(text_add_string(to, i == 0 ? "f" : ",f") == WEIR_OK);
    }
    BENCH_CHECK(text_add_string(to, "}', false, ") == WEIR_OK);
}

static void add_reads(struct text *to, const struct round *round)
{
    BENCH_CHECK(text_add_string(to, "'{") == WEIR_OK);
    for (size_t i = 0; i < round->read_count; i++) {
        BENCH_CHECK(text_format(to, "%s%lld", i == 0 ? "" : ",", (long long)round->reads[i].lane_id) == WEIR_OK);
    }
    BENCH_CHECK(text_add_string(to, "}', '{") == WEIR_OK);
    for (size_t i = 0; i < round->read_count; i++) {
        BENCH_CHECK(text_format(to, "%s%lld", i == 0 ? "" : ",", (long long)round->reads[i].after_rank) == WEIR_OK);
    }
    BENCH_CHECK(text_add_string(to, "}', '{") == WEIR_OK);
    for (size_t i = 0; i < round->read_count; i++) {
        BENCH_CHECK(text_add_string(to, i == 0 ? "" : ",") == WEIR_OK);
        add_id(to, round->reads[i].after_id);
    }
    BENCH_CHECK(text_add_string(to, "}', '{") == WEIR_OK);
    for (size_t i = 0; i < round->read_count; i++) {
        BENCH_CHECK(text_format(to, "%s%zu", i == 0 ? "" : ",", round->reads[i].most) == WEIR_OK);
    }
    BENCH_CHECK(text_add_string(to, "}', ") == WEIR_OK);
}

static void write_statement(const struct postgres_claim *claim, const struct round *round, struct text *to)
{
    *to = (struct text){.max = EXPLAINED_TEXT_MAX};
    BENCH_CHECK(text_format(to, "SELECT r.* FROM schedule(%lld, %lld, 0, false, '%s', timeline(), NULL, '0', 0, ",
                            (long long)claim->node_id, (long long)claimer_epoch(claim->claimer), round->since) == WEIR_OK);
    add_assignments(to, round);
    add_reads(to, round);
    BENCH_CHECK(text_format(to, "0, '{}', '{%d,%d,%d}') r", PROMOTE_BATCH, RECOVER_BATCH, NEWS_BATCH_MOST) == WEIR_OK);
}

/* --- the assignments --- */

static bool is_read(const struct round *round, int64_t lane_id)
{
    for (size_t i = 0; i < round->read_count; i++) {
        if (round->reads[i].lane_id == lane_id) {
            return true;
        }
    }
    return false;
}

static void add_reads_of_lanes(struct round *round)
{
    for (size_t i = round->assignment_count; i-- > 0;) { /* of several items of a lane the last one */
        const struct assignment *item = &round->assignments[i];
        if (!is_read(round, item->lane_id)) {
            struct lane_read *read = &round->reads[round->read_count++];
            *read = (struct lane_read){.lane_id = item->lane_id, .after_rank = item->rank};
            memcpy(read->after_id, item->id, sizeof read->after_id);
        }
    }
    for (size_t i = 0; i < round->read_count; i++) {
        round->reads[i].most = round->read_count == 1 ? HEADS_OF_ONE : HEADS_OF_FEW;
    }
}

static void assign_round(const struct postgres_claim *claim, struct round *round)
{
    struct scheduler *scheduler = claimer_scheduler(claim->claimer);
    int64_t now_us = clock_boot(clock_system());
    round->assignment_count =
        scheduler_assign(scheduler, now_us, claim->node_id, CLAIM_ITEMS, round->assignments, CLAIM_ITEMS);
    BENCH_CHECK(round->assignment_count == CLAIM_ITEMS);
    add_reads_of_lanes(round);
    for (size_t i = round->assignment_count; i-- > 0;) {
        round->assignments[i].outcome = ASSIGNMENT_UNDONE;
        scheduler_settle(scheduler, now_us, &round->assignments[i]);
    }
}

/* Takes the role with the first call, and reads all news. */
static void bring_up_to_date(const struct postgres_claim *claim)
{
    struct work_ahead work;
    BENCH_OK(claimer_look(claim->claimer, &work, &fault), &fault);
    BENCH_OK(claimer_publish(claim->claimer, &fault), &fault);
}

/* Serves ten items and puts them back, so that the window of a lane that is served alone grows to the size that it needs.
 */
static void claim_and_release(const struct postgres_claim *claim)
{
    struct record records[CLAIM_ITEMS];
    struct record_summary summary;
    struct claim_result result = {0};
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    BENCH_OK(claimer_claim(claim->claimer, CLAIM_ITEMS, &arena, &result, &fault), &fault);
    BENCH_CHECK(result.count == CLAIM_ITEMS);
    for (size_t i = 0; i < result.count; i++) {
        records[i] = (struct record){.kind = RECORD_PUT_BACK, .fence = result.items[i].fence};
        text_copy(records[i].id, sizeof records[i].id, result.items[i].id);
    }
    BENCH_OK(store_record(claim->scene->store, claim->node_id, records, result.count, &summary, &fault), &fault);
    BENCH_CHECK(summary.changed == CLAIM_ITEMS);
    arena_close(&arena);
}

/* The list of the row with this tag is so long. */
static void expect_items(const struct postgres_scene *scene, const char *statement, const char *list, const char *tag,
                         size_t count)
{
    struct text sql = {.max = EXPLAINED_TEXT_MAX};
    BENCH_CHECK(text_format(&sql, "SELECT coalesce(sum(cardinality(t.%s)), 0) FROM (%s) t WHERE t.tag = '%s'", list,
                            statement, tag) == WEIR_OK);
    postgres_scene_run(scene, "BEGIN");
    BENCH_CHECK(postgres_scene_number(scene, sql.data) == (int64_t)count);
    postgres_scene_run(scene, "ROLLBACK");
    text_close(&sql);
}

void postgres_claim_open(struct postgres_claim *claim, const struct postgres_scene *scene)
{
    *claim = (struct postgres_claim){.scene = scene, .node_id = postgres_scene_node(scene)};
    BENCH_OK(claimer_open(scene->store, claim->node_id, &claim->claimer, &fault), &fault);
}

void postgres_claim_close(struct postgres_claim *claim)
{
    claimer_close(claim->claimer);
}

struct explained postgres_claim_explain(const struct bench *bench, const struct postgres_claim *claim, size_t first,
                                        size_t workspaces)
{
    static struct round round;
    struct text sql;
    round = (struct round){.read_count = 0};
    for (size_t i = workspaces; i < 3; i++) {
        claim_and_release(claim);
    }
    bring_up_to_date(claim);
    assign_round(claim, &round);
    text_copy(round.since, sizeof round.since, postgres_scene_text(claim->scene, "SELECT pg_current_snapshot()"));
    fixture_fill(claim->scene->store, first, workspaces, workspaces);
    write_statement(claim, &round, &sql);
    expect_items(claim->scene, sql.data, "plain", "assigned", CLAIM_ITEMS);
    expect_items(claim->scene, sql.data, "list1", "runnables", workspaces);
    BENCH_CHECK(round.read_count == (workspaces < CLAIM_ITEMS ? workspaces : CLAIM_ITEMS));
    struct explained explained = postgres_explain(bench, claim->scene, sql.data);
    text_close(&sql);
    return explained;
}

void postgres_claim_report(struct bench *bench, const char *suffix, const struct explained *claim,
                           const struct explained *base)
{
    char name[FIGURE_NAME_MAX];
    (void)snprintf(name, sizeof name, "pg claim of 10%s: time", suffix);
    bench_report(bench, name, claim->us, "us", base->us, RATIO_AT_MOST, 1.5);
    (void)snprintf(name, sizeof name, "pg claim of 10%s: buffers", suffix);
    bench_report(bench, name, claim->buffers, "buffers", base->buffers, VALUE_AT_MOST, fmin(200, 1.5 * base->buffers));
}

/* --- behind full workspaces --- */

enum { SMALL_ONES = 90000 };

/* Every slot is taken by an item that stays claimed. */
static void fill_slots(const struct postgres_claim *claim)
{
    struct claim_result result = {0};
    do {
        struct arena arena;
        arena_init(&arena, 64 * 1024 * 1024);
        BENCH_OK(claimer_claim(claim->claimer, CLAIM_BATCH_MOST, &arena, &result, &fault), &fault);
        arena_close(&arena);
    } while (result.count > 0);
}

/* `full` workspaces of one slot that is taken, with `pending` rows behind, and `small` ones with free slots and a thousand
 * rows. */
static void open_full(struct postgres_scene *scene, struct postgres_claim *claim, struct postgres_server *server,
                      const char *name, size_t full, size_t pending, size_t small)
{
    postgres_scene_open(scene, server, name, true);
    postgres_scene_set_relaxed(scene, true);
    postgres_claim_open(claim, scene);
    if (full > 0) {
        fixture_workspaces(scene->store, 0, full, "free");
        fixture_fill(scene->store, 0, full, pending);
        fill_slots(claim);
    }
    if (small > 0) {
        fixture_workspaces(scene->store, SMALL_ONES, small, "enterprise");
        fixture_fill(scene->store, SMALL_ONES, small, 1000);
    }
    bring_up_to_date(claim);
    postgres_scene_set_relaxed(scene, false);
}

static struct explained measure_claim(struct bench *bench, struct postgres_server *server, const char *name, size_t full,
                                      size_t pending, size_t small)
{
    struct postgres_scene scene;
    struct postgres_claim claim;
    open_full(&scene, &claim, server, name, full, pending, small);
    struct explained explained = postgres_claim_explain(bench, &claim, SMALL_ONES, small);
    postgres_claim_close(&claim);
    postgres_scene_close(&scene);
    return explained;
}

/* A round and a read of the inbox without work, beside `full` workspaces that have all their slots on this node. */
static void measure_idle_round(struct bench *bench, struct postgres_server *server, size_t full)
{
    static struct round round;
    struct postgres_scene scene;
    struct postgres_claim claim;
    struct text sql;
    char inbox[256];
    open_full(&scene, &claim, server, "vain", full, 3 * full, 0);
    text_copy(round.since, sizeof round.since, postgres_scene_text(&scene, "SELECT pg_current_snapshot()"));
    write_statement(&claim, &round, &sql);
    struct explained idle = postgres_explain(bench, &scene, sql.data);
    (void)snprintf(inbox, sizeof inbox, "SELECT i.* FROM inbox(%lld, %s, 'ffffffff-ffff-ffff-ffff-ffffffffffff', %d) i",
                   (long long)claim.node_id,
                   postgres_scene_text(&scene, "SELECT max(q.fence) FROM workflow_execution_queue q"), CLAIM_BATCH_MOST);
    struct explained read = postgres_explain(bench, &scene, inbox);
    text_close(&sql);
    postgres_claim_close(&claim);
    postgres_scene_close(&scene);
    bench_report(bench, "pg round without work, 20k full ones: time", idle.us, "us", 0, VALUE_AT_MOST, 500);
    bench_report(bench, "pg round without work, 20k full ones: buffers", idle.buffers, "buffers", 0, VALUE_AT_MOST, 10);
    bench_report(bench, "pg inbox without work, 20k full ones: time", read.us, "us", 0, VALUE_AT_MOST, 500);
    bench_report(bench, "pg inbox without work, 20k full ones: buffers", read.buffers, "buffers", 0, VALUE_AT_MOST, 10);
}

void postgres_measure_claims(struct bench *bench, struct postgres_server *server)
{
    size_t shrink = bench->quick ? 100 : 1;
    struct explained base = measure_claim(bench, server, "claim_small", 0, 0, 10);
    struct explained full = measure_claim(bench, server, "claim_full", 1, 300000 / shrink, 10);
    struct explained many = measure_claim(bench, server, "claim_many", 20000 / shrink, 60000 / shrink, 10);
    struct explained one = measure_claim(bench, server, "claim_one", 1, 300000 / shrink, 1);
    postgres_claim_report(bench, ", small queue", &base, &base);
    postgres_claim_report(bench, ", 300k of a full one", &full, &base);
    postgres_claim_report(bench, ", 20k full ones", &many, &base);
    postgres_claim_report(bench, " of one, 300k behind", &one, &base);
    measure_idle_round(bench, server, 20000 / shrink);
}
