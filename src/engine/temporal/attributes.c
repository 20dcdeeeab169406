/* The search attributes of the namespace: whether it has one for the workspace, and of which type the others are.
 *
 * They are asked for before the node gets its first items, and again with the namespace. A service that does not let us ask
 * (no right, no OperatorService, or a proxy that swallows the question) is used without them: then no start has the
 * workspace in it, and the service itself finds the types. A definition may name an attribute that is not known here. Only
 * the service decides: it may be new. */
#include <stdlib.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

static void replace(struct temporal *engine, json_t *types)
{
    (void)pthread_mutex_lock(&engine->lock);
    json_t *before = engine->attributes.types;
    engine->attributes.types = types;
    (void)pthread_mutex_unlock(&engine->lock);
    json_decref(before);
}

static void list_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    json_t *types = NULL;
    (void)run;
    if (look_of(result) == LOOK_OK &&
        answer_list_attributes(result->response, result->response_length, &types) == WEIR_OK) {
        replace(engine, types);
    }
    bool is_answer = result->outcome == GRPC_STATUS && look_of(result) != LOOK_THROTTLED;
    engine->attributes.failures = is_answer ? 0 : engine->attributes.failures + 1;
    if (is_answer || engine->attributes.failures >= REACH_FAILURES_MAX) {
        atomic_store(&engine->attributes.was_asked, true);
    }
}

void attributes_ask(struct temporal *engine)
{
    struct known_attributes *attributes = &engine->attributes;
    if (attributes->call == NULL) {
        /* The caller repeats a question that could not be sent. */
        (void)call_send_own(engine, NULL, &attributes->call, METHOD_LIST_ATTRIBUTES,
                            message_list_attributes(engine->namespace_name), REACH_PROBE_TIMEOUT_US, list_done);
    }
}

json_t *attributes_types(struct temporal *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    json_t *types = json_incref(engine->attributes.types);
    (void)pthread_mutex_unlock(&engine->lock);
    return types;
}

void attributes_drop_workspace(struct temporal *engine)
{
    json_t *before = attributes_types(engine);
    json_t *types = json_copy(before); /* starts of other threads may read the one before */
    (void)json_object_del(types, TEMPORAL_WORKSPACE_ATTRIBUTE);
    replace(engine, types);
    json_decref(before);
}

void attributes_close(struct temporal *engine)
{
    json_decref(engine->attributes.types);
}
