/* The data of a node: one struct for each loop, and the parts that several loops share. Only files of src/dispatch
 * include this; the functions of a file are in the header of its name.
 *
 *   struct          thread that owns it                            functions
 *   node_shared     any, under its locks or as atomic flags        all files
 *   engine_health   any, under shared.lock                         engine_health.h
 *   neighbours      any, under shared.lock or as atomic flags      neighbours.h
 *   dispatcher      the dispatch loop                              dispatcher.h, scheduling.h, inbox.h, starter.h
 *   shutdown        the dispatch loop; its results are atomic      shutdown.h
 *   recorder        the record loop; its queue has a lock          recorder.h, blocked_reports.h
 *   heartbeat       the heartbeat loop                             heartbeat.h
 *   maintenance     the loop of the duties                         maintenance.h
 *   node_threads    each loop its own entry; wakes are atomic      loop.h, wake_up.h
 *
 * A loop uses the struct of another loop only through a function of the other loop's header.
 *
 * Locks, in the order in which a thread may take them:
 *
 *   1. start_lock joins the check of the lease with the start that follows. The loop that finds the lease lost abandons
 *      all starts under it, so no start follows the loss. No call of the store is made under it.
 *   2. lock protects the table of items in flight, the breaker, the neighbours and the random numbers. No call of the
 *      store or of the engine is made under it.
 *   3. recorder.reports.lock protects the queue of reports. Engines report while they hold locks of their own.
 *
 * register_lock stands alone: it covers a registration, and the moment at which `leaves` becomes true. So no registration
 * follows the moment.
 */
#ifndef WEIR_DISPATCH_NODE_INTERNAL_H
#define WEIR_DISPATCH_NODE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "dispatch/in_flight.h"
#include "dispatch/life.h"
#include "dispatch/log_buffer.h"
#include "dispatch/node.h"
#include "dispatch/progress_buffer.h"
#include "dispatch/slot_demand.h"
#include "queue/breaker.h"
#include "queue/early_ends.h"
#include "queue/retry.h"

enum {
    DEFINITIONS_MOST = 64, /* texts that the starter keeps */
    HOLDER_MAX = 256,
    SCHEDULE_SET_MOST = 1000, /* assignments of one round */
    ORPHANS_MOST = 16         /* lanes without a workspace, of one round */
};

enum loop { LOOP_DISPATCH, LOOP_RECORD, LOOP_HEARTBEAT, LOOP_MAINTENANCE, LOOP_COUNT };

/* The settings that node_tune() may change while the loops read them. */
struct node_tuning {
    atomic_size_t batch_size;
    _Atomic int64_t poll_interval_us;
    _Atomic int64_t stuck_after_us;
    _Atomic int64_t stale_claim_us;
    _Atomic int64_t stale_check_us;
    _Atomic int64_t retention_us;
    _Atomic int64_t log_retention_us;
    _Atomic int64_t audit_retention_us;
    _Atomic int64_t archive_after_us;
    _Atomic int64_t stop_grace_us;
    atomic_int starts_max;
};

/* Starts that no row of the history has yet (history_duty.h), by phase and wait. */
struct history_counts {
    _Atomic uint32_t waits[HISTORY_PHASES][HISTORY_BUCKETS];
};

/* Lanes of the items that this node has ended on record, for its scheduler (queue/early_ends.h). */
struct ended_lanes {
    int64_t generation; /* of the records that are passed; 0 = none */
    size_t count;
    int64_t lanes[RECORD_BATCH_MOST]; /* what does not fit comes by the news */
};

/* The parts that several loops read and write. */
struct node_shared {
    pthread_mutex_t start_lock;
    pthread_mutex_t register_lock;
    pthread_mutex_t lock;

    /* under `lock` */
    struct in_flight_table in_flight;
    struct random random;
    struct ended_lanes ended;
    struct weir_error failure; /* why the node is not healthy */
    bool unhealthy;

    /* flags, any thread */
    _Atomic int64_t id;
    _Atomic int64_t lease_end_boot_us;
    _Atomic int64_t next_beat_us; /* boot time; 0 = a heartbeat was requested (loop_request_heartbeat()) */
    atomic_bool lease_lost;
    atomic_bool schedules;       /* this node has the scheduler's role */
    atomic_bool hooks_due;       /* there was news since hook_duty.c last looked for events */
    atomic_bool schedules_due;   /* the same for schedule_duty.c */
    atomic_bool children_due;    /* the same for child_duty.c */
    atomic_int children_exist;   /* at its last look, or since: news wakes it at once (child_duty.c) */
    atomic_bool handlers_due;    /* the store has not all handlers of this node yet */
    atomic_bool has_target;      /* the store has the engine's target: before, this node gets nothing */
    atomic_bool paused;          /* node_pause() */
    atomic_int desired_state;    /* enum desired_state, by an operator */
    atomic_bool awaits_capacity; /* there is work, and the engine had no capacity for it */
    struct history_counts history_counts;
    atomic_int stop_kind; /* 0 = none, else 1 + enum node_stop_kind */
    atomic_bool leaves;   /* the node takes itself from the list of nodes: it registers no more */
    atomic_bool stopped;
};

/* The failures in a row of a loop. While the dispatch loop fails, this node neither schedules nor starts an
 * item. While the record loop fails, or the store refuses a report, ends are not on record. Under shared.lock. */
struct loop_failure {
    int64_t since_boot_us;              /* of the first one; 0 = it does not fail */
    bool is_reported;                   /* a heartbeat has brought it to the store, or tries to */
    char error[WEIR_ERROR_MESSAGE_MAX]; /* of the last one */
};

/* Whether starts can reach the engine, and whether it detects ends in time. Under shared.lock. */
struct engine_health {
    struct breaker breaker;
    char error[WEIR_ERROR_MESSAGE_MAX];      /* the last one, while the breaker is not closed */
    char impairment[WEIR_ERROR_MESSAGE_MAX]; /* why the engine may detect ends late; "" = it detects them in time */
};

/* The other nodes as the last answer to a heartbeat described them. */
struct neighbours {
    struct node_neighbour nodes[NODE_NEIGHBOURS_MOST]; /* as are the next four under shared.lock */
    int64_t same_since_us[NODE_NEIGHBOURS_MOST];       /* watched time since which each has had that number of heartbeats */
    int64_t watched_us;                                /* up to the last answer; a delay counts as one interval */
    size_t count;
    char server[SERVER_IDENTITY_MAX];   /* that answered */
    atomic_bool is_node_lost;           /* there is something to recover */
    _Atomic int64_t others_reported_us; /* boot time of the last answer about other nodes */
    _Atomic int64_t answered_us;        /* boot time of the last answer to a heartbeat or a registration */
    _Atomic int64_t began_us;           /* boot time of the registration */
    _Atomic int64_t trusted_until_us;   /* boot time; before it no lease that is over proves anything, after a delay */
};

/* --- the dispatch loop --- */

/* The text of a workflow's version, and the two fields of it that the starter needs. */
struct cached_definition {
    int64_t id;
    char *text;
    int starts_max;
    int64_t stuck_after_us;
};

/* A lock of the table `shedlock`, held or not, by this node (shedlock.h). */
struct shedlock {
    const char *name;
    int64_t at_most_us;
    int64_t at_least_us;
    char holder[HOLDER_MAX]; /* unique per acquisition */
    bool held;
    int64_t until_boot_us; /* our own deadline, measured from before the acquire was sent */
    int64_t again_boot_us; /* when to try again or to extend */
};

/* Why an assigned item goes back to the queue. */
enum unstartable_reason { UNSTARTABLE_OUT_OF_MEMORY, UNSTARTABLE_NOT_STARTING };

/* Assigned items that this node gives back instead of starting them. */
struct unstartable {
    struct assignment_batch *batch; /* NULL = there is nothing; else one reference */
    int64_t node_id;                /* under which they were assigned */
    const struct claimed_item *items;
    size_t count;
    enum unstartable_reason reason;
};

/* How many executions this node ends on record in a time: whether its own room is soon free (capacity_renews_soon()). */
struct turnover {
    int64_t since_boot_us;
    size_t ended;
    bool is_quick; /* of the last complete time */
};

/* The role of the scheduler, and its state between two rounds. */
struct scheduling {
    struct scheduler *scheduler;
    int64_t epoch;                     /* 0 = this node does not schedule */
    bool is_loaded;                    /* all facts of this epoch are in memory */
    bool has_news;                     /* the books are behind */
    bool has_own_news;                 /* of the last round itself: the next round is the first that may have it folded */
    struct early_ends early;           /* slots that records of this node gave back before their news */
    int64_t generation;                /* of these records, the last one; no other epoch uses it again */
    struct turnover turnover;          /* of the own node */
    unsigned needs;                    /* enum schedule_need: the needs that the news named */
    int64_t due_us;                    /* store time at which the next waiting item becomes due; TIME_NEVER = none */
    int64_t renewed_boot_us;           /* the lease */
    int64_t nodes_boot_us;             /* when the nodes are read again, news or not */
    int64_t publish_boot_us;           /* of the books, at the earliest */
    int64_t skip_locked_until_boot_us; /* until then a round does not await rows that other transactions hold */
    struct assignment *assignments;    /* SCHEDULE_SET_MOST */
    struct lone_offer lone;            /* of the round that is under way */
    struct lane_read *reads;           /* SCHEDULER_READS_MOST */
    struct lane_pass *passes;          /* SCHEDULE_SET_MOST */
    int64_t orphans[ORPHANS_MOST];
};

struct node_inbox {
    struct inbox_position position;
    bool is_due;       /* the inbox may hold items that no round brought */
    int64_t poll_us;   /* where the store cannot wake this node: the time until the next read */
    bool has_requests; /* cancels or signals wait to be passed to the engine */
};

struct dispatcher {
    struct scheduling scheduling;
    struct node_inbox inbox;
    struct unstartable unstartable;
    struct cached_definition definitions[DEFINITIONS_MOST];
    struct shedlock exclusive; /* of dispatch.exclusive */
    int64_t node_id;           /* the node's id at the last step of the dispatcher */
    int64_t store_ahead_us;    /* store time minus boot clock, rather too small */
    int64_t next_poll_boot_us;
};

struct shutdown {
    int64_t began_boot_us;     /* 0 = it has not begun */
    int64_t interrupt_boot_us; /* 0 = the node has interrupted nothing */
    int64_t next_cancels_us;   /* when cancels are read next */
    atomic_bool interrupted;   /* an execution had to be interrupted */
    atomic_bool goes_on;       /* the engine could not end an execution */
    atomic_size_t left_behind; /* executions that the stop could not give back */
};

/* --- the record loop --- */

/* Reports of starts and of ends of sleeps have lists of their own, because they wait. An execution that ends meanwhile
 * needs no record of its start, and no write of its own for the sleep. */
struct report_queue {
    pthread_mutex_t lock;
    struct report *first;
    struct report **last;
    struct report *first_start; /* oldest first */
    struct report **last_start;
    struct report *first_step; /* ends of sleeps, oldest first */
    struct report **last_step;
    size_t count;  /* of all */
    size_t urgent; /* of them, those that do not wait for more */
};

struct report_list {
    struct report *first; /* NULL = the list is empty, and `last` means nothing */
    struct report *last;
};

/* Reports that the store left out of a set because their rows were locked, those of an execution in their order. */
struct blocked_reports {
    struct report_list waiting;
    struct report_list blocked_again; /* in the round that is under way */
    size_t count;                     /* with those of the present set */
    int64_t again_boot_us;            /* when the next round begins */
    bool is_round;
    bool is_set; /* the present set consists of them */
};

struct recorder {
    struct report_queue reports; /* any thread */
    struct report **batch;       /* the present set; RECORD_BATCH_MOST */
    struct record *records;
    size_t *record_of; /* for each report the index of its record + 1; 0 = none */
    struct recorded *answers;
    size_t batch_count;
    struct blocked_reports blocked;
    bool blocked_had_turn;            /* the last set was of blocked reports: new reports go before the next */
    atomic_bool is_recording;         /* a set was taken and is not settled, or reports are blocked */
    _Atomic int64_t failing_since_us; /* boot time of the first call of those in a row that failed; 0 = none */
};

/* --- logs --- */

struct node_logs {
    struct log_buffer buffer;
    _Atomic int64_t due_us; /* boot time of the next write; TIME_NEVER = nothing is pending */
    int64_t again_us;       /* the record loop: no write before, because the last one failed */
    int64_t lost_bytes;     /* not reported yet; the duties loop */
    int64_t next_notice_us; /* of lost output */
    int64_t next_retention_us;
};

/* --- progress --- */

struct node_progress {
    struct progress_buffer buffer;
    _Atomic int64_t due_us; /* boot time of the next write; TIME_NEVER = nothing is due */
};

/* --- the heartbeat loop --- */

struct heartbeat {
    struct life life;
    struct engine_target target;               /* the one that the store has, if shared.has_target */
    enum not_accepting reported_not_accepting; /* by the last heartbeat */
    size_t reported_capacity;                  /* by the last heartbeat */
    int64_t offered_us;                        /* boot time of the last record of its handlers */
    int64_t seen_beats;                        /* heartbeats that were answered under this id */
};

/* --- the loop of the duties --- */

/* The history: the interval that the next row has. */
struct history_duty {
    int64_t next_us;              /* boot time of the next row */
    bool folds;                   /* there may be more to fold */
    int64_t since_us;             /* store time; 0 = no interval has begun */
    int64_t completed;            /* at that time */
    int64_t failed;               /* likewise */
    int64_t cancelled;            /* likewise */
    struct history_point pending; /* starts and waits that were taken from the dispatch loop */
};

struct archive_duty {
    int64_t next_us;        /* boot time; 0 = the loop has not begun */
    int64_t next_report_us; /* of a failure */
    size_t batch;           /* executions of the next set; 0 = the most */
    bool in_pass;
    bool is_whole;                 /* the pass begins with the first id */
    int64_t next_whole_us;         /* boot time; 0 = the first pass */
    char moved_to[UUID_TEXT_MAX];  /* the pass goes on behind it */
    char passed_to[UUID_TEXT_MAX]; /* the end of the last pass; "" = there was none */
};

/* All times on the boot clock. */
struct maintenance {
    struct shedlock stale_lock;
    struct shedlock retention_lock;
    int64_t next_recovery_us;
    int64_t recovery_waits_until_us; /* the last recovery found only rows that other transactions hold */
    int64_t next_stale_us;
    int64_t store_ahead_us;  /* store time minus boot clock at the last look for old claims */
    int64_t steady_since_us; /* since then the store's clock was not set forward; TIME_NEVER = not looked at yet */
    int64_t next_stuck_us;
    int64_t next_retention_us;
    int64_t next_capacity_us;
    int64_t next_audit_us;
    int64_t next_stream_us;
    int64_t next_hooks_us;
    int64_t next_hook_look_us;
    bool hook_events_wait; /* at the last look, or it failed */
    int64_t next_hook_trim_us;
    struct hook_notice { /* of a refused enqueue; hook_id 0: none */
        int64_t hook_id;
        int64_t next_us;
    } hook_notices[HOOKS_MOST];
    bool had_schedules_role;           /* at the last step of schedule_duty.c this node had the scheduler's role */
    char failed_cancel[UUID_TEXT_MAX]; /* of an overlap policy, the last one; "" = none */
    int64_t next_children_us;
    int64_t next_child_fault_us; /* the earliest report of a child_duty.c fault */
    int64_t next_schedules_us;
    int64_t next_schedule_news_us;
    struct history_duty history;
    struct archive_duty archive;
    char purged_to[UUID_TEXT_MAX];
    int64_t kept_count;         /* executions that the present pass of the retention could not remove */
    int64_t next_whole_look_us; /* of the retention, also at ids of a time to come */
    size_t purge_batch;         /* executions of one call: fewer after a call that failed */
    atomic_size_t stuck_count;  /* any thread */
};

/* --- the threads --- */

struct node_loop {
    pthread_t thread;
    int wake_fd;
    atomic_bool is_woken; /* any thread */
    int64_t writes_owed;  /* wakes that the loop has taken and has not read from wake_fd yet */
    int64_t retry_us;     /* after a failed call of the store the loop waits until then ... */
    int64_t backoff_us;   /* ... and this long the next time */
};

struct node_threads {
    struct node_loop loops[LOOP_COUNT];
    bool are_running;
    atomic_bool closing;
    int group_fd; /* epoll over all, for node_fd() */
};

struct node {
    /* set by node_open() and not changed afterwards */
    struct node_settings settings; /* with the defaults filled in; the settings of `tuning` are not read here */
    char name[NODE_NAME_MAX + 1];
    char group[GROUP_NAME_MAX + 1];
    char boot_id[128];
    char *handlers;                       /* a JSON array of names, or NULL = none; under shared.lock */
    char language[NODE_LANGUAGE_MAX + 1]; /* "" = C */
    const struct clock *clock;
    struct engine *engine;
    struct event_bus *events;
    struct store *stores[LOOP_COUNT];

    struct node_tuning tuning;
    struct node_shared shared;
    struct engine_health engine_health;
    struct loop_failure dispatch_failure;
    struct loop_failure record_failure;
    struct neighbours neighbours;
    struct slot_demand slot_demand; /* it has a lock of its own */
    struct dispatcher dispatcher;
    struct shutdown shutdown;
    struct recorder recorder;
    struct node_logs logs;
    struct node_progress progress;
    struct heartbeat heartbeat;
    struct maintenance maintenance;
    struct node_threads threads;
};

static inline int64_t node_now(const struct node *node)
{
    return clock_boot(node->clock);
}

enum { BEATS_PER_LEASE = 3 };
/* Between two heartbeats. */
static inline int64_t beat_interval(const struct node *node)
{
    return node->settings.lease_us / BEATS_PER_LEASE;
}

/* By the clock of this node, counted from before the heartbeat was sent: false some time before another node may take the
 * claims over. */
static inline bool lease_is_valid(const struct node *node)
{
    return node_now(node) < atomic_load(&node->shared.lease_end_boot_us);
}

static inline int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
