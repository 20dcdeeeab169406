/* The gRPC calls of the engine.
 *
 * A call connects three parties: the wire, which sends it; the run or the part that ordered it; the function that
 * handles the answer. The sender's pointer to its call is NULL again after the answer. A run that is removed is
 * detached from its calls. The handler then gets no run, but still counts the answer for the rate and the health of the
 * service.
 *
 * Every call must end in exactly one call of its handler, also at the close of the engine.
 *
 * It runs in the engine's loop; method_path() in any thread. */
#include "engine/temporal/calls.h"

#include <stdlib.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

#define SERVICE "/temporal.api.workflowservice.v1.WorkflowService/"
#define OPERATOR_SERVICE "/temporal.api.operatorservice.v1.OperatorService/"

const char *method_path(enum method method)
{
    static const char *const paths[METHOD_COUNT] = {
        [METHOD_START] = SERVICE "StartWorkflowExecution",
        [METHOD_DESCRIBE] = SERVICE "DescribeWorkflowExecution",
        [METHOD_LIST] = SERVICE "ListWorkflowExecutions",
        [METHOD_HISTORY] = SERVICE "GetWorkflowExecutionHistory",
        [METHOD_LAST_EVENTS] = SERVICE "GetWorkflowExecutionHistoryReverse",
        [METHOD_CANCEL] = SERVICE "RequestCancelWorkflowExecution",
        [METHOD_TERMINATE] = SERVICE "TerminateWorkflowExecution",
        [METHOD_SIGNAL] = SERVICE "SignalWorkflowExecution",
        [METHOD_QUERY] = SERVICE "QueryWorkflow",
        [METHOD_UPDATE] = SERVICE "UpdateWorkflowExecution",
        [METHOD_SYSTEM_INFO] = SERVICE "GetSystemInfo",
        [METHOD_DESCRIBE_NAMESPACE] = SERVICE "DescribeNamespace",
        [METHOD_DESCRIBE_TASK_QUEUE] = SERVICE "DescribeTaskQueue",
        [METHOD_LIST_ATTRIBUTES] = OPERATOR_SERVICE "ListSearchAttributes",
        [METHOD_ADD_ATTRIBUTES] = OPERATOR_SERVICE "AddSearchAttributes",
    };
    INVARIANT((unsigned)method < METHOD_COUNT);
    return paths[method];
}

/* Unlinks the call from the list of the engine and from its sender. */
static void call_free(struct call *call)
{
    *call->link = call->next;
    if (call->next != NULL) {
        call->next->link = call->link;
    }
    if (call->slot != NULL) {
        *call->slot = NULL;
    }
    free(call);
}

/* The health of the service comes first: the handler may depend on it. */
static void call_finished(void *context, const struct grpc_result *result)
{
    struct call *call = context;
    struct temporal *engine = call->engine;
    struct run *run = call->run;
    call_done *done = call->done;
    enum method method = call->method;
    bool is_probe = call == engine->health.probe;
    call_free(call);
    service_health_note_result(engine, method, is_probe, result);
    done(engine, run, result);
}

bool call_send(struct temporal *engine, struct run *run, struct call **slot, enum method method, struct bytes message,
               int64_t timeout_us, call_done *done)
{
    INVARIANT(timeout_us > 0 && done != NULL && (slot == NULL || *slot == NULL));
    struct call *call = calloc(1, sizeof *call);
    struct weir_error error;
    if (call == NULL || message.data == NULL) {
        free(call);
        return false;
    }
    struct grpc_request request = {
        .path = method_path(method),
        .message = message.data,
        .message_length = message.length,
        .timeout_us = timeout_us,
        .class = method == METHOD_HISTORY && timeout_us == POLL_TIMEOUT_US ? GRPC_LONG_POLL : GRPC_SHORT_CALL,
        .done = call_finished,
        .context = call,
    };
    *call = (struct call){.next = engine->calls,
                          .link = &engine->calls,
                          .engine = engine,
                          .run = run,
                          .slot = slot,
                          .done = done,
                          .method = method};
    if (call->next != NULL) {
        call->next->link = &call->next;
    }
    engine->calls = call;
    if (slot != NULL) {
        *slot = call;
    }
    if (engine->wire.call(engine->wire.context, &request, &call->id, &error) != WEIR_OK) {
        call_free(call);
        return false;
    }
    return true;
}

bool call_send_and_free(struct temporal *engine, struct run *run, struct call **slot, enum method method,
                        struct bytes message, int64_t timeout_us, call_done *done)
{
    bool is_sent = call_send(engine, run, slot, method, message, timeout_us, done);
    free(message.data);
    return is_sent;
}

void call_detach(struct call *call, bool cancel)
{
    if (call == NULL) {
        return;
    }
    if (call->slot != NULL) {
        *call->slot = NULL;
        call->slot = NULL;
    }
    call->run = NULL;
    if (cancel) {
        call->engine->wire.cancel(call->engine->wire.context, call->id);
    }
}
