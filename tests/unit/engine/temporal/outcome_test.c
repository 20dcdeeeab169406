/* The meaning of each answer to a start. The rows are observed answers of a real server, and every code of gRPC. */
#include "support/test.h"

#include "engine/temporal/outcome.h"

struct row {
    const char *what;
    enum grpc_outcome outcome;
    enum grpc_cause cause;
    int code;
    const char *message;
    enum outcome_kind kind;
    const char *word;
    bool slow;
};

static const struct row rows[] = {
    {"it ran", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_OK, "", OUTCOME_OK, "", false},
    {"the id exists", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_ALREADY_EXISTS, "Workflow execution is already running.",
     OUTCOME_TAKEN, "workflow_id_taken", false},
    {"a wrong argument", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_INVALID_ARGUMENT, "Blob data size exceeds limit.",
     OUTCOME_PERMANENT, "start_refused", false},
    {"larger than gRPC takes", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_RESOURCE_EXHAUSTED,
     "grpc: received message larger than max (4194365 vs. 4194304)", OUTCOME_PERMANENT, "input_too_large", false},
    {"text that is no UTF-8", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_INTERNAL,
     "grpc: error unmarshalling request: string field contains invalid UTF-8", OUTCOME_PERMANENT, "start_refused", false},
    {"throttled, by the code alone", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_RESOURCE_EXHAUSTED, "slow down", OUTCOME_OVERLOAD,
     "throttled", false},
    {"no namespace", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_NOT_FOUND, "Namespace N is not found.", OUTCOME_UNREACHABLE,
     "namespace_not_found", false},
    {"not allowed", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_PERMISSION_DENIED, "", OUTCOME_UNREACHABLE, "permission_denied",
     false},
    {"unknown key", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_UNAUTHENTICATED, "", OUTCOME_UNREACHABLE, "unauthenticated", false},
    {"standby", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_FAILED_PRECONDITION, "", OUTCOME_UNREACHABLE, "namespace_not_ready",
     false},
    {"something else", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_UNIMPLEMENTED, "", OUTCOME_UNREACHABLE, "not_temporal", false},
    {"cancelled", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_CANCELLED, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"unknown", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_UNKNOWN_ERROR, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"its deadline", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_DEADLINE_EXCEEDED, "", OUTCOME_UNKNOWN, "start_unknown", true},
    {"aborted", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_ABORTED, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"out of range", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_OUT_OF_RANGE, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"internal", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_INTERNAL, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"unavailable", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_UNAVAILABLE, "shard status unknown", OUTCOME_UNKNOWN,
     "start_unknown", false},
    {"data loss", GRPC_STATUS, GRPC_CAUSE_NONE, GRPC_DATA_LOSS, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"a code of the future", GRPC_STATUS, GRPC_CAUSE_NONE, 77, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"nobody there", GRPC_NOT_SENT, GRPC_CAUSE_CONNECT, 0, "", OUTCOME_UNREACHABLE, "engine_unreachable", false},
    {"no certificate", GRPC_NOT_SENT, GRPC_CAUSE_TLS, 0, "", OUTCOME_UNREACHABLE, "engine_unreachable", false},
    {"never its turn", GRPC_NOT_SENT, GRPC_CAUSE_DEADLINE, 0, "", OUTCOME_OVERLOAD, "throttled", false},
    {"refused streams", GRPC_REFUSED, GRPC_CAUSE_STREAM_REFUSED, 0, "", OUTCOME_OVERLOAD, "throttled", false},
    {"cut", GRPC_UNKNOWN, GRPC_CAUSE_CONNECTION_LOST, 0, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"no trailers", GRPC_UNKNOWN, GRPC_CAUSE_NO_STATUS, 0, "", OUTCOME_UNKNOWN, "start_unknown", false},
    {"no time", GRPC_UNKNOWN, GRPC_CAUSE_DEADLINE, 0, "", OUTCOME_UNKNOWN, "start_unknown", true},
    {"silence", GRPC_UNKNOWN, GRPC_CAUSE_SILENT, 0, "", OUTCOME_UNKNOWN, "start_unknown", true},
};

static void each_answer_to_a_start_has_its_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grpc_result result = {
            .outcome = rows[i].outcome, .cause = rows[i].cause, .code = rows[i].code, .message = rows[i].message};
        struct outcome outcome;
        outcome_classify_start(&result, &outcome);
        if (outcome.kind != rows[i].kind || strcmp(outcome.code, rows[i].word) != 0 || outcome.slow != rows[i].slow) {
            fail_msg("%s: kind %d, %s", rows[i].what, (int)outcome.kind, outcome.code);
        }
    }
}

static void an_uncertain_answer_is_never_certain(void **state)
{
    (void)state;
    for (int code = -1; code < 40; code++) {
        struct grpc_result result = {
            .outcome = GRPC_UNKNOWN, .cause = GRPC_CAUSE_STREAM_RESET, .code = code, .message = ""};
        struct outcome outcome;
        outcome_classify_start(&result, &outcome);
        assert_int_equal(outcome.kind, OUTCOME_UNKNOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_to_a_start_has_its_meaning),
        cmocka_unit_test(an_uncertain_answer_is_never_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
