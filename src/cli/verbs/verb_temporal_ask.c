/* `weir temporal describe`, `query`, `update`: questions to the workflow of an execution.
 *
 * The store gives the execution; the question then goes to the Temporal service directly, and no node takes part. An
 * update has an id of its own, so that a repeated send is one update. A dry run of an update only checks that the engine
 * takes updates. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/uuid.h"
#include "cli/arguments/input.h"
#include "cli/output/json_fields.h"
#include "cli/settings/temporal_settings.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/temporal_workflow.h"
#include "cli/verbs/verb.h"

/* Sends the question to the service of the execution's group. */
static enum weir_status send_question(const struct invocation *invocation, struct store *store, const json_t *execution,
                                      const struct temporal_question *question, json_t **ret_answer,
                                      struct weir_error *error)
{
    struct temporal_options temporal;
    struct temporal_workflow workflow;
    char request_id[UUID_TEXT_MAX];
    struct settings settings =
        settings_of_group(invocation->settings, json_string_value(json_object_get(execution, "executor_group")));
    struct engine_options options = {.temporal = &temporal};
    const char *engine = settings_text(&settings, SETTING_ENGINE);
    if (question->kind == QUESTION_UPDATE && invocation_is_dry_run(invocation)) {
        return assemble_require_operator(engine, "workflows", error);
    }
    enum weir_status status = temporal_workflow_of(store, execution, &workflow, error);
    if (status != WEIR_OK) {
        return status;
    }
    temporal_settings_read(&settings, &temporal);
    uuid_make_beside(clock_wall(clock_system()), request_id);
    struct temporal_question whole = *question;
    whole.execution = &workflow.execution;
    whole.request_id = request_id;
    return assemble_ask(engine, &options, temporal_service_timeout(invocation), &whole, ret_answer, error);
}

/* Reads the execution and sends the question about it. */
static enum weir_status ask_of_execution(struct invocation *invocation, enum question_kind kind, json_t **ret_answer,
                                         struct weir_error *error)
{
    struct store *store = NULL;
    json_t *execution = NULL;
    struct text params = {.max = PARAMS_BYTES_MAX};
    struct temporal_question question = {.kind = kind, .name = invocation_argument(invocation, 1)};
    bool is_act = kind == QUESTION_UPDATE && !invocation_is_dry_run(invocation);
    const char *given = kind == QUESTION_DESCRIBE ? NULL : invocation_text(invocation, "params");
    enum weir_status status =
        given == NULL
            ? WEIR_OK
            : input_read_json(given, kind == QUESTION_QUERY ? "the input of the query" : "the input of the update", &params,
                              error);
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, is_act ? STORE_CHANGE : STORE_READ, &store, error);
    }
    if (status == WEIR_OK) {
        status = store_show(store, invocation_argument(invocation, 0), &execution, error);
    }
    if (status == WEIR_OK) {
        status = is_act ? store_note_act(store, "temporal update", json_string_value(json_object_get(execution, "id")),
                                         question.name, error)
                        : WEIR_OK;
    }
    if (status == WEIR_OK) {
        question.input = params.data;
        status = send_question(invocation, store, execution, &question, ret_answer, error);
    }
    json_decref(execution);
    text_close(&params);
    store_close(store);
    return status;
}

/* --- a description --- */

static void print_activities(struct output *output, const json_t *activities)
{
    size_t i;
    json_t *activity;
    json_array_foreach(activities, i, activity)
    {
        const char *failure = field_text(output, activity, "last_failure");
        output_print(output, "  %-16s %s %s, attempt %s%s%s\n", i == 0 ? "activities" : "",
                     field_text(output, activity, "type"), field_text(output, activity, "state"),
                     field_text(output, activity, "attempt"), failure == NULL ? "" : ": ", failure == NULL ? "" : failure);
    }
}

enum weir_status verb_temporal_describe(struct invocation *invocation, struct weir_error *error)
{
    static const char *const lines[][2] = {
        {"workflow id", "workflow_id"},
        {"run id", "run_id"},
        {"first run id", "first_run_id"},
        {"type", "type"},
        {"status", "status"},
        {"task queue", "task_queue"},
        {"started", "started_at"},
        {"closed", "closed_at"},
        {"events", "history_length"},
        {"memo", "memo"},
        {"attributes", "search_attributes"},
    };
    json_t *description = NULL;
    struct output *output = invocation->output;
    enum weir_status status = ask_of_execution(invocation, QUESTION_DESCRIBE, &description, error);
    if (status == WEIR_OK && !output_object(output, description)) {
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
            const char *text = field_text(output, description, lines[i][1]);
            if (text != NULL) {
                output_print(output, "  %-16s %s\n", lines[i][0], text);
            }
        }
        print_activities(output, json_object_get(description, "pending_activities"));
    }
    json_decref(description);
    return status;
}

/* --- a value --- */

/* The value alone, or with --json {"id", KEY: name, "result": value}. NULL: a dry run. */
static enum weir_status print_value(const struct invocation *invocation, const char *key, json_t *value,
                                    struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 1);
    if (value == NULL) {
        output_report(output, "the %s %s would be sent", key, output_safe(output, name));
        return WEIR_OK;
    }
    json_t *answer = json_pack("{s:s, s:s, s:O}", "id", invocation_argument(invocation, 0), key, name, "result", value);
    if (answer == NULL) {
        return error_out_of_memory(error);
    }
    if (!output_object(output, answer)) {
        output_print(output, "%s\n",
                     field_text(output, answer, "result") == NULL ? "null" : field_text(output, answer, "result"));
    }
    json_decref(answer);
    return WEIR_OK;
}

static enum weir_status ask_for_value(struct invocation *invocation, enum question_kind kind, const char *key,
                                      struct weir_error *error)
{
    json_t *value = NULL;
    enum weir_status status = ask_of_execution(invocation, kind, &value, error);
    status = status == WEIR_OK ? print_value(invocation, key, value, error) : status;
    json_decref(value);
    return status;
}

enum weir_status verb_temporal_query(struct invocation *invocation, struct weir_error *error)
{
    return ask_for_value(invocation, QUESTION_QUERY, "query", error);
}

enum weir_status verb_temporal_update(struct invocation *invocation, struct weir_error *error)
{
    return ask_for_value(invocation, QUESTION_UPDATE, "update", error);
}
