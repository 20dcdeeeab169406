/* What a start becomes, the table of executions, and the heap of what is due when. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/temporal_internal.h"

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

/* What is on record from a claim before this one, NULL = nothing. *ret_is_known: there is such a record, also where it
 * cannot be read: it was made once the service had the workflow. */
static json_t *recorded_facts(const struct engine_start *start, bool *ret_is_known)
{
    json_t *facts = NULL;
    for (size_t i = 0; i < start->step_count && facts == NULL; i++) {
        const struct step_record *step = &start->steps[i];
        if (strcmp(step->step, TEMPORAL_STEP) == 0) {
            *ret_is_known = true;
            if (step->variables == NULL || json_read(step->variables, strlen(step->variables), &facts, NULL) != WEIR_OK) {
                facts = NULL;
            }
        }
    }
    return facts;
}

static void remember_run(struct run *run, const json_t *facts)
{
    const char *run_id = json_string_value(json_object_get(facts, "run_id"));
    const char *first_run_id = json_string_value(json_object_get(facts, "first_run_id"));
    text_copy(run->run_id, sizeof run->run_id, run_id == NULL ? "" : run_id);
    text_copy(run->told_run_id, sizeof run->told_run_id, run->run_id);
    text_copy(run->first_run_id, sizeof run->first_run_id, first_run_id == NULL ? run->run_id : first_run_id);
}

struct run *run_new(const struct temporal *engine, const char *id, int64_t fence, const char *workspace,
                    const char *task_queue, const char *workflow_id)
{
    char own[WORKFLOW_ID_MAX];
    (void)fields_default_id(id, own);
    workflow_id = workflow_id == NULL ? own : workflow_id;
    size_t workspace_length = strlen(workspace) + 1;
    size_t queue_length = strlen(task_queue) + 1;
    size_t id_length = strlen(workflow_id) + 1;
    struct run *run = calloc(1, sizeof *run + workspace_length + queue_length + id_length);
    if (run != NULL) {
        char *texts = (char *)(run + 1);
        memcpy(texts, workspace, workspace_length);
        memcpy(texts + workspace_length, task_queue, queue_length);
        memcpy(texts + workspace_length + queue_length, workflow_id, id_length);
        text_copy(run->id, sizeof run->id, id);
        run->fence = fence;
        run->workspace = texts;
        run->task_queue = texts + workspace_length;
        run->workflow_id = run->task_queue + queue_length;
        run->has_own_id = strcmp(workflow_id, own) != 0;
        run->due_us = TIME_NEVER;
        run->first_us = temporal_now(engine);
    }
    return run;
}

/* Its message. False when out of memory. */
static bool make_message(const struct temporal *engine, struct run *run, const struct engine_start *start,
                         const struct definition *definition, const struct start_fields *fields, const json_t *types)
{
    const char *type = definition->temporal->workflow_type;
    struct start_message message = {
        .namespace_name = engine->namespace_name,
        .execution_id = start->id,
        .workspace = start->workspace,
        .identity = engine->identity,
        .workflow_type = type != NULL ? type : definition->name,
        .input = start->params,
        .input_length = start->params_length,
        .encoding = engine->encoding,
        .priority = start->priority,
        .fields = fields,
        .attribute_types = types,
    };
    run->has_workspace = json_object_get(types, TEMPORAL_WORKSPACE_ATTRIBUTE) != NULL;
    run->message = message_start(&message);
    return run->message.data != NULL;
}

static struct run *refused_run(const struct temporal *engine, const struct engine_start *start, const char *workflow_id,
                               const char *code, bool permanent, const char *text)
{
    struct run *run = run_new(engine, start->id, start->fence, start->workspace, engine->task_queue, workflow_id);
    if (run != NULL && !run_refuse(run, code, permanent, text)) {
        run_free(run);
        return NULL;
    }
    return run;
}

/* With its message, or with the reason why it cannot be started. `recorded_id`: the workflow id that is on record, NULL =
 * none. NULL when out of memory. */
static struct run *make_run(struct temporal *engine, const struct engine_start *start, const struct definition *definition,
                            const char *recorded_id)
{
    struct start_fields fields = {.arguments = NULL};
    struct weir_error error = {.status = WEIR_OK};
    const char *code = NULL;
    if (definition->temporal == NULL) {
        return refused_run(engine, start, recorded_id, "wrong_engine", false,
                           "this workflow has steps, and this node's engine is temporal: give it a `temporal:` section, or "
                           "the `executor_group` of a node that runs steps");
    }
    json_t *types = attributes_types(engine);
    enum weir_status status = fields_evaluate(definition, start, engine->task_queue, types, &fields, &code, &error);
    const char *workflow_id = recorded_id != NULL ? recorded_id : fields.workflow_id;
    struct run *run = NULL;
    if (status == WEIR_FAILED) {
        run = refused_run(engine, start, workflow_id, code, true, error.message);
    } else if (status == WEIR_OK && fields.task_queue[0] == '\0') {
        run = refused_run(
            engine, start, workflow_id, "no_task_queue", false,
            "neither the workflow's `temporal.task_queue` nor the node's setting of that name says on which task queue");
    } else if (status == WEIR_OK) {
        run = run_new(engine, start->id, start->fence, start->workspace, fields.task_queue, workflow_id);
        if (run != NULL && !make_message(engine, run, start, definition, &fields, types)) {
            run_free(run);
            run = NULL;
        }
    }
    fields_close(&fields);
    json_decref(types);
    return run;
}

struct run *run_of_start(struct temporal *engine, const struct engine_start *start, const struct definition *definition)
{
    bool is_known = start->running_for_us > 0;
    json_t *facts = recorded_facts(start, &is_known);
    struct run *run = make_run(engine, start, definition, json_string_value(json_object_get(facts, "workflow_id")));
    if (run != NULL) {
        run->cancel_wanted = start->cancel_requested;
        run->may_run = start->interruptions > 0;
        run->known = is_known;
        /* What an earlier node did is known from the age of the item alone: nothing was started before it was enqueued. */
        run->first_us -= start->interruptions > 0 ? start->age_us : 0;
        remember_run(run, facts);
    }
    json_decref(facts);
    return run;
}

/* --- the table --- */

static struct run **bucket_of(const struct temporal *engine, const char *id)
{
    uint64_t hash = text_hash(id);
    return &engine->buckets[(hash ^ (hash >> 32)) & (engine->bucket_count - 1)];
}

static struct run **named_bucket_of(const struct temporal *engine, const char *workflow_id)
{
    uint64_t hash = text_hash(workflow_id);
    return &engine->named_buckets[(hash ^ (hash >> 32)) & (engine->bucket_count - 1)];
}

/* Several executions may name the same workflow id; the service lets one of them have it. */
struct run *run_find_followed(const struct temporal *engine, const char *workflow_id)
{
    static const size_t prefix = sizeof WORKFLOW_ID_PREFIX - 1;
    struct run *run = NULL;
    if (strncmp(workflow_id, WORKFLOW_ID_PREFIX, prefix) == 0) {
        run = run_find(engine, workflow_id + prefix);
        return run != NULL && run->state == RUN_FOLLOWED && !run->has_own_id ? run : NULL;
    }
    run = engine->named == 0 ? NULL : *named_bucket_of(engine, workflow_id);
    while (run != NULL && (run->state != RUN_FOLLOWED || strcmp(run->workflow_id, workflow_id) != 0)) {
        run = run->named_next;
    }
    return run;
}

struct workflow_name run_workflow(const struct run *run)
{
    return (struct workflow_name){.workflow_id = run->workflow_id,
                                  .first_run_id = run->has_own_id ? run->first_run_id : NULL};
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
    if (run->has_own_id) {
        struct run **named = named_bucket_of(engine, run->workflow_id);
        run->named_next = *named;
        *named = run;
        engine->named++;
    }
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

static void remove_named(struct temporal *engine, const struct run *run)
{
    struct run **link = named_bucket_of(engine, run->workflow_id);
    while (*link != run) {
        INVARIANT(*link != NULL);
        link = &(*link)->named_next;
    }
    *link = run->named_next;
    engine->named--;
}

void run_remove(struct temporal *engine, struct run *run)
{
    struct run **link = bucket_of(engine, run->id);
    while (*link != run) {
        INVARIANT(*link != NULL);
        link = &(*link)->next;
    }
    *link = run->next;
    if (run->has_own_id) {
        remove_named(engine, run);
    }
    run_due(engine, run, TIME_NEVER);
    follow_end(engine, run);
    call_forget(run->call, false);
    call_forget(run->cancel, false);
    coding_forget(engine, run);
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
    json_t *facts = json_pack("{s:s, s:s, s:s, s:s, s:s}", "workflow_id", run->workflow_id, "run_id", run->run_id,
                              "first_run_id", run->first_run_id[0] != '\0' ? run->first_run_id : run->run_id, "namespace",
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
