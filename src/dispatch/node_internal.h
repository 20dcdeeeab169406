/* The inside of a node, shared by its loops; see node.h for what they do. Only files of src/dispatch include this.
 *
 * Locks: `lock` protects the table of what is in flight, the breaker and the flags below it; it is never held during a call
 * of the store or the engine. The queue of reports has a lock of its own, because engines report while they hold theirs.
 * `start_lock` makes one of "is this claim still ours?" and the start that follows, so that whoever finds the lease lost
 * abandons every start of the time before; it is taken before `lock` and never held during a call of the store.
 */
#ifndef WEIR_DISPATCH_NODE_INTERNAL_H
#define WEIR_DISPATCH_NODE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "dispatch/in_flight.h"
#include "dispatch/life.h"
#include "dispatch/node.h"
#include "dispatch/slot_demand.h"
#include "queue/breaker.h"
#include "queue/retry.h"

enum {
    DEFINITIONS_MOST = 64, /* texts kept by the dispatcher */
    HOLDER_MAX = 256,
    SCHEDULE_SET_MOST = 1000, /* assignments of one round */
    ORPHANS_MOST = 16         /* lanes without a workspace, of one round */
};
#define INBOX_POLL_FIRST_US ((int64_t)50000) /* where the store cannot wake a node; doubles while nothing comes */
#define LOOP_RETRY_FIRST_US ((int64_t)50000)
#define LOOP_RETRY_MOST_US ((int64_t)1000000)
#define ROOM_LOOK_US ((int64_t)500)      /* to the engine that is about to let go what has ended */
#define STOP_LAST_US ((int64_t)10000000) /* after an interrupt: then what is left is handed over */
#define STOP_AWAY_US ((int64_t)3000000)  /* when no record is taken for so long, an interrupted node waits no more */

enum loop { LOOP_DISPATCH, LOOP_RECORD, LOOP_HEARTBEAT, LOOP_DUTIES, LOOP_COUNT };

struct kept_definition {
    int64_t id;
    char *text;
    int attempts_max;
    int64_t stuck_after_us;
};

/* A lock of the spec, held or not, by this node. */
struct held_lock {
    const char *name;
    int64_t at_most_us;
    int64_t at_least_us;
    char holder[HOLDER_MAX]; /* unique per acquisition */
    bool held;
    int64_t until_boot_us; /* our own deadline, measured from before the acquire was sent */
    int64_t again_boot_us; /* when to try again or to extend */
};

/* Starts wait a moment beside the others: an execution that ends meanwhile needs no write that says it was started. */
struct report_queue {
    pthread_mutex_t lock;
    struct report *first;
    struct report **last;
    struct report *first_start; /* oldest first */
    struct report **last_start;
    size_t count;  /* of both */
    size_t urgent; /* of them, those that do not wait for more */
};

struct report_list {
    struct report *first; /* NULL = it is empty, and `last` means nothing */
    struct report *last;
};

/* What the store left out, each execution's words in their order (blocked_reports.c). */
struct held_reports {
    struct report_list waiting;
    struct report_list left_out; /* of the round that is under way */
    size_t count;                /* with those that are in a set just now */
    int64_t again_boot_us;       /* when the next round begins */
    bool is_round;
    bool is_set; /* the set that is being written is of them */
};

/* The settings that node_tune() may change while the loops read them. */
struct node_tuning {
    atomic_size_t claim_batch;
    _Atomic int64_t poll_interval_us;
    _Atomic int64_t stuck_after_us;
    _Atomic int64_t stale_claim_us;
    _Atomic int64_t stale_check_us;
    _Atomic int64_t retention_us;
    _Atomic int64_t stop_grace_us;
    atomic_int attempts_max;
};

/* Why an assigned item goes back to the queue. */
enum unkept_reason { UNKEPT_OUT_OF_MEMORY, UNKEPT_NOT_STARTING };

/* What was assigned to this node and is given back instead of started. */
struct unkept {
    struct claim_batch *batch; /* NULL = there is nothing; else one reference */
    int64_t node_id;           /* under which it was claimed */
    const struct claimed_item *items;
    size_t count;
    enum unkept_reason reason;
};

/* The role of the scheduler and what goes with it (scheduling.c). */
struct scheduling {
    struct scheduler *scheduler;
    int64_t epoch;                     /* 0 = this node does not schedule */
    bool is_loaded;                    /* all facts of this epoch are in memory */
    bool has_news;                     /* the books are behind */
    unsigned needs;                    /* enum schedule_need: what the news asked for */
    int64_t due_boot_us;               /* when the next waiting item becomes due; TIME_NEVER = none */
    int64_t renewed_boot_us;           /* the lease */
    int64_t nodes_boot_us;             /* when the nodes are read again, news or not */
    int64_t publish_boot_us;           /* of the books, at the earliest */
    int64_t skip_locked_until_boot_us; /* rows that others hold are not awaited until then */
    struct assignment *assignments;    /* SCHEDULE_SET_MOST */
    struct lane_read *reads;           /* SCHEDULER_READS_MOST */
    struct lane_pass *passes;          /* SCHEDULE_SET_MOST */
    int64_t orphans[ORPHANS_MOST];
};

struct node_inbox {
    struct inbox_position position;
    bool is_due;     /* something may be in it that no round brought */
    int64_t poll_us; /* where the store cannot wake this node: how long until the next look */
};

struct node {
    struct node_settings settings; /* with the defaults filled in; what `tuning` holds is not read here */
    struct node_tuning tuning;
    char name[NODE_NAME_MAX + 1];
    char group[GROUP_NAME_MAX + 1];
    char boot_id[128];
    struct life life;
    const struct clock *clock;
    struct engine *engine;
    struct event_bus *events;
    struct store *stores[LOOP_COUNT];
    _Atomic int64_t id;

    pthread_mutex_t start_lock;
    pthread_mutex_t register_lock; /* over a registration, and over `leaves` becoming true: none comes after it */
    pthread_mutex_t lock;
    struct in_flight_table in_flight;
    struct breaker breaker;
    char engine_error[WEIR_ERROR_MESSAGE_MAX];      /* the last one, while the breaker is not closed */
    char engine_impairment[WEIR_ERROR_MESSAGE_MAX]; /* why ends may be seen late; "" = they are not */
    struct random random;
    struct weir_error failure; /* why it is not healthy */
    bool unhealthy;
    struct node_neighbour neighbours[NODE_NEIGHBOURS_MOST]; /* as the last heartbeat's answer told */
    size_t neighbour_count;

    struct report_queue reports;
    struct slot_demand slot_demand;

    /* flags, any thread */
    atomic_bool paused;       /* node_pause() */
    atomic_bool schedules;    /* this node has the scheduler's role */
    atomic_bool awaits_room;  /* there is work, and the engine had no room for it */
    atomic_int desired_state; /* enum desired_state, by an operator */
    atomic_bool lease_lost;
    atomic_bool has_target; /* the store has the engine's target: before, this node gets nothing */
    atomic_int stop_kind;   /* 0 = none, else 1 + enum node_stop_kind */
    atomic_bool leaves;     /* the store is being told that the node stops: it registers no more */
    atomic_bool stopped;
    atomic_bool interrupted;
    atomic_size_t left_behind;             /* executions that a stop could not give back */
    _Atomic int64_t records_fail_since_us; /* boot time of the first call of those in a row that failed; 0 = none */
    atomic_size_t stuck;
    atomic_bool others_lost;           /* there is something to recover */
    _Atomic int64_t told_of_others_us; /* boot time of the last answer about the others */
    _Atomic int64_t lease_end_boot_us;
    _Atomic int64_t judges_from_us; /* boot time; takes nobody for dead before */

    /* of the dispatcher's loop alone */
    struct kept_definition definitions[DEFINITIONS_MOST];
    struct unkept unkept;
    struct held_lock exclusive;
    struct scheduling scheduling;
    struct node_inbox inbox;
    int64_t dispatch_id;    /* the node's id as the dispatcher last saw it */
    bool has_requests;      /* cancels wait to be passed to the engine */
    int64_t store_ahead_us; /* store time minus boot clock, as the last answer showed it */
    int64_t next_poll_boot_us;
    int64_t stop_began_boot_us;
    int64_t interrupt_began_boot_us;

    /* of the recorder's loop alone */
    struct report **batch; /* RECORD_BATCH_MOST */
    struct record *records;
    size_t *record_of; /* for each report the index of its record + 1; 0 = none */
    struct recorded *answers;
    size_t batch_count;
    struct held_reports held;
    bool held_had_turn;    /* the last set was of held ones: what is new goes before the next */
    atomic_bool recording; /* a set was taken and is not settled, or something is held */

    /* of the duties' loop alone */
    struct held_lock stale_lock;
    struct held_lock retention_lock;
    int64_t next_recovery_us;
    int64_t recovery_waits_until_us; /* the last recovery could take nothing of what is left */
    int64_t next_stale_us;
    int64_t next_stuck_us;
    int64_t next_retention_us;
    int64_t next_capacity_us;
    char purged_to[UUID_TEXT_MAX];

    _Atomic int64_t next_beat_us;
    struct engine_target target;               /* has_target: what the store has; of the heartbeat's loop */
    enum not_accepting reported_not_accepting; /* by the last heartbeat, of whose loop it is */
    size_t reported_capacity;                  /* the same */
    int64_t beat_seen_us;                      /* store time of that heartbeat; 0 = none under this id */
    int64_t retry_us[LOOP_COUNT];              /* a loop whose store call failed waits until then ... */
    int64_t backoff_us[LOOP_COUNT];            /* ... and this long the next time */

    /* threads */
    pthread_t threads[LOOP_COUNT];
    bool threads_run;
    atomic_bool closing;
    int wake_fds[LOOP_COUNT];
    atomic_bool woken[LOOP_COUNT];
    int64_t writes_owed[LOOP_COUNT]; /* of the loop alone: wakes that it has taken and whose write it has not read */
    int group_fd;                    /* epoll over everything, for node_fd() */
};

/* --- wake_up.c --- */
void loop_wake(struct node *node, enum loop loop);
/* Whether the loop was woken since the last call; afterwards its file descriptor is silent until the next wake. */
bool loop_take_wake(struct node *node, enum loop loop);
/* Sleeps until `until_boot_us` or a wake; the dispatcher's loop also wakes for other processes. */
void loop_sleep(struct node *node, enum loop loop, int64_t until_boot_us);
enum weir_status loop_fds_open(struct node *node, struct weir_error *error);
void loop_fds_close(struct node *node);

/* --- dispatcher.c --- */

/* Whether this node starts anything at all now. */
bool dispatcher_may_start(struct node *node);
/* How many items it takes now: its engine's room, one set at most, and what the breaker lets through. */
size_t dispatcher_room(struct node *node, int64_t now_us);
/* How many it can hold at once, those that it holds included (node_beat.capacity). */
size_t dispatcher_capacity(struct node *node);
/* Arranges that the dispatcher runs again when there may be room. */
void dispatcher_await_room(struct node *node, int64_t now_us, int64_t *ret_next_us);

/* --- starter.c --- */

/* Starts what was claimed under `node_id`; keeps a reference on the batch for each item until its start is answered. */
void starter_start(struct node *node, int64_t node_id, struct claim_batch *batch, const struct claim_result *result);
/* Sends unanswered starts whose time has come again; returns when the next one is due. */
int64_t starter_send_again(struct node *node, int64_t now_us);

/* --- scheduling.c --- */

WEIR_MUST_CHECK enum weir_status scheduling_open(struct scheduling *scheduling, struct weir_error *error);
void scheduling_close(struct scheduling *scheduling);
/* Takes the role when it is free and this node may have it. Losing a race for it is WEIR_OK. */
WEIR_MUST_CHECK enum weir_status scheduling_seek(struct node *node, const struct role_state *role,
                                                 struct weir_error *error);
/* One round, for a node with the role. */
WEIR_MUST_CHECK enum weir_status scheduling_step(struct node *node, int64_t now_us, int64_t *ret_next_us,
                                                 struct weir_error *error);
/* The role is over, or in doubt; forgets all facts. Without the role nothing. */
void scheduling_lose(struct node *node, const char *reason);
/* Gives the role up, so that another node can take it at once. */
void scheduling_leave(struct node *node);

/* --- inbox.c --- */

WEIR_MUST_CHECK enum weir_status inbox_step(struct node *node, int64_t now_us, int64_t *ret_next_us,
                                            struct weir_error *error);
/* Passes cancels on to the engine when some wait. */
WEIR_MUST_CHECK enum weir_status inbox_pass_requests(struct node *node, struct weir_error *error);
/* These came by a round: the inbox need not show them again. */
void inbox_passed(struct node *node, const struct claim_result *claimed);
/* The node has a new id, or will have. */
void inbox_reset(struct node *node);

/* --- what each loop does, once --- */
int64_t dispatcher_step(struct node *node);
int64_t stop_step(struct node *node, int64_t now_us, enum node_stop_kind kind); /* the dispatcher's, once a stop began */
int64_t recorder_step(struct node *node);
int64_t nodes_step(struct node *node);
int64_t duties_step(struct node *node);

/* True when the loop must wait after a failed store call; *ret_until_us says how long. */
bool loop_is_backing_off(struct node *node, enum loop loop, int64_t now_us, int64_t *ret_until_us);
/* A store call of the loop failed: backs off, and marks the node unhealthy when it cannot get better by waiting. */
int64_t loop_failed(struct node *node, enum loop loop, int64_t now_us, enum weir_status status,
                    const struct weir_error *error);
void loop_succeeded(struct node *node, enum loop loop);

/* Whether another request than the last one of `sends` can have reached the engine: one under this claim that was never
 * answered, or one under a dead node's claim to an engine that outlives nodes. Under the node's lock. */
bool in_flight_may_run(const struct node *node, const struct in_flight *entry, int sends);

/* False while the breaker holds all starts back, the probe included. */
bool node_may_reach_engine(struct node *node, int64_t now_us);

/* Whether somebody under a dead node's claim may have started it: the engine outlives nodes. */
bool item_may_run_elsewhere(const struct node *node, const struct claimed_item *item);

/* Keeps assigned items that will not be started until they are given back; needs no memory. There is nothing from before.
 */
void unkept_add(struct node *node, int64_t node_id, struct claim_batch *batch, const struct claimed_item *items,
                size_t count, enum unkept_reason reason);
/* Gives it back to the queue, so that it need not wait for the safety net; without anything WEIR_OK. What is not told this
 * time is told by the next call; the store's errors. */
enum weir_status unkept_give_back(struct node *node, struct weir_error *error);
/* Forgets it: the claims are over, or the node is. */
void unkept_drop(struct node *node);

/* --- blocked_reports.c, for the recorder --- */
/* Of a set of what is new: what has words that wait waits behind them. */
void held_keep_order(struct node *node, int64_t now_us);
/* When there is a set of them to be tried; TIME_NEVER without any. */
int64_t held_next(const struct node *node, int64_t now_us);
/* The next set of the round, which begins if none is under way. It may be empty. */
void held_take(struct node *node);
/* Of the set that was written: this one was left out, and is taken. */
void held_leave_out(struct node *node, struct report *report, int64_t now_us);
/* And this one was not; before its execution may be forgotten. */
void held_settled(struct node *node, const struct report *report);
void held_set_is_over(struct node *node, int64_t now_us);
void held_drop(struct node *node);

/* The sink of the engine's reports. */
void recorder_report(void *context, struct report *report);
/* Frees what is queued or taken. */
void recorder_drop_all(struct node *node);
bool recorder_is_empty(struct node *node);

/* Takes, or goes on holding, a lock of the spec. True when it is ours now. */
bool lock_hold(struct node *node, struct store *store, struct held_lock *lock, int64_t now_us);
void lock_drop(struct node *node, struct store *store, struct held_lock *lock);

static inline int64_t node_now(const struct node *node)
{
    return clock_boot(node->clock);
}

/* By our own clock, from before the beat was sent: false some time before others may take our claims over. */
static inline bool lease_is_valid(const struct node *node)
{
    return node_now(node) < atomic_load(&node->lease_end_boot_us);
}

static inline int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
