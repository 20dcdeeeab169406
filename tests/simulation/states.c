/* Workflows with states: the acts of persons on them, and the model of each machine.
 *
 * The observer brings the rows in the order of their writes: actions, the row of the step `state`, and signals. An action
 * is a move of the model. It must start in its present state and lead to one that the definition allows. A handler's action
 * needs the claim of the item, and an update needs an item that no node holds. The model computes the variables as the
 * handlers do (support/scripted_engine/machine.c), from the numbers of the actions and the data of the consumed signals.
 *
 * After each call (check_states()):
 *
 *   1. The machine in the row of the step is the model's. So no answer is lost, and none counts twice.
 *   2. A wait for a signal has ended by one signal that was consumed, by its time, by an update or by a cancel. No signal
 * is consumed otherwise, and none that has come is overlooked by a parked execution.
 *   3. The end is the one that the last action or state gives.
 *
 * A handler must be given the machine of the model (check_handler()). At the end, each answer whose record the engine was
 * told of is an action (check_actions()). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "queue/signal.h"
#include "simulation/simulation.h"
#include "store/states.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define MACHINE_HEAD                                                                                                       \
    "{\"name\":\"machine\",\"initial\":\"begin\",\"variables\":{\"count\":{\"type\":\"integer\",\"initial\":0},"           \
    "\"sum\":{\"type\":\"integer\",\"initial\":1},\"got\":{\"type\":\"integer\",\"initial\":0},\"note\":{\"type\":"        \
    "\"integer\"}},\"signals\":[\"go\",\"stop\"],\"on_error\":\"repair\",\"states\":{"                                     \
    "\"begin\":{\"handler\":\"work\",\"next\":[\"work\",\"check\"]},\"check\":{\"handler\":\"work\",\"next\":[\"begin\","  \
    "\"work\",\"ask\",\"check\"]},\"repair\":{\"handler\":\"work\",\"next\":[\"work\",\"ask\"]},\"ask\":{\"type\":"        \
    "\"manual\"},\"finish\":{\"type\":\"end\"},\"broken\":{\"type\":\"error\"},\"rescue\":{\"type\":\"error\","            \
    "\"handler\":\"work\"},\"work\":{\"handler\":\"work\",\"retry\":{\"attempts\":3},\"on_failure\":\"rescue\",\"next\":"

/* The second version has one state more. */
static const char *const definitions[STATE_VERSIONS] = {
    MACHINE_HEAD "[\"work\",\"check\",\"ask\",\"finish\",\"broken\"]}}}",
    MACHINE_HEAD "[\"work\",\"check\",\"ask\",\"finish\",\"broken\",\"extra\"]},\"extra\":{\"handler\":\"work\"}},"
                 "\"unknown_state\":\"error\"}"};
static const char *const signal_names[STATE_SIGNALS] = {"go", "stop"};

/* --- the definition: the second version allows all that the first one does --- */

static const json_t *definition_of_states(void)
{
    static json_t *definition;
    if (definition == NULL) {
        definition = json_loads(definitions[STATE_VERSIONS - 1], 0, NULL);
        INVARIANT(definition != NULL);
    }
    return definition;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static const json_t *state_named(const char *name)
{
    return json_object_get(json_object_get(definition_of_states(), "states"), name);
}

static bool is_of_type(const char *name, const char *type)
{
    return strcmp(text_at(state_named(name), "type"), type) == 0;
}

static bool has_handler(const char *name)
{
    return json_object_get(state_named(name), "handler") != NULL;
}

static bool may_follow(const char *from, const char *next)
{
    const json_t *listed = json_object_get(state_named(from), "next");
    bool is_listed = listed == NULL;
    for (size_t i = 0; i < json_array_size(listed); i++) {
        is_listed = is_listed || strcmp(json_string_value(json_array_get(listed, i)), next) == 0;
    }
    return is_listed && state_named(next) != NULL;
}

/* "" = the execution fails. */
static const char *state_after_failure(const char *name)
{
    const char *on_failure = text_at(state_named(name), "on_failure");
    const char *on_error = text_at(definition_of_states(), "on_error");
    return on_failure[0] != '\0' ? on_failure : strcmp(on_error, name) == 0 ? "" : on_error;
}

static int attempts_of(const char *name)
{
    const json_t *attempts = json_object_get(json_object_get(state_named(name), "retry"), "attempts");
    return attempts == NULL ? 1 : (int)json_integer_value(attempts);
}

/* --- the model --- */

static void begin_model(struct model_machine *machine)
{
    *machine = (struct model_machine){.is_known = true, .variables = {.sum = 1}, .batch = machine->batch};
    text_copy(machine->state, sizeof machine->state, text_at(definition_of_states(), "initial"));
}

/* The part of the call that is being looked at begins anew. */
static struct model_machine *touch(const struct simulation *simulation, struct model_item *item)
{
    struct model_machine *machine = &item->machine;
    if (!machine->is_known) {
        begin_model(machine);
    }
    if (machine->batch != simulation->observed_from) {
        machine->batch = simulation->observed_from;
        machine->consumed_now = 0;
        machine->consumed_data = 0;
        machine->is_answered = false;
        machine->begins_wait = false;
        machine->ended_wait[0] = '\0';
    }
    return machine;
}

/* The handler that gets the signal has answered, or its state is entered without one. */
static void end_wait(struct model_machine *machine)
{
    text_copy(machine->ended_wait, sizeof machine->ended_wait, machine->awaits);
    machine->ended_wait_due_us = machine->wait_due_us;
    machine->awaits[0] = '\0';
}

static bool is_in_set(const struct simulation *simulation, const char *id, int64_t fence)
{
    for (size_t i = 0; i < simulation->record_count && strcmp(simulation->verb, "record") == 0; i++) {
        const struct record *record = &simulation->records[i];
        if (strcmp(record->id, id) == 0 && record->fence == fence && record->step != NULL && record->step->action != NULL) {
            return true;
        }
    }
    return false;
}

static void enter(struct model_machine *machine, const char *next)
{
    text_copy(machine->state, sizeof machine->state, next);
    machine->failures = 0;
}

static void note_answer(struct simulation *simulation, struct model_item *item, const struct change *change,
                        const char *next)
{
    struct model_machine *machine = &item->machine;
    const char *outcome = change->status;
    char after_failure[STEP_ID_MAX + 1];
    bool goes_on = strcmp(outcome, "next") == 0 || strcmp(outcome, "wait") == 0;
    bool is_unknown = strcmp(outcome, "unknown") == 0 && state_named(next) == NULL; /* the state waits as it is */
    bool is_retry = strcmp(outcome, "retry") == 0;
    bool is_held = item->place == PLACE_ENDED || (item->phase == 2 && item->node_id == change->node_id);
    text_copy(after_failure, sizeof after_failure, state_after_failure(machine->state));
    if (!is_held || change->fence != item->fence || !is_in_set(simulation, item->id, change->fence)) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "action %lld of %s under fence %lld is none of its holder",
             (long long)change->rank, item->id, (long long)change->fence);
    } else if (goes_on ? !may_follow(machine->state, next)
                       : !is_unknown && strcmp(next, strcmp(outcome, "failed") == 0 ? after_failure : "") != 0) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "action %lld of %s leads from %s by %s to \"%s\"",
             (long long)change->rank, item->id, machine->state, outcome, next);
    } else if (is_retry ? machine->failures + 1 >= attempts_of(machine->state)
                        : !goes_on && !is_unknown && strcmp(outcome, "failed") != 0 && strcmp(outcome, "done") != 0) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "action %lld of %s has the outcome %s, failure %d of %d",
             (long long)change->rank, item->id, outcome, machine->failures + 1, attempts_of(machine->state));
    }
    machine->answers++;
    machine->is_answered = true;
    machine->begins_wait = strcmp(outcome, "wait") == 0;
    machine->variables.count++;
    machine->variables.sum = scripted_sum(machine->variables.sum, change->rank);
    machine->failures += is_retry;
    machine->is_retry = is_retry || is_unknown;
    if (!machine->is_retry) {
        end_wait(machine);
        machine->has_failed = strcmp(outcome, "failed") == 0 && next[0] == '\0';
        machine->is_done = strcmp(outcome, "done") == 0;
        enter(machine, next[0] == '\0' ? machine->state : next);
    }
}

static void note_update(struct simulation *simulation, struct model_item *item, const struct change *change,
                        const char *next, const char *actor)
{
    struct model_machine *machine = &item->machine;
    const struct asked_update *asked = &simulation->asked_update;
    if (item->place != PLACE_LIVE || item->phase == 2) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s was updated by %s while a node held it", item->id, simulation->verb);
    } else if (strcmp(asked->id, item->id) != 0 || strcmp(actor, "tester") != 0 ||
               strcmp(next, asked->state == NULL ? machine->state : asked->state) != 0) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION,
             "update %lld of %s to %s by \"%s\" is not the one that was asked for", (long long)change->rank, item->id, next,
             actor);
    }
    machine->note = asked->has_note ? asked->note : machine->note;
    if (asked->state != NULL) {
        machine->awaits[0] = '\0';
        machine->is_retry = false;
        enter(machine, next);
    }
}

void states_note_action(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    if (strcmp(change->what, "action+") != 0) {
        if (strcmp(change->what, "action-") != 0 || (item != NULL && item->place != PLACE_PURGED)) {
            fail(simulation, EVERYTHING_IS_ON_RECORD, "an action on record changed: %s of %s", change->what, change->id);
        }
        return;
    }
    INVARIANT(item != NULL);
    struct model_machine *machine = touch(simulation, item);
    json_t *extra = json_loads(change->extra, 0, NULL);
    INVARIANT(extra != NULL);
    if (change->rank <= machine->action) {
        fail(simulation, EVERYTHING_IS_ON_RECORD, "action %lld of %s is on record behind action %d",
             (long long)change->rank, item->id, machine->action);
    } else if (strcmp(text_at(extra, "state"), machine->state) != 0) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "action %lld of %s is one of %s, and the execution is in %s",
             (long long)change->rank, item->id, text_at(extra, "state"), machine->state);
    } else if (strcmp(change->status, "update") == 0) {
        note_update(simulation, item, change, text_at(extra, "next"), text_at(extra, "actor"));
    } else {
        note_answer(simulation, item, change, text_at(extra, "next"));
    }
    machine->action = (int)change->rank;
    json_decref(extra);
}

/* --- the row of the step, and signals --- */

static struct scripted_variables variables_in(const json_t *object)
{
    return (struct scripted_variables){.count = json_integer_value(json_object_get(object, "count")),
                                       .sum = json_integer_value(json_object_get(object, "sum")),
                                       .got = json_integer_value(json_object_get(object, "got"))};
}

void states_note_row(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    INVARIANT(item != NULL);
    struct model_machine *machine = touch(simulation, item);
    json_t *extra = change->extra == NULL ? NULL : json_loads(change->extra, 0, NULL);
    const json_t *root = json_object_get(extra, "machine");
    const json_t *variables = json_object_get(root, "variables");
    const json_t *output = json_object_get(extra, "output");
    text_copy(machine->row_state, sizeof machine->row_state, text_at(root, "state"));
    text_copy(machine->row_status, sizeof machine->row_status, change->status);
    machine->row_variables = variables_in(variables);
    machine->row_note = json_integer_value(json_object_get(variables, "note"));
    machine->row_due_us = change->due_at;
    machine->has_row = json_is_object(root);
    machine->has_output = json_is_object(output);
    machine->row_output = variables_in(output);
    text_copy(machine->row_awaits, sizeof machine->row_awaits, text_at(root, "signal"));
    text_copy(machine->row_signal, sizeof machine->row_signal, change->has_reason ? change->waiting_for : "");
    bool is_wait = strcmp(change->status, "WAITING") == 0 && strcmp(machine->row_signal, machine->awaits) == 0;
    if (strcmp(simulation->verb, "record") == 0 && machine->awaits[0] != '\0' && !is_wait && !has_handler(machine->state) &&
        strcmp(change->status, "CANCELLED") != 0) {
        end_wait(machine); /* no handler gets the signal, so no action follows */
    }
    json_decref(extra);
}

static int number_of_signal(const char *name)
{
    for (int i = 0; i < STATE_SIGNALS; i++) {
        if (strcmp(name, signal_names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

void states_note_signal(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    int number = number_of_signal(change->status);
    bool is_of_children = strncmp(change->status, CHILDREN_SIGNAL "state.", sizeof CHILDREN_SIGNAL "state." - 1) == 0;
    if (item == NULL || (number < 0 && !is_of_children)) {
        return; /* a wake */
    }
    struct model_machine *machine = touch(simulation, item);
    if (strcmp(change->what, "signal+") == 0) {
        machine->sent[is_of_children ? 0 : number] += !is_of_children;
    } else if (change->phase != 0) {
        machine->consumed[is_of_children ? 0 : number] += !is_of_children;
        machine->consumed_now++;
        machine->consumed_data += is_of_children ? 0 : strtoll(change->extra, NULL, 10);
        text_copy(machine->consumed_name, sizeof machine->consumed_name, change->status);
    }
}

/* --- checks --- */

static bool are_equal(const struct scripted_variables *left, const struct scripted_variables *right)
{
    return left->count == right->count && left->sum == right->sum && left->got == right->got;
}

static void check_row(struct simulation *simulation, const struct model_item *item)
{
    const struct model_machine *machine = &item->machine;
    const struct scripted_variables *model = &machine->variables;
    const struct scripted_variables *row = &machine->row_variables;
    if (!machine->has_row) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s is in %s, and has no machine on record", item->id,
             machine->state);
    } else if (strcmp(machine->row_state, machine->state) != 0) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s is in %s on record, its actions lead to %s", item->id,
             machine->row_state, machine->state);
    } else if (!are_equal(model, row) || machine->note != machine->row_note) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION,
             "%s has the variables %lld, %lld, %lld, %lld on record, its actions give %lld, %lld, %lld, %lld", item->id,
             (long long)row->count, (long long)row->sum, (long long)row->got, (long long)machine->row_note,
             (long long)model->count, (long long)model->sum, (long long)model->got, (long long)machine->note);
    }
}

/* A wait that begins is on record with its name and time. The engine counts from the answer, the record from its commit. */
static void take_wait(const struct simulation *simulation, const struct model_item *item, struct model_machine *machine)
{
    const struct scripted_entry *entry = world_engine_entry(simulation, item->id);
    int64_t answered_us = entry == NULL || entry->answers == 0 ? simulation->boot_us : entry->step[0].end_us;
    bool is_known = number_of_signal(machine->row_awaits) >= 0 || signal_is_of_children(machine->row_awaits);
    if (machine->begins_wait && machine->awaits[0] == '\0' && is_known) {
        text_copy(machine->awaits, sizeof machine->awaits, machine->row_awaits);
        machine->wait_due_us = machine->row_due_us == 0 ? 0 : machine->row_due_us - (simulation->boot_us - answered_us);
    }
}

static void check_wait(struct simulation *simulation, const struct model_item *item)
{
    const struct model_machine *machine = &item->machine;
    bool has_ended = machine->ended_wait[0] != '\0';
    bool is_by_signal = machine->consumed_now > 0;
    bool is_right = machine->consumed_now == 1 && has_ended && strcmp(machine->consumed_name, machine->ended_wait) == 0;
    bool is_over = machine->ended_wait_due_us != 0 && simulation->profile.clock_step == 0
                       ? machine->ended_wait_due_us <= observer_store_time(simulation)
                       : machine->ended_wait_due_us != 0;
    int number = number_of_signal(machine->awaits);
    bool is_parked = item->place == PLACE_LIVE && item->phase == 3;
    if (machine->begins_wait && item->state != ITEM_CANCELLED && /* in the same set of records */
        (strcmp(machine->row_status, "WAITING") != 0 || strcmp(machine->row_signal, machine->awaits) != 0)) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s is to wait for %s, and its step is %s and waits for \"%s\"",
             item->id, machine->awaits, machine->row_status, machine->row_signal);
    } else if (is_by_signal && !is_right) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s has consumed %d signals (%s), and it has waited for \"%s\"",
             item->id, machine->consumed_now, machine->consumed_name, machine->ended_wait);
    } else if (has_ended && !is_by_signal && !is_over && item->state != ITEM_CANCELLED) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION,
             "the wait of %s for %s has ended without a cause, its time was %lld us before", item->id, machine->ended_wait,
             (long long)(observer_store_time(simulation) - machine->ended_wait_due_us));
    } else if (is_parked && number >= 0 && !machine->is_retry && machine->sent[number] > machine->consumed[number]) {
        fail(simulation, NOBODY_STARVES, "%s is parked for %s, which has come", item->id, machine->awaits);
    }
}

static void check_manual(struct simulation *simulation, const struct model_item *item)
{
    const struct model_machine *machine = &item->machine;
    bool waits = strcmp(machine->row_signal, MANUAL_SIGNAL "state") == 0 && strcmp(machine->row_status, "WAITING") == 0;
    if (item->place == PLACE_LIVE && item->phase == 3 && waits &&
        (item->due_at != TIME_NEVER || !is_of_type(machine->state, "manual"))) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s waits in %s for a person until %lld", item->id, machine->state,
             (long long)item->due_at);
    }
}

static void check_end_of_machine(struct simulation *simulation, const struct model_item *item)
{
    const struct model_machine *machine = &item->machine;
    bool is_error = is_of_type(machine->state, "error");
    bool may_complete = (machine->is_done && !is_error) || is_of_type(machine->state, "end");
    bool may_fail = machine->has_failed || (is_error && (machine->is_done || !has_handler(machine->state)));
    if (item->state == ITEM_COMPLETED && !may_complete) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s is COMPLETED in %s", item->id, machine->state);
    } else if (item->state == ITEM_FAILED && strcmp(item->error_code, "scripted_failure") == 0 && !may_fail) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s is FAILED in %s", item->id, machine->state);
    } else if (item->state == ITEM_COMPLETED &&
               (!machine->has_output || !are_equal(&machine->row_output, &machine->variables))) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "the output of %s is not its variables", item->id);
    } else if ((may_complete && machine->is_done && item->place == PLACE_LIVE) ||
               (machine->has_failed && item->place == PLACE_LIVE)) {
        fail(simulation, NOTHING_IS_LOST, "the last action of %s is on record, and it has not ended", item->id);
    }
}

void check_states(struct simulation *simulation, struct model_item *item)
{
    if (!item->machine.is_known || (item->place != PLACE_LIVE && item->place != PLACE_ENDED) || failed(simulation)) {
        return;
    }
    struct model_machine *machine = touch(simulation, item); /* also when the row of the queue alone has changed */
    if (machine->is_answered) { /* a state without a handler takes a signal and reads no data */
        machine->variables.got += machine->consumed_data;
        machine->consumed_data = 0;
    }
    take_wait(simulation, item, machine);
    check_wait(simulation, item);
    if (machine->action > 0 || machine->has_row) {
        check_row(simulation, item);
    }
    check_manual(simulation, item);
    check_end_of_machine(simulation, item);
}

void check_handler(struct simulation *simulation, const struct scripted_entry *entry, struct model_item *item)
{
    const struct scripted_action *action = &entry->action;
    if (!action->is_open || item == NULL || item->place != PLACE_LIVE || item->phase != 2 || item->fence != action->fence) {
        return;
    }
    struct model_machine *machine = touch(simulation, item);
    if (action->number <= machine->action) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "action %d of %s runs, and action %d is on record", action->number,
             item->id, machine->action);
    } else if (strcmp(action->state, machine->state) != 0 || !are_equal(&action->variables, &machine->variables)) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION,
             "the handler of %s runs in %s with %lld, %lld, %lld, on record are %s and %lld, %lld, %lld", item->id,
             action->state, (long long)action->variables.count, (long long)action->variables.sum,
             (long long)action->variables.got, machine->state, (long long)machine->variables.count,
             (long long)machine->variables.sum, (long long)machine->variables.got);
    }
}

void check_actions(struct simulation *simulation)
{
    for (size_t i = 0; scripted_world_entry_at(simulation->engines[0], i) != NULL && !failed(simulation); i++) {
        const struct scripted_entry *entry = scripted_world_entry_at(simulation->engines[0], i);
        const struct model_item *item = entry->answers == 0 ? NULL : observer_find(simulation, entry->id);
        if (item != NULL && (item->machine.answers < entry->answers_durable || item->machine.answers > entry->answers)) {
            fail(simulation, EVERYTHING_IS_ON_RECORD,
                 "handlers of %s have given %d answers, %d were recorded, %d are actions", item->id, entry->answers,
                 entry->answers_durable, item->machine.answers);
        }
    }
}

/* --- acts --- */

void states_prepare(struct simulation *simulation)
{
    struct weir_error error = {.status = WEIR_OK};
    struct published published;
    simulation->verb = "publish";
    if (simulation->profile.has_states &&
        store_publish(simulation->outside, "machine", NULL, definitions[0], NULL, &published, &error) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
    }
}

static bool may_be_answered(enum weir_status status)
{
    return status == WEIR_OK || status == WEIR_EXECUTION_NOT_FOUND || status == WEIR_ILLEGAL_STATE ||
           status == WEIR_CONFLICT || status == WEIR_COMMIT_UNKNOWN || status == WEIR_STORE_BUSY ||
           status == WEIR_STORE_FULL || status == WEIR_STORE_UNREACHABLE;
}

static void send_signal(struct simulation *simulation, struct model_item *item, int number)
{
    char data[24];
    struct weir_error error = {.status = WEIR_OK};
    struct sent_signal sent;
    int before = item->machine.sent[number];
    bool may_take = item->place == PLACE_LIVE;
    (void)snprintf(data, sizeof data, "%lld", (long long)(1 + draw(simulation, 1000)));
    struct signal_request request = {.id = item->id, .name = signal_names[number], .data = data};
    item->wake_asked = true;
    enum weir_status status = store_signal(simulation->outside, &request, &sent, &error);
    say(simulation, "signal %s to %s: %s", request.name, item->id, weir_status_name(status));
    if (!may_be_answered(status) || (status == WEIR_OK && item->machine.sent[number] != before + 1) ||
        (status == WEIR_OK && !may_take)) {
        fail(simulation, NOTHING_IS_LOST, "a signal to %s, which is %s: %s, %d on record", item->id,
             item_state_name(item->state), status == WEIR_OK ? "sent" : error.message, item->machine.sent[number]);
    }
}

/* `state` may be NULL. */
static void update_machine(struct simulation *simulation, struct model_item *item, const char *state, bool has_note,
                           const char *if_state)
{
    char variables[40];
    struct weir_error error = {.status = WEIR_OK};
    struct updated_state updated = {.action = 0};
    struct asked_update *asked = &simulation->asked_update;
    const struct model_machine *machine = &item->machine;
    *asked = (struct asked_update){.state = state, .has_note = has_note, .note = draw(simulation, 1000)};
    text_copy(asked->id, sizeof asked->id, item->id);
    (void)snprintf(variables, sizeof variables, "{\"note\":%lld}", (long long)asked->note);
    struct state_update update = {.state = state, .variables = has_note ? variables : NULL, .if_state = if_state};
    bool is_free = item->place == PLACE_LIVE && item->phase != 2;
    bool is_other = if_state != NULL && strcmp(if_state, machine->state) != 0;
    item->wake_asked = true;
    enum weir_status status = store_update_state(simulation->outside, item->id, &update, &updated, &error);
    say(simulation, "update %s to %s: %s", item->id, state == NULL ? "-" : state, weir_status_name(status));
    asked->id[0] = '\0';
    bool is_refused = status == WEIR_CONFLICT || status == WEIR_ILLEGAL_STATE || status == WEIR_EXECUTION_NOT_FOUND;
    if (!may_be_answered(status) || (is_free && !is_other && is_refused) || ((!is_free || is_other) && status == WEIR_OK)) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "an update of %s, which is %s in %s: %s", item->id,
             item_state_name(item->state), machine->state, status == WEIR_OK ? "done" : error.message);
    } else if (status == WEIR_OK && (updated.action != machine->action || strcmp(updated.state, machine->state) != 0)) {
        fail(simulation, EVERYTHING_IS_ON_RECORD, "update %d of %s to %s was answered, and action %d is on record",
             updated.action, item->id, updated.state, machine->action);
    }
}

/* The first version lacks a state. */
static void migrate_machine(struct simulation *simulation, struct model_item *item)
{
    char id[UUID_TEXT_MAX];
    struct weir_error error = {.status = WEIR_OK};
    struct bulk_result result = {.changed = 0};
    struct act_order order = {.to_version = 1 + (int)draw(simulation, STATE_VERSIONS)};
    bool is_unfit = order.to_version == 1 && strcmp(item->machine.state, "extra") == 0;
    text_copy(id, sizeof id, item->id);
    struct execution_filter filter = {.id = id};
    item->wake_asked = true; /* the row of a parked one changes */
    enum weir_status status =
        store_bulk_ordered(simulation->outside, BULK_MIGRATE, &order, &filter, "", 1, &result, &error);
    say(simulation, "migrate %s to %d: %s, %zu", id, order.to_version, weir_status_name(status), result.changed);
    if (!may_be_answered(status) && status != WEIR_WORKFLOW_NOT_FOUND) {
        fail(simulation, THE_MODEL_HOLDS, "migrate %s: %s", id, error.message);
    } else if (status == WEIR_OK && result.changed > 0 && (is_unfit || item->phase == 2 || item->place != PLACE_LIVE)) {
        fail(simulation, STATES_FOLLOW_THE_DEFINITION, "%s, which is %s in %s, goes on with version %d", id,
             item_state_name(item->state), item->machine.state, order.to_version);
    }
}

/* One that waits, mostly. */
static struct model_item *pick_machine(struct simulation *simulation)
{
    struct model_item *picked = NULL;
    int64_t found = 0;
    for (size_t i = 0; i < simulation->item_count; i++) {
        struct model_item *item = &simulation->items[i];
        bool is_candidate =
            item->machine.is_known && item->place != PLACE_PURGED &&
            (item->state == ITEM_WAITING || drawn(simulation, item->place == PLACE_LIVE && item->phase == 2 ? 5000 : 1000));
        found += is_candidate;
        picked = is_candidate && draw(simulation, found) == 0 ? item : picked;
    }
    return picked;
}

void states_act(struct simulation *simulation)
{
    static const char *const targets[] = {"work", "ask", "check", "begin", "finish"};
    struct model_item *item = pick_machine(simulation);
    if (drawn(simulation, 300)) {
        struct weir_error error = {.status = WEIR_OK};
        struct published published;
        simulation->verb = "publish";
        if (!may_be_answered(
                store_publish(simulation->outside, "machine", NULL, definitions[1], NULL, &published, &error))) {
            fail(simulation, THE_MODEL_HOLDS, "publish: %s", error.message);
        }
    } else if (item != NULL && drawn(simulation, 4500)) {
        int number = number_of_signal(item->machine.awaits);
        send_signal(simulation, item,
                    number >= 0 && drawn(simulation, 7000) ? number : (int)draw(simulation, STATE_SIGNALS));
    } else if (item != NULL && drawn(simulation, 7000)) {
        const char *state = targets[draw(simulation, sizeof targets / sizeof targets[0])];
        bool has_note = drawn(simulation, 5000);
        state = has_note && drawn(simulation, 4000) ? NULL : state;
        bool is_guarded = drawn(simulation, 3000);
        update_machine(simulation, item, state, has_note, is_guarded ? "ask" : NULL);
    } else if (item != NULL) {
        migrate_machine(simulation, item);
    }
    world_wake_nodes(simulation);
}

/* Between the record of a wait and that of its park: only the numbers in the park show the store that it has come. */
void states_signal_early(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->item_count; i++) {
        struct model_item *item = &simulation->items[i];
        int number = number_of_signal(item->machine.awaits);
        if (number >= 0 && item->place == PLACE_LIVE && item->phase == 2 && item->node_id != 0 && !item->machine.is_retry &&
            strcmp(item->machine.row_status, "WAITING") == 0 && drawn(simulation, 2500)) {
            send_signal(simulation, item, number);
            return;
        }
    }
}

/* The wait of a state that is unknown lasts for longer than the end of a run. */
static void wake_unknown(struct simulation *simulation, struct model_item *item)
{
    char id[UUID_TEXT_MAX];
    struct bulk_result result;
    struct weir_error error = {.status = WEIR_OK};
    text_copy(id, sizeof id, item->id);
    const struct execution_filter filter = {.id = id};
    if (item->due_at - observer_store_time(simulation) > 60 * SECOND_US) {
        item->wake_asked = true;
        if (!may_be_answered(store_bulk(simulation->outside, BULK_WAKE, &filter, "", 1, &result, &error))) {
            fail(simulation, THE_MODEL_HOLDS, "wake %s: %s", id, error.message);
        }
    }
}

/* Those outside give each wait its cause. */
void states_settle(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->item_count && !failed(simulation); i++) {
        struct model_item *item = &simulation->items[i];
        const struct model_machine *machine = &item->machine;
        if (!machine->is_known || item->place != PLACE_LIVE || item->state != ITEM_WAITING) {
            continue;
        }
        if (machine->is_retry) {
            wake_unknown(simulation, item);
            continue;
        }
        int number = number_of_signal(machine->awaits);
        if (is_of_type(machine->state, "manual") && machine->awaits[0] == '\0' && item->due_at == TIME_NEVER) {
            update_machine(simulation, item, i % 2 == 0 ? "finish" : "work", false, machine->state);
        } else if (number >= 0) {
            send_signal(simulation, item, number);
        }
    }
}
