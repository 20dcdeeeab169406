/* One typed list of events: the only output of library code.
 *
 * Library code never prints. It emits an event; log, metrics and traces subscribe. One list gives the name on every
 * surface, the level and the metric that it feeds. The record of an execution (execution_events) is not made from these: it
 * is written by the store in the transaction of the transition itself.
 *
 * Threads: event_emit() from any thread; subscribers are called in the emitter's thread, must be quick, and are added
 * before the first event. An event and its strings live only during the call.
 */
#ifndef WEIR_OBSERVE_EVENT_H
#define WEIR_OBSERVE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_level { EVENT_DEBUG, EVENT_INFO, EVENT_WARN, EVENT_ERROR };

/* X(enum, name, level). The spec's log events are marked with their text there. */
#define EVENT_LIST(X)                                                                                                      \
    X(EVENT_EXECUTION_ENQUEUEING, "execution.enqueueing", EVENT_INFO) /* "Enqueueing workflow"; count for a set */         \
    X(EVENT_EXECUTION_ENQUEUED, "execution.enqueued", EVENT_INFO)     /* "Enqueued execution"; count for a set */          \
    X(EVENT_EXECUTION_ASSIGNED, "execution.assigned", EVENT_DEBUG)    /* to any node; duration = wait */                   \
    X(EVENT_BATCH_CLAIMED, "batch.claimed", EVENT_DEBUG)              /* "Processing N queue items"; count, duration */    \
    X(EVENT_BATCH_PROCESSED, "batch.processed", EVENT_DEBUG)          /* each start of it is on record; count, duration */ \
    X(EVENT_EXECUTION_DISPATCHING, "execution.dispatching", EVENT_INFO) /* "Dispatching queue item" */                     \
    X(EVENT_EXECUTION_DISPATCHED, "execution.dispatched",                                                                  \
      EVENT_INFO) /* "Dispatched execution"; duration = queue wait, latency_us */                                          \
    X(EVENT_EXECUTION_COMPLETED, "execution.completed", EVENT_INFO)                                                        \
    X(EVENT_EXECUTION_FAILED, "execution.failed", EVENT_WARN) /* the run ended FAILED; code */                             \
    X(EVENT_EXECUTION_CANCELLED, "execution.cancelled", EVENT_INFO)                                                        \
    X(EVENT_EXECUTION_RETRYING, "execution.retrying", EVENT_ERROR)      /* "Error processing queue item": tried again */   \
    X(EVENT_EXECUTION_DEFERRED, "execution.deferred", EVENT_INFO)       /* no start counted; code */                       \
    X(EVENT_DISPATCH_FAILED, "dispatch.failed", EVENT_ERROR)            /* "Failed to start", for good; code, error */     \
    X(EVENT_START_UNKNOWN, "start.unknown", EVENT_WARN)                 /* no answer; same ids are sent again */           \
    X(EVENT_WORKSPACE_AT_CAPACITY, "workspace.at_capacity", EVENT_INFO) /* "Workspace at capacity"; once a minute each */  \
    X(EVENT_WORKSPACE_NOT_FOUND, "workspace.not_found", EVENT_WARN)     /* "Workspace not found": an item without one */   \
    X(EVENT_ITEMS_RECOVERING, "items.recovering", EVENT_WARN)           /* "Recovering stale items"; count, age */         \
    X(EVENT_ITEMS_RECOVERED, "items.recovered", EVENT_INFO)             /* "Recovered N stale queue items"; count */       \
    X(EVENT_EXECUTION_POISONED, "execution.poisoned", EVENT_ERROR)      /* killed its node too often; count */             \
    X(EVENT_EXECUTION_STUCK, "execution.stuck", EVENT_WARN)             /* item, age, "n of m"; once per period */         \
    X(EVENT_STEP_ENDED, "step.ended", EVENT_DEBUG)                  /* a run of a step, also a lost one; reason = state */ \
    X(EVENT_STEPS_INTERRUPTED, "steps.interrupted", EVENT_ERROR)    /* run again, no attempt spent; count, error */        \
    X(EVENT_STEPS_DEFERRED, "steps.deferred", EVENT_ERROR)          /* the machine is short of something; error */         \
    X(EVENT_STALE_WRITE_REFUSED, "stale_write.refused", EVENT_WARN) /* a late writer changed nothing; count */             \
    X(EVENT_RECORD_REFUSED, "record.refused", EVENT_ERROR)          /* the store refuses the rows of an item; error */     \
    X(EVENT_SCHEDULER_TAKEN, "scheduler.taken", EVENT_INFO)         /* this node schedules; count = epoch, reason */       \
    X(EVENT_SCHEDULER_LEFT, "scheduler.left", EVENT_INFO)           /* it has given the role up, because it stops */       \
    X(EVENT_SCHEDULER_LOST, "scheduler.lost", EVENT_WARN)   /* it does so no longer: another epoch, or doubt; reason */    \
    X(EVENT_ENGINE_DOWN, "engine.down", EVENT_WARN)         /* the breaker opened; error */                                \
    X(EVENT_ENGINE_UP, "engine.up", EVENT_INFO)             /* it closed; duration */                                      \
    X(EVENT_ENGINE_IMPAIRED, "engine.impaired", EVENT_WARN) /* it starts, and sees ends late; code, error */               \
    X(EVENT_ENGINE_SOUND, "engine.sound", EVENT_INFO)       /* that is over */                                             \
    X(EVENT_NODE_STARTED, "node.started", EVENT_INFO)                                                                      \
    X(EVENT_NODE_STOPPING, "node.stopping", EVENT_INFO) /* count = running */                                              \
    X(EVENT_NODE_STOPPED, "node.stopped", EVENT_INFO)   /* reason = graceful | interrupted */                              \
    X(EVENT_NODE_DEAD, "node.dead", EVENT_WARN)         /* another node missed its lease */                                \
    X(EVENT_NODE_PAUSED, "node.paused", EVENT_INFO)                                                                        \
    X(EVENT_NODE_RESUMED, "node.resumed", EVENT_INFO)                                                                      \
    X(EVENT_LEASE_LOST, "lease.lost", EVENT_ERROR) /* this node was declared dead */                                       \
    X(EVENT_LOCK_ACQUIRED, "lock.acquired", EVENT_DEBUG)                                                                   \
    X(EVENT_LOCK_BUSY, "lock.busy", EVENT_DEBUG) /* feeds shedlock_acquisition_failures */                                 \
    X(EVENT_LOCK_LOST, "lock.lost", EVENT_WARN)                                                                            \
    X(EVENT_STORE_FAILED, "store.failed", EVENT_ERROR)           /* a store call failed; reason = verb, code, error */     \
    X(EVENT_STORE_LOG_DAMAGED, "store.log_damaged", EVENT_ERROR) /* SQLite's log ended early; count = commits, error */    \
    X(EVENT_STORE_TLS_OPTIONAL, "store.tls_optional",                                                                      \
      EVENT_WARN)                                      /* PostgreSQL on another machine, sslmode=prefer; error */          \
    X(EVENT_STORE_CALLED, "store.called", EVENT_DEBUG) /* every store call; reason = verb, duration */                     \
    X(EVENT_STORE_UNWATCHED, "store.unwatched",                                                                            \
      EVENT_WARN)                                       /* writes of other processes are found by polls alone; error */    \
    X(EVENT_STORE_WATCHED, "store.watched", EVENT_INFO) /* ... no longer */                                                \
    X(EVENT_WORKSPACE_DELETED, "workspace.deleted", EVENT_INFO)      /* count = waiting executions that ended; reason */   \
    X(EVENT_WORKSPACE_RENAMED, "workspace.renamed", EVENT_INFO)      /* workspace = new name; reason = "OLD -> NEW" */     \
    X(EVENT_HOOK_REFUSED, "hook.refused", EVENT_WARN)                /* its events wait; reason = hook, code, error */     \
    X(EVENT_SCHEDULE_FIRED, "schedule.fired", EVENT_DEBUG)           /* reason = schedule, execution, workspace */         \
    X(EVENT_SCHEDULE_SKIPPED, "schedule.skipped", EVENT_INFO)        /* by the overlap policy; reason, count */            \
    X(EVENT_SCHEDULE_DROPPED, "schedule.dropped", EVENT_WARN)        /* times that were too old; reason, count */          \
    X(EVENT_SCHEDULE_REFUSED, "schedule.refused", EVENT_WARN)        /* not enqueued; reason, count, code, error */        \
    X(EVENT_OUTPUT_LOST, "output.lost", EVENT_WARN)                  /* output of steps that no log has; count = bytes */  \
    X(EVENT_SPANS_EXPORTED, "spans.exported", EVENT_DEBUG)           /* count */                                           \
    X(EVENT_SPANS_DROPPED, "spans.dropped", EVENT_WARN)              /* spans that no collector got; count, error */       \
    X(EVENT_ARCHIVE_MOVED, "archive.moved", EVENT_INFO)              /* count */                                           \
    X(EVENT_ARCHIVE_FAILED, "archive.failed", EVENT_WARN)            /* error */                                           \
    X(EVENT_RETENTION_PURGED, "retention.purged", EVENT_INFO)        /* count */                                           \
    X(EVENT_RETENTION_REFUSED, "retention.refused", EVENT_WARN)      /* their content is out of reach; count, error */     \
    X(EVENT_LOOP_FAILED, "loop.failed", EVENT_ERROR)                 /* a node loop hit a failure that it cannot handle */ \
    X(EVENT_SETTING_CHANGED, "setting.changed", EVENT_INFO)          /* while it runs; reason = "KEY: OLD -> NEW" */       \
    X(EVENT_SETTING_WAITS, "setting.waits", EVENT_WARN)              /* it would need a restart; reason = KEY */           \
    X(EVENT_SETTINGS_RELOADED, "settings.reloaded", EVENT_INFO)      /* count = changed */                                 \
    X(EVENT_SETTINGS_REFUSED, "settings.refused", EVENT_ERROR)       /* code, error: the fault and its place */            \
    X(EVENT_CERTIFICATE_REFUSED, "certificate.refused", EVENT_ERROR) /* of HTTP, at a reload; code, error */

enum event_type {
#define EVENT_ENUM(id, name, level) id,
    EVENT_LIST(EVENT_ENUM)
#undef EVENT_ENUM
        EVENT_TYPE_COUNT
};

/* Strings may be NULL, numbers 0: then the field is left out. */
struct event {
    enum event_type type;
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
    int64_t of; /* "n of m" */
    int64_t slots_used;
    int64_t slots_max;
    int64_t duration_us;
    int64_t age_us;
    int64_t slot_wait_us;    /* the part of a wait in which the workspace had no free slot */
    int64_t pause_wait_us;   /* the part after it in which workspace, group or queue was paused */
    int64_t latency_us;      /* from the assignment until the engine has started the execution */
    const char *traceparent; /* of the request of the execution */
    const char *step;
    int64_t attempt;
    /* How long ago, on this node's clock, began and ended the work that the event reports; in no log line. */
    int64_t began_ago_us;
    int64_t ended_ago_us;
    bool is_start_alone; /* EVENT_EXECUTION_DISPATCHED: the start is on record, and the execution has not ended */
};

const char *event_name(enum event_type type);
/* The level that the spec gives the event. */
enum event_level event_level(enum event_type type);
const char *event_level_name(enum event_level level);

typedef void event_subscriber(void *context, const struct event *event);
enum { EVENT_SUBSCRIBERS_MAX = 8 };

struct event_bus {
    struct {
        event_subscriber *function;
        void *context;
    } subscribers[EVENT_SUBSCRIBERS_MAX];
    size_t count;
};

/* False when EVENT_SUBSCRIBERS_MAX are there already. */
int event_subscribe(struct event_bus *bus, event_subscriber *function, void *context);
/* `bus` may be NULL: then nothing happens. */
void event_emit(struct event_bus *bus, const struct event *event);

#endif
