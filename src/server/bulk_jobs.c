/* The acts are in an array of BULK_JOBS_REMEMBERED places; a new one takes the place of the oldest that has ended. There
 * are more places than acts at once, so there is always one. The thread of an act writes its counters under the lock after
 * each chunk. */
#include "server/bulk_jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/thread.h"
#include "store/filter.h"

enum job_state { JOB_RUNNING, JOB_DONE, JOB_STOPPED, JOB_FAILED };

struct bulk_job {
    struct bulk_jobs *jobs;
    char id[UUID_TEXT_MAX];
    struct bulk_order order;
    struct arena arena; /* the texts of the filter */
    struct store *store;
    pthread_t thread;
    int64_t number; /* order of the beginnings */
    enum job_state state;
    bool stops;
    int64_t changed;
    int64_t requested;
    int64_t refused;
    struct weir_error refusal; /* the first; WEIR_OK = none */
    struct weir_error failure;
};

struct bulk_jobs {
    pthread_mutex_t lock;
    int64_t number;
    size_t running;
    bool is_ending;
    struct bulk_job *jobs[BULK_JOBS_REMEMBERED];
};

_Static_assert((int)BULK_JOBS_AT_ONCE < (int)BULK_JOBS_REMEMBERED, "one place is always free");

struct bulk_jobs *bulk_jobs_open(void)
{
    struct bulk_jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs != NULL) {
        (void)pthread_mutex_init(&jobs->lock, NULL);
    }
    return jobs;
}

/* Of one that has ended, or was never begun. */
static void close_job(struct bulk_job *job)
{
    if (job != NULL) {
        arena_close(&job->arena);
        store_close(job->store);
        free(job);
    }
}

/* An act ends with its present chunk, whose calls have a deadline. */
void bulk_jobs_close(struct bulk_jobs *jobs)
{
    if (jobs == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&jobs->lock);
    jobs->is_ending = true;
    (void)pthread_mutex_unlock(&jobs->lock);
    for (size_t i = 0; i < BULK_JOBS_REMEMBERED; i++) {
        if (jobs->jobs[i] != NULL) {
            (void)pthread_join(jobs->jobs[i]->thread, NULL);
        }
        close_job(jobs->jobs[i]);
    }
    (void)pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

/* --- the thread of an act --- */

/* Whether the act goes on after this chunk. The first one finds the workspace of the filter, and the others have its id. So
 * a rename meanwhile neither ends the act, nor leads it to another workspace with the old name. */
static bool bulk_job_take_chunk(struct bulk_job *job, const struct bulk_result *result)
{
    (void)pthread_mutex_lock(&job->jobs->lock);
    job->order.filter.workspace_id = result->workspace_id;
    job->changed += (int64_t)result->changed;
    job->requested += (int64_t)result->requested;
    job->refused += (int64_t)result->refused;
    if (job->refusal.status == WEIR_OK && result->refused > 0) {
        job->refusal = result->refusal;
        job->refusal.status = result->first_refusal != WEIR_OK ? result->first_refusal : WEIR_ILLEGAL_STATE;
    }
    bool stops = job->stops || job->jobs->is_ending;
    job->state = result->more && stops ? JOB_STOPPED : job->state;
    (void)pthread_mutex_unlock(&job->jobs->lock);
    return result->more && !stops;
}

/* A failure of the store ends the act: the order can be repeated, and a client sees why in the progress. */
static void *run_job(void *context)
{
    struct bulk_job *job = context;
    struct weir_error error = {.status = WEIR_OK};
    char after[UUID_TEXT_MAX] = "";
    bool goes_on = true;
    enum weir_status status = WEIR_OK;
    while (goes_on) {
        struct bulk_result result = {.matched = 0};
        const struct bulk_order *order = &job->order;
        status =
            store_bulk_ordered(job->store, order->act, &order->options, &order->filter, after, BULK_CHUNK, &result, &error);
        memcpy(after, result.last_id, sizeof after);
        if (status == WEIR_OK && order->filter.workspace != NULL && result.workspace_id == 0) { /* of the first chunk */
            status = error_set(&error, WEIR_WORKSPACE_NOT_FOUND, "there is no workspace \"%s\"", order->filter.workspace);
        }
        goes_on = status == WEIR_OK && bulk_job_take_chunk(job, &result);
    }
    store_close(job->store); /* a remembered act keeps no connection */
    (void)pthread_mutex_lock(&job->jobs->lock);
    job->store = NULL;
    if (status != WEIR_OK) {
        job->state = JOB_FAILED;
        job->failure = error;
    } else if (job->state == JOB_RUNNING) {
        job->state = JOB_DONE;
    }
    job->jobs->running--;
    (void)pthread_mutex_unlock(&job->jobs->lock);
    return NULL;
}

/* --- begin --- */

/* The texts of an order belong to its request, which ends before the act. */
static enum weir_status copy_texts(struct bulk_job *job, struct weir_error *error)
{
    struct act_order *options = &job->order.options;
    const char **const texts[] = {&options->from, &options->waits_for, &options->signal_name, &options->signal_data,
                                  &options->signal_key};
    bool is_fine = filter_copy_texts(&job->order.filter, &job->arena);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && is_fine; i++) {
        is_fine = arena_keep_text(&job->arena, texts[i]);
    }
    return is_fine ? WEIR_OK : error_out_of_memory(error);
}

static enum weir_status open_job(struct bulk_jobs *jobs, const struct store *store, const struct bulk_order *order,
                                 struct bulk_job **ret_job, struct weir_error *error)
{
    struct bulk_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return error_out_of_memory(error);
    }
    job->jobs = jobs;
    job->order = *order;
    arena_init(&job->arena, 2 * FILTER_BYTES_MAX + 2 * SIGNAL_DATA_BYTES_MAX);
    uuid_make_beside(clock_wall(clock_system()), job->id);
    enum weir_status status = copy_texts(job, error);
    if (status == WEIR_OK) {
        status = store_open_again(store, &job->store, error);
    }
    if (status == WEIR_OK) {
        status = store_act_for(job->store, store, NULL, error);
    }
    if (status != WEIR_OK) {
        close_job(job);
        return status;
    }
    *ret_job = job;
    return WEIR_OK;
}

/* The place of the oldest act that has ended, or an empty one. With the lock held. */
static struct bulk_job **place_for_job(struct bulk_jobs *jobs)
{
    struct bulk_job **place = NULL;
    for (size_t i = 0; i < BULK_JOBS_REMEMBERED; i++) {
        struct bulk_job *job = jobs->jobs[i];
        if (job == NULL) {
            return &jobs->jobs[i];
        }
        if (job->state != JOB_RUNNING && (place == NULL || job->number < (*place)->number)) {
            place = &jobs->jobs[i];
        }
    }
    return place;
}

/* The thread begins with the lock held, so that the act is in its place before it changes anything of it. */
static enum weir_status start_job(struct bulk_jobs *jobs, struct bulk_job *job, struct weir_error *error)
{
    struct bulk_job *former = NULL;
    (void)pthread_mutex_lock(&jobs->lock);
    if (jobs->running >= BULK_JOBS_AT_ONCE) {
        (void)pthread_mutex_unlock(&jobs->lock);
        return error_set(error, WEIR_QUEUE_FULL, "%d bulk acts run already on this node", BULK_JOBS_AT_ONCE);
    }
    struct bulk_job **place = place_for_job(jobs);
    INVARIANT(place != NULL);
    int native = thread_start(&job->thread, run_job, job);
    if (native == 0) {
        former = *place;
        job->number = ++jobs->number;
        jobs->running++;
        *place = job;
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    if (former != NULL) {
        (void)pthread_join(former->thread, NULL);
        close_job(former);
    }
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for HTTP: %s",
                                          strerror(native));
}

enum weir_status bulk_jobs_begin(struct bulk_jobs *jobs, const struct store *store, const struct bulk_order *order,
                                 char *ret_id, struct weir_error *error)
{
    INVARIANT(jobs != NULL && order != NULL && ret_id != NULL);
    struct bulk_job *job = NULL;
    char id[UUID_TEXT_MAX];
    enum weir_status status = open_job(jobs, store, order, &job, error);
    if (status != WEIR_OK) {
        return status;
    }
    memcpy(id, job->id, sizeof id); /* once it has begun, another request may take its place */
    status = start_job(jobs, job, error);
    if (status != WEIR_OK) {
        close_job(job);
        return status;
    }
    memcpy(ret_id, id, sizeof id);
    return WEIR_OK;
}

/* --- progress --- */

/* An id that is no id of an act is as unknown as one that is not remembered any more.
 * With the lock held. NULL: there is none. */
static struct bulk_job *find_job(struct bulk_jobs *jobs, const char *id)
{
    for (size_t i = 0; i < BULK_JOBS_REMEMBERED; i++) {
        if (jobs->jobs[i] != NULL && strcmp(jobs->jobs[i]->id, id) == 0) {
            return jobs->jobs[i];
        }
    }
    return NULL;
}

static enum weir_status refuse_unknown(const char *id, struct weir_error *error)
{
    error_set(error, WEIR_NOT_FOUND, "this node has no bulk act %s", id);
    error_hint(error, "the node that began it remembers its last %d acts until it stops", BULK_JOBS_REMEMBERED);
    return WEIR_NOT_FOUND;
}

/* NULL: there was none. */
static json_t *failure_json(const struct weir_error *error)
{
    return error->status == WEIR_OK
               ? json_null()
               : json_pack("{s:s, s:s}", "code", weir_status_name(error->status), "detail", error->message);
}

/* With the lock held. NULL: no memory. */
static json_t *job_json(const struct bulk_job *job)
{
    static const char *const states[] = {
        [JOB_RUNNING] = "running", [JOB_DONE] = "done", [JOB_STOPPED] = "stopped", [JOB_FAILED] = "failed"};
    return json_pack("{s:s, s:s, s:s, s:s?, s:I, s:I, s:b, s:I, s:I, s:I, s:o, s:o}", "id", job->id, "act",
                     bulk_act_name(job->order.act), "state", states[job->state], "workspace", job->order.filter.workspace,
                     "workspace_id", (json_int_t)job->order.filter.workspace_id, "matched",
                     (json_int_t)job->order.matches.matched, "matched_is_exact", job->order.matches.is_exact, "changed",
                     (json_int_t)job->changed, "requested", (json_int_t)job->requested, "refused", (json_int_t)job->refused,
                     "first_refusal", failure_json(&job->refusal), "error", failure_json(&job->failure));
}

enum weir_status bulk_jobs_read(struct bulk_jobs *jobs, const char *id, json_t **ret_job, struct weir_error *error)
{
    json_t *answer = NULL;
    (void)pthread_mutex_lock(&jobs->lock);
    const struct bulk_job *job = find_job(jobs, id);
    if (job != NULL) {
        answer = job_json(job);
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    if (job == NULL) {
        return refuse_unknown(id, error);
    }
    if (answer == NULL) {
        return error_out_of_memory(error);
    }
    *ret_job = answer;
    return WEIR_OK;
}

static int compare_newest_first(const void *a, const void *b)
{
    const struct bulk_job *const *one = a;
    const struct bulk_job *const *other = b;
    return (*one)->number < (*other)->number ? 1 : -1;
}

enum weir_status bulk_jobs_list(struct bulk_jobs *jobs, json_t **ret_jobs, struct weir_error *error)
{
    INVARIANT(jobs != NULL && ret_jobs != NULL);
    const struct bulk_job *known[BULK_JOBS_REMEMBERED];
    size_t count = 0;
    json_t *list = json_array();
    int failed = list == NULL ? -1 : 0;
    (void)pthread_mutex_lock(&jobs->lock);
    for (size_t i = 0; i < BULK_JOBS_REMEMBERED; i++) {
        if (jobs->jobs[i] != NULL) {
            known[count++] = jobs->jobs[i];
        }
    }
    qsort(known, count, sizeof known[0], compare_newest_first);
    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = json_array_append_new(list, job_json(known[i]));
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    if (failed != 0) {
        json_decref(list);
        return error_out_of_memory(error);
    }
    *ret_jobs = list;
    return WEIR_OK;
}

/* Of an act that has ended this changes nothing. */
enum weir_status bulk_jobs_stop(struct bulk_jobs *jobs, const char *id, struct weir_error *error)
{
    (void)pthread_mutex_lock(&jobs->lock);
    struct bulk_job *job = find_job(jobs, id);
    if (job != NULL) {
        job->stops = true;
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    return job != NULL ? WEIR_OK : refuse_unknown(id, error);
}
