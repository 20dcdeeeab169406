/* The definitions that starts have used lately, read once.
 *
 * A table has one entry for each remainder of the definition's id; a definition with the same remainder replaces the older
 * one. Entries have a count of references: a start may use a definition after another start has replaced it.
 *
 * An entry must never be freed while a start uses it. Any thread; the table has a lock of its own. */
#include "engine/temporal/definitions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void definitions_init(struct definitions *definitions)
{
    INVARIANT(definitions != NULL);
    memset(definitions, 0, sizeof *definitions);
    (void)pthread_mutex_init(&definitions->lock, NULL);
}

void definitions_release(struct cached_definition *cached)
{
    INVARIANT(cached == NULL || atomic_load(&cached->references) > 0);
    if (cached != NULL && atomic_fetch_sub(&cached->references, 1) == 1) {
        definition_close(cached->definition);
        free(cached);
    }
}

void definitions_close(struct definitions *definitions)
{
    INVARIANT(definitions != NULL);
    for (size_t i = 0; i < DEFINITIONS_CACHED; i++) {
        definitions_release(definitions->entries[i]);
    }
    (void)pthread_mutex_destroy(&definitions->lock);
}

/* Parses the text into a new entry with one reference. */
static enum weir_status load_definition(int64_t id, const char *text, struct cached_definition **ret_cached,
                                        struct weir_error *error)
{
    struct cached_definition *cached = calloc(1, sizeof *cached);
    if (cached == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = definition_load(text, strlen(text), "definition", &cached->definition, error);
    if (status != WEIR_OK) {
        free(cached);
        return status;
    }
    cached->id = id;
    atomic_init(&cached->references, 1);
    *ret_cached = cached;
    return WEIR_OK;
}

enum weir_status definitions_get(struct definitions *definitions, int64_t id, const char *text,
                                 struct cached_definition **ret_cached, struct weir_error *error)
{
    INVARIANT(text != NULL && ret_cached != NULL);
    struct cached_definition **place = &definitions->entries[(uint64_t)id % DEFINITIONS_CACHED];
    struct cached_definition *fresh = NULL;
    enum weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&definitions->lock);
    if (*place == NULL || (*place)->id != id) {
        status = load_definition(id, text, &fresh, error);
        if (status == WEIR_OK) {
            definitions_release(*place);
            *place = fresh;
        }
    }
    if (status == WEIR_OK) {
        atomic_fetch_add(&(*place)->references, 1);
        *ret_cached = *place;
    }
    (void)pthread_mutex_unlock(&definitions->lock);
    return status;
}
