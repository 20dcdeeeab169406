/* Runs and events of a scripted world.
 *
 * Everything that happens later is an event in one list, sorted by time and then by the order of creation:
 *
 *     start --arrive_us--> ARRIVAL --answer_us--> REPORT
 *                             +--> NEXT --> STEP_END --> NEXT ... --> END --> END_REPORT
 *                                               +--> PARK
 *
 * The events of a handle are executed in its engine_step(), those of a shared world in scripted_world_pass_time(). A node
 * that the test has paused therefore executes none. A step waits for `recorded` before the next one, as in_process does.
 * Nothing here reads a real clock, waits, or starts a thread. Reports leave only from inside of engine_step().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "support/scripted_engine/scripted_internal.h"

/* --- events --- */

struct scripted_event *scripted_add_event(struct scripted_world *world, enum event_kind kind, struct handle *handle,
                                          const char *id, int64_t fence, int64_t at_us)
{
    struct scripted_event *event = calloc(1, sizeof *event);
    INVARIANT(event != NULL);
    event->kind = kind;
    event->handle = handle;
    event->fence = fence;
    event->at_us = at_us;
    text_copy(event->id, sizeof event->id, id);
    struct scripted_event **at = &world->events;
    while (*at != NULL && (*at)->at_us <= at_us) {
        at = &(*at)->next;
    }
    event->next = *at;
    *at = event;
    return event;
}

void scripted_free_event(struct scripted_event *event)
{
    report_free(event->report);
    machine_free(event->machine);
    starter_free(event->starter);
    free(event);
}

void scripted_drop_events_of(struct scripted_world *world, const struct handle *handle)
{
    for (struct scripted_event **at = &world->events; *at != NULL;) {
        struct scripted_event *event = *at;
        event->sender = event->sender == handle ? NULL : event->sender;
        if (event->handle == handle) {
            *at = event->next;
            scripted_free_event(event);
        } else {
            at = &event->next;
        }
    }
}

void scripted_drop_run_events(struct scripted_world *world, const struct run *run)
{
    for (struct scripted_event **at = &world->events; *at != NULL;) {
        struct scripted_event *event = *at;
        bool of_run = event->kind == EVENT_NEXT || event->kind == EVENT_STEP_END || event->kind == EVENT_PARK ||
                      event->kind == EVENT_WAKE || event->kind == EVENT_END || event->kind == EVENT_CANCEL;
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
    scripted_add_event(handle->world, EVENT_REPORT, handle, report->id, report->fence, at_us)->report = report;
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
    machine_free(run->machine);
    starter_free(run->starter);
    free(run);
}

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
    if (state == STEP_WAITING) {
        const char *asked = run->handle->world->asked;
        report->step.due_in_us = run->outcome.park_us;
        if (asked != NULL && run->attempts[run->step] % 2 == 1) {
            text_copy(report->step.signal, sizeof report->step.signal, asked);
        }
    }
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

static void report_end_to_watcher(struct handle *handle, struct run *run, const struct watch *watch, bool with_step)
{
    struct report *report = scripted_new_end_report(run, watch->fence);
    enum step_state state = run->end == END_COMPLETED ? STEP_COMPLETED
                            : run->end == END_FAILED  ? STEP_FAILED
                                                      : STEP_CANCELLED;
    if (with_step && run->machine != NULL) {
        machine_fill_report(handle->world, run, report, state);
    } else if (with_step && run->starter != NULL) {
        starter_fill_report(run, report, state);
    } else if (with_step) {
        report->has_step = true;
        report->step_index = run->step;
        report->step.attempt = run->attempts[run->step];
        report->step.state = state;
        (void)snprintf(report->step.step, sizeof report->step.step, "step-%d", run->step);
    }
    INVARIANT(handle != NULL);
    if (run->outcome.ends_twice && !handle->world->calm) {
        report_twice(handle, report, scripted_now(handle->world) + run->outcome.answer_us);
    }
    report_now(handle, report);
}

void scripted_end_run(struct scripted_world *world, struct run *run, enum end_state end, bool with_step)
{
    INVARIANT(run->state != RUN_ENDED && run->state != RUN_PARKED);
    run->state = RUN_ENDED;
    run->end = end;
    scripted_close_in_ledger(world, run);
    run->entry->ended = true;
    run->entry->end = end;
    run->entry->end_fence = world->kind == SCRIPTED_SHARED ? 0 : run->fence;
    if (world->kind == SCRIPTED_SHARED) {
        for (struct handle *handle = world->handles; handle != NULL; handle = handle->next) {
            if (!handle->crashed && scripted_find_watch(handle, run->id) != NULL) {
                (void)scripted_add_event(world, EVENT_END_REPORT, handle, run->id, 0, scripted_now(world) + DEFINITE_US);
            }
        }
        return;
    }
    const struct watch *watch = scripted_find_watch(run->handle, run->id);
    if (watch != NULL) {
        report_end_to_watcher(run->handle, run, watch, with_step);
    }
}

/* Goes on to the next step that is not finished, or to the end. Reports, so only from a step(). */
static void begin_next_step(struct scripted_world *world, struct run *run)
{
    while (run->step < run->entry->steps && run->done[run->step]) {
        run->step++;
    }
    if (run->step < run->entry->steps) {
        run->attempts[run->step]++;
        run->state = RUN_WAITS_BEGIN;
        report_step(run, STEP_RUNNING);
    } else if (run->outcome.never_ends && !world->calm) {
        run->state = RUN_ENDLESS;
    } else if (run->entry->steps > 0) {
        run->step = run->entry->steps - 1;
        scripted_end_run(world, run, run->outcome.end, false);
    } else {
        run->state = RUN_PLAIN;
        scripted_later(world, run, EVENT_END, scripted_now(world) + run->outcome.run_us);
    }
}

int64_t scripted_step_us(const struct run *run)
{
    return run->outcome.run_us / (run->entry->steps > 0 ? run->entry->steps : 1);
}

bool scripted_may_park(const struct run *run, enum wait_kind waiting_for)
{
    const struct watch *watch = run->handle == NULL ? NULL : scripted_find_watch(run->handle, run->id);
    bool is_kept = run->is_suspect && waiting_for != WAIT_MANUAL; /* no act moves a held one out of a manual state */
    return !is_kept && watch != NULL && watch->started && watch->fence == run->fence;
}

void scripted_park_run(struct scripted_world *world, struct run *run, int64_t delay_us, enum wait_kind waiting_for)
{
    struct report *report = report_new(REPORT_PARKED, run->id, run->fence);
    INVARIANT(report != NULL && delay_us >= 0);
    report->delay_us = delay_us;
    report->waiting_for = waiting_for;
    report->signals_seen = run->machine != NULL   ? machine_signals_seen(run->machine)
                           : run->starter != NULL ? starter_signals_seen(run->starter)
                                                  : run->signals_seen;
    run->state = RUN_PARKED;
    run->entry->parked_until_us = time_add(scripted_now(world), delay_us);
    scripted_close_in_ledger(world, run);
    report_now(run->handle, report);
}

static bool may_park(const struct run *run)
{
    return run->outcome.parks && scripted_may_park(run, WAIT_SLEEP);
}

static void park_run(struct scripted_world *world, struct run *run)
{
    scripted_park_run(world, run, run->outcome.park_us, run->entry->steps > 0 ? WAIT_RETRY : WAIT_SLEEP);
}

static void finish_step(struct scripted_world *world, struct run *run)
{
    bool last = run->step == run->entry->steps - 1;
    ledger_end_step(&world->ledger, run->entry, run->step, scripted_now(world));
    if (may_park(run)) {
        run->state = RUN_WAITS_PARK;
        report_step(run, STEP_WAITING);
    } else if (last && !run->outcome.never_ends && (run->outcome.end_carries_step || run->outcome.end == END_FAILED)) {
        scripted_end_run(world, run, run->outcome.end, true);
    } else {
        run->state = RUN_WAITS_RESULT;
        report_step(run, STEP_COMPLETED);
    }
}

bool scripted_lease_is_over(const struct scripted_world *world, const struct handle *handle)
{
    return world->kind == SCRIPTED_IN_NODE && handle->lease_end_us <= scripted_now(world);
}

static struct run *begin_run(struct scripted_world *world, struct handle *owner, struct scripted_event *arrival)
{
    struct run *run = calloc(1, sizeof *run);
    INVARIANT(run != NULL);
    text_copy(run->id, sizeof run->id, arrival->id);
    run->entry = ledger_find(&world->ledger, arrival->id);
    run->handle = world->kind == SCRIPTED_SHARED ? NULL : owner;
    run->linger_until_us = TIME_NEVER;
    run->fence = arrival->fence;
    run->outcome = arrival->outcome;
    run->cancel_at_us = TIME_NEVER;
    run->is_suspect = arrival->is_suspect;
    run->signals_seen = arrival->signals_seen;
    memcpy(run->done, arrival->done, sizeof run->done);
    memcpy(run->attempts, arrival->attempts, sizeof run->attempts);
    run->machine = arrival->machine;
    run->starter = arrival->starter;
    arrival->machine = NULL;
    arrival->starter = NULL;
    if (run->machine != NULL) {
        INVARIANT(world->kind == SCRIPTED_IN_NODE);
        run->entry->steps = 1;
    } else if (run->starter != NULL) {
        run->entry->steps = starter_steps();
    } else if (run->entry->steps < 0) {
        run->entry->steps = world->kind == SCRIPTED_SHARED ? 0 : run->outcome.steps;
    }
    run->next = world->runs;
    world->runs = run;
    if (run->handle != NULL && scripted_lease_is_over(world, run->handle)) {
        run->state = RUN_KILLED; /* the keeper starts nothing under an ended lease */
        return run;
    }
    ledger_begin_run(&world->ledger, run->entry, run->fence, scripted_now(world));
    run->open = true;
    scripted_later(world, run, EVENT_NEXT, scripted_now(world)); /* behind an answer that is due now */
    return run;
}

/* --- answers --- */

void scripted_answer(struct handle *handle, enum report_kind kind, const struct scripted_event *arrival)
{
    if (handle == NULL || handle->crashed) {
        return;
    }
    struct report *report = report_new(kind, arrival->id, arrival->fence);
    INVARIANT(report != NULL);
    const struct scripted_outcome *outcome = &arrival->outcome;
    if (kind == REPORT_REFUSED) {
        report->permanent = outcome->answer == SCRIPTED_REFUSE_FOR_GOOD;
        bool lacks = outcome->answer == SCRIPTED_NO_HANDLER;
        report->spends_start = outcome->answer != SCRIPTED_DEFER && !lacks;
        report->delay_us = outcome->answer == SCRIPTED_DEFER ? outcome->defer_us : lacks ? NO_HANDLER_DELAY_US : 0;
        text_copy(report->error_code, sizeof report->error_code, lacks ? "unknown_handler" : "scripted_refusal");
    } else if (kind != REPORT_STARTED) {
        text_copy(report->error_code, sizeof report->error_code, "scripted_silence");
    }
    int64_t at_us = scripted_now(handle->world) + outcome->answer_us;
    if (kind == REPORT_STARTED && outcome->answers_twice) {
        report_twice(handle, report, at_us + DEFINITE_US);
    }
    scripted_report_later(handle, report, at_us);
}

void scripted_request_cancel(struct scripted_world *world, struct run *run)
{
    if (run->cancel_at_us == TIME_NEVER && run->state != RUN_ENDED && run->state != RUN_PARKED) {
        run->cancel_at_us = world->calm ? scripted_now(world) : time_add(scripted_now(world), run->outcome.cancel_us);
        if (run->cancel_at_us != TIME_NEVER) {
            scripted_later(world, run, EVENT_CANCEL, run->cancel_at_us);
        }
    }
}

static void answer_known_run(struct handle *sender, struct run *run, const struct scripted_event *arrival)
{
    bool lost = arrival->outcome.answer == SCRIPTED_LOSE_ANSWER || arrival->outcome.answer == SCRIPTED_LOSE_REQUEST;
    if (lost && !arrival->outcome.says_unknown) {
        return;
    }
    scripted_answer(sender, lost ? REPORT_UNKNOWN : REPORT_STARTED, arrival);
    if (!lost && run->state == RUN_ENDED && sender != NULL && !sender->crashed) {
        (void)scripted_add_event(sender->world, EVENT_END_REPORT, sender, run->id, 0,
                                 scripted_now(sender->world) + arrival->outcome.answer_us);
    }
}

/* The request has reached the engine. */
static void handle_arrival(struct scripted_world *world, struct handle *sender, struct scripted_event *arrival)
{
    struct scripted_entry *entry = ledger_find(&world->ledger, arrival->id);
    struct run *run = scripted_find_run(world, sender, arrival->id);
    entry->on_the_way--;
    if (run != NULL && world->kind == SCRIPTED_IN_NODE && run->fence < arrival->fence) {
        scripted_remove_run(world, run); /* of a claim that is over */
        run = NULL;
    }
    if (run != NULL) {
        answer_known_run(sender, run, arrival);
    } else if (arrival->outcome.answer == SCRIPTED_REFUSE || arrival->outcome.answer == SCRIPTED_REFUSE_FOR_GOOD ||
               arrival->outcome.answer == SCRIPTED_DEFER) {
        entry->refusals += arrival->outcome.answer != SCRIPTED_DEFER;
        entry->refused_for_good = entry->refused_for_good || arrival->outcome.answer == SCRIPTED_REFUSE_FOR_GOOD;
        scripted_answer(sender, REPORT_REFUSED, arrival);
        return;
    } else if (arrival->outcome.answer != SCRIPTED_LOSE_REQUEST) {
        bool lost = arrival->outcome.answer == SCRIPTED_LOSE_ANSWER;
        if (!lost || arrival->outcome.says_unknown) {
            scripted_answer(sender, lost ? REPORT_UNKNOWN : REPORT_STARTED, arrival);
        }
        run = begin_run(world, sender, arrival);
    } else if (arrival->outcome.says_unknown) {
        scripted_answer(sender, REPORT_UNKNOWN, arrival);
    }
    if (run != NULL && arrival->cancel_requested) {
        scripted_request_cancel(world, run);
    }
}

/* --- the execution of events --- */

static void deliver_report(struct handle *handle, struct scripted_event *event)
{
    struct report *report = event->report;
    struct watch *watch = scripted_find_watch(handle, report->id);
    bool watched = watch != NULL && watch->fence == report->fence;
    event->report = NULL;
    if (!watched && report->kind != REPORT_STARTED && report->kind != REPORT_ENDED) {
        report_free(report); /* abandoned; a second or late report is delivered all the same: fences must handle it */
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

static void execute_event(struct scripted_world *world, struct scripted_event *event)
{
    struct run *run = scripted_find_run(world, event->handle, event->id);
    bool current = run != NULL && (world->kind == SCRIPTED_SHARED || run->fence == event->fence);
    const struct watch *watch = event->handle == NULL ? NULL : scripted_find_watch(event->handle, event->id);
    switch (event->kind) {
    case EVENT_ARRIVAL:
        handle_arrival(world, world->kind == SCRIPTED_SHARED ? event->sender : event->handle, event);
        break;
    case EVENT_REPORT:
        deliver_report(event->handle, event);
        break;
    case EVENT_NEXT:
    case EVENT_WAKE:
        if (current && run->machine != NULL) {
            machine_go_on(world, run);
        } else if (current && run->starter != NULL && starter_go_on(world, run)) {
            break;
        } else if (current && (run->state == RUN_BEGINS || run->state == RUN_WAITS_RESULT)) {
            begin_next_step(world, run);
        }
        break;
    case EVENT_STEP_END:
        if (current && run->state == RUN_IN_STEP && run->machine != NULL) {
            machine_answer(world, run);
        } else if (current && run->state == RUN_IN_STEP) {
            finish_step(world, run);
        }
        break;
    case EVENT_PARK:
        if (current && run->state == RUN_WAITS_PARK) {
            park_run(world, run);
        }
        break;
    case EVENT_END:
        if (current && run->state == RUN_PLAIN && run->entry->steps == 0 && may_park(run)) {
            park_run(world, run);
        } else if (current && (run->state == RUN_PLAIN || run->state == RUN_ENDLESS)) {
            scripted_end_run(world, run, run->outcome.end, false);
        }
        break;
    case EVENT_CANCEL:
        if (current && run->state != RUN_ENDED && run->state != RUN_PARKED && run->state != RUN_KILLED &&
            run->state != RUN_GIVEN_BACK) {
            bool has_step = run->machine != NULL   ? machine_has_begun(run->machine)
                            : run->starter != NULL ? starter_is_under_way(run)
                                                   : run->state == RUN_IN_STEP;
            scripted_end_run(world, run, END_CANCELLED, has_step);
        }
        break;
    case EVENT_END_REPORT:
        if (run != NULL && watch != NULL) {
            report_end_to_watcher(event->handle, run, watch, false);
        }
        break;
    }
}

int64_t scripted_drain(struct scripted_world *world, const struct handle *handle)
{
    for (;;) {
        struct scripted_event **at = &world->events;
        while (*at != NULL && (*at)->handle != handle) {
            at = &(*at)->next;
        }
        struct scripted_event *event = *at;
        if (event == NULL || event->at_us > scripted_now(world)) {
            return event == NULL ? TIME_NEVER : event->at_us;
        }
        *at = event->next;
        execute_event(world, event);
        scripted_free_event(event);
    }
}
