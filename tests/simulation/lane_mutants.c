/* Broken variants of what the store and the scheduler do about handlers: several lanes of a workspace in one pool, and
 * nodes that serve different ones (handlers.c). */
#include "base/error.h"
#include "simulation/mutants.h"

/* The lane does not name the handlers, so any node gets the items. */
static const char forgotten_handlers[] =
    "CREATE TRIGGER forgotten_handlers AFTER INSERT ON workflow_definitions WHEN NEW.demand > 1 BEGIN"
    " UPDATE workflow_definitions SET demand = NEW.demand & 1 WHERE id = NEW.id; END;";

/* The transaction that records other handlers of a node inserts its row of news at its end. */
#define WITHOUT_NEWS(kind)                                                                                                 \
    "CREATE TABLE mutant_marks (node_id INTEGER);"                                                                         \
    "CREATE TRIGGER mutant_mark AFTER UPDATE OF handlers ON nodes WHEN NEW.handlers <> OLD.handlers BEGIN"                 \
    " INSERT INTO mutant_marks VALUES (NEW.id); END;"                                                                      \
    "CREATE TRIGGER mutant_news BEFORE INSERT ON news WHEN EXISTS (SELECT 1 FROM mutant_marks) BEGIN"                      \
    " DELETE FROM mutant_marks; SELECT RAISE(IGNORE) WHERE NEW.kind = " kind "; END;"
/* RAISE(IGNORE) keeps what the trigger has done before it. */
static const char quiet_loss[] = WITHOUT_NEWS("7");
static const char quiet_gain[] = WITHOUT_NEWS("8");

/* The first node of each list is taken for the one that has the handlers of all others. */
static enum weir_status schedule_with_swapped_handlers(struct simulation *simulation, struct store *store,
                                                       struct schedule_call *call, struct arena *arena,
                                                       struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    int64_t first = 0;
    for (size_t i = 0; status == WEIR_OK && i < answer->fact_count; i++) {
        struct schedule_fact *fact = &answer->facts[i];
        first = fact->kind == FACT_NODES ? 0 : fact->kind == FACT_NODE && first == 0 ? fact->node_id : first;
        if (fact->kind == FACT_NODE_HANDLERS && fact->node_id != first) {
            fact->node_id = first;
            simulation->result->tampered = true;
        }
    }
    return status;
}

static enum weir_status schedule_without_handlers(struct simulation *simulation, struct store *store,
                                                  struct schedule_call *call, struct arena *arena,
                                                  struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    size_t kept = 0;
    for (size_t i = 0; status == WEIR_OK && i < answer->fact_count; i++) {
        if (answer->facts[i].kind == FACT_NODE_HANDLERS) {
            simulation->result->tampered = true;
        } else {
            answer->facts[kept++] = answer->facts[i];
        }
    }
    answer->fact_count = status == WEIR_OK ? kept : answer->fact_count;
    return status;
}

static void hide_lane(struct simulation *simulation, struct lane_read *read)
{
    if (lane_handler_set(read->lane_id) % 2 == 0 && read->count > 0) {
        read->count = 0;
        read->is_all = true;
        simulation->result->tampered = true;
    }
}

/* The lanes of every other set of handlers seem to be empty, so that others of the workspace go first. */
static enum weir_status schedule_without_some_lanes(struct simulation *simulation, struct store *store,
                                                    struct schedule_call *call, struct arena *arena,
                                                    struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    for (size_t i = 0; status == WEIR_OK && i < call->read_count; i++) {
        hide_lane(simulation, &call->reads[i]);
    }
    for (size_t i = 0; status == WEIR_OK && i < answer->news_read_count; i++) {
        hide_lane(simulation, &answer->news_reads[i]);
    }
    return status;
}

#define LANE_MUTANT(invariant) .caught_by = CAUGHT_BY(invariant), .has_sets = true
const struct mutant lane_mutants[LANE_MUTANTS] = {
    {.name = "it is forgotten which handlers a definition needs",
     LANE_MUTANT(THE_MODEL_HOLDS),
     .says = "is in a lane for the handlers",
     .schema = forgotten_handlers},
    {.name = "the loss of a handler is no act",
     LANE_MUTANT(THE_MODEL_HOLDS),
     .says = "and was given to node",
     .schema = quiet_loss},
    {.name = "a new handler is not announced",
     /* The lane is in the share of its former nodes, so a later item of the workspace may also go first. */
     .caught_by = CAUGHT_BY(NOBODY_STARVES) | CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .has_sets = true,
     .schema = quiet_gain},
    {.name = "the handlers of nodes are mixed up",
     /* A lane may also be passed over, because the wrong node has its handlers. */
     .caught_by = CAUGHT_BY(THE_MODEL_HOLDS) | CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .has_sets = true,
     .says = "and was given to node",
     .schedule = schedule_with_swapped_handlers},
    {.name = "the handlers of nodes are not learnt",
     .caught_by = CAUGHT_BY(NOBODY_STARVES) | CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .has_sets = true,
     .schedule = schedule_without_handlers},
    {.name = "a lane of a workspace is overlooked",
     LANE_MUTANT(FIRST_IN_FIRST_OUT),
     .says = "of another lane of its share",
     .schedule = schedule_without_some_lanes},
};
