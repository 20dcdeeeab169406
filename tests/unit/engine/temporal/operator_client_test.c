/* Requests of people to the service itself, against a scripted one: terminations that come before their workflow is
 * known. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/temporal/encode.h"
#include "engine/temporal/operator_client.h"
#include "engine/temporal/temporal.pb-c.h"
#include "support/frontend.h"

enum { NOT_FOUND = 5, PERMISSION_DENIED = 7 };
#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define TIMEOUT_US (60 * MICROSECONDS_PER_SECOND)

struct scene {
    int losses;   /* so many terminations are carried out, and their answers are lost */
    bool is_done; /* the workflow is terminated: "not found" for the next termination, closed for a description */
    int refusals; /* so many calls are answered with `code`, the next ones with an empty OK */
    int code;
    int patience;            /* it is awaited after so many of them */
    int asked;               /* whether it is awaited */
    const char *workflow_id; /* of the execution; NULL: the default one */
    const char *holder;      /* the execution in the memo of the workflow; NULL: the service knows no workflow */
    int terminations;        /* carried out ... */
    char first_run_id[64];   /* ... of this chain */
    uint8_t described[512];
    struct frontend *frontend;
    struct temporal_operator *operator;
};

/* A description of a workflow that was terminated. */
static void answer_closed(struct frontend_answer *answer)
{
    static uint8_t bytes[256];
    TemporalApi__WorkflowExecution execution = TEMPORAL_API__WORKFLOW_EXECUTION__INIT;
    TemporalApi__WorkflowExecutionInfo info = TEMPORAL_API__WORKFLOW_EXECUTION_INFO__INIT;
    TemporalApi__DescribeWorkflowExecutionResponse response = TEMPORAL_API__DESCRIBE_WORKFLOW_EXECUTION_RESPONSE__INIT;
    execution.run_id = (char *)(uintptr_t) "run";
    info.execution = &execution;
    info.status = RUN_STATUS_TERMINATED;
    response.workflow_execution_info = &info;
    size_t length = temporal_api__describe_workflow_execution_response__pack(&response, bytes);
    *answer = (struct frontend_answer){.response = bytes, .response_length = length};
}

#define RUN_ONE "00000000-0000-4000-8000-000000000001"

/* A run that is the first of its chain. */
static size_t describe(struct scene *scene)
{
    char memo[64];
    TemporalApi__DescribeWorkflowExecutionResponse reply = TEMPORAL_API__DESCRIBE_WORKFLOW_EXECUTION_RESPONSE__INIT;
    TemporalApi__WorkflowExecutionInfo info = TEMPORAL_API__WORKFLOW_EXECUTION_INFO__INIT;
    TemporalApi__WorkflowExecution execution = TEMPORAL_API__WORKFLOW_EXECUTION__INIT;
    TemporalApi__PayloadMap map = TEMPORAL_API__PAYLOAD_MAP__INIT;
    TemporalApi__PayloadEntry entry = TEMPORAL_API__PAYLOAD_ENTRY__INIT;
    TemporalApi__PayloadEntry *entries[1] = {&entry};
    TemporalApi__Payload payload = TEMPORAL_API__PAYLOAD__INIT;
    (void)snprintf(memo, sizeof memo, "\"%s\"", scene->holder);
    payload.data = (ProtobufCBinaryData){.len = strlen(memo), .data = (uint8_t *)memo};
    entry.key = (char *)(uintptr_t) "weir_execution";
    entry.value = &payload;
    map.fields = entries;
    map.n_fields = 1;
    execution.run_id = (char *)(uintptr_t)RUN_ONE;
    info.execution = &execution;
    info.first_run_id = execution.run_id;
    info.status = 1;
    info.memo = &map;
    reply.workflow_execution_info = &info;
    assert_true(protobuf_c_message_get_packed_size(&reply.base) <= sizeof scene->described);
    return protobuf_c_message_pack(&reply.base, scene->described);
}

static void answer_call(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct scene *scene = context;
    bool is_termination = strstr(call->path, "/TerminateWorkflowExecution") != NULL;
    if (is_termination && scene->losses > 0) {
        scene->losses--;
        scene->is_done = true;
        *answer = (struct frontend_answer){.fate = FATE_NO_TRAILERS};
    } else if (is_termination && scene->is_done) {
        *answer = (struct frontend_answer){.code = NOT_FOUND, .message = "workflow execution already completed"};
    } else if (scene->is_done) {
        answer_closed(answer);
    } else if (is_termination && scene->refusals > 0) {
        scene->refusals--;
        *answer = (struct frontend_answer){.code = scene->code, .message = "no"};
    } else if (strstr(call->path, "/TerminateWorkflowExecution") != NULL) {
        TemporalApi__TerminateWorkflowExecutionRequest *asked =
            temporal_api__terminate_workflow_execution_request__unpack(NULL, call->message_length, call->message);
        assert_non_null(asked);
        scene->terminations++;
        (void)snprintf(scene->first_run_id, sizeof scene->first_run_id, "%s", asked->first_execution_run_id);
        temporal_api__terminate_workflow_execution_request__free_unpacked(asked, NULL);
    } else if (strstr(call->path, "/DescribeWorkflowExecution") != NULL && scene->holder != NULL) {
        answer->response = scene->described;
        answer->response_length = describe(scene);
    } else if (strstr(call->path, "/DescribeWorkflowExecution") != NULL) {
        *answer = (struct frontend_answer){.code = NOT_FOUND, .message = "no"};
    }
}

static bool is_awaited(void *context)
{
    struct scene *scene = context;
    scene->asked++;
    return scene->patience-- > 0;
}

static enum weir_status terminate(struct scene *scene, struct weir_error *error)
{
    struct frontend_options served = {.handler = answer_call, .context = scene};
    scene->frontend = frontend_open(&served);
    assert_non_null(scene->frontend);
    assert_int_equal(frontend_run(scene->frontend), 0);
    struct temporal_options options = {.address = frontend_address(scene->frontend)};
    assert_int_equal(temporal_operator_open(&options, TIMEOUT_US, &scene->operator, error), WEIR_OK);
    struct temporal_execution execution = {.id = ID_ONE, .workflow_id = scene->workflow_id};
    enum weir_status status = temporal_terminate(scene->operator, & execution, "enough", is_awaited, scene, error);
    temporal_operator_close(scene->operator);
    return status;
}

static int calls_at_the_end(struct scene *scene)
{
    int calls = frontend_counts(scene->frontend).calls;
    assert_int_equal(frontend_counts(scene->frontend).connections, 1);
    frontend_close(scene->frontend);
    return calls;
}

static void an_unknown_workflow_is_terminated_once_it_is_known(void **state)
{
    struct scene scene = {.refusals = 3, .code = NOT_FOUND, .patience = 100};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_OK);
    assert_int_equal(scene.asked, 3);
    assert_int_equal(calls_at_the_end(&scene), 4 + 3); /* each one that is not found is looked up */
}

static void a_workflow_that_stays_unknown_is_not_found(void **state)
{
    struct scene scene = {.refusals = 100, .code = NOT_FOUND, .patience = 2};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_non_null(strstr(error.message, "no open workflow execution-" ID_ONE));
    assert_int_equal(scene.asked, 3);
    assert_int_equal(calls_at_the_end(&scene), 3 + 2);
}

static void a_refusal_is_returned_at_once(void **state)
{
    struct scene scene = {.refusals = 100, .code = PERMISSION_DENIED, .patience = 100};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_NOT_PERMITTED);
    assert_int_equal(scene.asked, 0);
    assert_int_equal(calls_at_the_end(&scene), 1);
}

static void a_termination_whose_answer_was_lost_is_repeated(void **state)
{
    struct scene scene = {.losses = 2, .patience = 100};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_OK);
    assert_int_equal(scene.losses, 0);
    assert_int_equal(scene.asked, 3);
    assert_int_equal(calls_at_the_end(&scene), 3 + 1);
}

static void a_lost_answer_is_an_error_when_no_time_is_left(void **state)
{
    struct scene scene = {.losses = 100, .patience = 1};
    struct weir_error error;
    (void)state;
    assert_int_not_equal(terminate(&scene, &error), WEIR_OK);
    assert_int_equal(scene.losses, 98);
    assert_int_equal(calls_at_the_end(&scene), 2);
}

static void a_termination_reaches_the_own_chain_alone(void **state)
{
    static const char *const holders[] = {ID_ONE, "019aa000-0000-7000-8000-000000000009", "", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof holders / sizeof holders[0]; i++) {
        struct scene scene = {.workflow_id = "order-17", .holder = holders[i]};
        struct weir_error error;
        assert_int_equal(terminate(&scene, &error), i == 0 ? WEIR_OK : WEIR_EXECUTION_NOT_FOUND);
        assert_int_equal(scene.terminations, i == 0);
        assert_string_equal(scene.first_run_id, i == 0 ? RUN_ONE : "");
        if (i > 0) {
            assert_non_null(strstr(error.message, "no open workflow order-17 of this execution"));
        }
        (void)calls_at_the_end(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_workflow_is_terminated_once_it_is_known),
        cmocka_unit_test(a_workflow_that_stays_unknown_is_not_found),
        cmocka_unit_test(a_refusal_is_returned_at_once),
        cmocka_unit_test(a_termination_whose_answer_was_lost_is_repeated),
        cmocka_unit_test(a_lost_answer_is_an_error_when_no_time_is_left),
        cmocka_unit_test(a_termination_reaches_the_own_chain_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
