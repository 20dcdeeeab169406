/* The registry: it counts the events of this process and renders the counts as Prometheus text.
 *
 * Three tables name the event that feeds each series: counters, counters with one label, and histograms. To add a series,
 * add a row. A series with an alias is rendered twice, the second time under the specification's name. Values of a label
 * are bounded; the counts of further values are added under `_other`.
 *
 * metrics_event() is a subscriber and runs in any thread: it takes one lock, makes no query, and loses at most a label's
 * value when memory is short. Counters of the store are rendered in metrics_status.c.
 */
#include "observe/metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "observe/metrics_text.h"

/* --- counters --- */

enum adds { ADDS_ONE, ADDS_COUNT }; /* one per event, or its `count` (at least one) */

/* One plain counter per row; `alias` is the specification's name (key metrics). */
static const struct {
    enum event_type event;
    enum adds adds;
    const char *name;
    const char *alias;
    const char *help;
} counters[] = {
    {EVENT_EXECUTION_ENQUEUED, ADDS_COUNT, "weir_executions_enqueued_total", NULL, "Executions enqueued by this process."},
    {EVENT_EXECUTION_DISPATCHED, ADDS_COUNT, "weir_executions_dispatched_total", "queue_items_dispatched_total",
     "Executions handed to the engine."},
    {EVENT_EXECUTION_COMPLETED, ADDS_COUNT, "weir_executions_completed_total", NULL, "Executions that ended COMPLETED."},
    {EVENT_EXECUTION_CANCELLED, ADDS_COUNT, "weir_executions_cancelled_total", NULL, "Executions that ended CANCELLED."},
    {EVENT_EXECUTION_RETRYING, ADDS_COUNT, "weir_executions_retried_total", NULL,
     "Starts that were refused and are tried again."},
    {EVENT_EXECUTION_DEFERRED, ADDS_COUNT, "weir_executions_deferred_total", NULL, "Items put back; no start is counted."},
    {EVENT_WORKSPACE_AT_CAPACITY, ADDS_COUNT, "weir_items_at_capacity_total", "queue_items_at_capacity_total",
     "Times that a workspace had work and no free slot, at most one a minute each."},
    {EVENT_START_UNKNOWN, ADDS_COUNT, "weir_starts_unknown_total", NULL, "Starts without an answer."},
    {EVENT_ITEMS_RECOVERED, ADDS_COUNT, "weir_executions_recovered_total", "queue_stale_recovery_count",
     "Items taken over from dead nodes, or assigned for too long without a start."},
    {EVENT_EXECUTION_POISONED, ADDS_COUNT, "weir_executions_poisoned_total", NULL,
     "Items that ended their node or its keeper too often."},
    {EVENT_EXECUTION_STUCK, ADDS_ONE, "weir_executions_stuck_total", NULL, "Warnings of executions that run too long."},
    {EVENT_STEPS_INTERRUPTED, ADDS_COUNT, "weir_steps_interrupted_total", NULL,
     "Steps whose keeper or node process died and that are run again."},
    {EVENT_STEPS_DEFERRED, ADDS_ONE, "weir_steps_deferred_total", NULL,
     "Times that the machine was too short of something to start a step's process."},
    {EVENT_STALE_WRITE_REFUSED, ADDS_COUNT, "weir_stale_writes_refused_total", NULL, "Late writes that changed nothing."},
    {EVENT_SCHEDULER_TAKEN, ADDS_ONE, "weir_scheduler_takeovers_total", NULL,
     "Times that this node took the scheduler's role."},
    {EVENT_NODE_DEAD, ADDS_ONE, "weir_nodes_dead_total", NULL, "Nodes that this one found dead."},
    {EVENT_LEASE_LOST, ADDS_ONE, "weir_leases_lost_total", NULL, "Times that this node lost its lease."},
    {EVENT_LOCK_ACQUIRED, ADDS_ONE, "weir_lock_acquisitions_total", NULL, "Locks taken."},
    {EVENT_LOCK_BUSY, ADDS_ONE, "weir_lock_acquisition_failures_total", "shedlock_acquisition_failures",
     "Locks that another node held."},
    {EVENT_LOCK_LOST, ADDS_ONE, "weir_locks_lost_total", NULL, "Locks lost before they were given back."},
    {EVENT_ENGINE_DOWN, ADDS_ONE, "weir_engine_outages_total", NULL, "Times that the engine became unreachable."},
    {EVENT_OUTPUT_LOST, ADDS_COUNT, "weir_output_lost_bytes_total", NULL, "Bytes of output of steps that no log has."},
    {EVENT_RETENTION_PURGED, ADDS_COUNT, "weir_executions_purged_total", NULL, "Ended executions removed by retention."},
    {EVENT_STORE_UNWATCHED, ADDS_ONE, "weir_store_unwatched_total", NULL,
     "Times that the store could not be watched for what other processes enqueue."},
    {EVENT_LOOP_FAILED, ADDS_ONE, "weir_loop_failures_total", NULL, "Failures of a node's loops."},
};
enum { COUNTER_COUNT = sizeof counters / sizeof counters[0] };

/* Counters with one label and values from events: bounded, the rest is `_other`. */
enum label_source { LABEL_CODE, LABEL_REASON };
static const struct {
    enum event_type event;
    enum label_source source;
    const char *name;
    const char *label;
    const char *alias;
    const char *alias_label;
    const char *help;
} labelled_counters[] = {
    {EVENT_EXECUTION_FAILED, LABEL_CODE, "weir_executions_failed_total", "error_code", NULL, NULL,
     "Executions that ran and ended FAILED, by error code."},
    {EVENT_DISPATCH_FAILED, LABEL_CODE, "weir_dispatch_failures_total", "error_code", "queue_items_failed_total", "reason",
     "Executions that could not be started, for good, by error code."},
    {EVENT_STORE_FAILED, LABEL_REASON, "weir_store_failures_total", "verb", NULL, NULL,
     "Store calls that failed, by verb."},
};
enum { LABELLED_COUNT = sizeof labelled_counters / sizeof labelled_counters[0] };

static const double second_buckets[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                        0.5,    1,     2.5,    5,     10,   30,    60,   300, 1800};
static const double size_buckets[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000};
enum { BUCKETS_MAX = sizeof second_buckets / sizeof second_buckets[0] };

enum observes { OBSERVES_COUNT, OBSERVES_SECONDS };
static const struct {
    enum event_type event;
    enum observes observes;
    const char *name;
    const char *alias;
    const char *help;
} histograms[] = {
    {EVENT_BATCH_CLAIMED, OBSERVES_COUNT, "weir_claim_batch_size", "queue_processing_batch_size",
     "Items that a node got with one set of assignments."},
    {EVENT_BATCH_CLAIMED, OBSERVES_SECONDS, "weir_dispatch_cycle_duration_seconds", "queue_processing_duration_seconds",
     "Duration of the store call that brought a set of assignments."},
    {EVENT_EXECUTION_DISPATCHED, OBSERVES_SECONDS, "weir_queue_wait_seconds", NULL,
     "From the time at which an execution was due until it was started."},
    {EVENT_EXECUTION_COMPLETED, OBSERVES_SECONDS, "weir_execution_duration_seconds", NULL,
     "From start to end of executions that completed."},
    {EVENT_STORE_CALLED, OBSERVES_SECONDS, "weir_store_call_duration_seconds", NULL, "Duration of store calls."},
};
enum { HISTOGRAM_COUNT = sizeof histograms / sizeof histograms[0] };

/* --- the registry --- */

struct labelled {
    char *values[METRICS_LABELS_MAX];
    uint64_t counts[METRICS_LABELS_MAX];
    size_t used;
    uint64_t other;
};

struct histogram {
    uint64_t buckets[BUCKETS_MAX]; /* not cumulated; the last one beyond is count minus their sum */
    uint64_t count;
    double sum;
};

struct metrics {
    pthread_mutex_t lock;
    uint64_t counters[COUNTER_COUNT];
    struct labelled labelled[LABELLED_COUNT];
    struct histogram histograms[HISTOGRAM_COUNT];
    bool engine_is_up;
};

enum weir_status metrics_open(struct metrics **ret_metrics, struct weir_error *error)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL) {
        return error_out_of_memory(error);
    }
    (void)pthread_mutex_init(&metrics->lock, NULL);
    metrics->engine_is_up = true;
    *ret_metrics = metrics;
    return WEIR_OK;
}

void metrics_close(struct metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    for (size_t i = 0; i < LABELLED_COUNT; i++) {
        for (size_t k = 0; k < metrics->labelled[i].used; k++) {
            free(metrics->labelled[i].values[k]);
        }
    }
    (void)pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

/* The linear search is short: METRICS_LABELS_MAX values. */
static void count_label(struct labelled *labelled, const char *value)
{
    if (value == NULL || value[0] == '\0') {
        value = "none";
    }
    for (size_t i = 0; i < labelled->used; i++) {
        if (strcmp(labelled->values[i], value) == 0) {
            labelled->counts[i]++;
            return;
        }
    }
    char *copy = labelled->used < METRICS_LABELS_MAX ? strdup(value) : NULL;
    if (copy == NULL) {
        labelled->other++;
        return;
    }
    labelled->values[labelled->used] = copy;
    labelled->counts[labelled->used] = 1;
    labelled->used++;
}

static const double *buckets_of(size_t index, size_t *ret_count)
{
    bool is_size = histograms[index].observes == OBSERVES_COUNT;
    *ret_count = is_size ? sizeof size_buckets / sizeof size_buckets[0] : BUCKETS_MAX;
    return is_size ? size_buckets : second_buckets;
}

/* Adds a value to the first bucket that holds it. */
static void add_observation(struct histogram *histogram, size_t index, const struct event *event)
{
    bool is_size = histograms[index].observes == OBSERVES_COUNT;
    double value = is_size ? (double)event->count : (double)event->duration_us / (double)MICROSECONDS_PER_SECOND;
    size_t count = 0;
    const double *bounds = buckets_of(index, &count);
    histogram->count++;
    histogram->sum += value;
    for (size_t i = 0; i < count; i++) {
        if (value <= bounds[i]) {
            histogram->buckets[i]++;
            return;
        }
    }
}

void metrics_event(void *context, const struct event *event)
{
    INVARIANT(context != NULL && event != NULL);
    struct metrics *metrics = context;
    (void)pthread_mutex_lock(&metrics->lock);
    for (size_t i = 0; i < COUNTER_COUNT; i++) {
        if (counters[i].event == event->type) {
            metrics->counters[i] += counters[i].adds == ADDS_COUNT && event->count > 1 ? (uint64_t)event->count : 1;
        }
    }
    for (size_t i = 0; i < LABELLED_COUNT; i++) {
        if (labelled_counters[i].event == event->type) {
            count_label(&metrics->labelled[i], labelled_counters[i].source == LABEL_CODE ? event->code : event->reason);
        }
    }
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++) {
        if (histograms[i].event == event->type) {
            add_observation(&metrics->histograms[i], i, event);
        }
    }
    if (event->type == EVENT_ENGINE_DOWN || event->type == EVENT_ENGINE_UP) {
        metrics->engine_is_up = event->type == EVENT_ENGINE_UP;
    }
    (void)pthread_mutex_unlock(&metrics->lock);
}

/* --- rendering --- */

static void render_labelled(struct metrics_text *to, const char *name, const char *label, const char *help,
                            const struct labelled *labelled)
{
    metrics_text_head(to, name, "counter", help);
    for (size_t i = 0; i < labelled->used; i++) {
        metrics_text_sample(to, name, label, labelled->values[i], (double)labelled->counts[i]);
    }
    if (labelled->other > 0) {
        metrics_text_sample(to, name, label, "_other", (double)labelled->other);
    }
}

/* Buckets are cumulated here, as the format demands. */
static void render_histogram(struct metrics_text *to, const char *name, size_t index, const struct histogram *histogram)
{
    char series[128];
    char bound[32];
    size_t count = 0;
    const double *bounds = buckets_of(index, &count);
    uint64_t below = 0;
    metrics_text_head(to, name, "histogram", histograms[index].help);
    (void)snprintf(series, sizeof series, "%s_bucket", name);
    for (size_t i = 0; i < count; i++) {
        below += histogram->buckets[i];
        (void)snprintf(bound, sizeof bound, "%g", bounds[i]);
        metrics_text_sample(to, series, "le", bound, (double)below);
    }
    metrics_text_sample(to, series, "le", "+Inf", (double)histogram->count);
    (void)snprintf(series, sizeof series, "%s_sum", name);
    metrics_text_sample(to, series, NULL, NULL, histogram->sum);
    (void)snprintf(series, sizeof series, "%s_count", name);
    metrics_text_sample(to, series, NULL, NULL, (double)histogram->count);
}

static void render_counter(struct metrics_text *to, const char *name, const char *help, uint64_t value)
{
    metrics_text_head(to, name, "counter", help);
    metrics_text_sample(to, name, NULL, NULL, (double)value);
}

static void render_all(const struct metrics *metrics, struct metrics_text *to)
{
    metrics_text_head(to, "weir_build_info", "gauge", "The version of this process; always 1.");
    metrics_text_sample(to, "weir_build_info", "version", WEIR_VERSION, 1);
    metrics_text_head(to, "weir_engine_up", "gauge", "Whether this node reaches its engine.");
    metrics_text_sample(to, "weir_engine_up", NULL, NULL, metrics->engine_is_up);
    for (size_t i = 0; i < COUNTER_COUNT; i++) {
        render_counter(to, counters[i].name, counters[i].help, metrics->counters[i]);
        if (counters[i].alias != NULL) {
            render_counter(to, counters[i].alias, counters[i].help, metrics->counters[i]);
        }
    }
    for (size_t i = 0; i < LABELLED_COUNT; i++) {
        render_labelled(to, labelled_counters[i].name, labelled_counters[i].label, labelled_counters[i].help,
                        &metrics->labelled[i]);
        if (labelled_counters[i].alias != NULL) {
            render_labelled(to, labelled_counters[i].alias, labelled_counters[i].alias_label, labelled_counters[i].help,
                            &metrics->labelled[i]);
        }
    }
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++) {
        render_histogram(to, histograms[i].name, i, &metrics->histograms[i]);
        if (histograms[i].alias != NULL) {
            render_histogram(to, histograms[i].alias, i, &metrics->histograms[i]);
        }
    }
}

enum weir_status metrics_render(struct metrics *metrics, struct text *to)
{
    INVARIANT(metrics != NULL && to != NULL);
    struct metrics_text text = {.to = to};
    (void)pthread_mutex_lock(&metrics->lock);
    render_all(metrics, &text);
    (void)pthread_mutex_unlock(&metrics->lock);
    return text.status;
}
