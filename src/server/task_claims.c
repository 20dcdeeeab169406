/* Workers, and the claims of tasks.
 *
 * A worker is live from its first claim until it has sent nothing for one lease. Its handlers are those of its last claim.
 * While a claim of it waits, its lease does not run.
 *
 * A worker that leaves is live no more at once. Its tasks do not wait for the ends of their leases, but for those that it
 * still runs: another run of the step could overlap with them.
 *
 * A claim that finds no task waits without a thread. Its waiter is in a list. A task that comes later wakes the first
 * waiter of a worker with the handler. The waiter then claims again. Another claim may have taken the task meanwhile;
 * then it waits for the rest of its time.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/definition.h"
#include "server/task_hub_internal.h"

/* --- workers --- */

static struct task_worker **worker_bucket(const struct task_hub *hub, const char *name)
{
    uint64_t hash = text_hash(name);
    return (struct task_worker **)(void *)&hub->workers[(hash ^ hash >> 32) % WORKER_BUCKETS];
}

struct task_worker *task_worker_find(const struct task_hub *hub, int64_t token_id, const char *name)
{
    struct task_worker *worker = *worker_bucket(hub, name);
    while (worker != NULL && (worker->token_id != token_id || strcmp(worker->name, name) != 0)) {
        worker = worker->of_bucket;
    }
    return worker;
}

/* A bound of one token leaves places for the others. Counted only when it can be reached. */
static bool has_workers_enough(const struct task_hub *hub, int64_t token_id)
{
    size_t count = 0;
    for (size_t i = 0; i < WORKER_BUCKETS && hub->worker_count >= TASK_WORKERS_OF_TOKEN_MAX; i++) {
        for (const struct task_worker *worker = hub->workers[i]; worker != NULL; worker = worker->of_bucket) {
            count += worker->token_id == token_id;
        }
    }
    return token_id != 0 && count >= TASK_WORKERS_OF_TOKEN_MAX;
}

enum weir_status task_worker_get(struct task_hub *hub, int64_t token_id, const char *name, struct task_worker **ret_worker,
                                 struct weir_error *error)
{
    struct task_worker *worker = task_worker_find(hub, token_id, name);
    if (worker == NULL && hub->worker_count >= TASK_WORKERS_MAX) {
        return error_set(error, WEIR_QUEUE_FULL, "this node has %d workers already", TASK_WORKERS_MAX);
    }
    if (worker == NULL && has_workers_enough(hub, token_id)) {
        return error_set(error, WEIR_QUEUE_FULL, "this node has %d workers with this token already",
                         TASK_WORKERS_OF_TOKEN_MAX);
    }
    if (worker == NULL) {
        worker = calloc(1, sizeof *worker);
        if (worker == NULL) {
            return error_out_of_memory(error);
        }
        struct task_worker **bucket = worker_bucket(hub, name);
        text_copy(worker->name, sizeof worker->name, name);
        worker->token_id = token_id;
        worker->of_bucket = *bucket;
        *bucket = worker;
        hub->worker_count++;
    }
    *ret_worker = worker;
    return WEIR_OK;
}

static size_t places_of(const struct task_worker *worker)
{
    return worker->is_live ? worker->task_count + worker->wanted : 0;
}

void task_worker_set(struct task_hub *hub, struct task_worker *worker, bool is_live, size_t task_count, size_t wanted)
{
    hub->places -= places_of(worker);
    worker->is_live = is_live;
    worker->task_count = task_count;
    worker->wanted = wanted;
    hub->places += places_of(worker);
    if (hub->places != hub->told_places && hub->options.set_places != NULL) {
        task_hub_schedule(hub, task_hub_now(hub));
    }
}

static bool is_in_due_list(const struct task_worker *worker)
{
    return worker->is_live && worker->waits == 0;
}

/* The worker is live, and no claim of it waits. */
static void leave_due_list(struct task_hub *hub, struct task_worker *worker)
{
    *(worker->previous != NULL ? &worker->previous->next : &hub->first_worker) = worker->next;
    *(worker->next != NULL ? &worker->next->previous : &hub->last_worker) = worker->previous;
}

/* All leases have one length, so the end is the place of the latest. */
static void join_due_list(struct task_hub *hub, struct task_worker *worker)
{
    worker->due_us = time_add(task_hub_now(hub), hub->options.lease_us);
    worker->next = NULL;
    worker->previous = hub->last_worker;
    *(worker->previous != NULL ? &worker->previous->next : &hub->first_worker) = worker;
    hub->last_worker = worker;
    task_hub_schedule(hub, worker->due_us);
}

void task_worker_touch(struct task_hub *hub, struct task_worker *worker)
{
    if (is_in_due_list(worker)) {
        leave_due_list(hub, worker);
    }
    task_worker_set(hub, worker, true, worker->task_count, worker->wanted);
    if (is_in_due_list(worker)) {
        join_due_list(hub, worker);
    }
}

void task_worker_release(struct task_hub *hub, struct task_worker *worker)
{
    if (worker->is_live || worker->task_count > 0) {
        return;
    }
    struct task_worker **link = worker_bucket(hub, worker->name);
    while (*link != worker) {
        link = &(*link)->of_bucket;
    }
    *link = worker->of_bucket;
    hub->worker_count--;
    free(worker);
}

/* Counts the new ones first: a handler of both must not lose its last worker in between. */
static void worker_set_handlers(struct task_worker *worker, struct task_handler *const *handlers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        handlers[i]->worker_count++;
    }
    for (size_t i = 0; i < worker->handler_count; i++) {
        worker->handlers[i]->worker_count--;
    }
    for (size_t i = 0; i < count; i++) {
        worker->handlers[i] = handlers[i];
    }
    worker->handler_count = count;
}

/* Its tasks have leases of their own, which end no later. */
void task_workers_expire(struct task_hub *hub, int64_t now_us)
{
    for (struct task_worker *worker = hub->first_worker, *next; worker != NULL && worker->due_us <= now_us; worker = next) {
        next = worker->next;
        leave_due_list(hub, worker);
        task_worker_set(hub, worker, false, worker->task_count, 0);
        worker_set_handlers(worker, NULL, 0);
        task_worker_release(hub, worker);
    }
}

void task_workers_free(struct task_hub *hub)
{
    for (size_t i = 0; i < WORKER_BUCKETS; i++) {
        while (hub->workers[i] != NULL) {
            struct task_worker *worker = hub->workers[i];
            hub->workers[i] = worker->of_bucket;
            free(worker);
        }
    }
}

/* --- waiters --- */

static void waiter_take_out(struct task_hub *hub, struct task_waiter *waiter)
{
    *(waiter->previous != NULL ? &waiter->previous->next : &hub->first_waiter) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &hub->last_waiter) = waiter->previous;
    waiter->is_waiting = false;
    waiter->worker->waits--;
    if (is_in_due_list(waiter->worker)) { /* from now on: its lease begins */
        join_due_list(hub, waiter->worker);
    }
}

/* The lease of the worker does not run while a claim of it waits. */
static void waiter_add(struct task_hub *hub, struct task_waiter *waiter, struct task_worker *worker,
                       const struct task_claim *claim)
{
    if (is_in_due_list(worker)) {
        leave_due_list(hub, worker);
    }
    worker->waits++;
    waiter->worker = worker;
    waiter->deadline_us = claim->deadline_us;
    waiter->is_waiting = true;
    waiter->next = NULL;
    waiter->previous = hub->last_waiter;
    *(waiter->previous != NULL ? &waiter->previous->next : &hub->first_waiter) = waiter;
    hub->last_waiter = waiter;
    task_hub_schedule(hub, waiter->deadline_us);
}

static void wake_waiter(struct task_hub *hub, struct task_waiter *waiter)
{
    waiter_take_out(hub, waiter);
    waiter->wake(waiter);
}

static bool worker_has_handler(const struct task_worker *worker, const struct task_handler *handler)
{
    for (size_t i = 0; i < worker->handler_count; i++) {
        if (worker->handlers[i] == handler) {
            return true;
        }
    }
    return false;
}

void task_waiter_wake_for(struct task_hub *hub, const struct task *task)
{
    for (struct task_waiter *waiter = hub->first_waiter; waiter != NULL; waiter = waiter->next) {
        if (worker_has_handler(waiter->worker, task->handler)) {
            wake_waiter(hub, waiter);
            return;
        }
    }
}

void task_hub_pass_wake(struct task_hub *hub)
{
    INVARIANT(hub != NULL);
    (void)pthread_mutex_lock(&hub->lock);
    for (size_t i = 0; i < hub->handler_count; i++) {
        const struct task *task = task_lanes_next(hub->handlers[i]);
        if (task != NULL) {
            task_waiter_wake_for(hub, task);
        }
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

void task_waiters_expire(struct task_hub *hub, int64_t now_us, bool all)
{
    struct task_waiter *next;
    for (struct task_waiter *waiter = hub->first_waiter; waiter != NULL; waiter = next) {
        next = waiter->next;
        if (all || waiter->deadline_us <= now_us) {
            wake_waiter(hub, waiter);
        }
    }
}

int64_t task_workers_due(const struct task_hub *hub)
{
    int64_t due_us = hub->first_worker != NULL ? hub->first_worker->due_us : TIME_NEVER;
    for (const struct task_waiter *waiter = hub->first_waiter; waiter != NULL; waiter = waiter->next) {
        due_us = time_earlier(due_us, waiter->deadline_us);
    }
    return due_us;
}

/* --- the end of a worker --- */

static void end_waits_of(struct task_hub *hub, const struct task_worker *worker)
{
    struct task_waiter *next;
    for (struct task_waiter *waiter = hub->first_waiter; waiter != NULL; waiter = next) {
        next = waiter->next;
        if (waiter->worker == worker) {
            waiter->has_left = true;
            wake_waiter(hub, waiter);
        }
    }
}

static void mark_kept(struct task_hub *hub, const struct task_worker *worker, const struct task_leave *leave)
{
    for (size_t i = 0; i < leave->keep_count; i++) {
        struct task *task = task_find_id(hub, leave->keeps[i]);
        if (task != NULL && task->state == TASK_CLAIMED && task->worker == worker &&
            strcmp(task->id, leave->keeps[i]) == 0) {
            task->is_kept = true;
        }
    }
}

/* Without another worker here, another node has to continue. */
static size_t end_tasks_of(struct task_hub *hub, const struct task_worker *worker)
{
    size_t count = 0;
    struct task *next;
    for (struct task *task = hub->claimed.first; task != NULL; task = next) {
        next = task->next;
        if (task->worker == worker && !task->is_kept) {
            bool is_served = task->handler->worker_count > 0 || task->is_cancelled;
            task_keep_report(hub, task->id, 0);
            task_end(task, is_served ? ENDING_LEFT : ENDING_UNSERVED);
            count++;
        }
        task->is_kept = false;
    }
    return count;
}

/* The worker stays live until its tasks have ended, so that none of them frees it. Its handlers go first: a task has to
 * leave the node with its last worker. */
size_t task_hub_leave(struct task_hub *hub, const struct task_leave *leave)
{
    INVARIANT(hub != NULL && leave != NULL && leave->worker != NULL);
    size_t count = 0;
    (void)pthread_mutex_lock(&hub->lock);
    struct task_worker *worker = task_worker_find(hub, leave->token_id, leave->worker);
    if (worker != NULL) {
        task_worker_touch(hub, worker); /* live, also if it has only kept tasks since it left before */
        end_waits_of(hub, worker);
        worker_set_handlers(worker, NULL, 0);
        mark_kept(hub, worker, leave);
        count = end_tasks_of(hub, worker);
        leave_due_list(hub, worker);
        task_worker_set(hub, worker, false, worker->task_count, 0);
        task_worker_release(hub, worker);
        task_hub_schedule(hub, task_hub_now(hub)); /* handlers without a worker are unregistered */
    }
    (void)pthread_mutex_unlock(&hub->lock);
    return count;
}

/* --- claims --- */

static struct task_handler *task_handler_find(const struct task_hub *hub, const char *name)
{
    for (size_t i = 0; i < hub->handler_count; i++) {
        if (strcmp(hub->handlers[i]->handler.name, name) == 0) {
            return hub->handlers[i];
        }
    }
    return NULL;
}

static size_t count_handlers_of(const struct task_hub *hub, int64_t token_id)
{
    size_t count = 0;
    for (size_t i = 0; i < hub->handler_count; i++) {
        count += hub->handlers[i]->token_id == token_id;
    }
    return count;
}

/* Handlers stay for the life of the hub, because the engine may call one for as long. */
static enum weir_status task_handler_get(struct task_hub *hub, int64_t token_id, const char *name,
                                         struct task_handler **ret_handler, struct weir_error *error)
{
    struct task_handler *handler = task_handler_find(hub, name);
    if (handler == NULL && token_id != 0 && count_handlers_of(hub, token_id) >= TASK_HANDLERS_OF_TOKEN_MAX) {
        return error_set(error, WEIR_QUEUE_FULL, "workers with this token have named %d different handlers on this node",
                         TASK_HANDLERS_OF_TOKEN_MAX);
    }
    if (handler == NULL && hub->handler_count == TASK_HANDLERS_MAX) {
        return error_set(error, WEIR_QUEUE_FULL, "workers have named %d different handlers on this node",
                         TASK_HANDLERS_MAX);
    }
    if (handler == NULL) {
        handler = calloc(1, sizeof *handler);
        char *copy = strdup(name);
        if (handler == NULL || copy == NULL) {
            free(handler);
            free(copy);
            return error_out_of_memory(error);
        }
        fair_queue_init(&handler->waiting, SIZE_MAX, 0);
        handler->hub = hub;
        handler->token_id = token_id;
        handler->handler = (struct weir_handler){.name = copy, .function = task_hub_handle, .context = handler};
        hub->handlers[hub->handler_count++] = handler;
    }
    *ret_handler = handler;
    return WEIR_OK;
}

/* Without the lock: nothing of the hub is read. */
static enum weir_status check_claim(const struct task_claim *claim, struct weir_error *error)
{
    size_t length = claim->worker == NULL ? 0 : strlen(claim->worker);
    if (length == 0 || length > TASK_WORKER_NAME_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "`worker` is a name of 1 to %d bytes", TASK_WORKER_NAME_MAX);
    }
    if (claim->handler_count == 0 || claim->handler_count > TASK_WORKER_HANDLERS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "`handlers` has 1 to %d names", TASK_WORKER_HANDLERS_MAX);
    }
    if (claim->max > TASK_CLAIM_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "`max` is 0 to %d", TASK_CLAIM_MAX);
    }
    for (size_t i = 0; i < claim->handler_count; i++) {
        if (!name_is_valid(claim->handlers[i])) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" cannot be a handler: use a name like \"send-mail\"",
                             claim->handlers[i]);
        }
    }
    return WEIR_OK;
}

/* The worker as the claim describes it. */
static enum weir_status take_worker(struct task_hub *hub, const struct task_claim *claim, struct task_worker **ret_worker,
                                    struct weir_error *error)
{
    struct task_handler *handlers[TASK_WORKER_HANDLERS_MAX];
    for (size_t i = 0; i < claim->handler_count; i++) {
        enum weir_status status = task_handler_get(hub, claim->token_id, claim->handlers[i], &handlers[i], error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    struct task_worker *worker;
    enum weir_status status = task_worker_get(hub, claim->token_id, claim->worker, &worker, error);
    if (status != WEIR_OK) {
        return status;
    }
    worker_set_handlers(worker, handlers, claim->handler_count);
    task_worker_touch(hub, worker);
    task_worker_set(hub, worker, true, worker->task_count, claim->max);
    for (size_t i = 0; i < claim->handler_count; i++) {
        if (!handlers[i]->is_registered) {
            task_hub_schedule(hub, task_hub_now(hub));
        }
    }
    *ret_worker = worker;
    return WEIR_OK;
}

/* Written without a JSON value: a claim writes a hundred of them under the lock. The input is JSON text, and goes to the
 * worker as it is. */
static enum weir_status write_task(const struct task *task, struct text *answer, struct weir_error *error)
{
    const struct weir_call *call = task->call;
    int64_t left_us = weir_call_time_left_us(call);
    const char *traceparent = weir_call_traceparent(call);
    char key[TASK_ID_MAX];
    char timeout[24] = "null";
    (void)snprintf(key, sizeof key, "%s/%s", weir_call_execution_id(call), weir_call_step(call));
    if (left_us >= 0) {
        (void)snprintf(timeout, sizeof timeout, "%" PRId64, left_us);
    }
    const char *const texts[][2] = {{"{\"task\":", task->id},
                                    {",\"execution_id\":", weir_call_execution_id(call)},
                                    {",\"workspace\":", weir_call_workspace(call)},
                                    {",\"step\":", weir_call_step(call)},
                                    {",\"handler\":", task->handler->handler.name},
                                    {",\"idempotency_key\":", key}};
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == WEIR_OK; i++) {
        status = text_add_string(answer, texts[i][0]);
        status = status == WEIR_OK ? json_write_string(texts[i][1], answer, error) : status;
    }
    if (status == WEIR_OK) {
        status = text_format(answer, ",\"attempt\":%d,\"fence\":%" PRId64 ",\"timeout_us\":%s,\"traceparent\":",
                             weir_call_attempt(call), weir_call_fence(call), timeout);
    }
    if (status == WEIR_OK) {
        status = traceparent == NULL ? text_add_string(answer, "null") : json_write_string(traceparent, answer, error);
    }
    if (status == WEIR_OK) {
        status = text_add_string(answer, ",\"input\":");
    }
    if (status == WEIR_OK) {
        status = text_add_string(answer, weir_call_input(call));
    }
    return status == WEIR_OK ? text_add_string(answer, "}") : status;
}

enum { ANSWER_END_MAX = 80 };

/* Claims tasks of one handler until `max` have been claimed, or the answer is full. */
static enum weir_status claim_waiting(struct task_worker *worker, struct task_handler *handler,
                                      const struct task_claim *claim, size_t *count, struct text *answer)
{
    enum weir_status status = WEIR_OK;
    struct task *task;
    while ((task = task_lanes_next(handler)) != NULL && *count < claim->max && status == WEIR_OK) {
        size_t before = answer->length;
        status = *count > 0 ? text_add_string(answer, ",") : WEIR_OK;
        status = status == WEIR_OK ? write_task(task, answer, NULL) : status;
        if (status != WEIR_OK || answer->length + ANSWER_END_MAX > answer->max) {
            answer->length = before;
            return status == WEIR_OUT_OF_MEMORY ? status : WEIR_FAILED;
        }
        task_lease(task, worker);
        (*count)++;
    }
    return status;
}

/* The handlers in the order of the claim. An answer that is full is no failure, if it has a task. */
static enum weir_status claim_all(struct task_worker *worker, const struct task_claim *claim, struct text *answer,
                                  size_t *ret_count, struct weir_error *error)
{
    enum weir_status status = text_add_string(answer, "{\"tasks\":[");
    size_t count = 0;
    for (size_t i = 0; i < worker->handler_count && status == WEIR_OK; i++) {
        status = claim_waiting(worker, worker->handlers[i], claim, &count, answer);
    }
    if (status == WEIR_FAILED && count > 0) {
        status = WEIR_OK; /* the answer is full */
    }
    if (status != WEIR_OK && count == 0) {
        return status == WEIR_OUT_OF_MEMORY ? error_out_of_memory(error)
                                            : error_set(error, status, "the task does not fit into an answer");
    }
    *ret_count = count;
    return WEIR_OK; /* without memory the claimed tasks are in the answer all the same */
}

enum weir_status task_hub_claim(struct task_hub *hub, const struct task_claim *claim, struct task_waiter *waiter,
                                struct text *answer, struct weir_error *error)
{
    INVARIANT(hub != NULL && claim != NULL && answer != NULL && answer->length == 0);
    struct task_worker *worker;
    size_t count = 0;
    enum weir_status status = check_claim(claim, error);
    if (status != WEIR_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&hub->lock);
    status = hub->is_stopped ? error_set(error, WEIR_STOPPED, "this node stops: claim at another one") : WEIR_OK;
    if (status == WEIR_OK) {
        status = take_worker(hub, claim, &worker, error);
    }
    if (status == WEIR_OK) {
        status = claim_all(worker, claim, answer, &count, error);
    }
    if (status == WEIR_OK && count == 0 && waiter != NULL && claim->max > 0 && claim->deadline_us > task_hub_now(hub)) {
        text_clear(answer);
        waiter_add(hub, waiter, worker, claim);
    }
    int64_t lease_us = hub->options.lease_us;
    int64_t waited_us = time_later(0, task_hub_now(hub) - claim->arrived_us);
    (void)pthread_mutex_unlock(&hub->lock);
    if (status == WEIR_OK && answer->length > 0) {
        status = text_format(answer, "],\"lease_us\":%" PRId64 ",\"waited_us\":%" PRId64 "}", lease_us, waited_us);
    }
    return status;
}
