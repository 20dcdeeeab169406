/* Lanes of the scheduler: their windows, their limits, and where they wait. Called by the other files of the scheduler, in
 * the dispatch thread.
 *
 * The window of a lane is a part of its queue in the store, in the order (rank, id):
 *
 *    store:    a b c   d e f g   h i j ...        a b c  assigned, gone, or locked until their retry
 *                      ^-----^                    d..g   the window: heads[first .. first + count)
 *                            position             h...   not read; `is_all` = nothing is there
 *
 *    take a turn:   first + 1, count - 1
 *    read:          append behind the window, raise position
 *    new rank r:    position = right before r; heads behind it are dropped and read again with the new items
 *    new item x:    into the window, if x is not behind the position or nothing is there; else it is read later
 *
 * lane_place() derives from the state of a lane and its workspace in which heaps and lists the lane is:
 *
 *   items  workspace                       heaps              list
 *   none   any                             none               idle
 *   some   unknown                         read               -
 *   some   paused, or a limit is full      none               -
 *   some   free slot, head known           serve              -
 *   some   free slot, window low           read (and serve)   -
 *   maybe  does not exist                  none               orphaned
 *
 * The list of retries (items that another transaction had locked) is apart from this. A full workspace costs nothing: its
 * lanes are in no heap until a slot returns.
 *
 * Cost: lane_place() is O(log lanes of the demand); a change of limits places each lane of the workspace once. A window
 * costs 24 bytes for each head.
 *
 * Invariants: a window is ascending and no head lies behind the position; the sum of all windows is scheduler->heads.
 * Nothing here may lose an item: whenever a head is dropped, the position goes back to right before it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "queue/scheduler_internal.h"

int head_compare(const struct schedule_head *a, const struct schedule_head *b)
{
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return memcmp(a->id, b->id, sizeof a->id);
}

struct schedule_head position_before_rank(int64_t rank)
{
    return (struct schedule_head){.rank = rank}; /* no item has the id 0 */
}

struct schedule_head position_before(const struct schedule_head *item)
{
    struct schedule_head position = *item;
    for (size_t i = sizeof position.id; i-- > 0;) {
        if (position.id[i]-- != 0) {
            return position;
        }
    }
    return position_before_rank(item->rank);
}

/* --- objects --- */

struct workspace *lane_workspace(const struct scheduler *scheduler, const struct lane *lane)
{
    return table_at(&scheduler->workspaces, lane->workspace);
}

struct demand *lane_demand_of(const struct scheduler *scheduler, const struct lane *lane)
{
    return table_at(&scheduler->demands, lane->demand);
}

struct share *lane_share(const struct scheduler *scheduler, const struct lane *lane)
{
    return table_at(&scheduler->shares, lane_demand_of(scheduler, lane)->share);
}

/* Inserts a new pool into the order by id. Linear, because pools are few and never removed. */
static bool insert_pool_in_order(struct scheduler *scheduler, const struct pool *pool)
{
    size_t count = scheduler->pools.count - 1;
    if (count == scheduler->pool_order_capacity) {
        size_t capacity = count == 0 ? 4 : 2 * count;
        uint32_t *order = realloc(scheduler->pool_order, capacity * sizeof *order);
        if (order == NULL) {
            return false;
        }
        scheduler->bytes += (capacity - count) * sizeof *order;
        scheduler->pool_order = order;
        scheduler->pool_order_capacity = capacity;
    }
    size_t at = count;
    while (at > 0) {
        const struct pool *before = table_at(&scheduler->pools, scheduler->pool_order[at - 1]);
        if (before->entry.key < pool->entry.key) {
            break;
        }
        scheduler->pool_order[at] = scheduler->pool_order[at - 1];
        at--;
    }
    scheduler->pool_order[at] = pool->entry.self;
    return true;
}

struct pool *pool_get(struct scheduler *scheduler, int64_t pool_id)
{
    INVARIANT(pool_id > 0);
    struct pool *pool = table_find(&scheduler->pools, pool_id);
    if (pool != NULL) {
        return pool;
    }
    pool = table_add(&scheduler->pools, pool_id);
    if (pool != NULL && !insert_pool_in_order(scheduler, pool)) {
        table_remove(&scheduler->pools, pool);
        return NULL;
    }
    return pool;
}

struct workspace *workspace_get(struct scheduler *scheduler, int64_t workspace_id)
{
    INVARIANT(workspace_id > 0);
    struct workspace *workspace = table_find(&scheduler->workspaces, workspace_id);
    if (workspace == NULL) {
        workspace = table_add(&scheduler->workspaces, workspace_id);
        if (workspace != NULL) {
            workspace->weight = 1;
        }
    }
    return workspace;
}

/* The pass of the lanes of a workspace in a share; without a lane there it is the pass of the share. */
static int64_t pass_of_workspace(const struct scheduler *scheduler, const struct workspace *workspace,
                                 const struct share *share)
{
    for (uint32_t index = workspace->lanes.first; index != 0;) {
        const struct lane *lane = table_at(&scheduler->lanes, index);
        if (lane_share(scheduler, lane) == share) {
            return lane->pass;
        }
        index = lane->of_workspace.after;
    }
    return share->pass;
}

struct lane *lane_get(struct scheduler *scheduler, int64_t lane_id, bool *ret_is_new)
{
    INVARIANT(lane_pool_id(lane_id) > 0 && lane_workspace_id(lane_id) > 0);
    struct lane *lane = table_find(&scheduler->lanes, lane_id);
    *ret_is_new = lane == NULL;
    if (lane != NULL) {
        return lane;
    }
    struct demand *demand = demand_get(scheduler, lane_id);
    struct workspace *workspace = workspace_get(scheduler, lane_workspace_id(lane_id));
    if (demand == NULL || workspace == NULL || !heap_reserve(scheduler, demand, demand->lane_count + 1)) {
        return NULL;
    }
    lane = table_add(&scheduler->lanes, lane_id);
    if (lane == NULL) {
        return NULL;
    }
    lane->demand = demand->entry.self;
    lane->workspace = workspace->entry.self;
    lane->pass = pass_of_workspace(scheduler, workspace, lane_share(scheduler, lane));
    lane->position = position_before_rank(INT64_MIN);
    lane->is_all = true;
    lane->read_size = LANE_READ_LEAST;
    demand->lane_count++;
    list_append(&scheduler->lanes, &workspace->lanes, offsetof(struct lane, of_workspace), lane->entry.self);
    return lane;
}

void workspace_forget_unused(struct scheduler *scheduler, struct workspace *workspace)
{
    INVARIANT(workspace->cap.held >= 0);
    if (workspace->lanes.first == 0 && workspace->cap.held == 0) {
        table_remove(&scheduler->workspaces, workspace);
    }
}

void node_forget_unused(struct scheduler *scheduler, struct node *node)
{
    INVARIANT(node->held >= 0);
    if (node->pool == 0 && node->held == 0) {
        node_forget_handlers(scheduler, node);
        table_remove(&scheduler->nodes, node);
    }
}

/* Moves the lane to the list, or out of every list. The counts of the lists follow. */
static void set_list(struct scheduler *scheduler, struct lane *lane, enum lane_list list)
{
    if (lane->list == list) {
        return;
    }
    size_t offset = offsetof(struct lane, in_list);
    if (lane->list != LANE_IN_NO_LIST) {
        list_remove(&scheduler->lanes, &scheduler->lists[lane->list], offset, lane->entry.self);
        scheduler->list_counts[lane->list]--;
    }
    lane->list = (uint8_t)list;
    if (list != LANE_IN_NO_LIST) {
        list_append(&scheduler->lanes, &scheduler->lists[list], offset, lane->entry.self);
        scheduler->list_counts[list]++;
    }
}

/* Removes an idle lane with its window, and its workspace when nothing else refers to it. */
static void lane_forget(struct scheduler *scheduler, struct lane *lane)
{
    INVARIANT(lane->count == 0 && lane->in_flight == 0 && !lane->is_being_read && lane->list == LANE_IDLE);
    INVARIANT(lane->at[HEAP_SERVE] == 0 && lane->at[HEAP_READ] == 0);
    struct workspace *workspace = lane_workspace(scheduler, lane);
    set_list(scheduler, lane, LANE_IN_NO_LIST);
    if (lane->pass_changed) {
        list_remove(&scheduler->lanes, &scheduler->changed, offsetof(struct lane, changed), lane->entry.self);
    }
    lane_free_window(scheduler, lane);
    lane_demand_of(scheduler, lane)->lane_count--;
    list_remove(&scheduler->lanes, &workspace->lanes, offsetof(struct lane, of_workspace), lane->entry.self);
    table_remove(&scheduler->lanes, lane);
    workspace_forget_unused(scheduler, workspace);
}

/* A lane behind its share's pass would come back at that pass anyway, so nothing is lost with it. */
void lanes_forget_idle(struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    for (;;) {
        uint32_t first = scheduler->lists[LANE_IDLE].first;
        if (first == 0) {
            return;
        }
        struct lane *lane = table_at(&scheduler->lanes, first);
        if (lane->pass > lane_share(scheduler, lane)->pass && scheduler->list_counts[LANE_IDLE] <= IDLE_LANES_MOST) {
            return;
        }
        lane_forget(scheduler, lane);
    }
}

/* --- limits --- */

struct item_limits item_limits_of(const struct scheduler *scheduler, const struct lane *lane)
{
    return (struct item_limits){.limits = {&lane_workspace(scheduler, lane)->cap}, .count = 1};
}

bool limits_allow(const struct item_limits *limits)
{
    INVARIANT(limits->count <= ITEM_LIMITS_MOST);
    for (size_t i = 0; i < limits->count; i++) {
        if (limits->limits[i]->held >= limits->limits[i]->max) {
            return false;
        }
    }
    return true;
}

void limits_take(struct scheduler *scheduler, const struct item_limits *limits)
{
    INVARIANT(limits->count > 0 && limits->count <= ITEM_LIMITS_MOST);
    scheduler->held++;
    for (size_t i = 0; i < limits->count; i++) {
        INVARIANT(limits->limits[i]->held < limits->limits[i]->max);
        limits->limits[i]->held++;
    }
}

void limits_release(struct scheduler *scheduler, const struct item_limits *limits)
{
    INVARIANT(scheduler->held > 0 && limits->count <= ITEM_LIMITS_MOST);
    scheduler->held--;
    for (size_t i = 0; i < limits->count; i++) {
        INVARIANT(limits->limits[i]->held > 0);
        limits->limits[i]->held--;
    }
}

/* --- passes --- */

int64_t lane_stride(const struct scheduler *scheduler, const struct lane *lane)
{
    int32_t weight = lane_workspace(scheduler, lane)->weight;
    INVARIANT(weight > 0);
    return STRIDE_ONE / weight;
}

static void move_to_pass(struct scheduler *scheduler, struct lane *lane, int64_t pass)
{
    if (lane->pass != pass) {
        lane->pass = pass;
        heap_move(scheduler, lane, HEAP_SERVE);
        heap_move(scheduler, lane, HEAP_READ);
    }
}

/* The books get the pass of this lane alone: passes_settle() raises the others to it. */
void lane_set_pass(struct scheduler *scheduler, struct lane *lane, int64_t pass)
{
    INVARIANT(pass >= 0);
    if (lane->pass != pass && !lane->pass_changed) {
        lane->pass_changed = true;
        list_append(&scheduler->lanes, &scheduler->changed, offsetof(struct lane, changed), lane->entry.self);
    }
    move_to_pass(scheduler, lane, pass);
    const struct workspace *workspace = lane_workspace(scheduler, lane);
    if (workspace->lanes.first == workspace->lanes.last) {
        return;
    }
    const struct share *share = lane_share(scheduler, lane);
    for (uint32_t index = workspace->lanes.first; index != 0;) {
        struct lane *other = table_at(&scheduler->lanes, index);
        if (lane_share(scheduler, other) == share) {
            move_to_pass(scheduler, other, pass);
        }
        index = other->of_workspace.after;
    }
}

/* Passes of lanes that had their turns lie within one stride of each other, and no stride is longer than STRIDE_ONE. So the
 * share stood at (highest pass - STRIDE_ONE) or above when the passes were published. A lane that is further behind had no
 * items or no free slot for long; it must not make up for it. */
static void raise_share(const struct scheduler *scheduler, const struct lane *lane)
{
    struct share *share = lane_share(scheduler, lane);
    if (share->pass < lane->pass - STRIDE_ONE) {
        share->pass = lane->pass - STRIDE_ONE;
    }
}

/* The lane comes up to the pass of its share, and to the highest pass of its workspace there. */
static void raise_lane(const struct scheduler *scheduler, struct lane *lane)
{
    const struct share *share = lane_share(scheduler, lane);
    lane->pass = lane->pass < share->pass ? share->pass : lane->pass;
    for (uint32_t index = lane_workspace(scheduler, lane)->lanes.first; index != 0;) {
        const struct lane *other = table_at(&scheduler->lanes, index);
        if (lane_share(scheduler, other) == share && other->pass > lane->pass) {
            lane->pass = other->pass;
        }
        index = other->of_workspace.after;
    }
}

/* FACT_PASS comes once for each lane, and in which share it is may change after it. So the lanes are raised and the heaps
 * rebuilt once afterwards, in O(lanes), instead of in O(lanes * log lanes) with each fact. */
void passes_settle(struct scheduler *scheduler)
{
    INVARIANT(scheduler != NULL);
    if (!scheduler->passes_loaded) {
        return;
    }
    scheduler->passes_loaded = false;
    for (struct lane *lane = table_from(&scheduler->lanes, 1); lane != NULL;
         lane = table_from(&scheduler->lanes, lane->entry.self + 1)) {
        raise_share(scheduler, lane);
    }
    for (struct lane *lane = table_from(&scheduler->lanes, 1); lane != NULL;
         lane = table_from(&scheduler->lanes, lane->entry.self + 1)) {
        raise_lane(scheduler, lane);
    }
    for (struct demand *demand = table_from(&scheduler->demands, 1); demand != NULL;
         demand = table_from(&scheduler->demands, demand->entry.self + 1)) {
        heap_rebuild(scheduler, demand, HEAP_SERVE);
        heap_rebuild(scheduler, demand, HEAP_READ);
    }
}

/* --- windows --- */

void lane_free_window(struct scheduler *scheduler, struct lane *lane)
{
    INVARIANT(lane->count == 0);
    if (lane->heads != NULL) {
        scheduler->bytes -= lane->capacity * sizeof *lane->heads;
        free(lane->heads);
        lane->heads = NULL;
    }
    lane->first = 0;
    lane->capacity = 0;
}

/* A read that is under way started behind the new position, so its answer lacks the items in between. `missed_rank` makes
 * apply_read() lower the position once more after that answer. */
void lane_unread(struct scheduler *scheduler, struct lane *lane, const struct schedule_head *position)
{
    lane->is_all = false;
    if (lane->is_being_read && (!lane->missed || position->rank < lane->missed_rank)) {
        lane->missed = true;
        lane->missed_rank = position->rank;
    }
    if (head_compare(&lane->position, position) <= 0) {
        return;
    }
    lane->position = *position;
    while (lane->count > 0 && head_compare(&lane->heads[lane->first + lane->count - 1], position) > 0) {
        lane->count--;
        INVARIANT(scheduler->heads > 0);
        scheduler->heads--;
    }
}

/* The heads count as not read: the position goes back to right before the first of them. */
static void drop_window(struct scheduler *scheduler, struct lane *lane)
{
    INVARIANT(lane->count > 0);
    struct schedule_head position = position_before(&lane->heads[lane->first]);
    lane_unread(scheduler, lane, &position);
    lane_free_window(scheduler, lane);
}

bool lane_is_low(const struct lane *lane)
{
    return !lane->is_all && lane->count * 2 < lane->read_size;
}

/* A window that was used up within LANE_FAST_CALLS calls of scheduler_assign() was much too small: its size grows fourfold.
 * A slower one doubles, up to LANE_READ_SLOW_MOST. No size grows while half of all heads are in use. */
void lane_grow_reads(struct scheduler *scheduler, struct lane *lane)
{
    INVARIANT(scheduler != NULL && lane != NULL);
    if (scheduler->heads > scheduler->heads_most / 2) {
        return;
    }
    uint32_t calls = scheduler->call - lane->read_call;
    int size = lane->read_size;
    if (calls <= LANE_FAST_CALLS) {
        size = 4 * size < SCHEDULER_LANE_HEADS_MOST ? 4 * size : SCHEDULER_LANE_HEADS_MOST;
    } else if (size < LANE_READ_SLOW_MOST) {
        size = 2 * size < LANE_READ_SLOW_MOST ? 2 * size : LANE_READ_SLOW_MOST;
    }
    lane->read_size = (uint16_t)size;
}

static size_t fewer_places(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Moves the window to the start of its memory, or to larger memory, only when the new heads do not fit behind it. */
enum weir_status lane_append(struct scheduler *scheduler, struct lane *lane, const struct schedule_head *heads,
                             size_t count)
{
    size_t kept = lane->count;
    INVARIANT(kept + count <= SCHEDULER_LANE_HEADS_MOST);
    if (count == 0) {
        return WEIR_OK;
    }
    if (kept + count > lane->capacity) {
        /* Single heads come one after the other. */
        size_t capacity = count == 1 ? fewer_places(kept + kept / 2 + 1, SCHEDULER_LANE_HEADS_MOST) : kept + count;
        struct schedule_head *window = malloc(capacity * sizeof *window);
        if (window == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        if (kept > 0) {
            memcpy(window, &lane->heads[lane->first], kept * sizeof *window);
        }
        scheduler->bytes += (capacity - lane->capacity) * sizeof *window;
        free(lane->heads);
        lane->heads = window;
        lane->capacity = (uint16_t)capacity;
        lane->first = 0;
    } else if (lane->first + kept + count > lane->capacity) {
        memmove(lane->heads, &lane->heads[lane->first], kept * sizeof *heads);
        lane->first = 0;
    }
    memcpy(&lane->heads[lane->first + kept], heads, count * sizeof *heads);
    lane->count = (uint16_t)(kept + count);
    scheduler->heads += count;
    return WEIR_OK;
}

/* The lane is in no heap of turns, or among the leaves of it: its turn is far away, so its window is the cheapest to read
 * again. */
static bool is_served_late(const struct scheduler *scheduler, const struct lane *lane)
{
    uint32_t at = lane->at[HEAP_SERVE];
    return at == 0 || at > lane_demand_of(scheduler, lane)->heaps[HEAP_SERVE].count / 2;
}

/* Drops windows until the heads of all lanes fit:
 *
 *   1. Drop the window that was just read if its turn follows that of another lane of its workspace, which may not be read.
 *      Else the two could drop each other's windows for ever.
 *   2. Go round all lanes from the place where the last search ended, so that no lane is hit each time.
 *   3. Drop the windows of lanes that are served late, since they are needed last.
 *   4. When a whole round found none of these, drop any window but that of the lane that was just read.
 */
void heads_fit(struct scheduler *scheduler, struct lane *kept)
{
    INVARIANT(scheduler != NULL);
    bool takes_any = false;
    if (scheduler->heads > scheduler->heads_most && kept->count > 0 && lane_is_behind(scheduler, kept, true)) {
        drop_window(scheduler, kept);
        lane_place(scheduler, kept);
        return; /* the others were there before */
    }
    while (scheduler->heads > scheduler->heads_most && scheduler->heads > kept->count) {
        struct lane *lane = table_from(&scheduler->lanes, scheduler->drop_next);
        if (lane == NULL) {
            takes_any = scheduler->drop_round_is_vain;
            scheduler->drop_round_is_vain = true;
            scheduler->drop_next = 1;
            continue;
        }
        scheduler->drop_next = lane->entry.self + 1;
        if (lane != kept && lane->count > 0 && (takes_any || is_served_late(scheduler, lane))) {
            scheduler->drop_round_is_vain = false;
            drop_window(scheduler, lane);
            lane_place(scheduler, lane);
        }
    }
}

bool lane_may_insert(const struct lane *lane, const struct schedule_head *item)
{
    INVARIANT(lane != NULL && item != NULL);
    return !lane->is_being_read && !lane->waits_retry && lane->count < SCHEDULER_LANE_HEADS_MOST &&
           (lane->is_all || head_compare(item, &lane->position) <= 0);
}

enum weir_status lane_insert(struct scheduler *scheduler, struct lane *lane, const struct schedule_head *item)
{
    INVARIANT(scheduler != NULL && lane_may_insert(lane, item));
    size_t at = lane->count;
    while (at > 0 && head_compare(&lane->heads[lane->first + at - 1], item) > 0) {
        at--;
    }
    if (at > 0 && head_compare(&lane->heads[lane->first + at - 1], item) == 0) {
        return WEIR_OK;
    }
    size_t behind = lane->count - at;
    enum weir_status status = lane_append(scheduler, lane, item, 1);
    if (status != WEIR_OK) {
        return status;
    }
    struct schedule_head *place = &lane->heads[lane->first + at];
    memmove(place + 1, place, behind * sizeof *place);
    *place = *item;
    if (head_compare(item, &lane->position) > 0) {
        lane->position = *item;
    }
    return WEIR_OK;
}

/* --- place --- */

/* The lane is read from its beginning, so its locked items need no retry of their own. */
static void forget_retry(struct scheduler *scheduler, struct lane *lane)
{
    if (lane->waits_retry) {
        struct schedule_head position = position_before_rank(lane->locked_rank);
        lane->waits_retry = false;
        lane->rests = false;
        lane_unread(scheduler, lane, &position);
    }
}

/* Step 3 of lane_place(). */
static void come_back(struct scheduler *scheduler, struct lane *lane)
{
    const struct share *share = lane_share(scheduler, lane);
    if (lane->pass >= share->pass) {
        return;
    }
    for (uint32_t index = lane_workspace(scheduler, lane)->lanes.first; index != 0;) {
        const struct lane *other = table_at(&scheduler->lanes, index);
        if (other->active && other != lane && lane_share(scheduler, other) == share) {
            move_to_pass(scheduler, lane, other->pass);
            return;
        }
        index = other->of_workspace.after;
    }
    lane_set_pass(scheduler, lane, share->pass);
}

/* Steps:
 *
 *   1. A lane of a workspace that does not exist gives up its window: the store ends these items.
 *   2. The lane is active when it has items, and its workspace has a free slot or is unknown.
 *   3. A lane that becomes active starts at the pass of its share, so that a rest earns no turns. When another lane of its
 *      workspace is active there, it shares the pass of that lane.
 *   4. An active lane is in the heap of turns if a head and the limits are known. It is in the heap of reads if its window
 *      is low or the limits are unknown, and no read is under way.
 *   5. The lists follow from the same facts, each lane in at most one.
 */
void lane_place(struct scheduler *scheduler, struct lane *lane)
{
    INVARIANT(lane->entry.self != 0 && lane->first + lane->count <= lane->capacity);
    const struct workspace *workspace = lane_workspace(scheduler, lane);
    bool known = workspace->known;
    bool lost = known && !workspace->exists;
    if (lost && lane->count > 0) {
        drop_window(scheduler, lane); /* the store ends these items; the next read shows the rest */
    }
    struct item_limits limits = item_limits_of(scheduler, lane);
    bool has_items = lane->count > 0 || !lane->is_all;
    bool open = !known || (!lost && !workspace->paused && limits_allow(&limits));
    bool active = has_items && open && !lane->rests;
    if (active && !lane->active) {
        come_back(scheduler, lane);
    }
    lane->active = active;
    heap_set(scheduler, lane, HEAP_SERVE, active && known && lane->count > 0);
    heap_set(scheduler, lane, HEAP_READ, active && !lane->is_being_read && (!known || lane_is_low(lane)));
    if (lost && has_items) {
        forget_retry(scheduler, lane);
        set_list(scheduler, lane, LANE_ORPHANED);
    } else if (lane->waits_retry) {
        set_list(scheduler, lane, LANE_RETRIES);
    } else if (!has_items && lane->in_flight == 0 && !lane->is_being_read) {
        set_list(scheduler, lane, LANE_IDLE);
    } else {
        set_list(scheduler, lane, LANE_IN_NO_LIST);
    }
}

void workspace_place(struct scheduler *scheduler, const struct workspace *workspace)
{
    INVARIANT(workspace->entry.self != 0);
    for (uint32_t index = workspace->lanes.first; index != 0;) {
        struct lane *lane = table_at(&scheduler->lanes, index);
        index = lane->of_workspace.after;
        lane_place(scheduler, lane);
    }
}
