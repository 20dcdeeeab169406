/* A signal to an execution, for `weir signal` and the HTTP API. */
#ifndef WEIR_CLI_VERBS_SIGNAL_EXECUTION_H
#define WEIR_CLI_VERBS_SIGNAL_EXECUTION_H

#include <jansson.h>

#include "cli/arguments/invocation.h"
#include "store/store.h"

/* Sends the signal by the store; of a workflow on Temporal, to the service of the execution's group, by the settings of the
 * invocation. `execution`: the answer of store_show(), whose id goes before that of the request. ret_sent->seq is 0 of a
 * signal to Temporal. Any thread: the invocation is only read. Errors of store_signal() and of the service. */
WEIR_MUST_CHECK enum weir_status signal_execution(const struct invocation *invocation, struct store *store,
                                                  const json_t *execution, const struct signal_request *request,
                                                  struct sent_signal *ret_sent, struct weir_error *error);

/* The signal to all executions of --where and --workspace, with the guards of bulk acts; it needs a key. */
enum weir_status bulk_signal(struct invocation *invocation, const struct signal_request *request, struct weir_error *error);

#endif
