/* The gRPC calls of the engine that are under way, and the paths of the service's methods.
 *
 * The engine's loop owns every call. A call is in the engine's list from call_send() until its answer has been handled.
 * Each answer first goes to service_health.c, then to the function that the sender named.
 */
#ifndef WEIR_ENGINE_TEMPORAL_CALLS_H
#define WEIR_ENGINE_TEMPORAL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/temporal/encode.h"
#include "grpc/grpc_client.h"

struct temporal;
struct run;

#define CALL_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)
#define POLL_TIMEOUT_US (60 * MICROSECONDS_PER_SECOND) /* of a long poll: the service answers after 20 s at most */

enum method {
    METHOD_START,
    METHOD_DESCRIBE,
    METHOD_LIST,
    METHOD_HISTORY,
    METHOD_LAST_EVENTS,
    METHOD_CANCEL,
    METHOD_TERMINATE,
    METHOD_SIGNAL,
    METHOD_QUERY,
    METHOD_UPDATE,
    METHOD_SYSTEM_INFO,
    METHOD_DESCRIBE_NAMESPACE,
    METHOD_DESCRIBE_TASK_QUEUE,
    METHOD_LIST_ATTRIBUTES,
    METHOD_ADD_ATTRIBUTES,
    METHOD_COUNT
};
/* "/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution" ...; a static text. */
const char *method_path(enum method method);

/* `run` is NULL when it was removed meanwhile, or for a call of the engine itself. */
typedef void call_done(struct temporal *engine, struct run *run, const struct grpc_result *result);

struct call {
    struct call *next;
    struct call **link;
    struct temporal *engine;
    struct run *run;
    struct call **slot; /* the sender's pointer to this call */
    call_done *done;
    enum method method;
    grpc_call_id id;
};
/* Sends; `slot` (may be NULL) points at the call until its answer comes. False when it could not be sent: then `done` is
 * not called. The caller keeps the message. */
bool call_send(struct temporal *engine, struct run *run, struct call **slot, enum method method, struct bytes message,
               int64_t timeout_us, call_done *done);
/* The same with a message that was made for this call: it is freed. */
bool call_send_and_free(struct temporal *engine, struct run *run, struct call **slot, enum method method,
                        struct bytes message, int64_t timeout_us, call_done *done);
/* Separates the call from its run and its slot, so that `done` gets no run. `cancel`: also ends the call at the service.
 * Takes NULL. */
void call_detach(struct call *call, bool cancel);

#endif
