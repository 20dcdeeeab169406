/* The scheduler's decisions: the next reads, the next starts and their nodes, and the meaning of an outcome.
 *
 * One round of the caller:
 *
 *   1. scheduler_assign()  deals items that are known to lanes that have a free slot and nodes that have room
 *   2. scheduler_wants()   names the lanes without their next heads
 *   3. the store records the assignments and answers the reads in one transaction
 *   4. scheduler_settle() for each assignment, scheduler_read() for each answer, scheduler_learn() for each fact
 *
 * The order of 4 matters. A settled set leaves memory as the rows are in the transaction's snapshot. The reads add the
 * items of that snapshot. A fact may only take back an assumption of the reads.
 *
 * Within a group, the lane with the smallest pass has the next turn (stride scheduling: Waldspurger and Weihl, 1995). A
 * turn costs STRIDE_ONE / weight. Groups share nothing but the limits of workspaces, so they take turns one by one.
 *
 * Nothing here may hand out a slot that a limit does not have, or give one back without proof that its row is not held.
 */
#include "queue/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "queue/scheduler_parts.h"
#include "queue/suspicion.h"

static void init_tables(struct scheduler *scheduler)
{
    table_init(&scheduler->lanes, sizeof(struct lane), &scheduler->bytes);
    table_init(&scheduler->workspaces, sizeof(struct workspace), &scheduler->bytes);
    table_init(&scheduler->groups, sizeof(struct group), &scheduler->bytes);
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

static void free_objects(struct scheduler *scheduler)
{
    for (struct lane *lane = table_from(&scheduler->lanes, 1); lane != NULL;
         lane = table_from(&scheduler->lanes, lane->entry.self + 1)) {
        free(lane->heads);
    }
    for (struct group *group = table_from(&scheduler->groups, 1); group != NULL;
         group = table_from(&scheduler->groups, group->entry.self + 1)) {
        free(group->heaps[HEAP_SERVE].lanes);
        free(group->heaps[HEAP_READ].lanes);
    }
    free(scheduler->group_order);
    table_clear(&scheduler->lanes);
    table_clear(&scheduler->workspaces);
    table_clear(&scheduler->groups);
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

static bool group_has_room(const struct scheduler *scheduler, const struct group *group)
{
    for (const struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        if (node_room(node) > 0) {
            return true;
        }
    }
    return false;
}

/* Whether the group has a node that works, even if it is full now. */
static bool group_has_node(const struct scheduler *scheduler, const struct group *group)
{
    for (const struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        if (node->accepts && node->capacity > 0) {
            return true;
        }
    }
    return false;
}

/* The own node while it has room: no other node has to be woken. Else the one with the most room; a tie goes to the
 * smaller id. A group has few nodes, so they are simply looked through. */
static struct node *best_node(const struct scheduler *scheduler, const struct group *group, int64_t target_id)
{
    struct node *best = NULL;
    for (struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        int64_t room = node_room(node);
        if (room == 0 || !has_target(node, target_id)) {
            continue;
        }
        if (node->entry.key == scheduler->own_node_id) {
            return node;
        }
        if (best == NULL || room > node_room(best) || (room == node_room(best) && node->entry.key < best->entry.key)) {
            best = node;
        }
    }
    return best;
}

/* A node gets several items of a set in a row: each node that gets any is woken, reads its inbox and records its ends in
 * transactions of its own. */
static struct node *choose_node(const struct scheduler *scheduler, struct group *group, int64_t target_id)
{
    struct node *node = group->chunk_left == 0 ? NULL : table_find(&scheduler->nodes, group->chunk_node_id);
    if (node == NULL || node_room(node) == 0 || !has_target(node, target_id)) {
        node = best_node(scheduler, group, target_id);
        if (node == NULL) {
            return NULL;
        }
        group->chunk_node_id = node->entry.key;
        group->chunk_left = node->capacity < NODE_CHUNK_PART ? 1 : node->capacity / NODE_CHUNK_PART;
    }
    group->chunk_left--;
    return node;
}

/* The own node's capacity follows its engine: the items that it holds, and the room of its engine. */
static void set_own_node(struct scheduler *scheduler, int64_t own_node_id, size_t own_room)
{
    struct node *node = table_find(&scheduler->nodes, scheduler->own_node_id);
    if (node != NULL && scheduler->own_node_id != own_node_id) {
        node->capacity = node->row_capacity;
    }
    scheduler->own_node_id = own_node_id;
    node = own_node_id == 0 ? NULL : table_find(&scheduler->nodes, own_node_id);
    if (node != NULL) {
        int64_t room = own_room > INT32_MAX ? INT32_MAX : (int64_t)own_room;
        node->capacity = node->held + room;
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

struct handed_queue *handed_queue_get(struct scheduler *scheduler, struct group *group, int64_t target_id)
{
    int64_t key = lane_id_of(group->entry.key, target_id);
    struct handed_queue *queue = table_find(&scheduler->handed_queues, key);
    if (queue == NULL) {
        queue = table_add(&scheduler->handed_queues, key);
        if (queue != NULL) {
            queue->group = group->entry.self;
            queue->target_id = target_id;
            list_append(&scheduler->handed_queues, &group->handed_queues, offsetof(struct handed_queue, of_group),
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

/* The item that has waited longest among those for which a node has room, or NULL. */
static struct handed_item *next_handed_over(const struct scheduler *scheduler, const struct group *group)
{
    struct handed_item *best = NULL;
    for (uint32_t index = group->handed_queues.first; index != 0;) {
        const struct handed_queue *queue = table_at(&scheduler->handed_queues, index);
        struct handed_item *item = queue->items.first == 0 ? NULL : table_at(&scheduler->handed_over, queue->items.first);
        if (item != NULL && (best == NULL || item->order < best->order) &&
            best_node(scheduler, group, queue->target_id) != NULL) {
            best = item;
        }
        index = queue->of_group.after;
    }
    return best;
}

static size_t assign_handed_over(struct scheduler *scheduler, struct group *group, struct assignment *assignments,
                                 size_t limit)
{
    size_t count = 0;
    while (count < limit) {
        struct handed_item *item = next_handed_over(scheduler, group);
        if (item == NULL) {
            break;
        }
        struct handed_queue *queue = table_at(&scheduler->handed_queues, item->queue);
        struct node *node = choose_node(scheduler, group, queue->target_id);
        INVARIANT(node != NULL && has_target(node, queue->target_id));
        handed_assign(scheduler, item, node, &assignments[count++]);
    }
    return count;
}

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

/* Items that were locked, after their delay, count as not read. The lists are in the order of their times. */
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

static void retry_later(struct lane *lane, int64_t now_us, int64_t rank)
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

static struct group *group_in_order(const struct scheduler *scheduler, size_t at)
{
    return table_at(&scheduler->groups, scheduler->group_order[at % scheduler->groups.count]);
}

static bool group_runs(const struct scheduler *scheduler, const struct group *group)
{
    return !scheduler->queue_paused && !group->paused;
}

/* The lane that should be read next, or NULL. Full nodes let a lane be read if it would have the next turn, or if turns
 * served have earned a read ahead: so windows are filled while nodes are busy, and 100,000 lanes are not read in advance.
 */
static struct lane *lane_to_read(const struct scheduler *scheduler, const struct group *group, bool *ret_is_ahead)
{
    struct lane *lane = heap_top(scheduler, group, HEAP_READ);
    *ret_is_ahead = false;
    if (lane == NULL || !group_runs(scheduler, group) || !group_has_node(scheduler, group)) {
        return NULL;
    }
    const struct lane *served = heap_top(scheduler, group, HEAP_SERVE);
    if (group_has_room(scheduler, group) || served == NULL || served == lane || lane_goes_before(lane, served)) {
        return lane;
    }
    *ret_is_ahead = true;
    return group->read_ahead > 0 ? lane : NULL;
}

static void ask(struct scheduler *scheduler, struct lane *lane, struct lane_read *read)
{
    size_t room = (size_t)(SCHEDULER_LANE_HEADS_MOST - lane->count);
    size_t most = lane->read_size < room ? lane->read_size : room;
    if (lane->list == LANE_ORPHANED || most == 0) {
        most = 1; /* whether there is any, and the limits */
    } else if (!lane_is_low(lane) && most > LANE_READ_LEAST) {
        most = LANE_READ_LEAST; /* only the limits matter */
    }
    *read = (struct lane_read){.lane_id = lane->entry.key, .after_rank = lane->position.rank, .most = most};
    memcpy(read->after_id, lane->position.id, sizeof read->after_id);
    lane->asked = true;
    lane_place(scheduler, lane);
}

/* Lanes of workspaces that do not exist are read until they are empty. The list turns, so that each has its turn. */
static size_t ask_orphans(struct scheduler *scheduler, struct lane_read *reads, size_t most)
{
    struct list *list = &scheduler->lists[LANE_ORPHANED];
    size_t in_list = scheduler->list_counts[LANE_ORPHANED];
    most = most < ORPHAN_READS_MOST ? most : ORPHAN_READS_MOST;
    size_t count = 0;
    for (size_t i = 0; i < in_list && count < most; i++) {
        struct lane *lane = table_at(&scheduler->lanes, list->first);
        list_remove(&scheduler->lanes, list, offsetof(struct lane, in_list), lane->entry.self);
        list_append(&scheduler->lanes, list, offsetof(struct lane, in_list), lane->entry.self);
        if (!lane->asked) {
            ask(scheduler, lane, &reads[count++]);
        }
    }
    return count;
}

size_t scheduler_wants(struct scheduler *scheduler, int64_t now_us, struct lane_read *reads, size_t most)
{
    INVARIANT(scheduler != NULL && (reads != NULL || most == 0));
    retry_locked(scheduler, now_us);
    if (scheduler->suspects_next_us <= now_us) {
        scheduler->suspects_next_us = TIME_NEVER; /* the next call of scheduler_assign() looks at them anew */
        scheduler->suspects_changed = true;
    }
    passes_settle(scheduler);
    lanes_forget_idle(scheduler);
    size_t count = ask_orphans(scheduler, reads, most);
    for (bool goes_on = true; goes_on && count < most;) {
        goes_on = false;
        for (size_t i = 0; i < scheduler->groups.count && count < most; i++) {
            struct group *group = group_in_order(scheduler, scheduler->call + i);
            bool is_ahead = false;
            struct lane *lane = lane_to_read(scheduler, group, &is_ahead);
            if (lane != NULL) {
                group->read_ahead -= is_ahead ? 1 : 0;
                ask(scheduler, lane, &reads[count++]);
                goes_on = true;
            }
        }
    }
    return count;
}

/* --- assign --- */

static struct lane *lane_to_serve(const struct scheduler *scheduler, const struct group *group)
{
    return group_runs(scheduler, group) ? heap_top(scheduler, group, HEAP_SERVE) : NULL;
}

/* One turn of a lane: its first head goes to the node, its limits lose a slot, and its pass grows. */
static void serve(struct scheduler *scheduler, struct lane *lane, struct node *node, struct assignment *assignment)
{
    INVARIANT(lane->active && lane->count > 0 && node_room(node) > 0);
    struct item_limits limits = item_limits_of(scheduler, lane);
    struct group *group = lane_group(scheduler, lane);
    const struct schedule_head *head = &lane->heads[lane->first];
    *assignment = (struct assignment){.rank = head->rank, .lane_id = lane->entry.key, .node_id = node->entry.key};
    memcpy(assignment->id, head->id, sizeof assignment->id);
    lane->first++;
    lane->count--;
    scheduler->heads--;
    lane->in_flight++;
    limits_take(scheduler, &limits);
    node->held++;
    group->pass = group->pass < lane->pass ? lane->pass : group->pass;
    group->read_ahead += group->read_ahead < SCHEDULER_READS_MOST ? 1 : 0;
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

size_t scheduler_assign(struct scheduler *scheduler, int64_t now_us, int64_t own_node_id, size_t own_room,
                        struct assignment *assignments, size_t limit)
{
    INVARIANT(scheduler != NULL && (assignments != NULL || limit == 0));
    size_t groups = scheduler->groups.count;
    size_t count = 0;
    retry_locked(scheduler, now_us);
    passes_settle(scheduler);
    set_own_node(scheduler, own_node_id, own_room);
    suspects_count(scheduler, now_us);
    scheduler->call++;
    for (size_t i = 0; i < groups; i++) {
        struct group *group = group_in_order(scheduler, scheduler->call + i);
        group->pass_before = group->pass;
        group->chunk_left = 0;
        count += suspects_place(scheduler, group, now_us, assignments + count, limit - count);
        count += assign_handed_over(scheduler, group, assignments + count, limit - count);
    }
    for (bool goes_on = true; goes_on && count < limit;) {
        goes_on = false;
        for (size_t i = 0; i < groups && count < limit; i++) {
            struct group *group = group_in_order(scheduler, scheduler->call + i);
            struct lane *lane = lane_to_serve(scheduler, group);
            struct node *node = lane == NULL ? NULL : choose_node(scheduler, group, 0);
            if (node != NULL) {
                serve(scheduler, lane, node, &assignments[count++]);
                goes_on = true;
            }
        }
    }
    scheduler->suspects_changed = count == limit; /* there may have been no place for more */
    return count;
}

/* --- settle --- */

/* The item is the lane's first head again. If the window has no place for it, it counts as not read. */
static void put_back(struct scheduler *scheduler, struct lane *lane, const struct assignment *assignment)
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

/* The turn did not happen: the lane has it back, and the slot. Lanes of the same workspace in other groups come back at the
 * pass of their group; this one keeps its own. */
static void give_back(struct scheduler *scheduler, struct lane *lane)
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
        give_back(scheduler, lane);
        break;
    case ASSIGNMENT_LOCKED:
        retry_later(lane, now_us, assignment->rank);
        give_back(scheduler, lane);
        break;
    case ASSIGNMENT_NO_NODE:
        put_back(scheduler, lane, assignment);
        give_back(scheduler, lane);
        break;
    case ASSIGNMENT_UNDONE:
        lane_group(scheduler, lane)->pass = lane_group(scheduler, lane)->pass_before;
        put_back(scheduler, lane, assignment);
        give_back(scheduler, lane);
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

static bool group_has_work(const struct scheduler *scheduler, const struct group *group)
{
    bool is_ahead = false;
    return next_handed_over(scheduler, group) != NULL ||
           (lane_to_serve(scheduler, group) != NULL && group_has_room(scheduler, group)) ||
           lane_to_read(scheduler, group, &is_ahead) != NULL;
}

bool scheduler_has_work(const struct scheduler *scheduler, int64_t now_us)
{
    INVARIANT(scheduler != NULL);
    if (scheduler_next_us(scheduler) <= now_us || scheduler->list_counts[LANE_ORPHANED] > 0 ||
        suspects_have_work(scheduler)) {
        return true;
    }
    for (size_t i = 0; i < scheduler->groups.count; i++) {
        if (group_has_work(scheduler, group_in_order(scheduler, i))) {
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
