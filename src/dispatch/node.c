/* The life of a node: opening, its four loops in threads or by hand, its state for the owner, closing.
 *
 * node_open() fills the settings, opens a store handle for each loop, connects the engine's reports to the recorder and
 * registers the node; from then on its lease runs. node_run_threads() gives each loop a thread. Without threads the owner
 * calls node_step(), which runs each loop once in an order that lets an item pass through all of them in one call.
 *
 * This file makes no decision of a loop, and no query once the node is open. It starts and steps the engine, and reads the
 * engine's figures for node_status(). The owner's thread runs it; the functions under "any thread" may run in each.
 */
#include "dispatch/node.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stack.h"
#include "base/thread.h"
#include "dispatch/dispatcher.h"
#include "dispatch/engine_health.h"
#include "dispatch/heartbeat.h"
#include "dispatch/inbox.h"
#include "dispatch/maintenance.h"
#include "dispatch/neighbours.h"
#include "dispatch/node_internal.h"
#include "dispatch/node_logs.h"
#include "dispatch/node_progress.h"
#include "dispatch/recorder.h"
#include "dispatch/scheduling.h"
#include "dispatch/starter.h"
#include "dispatch/unstartable_claims.h"
#include "dispatch/wake_up.h"

/* --- opening --- */

/* With the defaults filled in. */
static void take_tuning(struct node *node, const struct node_settings *s)
{
    struct node_tuning *tuning = &node->tuning;
    atomic_store(&tuning->batch_size,
                 s->batch_size == 0 || s->batch_size > CLAIM_BATCH_MOST ? CLAIM_BATCH_MOST : s->batch_size);
    atomic_store(&tuning->poll_interval_us, s->poll_interval_us <= 0 ? POLL_INTERVAL_US : s->poll_interval_us);
    atomic_store(&tuning->stuck_after_us, s->stuck_after_us <= 0 ? STUCK_AFTER_US : s->stuck_after_us);
    atomic_store(&tuning->stale_claim_us, s->stale_claim_us <= 0 ? STALE_CLAIM_US : s->stale_claim_us);
    atomic_store(&tuning->stale_check_us, s->stale_check_us <= 0 ? STALE_CHECK_US : s->stale_check_us);
    atomic_store(&tuning->retention_us, s->retention_us == 0 ? RETENTION_US : s->retention_us);
    atomic_store(&tuning->log_retention_us, s->log_retention_us == 0 ? LOG_RETENTION_US : s->log_retention_us);
    atomic_store(&tuning->audit_retention_us, s->audit_retention_us == 0 ? AUDIT_RETENTION_US : s->audit_retention_us);
    atomic_store(&tuning->archive_after_us, s->archive_after_us);
    node_logs_set_bound(node, s->log_bytes_max);
    atomic_store(&tuning->stop_grace_us, s->stop_grace_us <= 0 ? STOP_GRACE_US : s->stop_grace_us);
    atomic_store(&tuning->starts_max, s->starts_max <= 0 ? STARTS_MAX_DEFAULT : s->starts_max);
}

static void fill_settings(struct node *node, const struct node_settings *settings)
{
    struct node_settings *s = &node->settings;
    char host[128] = "node";
    *s = *settings;
    (void)gethostname(host, sizeof host - 1);
    text_copy(node->group, sizeof node->group, settings->group == NULL ? "default" : settings->group);
    if (settings->name != NULL) {
        text_copy(node->name, sizeof node->name, settings->name);
    } else if (strcmp(node->group, "default") == 0) {
        (void)snprintf(node->name, sizeof node->name, "%.*s-%ld", NODE_NAME_MAX - 24, host, (long)getpid());
    } else { /* a process may have nodes of several groups */
        (void)snprintf(node->name, sizeof node->name, "%.*s-%ld-%s", NODE_NAME_MAX - 24 - GROUP_NAME_MAX, host,
                       (long)getpid(), node->group);
    }
    text_copy(node->language, sizeof node->language, settings->language == NULL ? "" : settings->language);
    take_tuning(node, settings);
    s->lease_us = s->lease_us <= 0 ? NODE_LEASE_US : s->lease_us;
    node->clock = s->clock == NULL ? clock_system() : s->clock;
    if (s->seed != 0) {
        random_seed(&node->shared.random, s->seed);
    } else {
        random_seed_from_system(&node->shared.random);
    }
}

struct connecting {
    struct store *store;
    pthread_t thread;
    bool has_thread;
    enum weir_status status;
    struct weir_error error;
};

static void *connect_handle(void *context)
{
    struct connecting *connecting = context;
    int64_t now_us = 0;
    connecting->status = store_time(connecting->store, &now_us, &connecting->error);
    return NULL;
}

/* A duty enqueues for all workspaces in one set, in the loop of the recovery. So it waits only so long for the open
 * transaction of a program. */
#define DUTY_ENQUEUE_WAIT_US (100 * MICROSECONDS_PER_MS)

/* A node that is assigned items and cannot record them would hold slots for nothing. So where each handle has a connection
 * of its own, all of them are made before the node begins. Side by side, because a server takes some milliseconds for each.
 */
static enum weir_status connect_handles(struct node *node, struct weir_error *error)
{
    struct connecting all[LOOP_COUNT] = {0};
    enum weir_status status = WEIR_OK;
    sigset_t before = thread_block_signals();
    for (int i = 0; i < LOOP_COUNT; i++) {
        struct connecting *one = &all[i];
        one->store = node->stores[i];
        if ((store_features(one->store) & STORE_SHARED) != 0) {
            one->has_thread = pthread_create(&one->thread, NULL, connect_handle, one) == 0;
            if (!one->has_thread) {
                (void)connect_handle(one);
            }
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    store_limit_enqueue_wait(node->stores[LOOP_MAINTENANCE], DUTY_ENQUEUE_WAIT_US);
    for (int i = 0; i < LOOP_COUNT; i++) {
        if (all[i].has_thread) {
            (void)pthread_join(all[i].thread, NULL);
        }
        if (status == WEIR_OK && all[i].status != WEIR_OK) {
            status = all[i].status;
            if (error != NULL) {
                *error = all[i].error;
            }
        }
    }
    return status;
}

/* Opens the loops, in the order of their needs, and registers the node at last. */
static enum weir_status open_loops(struct node *node, struct store *store, struct weir_error *error)
{
    enum weir_status status = slot_demand_open(&node->slot_demand, node->engine, error);
    if (status == WEIR_OK) {
        status = recorder_open(node, error);
    }
    if (status == WEIR_OK) {
        status = scheduling_open(&node->dispatcher.scheduling, error);
    }
    if (status == WEIR_OK) {
        status = loop_fds_open(node, error);
    }
    for (int i = 0; i < LOOP_COUNT && status == WEIR_OK; i++) {
        status = store_open_again(store, &node->stores[i], error);
    }
    if (status == WEIR_OK) {
        status = store_require_schema(node->stores[LOOP_DISPATCH], error);
    }
    if (status == WEIR_OK) {
        status = connect_handles(node, error);
    }
    if (status == WEIR_OK) {
        engine_set_sink(node->engine, (struct report_sink){.report = recorder_report,
                                                           .context = node,
                                                           .output = node_logs_take,
                                                           .progress = node_progress_take});
        status = heartbeat_register(node, error);
    }
    return status;
}

/* A longer name is refused and not cut: the shorter one may be the name of another node. */
static enum weir_status check_name_length(const char *what, const char *name, size_t most, struct weir_error *error)
{
    size_t length = name == NULL ? 1 : strlen(name);
    if (length == 0 || length > most || (name != NULL && !text_is_utf8(name, length))) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be 1 to %zu bytes of UTF-8", what, most);
    }
    return WEIR_OK;
}

static enum weir_status check_node_names(const struct node_settings *settings, struct weir_error *error)
{
    enum weir_status status = check_name_length("the node's name", settings->name, NODE_NAME_MAX, error);
    if (status == WEIR_OK) {
        status = check_name_length("the node's group", settings->group, GROUP_NAME_MAX, error);
    }
    return status == WEIR_OK ? check_name_length("the node's language", settings->language, NODE_LANGUAGE_MAX, error)
                             : status;
}

/* The store gets them with the registration. */
static enum weir_status take_handlers(struct node *node, const char *handlers, struct weir_error *error)
{
    if (handlers == NULL) {
        return WEIR_OK;
    }
    node->handlers = strdup(handlers);
    atomic_store(&node->shared.handlers_due, true);
    return node->handlers == NULL ? error_out_of_memory(error) : WEIR_OK;
}

/* After this node_close() may be called. */
static void init_node(struct node *node, const struct node_settings *settings)
{
    struct recorder *recorder = &node->recorder;
    loop_fds_init(node);
    (void)pthread_mutex_init(&node->shared.start_lock, NULL);
    (void)pthread_mutex_init(&node->shared.register_lock, NULL);
    (void)pthread_mutex_init(&node->shared.lock, NULL);
    (void)pthread_mutex_init(&recorder->reports.lock, NULL);
    recorder->reports.last = &recorder->reports.first;
    recorder->reports.last_start = &recorder->reports.first_start;
    recorder->reports.last_step = &recorder->reports.first_step;
    breaker_init(&node->engine_health.breaker);
    node_logs_init(node);
    node_progress_init(node);
    fill_settings(node, settings);
    inbox_reset(node);
    machine_id_write(node->boot_id, sizeof node->boot_id);
    life_begin(&node->heartbeat.life);
    node->dispatcher.exclusive = (struct shedlock){.name = "processExecutionQueue",
                                                   .at_most_us = 240 * MICROSECONDS_PER_SECOND,
                                                   .at_least_us = 10 * MICROSECONDS_PER_SECOND};
    int64_t now_us = node_now(node);
    maintenance_init(node, now_us);
    atomic_store(&node->shared.next_beat_us, time_add(now_us, node->settings.lease_us / 3));
}

enum weir_status node_open(struct store *store, struct engine *engine, struct event_bus *events,
                           const struct node_settings *settings, struct node **ret_node, struct weir_error *error)
{
    if (store == NULL || engine == NULL || settings == NULL || ret_node == NULL) {
        return error_set(error, WEIR_MISUSE, "a node needs a store, an engine and settings");
    }
    enum weir_status status = check_node_names(settings, error);
    if (status == WEIR_OK) {
        status = stack_require(error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    struct node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return error_out_of_memory(error);
    }
    node->engine = engine;
    node->events = events;
    init_node(node, settings);
    status = take_handlers(node, settings->handlers, error);
    if (status == WEIR_OK) {
        status = open_loops(node, store, error);
    }
    if (status != WEIR_OK) {
        node_close(node);
        return status;
    }
    *ret_node = node;
    return WEIR_OK;
}

int64_t node_id(const struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_load(&node->shared.id);
}

const char *node_name(const struct node *node)
{
    INVARIANT(node != NULL);
    return node->name;
}

/* --- by hand --- */

int64_t node_dispatch_step(struct node *node)
{
    return dispatcher_step(node);
}

int64_t node_record_step(struct node *node)
{
    return recorder_step(node);
}

int64_t node_heartbeat_step(struct node *node)
{
    return heartbeat_step(node);
}

int64_t node_maintenance_step(struct node *node)
{
    return maintenance_step(node);
}

unsigned node_take_wakes(struct node *node)
{
    INVARIANT(node != NULL);
    unsigned woken = 0;
    for (int i = 0; i < LOOP_COUNT; i++) {
        if (loop_take_wake(node, (enum loop)i)) {
            woken |= 1U << i;
        }
    }
    return woken;
}

int64_t node_step(struct node *node)
{
    INVARIANT(node != NULL && !node->threads.are_running);
    int64_t again_us = TIME_NEVER;
    int64_t now_us = node_now(node);
    (void)store_wake_drain(node->stores[LOOP_DISPATCH], &again_us);
    (void)node_take_wakes(node); /* every loop is called now */
    int64_t next_us = time_add(now_us, again_us);
    next_us = earlier(next_us, heartbeat_step(node));
    next_us = earlier(next_us, maintenance_step(node));
    next_us = earlier(next_us, dispatcher_step(node));
    next_us = earlier(next_us, engine_step(node->engine));
    next_us = earlier(next_us, recorder_step(node));
    for (int i = 0; i < LOOP_COUNT; i++) {
        next_us = atomic_load(&node->threads.loops[i].is_woken) ? now_us : next_us;
    }
    return next_us;
}

/* --- threads --- */

struct loop_start {
    struct node *node;
    enum loop loop;
};

/* The main function of a loop's thread. */
static void *run_node_loop(void *context)
{
    static int64_t (*const steps[])(struct node *) = {dispatcher_step, recorder_step, heartbeat_step, maintenance_step};
    struct loop_start start = *(struct loop_start *)context;
    free(context);
    while (!atomic_load(&start.node->threads.closing)) {
        int64_t next_us = steps[start.loop](start.node);
        if (next_us > node_now(start.node)) {
            loop_sleep(start.node, start.loop, next_us);
        }
    }
    return NULL;
}

static void join_threads(struct node *node)
{
    atomic_store(&node->threads.closing, true);
    for (int i = 0; i < LOOP_COUNT && node->threads.are_running; i++) {
        loop_wake(node, (enum loop)i);
        if (node->threads.loops[i].thread != 0) {
            (void)pthread_join(node->threads.loops[i].thread, NULL);
            node->threads.loops[i].thread = 0;
        }
    }
    node->threads.are_running = false;
}

enum weir_status node_run_threads(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL && !node->threads.are_running);
    enum weir_status status = engine_run_threads(node->engine, error);
    if (status != WEIR_OK) {
        return status;
    }
    sigset_t before = thread_block_signals();
    node->threads.are_running = true;
    for (int i = 0; i < LOOP_COUNT && status == WEIR_OK; i++) {
        struct loop_start *start = malloc(sizeof *start);
        if (start != NULL) {
            *start = (struct loop_start){node, (enum loop)i};
        }
        if (start == NULL || pthread_create(&node->threads.loops[i].thread, NULL, run_node_loop, start) != 0) {
            free(start);
            node->threads.loops[i].thread = 0;
            status = error_set(error, WEIR_SYSTEM, "the system cannot start a thread for the node");
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != WEIR_OK) { /* all threads or none: after a failure the owner may step the node */
        join_threads(node);
        atomic_store(&node->threads.closing, false);
    }
    return status;
}

/* --- any thread --- */

void node_wake(struct node *node)
{
    INVARIANT(node != NULL);
    loop_wake(node, LOOP_DISPATCH);
}

void node_tune(struct node *node, const struct node_settings *settings)
{
    INVARIANT(node != NULL && settings != NULL);
    take_tuning(node, settings);
    loop_wake(node, LOOP_DISPATCH);
    loop_wake(node, LOOP_MAINTENANCE);
}

enum weir_status node_set_handlers(struct node *node, const char *handlers, struct weir_error *error)
{
    INVARIANT(node != NULL && handlers != NULL);
    char *names = strdup(handlers);
    if (names == NULL) {
        return error_out_of_memory(error);
    }
    (void)pthread_mutex_lock(&node->shared.lock);
    char *before = node->handlers;
    node->handlers = names;
    (void)pthread_mutex_unlock(&node->shared.lock);
    free(before);
    atomic_store(&node->shared.handlers_due, true);
    loop_request_heartbeat(node);
    return WEIR_OK;
}

void node_pause(struct node *node)
{
    INVARIANT(node != NULL);
    if (!atomic_exchange(&node->shared.paused, true)) {
        struct event event = {.type = EVENT_NODE_PAUSED, .node = node->name, .reason = "node_pause"};
        event_emit(node->events, &event);
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

void node_resume(struct node *node)
{
    INVARIANT(node != NULL);
    if (atomic_exchange(&node->shared.paused, false)) {
        struct event event = {.type = EVENT_NODE_RESUMED, .node = node->name, .reason = "node_resume"};
        event_emit(node->events, &event);
        loop_wake(node, LOOP_DISPATCH);
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

/* The state for node_status(); the first that applies. */
static const char *node_state_name(struct node *node)
{
    if (atomic_load(&node->shared.stopped)) {
        return "stopped";
    }
    if (atomic_load(&node->shared.stop_kind) != 0) {
        return "stopping";
    }
    if (atomic_load(&node->shared.lease_lost)) {
        return "lease_lost";
    }
    int desired_state = atomic_load(&node->shared.desired_state);
    if (desired_state == NODE_DRAIN) {
        return "draining";
    }
    return atomic_load(&node->shared.paused) || desired_state == NODE_PAUSE ? "paused" : "running";
}

json_t *node_status(struct node *node)
{
    INVARIANT(node != NULL);
    bool reachable = node_reaches_engine(node);
    pthread_mutex_lock(&node->shared.lock);
    size_t in_flight = node->shared.in_flight.count;
    size_t unanswered = node->shared.in_flight.unanswered;
    pthread_mutex_unlock(&node->shared.lock);
    size_t reports = recorder_waiting_count(node);
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:I, s:b}", "id",
                     (json_int_t)atomic_load(&node->shared.id), "name", node->name, "executor_group", node->group, "state",
                     node_state_name(node), "running", (json_int_t)engine_running(node->engine), "room",
                     (json_int_t)engine_free_capacity(node->engine), "in_flight", (json_int_t)in_flight, "unanswered",
                     (json_int_t)unanswered, "reports_waiting", (json_int_t)reports, "stuck",
                     (json_int_t)maintenance_stuck_count(node), "engine", engine_name(node->engine), "engine_reachable",
                     reachable, "lease_left_us",
                     (json_int_t)(atomic_load(&node->shared.lease_end_boot_us) - node_now(node)), "schedules",
                     (int)atomic_load(&node->shared.schedules));
}

bool node_is_healthy(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL);
    pthread_mutex_lock(&node->shared.lock);
    bool healthy = !node->shared.unhealthy;
    if (!healthy && error != NULL) {
        *error = node->shared.failure;
    }
    pthread_mutex_unlock(&node->shared.lock);
    return healthy;
}

/* --- the end --- */

void node_close(struct node *node)
{
    if (node == NULL) {
        return;
    }
    join_threads(node);
    /* The engine's threads may still run, and report: a node that ends unhealthy has stopped nothing. */
    engine_set_sink(node->engine, (struct report_sink){.report = NULL});
    recorder_close(node);
    node_logs_close(node);
    node_progress_close(node);
    in_flight_clear(&node->shared.in_flight);
    unstartable_drop(node);
    for (int i = 0; i < LOOP_COUNT; i++) {
        store_close(node->stores[i]);
    }
    starter_close(node);
    life_end(&node->heartbeat.life);
    scheduling_close(&node->dispatcher.scheduling);
    slot_demand_close(&node->slot_demand);
    loop_fds_close(node);
    (void)pthread_mutex_destroy(&node->shared.start_lock);
    (void)pthread_mutex_destroy(&node->shared.register_lock);
    (void)pthread_mutex_destroy(&node->shared.lock);
    (void)pthread_mutex_destroy(&node->recorder.reports.lock);
    free(node->handlers);
    free(node);
}
