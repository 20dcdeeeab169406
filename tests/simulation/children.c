/* Executions that start others: the plans, and the model of each step with children.
 *
 * The engine asks for a plan when a step begins (children_draw_plan()), and the observer brings the rows of the store in
 * the order of their writes. A step appears with the record of its wait, or of its action. The model takes the plan from
 * that record, not from the store. From here on it knows which children must follow, and how each of them begins
 * (children_expected_begin()):
 *
 *   1. It is enqueued under the id of its row, in the workspace and with the workflow of the plan.
 *   2. Its key is known: it becomes the execution of the key, or the newest retry of that.
 *   3. It is refused: for its workflow, its workspace, another workflow of the key, or a wait for each other.
 *
 * child_checks.c has the rules that the model must keep after each call.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "queue/signal.h"
#include "simulation/simulation.h"

#define ADVANCE "advance_children"
enum { CLIENT_KEYS = 40, OWN_KEYS = 4, FEW = 4, MANY = 12, PLANS_OF_ACTION = 2 };

/* With a handler, so that it is in the lane of the other workflows of its workspace: order and fairness are checked by
 * lane. The engine runs the start steps alone. */
static const char *const parent_definition =
    "{\"name\":\"parent\",\"steps\":{\"step-0\":{\"start\":{\"workflow\":\"flow\",\"for_each\":\"${.input.items}\"}},"
    "\"step-1\":{\"needs\":[\"step-0\"],\"start\":{\"workflow\":\"flow\",\"for_each\":\"${.input.items}\"}},"
    "\"work\":{\"needs\":[\"step-1\"],\"handler\":\"work\"}}}";

void children_prepare(struct simulation *simulation)
{
    struct weir_error error = {.status = WEIR_OK};
    struct published published;
    simulation->verb = "publish";
    if (simulation->profile.has_children &&
        store_publish(simulation->outside, "parent", NULL, parent_definition, NULL, &published, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
    }
}

/* --- finding --- */

struct model_family *children_find(struct simulation *simulation, const char *parent, const char *step)
{
    for (size_t i = simulation->family_count; i > 0; i--) {
        struct model_family *family = &simulation->families[i - 1];
        if (strcmp(family->parent, parent) == 0 && strcmp(family->step, step) == 0) {
            return family;
        }
    }
    return NULL;
}

/* The family and the place of a child that has its own execution, or NULL. */
static struct model_family *family_of_child(struct simulation *simulation, const char *id, size_t *ret_place)
{
    for (size_t i = 0; i < simulation->family_count; i++) {
        struct model_family *family = &simulation->families[i];
        for (size_t place = 0; place < family->row_count; place++) {
            if (!family->children[place].is_adopted && strcmp(family->children[place].id, id) == 0) {
                *ret_place = place;
                return family;
            }
        }
    }
    return NULL;
}

static struct model_family *add_family(struct simulation *simulation, const char *parent, const char *step)
{
    if (simulation->family_count == simulation->family_capacity) {
        simulation->family_capacity = simulation->family_capacity == 0 ? 64 : 2 * simulation->family_capacity;
        simulation->families = realloc(simulation->families, simulation->family_capacity * sizeof simulation->families[0]);
        INVARIANT(simulation->families != NULL);
    }
    struct model_family *family = &simulation->families[simulation->family_count++];
    *family = (struct model_family){.count = -1, .batch = -1, .undone_since_us = simulation->boot_us};
    text_copy(family->parent, sizeof family->parent, parent);
    text_copy(family->step, sizeof family->step, step);
    return family;
}

/* The part of the call that is being looked at begins anew. */
static struct model_family *touch(struct simulation *simulation, struct model_family *family)
{
    simulation->families_touched = true;
    if (family->batch != simulation->observed_from) {
        family->batch = simulation->observed_from;
        family->was_unread = family->count < 0;
        family->was_settled = family->is_settled;
        family->was_waiting = strcmp(family->status, "WAITING") == 0;
        family->signalled_now = 0;
        family->consumed_now = 0;
    }
    return family;
}

void children_close(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->family_count; i++) {
        json_decref(simulation->families[i].plan);
        json_decref(simulation->families[i].data);
        free(simulation->families[i].children);
    }
    free(simulation->families);
}

/* --- plans --- */

static int64_t depth_of(struct simulation *simulation, const char *id)
{
    size_t place = 0;
    const struct model_family *family = family_of_child(simulation, id, &place);
    return family == NULL ? 0 : family->depth;
}

static const char *draw_workflow(struct simulation *simulation, int64_t depth)
{
    const struct profile *profile = &simulation->profile;
    int64_t drawn_of = draw(simulation, 100);
    return drawn_of < 3                                 ? "unknown"
           : drawn_of < 20 && depth < CHILD_DEPTH_DRAWN ? "parent"
           : drawn_of < 35 && profile->has_states       ? "machine"
           : drawn_of < 45 && profile->groups > 1       ? "other"
           : drawn_of < 50 && profile->is_mixed         ? "abroad"
                                                        : "flow";
}

/* Keys of clients as well: a child becomes their execution, or they get that of a child. */
static void draw_keys(struct simulation *simulation, json_t *plan, int64_t count)
{
    json_t *keys = json_array();
    json_t *params = json_array();
    for (int64_t i = 0; i < count; i++) {
        char key[KEY_LENGTH];
        bool is_of_client = drawn(simulation, 4000);
        int64_t number = draw(simulation, is_of_client ? CLIENT_KEYS : OWN_KEYS);
        (void)snprintf(key, sizeof key, "%c%lld", is_of_client ? 'k' : 'c', (long long)number);
        (void)json_array_append_new(keys, json_string(key));
        (void)json_array_append_new(params, json_pack("{s:I}", "n", (json_int_t)number));
    }
    (void)json_object_set_new(plan, "keys", keys);
    (void)json_object_set_new(plan, "children", params);
    (void)json_object_set_new(plan, "leaves", json_integer(1));
}

static json_t *draw_params(struct simulation *simulation, int64_t count)
{
    json_t *params = json_array();
    for (int64_t i = 0; i < count; i++) {
        (void)json_array_append_new(params,
                                    drawn(simulation, 5000) ? json_object() : json_pack("{s:I}", "item", (json_int_t)i));
    }
    return params;
}

static json_t *draw_step_plan(struct simulation *simulation, const char *id)
{
    /* One statement each: the order of the draws must not depend on the compiler. */
    int64_t count = 1 + draw(simulation, drawn(simulation, 1000) ? MANY : FEW);
    count = simulation->calm ? 1 : count;
    bool is_single = count == 1 && drawn(simulation, 4000);
    bool waits_for_all = is_single || drawn(simulation, 5000);
    int64_t wanted = waits_for_all ? count : draw(simulation, count + 1);
    int64_t parallel = drawn(simulation, 5000) ? count : 1 + draw(simulation, count);
    bool leaves = drawn(simulation, 2500);
    const char *workflow = draw_workflow(simulation, simulation->calm ? CHILD_DEPTH_DRAWN : depth_of(simulation, id));
    json_t *plan = json_pack("{s:s, s:n, s:n, s:b, s:b, s:I, s:I, s:b}", "workflow", workflow, "executor_group", "priority",
                             "is_single", 0, "waits_for_all", 0, "wanted", (json_int_t)wanted, "max_parallel",
                             (json_int_t)parallel, "leaves", 0);
    INVARIANT(plan != NULL);
    (void)json_object_set_new(plan, "is_single", json_integer(is_single));
    (void)json_object_set_new(plan, "waits_for_all", json_integer(waits_for_all));
    (void)json_object_set_new(plan, "leaves", json_integer(leaves));
    (void)json_object_set_new(plan, "children", draw_params(simulation, count));
    if (drawn(simulation, 3000)) {
        (void)json_object_set_new(plan, "priority", json_integer(draw(simulation, 201) - 100));
    }
    if (drawn(simulation, 2500)) {
        draw_keys(simulation, plan, count);
        if (!simulation->calm && drawn(simulation, 4000)) { /* such parents may come to wait for each other */
            (void)json_object_set_new(plan, "workflow", json_string("parent"));
        }
    }
    if (drawn(simulation, 1500)) {
        const char *name = simulation->workspaces[draw(simulation, simulation->profile.workspaces)].name;
        (void)json_object_set_new(plan, "workspace", json_string(drawn(simulation, 1000) ? "nowhere" : name));
    }
    return plan;
}

/* Of an action, as engine/in_process/step_states.c writes them. The next state may wait for the last one. */
static json_t *draw_action_plans(struct simulation *simulation, const char *id, int *ret_awaited)
{
    json_t *plans = json_array();
    int64_t count = 1 + draw(simulation, PLANS_OF_ACTION);
    bool is_awaited = drawn(simulation, 6000);
    for (int64_t i = 0; i < count; i++) {
        bool is_last = i == count - 1;
        bool leaves = !is_last || (!is_awaited && drawn(simulation, 5000));
        int64_t items = simulation->calm ? 1 : 1 + draw(simulation, FEW);
        const char *workflow = draw_workflow(simulation, simulation->calm ? CHILD_DEPTH_DRAWN : depth_of(simulation, id));
        bool waits = is_awaited && is_last;
        (void)json_array_append_new(plans,
                                    json_pack("{s:s, s:n, s:n, s:i, s:i, s:I, s:I, s:i, s:o}", "workflow", workflow,
                                              "executor_group", "priority", "is_single", 0, "waits_for_all", waits,
                                              "wanted", (json_int_t)(waits ? items : 0), "max_parallel", (json_int_t)items,
                                              "leaves", leaves, "children", draw_params(simulation, items)));
    }
    *ret_awaited = is_awaited ? (int)count - 1 : -1;
    return plans;
}

char *children_draw_plan(void *context, const char *id, int *ret_awaited)
{
    struct simulation *simulation = context;
    if (ret_awaited == NULL && drawn(simulation, simulation->calm ? 8000 : 3000)) {
        return NULL;
    }
    json_t *plan = ret_awaited == NULL ? draw_step_plan(simulation, id) : draw_action_plans(simulation, id, ret_awaited);
    char *text = json_dumps(plan, JSON_COMPACT);
    json_decref(plan);
    INVARIANT(text != NULL);
    return text;
}

/* --- the beginning of a child --- */

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int64_t number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

int children_workspace(struct simulation *simulation, const struct model_family *family)
{
    const char *name = text_at(family->plan, "workspace");
    for (int i = 0; name != NULL && i < simulation->profile.workspaces; i++) {
        if (strcmp(simulation->workspaces[i].name, name) == 0) {
            return i;
        }
    }
    const struct model_item *parent = observer_find(simulation, family->parent);
    return name != NULL || parent == NULL ? -1 : parent->workspace;
}

static struct model_item *item_of_key(struct simulation *simulation, int workspace, const char *key)
{
    for (size_t i = 0; i < simulation->item_count; i++) {
        struct model_item *item = &simulation->items[i];
        if (item->workspace == workspace && item->place != PLACE_PURGED && strcmp(item->key, key) == 0) {
            return item;
        }
    }
    return NULL;
}

/* Whether the execution is waited for by `other`, directly or by others in between, or is it. The set of those that wait
 * grows by one family at a time. */
static bool is_awaited_by(const struct simulation *simulation, const char *id, const char *other)
{
    bool *is_in = calloc(simulation->family_count + 1, sizeof *is_in);
    bool is_found = strcmp(id, other) == 0;
    INVARIANT(is_in != NULL);
    for (bool grows = true; grows && !is_found;) {
        grows = false;
        for (size_t i = 0; i < simulation->family_count && !is_found; i++) {
            const struct model_family *family = &simulation->families[i];
            bool waits = false;
            for (size_t place = 0; place < family->row_count && !is_in[i] && !family->is_settled && !family->is_gone;
                 place++) {
                const struct model_child *child = &family->children[place];
                waits = waits || (child->status[0] == '\0' && strcmp(child->id, id) == 0);
                for (size_t k = 0; k < simulation->family_count && child->status[0] == '\0'; k++) {
                    waits = waits || (is_in[k] && strcmp(simulation->families[k].parent, child->id) == 0);
                }
            }
            is_in[i] = is_in[i] || waits;
            grows = grows || waits;
            is_found = is_in[i] && strcmp(family->parent, other) == 0;
        }
    }
    free(is_in);
    return is_found;
}

struct child_begin children_expected_begin(struct simulation *simulation, const struct model_family *family, size_t place)
{
    const struct model_child *child = &family->children[place];
    const char *key = json_string_value(json_array_get(json_object_get(family->plan, "keys"), place));
    const char *workflow = text_at(family->plan, "workflow");
    int workspace = children_workspace(simulation, family);
    struct model_item *item = key == NULL || workspace < 0 ? NULL : item_of_key(simulation, workspace, key);
    if (workspace < 0) {
        return (struct child_begin){.code = "workspace_not_found"};
    }
    if (item == NULL || strcmp(item->id, child->planned_id) == 0) {
        return (struct child_begin){.code = strcmp(workflow, "unknown") == 0 ? "workflow_not_found" : NULL};
    }
    if (strcmp(item->workflow, workflow) != 0) {
        return (struct child_begin){.code = "idempotency_key_reused"};
    }
    while (item->retry != 0 && simulation->items[item->retry - 1].place != PLACE_PURGED) {
        item = &simulation->items[item->retry - 1];
    }
    if (item->place == PLACE_LIVE && is_awaited_by(simulation, family->parent, item->id)) {
        return (struct child_begin){.code = "illegal_state"};
    }
    return (struct child_begin){.adopted = item};
}

/* --- rows --- */

/* The plan that a record of the call has brought, or NULL. */
static json_t *plan_on_the_way(const struct simulation *simulation, const struct model_item *item, const char *step)
{
    const char *numbers = strncmp(step, "state.", 6) == 0 ? strchr(step + 6, '.') : NULL;
    for (size_t i = 0; i < simulation->record_count && strcmp(simulation->verb, "record") == 0; i++) {
        const struct record *record = &simulation->records[i];
        const struct step_record *reported = record->step;
        if (reported == NULL || record->fence != item->fence || strcmp(record->id, item->id) != 0) {
            continue;
        }
        if (numbers == NULL && strcmp(reported->step, step) == 0 && reported->state == STEP_WAITING &&
            signal_is_of_children(reported->signal)) {
            return json_loads(reported->variables, 0, NULL);
        }
        json_t *action = numbers == NULL || reported->action == NULL ? NULL : json_loads(reported->action, 0, NULL);
        json_t *plan = NULL;
        if (number_at(action, "action") == strtoll(step + 6, NULL, 10)) {
            plan = json_deep_copy(json_array_get(json_object_get(action, "plans"),
                                                 (size_t)strtoll(numbers == NULL ? "" : numbers + 1, NULL, 10)));
        }
        json_decref(action);
        if (plan != NULL) {
            return plan;
        }
    }
    return NULL;
}

static void family_appeared(struct simulation *simulation, const struct change *change)
{
    const struct model_item *item = observer_find(simulation, change->id);
    struct model_family *family = children_find(simulation, change->id, change->status);
    INVARIANT(item != NULL);
    if (family != NULL && (family->is_there || family->is_gone)) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "the children of %s of %s are planned twice", change->status,
             change->id);
        return;
    }
    family = touch(simulation, family == NULL ? add_family(simulation, change->id, change->status) : family);
    family->is_there = true;
    family->plan = plan_on_the_way(simulation, item, change->status);
    if (family->plan == NULL) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "the children of %s of %s are planned by %s, and not by its holder",
             change->status, change->id, simulation->verb);
    }
}

/* By its children: the numbers of this call go with the row. */
static bool is_done(struct simulation *simulation, const struct model_family *family)
{
    bool leaves = number_at(family->plan, "leaves") != 0;
    if (leaves && family->planned < family->count) {
        return false;
    }
    for (size_t place = 0; place < family->child_count; place++) {
        const struct model_child *child = &family->children[place];
        const struct model_item *item = observer_find(simulation, child->id);
        bool is_over = child->status[0] != '\0' || item == NULL || item->place != PLACE_LIVE || item->cancel_asked;
        if (leaves ? child->status[0] == '\0' : !is_over) {
            return false;
        }
    }
    return true;
}

static void family_vanished(struct simulation *simulation, struct model_family *family)
{
    const struct model_item *parent = observer_find(simulation, family->parent);
    /* The end of a step that a node holds takes the plan with it, if the duty has not read it by then. */
    bool is_unread = parent != NULL && family->count < 0 && parent->place != PLACE_LIVE;
    family->is_there = false;
    family->is_gone = true;
    if (!is_unread && (parent == NULL || parent->place != PLACE_PURGED || !is_done(simulation, family))) {
        fail(simulation, NOTHING_IS_LOST,
             "the children of %s of %s are forgotten: %lld of %lld have begun, %lld have ended", family->step,
             family->parent, (long long)family->started, (long long)family->count, (long long)family->ended);
    }
}

void children_note_family(struct simulation *simulation, const struct change *change)
{
    if (strcmp(change->what, "family+") == 0) {
        family_appeared(simulation, change);
        return;
    }
    struct model_family *family = children_find(simulation, change->id, change->status);
    INVARIANT(family != NULL);
    (void)touch(simulation, family);
    if (strcmp(change->what, "family-") == 0) {
        family_vanished(simulation, family);
        return;
    }
    int64_t count = change->has_count ? change->fence : -1;
    /* A store that reads a plan at once has no such number. */
    int64_t planned = change->extra == NULL ? (count < 0 ? 0 : count) : strtoll(change->extra, NULL, 10);
    if (change->rank < family->started || change->due_at < family->ended || change->run_at < family->completed ||
        planned < family->planned || (family->is_settled && change->phase == 0) || strcmp(simulation->verb, ADVANCE) != 0) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%s of %s went back, or was changed by %s: %lld begun, %lld ended",
             family->step, family->parent, simulation->verb, (long long)change->rank, (long long)change->due_at);
    }
    family->count = count;
    family->planned = planned;
    family->has_rest = change->extra != NULL && strchr(change->extra, ' ') != NULL;
    family->is_settled = change->phase != 0;
    family->started = change->rank;
    family->ended = change->due_at;
    family->completed = change->run_at;
    family->cancelled_to = change->node_id;
    family->depth = change->deferrals;
    family->row_leaves = change->priority != 0;
    family->row_wanted = change->lane_id;
    family->row_parallel = change->starts_refused;
    family->row_waits_for_all = change->handovers != 0;
    text_copy(family->problem, sizeof family->problem, change->has_reason ? change->waiting_for : "");
}

/* `extra` is the id of the execution and, behind a blank, the code of a refusal. */
void children_note_child(struct simulation *simulation, const struct change *change)
{
    struct model_family *family = children_find(simulation, change->id, change->status);
    INVARIANT(family != NULL);
    (void)touch(simulation, family);
    if (strcmp(change->what, "child-") == 0) {
        family->row_count--;
        return;
    }
    size_t place = (size_t)change->rank;
    if (strcmp(change->what, "child+") == 0) {
        if (place != family->row_count || strcmp(simulation->verb, ADVANCE) != 0 || family->is_gone) {
            fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "child %zu of %s of %s appears by %s behind %zu others", place,
                 family->step, family->parent, simulation->verb, family->row_count);
            return;
        }
        family->children = realloc(family->children, (place + 1) * sizeof family->children[0]);
        INVARIANT(family->children != NULL);
        family->children[family->row_count++] = (struct model_child){.is_begun = false};
        family->child_count = family->row_count;
        text_copy(family->children[place].planned_id, UUID_TEXT_MAX, change->extra);
    }
    if (place >= family->row_count) {
        return; /* fail() was called before */
    }
    struct model_child *child = &family->children[place];
    struct model_child before = *child;
    text_copy(child->id, sizeof child->id, change->extra);
    child->id[UUID_TEXT_MAX - 1] = '\0';
    const char *code = strchr(change->extra, ' ');
    text_copy(child->code, sizeof child->code, code == NULL ? "" : code + 1);
    text_copy(child->status, sizeof child->status, change->has_reason ? change->waiting_for : "");
    child->is_adopted = change->phase != 0;
    if (strcmp(change->what, "child=") == 0) {
        check_child_change(simulation, family, place, &before);
    }
}

void children_note_item(struct simulation *simulation, struct model_item *item)
{
    static const char sql[] = "SELECT d.name FROM workflow_definitions d WHERE d.id = coalesce((SELECT q.definition_id FROM"
                              " workflow_execution_queue q WHERE q.id = $1), (SELECT h.definition_id FROM"
                              " workflow_executions h WHERE h.id = $1))";
    if (simulation->read_workflow == NULL) {
        simulation->read_workflow = question_prepare(simulation, sql);
    }
    question_ask_text(simulation->read_workflow, item->id);
    if (question_next(simulation->read_workflow)) {
        text_copy(item->workflow, sizeof item->workflow, question_text(simulation->read_workflow, 0));
    }
    question_end(simulation->read_workflow);
    if (strcmp(simulation->verb, ADVANCE) != 0) {
        return;
    }
    size_t place = 0;
    struct model_family *family = family_of_child(simulation, item->id, &place);
    if (family == NULL || (int64_t)place < family->started || family->children[place].is_begun) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%s was started, and it is no child, or one that has begun before",
             item->id);
        return;
    }
    (void)touch(simulation, family);
    check_new_child(simulation, family, place, item);
}

void children_note_wait(struct simulation *simulation, const struct change *change)
{
    struct model_family *family = children_find(simulation, change->id, change->status);
    family = family == NULL ? add_family(simulation, change->id, change->status) : family;
    (void)touch(simulation, family);
    text_copy(family->status, sizeof family->status, change->waiting_for == NULL ? "" : change->waiting_for);
    text_copy(family->code, sizeof family->code, change->extra == NULL ? "" : change->extra);
    family->due_us = family->was_waiting && strcmp(family->status, "WAITING") != 0 ? family->due_us : change->due_at;
}

void children_note_signal(struct simulation *simulation, const struct change *change)
{
    if (!signal_is_of_children(change->status)) {
        return;
    }
    struct model_item *item = observer_find(simulation, change->id);
    struct model_family *family = children_find(simulation, change->id, change->status + strlen(CHILDREN_SIGNAL));
    if (family == NULL || item == NULL) {
        fail(simulation, A_WAIT_ENDS_ONCE, "%s has got the end of children that it does not have: %s", change->id,
             change->status);
        return;
    }
    (void)touch(simulation, family);
    if (strcmp(change->what, "signal+") == 0) {
        family->signalled_now++;
        family->signals++;
        item->wake_asked = true;
        json_decref(family->data);
        family->data = json_loads(change->extra, 0, NULL);
    } else if (change->phase != 0) {
        family->consumed_now++;
        family->consumed++;
    }
}

/* --- who may change an execution --- */

bool children_may_drop_plan(struct simulation *simulation, const char *parent, const char *step)
{
    const struct model_family *family = children_find(simulation, parent, step);
    return strcmp(simulation->verb, ADVANCE) == 0 && family != NULL && family->batch == simulation->observed_from &&
           family->was_unread;
}

bool children_may_cancel(struct simulation *simulation, const struct model_item *item)
{
    for (size_t i = 0; i < simulation->family_count && strcmp(simulation->verb, ADVANCE) == 0; i++) {
        const struct model_family *family = &simulation->families[i];
        const struct model_item *parent = observer_find(simulation, family->parent);
        bool is_closed = parent != NULL && parent->place != PLACE_LIVE && number_at(family->plan, "leaves") == 0;
        for (size_t place = 0; place < family->row_count && is_closed; place++) {
            if (!family->children[place].is_adopted && strcmp(family->children[place].id, item->id) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool children_may_wake(const struct simulation *simulation, struct model_item *item)
{
    bool is_by_duty = strcmp(simulation->verb, ADVANCE) == 0;
    item->woken_by_children = is_by_duty ? simulation->observed_from : item->woken_by_children;
    return is_by_duty;
}
