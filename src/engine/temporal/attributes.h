/* The search attributes of the namespace (attributes.c). The loop owns them; `types` is shared under the engine's lock. */
#ifndef WEIR_ENGINE_TEMPORAL_ATTRIBUTES_H
#define WEIR_ENGINE_TEMPORAL_ATTRIBUTES_H

#include <jansson.h>
#include <stdatomic.h>

struct temporal;
struct call;

struct known_attributes {
    json_t *types;           /* as in struct start_message; never changed, only replaced. NULL: not known */
    atomic_bool is_answered; /* the service has reported them, or has refused to */
    int failures;            /* requests without an answer, in a row */
    struct call *call;
};

/* Requests them, unless a request is under way. */
void attributes_request(struct temporal *engine);
/* Any thread. The types, or NULL; the caller releases them, and does not change them. */
json_t *attributes_get_types(struct temporal *engine);
/* The namespace does not have TEMPORAL_WORKSPACE_ATTRIBUTE any more. */
void attributes_drop_workspace(struct temporal *engine);
void attributes_close(struct temporal *engine);

#endif
