/* The registry: it counts the events of this process and renders the counts as Prometheus text.
 *
 *   families   one row for each metric: its name, its label, the bounds of its buckets, and its alias
 *   feeds      one row for each event that changes a metric: the amount, and the source of the value of the label
 *
 * To add a metric, add a row to both. A family with an alias is rendered twice, the second time under the alias. A
 * family without a label has one cell. One with a label has a cell for each value, METRICS_LABELS_MAX at most. Further
 * values are added up under `_other`. Values that are known beforehand are there from the start, so that a rate over
 * them never begins with a gap.
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

/* --- families --- */

enum { BUCKETS_MAX = 18, KNOWN_VALUES_MAX = 4 };

struct buckets {
    size_t count;
    double bounds[BUCKETS_MAX];
};
static const struct buckets seconds = {
    18, {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}};
/* Of a call, for many values of a label. */
static const struct buckets call_seconds = {7, {0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10}};
static const struct buckets sizes = {11, {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}};
static const struct buckets retries = {7, {0, 1, 2, 3, 5, 10, 20}};

/* X(id, name, buckets (NULL = a counter), label or NULL, alias or NULL, the alias's label or NULL, help) */
#define FAMILY_LIST(X)                                                                                                     \
    X(ENQUEUED, "weir_executions_enqueued_total", NULL, NULL, NULL, NULL, "Executions enqueued by this process.")          \
    X(AT_CAPACITY, "weir_items_at_capacity_total", NULL, NULL, "queue_items_at_capacity_total", NULL,                      \
      "Items that had to wait for a slot of their workspace; each counts once, when the scheduler assigns it.")            \
    X(QUEUE_WAIT, "weir_queue_wait_seconds", &seconds, "phase", NULL, NULL,                                                \
      "Wait of an item until its first assignment: for a slot of its workspace, for the end of a pause, for the "          \
      "dispatch.")                                                                                                         \
    X(CYCLES, "weir_dispatch_cycles_total", NULL, NULL, NULL, NULL, "Rounds of the scheduler and reads of an inbox.")      \
    X(BATCH_SIZE, "weir_claim_batch_size", &sizes, NULL, "queue_processing_batch_size", NULL,                              \
      "Items that a node got with one set of assignments.")                                                                \
    X(CYCLE, "weir_dispatch_cycle_duration_seconds", &seconds, NULL, "queue_processing_duration_seconds", NULL,            \
      "From the store call that brought a set of assignments until the start of each of its items is on record.")          \
    X(DISPATCHED, "weir_executions_dispatched_total", NULL, NULL, "queue_items_dispatched_total", NULL,                    \
      "Executions handed to the engine.")                                                                                  \
    X(START_LATENCY, "weir_start_latency_seconds", &seconds, NULL, NULL, NULL,                                             \
      "From the assignment of an item until the engine has started it.")                                                   \
    X(START_RETRIES, "weir_start_retries", &retries, NULL, NULL, NULL,                                                     \
      "Starts that the engine refused of an execution that was started, or could not be started for good.")                \
    X(STARTS_RETRIED, "weir_executions_retried_total", NULL, NULL, NULL, NULL,                                             \
      "Starts that were refused and are tried again.")                                                                     \
    X(DEFERRED, "weir_executions_deferred_total", NULL, NULL, NULL, NULL, "Items put back; no start is counted.")          \
    X(STARTS_UNKNOWN, "weir_starts_unknown_total", NULL, NULL, NULL, NULL, "Starts without an answer.")                    \
    X(DISPATCH_FAILURES, "weir_dispatch_failures_total", NULL, "error_code", "queue_items_failed_total", "reason",         \
      "Executions that could not be started, for good, by error code.")                                                    \
    X(STEP, "weir_step_duration_seconds", &seconds, "state", NULL, NULL, "Duration of attempts of steps, by their end.")   \
    X(STEPS_INTERRUPTED, "weir_steps_interrupted_total", NULL, NULL, NULL, NULL,                                           \
      "Steps whose keeper or node process died and that are run again.")                                                   \
    X(STEPS_DEFERRED, "weir_steps_deferred_total", NULL, NULL, NULL, NULL,                                                 \
      "Times that the machine was too short of something to start a step's process.")                                      \
    X(SPANS_EXPORTED, "weir_spans_exported_total", NULL, NULL, NULL, NULL, "Spans that the collector took.")               \
    X(SPANS_DROPPED, "weir_spans_dropped_total", NULL, NULL, NULL, NULL, "Spans that no collector took.")                  \
    X(OUTPUT_LOST, "weir_output_lost_bytes_total", NULL, NULL, NULL, NULL, "Bytes of output of steps that no log has.")    \
    X(EXECUTION, "weir_execution_duration_seconds", &seconds, "status", NULL, NULL,                                        \
      "From start to end of executions, by the status of their end.")                                                      \
    X(COMPLETED, "weir_executions_completed_total", NULL, NULL, NULL, NULL, "Executions that ended COMPLETED.")            \
    X(CANCELLED, "weir_executions_cancelled_total", NULL, NULL, NULL, NULL, "Executions that ended CANCELLED.")            \
    X(FAILED, "weir_executions_failed_total", NULL, "error_code", NULL, NULL,                                              \
      "Executions that ran and ended FAILED, by error code.")                                                              \
    X(RECOVERED, "weir_executions_recovered_total", NULL, NULL, "queue_stale_recovery_count", NULL,                        \
      "Items taken over from dead nodes, or assigned for too long without a start.")                                       \
    X(POISONED, "weir_executions_poisoned_total", NULL, NULL, NULL, NULL,                                                  \
      "Items that ended their node or its keeper too often.")                                                              \
    X(STUCK, "weir_executions_stuck_total", NULL, NULL, NULL, NULL, "Warnings of executions that run too long.")           \
    X(ORPHANED, "weir_workspaces_not_found_total", NULL, NULL, NULL, NULL,                                                 \
      "Items that ended FAILED because their workspace does not exist.")                                                   \
    X(ARCHIVED, "weir_executions_archived_total", NULL, NULL, NULL, NULL,                                                  \
      "Ended executions whose content was moved to the archive.")                                                          \
    X(PURGED, "weir_executions_purged_total", NULL, NULL, NULL, NULL, "Ended executions removed by retention.")            \
    X(STALE_WRITES, "weir_stale_writes_refused_total", NULL, NULL, NULL, NULL, "Late writes that changed nothing.")        \
    X(RECORDS_REFUSED, "weir_records_refused_total", NULL, NULL, NULL, NULL,                                               \
      "Reports of records that the store refuses, one a minute for each.")                                                 \
    X(TAKEOVERS, "weir_scheduler_takeovers_total", NULL, NULL, NULL, NULL,                                                 \
      "Times that a node of this process took the scheduler's role.")                                                      \
    X(NODES_DEAD, "weir_nodes_dead_total", NULL, NULL, NULL, NULL, "Nodes that this process found dead.")                  \
    X(LEASES_LOST, "weir_leases_lost_total", NULL, NULL, NULL, NULL, "Times that a node of this process lost its lease.")  \
    X(LOCKS_TAKEN, "weir_lock_acquisitions_total", NULL, NULL, NULL, NULL, "Locks taken.")                                 \
    X(LOCKS_BUSY, "weir_lock_acquisition_failures_total", NULL, NULL, "shedlock_acquisition_failures", NULL,               \
      "Locks that another node held.")                                                                                     \
    X(LOCKS_LOST, "weir_locks_lost_total", NULL, NULL, NULL, NULL, "Locks lost before they were given back.")              \
    X(OUTAGES, "weir_engine_outages_total", NULL, NULL, NULL, NULL, "Times that the engine became unreachable.")           \
    X(STORE_CALL, "weir_store_call_duration_seconds", &call_seconds, "verb", NULL, NULL,                                   \
      "Duration of store calls, by verb.")                                                                                 \
    X(STORE_FAILURES, "weir_store_failures_total", NULL, "verb", NULL, NULL, "Store calls that failed, by verb.")          \
    X(UNWATCHED, "weir_store_unwatched_total", NULL, NULL, NULL, NULL,                                                     \
      "Times that the store could not be watched for what other processes enqueue.")                                       \
    X(SCHEDULE_FIRINGS, "weir_schedule_firings_total", NULL, "outcome", NULL, NULL,                                        \
      "Times of schedules and workspaces that came, by what became of them.")                                              \
    X(LOOP_FAILURES, "weir_loop_failures_total", NULL, NULL, NULL, NULL, "Failures of a node's loops.")

enum family_id {
#define FAMILY_ENUM(id, name, buckets, label, alias, alias_label, help) FAMILY_##id,
    FAMILY_LIST(FAMILY_ENUM)
#undef FAMILY_ENUM
        FAMILY_COUNT
};

static const struct family {
    const char *name;
    const struct buckets *buckets;
    const char *label;
    const char *alias;
    const char *alias_label;
    const char *help;
} families[] = {
#define FAMILY_ROW(id, name, buckets, label, alias, alias_label, help) {name, buckets, label, alias, alias_label, help},
    FAMILY_LIST(FAMILY_ROW)
#undef FAMILY_ROW
};

static const struct {
    enum family_id family;
    const char *values[KNOWN_VALUES_MAX];
} known_values[] = {
    {FAMILY_QUEUE_WAIT, {"capacity", "pause", "dispatch"}},
    {FAMILY_EXECUTION, {"COMPLETED", "FAILED", "CANCELLED"}},
    {FAMILY_STEP, {"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED"}},
    {FAMILY_SCHEDULE_FIRINGS, {"fired", "skipped", "dropped", "refused"}},
};

/* --- feeds --- */

enum amount {
    AMOUNT_ONE,
    AMOUNT_COUNT,       /* `count` of the event, at least one */
    AMOUNT_AT_CAPACITY, /* one when the item has waited for a slot */
    AMOUNT_RETRIES,     /* starts before this one */
    AMOUNT_DURATION,    /* this and the following ones in seconds */
    AMOUNT_SLOT_WAIT,
    AMOUNT_PAUSE_WAIT,
    AMOUNT_OTHER_WAIT, /* the duration without these two */
    AMOUNT_LATENCY
};
enum label_source { LABEL_CONSTANT, LABEL_CODE, LABEL_REASON };

static const struct feed {
    enum event_type event;
    enum family_id family;
    enum amount amount;
    enum label_source source;
    const char *constant; /* LABEL_CONSTANT: the value; NULL = the family has no label */
    const char *only;     /* the event's reason; NULL = any */
} feeds[] = {
    {EVENT_EXECUTION_ENQUEUED, FAMILY_ENQUEUED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_ASSIGNED, FAMILY_AT_CAPACITY, AMOUNT_AT_CAPACITY, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_ASSIGNED, FAMILY_QUEUE_WAIT, AMOUNT_SLOT_WAIT, LABEL_CONSTANT, "capacity", NULL},
    {EVENT_EXECUTION_ASSIGNED, FAMILY_QUEUE_WAIT, AMOUNT_PAUSE_WAIT, LABEL_CONSTANT, "pause", NULL},
    {EVENT_EXECUTION_ASSIGNED, FAMILY_QUEUE_WAIT, AMOUNT_OTHER_WAIT, LABEL_CONSTANT, "dispatch", NULL},
    {EVENT_BATCH_CLAIMED, FAMILY_BATCH_SIZE, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_BATCH_PROCESSED, FAMILY_CYCLE, AMOUNT_DURATION, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_DISPATCHED, FAMILY_DISPATCHED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_DISPATCHED, FAMILY_START_LATENCY, AMOUNT_LATENCY, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_DISPATCHED, FAMILY_START_RETRIES, AMOUNT_RETRIES, LABEL_CONSTANT, NULL, NULL},
    {EVENT_DISPATCH_FAILED, FAMILY_START_RETRIES, AMOUNT_RETRIES, LABEL_CONSTANT, NULL, NULL},
    {EVENT_DISPATCH_FAILED, FAMILY_DISPATCH_FAILURES, AMOUNT_ONE, LABEL_CODE, NULL, NULL},
    {EVENT_EXECUTION_RETRYING, FAMILY_STARTS_RETRIED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_DEFERRED, FAMILY_DEFERRED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_START_UNKNOWN, FAMILY_STARTS_UNKNOWN, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_STEP_ENDED, FAMILY_STEP, AMOUNT_DURATION, LABEL_REASON, NULL, NULL},
    {EVENT_STEPS_INTERRUPTED, FAMILY_STEPS_INTERRUPTED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_STEPS_DEFERRED, FAMILY_STEPS_DEFERRED, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_SPANS_EXPORTED, FAMILY_SPANS_EXPORTED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_SPANS_DROPPED, FAMILY_SPANS_DROPPED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_OUTPUT_LOST, FAMILY_OUTPUT_LOST, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_COMPLETED, FAMILY_COMPLETED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_COMPLETED, FAMILY_EXECUTION, AMOUNT_DURATION, LABEL_CONSTANT, "COMPLETED", NULL},
    {EVENT_EXECUTION_FAILED, FAMILY_FAILED, AMOUNT_ONE, LABEL_CODE, NULL, NULL},
    {EVENT_EXECUTION_FAILED, FAMILY_EXECUTION, AMOUNT_DURATION, LABEL_CONSTANT, "FAILED", NULL},
    {EVENT_EXECUTION_CANCELLED, FAMILY_CANCELLED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_CANCELLED, FAMILY_EXECUTION, AMOUNT_DURATION, LABEL_CONSTANT, "CANCELLED", NULL},
    {EVENT_ITEMS_RECOVERED, FAMILY_RECOVERED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_POISONED, FAMILY_POISONED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_EXECUTION_STUCK, FAMILY_STUCK, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_WORKSPACE_NOT_FOUND, FAMILY_ORPHANED, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_ARCHIVE_MOVED, FAMILY_ARCHIVED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_RETENTION_PURGED, FAMILY_PURGED, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_STALE_WRITE_REFUSED, FAMILY_STALE_WRITES, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_RECORD_REFUSED, FAMILY_RECORDS_REFUSED, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_SCHEDULER_TAKEN, FAMILY_TAKEOVERS, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_NODE_DEAD, FAMILY_NODES_DEAD, AMOUNT_COUNT, LABEL_CONSTANT, NULL, NULL},
    {EVENT_LEASE_LOST, FAMILY_LEASES_LOST, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_LOCK_ACQUIRED, FAMILY_LOCKS_TAKEN, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_LOCK_BUSY, FAMILY_LOCKS_BUSY, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_LOCK_LOST, FAMILY_LOCKS_LOST, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_ENGINE_DOWN, FAMILY_OUTAGES, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_STORE_CALLED, FAMILY_STORE_CALL, AMOUNT_DURATION, LABEL_REASON, NULL, NULL},
    {EVENT_STORE_CALLED, FAMILY_CYCLES, AMOUNT_ONE, LABEL_CONSTANT, NULL, "schedule"},
    {EVENT_STORE_CALLED, FAMILY_CYCLES, AMOUNT_ONE, LABEL_CONSTANT, NULL, "inbox"},
    {EVENT_STORE_FAILED, FAMILY_STORE_FAILURES, AMOUNT_ONE, LABEL_REASON, NULL, NULL},
    {EVENT_STORE_UNWATCHED, FAMILY_UNWATCHED, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
    {EVENT_SCHEDULE_FIRED, FAMILY_SCHEDULE_FIRINGS, AMOUNT_ONE, LABEL_CONSTANT, "fired", NULL},
    {EVENT_SCHEDULE_SKIPPED, FAMILY_SCHEDULE_FIRINGS, AMOUNT_COUNT, LABEL_CONSTANT, "skipped", NULL},
    {EVENT_SCHEDULE_DROPPED, FAMILY_SCHEDULE_FIRINGS, AMOUNT_COUNT, LABEL_CONSTANT, "dropped", NULL},
    {EVENT_SCHEDULE_REFUSED, FAMILY_SCHEDULE_FIRINGS, AMOUNT_COUNT, LABEL_CONSTANT, "refused", NULL},
    {EVENT_LOOP_FAILED, FAMILY_LOOP_FAILURES, AMOUNT_ONE, LABEL_CONSTANT, NULL, NULL},
};
enum { FEED_COUNT = sizeof feeds / sizeof feeds[0] };

/* --- the registry --- */

struct cell {
    char *value;                   /* of the label; NULL = the family has none, or it is that of `_other` */
    uint64_t count;                /* observations */
    double sum;                    /* of a counter: its value */
    uint64_t buckets[BUCKETS_MAX]; /* not cumulated; the rest is count minus their sum */
};

struct series {
    struct cell *cells[METRICS_LABELS_MAX];
    size_t used;
    struct cell other; /* without a label the only one */
};

struct metrics {
    pthread_mutex_t lock;
    struct series series[FAMILY_COUNT];
    /* The nodes of this process, and whether each reaches its engine. */
    char *nodes[METRICS_LABELS_MAX];
    bool engine_is_up[METRICS_LABELS_MAX];
    size_t node_count;
};

/* The cell of a value, a new one if there is room. The linear search is short: METRICS_LABELS_MAX values. */
static struct cell *cell_of(struct series *series, const char *value)
{
    for (size_t i = 0; i < series->used; i++) {
        if (strcmp(series->cells[i]->value, value) == 0) {
            return series->cells[i];
        }
    }
    struct cell *cell = series->used < METRICS_LABELS_MAX ? calloc(1, sizeof *cell) : NULL;
    char *copy = cell == NULL ? NULL : strdup(value);
    if (copy == NULL) {
        free(cell);
        return &series->other;
    }
    cell->value = copy;
    series->cells[series->used++] = cell;
    return cell;
}

enum weir_status metrics_open(struct metrics **ret_metrics, struct weir_error *error)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL) {
        return error_out_of_memory(error);
    }
    (void)pthread_mutex_init(&metrics->lock, NULL);
    for (size_t i = 0; i < sizeof known_values / sizeof known_values[0]; i++) {
        for (size_t k = 0; k < KNOWN_VALUES_MAX && known_values[i].values[k] != NULL; k++) {
            (void)cell_of(&metrics->series[known_values[i].family], known_values[i].values[k]);
        }
    }
    *ret_metrics = metrics;
    return WEIR_OK;
}

void metrics_close(struct metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        for (size_t k = 0; k < metrics->series[i].used; k++) {
            free(metrics->series[i].cells[k]->value);
            free(metrics->series[i].cells[k]);
        }
    }
    for (size_t i = 0; i < metrics->node_count; i++) {
        free(metrics->nodes[i]);
    }
    (void)pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

static double to_seconds(int64_t duration_us)
{
    return (double)duration_us / (double)MICROSECONDS_PER_SECOND;
}

static double feed_amount(const struct feed *feed, const struct event *event)
{
    switch (feed->amount) {
    case AMOUNT_ONE:
        return 1;
    case AMOUNT_COUNT:
        return event->count > 1 ? (double)event->count : 1;
    case AMOUNT_AT_CAPACITY:
        return event->slot_wait_us > 0 ? 1 : 0;
    case AMOUNT_RETRIES:
        return event->start_number > 1 ? (double)event->start_number - 1 : 0;
    case AMOUNT_DURATION:
        return to_seconds(event->duration_us);
    case AMOUNT_SLOT_WAIT:
        return to_seconds(event->slot_wait_us);
    case AMOUNT_PAUSE_WAIT:
        return to_seconds(event->pause_wait_us);
    case AMOUNT_OTHER_WAIT:
        return to_seconds(event->duration_us - event->slot_wait_us - event->pause_wait_us);
    case AMOUNT_LATENCY:
        return to_seconds(event->latency_us);
    }
    return 0;
}

static struct cell *feed_cell(struct metrics *metrics, const struct feed *feed, const struct event *event)
{
    struct series *series = &metrics->series[feed->family];
    const char *value = feed->source == LABEL_CODE     ? event->code
                        : feed->source == LABEL_REASON ? event->reason
                                                       : feed->constant;
    if (families[feed->family].label == NULL) {
        return &series->other;
    }
    return cell_of(series, value == NULL || value[0] == '\0' ? "none" : value);
}

/* Adds to a counter, or to the first bucket that holds the amount. */
static void add_amount(struct cell *cell, const struct buckets *buckets, double amount)
{
    cell->count++;
    cell->sum += amount;
    for (size_t i = 0; buckets != NULL && i < buckets->count; i++) {
        if (amount <= buckets->bounds[i]) {
            cell->buckets[i]++;
            return;
        }
    }
}

/* --- the engines of the nodes --- */

static size_t find_node(const struct metrics *metrics, const char *name)
{
    size_t i = 0;
    while (i < metrics->node_count && strcmp(metrics->nodes[i], name) != 0) {
        i++;
    }
    return i;
}

static void set_engine_up(struct metrics *metrics, const char *name, bool is_up)
{
    size_t i = find_node(metrics, name);
    if (i == metrics->node_count) {
        char *copy = i < METRICS_LABELS_MAX ? strdup(name) : NULL;
        if (copy == NULL) {
            return;
        }
        metrics->nodes[metrics->node_count++] = copy;
    }
    metrics->engine_is_up[i] = is_up;
}

static void forget_node(struct metrics *metrics, const char *name)
{
    size_t i = find_node(metrics, name);
    if (i < metrics->node_count) {
        free(metrics->nodes[i]);
        metrics->node_count--;
        metrics->nodes[i] = metrics->nodes[metrics->node_count];
        metrics->engine_is_up[i] = metrics->engine_is_up[metrics->node_count];
    }
}

static void follow_engine(struct metrics *metrics, const struct event *event)
{
    if (event->node == NULL) {
        return;
    }
    /* A node that starts again after a lost lease may have an engine that is down still. */
    bool is_new = event->type == EVENT_NODE_STARTED && find_node(metrics, event->node) == metrics->node_count;
    if (event->type == EVENT_ENGINE_DOWN || event->type == EVENT_ENGINE_UP || is_new) {
        set_engine_up(metrics, event->node, event->type != EVENT_ENGINE_DOWN);
    } else if (event->type == EVENT_NODE_STOPPED) {
        forget_node(metrics, event->node);
    }
}

void metrics_event(void *context, const struct event *event)
{
    INVARIANT(context != NULL && event != NULL);
    struct metrics *metrics = context;
    (void)pthread_mutex_lock(&metrics->lock);
    for (size_t i = 0; i < FEED_COUNT; i++) {
        const struct feed *feed = &feeds[i];
        if (feed->event == event->type &&
            (feed->only == NULL || (event->reason != NULL && strcmp(feed->only, event->reason) == 0))) {
            add_amount(feed_cell(metrics, feed, event), families[feed->family].buckets, feed_amount(feed, event));
        }
    }
    follow_engine(metrics, event);
    (void)pthread_mutex_unlock(&metrics->lock);
}

/* --- rendering --- */

/* Buckets are cumulated here, as the format demands. */
static void render_histogram(struct metrics_text *to, const char *name, const struct buckets *buckets,
                             const struct metrics_label *label, const struct cell *cell)
{
    char series[128];
    char bound[32];
    uint64_t below = 0;
    struct metrics_label labels[2] = {{"le", bound}, *label};
    size_t label_count = label->name == NULL ? 1 : 2;
    (void)snprintf(series, sizeof series, "%s_bucket", name);
    for (size_t i = 0; i < buckets->count; i++) {
        below += cell->buckets[i];
        (void)snprintf(bound, sizeof bound, "%g", buckets->bounds[i]);
        metrics_text_labelled(to, series, labels, label_count, (double)below);
    }
    text_copy(bound, sizeof bound, "+Inf");
    metrics_text_labelled(to, series, labels, label_count, (double)cell->count);
    (void)snprintf(series, sizeof series, "%s_sum", name);
    metrics_text_labelled(to, series, label, label_count - 1, cell->sum);
    (void)snprintf(series, sizeof series, "%s_count", name);
    metrics_text_labelled(to, series, label, label_count - 1, (double)cell->count);
}

static void render_cell(struct metrics_text *to, const struct family *family, const char *name, const char *label,
                        const struct cell *cell)
{
    struct metrics_label own = {label, cell->value == NULL ? "_other" : cell->value};
    if (family->buckets != NULL) {
        render_histogram(to, name, family->buckets, &own, cell);
    } else {
        metrics_text_labelled(to, name, &own, label == NULL ? 0 : 1, cell->sum);
    }
}

/* Two aliases do not end with _total, as the counters of Prometheus do: these are untyped. */
static const char *type_of(const struct family *family, const char *name)
{
    static const char total[] = "_total";
    size_t length = strlen(name);
    bool is_total = length > strlen(total) && strcmp(name + length - strlen(total), total) == 0;
    return family->buckets != NULL ? "histogram" : is_total ? "counter" : "untyped";
}

static void render_family(struct metrics_text *to, const struct family *family, const struct series *series,
                          const char *name, const char *label)
{
    metrics_text_head(to, name, type_of(family, name), family->help);
    for (size_t i = 0; i < series->used; i++) {
        render_cell(to, family, name, label, series->cells[i]);
    }
    if (label == NULL || series->other.count > 0) {
        render_cell(to, family, name, label, &series->other);
    }
}

static void render_all(const struct metrics *metrics, struct metrics_text *to)
{
    metrics_text_head(to, "weir_build_info", "gauge", "The version of this process; always 1.");
    metrics_text_sample(to, "weir_build_info", "version", WEIR_VERSION, 1);
    metrics_text_head(to, "weir_engine_up", "gauge", "Whether a node of this process reaches its engine.");
    for (size_t i = 0; i < metrics->node_count; i++) {
        metrics_text_sample(to, "weir_engine_up", "node", metrics->nodes[i], metrics->engine_is_up[i]);
    }
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        render_family(to, &families[i], &metrics->series[i], families[i].name, families[i].label);
        if (families[i].alias != NULL) {
            const char *label = families[i].alias_label == NULL ? families[i].label : families[i].alias_label;
            render_family(to, &families[i], &metrics->series[i], families[i].alias, label);
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
