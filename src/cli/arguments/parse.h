/* From the arguments of a command line to a checked invocation: one pass collects names and flags, a second one holds them
 * against the table. No global state, no output; each fault comes back as WEIR_INVALID_ARGUMENT with a hint. */
#ifndef WEIR_CLI_ARGUMENTS_PARSE_H
#define WEIR_CLI_ARGUMENTS_PARSE_H

#include "cli/arguments/command.h"

enum { COMMAND_WORDS_MAX = 20000, COMMAND_TRIES_MAX = 64 };

/* Fills `invocation` (its arena is set by the caller, the rest is zero). `words` excludes the program's name and must
 * outlive the invocation. With wants_help or wants_version nothing else is checked. */
WEIR_MUST_CHECK enum weir_status command_parse(struct invocation *invocation, size_t count, const char *const *words,
                                               struct weir_error *error);
/* The format that the arguments ask for, as far as faulty arguments show it: for the message about them. */
enum output_format command_guess_format(size_t count, const char *const *words);
/* "weir enqueue -w NAME WORKFLOW [flags]" for the command; `to` holds `size` bytes. */
void command_usage(const struct command *command, char *to, size_t size);

#endif
