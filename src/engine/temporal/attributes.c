/* The search attributes of the namespace: whether it has the one for the workspace, and the types of the other ones.
 *
 * They are requested before the node gets its first items (target.c), and again with the retention (retention.c). A
 * service that does not answer the request (no right, no OperatorService, a proxy that drops it) is used without them.
 * Then no start has the workspace in it, and the service itself finds the types. A definition may name an attribute
 * that is not known here: it may be new, and only the service decides.
 *
 * The set of types is never changed, only replaced under the engine's lock, because starts in other threads read it.
 *
 * attributes_get_types() runs in any thread, the other functions in the engine's loop. */
#include "engine/temporal/attributes.h"

#include <stdlib.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

static void replace_types(struct temporal *engine, json_t *types)
{
    (void)pthread_mutex_lock(&engine->lock);
    json_t *before = engine->attributes.types;
    engine->attributes.types = types;
    (void)pthread_mutex_unlock(&engine->lock);
    json_decref(before);
}

static void handle_attributes(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    json_t *types = NULL;
    (void)run;
    if (service_health_other(engine) != NULL) { /* it may be that one's answer; retention.c requests them again */
        return;
    }
    if (outcome_classify_reply(result) == REPLY_OK &&
        decode_attributes(result->response, result->response_length, &types) == WEIR_OK) {
        replace_types(engine, types);
    }
    bool is_answer = result->outcome == GRPC_STATUS && outcome_classify_reply(result) != REPLY_THROTTLED;
    engine->attributes.failures = is_answer ? 0 : engine->attributes.failures + 1;
    if (is_answer || engine->attributes.failures >= HEALTH_FAILURES_MAX) {
        atomic_store(&engine->attributes.is_answered, true);
    }
}

void attributes_request(struct temporal *engine)
{
    INVARIANT(engine != NULL);
    struct known_attributes *attributes = &engine->attributes;
    if (attributes->call == NULL) {
        /* The caller repeats a request that could not be sent. */
        (void)call_send_and_free(engine, NULL, &attributes->call, METHOD_LIST_ATTRIBUTES,
                                 encode_list_attributes(engine->namespace_name), HEALTH_PROBE_TIMEOUT_US,
                                 handle_attributes);
    }
}

json_t *attributes_get_types(struct temporal *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    json_t *types = json_incref(engine->attributes.types);
    (void)pthread_mutex_unlock(&engine->lock);
    return types;
}

void attributes_drop_workspace(struct temporal *engine)
{
    json_t *before = attributes_get_types(engine);
    json_t *types = json_copy(before); /* other threads may read the old set */
    (void)json_object_del(types, TEMPORAL_WORKSPACE_ATTRIBUTE);
    replace_types(engine, types);
    json_decref(before);
}

void attributes_close(struct temporal *engine)
{
    json_decref(engine->attributes.types);
}
