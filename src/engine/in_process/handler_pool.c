/* Calls of handlers: the pool of threads, and answers that come later.
 *
 * The way of a call:
 *
 *   1. The loop submits it. At the end of its turn the loop gives all new calls to the threads under one lock, and signals
 *      as many threads as sleep.
 *   2. A thread takes the call of the next turn (fair_queue.h) and runs the handler without a lock. A call that was
 *      cancelled in the queue is not begun.
 *   3. The handler answers with weir_done(), weir_retry() or weir_fail(), or defers the call and returns without an answer.
 *   4. A deferred call has two ends: the return of the handler, and the answer, which any thread of the host may give, even
 *      before the return. An atomic counter finds the second of them, which hands the call back. After that no other thread
 *      may use the call. A call that is not deferred has one end, the return.
 *   5. The loop collects the finished calls in its next turn and takes their results.
 *
 * A cancel sets a flag and calls the function of weir_call_on_cancel() under the call's own lock, so the answer cannot free
 * the call meanwhile. handler_pool_close() waits for running and deferred calls: the host uses their memory until then. The
 * place of a thread is returned before the call is handed back, because the execution may end then, and its lane with it.
 */
#include "engine/in_process/handler_pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/thread.h"
#include "engine/in_process/call_states.h"
#include "engine/in_process/step_secrets.h"

/* --- calls as handlers use them (weir/handler.h) --- */

/* Of a code or an error that a handler gives; the rest is not read. */
enum { ANSWER_TEXT_MAX = 1024 * 1024 };
/* A year. */
#define HANDLER_RETRY_DELAY_MAX_US (365 * 86400 * MICROSECONDS_PER_SECOND)

/* Any thread: puts the call on the stack of finished calls. */
static void push_finished(struct handler_pool *pool, struct weir_call *call)
{
    struct weir_call *head = atomic_load_explicit(&pool->finished, memory_order_relaxed);
    do {
        call->next = head;
    } while (!atomic_compare_exchange_weak(&pool->finished, &head, call));
}

static void clear_cancel_function(struct weir_call *call)
{
    (void)pthread_mutex_lock(&call->cancel_lock); /* waits while the function runs */
    call->on_cancel = NULL;
    (void)pthread_mutex_unlock(&call->cancel_lock);
}

/* One of the two ends of a call is closed: the handler's return, or the answer. The second one hands the call back. */
static void close_call_end(struct weir_call *call)
{
    struct handler_pool *pool = call->pool;
    bool is_deferred = call->is_deferred;
    if (atomic_fetch_sub(&call->open_ends, 1) > 1) {
        return;
    }
    push_finished(pool, call);
    loop_notify(pool->loop);
    if (is_deferred) { /* the last use of the pool, which may be closed after this */
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

int engine_call_weight(const struct weir_call *call)
{
    return call->weight;
}

EXPORTED const char *weir_call_step(const struct weir_call *call)
{
    return call->step;
}

EXPORTED int weir_call_attempt(const struct weir_call *call)
{
    return call->attempt;
}

EXPORTED int weir_call_ended_attempt(const struct weir_call *call)
{
    return call->ended_attempt;
}

EXPORTED int64_t weir_call_fence(const struct weir_call *call)
{
    return call->fence;
}

EXPORTED const char *weir_call_traceparent(const struct weir_call *call)
{
    return call->traceparent[0] == '\0' ? NULL : call->traceparent;
}

EXPORTED const char *weir_call_input(const struct weir_call *call)
{
    return call->input;
}

EXPORTED const char *weir_call_secret(const struct weir_call *call, const char *name)
{
    return step_secrets_find(call->secrets, name);
}

EXPORTED bool weir_call_cancelled(const struct weir_call *call)
{
    return atomic_load_explicit(&call->cancelled, memory_order_relaxed);
}

EXPORTED bool weir_call_moves(const struct weir_call *call)
{
    return weir_call_cancelled(call) && atomic_load(&call->moves);
}

EXPORTED int64_t weir_call_taken_over_us(const struct weir_call *call)
{
    return call->taken_over_us == TIME_NEVER ? -1 : time_later(0, clock_boot(call->engine->clock) - call->taken_over_us);
}

EXPORTED int64_t weir_call_time_left_us(const struct weir_call *call)
{
    return call->timeout_us == TIME_NEVER ? -1 : time_later(0, call->timeout_us - clock_boot(call->engine->clock));
}

static enum log_stream stream_of(enum weir_stream stream)
{
    return stream == WEIR_STREAM_STDOUT ? LOG_STDOUT : stream == WEIR_STREAM_STDERR ? LOG_STDERR : LOG_HANDLER;
}

EXPORTED void weir_call_output(struct weir_call *call, enum weir_stream stream, const char *text, size_t length)
{
    INVARIANT(call != NULL && (text != NULL || length == 0));
    if (call->engine == NULL || length == 0) {
        return;
    }
    /* The copy can hide the secrets of the step, and end with a line break. */
    struct text line = {.max = SIZE_MAX / 2, .wipes = call->secrets != NULL};
    if (text_add(&line, text, length) != WEIR_OK) {
        return;
    }
    line.length = step_secrets_hide(call->secrets, line.data, line.length);
    if (text[length - 1] != '\n' && text_add(&line, "\n", 1) != WEIR_OK) {
        text_close(&line);
        return;
    }
    struct engine_output output = {.execution_id = call->execution_id,
                                   .step = call->step,
                                   .attempt = call->attempt,
                                   .at_us = time_add(clock_boot(call->engine->clock), call->store_ahead_us),
                                   .stream = stream_of(stream),
                                   .bytes = line.data,
                                   .length = line.length,
                                   .call_owner = call->task};
    engine_output(call->engine, &output);
    text_close(&line);
}

EXPORTED void weir_call_log(struct weir_call *call, const char *text, size_t length)
{
    weir_call_output(call, WEIR_STREAM_LOG, text, length);
}

static int progress_parts(double fraction)
{
    double within = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    return isnan(fraction) ? -1 : (int)(within * PROGRESS_PARTS + 0.5);
}

static void report_progress(struct weir_call *call, int parts, const char *text)
{
    struct engine_progress progress = {.execution_id = call->execution_id,
                                       .step = call->step,
                                       .attempt = call->attempt,
                                       .fence = call->fence,
                                       .at_us = time_add(clock_boot(call->engine->clock), call->store_ahead_us),
                                       .parts = parts,
                                       .text = text,
                                       .call_owner = call->task};
    engine_report_progress(call->engine, &progress);
}

EXPORTED void weir_call_progress(struct weir_call *call, double fraction, const char *text)
{
    INVARIANT(call != NULL);
    if (call->engine == NULL) {
        return;
    }
    char *safe = step_secrets_copy_message(call->secrets, text, ANSWER_TEXT_MAX, PROGRESS_TEXT_MAX);
    atomic_store_explicit(&call->has_progress, true, memory_order_relaxed);
    report_progress(call, progress_parts(fraction), safe != NULL ? safe : "");
    free(safe);
}

/* The answer has ordered all that the handler's threads wrote. */
void handler_pool_end_progress(struct weir_call *call)
{
    INVARIANT(call != NULL);
    if (atomic_load_explicit(&call->has_progress, memory_order_relaxed)) {
        report_progress(call, -1, NULL);
    }
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

EXPORTED void weir_call_on_recorded(struct weir_call *call, weir_recorded_function *function, void *context)
{
    INVARIANT(function != NULL && call->on_recorded == NULL);
    call->on_recorded = function;
    call->recorded_context = context;
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

/* The last part of each answer. After it the thread with a deferred call must not use the call. */
static void complete_answer(struct weir_call *call)
{
    clear_cancel_function(call);
    if (call->is_deferred) {
        close_call_end(call);
    }
}

static void take_handler_output(struct weir_call *call, const char *output)
{
    struct weir_error error = {.message = ""};
    size_t length = strlen(output);
    if (length > STEP_OUTPUT_BYTES_MAX) {
        call->result = CALL_BAD_OUTPUT;
        call->error = strdup("the output is larger than the limit of a step");
        return;
    }
    call->output = strdup(output);
    enum weir_status status = call->output != NULL
                                  ? step_secrets_hide_output(call->secrets, &call->output, &call->value, &error)
                                  : WEIR_OUT_OF_MEMORY;
    if (status != WEIR_OK) {
        free(call->output);
        call->output = NULL;
    }
    if (status == WEIR_OUT_OF_MEMORY) {
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
        take_handler_output(call, output);
    }
    complete_answer(call);
}

/* The answers without an output. The first answer counts; the rest is ignored. */
static void give_answer(struct weir_call *call, enum call_result result, int64_t delay_us, const char *code,
                        const char *error)
{
    if (call->result != CALL_NOTHING) {
        return;
    }
    call->result = result;
    call->retry_delay_us = delay_us < HANDLER_RETRY_DELAY_MAX_US ? delay_us : HANDLER_RETRY_DELAY_MAX_US;
    char *own_code = step_secrets_copy_message(call->secrets, code, ANSWER_TEXT_MAX, ERROR_CODE_MAX);
    text_copy(call->code, sizeof call->code, own_code != NULL && *own_code != '\0' ? own_code : "handler_failed");
    text_make_safe(call->code);
    free(own_code);
    call->error = step_secrets_copy_message(call->secrets, error, ANSWER_TEXT_MAX, ERROR_TEXT_MAX);
    complete_answer(call);
}

EXPORTED void weir_retry(struct weir_call *call, const char *code, const char *error)
{
    give_answer(call, CALL_RETRY, -1, code, error);
}

EXPORTED void weir_retry_after(struct weir_call *call, int64_t delay_us, const char *code, const char *error)
{
    give_answer(call, CALL_RETRY, delay_us, code, error);
}

EXPORTED void weir_fail(struct weir_call *call, const char *code, const char *error)
{
    give_answer(call, CALL_FAILED, -1, code, error);
}

EXPORTED void weir_interrupted(struct weir_call *call, const char *error)
{
    give_answer(call, CALL_INTERRUPTED, -1, STEP_WORKER_LOST, error);
}

EXPORTED void weir_give_back(struct weir_call *call)
{
    give_answer(call, CALL_GIVEN_BACK, -1, NULL, NULL);
}

void engine_call_left(struct weir_call *call, const char *error)
{
    INVARIANT(call != NULL);
    give_answer(call, CALL_LEFT, -1, STEP_INTERRUPTED, error);
}

void engine_call_unserved(struct weir_call *call)
{
    INVARIANT(call != NULL);
    give_answer(call, CALL_UNSERVED, -1, NULL, NULL);
}

struct weir_call *weir_call_new(void)
{
    struct weir_call *call = pool_allocate(sizeof *call);
    if (call != NULL) {
        atomic_init(&call->open_ends, 1);
        call->retry_delay_us = -1;
        call->taken_over_us = TIME_NEVER;
        call->timeout_us = TIME_NEVER;
        (void)pthread_mutex_init(&call->cancel_lock, NULL);
    }
    return call;
}

void weir_call_free(struct weir_call *call)
{
    if (call != NULL) {
        (void)pthread_mutex_destroy(&call->cancel_lock);
        step_secrets_free(call->secrets);
        call_states_free(call->states);
        free(call->own_input);
        free(call->output);
        free(call->error);
        json_decref(call->value);
        pool_free(call, sizeof *call);
    }
}

/* --- the pool --- */

void handler_pool_init(struct handler_pool *pool, struct loop *loop)
{
    INVARIANT(loop != NULL);
    memset(pool, 0, sizeof *pool);
    pool->loop = loop;
    pool->submitted_end = &pool->submitted;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->filled, NULL);
    (void)pthread_cond_init(&pool->answered, NULL);
}

/* The call of the next turn, or NULL. Under the lock. */
static struct weir_call *pop_call(struct handler_pool *pool)
{
    struct fair_entry *turn = fair_queue_next(&pool->queue);
    struct weir_call *call = (struct weir_call *)(void *)turn; /* its first member */
    if (call != NULL) {
        fair_queue_take(&pool->queue, turn);
        fair_queue_hold(&pool->queue, call->lane);
    }
    return call;
}

/* Waits for a call. NULL: the pool closes. */
static struct weir_call *wait_for_call(struct handler_pool *pool)
{
    struct weir_call *call;
    (void)pthread_mutex_lock(&pool->lock);
    while ((call = pop_call(pool)) == NULL && !pool->stopping) {
        pool->idle_threads++;
        (void)pthread_cond_wait(&pool->filled, &pool->lock);
        pool->idle_threads--;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return call;
}

/* Returns the place of `call` and takes the next one. Before the hand-back: after that the lane may be freed. */
static struct weir_call *release_and_pop(struct handler_pool *pool, const struct weir_call *call)
{
    (void)pthread_mutex_lock(&pool->lock);
    fair_queue_release(&pool->queue, call->lane);
    struct weir_call *next = pop_call(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    return next;
}

/* After a cancel another worker may run the step already, or no result is wanted. */
static void run_call(struct weir_call *call)
{
    if (weir_call_cancelled(call)) {
        weir_retry(call, "cancelled", "it was cancelled before its handler began");
        return;
    }
    call->handler->function(call, call->handler->context);
    if (!call->is_deferred) {
        clear_cancel_function(call); /* the handler has returned without an answer */
    }
}

/* The life of a thread of the pool. */
static void *run_handler_thread(void *argument)
{
    struct handler_pool *pool = argument;
    struct weir_call *call = wait_for_call(pool);
    while (call != NULL) {
        run_call(call);
        struct weir_call *next = release_and_pop(pool, call);
        close_call_end(call);
        call = next != NULL ? next : wait_for_call(pool);
    }
    return NULL;
}

enum weir_status handler_pool_run_threads(struct handler_pool *pool, size_t count, size_t spare, struct weir_error *error)
{
    INVARIANT(count > 0);
    fair_queue_init(&pool->queue, count < HANDLER_THREADS_MAX ? count : HANDLER_THREADS_MAX, spare);
    int native = 0;
    while (native == 0 && pool->thread_count < count && pool->thread_count < HANDLER_THREADS_MAX) {
        native = thread_start(&pool->threads[pool->thread_count], run_handler_thread, pool);
        pool->thread_count += native == 0;
    }
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for handlers");
}

void handler_pool_close(struct handler_pool *pool)
{
    INVARIANT(pool->loop != NULL && !pool->stopping);
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
            push_finished(pool, call);
        }
    }
    pool->submitted = NULL;
    (void)pthread_cond_destroy(&pool->filled);
    (void)pthread_cond_destroy(&pool->answered);
    (void)pthread_mutex_destroy(&pool->lock);
}

void handler_pool_submit(struct handler_pool *pool, struct weir_call *call)
{
    INVARIANT(call->handler != NULL && call->lane != NULL && call->owner != NULL && !pool->stopping);
    call->pool = pool;
    call->next = NULL;
    *pool->submitted_end = call;
    pool->submitted_end = &call->next;
    pool->submitted_count++;
}

void handler_pool_adopt(struct handler_pool *pool, struct weir_call *call)
{
    INVARIANT(call->handler == NULL && call->owner != NULL && !call->is_deferred);
    call->pool = pool;
    call->is_deferred = true;
    (void)pthread_mutex_lock(&pool->lock);
    pool->deferred++;
    (void)pthread_mutex_unlock(&pool->lock);
}

void handler_pool_answer_starved(struct weir_call *call)
{
    INVARIANT(call->is_deferred && call->result == CALL_NOTHING);
    call->result = CALL_STARVED;
    complete_answer(call);
}

void handler_pool_answer_accepted(struct weir_call *call)
{
    INVARIANT(call->is_deferred && call->result == CALL_NOTHING);
    call->result = CALL_ACCEPTED;
    complete_answer(call);
}

void handler_pool_answer_next(struct weir_call *call)
{
    INVARIANT(call->states != NULL && call->result == CALL_NOTHING);
    call->result = CALL_NEXT;
    complete_answer(call);
}

void handler_pool_cancel(struct weir_call *call, bool moves)
{
    INVARIANT(call->pool != NULL);
    (void)pthread_mutex_lock(&call->cancel_lock);
    if (moves) {
        atomic_store(&call->moves, true);
    }
    if (!atomic_exchange(&call->cancelled, true) && call->on_cancel != NULL) {
        weir_cancel_function *function = call->on_cancel;
        call->on_cancel = NULL;
        function(call, call->cancel_context);
    }
    (void)pthread_mutex_unlock(&call->cancel_lock);
}

void handler_pool_set_weight(struct handler_pool *pool, struct fair_lane *lane, int weight)
{
    INVARIANT(lane != NULL);
    (void)pthread_mutex_lock(&pool->lock);
    lane->weight = weight;
    (void)pthread_mutex_unlock(&pool->lock);
}

static void run_calls_in_loop(struct weir_call *call)
{
    while (call != NULL) {
        struct weir_call *next = call->next;
        run_call(call);
        close_call_end(call);
        call = next;
    }
}

void handler_pool_flush(struct handler_pool *pool)
{
    INVARIANT((pool->submitted == NULL) == (pool->submitted_count == 0));
    struct weir_call *submitted = pool->submitted;
    if (submitted == NULL) {
        return;
    }
    size_t count = pool->submitted_count;
    pool->submitted = NULL;
    pool->submitted_end = &pool->submitted;
    pool->submitted_count = 0;
    if (pool->thread_count == 0) {
        run_calls_in_loop(submitted);
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
    INVARIANT(pool->loop != NULL);
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
