/* The scheduler's decisions: which item starts next and on which node, which heads to read next, and the meaning of an
 * outcome. The dispatch thread of the node with the role calls it (dispatch/scheduling.c); one thread at a time.
 *
 * One round of the caller:
 *
 *   1. scheduler_assign() gives free slots to known items, and the items to nodes with free capacity.
 *   2. scheduler_request_reads() names the lanes without their next heads.
 *   3. The store records the assignments and answers the reads in one transaction.
 *   4. scheduler_settle() for each assignment, then scheduler_take_heads() for each answer, then scheduler_learn() for each
 *      fact. A settled set leaves memory as the rows are in the snapshot of the transaction. The reads add the items of
 *      that snapshot. A fact may only withdraw an assumption of the reads, so it comes last.
 *
 * How scheduler_assign() finds the assignments:
 *
 *   1. Locked items count as not read, or wait again, when their delay is over. So a locked row delays its item, never
 *      loses it.
 *   2. The capacity of the own node is set from its engine, because the row of the node is older.
 *   3. suspects_count() counts the trials of each node, on which the choice of nodes depends.
 *   4. In each pool suspects are assigned first, and nodes for items in quarantine are closed (suspects_place()). The other
 *      handed-over items follow. All of them hold their slots already, so no limit and no pause stops them. A slot
 *      that waits for a node is lost for its workspace.
 *   5. Then the shares take turns, one item each, until the set is full or no share has both a lane and a node. Shares have
 *      the slots of workspaces in common: one item each keeps the first share from taking all slots.
 *   6. The lane at the top of HEAP_SERVE has the turn, of all demands of the share: the smallest pass (stride scheduling:
 * Waldspurger and Weihl, 1995). lane_place() keeps a lane out of this heap while its workspace is unknown, paused or full.
 *   7. choose_node() takes the own node while it has free capacity, else the node with the most. A quarter of the capacity
 *      of a node goes to it in a row, because each node that gets any item is woken.
 *   8. take_turn() takes the slot in memory before the assignment is sent, so memory never holds less than the store.
 *      It adds STRIDE_ONE / weight to the pass of the lane. When the workspace is full then, its lanes leave the heaps.
 *
 *   lane heaps (pass, lane_id)        nodes with the handlers              set
 *     [7 w3][9 w1][9 w8] ...   --->   own: 4 free   b: 9 free     --->    item of w3, own node
 *
 * Facts that change the books: scheduler_facts.c. Where a lane waits: scheduler_lanes.c. Order: scheduler_heap.c.
 * Handlers: scheduler_demands.c. Suspects: scheduler_suspects.c. At a takeover the caller clears the memory, takes a new
 * epoch and learns all facts from one snapshot. Slots that the former scheduler took are held rows then, so they arrive as
 * FACT_HELD.
 *
 * Nothing here may hand out a slot that a limit does not have, or return one without proof that its row is not held.
 */
#include "queue/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "queue/scheduler_internal.h"
#include "queue/suspicion.h"

/* All objects of the scheduler live in these tables; `bytes` counts their memory. */
static void init_tables(struct scheduler *scheduler)
{
    table_init(&scheduler->lanes, sizeof(struct lane), &scheduler->bytes);
    table_init(&scheduler->workspaces, sizeof(struct workspace), &scheduler->bytes);
    table_init(&scheduler->pools, sizeof(struct pool), &scheduler->bytes);
    table_init(&scheduler->shares, sizeof(struct share), &scheduler->bytes);
    table_init(&scheduler->demands, sizeof(struct demand), &scheduler->bytes);
    table_init(&scheduler->nodes, sizeof(struct node), &scheduler->bytes);
    table_init(&scheduler->handed_queues, sizeof(struct handed_queue), &scheduler->bytes);
    table_init(&scheduler->handed_over, sizeof(struct handed_item), &scheduler->bytes);
}

enum weir_status scheduler_open(struct scheduler **ret_scheduler)
{
    INVARIANT(ret_scheduler != NULL);
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (scheduler == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    scheduler->heads_most = SCHEDULER_HEADS_MOST;
    scheduler->suspects_next_us = TIME_NEVER;
    scheduler->suspects_read_us = TIME_NEVER;
    scheduler->bytes = sizeof *scheduler;
    init_tables(scheduler);
    *ret_scheduler = scheduler;
    return WEIR_OK;
}

/* Frees windows and heaps, which the tables do not own, then the tables. */
static void free_objects(struct scheduler *scheduler)
{
    for (struct lane *lane = table_from(&scheduler->lanes, 1); lane != NULL;
         lane = table_from(&scheduler->lanes, lane->entry.self + 1)) {
        free(lane->heads);
    }
    for (struct demand *demand = table_from(&scheduler->demands, 1); demand != NULL;
         demand = table_from(&scheduler->demands, demand->entry.self + 1)) {
        free(demand->heaps[HEAP_SERVE].lanes);
        free(demand->heaps[HEAP_READ].lanes);
    }
    for (struct node *node = table_from(&scheduler->nodes, 1); node != NULL;
         node = table_from(&scheduler->nodes, node->entry.self + 1)) {
        free(node->handler_sets);
    }
    free(scheduler->pool_order);
    table_clear(&scheduler->lanes);
    table_clear(&scheduler->workspaces);
    table_clear(&scheduler->pools);
    table_clear(&scheduler->shares);
    table_clear(&scheduler->demands);
    table_clear(&scheduler->nodes);
    table_clear(&scheduler->handed_queues);
    table_clear(&scheduler->handed_over);
}

void scheduler_close(struct scheduler *scheduler)
{
    if (scheduler != NULL) {
        free_objects(scheduler);
        free(scheduler);
    }
}

void scheduler_clear(struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    size_t heads_most = scheduler->heads_most;
    free_objects(scheduler);
    *scheduler = (struct scheduler){.heads_most = heads_most,
                                    .suspects_next_us = TIME_NEVER,
                                    .suspects_read_us = TIME_NEVER,
                                    .bytes = sizeof *scheduler};
    init_tables(scheduler);
}

/* --- nodes --- */

/* The own node while it has free capacity, because no other node has to be woken. Else the node with the most; a tie goes
 * to the smaller id. None while the item waits for the own node. Linear in the nodes of the pool, which are few. */
struct node *best_node(const struct scheduler *scheduler, const struct pool *pool, struct need need)
{
    INVARIANT(scheduler != NULL && pool != NULL);
    struct node *best = NULL;
    for (struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        int64_t free_capacity = node_free_capacity(node);
        bool is_own = node->entry.key == scheduler->own_node_id;
        if (is_own && free_capacity == 0 && scheduler->keeps_for_own && node_is_open(node) && node_fits(node, need)) {
            return NULL;
        }
        if (free_capacity == 0 || !node_fits(node, need)) {
            continue;
        }
        if (is_own) {
            return node;
        }
        if (best == NULL || free_capacity > node_free_capacity(best) ||
            (free_capacity == node_free_capacity(best) && node->entry.key < best->entry.key)) {
            best = node;
        }
    }
    return best;
}

void scheduler_keep_for_own(struct scheduler *scheduler, bool keeps)
{
    INVARIANT(scheduler != NULL);
    scheduler->keeps_for_own = keeps;
}

/* A node gets a chunk of items in a row. Each node that gets any item is woken, reads its inbox and records its ends in
 * transactions of its own, so fewer nodes cost less. The chunk ends when it is used up, or when its node is full or does
 * not fit the need; then best_node() chooses the next one. A chunk ends with its call of scheduler_assign(). */
static struct node *choose_node(const struct scheduler *scheduler, struct demand *demand, struct need need)
{
    bool has_chunk = demand->chunk_left > 0 && demand->chunk_call == scheduler->call;
    struct node *node = has_chunk ? table_find(&scheduler->nodes, demand->chunk_node_id) : NULL;
    if (node == NULL || node_free_capacity(node) == 0 || !node_fits(node, need)) {
        node = best_node(scheduler, table_at(&scheduler->pools, demand->pool), need);
        if (node == NULL) {
            return NULL;
        }
        demand->chunk_call = scheduler->call;
        demand->chunk_node_id = node->entry.key;
        demand->chunk_left = node->capacity < NODE_CHUNK_PART ? 1 : node->capacity / NODE_CHUNK_PART;
    }
    demand->chunk_left--;
    return node;
}

/* The capacity of the own node follows its engine: the items that it holds, and the starts that the engine accepts now.
 * When another node becomes the own one, the former gets back the capacity of its row. */
static void set_own_node(struct scheduler *scheduler, int64_t own_node_id, size_t own_free_capacity)
{
    struct node *node = table_find(&scheduler->nodes, scheduler->own_node_id);
    if (node != NULL && scheduler->own_node_id != own_node_id) {
        node->capacity = node->row_capacity;
    }
    scheduler->own_node_id = own_node_id;
    node = own_node_id == 0 ? NULL : table_find(&scheduler->nodes, own_node_id);
    if (node != NULL) {
        int64_t free_capacity = own_free_capacity > INT32_MAX ? INT32_MAX : (int64_t)own_free_capacity;
        node->capacity = node->held + free_capacity;
    }
}

/* --- handed-over items --- */

int64_t handed_key(const uint8_t *id)
{
    uint64_t halves[2];
    memcpy(halves, id, sizeof halves);
    return (int64_t)(halves[0] ^ halves[1]);
}

struct handed_item *handed_find(const struct scheduler *scheduler, const uint8_t *id)
{
    struct handed_item *item = table_find(&scheduler->handed_over, handed_key(id));
    while (item != NULL && memcmp(item->id, id, sizeof item->id) != 0) {
        item = table_find_next(&scheduler->handed_over, item);
    }
    return item;
}

static const size_t handed_link = offsetof(struct handed_item, link);

struct handed_queue *handed_queue_get(struct scheduler *scheduler, int64_t lane_id, int64_t target_id)
{
    const struct demand *demand = demand_get(scheduler, lane_id);
    if (demand == NULL) {
        return NULL;
    }
    int64_t key = (int64_t)((uint64_t)demand->entry.key << LANE_DEMAND_BIT | (uint64_t)target_id);
    struct handed_queue *queue = table_find(&scheduler->handed_queues, key);
    if (queue == NULL) {
        queue = table_add(&scheduler->handed_queues, key);
        if (queue != NULL) {
            struct pool *pool = table_at(&scheduler->pools, demand->pool);
            queue->pool = demand->pool;
            queue->demand = demand->entry.self;
            queue->need = (struct need){.target_id = target_id, .handler_set = demand->handler_set};
            list_append(&scheduler->handed_queues, &pool->handed_queues, offsetof(struct handed_queue, of_pool),
                        queue->entry.self);
        }
    }
    return queue;
}

void handed_append(struct scheduler *scheduler, struct handed_item *item)
{
    item->state = HANDED_WAITS;
    item->order = ++scheduler->handed_order;
    list_append(&scheduler->handed_over, handed_list(scheduler, item), handed_link, item->entry.self);
}

/* The item that has waited longest among those for which a node has free capacity, or NULL. Only the first item of each
 * queue can be it, so the cost is the number of demands and targets. */
static struct handed_item *next_handed_over(const struct scheduler *scheduler, const struct pool *pool)
{
    struct handed_item *best = NULL;
    for (uint32_t index = pool->handed_queues.first; index != 0;) {
        const struct handed_queue *queue = table_at(&scheduler->handed_queues, index);
        struct handed_item *item = queue->items.first == 0 ? NULL : table_at(&scheduler->handed_over, queue->items.first);
        if (item != NULL && (best == NULL || item->order < best->order) &&
            best_node(scheduler, pool, queue->need) != NULL) {
            best = item;
        }
        index = queue->of_pool.after;
    }
    return best;
}

/* Handed-over items without a limit, in the order in which they began to wait. They take no slot. */
static size_t assign_handed_over(struct scheduler *scheduler, struct pool *pool, struct assignment *assignments,
                                 size_t limit)
{
    size_t count = 0;
    while (count < limit) {
        struct handed_item *item = next_handed_over(scheduler, pool);
        if (item == NULL) {
            break;
        }
        struct handed_queue *queue = table_at(&scheduler->handed_queues, item->queue);
        struct node *node = choose_node(scheduler, next_demand(scheduler, queue->demand), queue->need);
        INVARIANT(node != NULL && node_fits(node, queue->need));
        handed_assign(scheduler, item, node, &assignments[count++]);
    }
    return count;
}

/* TAKEN: the node has it; a suspect stays on record as tried. GONE: it ended. LOCKED: it waits for its retry. NO_NODE and
 * UNDONE: it is the first of its list again, so no later item overtakes it. */
static void settle_handed_over(struct scheduler *scheduler, int64_t now_us, const struct assignment *assignment)
{
    struct handed_item *item = handed_find(scheduler, assignment->id);
    INVARIANT(item != NULL && item->state == HANDED_ASSIGNED);
    struct node *node = table_find(&scheduler->nodes, assignment->node_id);
    switch (assignment->outcome) {
    case ASSIGNMENT_TAKEN:
        if (item->suspicion >= SUSPICION_LIMITED) {
            item->state = HANDED_TRIED;
            item->since_us = now_us;
            list_append(&scheduler->handed_over, &scheduler->tried, handed_link, item->entry.self);
            break;
        }
        table_remove(&scheduler->handed_over, item);
        break;
    case ASSIGNMENT_GONE:
        table_remove(&scheduler->handed_over, item);
        break;
    case ASSIGNMENT_LOCKED:
        item->state = HANDED_LOCKED;
        item->retry_us = time_add(now_us, LOCKED_RETRY_US);
        list_append(&scheduler->handed_over, &scheduler->handed_retries, handed_link, item->entry.self);
        break;
    case ASSIGNMENT_NO_NODE:
    case ASSIGNMENT_BEHIND:
    case ASSIGNMENT_UNDONE:
        item->state = HANDED_WAITS;
        if (node != NULL && item->suspicion >= SUSPICION_QUARANTINE) {
            node->quarantine.is_used = false;
        }
        list_put_first(&scheduler->handed_over, handed_list(scheduler, item), handed_link, item->entry.self);
        break;
    }
}

/* --- retries --- */

static int64_t lane_retry_us(const struct scheduler *scheduler)
{
    uint32_t first = scheduler->lists[LANE_RETRIES].first;
    return first == 0 ? TIME_NEVER : ((const struct lane *)table_at(&scheduler->lanes, first))->retry_us;
}

static int64_t handed_retry_us(const struct scheduler *scheduler)
{
    uint32_t first = scheduler->handed_retries.first;
    return first == 0 ? TIME_NEVER : ((const struct handed_item *)table_at(&scheduler->handed_over, first))->retry_us;
}

/* After their delay, locked items count as not read (lane) or wait again (handed over). Both lists are in the order of
 * their times, so the loops end at the first one that is not due. */
static void retry_locked(struct scheduler *scheduler, int64_t now_us)
{
    while (lane_retry_us(scheduler) <= now_us) {
        struct lane *lane = table_at(&scheduler->lanes, scheduler->lists[LANE_RETRIES].first);
        INVARIANT(lane->waits_retry);
        struct schedule_head position = position_before_rank(lane->locked_rank);
        lane->waits_retry = false;
        lane->rests = false;
        lane->locked_run = 0;
        lane_unread(scheduler, lane, &position);
        lane_place(scheduler, lane);
    }
    while (handed_retry_us(scheduler) <= now_us) {
        struct handed_item *item = table_at(&scheduler->handed_over, scheduler->handed_retries.first);
        INVARIANT(item->state == HANDED_LOCKED);
        list_remove(&scheduler->handed_over, &scheduler->handed_retries, handed_link, item->entry.self);
        handed_append(scheduler, item);
        scheduler->suspects_changed = true;
    }
}

/* The lane is read again from the least locked rank on, after LOCKED_RETRY_US. A long run of locked items makes the lane
 * rest until then: each of them costs a turn and a wait for the lock. */
static void delay_locked_item(struct lane *lane, int64_t now_us, int64_t rank)
{
    if (!lane->waits_retry) {
        lane->waits_retry = true;
        lane->retry_us = time_add(now_us, LOCKED_RETRY_US);
        lane->locked_rank = rank;
    }
    lane->locked_rank = rank < lane->locked_rank ? rank : lane->locked_rank;
    lane->locked_run++;
    if (lane->locked_run >= LANE_LOCKED_RUN_MOST) {
        lane->locked_run = 0;
        lane->rests = true;
    }
}

/* --- wants --- */

static struct pool *pool_in_order(const struct scheduler *scheduler, size_t at)
{
    return table_at(&scheduler->pools, scheduler->pool_order[at % scheduler->pools.count]);
}

/* The lane of the demand to read next, or NULL. With free capacity it is the first lane of HEAP_READ. While all nodes are
 * full, a lane is read only if it has the next turn, or if a served turn has earned a read ahead. So windows are filled
 * while nodes are busy, and 100,000 lanes are not read in advance. */
static struct lane *lane_to_read(const struct scheduler *scheduler, const struct share *share, const struct demand *demand,
                                 bool *ret_is_ahead)
{
    struct lane *lane = heap_top(scheduler, demand, HEAP_READ);
    *ret_is_ahead = false;
    if (lane == NULL || !demand_has_node(scheduler, demand, true)) {
        return NULL;
    }
    const struct lane *served = heap_top(scheduler, demand, HEAP_SERVE);
    if (served == NULL || served == lane || lane_goes_before(lane, served) || demand_has_node(scheduler, demand, false)) {
        return lane;
    }
    *ret_is_ahead = true;
    return share->read_ahead > 0 ? lane : NULL;
}

/* Fills one request: as many heads as the lane reads at a time and its window can take. A lane with a filled window is
 * read for its limits only. */
static void request_heads(struct scheduler *scheduler, struct lane *lane, struct lane_read *read)
{
    size_t places = (size_t)(SCHEDULER_LANE_HEADS_MOST - lane->count);
    size_t most = lane->read_size < places ? lane->read_size : places;
    if (lane->list == LANE_ORPHANED || most == 0) {
        most = 1; /* the read shows whether an item exists, and the limits */
    } else if (!lane_is_low(lane) && most > LANE_READ_LEAST) {
        most = LANE_READ_LEAST; /* only the limits matter */
    }
    *read = (struct lane_read){.lane_id = lane->entry.key, .after_rank = lane->position.rank, .most = most};
    memcpy(read->after_id, lane->position.id, sizeof read->after_id);
    lane->is_being_read = true;
    lane_place(scheduler, lane);
}

/* Lanes of workspaces that do not exist are read until they are empty. Each request moves its lane to the end of the list,
 * so every lane is requested in time. */
static size_t request_orphans(struct scheduler *scheduler, struct lane_read *reads, size_t most)
{
    struct list *list = &scheduler->lists[LANE_ORPHANED];
    size_t in_list = scheduler->list_counts[LANE_ORPHANED];
    most = most < ORPHAN_READS_MOST ? most : ORPHAN_READS_MOST;
    size_t count = 0;
    for (size_t i = 0; i < in_list && count < most; i++) {
        struct lane *lane = table_at(&scheduler->lanes, list->first);
        list_remove(&scheduler->lanes, list, offsetof(struct lane, in_list), lane->entry.self);
        list_append(&scheduler->lanes, list, offsetof(struct lane, in_list), lane->entry.self);
        if (!lane->is_being_read) {
            request_heads(scheduler, lane, &reads[count++]);
        }
    }
    return count;
}

/* At most one lane of each demand. A demand with a request moves to the end, so that the first ones do not use up all
 * requests. */
static size_t request_of_pool(struct scheduler *scheduler, struct pool *pool, struct lane_read *reads, size_t most)
{
    size_t count = 0;
    if (!pool_runs(scheduler, pool)) {
        return 0;
    }
    const uint32_t last = pool->demands.last;
    bool goes_on = last != 0;
    for (uint32_t index = pool->demands.first; goes_on && count < most;) {
        struct demand *demand = table_at(&scheduler->demands, index);
        struct share *share = table_at(&scheduler->shares, demand->share);
        goes_on = index != last;
        index = demand->of_pool.after;
        bool is_ahead = false;
        struct lane *lane = lane_to_read(scheduler, share, demand, &is_ahead);
        if (lane != NULL) {
            share->read_ahead -= is_ahead ? 1 : 0;
            request_heads(scheduler, lane, &reads[count++]);
            list_remove(&scheduler->demands, &pool->demands, offsetof(struct demand, of_pool), demand->entry.self);
            list_append(&scheduler->demands, &pool->demands, offsetof(struct demand, of_pool), demand->entry.self);
        }
    }
    return count;
}

size_t scheduler_request_reads(struct scheduler *scheduler, int64_t now_us, struct lane_read *reads, size_t most)
{
    INVARIANT(scheduler != NULL && (reads != NULL || most == 0));
    scheduler->now_us = now_us;
    retry_locked(scheduler, now_us);
    if (scheduler->suspects_next_us <= now_us) {
        scheduler->suspects_next_us = TIME_NEVER; /* the next scheduler_assign() decides again */
        scheduler->suspects_changed = true;
    }
    passes_settle(scheduler);
    lanes_forget_idle(scheduler);
    size_t count = request_orphans(scheduler, reads, most);
    for (size_t before = SIZE_MAX; count < most && count != before;) {
        before = count;
        for (size_t i = 0; i < scheduler->pools.count; i++) {
            count += request_of_pool(scheduler, pool_in_order(scheduler, scheduler->call + i), reads + count, most - count);
        }
    }
    return count;
}

/* --- assign --- */

/* Since when nothing but the dispatch holds back the items of the lane. */
static void note_opening(const struct scheduler *scheduler, const struct lane *lane, struct assignment *assignment)
{
    const struct workspace *workspace = lane_workspace(scheduler, lane);
    const struct pool *pool = table_at(&scheduler->pools, lane_demand_of(scheduler, lane)->pool);
    int64_t resumed_us = scheduler->resumed_us > pool->resumed_us ? scheduler->resumed_us : pool->resumed_us;
    assignment->slot_since_us = workspace->slot_since_us;
    assignment->resumed_us = resumed_us > workspace->resumed_us ? resumed_us : workspace->resumed_us;
}

/* One turn of a lane (steps 6 to 8 of the overview): its first head goes to the node, each of its limits loses a slot, and
 * its pass grows. The pass of the share is the highest pass served: a lane that comes back starts there. Each turn earns
 * the share a read ahead. */
static void take_turn(struct scheduler *scheduler, struct lane *lane, struct node *node, struct assignment *assignment)
{
    INVARIANT(lane->active && lane->count > 0 && node_free_capacity(node) > 0);
    struct item_limits limits = item_limits_of(scheduler, lane);
    struct share *share = lane_share(scheduler, lane);
    const struct schedule_head *head = &lane->heads[lane->first];
    *assignment = (struct assignment){.rank = head->rank, .lane_id = lane->entry.key, .node_id = node->entry.key};
    note_opening(scheduler, lane, assignment);
    memcpy(assignment->id, head->id, sizeof assignment->id);
    lane->first++;
    lane->count--;
    scheduler->heads--;
    lane->in_flight++;
    limits_take(scheduler, &limits);
    node->held++;
    share->pass = share->pass < lane->pass ? lane->pass : share->pass;
    share->read_ahead += share->read_ahead < SCHEDULER_READS_MOST ? 1 : 0;
    lane_set_pass(scheduler, lane, lane->pass + lane_stride(scheduler, lane));
    if (lane->count == 0 && !lane->is_all) {
        lane_grow_reads(scheduler, lane);
    }
    if (limits_allow(&limits)) {
        lane_place(scheduler, lane);
    } else {
        assignment->others_wait = lane->count > 0 || !lane->is_all;
        workspace_place(scheduler, lane_workspace(scheduler, lane));
    }
}

/* One item of each share (step 5). A share that was served moves to the end. Else the first of two shares with a node
 * in common would get each place of that node, because places return one at a time. */
static size_t assign_of_pool(struct scheduler *scheduler, struct pool *pool, struct assignment *assignments, size_t limit)
{
    size_t count = 0;
    if (!pool_runs(scheduler, pool)) {
        return 0;
    }
    const uint32_t last = pool->shares.last;
    bool goes_on = last != 0;
    for (uint32_t index = pool->shares.first; goes_on && count < limit;) {
        const struct share *share = table_at(&scheduler->shares, index);
        goes_on = index != last;
        index = share->of_pool.after;
        struct lane *lane = share_top(scheduler, share);
        struct demand *demand = lane == NULL ? NULL : lane_demand_of(scheduler, lane);
        struct need need = {.handler_set = demand == NULL ? 0 : demand->handler_set};
        struct node *node = demand == NULL ? NULL : choose_node(scheduler, demand, need);
        if (node != NULL) {
            take_turn(scheduler, lane, node, &assignments[count++]);
            list_remove(&scheduler->shares, &pool->shares, offsetof(struct share, of_pool), share->entry.self);
            list_append(&scheduler->shares, &pool->shares, offsetof(struct share, of_pool), share->entry.self);
        }
    }
    return count;
}

size_t scheduler_assign(struct scheduler *scheduler, int64_t now_us, int64_t own_node_id, size_t own_free_capacity,
                        struct assignment *assignments, size_t limit)
{
    INVARIANT(scheduler != NULL && (assignments != NULL || limit == 0));
    size_t pools = scheduler->pools.count;
    size_t count = 0;
    scheduler->now_us = now_us;
    retry_locked(scheduler, now_us);
    passes_settle(scheduler);
    set_own_node(scheduler, own_node_id, own_free_capacity);
    suspects_count(scheduler, now_us);
    scheduler->call++;
    for (struct share *share = table_from(&scheduler->shares, 1); share != NULL;
         share = table_from(&scheduler->shares, share->entry.self + 1)) {
        share->pass_before = share->pass;
    }
    for (size_t i = 0; i < pools; i++) {
        struct pool *pool = pool_in_order(scheduler, scheduler->call + i);
        count += suspects_place(scheduler, pool, now_us, assignments + count, limit - count);
        count += assign_handed_over(scheduler, pool, assignments + count, limit - count);
    }
    for (size_t before = SIZE_MAX; count < limit && count != before;) {
        before = count;
        for (size_t i = 0; i < pools; i++) {
            count += assign_of_pool(scheduler, pool_in_order(scheduler, scheduler->call + i), assignments + count,
                                    limit - count);
        }
    }
    share_tops_return(scheduler);
    scheduler->suspects_changed = count == limit; /* a full set may have left suspects over */
    return count;
}

/* --- settle --- */

/* The item becomes the first head of the lane again. It counts as not read when the window has no free place in front, or
 * when a fact has lowered the position of the lane below the item. */
static void restore_head(struct scheduler *scheduler, struct lane *lane, const struct assignment *assignment)
{
    struct schedule_head head = {.rank = assignment->rank};
    memcpy(head.id, assignment->id, sizeof head.id);
    if (head_compare(&head, &lane->position) > 0) {
        lane->is_all = false; /* a fact lowered the position below it: it is read again */
        return;
    }
    bool is_first = lane->count == 0 || head_compare(&head, &lane->heads[lane->first]) < 0;
    if (lane->first > 0 && is_first) {
        lane->first--;
        lane->heads[lane->first] = head;
        lane->count++;
        scheduler->heads++;
    } else {
        struct schedule_head position = position_before(&head);
        lane_unread(scheduler, lane, &position);
    }
}

/* Undoes a turn: the lane gets back its pass, and the limits get back the slot. A workspace that was full is placed again
 * with all its lanes. Lanes of it in other shares come back at the pass of their share; this one keeps its own pass. */
static void return_turn(struct scheduler *scheduler, struct lane *lane)
{
    struct item_limits limits = item_limits_of(scheduler, lane);
    bool was_full = !limits_allow(&limits);
    limits_release(scheduler, &limits);
    int64_t pass = lane->pass - lane_stride(scheduler, lane);
    lane_set_pass(scheduler, lane, pass < 0 ? 0 : pass);
    lane->active = true;
    if (was_full) {
        workspace_place(scheduler, lane_workspace(scheduler, lane));
    }
}

/* The item of a lane. GONE and LOCKED return the slot. NO_NODE, BEHIND and UNDONE also restore the head, because the item
 * is still the first of its lane. UNDONE restores the pass of the share as well, as if the set had not been made. */
static void settle_lane(struct scheduler *scheduler, int64_t now_us, const struct assignment *assignment)
{
    struct lane *lane = table_find(&scheduler->lanes, assignment->lane_id);
    INVARIANT(lane != NULL && lane->in_flight > 0);
    lane->in_flight--;
    switch (assignment->outcome) {
    case ASSIGNMENT_TAKEN:
        lane->locked_run = 0;
        break;
    case ASSIGNMENT_GONE:
        return_turn(scheduler, lane);
        break;
    case ASSIGNMENT_LOCKED:
        delay_locked_item(lane, now_us, assignment->rank);
        return_turn(scheduler, lane);
        break;
    case ASSIGNMENT_NO_NODE:
    case ASSIGNMENT_BEHIND:
        restore_head(scheduler, lane, assignment);
        return_turn(scheduler, lane);
        break;
    case ASSIGNMENT_UNDONE:
        lane_share(scheduler, lane)->pass = lane_share(scheduler, lane)->pass_before;
        restore_head(scheduler, lane, assignment);
        return_turn(scheduler, lane);
        break;
    }
    if (lane->count == 0 && lane->in_flight == 0) {
        lane_free_window(scheduler, lane);
    }
    lane_place(scheduler, lane);
}

void scheduler_settle(struct scheduler *scheduler, int64_t now_us, const struct assignment *assignment)
{
    INVARIANT(scheduler != NULL && assignment != NULL);
    scheduler->suspects_changed = true;
    if (assignment->outcome != ASSIGNMENT_TAKEN) {
        struct node *node = table_find(&scheduler->nodes, assignment->node_id);
        INVARIANT(node != NULL && node->held > 0);
        node->held--;
        node->accepts = node->accepts && assignment->outcome != ASSIGNMENT_NO_NODE;
        node_forget_unused(scheduler, node);
    }
    if (assignment->handed_over) {
        settle_handed_over(scheduler, now_us, assignment);
    } else {
        settle_lane(scheduler, now_us, assignment);
    }
}

/* --- questions of the loop --- */

static bool demand_has_work(const struct scheduler *scheduler, const struct demand *demand)
{
    bool is_ahead = false;
    return (heap_top(scheduler, demand, HEAP_SERVE) != NULL && demand_has_node(scheduler, demand, false)) ||
           lane_to_read(scheduler, table_at(&scheduler->shares, demand->share), demand, &is_ahead) != NULL;
}

static bool pool_has_work(const struct scheduler *scheduler, const struct pool *pool)
{
    if (next_handed_over(scheduler, pool) != NULL) {
        return true;
    }
    const struct demand *demand = pool_runs(scheduler, pool) ? next_demand(scheduler, pool->demands.first) : NULL;
    while (demand != NULL && !demand_has_work(scheduler, demand)) {
        demand = next_demand(scheduler, demand->of_pool.after);
    }
    return demand != NULL;
}

bool scheduler_has_work(const struct scheduler *scheduler, int64_t now_us)
{
    INVARIANT(scheduler != NULL);
    if (scheduler_next_us(scheduler) <= now_us || scheduler->list_counts[LANE_ORPHANED] > 0 ||
        suspects_have_work(scheduler)) {
        return true;
    }
    for (size_t i = 0; i < scheduler->pools.count; i++) {
        if (pool_has_work(scheduler, pool_in_order(scheduler, i))) {
            return true;
        }
    }
    return false;
}

int64_t scheduler_next_us(const struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    int64_t lane_us = lane_retry_us(scheduler);
    int64_t handed_us = handed_retry_us(scheduler);
    int64_t next_us = lane_us < handed_us ? lane_us : handed_us;
    return next_us < scheduler->suspects_next_us ? next_us : scheduler->suspects_next_us;
}

unsigned scheduler_needs(const struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    return scheduler->suspects_are_old ? (unsigned)NEED_HANDED_OVER : 0U;
}

size_t scheduler_orphans(const struct scheduler *scheduler, int64_t *lane_ids, size_t most)
{
    INVARIANT(scheduler != NULL && (lane_ids != NULL || most == 0));
    size_t count = 0;
    uint32_t index = scheduler->lists[LANE_ORPHANED].first;
    while (index != 0 && count < most) {
        const struct lane *lane = table_at(&scheduler->lanes, index);
        lane_ids[count++] = lane->entry.key;
        index = lane->in_list.after;
    }
    return count;
}

size_t scheduler_take_passes(struct scheduler *scheduler, struct lane_pass *passes, size_t most)
{
    INVARIANT(scheduler != NULL && (passes != NULL || most == 0));
    size_t count = 0;
    while (count < most && scheduler->changed.first != 0) {
        struct lane *lane = table_at(&scheduler->lanes, scheduler->changed.first);
        list_remove(&scheduler->lanes, &scheduler->changed, offsetof(struct lane, changed), lane->entry.self);
        lane->pass_changed = false;
        passes[count++] = (struct lane_pass){.lane_id = lane->entry.key, .pass = lane->pass};
    }
    return count;
}

void scheduler_figures(const struct scheduler *scheduler, struct scheduler_figures *ret_figures)
{
    INVARIANT(scheduler != NULL && ret_figures != NULL);
    *ret_figures = (struct scheduler_figures){.lanes = scheduler->lanes.count,
                                              .heads = scheduler->heads,
                                              .nodes = scheduler->nodes.count,
                                              .held = scheduler->held,
                                              .bytes = scheduler->bytes};
}
