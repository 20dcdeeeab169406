/* Stores and their calls.
 *
 * A struct weir may be used by any number of threads at once, so that tasks of one store run beside each other. `users`
 * counts tasks and open nodes: a store that has some is not closed. Only the event loop's thread changes it.
 *
 * Events of the library come from any of its threads. deliver_event() copies one and queues it for the event loop; the
 * lock guards against the end of the environment, after which the queue must not be used.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* --- events --- */

enum { EVENT_TEXTS = 7 };

/* A copy: texts[i] is NULL when the event has no such field. */
struct event {
    enum weir_event_level level;
    int64_t start_number;
    char *texts[EVENT_TEXTS];
};

static void free_event(struct event *event)
{
    for (size_t i = 0; event != NULL && i < EVENT_TEXTS; i++) {
        free(event->texts[i]);
    }
    free(event);
}

static void deliver_event(void *context, const struct weir_event *from)
{
    struct store *store = context;
    struct event *event = calloc(1, sizeof *event);
    if (event == NULL) {
        return;
    }
    event->level = from->level;
    event->start_number = from->start_number;
    const char *texts[EVENT_TEXTS] = {from->name,     from->message, from->execution_id, from->workspace,
                                      from->workflow, from->code,    from->error};
    for (size_t i = 0; i < EVENT_TEXTS; i++) {
        event->texts[i] = texts[i] != NULL ? strdup(texts[i]) : NULL;
    }
    (void)pthread_mutex_lock(&store->lock);
    if (store->is_muted || napi_call_threadsafe_function(store->events, event, napi_tsfn_nonblocking) != napi_ok) {
        free_event(event);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* Runs in the event loop: onEvent(level, name, message, executionId, workspace, workflow, code, error, startNumber). */
static void emit_event(napi_env env, napi_value function, void *context, void *data)
{
    (void)context;
    struct event *event = data;
    if (env != NULL) {
        napi_value values[EVENT_TEXTS + 2];
        napi_value receiver = NULL;
        (void)napi_get_undefined(env, &receiver);
        values[0] = make_number(env, (int64_t)event->level);
        for (size_t i = 0; i < EVENT_TEXTS; i++) {
            values[i + 1] = event->texts[i] != NULL ? make_text(env, event->texts[i]) : make_null(env);
        }
        values[EVENT_TEXTS + 1] = make_number(env, event->start_number);
        (void)napi_call_function(env, receiver, function, EVENT_TEXTS + 2, values, NULL);
    }
    free_event(event);
}

/* --- life --- */

/* No event is delivered after the return. */
static void mute_store(void *data)
{
    struct store *store = data;
    (void)pthread_mutex_lock(&store->lock);
    store->is_muted = true;
    (void)pthread_mutex_unlock(&store->lock);
}

/* A store with users at the end of its environment is left open: a task or a node may still use it. */
static void collect_store(napi_env env, void *data, void *unused)
{
    (void)unused;
    struct store *store = data;
    if (store->users > 0) {
        return;
    }
    weir_close(store->weir);
    (void)napi_remove_env_cleanup_hook(env, mute_store, store);
    if (store->events != NULL && !store->is_muted) {
        (void)napi_release_threadsafe_function(store->events, napi_tsfn_abort);
    }
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

napi_value create_store(napi_env env, napi_callback_info info)
{
    napi_value function = NULL;
    napi_value value = NULL;
    napi_valuetype type = napi_undefined;
    size_t count = 1;
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL || napi_get_cb_info(env, info, &count, &function, NULL, NULL) != napi_ok) {
        free(store);
        throw_type_error(env, "weir: there is no memory for a store");
        return NULL;
    }
    store->kind = OBJECT_STORE;
    (void)pthread_mutex_init(&store->lock, NULL);
    (void)napi_typeof(env, function, &type);
    if (type == napi_function) {
        if (napi_create_threadsafe_function(env, function, NULL, make_text(env, "weir.event"), 0, 1, NULL, NULL, store,
                                            emit_event, &store->events) != napi_ok) {
            free(store);
            throw_type_error(env, "weir: the callback of events could not be registered");
            return NULL;
        }
        (void)napi_unref_threadsafe_function(env, store->events); /* events alone keep no process alive */
    }
    (void)napi_add_env_cleanup_hook(env, mute_store, store);
    if (napi_create_external(env, store, collect_store, NULL, &value) != napi_ok) {
        collect_store(env, store, NULL);
        return NULL;
    }
    return value;
}

bool enter_store(napi_env env, struct task *task, const napi_value *unused)
{
    (void)env;
    (void)unused;
    task->store->users++;
    if (task->store->weir == NULL || task->store->is_closing) {
        task->status = refuse_task(task, "the store is closed");
    }
    return true;
}

void leave_store(napi_env env, struct task *task)
{
    (void)env;
    task->store->users--;
}

static bool enter_new_store(napi_env env, struct task *task, const napi_value *unused)
{
    (void)env;
    (void)unused;
    task->store->users++;
    if (task->store->weir != NULL || task->store->users > 1) {
        task->status = refuse_task(task, "the store is open");
    }
    return true;
}

static enum weir_status run_open(struct task *task)
{
    struct weir_options options = {.deadline_us = task->arguments[1].number};
    if (task->store->events != NULL) {
        options.on_event = deliver_event;
        options.event_context = task->store;
    }
    return weir_open(task->arguments[0].text, &options, (struct weir **)&task->opened, &task->error);
}

static napi_value finish_open(napi_env env, struct task *task)
{
    task->store->weir = task->opened;
    return make_null(env);
}

static bool enter_last(napi_env env, struct task *task, const napi_value *values)
{
    (void)enter_store(env, task, values);
    if (task->status == WEIR_OK && task->store->users > 1) {
        task->status = refuse_task(task, "the store has calls under way or an open worker: await them, then close it");
    }
    if (task->status == WEIR_OK) {
        task->store->is_closing = true;
    }
    return true;
}

static enum weir_status run_close(struct task *task)
{
    weir_close(task->store->weir);
    return WEIR_OK;
}

static napi_value finish_close(napi_env env, struct task *task)
{
    task->store->weir = NULL;
    return make_null(env);
}

/* --- enqueue --- */

/* The arguments of a request: workspace, workflow, params, key, group, priority, run_at, id, traceparent,
 * business key, labels, mode of the key, window and longest delay of a debounce. */
static const char request_types[] = "ssszziizzzziii";
_Static_assert(sizeof request_types - 1 <= ARGUMENTS_MAX, "a request has more arguments than an array of them");

static struct weir_request make_request(const struct argument *arguments)
{
    return (struct weir_request){.workspace = arguments[0].text,
                                 .workflow = arguments[1].text,
                                 .params = arguments[2].text,
                                 .params_length = arguments[2].length,
                                 .idempotency_key = arguments[3].text,
                                 .group = arguments[4].text,
                                 .priority = (int)arguments[5].number,
                                 .run_at_us = arguments[6].number,
                                 .id = arguments[7].text,
                                 .traceparent = arguments[8].text,
                                 .business_key = arguments[9].text,
                                 .labels = arguments[10].text,
                                 .key_mode = (enum weir_key_mode)arguments[11].number,
                                 .debounce_us = arguments[12].number,
                                 .debounce_most_us = arguments[13].number};
}

static enum weir_status run_enqueue(struct task *task)
{
    struct weir_request request = make_request(task->arguments);
    return weir_enqueue(task->store->weir, &request, task->id, &task->error);
}

static napi_value finish_enqueue(napi_env env, struct task *task)
{
    return make_text(env, task->id);
}

/* Reads an array of arrays, each with the arguments of a request. */
static bool read_requests(napi_env env, struct task *task, const napi_value *values)
{
    uint32_t count = 0;
    if (napi_get_array_length(env, values[0], &count) != napi_ok) {
        throw_type_error(env, "weir: enqueueMany() wants an array");
        return false;
    }
    task->rows = calloc((size_t)count * ARGUMENTS_MAX + 1, sizeof *task->rows);
    task->results = calloc((size_t)count + 1, sizeof *task->results);
    if (task->rows == NULL || task->results == NULL) {
        throw_type_error(env, "weir: there is no memory for the requests");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_task_row(env, task, values[0], request_types)) {
            return false;
        }
    }
    return enter_store(env, task, values);
}

static enum weir_status run_enqueue_many(struct task *task)
{
    struct weir_request *requests = calloc(task->row_count + 1, sizeof *requests);
    if (requests == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < task->row_count; i++) {
        requests[i] = make_request(&task->rows[i * ARGUMENTS_MAX]);
    }
    enum weir_status status = weir_enqueue_many(task->store->weir, requests, task->row_count, task->results, &task->error);
    free(requests);
    return status;
}

/* An array with an id for each request, or a failure. */
static napi_value finish_enqueue_many(napi_env env, struct task *task)
{
    napi_value list = NULL;
    (void)napi_create_array_with_length(env, task->row_count, &list);
    for (size_t i = 0; i < task->row_count; i++) {
        const struct weir_result *result = &task->results[i];
        napi_handle_scope scope;
        if (napi_open_handle_scope(env, &scope) != napi_ok) {
            break;
        }
        (void)napi_set_element(env, list, (uint32_t)i,
                               result->status == WEIR_OK ? make_text(env, result->id)
                                                         : make_failure(env, result->status, &result->error));
        (void)napi_close_handle_scope(env, scope);
    }
    return list;
}

/* --- the other calls --- */

static enum weir_status run_show(struct task *task)
{
    return weir_show(task->store->weir, task->arguments[0].text, &task->text, &task->error);
}

static enum weir_status run_why(struct task *task)
{
    return weir_why(task->store->weir, task->arguments[0].text, &task->text, &task->error);
}

static enum weir_status run_wait(struct task *task)
{
    return weir_wait(task->store->weir, task->arguments[0].text, task->arguments[1].number, NULL, &task->text,
                     &task->error);
}

static enum weir_status run_metrics(struct task *task)
{
    return weir_metrics(task->store->weir, &task->text, &task->error);
}

napi_value finish_text(napi_env env, struct task *task)
{
    return make_text(env, task->text);
}

static enum weir_status run_cancel(struct task *task)
{
    return weir_cancel(task->store->weir, task->arguments[0].text, task->arguments[1].text, &task->error);
}

/* Arguments: id, 1 to keep the finished steps, the step to begin with, reason. */
static enum weir_status run_retry(struct task *task)
{
    const struct argument *arguments = task->arguments;
    const struct weir_retry_options options = {.keep_finished = arguments[1].number != 0, .from = arguments[2].text};
    return weir_retry_execution(task->store->weir, arguments[0].text, &options, arguments[3].text, task->id, &task->error);
}

static napi_value finish_retry(napi_env env, struct task *task)
{
    return make_text(env, task->id);
}

/* The act on one execution. Arguments: id, reason. */
static enum weir_status run_act(struct task *task, enum weir_act act)
{
    const struct weir_filter filter = {.id = task->arguments[0].text};
    return weir_act(task->store->weir, act, &filter, task->arguments[1].text, NULL, &task->error);
}

static enum weir_status run_release(struct task *task)
{
    return run_act(task, WEIR_ACT_RELEASE);
}

static enum weir_status run_dismiss(struct task *task)
{
    return run_act(task, WEIR_ACT_DISMISS);
}

/* Arguments: id, step, "approve" or "reject", comment, reason. */
static enum weir_status run_decide(struct task *task)
{
    const struct argument *arguments = task->arguments;
    const struct weir_decision decision = {.step = arguments[1].text,
                                           .approved = arguments[2].text[0] == 'a',
                                           .comment = arguments[3].text,
                                           .reason = arguments[4].text};
    return weir_decide(task->store->weir, arguments[0].text, &decision, &task->error);
}

/* Arguments: token, output, code, error, whether it is final. */
static enum weir_status run_call_back(struct task *task)
{
    const struct argument *arguments = task->arguments;
    const struct weir_callback callback = {.token = arguments[0].text,
                                           .output = arguments[1].text,
                                           .error_code = arguments[2].text,
                                           .error = arguments[3].text,
                                           .is_final = arguments[4].number != 0};
    return weir_call_back(task->store->weir, &callback, task->id, &task->error);
}

/* Arguments: id, state, variables, reason, if_state. */
static enum weir_status run_update(struct task *task)
{
    const struct argument *arguments = task->arguments;
    const struct weir_update update = {.state = arguments[1].text,
                                       .variables = arguments[2].text,
                                       .reason = arguments[3].text,
                                       .if_state = arguments[4].text};
    int action = 0;
    enum weir_status status = weir_update_execution(task->store->weir, arguments[0].text, &update, &action, &task->error);
    task->number = action;
    return status;
}

/* Arguments: id, waiting_for, reason. */
static enum weir_status run_wake(struct task *task)
{
    return weir_wake_execution(task->store->weir, task->arguments[0].text, task->arguments[1].text, task->arguments[2].text,
                               &task->error);
}

/* Arguments: id, version, reason. */
static enum weir_status run_migrate_execution(struct task *task)
{
    const struct argument *arguments = task->arguments;
    return weir_migrate_execution(task->store->weir, arguments[0].text, (int)arguments[1].number, arguments[2].text,
                                  &task->error);
}

/* Arguments: id, name, data, key, reason. */
static enum weir_status run_signal(struct task *task)
{
    const struct argument *arguments = task->arguments;
    const struct weir_signal_request signal = {
        .name = arguments[1].text, .data = arguments[2].text, .key = arguments[3].text, .reason = arguments[4].text};
    return weir_signal(task->store->weir, arguments[0].text, &signal, &task->number, &task->error);
}

static napi_value finish_number(napi_env env, struct task *task)
{
    return make_number(env, task->number);
}

/* Arguments: id, end, result, error code, error, run id, fence. */
static enum weir_status run_complete(struct task *task)
{
    const struct argument *arguments = task->arguments;
    struct weir_outcome outcome = {.end = (enum weir_end)arguments[1].number,
                                   .result = arguments[2].text,
                                   .error_code = arguments[3].text,
                                   .error = arguments[4].text,
                                   .run_id = arguments[5].text,
                                   .fence = arguments[6].number};
    return weir_complete(task->store->weir, arguments[0].text, &outcome, &task->error);
}

static enum weir_status run_publish(struct task *task)
{
    struct weir_published published = {.version = 0};
    enum weir_status status = weir_publish_workflow(task->store->weir, task->arguments[0].text, task->arguments[0].length,
                                                    task->arguments[1].text, &published, &task->error);
    task->number = published.version;
    task->second_number = published.earlier_version;
    task->flag = published.unchanged;
    return status;
}

/* [version, whether it is new, the older version with the same text or 0] */
static napi_value finish_publish(napi_env env, struct task *task)
{
    napi_value list = NULL;
    (void)napi_create_array_with_length(env, 3, &list);
    (void)napi_set_element(env, list, 0, make_number(env, task->number));
    (void)napi_set_element(env, list, 1, make_boolean(env, !task->flag));
    (void)napi_set_element(env, list, 2, make_number(env, task->second_number));
    return list;
}

static enum weir_status run_set_workspace(struct task *task)
{
    return weir_set_workspace(task->store->weir, task->arguments[0].text, task->arguments[1].text,
                              task->arguments[2].number, &task->error);
}

static enum weir_status run_pause_workspace(struct task *task)
{
    return weir_pause_workspace(task->store->weir, task->arguments[0].text, task->arguments[1].number != 0, &task->error);
}

static enum weir_status run_rename_workspace(struct task *task)
{
    const struct argument *arguments = task->arguments;
    return weir_rename_workspace(task->store->weir, arguments[0].text, arguments[1].text, arguments[2].text, &task->error);
}

static enum weir_status run_delete_workspace(struct task *task)
{
    const struct argument *arguments = task->arguments;
    struct weir_workspace_deletion deletion = {.name = arguments[0].text,
                                               .fail_waiting = arguments[1].number != 0,
                                               .erase = arguments[2].number != 0,
                                               .reason = arguments[3].text};
    struct weir_deleted deleted = {.failed = 0};
    enum weir_status status = weir_delete_workspace(task->store->weir, &deletion, &deleted, &task->error);
    task->number = (int64_t)deleted.failed;
    return status;
}

/* How many waiting executions were ended. */
static napi_value finish_delete_workspace(napi_env env, struct task *task)
{
    return make_number(env, task->number);
}

static enum weir_status run_disable_workflow(struct task *task)
{
    return weir_disable_workflow(task->store->weir, task->arguments[0].text, task->arguments[1].text,
                                 task->arguments[2].number != 0, &task->error);
}

static enum weir_status run_delete_workflow(struct task *task)
{
    return weir_delete_workflow(task->store->weir, task->arguments[0].text, task->arguments[1].text, &task->error);
}

static enum weir_status run_set_plan(struct task *task)
{
    return weir_set_plan(task->store->weir, task->arguments[0].text, task->arguments[1].number,
                         (int)task->arguments[2].number, &task->error);
}

/* Of a workspace, or of a plan. */
static enum weir_status run_set_max_pending(struct task *task)
{
    const char *name = task->arguments[0].text;
    int64_t most = task->arguments[2].number;
    return task->arguments[1].number != 0 ? weir_set_plan_max_pending(task->store->weir, name, most, &task->error)
                                          : weir_set_max_pending(task->store->weir, name, most, &task->error);
}

static enum weir_status run_migrate(struct task *task)
{
    int applied = 0;
    enum weir_status status = weir_migrate(task->arguments[0].text, &applied, &task->error);
    task->number = applied;
    return status;
}

static napi_value finish_migrate(napi_env env, struct task *task)
{
    return make_number(env, task->number);
}

/* --- the table --- */

#define OF_STORE(name, types, run, finish)                                                                                 \
    {                                                                                                                      \
        name, OBJECT_STORE, types, enter_store, run, finish, leave_store                                                   \
    }

const struct method store_methods[] = {
    {"migrate", OBJECT_NONE, "s", NULL, run_migrate, finish_migrate, NULL},
    {"openStore", OBJECT_STORE, "si", enter_new_store, run_open, finish_open, leave_store},
    {"closeStore", OBJECT_STORE, "", enter_last, run_close, finish_close, leave_store},
    {"enqueueMany", OBJECT_STORE, NULL, read_requests, run_enqueue_many, finish_enqueue_many, leave_store},
    OF_STORE("enqueue", request_types, run_enqueue, finish_enqueue),
    OF_STORE("show", "s", run_show, finish_text),
    OF_STORE("why", "s", run_why, finish_text),
    OF_STORE("wait", "si", run_wait, finish_text),
    OF_STORE("metrics", "", run_metrics, finish_text),
    OF_STORE("cancel", "sz", run_cancel, NULL),
    OF_STORE("retry", "sizz", run_retry, finish_retry),
    OF_STORE("release", "sz", run_release, NULL),
    OF_STORE("dismiss", "sz", run_dismiss, NULL),
    OF_STORE("decide", "szszz", run_decide, NULL),
    OF_STORE("wake", "szz", run_wake, NULL),
    OF_STORE("migrateExecution", "siz", run_migrate_execution, NULL),
    OF_STORE("callBack", "szzzi", run_call_back, finish_retry),
    OF_STORE("update", "szzzz", run_update, finish_number),
    OF_STORE("signal", "sszzz", run_signal, finish_number),
    OF_STORE("complete", "sizzzzi", run_complete, NULL),
    OF_STORE("publish", "ss", run_publish, finish_publish),
    OF_STORE("setWorkspace", "szi", run_set_workspace, NULL),
    OF_STORE("pauseWorkspace", "si", run_pause_workspace, NULL),
    OF_STORE("renameWorkspace", "ssz", run_rename_workspace, NULL),
    OF_STORE("deleteWorkspace", "siiz", run_delete_workspace, finish_delete_workspace),
    OF_STORE("disableWorkflow", "szi", run_disable_workflow, NULL),
    OF_STORE("deleteWorkflow", "sz", run_delete_workflow, NULL),
    OF_STORE("setPlan", "sii", run_set_plan, NULL),
    OF_STORE("setMaxPending", "sii", run_set_max_pending, NULL),
};
const size_t store_method_count = sizeof store_methods / sizeof *store_methods;
