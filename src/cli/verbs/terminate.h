/* `weir cancel --terminate`: ends the workflows of executions on Temporal at once, without asking them. Their cancel is
 * on record already, so an unstarted execution never starts. The command waits for a start that is on its way, and ends
 * its workflow as soon as the service has it. */
#ifndef WEIR_CLI_VERBS_TERMINATE_H
#define WEIR_CLI_VERBS_TERMINATE_H

#include "cli/verbs/verb.h"

/* `ids` is an array of whole ids. Each is waited for at most --timeout. A failure does not keep the next id from being
 * terminated, unless the service is away; the first failure is returned. WEIR_TIMED_OUT: it is unknown whether the
 * workflow was started, or the service did not answer. WEIR_EXECUTION_NOT_FOUND: the service has no open workflow, and
 * weir has no end on record. Else as assemble_terminate(). */
WEIR_MUST_CHECK enum weir_status terminate_executions(struct invocation *invocation, struct store *store, const json_t *ids,
                                                      struct weir_error *error);

#endif
