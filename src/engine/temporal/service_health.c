/* Whether the service is there, also while nothing is started: each call's answer tells, and when none came lately, one
 * failed, or those that were sent wait on a connection that is silent, the namespace is asked for. Only what such a probe
 * says decides: many calls that die with one connection are one failure, and the next connection may be there at once. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

enum heard { HEARD_NOTHING, HEARD_ANSWER, HEARD_FAILURE };

static enum heard of_status(const struct grpc_result *result, enum method method)
{
    struct detail detail;
    if (result->code == GRPC_UNAVAILABLE || result->code == GRPC_DEADLINE_EXCEEDED) {
        return HEARD_FAILURE;
    }
    if (result->code != GRPC_NOT_FOUND) {
        return HEARD_ANSWER;
    }
    detail_read(result->details, result->details_length, &detail);
    if (detail.kind != DETAIL_NAMESPACE_NOT_FOUND) {
        return HEARD_ANSWER;
    }
    return method == METHOD_START ? HEARD_NOTHING : HEARD_FAILURE; /* starts speak for themselves */
}

static enum heard heard_of(const struct grpc_result *result, enum method method)
{
    switch (result->cause) {
    case GRPC_CAUSE_CANCELLED:
    case GRPC_CAUSE_CLOSED:
    case GRPC_CAUSE_OUT_OF_MEMORY:
        return HEARD_NOTHING;
    case GRPC_CAUSE_ANSWER_TOO_LARGE:
        return HEARD_ANSWER;
    default:
        break;
    }
    if (result->outcome == GRPC_STATUS) {
        return of_status(result, method);
    }
    /* Refused streams come from a server that drains; a start may have waited for its turn behind others. */
    bool waited = result->outcome == GRPC_NOT_SENT && result->cause == GRPC_CAUSE_DEADLINE && method == METHOD_START;
    return result->outcome == GRPC_REFUSED || waited ? HEARD_NOTHING : HEARD_FAILURE;
}

static void say(struct temporal *engine, enum report_kind kind, const char *text)
{
    struct report *report = report_new(kind, "", 0);
    if (report == NULL) {
        return; /* a later probe says it again */
    }
    if (text != NULL) {
        text_copy(report->error_code, sizeof report->error_code, "engine_unreachable");
        report->error = strdup(text);
    }
    engine_report(&engine->base, report);
}

void reach_hear(struct temporal *engine, enum method method, bool is_probe, const struct grpc_result *result)
{
    struct reach *reach = &engine->reach;
    int64_t now_us = temporal_now(engine);
    enum heard heard = heard_of(result, method);
    if (heard == HEARD_ANSWER) {
        bool was_down = reach->failures >= REACH_FAILURES_MAX;
        reach->failures = 0;
        reach->due_us = time_add(now_us, REACH_QUIET_US);
        if (was_down) {
            say(engine, REPORT_ENGINE_UP, NULL);
            run_hurry_all(engine);
            follow_hurry(engine);
        }
    } else if (is_probe) {
        reach->due_us = time_add(now_us, REACH_PROBE_INTERVAL_US);
        if (heard == HEARD_FAILURE) {
            reach->failures += reach->failures < REACH_FAILURES_MAX;
        }
        /* Each time: an answer from before the outage may still be on its way and say that all is well. */
        if (reach->failures >= REACH_FAILURES_MAX) {
            say(engine, REPORT_ENGINE_DOWN, outcome_text(result));
        }
    } else if (heard == HEARD_FAILURE && reach->failures == 0) {
        reach->failures = 1;
        reach->due_us = now_us;
    }
}

static void probe_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    (void)engine; /* reach_hear() has heard it, as it hears every call */
    (void)run;
    (void)result;
}

int64_t reach_step(struct temporal *engine, int64_t now_us)
{
    struct reach *reach = &engine->reach;
    if (reach->failures == 0 && engine->wire.is_silent(engine->wire.context)) {
        reach->failures = 1; /* as a call that failed, of which those that wait hear at their deadlines only */
        reach->due_us = now_us;
    }
    if (reach->probe != NULL) {
        return TIME_NEVER;
    }
    if (now_us >= reach->due_us &&
        !call_send_own(engine, NULL, &reach->probe, METHOD_DESCRIBE_NAMESPACE,
                       message_describe_namespace(engine->namespace_name), REACH_PROBE_TIMEOUT_US, probe_done)) {
        reach->due_us = time_add(now_us, REACH_PROBE_INTERVAL_US);
    }
    return reach->probe != NULL ? TIME_NEVER : reach->due_us;
}
