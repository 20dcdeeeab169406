/* Which service this is. Its address may change while executions run, and another service may answer at an old address, so
 * its identity is asked for, and the store keeps it with each execution before the start of it leaves.
 *
 * The identity is the id of the namespace, which the service makes when it registers the namespace (DescribeNamespace). It
 * stays the same by any address, and in each cluster that shares the namespace, also after a failover. The id of the
 * cluster (GetClusterInfo) would do neither: it differs between those clusters, the question needs a right on the whole
 * cluster, and development servers of one user that keep their data in memory have the same one.
 *
 * It is asked for when the node wants to know, until it is answered. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

static void ask_again(struct temporal *engine)
{
    engine->target.due_us = time_add(temporal_now(engine), TARGET_RETRY_US);
}

static void settle(struct temporal *engine, const char *service)
{
    struct report *report = report_new(REPORT_ENGINE_UP, "", 0);
    if (report == NULL) {
        ask_again(engine);
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

static void namespace_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct namespace_answer answer;
    (void)run;
    if (look_of(result) != LOOK_OK ||
        answer_describe_namespace(result->response, result->response_length, &answer) != WEIR_OK) {
        ask_again(engine);
        return;
    }
    /* Every Temporal service names its id. */
    text_copy(engine->target.service, sizeof engine->target.service, answer.id[0] != '\0' ? answer.id : engine->address);
    engine->target.due_us = temporal_now(engine);
}

/* The namespace first, then its search attributes; the first start needs both. */
static void ask(struct temporal *engine)
{
    struct service_target *target = &engine->target;
    if (target->service[0] == '\0') {
        if (!call_send_own(engine, NULL, &target->call, METHOD_DESCRIBE_NAMESPACE,
                           message_describe_namespace(engine->namespace_name), REACH_PROBE_TIMEOUT_US, namespace_done)) {
            ask_again(engine);
        }
    } else if (!atomic_load(&engine->attributes.was_asked)) {
        attributes_ask(engine);
        ask_again(engine);
    } else {
        settle(engine, target->service);
    }
}

int64_t target_step(struct temporal *engine, int64_t now_us)
{
    struct service_target *target = &engine->target;
    if (!atomic_load(&target->is_wanted) || atomic_load(&target->is_known) || target->call != NULL) {
        return TIME_NEVER;
    }
    if (now_us >= target->due_us || (target->service[0] != '\0' && atomic_load(&engine->attributes.was_asked))) {
        ask(engine);
    }
    return target->call != NULL || atomic_load(&target->is_known) ? TIME_NEVER : target->due_us;
}

bool target_read(struct temporal *engine, struct engine_target *ret_target)
{
    if (!atomic_load(&engine->target.is_known)) {
        atomic_store(&engine->target.is_wanted, true);
        return false;
    }
    (void)pthread_mutex_lock(&engine->lock);
    *ret_target = engine->target.target;
    (void)pthread_mutex_unlock(&engine->lock);
    return true;
}
