/* A fleet of nodes over one real store, in one thread, on a virtual clock, with faults drawn from a seed.
 *
 *   profile.c       what kind of fleet a seed makes
 *   world.c         the virtual clocks, the nodes' lives (start, crash, pause, stop, reboot), the scheduler
 *   workload.c      what clients and operators do: enqueue, cancel, retry, pause, plans, ...
 *   schedules.c     schedules and the acts of operators on them
 *   schedule_times.c   the times of schedules, also where clocks change
 *   schedule_checks.c  what each call must do to schedules and their firings
 *   states.c        workflows with states: the acts of persons, and the model of each machine
 *   asks.c          steps that wait for a signal beside their time, and what each signal must do to them
 *   children.c      executions that start others: their plans, and the model of each step with children
 *   child_checks.c  what each call must do to them
 *   handlers.c      workflows that need different handlers, and nodes that have different ones
 *   keys.c          requests with a key mode, and the effect that docs/design/keys.md gives them
 *   file.c          the store's file: a copy of one that was migrated; SQLite for one process of one thread
 *   server.c        the store's database on a PostgreSQL server of the program's own, with our clock
 *   reader.c        questions to the store behind the drivers' backs
 *   faulty_store.c  a store driver between the node and the real one: lost answers, deaths and pauses at every call
 *   observer.c      every changed row, in order, through triggers; replayed into a model of the queue
 *   invariants.c    what must always be true, checked on the model, the ledger of the engine and the store
 *   story.c         what the views tell of an execution is what the observer saw
 *   promptness.c    when all is calm, what may go on does so soon
 *   simulation.c    the program: seeds, TAP, replay
 *   mutants.c, state_mutants.c, child_mutants.c, lane_mutants.c   broken variants; each must be caught, or the checker is
 * worth nothing
 *
 * In one fleet of five every other node is driven by its host: all its loops run in one call, and wait for each other.
 * Two fleets in seven have workflows with states (support/scripted_engine/machine.c), and one in seven executions that
 * start others (support/scripted_engine/children.c). One fleet in four is mixed: its nodes have engines of both kinds and
 * two namespaces, and some come back from a restart with another one. In one fleet of five workflows need different
 * handlers, and nodes have different ones.
 *
 * Everything that is random comes from the seed, so a seed replays exactly. Wall clocks come from another seed (`skew`):
 * the trace of a run must not depend on it.
 */
#ifndef WEIR_TESTS_SIMULATION_H
#define WEIR_TESTS_SIMULATION_H

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "base/uuid.h"
#include "dispatch/node.h"
#include "queue/item.h"
#include "simulation/children.h"
#include "simulation/handlers.h"
#include "store/store.h"
#include "support/scripted_engine/scripted.h"

enum {
    NODES_MOST = 5,
    WORKSPACES_MOST = 8,
    GROUPS_MOST = 2,
    POOLS_MOST = 2 * GROUPS_MOST, /* of each group the nodes and lanes of one kind of engine */
    PLACES_MOST = 3,              /* where executions run: in nodes, and in two namespaces of a service */
    ITEM_FENCES_MOST = 24,
    BROKEN_MAX = 512,
    OUTSIDE = -1, /* the actor that is no node: a client or an operator */
    MACHINES_MOST = 3,
    LIVES_MOST = 512, /* of nodes, in one run */
    SET_MOST = 24,    /* requests of one enqueue */
    KEY_LENGTH = 16,
    MODE_KEYS = 7, /* keys of one workspace whose requests have a mode */
    SCHEDULES_SIMULATED = 4,
    EXPRESSIONS = 6, /* of cron */
    EXPECTED_WAITS_MOST = 4096,
    STATE_SIGNALS = 2,
    STATE_VERSIONS = 2,   /* of the workflow with states */
    CHILD_DEPTH_DRAWN = 2 /* deeper executions start no more that start others */
};

/* The invariants of ARCHITECTURE.md, by number, and from 13 on those of the simulation alone. */
enum invariant {
    INVARIANT_NONE = 0,
    NOTHING_IS_LOST = 1,
    ONE_RUN_PER_ITEM = 2,
    CAP_IS_KEPT = 3,
    FIRST_IN_FIRST_OUT = 4,
    NOBODY_STARVES = 5,
    EVERY_CLAIM_ENDS = 6,
    THE_END_IS_FINAL = 7,
    COUNTERS_EQUAL_ROWS = 8,
    ONE_ITEM_PER_KEY = 9,
    STALE_FENCES_ARE_DEAF = 10,
    WALL_CLOCKS_DECIDE_NOTHING = 11,
    EVERYTHING_IS_ON_RECORD = 12,
    EACH_TIME_FIRES_ONCE = 13,         /* of a schedule, in each of its workspaces (docs/design/schedules.md) */
    STATES_FOLLOW_THE_DEFINITION = 15, /* and the variables are those of the answers (docs/design/states.md) */
    CHILDREN_FOLLOW_THE_PLAN = 16,     /* and each is there once, with its result (docs/design/children.md) */
    A_WAIT_ENDS_ONCE = 17,             /* that for children: by one cause, which is on record */
    THE_MODEL_HOLDS = 14               /* an illegal move, a call that failed without a fault, a broken store_check() */
};

/* --- changed rows (observer.c) --- */

#define CHANGE_COLUMNS                                                                                                     \
    "what, id, status, workspace_id, lane_id, node_id, fence, phase, rank, due_at, run_at, priority,"                      \
    " starts_refused, deferrals, handovers, cancel_at, waiting_for, extra"

/* A firing has its execution in `status`, its schedule in `rank` and its insertion in `run_at`. A schedule has its id in
 * `rank`, and counters in `fence`, `node_id`, `lane_id` and `priority`. An action and a signal have their numbers in
 * `rank`, and outcome and name in `status`. A step with children (`family`) and a child have the step in `status`, counters
 * in the other columns (file.c), and a problem, the end of the child or the state of the wait in `waiting_for`. */
struct change {
    int64_t seq;
    const char *what, *id, *status, *extra;
    int64_t workspace_id, lane_id, node_id, fence, rank, due_at, run_at;
    int phase, priority, starts_refused, deferrals, handovers;
    bool cancel;
    bool has_reason; /* what it waits for */
    bool has_count;  /* `fence` has a value */
    const char *waiting_for;
};

/* --- schedules (schedules.c) --- */

enum season { SEASON_NONE, SEASON_SPRING, SEASON_AUTUMN, SEASONS };

struct schedule_counters {
    int64_t fired, skipped, dropped, refused;
};
struct model_schedule {
    char name[16];
    int64_t row_id;
    int64_t every_us; /* 0 = `expression` */
    int expression;
    int64_t jitter_us, catch_up_us;
    int plan;            /* -1 = `workspaces` */
    unsigned workspaces; /* bits */
    enum schedule_overlap overlap;
    bool is_paused;
    int64_t due_us;
    struct schedule_counters counts;
    bool is_touched;          /* by the call that is being looked at */
    int64_t overdue_since_us; /* true time; 0 = it is not */
};
struct model_firing {
    int64_t schedule_id;
    int workspace;
    int64_t due_us, created_us;
    char id[UUID_TEXT_MAX];      /* of its execution */
    char planned[UUID_TEXT_MAX]; /* the id that its row gives to one; another one than `id` if the time fires once more */
    bool is_triggered, is_waiting;
    bool is_gone;           /* its row was removed */
    bool was_settled;       /* it got its execution once */
    bool was_disabled;      /* its workflow was, while it waited */
    int64_t ready_since_us; /* true time; 0 = it is not */
};
struct expected_wait {
    int workspace;
    int64_t due_us;
};
/* A schedule and its waiting firings behind a call. */
struct expected_schedule {
    struct model_schedule *schedule; /* NULL: nothing is expected */
    int64_t at_us;                   /* store time before the call */
    bool was_paused;
    int64_t due_us;
    struct schedule_counters counts;
    struct expected_wait waits[EXPECTED_WAITS_MOST];
    size_t count;
};
/* The state of a schedule as a node has read it, before the node advances it. */
struct look_at_schedule {
    int64_t now_us;
    enum schedule_overlap overlap;
};

/* --- one run --- */

struct simulation;
struct story;

/* The fault of a broken variant. */
struct mutant {
    const char *name;
    unsigned caught_by; /* bit 1 << enum invariant: any of these is right */
    /* Before each step, by SQL on a connection of its own: returns true once it has done its deed. May be NULL. */
    bool (*tamper)(struct simulation *simulation, sqlite3 *database);
    /* Around the store's verbs; each may be NULL. */
    enum weir_status (*schedule)(struct simulation *, struct store *, struct schedule_call *, struct arena *,
                                 struct schedule_answer *, struct weir_error *);
    enum weir_status (*record)(struct simulation *, struct store *, int64_t, struct record *, size_t,
                               struct record_summary *, struct weir_error *);
    enum weir_status (*recover)(struct simulation *, struct store *, const struct recover_options *,
                                struct recover_result *, struct weir_error *);
    enum weir_status (*enqueue)(struct simulation *, struct store *, const struct enqueue_request *, size_t,
                                struct enqueue_result *, struct weir_error *);
    enum weir_status (*advance)(struct simulation *, struct store *, struct schedule_advance *, struct weir_error *);
    enum weir_status (*advance_children)(struct simulation *, struct store *, struct children_advance *,
                                         struct weir_error *);
    bool by_clocks;      /* caught by running the seed again with other wall clocks */
    bool is_mixed;       /* of a fleet with nodes of both engines */
    bool parks;          /* of a fleet whose engines park */
    bool is_keyed;       /* of a fleet whose clients use key modes */
    bool is_scheduled;   /* of a fleet with schedules */
    bool has_states;     /* of a fleet with workflows with states */
    bool has_children;   /* of a fleet with executions that start others */
    bool has_sets;       /* of a fleet with different sets of handlers */
    const char *says;    /* NULL, or a part of the message with which it must be caught */
    const char *schema;  /* SQL run after the migration: triggers that break things */
    uint64_t first_seed; /* where the search begins; 0 = where all do. For what few seeds show: it must still be found */
};

enum simulated_store { SIMULATED_SQLITE, SIMULATED_POSTGRES };

struct simulation_options {
    enum simulated_store store;
    uint64_t seed;
    uint64_t skew; /* of the wall clocks */
    int64_t steps; /* of the scheduler, before the end is awaited */
    bool verbose;
    const struct mutant *mutant; /* or NULL */
};

struct simulation_result {
    enum invariant broken; /* INVARIANT_NONE: all held */
    int64_t step;
    char what[BROKEN_MAX];
    uint64_t trace; /* hash over every observed transition */
    size_t items;
    size_t transitions;
    size_t crashes;
    size_t faults; /* of the store */
    size_t asks;   /* waits that a signal has ended itself (asks.c) */
    bool tampered;
};

void simulation_run(const struct simulation_options *options, struct simulation_result *ret_result);

/* --- the model of one workflow with states (states.c) --- */

struct model_machine {
    bool is_known; /* its step is on record, or runs */
    char state[STEP_ID_MAX + 1];
    struct scripted_variables variables;
    int64_t note;                          /* a variable that only persons set */
    int action;                            /* the number of the last one on record */
    int answers;                           /* those of handlers among them */
    int failures;                          /* attempts of the state */
    bool is_retry, is_done, has_failed;    /* the last answer */
    char awaits[SIGNAL_KEPT_NAME_MAX + 1]; /* "" = no signal; until the answer of the handler that gets it */
    int64_t wait_due_us;                   /* store time; 0 = none */
    int sent[STATE_SIGNALS], consumed[STATE_SIGNALS];
    /* The row of the step. */
    bool has_row, has_output;
    char row_state[STEP_ID_MAX + 1], row_status[16];
    char row_signal[SIGNAL_KEPT_NAME_MAX + 1], row_awaits[SIGNAL_KEPT_NAME_MAX + 1]; /* of the step; of the machine */
    struct scripted_variables row_variables, row_output;
    int64_t row_note, row_due_us;
    /* In the call that is being looked at. */
    int64_t batch;
    int consumed_now;
    int64_t consumed_data;
    bool is_answered, begins_wait; /* a handler has answered */
    char consumed_name[SIGNAL_KEPT_NAME_MAX + 1];
    char ended_wait[SIGNAL_KEPT_NAME_MAX + 1];
    int64_t ended_wait_due_us;
};
/* The update that is under way. */
struct asked_update {
    char id[UUID_TEXT_MAX]; /* "" = none */
    const char *state;      /* or NULL */
    bool has_note;
    int64_t note;
};

/* --- the model of one item (observer.c) --- */

enum item_place { PLACE_LIVE, PLACE_ENDED, PLACE_PURGED, PLACE_VANISHED };

struct model_item {
    char id[UUID_TEXT_MAX];
    enum item_place place;
    enum item_state state;
    int workspace; /* index */
    int64_t lane_id;
    int64_t node_id;
    int64_t fence;
    int phase;       /* 0 runnable, 1 delayed, 2 held, 3 parked */
    bool has_reason; /* the row has what it waits for */
    char waiting_for[16];
    char workflow[16];         /* of fleets with children */
    unsigned needs;            /* the handlers; of fleets with different sets */
    int64_t woken_by_children; /* in the call with this number */
    int64_t rank;
    int64_t due_at;
    int64_t run_at;
    int priority;
    int starts_refused, deferrals, handovers;
    int64_t changed_us;     /* true time */
    int64_t entered;        /* change number of its enqueueing: the order among equal ranks */
    int64_t runnable_since; /* change number with which it became runnable the last time */
    bool has_row;           /* in the queue */
    bool is_inserted_again; /* by a repeated request, whose transaction finds its end and removes the row */
    bool acknowledged;
    bool cancel_asked;
    bool wake_asked;
    int64_t finished_at;
    char error_code[ERROR_CODE_MAX + 1];
    char key[KEY_LENGTH]; /* idempotency key, "" = none, and that of a retry */
    int mode_key;         /* the key of its workspace, or of the execution that it is a retry of; -1 = none with modes */
    bool is_retry;
    bool is_scheduled; /* a schedule has started it */
    bool was_released; /* by an operator, before its time */
    size_t retry;      /* index + 1 of the last retry of it, 0 = none */
    /* The events that must be on record: how often each was observed. A release or a deferral for the same reason as the
     * one before is on record once: an engine that is away for hours is probed every few seconds. */
    int claims, put_backs, releases, hand_overs, take_overs, give_backs;
    int recorded_put_backs, recorded_releases, recorded_hand_overs, recorded_give_backs;
    /* Each park is over by one wake or by one end. */
    int parks, wakes, ends_of_parked;
    int recorded_parks, recorded_wakes;
    int run_place;       /* of the node that it was assigned to first, since it was pending; -1 = none, or not known */
    struct story *story; /* what was seen of it (story.c) */
    struct model_machine machine;
};

/* A key whose requests have modes (keys.c). */
struct model_key {
    char id[UUID_TEXT_MAX]; /* the execution that it names, "" = none */
    int64_t first_us;       /* of a debounce: its first request; 0 = it is no debounce */
    bool is_disturbed;      /* an operator has made or hidden an active execution; until none is active */
    bool is_touched;        /* since the last check */
};

/* The effect that a request must have. */
struct expected_enqueue {
    const struct enqueue_request *request;
    int key; /* of its workspace, -1 = without a mode: nothing is expected */
    int workspace;
    bool is_new;
    char answer[UUID_TEXT_MAX];
    char replaces[UUID_TEXT_MAX]; /* "" = none */
    int64_t run_at_us;            /* of a new one */
    bool is_replaced_again;       /* by a later request of the set */
};

struct model_workspace {
    int64_t row_id;
    char name[WORKSPACE_NAME_MAX + 1];
    char plan[PLAN_NAME_MAX + 1];
    int64_t own_max;   /* 0 = as the plan says */
    int64_t slots_max; /* as the row says */
    int weight;
    bool paused;
    int64_t held; /* CLAIMED and DISPATCHED rows */
    struct model_key keys[MODE_KEYS];
};

enum { LANES_MOST = WORKSPACES_MOST * POOLS_MOST * HANDLER_NEEDS };
struct model_lane {
    int64_t row_id;
    int workspace;
    int group;
    int pool;
    unsigned needs; /* the handlers */
    int64_t runnable;
    int64_t waiting;
    int64_t parked;
    int64_t held;
    int64_t ready_since;            /* change number; 0 = it is not ready */
    int64_t idle_since_us;          /* promptness.c: ready since then, and no claim in its group */
    int64_t last_claim_us;          /* true time: of any item of the pool, by a node that can serve this lane */
    int64_t last_take_over_us;      /* likewise */
    int64_t claimed;                /* by the call that is being looked at */
    int64_t passed_now;             /* likewise: items of other workspaces, by nodes that can serve this lane */
    const struct model_item *worst; /* of these, the last in order */
    int64_t passed_over;            /* the sum of these while this one was ready */
};

/* --- nodes (world.c) --- */

enum node_loop { LOOP_DISPATCH, LOOP_RECORD, LOOP_HEARTBEAT, LOOP_MAINTENANCE, LOOP_ENGINE, LOOP_COUNT };
enum node_life { NODE_ABSENT, NODE_ALIVE, NODE_ASLEEP, NODE_LEAVING };

struct simulated_node {
    struct simulation *simulation;
    int index;
    enum node_life life;
    char name[32]; /* "n2.1": slot and generation */
    int generation;
    int group;
    int place; /* where its engine runs executions; of a mixed fleet another one after some restarts */
    struct clock clock;
    int64_t wall_skew_us;
    struct uuid_source uuids;
    struct store *store;
    struct engine *engine;
    struct node *node;
    struct event_bus events;
    int64_t due_us[LOOP_COUNT];
    enum desired_state desired_state; /* what an operator has set and nobody took back */
    int64_t wakes_at_us;              /* NODE_ASLEEP */
    bool died;                        /* inside the call that runs now */
    bool busy[LOOP_COUNT];            /* loops that are inside a call now: a thread of the node each */
    int depth;                        /* how many of them */
    int64_t steady_since_us;          /* promptness.c: able to claim since then */
    unsigned woken;                   /* bits of the loops that were woken and have not run since */
    int64_t news_seen_epoch;          /* of its last round as the scheduler ... */
    int64_t news_seen;                /* ... and the number of the last change that this round could read */
    int64_t nodes_seen; /* likewise, of the round before: a round reads what the news of that have announced */
    bool frozen;        /* the whole process is stopped inside a call, not only the thread */
    int machine;        /* PostgreSQL only: on SQLite all are on one */
    unsigned handlers;  /* that it has now; the record follows */
    char handlers_text[HANDLERS_TEXT_MAX];
    struct look_at_schedule looks[SCHEDULES_SIMULATED];
};

/* A registration of a node, for what a machine can show of its processes. */
struct simulated_life {
    int64_t id;           /* of its row */
    int node, generation; /* of its owner */
    int machine;
    bool is_over;      /* the process is gone ... */
    int64_t keeper_us; /* ... and its keeper from then on (boot time) */
    int pool;
    unsigned handlers; /* on record */
    bool is_listed;    /* its row is neither dead nor stopped */
};

struct profile {
    enum scripted_kind kinds[GROUPS_MOST]; /* of the engine of each group */
    bool is_mixed; /* one group with nodes of both engines and two namespaces, which change with restarts; else each group
                      has one place, and definitions have steps */
    int nodes, workspaces, groups;
    struct scripted_plan plan;
    /* Chances per ten thousand scheduler steps, or store calls. */
    int enqueue, act, crash, pause, stop, cut, jump, reboot;
    int store_fails, store_unknown, dies_in_call, sleeps_in_call;
    int machines, clock_step, hang_up; /* PostgreSQL only */
    int64_t pause_most_us;
    int batch_most;
    int64_t lease_us;
    int starts_max;
    size_t room;
    bool parks;                 /* engines inside of nodes park executions with waiting steps */
    bool is_hosted;             /* every other node has no threads: a host calls node_step(), one call for all loops */
    bool is_keyed;              /* clients use key modes */
    bool is_scheduled;          /* there are schedules, and the clocks change */
    bool has_states;            /* some executions are of a workflow with states */
    bool has_children;          /* some executions start others */
    int64_t child_part;         /* so many of a step get their rows with the first part of its plan */
    bool has_sets;              /* workflows need different handlers, and nodes have different ones */
    unsigned homes[NODES_MOST]; /* the handlers of each node when all is calm */
    bool exclusive;             /* dispatch.exclusive: nodes claim only while they hold the lock */
    int64_t retention_us;
};

struct simulation {
    struct simulation_options options;
    struct simulation_result *result;
    struct random random; /* the scheduler's and the workload's */
    struct random skew;   /* the wall clocks' */
    struct profile profile;
    char folder[64];
    char path[96];
    char database[32]; /* on the server */
    int64_t boot_us;   /* true time; goes on over a reboot */
    enum season season;
    int64_t wall_start_us;   /* wall time of boot_us = 0 */
    int64_t wall_error_us;   /* of all wall clocks alike: what the store takes for the time after a reboot */
    int64_t server_error_us; /* of the server's clock */
    struct simulated_life lives[LIVES_MOST];
    size_t life_count;
    int boots;
    char boot_id[24];
    int64_t step;
    bool calm;
    int64_t calm_since_us;
    int64_t last_death_us; /* of a node */
    struct clock clock;    /* of those outside */
    struct uuid_source uuids;
    struct store *outside;
    struct scripted_world *engines[PLACES_MOST]; /* by place */
    int place_count;
    struct simulated_node nodes[NODES_MOST];
    /* The actor and its act at this moment, for the observer. */
    int actor;
    const char *verb;
    const struct record *records;
    size_t record_count;
    int depth;
    bool purging;
    char last_note[160];
    /* The observer's. */
    sqlite3 *reader;
    PGconn *reader_of_server;
    struct question *read_changes;
    struct question *read_counters;
    struct question *read_lanes;
    struct question *read_group;
    struct question *read_workflow; /* of fleets with children */
    int64_t changes_seen;
    int64_t observed_from; /* the number of the last change before the call that is being looked at */
    int64_t fence_most;
    struct model_item *items;
    size_t item_count;
    size_t item_capacity;
    uint32_t *buckets;
    size_t bucket_count;
    struct model_workspace workspaces[WORKSPACES_MOST];
    struct model_lane lanes[LANES_MOST];
    size_t lane_count;
    int64_t handlers_changed; /* the number of the last change of what nodes can serve */
    bool is_cut_short;        /* the store has not carried out each assignment of the round */
    bool group_paused[GROUPS_MOST];
    bool queue_paused;
    int64_t plan_max[4];
    int plan_weight[4];
    /* The enqueue that is under way, and the time of the store before it (keys.c). */
    struct expected_enqueue expected[SET_MOST];
    size_t expected_count;
    int64_t expected_at_us;
    /* schedules.c */
    struct model_schedule schedules[SCHEDULES_SIMULATED];
    struct model_firing *firings;
    size_t firing_count, firing_capacity;
    bool timed_is_disabled; /* the workflow that schedules start */
    bool schedules_are_over;
    struct expected_schedule expected_schedule;
    struct expected_schedule expected_settlements[SCHEDULES_SIMULATED];
    struct asked_update asked_update;
    /* children.c */
    struct model_family *families;
    size_t family_count, family_capacity;
    bool families_touched;
};

/* --- world.c --- */

/* Below `per_ten_thousand` of ten thousand draws. */
bool drawn(struct simulation *simulation, int per_ten_thousand);
int64_t draw(struct simulation *simulation, int64_t below);
/* Lets one loop of one node run, or time pass. Loops that are inside a call are left alone: they are threads that wait. */
void world_step(struct simulation *simulation);
/* The node dies now, wherever it is. Its memory goes when its call has returned. */
void world_kill(struct simulation *simulation, struct simulated_node *node);
void world_wake_nodes(struct simulation *simulation);
/* The notes of the engines on the execution, or NULL. Where it runs or has run, before where its starts were refused. */
const struct scripted_entry *world_engine_entry(const struct simulation *simulation, const char *id);
/* A client has ended the wait of the execution before its time. */
void world_end_wait(const struct simulation *simulation, const char *id);
/* The pool of the node. */
int world_pool(const struct simulated_node *node);
/* Runs of the item, whatever becomes of its node, go on until the engine ends them. */
bool world_outlives_nodes(const struct simulation *simulation, const struct model_item *item);
/* Notes the first broken invariant; the run ends. */
void fail(struct simulation *simulation, enum invariant invariant, const char *format, ...) WEIR_PRINTF(3, 4);
bool failed(const struct simulation *simulation);
void say(struct simulation *simulation, const char *format, ...) WEIR_PRINTF(2, 3);

/* --- file.c --- */

/* Makes the folder and in it the store, migrated and observed, as new. Needs the clock of those outside at its start. */
void file_make(struct simulation *simulation);
void file_remove(const struct simulation *simulation);
/* Rows of children, and those of nodes, are observed as well from now on. */
void file_observe_children(const struct simulation *simulation);
void file_observe_nodes(const struct simulation *simulation);
/* SQL on a file, by a connection of its own. */
void file_execute(const char *path, const char *sql);

/* --- server.c --- */

/* The database of this run, and its clock. */
void server_make(struct simulation *simulation);
void server_remove(struct simulation *simulation);
/* Stops the server of this process, if it has one. */
void server_end(void);
/* The store as a node names it, which has a role of its own; OUTSIDE: those outside. */
void server_url(const struct simulation *simulation, int node, char *to, size_t size);
/* The server's clock shows this. */
void server_set_clock(int64_t now_us);
/* Waits until the server has noticed that the connections of a node are gone. */
void server_await_silence(struct simulation *simulation, int node);
/* Ends the connections of a node, as a failing network or an operator does. */
void server_hang_up(struct simulation *simulation, int node);

/* --- reader.c --- */

struct question;
/* Aborts when the statement is wrong; `sql` must outlive it. */
struct question *question_prepare(struct simulation *simulation, const char *sql);
void question_ask(struct question *question);
void question_ask_number(struct question *question, int64_t number);
void question_ask_text(struct question *question, const char *text);
bool question_next(struct question *question);
/* Of the row; text lives until the next row is asked for. NULL for SQL NULL. */
bool question_is_null(const struct question *question, int column);
int64_t question_number(const struct question *question, int column);
const char *question_text(const struct question *question, int column);
/* Keeps the statement. */
void question_end(struct question *question);
void question_close(struct question *question);

/* --- profile.c --- */

void profile_draw(struct simulation *simulation);

/* --- workload.c --- */

extern const char *const plan_names[4];
extern const char *const group_names[GROUPS_MOST];
void workload_prepare(struct simulation *simulation);
void workload_step(struct simulation *simulation);
/* Takes back every act that holds work back. */
void workload_settle(struct simulation *simulation);

/* --- schedule_times.c --- */

const char *expression_text(int expression);
/* When the clocks of the season change. */
int64_t season_change_us(enum season season);
/* The first time of the schedule from this one on, TIME_NEVER: there is none soon. */
int64_t schedule_time_from(const struct model_schedule *schedule, int64_t from_us);

/* --- schedules.c --- */

void schedules_prepare(struct simulation *simulation);
void schedules_act(struct simulation *simulation);
void schedules_settle(struct simulation *simulation);
/* They have not been paused for the end of the run. */
bool schedules_go_on(const struct simulation *simulation);

/* --- schedule_checks.c --- */

/* Before a call that changes the schedule: by itself it changes nothing. */
void schedules_begin_act(struct simulation *simulation, struct model_schedule *schedule);
void schedules_expect_trigger(struct simulation *simulation, struct model_schedule *schedule);
/* Behind the acts of operators. */
void schedules_check_set(struct simulation *simulation, const struct model_schedule *schedule);
void schedules_check_pause(struct simulation *simulation, const struct model_schedule *schedule, bool paused);
/* A node has read the schedules that are due. */
void schedules_note_look(struct simulation *simulation, const struct due_schedules *due);
/* Before and behind its advance of one, and its settlement of firings. */
void schedules_expect_advance(struct simulation *simulation, const struct schedule_advance *advance);
void schedules_check(struct simulation *simulation, enum weir_status status);
void schedules_expect_settlement(struct simulation *simulation, const struct schedule_outcome *outcomes, size_t count);
void schedules_check_settlement(struct simulation *simulation, enum weir_status status);
void schedules_note_schedule(struct simulation *simulation, const struct change *change);
void schedules_note_firing(struct simulation *simulation, const struct change *change);
void schedules_note_item(struct simulation *simulation, struct model_item *item);
/* A node may cancel it for a newer time of its schedule. */
bool schedules_may_cancel(struct simulation *simulation, const struct model_item *item);
/* After a calm step: nothing that is due waits for longer than the duty sleeps. */
void schedules_check_promptness(struct simulation *simulation);

/* --- states.c --- */

void states_prepare(struct simulation *simulation);
void states_act(struct simulation *simulation);
/* --- steps that wait for a signal (asks.c) --- */

#define ASKED "answer"
/* Sends the signal to an execution, and compares the rows before and behind it. */
void asks_act(struct simulation *simulation);

/* A signal for a machine whose wait is on record, and which is not parked yet. */
void states_signal_early(struct simulation *simulation);
/* Each wait gets its cause. */
void states_settle(struct simulation *simulation);
void states_note_action(struct simulation *simulation, const struct change *change);
void states_note_row(struct simulation *simulation, const struct change *change);
void states_note_signal(struct simulation *simulation, const struct change *change);
/* After each call, of an item that it has touched. */
void check_states(struct simulation *simulation, struct model_item *item);
/* A handler that runs under the claim of the item was given its machine. `item` may be NULL. */
void check_handler(struct simulation *simulation, const struct scripted_entry *entry, struct model_item *item);
/* At the end: each recorded answer is an action. */
void check_actions(struct simulation *simulation);

/* --- keys.c --- */

struct request_texts {
    char key[KEY_LENGTH];
    char params[32];
    char id[UUID_TEXT_MAX];
};
/* Gives the request a key with a mode; with `once` a request without a mode for such a key. */
void keys_draw(struct simulation *simulation, struct enqueue_request *request, struct request_texts *texts, bool once);
/* Before the call: the effect that each request of the set must have. */
void keys_expect(struct simulation *simulation, const struct enqueue_request *requests, size_t count);
/* After the call: it had this effect or, when it failed, perhaps none. */
void keys_check(struct simulation *simulation, enum weir_status status, const struct enqueue_result *results);
/* The item has appeared in the queue; `retry_of` is NULL or the execution that it is a retry of. */
void keys_note_item(struct simulation *simulation, struct model_item *item, const char *retry_of);
/* The item has moved or ended. */
void keys_note_move(struct simulation *simulation, const struct model_item *item);
void keys_note_end(struct simulation *simulation, const struct model_item *item);
void keys_note_purge(struct simulation *simulation, const struct model_item *item);
/* After each call: the executions of each key that was touched. */
void check_keys(struct simulation *simulation);

/* --- faulty_store.c --- */

/* Puts the faulty driver before the real one of this handle and of all that are opened from it. */
void faulty_store_wrap(struct simulation *simulation, struct store *store);
/* No simulation owns the wrapped handles any more. */
void faulty_store_forget(void);

/* --- observer.c --- */

void observer_open(struct simulation *simulation);
void observer_close(struct simulation *simulation);
/* Reads what has changed since the last call, as done by `actor`, and checks each change. */
void observe(struct simulation *simulation);
/* The workspace with this id, or -1. */
int observer_workspace(const struct simulation *simulation, int64_t row_id);
/* The lane that the item is in. */
const struct model_lane *observer_lane(const struct simulation *simulation, const struct model_item *item);
struct model_item *observer_find(struct simulation *simulation, const char *id);
void observer_acknowledge(struct simulation *simulation, const char *id, const char *key, bool duplicate);
int64_t observer_store_time(struct simulation *simulation);
void trace_mix(struct simulation *simulation, const char *text, int64_t number);

/* --- invariants.c --- */

/* The limit of plan and override, by the settings of clients. */
int64_t cap_of(const struct simulation *simulation, const struct model_workspace *workspace);
void check_counters(struct simulation *simulation);
void check_engine(struct simulation *simulation);
/* At the moment at which `item` is assigned to a node under `fence`; the held rows of its workspace already count it. */
void check_claim(struct simulation *simulation, const struct model_item *item, int64_t node_id, int64_t fence);
void note_take_over(struct simulation *simulation, const struct model_item *item, int64_t node_id);
/* The node that the item is assigned to, or that takes it over: its engine can run it, or ask where it was started. */
void check_place(struct simulation *simulation, struct model_item *item, int64_t node_id);
void check_order(struct simulation *simulation);
void check_end(struct simulation *simulation, const struct model_item *item);
void check_store(struct simulation *simulation);
void check_everything_ended(struct simulation *simulation);
/* The time stamps of what has ended stand in order. */
void check_times(struct simulation *simulation);
bool lane_is_ready(const struct simulation *simulation, const struct model_lane *lane);

/* --- story.c --- */

/* One move of the item, in the words of execution_events. */
void story_note(struct model_item *item, const char *event, int64_t node_id, int64_t fence);
/* The end in `to`, before the item shows it. */
void story_note_end(struct simulation *simulation, struct model_item *item, enum item_state to, bool is_poison);
void story_close(struct model_item *item);
/* Of all that has ended. */
void check_story(struct simulation *simulation);

/* --- promptness.c --- */

void promptness_begin(struct simulation *simulation);
/* After each calm step: nothing that a node may claim, promote or take over waits for longer than a few polls. */
void check_promptness(struct simulation *simulation);

#endif
