/* Broken variants of workflows with states, each of which states.c must find, and those of records that other fleets have
 * as well. mutants.c runs them. */
#include "simulation/mutants.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* --- by a record that is another one --- */

/* Writes a copy of the set. `alter` sees each record with a copy of its step, and returns whether it has altered it. */
static enum weir_status record_altered(struct simulation *simulation, struct store *store, int64_t node_id,
                                       struct record *records, size_t count,
                                       bool (*alter)(struct record *, struct step_record *),
                                       struct record_summary *ret_summary, struct weir_error *error)
{
    struct record *forged = calloc(count, sizeof *forged);
    struct step_record *steps = calloc(count, sizeof *steps);
    INVARIANT(forged != NULL && steps != NULL);
    for (size_t i = 0; i < count; i++) {
        forged[i] = records[i];
        if (records[i].step != NULL) {
            steps[i] = *records[i].step;
            forged[i].step = &steps[i];
        }
        bool is_altered = alter(&forged[i], &steps[i]);
        simulation->result->tampered = simulation->result->tampered || is_altered;
    }
    enum weir_status status = mutant_record(simulation, store, node_id, forged, records, count, ret_summary, error);
    free(steps);
    return status;
}

/* Every record is written under the fence that the row has now: the check of the fence is gone. */
enum weir_status mutant_record_under_any_fence(struct simulation *simulation, struct store *store, int64_t node_id,
                                               struct record *records, size_t count, struct record_summary *ret_summary,
                                               struct weir_error *error)
{
    struct record *forged = calloc(count, sizeof *forged);
    INVARIANT(forged != NULL);
    for (size_t i = 0; i < count; i++) {
        const struct model_item *item = observer_find(simulation, records[i].id);
        forged[i] = records[i];
        forged[i].fence = item != NULL && item->place == PLACE_LIVE ? item->fence : records[i].fence;
        simulation->result->tampered = simulation->result->tampered || forged[i].fence != records[i].fence;
    }
    return mutant_record(simulation, store, node_id, forged, records, count, ret_summary, error);
}

/* The engine is taken to have got each signal, so none that comes meanwhile wakes the parked execution. */
static bool overlook_signals(struct record *record, struct step_record *step)
{
    (void)step;
    record->signals_seen = record->kind == RECORD_PARKED ? INT64_MAX : record->signals_seen;
    return record->kind == RECORD_PARKED;
}

static enum weir_status record_overlooking(struct simulation *simulation, struct store *store, int64_t node_id,
                                           struct record *records, size_t count, struct record_summary *ret_summary,
                                           struct weir_error *error)
{
    return record_altered(simulation, store, node_id, records, count, overlook_signals, ret_summary, error);
}

/* A person who must act has a minute. */
static bool bound_persons(struct record *record, struct step_record *step)
{
    bool is_manual = record->kind == RECORD_PARKED && record->waiting_for == WAIT_MANUAL;
    (void)step;
    record->delay_us = is_manual ? 60 * MICROSECONDS_PER_SECOND : record->delay_us;
    return is_manual;
}

static enum weir_status record_with_bounded_persons(struct simulation *simulation, struct store *store, int64_t node_id,
                                                    struct record *records, size_t count,
                                                    struct record_summary *ret_summary, struct weir_error *error)
{
    return record_altered(simulation, store, node_id, records, count, bound_persons, ret_summary, error);
}

/* The action comes without its machine, and the next claim finds none. */
static bool drop_machine(struct record *record, struct step_record *step)
{
    bool has_action = record->kind == RECORD_STEP && step->action != NULL;
    step->variables = has_action ? NULL : step->variables;
    return has_action;
}

static enum weir_status record_without_machine(struct simulation *simulation, struct store *store, int64_t node_id,
                                               struct record *records, size_t count, struct record_summary *ret_summary,
                                               struct weir_error *error)
{
    return record_altered(simulation, store, node_id, records, count, drop_machine, ret_summary, error);
}

/* Only the change of state is written, and no action of it. */
static bool drop_action(struct record *record, struct step_record *step)
{
    bool has_action = record->kind == RECORD_STEP && step->action != NULL;
    step->action = has_action ? NULL : step->action;
    return has_action;
}

static enum weir_status record_without_action(struct simulation *simulation, struct store *store, int64_t node_id,
                                              struct record *records, size_t count, struct record_summary *ret_summary,
                                              struct weir_error *error)
{
    return record_altered(simulation, store, node_id, records, count, drop_action, ret_summary, error);
}

/* The signal that the handler got stays. */
static bool keep_signal(struct record *record, struct step_record *step)
{
    bool has_signal = record->step != NULL && step->signal_seq > 0 && step->action != NULL;
    step->signal_seq = has_signal ? 0 : step->signal_seq;
    return has_signal;
}

static enum weir_status record_keeping_signals(struct simulation *simulation, struct store *store, int64_t node_id,
                                               struct record *records, size_t count, struct record_summary *ret_summary,
                                               struct weir_error *error)
{
    return record_altered(simulation, store, node_id, records, count, keep_signal, ret_summary, error);
}

/* Names of one length, so that the text is changed in its place: no state but `check` lists `ask`. */
static bool lead_elsewhere(struct record *record, struct step_record *step)
{
    char *next = record->step == NULL || step->action == NULL ? NULL : strstr(step->action, "\"next\":\"work\"");
    if (next != NULL) {
        memcpy(next, "\"next\":\"none\"", strlen("\"next\":\"none\""));
    }
    return next != NULL;
}

static enum weir_status record_leading_elsewhere(struct simulation *simulation, struct store *store, int64_t node_id,
                                                 struct record *records, size_t count, struct record_summary *ret_summary,
                                                 struct weir_error *error)
{
    return record_altered(simulation, store, node_id, records, count, lead_elsewhere, ret_summary, error);
}

/* --- by a claim that is another one --- */

/* A claim brings no machine: it begins anew. */
static enum weir_status schedule_without_machines(struct simulation *simulation, struct store *store,
                                                  struct schedule_call *call, struct arena *arena,
                                                  struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    for (size_t i = 0; status == WEIR_OK && i < answer->claimed.count; i++) {
        struct claimed_item *item = &answer->claimed.items[i];
        for (size_t step = 0; step < item->step_count; step++) {
            ((struct step_record *)(uintptr_t)&item->steps[step])->variables = NULL;
            simulation->result->tampered = true;
        }
    }
    return status;
}

/* --- by SQL --- */

/* A machine that no node holds gets other variables. */
static bool change_a_machine(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database,
                         "UPDATE workflow_node_executions SET variables = CAST(replace(CAST(variables AS TEXT),"
                         " '\"count\":', '\"count\":9') AS BLOB) WHERE step = 'state' AND finished_at IS NULL"
                         " AND execution_id IN (SELECT id FROM workflow_execution_queue WHERE phase = 3 LIMIT 1)");
}

/* An update does not look at the claim. */
static bool update_a_held_machine(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database,
                         "INSERT INTO workflow_actions (execution_id, action, state, outcome, next_state, started_at,"
                         " finished_at, node_id, fence, actor) SELECT s.execution_id, s.attempt + 1,"
                         " CAST(s.variables AS TEXT) ->> '$.state', 'update', 'work', 0, 0, 0, s.fence, 'tester'"
                         " FROM workflow_node_executions s JOIN workflow_execution_queue q ON q.id = s.execution_id"
                         " WHERE s.step = 'state' AND s.finished_at IS NULL AND q.phase = 2 LIMIT 1");
}

/* --- by triggers --- */

/* The row of the step does not name the signal. */
static const char unnamed_signal[] =
    "CREATE TRIGGER mutant_signal AFTER UPDATE ON workflow_node_executions WHEN NEW.signal = 'go' BEGIN"
    " UPDATE workflow_node_executions SET signal = NULL WHERE execution_id = NEW.execution_id AND step = NEW.step; END;";

static const char repeated_action[] =
    "CREATE TRIGGER mutant_action AFTER INSERT ON workflow_actions WHEN NEW.outcome = 'next' BEGIN"
    " INSERT INTO workflow_actions (execution_id, action, state, outcome, next_state, started_at, finished_at, node_id, "
    "fence)"
    " VALUES (NEW.execution_id, NEW.action + 1, NEW.next_state, NEW.outcome, NEW.next_state, 0, 0, NEW.node_id, NEW.fence);"
    " END;";

/* The row of the step keeps the machine that it had. */
static const char kept_machine[] =
    "CREATE TRIGGER mutant_machine AFTER UPDATE ON workflow_node_executions WHEN NEW.step = 'state' AND NEW.status = "
    "'WAITING'"
    " AND OLD.variables <> NEW.variables BEGIN UPDATE workflow_node_executions SET variables = OLD.variables"
    " WHERE execution_id = NEW.execution_id AND step = 'state'; END;";

/* A signal that has ended a wait is there for another one. */
static const char kept_signal[] =
    "CREATE TRIGGER mutant_signal AFTER UPDATE ON signals WHEN NEW.name = '" ASKED "' AND NEW.consumed_at IS NOT NULL BEGIN"
    " UPDATE signals SET step = NULL, consumed_at = NULL WHERE execution_id = NEW.execution_id AND seq = NEW.seq; END;";

#define STATE_MUTANT .caught_by = CAUGHT_BY(STATES_FOLLOW_THE_DEFINITION), .has_states = true, .parks = true
const struct mutant state_mutants[STATE_MUTANTS] = {
    {.name = "an action is recorded twice",
     .caught_by = CAUGHT_BY(STATES_FOLLOW_THE_DEFINITION) | CAUGHT_BY(EVERYTHING_IS_ON_RECORD),
     .has_states = true,
     .parks = true,
     .schema = repeated_action},
    {.name = "an action is not recorded", STATE_MUTANT, .says = "its actions", .record = record_without_action},
    {.name = "an action leads to a state that the definition does not allow",
     STATE_MUTANT,
     .says = "leads from",
     .record = record_leading_elsewhere},
    {.name = "an answer does not save the machine",
     STATE_MUTANT,
     .says = "no machine on record",
     .record = record_without_machine},
    {.name = "an answer keeps the former machine", STATE_MUTANT, .schema = kept_machine},
    {.name = "a claim does not bring the machine",
     STATE_MUTANT,
     .says = "on record",
     .schedule = schedule_without_machines},
    {.name = "the variables of a parked execution change",
     STATE_MUTANT,
     .says = "has the variables",
     .tamper = change_a_machine},
    {.name = "an update changes an execution that a node holds",
     .caught_by = CAUGHT_BY(STALE_FENCES_ARE_DEAF),
     .has_states = true,
     .parks = true,
     .says = "was updated by",
     .tamper = update_a_held_machine},
    {.name = "a signal that has come is overlooked",
     .caught_by = CAUGHT_BY(NOBODY_STARVES),
     .has_states = true,
     .parks = true,
     .says = "which has come",
     .record = record_overlooking},
    {.name = "a wait does not name its signal",
     .caught_by = CAUGHT_BY(STATES_FOLLOW_THE_DEFINITION) | CAUGHT_BY(NOBODY_STARVES),
     .has_states = true,
     .parks = true,
     .schema = unnamed_signal},
    {.name = "a signal is used twice", STATE_MUTANT, .says = "without a cause", .record = record_keeping_signals},
    {.name = "a signal that has ended a wait is kept",
     .caught_by = CAUGHT_BY(A_WAIT_ENDS_ONCE),
     .has_states = true,
     .parks = true,
     .says = "has not ended with its signal",
     .schema = kept_signal},
    {.name = "a manual state goes on by itself",
     STATE_MUTANT,
     .says = "for a person",
     .record = record_with_bounded_persons},
    {.name = "a lost claim records actions",
     .caught_by = CAUGHT_BY(STALE_FENCES_ARE_DEAF) | CAUGHT_BY(ONE_RUN_PER_ITEM) | CAUGHT_BY(STATES_FOLLOW_THE_DEFINITION),
     .has_states = true,
     .parks = true,
     .record = mutant_record_under_any_fence},
};
