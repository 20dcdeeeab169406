/* Parsed definitions: each version of a workflow is parsed once, not once per execution.
 *
 * The key is definition_id, whose text never changes. The cache holds at most DEFINITION_CACHE_MAX unused definitions; one
 * that executions use stays until the last of them has ended. Threads: any (one lock).
 */
#ifndef WEIR_ENGINE_IN_PROCESS_DEFINITION_CACHE_H
#define WEIR_ENGINE_IN_PROCESS_DEFINITION_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "definition/definition.h"
#include "weir/handler.h"

enum { DEFINITION_CACHE_MAX = 64, DEFINITION_CACHE_BUCKETS = 128 };

struct definition_entry {
    struct definition_entry *next; /* in its bucket */
    int64_t id;
    uint64_t last_used;
    atomic_int users;
    struct definition *definition;
    const char *unknown_handler;                /* the first handler that this node does not have, or NULL */
    const struct weir_handler *const *handlers; /* per step; NULL where the step is not a handler */
};

struct definition_cache {
    pthread_mutex_t lock;
    struct definition_entry *buckets[DEFINITION_CACHE_BUCKETS];
    size_t count;
    uint64_t uses;                       /* of all entries so far: the clock of last_used */
    const struct weir_handler *handlers; /* of the node; not owned */
    size_t handler_count;
};

void definition_cache_init(struct definition_cache *cache, const struct weir_handler *handlers, size_t handler_count);
void definition_cache_close(struct definition_cache *cache);
/* Parses `text` unless the id is in the cache. WEIR_INVALID_DEFINITION, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status definition_cache_acquire(struct definition_cache *cache, int64_t id, const char *text,
                                                          struct definition_entry **ret_entry, struct weir_error *error);
/* The execution has ended. Takes NULL. */
void definition_cache_release(struct definition_entry *entry);

#endif
