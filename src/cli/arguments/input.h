/* Reading files and stdin whole, with a ceiling. */
#ifndef WEIR_CLI_ARGUMENTS_INPUT_H
#define WEIR_CLI_ARGUMENTS_INPUT_H

#include "base/text.h"

/* Appends the file (or stdin for "-") to `to`, up to its ceiling. WEIR_NOT_FOUND when it is not there, WEIR_SYSTEM when it
 * cannot be read, WEIR_PARAMS_TOO_LARGE over the ceiling. */
WEIR_MUST_CHECK enum weir_status input_read(const char *path, struct text *to, struct weir_error *error);

#endif
