/* `weir __complete LINE`, LINE up to the cursor: the names that a shell offers for the argument under the cursor, from the
 * store.
 *
 * The completion scripts (cli/help/completion.h) call it. It is no verb of the table: it has no help, and no error line,
 * because a shell would print it into the line that is being typed.
 */
#ifndef WEIR_CLI_VERBS_COMPLETION_NAMES_H
#define WEIR_CLI_VERBS_COMPLETION_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

enum {
    COMPLETION_DEADLINE_US = 90000,    /* from the first read of a setting to the last name; then it prints none */
    COMPLETION_LINE_BYTES_MAX = 65536, /* of a longer line the shell gets no names */
    COMPLETION_WORDS_MAX = 256,        /* of a line */
    COMPLETION_NAMES_MAX = 1000        /* that are printed */
};

/* Whether the arguments of the process ask for names: "__complete" in front. */
bool completion_is_asked(size_t count, const char *const *arguments);
/* Prints the names, one a line, and returns the exit code. 0 = the argument is a name of the store, also when none fits
 * or the deadline has passed. 1 = it is another kind of argument, for which the shell may offer files. Opens the store
 * that the line, the environment or weir.yaml names, to read only; makes nothing. Prints nothing but names. Ends the
 * process when the deadline passes. */
int completion_print_names(size_t count, const char *const *arguments, struct arena *arena);

#endif
