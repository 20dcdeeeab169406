/* Which arguments of a command are code for a shell. Input must never become code, so a script is passed on as it was
 * written and an expression in it is refused. The value belongs behind the script, as an argument ("$1").
 *
 *     sh   -ec     'wc -c < "$1"'   script-name   ${.input.file}
 *          option  script           argument      argument
 *
 * A net for honest mistakes, not a jail: a user that may write a definition may run any program. Pure; any thread. */
#ifndef WEIR_DEFINITION_SHELL_RULE_H
#define WEIR_DEFINITION_SHELL_RULE_H

#include <stdbool.h>
#include <stddef.h>

enum shell_role {
    SHELL_ARGUMENT, /* anything may stand here */
    SHELL_OPTION,   /* a shell looks for options here: an expression could turn into "-c" */
    SHELL_SCRIPT    /* code */
};

/* Fills `roles` (`count` entries). Knows sh, bash, dash, ash, zsh, ksh, mksh, fish by their last path component, anywhere
 * in the command (`env sh -c`, `timeout 5 bash -ec`), a command that is itself an expression, and `env -S`. */
void shell_find_roles(const char *const *arguments, size_t count, enum shell_role *roles);
/* True when a shell of this command has no script, so that it runs its standard input. */
bool shell_runs_its_input(const char *const *arguments, size_t count);
/* Finds "${", optional spaces, "." - the start of an expression. */
bool shell_script_has_expression(const char *script, size_t length, size_t *ret_offset);

#endif
