/* A node: takes work from a store and gives it to an engine.
 *
 * Four loops, each a plain step function that does the due work, never waits, and returns the time of the next call (boot
 * clock, microseconds; TIME_NEVER = only when woken):
 *
 *   dispatch   free capacity -> assignment -> start   (dispatcher.h, scheduling.h, inbox.h, starter.h)
 *   record     reports of the engine -> store         (recorder.h)
 *   heartbeat  lease, orders of operators             (heartbeat.h)
 *   duties     recovery, stuck watch, retention       (maintenance.h)
 *
 * Each loop has a store handle of its own. node_run_threads() gives each a thread. Without it the owner calls node_step(),
 * which runs all four and the engine's own step in its thread. So a program embeds weir in its own loop, and the simulation
 * runs whole fleets in one thread on a virtual clock.
 *
 * Owner: node_open() .. node_stop() .. node_close(). The engine and the events are the caller's and outlive the node.
 */
#ifndef WEIR_DISPATCH_NODE_H
#define WEIR_DISPATCH_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "observe/event.h"
#include "store/store.h"

struct node_settings {
    const char *name;           /* NULL = host name and pid, and the group when it is not "default" */
    const char *group;          /* NULL = "default" */
    size_t batch_size;          /* dispatch.batch_size: items of one set at most; 0 = CLAIM_BATCH_MOST */
    int64_t poll_interval_us;   /* 0 = POLL_INTERVAL_US */
    int64_t lease_us;           /* 0 = NODE_LEASE_US; heartbeats come three times as often */
    int64_t stuck_after_us;     /* 0 = STUCK_AFTER_US */
    int64_t stale_claim_us;     /* claim.timeout: an item that is CLAIMED for longer is handed over; 0 = STALE_CLAIM_US */
    int64_t stale_check_us;     /* recovery.interval: how often such items are searched; 0 = STALE_CHECK_US */
    int64_t retention_us;       /* 0 = RETENTION_US; -1 = keep for ever */
    int64_t log_retention_us;   /* of the output of steps; 0 = LOG_RETENTION_US; -1 = as long as the execution */
    int64_t audit_retention_us; /* of acts; 0 = AUDIT_RETENTION_US; -1 = keep for ever */
    int64_t archive_after_us;   /* the content of executions moves to the archive so long after their end; 0, -1 = never */
    int64_t log_bytes_max;      /* of one attempt; 0 = LOG_ATTEMPT_BYTES_DEFAULT; -1 = keep none */
    int64_t stop_grace_us;      /* 0 = STOP_GRACE_US */
    int starts_max;             /* 0 = STARTS_MAX_DEFAULT */
    bool exclusive;             /* dispatch.exclusive: assign only while holding processExecutionQueue (beside Riven) */
    bool starts_paused;         /* !dispatch.autostart: it takes no executions until an operator resumes it */
    bool exports_spans;         /* a subscriber of the events exports them (observe/spans.h): steps pass on ids of spans */
    double spans_ratio;         /* of the executions without a trace context of their caller that are traced */
    uint64_t seed;              /* of the jitter; 0 = from the system */
    const char *language;       /* of its handlers, like "python 3.11" or "HTTP"; NULL = C */
    const char *handlers;       /* the names of its handlers, a JSON array; NULL = none */
    const struct clock *clock;  /* NULL = the machine's */
};

struct node;

/* Registers the node in the store. `store` is only used to open further handles on the same store; the caller keeps it. */
WEIR_MUST_CHECK enum weir_status node_open(struct store *store, struct engine *engine, struct event_bus *events,
                                           const struct node_settings *settings, struct node **ret_node,
                                           struct weir_error *error);
int64_t node_id(const struct node *node);
/* Lives as long as the node, and never changes. */
const char *node_name(const struct node *node);

/* --- driven by the caller --- */

/* All loops once; returns when to call again at the latest. */
int64_t node_step(struct node *node);
/* One loop each, for the simulation. After a failed call of the store a loop tries again later by itself and emits
 * store.failed. */
int64_t node_dispatch_step(struct node *node);
int64_t node_record_step(struct node *node);
int64_t node_heartbeat_step(struct node *node);
int64_t node_maintenance_step(struct node *node);
/* Which of the four have been woken since the last call: bits 1 dispatch, 2 record, 4 heartbeat, 8 duties. A caller
 * that steps them one by one must call these before the time that they named. */
unsigned node_take_wakes(struct node *node);
/* Readable when node_step() has something to do before its time. */
int node_fd(struct node *node);

/* --- with threads --- */

WEIR_MUST_CHECK enum weir_status node_run_threads(struct node *node, struct weir_error *error);

/* --- any thread --- */

/* Makes the dispatcher read the queue now (an enqueue in this process). Cheap, async-signal-safe. */
void node_wake(struct node *node);
/* The free capacity of the engine changed for another reason than a start or an end. Any thread. */
void node_capacity_changed(struct node *node);
/* No new claims; running executions and heartbeats go on. Also an operator's `weir node pause`. */
/* The names of its handlers from now on, a JSON array. The node records them with its next heartbeat, which it sends at
 * once; then the scheduler assigns by them. Any thread. WEIR_OUT_OF_MEMORY: nothing was changed. */
WEIR_MUST_CHECK enum weir_status node_set_handlers(struct node *node, const char *handlers, struct weir_error *error);
void node_pause(struct node *node);
void node_resume(struct node *node);
/* Takes over some members while the node runs, for later assignments. These are batch_size, starts_max and
 * poll_interval_us; stuck_after_us, stale_claim_us and stale_check_us; stop_grace_us and log_bytes_max. The retentions
 * are, too: retention_us, log_retention_us, audit_retention_us, archive_after_us. Further members are not read.
 */
void node_tune(struct node *node, const struct node_settings *settings);
/* {"id", "name", "executor_group", "state", "running", "room", "in_flight", "unanswered", "reports_waiting", "stuck",
 * "engine", "engine_reachable", "lease_left_us", "schedules"}. The caller releases it. NULL when out of memory. */
json_t *node_status(struct node *node);
/* One of these facts, cheap enough for a caller at every step: false while the breaker holds starts back. */
bool node_reaches_engine(struct node *node);
/* False after a failure that no pause can end (loop.h): the process should end non-zero. `error` has the reason. */
bool node_is_healthy(struct node *node, struct weir_error *error);

/* --- the end --- */

enum node_stop_kind {
    NODE_STOP_GRACEFUL, /* give back unstarted claims, await running executions for stop_grace_us, then interrupt */
    NODE_STOP_INTERRUPT /* do not await: interrupt at once and give back */
};
/* Begins stopping and returns at once; may be called again, also with the other kind, from any thread. */
void node_begin_stop(struct node *node, enum node_stop_kind kind);
/* True when everything is given back or ended and on record. Drive with node_step() or wait with node_await_stop(). */
bool node_is_stopped(struct node *node);
/* Waits (threads only) until stopped or `deadline_us` from now. WEIR_TIMED_OUT: it is still stopping, or it has
 * stopped and a function of the host goes on. `ret_graceful` (may be NULL): whether nothing had to be interrupted. */
WEIR_MUST_CHECK enum weir_status node_await_stop(struct node *node, int64_t deadline_us, bool *ret_graceful,
                                                 struct weir_error *error);
/* After a stop: how many executions the node could not give back: the store was unreachable, or a function goes on. They
 * are handed over when its lease ends. */
size_t node_left_behind(struct node *node);
/* Takes NULL. Without a stop before: as if the process had died, except that threads are joined. */
void node_close(struct node *node);

#endif
