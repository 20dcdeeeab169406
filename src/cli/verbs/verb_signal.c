/* `weir signal`: sends a signal to an execution.
 *
 * The store keeps the signals of executions that nodes run (store/signals.h). It refuses those of workflows on Temporal:
 * such a signal goes to the service directly, and no node and no queue takes part. Its request has the key as its id, or
 * one that is made here, so that the service recognises a repeated send. One thread.
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

/* An execution that has ended takes no signal. */
static enum weir_status refuse_ended_signal(const json_t *execution, struct weir_error *error)
{
    const char *state = json_string_value(json_object_get(execution, "status"));
    if (state != NULL && json_string_value(json_object_get(execution, "finished_at")) != NULL) {
        return error_set(error, WEIR_ILLEGAL_STATE, "the execution has ended (%s): it takes no signal", state);
    }
    return WEIR_OK;
}

static struct settings settings_of_execution(const struct invocation *invocation, const json_t *execution)
{
    return settings_of_group(invocation->settings, json_string_value(json_object_get(execution, "executor_group")));
}

/* For --dry-run. Whether a step waits for the name is not known before the store is asked; a service may take any name, so
 * nothing more can be checked here. */
static enum weir_status check_signal(const json_t *execution, const struct signal_request *request,
                                     struct weir_error *error)
{
    enum weir_status status = refuse_ended_signal(execution, error);
    return status == WEIR_OK ? signal_request_check(request, error) : status;
}

/* To the service of a workflow on Temporal. */
static enum weir_status signal_service(const struct invocation *invocation, struct store *store, const json_t *execution,
                                       const struct signal_request *request, struct weir_error *error)
{
    struct temporal_options temporal;
    char made_id[UUID_TEXT_MAX];
    struct temporal_workflow workflow;
    struct settings settings = settings_of_execution(invocation, execution);
    enum weir_status status = refuse_ended_signal(execution, error);
    if (status == WEIR_OK) { /* before it goes on record */
        status = assemble_require_operator(settings_text(&settings, SETTING_ENGINE), "signals", error);
    }
    if (status == WEIR_OK) {
        status = temporal_workflow_of(store, execution, &workflow, error);
    }
    if (status == WEIR_OK) {
        status = store_note_act(store, "signal", json_string_value(json_object_get(execution, "id")), request->name, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    temporal_settings_read(&settings, &temporal);
    uuid_make_beside(clock_wall(clock_system()), made_id);
    struct engine_options options = {.temporal = &temporal};
    return assemble_signal(settings_text(&settings, SETTING_ENGINE), &options, temporal_service_timeout(invocation),
                           &workflow.execution, request->name, request->data, request->key == NULL ? made_id : request->key,
                           error);
}

/* The store knows which executions are on Temporal. */
enum weir_status signal_execution(const struct invocation *invocation, struct store *store, const json_t *execution,
                                  const struct signal_request *request, struct sent_signal *ret_sent,
                                  struct weir_error *error)
{
    struct signal_request whole = *request;
    struct sent_signal sent = {.seq = 0};
    whole.id = json_string_value(json_object_get(execution, "id"));
    enum weir_status status = store_signal(store, &whole, &sent, error);
    if (status == WEIR_CONFLICT) {
        text_copy(sent.id, sizeof sent.id, whole.id);
        status = signal_service(invocation, store, execution, &whole, error);
    }
    if (status == WEIR_OK) {
        *ret_sent = sent;
    }
    return status;
}

/* Prints what was done. `seq` is left out of a signal that a service has. */
static enum weir_status print_signal(struct invocation *invocation, const char *name, const struct sent_signal *sent,
                                     struct weir_error *error)
{
    const char *how = invocation_is_dry_run(invocation) ? "would be sent to"
                      : sent->duplicate                 ? "was sent before to"
                                                        : "was sent to";
    json_t *item = json_pack("{s:s, s:s}", "id", sent->id, "signal", name);
    if (sent->seq > 0) {
        (void)json_object_set_new(item, "seq", json_integer(sent->seq));
        (void)json_object_set_new(item, "duplicate", json_boolean(sent->duplicate));
    }
    output_report(invocation->output, "signal %s %s %s", name, how, sent->id);
    return verb_print_act(invocation, item, error);
}

enum weir_status verb_signal(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *execution = NULL;
    struct text data = {.max = PARAMS_BYTES_MAX};
    struct sent_signal sent = {.seq = 0};
    bool to_many = invocation_has(invocation, "where") || invocation_has(invocation, "workspace");
    struct signal_request request = {.name = invocation_argument(invocation, to_many ? 0 : 1),
                                     .key = invocation_text(invocation, "key")};
    if (invocation->argument_count != (to_many ? 1U : 2U)) {
        return invocation_usage_error(invocation, error,
                                      to_many ? "`weir signal --where` takes the NAME alone"
                                              : "`weir signal` needs an ID and a NAME, or --where and a NAME");
    }
    const char *given = invocation_text(invocation, "data");
    enum weir_status status = given == NULL ? WEIR_OK : input_read_json(given, "the data of the signal", &data, error);
    request.data = data.data;
    if (status == WEIR_OK && to_many) {
        status = bulk_signal(invocation, &request, error);
        text_close(&data);
        return status;
    }
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, invocation_is_dry_run(invocation) ? STORE_READ : STORE_CHANGE, &store, error);
    }
    if (status == WEIR_OK) {
        status = store_show(store, invocation_argument(invocation, 0), &execution, error);
    }
    if (status == WEIR_OK && invocation_is_dry_run(invocation)) {
        text_copy(sent.id, sizeof sent.id, json_string_value(json_object_get(execution, "id")));
        status = check_signal(execution, &request, error);
    } else if (status == WEIR_OK) {
        status = signal_execution(invocation, store, execution, &request, &sent, error);
    }
    if (status == WEIR_OK) {
        status = print_signal(invocation, request.name, &sent, error);
    }
    json_decref(execution);
    text_close(&data);
    store_close(store);
    return status;
}
