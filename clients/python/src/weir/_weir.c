/* The binding: weir/weir.h as Python objects, one to one. All rules of convenience are in the modules around it.
 *
 * - A call of the library runs without the interpreter's lock. Errors are raised as weir.errors.Error (make_error()).
 * - A handler is called on a thread of the node. It takes the interpreter's lock, and the Python function gets a Call. The
 *   Call belongs to the function until it returns, or after defer() until the answer; then it is closed, and using it
 *   raises an error: the library's memory behind it is gone.
 * - An answer waits for a cancel function that runs (weir/handler.h), and that one takes the interpreter's lock: so answers
 *   are given without it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/weir.h"

static PyObject *make_error; /* weir.errors.make */
static PyTypeObject *store_type;
static PyTypeObject *node_type;
static PyTypeObject *call_type;

/* --- errors --- */

static PyObject *raise_error(enum weir_status status, const struct weir_error *error)
{
    PyObject *made = PyObject_CallFunction(make_error, "siss", weir_status_name(status), (int)weir_status_kind(status),
                                           error->message, error->hint);
    if (made != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
        Py_DECREF(made);
    }
    return NULL;
}

static PyObject *raise_misuse(const char *message)
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

struct store {
    PyObject_HEAD struct weir *weir; /* NULL = closed */
    PyObject *on_event;
    Py_ssize_t users; /* calls under way and nodes; the last one closes a store that shall be closed */
    bool is_to_close;
};

static void store_drop(struct store *self)
{
    struct weir *weir = self->weir;
    if (weir != NULL && self->is_to_close && self->users == 0) {
        self->weir = NULL;
        Py_BEGIN_ALLOW_THREADS weir_close(weir);
        Py_END_ALLOW_THREADS
    }
}

/* The library's store for one call, or NULL with an error. */
static struct weir *store_enter(struct store *self)
{
    if (self->weir == NULL || self->is_to_close) {
        return (struct weir *)(void *)raise_misuse("the store is closed");
    }
    self->users++;
    return self->weir;
}

static void store_leave(struct store *self)
{
    self->users--;
    store_drop(self);
}

static void pass_event(void *context, const struct weir_event *event)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    struct store *self = context;
    PyObject *answer = PyObject_CallFunction(self->on_event, "isszzzzzL", (int)event->level, event->name, event->message,
                                             event->execution_id, event->workspace, event->workflow, event->code,
                                             event->error, (long long)event->attempt);
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
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_open(url, &options, &self->weir, &error);
    Py_END_ALLOW_THREADS if (status != WEIR_OK)
    {
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
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *store_close(struct store *self, PyObject *unused)
{
    (void)unused;
    self->is_to_close = true;
    store_drop(self);
    Py_RETURN_NONE;
}

static PyObject *store_enqueue(struct store *self, PyObject *args)
{
    struct weir_request request = {.workspace = NULL};
    Py_ssize_t length = 0;
    long long run_at_us = 0;
    char id[WEIR_ID_SIZE];
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sss#zziLz:enqueue", &request.workspace, &request.workflow, &request.params, &length,
                          &request.idempotency_key, &request.group, &request.priority, &run_at_us, &request.id)) {
        return NULL;
    }
    request.params_length = (size_t)length;
    request.run_at_us = run_at_us;
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_enqueue(weir, &request, id, &error);
    Py_END_ALLOW_THREADS store_leave(self);
    return status == WEIR_OK ? PyUnicode_FromString(id) : raise_error(status, &error);
}

static bool read_request(PyObject *tuple, struct weir_request *request)
{
    Py_ssize_t length = 0;
    long long run_at_us = 0;
    if (!PyArg_ParseTuple(tuple, "sss#zziLz:enqueue_many", &request->workspace, &request->workflow, &request->params,
                          &length, &request->idempotency_key, &request->group, &request->priority, &run_at_us,
                          &request->id)) {
        return false;
    }
    request->params_length = (size_t)length;
    request->run_at_us = run_at_us;
    return true;
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
        Py_BEGIN_ALLOW_THREADS status = weir_enqueue_many(weir, requests, (size_t)count, results, &error);
        Py_END_ALLOW_THREADS store_leave(self);
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
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_publish_workflow(weir, text, (size_t)length, source, &published, &error);
    Py_END_ALLOW_THREADS store_leave(self);
    return status == WEIR_OK ? Py_BuildValue("iO", published.version, published.unchanged ? Py_True : Py_False)
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
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_set_workspace(weir, name, plan, max_concurrent, &error);
    Py_END_ALLOW_THREADS store_leave(self);
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
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_set_plan(weir, name, max_concurrent, weight, &error);
    Py_END_ALLOW_THREADS store_leave(self);
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
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_pause_workspace(weir, name, paused != 0, &error);
    Py_END_ALLOW_THREADS store_leave(self);
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
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = function(weir, id, &json, &error);
    Py_END_ALLOW_THREADS store_leave(self);
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

static PyObject *store_wait(struct store *self, PyObject *args)
{
    const char *id;
    long long timeout_us;
    char *json = NULL;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sL:wait", &id, &timeout_us)) {
        return NULL;
    }
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_wait(weir, id, timeout_us, NULL, &json, &error);
    Py_END_ALLOW_THREADS store_leave(self);
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
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_cancel(weir, id, reason, &error);
    Py_END_ALLOW_THREADS store_leave(self);
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *store_metrics(struct store *self, PyObject *unused)
{
    (void)unused;
    char *text = NULL;
    struct weir_error error = {.status = WEIR_OK};
    struct weir *weir = store_enter(self);
    if (weir == NULL) {
        return NULL;
    }
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_metrics(weir, &text, &error);
    Py_END_ALLOW_THREADS store_leave(self);
    return status == WEIR_OK ? take_text(text) : raise_error(status, &error);
}

/* --- Call --- */

struct call {
    PyObject_HEAD struct weir_call *call; /* NULL = it is answered, or its handler has returned */
    PyObject *on_cancel;
    bool is_deferred;
};

static bool is_open(const struct call *self)
{
    if (self->call == NULL) {
        (void)raise_misuse("the call has ended: it was answered, or its handler has returned without defer()");
        return false;
    }
    return true;
}

static PyObject *call_text(const struct call *self, const char *(*function)(const struct weir_call *))
{
    return is_open(self) ? PyUnicode_FromString(function(self->call)) : NULL;
}

static PyObject *call_execution_id(struct call *self, void *unused)
{
    (void)unused;
    return call_text(self, weir_call_execution_id);
}

static PyObject *call_workspace(struct call *self, void *unused)
{
    (void)unused;
    return call_text(self, weir_call_workspace);
}

static PyObject *call_step(struct call *self, void *unused)
{
    (void)unused;
    return call_text(self, weir_call_step);
}

static PyObject *call_input(struct call *self, void *unused)
{
    (void)unused;
    return call_text(self, weir_call_input);
}

static PyObject *call_attempt(struct call *self, void *unused)
{
    (void)unused;
    return is_open(self) ? PyLong_FromLong(weir_call_attempt(self->call)) : NULL;
}

static PyObject *call_fence(struct call *self, void *unused)
{
    (void)unused;
    return is_open(self) ? PyLong_FromLongLong(weir_call_fence(self->call)) : NULL;
}

static PyObject *call_cancelled(struct call *self, void *unused)
{
    (void)unused;
    return is_open(self) ? PyBool_FromLong(weir_call_cancelled(self->call)) : NULL;
}

static PyObject *call_defer(struct call *self, PyObject *unused)
{
    (void)unused;
    if (!is_open(self)) {
        return NULL;
    }
    if (!self->is_deferred) {
        weir_call_defer(self->call);
        self->is_deferred = true;
        Py_INCREF(self); /* until the answer */
    }
    Py_RETURN_NONE;
}

static void tell_cancel(struct weir_call *unused, void *context)
{
    (void)unused;
    PyGILState_STATE lock = PyGILState_Ensure();
    struct call *self = context;
    PyObject *function = self->on_cancel;
    if (function != NULL) {
        Py_INCREF(function);
        PyObject *answer = PyObject_CallFunction(function, NULL);
        if (answer == NULL) {
            PyErr_WriteUnraisable(function);
        }
        Py_XDECREF(answer);
        Py_DECREF(function);
    }
    PyGILState_Release(lock);
}

static PyObject *call_on_cancel(struct call *self, PyObject *function)
{
    if (!is_open(self)) {
        return NULL;
    }
    PyObject *old = self->on_cancel;
    Py_INCREF(function);
    self->on_cancel = function;
    Py_XDECREF(old);
    struct weir_call *call = self->call;
    Py_BEGIN_ALLOW_THREADS weir_call_on_cancel(call, tell_cancel, self);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* Before an answer: nobody else can use the call from here on. */
static struct weir_call *call_take(struct call *self)
{
    struct weir_call *call = is_open(self) ? self->call : NULL;
    self->call = NULL;
    return call;
}

/* After an answer. */
static PyObject *call_answered(struct call *self)
{
    Py_CLEAR(self->on_cancel);
    if (self->is_deferred) {
        self->is_deferred = false;
        Py_DECREF(self);
    }
    Py_RETURN_NONE;
}

static PyObject *call_done(struct call *self, PyObject *args)
{
    const char *output;
    if (!PyArg_ParseTuple(args, "z:done", &output)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS weir_done(call, output);
    Py_END_ALLOW_THREADS return call_answered(self);
}

static PyObject *call_retry(struct call *self, PyObject *args)
{
    const char *code;
    const char *error;
    long long delay_us;
    if (!PyArg_ParseTuple(args, "zzL:retry", &code, &error, &delay_us)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS weir_retry_after(call, delay_us, code, error);
    Py_END_ALLOW_THREADS return call_answered(self);
}

static PyObject *call_fail(struct call *self, PyObject *args)
{
    const char *code;
    const char *error;
    if (!PyArg_ParseTuple(args, "zz:fail", &code, &error)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS weir_fail(call, code, error);
    Py_END_ALLOW_THREADS return call_answered(self);
}

static void call_dealloc(struct call *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->on_cancel);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* --- Node --- */

struct node {
    PyObject_HEAD struct weir_node *node; /* NULL = closed */
    struct store *store;
    struct weir_handler *handlers;
    Py_ssize_t handler_count;
};

/* What a function raised becomes a retry: it may be a passing failure, and the policy says how often. */
static void answer_exception(struct call *self)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    PyObject *bytes = text != NULL ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    PyErr_Clear();
    struct weir_call *call = self->call;
    self->call = NULL;
    const char *words = bytes != NULL ? PyBytes_AsString(bytes) : NULL;
    Py_BEGIN_ALLOW_THREADS weir_retry(call, "exception", words);
    Py_END_ALLOW_THREADS(void) call_answered(self);
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

static void run_handler(struct weir_call *call, void *context)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    allocfunc allocate = (allocfunc)PyType_GetSlot(call_type, Py_tp_alloc);
    struct call *self = (struct call *)(void *)allocate(call_type, 0);
    if (self == NULL) {
        PyErr_Clear();
        weir_retry(call, "out_of_memory", "the interpreter has no memory for the call");
    } else {
        self->call = call;
        PyObject *answer = PyObject_CallFunctionObjArgs((PyObject *)context, (PyObject *)self, NULL);
        if (answer == NULL && self->call != NULL) {
            answer_exception(self);
        } else if (answer == NULL) {
            PyErr_WriteUnraisable((PyObject *)context);
        }
        Py_XDECREF(answer);
        if (!self->is_deferred && self->call != NULL) { /* no answer */
            self->call = NULL;
            Py_BEGIN_ALLOW_THREADS weir_call_on_cancel(call, NULL, NULL);
            Py_END_ALLOW_THREADS
        }
        Py_DECREF(self);
    }
    PyGILState_Release(lock);
}

static bool read_handlers(struct node *self, PyObject *handlers)
{
    Py_ssize_t at = 0;
    PyObject *name;
    PyObject *function;
    self->handlers = calloc((size_t)PyDict_Size(handlers) + 1, sizeof *self->handlers);
    if (self->handlers == NULL) {
        (void)PyErr_NoMemory();
        return false;
    }
    while (PyDict_Next(handlers, &at, &name, &function)) {
        PyObject *bytes = PyUnicode_AsEncodedString(name, "utf-8", "strict");
        char *copy = bytes != NULL ? strdup(PyBytes_AsString(bytes)) : NULL;
        Py_XDECREF(bytes);
        if (copy == NULL) {
            return false;
        }
        Py_INCREF(function);
        self->handlers[self->handler_count++] =
            (struct weir_handler){.name = copy, .function = run_handler, .context = function};
    }
    return true;
}

static void close_node(struct node *self)
{
    struct weir_node *node = self->node;
    self->node = NULL;
    if (node != NULL) {
        Py_BEGIN_ALLOW_THREADS weir_node_close(node);
        Py_END_ALLOW_THREADS store_leave(self->store);
    }
}

static PyObject *node_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"store",       "handlers", "name",          "group",      "threads",
                            "max_running", "lease_us", "stop_grace_us", "allow_exec", NULL};
    PyObject *store;
    PyObject *handlers;
    struct weir_node_options options = {.name = NULL};
    Py_ssize_t threads = 0;
    Py_ssize_t max_running = 0;
    long long lease_us = 0;
    long long grace_us = 0;
    int allow_exec = 0;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|zznnLLp:Node", names, store_type, &store, &PyDict_Type, &handlers,
                                     &options.name, &options.group, &threads, &max_running, &lease_us, &grace_us,
                                     &allow_exec)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct node *self = (struct node *)(void *)allocate(type, 0);
    if (self == NULL) {
        return NULL;
    }
    Py_INCREF(store);
    self->store = (struct store *)(void *)store;
    struct weir *weir = read_handlers(self, handlers) ? store_enter(self->store) : NULL;
    if (weir == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    options.handlers = self->handlers;
    options.handler_count = (size_t)self->handler_count;
    options.handler_threads = (size_t)threads;
    options.max_running = (size_t)max_running;
    options.lease_us = lease_us;
    options.stop_grace_us = grace_us;
    options.allow_exec = allow_exec != 0;
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS status = weir_node_open(weir, &options, &self->node, &error);
    Py_END_ALLOW_THREADS if (status != WEIR_OK)
    {
        store_leave(self->store);
        Py_DECREF(self);
        return raise_error(status, &error);
    }
    return (PyObject *)self;
}

static void node_dealloc(struct node *self)
{
    PyTypeObject *type = Py_TYPE(self);
    close_node(self);
    for (Py_ssize_t i = 0; i < self->handler_count; i++) {
        free((char *)(uintptr_t)self->handlers[i].name);
        Py_XDECREF((PyObject *)self->handlers[i].context);
    }
    free(self->handlers);
    Py_XDECREF((PyObject *)self->store);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static bool node_is_open(const struct node *self)
{
    if (self->node == NULL) {
        (void)raise_misuse("the node is closed");
        return false;
    }
    return true;
}

static PyObject *node_start(struct node *self, PyObject *unused)
{
    (void)unused;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status;
    if (!node_is_open(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = weir_node_start(self->node, &error);
    Py_END_ALLOW_THREADS return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *node_health(struct node *self, PyObject *unused)
{
    (void)unused;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status;
    if (!node_is_open(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = weir_node_health(self->node, &error);
    Py_END_ALLOW_THREADS return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *node_stop(struct node *self, PyObject *args)
{
    long long grace_us;
    bool graceful = false;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status;
    if (!PyArg_ParseTuple(args, "L:stop", &grace_us) || !node_is_open(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = weir_node_stop(self->node, grace_us, &graceful, &error);
    Py_END_ALLOW_THREADS return status == WEIR_OK ? PyBool_FromLong(graceful) : raise_error(status, &error);
}

static PyObject *node_close(struct node *self, PyObject *unused)
{
    (void)unused;
    close_node(self);
    Py_RETURN_NONE;
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
    Py_BEGIN_ALLOW_THREADS status = weir_migrate(url, &applied, &error);
    Py_END_ALLOW_THREADS return status == WEIR_OK ? PyLong_FromLong(applied) : raise_error(status, &error);
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

#define METHOD(name, function, flags)                                                                                      \
    {                                                                                                                      \
        name, (PyCFunction)(void (*)(void))(function), flags, NULL                                                         \
    }

static PyMethodDef store_methods[] = {METHOD("enqueue", store_enqueue, METH_VARARGS),
                                      METHOD("enqueue_many", store_enqueue_many, METH_VARARGS),
                                      METHOD("publish", store_publish, METH_VARARGS),
                                      METHOD("set_workspace", store_set_workspace, METH_VARARGS),
                                      METHOD("set_plan", store_set_plan, METH_VARARGS),
                                      METHOD("pause_workspace", store_pause_workspace, METH_VARARGS),
                                      METHOD("show", store_show, METH_VARARGS),
                                      METHOD("why", store_why, METH_VARARGS),
                                      METHOD("wait", store_wait, METH_VARARGS),
                                      METHOD("cancel", store_cancel, METH_VARARGS),
                                      METHOD("metrics", store_metrics, METH_NOARGS),
                                      METHOD("close", store_close, METH_NOARGS),
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot store_slots[] = {
    {Py_tp_new, store_new}, {Py_tp_dealloc, store_dealloc}, {Py_tp_methods, store_methods}, {0, NULL}};
static PyType_Spec store_spec = {"weir._weir.Store", sizeof(struct store), 0, Py_TPFLAGS_DEFAULT, store_slots};

static PyMethodDef node_methods[] = {METHOD("start", node_start, METH_NOARGS),
                                     METHOD("health", node_health, METH_NOARGS),
                                     METHOD("stop", node_stop, METH_VARARGS),
                                     METHOD("close", node_close, METH_NOARGS),
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot node_slots[] = {
    {Py_tp_new, node_new}, {Py_tp_dealloc, node_dealloc}, {Py_tp_methods, node_methods}, {0, NULL}};
static PyType_Spec node_spec = {"weir._weir.Node", sizeof(struct node), 0, Py_TPFLAGS_DEFAULT, node_slots};

static PyMethodDef call_methods[] = {METHOD("done", call_done, METH_VARARGS),     METHOD("retry", call_retry, METH_VARARGS),
                                     METHOD("fail", call_fail, METH_VARARGS),     METHOD("defer", call_defer, METH_NOARGS),
                                     METHOD("on_cancel", call_on_cancel, METH_O), {NULL, NULL, 0, NULL}};
static PyGetSetDef call_fields[] = {{"execution_id", (getter)call_execution_id, NULL, NULL, NULL},
                                    {"workspace", (getter)call_workspace, NULL, NULL, NULL},
                                    {"step", (getter)call_step, NULL, NULL, NULL},
                                    {"input", (getter)call_input, NULL, NULL, NULL},
                                    {"attempt", (getter)call_attempt, NULL, NULL, NULL},
                                    {"fence", (getter)call_fence, NULL, NULL, NULL},
                                    {"cancelled", (getter)call_cancelled, NULL, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot call_slots[] = {
    {Py_tp_dealloc, call_dealloc}, {Py_tp_methods, call_methods}, {Py_tp_getset, call_fields}, {0, NULL}};
static PyType_Spec call_spec = {"weir._weir.Call", sizeof(struct call), 0, Py_TPFLAGS_DEFAULT, call_slots};

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
