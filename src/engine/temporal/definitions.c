#include "engine/temporal/definitions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void definitions_init(struct definitions *definitions)
{
    memset(definitions, 0, sizeof *definitions);
    (void)pthread_mutex_init(&definitions->lock, NULL);
}

void definitions_release(struct kept_workflow *kept)
{
    if (kept != NULL && atomic_fetch_sub(&kept->references, 1) == 1) {
        definition_close(kept->definition);
        free(kept);
    }
}

void definitions_close(struct definitions *definitions)
{
    for (size_t i = 0; i < DEFINITIONS_KEPT; i++) {
        definitions_release(definitions->kept[i]);
    }
    (void)pthread_mutex_destroy(&definitions->lock);
}

static enum weir_status keep(int64_t id, const char *text, struct kept_workflow **ret_kept, struct weir_error *error)
{
    struct kept_workflow *kept = calloc(1, sizeof *kept);
    if (kept == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = definition_load(text, strlen(text), "definition", &kept->definition, error);
    if (status != WEIR_OK) {
        free(kept);
        return status;
    }
    kept->id = id;
    atomic_init(&kept->references, 1);
    *ret_kept = kept;
    return WEIR_OK;
}

enum weir_status definitions_get(struct definitions *definitions, int64_t id, const char *text,
                                 struct kept_workflow **ret_kept, struct weir_error *error)
{
    struct kept_workflow **place = &definitions->kept[(uint64_t)id % DEFINITIONS_KEPT];
    struct kept_workflow *fresh = NULL;
    enum weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&definitions->lock);
    if (*place == NULL || (*place)->id != id) {
        status = keep(id, text, &fresh, error);
        if (status == WEIR_OK) {
            definitions_release(*place);
            *place = fresh;
        }
    }
    if (status == WEIR_OK) {
        atomic_fetch_add(&(*place)->references, 1);
        *ret_kept = *place;
    }
    (void)pthread_mutex_unlock(&definitions->lock);
    return status;
}
