/* The pool and the hash table of the scheduler.
 *
 * Items live in chunks that are never moved: growing adds a chunk. A chunk of 64 items wastes little for a small table,
 * and a table of 100,000 items has 1,563 of them. Buckets are chains through the items, so that an item costs 4 bytes of
 * table besides its entry. The buckets double when there are more items than buckets; chains stay short on average because
 * the keys are spread by a multiplication with the golden ratio (Knuth, volume 3, 6.4).
 *
 * Adding, finding and removing are O(1) on average; table_from() walks all places. table_add() alone allocates, and a
 * failure changes nothing. Indexes are checked in every build: an index of a removed item ends the process.
 */
#include "queue/scheduler_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { BUCKETS_LEAST = 16 };

/* Does not check that the place is in use, unlike table_at(). */
static struct entry *entry_at(const struct table *table, uint32_t index)
{
    return (struct entry *)(void *)(table->chunks[index / TABLE_CHUNK_ITEMS] +
                                    (index % TABLE_CHUNK_ITEMS) * table->item_size);
}

static size_t table_bucket(size_t bucket_count, int64_t key)
{
    uint64_t spread = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(spread ^ spread >> 32) & (bucket_count - 1);
}

void table_init(struct table *table, size_t item_size, size_t *bytes)
{
    INVARIANT(item_size >= sizeof(struct entry) && item_size % sizeof(int64_t) == 0);
    INVARIANT(bytes != NULL);
    *table = (struct table){.item_size = item_size, .end = 1, .bytes = bytes};
}

void table_clear(struct table *table)
{
    INVARIANT(table->item_size > 0);
    for (size_t i = 0; i < table->chunk_count; i++) {
        free(table->chunks[i]);
    }
    *table->bytes -= table->chunk_count * (TABLE_CHUNK_ITEMS * table->item_size + sizeof *table->chunks);
    *table->bytes -= table->bucket_count * sizeof *table->buckets;
    free(table->chunks);
    free(table->buckets);
    table_init(table, table->item_size, table->bytes);
}

/* Walks a bucket from `index` on. */
static void *first_with_key(const struct table *table, uint32_t index, int64_t key)
{
    while (index != 0) {
        struct entry *entry = entry_at(table, index);
        if (entry->key == key) {
            return entry;
        }
        index = entry->next;
    }
    return NULL;
}

void *table_find(const struct table *table, int64_t key)
{
    if (table->bucket_count == 0) {
        return NULL;
    }
    return first_with_key(table, table->buckets[table_bucket(table->bucket_count, key)], key);
}

void *table_find_next(const struct table *table, const void *item)
{
    const struct entry *entry = item;
    INVARIANT(entry->self != 0);
    return first_with_key(table, entry->next, entry->key);
}

/* Doubles the buckets and links every item anew. */
static bool grow_buckets(struct table *table)
{
    size_t bucket_count = table->bucket_count == 0 ? BUCKETS_LEAST : 2 * table->bucket_count;
    uint32_t *buckets = calloc(bucket_count, sizeof *buckets);
    if (buckets == NULL) {
        return false;
    }
    for (struct entry *entry = table_from(table, 1); entry != NULL; entry = table_from(table, entry->self + 1)) {
        uint32_t *bucket = &buckets[table_bucket(bucket_count, entry->key)];
        entry->next = *bucket;
        *bucket = entry->self;
    }
    *table->bytes += (bucket_count - table->bucket_count) * sizeof *buckets;
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = bucket_count;
    return true;
}

/* The place of the next item: a freed one, or the first that was never used. 0: memory is short. */
static uint32_t take_place(struct table *table)
{
    uint32_t index = table->free_first;
    if (index != 0) {
        table->free_first = entry_at(table, index)->next;
        return index;
    }
    if (table->end == UINT32_MAX) {
        return 0;
    }
    if (table->end / TABLE_CHUNK_ITEMS >= table->chunk_count) {
        unsigned char **chunks = realloc(table->chunks, (table->chunk_count + 1) * sizeof *chunks);
        if (chunks == NULL) {
            return 0;
        }
        table->chunks = chunks;
        chunks[table->chunk_count] = calloc(TABLE_CHUNK_ITEMS, table->item_size);
        if (chunks[table->chunk_count] == NULL) {
            return 0;
        }
        table->chunk_count++;
        *table->bytes += TABLE_CHUNK_ITEMS * table->item_size + sizeof *chunks;
    }
    return table->end++;
}

void *table_add(struct table *table, int64_t key)
{
    INVARIANT(table->item_size > 0);
    if (table->count >= table->bucket_count && !grow_buckets(table)) {
        return NULL;
    }
    uint32_t index = take_place(table);
    if (index == 0) {
        return NULL;
    }
    struct entry *entry = entry_at(table, index);
    uint32_t *bucket = &table->buckets[table_bucket(table->bucket_count, key)];
    memset(entry, 0, table->item_size);
    *entry = (struct entry){.key = key, .self = index, .next = *bucket};
    *bucket = index;
    table->count++;
    return entry;
}

void table_remove(struct table *table, void *item)
{
    struct entry *entry = item;
    INVARIANT(entry->self != 0 && table->count > 0);
    uint32_t *link = &table->buckets[table_bucket(table->bucket_count, entry->key)];
    while (*link != entry->self) {
        INVARIANT(*link != 0);
        link = &entry_at(table, *link)->next;
    }
    *link = entry->next;
    entry->next = table->free_first;
    table->free_first = entry->self;
    entry->self = 0;
    table->count--;
}

void *table_from(const struct table *table, uint32_t index)
{
    for (; index < table->end; index++) {
        if (index > 0 && entry_at(table, index)->self != 0) {
            return entry_at(table, index);
        }
    }
    return NULL;
}

/* The link of an item, which the caller of the list functions placed at `offset`. */
static struct link *link_at(const struct table *table, size_t offset, uint32_t index)
{
    return (struct link *)(void *)((unsigned char *)table_at(table, index) + offset);
}

void list_append(const struct table *table, struct list *list, size_t offset, uint32_t index)
{
    INVARIANT(offset >= sizeof(struct entry) && offset < table->item_size);
    *link_at(table, offset, index) = (struct link){.before = list->last};
    if (list->last != 0) {
        link_at(table, offset, list->last)->after = index;
    } else {
        list->first = index;
    }
    list->last = index;
}

void list_put_first(const struct table *table, struct list *list, size_t offset, uint32_t index)
{
    INVARIANT(offset >= sizeof(struct entry) && offset < table->item_size);
    *link_at(table, offset, index) = (struct link){.after = list->first};
    if (list->first != 0) {
        link_at(table, offset, list->first)->before = index;
    } else {
        list->last = index;
    }
    list->first = index;
}

void list_remove(const struct table *table, struct list *list, size_t offset, uint32_t index)
{
    struct link *link = link_at(table, offset, index);
    INVARIANT(link->before != 0 || list->first == index);
    INVARIANT(link->after != 0 || list->last == index);
    if (link->before != 0) {
        link_at(table, offset, link->before)->after = link->after;
    } else {
        list->first = link->after;
    }
    if (link->after != 0) {
        link_at(table, offset, link->after)->before = link->before;
    } else {
        list->last = link->before;
    }
    *link = (struct link){0};
}
