/* Tasks: the attempts of handler steps that programs outside of the node run (docs/workers.md).
 *
 * A worker names its handlers in each claim. While a live worker names a handler, the node has it, so the scheduler assigns
 * executions that need it. The engine calls task_hub_handle() for each attempt, which defers the call. The deferred call is
 * a task:
 *
 *     call --> HELD ---- lease over ----> WAITING -- claim --> CLAIMED -- report ------------> answered
 *       |       |                            ^                   |   ^
 *       |       +-- heartbeat of the worker that runs it --------|---+
 *       +------------------------------------+                   +-- lease over, or the worker has left
 *                                                                       --> the step runs again, as another task
 *
 * HELD is a task of an execution that another node had. A worker may still run its step for one lease, so that long no
 * other worker gets it; a report of that worker adopts the task. With its last worker a handler is unregistered, and its
 * tasks leave the node, so that another one can have them. The answer to a task that no worker runs is
 * engine_call_unserved(): its record saves the next node the hold.
 *
 * A worker is known by its token and its name, so that no other token can change its handlers or end its tasks. All
 * workers run tasks of all workspaces. A node has a handler or it does not. Suppose the workers of a
 * handler may not see an execution that needs it: it would hold its slots and run nowhere. A report of a result is accepted
 * when the end of the attempt is on record in the store (TASK_UNRECORDED until then).
 *
 * Everything is in memory: the store knows steps, not tasks. Bounds: the engine bounds the tasks, since each is a step of
 * an admitted execution; the constants below bound the rest.
 *
 * Threads: each function may be called by any thread, but task_hub_step() by one at a time. No function waits. No callback
 * may call the hub. Owner: task_hub_open() .. task_hub_stop() .. (close of the engine) .. task_hub_close().
 */
#ifndef WEIR_SERVER_TASK_HUB_H
#define WEIR_SERVER_TASK_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/text.h"
#include "weir/handler.h"
#include "weir/status.h"

enum {
    TASK_WORKERS_MAX = 10000,
    TASK_WORKERS_OF_TOKEN_MAX = TASK_WORKERS_MAX / 2,
    TASK_WORKER_NAME_MAX = 128,                         /* bytes */
    TASK_HANDLERS_MAX = 1000,                           /* different ones in the life of a hub */
    TASK_HANDLERS_OF_TOKEN_MAX = TASK_HANDLERS_MAX / 2, /* of them, those that one token has named first */
    TASK_WORKER_HANDLERS_MAX = 64,                      /* of one worker */
    TASK_CLAIM_MAX = 1000,                              /* tasks of one claim */
    TASK_REPORTS_KEPT = 65536 /* last reports of ended tasks that are known, so that they may come twice */
};
#define TASK_LEASE_DEFAULT_US (10 * MICROSECONDS_PER_SECOND)
#define TASK_LEASE_LEAST_US MICROSECONDS_PER_SECOND
#define TASK_LEASE_MOST_US (600 * MICROSECONDS_PER_SECOND)

struct task_hub;

struct task_hub_options {
    int64_t lease_us; /* 0 = TASK_LEASE_DEFAULT_US; within its bounds */
    const struct clock *clock;
    /* The node has the handler from now on, or has it no more. Called by task_hub_step(). After a failure it is called
     * again with the next step. The handler lives as long as the hub. */
    enum weir_status (*register_handler)(void *context, const struct weir_handler *handler);
    enum weir_status (*unregister_handler)(void *context, const char *name);
    /* How many tasks all live workers run at most has changed; or NULL. Called by task_hub_step(), once before the first
     * worker comes. */
    void (*set_places)(void *context, size_t places);
    void *context;
};

/* WEIR_INVALID_ARGUMENT: the lease; WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status task_hub_open(const struct task_hub_options *options, struct task_hub **ret_hub,
                                               struct weir_error *error);
/* Does the due work: leases that are over, waits that end, handlers to register. Returns the time of the next call (boot
 * clock). */
int64_t task_hub_step(struct task_hub *hub);
/* Calls task_hub_step() in a thread of its own until task_hub_close(). WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status task_hub_run_thread(struct task_hub *hub, struct weir_error *error);
/* Gives back all tasks, also those that come later, and ends all waits. No handler is registered or unregistered after
 * this; waits for one that is. */
void task_hub_stop(struct task_hub *hub);
/* After task_hub_stop() and the close of the engine. Takes NULL. */
void task_hub_close(struct task_hub *hub);

/* --- claims --- */

/* A claim that waits, or a report that waits for its record. The caller owns it, and it must stay until `wake` was called:
 * at the latest at its deadline, or by task_hub_close(). */
struct task_waiter {
    /* Called once, under the lock of the hub: claim or report again. Must be quick. */
    void (*wake)(struct task_waiter *waiter);
    void *owner;              /* the caller's own */
    struct task_waiter *next; /* the hub's own, with all that follow */
    struct task_waiter *previous;
    struct task_waiter *of_report; /* likewise, with all that wait for one record */
    uint64_t report_id;            /* 0 = a claim */
    struct task_worker *worker;
    int64_t deadline_us;
    bool is_waiting;
    bool has_left; /* set by the hub: the worker of the claim has left */
};

struct task_claim {
    int64_t token_id;   /* of the worker; 0 = none was needed */
    const char *worker; /* a name that no other running worker of the token has, 1 to TASK_WORKER_NAME_MAX bytes */
    const char *const *handlers;
    size_t handler_count; /* 1 to TASK_WORKER_HANDLERS_MAX */
    size_t max;           /* 0 to TASK_CLAIM_MAX; 0 = only report that the worker lives */
    int64_t arrived_us;   /* when the request came, boot clock */
    int64_t deadline_us;  /* the end of the wait, likewise */
};

/* Adds {"tasks": [...], "lease_us": N, "waited_us": N} to `answer`: up to `max` tasks, as many as `answer` has space for.
 * Their leases end lease_us + waited_us after the request came. When there is none
 * and the deadline has not passed, `waiter` waits instead, and `answer` stays empty; `waiter` NULL never waits.
 * WEIR_INVALID_ARGUMENT; WEIR_QUEUE_FULL (too many workers or handlers); WEIR_STOPPED; WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status task_hub_claim(struct task_hub *hub, const struct task_claim *claim,
                                                struct task_waiter *waiter, struct text *answer, struct weir_error *error);
/* A waiter was woken, but its caller does not claim: another one is woken in its place. */
void task_hub_pass_wake(struct task_hub *hub);

struct task_leave {
    int64_t token_id;         /* as in a claim */
    const char *worker;       /* likewise */
    const char *const *keeps; /* ids of the tasks that it still runs */
    size_t keep_count;
};
/* The worker runs no other task than those that it keeps, and claims nothing more. Its waits end, its handlers are no more
 * those of the node, and its other tasks are given to other workers or leave the node. Returns their number. Those that it
 * keeps have their leases, and reports about them count. A worker that claims again is a new one. */
size_t task_hub_leave(struct task_hub *hub, const struct task_leave *leave);

/* --- reports --- */

enum task_report_kind { TASK_HEARTBEAT, TASK_COMPLETE, TASK_FAIL };

struct task_log_part {
    enum weir_stream stream;
    const char *text;
    size_t length;
};

struct task_report {
    enum task_report_kind kind;
    int64_t token_id; /* as in a claim */
    const char *worker;
    const char *task;       /* the id, as the claim had it */
    const char *output;     /* COMPLETE: JSON text, or NULL */
    const char *code;       /* FAIL: NULL = handler_failed */
    const char *error;      /* FAIL: or NULL */
    bool is_final;          /* FAIL: no retry */
    int64_t retry_after_us; /* FAIL: the delay of the retry, -1 = the policy's */
    /* For the log of the attempt, if the worker has the task. A part that comes again is written once. */
    const struct task_log_part *log;
    size_t log_count;
    int64_t log_at; /* bytes of the log in earlier reports */
    /* HEARTBEAT, if the worker has the task: as weir_call_progress(). */
    bool has_progress;
    double fraction;
    const char *progress_text;
};

enum task_verdict {
    TASK_ACCEPTED,  /* HEARTBEAT: the lease is renewed. Else: the task has ended; also when the same report comes again */
    TASK_CANCELLED, /* HEARTBEAT: the lease is renewed, but the result is wanted no more: stop, and report anything */
    TASK_UNKNOWN,   /* this node does not have the task; another one may, or this one soon: the lease is not renewed */
    TASK_LOST,      /* the worker has it no more: the lease is over, or it has ended with another report */
    TASK_UNRECORDED /* COMPLETE, FAIL: the node has the report, but a crash would still lose it: report it again, for its
                       verdict. task_hub_await_record() waits meanwhile */
};

/* One report of one task. Answers the call of the task when it ends with it. */
enum task_verdict task_hub_report(struct task_hub *hub, const struct task_report *report);

enum task_record {
    TASK_RECORD_AWAITED, /* `waiter` waits, until the verdict is another one or the time is over */
    TASK_RECORD_SETTLED, /* it is another one already: report again */
    TASK_RECORD_LATE     /* the store does not answer in time, or the hub is stopped */
};
/* After TASK_UNRECORDED. The wait ends a quarter of a lease after `arrived_us` (boot clock), when the request came: before
 * the client gives the request up, which it has to repeat. */
enum task_record task_hub_await_record(struct task_hub *hub, const char *task, int64_t arrived_us,
                                       struct task_waiter *waiter);

/* --- figures --- */

struct task_figures {
    size_t workers;
    size_t waiting; /* tasks WAITING or HELD */
    size_t claimed;
    size_t places; /* how many tasks all workers run at most: those that they have and those that they asked for last */
};
struct task_figures task_hub_figures(struct task_hub *hub);

/* "accepted", "cancelled", "task_unknown", "task_lost": the words of answers. No answer has TASK_UNRECORDED. */
const char *task_verdict_name(enum task_verdict verdict);

#endif
