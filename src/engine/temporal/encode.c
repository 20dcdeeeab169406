/* Requests for the service, as packed protobuf messages.
 *
 * Every message lives on the stack, or in one allocation for a start, and points at the caller's strings; packing makes the
 * only copy. A start has a workflow id policy of REJECT_DUPLICATE and a conflict policy of FAIL. So the service itself
 * refuses a second workflow of the same id, and answers a repeated request id with the first run.
 *
 * The same struct must always give the same bytes, because the start that is sent again is compared with the first one. So
 * nothing here reads a clock, a random number or the environment. The functions are pure; any thread. */
#include "engine/temporal/encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/decode.h"

enum {
    REUSE_REJECT_DUPLICATE = 3,
    CONFLICT_FAIL = 1,
    TASK_QUEUE_NORMAL = 1,
    TASK_QUEUE_TYPE_WORKFLOW = 1,
    FILTER_CLOSE_EVENT = 2,
    UPDATE_IS_COMPLETED = 3,
    MEMO_FIELDS_MAX = 64
};

/* protobuf-c never writes through these; its structs are made for reading, too. */
static char *text_of(const char *text)
{
    return (char *)(uintptr_t)(text == NULL ? protobuf_c_empty_string : text);
}

/* As text_of(), for bytes. */
static ProtobufCBinaryData data_of(const void *data, size_t length)
{
    return (ProtobufCBinaryData){.len = length, .data = (uint8_t *)(uintptr_t)data};
}

/* {NULL, 0} when out of memory. */
static struct bytes pack(const ProtobufCMessage *message)
{
    struct bytes bytes = {NULL, 0};
    size_t length = protobuf_c_message_get_packed_size(message);
    bytes.data = malloc(length > 0 ? length : 1);
    if (bytes.data != NULL) {
        bytes.length = protobuf_c_message_pack(message, bytes.data);
    }
    return bytes;
}

/* --- pieces --- */

struct payload_parts {
    TemporalApi__Payload payload;
    TemporalApi__MetadataEntry entries[2];
    TemporalApi__MetadataEntry *list[2];
};

/* Adds a metadata entry; a payload has at most two. */
static void entry_init(struct payload_parts *parts, const char *key, const char *value)
{
    size_t i = parts->payload.n_metadata++;
    temporal_api__metadata_entry__init(&parts->entries[i]);
    parts->entries[i].key = text_of(key);
    parts->entries[i].value = data_of(value, strlen(value));
    parts->list[i] = &parts->entries[i];
}

static void payload_init(struct payload_parts *parts, const char *encoding, const char *data, size_t length)
{
    temporal_api__payload__init(&parts->payload);
    parts->payload.metadata = parts->list;
    entry_init(parts, "encoding", encoding);
    parts->payload.data = data_of(data, length);
}

/* A search attribute names its type in a second metadata entry, where the type is known. */
struct payload_map {
    TemporalApi__PayloadMap map;
    struct payload_parts payloads[MEMO_FIELDS_MAX];
    TemporalApi__PayloadEntry entries[MEMO_FIELDS_MAX];
    TemporalApi__PayloadEntry *list[MEMO_FIELDS_MAX];
    char *texts[MEMO_FIELDS_MAX]; /* those that the map owns */
    size_t count;
};

static void map_init(struct payload_map *map)
{
    temporal_api__payload_map__init(&map->map);
    map->count = 0;
    map->map.fields = map->list;
}

/* Takes `json`, malloc'ed or NULL. False when the map is full or there is no text. */
static bool map_add(struct payload_map *map, const char *key, char *json, enum attribute_type type)
{
    if (json == NULL || map->count == MEMO_FIELDS_MAX) {
        free(json);
        return false;
    }
    size_t i = map->count++;
    map->texts[i] = json;
    payload_init(&map->payloads[i], "json/plain", json, strlen(json));
    if (type != ATTRIBUTE_UNKNOWN) {
        entry_init(&map->payloads[i], "type", attribute_type_name(type));
    }
    temporal_api__payload_entry__init(&map->entries[i]);
    map->entries[i].key = text_of(key);
    map->entries[i].value = &map->payloads[i].payload;
    map->list[i] = &map->entries[i];
    map->map.n_fields = map->count;
    return true;
}

static bool map_add_string(struct payload_map *map, const char *key, const char *value, enum attribute_type type)
{
    json_t *string = json_string(value);
    char *text = string == NULL ? NULL : json_dumps(string, JSON_ENCODE_ANY);
    json_decref(string);
    return map_add(map, key, text, type);
}

/* ATTRIBUTE_UNKNOWN: the service finds the type. */
static enum attribute_type attribute_type_of(const json_t *types, const char *name)
{
    json_int_t type = json_integer_value(json_object_get(types, name));
    return type >= ATTRIBUTE_TEXT && type <= ATTRIBUTE_KEYWORD_LIST ? (enum attribute_type)type : ATTRIBUTE_UNKNOWN;
}

/* The keys stay in `object`. */
static bool map_add_object(struct payload_map *map, json_t *object, const json_t *types)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!map_add(map, key, json_make_text(value, JSON_COMPACT), attribute_type_of(types, key))) {
            return false;
        }
    }
    return true;
}

static void map_close(struct payload_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        free(map->texts[i]);
    }
}

static TemporalApi__Duration *duration_of(TemporalApi__Duration *duration, int64_t us)
{
    if (us <= 0) {
        return NULL;
    }
    temporal_api__duration__init(duration);
    duration->seconds = us / MICROSECONDS_PER_SECOND;
    duration->nanos = (int32_t)(us % MICROSECONDS_PER_SECOND * 1000);
    return duration;
}

static void execution_init(TemporalApi__WorkflowExecution *execution, const char *workflow_id, const char *run_id)
{
    temporal_api__workflow_execution__init(execution);
    execution->workflow_id = text_of(workflow_id);
    execution->run_id = text_of(run_id);
}

static void task_queue_init(TemporalApi__TaskQueue *queue, const char *name)
{
    temporal_api__task_queue__init(queue);
    queue->name = text_of(name);
    queue->kind = TASK_QUEUE_NORMAL;
}

const char *attribute_type_name(enum attribute_type type)
{
    static const char *const names[] = {"", "Text", "Keyword", "Int", "Double", "Bool", "Datetime", "KeywordList"};
    return type <= ATTRIBUTE_KEYWORD_LIST ? names[type] : "";
}

/* --- start --- */

void fairness_key(const char *workspace, char *to)
{
    INVARIANT(workspace != NULL && to != NULL);
    if (strlen(workspace) <= FAIRNESS_KEY_MAX) {
        text_copy(to, FAIRNESS_KEY_MAX + 1, workspace);
        return;
    }
    (void)snprintf(to, FAIRNESS_KEY_MAX + 1, "workspace-%016" PRIx64, text_hash(workspace));
}

int priority_key(int priority)
{
    if (priority == 0) {
        return 0;
    }
    bool is_far = priority >= PRIORITY_MOST / 2 || priority <= PRIORITY_LEAST / 2;
    return priority > 0 ? (is_far ? 1 : 2) : (is_far ? 5 : 4);
}

/* The arguments of a workflow. */
struct argument_parts {
    TemporalApi__Payloads payloads;
    TemporalApi__Payload *list[TEMPORAL_FIELDS_MAX];
    struct payload_parts parts[TEMPORAL_FIELDS_MAX];
    char *texts[TEMPORAL_FIELDS_MAX]; /* owned, or NULL */
    size_t count;
};

struct start_parts {
    TemporalApi__StartWorkflowExecutionRequest request;
    char fairness[FAIRNESS_KEY_MAX + 1];
    TemporalApi__WorkflowType type;
    TemporalApi__TaskQueue queue;
    struct argument_parts input;
    TemporalApi__Priority priority;
    TemporalApi__Duration times[6];
    TemporalApi__RetryPolicy retry;
    struct payload_map memo;
    struct payload_map attributes;
    struct payload_map headers;
};

static void add_argument(struct argument_parts *input, const char *encoding, const char *data, size_t length, char *owned)
{
    size_t i = input->count++;
    payload_init(&input->parts[i], encoding, data, length);
    input->texts[i] = owned;
    input->list[i] = &input->parts[i].payload;
    input->payloads.payloads = input->list;
    input->payloads.n_payloads = input->count;
}

/* The input as it was enqueued, or the arguments that the definition made of it. False when out of memory. */
static bool add_arguments(struct argument_parts *input, const struct start_message *start)
{
    const json_t *arguments = start->fields->arguments;
    size_t i;
    const json_t *value;
    temporal_api__payloads__init(&input->payloads);
    if (arguments == NULL) {
        add_argument(input, start->encoding, start->input, start->input_length, NULL);
        return true;
    }
    INVARIANT(json_array_size(arguments) <= TEMPORAL_FIELDS_MAX);
    json_array_foreach(arguments, i, value)
    {
        char *text = json_make_text(value, JSON_COMPACT);
        if (text == NULL) {
            return false;
        }
        add_argument(input, start->encoding, text, strlen(text), text);
    }
    return true;
}

/* Time-outs, delay and retry policy; a zero time is left out. */
static void add_times(struct start_parts *parts, const struct start_fields *fields)
{
    TemporalApi__StartWorkflowExecutionRequest *request = &parts->request;
    const struct step_retry *retry = fields->retry;
    request->workflow_execution_timeout = duration_of(&parts->times[0], fields->execution_timeout_us);
    request->workflow_run_timeout = duration_of(&parts->times[1], fields->run_timeout_us);
    request->workflow_task_timeout = duration_of(&parts->times[2], fields->task_timeout_us);
    request->workflow_start_delay = duration_of(&parts->times[5], fields->start_delay_us);
    if (retry != NULL) {
        temporal_api__retry_policy__init(&parts->retry);
        parts->retry.initial_interval = duration_of(&parts->times[3], retry->backoff_us);
        parts->retry.maximum_interval = duration_of(&parts->times[4], retry->max_us);
        parts->retry.backoff_coefficient = retry->factor;
        parts->retry.maximum_attempts = retry->attempts;
        parts->retry.non_retryable_error_types = (char **)(uintptr_t)retry->not_on;
        parts->retry.n_non_retryable_error_types = retry->not_on_count;
        request->retry_policy = &parts->retry;
    }
}

/* False when out of memory. */
static bool add_maps(struct start_parts *parts, const struct start_message *start)
{
    const json_t *types = start->attribute_types;
    enum attribute_type of_workspace = attribute_type_of(types, TEMPORAL_WORKSPACE_ATTRIBUTE);
    map_init(&parts->memo);
    map_init(&parts->attributes);
    map_init(&parts->headers);
    parts->request.memo = &parts->memo.map;
    bool is_fine = map_add_string(&parts->memo, "weir_execution", start->execution_id, ATTRIBUTE_UNKNOWN) &&
                   map_add_string(&parts->memo, "weir_workspace", start->workspace, ATTRIBUTE_UNKNOWN) &&
                   map_add_object(&parts->memo, start->fields->memo, NULL) &&
                   map_add_object(&parts->attributes, start->fields->attributes, types) &&
                   map_add_object(&parts->headers, start->fields->headers, NULL);
    if (is_fine && (of_workspace == ATTRIBUTE_KEYWORD || of_workspace == ATTRIBUTE_TEXT)) {
        is_fine = map_add_string(&parts->attributes, TEMPORAL_WORKSPACE_ATTRIBUTE, start->workspace, of_workspace);
    }
    if (parts->attributes.count > 0) {
        parts->request.search_attributes = &parts->attributes.map;
    }
    if (parts->headers.count > 0) {
        parts->request.header = &parts->headers.map;
    }
    return is_fine;
}

/* False when out of memory. */
static bool start_fill(struct start_parts *parts, const struct start_message *start)
{
    TemporalApi__StartWorkflowExecutionRequest *request = &parts->request;
    const struct start_fields *fields = start->fields;
    temporal_api__start_workflow_execution_request__init(request);
    fairness_key(start->workspace, parts->fairness);
    temporal_api__workflow_type__init(&parts->type);
    parts->type.name = text_of(start->workflow_type);
    task_queue_init(&parts->queue, fields->task_queue);
    temporal_api__priority__init(&parts->priority);
    parts->priority.priority_key = fields->priority_key != 0 ? fields->priority_key : priority_key(start->priority);
    parts->priority.fairness_key = parts->fairness;
    request->namespace_ = text_of(start->namespace_name);
    request->workflow_id = text_of(fields->workflow_id);
    request->workflow_type = &parts->type;
    request->task_queue = &parts->queue;
    request->input = &parts->input.payloads;
    request->identity = text_of(start->identity);
    request->request_id = text_of(start->execution_id);
    request->workflow_id_reuse_policy = REUSE_REJECT_DUPLICATE;
    request->workflow_id_conflict_policy = CONFLICT_FAIL;
    request->priority = &parts->priority;
    add_times(parts, fields);
    return add_maps(parts, start) && add_arguments(&parts->input, start);
}

struct bytes encode_start(const struct start_message *start)
{
    INVARIANT(start != NULL && start->fields != NULL && start->execution_id != NULL && start->encoding != NULL);
    struct bytes bytes = {NULL, 0};
    struct start_parts *parts = calloc(1, sizeof *parts);
    if (parts == NULL) {
        return bytes;
    }
    if (start_fill(parts, start)) {
        bytes = pack(&parts->request.base);
    }
    map_close(&parts->memo);
    map_close(&parts->attributes);
    map_close(&parts->headers);
    for (size_t i = 0; i < parts->input.count; i++) {
        free(parts->input.texts[i]);
    }
    free(parts);
    return bytes;
}

/* --- reading --- */

struct bytes encode_describe(const char *namespace_name, const char *workflow_id, const char *run_id)
{
    INVARIANT(namespace_name != NULL && workflow_id != NULL);
    TemporalApi__DescribeWorkflowExecutionRequest request = TEMPORAL_API__DESCRIBE_WORKFLOW_EXECUTION_REQUEST__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow_id, run_id);
    request.namespace_ = text_of(namespace_name);
    request.execution = &execution;
    return pack(&request.base);
}

struct bytes encode_list(const char *namespace_name, const char *query, int page_size, struct bytes token)
{
    INVARIANT(namespace_name != NULL && query != NULL && page_size > 0 && page_size <= LIST_PAGE_SIZE);
    TemporalApi__ListWorkflowExecutionsRequest request = TEMPORAL_API__LIST_WORKFLOW_EXECUTIONS_REQUEST__INIT;
    request.namespace_ = text_of(namespace_name);
    request.query = text_of(query);
    request.page_size = page_size;
    request.next_page_token = data_of(token.data, token.length);
    return pack(&request.base);
}

struct bytes encode_close_event(const char *namespace_name, const char *workflow_id, const char *run_id, bool wait,
                                struct bytes token)
{
    INVARIANT(namespace_name != NULL && workflow_id != NULL);
    TemporalApi__GetWorkflowExecutionHistoryRequest request = TEMPORAL_API__GET_WORKFLOW_EXECUTION_HISTORY_REQUEST__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow_id, run_id);
    request.namespace_ = text_of(namespace_name);
    request.execution = &execution;
    request.history_event_filter_type = FILTER_CLOSE_EVENT;
    request.wait_new_event = wait;
    request.skip_archival = 1;
    request.next_page_token = data_of(token.data, token.length);
    return pack(&request.base);
}

struct bytes encode_last_events(const char *namespace_name, const char *workflow_id, int count)
{
    INVARIANT(namespace_name != NULL && workflow_id != NULL && count > 0);
    TemporalApi__GetWorkflowExecutionHistoryReverseRequest request =
        TEMPORAL_API__GET_WORKFLOW_EXECUTION_HISTORY_REVERSE_REQUEST__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow_id, NULL);
    request.namespace_ = text_of(namespace_name);
    request.execution = &execution;
    request.maximum_page_size = count;
    return pack(&request.base);
}

/* --- acting --- */

struct bytes encode_cancel(const char *namespace_name, const struct workflow_name *workflow, const char *request_id,
                           const char *identity, const char *reason)
{
    INVARIANT(namespace_name != NULL && workflow != NULL && workflow->workflow_id != NULL);
    TemporalApi__RequestCancelWorkflowExecutionRequest request =
        TEMPORAL_API__REQUEST_CANCEL_WORKFLOW_EXECUTION_REQUEST__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow->workflow_id, workflow->run_id);
    request.namespace_ = text_of(namespace_name);
    request.workflow_execution = &execution;
    request.identity = text_of(identity);
    request.request_id = text_of(request_id);
    request.first_execution_run_id = text_of(workflow->first_run_id);
    request.reason = text_of(reason);
    return pack(&request.base);
}

struct bytes encode_terminate(const char *namespace_name, const struct workflow_name *workflow, const char *identity,
                              const char *reason)
{
    INVARIANT(namespace_name != NULL && workflow != NULL && workflow->workflow_id != NULL);
    TemporalApi__TerminateWorkflowExecutionRequest request = TEMPORAL_API__TERMINATE_WORKFLOW_EXECUTION_REQUEST__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow->workflow_id, workflow->run_id);
    request.namespace_ = text_of(namespace_name);
    request.workflow_execution = &execution;
    request.identity = text_of(identity);
    request.first_execution_run_id = text_of(workflow->first_run_id);
    request.reason = text_of(reason);
    return pack(&request.base);
}

struct bytes encode_signal(const char *namespace_name, const struct workflow_name *workflow, const char *signal_name,
                           const char *request_id, const char *identity, const struct payloads *input)
{
    INVARIANT(namespace_name != NULL && workflow != NULL && workflow->workflow_id != NULL);
    TemporalApi__SignalWorkflowExecutionRequest request = TEMPORAL_API__SIGNAL_WORKFLOW_EXECUTION_REQUEST__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow->workflow_id, workflow->run_id);
    request.namespace_ = text_of(namespace_name);
    request.workflow_execution = &execution;
    request.signal_name = text_of(signal_name);
    request.identity = text_of(identity);
    request.request_id = text_of(request_id);
    request.input = input == NULL ? NULL : payloads_message(input);
    return pack(&request.base);
}

struct bytes encode_query(const char *namespace_name, const struct workflow_name *workflow, const char *type,
                          const struct payloads *input)
{
    INVARIANT(namespace_name != NULL && workflow != NULL && workflow->workflow_id != NULL);
    TemporalApi__QueryWorkflowRequest request = TEMPORAL_API__QUERY_WORKFLOW_REQUEST__INIT;
    TemporalApi__WorkflowQuery query = TEMPORAL_API__WORKFLOW_QUERY__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, workflow->workflow_id, workflow->run_id);
    query.query_type = text_of(type);
    query.query_args = input == NULL ? NULL : payloads_message(input);
    request.namespace_ = text_of(namespace_name);
    request.execution = &execution;
    request.query = &query;
    return pack(&request.base);
}

struct bytes encode_update(const struct update_message *update)
{
    INVARIANT(update != NULL && update->update_id != NULL && update->name != NULL);
    TemporalApi__UpdateWorkflowExecutionRequest request = TEMPORAL_API__UPDATE_WORKFLOW_EXECUTION_REQUEST__INIT;
    TemporalApi__UpdateWaitPolicy wait = TEMPORAL_API__UPDATE_WAIT_POLICY__INIT;
    TemporalApi__UpdateRequest inner = TEMPORAL_API__UPDATE_REQUEST__INIT;
    TemporalApi__UpdateMeta meta = TEMPORAL_API__UPDATE_META__INIT;
    TemporalApi__UpdateInput input = TEMPORAL_API__UPDATE_INPUT__INIT;
    TemporalApi__WorkflowExecution execution;
    execution_init(&execution, update->workflow.workflow_id, update->workflow.run_id);
    wait.lifecycle_stage = UPDATE_IS_COMPLETED;
    meta.update_id = text_of(update->update_id);
    meta.identity = text_of(update->identity);
    input.name = text_of(update->name);
    input.args = update->input == NULL ? NULL : payloads_message(update->input);
    inner.meta = &meta;
    inner.input = &input;
    request.namespace_ = text_of(update->namespace_name);
    request.workflow_execution = &execution;
    request.first_execution_run_id = text_of(update->workflow.first_run_id);
    request.wait_policy = &wait;
    request.request = &inner;
    return pack(&request.base);
}

/* --- the service --- */

struct bytes encode_system_info(void)
{
    TemporalApi__GetSystemInfoRequest request = TEMPORAL_API__GET_SYSTEM_INFO_REQUEST__INIT;
    return pack(&request.base);
}

struct bytes encode_describe_namespace(const char *namespace_name)
{
    INVARIANT(namespace_name != NULL);
    TemporalApi__DescribeNamespaceRequest request = TEMPORAL_API__DESCRIBE_NAMESPACE_REQUEST__INIT;
    request.namespace_ = text_of(namespace_name);
    return pack(&request.base);
}

struct bytes encode_list_attributes(const char *namespace_name)
{
    TemporalApi__ListSearchAttributesRequest request = TEMPORAL_API__LIST_SEARCH_ATTRIBUTES_REQUEST__INIT;
    request.namespace_ = text_of(namespace_name);
    return pack(&request.base);
}

struct bytes encode_add_attribute(const char *namespace_name, const char *name, enum attribute_type type)
{
    INVARIANT(namespace_name != NULL && name != NULL && type != ATTRIBUTE_UNKNOWN);
    TemporalApi__AddSearchAttributesRequest request = TEMPORAL_API__ADD_SEARCH_ATTRIBUTES_REQUEST__INIT;
    TemporalApi__AttributeEntry entry = TEMPORAL_API__ATTRIBUTE_ENTRY__INIT;
    TemporalApi__AttributeEntry *list[1] = {&entry};
    entry.key = text_of(name);
    entry.value = (int32_t)type;
    request.search_attributes = list;
    request.n_search_attributes = 1;
    request.namespace_ = text_of(namespace_name);
    return pack(&request.base);
}

struct bytes encode_describe_task_queue(const char *namespace_name, const char *task_queue)
{
    INVARIANT(namespace_name != NULL && task_queue != NULL);
    TemporalApi__DescribeTaskQueueRequest request = TEMPORAL_API__DESCRIBE_TASK_QUEUE_REQUEST__INIT;
    TemporalApi__TaskQueue queue;
    task_queue_init(&queue, task_queue);
    request.namespace_ = text_of(namespace_name);
    request.task_queue = &queue;
    request.task_queue_type = TASK_QUEUE_TYPE_WORKFLOW;
    return pack(&request.base);
}
