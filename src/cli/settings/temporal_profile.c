/* The address and keys of Temporal's own tools: TEMPORAL_* variables and the profile file.
 *
 * They count only when an engine is temporal and weir's own settings name no address. The TLS settings of one service
 * must not be combined with the address of another. Variables are read first and win over the file. Of TOML only
 * sections and keys with a string or a boolean are read.
 *
 * A key that weir does not support, as certificate data in the variable itself, is refused: without it the connection
 * would be made otherwise than the user intends. One thread.
 */
#include "cli/settings/temporal_profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { PATH_BYTES_MAX = 4096, LINE_BYTES_MAX = 4096, LINES_MAX = 10000, ORIGIN_BYTES_MAX = PATH_BYTES_MAX + 32 };

static const char api_key_variable[] = "env:TEMPORAL_API_KEY"; /* api_key_file reads it there: no setting holds a key */

struct name {
    const char *name;
    enum setting_id id;
};
static const struct name variables[] = {
    {"TEMPORAL_ADDRESS", SETTING_TEMPORAL_ADDRESS},
    {"TEMPORAL_NAMESPACE", SETTING_TEMPORAL_NAMESPACE},
    {"TEMPORAL_API_KEY", SETTING_TEMPORAL_API_KEY_FILE},
    {"TEMPORAL_TLS", SETTING_TEMPORAL_TLS_ENABLED},
    {"TEMPORAL_TLS_SERVER_CA_CERT_PATH", SETTING_TEMPORAL_TLS_CA_FILE},
    {"TEMPORAL_TLS_CLIENT_CERT_PATH", SETTING_TEMPORAL_TLS_CERTIFICATE_FILE},
    {"TEMPORAL_TLS_CLIENT_KEY_PATH", SETTING_TEMPORAL_TLS_KEY_FILE},
    {"TEMPORAL_TLS_SERVER_NAME", SETTING_TEMPORAL_TLS_SERVER_NAME},
};
static const struct name keys[] = {
    {"address", SETTING_TEMPORAL_ADDRESS},
    {"namespace", SETTING_TEMPORAL_NAMESPACE},
    {"tls.server_ca_cert_path", SETTING_TEMPORAL_TLS_CA_FILE},
    {"tls.client_cert_path", SETTING_TEMPORAL_TLS_CERTIFICATE_FILE},
    {"tls.client_key_path", SETTING_TEMPORAL_TLS_KEY_FILE},
    {"tls.server_name", SETTING_TEMPORAL_TLS_SERVER_NAME},
};
/* weir refuses settings that it does not support: without them it would connect otherwise than the user means. */
static const char *const refused[] = {"tls.client_cert_data", "tls.client_key_data", "tls.server_ca_cert_data",
                                      "tls.disable_host_verification"};
static const char *const refused_variables[] = {"TEMPORAL_TLS_CLIENT_CERT_DATA", "TEMPORAL_TLS_CLIENT_KEY_DATA",
                                                "TEMPORAL_TLS_SERVER_CA_CERT_DATA",
                                                "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"};

/* Whether no source of weir has set the value. */
static bool is_setting_default(const struct settings *settings, enum setting_id id)
{
    return strcmp(settings->values[id].origin, "default") == 0;
}

/* Texts of settings live as long as they do. */
static enum weir_status take_setting(struct settings *settings, enum setting_id id, const char *text, const char *origin,
                                     struct weir_error *error)
{
    const char *kept = arena_copy_string(settings->arena, text);
    const char *kept_origin = arena_copy_string(settings->arena, origin);
    if (kept == NULL || kept_origin == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = settings_set(settings, id, kept, kept_origin, error);
    if (status == WEIR_INVALID_CONFIG) {
        error_prefix(error, "%s", origin);
    }
    return status;
}

/* An unsupported key is an error, because the connection would differ from the intended one. */
static enum weir_status refuse_unsupported(const char *origin, const char *name, struct weir_error *error)
{
    (void)error_set(error, WEIR_INVALID_CONFIG, "%s: weir does not support %s there", origin, name);
    error_hint(error, "name the service in weir.yaml: temporal.address, and the files of its keys under temporal.tls");
    return WEIR_INVALID_CONFIG;
}

/* --- variables --- */

static enum weir_status take_variables(struct settings *settings, bool *taken, struct weir_error *error)
{
    for (size_t i = 0; i < sizeof refused_variables / sizeof refused_variables[0]; i++) {
        const char *text = getenv(refused_variables[i]);
        if (text != NULL && text[0] != '\0' && strcmp(text, "false") != 0) {
            return refuse_unsupported("the environment", refused_variables[i], error);
        }
    }
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        enum setting_id id = variables[i].id;
        const char *text = getenv(variables[i].name);
        if (text == NULL || text[0] == '\0' || !is_setting_default(settings, id)) {
            continue;
        }
        text = id == SETTING_TEMPORAL_API_KEY_FILE ? api_key_variable : text;
        enum weir_status status = take_setting(settings, id, text, variables[i].name, error);
        if (status != WEIR_OK) {
            return status;
        }
        taken[id] = true;
    }
    return WEIR_OK;
}

/* --- the file --- */

struct profile {
    struct settings *settings;
    const char *path;
    const char *name;
    const bool *taken;
    bool is_open; /* the lines are of the profile */
    bool is_tls;  /* ... of its TLS */
    bool has_tls; /* it has settings of TLS */
    bool no_tls;
    bool was_found;
};

/* Returns the value in place, without its quotes. Only a comment may follow. NULL: it is neither a string nor a boolean. */
static char *read_profile_value(char *text)
{
    char quote = text[0];
    if (quote != '"' && quote != '\'') {
        text[strcspn(text, "#")] = '\0';
        text = text_trim(text);
        return text[0] == '\0' || strpbrk(text, "[{\"'") != NULL ? NULL : text;
    }
    char *to = text;
    char *at = text + 1;
    for (; *at != quote && *at != '\0'; at++) {
        if (quote == '"' && *at == '\\') {
            at++;
            if (*at != '"' && *at != '\\') {
                return NULL; /* no address, name or path needs another escape */
            }
        }
        *to++ = *at;
    }
    if (*at == '\0') {
        return NULL;
    }
    const char *rest = text_trim(at + 1);
    bool is_whole = rest[0] == '\0' || rest[0] == '#';
    *to = '\0';
    return is_whole ? text : NULL;
}

/* [profile.NAME] or [profile.NAME.tls]; the name may be quoted. */
static void enter_section(struct profile *profile, char *line)
{
    char name[LINE_BYTES_MAX];
    size_t length = strcspn(line, "]");
    line[length] = '\0';
    (void)snprintf(name, sizeof name, "profile.%s", profile->name);
    char *section = text_trim(line + 1);
    char unquoted[LINE_BYTES_MAX];
    size_t count = 0;
    for (const char *at = section; *at != '\0' && count + 1 < sizeof unquoted; at++) {
        if (*at != '"' && *at != '\'') {
            unquoted[count++] = *at;
        }
    }
    unquoted[count] = '\0';
    size_t name_length = strlen(name);
    bool is_own = strncmp(unquoted, name, name_length) == 0;
    profile->is_tls = is_own && strcmp(unquoted + name_length, ".tls") == 0;
    profile->is_open = profile->is_tls || (is_own && unquoted[name_length] == '\0');
    profile->has_tls = profile->has_tls || profile->is_tls;
    profile->was_found = profile->was_found || profile->is_open;
}

/* Takes one key of the profile, unless a stronger source has set it. */
static enum weir_status take_profile_key(struct profile *profile, const char *key, char *raw, const char *origin,
                                         struct weir_error *error)
{
    char name[LINE_BYTES_MAX];
    (void)snprintf(name, sizeof name, "%s%s", profile->is_tls ? "tls." : "", key);
    const char *value = read_profile_value(raw);
    if (strcmp(name, "api_key") == 0 && is_setting_default(profile->settings, SETTING_TEMPORAL_API_KEY_FILE)) {
        return refuse_unsupported(origin, "api_key (but from TEMPORAL_API_KEY)", error);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strcmp(name, refused[i]) == 0 && (value == NULL || strcmp(value, "false") != 0)) {
            return refuse_unsupported(origin, name, error);
        }
    }
    profile->no_tls = profile->no_tls || (strcmp(name, "tls.disabled") == 0 && value != NULL && strcmp(value, "true") == 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(name, keys[i].name) != 0) {
            continue;
        }
        if (value == NULL) {
            return error_set(error, WEIR_INVALID_CONFIG, "%s: %s is not a string on one line", origin, key);
        }
        return profile->taken[keys[i].id] || !is_setting_default(profile->settings, keys[i].id)
                   ? WEIR_OK
                   : take_setting(profile->settings, keys[i].id, value, origin, error);
    }
    return WEIR_OK;
}

/* Reads a section or a key; other lines are ignored. */
static enum weir_status take_profile_line(struct profile *profile, char *text, int number, struct weir_error *error)
{
    char origin[ORIGIN_BYTES_MAX];
    char *line = text_trim(text);
    (void)snprintf(origin, sizeof origin, "%s:%d", profile->path, number);
    if (line[0] == '[') {
        enter_section(profile, line);
        return WEIR_OK;
    }
    char *equals = strchr(line, '=');
    if (!profile->is_open || line[0] == '#' || equals == NULL) {
        return WEIR_OK;
    }
    *equals = '\0';
    return take_profile_key(profile, text_trim(line), text_trim(equals + 1), origin, error);
}

/* Reads the file line by line. A TLS section without `disabled` turns TLS on. */
static enum weir_status read_profile_lines(struct profile *profile, FILE *file, struct weir_error *error)
{
    char line[LINE_BYTES_MAX];
    enum weir_status status = WEIR_OK;
    int number = 0;
    while (status == WEIR_OK && fgets(line, sizeof line, file) != NULL) {
        if (++number > LINES_MAX || strlen(line) + 1 == sizeof line) {
            return error_set(error, WEIR_INVALID_CONFIG, "%s:%d: the line or the file is too long for a profile",
                             profile->path, number);
        }
        status = take_profile_line(profile, line, number, error);
    }
    bool is_on = profile->has_tls && !profile->no_tls && !profile->taken[SETTING_TEMPORAL_TLS_ENABLED];
    if (status == WEIR_OK && is_on && is_setting_default(profile->settings, SETTING_TEMPORAL_TLS_ENABLED)) {
        status = take_setting(profile->settings, SETTING_TEMPORAL_TLS_ENABLED, "true", profile->path, error);
    }
    return status;
}

/* False when there is no such place. */
static bool find_profile_path(char *path, size_t size, bool *ret_is_named)
{
    const char *named = getenv("TEMPORAL_CONFIG_FILE");
    const char *config_home = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    *ret_is_named = named != NULL && named[0] != '\0';
    int length = *ret_is_named ? snprintf(path, size, "%s", named)
                 : config_home != NULL && config_home[0] == '/'
                     ? snprintf(path, size, "%s/temporalio/temporal.toml", config_home)
                 : home != NULL && home[0] == '/' ? snprintf(path, size, "%s/.config/temporalio/temporal.toml", home)
                                                  : 0;
    return length > 0 && (size_t)length < size;
}

/* Reads the profile file. Only a file or a profile that the user names must exist. */
static enum weir_status take_profile_file(struct settings *settings, const bool *taken, struct weir_error *error)
{
    char path[PATH_BYTES_MAX];
    bool is_named = false;
    const char *name = getenv("TEMPORAL_PROFILE");
    bool asks_for_one = name != NULL && name[0] != '\0';
    if (!find_profile_path(path, sizeof path, &is_named)) {
        return WEIR_OK;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return is_named || asks_for_one ? error_set_native(error, WEIR_INVALID_CONFIG, errno, "%s cannot be read", path)
                                        : WEIR_OK;
    }
    struct profile profile = {.settings = settings, .path = path, .name = asks_for_one ? name : "default", .taken = taken};
    enum weir_status status = read_profile_lines(&profile, file, error);
    (void)fclose(file);
    if (status == WEIR_OK && asks_for_one && !profile.was_found) {
        return error_set(error, WEIR_INVALID_CONFIG, "%s has no profile \"%.100s\" (TEMPORAL_PROFILE)", path, name);
    }
    return status;
}

enum weir_status temporal_profile_apply(struct settings *settings, struct weir_error *error)
{
    bool taken[SETTING_COUNT] = {false};
    bool is_named = !is_setting_default(settings, SETTING_TEMPORAL_ADDRESS);
    bool is_used = strcmp(settings_text(settings, SETTING_ENGINE), "temporal") == 0;
    for (size_t i = 0; i < settings->node_count; i++) {
        const struct setting_value *engine = &settings->nodes[i].values[SETTING_ENGINE];
        is_named = is_named || settings->nodes[i].values[SETTING_TEMPORAL_ADDRESS].text != NULL;
        is_used = is_used || (engine->text != NULL && strcmp(engine->text, "temporal") == 0);
    }
    if (is_named || !is_used) {
        return WEIR_OK;
    }
    enum weir_status status = take_variables(settings, taken, error);
    return status == WEIR_OK ? take_profile_file(settings, taken, error) : status;
}
