/* The effect of each call on schedules and firings, as docs/design/schedules.md describes it.
 *
 * Before an advance, a settlement or a trigger the firings that must wait behind it are computed from the model, with the
 * counters of the schedule. Behind the call the rows must be these. Beside that:
 *
 *   - A node plans what the times of the schedule and the window of catch-up make of its look.
 *   - The due time of a schedule moves with an advance and with acts of operators alone.
 *   - No time of a schedule makes a second firing in a workspace, and no execution appears without its firing.
 *   - No execution of a schedule begins in a workspace while another one lives there.
 *   - A firing is refused only if its workflow was disabled, and dropped only if it is older than the window.
 *   - When all is calm no time and no firing waits for longer than the duty sleeps. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "simulation/simulation.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define OVERDUE_US (150 * SECOND_US) /* a look each minute, and another one after a failure */

enum { PROMPTNESS_EVERY = 16 };

static struct model_schedule *find_schedule(struct simulation *simulation, int64_t row_id)
{
    for (int i = 0; i < SCHEDULES_SIMULATED && simulation->profile.is_scheduled; i++) {
        if (simulation->schedules[i].row_id == row_id) {
            return &simulation->schedules[i];
        }
    }
    return NULL;
}

static bool item_lives(struct simulation *simulation, const char *id)
{
    const struct model_item *item = id[0] == '\0' ? NULL : observer_find(simulation, id);
    return item != NULL && item->place == PLACE_LIVE;
}

static bool item_is_known(struct simulation *simulation, const char *id)
{
    const struct model_item *item = observer_find(simulation, id);
    return item != NULL && item->place != PLACE_PURGED;
}

static bool starts_in(const struct simulation *simulation, const struct model_schedule *schedule, int workspace)
{
    return schedule->plan >= 0 ? strcmp(simulation->workspaces[workspace].plan, plan_names[schedule->plan]) == 0
                               : (schedule->workspaces & 1U << workspace) != 0;
}

static struct model_firing *find_firing(struct simulation *simulation, int64_t schedule_id, int workspace, int64_t due_us)
{
    for (size_t i = simulation->firing_count; i-- > 0;) {
        struct model_firing *firing = &simulation->firings[i];
        if (firing->schedule_id == schedule_id && firing->workspace == workspace && firing->due_us == due_us) {
            return firing;
        }
    }
    return NULL;
}

static struct model_firing *firing_with_id(struct simulation *simulation, const char *id)
{
    for (size_t i = simulation->firing_count; i-- > 0;) {
        if (strcmp(simulation->firings[i].id, id) == 0) {
            return &simulation->firings[i];
        }
    }
    return NULL;
}

/* --- what must be --- */

static void expect_wait(struct expected_schedule *expected, int workspace, int64_t due_us)
{
    INVARIANT(expected->count < EXPECTED_WAITS_MOST);
    expected->waits[expected->count++] = (struct expected_wait){.workspace = workspace, .due_us = due_us};
}

static bool expects_wait(const struct expected_schedule *expected, int workspace, int64_t due_us)
{
    for (size_t i = 0; i < expected->count; i++) {
        if (expected->waits[i].workspace == workspace && (due_us < 0 || expected->waits[i].due_us == due_us)) {
            return true;
        }
    }
    return false;
}

static bool end_wait(struct expected_schedule *expected, int workspace, int64_t due_us)
{
    for (size_t i = 0; i < expected->count; i++) {
        if (expected->waits[i].workspace == workspace && expected->waits[i].due_us == due_us) {
            expected->waits[i] = expected->waits[--expected->count];
            return true;
        }
    }
    return false;
}

void schedules_begin_act(struct simulation *simulation, struct model_schedule *schedule)
{
    struct expected_schedule *expected = &simulation->expected_schedule;
    *expected = (struct expected_schedule){.schedule = schedule,
                                           .at_us = observer_store_time(simulation),
                                           .was_paused = schedule->is_paused,
                                           .due_us = schedule->due_us,
                                           .counts = schedule->counts};
    schedule->is_touched = false;
    for (size_t i = 0; i < simulation->firing_count; i++) {
        const struct model_firing *firing = &simulation->firings[i];
        if (firing->is_waiting && firing->schedule_id == schedule->row_id) {
            expect_wait(expected, firing->workspace, firing->due_us);
        }
    }
}

/* A firing with a lost settlement has its execution, and waits no more. */
static void expect_adoption(struct simulation *simulation, struct expected_schedule *expected)
{
    for (size_t i = 0; i < simulation->firing_count; i++) {
        const struct model_firing *firing = &simulation->firings[i];
        if (firing->schedule_id == expected->schedule->row_id && firing->is_waiting &&
            item_is_known(simulation, firing->planned) && end_wait(expected, firing->workspace, firing->due_us)) {
            expected->counts.fired++;
        }
    }
}

/* An execution of the schedule in the workspace lives; `behind_us`: of a later time. */
static bool one_lives(struct simulation *simulation, const struct expected_schedule *expected, int workspace,
                      int64_t behind_us)
{
    for (size_t i = 0; i < simulation->firing_count; i++) {
        const struct model_firing *firing = &simulation->firings[i];
        if (firing->schedule_id == expected->schedule->row_id && firing->workspace == workspace && !firing->is_gone &&
            firing->due_us > behind_us && item_lives(simulation, firing->id)) {
            return true;
        }
    }
    return false;
}

static bool later_one_waits(const struct expected_schedule *expected, int workspace, int64_t due_us)
{
    for (size_t i = 0; i < expected->count; i++) {
        if (expected->waits[i].workspace == workspace && expected->waits[i].due_us > due_us) {
            return true;
        }
    }
    return false;
}

static bool policy_admits(struct simulation *simulation, const struct expected_schedule *expected, int workspace,
                          int64_t due_us)
{
    switch (expected->schedule->overlap) {
    case OVERLAP_SKIP:
        return !expects_wait(expected, workspace, -1) && !one_lives(simulation, expected, workspace, -1);
    case OVERLAP_QUEUE_ONE:
        return !expects_wait(expected, workspace, -1);
    case OVERLAP_QUEUE_ALL:
        return true;
    default:
        return !later_one_waits(expected, workspace, due_us) && !one_lives(simulation, expected, workspace, due_us);
    }
}

static void expect_firings(struct simulation *simulation, struct expected_schedule *expected, int64_t due_us)
{
    expect_adoption(simulation, expected);
    for (int workspace = 0; workspace < simulation->profile.workspaces; workspace++) {
        const struct model_firing *known = find_firing(simulation, expected->schedule->row_id, workspace, due_us);
        if (!starts_in(simulation, expected->schedule, workspace) || (known != NULL && !known->is_gone)) {
            continue;
        }
        for (size_t i = expected->count; i-- > 0 && expected->schedule->overlap == OVERLAP_CANCEL_RUNNING;) {
            const struct expected_wait wait = expected->waits[i];
            if (wait.workspace == workspace && wait.due_us < due_us) {
                (void)end_wait(expected, workspace, wait.due_us);
                expected->counts.skipped++;
            }
        }
        if (policy_admits(simulation, expected, workspace, due_us)) {
            expect_wait(expected, workspace, due_us);
        } else {
            expected->counts.skipped++;
        }
    }
}

void schedules_expect_trigger(struct simulation *simulation, struct model_schedule *schedule)
{
    INVARIANT(simulation->expected_schedule.schedule == schedule);
    expect_firings(simulation, &simulation->expected_schedule, simulation->expected_schedule.at_us);
}

/* --- the calls of nodes --- */

void schedules_note_look(struct simulation *simulation, const struct due_schedules *due)
{
    for (int i = 0; i < SCHEDULES_SIMULATED && simulation->actor != OUTSIDE; i++) {
        struct look_at_schedule *look = &simulation->nodes[simulation->actor].looks[i];
        *look = (struct look_at_schedule){.now_us = due->now_us, .overlap = simulation->schedules[i].overlap};
    }
}

static void check_plan(struct simulation *simulation, const struct model_schedule *schedule,
                       const struct schedule_advance *advance, const struct look_at_schedule *look)
{
    int64_t dropped = 0;
    size_t fires = 0;
    int64_t newest_us = 0;
    int64_t at_us = schedule_time_from(schedule, advance->due_us);
    for (; at_us < look->now_us - schedule->catch_up_us; at_us = schedule_time_from(schedule, at_us + 1)) {
        dropped++;
    }
    for (; at_us <= look->now_us; at_us = schedule_time_from(schedule, at_us + 1)) {
        bool is_planned =
            look->overlap != OVERLAP_QUEUE_ALL || (fires < advance->fire_count && advance->fires_us[fires] == at_us);
        newest_us = at_us;
        fires++;
        if (!is_planned) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "%s leaves out its time %lld", schedule->name, (long long)at_us);
        }
    }
    bool fires_all = look->overlap == OVERLAP_QUEUE_ALL;
    size_t planned = fires_all ? fires : fires > 0;
    int64_t passed = fires_all || fires == 0 ? 0 : (int64_t)fires - 1;
    if (advance->next_us != at_us || advance->dropped != dropped || advance->fire_count != planned ||
        advance->passed != passed || (planned > 0 && advance->fires_us[planned - 1] != newest_us)) {
        fail(simulation, EACH_TIME_FIRES_ONCE,
             "%s was due at %lld, and at %lld a node planned %zu firings, %lld passed, %lld dropped, next %lld; they are "
             "%zu, %lld, %lld, %lld",
             schedule->name, (long long)advance->due_us, (long long)look->now_us, advance->fire_count,
             (long long)advance->passed, (long long)advance->dropped, (long long)advance->next_us, planned,
             (long long)passed, (long long)dropped, (long long)at_us);
    }
}

void schedules_expect_advance(struct simulation *simulation, const struct schedule_advance *advance)
{
    struct model_schedule *schedule = find_schedule(simulation, advance->id);
    struct expected_schedule *expected = &simulation->expected_schedule;
    expected->schedule = NULL;
    if (schedule == NULL || simulation->actor == OUTSIDE) {
        return;
    }
    schedules_begin_act(simulation, schedule);
    if (schedule->is_paused || schedule->due_us != advance->due_us || advance->error_code != NULL) {
        return;
    }
    check_plan(simulation, schedule, advance,
               &simulation->nodes[simulation->actor].looks[schedule - simulation->schedules]);
    int64_t workspaces = 0;
    for (int i = 0; i < simulation->profile.workspaces; i++) {
        workspaces += starts_in(simulation, schedule, i);
    }
    expected->due_us = advance->next_us;
    expected->counts.dropped += advance->dropped;
    expected->counts.skipped += advance->passed * workspaces;
    for (size_t i = 0; i < advance->fire_count; i++) {
        expect_firings(simulation, expected, advance->fires_us[i]);
    }
}

static void check_outcome(struct simulation *simulation, const struct model_schedule *schedule,
                          const struct schedule_outcome *outcome, const struct model_firing *firing)
{
    const struct model_item *item = outcome->execution_id == NULL ? NULL : observer_find(simulation, outcome->execution_id);
    if (firing == NULL) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s has no firing of %lld that could be settled", schedule->name,
             (long long)outcome->due_us);
    } else if (outcome->execution_id != NULL && (item == NULL || strcmp(firing->id, outcome->execution_id) != 0)) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s: the firing %s got the execution %s", schedule->name, firing->id,
             outcome->execution_id);
    } else if (outcome->is_dropped && (firing->is_triggered ||
                                       simulation->expected_schedule.at_us - firing->created_us <= schedule->catch_up_us)) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s dropped the firing of %lld within its window", schedule->name,
             (long long)outcome->due_us);
    } else if (outcome->execution_id == NULL && !outcome->is_dropped &&
               (outcome->error_code == NULL || !firing->was_disabled)) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s: the firing of %lld was refused (%s), and nothing refuses it",
             schedule->name, (long long)outcome->due_us, outcome->error_code == NULL ? "" : outcome->error_code);
    }
}

/* The outcomes of one schedule; a settlement has those of several. */
static void expect_settlement(struct simulation *simulation, struct model_schedule *schedule,
                              const struct schedule_outcome *outcomes, size_t count)
{
    struct expected_schedule *expected = &simulation->expected_schedule;
    schedules_begin_act(simulation, schedule);
    for (size_t i = 0; i < count; i++) {
        const struct schedule_outcome *outcome = &outcomes[i];
        int workspace = observer_workspace(simulation, outcome->workspace_id);
        if (outcome->schedule_id != schedule->row_id || workspace < 0) {
            continue;
        }
        const struct model_firing *firing = find_firing(simulation, schedule->row_id, workspace, outcome->due_us);
        check_outcome(simulation, schedule, outcome, firing);
        bool waited = end_wait(expected, workspace, outcome->due_us);
        bool has_execution = firing != NULL && (outcome->execution_id != NULL || item_is_known(simulation, firing->id));
        if (has_execution) {
            expected->counts.fired += firing->is_waiting || !firing->was_settled;
        } else if (waited) {
            expected->counts.dropped += outcome->is_dropped;
            expected->counts.refused += !outcome->is_dropped;
        }
    }
}

void schedules_expect_settlement(struct simulation *simulation, const struct schedule_outcome *outcomes, size_t count)
{
    for (int i = 0; i < SCHEDULES_SIMULATED && simulation->profile.is_scheduled; i++) {
        expect_settlement(simulation, &simulation->schedules[i], outcomes, count);
        simulation->expected_settlements[i] = simulation->expected_schedule;
    }
}

/* --- what is --- */

static void compare(struct simulation *simulation, const struct expected_schedule *expected)
{
    const struct model_schedule *schedule = expected->schedule;
    const struct schedule_counters *is = &schedule->counts;
    const struct schedule_counters *wanted = &expected->counts;
    size_t waiting = 0;
    for (size_t i = 0; i < simulation->firing_count; i++) {
        const struct model_firing *firing = &simulation->firings[i];
        if (firing->schedule_id != schedule->row_id || !firing->is_waiting) {
            continue;
        }
        waiting++;
        if (!expects_wait(expected, firing->workspace, firing->due_us)) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "%s: the firing of %lld in %s waits after %s, and it may not (%s)",
                 schedule->name, (long long)firing->due_us, simulation->workspaces[firing->workspace].name,
                 simulation->verb, schedule_overlap_name(schedule->overlap));
        }
    }
    if (waiting != expected->count) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s: %zu firings wait after %s, and not %zu (%s)", schedule->name, waiting,
             simulation->verb, expected->count, schedule_overlap_name(schedule->overlap));
    } else if (schedule->due_us != expected->due_us) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s is due at %lld after %s, and not at %lld", schedule->name,
             (long long)schedule->due_us, simulation->verb, (long long)expected->due_us);
    } else if (is->fired != wanted->fired || is->skipped != wanted->skipped || is->dropped != wanted->dropped ||
               is->refused != wanted->refused) {
        fail(simulation, EACH_TIME_FIRES_ONCE,
             "%s counts %lld fired, %lld skipped, %lld dropped and %lld refused after %s, and not %lld, %lld, %lld, %lld",
             schedule->name, (long long)is->fired, (long long)is->skipped, (long long)is->dropped, (long long)is->refused,
             simulation->verb, (long long)wanted->fired, (long long)wanted->skipped, (long long)wanted->dropped,
             (long long)wanted->refused);
    }
}

void schedules_check(struct simulation *simulation, enum weir_status status)
{
    struct expected_schedule *expected = &simulation->expected_schedule;
    if (expected->schedule != NULL && (status == WEIR_OK || expected->schedule->is_touched)) {
        compare(simulation, expected);
    }
    expected->schedule = NULL;
}

void schedules_check_settlement(struct simulation *simulation, enum weir_status status)
{
    bool is_touched = status == WEIR_OK;
    for (int i = 0; i < SCHEDULES_SIMULATED && simulation->profile.is_scheduled; i++) {
        is_touched = is_touched || simulation->schedules[i].is_touched;
    }
    for (int i = 0; i < SCHEDULES_SIMULATED && simulation->profile.is_scheduled && is_touched; i++) {
        compare(simulation, &simulation->expected_settlements[i]);
    }
    simulation->expected_schedule.schedule = NULL;
}

/* With the same times an overdue time stays due. */
void schedules_check_set(struct simulation *simulation, const struct model_schedule *schedule)
{
    const struct expected_schedule *expected = &simulation->expected_schedule;
    int64_t next_us = schedule_time_from(schedule, expected->at_us + 1);
    int64_t due_us = expected->due_us == 0 || next_us < expected->due_us ? next_us : expected->due_us;
    if (schedule->due_us != due_us) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s was set, and is due at %lld and not at %lld", schedule->name,
             (long long)schedule->due_us, (long long)due_us);
    }
    simulation->expected_schedule.schedule = NULL;
}

/* A pause removes what waits, but for triggered firings. A resumed schedule goes on with the next time. */
void schedules_check_pause(struct simulation *simulation, const struct model_schedule *schedule, bool paused)
{
    struct expected_schedule *expected = &simulation->expected_schedule;
    bool is_resumed = expected->was_paused && !paused;
    if (paused != schedule->is_paused) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s is %s", schedule->name, paused ? "not paused" : "paused");
    }
    if (paused) {
        expect_adoption(simulation, expected);
    }
    for (size_t i = 0; i < simulation->firing_count && paused; i++) {
        const struct model_firing *firing = &simulation->firings[i];
        if (firing->schedule_id == schedule->row_id && firing->is_waiting && !firing->is_triggered) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "%s is paused, and its firing of %lld waits", schedule->name,
                 (long long)firing->due_us);
        }
    }
    if (is_resumed ? schedule->due_us < expected->at_us : schedule->due_us != expected->due_us) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s is due at %lld after its %s", schedule->name,
             (long long)schedule->due_us, paused ? "pause" : "resumption");
    }
    expected->schedule = NULL;
}

/* --- changed rows --- */

void schedules_note_schedule(struct simulation *simulation, const struct change *change)
{
    for (int i = 0; i < SCHEDULES_SIMULATED && simulation->profile.is_scheduled; i++) {
        struct model_schedule *schedule = &simulation->schedules[i];
        if (strcmp(schedule->name, change->id) != 0) {
            continue;
        }
        bool is_expected = simulation->expected_schedule.schedule != NULL || strcmp(simulation->verb, "settle") == 0;
        if (!is_expected) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "%s was changed by \"%s\"", schedule->name, simulation->verb);
        }
        schedule->row_id = change->rank;
        schedule->due_us = change->due_at;
        schedule->is_paused = change->phase != 0;
        schedule->counts = (struct schedule_counters){
            .fired = change->fence, .skipped = change->node_id, .dropped = change->lane_id, .refused = change->priority};
        schedule->is_touched = true;
    }
}

static void note_new_firing(struct simulation *simulation, const struct change *change, int workspace)
{
    if (simulation->firing_count == simulation->firing_capacity) {
        simulation->firing_capacity = simulation->firing_capacity == 0 ? 256 : 2 * simulation->firing_capacity;
        simulation->firings = realloc(simulation->firings, simulation->firing_capacity * sizeof *simulation->firings);
        INVARIANT(simulation->firings != NULL);
    }
    struct model_firing *firing = &simulation->firings[simulation->firing_count++];
    *firing = (struct model_firing){.schedule_id = change->rank,
                                    .workspace = workspace,
                                    .due_us = change->due_at,
                                    .created_us = change->run_at,
                                    .is_triggered = change->phase != 0,
                                    .is_waiting = change->status == NULL,
                                    .was_settled = change->status != NULL,
                                    .was_disabled = simulation->timed_is_disabled};
    text_copy(firing->id, sizeof firing->id, change->id);
    text_copy(firing->planned, sizeof firing->planned, change->id);
}

void schedules_note_firing(struct simulation *simulation, const struct change *change)
{
    int workspace = observer_workspace(simulation, change->workspace_id);
    struct model_firing *firing = find_firing(simulation, change->rank, workspace, change->due_at);
    struct model_schedule *schedule = find_schedule(simulation, change->rank);
    bool is_settlement = change->status != NULL;
    if (schedule != NULL) {
        schedule->is_touched = true;
    }
    if (strcmp(change->what, "firing-") == 0) {
        if (firing != NULL) {
            firing->is_waiting = false;
            firing->is_gone = true;
        }
    } else if (strcmp(change->what, "firing+") == 0 && !is_settlement) {
        /* Once more behind a clock that was set back, when an operator set the schedule then: by its key it must get the
         * execution that it had. One that was removed before it got one has a new id. */
        bool is_again = firing != NULL && simulation->profile.clock_step > 0 && firing->is_gone;
        if (is_again) {
            firing->is_gone = false;
            firing->is_waiting = true;
            text_copy(firing->planned, sizeof firing->planned, change->id);
            if (!firing->was_settled) {
                text_copy(firing->id, sizeof firing->id, change->id);
                firing->created_us = change->run_at;
            }
            return;
        }
        if (firing != NULL) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "the time %lld fires twice in %s", (long long)change->due_at,
                 simulation->workspaces[workspace].name);
        }
        note_new_firing(simulation, change, workspace);
    } else if (firing == NULL || (is_settlement && strcmp(firing->id, change->status) != 0)) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "the firing of %lld in %s got the execution %s", (long long)change->due_at,
             simulation->workspaces[workspace].name, is_settlement ? change->status : "of none");
    } else {
        firing->is_gone = false;
        firing->is_waiting = !is_settlement;
        firing->was_settled = firing->was_settled || is_settlement;
    }
}

/* An execution of a schedule begins. */
void schedules_note_item(struct simulation *simulation, struct model_item *item)
{
    const struct model_firing *firing = firing_with_id(simulation, item->id);
    const struct model_schedule *schedule = firing == NULL ? NULL : find_schedule(simulation, firing->schedule_id);
    item->is_scheduled = true;
    if (schedule == NULL || firing->workspace != item->workspace) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s was started by a schedule without a firing", item->id);
        return;
    }
    if (item->run_at < firing->due_us || item->run_at > firing->due_us + (firing->is_triggered ? 0 : schedule->jitter_us)) {
        fail(simulation, EACH_TIME_FIRES_ONCE, "%s starts %lld us after its time", item->id,
             (long long)(item->run_at - firing->due_us));
    }
    for (size_t i = 0; i < simulation->firing_count; i++) {
        const struct model_firing *other = &simulation->firings[i];
        if (other != firing && other->schedule_id == firing->schedule_id && other->workspace == firing->workspace &&
            item_lives(simulation, other->id)) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "%s begins while %s of the same schedule %s lives in %s", item->id,
                 other->id, schedule->name, simulation->workspaces[firing->workspace].name);
        }
    }
}

bool schedules_may_cancel(struct simulation *simulation, const struct model_item *item)
{
    const struct model_firing *firing = item->is_scheduled ? firing_with_id(simulation, item->id) : NULL;
    return firing != NULL && strcmp(simulation->verb, "bulk") == 0 && simulation->actor != OUTSIDE;
}

/* --- when all is calm --- */

void schedules_check_promptness(struct simulation *simulation)
{
    if (!schedules_go_on(simulation) || failed(simulation) || simulation->step % PROMPTNESS_EVERY != 0) {
        return;
    }
    int64_t now_us = observer_store_time(simulation);
    int64_t boot_us = simulation->boot_us;
    bool has_node = false;
    for (int i = 0; i < simulation->profile.nodes; i++) {
        has_node = has_node || (simulation->nodes[i].life == NODE_ALIVE && !simulation->nodes[i].died);
    }
    for (int i = 0; i < SCHEDULES_SIMULATED; i++) {
        struct model_schedule *schedule = &simulation->schedules[i];
        bool is_overdue = has_node && !schedule->is_paused && schedule->due_us <= now_us;
        schedule->overdue_since_us = !is_overdue                       ? 0
                                     : schedule->overdue_since_us == 0 ? boot_us
                                                                       : schedule->overdue_since_us;
        if (is_overdue && boot_us - schedule->overdue_since_us > OVERDUE_US) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "%s has been due for %lld ms", schedule->name,
                 (long long)(boot_us - schedule->overdue_since_us) / MICROSECONDS_PER_MS);
        }
    }
    for (size_t i = 0; i < simulation->firing_count; i++) {
        struct model_firing *firing = &simulation->firings[i];
        struct expected_schedule of = {.schedule = find_schedule(simulation, firing->schedule_id)};
        bool is_ready = has_node && firing->is_waiting && !one_lives(simulation, &of, firing->workspace, -1);
        firing->ready_since_us = !is_ready ? 0 : firing->ready_since_us == 0 ? boot_us : firing->ready_since_us;
        if (is_ready && boot_us - firing->ready_since_us > OVERDUE_US) {
            fail(simulation, EACH_TIME_FIRES_ONCE, "the firing of %lld has waited for %lld ms", (long long)firing->due_us,
                 (long long)(boot_us - firing->ready_since_us) / MICROSECONDS_PER_MS);
        }
    }
}
