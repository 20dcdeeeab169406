/* Steps in C: a `handler` step of a workflow definition names one of these functions.
 *
 * A handler is called on a thread of the node (or inside weir_node_step()), once per attempt. It reads its input, does its
 * work, and reports its result with exactly one of weir_done(), weir_retry(), weir_fail(). Returning without one of
 * them is a failure with the code `handler_no_result`.
 * The first of them counts, later ones do nothing; only the thread that was called may call these functions.
 * Long work should ask weir_call_cancelled() now and then and return when it is true.
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

struct weir_call; /* one attempt; valid only during the call */

typedef void weir_handler_function(struct weir_call *call, void *context);

struct weir_handler {
    const char *name; /* as in `handler: NAME`; [a-z0-9][a-z0-9_-]*, at most 64 bytes */
    weir_handler_function *function;
    void *context; /* handed to every call; must outlive the node; calls come from several threads */
};

/* The subject of the call. All strings live until the handler returns. */
const char *weir_call_execution_id(const struct weir_call *call);
const char *weir_call_workspace(const struct weir_call *call);
const char *weir_call_step(const struct weir_call *call);
/* Which run of this step it is, from 1; no number is used twice. */
int weir_call_attempt(const struct weir_call *call);
/* A later claim of the same execution has a larger one: a program that keeps the largest seen one of an execution can
 * refuse a node that has lost it. */
int64_t weir_call_fence(const struct weir_call *call);
/* JSON text: the step's `input` template when it has one, else the execution's params. */
const char *weir_call_input(const struct weir_call *call);
/* True when the execution was cancelled, timed out, or the node is stopping. */
bool weir_call_cancelled(const struct weir_call *call);

/* The step is done. `output` is JSON text of at most 1 MiB or NULL (= null); copied. Not JSON or too large: the step fails
 * with the code `handler_bad_output`. */
void weir_done(struct weir_call *call, const char *output);
/* It did not work, and may work later: the step's retry policy decides (default for handlers: 17 retries, 1 min x 2^n up to
 * 1 day). `code` (cut after 64 bytes; NULL = "handler_failed") and `error` (a text; may be NULL) are copied. */
void weir_retry(struct weir_call *call, const char *code, const char *error);
/* It did not work and never will: the step fails at once. Arguments as above. */
void weir_fail(struct weir_call *call, const char *code, const char *error);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
