/* `weir signal`: passes a signal to the workflow of an execution.
 *
 * The signal goes to the Temporal service directly, which stores it for the workflow: no node and no queue takes part.
 * The id of the request is made here, so that the service recognises a repeated send. An execution that has ended is
 * refused. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/uuid.h"
#include "cli/arguments/input.h"
#include "cli/settings/temporal_settings.h"
#include "cli/verbs/signal_execution.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/temporal_workflow.h"
#include "cli/verbs/verb.h"

/* A workflow that has ended takes no signal. */
static enum weir_status refuse_ended_signal(const json_t *execution, struct weir_error *error)
{
    const char *state = json_string_value(json_object_get(execution, "status"));
    if (state != NULL && json_string_value(json_object_get(execution, "finished_at")) != NULL) {
        return error_set(error, WEIR_ILLEGAL_STATE, "the execution has ended (%s): it takes no signal", state);
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

enum weir_status signal_execution(const struct invocation *invocation, struct store *store, const json_t *execution,
                                  const char *name, const char *input, struct weir_error *error)
{
    struct temporal_options temporal;
    char request_id[UUID_TEXT_MAX];
    struct temporal_workflow workflow;
    const char *group = json_string_value(json_object_get(execution, "executor_group"));
    struct settings settings = settings_of_group(invocation->settings, group);
    enum weir_status status = refuse_ended_signal(execution, error);
    if (status == WEIR_OK) { /* before it goes on record */
        status = assemble_require_operator(settings_text(&settings, SETTING_ENGINE), "signals", error);
    }
    if (status == WEIR_OK) {
        status = temporal_workflow_of(store, execution, &workflow, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = store_note_act(store, "signal", json_string_value(json_object_get(execution, "id")), name, error);
    if (status != WEIR_OK) {
        return status;
    }
    temporal_settings_read(&settings, &temporal);
    uuid_make(clock_wall(clock_system()), request_id);
    struct engine_options options = {.temporal = &temporal};
    return assemble_signal(settings_text(&settings, SETTING_ENGINE), &options, temporal_service_timeout(invocation),
                           &workflow.execution, name, input, request_id, error);
}

enum weir_status verb_signal(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *execution = NULL;
    struct text input = {.max = PARAMS_BYTES_MAX};
    const char *params = invocation_text(invocation, "params");
    enum weir_status status = params == NULL ? WEIR_OK : input_read_json(params, "the input of the signal", &input, error);
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, invocation_is_dry_run(invocation) ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = store_show(store, invocation_argument(invocation, 0), &execution, error);
    }
    if (status == WEIR_OK) {
        status = refuse_ended_signal(execution, error);
    }
    const char *id = status == WEIR_OK ? json_string_value(json_object_get(execution, "id")) : NULL;
    if (id != NULL) {
        status =
            invocation_is_dry_run(invocation)
                ? require_signals(invocation, execution, error)
                : signal_execution(invocation, store, execution, invocation_argument(invocation, 1), input.data, error);
    }
    if (status == WEIR_OK) {
        output_report(invocation->output, "signal %s %s %s", invocation_argument(invocation, 1),
                      invocation_is_dry_run(invocation) ? "would be sent to" : "was sent to", id);
        status = verb_print_act(invocation, json_pack("{s:s, s:s}", "id", id, "signal", invocation_argument(invocation, 1)),
                                error);
    }
    json_decref(execution);
    text_close(&input);
    store_close(store);
    return status;
}
