/* The record loop: reports of the engine become records in the store, in sets.
 *
 * Batching is natural: all reports that arrive while the store writes one set form the next set. A set:
 *
 *   1. Choose. New reports and blocked ones take turns. A start inside the node waits START_WAITS_US, because an
 *      execution that ends meanwhile needs no record of its start. Reports of starts outside the node wait
 *      OUTSIDE_WAITS_US for more of their kind, and any other report takes them along. The end of a sleep waits
 *      STEP_WAITS_US, and the next report of its execution takes it along. A report of an execution with blocked reports
 * goes behind these.
 *   2. Plan. Each report becomes at most one record. The table of items in flight decides. A late answer to a start
 *      that another answer has settled makes no record. "refused" makes a retry, a put-back or an end. An unknown
 *      answer makes no record, and the starter sends the start again.
 *   3. Write. One call of the store records the set; each record is conditional on its fence and has an outcome of its
 *      own. If the call fails, the same set is planned and written again after a pause. A repeated record changes
 *      nothing.
 *   4. Settle each report. A record of a lost claim is dropped, with its item in flight. A record that the store left
 *      out, because another transaction has locked its row, goes to blocked_reports.c. So does one whose rows the store
 *      refuses: dropped, it would keep its slot until the node stops. All others update the table, and emit events now: an
 *      event never reports a change that is not durable.
 *   5. Answer the engine. It learns `recorded` only of durable steps and ends, and releases an execution only then.
 *   6. Pass the lanes of the ends to the scheduler of this node (queue/early_ends.h). Wake the dispatcher, if a slot or
 *      capacity became free and it waits for that.
 *
 * The loop never drops a report of a claim that this node holds. The record thread runs it; recorder_report() runs in the
 * threads of the engine and in the dispatch loop.
 */
#include "dispatch/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/traceparent.h"
#include "dispatch/blocked_reports.h"
#include "dispatch/capacity.h"
#include "dispatch/child_duty.h"
#include "dispatch/engine_health.h"
#include "dispatch/loop.h"
#include "dispatch/node_internal.h"
#include "dispatch/node_logs.h"
#include "dispatch/record_events.h"
#include "dispatch/wake_up.h"
#include "queue/signal.h"

static const struct retry_policy start_retry = {
    .attempts_max = STARTS_MAX_DEFAULT, .backoff_us = RETRY_BACKOFF_US, .factor = 2.0, .max_us = RETRY_BACKOFF_MAX_US};

/* A start inside the node is recorded this long after it, unless the execution has ended. No other part depends on that
 * record: CLAIMED and DISPATCHED items are handed over alike. */
#define START_WAITS_US (MICROSECONDS_PER_SECOND / 100)

/* Answers to starts outside the node come one by one, as fast as the service answers. A transaction for each would take the
 * processor from a service on the same machine. */
#define OUTSIDE_WAITS_US (MICROSECONDS_PER_SECOND / 20)

/* The end of a sleep is recorded this long after it, unless a later report of its execution takes it along. The next step
 * has begun. With the end of its execution in the same set, PostgreSQL does not write its row again. */
#define STEP_WAITS_US START_WAITS_US
enum { REPORTS_WAIT_MOST = RECORD_BATCH_MOST / 4 };

/* --- opening and closing --- */

enum weir_status recorder_open(struct node *node, struct weir_error *error)
{
    INVARIANT(node != NULL);
    struct recorder *recorder = &node->recorder;
    recorder->batch = calloc(RECORD_BATCH_MOST, sizeof *recorder->batch);
    recorder->records = calloc(RECORD_BATCH_MOST, sizeof *recorder->records);
    recorder->record_of = calloc(RECORD_BATCH_MOST, sizeof *recorder->record_of);
    recorder->answers = calloc(RECORD_BATCH_MOST, sizeof *recorder->answers);
    return recorder->batch == NULL || recorder->records == NULL || recorder->record_of == NULL || recorder->answers == NULL
               ? error_out_of_memory(error)
               : WEIR_OK;
}

/* --- the queue of reports --- */

static bool report_answers_start(enum report_kind kind)
{
    return kind == REPORT_STARTED || kind == REPORT_REFUSED || kind == REPORT_UNREACHABLE;
}

/* The engine awaits an answer by engine_recorded(). */
static bool report_awaits_record(enum report_kind kind)
{
    return kind == REPORT_STEP || report_is_last(kind);
}

/* Steps that sleep or wait for a signal are expected to take their time. So the stuck watch counts from the end of the
 * last sleep of all steps, and begins as soon as one of them does something. A step that waits for its next attempt
 * counts as such, because a step that fails for ever is stuck. */
static void note_sleep(struct in_flight *entry, const struct report *report)
{
    if (report->kind != REPORT_STEP && report->kind != REPORT_STARTED) {
        return;
    }
    if (report->sleeps_us > 0) {
        entry->slept_until_boot_us = time_add(report->reported_us, report->sleeps_us);
    } else {
        entry->slept_until_boot_us = earlier(entry->slept_until_boot_us, report->reported_us);
    }
}

/* The end of a sleep waits for the next report of its execution, unless an earlier one is not on record. So the reports of
 * an execution keep their order. Each later report makes the held one due. Under the lock of the shared state, so that the
 * held report lives: plan_record() removes it here before it is freed. */
static void hold_step(struct in_flight *entry, struct report *report)
{
    if (report->kind == REPORT_STEP && report->may_wait && entry->unrecorded_reports == 0) {
        entry->held_step = report;
    } else if (report_awaits_record(report->kind)) {
        report->may_wait = false;
        if (entry->held_step != NULL) {
            atomic_store(&entry->held_step->is_wanted, true);
        }
        entry->held_step = NULL;
    }
}

/* Stamps the report, and marks its item in flight, so that the starter sends nothing while an answer waits. */
static void note_arrival(struct node *node, struct report *report)
{
    pthread_mutex_lock(&node->shared.lock);
    struct in_flight *entry = in_flight_find(&node->shared.in_flight, report->id, report->fence);
    report->reported_us = node_now(node);
    /* While the breaker is not closed, dispatch waits for the answer. */
    report->may_wait = report->may_wait && node->engine_health.breaker.state == BREAKER_CLOSED;
    if (entry == NULL) {
        report->may_wait = report->may_wait && report->kind != REPORT_STEP;
    } else {
        hold_step(entry, report);
        report->sends = entry->sends;
        entry->answer_waits = entry->answer_waits || report_answers_start(report->kind);
        entry->unrecorded_reports += report_awaits_record(report->kind);
        if (report->kind == REPORT_STARTED && !entry->started) {
            entry->started_boot_us = report->reported_us;
        }
        note_sleep(entry, report);
    }
    pthread_mutex_unlock(&node->shared.lock);
}

void recorder_report(void *context, struct report *report)
{
    INVARIANT(context != NULL && report != NULL);
    struct node *node = context;
    struct report_queue *queue = &node->recorder.reports;
    note_arrival(node, report);
    report->next = NULL;
    bool waits = report->kind == REPORT_STARTED && engine_has(node->engine, ENGINE_DIES_WITH_NODE);
    bool patient = report->may_wait;
    report->may_wait = waits || patient;
    pthread_mutex_lock(&queue->lock);
    bool is_held = report->kind == REPORT_STEP && patient;
    struct report ***last = waits ? &queue->last_start : is_held ? &queue->last_step : &queue->last;
    **last = report;
    *last = &report->next;
    queue->urgent += !report->may_wait;
    queue->count++;
    /* A loop that sleeps until the first of several patient reports is due needs no wake for the next ones. */
    bool wake =
        !patient || (is_held ? queue->first_step == report : queue->count >= REPORTS_WAIT_MOST) || queue->count == 1;
    pthread_mutex_unlock(&queue->lock);
    if (wake) {
        loop_wake(node, LOOP_RECORD);
    }
    /* The next start does not wait for the record of this one. */
    if (patient && atomic_load(&node->shared.awaits_capacity) && engine_free_capacity(node->engine) > 0 &&
        capacity_take_awaited(node)) {
        loop_wake(node, LOOP_DISPATCH);
    }
}

/* Under the queue's lock. Moves reports of a list that were reported until then into the set. */
static void take_until(struct recorder *recorder, struct report **first, struct report ***last, int64_t until_us)
{
    while (*first != NULL && (*first)->reported_us <= until_us && recorder->batch_count < RECORD_BATCH_MOST) {
        struct report *report = *first;
        INVARIANT(recorder->reports.count > 0);
        *first = report->next;
        recorder->reports.count--;
        recorder->reports.urgent -= !report->may_wait;
        recorder->batch[recorder->batch_count++] = report;
    }
    if (*first == NULL) {
        *last = first;
    }
}

/* Under the queue's lock. The same for the ends of sleeps. Those that a later report wants go with it, and before it. */
static void take_steps_until(struct recorder *recorder, int64_t until_us)
{
    struct report_queue *queue = &recorder->reports;
    struct report **link = &queue->first_step;
    while (*link != NULL && recorder->batch_count < RECORD_BATCH_MOST) {
        struct report *report = *link;
        if (atomic_load(&report->is_wanted) || report->reported_us <= until_us) {
            INVARIANT(queue->count > 0);
            *link = report->next;
            queue->count--;
            recorder->batch[recorder->batch_count++] = report;
        } else {
            link = &report->next;
        }
    }
    if (*link == NULL) {
        queue->last_step = link;
    }
}

/* Under the queue's lock: when the reports of the main list are to be recorded, all of them. */
static int64_t next_set(const struct report_queue *reports, int64_t now_us)
{
    if (reports->first == NULL) {
        return TIME_NEVER;
    }
    bool goes_on = reports->urgent > 0 || reports->count >= REPORTS_WAIT_MOST;
    return goes_on ? now_us : reports->first->reported_us + OUTSIDE_WAITS_US;
}

/* Fills the set with the new reports that are due; TIME_NEVER = with all. */
static void take_new(struct recorder *recorder, int64_t now_us)
{
    struct report_queue *queue = &recorder->reports;
    pthread_mutex_lock(&queue->lock);
    take_until(recorder, &queue->first_start, &queue->last_start, now_us - START_WAITS_US);
    take_steps_until(recorder, now_us - STEP_WAITS_US);
    if (next_set(queue, now_us) <= now_us) {
        take_until(recorder, &queue->first, &queue->last, TIME_NEVER);
    }
    atomic_store(&recorder->is_recording, recorder->batch_count + recorder->blocked.count > 0);
    pthread_mutex_unlock(&queue->lock);
}

/* Step 1. */
static void choose_set(struct node *node, int64_t now_us)
{
    struct recorder *recorder = &node->recorder;
    bool blocked_is_due = now_us >= blocked_next_us(node, now_us);
    if (!blocked_is_due || recorder->blocked_had_turn) {
        recorder->blocked_had_turn = false;
        take_new(recorder, now_us);
        blocked_keep_order(node, now_us);
    }
    if (recorder->batch_count == 0 && blocked_is_due) {
        recorder->blocked_had_turn = true;
        blocked_take_set(node, now_us);
    }
}

/* When there is something to record. */
static int64_t next_record(struct node *node, int64_t now_us)
{
    struct report_queue *queue = &node->recorder.reports;
    pthread_mutex_lock(&queue->lock);
    const struct report *start = queue->first_start;
    const struct report *step = queue->first_step;
    int64_t next_us = earlier(next_set(queue, now_us), start == NULL ? TIME_NEVER : start->reported_us + START_WAITS_US);
    next_us = earlier(next_us, step == NULL ? TIME_NEVER : step->reported_us + STEP_WAITS_US);
    pthread_mutex_unlock(&queue->lock);
    return earlier(next_us, blocked_next_us(node, now_us));
}

bool recorder_is_empty(struct node *node)
{
    INVARIANT(node != NULL);
    pthread_mutex_lock(&node->recorder.reports.lock);
    bool empty = node->recorder.reports.count == 0 && !atomic_load(&node->recorder.is_recording);
    pthread_mutex_unlock(&node->recorder.reports.lock);
    return empty;
}

size_t recorder_waiting_count(struct node *node)
{
    INVARIANT(node != NULL);
    pthread_mutex_lock(&node->recorder.reports.lock);
    size_t count = node->recorder.reports.count;
    pthread_mutex_unlock(&node->recorder.reports.lock);
    return count;
}

static void drop_set(struct node *node)
{
    struct recorder *recorder = &node->recorder;
    for (size_t i = 0; i < recorder->batch_count; i++) {
        report_free(recorder->batch[i]);
    }
    recorder->batch_count = 0;
    blocked_drop(node);
    atomic_store(&recorder->is_recording, false);
}

void recorder_close(struct node *node)
{
    INVARIANT(node != NULL);
    struct recorder *recorder = &node->recorder;
    while (recorder->batch != NULL && (recorder->batch_count > 0 || !recorder_is_empty(node))) {
        drop_set(node);
        take_new(recorder, TIME_NEVER);
    }
    free(recorder->batch);
    free(recorder->records);
    free(recorder->record_of);
    free(recorder->answers);
}

/* --- step 2: from reports to records --- */

/* The end and the park of an execution imply its start: one that ends or parks in this set gets no record of its start. */
static void mark_ends(struct node *node)
{
    for (size_t i = 0; i < node->recorder.batch_count; i++) {
        const struct report *report = node->recorder.batch[i];
        if (report->kind == REPORT_ENDED || report->kind == REPORT_PARKED) {
            struct in_flight *entry = in_flight_find(&node->shared.in_flight, report->id, report->fence);
            if (entry != NULL) {
                entry->ends_in_batch = true;
            }
        }
    }
}

/* The planners return false when the report makes no record. */
static bool plan_started(struct node *node, struct in_flight *entry, struct record *record)
{
    if (entry == NULL) {
        return false;
    }
    in_flight_answered(&node->shared.in_flight, entry);
    entry->started = true;
    record->kind = RECORD_DISPATCHED;
    return !entry->dispatched && !entry->ends_in_batch;
}

/* An unknown outcome keeps its slot; the same ids are sent again when the deadline of this start has passed. */
static void note_unknown(struct node *node, struct in_flight *entry)
{
    if (entry != NULL && !entry->started) {
        entry->answer_waits = false;
        entry->resend_boot_us = time_add(node_now(node), START_DEADLINE_US);
    }
}

/* "Refused" is definite about each request that had been sent when the engine reported it. */
static bool plan_refused(struct node *node, struct in_flight *entry, const struct report *report, struct record *record)
{
    if (entry == NULL || entry->started) {
        return false; /* a late answer to a start that another answer has settled */
    }
    if (report->sends < entry->sends) {
        note_unknown(node, entry);
        return false;
    }
    struct retry_policy policy = start_retry;
    policy.attempts_max = entry->starts_max;
    if (report->permanent || (report->spends_start && !retry_allows(&policy, entry->starts_refused + 1))) {
        record->kind = RECORD_REFUSED;
    } else if (report->spends_start) {
        record->kind = RECORD_RETRY;
        record->delay_us = retry_delay(&policy, entry->starts_refused + 1, &node->shared.random);
    } else {
        struct retry_policy deferral = {.backoff_us = report->delay_us, .factor = 2.0, .max_us = DEFERRAL_MAX_US};
        record->kind = RECORD_DEFERRED;
        record->delay_us = retry_delay(&deferral, entry->deferrals + 1, &node->shared.random);
    }
    return true;
}

/* "Unreachable" answers one request. The item may be put back only when no other request of it can have arrived. */
static bool plan_unreachable(struct node *node, struct in_flight *entry, const struct report *report, struct record *record)
{
    if (entry == NULL || entry->started) {
        return false;
    }
    if (report->may_run || in_flight_may_run(entry, node->engine, entry->sends)) {
        note_unknown(node, entry);
        return false;
    }
    record->kind = RECORD_PUT_BACK;
    return true;
}

/* The store takes these durations off its own time, so that no clock of a node comes into the record. */
static void plan_starts(const struct in_flight *entry, const struct report *report, int64_t now_us, struct record *record)
{
    if (entry != NULL && entry->started_boot_us != 0) {
        record->started_ago_us = now_us - entry->started_boot_us;
    }
    if (report->has_step) {
        int64_t ran_us = report->step.ran_us;
        record->step_began_ago_us = ran_us < 0 ? -1 : time_add(ran_us, now_us - report->reported_us);
        bool is_patient = report->kind == REPORT_STEP && report->may_wait;
        record->step_reported_ago_us = is_patient || report->step.state == STEP_WAITING ? now_us - report->reported_us : 0;
    }
}

static void plan_park(const struct in_flight *entry, const struct report *report, int64_t now_us, struct record *record)
{
    int64_t since_us = now_us - report->reported_us;
    int64_t delay_us = report->delay_us == TIME_NEVER ? TIME_NEVER : report->delay_us - since_us;
    record->kind = RECORD_PARKED;
    record->delay_us = delay_us > 0 ? delay_us : 0;
    record->waiting_for = report->waiting_for;
    record->signals_seen = report->signals_seen;
    record->dispatched_first = entry == NULL || !entry->dispatched;
}

static bool plan_record(struct node *node, const struct report *report, int64_t now_us, struct record *record)
{
    struct in_flight *entry = in_flight_find(&node->shared.in_flight, report->id, report->fence);
    if (entry != NULL && entry->held_step == report) {
        entry->held_step = NULL;
    }
    memset(record, 0, sizeof *record);
    memcpy(record->id, report->id, sizeof record->id);
    record->fence = report->fence;
    record->taken_over = entry == NULL || entry->taken_over;
    record->error_code = report->error_code[0] == '\0' ? NULL : report->error_code;
    record->error = report->error;
    record->step = report->has_step ? &report->step : NULL;
    plan_starts(entry, report, now_us, record);
    switch (report->kind) {
    case REPORT_STARTED:
        return plan_started(node, entry, record);
    case REPORT_REFUSED:
        return plan_refused(node, entry, report, record);
    case REPORT_UNREACHABLE:
        return plan_unreachable(node, entry, report, record);
    case REPORT_UNKNOWN:
        note_unknown(node, entry);
        return false;
    case REPORT_STEP:
        record->kind = RECORD_STEP;
        return true;
    case REPORT_ENDED:
        record->kind = report->end_state == END_COMPLETED ? RECORD_COMPLETED
                       : report->end_state == END_FAILED  ? RECORD_FAILED
                                                          : RECORD_CANCELLED;
        record->dispatched_first = entry == NULL || !entry->dispatched;
        return true;
    case REPORT_GIVEN_BACK:
        record->kind = RECORD_GIVEN_BACK;
        return true;
    case REPORT_PARKED:
        plan_park(entry, report, now_us, record);
        return true;
    case REPORT_ENGINE_DOWN:
    case REPORT_ENGINE_UP:
    case REPORT_ENGINE_IMPAIRED:
    case REPORT_ENGINE_SOUND:
        return false; /* for engine_health.c */
    case REPORT_INTERRUPTED:
    case REPORT_SHORTAGE:
        return false; /* for the log */
    }
    return false;
}

/* Returns the number of records. One time for all: the clock for each report would cost more than the plan. */
static size_t plan_batch(struct node *node)
{
    size_t count = 0;
    pthread_mutex_lock(&node->shared.lock);
    int64_t now_us = node_now(node);
    mark_ends(node);
    for (size_t i = 0; i < node->recorder.batch_count; i++) {
        bool wanted = plan_record(node, node->recorder.batch[i], now_us, &node->recorder.records[count]);
        count += wanted;
        node->recorder.record_of[i] = wanted ? count : 0;
    }
    pthread_mutex_unlock(&node->shared.lock);
    return count;
}

/* --- step 4: after the set is durable --- */

/* The heartbeat reports the new keeper, so that other nodes on the machine do not take this node for dead by the process id
 * of the old one. */
static void report_interrupted_steps(struct node *node, const struct report *report)
{
    struct event event = {.type = EVENT_STEPS_INTERRUPTED,
                          .node = node->name,
                          .count = report->count,
                          .code = report->error_code,
                          .error = report->error};
    event_emit(node->events, &event);
    loop_request_heartbeat(node);
}

static void emit_shortage(struct node *node, const struct report *report)
{
    struct event event = {
        .type = EVENT_STEPS_DEFERRED, .node = node->name, .code = report->error_code, .error = report->error};
    event_emit(node->events, &event);
}

/* The store refused the record: this node does not hold the item any more. */
static bool claim_is_lost(enum weir_status status)
{
    return status == WEIR_STALE_FENCE || status == WEIR_EXECUTION_NOT_FOUND || status == WEIR_ILLEGAL_STATE;
}

/* For reports of all kinds, also those that make no record. */
static void pass_to_observers(struct node *node, const struct report *report)
{
    engine_health_note(node, report);
    if (report->kind == REPORT_INTERRUPTED) {
        report_interrupted_steps(node, report);
    } else if (report->kind == REPORT_SHORTAGE) {
        emit_shortage(node, report);
    }
}

/* True when the item stays in flight. */
static bool update_in_flight(struct node *node, const struct report *report, const struct record *record, bool lost,
                             struct reported_facts *facts)
{
    bool stays = (record->kind == RECORD_DISPATCHED || record->kind == RECORD_STEP) && !lost;
    pthread_mutex_lock(&node->shared.lock);
    struct in_flight *entry = in_flight_find(&node->shared.in_flight, report->id, report->fence);
    record_facts_copy(entry, facts);
    if (entry != NULL && record->kind == RECORD_DISPATCHED && record->status == WEIR_OK) {
        entry->dispatched = true;
    }
    if (entry != NULL && record->kind != RECORD_STEP) {
        facts->ends_batch = in_flight_start_recorded(entry, &facts->batch);
    }
    if (entry != NULL) {
        entry->unrecorded_reports -= report_awaits_record(report->kind);
    }
    if (!stays) {
        in_flight_remove(&node->shared.in_flight, report->id, report->fence);
    }
    pthread_mutex_unlock(&node->shared.lock);
    return stays;
}

/* True when the engine awaits an answer, which *answer holds then. */
static bool settle_report(struct node *node, const struct report *report, const struct record *record, int64_t now_us,
                          struct recorded *answer, size_t *stale)
{
    struct reported_facts facts = {.known = false};
    pass_to_observers(node, report);
    if (record == NULL) {
        return false;
    }
    bool lost = claim_is_lost(record->status);
    bool stays = update_in_flight(node, report, record, lost, &facts);
    *stale += lost;
    if (!stays && facts.known) {
        slot_demand_freed(&node->slot_demand, facts.workspace, now_us);
    }
    record_events_emit_batch(node, &facts, now_us);
    if (record->status == WEIR_OK) {
        record_events_emit(node, report, record, &facts, now_us);
    }
    if (report->kind == REPORT_STARTED && lost) {
        engine_abandon(node->engine, report->id, report->fence);
    }
    if (!report_awaits_record(report->kind)) {
        return false;
    }
    memcpy(answer->id, report->id, sizeof answer->id);
    answer->fence = report->fence;
    answer->kind = report->kind;
    answer->step_index = report->step_index;
    answer->status = record->status == WEIR_ILLEGAL_STATE ? WEIR_STALE_FENCE : record->status;
    return true;
}

/* The record of a start is not kept: no other part depends on it, and the end has to follow. */
static bool report_stays(const struct record *record)
{
    return record->status == WEIR_STORE_BUSY || (record->status == WEIR_FAILED && record->kind != RECORD_DISPATCHED);
}

static void keep_report(struct node *node, struct report *report, const struct record *record, const char *refusal,
                        int64_t now_us)
{
    if (record->status == WEIR_FAILED && blocked_refuse(report, now_us)) {
        record_events_emit_refused(node, record, refusal);
        loop_note_refusal(node, now_us, refusal);
    }
    blocked_add(node, report, now_us);
}

/* Steps 4 and 5. now_us: before the call of the store. Returns how many reports the store left out. */
static size_t settle_set(struct node *node, const char *refusal, int64_t now_us)
{
    struct recorder *recorder = &node->recorder;
    int64_t recorded_us = node_now(node);
    size_t answers = 0;
    size_t stale = 0;
    size_t left_out = 0;
    for (size_t i = 0; i < recorder->batch_count; i++) {
        struct report *report = recorder->batch[i];
        const struct record *record = recorder->record_of[i] == 0 ? NULL : &recorder->records[recorder->record_of[i] - 1];
        if (record != NULL && report_stays(record)) {
            keep_report(node, report, record, refusal, now_us);
            left_out++;
            continue;
        }
        blocked_remove(node, report);
        answers += settle_report(node, report, record, recorded_us, &recorder->answers[answers], &stale);
        report_free(report);
    }
    FAILPOINT("after_record");
    engine_recorded(node->engine, recorder->answers, answers);
    recorder->batch_count = 0;
    blocked_end_set(node, now_us);
    atomic_store(&recorder->is_recording, recorder->blocked.count > 0);
    if (stale > 0) {
        struct event event = {.type = EVENT_STALE_WRITE_REFUSED, .count = (int64_t)stale, .node = node->name};
        event_emit(node->events, &event);
    }
    return left_out;
}

/* For a node that stops: since when the store takes no record at all. */
static void note_records_fail(struct recorder *recorder, bool fail, int64_t now_us)
{
    int64_t none = 0;
    if (fail) {
        (void)atomic_compare_exchange_strong(&recorder->failing_since_us, &none, now_us);
    } else {
        atomic_store(&recorder->failing_since_us, 0);
    }
}

int64_t recorder_failing_since_us(struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_load(&node->recorder.failing_since_us);
}

static int64_t ended_generation(struct node *node)
{
    pthread_mutex_lock(&node->shared.lock);
    int64_t generation = node->shared.ended.generation;
    pthread_mutex_unlock(&node->shared.lock);
    return generation;
}

/* Passes the ends to the scheduler of this node, which reads their news a round later. A record without effect is not
 * passed, because the facts of the scheduler may contain the end already. `generation`: as it was before the call of the
 * store. A put-back waits for its news, which shows the place of the item in its lane, too. */
static void pass_ended_lanes(struct node *node, size_t count, const struct record_summary *summary, int64_t generation)
{
    const struct record *records = node->recorder.records;
    struct ended_lanes *ended = &node->shared.ended;
    size_t freeing = 0;
    for (size_t i = 0; i < count; i++) {
        enum record_kind kind = records[i].kind;
        freeing += kind != RECORD_DISPATCHED && kind != RECORD_STEP && kind != RECORD_GIVEN_BACK;
    }
    if (generation == 0 || freeing == 0 || freeing != summary->slots_freed) {
        return;
    }
    pthread_mutex_lock(&node->shared.lock);
    for (size_t i = 0; i < count && generation == ended->generation && ended->count < RECORD_BATCH_MOST; i++) {
        enum record_kind kind = records[i].kind;
        bool is_end = kind == RECORD_COMPLETED || kind == RECORD_FAILED || kind == RECORD_CANCELLED;
        const struct in_flight *entry = NULL;
        if (is_end && records[i].status == WEIR_OK) {
            entry = in_flight_find(&node->shared.in_flight, records[i].id, records[i].fence);
        }
        if (entry != NULL && entry->lane_id != 0) {
            ended->lanes[ended->count++] = entry->lane_id;
        }
    }
    pthread_mutex_unlock(&node->shared.lock);
}

static bool has_park(const struct recorder *recorder, size_t count)
{
    size_t i = 0;
    while (i < count && recorder->records[i].kind != RECORD_PARKED) {
        i++;
    }
    return i < count;
}

static bool has_children_plan(const struct recorder *recorder, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct step_record *step = recorder->records[i].step;
        bool waits = step != NULL && step->state == STEP_WAITING && signal_is_of_children(step->signal);
        if (waits || (step != NULL && step->action != NULL && strstr(step->action, ACTION_PLANS) != NULL)) {
            return true;
        }
    }
    return false;
}

/* Steps 2 to 6 for the present set. Returns when the next step is due. */
static int64_t record_set(struct node *node, int64_t now_us)
{
    struct weir_error error = {.status = WEIR_OK};
    struct record_summary summary = {0};
    struct recorder *recorder = &node->recorder;
    size_t count = plan_batch(node);
    int64_t generation = ended_generation(node);
    INVARIANT(count <= recorder->batch_count && recorder->batch_count <= RECORD_BATCH_MOST);
    if (count > 0) {
        node_logs_write_ended(node, now_us);
        FAILPOINT("before_record"); /* if the lease is lost from here on, the store must refuse the planned records */
    }
    if (has_park(recorder, count)) {
        FAILPOINT("before_park");
    }
    enum weir_status status = count == 0 ? WEIR_OK
                                         : store_record(node->stores[LOOP_RECORD], atomic_load(&node->shared.id),
                                                        recorder->records, count, &summary, &error);
    if (status != WEIR_OK) {
        note_records_fail(recorder, true, now_us);
        return loop_failed(node, LOOP_RECORD, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_RECORD);
    if (has_children_plan(recorder, count)) {
        child_duty_expect(node);
    }
    if (has_park(recorder, count)) {
        FAILPOINT("after_park");
    }
    pass_ended_lanes(node, count, &summary, generation);
    size_t taken = recorder->batch_count;
    size_t left_out = settle_set(node, summary.refusal, now_us);
    note_records_fail(recorder, left_out == taken, now_us);
    if (recorder->blocked.count == 0) {
        loop_end_refusals(node);
    }
    /* A freed slot starts the next item at once if this node schedules; freed capacity does if the dispatcher awaits it. */
    bool wanted = atomic_load(&node->shared.schedules) || atomic_load(&node->shared.stop_kind) != 0;
    if (left_out < taken && (capacity_take_awaited(node) || wanted)) {
        loop_wake(node, LOOP_DISPATCH);
    }
    return next_record(node, now_us);
}

/* --- the loop --- */

int64_t recorder_step(struct node *node)
{
    INVARIANT(node != NULL);
    int64_t now_us = node_now(node);
    int64_t next_us;
    if (atomic_load(&node->shared.stopped)) {
        return TIME_NEVER; /* other nodes hold the rest */
    }
    if (loop_is_backing_off(node, LOOP_RECORD, now_us, &next_us) || atomic_load(&node->shared.lease_lost)) {
        return atomic_load(&node->shared.lease_lost) ? TIME_NEVER : next_us;
    }
    if (node->recorder.batch_count == 0) {
        choose_set(node, now_us);
    }
    if (node->recorder.batch_count == 0) {
        blocked_end_set(node, now_us); /* all of it waits behind reports that are blocked again */
        return next_record(node, now_us);
    }
    return record_set(node, now_us);
}
