/* Suspects of the scheduler: on which node an item that may have killed its node runs again, and beside whom.
 *
 * The rules and their reasons are in queue/suspicion.h. Slots stay taken all the time: a suspect is handed over, it never
 * goes back to its lane.
 *
 *   1. suspects_count() counts the trials of each node. A trial that is over does not count. A node with an item in
 *      quarantine is closed: nothing else is assigned to it.
 *   2. suspects_place() first decides for its group which node is emptied for an item in quarantine. The node gets nothing
 *      more until it holds nothing; then it gets the item.
 *   3. Then suspects with a limit are assigned in the order of their arrival. The first one that finds no node holds back
 *      those behind it, so it finds one when the trials before it are over.
 *
 * Other nodes go on meanwhile. At most one node of a group is emptied or in quarantine, one that is not the scheduler's if
 * there is any. Afterwards a group of one node rests REST_PART times as long. A node that is not empty in time is given up
 * and the next time gets twice as long, so an item in quarantine always has its turn.
 *
 * A scheduler that takes over reads all suspects. It does not know for which item a node was emptied; then an item may
 * start beside one in quarantine. The death of their node is not counted then, see queue/suspicion.h.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "queue/scheduler_parts.h"
#include "queue/suspicion.h"

enum { REST_PART = 4 };
#define EMPTY_FIRST_US (10 * MICROSECONDS_PER_SECOND)
#define EMPTY_MOST_US (86400 * MICROSECONDS_PER_SECOND)
#define REST_LEAST_US (1 * MICROSECONDS_PER_SECOND)

static const size_t handed_link = offsetof(struct handed_item, link);

static const struct handed_queue *queue_of(const struct scheduler *scheduler, const struct handed_item *item)
{
    return table_at(&scheduler->handed_queues, item->queue);
}

struct list *handed_list(struct scheduler *scheduler, const struct handed_item *item)
{
    struct group *group = table_at(&scheduler->groups, item->group);
    struct handed_queue *queue = table_at(&scheduler->handed_queues, item->queue);
    return item->suspicion < SUSPICION_LIMITED      ? &queue->items
           : item->suspicion < SUSPICION_QUARANTINE ? &group->suspects
                                                    : &group->quarantined;
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
    INVARIANT(item->state == HANDED_WAITS);
    handed_unlink(scheduler, item);
    item->state = HANDED_ASSIGNED;
    item->node_id = node->entry.key;
    node->held++;
    *assignment = (struct assignment){.lane_id = item->lane_id, .node_id = node->entry.key, .handed_over = true};
    memcpy(assignment->id, item->id, sizeof assignment->id);
}

/* --- counting --- */

static void decide_again_at(struct scheduler *scheduler, int64_t now_us, int64_t at_us)
{
    if (at_us > now_us && at_us < scheduler->suspects_next_us) {
        scheduler->suspects_next_us = at_us;
    }
}

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
    } else if (due_us > workspace->quarantine_due_us) {
        workspace->quarantine_due_us = due_us;
    }
}

static void count_delays(struct scheduler *scheduler)
{
    for (int pass = 0; pass < 2; pass++) {
        for (struct group *group = table_from(&scheduler->groups, 1); group != NULL;
             group = table_from(&scheduler->groups, group->entry.self + 1)) {
            for (uint32_t index = group->quarantined.first; index != 0;) {
                const struct handed_item *item = table_at(&scheduler->handed_over, index);
                count_delay(scheduler, item, pass == 0);
                index = item->link.after;
            }
        }
    }
}

void suspects_count(struct scheduler *scheduler, int64_t now_us)
{
    if (scheduler->handed_over.count == 0 && !scheduler->has_closed_nodes) {
        return;
    }
    scheduler->suspects_next_us = TIME_NEVER;
    scheduler->has_closed_nodes = false;
    for (struct node *node = table_from(&scheduler->nodes, 1); node != NULL;
         node = table_from(&scheduler->nodes, node->entry.self + 1)) {
        node->is_closed = node->is_quarantine = false;
        node->trials = 0;
        node->trials_most = INT64_MAX;
    }
    for (uint32_t index = scheduler->tried.first; index != 0;) {
        const struct handed_item *item = table_at(&scheduler->handed_over, index);
        struct node *node = table_find(&scheduler->nodes, item->node_id);
        int64_t end_us = time_add(item->since_us, suspicion_trial_us(item->suspicion));
        if (node != NULL && now_us < end_us) {
            add_trial(scheduler, node, item->suspicion);
            decide_again_at(scheduler, now_us, end_us);
        }
        index = item->link.after;
    }
    count_delays(scheduler);
}

bool suspects_have_work(const struct scheduler *scheduler)
{
    return scheduler->suspects_changed && (scheduler->handed_over.count > 0 || scheduler->has_closed_nodes);
}

/* --- quarantine --- */

static int64_t due_of(const struct scheduler *scheduler, const struct handed_item *item)
{
    const struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    return workspace != NULL ? workspace->quarantine_due_us : time_add(item->since_us, suspicion_delay_us(item->suspicion));
}

static bool can_be_tried(const struct node *node)
{
    return node->accepts && node->capacity > 0;
}

/* Not the scheduler's node if there is another one, since its death ends the epoch; then the one that holds least. */
static bool is_better(const struct scheduler *scheduler, const struct node *node, const struct node *best)
{
    bool is_own = node->entry.key == scheduler->own_node_id;
    if (best == NULL || is_own != (best->entry.key == scheduler->own_node_id)) {
        return best == NULL || !is_own;
    }
    return node->held != best->held ? node->held < best->held : node->entry.key < best->entry.key;
}

static struct node *node_to_empty(const struct scheduler *scheduler, const struct group *group, int64_t target_id)
{
    struct node *best = NULL;
    for (struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        if (can_be_tried(node) && has_target(node, target_id) && is_better(scheduler, node, best)) {
            best = node;
        }
    }
    return best;
}

/* The first item in quarantine after its delay which the emptied node, or without one any node, can take; or NULL.
 */
static struct handed_item *first_due(struct scheduler *scheduler, const struct group *group, int64_t now_us)
{
    const struct node *emptied =
        group->quarantine_node_id == 0 ? NULL : table_find(&scheduler->nodes, group->quarantine_node_id);
    for (uint32_t index = group->quarantined.first; index != 0;) {
        struct handed_item *item = table_at(&scheduler->handed_over, index);
        int64_t target_id = queue_of(scheduler, item)->target_id;
        int64_t due_us = due_of(scheduler, item);
        bool has_node =
            emptied != NULL ? has_target(emptied, target_id) : node_to_empty(scheduler, group, target_id) != NULL;
        if (due_us <= now_us && has_node) {
            return item;
        }
        decide_again_at(scheduler, now_us, due_us);
        index = item->link.after;
    }
    return NULL;
}

static bool has_other_node(const struct scheduler *scheduler, const struct group *group)
{
    int count = 0;
    for (const struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        count += can_be_tried(node) ? 1 : 0;
    }
    return count > 1;
}

/* The group's quarantine is over. A group of one node gives it to other items for REST_PART times as long as it lasted;
 * with more nodes the remaining ones were free all the time, and the next suspect follows at once. */
static void begin_rest(const struct scheduler *scheduler, struct group *group, int64_t now_us)
{
    int64_t rest_us = REST_PART * (now_us - group->quarantine_since_us);
    group->quarantine_node_id = 0;
    group->rest_until_us =
        has_other_node(scheduler, group) ? now_us : time_add(now_us, rest_us < REST_LEAST_US ? REST_LEAST_US : rest_us);
}

static void end_quarantine(struct scheduler *scheduler, struct group *group, bool is_wanted, int64_t now_us)
{
    const struct node *node = table_find(&scheduler->nodes, group->quarantine_node_id);
    bool is_there = node != NULL && node->group == group->entry.self && can_be_tried(node);
    int64_t given_up_us = time_add(group->quarantine_since_us, group->quarantine_wait_us);
    if (group->quarantine_node_id == 0 || (node != NULL && node->is_quarantine)) {
        return;
    }
    if (!is_there || !is_wanted || group->quarantine_is_used) {
        begin_rest(scheduler, group, now_us);
    } else if (now_us >= given_up_us) {
        int64_t wait_us = group->quarantine_wait_us;
        group->quarantine_wait_us = wait_us < EMPTY_MOST_US / 2 ? 2 * wait_us : EMPTY_MOST_US;
        begin_rest(scheduler, group, now_us);
    } else {
        decide_again_at(scheduler, now_us, given_up_us);
    }
}

static void begin_quarantine(struct scheduler *scheduler, struct group *group, const struct handed_item *item,
                             int64_t now_us)
{
    if (group->quarantine_node_id != 0) {
        return;
    }
    if (now_us < group->rest_until_us) {
        decide_again_at(scheduler, now_us, group->rest_until_us);
        return;
    }
    const struct node *node = node_to_empty(scheduler, group, queue_of(scheduler, item)->target_id);
    if (node != NULL) {
        group->quarantine_node_id = node->entry.key;
        group->quarantine_since_us = now_us;
        group->quarantine_is_used = false;
        group->quarantine_wait_us = group->quarantine_wait_us == 0 ? EMPTY_FIRST_US : group->quarantine_wait_us;
        decide_again_at(scheduler, now_us, time_add(now_us, group->quarantine_wait_us));
    }
}

static size_t place_quarantined(struct scheduler *scheduler, struct group *group, int64_t now_us,
                                struct assignment *assignments, size_t limit)
{
    struct handed_item *item = first_due(scheduler, group, now_us);
    end_quarantine(scheduler, group, item != NULL, now_us);
    if (item != NULL) {
        begin_quarantine(scheduler, group, item, now_us);
    }
    struct node *node = group->quarantine_node_id == 0 ? NULL : table_find(&scheduler->nodes, group->quarantine_node_id);
    if (node == NULL) {
        return 0;
    }
    node->is_closed = true;
    scheduler->has_closed_nodes = true;
    if (item == NULL || group->quarantine_is_used || node->held > 0 || limit == 0 ||
        !has_target(node, queue_of(scheduler, item)->target_id)) {
        return 0;
    }
    group->quarantine_is_used = true;
    group->quarantine_wait_us = EMPTY_FIRST_US;
    add_trial(scheduler, node, item->suspicion);
    handed_assign(scheduler, item, node, assignments);
    return 1;
}

/* --- suspects with a limit --- */

/* The node on which the fewest are on trial; then the one with the most room. */
static struct node *node_for_trial(const struct scheduler *scheduler, const struct group *group,
                                   const struct handed_item *item)
{
    struct node *best = NULL;
    int64_t limit = suspicion_limit(item->suspicion);
    int64_t target_id = queue_of(scheduler, item)->target_id;
    for (struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        int64_t most = limit < node->trials_most ? limit : node->trials_most;
        if (node_room(node) == 0 || node->trials >= most || !has_target(node, target_id)) {
            continue;
        }
        if (best == NULL || node->trials < best->trials ||
            (node->trials == best->trials && node_room(node) > node_room(best))) {
            best = node;
        }
    }
    return best;
}

size_t suspects_place(struct scheduler *scheduler, struct group *group, int64_t now_us, struct assignment *assignments,
                      size_t limit)
{
    size_t count = 0;
    if (group->quarantined.first != 0 || group->quarantine_node_id != 0) {
        count = place_quarantined(scheduler, group, now_us, assignments, limit);
    }
    for (uint32_t index = group->suspects.first; index != 0 && count < limit;) {
        struct handed_item *item = table_at(&scheduler->handed_over, index);
        struct node *node = node_for_trial(scheduler, group, item);
        index = item->link.after;
        if (node != NULL) {
            add_trial(scheduler, node, item->suspicion);
            handed_assign(scheduler, item, node, &assignments[count++]);
        } else if (node_to_empty(scheduler, group, queue_of(scheduler, item)->target_id) != NULL) {
            break; /* its turn comes before those behind it; an item with the target of no node holds up no other */
        }
    }
    return count;
}
