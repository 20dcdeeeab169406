/* Parsed definitions: each version of a workflow is parsed once, not once per execution.
 *
 * The key is definition_id, whose text never changes. The cache holds at most DEFINITION_CACHE_MAX unused definitions; one
 * that executions use stays until the last of them has ended. Threads: any (one lock).
 *
 * It also has the handlers of the node, which may change while the node runs. An execution keeps the functions that it
 * found at its start. The first start after a change looks them up anew.
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
    char *http_fault;                           /* it has http steps, and libcurl cannot be loaded; or NULL */
    const struct weir_handler *const *handlers; /* per step, or per state; NULL where it has none */
    uint64_t generation;                        /* of the handlers that it found */
};

/* A handler that the node has or had. It is kept until the cache is closed, because executions may still call it. */
struct node_handler {
    struct node_handler *next;
    struct weir_handler handler; /* its name is owned */
    bool is_registered;
};

struct definition_cache {
    pthread_mutex_t lock;
    struct definition_entry *buckets[DEFINITION_CACHE_BUCKETS];
    size_t count;
    uint64_t uses;                     /* of all entries so far: the clock of last_used */
    uint64_t generation;               /* grows with each change of the handlers */
    struct definition_entry *replaced; /* of an older generation and in use; freed when the last execution has ended */
    struct node_handler *handlers;
};

void definition_cache_init(struct definition_cache *cache);
/* Copies the handler. WEIR_INVALID_ARGUMENT: no function, or a name that cannot be one; WEIR_CONFLICT: one of this name is
 * registered; WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status definition_cache_add_handler(struct definition_cache *cache,
                                                              const struct weir_handler *handler, struct weir_error *error);
/* Starts from now on lack it. WEIR_NOT_FOUND. */
WEIR_MUST_CHECK enum weir_status definition_cache_remove_handler(struct definition_cache *cache, const char *name,
                                                                 struct weir_error *error);
/* The registered handler of this name, or NULL. It lives as long as the cache. */
const struct weir_handler *definition_cache_handler(struct definition_cache *cache, const char *name);
void definition_cache_close(struct definition_cache *cache);
/* Parses `text` unless the id is in the cache. WEIR_INVALID_DEFINITION, WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status definition_cache_acquire(struct definition_cache *cache, int64_t id, const char *text,
                                                          struct definition_entry **ret_entry, struct weir_error *error);
/* The execution has ended. Takes NULL. */
void definition_cache_release(struct definition_entry *entry);

#endif
