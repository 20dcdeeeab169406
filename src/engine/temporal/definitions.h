/* What the engine remembers of workflow definitions, so that a start reads none of them again.
 *
 * Any thread; entries are counted references. Owner: the engine.
 */
#ifndef WEIR_ENGINE_TEMPORAL_DEFINITIONS_H
#define WEIR_ENGINE_TEMPORAL_DEFINITIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include "definition/definition.h"

enum { DEFINITIONS_KEPT = 256 };

struct kept_workflow {
    atomic_int references;
    int64_t id;
    struct definition *definition;
};

struct definitions {
    pthread_mutex_t lock;
    struct kept_workflow *kept[DEFINITIONS_KEPT];
};

void definitions_init(struct definitions *definitions);
void definitions_close(struct definitions *definitions);
/* `text` is what the store keeps under `id`. The caller releases what he gets. */
WEIR_MUST_CHECK enum weir_status definitions_get(struct definitions *definitions, int64_t id, const char *text,
                                                 struct kept_workflow **ret_kept, struct weir_error *error);
/* Takes NULL. */
void definitions_release(struct kept_workflow *kept);

#endif
