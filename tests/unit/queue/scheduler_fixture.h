/* A scheduler with a store that is an array of rows: it answers reads, and remembers the assigned rows.
 *
 * Every step checks all invariants of the scheduler's memory. Rows have the numbers 1, 2, 3 ...; the number is the id, and
 * the rank unless a test chooses another.
 */
#ifndef WEIR_TESTS_UNIT_QUEUE_SCHEDULER_FIXTURE_H
#define WEIR_TESTS_UNIT_QUEUE_SCHEDULER_FIXTURE_H

#include "queue/scheduler.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "queue/scheduler_internal.h"
#include "support/test.h"

enum {
    ROWS_MOST = 4000,
    WORKSPACES_MOST = 10, /* ids 0 .. 9 */
    GROUP = 1,
    OTHER_GROUP = 2,
    NODE = 100, /* of GROUP; never the own node */
    OWN_NODE = 101,
    SET_MOST = 4000
};

enum row_state { ROW_RUNNABLE, ROW_HELD, ROW_GONE };

struct row {
    int64_t lane_id;
    struct schedule_head head;
    enum row_state state;
};

struct limits {
    int64_t slots_max;
    int weight;
    bool paused;
    bool is_missing;
};

struct fixture {
    struct scheduler *scheduler;
    struct row rows[ROWS_MOST];
    size_t row_count;
    struct limits limits[WORKSPACES_MOST];
    int64_t now_us;
    struct assignment set[SET_MOST];
    size_t set_count;
    struct lane_read reads[SCHEDULER_READS_MOST];
    size_t read_count;
};

static inline void check(const struct fixture *f)
{
    char message[200];
    if (!scheduler_is_consistent(f->scheduler, message, sizeof message)) {
        fail_msg("%s", message);
    }
}

static inline int64_t lane(int64_t workspace_id)
{
    return lane_id_of(GROUP, workspace_id);
}

static inline void set_id(uint8_t *id, uint64_t number)
{
    memset(id, 0, SCHEDULER_ID_BYTES);
    for (int i = 0; i < 8; i++) {
        id[15 - i] = (uint8_t)(number >> (8 * i));
    }
}

static inline int64_t number_of(const uint8_t *id)
{
    int64_t number = 0;
    for (int i = 8; i < SCHEDULER_ID_BYTES; i++) {
        number = number << 8 | id[i];
    }
    return number;
}

static inline void learn(struct fixture *f, struct schedule_fact fact)
{
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_OK);
    check(f);
}

static inline void learn_runnable(struct fixture *f, int64_t lane_id, int64_t rank)
{
    learn(f, (struct schedule_fact){.kind = FACT_RUNNABLE, .lane_id = lane_id, .rank = rank});
}

static inline void learn_node(struct fixture *f, int64_t node_id, int64_t group_id, int64_t capacity)
{
    learn(f, (struct schedule_fact){
                 .kind = FACT_NODE, .node_id = node_id, .group_id = group_id, .capacity = capacity, .accepts = true});
}

static inline void learn_node_of_target(struct fixture *f, int64_t node_id, int64_t target_id, int64_t capacity)
{
    learn(f, (struct schedule_fact){.kind = FACT_NODE,
                                    .node_id = node_id,
                                    .group_id = GROUP,
                                    .target_id = target_id,
                                    .capacity = capacity,
                                    .accepts = true});
}

static inline void learn_node_on_temporal(struct fixture *f, int64_t node_id, int64_t target_id, int64_t capacity)
{
    learn(f, (struct schedule_fact){.kind = FACT_NODE,
                                    .node_id = node_id,
                                    .group_id = GROUP,
                                    .target_id = target_id,
                                    .on_temporal = true,
                                    .capacity = capacity,
                                    .accepts = true});
}

static inline void learn_end(struct fixture *f, int64_t lane_id, int64_t node_id)
{
    learn(f,
          (struct schedule_fact){.kind = FACT_HELD, .lane_id = lane_id, .node_id = node_id, .slots = -1, .node_held = -1});
}

static inline void learn_handed_over(struct fixture *f, int64_t lane_id, uint64_t number)
{
    struct schedule_fact fact = {.kind = FACT_HANDED_OVER, .lane_id = lane_id};
    set_id(fact.id, number);
    learn(f, fact);
}

static inline void learn_handed_over_of_target(struct fixture *f, int64_t lane_id, int64_t target_id, uint64_t number)
{
    struct schedule_fact fact = {.kind = FACT_HANDED_OVER, .lane_id = lane_id, .target_id = target_id};
    set_id(fact.id, number);
    learn(f, fact);
}

static inline void learn_limits(struct fixture *f, int64_t workspace_id)
{
    const struct limits *limits = &f->limits[workspace_id];
    learn(f, (struct schedule_fact){.kind = FACT_WORKSPACE,
                                    .workspace_id = workspace_id,
                                    .slots_max = limits->slots_max,
                                    .weight = limits->weight,
                                    .paused = limits->paused,
                                    .exists = !limits->is_missing});
}

/* A row and its news. Numbers begin at 1. */
static inline void enqueue_at(struct fixture *f, int64_t lane_id, int64_t rank)
{
    assert_true(f->row_count < ROWS_MOST);
    struct row *row = &f->rows[f->row_count++];
    *row = (struct row){.lane_id = lane_id, .head = {.rank = rank}};
    set_id(row->head.id, f->row_count);
    learn_runnable(f, lane_id, rank);
}

static inline void enqueue(struct fixture *f, int64_t lane_id, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enqueue_at(f, lane_id, (int64_t)f->row_count + 1);
    }
}

static inline int by_head(const void *a, const void *b)
{
    return head_compare(a, b);
}

static inline void answer(struct fixture *f, struct lane_read read)
{
    static struct schedule_head heads[ROWS_MOST];
    struct schedule_head after = {.rank = read.after_rank};
    size_t count = 0;
    memcpy(after.id, read.after_id, sizeof after.id);
    for (size_t i = 0; i < f->row_count; i++) {
        const struct row *row = &f->rows[i];
        if (row->lane_id == read.lane_id && row->state == ROW_RUNNABLE && head_compare(&row->head, &after) > 0) {
            heads[count++] = row->head;
        }
    }
    qsort(heads, count, sizeof *heads, by_head);
    const struct limits *limits = &f->limits[lane_workspace_id(read.lane_id)];
    read.is_all = count <= read.most;
    read.count = count < read.most ? count : read.most;
    read.heads = heads;
    read.workspace_exists = !limits->is_missing;
    read.workspace_paused = limits->paused;
    read.slots_max = limits->slots_max;
    read.weight = limits->weight;
    assert_int_equal(scheduler_take_heads(f->scheduler, &read), WEIR_OK);
    check(f);
}

/* Asks which heads are wanted. */
static inline size_t want(struct fixture *f)
{
    f->read_count = scheduler_request_reads(f->scheduler, f->now_us, f->reads, SCHEDULER_READS_MOST);
    check(f);
    return f->read_count;
}

/* Answers every read until none is wanted. */
static inline void read_all(struct fixture *f)
{
    for (int rounds = 0; want(f) > 0; rounds++) {
        assert_true(rounds < 1000);
        for (size_t i = 0; i < f->read_count; i++) {
            answer(f, f->reads[i]);
        }
    }
}

static inline size_t assign_own(struct fixture *f, int64_t own_node_id, size_t own_room, size_t limit)
{
    assert_true(limit <= SET_MOST);
    f->set_count = scheduler_assign(f->scheduler, f->now_us, own_node_id, own_room, f->set, limit);
    check(f);
    return f->set_count;
}

static inline size_t assign(struct fixture *f, size_t limit)
{
    return assign_own(f, 0, 0, limit);
}

static inline struct row *row_of(struct fixture *f, const uint8_t *id)
{
    return &f->rows[number_of(id) - 1];
}

/* Settles the set in reverse order, all with one outcome. */
static inline void settle(struct fixture *f, enum assignment_outcome outcome)
{
    for (size_t i = f->set_count; i-- > 0;) {
        struct assignment *assignment = &f->set[i];
        if (!assignment->handed_over && outcome == ASSIGNMENT_TAKEN) {
            row_of(f, assignment->id)->state = ROW_HELD;
        }
        if (!assignment->handed_over && outcome == ASSIGNMENT_GONE) {
            row_of(f, assignment->id)->state = ROW_GONE;
        }
        assignment->outcome = outcome;
        scheduler_settle(f->scheduler, f->now_us, assignment);
        check(f);
    }
}

static inline size_t take(struct fixture *f, size_t limit)
{
    read_all(f);
    size_t count = assign(f, limit);
    settle(f, ASSIGNMENT_TAKEN);
    return count;
}

/* The items of the set must be these numbers, in this order. */
#define assert_set(f, ...)                                                                                                 \
    assert_set_is((f), (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
static inline void assert_set_is(const struct fixture *f, const int64_t *numbers, size_t count)
{
    assert_int_equal(f->set_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(number_of(f->set[i].id), numbers[i]);
    }
}

static inline int64_t held(const struct fixture *f)
{
    struct scheduler_figures figures;
    scheduler_figures(f->scheduler, &figures);
    return figures.held;
}

static inline int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(scheduler_open(&f->scheduler), WEIR_OK);
    for (size_t i = 0; i < WORKSPACES_MOST; i++) {
        f->limits[i] = (struct limits){.slots_max = 100, .weight = 1};
    }
    learn_node(f, NODE, GROUP, 1000);
    *state = f;
    return 0;
}

static inline int close_fixture(void **state)
{
    struct fixture *f = *state;
    check(f);
    scheduler_close(f->scheduler);
    free(f);
    return 0;
}

#define rule(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

#endif
