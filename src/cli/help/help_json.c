/* The table of commands as JSON, for programs: `weir help --json`.
 *
 * Each function makes one value and returns NULL when memory is refused; json_pack() releases the parts in that case. The
 * object lists commands, flags, exit codes and settings. Keys are part of the interface: they may be added, never
 * renamed. Pure.
 */
#include "cli/help/help_json.h"

#include <string.h>

#include "base/error.h"
#include "cli/arguments/command_table.h"
#include "cli/arguments/invocation.h"
#include "cli/help/help.h"
#include "cli/settings/settings.h"

/* The name of a type of values in the JSON. */
static const char *type_name(enum value_type type)
{
    static const char *const names[] = {
        [VALUE_NONE] = "switch",       [VALUE_TEXT] = "text", [VALUE_INTEGER] = "integer",
        [VALUE_DURATION] = "duration", [VALUE_TIME] = "time", [VALUE_CHOICE] = "choice",
    };
    return names[type];
}

/* One flag, with the members that its type has. */
static json_t *flag_json(const struct flag *flag)
{
    char letter[2] = {flag->letter, '\0'};
    json_t *json = json_pack("{s:s, s:s, s:s}", "name", flag->name, "type", type_name(flag->type), "help", flag->help);
    if (json == NULL) {
        return NULL;
    }
    int failed = flag->letter != 0 ? json_object_set_new(json, "letter", json_string(letter)) : 0;
    if (flag->type != VALUE_NONE) {
        failed |= json_object_set_new(json, "value", json_string(flag->value));
    }
    if (flag->type == VALUE_CHOICE) {
        failed |= json_object_set_new(json, "choices", json_string(flag->choices));
    }
    if (flag->type == VALUE_INTEGER) {
        failed |= json_object_set_new(json, "least", json_integer(flag->least));
        failed |= json_object_set_new(json, "most", json_integer(flag->most));
    }
    if (flag->many) {
        failed |= json_object_set_new(json, "many", json_true());
    }
    if (flag->has_setting) {
        failed |= json_object_set_new(json, "setting", json_string(settings_table()[flag->setting].key));
    }
    if (failed != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* The flags of a command, or the global ones. */
static json_t *flags_json(const struct flag *flags, size_t most)
{
    json_t *list = json_array();
    for (size_t i = 0; i < most && flags[i].name != NULL; i++) {
        if (json_array_append_new(list, flag_json(&flags[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The arguments of a command. */
static json_t *arguments_json(const struct command *command)
{
    json_t *list = json_array();
    for (size_t i = 0; i < COMMAND_ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
        const struct argument *argument = &command->arguments[i];
        json_t *json = json_pack("{s:s, s:s, s:b, s:b}", "name", argument->name, "help", argument->help, "optional",
                                 argument->optional, "many", argument->many);
        if (json_array_append_new(list, json) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* One row of the table. */
static json_t *command_json(const struct command *command)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s*, s:b, s:o, s:o}", "name", command->name, "section", command->section,
                     "summary", command->summary, "example", command->example, "details", command->details, "changes",
                     (command->marks & COMMAND_CHANGES) != 0, "arguments", arguments_json(command), "flags",
                     flags_json(command->flags, COMMAND_FLAGS_MAX));
}

/* All settings, in the order of their table. */
static json_t *settings_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &settings_table()[i];
        json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s*}", "key", setting->key, "default", setting->default_text,
                                 "environment", setting->environment, "help", setting->help, "choices", setting->choices);
        if (json_array_append_new(list, json) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The exit codes with their meanings. */
static json_t *exit_codes_json(void)
{
    json_t *list = json_array();
    for (const struct exit_code *code = help_exit_codes(); code->meaning != NULL; code++) {
        json_t *json = json_pack("{s:i, s:s}", "exit", code->code, "meaning", code->meaning);
        if (json_array_append_new(list, json) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Whether the command is the one that was asked for, or of the noun. */
static bool is_asked_for(const struct command *command, const struct command *only, const char *noun)
{
    size_t length = noun == NULL ? 0 : strlen(noun);
    return (only == NULL || command == only) &&
           (noun == NULL || (strncmp(command->name, noun, length) == 0 && command->name[length] == ' '));
}

json_t *help_json(const struct command *only, const char *noun)
{
    size_t count;
    const struct command *all = command_table(&count);
    json_t *commands = json_array();
    for (size_t i = 0; i < count; i++) {
        if (is_asked_for(&all[i], only, noun) && json_array_append_new(commands, command_json(&all[i])) != 0) {
            json_decref(commands);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "name", "weir", "weir_version", WEIR_VERSION, "commands", commands,
                     "flags", flags_json(command_global_flags(), INVOCATION_FLAGS_MAX), "exit_codes", exit_codes_json(),
                     "settings", settings_json());
}
