/* Node and Call: workers and their handlers. See _weir.c for the rules of the binding. */
#include "_binding.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static PyObject *call_traceparent(struct call *self, void *unused)
{
    (void)unused;
    if (!is_open(self)) {
        return NULL;
    }
    const char *traceparent = weir_call_traceparent(self->call);
    if (traceparent == NULL) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(traceparent);
}

static PyObject *call_cancelled(struct call *self, void *unused)
{
    (void)unused;
    return is_open(self) ? PyBool_FromLong(weir_call_cancelled(self->call)) : NULL;
}

/* The value of a secret that the step lists, else None. */
static PyObject *call_secret(struct call *self, PyObject *args)
{
    const char *name;
    if (!is_open(self) || !PyArg_ParseTuple(args, "s:secret", &name)) {
        return NULL;
    }
    const char *value = weir_call_secret(self->call, name);
    if (value == NULL) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(value);
}

/* Adds bytes to the log of the attempt; after the end of the call it does nothing. The interpreter stays locked, because
 * another thread must not answer meanwhile; weir_call_output() never waits. */
static PyObject *call_log(struct call *self, PyObject *args)
{
    const char *text;
    Py_ssize_t length;
    int stream = WEIR_STREAM_LOG;
    if (!PyArg_ParseTuple(args, "y#|i:log", &text, &length, &stream)) {
        return NULL;
    }
    if (self->call != NULL) {
        weir_call_output(self->call, (enum weir_stream)stream, text, (size_t)length);
    }
    Py_RETURN_NONE;
}

/* How far the function is; NaN = unknown. After the end of the call it does nothing. Locked as in call_log(). */
static PyObject *call_progress(struct call *self, PyObject *args)
{
    double fraction;
    const char *text;
    if (!PyArg_ParseTuple(args, "dz:progress", &fraction, &text)) {
        return NULL;
    }
    if (self->call != NULL) {
        weir_call_progress(self->call, fraction, text);
    }
    Py_RETURN_NONE;
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
    struct weir_call *call = self->call;
    if (old == NULL) { /* no other function runs that this one would wait for */
        weir_call_on_cancel(call, tell_cancel, self);
    } else {
        Py_BEGIN_ALLOW_THREADS
        weir_call_on_cancel(call, tell_cancel, self);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(old);
    Py_RETURN_NONE;
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

/* Of an output that is parsed while the interpreter stays locked: some microseconds. A result without a cancel function
 * waits for nothing, and is given sooner than the lock changes hands. */
enum { SHORT_OUTPUT_BYTES = 4096 };

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
    if (self->on_cancel == NULL && (output == NULL || strlen(output) <= SHORT_OUTPUT_BYTES)) {
        weir_done(call, output);
    } else {
        Py_BEGIN_ALLOW_THREADS
        weir_done(call, output);
        Py_END_ALLOW_THREADS
    }
    return call_answered(self);
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
    Py_BEGIN_ALLOW_THREADS
    weir_retry_after(call, delay_us, code, error);
    Py_END_ALLOW_THREADS
    return call_answered(self);
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
    Py_BEGIN_ALLOW_THREADS
    weir_fail(call, code, error);
    Py_END_ALLOW_THREADS
    return call_answered(self);
}

/* --- of a state --- */

static PyObject *optional_text(const char *text)
{
    if (text == NULL) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(text);
}

static PyObject *call_state(struct call *self, void *unused)
{
    (void)unused;
    return is_open(self) ? optional_text(weir_call_state(self->call)) : NULL;
}

static PyObject *call_signal(struct call *self, void *unused)
{
    (void)unused;
    return is_open(self) ? optional_text(weir_call_signal(self->call)) : NULL;
}

/* State, code and text of the last failure, or None. */
static PyObject *call_failure(struct call *self, void *unused)
{
    (void)unused;
    if (!is_open(self)) {
        return NULL;
    }
    const char *state = weir_call_failed_state(self->call);
    if (state == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("ssz", state, weir_call_failure_code(self->call), weir_call_failure(self->call));
}

static PyObject *call_variable(struct call *self, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:variable", &name) || !is_open(self)) {
        return NULL;
    }
    return optional_text(weir_call_variable(self->call, name));
}

/* These do not wait, so the interpreter stays locked. */
static PyObject *answer_of(enum weir_status status, const struct weir_error *error)
{
    if (status != WEIR_OK) {
        return raise_error(status, error);
    }
    Py_RETURN_NONE;
}

static PyObject *call_set_variable(struct call *self, PyObject *args)
{
    const char *name;
    const char *value;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "ss:set_variable", &name, &value) || !is_open(self)) {
        return NULL;
    }
    enum weir_status status = weir_call_set_variable(self->call, name, value, &error);
    return answer_of(status, &error);
}

static PyObject *call_start_child(struct call *self, PyObject *args)
{
    const char *workflow;
    const char *params;
    const char *key;
    int leaves;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTuple(args, "sszp:start_child", &workflow, &params, &key, &leaves) || !is_open(self)) {
        return NULL;
    }
    enum weir_status status = leaves ? weir_call_enqueue(self->call, workflow, params, key, &error)
                                     : weir_call_start_child(self->call, workflow, params, key, &error);
    return answer_of(status, &error);
}

static PyObject *call_next(struct call *self, PyObject *args)
{
    const char *state;
    long long delay_us;
    if (!PyArg_ParseTuple(args, "zL:next", &state, &delay_us)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    weir_next_after(call, state, delay_us);
    Py_END_ALLOW_THREADS
    return call_answered(self);
}

static PyObject *call_next_at(struct call *self, PyObject *args)
{
    const char *state;
    long long time_us;
    if (!PyArg_ParseTuple(args, "zL:next_at", &state, &time_us)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    weir_next_at(call, state, time_us);
    Py_END_ALLOW_THREADS
    return call_answered(self);
}

static PyObject *call_wait(struct call *self, PyObject *args)
{
    const char *state;
    const char *signal;
    long long timeout_us;
    if (!PyArg_ParseTuple(args, "zsL:wait", &state, &signal, &timeout_us)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    weir_next_on_signal(call, state, signal, timeout_us);
    Py_END_ALLOW_THREADS
    return call_answered(self);
}

static PyObject *call_wait_children(struct call *self, PyObject *args)
{
    const char *state;
    long long timeout_us;
    if (!PyArg_ParseTuple(args, "zL:wait_children", &state, &timeout_us)) {
        return NULL;
    }
    struct weir_call *call = call_take(self);
    if (call == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    weir_next_on_children(call, state, timeout_us);
    Py_END_ALLOW_THREADS
    return call_answered(self);
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

/* An exception becomes a retry: the failure may pass, and the policy limits the number of runs. */
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
    Py_BEGIN_ALLOW_THREADS
    weir_retry(call, "exception", words);
    Py_END_ALLOW_THREADS(void)
    call_answered(self);
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* The library blocks all signals in its threads, and a program that a function starts would inherit that: nothing but
 * SIGKILL could end it. So a thread that runs functions has the signal mask of the program, as any thread of Python. */
static sigset_t host_signals;
static atomic_bool has_host_signals;

static void note_host_signals(void)
{
    if (!atomic_load(&has_host_signals)) {
        (void)pthread_sigmask(SIG_BLOCK, NULL, &host_signals);
        atomic_store(&has_host_signals, true);
    }
}

static void unblock_signals(void)
{
    static _Thread_local bool is_done;
    if (!is_done) {
        is_done = pthread_sigmask(SIG_SETMASK, &host_signals, NULL) == 0;
    }
}

/* PyGILState_Release() frees the thread's state unless something else has a share in it. The next call would make one anew,
 * and map and unmap its stack: an unmapping interrupts all other processors. So a thread that runs functions keeps a share
 * of its state until it ends. */
static pthread_once_t kept_state_once = PTHREAD_ONCE_INIT;
static pthread_key_t kept_state;
static bool has_kept_state;

/* At the end of a thread of the node. Python's own key for the state is cleared already, so PyGILState_Ensure() would make
 * a second one. After the end of the interpreter there is no state to free. */
static void free_kept_state(void *state)
{
    if (Py_IsInitialized()) {
        PyEval_AcquireThread(state);
        PyThreadState_Clear(state);
        PyEval_ReleaseThread(state);
        PyThreadState_Delete(state);
    }
}

static void make_kept_state(void)
{
    has_kept_state = pthread_key_create(&kept_state, free_kept_state) == 0;
}

/* Takes the interpreter's lock in a thread of the node. */
static PyGILState_STATE lock_interpreter(void)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    if (has_kept_state && pthread_getspecific(kept_state) == NULL &&
        pthread_setspecific(kept_state, PyThreadState_Get()) == 0) {
        (void)PyGILState_Ensure(); /* the share that the thread keeps */
    }
    return lock;
}

static void run_handler(struct weir_call *call, void *context)
{
    unblock_signals();
    PyGILState_STATE lock = lock_interpreter();
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
            Py_BEGIN_ALLOW_THREADS
            weir_call_on_cancel(call, NULL, NULL);
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
        Py_BEGIN_ALLOW_THREADS
        weir_node_close(node);
        Py_END_ALLOW_THREADS
        store_leave(self->store);
    }
}

static PyObject *node_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"store",    "handlers",      "name",       "executor_group",    "threads", "max_running",
                            "lease_us", "stop_grace_us", "allow_exec", "secrets_directory", NULL};
    PyObject *store;
    PyObject *handlers;
    note_host_signals();
    (void)pthread_once(&kept_state_once, make_kept_state);
    struct weir_node_options options = {.name = NULL};
    Py_ssize_t threads = 0;
    Py_ssize_t max_running = 0;
    long long lease_us = 0;
    long long grace_us = 0;
    int allow_exec = 0;
    struct weir_error error = {.status = WEIR_OK};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|zznnLLpz:Node", names, store_type, &store, &PyDict_Type, &handlers,
                                     &options.name, &options.group, &threads, &max_running, &lease_us, &grace_us,
                                     &allow_exec, &options.secrets_directory)) {
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
    char language[32];
    const char *version = Py_GetVersion(); /* "3.11.2 (main, ..." */
    (void)snprintf(language, sizeof language, "python %.*s", (int)strcspn(version, " +"), version);
    options.language = language;
    options.handlers = self->handlers;
    options.handler_count = (size_t)self->handler_count;
    options.handler_threads = (size_t)threads;
    options.max_running = (size_t)max_running;
    options.lease_us = lease_us;
    options.stop_grace_us = grace_us;
    options.allow_exec = allow_exec != 0;
    enum weir_status status;
    Py_BEGIN_ALLOW_THREADS
    status = weir_node_open(weir, &options, &self->node, &error);
    Py_END_ALLOW_THREADS
    if (status != WEIR_OK) {
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
    Py_BEGIN_ALLOW_THREADS
    status = weir_node_start(self->node, &error);
    Py_END_ALLOW_THREADS
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
}

static PyObject *node_health(struct node *self, PyObject *unused)
{
    (void)unused;
    struct weir_error error = {.status = WEIR_OK};
    enum weir_status status;
    if (!node_is_open(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = weir_node_health(self->node, &error);
    Py_END_ALLOW_THREADS
    return status == WEIR_OK ? Py_BuildValue("") : raise_error(status, &error);
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
    Py_BEGIN_ALLOW_THREADS
    status = weir_node_stop(self->node, grace_us, &graceful, &error);
    Py_END_ALLOW_THREADS
    return status == WEIR_OK ? PyBool_FromLong(graceful) : raise_error(status, &error);
}

static PyObject *node_close(struct node *self, PyObject *unused)
{
    (void)unused;
    close_node(self);
    Py_RETURN_NONE;
}

/* --- types --- */

static PyMethodDef node_methods[] = {METHOD("start", node_start, METH_NOARGS),
                                     METHOD("health", node_health, METH_NOARGS),
                                     METHOD("stop", node_stop, METH_VARARGS),
                                     METHOD("close", node_close, METH_NOARGS),
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot node_slots[] = {
    {Py_tp_new, node_new}, {Py_tp_dealloc, node_dealloc}, {Py_tp_methods, node_methods}, {0, NULL}};
PyType_Spec node_spec = {"weir._weir.Node", sizeof(struct node), 0, Py_TPFLAGS_DEFAULT, node_slots};

static PyMethodDef call_methods[] = {METHOD("done", call_done, METH_VARARGS),
                                     METHOD("retry", call_retry, METH_VARARGS),
                                     METHOD("fail", call_fail, METH_VARARGS),
                                     METHOD("defer", call_defer, METH_NOARGS),
                                     METHOD("on_cancel", call_on_cancel, METH_O),
                                     METHOD("secret", call_secret, METH_VARARGS),
                                     METHOD("log", call_log, METH_VARARGS),
                                     METHOD("progress", call_progress, METH_VARARGS),
                                     METHOD("variable", call_variable, METH_VARARGS),
                                     METHOD("set_variable", call_set_variable, METH_VARARGS),
                                     METHOD("start_child", call_start_child, METH_VARARGS),
                                     METHOD("next", call_next, METH_VARARGS),
                                     METHOD("next_at", call_next_at, METH_VARARGS),
                                     METHOD("wait", call_wait, METH_VARARGS),
                                     METHOD("wait_children", call_wait_children, METH_VARARGS),
                                     {NULL, NULL, 0, NULL}};
static PyGetSetDef call_fields[] = {{"execution_id", (getter)call_execution_id, NULL, NULL, NULL},
                                    {"workspace", (getter)call_workspace, NULL, NULL, NULL},
                                    {"step", (getter)call_step, NULL, NULL, NULL},
                                    {"input", (getter)call_input, NULL, NULL, NULL},
                                    {"attempt", (getter)call_attempt, NULL, NULL, NULL},
                                    {"fence", (getter)call_fence, NULL, NULL, NULL},
                                    {"traceparent", (getter)call_traceparent, NULL, NULL, NULL},
                                    {"state", (getter)call_state, NULL, NULL, NULL},
                                    {"signal", (getter)call_signal, NULL, NULL, NULL},
                                    {"failure", (getter)call_failure, NULL, NULL, NULL},
                                    {"cancelled", (getter)call_cancelled, NULL, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot call_slots[] = {
    {Py_tp_dealloc, call_dealloc}, {Py_tp_methods, call_methods}, {Py_tp_getset, call_fields}, {0, NULL}};
PyType_Spec call_spec = {"weir._weir.Call", sizeof(struct call), 0, Py_TPFLAGS_DEFAULT, call_slots};
