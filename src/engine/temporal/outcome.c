#include "engine/temporal/outcome.h"

#include <string.h>

/* Sizes are refused by gRPC itself, with the code of throttling but without its detail. */
#define TOO_LARGE_WORDS "larger than max"
/* A string that is no UTF-8, with the code of an internal error. */
#define UNREADABLE_WORDS "error unmarshalling request"

static void set(struct outcome *outcome, enum outcome_kind kind, const char *code)
{
    outcome->kind = kind;
    outcome->code = code;
}

static void of_status(const struct grpc_result *result, struct outcome *outcome)
{
    switch (result->code) {
    case GRPC_OK:
        set(outcome, OUTCOME_OK, "");
        break;
    case GRPC_ALREADY_EXISTS:
        set(outcome, OUTCOME_TAKEN, "workflow_id_taken");
        break;
    case GRPC_INVALID_ARGUMENT:
        set(outcome, OUTCOME_PERMANENT, "start_refused");
        break;
    case GRPC_NOT_FOUND:
        set(outcome, OUTCOME_UNREACHABLE, "namespace_not_found");
        break;
    case GRPC_PERMISSION_DENIED:
        set(outcome, OUTCOME_UNREACHABLE, "permission_denied");
        break;
    case GRPC_UNAUTHENTICATED:
        set(outcome, OUTCOME_UNREACHABLE, "unauthenticated");
        break;
    case GRPC_FAILED_PRECONDITION:
        set(outcome, OUTCOME_UNREACHABLE, "namespace_not_ready");
        break;
    case GRPC_UNIMPLEMENTED:
        set(outcome, OUTCOME_UNREACHABLE, "not_temporal");
        break;
    case GRPC_RESOURCE_EXHAUSTED:
        if (outcome->detail.kind == DETAIL_NONE && strstr(result->message, TOO_LARGE_WORDS) != NULL) {
            set(outcome, OUTCOME_PERMANENT, "input_too_large");
        } else {
            set(outcome, OUTCOME_OVERLOAD, "throttled");
        }
        break;
    case GRPC_INTERNAL:
        if (strstr(result->message, UNREADABLE_WORDS) != NULL) {
            set(outcome, OUTCOME_PERMANENT, "start_refused");
        } else {
            set(outcome, OUTCOME_UNKNOWN, "start_unknown");
        }
        break;
    case GRPC_DEADLINE_EXCEEDED:
        set(outcome, OUTCOME_UNKNOWN, "start_unknown");
        outcome->slow = true;
        break;
    default:
        set(outcome, OUTCOME_UNKNOWN, "start_unknown");
        break;
    }
}

void outcome_of_start(const struct grpc_result *result, struct outcome *ret_outcome)
{
    *ret_outcome = (struct outcome){.kind = OUTCOME_UNKNOWN, .code = "start_unknown"};
    switch (result->outcome) {
    case GRPC_NOT_SENT:
        /* A start that waited for its turn behind others until its time was over says nothing about the target. */
        if (result->cause == GRPC_CAUSE_DEADLINE || result->cause == GRPC_CAUSE_OUT_OF_MEMORY) {
            set(ret_outcome, OUTCOME_OVERLOAD, "throttled");
        } else {
            set(ret_outcome, OUTCOME_UNREACHABLE, "engine_unreachable");
        }
        break;
    case GRPC_REFUSED:
        set(ret_outcome, OUTCOME_OVERLOAD, "throttled");
        break;
    case GRPC_STATUS:
        detail_read(result->details, result->details_length, &ret_outcome->detail);
        of_status(result, ret_outcome);
        break;
    case GRPC_UNKNOWN:
        ret_outcome->slow = result->cause == GRPC_CAUSE_DEADLINE || result->cause == GRPC_CAUSE_SILENT;
        break;
    }
}

enum look_kind look_of(const struct grpc_result *result)
{
    struct detail detail;
    if (result->outcome != GRPC_STATUS) {
        return LOOK_FAILED;
    }
    switch (result->code) {
    case GRPC_OK:
        return LOOK_OK;
    case GRPC_NOT_FOUND:
        detail_read(result->details, result->details_length, &detail);
        return detail.kind == DETAIL_NAMESPACE_NOT_FOUND ? LOOK_FAILED : LOOK_NOT_FOUND;
    case GRPC_INVALID_ARGUMENT:
        return LOOK_REFUSED;
    case GRPC_RESOURCE_EXHAUSTED:
        return LOOK_THROTTLED;
    default:
        return LOOK_FAILED;
    }
}

const char *outcome_text(const struct grpc_result *result)
{
    if (result->outcome != GRPC_STATUS) {
        return result->error == NULL ? grpc_cause_name(result->cause) : result->error->message;
    }
    return result->message[0] == '\0' ? grpc_code_name(result->code) : result->message;
}
