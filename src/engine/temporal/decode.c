/* The answers of the service, read into plain structs.
 *
 * protobuf-c unpacks the bytes into its own structs; each function copies the few fields that weir uses and frees the rest.
 * Unpacking allocates in proportion to the bytes, which the caller has bounded. Messages and names for people are made safe
 * for terminals and logs before they are stored; ids stay as they are, because they are compared.
 *
 * An end has payloads that a codec may have to decode. They are read twice then: once as they are, and once with the
 * decoded payloads in place, in the order in which payloads.c collected them.
 *
 * No function may guess: an answer that is not understood is WEIR_FAILED. The bytes may come from a hostile server, so
 * depth and sizes are bounded here. The functions are pure; any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/libssl.h"
#include "base/text.h"
#include "engine/temporal/decode.h"

enum {
    EVENT_COMPLETED = 2,
    EVENT_FAILED = 3,
    EVENT_TIMED_OUT = 4,
    EVENT_WORKFLOW_TASK_TIMED_OUT = 8,
    EVENT_WORKFLOW_TASK_FAILED = 9,
    EVENT_CANCELED = 21,
    EVENT_TERMINATED = 27,
    EVENT_CONTINUED_AS_NEW = 28
};

enum { TASK_IS_SCHEDULED = 1 }; /* PendingWorkflowTaskState */

bool run_status_is_closed(int status)
{
    return status >= RUN_STATUS_COMPLETED && status <= RUN_STATUS_TIMED_OUT;
}

int64_t timestamp_us(const TemporalApi__Timestamp *timestamp)
{
    if (timestamp == NULL || timestamp->seconds < 0 || timestamp->seconds > INT64_MAX / MICROSECONDS_PER_SECOND / 2) {
        return 0;
    }
    return timestamp->seconds * MICROSECONDS_PER_SECOND + timestamp->nanos / 1000;
}

static enum weir_status copy_bytes(const ProtobufCBinaryData *from, struct bytes *to)
{
    *to = (struct bytes){NULL, 0};
    if (from->len == 0) {
        return WEIR_OK;
    }
    to->data = malloc(from->len);
    if (to->data == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    memcpy(to->data, from->data, from->len);
    to->length = from->len;
    return WEIR_OK;
}

/* --- short answers --- */

enum weir_status decode_start(const uint8_t *data, size_t length, struct start_answer *ret_answer)
{
    INVARIANT(ret_answer != NULL);
    TemporalApi__StartWorkflowExecutionResponse *answer =
        temporal_api__start_workflow_execution_response__unpack(NULL, length, data);
    if (answer == NULL || answer->run_id[0] == '\0') {
        temporal_api__start_workflow_execution_response__free_unpacked(answer, NULL);
        return WEIR_FAILED;
    }
    text_copy(ret_answer->run_id, sizeof ret_answer->run_id, answer->run_id);
    ret_answer->status = answer->status;
    temporal_api__start_workflow_execution_response__free_unpacked(answer, NULL);
    return WEIR_OK;
}

/* The memo has the execution id as a JSON string without escapes. */
static void read_memo(const TemporalApi__PayloadMap *memo, char *to, size_t size)
{
    for (size_t i = 0; memo != NULL && i < memo->n_fields; i++) {
        const TemporalApi__PayloadEntry *entry = memo->fields[i];
        const ProtobufCBinaryData *data = entry->value == NULL ? NULL : &entry->value->data;
        if (strcmp(entry->key, "weir_execution") == 0 && data != NULL && data->len > 2 && data->len - 2 < size &&
            data->data[0] == '"') {
            memcpy(to, data->data + 1, data->len - 2);
            to[data->len - 2] = '\0';
        }
    }
}

enum weir_status decode_describe(const uint8_t *data, size_t length, struct describe_answer *ret_answer)
{
    INVARIANT(ret_answer != NULL);
    TemporalApi__DescribeWorkflowExecutionResponse *answer =
        temporal_api__describe_workflow_execution_response__unpack(NULL, length, data);
    const TemporalApi__WorkflowExecutionInfo *info = answer == NULL ? NULL : answer->workflow_execution_info;
    if (info == NULL || info->execution == NULL || info->execution->run_id[0] == '\0') {
        temporal_api__describe_workflow_execution_response__free_unpacked(answer, NULL);
        return WEIR_FAILED;
    }
    *ret_answer = (struct describe_answer){.status = info->status};
    text_copy(ret_answer->run_id, sizeof ret_answer->run_id, info->execution->run_id);
    text_copy(ret_answer->first_run_id, sizeof ret_answer->first_run_id, info->first_run_id);
    read_memo(info->memo, ret_answer->memo_execution, sizeof ret_answer->memo_execution);
    text_copy(ret_answer->task_queue, sizeof ret_answer->task_queue, info->task_queue);
    text_make_safe(ret_answer->task_queue);
    if (answer->pending_workflow_task != NULL) {
        ret_answer->has_task = true;
        ret_answer->task_is_open = answer->pending_workflow_task->state == TASK_IS_SCHEDULED;
        ret_answer->task_attempt = answer->pending_workflow_task->attempt;
        ret_answer->task_at_us = timestamp_us(answer->pending_workflow_task->original_scheduled_time);
    }
    temporal_api__describe_workflow_execution_response__free_unpacked(answer, NULL);
    return WEIR_OK;
}

enum weir_status decode_list(const uint8_t *data, size_t length, void (*visit)(void *context, const struct list_row *row),
                             void *context, struct list_answer *ret_answer)
{
    INVARIANT(visit != NULL && ret_answer != NULL);
    TemporalApi__ListWorkflowExecutionsResponse *answer =
        temporal_api__list_workflow_executions_response__unpack(NULL, length, data);
    if (answer == NULL) {
        return WEIR_FAILED;
    }
    struct list_answer result = {.rows = answer->n_executions};
    enum weir_status status = copy_bytes(&answer->next_page_token, &result.token);
    for (size_t i = 0; status == WEIR_OK && i < answer->n_executions; i++) {
        const TemporalApi__WorkflowExecutionInfo *info = answer->executions[i];
        if (info->execution == NULL) {
            continue;
        }
        struct list_row row = {.workflow_id = info->execution->workflow_id,
                               .run_id = info->execution->run_id,
                               .status = info->status,
                               .close_us = timestamp_us(info->close_time)};
        if (row.close_us > result.latest_close_us) {
            result.latest_close_us = row.close_us;
        }
        visit(context, &row);
    }
    temporal_api__list_workflow_executions_response__free_unpacked(answer, NULL);
    if (status == WEIR_OK) {
        *ret_answer = result;
    }
    return status;
}

/* --- results --- */

/* Payloads from a codec, in the order of the payloads that were not plain. */
struct decoded {
    const TemporalApi__Payloads *payloads; /* NULL: none */
    size_t next;
};

/* The decoded payload in place of one that is not plain, or the payload itself. */
static const TemporalApi__Payload *decoded_take(struct decoded *decoded, const TemporalApi__Payload *payload)
{
    bool is_decoded = decoded->payloads != NULL && !payload_is_plain(payload);
    if (is_decoded && decoded->next < decoded->payloads->n_payloads) {
        return decoded->payloads->payloads[decoded->next++];
    }
    return payload;
}

bool payload_has_encoding(const TemporalApi__Payload *payload, const char *name)
{
    INVARIANT(payload != NULL && name != NULL);
    for (size_t i = 0; i < payload->n_metadata; i++) {
        const ProtobufCBinaryData *value = &payload->metadata[i]->value;
        if (strcmp(payload->metadata[i]->key, "encoding") == 0) {
            return value->len == strlen(name) && memcmp(value->data, name, value->len) == 0;
        }
    }
    return false;
}

/* Bytes that are no JSON, in a form that keeps them. NULL when out of memory. */
static json_t *wrap_bytes(const ProtobufCBinaryData *data)
{
    INVARIANT(data->len <= STEP_OUTPUT_BYTES_MAX);
    char *base64 = malloc(4 * ((data->len + 2) / 3) + 1);
    if (base64 == NULL || libssl_load(NULL) != WEIR_OK) {
        free(base64);
        return NULL;
    }
    (void)EVP_EncodeBlock((unsigned char *)base64, data->data, (int)data->len);
    json_t *wrapped = json_pack("{s:s}", "base64", base64);
    free(base64);
    return wrapped;
}

/* JSON of a JSON payload, null of an empty one, else the bytes in base64. NULL when out of memory. The caller has checked
 * the size. */
static json_t *payload_to_json(const TemporalApi__Payload *payload, bool *ret_is_json)
{
    json_t *value = NULL;
    enum weir_status status = WEIR_FAILED;
    *ret_is_json = false;
    if (payload_has_encoding(payload, "binary/null")) {
        return json_null();
    }
    if (payload_has_encoding(payload, "json/plain") || payload_has_encoding(payload, "json/protobuf")) {
        status = json_read((const char *)payload->data.data, payload->data.len, &value, NULL);
    }
    *ret_is_json = status == WEIR_OK;
    return status == WEIR_OK || status == WEIR_OUT_OF_MEMORY ? value : wrap_bytes(&payload->data);
}

/* One payload gives its value, none gives null, several give a list. A single JSON value stays byte for byte. */
static enum weir_status write_value(TemporalApi__Payload *const *payloads, size_t count, struct decoded *decoded,
                                    struct text *to, size_t *ret_bytes)
{
    const TemporalApi__Payload *only = NULL;
    bool is_json = false;
    json_t *value = count == 0 ? json_null() : json_array();
    *ret_bytes = 0;
    for (size_t i = 0; value != NULL && i < count; i++) {
        only = decoded_take(decoded, payloads[i]);
        *ret_bytes += only->data.len;
        json_t *one = *ret_bytes > STEP_OUTPUT_BYTES_MAX ? json_null() : payload_to_json(only, &is_json);
        if (json_array_append_new(value, one) != 0) {
            json_decref(value);
            value = NULL;
        }
    }
    enum weir_status status = value == NULL                        ? WEIR_OUT_OF_MEMORY
                              : *ret_bytes > STEP_OUTPUT_BYTES_MAX ? WEIR_FAILED
                              : count == 1 && is_json ? text_add(to, (const char *)only->data.data, only->data.len)
                                                      : json_write(count == 1 ? json_array_get(value, 0) : value, to, NULL);
    json_decref(value);
    return status;
}

static enum weir_status read_result_payloads(const TemporalApi__Payloads *payloads, struct decoded *decoded,
                                             struct close_event *closing)
{
    struct text text = {.max = STEP_OUTPUT_BYTES_MAX};
    enum weir_status status =
        write_value(payloads == NULL ? NULL : payloads->payloads, payloads == NULL ? 0 : payloads->n_payloads, decoded,
                    &text, &closing->result_bytes);
    if (status == WEIR_OK) {
        closing->result = text.data;
        closing->result_length = text.length;
        return WEIR_OK;
    }
    text_close(&text);
    return status == WEIR_OUT_OF_MEMORY ? status : WEIR_OK; /* too large, perhaps only as text: result_bytes shows it */
}

enum weir_status payloads_value(const struct payloads *payloads, struct text *to)
{
    struct decoded decoded = {.payloads = NULL};
    const TemporalApi__Payloads *message = payloads_message(payloads);
    size_t bytes;
    return write_value(message->payloads, message->n_payloads, &decoded, to, &bytes);
}

/* --- failures --- */

/* False when the text is full: then it is cut. */
static bool add_text_part(struct text *to, const char *words)
{
    size_t left = to->max - to->length;
    size_t length = strlen(words);
    return text_add(to, words, length < left ? length : left) == WEIR_OK && length < left;
}

/* The outermost type of an application failure becomes the error code. */
static void copy_failure_type(const TemporalApi__Failure *failure, struct close_event *closing)
{
    const TemporalApi__ApplicationFailureInfo *info = failure->application_failure_info;
    if (closing->error_code[0] == '\0' && info != NULL && info->type[0] != '\0') {
        text_copy(closing->error_code, sizeof closing->error_code, info->type);
        text_make_safe(closing->error_code);
    }
}

/* The message of a failure may stand in its encoded attributes instead. NULL when it does not, or cannot be read. */
static json_t *encoded_message(const TemporalApi__Failure *failure, struct decoded *decoded)
{
    bool is_json = false;
    if (failure->encoded_attributes == NULL) {
        return NULL;
    }
    const TemporalApi__Payload *payload = decoded_take(decoded, failure->encoded_attributes);
    if (payload->data.len > STEP_OUTPUT_BYTES_MAX) {
        return NULL;
    }
    json_t *attributes = payload_to_json(payload, &is_json);
    json_t *message = json_incref(json_object_get(attributes, "message"));
    json_decref(attributes);
    if (!is_json || !json_is_string(message)) {
        json_decref(message);
        return NULL;
    }
    return message;
}

/* "message; caused by: Type: message; ..." from the outermost to the innermost. */
static void read_failure(const TemporalApi__Failure *failure, struct decoded *decoded, struct close_event *closing)
{
    struct text text = {.max = ERROR_TEXT_MAX};
    TemporalApi__Failure *inner = NULL;
    for (int depth = 0; failure != NULL && depth < FAILURE_DEPTH_MAX; depth++) {
        const TemporalApi__ApplicationFailureInfo *info = failure->application_failure_info;
        bool has_space = depth == 0 || add_text_part(&text, "; caused by: ");
        if (has_space && info != NULL && info->type[0] != '\0') {
            has_space = add_text_part(&text, info->type) && add_text_part(&text, ": ");
        }
        json_t *message = encoded_message(failure, decoded);
        has_space = has_space && add_text_part(&text, message == NULL ? failure->message : json_string_value(message));
        json_decref(message);
        if (!has_space) {
            break;
        }
        copy_failure_type(failure, closing);
        TemporalApi__Failure *next =
            failure->cause.len == 0 ? NULL : temporal_api__failure__unpack(NULL, failure->cause.len, failure->cause.data);
        temporal_api__failure__free_unpacked(inner, NULL);
        inner = next;
        failure = next;
    }
    temporal_api__failure__free_unpacked(inner, NULL);
    if (text.data != NULL) {
        text_make_safe(text.data);
    }
    closing->error = text.data;
}

char *failure_text(const TemporalApi__Failure *failure)
{
    struct decoded decoded = {.payloads = NULL};
    struct close_event closing = {.kind = CLOSE_NONE};
    read_failure(failure, &decoded, &closing);
    return closing.error;
}

json_t *payload_value(const TemporalApi__Payload *payload)
{
    bool is_json;
    return payload->data.len > STEP_OUTPUT_BYTES_MAX ? json_null() : payload_to_json(payload, &is_json);
}

/* "terminated by IDENTITY: REASON". */
static void read_termination(const TemporalApi__TerminatedAttributes *terminated, struct close_event *closing)
{
    struct text text = {.max = ERROR_TEXT_MAX};
    closing->by_weir = terminated != NULL && strcmp(terminated->identity, OPERATOR_IDENTITY) == 0;
    if (terminated != NULL && add_text_part(&text, "terminated")) {
        if (terminated->identity[0] != '\0') {
            (void)(add_text_part(&text, " by ") && add_text_part(&text, terminated->identity));
        }
        if (terminated->reason[0] != '\0') {
            (void)(add_text_part(&text, ": ") && add_text_part(&text, terminated->reason));
        }
        text_make_safe(text.data);
    }
    closing->error = text.data;
}

/* The chain goes on in this run; "" = it ends. */
static void set_next_run(struct close_event *closing, const char *run_id)
{
    text_copy(closing->next_run_id, sizeof closing->next_run_id, run_id);
}

/* The event that closes a run. Any other event is the last one of an open run. */
static enum weir_status read_end_event(const TemporalApi__HistoryEvent *event, struct decoded *decoded,
                                       struct close_event *closing)
{
    closing->at_us = timestamp_us(event->event_time);
    switch (event->event_type) {
    case EVENT_COMPLETED:
        closing->kind = CLOSE_COMPLETED;
        if (event->completed != NULL) {
            set_next_run(closing, event->completed->new_execution_run_id);
        }
        return read_result_payloads(event->completed == NULL ? NULL : event->completed->result, decoded, closing);
    case EVENT_FAILED:
        closing->kind = CLOSE_FAILED;
        if (event->failed != NULL) {
            set_next_run(closing, event->failed->new_execution_run_id);
            read_failure(event->failed->failure, decoded, closing);
        }
        if (event->failed != NULL && event->failed->failure != NULL && closing->error == NULL) {
            return WEIR_OUT_OF_MEMORY; /* the caller reads it again */
        }
        break;
    case EVENT_TIMED_OUT:
        closing->kind = CLOSE_TIMED_OUT;
        if (event->timed_out != NULL) {
            set_next_run(closing, event->timed_out->new_execution_run_id);
        }
        text_copy(closing->error_code, sizeof closing->error_code, "timed_out");
        closing->error = strdup("the time-out of the workflow has passed");
        if (closing->error == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        break;
    case EVENT_CANCELED:
        closing->kind = CLOSE_CANCELED;
        break;
    case EVENT_TERMINATED:
        closing->kind = CLOSE_TERMINATED;
        text_copy(closing->error_code, sizeof closing->error_code, "terminated");
        read_termination(event->terminated, closing);
        break;
    case EVENT_CONTINUED_AS_NEW:
        closing->kind = CLOSE_CONTINUED;
        if (event->continued_as_new != NULL) {
            set_next_run(closing, event->continued_as_new->new_execution_run_id);
        }
        break;
    default:
        break; /* the run is open */
    }
    if (closing->kind == CLOSE_FAILED && closing->error_code[0] == '\0') {
        text_copy(closing->error_code, sizeof closing->error_code, "workflow_failed");
    }
    return WEIR_OK;
}

void close_event_close(struct close_event *closing)
{
    INVARIANT(closing != NULL);
    free(closing->result);
    free(closing->error);
    free(closing->token.data);
    free(closing->answer.data);
    text_close(&closing->encoded);
    *closing = (struct close_event){.kind = CLOSE_NONE};
}

static enum weir_status read_close_event(const uint8_t *data, size_t length, struct decoded *decoded,
                                         struct close_event *ret_closing)
{
    TemporalApi__GetWorkflowExecutionHistoryResponse *answer =
        temporal_api__get_workflow_execution_history_response__unpack(NULL, length, data);
    struct close_event closing = {.kind = CLOSE_NONE};
    if (answer == NULL) {
        return WEIR_FAILED;
    }
    enum weir_status status = copy_bytes(&answer->next_page_token, &closing.token);
    size_t count = answer->history == NULL ? 0 : answer->history->n_events;
    if (status == WEIR_OK && count > 0) {
        status = read_end_event(answer->history->events[count - 1], decoded, &closing);
    }
    temporal_api__get_workflow_execution_history_response__free_unpacked(answer, NULL);
    if (status != WEIR_OK) {
        close_event_close(&closing);
        return status;
    }
    *ret_closing = closing;
    return WEIR_OK;
}

enum weir_status decode_close_event(const uint8_t *data, size_t length, struct close_event *ret_closing)
{
    INVARIANT(ret_closing != NULL);
    struct decoded decoded = {.payloads = NULL};
    return read_close_event(data, length, &decoded, ret_closing);
}

bool close_event_keep_encoded(struct close_event *closing, const uint8_t *data, size_t length)
{
    INVARIANT(closing != NULL && data != NULL);
    closing->encoded.max = PAYLOADS_BYTES_MAX * 2;
    if (payloads_of_close_event(data, length, &closing->encoded) == WEIR_OUT_OF_MEMORY) {
        return false;
    }
    if (closing->encoded.length == 0) {
        return true;
    }
    ProtobufCBinaryData answer = {.len = length, .data = (uint8_t *)(uintptr_t)data};
    return copy_bytes(&answer, &closing->answer) == WEIR_OK;
}

enum weir_status close_event_decode(struct close_event *closing, const char *json, size_t length)
{
    INVARIANT(closing != NULL && (json != NULL || length == 0) && closing->encoded.length > 0);
    struct payloads *sent = NULL;
    struct payloads *payloads = NULL;
    struct close_event read = {.kind = CLOSE_NONE};
    enum weir_status status = payloads_read(closing->encoded.data, closing->encoded.length, &sent);
    status = status == WEIR_OK ? payloads_read(json, length, &payloads) : status;
    if (status == WEIR_OK && payloads_count(sent) != payloads_count(payloads)) {
        status = WEIR_FAILED;
    }
    if (status == WEIR_OK) {
        struct decoded decoded = {.payloads = payloads_message(payloads)};
        status = read_close_event(closing->answer.data, closing->answer.length, &decoded, &read);
    }
    payloads_free(sent);
    payloads_free(payloads);
    if (status == WEIR_OK) {
        close_event_close(closing);
        *closing = read;
    }
    return status;
}

/* --- the service --- */

enum weir_status decode_system_info(const uint8_t *data, size_t length, char *ret_version, size_t size)
{
    INVARIANT(ret_version != NULL && size > 0);
    TemporalApi__GetSystemInfoResponse *answer = temporal_api__get_system_info_response__unpack(NULL, length, data);
    if (answer == NULL) {
        return WEIR_FAILED;
    }
    text_copy(ret_version, size, answer->server_version);
    text_make_safe(ret_version);
    temporal_api__get_system_info_response__free_unpacked(answer, NULL);
    return WEIR_OK;
}

enum weir_status decode_namespace(const uint8_t *data, size_t length, struct namespace_answer *ret_answer)
{
    INVARIANT(ret_answer != NULL);
    TemporalApi__DescribeNamespaceResponse *answer = temporal_api__describe_namespace_response__unpack(NULL, length, data);
    if (answer == NULL || answer->namespace_info == NULL) {
        temporal_api__describe_namespace_response__free_unpacked(answer, NULL);
        return WEIR_FAILED;
    }
    const TemporalApi__Duration *retention =
        answer->config == NULL ? NULL : answer->config->workflow_execution_retention_ttl;
    ret_answer->state = answer->namespace_info->state;
    ret_answer->retention_us = 0;
    text_copy(ret_answer->id, sizeof ret_answer->id, answer->namespace_info->id);
    text_make_safe(ret_answer->id);
    if (retention != NULL && retention->seconds > 0) {
        int64_t most = INT64_MAX / MICROSECONDS_PER_SECOND / 2;
        ret_answer->retention_us = (retention->seconds < most ? retention->seconds : most) * MICROSECONDS_PER_SECOND;
    }
    temporal_api__describe_namespace_response__free_unpacked(answer, NULL);
    return WEIR_OK;
}

enum weir_status decode_attributes(const uint8_t *data, size_t length, json_t **ret_types)
{
    INVARIANT(ret_types != NULL);
    TemporalApi__ListSearchAttributesResponse *answer =
        temporal_api__list_search_attributes_response__unpack(NULL, length, data);
    json_t *types = answer == NULL ? NULL : json_object();
    for (size_t i = 0; types != NULL && i < answer->n_custom_attributes; i++) {
        const TemporalApi__AttributeEntry *entry = answer->custom_attributes[i];
        /* A name that is no UTF-8 is refused by jansson, and left out. */
        (void)json_object_set_new(types, entry->key, json_integer(entry->value));
    }
    temporal_api__list_search_attributes_response__free_unpacked(answer, NULL);
    if (types == NULL) {
        return WEIR_FAILED;
    }
    *ret_types = types;
    return WEIR_OK;
}

enum weir_status decode_task_queue(const uint8_t *data, size_t length, struct pollers_answer *ret_answer)
{
    INVARIANT(ret_answer != NULL);
    TemporalApi__DescribeTaskQueueResponse *answer = temporal_api__describe_task_queue_response__unpack(NULL, length, data);
    if (answer == NULL) {
        return WEIR_FAILED;
    }
    *ret_answer = (struct pollers_answer){.count = answer->n_pollers};
    for (size_t i = 0; i < answer->n_pollers; i++) {
        int64_t at_us = timestamp_us(answer->pollers[i]->last_access_time);
        if (at_us >= ret_answer->last_us) {
            ret_answer->last_us = at_us;
            text_copy(ret_answer->last, sizeof ret_answer->last, answer->pollers[i]->identity);
        }
    }
    text_make_safe(ret_answer->last);
    temporal_api__describe_task_queue_response__free_unpacked(answer, NULL);
    return WEIR_OK;
}

/* "message (worker)". */
static void read_task_failure(const TemporalApi__HistoryEvent *event, char *to, size_t size)
{
    const TemporalApi__WorkflowTaskFailedAttributes *failed = event->workflow_task_failed;
    const char *message = event->event_type == EVENT_WORKFLOW_TASK_TIMED_OUT ? "the worker did not answer in time"
                          : failed == NULL || failed->failure == NULL        ? "the worker gave no reason"
                                                                             : failed->failure->message;
    if (failed != NULL && failed->identity[0] != '\0') {
        (void)snprintf(to, size, "%.*s (worker %.100s)", (int)(size / 2), message, failed->identity);
    } else {
        text_copy(to, size, message);
    }
    text_make_safe(to);
}

enum weir_status decode_task_failure(const uint8_t *data, size_t length, char *to, size_t size)
{
    INVARIANT(to != NULL && size > 0);
    TemporalApi__GetWorkflowExecutionHistoryResponse *answer =
        temporal_api__get_workflow_execution_history_response__unpack(NULL, length, data);
    if (answer == NULL) {
        return WEIR_FAILED;
    }
    size_t count = answer->history == NULL ? 0 : answer->history->n_events;
    to[0] = '\0';
    for (size_t i = 0; i < count && to[0] == '\0'; i++) {
        const TemporalApi__HistoryEvent *event = answer->history->events[i];
        if (event->event_type == EVENT_WORKFLOW_TASK_FAILED || event->event_type == EVENT_WORKFLOW_TASK_TIMED_OUT) {
            read_task_failure(event, to, size);
        }
    }
    temporal_api__get_workflow_execution_history_response__free_unpacked(answer, NULL);
    return WEIR_OK;
}

/* --- the details of an error --- */

static void read_already_started(const ProtobufCBinaryData *data, struct detail *detail)
{
    TemporalApi__WorkflowExecutionAlreadyStartedFailure *failure =
        temporal_api__workflow_execution_already_started_failure__unpack(NULL, data->len, data->data);
    if (failure != NULL) {
        detail->kind = DETAIL_ALREADY_STARTED;
        text_copy(detail->start_request_id, sizeof detail->start_request_id, failure->start_request_id);
        text_copy(detail->run_id, sizeof detail->run_id, failure->run_id);
        text_copy(detail->first_run_id, sizeof detail->first_run_id, failure->first_execution_run_id);
        temporal_api__workflow_execution_already_started_failure__free_unpacked(failure, NULL);
    }
}

static void read_exhausted(const ProtobufCBinaryData *data, struct detail *detail)
{
    TemporalApi__ResourceExhaustedFailure *failure =
        temporal_api__resource_exhausted_failure__unpack(NULL, data->len, data->data);
    if (failure != NULL) {
        detail->kind = DETAIL_RESOURCE_EXHAUSTED;
        detail->cause = failure->cause;
        detail->scope = failure->scope;
        temporal_api__resource_exhausted_failure__free_unpacked(failure, NULL);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

void decode_detail(const uint8_t *data, size_t length, struct detail *ret_detail)
{
    INVARIANT(ret_detail != NULL);
    *ret_detail = (struct detail){.kind = DETAIL_NONE};
    TemporalApi__Status *status = length == 0 ? NULL : temporal_api__status__unpack(NULL, length, data);
    for (size_t i = 0; status != NULL && i < status->n_details && ret_detail->kind == DETAIL_NONE; i++) {
        const char *name = status->details[i]->type_url;
        if (ends_with(name, ".WorkflowExecutionAlreadyStartedFailure")) {
            read_already_started(&status->details[i]->value, ret_detail);
        } else if (ends_with(name, ".ResourceExhaustedFailure")) {
            read_exhausted(&status->details[i]->value, ret_detail);
        } else if (ends_with(name, ".NamespaceNotFoundFailure")) {
            ret_detail->kind = DETAIL_NAMESPACE_NOT_FOUND;
        } else {
            ret_detail->kind = DETAIL_OTHER;
        }
    }
    temporal_api__status__free_unpacked(status, NULL);
}
