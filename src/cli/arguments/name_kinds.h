/* Which flags and arguments are names of the store, and of which list: completion offers these. Pure; any thread. */
#ifndef WEIR_CLI_ARGUMENTS_NAME_KINDS_H
#define WEIR_CLI_ARGUMENTS_NAME_KINDS_H

#include "cli/arguments/command_table.h"

enum { NO_NAMES = -1 };

/* The enum store_list_kind whose names the value of the flag is one of, or NO_NAMES. */
int name_kind_of_flag(const struct flag *flag);
/* The same for the argument that has `before` arguments of the command in front of it. */
int name_kind_of_argument(const struct command *command, size_t before);

#endif
