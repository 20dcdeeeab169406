/* The duties of each call towards steps with children. The model is in children.c.
 *
 * At each write of a row (check_new_child(), check_child_change()):
 *
 *   1. A child begins once, as its plan has it, and its end on record is that of its execution.
 *
 * After each call, of each step that it has touched (check_children()):
 *
 *   2. Each planned child has one row, and the row of the step has the numbers of the plan and of its children. A store may
 *      make the rows in parts. It makes the first one at once, and the others unless its parent ends and cancels them.
 *   3. At most max_parallel children have begun and not ended.
 *   4. The wait ends with the children that it needs, when all have rows. One signal ends it, with all outcomes in the
 *      order of the plan. No signal comes otherwise.
 *   5. The step ends its wait once: by this signal, by its time, or with its execution. Its record has the cause.
 *
 * After each call of the duty that has done all that it could (children_check_advance()), and soon in a calm fleet
 * (children_check_promptness()):
 *
 *   6. Every end is counted, every child that may begin has begun, no wait is left that is over, the children of an ended
 *      parent are cancelled or left by its plan, and a purged parent has no rows that nobody needs.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "queue/signal.h"
#include "simulation/simulation.h"

#define PROMPT_US (20 * MICROSECONDS_PER_SECOND)
#define LOOK_US (60 * MICROSECONDS_PER_SECOND) /* the duty reads notes of former nodes as rarely as this */
#define PURGED "its parent was purged"

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static int64_t number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool leaves(const struct model_family *family)
{
    return number_at(family->plan, "leaves") != 0;
}

static const struct model_item *parent_of(struct simulation *simulation, const struct model_family *family)
{
    const struct model_item *parent = observer_find(simulation, family->parent);
    INVARIANT(parent != NULL);
    return parent;
}

/* --- 1: a child --- */

void check_new_child(struct simulation *simulation, const struct model_family *family, size_t place,
                     const struct model_item *item)
{
    const json_t *priority = json_object_get(family->plan, "priority");
    const char *key = json_string_value(json_array_get(json_object_get(family->plan, "keys"), place));
    struct child_begin begin = children_expected_begin(simulation, family, place);
    int64_t expected = json_is_integer(priority) ? json_integer_value(priority) : parent_of(simulation, family)->priority;
    const struct model_item *parent = parent_of(simulation, family);
    if (begin.code != NULL || begin.adopted != NULL) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%s was started as child %zu of %s, which is to be %s", item->id, place,
             family->parent, begin.code == NULL ? begin.adopted->id : begin.code);
    } else if (item->workspace != children_workspace(simulation, family) ||
               strcmp(item->workflow, text_at(family->plan, "workflow")) != 0 ||
               strcmp(item->key, key == NULL ? "" : key) != 0 || item->priority != expected) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN,
             "child %zu of %s begins as %s in %s with the key \"%s\" and the priority %d, and not as planned", place,
             family->parent, item->workflow, simulation->workspaces[item->workspace].name, item->key, item->priority);
    } else if (parent->place != PLACE_LIVE && !leaves(family)) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "child %zu of %s was started behind the end of its parent", place,
             family->parent);
    }
}

/* How the execution has ended, or "". */
static const char *end_of(const struct model_item *item)
{
    return item == NULL || item->place == PLACE_PURGED ? "LOST"
           : item->place == PLACE_ENDED                ? item_state_name(item->state)
                                                       : "";
}

static void check_beginning(struct simulation *simulation, const struct model_family *family, size_t place)
{
    const struct model_child *child = &family->children[place];
    struct child_begin begin = children_expected_begin(simulation, family, place);
    bool is_refused = strcmp(child->status, "REFUSED") == 0;
    const char *adopted = begin.adopted == NULL ? child->planned_id : begin.adopted->id;
    const char *end = begin.adopted == NULL ? "" : end_of(begin.adopted);
    bool is_right = begin.code != NULL
                        ? is_refused && strcmp(child->code, begin.code) == 0
                        : !is_refused && strcmp(child->id, adopted) == 0 && strcmp(child->status, end) == 0 &&
                              child->is_adopted == (begin.adopted != NULL);
    if (!is_right && !(is_refused && strcmp(text_at(family->plan, "workflow"), "unknown") == 0)) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "child %zu of %s of %s begins as \"%s\" %s %s%s, and is to be %s \"%s\"",
             place, family->step, family->parent, child->status, child->code, child->is_adopted ? "adopted " : "",
             child->id, begin.code == NULL ? adopted : begin.code, end);
    }
}

void check_child_change(struct simulation *simulation, const struct model_family *family, size_t place,
                        const struct model_child *before)
{
    const struct model_child *child = &family->children[place];
    if (strcmp(simulation->verb, "advance_children") != 0 || before->status[0] != '\0') {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "child %zu of %s, which is \"%s\", was changed by %s to \"%s\"", place,
             family->parent, before->status, simulation->verb, child->status);
    } else if (!before->is_begun) {
        check_beginning(simulation, family, place);
    } else if (strcmp(child->id, before->id) != 0 || child->is_adopted != before->is_adopted || child->code[0] != '\0' ||
               child->status[0] == '\0' || strcmp(child->status, end_of(observer_find(simulation, child->id))) != 0) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN,
             "child %zu of %s, which is %s, ends as \"%s\", and its execution as \"%s\"", place, family->parent, child->id,
             child->status, end_of(observer_find(simulation, child->id)));
    }
}

/* --- 2 and 3: the numbers --- */

/* Its parent has ended, and cancels its children. */
static bool is_closed(struct simulation *simulation, const struct model_family *family)
{
    return parent_of(simulation, family)->place != PLACE_LIVE && !leaves(family);
}

static void check_parts(struct simulation *simulation, const struct model_family *family)
{
    int64_t first = family->count < simulation->profile.child_part ? family->count : simulation->profile.child_part;
    bool is_whole = family->planned == family->count;
    if (family->planned < first || family->planned > family->count || family->has_rest == is_whole) {
        bool is_ended = family->planned >= first && !is_whole && is_closed(simulation, family);
        if (!is_ended) {
            fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%lld of %lld children of %s of %s have rows, and the plan is %s",
                 (long long)family->planned, (long long)family->count, family->step, family->parent,
                 family->has_rest ? "kept" : "gone");
        }
    }
}

static void check_plan(struct simulation *simulation, const struct model_family *family)
{
    const json_t *plan = family->plan;
    int64_t planned = (int64_t)json_array_size(json_object_get(plan, "children"));
    if (family->count != planned || family->row_count != (size_t)family->planned || family->problem[0] != '\0' ||
        family->row_leaves != leaves(family) || family->row_wanted != number_at(plan, "wanted") ||
        family->row_parallel != number_at(plan, "max_parallel") ||
        family->row_waits_for_all != (number_at(plan, "waits_for_all") != 0)) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN,
             "%s of %s has %zu rows for %lld children, of %lld planned; wanted %lld, at once %lld, problem \"%s\"",
             family->step, family->parent, family->row_count, (long long)family->count, (long long)planned,
             (long long)family->row_wanted, (long long)family->row_parallel, family->problem);
    }
}

/* Before the children of this call count as begun. */
static void check_begun(struct simulation *simulation, struct model_family *family)
{
    int64_t ended = 0;
    int64_t completed = 0;
    int64_t living = 0;
    for (size_t place = 0; place < family->row_count && !failed(simulation); place++) {
        struct model_child *child = &family->children[place];
        const struct model_item *item = observer_find(simulation, child->id);
        bool has_begun = (int64_t)place < family->started;
        bool is_refused = strcmp(child->status, "REFUSED") == 0;
        if (has_begun && !is_refused && item == NULL) {
            fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "child %zu of %s of %s has begun without an execution", place,
                 family->step, family->parent);
        } else if (!has_begun && (item != NULL || child->status[0] != '\0' || child->is_adopted)) {
            fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "child %zu of %s of %s is there, and %lld have begun", place,
                 family->step, family->parent, (long long)family->started);
        }
        child->is_begun = has_begun;
        ended += child->status[0] != '\0';
        completed += strcmp(child->status, "COMPLETED") == 0;
        living += has_begun && !is_refused && item != NULL && item->place == PLACE_LIVE && child->status[0] == '\0';
    }
    if (ended != family->ended || completed != family->completed || family->started > family->planned) {
        fail(simulation, COUNTERS_EQUAL_ROWS,
             "%s of %s counts %lld begun of %lld, %lld ended and %lld completed children, its rows give %lld and %lld",
             family->step, family->parent, (long long)family->started, (long long)family->planned, (long long)family->ended,
             (long long)family->completed, (long long)ended, (long long)completed);
    } else if (living > number_at(family->plan, "max_parallel")) {
        fail(simulation, CAP_IS_KEPT, "%lld children of %s of %s live at once, of %lld", (long long)living, family->step,
             family->parent, (long long)number_at(family->plan, "max_parallel"));
    }
}

/* When the plan is read. Rows that are gone by then count no longer. */
static void check_depth(struct simulation *simulation, const struct model_family *family)
{
    int64_t depth = 1;
    bool is_gone = false;
    for (size_t i = 0; i < simulation->family_count && family->was_unread; i++) {
        const struct model_family *other = &simulation->families[i];
        for (size_t place = 0; place < other->child_count; place++) {
            const struct model_child *child = &other->children[place];
            bool is_parent = !child->is_adopted && strcmp(child->id, family->parent) == 0;
            depth = is_parent ? other->depth + 1 : depth;
            is_gone = is_parent ? other->is_gone : is_gone;
        }
    }
    if (family->was_unread && family->depth != depth && !(is_gone && family->depth == 1)) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "the children of %s are %lld deep, and not %lld", family->parent,
             (long long)family->depth, (long long)depth);
    }
}

/* --- 4: the end of the wait --- */

static bool is_over(const struct model_family *family, bool *ret_is_completed)
{
    int64_t failures = family->ended - family->completed;
    int64_t wanted = number_at(family->plan, "wanted");
    bool is_of_all = number_at(family->plan, "waits_for_all") != 0;
    *ret_is_completed = is_of_all || wanted == 0 ? failures == 0 : family->completed >= wanted;
    return is_of_all     ? family->ended == family->count
           : wanted == 0 ? true
                         : *ret_is_completed || failures > family->count - wanted;
}

/* An action whose state has gone on, as by an update, waits no longer. */
static bool is_awaited(struct simulation *simulation, const struct model_family *family)
{
    const struct model_item *parent = parent_of(simulation, family);
    const char *signal = parent->machine.row_signal;
    bool is_of_action = strncmp(family->step, "state.", strlen("state.")) == 0;
    return parent->place == PLACE_LIVE && (!is_of_action || (signal_is_of_children(signal) &&
                                                             strcmp(signal + strlen(CHILDREN_SIGNAL), family->step) == 0));
}

static void check_outcome(struct simulation *simulation, const struct model_family *family, const json_t *outcome,
                          size_t place)
{
    const struct model_child *child = &family->children[place];
    const struct model_item *item = observer_find(simulation, child->id);
    bool is_lost = strcmp(child->status, "COMPLETED") == 0 && (item == NULL || item->place == PLACE_PURGED);
    const char *status = is_lost ? "LOST" : child->status[0] == '\0' ? "OPEN" : child->status;
    if (strcmp(text_at(outcome, "id"), child->id) != 0 || strcmp(text_at(outcome, "status"), status) != 0 ||
        json_object_get(outcome, "output") == NULL) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "the result of child %zu of %s is %s of %s, and it is %s of %s", place,
             family->parent, text_at(outcome, "status"), text_at(outcome, "id"), status, child->id);
    }
}

static void check_results(struct simulation *simulation, const struct model_family *family)
{
    const json_t *output = json_object_get(family->data, "output");
    bool is_single = number_at(family->plan, "is_single") != 0;
    if (is_single ? !json_is_object(output) : json_array_size(output) != family->row_count) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%s of %s has %zu results of %zu children", family->step, family->parent,
             json_array_size(output), family->row_count);
        return;
    }
    for (size_t place = 0; place < family->row_count; place++) {
        check_outcome(simulation, family, is_single ? output : json_array_get(output, place), place);
    }
}

static void check_failure_text(struct simulation *simulation, const struct model_family *family)
{
    size_t place = 0;
    while (place < family->row_count &&
           (family->children[place].status[0] == '\0' || strcmp(family->children[place].status, "COMPLETED") == 0)) {
        place++;
    }
    const char *status = place < family->row_count ? family->children[place].status : "";
    const char *code = strcmp(status, "REFUSED") == 0 ? "child_refused"
                       : strcmp(status, "LOST") == 0  ? "child_lost"
                                                      : "child_failed";
    if (place == family->row_count || strcmp(text_at(family->data, "code"), code) != 0 ||
        strstr(text_at(family->data, "error"), family->children[place].id) == NULL) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%s of %s fails with %s: %s; the first child that failed is %s",
             family->step, family->parent, text_at(family->data, "code"), text_at(family->data, "error"), status);
    }
}

static void check_settlement(struct simulation *simulation, const struct model_family *family)
{
    bool is_completed = false;
    bool over = is_over(family, &is_completed);
    bool is_settled_now = family->is_settled && !family->was_settled;
    int expected = is_settled_now && is_awaited(simulation, family) ? 1 : 0;
    if (is_settled_now && family->has_rest) {
        fail(simulation, A_WAIT_ENDS_ONCE, "the wait of %s of %s ends with %lld rows of %lld", family->step, family->parent,
             (long long)family->planned, (long long)family->count);
    } else if (is_settled_now && !over) {
        fail(simulation, A_WAIT_ENDS_ONCE, "the wait of %s of %s ends with %lld ended children of %lld, %lld completed",
             family->step, family->parent, (long long)family->ended, (long long)family->count,
             (long long)family->completed);
    } else if (family->signalled_now != expected || family->signals > 1) {
        fail(simulation, A_WAIT_ENDS_ONCE, "%s of %s is told %d times that its wait is over, and not %d times",
             family->step, family->parent, family->signalled_now, expected);
    } else if (expected > 0 && is_completed) {
        check_results(simulation, family);
    } else if (expected > 0) {
        check_failure_text(simulation, family);
    }
}

/* --- 5: the cause --- */

static bool time_is_over(struct simulation *simulation, const struct model_family *family)
{
    return simulation->profile.clock_step > 0 || (family->due_us != 0 && family->due_us <= observer_store_time(simulation));
}

static void check_cause(struct simulation *simulation, const struct model_family *family)
{
    const char *status = family->status;
    const char *code = text_at(family->data, "code");
    bool waits = strcmp(status, "WAITING") == 0;
    bool by_signal = family->consumed_now == 1;
    bool has_ended = family->was_waiting && !waits;
    bool lives = parent_of(simulation, family)->place == PLACE_LIVE;
    bool is_right = strcmp(status, "COMPLETED") == 0                ? by_signal && code[0] == '\0'
                    : strcmp(status, "CANCELLED") == 0              ? !by_signal && !lives
                    : by_signal                                     ? strcmp(family->code, code) == 0
                    : strcmp(family->code, "children_timeout") == 0 ? time_is_over(simulation, family)
                                                                    : !lives;
    if (family->consumed > 1 || (family->consumed_now > 0 && !has_ended)) {
        fail(simulation, A_WAIT_ENDS_ONCE, "the end of the children of %s of %s was used %d times, and its step is %s",
             family->step, family->parent, family->consumed, status);
    } else if (has_ended && !is_right) {
        fail(simulation, A_WAIT_ENDS_ONCE,
             "the wait of %s of %s ended as %s \"%s\" without a cause: %d signals, \"%s\", its time was %lld us before",
             family->step, family->parent, status, family->code, family->consumed_now, code,
             (long long)(observer_store_time(simulation) - family->due_us));
    } else if (waits && !family->is_there && !family->is_gone) {
        fail(simulation, NOTHING_IS_LOST, "%s of %s waits for children that nobody has planned", family->step,
             family->parent);
    }
}

/* --- after each call --- */

void check_children(struct simulation *simulation)
{
    if (!simulation->families_touched) {
        return;
    }
    simulation->families_touched = false;
    for (size_t i = 0; i < simulation->family_count && !failed(simulation); i++) {
        struct model_family *family = &simulation->families[i];
        if (family->batch != simulation->observed_from) {
            continue;
        }
        if (strncmp(family->step, "step-", strlen("step-")) == 0) {
            check_cause(simulation, family);
        }
        if (family->is_there && family->count >= 0 && !failed(simulation)) {
            check_plan(simulation, family);
            check_parts(simulation, family);
            check_begun(simulation, family);
            check_depth(simulation, family);
        }
        if (family->is_there && !failed(simulation)) {
            check_settlement(simulation, family);
        }
    }
}

static bool is_waited_for(const struct model_item *item, const struct model_family *family)
{
    const struct model_machine *machine = &item->machine;
    bool is_of_state = machine->is_known && !machine->is_retry && signal_is_of_children(machine->awaits) &&
                       strcmp(machine->awaits + strlen(CHILDREN_SIGNAL), family->step) == 0;
    return is_of_state || strcmp(family->status, "WAITING") == 0;
}

/* A parked execution is not left with children for which its step waits no longer, and shows its wait. */
void check_child_wait(struct simulation *simulation, const struct model_item *item)
{
    bool is_signalled = false;
    for (size_t i = 0; i < simulation->family_count; i++) {
        const struct model_family *family = &simulation->families[i];
        if (strcmp(family->parent, item->id) != 0) {
            continue;
        }
        bool waits = is_waited_for(item, family);
        is_signalled = is_signalled || (family->batch == simulation->observed_from && family->signalled_now > 0);
        if (item->place == PLACE_LIVE && item->phase == 3 && waits && family->signals > family->consumed) {
            fail(simulation, NOBODY_STARVES, "%s is parked for the children of %s, which have ended", item->id,
                 family->step);
        } else if (item->place == PLACE_LIVE && item->phase == 3 && waits && strcmp(item->waiting_for, "child") != 0) {
            fail(simulation, THE_MODEL_HOLDS, "%s is parked for its children and is said to wait for %s", item->id,
                 item->waiting_for);
        }
    }
    if (item->woken_by_children == simulation->observed_from && !is_signalled) {
        fail(simulation, A_WAIT_ENDS_ONCE, "%s was woken by the duty of children without the end of a wait", item->id);
    }
}

/* --- 6: nothing is left undone --- */

/* The work that is left for the step, or NULL. */
static const char *undone(struct simulation *simulation, const struct model_family *family)
{
    bool is_completed = false;
    const struct model_item *parent = parent_of(simulation, family);
    bool is_cancelled = is_closed(simulation, family);
    if (!family->is_there) {
        return NULL;
    }
    if (family->count < 0) {
        return "its plan was not read";
    }
    if (family->has_rest) {
        return "a part of its plan was not read";
    }
    for (size_t place = 0; place < family->row_count && (int64_t)place < family->started; place++) {
        const struct model_child *child = &family->children[place];
        const struct model_item *item = observer_find(simulation, child->id);
        if (child->status[0] == '\0' && (item == NULL || item->place != PLACE_LIVE)) {
            return "the end of a child was not counted";
        }
        if (is_cancelled && child->status[0] == '\0' && item != NULL && !item->cancel_asked) {
            return "a child runs on behind its parent";
        }
    }
    if (!is_cancelled && family->started < family->count &&
        family->started - family->ended < number_at(family->plan, "max_parallel")) {
        return "a child has not begun";
    }
    if (is_over(family, &is_completed) && !family->is_settled) {
        return "its wait is over";
    }
    bool is_done = is_cancelled ? family->cancelled_to >= family->started : family->ended >= family->count;
    return parent->place == PLACE_PURGED && is_done ? PURGED : NULL;
}

static const struct model_family *first_undone(struct simulation *simulation, const char **ret_what)
{
    for (size_t i = 0; i < simulation->family_count; i++) {
        *ret_what = undone(simulation, &simulation->families[i]);
        if (*ret_what != NULL) {
            return &simulation->families[i];
        }
    }
    return NULL;
}

void children_check_advance(struct simulation *simulation, enum weir_status status, const struct children_advance *advance)
{
    const char *what = NULL;
    if (failed(simulation) || status != WEIR_OK || advance->again || advance->waits || advance->cancelled > 0) {
        return; /* what was cancelled has left notes of its own */
    }
    const struct model_family *family = first_undone(simulation, &what);
    if (advance->faults > 0) {
        fail(simulation, THE_MODEL_HOLDS, "the duty of children left out %zu steps: %s", advance->faults, advance->fault);
    } else if (family != NULL) {
        fail(simulation, NOBODY_STARVES,
             "the duty of children has nothing more to do, and of %s of %s %s: %lld of %lld begun", family->step,
             family->parent, what, (long long)family->started, (long long)family->count);
    }
}

/* A purge has no news, because nobody waits for it. */
static bool brings_no_news(const char *what)
{
    return strcmp(what, PURGED) == 0;
}

/* Some node was able to do the duty at every look since then. */
static int64_t steady_since(const struct simulation *simulation)
{
    int64_t since_us = simulation->boot_us;
    for (int i = 0; i < simulation->profile.nodes; i++) {
        const struct simulated_node *node = &simulation->nodes[i];
        since_us = node->life == NODE_ALIVE && node->steady_since_us < since_us ? node->steady_since_us : since_us;
    }
    return since_us;
}

void children_check_promptness(struct simulation *simulation)
{
    const char *what = NULL;
    int64_t from_us = steady_since(simulation) + LOOK_US;
    if (failed(simulation) || simulation->profile.exclusive) {
        return;
    }
    for (size_t i = 0; i < simulation->family_count; i++) {
        struct model_family *family = &simulation->families[i];
        what = undone(simulation, family);
        if (what == NULL || simulation->boot_us < from_us || family->undone_since_us < from_us) {
            family->undone_since_us = simulation->boot_us;
        } else if (simulation->boot_us - family->undone_since_us > PROMPT_US + (brings_no_news(what) ? LOOK_US : 0)) {
            fail(simulation, NOBODY_STARVES, "of %s of %s %s for %lld ms", family->step, family->parent, what,
                 (long long)(simulation->boot_us - family->undone_since_us) / MICROSECONDS_PER_MS);
        }
    }
}
