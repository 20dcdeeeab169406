/* A simulated store for the scheduler's random test: rows with states, limits, nodes, and news that were not read yet.
 *
 * Every change of the world adds its news. News of acts carry no values: they are read anew when they are delivered, as the
 * store does. The world checks at each take the promises of the scheduler: caps, pauses, capacity, each item once.
 */
#ifndef WEIR_TESTS_UNIT_QUEUE_SCHEDULER_WORLD_H
#define WEIR_TESTS_UNIT_QUEUE_SCHEDULER_WORLD_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/random.h"
#include "queue/limits.h"
#include "queue/scheduler.h"
#include "queue/suspicion.h"
#include "support/test.h"

enum {
    WORLD_ROWS_MOST = 400,
    WORLD_NEWS_MOST = 4000,
    WORLD_WORKSPACES = 5,               /* ids 1 .. 5 */
    WORLD_GROUPS = 2,                   /* ids 1 .. 2 */
    WORLD_HANDLER_SETS = 2,             /* ids 1 .. 2 */
    WORLD_FACTS_MOST = 8 * (1 + 2) + 2, /* of one list of nodes */
    WORLD_NODES = 8                     /* ids 101 .. 108; the upper half has engines of the kind `temporal` */
};

enum world_state { WORLD_FREE, WORLD_RUNNABLE, WORLD_HELD, WORLD_HANDED };

struct world_row {
    enum world_state state;
    bool is_locked; /* by another transaction */
    int64_t lane_id;
    int64_t node_id;
    int64_t suspicion;
    int64_t since_us;  /* HELD: its assignment; HANDED: the death of its node */
    int64_t target_id; /* of the node that it was assigned to first */
    struct schedule_head head;
};

struct world_workspace {
    int64_t slots_max;
    int weight;
    bool paused;
    bool exists;
};

struct world_node {
    int64_t group_id;
    int64_t target_id; /* never changes */
    int64_t capacity;
    bool accepts;
    bool is_listed;
    bool is_locked;    /* by another transaction, until it is listed again */
    unsigned handlers; /* bits: the sets of which it has all */
};

/* The content of one entry: one fact, or, for an act, the state of the world when the entry is read. */
struct world_news {
    struct schedule_fact fact;
    bool is_act;
};

struct world {
    struct world_row rows[WORLD_ROWS_MOST];
    struct world_workspace workspaces[WORLD_WORKSPACES + 1];
    struct world_node nodes[WORLD_NODES + 1];
    bool group_paused[WORLD_GROUPS + 1];
    bool queue_paused;
    struct world_news news[WORLD_NEWS_MOST];
    size_t news_count;
    size_t acts; /* among the news */
    uint64_t last_number;
    int64_t rank;
    /* The books, by pool. */
    int64_t passes[2 * WORLD_GROUPS + 2][WORLD_HANDLER_SETS + 1][WORLD_WORKSPACES + 1];
    struct random random;
    int64_t handler_sets; /* that items need: 0 .. handler_sets */
    bool has_suspects;    /* nodes die, and their items become suspects */
    int64_t now_us;
};

static inline bool one_in(struct world *w, uint64_t n)
{
    return random_below(&w->random, n) == 0;
}

static inline int64_t draw(struct world *w, int64_t least, int64_t most)
{
    return least + (int64_t)random_below(&w->random, (uint64_t)(most - least + 1));
}

static inline int64_t world_node_id(int64_t place)
{
    return 100 + place;
}

static inline bool world_is_on_temporal(int64_t place)
{
    return place > WORLD_NODES / 2;
}

/* Two targets of each kind of engine, all of them in both groups. */
static inline int64_t world_target_id(int64_t place)
{
    return 1 + place / 2 % 2 + (world_is_on_temporal(place) ? 2 : 0);
}

static inline void world_add_news(struct world *w, struct schedule_fact fact, bool is_act)
{
    assert_true(w->news_count < WORLD_NEWS_MOST);
    w->news[w->news_count++] = (struct world_news){.fact = fact, .is_act = is_act};
    w->acts += is_act ? 1 : 0;
}

static inline struct schedule_fact world_runnable(const struct world_row *row)
{
    return (struct schedule_fact){.kind = FACT_RUNNABLE, .lane_id = row->lane_id, .rank = row->head.rank};
}

static inline struct schedule_fact world_release(const struct world_row *row)
{
    return (struct schedule_fact){.kind = FACT_HELD,
                                  .lane_id = row->lane_id,
                                  .node_id = row->node_id,
                                  .slots = -1,
                                  .node_held = row->node_id == 0 ? 0 : -1};
}

static inline struct schedule_fact world_handed(const struct world_row *row)
{
    struct schedule_fact fact = {.kind = FACT_HANDED_OVER,
                                 .lane_id = row->lane_id,
                                 .target_id = row->target_id,
                                 .suspicion = row->suspicion,
                                 .since_us = row->since_us};
    memcpy(fact.id, row->head.id, sizeof fact.id);
    return fact;
}

static inline struct world_row *world_find(struct world *w, const uint8_t *id)
{
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        if (w->rows[i].state != WORLD_FREE && memcmp(w->rows[i].head.id, id, SCHEDULER_ID_BYTES) == 0) {
            return &w->rows[i];
        }
    }
    return NULL;
}

/* A row of a state, or NULL. */
static inline struct world_row *world_draw_row(struct world *w, enum world_state state)
{
    size_t first = random_below(&w->random, WORLD_ROWS_MOST);
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        struct world_row *row = &w->rows[(first + i) % WORLD_ROWS_MOST];
        if (row->state == state) {
            return row;
        }
    }
    return NULL;
}

static inline size_t world_count(const struct world *w, enum world_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        count += w->rows[i].state == state ? 1 : 0;
    }
    return count;
}

static inline int64_t world_held(const struct world *w, int64_t workspace_id)
{
    int64_t count = 0;
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &w->rows[i];
        bool holds = row->state == WORLD_HELD || row->state == WORLD_HANDED;
        count += holds && lane_workspace_id(row->lane_id) == workspace_id ? 1 : 0;
    }
    return count;
}

static inline int64_t world_node_held(const struct world *w, int64_t node_id)
{
    int64_t count = 0;
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        count += w->rows[i].state == WORLD_HELD && w->rows[i].node_id == node_id ? 1 : 0;
    }
    return count;
}

/* --- changes --- */

static inline void world_enqueue(struct world *w)
{
    size_t count = (size_t)draw(w, 1, one_in(w, 20) ? 40 : 3);
    int64_t lane_id = lane_id_of(draw(w, 1, WORLD_GROUPS), draw(w, 1, WORLD_WORKSPACES));
    bool on_temporal = one_in(w, 2);
    lane_id = lane_for_demand(lane_id, demand_of(on_temporal ? 0 : draw(w, 0, w->handler_sets), on_temporal));
    for (size_t i = 0; i < count; i++) {
        struct world_row *row = world_draw_row(w, WORLD_FREE);
        if (row == NULL) {
            return;
        }
        w->rank += draw(w, 0, 2);
        *row = (struct world_row){.state = WORLD_RUNNABLE, .lane_id = lane_id, .head = {.rank = w->rank}};
        row->head.rank -= one_in(w, 8) ? draw(w, 0, 60) : 0; /* another clock, or a higher priority */
        uint64_t number = ++w->last_number;
        for (int byte = 0; byte < 8; byte++) {
            row->head.id[15 - byte] = (uint8_t)(number >> (8 * byte));
        }
        row->head.id[0] = one_in(w, 8) ? (uint8_t)draw(w, 0, 255) : 100;
        world_add_news(w, world_runnable(row), false);
    }
}

static inline void world_end(struct world *w)
{
    struct world_row *row = world_draw_row(w, one_in(w, 10) ? WORLD_HANDED : WORLD_HELD);
    if (row != NULL) {
        world_add_news(w, world_release(row), false);
        row->state = WORLD_FREE;
        row->suspicion = 0;
    }
}

static inline void world_put_back(struct world *w)
{
    struct world_row *row = world_draw_row(w, WORLD_HELD);
    if (row != NULL) {
        world_add_news(w, world_release(row), false);
        world_add_news(w, world_runnable(row), false);
        row->state = WORLD_RUNNABLE;
        row->node_id = 0;
        row->suspicion = 0;
    }
}

static inline void world_hand_over(struct world *w, struct world_row *row)
{
    struct schedule_fact fact = world_release(row);
    fact.slots = 0;
    row->state = WORLD_HANDED;
    row->node_id = 0;
    row->suspicion += w->has_suspects ? draw(w, 0, SUSPICION_QUARANTINE) : 0; /* many meet in quarantine */
    row->since_us = w->now_us;
    world_add_news(w, fact, false);
    world_add_news(w, world_handed(row), false);
}

static inline void world_change_workspace(struct world *w, int64_t workspace_id)
{
    struct world_workspace *workspace = &w->workspaces[workspace_id];
    workspace->slots_max = one_in(w, 6) ? draw(w, 0, 1) : draw(w, 1, one_in(w, 4) ? 60 : 6);
    workspace->weight = (int)draw(w, 1, 5);
    workspace->paused = one_in(w, 5);
    workspace->exists = !one_in(w, 12);
}

static inline void world_change_nodes(struct world *w)
{
    int64_t place = draw(w, 1, WORLD_NODES);
    struct world_node *node = &w->nodes[place];
    bool goes_first = one_in(w, 2);
    bool was_listed = node->is_listed;
    *node = (struct world_node){.group_id = one_in(w, 6) ? draw(w, 1, WORLD_GROUPS) : 1 + place % WORLD_GROUPS,
                                .target_id = world_target_id(place),
                                .capacity = draw(w, 0, 12),
                                .accepts = !one_in(w, 4),
                                .is_listed = !one_in(w, 5),
                                .handlers = w->handler_sets == 0 ? 0 : (unsigned)draw(w, 0, 7)};
    if (goes_first) {
        world_add_news(w, (struct schedule_fact){.kind = FACT_NODES}, true);
    }
    for (size_t i = 0; i < WORLD_ROWS_MOST && was_listed && !node->is_listed; i++) {
        if (w->rows[i].state == WORLD_HELD && w->rows[i].node_id == world_node_id(place)) {
            world_hand_over(w, &w->rows[i]);
        }
    }
    if (!goes_first) {
        world_add_news(w, (struct schedule_fact){.kind = FACT_NODES}, true);
    }
}

/* Not beside suspects: a node that is locked counts as none for the share of nodes in quarantine, until it is listed again.
 */
static inline void world_lock_node(struct world *w)
{
    struct world_node *node = &w->nodes[draw(w, 1, WORLD_NODES)];
    if (!w->has_suspects && one_in(w, 4)) {
        node->is_locked = !node->is_locked;
        world_add_news(w, (struct schedule_fact){.kind = FACT_NODES}, true);
    }
}

static inline void world_act(struct world *w)
{
    int64_t workspace_id = draw(w, 1, WORLD_WORKSPACES);
    int64_t group_id = draw(w, 1, WORLD_GROUPS);
    switch (random_below(&w->random, 8)) {
    case 0:
        w->queue_paused = one_in(w, 4);
        world_add_news(w, (struct schedule_fact){.kind = FACT_QUEUE}, true);
        break;
    case 1:
        w->group_paused[group_id] = one_in(w, 4);
        world_add_news(w, (struct schedule_fact){.kind = FACT_GROUP, .group_id = group_id}, true);
        break;
    case 2:
        world_change_workspace(w, workspace_id);
        world_change_workspace(w, draw(w, 1, WORLD_WORKSPACES));
        world_add_news(w, (struct schedule_fact){.kind = FACT_WORKSPACES}, true);
        break;
    case 3:
    case 4:
    case 5:
        world_change_workspace(w, workspace_id);
        world_add_news(w, (struct schedule_fact){.kind = FACT_WORKSPACE, .workspace_id = workspace_id}, true);
        break;
    default:
        world_change_nodes(w);
        break;
    }
}

static inline void world_change(struct world *w)
{
    struct world_row *row = NULL;
    switch (random_below(&w->random, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        world_enqueue(w);
        break;
    case 4:
        world_put_back(w);
        break;
    case 5: /* a cancel: no news, the scheduler finds it gone */
        row = world_draw_row(w, WORLD_RUNNABLE);
        if (row != NULL) {
            row->state = WORLD_FREE;
        }
        break;
    case 6:
        row = world_draw_row(w, one_in(w, 4) ? WORLD_HANDED : WORLD_RUNNABLE);
        if (row != NULL) {
            row->is_locked = !one_in(w, 3);
        }
        world_lock_node(w);
        break;
    case 7:
        row = world_draw_row(w, WORLD_HELD);
        if (row != NULL && one_in(w, 4)) {
            world_hand_over(w, row);
        }
        break;
    case 8:
        world_act(w);
        break;
    default:
        world_end(w);
        break;
    }
}

/* --- suspects (queue/suspicion.h) --- */

static inline bool world_is_on_trial(const struct world *w, const struct world_row *row, int64_t node_id)
{
    return row->state == WORLD_HELD && row->node_id == node_id && row->suspicion >= SUSPICION_LIMITED &&
           w->now_us < row->since_us + suspicion_trial_us(row->suspicion);
}

/* How many nodes of the pool work; those with items in quarantine if this is asked for. The own node works while it has
 * room, with any value in its row. */
static inline int64_t world_nodes_of(const struct world *w, int64_t pool_id, int64_t target_id, bool in_quarantine)
{
    int64_t count = 0;
    for (int64_t place = 1; place <= WORLD_NODES; place++) {
        const struct world_node *node = &w->nodes[place];
        bool counts = node->is_listed && node->accepts &&
                      pool_id_of(node->group_id, world_is_on_temporal(place)) == pool_id &&
                      (target_id == 0 || node->target_id == target_id);
        bool has_quarantine = false;
        for (size_t i = 0; i < WORLD_ROWS_MOST && in_quarantine; i++) {
            has_quarantine = has_quarantine || (w->rows[i].suspicion >= SUSPICION_QUARANTINE &&
                                                world_is_on_trial(w, &w->rows[i], world_node_id(place)));
        }
        count += counts && (!in_quarantine || has_quarantine) ? 1 : 0;
    }
    return count;
}

static inline void world_check_half(const struct world *w, int64_t pool_id, int64_t target_id)
{
    int64_t most = world_nodes_of(w, pool_id, target_id, false) / 2;
    assert_true(world_nodes_of(w, pool_id, target_id, true) <= (most < 1 ? 1 : most));
}

/* Beside other items in quarantine: one of its workspace at a time, at most half of the nodes, and, from its second
 * quarantine on, at a distance. */
static inline void world_check_quarantine(const struct world *w, const struct world_row *taken)
{
    int64_t pool_id = lane_pool_id(taken->lane_id);
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &w->rows[i];
        if (row == taken || row->suspicion < SUSPICION_QUARANTINE || !world_is_on_trial(w, row, row->node_id)) {
            continue;
        }
        bool is_repeated = row->suspicion > SUSPICION_QUARANTINE || taken->suspicion > SUSPICION_QUARANTINE;
        assert_int_not_equal(lane_workspace_id(row->lane_id), lane_workspace_id(taken->lane_id));
        assert_true(lane_pool_id(row->lane_id) != pool_id || !is_repeated ||
                    w->now_us >= row->since_us + 2 * RECOVERY_INTERVAL_US);
    }
    world_check_half(w, pool_id, 0);
    world_check_half(w, pool_id, taken->target_id);
}

/* After the row was taken: whether it may run beside the items of its node. */
static inline void world_check_trials(const struct world *w, const struct world_row *taken)
{
    int64_t trials = 0;
    int64_t trials_most = INT64_MAX;
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &w->rows[i];
        if (world_is_on_trial(w, row, taken->node_id)) {
            trials++;
            trials_most = suspicion_limit(row->suspicion) < trials_most ? suspicion_limit(row->suspicion) : trials_most;
            assert_true(row == taken || row->suspicion < SUSPICION_QUARANTINE);
        }
    }
    assert_true(taken->suspicion < SUSPICION_LIMITED || trials <= trials_most);
    if (taken->suspicion >= SUSPICION_QUARANTINE) {
        assert_int_equal(world_node_held(w, taken->node_id), 1);
        world_check_quarantine(w, taken);
    }
}

/* --- the store's side of a round --- */

/* Whether an earlier item of its lane had no node in this set. */
static inline bool world_is_behind(const struct assignment *set, size_t place)
{
    for (size_t i = 0; i < place && !set[place].handed_over; i++) {
        if (set[i].outcome == ASSIGNMENT_NO_NODE && !set[i].handed_over && set[i].lane_id == set[place].lane_id) {
            return true;
        }
    }
    return false;
}

static inline void world_take(struct world *w, struct assignment *set, size_t place, int64_t own_node_id)
{
    struct assignment *assignment = &set[place];
    struct world_row *row = world_find(w, assignment->id);
    enum world_state wanted = assignment->handed_over ? WORLD_HANDED : WORLD_RUNNABLE;
    int64_t workspace_id = lane_workspace_id(assignment->lane_id);
    const struct world_workspace *workspace = &w->workspaces[workspace_id];
    const struct world_node *node = &w->nodes[assignment->node_id - 100];
    if (row == NULL || row->state != wanted) {
        assignment->outcome = ASSIGNMENT_GONE;
        return;
    }
    if (node->is_locked) {
        assignment->outcome = ASSIGNMENT_NO_NODE;
        return;
    }
    if (world_is_behind(set, place)) {
        assignment->outcome = ASSIGNMENT_BEHIND;
        return;
    }
    if (row->is_locked) {
        assignment->outcome = ASSIGNMENT_LOCKED;
        return;
    }
    assert_true(!assignment->handed_over || row->target_id == node->target_id);
    row->state = WORLD_HELD;
    row->node_id = assignment->node_id;
    row->since_us = w->now_us;
    row->target_id = node->target_id;
    assignment->outcome = ASSIGNMENT_TAKEN;
    world_check_trials(w, row);
    assert_int_equal(row->lane_id, assignment->lane_id);
    assert_true(node->is_listed && node->accepts);
    assert_int_equal(node->group_id, lane_group_id(row->lane_id));
    int64_t handler_set = lane_handler_set(row->lane_id);
    assert_true(handler_set == 0 || (node->handlers >> handler_set & 1) != 0);
    assert_int_equal(world_is_on_temporal(assignment->node_id - 100), lane_is_on_temporal(row->lane_id));
    assert_true(assignment->node_id == own_node_id || world_node_held(w, assignment->node_id) <= node->capacity);
    if (!assignment->handed_over) {
        assert_true(workspace->exists && !workspace->paused);
        assert_false(w->queue_paused || w->group_paused[lane_group_id(row->lane_id)]);
        assert_true(world_held(w, workspace_id) <= workspace->slots_max);
    }
}

static inline int world_by_head(const void *a, const void *b)
{
    const struct schedule_head *x = a;
    const struct schedule_head *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : memcmp(x->id, y->id, sizeof x->id);
}

/* `heads` has room for all rows. */
static inline void world_answer(const struct world *w, struct lane_read *read, struct schedule_head *heads)
{
    struct schedule_head after = {.rank = read->after_rank};
    const struct world_workspace *workspace = &w->workspaces[lane_workspace_id(read->lane_id)];
    size_t count = 0;
    memcpy(after.id, read->after_id, sizeof after.id);
    for (size_t i = 0; i < WORLD_ROWS_MOST; i++) {
        const struct world_row *row = &w->rows[i];
        if (row->state == WORLD_RUNNABLE && row->lane_id == read->lane_id && world_by_head(&row->head, &after) > 0) {
            heads[count++] = row->head;
        }
    }
    if (count > 1) {
        qsort(heads, count, sizeof *heads, world_by_head);
    }
    read->heads = heads;
    read->count = count < read->most ? count : read->most;
    read->is_all = count <= read->most;
    read->workspace_exists = workspace->exists;
    read->workspace_paused = workspace->paused;
    read->slots_max = workspace->slots_max;
    read->weight = workspace->weight;
}

/* Ends up to two items of a lane without a workspace, without news. */
static inline void world_end_orphans(struct world *w, int64_t lane_id)
{
    size_t ended = 0;
    for (size_t i = 0; i < WORLD_ROWS_MOST && ended < 2 && !w->workspaces[lane_workspace_id(lane_id)].exists; i++) {
        struct world_row *row = &w->rows[i];
        if (row->state == WORLD_RUNNABLE && row->lane_id == lane_id && !row->is_locked) {
            row->state = WORLD_FREE;
            ended++;
        }
    }
}

/* The facts of one entry of the news, or of all nodes. Returns how many were written to `facts` (WORLD_NODES + 2). */
static inline size_t world_read_news(const struct world *w, const struct schedule_fact *entry, struct schedule_fact *facts)
{
    size_t count = 0;
    struct schedule_fact fact = *entry;
    const struct world_workspace *workspace = &w->workspaces[fact.workspace_id];
    fact.paused = fact.kind == FACT_QUEUE       ? w->queue_paused
                  : fact.kind == FACT_GROUP     ? w->group_paused[fact.group_id]
                  : fact.kind == FACT_WORKSPACE ? workspace->paused
                                                : false;
    if (fact.kind == FACT_WORKSPACE) {
        fact.slots_max = workspace->slots_max;
        fact.weight = workspace->weight;
        fact.exists = workspace->exists;
    }
    facts[count++] = fact;
    for (int64_t place = 1; place <= WORLD_NODES && fact.kind == FACT_NODES; place++) {
        const struct world_node *node = &w->nodes[place];
        if (node->is_listed) {
            facts[count++] = (struct schedule_fact){.kind = FACT_NODE,
                                                    .node_id = world_node_id(place),
                                                    .group_id = node->group_id,
                                                    .on_temporal = world_is_on_temporal(place),
                                                    .target_id = node->target_id,
                                                    .capacity = node->capacity,
                                                    .accepts = node->accepts};
        }
        for (int64_t set = 1; set <= WORLD_HANDLER_SETS && node->is_listed; set++) {
            if ((node->handlers >> set & 1) != 0) {
                facts[count++] =
                    (struct schedule_fact){.kind = FACT_NODE_HANDLERS, .node_id = world_node_id(place), .handler_set = set};
            }
        }
    }
    if (fact.kind == FACT_NODES) {
        facts[count++] = (struct schedule_fact){.kind = FACT_NODES_END};
    }
    return count;
}

/* Everything that news will bring is taken back, and the acts are over. */
static inline void world_forget_news(struct world *w)
{
    w->news_count = 0;
    w->acts = 0;
}

static inline void world_make(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    random_seed(&w->random, seed);
    for (int64_t id = 1; id <= WORLD_WORKSPACES; id++) {
        w->workspaces[id] = (struct world_workspace){.slots_max = draw(w, 1, 5), .weight = 1, .exists = true};
    }
    for (int64_t place = 1; place <= WORLD_NODES; place++) {
        w->nodes[place] = (struct world_node){.group_id = 1 + place % WORLD_GROUPS,
                                              .target_id = world_target_id(place),
                                              .capacity = draw(w, 1, 10),
                                              .accepts = true,
                                              .is_listed = true};
    }
}

#endif
