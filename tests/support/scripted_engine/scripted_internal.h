/* The inside of the scripted engine, shared by its files: runs.c (what happens, and when), outcomes.c (what is decided at a
 * start) and scripted.c (the engine's verbs, and the world). Nobody else includes this. */
#ifndef WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_SCRIPTED_INTERNAL_H
#define WEIR_TESTS_SUPPORT_SCRIPTED_ENGINE_SCRIPTED_INTERNAL_H

#include "support/scripted_engine/ledger.h"

/* Everything that happens later is an event in one list, ordered by (time, sequence). Events of a handle happen in its
 * engine_step(): a node that is paused hears nothing. Events of a shared world happen in scripted_world_pass_time(). */

enum { DEFINITE_US = 1000, ENDS_AFTER_CALM_US = 1000, FATES_MOST = 64, DEFER_DRAWN_US = 2 * 1000 * 1000 };

enum run_state {
    RUN_BEGINS,
    RUN_PLAIN,       /* no steps (left): ends at its time */
    RUN_SITS,        /* never ends */
    RUN_WAITS_BEGIN, /* for STEP_RUNNING to be on record */
    RUN_IN_STEP,
    RUN_WAITS_RESULT, /* for the step's result to be on record */
    RUN_ENDED,        /* its end is reported or on its way */
    RUN_KILLED,       /* by its keeper; given back once the node has a lease again */
    RUN_GIVEN_BACK
};

struct handle;

struct run {
    struct run *next;
    char id[UUID_TEXT_MAX];
    struct scripted_entry *entry;
    struct handle *handle; /* SCRIPTED_IN_NODE; NULL when its node has died and the keeper lingers */
    int64_t linger_until_us;
    int64_t fence;
    enum run_state state;
    struct scripted_fate fate;
    enum end_state end;
    int64_t cancel_at_us; /* TIME_NEVER = not asked for */
    int step;             /* the one that is under way */
    int attempts[SCRIPTED_STEPS_MOST];
    bool done[SCRIPTED_STEPS_MOST];
    bool open; /* in the ledger */
};

/* What a handle wants to know about an id. */
struct watch {
    struct watch *next;
    char id[UUID_TEXT_MAX];
    int64_t fence;
    bool started;
};

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
};

enum event_kind {
    HAPPENS_ARRIVAL,
    HAPPENS_REPORT,
    HAPPENS_NEXT,
    HAPPENS_STEP_END,
    HAPPENS_END,
    HAPPENS_CANCEL,
    HAPPENS_TELL
};

struct event_later {
    struct event_later *next;
    int64_t at_us;
    enum event_kind kind;
    struct handle *handle; /* whose step() does it; NULL = the world's */
    struct handle *sender; /* ARRIVAL in a shared world: who is answered; NULL when it has died */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    struct report *report;
    struct scripted_fate fate;
    bool cancel_requested;
    bool done[SCRIPTED_STEPS_MOST];
    int attempts[SCRIPTED_STEPS_MOST];
};

struct scripted_world {
    enum scripted_kind kind;
    const struct clock *clock;
    struct scripted_plan plan;
    struct random random;
    struct ledger ledger;
    struct run *runs;
    struct handle *handles;
    struct event_later *events;
    struct scripted_fate fates[FATES_MOST];
    size_t fate_count;
    bool calm;
    int64_t cut_until_us;
    struct engine_target target;         /* `engine` is "": it has none */
    struct engine_operations operations; /* with a target: those of its handles */
};

static inline struct handle *handle_of(struct engine *engine)
{
    return (struct handle *)engine;
}

static inline int64_t scripted_now(const struct scripted_world *world)
{
    return clock_boot(world->clock);
}

/* Something that happens at its time, in the order of being added; of `handle` (NULL: of the world). Owned by the world. */
struct event_later *scripted_add_event(struct scripted_world *world, enum event_kind kind, struct handle *handle,
                                       const char *id, int64_t fence, int64_t at_us);
/* With its report. */
void scripted_free_event(struct event_later *event);
/* The handle is gone: its events never happen, and nobody hears the answers that it waited for. */
void scripted_drop_events_of(struct scripted_world *world, const struct handle *handle);
/* What a run had ahead of it, so that one that was killed does not go on. */
void scripted_drop_run_events(struct scripted_world *world, const struct run *run);
/* Takes the report; it is given to the sink in a step() at or after that time. */
void scripted_report_later(struct handle *handle, struct report *report, int64_t at_us);
/* NULL when the handle does not want to know about the id. */
struct watch *scripted_find_watch(const struct handle *handle, const char *id);
/* From now on the handle wants to know about the id under this fence, or the newest one. */
void scripted_enter_watch(struct handle *handle, const char *id, int64_t fence);
/* No effect when there is none. */
void scripted_drop_watch(struct handle *handle, const char *id);
/* All, or only those whose start was answered. */
size_t scripted_count_watches(const struct handle *handle, bool started_only);
/* The run of an id that this handle can have: its own, or in a shared world everybody's; or NULL. */
struct run *scripted_find_run(const struct scripted_world *world, const struct handle *handle, const char *id);
/* The run is no longer open. */
void scripted_close_in_ledger(struct scripted_world *world, struct run *run);
/* Closes it, and forgets and frees it. */
void scripted_remove_run(struct scripted_world *world, struct run *run);
/* An event of the run itself. */
void scripted_later(struct scripted_world *world, const struct run *run, enum event_kind kind, int64_t at_us);
/* The end of a run as this fence's watcher hears it. The caller owns it. */
struct report *scripted_new_end_report(const struct run *run, int64_t fence);
/* How long each step of the run takes. */
int64_t scripted_step_us(const struct run *run);
/* Never in a shared world. */
bool scripted_lease_is_over(const struct scripted_world *world, const struct handle *handle);
/* Says later what became of the request; nothing when its sender has died. */
void scripted_answer(struct handle *handle, enum report_kind kind, const struct event_later *arrival);
/* The cancel takes effect when the fate of the run says so. Twice is once. */
void scripted_ask_for_cancel(struct scripted_world *world, struct run *run);
/* Does what is due of one handle (NULL: of the world); returns when its next event is due. */
int64_t scripted_drain(struct scripted_world *world, const struct handle *handle);
/* The fate of one start: the test's next, or drawn; never a refusal while an earlier request is on its way. */
void scripted_decide(struct scripted_world *world, const struct scripted_entry *entry, struct scripted_fate *fate);

#endif
