/* A text as one argument of a shell's command line, for the commands that messages suggest. */
#ifndef WEIR_BASE_SHELL_QUOTE_H
#define WEIR_BASE_SHELL_QUOTE_H

/* Bytes, with the NUL: a hint (WEIR_ERROR_HINT_MAX) holds it and the longest command. */
enum { SHELL_WORD_MAX = 192 };

/* As it is where every shell takes it for itself, else in single quotes. `to` holds the answer unless that is the text
 * itself. A text that does not fit is answered by "NAME", so that no user runs half of it. Its safety on a terminal is the
 * caller's. */
const char *shell_quote(const char *text, char to[SHELL_WORD_MAX]);

#endif
