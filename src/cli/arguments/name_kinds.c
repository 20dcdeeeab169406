/* Names of the store among flags and arguments.
 *
 * The kind follows from the names in the table of commands: an argument NAME is one of the command's noun, and an
 * argument ID is an execution. So a new command needs no entry here. Pure.
 */
#include "cli/arguments/name_kinds.h"

#include <string.h>

#include "store/store.h"

/* A flag that names a thing has the name of its kind. Flags with other names are not completed, and neither are workflows:
 * which of them a command takes depends on its workspace, which may stand behind the flag. */
int name_kind_of_flag(const struct flag *flag)
{
    return strcmp(flag->name, "workspace") == 0        ? (int)LIST_WORKSPACES
           : strcmp(flag->name, "plan") == 0           ? (int)LIST_PLANS
           : strcmp(flag->name, "executor-group") == 0 ? (int)LIST_GROUPS
                                                       : NO_NAMES;
}

/* An argument that may be repeated is of the same kind at each place behind it. A webhook is a hook. */
int name_kind_of_argument(const struct command *command, size_t before)
{
    static const struct {
        const char *noun;
        enum store_list_kind kind;
    } nouns[] = {{"workspace ", LIST_WORKSPACES}, {"workflow ", LIST_WORKFLOWS}, {"plan ", LIST_PLANS},
                 {"node ", LIST_NODES},           {"lock ", LIST_LOCKS},         {"token ", LIST_TOKENS},
                 {"hook ", LIST_HOOKS},           {"webhook ", LIST_HOOKS},      {"schedule ", LIST_SCHEDULES}};
    size_t index = 0;
    while (index < COMMAND_ARGUMENTS_MAX && command->arguments[index].name != NULL && index < before &&
           !command->arguments[index].many) {
        index++;
    }
    const char *name = index < COMMAND_ARGUMENTS_MAX ? command->arguments[index].name : NULL;
    if (name == NULL) {
        return NO_NAMES;
    }
    if (strcmp(name, "ID") == 0) {
        return LIST_EXECUTIONS;
    }
    if (strcmp(name, "WORKFLOW") == 0) {
        return LIST_WORKFLOWS;
    }
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0] && strcmp(name, "NAME") == 0; i++) {
        if (strncmp(command->name, nouns[i].noun, strlen(nouns[i].noun)) == 0) {
            return (int)nouns[i].kind;
        }
    }
    return NO_NAMES;
}
