/* Broken variants of executions that start others, each of which child_checks.c must find. mutants.c runs them.
 *
 * Most are triggers: they change a row, or keep one from a change, in the transaction of the duty. */
#include "simulation/mutants.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/signal.h"

/* --- by a record that is another one --- */

/* The step ends, and the signal that has ended its wait is left. */
static enum weir_status record_keeping_ends(struct simulation *simulation, struct store *store, int64_t node_id,
                                            struct record *records, size_t count, struct record_summary *ret_summary,
                                            struct weir_error *error)
{
    struct record *forged = calloc(count, sizeof *forged);
    struct step_record *steps = calloc(count, sizeof *steps);
    INVARIANT(forged != NULL && steps != NULL);
    for (size_t i = 0; i < count; i++) {
        forged[i] = records[i];
        if (records[i].step != NULL && records[i].step->signal_seq > 0 && strncmp(records[i].step->step, "step-", 5) == 0) {
            steps[i] = *records[i].step;
            steps[i].signal_seq = 0;
            forged[i].step = &steps[i];
            simulation->result->tampered = true;
        }
    }
    enum weir_status status = mutant_record(simulation, store, node_id, forged, records, count, ret_summary, error);
    free(steps);
    return status;
}

/* --- by a verb that does something else --- */

/* The duty does nothing, and reports nothing. */
static enum weir_status advance_nothing(struct simulation *simulation, struct store *store,
                                        struct children_advance *ret_advance, struct weir_error *error)
{
    if (mutant_is_later(simulation)) {
        simulation->result->tampered = true;
        *ret_advance = (struct children_advance){.exist = true};
        return WEIR_OK;
    }
    return mutant_driver(simulation)->advance_children(store, ret_advance, error);
}

/* --- by triggers --- */

static const char lost_end[] = "CREATE TRIGGER mutant_note AFTER INSERT ON child_notes WHEN NEW.position IS NOT NULL BEGIN"
                               " DELETE FROM child_notes WHERE id = NEW.id; END;";

static const char lost_end_of_parent[] =
    "CREATE TRIGGER mutant_note AFTER INSERT ON child_notes WHEN NEW.position IS NULL AND EXISTS (SELECT 1 FROM"
    " workflow_execution_queue q WHERE q.id = NEW.parent_id) AND EXISTS (SELECT 1 FROM child_steps s WHERE s.parent_id ="
    " NEW.parent_id AND s.step = NEW.step AND s.count IS NOT NULL) BEGIN DELETE FROM child_notes WHERE id = NEW.id; END;";

static const char counted_twice[] =
    "CREATE TRIGGER mutant_count AFTER UPDATE OF ended ON child_steps WHEN NEW.ended > OLD.ended AND NEW.ended < NEW.count"
    " BEGIN UPDATE child_steps SET ended = NEW.ended + 1 WHERE parent_id = NEW.parent_id AND step = NEW.step; END;";

static const char all_at_once[] =
    "CREATE TRIGGER mutant_parallel AFTER UPDATE OF count ON child_steps WHEN NEW.max_parallel < NEW.count BEGIN"
    " UPDATE child_steps SET max_parallel = count WHERE parent_id = NEW.parent_id AND step = NEW.step; END;";

/* A request to cancel a running child is lost. */
static const char kept_child[] =
    "CREATE TRIGGER mutant_cancel BEFORE UPDATE OF cancel_at ON workflow_execution_queue WHEN NEW.cancel_at IS NOT NULL AND"
    " OLD.cancel_at IS NULL AND EXISTS (SELECT 1 FROM children c WHERE c.child_id = NEW.id)"
    " BEGIN SELECT RAISE(IGNORE); END;";

static const char lost_signal[] = "CREATE TRIGGER mutant_signal BEFORE INSERT ON signals WHEN NEW.name LIKE 'children:%'"
                                  " BEGIN SELECT RAISE(IGNORE); END;";

static const char second_signal[] =
    "CREATE TRIGGER mutant_signal AFTER INSERT ON signals WHEN NEW.name LIKE 'children:%' AND NOT EXISTS (SELECT 1 FROM"
    " signals s WHERE s.execution_id = NEW.execution_id AND s.name = NEW.name AND s.seq < NEW.seq) BEGIN"
    " INSERT INTO signals (execution_id, seq, name, data, sent_at) VALUES (NEW.execution_id, NEW.seq + 1000, NEW.name, "
    "NEW.data,"
    " NEW.sent_at); END;";

/* The outcomes of two children are exchanged. */
static const char wrong_order[] =
    "CREATE TRIGGER mutant_data BEFORE INSERT ON signals WHEN NEW.name LIKE 'children:%' AND NEW.data LIKE '%OPEN%'"
    " BEGIN INSERT INTO signals (execution_id, seq, name, data, sent_at) VALUES (NEW.execution_id, NEW.seq, NEW.name,"
    " replace(NEW.data, 'OPEN', 'COMPLETED'), NEW.sent_at); SELECT RAISE(IGNORE); END;";

/* A child that is adopted counts as completed at once. */
static const char hasty_adoption[] =
    "CREATE TRIGGER mutant_adoption AFTER UPDATE OF is_adopted ON children WHEN NEW.is_adopted = 1 AND NEW.status IS NULL"
    " BEGIN UPDATE children SET status = 'COMPLETED' WHERE parent_id = NEW.parent_id AND step = NEW.step AND"
    " position = NEW.position; END;";

/* A failed child counts as one that has completed. */
static const char wrong_end[] =
    "CREATE TRIGGER mutant_end AFTER UPDATE OF status ON children WHEN NEW.status = 'FAILED' BEGIN"
    " UPDATE children SET status = 'COMPLETED' WHERE parent_id = NEW.parent_id AND step = NEW.step AND"
    " position = NEW.position; END;";

/* The purge of a parent takes the children with it that have not begun. */
static const char purged_rows[] =
    "CREATE TRIGGER mutant_purge AFTER DELETE ON workflow_executions BEGIN"
    " DELETE FROM children WHERE parent_id = OLD.id; DELETE FROM child_steps WHERE parent_id = OLD.id; END;";

/* A child that was started is planned under another id. */
static const char other_execution[] =
    "CREATE TRIGGER mutant_child AFTER UPDATE OF params ON children WHEN NEW.status IS NULL AND NEW.is_adopted = 0 AND"
    " NEW.position > 0 BEGIN UPDATE children SET child_id = (SELECT c.child_id FROM children c WHERE c.parent_id ="
    " NEW.parent_id AND c.step = NEW.step AND c.position = 0) WHERE parent_id = NEW.parent_id AND step = NEW.step AND"
    " position = NEW.position; END;";

/* A plan is read again. */
static const char second_plan[] =
    "CREATE TRIGGER mutant_plan AFTER UPDATE OF started ON child_steps WHEN NEW.started > OLD.started AND OLD.started = 0"
    " AND NEW.started = NEW.count BEGIN"
    " UPDATE child_steps SET started = started - 1 WHERE parent_id = NEW.parent_id AND step = NEW.step; END;";

#define CHILD_MUTANT(invariant) .caught_by = CAUGHT_BY(invariant), .has_children = true, .parks = true
const struct mutant child_mutants[CHILD_MUTANTS] = {
    {.name = "the end of a child is not noted",
     CHILD_MUTANT(NOBODY_STARVES),
     .says = "was not counted",
     .schema = lost_end},
    {.name = "the end of a parent is not noted",
     CHILD_MUTANT(NOBODY_STARVES),
     .says = "runs on behind its parent",
     .schema = lost_end_of_parent},
    {.name = "the end of a child counts twice",
     .caught_by = CAUGHT_BY(CHILDREN_FOLLOW_THE_PLAN) | CAUGHT_BY(COUNTERS_EQUAL_ROWS),
     .has_children = true,
     .parks = true,
     .schema = counted_twice},
    {.name = "max_parallel is not kept", CHILD_MUTANT(CHILDREN_FOLLOW_THE_PLAN), .says = "at once", .schema = all_at_once},
    {.name = "a running child outlives a parent that cancels it",
     CHILD_MUTANT(NOBODY_STARVES),
     .says = "runs on behind its parent",
     .schema = kept_child},
    {.name = "the end of a wait for children is lost",
     /* The row of the parent counts the signal that is lost, which the model may see first. */
     .caught_by = CAUGHT_BY(A_WAIT_ENDS_ONCE) | CAUGHT_BY(THE_MODEL_HOLDS),
     .has_children = true,
     .parks = true,
     .schema = lost_signal},
    {.name = "a wait for children ends twice",
     CHILD_MUTANT(A_WAIT_ENDS_ONCE),
     .says = "is told 2 times",
     .schema = second_signal},
    {.name = "the signal that ends a wait for children stays",
     CHILD_MUTANT(A_WAIT_ENDS_ONCE),
     .says = "without a cause",
     .record = record_keeping_ends},
    {.name = "the result of a child is not its end",
     CHILD_MUTANT(CHILDREN_FOLLOW_THE_PLAN),
     .says = "the result of child",
     .schema = wrong_order},
    {.name = "an adopted execution is not waited for",
     CHILD_MUTANT(CHILDREN_FOLLOW_THE_PLAN),
     .says = "begins as \"COMPLETED\"",
     .schema = hasty_adoption},
    {.name = "a failed child counts as completed", CHILD_MUTANT(CHILDREN_FOLLOW_THE_PLAN), .schema = wrong_end},
    {.name = "the purge of a parent forgets its children",
     CHILD_MUTANT(NOTHING_IS_LOST),
     .says = "are forgotten",
     .schema = purged_rows},
    {.name = "two children are one execution", CHILD_MUTANT(CHILDREN_FOLLOW_THE_PLAN), .schema = other_execution},
    {.name = "a child begins twice", CHILD_MUTANT(CHILDREN_FOLLOW_THE_PLAN), .says = "went back", .schema = second_plan},
    {.name = "the duty of children does nothing", CHILD_MUTANT(NOBODY_STARVES), .advance_children = advance_nothing},
};
