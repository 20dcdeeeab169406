/* An engine for tests: it follows a script or a seed, in virtual time, and keeps a ledger of the runs.
 *
 * A scripted world is where executions run; each node gets a handle on it (an engine as engine.h describes). Two kinds:
 *
 *   SCRIPTED_IN_NODE  like in_process: a run lives and dies with the handle of its node. scripted_crash() is the death of
 * the node; a node that is paused keeps its runs until its lease ends, then the keeper kills them
 *                     (scripted_world_pass_time()). Steps are reported, and each waits for `recorded` before the next.
 *   SCRIPTED_SHARED   like temporal: runs belong to the world and outlive every node. A second start with the same id is
 *                     "already started" and answered REPORT_STARTED; there is never a second run of an id, not even after
 *                     the first one has ended.
 *
 * A shared world may be given a target, as a service and a namespace have (scripted_world_locate()): then its handles are
 * engines of that name. A world without a target stands for an engine inside of nodes.
 *
 * A definition with `states` (SCRIPTED_IN_NODE) runs as one step, as docs/design/states.md describes (machine.c). The
 * answers of its handlers are drawn from the world's random numbers: next states, delays, waits for signals, retries,
 * failures, the end. A calm world goes to the end. Of the outcome only the start and the cancel count.
 *
 * A definition with `start` steps (SCRIPTED_IN_NODE) plans children, as docs/design/children.md describes (children.c), if
 * the test gives plans (scripted_world_plan()). Handlers of states then start some as well. A step with children that has
 * ended does not end its execution, so the outcome decides the end.
 *
 * Each start has an outcome: pushed by scripted_world_push() in the order of the starts, else drawn from the plan. The
 * engine reports only true facts. It refuses only an execution that does not run, and reports "unreachable" only when that
 * request was not sent; an earlier request of the same id may have arrived.
 *
 * Tests compare the store with the ledger. The ledger stores the first violation of its own rules as text in `broken`: two
 * open runs of an id, a finished step run again, two runs of a step at once, a run after a durable end, a start whose
 * definition needs the other kind of engine.
 *
 * One thread. No waiting: engine_step() executes the events that are due on the world's boot clock. Owner: the world
 * outlives its handles.
 */
#ifndef WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_SCRIPTED_H
#define WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_SCRIPTED_H

#include "base/random.h"
#include "engine/engine.h"

enum scripted_kind { SCRIPTED_IN_NODE, SCRIPTED_SHARED };

/* --- outcomes of starts --- */

enum scripted_answer {
    SCRIPTED_ACCEPT,          /* it runs, and the engine reports STARTED */
    SCRIPTED_REFUSE,          /* it does not run; may be tried again; spends an attempt */
    SCRIPTED_DEFER,           /* it does not run; put back without an attempt for `defer_us` */
    SCRIPTED_NO_HANDLER,      /* likewise, because the node lacks a handler (scripted_set_handlers()) */
    SCRIPTED_REFUSE_FOR_GOOD, /* it does not run and never will */
    SCRIPTED_UNREACHABLE,     /* this request was not sent */
    SCRIPTED_LOSE_REQUEST,    /* it was sent and never arrived: nothing runs, no answer */
    SCRIPTED_LOSE_ANSWER      /* it runs, no answer */
};

struct scripted_outcome {
    enum scripted_answer answer;
    enum end_state end; /* how the run ends */
    bool says_unknown;  /* LOSE_*: after answer_us the engine reports UNKNOWN instead of nothing */
    bool answers_twice;
    bool ends_before_answer; /* the end is reported before the start is (needs a short run) */
    bool ends_twice;         /* the end is reported a second time */
    bool end_carries_step;   /* the last step's record travels with the end */
    bool never_ends;         /* until it is cancelled, or the world is calmed */
    int steps;               /* SCRIPTED_IN_NODE; at most SCRIPTED_STEPS_MOST; of the id's first run, later ones keep it */
    int64_t arrive_us;       /* until the request reaches the engine; SHARED: it arrives even if its sender has died */
    int64_t answer_us;       /* from there to the answer */
    int64_t run_us;          /* of the whole run */
    int64_t cancel_us;       /* from a cancel to its effect; TIME_NEVER: none until the world is calmed */
    int64_t defer_us;
    bool parks; /* SCRIPTED_IN_NODE: the first step that ends waits for its next attempt, without a slot; a run without
                   steps waits in the place of its end. Not before its start is answered, and not as a suspect */
    int64_t park_us;
};

/* Chances per thousand starts, and the longest times that are drawn. All zero: every start is accepted and ends COMPLETED.
 */
struct scripted_plan {
    int refuse, defer, refuse_for_good, unreachable, lose_request, lose_answer;
    int fail, never_end, answer_twice, end_twice, end_before_answer, ignore_cancel, late;
    int park;
    int steps_most;
    int64_t answer_most_us; /* an ordinary answer; a `late` one takes up to late_most_us */
    int64_t late_most_us;
    int64_t run_most_us;
    int64_t cancel_most_us;
    int64_t park_most_us;
};

enum { SCRIPTED_STEPS_MOST = 8 };

/* --- workflows with states (machine.c) --- */

/* The variables that a handler of a state reads and writes, beside variables that it leaves alone. */
struct scripted_variables {
    int64_t count; /* answers */
    int64_t sum;   /* scripted_sum() over the numbers of the actions */
    int64_t got;   /* the sum of the data of the signals that were used up */
};
int64_t scripted_sum(int64_t sum, int64_t action);

/* The last run of a handler. */
struct scripted_action {
    bool is_open; /* it has not answered, and was not killed */
    int64_t fence;
    int number;
    char state[STEP_ID_MAX + 1];
    struct scripted_variables variables;
};

/* --- the ledger --- */

struct scripted_step_entry {
    int begun; /* attempts that really began */
    int attempt_last;
    int open;         /* attempts under way now: at most one */
    int64_t begin_us; /* of the last attempt, boot clock */
    int64_t end_us;
    bool completed_durably; /* the store has acknowledged its result */
};

struct scripted_entry {
    char id[UUID_TEXT_MAX];
    char workspace[WORKSPACE_NAME_MAX + 1];
    int starts_requested; /* engine_start() calls */
    int runs_begun;
    int runs_open;            /* now: at most one */
    int64_t fence_begun;      /* of the last run */
    bool ended;               /* the last run came to its end (not: was killed) */
    enum end_state end;       /* how */
    int64_t end_fence;        /* under which fence; 0 in a shared world, where any claim may report it */
    bool ended_durably;       /* the store has acknowledged the end */
    int64_t durable_fence;    /* under this fence */
    int64_t parked_until_us;  /* boot clock: the end of the wait whose park was reported last ... */
    int64_t waits_until_us;   /* ... and of the last one that the store has acknowledged */
    bool began_while_waiting; /* a run began before that */
    int refusals;             /* definite ones that spend an attempt */
    bool refused_for_good;    /* one of them was permanent */
    int on_the_way;           /* requests that are sent and not arrived: no refusal while there is one */
    int steps;                /* -1 until the first run */
    struct scripted_step_entry step[SCRIPTED_STEPS_MOST];
    struct scripted_action action; /* of a workflow with states, whose step is step[0] */
    int answers;                   /* of its handlers */
    int answers_durable;           /* those of which the store has acknowledged the record */
};

/* --- the world --- */

struct scripted_world;

/* `clock` gives the boot clock; `plan` is copied, NULL = all zero. NULL when out of memory. */
struct scripted_world *scripted_world_open(enum scripted_kind kind, const struct clock *clock,
                                           const struct scripted_plan *plan, uint64_t seed);
/* SCRIPTED_SHARED, before its first handle: where its runs are. */
void scripted_world_locate(struct scripted_world *world, const struct engine_target *target);
/* Takes NULL. All handles are closed before. */
void scripted_world_close(struct scripted_world *world);
/* The plan of the children of a step, as the report of its wait brings it (engine/in_process/step_children.c): malloc'ed
 * JSON text; NULL: a list without items. With ret_awaited it is a list of plans, for an action of the execution: the place
 * of the one that the next state waits for, or -1. */
typedef char *(*scripted_planner)(void *context, const char *id, int *ret_awaited);
void scripted_world_plan(struct scripted_world *world, scripted_planner planner, void *context);
/* Every other wait for the next attempt of a step is on record as one for this signal, too. The engine itself ends no wait
 * by it. `name` must outlive the world. */
void scripted_world_ask(struct scripted_world *world, const char *name);
/* The next start without a pushed outcome gets this one. */
void scripted_world_push(struct scripted_world *world, const struct scripted_outcome *outcome);
/* From now on: no faults. Every start is accepted, endless runs end, cancels have their effect. */
void scripted_world_calm(struct scripted_world *world);
/* No start reaches the engine before this time (boot clock): every one is answered REPORT_UNREACHABLE. 0 = reachable. */
void scripted_world_cut(struct scripted_world *world, int64_t until_us);
/* Call after each move of the clock: kills the runs under an ended lease, and continues the runs of a shared world.
 * Returns when something happens next (boot clock; TIME_NEVER: nothing). */
int64_t scripted_world_pass_time(struct scripted_world *world);
/* SCRIPTED_IN_NODE: the machine of the nodes restarts. The runs under a slow keeper (scripted_crash()) are gone at once.
 * The test crashes the living nodes before. */
void scripted_world_reboot(struct scripted_world *world);
/* The id's entry, or NULL when it was never started. */
const struct scripted_entry *scripted_world_entry(const struct scripted_world *world, const char *id);
/* The wait of the id was ended from outside: a run may begin before its time. */
void scripted_world_end_wait(struct scripted_world *world, const char *id);
/* All entries, one after the other, in the order of their first start; NULL after the last. */
const struct scripted_entry *scripted_world_entry_at(const struct scripted_world *world, size_t index);
/* Open runs of a workspace now; NULL = of all. */
int scripted_world_open_runs(const struct scripted_world *world, const char *workspace);
/* The first rule of the ledger that was broken, or NULL. */
const char *scripted_world_broken(const struct scripted_world *world);

/* --- a node's handle --- */

/* `room` executions at once at most. */
WEIR_MUST_CHECK enum weir_status scripted_open(struct scripted_world *world, size_t room, struct engine **ret_engine,
                                               struct weir_error *error);
/* When engine_step() has something to do (boot clock; TIME_NEVER: nothing is ahead). */
int64_t scripted_next(const struct engine *engine);
/* No start of this node reaches the engine before this time. */
void scripted_cut(struct engine *engine, int64_t until_us);
/* The node has these handlers from now on, a JSON array of names. It refuses to start what needs others, unless that runs
 * already. Without this call it has all. */
void scripted_set_handlers(struct engine *engine, const char *names);
/* The node dies: from now on the handle executes and reports nothing, and only engine_close() may follow. Its runs
 * (SCRIPTED_IN_NODE) die now, or, with `linger`, when the lease ends, as under a slow keeper. */
void scripted_crash(struct engine *engine, bool linger);

#endif
