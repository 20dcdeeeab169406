/* The way of a call:
 *   1. engine_call() copies it into a task_call, which is its own command.
 *   2. The loop gives it to the handler pool.
 *   3. The pool hands it back.
 *   4. The sink gets its end.
 *
 * The lane is that of the workspace, so that the tasks of all workspaces share the threads fairly. A cancel names the call
 * by its owner: one that meets no call has no effect, because the call has ended. Each call that was started has one end,
 * also when the engine closes before it began.
 */
#include "engine/in_process/task_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

struct task_call {
    struct command command; /* first */
    struct task_call *previous;
    struct task_call *next;
    struct runner *runner;
    void *owner;
    struct tenant *tenant; /* NULL: it has not begun */
    struct weir_call *call;
    char strings[]; /* what `call` points to */
};

struct cancel_command {
    struct command command; /* first */
    void *owner;
    bool moves;
};

/* --- any thread --- */

/* Copies the string to *at, and moves *at behind it. */
static const char *keep_string(char **at, const char *from)
{
    char *kept = *at;
    size_t size = strlen(from) + 1;
    memcpy(kept, from, size);
    *at += size;
    return kept;
}

/* The strings and the task are one allocation, because all of them end together. */
enum weir_status task_call_start(struct engine *engine, const struct engine_call *call, struct weir_error *error)
{
    INVARIANT(engine != NULL && call != NULL);
    struct runner *runner = runner_of_engine(engine);
    const struct weir_handler *handler = definition_cache_handler(&runner->definitions, call->handler);
    if (handler == NULL) {
        return error_set(error, WEIR_NOT_FOUND, "there is no handler named \"%.64s\"", call->handler);
    }
    size_t size = strlen(call->execution_id) + strlen(call->workspace) + strlen(call->step) + strlen(call->input) + 4;
    struct task_call *task = calloc(1, sizeof *task + size);
    struct weir_call *made = task != NULL ? weir_call_new() : NULL;
    if (made == NULL) {
        free(task);
        return error_out_of_memory(error);
    }
    char *at = task->strings;
    task->command.kind = COMMAND_CALL;
    task->runner = runner;
    task->owner = call->owner;
    task->call = made;
    made->handler = handler;
    made->execution_id = keep_string(&at, call->execution_id);
    made->workspace = keep_string(&at, call->workspace);
    made->step = keep_string(&at, call->step);
    made->input = keep_string(&at, call->input);
    made->attempt = call->attempt;
    made->fence = call->fence;
    made->timeout_us = call->timeout_us;
    text_copy(made->traceparent, sizeof made->traceparent, call->traceparent == NULL ? "" : call->traceparent);
    made->engine = engine;
    made->owner = task;
    made->task = call->owner;
    runner_push_command(runner, &task->command);
    return WEIR_OK;
}

/* Without memory for the command the handler is not asked to end. Its result is refused all the same. */
void task_call_cancel(struct engine *engine, void *owner, bool moves)
{
    INVARIANT(engine != NULL && owner != NULL);
    struct cancel_command *command = calloc(1, sizeof *command);
    if (command != NULL) {
        command->command.kind = COMMAND_CANCEL_CALL;
        command->owner = owner;
        command->moves = moves;
        runner_push_command(runner_of_engine(engine), &command->command);
    }
}

/* --- the loop --- */

/* Its tenant may end with it. */
static void free_task(struct task_call *task)
{
    tenant_release(&task->runner->tenants, task->tenant);
    weir_call_free(task->call);
    free(task);
}

/* The call has no place among the open ones. */
void task_call_drop(struct command *command)
{
    struct task_call *task = (struct task_call *)(void *)command;
    struct engine_called called = {.owner = task->owner, .end = ENGINE_CALL_DROPPED, .delay_us = -1};
    engine_end_call(&task->runner->base, &called);
    free_task(task);
}

/* Without memory for the workspace the call ends before it began, as one of a node without memory does. */
void task_call_begin(struct command *command)
{
    INVARIANT(command != NULL);
    struct task_call *task = (struct task_call *)(void *)command;
    struct runner *runner = task->runner;
    task->tenant = tenant_acquire(&runner->tenants, task->call->workspace);
    if (task->tenant == NULL) {
        task_call_drop(command);
        return;
    }
    task->next = runner->task_calls;
    if (task->next != NULL) {
        task->next->previous = task;
    }
    runner->task_calls = task;
    task->call->lane = &task->tenant->calls;
    handler_pool_submit(&runner->handlers, task->call);
}

/* A node has some thousands of calls at most, and cancels are rare: a search by the owner is enough. */
void task_call_execute_cancel(struct runner *runner, const struct command *command)
{
    INVARIANT(runner != NULL && command != NULL);
    const struct cancel_command *cancel = (const struct cancel_command *)(const void *)command;
    struct task_call *task = runner->task_calls;
    while (task != NULL && task->owner != cancel->owner) {
        task = task->next;
    }
    if (task != NULL) {
        handler_pool_cancel(task->call, cancel->moves);
    }
}

/* At an interrupt and at the close. A handler that goes on is awaited by the pool. */
void task_call_cancel_all(struct runner *runner)
{
    for (struct task_call *task = runner->task_calls; task != NULL; task = task->next) {
        handler_pool_cancel(task->call, true);
    }
}

/* A result without a fault of the handler is no failure of the step: the node that has the execution repeats it. */
static void read_task_end(const struct weir_call *call, struct engine_called *called)
{
    bool moves = atomic_load(&call->moves);
    switch (call->result) {
    case CALL_DONE:
        called->end = ENGINE_CALL_DONE;
        called->output = call->output;
        return;
    case CALL_RETRY:
        called->end = moves ? ENGINE_CALL_DROPPED : ENGINE_CALL_RETRY;
        called->delay_us = call->retry_delay_us;
        return;
    case CALL_FAILED:
        called->end = ENGINE_CALL_FAILED;
        return;
    case CALL_BAD_OUTPUT:
        called->end = ENGINE_CALL_FAILED;
        called->code = "handler_bad_output";
        return;
    case CALL_NOTHING:
        called->end = moves ? ENGINE_CALL_DROPPED : ENGINE_CALL_FAILED;
        called->code = "handler_no_result";
        called->error = "the handler returned without an answer: weir_done(), weir_retry() or weir_fail()";
        return;
    case CALL_ACCEPTED: /* of http steps alone */
    case CALL_NEXT:     /* of states alone */
    case CALL_STARVED:
    case CALL_INTERRUPTED:
    case CALL_LEFT:
    case CALL_GIVEN_BACK:
    case CALL_UNSERVED:
        called->end = ENGINE_CALL_DROPPED;
        return;
    }
}

/* The sink gets the end while the call, whose strings it borrows, still exists. */
void task_call_finish(struct weir_call *call)
{
    INVARIANT(call->task != NULL && call->owner != NULL);
    struct task_call *task = call->owner;
    struct engine_called called = {.owner = task->owner,
                                   .end = ENGINE_CALL_DROPPED,
                                   .code = call->code,
                                   .error = call->error,
                                   .delay_us = -1,
                                   .on_recorded = call->on_recorded,
                                   .recorded_context = call->recorded_context};
    read_task_end(call, &called);
    if (task->next != NULL) {
        task->next->previous = task->previous;
    }
    if (task->previous != NULL) {
        task->previous->next = task->next;
    } else {
        task->runner->task_calls = task->next;
    }
    engine_end_call(&task->runner->base, &called);
    free_task(task);
}
