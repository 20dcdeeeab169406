/* weir complete: the end of an execution, told by whoever ran it. */
#include <string.h>

#include "base/error.h"
#include "base/uuid.h"
#include "cli/arguments/command.h"
#include "cli/arguments/input.h"
#include "cli/output/json_fields.h"
#include "cli/settings/temporal_settings.h"

/* --result: the text itself, @FILE, or - for stdin; the store checks it. */
static enum weir_status read_result(const struct invocation *invocation, struct text *to, struct weir_error *error)
{
    const char *result = invocation_text(invocation, "result");
    if (result == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = result[0] == '@' || strcmp(result, "-") == 0
                                  ? input_read(result[0] == '@' ? result + 1 : result, to, error)
                                  : text_add_string(to, result);
    if (status == WEIR_OK && to->length > 0 && memchr(to->data, '\0', to->length) != NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the result is no JSON: there is a NUL in it");
    }
    return status;
}

static enum weir_status read_end(const struct invocation *invocation, struct completion *ret_completion,
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
        return error_set(error, WEIR_INVALID_ARGUMENT, "--error-code and --error belong to --failed");
    }
    return WEIR_OK;
}

static enum weir_status print_end(const struct invocation *invocation, const struct completion *completion,
                                  struct weir_error *error)
{
    const char *state = completion->kind == RECORD_FAILED      ? "FAILED"
                        : completion->kind == RECORD_CANCELLED ? "CANCELLED"
                                                               : "COMPLETED";
    return invocation_print_act(invocation, json_pack("{s:s, s:s}", "id", completion->id, "status", state), error);
}

static enum weir_status rehearse(struct invocation *invocation, struct store *store, const struct completion *completion,
                                 struct weir_error *error)
{
    bool has_ended = false;
    enum weir_status status = store_complete_rehearse(store, completion, &has_ended, error);
    if (status == WEIR_OK) {
        output_say_sign(invocation->output, SIGN_FINE,
                        has_ended ? "%s has ended so already: nothing would change" : "would end %s", completion->id);
        status = print_end(invocation, completion, error);
    }
    return status;
}

static enum weir_status tell(struct invocation *invocation, struct store *store, const struct completion *completion,
                             struct weir_error *error)
{
    enum weir_status status = store_complete(store, completion, error);
    if (status == WEIR_OK) {
        output_say(invocation->output, "%s has ended", completion->id);
        status = print_end(invocation, completion, error);
    }
    return status;
}

/* A text that is no id of an execution may be the workflow id that a definition gave it. Where no service answers, the
 * store's own error stands: it is about what was typed. */
static enum weir_status find_execution(const struct invocation *invocation, struct store *store, const char **id,
                                       char *found, struct weir_error *error)
{
    json_t *execution = NULL;
    struct weir_error of_service = {.status = WEIR_OK};
    enum weir_status status = store_show(store, *id, &execution, NULL);
    json_decref(execution);
    if (status == WEIR_OK || weir_status_kind(status) != WEIR_KIND_PERMANENT) {
        return WEIR_OK; /* the verb itself finds out */
    }
    status = temporal_settings_find(invocation, *id, found, &of_service);
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
    char actor[ACTOR_MAX];
    char found[UUID_TEXT_MAX];
    bool is_dry_run = invocation_is_dry_run(invocation);
    struct completion completion = {.id = invocation_argument(invocation, 0), .actor = actor};
    invocation_actor(actor, sizeof actor);
    enum weir_status status = read_end(invocation, &completion, error);
    if (status == WEIR_OK) {
        status = read_result(invocation, &result, error);
        completion.result = !invocation_has(invocation, "result") ? NULL : result.length == 0 ? "" : result.data;
    }
    if (status == WEIR_OK) {
        status = invocation_open_store(invocation, is_dry_run ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = find_execution(invocation, store, &completion.id, found, error);
    }
    if (status == WEIR_OK) {
        status = is_dry_run ? rehearse(invocation, store, &completion, error) : tell(invocation, store, &completion, error);
    }
    text_close(&result);
    store_close(store);
    return status;
}
