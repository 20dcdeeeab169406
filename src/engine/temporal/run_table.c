/* The table of the executions that the engine holds.
 *
 * A start of the node becomes a run: its fields are evaluated over the params, and the message of the start is encoded
 * once. A hash table finds a run by execution id, a second one by a workflow id that a definition names. A binary heap
 * holds the time at which each run is due, so a turn of the loop touches only the runs that have work to do.
 *
 * The message of a run must never change after the first start has left, because the service compares the request id of a
 * repeated start. A run in the table must never be freed but by run_remove(), which also separates its calls.
 *
 * run_new_from_start() runs in the thread that calls engine_start(); all other functions run in the engine's loop. */
#include "engine/temporal/run_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/temporal_internal.h"

/* --- a start becomes a run --- */

bool run_make_refusal(struct run *run, const char *code, bool permanent, const char *text)
{
    INVARIANT(run != NULL && code != NULL && text != NULL);
    run->refusal = report_new(REPORT_REFUSED, run->id, run->fence);
    if (run->refusal == NULL) {
        return false;
    }
    run->refusal->permanent = permanent;
    run->refusal->spends_start = permanent;
    run->refusal->delay_us = permanent ? 0 : RETRY_BACKOFF_MAX_US;
    text_copy(run->refusal->error_code, sizeof run->refusal->error_code, code);
    run->refusal->error = strdup(text);
    return true;
}

/* The ids on record from an earlier claim, NULL = none. *ret_is_known: there is such a record, even if it cannot be read.
 * A node makes it only after the service has the workflow. */
static json_t *read_recorded_ids(const struct engine_start *start, bool *ret_is_known)
{
    json_t *ids = NULL;
    for (size_t i = 0; i < start->step_count && ids == NULL; i++) {
        const struct step_record *step = &start->steps[i];
        if (strcmp(step->step, TEMPORAL_STEP) == 0) {
            *ret_is_known = true;
            if (step->variables == NULL || json_read(step->variables, strlen(step->variables), &ids, NULL) != WEIR_OK) {
                ids = NULL;
            }
        }
    }
    return ids;
}

/* Without a first run on record the recorded run is the first one. */
static void copy_recorded_ids(struct run *run, const json_t *ids)
{
    const char *run_id = json_string_value(json_object_get(ids, "run_id"));
    const char *first_run_id = json_string_value(json_object_get(ids, "first_run_id"));
    text_copy(run->run_id, sizeof run->run_id, run_id == NULL ? "" : run_id);
    text_copy(run->recorded_run_id, sizeof run->recorded_run_id, run->run_id);
    text_copy(run->first_run_id, sizeof run->first_run_id, first_run_id == NULL ? run->run_id : first_run_id);
}

/* NULL when out of memory. `workflow_id` NULL = the default one. */
static struct run *run_new(const struct temporal *engine, const char *id, int64_t fence, const char *workspace,
                           const char *task_queue, const char *workflow_id)
{
    INVARIANT(engine != NULL && id != NULL && workspace != NULL && task_queue != NULL);
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

/* Encodes the message of the start. False when out of memory. */
static bool encode_run_start(const struct temporal *engine, struct run *run, const struct engine_start *start,
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
    run->message = encode_start(&message);
    return run->message.data != NULL;
}

/* A run without a message, which only reports its refusal. */
static struct run *make_refused_run(const struct temporal *engine, const struct engine_start *start,
                                    const char *workflow_id, const char *code, bool permanent, const char *text)
{
    struct run *run = run_new(engine, start->id, start->fence, start->workspace, engine->task_queue, workflow_id);
    if (run != NULL && !run_make_refusal(run, code, permanent, text)) {
        run_free(run);
        return NULL;
    }
    return run;
}

/* A run with its message, or with the reason why it cannot be started. `recorded_id`: the workflow id on record, NULL =
 * none. NULL when out of memory. */
static struct run *evaluate_run_start(struct temporal *engine, const struct engine_start *start,
                                      const struct definition *definition, const char *recorded_id)
{
    struct start_fields fields = {.arguments = NULL};
    struct weir_error error = {.status = WEIR_OK};
    const char *code = NULL;
    if (definition->temporal == NULL) {
        return make_refused_run(
            engine, start, recorded_id, "wrong_engine", false,
            "the workflow has steps, and the engine of this node is temporal: give the workflow a `temporal:` "
            "section, or the `executor_group` of a node that runs steps");
    }
    json_t *types = attributes_get_types(engine);
    enum weir_status status = fields_evaluate(definition, start, engine->task_queue, types, &fields, &code, &error);
    const char *workflow_id = recorded_id != NULL ? recorded_id : fields.workflow_id;
    struct run *run = NULL;
    if (status == WEIR_FAILED) {
        run = make_refused_run(engine, start, workflow_id, code, true, error.message);
    } else if (status == WEIR_OK && fields.task_queue[0] == '\0') {
        run = make_refused_run(
            engine, start, workflow_id, "no_task_queue", false,
            "no task queue is set: set `temporal.task_queue` in the workflow or in the settings of the node");
    } else if (status == WEIR_OK) {
        run = run_new(engine, start->id, start->fence, start->workspace, fields.task_queue, workflow_id);
        if (run != NULL && !encode_run_start(engine, run, start, definition, &fields, types)) {
            run_free(run);
            run = NULL;
        }
    }
    fields_close(&fields);
    json_decref(types);
    return run;
}

struct run *run_new_from_start(struct temporal *engine, const struct engine_start *start,
                               const struct definition *definition)
{
    INVARIANT(start != NULL && definition != NULL && start->fence > 0);
    bool is_known = start->running_for_us > 0;
    json_t *ids = read_recorded_ids(start, &is_known);
    struct run *run = evaluate_run_start(engine, start, definition, json_string_value(json_object_get(ids, "workflow_id")));
    if (run != NULL) {
        run->cancel_wanted = start->cancel_requested;
        run->may_run = start->interruptions > 0;
        run->known = is_known;
        /* An earlier node may have sent a start at any time since the item was enqueued. */
        run->first_us -= start->interruptions > 0 ? start->age_us : 0;
        copy_recorded_ids(run, ids);
    }
    json_decref(ids);
    return run;
}

/* --- the table --- */

bool run_table_open(struct run_table *table, size_t runs_max)
{
    INVARIANT(table->buckets == NULL);
    table->bucket_count = RUN_BUCKETS_MIN;
    while (table->bucket_count < 2 * runs_max && table->bucket_count < RUN_BUCKETS_MAX) {
        table->bucket_count *= 2;
    }
    table->buckets = calloc(table->bucket_count, sizeof *table->buckets);
    table->named_buckets = calloc(table->bucket_count, sizeof *table->named_buckets);
    return table->buckets != NULL && table->named_buckets != NULL;
}

void run_table_close(struct run_table *table)
{
    INVARIANT(table->heap_count == 0 && table->named_count == 0);
    free(table->buckets);
    free(table->named_buckets);
    free(table->heap);
}

static struct run **run_bucket(const struct temporal *engine, const char *id)
{
    uint64_t hash = text_hash(id);
    return &engine->runs.buckets[(hash ^ (hash >> 32)) & (engine->runs.bucket_count - 1)];
}

static struct run **run_named_bucket(const struct temporal *engine, const char *workflow_id)
{
    uint64_t hash = text_hash(workflow_id);
    return &engine->runs.named_buckets[(hash ^ (hash >> 32)) & (engine->runs.bucket_count - 1)];
}

/* Several executions may name the same workflow id; the service gives it to one of them. */
struct run *run_find_followed(const struct temporal *engine, const char *workflow_id)
{
    INVARIANT(engine != NULL && workflow_id != NULL);
    static const size_t prefix = sizeof WORKFLOW_ID_PREFIX - 1;
    struct run *run = NULL;
    if (strncmp(workflow_id, WORKFLOW_ID_PREFIX, prefix) == 0) {
        run = run_find(engine, workflow_id + prefix);
        return run != NULL && run->state == RUN_FOLLOWED && !run->has_own_id ? run : NULL;
    }
    run = engine->runs.named_count == 0 ? NULL : *run_named_bucket(engine, workflow_id);
    while (run != NULL && (run->state != RUN_FOLLOWED || strcmp(run->workflow_id, workflow_id) != 0)) {
        run = run->named_next;
    }
    return run;
}

struct workflow_name run_workflow_name(const struct run *run)
{
    return (struct workflow_name){.workflow_id = run->workflow_id,
                                  .first_run_id = run->has_own_id ? run->first_run_id : NULL};
}

struct run *run_find(const struct temporal *engine, const char *id)
{
    struct run *run = *run_bucket(engine, id);
    while (run != NULL && strcmp(run->id, id) != 0) {
        run = run->next;
    }
    return run;
}

bool run_insert(struct temporal *engine, struct run *run)
{
    INVARIANT(run->heap_place == 0 && run->fence > 0);
    size_t count = atomic_load(&engine->admitted) + 1;
    if (engine->runs.heap_capacity < count + 1) {
        size_t capacity = 2 * (count + 1);
        struct run **heap = realloc(engine->runs.heap, capacity * sizeof *heap);
        if (heap == NULL) {
            return false;
        }
        engine->runs.heap = heap;
        engine->runs.heap_capacity = capacity;
    }
    struct run **bucket = run_bucket(engine, run->id);
    run->next = *bucket;
    *bucket = run;
    if (run->has_own_id) {
        struct run **named = run_named_bucket(engine, run->workflow_id);
        run->named_next = *named;
        *named = run;
        engine->runs.named_count++;
    }
    return true;
}

void run_free(struct run *run)
{
    if (run != NULL) {
        free(run->message.data);
        report_free(run->refusal);
        close_event_close(&run->closing);
        free(run);
    }
}

void run_release_start(struct temporal *engine, struct run *run)
{
    free(run->message.data);
    run->message = (struct bytes){NULL, 0};
    if (run->counts_as_start) {
        run->counts_as_start = false;
        atomic_fetch_sub(&engine->starts.under_way, 1);
    }
}

static void remove_named_run(struct temporal *engine, const struct run *run)
{
    struct run **link = run_named_bucket(engine, run->workflow_id);
    while (*link != run) {
        INVARIANT(*link != NULL);
        link = &(*link)->named_next;
    }
    *link = run->named_next;
    engine->runs.named_count--;
}

void run_remove(struct temporal *engine, struct run *run)
{
    INVARIANT(atomic_load(&engine->admitted) > 0);
    struct run **link = run_bucket(engine, run->id);
    while (*link != run) {
        INVARIANT(*link != NULL);
        link = &(*link)->next;
    }
    *link = run->next;
    if (run->has_own_id) {
        remove_named_run(engine, run);
    }
    run_set_due(engine, run, TIME_NEVER);
    long_poll_remove_run(engine, run);
    call_detach(run->call, false);
    call_detach(run->cancel, false);
    coding_cancel(engine, run);
    run_release_start(engine, run);
    if (run->started) {
        atomic_fetch_sub(&engine->followed, 1);
    }
    atomic_fetch_sub(&engine->admitted, 1);
    run_free(run);
}

/* --- what is due --- */

/* Runs that are due at the same time keep the order of their entry. */
static bool run_is_due_before(const struct run *a, const struct run *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->turn < b->turn;
}

static void place_in_heap(struct temporal *engine, size_t place, struct run *run)
{
    engine->runs.heap[place] = run;
    run->heap_place = place;
}

static void run_sift_up(struct temporal *engine, size_t place, struct run *run)
{
    while (place > 1 && run_is_due_before(run, engine->runs.heap[place / 2])) {
        place_in_heap(engine, place, engine->runs.heap[place / 2]);
        place /= 2;
    }
    place_in_heap(engine, place, run);
}

static void run_sift_down(struct temporal *engine, size_t place, struct run *run)
{
    for (;;) {
        size_t child = 2 * place;
        if (child > engine->runs.heap_count) {
            break;
        }
        if (child < engine->runs.heap_count && run_is_due_before(engine->runs.heap[child + 1], engine->runs.heap[child])) {
            child++;
        }
        if (!run_is_due_before(engine->runs.heap[child], run)) {
            break;
        }
        place_in_heap(engine, place, engine->runs.heap[child]);
        place = child;
    }
    place_in_heap(engine, place, run);
}

/* The last run of the heap takes the place, and moves up or down from there. */
static void remove_from_heap(struct temporal *engine, struct run *run)
{
    INVARIANT(run->heap_place <= engine->runs.heap_count && engine->runs.heap[run->heap_place] == run);
    size_t place = run->heap_place;
    struct run *last = engine->runs.heap[engine->runs.heap_count--];
    run->heap_place = 0;
    if (last != run) {
        if (place > 1 && run_is_due_before(last, engine->runs.heap[place / 2])) {
            run_sift_up(engine, place, last);
        } else {
            run_sift_down(engine, place, last);
        }
    }
}

void run_set_due(struct temporal *engine, struct run *run, int64_t due_us)
{
    if (run->heap_place != 0) {
        remove_from_heap(engine, run);
    }
    run->due_us = due_us;
    run->turn = ++engine->runs.last_turn;
    if (due_us != TIME_NEVER) {
        INVARIANT(engine->runs.heap_count + 1 < engine->runs.heap_capacity);
        run_sift_up(engine, ++engine->runs.heap_count, run);
    }
}

struct run *run_take_due(struct temporal *engine, int64_t now_us)
{
    if (engine->runs.heap_count == 0 || engine->runs.heap[1]->due_us > now_us) {
        return NULL;
    }
    struct run *run = engine->runs.heap[1];
    remove_from_heap(engine, run);
    return run;
}

int64_t run_earliest_due(const struct temporal *engine)
{
    return engine->runs.heap_count == 0 ? TIME_NEVER : engine->runs.heap[1]->due_us;
}

/* The largest distance of repetitions. Starts repeat within a second, or share RETRY_STARTS_PER_SECOND when many do. */
static int64_t limit_back_off(const struct temporal *engine, const struct run *run)
{
    if (run->started || run->was_slow) {
        return RETRY_MAX_US;
    }
    int64_t all_us = (int64_t)atomic_load(&engine->starts.under_way) * MICROSECONDS_PER_SECOND / RETRY_STARTS_PER_SECOND;
    return all_us < MICROSECONDS_PER_SECOND ? MICROSECONDS_PER_SECOND : all_us < RETRY_MAX_US ? all_us : RETRY_MAX_US;
}

int64_t run_back_off(struct temporal *engine, struct run *run)
{
    int64_t most_us = limit_back_off(engine, run);
    run->backoff_us = run->backoff_us == 0 ? RETRY_FIRST_US : run->backoff_us * 2;
    run->backoff_us = run->backoff_us > most_us ? most_us : run->backoff_us;
    int64_t jitter_us = (int64_t)random_below(&engine->random, (uint64_t)run->backoff_us / 4 + 1);
    return time_add(temporal_now(engine), run->backoff_us - jitter_us);
}

void run_retry_all_now(struct temporal *engine)
{
    INVARIANT(engine != NULL);
    int64_t now_us = temporal_now(engine);
    for (size_t i = 0; i < engine->runs.bucket_count; i++) {
        for (struct run *run = engine->runs.buckets[i]; run != NULL; run = run->next) {
            bool was_put_off = run->backoff_us > 0 && run->state != RUN_FOLLOWED && run->state != RUN_ENDED;
            run->backoff_us = was_put_off ? 0 : run->backoff_us; /* also of a call under way, which may still fail */
            if (was_put_off && run->heap_place != 0 && run->due_us > now_us) {
                run_set_due(engine, run, now_us);
            }
        }
    }
}

char *run_write_ids(const struct temporal *engine, const struct run *run)
{
    INVARIANT(engine != NULL && run != NULL);
    json_t *ids = json_pack("{s:s, s:s, s:s, s:s, s:s}", "workflow_id", run->workflow_id, "run_id", run->run_id,
                            "first_run_id", run->first_run_id[0] != '\0' ? run->first_run_id : run->run_id, "namespace",
                            engine->namespace_name, "task_queue", run->task_queue);
    if (run->was_sent_again) {
        /* Between the two starts an operator may have deleted the workflow of the first one. */
        (void)json_object_set_new(ids, "start_sent_again", json_true());
    }
    char *text = ids == NULL ? NULL : json_dumps(ids, JSON_COMPACT);
    json_decref(ids);
    return text;
}

struct report *run_new_report(struct temporal *engine, const struct run *run, enum report_kind kind)
{
    INVARIANT(run->id[0] != '\0' && run->fence > 0);
    struct report *report = report_new(kind, run->id, run->fence);
    if (report == NULL) {
        engine_note_lost_report(&engine->base);
    }
    return report;
}

void run_send_report(struct temporal *engine, struct report *report)
{
    if (report != NULL) {
        engine_report(&engine->base, report);
    }
}
