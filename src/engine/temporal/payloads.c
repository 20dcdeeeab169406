/* Payloads between the messages of the service and the JSON of a payload codec:
 * {"payloads": [{"metadata": {KEY: BASE64}, "data": BASE64}]}.
 *
 * 1. The payloads that a codec must handle are collected from a message in a fixed order. Of a start these are its
 *    arguments, then the memo of the definition. Of an end they are those that are not plain, from the outermost
 *    failure to the innermost.
 * 2. They are written as JSON, and the codec answers with another list.
 * 3. That list replaces the originals in the same order. So both lists must have the same length, or the answer is refused:
 *    a payload in the wrong place would change the meaning of a start without an error.
 *
 * weir's own memo fields and the search attributes are never encoded, because the service and weir read them. The functions
 * are pure; any thread. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/libssl.h"
#include "base/text.h"
#include "engine/temporal/decode.h"
#include "engine/temporal/encode.h"

struct payloads {
    TemporalApi__Payloads message;
};

/* --- base64 --- */

/* NULL when out of memory, or for more than PAYLOADS_BYTES_MAX. */
static json_t *json_base64(const ProtobufCBinaryData *data)
{
    if (data->len > PAYLOADS_BYTES_MAX || libssl_load(NULL) != WEIR_OK) {
        return NULL;
    }
    char *text = malloc(4 * ((data->len + 2) / 3) + 1);
    if (text == NULL) {
        return NULL;
    }
    int length = EVP_EncodeBlock((unsigned char *)text, data->data, (int)data->len);
    json_t *json = json_stringn_nocheck(text, (size_t)length);
    free(text);
    return json;
}

/* WEIR_FAILED for any value but base64 text; nothing for NULL. */
static enum weir_status bytes_of_base64(const json_t *json, ProtobufCBinaryData *to)
{
    const char *text = json_string_value(json);
    size_t length = json_string_length(json);
    *to = (ProtobufCBinaryData){.len = 0};
    if ((json != NULL && text == NULL) || length % 4 != 0 || length > INT32_MAX) {
        return WEIR_FAILED;
    }
    if (length == 0) {
        return WEIR_OK;
    }
    to->data = malloc(length / 4 * 3);
    if (to->data == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    int count = libssl_load(NULL) != WEIR_OK ? -1 : EVP_DecodeBlock(to->data, (const unsigned char *)text, (int)length);
    size_t padding = (size_t)(text[length - 1] == '=') + (size_t)(text[length - 2] == '=');
    if (count < 0) {
        free(to->data);
        *to = (ProtobufCBinaryData){.len = 0};
        return WEIR_FAILED;
    }
    to->len = (size_t)count - padding;
    return WEIR_OK;
}

/* --- to JSON --- */

static json_t *json_of_payload(const TemporalApi__Payload *payload)
{
    json_t *metadata = json_object();
    bool is_fine = metadata != NULL;
    for (size_t i = 0; is_fine && i < payload->n_metadata; i++) {
        is_fine = json_object_set_new(metadata, payload->metadata[i]->key, json_base64(&payload->metadata[i]->value)) == 0;
    }
    json_t *data = is_fine ? json_base64(&payload->data) : NULL;
    json_t *json = data == NULL ? NULL : json_pack("{s:O, s:O}", "metadata", metadata, "data", data);
    json_decref(metadata);
    json_decref(data);
    return json;
}

static enum weir_status write_list(TemporalApi__Payload *const *list, size_t count, struct text *to)
{
    json_t *array = json_array();
    bool is_fine = array != NULL;
    for (size_t i = 0; is_fine && i < count; i++) {
        is_fine = json_array_append_new(array, json_of_payload(list[i])) == 0;
    }
    json_t *body = is_fine ? json_pack("{s:O}", "payloads", array) : NULL;
    enum weir_status status = body == NULL ? WEIR_OUT_OF_MEMORY : json_write(body, to, NULL);
    json_decref(body);
    json_decref(array);
    return status;
}

enum weir_status payloads_write(const struct payloads *payloads, struct text *to)
{
    INVARIANT(payloads != NULL && to != NULL);
    return write_list(payloads->message.payloads, payloads->message.n_payloads, to);
}

/* --- from JSON --- */

/* The caller frees a half-filled payload. */
static enum weir_status add_metadata(TemporalApi__Payload *payload, json_t *metadata)
{
    const char *key;
    json_t *value;
    size_t count = json_object_size(metadata);
    if (count == 0) {
        return WEIR_OK;
    }
    payload->metadata = calloc(count, sizeof(TemporalApi__MetadataEntry *));
    if (payload->metadata == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    json_object_foreach(metadata, key, value)
    {
        TemporalApi__MetadataEntry *entry = malloc(sizeof *entry);
        if (entry == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        temporal_api__metadata_entry__init(entry);
        payload->metadata[payload->n_metadata++] = entry;
        char *copy = strdup(key);
        if (copy == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        entry->key = copy;
        enum weir_status status = bytes_of_base64(value, &entry->value);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

static enum weir_status add_payload(TemporalApi__Payloads *to, json_t *json)
{
    json_t *metadata = json_object_get(json, "metadata");
    if (!json_is_object(json) || (metadata != NULL && !json_is_object(metadata))) {
        return WEIR_FAILED;
    }
    TemporalApi__Payload *payload = malloc(sizeof *payload);
    if (payload == NULL) {
        return WEIR_OUT_OF_MEMORY;
    }
    temporal_api__payload__init(payload);
    to->payloads[to->n_payloads++] = payload;
    enum weir_status status = add_metadata(payload, metadata);
    return status == WEIR_OK ? bytes_of_base64(json_object_get(json, "data"), &payload->data) : status;
}

/* An empty list with space for `count` payloads. NULL when out of memory. */
static struct payloads *payloads_new(size_t count)
{
    struct payloads *payloads = malloc(sizeof *payloads);
    if (payloads == NULL) {
        return NULL;
    }
    temporal_api__payloads__init(&payloads->message);
    payloads->message.payloads = calloc(count + 1, sizeof(TemporalApi__Payload *));
    if (payloads->message.payloads == NULL) {
        free(payloads);
        return NULL;
    }
    return payloads;
}

enum weir_status payloads_read(const char *json, size_t length, struct payloads **ret_payloads)
{
    INVARIANT(ret_payloads != NULL);
    json_t *body = NULL;
    enum weir_status status = json_read(json == NULL ? "" : json, length, &body, NULL);
    const json_t *list = json_object_get(body, "payloads");
    if (status != WEIR_OK || !json_is_array(list)) {
        json_decref(body);
        return status == WEIR_OUT_OF_MEMORY ? status : WEIR_FAILED;
    }
    struct payloads *payloads = payloads_new(json_array_size(list));
    status = payloads == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && i < json_array_size(list); i++) {
        status = add_payload(&payloads->message, json_array_get(list, i));
    }
    json_decref(body);
    if (status != WEIR_OK) {
        payloads_free(payloads);
        return status;
    }
    *ret_payloads = payloads;
    return WEIR_OK;
}

struct payloads *payloads_of_text(const char *encoding, const char *text, size_t length)
{
    INVARIANT(encoding != NULL && text != NULL);
    json_t *metadata =
        json_pack("{s:o}", "encoding",
                  json_base64(&(ProtobufCBinaryData){.len = strlen(encoding), .data = (uint8_t *)(uintptr_t)encoding}));
    struct payloads *payloads = metadata == NULL ? NULL : payloads_new(1);
    TemporalApi__Payload *payload = payloads == NULL ? NULL : malloc(sizeof *payload);
    bool is_fine = payload != NULL;
    if (is_fine) {
        temporal_api__payload__init(payload);
        payloads->message.payloads[payloads->message.n_payloads++] = payload;
        payload->data.data = malloc(length + 1);
        is_fine = payload->data.data != NULL && add_metadata(payload, metadata) == WEIR_OK;
    }
    if (is_fine) {
        memcpy(payload->data.data, text, length);
        payload->data.len = length;
    }
    json_decref(metadata);
    if (!is_fine) {
        payloads_free(payloads);
        return NULL;
    }
    return payloads;
}

struct payloads *payloads_take(TemporalApi__Payloads **from)
{
    INVARIANT(from != NULL);
    TemporalApi__Payloads *taken = *from;
    *from = NULL;
    return taken == NULL ? payloads_new(0) : (struct payloads *)(void *)taken; /* allocated alike: its only member */
}

size_t payloads_count(const struct payloads *payloads)
{
    INVARIANT(payloads != NULL);
    return payloads->message.n_payloads;
}

void payloads_free(struct payloads *payloads)
{
    if (payloads != NULL) {
        temporal_api__payloads__free_unpacked(&payloads->message, NULL); /* the struct is its first member */
    }
}

TemporalApi__Payloads *payloads_message(const struct payloads *payloads)
{
    INVARIANT(payloads != NULL);
    return (TemporalApi__Payloads *)(uintptr_t)&payloads->message;
}

/* --- of a start --- */

enum { START_PAYLOADS_MAX = 2 * TEMPORAL_FIELDS_MAX }; /* the arguments, and the memo of the definition */

/* The payloads that a codec encodes: the arguments, then the memo of the definition. weir's own memo fields stay as they
 * are: weir reads them in descriptions, and other tools in lists. */
static size_t find_payloads(const TemporalApi__StartWorkflowExecutionRequest *request, TemporalApi__Payload ***slots)
{
    size_t count = 0;
    for (size_t i = 0; request->input != NULL && i < request->input->n_payloads; i++) {
        INVARIANT(count < START_PAYLOADS_MAX);
        slots[count++] = &request->input->payloads[i];
    }
    for (size_t i = 0; request->memo != NULL && i < request->memo->n_fields; i++) {
        TemporalApi__PayloadEntry *entry = request->memo->fields[i];
        if (strncmp(entry->key, TEMPORAL_OWN_PREFIX, strlen(TEMPORAL_OWN_PREFIX)) != 0) {
            INVARIANT(count < START_PAYLOADS_MAX);
            slots[count++] = &entry->value;
        }
    }
    return count;
}

enum weir_status payloads_of_start(struct bytes start, struct text *to)
{
    INVARIANT(start.data != NULL && to != NULL);
    TemporalApi__Payload **slots[START_PAYLOADS_MAX];
    TemporalApi__Payload *list[START_PAYLOADS_MAX];
    TemporalApi__StartWorkflowExecutionRequest *request =
        temporal_api__start_workflow_execution_request__unpack(NULL, start.length, start.data);
    if (request == NULL) {
        return WEIR_OUT_OF_MEMORY; /* encode_start() made these bytes, so they are valid */
    }
    size_t count = find_payloads(request, slots);
    for (size_t i = 0; i < count; i++) {
        list[i] = *slots[i];
    }
    enum weir_status status = count == 0 ? WEIR_OK : write_list(list, count, to);
    temporal_api__start_workflow_execution_request__free_unpacked(request, NULL);
    return status;
}

/* Swaps the payloads of the request with those of the list; the list is freed with the originals. */
static enum weir_status exchange(TemporalApi__StartWorkflowExecutionRequest *request, struct payloads *payloads)
{
    TemporalApi__Payload **slots[START_PAYLOADS_MAX];
    size_t count = find_payloads(request, slots);
    if (count != payloads_count(payloads)) {
        return WEIR_FAILED;
    }
    for (size_t i = 0; i < count; i++) {
        TemporalApi__Payload *before = *slots[i];
        *slots[i] = payloads->message.payloads[i];
        payloads->message.payloads[i] = before;
    }
    return WEIR_OK;
}

enum weir_status payloads_into_start(struct bytes start, const char *json, size_t length, struct bytes *ret_start)
{
    INVARIANT(start.data != NULL && (json != NULL || length == 0) && ret_start != NULL);
    struct payloads *payloads = NULL;
    enum weir_status status = payloads_read(json, length, &payloads);
    if (status != WEIR_OK) {
        return status;
    }
    TemporalApi__StartWorkflowExecutionRequest *request =
        temporal_api__start_workflow_execution_request__unpack(NULL, start.length, start.data);
    status = request == NULL ? WEIR_OUT_OF_MEMORY : exchange(request, payloads);
    if (status == WEIR_OK) {
        struct bytes packed = {.length = temporal_api__start_workflow_execution_request__get_packed_size(request)};
        packed.data = malloc(packed.length);
        if (packed.data != NULL) {
            (void)temporal_api__start_workflow_execution_request__pack(request, packed.data);
            *ret_start = packed;
        } else {
            status = WEIR_OUT_OF_MEMORY;
        }
    }
    temporal_api__start_workflow_execution_request__free_unpacked(request, NULL);
    payloads_free(payloads);
    return status;
}

/* --- of a description --- */

enum weir_status payloads_of_description(const uint8_t *data, size_t length, struct payloads **ret_payloads)
{
    INVARIANT(ret_payloads != NULL);
    TemporalApi__DescribeWorkflowExecutionResponse *answer =
        temporal_api__describe_workflow_execution_response__unpack(NULL, length, data);
    const TemporalApi__WorkflowExecutionInfo *info = answer == NULL ? NULL : answer->workflow_execution_info;
    const TemporalApi__PayloadMap *memo = info == NULL ? NULL : info->memo;
    struct payloads *payloads = answer == NULL ? NULL : payloads_new(memo == NULL ? 0 : memo->n_fields);
    for (size_t i = 0; payloads != NULL && memo != NULL && i < memo->n_fields; i++) {
        TemporalApi__Payload *value = memo->fields[i]->value;
        if (value != NULL && !payload_is_plain(value)) {
            payloads->message.payloads[payloads->message.n_payloads++] = value;
            memo->fields[i]->value = NULL; /* moved */
        }
    }
    temporal_api__describe_workflow_execution_response__free_unpacked(answer, NULL);
    if (payloads == NULL) {
        return WEIR_FAILED;
    }
    *ret_payloads = payloads;
    return WEIR_OK;
}

/* --- of an end --- */

bool payload_is_plain(const TemporalApi__Payload *payload)
{
    INVARIANT(payload != NULL);
    static const char *const plain[] = {"json/plain", "json/protobuf", "binary/null", "binary/plain", "binary/protobuf"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (payload_has_encoding(payload, plain[i])) {
            return true;
        }
    }
    return false;
}

enum { END_PAYLOADS_MAX = 256 };

/* Adds a payload that is not plain. The order is that in which read_end_event() takes them. */
static void collect_payload(TemporalApi__Payload **list, size_t *count, size_t *bytes, TemporalApi__Payload *payload)
{
    if (payload != NULL && !payload_is_plain(payload) && *count < END_PAYLOADS_MAX) {
        list[(*count)++] = payload;
        *bytes += payload->data.len;
    }
}

/* The causes of a failure stand in it as bytes; `unpacked` holds them. */
static size_t collect_failure(TemporalApi__Failure *failure, TemporalApi__Failure **unpacked, TemporalApi__Payload **list,
                              size_t *count, size_t *bytes)
{
    size_t depth = 0;
    for (int i = 0; failure != NULL && i < FAILURE_DEPTH_MAX; i++) {
        collect_payload(list, count, bytes, failure->encoded_attributes);
        failure =
            failure->cause.len == 0 ? NULL : temporal_api__failure__unpack(NULL, failure->cause.len, failure->cause.data);
        if (failure != NULL) {
            unpacked[depth++] = failure;
        }
    }
    return depth;
}

static enum weir_status write_event(const TemporalApi__HistoryEvent *event, struct text *to)
{
    TemporalApi__Payload *list[END_PAYLOADS_MAX];
    TemporalApi__Failure *unpacked[FAILURE_DEPTH_MAX];
    size_t count = 0;
    size_t bytes = 0;
    size_t depth = 0;
    const TemporalApi__Payloads *result = event->completed == NULL ? NULL : event->completed->result;
    for (size_t i = 0; result != NULL && i < result->n_payloads; i++) {
        collect_payload(list, &count, &bytes, result->payloads[i]);
    }
    if (event->failed != NULL) {
        depth = collect_failure(event->failed->failure, unpacked, list, &count, &bytes);
    }
    enum weir_status status = WEIR_OK;
    if (count > 0 && bytes <= PAYLOADS_BYTES_MAX) {
        status = write_list(list, count, to);
    }
    for (size_t i = 0; i < depth; i++) {
        temporal_api__failure__free_unpacked(unpacked[i], NULL);
    }
    return status;
}

enum weir_status payloads_of_close_event(const uint8_t *data, size_t length, struct text *to)
{
    INVARIANT(to != NULL);
    TemporalApi__GetWorkflowExecutionHistoryResponse *answer =
        temporal_api__get_workflow_execution_history_response__unpack(NULL, length, data);
    if (answer == NULL) {
        return WEIR_OUT_OF_MEMORY; /* the same bytes were read before, so they are valid */
    }
    size_t count = answer->history == NULL ? 0 : answer->history->n_events;
    enum weir_status status = count == 0 ? WEIR_OK : write_event(answer->history->events[count - 1], to);
    temporal_api__get_workflow_execution_history_response__free_unpacked(answer, NULL);
    return status;
}
