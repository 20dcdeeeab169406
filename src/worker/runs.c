/* The tasks that a worker has, from the claim to the end of the last request about each.
 *
 *     claimed -> handler runs -> result -> reported -> settled -> freed
 *                     |            |
 *                     +- lease over, or given to another worker: lost -> handler has ended -> freed
 *
 * A lease counts from the moment when its request was sent, by a clock that does not jump. So this worker gives a task up
 * before the server gives it to another one. A run that is lost occupies its place until its handler has ended, because the
 * handler occupies a thread.
 *
 * A log goes with the next requests about the task, until a server has accepted one of them. Each part has a place in the
 * log that stays the same, so a server that gets a part twice writes it once.
 *
 * worker_take_result(), worker_take_output() and worker_take_progress() run in threads of the engine, all else in the
 * worker's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "queue/log_lines.h"
#include "worker/worker_internal.h"

/* The result is that of a dropped call after this. */
static void free_result(struct worker_result *result)
{
    free(result->output);
    free(result->code);
    free(result->error);
    *result = (struct worker_result){.end = ENGINE_CALL_DROPPED};
}

static void free_run(struct worker_run *run)
{
    free_result(&run->result);
    json_decref(run->log);
    json_decref(run->log_sent);
    free(run->task);
    free(run->execution_id);
    free(run);
}

/* --- the begin --- */

/* NULL when out of memory. The answer was checked by is_task(). */
static struct worker_run *worker_add_run(struct worker *worker, size_t server, const json_t *task, int64_t ends_us)
{
    struct worker_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return NULL;
    }
    run->task = strdup(json_string_value(json_object_get(task, "task")));
    run->execution_id = strdup(json_string_value(json_object_get(task, "execution_id")));
    if (run->task == NULL || run->execution_id == NULL) {
        free_run(run);
        return NULL;
    }
    run->worker = worker;
    run->server = server;
    run->ends_us = ends_us;
    run->pause_us = WORKER_PAUSE_FIRST_US;
    run->next = worker->runs;
    if (run->next != NULL) {
        run->next->previous = run;
    }
    worker->runs = run;
    worker->run_count++;
    return run;
}

/* Frees it, too. */
static void remove_run(struct worker_run *run)
{
    struct worker *worker = run->worker;
    if (run->next != NULL) {
        run->next->previous = run->previous;
    }
    *(run->previous != NULL ? &run->previous->next : &worker->runs) = run->next;
    worker->run_count--;
    free_run(run);
}

/* Whether the members that a run needs are there. */
static bool is_task(const json_t *task)
{
    static const char *const texts[] = {"task", "execution_id", "workspace", "step", "handler"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!json_is_string(json_object_get(task, texts[i]))) {
            return false;
        }
    }
    return json_is_integer(json_object_get(task, "attempt")) && json_is_integer(json_object_get(task, "fence")) &&
           json_object_get(task, "input") != NULL;
}

/* `answered_us`: the times of the task count from there. A task that cannot begin is left alone: the server gives it to
 * another worker when its lease is over. */
static enum weir_status begin_task(struct worker *worker, size_t server, const json_t *task, int64_t answered_us,
                                   int64_t ends_us, struct weir_error *error)
{
    struct text input = {.max = CLIENT_ANSWER_BYTES_MAX};
    enum weir_status status = json_write(json_object_get(task, "input"), &input, error);
    struct worker_run *run = status == WEIR_OK ? worker_add_run(worker, server, task, ends_us) : NULL;
    if (run == NULL) {
        text_close(&input);
        return error_out_of_memory(error);
    }
    const json_t *timeout = json_object_get(task, "timeout_us");
    struct engine_call call = {.owner = run,
                               .execution_id = run->execution_id,
                               .workspace = json_string_value(json_object_get(task, "workspace")),
                               .step = json_string_value(json_object_get(task, "step")),
                               .handler = json_string_value(json_object_get(task, "handler")),
                               .input = input.data,
                               .traceparent = json_string_value(json_object_get(task, "traceparent")),
                               .attempt = (int)json_integer_value(json_object_get(task, "attempt")),
                               .fence = json_integer_value(json_object_get(task, "fence")),
                               .timeout_us = json_is_integer(timeout) ? time_add(answered_us, json_integer_value(timeout))
                                                                      : TIME_NEVER};
    status = engine_call(worker->engine, &call, error);
    text_close(&input);
    if (status != WEIR_OK) {
        remove_run(run);
    }
    return status;
}

/* A shorter lease would be over before its first heartbeat; a longer one is no setting of a server. */
static bool is_lease(const json_t *lease)
{
    return json_is_integer(lease) && json_integer_value(lease) >= WORKER_LEASE_LEAST_US &&
           json_integer_value(lease) <= WORKER_LEASE_MOST_US;
}

/* Checks all of the answer before it begins a task. */
enum weir_status worker_begin_tasks(struct worker *worker, size_t server, int64_t sent_us, const json_t *answer,
                                    struct weir_error *error)
{
    const json_t *tasks = json_object_get(answer, "tasks");
    const json_t *lease = json_object_get(answer, "lease_us");
    int64_t waited_us = json_integer_value(json_object_get(answer, "waited_us"));
    bool is_fine = json_is_array(tasks) && is_lease(lease) && waited_us >= 0;
    size_t i;
    const json_t *task;
    json_array_foreach(tasks, i, task)
    {
        is_fine = is_fine && is_task(task);
    }
    if (!is_fine) {
        return error_set(error, WEIR_STORE_NOT_WEIR, "the answer to a claim is not that of a weir server");
    }
    worker->lease_us = json_integer_value(lease);
    int64_t answered_us = time_add(sent_us, waited_us); /* or somewhat later */
    int64_t ends_us = time_add(answered_us, worker->lease_us);
    if (ends_us <= worker_now(worker)) {
        return WEIR_OK; /* the process was stopped meanwhile: another worker may have them */
    }
    json_array_foreach(tasks, i, task)
    {
        struct weir_error reason = {.status = WEIR_OK};
        if (begin_task(worker, server, task, answered_us, ends_us, &reason) != WEIR_OK) {
            worker_note_failure(worker, "begin_task", &reason);
        }
    }
    int64_t beat_us = time_add(worker_now(worker), worker->lease_us / 3);
    worker->servers[server].beat_due_us = time_earlier(worker->servers[server].beat_due_us, beat_us);
    return WEIR_OK;
}

/* --- logs --- */

/* JSON carries UTF-8 alone, and a server refuses a NUL. */
static json_t *make_log_text(const char *bytes, size_t length)
{
    if (text_is_utf8(bytes, length) && memchr(bytes, '\0', length) == NULL) {
        return json_stringn(bytes, length);
    }
    char *copy = malloc(length + 1);
    if (copy == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < length; i++) {
        copy[i] = bytes[i] == '\0' || (unsigned char)bytes[i] > 127 ? '?' : bytes[i];
    }
    json_t *text = json_stringn(copy, length);
    free(copy);
    return text;
}

/* Under the lock. False: there is no space for it. */
static bool add_log(struct worker_run *run, enum log_stream stream, const char *bytes, size_t length)
{
    run->log = run->log != NULL ? run->log : json_array();
    json_t *part = json_pack("{s:s, s:o*}", "stream", log_stream_name(stream), "text", make_log_text(bytes, length));
    bool is_fine = run->log != NULL && json_object_get(part, "text") != NULL && json_array_append(run->log, part) == 0;
    json_decref(part);
    run->log_waiting += is_fine ? (int64_t)length : 0;
    return is_fine;
}

/* How many of the bytes find space; the rest is cut off, at the begin of a character. Under the lock. */
static size_t space_for_log(const struct worker_run *run, const char *bytes, size_t length)
{
    size_t space = run->log_waiting < WORKER_LOG_BYTES_MAX ? (size_t)(WORKER_LOG_BYTES_MAX - run->log_waiting) : 0;
    if (run->log_lost > 0 || json_array_size(run->log) >= WORKER_LOG_PARTS_MAX) {
        return 0; /* nothing comes before the line about the gap */
    }
    if (length <= space) {
        return length;
    }
    while (space > 0 && ((unsigned char)bytes[space] & 0xc0) == 0x80) {
        space--;
    }
    return space;
}

/* The bytes that do not fit are counted, and worker_log_of() adds a line about them. */
void worker_take_output(void *context, const struct engine_output *output)
{
    struct worker *worker = context;
    struct worker_run *run = output->call_owner;
    if (run == NULL || output->bytes == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&worker->lock);
    bool is_first = !worker->has_new_logs;
    bool was_full = run->log_waiting >= WORKER_LOG_BYTES_MAX / 2;
    size_t kept = space_for_log(run, output->bytes, output->length);
    kept = kept > 0 && add_log(run, output->stream, output->bytes, kept) ? kept : 0;
    run->log_lost += (int64_t)(output->length - kept);
    bool fills = !was_full && run->log_waiting >= WORKER_LOG_BYTES_MAX / 2;
    worker->has_new_logs = true;
    worker->has_full_log = worker->has_full_log || fills;
    (void)pthread_mutex_unlock(&worker->lock);
    if (is_first || fills) {
        worker_wake(worker);
    }
}

/* Under the lock. The parts that wait follow those that were sent. */
static void take_waiting_log(struct worker_run *run)
{
    if (run->log_lost > 0) {
        char line[96];
        int length = snprintf(line, sizeof line, "\n... %" PRId64 " bytes are left out ...\n", run->log_lost);
        run->log_lost = add_log(run, LOG_HANDLER, line, (size_t)length) ? 0 : run->log_lost;
    }
    if (run->log_sent == NULL) {
        run->log_sent = run->log;
        run->log = NULL;
    } else if (run->log != NULL && json_array_extend(run->log_sent, run->log) != 0) {
        return; /* no memory: they wait on */
    }
    json_decref(run->log);
    run->log = NULL;
    run->log_bytes += run->log_waiting;
    run->log_waiting = 0;
}

/* While no server answers, what was sent stays bounded; the last request takes all that is left. */
const json_t *worker_log_of(struct worker_run *run)
{
    (void)pthread_mutex_lock(&run->worker->lock);
    if (run->has_ended ||
        (run->log_bytes < WORKER_LOG_BYTES_MAX && json_array_size(run->log_sent) < WORKER_LOG_PARTS_MAX)) {
        take_waiting_log(run);
    }
    (void)pthread_mutex_unlock(&run->worker->lock);
    return run->log_sent;
}

/* Another request may have carried the same parts: the first answer counts. */
void worker_log_accepted(struct worker_run *run, int64_t log_end)
{
    while (run->log_sent != NULL) {
        int64_t length = (int64_t)json_string_length(json_object_get(json_array_get(run->log_sent, 0), "text"));
        if (run->log_at + length > log_end) {
            return;
        }
        run->log_at += length;
        run->log_bytes -= length;
        (void)json_array_remove(run->log_sent, 0);
        if (json_array_size(run->log_sent) == 0) {
            json_decref(run->log_sent);
            run->log_sent = NULL;
        }
    }
}

/* --- progress --- */

/* It goes with the next heartbeat, which comes as soon as for a log. */
void worker_take_progress(void *context, const struct engine_progress *progress)
{
    struct worker *worker = context;
    struct worker_run *run = progress->call_owner;
    if (run == NULL || progress->text == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&worker->lock);
    bool is_first = !run->has_new_progress;
    run->progress++;
    run->has_new_progress = true;
    run->parts = progress->parts;
    text_copy(run->progress_text, sizeof run->progress_text, progress->text);
    worker->has_new_logs = true;
    (void)pthread_mutex_unlock(&worker->lock);
    if (is_first) {
        worker_wake(worker);
    }
}

int64_t worker_progress_of(struct worker_run *run, struct engine_progress *ret_report, char text[PROGRESS_TEXT_MAX + 1])
{
    (void)pthread_mutex_lock(&run->worker->lock);
    int64_t number = run->progress != run->progress_accepted ? run->progress : 0;
    *ret_report = (struct engine_progress){.parts = run->parts, .text = text};
    text_copy(text, PROGRESS_TEXT_MAX + 1, run->progress_text);
    run->has_new_progress = false;
    (void)pthread_mutex_unlock(&run->worker->lock);
    return number;
}

/* --- the end --- */

/* NULL for NULL. *is_fine becomes false when out of memory. */
static char *copy_text(const char *text, bool *is_fine)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    *is_fine = *is_fine && (copy != NULL || text == NULL);
    return copy;
}

/* Without memory for the result the task is dropped: the step runs again on another worker. */
void worker_take_result(void *context, const struct engine_called *called)
{
    struct worker *worker = context;
    struct worker_run *run = called->owner;
    struct worker_result result = {.end = called->end,
                                   .delay_us = called->delay_us,
                                   .on_recorded = called->on_recorded,
                                   .recorded_context = called->recorded_context};
    bool is_fine = true;
    if (called->end != ENGINE_CALL_DROPPED) {
        result.output = copy_text(called->output, &is_fine);
        result.code = copy_text(called->code, &is_fine);
        result.error = copy_text(called->error, &is_fine);
    }
    result.end = is_fine ? result.end : ENGINE_CALL_DROPPED;
    (void)pthread_mutex_lock(&worker->lock);
    run->result = result;
    run->next_ended = worker->ended;
    worker->ended = run;
    (void)pthread_mutex_unlock(&worker->lock);
    worker_wake(worker);
}

/* In the thread: from here on the result belongs to it. */
void worker_collect_results(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    struct worker_run *run = worker->ended;
    worker->ended = NULL;
    (void)pthread_mutex_unlock(&worker->lock);
    while (run != NULL) {
        struct worker_run *next = run->next_ended;
        run->has_ended = true;
        if (run->is_lost || run->result.end == ENGINE_CALL_DROPPED) {
            worker_settle_run(run, false);
        }
        worker_release_run(run);
        run = next;
    }
}

/* The program of the handler learns the fate once, whatever comes later. */
void worker_settle_run(struct worker_run *run, bool is_recorded)
{
    if (!run->is_settled) {
        run->is_settled = true;
        if (run->has_ended && run->result.on_recorded != NULL) {
            run->result.on_recorded(run->result.recorded_context, is_recorded);
        }
    }
}

/* Without memory for the text the failure has none. */
void worker_refuse_result(struct worker_run *run, const char *reason)
{
    free(run->result.output);
    run->result.output = NULL;
    bool is_fine = true;
    char *error = copy_text(reason, &is_fine);
    char *code = copy_text("handler_bad_output", &is_fine);
    free(run->result.code);
    free(run->result.error);
    run->result.code = code;
    run->result.error = error;
    run->result.end = ENGINE_CALL_FAILED;
}

/* Called after each change of the three conditions. */
void worker_release_run(struct worker_run *run)
{
    if (run->has_ended && run->is_settled && run->requests == 0) {
        remove_run(run);
    }
}

/* An end that comes later settles the run, and so does the answer to a report that is under way: it may be on record. */
void worker_lose_run(struct worker_run *run)
{
    if (run->is_lost || run->is_settled) {
        return;
    }
    run->is_lost = true;
    if (!run->has_ended) {
        engine_cancel_call(run->worker->engine, run, true);
    } else if (!run->is_reporting) {
        worker_settle_run(run, false);
    }
}

/* That server may have to take the execution over first, so it gets the names of the handlers. */
void worker_move_run(struct worker_run *run)
{
    struct worker *worker = run->worker;
    run->server = (run->server + 1) % worker->server_count;
    run->was_repeated = false;
    run->progress_accepted = 0; /* the next server has none of it */
    struct worker_server *server = &worker->servers[run->server];
    int64_t pause_us = time_earlier(worker->lease_us / 3, WORKER_PAUSE_MOST_US) / 4;
    server->wants_announce = true;
    server->beat_due_us = time_earlier(server->beat_due_us, time_add(worker_now(worker), pause_us));
}

/* A run that is lost or settled has no lease. */
int64_t worker_end_leases(struct worker *worker, int64_t now_us)
{
    int64_t next_us = TIME_NEVER;
    struct worker_run *next;
    for (struct worker_run *run = worker->runs; run != NULL; run = next) {
        next = run->next;
        if (run->is_lost || run->is_settled) {
            continue;
        }
        if (run->ends_us <= now_us) {
            worker_lose_run(run);
            worker_release_run(run);
        } else {
            next_us = time_earlier(next_us, run->ends_us);
        }
    }
    return next_us;
}

/* Results that were given before are reported all the same. */
void worker_interrupt_runs(struct worker *worker)
{
    bool any = false;
    for (struct worker_run *run = worker->runs; run != NULL; run = run->next) {
        if (!run->has_ended) {
            any = true;
            engine_cancel_call(worker->engine, run, true);
        }
    }
    (void)pthread_mutex_lock(&worker->lock);
    worker->is_interrupted = worker->is_interrupted || any;
    (void)pthread_mutex_unlock(&worker->lock);
}

/* Nothing points to them: the sink and the requests have gone before. */
void worker_free_runs(struct worker *worker)
{
    struct worker_run *next;
    for (struct worker_run *run = worker->runs; run != NULL; run = next) {
        next = run->next;
        worker_settle_run(run, false);
        remove_run(run);
    }
}
