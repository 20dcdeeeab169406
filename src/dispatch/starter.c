/* Starts assigned items: gives each to the engine, and sends an unanswered start again with the same ids.
 *
 * A start:
 *
 *   1. The item enters the table of items in flight, under the node id of its assignment. If the node has another id by
 *      now, its lease was lost and another node may hold the item: nothing is sent.
 *   2. An older claim of the same item is abandoned in the engine. This node had lost it without a notice, and its run
 *      must end before the new start.
 *   3. The definition is read, from the cache or the store. An error refuses the start, like an error of the engine.
 *   4. Under start_lock the lease is checked and the engine is called. The loop that finds the lease lost takes the same
 *      lock, so no start follows the loss.
 *   5. The engine answers by a report: started, refused, unreachable or unknown. The recorder decides what it means.
 *
 * A start with an unknown answer:
 *
 *   1. The item keeps its slot. The engine may run it, and a free slot would let the workspace pass its cap.
 *   2. After START_DEADLINE_US without a definite answer the same request is sent again: same id, same fence, same bytes.
 *      An engine that knows the id answers "started" and runs it once.
 *   3. While a definite answer waits for its record, nothing is sent.
 *   4. "Refused" counts only when it answers the last request. "Unreachable" puts the item back only when no other
 *      request can have arrived (in_flight_may_run()). In doubt step 2 is repeated.
 *
 * No transaction is open while the engine is called. An item for which there is no memory goes back to the queue
 * (unstartable_claims.c). Runs in the dispatch loop.
 */
#include "dispatch/starter.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "base/traceparent.h"
#include "dispatch/engine_health.h"
#include "dispatch/node_internal.h"
#include "dispatch/recorder.h"
#include "dispatch/unstartable_claims.h"

/* --- definitions --- */

/* Reads the fields that the starter needs; the engine reads the rest. */
static void read_hints(struct cached_definition *cached)
{
    json_t *value = NULL;
    if (json_read(cached->text, strlen(cached->text), &value, NULL) != WEIR_OK) {
        return;
    }
    cached->starts_max = (int)json_integer_value(json_object_get(value, "starts_max"));
    const char *stuck_after = json_string_value(json_object_get(value, "stuck_after"));
    if (stuck_after != NULL && duration_parse(stuck_after, &cached->stuck_after_us, NULL) != WEIR_OK) {
        cached->stuck_after_us = 0;
    }
    json_decref(value);
}

/* Finds the definition in the cache or reads it into its place there. */
static enum weir_status find_definition(struct node *node, struct arena *arena, int64_t id,
                                        struct cached_definition **ret_cached, struct weir_error *error)
{
    struct cached_definition *cached = &node->dispatcher.definitions[(uint64_t)id % DEFINITIONS_MOST];
    if (cached->text == NULL || cached->id != id) { /* a damaged row may name the id 0, as an unused place has it */
        struct definition_text definition;
        enum weir_status status = store_read_definition(node->stores[LOOP_DISPATCH], id, arena, &definition, error);
        if (status != WEIR_OK) {
            return status;
        }
        char *text = strdup(definition.text);
        if (text == NULL) {
            return error_out_of_memory(error);
        }
        free(cached->text);
        *cached = (struct cached_definition){.id = id, .text = text};
        read_hints(cached);
    }
    *ret_cached = cached;
    return WEIR_OK;
}

void starter_close(struct node *node)
{
    INVARIANT(node != NULL);
    for (size_t i = 0; i < DEFINITIONS_MOST; i++) {
        free(node->dispatcher.definitions[i].text);
        node->dispatcher.definitions[i] = (struct cached_definition){.text = NULL};
    }
}

/* --- starting --- */

/* A start that cannot even be put together is refused like any other. */
static void report_refused(struct node *node, const struct claimed_item *item, enum weir_status status,
                           const struct weir_error *error)
{
    bool lost_params = item->params_length == 0;
    bool permanent = weir_status_kind(status) == WEIR_KIND_PERMANENT;
    struct report *report = report_new(REPORT_REFUSED, item->id, item->fence);
    if (report == NULL) {
        return; /* out of memory: the start is tried again after its deadline */
    }
    report->permanent = permanent;
    report->spends_start = permanent;
    report->delay_us = RETRY_BACKOFF_US;
    text_copy(report->error_code, sizeof report->error_code, lost_params ? PARAMS_LOST_CODE : weir_status_name(status));
    report->error = strdup(error->message);
    recorder_report(node, report);
}

/* Executions outside of the node may run for days, and none of them can hang in this process: only their definition sets
 * the time after which they are stuck. */
static int64_t default_stuck_after(const struct node *node)
{
    return engine_has(node->engine, ENGINE_DIES_WITH_NODE) ? node->tuning.stuck_after_us : TIME_NEVER;
}

/* False when the claim is lost, or may be. Under start_lock. */
static bool note_sending(struct node *node, const struct claimed_item *item, const struct cached_definition *definition,
                         int sends)
{
    pthread_mutex_lock(&node->shared.lock);
    struct in_flight *entry = in_flight_find(&node->shared.in_flight, item->id, item->fence);
    bool ours = entry != NULL && lease_is_valid(node);
    if (ours) {
        entry->sends = sends;
        entry->resend_boot_us = time_add(node_now(node), START_DEADLINE_US);
        entry->starts_max = definition->starts_max > 0 ? definition->starts_max : node->tuning.starts_max;
        entry->stuck_after_us = definition->stuck_after_us > 0 ? definition->stuck_after_us : default_stuck_after(node);
    }
    pthread_mutex_unlock(&node->shared.lock);
    return ours;
}

/* The start could not be sent. It is refused, unless an earlier request may have arrived: then it is tried again later. */
static void handle_unsent(struct node *node, const struct claimed_item *item, int sends, enum weir_status status,
                          const struct weir_error *error)
{
    pthread_mutex_lock(&node->shared.lock);
    struct in_flight *entry = in_flight_find(&node->shared.in_flight, item->id, item->fence);
    bool is_held = entry != NULL;
    bool may_run = is_held && in_flight_may_run(entry, node->engine, sends);
    if (may_run) {
        entry->resend_boot_us = time_add(node_now(node), START_DEADLINE_US);
    }
    pthread_mutex_unlock(&node->shared.lock);
    if (is_held && !may_run) {
        report_refused(node, item, status, error);
    }
}

const char *choose_context_to_pass(const struct node *node, const char *id, const char *traceparent, char *to)
{
    INVARIANT(node != NULL && id != NULL && to != NULL);
    struct trace_context context;
    if (!node->settings.exports_spans) {
        return traceparent;
    }
    traceparent_of_execution(id, traceparent, node->settings.spans_ratio, &context);
    span_id_make(id, SPAN_OF_EXECUTION, context.span_id);
    traceparent_write(&context, to);
    return to;
}

/* `traceparent` holds TRACEPARENT_SIZE bytes and must live as long as the start. */
static struct engine_start start_of_item(const struct node *node, const struct claimed_item *item, const char *definition,
                                         char *traceparent)
{
    struct engine_start start = {
        .node = node->name,
        .workspace = item->workspace,
        .weight = item->weight,
        .workflow = item->workflow,
        .version = item->version,
        .definition_id = item->definition_id,
        .definition = definition,
        .params = item->params,
        .params_length = item->params_length,
        .fence = item->fence,
        .start_number = item->starts_refused + 1,
        .interruptions = item->interruptions - item->interruptions_at_park,
        .is_suspect = item->is_suspect,
        .lost_a_node = item->lost_a_node,
        .running_for_us = item->running_for_us,
        .priority = item->priority,
        .age_us = item->claimed_at_us - item->created_at_us,
        .store_ahead_us = node->dispatcher.store_ahead_us,
        .cancel_requested = item->cancel_requested,
        .traceparent = choose_context_to_pass(node, item->id, item->traceparent, traceparent),
        .has_step_spans = node->settings.exports_spans,
        .steps = item->steps,
        .step_count = item->step_count,
        .signals = item->signals,
        .signal_count = item->signal_count,
        .signals_seen = item->signals_seen,
    };
    memcpy(start.id, item->id, sizeof start.id);
    return start;
}

/* Steps 3 and 4 of a start; `sends` counts this request. */
static void send_item(struct node *node, struct arena *arena, const struct claimed_item *item, int sends)
{
    INVARIANT(sends > 0);
    struct weir_error error = {.status = WEIR_OK};
    struct cached_definition *definition = NULL;
    enum weir_status status =
        item->params_length == 0
            ? error_set(&error, WEIR_STORE_CORRUPT, "its params are not in the store; enqueue it again with its params")
            : find_definition(node, arena, item->definition_id, &definition, &error);
    if (status == WEIR_OK) {
        char traceparent[TRACEPARENT_SIZE];
        struct engine_start start = start_of_item(node, item, definition->text, traceparent);
        pthread_mutex_lock(&node->shared.start_lock);
        if (note_sending(node, item, definition, sends)) {
            FAILPOINT("before_start");
            status = engine_start(node->engine, &start, &error);
            FAILPOINT("after_start");
        }
        pthread_mutex_unlock(&node->shared.start_lock);
    }
    if (status != WEIR_OK) {
        handle_unsent(node, item, sends, status, &error);
    }
}

/* Step 2 of a start. */
static void abandon_older_claims(struct node *node, const struct claimed_item *item)
{
    int64_t older;
    do {
        pthread_mutex_lock(&node->shared.lock);
        struct in_flight *entry = in_flight_find_older(&node->shared.in_flight, item->id, item->fence);
        older = entry == NULL ? 0 : entry->fence;
        if (entry != NULL) {
            in_flight_remove(&node->shared.in_flight, item->id, older);
        }
        pthread_mutex_unlock(&node->shared.lock);
        if (older != 0) {
            engine_abandon(node->engine, item->id, older);
        }
    } while (older != 0);
}

/* An item that was put back or handed over waited for something else than a slot. */
static void note_demand(struct node *node, const struct claimed_item *item)
{
    if (!item->handed_over && item->starts_refused == 0) {
        slot_demand_claimed(&node->slot_demand, item->workspace,
                            item->others_wait ? SLOT_DEMAND_WAITED_US : item->claimed_at_us - claimed_item_since_us(item));
    }
}

static void fill_entry(const struct node *node, struct in_flight *entry, const struct claimed_item *item, int64_t now_us)
{
    int64_t since_us = claimed_item_since_us(item);
    entry->claimed_boot_us = now_us;
    entry->assigned_boot_us = earlier(now_us, item->claimed_at_us - node->dispatcher.store_ahead_us);
    entry->waited_us = item->claimed_at_us > since_us ? item->claimed_at_us - since_us : 0;
    entry->resend_boot_us = time_add(now_us, START_DEADLINE_US);
    entry->starts_max = node->tuning.starts_max;
    entry->stuck_after_us = default_stuck_after(node);
}

void starter_start(struct node *node, int64_t node_id, struct assignment_batch *batch, const struct claim_result *result)
{
    INVARIANT(node != NULL && node_id != 0 && batch != NULL && result != NULL);
    int64_t now_us = node_now(node);
    size_t added = 0;
    if (result->count == 0) {
        return;
    }
    engine_health_use(node, result->count, now_us);          /* while the breaker is not closed, this is the probe */
    struct batch_starts *starts = calloc(1, sizeof *starts); /* NULL: the duration of this batch is not measured */
    pthread_mutex_lock(&node->shared.lock);
    bool ours = atomic_load(&node->shared.id) == node_id && !atomic_load(&node->shared.lease_lost);
    for (; added < result->count && ours; added++) {
        struct in_flight *entry = in_flight_add(&node->shared.in_flight, &result->items[added], batch);
        if (entry == NULL) {
            break; /* out of memory */
        }
        fill_entry(node, entry, &result->items[added], now_us);
        if (starts != NULL) {
            starts->began_us = batch->began_us;
            in_flight_await_start(entry, starts);
        }
    }
    if (added == 0) {
        free(starts);
    }
    pthread_mutex_unlock(&node->shared.lock);
    if (ours && added < result->count) {
        unstartable_add(node, node_id, batch, &result->items[added], result->count - added, UNSTARTABLE_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < added; i++) {
        const struct claimed_item *item = &result->items[i];
        struct event event = {.type = EVENT_EXECUTION_DISPATCHING,
                              .execution_id = item->id,
                              .workspace = item->workspace,
                              .workflow = item->workflow,
                              .node = node->name,
                              .fence = item->fence,
                              .start_number = item->starts_refused + 1,
                              .traceparent = item->traceparent};
        if (!item->assigned_before) {
            event.age_us = item->claimed_at_us - item->created_at_us;
        }
        event_emit(node->events, &event);
        abandon_older_claims(node, item);
        note_demand(node, item);
        send_item(node, &batch->arena, item, 1);
    }
}

/* --- unanswered starts --- */

struct unanswered {
    int64_t now_us;
    int64_t next_us;
    struct claimed_item items[CLAIM_BATCH_DEFAULT];
    struct assignment_batch *batches[CLAIM_BATCH_DEFAULT];
    int sends[CLAIM_BATCH_DEFAULT];
    size_t count;
};

/* Copies a due entry and takes a reference on its batch, so that the start can be sent without the node's lock. */
static void collect_unanswered(void *context, struct in_flight *entry)
{
    struct unanswered *due = context;
    if (entry->started || entry->answer_waits || entry->batch == NULL) {
        return;
    }
    if (entry->resend_boot_us > due->now_us || due->count == CLAIM_BATCH_DEFAULT) {
        due->next_us = earlier(due->next_us, entry->resend_boot_us);
        return;
    }
    due->items[due->count] = *entry->item;
    due->batches[due->count] = entry->batch;
    due->sends[due->count] = entry->sends + 1;
    entry->batch->references++;
    due->count++;
}

int64_t starter_send_again(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    struct unanswered due = {.now_us = now_us, .next_us = TIME_NEVER};
    pthread_mutex_lock(&node->shared.lock);
    in_flight_each_unanswered(&node->shared.in_flight, collect_unanswered, &due);
    pthread_mutex_unlock(&node->shared.lock);
    for (size_t i = 0; i < due.count; i++) {
        struct event event = {.type = EVENT_START_UNKNOWN,
                              .execution_id = due.items[i].id,
                              .workspace = due.items[i].workspace,
                              .node = node->name,
                              .fence = due.items[i].fence,
                              .count = due.sends[i]};
        event_emit(node->events, &event);
        send_item(node, &due.batches[i]->arena, &due.items[i], due.sends[i]);
        pthread_mutex_lock(&node->shared.lock);
        assignment_batch_release(due.batches[i]);
        pthread_mutex_unlock(&node->shared.lock);
    }
    return due.count == CLAIM_BATCH_DEFAULT ? now_us : due.next_us;
}
