/* The engine on a Temporal service: executions are started there as workflows, once each, and followed to their real end.
 *
 *   weir's execution            the service
 *   execution id            ->  request id "<id>", memo weir_execution; workflow id "execution-<id>", unless the definition
 *                               makes one of the params
 *   params, byte for byte   ->  the one input payload (json/plain), unless the definition names arguments; or a codec's
 *                               answer to them
 *   workspace               ->  fairness key; memo weir_workspace; search attribute WeirWorkspace, where there is one
 *   definition `temporal:`  ->  workflow type, task queue, time-outs, retry policy, memo, search attributes, ... (fields.h)
 *
 * Once each: every start of an execution has the same bytes with REJECT_DUPLICATE and FAIL, so the service answers a second
 * start with the run of the first. After an uncertain answer the execution keeps its slot, and the start is repeated. A
 * start that the service may have forgotten (by its retention) is never repeated. The death of a node does not stop a
 * workflow: the next node describes it and follows it.
 *
 * Ends are found by long polls (at most `polls_max`), by a list of the workflows that closed lately, and by a description
 * of each followed run now and then. All of them lead to the close event of the run: it has the result, and shows whether
 * the chain goes on (continued as new, retried, cron). closing.c explains why no end is missed.
 *
 * Threads: as engine.h; one of its own after engine_run_threads(), else the caller's in engine_step(). Nothing blocks.
 */
#ifndef WEIR_ENGINE_TEMPORAL_TEMPORAL_H
#define WEIR_ENGINE_TEMPORAL_TEMPORAL_H

#include <jansson.h>

#include "engine/engine.h"
#include "engine/temporal/codec.h"
#include "grpc/grpc_client.h"

enum {
    TEMPORAL_MAX_RUNNING_DEFAULT = 10000, /* executions followed by a node at once */
    TEMPORAL_STARTS_MAX_DEFAULT = 64,     /* starts under way at once */
    TEMPORAL_POLLS_MAX_DEFAULT = 120      /* runs with a long poll: 360 calls a minute on average */
};
#define TEMPORAL_ADDRESS_DEFAULT "127.0.0.1:7233"
#define TEMPORAL_NAMESPACE_DEFAULT "default"
/* An output {"encoded": PAYLOADS} has not been decoded: the codec could not be reached. */
#define TEMPORAL_ENCODED_KEY "encoded"
#define TEMPORAL_ENCODING_DEFAULT "json/plain"
#define TEMPORAL_START_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)
/* The shortest retention of closed runs; it holds until the service has reported its own. */
#define TEMPORAL_RETENTION_LEAST_US (3600 * MICROSECONDS_PER_SECOND)

/* Texts are copied. Zero or NULL is the default. */
struct temporal_options {
    const char *address;        /* "host:port", several with ','; default "127.0.0.1:7233" */
    const char *namespace_name; /* "default" */
    const char *task_queue;     /* of definitions that name none; "" = they are refused */
    const char *identity;       /* of this node, for the service; default "weir@HOST" */
    const char *encoding;       /* in the metadata of params and arguments; default "json/plain" */
    bool tls;
    const char *ca_file;
    const char *certificate_file;
    const char *key_file;
    const char *server_name;
    const char *api_key_file;
    const char *codec_url;        /* of a payload codec (codec.h); NULL = none */
    const char *codec_token_file; /* for it */
    const char *codec_ca_file;
    size_t max_running;
    size_t starts_max;
    size_t polls_max; /* SIZE_MAX = none */
    const struct clock *clock;
};

/* How calls leave: the gRPC client, or a test's script. `done` is called as grpc_client.h says. */
struct temporal_wire {
    enum weir_status (*call)(void *context, const struct grpc_request *request, grpc_call_id *ret_id,
                             struct weir_error *error);
    void (*cancel)(void *context, grpc_call_id id);
    int64_t (*step)(void *context);
    int (*fd)(void *context);
    bool (*is_silent)(void *context); /* grpc_client_is_silent() */
    /* grpc_client_examine() and grpc_client_examine_again(). NULL: connections are not examined. */
    enum weir_status (*examine)(void *context, const struct grpc_examination *examination, struct weir_error *error);
    void (*examine_again)(void *context);
    void (*close)(void *context);
    void *context;
    struct codec_wire codec; /* .call NULL: none */
};

/* Reads the secret files; connects with the first call. WEIR_INVALID_CONFIG, WEIR_OUT_OF_MEMORY, WEIR_SYSTEM. */
WEIR_MUST_CHECK enum weir_status temporal_open(const struct temporal_options *options, struct engine **ret_engine,
                                               struct weir_error *error);
/* For tests: with their own wire, which the engine closes. */
WEIR_MUST_CHECK enum weir_status temporal_open_on(const struct temporal_options *options, const struct temporal_wire *wire,
                                                  struct engine **ret_engine, struct weir_error *error);

#endif
