/* The gRPC client with the headers that the service needs; for the engine and for the client of operators. */
#ifndef WEIR_ENGINE_TEMPORAL_CLIENT_H
#define WEIR_ENGINE_TEMPORAL_CLIENT_H

#include "engine/temporal/temporal.h"

enum {
    CALLS_MAX = 4096,
    REQUEST_BYTES_MAX = 256 * 1024 * 1024 /* of all calls under way: a window of large inputs */
};

/* WEIR_INVALID_CONFIG, WEIR_OUT_OF_MEMORY, WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status temporal_client_open(const struct temporal_options *options,
                                                      struct grpc_client **ret_client, struct weir_error *error);
/* `ret_wire` stays as it is when the options name no codec. */
WEIR_MUST_CHECK enum weir_status temporal_codec_open(const struct temporal_options *options, struct codec_wire *ret_wire,
                                                     struct weir_error *error);

#endif
