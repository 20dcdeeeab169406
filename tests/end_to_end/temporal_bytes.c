/* Lets a test see our messages from outside: writes each request as hex, and prints the fields that it reads in an answer.
 *
 * usage: temporal_bytes write             lines "NAME HEX"
 *        temporal_bytes read KIND HEX     a JSON object
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/temporal/encode.h"

#define ID "019aa000-0000-7000-8000-000000000001"
#define RUN "019aa000-0000-4000-8000-000000000002"

static void write_one(const char *name, struct bytes bytes)
{
    printf("%s ", name);
    for (size_t i = 0; i < bytes.length; i++) {
        printf("%02x", bytes.data[i]);
    }
    printf("\n");
    free(bytes.data);
}

static void write_all(void)
{
    static const char *const not_on[] = {"BadInput", "Fraud"};
    static const struct step_retry retry = {.attempts = 5,
                                            .backoff_us = 250 * MICROSECONDS_PER_MS,
                                            .factor = 1.5,
                                            .max_us = 60 * MICROSECONDS_PER_SECOND,
                                            .not_on = not_on,
                                            .not_on_count = 2};
    struct start_fields fields = {
        .workflow_id = "order-7",
        .task_queue = "q",
        .execution_timeout_us = 3600 * MICROSECONDS_PER_SECOND,
        .run_timeout_us = 1500 * MICROSECONDS_PER_MS,
        .task_timeout_us = 10 * MICROSECONDS_PER_SECOND,
        .start_delay_us = 5 * MICROSECONDS_PER_SECOND,
        .retry = &retry,
        .memo = json_pack("{s:s, s:i}", "team", "billing", "n", 7),
        .attributes = json_pack("{s:s, s:[s, s]}", "CustomKeyword", "x", "Tags", "a", "b"),
    };
    json_t *types = json_pack("{s:i, s:i}", "CustomKeyword", ATTRIBUTE_KEYWORD, "WeirWorkspace", ATTRIBUTE_KEYWORD);
    struct start_message start = {.namespace_name = "n\xc3\xa9",
                                  .execution_id = ID,
                                  .workspace = "acme",
                                  .identity = "weir@host",
                                  .workflow_type = "Onboard",
                                  .input = "{\"x\": 1}",
                                  .input_length = 8,
                                  .encoding = "json/plain",
                                  .priority = 80,
                                  .fields = &fields,
                                  .attribute_types = types};
    struct workflow_name chain = {.workflow_id = "w", .first_run_id = RUN};
    struct workflow_name run = {.workflow_id = "w", .run_id = RUN};
    write_one("StartWorkflowExecutionRequest", encode_start(&start));
    fields.arguments = json_pack("[s, {s:i}]", "one", "two", 2);
    fields.priority_key = 3;
    write_one("StartWorkflowExecutionRequest/arguments", encode_start(&start));
    json_decref(fields.arguments);
    json_decref(fields.memo);
    json_decref(fields.attributes);
    json_decref(types);
    write_one("DescribeWorkflowExecutionRequest", encode_describe("n", "w", RUN));
    write_one("ListWorkflowExecutionsRequest",
              encode_list("n", "CloseTime > 'x'", 1000, (struct bytes){(uint8_t *)(uintptr_t) "tok", 3}));
    write_one("GetWorkflowExecutionHistoryRequest",
              encode_close_event("n", "w", RUN, true, (struct bytes){(uint8_t *)(uintptr_t) "tok", 3}));
    write_one("GetWorkflowExecutionHistoryReverseRequest", encode_last_events("n", "w", 10));
    write_one("RequestCancelWorkflowExecutionRequest", encode_cancel("n", &chain, "r", "i", "because"));
    write_one("TerminateWorkflowExecutionRequest", encode_terminate("n", &chain, "i", "because"));
    struct payloads *input = payloads_of_text("json/plain", "{}", 2);
    write_one("SignalWorkflowExecutionRequest", encode_signal("n", &run, "go", "r", "i", input));
    write_one("QueryWorkflowRequest", encode_query("n", &run, "progress", input));
    struct update_message update = {
        .namespace_name = "n", .workflow = chain, .update_id = "u", .identity = "i", .name = "raise", .input = input};
    write_one("UpdateWorkflowExecutionRequest", encode_update(&update));
    payloads_free(input);
    write_one("GetSystemInfoRequest", encode_system_info());
    write_one("ListSearchAttributesRequest", encode_list_attributes("n"));
    write_one("AddSearchAttributesRequest", encode_add_attribute("n", "WeirWorkspace", ATTRIBUTE_KEYWORD));
    write_one("DescribeNamespaceRequest", encode_describe_namespace("n"));
    write_one("DescribeTaskQueueRequest", encode_describe_task_queue("n", "q"));
}

static void add_row(void *context, const struct list_row *row)
{
    (void)json_array_append_new(
        context, json_pack("[s, s, i, I]", row->workflow_id, row->run_id, row->status, (json_int_t)row->close_us));
}

static json_t *read_closing(const uint8_t *data, size_t length)
{
    struct close_event closing;
    if (decode_close_event(data, length, &closing) != WEIR_OK) {
        return NULL;
    }
    json_t *json = json_pack("{s:i, s:s, s:s?, s:s, s:s?, s:I, s:I}", "kind", (int)closing.kind, "next",
                             closing.next_run_id, "result", closing.result, "code", closing.error_code, "error",
                             closing.error, "at", (json_int_t)closing.at_us, "token", (json_int_t)closing.token.length);
    close_event_close(&closing);
    return json;
}

static json_t *read_one(const char *kind, const uint8_t *data, size_t length)
{
    struct start_answer start;
    struct describe_answer description;
    struct namespace_answer space;
    struct list_answer list;
    struct detail detail;
    char version[SERVER_VERSION_MAX];
    json_t *types = NULL;
    struct pollers_answer pollers;
    char failure[200];
    if (strcmp(kind, "start") == 0 && decode_start(data, length, &start) == WEIR_OK) {
        return json_pack("{s:s, s:i}", "run", start.run_id, "status", start.status);
    }
    if (strcmp(kind, "describe") == 0 && decode_describe(data, length, &description) == WEIR_OK) {
        return json_pack("{s:s, s:s, s:i, s:s, s:s, s:b, s:b, s:i, s:I}", "run", description.run_id, "first",
                         description.first_run_id, "status", description.status, "memo", description.memo_execution,
                         "queue", description.task_queue, "has_task", description.has_task, "open",
                         description.task_is_open, "attempt", description.task_attempt, "since",
                         (json_int_t)description.task_at_us);
    }
    if (strcmp(kind, "namespace") == 0 && decode_namespace(data, length, &space) == WEIR_OK) {
        return json_pack("{s:i, s:I}", "state", space.state, "retention", (json_int_t)space.retention_us);
    }
    if (strcmp(kind, "queue") == 0 && decode_task_queue(data, length, &pollers) == WEIR_OK) {
        return json_pack("{s:I, s:s, s:I}", "pollers", (json_int_t)pollers.count, "last", pollers.last, "at",
                         (json_int_t)pollers.last_us);
    }
    if (strcmp(kind, "failure") == 0 && decode_task_failure(data, length, failure, sizeof failure) == WEIR_OK) {
        return json_pack("{s:s}", "failure", failure);
    }
    if (strcmp(kind, "system") == 0 && decode_system_info(data, length, version, sizeof version) == WEIR_OK) {
        return json_pack("{s:s}", "version", version);
    }
    if (strcmp(kind, "attributes") == 0 && decode_attributes(data, length, &types) == WEIR_OK) {
        return types;
    }
    if (strcmp(kind, "history") == 0) {
        return read_closing(data, length);
    }
    if (strcmp(kind, "detail") == 0) {
        decode_detail(data, length, &detail);
        return json_pack("{s:i, s:s, s:s, s:i, s:i}", "kind", (int)detail.kind, "request", detail.start_request_id, "run",
                         detail.run_id, "cause", detail.cause, "scope", detail.scope);
    }
    json_t *rows = json_array();
    if (strcmp(kind, "list") == 0 && decode_list(data, length, add_row, rows, &list) == WEIR_OK) {
        json_t *json = json_pack("{s:o, s:I, s:s%}", "rows", rows, "latest", (json_int_t)list.latest_close_us, "token",
                                 list.token.data == NULL ? "" : (const char *)list.token.data, list.token.length);
        free(list.token.data);
        return json;
    }
    json_decref(rows);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "write") == 0) {
        write_all();
        return 0;
    }
    if (argc != 4 || strcmp(argv[1], "read") != 0) {
        return 2;
    }
    size_t length = strlen(argv[3]) / 2;
    uint8_t *data = malloc(length + 1);
    for (size_t i = 0; data != NULL && i < length; i++) {
        char pair[3] = {argv[3][2 * i], argv[3][2 * i + 1], '\0'};
        data[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    json_t *json = data == NULL ? NULL : read_one(argv[2], data, length);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    puts(text == NULL ? "null" : text);
    free(text);
    json_decref(json);
    free(data);
    return 0;
}
