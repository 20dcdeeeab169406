/* The answers of a call of weir, and the possible reactions of its caller.
 *
 * Every call that can fail returns an enum weir_status; the detail (message, hint, the native code of the
 * database or the system) goes into the caller's struct weir_error, which may be NULL. One list gives the enum, the name
 * that every surface shows, the kind that decides about retrying, the HTTP status and the exit code of the command line.
 *
 * Threads: everything here is stateless and may be called from any thread.
 */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#if defined(__GNUC__)
#define WEIR_MUST_CHECK __attribute__((warn_unused_result))
#define WEIR_PRINTF(format_at, first) __attribute__((format(printf, format_at, first)))
#else
#define WEIR_MUST_CHECK
#define WEIR_PRINTF(format_at, first)
#endif

/* The kind of a failure: whether trying again can help, and the side of the fault. */
enum weir_error_kind {
    WEIR_KIND_FINE,        /* no failure */
    WEIR_KIND_TRANSIENT,   /* the same call may work later, nothing was changed */
    WEIR_KIND_PERMANENT,   /* the same call will fail again until its input or the data changes */
    WEIR_KIND_UNKNOWN,     /* the change may or may not have happened: read back before repeating */
    WEIR_KIND_AT_CAPACITY, /* refused to stay inside a limit; wait, then repeat */
    WEIR_KIND_PROGRAMMER   /* a call that breaks the contract of the header */
};

/*       enum                         kind         http exit name */
#define WEIR_STATUS_LIST(X)                                                                                                \
    X(WEIR_OK, FINE, 200, 0, "ok")                                                                                         \
    X(WEIR_FAILED, PERMANENT, 500, 1, "failed")                                                                            \
    X(WEIR_INVALID_ARGUMENT, PERMANENT, 400, 2, "invalid_argument")                                                        \
    X(WEIR_INVALID_CONFIG, PERMANENT, 400, 2, "invalid_config")                                                            \
    X(WEIR_INVALID_PARAMS, PERMANENT, 422, 2, "params_invalid")                                                            \
    X(WEIR_PARAMS_TOO_LARGE, PERMANENT, 413, 2, "params_too_large")                                                        \
    X(WEIR_INVALID_DEFINITION, PERMANENT, 422, 2, "definition_invalid")                                                    \
    X(WEIR_NOT_FOUND, PERMANENT, 404, 3, "not_found")                                                                      \
    X(WEIR_WORKSPACE_NOT_FOUND, PERMANENT, 404, 3, "workspace_not_found")                                                  \
    X(WEIR_WORKFLOW_NOT_FOUND, PERMANENT, 404, 3, "workflow_not_found")                                                    \
    X(WEIR_EXECUTION_NOT_FOUND, PERMANENT, 404, 3, "execution_not_found")                                                  \
    X(WEIR_PLAN_NOT_FOUND, PERMANENT, 404, 3, "plan_not_found")                                                            \
    X(WEIR_IDEMPOTENCY_KEY_REUSED, PERMANENT, 422, 4, "idempotency_key_reused")                                            \
    X(WEIR_CONFLICT, PERMANENT, 409, 4, "conflict")                                                                        \
    X(WEIR_ILLEGAL_STATE, PERMANENT, 409, 4, "illegal_state")                                                              \
    X(WEIR_STALE_FENCE, PERMANENT, 409, 4, "stale_fence")                                                                  \
    X(WEIR_QUEUE_FULL, AT_CAPACITY, 429, 4, "queue_full")                                                                  \
    X(WEIR_NOT_PERMITTED, PERMANENT, 403, 5, "not_permitted")                                                              \
    X(WEIR_WORKFLOW_NOT_YOURS, PERMANENT, 403, 5, "workflow_of_another_workspace")                                         \
    X(WEIR_STORE_UNREACHABLE, TRANSIENT, 503, 6, "store_unreachable")                                                      \
    X(WEIR_STORE_BUSY, TRANSIENT, 503, 6, "store_busy")                                                                    \
    X(WEIR_STORE_FULL, TRANSIENT, 503, 6, "store_full")                                                                    \
    X(WEIR_STORE_CORRUPT, PERMANENT, 503, 6, "store_corrupt")                                                              \
    X(WEIR_STORE_NOT_WEIR, PERMANENT, 503, 6, "store_not_weir")                                                            \
    X(WEIR_SCHEMA_MISSING, PERMANENT, 503, 6, "schema_missing")                                                            \
    X(WEIR_SCHEMA_OLDER, PERMANENT, 503, 6, "schema_older")                                                                \
    X(WEIR_SCHEMA_NEWER, PERMANENT, 503, 6, "schema_newer")                                                                \
    X(WEIR_ENGINE_UNREACHABLE, TRANSIENT, 503, 6, "engine_unreachable")                                                    \
    X(WEIR_COMMIT_UNKNOWN, UNKNOWN, 503, 6, "commit_unknown")                                                              \
    X(WEIR_TIMED_OUT, TRANSIENT, 504, 7, "timed_out")                                                                      \
    X(WEIR_STOPPED, TRANSIENT, 503, 1, "stopped")                                                                          \
    X(WEIR_OUT_OF_MEMORY, TRANSIENT, 503, 1, "out_of_memory")                                                              \
    X(WEIR_SYSTEM, TRANSIENT, 500, 1, "system_error")                                                                      \
    X(WEIR_MISUSE, PROGRAMMER, 500, 1, "misuse")                                                                           \
    X(WEIR_INTERRUPTED, TRANSIENT, 503, 130, "interrupted")                                                                \
    X(WEIR_WORKFLOW_DISABLED, PERMANENT, 409, 4, "workflow_disabled")

enum weir_status {
#define WEIR_STATUS_ENUM(id, kind, http, exit, name) id,
    WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
        WEIR_STATUS_COUNT
};

/* Longest message and hint, with the closing NUL. A longer text is cut at a character border. */
enum { WEIR_ERROR_MESSAGE_MAX = 512, WEIR_ERROR_HINT_MAX = 256 };

struct weir_error {
    enum weir_status status;
    int native;                           /* errno, or the extended result code of the database; 0 when there is none */
    char message[WEIR_ERROR_MESSAGE_MAX]; /* one line, no newline, never a secret */
    char hint[WEIR_ERROR_HINT_MAX];       /* the hint; "" when there is none */
};

/* The name of a status as every surface spells it: "workspace_not_found". Never NULL; a number that is no status counts as
 * WEIR_MISUSE, here and below. */
const char *weir_status_name(enum weir_status status);
enum weir_error_kind weir_status_kind(enum weir_status status);
/* The HTTP status code, and the exit code of the command line (0 to 7, 130). */
int weir_status_http(enum weir_status status);
int weir_status_exit(enum weir_status status);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
