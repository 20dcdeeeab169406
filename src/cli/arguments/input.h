/* Reads of whole files, of stdin, and of the values of flags that may name them; all with a maximum size. */
#ifndef WEIR_CLI_ARGUMENTS_INPUT_H
#define WEIR_CLI_ARGUMENTS_INPUT_H

#include "base/text.h"

/* Appends the file (or stdin for "-") to `to`, up to its ceiling. WEIR_NOT_FOUND when it is not there, WEIR_SYSTEM when it
 * cannot be read, WEIR_PARAMS_TOO_LARGE over the ceiling. */
WEIR_MUST_CHECK enum weir_status input_read(const char *path, struct text *to, struct weir_error *error);
/* Appends the value of a flag: the text itself, @FILE, or - for stdin. Errors as of input_read(). */
WEIR_MUST_CHECK enum weir_status input_read_value(const char *value, struct text *to, struct weir_error *error);
/* The same for a value that must be JSON of any type; `what` names it in the message, WEIR_INVALID_PARAMS. */
WEIR_MUST_CHECK enum weir_status input_read_json(const char *value, const char *what, struct text *to,
                                                 struct weir_error *error);

#endif
