/* A text as one scalar of a YAML file that reads back as the same text. */
#ifndef WEIR_CLI_OUTPUT_YAML_QUOTE_H
#define WEIR_CLI_OUTPUT_YAML_QUOTE_H

#include "base/arena.h"

/* As it is where it is unambiguous, else in double quotes; characters that no terminal should get are
 * escaped. Good in [ ] as well. `text` is UTF-8; other bytes become U+FFFD. In the arena; "\"\"" when that is full. */
const char *yaml_quote(struct arena *arena, const char *text);

#endif
