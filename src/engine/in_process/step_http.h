/* Steps that send an HTTP request.
 *
 * The attempt is on record before its request is sent, as that of an exec step is. The request has a weir_call, which the
 * client's thread answers like a handler's thread; so timeout, cancel, secrets and the result take the same way.
 *
 * Each attempt of a step sends the same `Idempotency-Key`, also after its node died: a server that keeps it does the work
 * once.
 *
 * Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_HTTP_H
#define WEIR_ENGINE_IN_PROCESS_STEP_HTTP_H

#include "engine/in_process/execution_state.h"

/* Of a request whose step has no `timeout`. */
#define STEP_HTTP_TIMEOUT_US_DEFAULT (60 * MICROSECONDS_PER_SECOND)
/* A Retry-After that is longer counts as this. */
#define STEP_HTTP_RETRY_AFTER_MAX_US (3600 * MICROSECONDS_PER_SECOND)

/* Its inputs are evaluated, and its start is on record: sends the request. */
void step_http_start(struct step_run *run);

#endif
