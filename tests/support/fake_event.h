/* The event that closes a run of a fake_temporal. */
#ifndef WEIR_TESTS_SUPPORT_FAKE_EVENT_H
#define WEIR_TESTS_SUPPORT_FAKE_EVENT_H

#include "engine/temporal/encode.h"
#include "engine/temporal/temporal.pb-c.h"

struct fake_event_parts {
    TemporalApi__HistoryEvent event;
    TemporalApi__Timestamp at;
    TemporalApi__CompletedAttributes completed;
    TemporalApi__FailedAttributes failed;
    TemporalApi__TimedOutAttributes timed_out;
    TemporalApi__TerminatedAttributes terminated;
    TemporalApi__CanceledAttributes canceled;
    TemporalApi__ContinuedAsNewAttributes continued;
    TemporalApi__Failure failure;
    TemporalApi__ApplicationFailureInfo info;
    TemporalApi__Payloads payloads;
    TemporalApi__Payload payload;
    TemporalApi__Payload *list[1];
    TemporalApi__MetadataEntry metadata;
    TemporalApi__MetadataEntry *metadata_list[1];
    uint8_t encoded[256];
};

struct fake_close {
    int status;
    int64_t close_us;
    const char *text;        /* the result's JSON, or the failure's message; NULL = none */
    const char *next_run_id; /* "" = the chain ends here */
    bool by_weir;
    bool is_encoded; /* the text is, see fake_temporal_encode_results() */
};
/* The texts stay the caller's. */
void fake_event_fill(struct fake_event_parts *parts, const struct fake_close *close);
void fake_event_time(TemporalApi__Timestamp *to, int64_t us);

#endif
