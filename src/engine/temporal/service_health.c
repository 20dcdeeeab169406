/* Whether the service can be reached, even while no execution is started.
 *
 * Each call's result is evidence. The algorithm:
 *
 * 1. An answer of the service proves that it is up: the count of failures returns to 0. Exceptions are the statuses
 *    UNAVAILABLE and DEADLINE_EXCEEDED, which a proxy may give, and a namespace that is missing.
 * 2. One failed call, or a connection that is silent while calls wait on it, counts as the first failure. Many calls that
 *    end with one connection are one failure, because the next connection may be there at once.
 * 3. After a first failure, after HEALTH_QUIET_US without an answer, and every HEALTH_IDENTITY_US, the service is probed:
 *    the engine requests the description of the namespace.
 * 4. Only a failed probe raises the count further. At HEALTH_FAILURES_MAX the service is down, and the node's breaker
 *    opens.
 * 5. Each further failed probe repeats REPORT_ENGINE_DOWN: an answer from before the outage may still be on its way.
 * 6. The first answer after that closes the breaker, and all delayed repetitions are due at once.
 *
 * Another service may answer at the address. The connections are examined (target.c), and beside that each answer with the
 * namespace is compared here. While it has another id, the engine is down, other answers are no evidence, and all
 * connections are examined again; the answer of the expected service ends it.
 *
 * A service that does not describe the namespace, as without the right to, cannot be told from another one: an absence is
 * not proved, and the execution keeps its slot. That must be seen, so it is reported as REPORT_ENGINE_IMPAIRED after
 * HEALTH_UNCONFIRMED_US. The node goes on to start executions.
 *
 * A refused start is no evidence against the service. It must never change the state of a run itself.
 *
 * It runs in the engine's loop. */
#include "engine/temporal/service_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

#define UNREACHABLE_CODE "engine_unreachable"

enum evidence { EVIDENCE_NONE, EVIDENCE_UP, EVIDENCE_DOWN };

/* A start with a missing namespace reports that itself (outcome.c). */
static enum evidence evidence_of_status(const struct grpc_result *result, enum method method)
{
    struct detail detail;
    if (result->code == GRPC_UNAVAILABLE || result->code == GRPC_DEADLINE_EXCEEDED) {
        return EVIDENCE_DOWN;
    }
    if (result->code != GRPC_NOT_FOUND) {
        return EVIDENCE_UP;
    }
    decode_detail(result->details, result->details_length, &detail);
    if (detail.kind != DETAIL_NAMESPACE_NOT_FOUND) {
        return EVIDENCE_UP;
    }
    return method == METHOD_START ? EVIDENCE_NONE : EVIDENCE_DOWN;
}

/* A call that the engine itself ended, or that never left for want of memory, is no evidence. */
static enum evidence evidence_of_result(const struct grpc_result *result, enum method method)
{
    switch (result->cause) {
    case GRPC_CAUSE_CANCELLED:
    case GRPC_CAUSE_CLOSED:
    case GRPC_CAUSE_OUT_OF_MEMORY:
        return EVIDENCE_NONE;
    case GRPC_CAUSE_ANSWER_TOO_LARGE:
        return EVIDENCE_UP;
    default:
        break;
    }
    if (result->outcome == GRPC_STATUS) {
        return evidence_of_status(result, method);
    }
    /* A server that drains refuses streams. A start may have waited in the client behind other starts. */
    bool waited = result->outcome == GRPC_NOT_SENT && result->cause == GRPC_CAUSE_DEADLINE && method == METHOD_START;
    return result->outcome == GRPC_REFUSED || waited ? EVIDENCE_NONE : EVIDENCE_DOWN;
}

static void report_health(struct temporal *engine, enum report_kind kind, const char *code, const char *text)
{
    struct report *report = report_new(kind, "", 0);
    if (report == NULL) {
        return; /* a later probe reports it again */
    }
    if (text != NULL) {
        text_copy(report->error_code, sizeof report->error_code, code);
        report->error = strdup(text);
    }
    engine_report(&engine->base, report);
}

const char *service_health_other(const struct temporal *engine)
{
    return engine->health.other[0] == '\0' ? NULL : engine->health.other;
}

bool service_health_confirm(struct temporal *engine, int64_t since_us)
{
    INVARIANT(engine != NULL && since_us >= 0);
    struct service_health *health = &engine->health;
    bool is_confirmed =
        service_health_other(engine) == NULL && since_us > health->other_us && health->confirmed_us >= since_us;
    if (!is_confirmed && health->wanted_us < since_us) {
        health->waits_us = health->confirmed_us >= health->wanted_us ? temporal_now(engine) : health->waits_us;
        health->wanted_us = since_us;
    }
    return is_confirmed;
}

static void note_other_service(struct temporal *engine, const char *text)
{
    struct service_health *health = &engine->health;
    text_copy(health->other, sizeof health->other, text);
    health->other_us = temporal_now(engine);
    health->failures = HEALTH_FAILURES_MAX;
    health->due_us = time_add(health->other_us, HEALTH_PROBE_INTERVAL_US);
    report_health(engine, REPORT_ENGINE_DOWN, UNREACHABLE_CODE, text);
    if (engine->wire.examine_again != NULL) {
        engine->wire.examine_again(engine->wire.context);
    }
}

static void note_confirmation(struct temporal *engine)
{
    struct service_health *health = &engine->health;
    if (service_health_other(engine) != NULL) {
        engine->retention.due_us = temporal_now(engine); /* it and the search attributes may be those of the other one */
    }
    health->other[0] = '\0';
    health->confirmed_us = health->probe_sent_us;
    health->waits_us = temporal_now(engine);
    if (health->is_unconfirmed) {
        health->is_unconfirmed = false;
        if (!engine->sweep.is_impaired) {
            report_health(engine, REPORT_ENGINE_SOUND, NULL, NULL);
        }
    }
}

/* `error` has the answer of the service. An outage is reported as such. */
static void note_no_confirmation(struct temporal *engine, const struct weir_error *error)
{
    struct service_health *health = &engine->health;
    char text[WEIR_ERROR_MESSAGE_MAX + 256];
    int64_t now_us = temporal_now(engine);
    if (health->confirmed_us >= health->wanted_us || health->failures >= HEALTH_FAILURES_MAX ||
        now_us < time_add(health->waits_us, HEALTH_UNCONFIRMED_US)) {
        return;
    }
    (void)snprintf(text, sizeof text,
                   "%s; a workflow that it does not find keeps its slot until it does: give the node the right to describe "
                   "its namespace",
                   error->message);
    health->is_unconfirmed = true;
    health->waits_us = now_us;
    report_health(engine, REPORT_ENGINE_IMPAIRED, "service_not_confirmed", text);
}

/* Compares an answer with the namespace. False: another service gave it, which is noted. */
static bool compare_service(struct temporal *engine, bool is_probe, const struct grpc_result *result)
{
    struct weir_error error;
    switch (target_compare(engine, result, &error)) {
    case TARGET_DIFFERS:
        note_other_service(engine, error.message);
        return false;
    case TARGET_MATCHES:
        if (is_probe &&
            engine->health.probe_sent_us >= engine->health.other_us) { /* not asked before the other one answered */
            note_confirmation(engine);
        }
        return true;
    case TARGET_UNREADABLE:
        if (is_probe) {
            note_no_confirmation(engine, &error);
        }
        break;
    }
    return true;
}

void service_health_note_result(struct temporal *engine, enum method method, bool is_probe,
                                const struct grpc_result *result)
{
    INVARIANT(result != NULL && (unsigned)method < METHOD_COUNT);
    struct service_health *health = &engine->health;
    int64_t now_us = temporal_now(engine);
    enum evidence evidence = evidence_of_result(result, method);
    if (method == METHOD_DESCRIBE_NAMESPACE && !compare_service(engine, is_probe, result)) {
        return;
    }
    if (evidence == EVIDENCE_UP && service_health_other(engine) != NULL) {
        evidence = EVIDENCE_NONE;
    }
    if (evidence == EVIDENCE_UP) {
        bool was_down = health->failures >= HEALTH_FAILURES_MAX;
        health->failures = 0;
        health->due_us = time_add(now_us, HEALTH_QUIET_US);
        if (was_down) {
            report_health(engine, REPORT_ENGINE_UP, NULL, NULL);
            run_retry_all_now(engine);
            close_sweep_resume(engine);
        }
    } else if (is_probe) {
        health->due_us = time_add(now_us, HEALTH_PROBE_INTERVAL_US);
        if (evidence == EVIDENCE_DOWN) {
            health->failures += health->failures < HEALTH_FAILURES_MAX;
        }
        /* step 5 */
        if (health->failures >= HEALTH_FAILURES_MAX) {
            report_health(engine, REPORT_ENGINE_DOWN, UNREACHABLE_CODE, outcome_text(result));
        }
    } else if (evidence == EVIDENCE_DOWN && health->failures == 0) {
        health->failures = 1;
        health->due_us = now_us;
    }
}

static void ignore_probe_answer(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    (void)engine; /* service_health_note_result() has it, as it has every result */
    (void)run;
    (void)result;
}

/* A wanted confirmation does not wait for a quiet time. */
static int64_t probe_due_us(const struct temporal *engine)
{
    const struct service_health *health = &engine->health;
    int64_t distance_us = health->confirmed_us < health->wanted_us ? HEALTH_PROBE_INTERVAL_US
                          : atomic_load(&engine->target.is_known)  ? HEALTH_IDENTITY_US
                                                                   : TIME_NEVER;
    return time_earlier(health->due_us, time_add(health->probe_sent_us, distance_us));
}

int64_t service_health_step(struct temporal *engine, int64_t now_us)
{
    INVARIANT(engine->health.failures <= HEALTH_FAILURES_MAX);
    struct service_health *health = &engine->health;
    if (health->failures == 0 && engine->wire.is_silent(engine->wire.context)) {
        health->failures = 1; /* the calls that wait would fail only at their deadlines */
        health->due_us = now_us;
    }
    if (health->probe != NULL) {
        return TIME_NEVER;
    }
    if (now_us >= probe_due_us(engine)) {
        health->probe_sent_us = now_us;
        if (!call_send_and_free(engine, NULL, &health->probe, METHOD_DESCRIBE_NAMESPACE,
                                encode_describe_namespace(engine->namespace_name), HEALTH_PROBE_TIMEOUT_US,
                                ignore_probe_answer)) {
            health->due_us = time_add(now_us, HEALTH_PROBE_INTERVAL_US);
        }
    }
    return health->probe != NULL ? TIME_NEVER : probe_due_us(engine);
}
