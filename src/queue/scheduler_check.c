/* Every invariant of the scheduler's memory, for tests; a node does not call it.
 *
 * It recomputes from the objects the figures that the scheduler keeps up to date step by step: sums, memberships in heaps
 * and lists, orders. It changes nothing.
 */
#include <stdio.h>

#include "base/error.h"
#include "queue/scheduler_internal.h"
#include "queue/suspicion.h"

struct check {
    const struct scheduler *scheduler;
    char *message;
    size_t size;
    bool is_broken; /* the first finding stays */
};

/* Keeps the first finding, because later ones often follow from it. */
static void check_that(struct check *check, bool holds, const char *claim, int64_t key)
{
    if (!holds && !check->is_broken) {
        check->is_broken = true;
        (void)snprintf(check->message, check->size, "%s (%lld)", claim, (long long)key);
    }
}

/* Places, order, and memory for every lane of the demand. */
static void check_heap(struct check *check, const struct demand *demand, enum heap_kind kind)
{
    const struct lane_heap *heap = &demand->heaps[kind];
    check_that(check, heap->count <= heap->capacity, "a heap exceeds its capacity", demand->entry.key);
    check_that(check, demand->lane_count <= heap->capacity, "a heap has no place for all lanes", demand->entry.key);
    for (uint32_t at = 0; at < heap->count; at++) {
        const struct lane *lane = table_at(&check->scheduler->lanes, heap->lanes[at]);
        check_that(check, lane->at[kind] == at + 1, "a lane does not know its place in the heap", lane->entry.key);
        check_that(check, lane->demand == demand->entry.self, "a lane is in another demand's heap", lane->entry.key);
        if (at > 0) {
            const struct lane *parent = table_at(&check->scheduler->lanes, heap->lanes[(at - 1) / 2]);
            check_that(check, !lane_goes_before(lane, parent), "a heap is out of order", lane->entry.key);
        }
    }
}

/* Bounds, order, and no head behind the position. */
static void check_window(struct check *check, const struct lane *lane)
{
    int64_t key = lane->entry.key;
    check_that(check, lane->first + lane->count <= lane->capacity, "a window exceeds its memory", key);
    check_that(check, (lane->heads == NULL) == (lane->capacity == 0), "a window's memory is not its capacity", key);
    for (uint32_t i = 0; i < lane->count; i++) {
        const struct schedule_head *head = &lane->heads[lane->first + i];
        check_that(check, i == 0 || head_compare(head - 1, head) < 0, "a window is out of order", key);
        check_that(check, head_compare(head, &lane->position) <= 0, "a head lies behind the position", key);
    }
}

/* The decision of lane_place(), stated a second time. */
static void check_place(struct check *check, const struct lane *lane)
{
    int64_t key = lane->entry.key;
    const struct workspace *workspace = lane_workspace(check->scheduler, lane);
    bool has_items = lane->count > 0 || !lane->is_all;
    bool is_free = workspace->exists && !workspace->paused && workspace->cap.held < workspace->cap.max;
    bool serves = workspace->known && is_free && !lane->rests && lane->count > 0;
    bool low = !lane->is_all && 2 * lane->count < lane->read_size;
    bool reads = !lane->is_being_read && !lane->rests && (workspace->known ? is_free && low : has_items);
    check_that(check, serves == (lane->at[HEAP_SERVE] != 0), "a lane is wrongly in or out of the heap of turns", key);
    check_that(check, reads == (lane->at[HEAP_READ] != 0), "a lane is wrongly in or out of the heap of reads", key);
    enum lane_list list = LANE_IN_NO_LIST;
    if (workspace->known && !workspace->exists && has_items) {
        list = LANE_ORPHANED;
        check_that(check, lane->count == 0, "a lane without workspace has a window", key);
    } else if (lane->waits_retry) {
        list = LANE_RETRIES;
    } else if (!has_items && !lane->is_being_read && lane->in_flight == 0) {
        list = LANE_IDLE;
    }
    check_that(check, lane->list == list, "a lane is in the wrong list", key);
    check_that(check, !lane->rests || lane->waits_retry, "a lane rests without end", key);
}

static void check_lanes(struct check *check)
{
    const struct scheduler *scheduler = check->scheduler;
    size_t heads = 0;
    size_t changed = 0;
    for (const struct lane *lane = table_from(&scheduler->lanes, 1); lane != NULL;
         lane = table_from(&scheduler->lanes, lane->entry.self + 1)) {
        const struct demand *demand = lane_demand_of(scheduler, lane);
        const struct workspace *workspace = lane_workspace(scheduler, lane);
        check_that(check,
                   demand->entry.key == lane->entry.key >> LANE_DEMAND_BIT &&
                       workspace->entry.key == lane_workspace_id(lane->entry.key),
                   "a lane's parts", lane->entry.key);
        check_window(check, lane);
        check_place(check, lane);
        heads += lane->count;
        changed += lane->pass_changed ? 1 : 0;
    }
    check_that(check, heads == scheduler->heads, "the sum of the heads is wrong", (int64_t)scheduler->heads);
    /* The lane that was read last keeps its heads, and a set that was undone brings its own back. */
    check_that(check, heads <= scheduler->heads_most + SCHEDULER_LANE_HEADS_MOST, "too many heads", (int64_t)heads);
    for (uint32_t index = scheduler->changed.first; index != 0; changed--) {
        const struct lane *lane = table_at(&scheduler->lanes, index);
        check_that(check, lane->pass_changed, "a lane without change is in the list of changes", lane->entry.key);
        index = lane->changed.after;
    }
    check_that(check, changed == 0, "the list of changed passes is not complete", (int64_t)changed);
}

/* Each list is linked both ways, and its count is right. */
static void check_lists(struct check *check)
{
    const struct scheduler *scheduler = check->scheduler;
    for (int list = LANE_IN_NO_LIST + 1; list < LANE_LISTS; list++) {
        size_t count = 0;
        uint32_t before = 0;
        for (uint32_t index = scheduler->lists[list].first; index != 0; count++) {
            const struct lane *lane = table_at(&scheduler->lanes, index);
            check_that(check, lane->list == list && lane->in_list.before == before, "a list is broken", lane->entry.key);
            before = index;
            index = lane->in_list.after;
        }
        check_that(check, count == scheduler->list_counts[list] && scheduler->lists[list].last == before, "a list's count",
                   list);
    }
}

static size_t check_waiting(struct check *check, const struct list *list, int64_t least, int64_t most)
{
    size_t count = 0;
    for (uint32_t index = list->first; index != 0; count++) {
        const struct handed_item *item = table_at(&check->scheduler->handed_over, index);
        check_that(check, item->state == HANDED_WAITS, "an item that does not wait is in the list", item->lane_id);
        check_that(check, item->suspicion >= least && item->suspicion <= most, "an item waits in the wrong list",
                   item->lane_id);
        index = item->link.after;
    }
    return count;
}

/* The queues of one pool, each for one target; returns the number of waiting items. */
static size_t check_handed_over(struct check *check, const struct pool *pool)
{
    size_t count = 0;
    const struct scheduler *scheduler = check->scheduler;
    for (uint32_t at = pool->handed_queues.first; at != 0;) {
        const struct handed_queue *queue = table_at(&scheduler->handed_queues, at);
        uint64_t order = 0;
        check_that(check, queue->pool == pool->entry.self, "a queue is in another pool's list", pool->entry.key);
        for (uint32_t index = queue->items.first; index != 0;) {
            const struct handed_item *item = table_at(&scheduler->handed_over, index);
            check_that(check, item->queue == at, "an item is in another target's queue", item->lane_id);
            check_that(check, item->order > order, "handed-over items are out of order", item->lane_id);
            order = item->order;
            index = item->link.after;
        }
        count += check_waiting(check, &queue->items, 0, SUSPICION_LIMITED - 1);
        at = queue->of_pool.after;
    }
    return count;
}

/* Each demand is in the share whose nodes can serve it; returns the number of their lanes. */
static size_t check_demands(struct check *check, const struct pool *pool)
{
    const struct scheduler *scheduler = check->scheduler;
    size_t lanes = 0;
    for (const struct demand *demand = next_demand(scheduler, pool->demands.first); demand != NULL;
         demand = next_demand(scheduler, demand->of_pool.after)) {
        const struct share *share = table_at(&scheduler->shares, demand->share);
        check_heap(check, demand, HEAP_SERVE);
        check_heap(check, demand, HEAP_READ);
        check_that(check, demand->pool == pool->entry.self && share->pool == demand->pool, "a demand is in another pool",
                   demand->entry.key);
        lanes += demand->lane_count;
    }
    for (const struct share *share = next_share(scheduler, pool->shares.first); share != NULL;
         share = next_share(scheduler, share->of_pool.after)) {
        check_that(check, share->demands.first != 0, "a share without demands is not removed", share->entry.key);
        for (const struct demand *demand = next_demand(scheduler, share->demands.first); demand != NULL;
             demand = next_demand(scheduler, demand->of_share.after)) {
            check_that(check, demand->share == share->entry.self, "a demand is in another share's list", demand->entry.key);
        }
    }
    return lanes;
}

static void check_pools(struct check *check)
{
    const struct scheduler *scheduler = check->scheduler;
    size_t lanes = 0;
    size_t waiting = 0;
    for (size_t i = 0; i < scheduler->pools.count; i++) {
        const struct pool *pool = table_at(&scheduler->pools, scheduler->pool_order[i]);
        lanes += check_demands(check, pool);
        if (i > 0) {
            const struct pool *before = table_at(&scheduler->pools, scheduler->pool_order[i - 1]);
            check_that(check, before->entry.key < pool->entry.key, "pools are out of order", pool->entry.key);
        }
        for (uint32_t index = pool->nodes.first; index != 0;) {
            const struct node *node = table_at(&scheduler->nodes, index);
            check_that(check, node->pool == pool->entry.self, "a node is in another pool's list", node->entry.key);
            index = node->of_pool.after;
        }
        waiting += check_handed_over(check, pool);
        waiting += check_waiting(check, &pool->suspects, SUSPICION_LIMITED, SUSPICION_QUARANTINE - 1);
        waiting += check_waiting(check, &pool->quarantined, SUSPICION_QUARANTINE, INT64_MAX);
    }
    for (const struct handed_item *item = table_from(&scheduler->handed_over, 1); item != NULL;
         item = table_from(&scheduler->handed_over, item->entry.self + 1)) {
        waiting -= item->state == HANDED_WAITS ? 1U : 0U;
        check_that(check, item->state != HANDED_TRIED || item->node_id != 0, "a suspect is tried on no node",
                   item->lane_id);
    }
    check_that(check, waiting == 0, "an item that waits is in no list", (int64_t)waiting);
    check_that(check, lanes == scheduler->lanes.count, "the lanes of the pools are not all lanes", (int64_t)lanes);
}

/* The lanes of a workspace in one share have one pass, except while FACT_PASS is being learnt. */
static void check_passes(struct check *check, const struct workspace *workspace)
{
    const struct scheduler *scheduler = check->scheduler;
    for (uint32_t index = scheduler->passes_loaded ? 0 : workspace->lanes.first; index != 0;) {
        const struct lane *lane = table_at(&scheduler->lanes, index);
        index = lane->of_workspace.after;
        for (uint32_t at = index; at != 0;) {
            const struct lane *other = table_at(&scheduler->lanes, at);
            check_that(check, lane_share(scheduler, lane) != lane_share(scheduler, other) || lane->pass == other->pass,
                       "lanes of a workspace have different passes in a share", workspace->entry.key);
            at = other->of_workspace.after;
        }
    }
}

/* Held slots of workspaces and nodes, against the sums. */
static void check_counts(struct check *check)
{
    const struct scheduler *scheduler = check->scheduler;
    size_t lanes = 0;
    int64_t held = 0;
    for (const struct workspace *workspace = table_from(&scheduler->workspaces, 1); workspace != NULL;
         workspace = table_from(&scheduler->workspaces, workspace->entry.self + 1)) {
        int64_t key = workspace->entry.key;
        int64_t in_flight = 0;
        held += workspace->cap.held;
        check_passes(check, workspace);
        for (uint32_t index = workspace->lanes.first; index != 0; lanes++) {
            const struct lane *lane = table_at(&scheduler->lanes, index);
            in_flight += lane->in_flight;
            index = lane->of_workspace.after;
        }
        check_that(check, workspace->weight > 0, "a weight is not positive", key);
        check_that(check, workspace->cap.held >= in_flight, "a workspace holds less than what was assigned", key);
        check_that(check, workspace->cap.held > 0 || workspace->lanes.first != 0, "a workspace is not forgotten", key);
    }
    check_that(check, held == scheduler->held, "the sum of held slots is wrong", held);
    check_that(check, lanes == scheduler->lanes.count, "the lanes of the workspaces are not all lanes", (int64_t)lanes);
    for (const struct node *node = table_from(&scheduler->nodes, 1); node != NULL;
         node = table_from(&scheduler->nodes, node->entry.self + 1)) {
        check_that(check, node->held >= 0, "a node holds less than nothing", node->entry.key);
        check_that(check, node->pool != 0 || !node->accepts, "a node without pool accepts", node->entry.key);
        check_that(check, node->pool != 0 || node->held > 0, "a node is not forgotten", node->entry.key);
    }
}

bool scheduler_is_consistent(const struct scheduler *scheduler, char *message, size_t size)
{
    INVARIANT(scheduler != NULL && (message != NULL || size == 0));
    struct check check = {.scheduler = scheduler, .message = message, .size = size};
    if (size > 0) {
        message[0] = '\0';
    }
    check_lanes(&check);
    check_lists(&check);
    check_pools(&check);
    check_counts(&check);
    return !check.is_broken;
}
