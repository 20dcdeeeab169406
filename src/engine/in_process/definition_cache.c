/* A small cache with least-recently-used eviction.
 *
 * A definition is parsed under the lock, so that two threads never parse the same one. A start of another workflow waits
 * meanwhile; starts of new versions are rare. The handlers of a definition are looked up when it is parsed. A handler that
 * this node lacks leaves its name in `unknown_handler`, and the engine refuses the execution; so it does with http steps on
 * a machine without libcurl. After a change of the
 * handlers the next start of each definition parses it anew; executions that began before keep the former entry.
 * An entry in use is never evicted: executions hold pointers into it. So the cache may grow beyond its maximum for a while.
 * Any thread that starts an execution calls it; the loop releases the entries.
 */
#include "engine/in_process/definition_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/libcurl.h"
#include "base/libssl.h"

void definition_cache_init(struct definition_cache *cache)
{
    INVARIANT(cache != NULL);
    memset(cache, 0, sizeof *cache);
    (void)pthread_mutex_init(&cache->lock, NULL);
}

static void free_entry(struct definition_entry *entry)
{
    if (entry != NULL) {
        definition_close(entry->definition);
        free((void *)entry->handlers);
        free(entry->http_fault);
        free(entry);
    }
}

void definition_cache_close(struct definition_cache *cache)
{
    INVARIANT(cache != NULL);
    for (size_t i = 0; i < DEFINITION_CACHE_BUCKETS; i++) {
        while (cache->buckets[i] != NULL) {
            struct definition_entry *entry = cache->buckets[i];
            cache->buckets[i] = entry->next;
            free_entry(entry);
        }
    }
    while (cache->replaced != NULL) {
        struct definition_entry *entry = cache->replaced;
        cache->replaced = entry->next;
        free_entry(entry);
    }
    while (cache->handlers != NULL) {
        struct node_handler *handler = cache->handlers;
        cache->handlers = handler->next;
        free((void *)handler->handler.name);
        free(handler);
    }
    (void)pthread_mutex_destroy(&cache->lock);
}

/* --- handlers --- */

/* Under the lock. */
static struct node_handler *find_handler(const struct definition_cache *cache, const char *name)
{
    struct node_handler *found = cache->handlers;
    while (found != NULL && (!found->is_registered || strcmp(found->handler.name, name) != 0)) {
        found = found->next;
    }
    return found;
}

/* A handler that is removed later stays in memory, so the pointer stays valid. */
const struct weir_handler *definition_cache_handler(struct definition_cache *cache, const char *name)
{
    INVARIANT(cache != NULL && name != NULL);
    (void)pthread_mutex_lock(&cache->lock);
    const struct node_handler *found = find_handler(cache, name);
    (void)pthread_mutex_unlock(&cache->lock);
    return found != NULL ? &found->handler : NULL;
}

/* One that was removed and has the same function and context, so that a program that registers and unregisters the same
 * handler for ever needs no more memory. */
static struct node_handler *find_removed(const struct definition_cache *cache, const struct weir_handler *handler)
{
    struct node_handler *found = cache->handlers;
    while (found != NULL &&
           (found->is_registered || found->handler.function != handler->function ||
            found->handler.context != handler->context || strcmp(found->handler.name, handler->name) != 0)) {
        found = found->next;
    }
    return found;
}

static struct node_handler *new_handler(struct definition_cache *cache, const struct weir_handler *handler)
{
    struct node_handler *made = calloc(1, sizeof *made);
    char *name = strdup(handler->name);
    if (made == NULL || name == NULL) {
        free(made);
        free(name);
        return NULL;
    }
    made->handler = *handler;
    made->handler.name = name;
    made->next = cache->handlers;
    cache->handlers = made;
    return made;
}

enum weir_status definition_cache_add_handler(struct definition_cache *cache, const struct weir_handler *handler,
                                              struct weir_error *error)
{
    INVARIANT(cache != NULL && handler != NULL);
    enum weir_status status = WEIR_OK;
    if (handler->name == NULL || handler->function == NULL || !name_is_valid(handler->name)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a handler needs a function and a name like \"send-mail\"");
    }
    (void)pthread_mutex_lock(&cache->lock);
    if (find_handler(cache, handler->name) != NULL) {
        status = error_set(error, WEIR_CONFLICT, "the node has a handler named \"%s\" already", handler->name);
        error_hint(error, "unregister it first, or give this one another name");
    } else {
        struct node_handler *added = find_removed(cache, handler);
        added = added != NULL ? added : new_handler(cache, handler);
        if (added == NULL) {
            status = error_out_of_memory(error);
        } else {
            added->is_registered = true;
            cache->generation++;
        }
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return status;
}

enum weir_status definition_cache_remove_handler(struct definition_cache *cache, const char *name, struct weir_error *error)
{
    INVARIANT(cache != NULL && name != NULL);
    (void)pthread_mutex_lock(&cache->lock);
    struct node_handler *handler = find_handler(cache, name);
    if (handler != NULL) {
        handler->is_registered = false;
        cache->generation++;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return handler != NULL ? WEIR_OK : error_set(error, WEIR_NOT_FOUND, "the node has no handler named \"%.64s\"", name);
}

/* --- definitions --- */

/* NULL: the node has no handler of this name, which the entry notes. */
static const struct weir_handler *take_handler(const struct definition_cache *cache, const char *name,
                                               struct definition_entry *entry)
{
    const struct node_handler *found = find_handler(cache, name);
    if (found == NULL && entry->unknown_handler == NULL) {
        entry->unknown_handler = name;
    }
    return found == NULL ? NULL : &found->handler;
}

static enum weir_status parse_entry(const struct definition_cache *cache, int64_t id, const char *text,
                                    struct definition_entry **ret_entry, struct weir_error *error)
{
    struct definition_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return error_out_of_memory(error);
    }
    struct weir_error fault = {.message = ""};
    enum weir_status status = definition_load(text, strlen(text), "definition", &entry->definition, error);
    if (status != WEIR_OK) {
        free(entry);
        return status;
    }
    const struct definition *definition = entry->definition;
    const struct definition_states *states = definition->states;
    size_t count = states != NULL ? states->count : definition->count;
    const struct weir_handler **handlers = calloc(count, sizeof(struct weir_handler *));
    if (handlers == NULL) {
        free_entry(entry);
        return error_out_of_memory(error);
    }
    for (size_t i = 0; states != NULL && i < count; i++) {
        if (states->states[i].handler != NULL) {
            handlers[i] = take_handler(cache, states->states[i].handler, entry);
        }
    }
    for (size_t i = 0; i < definition->count; i++) {
        const struct step *step = &definition->steps[i];
        if (step->kind == STEP_HANDLER) {
            handlers[i] = take_handler(cache, step->handler.name, entry);
        }
        status = step->kind == STEP_HTTP && status == WEIR_OK ? libcurl_load("an http step", &fault) : status;
        status = step->kind == STEP_HTTP && status == WEIR_OK ? libssl_load(&fault) : status;
    }
    if (status != WEIR_OK && asprintf(&entry->http_fault, "%s; %s", fault.message, fault.hint) < 0) {
        entry->http_fault = NULL;
        free((void *)handlers);
        free_entry(entry);
        return error_out_of_memory(error);
    }
    entry->id = id;
    entry->generation = cache->generation;
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

/* Takes an entry of an older generation out of its bucket. Executions may use it still, so it is freed later. */
static void replace_entry(struct definition_cache *cache, struct definition_entry **link)
{
    struct definition_entry *entry = *link;
    *link = entry->next;
    cache->count--;
    entry->next = cache->replaced;
    cache->replaced = entry;
}

static void free_replaced(struct definition_cache *cache)
{
    for (struct definition_entry **link = &cache->replaced; *link != NULL;) {
        struct definition_entry *entry = *link;
        if (atomic_load(&entry->users) == 0) {
            *link = entry->next;
            free_entry(entry);
        } else {
            link = &entry->next;
        }
    }
}

enum weir_status definition_cache_acquire(struct definition_cache *cache, int64_t id, const char *text,
                                          struct definition_entry **ret_entry, struct weir_error *error)
{
    INVARIANT(cache != NULL && ret_entry != NULL);
    enum weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&cache->lock);
    struct definition_entry **bucket = &cache->buckets[(uint64_t)id % DEFINITION_CACHE_BUCKETS];
    struct definition_entry **link = bucket;
    free_replaced(cache);
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    if (*link != NULL && (*link)->generation != cache->generation) {
        replace_entry(cache, link);
        link = NULL;
    }
    struct definition_entry *entry = link == NULL ? NULL : *link;
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
