/* Objects of the scheduler, found by number: a pool of equal items and a hash table over them.
 *
 *   buckets[hash(key)] -> index -> chunk[index / CHUNK][index % CHUNK] -> entry.next -> ...
 *
 * Each item begins with a struct entry. An item keeps its address and its index until it is removed, so other items may
 * refer to it by a 32-bit index. Index 0 is never used and means "none". Several items may have the same key.
 *
 * A struct list chains items of one table through a struct link inside them. The caller knows the offset of the link, and
 * whether an item is in the list: a link does not show it.
 */
#ifndef WEIR_QUEUE_SCHEDULER_TABLE_H
#define WEIR_QUEUE_SCHEDULER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "weir/status.h"

struct entry {
    int64_t key;
    uint32_t self; /* its index; 0 = the place is free */
    uint32_t next; /* in its bucket, or among the free places */
};

enum { TABLE_CHUNK_ITEMS = 64 };

struct table {
    unsigned char **chunks;
    uint32_t *buckets;
    size_t item_size;
    size_t chunk_count;
    size_t bucket_count; /* a power of two, or 0 before the first item */
    size_t count;
    uint32_t end; /* all indexes are below */
    uint32_t free_first;
    size_t *bytes; /* allocated bytes are added here */
};

/* `item_size` includes the struct entry. */
void table_init(struct table *table, size_t item_size, size_t *bytes);
/* Frees all items. The table can be used again. */
void table_clear(struct table *table);
/* The first item of the key, or NULL. */
void *table_find(const struct table *table, int64_t key);
/* The next one with the same key, or NULL. */
void *table_find_next(const struct table *table, const void *item);
/* A new item, zero but for its entry. NULL when memory is short: nothing was changed. */
void *table_add(struct table *table, int64_t key);
void table_remove(struct table *table, void *item);
/* `index` must be of a present item. Inline, because an assignment calls it some twenty times. */
static inline void *table_at(const struct table *table, uint32_t index)
{
    INVARIANT(index > 0 && index < table->end);
    struct entry *entry =
        (struct entry *)(void *)(table->chunks[index / TABLE_CHUNK_ITEMS] + (index % TABLE_CHUNK_ITEMS) * table->item_size);
    INVARIANT(entry->self == index);
    return entry;
}
/* Walks all items: the first present item with an index of at least `index`, or NULL. */
void *table_from(const struct table *table, uint32_t index);

struct link {
    uint32_t before;
    uint32_t after;
};

struct list {
    uint32_t first;
    uint32_t last;
};

/* The item must be in no list that uses the same link. */
void list_append(const struct table *table, struct list *list, size_t offset, uint32_t index);
/* The same, at the beginning. */
void list_put_first(const struct table *table, struct list *list, size_t offset, uint32_t index);
/* The item must be in this list. */
void list_remove(const struct table *table, struct list *list, size_t offset, uint32_t index);

#endif
