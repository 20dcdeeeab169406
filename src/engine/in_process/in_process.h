/* The embedded engine: runs the steps of executions inside the node.
 *
 * One thread drives everything that waits - the keeper's pipes, timers, the graph of each execution; C handlers run on a
 * small pool; `exec` steps are children of the keeper. A sleeping step is a row with a due time, not a thread.
 * Without engine_run_threads() the same loop runs in the caller's engine_step(), handlers included.
 *
 * What "once" means: an execution is started once; two runs of a step never overlap; a finished step never runs again; a
 * step that ran when its node died runs again with a higher attempt number. For this an `exec` attempt is on record
 * (STEP_RUNNING, durable) before its process starts. A `handler` attempt is not, to save a commit, as long as its
 * execution was never handed over: then its attempt number grows by the number of interruptions, so it is never used twice
 * either, and from then on its attempts are on record as well, because one that ends its node must be found running
 * (store.h, handovers_max).
 */
#ifndef WEIR_ENGINE_IN_PROCESS_H
#define WEIR_ENGINE_IN_PROCESS_H

#include "engine/engine.h"
#include "weir/handler.h"

struct in_process_options {
    size_t max_running;        /* executions at once: room() is what is left of it; 0 = IN_PROCESS_RUNNING_DEFAULT */
    size_t handler_threads;    /* at most 16; 0 = one more than there are processors */
    size_t max_parallel_steps; /* of one execution; 0 = IN_PROCESS_PARALLEL_DEFAULT */
    bool allow_exec;           /* exec steps are refused (error code `exec_not_allowed`) unless this is set */
    bool exec_unguarded;       /* processes of exec steps may signal this process and its keeper (keeper_guard.h) */
    /* Absolute paths, or names that are looked up in the absolute parts of PATH; NULL-terminated; NULL = all when
     * allow_exec. */
    const char *const *exec_allow_list;
    const struct weir_handler *handlers; /* copied */
    size_t handler_count;
    const struct clock *clock;
};

enum { IN_PROCESS_RUNNING_DEFAULT = 1000, IN_PROCESS_PARALLEL_DEFAULT = 32 };
/* After a refusal that another node, or this one later, may not repeat. */
#define IN_PROCESS_REFUSAL_DELAY_US (10 * MICROSECONDS_PER_SECOND)

/* Starts the keeper: a small single-threaded process that is forked before any thread exists. So this must be called while
 * the process has one thread, or at least before the node's threads; the child only uses async-signal-safe calls until it
 * runs its own loop. Errors: WEIR_SYSTEM (fork, pipe), WEIR_INVALID_ARGUMENT (duplicate handler name, allowed program with
 * a relative path). */
WEIR_MUST_CHECK enum weir_status in_process_open(const struct in_process_options *options, struct engine **ret_engine,
                                                 struct weir_error *error);
/* Process id of the keeper (for the node's row: a node is gone only when its keeper is gone too); 0 when there is none. */
long in_process_keeper_pid(const struct engine *engine);

#endif
