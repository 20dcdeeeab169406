/* Nodes, and the delivery of their calls to the event loop.
 *
 * A call on its way:
 * 1. run_handler(), in a thread of the node, defers the call, so that the thread is free at once. It lists the call in its
 *    node and queues it for the event loop. The first entry of the queue wakes the loop, because a wake-up costs more than
 *    an entry.
 * 2. deliver_set(), in the event loop, takes a set of entries: the microtasks of all of them run after the last one.
 *    deliver_call() registers the cancel function, and gives JavaScript a handle of the call (handles.c).
 * 3. JavaScript answers with answer_done(), answer_retry() or answer_fail(). take_call() removes the call from the list;
 *    the one that gets it there may answer, so that there is one answer at most. Its handle ends with it.
 * 4. The library reports a cancellation in a thread of its own. post_cancel() queues it for the event loop.
 *
 * Memory: `users` of a call counts the list and the deliveries that are queued. The list's share ends after the answer,
 * because the library may call post_cancel() until the answer has returned.
 *
 * A wake-up may come after the node was freed, then without an environment: it must not use the node.
 *
 * The end of the environment (a worker thread that ends): end_node() refuses further deliveries, answers all open calls, so
 * that the library can give the executions back, and closes the node. It never waits for JavaScript, which cannot run.
 *
 * Locks: `lock` of a node guards its list, its queue and `is_ending`. No function of the library is called under it.
 */
#include "binding.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries of one set, which is one turn of the event loop: timers and I/O of the program wait for it. */
enum { DELIVERIES_MAX = 128 };

struct handler {
    struct node *node;
    char *name;
    uint32_t index;
};

struct node {
    enum object_kind kind;
    struct weir_node *node; /* NULL: not open yet, or closed */
    struct store *store;
    napi_ref store_reference;
    int users; /* tasks under way; only the event loop's thread changes it */
    bool is_closing;
    struct handler *handlers;
    struct weir_handler *table;
    size_t handler_count;
    char language[48]; /* "node 20.1.0" */
    napi_threadsafe_function deliver;
    struct handle_table *handles; /* of the environment */
    pthread_mutex_t lock;         /* for all below */
    bool is_ending;               /* nothing is delivered any more */
    struct call *first;           /* open calls */
    struct delivery *queue;       /* the oldest entry */
    struct delivery **queue_end;
    bool is_woken; /* a wake-up is under way */
};

/* An entry of the queue to the event loop: a new call, or the cancellation of one. */
struct delivery {
    struct call *call;
    struct delivery *next;
    bool is_cancel;
};

struct call {
    struct weir_call *call; /* NULL: answered */
    struct node *node;      /* valid while `call` is not NULL */
    struct call *previous;
    struct call *next;
    int64_t handle; /* 0 = it has none; only the event loop's thread sets it */
    uint32_t handler;
    atomic_int users;
    struct delivery start;
    struct delivery cancel;
};

/* --- calls --- */

static void release_call(struct call *call)
{
    if (atomic_fetch_sub(&call->users, 1) == 1) {
        free(call);
    }
}

/* The right to answer the call, or NULL when it has been answered. One with a handle: only in the event loop's thread. */
static struct weir_call *take_call(struct call *call)
{
    struct node *node = call->node;
    (void)pthread_mutex_lock(&node->lock);
    struct weir_call *taken = call->call;
    call->call = NULL;
    if (taken != NULL) {
        if (call->previous != NULL) {
            call->previous->next = call->next;
        } else {
            node->first = call->next;
        }
        if (call->next != NULL) {
            call->next->previous = call->previous;
        }
    }
    (void)pthread_mutex_unlock(&node->lock);
    if (taken != NULL && call->handle != 0) {
        handles_end(node->handles, call->handle);
        call->handle = 0;
    }
    return taken;
}

/* Answers in place of JavaScript. False when the call had been answered. */
static bool give_back_call(struct call *call, const char *reason)
{
    struct weir_call *taken = take_call(call);
    if (taken == NULL) {
        return false;
    }
    weir_retry(taken, "cancelled", reason);
    release_call(call);
    return true;
}

/* Wakes the event loop unless a wake-up is under way. Under the lock. */
static bool wake(struct node *node)
{
    if (!node->is_woken) {
        node->is_woken = napi_call_threadsafe_function(node->deliver, NULL, napi_tsfn_nonblocking) == napi_ok;
    }
    return node->is_woken;
}

/* Queues a delivery with a share of the call. False when the node is ending: then nothing is queued. Under the lock. */
static bool post(struct node *node, struct delivery *delivery)
{
    if (node->is_ending || !wake(node)) {
        return false;
    }
    (void)atomic_fetch_add(&delivery->call->users, 1);
    delivery->next = NULL;
    *node->queue_end = delivery;
    node->queue_end = &delivery->next;
    return true;
}

/* The end of the queue: nothing is delivered any more. Under the lock. */
static void drop_deliveries(struct node *node)
{
    while (node->queue != NULL) {
        struct delivery *delivery = node->queue;
        node->queue = delivery->next;
        release_call(delivery->call);
    }
    node->queue_end = &node->queue;
}

/* The library's cancel function. The call cannot end meanwhile, because its answer waits for this function. */
static void post_cancel(struct weir_call *unused, void *context)
{
    (void)unused;
    struct call *call = context;
    struct node *node = call->node;
    (void)pthread_mutex_lock(&node->lock);
    (void)post(node, &call->cancel);
    (void)pthread_mutex_unlock(&node->lock);
}

/* The library's handler function. After the posting the event loop may have ended the call already. */
static void run_handler(struct weir_call *weir_call, void *context)
{
    const struct handler *handler = context;
    struct node *node = handler->node;
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        weir_retry(weir_call, "out_of_memory", "the worker has no memory for the call");
        return;
    }
    *call = (struct call){.call = weir_call, .node = node, .handler = handler->index};
    call->start.call = call;
    call->cancel = (struct delivery){.call = call, .is_cancel = true};
    atomic_init(&call->users, 2); /* the list, and this function */
    weir_call_defer(weir_call);
    (void)pthread_mutex_lock(&node->lock);
    call->next = node->first;
    if (node->first != NULL) {
        node->first->previous = call;
    }
    node->first = call;
    bool is_posted = post(node, &call->start);
    (void)pthread_mutex_unlock(&node->lock);
    if (!is_posted) {
        (void)give_back_call(call, "the worker ends");
    }
    release_call(call);
}

/* deliver(handle, handler, executionId, workspace, step, attempt, fence, input, traceparent) of a new call; null = {}. */
static bool deliver_start(napi_env env, napi_value function, napi_value receiver, struct call *call)
{
    napi_value values[9] = {NULL};
    call->handle = handles_add(call->node->handles, call);
    if (call->handle == 0) {
        (void)give_back_call(call, "the worker has no memory for the call");
        return true;
    }
    weir_call_on_cancel(call->call, post_cancel, call);
    values[0] = make_number(env, call->handle);
    values[1] = make_number(env, call->handler);
    values[2] = make_ascii(env, weir_call_execution_id(call->call));
    values[3] = make_text(env, weir_call_workspace(call->call));
    values[4] = make_text(env, weir_call_step(call->call));
    values[5] = make_number(env, weir_call_attempt(call->call));
    values[6] = make_number(env, weir_call_fence(call->call));
    const char *input = weir_call_input(call->call), *traceparent = weir_call_traceparent(call->call);
    values[7] = strcmp(input, "{}") == 0 ? make_null(env) : make_text(env, input);
    values[8] = traceparent == NULL ? make_null(env) : make_ascii(env, traceparent);
    return napi_call_function(env, receiver, function, 9, values, NULL) == napi_ok;
}

/* Gives JavaScript a new call, or, with deliver(handle), a cancellation. False: an exception is pending. */
static bool deliver_call(napi_env env, napi_value function, napi_value receiver, const struct delivery *delivery)
{
    struct call *call = delivery->call;
    bool is_fine = true;
    if (call->call != NULL && delivery->is_cancel) {
        napi_value handle = make_number(env, call->handle);
        is_fine = napi_call_function(env, receiver, function, 1, &handle, NULL) == napi_ok;
    } else if (call->call != NULL) {
        is_fine = deliver_start(env, function, receiver, call);
    }
    release_call(call);
    return is_fine;
}

/* The oldest entry, or NULL: the set is full, or the queue is empty. */
static struct delivery *take_delivery(struct node *node, size_t taken)
{
    (void)pthread_mutex_lock(&node->lock);
    struct delivery *delivery = taken < DELIVERIES_MAX ? node->queue : NULL;
    if (delivery != NULL) {
        node->queue = delivery->next;
        node->queue_end = node->queue == NULL ? &node->queue : node->queue_end;
    }
    (void)pthread_mutex_unlock(&node->lock);
    return delivery;
}

/* The wake-up has ended: the next entry, or one that is queued already, begins another. */
static void end_wake_up(struct node *node)
{
    (void)pthread_mutex_lock(&node->lock);
    node->is_woken = false;
    if (node->queue != NULL) {
        (void)wake(node);
    }
    (void)pthread_mutex_unlock(&node->lock);
}

/* Delivers one set. After calls the wake-up goes on: deliver() without arguments lets JavaScript call deliverMore()
 * in the next turn of the event loop, because Node.js serves a thousand wake-ups in one turn. An exception ends the set:
 * Node.js reports it after the return. */
static void deliver_set(napi_env env, struct node *node, napi_value function)
{
    napi_value receiver = NULL;
    (void)napi_get_undefined(env, &receiver);
    bool is_fine = true;
    size_t taken = 0;
    for (struct delivery *one = NULL; is_fine && (one = take_delivery(node, taken)) != NULL; taken++) {
        napi_handle_scope scope = NULL;
        (void)napi_open_handle_scope(env, &scope);
        is_fine = deliver_call(env, function, receiver, one);
        (void)napi_close_handle_scope(env, scope);
    }
    if (!is_fine || taken == 0 || napi_call_function(env, receiver, function, 0, NULL, NULL) != napi_ok) {
        end_wake_up(node);
    }
}

/* A wake-up of the event loop. */
static void deliver_calls(napi_env env, napi_value function, void *context, void *unused)
{
    (void)unused;
    if (env != NULL) {
        deliver_set(env, context, function);
    }
}

/* deliverMore(node, deliver): the next set, of a wake-up that goes on. */
napi_value deliver_more(napi_env env, napi_callback_info info)
{
    napi_value values[2] = {NULL};
    size_t count = 2;
    bool is_read = napi_get_cb_info(env, info, &count, values, NULL, NULL) == napi_ok;
    struct node *node = is_read ? read_object(env, values[0], OBJECT_NODE) : NULL;
    if (node != NULL) {
        deliver_set(env, node, values[1]);
    }
    return NULL;
}

/* Reads a call and the arguments of its answer. False: it has ended, or a TypeError is pending. */
static bool read_answer(napi_env env, napi_callback_info info, const char *types, struct call **ret_call,
                        struct argument *arguments)
{
    napi_value values[ARGUMENTS_MAX];
    size_t count = ARGUMENTS_MAX;
    if (napi_get_cb_info(env, info, &count, values, NULL, NULL) != napi_ok) {
        return false;
    }
    *ret_call = handles_find(env, values[0]);
    return *ret_call != NULL && (*ret_call)->call != NULL && read_arguments(env, values + 1, types, arguments);
}

struct weir_call *read_open_call(napi_env env, napi_callback_info info, const char *types, struct argument *arguments)
{
    struct call *call = NULL;
    return read_answer(env, info, types, &call, arguments) ? call->call : NULL;
}

napi_value answer_done(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument output;
    if (!read_answer(env, info, "z", &call, &output)) {
        return make_boolean(env, false);
    }
    struct weir_call *taken = take_call(call);
    if (taken != NULL) {
        weir_done(taken, output.text);
        release_call(call);
    }
    free_arguments(&output, 1);
    return make_boolean(env, taken != NULL);
}

napi_value answer_retry(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument arguments[3];
    if (!read_answer(env, info, "szi", &call, arguments)) {
        return make_boolean(env, false);
    }
    struct weir_call *taken = take_call(call);
    if (taken != NULL) {
        weir_retry_after(taken, arguments[2].number, arguments[0].text, arguments[1].text);
        release_call(call);
    }
    free_arguments(arguments, 3);
    return make_boolean(env, taken != NULL);
}

napi_value answer_fail(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument arguments[2];
    if (!read_answer(env, info, "sz", &call, arguments)) {
        return make_boolean(env, false);
    }
    struct weir_call *taken = take_call(call);
    if (taken != NULL) {
        weir_fail(taken, arguments[0].text, arguments[1].text);
        release_call(call);
    }
    free_arguments(arguments, 2);
    return make_boolean(env, taken != NULL);
}

/* --- calls of states --- */

static napi_value text_or_null(napi_env env, const char *text)
{
    return text == NULL ? make_null(env) : make_text(env, text);
}

napi_value get_call_state(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    napi_value list = NULL;
    if (!read_answer(env, info, "", &call, NULL) || napi_create_array_with_length(env, 5, &list) != napi_ok) {
        return NULL;
    }
    const char *const texts[] = {weir_call_state(call->call), weir_call_signal(call->call),
                                 weir_call_failed_state(call->call), weir_call_failure_code(call->call),
                                 weir_call_failure(call->call)};
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        (void)napi_set_element(env, list, i, text_or_null(env, texts[i]));
    }
    return list;
}

/* variable(call, name): JSON text, or null. */
napi_value get_variable(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument name;
    if (!read_answer(env, info, "s", &call, &name)) {
        return NULL;
    }
    napi_value value = text_or_null(env, weir_call_variable(call->call, name.text));
    free_arguments(&name, 1);
    return value;
}

/* setVariable(call, name, value as JSON text). */
napi_value set_variable(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument arguments[2];
    struct weir_error error = {.status = WEIR_OK};
    if (!read_answer(env, info, "ss", &call, arguments)) {
        return NULL;
    }
    enum weir_status status = weir_call_set_variable(call->call, arguments[0].text, arguments[1].text, &error);
    free_arguments(arguments, 2);
    return status == WEIR_OK ? make_null(env) : make_failure(env, status, &error);
}

/* startChild(call, workflow, params, key, leaves). */
napi_value start_child(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument arguments[4];
    struct weir_error error = {.status = WEIR_OK};
    if (!read_answer(env, info, "sszi", &call, arguments)) {
        return NULL;
    }
    bool leaves = arguments[3].number != 0;
    enum weir_status status = (leaves ? weir_call_enqueue : weir_call_start_child)(
        call->call, arguments[0].text, arguments[1].text, arguments[2].text, &error);
    free_arguments(arguments, 4);
    return status == WEIR_OK ? make_null(env) : make_failure(env, status, &error);
}

/* answerNext(call, state, delay), answerNextAt(call, state, time): microseconds. */
static napi_value answer_state(napi_env env, napi_callback_info info,
                               void (*answer)(struct weir_call *, const char *, int64_t))
{
    struct call *call = NULL;
    struct argument arguments[2];
    if (!read_answer(env, info, "zi", &call, arguments)) {
        return make_boolean(env, false);
    }
    struct weir_call *taken = take_call(call);
    if (taken != NULL) {
        answer(taken, arguments[0].text, arguments[1].number);
        release_call(call);
    }
    free_arguments(arguments, 2);
    return make_boolean(env, taken != NULL);
}

napi_value answer_next(napi_env env, napi_callback_info info)
{
    return answer_state(env, info, weir_next_after);
}

napi_value answer_next_at(napi_env env, napi_callback_info info)
{
    return answer_state(env, info, weir_next_at);
}

napi_value answer_wait_children(napi_env env, napi_callback_info info)
{
    return answer_state(env, info, weir_next_on_children);
}

/* answerWait(call, state, signal, timeout). */
napi_value answer_wait(napi_env env, napi_callback_info info)
{
    struct call *call = NULL;
    struct argument arguments[3];
    if (!read_answer(env, info, "zsi", &call, arguments)) {
        return make_boolean(env, false);
    }
    struct weir_call *taken = take_call(call);
    if (taken != NULL) {
        weir_next_on_signal(taken, arguments[0].text, arguments[1].text, arguments[2].number);
        release_call(call);
    }
    free_arguments(arguments, 3);
    return make_boolean(env, taken != NULL);
}

napi_value is_call_cancelled(napi_env env, napi_callback_info info)
{
    napi_value value = NULL;
    size_t count = 1;
    if (napi_get_cb_info(env, info, &count, &value, NULL, NULL) != napi_ok) {
        return NULL;
    }
    const struct call *call = handles_find(env, value);
    return call == NULL || call->call == NULL ? make_null(env) : make_boolean(env, weir_call_cancelled(call->call));
}

/* Answers all calls that are open now. */
static int64_t give_back_calls(struct node *node, const char *reason)
{
    int64_t count = 0;
    for (;;) {
        (void)pthread_mutex_lock(&node->lock);
        struct call *call = node->first;
        if (call != NULL) {
            (void)atomic_fetch_add(&call->users, 1);
        }
        (void)pthread_mutex_unlock(&node->lock);
        if (call == NULL) {
            return count;
        }
        count += give_back_call(call, reason) ? 1 : 0;
        release_call(call);
    }
}

napi_value abandon_calls(napi_env env, napi_callback_info info)
{
    napi_value value = NULL;
    size_t count = 1;
    if (napi_get_cb_info(env, info, &count, &value, NULL, NULL) != napi_ok) {
        return NULL;
    }
    struct node *node = read_object(env, value, OBJECT_NODE);
    return node == NULL ? NULL : make_number(env, give_back_calls(node, "the function did not end when it was cancelled"));
}

/* --- life of a node --- */

/* The cleanup hook of the environment. A task under way uses the node, which is then not closed: it only stops. */
static void end_node(void *data)
{
    struct node *node = data;
    (void)pthread_mutex_lock(&node->lock);
    node->is_ending = true;
    drop_deliveries(node);
    (void)pthread_mutex_unlock(&node->lock);
    if (node->node == NULL) {
        return;
    }
    weir_node_begin_stop(node->node, true);
    (void)give_back_calls(node, "the worker's thread ends");
    if (node->users == 0) {
        struct weir_error error;
        bool is_graceful = false;
        enum weir_status ignored = weir_node_stop(node->node, 0, &is_graceful, &error); /* the lease ends it otherwise */
        (void)ignored;
        weir_node_close(node->node);
        node->node = NULL;
        node->store->users--;
    }
}

/* Ends the delivery; no thread of the library uses the node any more. */
static void retire_node(napi_env env, struct node *node)
{
    if (!node->is_ending) {
        node->is_ending = true;
        drop_deliveries(node);
        (void)napi_remove_env_cleanup_hook(env, end_node, node);
        (void)napi_release_threadsafe_function(node->deliver, napi_tsfn_abort);
    }
}

static void free_node(napi_env env, struct node *node)
{
    for (size_t i = 0; i < node->handler_count; i++) {
        free(node->handlers[i].name);
    }
    free(node->handlers);
    free(node->table);
    if (node->store_reference != NULL) {
        (void)napi_delete_reference(env, node->store_reference);
    }
    (void)pthread_mutex_destroy(&node->lock);
    free(node);
}

/* A node that is open is never collected before the end of its environment: the worker that has it is reachable from the
 * delivery function. */
static void collect_node(napi_env env, void *data, void *unused)
{
    (void)unused;
    struct node *node = data;
    if (node->node != NULL || node->users > 0) {
        return;
    }
    retire_node(env, node);
    free_node(env, node);
}

/* One handler for each name. */
static bool read_handlers(napi_env env, napi_value names, struct node *node)
{
    uint32_t count = 0;
    if (napi_get_array_length(env, names, &count) != napi_ok) {
        throw_type_error(env, "weir: createNode() wants an array of names");
        return false;
    }
    node->handlers = calloc((size_t)count + 1, sizeof *node->handlers);
    node->table = calloc((size_t)count + 1, sizeof *node->table);
    if (node->handlers == NULL || node->table == NULL) {
        throw_type_error(env, "weir: there is no memory for the handlers");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        napi_value name = NULL;
        struct argument argument;
        if (napi_get_element(env, names, i, &name) != napi_ok || !read_arguments(env, &name, "s", &argument)) {
            return false;
        }
        node->handlers[i] = (struct handler){.node = node, .name = argument.text, .index = i};
        node->table[i] =
            (struct weir_handler){.name = argument.text, .function = run_handler, .context = &node->handlers[i]};
        node->handler_count = i + 1;
    }
    return true;
}

napi_value create_node(napi_env env, napi_callback_info info)
{
    napi_value values[3];
    size_t count = 3;
    napi_value value = NULL;
    struct node *node = calloc(1, sizeof *node);
    if (node == NULL || napi_get_cb_info(env, info, &count, values, NULL, NULL) != napi_ok) {
        free(node);
        throw_type_error(env, "weir: there is no memory for a node");
        return NULL;
    }
    node->kind = OBJECT_NODE;
    node->handles = handles_of(env);
    node->queue_end = &node->queue;
    (void)pthread_mutex_init(&node->lock, NULL);
    node->store = read_object(env, values[0], OBJECT_STORE);
    if (node->store == NULL || !read_handlers(env, values[1], node) ||
        napi_create_reference(env, values[0], 1, &node->store_reference) != napi_ok ||
        napi_create_threadsafe_function(env, values[2], NULL, make_text(env, "weir.call"), 0, 1, NULL, NULL, node,
                                        deliver_calls, &node->deliver) != napi_ok) {
        free_node(env, node);
        return NULL;
    }
    (void)napi_add_env_cleanup_hook(env, end_node, node);
    if (napi_create_external(env, node, collect_node, NULL, &value) != napi_ok) {
        collect_node(env, node, NULL);
        return NULL;
    }
    return value;
}

/* --- its calls --- */

static bool enter_new_node(napi_env env, struct task *task, const napi_value *unused)
{
    (void)unused;
    struct node *node = task->node;
    const napi_node_version *version = NULL;
    if (napi_get_node_version(env, &version) == napi_ok) {
        (void)snprintf(node->language, sizeof node->language, "node %u.%u.%u", (unsigned)version->major,
                       (unsigned)version->minor, (unsigned)version->patch);
    }
    node->users++;
    node->store->users++;
    if (node->node != NULL || node->is_closing || node->users > 1) {
        task->status = refuse_task(task, "the node is open, or was closed");
    } else if (node->store->weir == NULL || node->store->is_closing) {
        task->status = refuse_task(task, "the store is closed");
    }
    return true;
}

/* Arguments: name, group, executions at once, lease, grace, the folder of secrets. Calls are deferred at once, so that one
 * thread is enough. */
static enum weir_status run_open(struct task *task)
{
    const struct argument *arguments = task->arguments;
    struct weir_node_options options = {.name = arguments[0].text,
                                        .group = arguments[1].text,
                                        .handlers = task->node->table,
                                        .handler_count = task->node->handler_count,
                                        .handler_threads = 1,
                                        .max_running = (size_t)arguments[2].number,
                                        .language = task->node->language[0] == '\0' ? NULL : task->node->language,
                                        .lease_us = arguments[3].number,
                                        .stop_grace_us = arguments[4].number,
                                        .secrets_directory = arguments[5].text};
    return weir_node_open(task->node->store->weir, &options, (struct weir_node **)&task->opened, &task->error);
}

static napi_value finish_open(napi_env env, struct task *task)
{
    task->node->node = task->opened;
    return make_null(env);
}

/* An open node stays a user of its store. One that could not be opened must not keep the process alive. A refused second
 * call leaves the node of the first one as it is. */
static void leave_new_node(napi_env env, struct task *task)
{
    struct node *node = task->node;
    node->users--;
    if (task->opened == NULL) {
        node->store->users--;
    }
    if (node->node == NULL && node->users == 0) {
        retire_node(env, node);
    }
}

static bool enter_node(napi_env env, struct task *task, const napi_value *unused)
{
    (void)env;
    (void)unused;
    task->node->users++;
    if (task->node->node == NULL || task->node->is_closing) {
        task->status = refuse_task(task, "the node is closed");
    }
    return true;
}

static void leave_node(napi_env env, struct task *task)
{
    (void)env;
    task->node->users--;
}

static enum weir_status run_start(struct task *task)
{
    return weir_node_start(task->node->node, &task->error);
}

static enum weir_status run_health(struct task *task)
{
    return weir_node_health(task->node->node, &task->error);
}

static enum weir_status run_stop(struct task *task)
{
    return weir_node_stop(task->node->node, task->arguments[0].number, &task->flag, &task->error);
}

static napi_value finish_stop(napi_env env, struct task *task)
{
    return make_boolean(env, task->flag);
}

static bool enter_last(napi_env env, struct task *task, const napi_value *values)
{
    (void)enter_node(env, task, values);
    if (task->status == WEIR_OK && task->node->users > 1) {
        task->status = refuse_task(task, "the node has calls under way: await them, then close it");
    }
    if (task->status == WEIR_OK) {
        task->node->is_closing = true;
    }
    return true;
}

static enum weir_status run_close(struct task *task)
{
    weir_node_close(task->node->node);
    return WEIR_OK;
}

static napi_value finish_close(napi_env env, struct task *task)
{
    struct node *node = task->node;
    node->node = NULL;
    node->store->users--;
    retire_node(env, node);
    return make_null(env);
}

const struct method node_methods[] = {
    {"openNode", OBJECT_NODE, "zziiiz", enter_new_node, run_open, finish_open, leave_new_node},
    {"startNode", OBJECT_NODE, "", enter_node, run_start, NULL, leave_node},
    {"nodeHealth", OBJECT_NODE, "", enter_node, run_health, NULL, leave_node},
    {"stopNode", OBJECT_NODE, "i", enter_node, run_stop, finish_stop, leave_node},
    {"closeNode", OBJECT_NODE, "", enter_last, run_close, finish_close, leave_node},
};
const size_t node_method_count = sizeof node_methods / sizeof *node_methods;
