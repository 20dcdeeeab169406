/* A Temporal service in memory, for unit tests of the engine on a virtual clock: it treats starts, descriptions, lists,
 * close events and cancels as a real service does, and on request fails as a healthy one never does. It is a wire of the
 * engine (temporal.h), so no byte of HTTP is involved. One thread.
 */
#ifndef WEIR_TESTS_SUPPORT_FAKE_TEMPORAL_H
#define WEIR_TESTS_SUPPORT_FAKE_TEMPORAL_H

#include "engine/temporal/encode.h"
#include "engine/temporal/temporal.h"
#include "support/fake_attributes.h"

enum fake_fault {
    FAKE_FINE,
    FAKE_LOSE_ANSWER,  /* carried out, and nothing is heard: GRPC_UNKNOWN, connection lost */
    FAKE_LOSE_REQUEST, /* not carried out, and nothing is heard */
    FAKE_TIME_OUT,     /* carried out; GRPC_UNKNOWN for want of time */
    FAKE_NOT_SENT,     /* GRPC_NOT_SENT */
    FAKE_THROTTLE,     /* 8 with ResourceExhaustedFailure */
    FAKE_INVALID,      /* 3 */
    FAKE_TOO_LARGE,    /* 8 without a detail, "larger than max" */
    FAKE_NAMESPACE,    /* 5 with NamespaceNotFoundFailure */
    FAKE_DENIED,       /* 7 */
    FAKE_UNAVAILABLE,  /* 14, not carried out */
    FAKE_FROZEN,       /* not carried out; GRPC_UNKNOWN for want of time, and soon the wire is silent */
    FAKE_SLOW,         /* carried out, and answered FAKE_SLOW_US later; the wire is not silent */
    FAKE_GARBAGE       /* carried out; the answer is no message */
};

#define FAKE_SLOW_US (5 * MICROSECONDS_PER_SECOND)

struct fake_temporal;

struct fake_temporal *fake_temporal_open(const struct clock *clock);
/* Takes NULL. After the engine was closed. */
void fake_temporal_close(struct fake_temporal *service);
struct temporal_wire fake_temporal_wire(struct fake_temporal *service);

/* The next start that has no fault yet gets this one. */
void fake_temporal_push(struct fake_temporal *service, enum fake_fault fault);
/* Every call is answered with this until FAKE_FINE. */
void fake_temporal_set_fault(struct fake_temporal *service, enum fake_fault fault);
/* A bucket with a second's burst for all calls of the namespace together, waiting ones included; 0: none. A call that finds
 * it empty is throttled. */
void fake_temporal_set_limit(struct fake_temporal *service, double calls_per_second);
/* How many calls it has throttled. */
size_t fake_temporal_throttled(const struct fake_temporal *service);
/* Another service answers at its address: its namespace has another id, and it knows no workflow. Calls that wait end with
 * their connection. */
void fake_temporal_replace(struct fake_temporal *service, bool is_replaced);
/* The starts that the other service got. */
size_t fake_temporal_starts_elsewhere(const struct fake_temporal *service);
/* The key has no right to describe the namespace. */
void fake_temporal_hide_namespace(struct fake_temporal *service, bool is_hidden);
/* Lists show nothing at all. */
void fake_temporal_break_lists(struct fake_temporal *service, bool broken);
/* Each list is answered with this until FAKE_FINE. */
void fake_temporal_fail_lists(struct fake_temporal *service, enum fake_fault fault);
/* Waiting calls hear of an end so much later. */
void fake_temporal_delay_polls(struct fake_temporal *service, int64_t us);
/* Waiting calls are throttled. */
void fake_temporal_refuse_polls(struct fake_temporal *service, bool refuse);

/* --- events in the service; `id` is the execution's --- */

/* Another client starts a workflow under the execution's workflow id. */
void fake_temporal_take_id(struct fake_temporal *service, const char *id);
/* The same under any workflow id, also that of a closed workflow: it is another chain. */
void fake_temporal_take_workflow_id(struct fake_temporal *service, const char *workflow_id);
/* Ends the newest run of the workflow id, also one of another client. */
void fake_temporal_end_newest(struct fake_temporal *service, const char *workflow_id, int status);
/* The search attributes of the namespace: none at first. A start with another one is refused. */
struct fake_attributes *fake_temporal_attributes(struct fake_temporal *service);
/* Ends the newest run. `text` is the result's JSON, or the failure's message. */
void fake_temporal_end(struct fake_temporal *service, const char *id, int status, const char *text);
/* Results and the messages of failures are encoded from now on: of the encoding "xenon", three zero bytes before the text.
 */
void fake_temporal_encode_results(struct fake_temporal *service, bool encode);
/* Terminates the newest run as `weir cancel --terminate` does. */
void fake_temporal_terminate_by_weir(struct fake_temporal *service, const char *id, const char *reason);
/* Ends the newest run in `status` and begins the next one of the chain. */
void fake_temporal_go_on(struct fake_temporal *service, const char *id, int status);
/* The newest run continues as new, with a memo of its own. */
void fake_temporal_renew(struct fake_temporal *service, const char *id);
/* Terminates the newest run and begins another one that the close event does not name. */
void fake_temporal_reset(struct fake_temporal *service, const char *id);
/* As after retention, or a deletion. */
void fake_temporal_forget(struct fake_temporal *service, const char *id);

/* --- the calls so far --- */

enum fake_method { FAKE_START, FAKE_DESCRIBE, FAKE_LIST, FAKE_HISTORY, FAKE_POLL, FAKE_CANCEL, FAKE_OTHER, FAKE_METHODS };
size_t fake_temporal_calls(const struct fake_temporal *service, enum fake_method method);
/* Chains that began for the id. More than one is a failure of the engine. */
size_t fake_temporal_chains(const struct fake_temporal *service, const char *id);
/* Whether these bytes are in the first start of the workflow id. */
bool fake_temporal_start_has(const struct fake_temporal *service, const char *workflow_id, const char *bytes);
/* Whether all starts of each id had the same bytes. */
bool fake_temporal_starts_are_equal(const struct fake_temporal *service);
/* The first start of the id, as it came; the service's. */
struct bytes fake_temporal_start_of(const struct fake_temporal *service, const char *id);
bool fake_temporal_cancel_was_asked(const struct fake_temporal *service, const char *id);
size_t fake_temporal_polls_waiting(const struct fake_temporal *service);
/* Whether a call waits for the end of the execution's newest run. */
bool fake_temporal_is_waited_for(const struct fake_temporal *service, const char *id);

#endif
