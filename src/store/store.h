/* The interface of the stores (SQLite, PostgreSQL, a server over HTTP): verbs of the queue's own language, no CRUD.
 *
 * Every write is one transaction of its own, short, with a deadline. Every write to a claimed item is conditional on its
 * fence. Slots are counted in a guarded row, in the same transaction as the state change. The store has the clock: no
 * caller passes "now". The files of src/store/ wrap each verb once: check arguments, measure, emit one event, call the
 * driver; so all drivers behave, log and count alike. One conformance suite (tests/conformance) runs on every driver.
 *
 * Threads: a struct store is a cheap handle for one thread at a time. Memory: the results of a verb live in the arena of
 * the caller. Errors: outputs are untouched on failure. TRANSIENT: nothing was changed, repeat. UNKNOWN
 * (WEIR_COMMIT_UNKNOWN): repeat is safe for every verb, because ids, fences and lock holders are the caller's. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/uuid.h"
#include "queue/engine_target.h"
#include "queue/item.h"
#include "queue/limits.h"
#include "queue/scheduler.h"
#include "queue/step.h"
#include "store/archive.h"
#include "store/bulk.h"
#include "store/children.h"
#include "store/history.h"
#include "store/hooks.h"
#include "store/key_mode.h"
#include "store/logs.h"
#include "store/schedules.h"
#include "store/settings.h"
#include "store/signals.h"
#include "store/states.h"
#include "store/stream.h"
#include "store/tokens.h"
#include "weir/status.h"

struct store;
struct event_bus;

struct store_options {
    const char *url; /* "sqlite:PATH", "postgres://...", "http://HOST:PORT"; a bare path is taken as SQLite */
    bool create;     /* make the file when it is missing (the schema is migrate's business) */
    bool read_only;
    int64_t deadline_us;       /* of every call; 0 = STORE_DEADLINE_US */
    const struct clock *clock; /* NULL = the machine's */
    struct event_bus *events;  /* may be NULL */
    struct uuid_source *uuids; /* NULL = the process's; the simulation passes a seeded one */
    /* Of a server (http://, https://, unix:); copied. */
    const char *token_file; /* base/bearer_token.h; NULL = the variables WEIR_TOKEN_FILE, WEIR_TOKEN; else no token */
    const char *ca_file; /* the certificates of authorities to trust; NULL = the variable WEIR_CA_FILE, else the system's */
};

enum store_feature {
    STORE_SHARED = 1 << 0,        /* several machines may use it */
    STORE_WAKES = 1 << 1,         /* store_wake_fd() becomes readable when another process has changed something ... */
    STORE_TELLS_OF_WORK = 1 << 2, /* ... and only when there may be something to claim */
    STORE_IS_SERVER = 1 << 3,     /* another process runs the verbs: no nodes, and its answers are not changed again */
};

/* --- opening --- */

/* Opens without looking at the schema beyond "is this ours". Errors: WEIR_INVALID_ARGUMENT (URL),
 * WEIR_STORE_UNREACHABLE (missing, directory, rights), WEIR_STORE_NOT_WEIR, WEIR_STORE_CORRUPT. WEIR_SCHEMA_MISSING,
 * _OLDER and _NEWER, unless `options->create` or the handle is only used for store_migrate(), store_plan() and
 * store_check(). */
WEIR_MUST_CHECK enum weir_status store_open(const struct store_options *options, struct store **ret_store,
                                            struct weir_error *error);
/* Another handle on the same store, for another thread. */
WEIR_MUST_CHECK enum weir_status store_open_again(const struct store *store, struct store **ret_store,
                                                  struct weir_error *error);
/* Takes NULL. */
void store_close(struct store *store);
/* "sqlite:/abs/path", without secrets. */
const char *store_url(const struct store *store);
/* Any URL of a store as it may be shown: without its password, also when it is wrong. Cut when `size` is short. */
void store_url_shown(const char *url, char *to, size_t size);
/* Whether a text without a scheme is meant as anything but a path. That is libpq's keyword form, a URL that lost its
 * colon, or SQLite's ":memory:" and "file:". The first two may hold a password, which must not become the name of a
 * file. */
bool store_url_is_no_path(const char *url);
unsigned store_features(const struct store *store);
/* Fails with WEIR_SCHEMA_MISSING, _OLDER, _NEWER and a hint with the command that mends it. */
WEIR_MUST_CHECK enum weir_status store_require_schema(struct store *store, struct weir_error *error);

struct store_migration {
    int version;
    const char *name; /* "0001_create_queue" */
    const char *sql;
    bool applied;
};
/* How far a call that may take long is: `done` of `total` pages, checks or migrations, beginning with 0 and ending with all
 * of them. In the caller's thread; must be quick and leave the store alone. False: stop; a check and a backup then answer
 * WEIR_INTERRUPTED and leave nothing behind. A migration goes on to its end. */
typedef bool store_progress(void *context, int64_t done, int64_t total);
/* For store_migrate(), store_check(), store_backup() and the deletion and erasure of workspaces, which stop between two
 * transactions, by this handle. NULL: no listener. */
void store_set_progress(struct store *store, store_progress *progress, void *context);
/* From now on an enqueue of this handle answers WEIR_STORE_BUSY after so long a wait for another transaction. That is an
 * open one that holds a key, an id or a workspace. On SQLite no program holds one of them alone. */
void store_limit_enqueue_wait(struct store *store, int64_t most_us);
/* Each other call then answers WEIR_STORE_BUSY after so long a wait for a row that an open transaction of another program
 * holds. To be called before all others. Without effect on SQLite, and behind a pooler that refuses options. */
void store_limit_lock_wait(struct store *store, int64_t most_us);

/* The migrations and which of them are applied; never changes anything. */
WEIR_MUST_CHECK enum weir_status store_plan(struct store *store, struct arena *arena,
                                            const struct store_migration **ret_migrations, size_t *ret_count,
                                            struct weir_error *error);
/* Applies the missing migrations, each in a transaction of its own, resumable; those of a new SQLite file all in one.
 * `ret_applied` counts them (may be NULL). */
WEIR_MUST_CHECK enum weir_status store_migrate(struct store *store, int *ret_applied, struct weir_error *error);
/* Integrity of the file and of the queue: counters equal rows, every reference holds, lanes ready when they must be.
 * Problems come as a JSON array of strings, [] when all is well. */
WEIR_MUST_CHECK enum weir_status store_check(struct store *store, json_t **ret_problems, struct weir_error *error);
/* A consistent copy while nodes work. Never overwrites: WEIR_CONFLICT when the target exists. */
WEIR_MUST_CHECK enum weir_status store_backup(struct store *store, const char *path, struct weir_error *error);
/* The store's time, microseconds since 1970. */
WEIR_MUST_CHECK enum weir_status store_time(struct store *store, int64_t *ret_now_us, struct weir_error *error);

/* --- enqueue --- */

struct enqueue_request {
    const char *workspace;
    const char *workflow;
    const char *params; /* JSON object text; NULL = {} */
    size_t params_length;
    const char *idempotency_key; /* NULL = none */
    enum key_mode key_mode;      /* not KEY_ONCE: needs a key */
    int64_t debounce_us;         /* KEY_DEBOUNCE: the start is so long after the last request of the key */
    int64_t debounce_most_us;    /* but at most so long after the first; 0 = DEBOUNCE_WINDOWS times debounce_us */
    bool is_unbounded;           /* max_pending of the workspace does not hold: a child of an accepted execution */
    bool is_of_all;              /* the workflow is one without an owner, also if the workspace has its own of this name */
    bool has_reserved_key; /* it begins with HOOK_KEY_PREFIX or SCHEDULE_KEY_PREFIX, which other requests may not use */
    const struct schedule_firing *firing; /* refused unless it still waits: WEIR_ILLEGAL_STATE; NULL = it is none */
    const char *group;                    /* executor group; NULL = the definition's */
    const char *default_group;            /* where neither names one; NULL = "default" */
    int priority;
    int64_t run_at_us;       /* 0 = now; a past time is kept, and counts as at most RUN_AT_PAST_MOST_US ago for the order */
    const char *id;          /* NULL = made here; given when a lost answer is repeated */
    bool id_is_new;          /* the caller made `id` for this call, and no other call has used it */
    const char *traceparent; /* the W3C trace context of the caller (base/traceparent.h); NULL = none */
    const char *business_key; /* names what the execution is about, as order-17; not unique; NULL = none */
    const char *labels;       /* JSON object of texts (store/labels.h); before those of the definition; NULL = none */
};

struct enqueue_result {
    enum weir_status status; /* of this request alone */
    bool duplicate;          /* the key was known: `id` is the first one's */
    bool replaced;           /* an execution of the key that had not started was cancelled for this one */
    char id[UUID_TEXT_MAX];
    struct weir_error error;
};

/* Whether one request to enqueue is well-formed; whether its workspace and workflow exist is checked by the driver. Errors:
 * WEIR_INVALID_ARGUMENT, WEIR_INVALID_PARAMS, WEIR_PARAMS_TOO_LARGE, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status enqueue_request_check(const struct enqueue_request *request, struct weir_error *error);

/* How an executor group comes to be. */
#define GROUP_HOW                                                                                                          \
    "a node that serves it makes it (weir serve --executor-group NAME), or a published workflow that names it "            \
    "(executor_group)"
/* Fills `error`: there is no such group; the message names the first of `groups`, the hint the nearest and GROUP_HOW.
 * Returns WEIR_NOT_FOUND. */
enum weir_status group_refuse(const char *name, const char *const *groups, size_t count, struct weir_error *error);
/* The hint alone. */
void group_hint(const char *name, const char *const *groups, size_t count, struct weir_error *error);

/* One transaction for the whole set; a refused request changes no other one. WEIR_OK when the set was committed. */
WEIR_MUST_CHECK enum weir_status store_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                                               struct enqueue_result *results, struct weir_error *error);

/* The same, but all of the set or nothing. When one request is refused, nothing is enqueued, and the status is that of
 * the first refusal. Each result has its own status (WEIR_OK: it would have been enqueued). */
WEIR_MUST_CHECK enum weir_status store_enqueue_all(struct store *store, const struct enqueue_request *requests,
                                                   size_t count, struct enqueue_result *results, struct weir_error *error);

/* --- the items of a node --- */

/* The error code of an execution whose params are lost. It never starts: without its input it would do something else. */
#define PARAMS_LOST_CODE "params_lost"

struct claimed_item {
    char id[UUID_TEXT_MAX];
    const char *workspace;
    int weight; /* of its workspace */
    const char *workflow;
    int version;
    int64_t definition_id;
    int64_t lane_id;         /* PostgreSQL, of an assignment by this handle; else 0 */
    const char *params;      /* never NULL */
    size_t params_length;    /* 0 = PARAMS_LOST_CODE: the row has params, and they are not there */
    const char *traceparent; /* of the request; NULL = none */
    int64_t fence;
    int priority;              /* as enqueued */
    int starts_refused;        /* so far */
    int deferrals;             /* put back so far because no node could run it */
    int interruptions;         /* handovers, give-backs and parks so far; `steps` is filled if there are any */
    int interruptions_at_park; /* at the last park, it included, less those with attempts off record; 0 = none */
    bool is_suspect;           /* steps of it ran at deaths of nodes, and none has ended since (queue/suspicion.h) */
    bool lost_a_node;          /* it was handed over before, perhaps before its last park */
    bool assigned_before; /* refused, deferred, put back or handed over: it has waited for something else than a slot */
    bool handed_over;     /* this claim takes over from one that was lost or given back */
    bool others_wait; /* its workspace is full with this claim, and more of its lane could run; false: not, or not known */
    bool cancel_requested;
    int64_t created_at_us;
    int64_t run_at_us;
    int64_t woken_at_us; /* the end of its last wait in WAITING; 0 = none */
    int64_t claimed_at_us;
    int64_t running_for_us; /* since its first dispatch; 0 when it was not dispatched yet */
    const struct step_record *steps;
    size_t step_count;
    const struct signal_record *signals; /* those that no step has consumed, in the order of their numbers */
    size_t signal_count;
    int64_t signals_seen; /* the number of its last signal at the claim; 0 = there was none */
    bool keeps_no_signal; /* a step has consumed each of them; false: not, or not known */
};

/* Since when it could run: as enqueued, or since its last wait. Store time. */
static inline int64_t claimed_item_since_us(const struct claimed_item *item)
{
    int64_t since_us = item->run_at_us > item->created_at_us ? item->run_at_us : item->created_at_us;
    return item->woken_at_us > since_us ? item->woken_at_us : since_us;
}
/* The same of an item that is assigned for the first time; 0 for any other, which has waited for something else. */
static inline int64_t claimed_item_first_wait_us(const struct claimed_item *item)
{
    return item->assigned_before ? 0 : claimed_item_since_us(item);
}

struct claim_result {
    struct claimed_item *items; /* in the order in which they are to be started */
    size_t count;
    size_t handed_over; /* how many of them were taken over */
    int64_t now_us;     /* store time of the claim */
};

enum { SERVER_IDENTITY_MAX = 64 };

/* --- the scheduler's role --- */

/* One node schedules for all. Its epoch grows with each takeover; each assignment checks it, so a former scheduler that
 * goes on changes nothing (docs: ARCHITECTURE.md). The lease decides when another node may take the role; nothing depends
 * on its time. */
enum role_act {
    ROLE_READ, /* changes nothing */
    ROLE_TAKE, /* takes the role when it is free or already the caller's: a new epoch. Else WEIR_CONFLICT */
    ROLE_LEAVE /* gives it up, so that the next one need not wait for the lease. WEIR_OK also when it was lost before */
};

struct role_request {
    enum role_act act;
    int64_t node_id; /* 0 with ROLE_READ */
    int64_t epoch;   /* LEAVE */
    int64_t lease_us;
    /* TAKE: a node without its processes, as the caller has seen on its machine: its lease is not awaited. 0 = none */
    int64_t gone_node_id;
    const char *why; /* TAKE: for `node list` and `doctor`: "free", "lease over", ... or NULL */
};

struct role_state {
    int64_t epoch;   /* 0 = no node has ever scheduled */
    int64_t node_id; /* 0 = the role is free */
    char node[NODE_NAME_MAX + 1];
    int64_t since_us;   /* store time: of the present holder, or when it became free */
    int64_t expires_us; /* store time */
    int64_t now_us;     /* store time */
    /* TAKE would succeed: no node has it, its lease is over, its holder is dead or has left, or (PostgreSQL without a
     * pooler) its holder's session has ended. On a STORE_SHARED store a lease is over when this handle has seen the
     * role without a renewal for that time. The time is that of the boot clock of this machine, because the server's
     * clock may be set while nodes run. */
    bool is_free;
    int64_t free_from_us;             /* boot time at which it is free if it is not renewed; 0 = not known, or it is free */
    char server[SERVER_IDENTITY_MAX]; /* as in node_beat */
    int64_t takeovers_hour;           /* in the last hour */
};
WEIR_MUST_CHECK enum weir_status store_role(struct store *store, const struct role_request *request,
                                            struct role_state *ret_state, struct weir_error *error);

/* --- schedule --- */

enum { SCHEDULE_FACTS_MOST = 200000, NEWS_BATCH_MOST = 1000, BOOKS_BATCH = 10000 };

struct schedule_call {
    int64_t node_id;
    int64_t epoch;
    struct assignment *assignments; /* in the order in which they are to be started; `outcome` is set */
    size_t assignment_count;        /* at most CLAIM_BATCH_MOST */
    bool skip_locked;               /* rows that other transactions hold are ASSIGNMENT_LOCKED at once instead of awaited */
    struct lane_read *reads;        /* their lower parts are set */
    size_t read_count;              /* at most SCHEDULER_READS_MOST */
    unsigned needs;                 /* enum schedule_need: the reads beside the news */
    bool load;                      /* the first call of an epoch: all facts, and the point from which news is read */
    int64_t lease_us;               /* > 0: renews the lease of the role for this long from now, too */
    bool awaits_lock;               /* with lease_us: work waits, and another holder has the lock of dispatch.exclusive */
    const int64_t *orphans; /* lanes without a workspace: up to RECOVER_BATCH of their items end (workspace_not_found) */
    size_t orphan_count;
    const struct lone_offer *lone; /* NULL, or only news is wanted. If it is used: assignments[0] and its count */
};

struct schedule_answer {
    int64_t now_us; /* store time */
    bool requests;  /* a cancel or a signal waits for an execution of `node_id` */
    /* An act that the caller has not read prevented all assignments (ASSIGNMENT_UNDONE); `facts` brings it. */
    bool is_stale;
    struct claim_result claimed; /* the assignments of `node_id` itself, ready to be started */
    size_t assigned;             /* taken, over all nodes */
    struct orphan {
        char id[UUID_TEXT_MAX];
        int64_t workspace_id;
    } * orphans; /* items that ended because their workspace does not exist */
    size_t orphan_count;
    struct schedule_fact *facts; /* to be learnt after `reads` */
    size_t fact_count;
    /* Not asked for, perhaps none: the first heads of lanes with a new item, as reads that come after `facts`. */
    struct lane_read *news_reads;
    size_t news_read_count;
    bool more_news;      /* more than NEWS_BATCH_MOST entries waited: call again at once */
    int64_t next_due_us; /* of NEED_DUE and load, store time: when the next waiting item becomes due; TIME_NEVER = none.
                            Items that are due now have become runnable with this call, PROMOTE_BATCH at most: then it may
                            be past */
};
/* One round: assigns, conditional on the epoch; reads the news since the last round of this epoch on this handle; reads
 * heads. All or nothing, committed when it returns; reads only when there is nothing to write and no lease to renew.
 * Errors: WEIR_STALE_FENCE: another epoch. WEIR_COMMIT_UNKNOWN and every other error: doubt; take a new epoch and load. */
WEIR_MUST_CHECK enum weir_status store_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                                struct schedule_answer *ret_answer, struct weir_error *error);
/* Folds up to BOOKS_BATCH news rows of past rounds into the books (counters per lane) and stores `passes`. The sum of books
 * and news is exact before and after. *ret_more: news rows are left. Conditional on the epoch like store_schedule(). */
WEIR_MUST_CHECK enum weir_status store_publish_books(struct store *store, int64_t node_id, int64_t epoch,
                                                     const struct lane_pass *passes, size_t count, bool *ret_more,
                                                     struct weir_error *error);

/* --- the inbox --- */

/* Where a node has read to: fences only grow, and the assignments of a later round have a higher fence. */
struct inbox_position {
    int64_t fence;
    char id[UUID_TEXT_MAX]; /* the last one of that fence; "" = before all of it */
};

struct inbox {
    struct claim_result claimed; /* assigned to the node behind the position, in the order of their fences */
    bool more;                   /* the limit was reached */
    bool requests;               /* a cancel or a signal waits for an execution of this node */
    struct role_state role;      /* the node that schedules */
};
/* The assignments of this node, and whether any node schedules. `limit` 0: only the rest. Reads only.
 * *position moves behind the returned items. The base of a node's sleep. */
WEIR_MUST_CHECK enum weir_status store_inbox(struct store *store, int64_t node_id, struct inbox_position *position,
                                             size_t limit, struct arena *arena, struct inbox *ret_inbox,
                                             struct weir_error *error);

struct definition_text {
    int64_t id;
    const char *name;
    const char *text; /* canonical JSON */
    int version;
    const char *workspace; /* owner, or NULL */
};
/* WEIR_WORKFLOW_NOT_FOUND when it is gone. */
WEIR_MUST_CHECK enum weir_status store_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                                       struct definition_text *ret_definition, struct weir_error *error);

/* --- record --- */

/* X(enum, the event's name) */
#define RECORD_KIND_LIST(X)                                                                                                \
    X(RECORD_DISPATCHED, "dispatch")  /* CLAIMED -> DISPATCHED */                                                          \
    X(RECORD_RETRY, "retry")          /* CLAIMED -> PENDING after delay_us, starts_refused + 1 */                          \
    X(RECORD_DEFERRED, "defer")       /* CLAIMED -> PENDING after delay_us, deferrals + 1 (unknown handler ...) */         \
    X(RECORD_PUT_BACK, "put_back")    /* CLAIMED -> PENDING at once, no counter (unreachable, graceful stop) */            \
    X(RECORD_REFUSED, "refuse")       /* CLAIMED -> FAILED, starts_refused + 1 */                                          \
    X(RECORD_STEP, "step")            /* a step execution changed */                                                       \
    X(RECORD_COMPLETED, "complete")   /* -> COMPLETED, moved to the history */                                             \
    X(RECORD_FAILED, "fail")          /* -> FAILED, moved to the history */                                                \
    X(RECORD_CANCELLED, "cancel")     /* -> CANCELLED, moved to the history */                                             \
    X(RECORD_GIVEN_BACK, "give_back") /* graceful stop of running work: handed over at once, no start counted */           \
    X(RECORD_PARKED, "park")          /* DISPATCHED -> WAITING until delay_us is over or a signal comes; no counter */

enum record_kind {
#define RECORD_KIND_ENUM(id, name) id,
    RECORD_KIND_LIST(RECORD_KIND_ENUM)
#undef RECORD_KIND_ENUM
        RECORD_KIND_COUNT
};
const char *record_kind_name(enum record_kind kind);

struct record {
    enum record_kind kind;
    char id[UUID_TEXT_MAX];
    int64_t fence;
    bool dispatched_first;      /* an end or PARKED before DISPATCHED is on record: it counts as dispatched */
    bool taken_over;            /* it had an earlier claim (claimed_item.interruptions > 0), or that is not known */
    int64_t delay_us;           /* RETRY, DEFERRED, PARKED; of PARKED TIME_NEVER = until a signal comes */
    enum wait_kind waiting_for; /* PARKED */
    int64_t signals_seen;       /* PARKED: the number of the last signal that its engine has got. A later one wakes it */
    /* Durations before the record. The store takes them off its own time, and never goes back beyond the claim. */
    int64_t started_ago_us;         /* DISPATCHED, and with dispatched_first: since the engine reported the start */
    int64_t step_began_ago_us;      /* since the attempt of `step` began; -1 = it began with the execution */
    int64_t step_reported_ago_us;   /* since `step` ended, or began to wait. Not of an end */
    const struct step_record *step; /* STEP; the ends and PARKED may carry the last one; else NULL */
    const char *error_code;         /* or NULL */
    const char *error;              /* or NULL; kept up to ERROR_TEXT_MAX bytes */
    const char *actor;              /* of an end, alone in its set: the reporter, for its event; NULL = the engine */
    bool is_cancelled;              /* out: a requested cancel has ended the item in the place of a put-back or a park */
    enum weir_status status;        /* out */
};

enum { RECORD_REFUSAL_MAX = 400 };

struct record_summary {
    size_t changed; /* records that took effect */
    size_t slots_freed;
    size_t poisoned;                      /* GIVEN_BACK because of a killed keeper, and ended FAILED, code `poison` */
    bool work_waits;                      /* a lane of the freed slots has work that may start now: wake the dispatcher */
    size_t refused;                       /* items with a record that the store refused, WEIR_FAILED */
    char refusal[RECORD_REFUSAL_MAX + 1]; /* of the first of them; "" = none */
};

/* One transaction for the whole set, in its order; on SQLite several while short calls wait. `status` of a record:
 * WEIR_OK, WEIR_STALE_FENCE, WEIR_ILLEGAL_STATE, WEIR_EXECUTION_NOT_FOUND, WEIR_INVALID_ARGUMENT, WEIR_STORE_BUSY. The
 * same (id, fence, kind) again is answered WEIR_OK or _NOT_FOUND and changes nothing. So is PARKED when the wait is over.
 * GIVEN_BACK again is WEIR_STALE_FENCE, because giving back makes the fence grow. WEIR_STORE_BUSY: another transaction
 * holds its item or workspace, or the rest of a set failed. The record was left out with all later ones of its item, and
 * is to be repeated before them. WEIR_FAILED is likewise: the database refuses its rows, and the other records are
 * written. */
WEIR_MUST_CHECK enum weir_status store_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                                              struct record_summary *ret_summary, struct weir_error *error);

/* --- nodes and recovery --- */

/* Why a node claims nothing by its own decision, beside the orders of an operator; kept in its row for `why`. */
enum not_accepting { NODE_ACCEPTING, NOT_ACCEPTING_PAUSED, NOT_ACCEPTING_STOPPING };
/* "paused", "stopping"; NULL for NODE_ACCEPTING. */
const char *not_accepting_name(enum not_accepting not_accepting);

struct node_options {
    const char *name;
    const char *group;
    const char *host;
    const char *boot_id; /* of the machine; one that no other node has when unknown */
    const char *life;    /* proof that it runs on this machine, at most NODE_LIFE_MAX - 1 bytes; NULL or "" = none */
    long pid;
    long keeper_pid;
    const char *version;
    const char *engine;
    bool is_outlived; /* its executions live on without it (no ENGINE_DIES_WITH_NODE) */
    enum not_accepting not_accepting;
    bool starts_paused;                 /* unless an operator has ordered something else of it before a lost lease */
    size_t capacity;                    /* node_beat.capacity */
    const struct engine_target *target; /* NULL = not known yet: see store_node_target() */
    int64_t lease_us;
};
WEIR_MUST_CHECK enum weir_status store_node_start(struct store *store, const struct node_options *options,
                                                  int64_t *ret_node_id, struct weir_error *error);

/* Where the node runs executions, as soon as it knows. Items that are assigned to it from now on keep this target until
 * they end or are put back, and are only assigned to nodes with the same one. Before, they keep none: so a node without a
 * target must report the capacity 0. WEIR_STALE_FENCE: the node is dead or stopped. */
WEIR_MUST_CHECK enum weir_status store_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                                   struct weir_error *error);

/* The handlers of a node, as it has them from now on: the whole list takes the place of the one before. */
struct node_handlers {
    const char *language; /* of the handlers, like "python 3.11" or "HTTP"; NULL = C */
    const char *names;    /* a JSON array of names; "[]" = none */
};
enum { WAKE_BATCH = 1000 };
/* Records them, and makes up to WAKE_BATCH items due that wait because no node had their handlers and that this node can
 * run. *ret_more: more of them wait, call again. WEIR_STALE_FENCE: the node is dead or stopped. */
WEIR_MUST_CHECK enum weir_status store_node_handlers(struct store *store, int64_t node_id,
                                                     const struct node_handlers *handlers, bool *ret_more,
                                                     struct weir_error *error);

/* The orders of an operator to a node; kept in its row, answered with each heartbeat. */
enum desired_state { NODE_RUN, NODE_PAUSE, NODE_DRAIN, NODE_STOP };
const char *desired_state_name(enum desired_state desired_state);

enum { NODE_NEIGHBOURS_MOST = 200 };

/* A live node of the same group. One of the same machine, as its row has it, is dead before its lease ends, once its
 * processes are shown to be gone. */
enum { NODE_LIFE_MAX = 48 };
struct node_neighbour {
    int64_t id;
    int64_t beats; /* its heartbeats. While a node lives the number grows several times within its lease */
    int64_t lease_us;
    bool is_here; /* of the same machine */
    long pid;
    long keeper_pid;
    char life[NODE_LIFE_MAX];
};

struct node_beat {
    bool engine_reachable;      /* in: the state of the breaker */
    bool engine_impaired;       /* in: it is reached, and sees ends late */
    const char *engine_error;   /* in: why it is not reached, or is impaired, UTF-8; NULL = not known */
    int64_t dispatch_failed_us; /* in: for how long each step of its dispatch loop has failed; 0 = it does not */
    const char *dispatch_error; /* in: of the last one, UTF-8; NULL = it does not fail */
    int64_t record_failed_us;   /* in: the same of its records, or of one that the store refuses */
    const char *record_error;
    long keeper_pid;                  /* in: of now; one that was killed is replaced */
    size_t running;                   /* in: executions in the engine */
    size_t stuck;                     /* in: of these, stuck */
    enum not_accepting not_accepting; /* in */
    size_t capacity;    /* in: items that it can hold at once, those that it holds included; 0 = give it none */
    int64_t seen_beats; /* in: `beats` of the last answer under this id; 0 = there was none */
    enum desired_state desired_state; /* out */
    bool queue_paused;                /* out: the queue or the group is paused */
    int64_t now_us;                   /* out */
    int64_t beats;                    /* out: heartbeats under this id, with this one */
    /* Out, and only of a store that is STORE_SHARED: facts about the other nodes that the node would otherwise query. */
    bool others_lost; /* a node of the group is dead, or left something behind: store_recover has something to do */
    /* The server and its rows: another text after a restart, a promotion or a loaded backup, and then observations from
     * before prove nothing. */
    char server[SERVER_IDENTITY_MAX];
    size_t neighbour_count; /* of a large group a part, so that each node is watched by some */
    struct node_neighbour neighbours[NODE_NEIGHBOURS_MOST];
};
/* Renews the lease. WEIR_STALE_FENCE: it was lost. The node was declared dead, or its row lacks heartbeats that were
 * answered, because a backup was loaded. Other nodes have its claims: it abandons all and starts again with a new id. */
WEIR_MUST_CHECK enum weir_status store_node_beat(struct store *store, int64_t node_id, struct node_beat *beat,
                                                 struct weir_error *error);
/* The node leaves: the items that it still holds are handed over at once, claimed or running: the store cannot know whether
 * a start has left. Items that were surely never started the node puts back before, by RECORD_PUT_BACK. */
WEIR_MUST_CHECK enum weir_status store_node_stop(struct store *store, int64_t node_id, bool graceful,
                                                 struct weir_error *error);
/* Sets the desired state; WEIR_NOT_FOUND names the live nodes. `name` may be an id in digits. */
WEIR_MUST_CHECK enum weir_status store_set_desired_state(struct store *store, const char *name,
                                                         enum desired_state desired_state, struct weir_error *error);

/* A finding of the stuck watch of a node (dispatch/maintenance.h). */
struct stuck_mark {
    char id[UUID_TEXT_MAX];
    int64_t fence;
    int64_t stuck_for_us; /* it is stuck since so long; -1 = it is not stuck */
};
enum { STUCK_MARKS_MOST = 64 };
/* Records which executions are stuck and since when, in one transaction. A mark is valid under its fence only: it ends with
 * the claim, and changes nothing when the item has another fence. */
WEIR_MUST_CHECK enum weir_status store_mark_stuck(struct store *store, const struct stuck_mark *marks, size_t count,
                                                  struct weir_error *error);

/* A node that the caller has watched for the lease of that node, by the boot clock: it has sent no heartbeat. */
struct silent_node {
    int64_t id;
    int64_t beats; /* all the time; with another number in its row it lives */
};

struct recover_options {
    int64_t node_id; /* the node that does it; 0 = an operator */
    const char *group;
    const char *boot_id; /* of the asking node; nodes with the same one run on this machine. NULL = do not look */
    /* Whether the processes of such a node are gone: then it is dead before its lease ends. NULL = do not look */
    bool (*is_gone)(const struct node_neighbour *node);
    /* On a STORE_SHARED store these are dead, and no other one is because of its lease: the server's clock may be set while
     * nodes run. Other stores compare leases with a clock that cannot be set, and ignore them. */
    const struct silent_node *silent;
    size_t silent_count; /* at most NODE_NEIGHBOURS_MOST */
    const char *server;  /* node_beat.server while they were watched; another server ignores them */
    /* The nodes with this boot id count as alive, also when their leases are over. The calling node passes it when its own
     * heartbeat was late: the other nodes of its machine may have waited for the same store. "" = all nodes, NULL = none. A
     * STORE_SHARED store ignores it: it has `silent`. */
    const char *trusted_machine;
    /* Safety net: takes over items that are CLAIMED for longer than this; 0 = none. They are items that `node_id` holds and
     * does not know, because the answer to its claim was lost, and items of dead nodes. An item of another live node stays:
     * it could run twice, and its engine may be away for an hour. An operator (node_id 0) takes them all. */
    int64_t stale_claim_us;
    bool (*knows)(void *context, const char *id, int64_t fence); /* NULL = it knows none of them */
    void *knows_context;
    bool look_only; /* change nothing; `more` is set when there is something to do */
    size_t limit;   /* items per call, at most RECOVER_BATCH */
};
enum { RECOVER_NAMES_MOST = 16 };
struct recover_result {
    size_t handed_over;
    size_t poisoned;                                  /* ended FAILED, code `poison` */
    size_t nodes;                                     /* nodes found dead by this call */
    char dead[RECOVER_NAMES_MOST][NODE_NAME_MAX + 1]; /* the first ones of these by id */
    bool more;                                        /* call again */
};
/* Takes claims and executions of dead nodes away from them. The fence grows, so the dead node's late records change
 * nothing. The slot stays taken. The item waits (reason handed_over) for the next claim. In chunks.
 *
 * A handover counts when three things hold (queue/suspicion.h). A step of the item is on record as RUNNING under the claim
 * that is lost. The death of its node has stopped it (not node_options.is_outlived). The node held no other item, nor did
 * another node of its machine that the same call found dead. So an item that was only claimed, sleeps, waits or is between
 * two steps is never at fault. Nor is one that a node gives back or that ran beside another. The count begins anew when a
 * step of the item has ended since. With HANDOVERS_MAX counted ones the item ends FAILED, code `poison`. */
WEIR_MUST_CHECK enum weir_status store_recover(struct store *store, const struct recover_options *options,
                                               struct recover_result *ret_result, struct weir_error *error);

/* --- acts on record --- */

/* An act is a change that a person or a program orders: a pause, a plan, a cancel. Each act of a handle with an actor
 * is a row of `audit`, inserted in the transaction of the act. The row has time, actor, act, subject and reason, the
 * settings before and after the act, and the number of executions that it affected. */

/* Names the actor of the following acts of the handle, and their reason; both are copied, and may be NULL. Without an actor
 * the handle is that of a node: its calls are no acts, and nothing is recorded. WEIR_INVALID_ARGUMENT: longer than
 * ACTOR_MAX or REASON_MAX bytes, or no UTF-8. */
WEIR_MUST_CHECK enum weir_status store_act_as(struct store *store, const char *actor, const char *reason,
                                              struct weir_error *error);
/* Makes the actor of another handle that of this one, with `reason`; NULL = the reason of the other one. Errors as above.
 */
WEIR_MUST_CHECK enum weir_status store_act_for(struct store *store, const struct store *other, const char *reason,
                                               struct weir_error *error);
/* The settings before and after the last store_set_plan() or store_set_workspace() of this handle, if it has an actor: JSON
 * objects, NULL = there is or was none. The caller releases both. */
void store_last_change(const struct store *store, json_t **ret_before, json_t **ret_after);
/* Records an act that changes no row of the store, like a signal, before it is done. `detail`: a text for its key "after",
 * {"detail": ...}; NULL = none. WEIR_INVALID_ARGUMENT: a text is too long or not UTF-8, or the store itself records acts
 * of this name. */
WEIR_MUST_CHECK enum weir_status store_note_act(struct store *store, const char *act, const char *subject,
                                                const char *detail, struct weir_error *error);
enum { AUDIT_PURGE_MOST = 1000 };
/* Removes up to `limit` acts of the time before `before_us`. A pause that still holds stays on record. */
WEIR_MUST_CHECK enum weir_status store_purge_audit(struct store *store, int64_t before_us, size_t limit,
                                                   int64_t *ret_removed, struct weir_error *error);

/* --- locks (the shedlock table) --- */

struct lock_request {
    const char *name;
    /* Unique per acquisition. A node's is `name:process:node id:16 hex digits`: recovery frees the locks of dead nodes. */
    const char *holder;
    int64_t at_most_us; /* both at most LOCK_HELD_MOST_US */
    int64_t at_least_us;
    bool is_forced; /* of unlock: an operator releases the lock of its holder, which goes on record */
};
/* WEIR_CONFLICT when another holder has it. Store time; one statement; "perhaps ours" after a lost answer is ours when the
 * holder matches. */
WEIR_MUST_CHECK enum weir_status store_lock(struct store *store, const struct lock_request *request,
                                            struct weir_error *error);
/* at_most from now; WEIR_CONFLICT when it is not ours any more. */
WEIR_MUST_CHECK enum weir_status store_lock_extend(struct store *store, const struct lock_request *request,
                                                   struct weir_error *error);
/* Until max(now, locked_at + at_least). WEIR_CONFLICT when it is not ours. Never deletes the row. */
WEIR_MUST_CHECK enum weir_status store_unlock(struct store *store, const struct lock_request *request,
                                              struct weir_error *error);

/* --- reading --- */

enum store_list_kind {
    LIST_EXECUTIONS,
    LIST_EVENTS,
    LIST_STEPS,
    LIST_ACTIONS, /* of states, oldest first */
    LIST_WORKSPACES,
    LIST_PLANS,
    LIST_WORKFLOWS,
    LIST_NODES,
    LIST_LOCKS,
    LIST_GROUPS,
    LIST_HOOKS,
    LIST_SCHEDULES,
    LIST_TOKENS,        /* also the revoked ones, never a hash */
    LIST_SLOT_TIMELINE, /* of the workspace `name`, since filter.created_since_us (store/slot_timeline.h); one page */
    LIST_AUDIT          /* the acts, newest first; `name` is the subject, filter.created_since_us the earliest time */
};
/* Of executions. ORDER_QUEUE: those that are pending in one workspace, in the order in which they start. Their rows have
 * "place", the place in their lane (store/queue_order.h). */
enum list_order { ORDER_NEWEST, ORDER_QUEUE };
struct list_options {
    enum store_list_kind kind;
    struct execution_filter filter; /* executions; events, steps, actions: `id`; workflows: those for `workspace` */
    enum list_order order;          /* executions */
    const char *name;               /* one plan, workspace, workflow, node or lock; these four: NULL = all */
    const char *prefix;             /* of LIST_WORKSPACES: the names begin with it */
    const char *actor;              /* of LIST_AUDIT: a part of the actor */
    const char *act;                /* of LIST_AUDIT: "plan set", or "plan" for all that begin with the word */
    const char *cursor;             /* NULL = from the start */
    size_t limit;                   /* 0 = LIST_LIMIT_DEFAULT */
    bool count;                     /* executions: count the matches, at most LIST_COUNT_MOST */
    size_t windows_most;            /* executions: so many windows are examined; 0 = all, until the page is full */
    bool counts_all;                /* the count is not bounded by windows */
};
enum {
    LIST_COUNT_MOST = 100000,
    WINDOW_ROWS = 20000,       /* executions of the queue, and as many of the history, that one window has */
    LABEL_WINDOW_ROWS = 10000, /* entries of a label that the window of a filter by labels has */
    LIST_WINDOWS_MOST = 5,     /* of a request to a server, for the page and for the count */
    REASONS_MOST = 2000        /* executions whose pending reason a list with bounded windows computes for one page */
};
/* {"items": [...], "next_cursor": text or null, "count": n, "count_is_exact": bool}; executions newest first, by id: a
 * cursor neither misses nor repeats under concurrent inserts. Keys are the column names of the views. Times are RFC 3339
 * text. With windows_most a page may have fewer items than its limit, also none, and a next_cursor: matches may follow.
 * Its time does not grow with the store, whatever the filter is. */
WEIR_MUST_CHECK enum weir_status store_list(struct store *store, const struct list_options *options, json_t **ret_page,
                                            struct weir_error *error);
/* Visits the rows of all pages of the list in turn, until the visitor returns false. */
WEIR_MUST_CHECK enum weir_status store_list_each(struct store *store, const struct list_options *options,
                                                 bool (*visit)(void *context, const json_t *row), void *context,
                                                 struct weir_error *error);
/* Fails with `missing` and the nearest name when the list has no row of that name. */
WEIR_MUST_CHECK enum weir_status store_require_name(struct store *store, enum store_list_kind kind, const char *name,
                                                    enum weir_status missing, struct weir_error *error);
/* The same for a workflow that the workspace may run. The nearest name is that of one of these. */
WEIR_MUST_CHECK enum weir_status store_require_workflow(struct store *store, const char *workspace, const char *name,
                                                        struct weir_error *error);
/* The row of one workspace in LIST_WORKSPACES: its plan, limits and use. "oldest_pending_age_us" is how long the oldest of
 * its next executions waits, null if none could run. WEIR_WORKSPACE_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status store_usage(struct store *store, const char *workspace, json_t **ret_row,
                                             struct weir_error *error);
/* One execution with params, steps (their outputs as JSON values), and earlier_attempts (runs of a step before its last
 * one). It has its last SHOW_EVENTS_MOST events, and in "earlier_events" the number of those before them. LIST_EVENTS
 * reads these by pages. One with states has "state", "variables", its last SHOW_ACTIONS_MOST actions, and
 * "earlier_actions". Its "failure" is null, or the state, the code and the message of the last one that has led to a state.
 * `id` may be its first characters (6 or more) when they are unique. */
enum { SHOW_EVENTS_MOST = 100, SHOW_ACTIONS_MOST = 50 };
WEIR_MUST_CHECK enum weir_status store_show(struct store *store, const char *id, json_t **ret_execution,
                                            struct weir_error *error);
/* The result of an execution that store_show() has read: the output of its last step, or that of its run on Temporal.
 * NULL without one and unless it is COMPLETED. Owned by `execution`. */
const json_t *store_execution_result(const json_t *execution);
/* The result of a COMPLETED execution: the output of its last step, or that of its run on Temporal; JSON null without one.
 * WEIR_EXECUTION_NOT_FOUND; WEIR_ILLEGAL_STATE: it has not ended, or not as COMPLETED. */
WEIR_MUST_CHECK enum weir_status store_read_result(struct store *store, const char *id, json_t **ret_result,
                                                   struct weir_error *error);
/* Why it is not running, or its present state. A JSON object:
 *
 *     {"id", "status", "pending_reason", "because", "slots_used", "slots_max", "slot_holders": [...], "place",
 *      "place_is_exact", "due_at", "starts_refused", "starts_max", "deferrals", "handovers", "suspicion", "suspected_at",
 *      "node", "target", "unfinished_steps": [{"step", "status", "attempt", "attempts_max", "started_at"}] ...}
 *
 * "suspicion" and "suspected_at" are the number of deaths of nodes under which a step of it ran, and the time of the last
 * one (queue/suspicion.h). "target" is the place where its start may have arrived (engine_target_text()); null while it is
 * pending. "unfinished_steps" has at most 20 steps that run or wait for their next attempt; one that ran when the execution
 * lost its node is INTERRUPTED. One that waits for its next attempt has the "error_code" and "error" of the last one;
 * "attempts_max" is null where the definition names none. A slot holder has its "executor_group" and, when no node has it,
 * "nodes_live" of that group.
 *
 * Further members, by the state or the reason:
 *
 *   - no_node_for_engine:
 *     "engine_needed"       "temporal" or "in_process"
 *     "group_targets"       those of the live nodes of its group
 *     "no_node_since"       the last heartbeat of a node that could run it or ask
 *   - held by a node whose lease is over, so that no node runs it until it is taken over:
 *     "node_silent_since"   the last heartbeat of this node
 *     "nodes_live"          the number of live nodes of its group
 *   - no_node_in_group:
 *     "nodes_live"          the same; none of these claims
 *     "paused_node"         the name of one that an operator has paused and can resume, else null
 *   - nodes_full:
 *     "full_nodes"          {"nodes", "capacity", "running"} of the live nodes that could run it, by their heartbeats
 *   - no_scheduler:
 *     "scheduler_since", "scheduler_node"   of the last scheduler
 *     "scheduler_why"       "lease over", "left", "free", "awaits the lock" (dispatch.exclusive) or "its rounds fail"
 *     "scheduler_error"     of a live node that fails to schedule, or null
 *   - PENDING or CLAIMED, and its definition has handlers:
 *     "handlers_missing"    those that no live node of its group has, or all when no node has all; [] = a node has all
 *     "group_nodes"         the live nodes of its group
 *     "last_worker", "last_worker_language", "no_worker_since"   the node that had all last; its last heartbeat or the loss
 *   - running:
 *     "stuck_since"         its node found then that it runs longer than its stuck_after; else null
 *     "record_failing_since", "record_error"   its node holds reports that the store refuses
 *   - ready or no_scheduler, while the lock processExecutionQueue is held, without which such a node starts nothing:
 *     "lock_holder", "lock_until" */
WEIR_MUST_CHECK enum weir_status store_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error);
/* Which of these executions have not ended; an id that the store does not have lives neither. One query for the whole set,
 * which is for callers that wait for many ends. Whole ids, at most LIVING_IDS_MOST. */
enum { LIVING_IDS_MOST = 16384 };
WEIR_MUST_CHECK enum weir_status store_find_living(struct store *store, const char *const *ids, size_t count,
                                                   bool *ret_is_living, struct weir_error *error);
/* Kept counters, never COUNT(*). A JSON object:
 *
 *     {"pending", "slots_used", "completed", "failed", "cancelled", "oldest_pending_age_us",
 *      "pending_reasons": {reason: n}, "workspaces": [...],
 *      "executor_groups": [{"name", "paused", "pending", "oldest_pending_age_us"}],
 *      "nodes": n, "queue_paused": bool, "schema": n ...}
 *
 *   "workspaces", "executor_groups"   at most `workspaces_max`, by pressure; at most STATUS_GROUPS_MOST
 *   "no_worker"          workflows without the handlers of a live node: [{"workflow", "executor_group", "waiting" ...}]
 *   "stuck_executions"   the longest: [{"id", "workspace", "workflow", "node", "stuck_since", "unfinished_steps"}] */
enum { STATUS_GROUPS_MOST = 100, STATUS_UNSERVED_MOST = 20, STATUS_STUCK_MOST = 5 };
WEIR_MUST_CHECK enum weir_status store_status(struct store *store, size_t workspaces_max, json_t **ret_status,
                                              struct weir_error *error);

/* --- wake-ups --- */

/* Readable when another process may have changed something; -1 when the driver has none (then poll). Without
 * store_wake_for() every change that the driver learns of counts. */
int store_wake_fd(struct store *store);
/* The causes that wake the caller from now on, where the driver knows them (STORE_TELLS_OF_WORK): its own inbox, and the
 * news when it schedules. */
void store_wake_for(struct store *store, int64_t node_id, bool schedules);
/* A driver that could have one and has not, for want of something, is asked again this long after. */
#define STORE_WATCH_AGAIN_US MICROSECONDS_PER_SECOND
/* Empties the fd. True when something really changed since the last call. *ret_again_us is the time, relative, after
 * which to ask once more because a commit may still be on its way (TIME_NEVER: no need). */
bool store_wake_drain(struct store *store, int64_t *ret_again_us);

#endif
