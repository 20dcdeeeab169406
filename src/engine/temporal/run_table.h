/* The executions that the engine holds: one `struct run` for each claim, in a hash table by execution id. A heap has
 * the times at which something is due for them.
 *
 * The engine's loop owns the table and the runs in it. A new run belongs to the thread that calls engine_start() until it
 * is in the command queue.
 *
 * The states of a run:
 *
 *     WAITING --> STARTING --> FOLLOWED --> CLOSING --> ENDED --> removed when its end is durable
 *       ^            |           |  ^          |
 *       +------------+           v  +----------+  the chain goes on in another run
 *     DESCRIBING ----------------+
 *
 *   WAITING     its start is to be sent, or sent again
 *   STARTING    a start is under way
 *   DESCRIBING  a start may have arrived: the service is asked for the state of the workflow
 *   FOLLOWED    the workflow runs
 *   CLOSING     a run of the chain has ended, and its close event is read or confirmed
 *   ENDED       the end is reported, and the store has not recorded it yet
 */
#ifndef WEIR_ENGINE_TEMPORAL_RUN_TABLE_H
#define WEIR_ENGINE_TEMPORAL_RUN_TABLE_H

#include "engine/engine.h"
#include "engine/temporal/encode.h"

struct temporal;
struct call;
struct coding;
struct poll_workspace;

#define RETRY_FIRST_US (200 * MICROSECONDS_PER_MS)
#define RETRY_MAX_US (5 * MICROSECONDS_PER_SECOND)
/* A start without a certain answer is sent again after at most one second, so that work resumes within 2 s of the service's
 * return. When more than this many starts repeat, they share this many attempts per second. A start whose deadline passed
 * waits longer, because the service may be overloaded; service_health.c detects the end of an outage. */
#define RETRY_STARTS_PER_SECOND 64

enum { RUN_BUCKETS_MIN = 1024, RUN_BUCKETS_MAX = 1 << 20 };

enum run_state { RUN_WAITING, RUN_STARTING, RUN_DESCRIBING, RUN_FOLLOWED, RUN_CLOSING, RUN_ENDED };

/* One execution under one claim. */
struct run {
    struct run *next; /* in its bucket */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    enum run_state state;
    size_t heap_place; /* 1 is the root; 0: nothing is due */
    int64_t due_us;
    uint64_t turn;      /* runs that are due at the same time go in the order of their entry: that of their claims */
    int64_t backoff_us; /* of the next repetition; 0 = none failed lately */

    /* until the workflow is known to run */
    struct bytes message;   /* of the start, the same each time */
    int64_t first_us;       /* when the first start can have left, as far as this node can tell (boot clock) */
    bool was_slow;          /* its last start got no answer in time */
    bool may_run;           /* a start of it may have arrived: only a certain answer ends it */
    bool is_encoded;        /* `message` is the codec's answer */
    bool counts_as_start;   /* counted in starts.under_way */
    struct report *refusal; /* to be reported once it is certain that nothing runs; owned */

    /* from then on */
    bool started;            /* reported, or on record from an earlier claim */
    bool known;              /* the service has, or had, this workflow */
    bool is_ours;            /* weir started the first run of its chain */
    bool has_describe_turn;  /* its next description has a reserved time */
    int not_found;           /* answers of that kind in a row */
    int64_t absent_us;       /* when the first of them came that counts; 0: none */
    int64_t first_absent_us; /* the same of the first run of the chain that has the id */
    char run_id[RUN_ID_MAX];
    char first_run_id[RUN_ID_MAX];    /* of its chain; "" = not known */
    char recorded_run_id[RUN_ID_MAX]; /* the run that is on record */
    int64_t recorded_run_us;          /* when it was reported: boot clock */
    bool was_sent_again;              /* after a start with an unknown outcome */
    char closed_run_id[RUN_ID_MAX];   /* the last run of the chain with an end that was read */
    int64_t closed_us;                /* the time of that end: the server's clock */
    struct close_event closing;       /* held while the termination is confirmed, or the result decoded */
    int64_t decoding_us;              /* when the codec failed first; 0 = it has not */
    bool has_closing;
    bool cancel_wanted;
    bool cancel_sent;      /* the service has accepted the request */
    const char *workspace; /* these three are in the same allocation */
    const char *task_queue;
    const char *workflow_id;
    bool has_own_id;                       /* the definition names the id: other programs may use it after the end */
    struct run *named_next;                /* in the bucket of runs with an id of their own */
    bool has_workspace;                    /* its start has TEMPORAL_WORKSPACE_ATTRIBUTE */
    struct poll_workspace *poll_workspace; /* where long_polls.c lists it; NULL: it is not followed */
    struct run *poll_next;                 /* in the list of its workspace */
    struct run **poll_link;                /* NULL: it is in no list */

    /* under way */
    struct call *call;
    struct call *poll;
    struct call *cancel;
    struct coding *coding;
};

/* The loop owns it. */
struct run_table {
    struct run **buckets;
    struct run **named_buckets; /* of runs with an id of their own, by that id */
    size_t bucket_count;        /* a power of two */
    size_t named_count;
    struct run **heap; /* [1..heap_count], ordered by due time */
    size_t heap_count;
    size_t heap_capacity;
    uint64_t last_turn;
};

/* False when out of memory. `runs_max` decides the number of buckets. */
bool run_table_open(struct run_table *table, size_t runs_max);
/* The table is empty. */
void run_table_close(struct run_table *table);

/* NULL when out of memory. A run that cannot be started gets its refusal instead of a message. Any thread. */
struct run *run_new_from_start(struct temporal *engine, const struct engine_start *start,
                               const struct definition *definition);
/* Makes its refusal; it has none yet. False when out of memory. */
bool run_make_refusal(struct run *run, const char *code, bool permanent, const char *text);
struct run *run_find(const struct temporal *engine, const char *id); /* NULL when there is none */
/* The followed run of this workflow id, or NULL. */
struct run *run_find_followed(const struct temporal *engine, const char *workflow_id);
/* The workflow that it may cancel: only its own chain, where other programs may use its workflow id. */
struct workflow_name run_workflow_name(const struct run *run);
/* Puts it into the table, and makes space in the heap. False when out of memory. */
bool run_insert(struct temporal *engine, struct run *run);
/* Takes it out of the table and frees it. Its calls go on without it; its long poll is cancelled. */
void run_remove(struct temporal *engine, struct run *run);
/* Takes NULL. */
void run_free(struct run *run);
/* TIME_NEVER: nothing is due. */
void run_set_due(struct temporal *engine, struct run *run, int64_t due_us);
/* The first run that is due at `now_us`, taken off the heap; NULL when none is. */
struct run *run_take_due(struct temporal *engine, int64_t now_us);
/* TIME_NEVER when nothing is due. */
int64_t run_earliest_due(const struct temporal *engine);
/* The time of the next repetition, with jitter. The distance doubles, for starts up to the rate RETRY_STARTS_PER_SECOND. */
int64_t run_back_off(struct temporal *engine, struct run *run);
/* The service is back: repetitions that an outage delayed are due at once. Descriptions of followed runs are not. */
void run_retry_all_now(struct temporal *engine);
/* The run no longer counts as a start; its message is freed. */
void run_release_start(struct temporal *engine, struct run *run);
/* The ids that the store keeps with the step of the run, as JSON text. NULL when out of memory. */
char *run_write_ids(const struct temporal *engine, const struct run *run);
/* NULL when out of memory; then the engine notes a lost report, and the node gives up every claim, this one too. */
struct report *run_new_report(struct temporal *engine, const struct run *run, enum report_kind kind);
/* Hands the report to the node. NULL has no effect: see run_new_report(). */
void run_send_report(struct temporal *engine, struct report *report);

#endif
