/* The settings of a runner: copies of the caller's options, with the defaults filled in.
 *
 * Threads: any; nothing changes after runner_options_copy().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_RUNNER_OPTIONS_H
#define WEIR_ENGINE_IN_PROCESS_RUNNER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address_rules.h"
#include "base/secret.h"
#include "engine/in_process/in_process_options.h"
#include "weir/status.h"

enum { INHERITED_VARIABLES = 3 };

struct runner_options {
    bool allow_exec;
    char **exec_allow_list;    /* NULL-terminated copies, or NULL: all programs */
    char **env_from;           /* names that `env_from` may have; NULL-terminated */
    char **env_from_variables; /* beside each its "NAME=value", NULL when unset */
    bool allow_http;
    struct address_rules http_rules;      /* of http steps */
    char *callback_url;                   /* of Weir-Callback-Url; NULL: no such header */
    struct secret_sources secrets;        /* where the secrets of steps are */
    char *inherited[INHERITED_VARIABLES]; /* "PATH=...", "HOME=...", "LANG=..." of the node, NULL when unset */
    char *temporary_directory;            /* $TMPDIR when it is absolute, else "/tmp" */
    size_t handler_threads;
    size_t handler_threads_spare;
    size_t max_running;
    size_t max_parallel_steps; /* of one execution */
    int64_t park_after_us;
};

/* WEIR_OUT_OF_MEMORY. WEIR_INVALID_ARGUMENT: a handler without a valid name, or two with one name. Also an allowed
 * program with a relative path, an entry of http_allow_list that is no host and no network, or a callback_address that is
 * no URL. After an error
 * runner_options_close() frees the parts. */
WEIR_MUST_CHECK enum weir_status runner_options_copy(struct runner_options *options, const struct in_process_options *from,
                                                     struct weir_error *error);
void runner_options_close(struct runner_options *options);

#endif
