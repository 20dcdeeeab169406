/* The runner: the in-process engine's own struct. It holds one struct per part, and the counters that the parts share.
 *
 *     part          file                 use
 *     commands      command_queue.h      orders of other threads to the loop
 *     loop          loop.h               file descriptors, timers, wake-ups
 *     executions    execution_table.h    executions by id
 *     tenants       tenant.h             the workspaces and their shares
 *     processes     process.h            processes of exec steps and evaluators
 *     evaluators    evaluator_pool.h     jq programs
 *     handlers      handler_pool.h       C functions
 *     requests      http_client.h        requests of http steps
 *     definitions   definition_cache.h   parsed definitions
 *     options       runner_options.h     settings, read-only after open
 *
 * Threads: `commands`, `definitions`, `options` and the atomic members for any thread; the rest is the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_RUNNER_H
#define WEIR_ENGINE_IN_PROCESS_RUNNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/in_process/command_queue.h"
#include "engine/in_process/definition_cache.h"
#include "engine/in_process/evaluator_pool.h"
#include "engine/in_process/execution_state.h"
#include "engine/in_process/execution_table.h"
#include "engine/in_process/handler_pool.h"
#include "engine/in_process/http_client.h"
#include "engine/in_process/loop.h"
#include "engine/in_process/process.h"
#include "engine/in_process/runner_options.h"
#include "engine/in_process/tenant.h"
#include "queue/fair_queue.h"

struct runner {
    struct engine base; /* first: a struct engine * is a struct runner * */
    struct runner_options options;
    struct loop loop;
    struct process_table processes;
    struct evaluator_pool evaluators;
    struct handler_pool handlers;
    struct http_client requests;
    struct definition_cache definitions;
    struct execution_table executions;
    struct tenant_table tenants;
    struct task_call *task_calls; /* the open ones */
    struct random random;
    struct command_queue commands;
    struct command abandon_all;    /* allocated in advance: it is the remedy for lost memory */
    atomic_bool abandon_all_is_on; /* abandon_all is among the commands */
    atomic_size_t admitted;        /* started and not yet durably ended: the used capacity */
    atomic_bool stopped;           /* accepts no start */
    atomic_bool has_to_interrupt;  /* the next turn gives back all running executions */
    bool is_interrupted;           /* it has done so; the loop's: an execution that goes on begins no later stage */
    _Atomic int64_t lease_end_us;
    atomic_bool has_new_lease;
    struct fair_queue
        process_places;             /* exec steps in AWAITING_PLACE; a step holds a place from RECORDING_START to RUNNING */
    struct fair_queue spawn_places; /* exec steps in QUEUED; a step holds a place while its process starts */
    size_t reserved;                /* places of exec steps whose process is about to start */
    size_t timers_reserved;         /* for the admitted executions */
    pthread_t thread;
    bool has_thread;
    atomic_bool closing;
};

/* The runner behind the interface of engines. */
static inline struct runner *runner_of_engine(struct engine *engine)
{
    return (struct runner *)(void *)engine;
}

/* A report that must not be lost. NULL when out of memory: then the node gives up all its claims, and the next owner of
 * each claim reports in its place. */
struct report *runner_report_new(struct runner *runner, enum report_kind kind, const char *id, int64_t fence);
/* Interrupts the sleep of the loop. Any thread. */
void runner_push_command(struct runner *runner, struct command *command);

#endif
