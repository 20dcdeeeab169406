/* The inside of the Temporal engine, shared by its files:
 *
 *   temporal.c  verbs and loop      run_table.c    the table of executions, and what is due when
 *   calls.c     one call each       starts.c  start and describe: what an execution's answers mean
 *   close_sweep.c    listing, looking    closing.c    the close event, and the report of the end
 *   long_polls.c     waiting calls       service_health.c   whether the service is there
 *   target.c    which service it is       attributes.c  the search attributes of its namespace
 *   fields.c    the fields of a start that depend on the params          coding.c  the payload codec
 *
 * Everything here belongs to the engine's thread (or to whoever drives engine_step()), except what temporal.c says.
 *
 * The life of an execution in the engine:
 *
 *     WAITS -> STARTING -> FOLLOWED -> CLOSING -> ENDED -> forgotten when its end is durable
 *       ^         |           |  ^        |
 *       +---------+           v  |        +-> FOLLOWED (the chain goes on)
 *     ASKING (describe) ------+--+
 */
#ifndef WEIR_ENGINE_TEMPORAL_INTERNAL_H
#define WEIR_ENGINE_TEMPORAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "base/text.h"
#include "engine/temporal/definitions.h"
#include "engine/temporal/encode.h"
#include "engine/temporal/fields.h"
#include "engine/temporal/outcome.h"
#include "engine/temporal/start_rate.h"
#include "engine/temporal/temporal.h"

#define TEMPORAL_STEP "workflow" /* the one step of an execution as the store sees it */

#define RETRY_FIRST_US (200 * MICROSECONDS_PER_MS)
#define RETRY_MOST_US (5 * MICROSECONDS_PER_SECOND)
/* A start that is not answered for certain is tried again after a second at most, so that work resumes within 2 s of the
 * service's return; where more than this many are on their way, together no more often than so many a second. Not one that
 * got no answer in time: the service may be overloaded, and an outage's end is told by others (service_health.c). */
#define RETRY_STARTS_PER_SECOND 64
#define CALL_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)
#define POLL_TIMEOUT_US (60 * MICROSECONDS_PER_SECOND) /* the service answers after 20 s at most */
/* A run that no call waits for is looked at this often, or as often as a rate allows when there are many. While the list
 * works, looks are a safety net and have what waiting calls and lists leave of FOLLOW_CALLS_PER_SECOND. While the list
 * fails, they find the ends: within 5 s up to a thousand runs. */
#define LOOK_INTERVAL_US (30 * MICROSECONDS_PER_SECOND)
#define FOLLOW_CALLS_PER_SECOND 9.5 /* 570 a minute */
#define POLLS_PER_SECOND 0.05       /* of one that is made again and again: the service answers after 20 s */
#define LOOKS_PER_SECOND 2.0
#define LOOKS_PER_SECOND_LEAST 0.5
#define LOOK_ALONE_INTERVAL_US (4 * MICROSECONDS_PER_SECOND)
#define LOOKS_PER_SECOND_ALONE 250.0
#define LOOKS_SHARE 20.0                            /* of the calls that a service takes, one in so many is a look */
#define LOOKS_ROOM 1.25                             /* never more in a second than this times the above */
#define GONE_AGAIN_US (2 * MICROSECONDS_PER_SECOND) /* "not found" is believed when it is said twice */
#define SWEEP_INTERVAL_US (1 * MICROSECONDS_PER_SECOND)
#define SWEEP_RETRY_US (2 * MICROSECONDS_PER_SECOND)
#define SWEEP_AT_LEAST_US (300 * MICROSECONDS_PER_SECOND) /* also where executions have no need of lists */
/* An end that was seen otherwise appears in the list by then: it lags by up to 3 s on a busy server. */
#define SWEEP_LAG_US (15 * MICROSECONDS_PER_SECOND)
#define SWEEP_LAG_TOLERANCE_US (1 * MICROSECONDS_PER_SECOND)
/* A list that lags is believed again when no further end was missing from it for this long: the one that is may be deleted.
 */
#define SWEEP_LAG_FORGOTTEN_US (120 * MICROSECONDS_PER_SECOND)
/* The list lags behind by up to 3 s on a busy server, and its rows come out of order. */
#define SWEEP_OVERLAP_US (10 * MICROSECONDS_PER_SECOND)
#define SWEEP_WIDE_OVERLAP_US (120 * MICROSECONDS_PER_SECOND)
#define NAMESPACE_INTERVAL_US (300 * MICROSECONDS_PER_SECOND)
/* A chain that goes on quickly is not written down more often than this. */
#define TELL_RUN_EVERY_US (1 * MICROSECONDS_PER_SECOND)
#define TARGET_RETRY_US (250 * MICROSECONDS_PER_MS)
#define NAMESPACE_RETRY_US (10 * MICROSECONDS_PER_SECOND)
/* While starts are answered one by one, room for the next ones is told of when it is worth a claim, or after this long. */
#define ROOM_WAITS_US (100 * MICROSECONDS_PER_MS)
enum { ROOM_PARTS = 8 }; /* one of so many parts of all starts at once is worth it */
/* Nothing heard for this long: the service is asked whether it is there. */
#define REACH_QUIET_US (10 * MICROSECONDS_PER_SECOND)
/* While it may be away: work resumes within 2 s of its return, of which the next connection takes up to
 * GRPC_DIAL_EVERY_US. */
#define REACH_PROBE_INTERVAL_US (250 * MICROSECONDS_PER_MS)
#define REACH_PROBE_TIMEOUT_US (2 * MICROSECONDS_PER_SECOND)
/* The codec is away: an end waits for it this long. */
#define CODEC_PATIENCE_US (30 * MICROSECONDS_PER_SECOND)
/* A start that is older than the retention less this part of it is not sent again. */
#define RETENTION_MARGIN_PART 10

enum { BUCKETS_MIN = 1024, BUCKETS_MAX = 1 << 20, SWEEP_WIDE_EVERY = 15, SWEEP_PAGES_MAX = 50, QUERY_BYTES_MAX = 512 };
enum {
    SWEEP_FAILURES_MAX = 3
};                               /* in a row while the service is there, one for want of
                                    time counts twice: the list is impaired */
enum { REACH_FAILURES_MAX = 3 }; /* the first one of any call, then of probes: the service is away */

enum run_state { RUN_WAITS, RUN_STARTING, RUN_ASKING, RUN_FOLLOWED, RUN_CLOSING, RUN_ENDED };

struct call;
struct coding;

/* One execution under one claim. */
struct run {
    struct run *next; /* in its bucket */
    char id[UUID_TEXT_MAX];
    int64_t fence;
    enum run_state state;
    size_t heap_place; /* 1 is the root; 0: nothing is due */
    int64_t due_us;
    uint64_t turn;      /* what is due at the same time goes in the order in which it was put there: claims come in order */
    int64_t backoff_us; /* of the next repetition; 0 = none failed lately */

    /* until it is known to run */
    struct bytes message;   /* of the start, the same every time */
    int64_t first_us;       /* when it was first claimed, as far as this node can tell (boot clock) */
    bool was_slow;          /* its last start got no answer in time */
    bool may_run;           /* a start of it may have arrived: nothing less than certainty ends it */
    bool is_encoded;        /* `message` is the codec's answer */
    bool counts_as_start;   /* in `starting` */
    struct report *refusal; /* to be reported once it is certain that nothing runs; owned */

    /* from then on */
    bool started;       /* reported, or on record from before */
    bool known;         /* the service has, or had, this workflow */
    bool is_ours;       /* the first run of its chain was started by weir */
    bool has_look_turn; /* its next look is at the time that was kept for it */
    bool is_asked;      /* by engine_describe() only: ABSENT is an answer */
    int not_found;      /* times in a row */
    char run_id[RUN_ID_MAX];
    char first_run_id[RUN_ID_MAX];  /* of its chain; "" = not known */
    char told_run_id[RUN_ID_MAX];   /* the one that is on record */
    int64_t told_run_us;            /* ... and since when: boot clock */
    bool was_sent_again;            /* after a start whose outcome was not known */
    char closed_run_id[RUN_ID_MAX]; /* the last of the chain whose end was read ... */
    int64_t closed_us;              /* ... and when that was: the server's clock */
    struct closing closing;         /* TERMINATED: kept while it is asked whether the workflow was reset, or decoded */
    int64_t decoding_us;            /* when the codec failed first; 0 = it has not */
    bool has_closing;
    bool cancel_wanted;
    bool cancel_asked;     /* the service has the request */
    const char *workspace; /* these three are in the same allocation */
    const char *task_queue;
    const char *workflow_id;
    bool has_own_id;                /* the definition names it: others may use it once the chain has closed */
    struct run *named_next;         /* in its bucket of those with an id of their own */
    bool has_workspace;             /* its start has TEMPORAL_WORKSPACE_ATTRIBUTE */
    struct waited_workspace *waits; /* its end may be waited for; NULL: not followed */
    struct run *wait_next;          /* of those of the workspace that are not waited for */
    struct run **wait_link;         /* NULL: it is in no queue */

    /* under way */
    struct call *call;
    struct call *poll;
    struct call *cancel;
    struct coding *coding;
};

struct definition_cache;

struct waited_queue;

/* Whose ends are waited for: there while its slots are wanted, or while any of its runs is followed. */
struct waited_workspace {
    struct waited_workspace *next;      /* in its bucket */
    struct waited_workspace *turn_next; /* in its queue */
    struct waited_workspace *turn_previous;
    struct waited_queue *queue; /* NULL: it gets no place now */
    struct run *first;          /* followed and not waited for, in their order */
    struct run **last;
    struct run *polled; /* waited for */
    size_t polls;       /* of these */
    bool wanted;
    char name[];
};
struct waited_queue {
    struct waited_workspace *first;
    struct waited_workspace *last;
};
enum { WAITED_BUCKETS = 1024 };

struct sweep {
    bool is_under_way;
    bool is_anchored;   /* `latest_us` is known */
    int64_t next_us;    /* boot clock */
    int64_t latest_us;  /* the latest close time seen: the server's clock */
    int64_t since_us;   /* of the sweep under way: the server's clock */
    struct bytes token; /* of its next page */
    bool has_own_ids;   /* it asks for workflows of any id */
    int pages;
    unsigned count;
    int64_t last_us;       /* when the last one ended: boot clock */
    int64_t calm_until_us; /* while each run has a waiting call, none is made before */
    int failures;          /* in a row */
    bool is_impaired;      /* it fails, or lags: said, and looks do its work */
    int64_t missing_us;    /* the close of an end that it has not shown yet: the server's clock; 0 = none */
    int64_t missing_at_us; /* when that was seen: boot clock */
};

/* Whether the service is there. */
struct reach {
    int failures; /* in a row; REACH_FAILURES_MAX: it is away */
    int64_t due_us;
    struct call *probe;
};

/* Which service it is (target.c). */
struct service_target {
    struct engine_target target;          /* under the engine's lock */
    char service[TARGET_SERVICE_MAX + 1]; /* "": not known yet */
    atomic_bool is_wanted;
    atomic_bool is_known;
    int64_t due_us;
    struct call *call;
};

/* The search attributes of the namespace (attributes.c). */
struct known_attributes {
    json_t *types;         /* see start_message; never changed, only replaced; under the engine's lock. NULL: not known */
    atomic_bool was_asked; /* the service has answered, or does not let us ask */
    int failures;          /* without an answer, in a row */
    struct call *call;
};

struct command;

struct temporal {
    struct engine base;
    struct temporal_wire wire;
    struct random random;
    char *address;
    char *namespace_name;
    char *task_queue;
    char *identity;
    char *encoding;
    size_t max_running;
    size_t polls_max;
    struct definitions definitions; /* has its own lock */

    /* from other threads */
    pthread_mutex_t lock; /* of the commands */
    struct command *first;
    struct command **last;
    bool abandons_all; /* before the commands */
    int bell_fd;
    int poll_fd; /* epoll over the bell and the wire */
    atomic_size_t admitted;
    atomic_size_t followed; /* started and not durably ended */
    atomic_size_t starting;
    atomic_size_t window;
    _Atomic int64_t ordered_us; /* when a start was ordered last */
    atomic_bool stopped;
    atomic_bool interrupted; /* stopped, and what is under way is not awaited */
    atomic_bool closing;
    pthread_t thread;
    bool has_thread;

    /* of the engine's thread */
    struct run **buckets;
    struct run **named_buckets; /* of those with an id of their own, by that */
    size_t bucket_count;
    size_t named;
    struct run **heap; /* [1..heap_count] */
    size_t heap_count;
    size_t heap_capacity;
    uint64_t last_turn;
    struct call *calls; /* every call under way */
    struct pace pace;
    int64_t look_turn_us; /* of the next look that comes while others are waiting */
    struct sweep sweep;
    struct reach reach;
    struct service_target target;
    struct known_attributes attributes;
    size_t polls;
    size_t polls_lent; /* of these: of workspaces whose slots no one wants */
    size_t unpolled;   /* followed, and not waited for */
    struct waited_workspace *waited[WAITED_BUCKETS];
    struct waited_queue waited_none; /* their slots are wanted, and no run of them is waited for yet */
    struct waited_queue waited_some;
    struct waited_queue waited_unwanted;
    size_t polls_now_max; /* fewer than polls_max while the service refuses some */
    int64_t polls_fewer_until_us;
    int64_t polls_pause_until_us; /* no new ones: the last one failed */
    int64_t retention_us;
    bool retention_is_asked; /* the service has told it, or has told that it does not */
    int64_t namespace_due_us;
    bool namespace_is_asked;
};

static inline int64_t temporal_now(const struct temporal *engine)
{
    return clock_boot(engine->base.clock);
}

/* --- run_table.c --- */

/* NULL when out of memory. `workflow_id` NULL = the default one. */
struct run *run_new(const struct temporal *engine, const char *id, int64_t fence, const char *workspace,
                    const char *task_queue, const char *workflow_id);
/* NULL when out of memory. What cannot be started gets its refusal instead of a message. */
struct run *run_of_start(struct temporal *engine, const struct engine_start *start, const struct definition *definition);
/* Makes its refusal; it has none yet. False when out of memory. */
bool run_refuse(struct run *run, const char *code, bool permanent, const char *text);
struct run *run_find(const struct temporal *engine, const char *id);
/* The one of this workflow id that is followed, or NULL. */
struct run *run_find_followed(const struct temporal *engine, const char *workflow_id);
/* A workflow that it may cancel: only its own chain, where others may use its workflow id. */
struct workflow_name run_workflow(const struct run *run);
/* In the table; room in the heap is made. False when out of memory. */
bool run_insert(struct temporal *engine, struct run *run);
/* Out of the table; its calls go on without it, its waiting ones are cancelled. */
void run_remove(struct temporal *engine, struct run *run);
void run_free(struct run *run);
/* TIME_NEVER: nothing is due. */
void run_due(struct temporal *engine, struct run *run, int64_t due_us);
/* The first run that is due at `now_us`, taken off the heap; NULL when none is. */
struct run *run_next_due(struct temporal *engine, int64_t now_us);
/* TIME_NEVER when nothing is. */
int64_t run_earliest(const struct temporal *engine);
/* The next distance of a repetition, with jitter; grows, for starts to RETRY_STARTS_PER_SECOND of all of them. */
int64_t run_back_off(struct temporal *engine, struct run *run);
/* The service is back: what an outage has put off is due at once. Mere looks at what is followed are not. */
void run_hurry_all(struct temporal *engine);
/* It no longer takes a place among the starts. */
void run_start_is_over(struct temporal *engine, struct run *run);
/* The ids that the store keeps with the step of the run, as JSON text. NULL when out of memory. */
char *run_facts(const struct temporal *engine, const struct run *run);
/* NULL when memory is out; then the node hears that a word was lost, and gives up every claim, this one too. */
struct report *run_report(struct temporal *engine, const struct run *run, enum report_kind kind);
/* Hands it over. NULL has no effect: see run_report(). */
void run_say(struct temporal *engine, struct report *report);

/* --- calls.c --- */

enum method {
    METHOD_START,
    METHOD_DESCRIBE,
    METHOD_LIST,
    METHOD_HISTORY,
    METHOD_LAST_EVENTS,
    METHOD_CANCEL,
    METHOD_TERMINATE,
    METHOD_SIGNAL,
    METHOD_QUERY,
    METHOD_UPDATE,
    METHOD_SYSTEM_INFO,
    METHOD_DESCRIBE_NAMESPACE,
    METHOD_DESCRIBE_TASK_QUEUE,
    METHOD_LIST_ATTRIBUTES,
    METHOD_ADD_ATTRIBUTES,
    METHOD_COUNT
};
const char *method_path(enum method method);

/* `run` is NULL when it was forgotten meanwhile, or for a call of the engine itself. */
typedef void call_done(struct temporal *engine, struct run *run, const struct grpc_result *result);

struct call {
    struct call *next;
    struct call **link;
    struct temporal *engine;
    struct run *run;
    struct call **slot; /* the run's pointer to this call */
    call_done *done;
    enum method method;
    grpc_call_id id;
};
/* Sends; `slot` (may be NULL) points at the call until it is done. False when it could not be sent: then `done` is not
 * called. The message stays the caller's. */
bool call_send(struct temporal *engine, struct run *run, struct call **slot, enum method method, struct bytes message,
               int64_t timeout_us, call_done *done);
/* Same with a message made for this call, which is freed. */
bool call_send_own(struct temporal *engine, struct run *run, struct call **slot, enum method method, struct bytes message,
                   int64_t timeout_us, call_done *done);
/* Forgets who waits for it; the service is told when `cancel`. Takes NULL. */
void call_forget(struct call *call, bool cancel);

/* --- starts.c --- */

/* Does what is due for a run, by its state. */
void start_due(struct temporal *engine, struct run *run);
/* A new claim has come in. */
void start_take(struct temporal *engine, struct run *run);
void start_cancel(struct temporal *engine, struct run *run);
/* Asks the service for the run's present state, now. */
void start_ask(struct temporal *engine, struct run *run);
/* The chain has gone on: the run on record becomes the present one. */
void start_report_run(struct temporal *engine, struct run *run);
/* When the present run may be recorded; TIME_NEVER when it is on record. */
int64_t start_record_due(const struct run *run);

/* The codec has not encoded it: it was refused for good, or later. */
void start_not_encoded(struct temporal *engine, struct run *run, bool is_refused, const char *text);

/* --- coding.c --- */

/* Whether the start must wait for the codec; it is due again when its message may leave. */
bool coding_encodes(struct temporal *engine, struct run *run);
/* Keeps the payloads of an answer that the codec must decode. */
void coding_keep(struct temporal *engine, struct closing *closing, const struct grpc_result *result);
/* Whether the end must be decoded first; takes `closing` then, and end_report_decoded() follows. */
bool coding_decodes(struct temporal *engine, struct run *run, struct closing *closing);
void coding_forget(struct temporal *engine, struct run *run);

/* --- long_polls.c --- */

/* The run's end may be waited for / not any more. */
void waits_add(struct temporal *engine, struct run *run);
void waits_remove(struct temporal *engine, struct run *run);
/* Others of the workspace of this name wait for its slots, or do not. */
void waits_want(struct temporal *engine, const char *name, bool wanted);
void waits_want_nothing(struct temporal *engine);
/* Waiting calls from before an outage may wait on a connection that nobody hears of any more: all are made anew. */
void waits_begin_anew(struct temporal *engine);
/* Makes calls while there are places; returns when it wants to be called again. */
int64_t waits_step(struct temporal *engine, int64_t now_us);
void waits_open(struct temporal *engine);
void waits_close(struct temporal *engine);

/* --- close_sweep.c --- */

/* From now on its end is looked for. */
void follow_begin(struct temporal *engine, struct run *run);
/* Whether its look, which is due, must wait for others; it is then due again later, for certain. */
bool follow_waits_for_turn(struct temporal *engine, struct run *run);
/* It is not followed any more: gives its place among the waiting calls to another. */
void follow_end(struct temporal *engine, struct run *run);
/* The service is back: lists and waits again at once. */
void follow_hurry(struct temporal *engine);
/* When a run that no call waits for is looked at next. */
int64_t follow_next_look(struct temporal *engine);
/* A run's end was seen that closed then (the server's clock): the list must show it, too. */
void follow_saw_close(struct temporal *engine, int64_t close_us);
/* Sweeps and the namespace; returns when it wants to be called again. */
int64_t follow_step(struct temporal *engine, int64_t now_us);
void follow_close(struct temporal *engine);

/* --- service_health.c --- */

/* Every call's result, before its `done`. */
void reach_hear(struct temporal *engine, enum method method, bool is_probe, const struct grpc_result *result);
/* Returns when it wants to be called again. */
int64_t reach_step(struct temporal *engine, int64_t now_us);

/* --- target.c --- */

/* Asks for it as long as it is wanted and not known; returns when it wants to be called again. */
int64_t target_step(struct temporal *engine, int64_t now_us);
/* Any thread. False: it is not known yet, and wanted from now on. */
bool target_read(struct temporal *engine, struct engine_target *ret_target);

/* --- attributes.c --- */

/* Asks for them, unless they are being asked for. */
void attributes_ask(struct temporal *engine);
/* Any thread. The types, or NULL; the caller releases them, and does not change them. */
json_t *attributes_types(struct temporal *engine);
/* The namespace does not have TEMPORAL_WORKSPACE_ATTRIBUTE any more. */
void attributes_drop_workspace(struct temporal *engine);
void attributes_close(struct temporal *engine);

/* --- closing.c --- */

/* Reads the close event of run->run_id. */
void end_read(struct temporal *engine, struct run *run);
/* A close event has come, by whatever way. Takes what `closing` holds. */
void end_take(struct temporal *engine, struct run *run, struct closing *closing);
/* The service has forgotten a workflow that did run. */
void end_gone(struct temporal *engine, struct run *run);
/* It was asked after a termination: the workflow was not reset. */
void end_confirmed(struct temporal *engine, struct run *run);
/* Of run->closing. `problem`: why it is still encoded; NULL = it is decoded. */
void end_report_decoded(struct temporal *engine, struct run *run, const char *problem);
/* The store's answer to the end. */
void end_recorded(struct temporal *engine, struct run *run, enum weir_status status);

#endif
