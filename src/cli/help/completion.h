/* Completion for bash, zsh and fish, from the table of commands. */
#ifndef WEIR_CLI_HELP_COMPLETION_H
#define WEIR_CLI_HELP_COMPLETION_H

#include "base/text.h"

/* "bash", "zsh", "fish"; WEIR_INVALID_ARGUMENT for any other shell. */
WEIR_MUST_CHECK enum weir_status help_completion(const char *shell, struct text *to);

#endif
