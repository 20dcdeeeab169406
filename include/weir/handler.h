/* Steps in C: a `handler` step of a workflow definition names one of these functions.
 *
 * A handler is called on a thread of the node (or inside weir_node_step()), once per attempt. It reads its input, does its
 * work, and gives exactly one answer: weir_done(), weir_retry(), weir_retry_after() or weir_fail(); for a program outside
 * of the node also weir_interrupted() or weir_give_back(). Returning without an answer is a failure with the code
 * `handler_no_result`, unless weir_call_defer() was called before: then the handler returns at once, and any other thread
 * answers later.
 * The first answer counts, later ones do nothing. Only the thread that was called may call these functions; after
 * weir_call_defer() it is the thread that has the call, one at a time.
 * Long work should ask weir_call_cancelled() now and then and answer when it is true; weir_call_on_cancel() spares the
 * asking.
 */
#ifndef WEIR_HANDLER_H
#define WEIR_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct weir_call; /* one attempt; valid until the handler has returned, after weir_call_defer() until the answer */

typedef void weir_handler_function(struct weir_call *call, void *context);

struct weir_handler {
    const char *name; /* as in `handler: NAME`; [a-z0-9][a-z0-9_-]*, at most 64 bytes */
    weir_handler_function *function;
    void *context; /* handed to every call; must outlive the node; calls come from several threads */
};

/* The subject of the call. All strings live as long as the call. */
const char *weir_call_execution_id(const struct weir_call *call);
const char *weir_call_workspace(const struct weir_call *call);
const char *weir_call_step(const struct weir_call *call);
/* Which run of this step it is, from 1; no number is used twice. */
int weir_call_attempt(const struct weir_call *call);
/* A later claim of the same execution has a larger one: a program that keeps the largest seen one of an execution can
 * refuse a node that has lost it. */
int64_t weir_call_fence(const struct weir_call *call);
/* The trace context for all that the handler calls: a W3C `traceparent` of the trace that the execution belongs to. NULL:
 * the request had none, and the node exports no spans. */
const char *weir_call_traceparent(const struct weir_call *call);
/* JSON text: the step's `input` template when it has one, else the execution's params. */
const char *weir_call_input(const struct weir_call *call);
/* The value of a secret that `secrets` of the step lists: UTF-8 text, never empty. NULL: the step does not list the name.
 * The value is overwritten after the answer. weir replaces it by *** in the output, the code and the error of the answer,
 * and in each text of weir_call_log() and weir_call_output(); in files and logs of the handler's own it does not. */
const char *weir_call_secret(const struct weir_call *call, const char *name);
/* True when the execution was cancelled, timed out, or the node is stopping. */
bool weir_call_cancelled(const struct weir_call *call);

/* True when it was cancelled because this node gives the execution up, and another node goes on with it. */
bool weir_call_moves(const struct weir_call *call);
/* How long this node has had the execution, in microseconds, if another claim of it ended before its end was on record.
 * Then a program outside of the former node may still work at this step. -1: this is its first claim. */
int64_t weir_call_taken_over_us(const struct weir_call *call);
/* The last attempt of the step whose end is on record, or is recorded by this node; 0 = none. A program outside of the node
 * that still reports an attempt up to this one repeats a known report, or has lost its run. */
int weir_call_ended_attempt(const struct weir_call *call);
/* The time until the timeout of the step, in microseconds; not below 0. -1: the step has no timeout. */
int64_t weir_call_time_left_us(const struct weir_call *call);

/* Adds text to the log of this attempt, for `weir logs`: one line or several; a newline is added when the last one lacks
 * it. It reaches the store within about a second. Never waits and never fails: what finds no space is left out, and the log
 * shows that. Any thread may call it between the start of the handler and the answer. */
void weir_call_log(struct weir_call *call, const char *text, size_t length);
/* The stream that `weir logs` names beside a line. */
enum weir_stream {
    WEIR_STREAM_LOG, /* lines of weir_call_log() */
    WEIR_STREAM_STDOUT,
    WEIR_STREAM_STDERR
};
/* As weir_call_log(), for what the handler wrote to its stdout or stderr. Any other number counts as WEIR_STREAM_LOG. */
void weir_call_output(struct weir_call *call, enum weir_stream stream, const char *text, size_t length);

/* Reports how far the handler is, for `weir show`, the views and the dashboard, while the attempt runs. `fraction` is from
 * 0 to 1; a number beyond counts as the nearer of the two, and NaN = unknown. `text` is for people, as "400 of 1000":
 * UTF-8, cut after 200 bytes; NULL = none. Each report replaces the one before. The newest one reaches the store within
 * about a second, and is removed soon after the end of the attempt. Never waits and never fails: without space the report
 * is dropped. A report of a node that has lost the execution has no effect. Any thread may call it between the start of the
 * handler and the answer. */
void weir_call_progress(struct weir_call *call, double fraction, const char *text);

/* Called at most once, in a thread of the library, when the call is cancelled before its answer. It must be quick and must
 * call nothing of the library but weir_call_... getters. */
typedef void weir_cancel_function(struct weir_call *call, void *context);
/* From now on `function` is called when the call is cancelled; at once, and in this thread, when it was cancelled already.
 * It takes the place of an earlier one; NULL = nobody. An answer waits for a function that runs, and none is called after
 * it: `context` may be freed once the answer has returned, and a thread that answers must hold no lock that `function`
 * takes. A handler that returns without an answer calls this with NULL before, if the context goes with it. */
void weir_call_on_cancel(struct weir_call *call, weir_cancel_function *function, void *context);

/* The answer comes later: an event loop or a pool of the program's own has the call, and the node's thread is free as soon
 * as the handler returns. The answer ends the call: nothing may touch it afterwards. A call without an answer keeps the
 * execution's slot, and weir_node_close() waits for it, as for a handler that does not return. Must be called by the
 * handler, before the call is handed on. After an answer it does nothing. */
void weir_call_defer(struct weir_call *call);

/* Called once, in a thread of the library, after the answer. true: the end of the attempt is durable in the store. false:
 * this node records it not, because it has lost the execution or gives it up; the step runs again. It must be quick, and
 * must call nothing of the library. */
typedef void weir_recorded_function(void *context, bool is_recorded);
/* Calls `function` when the record of the answer is durable, for a program that acknowledges a result to another one. Must
 * be called before the answer. */
void weir_call_on_recorded(struct weir_call *call, weir_recorded_function *function, void *context);

/* The step is done. `output` is JSON text of at most 1 MiB or NULL (= null); copied. Not JSON or too large: the step fails
 * with the code `handler_bad_output`. */
void weir_done(struct weir_call *call, const char *output);
/* It did not work, and may work later: the step's retry policy decides (default for handlers: 17 retries, 1 min x 2^n up to
 * 1 day). `code` (cut after 64 bytes; NULL = "handler_failed") and `error` (a text; may be NULL) are copied. */
void weir_retry(struct weir_call *call, const char *code, const char *error);
/* The same, with a delay for this time, in microseconds, in place of the policy's; at most a year. Less than 0 = the
 * policy's. How many runs are left is the policy's affair all the same. */
void weir_retry_after(struct weir_call *call, int64_t delay_us, const char *code, const char *error);
/* It did not work and never will: the step fails at once. Arguments as of weir_retry(). */
void weir_fail(struct weir_call *call, const char *code, const char *error);
/* The program that did the work is gone, and nobody knows how far it came: the step runs again at once on this node, with
 * the next attempt number, and has spent no retry. After the second time in one claim it counts as weir_retry() with the
 * code `worker_lost`: the step may be the cause. Arguments as of weir_retry(). */
void weir_interrupted(struct weir_call *call, const char *error);
/* Nothing on this node can run the step: another node of the group continues the execution, and its other steps here are
 * stopped. Unregister the handler first, or this node may get the execution again. */
void weir_give_back(struct weir_call *call);

/* --- handlers of states --- */

/* A workflow with `states` calls the handler of its present state. These functions are for such a call; in any other one
 * the getters return NULL, the setters WEIR_MISUSE, and an answer fails the step with the code `no_states`.
 * weir_call_step() returns the name of the state. weir_call_attempt() is the number of the action: it grows over all states
 * of the execution.
 *
 * A handler sets variables and names children. The store saves them with its answer, in one transaction with the change of
 * state. It saves none of them without an answer, or when the node has lost the execution. It saves variables with every
 * answer, and children only with weir_next...(), weir_next_on...() and weir_done(). */

/* The present state; NULL: the workflow has steps. */
const char *weir_call_state(const struct weir_call *call);
/* The data of the signal that ended the wait for this state, as JSON text; after weir_next_on_children() an object with
 * `output`, or with `code` and `error`. NULL: there was no such wait, or its timeout ended it. */
const char *weir_call_signal(const struct weir_call *call);
/* The state whose failure has led here or to a state before this one, its code and its text; NULL = none. */
const char *weir_call_failed_state(const struct weir_call *call);
const char *weir_call_failure_code(const struct weir_call *call);
const char *weir_call_failure(const struct weir_call *call);
/* The value of a variable as JSON text, valid until the variable is set or the call is answered. NULL: it has no value. */
const char *weir_call_variable(struct weir_call *call, const char *name);
/* Sets a variable of the definition; `value` is JSON text, NULL = null, which any type takes. WEIR_INVALID_ARGUMENT: no
 * such variable, another type, no JSON, more than 32 KiB, or all variables together have more than 128 KiB. WEIR_MISUSE,
 * WEIR_OUT_OF_MEMORY. `error` may be NULL. */
WEIR_MUST_CHECK enum weir_status weir_call_set_variable(struct weir_call *call, const char *name, const char *value,
                                                        struct weir_error *error);
/* Starts an execution of the workflow as a child, which the end of this execution cancels. `params` is a JSON object;
 * NULL = {}. `key`: an idempotency key of 1 to 255 bytes; NULL = none. The execution of the workspace that has this key
 * becomes the child then, and a new one if there is none; it goes on behind the end of this execution. The store checks
 * workflow and key when it starts the child: one that it refuses does not undo the answer. At most 1000 for each answer,
 * with those of weir_call_enqueue(). Errors as of weir_call_set_variable(). */
WEIR_MUST_CHECK enum weir_status weir_call_start_child(struct weir_call *call, const char *workflow, const char *params,
                                                       const char *key, struct weir_error *error);
/* The same for an execution that goes on behind the end of this one in each case, and for which it does not wait. */
WEIR_MUST_CHECK enum weir_status weir_call_enqueue(struct weir_call *call, const char *workflow, const char *params,
                                                   const char *key, struct weir_error *error);

/* The next state, which runs at once on this node; after 100 such answers in a row it runs 30 s later. NULL = this state
 * again. A name that the definition does not have is the code `unknown_state`, and one that `next` of the state does not
 * list fails with `transition_not_allowed`. */
void weir_next(struct weir_call *call, const char *state);
/* The next state after a delay in microseconds, at most ten years. The execution needs no slot meanwhile. */
void weir_next_after(struct weir_call *call, const char *state, int64_t delay_us);
/* The next state at a time of the store, in microseconds since 1970; a time that is past = at once. */
void weir_next_at(struct weir_call *call, const char *state, int64_t time_us);
/* The next state when a signal comes that `signals` of the definition lists; its handler gets the data by
 * weir_call_signal(). The record of that handler's answer consumes the signal. After `timeout_us` the state runs without
 * it; 0 = without a timeout. */
void weir_next_on_signal(struct weir_call *call, const char *state, const char *signal, int64_t timeout_us);
/* The next state when all children have ended that this call has started. They must be of one workflow, and all or none of
 * them have keys. */
void weir_next_on_children(struct weir_call *call, const char *state, int64_t timeout_us);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
