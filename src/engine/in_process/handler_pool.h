/* The threads that run handlers, and the calls of handlers.
 *
 * The loop makes a call. A thread runs it once (or the loop, when the engine has no threads), and the pool hands it back to
 * the loop. The capacity of the engine bounds the queue, because each call belongs to an execution. The workspaces share
 * the threads fairly (fair_queue.h).
 *
 * A call is handed back when its handler has returned and its answer is given, in either order. So a deferred call
 * (weir_call_defer()) outlives the return of its handler and occupies no thread.
 *
 * Threads: handler_pool_submit(), handler_pool_collect() and handler_pool_cancel() by the loop. The rest of a call belongs
 * to its thread while it runs, or to the thread of the host that has the deferred call.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_HANDLER_POOL_H
#define WEIR_ENGINE_IN_PROCESS_HANDLER_POOL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/traceparent.h"
#include "engine/engine.h"
#include "engine/in_process/loop.h"
#include "queue/fair_queue.h"
#include "queue/limits.h"
#include "weir/handler.h"

enum {
    HANDLER_THREADS_MAX = 16,
    HANDLER_SPARE_PART = 8, /* one of so many threads is only for workspaces without a thread */
    HANDLER_NAME_MAX = 64   /* bytes */
};

struct call_states;
struct step_secrets;

enum call_result {
    CALL_NOTHING,
    CALL_DONE,
    CALL_RETRY,
    CALL_FAILED,
    CALL_BAD_OUTPUT,
    CALL_STARVED,
    CALL_INTERRUPTED,
    CALL_LEFT, /* likewise, and no loss of a worker */
    CALL_GIVEN_BACK,
    CALL_UNSERVED, /* likewise, and no program runs the attempt */
    CALL_ACCEPTED, /* http: the function reports its result later */
    CALL_NEXT      /* of a state: `states` has what follows */
};

struct weir_call {
    struct fair_entry turn;
    struct fair_lane *lane; /* of its workspace */
    struct weir_call *next; /* among the submitted or the finished calls */
    const struct weir_handler *handler;
    const char *execution_id; /* these live as long as the call: the execution waits for it */
    const char *workspace;
    int weight; /* of the workspace, when the call began; 0 stands for 1 */
    const char *step;
    const char *input;
    struct step_secrets *secrets;       /* of its step, or NULL */
    struct call_states *states;         /* of a workflow with states, or NULL; owned */
    char *own_input;                    /* the evaluated `input`, or NULL: the params */
    char traceparent[TRACEPARENT_SIZE]; /* "" = none */
    int attempt;
    int ended_attempt; /* of step_run */
    int64_t fence;
    struct engine *engine;    /* takes its log lines; NULL = nobody does */
    int64_t store_ahead_us;   /* store time minus boot clock */
    int64_t taken_over_us;    /* boot time of the claim, if it is not the first one; else TIME_NEVER */
    int64_t timeout_us;       /* boot time; TIME_NEVER = none */
    atomic_bool has_progress; /* the handler has reported some */
    void *owner;
    struct handler_pool *pool; /* set when it is submitted */
    atomic_int open_ends;      /* the handler's return and, if deferred, the answer: the last one hands the call back */
    bool is_deferred;
    void *task; /* the owner of an engine_call(), and `owner` is a task_call; NULL = `owner` is a step_run */
    atomic_bool cancelled;
    atomic_bool moves;           /* set before `cancelled` */
    pthread_mutex_t cancel_lock; /* of the next two members; held while on_cancel runs */
    weir_cancel_function *on_cancel;
    void *cancel_context;
    weir_recorded_function *on_recorded; /* moves to the step with the answer */
    void *recorded_context;
    int64_t retry_delay_us;  /* of CALL_RETRY; < 0 = the policy's */
    enum call_result result; /* the first answer counts */
    char *output;            /* JSON text or NULL */
    json_t *value;           /* the same, read; or NULL */
    char code[ERROR_CODE_MAX + 1];
    char *error;
};
/* NULL when memory is short. */
struct weir_call *weir_call_new(void);
void weir_call_free(struct weir_call *call);

struct handler_pool {
    struct loop *loop;
    pthread_t threads[HANDLER_THREADS_MAX];
    size_t thread_count; /* 0: calls run in handler_pool_collect() */
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct fair_queue queue; /* of calls that wait for a thread */
    size_t idle_threads;
    size_t deferred; /* calls that wait for a later answer; under the lock */
    pthread_cond_t answered;
    bool stopping;
    struct weir_call *submitted; /* by the loop; the threads have not got them yet */
    struct weir_call **submitted_end;
    size_t submitted_count;
    _Atomic(struct weir_call *) finished; /* newest first */
};

void handler_pool_init(struct handler_pool *pool, struct loop *loop);
/* `spare` of the threads are only for workspaces without a thread. WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status handler_pool_run_threads(struct handler_pool *pool, size_t count, size_t spare,
                                                          struct weir_error *error);
/* Waits for the running and the deferred calls. Hands back the waiting ones without an answer, for
 * handler_pool_collect(). */
void handler_pool_close(struct handler_pool *pool);
/* The pool takes the call; its thread gets it in handler_pool_flush(). */
void handler_pool_submit(struct handler_pool *pool, struct weir_call *call);
/* The call is answered by another part of the engine, as a deferred one, and runs no handler. It has no lane. */
void handler_pool_adopt(struct handler_pool *pool, struct weir_call *call);
/* Answers an adopted call: the machine lacked the memory for its result, so the attempt does not count. */
void handler_pool_answer_starved(struct weir_call *call);
/* Answers an adopted call: its function has accepted the work, and will report the result. */
void handler_pool_answer_accepted(struct weir_call *call);
/* The answer is in the `states` of the call. */
void handler_pool_answer_next(struct weir_call *call);
/* The end of the attempt, for the sink of progress: of a handler that has reported any, before its result is used. */
void handler_pool_end_progress(struct weir_call *call);
/* Asks the handler to end. `moves`: this node gives the execution up. */
void handler_pool_cancel(struct weir_call *call, bool moves);
/* Sets the weight of a workspace's lane. */
void handler_pool_set_weight(struct handler_pool *pool, struct fair_lane *lane, int weight);
/* Gives all submitted calls to the threads at once, or runs them here when there are no threads. */
void handler_pool_flush(struct handler_pool *pool);
/* The finished calls, oldest first, linked by `next`; NULL when there are none. */
struct weir_call *handler_pool_collect(struct handler_pool *pool);
bool handler_pool_has_finished(struct handler_pool *pool);

#endif
