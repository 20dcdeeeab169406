/* A node of the public interface: a store handle, an engine and the loops of src/dispatch between them. On a server it is a
 * worker over HTTP: src/worker in place of the store handle and the loops.
 *
 * The engine is opened first, because it may fork: it then has fewer descriptors to close. The node is listed in its struct
 * weir, so that each change by this process wakes it. It runs in threads of its own after weir_node_start(), or in the
 * caller's thread by weir_node_step(); never both.
 *
 * A stop waits for running executions, then interrupts them, each with a deadline. Without threads the waiting call steps
 * the node itself. The list is under the lock of the struct weir; everything else belongs to the thread that owns the node.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "assemble.h"
#include "base/clock.h"
#include "base/error.h"
#include "dispatch/node.h"
#include "library/library.h"
#include "worker/worker.h"

/* After an interrupt everything must be on record within this: steps are killed, their claims given back. */
#define INTERRUPT_DEADLINE_US (15 * MICROSECONDS_PER_SECOND)

struct weir_node {
    struct weir *weir;
    struct weir_node *next; /* of weir->nodes */
    struct store *store;    /* of its own; NULL on a server */
    struct engine *engine;
    struct node *node;     /* NULL on a server */
    struct worker *worker; /* on a server alone */
    int64_t stop_grace_us;
    bool has_threads;
    pthread_mutex_t handlers_lock; /* for `handler_names`, and a change of them is one with that of the engine */
    json_t *handler_names;         /* an array; NULL before the engine is open */
};

/* --- the nodes of a store --- */

/* From here on changes by this process wake the node. */
static void list_open_node(struct weir_node *node)
{
    (void)pthread_mutex_lock(&node->weir->lock);
    node->next = node->weir->nodes;
    node->weir->nodes = node;
    (void)pthread_mutex_unlock(&node->weir->lock);
}

static void unlist_open_node(struct weir_node *node)
{
    (void)pthread_mutex_lock(&node->weir->lock);
    for (struct weir_node **at = &node->weir->nodes; *at != NULL; at = &(*at)->next) {
        if (*at == node) {
            *at = node->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&node->weir->lock);
}

void library_wake_nodes(struct weir *weir)
{
    (void)pthread_mutex_lock(&weir->lock);
    for (struct weir_node *node = weir->nodes; node != NULL; node = node->next) {
        weir_node_wake(node);
    }
    (void)pthread_mutex_unlock(&weir->lock);
}

/* --- opening --- */

/* Passes the public options on. Handlers and exec steps run inside a node, which has one engine. */
static enum weir_status open_temporal_engine(struct weir_node *node, const struct weir_node_options *options,
                                             struct weir_error *error)
{
    const struct weir_temporal *given = options->temporal;
    struct temporal_options temporal = {.address = given->address,
                                        .namespace_name = given->namespace_name,
                                        .task_queue = given->task_queue,
                                        .encoding = given->encoding,
                                        .tls = given->tls,
                                        .ca_file = given->ca_file,
                                        .certificate_file = given->certificate_file,
                                        .key_file = given->key_file,
                                        .server_name = given->server_name,
                                        .api_key_file = given->api_key_file,
                                        .codec_url = given->codec_url,
                                        .codec_token_file = given->codec_token_file,
                                        .codec_ca_file = given->codec_ca_file,
                                        .max_running =
                                            options->max_running == 0 ? IN_PROCESS_RUNNING_DEFAULT : options->max_running,
                                        .starts_max = given->starts_max,
                                        .polls_max = given->waits_max};
    struct engine_options engine_options = {.temporal = &temporal};
    if (options->handler_count > 0 || options->allow_exec || options->http_allow_list != NULL) {
        (void)error_set(error, WEIR_INVALID_ARGUMENT, "a node on Temporal has neither handlers nor exec or http steps");
        error_hint(error, "open a second node for them, with another group");
        return WEIR_INVALID_ARGUMENT;
    }
    return assemble_engine("temporal", &engine_options, &node->engine, error);
}

static enum weir_status open_node_engine(struct weir_node *node, const struct weir_node_options *options,
                                         struct weir_error *error)
{
    if (options->temporal != NULL) {
        return open_temporal_engine(node, options, error);
    }
    struct in_process_options in_process = {.max_running = options->max_running,
                                            .handler_threads = options->handler_threads,
                                            .max_parallel_steps = options->max_parallel_steps,
                                            .allow_exec = options->allow_exec,
                                            .exec_unguarded = options->exec_unguarded,
                                            .exec_allow_list = options->exec_allow_list,
                                            .env_from_list = options->env_from_list,
                                            .http_allow_list = options->http_allow_list,
                                            .secrets_directory = options->secrets_directory,
                                            .handlers = options->handlers,
                                            .handler_count = options->handler_count,
                                            .has_calls_alone = node->weir->server_url != NULL};
    struct engine_options engine_options = {.in_process = &in_process};
    return assemble_engine("in_process", &engine_options, &node->engine, error);
}

/* --- handlers --- */

/* The names of the handlers as a JSON array; NULL when out of memory. */
static char *list_handler_names(struct weir_node *node, const struct weir_handler *handlers, size_t count)
{
    node->handler_names = json_array();
    bool is_fine = node->handler_names != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        is_fine = json_array_append_new(node->handler_names, json_string(handlers[i].name)) == 0;
    }
    return is_fine ? json_dumps(node->handler_names, JSON_COMPACT) : NULL;
}

/* The list with `name` added, or without it; NULL when out of memory. */
static json_t *change_names(const json_t *names, const char *name, bool adds)
{
    size_t i;
    json_t *listed;
    json_t *changed = json_array();
    bool is_fine = changed != NULL;
    json_array_foreach(names, i, listed)
    {
        if (strcmp(json_string_value(listed), name) != 0) {
            is_fine = is_fine && json_array_append(changed, listed) == 0;
        }
    }
    is_fine = is_fine && (!adds || json_array_append_new(changed, json_string(name)) == 0);
    if (!is_fine) {
        json_decref(changed);
        return NULL;
    }
    return changed;
}

/* The node records the new list. Under handlers_lock, so that the last change is the last one recorded. */
static enum weir_status record_names(struct weir_node *node, json_t *names, struct weir_error *error)
{
    char *text = names == NULL ? NULL : json_dumps(names, JSON_COMPACT);
    enum weir_status status = text == NULL           ? error_out_of_memory(error)
                              : node->worker != NULL ? worker_name_handlers(node->worker, names, error)
                                                     : node_set_handlers(node->node, text, error);
    free(text);
    if (status == WEIR_OK) {
        json_decref(node->handler_names);
        node->handler_names = json_incref(names);
    }
    return status;
}

/* The engine has the handler before the store: no item arrives that it refuses. */
enum weir_status weir_node_register_handler(struct weir_node *node, const struct weir_handler *handler,
                                            struct weir_error *error)
{
    if (node == NULL || handler == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_node_register_handler needs a node and a handler");
    }
    (void)pthread_mutex_lock(&node->handlers_lock);
    enum weir_status status = engine_add_handler(node->engine, handler, error);
    if (status == WEIR_OK) {
        json_t *names = change_names(node->handler_names, handler->name, true);
        status = record_names(node, names, error);
        json_decref(names);
        if (status != WEIR_OK) {
            enum weir_status undone = engine_remove_handler(node->engine, handler->name, NULL);
            INVARIANT(undone == WEIR_OK);
        }
    }
    (void)pthread_mutex_unlock(&node->handlers_lock);
    return status;
}

enum weir_status weir_node_unregister_handler(struct weir_node *node, const char *name, struct weir_error *error)
{
    if (node == NULL || name == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_node_unregister_handler needs a node and a name");
    }
    (void)pthread_mutex_lock(&node->handlers_lock);
    json_t *names = change_names(node->handler_names, name, false);
    bool is_known = names != NULL && json_array_size(names) < json_array_size(node->handler_names);
    enum weir_status status = is_known ? record_names(node, names, error) : WEIR_OK;
    if (status == WEIR_OK) {
        status = names == NULL ? error_out_of_memory(error) : engine_remove_handler(node->engine, name, error);
    }
    json_decref(names);
    (void)pthread_mutex_unlock(&node->handlers_lock);
    return status;
}

/* The setting 0 of the public options is the default of the node, too. The engine has checked the handlers. */
static enum weir_status open_inner_node(struct weir_node *node, const struct weir_node_options *options,
                                        struct weir_error *error)
{
    char *names = list_handler_names(node, options->handlers, options->handler_count);
    if (names == NULL) {
        return error_out_of_memory(error);
    }
    struct node_settings settings = {.name = options->name,
                                     .group = options->group,
                                     .poll_interval_us = options->poll_interval_us,
                                     .lease_us = options->lease_us,
                                     .stuck_after_us = options->stuck_after_us,
                                     .retention_us = options->retention_us,
                                     .stop_grace_us = options->stop_grace_us,
                                     .starts_max = options->starts_max,
                                     .language = options->language,
                                     .exports_spans = node->weir->exporter != NULL,
                                     .spans_ratio = node->weir->spans_ratio,
                                     .handlers = options->handler_count > 0 ? names : NULL};
    enum weir_status status = node_open(node->store, node->engine, &node->weir->events, &settings, &node->node, error);
    free(names);
    return status;
}

/* Everything but handlers is for the node of the server, which has the store. */
static enum weir_status open_worker(struct weir_node *node, const struct weir_node_options *options,
                                    struct weir_error *error)
{
    if (options->temporal != NULL || options->allow_exec || options->http_allow_list != NULL) {
        (void)error_set(error, WEIR_INVALID_ARGUMENT, "a node on a server runs handlers alone");
        error_hint(error, "exec and http steps and Temporal are settings of the node behind the server, in its weir.yaml");
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = open_node_engine(node, options, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct worker_options worker = {.url = node->weir->server_url,
                                    .name = options->name,
                                    .group = options->group,
                                    .tasks_max = options->max_running,
                                    .engine = node->engine,
                                    .events = &node->weir->events};
    char *names = list_handler_names(node, options->handlers, options->handler_count);
    status = names == NULL ? error_out_of_memory(error) : worker_open(&worker, &node->worker, error);
    free(names);
    return status == WEIR_OK ? worker_name_handlers(node->worker, node->handler_names, error) : status;
}

/* The engine is the first: it may fork. */
static enum weir_status open_dispatching_node(struct weir_node *node, const struct weir_node_options *options,
                                              struct weir_error *error)
{
    enum weir_status status = open_node_engine(node, options, error);
    if (status == WEIR_OK) {
        status = store_open_again(node->weir->store, &node->store, error);
    }
    return status == WEIR_OK ? open_inner_node(node, options, error) : status;
}

enum weir_status weir_node_open(struct weir *weir, const struct weir_node_options *options, struct weir_node **ret_node,
                                struct weir_error *error)
{
    static const struct weir_node_options defaults;
    if (weir == NULL || ret_node == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_node_open needs a store and a place for its answer");
    }
    if (options == NULL) {
        options = &defaults;
    }
    struct weir_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return error_out_of_memory(error);
    }
    node->weir = weir;
    (void)pthread_mutex_init(&node->handlers_lock, NULL);
    node->stop_grace_us = options->stop_grace_us > 0 ? options->stop_grace_us : STOP_GRACE_US;
    enum weir_status status =
        weir->server_url != NULL ? open_worker(node, options, error) : open_dispatching_node(node, options, error);
    if (status != WEIR_OK) {
        weir_node_close(node);
        return status;
    }
    list_open_node(node);
    *ret_node = node;
    return WEIR_OK;
}

enum weir_status weir_node_start(struct weir_node *node, struct weir_error *error)
{
    if (node->has_threads) {
        return error_set(error, WEIR_MISUSE, "the node has been started already");
    }
    enum weir_status status = WEIR_OK;
    if (node->worker != NULL) {
        status = engine_run_threads(node->engine, error);
        status = status == WEIR_OK ? worker_run_thread(node->worker, error) : status;
    } else {
        status = node_run_threads(node->node, error);
    }
    node->has_threads = status == WEIR_OK;
    return status;
}

enum weir_status weir_node_health(struct weir_node *node, struct weir_error *error)
{
    struct weir_error own = {.status = WEIR_OK};
    if (node->worker != NULL) {
        return worker_health(node->worker, error);
    }
    if (node_is_healthy(node->node, &own)) {
        return WEIR_OK;
    }
    if (own.status == WEIR_OK) {
        (void)error_set(&own, WEIR_STOPPED, "the node cannot go on");
    }
    if (error != NULL) {
        *error = own;
    }
    return own.status;
}

/* Returns the time until the next step; -1 = none is due. */
static int64_t step_node_once(struct weir_node *node)
{
    int64_t next_us = node_step(node->node);
    int64_t now_us = clock_boot(clock_system());
    return next_us == TIME_NEVER ? -1 : next_us > now_us ? next_us - now_us : 0;
}

enum weir_status weir_node_step(struct weir_node *node, int64_t *ret_wait_us, struct weir_error *error)
{
    if (node->has_threads) {
        return error_set(error, WEIR_MISUSE, "the node runs in threads of its own, it cannot be stepped");
    }
    if (node->worker != NULL) {
        return error_set(error, WEIR_MISUSE, "a node on a server cannot be stepped: weir_node_start() gives it threads");
    }
    int64_t wait_us = step_node_once(node);
    enum weir_status status = weir_node_health(node, error);
    if (status == WEIR_OK && ret_wait_us != NULL) {
        *ret_wait_us = wait_us;
    }
    return status;
}

int weir_node_fd(const struct weir_node *node)
{
    return node->worker != NULL ? -1 : node_fd(node->node);
}

void weir_node_wake(struct weir_node *node)
{
    if (node->worker == NULL) { /* a server answers a claim that waits */
        node_wake(node->node);
    }
}

void weir_node_pause(struct weir_node *node)
{
    if (node->worker != NULL) {
        worker_pause(node->worker, true);
    } else {
        node_pause(node->node);
    }
}

void weir_node_resume(struct weir_node *node)
{
    if (node->worker != NULL) {
        worker_pause(node->worker, false);
    } else {
        node_resume(node->node);
    }
}

/* --- the end --- */

void weir_node_begin_stop(struct weir_node *node, bool interrupt)
{
    if (node->worker != NULL) {
        worker_begin_stop(node->worker, interrupt);
    } else {
        node_begin_stop(node->node, interrupt ? NODE_STOP_INTERRUPT : NODE_STOP_GRACEFUL);
    }
}

bool weir_node_is_stopped(struct weir_node *node)
{
    return node->worker != NULL ? worker_is_stopped(node->worker) : node_is_stopped(node->node);
}

/* Steps a node without threads until it has stopped; WEIR_TIMED_OUT after `deadline_us`. */
static enum weir_status step_until_stopped(struct weir_node *node, int64_t deadline_us, struct weir_error *error)
{
    int64_t until_us = time_add(clock_boot(clock_system()), deadline_us);
    while (!node_is_stopped(node->node)) {
        int64_t wait_us = step_node_once(node);
        int64_t left_us = until_us - clock_boot(clock_system());
        if (node_is_stopped(node->node)) {
            break;
        }
        if (left_us <= 0) {
            return error_set(error, WEIR_TIMED_OUT, "the node is still stopping");
        }
        if (wait_us < 0 || wait_us > left_us) {
            wait_us = left_us;
        }
        struct pollfd ready = {.fd = node_fd(node->node), .events = POLLIN};
        (void)poll(&ready, 1, time_to_poll_ms(wait_us));
    }
    return WEIR_OK;
}

/* WEIR_TIMED_OUT after `deadline_us`; the stop goes on. */
static enum weir_status await_node_stop(struct weir_node *node, int64_t deadline_us, bool *ret_graceful,
                                        struct weir_error *error)
{
    if (node->worker != NULL) {
        return worker_await_stop(node->worker, deadline_us, ret_graceful, error);
    }
    enum weir_status status = node->has_threads ? WEIR_OK : step_until_stopped(node, deadline_us, error);
    return status == WEIR_OK ? node_await_stop(node->node, node->has_threads ? deadline_us : 0, ret_graceful, error)
                             : status;
}

enum weir_status weir_node_stop(struct weir_node *node, int64_t grace_us, bool *ret_graceful, struct weir_error *error)
{
    bool graceful = true;
    if (grace_us < 0 || grace_us > node->stop_grace_us) {
        grace_us = node->stop_grace_us;
    }
    weir_node_begin_stop(node, false);
    enum weir_status status = await_node_stop(node, grace_us, &graceful, error);
    if (status == WEIR_TIMED_OUT) {
        graceful = false;
        weir_node_begin_stop(node, true);
        status = await_node_stop(node, INTERRUPT_DEADLINE_US, NULL, error);
    }
    if (status == WEIR_OK && ret_graceful != NULL) {
        *ret_graceful = graceful;
    }
    return status;
}

void weir_node_close(struct weir_node *node)
{
    if (node != NULL) {
        unlist_open_node(node);
        node_close(node->node);
        worker_close(node->worker);
        engine_close(node->engine);
        store_close(node->store);
        json_decref(node->handler_names);
        (void)pthread_mutex_destroy(&node->handlers_lock);
        free(node);
    }
}
