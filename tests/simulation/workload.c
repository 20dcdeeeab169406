/* The acts of clients and operators, drawn from the seed. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "simulation/simulation.h"

#define SECOND_US MICROSECONDS_PER_SECOND

const char *const plan_names[4] = {"free", "pro", "enterprise", "custom"};
const char *const group_names[GROUPS_MOST] = {"default", "second"};

enum { REPEATS_MOST = 200 };

/* An answer that is no fault of the store: what was asked for may be out of date. */
static bool is_wrong(enum weir_status status)
{
    return status == WEIR_MISUSE || status == WEIR_FAILED || status == WEIR_STORE_CORRUPT ||
           status == WEIR_INVALID_ARGUMENT || status == WEIR_SYSTEM || status == WEIR_OUT_OF_MEMORY;
}

static void expect(struct simulation *simulation, const char *act, enum weir_status status, const struct weir_error *error)
{
    if (is_wrong(status)) {
        fail(simulation, THE_MODEL_HOLDS, "%s answered %s: %s", act, weir_status_name(status), error->message);
    }
}

/* --- before the first node --- */

static void set_workspace(struct simulation *simulation, int index, int plan, int64_t own_max, int paused)
{
    struct model_workspace *workspace = &simulation->workspaces[index];
    struct workspace_change change = {.name = workspace->name,
                                      .plan = plan < 0 ? NULL : plan_names[plan],
                                      .max_concurrent = own_max,
                                      .paused = paused,
                                      .create = true};
    struct weir_error error = {.status = WEIR_OK};
    if (plan >= 0) {
        text_copy(workspace->plan, sizeof workspace->plan, plan_names[plan]);
    }
    if (own_max != 0) {
        workspace->own_max = own_max < 0 ? 0 : own_max;
    }
    simulation->verb = "set_workspace";
    enum weir_status status = store_set_workspace(simulation->outside, &change, &error);
    observe(simulation);
    expect(simulation, "set_workspace", status, &error);
}

static void set_plan(struct simulation *simulation, int plan, int64_t max_concurrent, int weight)
{
    struct plan_change change = {.name = plan_names[plan], .max_concurrent = max_concurrent, .weight = weight};
    struct weir_error error = {.status = WEIR_OK};
    simulation->plan_max[plan] = max_concurrent;
    simulation->plan_weight[plan] = weight;
    simulation->verb = "set_plan";
    enum weir_status status = store_set_plan(simulation->outside, &change, &error);
    observe(simulation);
    expect(simulation, "set_plan", status, &error);
}

void workload_prepare(struct simulation *simulation)
{
    static const char definition[] =
        "{\"name\":\"flow\",\"steps\":{\"work\":{\"handler\":\"work\"},\"ask\":{\"signal\":\"" ASKED "\"}}}";
    static const char other[] =
        "{\"name\":\"other\",\"executor_group\":\"second\",\"steps\":{\"work\":{\"handler\":\"work\"}}}";
    static const char abroad[] = "{\"name\":\"abroad\",\"temporal\":{\"workflow_type\":\"Work\"}}";
    static const int64_t caps[4] = {1, 5, 20, 2};
    struct weir_error error = {.status = WEIR_OK};
    struct published published;
    simulation->verb = "publish";
    if (store_publish(simulation->outside, "flow", NULL, definition, NULL, &published, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
    }
    if (simulation->profile.groups > 1 &&
        store_publish(simulation->outside, "other", NULL, other, NULL, &published, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
    }
    if (simulation->profile.is_mixed &&
        store_publish(simulation->outside, "abroad", NULL, abroad, NULL, &published, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
    }
    for (int plan = 0; plan < 4; plan++) {
        set_plan(simulation, plan, caps[plan], 1 + (int)draw(simulation, 4));
    }
    for (int i = 0; i < simulation->profile.workspaces; i++) {
        (void)snprintf(simulation->workspaces[i].name, sizeof simulation->workspaces[i].name, "workspace-%d", i);
        set_workspace(simulation, i, (int)draw(simulation, 4), 0, -1);
    }
    handlers_prepare(simulation);
    states_prepare(simulation);
    children_prepare(simulation);
    schedules_prepare(simulation);
}

/* --- clients --- */

/* `once`: without modes for keys that have them in other sets. */
static void draw_request(struct simulation *simulation, struct enqueue_request *request, struct request_texts *texts,
                         int64_t now_us, bool once)
{
    /* One statement each: the order of the draws must not depend on the compiler. */
    *request = (struct enqueue_request){.workflow = "flow"};
    if (simulation->profile.is_mixed && drawn(simulation, 6000)) {
        request->workflow = "abroad";
    }
    if (simulation->profile.has_states && drawn(simulation, 5000)) { /* else no draw, as for parks */
        request->workflow = "machine";
    }
    if (simulation->profile.has_children && drawn(simulation, 2500)) {
        request->workflow = "parent";
    }
    const char *flow =
        simulation->profile.has_sets && strcmp(request->workflow, "flow") == 0 ? handlers_draw_workflow(simulation) : NULL;
    request->workflow = flow == NULL ? request->workflow : flow;
    request->workspace = simulation->workspaces[draw(simulation, simulation->profile.workspaces)].name;
    request->group = group_names[draw(simulation, simulation->profile.groups)];
    request->priority = drawn(simulation, 3000) ? 1 : 0;
    if (drawn(simulation, 2000)) {
        request->priority = (int)draw(simulation, 201) - 100;
    }
    if (drawn(simulation, 1500)) {
        request->run_at_us = now_us + draw(simulation, drawn(simulation, 1000) ? 600 * SECOND_US : 20 * SECOND_US);
    } else if (drawn(simulation, 500)) {
        request->run_at_us = now_us - draw(simulation, 3600 * SECOND_US);
    }
    if (drawn(simulation, 2000)) {
        int key = (int)draw(simulation, 40);
        (void)snprintf(texts->key, sizeof texts->key, "k%d", key);
        (void)snprintf(texts->params, sizeof texts->params, "{\"n\":%d}", key);
        request->idempotency_key = texts->key;
        request->workflow = simulation->profile.is_mixed && key % 2 == 1 ? "abroad" : "flow";
        request->params = texts->params;
        request->params_length = strlen(texts->params);
    }
    bool has_mode = simulation->profile.is_keyed && drawn(simulation, 4000);
    if (has_mode) {
        keys_draw(simulation, request, texts, once);
    }
    /* On the server equal ranks go by their ids, whose time the driver derives from the machine's real clock. */
    if (drawn(simulation, 5000) || has_mode || simulation->options.store == SIMULATED_POSTGRES) {
        uuid_make_from(&simulation->uuids, now_us, texts->id);
        request->id = texts->id;
    }
}

static bool may_repeat(const struct enqueue_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (requests[i].id == NULL && requests[i].idempotency_key == NULL) {
            return false;
        }
    }
    return true;
}

static void enqueue(struct simulation *simulation)
{
    struct enqueue_request requests[SET_MOST];
    struct request_texts texts[SET_MOST];
    struct enqueue_result results[SET_MOST];
    struct weir_error error = {.status = WEIR_OK};
    size_t count = 1 + (size_t)draw(simulation, drawn(simulation, 2000) ? SET_MOST : 4);
    int64_t now_us = observer_store_time(simulation);
    bool once = simulation->profile.is_keyed && drawn(simulation, 1500);
    for (size_t i = 0; i < count; i++) {
        draw_request(simulation, &requests[i], &texts[i], now_us, once);
    }
    enum weir_status status = WEIR_STORE_BUSY;
    for (int i = 0; i < REPEATS_MOST && status != WEIR_OK; i++) {
        keys_expect(simulation, requests, count);
        status = store_enqueue(simulation->outside, requests, count, results, &error);
        expect(simulation, "enqueue", status, &error);
        keys_check(simulation, status, results);
        if (weir_status_kind(status) == WEIR_KIND_UNKNOWN && !may_repeat(requests, count)) {
            return; /* nothing was acknowledged */
        }
    }
    for (size_t i = 0; status == WEIR_OK && i < count; i++) {
        if (results[i].status == WEIR_OK) {
            bool has_mode =
                observer_find(simulation, results[i].id) != NULL && observer_find(simulation, results[i].id)->mode_key >= 0;
            observer_acknowledge(simulation, results[i].id, has_mode ? NULL : requests[i].idempotency_key,
                                 results[i].duplicate);
        } else {
            expect(simulation, "an enqueue", results[i].status, &results[i].error);
        }
    }
    world_wake_nodes(simulation);
}

/* --- operators --- */

static const struct model_item *pick_item(struct simulation *simulation)
{
    return simulation->item_count == 0 ? NULL : &simulation->items[draw(simulation, (int64_t)simulation->item_count)];
}

static void act_on_executions(struct simulation *simulation)
{
    static const enum bulk_act acts[] = {BULK_CANCEL, BULK_CANCEL, BULK_RETRY, BULK_RETRY, BULK_RELEASE, BULK_PURGE};
    enum bulk_act act = acts[draw(simulation, sizeof acts / sizeof acts[0])];
    act = act == BULK_PURGE && simulation->profile.is_scheduled ? BULK_CANCEL : act; /* as for its retention */
    const struct model_item *item = pick_item(simulation);
    if (item == NULL) {
        return;
    }
    char id[UUID_TEXT_MAX];
    text_copy(id, sizeof id, item->id);
    struct execution_filter filter = {.id = id};
    if (drawn(simulation, 1500)) {
        filter = (struct execution_filter){.workspace = simulation->workspaces[item->workspace].name};
    }
    struct bulk_result result;
    struct weir_error error = {.status = WEIR_OK};
    simulation->purging = act == BULK_PURGE;
    enum weir_status status =
        store_bulk(simulation->outside, act, &filter, "", 1 + (size_t)draw(simulation, 20), &result, &error);
    simulation->purging = false;
    say(simulation, "%s %s: %s", bulk_act_name(act), filter.id == NULL ? filter.workspace : id, weir_status_name(status));
    expect(simulation, bulk_act_name(act), status, &error);
    world_wake_nodes(simulation);
}

/* Only a step that waits on record is woken, and only a FAILED execution is dismissed, which moves nothing. */
static void wake_or_dismiss(struct simulation *simulation)
{
    struct weir_error error = {.status = WEIR_OK};
    struct bulk_result result;
    enum bulk_act act = drawn(simulation, 7000) ? BULK_WAKE : BULK_DISMISS;
    const struct model_item *item = pick_item(simulation);
    for (size_t i = 0; act == BULK_WAKE && i < simulation->item_count; i++) {
        struct model_item *other = &simulation->items[i];
        item = other->state == ITEM_WAITING && drawn(simulation, 5000) ? other : item;
    }
    if (item == NULL) {
        return;
    }
    char id[UUID_TEXT_MAX];
    text_copy(id, sizeof id, item->id);
    struct execution_filter filter = {.id = id};
    observer_find(simulation, id)->wake_asked |= act == BULK_WAKE;
    enum weir_status status = store_bulk(simulation->outside, act, &filter, "", 1, &result, &error);
    say(simulation, "%s %s: %s", bulk_act_name(act), id, weir_status_name(status));
    expect(simulation, bulk_act_name(act), status, &error);
    world_wake_nodes(simulation);
}

static void set_paused(struct simulation *simulation, const char *group, bool paused)
{
    struct weir_error error = {.status = WEIR_OK};
    simulation->verb = "set_paused";
    enum weir_status status = store_set_paused(simulation->outside, group, paused, &error);
    observe(simulation);
    expect(simulation, "set_paused", status, &error);
}

/* The first reason that applies, as far as the model knows it: not whether a node lives and reaches its engine. */
static bool is_its_reason(const struct simulation *simulation, const struct model_item *item, const char *reason)
{
    const struct model_workspace *workspace = &simulation->workspaces[item->workspace];
    bool group_paused = false;
    for (size_t i = 0; i < simulation->lane_count; i++) {
        const struct model_lane *lane = &simulation->lanes[i];
        group_paused = group_paused || (lane->row_id == item->lane_id && simulation->group_paused[lane->group]);
    }
    const char *expected = item->phase == 2           ? "handed_over"
                           : item->phase == 1         ? item->due_at > item->run_at ? "backing_off" : "scheduled"
                           : workspace->paused        ? "workspace_paused"
                           : simulation->queue_paused ? "queue_paused"
                           : group_paused             ? "queue_paused"
                           : workspace->held < workspace->slots_max ? "ready"
                                                                    : "workspace_at_capacity";
    bool about_nodes = strcmp(reason, "no_node_in_group") == 0 || strcmp(reason, "engine_unreachable") == 0 ||
                       strcmp(reason, "no_scheduler") == 0 || strcmp(reason, "no_node_for_engine") == 0 ||
                       strcmp(reason, "no_worker") == 0 || strcmp(reason, "nodes_full") == 0;
    bool may_be_nodes = strcmp(expected, "ready") == 0 || strcmp(expected, "workspace_at_capacity") == 0;
    bool is_quarantined = item->phase == 2 && strcmp(reason, "quarantined") == 0; /* the model counts no deaths */
    bool lacks_handler = simulation->profile.has_sets && item->phase != 0 && strcmp(reason, "no_worker") == 0;
    bool waits_elsewhere = item->phase == 2 && simulation->profile.is_mixed && strcmp(reason, "no_node_for_engine") == 0;
    if (strcmp(reason, "nodes_full") == 0 && strcmp(expected, "ready") != 0) {
        return false; /* the last reason before `ready` */
    }
    return strcmp(reason, expected) == 0 || is_quarantined || waits_elsewhere || lacks_handler ||
           (about_nodes && may_be_nodes);
}

static void ask_why(struct simulation *simulation)
{
    const struct model_item *item = pick_item(simulation);
    json_t *why = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (item == NULL || item->place == PLACE_PURGED) {
        return;
    }
    enum weir_status status = store_why(simulation->outside, item->id, &why, &error);
    const char *word = status == WEIR_OK ? json_string_value(json_object_get(why, "status")) : NULL;
    const char *reason = status == WEIR_OK ? json_string_value(json_object_get(why, "pending_reason")) : NULL;
    if (status != WEIR_OK || word == NULL || strcmp(word, item_state_name(item->state)) != 0) {
        fail(simulation, THE_MODEL_HOLDS, "why says of %s: %s %s; it is %s", item->id, word == NULL ? "" : word,
             error.message, item_state_name(item->state));
    } else if ((item->state == ITEM_PENDING) != (reason != NULL) && (item->node_id != 0 || item->state == ITEM_WAITING)) {
        fail(simulation, THE_MODEL_HOLDS, "why gives %s, which is %s, the reason %s", item->id, word,
             reason == NULL ? "none" : reason);
    } else if (reason != NULL && !is_its_reason(simulation, item, reason)) {
        fail(simulation, THE_MODEL_HOLDS, "why says %s of %s, which is in phase %d; its workspace has %lld of %lld slots",
             reason, item->id, item->phase, (long long)simulation->workspaces[item->workspace].held,
             (long long)simulation->workspaces[item->workspace].slots_max);
    }
    json_decref(why);
}

static void desired_state(struct simulation *simulation)
{
    struct simulated_node *node = &simulation->nodes[draw(simulation, simulation->profile.nodes)];
    static const enum desired_state wishes[] = {NODE_PAUSE, NODE_DRAIN, NODE_RUN, NODE_RUN};
    enum desired_state wanted = drawn(simulation, 1000) ? NODE_STOP : wishes[draw(simulation, 4)];
    if (node->life == NODE_ALIVE) {
        simulation->verb = "desired_state";
        /* A node that was declared dead and has not stood up again has no row to put it in. */
        if (store_set_desired_state(simulation->outside, node->name, wanted, NULL) == WEIR_OK) {
            node->desired_state = wanted;
        }
        observe(simulation);
    }
}

static void change_a_plan(struct simulation *simulation)
{
    int plan = (int)draw(simulation, 4);
    int64_t max_concurrent = 1 + draw(simulation, 8);
    int weight = 1 + (int)draw(simulation, 5);
    set_plan(simulation, plan, max_concurrent, weight);
}

static void pause_or_resume(struct simulation *simulation)
{
    bool paused = drawn(simulation, 3000);
    set_paused(simulation, drawn(simulation, 5000) ? NULL : group_names[0], paused);
}

static void act(struct simulation *simulation)
{
    int index = (int)draw(simulation, simulation->profile.workspaces);
    if (simulation->profile.parks && drawn(simulation, 2500)) { /* else no draw: seeds of other fleets stay as they are */
        wake_or_dismiss(simulation);
        return;
    }
    switch (draw(simulation, 12)) {
    case 0:
        set_workspace(simulation, index, -1, 0, drawn(simulation, 4000));
        break;
    case 1:
        set_workspace(simulation, index, (int)draw(simulation, 4), 0, -1);
        break;
    case 2:
        set_workspace(simulation, index, -1, drawn(simulation, 3000) ? -1 : 1 + draw(simulation, 8), -1);
        break;
    case 3:
        change_a_plan(simulation);
        break;
    case 4:
        pause_or_resume(simulation);
        break;
    case 5:
        desired_state(simulation);
        break;
    case 6:
        ask_why(simulation);
        break;
    default:
        act_on_executions(simulation);
    }
}

void workload_step(struct simulation *simulation)
{
    simulation->actor = OUTSIDE;
    if (drawn(simulation, simulation->profile.enqueue)) {
        enqueue(simulation);
    }
    if (drawn(simulation, simulation->profile.act)) {
        act(simulation);
    }
    if (simulation->profile.has_sets && drawn(simulation, 120)) {
        handlers_act(simulation);
    }
    if (simulation->profile.is_scheduled && drawn(simulation, 150)) {
        schedules_act(simulation);
    }
    if (simulation->profile.has_states && drawn(simulation, 400)) {
        states_act(simulation);
    } else if (simulation->profile.has_states) {
        states_signal_early(simulation);
    }
    if (simulation->profile.has_states && drawn(simulation, 700)) {
        asks_act(simulation);
    }
}

void workload_settle(struct simulation *simulation)
{
    simulation->actor = OUTSIDE;
    schedules_settle(simulation);
    handlers_settle(simulation);
    if (simulation->profile.has_states) {
        states_settle(simulation);
    }
    for (int i = 0; i < simulation->profile.workspaces; i++) {
        if (simulation->workspaces[i].paused) {
            set_workspace(simulation, i, -1, 0, 0);
        }
    }
    for (int group = 0; group < simulation->profile.groups; group++) {
        if (simulation->group_paused[group]) {
            set_paused(simulation, group_names[group], false);
        }
    }
    if (simulation->queue_paused) {
        set_paused(simulation, NULL, false);
    }
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (node->life == NODE_ALIVE && node->desired_state != NODE_RUN && node->desired_state != NODE_STOP &&
            store_set_desired_state(simulation->outside, node->name, NODE_RUN, NULL) == WEIR_OK) {
            node->desired_state = NODE_RUN;
        }
    }
    simulation->verb = "";
}
