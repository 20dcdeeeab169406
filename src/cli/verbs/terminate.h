/* `weir cancel --terminate`: ends the workflows of executions on Temporal at once, without asking them. Their cancel is on
 * record already, so an unstarted execution never starts; a start that is on its way is waited for, and its workflow ended
 * as soon as the service knows it. */
#ifndef WEIR_CLI_VERBS_TERMINATE_H
#define WEIR_CLI_VERBS_TERMINATE_H

#include "cli/verbs/verb.h"

/* `ids` is an array of whole ids. Each is waited for at most --timeout. After one that cannot be terminated it goes on with
 * the next, unless the service is away; the first failure is the answer. WEIR_TIMED_OUT: whether it was started is not
 * known yet, or the service did not answer; WEIR_EXECUTION_NOT_FOUND: the service has no open workflow of it, and weir
 * knows of no end; else as assemble_terminate(). */
WEIR_MUST_CHECK enum weir_status terminate_executions(struct invocation *invocation, struct store *store, const json_t *ids,
                                                      struct weir_error *error);

#endif
