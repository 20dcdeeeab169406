/* libweir: a durable queue of workflow executions for many workspaces, in your program.
 *
 *     weir_migrate()                                     make the store, or bring its schema up to this version
 *     weir_open() .. weir_enqueue() .. weir_close()      ask for executions, look at them
 *     weir_enqueue_sqlite(), weir_enqueue_pq()           the same inside your own database transaction
 *     weir_node_open() .. weir_node_start() or weir_node_step() .. weir_node_close()      run them here
 *
 * - Statuses: every call that can fail returns an enum weir_status, which must be looked at, and fills the caller's struct
 *   weir_error when one is given (weir/status.h). Outputs are untouched on failure.
 * - Structs of options and requests: zero unset members (= {.workspace = "acme"}); zero and NULL mean the default.
 * - Strings that go in are copied before the call returns, unless a comment differs; those that come out as `char **` are
 *   released with weir_free(). Text is UTF-8. Times are microseconds.
 * - Threads: a struct weir may be used by any number of threads at once; a struct weir_node: see there.
 * - fork(): neither survives it. A child process opens its own; an SQLite file only when its parent did not have it open at
 *   the fork, or after exec(), because SQLite's locks are the parent's (else WEIR_MISUSE).
 *
 * Link with `pkg-config --cflags --libs weir`. Until version 1.0 a new soname may change any of this.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/handler.h"
#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct weir;      /* an open store */
struct weir_node; /* takes executions from a store and runs them */
struct sqlite3;   /* of sqlite3.h */
struct pg_conn;   /* libpq-fe.h calls it PGconn */

/* The version of the library that runs, "0.1.0"; weir/status.h and this header are of the same one. */
const char *weir_version(void);
/* Releases a string that a function of this library gave out as `char **`. Takes NULL. */
void weir_free(void *memory);

/* --- events --- */

enum weir_event_level { WEIR_EVENT_DEBUG, WEIR_EVENT_INFO, WEIR_EVENT_WARN, WEIR_EVENT_ERROR };

/* Something happened that a log may want. Strings may be NULL and numbers 0 when the event has no such field. */
struct weir_event {
    enum weir_event_level level;
    const char *name;    /* "execution.dispatched"; docs/metrics.md lists all; never NULL */
    const char *message; /* a text; never NULL */
    const char *execution_id;
    const char *workspace;
    const char *workflow;
    const char *plan;
    const char *node;
    const char *group;
    const char *reason;
    const char *code;
    const char *error;
    int64_t fence;
    int64_t start_number;
    int64_t count;
    int64_t of; /* "count of of" */
    int64_t slots_used;
    int64_t slots_max;
    int64_t duration_us;
    int64_t age_us;
    int64_t slot_wait_us;  /* of a wait: while the workspace had no free slot */
    int64_t pause_wait_us; /* of a wait: while workspace, group or queue was paused after that */
    int64_t latency_us;    /* of a start: from the assignment */
};

/* Called in the thread in which it happens, also in the node's own: be quick, do not call the library, copy strings that
 * you keep.
 */
typedef void weir_event_function(void *context, const struct weir_event *event);

/* --- opening --- */

struct weir_options {
    int64_t deadline_us;           /* of every call but weir_wait(); 0 = 5 s */
    bool read_only;                /* for looking only */
    weir_event_function *on_event; /* NULL: no callback. For the store and for every node on it */
    void *event_context;
    /* The actor that `weir audit` shows for the acts of this handle: at most 255 bytes of UTF-8. NULL = the user of the
     * process, "library:NAME(UID)@HOST". WEIR_INVALID_ARGUMENT: too long. */
    const char *actor;
    /* A collector of OpenTelemetry that gets the spans of the executions that nodes on this handle run, by OTLP over HTTP:
     * "http://127.0.0.1:4318" (docs/tracing.md). NULL = none. A thread of its own sends them. */
    const char *otel_endpoint;
    /* The part of the executions without a trace context that is traced, up to 1; 0 = all, less = none. */
    double otel_sample;
};

/* Makes the store when it is missing and applies the migrations that it lacks; does nothing when all is there.
 * `url`: "sqlite:PATH", a path, or "postgres://..." (docs/operations.md). `ret_applied` (may be NULL) gets their number.
 * Safe beside running nodes, and in several processes at once. Errors: as weir_open(), but it makes a missing
 * schema and migrates an older one; WEIR_NOT_PERMITTED (a role that may not). */
WEIR_MUST_CHECK enum weir_status weir_migrate(const char *url, int *ret_applied, struct weir_error *error);

/* Opens a store that exists; `url` as above, or a server before the store: "https://HOST:PORT", "http://...", "unix:PATH",
 * several of one store with commas. The token of a server comes from the file that the variable WEIR_TOKEN_FILE names, else
 * from WEIR_TOKEN; WEIR_CA_FILE names the certificates of its authority. `options` may be NULL. Errors:
 * WEIR_INVALID_ARGUMENT (no such kind of URL), WEIR_STORE_UNREACHABLE (missing, a directory, no rights, no server),
 * WEIR_STORE_BUSY, WEIR_STORE_NOT_WEIR, WEIR_STORE_CORRUPT, WEIR_SCHEMA_MISSING, _OLDER (weir_migrate() mends both),
 * _NEWER; WEIR_INVALID_CONFIG (otel_endpoint is no URL, or libcurl is missing). */
WEIR_MUST_CHECK enum weir_status weir_open(const char *url, const struct weir_options *options, struct weir **ret_weir,
                                           struct weir_error *error);
/* Its nodes must be closed and no call may be under way. Takes NULL. */
void weir_close(struct weir *weir);

/* --- enqueue --- */

/* Length of an execution's id (UUIDv7 in text) with the closing NUL. */
enum { WEIR_ID_SIZE = 37 };

/* The effect of a request whose idempotency key is known. An execution that has started is never changed. */
enum weir_key_mode {
    WEIR_KEY_ONCE,      /* the id of the first one; nothing is enqueued */
    WEIR_KEY_REPLACE,   /* one that has not started is cancelled, and this one takes its place */
    WEIR_KEY_DEBOUNCE,  /* the same, and this one starts `debounce_us` later, within `debounce_most_us` of the first one */
    WEIR_KEY_ONE_ACTIVE /* the id of the last one while it has not ended; else this one is enqueued */
};

struct weir_request {
    const char *workspace;       /* the customer; must exist */
    const char *workflow;        /* its name; the newest version at this moment is bound to the execution */
    const char *params;          /* JSON object text, at most 1 MiB; NULL = {} */
    size_t params_length;        /* bytes; 0 = up to the NUL */
    const char *idempotency_key; /* the same key of a workspace gives the first one's id and enqueues nothing */
    const char *group;           /* of nodes that may run it; NULL = the workflow's `executor_group`, else "default" */
    int priority;                /* -100 to 100, higher goes first */
    int64_t run_at_us;           /* not before, since 1970; 0 = now */
    const char *id;              /* NULL = made here; your own UUIDv7 makes a call repeatable after WEIR_COMMIT_UNKNOWN */
    const char *traceparent;     /* the W3C trace context (version 00) that the execution belongs to; NULL = none */
    const char *business_key;    /* of your own, not unique, 1 to 255 bytes: what it is about, as order-17; NULL = none */
    const char *labels;          /* JSON object of at most 16 texts, like {"customer-tier":"gold"}; NULL = none */
    enum weir_key_mode key_mode; /* all but WEIR_KEY_ONCE need an idempotency key */
    int64_t debounce_us;         /* WEIR_KEY_DEBOUNCE: 1 ms to 1 day; parts of a millisecond may be cut */
    int64_t debounce_most_us;    /* the start is at most so long after the first request; 0 = 10 times debounce_us */
};

/* Enqueues one execution, durably, in a transaction of its own; `id` gets its id. A known idempotency key is no failure.
 * Errors: WEIR_WORKSPACE_NOT_FOUND, WEIR_WORKFLOW_NOT_FOUND, WEIR_WORKFLOW_NOT_YOURS, WEIR_NOT_FOUND (no such group: a node
 * that serves it makes it, or a published workflow that names it), WEIR_INVALID_PARAMS,
 * WEIR_PARAMS_TOO_LARGE, WEIR_INVALID_ARGUMENT, WEIR_IDEMPOTENCY_KEY_REUSED (other content under the same key),
 * WEIR_STORE_BUSY, _FULL, WEIR_COMMIT_UNKNOWN (repeat with the same `id` or key; with a mode of the key only an `id` of
 * your own makes the call repeatable). */
WEIR_MUST_CHECK enum weir_status weir_enqueue(struct weir *weir, const struct weir_request *request, char id[WEIR_ID_SIZE],
                                              struct weir_error *error);

struct weir_result {
    enum weir_status status; /* of this request alone */
    bool duplicate;          /* its idempotency key was known, and nothing was enqueued */
    bool replaced;           /* an execution of its key that had not started was cancelled */
    char id[WEIR_ID_SIZE];   /* when status is WEIR_OK */
    struct weir_error error;
};

/* Enqueues a set of at most 1,000,000 in one transaction: as durable, and many times faster. A refused request leaves the
 * others alone; WEIR_OK means that the set is committed, `results` (`count` of them) has the result of each. Errors of
 * the whole set: WEIR_INVALID_ARGUMENT (too many, or a request without workspace or workflow), WEIR_STORE_BUSY, _FULL,
 * WEIR_COMMIT_UNKNOWN. */
WEIR_MUST_CHECK enum weir_status weir_enqueue_many(struct weir *weir, const struct weir_request *requests, size_t count,
                                                   struct weir_result *results, struct weir_error *error);

/* Enqueues inside your own transaction: `database` is your connection to the file of a migrated store, with BEGIN done. The
 * execution exists when you commit, and never when you roll back; nodes see a commit at once. Begin with BEGIN IMMEDIATE
 * when other writers are about, as with every write in SQLite. Your program and libweir must use the same SQLite library.
 * Errors: as weir_enqueue(); WEIR_MISUSE without an open transaction. A refusal leaves your transaction as it was. */
WEIR_MUST_CHECK enum weir_status weir_enqueue_sqlite(struct sqlite3 *database, const struct weir_request *request,
                                                     char id[WEIR_ID_SIZE], struct weir_error *error);

/* The same in PostgreSQL: `connection` is your own, with BEGIN done and client_encoding UTF8; its role needs the right to
 * execute try_enqueue() of the store (docs/sql.md). `schema` NULL = "weir". It may wait for another open transaction that
 * enqueues under the very same idempotency key, for no other caller. A refusal leaves your transaction as it was; what the
 * server itself refuses (WEIR_STORE_BUSY, WEIR_NOT_PERMITTED, WEIR_SCHEMA_MISSING ...) has failed it: roll back. Errors: as
 * weir_enqueue(); WEIR_MISUSE without an open transaction, in pipeline mode, or with another encoding; WEIR_TIMED_OUT when
 * no answer came within 30 s: close the connection then. */
WEIR_MUST_CHECK enum weir_status weir_enqueue_pq(struct pg_conn *connection, const char *schema,
                                                 const struct weir_request *request, char id[WEIR_ID_SIZE],
                                                 struct weir_error *error);

/* --- workflows, workspaces, plans: data, changed without a restart --- */

struct weir_published {
    int version;
    bool unchanged; /* the newest version has the same text: no new one was made */
    /* The newest of the older versions with the same text as a version that was made now; 0 = none. Not 0 means that the
     * definition goes back: after the return to an earlier release, or because two programs publish different ones. */
    int earlier_version;
};

/* Checks and publishes a workflow definition (YAML or JSON, `length` bytes; 0 = up to the NUL). `source` names it in
 * messages (NULL = "workflow"). `ret_published` may be NULL. Versions never change; executions keep the one they were
 * enqueued with. A version keeps the YAML that made it; an equal definition with other comments makes no new version.
 * Errors: WEIR_INVALID_DEFINITION and WEIR_WORKSPACE_NOT_FOUND (its owner), both with source, line and column. */
WEIR_MUST_CHECK enum weir_status weir_publish_workflow(struct weir *weir, const char *text, size_t length,
                                                       const char *source, struct weir_published *ret_published,
                                                       struct weir_error *error);
/* Makes or changes a workspace. `plan` NULL = as it is ("free" for a new one). `max_concurrent`: its own limit; 0 = as it
 * is, -1 = the limit of the plan. Errors: WEIR_PLAN_NOT_FOUND, WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_set_workspace(struct weir *weir, const char *name, const char *plan,
                                                    int64_t max_concurrent, struct weir_error *error);
/* `max_pending` of weir_set_max_pending(): the limit of the plan. */
#define WEIR_PENDING_OF_PLAN (-1)
/* Changes the limit of PENDING executions of a workspace: beyond it an enqueue is refused with WEIR_QUEUE_FULL. 0 = no
 * limit. Errors: WEIR_WORKSPACE_NOT_FOUND, WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_set_max_pending(struct weir *weir, const char *name, int64_t max_pending,
                                                      struct weir_error *error);
/* Nothing more of the workspace is started until it is resumed (`paused` false); running executions go on. Errors:
 * WEIR_WORKSPACE_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status weir_pause_workspace(struct weir *weir, const char *name, bool paused,
                                                      struct weir_error *error);
/* Gives a workspace another name. It keeps all that belongs to it: limits, pause, executions, keys, schedules, hooks, and
 * the scopes of tokens. Executions that start later run under the new name. The old name is free at once, and a request for
 * it is refused as for an unknown one. `reason` goes on record; NULL = none. Errors: WEIR_WORKSPACE_NOT_FOUND,
 * WEIR_CONFLICT (another workspace has the name), WEIR_INVALID_ARGUMENT, WEIR_ILLEGAL_STATE (executions run on Temporal,
 * and their workflow ids may have the old name). */
WEIR_MUST_CHECK enum weir_status weir_rename_workspace(struct weir *weir, const char *name, const char *new_name,
                                                       const char *reason, struct weir_error *error);
struct weir_workspace_deletion {
    const char *name;
    bool fail_waiting;  /* PENDING and WAITING executions end FAILED, code "workspace_deleted"; false: they make the call
                           refuse */
    bool erase;         /* removes its history with params, outputs, events and keys, and its own workflows */
    const char *reason; /* goes on record; NULL = none */
};
struct weir_deleted {
    size_t failed; /* PENDING and WAITING executions that were ended */
    size_t erased; /* ended executions that were removed */
};
/* Deletes a workspace with its limit and its pause. Later requests for it are refused as for an unknown one; one that is
 * made with the same name is another one. Its history stays, without the name, until it is erased or its retention is over.
 * A call that was interrupted may be repeated; with `erase` also when the workspace is gone already. `ret_deleted` may be
 * NULL. Errors: WEIR_WORKSPACE_NOT_FOUND, WEIR_ILLEGAL_STATE (executions run, or wait without `fail_waiting`: nothing was
 * changed), WEIR_STORE_BUSY. */
WEIR_MUST_CHECK enum weir_status weir_delete_workspace(struct weir *weir, const struct weir_workspace_deletion *deletion,
                                                       struct weir_deleted *ret_deleted, struct weir_error *error);
/* A disabled workflow takes no new executions and no retries (WEIR_WORKFLOW_DISABLED), in versions published later neither;
 * what is in the queue goes on. `workspace`: its owner; NULL = the workflow of all workspaces. Errors:
 * WEIR_WORKFLOW_NOT_FOUND, WEIR_WORKSPACE_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status weir_disable_workflow(struct weir *weir, const char *name, const char *workspace,
                                                       bool disabled, struct weir_error *error);
/* The history keeps its name; publishing it again makes its next version. Errors: WEIR_ILLEGAL_STATE (executions of it have
 * not ended), and as weir_disable_workflow(). */
WEIR_MUST_CHECK enum weir_status weir_delete_workflow(struct weir *weir, const char *name, const char *workspace,
                                                      struct weir_error *error);
/* Makes or changes a plan. `max_concurrent`: executions of a workspace at once; `weight`: its share when nodes are busy. 0
 * = as it is; a new plan needs max_concurrent. Errors: WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_set_plan(struct weir *weir, const char *name, int64_t max_concurrent, int weight,
                                               struct weir_error *error);
/* Changes the same limit of a plan, for each of its workspaces without a limit of its own; 0 = no limit, as of a new plan.
 * Errors: WEIR_PLAN_NOT_FOUND, WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_set_plan_max_pending(struct weir *weir, const char *name, int64_t max_pending,
                                                           struct weir_error *error);

/* --- looking at executions --- */

/* One execution with params, steps, earlier_attempts (runs of a step before its last one) and events, as JSON text with the
 * keys of the view `executions`. `id` may be its first characters, 6 or more. Errors: WEIR_EXECUTION_NOT_FOUND,
 * WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_show(struct weir *weir, const char *id, char **ret_json, struct weir_error *error);
/* Why it is not running, as JSON text: one "pending_reason" of a closed list with the numbers behind it. Errors likewise.
 */
WEIR_MUST_CHECK enum weir_status weir_why(struct weir *weir, const char *id, char **ret_json, struct weir_error *error);

enum weir_end { WEIR_END_COMPLETED, WEIR_END_FAILED, WEIR_END_CANCELLED };

/* Waits until the execution has ended: WEIR_OK, at any end. `ret_end` and `ret_json` (as weir_show()) may be NULL.
 * `timeout_us` < 0 waits for ever, 0 only looks. Errors: WEIR_TIMED_OUT (it goes on), and as weir_show(). */
WEIR_MUST_CHECK enum weir_status weir_wait(struct weir *weir, const char *id, int64_t timeout_us, enum weir_end *ret_end,
                                           char **ret_json, struct weir_error *error);
/* A PENDING or WAITING execution ends at once; a running one is stopped by its node, soon. `reason` (may be NULL) goes on
 * record. Errors: WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE (it has ended). */
WEIR_MUST_CHECK enum weir_status weir_cancel(struct weir *weir, const char *id, const char *reason,
                                             struct weir_error *error);

/* Data for a step that waits for a signal of this name (docs/definitions.md). */
struct weir_signal_request {
    const char *name;
    const char *data;   /* JSON text of at most 64 KiB; NULL = null */
    const char *key;    /* the same name and key again is the same signal, however often it is sent; NULL = none */
    const char *reason; /* goes on record; NULL = none */
};
/* Sends a signal to an execution, which keeps it until a step consumes it: the wait may begin later. *ret_number (may be
 * NULL) is its number among the signals of the execution, with a known key that of the first one. Errors:
 * WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE (it has ended, or keeps 1,000 signals of the name or its share of 1 MiB of
 * data), WEIR_CONFLICT (its workflow runs on Temporal), WEIR_IDEMPOTENCY_KEY_REUSED (the key was used with other data),
 * WEIR_INVALID_ARGUMENT (also: none of its steps waits for the name). */
WEIR_MUST_CHECK enum weir_status weir_signal(struct weir *weir, const char *id, const struct weir_signal_request *signal,
                                             int64_t *ret_number, struct weir_error *error);

/* --- lists, and acts on many executions --- */

/* Bits of weir_filter.states. */
enum {
    WEIR_STATE_PENDING = 1,
    WEIR_STATE_CLAIMED = 2,
    WEIR_STATE_DISPATCHED = 4,
    WEIR_STATE_WAITING = 8, /* of a sleep or of the next attempt of a step; it uses no slot */
    WEIR_STATE_COMPLETED = 16,
    WEIR_STATE_FAILED = 32,
    WEIR_STATE_CANCELLED = 64,
    WEIR_STATE_ALL = 127
};

/* A label of an execution, as a condition. */
struct weir_label {
    const char *name;
    const char *value;
};
enum { WEIR_FILTER_LABELS_MAX = 16 };

/* The conditions that an execution must meet, all of them. NULL or 0 = no condition. Times are microseconds since 1970. */
struct weir_filter {
    const char *id; /* whole, or its first characters, 6 or more, if it is the only condition */
    const char *workspace;
    const char *workflow;
    const char *group;
    unsigned states;         /* WEIR_STATE_... */
    const char *reason;      /* "pending_reason" as weir_why() has it */
    const char *waiting_for; /* of WAITING ones: "sleep", "retry", "signal", "callback", "approval", "child" */
    const char *error_code;
    const char *idempotency_key;
    int64_t created_since_us;
    int64_t created_before_us;
    int64_t finished_before_us;
    const char *business_key;        /* this one */
    const char *business_key_prefix; /* or all that begin so; not beside business_key */
    const struct weir_label *labels; /* it has all of them */
    size_t label_count;              /* at most WEIR_FILTER_LABELS_MAX */
};

enum weir_list_kind {
    WEIR_LIST_EXECUTIONS, /* newest first */
    WEIR_LIST_EVENTS,     /* of the execution filter.id */
    WEIR_LIST_STEPS,      /* the same */
    WEIR_LIST_WORKSPACES, /* with plan, cap, slots in use, numbers of PENDING and WAITING executions */
    WEIR_LIST_PLANS,
    WEIR_LIST_WORKFLOWS, /* the newest versions; with `name` all of it, with "source": their YAML, null when it was JSON */
    WEIR_LIST_NODES,     /* also stopped and dead ones; the key "state" tells them apart */
    WEIR_LIST_LOCKS,
    WEIR_LIST_GROUPS,
    WEIR_LIST_ACTIONS /* of the execution filter.id, whose workflow has states; oldest first */
};

struct weir_list_options {
    enum weir_list_kind kind;
    struct weir_filter filter; /* of executions; of events and steps `id` alone */
    const char *name;          /* one workspace, plan, workflow, node or lock; NULL = all */
    const char *cursor;        /* "next_cursor" of the page before; NULL = the first page */
    size_t limit;              /* rows of a page, at most 1000; 0 = 50 */
    bool count;                /* of executions: count the matches, at most 100,000 */
};

/* One page of a list as JSON text: {"items": [...], "next_cursor": text or null}, with `count` also "count" and
 * "count_is_exact". The keys of a row are the columns of the view of that name (docs/sql.md). A cursor neither misses nor
 * repeats a row when others are inserted meanwhile. Errors: WEIR_INVALID_ARGUMENT (kind, limit, cursor, a condition). */
WEIR_MUST_CHECK enum weir_status weir_list(struct weir *weir, const struct weir_list_options *options, char **ret_json,
                                           struct weir_error *error);
/* The FAILED executions that nobody has retried or dismissed and that meet the conditions (NULL = all), in groups of error
 * code, workflow and workspace, as JSON text, the largest first: {"items": [{"error_code", "workflow", "workspace",
 * "count", "first_at", "last_at", "sample_id", "sample_error"}], "executions_read", "is_whole"}. The newest 10,000 are
 * read; "is_whole" is false where there are more. Errors: WEIR_INVALID_ARGUMENT (a condition). */
WEIR_MUST_CHECK enum weir_status weir_failures(struct weir *weir, const struct weir_filter *filter, char **ret_json,
                                               struct weir_error *error);
/* The row of one workspace as WEIR_LIST_WORKSPACES has it: its cap, slots in use, PENDING and WAITING ones, and
 * "oldest_pending_age_us": how long the oldest of the next executions of its lanes waits, null if none could run. Errors:
 * WEIR_WORKSPACE_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status weir_usage(struct weir *weir, const char *workspace, char **ret_json,
                                            struct weir_error *error);
/* The result of an execution that is COMPLETED, as JSON text: the output of its last step, or the result that
 * weir_complete() or Temporal reported; "null" if there is none. Errors: WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE (it
 * has not ended, or not as COMPLETED; the message has its state and its error). */
WEIR_MUST_CHECK enum weir_status weir_read_result(struct weir *weir, const char *id, char **ret_json,
                                                  struct weir_error *error);

enum weir_act {
    WEIR_ACT_CANCEL,  /* as weir_cancel() */
    WEIR_ACT_RETRY,   /* a FAILED or CANCELLED one is enqueued again, as a new execution; the old row stays */
    WEIR_ACT_RELEASE, /* a PENDING one may start at once, before its run_at or the end of its back-off */
    WEIR_ACT_PURGE,   /* an ended one is removed, with its steps, events and params */
    WEIR_ACT_WAKE,    /* its steps that sleep or wait for their next attempt go on at once: weir_wake_execution() */
    WEIR_ACT_DISMISS  /* a FAILED one is dealt with: `weir failures` counts it no more */
};

struct weir_acted {
    size_t matched;
    size_t changed;
    size_t refused;            /* matched, but not in a state that allows the act */
    char new_id[WEIR_ID_SIZE]; /* of WEIR_ACT_RETRY with filter.id: the new execution */
};

/* Does the act to every execution that matches, in sets with one transaction each: after a failure the acts of the sets
 * before stay, and a repeated call goes on. Executions that are made during the call do not match. The filter must have a
 * condition; `states` = WEIR_STATE_ALL means all. `reason` (may be NULL) goes on record. `ret_acted` may be NULL. Errors:
 * WEIR_INVALID_ARGUMENT (act, no condition, a condition); with filter.id also WEIR_EXECUTION_NOT_FOUND and
 * WEIR_ILLEGAL_STATE. */
WEIR_MUST_CHECK enum weir_status weir_act(struct weir *weir, enum weir_act act, const struct weir_filter *filter,
                                          const char *reason, struct weir_acted *ret_acted, struct weir_error *error);

/* How a retry begins. */
struct weir_retry_options {
    int keep_finished; /* 1: the finished steps are kept with their outputs, and the others run */
    const char *from;  /* the same, but this step and all that need it run again; NULL = none of the finished ones */
};
/* Enqueues a FAILED or CANCELLED execution again, as a new one; the old row stays. `options` NULL: all steps run again.
 * `reason` (may be NULL) goes on record. `ret_new_id` (may be NULL) has WEIR_ID_SIZE bytes. Errors:
 * WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE, WEIR_CONFLICT (retried already), WEIR_WORKSPACE_NOT_FOUND,
 * WEIR_WORKFLOW_DISABLED, WEIR_INVALID_ARGUMENT (its workflow has no steps, or not this one). */
WEIR_MUST_CHECK enum weir_status weir_retry_execution(struct weir *weir, const char *id,
                                                      const struct weir_retry_options *options, const char *reason,
                                                      char *ret_new_id, struct weir_error *error);

/* Ends the waits of an execution before their time: steps that sleep are finished, and steps that wait for their next
 * attempt begin it. `waiting_for`: only waits of this kind, "sleep" or "retry"; or "signal", "callback" or "child" for
 * waits with a timeout, which end as if that had come; NULL = sleeps and waits for the next attempt. A wait for an approval
 * is ended by weir_decide() alone. Each wait is ended once. `reason` (may be NULL) goes on record. Errors:
 * WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE (no such wait, or woken already), WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_wake_execution(struct weir *weir, const char *id, const char *waiting_for,
                                                     const char *reason, struct weir_error *error);

/* Lets a PENDING or WAITING execution go on with this version of its workflow. Each of its steps on record must be in the
 * version, of the same kind and behind none that has not ended. `reason` (may be NULL) goes on record. Errors:
 * WEIR_EXECUTION_NOT_FOUND, WEIR_WORKFLOW_NOT_FOUND (no such version), WEIR_ILLEGAL_STATE (a node holds it, it has ended,
 * is of Temporal, has this version, or its steps do not fit: the message names them), WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_migrate_execution(struct weir *weir, const char *id, int to_version,
                                                        const char *reason, struct weir_error *error);

/* The decision for a step that waits for an approval. */
struct weir_decision {
    const char *step;    /* NULL: the only step of the execution that waits for one */
    int approved;        /* 0: rejected */
    const char *comment; /* for the output of the step, at most 2000 bytes; NULL = none */
    const char *reason;  /* goes on record; NULL = none */
};
/* Decides for a step of the kind `approve`: {"approved", "by", "comment", "at"} becomes its output. The actor is this
 * process
 * ("PROGRAM:NAME(UID)@HOST"; over HTTP the token), which must be one of `by` of the step. Errors: WEIR_EXECUTION_NOT_FOUND,
 * WEIR_ILLEGAL_STATE (no step waits, several do, or it was decided already), WEIR_NOT_PERMITTED, WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_decide(struct weir *weir, const char *id, const struct weir_decision *decision,
                                             struct weir_error *error);

/* The report of a function that an `http` step with `callback` has called. */
struct weir_callback {
    const char *token;      /* of the header Weir-Callback of the request */
    const char *output;     /* JSON text of at most 63 KiB; NULL = null. Not for a failure */
    const char *error_code; /* of a failure, 1 to 64 bytes; NULL = the step is done */
    const char *error;      /* its text, at most 4096 bytes; NULL = none */
    int is_final;           /* 1: the failure allows no further attempt */
};
/* Reports the end of the attempt that the token names. It counts while that attempt is the last one and its time is not
 * over. The same report again is WEIR_OK. `ret_id` (may be NULL) has WEIR_ID_SIZE bytes for the execution. Errors:
 * WEIR_NOT_FOUND (the token is wrong, or its attempt is over), WEIR_CONFLICT (another report came first),
 * WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status weir_call_back(struct weir *weir, const struct weir_callback *callback, char *ret_id,
                                                struct weir_error *error);

/* The changes of a person in an execution with states. */
struct weir_update {
    const char *state;     /* that follows now; NULL: it stays */
    const char *variables; /* a JSON object of values; NULL = none */
    const char *reason;    /* goes on record; NULL = none */
    const char *if_state;  /* only while this is the present state, so that a repeated update is refused; NULL = any */
};
/* Moves an execution whose workflow has states to another state, and sets variables, while no node holds it. `ret_action`
 * (may be NULL): the number of the update in the history of actions. Errors: WEIR_EXECUTION_NOT_FOUND, WEIR_ILLEGAL_STATE
 * (it has ended, or its workflow has no states), WEIR_CONFLICT (a node holds it, or it is in another state than
 * `if_state`), WEIR_INVALID_ARGUMENT (state, variable, type). */
WEIR_MUST_CHECK enum weir_status weir_update_execution(struct weir *weir, const char *id, const struct weir_update *update,
                                                       int *ret_action, struct weir_error *error);

/* How an execution ended. */
struct weir_outcome {
    enum weir_end end;
    const char *result;     /* JSON text, at most 1 MiB; NULL = none */
    const char *error_code; /* of WEIR_END_FAILED: at most 64 bytes; NULL = none */
    const char *error;      /* a text; NULL = none */
    const char *run_id;     /* of the caller's run, or the first of its chain: another run's end is refused. NULL = any */
    int64_t fence;          /* as weir_show() has it: the execution must not have changed hands since. 0 = any */
};

/* For the worker of a workflow that runs on Temporal: reports the end before weir has seen it, so that the slot is free at
 * once. Call it as the workflow's last act; it may come before weir knows of the start. `outcome` NULL = completed without
 * a result. Later reports of the service change nothing; the same end again is WEIR_OK. Errors:
 * WEIR_EXECUTION_NOT_FOUND; WEIR_ILLEGAL_STATE (never started, ended in another way, or the workflow's steps run in a
 * node); WEIR_CONFLICT (another run or fence); WEIR_STORE_BUSY (its run is not on record yet: repeat);
 * WEIR_INVALID_ARGUMENT. `id` may be the workflow id as well. */
WEIR_MUST_CHECK enum weir_status weir_complete(struct weir *weir, const char *id, const struct weir_outcome *outcome,
                                               struct weir_error *error);

/* The store's and this process's metrics as Prometheus text (docs/metrics.md). */
WEIR_MUST_CHECK enum weir_status weir_metrics(struct weir *weir, char **ret_text, struct weir_error *error);

/* --- a node --- */

/* A node is driven in one of two ways: weir_node_start() gives it threads of its own, or you call weir_node_step() in your
 * own loop, handlers included, from one thread at a time. weir_node_wake(), _pause(), _resume(), _register_handler(),
 * _unregister_handler() and _begin_stop() may be called from any thread, _wake() from a signal handler too. */
struct weir_node_options {
    const char *name;  /* 1 to 128 bytes; NULL = host name and process id, then the group unless it is "default" */
    const char *group; /* the group of its executions, 1 to 64 bytes; NULL = "default" */
    const struct weir_handler *handlers; /* copied; their names and contexts must outlive the node */
    size_t handler_count;
    size_t handler_threads;             /* with weir_node_start(); 0 = one more than there are processors */
    size_t max_running;                 /* executions at once; 0 = 1000; on a server tasks, 0 = 64, at most 1000 */
    size_t max_parallel_steps;          /* of one execution; 0 = 32 */
    bool allow_exec;                    /* `exec` steps are refused unless this is set */
    bool exec_unguarded;                /* their processes may signal this process and its keeper */
    const char *const *exec_allow_list; /* programs that they may run, NULL-terminated; NULL = all */
    const char *const *env_from_list;   /* variables that `env_from` of a step may name, NULL-terminated; NULL = none */
    /* Hosts and networks that `http` steps may reach, NULL-terminated; {"*", NULL} = all public addresses; NULL = `http`
     * steps are refused. docs/definitions.md has the forms of an entry. */
    const char *const *http_allow_list;
    const char *secrets_directory; /* one file for each secret; NULL = none. docs/definitions.md has the other places */
    int64_t lease_us;              /* silent for longer, it is dead and other nodes take over; 0 = 6 s */
    int64_t stop_grace_us;         /* a stopping node waits this long for running executions; 0 = 25 s */
    int64_t poll_interval_us;      /* the base under wake-ups; 0 = 5 s */
    int64_t stuck_after_us;        /* an event names executions in this process that run longer; 0 = 60 s */
    int64_t retention_us;          /* how long ended executions are kept; 0 = 14 days, -1 = for ever */
    int starts_max;                /* starts of an execution; 0 = 3 */
    const struct weir_temporal *temporal; /* NULL = executions run in this process; else as workflows on this service */
    const char *language; /* of this program, for `weir worker list`, like "python 3.11", at most 64 bytes; NULL = C */
};

/* A Temporal service (docs/temporal.md). A node on it runs the workflows with a `temporal:` section; it has no handlers and
 * no `exec` steps. A program may have nodes of both kinds, each with a group of its own, and the workflows'
 * `executor_group` assigns executions to nodes. All strings are copied. */
struct weir_temporal {
    const char *address;          /* "host:port", several with ','; NULL = "127.0.0.1:7233" */
    const char *namespace_name;   /* NULL = "default" */
    const char *task_queue;       /* of workflows that name none; NULL: those are put back */
    const char *encoding;         /* in the metadata of the input payload; NULL = "json/plain" */
    bool tls;                     /* implied by the five that follow */
    const char *ca_file;          /* PEM; NULL = the system's authorities */
    const char *certificate_file; /* PEM, with key_file: for a service that wants one of its clients */
    const char *key_file;
    const char *server_name;      /* verified instead of the address's host */
    const char *api_key_file;     /* sent as a bearer token. The files are read again when they change */
    const char *codec_url;        /* of a payload codec, "http(s)://..."; NULL = none */
    const char *codec_token_file; /* sent to it as a bearer token; NULL = none */
    const char *codec_ca_file;    /* PEM, for it; NULL = the system's authorities */
    size_t starts_max;            /* starts under way at once; 0 = 64 */
    size_t waits_max;             /* workflows with a call that waits for their end; 0 = 120, SIZE_MAX = none */
};

/* Makes a node and registers it in the store. On a server it is a worker over HTTP (docs/workers.md), which runs handlers
 * alone, at most 64 of them: of the options name, group, handlers, handler_threads, max_running and stop_grace_us count.
 * Unless it is one on Temporal, it forks a small process that watches over steps and expressions; so open the node before
 * your program starts threads. `weir` must outlive it; `options` may be NULL. Errors: WEIR_INVALID_ARGUMENT (a name, a
 * handler's name twice, or handlers on Temporal), WEIR_INVALID_CONFIG (what is wrong with `temporal`; whether the service
 * can be reached is for later, and for weir_why()), WEIR_SYSTEM, and the store's. */
WEIR_MUST_CHECK enum weir_status weir_node_open(struct weir *weir, const struct weir_node_options *options,
                                                struct weir_node **ret_node, struct weir_error *error);
/* Runs the node in threads of its own from now on; returns at once. Errors: WEIR_MISUSE (started already), WEIR_SYSTEM (no
 * thread could be had; then none runs). */
WEIR_MUST_CHECK enum weir_status weir_node_start(struct weir_node *node, struct weir_error *error);

/* Does the due work and never waits (but for handlers, which run inside). `ret_wait_us` gets how long it may be until the
 * next call unless weir_node_fd() becomes readable before; -1 = only then. Failures of the store are events and tried
 * again; an error means that the node is not healthy and should be closed: WEIR_STOPPED, WEIR_STALE_FENCE (its lease was
 * lost); WEIR_MISUSE: it is on a server. */
WEIR_MUST_CHECK enum weir_status weir_node_step(struct weir_node *node, int64_t *ret_wait_us, struct weir_error *error);
/* For poll(): readable when weir_node_step() has something to do. Owned by the node, never read it yourself. */
int weir_node_fd(const struct weir_node *node);

/* The node has one more handler from now on: executions that wait for it start, here or on another node with all their
 * handlers. The handler is copied; its context must outlive the node. Any thread, also from inside of a handler. The store
 * learns of it with the next heartbeat, which is sent at once. Errors: WEIR_INVALID_ARGUMENT (no function, or a bad name),
 * WEIR_CONFLICT (the node has a handler of this name), WEIR_MISUSE (a node on Temporal), WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status weir_node_register_handler(struct weir_node *node, const struct weir_handler *handler,
                                                            struct weir_error *error);
/* The reverse. Executions that have started go on, and may call the function until they end, so function and context must
 * stay. Nothing that needs it starts here any more: an execution that was assigned already goes to another node, or waits
 * as `no_worker`. Threads as above. Errors: WEIR_NOT_FOUND (no handler of this name), WEIR_MISUSE, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status weir_node_unregister_handler(struct weir_node *node, const char *name,
                                                              struct weir_error *error);

/* Look for work now. Not needed after an enqueue: nodes see that by themselves. */
void weir_node_wake(struct weir_node *node);
/* No new executions until weir_node_resume(); running ones go on. `weir node list` shows it, and `weir why` names
 * executions that wait for it. */
void weir_node_pause(struct weir_node *node);
void weir_node_resume(struct weir_node *node);
/* WEIR_OK, or why the node cannot go on (as weir_node_step()); for a health check. On a server: the last refusal of a claim
 * that no repetition mends, WEIR_NOT_PERMITTED for a token, WEIR_NOT_FOUND for the group. */
WEIR_MUST_CHECK enum weir_status weir_node_health(struct weir_node *node, struct weir_error *error);

/* Takes nothing more, gives back what has not started, and awaits running ones for `grace_us` (< 0: stop_grace_us, which is
 * the most); then the remaining ones are interrupted and given back for other nodes. Returns when all of it is on record.
 * `ret_graceful` (may be NULL) is true when nothing had to be interrupted. Without weir_node_start() it steps the node
 * itself. WEIR_TIMED_OUT when a handler goes on after its cancellation: its execution stays with this node until
 * the process ends or the lease does, so that no other node runs it meanwhile. */
WEIR_MUST_CHECK enum weir_status weir_node_stop(struct weir_node *node, int64_t grace_us, bool *ret_graceful,
                                                struct weir_error *error);
/* The same for a loop of your own: begins and returns at once; `interrupt` awaits nothing, and may follow a gentle stop. */
void weir_node_begin_stop(struct weir_node *node, bool interrupt);
bool weir_node_is_stopped(struct weir_node *node);
/* Without a stop before: as if the process had died, others take over when the lease ends; but handlers that run are told
 * so (weir_call_cancelled()) and awaited, however long they take. Never from inside of a handler. Takes NULL. */
void weir_node_close(struct weir_node *node);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
