#include "engine/in_process/handler_pool.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* --- what a handler sees --- */

/* A year. */
#define HANDLER_RETRY_DELAY_MAX_US (365 * 86400 * MICROSECONDS_PER_SECOND)

static void finish(struct handler_pool *pool, struct weir_call *call)
{
    struct weir_call *head = atomic_load_explicit(&pool->finished, memory_order_relaxed);
    do {
        call->next = head;
    } while (!atomic_compare_exchange_weak(&pool->finished, &head, call));
}

static void forget_cancel_function(struct weir_call *call)
{
    (void)pthread_mutex_lock(&call->cancel_lock); /* awaits one that runs */
    call->on_cancel = NULL;
    (void)pthread_mutex_unlock(&call->cancel_lock);
}

/* Of the handler's return and the answer, the later one hands the call back. */
static void close_end(struct weir_call *call)
{
    struct handler_pool *pool = call->pool;
    bool is_deferred = call->is_deferred;
    if (atomic_fetch_sub(&call->open_ends, 1) > 1) {
        return;
    }
    finish(pool, call);
    loop_ring(pool->loop);
    if (is_deferred) { /* the last touch of the pool, which may be closed then */
        (void)pthread_mutex_lock(&pool->lock);
        pool->deferred--;
        (void)pthread_cond_broadcast(&pool->answered);
        (void)pthread_mutex_unlock(&pool->lock);
    }
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *weir_call_execution_id(const struct weir_call *call)
{
    return call->execution_id;
}

EXPORTED const char *weir_call_workspace(const struct weir_call *call)
{
    return call->workspace;
}

EXPORTED const char *weir_call_step(const struct weir_call *call)
{
    return call->step;
}

EXPORTED int weir_call_attempt(const struct weir_call *call)
{
    return call->attempt;
}

EXPORTED int64_t weir_call_fence(const struct weir_call *call)
{
    return call->fence;
}

EXPORTED const char *weir_call_input(const struct weir_call *call)
{
    return call->input;
}

EXPORTED bool weir_call_cancelled(const struct weir_call *call)
{
    return atomic_load_explicit(&call->cancelled, memory_order_relaxed);
}

EXPORTED void weir_call_on_cancel(struct weir_call *call, weir_cancel_function *function, void *context)
{
    (void)pthread_mutex_lock(&call->cancel_lock);
    call->on_cancel = function;
    call->cancel_context = context;
    if (function != NULL && atomic_load(&call->cancelled)) {
        call->on_cancel = NULL;
        function(call, context);
    }
    (void)pthread_mutex_unlock(&call->cancel_lock);
}

EXPORTED void weir_call_defer(struct weir_call *call)
{
    if (call->result == CALL_NOTHING && !call->is_deferred) {
        call->is_deferred = true;
        (void)atomic_fetch_add(&call->open_ends, 1);
        (void)pthread_mutex_lock(&call->pool->lock);
        call->pool->deferred++;
        (void)pthread_mutex_unlock(&call->pool->lock);
    }
}

/* The last step of every answer. Whoever has deferred the call must not touch it any more. */
static void end_answer(struct weir_call *call)
{
    forget_cancel_function(call);
    if (call->is_deferred) {
        close_end(call);
    }
}

static void take_output(struct weir_call *call, const char *output)
{
    struct weir_error error;
    size_t length = strlen(output);
    if (length > STEP_OUTPUT_BYTES_MAX) {
        call->result = CALL_BAD_OUTPUT;
        call->error = strdup("the output is larger than a step may give");
        return;
    }
    enum weir_status status = json_read(output, length, &call->value, &error);
    call->output = status == WEIR_OK ? strdup(output) : NULL;
    if (status == WEIR_OUT_OF_MEMORY || (status == WEIR_OK && call->output == NULL)) {
        call->result = CALL_STARVED;
    } else if (status != WEIR_OK) {
        call->result = CALL_BAD_OUTPUT;
        call->error = strdup(error.message);
    }
}

EXPORTED void weir_done(struct weir_call *call, const char *output)
{
    if (call->result != CALL_NOTHING) {
        return;
    }
    call->result = CALL_DONE;
    if (output != NULL) {
        take_output(call, output);
    }
    end_answer(call);
}

static void answer(struct weir_call *call, enum call_result result, int64_t delay_us, const char *code, const char *error)
{
    if (call->result != CALL_NOTHING) {
        return;
    }
    call->result = result;
    call->retry_delay_us = delay_us < HANDLER_RETRY_DELAY_MAX_US ? delay_us : HANDLER_RETRY_DELAY_MAX_US;
    text_copy(call->code, sizeof call->code, code != NULL && *code != '\0' ? code : "handler_failed");
    text_make_safe(call->code);
    call->error = error != NULL ? strndup(error, ERROR_TEXT_MAX) : NULL;
    if (call->error != NULL) {
        text_make_safe(call->error);
    }
    end_answer(call);
}

EXPORTED void weir_retry(struct weir_call *call, const char *code, const char *error)
{
    answer(call, CALL_RETRY, -1, code, error);
}

EXPORTED void weir_retry_after(struct weir_call *call, int64_t delay_us, const char *code, const char *error)
{
    answer(call, CALL_RETRY, delay_us, code, error);
}

EXPORTED void weir_fail(struct weir_call *call, const char *code, const char *error)
{
    answer(call, CALL_FAILED, -1, code, error);
}

struct weir_call *weir_call_new(void)
{
    struct weir_call *call = calloc(1, sizeof *call);
    if (call != NULL) {
        atomic_init(&call->open_ends, 1);
        call->retry_delay_us = -1;
        (void)pthread_mutex_init(&call->cancel_lock, NULL);
    }
    return call;
}

void weir_call_free(struct weir_call *call)
{
    if (call != NULL) {
        (void)pthread_mutex_destroy(&call->cancel_lock);
        free(call->own_input);
        free(call->output);
        free(call->error);
        json_decref(call->value);
        free(call);
    }
}

/* --- the pool --- */

void handler_pool_init(struct handler_pool *pool, struct loop *loop)
{
    memset(pool, 0, sizeof *pool);
    pool->loop = loop;
    pool->submitted_end = &pool->submitted;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->filled, NULL);
    (void)pthread_cond_init(&pool->answered, NULL);
}

/* The call whose turn it is, or NULL. Under the lock. */
static struct weir_call *pop(struct handler_pool *pool)
{
    struct fair_entry *turn = fair_queue_next(&pool->queue);
    struct weir_call *call = (struct weir_call *)(void *)turn; /* its first member */
    if (call != NULL) {
        fair_queue_take(&pool->queue, turn);
        fair_queue_hold(&pool->queue, call->lane);
    }
    return call;
}

/* Waits for one. NULL: the pool is closed. */
static struct weir_call *take(struct handler_pool *pool)
{
    struct weir_call *call;
    (void)pthread_mutex_lock(&pool->lock);
    while ((call = pop(pool)) == NULL && !pool->stopping) {
        pool->idle_threads++;
        (void)pthread_cond_wait(&pool->filled, &pool->lock);
        pool->idle_threads--;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return call;
}

/* Gives back the place of `call`, whose lane may be gone as soon as the call is handed back. */
static struct weir_call *take_after(struct handler_pool *pool, const struct weir_call *call)
{
    (void)pthread_mutex_lock(&pool->lock);
    fair_queue_release(&pool->queue, call->lane);
    struct weir_call *next = pop(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    return next;
}

static void run(struct weir_call *call)
{
    call->handler->function(call, call->handler->context);
    if (!call->is_deferred) {
        forget_cancel_function(call); /* it has returned without an answer */
    }
}

static void *work(void *argument)
{
    struct handler_pool *pool = argument;
    struct weir_call *call = take(pool);
    while (call != NULL) {
        run(call);
        struct weir_call *next = take_after(pool, call);
        close_end(call);
        call = next != NULL ? next : take(pool);
    }
    return NULL;
}

enum weir_status handler_pool_run_threads(struct handler_pool *pool, size_t count, size_t spare, struct weir_error *error)
{
    fair_queue_init(&pool->queue, count < HANDLER_THREADS_MAX ? count : HANDLER_THREADS_MAX, spare);
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the node's own threads */
    int native = 0;
    while (native == 0 && pool->thread_count < count && pool->thread_count < HANDLER_THREADS_MAX) {
        native = pthread_create(&pool->threads[pool->thread_count], NULL, work, pool);
        pool->thread_count += native == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return native == 0 ? WEIR_OK : error_set_native(error, WEIR_SYSTEM, native, "no thread for handlers");
}

void handler_pool_close(struct handler_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    struct weir_call *waiting = NULL;
    while (pool->queue.first != NULL) {
        struct weir_call *call = (struct weir_call *)(void *)pool->queue.first->first;
        (void)fair_queue_remove(&pool->queue, &call->turn);
        call->next = waiting;
        waiting = call;
    }
    (void)pthread_cond_broadcast(&pool->filled);
    (void)pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (pool->deferred > 0) {
        (void)pthread_cond_wait(&pool->answered, &pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    *pool->submitted_end = NULL;
    struct weir_call *dropped[] = {waiting, pool->submitted};
    for (size_t i = 0; i < 2; i++) {
        while (dropped[i] != NULL) {
            struct weir_call *call = dropped[i];
            dropped[i] = call->next;
            finish(pool, call);
        }
    }
    pool->submitted = NULL;
    (void)pthread_cond_destroy(&pool->filled);
    (void)pthread_cond_destroy(&pool->answered);
    (void)pthread_mutex_destroy(&pool->lock);
}

void handler_pool_submit(struct handler_pool *pool, struct weir_call *call)
{
    call->pool = pool;
    call->next = NULL;
    *pool->submitted_end = call;
    pool->submitted_end = &call->next;
    pool->submitted_count++;
}

void handler_pool_cancel(struct weir_call *call)
{
    (void)pthread_mutex_lock(&call->cancel_lock);
    if (!atomic_exchange(&call->cancelled, true) && call->on_cancel != NULL) {
        weir_cancel_function *function = call->on_cancel;
        call->on_cancel = NULL;
        function(call, call->cancel_context);
    }
    (void)pthread_mutex_unlock(&call->cancel_lock);
}

void handler_pool_weigh(struct handler_pool *pool, struct fair_lane *lane, int weight)
{
    (void)pthread_mutex_lock(&pool->lock);
    lane->weight = weight;
    (void)pthread_mutex_unlock(&pool->lock);
}

static void run_here(struct weir_call *call)
{
    while (call != NULL) {
        struct weir_call *next = call->next;
        run(call);
        close_end(call);
        call = next;
    }
}

void handler_pool_flush(struct handler_pool *pool)
{
    struct weir_call *submitted = pool->submitted;
    if (submitted == NULL) {
        return;
    }
    size_t count = pool->submitted_count;
    pool->submitted = NULL;
    pool->submitted_end = &pool->submitted;
    pool->submitted_count = 0;
    if (pool->thread_count == 0) {
        run_here(submitted);
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (submitted != NULL) {
        struct weir_call *next = submitted->next;
        fair_queue_add(&pool->queue, submitted->lane, &submitted->turn);
        submitted = next;
    }
    for (size_t i = 0; i < pool->idle_threads && i < count; i++) {
        (void)pthread_cond_signal(&pool->filled);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

struct weir_call *handler_pool_collect(struct handler_pool *pool)
{
    struct weir_call *newest = atomic_exchange(&pool->finished, NULL);
    struct weir_call *oldest = NULL;
    while (newest != NULL) {
        struct weir_call *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool handler_pool_has_finished(struct handler_pool *pool)
{
    return atomic_load(&pool->finished) != NULL;
}
