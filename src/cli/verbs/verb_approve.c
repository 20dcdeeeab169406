/* `weir approve` and `weir reject`: the decision for a step of the kind `approve`.
 *
 * The store checks whether the actor of this command is one of `by` of the step (store/signals.h). It puts the decision
 * on record, or the attempt of another actor. Nothing is checked here, so that every surface refuses the same callers.
 * A dry run shows whether a step waits, and decides nothing. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "cli/verbs/verb.h"
#include "queue/signal.h"
#include "store/bulk_act.h"

/* For --dry-run: whether such a step waits. The store checks the right to decide when the act is done. */
static enum weir_status check_waits(struct store *store, const char *id, const char *step, struct sent_signal *sent,
                                    struct weir_error *error)
{
    json_t *why = NULL;
    int count = 0;
    size_t i;
    json_t *row;
    enum weir_status status = store_why(store, id, &why, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_array_foreach(json_object_get(why, "unfinished_steps"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "step"));
        const char *signal = json_string_value(json_object_get(row, "signal"));
        bool waits = signal != NULL && strncmp(signal, APPROVAL_SIGNAL, strlen(APPROVAL_SIGNAL)) == 0;
        if (waits && name != NULL && (step == NULL || strcmp(name, step) == 0)) {
            text_copy(sent->step, sizeof sent->step, name);
            count++;
        }
    }
    text_copy(sent->id, sizeof sent->id, json_string_value(json_object_get(why, "id")));
    json_decref(why);
    if (count > 1) {
        error_set(error, WEIR_ILLEGAL_STATE, "several steps of execution %s wait for an approval", sent->id);
        error_hint(error, "name one of them: `weir why %s` shows them", sent->id);
        return WEIR_ILLEGAL_STATE;
    }
    return sent->step[0] != '\0'
               ? WEIR_OK
               : error_set(error, WEIR_ILLEGAL_STATE, "no such step of execution %s waits for an approval", sent->id);
}

/* A short id must name one execution: a decision for another one could not be undone. */
static enum weir_status decide_by_command(struct invocation *invocation, bool approved, struct weir_error *error)
{
    struct store *store = NULL;
    struct sent_signal sent = {.seq = 0};
    char whole[UUID_TEXT_MAX];
    bool is_dry_run = invocation_is_dry_run(invocation);
    struct approval approval = {.step = invocation_argument(invocation, 1),
                                .approved = approved,
                                .comment = invocation_text(invocation, "comment")};
    enum weir_status status = verb_open_store(invocation, is_dry_run ? STORE_READ : STORE_CHANGE, &store, error);
    if (status == WEIR_OK) {
        status = execution_complete_id(store, invocation_argument(invocation, 0), whole, error);
    }
    if (status == WEIR_OK) {
        status = is_dry_run ? check_waits(store, whole, approval.step, &sent, error)
                            : store_approve(store, whole, &approval, &sent, error);
    }
    if (status == WEIR_OK) {
        const char *act = approved ? "approve" : "reject";
        output_report(invocation->output, "step %s of %s %s %s", sent.step, sent.id, is_dry_run ? "would be" : "is",
                      approved ? "approved" : "rejected");
        status =
            verb_print_act(invocation, json_pack("{s:s, s:s, s:s}", "id", sent.id, "act", act, "step", sent.step), error);
    }
    store_close(store);
    return status;
}

enum weir_status verb_approve(struct invocation *invocation, struct weir_error *error)
{
    return decide_by_command(invocation, true, error);
}

enum weir_status verb_reject(struct invocation *invocation, struct weir_error *error)
{
    return decide_by_command(invocation, false, error);
}
