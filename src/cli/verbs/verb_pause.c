/* `weir pause` and `weir resume`: the whole queue, or one executor group.
 *
 * The pause is a row of the store that the scheduler obeys in its next round. Executions that run already continue. A
 * group must exist, so that a misspelt name cannot look like a pause. One thread.
 */
#include "base/error.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* Sets the pause of the queue, or of the group of --executor-group. */
static enum weir_status pause_or_resume(struct invocation *invocation, struct store *store, bool paused,
                                        struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *group = invocation_text(invocation, "executor-group");
    enum weir_status status = WEIR_OK;
    if (group != NULL) {
        status = store_require_name(store, LIST_GROUPS, group, WEIR_NOT_FOUND, error);
    }
    if (status == WEIR_OK && !invocation_is_dry_run(invocation)) {
        status = store_set_paused(store, group, paused, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(output, paused ? SIGN_PAUSED : SIGN_FINE, "%s%s %s%s", group != NULL ? "group " : "the queue",
                           group != NULL ? output_safe(output, group) : "",
                           invocation_is_dry_run(invocation) ? "would be " : "is ",
                           paused ? "paused; running executions continue" : "resumed");
        status = verb_print_act(invocation, json_pack("{s:s?, s:b}", "executor_group", group, "paused", paused), error);
    }
    return status;
}

static enum weir_status pause_queue(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return pause_or_resume(invocation, store, true, error);
}

static enum weir_status resume_queue(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return pause_or_resume(invocation, store, false, error);
}

enum weir_status verb_pause(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, pause_queue, error);
}

enum weir_status verb_resume(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, resume_queue, error);
}
