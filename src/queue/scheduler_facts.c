/* The input of the scheduler: facts and the answers to its reads. The dispatch thread brings both after each round.
 *
 *   fact                          effect on memory
 *   RUNNABLE                      lowers the position of the lane: its items from that rank on count as not read
 *   HELD                          adds to the held slots of the workspace and to the items of the node
 *   WORKSPACE, GROUP, QUEUE       replace limits, weight and pauses; the lanes concerned are placed again
 *   WORKSPACES                    makes all limits unknown; the next read of a lane brings them
 *   NODES, NODE.., NODES_END      replace the list of nodes and their handlers; a node that is missing gets nothing more
 *   SUSPECTS .. SUSPECTS_END      replace the list of items without a node and of items on trial
 *   PASS                          while loading: the stride position of a lane
 *
 * How the books change (learn_held()):
 *
 *   1. The count of the node changes first. A sum below zero proves that memory and store disagree.
 *   2. The count of the workspace changes. A returned slot is free from here on, never before its commit was read.
 *   3. If the workspace became full or stopped being full, all its lanes are placed again. Otherwise no lane moves.
 *
 * Facts about held slots are deltas, so each must be learnt exactly once and their sum must fit. Nothing is repaired here:
 * after WEIR_STORE_CORRUPT the caller takes a new epoch and loads everything anew.
 *
 * An answer to a read is used only if it begins where the lane's window ends, or before. If a fact lowered the position
 * while the read was under way, its heads are not used, because items before them are missing.
 *
 * Cost: a fact is O(1), or O(lanes of the workspace * log lanes) when limits change; WORKSPACES concerns all lanes. The end
 * of a list walks the table of its objects.
 */
#include <string.h>

#include "base/error.h"
#include "queue/scheduler_internal.h"

enum { TARGET_ID_MOST = INT32_MAX, WEIGHT_CEILING = 1000 };
/* More held items cannot be rows. A count stays far below an overflow, also when assignments add to it. */
#define HELD_MOST (INT64_MAX / 4)

/* The sum of a count and a delta; false when it is no count. */
static bool add_count(int64_t count, int64_t delta, int64_t *ret_sum)
{
    return !__builtin_add_overflow(count, delta, ret_sum) && *ret_sum >= 0 && *ret_sum <= HELD_MOST;
}

static bool lane_id_is_valid(int64_t lane_id)
{
    return lane_group_id(lane_id) > 0 && lane_workspace_id(lane_id) > 0;
}

/* The lane may have an item of this rank. A lane that is new to memory has no item before it. */
static enum weir_status learn_runnable(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    bool is_new = false;
    struct lane *lane = lane_get(scheduler, fact->lane_id, &is_new);
    if (lane == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    struct schedule_head item = {.rank = fact->rank};
    memcpy(item.id, fact->id, sizeof item.id);
    struct schedule_head position = position_before(&item);
    if (head_compare(&item, &position) > 0 && lane_may_insert(lane, &item)) {
        enum weir_status status = lane_insert(scheduler, lane, &item);
        lane_place(scheduler, lane);
        heads_fit(scheduler, lane);
        return status;
    }
    if (is_new || (lane->is_all && !lane->is_being_read && head_compare(&lane->position, &position) < 0)) {
        lane->position = position; /* up to the new item there are no others: each would have had a fact of its own */
    }
    lane_unread(scheduler, lane, &position);
    lane_place(scheduler, lane);
    return WEIR_OK;
}

/* A node that is not listed yet may hold items: it is remembered for its count alone. */
static enum weir_status learn_held_by_node(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct node *node = table_find(&scheduler->nodes, fact->node_id);
    int64_t held = 0;
    if (!add_count(node == NULL ? 0 : node->held, fact->node_held, &held)) {
        return WEIR_STORE_CORRUPT;
    }
    if (node == NULL && held > 0) {
        node = table_add(&scheduler->nodes, fact->node_id);
        if (node == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
    }
    if (fact->node_held < 0 && scheduler->tried.first != 0) {
        scheduler->suspects_are_old = true;
    }
    if (node != NULL) {
        node->held = held;
        node_forget_unused(scheduler, node);
    }
    return WEIR_OK;
}

/* See the overview. A fact of several lanes has no slots and only changes the count of the node. */
static enum weir_status learn_held(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    if (fact->node_id != 0) {
        enum weir_status status = learn_held_by_node(scheduler, fact);
        if (status != WEIR_OK) {
            return status;
        }
    }
    if (fact->slots == 0) {
        return WEIR_OK;
    }
    struct workspace *workspace = workspace_get(scheduler, lane_workspace_id(fact->lane_id));
    if (workspace == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    int64_t held = 0;
    int64_t held_in_all = 0;
    if (!add_count(workspace->cap.held, fact->slots, &held) || !add_count(scheduler->held, fact->slots, &held_in_all)) {
        workspace_forget_unused(scheduler, workspace);
        return WEIR_STORE_CORRUPT;
    }
    bool was_full = workspace->cap.held >= workspace->cap.max;
    workspace->cap.held = held;
    scheduler->held = held_in_all;
    if (was_full != (held >= workspace->cap.max)) {
        workspace->slot_since_us = was_full ? scheduler->now_us : workspace->slot_since_us;
        workspace_place(scheduler, workspace);
    }
    workspace_forget_unused(scheduler, workspace);
    return WEIR_OK;
}

/* Places the lanes of the workspace only if a limit changed, because most reads bring the known limits. */
static void workspace_set_limits(struct scheduler *scheduler, struct workspace *workspace, const struct workspace *limits)
{
    bool is_same = workspace->known && workspace->exists == limits->exists && workspace->paused == limits->paused &&
                   workspace->cap.max == limits->cap.max;
    if (workspace->exists) { /* else its limits were not known before */
        bool was_full = workspace->cap.held >= workspace->cap.max;
        bool gets_slot = was_full && workspace->cap.held < limits->cap.max;
        workspace->slot_since_us = gets_slot ? scheduler->now_us : workspace->slot_since_us;
        workspace->resumed_us = workspace->paused && !limits->paused ? scheduler->now_us : workspace->resumed_us;
    }
    int32_t weight = limits->weight < 1 ? 1 : limits->weight;
    workspace->weight = weight > WEIGHT_CEILING ? WEIGHT_CEILING : weight;
    workspace->known = true;
    workspace->exists = limits->exists;
    workspace->paused = limits->paused;
    workspace->cap.max = limits->cap.max;
    if (!is_same) {
        workspace_place(scheduler, workspace);
    }
}

/* A workspace without lanes and held items is not remembered: the first read of a lane brings its limits. */
static void learn_workspace(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct workspace *workspace = table_find(&scheduler->workspaces, fact->workspace_id);
    if (workspace != NULL) {
        struct workspace limits = {
            .cap = {.max = fact->slots_max}, .weight = fact->weight, .exists = fact->exists, .paused = fact->paused};
        workspace_set_limits(scheduler, workspace, &limits);
    }
}

/* The lanes wait for a read of their limits; nothing of them is assigned before. */
static void learn_workspaces(struct scheduler *scheduler)
{
    for (struct workspace *workspace = table_from(&scheduler->workspaces, 1); workspace != NULL;
         workspace = table_from(&scheduler->workspaces, workspace->entry.self + 1)) {
        workspace->known = false;
        workspace_place(scheduler, workspace);
    }
}

/* A pause of an executor group pauses both of its pools. */
static enum weir_status learn_group(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct pool *steps = pool_get(scheduler, pool_id_of(fact->group_id, false));
    struct pool *temporal = steps == NULL ? NULL : pool_get(scheduler, pool_id_of(fact->group_id, true));
    if (temporal == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    if (steps->paused && !fact->paused) {
        steps->resumed_us = scheduler->now_us;
        temporal->resumed_us = scheduler->now_us;
    }
    steps->paused = fact->paused;
    temporal->paused = fact->paused;
    return WEIR_OK;
}

/* The node gets nothing more. A quarantine for which it was emptied ends. */
static void leave_pool(struct scheduler *scheduler, struct node *node)
{
    if (node->pool != 0) {
        struct pool *pool = table_at(&scheduler->pools, node->pool);
        list_remove(&scheduler->nodes, &pool->nodes, offsetof(struct node, of_pool), node->entry.self);
        node->pool = 0;
        node->quarantine = (struct quarantine){.is_on = false};
    }
    node->accepts = false;
}

static enum weir_status learn_node(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct pool *pool = pool_get(scheduler, pool_id_of(fact->group_id, fact->on_temporal));
    struct node *node = table_find(&scheduler->nodes, fact->node_id);
    if (pool != NULL && node == NULL) {
        node = table_add(&scheduler->nodes, fact->node_id);
    }
    if (pool == NULL || node == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    if (node->pool != pool->entry.self) {
        leave_pool(scheduler, node);
        node->pool = pool->entry.self;
        list_append(&scheduler->nodes, &pool->nodes, offsetof(struct node, of_pool), node->entry.self);
    }
    /* The capacity of the own node follows its engine, see scheduler_assign(). Its row is older. */
    if (fact->node_id != scheduler->own_node_id || node->row_capacity != fact->capacity) {
        node->capacity = fact->capacity;
    }
    node->row_capacity = fact->capacity;
    node->target_id = fact->target_id;
    node_forget_handlers(scheduler, node);
    node->accepts = fact->accepts;
    node->list = scheduler->node_list;
    return WEIR_OK;
}

static enum weir_status learn_node_handlers(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct node *node = table_find(&scheduler->nodes, fact->node_id);
    /* A set for a node that is not listed serves nothing. */
    return node == NULL || node->pool == 0 ? WEIR_OK : node_add_handler_set(scheduler, node, (uint32_t)fact->handler_set);
}

/* A node that is not listed gets nothing. Its count stays until its last item has left it, because news of these items may
 * come after the list. */
static void sweep_nodes(struct scheduler *scheduler)
{
    uint32_t index = 1;
    for (struct node *node = table_from(&scheduler->nodes, index); node != NULL;
         node = table_from(&scheduler->nodes, index)) {
        index = node->entry.self + 1;
        if (node->list != scheduler->node_list) {
            leave_pool(scheduler, node);
            node_forget_unused(scheduler, node);
        }
    }
}

/* The item of the fact, in no list: a known one is taken out of its list first. NULL when memory is short. */
static struct handed_item *handed_item_get(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    const struct handed_queue *queue = handed_queue_get(scheduler, fact->lane_id, fact->target_id);
    struct handed_item *item = handed_find(scheduler, fact->id);
    if (queue == NULL) {
        return NULL;
    }
    if (item != NULL) {
        handed_unlink(scheduler, item);
    } else {
        item = table_add(&scheduler->handed_over, handed_key(fact->id));
        if (item == NULL) {
            return NULL;
        }
        memcpy(item->id, fact->id, sizeof item->id);
        item->lane_id = fact->lane_id;
        item->pool = queue->pool;
    }
    item->queue = queue->entry.self;
    item->suspicion = fact->suspicion < 0 ? 0 : fact->suspicion;
    item->since_us = fact->since_us;
    item->node_id = fact->node_id;
    item->list = scheduler->suspect_list;
    return item;
}

/* A listed item that waits keeps its place. Only another suspicion moves it to another list. */
static bool is_waiting_already(const struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct handed_item *item = handed_find(scheduler, fact->id);
    if (item == NULL || (item->state != HANDED_WAITS && item->state != HANDED_LOCKED) ||
        item->suspicion != fact->suspicion) {
        return false;
    }
    item->list = scheduler->suspect_list;
    return true;
}

static enum weir_status learn_handed_over(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    if (is_waiting_already(scheduler, fact)) {
        return WEIR_OK;
    }
    struct handed_item *item = handed_item_get(scheduler, fact);
    if (item == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    handed_append(scheduler, item);
    return WEIR_OK;
}

/* A node holds the suspect, so it counts as on trial from `since_us` on. */
static enum weir_status learn_suspect(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    struct handed_item *item = handed_item_get(scheduler, fact);
    if (item == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    item->state = HANDED_TRIED;
    list_append(&scheduler->handed_over, &scheduler->tried, offsetof(struct handed_item, link), item->entry.self);
    return WEIR_OK;
}

/* An item that the list did not name has ended or runs unsuspected. An assigned one is settled first. */
static void sweep_suspects(struct scheduler *scheduler)
{
    uint32_t index = 1;
    for (struct handed_item *item = table_from(&scheduler->handed_over, index); item != NULL;
         item = table_from(&scheduler->handed_over, index)) {
        index = item->entry.self + 1;
        if (item->list != scheduler->suspect_list && item->state != HANDED_ASSIGNED) {
            handed_unlink(scheduler, item);
            table_remove(&scheduler->handed_over, item);
        }
    }
    scheduler->suspects_are_old = false;
}

/* passes_settle() brings the pass of the share and of the other lanes up to it. */
static enum weir_status learn_pass(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    bool is_new = false;
    if (fact->pass < 0 || fact->pass > INT64_MAX / 2) {
        return WEIR_STORE_CORRUPT;
    }
    struct lane *lane = lane_get(scheduler, fact->lane_id, &is_new);
    if (lane == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    lane->pass = fact->pass;
    heap_move(scheduler, lane, HEAP_SERVE);
    heap_move(scheduler, lane, HEAP_READ);
    scheduler->passes_loaded = true;
    lane_place(scheduler, lane);
    return WEIR_OK;
}

static bool target_is_valid(const struct schedule_fact *fact)
{
    return fact->target_id >= 0 && fact->target_id <= TARGET_ID_MOST;
}

/* Whether the ids that this kind of fact carries can be ids. */
static bool fact_is_valid(const struct schedule_fact *fact)
{
    switch (fact->kind) {
    case FACT_HELD:
        return fact->slots == 0 || lane_id_is_valid(fact->lane_id);
    case FACT_RUNNABLE:
    case FACT_HANDED_OVER:
    case FACT_SUSPECT:
        return lane_id_is_valid(fact->lane_id) && target_is_valid(fact);
    case FACT_PASS:
        return lane_id_is_valid(fact->lane_id);
    case FACT_WORKSPACE:
        return fact->workspace_id > 0;
    case FACT_GROUP:
        return fact->group_id > 0 && fact->group_id <= GROUP_ID_MOST;
    case FACT_NODE:
        return fact->node_id > 0 && fact->group_id > 0 && fact->group_id <= GROUP_ID_MOST && target_is_valid(fact);
    case FACT_NODE_HANDLERS:
        return fact->node_id > 0 && fact->handler_set > 0 && fact->handler_set <= HANDLER_SET_MOST;
    default:
        return true;
    }
}

enum weir_status scheduler_learn(struct scheduler *scheduler, const struct schedule_fact *fact)
{
    INVARIANT(scheduler != NULL && fact != NULL);
    /* Facts come from rows: an id that cannot be one is a damaged store, not a programming error. */
    if (!fact_is_valid(fact)) {
        return WEIR_STORE_CORRUPT;
    }
    scheduler->suspects_changed = true;
    switch (fact->kind) {
    case FACT_RUNNABLE:
        return learn_runnable(scheduler, fact);
    case FACT_HELD:
        return learn_held(scheduler, fact);
    case FACT_WORKSPACE:
        learn_workspace(scheduler, fact);
        return WEIR_OK;
    case FACT_WORKSPACES:
        learn_workspaces(scheduler);
        return WEIR_OK;
    case FACT_GROUP:
        return learn_group(scheduler, fact);
    case FACT_QUEUE:
        scheduler->resumed_us = scheduler->queue_paused && !fact->paused ? scheduler->now_us : scheduler->resumed_us;
        scheduler->queue_paused = fact->paused;
        return WEIR_OK;
    case FACT_NODES:
        scheduler->node_list++;
        return WEIR_OK;
    case FACT_NODE:
        return learn_node(scheduler, fact);
    case FACT_NODE_HANDLERS:
        return learn_node_handlers(scheduler, fact);
    case FACT_NODES_END:
        sweep_nodes(scheduler);
        return demands_settle(scheduler);
    case FACT_HANDED_OVER:
        return learn_handed_over(scheduler, fact);
    case FACT_SUSPECTS:
        scheduler->suspect_list++;
        return WEIR_OK;
    case FACT_SUSPECT:
        return learn_suspect(scheduler, fact);
    case FACT_SUSPECTS_END:
        sweep_suspects(scheduler);
        return WEIR_OK;
    case FACT_PASS:
        return learn_pass(scheduler, fact);
    case FACT_NEWS:
        return WEIR_OK;
    }
    return WEIR_STORE_CORRUPT;
}

/* --- the answer to a read --- */

static bool is_ascending(const struct schedule_head *heads, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (head_compare(&heads[i - 1], &heads[i]) >= 0) {
            return false;
        }
    }
    return true;
}

/* Takes those heads that lie behind the lane's position and fit. */
static enum weir_status append_new_heads(struct scheduler *scheduler, struct lane *lane, const struct lane_read *read)
{
    size_t first = 0;
    while (first < read->count && head_compare(&read->heads[first], &lane->position) <= 0) {
        first++;
    }
    size_t places = (size_t)(SCHEDULER_LANE_HEADS_MOST - lane->count);
    size_t count = read->count - first < places ? read->count - first : places;
    enum weir_status status = lane_append(scheduler, lane, read->heads + first, count);
    if (status != WEIR_OK) {
        return status;
    }
    if (count > 0) {
        lane->position = read->heads[first + count - 1];
    }
    lane->is_all = read->is_all && first + count == read->count;
    return WEIR_OK;
}

/* Uses the heads if they begin at the position or before, and adjusts the size of the reads. Lowers the position again
 * for facts that came while the read was under way. */
static enum weir_status apply_read(struct scheduler *scheduler, struct lane *lane, const struct lane_read *read)
{
    struct schedule_head after = {.rank = read->after_rank};
    memcpy(after.id, read->after_id, sizeof after.id);
    lane->is_being_read = false;
    if (!read->workspace_exists) {
        lane->is_all = read->is_all && read->count == 0;
    } else if (head_compare(&after, &lane->position) <= 0) {
        enum weir_status status = append_new_heads(scheduler, lane, read);
        if (status != WEIR_OK) {
            return status;
        }
    }
    uint32_t calls = scheduler->call - lane->read_call;
    if (calls > LANE_SLOW_CALLS && lane->read_size > LANE_READ_SLOW_MOST) {
        lane->read_size /= 2;
    }
    lane->read_call = scheduler->call;
    if (lane->missed) {
        struct schedule_head missed = position_before_rank(lane->missed_rank);
        lane->missed = false;
        lane_unread(scheduler, lane, &missed);
    }
    return WEIR_OK;
}

enum weir_status scheduler_take_heads(struct scheduler *scheduler, const struct lane_read *read)
{
    INVARIANT(scheduler != NULL && read != NULL && (read->heads != NULL || read->count == 0));
    struct lane *lane = table_find(&scheduler->lanes, read->lane_id);
    if (lane == NULL) {
        return WEIR_OK; /* nothing is known to wait there */
    }
    if (!is_ascending(read->heads, read->count)) {
        return WEIR_STORE_CORRUPT;
    }
    enum weir_status status = apply_read(scheduler, lane, read);
    if (status != WEIR_OK) {
        return status;
    }
    struct workspace limits = {.cap = {.max = read->slots_max},
                               .weight = read->weight,
                               .exists = read->workspace_exists,
                               .paused = read->workspace_paused};
    workspace_set_limits(scheduler, lane_workspace(scheduler, lane), &limits);
    lane_place(scheduler, lane);
    heads_fit(scheduler, lane);
    return WEIR_OK;
}
