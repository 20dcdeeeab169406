/* The binding: weir/weir.h as Python objects, one to one. All rules of convenience are in the modules around it.
 *
 * - A call of the library runs without the interpreter's lock. Errors are raised as weir.errors.Error (make_error()).
 * - A handler is called on a thread of the node. It takes the interpreter's lock, and the Python function gets a Call. The
 *   Call belongs to the function until it returns, or after defer() until the answer; then it is closed, and using it
 *   raises an error: the library's memory behind it is gone.
 * - An answer waits for a cancel function that runs (weir/handler.h), and that one takes the interpreter's lock: so answers
 *   are given without it, but for the result of a call that has no cancel function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_binding.h"

static PyObject *make_error; /* weir.errors.make */
PyTypeObject *store_type;
PyTypeObject *call_type;
static PyTypeObject *node_type;

/* --- errors --- */

PyObject *raise_error(enum weir_status status, const struct weir_error *error)
{
    PyObject *made = PyObject_CallFunction(make_error, "siss", weir_status_name(status), (int)weir_status_kind(status),
                                           error->message, error->hint);
    if (made != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
        Py_DECREF(made);
    }
    return NULL;
}

PyObject *raise_misuse(const char *message)
{
    struct weir_error error = {.status = WEIR_MISUSE};
    (void)snprintf(error.message, sizeof error.message, "%s", message);
    return raise_error(WEIR_MISUSE, &error);
}

/* Text that the library gave out. */
static PyObject *take_text(char *text)
{
    PyObject *object = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    weir_free(text);
    return object;
}

/* --- Store --- */

static void store_drop(struct store *self)
{
    struct weir *weir = self->weir;
    if (weir != NULL && self->is_to_close && self->users == 0) {
        self->weir = NULL;
        Py_BEGIN_ALLOW_THREADS
        weir_close(weir);
        Py_END_ALLOW_THREADS
    }
}

struct weir *store_enter(struct store *self)
{
    if (self->weir == NULL || self->is_to_close) {
        return (struct weir *)(void *)raise_misuse("the store is closed");
    }
    self->users++;
    return self->weir;
}

void store_leave(struct store *self)
{
    self->users--;
    store_drop(self);
}

/* Runs `call`, which names the store `weir`, without the interpreter's lock. Leaves the calling function with an error when
 * the store is closed. */
#define CALL_STORE(self, status, call)                                                                                     \
    do {                                                                                                                   \
        struct weir *weir = store_enter(self);                                                                             \
        if (weir == NULL) {                                                                                                \
            return NULL;                                                                                                   \
        }                                                                                                                  \
        Py_BEGIN_ALLOW_THREADS;                                                                                            \
        (status) = (call);                                                                                                 \
        Py_END_ALLOW_THREADS;                                                                                              \
        store_leave(self);                                                                                                 \
    } while (0)

static void pass_event(void *context, const struct weir_event *event)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    struct store *self = context;
    PyObject *answer = PyObject_CallFunction(self->on_event, "isszzzzzL", (int)event->level, event->name, event->message,
                                             event->execution_id, event->workspace, event->workflow, event->code,
                                             event->error, (long long)event->start_number);
    if (answer == NULL) {
        PyErr_WriteUnraisable(self->on_event);
    }
    Py_XDECREF(answer);
    PyGILState_Release(lock);
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"url", "deadline_us", "on_event", NULL};
    const char *url;
    long long deadline_us = 0;
    PyObject *on_event = Py_None;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|LO:Store", names, &url, &deadline_us, &on_event)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct store *self = (struct store *)(void *)allocate(type, 0);
    if (self == NULL) {
        return NULL;
    }
    struct weir_options options = {.deadline_us = deadline_us};
    if (on_event != Py_None) {
        Py_INCREF(on_event);
        self->on_event = on_event;
        options.on_event = pass_event;
        options.event_context = self;
    } else if ((self->note = problem_note_new()) != NULL) {
        options.on_event = problem_note_event;
        options.event_context = self->note;
    } else {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS
    status = weir_open(url, &options, &self->weir, &error);
    Py_END_ALLOW_THREADS
    if (status != WEIR_OK) {
        Py_DECREF(self);
        return raise_error(status, &error);
    }
    return (PyObject *)self;
}

static void store_dealloc(struct store *self)
{
    PyTypeObject *type = Py_TYPE(self);
    self->is_to_close = true;
    store_drop(self);
    Py_XDECREF(self->on_event);
    problem_note_free(self->note);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *store_take_problem(struct store *self, PyObject *unused)
{
    (void)unused;
    return problem_note_take(self->note);
}

static PyObject *store_close(struct store *self, PyObject *unused)
{
    (void)unused;
    self->is_to_close = true;
    store_drop(self);
    Py_RETURN_NONE;
}

static bool read_request(PyObject *tuple, struct weir_request *request)
{
    Py_ssize_t length = 0;
    long long run_at_us = 0;
    long long debounce_us = 0;
    long long debounce_most_us = 0;
    int key_mode = WEIR_KEY_ONCE;
    if (!PyArg_ParseTuple(tuple, "sss#zziLzz|zziLL:enqueue", &request->workspace, &request->workflow, &request->params,
                          &length, &request->idempotency_key, &request->group, &request->priority, &run_at_us, &request->id,
                          &request->traceparent, &request->business_key, &request->labels, &key_mode, &debounce_us,
                          &debounce_most_us)) {
        return false;
    }
    request->params_length = (size_t)length;
    request->run_at_us = run_at_us;
    request->key_mode = (enum weir_key_mode)key_mode;
    request->debounce_us = debounce_us;
    request->debounce_most_us = debounce_most_us;
    return true;
}

static PyObject *store_enqueue(struct store *self, PyObject *args)
{
    struct weir_request request = {.workspace = NULL};
    char id[WEIR_ID_SIZE];
    struct weir_error error = {.status = WEIR_OK};
    if (!read_request(args, &request)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_enqueue(weir, &request, id, &error));
    return status == WEIR_OK ? PyUnicode_FromString(id) : raise_error(status, &error);
}

static PyObject *result_of(const struct weir_result *result)
{
    if (result->status == WEIR_OK) {
        return Py_BuildValue("sO", result->id, result->duplicate ? Py_True : Py_False);
    }
    return PyObject_CallFunction(make_error, "siss", weir_status_name(result->status),
                                 (int)weir_status_kind(result->status), result->error.message, result->error.hint);
}

static PyObject *results_of(const struct weir_result *results, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = result_of(&results[i]);
        if (item == NULL || PyList_SetItem(list, i, item) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* A list of tuples, each as the arguments of enqueue(). Gives a list of (id, duplicate) or an exception per request. */
static PyObject *store_enqueue_many(struct store *self, PyObject *args)
{
    PyObject *list = NULL;
    PyObject *answer = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "O!:enqueue_many", &PyList_Type, &list)) {
        return NULL;
    }
    Py_ssize_t count = PyList_Size(list);
    struct weir_request *requests = calloc((size_t)count + 1, sizeof *requests);
    struct weir_result *results = calloc((size_t)count + 1, sizeof *results);
    bool is_read = requests != NULL && results != NULL;
    if (!is_read) {
        (void)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; is_read && i < count; i++) {
        is_read = read_request(PyList_GetItem(list, i), &requests[i]);
    }
    struct weir *weir = is_read ? store_enter(self) : NULL;
    if (weir != NULL) {
        enum weir_status status;
        Py_BEGIN_ALLOW_THREADS
        status = weir_enqueue_many(weir, requests, (size_t)count, results, &error);
        Py_END_ALLOW_THREADS
        store_leave(self);
        answer = status == WEIR_OK ? results_of(results, count) : raise_error(status, &error);
    }
    free(requests);
    free(results);
    return answer;
}

static PyObject *store_publish(struct store *self, PyObject *args)
{
    const char *text;
    Py_ssize_t length;
    const char *source;
    struct weir_published published = {.version = 0};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "s#s:publish", &text, &length, &source)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_publish_workflow(weir, text, (size_t)length, source, &published, &error));
    return status == WEIR_OK ? Py_BuildValue("iOi", published.version, published.unchanged ? Py_True : Py_False,
                                             published.earlier_version)
                             : raise_error(status, &error);
}

static PyObject *store_set_workspace(struct store *self, PyObject *args)
{
    const char *name;
    const char *plan;
    long long max_concurrent;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "szL:set_workspace", &name, &plan, &max_concurrent)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_set_workspace(weir, name, plan, max_concurrent, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

/* Of a workspace, or of a plan. */
static PyObject *store_set_max_pending(struct store *self, PyObject *args)
{
    const char *name;
    int is_plan;
    long long max_pending;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "spL:set_max_pending", &name, &is_plan, &max_pending)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status,
               is_plan ? weir_set_plan_max_pending(weir, name, max_pending, &error)
                       : weir_set_max_pending(weir, name, max_pending, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_set_plan(struct store *self, PyObject *args)
{
    const char *name;
    long long max_concurrent;
    int weight;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sLi:set_plan", &name, &max_concurrent, &weight)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_set_plan(weir, name, max_concurrent, weight, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_pause_workspace(struct store *self, PyObject *args)
{
    const char *name;
    int paused;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sp:pause_workspace", &name, &paused)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_pause_workspace(weir, name, paused != 0, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_rename_workspace(struct store *self, PyObject *args)
{
    const char *name;
    const char *new_name;
    const char *reason;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "ssz:rename_workspace", &name, &new_name, &reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_rename_workspace(weir, name, new_name, reason, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_delete_workspace(struct store *self, PyObject *args)
{
    int fail_waiting;
    int erase;
    struct weir_workspace_deletion deletion = {.name = NULL};
    struct weir_deleted deleted = {.failed = 0};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sppz:delete_workspace", &deletion.name, &fail_waiting, &erase, &deletion.reason)) {
        return NULL;
    }
    deletion.fail_waiting = fail_waiting != 0;
    deletion.erase = erase != 0;
    enum weir_status status;
    CALL_STORE(self, status, weir_delete_workspace(weir, &deletion, &deleted, &error));
    return status == WEIR_OK ? Py_BuildValue("nn", (Py_ssize_t)deleted.failed, (Py_ssize_t)deleted.erased)
                             : raise_error(status, &error);
}

static PyObject *store_disable_workflow(struct store *self, PyObject *args)
{
    const char *name;
    const char *workspace;
    int disabled;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "szp:disable_workflow", &name, &workspace, &disabled)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_disable_workflow(weir, name, workspace, disabled != 0, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_delete_workflow(struct store *self, PyObject *args)
{
    const char *name;
    const char *workspace;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sz:delete_workflow", &name, &workspace)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_delete_workflow(weir, name, workspace, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

typedef enum weir_status look_function(struct weir *weir, const char *id, char **ret_json, struct weir_error *error);

static PyObject *look(struct store *self, PyObject *args, look_function *function)
{
    const char *id;
    char *json = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "s", &id)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, function(weir, id, &json, &error));
    return status == WEIR_OK ? take_text(json) : raise_error(status, &error);
}

static PyObject *store_show(struct store *self, PyObject *args)
{
    return look(self, args, weir_show);
}

static PyObject *store_why(struct store *self, PyObject *args)
{
    return look(self, args, weir_why);
}

static PyObject *store_usage(struct store *self, PyObject *args)
{
    return look(self, args, weir_usage);
}

/* Conditions as the class Store passes them: eight texts or None, the states, three moments, a business key and the
 * beginning of one, and the labels as a tuple of names and values in turn. The texts belong to `args`. */
#define FILTER_FORMAT "(zzzzzzzzILLLzzO!)"
#define FILTER_FIELDS(f)                                                                                                   \
    &(f).id, &(f).workspace, &(f).workflow, &(f).group, &(f).reason, &(f).waiting_for, &(f).error_code,                    \
        &(f).idempotency_key, &(f).states, &(f).created_since_us, &(f).created_before_us, &(f).finished_before_us,         \
        &(f).business_key, &(f).business_key_prefix, &PyTuple_Type, &labels

/* The library refuses more labels than a filter may have. -1: an exception is set. */
static int fill_filter_labels(PyObject *given, struct weir_label labels[WEIR_FILTER_LABELS_MAX + 1],
                              struct weir_filter *filter)
{
    Py_ssize_t count = PyTuple_Size(given) / 2;
    filter->label_count = count > WEIR_FILTER_LABELS_MAX ? WEIR_FILTER_LABELS_MAX + 1 : (size_t)count;
    filter->labels = labels;
    for (Py_ssize_t i = 0; i < (Py_ssize_t)filter->label_count; i++) {
        if (!PyArg_Parse(PyTuple_GetItem(given, 2 * i), "s:label", &labels[i].name) ||
            !PyArg_Parse(PyTuple_GetItem(given, 2 * i + 1), "s:label", &labels[i].value)) {
            return -1;
        }
    }
    return 0;
}

static PyObject *store_list(struct store *self, PyObject *args)
{
    int kind;
    int count;
    Py_ssize_t limit;
    char *json = NULL;
    PyObject *labels = NULL;
    struct weir_label filled[WEIR_FILTER_LABELS_MAX + 1];
    struct weir_list_options options = {.kind = WEIR_LIST_EXECUTIONS};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "i" FILTER_FORMAT "zznp:list", &kind, FILTER_FIELDS(options.filter), &options.name,
                          &options.cursor, &limit, &count) ||
        fill_filter_labels(labels, filled, &options.filter) != 0) {
        return NULL;
    }
    options.kind = (enum weir_list_kind)kind;
    options.limit = limit < 0 ? SIZE_MAX : (size_t)limit; /* too large: the library names the limit */
    options.count = count != 0;
    enum weir_status status;
    CALL_STORE(self, status, weir_list(weir, &options, &json, &error));
    return status == WEIR_OK ? take_text(json) : raise_error(status, &error);
}

static PyObject *store_failures(struct store *self, PyObject *args)
{
    char *json = NULL;
    PyObject *labels = NULL;
    struct weir_label filled[WEIR_FILTER_LABELS_MAX + 1];
    struct weir_filter filter = {.id = NULL};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, FILTER_FORMAT ":failures", FILTER_FIELDS(filter)) ||
        fill_filter_labels(labels, filled, &filter) != 0) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_failures(weir, &filter, &json, &error));
    return status == WEIR_OK ? take_text(json) : raise_error(status, &error);
}

static PyObject *store_act(struct store *self, PyObject *args)
{
    int act;
    const char *reason;
    PyObject *labels = NULL;
    struct weir_label filled[WEIR_FILTER_LABELS_MAX + 1];
    struct weir_filter filter = {.id = NULL};
    struct weir_acted acted = {.matched = 0};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "i" FILTER_FORMAT "z:act", &act, FILTER_FIELDS(filter), &reason) ||
        fill_filter_labels(labels, filled, &filter) != 0) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_act(weir, (enum weir_act)act, &filter, reason, &acted, &error));
    return status == WEIR_OK ? Py_BuildValue("nnns", (Py_ssize_t)acted.matched, (Py_ssize_t)acted.changed,
                                             (Py_ssize_t)acted.refused, acted.new_id)
                             : raise_error(status, &error);
}

static PyObject *store_retry(struct store *self, PyObject *args)
{
    const char *id;
    const char *reason;
    char new_id[WEIR_ID_SIZE] = "";
    struct weir_retry_options options = {.keep_finished = 0};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "spzz:retry", &id, &options.keep_finished, &options.from, &reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_retry_execution(weir, id, &options, reason, new_id, &error));
    return status == WEIR_OK ? PyUnicode_FromString(new_id) : raise_error(status, &error);
}

static PyObject *store_decide(struct store *self, PyObject *args)
{
    const char *id;
    struct weir_decision decision = {.step = NULL};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "szpzz:decide", &id, &decision.step, &decision.approved, &decision.comment,
                          &decision.reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_decide(weir, id, &decision, &error));
    if (status != WEIR_OK) {
        return raise_error(status, &error);
    }
    Py_RETURN_NONE;
}

static PyObject *store_call_back(struct store *self, PyObject *args)
{
    char id[WEIR_ID_SIZE] = "";
    struct weir_callback callback = {.token = NULL};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "szzzp:call_back", &callback.token, &callback.output, &callback.error_code, &callback.error,
                          &callback.is_final)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_call_back(weir, &callback, id, &error));
    return status == WEIR_OK ? PyUnicode_FromString(id) : raise_error(status, &error);
}

static PyObject *store_update(struct store *self, PyObject *args)
{
    const char *id;
    int action = 0;
    struct weir_update update = {.state = NULL};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "szzzz:update", &id, &update.state, &update.variables, &update.reason, &update.if_state)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_update_execution(weir, id, &update, &action, &error));
    return status == WEIR_OK ? PyLong_FromLong(action) : raise_error(status, &error);
}

static PyObject *store_wake(struct store *self, PyObject *args)
{
    const char *id;
    const char *waiting_for;
    const char *reason;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "szz:wake", &id, &waiting_for, &reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_wake_execution(weir, id, waiting_for, reason, &error));
    if (status != WEIR_OK) {
        return raise_error(status, &error);
    }
    Py_RETURN_NONE;
}

static PyObject *store_migrate_execution(struct store *self, PyObject *args)
{
    const char *id;
    int to_version;
    const char *reason;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "siz:migrate_execution", &id, &to_version, &reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_migrate_execution(weir, id, to_version, reason, &error));
    if (status != WEIR_OK) {
        return raise_error(status, &error);
    }
    Py_RETURN_NONE;
}

static PyObject *store_wait(struct store *self, PyObject *args)
{
    const char *id;
    long long timeout_us;
    char *json = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sL:wait", &id, &timeout_us)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_wait(weir, id, timeout_us, NULL, &json, &error));
    return status == WEIR_OK ? take_text(json) : raise_error(status, &error);
}

static PyObject *store_cancel(struct store *self, PyObject *args)
{
    const char *id;
    const char *reason;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sz:cancel", &id, &reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_cancel(weir, id, reason, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_signal(struct store *self, PyObject *args)
{
    const char *id;
    int64_t number = 0;
    struct weir_signal_request signal = {.name = NULL};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sszzz:signal", &id, &signal.name, &signal.data, &signal.key, &signal.reason)) {
        return NULL;
    }
    enum weir_status status;
    CALL_STORE(self, status, weir_signal(weir, id, &signal, &number, &error));
    return status == WEIR_OK ? PyLong_FromLongLong(number) : raise_error(status, &error);
}

static PyObject *store_complete(struct store *self, PyObject *args)
{
    const char *id;
    int end;
    long long fence;
    struct weir_outcome outcome = {.end = WEIR_END_COMPLETED};
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sizzzzL:complete", &id, &end, &outcome.result, &outcome.error_code, &outcome.error,
                          &outcome.run_id, &fence)) {
        return NULL;
    }
    outcome.end = (enum weir_end)end;
    outcome.fence = fence;
    enum weir_status status;
    CALL_STORE(self, status, weir_complete(weir, id, &outcome, &error));
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_metrics(struct store *self, PyObject *unused)
{
    (void)unused;
    char *text = NULL;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status;
    CALL_STORE(self, status, weir_metrics(weir, &text, &error));
    return status == WEIR_OK ? take_text(text) : raise_error(status, &error);
}

/* --- the module --- */

static PyObject *migrate(PyObject *module, PyObject *args)
{
    (void)module;
    const char *url;
    int applied = 0;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status;
    if (!PyArg_ParseTuple(args, "s:migrate", &url)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = weir_migrate(url, &applied, &error);
    Py_END_ALLOW_THREADS
    return status == WEIR_OK ? PyLong_FromLong(applied) : raise_error(status, &error);
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(weir_version());
}

static PyObject *set_error_maker(PyObject *module, PyObject *function)
{
    (void)module;
    Py_INCREF(function);
    Py_XDECREF(make_error);
    make_error = function;
    Py_RETURN_NONE;
}

static PyMethodDef store_methods[] = {METHOD("enqueue", store_enqueue, METH_VARARGS),
                                      METHOD("enqueue_many", store_enqueue_many, METH_VARARGS),
                                      METHOD("publish", store_publish, METH_VARARGS),
                                      METHOD("set_workspace", store_set_workspace, METH_VARARGS),
                                      METHOD("set_plan", store_set_plan, METH_VARARGS),
                                      METHOD("set_max_pending", store_set_max_pending, METH_VARARGS),
                                      METHOD("pause_workspace", store_pause_workspace, METH_VARARGS),
                                      METHOD("rename_workspace", store_rename_workspace, METH_VARARGS),
                                      METHOD("delete_workspace", store_delete_workspace, METH_VARARGS),
                                      METHOD("disable_workflow", store_disable_workflow, METH_VARARGS),
                                      METHOD("delete_workflow", store_delete_workflow, METH_VARARGS),
                                      METHOD("show", store_show, METH_VARARGS),
                                      METHOD("why", store_why, METH_VARARGS),
                                      METHOD("wait", store_wait, METH_VARARGS),
                                      METHOD("cancel", store_cancel, METH_VARARGS),
                                      METHOD("signal", store_signal, METH_VARARGS),
                                      METHOD("complete", store_complete, METH_VARARGS),
                                      METHOD("metrics", store_metrics, METH_NOARGS),
                                      METHOD("usage", store_usage, METH_VARARGS),
                                      METHOD("list", store_list, METH_VARARGS),
                                      METHOD("failures", store_failures, METH_VARARGS),
                                      METHOD("act", store_act, METH_VARARGS),
                                      METHOD("retry", store_retry, METH_VARARGS),
                                      METHOD("update", store_update, METH_VARARGS),
                                      METHOD("wake", store_wake, METH_VARARGS),
                                      METHOD("migrate_execution", store_migrate_execution, METH_VARARGS),
                                      METHOD("decide", store_decide, METH_VARARGS),
                                      METHOD("call_back", store_call_back, METH_VARARGS),
                                      METHOD("take_problem", store_take_problem, METH_NOARGS),
                                      METHOD("close", store_close, METH_NOARGS),
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot store_slots[] = {
    {Py_tp_new, store_new}, {Py_tp_dealloc, store_dealloc}, {Py_tp_methods, store_methods}, {0, NULL}};
static PyType_Spec store_spec = {"weir._weir.Store", sizeof(struct store), 0, Py_TPFLAGS_DEFAULT, store_slots};

static PyMethodDef functions[] = {METHOD("migrate", migrate, METH_VARARGS),
                                  METHOD("version", version, METH_NOARGS),
                                  METHOD("set_error_maker", set_error_maker, METH_O),
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "weir._weir", NULL, -1, functions, NULL, NULL, NULL, NULL};

static bool add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **ret_type)
{
    *ret_type = (PyTypeObject *)(void *)PyType_FromSpec(spec);
    if (*ret_type == NULL) {
        return false;
    }
    Py_INCREF(*ret_type);
    return PyModule_AddObject(module, name, (PyObject *)*ret_type) == 0;
}

PyMODINIT_FUNC PyInit__weir(void)
{
    PyObject *module = PyModule_Create(&module_definition);
    if (module == NULL || !add_type(module, "Store", &store_spec, &store_type) ||
        !add_type(module, "Node", &node_spec, &node_type) || !add_type(module, "Call", &call_spec, &call_type)) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
