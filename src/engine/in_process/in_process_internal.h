/* The in-process engine's own struct: what its parts share. See in_process.h for what it is.
 *
 * Threads: from `admitted` to `commands`, and `definitions`, for any thread; the rest is the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_INTERNAL_H
#define WEIR_ENGINE_IN_PROCESS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/in_process/definition_cache.h"
#include "engine/in_process/evaluator_pool.h"
#include "engine/in_process/handler_pool.h"
#include "engine/in_process/in_process.h"
#include "engine/in_process/loop.h"
#include "engine/in_process/process.h"
#include "engine/in_process/tenant.h"

struct execution;
struct step_run;

enum command_kind {
    COMMAND_START,
    COMMAND_CANCEL,
    COMMAND_ABANDON,
    COMMAND_ABANDON_ALL,
    COMMAND_RECORDED,
    COMMAND_DESCRIBE
};

/* What another thread asks of the loop; START is the first member of its execution, ABANDON_ALL is the runner's own, the
 * others are malloc'ed. */
struct command {
    struct command *next;
    enum command_kind kind;
};

enum { INHERITED_VARIABLES = 3 };

/* First in, first out. */
struct step_run_queue {
    struct step_run *first;
    struct step_run *last;
};

struct runner {
    struct engine base; /* first: a struct engine * is a struct runner * */
    struct loop loop;
    struct process_table processes;
    struct evaluators evaluators;
    struct handler_pool handlers;
    struct definition_cache definitions;
    struct random random;
    bool allow_exec;
    char **exec_allow_list; /* NULL-terminated copies, or NULL */
    struct weir_handler *handler_list;
    size_t handler_count;
    char *inherited[INHERITED_VARIABLES]; /* "PATH=...", "HOME=...", "LANG=..." of the node, NULL when unset */
    size_t handler_threads;
    size_t handler_threads_spare;
    size_t max_running;
    size_t max_parallel_steps; /* of one execution */
    atomic_size_t admitted;    /* started and not yet durably ended: what room() is counted from */
    atomic_bool stopped;
    atomic_bool is_to_interrupt; /* what runs is to be given back */
    _Atomic int64_t lease_end_us;
    atomic_bool has_new_lease;
    struct command abandon_all;         /* needs no memory: it is what is left to do when there is none */
    atomic_bool abandons_all;           /* it is among the commands */
    _Atomic(struct command *) commands; /* newest first */
    struct execution **buckets;
    size_t bucket_count; /* a power of two */
    size_t timers_reserved;
    struct tenant_table tenants;
    struct fair_queue
        processes_queue;          /* exec steps in PHASE_AWAITING_ROOM; held by those from RECORDING_START to RUNNING */
    struct step_run_queue queued; /* exec steps in PHASE_QUEUED */
    size_t reserved;              /* room among the processes that exec steps have which are about to start */
    pthread_t thread;
    bool has_thread;
    atomic_bool closing;
};

/* The execution with this id, or NULL. */
struct execution *runner_find(const struct runner *runner, const char *id);
void runner_insert(struct runner *runner, struct execution *execution);
void runner_remove(struct runner *runner, struct execution *execution);
/* A report that nobody asks for again. NULL when out of memory: then the node gives up all its claims, and what the report
 * should have told is told by whoever takes over. */
struct report *runner_report_new(struct runner *runner, enum report_kind kind, const char *id, int64_t fence);

#endif
