/* Reads a step of the kind `approve`: a wait for the decision of one of the actors in `by`.
 *
 *     approve: {by: [token:ops, cli:eve], prompt: "Pay 700?", timeout: 3d, default: reject, on_reject: fail}
 *
 * All keys may be missing. None holds an expression. The right to decide must not depend on data that a caller gives,
 * and the end of a wait must not need an evaluation that can fail. The step becomes one that waits for a signal of a
 * reserved name (queue/signal.h). It must never accept a list `by` that is empty: that would read as "nobody", and mean
 * everybody. Runs in the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "definition/definition_internal.h"
#include "queue/signal.h"

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

/* The actors as the record of acts has them: "token:ops", "cli:eve", the role of a session in SQL. */
static enum weir_status read_approvers(struct definition_reader *reader, const struct yaml_node *node,
                                       struct step_approval *approval)
{
    if (node->kind != YAML_LIST || node->count == 0 || node->count > APPROVERS_MAX) {
        FAIL(reader, node, "\"by\" must be a list of 1 to %d actors", APPROVERS_MAX);
        error_hint(
            reader->error,
            "write by: [\"token:ops\", \"cli:eve\"]; without \"by\" each caller with the right to send signals may decide");
        return reader->source.status;
    }
    const char **by = arena_allocate(reader->arena, node->count * sizeof *by);
    if (by == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = reader_take_text(reader, node->values[i], "an actor", &by[i]);
        if (status != WEIR_OK) {
            return status;
        }
        if (by[i][0] == '\0' || strlen(by[i]) > 255) {
            return FAIL(reader, node->values[i], "an actor has 1 to 255 bytes");
        }
    }
    approval->by = by;
    approval->by_count = node->count;
    return WEIR_OK;
}

/* One of two words. */
static enum weir_status read_choice(struct definition_reader *reader, const struct yaml_node *node, const char *field,
                                    const char *yes, const char *no, bool *ret_yes)
{
    const char *word = NULL;
    enum weir_status status = reader_take_text(reader, node, field, &word);
    if (status == WEIR_OK && strcmp(word, yes) != 0 && strcmp(word, no) != 0) {
        return FAIL(reader, node, "%s must be %s or %s", field, yes, no);
    }
    *ret_yes = status == WEIR_OK && strcmp(word, yes) == 0;
    return status;
}

static enum weir_status read_approval_fields(struct definition_reader *reader, const struct yaml_node *node,
                                             struct step_approval *approval, int64_t *ret_timeout_us)
{
    static const char *const keys[] = {"by", "prompt", "timeout", "default", "on_reject"};
    enum weir_status status = yaml_check_keys(&reader->source, node, "\"approve\"", keys, 5, reader->error);
    const struct yaml_node *by = yaml_get(node, "by");
    const struct yaml_node *prompt = yaml_get(node, "prompt");
    const struct yaml_node *timeout = yaml_get(node, "timeout");
    const struct yaml_node *standby = yaml_get(node, "default");
    const struct yaml_node *on_reject = yaml_get(node, "on_reject");
    if (status == WEIR_OK && by != NULL) {
        status = read_approvers(reader, by, approval);
    }
    if (status == WEIR_OK && prompt != NULL) {
        status = reader_take_text(reader, prompt, "\"prompt\"", &approval->prompt);
    }
    if (status == WEIR_OK && prompt != NULL && strlen(approval->prompt) > APPROVAL_COMMENT_MAX) {
        status = FAIL(reader, prompt, "\"prompt\" is longer than %d bytes", APPROVAL_COMMENT_MAX);
    }
    if (status == WEIR_OK && timeout != NULL) {
        status = reader_take_duration(reader, timeout, "\"timeout\"", ret_timeout_us);
    }
    if (status == WEIR_OK && standby != NULL && *ret_timeout_us == 0) {
        status = FAIL(reader, standby, "\"default\" has no effect without \"timeout\"");
    }
    if (status == WEIR_OK && standby != NULL) {
        approval->has_default = true;
        status = read_choice(reader, standby, "\"default\"", "approve", "reject", &approval->default_approves);
    }
    return status == WEIR_OK && on_reject != NULL
               ? read_choice(reader, on_reject, "\"on_reject\"", "fail", "complete", &approval->fails_on_reject)
               : status;
}

enum weir_status approve_read(struct definition_reader *reader, const struct yaml_node *node, struct step *step)
{
    INVARIANT(node != NULL && step->id != NULL);
    struct step_approval *approval = arena_allocate(reader->arena, sizeof *approval);
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    if (node->kind != YAML_MAP) {
        FAIL(reader, node, "\"approve\" must be a map");
        error_hint(reader->error, "write approve: {} or approve: {by: [\"token:ops\"], timeout: 3d, default: reject}");
        return reader->source.status;
    }
    (void)snprintf(name, sizeof name, APPROVAL_SIGNAL "%s", step->id);
    step->kind = STEP_SIGNAL;
    step->signal = (struct step_signal){.name = arena_copy_string(reader->arena, name), .approval = approval};
    if (approval == NULL || step->signal.name == NULL) {
        return error_out_of_memory(reader->error);
    }
    *approval = (struct step_approval){.by_count = 0};
    return read_approval_fields(reader, node, approval, &step->signal.timeout_us);
}
