/* The settings `temporal.*` in the form that the engine takes.
 *
 * The texts stay those of the settings, so the options live as long as they do. An empty setting becomes NULL, which lets
 * the engine choose its default. No value is checked here: settings.c has checked each one. Pure.
 */
#include "cli/settings/temporal_settings.h"

void temporal_settings_read(const struct settings *settings, struct temporal_options *ret_options)
{
    int64_t waits_max = settings_number(settings, SETTING_TEMPORAL_WAITS_MAX);
    *ret_options = (struct temporal_options){
        .address = settings_text_or_null(settings, SETTING_TEMPORAL_ADDRESS),
        .namespace_name = settings_text_or_null(settings, SETTING_TEMPORAL_NAMESPACE),
        .task_queue = settings_text(settings, SETTING_TEMPORAL_TASK_QUEUE),
        .encoding = settings_text_or_null(settings, SETTING_TEMPORAL_ENCODING),
        .tls = settings_number(settings, SETTING_TEMPORAL_TLS_ENABLED) != 0,
        .ca_file = settings_text_or_null(settings, SETTING_TEMPORAL_TLS_CA_FILE),
        .certificate_file = settings_text_or_null(settings, SETTING_TEMPORAL_TLS_CERTIFICATE_FILE),
        .key_file = settings_text_or_null(settings, SETTING_TEMPORAL_TLS_KEY_FILE),
        .server_name = settings_text_or_null(settings, SETTING_TEMPORAL_TLS_SERVER_NAME),
        .api_key_file = settings_text_or_null(settings, SETTING_TEMPORAL_API_KEY_FILE),
        .codec_url = settings_text_or_null(settings, SETTING_TEMPORAL_CODEC_URL),
        .codec_token_file = settings_text_or_null(settings, SETTING_TEMPORAL_CODEC_TOKEN_FILE),
        .codec_ca_file = settings_text_or_null(settings, SETTING_TEMPORAL_CODEC_CA_FILE),
        .max_running = (size_t)settings_number(settings, SETTING_EXECUTOR_MAX_RUNNING),
        .starts_max = (size_t)settings_number(settings, SETTING_TEMPORAL_STARTS_MAX),
        .polls_max = waits_max == 0 ? SIZE_MAX : (size_t)waits_max,
    };
}
