/* Broken variants. Each must be caught by the invariant that it breaks, within a few seeds; else the checker is worth
 * nothing.
 *
 * They break the store from outside: by SQL between two steps, by triggers, or by a verb that does something else. The
 * first one is no mutant: the same seeds, unharmed, must pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "queue/limits.h"
#include "simulation/mutants.h"

enum { UNHARMED_SEEDS = 12, UNHARMED_SEEDS_POSTGRES = 2, SEEDS_MOST = 80, STEPS = 700, FIRST_SEED = 5000 };

/* --- by SQL --- */

bool mutant_change(sqlite3 *database, const char *sql)
{
    char *message = NULL;
    (void)sqlite3_busy_timeout(database, 1000);
    if (sqlite3_exec(database, sql, NULL, NULL, &message) != SQLITE_OK) {
        (void)fprintf(stderr, "mutants: %s: %s\n", message, sql);
        abort();
    }
    return sqlite3_changes(database) > 0;
}

bool mutant_is_later(const struct simulation *simulation)
{
    return simulation->step > 60;
}

static bool lose_a_slot(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) && mutant_change(database, "UPDATE books SET held = held - 1 WHERE lane_id ="
                                                                  " (SELECT lane_id FROM books WHERE held > 0 LIMIT 1)");
}

static bool leak_a_slot(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE books SET held = held + 1 WHERE lane_id = (SELECT lane_id FROM books LIMIT 1)");
}

static bool rewrite_an_end(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE workflow_executions SET status = 'FAILED' WHERE id ="
                                   " (SELECT id FROM workflow_executions WHERE status = 'COMPLETED' LIMIT 1)");
}

/* With its books in order, so that only the missing item tells. */
static bool lose_an_item(struct simulation *simulation, sqlite3 *database)
{
    if (!mutant_is_later(simulation) ||
        !mutant_change(
            database, "CREATE TEMP TABLE lost AS SELECT id, lane_id, workspace_id FROM workflow_execution_queue"
                      " WHERE phase = 0 LIMIT 1; DELETE FROM workflow_execution_queue WHERE id IN (SELECT id FROM lost)")) {
        return false;
    }
    (void)mutant_change(database,
                        "INSERT INTO news (kind, at, lanes) SELECT 2, 0, json_array(json_array(lane_id, -1)) FROM lost");
    return true;
}

/* The old algorithm: what was claimed some time ago goes back to PENDING, whether it runs or not. The books are in order.
 */
static bool put_back_the_claimed(struct simulation *simulation, sqlite3 *database)
{
    (void)mutant_change(database,
                        "DROP TABLE IF EXISTS temp.stale; CREATE TEMP TABLE stale AS SELECT q.id, q.lane_id, q.node_id"
                        " FROM workflow_execution_queue q JOIN nodes n ON n.id = q.node_id WHERE q.phase = 2 LIMIT 1");
    if (!mutant_is_later(simulation) ||
        !mutant_change(database,
                       "UPDATE workflow_execution_queue SET status = 'PENDING', phase = 0, due_at = NULL, node_id = 0"
                       " WHERE id IN (SELECT id FROM stale)")) {
        return false;
    }
    (void)mutant_change(database,
                        "INSERT INTO news (kind, at, node_id, lanes) SELECT 3, 0, node_id,"
                        " json_array(json_array(lane_id, 1, -9223372036854775807, -1, 0, 0, 0, 0, -1)) FROM stale");
    return true;
}

static bool let_one_jump_the_queue(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE workflow_execution_queue SET rank = rank - 100000000000 WHERE id ="
                                   " (SELECT id FROM workflow_execution_queue WHERE phase = 0 LIMIT 1)");
}

/* A ready item goes to the waiting ones, with the books in order. */
static bool put_one_off(struct simulation *simulation, sqlite3 *database)
{
    (void)mutant_change(database, "DROP TABLE IF EXISTS temp.late; CREATE TEMP TABLE late AS SELECT q.id, q.lane_id"
                                  " FROM workflow_execution_queue q WHERE q.phase = 0 LIMIT 1");
    if (!mutant_is_later(simulation) ||
        !mutant_change(database, "UPDATE workflow_execution_queue SET phase = 1, due_at = rank + 600000000"
                                 " WHERE id IN (SELECT id FROM late)")) {
        return false;
    }
    (void)mutant_change(
        database,
        "INSERT INTO news (kind, at, lanes) SELECT 2, 0, json_array(json_array(lane_id, -1, 0, 0, 0, 1)) FROM late");
    return true;
}

static bool charge_one_that_waits(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE workflow_execution_queue SET starts_refused = starts_refused + 1"
                                   " WHERE id = (SELECT id FROM workflow_execution_queue WHERE phase = 0 LIMIT 1)");
}

static bool rewrite_a_step(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE workflow_node_executions SET output = '1' WHERE (execution_id, step) IN"
                                   " (SELECT execution_id, step FROM workflow_node_executions"
                                   "  WHERE finished_at IS NOT NULL LIMIT 1)");
}

static bool turn_the_clock_back(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE store_state SET clock_offset = clock_offset - 2000000,"
                                   " clock_high = clock_high - 10000000 WHERE EXISTS"
                                   " (SELECT 1 FROM workflow_execution_queue)");
}

static bool drop_the_record(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "DELETE FROM workflow_execution_events WHERE seq = 1 AND execution_id IN"
                                   " (SELECT id FROM workflow_executions LIMIT 20)");
}

/* A number that does not follow the plan. */
static bool raise_a_cap(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) && mutant_change(database, "UPDATE workspaces SET slots_max = slots_max + 5");
}

/* --- by a verb that does something else --- */

const struct store_driver *mutant_driver(const struct simulation *simulation)
{
    return store_drivers[simulation->options.store == SIMULATED_POSTGRES ? 1 : 0];
}

/* Writes a copy of the set, which the mutant has altered. */
enum weir_status mutant_record(const struct simulation *simulation, struct store *store, int64_t node_id,
                               struct record *forged, struct record *records, size_t count,
                               struct record_summary *ret_summary, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->record(store, node_id, forged, count, ret_summary, error);
    for (size_t i = 0; i < count; i++) {
        records[i].status = forged[i].status;
    }
    free(forged);
    return status;
}

/* A parked item is due at once. */
static enum weir_status record_without_waits(struct simulation *simulation, struct store *store, int64_t node_id,
                                             struct record *records, size_t count, struct record_summary *ret_summary,
                                             struct weir_error *error)
{
    struct record *forged = calloc(count, sizeof *forged);
    INVARIANT(forged != NULL);
    for (size_t i = 0; i < count; i++) {
        forged[i] = records[i];
        forged[i].delay_us = records[i].kind == RECORD_PARKED ? 0 : records[i].delay_us;
    }
    return mutant_record(simulation, store, node_id, forged, records, count, ret_summary, error);
}

/* Every other minute the scheduler does not learn of new items. */
static enum weir_status lose_the_news(struct simulation *simulation, struct store *store, struct schedule_call *call,
                                      struct arena *arena, struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    bool loses = simulation->boot_us / (60 * MICROSECONDS_PER_SECOND) % 2 != 0;
    size_t kept = 0;
    for (size_t i = 0; status == WEIR_OK && loses && i < answer->fact_count; i++) {
        if (answer->facts[i].kind == FACT_RUNNABLE) {
            simulation->result->tampered = true;
        } else {
            answer->facts[kept++] = answer->facts[i];
        }
    }
    answer->fact_count = status == WEIR_OK && loses ? kept : answer->fact_count;
    return status;
}

/* A new scheduler does not count what is held. */
static enum weir_status load_without_held(struct simulation *simulation, struct store *store, struct schedule_call *call,
                                          struct arena *arena, struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    size_t kept = 0;
    for (size_t i = 0; status == WEIR_OK && i < answer->fact_count; i++) {
        if (answer->facts[i].kind == FACT_HELD) {
            simulation->result->tampered = true;
        } else {
            answer->facts[kept++] = answer->facts[i];
        }
    }
    answer->fact_count = status == WEIR_OK ? kept : answer->fact_count;
    return status;
}

/* A former scheduler assigns under the present epoch: the check of the epoch is gone. */
static enum weir_status schedule_under_any_epoch(struct simulation *simulation, struct store *store,
                                                 struct schedule_call *call, struct arena *arena,
                                                 struct schedule_answer *answer, struct weir_error *error)
{
    struct role_state role;
    struct role_request request = {.act = ROLE_READ};
    int64_t epoch = call->epoch;
    enum weir_status status = mutant_driver(simulation)->role(store, &request, &role, error);
    if (status != WEIR_OK) {
        return status;
    }
    simulation->result->tampered = simulation->result->tampered || role.epoch != epoch;
    call->epoch = role.epoch;
    status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    call->epoch = epoch;
    return status;
}

/* Caps are read two too high. */
static enum weir_status schedule_over_the_cap(struct simulation *simulation, struct store *store,
                                              struct schedule_call *call, struct arena *arena,
                                              struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    for (size_t i = 0; status == WEIR_OK && i < call->read_count; i++) {
        call->reads[i].slots_max += 2;
        simulation->result->tampered = true;
    }
    return status;
}

/* The first of several heads is overlooked. */
static enum weir_status schedule_without_the_head(struct simulation *simulation, struct store *store,
                                                  struct schedule_call *call, struct arena *arena,
                                                  struct schedule_answer *answer, struct weir_error *error)
{
    enum weir_status status = mutant_driver(simulation)->schedule(store, call, arena, answer, error);
    for (size_t i = 0; status == WEIR_OK && i < call->read_count; i++) {
        if (call->reads[i].count > 2) {
            call->reads[i].heads++;
            call->reads[i].count--;
            simulation->result->tampered = true;
        }
    }
    return status;
}

static enum weir_status never_recover(struct simulation *simulation, struct store *store,
                                      const struct recover_options *options, struct recover_result *ret_result,
                                      struct weir_error *error)
{
    (void)store;
    (void)options;
    (void)error;
    simulation->result->tampered = true;
    *ret_result = (struct recover_result){0};
    return WEIR_OK;
}

/* Nodes are declared dead while their lease still runs. */
static enum weir_status recover_the_living(struct simulation *simulation, struct store *store,
                                           const struct recover_options *options, struct recover_result *ret_result,
                                           struct weir_error *error)
{
    struct recover_options hasty = *options;
    sqlite3 *database;
    if (mutant_is_later(simulation) && !simulation->result->tampered && !options->look_only) {
        char sql[160];
        INVARIANT(sqlite3_open(simulation->path, &database) == SQLITE_OK);
        (void)snprintf(sql, sizeof sql, "UPDATE nodes SET expires_at = 0 WHERE dead_at IS NULL AND id <> %lld",
                       (long long)options->node_id);
        simulation->result->tampered = mutant_change(database, sql);
        (void)sqlite3_close(database);
    }
    return mutant_driver(simulation)->recover(store, &hasty, ret_result, error);
}

/* A node looks at its wall clock, and recovers nobody in odd hours. */
static enum weir_status recover_in_even_hours(struct simulation *simulation, struct store *store,
                                              const struct recover_options *options, struct recover_result *ret_result,
                                              struct weir_error *error)
{
    const struct simulated_node *node = &simulation->nodes[simulation->actor];
    if (clock_wall(&node->clock) / (3600 * MICROSECONDS_PER_SECOND) % 2 != 0) {
        *ret_result = (struct recover_result){0};
        return WEIR_OK;
    }
    return mutant_driver(simulation)->recover(store, options, ret_result, error);
}

/* The keys of a set are lost on the way. */
static enum weir_status enqueue_without_keys(struct simulation *simulation, struct store *store,
                                             const struct enqueue_request *requests, size_t count,
                                             struct enqueue_result *results, struct weir_error *error)
{
    sqlite3 *database;
    if (mutant_is_later(simulation)) {
        INVARIANT(sqlite3_open(simulation->path, &database) == SQLITE_OK);
        simulation->result->tampered =
            mutant_change(database, "DELETE FROM idempotency_keys") || simulation->result->tampered;
        (void)sqlite3_close(database);
    }
    return mutant_driver(simulation)->enqueue(store, requests, count, results, error);
}

/* --- modes of keys --- */

/* Enqueues a copy of the set, which the mutant has altered. */
static enum weir_status enqueue_forged(struct simulation *simulation, struct store *store,
                                       const struct enqueue_request *requests, size_t count, struct enqueue_result *results,
                                       void (*alter)(struct enqueue_request *), struct weir_error *error)
{
    struct enqueue_request forged[SET_MOST];
    INVARIANT(count <= SET_MOST);
    for (size_t i = 0; i < count; i++) {
        forged[i] = requests[i];
        alter(&forged[i]);
        simulation->result->tampered = simulation->result->tampered || forged[i].key_mode != requests[i].key_mode;
    }
    return mutant_driver(simulation)->enqueue(store, forged, count, results, error);
}

static void drop_key(struct enqueue_request *request)
{
    request->idempotency_key = NULL;
    request->key_mode = KEY_ONCE;
    request->debounce_us = 0;
    request->debounce_most_us = 0;
}

static void drop_key_of_replace(struct enqueue_request *request)
{
    if (request->key_mode == KEY_REPLACE || request->key_mode == KEY_DEBOUNCE) {
        drop_key(request);
    }
}

static void drop_key_of_one_active(struct enqueue_request *request)
{
    if (request->key_mode == KEY_ONE_ACTIVE) {
        drop_key(request);
    }
}

static void repeat_replace(struct enqueue_request *request)
{
    request->key_mode = request->key_mode == KEY_REPLACE ? KEY_ONCE : request->key_mode;
}

static void replace_active(struct enqueue_request *request)
{
    request->key_mode = request->key_mode == KEY_ONE_ACTIVE ? KEY_REPLACE : request->key_mode;
}

static void shorten_window(struct enqueue_request *request)
{
    request->debounce_us = request->key_mode == KEY_DEBOUNCE ? DEBOUNCE_LEAST_US : 0;
}

#define ENQUEUE_MUTANT(name, alter)                                                                                        \
    static enum weir_status name(struct simulation *simulation, struct store *store,                                       \
                                 const struct enqueue_request *requests, size_t count, struct enqueue_result *results,     \
                                 struct weir_error *error)                                                                 \
    {                                                                                                                      \
        return enqueue_forged(simulation, store, requests, count, results, alter, error);                                  \
    }
ENQUEUE_MUTANT(enqueue_beside_the_replaced, drop_key_of_replace)
ENQUEUE_MUTANT(enqueue_beside_the_active, drop_key_of_one_active)
ENQUEUE_MUTANT(enqueue_replace_as_once, repeat_replace)
ENQUEUE_MUTANT(enqueue_active_as_replace, replace_active)
ENQUEUE_MUTANT(enqueue_without_window, shorten_window)

/* --- schedules --- */

/* The newest time is passed over. */
static enum weir_status advance_without_firing(struct simulation *simulation, struct store *store,
                                               struct schedule_advance *advance, struct weir_error *error)
{
    simulation->result->tampered = simulation->result->tampered || advance->fire_count > 0;
    advance->fire_count = 0;
    return mutant_driver(simulation)->advance_schedule(store, advance, error);
}

/* The due time goes one step too far. */
static enum weir_status advance_too_far(struct simulation *simulation, struct store *store,
                                        struct schedule_advance *advance, struct weir_error *error)
{
    advance->next_us += advance->error_code == NULL ? MICROSECONDS_PER_SECOND : 0;
    return mutant_driver(simulation)->advance_schedule(store, advance, error);
}

static void delay_firing(struct enqueue_request *request)
{
    request->run_at_us += request->has_reserved_key ? 3600 * MICROSECONDS_PER_SECOND : 0;
}

static void rename_workflow_of_firing(struct enqueue_request *request)
{
    request->workflow = request->has_reserved_key ? "unknown" : request->workflow;
}

static void draw_id_of_firing(struct enqueue_request *request)
{
    request->id = request->has_reserved_key ? NULL : request->id;
}

ENQUEUE_MUTANT(enqueue_firings_late, delay_firing)
ENQUEUE_MUTANT(enqueue_firings_of_no_workflow, rename_workflow_of_firing)
ENQUEUE_MUTANT(enqueue_firings_under_other_ids, draw_id_of_firing)

/* A due time that was settled fires again. */
static bool fire_again(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database,
                         "CREATE TEMP TABLE again AS SELECT schedule_id, workspace_id, due_at, created_at FROM"
                         " schedule_firings WHERE execution_id IS NOT NULL LIMIT 1;"
                         "DELETE FROM schedule_firings WHERE EXISTS (SELECT 1 FROM again a WHERE a.due_at ="
                         " schedule_firings.due_at AND a.workspace_id = schedule_firings.workspace_id);"
                         "INSERT INTO schedule_firings (schedule_id, workspace_id, due_at, created_at, planned_id)"
                         " SELECT schedule_id, workspace_id, due_at, created_at,"
                         " '00000000-0000-7000-8000-000000000001' FROM again");
}

static bool bring_forward(struct simulation *simulation, sqlite3 *database)
{
    return mutant_is_later(simulation) &&
           mutant_change(database, "UPDATE schedules SET due_at = due_at - 1000000 WHERE paused = 0");
}

/* A delayed execution is promoted before its time, with the books in order. */
static bool promote_early(struct simulation *simulation, sqlite3 *database)
{
    (void)mutant_change(database,
                        "DROP TABLE IF EXISTS temp.early; CREATE TEMP TABLE early AS SELECT q.id, q.lane_id, q.rank"
                        " FROM workflow_execution_queue q WHERE q.phase = 1 AND q.due_at = q.run_at"
                        " ORDER BY q.due_at DESC LIMIT 1");
    if (!mutant_is_later(simulation) ||
        !mutant_change(database, "UPDATE workflow_execution_queue SET phase = 0, due_at = NULL"
                                 " WHERE id IN (SELECT id FROM early)")) {
        return false;
    }
    (void)mutant_change(
        database,
        "INSERT INTO news (kind, at, lanes) SELECT 1, 0, json_array(json_array(lane_id, 1, rank, 0, 0, -1)) FROM early");
    return true;
}

/* --- by triggers --- */

/* A slot is given back twice. */
/* Nodes of any target take over what a dead node has started. */
static const char forgotten_target[] = "CREATE TRIGGER forgotten_target AFTER UPDATE OF node_id ON workflow_execution_queue"
                                       " WHEN NEW.phase = 2 AND NEW.node_id = 0 AND NEW.target_id <> 0 BEGIN"
                                       " UPDATE workflow_execution_queue SET target_id = 0 WHERE number = NEW.number; END;";

/* Nodes of any engine are given what the definition needs another one for. */
static const char forgotten_engine[] =
    "CREATE TRIGGER forgotten_engine AFTER INSERT ON workflow_definitions WHEN NEW.demand = 1 BEGIN"
    " UPDATE workflow_definitions SET demand = 0 WHERE id = NEW.id; END;";

static const char freed_twice[] = "CREATE TRIGGER mutant_free AFTER INSERT ON workflow_executions WHEN NEW.fence > 0"
                                  " BEGIN INSERT INTO news (kind, at, node_id, lanes)"
                                  " VALUES (4, 0, NEW.node_id, '[[' || NEW.lane_id || ',0,0,-1,0,0,0,0,-1]]'); END;";

/* A handover leaves no trace. */
static const char unrecorded_handover[] =
    "CREATE TRIGGER mutant_record AFTER INSERT ON workflow_execution_events WHEN NEW.event = 'hand_over'"
    " BEGIN DELETE FROM workflow_execution_events WHERE execution_id = NEW.execution_id AND seq = NEW.seq; END;";

/* A claim that is over is forgotten, as when only the row's own stamps tell the story. */
static const char forgotten_claim[] =
    "CREATE TRIGGER mutant_claim BEFORE INSERT ON workflow_execution_events WHEN NEW.event = 'claim'"
    " BEGIN SELECT RAISE(IGNORE); END;";

/* A dispatch after a handover is told by the stamp of the first one, and so of the wrong claim. */
static const char misplaced_dispatch[] =
    "CREATE TRIGGER mutant_dispatch BEFORE INSERT ON workflow_execution_events WHEN NEW.event = 'dispatch'"
    " BEGIN SELECT RAISE(IGNORE); END;";

/* A claim that is over is told of another node. */
static const char wrong_node[] =
    "CREATE TRIGGER mutant_node BEFORE INSERT ON workflow_execution_events WHEN NEW.event = 'claim' AND NEW.node_id > 1"
    " BEGIN INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence)"
    " VALUES (NEW.execution_id, NEW.seq, NEW.at, NEW.event, 1, NEW.fence); SELECT RAISE(IGNORE); END;";

/* The unfinished steps of an execution that was taken over are left as they were when it ends. */
static const char open_step[] =
    "CREATE TRIGGER mutant_attempt BEFORE UPDATE ON workflow_node_executions WHEN NEW.attempt = OLD.attempt"
    " AND OLD.start_node_id IS NULL AND NEW.start_node_id IS NOT NULL BEGIN SELECT RAISE(IGNORE); END;";

/* A parked execution still counts as held. */
static const char kept_slot[] = "CREATE TRIGGER mutant_park AFTER UPDATE ON workflow_execution_queue"
                                " WHEN NEW.phase = 3 AND OLD.phase = 2 BEGIN INSERT INTO news (kind, at, node_id, lanes)"
                                " VALUES (4, 0, OLD.node_id, '[[' || NEW.lane_id || ',0,0,1,0,0,0,0,1]]'); END;";

static const char late_rank[] = "CREATE TRIGGER mutant_wake AFTER UPDATE ON workflow_execution_queue"
                                " WHEN NEW.phase = 0 AND OLD.phase = 3 BEGIN UPDATE workflow_execution_queue"
                                " SET rank = rank + 100000000 WHERE number = NEW.number; END;";

static const char unrecorded_park[] =
    "CREATE TRIGGER mutant_record AFTER INSERT ON workflow_execution_events WHEN NEW.event = 'park'"
    " BEGIN DELETE FROM workflow_execution_events WHERE execution_id = NEW.execution_id AND seq = NEW.seq; END;";

/* A firing is lost with the transaction that inserts it. */
static const char lost_firing[] =
    "CREATE TRIGGER mutant_firing AFTER INSERT ON schedule_firings WHEN NEW.execution_id IS NULL BEGIN"
    " DELETE FROM schedule_firings WHERE planned_id = NEW.planned_id; END;";

/* The overlap policy sees no execution. */
static const char hidden_execution[] =
    "CREATE TRIGGER mutant_firing AFTER UPDATE OF execution_id ON schedule_firings WHEN NEW.execution_id = NEW.planned_id"
    " BEGIN DELETE FROM schedule_firings WHERE planned_id = NEW.planned_id; END;";

/* A pause keeps what waits. */
static const char kept_firing[] =
    "CREATE TRIGGER mutant_pause BEFORE DELETE ON schedule_firings WHEN OLD.execution_id IS NULL AND OLD.is_triggered = 0 "
    "AND EXISTS"
    " (SELECT 1 FROM schedules WHERE id = OLD.schedule_id AND paused = 1) BEGIN SELECT RAISE(IGNORE); END;";

/* A resumed schedule goes on with the time at which it was paused. */
static const char kept_due_time[] =
    "CREATE TRIGGER mutant_resume AFTER UPDATE OF paused ON schedules WHEN OLD.paused = 1 AND NEW.paused = 0 BEGIN"
    " UPDATE schedules SET due_at = OLD.due_at WHERE id = NEW.id; END;";

/* A drop or a skip is not counted. */
static const char uncounted_skip[] =
    "CREATE TRIGGER mutant_count AFTER UPDATE OF skipped ON schedules WHEN NEW.skipped > OLD.skipped BEGIN"
    " UPDATE schedules SET skipped = OLD.skipped WHERE id = NEW.id; END;";

#define SCHEDULE_MUTANT .caught_by = CAUGHT_BY(EACH_TIME_FIRES_ONCE), .is_scheduled = true, .parks = true
static const struct mutant mutants[] = {
    {.name = "a slot counter is one too low", .caught_by = CAUGHT_BY(COUNTERS_EQUAL_ROWS), .tamper = lose_a_slot},
    {.name = "a slot is leaked", .caught_by = CAUGHT_BY(COUNTERS_EQUAL_ROWS), .tamper = leak_a_slot},
    {.name = "a slot is freed twice", .caught_by = CAUGHT_BY(COUNTERS_EQUAL_ROWS), .schema = freed_twice},
    {.name = "it is forgotten where an execution was started",
     .caught_by = CAUGHT_BY(ONE_RUN_PER_ITEM),
     .is_mixed = true,
     .schema = forgotten_target},
    {.name = "it is forgotten which engine a definition needs",
     .caught_by = CAUGHT_BY(ONE_RUN_PER_ITEM),
     .is_mixed = true,
     .schema = forgotten_engine},
    {.name = "an ended row is rewritten", .caught_by = CAUGHT_BY(THE_END_IS_FINAL), .tamper = rewrite_an_end},
    {.name = "a row is lost", .caught_by = CAUGHT_BY(NOTHING_IS_LOST), .tamper = lose_an_item},
    {.name = "a claim of unknown outcome goes back to PENDING",
     .caught_by = CAUGHT_BY(ONE_RUN_PER_ITEM) | CAUGHT_BY(STALE_FENCES_ARE_DEAF) | CAUGHT_BY(THE_MODEL_HOLDS),
     .tamper = put_back_the_claimed},
    {.name = "a ready item is put off", .caught_by = CAUGHT_BY(NOBODY_STARVES), .tamper = put_one_off},
    {.name = "news is lost",
     .caught_by = CAUGHT_BY(NOBODY_STARVES) | CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .schedule = lose_the_news},
    {.name = "held slots are not counted at a takeover",
     /* Ends of what it does not know make it doubt its books and load them anew, for ever. */
     .caught_by = CAUGHT_BY(CAP_IS_KEPT) | CAUGHT_BY(NOBODY_STARVES),
     .schedule = load_without_held},
    {.name = "the epoch is not checked",
     .caught_by = CAUGHT_BY(CAP_IS_KEPT) | CAUGHT_BY(THE_MODEL_HOLDS) | CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .schedule = schedule_under_any_epoch},
    {.name = "waiting costs an attempt", .caught_by = CAUGHT_BY(THE_MODEL_HOLDS), .tamper = charge_one_that_waits},
    {.name = "a finished step is rewritten", .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD), .tamper = rewrite_a_step},
    {.name = "store time goes back",
     /* A start time that was over is ahead again. */
     .caught_by = CAUGHT_BY(WALL_CLOCKS_DECIDE_NOTHING) | CAUGHT_BY(EVERYTHING_IS_ON_RECORD) | CAUGHT_BY(THE_MODEL_HOLDS),
     .tamper = turn_the_clock_back},
    {.name = "one item jumps the queue", .caught_by = CAUGHT_BY(FIRST_IN_FIRST_OUT), .tamper = let_one_jump_the_queue},
    {.name = "the head of a lane is overlooked",
     .caught_by = CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .schedule = schedule_without_the_head},
    {.name = "the record is erased", .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD), .tamper = drop_the_record},
    {.name = "a handover is not recorded", .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD), .schema = unrecorded_handover},
    {.name = "a claim that is over is forgotten",
     .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD),
     .schema = forgotten_claim},
    {.name = "a dispatch is told of the wrong claim",
     .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD),
     .schema = misplaced_dispatch},
    {.name = "a claim is told of the wrong node", .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD), .schema = wrong_node},
    {.name = "a step does not end with its execution",
     .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD),
     .schema = open_step},
    {.name = "a parked execution keeps its slot",
     .caught_by = CAUGHT_BY(COUNTERS_EQUAL_ROWS),
     .parks = true,
     .schema = kept_slot},
    {.name = "a woken execution goes behind newer work",
     .caught_by = CAUGHT_BY(FIRST_IN_FIRST_OUT),
     .parks = true,
     .schema = late_rank},
    {.name = "a wait is cut short", .caught_by = CAUGHT_BY(THE_MODEL_HOLDS), .parks = true, .record = record_without_waits},
    {.name = "a park is not recorded",
     .caught_by = CAUGHT_BY(EVERYTHING_IS_ON_RECORD),
     .parks = true,
     .schema = unrecorded_park},
    {.name = "a cap is higher than the plan", .caught_by = CAUGHT_BY(CAP_IS_KEPT), .tamper = raise_a_cap},
    {.name = "a cap is read too high", .caught_by = CAUGHT_BY(CAP_IS_KEPT), .schedule = schedule_over_the_cap},
    {.name = "fences are not checked",
     .caught_by = CAUGHT_BY(STALE_FENCES_ARE_DEAF) | CAUGHT_BY(ONE_RUN_PER_ITEM),
     .record = mutant_record_under_any_fence},
    {.name = "the dead are not recovered", .caught_by = CAUGHT_BY(EVERY_CLAIM_ENDS), .recover = never_recover},
    {.name = "the living are declared dead", .caught_by = CAUGHT_BY(ONE_RUN_PER_ITEM), .recover = recover_the_living},
    {.name = "a wall clock decides",
     .caught_by = CAUGHT_BY(WALL_CLOCKS_DECIDE_NOTHING),
     .recover = recover_in_even_hours,
     .by_clocks = true},
    {.name = "a replaced execution stays beside the new one",
     .caught_by = CAUGHT_BY(ONE_ITEM_PER_KEY),
     .says = "only the newest may be",
     .is_keyed = true,
     .enqueue = enqueue_beside_the_replaced},
    {.name = "two executions of a one_active key are active",
     .caught_by = CAUGHT_BY(ONE_ITEM_PER_KEY),
     .says = "are active",
     .is_keyed = true,
     .enqueue = enqueue_beside_the_active},
    {.name = "a newer request of a key is taken for a repetition",
     .caught_by = CAUGHT_BY(ONE_ITEM_PER_KEY),
     .says = "made no execution",
     .is_keyed = true,
     .enqueue = enqueue_replace_as_once},
    {.name = "a one_active request replaces",
     .caught_by = CAUGHT_BY(ONE_ITEM_PER_KEY),
     .says = "though no request replaces it",
     .is_keyed = true,
     .enqueue = enqueue_active_as_replace},
    {.name = "a debounce does not wait for its window",
     .caught_by = CAUGHT_BY(ONE_ITEM_PER_KEY),
     .says = "us after its time",
     .is_keyed = true,
     .enqueue = enqueue_without_window},
    {.name = "a due time is passed over", SCHEDULE_MUTANT, .says = "wait after", .advance = advance_without_firing},
    {.name = "a due time is left out", SCHEDULE_MUTANT, .says = "is due at", .advance = advance_too_far},
    {.name = "a due time comes early", SCHEDULE_MUTANT, .says = "was changed by", .tamper = bring_forward},
    {.name = "a due time fires twice", SCHEDULE_MUTANT, .says = "fires twice", .tamper = fire_again},
    {.name = "a firing is lost", SCHEDULE_MUTANT, .says = "after advance", .schema = lost_firing},
    {.name = "a firing starts at another time",
     SCHEDULE_MUTANT,
     .says = "us after its time",
     .enqueue = enqueue_firings_late},
    {.name = "a firing is refused without a reason",
     SCHEDULE_MUTANT,
     .says = "nothing refuses it",
     .enqueue = enqueue_firings_of_no_workflow},
    {.name = "a firing starts another execution",
     SCHEDULE_MUTANT,
     .says = "without a firing",
     .enqueue = enqueue_firings_under_other_ids},
    {.name = "executions of a schedule overlap", SCHEDULE_MUTANT, .says = "lives in", .schema = hidden_execution},
    {.name = "a paused schedule fires", SCHEDULE_MUTANT, .says = "is paused, and its firing", .schema = kept_firing},
    {.name = "a time of a pause fires", SCHEDULE_MUTANT, .says = "is due at", .schema = kept_due_time},
    {.name = "a skipped time is not counted", SCHEDULE_MUTANT, .says = "counts", .schema = uncounted_skip},
    {.name = "an execution is claimed before its start time",
     .caught_by = CAUGHT_BY(THE_MODEL_HOLDS),
     .says = "before its start time",
     .tamper = promote_early},
    {.name = "idempotency keys are forgotten", .caught_by = CAUGHT_BY(ONE_ITEM_PER_KEY), .enqueue = enqueue_without_keys},
};

enum {
    OWN_MUTANTS = sizeof mutants / sizeof mutants[0],
    MUTANT_COUNT = OWN_MUTANTS + STATE_MUTANTS + CHILD_MUTANTS + LANE_MUTANTS
};

static const struct mutant *mutant_at(int index)
{
    int other = index - OWN_MUTANTS;
    int last = other - STATE_MUTANTS - CHILD_MUTANTS;
    return other < 0               ? &mutants[index]
           : other < STATE_MUTANTS ? &state_mutants[other]
           : last < 0              ? &child_mutants[other - STATE_MUTANTS]
                                   : &lane_mutants[last];
}

/* The seed again with other wall clocks: another trace is a break of invariant 11. */
static void compare_clocks(struct simulation_options *options, struct simulation_result *result)
{
    struct simulation_result again;
    options->skew++;
    simulation_run(options, &again);
    if (again.trace != result->trace) {
        result->broken = WALL_CLOCKS_DECIDE_NOTHING;
        text_copy(result->what, sizeof result->what, "other wall clocks, another trace");
    }
}

/* True when a seed breaks a right rule in the words of the mutant, and none before it a wrong one. */
static bool is_caught(enum simulated_store store, const struct mutant *mutant, char *how, size_t size)
{
    text_copy(how, size, "no seed was caught");
    uint64_t first = mutant->first_seed == 0 ? FIRST_SEED : mutant->first_seed;
    for (uint64_t seed = first; seed < first + SEEDS_MOST; seed++) {
        struct simulation_options options = {.store = store, .seed = seed, .skew = 1, .steps = STEPS, .mutant = mutant};
        struct simulation_result result;
        simulation_run(&options, &result);
        if (mutant->by_clocks) {
            compare_clocks(&options, &result);
        }
        if (result.broken != INVARIANT_NONE) {
            (void)snprintf(how, size, "seed %llu, step %lld, invariant %d: %.200s", (unsigned long long)seed,
                           (long long)result.step, result.broken, result.what);
            bool is_expected = (mutant->caught_by & CAUGHT_BY(result.broken)) != 0;
            if (!is_expected || mutant->says == NULL || strstr(result.what, mutant->says) != NULL) {
                return is_expected;
            }
        }
    }
    return false;
}

static bool unharmed_seeds_pass(enum simulated_store store, char *how, size_t size)
{
    uint64_t count = store == SIMULATED_POSTGRES ? UNHARMED_SEEDS_POSTGRES : UNHARMED_SEEDS;
    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + count; seed++) {
        struct simulation_options options = {.store = store, .seed = seed, .skew = 1, .steps = STEPS};
        struct simulation_result result;
        struct simulation_result again;
        simulation_run(&options, &result);
        simulation_run(&options, &again);
        if (result.broken != INVARIANT_NONE || again.trace != result.trace) {
            (void)snprintf(how, size, "seed %llu: %s", (unsigned long long)seed,
                           result.broken != INVARIANT_NONE ? result.what : "it does not replay");
            return false;
        }
    }
    text_copy(how, size, "and each replays exactly");
    return true;
}

/* The mutants that break the store by SQL are written for SQLite. */
static bool can_run(enum simulated_store store, const struct mutant *mutant)
{
    return store == SIMULATED_SQLITE || (mutant->tamper == NULL && mutant->schema == NULL);
}

struct arguments {
    enum simulated_store store;
    const char *only; /* NULL, or a part of the names of those that run */
};

static bool parse(int count, char **words, struct arguments *arguments)
{
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--only") == 0) {
            arguments->only = words[i + 1];
        } else if (strcmp(words[i], "--store") == 0) {
            arguments->store = strcmp(words[i + 1], "postgres") == 0 ? SIMULATED_POSTGRES : SIMULATED_SQLITE;
        } else {
            return false;
        }
    }
    return count % 2 == 1;
}

static bool is_meant(const struct arguments *arguments, const struct mutant *mutant)
{
    return can_run(arguments->store, mutant) && (arguments->only == NULL || strstr(mutant->name, arguments->only) != NULL);
}

int main(int count, char **words)
{
    char how[BROKEN_MAX];
    struct arguments arguments = {.store = SIMULATED_SQLITE};
    if (!parse(count, words, &arguments)) {
        (void)fprintf(stderr, "usage: mutants [--store sqlite|postgres] [--only PART_OF_A_NAME]\n");
        return EXIT_FAILURE;
    }
    bool all = unharmed_seeds_pass(arguments.store, how, sizeof how);
    int planned = 1;
    for (int i = 0; i < MUTANT_COUNT; i++) {
        planned += is_meant(&arguments, mutant_at(i));
    }
    (void)printf("TAP version 13\n1..%d\n", planned);
    (void)printf("%s 1 - unharmed seeds pass\n# %s\n", all ? "ok" : "not ok", how);
    for (int i = 0, number = 1; i < MUTANT_COUNT; i++) {
        if (!is_meant(&arguments, mutant_at(i))) {
            continue;
        }
        bool caught = is_caught(arguments.store, mutant_at(i), how, sizeof how);
        (void)printf("%s %d - caught: %s\n# %s\n", caught ? "ok" : "not ok", ++number, mutant_at(i)->name, how);
        (void)fflush(stdout);
        all = all && caught;
    }
    return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
