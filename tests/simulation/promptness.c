/* When all is calm, what may go on does so soon. That everything ends at last (invariant 6) is not enough: the safety nets
 * and the polls would hide a lost wake-up, a timer that was not set, a dead node that nobody looks for.
 *
 * A node counts as steady when it could claim at every look for a while. A thing that only waits for a steady node of its
 * group, and for longer than a few polls, has been forgotten.
 *
 * No commit wakes another node here. So the scheduler finds a place that was freed elsewhere with its next round, at most
 * SCHEDULER_IDLE_US later. Many items that wait for the only place of a node get it one by one, and the last of them waits
 * for as many rounds. Therefore a lane counts from the last claim of its pool, and a handed-over item from the last
 * takeover. */
#include "simulation/simulation.h"

#include "queue/suspicion.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define PROMPT_US (20 * SECOND_US) /* four polls; a heartbeat brings the desired state, the breaker tries after 5 s */
#define DEATH_US (2 * SECOND_US)   /* somebody looks for dead nodes each second */

/* A node that an item in quarantine waits for has got rid of all starts and late answers of the time of faults by then. */
#define EMPTYING_US (60 * SECOND_US)

/* A node that was emptied then takes other items for four times as long. */
enum { ITEMS_EVERY = 16, QUARANTINE_AND_REST = 5 };

void promptness_begin(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        simulation->nodes[i].steady_since_us = simulation->boot_us;
    }
    for (size_t i = 0; i < simulation->lane_count; i++) {
        simulation->lanes[i].idle_since_us = simulation->boot_us;
    }
}

static bool is_able(const struct simulation *simulation, const struct simulated_node *node)
{
    return node->life == NODE_ALIVE && !node->died && node->desired_state == NODE_RUN && !simulation->queue_paused &&
           !simulation->group_paused[node->group] && engine_free_capacity(node->engine) > 0 &&
           node_reaches_engine(node->node);
}

/* Some node of the pool with these handlers, and of the place if that is not -1, was able at every look since then; the
 * latest time when there is none. */
static int64_t steady_since(const struct simulation *simulation, int pool, unsigned needs, int place)
{
    int64_t since_us = TIME_NEVER;
    for (int i = 0; i < simulation->profile.nodes; i++) {
        const struct simulated_node *node = &simulation->nodes[i];
        if (world_pool(node) == pool && (node->handlers & needs) == needs && (place < 0 || node->place == place) &&
            node->steady_since_us < since_us) {
            since_us = node->steady_since_us;
        }
    }
    return since_us;
}

static void look_at_nodes(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (!is_able(simulation, node)) {
            node->steady_since_us = simulation->boot_us;
        }
    }
}

static bool is_overdue(const struct simulation *simulation, int pool, unsigned needs, int place, int64_t since_us,
                       int64_t patience_us)
{
    int64_t steady_us = steady_since(simulation, pool, needs, place);
    since_us = steady_us > since_us ? steady_us : since_us;
    return since_us != TIME_NEVER && simulation->boot_us - since_us > patience_us;
}

static bool owner_lives(const struct simulation *simulation, int64_t id)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        const struct simulated_node *node = &simulation->nodes[i];
        if (node->node != NULL && !node->died && node_id(node->node) == id) {
            return true;
        }
    }
    return false;
}

/* For how long suspects may keep the next takeover waiting (queue/suspicion.h): for a trial, and in quarantine also for the
 * delay, an empty node and its rest. */
static int64_t patience_with_suspects(struct simulation *simulation)
{
    struct question *rows =
        question_prepare(simulation, "SELECT max(suspicion) FROM workflow_execution_queue WHERE phase = 2");
    question_ask(rows);
    int64_t suspicion = question_next(rows) ? question_number(rows, 0) : 0;
    question_close(rows);
    int64_t trial_us = suspicion_trial_us(suspicion);
    if (suspicion < SUSPICION_LIMITED) {
        return 0;
    }
    return suspicion < SUSPICION_QUARANTINE
               ? trial_us
               : suspicion_delay_us(suspicion) + QUARANTINE_AND_REST * (trial_us + EMPTYING_US);
}

static void look_at_lane(struct simulation *simulation, struct model_lane *lane)
{
    if (!lane_is_ready(simulation, lane) || lane->last_claim_us == simulation->boot_us) {
        lane->idle_since_us = simulation->boot_us;
    }
    /* The only node that can serve it may be kept empty for a suspect, while others work on. */
    if (is_overdue(simulation, lane->pool, lane->needs, -1, lane->idle_since_us, PROMPT_US) &&
        (!simulation->profile.has_sets || is_overdue(simulation, lane->pool, lane->needs, -1, lane->idle_since_us,
                                                     PROMPT_US + patience_with_suspects(simulation)))) {
        fail(simulation, NOBODY_STARVES, "lane %lld of %s has been ready for %lld ms, with a node that is able to claim",
             (long long)lane->row_id, simulation->workspaces[lane->workspace].name,
             (long long)(simulation->boot_us - lane->idle_since_us) / MICROSECONDS_PER_MS);
    }
}

static void look_at_handed_over(struct simulation *simulation, const struct model_item *item, int pool)
{
    int64_t taken_us = observer_lane(simulation, item)->last_take_over_us;
    int64_t since_us = item->changed_us > taken_us ? item->changed_us : taken_us;
    if (is_overdue(simulation, pool, item->needs, item->run_place, since_us, PROMPT_US) &&
        is_overdue(simulation, pool, item->needs, item->run_place, since_us,
                   PROMPT_US + patience_with_suspects(simulation))) {
        fail(simulation, EVERY_CLAIM_ENDS, "%s was handed over %lld ms ago and nobody takes it, nor others for %lld ms",
             item->id, (long long)(simulation->boot_us - item->changed_us) / MICROSECONDS_PER_MS,
             (long long)(simulation->boot_us - since_us) / MICROSECONDS_PER_MS);
    }
}

static void look_at_item(struct simulation *simulation, const struct model_item *item, int64_t now_us)
{
    int pool = observer_lane(simulation, item)->pool;
    int64_t orphaned_us = item->changed_us > simulation->last_death_us ? item->changed_us : simulation->last_death_us;
    int64_t lease_us = simulation->profile.lease_us + DEATH_US + PROMPT_US;
    if ((item->phase == 1 || item->phase == 3) && now_us - item->due_at > PROMPT_US &&
        is_overdue(simulation, pool, 0, -1, item->changed_us, PROMPT_US)) {
        fail(simulation, NOBODY_STARVES, "%s was due %lld ms ago and is not promoted", item->id,
             (long long)(now_us - item->due_at) / MICROSECONDS_PER_MS);
    } else if (item->phase == 2 && item->node_id == 0) {
        look_at_handed_over(simulation, item, pool);
    } else if (item->phase == 2 && item->node_id != 0 && !owner_lives(simulation, item->node_id) &&
               is_overdue(simulation, pool, 0, item->run_place, orphaned_us, lease_us)) {
        fail(simulation, EVERY_CLAIM_ENDS, "%s is held by the dead node %lld since %lld ms", item->id,
             (long long)item->node_id, (long long)(simulation->boot_us - orphaned_us) / MICROSECONDS_PER_MS);
    }
}

void check_promptness(struct simulation *simulation)
{
    if (failed(simulation) || simulation->profile.exclusive) {
        return; /* exclusive: the lock of a dead holder keeps all nodes away for four minutes */
    }
    look_at_nodes(simulation);
    for (size_t i = 0; i < simulation->lane_count; i++) {
        look_at_lane(simulation, &simulation->lanes[i]);
    }
    if (simulation->step % ITEMS_EVERY != 0) {
        return;
    }
    int64_t now_us = observer_store_time(simulation);
    for (size_t i = 0; i < simulation->item_count; i++) {
        if (simulation->items[i].place == PLACE_LIVE) {
            look_at_item(simulation, &simulation->items[i], now_us);
        }
    }
}
