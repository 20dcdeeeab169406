/* From the arguments of a command line to a checked invocation: one pass collects names and flags, a second one holds them
 * against the table. No global state, no output; each fault comes back as WEIR_INVALID_ARGUMENT with a hint. */
#ifndef WEIR_CLI_ARGUMENTS_PARSE_H
#define WEIR_CLI_ARGUMENTS_PARSE_H

#include "cli/arguments/invocation.h"

enum { COMMAND_WORDS_MAX = 20000, COMMAND_TRIES_MAX = 128 };

/* Fills `invocation` (its arena is set by the caller, the rest is zero). `arguments` excludes the program's name and
 * must outlive the invocation. With wants_help or wants_version nothing else is checked. */
WEIR_MUST_CHECK enum weir_status command_parse(struct invocation *invocation, size_t count, const char *const *words,
                                               struct weir_error *error);
/* Whether the arguments ask for JSON, as far as faulty arguments show it: for the message about them. */
bool command_asks_for_json(size_t count, const char *const *words);
/* The flag of the command, or a global one; `command` NULL = of any command. By name, or by letter when `name` is NULL.
 * NULL when there is none. Static. */
const struct flag *parse_find_flag(const struct command *command, const char *name, char letter);

#endif
