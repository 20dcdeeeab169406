/* The inside of a worker, shared by its files. All of it belongs to the worker's thread, but for the members under `lock`.
 */
#ifndef WEIR_WORKER_WORKER_INTERNAL_H
#define WEIR_WORKER_WORKER_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "remote/client.h"
#include "weir/handler.h"
#include "worker/worker.h"

enum {
    WORKER_REPORTS_AT_ONCE = 4,     /* requests with results to one server */
    WORKER_SET_BYTES = 1024 * 1024, /* a request takes no further result or log beyond this */
    WORKER_LOG_BYTES_MAX = 65536,   /* of one task that no request carries yet, and of those that wait for an answer */
    WORKER_LOG_PARTS_MAX = 300      /* likewise; a server takes 1000 in one request */
};
#define WORKER_LEASE_US (10 * MICROSECONDS_PER_SECOND) /* until a server has named its own */
#define WORKER_LEASE_LEAST_US MICROSECONDS_PER_SECOND
#define WORKER_LEASE_MOST_US (600 * MICROSECONDS_PER_SECOND)
#define WORKER_CLAIM_WAIT_US (10 * MICROSECONDS_PER_SECOND)
#define WORKER_CALL_DEADLINE_US (10 * MICROSECONDS_PER_SECOND) /* of each request, beside the wait of a claim */
#define WORKER_PAUSE_FIRST_US (50 * MICROSECONDS_PER_MS)
#define WORKER_PAUSE_MOST_US MICROSECONDS_PER_SECOND
#define WORKER_LOG_DELAY_US MICROSECONDS_PER_SECOND   /* until a log is sent */
#define WORKER_LEAVE_US (2 * MICROSECONDS_PER_SECOND) /* at the end: a server that does not answer is left by its lease */

/* The end of a handler. */
struct worker_result {
    enum engine_call_end end;
    char *output; /* JSON text; NULL = null */
    char *code;
    char *error;
    int64_t delay_us;
    weir_recorded_function *on_recorded;
    void *recorded_context;
};

/* A task that the worker has. It is freed when its handler has ended, its result is settled, and no request names it. */
struct worker_run {
    struct worker_run *previous;
    struct worker_run *next;
    struct worker *worker;
    char *task; /* its id */
    char *execution_id;
    size_t server;     /* that has it, or is asked for it next */
    int64_t ends_us;   /* of the lease, boot clock */
    size_t requests;   /* under way that name it */
    bool has_ended;    /* the handler: `result` is complete */
    bool is_lost;      /* another worker may run it: nothing is reported */
    bool is_settled;   /* the result is accepted, or wanted no more */
    bool is_cancelled; /* the handler was asked to end, because a server has said so */
    bool is_reporting;
    bool was_reported; /* its result may be on record */
    bool is_alone;     /* its result goes without others: a set with it was refused */
    bool was_repeated; /* the present server had no answer to the report before */
    int64_t report_due_us;
    int64_t pause_us;
    json_t *log_sent;          /* a list of parts that the server has not accepted yet; NULL = none */
    int64_t log_at;            /* bytes of the log before log_sent, which a server has accepted */
    int64_t log_bytes;         /* of log_sent */
    int64_t progress_accepted; /* the number of the last report of progress that the present server has accepted */
    /* Under the lock of the worker, and of the engine's thread before has_ended. */
    struct worker_run *next_ended;
    struct worker_result result;
    json_t *log;         /* parts that wait */
    int64_t log_waiting; /* their bytes */
    int64_t log_lost;    /* bytes that found no space */
    int64_t progress;    /* the number of reports of progress; the members below are of the last one */
    int parts;
    char progress_text[PROGRESS_TEXT_MAX + 1];
    bool has_new_progress; /* since the last request that named it */
};

enum worker_verb { VERB_CLAIM, VERB_HEARTBEAT, VERB_COMPLETE, VERB_FAIL, VERB_LEAVE };

/* The mention of a run in a request. */
struct worker_mention {
    struct worker_run *run;
    int64_t log_end;  /* of the log that it carries; 0 = none */
    int64_t progress; /* the number of the report of progress that it carries; 0 = none */
};

struct worker_request {
    struct worker_request *next;
    struct worker *worker;
    struct remote_client client;
    struct remote_client_call call;
    enum worker_verb verb;
    bool is_under_way;
    size_t server;
    size_t max; /* of a claim */
    int64_t sent_us;
    struct worker_mention *mentions;
    size_t count;
};

struct worker_server {
    int64_t beat_due_us; /* TIME_NEVER: it has no task of ours */
    size_t beats;        /* heartbeats under way */
    size_t reports;      /* requests with results under way */
    bool is_announcing;
    bool wants_announce; /* it may not know our handlers, and is to take tasks of ours over */
    bool is_away;        /* the last request got no answer */
    bool was_claimed_at; /* it may know the worker */
    bool has_refused;    /* the last claim, which no repetition mends */
    bool is_doubtful;    /* that refusal may pass: it is no answer of weir, or there was no token to send */
    int64_t refused_us;  /* since when it has refused each claim */
};

enum worker_stop { WORKER_RUNS, WORKER_DRAINS, WORKER_INTERRUPTS };

struct worker {
    struct engine *engine;
    struct event_bus *events;
    const struct clock *clock;
    char name[WORKER_NAME_MAX + 1];
    char group[WORKER_GROUP_MAX + 1]; /* "" = that of the first node */
    size_t tasks_max;
    struct remote_client model; /* requests are opened like this one; it makes no call */
    CURLM *multi;
    struct worker_request *requests; /* all that were made; they are used again */
    struct worker_server servers[CLIENT_SERVERS_MAX];
    size_t server_count;
    size_t home; /* the server that is claimed at */
    int64_t lease_us;
    struct worker_run *runs;
    size_t run_count;
    int64_t claim_due_us;
    int64_t claim_pause_us;
    struct worker_request *claim; /* under way, or NULL */
    bool was_refused;             /* the last claim */
    bool was_interrupted;         /* the handlers that ran were asked to end */
    int64_t leave_until_us;       /* 0 = the worker has not begun to leave */
    size_t leaves;                /* requests about it under way */
    json_t *names;                /* of the handlers */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;   /* is_stopped */
    struct worker_run *ended; /* handlers have ended, and the thread has not seen it yet */
    json_t *handlers;         /* new names for the thread, which takes them over; NULL = none */
    bool has_new_logs;        /* or progress */
    bool has_full_log;        /* a log has filled half of its space: it is sent at once */
    enum worker_stop stop;
    bool is_interrupted; /* a handler was interrupted */
    bool is_paused;
    bool is_closing;
    bool is_stopped;
    struct weir_error health;
};

int64_t worker_now(const struct worker *worker);
void worker_wake(struct worker *worker);
/* A call to a server failed: an event of the log. */
void worker_note_failure(struct worker *worker, const char *verb, const struct weir_error *error);
/* `error` NULL: a claim was accepted. */
void worker_note_health(struct worker *worker, const struct weir_error *error);

/* runs.c */
/* Begins the runs of an answer to a claim, which was sent at `sent_us`. WEIR_STORE_NOT_WEIR: it is none. */
WEIR_MUST_CHECK enum weir_status worker_begin_tasks(struct worker *worker, size_t server, int64_t sent_us,
                                                    const json_t *answer, struct weir_error *error);
/* The sink of the engine; any thread. */
void worker_take_result(void *context, const struct engine_called *called);
void worker_take_output(void *context, const struct engine_output *output);
void worker_take_progress(void *context, const struct engine_progress *progress);
/* Gives each new result to its run. */
void worker_collect_results(struct worker *worker);
/* Loses the runs without a lease; returns the end of the next lease. */
int64_t worker_end_leases(struct worker *worker, int64_t now_us);
/* Asks all handlers that run to end. */
void worker_interrupt_runs(struct worker *worker);
/* Another worker may run the task: the handler is asked to end, nothing is reported. */
void worker_lose_run(struct worker_run *run);
/* The fate of the result is known. */
void worker_settle_run(struct worker_run *run, bool is_recorded);
/* Replaces a result that no server takes by a failure without a retry. */
void worker_refuse_result(struct worker_run *run, const char *reason);
/* The next server is asked for the task. */
void worker_move_run(struct worker_run *run);
/* Frees the run, if nothing needs it. */
void worker_release_run(struct worker_run *run);
/* The log that the next request carries, from run->log_at on; NULL = none. Borrowed. */
const json_t *worker_log_of(struct worker_run *run);
/* The newest report of progress that the server has not accepted, into *ret_report, with the number of the report; 0 =
 * there is none. `ret_report` has the members of a report alone. */
int64_t worker_progress_of(struct worker_run *run, struct engine_progress *ret_report, char text[PROGRESS_TEXT_MAX + 1]);
/* A server has accepted a request that carried the log up to `log_end`. */
void worker_log_accepted(struct worker_run *run, int64_t log_end);
/* At close: the engine ends the handlers that still run. */
void worker_free_runs(struct worker *worker);

/* requests.c */
/* Sends what is due, and returns when the next thing will be. `claims`: new tasks are wanted. */
int64_t worker_send_due(struct worker *worker, int64_t now_us, bool claims);
/* Leaves the servers, once. True when all of them know it, or did not answer in time. */
bool worker_leave(struct worker *worker, int64_t now_us);
/* Handles the answers that have come. */
void worker_take_answers(struct worker *worker);
/* Ends the claim that is under way; its answer is lost. */
void worker_abort_claim(struct worker *worker);
void worker_close_requests(struct worker *worker);

#endif
