/* Every maximum and every default of the queue, in one place, with its unit and its reason.
 *
 * A value that a user may set is a setting of the same name in weir.yaml (see cli/settings/settings.c); a bound against
 * abuse is not.
 */
#ifndef WEIR_QUEUE_LIMITS_H
#define WEIR_QUEUE_LIMITS_H

#include "base/clock.h"

/* A time to start that is further back counts as this far back for the order: it is no priority without a limit. */
#define RUN_AT_PAST_MOST_US INT64_C(86400000000)
/* The window of KEY_DEBOUNCE. A start is delayed by at most DEBOUNCE_WINDOWS windows unless the request gives another time.
 */
#define DEBOUNCE_LEAST_US INT64_C(1000)
#define DEBOUNCE_MOST_US INT64_C(86400000000)
#define DEBOUNCE_WINDOWS 10
/* The last microsecond of the year 9999: RFC 3339 has four digits for the year. */
#define RUN_AT_MOST_US INT64_C(253402300799999999)

/* The clock of a program that makes ids may be ahead of the store's by so much. Lists begin with the newest ids, so ids of
 * years to come would hide the executions of all other workspaces. */
#define ID_AHEAD_MOST_US INT64_C(86400000000)

/* The longest time for which a lock is taken: ten years. A sum of it with a time never overflows. */
#define LOCK_HELD_MOST_US (INT64_C(3650) * 86400 * 1000000)

/* --- names and payloads --- */
enum {
    WORKSPACE_NAME_MAX = 128,              /* bytes of UTF-8 */
    WORKFLOW_NAME_MAX = 64,                /* bytes; [a-z0-9][a-z0-9_-]* */
    PLAN_NAME_MAX = 64,                    /* bytes */
    NODE_NAME_MAX = 128,                   /* bytes */
    GROUP_NAME_MAX = 64,                   /* bytes */
    NODE_LANGUAGE_MAX = 64,                /* bytes */
    STEP_ID_MAX = 64,                      /* bytes */
    LOCK_NAME_MAX = 64,                    /* bytes: the width of shedlock.name */
    IDEMPOTENCY_KEY_MAX = 255,             /* bytes */
    BUSINESS_KEY_MAX = 255,                /* bytes */
    LABELS_MAX = 16,                       /* of a request, and of a definition */
    LABEL_NAME_MAX = 64,                   /* bytes; of a-z0-9_-. */
    LABEL_VALUE_MAX = 255,                 /* bytes */
    LABEL_CONDITIONS_MAX = 16,             /* of one filter */
    SIGNAL_NAME_MAX = 64,                  /* bytes */
    APPROVERS_MAX = 50,                    /* of one step */
    APPROVAL_COMMENT_MAX = 2000,           /* bytes; also of a prompt */
    SIGNAL_KEPT_NAME_MAX = 120,            /* bytes: with the prefix of those that weir itself sends (queue/signal.h) */
    SIGNAL_DATA_BYTES_MAX = 64 * 1024,     /* of one signal */
    SIGNALS_KEPT_MOST = 1000,              /* of one execution and name: not consumed yet */
    SIGNALS_KEPT_BYTES_MOST = 1024 * 1024, /* their data, of all names; see signal_bytes_most() */
    ERROR_CODE_MAX = 64,                   /* bytes */
    ERROR_TEXT_MAX = 2048,                 /* bytes kept of an error's message */
    REASON_MAX = 2048,                     /* bytes of an operator's reason for an act */
    ACTOR_MAX = 255,                       /* bytes of the actor of an act */
    ACT_NAME_MAX = 64,                     /* bytes of the name of an act */
    SUBJECT_MAX = 768,                     /* bytes of the subject of an act */
    PARAMS_BYTES_MAX = 1024 * 1024,        /* one execution's params */
    STEP_OUTPUT_BYTES_MAX = 1024 * 1024,   /* output of a step for its successors, unless the definition sets less */
    PRIORITY_LEAST = -100,
    PRIORITY_MOST = 100,
    MAX_CONCURRENT_MOST = 1000000, /* slots of one workspace */
    MAX_PENDING_MOST = 1000000000, /* PENDING executions of one workspace, where a limit is set */
    WEIGHT_MOST = 1000             /* of a plan in the fair share; least is 1 */
};

/* --- children --- */
enum {
    CHILDREN_OF_STEP_MOST = 10000,             /* of one `start` step */
    CHILDREN_OF_PARENT_MOST = 100000,          /* of all steps of one execution */
    CHILD_DEPTH_MOST = 16,                     /* parents above each other */
    CHILDREN_PLAN_BYTES_MAX = 4 * 1024 * 1024, /* the params of all children of one step */
    CHILDREN_PLAN_LEVELS = 2,                  /* the params of a child lie so deep in the plan of their step */
    CHILD_WORK_BATCH = 200,                    /* notes of the outbox that one transaction takes; on SQLite steps of them */
    CHILD_SET_BATCH = 1000,  /* ends of children that one transaction counts on PostgreSQL, and starts and cancels there */
    CHILD_PLAN_BATCH = 1000, /* rows, and parts of 4 KiB, after which a transaction reads no further plan */
    CHILD_STARTS_BATCH = 500 /* notes, starts and cancels on SQLite, where a longer transaction holds up the one writer */
};

/* --- states --- */
enum {
    STATE_VARIABLE_NAME_MAX = 64,           /* bytes; [A-Za-z_][A-Za-z0-9_]* */
    STATE_VARIABLE_BYTES_MAX = 32 * 1024,   /* of one variable, as JSON */
    STATE_VARIABLES_BYTES_MAX = 128 * 1024, /* of all variables of one execution, with their names */
    STATE_CHANGES_BYTES_MAX = 8 * 1024,     /* of the changed variables in one action of the history; else their names */
    STATE_VARIABLE_LEVELS = 2,  /* of JSON around a variable in all texts that have it, which count as its own */
    STATE_CHILDREN_MOST = 1000, /* that one action starts or enqueues */
    ACTIONS_KEPT_MOST = 1000,   /* the last actions of one execution */
    STATES_IN_A_ROW_MOST = 100  /* that run at once, before a delay */
};
/* A shorter delay counts as none: a circle of such states would fill a node and a store as well. */
#define STATES_SHORT_DELAY_US (1 * MICROSECONDS_PER_SECOND)
#define STATES_BUSY_DELAY_US (30 * MICROSECONDS_PER_SECOND)     /* after STATES_IN_A_ROW_MOST states */
#define STATE_UNKNOWN_DELAY_US (3600 * MICROSECONDS_PER_SECOND) /* before an unknown state is looked at again */

/* --- sizes of sets --- */
enum {
    CLAIM_BATCH_DEFAULT = 10, /* items of one set without a setting */
    CLAIM_BATCH_MOST = 2000,  /* items of one claim; bounds the time that the store is locked */
    RECORD_BATCH_MOST = 2000, /* records of one set */
    RECOVER_BATCH = 500,      /* items handed over per transaction, so that heartbeats never wait long */
    PURGE_BATCH = 500,        /* ended executions removed per transaction */
    PROMOTE_BATCH = 1000,     /* scheduled items that become due per transaction */
    LIST_LIMIT_DEFAULT = 50,
    LIST_LIMIT_MOST = 1000
};

/* --- starts --- */
enum {
    STARTS_MAX_DEFAULT = 3, /* exactly three starts: the first one and two more */
    HANDOVERS_MAX = 5       /* an item is poison after so many counted deaths of its node (store.h, store_recover()) */
};
#define RETRY_BACKOFF_US (1 * MICROSECONDS_PER_SECOND) /* before the second start; doubles */
#define RETRY_BACKOFF_MAX_US (300 * MICROSECONDS_PER_SECOND)
#define WORKER_ELSEWHERE_US (1 * MICROSECONDS_PER_SECOND) /* at most, for an item that another node can run */
#define OFFER_AGAIN_US (60 * MICROSECONDS_PER_SECOND)     /* a node looks this often for items that wait for its handlers */
#define DEFERRAL_MAX_US (3600 * MICROSECONDS_PER_SECOND)  /* an item that no node can run is tried at least this often */

/* --- times --- */
#define POLL_INTERVAL_US (5 * MICROSECONDS_PER_SECOND) /* jittered; the base under wake-ups */
#define HEARTBEAT_INTERVAL_US (2 * MICROSECONDS_PER_SECOND)
#define NODE_LEASE_US (6 * MICROSECONDS_PER_SECOND) /* a silent node is dead after this; handed over within 10 s */
/* Steps are killed this part of a lease before its end, at most this long: killing takes a moment on a busy machine. */
#define KEEPER_MARGIN_PART 6
#define KEEPER_MARGIN_US (1 * MICROSECONDS_PER_SECOND)
#define SCHEDULER_LEASE_US (3 * MICROSECONDS_PER_SECOND) /* a silent scheduler loses its role after this */
#define SCHEDULER_RENEW_US (1 * MICROSECONDS_PER_SECOND) /* a round renews when the last renewal is this old */
/* A round is made without any other reason to renew after this: the lease has 0.7 s left then. */
#define SCHEDULER_IDLE_US (2300 * MICROSECONDS_PER_MS)
#define SCHEDULER_WATCH_US (1 * MICROSECONDS_PER_SECOND)   /* how often other nodes check that a node schedules */
#define BOOKS_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)    /* counters are published at most this often */
#define RECOVERY_INTERVAL_US (1 * MICROSECONDS_PER_SECOND) /* how often dead nodes are searched */
/* A node of a shared store searches dead nodes when the answer to its heartbeat asks for it, and after so long without
 * one. So, with the lease of 6 s, work is taken over within 10 s also by a node with a long lease of its own. */
#define RECOVERY_FALLBACK_US (3 * MICROSECONDS_PER_SECOND)
#define STALE_CLAIM_US (300 * MICROSECONDS_PER_SECOND) /* the safety net: five minutes ... */
#define STALE_CHECK_US (60 * MICROSECONDS_PER_SECOND)  /* ... checked each minute */
/* An unanswered start is sent again after this. It may exceed the lease of a node: a request that arrives after another
 * node has taken the item over carries the same ids, so the engine knows it. */
#define START_DEADLINE_US (10 * MICROSECONDS_PER_SECOND)
#define STORE_DEADLINE_US (5 * MICROSECONDS_PER_SECOND) /* every store call answers within this */
/* A read of another system's queue: the first one may sort all of its rows. */
#define IMPORT_DEADLINE_US (60 * MICROSECONDS_PER_SECOND)
#define STUCK_AFTER_US (60 * MICROSECONDS_PER_SECOND) /* nFlow: stuckThreadThreshold */
#define PARK_AFTER_US (1 * MICROSECONDS_PER_SECOND)   /* a longer wait gives the slot back */
#define STOP_GRACE_US (25 * MICROSECONDS_PER_SECOND)  /* graceful stop waits this long for running work */
#define NODE_ROW_KEPT_US (365 * 86400 * MICROSECONDS_PER_SECOND)
#define RETENTION_US (14 * 86400 * MICROSECONDS_PER_SECOND)

/* --- logs of attempts --- */
enum {
    LOG_ATTEMPT_BYTES_DEFAULT = 1024 * 1024, /* in the store: half of it the beginning, half the end */
    LOG_ATTEMPT_BYTES_MOST = 1024 * 1024 * 1024,
    LOG_PENDING_BYTES_MAX = 32 * 1024 * 1024 /* in the memory of a node, all attempts together */
};
#define LOG_WRITE_US (1 * MICROSECONDS_PER_SECOND)       /* output reaches the store within this ... */
#define LOG_WRITE_AGAIN_US (5 * MICROSECONDS_PER_SECOND) /* ... and this long after a failed write */
#define LOG_LOST_NOTICE_US (60 * MICROSECONDS_PER_SECOND)

/* --- progress of attempts --- */
enum {
    PROGRESS_PARTS = 10000,      /* a fraction of 1, as the store keeps it */
    PROGRESS_TEXT_MAX = 200,     /* bytes */
    PROGRESS_ATTEMPTS_MAX = 4096 /* in the memory of a node; it drops the reports of further ones */
};
#define PROGRESS_WRITE_US (1 * MICROSECONDS_PER_SECOND)       /* a report reaches the store within this ... */
#define PROGRESS_WRITE_AGAIN_US (5 * MICROSECONDS_PER_SECOND) /* ... and this long after a failed write */

/* Acts are few, and a year of them answers the questions of an audit. */
#define AUDIT_RETENTION_US (INT64_C(365) * 86400 * MICROSECONDS_PER_SECOND)
#define LOG_RETENTION_US (14 * 86400 * MICROSECONDS_PER_SECOND)

/* One level of priority is worth this much waiting: an item of priority 1 goes first until an item of priority 0 has waited
 * an hour longer. So priority decides, and nothing of low priority starves (nFlow's strict order does starve). */
#define PRIORITY_AGEING_US (3600 * MICROSECONDS_PER_SECOND)

#endif
