/* The payload codec of the engine (coding.c). The engine's loop owns it; each run has at most one call of the codec. */
#ifndef WEIR_ENGINE_TEMPORAL_CODING_H
#define WEIR_ENGINE_TEMPORAL_CODING_H

#include "engine/temporal/codec.h"
#include "engine/temporal/run_table.h"
#include "grpc/grpc_client.h"

/* An end waits this long for a codec that cannot be reached. */
#define CODEC_PATIENCE_US (30 * MICROSECONDS_PER_SECOND)

/* True when the start must wait for the codec; the run is due again when its message may leave. */
bool coding_encode_start(struct temporal *engine, struct run *run);
/* Keeps the payloads of an answer that the codec must decode. */
void coding_keep_payloads(struct temporal *engine, struct close_event *closing, const struct grpc_result *result);
/* True when the end must be decoded first: then it takes `closing`, and closing_report_decoded() follows. */
bool coding_decode_end(struct temporal *engine, struct run *run, struct close_event *closing);
/* Cancels the run's call of the codec, if there is one. */
void coding_cancel(struct temporal *engine, struct run *run);

#endif
