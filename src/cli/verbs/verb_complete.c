/* `weir complete`: records the end of an execution on Temporal, for its worker.
 *
 * The flags give the kind of the end, the result or the error, and optionally a run id and a fence that must match. The
 * store decides whether the end is accepted. An argument that is no id of an execution may be a workflow id. The
 * services of the settings are asked for it, and the first one that has it counts. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/uuid.h"
#include "cli/arguments/input.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/verb.h"
#include "store/complete.h"

/* --result: the text itself, @FILE, or - for stdin; the store checks it. */
static enum weir_status read_result_flag(const struct invocation *invocation, struct text *to, struct weir_error *error)
{
    const char *result = invocation_text(invocation, "result");
    if (result == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = input_read_value(result, to, error);
    if (status == WEIR_OK && to->length > 0 && memchr(to->data, '\0', to->length) != NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the result is not JSON: it contains a NUL");
    }
    return status;
}

/* Reads the kind of the end and its conditions. */
static enum weir_status read_end_flags(const struct invocation *invocation, struct completion *ret_completion,
                                       struct weir_error *error)
{
    bool failed = invocation_has(invocation, "failed");
    bool cancelled = invocation_has(invocation, "cancelled");
    if (failed && cancelled) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "--failed and --cancelled exclude each other");
    }
    ret_completion->kind = failed ? RECORD_FAILED : cancelled ? RECORD_CANCELLED : RECORD_COMPLETED;
    ret_completion->error_code = invocation_text(invocation, "error-code");
    ret_completion->error = invocation_text(invocation, "error");
    ret_completion->run_id = invocation_text(invocation, "run-id");
    ret_completion->fence = invocation_number(invocation, "fence", 0);
    if (!failed && (ret_completion->error_code != NULL || ret_completion->error != NULL)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "--error-code and --error need --failed");
    }
    return WEIR_OK;
}

static enum weir_status print_completion(const struct invocation *invocation, const struct completion *completion,
                                         struct weir_error *error)
{
    const char *state = completion->kind == RECORD_FAILED      ? "FAILED"
                        : completion->kind == RECORD_CANCELLED ? "CANCELLED"
                                                               : "COMPLETED";
    return verb_print_act(invocation, json_pack("{s:s, s:s}", "id", completion->id, "status", state), error);
}

/* Asks the store whether it would accept the end. */
static enum weir_status complete_dry(struct invocation *invocation, struct store *store,
                                     const struct completion *completion, struct weir_error *error)
{
    bool has_ended = false;
    enum weir_status status = store_complete_rehearse(store, completion, &has_ended, error);
    if (status == WEIR_OK) {
        output_report_sign(invocation->output, SIGN_FINE,
                           has_ended ? "%s has ended like this already: nothing would change" : "would end %s",
                           completion->id);
        status = print_completion(invocation, completion, error);
    }
    return status;
}

/* Records the end. */
static enum weir_status complete_execution(struct invocation *invocation, struct store *store,
                                           const struct completion *completion, struct weir_error *error)
{
    enum weir_status status = store_complete(store, completion, error);
    if (status == WEIR_OK) {
        output_report(invocation->output, "%s has ended", completion->id);
        status = print_completion(invocation, completion, error);
    }
    return status;
}

/* A text that is no id of an execution may be the workflow id that a definition gave it. When no service answers, the
 * error of the store is kept, because it names the argument. */
static enum weir_status find_by_workflow_id(const struct invocation *invocation, struct store *store, const char **id,
                                            char *found, struct weir_error *error)
{
    json_t *execution = NULL;
    struct weir_error of_service = {.status = WEIR_OK};
    enum weir_status status = store_show(store, *id, &execution, NULL);
    json_decref(execution);
    if (status == WEIR_OK || weir_status_kind(status) != WEIR_KIND_PERMANENT) {
        return WEIR_OK; /* the verb meets the failure again and reports it */
    }
    status = temporal_service_find(invocation, *id, found, &of_service);
    if (status == WEIR_OK) {
        *id = found;
    } else if (status == WEIR_EXECUTION_NOT_FOUND) {
        *error = of_service;
        return status;
    }
    return WEIR_OK;
}

enum weir_status verb_complete(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    struct text result = {.max = STEP_OUTPUT_BYTES_MAX + 1};
    char found[UUID_TEXT_MAX];
    bool is_dry_run = invocation_is_dry_run(invocation);
    struct completion completion = {.id = invocation_argument(invocation, 0)};
    enum weir_status status = read_end_flags(invocation, &completion, error);
    if (status == WEIR_OK) {
        status = read_result_flag(invocation, &result, error);
        completion.result = !invocation_has(invocation, "result") ? NULL : result.length == 0 ? "" : result.data;
    }
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, is_dry_run ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = find_by_workflow_id(invocation, store, &completion.id, found, error);
    }
    if (status == WEIR_OK) {
        status = is_dry_run ? complete_dry(invocation, store, &completion, error)
                            : complete_execution(invocation, store, &completion, error);
    }
    text_close(&result);
    store_close(store);
    return status;
}
