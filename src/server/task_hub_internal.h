/* The parts of a task hub: task_hub.c (calls, leases, handlers), task_claims.c (workers and claims), task_lanes.c (the
 * order of tasks), task_reports.c. All members are under `lock`, unless their comment names another owner. */
#ifndef WEIR_SERVER_TASK_HUB_INTERNAL_H
#define WEIR_SERVER_TASK_HUB_INTERNAL_H

#include <pthread.h>

#include "base/uuid.h"
#include "queue/fair_queue.h"
#include "queue/limits.h"
#include "server/task_hub.h"

enum {
    TASK_BUCKETS = 4096,
    WORKER_BUCKETS = 1024,
    REPORT_BUCKETS = 65536,
    TASK_ID_MAX = UUID_TEXT_MAX + STEP_ID_MAX + 40 /* EXECUTION/STEP/ATTEMPT/FENCE */
};

enum task_state {
    TASK_NEW, /* not in the hub yet */
    TASK_HELD,
    TASK_WAITING,
    TASK_CLAIMED,
    TASK_ENDED /* out of the hub: a thread answers its call and frees it */
};

/* The answer to the call of a task that ended without a report. */
enum task_ending {
    ENDING_CANCELLED,
    ENDING_INTERRUPTED,
    ENDING_LEFT,       /* its worker has left: likewise, and no loss of a worker */
    ENDING_GIVEN_BACK, /* a worker may run it */
    ENDING_UNSERVED    /* no worker runs it */
};

/* The tasks of one handler and one workspace. */
struct task_lane {
    struct fair_lane lane;
    struct task_lane *of_bucket;
    const struct task_handler *handler;
    size_t task_count; /* in any state; the last one frees the lane */
    char workspace[];
};

struct task {
    struct fair_entry turn; /* WAITING; the first member */
    struct task_lane *lane;
    struct task *next; /* in the list of its state, if it is not WAITING, or among the ended ones */
    struct task *previous;
    struct task *of_bucket;
    enum task_state state;
    enum task_ending ending;
    struct weir_call *call;
    struct task_hub *hub;
    struct task_handler *handler;
    struct task_worker *worker; /* CLAIMED */
    int64_t due_us;             /* HELD: until then; CLAIMED: the end of the lease */
    bool is_cancelled;
    bool is_kept;                               /* by its worker, which leaves: within task_hub_leave() */
    int64_t log_end;                            /* bytes of the log of its worker that are written */
    char lost_worker[TASK_WORKER_NAME_MAX + 1]; /* for the message of an interrupted one */
    char id[TASK_ID_MAX];                       /* as its worker knows it: of its first claim, when it was adopted */
};

struct task_list {
    struct task *first;
    struct task *last;
};

struct task_handler {
    struct task_hub *hub;        /* constant */
    struct weir_handler handler; /* constant; its name is owned */
    int64_t token_id;            /* that has named it first; constant */
    size_t worker_count;         /* live ones that name it */
    bool is_registered;          /* changed by task_hub_step() alone */
    int64_t again_us;            /* not before: the last registration failed */
    struct fair_queue waiting;   /* tasks, in turns of their workspaces */
};

struct task_worker {
    struct task_worker *of_bucket;
    struct task_worker *next; /* live and not waiting: in the order of `due_us` */
    struct task_worker *previous;
    bool is_live;
    int64_t due_us; /* the end of its lease */
    size_t waits;   /* claims that wait: its lease does not end meanwhile */
    size_t task_count;
    size_t wanted; /* free places: `max` of its last claim, less what it got, plus what it ended */
    size_t handler_count;
    struct task_handler *handlers[TASK_WORKER_HANDLERS_MAX];
    int64_t token_id;
    char name[TASK_WORKER_NAME_MAX + 1];
};

/* The last report of an ended task. */
struct kept_report {
    uint64_t id;     /* the hash of the task's id; 0 = free */
    uint64_t report; /* the hash of the report; 0 = the task was lost */
    uint32_t next;   /* in its bucket, 1 + index; 0 = none */
    bool is_recorded;
    struct task_waiter *waiters; /* for its record */
};

struct task_hub {
    struct task_hub_options options; /* constant */
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* task_hub_step() is due sooner */
    pthread_cond_t registered; /* is_registering is false again */
    bool is_registering;       /* the node is being told of a handler, without the lock */
    pthread_t thread;
    bool has_thread; /* of the owner's thread */
    bool is_closing;
    bool is_stopped;
    int64_t next_step_us; /* for which the thread sleeps */

    struct task *tasks[TASK_BUCKETS];
    struct task_lane *lanes[TASK_BUCKETS];
    struct task_list held; /* in the order of `due_us`, and the next one too */
    struct task_list claimed;
    struct task_list ended;
    size_t open_count; /* tasks that are not ENDED */
    size_t claimed_count;

    struct task_handler *handlers[TASK_HANDLERS_MAX];
    size_t handler_count;

    struct task_worker *workers[WORKER_BUCKETS];
    size_t worker_count; /* also of those that are only kept for their tasks */
    size_t places;       /* of live workers, taken and free */
    size_t told_places;  /* of the last set_places(); SIZE_MAX = none yet */
    struct task_worker *first_worker;
    struct task_worker *last_worker;
    struct task_waiter *first_waiter; /* in the order of their claims */
    struct task_waiter *last_waiter;

    struct task_waiter *first_of_records; /* waiters for records, in the order of `deadline_us` */
    struct task_waiter *last_of_records;
    struct kept_report *kept; /* a ring */
    uint32_t *kept_buckets;
    size_t kept_next;
};

/* The function of every handler of the hub; takes the lock. */
void task_hub_handle(struct weir_call *call, void *context);

/* Under the lock, all of them. */
int64_t task_hub_now(const struct task_hub *hub);
/* The step is due at `due_us` at the latest. */
void task_hub_schedule(struct task_hub *hub, int64_t due_us);
struct task *task_find(const struct task_hub *hub, const char *execution_id, const char *step);
/* The open task that an id of a claim names, or NULL. Its worker may have it under an older id. */
struct task *task_find_id(const struct task_hub *hub, const char *id);
/* Without a report; the next step answers. */
void task_end(struct task *task, enum task_ending ending);
/* From its present state to another one; ENDED takes it out of the hub. */
void task_move(struct task *task, enum task_state state);
/* The lane of a new task. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status task_lane_join(struct task *task);
void task_lane_leave(struct task *task);
/* The task that is next; NULL = none waits. */
struct task *task_lanes_next(struct task_handler *handler);
void task_lanes_add(struct task *task);
/* A task whose turn it is has had it, also when it leaves without a worker. */
void task_lanes_take_out(struct task *task);
/* To CLAIMED, with a whole lease; renews one. */
void task_lease(struct task *task, struct task_worker *worker);
/* The worker lives: one lease from now on. */
void task_worker_touch(struct task_hub *hub, struct task_worker *worker);
/* All changes of `is_live`, `task_count` and `wanted`. */
void task_worker_set(struct task_hub *hub, struct task_worker *worker, bool is_live, size_t task_count, size_t wanted);
/* Finds or makes it. WEIR_QUEUE_FULL, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status task_worker_get(struct task_hub *hub, int64_t token_id, const char *name,
                                                 struct task_worker **ret_worker, struct weir_error *error);
struct task_worker *task_worker_find(const struct task_hub *hub, int64_t token_id, const char *name);
/* Frees a worker that is neither live nor has tasks. */
void task_worker_release(struct task_hub *hub, struct task_worker *worker);
void task_workers_expire(struct task_hub *hub, int64_t now_us);
void task_waiters_expire(struct task_hub *hub, int64_t now_us, bool all);
/* The earliest end of a wait or of a worker's lease. */
int64_t task_workers_due(const struct task_hub *hub);
/* Wakes the first waiter that may have the task. */
void task_waiter_wake_for(struct task_hub *hub, const struct task *task);
void task_workers_free(struct task_hub *hub);
/* `report` 0: the task was lost. Any other is not on record yet. */
void task_keep_report(struct task_hub *hub, const char *id, uint64_t report);
/* Ends the waits for records that are over. */
void task_records_expire(struct task_hub *hub, int64_t now_us, bool all);

#endif
