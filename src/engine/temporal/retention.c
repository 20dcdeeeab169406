/* How long the namespace remembers closed workflows.
 *
 * A start that is sent again is safe while the service remembers the first one: it then answers with the first run. After
 * the retention the service may have forgotten a run that has ended, and the same start would begin a second one. So
 * starts.c must know the retention before it repeats an old start.
 *
 * This file requests the description of the namespace once the node has a target or holds executions. It repeats the
 * request every RETENTION_INTERVAL_US, and after RETENTION_RETRY_US when there was no answer. Until the first answer
 * TEMPORAL_RETENTION_LEAST_US holds. The search attributes are requested at the same time. A node without work does so,
 * too: its next start must not use types that the namespace no longer has.
 *
 * It must never raise the retention without an answer of the service. It runs in the engine's loop. */
#include "engine/temporal/retention.h"

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

static void handle_retention(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct namespace_answer answer;
    struct retention *retention = &engine->retention;
    (void)run;
    retention->is_requested = false;
    if (service_health_other(engine) != NULL) { /* it may be that one's answer */
        retention->due_us = time_add(temporal_now(engine), RETENTION_RETRY_US);
        return;
    }
    bool is_known = outcome_classify_reply(result) == REPLY_OK &&
                    decode_namespace(result->response, result->response_length, &answer) == WEIR_OK;
    if (is_known && answer.retention_us > 0) {
        retention->us = answer.retention_us;
    }
    if (result->outcome == GRPC_STATUS && outcome_classify_reply(result) != REPLY_THROTTLED) {
        retention->is_answered = true;
    }
    retention->due_us = time_add(temporal_now(engine), is_known ? RETENTION_INTERVAL_US : RETENTION_RETRY_US);
}

static void request_retention(struct temporal *engine, int64_t now_us)
{
    struct retention *retention = &engine->retention;
    if (atomic_load(&engine->attributes.is_answered)) { /* before the first answer target.c requests them */
        attributes_request(engine);
    }
    retention->is_requested =
        call_send_and_free(engine, NULL, NULL, METHOD_DESCRIBE_NAMESPACE, encode_describe_namespace(engine->namespace_name),
                           CALL_TIMEOUT_US, handle_retention);
    if (!retention->is_requested) {
        retention->due_us = time_add(now_us, RETENTION_RETRY_US);
    }
}

int64_t retention_step(struct temporal *engine, int64_t now_us)
{
    struct retention *retention = &engine->retention;
    INVARIANT(retention->us > 0);
    bool has_use = atomic_load(&engine->admitted) > 0 || atomic_load(&engine->target.is_known);
    if (!has_use || retention->is_requested || service_health_other(engine) != NULL) {
        return TIME_NEVER;
    }
    if (now_us >= retention->due_us) {
        request_retention(engine, now_us);
    }
    return retention->is_requested ? TIME_NEVER : retention->due_us;
}
