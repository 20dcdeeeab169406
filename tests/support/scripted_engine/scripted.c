/* The scripted engine's verbs, its handles and its world.
 *
 * A handle is the engine of one node. A verb draws the outcome of a start (outcomes.c), adds events (runs.c) or changes
 * runs; it never reports by itself. A handle has a watch for each claim that its node holds; reports without a watch are
 * dropped or delivered late, as a real engine may do. The lease works as with a keeper: when it ends,
 * scripted_world_pass_time() kills the runs of the handle, even if its node is paused. A crashed handle executes nothing
 * and reports nothing. One thread drives a world and all its handles.
 */
#include "support/scripted_engine/scripted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "support/scripted_engine/scripted_internal.h"

/* --- the operations of the engine --- */

static void copy_steps(struct scripted_world *world, struct scripted_entry *entry, const struct engine_start *start,
                       struct scripted_event *arrival)
{
    arrival->machine = world->kind == SCRIPTED_IN_NODE ? machine_new(world, start) : NULL;
    arrival->starter = world->kind == SCRIPTED_IN_NODE ? starter_new(world, start) : NULL;
    for (size_t i = 0; i < start->step_count && arrival->machine == NULL; i++) {
        int index = (int)strtol(start->steps[i].step + strlen("step-"), NULL, 10);
        INVARIANT(index >= 0 && index < SCRIPTED_STEPS_MOST);
        arrival->attempts[index] = start->steps[i].attempt;
        arrival->done[index] = start->steps[i].state == STEP_COMPLETED;
        if (arrival->done[index] && arrival->starter == NULL) {
            ledger_step_is_durable(&world->ledger, entry, index);
        }
    }
}

/* Drops the requests of this handle that have not arrived. In a shared world they arrive all the same. */
static void drop_arrivals(struct handle *handle, const char *id)
{
    struct scripted_world *world = handle->world;
    for (struct scripted_event **at = &world->events; world->kind == SCRIPTED_IN_NODE && *at != NULL;) {
        struct scripted_event *event = *at;
        if (event->kind == EVENT_ARRIVAL && event->handle == handle && (id == NULL || strcmp(event->id, id) == 0)) {
            ledger_find(&world->ledger, event->id)->on_the_way--;
            *at = event->next;
            scripted_free_event(event);
        } else {
            at = &event->next;
        }
    }
}

/* Of two unanswered starts only the later one may be refused (engine.h). */
static void drop_refusals(struct handle *handle, const char *id)
{
    for (struct scripted_event **at = &handle->world->events; *at != NULL;) {
        struct scripted_event *event = *at;
        if (event->kind == EVENT_REPORT && event->handle == handle && event->report->kind == REPORT_REFUSED &&
            strcmp(event->id, id) == 0) {
            *at = event->next;
            scripted_free_event(event);
        } else {
            at = &event->next;
        }
    }
}

/* A definition has steps or `temporal:`. A world without a target runs steps. */
static bool needs_another_engine(const struct scripted_world *world, const struct engine_start *start)
{
    bool on_temporal = start->definition != NULL && strstr(start->definition, "\"temporal\":") != NULL;
    return on_temporal != (world->target.engine[0] != '\0');
}

/* The handlers stand in the definition as "handler":"NAME". */
static bool lacks_handler(const struct handle *handle, const struct engine_start *start)
{
    static const char key[] = "\"handler\":";
    const char *at = handle->has_handlers && start->definition != NULL ? strstr(start->definition, key) : NULL;
    while (at != NULL) {
        char name[SCRIPTED_HANDLERS_MAX];
        const char *from = at + strlen(key);
        const char *end = strchr(from + 1, '"');
        INVARIANT(*from == '"' && end != NULL);
        (void)snprintf(name, sizeof name, "%.*s", (int)(end - from) + 1, from);
        if (strstr(handle->handlers, name) == NULL) {
            return true;
        }
        at = strstr(end, key);
    }
    return false;
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
    struct scripted_event arrival = {
        .fence = start->fence, .cancel_requested = start->cancel_requested, .is_suspect = start->is_suspect};
    arrival.signals_seen = start->signals_seen;
    text_copy(arrival.id, sizeof arrival.id, start->id);
    entry->starts_requested++;
    if (needs_another_engine(world, start)) {
        ledger_note_broken(&world->ledger, start->id, "an engine of the other kind was to start it; fence", start->fence);
    }
    scripted_draw_outcome(world, entry, &arrival.outcome);
    copy_steps(world, entry, start, &arrival);
    scripted_enter_watch(handle, start->id, start->fence);
    drop_refusals(handle, start->id);
    drop_arrivals(handle, start->id); /* inside one process the order of requests is fixed */
    if (handle->stopping) {
        arrival.outcome.answer = SCRIPTED_DEFER;
        scripted_answer(handle, REPORT_REFUSED, &arrival);
    } else if (entry->on_the_way == 0 && scripted_find_run(world, handle, start->id) == NULL &&
               lacks_handler(handle, start)) {
        arrival.outcome.answer = SCRIPTED_NO_HANDLER;
        scripted_answer(handle, REPORT_REFUSED, &arrival);
    } else if (arrival.outcome.answer == SCRIPTED_UNREACHABLE || world->cut_until_us > scripted_now(world) ||
               handle->cut_until_us > scripted_now(world)) {
        scripted_answer(handle, REPORT_UNREACHABLE, &arrival);
    } else {
        struct handle *doer = world->kind == SCRIPTED_SHARED ? NULL : handle;
        struct scripted_event *event = scripted_add_event(world, EVENT_ARRIVAL, doer, start->id, start->fence,
                                                          scripted_now(world) + arrival.outcome.arrive_us);
        event->sender = handle;
        event->outcome = arrival.outcome;
        event->cancel_requested = arrival.cancel_requested;
        event->is_suspect = arrival.is_suspect;
        event->machine = arrival.machine;
        arrival.machine = NULL;
        event->starter = arrival.starter;
        arrival.starter = NULL;
        event->signals_seen = arrival.signals_seen;
        memcpy(event->done, arrival.done, sizeof event->done);
        memcpy(event->attempts, arrival.attempts, sizeof event->attempts);
        entry->on_the_way++;
    }
    machine_free(arrival.machine);
    starter_free(arrival.starter);
    return WEIR_OK;
}

/* A signal that comes before the run is kept for it. */
static bool keep_signal(struct machine *machine, struct starter *starter, const struct signal_record *signal)
{
    return machine != NULL ? machine_keep_signal(machine, signal) : starter != NULL && starter_keep_signal(starter, signal);
}

/* Only workflows with states or children wait for signals in the engine. */
static void scripted_signal(struct engine *engine, const char *id, int64_t fence, const struct signal_record *signal)
{
    struct handle *handle = handle_of(engine);
    struct scripted_world *world = handle->world;
    struct run *run = scripted_find_run(world, handle, id);
    for (struct scripted_event *event = world->events; event != NULL && !handle->crashed; event = event->next) {
        if (event->kind == EVENT_ARRIVAL && event->handle == handle && event->fence == fence &&
            strcmp(event->id, id) == 0) {
            (void)keep_signal(event->machine, event->starter, signal);
        }
    }
    if (!handle->crashed && run != NULL && run->fence == fence && keep_signal(run->machine, run->starter, signal) &&
        run->state == RUN_SLEEPS) {
        scripted_later(world, run, EVENT_WAKE, scripted_now(world));
    }
}

static void scripted_cancel(struct engine *engine, const char *id, int64_t fence)
{
    struct handle *handle = handle_of(engine);
    struct run *run = scripted_find_run(handle->world, handle, id);
    if (handle->crashed) {
        return;
    }
    for (struct scripted_event *event = handle->world->events; event != NULL; event = event->next) {
        if (event->kind == EVENT_ARRIVAL && event->sender == handle && strcmp(event->id, id) == 0) {
            event->cancel_requested = true; /* it overtook its own start */
        }
    }
    if (run != NULL && (handle->world->kind == SCRIPTED_SHARED || run->fence == fence)) {
        scripted_request_cancel(handle->world, run);
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
        struct run *run = world->kind == SCRIPTED_SHARED ? NULL : scripted_find_run(world, handle, watch->id);
        if (run != NULL) {
            scripted_remove_run(world, run);
        }
        drop_arrivals(handle, watch->id);
        scripted_drop_watch(handle, watch->id);
    }
}

static void handle_recorded_step(struct scripted_world *world, struct run *run, const struct recorded *recorded)
{
    if (run->machine != NULL && recorded->status == WEIR_OK) {
        machine_recorded(world, run);
        return;
    }
    if (run->starter != NULL && recorded->status == WEIR_OK) {
        if (recorded->step_index == run->step) {
            starter_recorded(world, run);
        }
        return;
    }
    if (recorded->step_index != run->step ||
        (run->state != RUN_WAITS_BEGIN && run->state != RUN_WAITS_RESULT && run->state != RUN_WAITS_PARK)) {
        return;
    }
    if (recorded->status == WEIR_INVALID_ARGUMENT) {
        run->outcome.end = END_FAILED;
        run->state = RUN_PLAIN;
        scripted_later(world, run, EVENT_END, scripted_now(world));
    } else if (run->state == RUN_WAITS_BEGIN) {
        run->state = RUN_IN_STEP;
        ledger_begin_step(&world->ledger, run->entry, run->step, run->attempts[run->step], scripted_now(world));
        scripted_later(world, run, EVENT_STEP_END, scripted_now(world) + scripted_step_us(run));
    } else if (run->state == RUN_WAITS_PARK) {
        scripted_later(world, run, EVENT_PARK, scripted_now(world));
    } else {
        ledger_step_is_durable(&world->ledger, run->entry, run->step);
        run->done[run->step] = true;
        scripted_later(world, run, EVENT_NEXT, scripted_now(world));
    }
}

static void handle_recorded(struct handle *handle, const struct recorded *recorded)
{
    struct scripted_world *world = handle->world;
    const struct watch *watch = scripted_find_watch(handle, recorded->id);
    bool ours = recorded->status == WEIR_OK || recorded->status == WEIR_INVALID_ARGUMENT;
    bool over = !ours || report_is_last(recorded->kind);
    struct run *run = scripted_find_run(world, handle, recorded->id);
    if (recorded->status == WEIR_OK && recorded->kind == REPORT_ENDED) {
        ledger_end_is_durable(&world->ledger, ledger_find(&world->ledger, recorded->id), recorded->fence);
    }
    if (recorded->status == WEIR_OK && recorded->kind == REPORT_PARKED) {
        ledger_park_is_durable(&world->ledger, ledger_find(&world->ledger, recorded->id));
    }
    if (watch == NULL || watch->fence != recorded->fence) {
        return;
    }
    if (world->kind == SCRIPTED_IN_NODE && run != NULL && run->fence == recorded->fence) {
        if (over) {
            bool is_answer = run->machine != NULL && machine_take_reported(run->machine);
            run->entry->answers_durable += is_answer && recorded->status == WEIR_OK && recorded->kind == REPORT_ENDED;
            scripted_remove_run(world, run);
        } else if (recorded->kind == REPORT_STEP) {
            handle_recorded_step(world, run, recorded);
        }
    }
    if (over) {
        drop_arrivals(handle, recorded->id);
        scripted_drop_watch(handle, recorded->id);
    }
}

static void scripted_recorded(struct engine *engine, const struct recorded *recorded, size_t count)
{
    struct handle *handle = handle_of(engine);
    for (size_t i = 0; i < count && !handle->crashed; i++) {
        handle_recorded(handle, &recorded[i]);
    }
}

static size_t scripted_room(struct engine *engine)
{
    struct handle *handle = handle_of(engine);
    size_t taken = scripted_count_watches(handle, false);
    return handle->stopping || handle->crashed || taken >= handle->room ? 0 : handle->room - taken;
}

static size_t scripted_running(struct engine *engine)
{
    return scripted_count_watches(handle_of(engine), true);
}

static void scripted_lease(struct engine *engine, int64_t lease_end_boot_us)
{
    (void)scripted_world_pass_time(handle_of(engine)->world); /* first kills the runs under the old lease */
    handle_of(engine)->lease_end_us = lease_end_boot_us;
}

/* The keeper has killed these runs and the node lives on: another node may run them. */
static void give_back_killed(struct handle *handle)
{
    for (struct run *run = handle->world->runs; run != NULL; run = run->next) {
        if (run->handle == handle && run->state == RUN_KILLED && !scripted_lease_is_over(handle->world, handle)) {
            run->state = RUN_GIVEN_BACK;
            scripted_report_later(handle, report_new(REPORT_GIVEN_BACK, run->id, run->fence), scripted_now(handle->world));
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
    int64_t own_us = scripted_drain(handle->world, handle);
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
        struct run *run = world->kind == SCRIPTED_SHARED ? NULL : scripted_find_run(world, handle, watch->id);
        if (run != NULL && (run->state == RUN_ENDED || run->state == RUN_PARKED || run->state == RUN_GIVEN_BACK)) {
            continue; /* its last report is on its way */
        }
        drop_arrivals(handle, watch->id);
        if (run != NULL) {
            scripted_close_in_ledger(world, run);
            scripted_drop_run_events(world, run);
            run->state = RUN_GIVEN_BACK;
        }
        scripted_report_later(handle, report_new(REPORT_GIVEN_BACK, watch->id, watch->fence), scripted_now(world));
    }
}

static void drop_node(struct handle *handle, bool linger)
{
    struct scripted_world *world = handle->world;
    drop_arrivals(handle, NULL);
    for (struct run *run = world->runs, *next; run != NULL; run = next) {
        next = run->next;
        if (run->handle != handle) {
            continue;
        }
        if (linger && run->open) {
            scripted_drop_run_events(world, run);
            run->linger_until_us = handle->lease_end_us;
            run->handle = NULL;
        } else {
            scripted_remove_run(world, run);
        }
    }
    scripted_drop_events_of(world, handle);
    while (handle->watches != NULL) {
        scripted_drop_watch(handle, handle->watches->id);
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
    .features = ENGINE_DIES_WITH_NODE | ENGINE_RECORDS_STEPS,
    .start = scripted_start,
    .cancel = scripted_cancel,
    .signal = scripted_signal,
    .abandon = scripted_abandon,
    .recorded = scripted_recorded,
    .free_capacity = scripted_room,
    .running = scripted_running,
    .lease = scripted_lease,
    .step = scripted_step,
    .stop = scripted_stop,
    .close = scripted_close,
};

static const struct engine_operations shared_operations = {
    .name = "scripted_shared",
    .start = scripted_start,
    .cancel = scripted_cancel,
    .abandon = scripted_abandon,
    .recorded = scripted_recorded,
    .free_capacity = scripted_room,
    .running = scripted_running,
    .lease = scripted_lease,
    .step = scripted_step,
    .stop = scripted_stop,
    .close = scripted_close,
};

static bool scripted_target(struct engine *engine, struct engine_target *ret_target)
{
    *ret_target = handle_of(engine)->world->target;
    return true;
}

void scripted_world_locate(struct scripted_world *world, const struct engine_target *target)
{
    INVARIANT(world->kind == SCRIPTED_SHARED && world->handles == NULL && target->engine[0] != '\0');
    world->target = *target;
    world->operations = shared_operations;
    world->operations.name = world->target.engine;
    world->operations.target = scripted_target;
}

enum weir_status scripted_open(struct scripted_world *world, size_t room, struct engine **ret_engine,
                               struct weir_error *error)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL) {
        return error_out_of_memory(error);
    }
    handle->base.operations = world->target.engine[0] != '\0'  ? &world->operations
                              : world->kind == SCRIPTED_SHARED ? &shared_operations
                                                               : &in_node_operations;
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
        if (run->handle == handle && run->state == RUN_KILLED && !scripted_lease_is_over(handle->world, handle)) {
            return scripted_now(handle->world); /* to be given back */
        }
    }
    const struct scripted_event *event = handle->world->events;
    while (event != NULL && event->handle != handle) {
        event = event->next;
    }
    return event == NULL || handle->crashed ? TIME_NEVER : event->at_us;
}

void scripted_cut(struct engine *engine, int64_t until_us)
{
    handle_of(engine)->cut_until_us = until_us;
}

void scripted_set_handlers(struct engine *engine, const char *names)
{
    struct handle *handle = handle_of(engine);
    INVARIANT(strlen(names) < sizeof handle->handlers);
    handle->has_handlers = true;
    text_copy(handle->handlers, sizeof handle->handlers, names);
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
        scripted_remove_run(world, world->runs);
    }
    while (world->events != NULL) {
        struct scripted_event *event = world->events;
        world->events = event->next;
        scripted_free_event(event);
    }
    ledger_close(&world->ledger);
    free(world);
}

void scripted_world_push(struct scripted_world *world, const struct scripted_outcome *outcome)
{
    INVARIANT(world->outcome_count < OUTCOMES_MOST);
    world->outcomes[world->outcome_count++] = *outcome;
}

void scripted_world_plan(struct scripted_world *world, scripted_planner planner, void *context)
{
    world->planner = planner;
    world->planner_context = context;
}

void scripted_world_ask(struct scripted_world *world, const char *name)
{
    world->asked = name;
}

void scripted_world_cut(struct scripted_world *world, int64_t until_us)
{
    world->cut_until_us = until_us;
}

void scripted_world_calm(struct scripted_world *world)
{
    world->calm = true;
    world->cut_until_us = 0;
    world->outcome_count = 0;
    for (struct handle *handle = world->handles; handle != NULL; handle = handle->next) {
        handle->cut_until_us = 0;
    }
    for (struct run *run = world->runs; run != NULL; run = run->next) {
        if (run->state == RUN_ENDLESS && (run->handle != NULL || world->kind == SCRIPTED_SHARED)) {
            scripted_later(world, run, EVENT_END, scripted_now(world) + ENDS_AFTER_CALM_US);
        }
        run->outcome.never_ends = false;
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
        if (lease_end_us > scripted_now(world)) {
            next_us = lease_end_us < next_us ? lease_end_us : next_us;
        } else if (run->handle == NULL) {
            scripted_remove_run(world, run);
        } else {
            scripted_drop_run_events(world, run);
            scripted_close_in_ledger(world, run);
            run->state = RUN_KILLED;
        }
    }
    int64_t own_us = scripted_drain(world, NULL);
    return own_us < next_us ? own_us : next_us;
}

void scripted_world_reboot(struct scripted_world *world)
{
    for (struct run *run = world->runs, *next; run != NULL && world->kind == SCRIPTED_IN_NODE; run = next) {
        next = run->next;
        if (run->handle == NULL) {
            scripted_remove_run(world, run);
        }
    }
}

const struct scripted_entry *scripted_world_entry(const struct scripted_world *world, const char *id)
{
    return ledger_find(&world->ledger, id);
}

void scripted_world_end_wait(struct scripted_world *world, const char *id)
{
    struct scripted_entry *entry = ledger_find(&world->ledger, id);
    if (entry != NULL) {
        entry->parked_until_us = 0;
        entry->waits_until_us = 0;
    }
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
