/* The record loop: reports of the engine -> store, in sets.
 *
 * Natural batching: whatever was reported while the last set was written is the next set. A set that the store did not take
 * is kept and tried again, and so is what it left out because somebody holds it (blocked_reports.c); the engine hears
 * `recorded` only of what is durable. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/node_internal.h"

static const struct retry_policy start_retry = {
    .attempts_max = ATTEMPTS_MAX_DEFAULT, .backoff_us = RETRY_BACKOFF_US, .factor = 2.0, .max_us = RETRY_BACKOFF_MAX_US};

/* A start inside of the node is on record this long after it, unless the execution has ended. Nobody's work depends on that
 * record: what a node has claimed and what it has started is handed over alike. */
#define START_WAITS_US (MICROSECONDS_PER_SECOND / 100)

/* What an engine says of starts outside of the node waits longer: while they come one by one, as fast as the service
 * answers, a transaction for each would take the processor from a service on the same machine. Anything else takes them
 * along. */
#define OUTSIDE_WAITS_US (MICROSECONDS_PER_SECOND / 20)
enum { REPORTS_WAIT_MOST = RECORD_BATCH_MOST / 4 };

/* --- the queue of reports --- */

static bool is_answer(enum report_kind kind)
{
    return kind == REPORT_STARTED || kind == REPORT_REFUSED || kind == REPORT_UNREACHABLE;
}

static bool is_end(enum report_kind kind)
{
    return kind == REPORT_ENDED || kind == REPORT_GIVEN_BACK;
}

void recorder_report(void *context, struct report *report)
{
    struct node *node = context;
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
    report->reported_us = node_now(node);
    report->may_wait = report->may_wait && node->breaker.state == BREAKER_CLOSED; /* else dispatch waits for it */
    if (entry != NULL) {
        report->sends = entry->sends;
        entry->answer_waits = entry->answer_waits || is_answer(report->kind);
        entry->words_waiting += report->kind == REPORT_STEP || is_end(report->kind);
        if (report->kind == REPORT_STARTED && !entry->started) {
            entry->started_boot_us = report->reported_us;
        }
    }
    pthread_mutex_unlock(&node->lock);
    report->next = NULL;
    bool waits = report->kind == REPORT_STARTED && engine_has(node->engine, ENGINE_DIES_WITH_NODE);
    bool patient = report->may_wait;
    report->may_wait = waits || patient;
    pthread_mutex_lock(&node->reports.lock);
    struct report ***last = waits ? &node->reports.last_start : &node->reports.last;
    **last = report;
    *last = &report->next;
    node->reports.urgent += !report->may_wait;
    node->reports.count++;
    /* Who sleeps until the first of several is due need not hear of the others. */
    bool wake = !patient || node->reports.count == 1 || node->reports.count >= REPORTS_WAIT_MOST;
    pthread_mutex_unlock(&node->reports.lock);
    if (wake) {
        loop_wake(node, LOOP_RECORD);
    }
    /* The next start does not wait for the record of this one. */
    if (patient && atomic_load(&node->awaits_room) && engine_free_capacity(node->engine) > 0 &&
        atomic_exchange(&node->awaits_room, false)) {
        loop_wake(node, LOOP_DISPATCH);
    }
}

/* Under the queue's lock: the first of a list, as long as it was reported until then. */
static void take_until(struct node *node, struct report **first, struct report ***last, int64_t until_us)
{
    while (*first != NULL && (*first)->reported_us <= until_us && node->batch_count < RECORD_BATCH_MOST) {
        struct report *report = *first;
        *first = report->next;
        node->reports.count--;
        node->reports.urgent -= !report->may_wait;
        node->batch[node->batch_count++] = report;
    }
    if (*first == NULL) {
        *last = first;
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

/* TIME_NEVER: whatever there is. */
static void take_batch(struct node *node, int64_t now_us)
{
    pthread_mutex_lock(&node->reports.lock);
    take_until(node, &node->reports.first_start, &node->reports.last_start, now_us - START_WAITS_US);
    if (next_set(&node->reports, now_us) <= now_us) {
        take_until(node, &node->reports.first, &node->reports.last, TIME_NEVER);
    }
    atomic_store(&node->recording, node->batch_count + node->held.count > 0);
    pthread_mutex_unlock(&node->reports.lock);
}

/* What is new and what is held take turns. */
static void choose_set(struct node *node, int64_t now_us)
{
    bool held_is_due = now_us >= held_next(node, now_us);
    if (!held_is_due || node->held_had_turn) {
        node->held_had_turn = false;
        take_batch(node, now_us);
        held_keep_order(node, now_us);
    }
    if (node->batch_count == 0 && held_is_due) {
        node->held_had_turn = true;
        held_take(node);
    }
}

/* When there is something to record. */
static int64_t next_record(struct node *node, int64_t now_us)
{
    pthread_mutex_lock(&node->reports.lock);
    const struct report *start = node->reports.first_start;
    int64_t next_us =
        earlier(next_set(&node->reports, now_us), start == NULL ? TIME_NEVER : start->reported_us + START_WAITS_US);
    pthread_mutex_unlock(&node->reports.lock);
    return earlier(next_us, held_next(node, now_us));
}

bool recorder_is_empty(struct node *node)
{
    pthread_mutex_lock(&node->reports.lock);
    bool empty = node->reports.count == 0 && !atomic_load(&node->recording);
    pthread_mutex_unlock(&node->reports.lock);
    return empty;
}

static void drop_batch(struct node *node)
{
    for (size_t i = 0; i < node->batch_count; i++) {
        report_free(node->batch[i]);
    }
    node->batch_count = 0;
    held_drop(node);
    atomic_store(&node->recording, false);
}

void recorder_drop_all(struct node *node)
{
    do {
        drop_batch(node);
        take_batch(node, TIME_NEVER);
    } while (node->batch_count > 0);
}

/* --- from reports to records --- */

/* An execution that ends in this set need not be marked DISPATCHED first: its end says so. */
static void mark_ends(struct node *node)
{
    for (size_t i = 0; i < node->batch_count; i++) {
        if (node->batch[i]->kind == REPORT_ENDED) {
            struct in_flight *entry = in_flight_find(&node->in_flight, node->batch[i]->id, node->batch[i]->fence);
            if (entry != NULL) {
                entry->ends_in_batch = true;
            }
        }
    }
}

static bool plan_started(struct node *node, struct in_flight *entry, struct record *record)
{
    if (entry == NULL) {
        return false;
    }
    in_flight_answered(&node->in_flight, entry);
    entry->started = true;
    record->kind = RECORD_DISPATCHED;
    return !entry->dispatched && !entry->ends_in_batch;
}

/* An unknown outcome keeps its slot; the same ids are sent again when the deadline of this start has passed. */
static void note_unknown(struct node *node, struct in_flight *entry)
{
    if (entry != NULL && !entry->started) {
        entry->answer_waits = false;
        entry->resend_boot_us = time_add(node_now(node), node->settings.start_deadline_us);
    }
}

/* "Refused" is definite about every request that had been sent when it was said. */
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
    policy.attempts_max = entry->attempts_max;
    if (report->permanent || (report->spends_attempt && !retry_allows(&policy, entry->attempts + 1))) {
        record->kind = RECORD_REFUSED;
    } else if (report->spends_attempt) {
        record->kind = RECORD_RETRY;
        record->delay_us = retry_delay(&policy, entry->attempts + 1, &node->random);
    } else {
        struct retry_policy deferral = {.backoff_us = report->delay_us, .factor = 2.0, .max_us = DEFERRAL_MAX_US};
        record->kind = RECORD_DEFERRED;
        record->delay_us = retry_delay(&deferral, entry->deferrals + 1, &node->random);
    }
    return true;
}

bool item_may_run_elsewhere(const struct node *node, const struct claimed_item *item)
{
    return item->interruptions > 0 && !engine_has(node->engine, ENGINE_DIES_WITH_NODE);
}

bool in_flight_may_run(const struct node *node, const struct in_flight *entry, int sends)
{
    return sends > 1 || (entry->item != NULL && item_may_run_elsewhere(node, entry->item));
}

/* "Unreachable" speaks of one request. The item may be put back only when no other request of it can have arrived. */
static bool plan_unreachable(struct node *node, struct in_flight *entry, const struct report *report, struct record *record)
{
    if (entry == NULL || entry->started) {
        return false;
    }
    if (report->may_run || in_flight_may_run(node, entry, entry->sends)) {
        note_unknown(node, entry);
        return false;
    }
    record->kind = RECORD_PUT_BACK;
    return true;
}

static bool plan_record(struct node *node, const struct report *report, struct record *record)
{
    struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
    memset(record, 0, sizeof *record);
    memcpy(record->id, report->id, sizeof record->id);
    record->fence = report->fence;
    record->taken_over = entry == NULL || entry->taken_over;
    record->error_code = report->error_code[0] == '\0' ? NULL : report->error_code;
    record->error = report->error;
    record->step = report->has_step ? &report->step : NULL;
    switch (report->kind) {
    case REPORT_STARTED:
        return plan_started(node, entry, record);
    case REPORT_REFUSED:
        return plan_refused(node, entry, report, record);
    case REPORT_UNREACHABLE:
        return plan_unreachable(node, entry, report, record);
    case REPORT_UNKNOWN:
    case REPORT_ABSENT:
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
    case REPORT_ENGINE_DOWN:
    case REPORT_ENGINE_UP:
        return false; /* the breaker hears of them */
    case REPORT_ENGINE_IMPAIRED:
    case REPORT_ENGINE_SOUND:
        return false; /* the heartbeat does */
    case REPORT_INTERRUPTED:
    case REPORT_SHORTAGE:
        return false; /* the log does */
    }
    return false;
}

static size_t plan_batch(struct node *node)
{
    size_t count = 0;
    pthread_mutex_lock(&node->lock);
    mark_ends(node);
    for (size_t i = 0; i < node->batch_count; i++) {
        bool wanted = plan_record(node, node->batch[i], &node->records[count]);
        count += wanted;
        node->record_of[i] = wanted ? count : 0;
    }
    pthread_mutex_unlock(&node->lock);
    return count;
}

/* --- after it is durable --- */

/* Under the node's lock. What a service says may be anything, and a store takes text only. */
static void note_engine_error(struct node *node, const struct report *report)
{
    const char *error = report->error == NULL ? report->error_code : report->error;
    if (node->breaker.state == BREAKER_CLOSED) {
        node->engine_error[0] = '\0';
    } else if (report->kind == REPORT_UNREACHABLE || report->kind == REPORT_ENGINE_DOWN) {
        text_copy(node->engine_error, sizeof node->engine_error, error);
        text_make_safe(node->engine_error);
    }
}

static void tell_breaker(struct node *node, const struct report *report)
{
    struct event event = {.node = node->name, .error = report->error, .code = report->error_code};
    bool tell = false;
    pthread_mutex_lock(&node->lock);
    int64_t now_us = node_now(node);
    if (report->kind == REPORT_UNREACHABLE) {
        event.type = EVENT_ENGINE_DOWN;
        tell = breaker_unreachable(&node->breaker, now_us, &node->random);
    } else if (report->kind == REPORT_ENGINE_DOWN) {
        event.type = EVENT_ENGINE_DOWN;
        tell = breaker_open(&node->breaker, now_us);
    } else if (report->kind == REPORT_STARTED || report->kind == REPORT_REFUSED || report->kind == REPORT_ENGINE_UP) {
        event.type = EVENT_ENGINE_UP;
        event.duration_us = now_us - node->breaker.opened_at_us;
        tell = breaker_reached(&node->breaker);
    }
    note_engine_error(node, report);
    pthread_mutex_unlock(&node->lock);
    if (tell) {
        event_emit(node->events, &event);
    }
    if (tell || report->kind == REPORT_ENGINE_UP) { /* it may know its target now */
        atomic_store(&node->next_beat_us, 0);       /* the others shall know: why says engine_unreachable */
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

/* Dispatch goes on; the heartbeat brings it to the store. */
static void tell_impaired(struct node *node, const struct report *report)
{
    bool is_impaired = report->kind == REPORT_ENGINE_IMPAIRED;
    const char *error = report->error == NULL ? report->error_code : report->error;
    struct event event = {.type = is_impaired ? EVENT_ENGINE_IMPAIRED : EVENT_ENGINE_SOUND,
                          .node = node->name,
                          .code = report->error_code,
                          .error = report->error};
    pthread_mutex_lock(&node->lock);
    bool was_impaired = node->engine_impairment[0] != '\0';
    text_copy(node->engine_impairment, sizeof node->engine_impairment, is_impaired ? error : "");
    text_make_safe(node->engine_impairment);
    pthread_mutex_unlock(&node->lock);
    if (was_impaired != is_impaired) {
        event_emit(node->events, &event);
        atomic_store(&node->next_beat_us, 0);
        loop_wake(node, LOOP_HEARTBEAT);
    }
}

/* The others shall know the new keeper before they judge by its process id whether this node is gone. */
static void tell_interrupted(struct node *node, const struct report *report)
{
    struct event event = {.type = EVENT_STEPS_INTERRUPTED,
                          .node = node->name,
                          .count = report->count,
                          .code = report->error_code,
                          .error = report->error};
    event_emit(node->events, &event);
    atomic_store(&node->next_beat_us, 0);
    loop_wake(node, LOOP_HEARTBEAT);
}

static void tell_shortage(struct node *node, const struct report *report)
{
    struct event event = {
        .type = EVENT_STEPS_DEFERRED, .node = node->name, .code = report->error_code, .error = report->error};
    event_emit(node->events, &event);
}

static enum event_type event_of(enum record_kind kind)
{
    switch (kind) {
    case RECORD_DISPATCHED:
        return EVENT_EXECUTION_DISPATCHED;
    case RECORD_RETRY:
        return EVENT_EXECUTION_RETRYING;
    case RECORD_REFUSED:
        return EVENT_DISPATCH_FAILED;
    case RECORD_COMPLETED:
        return EVENT_EXECUTION_COMPLETED;
    case RECORD_FAILED:
        return EVENT_EXECUTION_FAILED;
    case RECORD_CANCELLED:
        return EVENT_EXECUTION_CANCELLED;
    default:
        return EVENT_EXECUTION_DEFERRED;
    }
}

/* What the events of a record need of the table, copied, so that no subscriber runs under the node's lock. */
struct told {
    bool known;
    bool dispatched;
    char workspace[WORKSPACE_NAME_MAX + 1];
    char workflow[WORKFLOW_NAME_MAX + 1];
    int attempt;
    int64_t waited_us;
    int64_t began_us;
};

static void copy_told(const struct in_flight *entry, struct told *told)
{
    told->known = entry != NULL;
    if (entry != NULL) {
        text_copy(told->workspace, sizeof told->workspace, entry->workspace);
        text_copy(told->workflow, sizeof told->workflow, entry->workflow);
        told->dispatched = entry->dispatched;
        told->attempt = entry->attempts + 1;
        told->waited_us = entry->waited_us;
        told->began_us = entry->started_boot_us != 0 ? entry->started_boot_us : entry->claimed_boot_us;
    }
}

/* An end that overtook its start tells of both. */
static void emit_record(struct node *node, const struct record *record, const struct told *told, int64_t now_us)
{
    struct event event = {.execution_id = record->id,
                          .fence = record->fence,
                          .code = record->error_code,
                          .error = record->error,
                          .node = node->name};
    if (record->kind == RECORD_STEP || record->kind == RECORD_GIVEN_BACK) {
        return;
    }
    if (told->known) {
        event.workspace = told->workspace;
        event.workflow = told->workflow;
        event.attempt = told->attempt;
    }
    bool ends = record->kind == RECORD_COMPLETED || record->kind == RECORD_FAILED || record->kind == RECORD_CANCELLED;
    if (told->known && (record->kind == RECORD_DISPATCHED || (ends && !told->dispatched))) {
        event.type = EVENT_EXECUTION_DISPATCHED;
        event.duration_us = told->waited_us;
        event_emit(node->events, &event);
    }
    if (record->kind != RECORD_DISPATCHED) {
        event.type = event_of(record->kind);
        event.duration_us = ends && told->known ? now_us - told->began_us : 0;
        event_emit(node->events, &event);
    }
}

static bool is_lost(enum weir_status status)
{
    return status == WEIR_STALE_FENCE || status == WEIR_EXECUTION_NOT_FOUND || status == WEIR_ILLEGAL_STATE;
}

/* True when the report wants an answer by `recorded`. */
static bool settle(struct node *node, const struct report *report, const struct record *record, struct recorded *answer,
                   size_t *stale)
{
    struct told told = {.known = false};
    int64_t now_us = node_now(node);
    bool lost = record != NULL && is_lost(record->status);
    tell_breaker(node, report);
    if (report->kind == REPORT_INTERRUPTED) {
        tell_interrupted(node, report);
    } else if (report->kind == REPORT_ENGINE_IMPAIRED || report->kind == REPORT_ENGINE_SOUND) {
        tell_impaired(node, report);
    } else if (report->kind == REPORT_SHORTAGE) {
        tell_shortage(node, report);
    }
    if (record == NULL) {
        return false;
    }
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
    copy_told(entry, &told);
    if (entry != NULL && record->kind == RECORD_DISPATCHED && record->status == WEIR_OK) {
        entry->dispatched = true;
    }
    if (entry != NULL) {
        entry->words_waiting -= report->kind == REPORT_STEP || is_end(report->kind);
    }
    bool stays = (record->kind == RECORD_DISPATCHED || record->kind == RECORD_STEP) && !lost;
    if (!stays) {
        in_flight_remove(&node->in_flight, report->id, report->fence);
    }
    pthread_mutex_unlock(&node->lock);
    *stale += lost;
    if (!stays && told.known) {
        slot_demand_freed(&node->slot_demand, told.workspace, now_us);
    }
    if (record->status == WEIR_OK) {
        emit_record(node, record, &told, now_us);
    }
    if (report->kind == REPORT_STARTED && lost) {
        engine_abandon(node->engine, report->id, report->fence);
    }
    if (report->kind != REPORT_STEP && !is_end(report->kind)) {
        return false;
    }
    memcpy(answer->id, report->id, sizeof answer->id);
    answer->fence = report->fence;
    answer->kind = report->kind;
    answer->step_index = report->step_index;
    answer->status = record->status == WEIR_ILLEGAL_STATE ? WEIR_STALE_FENCE : record->status;
    return true;
}

/* Returns how many were left out. */
static size_t settle_batch(struct node *node, int64_t now_us)
{
    size_t answers = 0;
    size_t stale = 0;
    size_t left_out = 0;
    for (size_t i = 0; i < node->batch_count; i++) {
        const struct record *record = node->record_of[i] == 0 ? NULL : &node->records[node->record_of[i] - 1];
        if (record != NULL && record->status == WEIR_STORE_BUSY) {
            held_leave_out(node, node->batch[i], now_us);
            left_out++;
            continue;
        }
        held_settled(node, node->batch[i]);
        answers += settle(node, node->batch[i], record, &node->answers[answers], &stale);
        report_free(node->batch[i]);
    }
    FAILPOINT("after_record");
    engine_recorded(node->engine, node->answers, answers);
    node->batch_count = 0;
    held_set_is_over(node, now_us);
    atomic_store(&node->recording, node->held.count > 0);
    if (stale > 0) {
        struct event event = {.type = EVENT_STALE_WRITE_REFUSED, .count = (int64_t)stale, .node = node->name};
        event_emit(node->events, &event);
    }
    return left_out;
}

/* For a node that stops: since when the store takes none of what there is. */
static void note_records_fail(struct node *node, bool fail, int64_t now_us)
{
    int64_t none = 0;
    if (fail) {
        (void)atomic_compare_exchange_strong(&node->records_fail_since_us, &none, now_us);
    } else {
        atomic_store(&node->records_fail_since_us, 0);
    }
}

/* --- the loop --- */

int64_t recorder_step(struct node *node)
{
    struct weir_error error = {.status = WEIR_OK};
    struct record_summary summary = {0};
    int64_t now_us = node_now(node);
    int64_t next_us;
    if (atomic_load(&node->stopped)) {
        return TIME_NEVER; /* what is left is others' */
    }
    if (loop_is_backing_off(node, LOOP_RECORD, now_us, &next_us) || atomic_load(&node->lease_lost)) {
        return atomic_load(&node->lease_lost) ? TIME_NEVER : next_us;
    }
    if (node->batch_count == 0) {
        choose_set(node, now_us);
    }
    if (node->batch_count == 0) {
        held_set_is_over(node, now_us); /* all of it stood behind others */
        return next_record(node, now_us);
    }
    size_t count = plan_batch(node);
    if (count > 0) {
        FAILPOINT("before_record"); /* the words are chosen: if the lease is lost now, the store must refuse them */
    }
    enum weir_status status = count == 0 ? WEIR_OK
                                         : store_record(node->stores[LOOP_RECORD], atomic_load(&node->id), node->records,
                                                        count, &summary, &error);
    if (status != WEIR_OK) {
        note_records_fail(node, true, now_us);
        return loop_failed(node, LOOP_RECORD, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_RECORD);
    size_t taken = node->batch_count;
    size_t left_out = settle_batch(node, now_us);
    note_records_fail(node, left_out == taken, now_us);
    /* A freed slot starts the next item at once where this node schedules; a freed place in the engine, where it awaits
     * one. */
    bool wanted = atomic_load(&node->schedules) || atomic_load(&node->stop_kind) != 0;
    if (left_out < taken && (atomic_exchange(&node->awaits_room, false) || wanted)) {
        loop_wake(node, LOOP_DISPATCH);
    }
    return next_record(node, now_us);
}
