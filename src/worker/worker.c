/* The life of a worker: opening, the loop of its thread, the stop.
 *
 * A turn of the loop:
 *
 *   1. Reads what other threads want: other handlers, a pause, a stop. A claim that must not go on is aborted; tasks of an
 *      answer that is on its way then are given to another worker when their leases end.
 *   2. Takes the results of handlers, and ends leases.
 *   3. Sends the requests that are due (requests.c).
 *   4. Waits in libcurl for answers, until the next thing is due or another thread wakes it.
 *   5. Handles the answers.
 *
 * The last turns of a worker that stops or closes await the answers to its leave.
 *
 * No wait is longer than a second, because libcurl's clock stands still while the machine sleeps. */
#include "worker/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"
#include "worker/worker_internal.h"

/* Of the machine: a simulated clock has no servers. */
int64_t worker_now(const struct worker *worker)
{
    return clock_boot(worker->clock);
}

/* Any thread; libcurl remembers it when the worker does not wait. */
void worker_wake(struct worker *worker)
{
    (void)curl_multi_wakeup(worker->multi);
}

/* --- what others see --- */

void worker_note_failure(struct worker *worker, const char *verb, const struct weir_error *error)
{
    event_emit(worker->events, &(struct event){.type = EVENT_STORE_FAILED,
                                               .node = worker->name,
                                               .reason = verb,
                                               .code = weir_status_name(error->status),
                                               .error = error->message});
}

/* The latest claim decides. */
void worker_note_health(struct worker *worker, const struct weir_error *error)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->health = error != NULL ? *error : (struct weir_error){.status = WEIR_OK};
    (void)pthread_mutex_unlock(&worker->lock);
}

enum weir_status worker_health(struct worker *worker, struct weir_error *error)
{
    (void)pthread_mutex_lock(&worker->lock);
    struct weir_error health = worker->health;
    (void)pthread_mutex_unlock(&worker->lock);
    if (health.status != WEIR_OK && error != NULL) {
        *error = health;
    }
    return health.status;
}

/* --- orders --- */

enum weir_status worker_name_handlers(struct worker *worker, const json_t *names, struct weir_error *error)
{
    INVARIANT(worker != NULL && json_is_array(names));
    if (json_array_size(names) > WORKER_HANDLERS_MAX) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a node on a server has at most %d handlers, and this one has %zu",
                  WORKER_HANDLERS_MAX, json_array_size(names));
        error_hint(error, "open a second node for the other handlers");
        return WEIR_INVALID_ARGUMENT;
    }
    json_t *copy = json_deep_copy(names);
    if (copy == NULL) {
        return error_out_of_memory(error);
    }
    (void)pthread_mutex_lock(&worker->lock);
    json_decref(worker->handlers);
    worker->handlers = copy;
    (void)pthread_mutex_unlock(&worker->lock);
    worker_wake(worker);
    return WEIR_OK;
}

/* A claim that waits is aborted in the next turn. */
void worker_pause(struct worker *worker, bool paused)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->is_paused = paused;
    (void)pthread_mutex_unlock(&worker->lock);
    worker_wake(worker);
}

/* Without a thread there is no task. */
void worker_begin_stop(struct worker *worker, bool interrupt)
{
    (void)pthread_mutex_lock(&worker->lock);
    if (worker->stop != WORKER_INTERRUPTS) {
        worker->stop = interrupt ? WORKER_INTERRUPTS : WORKER_DRAINS;
    }
    worker->is_stopped = worker->is_stopped || !worker->has_thread;
    (void)pthread_mutex_unlock(&worker->lock);
    worker_wake(worker);
}

bool worker_is_stopped(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    bool is_stopped = worker->is_stopped;
    (void)pthread_mutex_unlock(&worker->lock);
    return is_stopped;
}

enum weir_status worker_await_stop(struct worker *worker, int64_t deadline_us, bool *ret_graceful, struct weir_error *error)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end_us = time_add(until.tv_nsec / 1000, deadline_us < 0 ? 0 : deadline_us);
    until.tv_sec += end_us / MICROSECONDS_PER_SECOND;
    until.tv_nsec = end_us % MICROSECONDS_PER_SECOND * 1000;
    int native = 0;
    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->is_stopped && native != ETIMEDOUT) {
        native = pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    bool is_stopped = worker->is_stopped;
    bool is_graceful = !worker->is_interrupted;
    (void)pthread_mutex_unlock(&worker->lock);
    if (!is_stopped) {
        return error_set(error, WEIR_TIMED_OUT, "the node is still stopping");
    }
    if (ret_graceful != NULL) {
        *ret_graceful = is_graceful;
    }
    return WEIR_OK;
}

/* --- the thread --- */

struct orders {
    enum worker_stop stop;
    bool is_closing;
    bool claims;
};

/* Step 1. */
static struct orders take_orders(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    struct orders orders = {.stop = worker->stop,
                            .is_closing = worker->is_closing,
                            .claims = worker->stop == WORKER_RUNS && !worker->is_paused && !worker->is_closing};
    bool has_new_handlers = worker->handlers != NULL;
    bool has_new_logs = worker->has_new_logs;
    int64_t log_delay_us = worker->has_full_log ? 0 : WORKER_LOG_DELAY_US;
    worker->has_new_logs = false;
    worker->has_full_log = false;
    if (has_new_handlers) {
        json_decref(worker->names);
        worker->names = worker->handlers;
        worker->handlers = NULL;
    }
    (void)pthread_mutex_unlock(&worker->lock);
    if (has_new_handlers || !orders.claims) {
        worker_abort_claim(worker);
    }
    for (size_t i = 0; i < worker->server_count && has_new_logs; i++) {
        int64_t *due_us = &worker->servers[i].beat_due_us;
        *due_us = *due_us == TIME_NEVER ? TIME_NEVER : time_earlier(*due_us, time_add(worker_now(worker), log_delay_us));
    }
    if (orders.stop == WORKER_INTERRUPTS && !worker->was_interrupted) {
        worker->was_interrupted = true;
        worker_interrupt_runs(worker);
    }
    return orders;
}

/* A claim of the thread may have begun tasks until this turn. */
static void note_stop(struct worker *worker, const struct orders *orders)
{
    if (orders->stop == WORKER_RUNS || worker->run_count > 0 || !worker_leave(worker, worker_now(worker))) {
        return;
    }
    (void)pthread_mutex_lock(&worker->lock);
    bool was_stopped = worker->is_stopped;
    worker->is_stopped = true;
    bool is_graceful = !worker->is_interrupted;
    (void)pthread_cond_broadcast(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
    if (!was_stopped) {
        event_emit(worker->events, &(struct event){.type = EVENT_NODE_STOPPED,
                                                   .node = worker->name,
                                                   .reason = is_graceful ? "graceful" : "interrupted"});
    }
}

/* The five steps. */
static void *run_worker(void *context)
{
    struct worker *worker = context;
    for (;;) {
        struct orders orders = take_orders(worker);
        worker_collect_results(worker);
        if (orders.is_closing && worker_leave(worker, worker_now(worker))) {
            return NULL;
        }
        int64_t now_us = worker_now(worker);
        int64_t due_us = worker_end_leases(worker, now_us);
        due_us = time_earlier(due_us, worker_send_due(worker, now_us, orders.claims));
        note_stop(worker, &orders);
        int running;
        (void)curl_multi_perform(worker->multi, &running);
        int64_t wait_us = time_earlier(due_us, time_add(now_us, MICROSECONDS_PER_SECOND)) - worker_now(worker);
        int wait_ms = time_to_poll_ms(wait_us);
        (void)curl_multi_poll(worker->multi, NULL, 0, wait_ms > 1000 ? 1000 : wait_ms, NULL);
        (void)curl_multi_perform(worker->multi, &running);
        worker_take_answers(worker);
    }
}

enum weir_status worker_run_thread(struct worker *worker, struct weir_error *error)
{
    INVARIANT(worker != NULL && !worker->has_thread);
    worker->has_thread = true; /* before a stop can ask for it */
    int native = thread_start(&worker->thread, run_worker, worker);
    if (native != 0) {
        worker->has_thread = false;
        return error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for the worker");
    }
    event_emit(worker->events, &(struct event){.type = EVENT_NODE_STARTED, .node = worker->name, .group = worker->group});
    return WEIR_OK;
}

/* --- opening and closing --- */

/* A name of the worker's own has a random number: a restarted process must not have the tasks of the one before. */
static enum weir_status set_names(struct worker *worker, const struct worker_options *options, struct weir_error *error)
{
    const char *name = options->name == NULL ? "" : options->name;
    const char *group = options->group == NULL ? "" : options->group;
    if (strlen(name) > WORKER_NAME_MAX || (options->name != NULL && name[0] == '\0')) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the name of a node has 1 to %d bytes", WORKER_NAME_MAX);
    }
    if (strlen(group) > WORKER_GROUP_MAX || (options->group != NULL && group[0] == '\0')) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the name of an executor group has 1 to %d bytes", WORKER_GROUP_MAX);
    }
    if (!text_is_utf8(name, strlen(name)) || !text_is_utf8(group, strlen(group))) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the names of a node and its group must be UTF-8");
    }
    text_copy(worker->group, sizeof worker->group, group);
    text_copy(worker->name, sizeof worker->name, name);
    if (options->name == NULL) {
        char host[64] = "worker";
        struct random random;
        random_seed_from_system(&random);
        (void)gethostname(host, sizeof host - 1);
        (void)snprintf(worker->name, sizeof worker->name, "%s-%ld-%08" PRIx64, host, (long)getpid(),
                       random_next(&random) & 0xffffffff);
    }
    return WEIR_OK;
}

enum weir_status worker_open(const struct worker_options *options, struct worker **ret_worker, struct weir_error *error)
{
    INVARIANT(options != NULL && options->url != NULL && options->engine != NULL && ret_worker != NULL);
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL) {
        return error_out_of_memory(error);
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    worker->engine = options->engine;
    worker->events = options->events;
    worker->clock = clock_system();
    worker->tasks_max = options->tasks_max == 0                 ? WORKER_TASKS_DEFAULT
                        : options->tasks_max > WORKER_TASKS_MAX ? WORKER_TASKS_MAX
                                                                : options->tasks_max;
    worker->lease_us = WORKER_LEASE_US;
    worker->claim_pause_us = WORKER_PAUSE_FIRST_US;
    worker->names = json_array();
    enum weir_status status = remote_client_open(&worker->model, options->url, NULL, NULL, error);
    status = status == WEIR_OK ? set_names(worker, options, error) : status;
    if (status == WEIR_OK) {
        worker->multi = curl_multi_init();
        status = worker->multi == NULL || worker->names == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    if (status != WEIR_OK) {
        worker_close(worker);
        return status;
    }
    worker->server_count = worker->model.server_count;
    for (size_t i = 0; i < worker->server_count; i++) {
        worker->servers[i].beat_due_us = TIME_NEVER;
    }
    struct random random;
    random_seed_from_system(&random);
    worker->home = random_below(&random, worker->server_count); /* the workers of a fleet share the servers */
    engine_set_sink(worker->engine, (struct report_sink){.context = worker,
                                                         .called = worker_take_result,
                                                         .output = worker_take_output,
                                                         .progress = worker_take_progress});
    *ret_worker = worker;
    return WEIR_OK;
}

/* The sink is taken away first, so no thread of the engine is in it when the runs are freed. */
void worker_close(struct worker *worker)
{
    if (worker == NULL) {
        return;
    }
    if (worker->has_thread) {
        (void)pthread_mutex_lock(&worker->lock);
        worker->is_closing = true;
        (void)pthread_mutex_unlock(&worker->lock);
        worker_wake(worker);
        (void)pthread_join(worker->thread, NULL);
    }
    engine_set_sink(worker->engine, (struct report_sink){.context = NULL});
    if (worker->multi != NULL) {
        worker_collect_results(worker);
        worker_close_requests(worker);
        worker_free_runs(worker);
        (void)curl_multi_cleanup(worker->multi);
    }
    remote_client_close(&worker->model);
    json_decref(worker->names);
    json_decref(worker->handlers);
    (void)pthread_mutex_destroy(&worker->lock);
    (void)pthread_cond_destroy(&worker->changed);
    free(worker);
}
