/* The threads on which C handlers run, and the calls that they work on.
 *
 * A call is made by the loop, run once by some thread (or inline, when the engine has no threads), and handed back to the
 * loop in a batch. The queue is as long as the engine may have executions: every execution holds its place in room(). The
 * workspaces share the threads fairly (fair_queue.h).
 *
 * A call is handed back when its handler has returned and its answer is given, in whichever order: a deferred call
 * (weir_call_defer()) outlives its handler and holds no thread.
 *
 * Threads: handler_pool_submit(), handler_pool_collect() and handler_pool_cancel() by the loop; the rest of a call belongs
 * to its thread while it runs, or to the thread that a deferred call was handed to.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_HANDLER_POOL_H
#define WEIR_ENGINE_IN_PROCESS_HANDLER_POOL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/in_process/fair_queue.h"
#include "engine/in_process/loop.h"
#include "queue/limits.h"
#include "weir/handler.h"

enum {
    HANDLER_THREADS_MAX = 16,
    HANDLER_SPARE_PART = 8, /* of so many threads one is only for workspaces that no thread works for */
    HANDLER_NAME_MAX = 64   /* bytes */
};

enum call_result { CALL_NOTHING, CALL_DONE, CALL_RETRY, CALL_FAILED, CALL_BAD_OUTPUT, CALL_STARVED };

struct weir_call {
    struct fair_entry turn;
    struct fair_lane *lane; /* of its workspace */
    struct weir_call *next; /* among those that were submitted, or have finished */
    const struct weir_handler *handler;
    const char *execution_id; /* these live as long as the call: the execution waits for it */
    const char *workspace;
    const char *step;
    const char *input;
    char *own_input; /* when `input` was evaluated for this call */
    int attempt;
    int64_t fence;
    void *owner;
    struct handler_pool *pool; /* set when it is submitted */
    atomic_int open_ends;      /* of the two that hand it back: the handler's return and, when it is deferred, the answer */
    bool is_deferred;
    atomic_bool cancelled;
    pthread_mutex_t cancel_lock; /* of the two below; held while the function runs */
    weir_cancel_function *on_cancel;
    void *cancel_context;
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
    struct weir_call *submitted; /* by the loop, not handed over yet */
    struct weir_call **submitted_end;
    size_t submitted_count;
    _Atomic(struct weir_call *) finished; /* newest first */
};

void handler_pool_init(struct handler_pool *pool, struct loop *loop);
/* `spare` of them are only for workspaces that no thread works for. */
WEIR_MUST_CHECK enum weir_status handler_pool_run_threads(struct handler_pool *pool, size_t count, size_t spare,
                                                          struct weir_error *error);
/* Waits for the calls that run or are deferred; those that wait are dropped (their owner frees them with
 * handler_pool_collect()). */
void handler_pool_close(struct handler_pool *pool);
void handler_pool_submit(struct handler_pool *pool, struct weir_call *call);
/* The handler is asked to end. */
void handler_pool_cancel(struct weir_call *call);
/* The weight of a workspace's lane, from now on. */
void handler_pool_weigh(struct handler_pool *pool, struct fair_lane *lane, int weight);
/* Hands what was submitted to the threads at once, or runs it here when there are none. */
void handler_pool_flush(struct handler_pool *pool);
/* Calls that have finished, oldest first, linked by `next`; NULL when there are none. */
struct weir_call *handler_pool_collect(struct handler_pool *pool);
bool handler_pool_has_finished(struct handler_pool *pool);

#endif
