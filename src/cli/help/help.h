/* The help that a terminal shows: `weir help`, `weir COMMAND -h`. The other texts from the same table are in help_pages.h
 * (manual, docs/commands.md), help_json.h and completion.h.
 *
 * Each function appends to a text; the caller prints it. Pure: the same table gives the same text everywhere.
 */
#ifndef WEIR_CLI_HELP_H
#define WEIR_CLI_HELP_H

#include "base/text.h"
#include "cli/arguments/command_table.h"

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

#endif
