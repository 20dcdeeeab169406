/* `weir wait`: waits for the end of one execution.
 *
 * The wait itself is in wait_for_end.c, because `weir enqueue --wait` needs it, too. The end is data on stdout, and so is
 * the result. --timeout bounds the wait and not the calls of the store. One thread.
 */
#include "cli/output/json_fields.h"
#include "cli/verbs/verb.h"
#include "cli/verbs/wait_for_end.h"

static void print_end(struct output *output, const json_t *item)
{
    const char *state = field_text(output, item, "status");
    const char *result = end_result_text(output, item);
    if (output_object(output, item)) {
        return;
    }
    output_print(output, "%s %s %s\n", output_sign_coloured(output, output_state_sign(state)),
                 field_text(output, item, "id"), state);
    if (result != NULL) {
        output_print(output, "%s\n", result);
    }
}

static enum weir_status wait_for_execution(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    json_t *item = NULL;
    enum weir_status status = wait_for_execution_end(invocation, store, invocation_argument(invocation, 0), &item, error);
    if (end_is_reached(item)) {
        print_end(invocation->output, item);
    }
    json_decref(item);
    return status;
}

enum weir_status verb_wait(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, wait_for_execution, error);
}
