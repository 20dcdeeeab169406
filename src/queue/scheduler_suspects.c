/* Suspects of the scheduler: on which node an item that may have killed its node runs again, and beside whom.
 *
 * The rules and their reasons are in queue/suspicion.h. Slots stay taken all the time: a suspect is handed over, it never
 * goes back to its lane.
 *
 *   1. suspects_count() counts the trials of each node. A trial that is over does not count. A node with an item in
 *      quarantine is closed: nothing else is assigned to it.
 *   2. suspects_place() first decides for its group which nodes are emptied for items in quarantine. Such a node gets
 *      nothing more until it holds nothing; then it gets its item.
 *   3. Then suspects with a limit are assigned in the order of their arrival. The first one that finds no node holds back
 *      those behind it, so it finds one when the trials before it are over.
 *
 * Ordinary work goes on meanwhile: at most half of a group's nodes, and of those with one target, are emptied or in
 * quarantine, the scheduler's own last. The only node of a target rests REST_PART times as long afterwards. A node that is
 * not empty in time is given up, rests too, and the next one gets twice as long. So both kinds of work have their turn.
 *
 * A scheduler that takes over reads all suspects. It does not know which nodes were emptied; then an item may start beside
 * one in quarantine. The death of their node is not counted then, see queue/suspicion.h.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "queue/limits.h"
#include "queue/scheduler_parts.h"
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
        workspace->is_in_quarantine = false;
    } else if (due_us > workspace->quarantine_due_us) {
        workspace->quarantine_due_us = due_us;
    }
}

/* Begins anew what suspects_count() counts. */
static void forget_trials(struct scheduler *scheduler)
{
    for (struct node *node = table_from(&scheduler->nodes, 1); node != NULL;
         node = table_from(&scheduler->nodes, node->entry.self + 1)) {
        node->is_closed = node->is_quarantine = false;
        node->trials = 0;
        node->trials_most = INT64_MAX;
    }
    for (struct group *group = table_from(&scheduler->groups, 1); group != NULL;
         group = table_from(&scheduler->groups, group->entry.self + 1)) {
        group->quarantine_began_us = group->quarantine_repeated_us = group->quarantine_held_us = INT64_MIN;
    }
}

static void count_begin(struct group *group, int64_t suspicion, int64_t began_us)
{
    group->quarantine_began_us = began_us > group->quarantine_began_us ? began_us : group->quarantine_began_us;
    if (suspicion > SUSPICION_QUARANTINE && began_us > group->quarantine_repeated_us) {
        group->quarantine_repeated_us = began_us;
    }
}

/* The trial is under way. */
static void count_quarantine(struct scheduler *scheduler, const struct handed_item *item)
{
    struct group *group = table_at(&scheduler->groups, item->group);
    struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    count_begin(group, item->suspicion, item->since_us);
    if (workspace != NULL) {
        workspace->is_in_quarantine = true;
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

/* The end of a step is no news. So suspects are read again while a node is closed for one: its suspicion may be over. */
static void read_again(struct scheduler *scheduler, int64_t now_us)
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
    decide_again_at(scheduler, now_us, scheduler->suspects_read_us);
}

void suspects_count(struct scheduler *scheduler, int64_t now_us)
{
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
            decide_again_at(scheduler, now_us, end_us);
        }
        index = item->link.after;
    }
    read_again(scheduler, now_us);
}

bool suspects_have_work(const struct scheduler *scheduler)
{
    return scheduler->suspects_changed && (scheduler->handed_over.count > 0 || scheduler->has_closed_nodes);
}

/* --- nodes in quarantine --- */

static bool can_be_tried(const struct node *node)
{
    return node->accepts && node->capacity > 0;
}

static int64_t nodes_of(const struct scheduler *scheduler, const struct group *group, int64_t target_id, bool in_quarantine)
{
    int64_t count = 0;
    for (const struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        bool counts = !in_quarantine || node->quarantine.is_on || node->is_quarantine;
        count += can_be_tried(node) && has_target(node, target_id) && counts ? 1 : 0;
    }
    return count;
}

/* Half of the nodes stay with ordinary work, and half of those with a target: what was handed over needs that target. */
static bool may_begin(const struct scheduler *scheduler, const struct group *group, int64_t target_id)
{
    int64_t most = nodes_of(scheduler, group, target_id, false) / 2;
    return nodes_of(scheduler, group, target_id, true) < (most < 1 ? 1 : most);
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

/* The node that an item of the target should have: one that was emptied for such an item and is free, or else one that
 * may be emptied now. */
static struct node *node_for_quarantine(const struct scheduler *scheduler, const struct group *group, int64_t target_id,
                                        bool is_on, int64_t now_us)
{
    struct node *best = NULL;
    for (struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        const struct quarantine *quarantine = &node->quarantine;
        bool is_free = is_on ? quarantine->is_on && !quarantine->is_used && !quarantine->is_wanted
                             : !quarantine->is_on && !node->is_quarantine && quarantine->rest_until_us <= now_us;
        if (is_free && can_be_tried(node) && has_target(node, target_id) && is_better(scheduler, node, best)) {
            best = node;
        }
    }
    return best;
}

static struct node *begin_quarantine(struct scheduler *scheduler, struct group *group, int64_t target_id, int64_t now_us)
{
    struct node *node = NULL;
    if (may_begin(scheduler, group, 0) && may_begin(scheduler, group, target_id)) {
        node = node_for_quarantine(scheduler, group, target_id, false, now_us);
    }
    if (node != NULL) {
        group->quarantine_wait_us = group->quarantine_wait_us == 0 ? EMPTY_FIRST_US : group->quarantine_wait_us;
        node->quarantine = (struct quarantine){.is_on = true, .since_us = now_us, .wait_us = group->quarantine_wait_us};
    }
    return node;
}

/* The only node of its target then takes other items for REST_PART times as long as the quarantine lasted, and so does a
 * node that was emptied in vain. Else the others had a node all the time, and the next suspect follows at once. */
static void end_quarantine(struct scheduler *scheduler, const struct group *group, struct node *node, bool in_vain,
                           int64_t now_us)
{
    int64_t rest_us = REST_PART * (now_us - node->quarantine.since_us);
    rest_us = rest_us < REST_LEAST_US ? REST_LEAST_US : rest_us;
    bool rests = in_vain || nodes_of(scheduler, group, node->target_id, false) <= 1;
    node->quarantine = (struct quarantine){.rest_until_us = rests ? time_add(now_us, rest_us) : now_us};
    decide_again_at(scheduler, now_us, node->quarantine.rest_until_us);
}

/* Ends what is over: the trial, or the time in which the node should have become empty. */
static void check_quarantine(struct scheduler *scheduler, struct group *group, struct node *node, int64_t now_us)
{
    struct quarantine *quarantine = &node->quarantine;
    int64_t given_up_us = time_add(quarantine->since_us, quarantine->wait_us);
    quarantine->is_wanted = false;
    if (!quarantine->is_on) {
        decide_again_at(scheduler, now_us, quarantine->rest_until_us);
    } else if (node->is_quarantine) {
        return;
    } else if (!can_be_tried(node) || quarantine->is_used) {
        end_quarantine(scheduler, group, node, false, now_us);
    } else if (now_us >= given_up_us) {
        int64_t wait_us = quarantine->wait_us < EMPTY_MOST_US / 2 ? 2 * quarantine->wait_us : EMPTY_MOST_US;
        group->quarantine_wait_us = wait_us > group->quarantine_wait_us ? wait_us : group->quarantine_wait_us;
        end_quarantine(scheduler, group, node, true, now_us);
    }
}

/* Afterwards a node that no item wants is back, and each other one gets nothing else. */
static void close_nodes(struct scheduler *scheduler, struct group *group, int64_t now_us)
{
    group->quarantine_nodes = 0;
    for (struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        const struct quarantine *quarantine = &node->quarantine;
        if (quarantine->is_on && !quarantine->is_used && !quarantine->is_wanted) {
            end_quarantine(scheduler, group, node, false, now_us);
        }
        if (quarantine->is_on) {
            group->quarantine_nodes++;
            node->is_closed = true;
            scheduler->has_closed_nodes = true;
            decide_again_at(scheduler, now_us,
                            quarantine->is_used ? TIME_NEVER : time_add(quarantine->since_us, quarantine->wait_us));
        }
    }
}

/* --- items in quarantine --- */

/* Its delay is over, and no other item of its workspace has a node for itself or waits for one that is emptied. */
static bool is_due(struct scheduler *scheduler, const struct handed_item *item, int64_t now_us)
{
    const struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    int64_t due_us =
        workspace != NULL ? workspace->quarantine_due_us : time_add(item->since_us, suspicion_delay_us(item->suspicion));
    decide_again_at(scheduler, now_us, due_us);
    return due_us <= now_us && (workspace == NULL || !workspace->is_in_quarantine);
}

/* Whether an item of any target can have a node. */
static bool has_place(const struct scheduler *scheduler, const struct group *group, int64_t now_us)
{
    return node_for_quarantine(scheduler, group, 0, true, now_us) != NULL ||
           (may_begin(scheduler, group, 0) && node_for_quarantine(scheduler, group, 0, false, now_us) != NULL);
}

/* When the trial of this item may begin: at a distance from others of the group that are under way. After its first one
 * alone also from those at their first, since it may have died together with another killer. */
static int64_t begin_us(const struct group *group, const struct handed_item *item)
{
    int64_t began_us = item->suspicion > SUSPICION_QUARANTINE ? group->quarantine_began_us : group->quarantine_repeated_us;
    began_us = group->quarantine_held_us > began_us ? group->quarantine_held_us : began_us;
    return began_us == INT64_MIN ? INT64_MIN : time_add(began_us, DISTANCE_US);
}

/* The item waits for the node, or is assigned to it; then true. `assignment` may be NULL. */
static bool take_node(struct scheduler *scheduler, struct group *group, struct handed_item *item, struct node *node,
                      int64_t now_us, struct assignment *assignment)
{
    struct workspace *workspace = table_find(&scheduler->workspaces, lane_workspace_id(item->lane_id));
    int64_t next_us = begin_us(group, item);
    node->quarantine.is_wanted = true;
    if (workspace != NULL) {
        workspace->is_in_quarantine = true;
    }
    if (assignment == NULL || node->held > 0) {
        return false;
    }
    if (now_us < next_us) {
        group->quarantine_held_us = next_us - DISTANCE_US; /* those behind it do not begin before it */
        decide_again_at(scheduler, now_us, next_us);
        return false;
    }
    node->quarantine.is_used = true;
    group->quarantine_wait_us = EMPTY_FIRST_US;
    count_begin(group, item->suspicion, now_us);
    add_trial(scheduler, node, item->suspicion);
    handed_assign(scheduler, item, node, assignment);
    return true;
}

static size_t place_quarantined(struct scheduler *scheduler, struct group *group, int64_t now_us,
                                struct assignment *assignments, size_t limit)
{
    size_t count = 0;
    for (struct node *node = next_node(scheduler, group->nodes.first); node != NULL;
         node = next_node(scheduler, node->of_group.after)) {
        check_quarantine(scheduler, group, node, now_us);
    }
    bool goes_on = has_place(scheduler, group, now_us);
    for (uint32_t index = group->quarantined.first; index != 0 && goes_on;) {
        struct handed_item *item = table_at(&scheduler->handed_over, index);
        int64_t target_id = queue_of(scheduler, item)->target_id;
        index = item->link.after;
        if (!is_due(scheduler, item, now_us)) {
            continue;
        }
        struct node *node = node_for_quarantine(scheduler, group, target_id, true, now_us);
        node = node != NULL ? node : begin_quarantine(scheduler, group, target_id, now_us);
        if (node != NULL) {
            struct assignment *assignment = count < limit ? &assignments[count] : NULL;
            count += take_node(scheduler, group, item, node, now_us, assignment) ? 1 : 0;
            goes_on = has_place(scheduler, group, now_us);
        }
    }
    close_nodes(scheduler, group, now_us);
    return count;
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
    if (group->quarantined.first != 0 || group->quarantine_nodes > 0) {
        count = place_quarantined(scheduler, group, now_us, assignments, limit);
    }
    for (uint32_t index = group->suspects.first; index != 0 && count < limit;) {
        struct handed_item *item = table_at(&scheduler->handed_over, index);
        struct node *node = node_for_trial(scheduler, group, item);
        index = item->link.after;
        if (node != NULL) {
            add_trial(scheduler, node, item->suspicion);
            handed_assign(scheduler, item, node, &assignments[count++]);
        } else if (nodes_of(scheduler, group, queue_of(scheduler, item)->target_id, false) > 0) {
            break; /* its turn comes before those behind it; one whose target no node has holds up no other */
        }
    }
    return count;
}
