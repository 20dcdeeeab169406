/* The seam to the engines, which run executions: `in_process`, `temporal`, and a scripted one for tests.
 *
 * An engine never blocks its caller and never touches the queue. It gets orders to start and to cancel; all its
 * results come back as reports, in any order, late, or twice: started, refused, unreachable, unknown, a step's progress,
 * the end. The recorder writes reports to the store in sets and reports durable ones to the engine (`recorded`). So the
 * engine being slow holds up nothing, and no transaction is open during a call to it.
 *
 * Every start has the same ids: execution id, workflow id (`execution-<id>`, or the one that the definition makes
 * of the params), request id = execution id.
 * A service that has these ids already is a start: REPORT_STARTED.
 *
 * Threads: start/cancel/signal/recorded/free_capacity may be called from any thread. Reports come from any thread,
 * and never from inside a call of the dispatcher's or recorder's own stack unless the engine is driven by engine_step()
 * (then: from there). Owner: the opener of the engine closes it, after engine_stop().
 */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/uuid.h"
#include "queue/engine_target.h"
#include "queue/item.h"
#include "queue/limits.h"
#include "queue/log_lines.h"
#include "queue/signal.h"
#include "queue/step.h"
#include "weir/status.h"

/* The abilities of the engine, so that no code guesses them from its name. */
enum engine_feature {
    ENGINE_DIES_WITH_NODE = 1 << 0, /* runs inside the node: a dead node's executions must be started again elsewhere */
    ENGINE_RECORDS_STEPS = 1 << 1,  /* reports steps, and waits for `recorded` before it goes on */
    ENGINE_SEEKS_ENDS = 1 << 2      /* must poll for ends, some sooner than the rest: needs engine_want_slots() */
};

/* --- start --- */

struct engine_start {
    char id[UUID_TEXT_MAX];
    const char *node; /* the name of this node, for messages; NULL = unknown */
    const char *workspace;
    int weight; /* of the workspace, for its share of the resources inside the node; 0 stands for 1 */
    const char *workflow;
    int version;
    int64_t definition_id;  /* key for the engine's cache of read definitions */
    const char *definition; /* canonical JSON text of that version */
    const char *params;     /* JSON object as it was enqueued, byte for byte */
    size_t params_length;
    int64_t fence;
    int start_number;       /* from 1 */
    int interruptions;      /* handovers and give-backs since the last park: runs of it may be without a record */
    bool is_suspect;        /* steps of it ran at deaths of nodes, and none has ended since: it is not parked */
    bool lost_a_node;       /* it was handed over before: starts of handlers are on record, to show who ran at a death */
    int64_t running_for_us; /* since it was first dispatched; 0 the first time. For the execution's own timeout */
    int64_t age_us;         /* since it was enqueued: no start of it is older */
    int64_t store_ahead_us; /* store time minus this node's boot clock: for the comparison with times that people wrote */
    int priority;           /* as enqueued */
    bool cancel_requested;
    /* The trace context to pass on (base/traceparent.h); NULL = none. With has_step_spans each step passes on the id of its
     * own span in place of the context's: this node exports a span for each. */
    const char *traceparent;
    bool has_step_spans;
    const struct step_record *steps; /* the steps on record from earlier claims */
    size_t step_count;
    const struct signal_record *signals; /* those that no step has consumed, in the order of their numbers */
    size_t signal_count;
    int64_t signals_seen; /* how many signals it had got by then: the highest number, also of a consumed one */
};

/* --- reports --- */

enum report_kind {
    REPORT_STARTED, /* the engine has it (now, or since an earlier start with our ids) */
    REPORT_REFUSED, /* definite: it is not running. See `permanent`, `spends_start`, `delay_us`. When a start comes again
                       while an earlier one of the same id is not answered, only the later one may be refused */
    REPORT_UNREACHABLE, /* definite: not one byte of the start left. Feeds the breaker; spends nothing */
    REPORT_UNKNOWN,     /* it may be running: the slot stays, the same ids are sent again */
    REPORT_STEP,        /* `step` changed; wants an answer by `recorded` */
    REPORT_ENDED,       /* the execution ended in `end_state`; may carry the last `step`; wants an answer by `recorded` */
    REPORT_GIVEN_BACK,  /* stopped before its end because the node stops: another node may have it at once; wants `recorded`
                         */
    REPORT_PARKED,      /* all of it waits on record, for `delay_us` at least: it needs no slot until then, and has left the
                           engine; wants `recorded` */
    REPORT_ENGINE_DOWN, /* of no execution (its id is empty): the service that runs executions cannot be reached; repeated
                           until REPORT_ENGINE_UP. Opens the breaker */
    REPORT_ENGINE_UP,   /* of no execution: it is there again. Closes the breaker */
    REPORT_ENGINE_IMPAIRED, /* of no execution: it starts executions, but ends may be found late (`error`); repeated until
                               REPORT_ENGINE_SOUND. Dispatch goes on */
    REPORT_ENGINE_SOUND,    /* of no execution: that is over */
    REPORT_INTERRUPTED,     /* of no execution: `count` steps were cut short without a fault of theirs (`error`), and run
                               again without having spent an attempt. engine_keeper_pid() may have changed */
    REPORT_SHORTAGE         /* of no execution: the machine lacks the resources for a process (`error`); steps wait */
};

/* The last report of an execution under a claim; the engine keeps it until the answer. */
static inline bool report_is_last(enum report_kind kind)
{
    return kind == REPORT_ENDED || kind == REPORT_GIVEN_BACK || kind == REPORT_PARKED;
}

enum end_state { END_COMPLETED, END_FAILED, END_CANCELLED };

/* Allocated by the engine with report_new(), owned by the sink from engine_report() on. */
struct report {
    struct report *next;   /* for the sink's queue */
    int sends;             /* the sink's own: how many starts had been sent when this was reported */
    int64_t reported_us;   /* the sink's own */
    int64_t pause_us;      /* the sink's own: since the store has refused its record; 0 = it has not */
    int64_t again_us;      /* the sink's own: it is not to be recorded before */
    atomic_bool is_wanted; /* the sink's own: it goes with the next set, because a later report of its execution does */
    enum report_kind kind;
    char id[UUID_TEXT_MAX];
    int64_t fence;
    /* STARTED, STEP: its record may wait a moment for more of the kind. The sink may call engine_free_capacity() meanwhile.
     */
    bool may_wait;
    bool permanent;    /* REFUSED: trying again cannot help */
    bool may_run;      /* UNREACHABLE: an earlier request of this claim may have arrived: it keeps its slot */
    bool spends_start; /* REFUSED: counts against starts_max (false: put back with a delay) */
    int64_t delay_us;  /* REFUSED and put back without counting the start: when to look again; PARKED: until it is due,
                          TIME_NEVER = it waits for a signal alone */
    /* STARTED, STEP: for how long every step that has begun sleeps or waits for a signal. 0 = one of them does something,
     * or waits for its next attempt; TIME_NEVER = until a signal comes. */
    int64_t sleeps_us;
    enum wait_kind waiting_for; /* PARKED */
    int64_t signals_seen;       /* PARKED: the number of the last signal that the engine has got */
    enum end_state end_state;   /* ENDED */
    bool has_step;
    struct step_record step; /* STEP; ENDED when has_step */
    int step_index;          /* handed back by `recorded` */
    int64_t count;           /* INTERRUPTED */
    /* REFUSED, UNREACHABLE, UNKNOWN, ENDED+END_FAILED, ENGINE_DOWN, ENGINE_IMPAIRED, INTERRUPTED,
     * SHORTAGE */
    char error_code[ERROR_CODE_MAX + 1];
    char *error; /* malloc'ed or NULL */
};
/* NULL when out of memory. report_free() takes NULL. */
struct report *report_new(enum report_kind kind, const char *id, int64_t fence);
void report_free(struct report *report);

/* Output that the program or the handler of an attempt wrote. Strings are borrowed for the call. */
struct engine_output {
    const char *execution_id;
    const char *step;
    int attempt;
    int64_t at_us; /* store time */
    enum log_stream stream;
    const char *bytes; /* NULL: the attempt writes no more. This comes before the report of its end */
    size_t length;
    void *call_owner; /* that of an engine_call(); NULL = the attempt is of an execution */
};

/* The progress of an attempt, as its handler has reported it. Strings are borrowed for the call. */
struct engine_progress {
    const char *execution_id;
    const char *step;
    int attempt;
    int64_t fence;
    int64_t at_us;    /* store time */
    int parts;        /* of PROGRESS_PARTS; -1 = unknown */
    const char *text; /* safe UTF-8, at most PROGRESS_TEXT_MAX bytes. NULL: the attempt has ended. Comes once, before the
                         report of the end, and only for an attempt that has reported progress */
    void *call_owner; /* as in engine_output */
};

/* --- calls of handlers for tasks of other nodes --- */

/* One run of a handler outside of every execution: no record, no retry. Strings are copied. */
struct engine_call {
    void *owner; /* the caller's own, and its name for the call */
    const char *execution_id;
    const char *workspace;
    const char *step;
    const char *handler;
    const char *input;       /* JSON text */
    const char *traceparent; /* NULL = none */
    int attempt;
    int64_t fence;
    int64_t timeout_us; /* boot clock; TIME_NEVER = none. For the handler to read: the engine cancels nothing by it */
};

enum engine_call_end {
    ENGINE_CALL_DONE,
    ENGINE_CALL_RETRY,
    ENGINE_CALL_FAILED,
    ENGINE_CALL_DROPPED /* no result: it did not begin, or the handler ended without one after a cancel that moves it */
};

/* Strings are borrowed for the call of the sink. */
struct engine_called {
    void *owner;
    enum engine_call_end end;
    const char *output; /* DONE: JSON text, NULL = null */
    const char *code;   /* RETRY, FAILED; never NULL then */
    const char *error;  /* likewise; may be NULL */
    int64_t delay_us;   /* RETRY: in place of the policy's; < 0 = the policy's */
    /* To be called once with the fate of the result (weir_call_on_recorded()); NULL = none. */
    void (*on_recorded)(void *context, bool is_recorded);
    void *recorded_context;
};

struct report_sink {
    /* Takes ownership; never blocks. */
    void (*report)(void *context, struct report *report);
    void *context;
    /* Copies; never blocks and never fails: what it cannot keep is lost. NULL = nobody reads output. */
    void (*output)(void *context, const struct engine_output *output);
    /* Likewise. NULL = nobody reads progress. */
    void (*progress)(void *context, const struct engine_progress *progress);
    /* The end of an engine_call(), each exactly once. Never blocks. Needed by callers of engine_call() alone. */
    void (*called)(void *context, const struct engine_called *called);
};

/* The answer to a report that wants one. */
struct recorded {
    char id[UUID_TEXT_MAX];
    int64_t fence;
    enum report_kind kind;
    int step_index;
    enum weir_status status; /* WEIR_OK: durable. WEIR_STALE_FENCE or WEIR_EXECUTION_NOT_FOUND: it is not ours any more,
                                stop it without a report. WEIR_INVALID_ARGUMENT: the store refused the value (the step
                                fails). Anything else was retried by the recorder and is never seen here. */
};

/* --- the engine --- */

struct engine;
struct weir_call;
struct weir_handler;

struct engine_operations {
    const char *name; /* "in_process" */
    unsigned features;
    /* Copies its input. Refusals are reports as well; the status is for misuse only. */
    enum weir_status (*start)(struct engine *engine, const struct engine_start *start, struct weir_error *error);
    void (*cancel)(struct engine *engine, const char *id, int64_t fence);
    /* Copies the signal. One may come twice, but never before one with a lower number. May be NULL. */
    void (*signal)(struct engine *engine, const char *id, int64_t fence, const struct signal_record *signal);
    /* Stops the executions of a claim that is lost (lease or fence), without a report. NULL id: everything. */
    void (*abandon)(struct engine *engine, const char *id, int64_t fence);
    void (*recorded)(struct engine *engine, const struct recorded *recorded, size_t count);
    /* More items of this workspace wait for a slot, or none do any more, as far as the node knows. The ends of its
     * executions are polled for before those of other workspaces. Advice: late at times, wrong at times. May be
     * NULL. */
    void (*want_slots)(struct engine *engine, const char *workspace, bool wanted);
    /* The number of starts that the engine accepts now without queueing them (back-pressure). */
    size_t (*free_capacity)(struct engine *engine);
    /* Executions that are started and not yet durably ended. */
    size_t (*running)(struct engine *engine);
    /* The lease of this node, on the boot clock: its steps must be dead by then. Called at each heartbeat. */
    void (*lease)(struct engine *engine, int64_t lease_end_boot_us);
    /* The process that must be gone as well before another node may take over its executions; 0 = none. Any thread. */
    long (*keeper_pid)(const struct engine *engine);
    /* False: the engine does not know its target yet, or not any more, because the service has not answered. Then its node
     * gets no items. REPORT_ENGINE_UP follows when it knows. Absent: inside of the node. Any thread. */
    bool (*target)(struct engine *engine, struct engine_target *ret_target);
    /* Executions that start from now on have the handler, or lack it (in_process/definition_cache.h). Absent: the engine
     * has no handlers. Any thread. */
    enum weir_status (*add_handler)(struct engine *engine, const struct weir_handler *handler, struct weir_error *error);
    enum weir_status (*remove_handler)(struct engine *engine, const char *name, struct weir_error *error);
    /* Runs a handler once; its end goes to `called` of the sink. Absent with add_handler. stop() with `interrupt` cancels
     * all calls as cancel_call() with `moves` does. Any thread. */
    enum weir_status (*call)(struct engine *engine, const struct engine_call *call, struct weir_error *error);
    /* Asks the handler to end; `moves`: its result is for another node to make. No effect when it has ended. Any thread. */
    void (*cancel_call)(struct engine *engine, void *owner, bool moves);
    /* Drives an engine without threads of its own: does the due work and never waits. Returns when it wants to be
     * called again (boot clock; TIME_NEVER: only when its fd is readable). */
    int64_t (*step)(struct engine *engine);
    /* Readable when step() has something to do; -1 when there is none. */
    int (*fd)(struct engine *engine);
    /* Runs step() in threads of the engine's own from now on. */
    enum weir_status (*run_threads)(struct engine *engine, struct weir_error *error);
    /* Takes no more starts. `interrupt`: also stops running executions and gives them back (REPORT_GIVEN_BACK). May be
     * called twice.
     */
    void (*stop)(struct engine *engine, bool interrupt);
    void (*close)(struct engine *engine);
};

/* First member of every engine's own struct. */
struct engine {
    const struct engine_operations *operations;
    struct report_sink sink;
    const struct clock *clock;
    atomic_bool has_lost_report;
    atomic_bool is_bounded; /* engine_bound() was called */
    atomic_size_t running_most;
};

/* The wrappers: each verb once, arguments checked, optional verbs absent = no effect. */
const char *engine_name(const struct engine *engine);
bool engine_has(const struct engine *engine, enum engine_feature feature);
/* Before the first start: where reports go. A sink without a function takes them away: then no thread is in the old one any
 * more, and reports are dropped. Not from inside of a report. */
void engine_set_sink(struct engine *engine, struct report_sink sink);
WEIR_MUST_CHECK enum weir_status engine_start(struct engine *engine, const struct engine_start *start,
                                              struct weir_error *error);
void engine_cancel(struct engine *engine, const char *id, int64_t fence);
void engine_signal(struct engine *engine, const char *id, int64_t fence, const struct signal_record *signal);
/* The share of the call's workspace beside others (queue/fair_queue.h), for a handler that keeps calls in a queue. */
int engine_call_weight(const struct weir_call *call);
/* Answers a call of an execution like weir_give_back(), and no program runs its attempt or will. So another node may begin
 * the step at once, and the execution gives its slot back meanwhile, unless other steps of it are under way. */
void engine_call_unserved(struct weir_call *call);
/* Answers a call of an execution like weir_interrupted(), but the program that ran its attempt has ended it in order, so it
 * is no loss that counts. */
void engine_call_left(struct weir_call *call, const char *error);
void engine_abandon(struct engine *engine, const char *id, int64_t fence);
void engine_recorded(struct engine *engine, const struct recorded *recorded, size_t count);
void engine_want_slots(struct engine *engine, const char *workspace, bool wanted);
size_t engine_free_capacity(struct engine *engine);
/* From now on the engine has free capacity for at most so many executions at once, and never for more than its options
 * allow. Those that run beyond it go on. Any thread. */
void engine_bound(struct engine *engine, size_t running_most);
size_t engine_running(struct engine *engine);
void engine_lease(struct engine *engine, int64_t lease_end_boot_us);
long engine_keeper_pid(const struct engine *engine);
bool engine_target(struct engine *engine, struct engine_target *ret_target);
/* WEIR_MISUSE: the engine has no handlers; else the errors of the engine. */
WEIR_MUST_CHECK enum weir_status engine_add_handler(struct engine *engine, const struct weir_handler *handler,
                                                    struct weir_error *error);
WEIR_MUST_CHECK enum weir_status engine_remove_handler(struct engine *engine, const char *name, struct weir_error *error);
/* WEIR_MISUSE: the engine has no handlers; WEIR_NOT_FOUND: it has none of this name; WEIR_OUT_OF_MEMORY. After an error the
 * sink gets no end. */
WEIR_MUST_CHECK enum weir_status engine_call(struct engine *engine, const struct engine_call *call,
                                             struct weir_error *error);
void engine_cancel_call(struct engine *engine, void *owner, bool moves);
int64_t engine_step(struct engine *engine);
int engine_fd(struct engine *engine);
WEIR_MUST_CHECK enum weir_status engine_run_threads(struct engine *engine, struct weir_error *error);
void engine_stop(struct engine *engine, bool interrupt);
/* Takes NULL. Running executions are stopped without a report. */
void engine_close(struct engine *engine);
/* True once after an order to the engine, or a report of it that no caller asks for again, was lost for want of memory.
 * Then only giving up every claim makes both sides agree again: the node abandons everything, as after a lost lease. */
bool engine_take_lost_report(struct engine *engine);
/* For engines: hands a report to the sink, if there is one. */
void engine_report(struct engine *engine, struct report *report);
/* For engines: passes output to the sink, if it takes any. Any thread. */
void engine_output(struct engine *engine, const struct engine_output *output);
/* For engines: passes progress to the sink, if it takes any. Any thread. */
void engine_report_progress(struct engine *engine, const struct engine_progress *progress);
/* For engines: the end of a call. */
void engine_end_call(struct engine *engine, const struct engine_called *called);
/* For engines: a report was lost. Any thread. */
void engine_note_lost_report(struct engine *engine);

#endif
