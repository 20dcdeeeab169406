/* What the files that read and write payloads share: answers.c, messages.c, payloads.c. They alone see protobuf. */
#ifndef WEIR_ENGINE_TEMPORAL_ANSWERS_H
#define WEIR_ENGINE_TEMPORAL_ANSWERS_H

#include <stdbool.h>

#include "engine/temporal/messages.h"
#include "engine/temporal/temporal.pb-c.h"

bool payload_has_encoding(const TemporalApi__Payload *payload, const char *name);
/* Of an encoding of the SDKs themselves: no codec has to decode it. */
bool payload_is_plain(const TemporalApi__Payload *payload);
/* Stays theirs; not written through. */
TemporalApi__Payloads *payloads_message(const struct payloads *payloads);

#endif
