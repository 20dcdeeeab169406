/* Evaluator processes: assignment of requests, limits, replacement.
 *
 *   1. A request waits in the fair queue of the workspaces.
 *   2. It goes to an idle evaluator, else to a new one. Each evaluator has one request at a time, so its deadline and its
 *      death concern one expression.
 *   3. The deadline is processor time of the evaluator: the timer reads it, and is set again until the second is used up. A
 *      deadline in real time ends an evaluator that hangs.
 *   4. An evaluator that passes a deadline is killed, and its request ends with WEIR_TIMED_OUT. Only a kill stops libjq.
 *   5. An evaluator that dies with a request may have died with its keeper. So the request is sent once more. If the second
 *      evaluator dies too, it ends with WEIR_SYSTEM.
 *   6. The next request that needs it starts a replacement. Nothing is started in advance.
 *
 * The confinement of the process is in evaluator_process.c. A shortage never fails a request; the request waits. The loop's
 * thread runs all of it. `answered` may add or drop requests, so no function uses its request after the call.
 */
#include "engine/in_process/evaluator_pool.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

/* Least time between two reads of an evaluator's processor time. */
#define DEADLINE_POLL_US (10 * MICROSECONDS_PER_MS)

/* --- the end of an evaluator --- */

static void close_watched_fd(struct loop *loop, struct watch *watch)
{
    int fd = watch->fd;
    if (fd >= 0) {
        loop_unwatch(loop, watch);
        (void)close(fd);
    }
}

/* Takes the request from the evaluator and returns its place; NULL when it has none. */
static struct evaluator_request *take_request(struct evaluator_child *child)
{
    struct evaluator_request *request = child->request;
    child->request = NULL;
    if (request != NULL) {
        fair_queue_release(&child->pool->queue, request->lane);
    }
    return request;
}

/* Kills the evaluator and answers its request. Its slot is free after the keeper has reported the end. */
static void end_evaluator(struct evaluator_child *child, enum weir_status status, const char *message)
{
    struct evaluator_request *request = take_request(child);
    loop_clear_timer(child->pool->loop, &child->deadline);
    close_watched_fd(child->pool->loop, &child->requests);
    close_watched_fd(child->pool->loop, &child->answers);
    text_clear(&child->received);
    if (child->process != NULL && !child->is_dead) {
        child->is_dead = true;
        process_kill(child->process, 0);
    }
    if (request != NULL && status == WEIR_SYSTEM && !request->is_second) {
        request->is_second = true; /* the evaluator may have died with the keeper */
        fair_queue_put_back(&child->pool->queue, request->lane, &request->turn);
    } else if (request != NULL) {
        text_close(&request->frame);
        request->answered(request, status, NULL, message);
    }
}

static void evaluator_ended(struct process *process)
{
    struct evaluator_child *child = process->owner;
    child->is_dead = true;
    if (process->end == PROCESS_NOT_STARTED && shortage_is_cause(process->native) && child->request != NULL) {
        struct evaluator_request *request = take_request(child); /* it waits until an evaluator can start */
        fair_queue_put_back(&child->pool->queue, request->lane, &request->turn);
    }
    end_evaluator(child, WEIR_SYSTEM, "the evaluator ended");
    process_free(process);
    child->process = NULL;
    child->is_dead = false;
    evaluator_pool_assign(child->pool);
}

/* The processor time decides. A busy machine only makes this timer fire more often. */
static void deadline_passed(struct timer *timer)
{
    struct evaluator_child *child = timer->owner;
    int64_t now_us = loop_now(child->pool->loop);
    int64_t left_us = EVALUATOR_DEADLINE_US - (process_cpu_us(child->process) - child->began_cpu_us);
    int64_t latest_us = time_add(child->began_us, EVALUATOR_DEADLINE_MOST_US);
    if (left_us <= 0 || now_us >= latest_us) {
        end_evaluator(child, WEIR_TIMED_OUT, "the expression took longer than 1s");
        return;
    }
    left_us = left_us > DEADLINE_POLL_US ? left_us : DEADLINE_POLL_US;
    loop_set_timer(child->pool->loop, timer, time_add(now_us, left_us));
}

/* --- requests and answers --- */

/* Its pipes are closed. If the keeper has not reported its start, a report with the reason follows, and evaluator_ended()
 * decides. */
static void handle_closed_pipe(struct evaluator_child *child)
{
    if (child->process == NULL || child->process->pid != 0 || child->is_dead) {
        end_evaluator(child, WEIR_SYSTEM, "the evaluator ended");
        return;
    }
    loop_clear_timer(child->pool->loop, &child->deadline);
    close_watched_fd(child->pool->loop, &child->requests);
    close_watched_fd(child->pool->loop, &child->answers);
}

static void send_request_bytes(struct evaluator_child *child)
{
    struct text *frame = &child->request->frame;
    while (child->sent < frame->length) {
        ssize_t written =
            send(child->requests.fd, frame->data + child->sent, frame->length - child->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written > 0) {
            child->sent += (size_t)written;
        } else if (errno == EAGAIN) {
            loop_change(child->pool->loop, &child->requests, EPOLLOUT);
            return;
        } else if (errno != EINTR) {
            handle_closed_pipe(child);
            return;
        }
    }
    loop_change(child->pool->loop, &child->requests, 0);
}

static void requests_ready(struct watch *watch, uint32_t events)
{
    struct evaluator_child *child = watch->owner;
    if ((events & EPOLLOUT) != 0 && child->request != NULL) {
        send_request_bytes(child);
    } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        handle_closed_pipe(child);
    }
}

/* Takes a complete frame from the received bytes. The evaluator is then idle. */
static void take_evaluator_answer(struct evaluator_child *child)
{
    struct evaluator_answer answer = {.id = 0};
    size_t used = 0;
    if (evaluator_answer_read(child->received.data, child->received.length, &answer, &used, NULL) != WEIR_OK) {
        end_evaluator(child, WEIR_SYSTEM, "the evaluator sent no valid answer");
        return;
    }
    if (used == 0) {
        return;
    }
    struct evaluator_request *request = child->request;
    if (request == NULL || answer.id != request->id) {
        json_decref(answer.value);
        end_evaluator(child, WEIR_SYSTEM, "the evaluator answered another request");
        return;
    }
    text_clear(&child->received);
    (void)take_request(child);
    loop_clear_timer(child->pool->loop, &child->deadline);
    text_close(&request->frame);
    request->answered(request, answer.value != NULL ? WEIR_OK : WEIR_FAILED, answer.value, answer.error);
    evaluator_pool_assign(child->pool);
}

static void answers_ready(struct watch *watch, uint32_t events)
{
    (void)events;
    struct evaluator_child *child = watch->owner;
    char buffer[16 * 1024];
    ssize_t got = read(watch->fd, buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        handle_closed_pipe(child);
        return;
    }
    if (text_add(&child->received, buffer, (size_t)got) != WEIR_OK) {
        end_evaluator(child, WEIR_SYSTEM, "the evaluator ended");
        return;
    }
    take_evaluator_answer(child);
}

/* --- the pool --- */

void evaluator_pool_init(struct evaluator_pool *pool, struct loop *loop, struct process_table *table)
{
    INVARIANT(loop != NULL && table != NULL);
    memset(pool, 0, sizeof *pool);
    pool->loop = loop;
    pool->table = table;
    fair_queue_init(&pool->queue, EVALUATORS_MAX, EVALUATORS_SPARE);
    for (size_t i = 0; i < EVALUATORS_MAX; i++) {
        struct evaluator_child *child = &pool->children[i];
        *child = (struct evaluator_child){.pool = pool,
                                          .requests = {.fd = -1, .ready = requests_ready, .owner = child},
                                          .answers = {.fd = -1, .ready = answers_ready, .owner = child},
                                          .deadline = {.fire = deadline_passed, .owner = child},
                                          .received = {.max = EVALUATOR_FRAME_BYTES_MAX + EVALUATOR_HEADER_BYTES}};
    }
}

void evaluator_pool_close(struct evaluator_pool *pool)
{
    INVARIANT(pool != NULL);
    for (size_t i = 0; i < EVALUATORS_MAX && pool->loop != NULL; i++) {
        struct evaluator_child *child = &pool->children[i];
        close_watched_fd(pool->loop, &child->requests);
        close_watched_fd(pool->loop, &child->answers);
        loop_clear_timer(pool->loop, &child->deadline);
        text_close(&child->received);
    }
}

/* Starts a process in this slot and watches its pipes. */
static bool start_evaluator(struct evaluator_child *child)
{
    int requests;
    int answers;
    if (process_start_evaluator(child->pool->table, child, evaluator_ended, &requests, &answers, &child->process, NULL) !=
        WEIR_OK) {
        return false;
    }
    if (loop_watch(child->pool->loop, &child->requests, requests, 0) != WEIR_OK) {
        shortage_note(&child->pool->table->shortage, errno);
        (void)close(requests);
        (void)close(answers);
        end_evaluator(child, WEIR_SYSTEM, "");
        return false;
    }
    if (loop_watch(child->pool->loop, &child->answers, answers, EPOLLIN) != WEIR_OK) {
        shortage_note(&child->pool->table->shortage, errno);
        (void)close(answers);
        end_evaluator(child, WEIR_SYSTEM, "");
        return false;
    }
    return true;
}

/* A running evaluator without a request, else a slot without a process, else NULL. */
static struct evaluator_child *find_idle_evaluator(struct evaluator_pool *pool)
{
    struct evaluator_child *to_start = NULL;
    for (size_t i = 0; i < EVALUATORS_MAX; i++) {
        struct evaluator_child *child = &pool->children[i];
        if (child->process == NULL) {
            to_start = to_start != NULL ? to_start : child;
        } else if (child->request == NULL && !child->is_dead) {
            return child;
        }
    }
    return to_start;
}

void evaluator_pool_assign(struct evaluator_pool *pool)
{
    INVARIANT(pool->loop != NULL);
    struct fair_entry *turn;
    while ((turn = fair_queue_next(&pool->queue)) != NULL) {
        struct evaluator_child *child = find_idle_evaluator(pool);
        if (child == NULL || (child->process == NULL && !process_table_may_start(pool->table))) {
            return;
        }
        struct evaluator_request *request = (struct evaluator_request *)(void *)turn; /* its first member */
        fair_queue_take(&pool->queue, turn);
        if (child->process == NULL && !start_evaluator(child)) {
            if (!process_table_may_start(pool->table)) {
                fair_queue_put_back(&pool->queue, request->lane, turn);
                return;
            }
            text_close(&request->frame);
            request->answered(request, WEIR_SYSTEM, NULL, "no evaluator could be started");
            continue;
        }
        INVARIANT(child->request == NULL && !child->is_dead);
        fair_queue_hold(&pool->queue, request->lane);
        child->request = request;
        child->sent = 0;
        child->began_us = loop_now(pool->loop);
        child->began_cpu_us = process_cpu_us(child->process);
        loop_set_timer(pool->loop, &child->deadline, time_add(child->began_us, EVALUATOR_DEADLINE_US));
        send_request_bytes(child);
    }
}

enum weir_status evaluator_pool_request(struct evaluator_pool *pool, struct fair_lane *lane,
                                        struct evaluator_request *request, const char *program, const json_t *input,
                                        struct weir_error *error)
{
    INVARIANT(lane != NULL && request->answered != NULL);
    request->frame = (struct text){.max = EVALUATOR_FRAME_BYTES_MAX + EVALUATOR_HEADER_BYTES};
    request->id = ++pool->last_id;
    request->turn = (struct fair_entry){.lane = NULL};
    request->lane = lane;
    request->is_second = false;
    enum weir_status status = evaluator_request_write(request->id, program, input, &request->frame, error);
    if (status != WEIR_OK) {
        text_close(&request->frame);
        return status;
    }
    fair_queue_add(&pool->queue, lane, &request->turn);
    return WEIR_OK;
}

void evaluator_pool_drop(struct evaluator_pool *pool, struct evaluator_request *request)
{
    INVARIANT(pool->loop != NULL);
    (void)fair_queue_remove(&pool->queue, &request->turn);
    for (size_t i = 0; i < EVALUATORS_MAX; i++) {
        if (pool->children[i].request == request) {
            (void)take_request(&pool->children[i]); /* the evaluator would answer it during the next request */
            end_evaluator(&pool->children[i], WEIR_STOPPED, "");
        }
    }
    text_close(&request->frame);
}
