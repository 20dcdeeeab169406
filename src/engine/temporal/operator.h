/* The parts of the operator's client that operator_client.c (signals, terminations, reasons, examination) and requests.c
 * (descriptions, queries, updates) share. One thread.
 */
#ifndef WEIR_ENGINE_TEMPORAL_OPERATOR_H
#define WEIR_ENGINE_TEMPORAL_OPERATOR_H

#include "engine/temporal/operator_client.h"
#include "engine/temporal/temporal_internal.h"

struct temporal_operator {
    struct grpc_client *client;
    struct codec_wire codec; /* .call NULL: none */
    const struct clock *clock;
    int64_t timeout_us; /* of the next call */
    char *address;
    char *namespace_name;
    char *encoding;
    bool tls;
};

/* One call and its answer. */
struct waited {
    bool is_done;
    enum reply_kind reply;
    bool is_lost;            /* it left, and the service may have executed it */
    struct weir_error error; /* of any other reply than REPLY_OK */
    struct bytes response;   /* REPLY_OK */
};
/* Takes the message. REPLY_OK: the answer is in `waited->response`, which the caller frees. */
enum reply_kind operator_call(struct temporal_operator *operator, enum method method, struct bytes message,
                              struct waited *waited);
/* The workflow of an execution as its messages name it. */
struct own_workflow {
    char workflow_id[WORKFLOW_ID_MAX];
    char first_run_id[RUN_ID_MAX]; /* of its own chain ... */
    char run_id[RUN_ID_MAX];   /* ... and its newest run; both "" for a default workflow id, which no other program uses */
    struct workflow_name name; /* of the three above */
};
/* Reads the chain from the service if the definition names the workflow id. Errors as temporal_signal(). */
WEIR_MUST_CHECK enum weir_status operator_find_own(struct temporal_operator *operator,
                                                   const struct temporal_execution * execution,
                                                   struct own_workflow *ret_workflow, struct weir_error *error);
/* One payload of the JSON text `input`, encoded; NULL for NULL. */
WEIR_MUST_CHECK enum weir_status operator_encode(struct temporal_operator *operator, const char * input,
                                                 struct payloads **ret_payloads, struct weir_error *error);
/* The payloads after the codec, as many as before; the same ones without a codec. Takes `payloads`; NULL: out of memory. */
WEIR_MUST_CHECK enum weir_status operator_code(struct temporal_operator *operator, enum codec_verb verb,
                                               struct payloads *payloads, struct payloads **ret_payloads,
                                               struct weir_error *error);
/* The value of the payloads, decoded. Takes them. */
WEIR_MUST_CHECK enum weir_status operator_decode(struct temporal_operator *operator, struct payloads * payloads,
                                                 json_t **ret_value, struct weir_error *error);

#endif
