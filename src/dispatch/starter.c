/* Starts what this node was assigned: gives it to the engine, and sends an unanswered start again with the same ids.
 *
 * Runs in the dispatcher's loop. No transaction is open while the engine is called. A start is sent only while the node's
 * lease is valid (`start_lock`): after that other nodes may take the item over. An item for which there is no memory goes
 * back to the queue (unstartable_claims.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "dispatch/node_internal.h"

/* --- definitions --- */

/* What the dispatcher itself needs of a definition; the engine reads the rest. */
static void read_hints(struct kept_definition *kept)
{
    json_t *value = NULL;
    if (json_read(kept->text, strlen(kept->text), &value, NULL) != WEIR_OK) {
        return;
    }
    kept->attempts_max = (int)json_integer_value(json_object_get(value, "attempts"));
    const char *stuck_after = json_string_value(json_object_get(value, "stuck_after"));
    if (stuck_after != NULL && duration_parse(stuck_after, &kept->stuck_after_us, NULL) != WEIR_OK) {
        kept->stuck_after_us = 0;
    }
    json_decref(value);
}

static enum weir_status keep_definition(struct node *node, struct arena *arena, int64_t id,
                                        struct kept_definition **ret_kept, struct weir_error *error)
{
    struct kept_definition *kept = &node->definitions[(uint64_t)id % DEFINITIONS_MOST];
    if (kept->id != id) {
        struct definition_text definition;
        enum weir_status status = store_read_definition(node->stores[LOOP_DISPATCH], id, arena, &definition, error);
        if (status != WEIR_OK) {
            return status;
        }
        char *text = strdup(definition.text);
        if (text == NULL) {
            return error_out_of_memory(error);
        }
        free(kept->text);
        *kept = (struct kept_definition){.id = id, .text = text};
        read_hints(kept);
    }
    *ret_kept = kept;
    return WEIR_OK;
}

/* --- starting --- */

/* A start that cannot even be put together is refused like any other. */
static void refuse(struct node *node, const struct claimed_item *item, enum weir_status status,
                   const struct weir_error *error)
{
    bool permanent = weir_status_kind(status) == WEIR_KIND_PERMANENT;
    struct report *report = report_new(REPORT_REFUSED, item->id, item->fence);
    if (report == NULL) {
        return; /* it is asked again after the start's deadline */
    }
    report->permanent = permanent;
    report->spends_attempt = permanent;
    report->delay_us = RETRY_BACKOFF_US;
    text_copy(report->error_code, sizeof report->error_code, weir_status_name(status));
    report->error = strdup(error->message);
    recorder_report(node, report);
}

/* Executions outside of the node run for days, and nothing of theirs can hang here: only their definition says what is
 * long. */
static int64_t default_stuck_after(const struct node *node)
{
    return engine_has(node->engine, ENGINE_DIES_WITH_NODE) ? node->tuning.stuck_after_us : TIME_NEVER;
}

/* False when the claim is lost meanwhile, or may be: others take it over once the lease is over, so nothing may be sent. */
static bool note_sending(struct node *node, const struct claimed_item *item, const struct kept_definition *kept, int sends)
{
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, item->id, item->fence);
    bool ours = entry != NULL && lease_is_valid(node);
    if (ours) {
        entry->sends = sends;
        entry->resend_boot_us = time_add(node_now(node), node->settings.start_deadline_us);
        entry->attempts_max = kept->attempts_max > 0 ? kept->attempts_max : node->tuning.attempts_max;
        entry->stuck_after_us = kept->stuck_after_us > 0 ? kept->stuck_after_us : default_stuck_after(node);
    }
    pthread_mutex_unlock(&node->lock);
    return ours;
}

/* The start could not be sent. It is refused, unless an earlier request may have arrived: then it is tried again later. */
static void not_sent(struct node *node, const struct claimed_item *item, int sends, enum weir_status status,
                     const struct weir_error *error)
{
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, item->id, item->fence);
    bool may_run = entry != NULL && in_flight_may_run(node, entry, sends);
    if (may_run) {
        entry->resend_boot_us = time_add(node_now(node), node->settings.start_deadline_us);
    }
    pthread_mutex_unlock(&node->lock);
    if (entry != NULL && !may_run) {
        refuse(node, item, status, error);
    }
}

static void send_start(struct node *node, struct arena *arena, const struct claimed_item *item, int sends)
{
    struct weir_error error = {.status = WEIR_OK};
    struct kept_definition *kept = NULL;
    enum weir_status status = keep_definition(node, arena, item->definition_id, &kept, &error);
    if (status == WEIR_OK) {
        struct engine_start start = {
            .workspace = item->workspace,
            .weight = item->weight,
            .workflow = item->workflow,
            .version = item->version,
            .definition_id = item->definition_id,
            .definition = kept->text,
            .params = item->params,
            .params_length = item->params_length,
            .fence = item->fence,
            .attempt = item->attempts + 1,
            .interruptions = item->interruptions,
            .running_for_us = item->running_for_us,
            .priority = item->priority,
            .age_us = item->claimed_at_us - item->created_at_us,
            .store_ahead_us = node->store_ahead_us,
            .cancel_requested = item->cancel_requested,
            .steps = item->steps,
            .step_count = item->step_count,
        };
        memcpy(start.id, item->id, sizeof start.id);
        pthread_mutex_lock(&node->start_lock);
        if (note_sending(node, item, kept, sends)) {
            FAILPOINT("before_start");
            status = engine_start(node->engine, &start, &error);
            FAILPOINT("after_start");
        }
        pthread_mutex_unlock(&node->start_lock);
    }
    if (status != WEIR_OK) {
        not_sent(node, item, sends, status, &error);
    }
}

/* This node gets an item back that it held before and lost without hearing of it: what it still does under the old claim
 * must end before the new start. */
static void drop_older_claims(struct node *node, const struct claimed_item *item)
{
    int64_t older;
    do {
        pthread_mutex_lock(&node->lock);
        struct in_flight *entry = in_flight_find_older(&node->in_flight, item->id, item->fence);
        older = entry == NULL ? 0 : entry->fence;
        if (entry != NULL) {
            in_flight_remove(&node->in_flight, item->id, older);
        }
        pthread_mutex_unlock(&node->lock);
        if (older != 0) {
            engine_abandon(node->engine, item->id, older);
        }
    } while (older != 0);
}

/* The claim tells that others wait; else how long it waited tells, unless it waited for something else. */
static void note_demand(struct node *node, const struct claimed_item *item)
{
    int64_t since_us = item->run_at_us > item->created_at_us ? item->run_at_us : item->created_at_us;
    if (!item->handed_over && item->attempts == 0) {
        slot_demand_claimed(&node->slot_demand, item->workspace,
                            item->others_wait ? SLOT_DEMAND_WAITED_US : item->claimed_at_us - since_us);
    }
}

/* What was claimed under `node_id`. If the lease was lost before the claim's answer came, others have it: then the node has
 * another id by now, or none, and nothing may be started. */
void starter_start(struct node *node, int64_t node_id, struct claim_batch *batch, const struct claim_result *result)
{
    int64_t now_us = node_now(node);
    size_t added = 0;
    if (result->count == 0) {
        return;
    }
    pthread_mutex_lock(&node->lock);
    (void)breaker_take_starts(&node->breaker, (int64_t)result->count,
                              now_us); /* while it is not closed, this is the probe */
    bool ours = atomic_load(&node->id) == node_id && !atomic_load(&node->lease_lost);
    for (; added < result->count && ours; added++) {
        const struct claimed_item *item = &result->items[added];
        struct in_flight *entry = in_flight_add(&node->in_flight, item, batch);
        if (entry == NULL) {
            break; /* out of memory */
        }
        int64_t since_us = item->run_at_us > item->created_at_us ? item->run_at_us : item->created_at_us;
        entry->claimed_boot_us = now_us;
        entry->waited_us = item->claimed_at_us > since_us ? item->claimed_at_us - since_us : 0;
        entry->resend_boot_us = time_add(now_us, node->settings.start_deadline_us);
        entry->attempts_max = node->tuning.attempts_max;
        entry->stuck_after_us = default_stuck_after(node);
    }
    pthread_mutex_unlock(&node->lock);
    if (ours && added < result->count) {
        unkept_add(node, node_id, batch, &result->items[added], result->count - added, UNKEPT_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < added; i++) {
        const struct claimed_item *item = &result->items[i];
        struct event event = {.type = EVENT_EXECUTION_DISPATCHING,
                              .execution_id = item->id,
                              .workspace = item->workspace,
                              .workflow = item->workflow,
                              .fence = item->fence,
                              .attempt = item->attempts + 1};
        event_emit(node->events, &event);
        drop_older_claims(node, item);
        note_demand(node, item);
        send_start(node, &batch->arena, item, 1);
    }
}

/* --- unanswered starts: the same ids again --- */

struct unanswered {
    struct node *node;
    int64_t now_us;
    int64_t next_us;
    struct claimed_item items[CLAIM_BATCH_DEFAULT];
    struct claim_batch *batches[CLAIM_BATCH_DEFAULT];
    int sends[CLAIM_BATCH_DEFAULT];
    size_t count;
};

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
    struct unanswered due = {.node = node, .now_us = now_us, .next_us = TIME_NEVER};
    pthread_mutex_lock(&node->lock);
    in_flight_each_unanswered(&node->in_flight, collect_unanswered, &due);
    pthread_mutex_unlock(&node->lock);
    for (size_t i = 0; i < due.count; i++) {
        struct event event = {.type = EVENT_START_UNKNOWN,
                              .execution_id = due.items[i].id,
                              .workspace = due.items[i].workspace,
                              .fence = due.items[i].fence,
                              .count = due.sends[i]};
        event_emit(node->events, &event);
        send_start(node, &due.batches[i]->arena, &due.items[i], due.sends[i]);
        pthread_mutex_lock(&node->lock);
        claim_batch_release(due.batches[i]);
        pthread_mutex_unlock(&node->lock);
    }
    return due.count == CLAIM_BATCH_DEFAULT ? now_us : due.next_us;
}
