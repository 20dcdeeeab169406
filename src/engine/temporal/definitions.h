/* The definitions of workflows in memory, so that a start reads none of them again.
 *
 * Any thread; entries are counted references. Owner: the engine.
 */
#ifndef WEIR_ENGINE_TEMPORAL_DEFINITIONS_H
#define WEIR_ENGINE_TEMPORAL_DEFINITIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include "definition/definition.h"

enum { DEFINITIONS_CACHED = 256 };

struct cached_definition {
    atomic_int references;
    int64_t id;
    struct definition *definition;
};

struct definitions {
    pthread_mutex_t lock;
    struct cached_definition *entries[DEFINITIONS_CACHED];
};

void definitions_init(struct definitions *definitions);
void definitions_close(struct definitions *definitions);
/* The definition of this id; `text` is its text in the store. The caller releases *ret_cached. */
WEIR_MUST_CHECK enum weir_status definitions_get(struct definitions *definitions, int64_t id, const char *text,
                                                 struct cached_definition **ret_cached, struct weir_error *error);
/* Takes NULL. */
void definitions_release(struct cached_definition *cached);

#endif
