/* A small cache with least-recently-used eviction.
 *
 * A definition is parsed under the lock, so that two threads never parse the same one. A start of another workflow waits
 * meanwhile; starts of new versions are rare. The handlers of a definition are looked up when it is parsed. A handler that
 * this node lacks leaves its name in `unknown_handler`, and the engine refuses the execution.
 * An entry in use is never evicted: executions hold pointers into it. So the cache may grow beyond its maximum for a while.
 * Any thread that starts an execution calls it; the loop releases the entries.
 */
#include "engine/in_process/definition_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void definition_cache_init(struct definition_cache *cache, const struct weir_handler *handlers, size_t handler_count)
{
    INVARIANT(handlers != NULL || handler_count == 0);
    memset(cache, 0, sizeof *cache);
    (void)pthread_mutex_init(&cache->lock, NULL);
    cache->handlers = handlers;
    cache->handler_count = handler_count;
}

static void free_entry(struct definition_entry *entry)
{
    if (entry != NULL) {
        definition_close(entry->definition);
        free((void *)entry->handlers);
        free(entry);
    }
}

void definition_cache_close(struct definition_cache *cache)
{
    for (size_t i = 0; i < DEFINITION_CACHE_BUCKETS; i++) {
        while (cache->buckets[i] != NULL) {
            struct definition_entry *entry = cache->buckets[i];
            cache->buckets[i] = entry->next;
            free_entry(entry);
        }
    }
    (void)pthread_mutex_destroy(&cache->lock);
}

static const struct weir_handler *find_handler_function(const struct definition_cache *cache, const char *name)
{
    for (size_t i = 0; i < cache->handler_count; i++) {
        if (strcmp(cache->handlers[i].name, name) == 0) {
            return &cache->handlers[i];
        }
    }
    return NULL;
}

static enum weir_status parse_entry(const struct definition_cache *cache, int64_t id, const char *text,
                                    struct definition_entry **ret_entry, struct weir_error *error)
{
    struct definition_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = definition_load(text, strlen(text), "definition", &entry->definition, error);
    if (status != WEIR_OK) {
        free(entry);
        return status;
    }
    const struct definition *definition = entry->definition;
    const struct weir_handler **handlers = calloc(definition->count, sizeof(struct weir_handler *));
    if (handlers == NULL) {
        free_entry(entry);
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < definition->count; i++) {
        const struct step *step = &definition->steps[i];
        if (step->kind == STEP_HANDLER) {
            handlers[i] = find_handler_function(cache, step->handler.name);
            if (handlers[i] == NULL && entry->unknown_handler == NULL) {
                entry->unknown_handler = step->handler.name;
            }
        }
    }
    entry->id = id;
    entry->handlers = handlers;
    *ret_entry = entry;
    return WEIR_OK;
}

/* Frees the unused definition with the oldest use. */
static void evict_entry(struct definition_cache *cache)
{
    struct definition_entry **oldest = NULL;
    for (size_t i = 0; i < DEFINITION_CACHE_BUCKETS; i++) {
        for (struct definition_entry **link = &cache->buckets[i]; *link != NULL; link = &(*link)->next) {
            if (atomic_load(&(*link)->users) == 0 && (oldest == NULL || (*link)->last_used < (*oldest)->last_used)) {
                oldest = link;
            }
        }
    }
    if (oldest != NULL) {
        struct definition_entry *entry = *oldest;
        *oldest = entry->next;
        cache->count--;
        free_entry(entry);
    }
}

enum weir_status definition_cache_acquire(struct definition_cache *cache, int64_t id, const char *text,
                                          struct definition_entry **ret_entry, struct weir_error *error)
{
    INVARIANT(cache != NULL && ret_entry != NULL);
    enum weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&cache->lock);
    struct definition_entry **bucket = &cache->buckets[(uint64_t)id % DEFINITION_CACHE_BUCKETS];
    struct definition_entry *entry = *bucket;
    while (entry != NULL && entry->id != id) {
        entry = entry->next;
    }
    if (entry == NULL) {
        status = parse_entry(cache, id, text, &entry, error);
        if (status == WEIR_OK) {
            if (cache->count >= DEFINITION_CACHE_MAX) {
                evict_entry(cache);
            }
            entry->next = *bucket;
            *bucket = entry;
            cache->count++;
        }
    }
    if (status == WEIR_OK) {
        entry->last_used = ++cache->uses;
        atomic_fetch_add(&entry->users, 1);
        *ret_entry = entry;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return status;
}

void definition_cache_release(struct definition_entry *entry)
{
    if (entry != NULL) {
        int users = atomic_fetch_sub(&entry->users, 1);
        INVARIANT(users > 0);
    }
}
