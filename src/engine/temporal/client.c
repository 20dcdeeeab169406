/* The connections of a real node: a gRPC client for the service, and the codec client.
 *
 * The engine sees both only as tables of functions (struct temporal_wire, struct codec_wire), so a test puts a script in
 * their place. This file makes the tables from the options, and sets the headers that the service needs.
 *
 * An API key must never leave without TLS, so a key file turns TLS on. The functions run in the thread that opens the
 * engine or the operator's client; the table is called by the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/libssl.h"
#include "engine/temporal/client.h"
#include "engine/temporal/temporal_internal.h"

static enum weir_status client_call(void *context, const struct grpc_request *request, grpc_call_id *ret_id,
                                    struct weir_error *error)
{
    return grpc_client_call(context, request, ret_id, error);
}

static void client_cancel(void *context, grpc_call_id id)
{
    grpc_client_cancel(context, id);
}

static int64_t client_step(void *context)
{
    return grpc_client_step(context);
}

static int client_fd(void *context)
{
    return grpc_client_fd(context);
}

static bool client_is_silent(void *context)
{
    return grpc_client_is_silent(context);
}

static enum weir_status client_examine(void *context, const struct grpc_examination *examination, struct weir_error *error)
{
    return grpc_client_examine(context, examination, error);
}

static void client_examine_again(void *context)
{
    grpc_client_examine_again(context);
}

static void client_close(void *context)
{
    grpc_client_close(context);
}

enum weir_status temporal_client_open(const struct temporal_options *options, struct grpc_client **ret_client,
                                      struct weir_error *error)
{
    INVARIANT(options != NULL && ret_client != NULL);
    const char *namespace_name = options->namespace_name == NULL ? TEMPORAL_NAMESPACE_DEFAULT : options->namespace_name;
    /* Without the last one the service reports the end of a retried run as continued as new. */
    const struct grpc_header headers[] = {
        {.name = "client-name", .value = "weir"},
        {.name = "client-version", .value = WEIR_VERSION},
        {.name = "temporal-namespace", .value = namespace_name},
        {.name = "supported-features", .value = "follows-next-run-id"},
    };
    struct grpc_client_options client = {
        .targets = options->address == NULL ? TEMPORAL_ADDRESS_DEFAULT : options->address,
        .tls = options->tls || options->api_key_file != NULL, /* a key must not leave without TLS */
        .ca_file = options->ca_file,
        .certificate_file = options->certificate_file,
        .key_file = options->key_file,
        .server_name = options->server_name,
        .api_key_file = options->api_key_file,
        .headers = headers,
        .header_count = sizeof headers / sizeof headers[0],
        .request_bytes_max = REQUEST_BYTES_MAX,
        .calls_max = CALLS_MAX,
    };
    const struct clock *clock = options->clock == NULL ? clock_system() : options->clock;
    return grpc_client_open(&client, clock, ret_client, error);
}

enum weir_status temporal_codec_open(const struct temporal_options *options, struct codec_wire *ret_wire,
                                     struct weir_error *error)
{
    INVARIANT(options != NULL && ret_wire != NULL);
    struct codec_options codec = {
        .url = options->codec_url,
        .namespace_name = options->namespace_name == NULL ? TEMPORAL_NAMESPACE_DEFAULT : options->namespace_name,
        .token_file = options->codec_token_file,
        .ca_file = options->codec_ca_file,
        .clock = options->clock == NULL ? clock_system() : options->clock,
    };
    return options->codec_url == NULL ? WEIR_OK : codec_open(&codec, ret_wire, error);
}

enum weir_status temporal_open(const struct temporal_options *options, struct engine **ret_engine, struct weir_error *error)
{
    INVARIANT(options != NULL && ret_engine != NULL);
    struct grpc_client *client = NULL;
    enum weir_status status = libssl_load(error); /* also without TLS: payloads are written as base64 */
    status = status == WEIR_OK ? temporal_client_open(options, &client, error) : status;
    if (status != WEIR_OK) {
        return status;
    }
    struct temporal_wire wire = {.call = client_call,
                                 .cancel = client_cancel,
                                 .step = client_step,
                                 .fd = client_fd,
                                 .is_silent = client_is_silent,
                                 .examine = client_examine,
                                 .examine_again = client_examine_again,
                                 .close = client_close,
                                 .context = client};
    status = temporal_codec_open(options, &wire.codec, error);
    if (status != WEIR_OK) {
        grpc_client_close(client);
        return status;
    }
    return temporal_open_on(options, &wire, ret_engine, error);
}
