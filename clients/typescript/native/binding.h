/* Shared by the files of the addon.
 *
 * The addon gives JavaScript the public interface weir/weir.h, one to one, as functions of a module. The package's modules
 * in src/ add all convenience. JavaScript holds stores and nodes as externals, each of which begins with its kind, and
 * calls as numbers.
 *
 * value.c    JavaScript values from and to C
 * task.c     a blocking call of the library in a thread of libuv's pool, and its promise
 * store.c    stores and their calls
 * lists.c    lists, and acts on all executions that meet conditions
 * node.c     nodes, and the delivery of their calls to the event loop
 * call.c     the log, the progress and the secrets of a call
 * handles.c  the numbers of calls
 * module.c   the table of functions
 */
#ifndef WEIR_CLIENTS_TYPESCRIPT_NATIVE_BINDING_H
#define WEIR_CLIENTS_TYPESCRIPT_NATIVE_BINDING_H

#include <node_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

enum object_kind { OBJECT_NONE, OBJECT_STORE = 0x57e1, OBJECT_NODE };

/* --- value.c --- */

enum { ARGUMENTS_MAX = 14 };

struct argument {
    char *text; /* owned; NULL when the value was null or undefined, or a number */
    size_t length;
    int64_t number;
};

/* Reads `types`, one letter for each value: s = a string, z = a string or null, i = an integer. On failure it throws a
 * TypeError and frees what it has read. A string with a NUL is refused, because C would cut it there. */
bool read_arguments(napi_env env, const napi_value *values, const char *types, struct argument *arguments);
void free_arguments(struct argument *arguments, size_t count);
/* The object behind an external, or NULL with a TypeError. */
void *read_object(napi_env env, napi_value value, enum object_kind kind);
napi_value make_text(napi_env env, const char *text);
/* The same for text that is ASCII. */
napi_value make_ascii(napi_env env, const char *text);
napi_value make_number(napi_env env, int64_t number);
napi_value make_boolean(napi_env env, bool value);
napi_value make_null(napi_env env);
/* An object {status, kind, message, hint}. */
napi_value make_failure(napi_env env, enum weir_status status, const struct weir_error *error);
void throw_type_error(napi_env env, const char *message);

/* --- task.c --- */

struct store;
struct node;
struct task;

/* A function of the module that works in libuv's pool and returns a promise. */
struct method {
    const char *name;
    enum object_kind kind; /* of its first argument; OBJECT_NONE: it has no such argument */
    const char *types;     /* of the arguments after that, as for read_arguments(); NULL: `begin` reads them */
    bool (*begin)(napi_env env, struct task *task, const napi_value *values); /* in the event loop; may be NULL */
    enum weir_status (*run)(struct task *task);                               /* in the pool */
    napi_value (*finish)(napi_env env, struct task *task); /* in the event loop, after WEIR_OK; NULL: undefined */
    void (*leave)(napi_env env, struct task *task);        /* in the event loop, always; may be NULL */
};

struct task {
    const struct method *method;
    napi_async_work work;
    napi_deferred deferred;
    napi_ref owner; /* keeps the store or the node from the garbage collector */
    struct store *store;
    struct node *node;
    struct argument arguments[ARGUMENTS_MAX];
    struct argument *rows; /* ARGUMENTS_MAX for each request of enqueueMany(), or for each row of conditions */
    size_t row_count;
    struct weir_result *results; /* one for each request */
    char *text;                  /* from the library, released with weir_free() */
    char id[WEIR_ID_SIZE];
    int64_t number;
    int64_t second_number;
    int64_t third_number;
    bool flag;
    void *opened;
    enum weir_status status;
    struct weir_error error;
};

/* The callback of every method; its data is the struct method. */
napi_value start_task(napi_env env, napi_callback_info info);
/* Reads the next row of the array `list`, whose place is the number of the rows that were read: an array with a value for
 * each letter of `types`. The caller has allocated the rows. */
bool read_task_row(napi_env env, struct task *task, napi_value list, const char *types);
/* Refuses a task: fills its error. */
enum weir_status refuse_task(struct task *task, const char *message);

/* --- store.c --- */

struct store {
    enum object_kind kind;
    struct weir *weir; /* NULL: not open yet, or closed */
    int users;         /* tasks under way and open nodes; only the event loop's thread changes it */
    bool is_closing;
    pthread_mutex_t lock; /* for the two below */
    bool is_muted;        /* the environment ends: no more events */
    napi_threadsafe_function events;
};

extern const struct method store_methods[];
extern const size_t store_method_count;
/* How a call of an open store begins and ends (struct method), and its answer where that is a text. */
bool enter_store(napi_env env, struct task *task, const napi_value *unused);
void leave_store(napi_env env, struct task *task);
napi_value finish_text(napi_env env, struct task *task);
/* createStore(onEvent | null): an external, to be opened with openStore(). */
napi_value create_store(napi_env env, napi_callback_info info);

/* --- lists.c --- */

extern const struct method list_methods[];
extern const size_t list_method_count;

/* --- handles.c --- */

struct call;
struct handle_table;

/* Makes the table of an environment. False: a TypeError is pending. */
bool handles_open(napi_env env);
struct handle_table *handles_of(napi_env env);
/* A handle of the call, or 0: memory is short. */
int64_t handles_add(struct handle_table *table, struct call *call);
/* The call of a handle; NULL: it has ended, or a TypeError is pending. */
struct call *handles_find(napi_env env, napi_value handle);
void handles_end(struct handle_table *table, int64_t handle);

/* --- node.c --- */

extern const struct method node_methods[];
extern const size_t node_method_count;
/* createNode(store, names, deliver): an external, to be opened with openNode(). */
napi_value create_node(napi_env env, napi_callback_info info);
/* Reads the handle of a call and the arguments behind it. NULL: the call has ended, or a TypeError is pending. */
struct weir_call *read_open_call(napi_env env, napi_callback_info info, const char *types, struct argument *arguments);
/* The three answers to a call. Each returns true if its answer counted, false if the call had ended. */
napi_value answer_done(napi_env env, napi_callback_info info);
napi_value answer_retry(napi_env env, napi_callback_info info);
napi_value answer_fail(napi_env env, napi_callback_info info);
/* For calls of states: callState(call) is [state, signal, failed state, code, text], each text or null. */
napi_value get_call_state(napi_env env, napi_callback_info info);
napi_value get_variable(napi_env env, napi_callback_info info);
/* null, or why the variable is not set, or the child is not named. */
napi_value set_variable(napi_env env, napi_callback_info info);
napi_value start_child(napi_env env, napi_callback_info info);
napi_value answer_next(napi_env env, napi_callback_info info);
napi_value answer_next_at(napi_env env, napi_callback_info info);
napi_value answer_wait(napi_env env, napi_callback_info info);
napi_value answer_wait_children(napi_env env, napi_callback_info info);
/* Whether a call was cancelled; null when it has ended. */
napi_value is_call_cancelled(napi_env env, napi_callback_info info);
/* deliverMore(node, deliver): what deliver() without arguments asks for, in the next turn of the event loop. */
napi_value deliver_more(napi_env env, napi_callback_info info);
/* abandonCalls(node): answers all open calls of a node with `cancelled`; returns their number. */
napi_value abandon_calls(napi_env env, napi_callback_info info);

/* --- call.c --- */

napi_value log_call(napi_env env, napi_callback_info info);
napi_value report_progress(napi_env env, napi_callback_info info);
napi_value get_secret(napi_env env, napi_callback_info info);

#endif
