/* Demands and shares of the scheduler: which lanes compete for the same nodes. Called by the other files of the scheduler,
 * in the dispatch thread.
 *
 *   pool (group, kind of engine)
 *     share {a, b}   demand: no handlers      nodes a [h, k] and b [h] can serve it
 *                    demand: handlers h       likewise
 *     share {a}      demand: handlers h, k    only a can
 *     share {}       demand: handlers z       no node can: its lanes wait, and delay no other
 *
 * Each share has a stride order of its own, because a pass measures service by the same nodes. With one pass for
 * all nodes, a workspace that b serves well would get nothing from a while another workspace needs a. With an order for
 * each demand, a workspace would get more turns by using more workflows. So the lanes of a workspace in one share have
 * one pass, and the one with the first item goes first. A lane with heads waits for the read of another one that may have
 * an earlier item.
 *
 * How a change of nodes moves demands (demands_settle()):
 *
 *   1. The signature of a demand is folded from the ids of the nodes that can serve it. Two of 64 bits that met would make
 *      two shares one, and a demand whose nodes are full would hold the others of it back until the nodes change.
 *   2. A demand with another signature than before moves to the share of that signature. A new share begins at the pass of
 *      the one that its first demand leaves, so a node that joins a pool with equal nodes changes no pass.
 *   3. Else the lanes of the demand keep their distances to the pass of the share.
 *   4. A share without demands is removed.
 *
 * Nothing here takes or returns a slot. Cost: O(demands * nodes) for a change of nodes, and O(lanes * log lanes) for a
 * demand that moves to another existing share. A turn is linear in the demands of the share.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/scheduler_internal.h"

enum { WORD_BITS = 64 };

/* --- handlers of nodes --- */

enum weir_status node_add_handler_set(struct scheduler *scheduler, struct node *node, uint32_t handler_set)
{
    INVARIANT(handler_set > 0 && handler_set <= HANDLER_SET_MOST);
    uint32_t words = handler_set / WORD_BITS + 1;
    if (words > node->handler_words) {
        uint64_t *sets = realloc(node->handler_sets, words * sizeof *sets);
        if (sets == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        memset(sets + node->handler_words, 0, (words - node->handler_words) * sizeof *sets);
        scheduler->bytes += (words - node->handler_words) * sizeof *sets;
        node->handler_sets = sets;
        node->handler_words = words;
    }
    node->handler_sets[handler_set / WORD_BITS] |= UINT64_C(1) << handler_set % WORD_BITS;
    return WEIR_OK;
}

void node_forget_handlers(struct scheduler *scheduler, struct node *node)
{
    INVARIANT(node->handler_sets != NULL || node->handler_words == 0);
    scheduler->bytes -= node->handler_words * sizeof *node->handler_sets;
    free(node->handler_sets);
    node->handler_sets = NULL;
    node->handler_words = 0;
}

bool demand_has_node(const struct scheduler *scheduler, const struct demand *demand, bool or_full)
{
    INVARIANT(scheduler != NULL && demand != NULL);
    const struct pool *pool = table_at(&scheduler->pools, demand->pool);
    for (const struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        if ((or_full ? node_works(node) : node_free_capacity(node) > 0) && node_has_handlers(node, demand->handler_set)) {
            return true;
        }
    }
    return false;
}

/* --- shares --- */

/* The finalizer of splitmix64 (Steele, Lea and Flood, 2014): every bit of the id changes about half of the bits. */
static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

/* Step 1. Without a node it is 0. */
static int64_t signature_of(const struct scheduler *scheduler, const struct pool *pool, uint32_t handler_set)
{
    uint64_t signature = 0;
    for (const struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        signature += node_has_handlers(node, handler_set) ? mix((uint64_t)node->entry.key) : 0;
    }
    return (int64_t)signature;
}

/* Finds it, or creates it as a successor of `before` (NULL = none); NULL when memory is short. */
static struct share *share_get(struct scheduler *scheduler, struct pool *pool, int64_t signature,
                               const struct share *before)
{
    struct share *share = table_find(&scheduler->shares, signature);
    while (share != NULL && share->pool != pool->entry.self) {
        share = table_find_next(&scheduler->shares, share);
    }
    if (share == NULL) {
        share = table_add(&scheduler->shares, signature);
        if (share == NULL) {
            return NULL;
        }
        share->pool = pool->entry.self;
        if (before != NULL) {
            share->pass = before->pass;
            share->pass_before = before->pass_before;
            share->read_ahead = before->read_ahead;
        }
        list_append(&scheduler->shares, &pool->shares, offsetof(struct share, of_pool), share->entry.self);
    }
    return share;
}

/* A lane that its old share has left behind has no turns to make up for, as in lane_place(). And it must not pull a lane of
 * its workspace back that has its turns in the new share: both have one pass there, the higher one. */
static int64_t pass_after_move(const struct scheduler *scheduler, const struct lane *lane, const struct share *from,
                               const struct share *to)
{
    int64_t pass = to->pass + (lane->pass > from->pass ? lane->pass - from->pass : 0);
    for (uint32_t index = lane_workspace(scheduler, lane)->lanes.first; index != 0;) {
        const struct lane *other = table_at(&scheduler->lanes, index);
        if (other != lane && other->pass > pass && lane_share(scheduler, other) == to) {
            pass = other->pass;
        }
        index = other->of_workspace.after;
    }
    return pass;
}

/* Steps 3 and 4. */
static void demand_move(struct scheduler *scheduler, struct demand *demand, struct share *to)
{
    struct share *from = table_at(&scheduler->shares, demand->share);
    /* A workspace may have lanes in the share already, with another pass though the shares stand at the same. */
    bool is_kept = to->demands.first == 0 && to->pass == from->pass;
    list_remove(&scheduler->demands, &from->demands, offsetof(struct demand, of_share), demand->entry.self);
    list_append(&scheduler->demands, &to->demands, offsetof(struct demand, of_share), demand->entry.self);
    for (struct lane *lane = is_kept ? NULL : table_from(&scheduler->lanes, 1); lane != NULL;
         lane = table_from(&scheduler->lanes, lane->entry.self + 1)) {
        if (lane->demand == demand->entry.self) {
            /* Before the demand is in the new share: lanes of the same workspace in it are those that were there. */
            int64_t pass = pass_after_move(scheduler, lane, from, to);
            demand->share = to->entry.self;
            lane_set_pass(scheduler, lane, pass);
            demand->share = from->entry.self;
        }
    }
    demand->share = to->entry.self;
    if (from->demands.first == 0) {
        struct pool *pool = table_at(&scheduler->pools, from->pool);
        list_remove(&scheduler->shares, &pool->shares, offsetof(struct share, of_pool), from->entry.self);
        table_remove(&scheduler->shares, from);
    }
}

/* Step 2, for one demand. */
static bool demand_settle(struct scheduler *scheduler, struct demand *demand)
{
    struct pool *pool = table_at(&scheduler->pools, demand->pool);
    const struct share *share = table_at(&scheduler->shares, demand->share);
    int64_t signature = signature_of(scheduler, pool, demand->handler_set);
    if (share->entry.key == signature) {
        return true;
    }
    struct share *to = share_get(scheduler, pool, signature, share);
    if (to != NULL) {
        demand_move(scheduler, demand, to);
    }
    return to != NULL;
}

enum weir_status demands_settle(struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    for (struct demand *demand = table_from(&scheduler->demands, 1); demand != NULL;
         demand = table_from(&scheduler->demands, demand->entry.self + 1)) {
        if (!demand_settle(scheduler, demand)) {
            return WEIR_OUT_OF_MEMORY;
        }
    }
    return WEIR_OK;
}

struct demand *demand_get(struct scheduler *scheduler, int64_t lane_id)
{
    INVARIANT(lane_pool_id(lane_id) > 0);
    int64_t key = lane_id >> LANE_DEMAND_BIT;
    struct demand *demand = table_find(&scheduler->demands, key);
    if (demand != NULL) {
        return demand;
    }
    struct pool *pool = pool_get(scheduler, lane_pool_id(lane_id));
    uint32_t handler_set = (uint32_t)lane_handler_set(lane_id);
    demand = pool == NULL ? NULL : table_add(&scheduler->demands, key);
    if (demand == NULL) {
        return NULL;
    }
    struct share *share = share_get(scheduler, pool, signature_of(scheduler, pool, handler_set), NULL);
    if (share == NULL) {
        table_remove(&scheduler->demands, demand);
        return NULL;
    }
    demand->pool = pool->entry.self;
    demand->share = share->entry.self;
    demand->handler_set = handler_set;
    list_append(&scheduler->demands, &pool->demands, offsetof(struct demand, of_pool), demand->entry.self);
    list_append(&scheduler->demands, &share->demands, offsetof(struct demand, of_share), demand->entry.self);
    return demand;
}

/* Whether `a` has its turn before `b`, which is of another demand of the share. */
static bool goes_before_in_share(const struct lane *a, const struct lane *b)
{
    int64_t a_workspace = lane_workspace_id(a->entry.key);
    int64_t b_workspace = lane_workspace_id(b->entry.key);
    if (a->pass != b->pass || a_workspace != b_workspace) {
        return a->pass < b->pass || (a->pass == b->pass && a_workspace < b_workspace);
    }
    return head_compare(&a->heads[a->first], &b->heads[b->first]) < 0;
}

static struct lane *first_of_share(const struct scheduler *scheduler, const struct share *share)
{
    struct lane *best = NULL;
    for (const struct demand *demand = next_demand(scheduler, share->demands.first); demand != NULL;
         demand = next_demand(scheduler, demand->of_share.after)) {
        struct lane *lane = heap_top(scheduler, demand, HEAP_SERVE);
        if (lane != NULL && (best == NULL || goes_before_in_share(lane, best))) {
            best = lane;
        }
    }
    return best;
}

bool lane_is_behind(const struct scheduler *scheduler, const struct lane *lane, bool or_read)
{
    INVARIANT(lane->count > 0);
    const struct share *share = lane_share(scheduler, lane);
    const struct schedule_head *head = &lane->heads[lane->first];
    for (uint32_t index = lane_workspace(scheduler, lane)->lanes.first; index != 0;) {
        const struct lane *other = table_at(&scheduler->lanes, index);
        bool has_head = other->count > 0;
        bool counts = other != lane && other->active && (has_head ? or_read : !other->is_all);
        const struct schedule_head *first = has_head ? &other->heads[other->first] : &other->position;
        if (counts && head_compare(first, head) < 0 && lane_share(scheduler, other) == share) {
            return true;
        }
        index = other->of_workspace.after;
    }
    return false;
}

/* A lane that waits for the read of another one leaves its heap until the end of the call, so that the next workspace has
 * its turn. The read follows in the same round: the other lane is in its heap of reads, and the same nodes are free. */
struct lane *share_top(struct scheduler *scheduler, const struct share *share)
{
    INVARIANT(share->entry.self != 0);
    struct lane *lane = first_of_share(scheduler, share);
    while (lane != NULL && lane_is_behind(scheduler, lane, false)) {
        heap_set(scheduler, lane, HEAP_SERVE, false);
        if (!lane->is_behind) {
            lane->is_behind = true;
            lane->next_behind = scheduler->behind;
            scheduler->behind = lane->entry.self;
        }
        lane = first_of_share(scheduler, share);
    }
    return lane;
}

void share_tops_return(struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    while (scheduler->behind != 0) {
        struct lane *lane = table_at(&scheduler->lanes, scheduler->behind);
        scheduler->behind = lane->next_behind;
        lane->is_behind = false;
        lane_place(scheduler, lane);
    }
}
