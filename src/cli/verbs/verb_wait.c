/* `weir wait`: waits for the end of one execution.
 *
 * The wait itself is in wait_for_end.c, because `weir enqueue --wait` needs it, too. The end is data on stdout. --timeout
 * bounds the wait and not the calls of the store. One thread.
 */
#include "cli/verbs/verb.h"
#include "cli/verbs/wait_for_end.h"

static enum weir_status wait_for_execution(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return wait_for_execution_end(invocation, store, invocation_argument(invocation, 0),
                                  invocation_number(invocation, "timeout", -1), true, error);
}

enum weir_status verb_wait(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, wait_for_execution, error);
}
