/* The scheduler against a slow reference and a simulated store, over random steps.
 *
 * One step is a change of the world, a round (assign, wants, record, settle, read, learn), or a takeover. Scheduler and
 * reference learn the same. Compared are every assignment, every lane that is read, and every count. The world checks caps,
 * pauses and capacity at each take. At each assignment, no item of the lane that should go first may be unknown without a
 * reason. At the end of each episode, everything can run, and everything must have run.
 *
 * With few heads in total (pressure), the scheduler drops windows as it likes; then only the world's checks apply.
 */
#include <stdio.h>

#include "queue/scheduler_internal.h"
#include "scheduler_reference.h"
#include "scheduler_world.h"
#include "support/seed.h"

enum { STEPS = 300000, STEPS_LONG = 6000000, EPISODE_STEPS = 1500, SET_MOST = 64, READS_MOST = 64, NEWS_READ_MOST = 30 };

struct model {
    struct world world;
    struct scheduler *scheduler;
    struct reference reference;
    bool has_reference; /* false under pressure */
    int64_t now_us;
    int64_t own_node_id;
    struct assignment set[SET_MOST];
    size_t set_count;
    size_t set_limit;
    struct lane_read reads[READS_MOST];
    struct schedule_head heads[READS_MOST][WORLD_ROWS_MOST];
    size_t read_count;
    long long assigned, undone, asked;
};

static size_t read_size_of(void *context, int64_t lane_id)
{
    const struct scheduler *scheduler = context;
    const struct lane *lane = table_find(&scheduler->lanes, lane_id);
    assert_non_null(lane);
    return lane->read_size;
}

static void check_memory(struct model *m)
{
    char message[200];
    struct scheduler_figures figures;
    int64_t held = 0;
    if (!scheduler_is_consistent(m->scheduler, message, sizeof message)) {
        fail_msg("%s", message);
    }
    if (!m->has_reference) {
        return;
    }
    scheduler_figures(m->scheduler, &figures);
    size_t heads = 0;
    size_t lanes = 0;
    for (size_t i = 0; i < REF_LANES_MOST; i++) {
        const struct ref_lane *expected = &m->reference.lanes[i];
        if (expected->id == 0) {
            continue;
        }
        const struct lane *lane = table_find(&m->scheduler->lanes, expected->id);
        assert_non_null(lane);
        assert_int_equal(lane->pass, expected->pass);
        assert_int_equal(lane->is_all, expected->is_all);
        assert_int_equal(lane->count, expected->count);
        assert_int_equal(lane->active, expected->active);
        assert_int_equal(head_compare(&lane->position, &expected->position), 0);
        heads += expected->count;
        lanes++;
    }
    for (size_t i = 0; i < REF_WORKSPACES_MOST; i++) {
        held += m->reference.workspaces[i].id == 0 ? 0 : m->reference.workspaces[i].held;
    }
    assert_int_equal(figures.lanes, lanes);
    assert_int_equal(figures.heads, heads);
    assert_int_equal(figures.held, held);
}

static void learn(struct model *m, const struct schedule_fact *fact)
{
    assert_int_equal(scheduler_learn(m->scheduler, fact), WEIR_OK);
    if (m->has_reference) {
        ref_learn(&m->reference, fact);
    }
}

/* The answer of the store to NEED_HANDED_OVER. */
static void learn_suspects(struct model *m)
{
    learn(m, &(struct schedule_fact){.kind = FACT_SUSPECTS});
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &m->world.rows[i];
        struct schedule_fact fact = world_handed(row);
        bool is_suspect = row->state == WORLD_HELD && row->suspicion >= SUSPICION_LIMITED;
        fact.kind = is_suspect ? FACT_SUSPECT : FACT_HANDED_OVER;
        fact.node_id = row->node_id;
        if (row->state == WORLD_HANDED || is_suspect) {
            learn(m, &fact);
        }
    }
    learn(m, &(struct schedule_fact){.kind = FACT_SUSPECTS_END});
    assert_int_equal(scheduler_needs(m->scheduler), 0);
}

static void learn_news(struct model *m, size_t most)
{
    struct world *w = &m->world;
    size_t count = w->news_count < most ? w->news_count : most;
    for (size_t i = 0; i < count; i++) {
        struct schedule_fact facts[WORLD_FACTS_MOST];
        if (w->has_suspects && w->news[i].fact.kind == FACT_HANDED_OVER) {
            learn_suspects(m);
            continue;
        }
        size_t facts_count = world_read_news(w, &w->news[i].fact, facts);
        for (size_t k = 0; k < facts_count; k++) {
            learn(m, &facts[k]);
        }
        w->acts -= w->news[i].is_act ? 1 : 0;
    }
    w->news_count -= count;
    memmove(w->news, w->news + count, w->news_count * sizeof *w->news);
}

/* --- a takeover --- */

static void load_lane(struct model *m, int64_t pool_id, int64_t handler_set, int64_t workspace_id)
{
    struct world *w = &m->world;
    int64_t lane_id = lane_for_demand(lane_id_of(pool_id / 2, workspace_id), demand_of(handler_set, pool_id % 2 != 0));
    struct schedule_fact fact = {
        .lane_id = lane_id, .rank = INT64_MIN, .pass = w->passes[pool_id][handler_set][workspace_id]};
    bool is_runnable = false;
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        is_runnable = is_runnable || (w->rows[i].state == WORLD_RUNNABLE && w->rows[i].lane_id == fact.lane_id);
    }
    if (is_runnable) {
        fact.kind = one_in(w, 2) ? FACT_PASS : FACT_RUNNABLE; /* in any order */
        learn(m, &fact);
        fact.kind = fact.kind == FACT_PASS ? FACT_RUNNABLE : FACT_PASS;
        learn(m, &fact);
    }
}

static void load_lanes(struct model *m)
{
    for (int64_t pool_id = pool_id_of(1, false); pool_id <= pool_id_of(WORLD_GROUPS, true); pool_id++) {
        for (int64_t handler_set = 0; handler_set <= m->world.handler_sets; handler_set++) {
            for (int64_t workspace_id = 1; workspace_id <= WORLD_WORKSPACES; workspace_id++) {
                load_lane(m, pool_id, handler_set, workspace_id);
            }
        }
    }
}

static void take_over(struct model *m)
{
    struct world *w = &m->world;
    struct schedule_fact facts[WORLD_FACTS_MOST];
    scheduler_clear(m->scheduler);
    memset(&m->reference, 0, sizeof m->reference);
    world_forget_news(w);
    learn(m, &(struct schedule_fact){.kind = FACT_QUEUE, .paused = w->queue_paused});
    for (int64_t id = 1; id <= WORLD_GROUPS; id++) {
        learn(m, &(struct schedule_fact){.kind = FACT_GROUP, .group_id = id, .paused = w->group_paused[id]});
    }
    size_t count = world_read_news(w, &(struct schedule_fact){.kind = FACT_NODES}, facts);
    for (size_t i = 0; i < count; i++) {
        learn(m, &facts[i]);
    }
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &w->rows[i];
        if (row->state == WORLD_HELD || row->state == WORLD_HANDED) {
            struct schedule_fact fact = world_release(row);
            fact.slots = 1;
            fact.node_held = row->node_id == 0 ? 0 : 1;
            learn(m, &fact);
        }
    }
    load_lanes(m);
    if (w->has_suspects) {
        learn_suspects(m);
        return;
    }
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        if (w->rows[i].state == WORLD_HANDED) {
            struct schedule_fact fact = world_handed(&w->rows[i]);
            learn(m, &fact);
        }
    }
}

static void publish(struct model *m)
{
    struct lane_pass passes[3];
    size_t count = scheduler_take_passes(m->scheduler, passes, 3);
    for (size_t i = 0; i < count; i++) {
        int64_t lane_id = passes[i].lane_id;
        m->world.passes[lane_pool_id(lane_id)][lane_handler_set(lane_id)][lane_workspace_id(lane_id)] = passes[i].pass;
    }
}

/* --- a round --- */

static void check_same_set(struct model *m, const struct assignment *expected, size_t count)
{
    assert_int_equal(m->set_count, count);
    for (size_t i = 0; i < count; i++) {
        const struct assignment *a = &m->set[i];
        assert_int_equal(a->lane_id, expected[i].lane_id);
        assert_memory_equal(a->id, expected[i].id, sizeof a->id);
        assert_int_equal(a->rank, expected[i].rank);
        assert_int_equal(a->node_id, expected[i].node_id);
        assert_int_equal(a->handed_over, expected[i].handed_over);
        assert_int_equal(a->others_wait, expected[i].others_wait);
    }
}

static bool is_in_set(const struct model *m, const struct world_row *row)
{
    for (size_t i = 0; i < m->set_count; i++) {
        if (memcmp(m->set[i].id, row->head.id, sizeof row->head.id) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_news_of(const struct world *w, const struct world_row *row)
{
    for (size_t i = 0; i < w->news_count; i++) {
        const struct schedule_fact *fact = &w->news[i].fact;
        if (fact->kind == FACT_RUNNABLE && fact->lane_id == row->lane_id && fact->rank <= row->head.rank) {
            return true;
        }
    }
    return false;
}

/* No item may be assigned before one of the same lane that precedes it, unless that one is not known yet or was locked. */
static void check_order(struct model *m, const struct assignment *assignment)
{
    const struct lane *lane = table_find(&m->scheduler->lanes, assignment->lane_id);
    struct schedule_head head = {.rank = assignment->rank};
    assert_non_null(lane);
    memcpy(head.id, assignment->id, sizeof head.id);
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &m->world.rows[i];
        if (row->state != WORLD_RUNNABLE || row->lane_id != assignment->lane_id || head_compare(&row->head, &head) >= 0) {
            continue;
        }
        bool waits = lane->waits_retry && lane->locked_rank <= row->head.rank;
        if (!waits && !is_in_set(m, row) && !has_news_of(&m->world, row)) {
            fail_msg("an item of rank %lld was passed over", (long long)row->head.rank);
        }
    }
}

static void assign(struct model *m, size_t limit)
{
    struct assignment expected[SET_MOST];
    struct world *w = &m->world;
    const struct world_node *own = &w->nodes[m->own_node_id - 100];
    int64_t room = own->capacity - world_node_held(w, m->own_node_id);
    size_t own_room = room > 0 ? (size_t)draw(w, one_in(w, 4) ? 0 : room, room) : 0;
    const struct ref_node *known = ref_node(&m->reference, m->own_node_id);
    bool is_silent = !scheduler_has_work(m->scheduler, m->now_us) && known != NULL &&
                     m->reference.own_node_id == m->own_node_id && known->capacity - known->held >= (int64_t)own_room;
    m->set_limit = limit;
    m->set_count = scheduler_assign(m->scheduler, m->now_us, m->own_node_id, own_room, m->set, limit);
    m->assigned += (long long)m->set_count;
    assert_true(!is_silent || m->set_count == 0);
    for (size_t i = 0; i < m->set_count; i++) {
        if (!m->set[i].handed_over) {
            check_order(m, &m->set[i]);
        }
    }
    if (m->has_reference) {
        check_same_set(m, expected, ref_assign(&m->reference, m->now_us, m->own_node_id, own_room, expected, limit));
    }
}

static void check_same_reads(struct model *m, size_t most)
{
    int64_t lane_ids[READS_MOST];
    size_t orphans = 0;
    size_t count = ref_wants(&m->reference, m->now_us, lane_ids, most, &orphans, read_size_of, m->scheduler);
    assert_int_equal(m->read_count, count);
    for (size_t i = 0; i < count; i++) {
        struct lane_read *read = &m->reads[i];
        struct ref_lane *lane = ref_lane(&m->reference, read->lane_id);
        bool is_orphan = false;
        for (size_t k = 0; k < orphans && i < orphans; k++) {
            is_orphan = is_orphan || lane_ids[k] == read->lane_id;
        }
        assert_true(is_orphan || (i >= orphans && lane_ids[i] == read->lane_id));
        assert_non_null(lane);
        assert_int_equal(read->after_rank, lane->position.rank);
        assert_memory_equal(read->after_id, lane->position.id, sizeof read->after_id);
        assert_in_range(read->most, 1, SCHEDULER_LANE_HEADS_MOST);
    }
}

static void want(struct model *m)
{
    size_t most = one_in(&m->world, 3) ? (size_t)draw(&m->world, 0, 4) : READS_MOST;
    most = m->scheduler->list_counts[LANE_ORPHANED] > 0 ? READS_MOST : most;
    m->read_count = scheduler_request_reads(m->scheduler, m->now_us, m->reads, most);
    m->asked += (long long)m->read_count;
    if (m->has_reference) {
        check_same_reads(m, most);
    }
    if (m->set_limit > 0 && m->set_count == 0 && m->read_count == 0 && most == READS_MOST) {
        assert_true(!scheduler_has_work(m->scheduler, m->now_us));
    }
}

static void end_orphans(struct model *m)
{
    int64_t orphans[READS_MOST];
    size_t count = scheduler_orphans(m->scheduler, orphans, READS_MOST);
    for (size_t i = 0; i < count; i++) {
        world_end_orphans(&m->world, orphans[i]);
        if (m->has_reference) {
            assert_true(ref_is_lost(&m->reference, ref_lane(&m->reference, orphans[i])));
        }
    }
}

/* The recorder of the same node passes committed ends directly. */
static void learn_directly(struct model *m)
{
    struct world *w = &m->world;
    struct world_row *row = world_draw_row(w, WORLD_HELD);
    if (row == NULL || is_in_set(m, row) || !one_in(w, 6)) {
        return;
    }
    struct schedule_fact release = world_release(row);
    struct schedule_fact runnable = world_runnable(row);
    row->state = one_in(w, 2) ? WORLD_FREE : WORLD_RUNNABLE;
    row->node_id = 0;
    row->suspicion = 0;
    learn(m, &release);
    if (row->state == WORLD_RUNNABLE) {
        learn(m, &runnable);
    }
}

static void record(struct model *m)
{
    struct world *w = &m->world;
    bool is_stale = w->acts > 0;
    for (size_t i = 0; i < m->set_count; i++) {
        if (is_stale) {
            m->set[i].outcome = ASSIGNMENT_UNDONE;
            m->undone++;
        } else {
            world_take(w, m->set, i, m->own_node_id);
        }
    }
    end_orphans(m);
    for (size_t i = 0; i < m->read_count; i++) {
        world_answer(w, &m->reads[i], m->heads[i]);
    }
}

static void run_round(struct model *m)
{
    struct world *w = &m->world;
    assign(m, (size_t)draw(w, 0, one_in(w, 3) ? SET_MOST : 6));
    want(m);
    for (int64_t changes = draw(w, 0, 2); changes > 0; changes--) {
        world_change(w);
    }
    learn_directly(m);
    record(m);
    learn_directly(m);
    for (size_t i = m->set_count; i-- > 0;) {
        scheduler_settle(m->scheduler, m->now_us, &m->set[i]);
        if (m->has_reference) {
            ref_settle(&m->reference, m->now_us, &m->set[i]);
        }
    }
    for (size_t i = 0; i < m->read_count; i++) {
        assert_int_equal(scheduler_take_heads(m->scheduler, &m->reads[i]), WEIR_OK);
        if (m->has_reference) {
            ref_read(&m->reference, &m->reads[i]);
        }
    }
    learn_news(m, one_in(w, 3) ? (size_t)draw(w, 0, NEWS_READ_MOST) : WORLD_NEWS_MOST);
    if (scheduler_needs(m->scheduler) != 0 && !one_in(w, 4)) {
        learn_suspects(m);
    }
    check_memory(m);
}

/* --- episodes --- */

/* Nothing is in the way any more: everything must run. */
static void run_everything(struct model *m)
{
    struct world *w = &m->world;
    w->queue_paused = false;
    world_add_news(w, (struct schedule_fact){.kind = FACT_QUEUE}, true);
    for (int64_t id = 1; id <= WORLD_WORKSPACES; id++) {
        w->workspaces[id] = (struct world_workspace){.slots_max = 4, .weight = 1, .exists = true};
        world_add_news(w, (struct schedule_fact){.kind = FACT_WORKSPACE, .workspace_id = id}, true);
    }
    for (int64_t id = 1; id <= WORLD_GROUPS; id++) {
        w->group_paused[id] = false;
        world_add_news(w, (struct schedule_fact){.kind = FACT_GROUP, .group_id = id}, true);
    }
    for (int64_t place = 1; place <= WORLD_NODES; place++) {
        w->nodes[place] = (struct world_node){.group_id = 1 + place % WORLD_GROUPS,
                                              .target_id = world_target_id(place),
                                              .capacity = 20,
                                              .accepts = true,
                                              .is_listed = true,
                                              .handlers = 6};
    }
    world_add_news(w, (struct schedule_fact){.kind = FACT_NODES}, true);
    for (int round = 0; world_count(w, WORLD_FREE) < WORLD_ROWS_MOST; round++) {
        assert_true(round < (w->has_suspects ? 50000 : 2000));
        for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
            w->rows[i].is_locked = false;
        }
        m->now_us += LOCKED_RETRY_US;
        w->now_us = m->now_us;
        assign(m, SET_MOST);
        m->read_count = scheduler_request_reads(m->scheduler, m->now_us, m->reads, READS_MOST);
        if (m->has_reference) {
            check_same_reads(m, READS_MOST);
        }
        record(m);
        for (size_t i = m->set_count; i-- > 0;) {
            scheduler_settle(m->scheduler, m->now_us, &m->set[i]);
            if (m->has_reference) {
                ref_settle(&m->reference, m->now_us, &m->set[i]);
            }
        }
        for (size_t i = 0; i < m->read_count; i++) {
            assert_int_equal(scheduler_take_heads(m->scheduler, &m->reads[i]), WEIR_OK);
            if (m->has_reference) {
                ref_read(&m->reference, &m->reads[i]);
            }
        }
        learn_news(m, WORLD_NEWS_MOST);
        if (scheduler_needs(m->scheduler) != 0) {
            learn_suspects(m);
        }
        for (int i = 0; i < 20; i++) {
            world_end(w);
        }
        check_memory(m);
    }
    learn_news(m, WORLD_NEWS_MOST);
}

static void step(struct model *m)
{
    struct world *w = &m->world;
    uint64_t kind = random_below(&w->random, 300);
    m->now_us += draw(w, 0, LOCKED_RETRY_US / 8);
    w->now_us = m->now_us;
    if (kind == 0) {
        take_over(m);
        check_memory(m);
    } else if (kind == 1) {
        m->own_node_id = world_node_id(draw(w, 1, WORLD_NODES));
    } else if (kind < 20) {
        publish(m);
    } else if (kind < 160 && w->news_count < WORLD_NEWS_MOST / 2) {
        world_change(w);
    } else {
        run_round(m);
    }
}

static void run(const char *name, bool has_reference, size_t heads_most, bool has_suspects)
{
    static struct model m;
    struct random random;
    int steps = (test_is_long() ? STEPS_LONG : STEPS) / (has_reference ? 1 : 4);
    test_seed(&random, name);
    memset(&m, 0, sizeof m);
    world_make(&m.world, random_next(&random));
    m.has_reference = has_reference;
    m.world.has_suspects = has_suspects;
    m.world.handler_sets = has_reference ? 0 : WORLD_HANDLER_SETS;
    m.own_node_id = world_node_id(1);
    assert_int_equal(scheduler_open(&m.scheduler), WEIR_OK);
    m.scheduler->heads_most = heads_most;
    take_over(&m);
    for (int i = 1; i <= steps; i++) {
        step(&m);
        if (i % EPISODE_STEPS == 0) {
            run_everything(&m);
        }
    }
    (void)fprintf(stderr, "# %s: %d steps, %lld assigned, %lld of them undone, %lld reads\n", name, steps, m.assigned,
                  m.undone, m.asked);
    scheduler_close(m.scheduler);
}

static void the_scheduler_decides_as_the_reference(void **state)
{
    (void)state;
    run("reference", true, SCHEDULER_HEADS_MOST, false);
}

static void the_promises_hold_when_windows_are_dropped(void **state)
{
    (void)state;
    run("pressure", false, 7, false);
}

static void the_promises_hold_with_nodes_of_different_handlers(void **state)
{
    (void)state;
    run("handlers", false, SCHEDULER_HEADS_MOST, false);
}

/* Trials are limited, an item in quarantine has its node for itself, and all of them have their turn. */
static void suspects_are_tried_beside_few_others_and_all_run(void **state)
{
    (void)state;
    run("suspects", false, SCHEDULER_HEADS_MOST, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scheduler_decides_as_the_reference),
        cmocka_unit_test(the_promises_hold_when_windows_are_dropped),
        cmocka_unit_test(the_promises_hold_with_nodes_of_different_handlers),
        cmocka_unit_test(suspects_are_tried_beside_few_others_and_all_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
