/* Workflows that need different handlers, and nodes that have different ones.
 *
 * So a workspace has several lanes in a pool, and the nodes of a pool cannot all serve each lane. The nodes' sets change
 * with restarts and by acts. The engine of a node refuses a start without its handler, as a real one does
 * (scripted_set_handlers()). The model has two sets of each node: the one that it has now, and the one on record, which
 * follows with a heartbeat. The rules, by those on record:
 *
 *   1. The lane of an item names the handlers of its workflow.
 *   2. No item is given to a node that has not all of them on record at the commit. The loss of a handler is an act, so
 *      the store refuses a round that has not read it.
 *   3. Lanes of one workspace that exactly the same nodes can serve are in one share: their items go by rank and id, over
 *      all of them (check_order()).
 *   4. A lane counts as passed over only by items that went to nodes that could have served it, and as forgotten only
 *      while such a node is able (check_order(), check_promptness()). So a lane that no node can serve may wait, and must
 *      not delay another one: at first no node of a calm fleet has one of the handlers. */
#include "simulation/handlers.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "simulation/simulation.h"

#define WITHOUT_GAMMA_US (90 * MICROSECONDS_PER_SECOND)

enum { ALPHA = 1, BETA = 2, GAMMA = 4, WORK = 8 };

static const char *const handler_names[HANDLERS_SIMULATED] = {"alpha", "beta", "gamma", "work"};

#define ASK "\"ask\":{\"signal\":\"" ASKED "\"}}}"
/* The last two keep their lanes waiting for longer: few nodes have all that they need. */
static const struct {
    const char *name;
    unsigned needs;
    const char *definition;
} flows[] = {
    {"flow-none", 0, "{\"name\":\"flow-none\",\"steps\":{" ASK},
    {"flow-a", ALPHA, "{\"name\":\"flow-a\",\"steps\":{\"work\":{\"handler\":\"alpha\"}," ASK},
    {"flow-b", BETA, "{\"name\":\"flow-b\",\"steps\":{\"work\":{\"handler\":\"beta\"}," ASK},
    {"flow-ab", ALPHA | BETA,
     "{\"name\":\"flow-ab\",\"steps\":{\"work\":{\"handler\":\"alpha\"},\"more\":{\"handler\":\"beta\"}," ASK},
    {"flow-c", GAMMA, "{\"name\":\"flow-c\",\"steps\":{\"work\":{\"handler\":\"gamma\"}," ASK},
};
enum { FLOWS = sizeof flows / sizeof flows[0] };

/* --- sets --- */

static void write_set(unsigned set, char text[HANDLERS_TEXT_MAX])
{
    size_t length = (size_t)snprintf(text, HANDLERS_TEXT_MAX, "[");
    for (int i = 0; i < HANDLERS_SIMULATED; i++) {
        if ((set & 1U << i) != 0) {
            length += (size_t)snprintf(text + length, HANDLERS_TEXT_MAX - length, "%s\"%s\"", length > 1 ? "," : "",
                                       handler_names[i]);
        }
    }
    (void)snprintf(text + length, HANDLERS_TEXT_MAX - length, "]");
}

static unsigned read_set(const char *text)
{
    unsigned set = 0;
    for (int i = 0; i < HANDLERS_SIMULATED; i++) {
        char quoted[16];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", handler_names[i]);
        set |= strstr(text, quoted) != NULL ? 1U << i : 0;
    }
    return set;
}

static bool contains(unsigned set, unsigned needs)
{
    return (set & needs) == needs;
}

/* --- nodes --- */

void handlers_draw_homes(struct simulation *simulation)
{
    static const unsigned homes[] = {HANDLERS_ALL, WORK | ALPHA | BETA, ALPHA | BETA, WORK, ALPHA, 0};
    struct profile *profile = &simulation->profile;
    for (int i = 0; i < NODES_MOST; i++) {
        /* The first node of each group has all, so that everything can end. */
        profile->homes[i] =
            i < GROUPS_MOST ? HANDLERS_ALL : homes[draw(simulation, (int64_t)(sizeof homes / sizeof homes[0]))];
    }
}

/* When all is calm no node has GAMMA at first: the lanes that need it must delay no other one. */
static unsigned home_of(const struct simulation *simulation, const struct simulated_node *node)
{
    bool is_early = simulation->calm && simulation->boot_us - simulation->calm_since_us < WITHOUT_GAMMA_US;
    return simulation->profile.homes[node->index] & (is_early ? HANDLERS_ALL & ~(unsigned)GAMMA : HANDLERS_ALL);
}

static void take_set(struct simulated_node *node, unsigned set)
{
    node->handlers = set;
    write_set(set, node->handlers_text);
    node->steady_since_us = node->simulation->boot_us;
}

void handlers_begin_node(struct simulation *simulation, struct simulated_node *node)
{
    if (!simulation->profile.has_sets) {
        node->handlers = HANDLERS_ALL;
        (void)snprintf(node->handlers_text, sizeof node->handlers_text, "[\"work\"]");
        return;
    }
    unsigned set = home_of(simulation, node);
    if (!simulation->calm && drawn(simulation, 5000)) {
        set = (unsigned)draw(simulation, HANDLERS_ALL + 1);
    }
    take_set(node, set);
}

void handlers_open_engine(const struct simulated_node *node)
{
    if (node->simulation->profile.has_sets) {
        scripted_set_handlers(node->engine, node->handlers_text);
    }
}

/* Its host or its workers have changed: the engine refuses at once, and the store learns of it with a heartbeat. */
static void change_set(struct simulation *simulation, struct simulated_node *node, unsigned set)
{
    struct weir_error error = {.status = WEIR_OK};
    if (node->node == NULL || node->died || node->handlers == set) {
        return;
    }
    take_set(node, set);
    say(simulation, "%s has the handlers %s", node->name, node->handlers_text);
    scripted_set_handlers(node->engine, node->handlers_text);
    if (node_set_handlers(node->node, node->handlers_text, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "node_set_handlers: %s", error.message);
    }
}

void handlers_act(struct simulation *simulation)
{
    struct simulated_node *node = &simulation->nodes[draw(simulation, simulation->profile.nodes)];
    unsigned set = home_of(simulation, node);
    if (drawn(simulation, 7000)) {
        set = node->handlers ^ 1U << draw(simulation, HANDLERS_SIMULATED);
    }
    change_set(simulation, node, set);
}

void handlers_settle(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.nodes && simulation->profile.has_sets; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        change_set(simulation, node, node->node == NULL ? node->handlers : home_of(simulation, node));
    }
}

/* --- workflows --- */

void handlers_prepare(struct simulation *simulation)
{
    struct weir_error error = {.status = WEIR_OK};
    struct published published;
    for (size_t i = 0; i < FLOWS && simulation->profile.has_sets; i++) {
        if (store_publish(simulation->outside, flows[i].name, NULL, flows[i].definition, NULL, &published, &error) !=
            WEIR_OK) {
            fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
        }
    }
}

const char *handlers_draw_workflow(struct simulation *simulation)
{
    return drawn(simulation, 7000) ? flows[draw(simulation, FLOWS)].name : NULL;
}

/* --- what is on record --- */

static struct simulated_life *find_life(struct simulation *simulation, int64_t node_id)
{
    for (size_t i = 0; i < simulation->life_count; i++) {
        if (simulation->lives[i].id == node_id) {
            return &simulation->lives[i];
        }
    }
    return NULL;
}

unsigned handlers_on_record(const struct simulation *simulation, int64_t node_id)
{
    for (size_t i = 0; i < simulation->life_count && simulation->profile.has_sets; i++) {
        if (simulation->lives[i].id == node_id) {
            return simulation->lives[i].handlers;
        }
    }
    return HANDLERS_ALL;
}

void handlers_note_node(struct simulation *simulation, const struct change *change)
{
    struct simulated_life *life = find_life(simulation, change->rank);
    INVARIANT(life != NULL);
    unsigned handlers = read_set(change->extra);
    bool is_listed = change->phase == 0;
    if (life->handlers == handlers && life->is_listed == is_listed) {
        return;
    }
    life->handlers = handlers;
    life->is_listed = is_listed;
    simulation->handlers_changed = change->seq;
    say(simulation, "node %lld has the handlers %x on record, and is %s", (long long)life->id, handlers,
        is_listed ? "listed" : "over");
    for (size_t i = 0; i < simulation->lane_count; i++) {
        simulation->lanes[i].passed_over = 0; /* the lanes move to other shares */
    }
}

void handlers_note_lane(struct simulation *simulation, struct model_lane *lane)
{
    struct question *row = question_prepare(simulation, "SELECT handlers FROM handler_sets WHERE id = $1");
    question_ask_number(row, lane_handler_set(lane->row_id));
    lane->needs = question_next(row) ? read_set(question_text(row, 0)) : 0;
    question_close(row);
}

void handlers_note_item(struct simulation *simulation, struct model_item *item)
{
    static const char workflow[] = "SELECT d.name FROM workflow_definitions d JOIN workflow_execution_queue q"
                                   " ON q.definition_id = d.id WHERE q.id = $1";
    struct question *row = question_prepare(simulation, workflow);
    question_ask_text(row, item->id);
    const char *name = question_next(row) ? question_text(row, 0) : "abroad"; /* it has ended in the same transaction */
    bool is_known = strcmp(name, "abroad") != 0;
    item->needs = is_known ? WORK : 0;
    for (size_t i = 0; i < FLOWS; i++) {
        item->needs = strcmp(flows[i].name, name) == 0 ? flows[i].needs : item->needs;
    }
    const struct model_lane *lane = observer_lane(simulation, item);
    if (is_known && lane->needs != item->needs) {
        fail(simulation, THE_MODEL_HOLDS, "%s of %s is in a lane for the handlers %x, and needs %x", item->id, name,
             lane->needs, item->needs);
    }
    question_close(row);
}

void handlers_check_claim(struct simulation *simulation, const struct model_item *item, int64_t node_id)
{
    unsigned handlers = handlers_on_record(simulation, node_id);
    if (!contains(handlers, item->needs)) {
        fail(simulation, THE_MODEL_HOLDS, "%s needs the handlers %x and was given to node %lld, which has %x on record",
             item->id, item->needs, (long long)node_id, handlers);
    }
}

bool handlers_share(const struct simulation *simulation, const struct model_lane *left, const struct model_lane *right)
{
    if (left == right) {
        return true;
    }
    int64_t seen = simulation->actor == OUTSIDE ? 0 : simulation->nodes[simulation->actor].nodes_seen;
    bool is_one = simulation->profile.has_sets && left->workspace == right->workspace && left->pool == right->pool &&
                  simulation->handlers_changed <= seen;
    for (size_t i = 0; i < simulation->life_count && is_one; i++) {
        const struct simulated_life *life = &simulation->lives[i];
        is_one = !life->is_listed || life->pool != left->pool ||
                 contains(life->handlers, left->needs) == contains(life->handlers, right->needs);
    }
    return is_one;
}
