/* A node's life: opening, its four loops in threads or by hand, stopping, closing. */
#include "dispatch/node.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stack.h"
#include "dispatch/heartbeat.h"
#include "dispatch/node_internal.h"

/* --- loops that fail and come back --- */

bool loop_is_backing_off(struct node *node, enum loop loop, int64_t now_us, int64_t *ret_until_us)
{
    *ret_until_us = node->retry_us[loop];
    return now_us < node->retry_us[loop];
}

/* Waiting cannot mend these: the node says so and its process should end. */
static bool is_hopeless(enum weir_status status)
{
    return status == WEIR_STORE_CORRUPT || status == WEIR_STORE_NOT_WEIR || status == WEIR_SCHEMA_NEWER ||
           status == WEIR_SCHEMA_MISSING || weir_status_kind(status) == WEIR_KIND_PROGRAMMER;
}

int64_t loop_failed(struct node *node, enum loop loop, int64_t now_us, enum weir_status status,
                    const struct weir_error *error)
{
    static const char *const names[] = {"dispatch", "record", "heartbeat", "duties"};
    if (is_hopeless(status)) {
        struct event event = {.type = EVENT_LOOP_FAILED,
                              .reason = names[loop],
                              .code = weir_status_name(status),
                              .error = error->message,
                              .node = node->name};
        pthread_mutex_lock(&node->lock);
        if (!node->unhealthy) {
            node->unhealthy = true;
            node->failure = *error;
            error_prefix(&node->failure, "the %s loop of node %s", names[loop], node->name);
        }
        pthread_mutex_unlock(&node->lock);
        event_emit(node->events, &event);
    }
    if (loop != LOOP_HEARTBEAT) { /* the store may be another one now: it shall hear soon that this node lives */
        atomic_store(&node->next_beat_us, 0);
        loop_wake(node, LOOP_HEARTBEAT);
    }
    int64_t backoff_us = node->backoff_us[loop] == 0 ? LOOP_RETRY_FIRST_US : node->backoff_us[loop];
    node->backoff_us[loop] = backoff_us * 2 > LOOP_RETRY_MOST_US ? LOOP_RETRY_MOST_US : backoff_us * 2;
    node->retry_us[loop] = time_add(now_us, backoff_us);
    return node->retry_us[loop];
}

void loop_succeeded(struct node *node, enum loop loop)
{
    node->retry_us[loop] = 0;
    node->backoff_us[loop] = 0;
}

/* --- opening --- */

/* With the defaults filled in. */
static void take_tuning(struct node *node, const struct node_settings *s)
{
    struct node_tuning *tuning = &node->tuning;
    atomic_store(&tuning->claim_batch,
                 s->claim_batch == 0 || s->claim_batch > CLAIM_BATCH_MOST ? CLAIM_BATCH_MOST : s->claim_batch);
    atomic_store(&tuning->poll_interval_us, s->poll_interval_us <= 0 ? POLL_INTERVAL_US : s->poll_interval_us);
    atomic_store(&tuning->stuck_after_us, s->stuck_after_us <= 0 ? STUCK_AFTER_US : s->stuck_after_us);
    atomic_store(&tuning->stale_claim_us, s->stale_claim_us <= 0 ? STALE_CLAIM_US : s->stale_claim_us);
    atomic_store(&tuning->stale_check_us, s->stale_check_us <= 0 ? STALE_CHECK_US : s->stale_check_us);
    atomic_store(&tuning->retention_us, s->retention_us == 0 ? RETENTION_US : s->retention_us);
    atomic_store(&tuning->stop_grace_us, s->stop_grace_us <= 0 ? STOP_GRACE_US : s->stop_grace_us);
    atomic_store(&tuning->attempts_max, s->attempts_max <= 0 ? ATTEMPTS_MAX_DEFAULT : s->attempts_max);
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
    take_tuning(node, settings);
    s->lease_us = s->lease_us <= 0 ? NODE_LEASE_US : s->lease_us;
    s->start_deadline_us = s->start_deadline_us <= 0 ? START_DEADLINE_US : s->start_deadline_us;
    s->handovers_max = s->handovers_max <= 0 ? HANDOVERS_MAX_DEFAULT : s->handovers_max;
    node->clock = s->clock == NULL ? clock_system() : s->clock;
    if (s->seed != 0) {
        random_seed(&node->random, s->seed);
    } else {
        random_seed_from_system(&node->random);
    }
}

static void set_up_locks(struct node *node)
{
    node->exclusive = (struct held_lock){.name = "processExecutionQueue",
                                         .at_most_us = 240 * MICROSECONDS_PER_SECOND,
                                         .at_least_us = 10 * MICROSECONDS_PER_SECOND};
    node->stale_lock = (struct held_lock){.name = "recoverStaleQueueItems",
                                          .at_most_us = 120 * MICROSECONDS_PER_SECOND,
                                          .at_least_us = 30 * MICROSECONDS_PER_SECOND};
    node->retention_lock = (struct held_lock){.name = "weirRetention", .at_most_us = 60 * MICROSECONDS_PER_SECOND};
}

static enum weir_status allocate(struct node *node, struct weir_error *error)
{
    node->batch = calloc(RECORD_BATCH_MOST, sizeof *node->batch);
    node->records = calloc(RECORD_BATCH_MOST, sizeof *node->records);
    node->record_of = calloc(RECORD_BATCH_MOST, sizeof *node->record_of);
    node->answers = calloc(RECORD_BATCH_MOST, sizeof *node->answers);
    return node->batch == NULL || node->records == NULL || node->record_of == NULL || node->answers == NULL
               ? error_out_of_memory(error)
               : WEIR_OK;
}

/* A node that can claim and not record would hold what it claims for nothing: where each handle has a connection of its
 * own, all of them are there before it begins. */
static enum weir_status reach_store(struct node *node, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    int64_t now_us = 0;
    for (int i = 0; i < LOOP_COUNT && status == WEIR_OK; i++) {
        if ((store_features(node->stores[i]) & STORE_SHARED) != 0) {
            status = store_time(node->stores[i], &now_us, error);
        }
    }
    return status;
}

static enum weir_status open_parts(struct node *node, struct store *store, struct weir_error *error)
{
    enum weir_status status = slot_demand_open(&node->slot_demand, node->engine, error);
    if (status == WEIR_OK) {
        status = allocate(node, error);
    }
    if (status == WEIR_OK) {
        status = scheduling_open(&node->scheduling, error);
    }
    if (status == WEIR_OK) {
        status = loop_fds_open(node, error);
    }
    if (status == WEIR_OK) {
        status = store_require_schema(store, error);
    }
    for (int i = 0; i < LOOP_COUNT && status == WEIR_OK; i++) {
        status = store_open_again(store, &node->stores[i], error);
    }
    if (status == WEIR_OK) {
        status = reach_store(node, error);
    }
    if (status == WEIR_OK) {
        engine_set_sink(node->engine, (struct report_sink){.report = recorder_report, .context = node});
        status = nodes_register(node, node->stores[LOOP_HEARTBEAT], error);
    }
    return status;
}

/* A name that was cut would be another's. */
static enum weir_status check_name(const char *what, const char *name, size_t most, struct weir_error *error)
{
    size_t length = name == NULL ? 1 : strlen(name);
    if (length == 0 || length > most || (name != NULL && !text_is_utf8(name, length))) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%s must be 1 to %zu bytes of UTF-8", what, most);
    }
    return WEIR_OK;
}

static enum weir_status check_names(const struct node_settings *settings, struct weir_error *error)
{
    enum weir_status status = check_name("the node's name", settings->name, NODE_NAME_MAX, error);
    return status == WEIR_OK ? check_name("the node's group", settings->group, GROUP_NAME_MAX, error) : status;
}

enum weir_status node_open(struct store *store, struct engine *engine, struct event_bus *events,
                           const struct node_settings *settings, struct node **ret_node, struct weir_error *error)
{
    if (store == NULL || engine == NULL || settings == NULL || ret_node == NULL) {
        return error_set(error, WEIR_MISUSE, "a node needs a store, an engine and settings");
    }
    enum weir_status status = check_names(settings, error);
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
    node->group_fd = -1;
    memset(node->wake_fds, 0xFF, sizeof node->wake_fds);
    (void)pthread_mutex_init(&node->start_lock, NULL);
    (void)pthread_mutex_init(&node->register_lock, NULL);
    (void)pthread_mutex_init(&node->lock, NULL);
    (void)pthread_mutex_init(&node->reports.lock, NULL);
    node->reports.last = &node->reports.first;
    node->reports.last_start = &node->reports.first_start;
    breaker_init(&node->breaker);
    fill_settings(node, settings);
    inbox_reset(node);
    set_up_locks(node);
    nodes_machine_id(node->boot_id, sizeof node->boot_id);
    life_begin(&node->life);
    int64_t now_us = node_now(node);
    node->next_stale_us = time_add(now_us, node->tuning.stale_check_us);
    node->next_capacity_us = time_add(now_us, 60 * MICROSECONDS_PER_SECOND);
    atomic_store(&node->next_beat_us, time_add(now_us, node->settings.lease_us / 3));
    status = open_parts(node, store, error);
    if (status != WEIR_OK) {
        node_close(node);
        return status;
    }
    *ret_node = node;
    return WEIR_OK;
}

int64_t node_id(const struct node *node)
{
    return atomic_load(&node->id);
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
    return nodes_step(node);
}

int64_t node_duties_step(struct node *node)
{
    return duties_step(node);
}

unsigned node_take_wakes(struct node *node)
{
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
    int64_t again_us = TIME_NEVER;
    int64_t now_us = node_now(node);
    (void)store_wake_drain(node->stores[LOOP_DISPATCH], &again_us);
    (void)node_take_wakes(node); /* every loop is called now */
    int64_t next_us = time_add(now_us, again_us);
    next_us = earlier(next_us, nodes_step(node));
    next_us = earlier(next_us, duties_step(node));
    next_us = earlier(next_us, dispatcher_step(node));
    next_us = earlier(next_us, engine_step(node->engine));
    next_us = earlier(next_us, recorder_step(node));
    for (int i = 0; i < LOOP_COUNT; i++) {
        next_us = atomic_load(&node->woken[i]) ? now_us : next_us;
    }
    return next_us;
}

/* --- threads --- */

struct loop_start {
    struct node *node;
    enum loop loop;
};

static void *run_loop(void *context)
{
    static int64_t (*const steps[])(struct node *) = {dispatcher_step, recorder_step, nodes_step, duties_step};
    struct loop_start start = *(struct loop_start *)context;
    free(context);
    while (!atomic_load(&start.node->closing)) {
        int64_t next_us = steps[start.loop](start.node);
        if (next_us > node_now(start.node)) {
            loop_sleep(start.node, start.loop, next_us);
        }
    }
    return NULL;
}

static void end_threads(struct node *node)
{
    atomic_store(&node->closing, true);
    for (int i = 0; i < LOOP_COUNT && node->threads_run; i++) {
        loop_wake(node, (enum loop)i);
        if (node->threads[i] != 0) {
            (void)pthread_join(node->threads[i], NULL);
            node->threads[i] = 0;
        }
    }
    node->threads_run = false;
}

enum weir_status node_run_threads(struct node *node, struct weir_error *error)
{
    sigset_t all;
    sigset_t before;
    enum weir_status status = engine_run_threads(node->engine, error);
    if (status != WEIR_OK) {
        return status;
    }
    /* Signals are the host's: its own threads take them. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    node->threads_run = true;
    for (int i = 0; i < LOOP_COUNT && status == WEIR_OK; i++) {
        struct loop_start *start = malloc(sizeof *start);
        if (start != NULL) {
            *start = (struct loop_start){node, (enum loop)i};
        }
        if (start == NULL || pthread_create(&node->threads[i], NULL, run_loop, start) != 0) {
            free(start);
            node->threads[i] = 0;
            status = error_set(error, WEIR_SYSTEM, "a thread of the node could not be started");
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != WEIR_OK) { /* all or none: whoever is told so may step the node himself */
        end_threads(node);
        atomic_store(&node->closing, false);
    }
    return status;
}

/* --- any thread --- */

void node_wake(struct node *node)
{
    loop_wake(node, LOOP_DISPATCH);
}

void node_tune(struct node *node, const struct node_settings *settings)
{
    take_tuning(node, settings);
    loop_wake(node, LOOP_DISPATCH);
    loop_wake(node, LOOP_DUTIES);
}

void node_pause(struct node *node)
{
    if (!atomic_exchange(&node->paused, true)) {
        struct event event = {.type = EVENT_NODE_PAUSED, .node = node->name, .reason = "node_pause"};
        event_emit(node->events, &event);
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

void node_resume(struct node *node)
{
    if (atomic_exchange(&node->paused, false)) {
        struct event event = {.type = EVENT_NODE_RESUMED, .node = node->name, .reason = "node_resume"};
        event_emit(node->events, &event);
        loop_wake(node, LOOP_DISPATCH);
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

static const char *state_of(struct node *node)
{
    if (atomic_load(&node->stopped)) {
        return "stopped";
    }
    if (atomic_load(&node->stop_kind) != 0) {
        return "stopping";
    }
    if (atomic_load(&node->lease_lost)) {
        return "lease_lost";
    }
    int desired_state = atomic_load(&node->desired_state);
    if (desired_state == NODE_DRAIN) {
        return "draining";
    }
    return atomic_load(&node->paused) || desired_state == NODE_PAUSE ? "paused" : "running";
}

bool node_reaches_engine(struct node *node)
{
    pthread_mutex_lock(&node->lock);
    bool reaches = node->breaker.state == BREAKER_CLOSED;
    pthread_mutex_unlock(&node->lock);
    return reaches;
}

bool node_may_reach_engine(struct node *node, int64_t now_us)
{
    pthread_mutex_lock(&node->lock);
    bool may = breaker_peek_starts(&node->breaker, 1, now_us) > 0;
    pthread_mutex_unlock(&node->lock);
    return may;
}

json_t *node_status(struct node *node)
{
    bool reachable = node_reaches_engine(node);
    pthread_mutex_lock(&node->lock);
    size_t in_flight = node->in_flight.count;
    size_t unanswered = node->in_flight.unanswered;
    pthread_mutex_unlock(&node->lock);
    pthread_mutex_lock(&node->reports.lock);
    size_t reports = node->reports.count;
    pthread_mutex_unlock(&node->reports.lock);
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:I, s:b}", "id",
                     (json_int_t)atomic_load(&node->id), "name", node->name, "group", node->group, "state", state_of(node),
                     "running", (json_int_t)engine_running(node->engine), "room",
                     (json_int_t)engine_free_capacity(node->engine), "in_flight", (json_int_t)in_flight, "unanswered",
                     (json_int_t)unanswered, "reports_waiting", (json_int_t)reports, "stuck",
                     (json_int_t)atomic_load(&node->stuck), "engine", engine_name(node->engine), "engine_reachable",
                     reachable, "lease_left_us", (json_int_t)(atomic_load(&node->lease_end_boot_us) - node_now(node)),
                     "schedules", (int)atomic_load(&node->schedules));
}

bool node_is_healthy(struct node *node, struct weir_error *error)
{
    pthread_mutex_lock(&node->lock);
    bool healthy = !node->unhealthy;
    if (!healthy && error != NULL) {
        *error = node->failure;
    }
    pthread_mutex_unlock(&node->lock);
    return healthy;
}

/* --- the end --- */

void node_begin_stop(struct node *node, enum node_stop_kind kind)
{
    int wanted = 1 + (int)kind;
    int none = 0;
    if (!atomic_compare_exchange_strong(&node->stop_kind, &none, wanted) && kind == NODE_STOP_INTERRUPT) {
        atomic_store(&node->stop_kind, wanted);
    }
    loop_wake(node, LOOP_DISPATCH);
    loop_wake(node, LOOP_HEARTBEAT);
}

bool node_is_stopped(struct node *node)
{
    return atomic_load(&node->stopped);
}

enum weir_status node_await_stop(struct node *node, int64_t deadline_us, bool *ret_graceful, struct weir_error *error)
{
    int64_t end_us = time_add(node_now(node), deadline_us);
    while (!node_is_stopped(node)) {
        if (node_now(node) >= end_us) {
            return error_set(error, WEIR_TIMED_OUT, "the node is still stopping: %zu executions run",
                             engine_running(node->engine));
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 5000000};
        (void)nanosleep(&pause, NULL);
    }
    if (ret_graceful != NULL) {
        *ret_graceful = !atomic_load(&node->interrupted);
    }
    return WEIR_OK;
}

size_t node_left_behind(struct node *node)
{
    return atomic_load(&node->left_behind);
}

void node_close(struct node *node)
{
    if (node == NULL) {
        return;
    }
    end_threads(node);
    /* The engine's threads may still run, and report: a node that ends unhealthy has stopped nothing. */
    engine_set_sink(node->engine, (struct report_sink){.report = NULL});
    if (node->batch != NULL) {
        recorder_drop_all(node);
    }
    in_flight_clear(&node->in_flight);
    unkept_drop(node);
    for (int i = 0; i < LOOP_COUNT; i++) {
        store_close(node->stores[i]);
    }
    for (size_t i = 0; i < DEFINITIONS_MOST; i++) {
        free(node->definitions[i].text);
    }
    life_end(&node->life);
    scheduling_close(&node->scheduling);
    free(node->batch);
    free(node->records);
    free(node->record_of);
    free(node->answers);
    slot_demand_close(&node->slot_demand);
    loop_fds_close(node);
    (void)pthread_mutex_destroy(&node->start_lock);
    (void)pthread_mutex_destroy(&node->register_lock);
    (void)pthread_mutex_destroy(&node->lock);
    (void)pthread_mutex_destroy(&node->reports.lock);
    free(node);
}
