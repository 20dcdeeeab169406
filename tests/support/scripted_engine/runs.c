/* What happens later, what runs, and what is said about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "support/scripted_engine/scripted_internal.h"

/* --- events --- */

struct event_later *scripted_add_event(struct scripted_world *world, enum event_kind kind, struct handle *handle,
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

void scripted_free_event(struct event_later *event)
{
    report_free(event->report);
    free(event);
}

void scripted_drop_events_of(struct scripted_world *world, const struct handle *handle)
{
    for (struct event_later **at = &world->events; *at != NULL;) {
        struct event_later *event = *at;
        event->sender = event->sender == handle ? NULL : event->sender;
        if (event->handle == handle) {
            *at = event->next;
            scripted_free_event(event);
        } else {
            at = &event->next;
        }
    }
}

/* Drops what this run had ahead of it, so that a killed run does not go on. */
void scripted_drop_run_events(struct scripted_world *world, const struct run *run)
{
    for (struct event_later **at = &world->events; *at != NULL;) {
        struct event_later *event = *at;
        bool of_run = event->kind == HAPPENS_NEXT || event->kind == HAPPENS_STEP_END || event->kind == HAPPENS_END ||
                      event->kind == HAPPENS_CANCEL;
        if (of_run && event->handle == run->handle && event->fence == run->fence && strcmp(event->id, run->id) == 0) {
            *at = event->next;
            scripted_free_event(event);
        } else {
            at = &event->next;
        }
    }
}

void scripted_report_later(struct handle *handle, struct report *report, int64_t at_us)
{
    INVARIANT(report != NULL);
    scripted_add_event(handle->world, HAPPENS_REPORT, handle, report->id, report->fence, at_us)->report = report;
}

static void report_twice(struct handle *handle, const struct report *first, int64_t at_us)
{
    struct report *again = report_new(first->kind, first->id, first->fence);
    INVARIANT(again != NULL);
    again->end_state = first->end_state;
    text_copy(again->error_code, sizeof again->error_code, first->error_code);
    scripted_report_later(handle, again, at_us);
}

static void report_now(struct handle *handle, struct report *report)
{
    INVARIANT(handle != NULL);
    engine_report(&handle->base, report);
}

/* --- watches --- */

struct watch *scripted_find_watch(const struct handle *handle, const char *id)
{
    INVARIANT(handle != NULL);
    struct watch *watch = handle->watches;
    while (watch != NULL && strcmp(watch->id, id) != 0) {
        watch = watch->next;
    }
    return watch;
}

void scripted_enter_watch(struct handle *handle, const char *id, int64_t fence)
{
    struct watch *watch = scripted_find_watch(handle, id);
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

void scripted_drop_watch(struct handle *handle, const char *id)
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

size_t scripted_count_watches(const struct handle *handle, bool started_only)
{
    size_t count = 0;
    for (const struct watch *watch = handle->watches; watch != NULL; watch = watch->next) {
        count += !started_only || watch->started;
    }
    return count;
}

/* --- runs --- */

/* The run of an id that this handle can have: its own, or in a shared world everybody's. */
struct run *scripted_find_run(const struct scripted_world *world, const struct handle *handle, const char *id)
{
    const struct handle *owner = world->kind == SCRIPTED_SHARED ? NULL : handle;
    struct run *run = world->runs;
    while (run != NULL && (run->handle != owner || strcmp(run->id, id) != 0)) {
        run = run->next;
    }
    return run;
}

void scripted_close_in_ledger(struct scripted_world *world, struct run *run)
{
    if (run->open) {
        ledger_end_run(&world->ledger, run->entry, scripted_now(world));
        run->open = false;
    }
}

void scripted_remove_run(struct scripted_world *world, struct run *run)
{
    scripted_close_in_ledger(world, run);
    scripted_drop_run_events(world, run);
    struct run **at = &world->runs;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    free(run);
}

/* An event of the run itself: its handle's, or the world's in a shared one. */
void scripted_later(struct scripted_world *world, const struct run *run, enum event_kind kind, int64_t at_us)
{
    (void)scripted_add_event(world, kind, run->handle, run->id, run->fence, at_us);
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

struct report *scripted_new_end_report(const struct run *run, int64_t fence)
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
    struct report *report = scripted_new_end_report(run, watch->fence);
    if (with_step) {
        report->has_step = true;
        report->step_index = run->step;
        report->step.attempt = run->attempts[run->step];
        report->step.state = run->end == END_COMPLETED ? STEP_COMPLETED
                             : run->end == END_FAILED  ? STEP_FAILED
                                                       : STEP_CANCELLED;
        (void)snprintf(report->step.step, sizeof report->step.step, "step-%d", run->step);
    }
    INVARIANT(handle != NULL);
    if (run->fate.ends_twice && !handle->world->calm) {
        report_twice(handle, report, scripted_now(handle->world) + run->fate.answer_us);
    }
    report_now(handle, report);
}

/* The run is over by itself; whoever watches is told. `with_step`: its last step was under way until now. */
static void end_run(struct scripted_world *world, struct run *run, enum end_state end, bool with_step)
{
    run->state = RUN_ENDED;
    run->end = end;
    scripted_close_in_ledger(world, run);
    run->entry->ended = true;
    run->entry->end = end;
    run->entry->end_fence = world->kind == SCRIPTED_SHARED ? 0 : run->fence;
    if (world->kind == SCRIPTED_SHARED) {
        for (struct handle *handle = world->handles; handle != NULL; handle = handle->next) {
            if (!handle->crashed && scripted_find_watch(handle, run->id) != NULL) {
                (void)scripted_add_event(world, HAPPENS_TELL, handle, run->id, 0, scripted_now(world) + DEFINITE_US);
            }
        }
        return;
    }
    const struct watch *watch = scripted_find_watch(run->handle, run->id);
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
        scripted_later(world, run, HAPPENS_END, scripted_now(world) + run->fate.run_us);
    }
}

int64_t scripted_step_us(const struct run *run)
{
    return run->fate.run_us / (run->entry->steps > 0 ? run->entry->steps : 1);
}

static void finish_step(struct scripted_world *world, struct run *run)
{
    bool last = run->step == run->entry->steps - 1;
    ledger_end_step(&world->ledger, run->entry, run->step, scripted_now(world));
    if (last && !run->fate.never_ends && (run->fate.end_carries_step || run->fate.end == END_FAILED)) {
        end_run(world, run, run->fate.end, true);
    } else {
        run->state = RUN_WAITS_RESULT;
        report_step(run, STEP_COMPLETED);
    }
}

bool scripted_lease_is_over(const struct scripted_world *world, const struct handle *handle)
{
    return world->kind == SCRIPTED_IN_NODE && handle->lease_end_us <= scripted_now(world);
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
    if (run->handle != NULL && scripted_lease_is_over(world, run->handle)) {
        run->state = RUN_KILLED; /* the keeper starts nothing under an ended lease */
        return run;
    }
    ledger_begin_run(&world->ledger, run->entry, run->fence);
    run->open = true;
    scripted_later(world, run, HAPPENS_NEXT, scripted_now(world)); /* behind an answer that is due now */
    return run;
}

/* --- answers --- */

void scripted_answer(struct handle *handle, enum report_kind kind, const struct event_later *arrival)
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
    int64_t at_us = scripted_now(handle->world) + fate->answer_us;
    if (kind == REPORT_STARTED && fate->answers_twice) {
        report_twice(handle, report, at_us + DEFINITE_US);
    }
    scripted_report_later(handle, report, at_us);
}

void scripted_ask_for_cancel(struct scripted_world *world, struct run *run)
{
    if (run->cancel_at_us == TIME_NEVER && run->state != RUN_ENDED) {
        run->cancel_at_us = world->calm ? scripted_now(world) : time_add(scripted_now(world), run->fate.cancel_us);
        if (run->cancel_at_us != TIME_NEVER) {
            scripted_later(world, run, HAPPENS_CANCEL, run->cancel_at_us);
        }
    }
}

static void answer_known(struct handle *sender, struct run *run, const struct event_later *arrival)
{
    bool lost = arrival->fate.answer == SCRIPTED_LOSE_ANSWER || arrival->fate.answer == SCRIPTED_LOSE_REQUEST;
    if (lost && !arrival->fate.says_unknown) {
        return;
    }
    scripted_answer(sender, lost ? REPORT_UNKNOWN : REPORT_STARTED, arrival);
    if (!lost && run->state == RUN_ENDED && sender != NULL && !sender->crashed) {
        (void)scripted_add_event(sender->world, HAPPENS_TELL, sender, run->id, 0,
                                 scripted_now(sender->world) + arrival->fate.answer_us);
    }
}

/* The request has reached the engine. */
static void arrive(struct scripted_world *world, struct handle *sender, struct event_later *arrival)
{
    struct scripted_entry *entry = ledger_find(&world->ledger, arrival->id);
    struct run *run = scripted_find_run(world, sender, arrival->id);
    entry->on_the_way--;
    if (run != NULL && world->kind == SCRIPTED_IN_NODE && run->fence < arrival->fence) {
        scripted_remove_run(world, run); /* of a claim that is over */
        run = NULL;
    }
    if (run != NULL) {
        answer_known(sender, run, arrival);
    } else if (arrival->fate.answer == SCRIPTED_REFUSE || arrival->fate.answer == SCRIPTED_REFUSE_FOR_GOOD ||
               arrival->fate.answer == SCRIPTED_DEFER) {
        entry->refusals += arrival->fate.answer != SCRIPTED_DEFER;
        entry->refused_for_good = entry->refused_for_good || arrival->fate.answer == SCRIPTED_REFUSE_FOR_GOOD;
        scripted_answer(sender, REPORT_REFUSED, arrival);
        return;
    } else if (arrival->fate.answer != SCRIPTED_LOSE_REQUEST) {
        bool lost = arrival->fate.answer == SCRIPTED_LOSE_ANSWER;
        if (!lost || arrival->fate.says_unknown) {
            scripted_answer(sender, lost ? REPORT_UNKNOWN : REPORT_STARTED, arrival);
        }
        run = begin_run(world, sender, arrival);
    } else if (arrival->fate.says_unknown) {
        scripted_answer(sender, REPORT_UNKNOWN, arrival);
    }
    if (run != NULL && arrival->cancel_requested) {
        scripted_ask_for_cancel(world, run);
    }
}

/* --- what happens --- */

static void deliver(struct handle *handle, struct event_later *event)
{
    struct report *report = event->report;
    struct watch *watch = scripted_find_watch(handle, report->id);
    bool watched = watch != NULL && watch->fence == report->fence;
    event->report = NULL;
    if (!watched && report->kind != REPORT_STARTED && report->kind != REPORT_ENDED) {
        report_free(
            report); /* abandoned meanwhile; what is said twice or late is said all the same: fences must stand it */
        return;
    }
    INVARIANT(handle != NULL);
    if (watched && report->kind == REPORT_STARTED) {
        watch->started = true;
    } else if (watched && (report->kind == REPORT_REFUSED || report->kind == REPORT_UNREACHABLE) &&
               ledger_find(&handle->world->ledger, report->id)->on_the_way == 0 &&
               scripted_find_run(handle->world, handle, report->id) == NULL) {
        scripted_drop_watch(handle, report->id);
    }
    report_now(handle, report);
}

static void happen(struct scripted_world *world, struct event_later *event)
{
    struct run *run = scripted_find_run(world, event->handle, event->id);
    bool current = run != NULL && (world->kind == SCRIPTED_SHARED || run->fence == event->fence);
    const struct watch *watch = event->handle == NULL ? NULL : scripted_find_watch(event->handle, event->id);
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
int64_t scripted_drain(struct scripted_world *world, const struct handle *handle)
{
    for (;;) {
        struct event_later **at = &world->events;
        while (*at != NULL && (*at)->handle != handle) {
            at = &(*at)->next;
        }
        struct event_later *event = *at;
        if (event == NULL || event->at_us > scripted_now(world)) {
            return event == NULL ? TIME_NEVER : event->at_us;
        }
        *at = event->next;
        happen(world, event);
        scripted_free_event(event);
    }
}
