/* Suspects of the scheduler: on which node an item that may have killed its node runs again, and beside which other items.
 * Part of scheduler_assign(), in the dispatch thread.
 *
 * The rules and their reasons are in queue/suspicion.h. Slots stay taken all the time: a suspect is handed over, it never
 * goes back to its lane.
 *
 *   suspicion 0, 1   queue of its target  -+
 *   suspicion 2, 3   pool->suspects       -+--assign--> ASSIGNED --TAKEN--> TRIED (scheduler->tried) --end--> forgotten
 *   suspicion 4..    pool->quarantined    -+                     --LOCKED-> LOCKED (handed_retries), then back
 *
 *   1. suspects_count() counts the trials of each node. A trial that is over does not count. All nodes are open again.
 *   2. suspects_place() first decides for its pool which nodes are emptied for items in quarantine, and closes them. Such a
 *      node gets nothing more until it holds nothing; then it gets its item, and stays closed during the trial.
 *   3. Then suspects with a limit are assigned in the order of their arrival. The first one that finds no node holds back
 *      those behind it, so it finds one when the trials before it are over.
 *
 * How an item in quarantine gets its node (place_quarantined()):
 *
 *   1. End the quarantines that are over, and give up nodes that did not become empty in time.
 *   2. For each item in order: skip it until its delay is over and no other item of its workspace is in quarantine.
 *   3. Take a node that was emptied for its target and is free, or begin to empty one.
 *   4. Assign the item when the node holds nothing and its distance from the trials of other items has passed.
 *   5. Reopen each emptied node that no item wants any more, and close the remaining ones.
 *
 * Ordinary work goes on meanwhile: at most half of a pool's nodes, and of those with one target, are emptied or in
 * quarantine, the scheduler's own last. The only node of a target rests REST_PART times as long afterwards. A node that is
 * not empty in time is given up, rests too, and the next one gets twice as long. So both kinds of work have their turn.
 *
 * A scheduler that takes over reads all suspects. It does not know which nodes were emptied; then an item may start beside
 * one in quarantine. The death of their node is not counted then, see queue/suspicion.h.
 *
 * Cost: O(nodes + handed-over items) for each call while there is a suspect or a closed node, nothing otherwise.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "queue/limits.h"
#include "queue/scheduler_internal.h"
#include "queue/suspicion.h"

enum { REST_PART = 4 };
#define READ_AGAIN_US (1 * MICROSECONDS_PER_SECOND)
#define EMPTY_FIRST_US (10 * MICROSECONDS_PER_SECOND)
#define EMPTY_MOST_US (86400 * MICROSECONDS_PER_SECOND)
#define REST_LEAST_US (1 * MICROSECONDS_PER_SECOND)
/* Deaths of nodes of one machine that are found together are counted against no item (queue/suspicion.h). With this
 * distance between their trials, two killers that need equally long are found one after the other. */
#define DISTANCE_US (2 * RECOVERY_INTERVAL_US)

static const size_t handed_link = offsetof(struct handed_item, link);
static const struct need any_need = {.target_id = 0, .handler_set = 0};

static const struct handed_queue *item_queue(const struct scheduler *scheduler, const struct handed_item *item)
{
    return table_at(&scheduler->handed_queues, item->queue);
}

struct list *handed_list(struct scheduler *scheduler, const struct handed_item *item)
{
    struct pool *pool = table_at(&scheduler->pools, item->pool);
    struct handed_queue *queue = table_at(&scheduler->handed_queues, item->queue);
    return item->suspicion < SUSPICION_LIMITED      ? &queue->items
           : item->suspicion < SUSPICION_QUARANTINE ? &pool->suspects
                                                    : &pool->quarantined;
}

void handed_unlink(struct scheduler *scheduler, struct handed_item *item)
{
    struct list *list = item->state == HANDED_WAITS    ? handed_list(scheduler, item)
                        : item->state == HANDED_LOCKED ? &scheduler->handed_retries
                        : item->state == HANDED_TRIED  ? &scheduler->tried
                                                       : NULL;
    INVARIANT(list != NULL);
    list_remove(&scheduler->handed_over, list, handed_link, item->entry.self);
}

void handed_assign(struct scheduler *scheduler, struct handed_item *item, struct node *node, struct assignment *assignment)
{
    INVARIANT(item->state == HANDED_WAITS && node->accepts && node->held >= 0);
    INVARIANT(node_fits(node, item_queue(scheduler, item)->need));
    handed_unlink(scheduler, item);
    item->state = HANDED_ASSIGNED;
    item->node_id = node->entry.key;
    node->held++;
    *assignment = (struct assignment){.lane_id = item->lane_id, .node_id = node->entry.key, .handed_over = true};
    memcpy(assignment->id, item->id, sizeof assignment->id);
}

/* --- counting --- */

/* The loop calls again at the earliest of these times, even without new facts. */
static void plan_decision(struct scheduler *scheduler, int64_t now_us, int64_t at_us)
{
    if (at_us > now_us && at_us < scheduler->suspects_next_us) {
        scheduler->suspects_next_us = at_us;
    }
}

/* The strictest suspect on a node decides how many it may have. */
static void add_trial(struct scheduler *scheduler, struct node *node, int64_t suspicion)
{
    int64_t limit = suspicion_limit(suspicion);
    node->trials++;
    node->trials_most = limit < node->trials_most ? limit : node->trials_most;
    node->is_quarantine = node->is_quarantine || suspicion >= SUSPICION_QUARANTINE;
    node->is_closed = node->is_closed || node->is_quarantine;
    scheduler->has_closed_nodes = scheduler->has_closed_nodes || node->is_closed;
}

/* All items in quarantine of one workspace wait for the latest of them. */
static void count_delay(struct scheduler *scheduler, const struct handed_item *item, bool begins)
{
    struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    int64_t due_us = time_add(item->since_us, suspicion_delay_us(item->suspicion));
    if (workspace == NULL) {
        return;
    }
    if (begins) {
        workspace->quarantine_due_us = INT64_MIN;
        workspace->is_in_quarantine = false;
    } else if (due_us > workspace->quarantine_due_us) {
        workspace->quarantine_due_us = due_us;
    }
}

/* Clears the counts of suspects_count(), which are made anew with each call. */
static void forget_trials(struct scheduler *scheduler)
{
    for (struct node *node = table_from(&scheduler->nodes, 1); node != NULL;
         node = table_from(&scheduler->nodes, node->entry.self + 1)) {
        node->is_closed = node->is_quarantine = false;
        node->trials = 0;
        node->trials_most = INT64_MAX;
    }
    for (struct pool *pool = table_from(&scheduler->pools, 1); pool != NULL;
         pool = table_from(&scheduler->pools, pool->entry.self + 1)) {
        pool->quarantine_began_us = pool->quarantine_repeated_us = pool->quarantine_held_us = INT64_MIN;
    }
}

/* Later trials of the pool keep their distance from this one. */
static void note_trial_begin(struct pool *pool, int64_t suspicion, int64_t began_us)
{
    pool->quarantine_began_us = began_us > pool->quarantine_began_us ? began_us : pool->quarantine_began_us;
    if (suspicion > SUSPICION_QUARANTINE && began_us > pool->quarantine_repeated_us) {
        pool->quarantine_repeated_us = began_us;
    }
}

/* The trial is under way. */
static void count_quarantine(struct scheduler *scheduler, const struct handed_item *item)
{
    struct pool *pool = table_at(&scheduler->pools, item->pool);
    struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    note_trial_begin(pool, item->suspicion, item->since_us);
    if (workspace != NULL) {
        workspace->is_in_quarantine = true;
    }
}

/* Two passes over the waiting items: the first clears the workspaces, the second takes the maximum of the due times. */
static void count_delays(struct scheduler *scheduler)
{
    for (int pass = 0; pass < 2; pass++) {
        for (struct pool *pool = table_from(&scheduler->pools, 1); pool != NULL;
             pool = table_from(&scheduler->pools, pool->entry.self + 1)) {
            for (uint32_t index = pool->quarantined.first; index != 0;) {
                const struct handed_item *item = table_at(&scheduler->handed_over, index);
                count_delay(scheduler, item, pass == 0);
                index = item->link.after;
            }
        }
    }
}

/* The end of a step is no news. So suspects are read again while a node is closed for one: its suspicion may be over. */
static void plan_suspect_read(struct scheduler *scheduler, int64_t now_us)
{
    if (!scheduler->has_closed_nodes) {
        scheduler->suspects_read_us = TIME_NEVER;
        return;
    }
    if (scheduler->suspects_read_us <= now_us) {
        scheduler->suspects_are_old = true;
    }
    if (scheduler->suspects_read_us <= now_us || scheduler->suspects_read_us == TIME_NEVER) {
        scheduler->suspects_read_us = time_add(now_us, READ_AGAIN_US);
    }
    plan_decision(scheduler, now_us, scheduler->suspects_read_us);
}

void suspects_count(struct scheduler *scheduler, int64_t now_us)
{
    INVARIANT(scheduler != NULL);
    if (scheduler->handed_over.count == 0 && !scheduler->has_closed_nodes) {
        return;
    }
    scheduler->suspects_next_us = TIME_NEVER;
    scheduler->has_closed_nodes = false;
    forget_trials(scheduler);
    count_delays(scheduler);
    for (uint32_t index = scheduler->tried.first; index != 0;) {
        const struct handed_item *item = table_at(&scheduler->handed_over, index);
        struct node *node = table_find(&scheduler->nodes, item->node_id);
        int64_t end_us = time_add(item->since_us, suspicion_trial_us(item->suspicion));
        if (node != NULL && now_us < end_us) {
            add_trial(scheduler, node, item->suspicion);
            if (item->suspicion >= SUSPICION_QUARANTINE) {
                count_quarantine(scheduler, item);
            }
            plan_decision(scheduler, now_us, end_us);
        }
        index = item->link.after;
    }
    plan_suspect_read(scheduler, now_us);
}

bool suspects_have_work(const struct scheduler *scheduler)
{
    return scheduler->suspects_changed && (scheduler->handed_over.count > 0 || scheduler->has_closed_nodes);
}

/* --- nodes in quarantine --- */

/* Working nodes of the pool that fit the need; with `in_quarantine` only those emptied for, or holding, a quarantined item.
 */
static int64_t count_nodes(const struct scheduler *scheduler, const struct pool *pool, struct need need, bool in_quarantine)
{
    int64_t count = 0;
    for (const struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        bool counts = !in_quarantine || node->quarantine.is_on || node->is_quarantine;
        count += node_works(node) && node_fits(node, need) && counts ? 1 : 0;
    }
    return count;
}

/* Half of the nodes stay with ordinary work, and half of those that fit the need: handed-over items have no others. */
static bool may_empty_node(const struct scheduler *scheduler, const struct pool *pool, struct need need)
{
    int64_t most = count_nodes(scheduler, pool, need, false) / 2;
    return count_nodes(scheduler, pool, need, true) < (most < 1 ? 1 : most);
}

/* Not the scheduler's node if there is another one, since its death ends the epoch; then the one that holds least. */
static bool is_better_for_quarantine(const struct scheduler *scheduler, const struct node *node, const struct node *best)
{
    bool is_own = node->entry.key == scheduler->own_node_id;
    if (best == NULL || is_own != (best->entry.key == scheduler->own_node_id)) {
        return best == NULL || !is_own;
    }
    return node->held != best->held ? node->held < best->held : node->entry.key < best->entry.key;
}

/* The node that an item with the need should have: one that was emptied for such an item and is free, or else one that
 * may be emptied now. */
static struct node *node_for_quarantine(const struct scheduler *scheduler, const struct pool *pool, struct need need,
                                        bool is_on, int64_t now_us)
{
    struct node *best = NULL;
    for (struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        const struct quarantine *quarantine = &node->quarantine;
        bool is_free = is_on ? quarantine->is_on && !quarantine->is_used && !quarantine->is_wanted
                             : !quarantine->is_on && !node->is_quarantine && quarantine->rest_until_us <= now_us;
        if (is_free && node_works(node) && node_fits(node, need) && is_better_for_quarantine(scheduler, node, best)) {
            best = node;
        }
    }
    return best;
}

/* Starts to empty a node, if half of the nodes stay with ordinary work. */
static struct node *begin_quarantine(struct scheduler *scheduler, struct pool *pool, struct need need, int64_t now_us)
{
    struct node *node = NULL;
    if (may_empty_node(scheduler, pool, any_need) && may_empty_node(scheduler, pool, need)) {
        node = node_for_quarantine(scheduler, pool, need, false, now_us);
    }
    if (node != NULL) {
        pool->quarantine_wait_us = pool->quarantine_wait_us == 0 ? EMPTY_FIRST_US : pool->quarantine_wait_us;
        node->quarantine = (struct quarantine){.is_on = true, .since_us = now_us, .wait_us = pool->quarantine_wait_us};
    }
    return node;
}

/* The only node of its target then takes other items for REST_PART times as long as the quarantine lasted, and so does a
 * node that was emptied in vain. Else the other items had a node all the time, and the next suspect follows at once. */
static void end_quarantine(struct scheduler *scheduler, const struct pool *pool, struct node *node, bool in_vain,
                           int64_t now_us)
{
    int64_t rest_us = REST_PART * (now_us - node->quarantine.since_us);
    rest_us = rest_us < REST_LEAST_US ? REST_LEAST_US : rest_us;
    bool rests = in_vain || count_nodes(scheduler, pool, (struct need){.target_id = node->target_id}, false) <= 1;
    node->quarantine = (struct quarantine){.rest_until_us = rests ? time_add(now_us, rest_us) : now_us};
    plan_decision(scheduler, now_us, node->quarantine.rest_until_us);
}

/* Ends a quarantine after its trial, or when the node did not become empty in time. */
static void check_quarantine(struct scheduler *scheduler, struct pool *pool, struct node *node, int64_t now_us)
{
    struct quarantine *quarantine = &node->quarantine;
    int64_t given_up_us = time_add(quarantine->since_us, quarantine->wait_us);
    quarantine->is_wanted = false;
    if (!quarantine->is_on) {
        plan_decision(scheduler, now_us, quarantine->rest_until_us);
    } else if (node->is_quarantine) {
        return;
    } else if (!node_works(node) || quarantine->is_used) {
        end_quarantine(scheduler, pool, node, false, now_us);
    } else if (now_us >= given_up_us) {
        int64_t wait_us = quarantine->wait_us < EMPTY_MOST_US / 2 ? 2 * quarantine->wait_us : EMPTY_MOST_US;
        pool->quarantine_wait_us = wait_us > pool->quarantine_wait_us ? wait_us : pool->quarantine_wait_us;
        end_quarantine(scheduler, pool, node, true, now_us);
    }
}

/* Afterwards a node that no item wants is back, and each other one gets nothing else. */
static void close_nodes(struct scheduler *scheduler, struct pool *pool, int64_t now_us)
{
    pool->quarantine_nodes = 0;
    for (struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        const struct quarantine *quarantine = &node->quarantine;
        if (quarantine->is_on && !quarantine->is_used && !quarantine->is_wanted) {
            end_quarantine(scheduler, pool, node, false, now_us);
        }
        if (quarantine->is_on) {
            pool->quarantine_nodes++;
            node->is_closed = true;
            scheduler->has_closed_nodes = true;
            plan_decision(scheduler, now_us,
                          quarantine->is_used ? TIME_NEVER : time_add(quarantine->since_us, quarantine->wait_us));
        }
    }
}

/* --- items in quarantine --- */

/* The delay of the item is over, and no other item of its workspace has a node for itself or waits for one that is being
 * emptied. */
static bool quarantine_is_due(struct scheduler *scheduler, const struct handed_item *item, int64_t now_us)
{
    const struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    int64_t due_us =
        workspace != NULL ? workspace->quarantine_due_us : time_add(item->since_us, suspicion_delay_us(item->suspicion));
    plan_decision(scheduler, now_us, due_us);
    return due_us <= now_us && (workspace == NULL || !workspace->is_in_quarantine);
}

/* False ends the walk over the items early: no item of any target can get a node. */
static bool quarantine_has_node(const struct scheduler *scheduler, const struct pool *pool, int64_t now_us)
{
    return node_for_quarantine(scheduler, pool, any_need, true, now_us) != NULL ||
           (may_empty_node(scheduler, pool, any_need) &&
            node_for_quarantine(scheduler, pool, any_need, false, now_us) != NULL);
}

/* When the trial of this item may begin: at a distance from the trials of the pool that are under way. After its first one
 * alone also from those at their first, since it may have died together with another killer. */
static int64_t trial_begin_us(const struct pool *pool, const struct handed_item *item)
{
    int64_t began_us = item->suspicion > SUSPICION_QUARANTINE ? pool->quarantine_began_us : pool->quarantine_repeated_us;
    began_us = pool->quarantine_held_us > began_us ? pool->quarantine_held_us : began_us;
    return began_us == INT64_MIN ? INT64_MIN : time_add(began_us, DISTANCE_US);
}

/* Reserves the node for the item. True: the item is assigned, because the node is empty and the distance has passed.
 * `assignment` may be NULL: the set is full. */
static bool take_quarantine_node(struct scheduler *scheduler, struct pool *pool, struct handed_item *item,
                                 struct node *node, int64_t now_us, struct assignment *assignment)
{
    struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    int64_t next_us = trial_begin_us(pool, item);
    node->quarantine.is_wanted = true;
    if (workspace != NULL) {
        workspace->is_in_quarantine = true;
    }
    if (assignment == NULL || node->held > 0) {
        return false;
    }
    if (now_us < next_us) {
        pool->quarantine_held_us = next_us - DISTANCE_US; /* those behind it do not begin before it */
        plan_decision(scheduler, now_us, next_us);
        return false;
    }
    node->quarantine.is_used = true;
    pool->quarantine_wait_us = EMPTY_FIRST_US;
    note_trial_begin(pool, item->suspicion, now_us);
    add_trial(scheduler, node, item->suspicion);
    handed_assign(scheduler, item, node, assignment);
    return true;
}

/* The steps are in the overview. */
static size_t place_quarantined(struct scheduler *scheduler, struct pool *pool, int64_t now_us,
                                struct assignment *assignments, size_t limit)
{
    size_t count = 0;
    for (struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        check_quarantine(scheduler, pool, node, now_us);
    }
    bool goes_on = quarantine_has_node(scheduler, pool, now_us);
    for (uint32_t index = pool->quarantined.first; index != 0 && goes_on;) {
        struct handed_item *item = table_at(&scheduler->handed_over, index);
        struct need need = item_queue(scheduler, item)->need;
        index = item->link.after;
        if (!quarantine_is_due(scheduler, item, now_us)) {
            continue;
        }
        struct node *node = node_for_quarantine(scheduler, pool, need, true, now_us);
        node = node != NULL ? node : begin_quarantine(scheduler, pool, need, now_us);
        if (node != NULL) {
            struct assignment *assignment = count < limit ? &assignments[count] : NULL;
            count += take_quarantine_node(scheduler, pool, item, node, now_us, assignment) ? 1 : 0;
            goes_on = quarantine_has_node(scheduler, pool, now_us);
        }
    }
    close_nodes(scheduler, pool, now_us);
    return count;
}

/* --- suspects with a limit --- */

/* The node with the fewest suspects on trial, then the one with the most free capacity. The limit of the item and the
 * limits of those on trial there both apply. */
static struct node *node_for_trial(const struct scheduler *scheduler, const struct pool *pool,
                                   const struct handed_item *item)
{
    struct node *best = NULL;
    int64_t limit = suspicion_limit(item->suspicion);
    struct need need = item_queue(scheduler, item)->need;
    for (struct node *node = next_node(scheduler, pool->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_pool.after)) {
        int64_t most = limit < node->trials_most ? limit : node->trials_most;
        if (node_free_capacity(node) == 0 || node->trials >= most || !node_fits(node, need)) {
            continue;
        }
        if (best == NULL || node->trials < best->trials ||
            (node->trials == best->trials && node_free_capacity(node) > node_free_capacity(best))) {
            best = node;
        }
    }
    return best;
}

size_t suspects_place(struct scheduler *scheduler, struct pool *pool, int64_t now_us, struct assignment *assignments,
                      size_t limit)
{
    INVARIANT(pool->entry.self != 0 && (assignments != NULL || limit == 0));
    size_t count = 0;
    if (pool->quarantined.first != 0 || pool->quarantine_nodes > 0) {
        count = place_quarantined(scheduler, pool, now_us, assignments, limit);
    }
    for (uint32_t index = pool->suspects.first; index != 0 && count < limit;) {
        struct handed_item *item = table_at(&scheduler->handed_over, index);
        struct node *node = node_for_trial(scheduler, pool, item);
        index = item->link.after;
        if (node != NULL) {
            add_trial(scheduler, node, item->suspicion);
            handed_assign(scheduler, item, node, &assignments[count++]);
        } else if (count_nodes(scheduler, pool, item_queue(scheduler, item)->need, false) > 0) {
            break; /* its turn comes before those behind it; an item with a target that no node has delays no other */
        }
    }
    return count;
}
