/* The identity of the service.
 *
 * The address of a service may change while executions run, and another service may answer at an old address. So each
 * execution is on record with the identity of its service before its start leaves, and only a node of the same identity
 * takes it over.
 *
 * The identity is the id of the namespace, which the service makes when it registers the namespace (DescribeNamespace). It
 * is the same by any address, and in each cluster that shares the namespace, also after a failover. The id of the cluster
 * (GetClusterInfo) would be wrong. It differs between those clusters, and the request needs a right on the whole
 * cluster. Development servers that keep their data in memory can have the same one.
 *
 * 1. The node asks for the target (target_get()); the identity is wanted from then on. Until it is known the node gets no
 *    items.
 * 2. The namespace is described until there is an answer. Its id is the identity; a service without one is known by its
 *    address.
 * 3. The search attributes are requested, because the first start needs them, too.
 * 4. From then on each connection is examined: it carries calls only after it has described the same namespace
 *    (grpc/examination.c). So another service that answers at the address later sees no call. Each later answer with the
 *    namespace is compared, too (service_health.c), for a proxy that passes calls of one connection to several services.
 * 5. The target is published under the engine's lock, and REPORT_ENGINE_UP lets the node register it.
 *
 * A published target must never change. target_get() runs in any thread, the other functions in the engine's loop. */
#include "engine/temporal/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

static void request_target_later(struct temporal *engine)
{
    engine->target.due_us = time_add(temporal_now(engine), TARGET_RETRY_US);
}

/* Without memory for the report it is tried again. */
static void publish_target(struct temporal *engine, const char *service)
{
    INVARIANT(!atomic_load(&engine->target.is_known) && service[0] != '\0');
    struct report *report = report_new(REPORT_ENGINE_UP, "", 0);
    if (report == NULL) {
        request_target_later(engine);
        return;
    }
    struct engine_target target = {.engine = "temporal"};
    text_copy(target.service, sizeof target.service, service);
    text_copy(target.namespace_name, sizeof target.namespace_name, engine->namespace_name);
    text_copy(target.address, sizeof target.address, engine->address);
    (void)pthread_mutex_lock(&engine->lock);
    engine->target.target = target;
    (void)pthread_mutex_unlock(&engine->lock);
    atomic_store(&engine->target.is_known, true);
    engine_report(&engine->base, report);
}

static void handle_identity(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct namespace_answer answer;
    (void)run;
    if (outcome_classify_reply(result) != REPLY_OK ||
        decode_namespace(result->response, result->response_length, &answer) != WEIR_OK) {
        request_target_later(engine);
        return;
    }
    text_copy(engine->target.service, sizeof engine->target.service, answer.id[0] != '\0' ? answer.id : engine->address);
    engine->target.due_us = temporal_now(engine);
}

enum target_match target_compare(const struct temporal *engine, const struct grpc_result *result, struct weir_error *error)
{
    INVARIANT(engine != NULL && result != NULL);
    struct namespace_answer answer;
    const char *expected = engine->target.service;
    if (outcome_classify_reply(result) != REPLY_OK ||
        decode_namespace(result->response, result->response_length, &answer) != WEIR_OK) {
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE,
                        "the service at %.200s does not describe the namespace '%.100s': %.200s", engine->address,
                        engine->namespace_name, outcome_text(result));
        return TARGET_UNREADABLE;
    }
    const char *found = answer.id[0] != '\0' ? answer.id : engine->address;
    if (expected[0] == '\0' || strcmp(found, expected) == 0) {
        return TARGET_MATCHES;
    }
    (void)error_set(error, WEIR_ENGINE_UNREACHABLE,
                    "another service answers at %.200s: namespace id %.100s, expected %.100s; nothing is started or ended "
                    "until the expected one answers: mend the address, or restart the node if the new service is meant",
                    engine->address, found, expected);
    return TARGET_DIFFERS;
}

static enum grpc_verdict judge_connection(void *context, const struct grpc_result *result, struct weir_error *error)
{
    switch (target_compare(context, result, error)) {
    case TARGET_MATCHES:
        return GRPC_VERDICT_EXPECTED;
    case TARGET_DIFFERS:
        return GRPC_VERDICT_OTHER;
    case TARGET_UNREADABLE:
        break;
    }
    return GRPC_VERDICT_UNCLEAR;
}

/* Step 4. False: out of memory. */
static bool examine_connections(struct temporal *engine)
{
    if (engine->wire.examine == NULL || engine->target.is_examined) {
        return true;
    }
    struct bytes message = encode_describe_namespace(engine->namespace_name);
    struct grpc_examination examination = {.path = method_path(METHOD_DESCRIBE_NAMESPACE),
                                           .message = message.data,
                                           .message_length = message.length,
                                           .timeout_us = GRPC_CONNECT_TIMEOUT_US,
                                           .judge = judge_connection,
                                           .context = engine};
    struct weir_error error;
    engine->target.is_examined =
        message.data != NULL && engine->wire.examine(engine->wire.context, &examination, &error) == WEIR_OK;
    free(message.data);
    return engine->target.is_examined;
}

/* Steps 2 to 5, one for each call. */
static void request_target(struct temporal *engine)
{
    struct service_target *target = &engine->target;
    if (target->service[0] == '\0') {
        if (!call_send_and_free(engine, NULL, &target->call, METHOD_DESCRIBE_NAMESPACE,
                                encode_describe_namespace(engine->namespace_name), HEALTH_PROBE_TIMEOUT_US,
                                handle_identity)) {
            request_target_later(engine);
        }
    } else if (!atomic_load(&engine->attributes.is_answered)) {
        attributes_request(engine);
        request_target_later(engine);
    } else if (service_health_other(engine) == NULL && examine_connections(engine)) {
        publish_target(engine, target->service);
    } else {
        request_target_later(engine);
    }
}

int64_t target_step(struct temporal *engine, int64_t now_us)
{
    INVARIANT(engine != NULL);
    struct service_target *target = &engine->target;
    if (!atomic_load(&target->is_wanted) || atomic_load(&target->is_known) || target->call != NULL) {
        return TIME_NEVER;
    }
    if (now_us >= target->due_us || (target->service[0] != '\0' && atomic_load(&engine->attributes.is_answered))) {
        request_target(engine);
    }
    return target->call != NULL || atomic_load(&target->is_known) ? TIME_NEVER : target->due_us;
}

bool target_get(struct temporal *engine, struct engine_target *ret_target)
{
    INVARIANT(ret_target != NULL);
    if (!atomic_load(&engine->target.is_known)) {
        atomic_store(&engine->target.is_wanted, true);
        return false;
    }
    (void)pthread_mutex_lock(&engine->lock);
    *ret_target = engine->target.target;
    (void)pthread_mutex_unlock(&engine->lock);
    return true;
}
