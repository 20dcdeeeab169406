/* Everything that is printed from the table of commands: help, manual pages, docs/commands.md, the table as JSON,
 * completion.
 *
 * Each function appends to a text; the caller prints it. Pure: the same table gives the same text everywhere.
 */
#ifndef WEIR_CLI_HELP_H
#define WEIR_CLI_HELP_H

#include <jansson.h>

#include "base/text.h"
#include "cli/arguments/command.h"

enum { HELP_COLUMNS = 80, HELP_BYTES_MAX = 1024 * 1024 };

struct exit_code {
    int code;
    const char *meaning;
};
/* Ended by one without a meaning. */
const struct exit_code *help_exit_codes(void);

/* All answer WEIR_OK, or WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status help_overview(struct text *to);
WEIR_MUST_CHECK enum weir_status help_noun(const char *noun, struct text *to);
WEIR_MUST_CHECK enum weir_status help_command(const struct command *command, struct text *to);
/* NULL when out of memory; the caller releases it. */
json_t *help_json(void);
/* A manual page in roff (man macros) for one command; NULL = weir(1) with all of them. */
WEIR_MUST_CHECK enum weir_status help_man(const struct command *command, struct text *to);
WEIR_MUST_CHECK enum weir_status help_markdown(struct text *to);
/* "bash", "zsh", "fish"; WEIR_INVALID_ARGUMENT for any other shell. */
WEIR_MUST_CHECK enum weir_status help_completion(const char *shell, struct text *to);

#endif
