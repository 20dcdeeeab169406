/* A signal to the workflow of an execution, for `weir signal` and the HTTP API. */
#ifndef WEIR_CLI_VERBS_SIGNAL_EXECUTION_H
#define WEIR_CLI_VERBS_SIGNAL_EXECUTION_H

#include <jansson.h>

#include "cli/arguments/invocation.h"
#include "store/store.h"

/* Sends the signal to the service of the execution's group, by the settings of the invocation. `execution`: the answer of
 * store_show(); `input`: JSON text, or NULL. Any thread: the invocation is only read. WEIR_ILLEGAL_STATE: it has ended;
 * WEIR_INVALID_ARGUMENT: its engine has no signals; errors of the store and the service. */
WEIR_MUST_CHECK enum weir_status signal_execution(const struct invocation *invocation, struct store *store,
                                                  const json_t *execution, const char *name, const char *input,
                                                  struct weir_error *error);

#endif
