/* Shared by the files that read and write payloads: decode.c, encode.c, payloads.c. They alone see protobuf. */
#ifndef WEIR_ENGINE_TEMPORAL_DECODE_H
#define WEIR_ENGINE_TEMPORAL_DECODE_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/temporal/encode.h"
#include "engine/temporal/temporal.pb-c.h"

bool payload_has_encoding(const TemporalApi__Payload *payload, const char *name);
/* Its encoding is one of the SDKs themselves: no codec has to decode it. */
bool payload_is_plain(const TemporalApi__Payload *payload);
/* Microseconds since 1970; 0 = none. */
int64_t timestamp_us(const TemporalApi__Timestamp *timestamp);
/* Its JSON value, or its bytes as {"base64": ...}. NULL when out of memory. */
json_t *payload_value(const TemporalApi__Payload *payload);
/* The messages of a failure and its causes, malloc'ed. NULL when out of memory. */
char *failure_text(const TemporalApi__Failure *failure);
/* Takes the list at `*from`; an empty list for NULL. NULL when out of memory. */
struct payloads *payloads_take(TemporalApi__Payloads **from);
/* Belongs to `payloads`; the caller does not change it. */
TemporalApi__Payloads *payloads_message(const struct payloads *payloads);

#endif
