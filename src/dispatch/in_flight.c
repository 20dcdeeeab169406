/* The table of items in flight: chained buckets by execution id, and a list of the entries whose start is unanswered.
 *
 * An entry is one claim: the same id may stand here under two fences for a moment, when this node gets an item back that it
 * lost without a notice. The list of unanswered starts makes the search for due ones independent of the number of running
 * executions. An entry keeps a reference on its batch until its start is answered, because the same bytes are sent again.
 *
 * The functions on a table or on the references of a batch run under the node's lock, or when no other thread runs. None
 * calls the store or the engine's operations. An entry is not on the list and has no batch, or it is on the list and has
 * one; in_flight_answered() makes this change alone.
 */
#include "dispatch/in_flight.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/table_hash.h"

static size_t in_flight_bucket(const char *id)
{
    return table_hash(id) % IN_FLIGHT_BUCKETS;
}

struct assignment_batch *assignment_batch_new(void)
{
    struct assignment_batch *batch = calloc(1, sizeof *batch);
    if (batch != NULL) {
        arena_init(&batch->arena, ASSIGNMENT_ARENA_BYTES);
        batch->references = 1;
    }
    return batch;
}

void assignment_batch_release(struct assignment_batch *batch)
{
    INVARIANT(batch == NULL || batch->references > 0);
    if (batch != NULL && --batch->references == 0) {
        arena_close(&batch->arena);
        free(batch);
    }
}

/* The step that the wake of this item has ended, at the same store time. NULL: none, or an earlier claim has begun since.
 */
static const struct step_record *find_ended_step(const struct claimed_item *item)
{
    bool is_first = item->woken_at_us > 0 && item->interruptions == item->interruptions_at_park;
    for (size_t i = 0; is_first && i < item->step_count; i++) {
        if (item->steps[i].state == STEP_COMPLETED && item->steps[i].finished_us == item->woken_at_us) {
            return &item->steps[i];
        }
    }
    return NULL;
}

static void copy_ended_step(struct in_flight *entry, char *to, const struct step_record *step)
{
    if (step != NULL) {
        entry->ended_step = to;
        entry->ended_attempt = step->attempt;
        memcpy(to, step->step, strlen(step->step) + 1);
    }
}

struct in_flight *in_flight_add(struct in_flight_table *table, const struct claimed_item *item,
                                struct assignment_batch *batch)
{
    INVARIANT(table != NULL && item != NULL && batch != NULL && batch->references > 0);
    size_t workspace = strlen(item->workspace) + 1;
    size_t workflow = strlen(item->workflow) + 1;
    size_t traceparent = item->traceparent == NULL ? 0 : strlen(item->traceparent) + 1;
    const struct step_record *ended = find_ended_step(item);
    size_t ended_step = ended == NULL ? 0 : strlen(ended->step) + 1;
    size_t bytes = sizeof(struct in_flight) + workspace + workflow + traceparent + ended_step;
    struct in_flight *entry = pool_allocate(bytes);
    if (entry == NULL) {
        return NULL;
    }
    entry->bytes = bytes;
    entry->workspace = (char *)(entry + 1);
    entry->workflow = entry->workspace + workspace;
    memcpy(entry->workspace, item->workspace, workspace);
    memcpy(entry->workflow, item->workflow, workflow);
    if (item->traceparent != NULL) {
        entry->traceparent = entry->workflow + workflow;
        memcpy(entry->traceparent, item->traceparent, traceparent);
    }
    copy_ended_step(entry, entry->workflow + workflow + traceparent, ended);
    memcpy(entry->id, item->id, sizeof entry->id);
    entry->fence = item->fence;
    entry->lane_id = item->lane_id;
    entry->starts_refused = item->starts_refused;
    entry->deferrals = item->deferrals;
    entry->ran_before_us = item->running_for_us;
    entry->taken_over = item->interruptions > 0;
    entry->item = item;
    entry->batch = batch;
    batch->references++;
    struct in_flight **bucket = &table->buckets[in_flight_bucket(item->id)];
    entry->next = *bucket;
    *bucket = entry;
    table->count++;
    entry->unanswered_next = table->unanswered_first;
    entry->unanswered_link = &table->unanswered_first;
    if (entry->unanswered_next != NULL) {
        entry->unanswered_next->unanswered_link = &entry->unanswered_next;
    }
    table->unanswered_first = entry;
    table->unanswered++;
    return entry;
}

struct in_flight *in_flight_find(const struct in_flight_table *table, const char *id, int64_t fence)
{
    INVARIANT(table != NULL && id != NULL);
    struct in_flight *entry = table->buckets[in_flight_bucket(id)];
    while (entry != NULL && (entry->fence != fence || strcmp(entry->id, id) != 0)) {
        entry = entry->next;
    }
    return entry;
}

struct in_flight *in_flight_find_older(const struct in_flight_table *table, const char *id, int64_t fence)
{
    INVARIANT(table != NULL && id != NULL);
    struct in_flight *found = NULL;
    for (struct in_flight *entry = table->buckets[in_flight_bucket(id)]; entry != NULL; entry = entry->next) {
        if (entry->fence < fence && strcmp(entry->id, id) == 0 && (found == NULL || entry->fence > found->fence)) {
            found = entry;
        }
    }
    return found;
}

void in_flight_await_start(struct in_flight *entry, struct batch_starts *starts)
{
    INVARIANT(entry != NULL && entry->starts == NULL && starts != NULL);
    entry->starts = starts;
    starts->count++;
    starts->left++;
}

bool in_flight_start_recorded(struct in_flight *entry, struct batch_starts *ret_starts)
{
    INVARIANT(entry != NULL && ret_starts != NULL);
    struct batch_starts *starts = entry->starts;
    if (starts == NULL) {
        return false;
    }
    entry->starts = NULL;
    starts->left--;
    if (starts->left > 0) {
        return false;
    }
    *ret_starts = *starts;
    free(starts);
    return true;
}

void in_flight_answered(struct in_flight_table *table, struct in_flight *entry)
{
    INVARIANT(table != NULL && entry != NULL && (entry->batch != NULL) == (entry->unanswered_link != NULL));
    if (entry->batch != NULL) {
        INVARIANT(table->unanswered > 0);
        assignment_batch_release(entry->batch);
        entry->batch = NULL;
        entry->item = NULL;
        *entry->unanswered_link = entry->unanswered_next;
        if (entry->unanswered_next != NULL) {
            entry->unanswered_next->unanswered_link = entry->unanswered_link;
        }
        entry->unanswered_link = NULL;
        table->unanswered--;
    }
}

void in_flight_remove(struct in_flight_table *table, const char *id, int64_t fence)
{
    struct in_flight **at = &table->buckets[in_flight_bucket(id)];
    while (*at != NULL && ((*at)->fence != fence || strcmp((*at)->id, id) != 0)) {
        at = &(*at)->next;
    }
    struct in_flight *entry = *at;
    if (entry != NULL) {
        INVARIANT(table->count > 0);
        struct batch_starts ended;
        *at = entry->next;
        in_flight_answered(table, entry);
        (void)in_flight_start_recorded(entry, &ended);
        table->count--;
        pool_free(entry, entry->bytes);
    }
}

void in_flight_clear(struct in_flight_table *table)
{
    INVARIANT(table != NULL);
    for (size_t i = 0; i < IN_FLIGHT_BUCKETS; i++) {
        while (table->buckets[i] != NULL) {
            in_flight_remove(table, table->buckets[i]->id, table->buckets[i]->fence);
        }
    }
    INVARIANT(table->count == 0 && table->unanswered == 0 && table->unanswered_first == NULL);
}

void in_flight_each(const struct in_flight_table *table, void (*visit)(void *context, struct in_flight *entry),
                    void *context)
{
    INVARIANT(table != NULL && visit != NULL);
    size_t left = table->count; /* an idle node does not visit 4096 empty buckets */
    for (size_t i = 0; i < IN_FLIGHT_BUCKETS && left > 0; i++) {
        struct in_flight *next;
        for (struct in_flight *entry = table->buckets[i]; entry != NULL; entry = next) {
            next = entry->next;
            left--;
            visit(context, entry);
        }
    }
}

void in_flight_each_unanswered(const struct in_flight_table *table, void (*visit)(void *context, struct in_flight *entry),
                               void *context)
{
    INVARIANT(table != NULL && visit != NULL);
    struct in_flight *next;
    for (struct in_flight *entry = table->unanswered_first; entry != NULL; entry = next) {
        next = entry->unanswered_next;
        visit(context, entry);
    }
}

bool claimed_item_may_run(const struct claimed_item *item, const struct engine *engine)
{
    INVARIANT(item != NULL && engine != NULL);
    return item->interruptions > 0 && !engine_has(engine, ENGINE_DIES_WITH_NODE);
}

bool in_flight_may_run(const struct in_flight *entry, const struct engine *engine, int sends)
{
    INVARIANT(entry != NULL && sends >= 0);
    return sends > 1 || (entry->item != NULL && claimed_item_may_run(entry->item, engine));
}
