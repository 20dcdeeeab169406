/* A Temporal service in memory: workflows and runs in a table, calls in a list, answers at their due time.
 *
 * A call is carried out at once and answered later, in wire_step(). A fault replaces the answer before the call has an
 * effect, or loses it after the effect. Long polls wait until their run closes. The test moves the clock. One thread.
 */
#include "support/fake_temporal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/temporal/temporal.pb-c.h"
#include "support/fake_bucket.h"
#include "support/fake_event.h"

#define ANSWER_US (5 * MICROSECONDS_PER_MS)
#define SILENT_US (2 * GRPC_UNHEARD_US) /* the time in which the client notices it */
#define POLL_EMPTY_US (20 * MICROSECONDS_PER_SECOND)

enum { FAULTS_MAX = 1024, RUNS_MAX = 16, WORKFLOWS_MAX = 20000, BUCKETS = 4096 };

struct fake_run {
    char run_id[RUN_ID_MAX];
    int status;
    int64_t close_us;
    int next;  /* index of the run that its close event names; -1 = none */
    int first; /* index of the first run of its chain */
    char *text;
    bool by_weir;
    bool is_encoded; /* `text` is */
};

struct fake_workflow {
    struct fake_workflow *next; /* in its bucket */
    char workflow_id[WORKFLOW_ID_MAX];
    char request_id[RUN_ID_MAX];
    char memo[RUN_ID_MAX];
    struct fake_run runs[RUNS_MAX];
    int run_count;
    size_t chains;
    bool is_forgotten;
    bool cancel_asked;
    bool is_renewed;                   /* only its first run has the memo of the start */
    struct bytes start;                /* as it was asked for first */
    char start_request_id[RUN_ID_MAX]; /* of that */
    bool starts_differ;
};

struct fake_call {
    struct fake_call *next;
    grpc_call_id id;
    grpc_done *done;
    void *context;
    int64_t due_us;
    int64_t deadline_us;
    int64_t sent_us;
    bool is_frozen;
    struct grpc_result result;
    uint8_t *response;
    uint8_t *details;
    char message[200];
    struct fake_workflow *waits_for; /* a poll */
    char waits_run[RUN_ID_MAX];
};

struct fake_temporal {
    const struct clock *clock;
    enum fake_fault faults[FAULTS_MAX];
    size_t fault_count;
    enum fake_fault fault;
    struct fake_bucket bucket;
    bool lists_broken;
    bool encodes;
    enum fake_fault list_fault;
    bool polls_refused;
    int64_t polls_late_us;
    struct fake_attributes attributes;
    bool is_replaced;
    bool is_hidden; /* the namespace */
    size_t starts_elsewhere;
    struct fake_workflow **workflows;
    size_t workflow_count;
    struct fake_workflow *buckets[BUCKETS];
    struct fake_call *calls;
    grpc_call_id last_id;
    size_t counts[FAKE_METHODS];
    unsigned runs_made;
};

static int64_t now_of(const struct fake_temporal *service)
{
    return clock_boot(service->clock);
}

/* The server's own clock: an hour ahead of everybody's. */
static int64_t server_time(const struct fake_temporal *service)
{
    return clock_wall(service->clock) + 3600 * MICROSECONDS_PER_SECOND;
}

/* --- answers --- */

static void answer(struct fake_call *call, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    call->response = malloc(length + 1);
    INVARIANT(call->response != NULL);
    (void)protobuf_c_message_pack(message, call->response);
    call->result.outcome = GRPC_STATUS;
    call->result.code = GRPC_OK;
    call->result.response = call->response;
    call->result.response_length = length;
}

static void answer_error(struct fake_call *call, int code, const char *message, const char *detail,
                         const ProtobufCMessage *value)
{
    call->result.outcome = GRPC_STATUS;
    call->result.code = code;
    text_copy(call->message, sizeof call->message, message);
    if (detail == NULL) {
        return;
    }
    char url[200];
    uint8_t bytes[512];
    TemporalApi__Any any = TEMPORAL_API__ANY__INIT;
    TemporalApi__Any *list[1] = {&any};
    TemporalApi__Status status = TEMPORAL_API__STATUS__INIT;
    (void)snprintf(url, sizeof url, "type.googleapis.com/temporal.api.errordetails.v1.%s", detail);
    any.type_url = url;
    if (value != NULL) {
        INVARIANT(protobuf_c_message_get_packed_size(value) <= sizeof bytes);
        any.value.len = protobuf_c_message_pack(value, bytes);
        any.value.data = bytes;
    }
    status.code = code;
    status.details = list;
    status.n_details = 1;
    call->result.details_length = protobuf_c_message_get_packed_size(&status.base);
    call->details = malloc(call->result.details_length + 1);
    INVARIANT(call->details != NULL);
    (void)protobuf_c_message_pack(&status.base, call->details);
    call->result.details = call->details;
}

static void no_answer(struct fake_call *call, enum grpc_outcome outcome, enum grpc_cause cause)
{
    call->result.outcome = outcome;
    call->result.cause = cause;
}

static void throttle(struct fake_call *call)
{
    TemporalApi__ResourceExhaustedFailure failure = TEMPORAL_API__RESOURCE_EXHAUSTED_FAILURE__INIT;
    failure.cause = 1;
    failure.scope = 1;
    answer_error(call, GRPC_RESOURCE_EXHAUSTED, "namespace rate limit exceeded", "ResourceExhaustedFailure", &failure.base);
}

/* True when the call is answered by the fault instead of being carried out. */
static bool fails_before(struct fake_call *call, enum fake_fault fault)
{
    switch (fault) {
    case FAKE_LOSE_REQUEST:
        no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_CONNECTION_LOST);
        return true;
    case FAKE_NOT_SENT:
        no_answer(call, GRPC_NOT_SENT, GRPC_CAUSE_CONNECT);
        return true;
    case FAKE_THROTTLE:
        throttle(call);
        return true;
    case FAKE_INVALID:
        answer_error(call, GRPC_INVALID_ARGUMENT, "missing task queue name", NULL, NULL);
        return true;
    case FAKE_TOO_LARGE:
        answer_error(call, GRPC_RESOURCE_EXHAUSTED, "grpc: received message larger than max (5 vs. 4)", NULL, NULL);
        return true;
    case FAKE_NAMESPACE:
        answer_error(call, GRPC_NOT_FOUND, "Namespace default is not found.", "NamespaceNotFoundFailure", NULL);
        return true;
    case FAKE_DENIED:
        answer_error(call, GRPC_PERMISSION_DENIED, "Request unauthorized.", NULL, NULL);
        return true;
    case FAKE_FROZEN:
        no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_DEADLINE);
        call->due_us = call->deadline_us;
        return true;
    case FAKE_UNAVAILABLE:
        answer_error(call, GRPC_UNAVAILABLE, "shard status unknown", NULL, NULL);
        return true;
    default:
        return false;
    }
}

static void fail_after(struct fake_call *call, enum fake_fault fault)
{
    if (fault == FAKE_LOSE_ANSWER) {
        no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_CONNECTION_LOST);
    } else if (fault == FAKE_TIME_OUT) {
        no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_DEADLINE);
        call->due_us = call->deadline_us;
    } else if (fault == FAKE_SLOW) {
        call->due_us = call->due_us + FAKE_SLOW_US;
        if (call->due_us > call->deadline_us) {
            no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_DEADLINE);
            call->due_us = call->deadline_us;
        }
    } else if (fault == FAKE_GARBAGE) {
        call->result.response = (const uint8_t *)"\xff\xff";
        call->result.response_length = 2;
    }
}

/* --- workflows --- */

static struct fake_workflow *find(const struct fake_temporal *service, const char *workflow_id)
{
    struct fake_workflow *workflow = service->buckets[text_hash(workflow_id) % BUCKETS];
    while (workflow != NULL && strcmp(workflow->workflow_id, workflow_id) != 0) {
        workflow = workflow->next;
    }
    return workflow;
}

static struct fake_workflow *find_execution(const struct fake_temporal *service, const char *id)
{
    char workflow_id[WORKFLOW_ID_MAX];
    (void)snprintf(workflow_id, sizeof workflow_id, WORKFLOW_ID_PREFIX "%s", id);
    struct fake_workflow *workflow = find(service, workflow_id);
    for (size_t i = 0; i < service->workflow_count && workflow == NULL; i++) {
        workflow = strcmp(service->workflows[i]->memo, id) == 0 ? service->workflows[i] : NULL;
    }
    return workflow;
}

static struct fake_run *newest(struct fake_workflow *workflow)
{
    return &workflow->runs[workflow->run_count - 1];
}

static struct fake_run *begin_run(struct fake_temporal *service, struct fake_workflow *workflow)
{
    INVARIANT(workflow->run_count < RUNS_MAX);
    struct fake_run *run = &workflow->runs[workflow->run_count++];
    int first = workflow->run_count == 1 ? 0 : workflow->runs[workflow->run_count - 2].first;
    *run = (struct fake_run){.status = RUN_STATUS_RUNNING, .next = -1, .first = first};
    (void)snprintf(run->run_id, sizeof run->run_id, "00000000-0000-4000-8000-%012u", ++service->runs_made);
    return run;
}

static struct fake_workflow *enter(struct fake_temporal *service, const char *workflow_id)
{
    struct fake_workflow *workflow = find(service, workflow_id);
    if (workflow == NULL) {
        INVARIANT(service->workflow_count < WORKFLOWS_MAX);
        workflow = calloc(1, sizeof *workflow);
        INVARIANT(workflow != NULL);
        text_copy(workflow->workflow_id, sizeof workflow->workflow_id, workflow_id);
        service->workflows[service->workflow_count++] = workflow;
        struct fake_workflow **bucket = &service->buckets[text_hash(workflow_id) % BUCKETS];
        workflow->next = *bucket;
        *bucket = workflow;
    }
    return workflow;
}

/* Another execution may ask for the same workflow id; its start has other bytes. */
static void note_bytes(struct fake_workflow *workflow, const char *request_id, const void *data, size_t length)
{
    if (workflow->start.data == NULL) {
        text_copy(workflow->start_request_id, sizeof workflow->start_request_id, request_id);
        workflow->start.data = malloc(length);
        INVARIANT(workflow->start.data != NULL);
        memcpy(workflow->start.data, data, length);
        workflow->start.length = length;
    } else if (strcmp(workflow->start_request_id, request_id) == 0 &&
               (workflow->start.length != length || memcmp(workflow->start.data, data, length) != 0)) {
        workflow->starts_differ = true;
    }
}

static void read_memo(const TemporalApi__PayloadMap *memo, char *to)
{
    for (size_t i = 0; memo != NULL && i < memo->n_fields; i++) {
        if (strcmp(memo->fields[i]->key, "weir_execution") == 0) {
            const ProtobufCBinaryData *data = &memo->fields[i]->value->data;
            (void)snprintf(to, RUN_ID_MAX, "%.*s", (int)data->len - 2, (const char *)data->data + 1);
        }
    }
}

static void start(struct fake_temporal *service, struct fake_call *call, const struct grpc_request *request)
{
    TemporalApi__StartWorkflowExecutionRequest *asked =
        temporal_api__start_workflow_execution_request__unpack(NULL, request->message_length, request->message);
    INVARIANT(asked != NULL && asked->workflow_id_reuse_policy == 3 && asked->workflow_id_conflict_policy == 1);
    if (fake_attributes_refuse(&service->attributes, asked->search_attributes, call->message, sizeof call->message)) {
        call->result.outcome = GRPC_STATUS;
        call->result.code = GRPC_INVALID_ARGUMENT;
        temporal_api__start_workflow_execution_request__free_unpacked(asked, NULL);
        return;
    }
    struct fake_workflow *workflow = enter(service, asked->workflow_id);
    note_bytes(workflow, asked->request_id, request->message, request->message_length);
    if (workflow->run_count == 0 || workflow->is_forgotten) {
        workflow->is_forgotten = false;
        workflow->chains++;
        text_copy(workflow->request_id, sizeof workflow->request_id, asked->request_id);
        read_memo(asked->memo, workflow->memo);
        (void)begin_run(service, workflow);
    }
    const struct fake_run *run = newest(workflow);
    if (strcmp(workflow->request_id, asked->request_id) == 0) {
        TemporalApi__StartWorkflowExecutionResponse reply = TEMPORAL_API__START_WORKFLOW_EXECUTION_RESPONSE__INIT;
        reply.run_id = (char *)(uintptr_t)run->run_id;
        reply.started = 1;
        reply.status = run->status;
        answer(call, &reply.base);
    } else {
        TemporalApi__WorkflowExecutionAlreadyStartedFailure failure =
            TEMPORAL_API__WORKFLOW_EXECUTION_ALREADY_STARTED_FAILURE__INIT;
        failure.start_request_id = workflow->request_id;
        failure.run_id = (char *)(uintptr_t)run->run_id;
        answer_error(call, GRPC_ALREADY_EXISTS, "Workflow execution is already running.",
                     "WorkflowExecutionAlreadyStartedFailure", &failure.base);
    }
    temporal_api__start_workflow_execution_request__free_unpacked(asked, NULL);
}

static void answer_not_found(struct fake_call *call)
{
    answer_error(call, GRPC_NOT_FOUND, "workflow not found for ID", "NotFoundFailure", NULL);
}

struct info_parts {
    TemporalApi__WorkflowExecutionInfo info;
    TemporalApi__WorkflowExecution execution;
    TemporalApi__Timestamp closed;
    TemporalApi__PayloadMap memo;
    TemporalApi__PayloadEntry entry;
    TemporalApi__PayloadEntry *entries[1];
    TemporalApi__Payload payload;
    char memo_text[RUN_ID_MAX + 2];
};

static void fill_info(struct info_parts *parts, const struct fake_workflow *workflow, const struct fake_run *run)
{
    temporal_api__workflow_execution_info__init(&parts->info);
    temporal_api__workflow_execution__init(&parts->execution);
    parts->execution.workflow_id = (char *)(uintptr_t)workflow->workflow_id;
    parts->execution.run_id = (char *)(uintptr_t)run->run_id;
    parts->info.execution = &parts->execution;
    parts->info.status = run->status;
    parts->info.first_run_id = (char *)(uintptr_t)workflow->runs[run->first].run_id;
    if (run->close_us != 0) {
        fake_event_time(&parts->closed, run->close_us);
        parts->info.close_time = &parts->closed;
    }
    if (workflow->memo[0] != '\0' && run->first == 0 && (!workflow->is_renewed || run == &workflow->runs[0])) {
        temporal_api__payload_map__init(&parts->memo);
        temporal_api__payload_entry__init(&parts->entry);
        temporal_api__payload__init(&parts->payload);
        int length = snprintf(parts->memo_text, sizeof parts->memo_text, "\"%s\"", workflow->memo);
        parts->payload.data = (ProtobufCBinaryData){.len = (size_t)length, .data = (uint8_t *)parts->memo_text};
        parts->entry.key = (char *)(uintptr_t) "weir_execution";
        parts->entry.value = &parts->payload;
        parts->entries[0] = &parts->entry;
        parts->memo.fields = parts->entries;
        parts->memo.n_fields = 1;
        parts->info.memo = &parts->memo;
    }
}

static const struct fake_run *run_of(struct fake_workflow *workflow, const char *run_id);

static void describe(struct fake_temporal *service, struct fake_call *call, const struct grpc_request *request)
{
    TemporalApi__DescribeWorkflowExecutionRequest *asked =
        temporal_api__describe_workflow_execution_request__unpack(NULL, request->message_length, request->message);
    INVARIANT(asked != NULL);
    struct fake_workflow *workflow = find(service, asked->execution->workflow_id);
    if (workflow == NULL || workflow->is_forgotten || workflow->run_count == 0) {
        answer_not_found(call);
    } else {
        struct info_parts parts;
        TemporalApi__DescribeWorkflowExecutionResponse reply = TEMPORAL_API__DESCRIBE_WORKFLOW_EXECUTION_RESPONSE__INIT;
        const char *run_id = asked->execution->run_id;
        const struct fake_run *run = run_id[0] == '\0' ? newest(workflow) : run_of(workflow, run_id);
        INVARIANT(run != NULL);
        fill_info(&parts, workflow, run);
        reply.workflow_execution_info = &parts.info;
        answer(call, &reply.base);
    }
    temporal_api__describe_workflow_execution_request__free_unpacked(asked, NULL);
}

/* The time after "CloseTime >= '", 0 when the query has none. */
static int64_t since_of(const char *query)
{
    static const char words[] = "CloseTime >= '";
    const char *at = strstr(query, words);
    int64_t us = 0;
    if (at != NULL) {
        char text[TIME_TEXT_MAX];
        (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(at + sizeof words - 1, "'"), at + sizeof words - 1);
        INVARIANT(time_parse(text, 0, &us, NULL) == WEIR_OK);
    }
    return us;
}

static void list(struct fake_temporal *service, struct fake_call *call, const struct grpc_request *request)
{
    TemporalApi__ListWorkflowExecutionsRequest *asked =
        temporal_api__list_workflow_executions_request__unpack(NULL, request->message_length, request->message);
    INVARIANT(asked != NULL);
    int64_t since_us = since_of(asked->query);
    size_t most = (size_t)asked->page_size;
    struct info_parts *parts = calloc(most, sizeof *parts);
    TemporalApi__WorkflowExecutionInfo **rows = calloc(most, sizeof *rows);
    INVARIANT(parts != NULL && rows != NULL);
    TemporalApi__ListWorkflowExecutionsResponse reply = TEMPORAL_API__LIST_WORKFLOW_EXECUTIONS_RESPONSE__INIT;
    for (size_t i = service->workflow_count; !service->lists_broken && i-- > 0 && reply.n_executions < most;) {
        struct fake_workflow *workflow = service->workflows[i];
        for (int j = workflow->run_count; j-- > 0 && reply.n_executions < most && !workflow->is_forgotten;) {
            const struct fake_run *run = &workflow->runs[j];
            if (run->close_us != 0 && run->close_us >= since_us && run->status != RUN_STATUS_CONTINUED_AS_NEW) {
                fill_info(&parts[reply.n_executions], workflow, run);
                rows[reply.n_executions] = &parts[reply.n_executions].info;
                reply.n_executions++;
            }
        }
    }
    reply.executions = rows;
    answer(call, &reply.base);
    free(parts);
    free(rows);
    temporal_api__list_workflow_executions_request__free_unpacked(asked, NULL);
}

static const struct fake_run *run_of(struct fake_workflow *workflow, const char *run_id)
{
    for (int i = 0; i < workflow->run_count; i++) {
        if (strcmp(workflow->runs[i].run_id, run_id) == 0) {
            return &workflow->runs[i];
        }
    }
    return run_id[0] == '\0' ? newest(workflow) : NULL;
}

static void answer_history(struct fake_call *call, const struct fake_workflow *workflow, const struct fake_run *run)
{
    struct fake_event_parts parts;
    TemporalApi__HistoryEvent *events[1] = {&parts.event};
    TemporalApi__History history = TEMPORAL_API__HISTORY__INIT;
    TemporalApi__GetWorkflowExecutionHistoryResponse reply = TEMPORAL_API__GET_WORKFLOW_EXECUTION_HISTORY_RESPONSE__INIT;
    reply.history = &history;
    if (run->close_us != 0) {
        fake_event_fill(&parts, &(struct fake_close){.status = run->status,
                                                     .close_us = run->close_us,
                                                     .text = run->text,
                                                     .next_run_id = run->next < 0 ? "" : workflow->runs[run->next].run_id,
                                                     .by_weir = run->by_weir,
                                                     .is_encoded = run->is_encoded});
        history.events = events;
        history.n_events = 1;
    } else {
        reply.next_page_token = (ProtobufCBinaryData){.len = 5, .data = (uint8_t *)(uintptr_t) "token"};
    }
    answer(call, &reply.base);
}

static void history(struct fake_temporal *service, struct fake_call *call, const struct grpc_request *request)
{
    TemporalApi__GetWorkflowExecutionHistoryRequest *asked =
        temporal_api__get_workflow_execution_history_request__unpack(NULL, request->message_length, request->message);
    INVARIANT(asked != NULL && asked->history_event_filter_type == 2);
    struct fake_workflow *workflow = find(service, asked->execution->workflow_id);
    const struct fake_run *run =
        workflow == NULL || workflow->is_forgotten ? NULL : run_of(workflow, asked->execution->run_id);
    service->counts[asked->wait_new_event ? FAKE_POLL : FAKE_HISTORY]++;
    if (run == NULL) {
        answer_not_found(call);
    } else if (asked->wait_new_event && service->polls_refused) {
        throttle(call);
    } else if (asked->wait_new_event && run->close_us == 0) {
        call->waits_for = workflow;
        memcpy(call->waits_run, run->run_id, sizeof call->waits_run);
        call->due_us = now_of(service) + POLL_EMPTY_US;
        answer_history(call, workflow, run);
    } else {
        answer_history(call, workflow, run);
    }
    temporal_api__get_workflow_execution_history_request__free_unpacked(asked, NULL);
}

static void cancel_workflow(struct fake_temporal *service, struct fake_call *call, const struct grpc_request *request)
{
    TemporalApi__RequestCancelWorkflowExecutionRequest *asked =
        temporal_api__request_cancel_workflow_execution_request__unpack(NULL, request->message_length, request->message);
    INVARIANT(asked != NULL);
    struct fake_workflow *workflow = find(service, asked->workflow_execution->workflow_id);
    if (workflow == NULL || workflow->is_forgotten) {
        answer_not_found(call);
    } else {
        TemporalApi__GetSystemInfoRequest empty = TEMPORAL_API__GET_SYSTEM_INFO_REQUEST__INIT;
        int first = newest(workflow)->first;
        const char *chain = asked->first_execution_run_id;
        if (chain[0] != '\0' && strcmp(chain, workflow->runs[first].run_id) != 0) {
            answer_not_found(call);
            temporal_api__request_cancel_workflow_execution_request__free_unpacked(asked, NULL);
            return;
        }
        workflow->cancel_asked = true;
        answer(call, &empty.base);
    }
    temporal_api__request_cancel_workflow_execution_request__free_unpacked(asked, NULL);
}

static void describe_namespace(struct fake_temporal *service, struct fake_call *call)
{
    struct fake_namespace namespace;
    fake_namespace_fill(service->is_replaced ? "other-id" : "", &namespace);
    if (service->is_hidden) {
        answer_error(call, GRPC_PERMISSION_DENIED, "Request unauthorized.", NULL, NULL);
    } else {
        answer(call, &namespace.reply.base);
    }
}

/* --- the wire --- */

static void carry_out(struct fake_temporal *service, struct fake_call *call, const struct grpc_request *request)
{
    const char *name = strrchr(request->path, '/') + 1;
    if (service->is_replaced && strstr(name, "WorkflowExecution") != NULL) {
        service->starts_elsewhere += strcmp(name, "StartWorkflowExecution") == 0;
        answer_not_found(call);
    } else if (strcmp(name, "StartWorkflowExecution") == 0) {
        start(service, call, request);
    } else if (strcmp(name, "DescribeWorkflowExecution") == 0) {
        service->counts[FAKE_DESCRIBE]++;
        describe(service, call, request);
    } else if (strcmp(name, "ListWorkflowExecutions") == 0) {
        service->counts[FAKE_LIST]++;
        list(service, call, request);
    } else if (strcmp(name, "GetWorkflowExecutionHistory") == 0) {
        history(service, call, request);
    } else if (strcmp(name, "RequestCancelWorkflowExecution") == 0) {
        service->counts[FAKE_CANCEL]++;
        cancel_workflow(service, call, request);
    } else if (strcmp(name, "ListSearchAttributes") == 0) {
        service->counts[FAKE_OTHER]++;
        struct fake_attributes_list list;
        fake_attributes_fill(&service->attributes, &list);
        if (service->attributes.is_refused) {
            answer_error(call, GRPC_PERMISSION_DENIED, "Request unauthorized.", NULL, NULL);
        } else {
            answer(call, &list.reply.base);
        }
    } else {
        service->counts[FAKE_OTHER]++;
        describe_namespace(service, call);
    }
}

static enum weir_status wire_call(void *context, const struct grpc_request *request, grpc_call_id *ret_id,
                                  struct weir_error *error)
{
    struct fake_temporal *service = context;
    struct fake_call *call = calloc(1, sizeof *call);
    enum fake_fault fault = service->fault;
    (void)error;
    INVARIANT(call != NULL);
    if (strstr(request->path, "/StartWorkflowExecution") != NULL) {
        service->counts[FAKE_START]++;
        if (service->fault_count > 0) {
            fault = service->faults[0];
            memmove(service->faults, service->faults + 1, --service->fault_count * sizeof service->faults[0]);
        }
    }
    *call = (struct fake_call){.next = service->calls,
                               .id = ++service->last_id,
                               .done = request->done,
                               .context = request->context,
                               .due_us = now_of(service) + ANSWER_US,
                               .deadline_us = now_of(service) + request->timeout_us,
                               .sent_us = now_of(service),
                               .is_frozen = fault == FAKE_FROZEN};
    service->calls = call;
    if (strstr(request->path, "/ListWorkflowExecutions") != NULL && service->list_fault != FAKE_FINE) {
        service->counts[FAKE_LIST]++;
        fault = service->list_fault;
    }
    fault = fault == FAKE_FINE && !fake_bucket_take(&service->bucket, now_of(service)) ? FAKE_THROTTLE : fault;
    if (!fails_before(call, fault)) {
        carry_out(service, call, request);
        fail_after(call, fault);
    }
    *ret_id = call->id;
    return WEIR_OK;
}

static void finish(struct fake_call *call)
{
    call->result.message = call->message;
    call->result.sent_us = 0;
    call->done(call->context, &call->result);
    free(call->response);
    free(call->details);
    free(call);
}

static struct fake_call *take_due(struct fake_temporal *service, int64_t now_us)
{
    struct fake_call **first = NULL;
    for (struct fake_call **at = &service->calls; *at != NULL; at = &(*at)->next) {
        if ((*at)->due_us <= now_us && (first == NULL || (*at)->id < (*first)->id)) {
            first = at;
        }
    }
    struct fake_call *call = first == NULL ? NULL : *first;
    if (call != NULL) {
        *first = call->next;
    }
    return call;
}

static int64_t wire_step(void *context)
{
    struct fake_temporal *service = context;
    int64_t now_us = now_of(service);
    int64_t next_us = TIME_NEVER;
    for (struct fake_call *call = take_due(service, now_us); call != NULL; call = take_due(service, now_us)) {
        finish(call);
    }
    for (const struct fake_call *call = service->calls; call != NULL; call = call->next) {
        int64_t silent_us = call->sent_us + SILENT_US;
        next_us = call->due_us < next_us ? call->due_us : next_us;
        next_us = call->is_frozen && silent_us > now_us && silent_us < next_us ? silent_us : next_us;
    }
    return next_us;
}

static void wire_cancel(void *context, grpc_call_id id)
{
    struct fake_temporal *service = context;
    for (struct fake_call *call = service->calls; call != NULL; call = call->next) {
        if (call->id == id) {
            call->waits_for = NULL;
            call->due_us = now_of(service);
            no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_CANCELLED);
        }
    }
}

static int wire_fd(void *context)
{
    (void)context;
    return -1;
}

static bool wire_is_silent(void *context)
{
    const struct fake_temporal *service = context;
    for (const struct fake_call *call = service->calls; call != NULL; call = call->next) {
        if (call->is_frozen && now_of(service) - call->sent_us >= SILENT_US) {
            return service->fault == FAKE_FROZEN;
        }
    }
    return false;
}

static void wire_close(void *context)
{
    struct fake_temporal *service = context;
    while (service->calls != NULL) {
        struct fake_call *call = service->calls;
        service->calls = call->next;
        no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_CLOSED);
        finish(call);
    }
}

struct temporal_wire fake_temporal_wire(struct fake_temporal *service)
{
    return (struct temporal_wire){.call = wire_call,
                                  .cancel = wire_cancel,
                                  .step = wire_step,
                                  .fd = wire_fd,
                                  .is_silent = wire_is_silent,
                                  .close = wire_close,
                                  .context = service};
}

/* --- the test's side --- */

struct fake_temporal *fake_temporal_open(const struct clock *clock)
{
    struct fake_temporal *service = calloc(1, sizeof *service);
    INVARIANT(service != NULL);
    service->clock = clock;
    service->workflows = calloc(WORKFLOWS_MAX, sizeof(struct fake_workflow *));
    INVARIANT(service->workflows != NULL);
    return service;
}

void fake_temporal_close(struct fake_temporal *service)
{
    if (service == NULL) {
        return;
    }
    INVARIANT(service->calls == NULL);
    for (size_t i = 0; i < service->workflow_count; i++) {
        for (int j = 0; j < service->workflows[i]->run_count; j++) {
            free(service->workflows[i]->runs[j].text);
        }
        free(service->workflows[i]->start.data);
        free(service->workflows[i]);
    }
    free(service->workflows);
    free(service);
}

void fake_temporal_push(struct fake_temporal *service, enum fake_fault fault)
{
    INVARIANT(service->fault_count < FAULTS_MAX);
    service->faults[service->fault_count++] = fault;
}

void fake_temporal_set_fault(struct fake_temporal *service, enum fake_fault fault)
{
    service->fault = fault;
    for (struct fake_call *call = service->calls; call != NULL && fault != FAKE_FROZEN; call = call->next) {
        call->is_frozen = false; /* its connection is heard again; the answer stays lost */
    }
}

void fake_temporal_replace(struct fake_temporal *service, bool is_replaced)
{
    service->is_replaced = is_replaced;
    for (struct fake_call *call = service->calls; call != NULL; call = call->next) {
        if (call->waits_for != NULL) {
            wire_cancel(service, call->id);
            no_answer(call, GRPC_UNKNOWN, GRPC_CAUSE_CONNECTION_LOST);
        }
    }
}

void fake_temporal_hide_namespace(struct fake_temporal *service, bool is_hidden)
{
    service->is_hidden = is_hidden;
}

size_t fake_temporal_starts_elsewhere(const struct fake_temporal *service)
{
    return service->starts_elsewhere;
}

void fake_temporal_set_limit(struct fake_temporal *service, double calls_per_second)
{
    fake_bucket_set(&service->bucket, calls_per_second, now_of(service));
}

size_t fake_temporal_throttled(const struct fake_temporal *service)
{
    return service->bucket.refused;
}

void fake_temporal_encode_results(struct fake_temporal *service, bool encode)
{
    service->encodes = encode;
}

void fake_temporal_break_lists(struct fake_temporal *service, bool broken)
{
    service->lists_broken = broken;
}

void fake_temporal_fail_lists(struct fake_temporal *service, enum fake_fault fault)
{
    service->list_fault = fault;
}

void fake_temporal_delay_polls(struct fake_temporal *service, int64_t us)
{
    service->polls_late_us = us;
}

void fake_temporal_refuse_polls(struct fake_temporal *service, bool refuse)
{
    service->polls_refused = refuse;
}

static struct fake_workflow *must_find(const struct fake_temporal *service, const char *id)
{
    struct fake_workflow *workflow = find_execution(service, id);
    INVARIANT(workflow != NULL && workflow->run_count > 0);
    return workflow;
}

/* Reports the end to the calls that wait for this run. */
static void wake_polls(struct fake_temporal *service, struct fake_workflow *workflow, const struct fake_run *run)
{
    for (struct fake_call *call = service->calls; call != NULL; call = call->next) {
        if (call->waits_for == workflow && strcmp(call->waits_run, run->run_id) == 0) {
            free(call->response);
            call->waits_for = NULL;
            answer_history(call, workflow, run);
            call->due_us = now_of(service) + ANSWER_US + service->polls_late_us;
        }
    }
}

static struct fake_run *end(struct fake_temporal *service, struct fake_workflow *workflow, int status, const char *text)
{
    struct fake_run *run = newest(workflow);
    INVARIANT(run->close_us == 0);
    run->status = status;
    run->close_us = server_time(service);
    run->text = text == NULL ? NULL : strdup(text);
    run->is_encoded = service->encodes;
    return run;
}

void fake_temporal_take_id(struct fake_temporal *service, const char *id)
{
    char workflow_id[WORKFLOW_ID_MAX];
    (void)snprintf(workflow_id, sizeof workflow_id, WORKFLOW_ID_PREFIX "%s", id);
    struct fake_workflow *workflow = enter(service, workflow_id);
    text_copy(workflow->request_id, sizeof workflow->request_id, "somebody-else");
    (void)begin_run(service, workflow);
}

struct fake_attributes *fake_temporal_attributes(struct fake_temporal *service)
{
    return &service->attributes;
}

void fake_temporal_take_workflow_id(struct fake_temporal *service, const char *workflow_id)
{
    struct fake_workflow *workflow = enter(service, workflow_id);
    INVARIANT(workflow->run_count == 0 || newest(workflow)->close_us != 0);
    for (int i = 0; i < workflow->run_count && workflow->is_forgotten; i++) {
        workflow->runs[i].run_id[0] = '\0'; /* the new chain is not forgotten */
    }
    workflow->is_forgotten = false;
    text_copy(workflow->request_id, sizeof workflow->request_id, "somebody-else");
    int first = workflow->run_count;
    begin_run(service, workflow)->first = first;
}

void fake_temporal_end_newest(struct fake_temporal *service, const char *workflow_id, int status)
{
    struct fake_workflow *workflow = find(service, workflow_id);
    wake_polls(service, workflow, end(service, workflow, status, NULL));
}

void fake_temporal_end(struct fake_temporal *service, const char *id, int status, const char *text)
{
    struct fake_workflow *workflow = must_find(service, id);
    wake_polls(service, workflow, end(service, workflow, status, text));
}

void fake_temporal_terminate_by_weir(struct fake_temporal *service, const char *id, const char *reason)
{
    struct fake_workflow *workflow = must_find(service, id);
    struct fake_run *run = end(service, workflow, RUN_STATUS_TERMINATED, reason);
    run->by_weir = true;
    wake_polls(service, workflow, run);
}

void fake_temporal_go_on(struct fake_temporal *service, const char *id, int status)
{
    struct fake_workflow *workflow = must_find(service, id);
    struct fake_run *run = end(service, workflow, status, "\"one of several\"");
    run->next = workflow->run_count;
    (void)begin_run(service, workflow);
    text_copy(workflow->request_id, sizeof workflow->request_id, "made-by-the-server");
    wake_polls(service, workflow, run);
}

void fake_temporal_renew(struct fake_temporal *service, const char *id)
{
    must_find(service, id)->is_renewed = true;
    fake_temporal_go_on(service, id, RUN_STATUS_CONTINUED_AS_NEW);
}

void fake_temporal_reset(struct fake_temporal *service, const char *id)
{
    struct fake_workflow *workflow = must_find(service, id);
    const struct fake_run *run = end(service, workflow, RUN_STATUS_TERMINATED, "reset");
    (void)begin_run(service, workflow);
    wake_polls(service, workflow, run);
}

void fake_temporal_forget(struct fake_temporal *service, const char *id)
{
    must_find(service, id)->is_forgotten = true;
}

size_t fake_temporal_calls(const struct fake_temporal *service, enum fake_method method)
{
    return service->counts[method];
}

size_t fake_temporal_chains(const struct fake_temporal *service, const char *id)
{
    const struct fake_workflow *workflow = find_execution(service, id);
    return workflow == NULL ? 0 : workflow->chains;
}

bool fake_temporal_start_has(const struct fake_temporal *service, const char *workflow_id, const char *bytes)
{
    const struct bytes start = find(service, workflow_id)->start;
    return memmem(start.data, start.length, bytes, strlen(bytes)) != NULL;
}

bool fake_temporal_starts_are_equal(const struct fake_temporal *service)
{
    for (size_t i = 0; i < service->workflow_count; i++) {
        if (service->workflows[i]->starts_differ) {
            return false;
        }
    }
    return true;
}

struct bytes fake_temporal_start_of(const struct fake_temporal *service, const char *id)
{
    return must_find(service, id)->start;
}

bool fake_temporal_cancel_was_asked(const struct fake_temporal *service, const char *id)
{
    return must_find(service, id)->cancel_asked;
}

size_t fake_temporal_polls_waiting(const struct fake_temporal *service)
{
    size_t count = 0;
    for (const struct fake_call *call = service->calls; call != NULL; call = call->next) {
        count += call->waits_for != NULL;
    }
    return count;
}

bool fake_temporal_is_waited_for(const struct fake_temporal *service, const char *id)
{
    const struct fake_workflow *workflow = find_execution(service, id);
    for (const struct fake_call *call = service->calls; call != NULL; call = call->next) {
        if (workflow != NULL && call->waits_for == workflow) {
            return true;
        }
    }
    return false;
}
