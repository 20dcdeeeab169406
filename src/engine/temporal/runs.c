/* What a start becomes, the table of executions, and the heap of what is due when. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/parts.h"

/* --- a start becomes a run --- */

bool run_refuse(struct run *run, const char *code, bool permanent, const char *text)
{
    run->refusal = report_new(REPORT_REFUSED, run->id, run->fence);
    if (run->refusal == NULL) {
        return false;
    }
    run->refusal->permanent = permanent;
    run->refusal->spends_attempt = permanent;
    run->refusal->delay_us = permanent ? 0 : RETRY_BACKOFF_MAX_US;
    text_copy(run->refusal->error_code, sizeof run->refusal->error_code, code);
    run->refusal->error = strdup(text);
    return true;
}

/* What is on record from a claim before this one: the run that was started then. */
static void remember_run(struct run *run, const struct engine_start *start)
{
    for (size_t i = 0; i < start->step_count; i++) {
        const struct step_record *step = &start->steps[i];
        json_t *facts = NULL;
        if (strcmp(step->step, TEMPORAL_STEP) != 0) {
            continue;
        }
        run->known = true; /* also when its facts cannot be read: it was told once the service had it */
        if (step->variables != NULL && json_read(step->variables, strlen(step->variables), &facts, NULL) == WEIR_OK) {
            const char *run_id = json_string_value(json_object_get(facts, "run_id"));
            const char *first_run_id = json_string_value(json_object_get(facts, "first_run_id"));
            text_copy(run->run_id, sizeof run->run_id, run_id == NULL ? "" : run_id);
            text_copy(run->told_run_id, sizeof run->told_run_id, run->run_id);
            text_copy(run->first_run_id, sizeof run->first_run_id, first_run_id == NULL ? run->run_id : first_run_id);
            json_decref(facts);
        }
    }
}

struct run *run_new(const struct temporal *engine, const char *id, int64_t fence, const char *workspace,
                    const char *task_queue)
{
    size_t workspace_length = strlen(workspace) + 1;
    size_t queue_length = strlen(task_queue) + 1;
    struct run *run = calloc(1, sizeof *run + workspace_length + queue_length);
    if (run != NULL) {
        char *texts = (char *)(run + 1);
        memcpy(texts, workspace, workspace_length);
        memcpy(texts + workspace_length, task_queue, queue_length);
        text_copy(run->id, sizeof run->id, id);
        run->fence = fence;
        run->workspace = texts;
        run->task_queue = texts + workspace_length;
        run->due_us = TIME_NEVER;
        run->first_us = temporal_now(engine);
    }
    return run;
}

/* Its message, or why it cannot be started. False when out of memory. */
static bool prepare(const struct temporal *engine, struct run *run, const struct engine_start *start,
                    const struct definition *definition)
{
    const struct definition_temporal *temporal = definition->temporal;
    if (temporal == NULL) {
        return run_refuse(run, "wrong_engine", false,
                          "this workflow has steps, and this node's engine is temporal: give it a `temporal:` section, or "
                          "the `executor_group` of a node that runs steps");
    }
    if (run->task_queue[0] == '\0') {
        return run_refuse(
            run, "no_task_queue", false,
            "neither the workflow's `temporal.task_queue` nor the node's setting of that name says on which task queue");
    }
    struct start_message message = {
        .namespace_name = engine->namespace_name,
        .execution_id = start->id,
        .workspace = start->workspace,
        .identity = engine->identity,
        .workflow_type = temporal->workflow_type != NULL ? temporal->workflow_type : definition->name,
        .task_queue = run->task_queue,
        .input = start->params,
        .input_length = start->params_length,
        .encoding = engine->encoding,
        .priority = start->priority,
        .definition = temporal,
    };
    run->message = message_start(&message);
    return run->message.data != NULL;
}

struct run *run_of_start(struct temporal *engine, const struct engine_start *start, const struct definition *definition)
{
    const struct definition_temporal *temporal = definition->temporal;
    const char *queue = temporal != NULL && temporal->task_queue != NULL ? temporal->task_queue : engine->task_queue;
    struct run *run = run_new(engine, start->id, start->fence, start->workspace, queue);
    if (run == NULL) {
        return NULL;
    }
    run->cancel_wanted = start->cancel_requested;
    run->may_run = start->handovers > 0;
    run->known = start->running_for_us > 0;
    /* What an earlier node did is known from the age of the item alone: nothing was started before it was enqueued. */
    run->first_us -= start->handovers > 0 ? start->age_us : 0;
    remember_run(run, start);
    if (!prepare(engine, run, start, definition)) {
        run_free(run);
        return NULL;
    }
    return run;
}

/* --- the table --- */

static struct run **bucket_of(const struct temporal *engine, const char *id)
{
    uint64_t hash = text_hash(id);
    return &engine->buckets[(hash ^ (hash >> 32)) & (engine->bucket_count - 1)];
}

struct run *run_find(const struct temporal *engine, const char *id)
{
    struct run *run = *bucket_of(engine, id);
    while (run != NULL && strcmp(run->id, id) != 0) {
        run = run->next;
    }
    return run;
}

bool run_insert(struct temporal *engine, struct run *run)
{
    size_t count = atomic_load(&engine->admitted) + 1;
    if (engine->heap_capacity < count + 1) {
        size_t capacity = 2 * (count + 1);
        struct run **heap = realloc(engine->heap, capacity * sizeof *heap);
        if (heap == NULL) {
            return false;
        }
        engine->heap = heap;
        engine->heap_capacity = capacity;
    }
    struct run **bucket = bucket_of(engine, run->id);
    run->next = *bucket;
    *bucket = run;
    return true;
}

void run_free(struct run *run)
{
    if (run != NULL) {
        free(run->message.data);
        report_free(run->refusal);
        closing_close(&run->closing);
        free(run);
    }
}

void run_start_is_over(struct temporal *engine, struct run *run)
{
    free(run->message.data);
    run->message = (struct bytes){NULL, 0};
    if (run->counts_as_start) {
        run->counts_as_start = false;
        atomic_fetch_sub(&engine->starting, 1);
    }
}

void run_remove(struct temporal *engine, struct run *run)
{
    struct run **link = bucket_of(engine, run->id);
    while (*link != run) {
        INVARIANT(*link != NULL);
        link = &(*link)->next;
    }
    *link = run->next;
    run_due(engine, run, TIME_NEVER);
    follow_end(engine, run);
    call_forget(run->call, false);
    call_forget(run->cancel, false);
    run_start_is_over(engine, run);
    if (run->started) {
        atomic_fetch_sub(&engine->followed, 1);
    }
    atomic_fetch_sub(&engine->admitted, 1);
    run_free(run);
}

/* --- what is due --- */

static bool is_before(const struct run *a, const struct run *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->turn < b->turn;
}

static void put(struct temporal *engine, size_t place, struct run *run)
{
    engine->heap[place] = run;
    run->heap_place = place;
}

static void sift_up(struct temporal *engine, size_t place, struct run *run)
{
    while (place > 1 && is_before(run, engine->heap[place / 2])) {
        put(engine, place, engine->heap[place / 2]);
        place /= 2;
    }
    put(engine, place, run);
}

static void sift_down(struct temporal *engine, size_t place, struct run *run)
{
    for (;;) {
        size_t child = 2 * place;
        if (child > engine->heap_count) {
            break;
        }
        if (child < engine->heap_count && is_before(engine->heap[child + 1], engine->heap[child])) {
            child++;
        }
        if (!is_before(engine->heap[child], run)) {
            break;
        }
        put(engine, place, engine->heap[child]);
        place = child;
    }
    put(engine, place, run);
}

static void take_out(struct temporal *engine, struct run *run)
{
    size_t place = run->heap_place;
    struct run *last = engine->heap[engine->heap_count--];
    run->heap_place = 0;
    if (last != run) {
        if (place > 1 && is_before(last, engine->heap[place / 2])) {
            sift_up(engine, place, last);
        } else {
            sift_down(engine, place, last);
        }
    }
}

void run_due(struct temporal *engine, struct run *run, int64_t due_us)
{
    if (run->heap_place != 0) {
        take_out(engine, run);
    }
    run->due_us = due_us;
    run->turn = ++engine->last_turn;
    if (due_us != TIME_NEVER) {
        INVARIANT(engine->heap_count + 1 < engine->heap_capacity);
        sift_up(engine, ++engine->heap_count, run);
    }
}

struct run *run_next_due(struct temporal *engine, int64_t now_us)
{
    if (engine->heap_count == 0 || engine->heap[1]->due_us > now_us) {
        return NULL;
    }
    struct run *run = engine->heap[1];
    take_out(engine, run);
    return run;
}

int64_t run_earliest(const struct temporal *engine)
{
    return engine->heap_count == 0 ? TIME_NEVER : engine->heap[1]->due_us;
}

static int64_t most_back_off(const struct temporal *engine, const struct run *run)
{
    if (run->started || run->was_slow) {
        return RETRY_MOST_US;
    }
    int64_t all_us = (int64_t)atomic_load(&engine->starting) * MICROSECONDS_PER_SECOND / RETRY_STARTS_PER_SECOND;
    return all_us < MICROSECONDS_PER_SECOND ? MICROSECONDS_PER_SECOND : all_us < RETRY_MOST_US ? all_us : RETRY_MOST_US;
}

int64_t run_back_off(struct temporal *engine, struct run *run)
{
    int64_t most_us = most_back_off(engine, run);
    run->backoff_us = run->backoff_us == 0 ? RETRY_FIRST_US : run->backoff_us * 2;
    run->backoff_us = run->backoff_us > most_us ? most_us : run->backoff_us;
    int64_t jitter_us = (int64_t)random_below(&engine->random, (uint64_t)run->backoff_us / 4 + 1);
    return time_add(temporal_now(engine), run->backoff_us - jitter_us);
}

void run_hurry_all(struct temporal *engine)
{
    int64_t now_us = temporal_now(engine);
    for (size_t i = 0; i < engine->bucket_count; i++) {
        for (struct run *run = engine->buckets[i]; run != NULL; run = run->next) {
            bool was_put_off = run->backoff_us > 0 && run->state != RUN_FOLLOWED && run->state != RUN_ENDED;
            run->backoff_us = was_put_off ? 0 : run->backoff_us; /* also of what is just being asked: a late failure */
            if (was_put_off && run->heap_place != 0 && run->due_us > now_us) {
                run_due(engine, run, now_us);
            }
        }
    }
}

char *run_facts(const struct temporal *engine, const struct run *run)
{
    char name[WORKFLOW_ID_MAX];
    (void)snprintf(name, sizeof name, WORKFLOW_ID_PREFIX "%s", run->id);
    json_t *facts = json_pack("{s:s, s:s, s:s, s:s, s:s}", "workflow_id", name, "run_id", run->run_id, "first_run_id",
                              run->first_run_id[0] != '\0' ? run->first_run_id : run->run_id, "namespace",
                              engine->namespace_name, "task_queue", run->task_queue);
    if (run->was_sent_again) {
        /* Between the two starts an operator may have deleted the workflow of the first one. */
        (void)json_object_set_new(facts, "start_sent_again", json_true());
    }
    char *text = facts == NULL ? NULL : json_dumps(facts, JSON_COMPACT);
    json_decref(facts);
    return text;
}

struct report *run_report(struct temporal *engine, const struct run *run, enum report_kind kind)
{
    struct report *report = report_new(kind, run->id, run->fence);
    if (report == NULL) {
        engine_lose_word(&engine->base);
    }
    return report;
}

void run_say(struct temporal *engine, struct report *report)
{
    if (report != NULL) {
        engine_report(&engine->base, report);
    }
}
