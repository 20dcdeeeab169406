/* Calls become tasks, leases end, handlers come and go.
 *
 * task_hub_handle() is the function of each handler that workers name. It defers the call and puts the task into the hub. A
 * task leaves the hub in one of two ways, and only the thread that took it out answers its call:
 *
 *   1. By a report: task_reports.c answers.
 *   2. Without one, also when its worker leaves (task_claims.c): task_end() puts it among the ended ones, and
 * task_hub_step() answers. So a cancel, which holds a lock of the call, never answers itself.
 *
 * No answer is given under the lock: an answer waits for a cancel of the same call, and that waits for the lock.
 *
 * A step of task_hub_step():
 *
 *   1. Ends waits and leases that are over. A task without a lease is interrupted: the step runs again. One that was
 *      held for its worker is offered to all.
 *   2. Registers the handlers with a worker, unregisters those without. Without the lock, since the node has locks too.
 *   3. Ends the tasks of handlers that are unregistered, as without a worker. After 2, so that they do not come again.
 *   4. Answers the calls of the ended tasks, and reports how many places the workers have.
 */
#include "server/task_hub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "server/task_hub_internal.h"

#define REGISTER_AGAIN_US MICROSECONDS_PER_SECOND

/* --- tasks --- */

int64_t task_hub_now(const struct task_hub *hub)
{
    return clock_boot(hub->options.clock);
}

void task_hub_schedule(struct task_hub *hub, int64_t due_us)
{
    if (due_us < hub->next_step_us) {
        hub->next_step_us = due_us;
        (void)pthread_cond_signal(&hub->changed);
    }
}

static void task_list_add(struct task_list *list, struct task *task)
{
    task->next = NULL;
    task->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = task;
    list->last = task;
}

static void task_list_take_out(struct task_list *list, struct task *task)
{
    *(task->previous != NULL ? &task->previous->next : &list->first) = task->next;
    *(task->next != NULL ? &task->next->previous : &list->last) = task->previous;
}

/* Tasks are held for a lease at most, so nearly always the place is the last one. */
static void task_list_add_by_due(struct task_list *list, struct task *task)
{
    struct task *before = list->last;
    while (before != NULL && before->due_us > task->due_us) {
        before = before->previous;
    }
    task->previous = before;
    task->next = before != NULL ? before->next : list->first;
    *(before != NULL ? &before->next : &list->first) = task;
    *(task->next != NULL ? &task->next->previous : &list->last) = task;
}

static struct task **task_bucket(const struct task_hub *hub, const char *execution_id, const char *step)
{
    uint64_t hash = text_hash(execution_id) * 31 + text_hash(step);
    return (struct task **)(void *)&hub->tasks[(hash ^ hash >> 32) % TASK_BUCKETS];
}

struct task *task_find(const struct task_hub *hub, const char *execution_id, const char *step)
{
    struct task *task = *task_bucket(hub, execution_id, step);
    while (task != NULL && (strcmp(weir_call_execution_id(task->call), execution_id) != 0 ||
                            strcmp(weir_call_step(task->call), step) != 0)) {
        task = task->of_bucket;
    }
    return task;
}

static void task_bucket_take_out(struct task_hub *hub, const struct task *task)
{
    struct task **link = task_bucket(hub, weir_call_execution_id(task->call), weir_call_step(task->call));
    while (*link != task) {
        link = &(*link)->of_bucket;
    }
    *link = task->of_bucket;
}

static void leave_state(struct task *task)
{
    if (task->state == TASK_WAITING) {
        task_lanes_take_out(task);
    } else {
        task_list_take_out(task->state == TASK_HELD ? &task->hub->held : &task->hub->claimed, task);
    }
}

void task_move(struct task *task, enum task_state state)
{
    struct task_hub *hub = task->hub;
    INVARIANT(task->state != TASK_ENDED && state != TASK_NEW);
    if (task->state == TASK_NEW) {
        struct task **bucket = task_bucket(hub, weir_call_execution_id(task->call), weir_call_step(task->call));
        task->of_bucket = *bucket;
        *bucket = task;
        hub->open_count++;
    } else {
        leave_state(task);
    }
    if (task->state == TASK_CLAIMED) {
        hub->claimed_count--;
        task_worker_set(hub, task->worker, task->worker->is_live, task->worker->task_count - 1, task->worker->wanted + 1);
        task_worker_release(hub, task->worker);
        task->worker = NULL;
    }
    task->state = state;
    if (state == TASK_ENDED) {
        task_bucket_take_out(hub, task);
        task_lane_leave(task);
        hub->open_count--;
    } else if (state == TASK_HELD) {
        task_list_add_by_due(&hub->held, task);
        task_hub_schedule(hub, task->due_us);
    } else if (state == TASK_WAITING) {
        task_lanes_add(task);
    } else {
        task_list_add(&hub->claimed, task);
    }
}

/* To WAITING, and wakes a waiter. */
static void task_offer(struct task *task)
{
    task_move(task, TASK_WAITING);
    if (task->handler->worker_count == 0) {
        task_hub_schedule(task->hub, task_hub_now(task->hub)); /* the last worker has gone: step 3 */
    }
    task_waiter_wake_for(task->hub, task);
}

void task_lease(struct task *task, struct task_worker *worker)
{
    struct task_hub *hub = task->hub;
    task->due_us = time_add(task_hub_now(hub), hub->options.lease_us);
    if (task->state == TASK_CLAIMED) {
        task_list_take_out(&hub->claimed, task);
        task_list_add(&hub->claimed, task);
    } else {
        task_move(task, TASK_CLAIMED);
        task->worker = worker;
        /* A worker that adopts a task has claimed nothing here. */
        task_worker_set(hub, worker, worker->is_live, worker->task_count + 1, worker->wanted - (worker->wanted > 0));
        hub->claimed_count++;
    }
    task_hub_schedule(hub, task->due_us);
}

/* For another node: a task that waits has never been claimed, or has no run of a former node any more. */
static enum task_ending ending_of_leaver(const struct task *task, enum task_ending ending_of_run)
{
    return task->state == TASK_WAITING ? ENDING_UNSERVED : ending_of_run;
}

/* Step 4 answers. */
void task_end(struct task *task, enum task_ending ending)
{
    struct task_hub *hub = task->hub;
    INVARIANT(task->state != TASK_NEW && task->state != TASK_ENDED);
    if (task->state == TASK_CLAIMED) {
        text_copy(task->lost_worker, sizeof task->lost_worker, task->worker->name);
    }
    task_move(task, TASK_ENDED);
    task->ending = ending;
    task_list_add(&hub->ended, task);
    task_hub_schedule(hub, task_hub_now(hub));
}

/* --- calls --- */

/* The engine cancels the call, and keeps a lock of it meanwhile. A worker that runs the task learns it with its next
 * heartbeat. If the execution moves to another node, the worker takes the task along (task_reports.c). */
static void cancel_task(struct weir_call *call, void *context)
{
    struct task *task = context;
    struct task_hub *hub = task->hub;
    (void)pthread_mutex_lock(&hub->lock);
    task->is_cancelled = true;
    bool moves = weir_call_moves(call);
    if (task->state != TASK_NEW && task->state != TASK_ENDED && (moves || task->state != TASK_CLAIMED)) {
        task_end(task, moves ? ending_of_leaver(task, ENDING_INTERRUPTED) : ENDING_CANCELLED);
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

/* A worker of the former node may still run the step: then the task is held for the rest of one lease since the takeover.
 */
static void take_call(struct task *task)
{
    struct task_hub *hub = task->hub;
    int64_t taken_over_us = weir_call_taken_over_us(task->call);
    if (taken_over_us >= 0 && taken_over_us < hub->options.lease_us) {
        task->due_us = time_add(task_hub_now(hub), hub->options.lease_us - taken_over_us);
        task_move(task, TASK_HELD);
    } else {
        task_offer(task);
    }
    if (hub->is_stopped) {
        task_end(task, ending_of_leaver(task, ENDING_GIVEN_BACK));
    } else if (task->is_cancelled) {
        bool moves = weir_call_moves(task->call);
        task_end(task, moves ? ending_of_leaver(task, ENDING_INTERRUPTED) : ENDING_CANCELLED);
    }
}

void task_hub_handle(struct weir_call *call, void *context)
{
    static const char without_memory[] = "the node has no memory for the task";
    struct task_handler *handler = context;
    struct task *task = calloc(1, sizeof *task);
    if (task == NULL) {
        weir_interrupted(call, without_memory);
        return;
    }
    task->call = call;
    task->hub = handler->hub;
    task->handler = handler;
    (void)snprintf(task->id, sizeof task->id, "%s/%s/%d/%" PRId64, weir_call_execution_id(call), weir_call_step(call),
                   weir_call_attempt(call), weir_call_fence(call));
    weir_call_defer(call);
    weir_call_on_cancel(call, cancel_task, task); /* before another thread can answer */
    (void)pthread_mutex_lock(&handler->hub->lock);
    enum weir_status status = task_lane_join(task);
    if (status == WEIR_OK) {
        take_call(task);
    }
    (void)pthread_mutex_unlock(&handler->hub->lock);
    if (status != WEIR_OK) {
        weir_interrupted(call, without_memory);
        free(task); /* the answer has waited for a cancel that used it */
    }
}

static void answer_ended(struct task *task)
{
    char text[TASK_WORKER_NAME_MAX + 64];
    switch (task->ending) {
    case ENDING_CANCELLED:
        weir_fail(task->call, "cancelled", NULL); /* the engine knows why it has cancelled the call */
        break;
    case ENDING_INTERRUPTED:
        (void)snprintf(text, sizeof text, "the worker %s has not renewed its lease", task->lost_worker);
        weir_interrupted(task->call, text);
        break;
    case ENDING_LEFT:
        (void)snprintf(text, sizeof text, "the worker %s has left", task->lost_worker);
        engine_call_left(task->call, text);
        break;
    case ENDING_GIVEN_BACK:
        weir_give_back(task->call);
        break;
    case ENDING_UNSERVED:
        engine_call_unserved(task->call);
        break;
    }
    free(task); /* an answer has waited for a cancel that used it */
}

static void answer_all_ended(struct task *task)
{
    while (task != NULL) {
        struct task *next = task->next;
        answer_ended(task);
        task = next;
    }
}

/* --- the step --- */

static void expire_tasks(struct task_hub *hub, int64_t now_us)
{
    while (hub->held.first != NULL && hub->held.first->due_us <= now_us) {
        task_offer(hub->held.first);
    }
    while (hub->claimed.first != NULL && hub->claimed.first->due_us <= now_us) {
        struct task *task = hub->claimed.first;
        task_keep_report(hub, task->id, 0);
        /* Without another worker here, another node has to continue. */
        bool is_served = task->handler->worker_count > 0 || task->is_cancelled;
        task_end(task, is_served ? ENDING_INTERRUPTED : ENDING_UNSERVED);
    }
}

/* Whether the node must learn of it. A stopped hub leaves the node alone, which may be closed. */
static bool handler_has_changed(const struct task_handler *handler)
{
    return (handler->worker_count > 0) != handler->is_registered && !handler->hub->is_stopped;
}

/* Step 2 for one handler. The lock is released meanwhile; only this thread changes is_registered. */
static void settle_handler(struct task_hub *hub, struct task_handler *handler)
{
    bool wanted = handler->worker_count > 0;
    if (!handler_has_changed(handler) || task_hub_now(hub) < handler->again_us) {
        return;
    }
    hub->is_registering = true;
    (void)pthread_mutex_unlock(&hub->lock);
    enum weir_status status = wanted ? hub->options.register_handler(hub->options.context, &handler->handler)
                                     : hub->options.unregister_handler(hub->options.context, handler->handler.name);
    (void)pthread_mutex_lock(&hub->lock);
    hub->is_registering = false;
    (void)pthread_cond_broadcast(&hub->registered);
    if (status == WEIR_OK) {
        handler->is_registered = wanted;
    } else {
        handler->again_us = time_add(task_hub_now(hub), REGISTER_AGAIN_US);
    }
}

/* Step 3. */
static void give_back_unserved(struct task_hub *hub)
{
    for (size_t i = 0; i < hub->handler_count; i++) {
        struct task_handler *handler = hub->handlers[i];
        struct task *task;
        while (handler->worker_count == 0 && !handler->is_registered && (task = task_lanes_next(handler)) != NULL) {
            task_end(task, ENDING_UNSERVED);
        }
    }
}

/* The time of the next step; read anew, since other threads may have changed anything during step 2. */
static int64_t next_due(const struct task_hub *hub)
{
    int64_t due_us = task_workers_due(hub);
    for (size_t i = 0; i < hub->handler_count; i++) {
        const struct task_handler *handler = hub->handlers[i];
        if (handler_has_changed(handler)) {
            due_us = time_earlier(due_us, handler->again_us);
        }
    }
    if (hub->first_of_records != NULL) {
        due_us = time_earlier(due_us, hub->first_of_records->deadline_us);
    }
    if (hub->held.first != NULL) {
        due_us = time_earlier(due_us, hub->held.first->due_us);
    }
    return hub->claimed.first != NULL ? time_earlier(due_us, hub->claimed.first->due_us) : due_us;
}

int64_t task_hub_step(struct task_hub *hub)
{
    INVARIANT(hub != NULL);
    (void)pthread_mutex_lock(&hub->lock);
    int64_t now_us = task_hub_now(hub);
    task_waiters_expire(hub, now_us, false);
    task_records_expire(hub, now_us, false);
    task_workers_expire(hub, now_us);
    expire_tasks(hub, now_us);
    for (size_t i = 0; i < hub->handler_count; i++) {
        settle_handler(hub, hub->handlers[i]);
    }
    give_back_unserved(hub);
    struct task *ended = hub->ended.first;
    hub->ended = (struct task_list){.first = NULL};
    hub->next_step_us = next_due(hub);
    int64_t next_us = hub->next_step_us;
    size_t places = hub->places;
    bool has_news = places != hub->told_places && hub->options.set_places != NULL;
    hub->told_places = places;
    (void)pthread_mutex_unlock(&hub->lock);
    answer_all_ended(ended);
    if (has_news) {
        hub->options.set_places(hub->options.context, places);
    }
    return next_us;
}

/* The condition waits on the monotonic clock, which stands still while the machine sleeps. So no wait is longer than a
 * second. */
static void wait_for_step(struct task_hub *hub)
{
    (void)pthread_mutex_lock(&hub->lock);
    int64_t left_us = hub->next_step_us == TIME_NEVER ? TIME_NEVER : hub->next_step_us - task_hub_now(hub);
    if (!hub->is_closing && left_us > 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t end_us = until.tv_nsec / 1000 + time_earlier(left_us, MICROSECONDS_PER_SECOND);
        until.tv_sec += end_us / MICROSECONDS_PER_SECOND;
        until.tv_nsec = end_us % MICROSECONDS_PER_SECOND * 1000;
        (void)pthread_cond_timedwait(&hub->changed, &hub->lock, &until);
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

static bool hub_is_closing(struct task_hub *hub)
{
    (void)pthread_mutex_lock(&hub->lock);
    bool closes = hub->is_closing;
    (void)pthread_mutex_unlock(&hub->lock);
    return closes;
}

static void *run_hub_thread(void *context)
{
    struct task_hub *hub = context;
    while (!hub_is_closing(hub)) {
        (void)task_hub_step(hub);
        wait_for_step(hub);
    }
    return NULL;
}

/* --- life --- */

enum weir_status task_hub_open(const struct task_hub_options *options, struct task_hub **ret_hub, struct weir_error *error)
{
    INVARIANT(options != NULL && options->clock != NULL && options->register_handler != NULL && ret_hub != NULL);
    int64_t lease_us = options->lease_us == 0 ? TASK_LEASE_DEFAULT_US : options->lease_us;
    if (lease_us < TASK_LEASE_LEAST_US || lease_us > TASK_LEASE_MOST_US) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the lease of tasks is between 1s and 10m");
    }
    struct task_hub *hub = calloc(1, sizeof *hub);
    if (hub != NULL) {
        hub->kept = calloc(TASK_REPORTS_KEPT, sizeof *hub->kept);
        hub->kept_buckets = calloc(REPORT_BUCKETS, sizeof *hub->kept_buckets);
    }
    if (hub == NULL || hub->kept == NULL || hub->kept_buckets == NULL) {
        if (hub != NULL) {
            free(hub->kept);
            free(hub->kept_buckets);
        }
        free(hub);
        return error_out_of_memory(error);
    }
    hub->options = *options;
    hub->options.lease_us = lease_us;
    hub->next_step_us = TIME_NEVER;
    hub->told_places = SIZE_MAX;
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&hub->lock, NULL);
    (void)pthread_cond_init(&hub->changed, &attributes);
    (void)pthread_cond_init(&hub->registered, NULL);
    (void)pthread_condattr_destroy(&attributes);
    *ret_hub = hub;
    return WEIR_OK;
}

enum weir_status task_hub_run_thread(struct task_hub *hub, struct weir_error *error)
{
    INVARIANT(hub != NULL && !hub->has_thread);
    int native = thread_start(&hub->thread, run_hub_thread, hub);
    hub->has_thread = native == 0;
    return native == 0
               ? WEIR_OK
               : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for the tasks of workers");
}

void task_hub_stop(struct task_hub *hub)
{
    INVARIANT(hub != NULL);
    (void)pthread_mutex_lock(&hub->lock);
    hub->is_stopped = true;
    task_waiters_expire(hub, task_hub_now(hub), true);
    task_records_expire(hub, task_hub_now(hub), true);
    struct task_list *lists[] = {&hub->held, &hub->claimed};
    for (size_t i = 0; i < 2; i++) {
        while (lists[i]->first != NULL) {
            task_end(lists[i]->first, ENDING_GIVEN_BACK);
        }
    }
    for (size_t i = 0; i < hub->handler_count; i++) {
        struct task *task;
        while ((task = task_lanes_next(hub->handlers[i])) != NULL) {
            task_end(task, ENDING_UNSERVED);
        }
    }
    task_hub_schedule(hub, task_hub_now(hub));
    while (hub->is_registering) {
        (void)pthread_cond_wait(&hub->registered, &hub->lock);
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

void task_hub_close(struct task_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&hub->lock);
    hub->is_closing = true;
    (void)pthread_cond_signal(&hub->changed);
    (void)pthread_mutex_unlock(&hub->lock);
    if (hub->has_thread) {
        (void)pthread_join(hub->thread, NULL);
    }
    answer_all_ended(hub->ended.first);
    INVARIANT(hub->open_count == 0 && hub->first_waiter == NULL && hub->first_of_records == NULL);
    task_workers_free(hub);
    for (size_t i = 0; i < hub->handler_count; i++) {
        free((void *)hub->handlers[i]->handler.name);
        free(hub->handlers[i]);
    }
    (void)pthread_cond_destroy(&hub->changed);
    (void)pthread_cond_destroy(&hub->registered);
    (void)pthread_mutex_destroy(&hub->lock);
    free(hub->kept);
    free(hub->kept_buckets);
    free(hub);
}

struct task_figures task_hub_figures(struct task_hub *hub)
{
    INVARIANT(hub != NULL);
    (void)pthread_mutex_lock(&hub->lock);
    struct task_figures figures = {
        .waiting = hub->open_count - hub->claimed_count, .claimed = hub->claimed_count, .places = hub->places};
    for (size_t i = 0; i < WORKER_BUCKETS; i++) {
        for (const struct task_worker *worker = hub->workers[i]; worker != NULL; worker = worker->of_bucket) {
            figures.workers += worker->is_live;
        }
    }
    (void)pthread_mutex_unlock(&hub->lock);
    return figures;
}
