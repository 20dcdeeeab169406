/* The options of an in-process engine, with their defaults. The caller owns the strings and arrays; the engine copies them.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_OPTIONS_H
#define WEIR_ENGINE_IN_PROCESS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "weir/handler.h"

struct in_process_options {
    size_t max_running;        /* executions at once: the capacity; 0 = IN_PROCESS_RUNNING_DEFAULT */
    size_t handler_threads;    /* at most 16; 0 = one more than there are processors */
    size_t max_parallel_steps; /* of one execution; 0 = IN_PROCESS_PARALLEL_DEFAULT */
    /* An execution all of whose steps wait for longer gives its slot back; 0 = PARK_AFTER_US, TIME_NEVER = none does. */
    int64_t park_after_us;
    bool allow_exec;     /* exec steps are refused (error code `exec_not_allowed`) unless this is set */
    bool exec_unguarded; /* processes of exec steps may signal this process and its keeper (keeper_guard.h) */
    /* Absolute paths, or names that are found in the absolute parts of PATH; NULL-terminated; NULL = all programs, when
     * allow_exec. */
    const char *const *exec_allow_list;
    /* The variables of this process that a step may ask for by `env_from`; NULL-terminated; NULL = none. */
    const char *const *env_from_list;
    /* The hosts and networks that http steps may reach (base/address_rules.h); NULL-terminated; NULL = http steps are
     * refused (error code `http_not_allowed`). */
    const char *const *http_allow_list;
    /* Where functions reach a listener of this store, as "https://weir.example.com"; NULL or "": not known. It is the
     * beginning of Weir-Callback-Url. At most CALLBACK_ADDRESS_MAX bytes. */
    const char *callback_address;
    const char *secrets_directory;       /* NULL or "": none (base/secret.h) */
    const struct weir_handler *handlers; /* copied */
    size_t handler_count;
    bool has_calls_alone; /* for engine_call() and nothing else: it forks no keeper, so it can run no execution */
    const struct clock *clock;
};

enum { CALLBACK_ADDRESS_MAX = 512 };
enum { IN_PROCESS_RUNNING_DEFAULT = 1000, IN_PROCESS_PARALLEL_DEFAULT = 32 };
/* The delay after a refusal that another node, or this one later, may not repeat. */
#define IN_PROCESS_REFUSAL_DELAY_US (10 * MICROSECONDS_PER_SECOND)

#endif
