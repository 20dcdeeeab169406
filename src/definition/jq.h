/* jq glue over libjq 1.6, which is not fit to run inside a daemon. It takes ~40 ms per compilation (its built-ins are a
 * jq program themselves), cannot be interrupted, aborts when memory runs out, and reads ~/.jq. Some programs kill it:
 * `1 % 0.1` divides by zero while it is being compiled. So nothing here runs libjq in the caller's process except a
 * struct jq_program. That is for child processes that went through jq_confine_process(): the evaluator, and the child
 * that jq_check() forks.
 */
#ifndef WEIR_DEFINITION_JQ_H
#define WEIR_DEFINITION_JQ_H

#include <jansson.h>
#include <stddef.h>

#include "base/json.h"
#include "weir/status.h"

enum {
    JQ_MEMORY_BYTES_MAX = 256 * 1024 * 1024,
    JQ_CHECK_CPU_SECONDS_MAX = 10,
    JQ_CHECK_DEADLINE_MS = 20 * 1000,        /* a check that takes longer is killed */
    JQ_RESULT_DEPTH_MAX = JSON_DEPTH_MAX - 1 /* one less than json_read() takes, for its surroundings */
};

/* Turns this process into a harmless one. It has no environment (so neither ~/.jq nor `env`), no core file and a memory
 * limit. It can open no file, its standard streams are /dev/null, and every file descriptor but the `keep_count` given
 * ones is closed. Signals have their default handling. Only the system calls that computing takes are allowed
 * (base/syscall_filter.h): no network, no process, no signals. Only for a child process; there is no way back. */
void jq_confine_process(const int *keep_fds, size_t keep_count);
/* Allows `seconds` of CPU time from now on; the process is killed when they are used up. */
void jq_confine_cpu(unsigned seconds);

/* A compiled program; one thread at a time. Only in a confined process. */
struct jq_program;

/* Compiles. WEIR_INVALID_ARGUMENT with jq's message ("syntax error, unexpected ..."); `import`, `include` and `module` are
 * refused. The text is copied. */
WEIR_MUST_CHECK enum weir_status jq_program_open(const char *text, struct jq_program **ret_program,
                                                 struct weir_error *error);
/* Runs on one input, which must give exactly one value. WEIR_FAILED with jq's message, also for no or several values.
 * Numbers are doubles in jq: integers beyond 2^53 lose digits. *ret_value is owned by the caller. */
WEIR_MUST_CHECK enum weir_status jq_program_run(struct jq_program *program, const json_t *input, json_t **ret_value,
                                                struct weir_error *error);
/* Takes NULL. */
void jq_program_close(struct jq_program *program);

/* Compiles all programs in a child process, one compilation when all are right. WEIR_INVALID_ARGUMENT: *ret_wrong is the
 * index of the first wrong one and the message is jq's; WEIR_SYSTEM: no child could be made, or it was too slow. Brackets
 * in each program must be balanced, as expression.c checks. Forks: safe in a program with threads; the child only uses
 * memory and a pipe. Any thread. */
WEIR_MUST_CHECK enum weir_status jq_check(const char *const *programs, size_t count, size_t *ret_wrong,
                                          struct weir_error *error);

#endif
