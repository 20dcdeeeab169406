/* A blocking call of the library as a promise.
 *
 * 1. start_task() reads the arguments in the event loop and copies them, so that the call needs nothing of JavaScript.
 * 2. run_task() makes the call in a thread of libuv's pool. It must not touch JavaScript.
 * 3. finish_task() settles the promise in the event loop. A refusal of the library rejects with {status, kind, message,
 *    hint}, of which the package makes its own errors, because an error made here would have no stack of the caller.
 *
 * While a task is under way, a reference keeps its store or node from the garbage collector. At the end of a worker thread
 * the settling fails, and the memory is released all the same.
 */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_task(napi_env env, struct task *task)
{
    free_arguments(task->arguments, ARGUMENTS_MAX);
    free_arguments(task->rows, task->row_count * ARGUMENTS_MAX);
    free(task->rows);
    free(task->results);
    weir_free(task->text);
    if (task->work != NULL) {
        (void)napi_delete_async_work(env, task->work);
    }
    if (task->owner != NULL) {
        (void)napi_delete_reference(env, task->owner);
    }
    free(task);
}

enum weir_status refuse_task(struct task *task, const char *message)
{
    (void)snprintf(task->error.message, sizeof task->error.message, "%s", message);
    task->error.status = WEIR_MISUSE;
    return WEIR_MISUSE;
}

bool read_task_row(napi_env env, struct task *task, napi_value list, const char *types)
{
    napi_handle_scope scope;
    napi_value row = NULL;
    napi_value cells[ARGUMENTS_MAX];
    if (napi_open_handle_scope(env, &scope) != napi_ok) {
        return false;
    }
    bool is_read = napi_get_element(env, list, (uint32_t)task->row_count, &row) == napi_ok;
    for (uint32_t i = 0; is_read && types[i] != '\0'; i++) {
        is_read = napi_get_element(env, row, i, &cells[i]) == napi_ok;
    }
    is_read = is_read && read_arguments(env, cells, types, &task->rows[task->row_count * ARGUMENTS_MAX]);
    task->row_count += is_read ? 1 : 0;
    (void)napi_close_handle_scope(env, scope);
    return is_read;
}

static void run_task(napi_env unused, void *data)
{
    (void)unused;
    struct task *task = data;
    if (task->status == WEIR_OK) {
        task->status = task->method->run(task);
    }
}

static void finish_task(napi_env env, napi_status unused, void *data)
{
    (void)unused;
    struct task *task = data;
    napi_value value = NULL;
    (void)napi_get_undefined(env, &value);
    if (task->status == WEIR_OK) {
        if (task->method->finish != NULL) {
            value = task->method->finish(env, task);
        }
        (void)napi_resolve_deferred(env, task->deferred, value);
    } else {
        (void)napi_reject_deferred(env, task->deferred, make_failure(env, task->status, &task->error));
    }
    if (task->method->leave != NULL) {
        task->method->leave(env, task);
    }
    free_task(env, task);
}

/* Finds the store or node and reads the arguments. On failure a TypeError is pending. */
static bool read_task(napi_env env, struct task *task, const napi_value *values)
{
    const struct method *method = task->method;
    const napi_value *rest = values;
    if (method->kind != OBJECT_NONE) {
        void *object = read_object(env, values[0], method->kind);
        if (object == NULL) {
            return false;
        }
        task->store = method->kind == OBJECT_STORE ? object : NULL;
        task->node = method->kind == OBJECT_NODE ? object : NULL;
        if (napi_create_reference(env, values[0], 1, &task->owner) != napi_ok) {
            return false;
        }
        rest++;
    }
    if (method->types != NULL && !read_arguments(env, rest, method->types, task->arguments)) {
        return false;
    }
    return method->begin == NULL || method->begin(env, task, rest);
}

napi_value start_task(napi_env env, napi_callback_info info)
{
    napi_value values[ARGUMENTS_MAX + 1];
    size_t count = ARGUMENTS_MAX + 1; /* Node-API fills the rest with undefined */
    void *data = NULL;
    napi_value promise = NULL;
    napi_value name = NULL;
    if (napi_get_cb_info(env, info, &count, values, NULL, &data) != napi_ok) {
        return NULL;
    }
    struct task *task = calloc(1, sizeof *task);
    if (task == NULL) {
        throw_type_error(env, "weir: there is no memory for the call");
        return NULL;
    }
    task->method = data;
    if (!read_task(env, task, values)) {
        free_task(env, task);
        return NULL;
    }
    (void)napi_create_string_utf8(env, task->method->name, NAPI_AUTO_LENGTH, &name);
    if (napi_create_async_work(env, NULL, name, run_task, finish_task, task, &task->work) != napi_ok ||
        napi_create_promise(env, &task->deferred, &promise) != napi_ok ||
        napi_queue_async_work(env, task->work) != napi_ok) {
        throw_type_error(env, "weir: the call could not be queued, because the thread ends");
        if (task->method->leave != NULL) {
            task->method->leave(env, task);
        }
        free_task(env, task);
        return NULL;
    }
    return promise;
}
