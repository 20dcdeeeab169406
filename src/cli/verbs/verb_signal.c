/* weir signal: passes a signal on to the workflow of an execution. It goes to the service directly and is kept there: no
 * node takes part, and no queue. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/uuid.h"
#include "cli/arguments/command.h"
#include "cli/arguments/input.h"
#include "cli/output/json_fields.h"
#include "cli/settings/temporal_settings.h"
#include "cli/temporal_workflow.h"

/* --params: the text itself, @FILE, or - for stdin; checked to be JSON. NULL in `to` when there is none. */
static enum weir_status read_input(const struct invocation *invocation, struct text *to, struct weir_error *error)
{
    const char *params = invocation_text(invocation, "params");
    json_t *value = NULL;
    enum weir_status status = WEIR_OK;
    if (params == NULL) {
        return WEIR_OK;
    }
    status = params[0] == '@' || strcmp(params, "-") == 0 ? input_read(params[0] == '@' ? params + 1 : params, to, error)
                                                          : text_add_string(to, params);
    if (status == WEIR_OK && json_read(to->data == NULL ? "" : to->data, to->length, &value, error) != WEIR_OK) {
        error_prefix(error, "the signal's params are no JSON");
        status = error->status = WEIR_INVALID_PARAMS;
    }
    json_decref(value);
    return status;
}

static enum weir_status refuse_ended(const json_t *execution, struct weir_error *error)
{
    const char *state = json_string_value(json_object_get(execution, "status"));
    if (state != NULL && json_string_value(json_object_get(execution, "finished_at")) != NULL) {
        return error_set(error, WEIR_ILLEGAL_STATE, "the execution has ended: %s", state);
    }
    return WEIR_OK;
}

/* For --dry-run: that its engine has signals at all. */
static enum weir_status require_signals(const struct invocation *invocation, const json_t *execution,
                                        struct weir_error *error)
{
    struct settings settings =
        settings_of_group(invocation->settings, json_string_value(json_object_get(execution, "executor_group")));
    return assemble_require_operator(settings_text(&settings, SETTING_ENGINE), "signals", error);
}

static enum weir_status send_signal(const struct invocation *invocation, struct store *store, const json_t *execution,
                                    const char *input, struct weir_error *error)
{
    struct temporal_options temporal;
    char request_id[UUID_TEXT_MAX];
    struct temporal_workflow workflow;
    const char *group = json_string_value(json_object_get(execution, "executor_group"));
    struct settings settings = settings_of_group(invocation->settings, group);
    enum weir_status status = temporal_workflow_of(store, execution, &workflow, error);
    if (status != WEIR_OK) {
        return status;
    }
    temporal_settings_read(&settings, &temporal);
    uuid_make(clock_wall(clock_system()), request_id);
    struct engine_options options = {.temporal = &temporal};
    return assemble_signal(settings_text(&settings, SETTING_ENGINE), &options, temporal_settings_timeout(invocation),
                           &workflow.execution, invocation_argument(invocation, 1), input, request_id, error);
}

enum weir_status verb_signal(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *execution = NULL;
    struct text input = {.max = PARAMS_BYTES_MAX};
    enum weir_status status = read_input(invocation, &input, error);
    if (status == WEIR_OK) {
        status = invocation_open_store(invocation, STORE_READ, &store, error);
    }
    if (status == WEIR_OK) {
        status = store_show(store, invocation_argument(invocation, 0), &execution, error);
    }
    if (status == WEIR_OK) {
        status = refuse_ended(execution, error);
    }
    const char *id = status == WEIR_OK ? json_string_value(json_object_get(execution, "id")) : NULL;
    if (id != NULL) {
        status = invocation_is_dry_run(invocation) ? require_signals(invocation, execution, error)
                                                   : send_signal(invocation, store, execution, input.data, error);
    }
    if (status == WEIR_OK) {
        output_say(invocation->output, "signal %s %s %s", invocation_argument(invocation, 1),
                   invocation_is_dry_run(invocation) ? "would be passed on to" : "passed on to", id);
        status = invocation_print_act(
            invocation, json_pack("{s:s, s:s}", "id", id, "signal", invocation_argument(invocation, 1)), error);
    }
    json_decref(execution);
    text_close(&input);
    store_close(store);
    return status;
}
