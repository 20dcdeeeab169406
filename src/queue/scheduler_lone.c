/* The offer for a lone item: see struct lone_offer in queue/scheduler.h. Called by the loop, in the dispatch thread.
 *
 * A start on an idle node costs a round that reads the news and the heads, and a round that records the assignment. With
 * an offer it costs one: the store does what scheduler_assign() would do. So the offer leaves no choice open:
 *
 *   1. No other item waits or may wait: no heads, no lane but idle ones, none handed over, no suspect.
 *   2. Every kind of lane in the offer goes to one node. It is the node that best_node() chooses now.
 *   3. The offer names the slots that are taken in memory, which are never fewer than those in the store.
 *
 * Nothing changes here. scheduler_assign() makes the same decision again when the caller has learnt the item.
 */
#include "base/error.h"
#include "queue/scheduler_internal.h"

/* Only idle lanes are left, and no item that was handed over or is on trial. */
static bool has_only_idle_lanes(const struct scheduler *scheduler)
{
    return scheduler->heads == 0 && scheduler->list_counts[LANE_IDLE] == scheduler->lanes.count &&
           scheduler->handed_over.count == 0 && !scheduler->has_closed_nodes && !scheduler->passes_loaded;
}

/* False: more workspaces hold slots than an offer can name. */
static bool list_holders(const struct scheduler *scheduler, struct lone_offer *offer)
{
    for (const struct workspace *workspace = table_from(&scheduler->workspaces, 1); workspace != NULL;
         workspace = table_from(&scheduler->workspaces, workspace->entry.self + 1)) {
        if (workspace->cap.held == 0) {
            continue;
        }
        if (offer->workspace_count == LONE_WORKSPACES_MOST) {
            return false;
        }
        offer->workspaces[offer->workspace_count] = workspace->entry.key;
        offer->held[offer->workspace_count++] = workspace->cap.held;
    }
    return true;
}

/* The kinds of lanes that go to the same node as the first one. */
static void list_kinds(const struct scheduler *scheduler, struct lone_offer *offer)
{
    for (const struct demand *demand = table_from(&scheduler->demands, 1);
         demand != NULL && offer->kind_count < LONE_KINDS_MOST;
         demand = table_from(&scheduler->demands, demand->entry.self + 1)) {
        const struct pool *pool = table_at(&scheduler->pools, demand->pool);
        const struct node *node = pool_runs(scheduler, pool)
                                      ? best_node(scheduler, pool, (struct need){.handler_set = demand->handler_set})
                                      : NULL;
        if (node != NULL && (offer->node_id == 0 || offer->node_id == node->entry.key)) {
            offer->node_id = node->entry.key;
            offer->kinds[offer->kind_count++] = demand->entry.key;
        }
    }
}

void scheduler_offer_lone(const struct scheduler *scheduler, struct lone_offer *ret_offer)
{
    INVARIANT(scheduler != NULL && ret_offer != NULL);
    *ret_offer = (struct lone_offer){.node_id = 0};
    if (has_only_idle_lanes(scheduler) && list_holders(scheduler, ret_offer)) {
        list_kinds(scheduler, ret_offer);
    }
}
