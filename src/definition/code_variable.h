/* Environment variables with a value that a program runs, loads or takes as options that do so. Input must not reach them.
 *
 * A net for honest mistakes, like shell_rule.h: the list holds the variables of widespread programs. Pure; any thread. */
#ifndef WEIR_DEFINITION_CODE_VARIABLE_H
#define WEIR_DEFINITION_CODE_VARIABLE_H

#include <stdbool.h>

/* True for BASH_ENV, LD_PRELOAD, PYTHONSTARTUP, NODE_OPTIONS, PATH ... */
bool code_variable_is(const char *name);

#endif
