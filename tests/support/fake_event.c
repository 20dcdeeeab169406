/* Fills the event that closes a run, with the attributes of its status.
 *
 * All parts of the message are members of one struct, so nothing is allocated and the caller's texts must outlive the
 * event. Encoded results have the payload form of fake_temporal_encode_results(). One thread.
 */
#include "support/fake_event.h"

#include <string.h>

#include "base/error.h"

void fake_event_time(TemporalApi__Timestamp *to, int64_t us)
{
    temporal_api__timestamp__init(to);
    to->seconds = us / MICROSECONDS_PER_SECOND;
    to->nanos = (int32_t)(us % MICROSECONDS_PER_SECOND * 1000);
}

static void fill_payload(struct fake_event_parts *parts, char *text, bool is_encoded)
{
    enum { ZEROS = 3 };
    const char *encoding = is_encoded ? "xenon" : "json/plain";
    size_t length = strlen(text);
    temporal_api__payload__init(&parts->payload);
    temporal_api__metadata_entry__init(&parts->metadata);
    parts->metadata.key = (char *)(uintptr_t) "encoding";
    parts->metadata.value = (ProtobufCBinaryData){.len = strlen(encoding), .data = (uint8_t *)(uintptr_t)encoding};
    parts->metadata_list[0] = &parts->metadata;
    parts->payload.metadata = parts->metadata_list;
    parts->payload.n_metadata = 1;
    parts->payload.data = (ProtobufCBinaryData){.len = length, .data = (uint8_t *)text};
    if (is_encoded) {
        INVARIANT(length + ZEROS <= sizeof parts->encoded);
        memset(parts->encoded, 0, ZEROS);
        memcpy(parts->encoded + ZEROS, text, length);
        parts->payload.data = (ProtobufCBinaryData){.len = length + ZEROS, .data = parts->encoded};
    }
}

void fake_event_fill(struct fake_event_parts *parts, const struct fake_close *close)
{
    char *next = (char *)(uintptr_t)close->next_run_id;
    char *text = (char *)(uintptr_t)(close->text == NULL ? "" : close->text);
    temporal_api__history_event__init(&parts->event);
    fake_event_time(&parts->at, close->close_us);
    parts->event.event_time = &parts->at;
    switch (close->status) {
    case RUN_STATUS_COMPLETED:
        temporal_api__completed_attributes__init(&parts->completed);
        temporal_api__payloads__init(&parts->payloads);
        fill_payload(parts, text, close->is_encoded);
        parts->list[0] = &parts->payload;
        parts->payloads.payloads = parts->list;
        parts->payloads.n_payloads = 1;
        parts->completed.result = &parts->payloads;
        parts->completed.new_execution_run_id = next;
        parts->event.event_type = 2;
        parts->event.completed = &parts->completed;
        break;
    case RUN_STATUS_FAILED:
        temporal_api__failed_attributes__init(&parts->failed);
        temporal_api__failure__init(&parts->failure);
        temporal_api__application_failure_info__init(&parts->info);
        parts->info.type = (char *)(uintptr_t) "Broken";
        parts->failure.message = text;
        if (close->is_encoded) {
            fill_payload(parts, text, true);
            parts->failure.message = (char *)(uintptr_t) "Encoded failure";
            parts->failure.encoded_attributes = &parts->payload;
        }
        parts->failure.application_failure_info = &parts->info;
        parts->failed.failure = &parts->failure;
        parts->failed.new_execution_run_id = next;
        parts->event.event_type = 3;
        parts->event.failed = &parts->failed;
        break;
    case RUN_STATUS_TIMED_OUT:
        temporal_api__timed_out_attributes__init(&parts->timed_out);
        parts->timed_out.new_execution_run_id = next;
        parts->event.event_type = 4;
        parts->event.timed_out = &parts->timed_out;
        break;
    case RUN_STATUS_CANCELED:
        temporal_api__canceled_attributes__init(&parts->canceled);
        parts->event.event_type = 21;
        parts->event.canceled = &parts->canceled;
        break;
    case RUN_STATUS_TERMINATED:
        temporal_api__terminated_attributes__init(&parts->terminated);
        parts->terminated.reason = text;
        parts->terminated.identity = (char *)(uintptr_t)(close->by_weir ? OPERATOR_IDENTITY : "");
        parts->event.event_type = 27;
        parts->event.terminated = &parts->terminated;
        break;
    default:
        temporal_api__continued_as_new_attributes__init(&parts->continued);
        parts->continued.new_execution_run_id = next;
        parts->event.event_type = 28;
        parts->event.continued_as_new = &parts->continued;
        break;
    }
}
