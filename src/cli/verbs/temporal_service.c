/* The direct calls of verbs to the Temporal service of an execution.
 *
 * Each call takes the settings of the execution's group, turns them into the options of the engine, and calls assemble.h.
 * No node and no queue takes part, and the store is not written. Runs in the only thread of a command.
 */
#include "cli/verbs/temporal_service.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/output/output.h"
#include "cli/settings/temporal_settings.h"

#define SERVICE_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)
#define HOLD_UP_TIMEOUT_US (3 * MICROSECONDS_PER_SECOND)

/* Replaces the output by its value. Nothing for an output that is not encoded. */
static enum weir_status decode_step(const struct settings *settings, json_t *step, struct weir_error *error)
{
    struct temporal_options temporal;
    struct engine_options options = {.temporal = &temporal};
    json_t *encoded = json_object_get(json_object_get(step, "output"), TEMPORAL_ENCODED_KEY);
    json_t *value = NULL;
    if (!json_is_array(json_object_get(encoded, "payloads"))) {
        return WEIR_OK;
    }
    temporal_settings_read(settings, &temporal);
    if (temporal.codec_url == NULL) {
        return WEIR_OK;
    }
    enum weir_status status =
        assemble_decode(settings_text(settings, SETTING_ENGINE), &options, HOLD_UP_TIMEOUT_US, encoded, &value, error);
    return status == WEIR_OK && json_object_set_new(step, "output", value) != 0 ? error_out_of_memory(error) : status;
}

static enum weir_status decode_steps(const struct settings *settings, json_t *steps, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        status = status == WEIR_OK ? decode_step(settings, step, error) : status;
    }
    return status;
}

void temporal_service_decode_or_warn(const struct invocation *invocation, json_t *execution)
{
    struct weir_error error;
    struct settings settings =
        settings_of_group(invocation->settings, json_string_value(json_object_get(execution, "executor_group")));
    error_clear(&error);
    if (decode_steps(&settings, json_object_get(execution, "steps"), &error) != WEIR_OK) {
        output_report_sign(invocation->output, SIGN_WARN, "an output is still encoded: %s", error.message);
    }
}

int64_t temporal_service_timeout(const struct invocation *invocation)
{
    return invocation_number(invocation, "timeout", SERVICE_TIMEOUT_US);
}

enum weir_status temporal_service_terminate(const struct invocation *invocation, const struct settings *settings,
                                            const struct temporal_execution *execution, const char *reason,
                                            temporal_awaits *awaits, void *context, struct weir_error *error)
{
    struct temporal_options temporal;
    temporal_settings_read(settings, &temporal);
    struct engine_options options = {.temporal = &temporal};
    return assemble_terminate(settings_text(settings, SETTING_ENGINE), &options, temporal_service_timeout(invocation),
                              execution, reason, awaits, context, error);
}

void temporal_service_hold_up(const struct invocation *invocation, const char *group,
                              const struct temporal_execution *execution, struct temporal_hold_up *ret_hold_up)
{
    struct temporal_options temporal;
    struct weir_error error;
    struct settings settings = settings_of_group(invocation->settings, group);
    struct engine_options options = {.temporal = &temporal};
    temporal_settings_read(&settings, &temporal);
    if (assemble_hold_up(settings_text(&settings, SETTING_ENGINE), &options, HOLD_UP_TIMEOUT_US, execution, ret_hold_up,
                         &error) != WEIR_OK) {
        *ret_hold_up = (struct temporal_hold_up){.by = HELD_UP_BY_NOTHING};
    }
}

/* Asks the service of one node. */
static enum weir_status find_with(const struct invocation *invocation, const struct settings *settings,
                                  const char *workflow_id, char *to, struct weir_error *error)
{
    struct temporal_options temporal;
    struct engine_options options = {.temporal = &temporal};
    temporal_settings_read(settings, &temporal);
    return assemble_find_execution(settings_text(settings, SETTING_ENGINE), &options, temporal_service_timeout(invocation),
                                   workflow_id, to, error);
}

enum weir_status temporal_service_find(const struct invocation *invocation, const char *workflow_id, char *to,
                                       struct weir_error *error)
{
    const struct settings *settings = invocation->settings;
    if (settings->node_count == 0) {
        return find_with(invocation, settings, workflow_id, to, error);
    }
    enum weir_status status = WEIR_INVALID_ARGUMENT;
    for (size_t i = 0; i < settings->node_count && status != WEIR_OK; i++) {
        struct settings own = settings_of_node(settings, i);
        if (strcmp(settings_text(&own, SETTING_ENGINE), "temporal") == 0) {
            status = find_with(invocation, &own, workflow_id, to, error);
        }
    }
    return status;
}
