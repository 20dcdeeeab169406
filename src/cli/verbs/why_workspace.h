/* `weir why -w WORKSPACE`: the answer for a tenant. Threads: one. */
#ifndef WEIR_CLI_VERBS_WHY_WORKSPACE_H
#define WEIR_CLI_VERBS_WHY_WORKSPACE_H

#include "cli/verbs/verb.h"

/* Prints of the workspace: its slots with their holders, and its waiting executions by reason with the oldest. Then the
 * failures of the last hour, and the time at which the next execution is expected to start. WEIR_WORKSPACE_NOT_FOUND
 * names the nearest one. */
WEIR_MUST_CHECK enum weir_status why_workspace(struct invocation *invocation, struct store *store, const char *name,
                                               struct weir_error *error);

#endif
