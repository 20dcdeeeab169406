/* What people ask of the service directly, outside of any node: a signal, a termination, and whether all is well with it.
 *
 * Each call waits for its answer, at most `timeout_us`. One thread. Owner: whoever opened it.
 */
#ifndef WEIR_ENGINE_TEMPORAL_OPERATE_H
#define WEIR_ENGINE_TEMPORAL_OPERATE_H

#include "engine/temporal/temporal.h"

struct temporal_operator;

#define TEMPORAL_AWAIT_US (200 * MICROSECONDS_PER_MS)
/* Whether the service may come to know the workflow; asked after each "not found". */
typedef bool temporal_awaits(void *context);

/* As temporal_open(). */
WEIR_MUST_CHECK enum weir_status temporal_operator_open(const struct temporal_options *options, int64_t timeout_us,
                                                        struct temporal_operator **ret_operator, struct weir_error *error);
/* Takes NULL. */
void temporal_operator_close(struct temporal_operator *operator);

/* `request_id` makes it one signal however often it arrives. `input` is JSON text, NULL = none. WEIR_EXECUTION_NOT_FOUND:
 * the service knows no open workflow of this execution; WEIR_ENGINE_UNREACHABLE; WEIR_FAILED with the service's words. */
WEIR_MUST_CHECK enum weir_status temporal_signal(struct temporal_operator *operator, const char * execution_id,
                                                 const char *name, const char *input, const char *request_id,
                                                 struct weir_error *error);
/* Ends the workflow at once, without asking it. While the service knows no open workflow and `awaits` says that its start
 * may still be on its way, it is asked again, each TEMPORAL_AWAIT_US. Errors as above. */
WEIR_MUST_CHECK enum weir_status temporal_terminate(struct temporal_operator *operator, const char * execution_id,
                                                    const char *reason, temporal_awaits *awaits, void *context,
                                                    struct weir_error *error);

enum finding { FINDING_FINE, FINDING_WARNING, FINDING_PROBLEM };
typedef void temporal_tell(void *context, enum finding finding, const char *check, const char *text);
/* Address and TLS, namespace and retention, pollers on the task queues (`queues`, `count`; each looked at once). */
void temporal_examine(struct temporal_operator *operator, const char * const * queues, size_t count, temporal_tell *tell,
                      void *context);

#endif
