/* Hooks: the end of an execution enqueues an execution of another workflow.
 *
 * A hook names ends (COMPLETED, FAILED, CANCELLED), optionally a workspace and a workflow, and the workflow that it starts
 * in a workspace. The transaction that ends an execution inserts one event for each hook that fits into the outbox. The
 * node that schedules enqueues an execution for each event, whose params are the event, and then removes the event. The
 * idempotency key of the execution names hook and ended execution, so a repeated enqueue makes no second one. Executions of
 * a workflow that a hook starts cause no events, but executions that these enqueue do. docs/design/hooks.md has the
 * reasons. store/store.h includes this file.
 */
#ifndef WEIR_STORE_HOOKS_H
#define WEIR_STORE_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "queue/item.h"
#include "queue/limits.h"
#include "weir/status.h"

struct store;

enum {
    HOOK_NAME_MAX = 64,           /* bytes; [a-z0-9][a-z0-9_-]* */
    HOOKS_MOST = 100,             /* of a store */
    HOOK_ENDS_MOST = 3,           /* of a hook: the final states */
    HOOK_EVENTS_READ_MOST = 1000, /* of one call */
    HOOK_EVENTS_MOST = 10000, /* that wait, of one hook; beyond it the oldest are dropped, those of one instant together */
    HOOK_EVENTS_TRIM_MOST = 1000, /* of one call */
    HOOK_BACKLOG_MOST =
        10000 /* PENDING and WAITING executions in the workspace to start in; with more of them events wait */
};
/* Of the idempotency keys of executions that hooks start: hook/NAME/ID. */
#define HOOK_KEY_PREFIX "hook/"
/* An event that could not be enqueued for this long is dropped. */
#define HOOK_EVENTS_KEEP_US (86400 * MICROSECONDS_PER_SECOND)
/* After a refused enqueue the events of the hook wait this long. */
#define HOOK_RETRY_US (10 * MICROSECONDS_PER_SECOND)

struct hook_request {
    const char *name;
    enum item_state on[HOOK_ENDS_MOST]; /* final states, each at most once */
    size_t on_count;
    const char *workspace; /* of the executions; NULL = of all */
    const char *workflow;  /* of the executions; NULL = of all */
    const char *start_workspace;
    const char *start_workflow;
};
/* WEIR_INVALID_ARGUMENT: not a name of a hook. */
WEIR_MUST_CHECK enum weir_status hook_name_check(const char *name, struct weir_error *error);
/* The final state of this name in any case ("failed"). False: it is none. */
bool hook_end_parse(const char *name, enum item_state *ret_state);
/* Makes or changes a hook. A changed one keeps its waiting events, which start its new workflow, and stays paused. The
 * workflow to start may be published later. *ret_is_new may be NULL. WEIR_INVALID_ARGUMENT; WEIR_WORKSPACE_NOT_FOUND;
 * WEIR_ILLEGAL_STATE: the store has HOOKS_MOST. */
WEIR_MUST_CHECK enum weir_status store_hook_set(struct store *store, const struct hook_request *request, bool *ret_is_new,
                                                struct weir_error *error);
/* The events of a paused hook wait. WEIR_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status store_hook_pause(struct store *store, const char *name, bool paused,
                                                  struct weir_error *error);
/* Removes the hook and its waiting events. WEIR_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status store_hook_delete(struct store *store, const char *name, struct weir_error *error);

/* --- the duty of the node that schedules --- */

struct hook_event {
    int64_t number;
    int64_t hook_id;
    const char *hook;
    const char *workspace; /* where to start; NULL: it was deleted */
    const char *workflow;
    const char *params;      /* the event as a JSON object */
    const char *traceparent; /* of the ended execution; NULL: it has none, or was purged */
    bool is_backlogged;      /* HOOK_BACKLOG_MOST executions wait there, without those of the last moment */
    char id[UUID_TEXT_MAX];  /* of the ended execution */
};
struct hook_events {
    struct hook_event *events; /* of hooks that are neither paused nor waiting for a retry; the oldest of each hook */
    size_t count;
    bool has_events; /* there is an event, perhaps of a hook that waits */
};
/* In the arena. At most HOOK_EVENTS_READ_MOST, in equal shares of the hooks. */
WEIR_MUST_CHECK enum weir_status store_read_hook_events(struct store *store, struct arena *arena,
                                                        struct hook_events *ret_events, struct weir_error *error);

/* The outcome of an event. */
struct hook_outcome {
    int64_t number;
    int64_t hook_id;
    const char *error_code; /* NULL: the event is removed. Else all events of the hook wait */
    const char *error;
    bool is_dropped; /* without an error code: no execution was enqueued, and the hook counts the event */
};
/* At most HOOK_EVENTS_READ_MOST. A hook with several outcomes keeps the first error, also when others succeeded. */
WEIR_MUST_CHECK enum weir_status store_settle_hook_events(struct store *store, const struct hook_outcome *outcomes,
                                                          size_t count, struct weir_error *error);
/* Drops events that are older than HOOK_EVENTS_KEEP_US, or more than HOOK_EVENTS_MOST of a hook, and counts them in the
 * hook. At most HOOK_EVENTS_TRIM_MOST; *ret_removed fewer than that: none are left. */
WEIR_MUST_CHECK enum weir_status store_trim_hook_events(struct store *store, int64_t *ret_removed,
                                                        struct weir_error *error);

#endif
