/* The events of records: what subscribers learn of a report once it is durable.
 *
 *   1. The facts of the item are copied under the node's lock, because the item may leave the table with this record.
 *   2. Outside the lock the events are emitted: of the start, a wait before it, the run of a step, the end, and the batch
 * that ends with it. A subscriber may take its time, and no other thread of the node waits for it.
 *
 * It never emits a change that is not on record. Runs in the record loop; the refusal of a give-back in the dispatch loop.
 */
#include "dispatch/record_events.h"

#include <string.h>

#include "base/error.h"
#include "dispatch/node_internal.h"

static enum event_type event_of_record(enum record_kind kind)
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

void record_facts_copy(const struct in_flight *entry, struct reported_facts *facts)
{
    INVARIANT(facts != NULL);
    facts->known = entry != NULL;
    if (entry != NULL) {
        text_copy(facts->workspace, sizeof facts->workspace, entry->workspace);
        text_copy(facts->workflow, sizeof facts->workflow, entry->workflow);
        facts->dispatched = entry->dispatched;
        facts->start_number = entry->starts_refused + 1;
        text_copy(facts->traceparent, sizeof facts->traceparent, entry->traceparent == NULL ? "" : entry->traceparent);
        text_copy(facts->ended_step, sizeof facts->ended_step, entry->ended_step == NULL ? "" : entry->ended_step);
        facts->ended_attempt = entry->ended_attempt;
        facts->waited_us = entry->waited_us;
        facts->latency_us = entry->started_boot_us > entry->assigned_boot_us && entry->started_boot_us != 0
                                ? entry->started_boot_us - entry->assigned_boot_us
                                : 0;
        facts->claimed_us = entry->claimed_boot_us;
        facts->began_us = entry->started_boot_us != 0 ? entry->started_boot_us : entry->claimed_boot_us;
        facts->first_began_us = entry->ran_before_us > 0 ? entry->assigned_boot_us - entry->ran_before_us : facts->began_us;
    }
}

/* The end of a run of a step, if the record is one. A step that was skipped did not run. */
static void emit_step(struct node *node, const struct report *report, const struct event *of_record,
                      const struct reported_facts *facts, int64_t now_us)
{
    const struct step_record *step = report->has_step ? &report->step : NULL;
    if (step == NULL || step->state == STEP_SKIPPED ||
        (!step_state_is_final(step->state) && step_record_lost_attempt(step) == NULL)) {
        return;
    }
    struct event event = *of_record;
    event.type = EVENT_STEP_ENDED;
    event.step = step->step;
    event.attempt = step->attempt;
    event.reason = step_state_is_final(step->state) ? step_state_name(step->state) : step_record_lost_attempt(step);
    event.code = step->error_code[0] == '\0' ? NULL : step->error_code;
    event.error = NULL; /* the end of the program's stderr: it is in the store, for those who may read it */
    event.ended_ago_us = now_us - report->reported_us;
    event.began_ago_us = step->ran_us >= 0 ? time_add(step->ran_us, event.ended_ago_us)
                         : facts->known    ? now_us - facts->began_us
                                           : event.ended_ago_us;
    event.duration_us = event.began_ago_us - event.ended_ago_us;
    event_emit(node->events, &event);
}

void record_events_emit_batch(struct node *node, const struct reported_facts *facts, int64_t now_us)
{
    INVARIANT(node != NULL && facts != NULL);
    if (facts->ends_batch) {
        struct event event = {.type = EVENT_BATCH_PROCESSED,
                              .node = node->name,
                              .count = (int64_t)facts->batch.count,
                              .duration_us = now_us - facts->batch.began_us};
        event_emit(node->events, &event);
    }
}

/* The end of a wait that a signal has ended before this claim. No node has recorded it, so the record of the start brings
 * its event: that comes once. As with each wait behind a park, its node did not see the attempt begin. */
static void emit_ended_wait(struct node *node, const struct event *of_start, const struct reported_facts *facts,
                            int64_t now_us)
{
    struct event event = *of_start;
    event.type = EVENT_STEP_ENDED;
    event.step = facts->ended_step;
    event.attempt = facts->ended_attempt;
    event.reason = step_state_name(STEP_COMPLETED);
    event.is_start_alone = false;
    event.latency_us = 0;
    event.duration_us = 0;
    event.ended_ago_us = now_us - facts->claimed_us + facts->waited_us;
    event.began_ago_us = event.ended_ago_us;
    event_emit(node->events, &event);
}

/* The event of a start that is on record. */
static void emit_start(struct node *node, const struct event *of_record, const struct reported_facts *facts, int64_t now_us,
                       bool is_alone)
{
    struct event event = *of_record;
    event.type = EVENT_EXECUTION_DISPATCHED;
    event.is_start_alone = is_alone;
    event.duration_us = facts->waited_us;
    event.latency_us = facts->latency_us;
    event.code = NULL; /* of the end */
    event.error = NULL;
    event.began_ago_us = now_us - facts->claimed_us;
    event.ended_ago_us = now_us - facts->began_us;
    event_emit(node->events, &event);
    if (facts->ended_step[0] != '\0') {
        emit_ended_wait(node, &event, facts, now_us);
    }
}

void record_events_emit(struct node *node, const struct report *report, const struct record *record,
                        const struct reported_facts *facts, int64_t now_us)
{
    INVARIANT(node != NULL && report != NULL && record != NULL && facts != NULL && record->status == WEIR_OK);
    struct event event = {.execution_id = record->id,
                          .fence = record->fence,
                          .code = record->error_code,
                          .error = record->error,
                          .node = node->name};
    if (facts->known) {
        event.workspace = facts->workspace;
        event.workflow = facts->workflow;
        event.start_number = facts->start_number;
        event.traceparent = facts->traceparent[0] == '\0' ? NULL : facts->traceparent;
    }
    bool ends = record->kind == RECORD_COMPLETED || record->kind == RECORD_FAILED || record->kind == RECORD_CANCELLED ||
                record->is_cancelled;
    bool has_start = (ends || record->kind == RECORD_PARKED) && !facts->dispatched;
    if (facts->known && (record->kind == RECORD_DISPATCHED || has_start)) {
        emit_start(node, &event, facts, now_us, !ends);
    }
    emit_step(node, report, &event, facts, now_us);
    if (record->kind == RECORD_DISPATCHED || record->kind == RECORD_STEP || record->kind == RECORD_GIVEN_BACK ||
        (record->kind == RECORD_PARKED && !record->is_cancelled)) {
        return;
    }
    event.type = record->is_cancelled ? EVENT_EXECUTION_CANCELLED : event_of_record(record->kind);
    event.duration_us = ends && facts->known ? now_us - facts->first_began_us : 0;
    event.ended_ago_us = now_us - report->reported_us;
    event.began_ago_us = !facts->known ? event.ended_ago_us : now_us - (ends ? facts->first_began_us : facts->claimed_us);
    event_emit(node->events, &event);
}

void record_events_emit_refused(struct node *node, const struct record *record, const char *refusal)
{
    INVARIANT(node != NULL && record != NULL && refusal != NULL);
    struct event event = {.type = EVENT_RECORD_REFUSED,
                          .node = node->name,
                          .execution_id = record->id,
                          .fence = record->fence,
                          .code = weir_status_name(record->status),
                          .error = refusal};
    event_emit(node->events, &event);
}
