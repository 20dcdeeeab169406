/* The meaning of an answer to a start, as a table: transport outcome and gRPC status to a decision.
 *
 * A row is certain ("nothing runs") only for an answer that proves it. Such answers are: the call never left; the
 * service refused the request before it executed it; the server refused the stream. Every other answer, and every
 * status without a row, is OUTCOME_UNKNOWN: the same start is sent again.
 *
 * It must never call a lost answer certain, because the execution would run twice. The functions are pure; any thread. */
#include "engine/temporal/outcome.h"

#include <string.h>

#include "base/error.h"

/* gRPC itself refuses large messages, with the code of throttling but without its detail. */
#define TOO_LARGE_TEXT "larger than max"
/* The service refuses a string that is no UTF-8 with the code of an internal error. */
#define UNREADABLE_TEXT "error unmarshalling request"

static void set_outcome(struct outcome *outcome, enum outcome_kind kind, const char *code)
{
    outcome->kind = kind;
    outcome->code = code;
}

/* A status is an answer of the service or of a proxy before it. */
static void classify_start_status(const struct grpc_result *result, struct outcome *outcome)
{
    switch (result->code) {
    case GRPC_OK:
        set_outcome(outcome, OUTCOME_OK, "");
        break;
    case GRPC_ALREADY_EXISTS:
        set_outcome(outcome, OUTCOME_TAKEN, "workflow_id_taken");
        break;
    case GRPC_INVALID_ARGUMENT:
        set_outcome(outcome, OUTCOME_PERMANENT, "start_refused");
        break;
    case GRPC_NOT_FOUND:
        set_outcome(outcome, OUTCOME_UNREACHABLE, "namespace_not_found");
        break;
    case GRPC_PERMISSION_DENIED:
        set_outcome(outcome, OUTCOME_UNREACHABLE, "permission_denied");
        break;
    case GRPC_UNAUTHENTICATED:
        set_outcome(outcome, OUTCOME_UNREACHABLE, "unauthenticated");
        break;
    case GRPC_FAILED_PRECONDITION:
        set_outcome(outcome, OUTCOME_UNREACHABLE, "namespace_not_ready");
        break;
    case GRPC_UNIMPLEMENTED:
        set_outcome(outcome, OUTCOME_UNREACHABLE, "not_temporal");
        break;
    case GRPC_RESOURCE_EXHAUSTED:
        if (outcome->detail.kind == DETAIL_NONE && strstr(result->message, TOO_LARGE_TEXT) != NULL) {
            set_outcome(outcome, OUTCOME_PERMANENT, "input_too_large");
        } else {
            set_outcome(outcome, OUTCOME_OVERLOAD, "throttled");
        }
        break;
    case GRPC_INTERNAL:
        if (strstr(result->message, UNREADABLE_TEXT) != NULL) {
            set_outcome(outcome, OUTCOME_PERMANENT, "start_refused");
        } else {
            set_outcome(outcome, OUTCOME_UNKNOWN, "start_unknown");
        }
        break;
    case GRPC_DEADLINE_EXCEEDED:
        set_outcome(outcome, OUTCOME_UNKNOWN, "start_unknown");
        outcome->slow = true;
        break;
    default:
        set_outcome(outcome, OUTCOME_UNKNOWN, "start_unknown");
        break;
    }
}

void outcome_classify_start(const struct grpc_result *result, struct outcome *ret_outcome)
{
    INVARIANT(result != NULL && ret_outcome != NULL);
    *ret_outcome = (struct outcome){.kind = OUTCOME_UNKNOWN, .code = "start_unknown"};
    switch (result->outcome) {
    case GRPC_NOT_SENT:
        /* A start that waited in the client until its deadline proves nothing about the target. */
        if (result->cause == GRPC_CAUSE_DEADLINE || result->cause == GRPC_CAUSE_OUT_OF_MEMORY) {
            set_outcome(ret_outcome, OUTCOME_OVERLOAD, "throttled");
        } else {
            set_outcome(ret_outcome, OUTCOME_UNREACHABLE, "engine_unreachable");
        }
        break;
    case GRPC_REFUSED:
        set_outcome(ret_outcome, OUTCOME_OVERLOAD, "throttled");
        break;
    case GRPC_STATUS:
        decode_detail(result->details, result->details_length, &ret_outcome->detail);
        classify_start_status(result, ret_outcome);
        break;
    case GRPC_UNKNOWN:
        ret_outcome->slow = result->cause == GRPC_CAUSE_DEADLINE || result->cause == GRPC_CAUSE_SILENT;
        break;
    }
}

enum reply_kind outcome_classify_reply(const struct grpc_result *result)
{
    INVARIANT(result != NULL);
    struct detail detail;
    if (result->outcome != GRPC_STATUS) {
        return REPLY_FAILED;
    }
    switch (result->code) {
    case GRPC_OK:
        return REPLY_OK;
    case GRPC_NOT_FOUND:
        decode_detail(result->details, result->details_length, &detail);
        return detail.kind == DETAIL_NAMESPACE_NOT_FOUND ? REPLY_FAILED : REPLY_NOT_FOUND;
    case GRPC_INVALID_ARGUMENT:
        return REPLY_REFUSED;
    case GRPC_RESOURCE_EXHAUSTED:
        return REPLY_THROTTLED;
    default:
        return REPLY_FAILED;
    }
}

const char *outcome_text(const struct grpc_result *result)
{
    if (result->outcome != GRPC_STATUS) {
        return result->error == NULL ? grpc_cause_name(result->cause) : result->error->message;
    }
    return result->message[0] == '\0' ? grpc_code_name(result->code) : result->message;
}
