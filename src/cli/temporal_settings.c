#include "cli/temporal_settings.h"

#define SERVICE_TIMEOUT_US (10 * MICROSECONDS_PER_SECOND)
#define HOLD_UP_TIMEOUT_US (3 * MICROSECONDS_PER_SECOND)

static const char *text_or_null(const struct settings *settings, enum setting_id id)
{
    const char *text = settings_text(settings, id);
    return text[0] == '\0' ? NULL : text;
}

void temporal_settings_read(const struct settings *settings, struct temporal_options *ret_options)
{
    int64_t waits_max = settings_number(settings, SETTING_TEMPORAL_WAITS_MAX);
    *ret_options = (struct temporal_options){
        .address = text_or_null(settings, SETTING_TEMPORAL_ADDRESS),
        .namespace_name = text_or_null(settings, SETTING_TEMPORAL_NAMESPACE),
        .task_queue = settings_text(settings, SETTING_TEMPORAL_TASK_QUEUE),
        .encoding = text_or_null(settings, SETTING_TEMPORAL_ENCODING),
        .tls = settings_number(settings, SETTING_TEMPORAL_TLS_ENABLED) != 0,
        .ca_file = text_or_null(settings, SETTING_TEMPORAL_TLS_CA_FILE),
        .certificate_file = text_or_null(settings, SETTING_TEMPORAL_TLS_CERTIFICATE_FILE),
        .key_file = text_or_null(settings, SETTING_TEMPORAL_TLS_KEY_FILE),
        .server_name = text_or_null(settings, SETTING_TEMPORAL_TLS_SERVER_NAME),
        .api_key_file = text_or_null(settings, SETTING_TEMPORAL_API_KEY_FILE),
        .max_running = (size_t)settings_number(settings, SETTING_EXECUTOR_MAX_RUNNING),
        .starts_max = (size_t)settings_number(settings, SETTING_TEMPORAL_STARTS_MAX),
        .polls_max = waits_max == 0 ? SIZE_MAX : (size_t)waits_max,
    };
}

int64_t temporal_settings_timeout(const struct invocation *invocation)
{
    return invocation_number(invocation, "timeout", SERVICE_TIMEOUT_US);
}

enum weir_status temporal_settings_terminate(const struct invocation *invocation, const struct settings *settings,
                                             const struct temporal_execution *execution, const char *reason,
                                             temporal_awaits *awaits, void *context, struct weir_error *error)
{
    struct temporal_options temporal;
    temporal_settings_read(settings, &temporal);
    struct engine_options options = {.temporal = &temporal};
    return assemble_terminate(settings_text(settings, SETTING_ENGINE), &options, temporal_settings_timeout(invocation),
                              execution, reason, awaits, context, error);
}

void temporal_settings_hold_up(const struct invocation *invocation, const char *group,
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
