/* Manual pages in roff, and docs/commands.md in Markdown, from the table of commands. */
#ifndef WEIR_CLI_HELP_HELP_PAGES_H
#define WEIR_CLI_HELP_HELP_PAGES_H

#include "base/text.h"
#include "cli/arguments/command_table.h"

/* A manual page in roff (man macros) for one command; NULL = weir(1) with all of them. */
WEIR_MUST_CHECK enum weir_status help_man(const struct command *command, struct text *to);
/* docs/commands.md. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status help_markdown(struct text *to);

#endif
