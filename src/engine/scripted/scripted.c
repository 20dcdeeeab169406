#include "engine/scripted/scripted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/scripted/ledger.h"

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
    uint64_t reports;
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
};

static struct handle *handle_of(struct engine *engine)
{
    return (struct handle *)engine;
}

static int64_t now(const struct scripted_world *world)
{
    return clock_boot(world->clock);
}

/* --- events --- */

static struct event_later *add_event(struct scripted_world *world, enum event_kind kind, struct handle *handle,
                                     const char *id, int64_t fence, int64_t at_us)
{
    struct event_later *event = calloc(1, sizeof *event);
    INVARIANT(event != NULL);
    event->kind = kind;
    event->handle = handle;
    event->fence = fence;
    event->at_us = at_us;
    text_copy(event->id, sizeof event->id, id);
    struct event_later **at = &world->events;
    while (*at != NULL && (*at)->at_us <= at_us) {
        at = &(*at)->next;
    }
    event->next = *at;
    *at = event;
    return event;
}

static void free_event(struct event_later *event)
{
    report_free(event->report);
    free(event);
}

static void drop_events_of(struct scripted_world *world, const struct handle *handle)
{
    for (struct event_later **at = &world->events; *at != NULL;) {
        struct event_later *event = *at;
        event->sender = event->sender == handle ? NULL : event->sender;
        if (event->handle == handle) {
            *at = event->next;
            free_event(event);
        } else {
            at = &event->next;
        }
    }
}

/* Drops what this run had ahead of it, so that a killed run does not go on. */
static void drop_run_events(struct scripted_world *world, const struct run *run)
{
    for (struct event_later **at = &world->events; *at != NULL;) {
        struct event_later *event = *at;
        bool of_run = event->kind == HAPPENS_NEXT || event->kind == HAPPENS_STEP_END || event->kind == HAPPENS_END ||
                      event->kind == HAPPENS_CANCEL;
        if (of_run && event->handle == run->handle && event->fence == run->fence && strcmp(event->id, run->id) == 0) {
            *at = event->next;
            free_event(event);
        } else {
            at = &event->next;
        }
    }
}

static void report_later(struct handle *handle, struct report *report, int64_t at_us)
{
    INVARIANT(report != NULL);
    add_event(handle->world, HAPPENS_REPORT, handle, report->id, report->fence, at_us)->report = report;
}

static void report_twice(struct handle *handle, const struct report *first, int64_t at_us)
{
    struct report *again = report_new(first->kind, first->id, first->fence);
    INVARIANT(again != NULL);
    again->end_state = first->end_state;
    text_copy(again->error_code, sizeof again->error_code, first->error_code);
    report_later(handle, again, at_us);
}

static void report_now(struct handle *handle, struct report *report)
{
    handle->reports++;
    engine_report(&handle->base, report);
}

/* --- watches --- */

static struct watch *find_watch(const struct handle *handle, const char *id)
{
    struct watch *watch = handle->watches;
    while (watch != NULL && strcmp(watch->id, id) != 0) {
        watch = watch->next;
    }
    return watch;
}

static void enter_watch(struct handle *handle, const char *id, int64_t fence)
{
    struct watch *watch = find_watch(handle, id);
    if (watch == NULL) {
        watch = calloc(1, sizeof *watch);
        INVARIANT(watch != NULL);
        text_copy(watch->id, sizeof watch->id, id);
        watch->next = handle->watches;
        handle->watches = watch;
    }
    watch->started = watch->started && watch->fence == fence;
    watch->fence = fence > watch->fence ? fence : watch->fence;
}

static void drop_watch(struct handle *handle, const char *id)
{
    struct watch **at = &handle->watches;
    while (*at != NULL && strcmp((*at)->id, id) != 0) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        struct watch *watch = *at;
        *at = watch->next;
        free(watch);
    }
}

static size_t count_watches(const struct handle *handle, bool started_only)
{
    size_t count = 0;
    for (const struct watch *watch = handle->watches; watch != NULL; watch = watch->next) {
        count += !started_only || watch->started;
    }
    return count;
}

/* --- runs --- */

/* The run of an id that this handle can have: its own, or in a shared world everybody's. */
static struct run *find_run(const struct scripted_world *world, const struct handle *handle, const char *id)
{
    const struct handle *owner = world->kind == SCRIPTED_SHARED ? NULL : handle;
    struct run *run = world->runs;
    while (run != NULL && (run->handle != owner || strcmp(run->id, id) != 0)) {
        run = run->next;
    }
    return run;
}

static void close_in_ledger(struct scripted_world *world, struct run *run)
{
    if (run->open) {
        ledger_end_run(&world->ledger, run->entry, now(world));
        run->open = false;
    }
}

static void remove_run(struct scripted_world *world, struct run *run)
{
    close_in_ledger(world, run);
    drop_run_events(world, run);
    struct run **at = &world->runs;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    free(run);
}

/* An event of the run itself: its handle's, or the world's in a shared one. */
static void later(struct scripted_world *world, const struct run *run, enum event_kind kind, int64_t at_us)
{
    (void)add_event(world, kind, run->handle, run->id, run->fence, at_us);
}

static void report_step(struct run *run, enum step_state state)
{
    struct report *report = report_new(REPORT_STEP, run->id, run->fence);
    INVARIANT(report != NULL);
    report->has_step = true;
    report->step_index = run->step;
    report->step.state = state;
    report->step.attempt = run->attempts[run->step];
    (void)snprintf(report->step.step, sizeof report->step.step, "step-%d", run->step);
    if (state == STEP_COMPLETED) {
        report->step.exit_code = 0;
        report->step.output = strdup("{\"ok\":true}");
        report->step.output_length = report->step.output == NULL ? 0 : strlen(report->step.output);
    }
    report_now(run->handle, report);
}

static struct report *new_end_report(const struct run *run, int64_t fence)
{
    struct report *report = report_new(REPORT_ENDED, run->id, fence);
    INVARIANT(report != NULL);
    report->end_state = run->end;
    if (run->end == END_FAILED) {
        text_copy(report->error_code, sizeof report->error_code, "scripted_failure");
    }
    return report;
}

static void tell_end(struct handle *handle, const struct run *run, const struct watch *watch, bool with_step)
{
    struct report *report = new_end_report(run, watch->fence);
    if (with_step) {
        report->has_step = true;
        report->step_index = run->step;
        report->step.attempt = run->attempts[run->step];
        report->step.state = run->end == END_COMPLETED ? STEP_COMPLETED
                             : run->end == END_FAILED  ? STEP_FAILED
                                                       : STEP_CANCELLED;
        (void)snprintf(report->step.step, sizeof report->step.step, "step-%d", run->step);
    }
    if (run->fate.ends_twice && !handle->world->calm) {
        report_twice(handle, report, now(handle->world) + run->fate.answer_us);
    }
    report_now(handle, report);
}

/* The run is over by itself; whoever watches is told. `with_step`: its last step was under way until now. */
static void end_run(struct scripted_world *world, struct run *run, enum end_state end, bool with_step)
{
    run->state = RUN_ENDED;
    run->end = end;
    close_in_ledger(world, run);
    run->entry->ended = true;
    run->entry->end = end;
    run->entry->end_fence = world->kind == SCRIPTED_SHARED ? 0 : run->fence;
    if (world->kind == SCRIPTED_SHARED) {
        for (struct handle *handle = world->handles; handle != NULL; handle = handle->next) {
            if (!handle->crashed && find_watch(handle, run->id) != NULL) {
                (void)add_event(world, HAPPENS_TELL, handle, run->id, 0, now(world) + DEFINITE_US);
            }
        }
        return;
    }
    const struct watch *watch = find_watch(run->handle, run->id);
    if (watch != NULL) {
        tell_end(run->handle, run, watch, with_step);
    }
}

/* Goes on to the next step that is not finished, or to the end. Reports, so only from a step(). */
static void next_step(struct scripted_world *world, struct run *run)
{
    while (run->step < run->entry->steps && run->done[run->step]) {
        run->step++;
    }
    if (run->step < run->entry->steps) {
        run->attempts[run->step]++;
        run->state = RUN_WAITS_BEGIN;
        report_step(run, STEP_RUNNING);
    } else if (run->fate.never_ends && !world->calm) {
        run->state = RUN_SITS;
    } else if (run->entry->steps > 0) {
        run->step = run->entry->steps - 1;
        end_run(world, run, run->fate.end, false);
    } else {
        run->state = RUN_PLAIN;
        later(world, run, HAPPENS_END, now(world) + run->fate.run_us);
    }
}

static int64_t step_us(const struct run *run)
{
    return run->fate.run_us / (run->entry->steps > 0 ? run->entry->steps : 1);
}

static void finish_step(struct scripted_world *world, struct run *run)
{
    bool last = run->step == run->entry->steps - 1;
    ledger_end_step(&world->ledger, run->entry, run->step, now(world));
    if (last && !run->fate.never_ends && (run->fate.end_carries_step || run->fate.end == END_FAILED)) {
        end_run(world, run, run->fate.end, true);
    } else {
        run->state = RUN_WAITS_RESULT;
        report_step(run, STEP_COMPLETED);
    }
}

static bool lease_is_over(const struct scripted_world *world, const struct handle *handle)
{
    return world->kind == SCRIPTED_IN_NODE && handle->lease_end_us <= now(world);
}

static struct run *begin_run(struct scripted_world *world, struct handle *owner, const struct event_later *arrival)
{
    struct run *run = calloc(1, sizeof *run);
    INVARIANT(run != NULL);
    text_copy(run->id, sizeof run->id, arrival->id);
    run->entry = ledger_find(&world->ledger, arrival->id);
    run->handle = world->kind == SCRIPTED_SHARED ? NULL : owner;
    run->linger_until_us = TIME_NEVER;
    run->fence = arrival->fence;
    run->fate = arrival->fate;
    run->cancel_at_us = TIME_NEVER;
    memcpy(run->done, arrival->done, sizeof run->done);
    memcpy(run->attempts, arrival->attempts, sizeof run->attempts);
    if (run->entry->steps < 0) {
        run->entry->steps = world->kind == SCRIPTED_SHARED ? 0 : run->fate.steps;
    }
    run->next = world->runs;
    world->runs = run;
    if (run->handle != NULL && lease_is_over(world, run->handle)) {
        run->state = RUN_KILLED; /* the keeper starts nothing under an ended lease */
        return run;
    }
    ledger_begin_run(&world->ledger, run->entry, run->fence);
    run->open = true;
    later(world, run, HAPPENS_NEXT, now(world)); /* behind an answer that is due now */
    return run;
}

/* --- answers --- */

static void answer(struct handle *handle, enum report_kind kind, const struct event_later *arrival)
{
    if (handle == NULL || handle->crashed) {
        return;
    }
    struct report *report = report_new(kind, arrival->id, arrival->fence);
    INVARIANT(report != NULL);
    const struct scripted_fate *fate = &arrival->fate;
    if (kind == REPORT_REFUSED) {
        report->permanent = fate->answer == SCRIPTED_REFUSE_FOR_GOOD;
        report->spends_attempt = fate->answer != SCRIPTED_DEFER;
        report->delay_us = fate->answer == SCRIPTED_DEFER ? fate->defer_us : 0;
    }
    if (kind != REPORT_STARTED) {
        text_copy(report->error_code, sizeof report->error_code,
                  kind == REPORT_REFUSED ? "scripted_refusal" : "scripted_silence");
    }
    int64_t at_us = now(handle->world) + fate->answer_us;
    if (kind == REPORT_STARTED && fate->answers_twice) {
        report_twice(handle, report, at_us + DEFINITE_US);
    }
    report_later(handle, report, at_us);
}

static void ask_for_cancel(struct scripted_world *world, struct run *run)
{
    if (run->cancel_at_us == TIME_NEVER && run->state != RUN_ENDED) {
        run->cancel_at_us = world->calm ? now(world) : time_add(now(world), run->fate.cancel_us);
        if (run->cancel_at_us != TIME_NEVER) {
            later(world, run, HAPPENS_CANCEL, run->cancel_at_us);
        }
    }
}

static void answer_known(struct handle *sender, struct run *run, const struct event_later *arrival)
{
    bool lost = arrival->fate.answer == SCRIPTED_LOSE_ANSWER || arrival->fate.answer == SCRIPTED_LOSE_REQUEST;
    if (lost && !arrival->fate.says_unknown) {
        return;
    }
    answer(sender, lost ? REPORT_UNKNOWN : REPORT_STARTED, arrival);
    if (!lost && run->state == RUN_ENDED && sender != NULL && !sender->crashed) {
        (void)add_event(sender->world, HAPPENS_TELL, sender, run->id, 0, now(sender->world) + arrival->fate.answer_us);
    }
}

/* The request has reached the engine. */
static void arrive(struct scripted_world *world, struct handle *sender, struct event_later *arrival)
{
    struct scripted_entry *entry = ledger_find(&world->ledger, arrival->id);
    struct run *run = find_run(world, sender, arrival->id);
    entry->on_the_way--;
    if (run != NULL && world->kind == SCRIPTED_IN_NODE && run->fence < arrival->fence) {
        remove_run(world, run); /* of a claim that is over */
        run = NULL;
    }
    if (run != NULL) {
        answer_known(sender, run, arrival);
    } else if (arrival->fate.answer == SCRIPTED_REFUSE || arrival->fate.answer == SCRIPTED_REFUSE_FOR_GOOD ||
               arrival->fate.answer == SCRIPTED_DEFER) {
        entry->refusals += arrival->fate.answer != SCRIPTED_DEFER;
        entry->refused_for_good = entry->refused_for_good || arrival->fate.answer == SCRIPTED_REFUSE_FOR_GOOD;
        answer(sender, REPORT_REFUSED, arrival);
        return;
    } else if (arrival->fate.answer != SCRIPTED_LOSE_REQUEST) {
        bool lost = arrival->fate.answer == SCRIPTED_LOSE_ANSWER;
        if (!lost || arrival->fate.says_unknown) {
            answer(sender, lost ? REPORT_UNKNOWN : REPORT_STARTED, arrival);
        }
        run = begin_run(world, sender, arrival);
    } else if (arrival->fate.says_unknown) {
        answer(sender, REPORT_UNKNOWN, arrival);
    }
    if (run != NULL && arrival->cancel_requested) {
        ask_for_cancel(world, run);
    }
}

/* --- what happens --- */

static void deliver(struct handle *handle, struct event_later *event)
{
    struct report *report = event->report;
    struct watch *watch = find_watch(handle, report->id);
    bool watched = watch != NULL && watch->fence == report->fence;
    event->report = NULL;
    if (!watched && report->kind != REPORT_STARTED && report->kind != REPORT_ENDED) {
        report_free(
            report); /* abandoned meanwhile; what is said twice or late is said all the same: fences must stand it */
        return;
    }
    if (watched && report->kind == REPORT_STARTED) {
        watch->started = true;
    } else if (watched && (report->kind == REPORT_REFUSED || report->kind == REPORT_UNREACHABLE) &&
               find_run(handle->world, handle, report->id) == NULL) {
        drop_watch(handle, report->id);
    }
    report_now(handle, report);
}

static void happen(struct scripted_world *world, struct event_later *event)
{
    struct run *run = find_run(world, event->handle, event->id);
    bool current = run != NULL && (world->kind == SCRIPTED_SHARED || run->fence == event->fence);
    const struct watch *watch = event->handle == NULL ? NULL : find_watch(event->handle, event->id);
    switch (event->kind) {
    case HAPPENS_ARRIVAL:
        arrive(world, world->kind == SCRIPTED_SHARED ? event->sender : event->handle, event);
        break;
    case HAPPENS_REPORT:
        deliver(event->handle, event);
        break;
    case HAPPENS_NEXT:
        if (current && (run->state == RUN_BEGINS || run->state == RUN_WAITS_RESULT)) {
            next_step(world, run);
        }
        break;
    case HAPPENS_STEP_END:
        if (current && run->state == RUN_IN_STEP) {
            finish_step(world, run);
        }
        break;
    case HAPPENS_END:
        if (current && (run->state == RUN_PLAIN || run->state == RUN_SITS)) {
            end_run(world, run, run->fate.end, false);
        }
        break;
    case HAPPENS_CANCEL:
        if (current && run->state != RUN_ENDED && run->state != RUN_KILLED && run->state != RUN_GIVEN_BACK) {
            end_run(world, run, END_CANCELLED, run->state == RUN_IN_STEP);
        }
        break;
    case HAPPENS_TELL:
        if (run != NULL && watch != NULL) {
            tell_end(event->handle, run, watch, false);
        }
        break;
    }
}

/* Does what is due of one handle (NULL: of the world); returns when its next event is due. */
static int64_t drain(struct scripted_world *world, const struct handle *handle)
{
    for (;;) {
        struct event_later **at = &world->events;
        while (*at != NULL && (*at)->handle != handle) {
            at = &(*at)->next;
        }
        struct event_later *event = *at;
        if (event == NULL || event->at_us > now(world)) {
            return event == NULL ? TIME_NEVER : event->at_us;
        }
        *at = event->next;
        happen(world, event);
        free_event(event);
    }
}

/* --- fate --- */

static bool chance(struct random *random, int per_mille)
{
    return (int)random_below(random, 1000) < per_mille;
}

static int64_t up_to(struct random *random, int64_t most_us)
{
    return most_us <= 0 ? 0 : (int64_t)random_below(random, (uint64_t)most_us + 1);
}

static enum scripted_answer draw_answer(struct scripted_world *world)
{
    const struct scripted_plan *plan = &world->plan;
    const struct {
        int per_mille;
        enum scripted_answer answer;
    } choices[] = {{plan->refuse, SCRIPTED_REFUSE},
                   {plan->defer, SCRIPTED_DEFER},
                   {plan->refuse_for_good, SCRIPTED_REFUSE_FOR_GOOD},
                   {plan->unreachable, SCRIPTED_UNREACHABLE},
                   {plan->lose_request, SCRIPTED_LOSE_REQUEST},
                   {plan->lose_answer, SCRIPTED_LOSE_ANSWER}};
    int drawn = (int)random_below(&world->random, 1000);
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        drawn -= choices[i].per_mille;
        if (drawn < 0) {
            return choices[i].answer;
        }
    }
    return SCRIPTED_ACCEPT;
}

static void draw_fate(struct scripted_world *world, struct scripted_fate *fate)
{
    const struct scripted_plan *plan = &world->plan;
    struct random *random = &world->random;
    fate->answer = draw_answer(world);
    fate->end = chance(random, plan->fail) ? END_FAILED : END_COMPLETED;
    fate->says_unknown = chance(random, 500);
    fate->answers_twice = chance(random, plan->answer_twice);
    fate->ends_twice = chance(random, plan->end_twice);
    fate->end_carries_step = chance(random, 500);
    fate->never_ends = chance(random, plan->never_end);
    fate->steps = (int)up_to(random, plan->steps_most);
    bool late = chance(random, plan->late);
    fate->arrive_us = up_to(random, late ? plan->late_most_us : plan->answer_most_us);
    fate->answer_us = up_to(random, late ? plan->late_most_us : plan->answer_most_us);
    fate->run_us = up_to(random, plan->run_most_us);
    fate->cancel_us = chance(random, plan->deaf_to_cancel) ? TIME_NEVER : up_to(random, plan->cancel_most_us);
    fate->defer_us = up_to(random, DEFER_DRAWN_US);
    if (chance(random, plan->end_before_answer)) {
        fate->ends_before_answer = true;
    }
}

static void decide(struct scripted_world *world, const struct scripted_entry *entry, struct scripted_fate *fate)
{
    memset(fate, 0, sizeof *fate);
    if (world->calm) {
        fate->run_us = ENDS_AFTER_CALM_US;
    } else if (world->fate_count > 0) {
        *fate = world->fates[0];
        world->fate_count--;
        memmove(world->fates, world->fates + 1, world->fate_count * sizeof world->fates[0]);
    } else {
        draw_fate(world, fate);
    }
    INVARIANT(fate->steps <= SCRIPTED_STEPS_MOST);
    bool refuses =
        fate->answer == SCRIPTED_REFUSE || fate->answer == SCRIPTED_REFUSE_FOR_GOOD || fate->answer == SCRIPTED_DEFER;
    if (refuses && entry->on_the_way > 0) {
        fate->answer = SCRIPTED_ACCEPT;
    }
    if (fate->ends_before_answer) {
        fate->steps = 0;
        fate->answer_us = time_add(fate->run_us, fate->answer_us + 2 * (int64_t)DEFINITE_US);
    }
}

/* --- the operations of the engine --- */

static void copy_steps(struct scripted_world *world, struct scripted_entry *entry, const struct engine_start *start,
                       struct event_later *arrival)
{
    for (size_t i = 0; i < start->step_count; i++) {
        int index = atoi(start->steps[i].step + strlen("step-"));
        INVARIANT(index >= 0 && index < SCRIPTED_STEPS_MOST);
        arrival->attempts[index] = start->steps[i].attempt;
        arrival->done[index] = start->steps[i].state == STEP_COMPLETED;
        if (arrival->done[index]) {
            ledger_step_is_durable(&world->ledger, entry, index);
        }
    }
}

/* Forgets requests of this handle that have not arrived (in the node itself; in a shared world they are gone for good). */
static void forget_arrivals(struct handle *handle, const char *id)
{
    struct scripted_world *world = handle->world;
    for (struct event_later **at = &world->events; world->kind == SCRIPTED_IN_NODE && *at != NULL;) {
        struct event_later *event = *at;
        if (event->kind == HAPPENS_ARRIVAL && event->handle == handle && (id == NULL || strcmp(event->id, id) == 0)) {
            ledger_find(&world->ledger, event->id)->on_the_way--;
            *at = event->next;
            free_event(event);
        } else {
            at = &event->next;
        }
    }
}

/* Of two unanswered starts only the later one may be refused (engine.h). */
static void forget_refusals(struct handle *handle, const char *id)
{
    for (struct event_later **at = &handle->world->events; *at != NULL;) {
        struct event_later *event = *at;
        if (event->kind == HAPPENS_REPORT && event->handle == handle && event->report->kind == REPORT_REFUSED &&
            strcmp(event->id, id) == 0) {
            *at = event->next;
            free_event(event);
        } else {
            at = &event->next;
        }
    }
}

static enum weir_status scripted_start(struct engine *engine, const struct engine_start *start, struct weir_error *error)
{
    struct handle *handle = handle_of(engine);
    struct scripted_world *world = handle->world;
    (void)error;
    if (handle->crashed) {
        return WEIR_OK;
    }
    struct scripted_entry *entry = ledger_enter(&world->ledger, start->id, start->workspace);
    struct event_later arrival = {.fence = start->fence, .cancel_requested = start->cancel_requested};
    text_copy(arrival.id, sizeof arrival.id, start->id);
    entry->starts_asked++;
    decide(world, entry, &arrival.fate);
    copy_steps(world, entry, start, &arrival);
    enter_watch(handle, start->id, start->fence);
    forget_refusals(handle, start->id);
    forget_arrivals(handle, start->id); /* inside one process nothing is overtaken */
    if (handle->stopping) {
        arrival.fate.answer = SCRIPTED_DEFER;
        answer(handle, REPORT_REFUSED, &arrival);
    } else if (arrival.fate.answer == SCRIPTED_UNREACHABLE || world->cut_until_us > now(world) ||
               handle->cut_until_us > now(world)) {
        answer(handle, REPORT_UNREACHABLE, &arrival);
    } else {
        struct handle *doer = world->kind == SCRIPTED_SHARED ? NULL : handle;
        struct event_later *event =
            add_event(world, HAPPENS_ARRIVAL, doer, start->id, start->fence, now(world) + arrival.fate.arrive_us);
        event->sender = handle;
        event->fate = arrival.fate;
        event->cancel_requested = arrival.cancel_requested;
        memcpy(event->done, arrival.done, sizeof event->done);
        memcpy(event->attempts, arrival.attempts, sizeof event->attempts);
        entry->on_the_way++;
    }
    return WEIR_OK;
}

static void scripted_cancel(struct engine *engine, const char *id, int64_t fence)
{
    struct handle *handle = handle_of(engine);
    struct run *run = find_run(handle->world, handle, id);
    if (handle->crashed) {
        return;
    }
    for (struct event_later *event = handle->world->events; event != NULL; event = event->next) {
        if (event->kind == HAPPENS_ARRIVAL && event->sender == handle && strcmp(event->id, id) == 0) {
            event->cancel_requested = true; /* it overtook its own start */
        }
    }
    if (run != NULL && (handle->world->kind == SCRIPTED_SHARED || run->fence == fence)) {
        ask_for_cancel(handle->world, run);
    }
}

static void scripted_abandon(struct engine *engine, const char *id, int64_t fence)
{
    struct handle *handle = handle_of(engine);
    struct scripted_world *world = handle->world;
    for (struct watch *watch = handle->watches, *next; watch != NULL; watch = next) {
        next = watch->next;
        if (id != NULL && (strcmp(watch->id, id) != 0 || watch->fence != fence)) {
            continue;
        }
        struct run *run = world->kind == SCRIPTED_SHARED ? NULL : find_run(world, handle, watch->id);
        if (run != NULL) {
            remove_run(world, run);
        }
        forget_arrivals(handle, watch->id);
        drop_watch(handle, watch->id);
    }
}

static void step_was_recorded(struct scripted_world *world, struct run *run, const struct recorded *recorded)
{
    if (recorded->step_index != run->step || (run->state != RUN_WAITS_BEGIN && run->state != RUN_WAITS_RESULT)) {
        return;
    }
    if (recorded->status == WEIR_INVALID_ARGUMENT) {
        run->fate.end = END_FAILED;
        run->state = RUN_PLAIN;
        later(world, run, HAPPENS_END, now(world));
    } else if (run->state == RUN_WAITS_BEGIN) {
        run->state = RUN_IN_STEP;
        ledger_begin_step(&world->ledger, run->entry, run->step, run->attempts[run->step], now(world));
        later(world, run, HAPPENS_STEP_END, now(world) + step_us(run));
    } else {
        ledger_step_is_durable(&world->ledger, run->entry, run->step);
        run->done[run->step] = true;
        later(world, run, HAPPENS_NEXT, now(world));
    }
}

static void was_recorded(struct handle *handle, const struct recorded *recorded)
{
    struct scripted_world *world = handle->world;
    const struct watch *watch = find_watch(handle, recorded->id);
    bool ours = recorded->status == WEIR_OK || recorded->status == WEIR_INVALID_ARGUMENT;
    bool over = !ours || recorded->kind == REPORT_ENDED || recorded->kind == REPORT_GIVEN_BACK;
    struct run *run = find_run(world, handle, recorded->id);
    if (recorded->status == WEIR_OK && recorded->kind == REPORT_ENDED) {
        ledger_end_is_durable(&world->ledger, ledger_find(&world->ledger, recorded->id), recorded->fence);
    }
    if (watch == NULL || watch->fence != recorded->fence) {
        return;
    }
    if (world->kind == SCRIPTED_IN_NODE && run != NULL && run->fence == recorded->fence) {
        if (over) {
            remove_run(world, run);
        } else if (recorded->kind == REPORT_STEP) {
            step_was_recorded(world, run, recorded);
        }
    }
    if (over) {
        forget_arrivals(handle, recorded->id);
        drop_watch(handle, recorded->id);
    }
}

static void scripted_recorded(struct engine *engine, const struct recorded *recorded, size_t count)
{
    struct handle *handle = handle_of(engine);
    for (size_t i = 0; i < count && !handle->crashed; i++) {
        was_recorded(handle, &recorded[i]);
    }
}

static void scripted_describe(struct engine *engine, const char *id, int64_t fence)
{
    struct handle *handle = handle_of(engine);
    struct scripted_world *world = handle->world;
    if (handle->crashed) {
        return;
    }
    const struct run *run = find_run(world, handle, id);
    bool cut = world->cut_until_us > now(world) || handle->cut_until_us > now(world);
    enter_watch(handle, id, fence);
    struct report *report = run != NULL && run->state == RUN_ENDED && !cut ? new_end_report(run, fence)
                                                                           : report_new(cut           ? REPORT_UNKNOWN
                                                                                        : run != NULL ? REPORT_STARTED
                                                                                                      : REPORT_ABSENT,
                                                                                        id, fence);
    report_later(handle, report, now(world) + DEFINITE_US);
}

static size_t scripted_room(struct engine *engine)
{
    struct handle *handle = handle_of(engine);
    size_t taken = count_watches(handle, false);
    return handle->stopping || handle->crashed || taken >= handle->room ? 0 : handle->room - taken;
}

static size_t scripted_running(struct engine *engine)
{
    return count_watches(handle_of(engine), true);
}

static void scripted_lease(struct engine *engine, int64_t lease_end_boot_us)
{
    (void)scripted_world_pass_time(handle_of(engine)->world); /* what the old lease has killed stays dead */
    handle_of(engine)->lease_end_us = lease_end_boot_us;
}

/* Runs that the keeper killed though the node lives on: others may have them. */
static void give_back_killed(struct handle *handle)
{
    for (struct run *run = handle->world->runs; run != NULL; run = run->next) {
        if (run->handle == handle && run->state == RUN_KILLED && !lease_is_over(handle->world, handle)) {
            run->state = RUN_GIVEN_BACK;
            report_later(handle, report_new(REPORT_GIVEN_BACK, run->id, run->fence), now(handle->world));
        }
    }
}

static int64_t scripted_step(struct engine *engine)
{
    struct handle *handle = handle_of(engine);
    if (handle->crashed) {
        return TIME_NEVER;
    }
    int64_t next_us = scripted_world_pass_time(handle->world);
    give_back_killed(handle);
    int64_t own_us = drain(handle->world, handle);
    return own_us < next_us ? own_us : next_us;
}

static void scripted_stop(struct engine *engine, bool interrupt)
{
    struct handle *handle = handle_of(engine);
    struct scripted_world *world = handle->world;
    handle->stopping = true;
    if (!interrupt || handle->crashed) {
        return;
    }
    for (const struct watch *watch = handle->watches; watch != NULL; watch = watch->next) {
        struct run *run = world->kind == SCRIPTED_SHARED ? NULL : find_run(world, handle, watch->id);
        if (run != NULL && (run->state == RUN_ENDED || run->state == RUN_GIVEN_BACK)) {
            continue; /* its end is on its way */
        }
        forget_arrivals(handle, watch->id);
        if (run != NULL) {
            close_in_ledger(world, run);
            drop_run_events(world, run);
            run->state = RUN_GIVEN_BACK;
        }
        report_later(handle, report_new(REPORT_GIVEN_BACK, watch->id, watch->fence), now(world));
    }
}

static void drop_node(struct handle *handle, bool linger)
{
    struct scripted_world *world = handle->world;
    forget_arrivals(handle, NULL);
    for (struct run *run = world->runs, *next; run != NULL; run = next) {
        next = run->next;
        if (run->handle != handle) {
            continue;
        }
        if (linger && run->open) {
            drop_run_events(world, run);
            run->linger_until_us = handle->lease_end_us;
            run->handle = NULL;
        } else {
            remove_run(world, run);
        }
    }
    drop_events_of(world, handle);
    while (handle->watches != NULL) {
        drop_watch(handle, handle->watches->id);
    }
}

static void scripted_close(struct engine *engine)
{
    struct handle *handle = handle_of(engine);
    drop_node(handle, false);
    struct handle **at = &handle->world->handles;
    while (*at != handle) {
        at = &(*at)->next;
    }
    *at = handle->next;
    free(handle);
}

static const struct engine_operations in_node_operations = {
    .name = "scripted",
    .features = ENGINE_DIES_WITH_NODE | ENGINE_RECORDS_STEPS | ENGINE_DESCRIBES,
    .start = scripted_start,
    .cancel = scripted_cancel,
    .abandon = scripted_abandon,
    .recorded = scripted_recorded,
    .describe = scripted_describe,
    .room = scripted_room,
    .running = scripted_running,
    .lease = scripted_lease,
    .step = scripted_step,
    .stop = scripted_stop,
    .close = scripted_close,
};

static const struct engine_operations shared_operations = {
    .name = "scripted_shared",
    .features = ENGINE_DESCRIBES,
    .start = scripted_start,
    .cancel = scripted_cancel,
    .abandon = scripted_abandon,
    .recorded = scripted_recorded,
    .describe = scripted_describe,
    .room = scripted_room,
    .running = scripted_running,
    .lease = scripted_lease,
    .step = scripted_step,
    .stop = scripted_stop,
    .close = scripted_close,
};

enum weir_status scripted_open(struct scripted_world *world, size_t room, struct engine **ret_engine,
                               struct weir_error *error)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL) {
        return error_out_of_memory(error);
    }
    handle->base.operations = world->kind == SCRIPTED_SHARED ? &shared_operations : &in_node_operations;
    handle->base.clock = world->clock;
    handle->world = world;
    handle->room = room;
    handle->lease_end_us = TIME_NEVER;
    handle->next = world->handles;
    world->handles = handle;
    *ret_engine = &handle->base;
    return WEIR_OK;
}

int64_t scripted_next(const struct engine *engine)
{
    const struct handle *handle = (const struct handle *)engine;
    for (const struct run *run = handle->world->runs; run != NULL; run = run->next) {
        if (run->handle == handle && run->state == RUN_KILLED && !lease_is_over(handle->world, handle)) {
            return now(handle->world); /* to be given back */
        }
    }
    const struct event_later *event = handle->world->events;
    while (event != NULL && event->handle != handle) {
        event = event->next;
    }
    return event == NULL || handle->crashed ? TIME_NEVER : event->at_us;
}

uint64_t scripted_reports(const struct engine *engine)
{
    return ((const struct handle *)engine)->reports;
}

void scripted_cut(struct engine *engine, int64_t until_us)
{
    handle_of(engine)->cut_until_us = until_us;
}

void scripted_crash(struct engine *engine, bool linger)
{
    struct handle *handle = handle_of(engine);
    drop_node(handle, linger);
    handle->crashed = true;
}

/* --- the world --- */

struct scripted_world *scripted_world_open(enum scripted_kind kind, const struct clock *clock,
                                           const struct scripted_plan *plan, uint64_t seed)
{
    struct scripted_world *world = calloc(1, sizeof *world);
    if (world == NULL) {
        return NULL;
    }
    world->kind = kind;
    world->clock = clock;
    if (plan != NULL) {
        world->plan = *plan;
    }
    random_seed(&world->random, seed);
    ledger_init(&world->ledger, kind == SCRIPTED_SHARED);
    return world;
}

void scripted_world_close(struct scripted_world *world)
{
    if (world == NULL) {
        return;
    }
    INVARIANT(world->handles == NULL);
    while (world->runs != NULL) {
        remove_run(world, world->runs);
    }
    while (world->events != NULL) {
        struct event_later *event = world->events;
        world->events = event->next;
        free_event(event);
    }
    ledger_close(&world->ledger);
    free(world);
}

void scripted_world_push(struct scripted_world *world, const struct scripted_fate *fate)
{
    INVARIANT(world->fate_count < FATES_MOST);
    world->fates[world->fate_count++] = *fate;
}

void scripted_world_cut(struct scripted_world *world, int64_t until_us)
{
    world->cut_until_us = until_us;
}

void scripted_world_calm(struct scripted_world *world)
{
    world->calm = true;
    world->cut_until_us = 0;
    world->fate_count = 0;
    for (struct handle *handle = world->handles; handle != NULL; handle = handle->next) {
        handle->cut_until_us = 0;
    }
    for (struct run *run = world->runs; run != NULL; run = run->next) {
        if (run->state == RUN_SITS && (run->handle != NULL || world->kind == SCRIPTED_SHARED)) {
            later(world, run, HAPPENS_END, now(world) + ENDS_AFTER_CALM_US);
        }
        run->fate.never_ends = false;
    }
}

int64_t scripted_world_pass_time(struct scripted_world *world)
{
    int64_t next_us = TIME_NEVER;
    for (struct run *run = world->runs, *next; run != NULL; run = next) {
        next = run->next;
        if (!run->open || world->kind == SCRIPTED_SHARED) {
            continue;
        }
        int64_t lease_end_us = run->handle == NULL ? run->linger_until_us : run->handle->lease_end_us;
        if (lease_end_us > now(world)) {
            next_us = lease_end_us < next_us ? lease_end_us : next_us;
        } else if (run->handle == NULL) {
            remove_run(world, run);
        } else {
            drop_run_events(world, run);
            close_in_ledger(world, run);
            run->state = RUN_KILLED;
        }
    }
    int64_t own_us = drain(world, NULL);
    return own_us < next_us ? own_us : next_us;
}

const struct scripted_entry *scripted_world_entry(const struct scripted_world *world, const char *id)
{
    return ledger_find(&world->ledger, id);
}

const struct scripted_entry *scripted_world_entry_at(const struct scripted_world *world, size_t index)
{
    return index < world->ledger.count ? world->ledger.entries[index] : NULL;
}

int scripted_world_open_runs(const struct scripted_world *world, const char *workspace)
{
    return ledger_open_runs(&world->ledger, workspace);
}

const char *scripted_world_broken(const struct scripted_world *world)
{
    return world->ledger.broken[0] == '\0' ? NULL : world->ledger.broken;
}
