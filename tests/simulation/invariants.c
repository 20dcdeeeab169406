/* The rules that must always hold, checked on the model, the engine's ledger and the store. */
#include <stdlib.h>
#include <string.h>

#include "simulation/simulation.h"

/* --- 8: counters equal rows --- */

int64_t cap_of(const struct simulation *simulation, const struct model_workspace *workspace)
{
    int64_t cap = workspace->own_max;
    for (int plan = 0; cap == 0 && plan < 4; plan++) {
        cap = strcmp(plan_names[plan], workspace->plan) == 0 ? simulation->plan_max[plan] : 0;
    }
    return cap;
}

static void check_workspaces(struct simulation *simulation)
{
    question_ask(simulation->read_counters);
    while (question_next(simulation->read_counters)) {
        for (int i = 0; i < simulation->profile.workspaces; i++) {
            const struct model_workspace *workspace = &simulation->workspaces[i];
            if (workspace->row_id != question_number(simulation->read_counters, 0)) {
                continue;
            }
            int64_t wanted = cap_of(simulation, workspace);
            if (simulation->actor != OUTSIDE && wanted != workspace->slots_max) {
                fail(simulation, CAP_IS_KEPT, "%s: slots_max is %lld, its plan %s says %lld", workspace->name,
                     (long long)workspace->slots_max, workspace->plan, (long long)wanted);
            }
        }
    }
    question_end(simulation->read_counters);
}

bool lane_is_ready(const struct simulation *simulation, const struct model_lane *lane)
{
    const struct model_workspace *workspace = &simulation->workspaces[lane->workspace];
    return lane->runnable > 0 && !workspace->paused && workspace->held < workspace->slots_max;
}

void check_counters(struct simulation *simulation)
{
    check_workspaces(simulation);
    question_ask(simulation->read_lanes);
    while (question_next(simulation->read_lanes)) {
        for (size_t i = 0; i < simulation->lane_count; i++) {
            const struct model_lane *lane = &simulation->lanes[i];
            if (lane->row_id != question_number(simulation->read_lanes, 0)) {
                continue;
            }
            if (question_number(simulation->read_lanes, 1) != lane->runnable ||
                question_number(simulation->read_lanes, 2) != lane->waiting ||
                question_number(simulation->read_lanes, 3) != lane->held ||
                question_number(simulation->read_lanes, 4) != lane->parked) {
                fail(simulation, COUNTERS_EQUAL_ROWS,
                     "lane %lld has %lld runnable, %lld delayed, %lld held and %lld parked rows, and its books and news "
                     "count others",
                     (long long)lane->row_id, (long long)lane->runnable, (long long)lane->waiting, (long long)lane->held,
                     (long long)lane->parked);
            }
        }
    }
    question_end(simulation->read_lanes);
}

/* --- 2 and 3: the runs of the engine --- */

static void check_one_engine(struct simulation *simulation, const struct scripted_world *engine)
{
    const char *broken = scripted_world_broken(engine);
    if (broken != NULL) {
        fail(simulation, ONE_RUN_PER_ITEM, "%s", broken);
    }
    if (scripted_world_open_runs(engine, NULL) == 0) {
        return;
    }
    for (size_t i = 0; scripted_world_entry_at(engine, i) != NULL; i++) {
        const struct scripted_entry *entry = scripted_world_entry_at(engine, i);
        struct model_item *item = entry->runs_open > 0 ? observer_find(simulation, entry->id) : NULL;
        check_handler(simulation, entry, item);
        if (entry->runs_open > 0 && (item == NULL || item->place != PLACE_LIVE || item->phase != 2)) {
            fail(simulation, ONE_RUN_PER_ITEM, "%s runs though it is %s", entry->id,
                 item == NULL ? "unknown" : item_state_name(item->state));
        }
        /* Where a clock is set, the time of the store is not that of the engine. */
        if (entry->began_while_waiting && simulation->profile.clock_step == 0 && simulation->profile.reboot == 0) {
            fail(simulation, THE_MODEL_HOLDS, "%s ran before its wait was over", entry->id);
        }
    }
}

/* Never in two namespaces: an item that may run in one is not started in the other. */
static void check_one_place_each(struct simulation *simulation, int place)
{
    const struct scripted_world *engine = simulation->engines[place];
    for (size_t i = 0; scripted_world_entry_at(engine, i) != NULL; i++) {
        const struct scripted_entry *entry = scripted_world_entry_at(engine, i);
        for (int other = place + 1; entry->runs_begun > 0 && other < simulation->place_count; other++) {
            const struct scripted_entry *twin = scripted_world_entry(simulation->engines[other], entry->id);
            if (twin != NULL && twin->runs_begun > 0) {
                fail(simulation, ONE_RUN_PER_ITEM, "%s was run in two places", entry->id);
            }
        }
    }
}

/* By what the engines run, whatever the store says. A cap that was lowered holds for what is assigned from then on, so what
 * was held before counts too; check_claim() looks at the store's own count. */
static void check_open_runs(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.workspaces; i++) {
        const struct model_workspace *workspace = &simulation->workspaces[i];
        int64_t cap = cap_of(simulation, workspace);
        int64_t open = 0;
        for (int place = 0; place < simulation->place_count; place++) {
            open += scripted_world_open_runs(simulation->engines[place], workspace->name);
        }
        if (open > cap && open > workspace->held) {
            fail(simulation, CAP_IS_KEPT, "%s has %lld open runs, %lld of %lld slots in use", workspace->name,
                 (long long)open, (long long)workspace->held, (long long)cap);
        }
    }
}

void check_engine(struct simulation *simulation)
{
    for (int place = 0; place < simulation->place_count; place++) {
        check_one_engine(simulation, simulation->engines[place]);
        if (simulation->profile.is_mixed) {
            check_one_place_each(simulation, place);
        }
    }
    check_open_runs(simulation);
}

/* --- 3: the cap --- */

/* Among equal ranks: on SQLite the order of the inserts, on PostgreSQL that of the ids. */
static bool goes_before(const struct simulation *simulation, const struct model_item *left, const struct model_item *right)
{
    if (left->rank != right->rank) {
        return left->rank < right->rank;
    }
    return simulation->options.store == SIMULATED_POSTGRES ? strcmp(left->id, right->id) < 0
                                                           : left->entered < right->entered;
}

static const struct simulated_node *node_with_id(const struct simulation *simulation, int64_t id)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        const struct simulated_node *node = &simulation->nodes[i];
        if (node->node != NULL && node_id(node->node) == id) {
            return node;
        }
    }
    return NULL;
}

/* A lane has its turns where a node can serve it. */
static bool can_serve(const struct simulation *simulation, const struct model_lane *lane, const struct model_item *item,
                      int64_t node_id)
{
    return lane->pool == observer_lane(simulation, item)->pool &&
           (handlers_on_record(simulation, node_id) & lane->needs) == lane->needs;
}

void note_take_over(struct simulation *simulation, const struct model_item *item, int64_t node_id)
{
    for (size_t i = 0; i < simulation->lane_count; i++) {
        struct model_lane *lane = &simulation->lanes[i];
        lane->last_take_over_us =
            can_serve(simulation, lane, item, node_id) ? simulation->boot_us : lane->last_take_over_us;
    }
}

void check_place(struct simulation *simulation, struct model_item *item, int64_t node_id)
{
    handlers_check_claim(simulation, item, node_id);
    const struct simulated_node *node = node_with_id(simulation, node_id);
    if (node == NULL) {
        return; /* it has died since */
    }
    if (observer_lane(simulation, item)->pool != world_pool(node)) {
        fail(simulation, THE_MODEL_HOLDS, "%s was given to a node whose engine cannot run it", item->id);
    } else if (item->run_place >= 0 && item->run_place != node->place) {
        fail(simulation, ONE_RUN_PER_ITEM, "%s was started in place %d and given to a node of place %d", item->id,
             item->run_place, node->place);
    }
    item->run_place = node->place;
}

/* The node that the scheduler has chosen; it may have died since. */
static void check_target(struct simulation *simulation, const struct model_item *item, const struct model_lane *lane,
                         int64_t id)
{
    const struct simulated_node *node = node_with_id(simulation, id);
    if (node != NULL && node->desired_state != NODE_RUN) {
        fail(simulation, THE_MODEL_HOLDS, "%s was assigned to a node that an operator has told to %s", item->id,
             desired_state_name(node->desired_state));
    }
    if ((node != NULL && lane->group != node->group) || simulation->group_paused[lane->group]) {
        fail(simulation, THE_MODEL_HOLDS, "%s was assigned to a node of another group, or its group is paused", item->id);
    }
}

void check_claim(struct simulation *simulation, const struct model_item *item, int64_t node_id, int64_t fence)
{
    const struct model_workspace *workspace = &simulation->workspaces[item->workspace];
    if (workspace->held > cap_of(simulation, workspace)) {
        fail(simulation, CAP_IS_KEPT, "%s was claimed and %s has %lld of %lld slots in use", item->id, workspace->name,
             (long long)workspace->held, (long long)cap_of(simulation, workspace));
    }
    if (simulation->actor == OUTSIDE || strcmp(simulation->verb, "schedule") != 0 || workspace->paused ||
        simulation->queue_paused || item->phase != 0) {
        fail(simulation, THE_MODEL_HOLDS, "%s was assigned by %s in phase %d while %s", item->id, simulation->verb,
             item->phase,
             workspace->paused          ? "its workspace is paused"
             : simulation->queue_paused ? "the queue is paused"
                                        : "it may not be");
        return;
    }
    if (fence < simulation->fence_most || fence <= item->fence) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s was claimed under the old fence %lld", item->id, (long long)fence);
    }
    simulation->fence_most = fence;
    if (simulation->profile.clock_step == 0 && !item->was_released && item->run_at > observer_store_time(simulation)) {
        fail(simulation, THE_MODEL_HOLDS, "%s was claimed %lld us before its start time", item->id,
             (long long)(item->run_at - observer_store_time(simulation)));
    }
    for (size_t i = 0; i < simulation->lane_count; i++) {
        struct model_lane *lane = &simulation->lanes[i];
        if (can_serve(simulation, lane, item, node_id)) {
            lane->last_claim_us = simulation->boot_us;
            lane->passed_now += lane->workspace != item->workspace;
        }
        if (lane->row_id != item->lane_id) {
            continue;
        }
        lane->claimed++;
        check_target(simulation, item, lane, node_id);
        if (lane->worst == NULL || goes_before(simulation, lane->worst, item)) {
            lane->worst = item;
        }
    }
}

/* --- 4 and 5: order in a lane, and among lanes --- */

/* An item that became runnable after the scheduler's last round is unknown to it: it goes first from the next round on. */
static int64_t news_seen(const struct simulation *simulation)
{
    return simulation->actor == OUTSIDE ? 0 : simulation->nodes[simulation->actor].news_seen;
}

/* The item is of this lane, or of one in the same share. An assignment that was not carried out lets the next lane of its
 * workspace go first. */
static bool is_in_one_order(const struct simulation *simulation, const struct model_item *item,
                            const struct model_lane *lane)
{
    return item->lane_id == lane->row_id ||
           (!simulation->is_cut_short && handlers_share(simulation, observer_lane(simulation, item), lane));
}

static void check_lane_order(struct simulation *simulation, const struct model_lane *lane)
{
    for (size_t i = 0; i < simulation->item_count; i++) {
        const struct model_item *item = &simulation->items[i];
        if (item->place == PLACE_LIVE && item->workspace == lane->workspace && item->phase == 0 &&
            item->runnable_since <= news_seen(simulation) && goes_before(simulation, item, lane->worst) &&
            is_in_one_order(simulation, item, lane)) {
            fail(simulation, FIRST_IN_FIRST_OUT,
                 "%s was claimed before %s%s, which was runnable and comes first (ranks %lld, %lld)", lane->worst->id,
                 item->id, item->lane_id == lane->row_id ? "" : " of another lane of its share",
                 (long long)lane->worst->rank, (long long)item->rank);
        }
    }
}

/* Items of others that may pass a ready lane: two rounds of the stride order, and what all nodes have room for while the
 * lane's news and heads are read. */
static int64_t patience(const struct simulation *simulation, const struct model_lane *lane)
{
    int64_t turns = CLAIM_BATCH_DEFAULT + (int64_t)simulation->profile.room * simulation->profile.nodes;
    int64_t shares = simulation->profile.has_sets ? HANDLER_NEEDS : 1; /* they take turns, one item each */
    int64_t own = simulation->workspaces[lane->workspace].weight;
    for (size_t i = 0; i < simulation->lane_count; i++) {
        int64_t weight = simulation->workspaces[simulation->lanes[i].workspace].weight;
        turns += simulation->lanes[i].pool == lane->pool ? 2 * shares * ((weight + own - 1) / own + 1) : 0;
    }
    return turns;
}

/* By an item of this lane, or of another one of the workspace in the same share: they have one pass. */
static bool has_had_a_turn(const struct simulation *simulation, const struct model_lane *lane)
{
    bool has = false;
    for (size_t i = 0; i < simulation->lane_count && !has; i++) {
        const struct model_lane *other = &simulation->lanes[i];
        has = other->claimed > 0 && handlers_share(simulation, other, lane);
    }
    return has;
}

static void check_fairness(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->lane_count; i++) {
        struct model_lane *lane = &simulation->lanes[i];
        if (has_had_a_turn(simulation, lane) || !lane_is_ready(simulation, lane) || lane->ready_since == 0 ||
            lane->ready_since > news_seen(simulation)) {
            lane->passed_over = 0;
            continue;
        }
        lane->passed_over += lane->passed_now;
        if (lane->passed_over > patience(simulation, lane)) {
            fail(simulation, NOBODY_STARVES, "lane %lld of %s was ready while %lld items of others were claimed",
                 (long long)lane->row_id, simulation->workspaces[lane->workspace].name, (long long)lane->passed_over);
        }
    }
}

void check_order(struct simulation *simulation)
{
    bool claimed = false;
    for (size_t i = 0; i < simulation->lane_count; i++) {
        claimed = claimed || simulation->lanes[i].claimed > 0;
        if (simulation->lanes[i].claimed > 0) {
            check_lane_order(simulation, &simulation->lanes[i]);
        }
    }
    if (claimed) {
        check_fairness(simulation);
    }
    for (size_t i = 0; i < simulation->lane_count; i++) {
        struct model_lane *lane = &simulation->lanes[i];
        bool ready = lane_is_ready(simulation, lane);
        lane->claimed = 0;
        lane->passed_now = 0;
        lane->worst = NULL;
        lane->ready_since = !ready ? 0 : lane->ready_since == 0 ? simulation->changes_seen : lane->ready_since;
    }
}

/* --- 2, 6, 10: an end has a cause --- */

/* Whether the engines have refused it for good, or as often as it has starts. Each place knows of its own refusals. */
static bool was_refused_enough(const struct simulation *simulation, const char *id)
{
    int refusals = 0;
    for (int place = 0; place < simulation->place_count; place++) {
        const struct scripted_entry *entry = scripted_world_entry(simulation->engines[place], id);
        refusals += entry == NULL ? 0 : entry->refused_for_good ? simulation->profile.starts_max : entry->refusals;
    }
    return refusals >= simulation->profile.starts_max;
}

/* Nothing fails for a reason that the engine has not given, except what keeps losing its nodes. */
static void check_failure(struct simulation *simulation, const struct model_item *item)
{
    if (strcmp(item->error_code, "poison") == 0) {
        if (world_outlives_nodes(simulation, item) || item->hand_overs < HANDOVERS_MAX - 1) {
            fail(simulation, THE_MODEL_HOLDS, "%s is poison after %d handovers", item->id, item->hand_overs);
        }
    } else if (strcmp(item->error_code, "scripted_failure") != 0 && strcmp(item->error_code, "scripted_refusal") != 0) {
        fail(simulation, THE_MODEL_HOLDS, "%s is FAILED as %s, which the engine never said", item->id, item->error_code);
    }
}

void check_end(struct simulation *simulation, const struct model_item *item)
{
    const struct scripted_entry *entry = world_engine_entry(simulation, item->id);
    bool came_to = entry != NULL && entry->ended && (entry->end_fence == 0 || entry->end_fence == item->fence);
    if (entry != NULL && entry->runs_open > 0) {
        fail(simulation, ONE_RUN_PER_ITEM, "%s is %s while it runs", item->id, item_state_name(item->state));
    } else if (item->state == ITEM_COMPLETED && (!came_to || entry->end != END_COMPLETED)) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s is COMPLETED under fence %lld, the engine knows of no such end",
             item->id, (long long)item->fence);
    } else if (item->state == ITEM_CANCELLED && !item->cancel_asked && simulation->actor != OUTSIDE &&
               !schedules_may_cancel(simulation, item) && !children_may_cancel(simulation, item)) {
        fail(simulation, THE_MODEL_HOLDS, "%s is CANCELLED, which nobody asked for", item->id);
    } else if (item->state == ITEM_FAILED && strcmp(item->error_code, "scripted_failure") == 0 &&
               (!came_to || entry->end != END_FAILED)) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s is FAILED under fence %lld, the engine knows of no such end", item->id,
             (long long)item->fence);
    } else if (item->state == ITEM_FAILED && strcmp(item->error_code, "scripted_refusal") == 0 &&
               !was_refused_enough(simulation, item->id)) {
        fail(simulation, THE_MODEL_HOLDS, "%s is FAILED after fewer than %d refusals", item->id,
             simulation->profile.starts_max);
    } else if (item->state == ITEM_FAILED) {
        check_failure(simulation, item);
    }
}

/* --- the store's own check, and the end --- */

void check_store(struct simulation *simulation)
{
    json_t *problems = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (failed(simulation)) {
        return;
    }
    if (store_check(simulation->outside, &problems, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "store_check: %s", error.message);
    } else if (json_array_size(problems) > 0) {
        const char *problem = json_string_value(json_array_get(problems, 0));
        fail(simulation, THE_MODEL_HOLDS, "store_check found %zu problems: %s", json_array_size(problems),
             problem == NULL ? "?" : problem);
    }
    json_decref(problems);
}

void check_everything_ended(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->item_count && !failed(simulation); i++) {
        const struct model_item *item = &simulation->items[i];
        if (item->place != PLACE_LIVE) {
            continue;
        }
        json_t *why = NULL;
        const struct scripted_entry *entry = world_engine_entry(simulation, item->id);
        if (entry != NULL) {
            say(simulation, "the engine: %d starts, %d runs, %d open, ended %d, durably %d, on the way %d",
                entry->starts_requested, entry->runs_begun, entry->runs_open, entry->ended, entry->ended_durably,
                entry->on_the_way);
        }
        char *text = store_why(simulation->outside, item->id, &why, NULL) == WEIR_OK ? json_dumps(why, JSON_COMPACT) : NULL;
        fail(simulation, EVERY_CLAIM_ENDS, "item %zu %s is still %s (node %lld, fence %lld): %s", i, item->id,
             item_state_name(item->state), (long long)item->node_id, (long long)item->fence, text == NULL ? "" : text);
        free(text);
        json_decref(why);
    }
    for (int place = 0; place < simulation->place_count; place++) {
        if (scripted_world_open_runs(simulation->engines[place], NULL) > 0) {
            fail(simulation, ONE_RUN_PER_ITEM, "something still runs though everything has ended");
        }
    }
}

/* --- 10 and 11: store time --- */

static void check_times_of(struct simulation *simulation, const struct question *row)
{
    const struct model_item *item = observer_find(simulation, question_text(row, 0));
    int64_t created_us = question_number(row, 1);
    int64_t claimed_us = question_number(row, 2);
    int64_t dispatched_us = question_number(row, 3);
    int64_t finished_us = question_number(row, 4);
    /* After a handover or a park the claim is the last node's, the dispatch still the first one's. */
    bool swapped = dispatched_us < claimed_us && item != NULL && item->take_overs == 0 && item->parks == 0;
    if (claimed_us < created_us || dispatched_us < created_us || finished_us < claimed_us || finished_us < dispatched_us ||
        swapped) {
        fail(simulation, WALL_CLOCKS_DECIDE_NOTHING,
             "time went back for %s: claimed %lld us, dispatched %lld us, ended %lld us after its enqueue",
             question_text(row, 0), (long long)(claimed_us - created_us), (long long)(dispatched_us - created_us),
             (long long)(finished_us - created_us));
    }
}

/* Where the server's clock was set, its stamps tell of that and of nothing else. */
void check_times(struct simulation *simulation)
{
    static const char stamps[] = "SELECT id, created_at, coalesce(claimed_at, created_at),"
                                 " coalesce(dispatched_at, claimed_at, created_at), finished_at FROM workflow_executions";
    if (failed(simulation) || simulation->profile.clock_step > 0) {
        return;
    }
    struct question *rows = question_prepare(simulation, stamps);
    question_ask(rows);
    while (!failed(simulation) && question_next(rows)) {
        check_times_of(simulation, rows);
    }
    question_close(rows);
}
