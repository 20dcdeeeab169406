/* The direct calls of verbs to the Temporal service of an execution. Threads: one. */
#ifndef WEIR_CLI_VERBS_TEMPORAL_SERVICE_H
#define WEIR_CLI_VERBS_TEMPORAL_SERVICE_H

#include "assemble.h"
#include "cli/arguments/invocation.h"

/* Replaces each output that a codec was not there to decode (TEMPORAL_ENCODED_KEY) by its value, in an execution of
 * store_show(), with the settings of its group. At the first failure the outputs stay as they are, and stderr gets a
 * warning.
 */
void temporal_service_decode_or_warn(const struct invocation *invocation, json_t *execution);
/* How long a verb waits for the service: --timeout, or ten seconds. */
int64_t temporal_service_timeout(const struct invocation *invocation);
/* assemble_terminate() with these settings, those of the execution's group. */
WEIR_MUST_CHECK enum weir_status temporal_service_terminate(const struct invocation *invocation,
                                                            const struct settings *settings,
                                                            const struct temporal_execution *execution, const char *reason,
                                                            temporal_awaits *awaits, void *context,
                                                            struct weir_error *error);
/* The execution of a workflow id that a definition names: the first service of the settings that has it counts. `to`
 * holds UUID_TEXT_MAX bytes. WEIR_EXECUTION_NOT_FOUND, WEIR_INVALID_ARGUMENT where no node runs executions on Temporal, or
 * an error of a service. */
WEIR_MUST_CHECK enum weir_status temporal_service_find(const struct invocation *invocation, const char *workflow_id,
                                                       char *to, struct weir_error *error);
/* assemble_hold_up() with the settings of the execution's group, for at most some seconds. A service that does not
 * answer gives HELD_UP_BY_NOTHING: other lines of `weir why` report that it is away. */
void temporal_service_hold_up(const struct invocation *invocation, const char *group,
                              const struct temporal_execution *execution, struct temporal_hold_up *ret_hold_up);

#endif
