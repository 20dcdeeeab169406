#include "dispatch/in_flight.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static size_t bucket_of(const char *id)
{
    return text_hash(id + 9) % IN_FLIGHT_BUCKETS; /* the tail is random */
}

struct claim_batch *claim_batch_new(void)
{
    struct claim_batch *batch = calloc(1, sizeof *batch);
    if (batch != NULL) {
        arena_init(&batch->arena, CLAIM_ARENA_BYTES);
        batch->references = 1;
    }
    return batch;
}

void claim_batch_release(struct claim_batch *batch)
{
    if (batch != NULL && --batch->references == 0) {
        arena_close(&batch->arena);
        free(batch);
    }
}

struct in_flight *in_flight_add(struct in_flight_table *table, const struct claimed_item *item, struct claim_batch *batch)
{
    size_t workspace = strlen(item->workspace) + 1;
    size_t workflow = strlen(item->workflow) + 1;
    struct in_flight *entry = calloc(1, sizeof *entry + workspace + workflow);
    if (entry == NULL) {
        return NULL;
    }
    entry->workspace = (char *)(entry + 1);
    entry->workflow = entry->workspace + workspace;
    memcpy(entry->workspace, item->workspace, workspace);
    memcpy(entry->workflow, item->workflow, workflow);
    memcpy(entry->id, item->id, sizeof entry->id);
    entry->fence = item->fence;
    entry->attempts = item->attempts;
    entry->deferrals = item->deferrals;
    entry->taken_over = item->interruptions > 0;
    entry->item = item;
    entry->batch = batch;
    batch->references++;
    struct in_flight **bucket = &table->buckets[bucket_of(item->id)];
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
    struct in_flight *entry = table->buckets[bucket_of(id)];
    while (entry != NULL && (entry->fence != fence || strcmp(entry->id, id) != 0)) {
        entry = entry->next;
    }
    return entry;
}

struct in_flight *in_flight_find_older(const struct in_flight_table *table, const char *id, int64_t fence)
{
    struct in_flight *found = NULL;
    for (struct in_flight *entry = table->buckets[bucket_of(id)]; entry != NULL; entry = entry->next) {
        if (entry->fence < fence && strcmp(entry->id, id) == 0 && (found == NULL || entry->fence > found->fence)) {
            found = entry;
        }
    }
    return found;
}

void in_flight_answered(struct in_flight_table *table, struct in_flight *entry)
{
    if (entry->batch != NULL) {
        claim_batch_release(entry->batch);
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
    struct in_flight **at = &table->buckets[bucket_of(id)];
    while (*at != NULL && ((*at)->fence != fence || strcmp((*at)->id, id) != 0)) {
        at = &(*at)->next;
    }
    struct in_flight *entry = *at;
    if (entry != NULL) {
        *at = entry->next;
        in_flight_answered(table, entry);
        table->count--;
        free(entry);
    }
}

void in_flight_clear(struct in_flight_table *table)
{
    for (size_t i = 0; i < IN_FLIGHT_BUCKETS; i++) {
        while (table->buckets[i] != NULL) {
            in_flight_remove(table, table->buckets[i]->id, table->buckets[i]->fence);
        }
    }
}

void in_flight_each(const struct in_flight_table *table, void (*visit)(void *context, struct in_flight *entry),
                    void *context)
{
    size_t left = table->count; /* an idle node need not look into 4096 empty buckets */
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
    struct in_flight *next;
    for (struct in_flight *entry = table->unanswered_first; entry != NULL; entry = next) {
        next = entry->unanswered_next;
        visit(context, entry);
    }
}
