/* What a verb asks its invocation. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/arguments/command.h"
#include "cli/arguments/parse.h"

static bool has_flag(const struct flag *flags, size_t most, const char *name)
{
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static const struct flag_value *find_value(const struct invocation *invocation, const char *name)
{
    for (size_t i = 0; i < invocation->value_count; i++) {
        if (strcmp(invocation->values[i].flag->name, name) == 0) {
            return &invocation->values[i];
        }
    }
    INVARIANT(has_flag(command_global_flags(), INVOCATION_FLAGS_MAX, name) ||
              has_flag(invocation->command->flags, COMMAND_FLAGS_MAX, name));
    return NULL;
}

bool invocation_has(const struct invocation *invocation, const char *name)
{
    return find_value(invocation, name) != NULL;
}

const char *invocation_text(const struct invocation *invocation, const char *name)
{
    const struct flag_value *value = find_value(invocation, name);
    return value != NULL ? value->text : NULL;
}

int64_t invocation_number(const struct invocation *invocation, const char *name, int64_t otherwise)
{
    const struct flag_value *value = find_value(invocation, name);
    return value != NULL ? value->number : otherwise;
}

int64_t invocation_time(const struct invocation *invocation, const char *name, int64_t now_us, int64_t otherwise)
{
    const struct flag_value *value = find_value(invocation, name);
    int64_t time_us = otherwise;
    if (value != NULL && time_parse(value->text, now_us, &time_us, NULL) != WEIR_OK) {
        return value->number;
    }
    return time_us;
}

const char *invocation_argument(const struct invocation *invocation, size_t n)
{
    return n < invocation->argument_count ? invocation->arguments[n] : NULL;
}

bool invocation_is_dry_run(const struct invocation *invocation)
{
    return invocation_has(invocation, "dry-run");
}

enum weir_status invocation_print_act(const struct invocation *invocation, json_t *facts, struct weir_error *error)
{
    json_t *answer = json_pack("{s:s}", "act", invocation->command->name);
    bool is_whole = facts != NULL && answer != NULL && json_object_update(answer, facts) == 0 &&
                    json_object_set_new(answer, "dry_run", json_boolean(invocation_is_dry_run(invocation))) == 0;
    if (is_whole) {
        (void)output_object(invocation->output, answer);
    }
    json_decref(answer);
    json_decref(facts);
    return is_whole ? WEIR_OK : error_out_of_memory(error);
}

void command_usage(const struct command *command, char *to, size_t size)
{
    int used = snprintf(to, size, "weir %s", command->name);
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
        const struct argument *argument = &command->arguments[i];
        if (used > 0 && (size_t)used < size) {
            used += snprintf(to + used, size - (size_t)used, " %s%s%s%s", argument->optional ? "[" : "", argument->name,
                             argument->many ? "..." : "", argument->optional ? "]" : "");
        }
    }
    if (used > 0 && (size_t)used < size) {
        (void)snprintf(to + used, size - (size_t)used, " [flags]");
    }
}

enum weir_status invocation_usage_error(const struct invocation *invocation, struct weir_error *error, const char *format,
                                        ...)
{
    char message[WEIR_ERROR_MESSAGE_MAX];
    char usage[128];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(error, WEIR_INVALID_ARGUMENT, "%s", message);
    command_usage(invocation->command, usage, sizeof usage);
    error_hint(error, "usage: %s", usage);
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status invocation_open_store(const struct invocation *invocation, enum store_use use, struct store **ret_store,
                                       struct weir_error *error)
{
    bool is_wait = strcmp(invocation->command->name, "wait") == 0 ||
                   (strcmp(invocation->command->name, "enqueue") == 0 && invocation_has(invocation, "wait"));
    if (!is_wait && invocation_number(invocation, "timeout", 1) == 0) {
        return invocation_usage_error(invocation, error, "--timeout 0 leaves no time for anything");
    }
    struct store_options options = {
        .url = settings_text(invocation->settings, SETTING_STORE),
        .create = use == STORE_CREATE,
        .read_only = use == STORE_READ,
        .deadline_us = is_wait ? 0 : invocation_number(invocation, "timeout", 0),
    };
    struct store *store = NULL;
    enum weir_status status = store_open(&options, &store, error);
    if (status == WEIR_OK && use != STORE_MEND && use != STORE_CREATE) {
        status = store_require_schema(store, error);
    }
    if (status != WEIR_OK) {
        if (status == WEIR_STORE_UNREACHABLE && error != NULL && error->hint[0] == '\0') {
            error_hint(error,
                       "`weir store init` makes one, `weir dev` makes one and runs a node; --store or WEIR_STORE names it");
        }
        store_close(store);
        return status;
    }
    *ret_store = store;
    return WEIR_OK;
}

void invocation_actor(char *to, size_t size)
{
    char host[64] = "";
    const char *user = getenv("USER");
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(to, size, "cli:%s@%s", user != NULL && user[0] != '\0' ? user : "-", host);
}
