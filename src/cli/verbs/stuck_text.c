/* The sentences about steps that have not ended: of executions that run longer than expected, and of those that wait.
 *
 * The store has since when an execution is stuck, its node and the steps that have not ended (store_why(), store_status()).
 * Texts of the store are made safe before they are printed. A long text is cut. It reads nothing itself. One thread.
 */
#include "cli/verbs/stuck_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "cli/output/json_fields.h"
#include "queue/item.h"
#include "queue/signal.h"
#include "queue/step.h"

const char *first_unfinished_step(struct output *output, const json_t *why)
{
    const json_t *step = json_array_get(json_object_get(why, "unfinished_steps"), 0);
    return step == NULL ? NULL : field_text(output, step, "step");
}

void stuck_text(struct output *output, const json_t *row, int64_t now_us, char text[STUCK_TEXT_MAX])
{
    INVARIANT(row != NULL && text != NULL);
    const char *workspace = field_text(output, row, "workspace");
    const char *workflow = field_text(output, row, "workflow");
    const char *node = field_text(output, row, "node");
    const char *step = first_unfinished_step(output, row);
    const json_t *first = json_array_get(json_object_get(row, "unfinished_steps"), 0);
    int length = snprintf(text, STUCK_TEXT_MAX, "%s of %s, %s: stuck for %s on %s", field_text(output, row, "id"),
                          workspace != NULL ? workspace : "-", workflow != NULL ? workflow : "-",
                          output_age(output, json_string_value(json_object_get(row, "stuck_since")), now_us),
                          node != NULL ? node : "no node");
    if (length > 0 && length < STUCK_TEXT_MAX && step != NULL) {
        (void)snprintf(text + length, STUCK_TEXT_MAX - (size_t)length, ", in step %s (attempt %" PRId64 ")", step,
                       field_number(first, "attempt", 1));
    }
}

/* The name is that of the definition, which a person passes to `weir signal`. */
static void print_signal_since(struct output *output, const json_t *step, bool is_first, const char *since, int64_t now_us)
{
    output_print(output, "  %-16s %s, waits for the signal \"%s\" since %s (%s)", is_first ? "step" : "",
                 field_text(output, step, "step"), field_text(output, step, "signal"), since,
                 output_ago(output, since, now_us));
}

/* A step that waits for a signal, an approval or a report: which one, since when, and until when. */
static void print_wait_for_signal(struct output *output, const json_t *step, bool is_first, int64_t now_us)
{
    const char *since = field_text(output, step, "started_at");
    const char *until = field_text(output, step, "due_at");
    const char *signal = field_text(output, step, "signal");
    const char *approvers = field_text(output, step, "approvers");
    if (strncmp(signal, APPROVAL_SIGNAL, strlen(APPROVAL_SIGNAL)) == 0) {
        output_print(output, "  %-16s %s, waits for an approval by %s since %s (%s)", is_first ? "step" : "",
                     field_text(output, step, "step"), approvers == NULL ? "anybody who may send signals" : approvers,
                     since, output_ago(output, since, now_us));
    } else if (strncmp(signal, CALLBACK_SIGNAL, strlen(CALLBACK_SIGNAL)) == 0) {
        output_print(output, "  %-16s %s, attempt %" PRId64 ", waits for the report of its function since %s (%s)",
                     is_first ? "step" : "", field_text(output, step, "step"), field_number(step, "attempt", 1), since,
                     output_ago(output, since, now_us));
    } else {
        print_signal_since(output, step, is_first, since, now_us);
    }
    if (until != NULL) {
        output_print(output, ", until %s (%s)", until, output_ago(output, until, now_us));
    }
    output_print(output, "\n");
    if (field_text(output, step, "prompt") != NULL) {
        output_print(output, "  %-16s %s\n", "", field_text(output, step, "prompt"));
    }
}

/* A step that waits for children: how many of them have ended, and the first one that has not, with its own reason. The
 * numbers are those of the last look of the duty, so a child that has ended a moment ago may still count as open. */
static void print_wait_for_children(struct output *output, const json_t *step, bool is_first, int64_t now_us)
{
    const char *since = field_text(output, step, "started_at");
    const char *oldest = field_text(output, step, "oldest_child_id");
    output_print(output, "  %-16s %s, waits for its children since %s (%s): %" PRId64 " of %" PRId64 " have ended",
                 is_first ? "step" : "", field_text(output, step, "step"), since, output_ago(output, since, now_us),
                 field_number(step, "children_ended", 0), field_number(step, "children_count", 0));
    const char *because = field_text(output, step, "oldest_child_because");
    if (oldest != NULL) {
        output_print(output, "; the first open one is %s%s%s", oldest, because == NULL ? "" : ": ",
                     because == NULL ? "" : because);
    }
    output_print(output, "\n");
}

/* A step that waits for its next attempt, because the last one failed. */
static void print_wait_for_attempt(struct output *output, const json_t *step, bool is_first, int64_t now_us)
{
    const char *code = field_text(output, step, "error_code");
    const char *reason = field_text(output, step, "error");
    const char *due = field_text(output, step, "due_at");
    output_print(output, "  %-16s %s, attempt %" PRId64, is_first ? "step" : "", field_text(output, step, "step"),
                 field_number(step, "attempt", 1));
    if (field_text(output, step, "attempts_max") != NULL) {
        output_print(output, " of %" PRId64, field_number(step, "attempts_max", 0));
    }
    output_print(output, " failed: %s", reason != NULL ? reason : code);
    if (due != NULL) {
        output_print(output, "; the next begins %s (%s)", due, output_ago(output, due, now_us));
    }
    output_print(output, "\n");
}

void print_unfinished_steps(struct output *output, const json_t *why, int64_t now_us)
{
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(why, "unfinished_steps"), i, step)
    {
        const char *since = field_text(output, step, "started_at");
        const char *status = field_text(output, step, "status");
        bool waits = status != NULL && strcmp(status, step_state_name(STEP_WAITING)) == 0;
        if (waits && field_text(output, step, "signal") != NULL) {
            print_wait_for_signal(output, step, i == 0, now_us);
            continue;
        }
        if (field_text(output, step, "children_count") != NULL) {
            print_wait_for_children(output, step, i == 0, now_us);
            continue;
        }
        if (waits && field_text(output, step, "error_code") != NULL) {
            print_wait_for_attempt(output, step, i == 0, now_us);
            continue;
        }
        const char *state = field_text(output, step, "state"); /* of a workflow with states */
        output_print(output, "  %-16s %s, %s %" PRId64 ", %s, started %s (%s)\n",
                     i > 0           ? ""
                     : state != NULL ? "state"
                                     : "step",
                     state != NULL ? state : field_text(output, step, "step"), state != NULL ? "action" : "attempt",
                     field_number(step, "attempt", 1), status, since, output_ago(output, since, now_us));
    }
}

/* The first step that waits for a signal whose name begins with `prefix`; with NULL, for one that a person sends. */
static const json_t *first_waiting_step(struct output *output, const json_t *why, const char *prefix)
{
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(why, "unfinished_steps"), i, step)
    {
        const char *signal = field_text(output, step, "signal");
        bool is_wanted =
            signal != NULL && (prefix == NULL ? strchr(signal, ':') == NULL : strncmp(signal, prefix, strlen(prefix)) == 0);
        if (is_wanted) {
            return step;
        }
    }
    return NULL;
}

void suggest_end_of_wait(struct output *output, const json_t *why)
{
    char word[SHELL_WORD_MAX];
    const char *id = field_text(output, why, "id");
    const char *waiting_for = field_text(output, why, "waiting_for");
    enum wait_kind kind;
    if (id == NULL || waiting_for == NULL || !wait_kind_parse(waiting_for, &kind)) {
        return;
    }
    const json_t *approval = kind == WAIT_APPROVAL ? first_waiting_step(output, why, APPROVAL_SIGNAL) : NULL;
    const json_t *signal = kind == WAIT_SIGNAL ? first_waiting_step(output, why, NULL) : NULL;
    if (approval != NULL) {
        const char *step = shell_quote(field_text(output, approval, "step"), word);
        output_report(output, "now: weir approve %s %s, or weir reject %s %s", id, step, id, step);
    } else if (signal != NULL) {
        output_report(output, "now: weir signal %s %s --data JSON", id,
                      shell_quote(field_text(output, signal, "signal"), word));
    } else if (kind == WAIT_MANUAL) {
        output_report(output, "now: weir update %s --state STATE", id);
    }
}
