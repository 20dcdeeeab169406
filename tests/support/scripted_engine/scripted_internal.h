/* The inside of the scripted engine, shared by its files: runs.c (events and runs), machine.c (workflows with states),
 * children.c (steps that start executions), outcomes.c (the outcome of a start) and scripted.c (the engine's verbs, and the
 * world). No other file includes it. */
#ifndef WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_SCRIPTED_INTERNAL_H
#define WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_SCRIPTED_INTERNAL_H

#include "support/scripted_engine/ledger.h"

/* Everything that happens later is an event in one list, ordered by (time, sequence). Events of a handle execute_event in
 * its engine_step(): a node that is paused hears nothing. Events of a shared world execute_event in
 * scripted_world_pass_time(). */

enum {
    DEFINITE_US = 1000,
    ENDS_AFTER_CALM_US = 1000,
    OUTCOMES_MOST = 128,
    DEFER_DRAWN_US = 2 * 1000 * 1000,
    NO_HANDLER_DELAY_US = 10 * 1000 * 1000
};

enum run_state {
    RUN_BEGINS,
    RUN_PLAIN,       /* no steps (left): ends at its time */
    RUN_ENDLESS,     /* never ends */
    RUN_WAITS_BEGIN, /* for STEP_RUNNING to be on record */
    RUN_IN_STEP,
    RUN_WAITS_RESULT, /* for the step's result to be on record */
    RUN_WAITS_PARK,   /* for the step's wait to be on record */
    RUN_SLEEPS,       /* of states: until its time or a signal, in the engine */
    RUN_PARKED,       /* it is over; its report is on its way */
    RUN_ENDED,        /* its end is reported or on its way */
    RUN_KILLED,       /* by its keeper; given back once the node has a lease again */
    RUN_GIVEN_BACK
};

struct handle;
struct machine;
struct starter;

struct run {
    struct run *next;
    char id[UUID_TEXT_MAX];
    struct scripted_entry *entry;
    struct handle *handle; /* SCRIPTED_IN_NODE; NULL when its node has died and the keeper lingers */
    int64_t linger_until_us;
    int64_t fence;
    enum run_state state;
    struct scripted_outcome outcome;
    enum end_state end;
    int64_t cancel_at_us; /* TIME_NEVER = not asked for */
    int step;             /* the one that is under way */
    int attempts[SCRIPTED_STEPS_MOST];
    bool done[SCRIPTED_STEPS_MOST];
    int64_t signals_seen; /* at the claim; a later signal is ignored, so the store wakes the run that parks behind it */
    bool is_suspect;
    bool open;               /* in the ledger */
    struct machine *machine; /* of a workflow with states, or NULL; owned */
    struct starter *starter; /* of one that starts others, or NULL; owned */
};

/* A handle holds the claim of an id: it gets the reports of that execution. */
struct watch {
    struct watch *next;
    char id[UUID_TEXT_MAX];
    int64_t fence;
    bool started;
};

enum { SCRIPTED_HANDLERS_MAX = 128 };
struct handle {
    struct engine base;
    struct scripted_world *world;
    struct handle *next;
    struct watch *watches;
    size_t room;
    int64_t lease_end_us;
    int64_t cut_until_us;
    bool stopping;
    bool crashed;
    bool has_handlers; /* `handlers` are all that it has */
    char handlers[SCRIPTED_HANDLERS_MAX];
};

enum event_kind {
    EVENT_ARRIVAL,
    EVENT_REPORT,
    EVENT_NEXT,
    EVENT_STEP_END,
    EVENT_PARK,
    EVENT_WAKE, /* of states */
    EVENT_END,
    EVENT_CANCEL,
    EVENT_END_REPORT
};

struct scripted_event {
    struct scripted_event *next;
    int64_t at_us;
    enum event_kind kind;
    struct handle *handle; /* whose engine_step() executes it; NULL = the world */
    struct handle *sender; /* ARRIVAL in a shared world: the receiver of the answer; NULL when it has died */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    struct report *report;
    struct scripted_outcome outcome;
    bool cancel_requested;
    int64_t signals_seen;
    bool is_suspect;
    bool done[SCRIPTED_STEPS_MOST];
    int attempts[SCRIPTED_STEPS_MOST];
    struct machine *machine; /* ARRIVAL: that of the run; owned */
    struct starter *starter; /* likewise */
};

struct scripted_world {
    enum scripted_kind kind;
    const struct clock *clock;
    struct scripted_plan plan;
    struct random random;
    struct ledger ledger;
    struct run *runs;
    struct handle *handles;
    struct scripted_event *events;
    struct scripted_outcome outcomes[OUTCOMES_MOST];
    size_t outcome_count;
    bool calm;
    int64_t cut_until_us;
    struct engine_target target;         /* `engine` is "": it has none */
    struct engine_operations operations; /* with a target: those of its handles */
    scripted_planner planner;            /* NULL: no execution starts others */
    void *planner_context;
    const char *asked; /* scripted_world_ask(); NULL = no signal */
};

static inline struct handle *handle_of(struct engine *engine)
{
    return (struct handle *)engine;
}

static inline int64_t scripted_now(const struct scripted_world *world)
{
    return clock_boot(world->clock);
}

/* Adds an event of `handle` (NULL: of the world). Events of one time are executed in the order of their creation. The world
 * owns it. */
struct scripted_event *scripted_add_event(struct scripted_world *world, enum event_kind kind, struct handle *handle,
                                          const char *id, int64_t fence, int64_t at_us);
/* With its report. */
void scripted_free_event(struct scripted_event *event);
/* The handle is gone: drops its events and the answers for it. */
void scripted_drop_events_of(struct scripted_world *world, const struct handle *handle);
/* Drops the future events of a run, so that a killed run does not continue. */
void scripted_drop_run_events(struct scripted_world *world, const struct run *run);
/* Takes the report; it is given to the sink in a step() at or after that time. */
void scripted_report_later(struct handle *handle, struct report *report, int64_t at_us);
/* NULL when the handle has no watch for the id. */
struct watch *scripted_find_watch(const struct handle *handle, const char *id);
/* From now on the handle has a watch for the id, under the newest fence. */
void scripted_enter_watch(struct handle *handle, const char *id, int64_t fence);
/* No effect when there is none. */
void scripted_drop_watch(struct handle *handle, const char *id);
/* All, or only those with an answered start. */
size_t scripted_count_watches(const struct handle *handle, bool started_only);
/* The run of an id that this handle can have: its own, or in a shared world that of any handle; or NULL. */
struct run *scripted_find_run(const struct scripted_world *world, const struct handle *handle, const char *id);
/* The run is no longer open. */
void scripted_close_in_ledger(struct scripted_world *world, struct run *run);
/* Closes it, removes it and frees it. */
void scripted_remove_run(struct scripted_world *world, struct run *run);
/* An event of the run itself. */
void scripted_later(struct scripted_world *world, const struct run *run, enum event_kind kind, int64_t at_us);
/* The report of a run's end under this fence. The caller owns it. */
struct report *scripted_new_end_report(const struct run *run, int64_t fence);
/* How long each step of the run takes. */
int64_t scripted_step_us(const struct run *run);
/* Never in a shared world. */
bool scripted_lease_is_over(const struct scripted_world *world, const struct handle *handle);
/* Reports the outcome of the request later; no effect when its sender has died. */
void scripted_answer(struct handle *handle, enum report_kind kind, const struct scripted_event *arrival);
/* The cancel takes effect after the outcome's `cancel_us`. A second request has no effect. */
void scripted_request_cancel(struct scripted_world *world, struct run *run);
/* Executes the due events of one handle (NULL: of the world); returns when its next event is due. */
int64_t scripted_drain(struct scripted_world *world, const struct handle *handle);
/* The outcome of one start: the next pushed one, or drawn; never a refusal while an earlier request is on its way. */
void scripted_draw_outcome(struct scripted_world *world, const struct scripted_entry *entry,
                           struct scripted_outcome *outcome);
/* The report of the start comes before that of the park, and the claim of a suspect is not parked (engine.h). */
bool scripted_may_park(const struct run *run, enum wait_kind waiting_for);
/* All of the run waits for this long: it leaves the engine. */
void scripted_park_run(struct scripted_world *world, struct run *run, int64_t delay_us, enum wait_kind waiting_for);
/* The run ends by itself; its watchers get a report. `with_step`: its last step ran until now. */
void scripted_end_run(struct scripted_world *world, struct run *run, enum end_state end, bool with_step);

/* --- machine.c --- */

/* The machine of this start; NULL: its definition has no states. */
struct machine *machine_new(const struct scripted_world *world, const struct engine_start *start);
/* Takes NULL. */
void machine_free(struct machine *machine);
bool machine_has_begun(const struct machine *machine);
/* The run begins, or its wait is on record, or its time has come: it sleeps, or begins an attempt. Reports. */
void machine_go_on(struct scripted_world *world, struct run *run);
/* The handler answers. Reports. */
void machine_answer(struct scripted_world *world, struct run *run);
/* The report of the step is durable. */
void machine_recorded(struct scripted_world *world, struct run *run);
/* Keeps a signal; one that comes again changes nothing. True: a run that sleeps has something to do. */
bool machine_keep_signal(struct machine *machine, const struct signal_record *signal);
/* The number of the last signal that it has got. */
int64_t machine_signals_seen(const struct machine *machine);
/* The step of a report. */
void machine_fill_report(struct scripted_world *world, struct run *run, struct report *report, enum step_state state);
/* True once, behind a report with the answer of a handler. */
bool machine_take_reported(struct machine *machine);

/* --- children.c --- */

/* The steps of this start that start executions; NULL: its definition has none. */
struct starter *starter_new(const struct scripted_world *world, const struct engine_start *start);
/* Takes NULL. */
void starter_free(struct starter *starter);
/* How many such steps an execution has. */
int starter_steps(void);
/* As machine_keep_signal(). */
bool starter_keep_signal(struct starter *starter, const struct signal_record *signal);
int64_t starter_signals_seen(const struct starter *starter);
/* The run begins, its last report is durable, or its time or a signal has come. Reports. False: its steps have ended. */
bool starter_go_on(struct scripted_world *world, struct run *run);
/* A step of it waits, on record or on the way there. */
bool starter_is_under_way(const struct run *run);
/* The report of the step is durable. */
void starter_recorded(struct scripted_world *world, struct run *run);
/* The step of a report. */
void starter_fill_report(struct run *run, struct report *report, enum step_state state);

#endif
