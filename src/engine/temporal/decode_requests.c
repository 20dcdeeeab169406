/* The answers to requests of operators: descriptions, queries, updates.
 *
 * A description becomes JSON for people and programs. Memo and search attributes become objects of values. A memo field
 * that a codec has encoded is replaced by its decoded value, or shown as it is when the codec cannot be reached.
 *
 * All text of the service is made safe for terminals. Lists have a maximum, because a workflow may have thousands of
 * pending activities. The functions are pure; any thread. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/temporal/decode.h"

enum { ACTIVITIES_LISTED_MAX = 100 };

static const char *name_of_status(int status)
{
    static const char *const names[] = {
        [RUN_STATUS_RUNNING] = "RUNNING",       [RUN_STATUS_COMPLETED] = "COMPLETED",
        [RUN_STATUS_FAILED] = "FAILED",         [RUN_STATUS_CANCELED] = "CANCELED",
        [RUN_STATUS_TERMINATED] = "TERMINATED", [RUN_STATUS_CONTINUED_AS_NEW] = "CONTINUED_AS_NEW",
        [RUN_STATUS_TIMED_OUT] = "TIMED_OUT",   [RUN_STATUS_PAUSED] = "PAUSED",
    };
    return status >= RUN_STATUS_RUNNING && status <= RUN_STATUS_PAUSED ? names[status] : "UNKNOWN";
}

static json_t *json_time(const TemporalApi__Timestamp *at)
{
    char text[TIME_TEXT_MAX];
    int64_t us = timestamp_us(at);
    if (us == 0) {
        return json_null();
    }
    time_format(us, text);
    return json_string(text);
}

/* Text of the service, made safe. NULL when out of memory. */
static json_t *json_safe(const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL) {
        return NULL;
    }
    text_make_safe(copy);
    json_t *json = json_string(copy);
    free(copy);
    return json;
}

static json_t *describe_activity(const TemporalApi__PendingActivityInfo *activity)
{
    static const char *const states[] = {"UNKNOWN",          "SCHEDULED", "STARTED",
                                         "CANCEL_REQUESTED", "PAUSED",    "PAUSE_REQUESTED"};
    int state = activity->state >= 0 && activity->state < (int)(sizeof states / sizeof states[0]) ? activity->state : 0;
    return json_pack("{s:o, s:o, s:s, s:i, s:i, s:o*}", "id", json_safe(activity->activity_id), "type",
                     json_safe(activity->activity_type == NULL ? "" : activity->activity_type->name), "state",
                     states[state], "attempt", activity->attempt, "attempts_max", activity->maximum_attempts,
                     "last_failure", activity->last_failure == NULL ? NULL : json_safe(activity->last_failure->message));
}

/* `decoded`: the values of those that are not plain, in their order; NULL = none. False when out of memory. */
static bool add_map(json_t *to, const char *key, const TemporalApi__PayloadMap *map, const TemporalApi__Payloads *decoded)
{
    json_t *object = json_object();
    bool is_fine = object != NULL;
    size_t used = 0;
    for (size_t i = 0; is_fine && map != NULL && i < map->n_fields; i++) {
        const TemporalApi__PayloadEntry *entry = map->fields[i];
        const TemporalApi__Payload *payload = entry->value;
        if (payload != NULL && !payload_is_plain(payload) && decoded != NULL && used < decoded->n_payloads) {
            payload = decoded->payloads[used++];
        }
        is_fine = json_object_set_new(object, entry->key, payload == NULL ? json_null() : payload_value(payload)) == 0;
    }
    is_fine = is_fine && json_object_set(to, key, object) == 0;
    json_decref(object);
    return is_fine;
}

static bool add_activities(json_t *to, const TemporalApi__DescribeWorkflowExecutionResponse *answer)
{
    json_t *list = json_array();
    bool is_fine = list != NULL;
    for (size_t i = 0; is_fine && i < answer->n_pending_activities && i < ACTIVITIES_LISTED_MAX; i++) {
        is_fine = json_array_append_new(list, describe_activity(answer->pending_activities[i])) == 0;
    }
    is_fine = is_fine && json_object_set(to, "pending_activities", list) == 0;
    json_decref(list);
    return is_fine;
}

/* See decode_description(). */
static json_t *describe_workflow(const TemporalApi__DescribeWorkflowExecutionResponse *answer,
                                 const TemporalApi__Payloads *memo)
{
    const TemporalApi__WorkflowExecutionInfo *info = answer->workflow_execution_info;
    const TemporalApi__PendingWorkflowTaskInfo *task = answer->pending_workflow_task;
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:i}", "workflow_id", json_safe(info->execution->workflow_id),
        "run_id", json_safe(info->execution->run_id), "first_run_id", json_safe(info->first_run_id), "type",
        json_safe(info->type == NULL ? "" : info->type->name), "status", name_of_status(info->status), "task_queue",
        json_safe(info->task_queue), "started_at", json_time(info->start_time), "closed_at", json_time(info->close_time),
        "history_length", (json_int_t)info->history_length, "workflow_task_attempt", task == NULL ? 0 : task->attempt);
    if (json != NULL &&
        !(add_map(json, "memo", info->memo, memo) && add_map(json, "search_attributes", info->search_attributes, NULL) &&
          add_activities(json, answer))) {
        json_decref(json);
        json = NULL;
    }
    return json;
}

json_t *decode_description(const uint8_t *data, size_t length, const struct payloads *memo)
{
    INVARIANT(data != NULL || length == 0);
    TemporalApi__DescribeWorkflowExecutionResponse *answer =
        temporal_api__describe_workflow_execution_response__unpack(NULL, length, data);
    const TemporalApi__WorkflowExecutionInfo *info = answer == NULL ? NULL : answer->workflow_execution_info;
    const TemporalApi__Payloads *decoded = memo == NULL ? NULL : payloads_message(memo);
    json_t *json = info == NULL || info->execution == NULL ? NULL : describe_workflow(answer, decoded);
    temporal_api__describe_workflow_execution_response__free_unpacked(answer, NULL);
    return json;
}

enum weir_status decode_query(const uint8_t *data, size_t length, struct payloads **ret_result)
{
    INVARIANT(ret_result != NULL);
    TemporalApi__QueryWorkflowResponse *answer = temporal_api__query_workflow_response__unpack(NULL, length, data);
    struct payloads *result = answer == NULL ? NULL : payloads_take(&answer->query_result);
    temporal_api__query_workflow_response__free_unpacked(answer, NULL);
    if (result == NULL) {
        return WEIR_FAILED;
    }
    *ret_result = result;
    return WEIR_OK;
}

enum weir_status decode_update(const uint8_t *data, size_t length, struct update_answer *ret_answer)
{
    INVARIANT(ret_answer != NULL);
    TemporalApi__UpdateWorkflowExecutionResponse *answer =
        temporal_api__update_workflow_execution_response__unpack(NULL, length, data);
    if (answer == NULL) {
        return WEIR_FAILED;
    }
    *ret_answer = (struct update_answer){.result = NULL};
    enum weir_status status = WEIR_OK;
    if (answer->outcome != NULL && answer->outcome->failure != NULL) {
        ret_answer->failure = failure_text(answer->outcome->failure);
        status = ret_answer->failure == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    } else if (answer->outcome != NULL) {
        ret_answer->result = payloads_take(&answer->outcome->success);
        status = ret_answer->result == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    }
    temporal_api__update_workflow_execution_response__free_unpacked(answer, NULL);
    return status;
}
