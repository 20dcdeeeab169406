/* The rules of the scheduler a second time, as slow and as plain as possible: arrays, linear search, and everything that
 * can be derived is derived anew after each event. Shares only the types of queue/scheduler.h with the implementation.
 *
 * One figure is taken from the implementation: how many heads a lane asks for. It is a matter of cost, not of a rule.
 */
#ifndef WEIR_TESTS_UNIT_QUEUE_SCHEDULER_REFERENCE_H
#define WEIR_TESTS_UNIT_QUEUE_SCHEDULER_REFERENCE_H

#include <stdbool.h>
#include <stdlib.h>

#include "queue/scheduler.h"
#include "support/test.h"

enum {
    REF_LANES_MOST = 24,
    REF_WORKSPACES_MOST = 12,
    REF_GROUPS_MOST = 8, /* pools of the groups 1 .. 3, one array place each */
    REF_NODES_MOST = 12,
    REF_HEADS_MOST = SCHEDULER_LANE_HEADS_MOST,
    REF_HANDED_MOST = 600,
    REF_READ_AHEAD_MOST = 256,
    REF_IDLE_MOST = 1000,
    REF_LOCKED_RUN_MOST = 20
};
#define REF_RETRY_US INT64_C(1000000)

struct ref_workspace {
    int64_t id; /* 0 = not known */
    bool known, exists, paused;
    int64_t max, held;
    int weight;
};

struct ref_lane {
    int64_t id; /* 0 = not known */
    int64_t pass;
    struct schedule_head heads[REF_HEADS_MOST];
    size_t count;
    struct schedule_head position;
    bool is_all, asked, missed, waits_retry, rests, active;
    int64_t missed_rank, locked_rank, retry_us;
    int in_flight, locked_run;
    int64_t idle_since; /* number of the event; 0 = not idle */
};

struct ref_node {
    int64_t id; /* 0 = not known */
    int64_t group_id, target_id, capacity, row_capacity, held, list;
    bool accepts;
};

struct ref_group { /* a pool: its nodes have engines of one kind, and so do its lanes */
    bool is_known;
    bool paused;
    int64_t pass, pass_before;
    int64_t chunk_node_id, chunk_left;
    int read_ahead;
};

enum ref_handed_state { REF_WAITS, REF_ASSIGNED, REF_LOCKED };
struct ref_handed {
    uint8_t id[SCHEDULER_ID_BYTES];
    int64_t lane_id;
    int64_t target_id;
    enum ref_handed_state state;
    int64_t retry_us;
    int64_t order; /* among those of the same state */
};

struct reference {
    struct ref_lane lanes[REF_LANES_MOST];
    struct ref_workspace workspaces[REF_WORKSPACES_MOST];
    struct ref_group groups[REF_GROUPS_MOST];
    struct ref_node nodes[REF_NODES_MOST];
    struct ref_handed handed[REF_HANDED_MOST];
    size_t handed_count;
    int64_t own_node_id;
    int64_t event, call, list, last_order;
    bool queue_paused, passes_loaded;
};

static inline int ref_compare(const struct schedule_head *a, const struct schedule_head *b)
{
    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1) : memcmp(a->id, b->id, sizeof a->id);
}

static inline struct ref_lane *ref_lane(struct reference *r, int64_t lane_id)
{
    for (size_t i = 0; i < REF_LANES_MOST; i++) {
        if (r->lanes[i].id == lane_id) {
            return &r->lanes[i];
        }
    }
    return NULL;
}

static inline struct ref_workspace *ref_workspace(struct reference *r, int64_t workspace_id)
{
    for (size_t i = 0; i < REF_WORKSPACES_MOST; i++) {
        if (r->workspaces[i].id == workspace_id) {
            return &r->workspaces[i];
        }
    }
    return NULL;
}

static inline struct ref_node *ref_node(struct reference *r, int64_t node_id)
{
    for (size_t i = 0; i < REF_NODES_MOST; i++) {
        if (r->nodes[i].id == node_id) {
            return &r->nodes[i];
        }
    }
    return NULL;
}

static inline struct ref_group *ref_group(struct reference *r, int64_t group_id)
{
    assert_in_range(group_id, 1, REF_GROUPS_MOST - 1);
    r->groups[group_id].is_known = true;
    return &r->groups[group_id];
}

static inline struct ref_workspace *ref_workspace_of(struct reference *r, const struct ref_lane *lane)
{
    struct ref_workspace *workspace = ref_workspace(r, lane_workspace_id(lane->id));
    assert_non_null(workspace);
    return workspace;
}

static inline struct ref_workspace *ref_make_workspace(struct reference *r, int64_t workspace_id)
{
    struct ref_workspace *workspace = ref_workspace(r, workspace_id);
    if (workspace == NULL) {
        workspace = ref_workspace(r, 0);
        assert_non_null(workspace);
        *workspace = (struct ref_workspace){.id = workspace_id, .weight = 1};
    }
    return workspace;
}

static inline struct ref_lane *ref_make_lane(struct reference *r, int64_t lane_id, bool *ret_is_new)
{
    struct ref_lane *lane = ref_lane(r, lane_id);
    *ret_is_new = lane == NULL;
    if (lane == NULL) {
        lane = ref_lane(r, 0);
        assert_non_null(lane);
        memset(lane, 0, sizeof *lane);
        lane->id = lane_id;
        lane->pass = ref_group(r, lane_pool_id(lane_id))->pass;
        lane->position.rank = INT64_MIN;
        lane->is_all = true;
        (void)ref_make_workspace(r, lane_workspace_id(lane_id));
    }
    return lane;
}

/* Items behind the position may be unknown. */
static inline void ref_unread(struct ref_lane *lane, struct schedule_head position)
{
    size_t kept = 0;
    lane->is_all = false;
    if (lane->asked && (!lane->missed || position.rank < lane->missed_rank)) {
        lane->missed = true;
        lane->missed_rank = position.rank;
    }
    if (ref_compare(&lane->position, &position) > 0) {
        lane->position = position;
    }
    while (kept < lane->count && ref_compare(&lane->heads[kept], &lane->position) <= 0) {
        kept++;
    }
    lane->count = kept;
}

static inline struct schedule_head ref_right_before(struct schedule_head head)
{
    for (size_t i = sizeof head.id; i > 0 && head.id[i - 1]-- == 0; i--) {
    }
    return head;
}

static inline bool ref_is_lost(struct reference *r, const struct ref_lane *lane)
{
    const struct ref_workspace *workspace = ref_workspace_of(r, lane);
    return workspace->known && !workspace->exists && (lane->count > 0 || !lane->is_all);
}

static inline bool ref_is_open(struct reference *r, const struct ref_lane *lane)
{
    const struct ref_workspace *w = ref_workspace_of(r, lane);
    return !w->known || (w->exists && !w->paused && w->held < w->max);
}

/* Derives the changes that follow from an event. */
static inline void ref_derive(struct reference *r)
{
    r->event++;
    for (size_t i = 0; i < REF_LANES_MOST; i++) {
        struct ref_lane *lane = &r->lanes[i];
        if (lane->id == 0) {
            continue;
        }
        if (ref_is_lost(r, lane)) {
            if (lane->count > 0) {
                ref_unread(lane, ref_right_before(lane->heads[0]));
            }
            if (lane->waits_retry) {
                ref_unread(lane, (struct schedule_head){.rank = lane->locked_rank});
            }
            lane->waits_retry = false;
            lane->rests = false;
        }
        bool has_items = lane->count > 0 || !lane->is_all;
        bool active = has_items && !lane->rests && ref_is_open(r, lane);
        int64_t pass = ref_group(r, lane_pool_id(lane->id))->pass;
        if (active && !lane->active && lane->pass < pass) {
            lane->pass = pass;
        }
        lane->active = active;
        bool idle = !has_items && !lane->asked && lane->in_flight == 0 && !lane->waits_retry;
        lane->idle_since = !idle ? 0 : lane->idle_since == 0 ? r->event : lane->idle_since;
    }
    for (size_t i = 0; i < REF_WORKSPACES_MOST; i++) {
        bool is_used = r->workspaces[i].held != 0;
        for (size_t k = 0; k < REF_LANES_MOST; k++) {
            is_used = is_used || lane_workspace_id(r->lanes[k].id) == r->workspaces[i].id;
        }
        r->workspaces[i].id = is_used ? r->workspaces[i].id : 0;
    }
    for (size_t i = 0; i < REF_NODES_MOST; i++) {
        if (r->nodes[i].group_id == 0 && r->nodes[i].held == 0) {
            r->nodes[i].id = 0;
        }
    }
}

/* Idle lanes, the longest first, while the group has passed them. */
static inline void ref_forget_idle(struct reference *r)
{
    for (;;) {
        struct ref_lane *oldest = NULL;
        for (size_t i = 0; i < REF_LANES_MOST; i++) {
            struct ref_lane *lane = &r->lanes[i];
            if (lane->id != 0 && lane->idle_since != 0 && (oldest == NULL || lane->idle_since < oldest->idle_since)) {
                oldest = lane;
            }
        }
        if (oldest == NULL || oldest->pass > ref_group(r, lane_pool_id(oldest->id))->pass) {
            break;
        }
        oldest->id = 0;
    }
    ref_derive(r);
}

/* --- facts --- */

static inline void ref_learn_limits(struct reference *r, int64_t workspace_id, int64_t max, int weight, bool paused,
                                    bool exists)
{
    struct ref_workspace *workspace = ref_workspace(r, workspace_id);
    if (workspace != NULL && workspace_id != 0) {
        workspace->known = true;
        workspace->max = max;
        workspace->weight = weight;
        workspace->paused = paused;
        workspace->exists = exists;
    }
}

static inline void ref_learn_node(struct reference *r, const struct schedule_fact *fact)
{
    struct ref_node *node = ref_node(r, fact->node_id);
    (void)ref_group(r, pool_id_of(fact->group_id, fact->on_temporal));
    if (node == NULL) {
        node = ref_node(r, 0);
        assert_non_null(node);
        *node = (struct ref_node){.id = fact->node_id, .row_capacity = -1};
    }
    if (fact->node_id != r->own_node_id || node->row_capacity != fact->capacity) {
        node->capacity = fact->capacity;
    }
    node->row_capacity = fact->capacity;
    node->group_id = pool_id_of(fact->group_id, fact->on_temporal);
    node->target_id = fact->target_id;
    node->accepts = fact->accepts;
    node->list = r->list;
}

static inline void ref_learn_held(struct reference *r, const struct schedule_fact *fact)
{
    if (fact->node_id != 0 && fact->node_held != 0) {
        struct ref_node *node = ref_node(r, fact->node_id);
        if (node == NULL) {
            node = ref_node(r, 0);
            assert_non_null(node);
            *node = (struct ref_node){.id = fact->node_id};
        }
        node->held += fact->node_held;
        assert_true(node->held >= 0);
    }
    if (fact->slots != 0) {
        struct ref_workspace *workspace = ref_make_workspace(r, lane_workspace_id(fact->lane_id));
        workspace->held += fact->slots;
        assert_true(workspace->held >= 0);
    }
}

static inline void ref_learn_handed(struct reference *r, const struct schedule_fact *fact)
{
    for (size_t i = 0; i < r->handed_count; i++) {
        if (memcmp(r->handed[i].id, fact->id, sizeof fact->id) == 0) {
            return;
        }
    }
    assert_true(r->handed_count < REF_HANDED_MOST);
    struct ref_handed *item = &r->handed[r->handed_count++];
    (void)ref_group(r, lane_pool_id(fact->lane_id));
    *item = (struct ref_handed){.lane_id = fact->lane_id, .target_id = fact->target_id, .order = ++r->last_order};
    memcpy(item->id, fact->id, sizeof item->id);
}

static inline void ref_learn_pass(struct reference *r, const struct schedule_fact *fact)
{
    bool is_new = false;
    ref_make_lane(r, fact->lane_id, &is_new)->pass = fact->pass;
    r->passes_loaded = true;
}

static inline void ref_learn(struct reference *r, const struct schedule_fact *fact)
{
    bool is_new = false;
    struct ref_lane *lane = NULL;
    struct schedule_head before = {.rank = fact->rank};
    switch (fact->kind) {
    case FACT_RUNNABLE:
        lane = ref_make_lane(r, fact->lane_id, &is_new);
        if (is_new || (lane->is_all && !lane->asked && ref_compare(&lane->position, &before) < 0)) {
            lane->position = before;
        }
        ref_unread(lane, before);
        break;
    case FACT_HELD:
        ref_learn_held(r, fact);
        break;
    case FACT_WORKSPACE:
        ref_learn_limits(r, fact->workspace_id, fact->slots_max, fact->weight, fact->paused, fact->exists);
        break;
    case FACT_WORKSPACES:
        for (size_t i = 0; i < REF_WORKSPACES_MOST; i++) {
            r->workspaces[i].known = false;
        }
        break;
    case FACT_GROUP:
        ref_group(r, pool_id_of(fact->group_id, false))->paused = fact->paused;
        ref_group(r, pool_id_of(fact->group_id, true))->paused = fact->paused;
        break;
    case FACT_QUEUE:
        r->queue_paused = fact->paused;
        break;
    case FACT_NODES:
        r->list++;
        break;
    case FACT_NODE:
        ref_learn_node(r, fact);
        break;
    case FACT_NODES_END:
        for (size_t i = 0; i < REF_NODES_MOST; i++) {
            if (r->nodes[i].list != r->list) {
                r->nodes[i].group_id = 0;
                r->nodes[i].accepts = false;
            }
        }
        break;
    case FACT_SUSPECTS:
    case FACT_SUSPECT:
    case FACT_SUSPECTS_END:
        break; /* the reference knows no suspects */
    case FACT_HANDED_OVER:
        ref_learn_handed(r, fact);
        break;
    case FACT_PASS:
        ref_learn_pass(r, fact);
        break;
    case FACT_NODE_HANDLERS:
    case FACT_NEWS:
        break;
    }
    ref_derive(r);
}

/* --- reads --- */

static inline void ref_read(struct reference *r, const struct lane_read *read)
{
    struct ref_lane *lane = ref_lane(r, read->lane_id);
    struct schedule_head after = {.rank = read->after_rank};
    assert_non_null(lane);
    memcpy(after.id, read->after_id, sizeof after.id);
    lane->asked = false;
    if (!read->workspace_exists) {
        lane->is_all = read->is_all && read->count == 0;
    } else if (ref_compare(&after, &lane->position) <= 0) {
        for (size_t i = 0; i < read->count; i++) {
            if (ref_compare(&read->heads[i], &lane->position) > 0) {
                assert_true(lane->count < REF_HEADS_MOST);
                lane->heads[lane->count++] = read->heads[i];
                lane->position = read->heads[i];
            }
        }
        lane->is_all = read->is_all;
    }
    if (lane->missed) {
        lane->missed = false;
        ref_unread(lane, (struct schedule_head){.rank = lane->missed_rank});
    }
    ref_learn_limits(r, lane_workspace_id(read->lane_id), read->slots_max, read->weight, read->workspace_paused,
                     read->workspace_exists);
    ref_derive(r);
}

/* --- decisions --- */

/* `target_id` 0: of any. */
static inline int64_t ref_room(const struct ref_node *node, int64_t group_id, int64_t target_id)
{
    bool takes = node->id != 0 && node->group_id == group_id && (target_id == 0 || node->target_id == target_id) &&
                 node->accepts && node->capacity > node->held;
    return takes ? node->capacity - node->held : 0;
}

static inline struct ref_node *ref_best(struct reference *r, int64_t group_id, int64_t target_id)
{
    struct ref_node *best = NULL;
    for (size_t i = 0; i < REF_NODES_MOST; i++) {
        struct ref_node *node = &r->nodes[i];
        int64_t room = ref_room(node, group_id, target_id);
        if (room > 0 && node->id == r->own_node_id) {
            return node;
        }
        if (room > 0 && (best == NULL || room > ref_room(best, group_id, target_id) ||
                         (room == ref_room(best, group_id, target_id) && node->id < best->id))) {
            best = node;
        }
    }
    return best;
}

/* A quarter of a node's capacity in a row. */
static inline struct ref_node *ref_choose(struct reference *r, int64_t group_id, int64_t target_id)
{
    struct ref_group *group = &r->groups[group_id];
    struct ref_node *node = group->chunk_left > 0 ? ref_node(r, group->chunk_node_id) : NULL;
    if (node == NULL || ref_room(node, group_id, target_id) == 0) {
        node = ref_best(r, group_id, target_id);
        if (node == NULL) {
            return NULL;
        }
        group->chunk_node_id = node->id;
        group->chunk_left = node->capacity / 4 > 1 ? node->capacity / 4 : 1;
    }
    group->chunk_left--;
    return node;
}

static inline bool ref_goes_before(const struct ref_lane *a, const struct ref_lane *b)
{
    return b == NULL || a->pass < b->pass || (a->pass == b->pass && a->id < b->id);
}

/* The next lane that has a head and may use it. */
static inline struct ref_lane *ref_next(struct reference *r, int64_t group_id)
{
    struct ref_lane *best = NULL;
    for (size_t i = 0; i < REF_LANES_MOST; i++) {
        struct ref_lane *lane = &r->lanes[i];
        if (lane->id != 0 && lane_pool_id(lane->id) == group_id && lane->count > 0 && !lane->rests &&
            ref_workspace_of(r, lane)->known && ref_is_open(r, lane) && ref_goes_before(lane, best)) {
            best = lane;
        }
    }
    return best;
}

static inline void ref_retry(struct reference *r, int64_t now_us)
{
    for (size_t i = 0; i < REF_LANES_MOST; i++) {
        struct ref_lane *lane = &r->lanes[i];
        if (lane->id != 0 && lane->waits_retry && lane->retry_us <= now_us) {
            lane->waits_retry = false;
            lane->rests = false;
            lane->locked_run = 0;
            ref_unread(lane, (struct schedule_head){.rank = lane->locked_rank});
        }
    }
    for (size_t done = 0; done < r->handed_count; done++) {
        struct ref_handed *first = NULL;
        for (size_t i = 0; i < r->handed_count; i++) {
            struct ref_handed *item = &r->handed[i];
            if (item->state == REF_LOCKED && item->retry_us <= now_us && (first == NULL || item->order < first->order)) {
                first = item;
            }
        }
        if (first == NULL) {
            break;
        }
        first->state = REF_WAITS;
        first->order = ++r->last_order;
    }
    if (r->passes_loaded) {
        r->passes_loaded = false;
        for (size_t i = 0; i < REF_LANES_MOST; i++) {
            const struct ref_lane *lane = &r->lanes[i];
            struct ref_group *group = lane->id == 0 ? NULL : ref_group(r, lane_pool_id(lane->id));
            if (group != NULL && group->pass < lane->pass - STRIDE_ONE) {
                group->pass = lane->pass - STRIDE_ONE;
            }
        }
        for (size_t i = 0; i < REF_LANES_MOST; i++) {
            struct ref_lane *lane = &r->lanes[i];
            int64_t pass = lane->id == 0 ? 0 : ref_group(r, lane_pool_id(lane->id))->pass;
            lane->pass = lane->pass < pass ? pass : lane->pass;
        }
    }
    ref_derive(r);
}

static inline bool ref_assign_handed(struct reference *r, int64_t group_id, struct assignment *to)
{
    struct ref_handed *first = NULL;
    for (size_t i = 0; i < r->handed_count; i++) {
        struct ref_handed *item = &r->handed[i];
        if (item->state == REF_WAITS && lane_pool_id(item->lane_id) == group_id &&
            ref_best(r, group_id, item->target_id) != NULL && (first == NULL || item->order < first->order)) {
            first = item;
        }
    }
    struct ref_node *node = first == NULL ? NULL : ref_choose(r, group_id, first->target_id);
    if (node == NULL) {
        return false;
    }
    first->state = REF_ASSIGNED;
    node->held++;
    *to = (struct assignment){.lane_id = first->lane_id, .node_id = node->id, .handed_over = true};
    memcpy(to->id, first->id, sizeof to->id);
    return true;
}

static inline bool ref_assign_one(struct reference *r, int64_t group_id, struct assignment *to)
{
    struct ref_group *group = ref_group(r, group_id);
    struct ref_lane *lane = r->queue_paused || group->paused ? NULL : ref_next(r, group_id);
    struct ref_node *node = lane == NULL ? NULL : ref_choose(r, group_id, 0);
    if (node == NULL) {
        return false;
    }
    struct ref_workspace *workspace = ref_workspace_of(r, lane);
    *to = (struct assignment){.rank = lane->heads[0].rank, .lane_id = lane->id, .node_id = node->id};
    memcpy(to->id, lane->heads[0].id, sizeof to->id);
    lane->count--;
    memmove(lane->heads, lane->heads + 1, lane->count * sizeof *lane->heads);
    lane->in_flight++;
    node->held++;
    workspace->held++;
    to->others_wait = workspace->held >= workspace->max && (lane->count > 0 || !lane->is_all);
    group->pass = lane->pass > group->pass ? lane->pass : group->pass;
    group->read_ahead += group->read_ahead < REF_READ_AHEAD_MOST ? 1 : 0;
    lane->pass += STRIDE_ONE / workspace->weight;
    ref_derive(r);
    return true;
}

/* The pools in the order of this call: by id, begun at another one each time. Returns their number. */
static inline size_t ref_group_order(struct reference *r, int64_t *group_ids)
{
    size_t count = 0;
    int64_t sorted[REF_GROUPS_MOST];
    for (int64_t id = 1; id < REF_GROUPS_MOST; id++) {
        if (r->groups[id].is_known) {
            sorted[count++] = id;
        }
    }
    for (size_t i = 0; i < count; i++) {
        group_ids[i] = sorted[((size_t)r->call + i) % count];
    }
    return count;
}

static inline size_t ref_assign(struct reference *r, int64_t now_us, int64_t own_node_id, size_t own_room,
                                struct assignment *assignments, size_t limit)
{
    int64_t ids[REF_GROUPS_MOST];
    size_t count = 0;
    ref_retry(r, now_us);
    struct ref_node *own = ref_node(r, r->own_node_id);
    if (own != NULL && r->own_node_id != own_node_id) {
        own->capacity = own->row_capacity;
    }
    r->own_node_id = own_node_id;
    own = own_node_id == 0 ? NULL : ref_node(r, own_node_id);
    if (own != NULL) {
        own->capacity = own->held + (int64_t)own_room;
    }
    r->call++;
    size_t groups = ref_group_order(r, ids);
    for (size_t i = 0; i < groups; i++) {
        r->groups[ids[i]].pass_before = r->groups[ids[i]].pass;
        r->groups[ids[i]].chunk_left = 0;
        while (count < limit && ref_assign_handed(r, ids[i], &assignments[count])) {
            count++;
        }
    }
    for (bool goes_on = true; goes_on && count < limit;) {
        goes_on = false;
        for (size_t i = 0; i < groups && count < limit; i++) {
            bool assigned = ref_assign_one(r, ids[i], &assignments[count]);
            count += assigned ? 1 : 0;
            goes_on = goes_on || assigned;
        }
    }
    return count;
}

/* --- outcomes --- */

static inline void ref_settle_handed(struct reference *r, int64_t now_us, const struct assignment *assignment)
{
    struct ref_handed *item = NULL;
    for (size_t i = 0; i < r->handed_count; i++) {
        if (memcmp(r->handed[i].id, assignment->id, sizeof assignment->id) == 0) {
            item = &r->handed[i];
        }
    }
    assert_non_null(item);
    if (assignment->outcome == ASSIGNMENT_LOCKED) {
        item->state = REF_LOCKED;
        item->retry_us = now_us + REF_RETRY_US;
        item->order = ++r->last_order;
    } else if (assignment->outcome == ASSIGNMENT_UNDONE || assignment->outcome == ASSIGNMENT_NO_NODE) {
        item->state = REF_WAITS; /* in its old place */
    } else {
        *item = r->handed[--r->handed_count];
    }
}

static inline void ref_put_back(struct ref_lane *lane, const struct assignment *assignment)
{
    struct schedule_head head = {.rank = assignment->rank};
    memcpy(head.id, assignment->id, sizeof head.id);
    if (ref_compare(&head, &lane->position) > 0) {
        lane->is_all = false;
        return;
    }
    memmove(lane->heads + 1, lane->heads, lane->count * sizeof *lane->heads);
    lane->heads[0] = head;
    lane->count++;
}

static inline void ref_settle(struct reference *r, int64_t now_us, const struct assignment *assignment)
{
    bool taken = assignment->outcome == ASSIGNMENT_TAKEN;
    if (!taken) {
        struct ref_node *node = ref_node(r, assignment->node_id);
        node->held--;
        node->accepts = node->accepts && assignment->outcome != ASSIGNMENT_NO_NODE;
    }
    if (assignment->handed_over) {
        ref_settle_handed(r, now_us, assignment);
        ref_derive(r);
        return;
    }
    struct ref_lane *lane = ref_lane(r, assignment->lane_id);
    struct ref_group *group = ref_group(r, lane_pool_id(assignment->lane_id));
    struct ref_workspace *workspace = ref_workspace_of(r, lane);
    lane->in_flight--;
    if (taken) {
        lane->locked_run = 0;
    } else {
        workspace->held--;
        lane->pass -= STRIDE_ONE / workspace->weight;
        lane->pass = lane->pass < 0 ? 0 : lane->pass;
        lane->active = true; /* it keeps its pass */
    }
    if (assignment->outcome == ASSIGNMENT_UNDONE) {
        group->pass = group->pass_before;
    }
    if (assignment->outcome == ASSIGNMENT_UNDONE || assignment->outcome == ASSIGNMENT_NO_NODE ||
        assignment->outcome == ASSIGNMENT_BEHIND) {
        ref_put_back(lane, assignment);
    }
    if (assignment->outcome == ASSIGNMENT_LOCKED) {
        lane->locked_rank =
            lane->waits_retry && lane->locked_rank < assignment->rank ? lane->locked_rank : assignment->rank;
        lane->retry_us = lane->waits_retry ? lane->retry_us : now_us + REF_RETRY_US;
        lane->waits_retry = true;
        lane->locked_run++;
        if (lane->locked_run >= REF_LOCKED_RUN_MOST) {
            lane->locked_run = 0;
            lane->rests = true;
        }
    }
    ref_derive(r);
}

/* --- wants --- */

/* How many heads the implementation lets the lane ask for. */
typedef size_t (*ref_read_size)(void *context, int64_t lane_id);

static inline struct ref_lane *ref_next_read(struct reference *r, int64_t group_id, ref_read_size read_size, void *context)
{
    struct ref_lane *best = NULL;
    for (size_t i = 0; i < REF_LANES_MOST; i++) {
        struct ref_lane *lane = &r->lanes[i];
        if (lane->id == 0 || lane_pool_id(lane->id) != group_id || !lane->active || lane->asked) {
            continue;
        }
        bool is_low = !lane->is_all && 2 * lane->count < read_size(context, lane->id);
        if ((is_low || !ref_workspace_of(r, lane)->known) && ref_goes_before(lane, best)) {
            best = lane;
        }
    }
    return best;
}

static inline struct ref_lane *ref_want_one(struct reference *r, int64_t group_id, ref_read_size read_size, void *context)
{
    struct ref_group *group = ref_group(r, group_id);
    struct ref_lane *lane = ref_next_read(r, group_id, read_size, context);
    const struct ref_lane *served = ref_next(r, group_id);
    bool has_node = false;
    for (size_t i = 0; i < REF_NODES_MOST; i++) {
        const struct ref_node *node = &r->nodes[i];
        has_node = has_node || (node->id != 0 && node->group_id == group_id && node->accepts && node->capacity > 0);
    }
    if (lane == NULL || !has_node || r->queue_paused || group->paused) {
        return NULL;
    }
    if (ref_best(r, group_id, 0) != NULL || lane == served || ref_goes_before(lane, served)) {
        return lane;
    }
    if (group->read_ahead > 0) {
        group->read_ahead--;
        return lane;
    }
    return NULL;
}

/* Marks the lanes as asked and returns their ids: those without workspace first, in any order. */
static inline size_t ref_wants(struct reference *r, int64_t now_us, int64_t *lane_ids, size_t most, size_t *ret_orphans,
                               ref_read_size read_size, void *context)
{
    int64_t ids[REF_GROUPS_MOST];
    size_t count = 0;
    ref_retry(r, now_us);
    ref_forget_idle(r);
    for (size_t i = 0; i < REF_LANES_MOST && count < most; i++) {
        if (r->lanes[i].id != 0 && ref_is_lost(r, &r->lanes[i]) && !r->lanes[i].asked) {
            r->lanes[i].asked = true;
            lane_ids[count++] = r->lanes[i].id;
        }
    }
    *ret_orphans = count;
    size_t groups = ref_group_order(r, ids);
    for (bool goes_on = true; goes_on && count < most;) {
        goes_on = false;
        for (size_t i = 0; i < groups && count < most; i++) {
            struct ref_lane *lane = ref_want_one(r, ids[i], read_size, context);
            if (lane != NULL) {
                lane->asked = true;
                lane_ids[count++] = lane->id;
                goes_on = true;
            }
        }
    }
    ref_derive(r);
    return count;
}

#endif
